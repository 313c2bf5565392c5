//! The row format: any column of a row is read in place, without decoding the others (drawn in docs/formats/row.md).
//!
//! ```text
//! version  widths            fixed part                      bytes
//! 1-3 B    4 bits a column   0-8 B a column                  texts and blobs in column order
//! ```
//! The width of a column is the number of bytes it has in the fixed part; 0 says NULL. There stand the integer (little
//! endian, as few bytes as hold it), the double (without its low zero bytes), or, for text and blobs, the distance
//! from the start of the column's bytes to the end of the row. The place of a column is the sum of the widths before
//! it: one multiplication for sixteen of them. The version says how many columns the row has; a column that was added
//! later reads as its default (`StoredColumn::missing`), so no schema change rewrites rows.

use super::catalog::TableDef;
use super::datum::{Datum, DatumRef, damaged, put_varint, take_varint};
use super::types::Storage;
use crate::error::{Code, Error, Result};
use crate::limits;

/// How to write and read the rows of one table: its definition reduced to what rows need.
#[derive(Clone, Debug, PartialEq)]
pub struct RowLayout {
    version: u16,
    /// Of each of the first sixteen positions, how to read a number there.
    numbers: Vec<NumberAt>,
    /// Positions in a row of each version.
    versions: Vec<u16>,
    columns: Vec<Column>,
}

#[derive(Clone, Debug, PartialEq)]
struct Column {
    storage: Storage,
    /// The next position whose values have bytes after the fixed part; `NONE` if there is none.
    next_bytes: u16,
    missing: Datum,
    /// No column is at the position any longer.
    dropped: bool,
}

/// How to read a number at a position below 16 of a row of the present version.
#[derive(Clone, Copy, Debug, PartialEq)]
struct NumberAt {
    storage: Storage,
    /// Where its width is in the word of widths, and which widths come before.
    shift: u8,
    before: u64,
    /// Where the fixed part begins.
    fixed: usize,
}

const NONE: u16 = u16::MAX;

/// Tags in front of the bytes of an ANY column.
const ANY_INT: u8 = 1;
const ANY_REAL: u8 = 2;
const ANY_TEXT: u8 = 3;
const ANY_BLOB: u8 = 4;

impl RowLayout {
    /// The layout of a table's rows.
    pub fn new(def: &TableDef) -> RowLayout {
        let mut columns: Vec<Column> = def
            .stored
            .iter()
            .map(|s| Column { storage: s.storage, next_bytes: NONE, missing: s.missing.clone(), dropped: true })
            .collect();
        for column in &def.columns {
            columns[usize::from(column.position)].dropped = false;
        }
        let mut next = NONE;
        for (position, column) in columns.iter_mut().enumerate().rev() {
            column.next_bytes = next;
            if !matches!(column.storage, Storage::Int | Storage::Real) {
                next = position as u16;
            }
        }
        let fixed = 1 + columns.len().div_ceil(2);
        let number = |(i, column): (usize, &Column)| {
            let shift = 4 * i as u8;
            NumberAt { storage: column.storage, shift, before: (1 << shift) - 1, fixed }
        };
        // A version of two bytes is rare, and read the general way.
        let numbered = if def.version() < 0x80 { 16 } else { 0 };
        let numbers = columns.iter().take(numbered).enumerate().map(number).collect();
        RowLayout { version: def.version(), numbers, versions: def.versions.clone(), columns }
    }

    /// How many positions rows are written with.
    pub fn positions(&self) -> usize {
        usize::from(self.versions[usize::from(self.version)])
    }

