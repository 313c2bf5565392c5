//! Bytes of values and operations: the primitives that every encoder and decoder here is made of.
//!
//! ```text
//! number   7 bits a byte, lowest first, top bit "more"; at most 10 bytes
//! signed   zigzag (0, -1, 1, -2 ..), then as number
//! bytes    number (length), bytes
//! double   8 bytes, IEEE 754, little endian
//! list     number (count), bytes x count
//! ```
//! Decoders trust nothing: each length is compared with what is left before anything is allocated for it (invariant 8).

use crate::ds::packed::Packed;
use crate::error::{Code, Error};

/// Bytes that no encoder here wrote; says what was being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl From<Malformed> for Error {
    fn from(malformed: Malformed) -> Error {
        Error::new(Code::Bug, format!("malformed record: {}", malformed.0))
    }
}

/// Shorthand of decoders.
pub type Decoded<T> = Result<T, Malformed>;

/// Appends a number.
#[inline]
pub fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a signed number.
pub fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_number(out, ((number << 1) ^ (number >> 63)) as u64);
}

/// Appends bytes with their length.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a double.
pub fn put_double(out: &mut Vec<u8>, double: f64) {
    out.extend_from_slice(&double.to_bits().to_le_bytes());
}

/// Appends a list of byte strings.
pub fn put_list(out: &mut Vec<u8>, list: &Packed) {
    put_number(out, list.len() as u64);
    out.reserve(list.bytes());
    list.iter().for_each(|entry| put_bytes(out, entry));
}

/// Takes one byte.
pub fn take_byte(input: &mut &[u8]) -> Decoded<u8> {
    let (first, rest) = input.split_first().ok_or(Malformed("ends early"))?;
    *input = rest;
    Ok(*first)
}

/// Takes a number.
#[inline]
pub fn take_number(input: &mut &[u8]) -> Decoded<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take_byte(input)?;
        let bits = (byte & 0x7f) as u64;
        if bits << shift >> shift != bits {
            break;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Malformed("number over 64 bits"))
}

/// Takes a number that fits a `usize`.
pub fn take_size(input: &mut &[u8]) -> Decoded<usize> {
    usize::try_from(take_number(input)?).map_err(|_| Malformed("size over the address space"))
}

/// Takes a signed number.
pub fn take_signed(input: &mut &[u8]) -> Decoded<i64> {
    let number = take_number(input)?;
    Ok((number >> 1) as i64 ^ -((number & 1) as i64))
}

/// Takes bytes with their length.
#[inline]
pub fn take_bytes<'a>(input: &mut &'a [u8]) -> Decoded<&'a [u8]> {
    let len = take_size(input)?;
    let (bytes, rest) = input.split_at_checked(len).ok_or(Malformed("length beyond the end"))?;
    *input = rest;
    Ok(bytes)
}

/// Takes a double.
pub fn take_double(input: &mut &[u8]) -> Decoded<f64> {
    let (bytes, rest) = input.split_first_chunk::<8>().ok_or(Malformed("ends early"))?;
    *input = rest;
    Ok(f64::from_bits(u64::from_le_bytes(*bytes)))
}

/// Takes the count of things of which each takes at least one byte.
pub fn take_count(input: &mut &[u8]) -> Decoded<usize> {
    let count = take_size(input)?;
    if count > input.len() { Err(Malformed("count beyond the end")) } else { Ok(count) }
}

/// Takes a list of byte strings.
pub fn take_list(input: &mut &[u8]) -> Decoded<Packed> {
    let count = take_count(input)?;
    let mut list = Packed::new();
    for _ in 0..count {
        list.push_back(take_bytes(input)?);
    }
    Ok(list)
}

/// Takes a list of which `stride` entries belong together.
pub fn take_list_of(input: &mut &[u8], stride: usize) -> Decoded<Packed> {
    let list = take_list(input)?;
    if list.len().is_multiple_of(stride) { Ok(list) } else { Err(Malformed("half a pair")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let mut out = Vec::new();
        let numbers = [0, 1, 127, 128, 300, u32::MAX as u64, i64::MAX as u64, u64::MAX];
        numbers.iter().for_each(|n| put_number(&mut out, *n));
        numbers.iter().for_each(|n| put_signed(&mut out, *n as i64));
        let mut input = &out[..];
        numbers.iter().for_each(|n| assert_eq!(Ok(*n), take_number(&mut input)));
        numbers.iter().for_each(|n| assert_eq!(Ok(*n as i64), take_signed(&mut input)));
        assert!(input.is_empty());
    }

    #[test]
    fn hostile_lengths_are_refused_before_allocating() {
        assert_eq!(Err(Malformed("number over 64 bits")), take_number(&mut &[0xff; 20][..]));
        let mut out = Vec::new();
        put_number(&mut out, u64::MAX / 2);
        assert!(take_bytes(&mut &out[..]).is_err());
        assert!(take_list(&mut &out[..]).is_err());
        assert!(take_double(&mut &b"1234567"[..]).is_err());
        assert!(take_number(&mut &b""[..]).is_err());
    }
}
