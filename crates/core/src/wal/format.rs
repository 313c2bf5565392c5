//! The bytes of a log segment (drawn in docs/formats/wal.md): a header, then groups of opaque records.
//!
//! ```text
//! segment   magic 8 | version 4 | id of the store 16 | first LSN 8 | crc 4
//! group     magic 4 | crc of header 4 | crc of payload 4 | first LSN 8 | durable LSN 8 | payload bytes 8 | records 4
//! payload   per record: its length, 7 bits a byte | its bytes
//! ```

use super::{Lsn, StoreId};
use crc32c::{crc32c, crc32c_append};

/// The first bytes of a segment.
pub const SEGMENT_MAGIC: [u8; 8] = *b"PERYTLOG";
/// Version of the format, in each segment's header.
pub const VERSION: u32 = 1;
/// No store makes so many changes; from here on numbers could run over.
pub const LSN_END: Lsn = 1 << 62;
/// Bytes of a segment before its first group.
pub const SEGMENT_HEADER_BYTES: usize = 40;
/// The first bytes of a group; none of them is zero, as all bytes behind the last group are.
pub const GROUP_MAGIC: [u8; 4] = [0xF5, b'g', b'r', b'p'];
/// Bytes of a group before its records.
pub const GROUP_HEADER_BYTES: usize = 40;

/// What stands at the start of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The store that the log belongs to.
    pub id: StoreId,
    /// LSN of its first record, of which its name tells too.
    pub first: Lsn,
}

/// What is wrong with a segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadHeader {
    /// Not what was ever written.
    Malformed,
    /// Whole, but of a version that we do not know.
    Version(u32),
}

impl SegmentHeader {
    /// Its bytes.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..8].copy_from_slice(&SEGMENT_MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..28].copy_from_slice(&self.id);
        bytes[28..36].copy_from_slice(&self.first.to_le_bytes());
        let crc = crc32c(&bytes[..36]);
        bytes[36..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads what `encode` made.
    pub fn decode(bytes: &[u8]) -> Result<SegmentHeader, BadHeader> {
        let bytes: &[u8; SEGMENT_HEADER_BYTES] =
            bytes.get(..SEGMENT_HEADER_BYTES).and_then(|b| b.try_into().ok()).ok_or(BadHeader::Malformed)?;
        if bytes[..8] != SEGMENT_MAGIC || u32_at(bytes, 36) != crc32c(&bytes[..36]) {
            return Err(BadHeader::Malformed);
        }
        match u32_at(bytes, 8) {
            VERSION => {}
            other => return Err(BadHeader::Version(other)),
        }
        let first = u64_at(bytes, 28);
        if first == 0 || first >= LSN_END {
            return Err(BadHeader::Malformed);
        }
        let mut id = StoreId::default();
        id.copy_from_slice(&bytes[12..28]);
        Ok(SegmentHeader { id, first })
    }

    /// Where the checksums of the segment's groups start, so that no group of another segment passes for one of this.
    pub fn seed(&self) -> u32 {
        crc32c_append(crc32c(&self.id), &self.first.to_le_bytes())
    }
}

/// What stands before the records of a group: what one write put down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupHeader {
    /// LSN of its first record.
    pub first: Lsn,
    /// What was known to be durable when it was written.
    pub durable: Lsn,
    /// Bytes of the payload.
    pub length: u64,
    /// How many records; none in the group that a closed log ends with.
    pub records: u32,
    /// Checksum of the payload.
    pub payload_crc: u32,
}

impl GroupHeader {
    /// Its bytes in a segment of this seed.
    pub fn encode(&self, seed: u32) -> [u8; GROUP_HEADER_BYTES] {
        let mut bytes = [0; GROUP_HEADER_BYTES];
        bytes[..4].copy_from_slice(&GROUP_MAGIC);
        bytes[8..12].copy_from_slice(&self.payload_crc.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.first.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.durable.to_le_bytes());
        bytes[28..36].copy_from_slice(&self.length.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.records.to_le_bytes());
        let crc = crc32c_append(seed, &bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads what `encode` made; nothing if it is not what was written.
    pub fn decode(bytes: &[u8], seed: u32) -> Option<GroupHeader> {
        let bytes: &[u8; GROUP_HEADER_BYTES] = bytes.get(..GROUP_HEADER_BYTES)?.try_into().ok()?;
        if bytes[..4] != GROUP_MAGIC || u32_at(bytes, 4) != crc32c_append(seed, &bytes[8..]) {
            return None;
        }
        let header = GroupHeader {
            payload_crc: u32_at(bytes, 8),
            first: u64_at(bytes, 12),
            durable: u64_at(bytes, 20),
            length: u64_at(bytes, 28),
            records: u32_at(bytes, 36),
        };
        // Every record has a byte of length at least, and LSNs do not run over.
        let possible = u64::from(header.records) <= header.length && header.first.checked_add(header.length).is_some();
        possible.then_some(header)
    }

    /// LSN of the record after the group.
    pub fn next(&self) -> Lsn {
        self.first + Lsn::from(self.records)
    }
}

/// Checksum of a group's payload.
pub fn payload_crc(payload: &[u8]) -> u32 {
    crc32c(payload)
}

/// A payload whose checksum is right and whose records are not: a bug of whoever wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Takes the first record off a payload.
pub fn take_record<'a>(payload: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let mut length = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = payload.split_first().ok_or(Malformed)?;
        *payload = rest;
        length |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            let length = usize::try_from(length).map_err(|_| Malformed)?;
            let (record, rest) = payload.split_at_checked(length).ok_or(Malformed)?;
            *payload = rest;
            return Ok(record);
        }
    }
    Err(Malformed)
}

/// Appends a record that `encode` appends the bytes of. If it panics, nothing is appended.
pub fn put_record(out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
    struct Whole<'a> {
        out: &'a mut Vec<u8>,
        start: usize,
        whole: bool,
    }
    impl Drop for Whole<'_> {
        fn drop(&mut self) {
            if !self.whole {
                self.out.truncate(self.start);
            }
        }
    }
    let start = out.len();
    out.push(0);
    let mut record = Whole { out, start, whole: false };
    encode(record.out);
    let length = record.out.len().checked_sub(start + 1).expect("encode only appends");
    if length < 0x80 {
        record.out[start] = length as u8;
    } else {
        put_long_length(record.out, start, length as u64);
    }
    record.whole = true;
}

/// Puts the length of a record that has one byte of room for it before its bytes, which move.
fn put_long_length(out: &mut Vec<u8>, start: usize, mut length: u64) {
    let mut bytes = [0; 10];
    let mut count = 0;
    while length >= 0x80 {
        bytes[count] = length as u8 | 0x80;
        length >>= 7;
        count += 1;
    }
    bytes[count] = length as u8;
    out.splice(start..=start, bytes[..=count].iter().copied());
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