    /// The integer or double at a position, if it is one of the first sixteen of a row of the present version; None, also
    /// when it is something else: [`Row::get`] knows. Nothing here can panic, whatever the bytes are.
    #[inline(always)]
    pub fn number(&self, row: &[u8], position: u16) -> Option<DatumRef<'static>> {
        let number = self.numbers.get(usize::from(position))?;
        let head: &[u8; 9] = row.first_chunk()?;
        let [version, widths @ ..] = *head;
        if u16::from(version) != self.version {
            return None;
        }
        let word = u64::from_le_bytes(widths);
        let width = (word >> number.shift & 15) as usize;
        let end = number.fixed + sum_of_nibbles(word & number.before) + width;
        let high = match end.checked_sub(8) {
            Some(start) => u64::from_le_bytes(*row.get(start..)?.first_chunk()?),
            None => u64::from_le_bytes(*row.first_chunk()?) << (64 - 8 * end),
        };
        let low = 64u32.wrapping_sub(8 * width as u32);
        match number.storage {
            _ if width == 0 => Some(DatumRef::Null),
            Storage::Int => Some(DatumRef::Int((high as i64).wrapping_shr(low))),
            Storage::Real => Some(DatumRef::Real(f64::from_bits(high.wrapping_shr(low).wrapping_shl(low)))),
            _ => None,
        }
    }

    /// Appends the row whose values at positions 0, 1, ... are `values`, which `types::coerce` has passed.
    pub fn encode(&self, values: &[DatumRef<'_>], out: &mut Vec<u8>) -> Result<()> {
        assert_eq!(self.positions(), values.len(), "a row has a value at each position");
        let bytes_total: usize = values.iter().zip(&self.columns).map(|(v, c)| bytes_len(*v, c.storage)).sum();
        if bytes_total > limits::ROW_BYTES_MAX {
            let text = format!("a row of {bytes_total} bytes is longer than {}", limits::ROW_BYTES_MAX);
            return Err(Error::new(Code::Limit, text));
        }
        // Once, and for the most that the values can take.
        out.reserve(16 + values.len() / 2 + 8 * values.len() + bytes_total);
        put_varint(out, u64::from(self.version));
        let widths = out.len();
        out.resize(widths + values.len().div_ceil(2), 0);
        let mut distance = bytes_total;
        for (position, (value, column)) in values.iter().zip(&self.columns).enumerate() {
            let width = put_fixed(*value, column.storage, distance, out)?;
            out[widths + position / 2] |= (width as u8) << (4 * (position % 2));
            distance -= bytes_len(*value, column.storage);
        }
        for (value, column) in values.iter().zip(&self.columns) {
            put_value_bytes(*value, column.storage, out);
        }
        Ok(())
    }

    /// Appends the row `old` with other numbers at some positions: the bytes of texts and blobs, whose places count from
    /// the row's end, stay as they are. None, and nothing is appended, if one of the positions holds no number or the
    /// row is of an older version; then all values have to be encoded.
    pub fn encode_changed<'a>(
        &self,
        old: &[u8],
        numbers: impl Iterator<Item = (u16, DatumRef<'a>)> + Clone,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let fits = |(position, value): (u16, DatumRef<'_>)| match self.columns[usize::from(position)].storage {
            Storage::Int => matches!(value, DatumRef::Int(_) | DatumRef::Null),
            Storage::Real => matches!(value, DatumRef::Real(_) | DatumRef::Null),
            _ => false,
        };
        // A version of one byte, the present one.
        if u16::from(old[0]) != self.version || self.version >= 0x80 || !numbers.clone().all(fits) {
            return None;
        }
        let start = out.len();
        out.reserve(old.len() + 16);
        out.extend_from_slice(old);
        numbers.for_each(|(position, value)| self.replace_number(out, start, usize::from(position), value));
        Some(())
    }

    /// Puts another number at a position of the row that begins at `start` and goes to the end of `out`.
    fn replace_number(&self, out: &mut Vec<u8>, start: usize, position: usize, value: DatumRef<'_>) {
        let row = Row::new(&out[start..], self);
        let (old_width, before) = row.width_and_before(position);
        let at = start + row.fixed + before;
        let (bytes, width) = number_bytes(value);
        match old_width == width {
            true => out[at..at + width].copy_from_slice(&bytes[..width]),
            false => drop(out.splice(at..at + old_width, bytes[..width].iter().copied())),
        }
        let (byte, shift) = (&mut out[start + 1 + position / 2], 4 * (position % 2));
        *byte = *byte & !(15 << shift) | (width as u8) << shift;
    }

    /// Checks bytes that come from outside (a log, a checkpoint) so far that reading them cannot go wrong.
    pub fn check(&self, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        let version = take_varint(&mut rest)?;
        let positions = usize::try_from(version).ok().and_then(|v| self.versions.get(v)).ok_or_else(damaged)?;
        let positions = usize::from(*positions);
        if rest.len() < positions.div_ceil(2) {
            return Err(damaged());
        }
        let row = Row::new(bytes, self);
        let fixed_end = row.fixed + row.widths_before(positions);
        let mut least = bytes.len(); // where the bytes of the columns from here on begin
        for position in (0..positions).rev() {
            let width = row.width(position);
            if width > 8 || fixed_end > bytes.len() {
                return Err(damaged());
            }
            let storage = self.columns[position].storage;
            if width == 0 || matches!(storage, Storage::Int | Storage::Real) {
                continue;
            }
            let start = bytes.len().checked_sub(row.distance(position)).ok_or_else(damaged)?;
            if width > 4 || start < fixed_end || start > least || !any_is_whole(&bytes[start..least], storage) {
                return Err(damaged());
            }
            least = start;
        }
        Ok(())
    }
}

