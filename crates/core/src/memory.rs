//! How much memory the process has taken from the allocator: one counter that every allocation passes.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::OnceLock;
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

/// An allocator all of whose blocks lie at multiples of eight, as mimalloc's do, whatever is asked of it: it is asked for
/// no alignment up to that. Asked for eight, mimalloc takes a block of another size class, in which it could move the
/// memory to an address that it has anyway: five times the instructions, and sometimes more memory.
pub struct AlignedByEight<A>(A);

impl<A> AlignedByEight<A> {
    /// Of an allocator that is so.
    ///
    /// # Safety
    /// The blocks of `allocator` lie at multiples of eight, also those for layouts of smaller alignment.
    pub const unsafe fn new(allocator: A) -> Self {
        AlignedByEight(allocator)
    }

    #[inline]
    fn plain(layout: Layout) -> Layout {
        if layout.align() > 8 {
            return layout;
        }
        // SAFETY: one is a power of two, and the size was valid with a larger alignment.
        unsafe { Layout::from_size_align_unchecked(layout.size(), 1) }
    }
}

// SAFETY: calls are passed on, with layouts that differ in the alignment only, and alike for a block's whole life; what
// they come short of `new`'s caller has promised.
unsafe impl<A: GlobalAlloc> GlobalAlloc for AlignedByEight<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.0.alloc(Self::plain(layout)) }
    }
    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.0.dealloc(pointer, Self::plain(layout)) }
    }
    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.0.alloc_zeroed(Self::plain(layout)) }
    }
    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.0.realloc(pointer, Self::plain(layout), new_size) }
    }
}

/// How to make the allocator give back to the system what it keeps in reserve.
static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

/// Whoever chose the allocator says how to make it give back memory; it is called now and then, in any thread.
pub fn on_give_back(give_back: fn()) {
    // Who says it twice says the same.
    let _ = GIVE_BACK.set(give_back);
}

/// Makes the allocator give back to the system what it keeps in reserve. Takes long after much was freed, so it is for
/// threads that nobody waits for.
pub fn give_back() {
    if let Some(give_back) = GIVE_BACK.get() {
        give_back();
    }
}

/// Notices when the process holds much more memory than is used, as after an index was built, whose sorting took as much
/// as the index itself, and has it given back.
#[derive(Debug)]
pub struct Returns {
    /// Bytes in memory beyond those used when nothing more could be given back: other libraries' and the code's.
    floor: u64,
    /// Looks until the next one that counts, and how many there are between two.
    wait: u32,
    pause: u32,
}

impl Default for Returns {
    fn default() -> Self {
        Returns { floor: 0, wait: LOOKS_LEAST, pause: LOOKS_LEAST }
    }
}

/// Less than this is kept for what comes next, bytes.
const WORTH_RETURNING: u64 = 16 << 20;
/// Looks between two that count, while they bring something and at the longest.
const LOOKS_LEAST: u32 = 10;
const LOOKS_MOST: u32 = 10_000;

impl Returns {
    /// Looks; to be called several times a second.
    pub fn look(&mut self) {
        self.wait -= 1;
        if self.wait == 0 {
            if let Some(give_back) = GIVE_BACK.get() {
                self.weigh(resident(), used(), || {
                    give_back();
                    resident()
                });
            }
            self.wait = self.pause;
        }
    }

    /// Gives back if it is worth it. Whoever gets nothing for it, as other libraries hold the memory, asks less often.
    fn weigh(&mut self, resident: u64, used: u64, give_back: impl FnOnce() -> u64) {
        let unused = resident.saturating_sub(used);
        if unused.saturating_sub(self.floor) <= WORTH_RETURNING.max(used / 16) {
            return;
        }
        let left = give_back();
        self.floor = left.saturating_sub(used);
        let was_worth_it = resident.saturating_sub(left) >= WORTH_RETURNING / 4;
        self.pause = if was_worth_it { LOOKS_LEAST } else { (self.pause * 2).min(LOOKS_MOST) };
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

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn what_is_not_used_is_given_back() {
        let mut returns = Returns::default();
        returns.weigh(110 * MB, 100 * MB, || panic!("too little"));
        returns.weigh(200 * MB, 100 * MB, || 120 * MB);
        assert_eq!((20 * MB, LOOKS_LEAST), (returns.floor, returns.pause));
        returns.weigh(130 * MB, 100 * MB, || panic!("the rest is somebody else's"));
        returns.weigh(2000 * MB, 1900 * MB, || panic!("too little of so much"));
    }

    #[test]
    fn who_gets_nothing_back_asks_less_often() {
        let mut returns = Returns::default();
        for times in 1..=20 {
            returns.weigh(times * 100 * MB, MB, || times * 100 * MB);
        }
        assert_eq!(LOOKS_MOST, returns.pause);
        returns.weigh(5000 * MB, MB, || 100 * MB);
        assert_eq!(LOOKS_LEAST, returns.pause);
    }
}
