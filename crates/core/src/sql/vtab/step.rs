//! The callbacks of a cursor: it is opened, moved and read.

use super::cursor::TableCursor;
use super::guard::{failed, guarded, panicked};
use super::{Table, describe};
use crate::sql::run::{Outcome, Run};
use crate::sql::sqlite::value;
use crate::table::datum::DatumRef;
use crate::table::row::Row;
use libsqlite3_sys as ffi;
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// SQLite's view of a cursor.
#[repr(C)]
struct OpenCursor {
    base: ffi::sqlite3_vtab_cursor,
    cursor: TableCursor,
}

pub(super) unsafe extern "C" fn x_open(_: *mut ffi::sqlite3_vtab, out: *mut *mut ffi::sqlite3_vtab_cursor) -> c_int {
    let cursor = OpenCursor { base: ffi::sqlite3_vtab_cursor::default(), cursor: TableCursor::new() };
    // SAFETY: SQLite passes a place for the pointer, whose target begins with a `sqlite3_vtab_cursor`.
    unsafe { *out = Box::into_raw(Box::new(cursor)).cast() };
    ffi::SQLITE_OK
}

pub(super) unsafe extern "C" fn x_close(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: made by `x_open` with `Box::into_raw`; SQLite gives it back once.
    drop(unsafe { Box::from_raw(cursor.cast::<OpenCursor>()) });
    ffi::SQLITE_OK
}

/// A cursor and its table.
///
/// # Safety
/// `cursor` comes from `x_open` and SQLite has set its table; the two references end with the callback.
#[inline]
unsafe fn parts<'a>(cursor: *mut ffi::sqlite3_vtab_cursor) -> (&'a mut TableCursor, &'a Table) {
    // SAFETY: the caller's promise; nobody else has a reference to either during a callback.
    unsafe { (&mut (*cursor.cast::<OpenCursor>()).cursor, &*(*cursor).pVtab.cast::<Table>()) }
}

pub(super) unsafe extern "C" fn x_filter(
    cursor: *mut ffi::sqlite3_vtab_cursor,
    plan: c_int,
    step: *const c_char,
    argc: c_int,
    argv: *mut *mut ffi::sqlite3_value,
) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`.
    let (cursor, table) = unsafe { parts(cursor) };
    let arguments: &[*mut ffi::sqlite3_value] =
        // SAFETY: SQLite passes `argc` values at `argv`, which is null only when there are none.
        if argc == 0 { &[] } else { unsafe { std::slice::from_raw_parts(argv, argc as usize) } };
    // SAFETY: the arguments are those of this call.
    if unsafe { cursor.take_behind(plan, arguments) } {
        return ffi::SQLITE_OK;
    }
    cursor.plan = plan;
    guarded(&table.current, |run| {
        let plans = table.plans.borrow();
        let def = &table.info.def;
        if run.traits.analyzes && !step.is_null() {
            // SAFETY: the text is the one that `answer` gave with this plan.
            let text = unsafe { CStr::from_ptr(step) }.to_string_lossy();
            cursor.step = describe::Step::unpack(&text).map_or(0, |(number, _)| number);
            run.timed(cursor.step).loops += 1;
        }
        // SAFETY: the arguments are those of this call, as many as `x_best_index` asked for with this plan.
        watched(run, cursor, |run, cursor| unsafe { cursor.filter(run, def, &plans[plan as usize], arguments) })
    })
}

/// Moves a cursor; when the statement is analysed, the row and the time are counted.
#[inline]
fn watched(
    run: &mut Run<'_>,
    cursor: &mut TableCursor,
    go: impl FnOnce(&mut Run<'_>, &mut TableCursor) -> Outcome<()>,
) -> Outcome<()> {
    if !run.traits.analyzes {
        return go(run, cursor);
    }
    let (start_ns, read) = (run.host.monotonic_ns(), run.rows_read);
    go(run, cursor)?;
    let (spent_ns, read) = (run.host.monotonic_ns().saturating_sub(start_ns), run.rows_read - read);
    let (step, found) = (cursor.step, u64::from(!cursor.is_done()));
    let timed = run.timed(step);
    timed.ns += spent_ns;
    timed.yielded += found;
    timed.visited += found + read;
    Ok(())
}

pub(super) unsafe extern "C" fn x_next(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`.
    let (cursor, table) = unsafe { parts(cursor) };
    if cursor.advance() { ffi::SQLITE_OK } else { next_guarded(cursor, table) }
}

/// Goes to a row that is not at hand.
#[inline(never)]
fn next_guarded(cursor: &mut TableCursor, table: &Table) -> c_int {
    guarded(&table.current, |run| watched(run, cursor, |run, cursor| cursor.next(run, &table.info.def)))
}

pub(super) unsafe extern "C" fn x_eof(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`.
    let (cursor, _) = unsafe { parts(cursor) };
    c_int::from(cursor.is_done())
}

pub(super) unsafe extern "C" fn x_column(
    cursor: *mut ffi::sqlite3_vtab_cursor,
    context: *mut ffi::sqlite3_context,
    column: c_int,
) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`.
    let (cursor, table) = unsafe { parts(cursor) };
    // SAFETY: the context is that of this call. A column that an UPDATE leaves alone need not be read.
    if unsafe { ffi::sqlite3_vtab_nochange(context) } != 0 {
        return ffi::SQLITE_OK;
    }
    let Some(&position) = table.positions.get(column as usize) else { return ffi::SQLITE_OK };
    // Most columns are numbers, in the reading of which nothing can panic.
    if let Some((row, layout)) = cursor.at_hand()
        && let Some(number) = layout.number(row, position)
    {
        // SAFETY: the context is that of this call.
        unsafe { value::answer(context, number) };
        return ffi::SQLITE_OK;
    }
    // SAFETY: the context is that of this call.
    unsafe { column_guarded(cursor, table, context, position) }
}

/// Answers with a value that is no number, or that lies elsewhere. Not inlined, as most values are at hand.
///
/// # Safety
/// `context` is the one of the running callback.
#[inline(never)]
unsafe fn column_guarded(
    cursor: &TableCursor,
    table: &Table,
    context: *mut ffi::sqlite3_context,
    position: u16,
) -> c_int {
    // SAFETY: the caller's promise.
    let give = |value: DatumRef<'_>| unsafe { value::answer(context, value) };
    if let Some((row, layout)) = cursor.at_hand() {
        return match catch_unwind(AssertUnwindSafe(|| give(Row::new(row, layout).get(position)))) {
            Ok(()) => ffi::SQLITE_OK,
            Err(panic) => failed(&table.current, panicked(&*panic)),
        };
    }
    guarded(&table.current, |run| {
        cursor.value(run.host.source(), position, give);
        Ok(())
    })
}

pub(super) unsafe extern "C" fn x_rowid(cursor: *mut ffi::sqlite3_vtab_cursor, out: *mut i64) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`, and a place for the answer.
    unsafe {
        let (cursor, _) = parts(cursor);
        *out = cursor.row_id().0 as i64;
    }
    ffi::SQLITE_OK
}
