//! The files of a real directory.

use super::files::{FileReader, FileWriter, Files};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The files in one directory of the operating system.
pub struct DirectoryFiles {
    path: PathBuf,
}

impl DirectoryFiles {
    /// The files in `path`, which must exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        DirectoryFiles { path: path.into() }
    }

    /// Where they are.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Files for DirectoryFiles {
    fn place(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            // Names that are not text are none of ours.
            if let (true, Ok(name)) = (is_file(&entry)?, entry.file_name().into_string()) {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn FileReader>> {
        Ok(Box::new(Reading(File::open(self.path.join(name))?)))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn FileWriter>> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(self.path.join(name))?;
        Ok(Box::new(Writing(file)))
    }

    fn modify(&self, name: &str) -> io::Result<Box<dyn FileWriter>> {
        Ok(Box::new(Writing(OpenOptions::new().write(true).open(self.path.join(name))?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

/// Whether it is a file or leads to one. A link that leads nowhere counts: to pass over it would be to lose what it led to.
fn is_file(entry: &fs::DirEntry) -> io::Result<bool> {
    let kind = entry.file_type()?;
    if !kind.is_symlink() {
        return Ok(kind.is_file());
    }
    match fs::metadata(entry.path()) {
        Ok(target) => Ok(target.is_file()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

struct Reading(File);

impl FileReader for Reading {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.0.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

struct Writing(File);

impl FileWriter for Writing {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset).map_err(full)
    }

    fn reserve(&mut self, length: u64) -> io::Result<()> {
        reserve(&self.0, length).map_err(full)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length).map_err(full)
    }

    fn sync(&mut self) -> io::Result<()> {
        // Not `full`: whatever a failed sync says, what was written may be gone.
        self.0.sync_data()
    }
}

/// A quota that is used up is a full disk to whoever writes.
fn full(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::QuotaExceeded => ErrorKind::StorageFull.into(),
        _ => error,
    }
}

/// Not `posix_fallocate`, which writes the whole range where the file system cannot reserve.
#[cfg(target_os = "linux")]
fn reserve(file: &File, length: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let length = libc::off64_t::try_from(length).map_err(|_| io::Error::from(ErrorKind::InvalidInput))?;
    loop {
        // SAFETY: fallocate takes a descriptor, which is open as long as `file` is borrowed, and numbers.
        if unsafe { libc::fallocate64(file.as_raw_fd(), 0, 0, length) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Err(ErrorKind::Unsupported.into()),
            _ => return Err(error),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_file: &File, _length: u64) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(name: &str) -> DirectoryFiles {
        let path = std::env::temp_dir().join(format!("peryton-files-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        DirectoryFiles::new(path)
    }

    fn content(files: &dyn Files, name: &str) -> Vec<u8> {
        let file = files.open(name).unwrap();
        let mut bytes = vec![0; file.length().unwrap() as usize + 10];
        let read = file.read_at(0, &mut bytes).unwrap();
        bytes.truncate(read);
        bytes
    }

    #[test]
    fn what_is_written_is_read_and_gaps_are_zeros() {
        let files = fresh("read");
        let mut file = files.create("a").unwrap();
        file.write_at(3, b"xyz").unwrap();
        file.sync().unwrap();
        assert_eq!(b"\0\0\0xyz".to_vec(), content(&files, "a"));
        file.truncate(4).unwrap();
        files.modify("a").unwrap().write_at(0, b"AB").unwrap();
        assert_eq!(b"AB\0x".to_vec(), content(&files, "a"));
        fs::remove_dir_all(files.path()).unwrap();
    }

    #[test]
    fn reserving_keeps_what_was_written() {
        let files = fresh("reserve");
        let mut file = files.create("a").unwrap();
        file.write_at(0, b"abc").unwrap();
        match file.reserve(10_000) {
            Ok(()) => assert!(content(&files, "a")[3..].iter().all(|&byte| byte == 0)),
            Err(error) => assert_eq!(ErrorKind::Unsupported, error.kind()),
        }
        assert_eq!(b"abc", &content(&files, "a")[..3]);
        fs::remove_dir_all(files.path()).unwrap();
    }

    #[test]
    fn what_a_link_leads_to_is_a_file_of_the_directory() {
        let (files, elsewhere) = (fresh("links"), fresh("elsewhere"));
        elsewhere.create("there").unwrap().write_at(0, b"moved").unwrap();
        std::os::unix::fs::symlink(elsewhere.path().join("there"), files.path().join("good")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path().join("gone"), files.path().join("dangling")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), files.path().join("folder")).unwrap();
        let mut names = files.list().unwrap();
        names.sort();
        assert_eq!(vec!["dangling".to_string(), "good".to_string()], names);
        assert_eq!(b"moved".to_vec(), content(&files, "good"));
        fs::remove_dir_all(files.path()).unwrap();
        fs::remove_dir_all(elsewhere.path()).unwrap();
    }

    #[test]
    fn names_are_made_moved_and_removed() {
        let files = fresh("names");
        for name in ["a", "b"] {
            files.create(name).unwrap().write_at(0, name.as_bytes()).unwrap();
        }
        fs::create_dir(files.path().join("folder")).unwrap();
        files.rename("a", "b").unwrap();
        files.sync_directory().unwrap();
        assert_eq!(vec!["b".to_string()], files.list().unwrap());
        assert_eq!(b"a".to_vec(), content(&files, "b"));
        files.remove("b").unwrap();
        assert_eq!(ErrorKind::NotFound, files.open("b").map(|_| ()).unwrap_err().kind());
        assert_eq!(ErrorKind::NotFound, files.modify("b").map(|_| ()).unwrap_err().kind());
        fs::remove_dir_all(files.path()).unwrap();
    }
}
