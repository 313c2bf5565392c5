//! Values on their way between SQLite and us.

use crate::table::datum::{Datum, DatumRef};
use libsqlite3_sys as ffi;
use std::ffi::c_int;

/// Reads a value that SQLite passes to a callback or returns as a column.
///
/// # Safety
/// `value` is a live, protected `sqlite3_value`; the result borrows its bytes, which stay until SQLite changes the
/// value, so `'a` must end before control returns to SQLite.
#[inline]
pub unsafe fn read<'a>(value: *mut ffi::sqlite3_value) -> DatumRef<'a> {
    // SAFETY: the caller's promise; pointer and length of text and blob belong together because the pointer is asked
    // for first, as SQLite demands.
    unsafe {
        match ffi::sqlite3_value_type(value) {
            ffi::SQLITE_INTEGER => DatumRef::Int(ffi::sqlite3_value_int64(value)),
            ffi::SQLITE_FLOAT => DatumRef::Real(ffi::sqlite3_value_double(value)),
            ffi::SQLITE_TEXT => {
                let bytes = ffi::sqlite3_value_text(value);
                DatumRef::Text(slice(bytes, ffi::sqlite3_value_bytes(value)))
            }
            ffi::SQLITE_BLOB => {
                let bytes = ffi::sqlite3_value_blob(value).cast();
                DatumRef::Blob(slice(bytes, ffi::sqlite3_value_bytes(value)))
            }
            _ => DatumRef::Null,
        }
    }
}

/// A number as the text that SQLite makes of it.
///
/// # Safety
/// `value` is a live, protected `sqlite3_value`.
pub unsafe fn to_text(value: *mut ffi::sqlite3_value) -> Datum {
    // SAFETY: the caller's promise. The conversion happens in a copy of the value, which is freed after its text was
    // copied; a null copy (no memory) reads as NULL.
    unsafe {
        let copy = ffi::sqlite3_value_dup(value);
        if copy.is_null() {
            return Datum::Null;
        }
        let bytes = ffi::sqlite3_value_text(copy);
        let text = DatumRef::Text(slice(bytes, ffi::sqlite3_value_bytes(copy))).to_owned();
        ffi::sqlite3_value_free(copy);
        text
    }
}

/// Bytes that SQLite describes by pointer and length; the pointer of an empty blob is null.
///
/// # Safety
/// Unless null, `bytes` points to `length` readable bytes that stay for `'a`.
#[inline]
pub unsafe fn slice<'a>(bytes: *const u8, length: c_int) -> &'a [u8] {
    if bytes.is_null() || length <= 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(bytes, length as usize) }
}

/// Gives a value to SQLite as the result of a callback. SQLite copies the bytes: it may keep a result in a register
/// past the next row, longer than any cursor's promise, and the copy into a register's own buffer costs 11 ns a row.
///
/// # Safety
/// `context` is the one of the running callback.
#[inline]
pub unsafe fn answer(context: *mut ffi::sqlite3_context, value: DatumRef<'_>) {
    // SAFETY: the caller's promise; pointers and lengths come from slices, and SQLITE_TRANSIENT makes SQLite copy.
    unsafe {
        match value {
            DatumRef::Null => ffi::sqlite3_result_null(context),
            DatumRef::Int(i) => ffi::sqlite3_result_int64(context, i),
            DatumRef::Real(r) => ffi::sqlite3_result_double(context, r),
            DatumRef::Text(bytes) => {
                let (pointer, length) = (bytes.as_ptr().cast(), bytes.len() as u64);
                ffi::sqlite3_result_text64(context, pointer, length, ffi::SQLITE_TRANSIENT(), ffi::SQLITE_UTF8 as u8);
            }
            DatumRef::Blob(bytes) => {
                let (pointer, length) = (bytes.as_ptr().cast(), bytes.len() as u64);
                ffi::sqlite3_result_blob64(context, pointer, length, ffi::SQLITE_TRANSIENT());
            }
        }
    }
}
