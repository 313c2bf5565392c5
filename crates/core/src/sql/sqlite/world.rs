//! The world as SQLite sees it (its "VFS"): there are no files, and the time is the store's.

use libsqlite3_sys as ffi;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};

/// The world's name among SQLite's.
pub const NAME: &CStr = c"peryton";

thread_local! {
    static NOW_US: Cell<i64> = const { Cell::new(0) };
    /// Somebody asked for the time since [`forget_asked`].
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

/// From here on [`was_asked`] tells whether a statement looked at the clock.
pub fn forget_asked() {
    ASKED.set(false);
}

/// Did a statement look at the clock?
pub fn was_asked() -> bool {
    ASKED.get()
}

/// Sets the time that statements run by this thread see, microseconds since 1970.
pub fn set_now(now_us: i64) {
    NOW_US.set(now_us);
}

/// Makes this world SQLite's default one.
pub(super) fn register() {
    let world = Box::new(ffi::sqlite3_vfs {
        iVersion: 2,
        // SQLite allocates this much for each file that it would open: room for its pointer to the methods.
        szOsFile: size_of::<ffi::sqlite3_file>() as c_int,
        mxPathname: 64,
        pNext: std::ptr::null_mut(),
        zName: NAME.as_ptr(),
        pAppData: std::ptr::null_mut(),
        xOpen: Some(x_open),
        xDelete: Some(x_delete),
        xAccess: Some(x_access),
        xFullPathname: Some(x_full_pathname),
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(x_randomness),
        xSleep: Some(x_sleep),
        xCurrentTime: Some(x_current_time),
        xGetLastError: Some(x_get_last_error),
        xCurrentTimeInt64: Some(x_current_time_int64),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    });
    // SAFETY: the structure lives for ever, and its functions keep the contract of their types.
    let result = unsafe { ffi::sqlite3_vfs_register(Box::into_raw(world), 1) };
    assert_eq!(ffi::SQLITE_OK, result);
}

unsafe extern "C" fn x_open(
    _: *mut ffi::sqlite3_vfs,
    _: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    _: c_int,
    _: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives room for a `sqlite3_file`; without methods it knows that nothing was opened.
    unsafe { (*file).pMethods = std::ptr::null() };
    ffi::SQLITE_CANTOPEN
}

unsafe extern "C" fn x_delete(_: *mut ffi::sqlite3_vfs, _: *const c_char, _: c_int) -> c_int {
    ffi::SQLITE_IOERR_DELETE_NOENT
}

unsafe extern "C" fn x_access(_: *mut ffi::sqlite3_vfs, _: *const c_char, _: c_int, exists: *mut c_int) -> c_int {
    // SAFETY: SQLite passes a place for the answer.
    unsafe { *exists = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_full_pathname(_: *mut ffi::sqlite3_vfs, _: *const c_char, _: c_int, _: *mut c_char) -> c_int {
    ffi::SQLITE_CANTOPEN
}

unsafe extern "C" fn x_randomness(_: *mut ffi::sqlite3_vfs, bytes: c_int, out: *mut c_char) -> c_int {
    let mut random = crate::env::Xoshiro::from_seed(crate::env::os_random());
    for i in 0..bytes.max(0) as usize {
        // SAFETY: SQLite gives room for `bytes` bytes.
        unsafe { out.add(i).write(random.next() as c_char) };
    }
    bytes
}

unsafe extern "C" fn x_sleep(_: *mut ffi::sqlite3_vfs, _: c_int) -> c_int {
    0
}

/// 1970-01-01 in the days that SQLite counts (from 4714 BC), as milliseconds.
const EPOCH_MS: i64 = 210_866_760_000_000;

unsafe extern "C" fn x_current_time_int64(_: *mut ffi::sqlite3_vfs, out: *mut i64) -> c_int {
    ASKED.set(true);
    // SAFETY: SQLite passes a place for the answer.
    unsafe { *out = EPOCH_MS + NOW_US.get() / 1000 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_current_time(_: *mut ffi::sqlite3_vfs, out: *mut f64) -> c_int {
    ASKED.set(true);
    // SAFETY: SQLite passes a place for the answer.
    unsafe { *out = (EPOCH_MS + NOW_US.get() / 1000) as f64 / 86_400_000.0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_get_last_error(_: *mut ffi::sqlite3_vfs, _: c_int, _: *mut c_char) -> c_int {
    0
}
