//! Numbers as text, read and written the way Redis 7 does: strict integers, C-like floats, `%.17g`.

use super::extended::Extended;
use std::fmt::Write as _;
use std::ops::Deref;

/// Reads a 64-bit integer written canonically: no plus sign, spaces, leading zeros or "-0".
///
/// Exactly the texts that printing an `i64` can give, so that "is it an integer" and "does it survive being stored as
/// one" are the same question.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    // 19 digits stay below 10^19, which a u64 holds, so no step can overflow.
    let mut magnitude = 0u64;
    for &c in digits {
        let digit = c.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        magnitude = magnitude * 10 + digit as u64;
    }
    if negative {
        (magnitude <= 1 << 63).then(|| (magnitude as i64).wrapping_neg())
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// Reads a double as Redis reads scores: all that C's `strtod` takes, hexadecimal and infinities too, but neither
/// surrounding space, nor NaN, nor a number that overflows or that vanishes to zero.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    if let Some(n) = short_integer(text) {
        return Some(n as f64);
    }
    let number = parse_c(text)?;
    (!number.vanished() && !number.overflowed() && !number.value.is_nan()).then_some(number.value)
}

/// Reads a bound of a score range (without its parenthesis). More lenient than [`parse_f64`], because Redis is:
/// leading space is skipped, nothing at all reads as zero, a zero byte ends the text as in C, and what overflows is an
/// infinity.
pub fn parse_bound(text: &[u8]) -> Option<f64> {
    parse_leniently(text).map(|number| number.value)
}

/// Reads what SORT compares: as lenient as [`parse_bound`], but every loss of range is refused.
pub fn parse_weight(text: &[u8]) -> Option<f64> {
    let number = parse_leniently(text)?;
    (!number.vanished() && !number.overflowed() && !number.value.is_subnormal()).then_some(number.value)
}

fn parse_leniently(text: &[u8]) -> Option<CNumber> {
    let text = text.split(|c| *c == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(CNumber { value: 0.0, is_word: false, has_digits_above_zero: false });
    }
    let start = text.iter().position(|c| !is_space(*c)).unwrap_or(text.len());
    parse_c(&text[start..]).filter(|number| !number.value.is_nan())
}

fn short_integer(text: &[u8]) -> Option<i64> {
    if text.len() > 15 || text.is_empty() {
        return None;
    }
    parse_i64(text)
}

pub(super) fn is_space(c: u8) -> bool {
    matches!(c, b' ' | b'\t'..=b'\r')
}

struct CNumber {
    value: f64,
    /// It was spelt as a word, so an infinity is meant and not an overflow.
    is_word: bool,
    has_digits_above_zero: bool,
}

impl CNumber {
    /// It is too small for a double.
    fn vanished(&self) -> bool {
        self.value == 0.0 && self.has_digits_above_zero
    }

    /// It is too large for a double.
    fn overflowed(&self) -> bool {
        self.value.is_infinite() && !self.is_word
    }
}

/// Reads what `strtod` would, provided it would read all of `text`.
fn parse_c(text: &[u8]) -> Option<CNumber> {
    let unsigned = match text {
        [b'+' | b'-', rest @ ..] => rest,
        _ => text,
    };
    if let [b'0', b'x' | b'X', ..] = unsigned {
        let (value, above_zero) = Extended::parse_hexadecimal(text)?;
        return Some(CNumber { value: value.to_f64(), is_word: false, has_digits_above_zero: above_zero });
    }
    // What remains of C's grammar is Rust's, which also knows inf, infinity and nan in any case.
    let value = std::str::from_utf8(text).ok()?.parse::<f64>().ok()?;
    let is_word = unsigned.first().is_some_and(|c| c.is_ascii_alphabetic());
    let mantissa = unsigned.split(|c| matches!(c, b'e' | b'E')).next().unwrap_or_default();
    Some(CNumber { value, is_word, has_digits_above_zero: mantissa.iter().any(|c| matches!(c, b'1'..=b'9')) })
}

/// The text of a number, without an allocation.
#[derive(Clone, Copy)]
pub struct NumberText {
    bytes: [u8; 32],
    len: u8,
}

