//! What FUNCTION DUMP gives and FUNCTION RESTORE takes: libraries in the form that Redis's snapshot files have.
//!
//! ```text
//! payload   library, ..., version of the form (2 bytes, little endian), CRC-64 of all before (8 bytes, little endian)
//! library   245, code                                       246, name, engine, 0 or 1 and a description, code (Redis 7.0 rc)
//! string    length, bytes    or    11000000 byte, 11000001 two bytes, 11000010 four bytes: the integer's digits
//!           or    11000011 length when packed, length, bytes packed by LZF
//! length    00llllll    01llllll l    10000000 and 4 bytes    10000001 and 8 bytes, the highest first
//! ```

use crate::ds::{crc64, lzf};
use crate::error::{Error, Result};
use crate::limits;
use crate::table::library::Libraries;

const LIBRARY: u8 = 245;
const OLD_LIBRARY: u8 = 246;
/// The form of Redis 7.0. The form of libraries has not changed since, so others are read as well.
const VERSION: u16 = 10;
const FOOTER_BYTES: usize = 10;

/// All libraries in one piece.
pub fn write(libraries: &Libraries) -> Vec<u8> {
    let mut out = Vec::with_capacity(libraries.bytes() + FOOTER_BYTES);
    for library in libraries.iter() {
        out.push(LIBRARY);
        write_length(&mut out, library.code.len());
        out.extend_from_slice(&library.code);
    }
    out.extend_from_slice(&VERSION.to_le_bytes());
    let sum = crc64::sum(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

fn write_length(out: &mut Vec<u8>, length: usize) {
    match u32::try_from(length) {
        Ok(short @ 0..64) => out.push(short as u8),
        Ok(short @ 64..0x4000) => out.extend_from_slice(&(0x4000 | short as u16).to_be_bytes()),
        Ok(long) => {
            out.push(0x80);
            out.extend_from_slice(&long.to_be_bytes());
        }
        Err(_) => {
            out.push(0x81);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

/// The texts of the libraries in a payload; errors have Redis's words.
pub fn read(payload: &[u8]) -> Result<Vec<Vec<u8>>> {
    let wrong = || Error::err("DUMP payload version or checksum are wrong");
    let (sealed, sum) = payload.split_last_chunk::<8>().ok_or_else(wrong)?;
    let (mut input, _version) = sealed.split_last_chunk::<2>().ok_or_else(wrong)?;
    if crc64::sum(sealed) != u64::from_le_bytes(*sum) {
        return Err(wrong());
    }
    let mut texts = Vec::new();
    while let Some((kind, rest)) = input.split_first() {
        input = rest;
        texts.push(match *kind {
            LIBRARY => take_string(&mut input).ok_or_else(|| Error::err("Failed loading library payload"))?,
            OLD_LIBRARY => take_old(&mut input)?,
            _ => return Err(Error::err("given type is not a function")),
        });
    }
    Ok(texts)
}

/// A library as the release candidates of Redis 7.0 wrote it, made one of today's.
fn take_old(input: &mut &[u8]) -> Result<Vec<u8>> {
    let mut part = |what: &str| take_string(input).ok_or_else(|| Error::err(format!("Failed loading library {what}")));
    let (name, engine) = (part("name")?, part("engine name")?);
    let has_description =
        take_length(input).ok_or_else(|| Error::err("Failed loading library description indicator"))?;
    let mut part = |what: &str| take_string(input).ok_or_else(|| Error::err(format!("Failed loading library {what}")));
    if has_description != 0 {
        part("description")?;
    }
    let code = part("blob")?;
    Ok([&b"#!"[..], &engine, b" name=", &name, b"\n", &code].concat())
}

fn take<'a>(input: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(taken)
}

fn take_array<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = input.split_first_chunk::<N>()?;
    *input = rest;
    Some(*taken)
}

/// A length; None also for the mark of a special form.
fn take_length(input: &mut &[u8]) -> Option<usize> {
    let [first] = take_array(input)?;
    let length = match (first >> 6, first) {
        (0, short) => u64::from(short),
        (1, high) => u64::from(high & 63) << 8 | u64::from(take_array::<1>(input)?[0]),
        (2, 0x80) => u64::from(u32::from_be_bytes(take_array(input)?)),
        (2, 0x81) => u64::from_be_bytes(take_array(input)?),
        _ => return None,
    };
    usize::try_from(length).ok()
}

fn take_string(input: &mut &[u8]) -> Option<Vec<u8>> {
    let digits = |integer: i32| Some(integer.to_string().into_bytes());
    match *input.first()? {
        0xc0 => digits(i8::from_le_bytes(take_array::<2>(input)?[1..].try_into().ok()?).into()),
        0xc1 => digits(i16::from_le_bytes(take_array::<3>(input)?[1..].try_into().ok()?).into()),
        0xc2 => digits(i32::from_le_bytes(take_array::<5>(input)?[1..].try_into().ok()?)),
        0xc3 => {
            take(input, 1)?;
            let (packed, length) = (take_length(input)?, take_length(input)?);
            let packed = take(input, packed)?;
            // What is longer than a library may be is not worth unpacking.
            if length > limits::LIBRARY_BYTES_MAX { None } else { lzf::unpack(packed, length) }
        }
        _ => {
            let length = take_length(input)?;
            take(input, length).map(<[u8]>::to_vec)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;
    use crate::table::library::LibraryDef;
    use std::sync::Arc;

    fn sealed(body: &[u8]) -> Vec<u8> {
        let mut out = [body, &VERSION.to_le_bytes()].concat();
        let sum = crc64::sum(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut libraries = Libraries::default();
        let mut expected = Vec::new();
        for (at, length) in [0, 63, 64, 0x3fff, 0x4000, 100_000].into_iter().enumerate() {
            let code = vec![b'a' + at as u8; length];
            expected.push(code.clone());
            let name = format!("lib{at}");
            libraries.put(Arc::new(LibraryDef { name, code: code.into(), functions: Vec::new() })).unwrap();
        }
        assert_eq!(Ok(expected), read(&write(&libraries)));
        assert_eq!(Ok(Vec::new()), read(&write(&Libraries::default())));
    }

    #[test]
    fn every_form_of_a_string_is_read() {
        for (string, expected) in [
            (&b"\x03abc"[..], &b"abc"[..]),
            (b"\x40\x03abc", b"abc"),
            (b"\x80\0\0\0\x03abc", b"abc"),
            (b"\x81\0\0\0\0\0\0\0\x03abc", b"abc"),
            (b"\xc0\xff", b"-1"),
            (b"\xc1\0\x01", b"256"),
            (b"\xc2\0\0\x01\0", b"65536"),
            (b"\xc3\x05\x0a\x00a\xe0\x00\x00", b"aaaaaaaaaa"),
        ] {
            let payload = sealed(&[&[LIBRARY], string].concat());
            assert_eq!(Ok(vec![expected.to_vec()]), read(&payload), "{string:?}");
            for cut in 0..string.len() {
                let payload = sealed(&[&[LIBRARY], &string[..cut]].concat());
                assert_eq!(Err(Error::err("Failed loading library payload")), read(&payload), "{string:?} to {cut}");
            }
        }
        let old = sealed(b"\xf6\x03lib\x03LUA\x01\x04what\x02x\n");
        assert_eq!(Ok(vec![b"#!LUA name=lib\nx\n".to_vec()]), read(&old));
    }

    #[test]
    fn payloads_that_nobody_wrote_do_no_harm() {
        let mut random = Xoshiro::from_seed(11);
        let whole =
            sealed(b"\xf5\xc3\x05\x0a\x00a\xe0\x00\x00\xf5\x40\x10#!lua name=lib\nx\xf6\x03lib\x03LUA\x00\x02x\n");
        for _ in 0..50_000 {
            let mut body = whole[..whole.len() - FOOTER_BYTES].to_vec();
            for _ in 0..=random.below(4) {
                let at = random.below(body.len() as u64) as usize;
                match random.below(3) {
                    0 => body.truncate(at.max(1)),
                    1 => body[at] = random.below(256) as u8,
                    _ => body.insert(at, [0xc3, 0x80, 0x81, 0xff, 0x7f][random.below(5) as usize]),
                }
            }
            let _ = read(&sealed(&body));
            let mut broken = whole.clone();
            let bit = random.below(8 * broken.len() as u64) as usize;
            broken[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&broken).is_err(), "{bit}");
        }
    }
}
