//! The 80-bit floating-point number in which Redis adds for INCRBYFLOAT, in software, so that every machine prints the
//! same digits.
//!
//! A number is `mantissa * 2^exponent` with a 64-bit mantissa whose top bit is set (zero has mantissa 0). Reading and
//! adding round once, to even, as the hardware does; printing is exact. Subnormals keep full precision here, which no
//! text with 17 decimals can show.

use super::number::is_space;

/// An extended-precision number; never NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    negative: bool,
    mantissa: u64,
    exponent: i32,
    infinite: bool,
}

/// Longest text that is read, bytes (Redis: MAX_LONG_DOUBLE_CHARS).
const TEXT_BYTES_MAX: usize = 5 * 1024;
/// Decimals printed before zeros at the end are dropped.
const DECIMALS: u32 = 17;
const TEN_POW_DECIMALS: u128 = 10u128.pow(DECIMALS);
/// Largest and smallest exponent of a 64-bit integer mantissa.
const EXPONENT_MAX: i32 = 16383 - 63;
const EXPONENT_MIN: i32 = -16445 - 63;

impl Extended {
    const ZERO: Extended = Extended { negative: false, mantissa: 0, exponent: 0, infinite: false };

    /// Reads a number as C's `strtold` does, all of `text`, infinities included; refuses NaN, overflow, underflow to
    /// zero and space at the front.
    pub fn parse(text: &[u8]) -> Option<Extended> {
        if text.is_empty() || text.len() >= TEXT_BYTES_MAX || is_space(text[0]) {
            return None;
        }
        let (negative, unsigned) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        if unsigned.eq_ignore_ascii_case(b"inf") || unsigned.eq_ignore_ascii_case(b"infinity") {
            return Some(Extended { negative, infinite: true, ..Extended::ZERO });
        }
        let (value, above_zero) = if let [b'0', b'x' | b'X', ..] = unsigned {
            Self::parse_hexadecimal(text)?
        } else {
            Self::parse_decimal(negative, unsigned)?
        };
        let vanished = above_zero && value.mantissa == 0;
        (!vanished && !value.infinite).then_some(value)
    }

    /// The number nearest to an integer (which is that integer: 64 bits are enough).
    pub fn from_i64(n: i64) -> Extended {
        Self::rounded(n < 0, n.unsigned_abs() as u128, 0, false)
    }

    /// True for the two infinities.
    pub fn is_infinite(self) -> bool {
        self.infinite
    }

    /// The sum, or `None` when it is infinite or not a number.
    pub fn checked_add(self, other: Extended) -> Option<Extended> {
        if self.infinite || other.infinite {
            return None;
        }
        let sum = self.add_finite(other);
        (!sum.infinite).then_some(sum)
    }

    fn add_finite(self, other: Extended) -> Extended {
        if self.mantissa == 0 || other.mantissa == 0 {
            return if self.mantissa == 0 { other } else { self };
        }
        let (high, low) = if (self.exponent, self.mantissa) >= (other.exponent, other.mantissa) {
            (self, other)
        } else {
            (other, self)
        };
        // 62 guard bits, and one free bit on top for the carry. What is shifted out of `low` beyond them only matters
        // as "not nothing", because by then `low` is far below half a unit of `high`.
        let shift = (high.exponent - low.exponent) as u32;
        let wide = (low.mantissa as u128) << 62;
        let addend = wide.checked_shr(shift).unwrap_or(0);
        let lost = shift >= 128 || addend << shift != wide;
        let base = (high.mantissa as u128) << 62;
        let total = if high.negative == low.negative { base + addend } else { base - addend - lost as u128 };
        Self::rounded(high.negative, total, high.exponent - 62, lost)
    }

