//! How much memory the process has taken from the allocator: one counter that every allocation passes.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicI64, Ordering};

static USED: AtomicI64 = AtomicI64::new(0);

/// Bytes allocated and not freed, as requested (the allocator's rounding is not in it).
pub fn used() -> u64 {
    USED.load(Ordering::Relaxed).max(0) as u64
}

/// Notes memory that does not come through [`Counting`]: SQLite's and Lua's.
pub fn adjust(bytes: i64) {
    USED.fetch_add(bytes, Ordering::Relaxed);
}

/// An allocator that counts for [`used`] and leaves the work to another.
pub struct Counting<A>(pub A);

// SAFETY: every call is passed on unchanged to an allocator that keeps the contract; counting has no part in it.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        adjust(layout.size() as i64);
        // SAFETY: the caller's promise, passed on.
        unsafe { self.0.alloc(layout) }
    }
    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        adjust(-(layout.size() as i64));
        // SAFETY: the caller's promise, passed on.
        unsafe { self.0.dealloc(pointer, layout) }
    }
    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        adjust(layout.size() as i64);
        // SAFETY: the caller's promise, passed on.
        unsafe { self.0.alloc_zeroed(layout) }
    }
    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        adjust(new_size as i64 - layout.size() as i64);
        // SAFETY: the caller's promise, passed on.
        unsafe { self.0.realloc(pointer, layout, new_size) }
    }
}
