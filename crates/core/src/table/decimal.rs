//! Exact decimal numbers: the canonical text that a DECIMAL column keeps, and index keys that order it by value.

use super::datum::{Datum, DatumRef, real_text};
use super::types::Fitted;
use smallvec::SmallVec;

/// Most digits before, and most digits after the point (MySQL's DECIMAL has as many in all).
pub const DIGITS_MAX: usize = 65;

/// A decimal number as sign, significant digits and the place of the point: `0.d1 d2 d3 ... * 10^point`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    negative: bool,
    /// Values 0..=9, neither starting nor ending with 0; empty for zero.
    digits: SmallVec<[u8; 40]>,
    point: i32,
}

impl Decimal {
    /// Reads `[+-]digits[.digits][e[+-]digits]`, spaces around it allowed.
    pub(crate) fn parse(text: &[u8]) -> Option<Decimal> {
        let text = text.trim_ascii();
        let (negative, text) = match text.split_first()? {
            (b'-', rest) => (true, rest),
            (b'+', rest) => (false, rest),
            _ => (false, text),
        };
        let (mantissa, exponent) = match text.iter().position(|b| matches!(b, b'e' | b'E')) {
            Some(at) => (&text[..at], parse_exponent(&text[at + 1..])?),
            None => (text, 0),
        };
        let mut decimal = Decimal { negative, digits: SmallVec::new(), point: exponent };
        let (mut after_point, mut seen) = (false, false);
        for &byte in mantissa {
            match byte {
                b'0'..=b'9' => decimal.push(byte - b'0', after_point),
                b'.' if !after_point => after_point = true,
                _ => return None,
            }
            seen |= byte != b'.';
        }
        decimal.trim();
        seen.then_some(decimal)
    }

    /// The decimal that a value of any type names, if it names one. A double names its shortest text.
    pub(crate) fn of(value: DatumRef<'_>) -> Option<Decimal> {
        match value {
            DatumRef::Int(i) => Decimal::parse(itoa::Buffer::new().format(i).as_bytes()),
            DatumRef::Real(r) => Decimal::parse(real_text(r).as_bytes()),
            DatumRef::Text(bytes) => Decimal::parse(bytes),
            _ => None,
        }
    }

    fn push(&mut self, digit: u8, after_point: bool) {
        if self.digits.is_empty() && digit == 0 {
            self.point -= i32::from(after_point);
            return;
        }
        self.digits.push(digit);
        self.point += i32::from(!after_point);
    }

    fn trim(&mut self) {
        while self.digits.last() == Some(&0) {
            self.digits.pop();
        }
        if self.digits.is_empty() {
            (self.negative, self.point) = (false, 0);
        }
    }

    fn whole_digits(&self) -> usize {
        self.point.max(0) as usize
    }

    fn fraction_digits(&self) -> usize {
        (self.digits.len() as i32 - self.point).max(0) as usize
    }

    /// The one text of this number with at least `scale` digits after the point. Callers have checked the lengths.
    fn text(&self, scale: usize) -> String {
        let mut text = String::with_capacity(self.whole_digits() + self.fraction_digits().max(scale) + 3);
        if self.negative {
            text.push('-');
        }
        let digit = |place: i32| {
            self.digits.get(usize::try_from(place).unwrap_or(usize::MAX)).map_or('0', |d| (b'0' + d) as char)
        };
        if self.point <= 0 {
            text.push('0');
        }
        text.extend((0..self.point).map(digit));
        let fraction = self.fraction_digits().max(scale) as i32;
        if fraction > 0 {
            text.push('.');
            text.extend((self.point..self.point + fraction).map(digit));
        }
        text
    }

    /// Appends bytes that order as the numbers do and of which none is a prefix of another: sign, place of the point,
    /// digits in pairs, an end mark. Those of a negative number are inverted, so larger magnitudes come first.
    pub(crate) fn encode_key(&self, tags: [u8; 3], out: &mut impl Extend<u8>) {
        if self.digits.is_empty() {
            out.extend([tags[1]]);
            return;
        }
        let flip = if self.negative { 0xFF } else { 0 };
        out.extend([if self.negative { tags[0] } else { tags[2] }]);
        // Values of columns lie within DIGITS_MAX of the point; a bound beyond is cut to "beyond all of them".
        out.extend([(self.point.clamp(-127, 127) + 128) as u8 ^ flip]);
        out.extend(self.digits.chunks(2).map(|pair| (1 + pair[0] * 10 + pair.get(1).copied().unwrap_or(0)) ^ flip));
        out.extend([flip]);
    }
}

/// The exact sum of decimals.
pub(crate) struct Sum {
    /// What was added at each place, the lowest first; a place takes more additions than there can be rows.
    places: [i64; PLACES],
    /// Most digits after the point of what was added.
    scale: usize,
    count: u64,
}

/// Places of a sum: as many before the point as a column has and some for carries, and as many after it.
const PLACES: usize = 2 * DIGITS_MAX + 20;

impl Default for Sum {
    fn default() -> Self {
        Sum { places: [0; PLACES], scale: 0, count: 0 }
    }
}