/// How many bytes a value has after the fixed part.
fn bytes_len(value: DatumRef<'_>, storage: Storage) -> usize {
    match (storage, value) {
        (_, DatumRef::Null) | (Storage::Int | Storage::Real, _) => 0,
        (Storage::Any, DatumRef::Int(_) | DatumRef::Real(_)) => 9,
        (_, DatumRef::Text(bytes) | DatumRef::Blob(bytes)) => bytes.len() + usize::from(storage == Storage::Any),
        _ => 0, // refused by put_fixed
    }
}

/// Appends a value's part of the fixed part and returns its width.
fn put_fixed(value: DatumRef<'_>, storage: Storage, distance: usize, out: &mut Vec<u8>) -> Result<usize> {
    match (storage, value) {
        (_, DatumRef::Null) => Ok(0),
        (Storage::Int, DatumRef::Int(_)) | (Storage::Real, DatumRef::Real(_)) => {
            let (bytes, width) = number_bytes(value);
            Ok(put_some(bytes, width, out))
        }
        (Storage::Text, DatumRef::Text(_)) | (Storage::Blob, DatumRef::Blob(_)) | (Storage::Any, _) => {
            let width = unsigned_width(distance as u64);
            Ok(put_some((distance as u64).to_le_bytes(), width, out))
        }
        _ => Err(Error::new(Code::Bug, format!("row.rs: {} value at a position of {storage:?}", value.type_name()))),
    }
}

/// A number's bytes in the fixed part, and how many of them count; none of NULL.
#[inline]
fn number_bytes(value: DatumRef<'_>) -> ([u8; 8], usize) {
    match value {
        DatumRef::Int(i) => (i.to_le_bytes(), signed_width(i)),
        DatumRef::Real(r) => {
            let bits = r.to_bits();
            let zero_bytes = (bits.trailing_zeros() as usize / 8).min(7);
            ((bits >> (8 * zero_bytes)).to_le_bytes(), 8 - zero_bytes)
        }
        _ => ([0; 8], 0),
    }
}

/// Appends the first `width` of eight bytes and gives their number. All are copied, as that takes no call, and the rest is
/// cut.
#[inline]
fn put_some(bytes: [u8; 8], width: usize, out: &mut Vec<u8>) -> usize {
    let end = out.len() + width;
    out.extend_from_slice(&bytes);
    out.truncate(end);
    width
}

