//! The interpreter's memory: counted, limited, and never refused to Rust.
//!
//! Lua reports a refused allocation by unwinding, which must not pass through Rust frames. So an allocation is refused
//! only while Lua's own code runs; while ours runs the limit may be exceeded for a moment, and whoever lets much in
//! asks first ([`Heap::has_room`]).

use std::alloc::{self, Layout};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

/// Alignment that LuaJIT relies on.
const ALIGN: usize = 8;

/// Counters of one interpreter's memory.
#[derive(Default)]
pub struct Heap {
    used: Cell<usize>,
    limit: Cell<usize>,
    /// True while Lua's own code runs.
    strict: Cell<bool>,
}

impl Heap {
    /// Bytes allocated.
    pub fn used(&self) -> usize {
        self.used.get()
    }

    /// Sets the most bytes that Lua may allocate.
    #[inline]
    pub fn set_limit(&self, bytes: usize) {
        self.limit.set(bytes);
    }

    /// True when `bytes` more stay within the limit.
    #[inline]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.used.get().saturating_add(bytes) <= self.limit.get()
    }

    /// Notes whether Lua's code or ours runs from now on; gives what ran before.
    #[inline]
    pub fn set_strict(&self, strict: bool) -> bool {
        self.strict.replace(strict)
    }

    /// Lua's allocation function.
    ///
    /// # Safety
    /// As for C's `realloc`: `pointer` is null or came from this function with `old` bytes.
    #[inline]
    pub unsafe fn reallocate(&self, pointer: *mut c_void, old: usize, new: usize) -> *mut c_void {
        let old = if pointer.is_null() { 0 } else { old };
        let Ok(layout) = Layout::from_size_align(new, ALIGN) else { return ptr::null_mut() };
        let used = self.used.get() - old + new;
        if new > old && self.strict.get() && used > self.limit.get() {
            return ptr::null_mut();
        }
        let moved = match (old, new) {
            (0, 0) => ptr::null_mut(),
            // SAFETY: the size is not zero.
            (0, _) => unsafe { alloc::alloc(layout) },
            // SAFETY: the caller says that the block is ours and has `old` bytes, so this was its layout.
            (_, 0) => unsafe {
                alloc::dealloc(pointer.cast(), Layout::from_size_align_unchecked(old, ALIGN));
                ptr::null_mut()
            },
            // SAFETY: as above, and the new size is not zero.
            _ => unsafe { alloc::realloc(pointer.cast(), Layout::from_size_align_unchecked(old, ALIGN), new) },
        };
        if new > 0 && moved.is_null() {
            if self.strict.get() {
                return ptr::null_mut();
            }
            alloc::handle_alloc_error(layout);
        }
        self.used.set(used);
        moved.cast()
    }
}