impl Sum {
    /// Adds a value, or takes it away; false when it is no decimal, or one too large.
    pub(crate) fn add(&mut self, value: DatumRef<'_>, negate: bool) -> bool {
        let Some(decimal) = Decimal::of(value) else { return false };
        if decimal.whole_digits() > DIGITS_MAX || decimal.fraction_digits() > DIGITS_MAX {
            return false;
        }
        let sign = if decimal.negative != negate { -1 } else { 1 };
        // The first digit stands `point` places before the point, whose place is number DIGITS_MAX.
        for (place, digit) in (0..(DIGITS_MAX as i32 + decimal.point)).rev().zip(&decimal.digits) {
            self.places[place as usize] += sign * i64::from(*digit);
        }
        // The texts of a column keep the zeros at their ends.
        let written = match value {
            DatumRef::Text(text) if !text.iter().any(|b| matches!(b, b'e' | b'E')) => {
                text.trim_ascii().iter().rev().position(|b| *b == b'.').unwrap_or(0)
            }
            _ => 0,
        };
        self.scale = self.scale.max(written.min(DIGITS_MAX)).max(decimal.fraction_digits());
        self.count = if negate { self.count.saturating_sub(1) } else { self.count + 1 };
        true
    }

    /// The sum as a text; None of nothing.
    pub(crate) fn text(&self) -> Option<String> {
        if self.count == 0 {
            return None;
        }
        let carried = |sign: i64| {
            let (mut digits, mut carry) = ([0u8; PLACES], 0);
            for (digit, place) in digits.iter_mut().zip(&self.places) {
                let value = sign * place + carry;
                (*digit, carry) = (value.rem_euclid(10) as u8, value.div_euclid(10));
            }
            (digits, carry)
        };
        let (mut digits, carry) = carried(1);
        let negative = carry < 0;
        if negative {
            (digits, _) = carried(-1);
        }
        let mut decimal = Decimal { negative, digits: SmallVec::new(), point: 0 };
        for (place, digit) in digits.iter().enumerate().rev() {
            decimal.push(*digit, place < DIGITS_MAX);
        }
        decimal.trim();
        Some(decimal.text(self.scale))
    }
}

fn parse_exponent(text: &[u8]) -> Option<i32> {
    let exponent: i32 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (-1000..=1000).contains(&exponent).then_some(exponent)
}

/// Fits a value into DECIMAL(precision, scale); 0 and `None` stand for no limit but the general one.
pub(crate) fn fit(value: DatumRef<'_>, precision: u8, scale: Option<u8>) -> Result<Fitted<'_>, &'static str> {
    let decimal = Decimal::of(value).ok_or("")?;
    let digits_max = if precision == 0 { DIGITS_MAX } else { usize::from(precision) };
    let fraction_max = scale.map_or(DIGITS_MAX, usize::from);
    let whole_max = digits_max.saturating_sub(scale.map_or(0, usize::from));
    if decimal.whole_digits() > whole_max {
        return Err("it has too many digits before the point");
    }
    if decimal.fraction_digits() > fraction_max {
        return Err("it has too many digits after the point");
    }
    let text = decimal.text(scale.map_or(0, usize::from));
    match value {
        DatumRef::Text(bytes) if bytes == text.as_bytes() => Ok(Fitted::AsIs(value)),
        _ => Ok(Fitted::Converted(Datum::text(text))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;

    fn fitted(value: impl Into<Datum>, precision: u8, scale: Option<u8>) -> Option<Datum> {
        let value = value.into();
        fit(value.as_ref(), precision, scale).ok().map(|f| f.as_ref().to_owned())
    }

    #[test]
    fn texts_become_canonical() {
        for (text, canonical) in [
            ("1", "1"),
            ("+01.50", "1.5"),
            ("-0.00", "0"),
            (".5", "0.5"),
            ("5.", "5"),
            ("12e3", "12000"),
            ("12.5e-3", "0.0125"),
            ("-100", "-100"),
            ("0.10", "0.1"),
        ] {
            assert_eq!(Some(Datum::text(canonical)), fitted(text, 0, None), "{text}");
        }
        for text in ["", ".", "-", "1.2.3", "abc", "1e", "1e9999", "0x1", "Inf", "1 2"] {
            assert_eq!(None, fitted(text, 0, None), "{text}");
        }
    }

    #[test]
    fn precision_and_scale_bind() {
        assert_eq!(Some(Datum::text("12.30")), fitted(12.3, 5, Some(2)));
        assert_eq!(Some(Datum::text("7.00")), fitted(7, 5, Some(2)));
        assert_eq!(Some(Datum::text("0.00")), fitted("-0", 5, Some(2)));
        assert_eq!(None, fitted("1.234", 5, Some(2)));
        assert_eq!(None, fitted("1234", 5, Some(2)));
        assert_eq!(None, fitted("1e70", 0, None));
        assert_eq!(None, fitted("1e-70", 0, None));
        assert_eq!(None, fitted(Datum::blob("1"), 0, None));
    }

    #[test]
    fn keys_order_as_numbers_do() {
        let seed = 7;
        let mut random = Xoshiro::from_seed(seed);
        let mut numbers: Vec<i64> = (0..500).map(|_| random.next() as i64 >> random.below(60)).collect();
        numbers.extend([0, 1, -1, 10, 100, -10, 99, 101]);
        let key = |n: i64, scale: u32| {
            let text = format!("{n}e-{scale}");
            let mut key = Vec::new();
            Decimal::parse(text.as_bytes()).unwrap().encode_key([1, 2, 3], &mut key);
            key
        };
        for scale in [0, 3] {
            let mut by_key = numbers.clone();
            by_key.sort_by_key(|&n| key(n, scale));
            numbers.sort();
            assert_eq!(numbers, by_key, "seed {seed}");
        }
        assert_eq!(key(5, 0), key(5000, 3));
    }
}
