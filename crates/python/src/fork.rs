//! Knows whether this process is a forked child of the one in which a handle was made.
//!
//! A child has no housekeeper, no server thread, and perhaps a baton that was locked at the moment of the fork by a
//! thread that does not exist there. So its copies of the handles may only raise, or be forgotten.

use crate::error;
use pyo3::prelude::*;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);
static WATCH: Once = Once::new();

extern "C" fn in_child() {
    // One atomic addition: all that is safe in a child of a process with threads.
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Begins to count forks; called when the module is loaded.
pub fn watch() {
    WATCH.call_once(|| {
        // SAFETY: pthread_atfork only stores the pointer, which lives as long as the library, and a loaded extension
        // module is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// The process in which a handle was made.
#[derive(Clone, Copy)]
pub struct Birth(u32);

impl Birth {
    /// This process.
    pub fn here() -> Birth {
        Birth(GENERATION.load(Ordering::Relaxed))
    }

    /// True in a process that was forked since.
    pub fn is_elsewhere(self) -> bool {
        self.0 != GENERATION.load(Ordering::Relaxed)
    }

    /// Raises ForkError in a process that was forked since.
    pub fn check(self, py: Python<'_>) -> PyResult<()> {
        if self.is_elsewhere() { Err(error::forked(py)) } else { Ok(()) }
    }
}
