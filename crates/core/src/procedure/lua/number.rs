//! Numbers as C prints and reads them, for the libraries that hand text to others.

use crate::ds::number;

/// A number as C's `%.<digits>g` prints it; digits are at most 17.
pub fn general(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan".into() } else { "nan".into() };
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf".into() } else { "-inf".into() };
    }
    if value.trunc() == value && value.abs() < 1e14 && digits >= 14 && !(value == 0.0 && value.is_sign_negative()) {
        return itoa::Buffer::new().format(value as i64).to_string();
    }
    let scientific = format!("{:.*e}", digits.max(1) - 1, value);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs());
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    without_zeros(&format!("{value:.decimals$}")).to_string()
}

/// Drops zeros at the end of a fraction.
fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// The number at the start of a text as C's `strtod` reads it, and the bytes that it takes; None when there is none.
pub fn leading(text: &[u8]) -> Option<(f64, usize)> {
    let sign = text.first().is_some_and(|c| matches!(c, b'+' | b'-')) as usize;
    let rest = &text[sign..];
    let negative = text[0] == b'-';
    let signed = |value: f64| if negative { -value } else { value };
    if let Some(len) = ["infinity", "inf", "nan"].iter().find_map(|word| {
        rest.get(..word.len()).filter(|start| start.eq_ignore_ascii_case(word.as_bytes())).map(|start| start.len())
    }) {
        let value = if rest[0].eq_ignore_ascii_case(&b'i') { f64::INFINITY } else { f64::NAN };
        return Some((signed(value), sign + len));
    }
    if let Some(len) = hexadecimal(rest) {
        return number::parse_f64(&rest[..len]).map(|value| (signed(value), sign + len));
    }
    let len = sign + decimal(rest)?;
    let value = std::str::from_utf8(&text[..len]).ok()?.parse().ok()?;
    Some((value, len))
}

fn count(text: &[u8], fits: impl Fn(&u8) -> bool) -> usize {
    text.iter().take_while(|byte| fits(byte)).count()
}

/// Length of digits with a fraction and an exponent, if there are any.
fn decimal(text: &[u8]) -> Option<usize> {
    with_exponent(text, u8::is_ascii_digit, b'e')
}

/// Length of a hexadecimal number, if there is one.
fn hexadecimal(text: &[u8]) -> Option<usize> {
    let digits = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X"))?;
    with_exponent(digits, u8::is_ascii_hexdigit, b'p').map(|len| len + 2)
}

fn with_exponent(text: &[u8], is_digit: fn(&u8) -> bool, mark: u8) -> Option<usize> {
    let whole = count(text, is_digit);
    let mut len = whole;
    if text.get(len) == Some(&b'.') {
        let fraction = count(&text[len + 1..], is_digit);
        if whole + fraction > 0 {
            len += 1 + fraction;
        }
    }
    if len == 0 {
        return None;
    }
    if text.get(len).is_some_and(|c| c.eq_ignore_ascii_case(&mark)) {
        let sign = text.get(len + 1).is_some_and(|c| matches!(c, b'+' | b'-')) as usize;
        let digits = count(&text[len + 1 + sign..], u8::is_ascii_digit);
        if digits > 0 {
            len += 1 + sign + digits;
        }
    }
    Some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_as_c_does() {
        for (value, digits, expected) in [
            (0.1, 14, "0.1"),
            (1.0 / 3.0, 14, "0.33333333333333"),
            (1e14, 14, "1e+14"),
            (99_999_999_999_999.0, 14, "99999999999999"),
            (123_456_789_012_345.0, 14, "1.2345678901234e+14"),
            (-1.5e-7, 14, "-1.5e-07"),
            (0.0001, 14, "0.0001"),
            (2.23606, 3, "2.24"),
            (1234.0, 3, "1.23e+03"),
            (-0.0, 14, "-0"),
            (f64::INFINITY, 14, "inf"),
            (2.5, 1, "2"),
            (9.99, 2, "10"),
        ] {
            assert_eq!(expected, general(value, digits));
        }
    }

    #[test]
    fn read_as_strtod_does() {
        for (text, expected) in [
            ("12abc", Some((12.0, 2))),
            ("-1.5e3,", Some((-1500.0, 6))),
            ("1e", Some((1.0, 1))),
            ("1.", Some((1.0, 2))),
            (".5]", Some((0.5, 2))),
            ("0x10", Some((16.0, 4))),
            ("0x", Some((0.0, 1))),
            ("-Infinity", Some((f64::NEG_INFINITY, 9))),
            ("+7", Some((7.0, 2))),
            ("-", None),
            (".", None),
            ("abc", None),
        ] {
            assert_eq!(expected, leading(text.as_bytes()), "{text}");
        }
    }
}
