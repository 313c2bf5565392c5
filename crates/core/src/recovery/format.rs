//! The bytes of a checkpoint: its name, its header and the headers of its blocks (docs/formats/checkpoint.md).
//!
//! ```text
//! file    header, blocks, the last of which is the end block
//! header  "PERYCKPT" | version 4 | zero 4 | store 16 | LSN 8 | created 8 | CRC 4
//! block   kind 1 | zero 3 | number 4 | length 4 | CRC of the payload 4 | CRC of this header 4 | payload
//! ```
//! Numbers are little endian. A block's own CRC goes on from that of the file's header, so that a block of another
//! checkpoint is none of this one, and blocks are numbered, so that none is missing or comes twice.

use crate::env::Files;
use crate::limits;
use std::io;

/// Bytes of the file's header.
pub const HEADER_BYTES: usize = 52;
/// Bytes of a block's header.
pub const BLOCK_HEADER_BYTES: usize = 20;
const MAGIC: &[u8; 8] = b"PERYCKPT";
const VERSION: u32 = 1;
/// No store makes so many changes; from here on numbers could run over.
const LSN_END: u64 = 1 << 62;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What belongs to neither keys nor tables: name, bytes.
    Things = 1,
    /// Definitions of tables and views.
    Definitions = 2,
    /// Rows of one table.
    Rows = 3,
    /// Keys of one database.
    Keys = 4,
    /// How much there is of everything. Nothing follows.
    End = 5,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        [Kind::Things, Kind::Definitions, Kind::Rows, Kind::Keys, Kind::End]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// The file's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The store that wrote it.
    pub store: [u8; 16],
    /// The record after which this was the state.
    pub lsn: u64,
    /// When it was begun, milliseconds since 1970.
    pub created_ms: i64,
}

/// The CRC of a file's header, which those of its blocks go on from.
pub type Seed = u32;

impl Header {
    /// The bytes, and the seed of the blocks.
    pub fn encode(&self) -> ([u8; HEADER_BYTES], Seed) {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.store);
        bytes[32..40].copy_from_slice(&self.lsn.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.created_ms.to_le_bytes());
        let seed = crc32c::crc32c(&bytes[..48]);
        bytes[48..].copy_from_slice(&seed.to_le_bytes());
        (bytes, seed)
    }

    /// Reads it.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<(Header, Seed), (usize, String)> {
        if &bytes[..8] != MAGIC {
            return Err((0, "this is not a checkpoint".into()));
        }
        let seed = number(bytes, 48);
        if crc32c::crc32c(&bytes[..48]) != seed {
            return Err((0, "the header is damaged".into()));
        }
        let version = number(bytes, 8);
        if version != VERSION {
            return Err((8, format!("format {version}, but this program reads format {VERSION}")));
        }
        let lsn = long(bytes, 32);
        if lsn >= LSN_END {
            return Err((32, format!("no store has come to change {lsn}")));
        }
        let mut store = [0; 16];
        store.copy_from_slice(&bytes[16..32]);
        Ok((Header { store, lsn, created_ms: long(bytes, 40) as i64 }, seed))
    }
}

/// A block's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// What is in it.
    pub kind: Kind,
    /// Bytes of the payload.
    pub length: usize,
    /// CRC of the payload.
    pub crc: u32,
}

