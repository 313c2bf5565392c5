//! Index keys: the indexed columns of a row as bytes whose order as bytes is the order of the values.
//!
//! Every column's encoding starts with a byte that tells its class, NULL < numbers < decimals < TEXT < BLOB, and none
//! is a prefix of another one, so columns follow each other without separators. A descending column is inverted.
//!
//! ```text
//! NULL      10
//! number    its sign and magnitude m = i + f, i whole, 0 <= f < 1. Let n = 2i, or 2i + 1 if f > 0; then
//!           n < 48:         80+n                           one byte for -23 to 23
//!           else:           B0+k-1, n in k bytes           2 bytes to 127, 3 to 32,767, 4 to 8.3 million, ...
//!           m > 2^63:       B9, the double's 8 bytes
//!           if f > 0:       then the 8 bytes of the double f
//!           a negative number is the inverse of all bytes of its magnitude
//! decimal   C0 / C1 / C2    negative, zero, positive; then see `decimal`
//! TEXT      D0, bytes, 00   00 in it is written 01 01, and 01 is written 01 02
//! BLOB      D8, likewise
//! ```
//! So integers and doubles compare together, exactly, as SQLite compares them: 2 and 2.0 are the same key.

use super::catalog::{IndexColumn, IndexDef};
use super::datum::{Datum, DatumRef};
use super::decimal::Decimal;
use super::row::Row;
use super::types::{Collation, Storage};
use crate::error::{Code, Error, Result};
use crate::limits;
use smallvec::SmallVec;

const NULL: u8 = 0x10;
const NUMBER: u8 = 0x80;
/// Whole numbers below this have a first byte of their own.
const DIRECT: u64 = 48;
const LENGTHS: u8 = NUMBER + DIRECT as u8;
const HUGE: u8 = LENGTHS + 9;
const DECIMAL: [u8; 3] = [0xC0, 0xC1, 0xC2];
const TEXT: u8 = 0xD0;
const BLOB: u8 = 0xD8;
const END: u8 = 0;
const ESCAPE: u8 = 1;

/// An index key on the stack, if it is short.
pub type KeyBuf = SmallVec<[u8; 64]>;

/// Takes the bytes of a key as they are made.
pub trait KeySink {
    /// The next bytes, each to be combined with `flip` (0, or 0xFF in a descending column) by XOR.
    fn put(&mut self, bytes: &[u8], flip: u8);

    /// The first `length` of nine bytes.
    #[inline]
    fn put_some(&mut self, bytes: &[u8; 9], length: usize, flip: u8) {
        self.put(&bytes[..length], flip);
    }
}

impl KeySink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8], flip: u8) {
        self.extend(bytes.iter().map(|b| b ^ flip));
    }

    /// All nine are copied, as that takes no call, and the rest is cut.
    #[inline]
    fn put_some(&mut self, bytes: &[u8; 9], length: usize, flip: u8) {
        let end = self.len() + length;
        self.extend_from_slice(&bytes.map(|b| b ^ flip));
        self.truncate(end);
    }
}

impl KeySink for KeyBuf {
    #[inline]
    fn put(&mut self, bytes: &[u8], flip: u8) {
        let start = self.len();
        self.extend_from_slice(bytes);
        if flip != 0 {
            self[start..].iter_mut().for_each(|b| *b ^= flip);
        }
    }

    /// All nine are copied, as that takes no call, and the rest is cut.
    #[inline]
    fn put_some(&mut self, bytes: &[u8; 9], length: usize, flip: u8) {
        assert!(length <= bytes.len());
        let end = self.len() + length;
        self.put(bytes, flip);
        // SAFETY: nine bytes were appended, of which some stay.
        unsafe { self.set_len(end) };
    }
}

/// Compares a key with the bytes that another one would have, without making those.
struct Matcher<'a> {
    /// What is left of the expected bytes; `None` once they differed.
    expected: Option<&'a [u8]>,
}