fn put_value_bytes(value: DatumRef<'_>, storage: Storage, out: &mut Vec<u8>) {
    match (storage, value) {
        (Storage::Int | Storage::Real, _) | (_, DatumRef::Null) => {}
        (Storage::Any, DatumRef::Int(i)) => {
            out.push(ANY_INT);
            out.extend_from_slice(&i.to_le_bytes());
        }
        (Storage::Any, DatumRef::Real(r)) => {
            out.push(ANY_REAL);
            out.extend_from_slice(&r.to_bits().to_le_bytes());
        }
        (_, DatumRef::Text(bytes) | DatumRef::Blob(bytes)) => {
            if storage == Storage::Any {
                out.push(if matches!(value, DatumRef::Text(_)) { ANY_TEXT } else { ANY_BLOB });
            }
            out.extend_from_slice(bytes);
        }
        _ => {}
    }
}

fn any_is_whole(bytes: &[u8], storage: Storage) -> bool {
    storage != Storage::Any
        || match bytes.first() {
            Some(&(ANY_INT | ANY_REAL)) => bytes.len() == 9,
            Some(&(ANY_TEXT | ANY_BLOB)) => true,
            _ => false,
        }
}

/// Bytes that hold `i` in two's complement: at least one.
fn signed_width(i: i64) -> usize {
    let magnitude = if i < 0 { !i } else { i } as u64;
    (64 - magnitude.leading_zeros() as usize + 1).div_ceil(8)
}

fn unsigned_width(n: u64) -> usize {
    (64 - n.leading_zeros() as usize).div_ceil(8).max(1)
}

/// A row where it lies. Copying it copies no bytes.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    bytes: &'a [u8],
    layout: &'a RowLayout,
    /// Where the widths begin, and the fixed part.
    widths: usize,
    fixed: usize,
    positions: usize,
}

impl<'a> Row<'a> {
    /// Reads `bytes` as a row of `layout`; they come from [`RowLayout::encode`] or passed [`RowLayout::check`].
    #[inline]
    pub fn new(bytes: &'a [u8], layout: &'a RowLayout) -> Row<'a> {
        let (version, widths) = match bytes[0] {
            small @ 0..0x80 => (usize::from(small), 1),
            _ => long_version(bytes),
        };
        let positions = usize::from(layout.versions[version]);
        Row { bytes, layout, widths, fixed: widths + positions.div_ceil(2), positions }
    }

    /// The row as it is stored.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The layout that it is read by.
    pub fn layout(&self) -> &'a RowLayout {
        self.layout
    }

    /// The value at a position.
    #[inline]
    pub fn get(&self, position: u16) -> DatumRef<'a> {
        let position = usize::from(position);
        let column = &self.layout.columns[position];
        if position >= self.positions {
            return column.missing.as_ref();
        }
        let (width, before) = self.width_and_before(position);
        if width == 0 {
            return DatumRef::Null;
        }
        let at = self.fixed + before;
        match column.storage {
            Storage::Int => DatumRef::Int(load_high(self.bytes, at, width) as i64 >> (64 - 8 * width)),
            Storage::Real => DatumRef::Real(f64::from_bits(load_high(self.bytes, at, width))),
            Storage::Text => DatumRef::Text(self.value_bytes(at, width, column)),
            Storage::Blob => DatumRef::Blob(self.value_bytes(at, width, column)),
            Storage::Any => any_value(self.value_bytes(at, width, column)),
        }
    }

    /// The width of a position and the sum of those before it. Among the first sixteen, one word has all of these.
    #[inline(always)]
    fn width_and_before(&self, position: usize) -> (usize, usize) {
        if position >= 16 {
            return (self.width(position), self.widths_before(position));
        }
        let word = load_low(self.bytes, self.widths);
        ((word >> (4 * position) & 15) as usize, sum_of_nibbles(word & ((1 << (4 * position)) - 1)))
    }

    /// The same, for a position where a number is likely to be.
    #[inline]
    pub fn get_likely_number(&self, position: u16) -> DatumRef<'a> {
        self.layout.number(self.bytes, position).unwrap_or_else(|| self.get(position))
    }

    /// The values at all positions of the layout; NULL where a column was dropped, so that a row that is written again
    /// loses what it had there.
    pub fn values(&self) -> impl Iterator<Item = DatumRef<'a>> + use<'a> {
        let row = *self;
        let value = move |(position, column): (usize, &Column)| match column.dropped {
            true => DatumRef::Null,
            false => row.get(position as u16),
        };
        self.layout.columns.iter().take(self.layout.positions()).enumerate().map(value)
    }

    #[inline]
    fn width(&self, position: usize) -> usize {
        usize::from(self.bytes[self.widths + position / 2] >> (4 * (position % 2)) & 15)
    }

    /// The sum of the widths of all positions before this one.
    #[inline]
    fn widths_before(&self, position: usize) -> usize {
        let mut sum = 0;
        let mut at = self.widths;
        let mut left = position;
        while left > 16 {
            sum += sum_of_nibbles(load_low(self.bytes, at));
            at += 8;
            left -= 16;
        }
        if left == 0 {
            return sum;
        }
        sum + sum_of_nibbles(load_low(self.bytes, at) << (64 - 4 * left))
    }

    /// From the start of the bytes of the column at `position`, which is not NULL, to the end of the row.
    fn distance(&self, position: usize) -> usize {
        let width = self.width(position);
        (load_high(self.bytes, self.fixed + self.widths_before(position), width) >> (64 - 8 * width)) as usize
    }

    /// Not inlined, so that reading a number, the most frequent case, saves no registers for it.
    #[inline(never)]
    fn value_bytes(&self, at: usize, width: usize, column: &Column) -> &'a [u8] {
        let distance = (load_high(self.bytes, at, width) >> (64 - 8 * width)) as usize;
        let mut next = column.next_bytes;
        // The bytes end where those of the next column that has any begin.
        while usize::from(next) < self.positions {
            if self.width(usize::from(next)) != 0 {
                let end = self.bytes.len() - self.distance(usize::from(next));
                return &self.bytes[self.bytes.len() - distance..end];
            }
            next = self.layout.columns[usize::from(next)].next_bytes;
        }
        &self.bytes[self.bytes.len() - distance..]
    }
}