    /// `wide * 2^exponent`, plus a little when `sticky`, rounded to 64 bits, ties to even.
    fn rounded(negative: bool, wide: u128, exponent: i32, sticky: bool) -> Extended {
        if wide == 0 {
            return Extended::ZERO;
        }
        let excess = 64 - wide.leading_zeros() as i32;
        let mut exponent = exponent + excess;
        let mut mantissa;
        if excess <= 0 {
            mantissa = (wide as u64) << -excess;
        } else {
            mantissa = (wide >> excess) as u64;
            let rest = wide & ((1u128 << excess) - 1);
            let half = 1u128 << (excess - 1);
            if rest > half || (rest == half && (sticky || mantissa & 1 == 1)) {
                mantissa = mantissa.wrapping_add(1);
                if mantissa == 0 {
                    mantissa = 1 << 63;
                    exponent += 1;
                }
            }
        }
        if exponent > EXPONENT_MAX {
            return Extended { negative, infinite: true, ..Extended::ZERO };
        }
        if exponent < EXPONENT_MIN {
            return Extended::ZERO;
        }
        Extended { negative, mantissa, exponent, infinite: false }
    }

    /// Digits with an optional point and exponent. Also says whether any digit was above zero.
    fn parse_decimal(negative: bool, text: &[u8]) -> Option<(Extended, bool)> {
        let (digits, point, written) = split_exponent(text, b'e', |c| c.is_ascii_digit())?;
        let zeros = digits.iter().take_while(|c| **c == b'0').count();
        let mut number = Big::default();
        for group in digits[zeros..].chunks(9) {
            let value = group.iter().fold(0, |n, c| n * 10 + (c - b'0') as u32);
            number.multiply_add(10u32.pow(group.len() as u32), value);
        }
        if number.is_zero() {
            return Some((Extended { negative, ..Extended::ZERO }, false));
        }
        let exponent = written.saturating_sub(point as i64);
        let magnitude = exponent.saturating_add((digits.len() - zeros) as i64);
        if magnitude > 5000 {
            return Some((Extended { negative, infinite: true, ..Extended::ZERO }, true));
        }
        if magnitude < -5100 {
            return Some((Extended::ZERO, true));
        }
        let (wide, binary, sticky) = number.times_power_of_ten(exponent as i32);
        Some((Self::rounded(negative, wide, binary, sticky), true))
    }

    /// `[sign]0xh.hhp<e>`. Also says whether any digit was above zero; does not refuse what over- or underflows.
    pub(super) fn parse_hexadecimal(text: &[u8]) -> Option<(Extended, bool)> {
        let negative = text.first() == Some(&b'-');
        let x = text.iter().position(|c| matches!(c, b'x' | b'X'))?;
        let (digits, point, written) = split_exponent(&text[x + 1..], b'p', |c| c.is_ascii_hexdigit())?;
        let mut wide = 0u128;
        let mut sticky = false;
        let mut dropped = 0i64;
        for &c in &digits {
            let digit = (c as char).to_digit(16)?;
            if wide >> 120 == 0 {
                wide = wide << 4 | digit as u128;
            } else {
                sticky |= digit != 0;
                dropped += 4;
            }
        }
        let exponent = written.saturating_sub(4 * point as i64).saturating_add(dropped).clamp(-40_000, 40_000);
        Some((Self::rounded(negative, wide, exponent as i32, sticky), wide != 0))
    }

    /// The nearest double; an infinity when it is too large for one.
    pub fn to_f64(self) -> f64 {
        if self.infinite {
            return if self.negative { f64::NEG_INFINITY } else { f64::INFINITY };
        }
        // In two steps, so that neither power of two leaves the range of a double before the product does.
        let half = self.exponent / 2;
        let magnitude = self.mantissa as f64 * 2f64.powi(half) * 2f64.powi(self.exponent - half);
        if self.negative { -magnitude } else { magnitude }
    }

    /// The text of C's `%.17Lf` without zeros at the end of its fraction: how Redis stores the sum.
    pub fn to_text(self) -> Vec<u8> {
        let mut text = Vec::new();
        if self.infinite {
            text.extend_from_slice(if self.negative { b"-inf" } else { b"inf" });
            return text;
        }
        if self.negative {
            text.push(b'-');
        }
        if self.exponent > 0 {
            text.extend_from_slice(&Big::shifted(self.mantissa, self.exponent as u32).into_decimal());
        } else {
            push_fixed(&mut text, self.scaled());
        }
        if text == b"-0" {
            text.remove(0);
        }
        text
    }

