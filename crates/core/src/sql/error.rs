//! Errors about SQL text: what is wrong, where it stands, and what was expected there.

use crate::error::{Code, Error};
use std::fmt::Display;

/// An error about the byte at `at` of `text`. People count characters from 1, so the message does.
pub fn syntax(text: &str, at: usize, what: impl Display) -> Error {
    let before = text.get(..at).unwrap_or(text);
    Error::new(Code::Sql, format!("syntax error at position {}: {what}", before.chars().count() + 1))
}

/// A plain SQL error.
pub fn sql(what: impl Into<String>) -> Error {
    Error::new(Code::Sql, what.into())
}

/// The error for what is planned and refused until then.
pub fn not_yet(what: impl Display) -> Error {
    Error::new(Code::Sql, format!("{what} is not supported yet"))
}
