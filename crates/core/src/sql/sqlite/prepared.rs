//! A compiled statement: parameters in, rows out.

use super::value::slice;
use crate::error::{Code, Error, Result};
use crate::table::datum::DatumRef;
use libsqlite3_sys as ffi;
use std::ffi::{CStr, c_int};
use std::ptr::NonNull;

/// A compiled statement of a connection, which must outlive it.
pub struct Prepared {
    statement: NonNull<ffi::sqlite3_stmt>,
}

// SAFETY: as for `Connection`, with which it goes from thread to thread.
unsafe impl Send for Prepared {}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A row is there.
    Row,
    /// The statement has ended.
    Done,
    /// It failed; SQLite's code.
    Failed(c_int),
}

impl Prepared {
    pub(super) fn new(statement: NonNull<ffi::sqlite3_stmt>) -> Prepared {
        Prepared { statement }
    }

    fn raw(&self) -> *mut ffi::sqlite3_stmt {
        self.statement.as_ptr()
    }

    /// Number of result columns; 0 for a statement that returns no rows.
    pub fn column_count(&self) -> usize {
        // SAFETY: only reads a live statement.
        unsafe { ffi::sqlite3_column_count(self.raw()) as usize }
    }

    /// Name of a result column.
    pub fn column_name(&self, column: usize) -> String {
        // SAFETY: the name is null or a string that stays until the statement changes; it is copied here.
        unsafe {
            let name = ffi::sqlite3_column_name(self.raw(), column as c_int);
            if name.is_null() { String::new() } else { CStr::from_ptr(name).to_string_lossy().into_owned() }
        }
    }

    /// The type that the table of a result column declares for it; None for an expression.
    pub fn column_type(&self, column: usize) -> Option<String> {
        // SAFETY: as for `column_name`.
        unsafe { text(ffi::sqlite3_column_decltype(self.raw(), column as c_int)) }
    }

    /// The table and the column that a result column is, if it is one.
    pub fn column_origin(&self, column: usize) -> Option<(String, String)> {
        // SAFETY: as for `column_name`.
        unsafe {
            let table = text(ffi::sqlite3_column_table_name(self.raw(), column as c_int))?;
            Some((table, text(ffi::sqlite3_column_origin_name(self.raw(), column as c_int))?))
        }
    }

    /// Highest number of a parameter.
    pub fn parameter_count(&self) -> usize {
        // SAFETY: only reads a live statement.
        unsafe { ffi::sqlite3_bind_parameter_count(self.raw()) as usize }
    }

    /// Name of the parameter with this number (from 1), with its first byte; None if it has none.
    pub fn parameter_name(&self, number: usize) -> Option<String> {
        // SAFETY: the name is null or a string that stays as long as the statement; it is copied here.
        unsafe {
            let name = ffi::sqlite3_bind_parameter_name(self.raw(), number as c_int);
            (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
        }
    }

    /// True when the statement writes no table.
    pub fn is_readonly(&self) -> bool {
        // SAFETY: only reads a live statement.
        unsafe { ffi::sqlite3_stmt_readonly(self.raw()) != 0 }
    }

    /// Binds a value to the parameter with this number (from 1).
    #[inline]
    pub fn bind(&mut self, number: usize, value: DatumRef<'_>) -> Result<()> {
        let number = number as c_int;
        // SAFETY: the statement is live and not running; SQLITE_TRANSIENT makes SQLite copy text and blobs.
        let code = unsafe {
            match value {
                DatumRef::Null => ffi::sqlite3_bind_null(self.raw(), number),
                DatumRef::Int(i) => ffi::sqlite3_bind_int64(self.raw(), number, i),
                DatumRef::Real(r) => ffi::sqlite3_bind_double(self.raw(), number, r),
                DatumRef::Text(bytes) => ffi::sqlite3_bind_text64(
                    self.raw(),
                    number,
                    bytes.as_ptr().cast(),
                    bytes.len() as u64,
                    ffi::SQLITE_TRANSIENT(),
                    ffi::SQLITE_UTF8 as u8,
                ),
                DatumRef::Blob(bytes) => ffi::sqlite3_bind_blob64(
                    self.raw(),
                    number,
                    bytes.as_ptr().cast(),
                    bytes.len() as u64,
                    ffi::SQLITE_TRANSIENT(),
                ),
            }
        };
        match code {
            ffi::SQLITE_OK => Ok(()),
            ffi::SQLITE_TOOBIG => Err(Error::new(Code::Limit, format!("parameter {number} is too long"))),
            ffi::SQLITE_NOMEM => Err(Error::new(Code::Oom, "no memory for a parameter")),
            code => Err(Error::new(Code::Bug, format!("prepared.rs: binding parameter {number}: SQLite error {code}"))),
        }
    }

    /// Runs to the next row or the end.
    #[inline]
    pub fn step(&mut self) -> Step {
        // SAFETY: the statement is live; callbacks run inside, which catch their panics.
        match unsafe { ffi::sqlite3_step(self.raw()) } {
            ffi::SQLITE_ROW => Step::Row,
            ffi::SQLITE_DONE => Step::Done,
            code => Step::Failed(code),
        }
    }

    /// A column of the row that the last step gave.
    #[inline]
    pub fn column(&mut self, column: usize) -> DatumRef<'_> {
        let column = column as c_int;
        // SAFETY: the statement stands on a row; the bytes stay until the next step or reset, which need `&mut self`,
        // and no other column access changes them, as each is asked in its own type.
        unsafe {
            match ffi::sqlite3_column_type(self.raw(), column) {
                ffi::SQLITE_INTEGER => DatumRef::Int(ffi::sqlite3_column_int64(self.raw(), column)),
                ffi::SQLITE_FLOAT => DatumRef::Real(ffi::sqlite3_column_double(self.raw(), column)),
                ffi::SQLITE_TEXT => {
                    let bytes = ffi::sqlite3_column_text(self.raw(), column);
                    DatumRef::Text(slice(bytes, ffi::sqlite3_column_bytes(self.raw(), column)))
                }
                ffi::SQLITE_BLOB => {
                    let bytes = ffi::sqlite3_column_blob(self.raw(), column).cast();
                    DatumRef::Blob(slice(bytes, ffi::sqlite3_column_bytes(self.raw(), column)))
                }
                _ => DatumRef::Null,
            }
        }
    }

    /// Ends the run and forgets the parameters, so that nothing is held until the next one.
    pub fn reset(&mut self) {
        // SAFETY: the statement is live. The code that reset returns repeats the error of the last step.
        unsafe {
            ffi::sqlite3_reset(self.raw());
            ffi::sqlite3_clear_bindings(self.raw());
        }
    }
}

/// A copy of a text that may be null.
///
/// # Safety
/// `text` is null or ends in zero.
unsafe fn text(text: *const std::ffi::c_char) -> Option<String> {
    // SAFETY: the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // SAFETY: the statement is live and finalized once.
        unsafe { ffi::sqlite3_finalize(self.raw()) };
    }
}
