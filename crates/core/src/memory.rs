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

/// The highest [`used`] that was looked at.
pub fn peak() -> u64 {
    static PEAK: AtomicI64 = AtomicI64::new(0);
    let used = used() as i64;
    PEAK.fetch_max(used, Ordering::Relaxed).max(used) as u64
}

/// Bytes of the process that are in memory now; 0 where the system does not tell.
pub fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    pages * system_value(libc::_SC_PAGESIZE)
}

/// Memory of the machine, bytes.
pub fn system_total() -> u64 {
    system_value(libc::_SC_PHYS_PAGES) * system_value(libc::_SC_PAGESIZE)
}

/// Processor time of the process so far, seconds: in user and in system mode.
pub fn cpu_seconds() -> (f64, f64) {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to memory of the right size, and all zeros is a valid `rusage` should the call fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

fn system_value(name: i32) -> u64 {
    // SAFETY: sysconf only reads; an unknown name gives -1.
    unsafe { libc::sysconf(name) }.max(0) as u64
}
