//! A file read from front to back through a buffer.

use crate::env::FileReader;
use std::io;

/// Read at once, bytes.
const READ_BYTES: usize = 1 << 20;

/// A part of a file in memory.
pub struct Window {
    file: Box<dyn FileReader>,
    /// Length of the file, bytes.
    pub length: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    pub fn new(file: Box<dyn FileReader>) -> io::Result<Window> {
        let length = file.length()?;
        Ok(Window { file, length, start: 0, bytes: Vec::new() })
    }

    /// The bytes from `offset` on; nothing if the file ends before.
    pub fn get(&mut self, offset: u64, length: u64) -> io::Result<Option<&[u8]>> {
        let Some(end) = offset.checked_add(length).filter(|end| *end <= self.length) else { return Ok(None) };
        if offset < self.start || end > self.start + self.bytes.len() as u64 {
            // No more than the file has is allocated.
            let wanted = length.max(READ_BYTES as u64).min(self.length - offset);
            self.bytes.resize(usize::try_from(wanted).map_err(|_| io::ErrorKind::OutOfMemory)?, 0);
            self.bytes.shrink_to(READ_BYTES);
            let read = self.file.read_at(offset, &mut self.bytes)?;
            self.bytes.truncate(read);
            self.start = offset;
            if (read as u64) < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let at = (offset - self.start) as usize;
        Ok(Some(&self.bytes[at..at + length as usize]))
    }

    /// The bytes from `offset` on that are in memory, one at least; nothing at the file's end.
    pub fn some(&mut self, offset: u64) -> io::Result<Option<&[u8]>> {
        if offset >= self.length {
            return Ok(None);
        }
        self.get(offset, 1)?;
        let at = (offset - self.start) as usize;
        Ok(Some(&self.bytes[at..]))
    }
}
