//! What stands between SQLite and a callback of ours: the run is lent, failures are kept, panics are caught.

use crate::error::{Code, Error};
use crate::sql::run::{Current, Failure, Outcome, Run, outside};
use libsqlite3_sys as ffi;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a callback: failures and panics are kept in the run, SQLite gets a code.
pub fn guarded(current: &Current, body: impl FnOnce(&mut Run<'_>) -> Outcome<()>) -> c_int {
    // Only a flag leaves the closures: an outcome that is handed on from one to the next is copied each time, and the
    // processor waits for the copies, longer than most callbacks take.
    let mut failure = None;
    let lent = || current.try_with(|run| body(run).map_err(|why| failure = Some(why)).is_ok());
    let failure = match catch_unwind(AssertUnwindSafe(lent)) {
        Ok(Some(true)) => return ffi::SQLITE_OK,
        Ok(_) => failure.unwrap_or_else(outside),
        Err(panic) => panicked(&*panic),
    };
    failed(current, failure)
}

/// Keeps a failure; SQLite gets a code.
#[cold]
pub fn failed(current: &Current, failure: Failure) -> c_int {
    let code = match &failure {
        Failure::Error(error) if error.code == Code::Constraint => ffi::SQLITE_CONSTRAINT,
        _ => ffi::SQLITE_ERROR,
    };
    current.fail(failure);
    code
}

#[cold]
pub fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    Error::new(Code::Bug, format!("a panic in a callback of SQLite: {text}")).into()
}
