//! Whether this thread runs a procedure, of which store, so that other handles of that store refuse to work there.

use crate::error;
use peryton_core::store::Store as Core;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// A procedure has run in this process: until then nobody needs to look closer.
static ANY: AtomicBool = AtomicBool::new(false);

thread_local! {
    static INSIDE: RefCell<Option<Core>> = const { RefCell::new(None) };
}

/// Has a procedure run in this process?
#[inline]
pub fn is_any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// From now on this thread runs a procedure of a store, or of none.
pub fn set(core: Option<&Core>) {
    ANY.store(true, Ordering::Relaxed);
    // What was there is dropped after the cell is given back.
    drop(INSIDE.replace(core.cloned()));
}

/// An error when this thread runs a procedure of this store.
#[cold]
pub fn check(py: Python<'_>, core: &Core) -> PyResult<()> {
    match INSIDE.with_borrow(|inside| inside.as_ref().is_some_and(|inside| inside.is_same(core))) {
        true => Err(error::inside(py)),
        false => Ok(()),
    }
}
