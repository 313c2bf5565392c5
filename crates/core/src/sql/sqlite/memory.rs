//! SQLite's allocator: Rust's own, which the process counts, so that `used_memory` has SQLite's share (invariant 9).

use libsqlite3_sys as ffi;
use std::alloc::{Layout, alloc, dealloc, realloc};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicI64, Ordering};

static USED: AtomicI64 = AtomicI64::new(0);

thread_local! {
    /// What SQLite has taken in this thread since [`limited`] began.
    static TAKEN: Cell<i64> = const { Cell::new(0) };
    /// What it may take.
    static LIMIT: Cell<i64> = const { Cell::new(i64::MAX) };
}

/// Runs `body`, in which SQLite may take `bytes` more than it has; what is past that fails with SQLITE_NOMEM, from which
/// SQLite recovers. Inside another call the outer limit stays: a statement answers for those that it runs.
pub fn limited<T>(bytes: usize, body: impl FnOnce() -> T) -> T {
    /// Takes the limit away, whatever happens.
    struct Unlimited;
    impl Drop for Unlimited {
        fn drop(&mut self) {
            LIMIT.set(i64::MAX);
        }
    }
    if LIMIT.get() != i64::MAX {
        return body();
    }
    TAKEN.set(0);
    LIMIT.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    let _unlimited = Unlimited;
    body()
}

/// Counts bytes taken or, below zero, given back. False: they are past the limit, and not counted.
fn count(bytes: i64) -> bool {
    let taken = TAKEN.get().saturating_add(bytes);
    if bytes > 0 && taken > LIMIT.get() {
        return false;
    }
    TAKEN.set(taken);
    USED.fetch_add(bytes, Ordering::Relaxed);
    true
}

/// Bytes that SQLite holds; part of [`crate::memory::used`].
pub fn used() -> u64 {
    USED.load(Ordering::Relaxed).max(0) as u64
}

/// Every piece starts with its size, as SQLite asks for it and `dealloc` needs it.
const HEADER: usize = 8;
const ALIGNMENT: usize = 8;

/// Sets SQLite up for the process: allocator, then the world without files. Only the first call does anything.
pub fn initialize() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: no SQLite function was called before in this process (all calls in Peryton come through here), which
        // `sqlite3_config` demands; the methods keep its contract and SQLite copies the structure.
        let done = unsafe {
            ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw const METHODS) == ffi::SQLITE_OK
                && ffi::sqlite3_initialize() == ffi::SQLITE_OK
        };
        assert!(done, "SQLite refuses to start with our allocator");
        super::world::register();
    });
}

static METHODS: Methods = Methods(ffi::sqlite3_mem_methods {
    xMalloc: Some(x_malloc),
    xFree: Some(x_free),
    xRealloc: Some(x_realloc),
    xSize: Some(x_size),
    xRoundup: Some(x_roundup),
    xInit: Some(x_init),
    xShutdown: Some(x_shutdown),
    pAppData: std::ptr::null_mut(),
});

#[repr(transparent)]
struct Methods(ffi::sqlite3_mem_methods);

// SAFETY: a table of functions and a null pointer; nobody writes it.
unsafe impl Sync for Methods {}

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes + HEADER, ALIGNMENT).ok()
}

unsafe extern "C" fn x_malloc(bytes: c_int) -> *mut c_void {
    let Some(layout) = usize::try_from(bytes).ok().and_then(layout) else { return std::ptr::null_mut() };
    if !count(bytes.into()) {
        return std::ptr::null_mut();
    }
    // SAFETY: the layout is not empty, as it has the header.
    let piece = unsafe { alloc(layout) };
    if piece.is_null() {
        count(-i64::from(bytes));
    }
    finish(piece, bytes)
}