#[cold]
fn long_version(bytes: &[u8]) -> (usize, usize) {
    let mut rest = bytes;
    let version = take_varint(&mut rest).expect("a checked row");
    (version as usize, bytes.len() - rest.len())
}

fn any_value(bytes: &[u8]) -> DatumRef<'_> {
    let (tag, rest) = (bytes[0], &bytes[1..]);
    let number = || u64::from_le_bytes(rest.try_into().expect("eight bytes in a checked row"));
    match tag {
        ANY_INT => DatumRef::Int(number() as i64),
        ANY_REAL => DatumRef::Real(f64::from_bits(number())),
        ANY_TEXT => DatumRef::Text(rest),
        _ => DatumRef::Blob(rest),
    }
}

/// The `width` bytes at `at` as the high bytes of a word whose other bytes are zero.
#[inline]
fn load_high(bytes: &[u8], at: usize, width: usize) -> u64 {
    let end = at + width;
    let low = 64 - 8 * width as u32;
    if let Some(start) = end.checked_sub(8) {
        let word: [u8; 8] = bytes[start..end].try_into().expect("eight bytes");
        return u64::from_le_bytes(word) >> low << low;
    }
    // A word at the start of the row, whose byte `end - 1` is moved to the top: no call to copy a few bytes.
    if let Some(word) = bytes.first_chunk() {
        return u64::from_le_bytes(*word) << (64 - 8 * end as u32) >> low << low;
    }
    let mut word = [0; 8];
    word[8 - width..].copy_from_slice(&bytes[at..end]);
    u64::from_le_bytes(word)
}