    /// The value in units of 10^-17, rounded to even; only for exponents up to 0, where it fits.
    fn scaled(self) -> u128 {
        let product = self.mantissa as u128 * TEN_POW_DECIMALS;
        let shift = -self.exponent as u32;
        if shift == 0 {
            return product;
        }
        if shift >= 128 {
            return 0;
        }
        let whole = product >> shift;
        let rest = product & ((1u128 << shift) - 1);
        let half = 1u128 << (shift - 1);
        whole + (rest > half || (rest == half && whole & 1 == 1)) as u128
    }
}

/// Splits `digits[.digits][e[sign]digits]`: the digits without the point, how many stand after it, and the exponent
/// (saturating). `None` unless that is the whole text and there is at least one digit.
fn split_exponent(text: &[u8], mark: u8, is_digit: impl Fn(u8) -> bool) -> Option<(Vec<u8>, usize, i64)> {
    let mut digits = Vec::with_capacity(text.len());
    let mut point = None;
    let mut rest = text;
    while let [c, tail @ ..] = rest {
        match *c {
            c if is_digit(c) => digits.push(c),
            b'.' if point.is_none() => point = Some(digits.len()),
            _ => break,
        }
        rest = tail;
    }
    if digits.is_empty() {
        return None;
    }
    let after_point = point.map_or(0, |p| digits.len() - p);
    let exponent = match rest {
        [] => 0,
        [c, tail @ ..] if c.eq_ignore_ascii_case(&mark) => parse_exponent(tail)?,
        _ => return None,
    };
    Some((digits, after_point, exponent))
}

fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let magnitude = digits.iter().fold(0i64, |n, c| (n * 10 + (c - b'0') as i64).min(1 << 40));
    Some(if negative { -magnitude } else { magnitude })
}

fn push_fixed(text: &mut Vec<u8>, scaled: u128) {
    let whole = scaled / TEN_POW_DECIMALS;
    let fraction = (scaled % TEN_POW_DECIMALS) as u64;
    text.extend_from_slice(itoa::Buffer::new().format(whole).as_bytes());
    if fraction == 0 {
        return;
    }
    text.push(b'.');
    let digits = format!("{fraction:017}");
    text.extend_from_slice(digits.trim_end_matches('0').as_bytes());
}

/// A natural number of any size: 32-bit limbs, lowest first, no zero limb at the top.
#[derive(Default)]
struct Big {
    limbs: Vec<u32>,
}

impl Big {
    fn shifted(mantissa: u64, shift: u32) -> Big {
        let mut number = Big { limbs: vec![mantissa as u32, (mantissa >> 32) as u32] };
        number.shift_left(shift);
        number
    }

    fn is_zero(&self) -> bool {
        self.limbs.is_empty()
    }

    fn trim(&mut self) {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
    }

    fn multiply_add(&mut self, factor: u32, summand: u32) {
        let mut carry = summand as u64;
        for limb in &mut self.limbs {
            let product = *limb as u64 * factor as u64 + carry;
            *limb = product as u32;
            carry = product >> 32;
        }
        if carry != 0 {
            self.limbs.push(carry as u32);
        }
    }

    fn divide(&mut self, divisor: u32) -> u32 {
        let mut rest = 0u64;
        for limb in self.limbs.iter_mut().rev() {
            let value = rest << 32 | *limb as u64;
            *limb = (value / divisor as u64) as u32;
            rest = value % divisor as u64;
        }
        self.trim();
        rest as u32
    }

    fn shift_left(&mut self, shift: u32) {
        let bits = shift % 32;
        if bits != 0 {
            self.multiply_add(1 << bits, 0);
        }
        self.limbs.splice(0..0, std::iter::repeat_n(0, (shift / 32) as usize));
        self.trim();
    }

    fn bit_length(&self) -> u32 {
        self.limbs.last().map_or(0, |top| self.limbs.len() as u32 * 32 - top.leading_zeros())
    }