/// Writes the header and steps over it.
fn finish(piece: *mut u8, bytes: c_int) -> *mut c_void {
    if piece.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: the piece has `HEADER` bytes in front of what SQLite gets, aligned for a u64.
    unsafe {
        piece.cast::<u64>().write(bytes as u64);
        piece.add(HEADER).cast()
    }
}

/// The start of a piece and the size SQLite asked for.
///
/// # Safety
/// `pointer` comes from `x_malloc` or `x_realloc` and was not freed.
unsafe fn piece(pointer: *mut c_void) -> (*mut u8, usize) {
    // SAFETY: such a pointer has the header in front of it.
    unsafe {
        let piece = pointer.cast::<u8>().sub(HEADER);
        (piece, piece.cast::<u64>().read() as usize)
    }
}

unsafe extern "C" fn x_free(pointer: *mut c_void) {
    if pointer.is_null() {
        return;
    }
    // SAFETY: SQLite frees what it got from us, once; the layout is the one it was allocated with.
    unsafe {
        let (piece, bytes) = piece(pointer);
        count(-(bytes as i64));
        dealloc(piece, Layout::from_size_align_unchecked(bytes + HEADER, ALIGNMENT));
    }
}

unsafe extern "C" fn x_realloc(pointer: *mut c_void, bytes: c_int) -> *mut c_void {
    let Some(new) = usize::try_from(bytes).ok().and_then(layout) else { return std::ptr::null_mut() };
    // SAFETY: SQLite passes a live piece of ours; the old layout is the one it was allocated with, the new size is
    // that of a valid layout of the same alignment.
    unsafe {
        let (piece, old) = piece(pointer);
        let growth = i64::from(bytes) - old as i64;
        if !count(growth) {
            return std::ptr::null_mut();
        }
        let moved = realloc(piece, Layout::from_size_align_unchecked(old + HEADER, ALIGNMENT), new.size());
        if moved.is_null() {
            count(-growth);
        }
        finish(moved, bytes)
    }
}

unsafe extern "C" fn x_size(pointer: *mut c_void) -> c_int {
    if pointer.is_null() {
        return 0;
    }
    // SAFETY: SQLite asks about live pieces of ours only.
    unsafe { piece(pointer).1 as c_int }
}

unsafe extern "C" fn x_roundup(bytes: c_int) -> c_int {
    bytes.saturating_add(7) & !7
}

unsafe extern "C" fn x_init(_: *mut c_void) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_shutdown(_: *mut c_void) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_know_their_size_and_grow() {
        initialize();
        // SAFETY: a piece is used within its size and freed once.
        unsafe {
            let piece = ffi::sqlite3_malloc(100).cast::<u8>();
            assert!(ffi::sqlite3_msize(piece.cast()) >= 100);
            piece.write_bytes(7, 100);
            let piece = ffi::sqlite3_realloc(piece.cast(), 10_000).cast::<u8>();
            assert_eq!(7, *piece.add(99));
            assert!(used() >= 10_000);
            ffi::sqlite3_free(piece.cast());
        }
    }

    #[test]
    fn what_is_past_the_limit_is_refused() {
        initialize();
        // SAFETY: a piece is used within its size and freed once; a piece that could not grow stays as it was.
        let take = |bytes: u64| unsafe { ffi::sqlite3_malloc64(bytes) };
        limited(1000, || {
            let piece = take(600);
            assert!(!piece.is_null() && take(600).is_null());
            // SAFETY: as above.
            unsafe {
                assert!(ffi::sqlite3_realloc(piece, 2000).is_null());
                ffi::sqlite3_free(piece);
            }
            let piece = limited(5000, || {
                assert!(take(2000).is_null(), "the outer limit stays");
                take(900)
            });
            assert!(!piece.is_null());
            // SAFETY: as above.
            unsafe { ffi::sqlite3_free(piece) };
        });
        let piece = take(2000);
        assert!(!piece.is_null());
        // SAFETY: as above.
        unsafe { ffi::sqlite3_free(piece) };
    }
}