/// The eight bytes at `at`, zeros past the end.
#[inline]
fn load_low(bytes: &[u8], at: usize) -> u64 {
    if let Some(word) = bytes.get(at..at + 8) {
        return u64::from_le_bytes(word.try_into().expect("eight bytes"));
    }
    if let (Some(word), Some(past @ 1..8)) = (bytes.last_chunk(), (at + 8).checked_sub(bytes.len())) {
        return u64::from_le_bytes(*word) >> (8 * past as u32);
    }
    let mut word = [0; 8];
    let rest = bytes.get(at..).unwrap_or_default();
    word[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(word)
}

/// Sixteen nibbles of at most 8 added up: pairs first, so that each byte holds at most 16, then all bytes in the top one.
#[inline]
fn sum_of_nibbles(nibbles: u64) -> usize {
    const LOW: u64 = 0x0F0F_0F0F_0F0F_0F0F;
    let pairs = (nibbles & LOW) + (nibbles >> 4 & LOW);
    (pairs.wrapping_mul(0x0101_0101_0101_0101) >> 56) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;
    use crate::table::catalog::TableDef;

    fn layout(columns: &[&str]) -> RowLayout {
        let mut def = TableDef::new("t");
        for (i, declared) in columns.iter().enumerate() {
            def.add_column(&format!("c{i}"), declared).unwrap();
        }
        RowLayout::new(&def)
    }

    fn encode(layout: &RowLayout, values: &[Datum]) -> Vec<u8> {
        let mut bytes = Vec::new();
        layout.encode(&values.iter().map(Datum::as_ref).collect::<Vec<_>>(), &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn three_small_integers_take_thirteen_bytes_at_most() {
        let layout = layout(&["INT", "INT", "INT"]);
        let bytes = encode(&layout, &[Datum::Int(10_000_000), Datum::Int(999_999), Datum::Int(123_456)]);
        assert_eq!(13, bytes.len());
        assert_eq!(6, encode(&layout, &[Datum::Int(1), Datum::Int(-1), Datum::Int(0)]).len());
        assert_eq!(3, encode(&layout, &[Datum::Null, Datum::Null, Datum::Null]).len());
    }

    #[test]
    fn integers_at_every_width_read_back() {
        let layout = layout(&["INT"]);
        for shift in 0..64 {
            for i in [1i64 << shift, (1i64 << shift).wrapping_sub(1), !(1i64 << shift), -(1i64 << (shift / 2))] {
                let bytes = encode(&layout, &[Datum::Int(i)]);
                assert_eq!(DatumRef::Int(i), Row::new(&bytes, &layout).get(0));
            }
        }
    }

    fn random_value(random: &mut Xoshiro, declared: &str) -> Datum {
        if random.below(5) == 0 {
            return Datum::Null;
        }
        let len = if random.below(20) == 0 { random.below(70_000) } else { random.below(20) } as usize;
        match declared {
            "INT" => Datum::Int(random.next() as i64 >> random.below(64)),
            "REAL" => Datum::Real((random.next() as i64 >> random.below(64)) as f64 / 8.0),
            "TEXT" => Datum::text("x".repeat(len)),
            "BLOB" => Datum::blob(vec![random.next() as u8; len]),
            _ => {
                let declared = ["INT", "REAL", "TEXT", "BLOB"][random.below(4) as usize];
                random_value(random, declared)
            }
        }
    }

    #[test]
    fn a_row_with_other_numbers_is_the_row_of_those_values() {
        let kinds = ["INT", "REAL", "TEXT", "BLOB"];
        let mut changed_rows = 0;
        for seed in 0..2000 {
            let mut random = Xoshiro::from_seed(seed);
            let count = 1 + random.below(if seed % 10 == 0 { 40 } else { 8 }) as usize;
            let declared: Vec<&str> = (0..count).map(|_| kinds[random.below(4) as usize]).collect();
            let layout = layout(&declared);
            let old: Vec<Datum> = declared.iter().map(|d| random_value(&mut random, d)).collect();
            let mut new = old.clone();
            let mut changes = Vec::new();
            for _ in 0..1 + random.below(3) {
                let position = random.below(count as u64) as usize;
                new[position] = random_value(&mut random, declared[position]);
                changes.push((position as u16, new[position].clone()));
            }
            // What is there stays, as in a batch of rows.
            let mut out = b"before".to_vec();
            let given = changes.iter().map(|(position, value)| (*position, value.as_ref()));
            let done = layout.encode_changed(&encode(&layout, &old), given, &mut out);
            let of_numbers = changes.iter().all(|(at, _)| ["INT", "REAL"].contains(&declared[usize::from(*at)]));
            assert_eq!(of_numbers.then_some(()), done, "seed {seed}");
            let expected = if of_numbers { encode(&layout, &new) } else { Vec::new() };
            assert_eq!([b"before", &expected[..]].concat(), out, "seed {seed}: {declared:?} {old:?} {changes:?}");
            changed_rows += usize::from(of_numbers);
        }
        assert!(changed_rows > 300, "{changed_rows}");
    }

    #[test]
    fn random_rows_read_back_and_damage_never_panics() {
        for seed in 0..60 {
            let mut random = Xoshiro::from_seed(seed);
            let n = if seed % 10 == 0 { 1 + random.below(200) } else { 1 + random.below(20) };
            let declared: Vec<&str> =
                (0..n).map(|_| ["INT", "REAL", "TEXT", "BLOB", "ANY"][random.below(5) as usize]).collect();
            let layout = layout(&declared);
            for _ in 0..20 {
                let values: Vec<Datum> = declared.iter().map(|d| random_value(&mut random, d)).collect();
                let mut bytes = encode(&layout, &values);
                layout.check(&bytes).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
                let row = Row::new(&bytes, &layout);
                assert!(values.iter().map(Datum::as_ref).eq(row.values()), "seed {seed}");
                for (position, value) in (0..).zip(&values) {
                    let number = layout.number(&bytes, position);
                    assert!(number.is_none_or(|number| number == value.as_ref()), "seed {seed}");
                    let is_number = matches!(declared[usize::from(position)], "INT" | "REAL");
                    assert!(number.is_some() || !is_number || bytes.len() < 9 || position > 15, "seed {seed}");
                }
                let at = random.below(bytes.len().min(100) as u64) as usize;
                bytes[at] = random.next() as u8;
                bytes.truncate(bytes.len() - random.below(2) as usize);
                for position in 0..values.len() as u16 {
                    let _ = layout.number(&bytes, position);
                }
                if layout.check(&bytes).is_ok() {
                    let _ = Row::new(&bytes, &layout).values().count();
                }
            }
        }
    }

    #[test]
    fn old_versions_read_their_missing_columns() {
        let mut def = TableDef::new("t");
        def.add_column("a", "INT").unwrap();
        def.add_column("b", "TEXT").unwrap();
        let old = encode(&RowLayout::new(&def), &[Datum::Int(7), Datum::text("seven")]);
        def.add_column_later("c", "TEXT", Datum::text("none yet")).unwrap();
        let layout = RowLayout::new(&def);
        let row = Row::new(&old, &layout);
        assert_eq!(DatumRef::Text(b"seven"), row.get(1));
        assert_eq!(DatumRef::Text(b"none yet"), row.get(2));
        let new = encode(&layout, &[Datum::Int(7), Datum::Null, Datum::text("c")]);
        assert_eq!(DatumRef::Text(b"c"), Row::new(&new, &layout).get(2));
        assert!(layout.check(&old).is_ok());
        assert!(layout.check(&[2, 0, 0]).is_err()); // a version from the future
    }

    #[test]
    fn rows_past_the_limit_and_wrong_types_are_refused() {
        let layout = layout(&["BLOB"]);
        let long = vec![0; limits::ROW_BYTES_MAX + 1];
        assert_eq!(Code::Limit, layout.encode(&[DatumRef::Blob(&long)], &mut Vec::new()).unwrap_err().code);
        assert_eq!(Code::Bug, layout.encode(&[DatumRef::Int(1)], &mut Vec::new()).unwrap_err().code);
    }
}
