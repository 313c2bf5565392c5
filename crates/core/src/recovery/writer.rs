//! Writes the blocks of a checkpoint, and puts the file in place when it is whole.

use super::format::{self, BlockHeader, Counts, Header, Kind, Seed};
use crate::env::{FileWriter, Files};
use crate::limits;
use std::io;

/// A checkpoint being written.
pub struct Writer {
    file: Box<dyn FileWriter>,
    lsn: u64,
    seed: Seed,
    length: u64,
    /// How much was written of everything; those who write it count it.
    pub counts: Counts,
    buffer: Vec<u8>,
}

impl Writer {
    /// Makes the file, under the name of an unfinished one.
    pub fn create(files: &dyn Files, header: &Header) -> io::Result<Writer> {
        let mut file = files.create(&format::unfinished_name_of(header.lsn))?;
        let (bytes, seed) = header.encode();
        file.write_at(0, &bytes)?;
        let length = bytes.len() as u64;
        Ok(Writer { file, lsn: header.lsn, seed, length, counts: Counts::default(), buffer: Vec::new() })
    }

    /// Bytes written so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Writes a block.
    pub fn block(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        if payload.len() > limits::CHECKPOINT_BLOCK_BYTES_MAX {
            let text = format!("a block of {} bytes is too long for a checkpoint", payload.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let number = u32::try_from(self.counts.blocks)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "too many blocks for a checkpoint"))?;
        let header = BlockHeader { kind, length: payload.len(), crc: crc32c::crc32c(payload) };
        self.buffer.clear();
        self.buffer.extend_from_slice(&header.encode(self.seed, number));
        self.buffer.extend_from_slice(payload);
        self.file.write_at(self.length, &self.buffer)?;
        self.length += self.buffer.len() as u64;
        self.counts.blocks += 1;
        Ok(())
    }

    /// Ends the file and puts it in place, durably. Gives its length.
    pub fn finish(mut self, files: &dyn Files) -> io::Result<u64> {
        let counts = self.counts.encode();
        self.block(Kind::End, &counts)?;
        self.file.sync()?;
        drop(self.file);
        files.rename(&format::unfinished_name_of(self.lsn), &format::name_of(self.lsn))?;
        files.sync_directory()?;
        Ok(self.length)
    }
}