    /// The top 128 bits (or fewer) of `self * 10^exponent`: mantissa, power of two, and whether anything was cut off.
    fn times_power_of_ten(mut self, exponent: i32) -> (u128, i32, bool) {
        const FIVE_POW_13: u32 = 1_220_703_125;
        let mut binary = exponent;
        let mut sticky = false;
        let fives = exponent.unsigned_abs();
        if exponent >= 0 {
            (0..fives / 13).for_each(|_| self.multiply_add(FIVE_POW_13, 0));
            self.multiply_add(5u32.pow(fives % 13), 0);
        } else {
            // 5^n has fewer than 2.33 n bits: with 68 more, the quotient keeps at least 66. Dividing by the factors one
            // after another gives the same quotient as dividing by their product.
            let room = fives * 7 / 3 + 68;
            self.shift_left(room);
            binary -= room as i32;
            (0..fives / 13).for_each(|_| sticky |= self.divide(FIVE_POW_13) != 0);
            sticky |= self.divide(5u32.pow(fives % 13)) != 0;
        }
        let dropped = self.limbs.len().saturating_sub(4);
        sticky |= self.limbs[..dropped].iter().any(|limb| *limb != 0);
        let wide = self.limbs[dropped..].iter().rev().fold(0u128, |wide, limb| wide << 32 | *limb as u128);
        debug_assert!(dropped == 0 || self.bit_length() > 96);
        (wide, binary + dropped as i32 * 32, sticky)
    }

    fn into_decimal(mut self) -> Vec<u8> {
        let mut groups = Vec::new();
        while !self.is_zero() {
            groups.push(self.divide(1_000_000_000));
        }
        let mut text = groups.pop().unwrap_or(0).to_string().into_bytes();
        for group in groups.iter().rev() {
            text.extend_from_slice(format!("{group:09}").as_bytes());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> String {
        let parse = |t: &str| Extended::parse(t.as_bytes()).unwrap();
        String::from_utf8(parse(a).checked_add(parse(b)).unwrap().to_text()).unwrap()
    }

    #[test]
    fn sums_print_as_redis_prints_them() {
        let cases = [
            ("10.5", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3.0", "1.1", "4.1"),
            ("0.1", "0.2", "0.3"),
            ("10.1", "1e17", "100000000000000010.1015625"),
            ("100000000000000010.1015625", "1e-18", "100000000000000010.1015625"),
            ("-0", "0", "0"),
            ("1", "-1", "0"),
            ("1.5", "-3", "-1.5"),
            ("0", "1e-18", "0"),
            ("0", "-1e-18", "0"),
            ("0x10", "1", "17"),
            ("9223372036854775807", "1", "9223372036854775808"),
            ("1e30", "0", "1000000000000000000024696061952"),
            ("3.14159265358979323846", "0", "3.14159265358979324"),
        ];
        for (a, b, expected) in cases {
            assert_eq!(expected, sum(a, b), "{a} + {b}");
        }
    }

    #[test]
    fn refuses_what_strtold_refuses() {
        for bad in ["", " 1", "1 ", "nan", "1e", "1e5000", "1e-5000", "abc", "1..2", "0x", "0xp1", "+", "."] {
            assert_eq!(None, Extended::parse(bad.as_bytes()), "{bad}");
        }
        for good in ["1e4900", "1e-4900", "inf", "-INF", "1.", ".1", "+1"] {
            assert!(Extended::parse(good.as_bytes()).is_some(), "{good}");
        }
        assert_eq!(None, Extended::parse(&[b'1'; TEXT_BYTES_MAX]));
    }

    #[test]
    fn infinite_sums_are_refused() {
        let inf = Extended::parse(b"inf").unwrap();
        let large = Extended::parse(b"1.1e4932").unwrap();
        assert_eq!(None, inf.checked_add(Extended::from_i64(1)));
        assert_eq!(None, large.checked_add(large));
    }

    #[test]
    fn agrees_with_doubles_where_those_are_exact() {
        let mut random = crate::env::Xoshiro::from_seed(3);
        for _ in 0..2000 {
            let (a, b) = (random.next() as i32 as f64 / 64.0, random.next() as i32 as f64 / 128.0);
            assert_eq!(a + b, sum(&a.to_string(), &b.to_string()).parse().unwrap());
            let text = format!("{a:e}");
            assert_eq!(a, Extended::parse(text.as_bytes()).unwrap().to_f64());
        }
    }
}
