//! The string value: bytes, read as text, as a number or as bits (`bits.rs`), with the three encodings Redis shows.
//!
//! What only reads takes plain bytes, so that it also serves strings that the keyspace keeps inside its entries.

use super::codec::{self, Decoded, Malformed};
use super::digest::Digest;
use super::pieces::Rest;
use super::{Edit, Operation, range};
use crate::ds::extended::Extended;
use crate::ds::number::{NumberText, i64_text, parse_i64};
use crate::ds::thin::ThinBytes;
use crate::error::{Error, Result};
use crate::limits::STRING_BYTES_MAX;
use crate::reply::Blob;
use std::ops::{Deref, Range};

/// Longest string that Redis shows as `embstr`, bytes.
const EMBEDDED_BYTES_MAX: usize = 44;

/// A string value. Its mark says that it was edited in place, which Redis shows as `raw`, however short.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Str(ThinBytes);

/// A change of a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrOp {
    /// The whole content.
    Set(Blob),
    /// Makes the string `len` bytes long (cut, or filled with zeros), then writes `bytes` at `at`.
    Write {
        /// Where the bytes go.
        at: u64,
        /// What is written; ends within `len`.
        bytes: Blob,
        /// The length afterwards.
        len: u64,
    },
    /// Several, in order.
    Many(Vec<StrOp>),
}

impl Operation for StrOp {
    fn many(ops: Vec<Self>) -> Self {
        StrOp::Many(ops)
    }
}

/// OBJECT ENCODING of a string that was set as a whole.
pub fn encoding(bytes: &[u8]) -> &'static str {
    if parse_i64(bytes).is_some() { "int" } else { text_encoding(bytes.len()) }
}

/// OBJECT ENCODING of a string of `len` bytes that is kept as text even if it reads as an integer.
pub fn text_encoding(len: usize) -> &'static str {
    if len <= EMBEDDED_BYTES_MAX { "embstr" } else { "raw" }
}

/// GETRANGE: the bytes from `start` to `stop`, both included, counted from the end when negative.
pub fn substring(bytes: &[u8], start: i64, stop: i64) -> &[u8] {
    &bytes[range::text_positions(start, stop, bytes.len())]
}

/// INCRBY: the number written in `bytes`, plus `by`.
pub fn incremented(bytes: &[u8], by: i64) -> Result<i64> {
    let number = parse_i64(bytes).ok_or_else(Error::not_an_integer)?;
    number.checked_add(by).ok_or_else(|| Error::err("increment or decrement would overflow"))
}

/// INCRBYFLOAT: the text of the number written in `bytes` plus `by`.
pub fn incremented_by_float(bytes: &[u8], by: Extended) -> Result<Vec<u8>> {
    let number = Extended::parse(bytes).ok_or_else(Error::not_a_float)?;
    let sum = number.checked_add(by).ok_or_else(|| Error::err("increment would produce NaN or Infinity"))?;
    Ok(sum.to_text())
}

/// Refuses a string longer than the limit.
fn check_len(len: usize) -> Result<()> {
    if len > STRING_BYTES_MAX {
        return Err(Error::err("string exceeds maximum allowed size (proto-max-bulk-len)"));
    }
    Ok(())
}

impl Str {
    /// A string of these bytes.
    #[inline]
    pub fn new(bytes: &[u8]) -> Self {
        Str(ThinBytes::from_slice(bytes))
    }

    /// A string that shows as `raw`, as if it had been edited in place.
    pub fn raw(bytes: &[u8]) -> Self {
        let mut string = Str::new(bytes);
        string.0.set_mark(true);
        string
    }