impl BlockHeader {
    /// The bytes of the header of block `block`.
    pub fn encode(&self, seed: Seed, block: u32) -> [u8; BLOCK_HEADER_BYTES] {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        bytes[0] = self.kind as u8;
        bytes[4..8].copy_from_slice(&block.to_le_bytes());
        bytes[8..12].copy_from_slice(&(self.length as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.crc.to_le_bytes());
        let crc = crc32c::crc32c_append(seed, &bytes[..16]);
        bytes[16..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the header of block `block`. Nothing in it is to be believed if this fails.
    pub fn decode(bytes: &[u8; BLOCK_HEADER_BYTES], seed: Seed, block: u32) -> Option<BlockHeader> {
        let intact = crc32c::crc32c_append(seed, &bytes[..16]) == number(bytes, 16) && number(bytes, 4) == block;
        let length = number(bytes, 8) as usize;
        if !intact || length > limits::CHECKPOINT_BLOCK_BYTES_MAX {
            return None;
        }
        Some(BlockHeader { kind: Kind::of(bytes[0])?, length, crc: number(bytes, 12) })
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(number(bytes, at)) | u64::from(number(bytes, at + 4)) << 32
}

/// How much there is of everything: the payload of the end block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Blocks before the end block.
    pub blocks: u64,
    /// Things.
    pub things: u64,
    /// Tables.
    pub tables: u64,
    /// Views.
    pub views: u64,
    /// Rows.
    pub rows: u64,
    /// Keys.
    pub keys: u64,
    /// Libraries of functions; told only if there are any.
    pub libraries: u64,
    /// Triggers, likewise.
    pub triggers: u64,
    /// Schedules, likewise.
    pub schedules: u64,
}

impl Counts {
    /// The bytes: six numbers of eight bytes, and those of libraries, triggers and schedules up to the last that is not 0.
    pub fn encode(&self) -> Vec<u8> {
        let Counts { blocks, things, tables, views, rows, keys, libraries, triggers, schedules } = *self;
        let always = [blocks, things, tables, views, rows, keys];
        let later = [libraries, triggers, schedules];
        let told = later.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        always.iter().chain(&later[..told]).flat_map(|n| n.to_le_bytes()).collect()
    }

    /// Are these the bytes of the same counts?
    pub fn are(&self, bytes: &[u8]) -> bool {
        self.encode() == bytes
    }
}

const PREFIX: &str = "checkpoint-";
const SUFFIX: &str = ".ckp";
const UNFINISHED: &str = ".tmp";

/// The file of the checkpoint at `lsn`.
pub fn name_of(lsn: u64) -> String {
    format!("{PREFIX}{lsn:020}{SUFFIX}")
}

/// Its name while it is being written.
pub fn unfinished_name_of(lsn: u64) -> String {
    format!("{PREFIX}{lsn:020}{UNFINISHED}")
}

/// The LSN in a name, if it is that of a checkpoint.
pub fn lsn_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let is_plain = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { digits.parse().ok() } else { None }
}

fn is_unfinished(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(UNFINISHED)
}

/// Removes what was left of unfinished checkpoints. Only when none is being written.
///
/// # Errors
/// A file cannot be removed; some are perhaps.
pub fn remove_unfinished(files: &dyn Files) -> io::Result<()> {
    files.list()?.iter().filter(|name| is_unfinished(name)).try_for_each(|name| files.remove(name))
}

/// Removes checkpoints older than the one at `lsn`, and what was left of unfinished ones; gives the names. Only when no
/// checkpoint is being written, and the one at `lsn` is in place.
///
/// # Errors
/// A file cannot be removed; some are perhaps.
pub fn remove_others(files: &dyn Files, lsn: u64) -> io::Result<Vec<String>> {
    let is_old = |name: &String| is_unfinished(name) || lsn_of(name).is_some_and(|other| other < lsn);
    let names: Vec<String> = files.list()?.into_iter().filter(is_old).collect();
    names.iter().try_for_each(|name| files.remove(name))?;
    if !names.is_empty() {
        files.sync_directory()?;
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_their_numbers_and_read_back() {
        assert_eq!("checkpoint-00000000000000000042.ckp", name_of(42));
        assert!([0, 1, u64::MAX].iter().all(|lsn| lsn_of(&name_of(*lsn)) == Some(*lsn)));
        for name in ["checkpoint-42.ckp", "checkpoint-000000000000000000+1.ckp", "checkpoint-99999999999999999999.ckp"]
        {
            assert_eq!(None, lsn_of(name), "{name}");
        }
        assert_eq!(None, lsn_of(&unfinished_name_of(42)));
    }

    #[test]
    fn headers_read_back_and_every_flipped_bit_is_seen() {
        let header = Header { store: *b"0123456789abcdef", lsn: 7, created_ms: -1 };
        let (bytes, seed) = header.encode();
        assert_eq!(Ok((header, seed)), Header::decode(&bytes));
        let block = BlockHeader { kind: Kind::Rows, length: 123_456, crc: 99 };
        let block_bytes = block.encode(seed, 3);
        assert_eq!(Some(block), BlockHeader::decode(&block_bytes, seed, 3));
        assert_eq!(None, BlockHeader::decode(&block_bytes, seed, 4));
        assert_eq!(None, BlockHeader::decode(&block_bytes, seed + 1, 3));
        for bit in 0..8 * HEADER_BYTES {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&bytes).is_err(), "{bit}");
        }
        for bit in 0..8 * BLOCK_HEADER_BYTES {
            let mut bytes = block_bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(None, BlockHeader::decode(&bytes, seed, 3), "{bit}");
        }
    }
}