impl KeySink for Matcher<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8], flip: u8) {
        let Some(expected) = self.expected else { return };
        self.expected = expected
            .split_at_checked(bytes.len())
            .filter(|(head, _)| head.iter().zip(bytes).all(|(a, b)| *a == b ^ flip))
            .map(|(_, rest)| rest);
    }

    /// All nine are compared at once, and the differences past `length` are ignored.
    #[inline]
    fn put_some(&mut self, bytes: &[u8; 9], length: usize, flip: u8) {
        let Some(expected) = self.expected.filter(|expected| (1..=9).contains(&length) && expected.len() >= length)
        else {
            self.expected = None;
            return;
        };
        let (first, flips) = (expected[0] ^ bytes[0] ^ flip, u64::from_le_bytes([flip; 8]));
        let given =
            u64::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7], bytes[8]]);
        let mut word = 0;
        for (i, byte) in expected[1..length].iter().enumerate() {
            word |= u64::from(*byte) << (8 * i);
        }
        let counted = if length == 9 { u64::MAX } else { (1 << (8 * (length - 1))) - 1 };
        let same = first == 0 && (word ^ given ^ flips) & counted == 0;
        self.expected = same.then(|| &expected[length..]);
    }
}

/// Appends one column of a key.
#[inline]
pub fn put_column(value: DatumRef<'_>, column: &IndexColumn, out: &mut impl KeySink) {
    let flip = if column.desc { 0xFF } else { 0 };
    if column.collation == Collation::Decimal
        && let Some(decimal) = Decimal::of(value)
    {
        let mut bytes = KeyBuf::new();
        decimal.encode_key(DECIMAL, &mut bytes);
        return out.put(&bytes, flip);
    }
    match value {
        DatumRef::Null => out.put(&[NULL], flip),
        DatumRef::Int(i) => put_magnitude(i.unsigned_abs(), None, if i < 0 { !flip } else { flip }, out),
        DatumRef::Real(r) => put_real(r, flip, out),
        DatumRef::Text(bytes) => {
            put_text_prefix(bytes, column, out);
            out.put(&[END], flip);
        }
        DatumRef::Blob(bytes) => {
            out.put(&[BLOB], flip);
            put_escaped(bytes, flip, out);
            out.put(&[END], flip);
        }
    }
}

/// Appends the start of the keys of all texts that start with `text`: for LIKE 'text%'.
pub fn put_text_prefix(text: &[u8], column: &IndexColumn, out: &mut impl KeySink) {
    let flip = if column.desc { 0xFF } else { 0 };
    out.put(&[TEXT], flip);
    match column.collation {
        Collation::NoCase if text.iter().any(u8::is_ascii_uppercase) => {
            put_escaped(&text.to_ascii_lowercase(), flip, out);
        }
        Collation::RTrim => put_escaped(trim_spaces(text), flip, out),
        _ => put_escaped(text, flip, out),
    }
}

fn trim_spaces(text: &[u8]) -> &[u8] {
    let kept = text.iter().rposition(|&b| b != b' ').map_or(0, |last| last + 1);
    &text[..kept]
}

fn put_real(real: f64, flip: u8, out: &mut impl KeySink) {
    const TWO_63: f64 = 9_223_372_036_854_775_808.0;
    if real.is_nan() {
        return out.put(&[NULL], flip);
    }
    let (magnitude, flip) = if real < 0.0 { (-real, !flip) } else { (real, flip) };
    if magnitude > TWO_63 {
        out.put(&[HUGE], flip);
        return out.put(&magnitude.to_bits().to_be_bytes(), flip);
    }
    let whole = magnitude.trunc();
    // The difference of a double and its whole part is a double: exact.
    let fraction = magnitude - whole;
    put_magnitude(whole as u64, (fraction > 0.0).then_some(fraction), flip, out);
}

#[inline]
fn put_magnitude(whole: u64, fraction: Option<f64>, flip: u8, out: &mut impl KeySink) {
    let n = whole << 1 | u64::from(fraction.is_some());
    if whole == 1 << 63 {
        // Only i64::MIN and its double have a magnitude whose n needs nine bytes.
        out.put(&[LENGTHS + 8, 1, 0, 0, 0, 0, 0, 0, 0, 0], flip);
    } else if n < DIRECT {
        out.put(&[NUMBER + n as u8], flip);
    } else {
        let skipped = n.leading_zeros() / 8;
        let mut bytes = [LENGTHS + 7 - skipped as u8; 9];
        bytes[1..].copy_from_slice(&(n << (8 * skipped)).to_be_bytes());
        out.put_some(&bytes, 9 - skipped as usize, flip);
    }
    if let Some(fraction) = fraction {
        out.put(&fraction.to_bits().to_be_bytes(), flip);
    }
}

fn put_escaped(bytes: &[u8], flip: u8, out: &mut impl KeySink) {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&b| b <= ESCAPE) {
        out.put(&rest[..at], flip);
        out.put(&[ESCAPE, rest[at] + 1], flip);
        rest = &rest[at + 1..];
    }
    out.put(rest, flip);
}