    /// OBJECT ENCODING.
    pub fn encoding(&self) -> &'static str {
        if self.0.mark() { "raw" } else { encoding(self) }
    }

    /// Replaces the content.
    pub fn set(&mut self, bytes: &[u8], edit: &mut Edit<StrOp>) {
        edit.redo(|| StrOp::Set(Blob::from_slice(bytes)));
        edit.undo(|| StrOp::Set(Blob::from_slice(self)));
        self.before_write(0..self.len(), edit);
        self.0.assign(bytes);
        self.0.set_mark(false);
    }

    /// APPEND: adds bytes at the end; the new length.
    pub fn append(&mut self, bytes: &[u8], edit: &mut Edit<StrOp>) -> Result<usize> {
        let len = self.len();
        check_len(len.saturating_add(bytes.len()))?;
        self.write(len, bytes, len + bytes.len(), edit);
        Ok(self.len())
    }

    /// SETRANGE: writes bytes at `at`, after zeros where the string is shorter; the new length. Writing nothing changes
    /// nothing.
    pub fn set_range(&mut self, at: usize, bytes: &[u8], edit: &mut Edit<StrOp>) -> Result<usize> {
        if !bytes.is_empty() {
            let end = at.saturating_add(bytes.len());
            check_len(end)?;
            self.write(at, bytes, end.max(self.len()), edit);
        }
        Ok(self.len())
    }

    /// Fills up with zeros to `len` bytes at least. Even if that changes nothing, Redis shows a `raw` string afterwards.
    pub fn grow_to(&mut self, len: usize, edit: &mut Edit<StrOp>) -> Result<()> {
        check_len(len)?;
        if len > self.len() {
            self.write(self.len(), b"", len, edit);
        }
        self.0.set_mark(true);
        Ok(())
    }

    /// INCRBY: adds to the number written here; the sum.
    pub fn increment(&mut self, by: i64, edit: &mut Edit<StrOp>) -> Result<i64> {
        let sum = incremented(self, by)?;
        self.set(&i64_text(sum), edit);
        Ok(sum)
    }

    /// INCRBYFLOAT: adds to the number written here; the sum is the new content.
    pub fn increment_by_float(&mut self, by: Extended, edit: &mut Edit<StrOp>) -> Result<()> {
        let text = incremented_by_float(self, by)?;
        self.set(&text, edit);
        Ok(())
    }

    /// The one step of all partial writes: see [`StrOp::Write`].
    pub(super) fn write(&mut self, at: usize, bytes: &[u8], len: usize, edit: &mut Edit<StrOp>) {
        debug_assert!(at + bytes.len() <= len);
        edit.redo(|| StrOp::Write { at: at as u64, bytes: Blob::from_slice(bytes), len: len as u64 });
        edit.undo(|| self.inverse_of_write(at, bytes.len(), len));
        self.before_write(self.overwritten(at, bytes.len(), len), edit);
        self.0.resize(len);
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self.0.set_mark(true);
    }

    /// What undoes a write: the old length, and the old bytes of the written part or of the part cut off.
    fn inverse_of_write(&self, at: usize, count: usize, len: usize) -> StrOp {
        let old = self.overwritten(at, count, len);
        StrOp::Write { at: old.start as u64, bytes: Blob::from_slice(&self[old]), len: self.len() as u64 }
    }

    /// What a write changes of what is there.
    fn overwritten(&self, at: usize, count: usize, len: usize) -> Range<usize> {
        let old_len = self.len();
        if len < old_len { at.min(len)..old_len } else { at.min(old_len)..(at + count).min(old_len) }
    }

    /// Tells whoever saves the string what is about to change.
    #[inline]
    fn before_write(&self, range: Range<usize>, edit: &mut Edit<StrOp>) {
        if let Some(rest) = edit.rest().and_then(Rest::string) {
            rest.before_write(self, range);
        }
    }

    /// Performs an operation and returns its inverse. Fails, without change, on one that no string could have made.
    pub fn apply(&mut self, op: StrOp, thresholds: &super::Thresholds, rest: Option<&mut Rest>) -> Decoded<StrOp> {
        let mut edit = Edit::recording(thresholds, false, true).saving(rest);
        self.perform(&op, &mut edit)?;
        Ok(edit.finish().1.unwrap_or(StrOp::Many(Vec::new())))
    }

    fn perform(&mut self, op: &StrOp, edit: &mut Edit<StrOp>) -> Decoded<()> {
        match op {
            StrOp::Set(bytes) => self.set(bytes, edit),
            StrOp::Write { at, bytes, len } => {
                let fits = |n: u64| usize::try_from(n).ok().filter(|n| *n <= STRING_BYTES_MAX);
                let (Some(at), Some(len)) = (fits(*at), fits(*len)) else { return Err(Malformed("string too long")) };
                if at + bytes.len() > len {
                    return Err(Malformed("write beyond the end of a string"));
                }
                self.write(at, bytes, len, edit);
            }
            StrOp::Many(ops) => ops.iter().try_for_each(|op| self.perform(op, edit))?,
        }
        Ok(())
    }

    /// Equal for equal contents.
    pub fn digest(&self) -> u64 {
        digest(self)
    }

    /// Bytes taken from the allocator.
    pub fn memory(&self) -> usize {
        self.0.memory()
    }

    /// Appends the bytes that [`Str::decode`] reads.
    pub fn encode(&self, out: &mut Vec<u8>) {
        codec::put_bytes(out, self);
    }

    /// Reads what [`Str::encode`] wrote.
    pub fn decode(input: &mut &[u8]) -> Decoded<Str> {
        Ok(Str::new(codec::take_bytes(input)?))
    }
}

/// The digest of a string value of these bytes.
pub fn digest(bytes: &[u8]) -> u64 {
    Digest::new(b's').bytes(bytes).finish()
}

