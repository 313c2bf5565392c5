//! A string read as bits, the highest bit of each byte first: SETBIT, BITCOUNT, BITPOS, BITOP and BITFIELD.

use super::string::{Str, StrOp};
use super::{Edit, range};
use crate::error::Result;
use std::ops::Range;

/// What the ends of a range count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Byte,
    /// Bits.
    Bit,
}

/// How BITOP combines strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// All have the bit.
    And,
    /// Any has the bit.
    Or,
    /// An odd number have the bit.
    Xor,
    /// The one string lacks the bit.
    Not,
}

/// What happens when a value does not fit its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The low bits are kept.
    Wrap,
    /// The nearest value that fits is taken.
    Saturate,
    /// Nothing is changed.
    Fail,
}

/// An integer of some bits inside a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// In two's complement.
    pub signed: bool,
    /// 1 to 64 when signed, 1 to 63 otherwise.
    pub bits: u8,
}

/// GETBIT: one bit; false beyond the end.
pub fn get(bytes: &[u8], offset: u64) -> bool {
    bytes.get((offset / 8) as usize).is_some_and(|byte| byte >> (7 - offset % 8) & 1 == 1)
}

/// SETBIT: sets one bit, after zeros where the string is shorter; the bit that was there.
pub fn set(string: &mut Str, offset: u64, bit: bool, edit: &mut Edit<StrOp>) -> Result<bool> {
    let at = (offset / 8) as usize;
    let mask = 0x80 >> (offset % 8);
    let old = string.get(at).copied().unwrap_or(0);
    let new = if bit { old | mask } else { old & !mask };
    string.set_range(at, &[new], edit)?;
    Ok(old & mask != 0)
}

/// The bits of a range given in bytes or bits; `clip` makes positions of its ends.
fn bit_range(bytes: &[u8], unit: Unit, clip: impl Fn(usize) -> Range<usize>) -> Range<usize> {
    match unit {
        Unit::Bit => clip(bytes.len() * 8),
        Unit::Byte => {
            let range = clip(bytes.len());
            range.start * 8..range.end * 8
        }
    }
}

/// BITCOUNT: how many bits are set, in a range if one is given.
pub fn count(bytes: &[u8], range: Option<(i64, i64, Unit)>) -> u64 {
    let bits = range.map_or(0..bytes.len() * 8, |(start, stop, unit)| {
        bit_range(bytes, unit, |len| range::text_positions(start, stop, len))
    });
    if bits.is_empty() {
        return 0;
    }
    let (first, last) = (bits.start / 8, (bits.end - 1) / 8);
    let before = bytes[first] & !(0xff >> (bits.start % 8));
    let after = bytes[last] & (0x7f >> ((bits.end - 1) % 8));
    ones(&bytes[first..=last]) - before.count_ones() as u64 - after.count_ones() as u64
}

fn ones(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let in_words: u64 = words.iter().map(|word| u64::from_ne_bytes(*word).count_ones() as u64).sum();
    in_words + rest.iter().map(|byte| byte.count_ones() as u64).sum::<u64>()
}

/// BITPOS: the first bit that is `bit`, in the range from `start` to `stop`. A string is followed by zeros, so a search
/// for a zero finds one after the end unless a `stop` was given.
pub fn position(bytes: &[u8], bit: bool, start: i64, stop: Option<i64>, unit: Unit) -> Option<u64> {
    let whole = bit_range(bytes, unit, |len| range::clipped_positions(start, stop.unwrap_or(-1), len));
    if whole.is_empty() {
        return None;
    }
    find(bytes, bit, whole.clone()).or((!bit && stop.is_none()).then_some(whole.end)).map(|position| position as u64)
}

fn find(bytes: &[u8], bit: bool, range: Range<usize>) -> Option<usize> {
    // Seen through `flip`, one looks for a set bit.
    let flip = if bit { 0 } else { 0xff };
    let (first, last) = (range.start / 8, (range.end - 1) / 8);
    let edge = (bytes[first] ^ flip) & (0xff >> (range.start % 8));
    let found = if edge != 0 {
        first * 8 + edge.leading_zeros() as usize
    } else {
        let byte = first + 1 + first_other_than(&bytes[first + 1..=last], flip)?;
        byte * 8 + (bytes[byte] ^ flip).leading_zeros() as usize
    };
    (found < range.end).then_some(found)
}

/// The first byte that is not `skipped`, eight at a time.
fn first_other_than(bytes: &[u8], skipped: u8) -> Option<usize> {
    let (words, _) = bytes.as_chunks::<8>();
    let at = words.iter().take_while(|word| **word == [skipped; 8]).count() * 8;
    bytes[at..].iter().position(|byte| *byte != skipped).map(|i| at + i)
}