/// Appends the key of the first `values` columns of an index: a whole key, or the prefix for a range.
pub fn put_key(values: &[DatumRef<'_>], columns: &[IndexColumn], out: &mut impl KeySink) {
    values.iter().zip(columns).for_each(|(value, column)| put_column(*value, column, out));
}

/// What matters of a row's key besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOf {
    /// The row is not in this (partial) index.
    Absent,
    /// The row has a key.
    Key {
        /// A column is NULL, so UNIQUE does not apply.
        has_null: bool,
    },
}

/// Puts the key of `row` in `index` into `out`, which it empties first. A key past the limit is an error.
#[inline]
pub fn row_key(index: &IndexDef, row: Row<'_>, out: &mut KeyBuf) -> Result<KeyOf> {
    out.clear();
    if !is_indexed(index, row) {
        return Ok(KeyOf::Absent);
    }
    let mut has_null = false;
    for column in &index.columns {
        let value = row.get_likely_number(column.position);
        has_null |= value.is_null();
        put_column(value, column, out);
    }
    if out.len() > limits::INDEX_KEY_BYTES_MAX {
        return Err(too_long(index, out.len()));
    }
    Ok(KeyOf::Key { has_null })
}

/// Is the row in the index? Only a partial index leaves rows out.
#[inline]
pub fn is_indexed(index: &IndexDef, row: Row<'_>) -> bool {
    let Some(position) = index.filter else { return true };
    match row.get(position) {
        DatumRef::Int(i) => i != 0,
        DatumRef::Real(r) => r != 0.0,
        _ => false,
    }
}

#[cold]
fn too_long(index: &IndexDef, len: usize) -> Error {
    let max = limits::INDEX_KEY_BYTES_MAX;
    Error::new(Code::Limit, format!("a key of {len} bytes for index {} is longer than {max}", index.name))
}

/// Is `key` the whole key of this row in the index? Makes no copy.
#[inline]
pub fn row_has_key(index: &IndexDef, row: Row<'_>, key: &[u8]) -> bool {
    let mut matcher = Matcher { expected: Some(key) };
    for column in &index.columns {
        put_column(row.get_likely_number(column.position), column, &mut matcher);
        if matcher.expected.is_none() {
            return false;
        }
    }
    matcher.expected.is_some_and(<[u8]>::is_empty)
}

/// The length of the first column in `key`; `None` if it is not the start of a key.
pub fn column_len(key: &[u8], desc: bool) -> Option<usize> {
    let flip = if desc { 0xFF } else { 0 };
    let after = |from: usize| Some(from + key.get(from..)?.iter().position(|b| b ^ flip == END)? + 1);
    let len = match key.first()? ^ flip {
        NULL => 1,
        class if class == DECIMAL[1] => 1,
        class if class == DECIMAL[2] => after(2)?,
        // The end mark of a negative one is inverted along with its digits.
        class if class == DECIMAL[0] => 2 + key.get(2..)?.iter().position(|b| b ^ flip == !END)? + 1,
        TEXT | BLOB => after(1)?,
        first => {
            let negative = first < NUMBER;
            let at = |i: usize| key.get(i).map(|b| if negative { b ^ flip ^ 0xFF } else { b ^ flip });
            match at(0)? {
                HUGE => 9,
                first @ NUMBER..LENGTHS => 1 + 8 * usize::from(first & 1),
                first @ LENGTHS..HUGE => {
                    let len = 1 + usize::from(first - LENGTHS) + 1;
                    len + 8 * usize::from(at(len - 1)? & 1)
                }
                _ => return None,
            }
        }
    };
    (len <= key.len()).then_some(len)
}

/// Can a column's value be had back from its key, for reads that need no row?
pub fn is_reversible(column: &IndexColumn, storage: Storage) -> bool {
    // In an ANY column 2 and 2.0 have one key and two values.
    column.collation == Collation::Binary && storage != Storage::Any
}

/// Takes the value of the first column off `key`; of a column that [`is_reversible`] and holds `storage`.
pub fn take_column(key: &mut &[u8], desc: bool, storage: Storage) -> Option<Datum> {
    let (bytes, rest) = key.split_at_checked(column_len(key, desc)?)?;
    *key = rest;
    let flip = if desc { 0xFF } else { 0 };
    let plain: KeyBuf = bytes.iter().map(|b| b ^ flip).collect();
    Some(match plain[0] {
        NULL => Datum::Null,
        TEXT => Datum::Text(unescape(&plain[1..plain.len() - 1])),
        BLOB => Datum::Blob(unescape(&plain[1..plain.len() - 1])),
        first => number(&plain, first < NUMBER, storage),
    })
}

