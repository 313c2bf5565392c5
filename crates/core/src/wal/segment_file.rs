//! The segment that is being written: its file, its end and the room that is reserved for it.

use super::format::{self, GROUP_HEADER_BYTES, GroupHeader, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::queue::Batch;
use super::{Lsn, StoreId, segment};
use crate::env::{FileWriter, Files};
use std::io::{self, ErrorKind};

/// Why something was not written.
#[derive(Debug)]
pub enum Trouble {
    /// The disk has no room; the same may be tried again.
    Full,
    /// Nobody knows what is on the disk; in words.
    Broken(String),
}

impl Trouble {
    /// What an error while writing means. Not for a sync, which loses what was written whatever it says.
    fn of(name: &str, doing: &str, error: &io::Error) -> Trouble {
        match error.kind() {
            ErrorKind::StorageFull => Trouble::Full,
            _ => Trouble::broken(name, doing, error),
        }
    }

    fn broken(name: &str, doing: &str, error: &io::Error) -> Trouble {
        Trouble::Broken(format!("cannot {doing} {name}: {error}"))
    }
}

static ZEROS: [u8; 256 << 10] = [0; 256 << 10];

/// A segment that is being written.
pub struct SegmentFile {
    file: Box<dyn FileWriter>,
    /// Its name, when it has been given it.
    pub name: String,
    /// LSN of its first record.
    pub first: Lsn,
    seed: u32,
    /// Where the next group goes.
    pub end: u64,
    /// The disk has room up to here; nothing is known of it where reserving is unsupported.
    reserved: Option<u64>,
    /// Zeros or groups were written up to here.
    zeroed: u64,
}

impl SegmentFile {
    /// Makes a segment with its header, not durable yet and without its name.
    pub fn create(files: &dyn Files, id: StoreId, first: Lsn) -> Result<SegmentFile, Trouble> {
        let header = SegmentHeader { id, first };
        let name = segment::new_name(first);
        let mut file = files.create(&name).map_err(|error| Trouble::of(&name, "create", &error))?;
        file.write_at(0, &header.encode()).map_err(|error| Trouble::of(&name, "write", &error))?;
        let end = SEGMENT_HEADER_BYTES as u64;
        let name = segment::name(first);
        Ok(SegmentFile { file, name, first, seed: header.seed(), end, reserved: Some(end), zeroed: end })
    }

    /// Makes sure that there is room for so many bytes more: for `wished` if it can be had, else for `needed`.
    pub fn reserve(&mut self, needed: u64, wished: u64) -> Result<(), Trouble> {
        for bytes in [wished.max(needed), needed] {
            match self.reserved {
                Some(reserved) if reserved < self.end + needed => {}
                _ => return Ok(()),
            }
            match self.file.reserve(self.end + bytes) {
                Ok(()) => self.reserved = Some(self.end + bytes),
                Err(error) if error.kind() == ErrorKind::Unsupported => self.reserved = None,
                Err(error) if error.kind() == ErrorKind::StorageFull => {}
                Err(error) => return Err(Trouble::broken(&self.name, "reserve room for", &error)),
            }
        }
        match self.reserved {
            Some(reserved) if reserved < self.end + needed => Err(Trouble::Full),
            _ => Ok(()),
        }
    }

    /// Writes a group, telling that the records up to `durable` are durable.
    pub fn write(&mut self, batch: &mut Batch, durable: Lsn) -> Result<(), Trouble> {
        let (room, payload) = batch.bytes.split_at_mut(GROUP_HEADER_BYTES);
        let header = GroupHeader {
            first: batch.first,
            durable,
            length: payload.len() as u64,
            records: batch.records,
            payload_crc: format::payload_crc(payload),
        };
        room.copy_from_slice(&header.encode(self.seed));
        self.put(&batch.bytes)
    }

    /// Writes the group without records that a closed log ends with.
    pub fn write_end(&mut self, durable: Lsn) -> Result<(), Trouble> {
        self.write(&mut Batch::empty(durable + 1), durable)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        self.file.write_at(self.end, bytes).map_err(|error| Trouble::of(&self.name, "write", &error))?;
        self.end += bytes.len() as u64;
        self.zeroed = self.zeroed.max(self.end);
        Ok(())
    }

    /// Writes zeros where the next groups will be, `ahead` bytes from the end of a group of `bytes`, if few of that size
    /// still go into those that are there.
    pub fn put_zeros(&mut self, bytes: usize, ahead: usize) -> Result<(), Trouble> {
        let ahead = ahead.min(ZEROS.len());
        // For larger groups it would double what is written and gain little.
        let pays = bytes <= ahead / 8 && self.zeroed < self.end + bytes as u64;
        if !pays || self.reserved.is_none_or(|reserved| reserved < self.end + ahead as u64) {
            return Ok(());
        }
        let from = self.zeroed;
        let zeros = &ZEROS[..(self.end + ahead as u64 - from) as usize];
        match self.file.write_at(from, zeros) {
            Ok(()) => self.zeroed = from + zeros.len() as u64,
            Err(error) if error.kind() == ErrorKind::StorageFull => {}
            Err(error) => return Err(Trouble::broken(&self.name, "write", &error)),
        }
        Ok(())
    }

    /// Makes all that was written durable.
    pub fn sync(&mut self) -> Result<(), Trouble> {
        self.file.sync().map_err(|error| Trouble::broken(&self.name, "sync", &error))
    }

    /// Gives reserved room back: the file ends where its groups do.
    pub fn trim(&mut self) -> Result<(), Trouble> {
        self.file.truncate(self.end).map_err(|error| Trouble::of(&self.name, "truncate", &error))?;
        (self.reserved, self.zeroed) = (self.reserved.map(|_| self.end), self.end);
        Ok(())
    }
}
