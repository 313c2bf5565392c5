//! Reads the blocks of a checkpoint one after another, and believes none that is not intact.

use super::format::{BLOCK_HEADER_BYTES, BlockHeader, HEADER_BYTES, Header, Kind, Seed};
use super::restore::RestoreError;
use crate::env::{FileReader, Files};

/// A checkpoint being read.
pub struct Reader {
    file: Box<dyn FileReader>,
    name: String,
    /// The file's header.
    pub header: Header,
    seed: Seed,
    length: u64,
    offset: u64,
    blocks: u32,
    is_over: bool,
}

/// A block.
pub struct Block {
    /// What is in it.
    pub kind: Kind,
    /// The place of its payload in the file.
    pub offset: u64,
    /// The payload.
    pub payload: Vec<u8>,
}

impl Reader {
    /// Opens a file and reads its header.
    pub fn open(files: &dyn Files, name: &str) -> Result<Reader, RestoreError> {
        let failed = |error| RestoreError::io(name, 0, error);
        let file = files.open(name).map_err(failed)?;
        let length = file.length().map_err(failed)?;
        let mut bytes = [0; HEADER_BYTES];
        if file.read_at(0, &mut bytes).map_err(failed)? < HEADER_BYTES {
            return Err(RestoreError::damaged(name, 0, "the file ends within its header"));
        }
        let (header, seed) =
            Header::decode(&bytes).map_err(|(at, what)| RestoreError::damaged(name, at as u64, what))?;
        let (offset, name) = (HEADER_BYTES as u64, name.to_string());
        Ok(Reader { file, name, header, seed, length, offset, blocks: 0, is_over: false })
    }

    /// Bytes of the file.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Bytes read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Blocks read.
    pub fn blocks(&self) -> u64 {
        self.blocks.into()
    }

    /// An error about bytes of the file.
    pub fn damaged(&self, offset: u64, what: impl Into<String>) -> RestoreError {
        RestoreError::damaged(&self.name, offset, what)
    }

    /// The next block; none after the end block.
    pub fn next(&mut self) -> Result<Option<Block>, RestoreError> {
        if self.is_over {
            return Ok(None);
        }
        let start = self.offset;
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        self.read(&mut bytes)?;
        let header = BlockHeader::decode(&bytes, self.seed, self.blocks)
            .ok_or_else(|| self.damaged(start, "the header of a block is damaged"))?;
        // Nothing is allocated for more than the file can have.
        if header.length as u64 > self.length.saturating_sub(self.offset) {
            return Err(self.damaged(start, "the file ends within a block"));
        }
        let offset = self.offset;
        let mut payload = vec![0; header.length];
        self.read(&mut payload)?;
        if crc32c::crc32c(&payload) != header.crc {
            return Err(self.damaged(offset, "a block is damaged"));
        }
        self.blocks = self.blocks.checked_add(1).ok_or_else(|| self.damaged(start, "too many blocks"))?;
        if header.kind == Kind::End {
            self.is_over = true;
            if self.offset != self.length {
                return Err(self.damaged(self.offset, "bytes behind the end"));
            }
        }
        Ok(Some(Block { kind: header.kind, offset, payload }))
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<(), RestoreError> {
        let read = self.file.read_at(self.offset, buffer);
        let read = read.map_err(|error| RestoreError::io(&self.name, self.offset, error))?;
        if read < buffer.len() {
            return Err(self.damaged(self.offset, "the file ends early"));
        }
        self.offset += read as u64;
        Ok(())
    }
}