fn unescape(bytes: &[u8]) -> super::datum::Bytes {
    let mut out = super::datum::Bytes::with_capacity(bytes.len());
    let mut bytes = bytes.iter();
    while let Some(&byte) = bytes.next() {
        out.push(if byte == ESCAPE { bytes.next().map_or(0, |b| b - 1) } else { byte });
    }
    out
}

/// The number whose key is `plain`. Whole numbers in a REAL column have the keys of integers.
fn number(plain: &[u8], negative: bool, storage: Storage) -> Datum {
    let bytes: KeyBuf = plain.iter().map(|b| if negative { !b } else { *b }).collect();
    let double = |bytes: &[u8]| f64::from_bits(bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b)));
    let signed = |magnitude: f64| Datum::Real(if negative { -magnitude } else { magnitude });
    if bytes[0] == HUGE {
        return signed(double(&bytes[1..]));
    }
    let digits = if bytes[0] < LENGTHS { 0 } else { usize::from(bytes[0] - LENGTHS) + 1 };
    let direct = u128::from(bytes[0] - NUMBER);
    let n = if digits == 0 { direct } else { bytes[1..=digits].iter().fold(0, |n, b| n << 8 | u128::from(*b)) };
    let whole = (n >> 1) as u64;
    if n & 1 == 1 {
        return signed(whole as f64 + double(&bytes[1 + digits..]));
    }
    match storage {
        Storage::Real => signed(whole as f64),
        _ if negative => Datum::Int((whole as i64).wrapping_neg()),
        _ => Datum::Int(whole as i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;
    use std::cmp::Ordering;

    fn column(desc: bool, collation: Collation) -> IndexColumn {
        IndexColumn { position: 0, desc, collation }
    }

    fn key(value: DatumRef<'_>, desc: bool) -> Vec<u8> {
        let mut key = Vec::new();
        put_column(value, &column(desc, Collation::Binary), &mut key);
        let mut short = KeyBuf::new();
        put_column(value, &column(desc, Collation::Binary), &mut short);
        assert_eq!(key[..], short[..]);
        key
    }

    /// Values of all classes, thick around the places where the encoding changes.
    fn values(random: &mut Xoshiro) -> Vec<Datum> {
        let mut values = vec![Datum::Null, Datum::Int(i64::MIN), Datum::Int(i64::MAX), Datum::Real(-0.0)];
        for shift in 0..64 {
            for near in -2..=2 {
                let int = (1i64 << shift).wrapping_add(near);
                values.extend([Datum::Int(int), Datum::Int(int.wrapping_neg()), Datum::Real(int as f64)]);
                values.extend([0.5, 0.1, -0.3].map(|f| Datum::Real(int as f64 + f)));
            }
        }
        values.extend((-60..60).flat_map(|i| [Datum::Int(i), Datum::Real(f64::from(i as i32) + 0.25)]));
        let reals = [f64::MAX, f64::MIN, f64::MIN_POSITIVE, -5e-324, f64::INFINITY, f64::NEG_INFINITY, 1e300];
        values.extend(reals.map(Datum::Real));
        for _ in 0..300 {
            let len = random.below(6);
            let bytes: Vec<u8> = (0..len).map(|_| [0, 1, 2, b'a', b'b', 0xFF][random.below(6) as usize]).collect();
            values.push(Datum::blob(&bytes));
            values.push(Datum::text(String::from_utf8_lossy(&bytes)));
        }
        values
    }

    #[test]
    fn keys_order_as_values_do_and_none_is_a_prefix() {
        let mut random = Xoshiro::from_seed(3);
        let values = values(&mut random);
        for desc in [false, true] {
            let keys: Vec<Vec<u8>> = values.iter().map(|v| key(v.as_ref(), desc)).collect();
            for (a, key_a) in values.iter().zip(&keys) {
                for (b, key_b) in values.iter().zip(&keys) {
                    let order = a.as_ref().order(b.as_ref());
                    let order = if desc { order.reverse() } else { order };
                    assert_eq!(order, key_a.cmp(key_b), "{a:?} {b:?}");
                    assert!(order == Ordering::Equal || !key_b.starts_with(key_a), "{a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn lengths_are_found_and_values_come_back() {
        let mut random = Xoshiro::from_seed(4);
        for value in values(&mut random) {
            for desc in [false, true] {
                let mut bytes = key(value.as_ref(), desc);
                let len = bytes.len();
                bytes.extend([7, 7, 7]);
                assert_eq!(Some(len), column_len(&bytes, desc), "{value:?}");
                let storage = if matches!(value, Datum::Real(_)) { Storage::Real } else { Storage::Int };
                let mut rest = &bytes[..];
                assert_eq!(Some(value.clone()), take_column(&mut rest, desc, storage));
                assert_eq!([7, 7, 7], rest);
                for cut in 0..len {
                    let _ = column_len(&bytes[..cut], desc);
                }
            }
        }
    }

    #[test]
    fn integers_are_compact() {
        for (int, len) in [(0, 1), (23, 1), (-23, 1), (24, 2), (127, 2), (128, 3), (32_767, 3), (8_388_607, 4)] {
            assert_eq!(len, key(DatumRef::Int(int), false).len(), "{int}");
        }
        assert_eq!(9, key(DatumRef::Int(i64::MAX), false).len());
        assert_eq!(10, key(DatumRef::Int(i64::MIN), false).len());
    }

    #[test]
    fn collations_make_equal_what_they_call_equal() {
        let key = |text: &str, collation| {
            let mut key = Vec::new();
            put_column(DatumRef::Text(text.as_bytes()), &column(false, collation), &mut key);
            key
        };
        assert_eq!(key("ABC", Collation::NoCase), key("abc", Collation::NoCase));
        assert_ne!(key("ABC", Collation::Binary), key("abc", Collation::Binary));
        assert_eq!(key("a  ", Collation::RTrim), key("a", Collation::RTrim));
        assert_eq!(key("1.50", Collation::Decimal), key("1.5", Collation::Decimal));
        assert!(key("9.5", Collation::Decimal) < key("10", Collation::Decimal));
        assert!(key("-10", Collation::Decimal) < key("-9.5", Collation::Decimal));
        assert!(key("10", Collation::Decimal) < key("ten", Collation::Decimal));
        let mut number = Vec::new();
        put_column(DatumRef::Real(1.5), &column(false, Collation::Decimal), &mut number);
        assert_eq!(number, key("1.50", Collation::Decimal));
        for text in ["0", "12.75", "-12.75"] {
            for desc in [false, true] {
                let mut bytes = Vec::new();
                put_column(DatumRef::Text(text.as_bytes()), &column(desc, Collation::Decimal), &mut bytes);
                let len = bytes.len();
                bytes.extend([1, 2, 3]);
                assert_eq!(Some(len), column_len(&bytes, desc), "{text}");
            }
        }
    }

    #[test]
    fn rows_match_their_own_key_alone() {
        use crate::table::catalog::{Method, tests as catalog};
        use crate::table::row::RowLayout;
        let def = catalog::table("t", &[("a", "TEXT"), ("b", "REAL")]);
        let index = catalog::index(&def, 1, &["a", "b"], false, Method::Hash);
        let layout = RowLayout::new(&def);
        let row = |a: DatumRef<'_>, b: DatumRef<'_>| {
            let mut bytes = Vec::new();
            layout.encode(&[DatumRef::Int(1), a, b], &mut bytes).unwrap();
            bytes
        };
        let one = row(DatumRef::Text(b"one"), DatumRef::Real(1.5));
        let none = row(DatumRef::Text(b"one"), DatumRef::Null);
        let mut key = KeyBuf::new();
        let found = row_key(&index, Row::new(&one, &layout), &mut key).unwrap();
        assert_eq!(KeyOf::Key { has_null: false }, found);
        assert!(row_has_key(&index, Row::new(&one, &layout), &key));
        assert!(!row_has_key(&index, Row::new(&none, &layout), &key));
        assert!(!row_has_key(&index, Row::new(&one, &layout), &key[..key.len() - 1]));
        let found = row_key(&index, Row::new(&none, &layout), &mut key).unwrap();
        assert_eq!(KeyOf::Key { has_null: true }, found);
        let long = row(DatumRef::Text(&[b'x'; 4000]), DatumRef::Null);
        assert_eq!(Code::Limit, row_key(&index, Row::new(&long, &layout), &mut key).unwrap_err().code);
    }
}
