//! The rows of an answer made of columns, as they are found.

use super::path::Flow;
use super::shape::Window;
use super::tables::{Field, Rows};
use crate::limits;
use crate::reply::Reply;
use crate::sql::executor::reply;

/// The rows so far.
pub struct Listing<'p> {
    fields: &'p [Field],
    /// What is still to be left out, and what is still wanted.
    window: Window,
    /// The names of the columns, then rows.
    pub rows: Vec<Reply>,
    bytes: usize,
}

impl<'p> Listing<'p> {
    /// No rows yet.
    pub fn new(fields: &'p [Field], window: Window, header: Reply) -> Listing<'p> {
        Listing { fields, window, rows: vec![header], bytes: 0 }
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
        let mut row = Vec::with_capacity(self.fields.len());
        for field in self.fields {
            let value = rows.get(*field);
            self.bytes += size_of::<Reply>() + value.bytes_len();
            row.push(reply(value));
        }
        self.bytes += size_of::<Reply>();
        self.rows.push(Reply::Array(row));
        match self.window.limit {
            0 => Flow::Enough,
            // A result that is too large is SQLite's to refuse.
            _ if self.bytes > limits::SQL_RESULT_BYTES_MAX => Flow::Unknown,
            _ => Flow::More,
        }
    }
}
