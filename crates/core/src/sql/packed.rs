//! Values packed into one string, for many parameters at once: what `SQL.PACKED` takes.
//!
//! ```text
//! value   0 NULL    1 integer: 8 bytes    2 real: 8 bytes of a double    3 text, 4 blob: length in 4 bytes, the bytes
//! ```
//! Numbers have their lowest byte first.

use super::error::sql;
use crate::error::{Error, Result};
use crate::table::datum::DatumRef;

/// Appends a value. None: it is too long to be packed.
#[inline]
pub fn put(value: DatumRef<'_>, out: &mut Vec<u8>) -> Option<()> {
    let mut bytes = |tag: u8, bytes: &[u8]| {
        let length = u32::try_from(bytes.len()).ok()?;
        out.push(tag);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(bytes);
        Some(())
    };
    match value {
        DatumRef::Null => out.push(0),
        DatumRef::Int(i) => out.extend_from_slice(&with_tag(1, i.to_le_bytes())),
        DatumRef::Real(r) => out.extend_from_slice(&with_tag(2, r.to_le_bytes())),
        DatumRef::Text(text) => return bytes(3, text),
        DatumRef::Blob(blob) => return bytes(4, blob),
    }
    Some(())
}

#[inline]
fn with_tag(tag: u8, number: [u8; 8]) -> [u8; 9] {
    let mut bytes = [tag; 9];
    bytes[1..].copy_from_slice(&number);
    bytes
}

/// All values of a packed string.
pub fn read(mut bytes: &[u8]) -> Result<Vec<DatumRef<'_>>> {
    // Nine bytes are what most values take; a guess that is too high would be memory for nothing.
    let mut values = Vec::with_capacity(bytes.len() / 9);
    while let Some((tag, rest)) = bytes.split_first() {
        let (value, rest) = match tag {
            0 => (DatumRef::Null, rest),
            1 => number(rest).map(|(n, rest)| (DatumRef::Int(i64::from_le_bytes(n)), rest))?,
            2 => number(rest).map(|(n, rest)| (DatumRef::Real(f64::from_le_bytes(n)), rest))?,
            3 => {
                let (text, rest) = string(rest)?;
                if std::str::from_utf8(text).is_err() {
                    return Err(sql(format!("parameter {} is not UTF-8 text", values.len() + 1)));
                }
                (DatumRef::Text(text), rest)
            }
            4 => string(rest).map(|(blob, rest)| (DatumRef::Blob(blob), rest))?,
            _ => return Err(malformed()),
        };
        values.push(value);
        bytes = rest;
    }
    Ok(values)
}

#[inline]
fn number(bytes: &[u8]) -> Result<([u8; 8], &[u8])> {
    bytes.split_first_chunk().map(|(number, rest)| (*number, rest)).ok_or_else(malformed)
}

#[inline]
fn string(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk().ok_or_else(malformed)?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(malformed)
}

#[cold]
fn malformed() -> Error {
    sql("packed parameters that are not well formed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_and_damage_is_an_error() {
        let values = [
            DatumRef::Null,
            DatumRef::Int(i64::MIN),
            DatumRef::Real(-0.5),
            DatumRef::Text("é".as_bytes()),
            DatumRef::Blob(b"\xFF\x00"),
        ];
        let mut bytes = Vec::new();
        values.iter().for_each(|value| put(*value, &mut bytes).unwrap());
        assert_eq!(values.to_vec(), read(&bytes).unwrap());
        let whole = [0, 1, 10, 19, 26, bytes.len()];
        for cut in 0..=bytes.len() {
            assert_eq!(whole.contains(&cut), read(&bytes[..cut]).is_ok(), "cut at {cut}");
        }
        assert!(read(&[3, 1, 0, 0, 0, 0xFF]).is_err() && read(&[5]).is_err());
    }
}
