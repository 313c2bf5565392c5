//! The rows of an answer made of columns, as they are found.

use super::path::Flow;
use super::shape::Window;
use super::tables::{Field, Rows};
use crate::limits;
use crate::reply::{self, Blob, Reply};
use crate::sql::executor;
use std::sync::Arc;

/// The rows so far.
pub struct Listing<'p> {
    fields: &'p [Field],
    /// What is still to be left out, and what is still wanted.
    window: Window,
    /// The rows.
    pub rows: reply::Rows,
    bytes: usize,
}

impl<'p> Listing<'p> {
    /// No rows yet.
    pub fn new(fields: &'p [Field], window: Window, names: &Arc<Vec<Blob>>) -> Listing<'p> {
        Listing { fields, window, rows: reply::Rows::new(names, 0), bytes: 0 }
    }

    /// Adds a row.
    pub fn take(&mut self, rows: &Rows<'_>) -> Flow {
        if self.window.offset > 0 {
            self.window.offset -= 1;
            return Flow::More;
        }
        if self.window.limit == 0 {
            return Flow::Enough;
        }
        self.window.limit -= 1;
        let (fields, bytes) = (self.fields, &mut self.bytes);
        self.rows.push(fields.iter().map(|field| {
            let value = rows.get(*field);
            *bytes += size_of::<Reply>() + value.bytes_len();
            executor::reply(value)
        }));
        match self.window.limit {
            0 => Flow::Enough,
            // A result that is too large is SQLite's to refuse.
            _ if self.bytes > limits::SQL_RESULT_BYTES_MAX => Flow::Unknown,
            _ => Flow::More,
        }
    }
}