/// BITOP: combines strings, as long as the longest; shorter ones are filled up with zeros.
pub fn combine(how: Combine, sources: &[&[u8]]) -> Vec<u8> {
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let mut result = vec![0; len];
    let Some((first, others)) = sources.split_first() else { return result };
    result[..first.len()].copy_from_slice(first);
    for other in others {
        let pairs = result.iter_mut().zip(*other);
        match how {
            Combine::And => {
                pairs.for_each(|(r, o)| *r &= o);
                result[other.len()..].fill(0);
            }
            Combine::Or => pairs.for_each(|(r, o)| *r |= o),
            Combine::Xor => pairs.for_each(|(r, o)| *r ^= o),
            Combine::Not => {}
        }
    }
    if how == Combine::Not {
        result.iter_mut().for_each(|r| *r = !*r);
    }
    result
}

impl Field {
    /// Reads `i1` to `i64` and `u1` to `u63`.
    pub fn parse(text: &[u8]) -> Option<Field> {
        let (signed, digits) = match text {
            [b'i', rest @ ..] => (true, rest),
            [b'u', rest @ ..] => (false, rest),
            _ => return None,
        };
        let bits = crate::ds::number::parse_i64(digits)?;
        let max = if signed { 64 } else { 63 };
        (1..=max).contains(&bits).then_some(Field { signed, bits: bits as u8 })
    }

    /// The string length that a field at this bit offset takes, bytes.
    pub fn end(self, offset: u64) -> u64 {
        (offset + self.bits as u64).div_ceil(8)
    }

    /// The integer at a bit offset; bits beyond the end are zero.
    pub fn get(self, bytes: &[u8], offset: u64) -> i64 {
        let first = (offset / 8) as usize;
        let mut wide = 0u128;
        for i in 0..9 {
            wide = wide << 8 | bytes.get(first + i).copied().unwrap_or(0) as u128;
        }
        self.truncated((wide >> (72 - offset % 8 - self.bits as u64)) as u64)
    }

    /// Keeps the low bits, with their sign.
    fn truncated(self, value: u64) -> i64 {
        let unused = 64 - self.bits as u32;
        if self.signed { (value << unused) as i64 >> unused } else { (value << unused >> unused) as i64 }
    }

    /// `value` as BITFIELD SET takes it, or the sum that INCRBY makes: what is stored, or `None` if that is refused.
    fn fit(self, value: i128, overflow: Overflow) -> Option<i64> {
        let (min, max) = if self.signed {
            (-(1i128 << (self.bits - 1)), (1i128 << (self.bits - 1)) - 1)
        } else {
            (0, (1i128 << self.bits) - 1)
        };
        if (min..=max).contains(&value) {
            return Some(value as i64);
        }
        match overflow {
            Overflow::Wrap => Some(self.truncated(value as u64)),
            Overflow::Saturate => Some(value.clamp(min, max) as i64),
            Overflow::Fail => None,
        }
    }

    /// BITFIELD SET: stores a value; the one that was there, or `None` when overflow refuses.
    pub fn set(
        self,
        string: &mut Str,
        offset: u64,
        value: i64,
        overflow: Overflow,
        edit: &mut Edit<StrOp>,
    ) -> Result<Option<i64>> {
        let old = self.get(string, offset);
        // An unsigned field takes the value's 64 bits as a number, so that a negative one is too large for it.
        let value = if self.signed { value as i128 } else { value as u64 as i128 };
        let Some(new) = self.fit(value, overflow) else { return Ok(None) };
        self.put(string, offset, new, edit)?;
        Ok(Some(old))
    }

    /// BITFIELD INCRBY: adds to the field; the sum as stored, or `None` when overflow refuses.
    pub fn increment(
        self,
        string: &mut Str,
        offset: u64,
        by: i64,
        overflow: Overflow,
        edit: &mut Edit<StrOp>,
    ) -> Result<Option<i64>> {
        let sum = self.get(string, offset) as i128 + by as i128;
        let Some(new) = self.fit(sum, overflow) else { return Ok(None) };
        self.put(string, offset, new, edit)?;
        Ok(Some(new))
    }

