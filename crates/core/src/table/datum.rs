//! One SQL value, owned (`Datum`) or borrowed from wherever its bytes lie (`DatumRef`).

use crate::error::{Code, Error, Result};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::fmt;

/// The bytes of a short text or blob without an allocation.
pub type Bytes = SmallVec<[u8; 16]>;

/// An owned SQL value. `Text` holds UTF-8: whoever makes one from outside has checked it (`types::coerce` does).
#[derive(Clone, Debug, Default)]
pub enum Datum {
    /// No value.
    #[default]
    Null,
    /// A 64-bit integer.
    Int(i64),
    /// A double; never NaN, which SQL reads as NULL.
    Real(f64),
    /// UTF-8 text.
    Text(Bytes),
    /// Bytes.
    Blob(Bytes),
}

/// A SQL value whose text or bytes are borrowed.
#[derive(Clone, Copy, Debug, Default)]
pub enum DatumRef<'a> {
    /// No value.
    #[default]
    Null,
    /// A 64-bit integer.
    Int(i64),
    /// A double.
    Real(f64),
    /// UTF-8 text.
    Text(&'a [u8]),
    /// Bytes.
    Blob(&'a [u8]),
}

impl Datum {
    /// A text value.
    pub fn text(text: impl AsRef<str>) -> Datum {
        Datum::Text(Bytes::from_slice(text.as_ref().as_bytes()))
    }

    /// A blob value.
    pub fn blob(bytes: impl AsRef<[u8]>) -> Datum {
        Datum::Blob(Bytes::from_slice(bytes.as_ref()))
    }

    /// The same value, borrowed.
    #[inline]
    pub fn as_ref(&self) -> DatumRef<'_> {
        match self {
            Datum::Null => DatumRef::Null,
            Datum::Int(i) => DatumRef::Int(*i),
            Datum::Real(r) => DatumRef::Real(*r),
            Datum::Text(b) => DatumRef::Text(b),
            Datum::Blob(b) => DatumRef::Blob(b),
        }
    }

    /// Appends the value's deterministic encoding: a tag byte, then 8 bytes or a length and bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.as_ref().encode(out);
    }

    /// Reads what [`encode`](Self::encode) wrote and moves `input` past it.
    pub fn decode(input: &mut &[u8]) -> Result<Datum> {
        Ok(match take(input, 1)?[0] {
            0 => Datum::Null,
            1 => Datum::Int(i64::from_le_bytes(take_array(input)?)),
            2 => Datum::Real(f64::from_bits(u64::from_le_bytes(take_array(input)?))),
            3 => {
                let bytes = take_bytes(input)?;
                std::str::from_utf8(bytes).map_err(|_| damaged())?;
                Datum::Text(Bytes::from_slice(bytes))
            }
            4 => Datum::Blob(Bytes::from_slice(take_bytes(input)?)),
            _ => return Err(damaged()),
        })
    }
}

impl PartialEq for Datum {
    fn eq(&self, other: &Datum) -> bool {
        self.as_ref() == other.as_ref()
    }
}

impl From<i64> for Datum {
    fn from(i: i64) -> Datum {
        Datum::Int(i)
    }
}

impl From<f64> for Datum {
    fn from(r: f64) -> Datum {
        if r.is_nan() { Datum::Null } else { Datum::Real(r) }
    }
}

impl From<&str> for Datum {
    fn from(text: &str) -> Datum {
        Datum::text(text)
    }
}

impl<'a> DatumRef<'a> {
    /// A copy that owns its bytes.
    pub fn to_owned(self) -> Datum {
        match self {
            DatumRef::Null => Datum::Null,
            DatumRef::Int(i) => Datum::Int(i),
            DatumRef::Real(r) => Datum::Real(r),
            DatumRef::Text(b) => Datum::Text(Bytes::from_slice(b)),
            DatumRef::Blob(b) => Datum::Blob(Bytes::from_slice(b)),
        }
    }

    /// Is this NULL?
    pub fn is_null(self) -> bool {
        matches!(self, DatumRef::Null)
    }

    /// How many bytes a text or blob has; 0 of other values.
    #[inline]
    pub fn bytes_len(self) -> usize {
        match self {
            DatumRef::Text(bytes) | DatumRef::Blob(bytes) => bytes.len(),
            _ => 0,
        }
    }

