//! Deadlines as commands give them: EX, PX, EXAT, PXAT, in seconds or milliseconds, from now or absolute.

use super::arguments::{integer, is};
use crate::error::{Error, Result};

/// How a number is to be read as a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Seconds rather than milliseconds.
    pub seconds: bool,
    /// A point in time rather than a duration from now.
    pub absolute: bool,
}

impl Unit {
    /// The unit that an option word stands for.
    pub fn from_option(option: &[u8]) -> Option<Unit> {
        let (seconds, absolute) = match option {
            o if is(o, "EX") => (true, false),
            o if is(o, "PX") => (false, false),
            o if is(o, "EXAT") => (true, true),
            o if is(o, "PXAT") => (false, true),
            _ => return None,
        };
        Some(Unit { seconds, absolute })
    }

    /// The deadline in milliseconds since 1970. `command` is named in the error of a deadline out of range.
    pub fn deadline(self, arg: &[u8], now_ms: i64, command: &str) -> Result<i64> {
        let value = integer(arg)?;
        let invalid = || invalid_expire(command);
        let ms = if self.seconds { value.checked_mul(1000) } else { Some(value) };
        let start = if self.absolute { 0 } else { now_ms };
        ms.and_then(|ms| ms.checked_add(start)).ok_or_else(invalid)
    }

    /// The same for commands that refuse zero and negative values.
    pub fn positive_deadline(self, arg: &[u8], now_ms: i64, command: &str) -> Result<i64> {
        if integer(arg)? <= 0 {
            return Err(invalid_expire(command));
        }
        self.deadline(arg, now_ms, command)
    }
}

/// "invalid expire time in 'x' command" (Redis 7's text).
pub fn invalid_expire(command: &str) -> Error {
    Error::err(format!("invalid expire time in '{command}' command"))
}