impl Deref for Str {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<NumberText> for Str {
    fn from(text: NumberText) -> Self {
        Str::new(&text)
    }
}

impl StrOp {
    /// Appends the bytes that [`StrOp::decode`] reads.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            StrOp::Set(bytes) => {
                out.push(0);
                codec::put_bytes(out, bytes);
            }
            StrOp::Write { at, bytes, len } => {
                out.push(1);
                codec::put_number(out, *at);
                codec::put_bytes(out, bytes);
                codec::put_number(out, *len);
            }
            StrOp::Many(ops) => super::op::encode_many(ops, out, StrOp::encode),
        }
    }

    /// Reads what [`StrOp::encode`] wrote.
    pub fn decode(input: &mut &[u8]) -> Decoded<StrOp> {
        super::op::decode_many(input, StrOp::Many, |tag, input| match tag {
            0 => Ok(StrOp::Set(Blob::from_slice(codec::take_bytes(input)?))),
            1 => Ok(StrOp::Write {
                at: codec::take_number(input)?,
                bytes: Blob::from_slice(codec::take_bytes(input)?),
                len: codec::take_number(input)?,
            }),
            _ => Err(Malformed("unknown string operation")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;
    use crate::value::Thresholds;

    const T: &Thresholds = &Thresholds::DEFAULT;

    #[test]
    fn encodings_are_those_redis_shows() {
        assert_eq!("int", Str::new(b"-12").encoding());
        assert_eq!("embstr", Str::new(b"012").encoding());
        assert_eq!("embstr", Str::new(&[b'x'; 44]).encoding());
        assert_eq!("raw", Str::new(&[b'x'; 45]).encoding());
        let mut s = Str::new(b"1");
        s.append(b"2", &mut Edit::silent(T)).unwrap();
        assert_eq!("raw", s.encoding());
        assert_eq!(Ok(13), s.increment(1, &mut Edit::silent(T)));
        assert_eq!("int", s.encoding());
    }

    #[test]
    fn increments_check_their_numbers() {
        let e = &mut Edit::silent(T);
        assert_eq!(
            "ERR value is not an integer or out of range",
            Str::new(b"1 ").increment(1, e).unwrap_err().to_string()
        );
        let mut s = Str::new(b"9223372036854775807");
        assert_eq!("ERR increment or decrement would overflow", s.increment(1, e).unwrap_err().to_string());
        let by = Extended::parse(b"0.1").unwrap();
        let mut s = Str::new(b"10.5");
        s.increment_by_float(by, e).unwrap();
        assert_eq!(b"10.6", &s[..]);
        assert_eq!("ERR value is not a valid float", incremented_by_float(b"x", by).unwrap_err().to_string());
    }

    #[test]
    fn ranges_are_written_and_padded() {
        let e = &mut Edit::silent(T);
        let mut s = Str::new(b"Hello");
        assert_eq!(Ok(8), s.set_range(6, b"xy", e));
        assert_eq!(b"Hello\0xy", &s[..]);
        assert_eq!(Ok(8), s.set_range(100, b"", e));
        assert_eq!(b"ell", substring(b"Hello", 1, 3));
        assert_eq!(b"lo", substring(b"Hello", -2, -1));
        assert_eq!(b"H", substring(b"Hello", -100, -50));
        assert!(s.set_range(STRING_BYTES_MAX, b"x", e).is_err());
        assert!(s.set_range(usize::MAX, b"x", e).is_err());
    }

    #[test]
    fn operations_are_undone_and_done_again() {
        for seed in 0..50 {
            let mut random = Xoshiro::from_seed(seed);
            let mut s = Str::new(b"start");
            let (mut states, mut undo, mut redo) = (vec![s.clone()], Vec::new(), Vec::new());
            for _ in 0..30 {
                let mut edit = Edit::recording(T, true, true);
                let (at, byte) = (random.below(60) as usize, [random.next() as u8; 9]);
                let bytes = &byte[..random.below(10) as usize];
                match random.below(4) {
                    0 => s.set(bytes, &mut edit),
                    1 => drop(s.append(bytes, &mut edit)),
                    2 => drop(s.set_range(at, bytes, &mut edit)),
                    _ => drop(s.grow_to(at, &mut edit)),
                }
                let (r, u) = edit.finish();
                redo.extend(r);
                undo.extend(u);
                states.push(s.clone());
            }
            let mut again = states[0].clone();
            for op in &redo {
                let mut bytes = Vec::new();
                op.encode(&mut bytes);
                let op = StrOp::decode(&mut &bytes[..]).unwrap();
                let before = again.clone();
                let inverse = again.apply(op, T, None).unwrap();
                let after = again.clone();
                let back = again.apply(inverse, T, None).unwrap();
                assert_eq!(before, again, "seed {seed}");
                again.apply(back, T, None).unwrap();
                assert_eq!(after, again, "seed {seed}");
            }
            assert_eq!(s, again, "seed {seed}");
            undo.into_iter().rev().for_each(|op| drop(s.apply(op, T, None).unwrap()));
            assert_eq!(states[0], s, "seed {seed}");
        }
    }
}
