//! Reading of arguments that many commands share: integers, timeouts, cursors, key counts; with Redis's error texts.

use crate::ds::number;
use crate::error::{Error, Result};

/// A 64-bit integer.
pub fn integer(arg: &[u8]) -> Result<i64> {
    number::parse_i64(arg).ok_or_else(Error::not_an_integer)
}

/// A 64-bit integer, or an error of the command's own.
pub fn integer_or(arg: &[u8], error: &'static str) -> Result<i64> {
    number::parse_i64(arg).ok_or_else(|| Error::err(error))
}

/// A positive integer (zero not allowed), or an error of the command's own.
pub fn positive_or(arg: &[u8], error: &'static str) -> Result<usize> {
    integer_or(arg, error)?.try_into().ok().filter(|n: &usize| *n > 0).ok_or_else(|| Error::err(error))
}

/// A floating-point number.
pub fn float(arg: &[u8]) -> Result<f64> {
    number::parse_f64(arg).ok_or_else(Error::not_a_float)
}

/// A cursor of the SCAN family.
pub fn cursor(arg: &[u8]) -> Result<u64> {
    let text = std::str::from_utf8(arg).ok();
    text.and_then(|t| t.parse().ok()).ok_or_else(|| Error::err("invalid cursor"))
}

/// The deadline of a blocking command: seconds, with a fraction, from now; None for 0, which waits for ever.
pub fn timeout(arg: &[u8], now_ms: i64) -> Result<Option<i64>> {
    let seconds = number::parse_f64(arg).ok_or_else(|| Error::err("timeout is not a float or out of range"))?;
    if seconds < 0.0 {
        return Err(Error::err("timeout is negative"));
    }
    let ms = (seconds * 1000.0).ceil();
    if !ms.is_finite() || ms > (i64::MAX - now_ms) as f64 {
        return Err(Error::err("timeout is out of range"));
    }
    Ok((seconds > 0.0).then(|| now_ms + ms as i64))
}

/// True when an argument is this word, in any case.
#[inline]
pub fn is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// How many elements HRANDFIELD and its kin are to pick; negative counts allow repetition.
pub fn sample_count(arg: &[u8]) -> Result<i64> {
    let text = "value is out of range";
    integer_or(arg, text).and_then(|n| if n < -i64::MAX { Err(Error::err(text)) } else { Ok(n) })
}

/// The same when each element comes with a second one, so that their number must not overflow.
pub fn check_pair_count(count: i64) -> Result<()> {
    if (-i64::MAX / 2..=i64::MAX / 2).contains(&count) { Ok(()) } else { Err(Error::err("value is out of range")) }
}
