//! `decimal_sum`: the exact sum of decimals, where `sum` would make doubles of them.

use super::Connection;
use super::functions::{fail, guarded};
use super::value;
use crate::error::Result;
use crate::table::datum::DatumRef;
use crate::table::decimal::Sum;
use libsqlite3_sys as ffi;
use std::ffi::c_int;

/// Makes the function known.
pub fn register(connection: &Connection) -> Result<()> {
    let flags = ffi::SQLITE_UTF8 | ffi::SQLITE_DETERMINISTIC | ffi::SQLITE_INNOCUOUS;
    let (db, name, none) = (connection.handle(), c"decimal_sum".as_ptr(), std::ptr::null_mut());
    // SAFETY: the connection is open, the name ends in zero; the state of the function is an aggregate's own.
    let code = unsafe {
        ffi::sqlite3_create_window_function(
            db,
            name,
            1,
            flags,
            none,
            Some(x_step),
            Some(x_final),
            Some(x_value),
            Some(x_inverse),
            None,
        )
    };
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(connection.error(code, "")) }
}

/// The sum of the running aggregate, which SQLite keeps as a pointer; null when there is no memory for the pointer.
///
/// # Safety
/// The context is that of the running call.
unsafe fn sum<'a>(context: *mut ffi::sqlite3_context, make: bool) -> Option<&'a mut *mut Sum> {
    let size = if make { size_of::<*mut Sum>() as c_int } else { 0 };
    // SAFETY: the caller's promise; SQLite's piece is zero at first, has the size asked for, and stays until x_final.
    unsafe {
        let place = ffi::sqlite3_aggregate_context(context, size).cast::<*mut Sum>().as_mut()?;
        if place.is_null() && make {
            *place = Box::into_raw(Box::default());
        }
        Some(place)
    }
}

/// # Safety
/// Context and value are those of the running call.
unsafe fn add(context: *mut ffi::sqlite3_context, values: *mut *mut ffi::sqlite3_value, negate: bool) {
    // SAFETY: the caller's promise; the pointer in the aggregate's place is that of a live box.
    unsafe {
        let value = value::read(*values);
        if value.is_null() {
            return;
        }
        let Some(sum) = sum(context, true).and_then(|place| place.as_mut()) else {
            return ffi::sqlite3_result_error_nomem(context);
        };
        if !sum.add(value, negate) {
            fail(context, "decimal_sum of what is no decimal number");
        }
    }
}

unsafe extern "C" fn x_step(context: *mut ffi::sqlite3_context, _: c_int, values: *mut *mut ffi::sqlite3_value) {
    // SAFETY: SQLite passes one value, and the context of this call.
    unsafe { guarded(context, || add(context, values, false)) };
}

unsafe extern "C" fn x_inverse(context: *mut ffi::sqlite3_context, _: c_int, values: *mut *mut ffi::sqlite3_value) {
    // SAFETY: as for `x_step`.
    unsafe { guarded(context, || add(context, values, true)) };
}

unsafe extern "C" fn x_value(context: *mut ffi::sqlite3_context) {
    // SAFETY: the context is that of this call, and the pointer in its place that of a live box.
    unsafe {
        guarded(context, || {
            let sum = sum(context, false).and_then(|place| place.as_ref());
            if let Some(text) = sum.and_then(Sum::text) {
                value::answer(context, DatumRef::Text(text.as_bytes()));
            }
        });
    }
}

unsafe extern "C" fn x_final(context: *mut ffi::sqlite3_context) {
    // SAFETY: as for `x_value`; the box is made back and dropped once, as its pointer is taken out of its place.
    unsafe {
        x_value(context);
        if let Some(place) = sum(context, false) {
            let taken = std::mem::replace(place, std::ptr::null_mut());
            if !taken.is_null() {
                drop(Box::from_raw(taken));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::sql::tests::{TestStore, text_of};

    #[test]
    fn sums_are_exact() {
        let mut store = TestStore::with(&["CREATE TABLE t (id INT PRIMARY KEY, d DECIMAL(30, 2), g INT)"]);
        for i in 0..1000 {
            store.run(&format!("INSERT INTO t VALUES ({i}, '0.10', {})", i % 3));
        }
        store.run("INSERT INTO t VALUES (1000, '12345678901234567890123.45', 0), (1001, NULL, 0), (1002, '-0.45', 0)");
        let mut one = |text: &str| text_of(&store.rows(text, &[])[0][0]);
        assert_eq!("12345678901234567890223.00", one("SELECT decimal_sum(d) FROM t"));
        assert_eq!("33.30", one("SELECT decimal_sum(d) FROM t WHERE g = 1"));
        assert_eq!("-0.45", one("SELECT decimal_sum(d) FROM t WHERE id > 1000"));
        assert_eq!("NULL", one("SELECT decimal_sum(d) FROM t WHERE id = 1001"));
        assert_eq!("0.00", one("SELECT decimal_sum(x) FROM (SELECT '1.50' AS x UNION ALL SELECT -1.5)"));
        assert_eq!(
            "-9223372036854775807",
            one("SELECT decimal_sum(x) FROM (SELECT -9223372036854775808 AS x UNION SELECT 1)")
        );
        let running = "SELECT decimal_sum(d) OVER (ORDER BY id ROWS 2 PRECEDING) FROM t WHERE id < 9 ORDER BY id DESC";
        assert_eq!("0.30", one(running));
        assert!(store.error("SELECT decimal_sum('x')").contains("no decimal number"));
        assert!(store.error("SELECT decimal_sum('1e900')").contains("no decimal number"));
    }
}