impl NumberText {
    const fn new() -> Self {
        NumberText { bytes: [0; 32], len: 0 }
    }

    fn from_slice(text: &[u8]) -> Self {
        let mut this = Self::new();
        this.push(text);
        this
    }

    fn push(&mut self, text: &[u8]) {
        self.bytes[self.len as usize..][..text.len()].copy_from_slice(text);
        self.len += text.len() as u8;
    }

    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

impl Deref for NumberText {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl AsRef<[u8]> for NumberText {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl std::fmt::Write for NumberText {
    fn write_str(&mut self, s: &str) -> std::fmt::Result {
        if self.len as usize + s.len() > self.bytes.len() {
            return Err(std::fmt::Error);
        }
        self.push(s.as_bytes());
        Ok(())
    }
}

/// An integer in decimal.
pub fn i64_text(n: i64) -> NumberText {
    NumberText::from_slice(itoa::Buffer::new().format(n).as_bytes())
}

/// A double as C's `%.17g` prints it, which is how Redis 7.0 shows scores: `3.1` is `3.1000000000000001`.
pub fn score_text(value: f64) -> NumberText {
    special_text(value).unwrap_or_else(|| {
        let mut scientific = NumberText::new();
        write!(scientific, "{value:.16e}").expect("17 digits and an exponent fit 32 bytes");
        general_layout(&scientific)
    })
}

/// A double in the fewest digits that read back equal, laid out as `%.17g` would: `3.1` is `3.1`.
pub fn shortest_text(value: f64) -> NumberText {
    special_text(value).unwrap_or_else(|| {
        let mut scientific = NumberText::new();
        write!(scientific, "{value:e}").expect("17 digits and an exponent fit 32 bytes");
        general_layout(&scientific)
    })
}

/// Infinities, NaN and the integers below 10^17, which `%.17g` prints without a point.
fn special_text(value: f64) -> Option<NumberText> {
    if value.is_nan() {
        return Some(NumberText::from_slice(if value.is_sign_negative() { b"-nan" } else { b"nan" }));
    }
    if value.is_infinite() {
        return Some(NumberText::from_slice(if value > 0.0 { b"inf" } else { b"-inf" }));
    }
    if value.abs() < 1e17 && value == value.trunc() {
        let negative_zero = value == 0.0 && value.is_sign_negative();
        return Some(if negative_zero { NumberText::from_slice(b"-0") } else { i64_text(value as i64) });
    }
    None
}

/// Turns `d.ddde<x>` into C's `%.17g` layout: a point inside the digits for small exponents, an exponent of at least
/// two digits otherwise, and no zeros at the end of the fraction.
fn general_layout(scientific: &[u8]) -> NumberText {
    let (sign, rest) = scientific.split_at((scientific[0] == b'-') as usize);
    let e = rest.iter().position(|c| *c == b'e').expect("scientific notation has an exponent");
    let exponent: i32 = std::str::from_utf8(&rest[e + 1..]).ok().and_then(|t| t.parse().ok()).expect("an exponent");
    let mut digits = [0u8; 17];
    let mut count = 0;
    for &c in rest[..e].iter().filter(|c| c.is_ascii_digit()) {
        digits[count] = c;
        count += 1;
    }
    while count > 1 && digits[count - 1] == b'0' {
        count -= 1;
    }
    let digits = &digits[..count];
    let mut text = NumberText::from_slice(sign);
    match exponent {
        -4..=-1 => {
            text.push(b"0.");
            text.push(&b"000"[..(-exponent - 1) as usize]);
            text.push(digits);
        }
        0..=16 => {
            let whole = (exponent as usize + 1).min(count);
            text.push(&digits[..whole]);
            text.push(&b"0000000000000000"[..exponent as usize + 1 - whole]);
            if whole < count {
                text.push(b".");
                text.push(&digits[whole..]);
            }
        }
        _ => {
            text.push(&digits[..1]);
            if count > 1 {
                text.push(b".");
                text.push(&digits[1..]);
            }
            text.push(if exponent < 0 { b"e-" } else { b"e+" });
            if exponent.abs() < 10 {
                text.push(b"0");
            }
            text.push(itoa::Buffer::new().format(exponent.abs()).as_bytes());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;

    #[test]
    fn integers_are_read_exactly_when_they_print_the_same() {
        for good in ["0", "1", "-1", "9223372036854775807", "-9223372036854775808", "10"] {
            assert_eq!(Some(good.parse::<i64>().unwrap()), parse_i64(good.as_bytes()), "{good}");
        }
        let bad: [&str; 13] = [
            "",
            "-",
            "+1",
            " 1",
            "1 ",
            "01",
            "-0",
            "-01",
            "1.0",
            "9223372036854775808",
            "-9223372036854775809",
            "1e3",
            "99999999999999999999",
        ];
        for text in bad {
            assert_eq!(None, parse_i64(text.as_bytes()), "{text}");
        }
        let mut random = Xoshiro::from_seed(1);
        for _ in 0..10_000 {
            let n = random.next() as i64 >> random.below(64);
            assert_eq!(Some(n), parse_i64(&i64_text(n)));
        }
    }

    #[test]
    fn floats_are_read_as_strtod_does() {
        let good: [(&str, f64); 14] = [
            ("1", 1.0),
            ("-0", -0.0),
            ("+3.5", 3.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e3", 1000.0),
            ("1E-3", 0.001),
            ("inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("0x10", 16.0),
            ("-0x1.8p1", -3.0),
            ("0x.8", 0.5),
            ("0001", 1.0),
            ("4.9e-324", 4.9e-324),
        ];
        for (text, value) in good {
            assert_eq!(Some(value.to_bits()), parse_f64(text.as_bytes()).map(f64::to_bits), "{text}");
        }
        for bad in ["", " 1", "1 ", "nan", "1e", "1e400", "-1e400", "1e-400", "0x", "0xg", "1.2.3", "e5", ".", "--1"] {
            assert_eq!(None, parse_f64(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn bounds_of_ranges_are_lenient() {
        assert_eq!(Some(0.0), parse_bound(b""));
        assert_eq!(Some(5.0), parse_bound(b" 5"));
        assert_eq!(Some(f64::INFINITY), parse_bound(b"1e400"));
        assert_eq!(Some(1.0), parse_bound(b"1\0x"));
        assert_eq!(Some(0.0), parse_bound(b"\0"));
        assert_eq!(Some(f64::NEG_INFINITY), parse_bound(b"-inf"));
        for bad in ["nan", "5 ", "a"] {
            assert_eq!(None, parse_bound(bad.as_bytes()), "{bad}");
        }
        assert_eq!(Some(5.0), parse_weight(b" 5"));
        assert_eq!(Some(f64::INFINITY), parse_weight(b"inf"));
        for bad in ["nan", "1e400", "1e-400", "5e-324"] {
            assert_eq!(None, parse_weight(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn scores_print_as_in_redis() {
        let cases: [(f64, &str); 16] = [
            (3.1, "3.1000000000000001"),
            (0.1, "0.10000000000000001"),
            (1e20, "1e+20"),
            (1e17, "1e+17"),
            (1e16, "10000000000000000"),
            (-0.0, "-0"),
            (1e-7, "9.9999999999999995e-08"),
            (123456789012345678.0, "1.2345678901234568e+17"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (f64::INFINITY, "inf"),
            (-1.5, "-1.5"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (-12345.678, "-12345.678"),
            (1234567890123456.5, "1234567890123456.5"),
        ];
        for (value, text) in cases {
            assert_eq!(text, String::from_utf8_lossy(&score_text(value)));
        }
    }

    #[test]
    fn shortest_text_reads_back_equal() {
        assert_eq!(b"3.1", &*shortest_text(3.1));
        assert_eq!(b"1e-07", &*shortest_text(1e-7));
        let mut random = Xoshiro::from_seed(2);
        for _ in 0..10_000 {
            let value = f64::from_bits(random.next());
            if value.is_finite() {
                assert_eq!(Some(value), parse_f64(&shortest_text(value)));
                assert_eq!(Some(value), parse_f64(&score_text(value)));
            }
        }
    }
}