    /// SQLite's name of the value's type, for error messages.
    pub fn type_name(self) -> &'static str {
        match self {
            DatumRef::Null => "NULL",
            DatumRef::Int(_) => "INTEGER",
            DatumRef::Real(_) => "REAL",
            DatumRef::Text(_) => "TEXT",
            DatumRef::Blob(_) => "BLOB",
        }
    }

    /// SQLite's order of any two values: NULL, then numbers by value, then text and blobs by their bytes.
    pub fn order(self, other: DatumRef<'_>) -> Ordering {
        use DatumRef::*;
        match (self, other) {
            (Int(a), Int(b)) => a.cmp(&b),
            (Real(a), Real(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            (Int(a), Real(b)) => order_int_real(a, b),
            (Real(a), Int(b)) => order_int_real(b, a).reverse(),
            (Text(a), Text(b)) | (Blob(a), Blob(b)) => a.cmp(b),
            _ => self.class().cmp(&other.class()),
        }
    }

    fn class(self) -> u8 {
        match self {
            DatumRef::Null => 0,
            DatumRef::Int(_) | DatumRef::Real(_) => 1,
            DatumRef::Text(_) => 2,
            DatumRef::Blob(_) => 3,
        }
    }

    /// Appends the value's deterministic encoding (see [`Datum::encode`]).
    pub fn encode(self, out: &mut Vec<u8>) {
        match self {
            DatumRef::Null => out.push(0),
            DatumRef::Int(i) => {
                out.push(1);
                out.extend_from_slice(&i.to_le_bytes());
            }
            DatumRef::Real(r) => {
                out.push(2);
                out.extend_from_slice(&r.to_bits().to_le_bytes());
            }
            DatumRef::Text(b) => {
                out.push(3);
                put_bytes(out, b);
            }
            DatumRef::Blob(b) => {
                out.push(4);
                put_bytes(out, b);
            }
        }
    }
}

/// Equal in type and value; -0.0 equals 0.0. (SQL's `=`, where 1 equals 1.0, is [`DatumRef::order`].)
impl PartialEq for DatumRef<'_> {
    fn eq(&self, other: &DatumRef<'_>) -> bool {
        use DatumRef::*;
        match (self, other) {
            (Null, Null) => true,
            (Int(a), Int(b)) => a == b,
            (Real(a), Real(b)) => a == b,
            (Text(a), Text(b)) | (Blob(a), Blob(b)) => a == b,
            _ => false,
        }
    }
}

/// The value as an error message shows it: as a literal, long ones cut.
impl fmt::Display for DatumRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 40;
        match self {
            DatumRef::Null => f.write_str("NULL"),
            DatumRef::Int(i) => write!(f, "{i}"),
            DatumRef::Real(r) => f.write_str(&real_text(*r)),
            DatumRef::Text(b) => {
                let text = String::from_utf8_lossy(&b[..b.len().min(4 * SHOWN)]);
                let mut shown: String = text.chars().take(SHOWN).collect();
                if shown.len() < b.len() {
                    shown.push_str("...");
                }
                write!(f, "'{}'", shown.replace('\'', "''"))
            }
            DatumRef::Blob(b) => {
                f.write_str("x'")?;
                for byte in &b[..b.len().min(SHOWN / 2)] {
                    write!(f, "{byte:02x}")?;
                }
                f.write_str(if b.len() > SHOWN / 2 { "...'" } else { "'" })
            }
        }
    }
}

/// How an integer stands to a double, exactly: neither is rounded to the other's type.
pub fn order_int_real(int: i64, real: f64) -> Ordering {
    const TWO_63: f64 = 9_223_372_036_854_775_808.0;
    if real.is_nan() {
        return Ordering::Greater; // NaN is NULL, below all numbers
    }
    if real >= TWO_63 {
        return Ordering::Less;
    }
    if real < -TWO_63 {
        return Ordering::Greater;
    }
    let whole = real.trunc();
    int.cmp(&(whole as i64)).then_with(|| whole.partial_cmp(&real).unwrap_or(Ordering::Equal))
}

