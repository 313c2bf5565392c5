//! A data directory and who it belongs to: one store of one process at a time.

use crate::error::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

const LOCK_FILE: &str = "LOCK";

/// A directory that is ours until this is dropped.
pub struct Directory {
    path: PathBuf,
    /// Holds the lock, and our pid for whoever comes second. The lock goes with the process, however it ends.
    lock: File,
    /// The process that took it.
    owner: u32,
}

impl Directory {
    /// Makes the directory if need be, and takes it.
    ///
    /// # Errors
    /// It cannot be made or written to, or another store has it.
    pub fn claim(path: &Path) -> Result<Directory> {
        let failed = |error: io::Error| Error::err(format!("cannot use the directory {}: {error}", path.display()));
        fs::create_dir_all(path).map_err(failed)?;
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path.join(LOCK_FILE))
            .map_err(failed)?;
        if !try_lock(&lock).map_err(failed)? {
            let mut owner = String::new();
            // Without a pid to tell, the message is only a little poorer.
            let _ = lock.read_to_string(&mut owner);
            return Err(taken(path, owner.trim()));
        }
        lock.set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| writeln!(lock, "{}", std::process::id()))
            .map_err(failed)?;
        Ok(Directory { path: path.to_path_buf(), lock, owner: std::process::id() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A forked child shares the open file, so closing ours would leave the directory locked until the child ends;
        // and what the child drops must not unlock ours.
        if self.owner == std::process::id() {
            // SAFETY: flock takes a descriptor, which is open as long as `self.lock` is, and flags.
            unsafe { libc::flock(self.lock.as_raw_fd(), libc::LOCK_UN) };
        }
    }
}

/// Takes the lock of an open file; false if somebody else has it, in this process too.
fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: flock takes a descriptor, which is open as long as `file` is borrowed, and flags.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        error => Err(error),
    }
}

fn taken(path: &Path, owner: &str) -> Error {
    let path = path.display();
    let who = match owner.parse::<u32>() {
        Ok(pid) if pid == std::process::id() => "this process".to_string(),
        Ok(pid) => format!("process {pid}"),
        Err(_) => "another process".to_string(),
    };
    Error::err(format!("the directory {path} is open in {who}; serve the store there and connect to it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("peryton-directory-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn a_directory_is_made_and_belongs_to_one_store_at_a_time() {
        let path = fresh("one").join("deep");
        let first = Directory::claim(&path).unwrap();
        assert_eq!(path, first.path());
        let error = Directory::claim(&path).map(|_| ()).unwrap_err();
        assert!(error.message.contains("is open in this process"), "{error}");
        drop(first);
        Directory::claim(&path).unwrap();
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn the_lock_of_an_owner_that_is_gone_counts_for_nothing() {
        let path = fresh("gone");
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join(LOCK_FILE), "1234567890123\n").unwrap();
        Directory::claim(&path).unwrap();
        let owner = fs::read_to_string(path.join(LOCK_FILE)).unwrap();
        assert_eq!(format!("{}\n", std::process::id()), owner);
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn what_is_no_directory_is_an_error_that_names_it() {
        let error = Directory::claim(Path::new("/dev/null/data")).map(|_| ()).unwrap_err();
        assert!(error.message.contains("/dev/null/data"), "{error}");
    }
}
