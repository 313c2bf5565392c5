//! The files of a data directory as log and checkpoints see them. A test can replace them by files that lose, tear and
//! refuse what it wants.
//!
//! What survives a crash is only what was synced: the bytes of a file by [`FileWriter::sync`], its name (made, renamed
//! or removed) by [`Files::sync_directory`].

use std::io;
use std::path::Path;

/// Where files are, as the end of a message about one: " in ...", or nothing.
pub fn whereabouts(files: &dyn Files) -> String {
    files.place().map_or_else(String::new, |path| format!(" in {}", path.display()))
}

/// A data directory. Names are of files in it, never paths. Used from several threads.
pub trait Files: Send + Sync {
    /// Where they are, if that is somewhere; for messages.
    fn place(&self) -> Option<&Path> {
        None
    }

    /// The names of all files, in no order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens a file to read.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    fn open(&self, name: &str) -> io::Result<Box<dyn FileReader>>;

    /// Makes an empty file to write, in the place of one with this name.
    fn create(&self, name: &str) -> io::Result<Box<dyn FileWriter>>;

    /// Opens a file that exists to write in it.
    fn modify(&self, name: &str) -> io::Result<Box<dyn FileWriter>>;

    /// Gives a file another name, in the place of one that has it: at once, so that whoever looks sees one or the other.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes all that happened to names durable.
    fn sync_directory(&self) -> io::Result<()>;
}

/// A file open to read.
pub trait FileReader: Send + Sync {
    /// Its length, bytes.
    fn length(&self) -> io::Result<u64>;

    /// Reads from `offset` on until `buffer` is full or the file ends; gives the number of bytes read.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

/// A file open to write.
pub trait FileWriter: Send {
    /// Writes all of `bytes` at `offset`, which may lie behind the end: the bytes between read as zeros.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes sure that the disk has room for the file up to `length`; what was not written reads as zeros.
    ///
    /// # Errors
    /// `StorageFull` if it has not; `Unsupported` where this cannot be had.
    fn reserve(&mut self, length: u64) -> io::Result<()>;

    /// Sets the file's length, bytes.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// Makes all that was written durable. After an error nobody knows what is: the file must not be trusted beyond what
    /// was synced before.
    fn sync(&mut self) -> io::Result<()>;
}
