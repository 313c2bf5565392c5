//! A data directory and who it belongs to: one store of one process at a time.

use crate::error::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

const LOCK_FILE: &str = "LOCK";

/// A directory that is ours until this is dropped.
pub struct Directory {
    path: PathBuf,
    /// Holds the lock, and our pid for whoever comes second. The lock goes with the process, however it ends. None where
    /// nothing can be written.
    lock: Option<File>,
    /// The process that took it.
    owner: u32,
}

impl Directory {
    /// Makes the directory if need be, and takes it.
    ///
    /// # Errors
    /// It cannot be made or written to, or another store has it.
    pub fn claim(path: &Path) -> Result<Directory> {
        let failed = |error: io::Error| unusable(path, &error);
        make(path).map_err(failed)?;
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
        // On a full disk there is no room for the pid. Without it the message is only a little poorer.
        let _ = lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| writeln!(lock, "{}", std::process::id()));
        Ok(Directory { path: path.to_path_buf(), lock: Some(lock), owner: std::process::id() })
    }

    /// Takes a directory only to read what is in it. Where nothing may be written, as on a disk of backups, this needs no
    /// lock file; nor can another store be at work there.
    ///
    /// # Errors
    /// It is none, or another store has it.
    pub fn claim_to_read(path: &Path) -> Result<Directory> {
        fs::read_dir(path).map_err(|error| unusable(path, &error))?;
        match OpenOptions::new().write(true).create(true).truncate(false).open(path.join(LOCK_FILE)) {
            Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {}
            _ => return Directory::claim(path),
        }
        let lock = match File::open(path.join(LOCK_FILE)) {
            Ok(lock) if !try_lock(&lock).map_err(|error| unusable(path, &error))? => return Err(taken(path, "")),
            Ok(lock) => Some(lock),
            Err(_) => None,
        };
        Ok(Directory { path: path.to_path_buf(), lock, owner: std::process::id() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, if nothing is in it any more.
    pub fn remove(self) {
        // What cannot be removed is in nobody's way.
        let _ = fs::remove_file(self.path.join(LOCK_FILE)).and_then(|()| fs::remove_dir(&self.path));
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A forked child shares the open file, so closing ours would leave the directory locked until the child ends;
        // and what the child drops must not unlock ours.
        if let Some(lock) = &self.lock
            && self.owner == std::process::id()
        {
            // SAFETY: flock takes a descriptor, which is open as long as `lock` is, and flags.
            unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_UN) };
        }
    }
}

/// Makes a directory, and those that it is in as far as they are not there, so that no crash takes it back: what is
/// synced in a directory is lost with it.
///
/// # Errors
/// It cannot be made, or not be made durable.
pub fn make(path: &Path) -> io::Result<()> {
    let missing = path.ancestors().take_while(|path| !path.exists()).count();
    fs::create_dir_all(path)?;
    // The last one also if it was there: who made it may have been cut short before this.
    path.ancestors().take(missing.max(1)).try_for_each(sync_parent)
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        // The root has none.
        None => return Ok(()),
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
    };
    match File::open(parent).and_then(|parent| parent.sync_all()) {
        // Whoever may not look into it cannot have made anything there, or has to rely on others for that.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        result => result,
    }
}

fn unusable(path: &Path, error: &io::Error) -> Error {
    Error::err(format!("cannot use the directory {}: {error}", path.display()))
}

/// Takes the lock of an open file; false if somebody else has it, in this process too.
fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: flock takes a descriptor, which is open as long as `file` is borrowed, and flags.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.kind() == ErrorKind::WouldBlock => Ok(false),
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
    fn where_nothing_can_be_written_reading_needs_no_lock() {
        // Not even root may make a file there.
        let path = Path::new("/sys");
        if path.is_dir() {
            assert!(Directory::claim(path).is_err());
            Directory::claim_to_read(path).unwrap();
        }
        let path = fresh("read");
        assert!(Directory::claim_to_read(&path).is_err(), "it is not there");
        let owner = Directory::claim(&path).unwrap();
        assert!(Directory::claim_to_read(&path).is_err(), "it is in use");
        drop(owner);
        let reader = Directory::claim_to_read(&path).unwrap();
        assert!(Directory::claim(&path).is_err(), "it is being read");
        drop(reader);
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn directories_are_made_as_deep_as_need_be() {
        let path = fresh("made");
        for _ in 0..2 {
            make(&path.join("a/b")).unwrap();
            assert!(path.join("a/b").is_dir());
        }
        fs::write(path.join("file"), "").unwrap();
        assert!(make(&path.join("file/c")).is_err());
        make(Path::new(".")).unwrap();
        make(Path::new("/")).unwrap();
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn what_is_no_directory_is_an_error_that_names_it() {
        let error = Directory::claim(Path::new("/dev/null/data")).map(|_| ()).unwrap_err();
        assert!(error.message.contains("/dev/null/data"), "{error}");
    }
}