    fn put(self, string: &mut Str, offset: u64, value: i64, edit: &mut Edit<StrOp>) -> Result<()> {
        let first = (offset / 8) as usize;
        let size = self.end(offset) as usize - first;
        let shift = size as u64 * 8 - offset % 8 - self.bits as u64;
        let mask = (u64::MAX >> (64 - self.bits)) as u128;
        let mut wide = (0..size).fold(0u128, |w, i| w << 8 | string.get(first + i).copied().unwrap_or(0) as u128);
        wide = wide & !(mask << shift) | (value as u64 as u128 & mask) << shift;
        string.set_range(first, &wide.to_be_bytes()[16 - size..], edit)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;
    use crate::value::Thresholds;

    const T: &Thresholds = &Thresholds::DEFAULT;

    fn random_bytes(random: &mut Xoshiro) -> Vec<u8> {
        let fill = [0, 0xff, random.next() as u8][random.below(3) as usize];
        let mut bytes = vec![fill; random.below(40) as usize];
        for _ in 0..random.below(3) {
            if let Some(i) = random.next().checked_rem(bytes.len() as u64) {
                bytes[i as usize] = random.next() as u8;
            }
        }
        bytes
    }

    #[test]
    fn counts_and_finds_as_bit_by_bit() {
        let mut random = Xoshiro::from_seed(1);
        for _ in 0..20_000 {
            let bytes = random_bytes(&mut random);
            let unit = if random.below(2) == 0 { Unit::Bit } else { Unit::Byte };
            let (start, stop) = (random.below(100) as i64 - 50, random.below(100) as i64 - 50);
            let bits = bit_range(&bytes, unit, |len| range::text_positions(start, stop, len));
            let set = |i: &usize| get(&bytes, *i as u64);
            assert_eq!(bits.clone().filter(set).count() as u64, count(&bytes, Some((start, stop, unit))));
            let bits = bit_range(&bytes, unit, |len| range::clipped_positions(start, stop, len));
            let first = bits.clone().find(|i| !set(i)).map(|i| i as u64);
            assert_eq!(first, position(&bytes, false, start, Some(stop), unit));
            assert_eq!(bits.clone().find(set).map(|i| i as u64), position(&bytes, true, start, Some(stop), unit));
        }
        assert_eq!(4, count(b"\xf0", None));
    }

    #[test]
    fn a_zero_follows_the_string() {
        assert_eq!(Some(16), position(b"\xff\xff", false, 0, None, Unit::Byte));
        assert_eq!(None, position(b"\xff\xff", false, 0, Some(-1), Unit::Byte));
        assert_eq!(None, position(b"\x00", true, 0, None, Unit::Byte));
        assert_eq!(None, position(b"\xff", false, 1, None, Unit::Byte));
    }

    #[test]
    fn strings_combine() {
        assert_eq!(vec![0x08, 0], combine(Combine::And, &[b"\x0f\xff", b"\xf8"]));
        assert_eq!(vec![0xff, 0xff], combine(Combine::Or, &[b"\x0f\xff", b"\xf8"]));
        assert_eq!(vec![0xf7, 0xff], combine(Combine::Xor, &[b"\x0f\xff", b"\xf8"]));
        assert_eq!(vec![0xf0, 0], combine(Combine::Not, &[b"\x0f\xff"]));
        assert!(combine(Combine::And, &[b"", b""]).is_empty());
    }

    #[test]
    fn bits_are_set_one_by_one() {
        let mut string = Str::new(b"");
        assert_eq!(Ok(false), set(&mut string, 7, true, &mut Edit::silent(T)));
        assert_eq!(Ok(false), set(&mut string, 16, true, &mut Edit::silent(T)));
        assert_eq!(Ok(true), set(&mut string, 7, false, &mut Edit::silent(T)));
        assert_eq!(b"\x00\x00\x80", &string[..]);
    }

    #[test]
    fn fields_overflow_as_told() {
        let e = &mut Edit::silent(T);
        let [u2, byte, long] = ["u2", "i8", "i64"].map(|name| Field::parse(name.as_bytes()).unwrap());
        let mut s = Str::new(b"");
        assert_eq!(Ok(Some(3)), u2.increment(&mut s, 102, 3, Overflow::Wrap, e));
        assert_eq!(Ok(Some(0)), u2.increment(&mut s, 102, 1, Overflow::Wrap, e));
        assert_eq!(Ok(Some(3)), u2.increment(&mut s, 102, 9, Overflow::Saturate, e));
        assert_eq!(Ok(None), u2.increment(&mut s, 102, 1, Overflow::Fail, e));
        assert_eq!(Ok(Some(0)), byte.set(&mut s, 0, 200, Overflow::Saturate, e));
        assert_eq!(127, byte.get(&s, 0));
        assert_eq!(Ok(Some(-128)), byte.increment(&mut s, 0, 1, Overflow::Wrap, e));
        assert_eq!(Ok(Some(0)), u2.set(&mut s, 40, -1, Overflow::Saturate, e));
        assert_eq!(3, u2.get(&s, 40));
        assert_eq!(Ok(Some(0)), long.set(&mut s, 205, i64::MAX, Overflow::Fail, e));
        assert_eq!(Ok(Some(i64::MIN)), long.increment(&mut s, 205, 1, Overflow::Wrap, e));
        assert_eq!(Ok(None), long.increment(&mut s, 205, -1, Overflow::Fail, e));
        for bad in ["", "u0", "u64", "i65", "x8", "i", "u08"] {
            assert_eq!(None, Field::parse(bad.as_bytes()));
        }
    }

    #[test]
    fn a_field_is_what_its_bits_say() {
        let mut random = Xoshiro::from_seed(2);
        for _ in 0..5000 {
            let mut string = Str::new(&random_bytes(&mut random));
            let signed = random.below(2) == 0;
            let field = Field { signed, bits: 1 + random.below(63) as u8 };
            let (offset, value) = (random.below(300), random.next() as i64);
            let before = string.clone();
            field.set(&mut string, offset, value, Overflow::Wrap, &mut Edit::silent(T)).unwrap();
            for i in 0..string.len() as u64 * 8 {
                let inside = (offset..offset + field.bits as u64).contains(&i);
                let expected =
                    if inside { value >> (offset + field.bits as u64 - 1 - i) & 1 == 1 } else { get(&before, i) };
                assert_eq!(expected, get(&string, i));
            }
            assert_eq!(field.truncated(value as u64), field.get(&string, offset));
        }
    }
}