/// The shortest decimal text that reads back as the same double, always with a point or an exponent.
pub fn real_text(real: f64) -> String {
    if real.is_infinite() {
        return if real > 0.0 { "Inf".into() } else { "-Inf".into() };
    }
    let magnitude = real.abs();
    if magnitude != 0.0 && !(1e-4..1e15).contains(&magnitude) {
        let text = format!("{real:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let point = if digits.contains('.') { "" } else { ".0" };
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |e| ('-', e));
        return format!("{digits}{point}e{sign}{exponent:0>2}");
    }
    let text = format!("{real}");
    if text.contains('.') { text } else { format!("{text}.0") }
}

/// Appends a length (LEB128) and the bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends an unsigned integer as LEB128.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes `n` bytes off the front of `input`.
pub(crate) fn take<'a>(input: &mut &'a [u8], n: usize) -> Result<&'a [u8]> {
    let (head, rest) = input.split_at_checked(n).ok_or_else(damaged)?;
    *input = rest;
    Ok(head)
}

/// Takes a fixed number of bytes.
pub(crate) fn take_array<const N: usize>(input: &mut &[u8]) -> Result<[u8; N]> {
    take(input, N)?.try_into().map_err(|_| damaged())
}

/// Takes what [`put_varint`] wrote.
pub(crate) fn take_varint(input: &mut &[u8]) -> Result<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take(input, 1)?[0];
        if shift == 63 && byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(damaged())
}

/// Takes what [`put_bytes`] wrote; nothing is allocated for a length that the input does not have.
pub(crate) fn take_bytes<'a>(input: &mut &'a [u8]) -> Result<&'a [u8]> {
    let len = usize::try_from(take_varint(input)?).map_err(|_| damaged())?;
    take(input, len)
}

/// The error for bytes that are not what we wrote.
pub(crate) fn damaged() -> Error {
    Error::new(Code::Engine, "damaged table data: a record does not have the form it must have")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_read_back_and_refuse_cut_input() {
        let values = [
            Datum::Null,
            Datum::Int(i64::MIN),
            Datum::Real(-0.5),
            Datum::text("d\u{e9}j\u{e0} vu"),
            Datum::blob([0, 255]),
        ];
        for value in values {
            let mut bytes = Vec::new();
            value.encode(&mut bytes);
            let mut input = &bytes[..];
            assert_eq!(value, Datum::decode(&mut input).unwrap());
            assert!(input.is_empty());
            for cut in 0..bytes.len() {
                assert!(Datum::decode(&mut &bytes[..cut]).is_err());
            }
        }
        assert!(Datum::decode(&mut &[3, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F][..]).is_err());
        assert!(Datum::decode(&mut &[3, 1, 0xFF][..]).is_err());
    }

    #[test]
    fn integers_and_reals_compare_exactly() {
        assert_eq!(Ordering::Less, order_int_real((1 << 53) + 1, 9007199254740994.0));
        assert_eq!(Ordering::Greater, order_int_real((1 << 53) + 1, 9007199254740992.0));
        assert_eq!(Ordering::Less, order_int_real(2, 2.5));
        assert_eq!(Ordering::Greater, order_int_real(-2, -2.5));
        assert_eq!(Ordering::Equal, order_int_real(0, -0.0));
        assert_eq!(Ordering::Less, order_int_real(i64::MAX, 9_223_372_036_854_775_808.0));
        assert_eq!(Ordering::Equal, order_int_real(i64::MIN, -9_223_372_036_854_775_808.0));
        assert_eq!(Ordering::Less, order_int_real(i64::MIN, f64::INFINITY));
    }

    #[test]
    fn reals_show_their_shortest_text() {
        for (real, text) in [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (-2.5, "-2.5"),
            (1e20, "1.0e+20"),
            (1.5e-7, "1.5e-07"),
            (1e14, "100000000000000.0"),
            (1e15, "1.0e+15"),
            (0.0001, "0.0001"),
            (f64::INFINITY, "Inf"),
        ] {
            assert_eq!(text, real_text(real));
        }
    }

    #[test]
    fn varints_read_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(value, take_varint(&mut &bytes[..]).unwrap());
        }
        assert!(take_varint(&mut &[0xFF; 10][..]).is_err());
    }
}
