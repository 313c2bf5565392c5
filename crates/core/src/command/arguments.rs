//! Reading of arguments that many commands share: integers, timeouts, cursors, key counts; with Redis's error texts.

use crate::ds::number;
use crate::error::{Code, Error, Result};
use crate::limits;
use std::ops::RangeInclusive;

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
    let ms = (seconds * 1000.0).ceil();
    // What is too large for 64 bits wraps around in Redis, so it is called negative.
    if ms < 0.0 || ms >= i64::MAX as f64 {
        return Err(Error::err("timeout is negative"));
    }
    if ms > (i64::MAX - now_ms) as f64 {
        return Err(Error::err("timeout is out of range"));
    }
    Ok((seconds > 0.0).then(|| now_ms + ms as i64))
}

/// True when an argument is this word, in any case.
#[inline]
pub fn is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// An integer between two bounds, which the error names.
pub fn integer_in(arg: &[u8], bounds: RangeInclusive<i64>) -> Result<i64> {
    let value = integer(arg)?;
    if bounds.contains(&value) {
        return Ok(value);
    }
    let (min, max) = bounds.into_inner();
    Err(Error::err(format!("value is out of range, value must between {min} and {max}")))
}

/// An integer whose opposite is one, too: a count that is negative for another way of counting.
pub fn opposable(arg: &[u8]) -> Result<i64> {
    integer_in(arg, -i64::MAX..=i64::MAX)
}

/// How many elements SRANDMEMBER and its kin are to pick: negative for picks that may repeat, which no data bounds.
pub fn sample_count(arg: &[u8]) -> Result<i64> {
    let count = opposable(arg)?;
    if count < 0 && count.unsigned_abs() > limits::SAMPLE_MAX {
        let (count, most) = (count.unsigned_abs(), limits::SAMPLE_MAX);
        return Err(Error::new(Code::Limit, format!("cannot pick {count} elements at once, {most} are the most")));
    }
    Ok(count)
}

/// The number of a database as an argument gives it, which may be too large.
pub fn database_number(arg: &[u8]) -> Result<i64> {
    integer_in(arg, i32::MIN as i64..=i32::MAX as i64)
}

/// Checks how many elements HRANDFIELD and its kin are to pick when each element comes with a second one, so that their number must not overflow.
pub fn check_pair_count(count: i64) -> Result<()> {
    if (-i64::MAX / 2..=i64::MAX / 2).contains(&count) { Ok(()) } else { Err(Error::err("value is out of range")) }
}

/// `[LIMIT limit] ...` of SINTERCARD and ZINTERCARD; 0 is no limit.
pub fn cardinality_limit(args: &[&[u8]]) -> Result<usize> {
    let text = "LIMIT can't be negative";
    args.chunks(2).try_fold(0, |_, option| match option {
        [word, limit] if is(word, "LIMIT") => usize::try_from(integer_or(limit, text)?).map_err(|_| Error::err(text)),
        _ => Err(Error::syntax()),
    })
}

/// `[COUNT count]` of LMPOP and ZMPOP; 1 without it.
pub fn pop_count(args: &[&[u8]]) -> Result<usize> {
    match args {
        [] => Ok(1),
        // The count is looked at before what follows it.
        [word, count, rest @ ..] if is(word, "COUNT") => {
            let count = positive_or(count, "count should be greater than 0")?;
            if rest.is_empty() { Ok(count) } else { Err(Error::syntax()) }
        }
        _ => Err(Error::syntax()),
    }
}
