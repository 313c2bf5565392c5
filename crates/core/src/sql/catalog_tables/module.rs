//! The virtual-table callbacks behind `information_schema`.

use super::{CatalogTable, SCHEMA};
use crate::error::Result;
use crate::sql::run::Current;
use crate::sql::sqlite::{Connection, connection, value};
use crate::sql::vtab::{NO_CALLBACKS, guarded};
use crate::table::datum::{Datum, DatumRef};
use libsqlite3_sys as ffi;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

/// What a module is registered with.
struct Aux {
    table: &'static CatalogTable,
    current: Arc<Current>,
}

/// SQLite's view of a table. The base must come first: SQLite knows only that.
#[repr(C)]
struct Table {
    base: ffi::sqlite3_vtab,
    table: &'static CatalogTable,
    current: Arc<Current>,
}

#[repr(C)]
struct Cursor {
    base: ffi::sqlite3_vtab_cursor,
    rows: Vec<Vec<Datum>>,
    row: usize,
}

/// Makes one table known to a connection.
pub fn register(connection: &Connection, table: &'static CatalogTable, current: &Arc<Current>) -> Result<()> {
    let aux = Box::into_raw(Box::new(Aux { table, current: current.clone() })).cast::<c_void>();
    // SAFETY: the module is static, its xConnect takes an `Aux`, and `drop_aux` frees one.
    unsafe { connection.create_module(&format!("{SCHEMA}.{}", table.name), &MODULE, aux, drop_aux) }
}

static MODULE: ffi::sqlite3_module = ffi::sqlite3_module {
    xConnect: Some(x_connect),
    xBestIndex: Some(x_best_index),
    xDisconnect: Some(x_disconnect),
    xDestroy: Some(x_disconnect),
    xOpen: Some(x_open),
    xClose: Some(x_close),
    xFilter: Some(x_filter),
    xNext: Some(x_next),
    xEof: Some(x_eof),
    xColumn: Some(x_column),
    xRowid: Some(x_rowid),
    ..NO_CALLBACKS
};

unsafe extern "C" fn drop_aux(aux: *mut c_void) {
    // SAFETY: made by `register` with `Box::into_raw`; SQLite calls this once.
    drop(unsafe { Box::from_raw(aux.cast::<Aux>()) });
}

unsafe extern "C" fn x_connect(
    db: *mut ffi::sqlite3,
    aux: *mut c_void,
    _: c_int,
    _: *const *const c_char,
    out: *mut *mut ffi::sqlite3_vtab,
    _: *mut *mut c_char,
) -> c_int {
    // SAFETY: `register` gave this module an `Aux`, which lives until `drop_aux`.
    let aux = unsafe { &*aux.cast::<Aux>() };
    let declaration = format!("CREATE TABLE x({})", aux.table.columns);
    let Ok(declaration) = connection::c_string(&declaration) else { return ffi::SQLITE_ERROR };
    // SAFETY: called inside xConnect, as the function demands.
    let code = unsafe { ffi::sqlite3_declare_vtab(db, declaration.as_ptr()) };
    if code == ffi::SQLITE_OK {
        let base = ffi::sqlite3_vtab::default();
        let table = Table { base, table: aux.table, current: aux.current.clone() };
        // SAFETY: SQLite passes a place for the pointer, whose target begins with a `sqlite3_vtab`.
        unsafe { *out = Box::into_raw(Box::new(table)).cast() };
    }
    code
}

unsafe extern "C" fn x_disconnect(table: *mut ffi::sqlite3_vtab) -> c_int {
    // SAFETY: made by `x_connect` with `Box::into_raw`; SQLite gives it back once.
    drop(unsafe { Box::from_raw(table.cast::<Table>()) });
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_best_index(_: *mut ffi::sqlite3_vtab, info: *mut ffi::sqlite3_index_info) -> c_int {
    // SAFETY: the structure is that of this call.
    unsafe {
        (*info).estimatedCost = 1000.0;
        (*info).estimatedRows = 100;
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_open(_: *mut ffi::sqlite3_vtab, out: *mut *mut ffi::sqlite3_vtab_cursor) -> c_int {
    let cursor = Cursor { base: ffi::sqlite3_vtab_cursor::default(), rows: Vec::new(), row: 0 };
    // SAFETY: SQLite passes a place for the pointer, whose target begins with a `sqlite3_vtab_cursor`.
    unsafe { *out = Box::into_raw(Box::new(cursor)).cast() };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_close(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: made by `x_open` with `Box::into_raw`; SQLite gives it back once.
    drop(unsafe { Box::from_raw(cursor.cast::<Cursor>()) });
    ffi::SQLITE_OK
}

/// # Safety
/// `cursor` comes from `x_open` and SQLite has set its table; the two references end with the callback.
unsafe fn parts<'a>(cursor: *mut ffi::sqlite3_vtab_cursor) -> (&'a mut Cursor, &'a Table) {
    // SAFETY: the caller's promise; nobody else has a reference to either during a callback.
    unsafe { (&mut *cursor.cast::<Cursor>(), &*(*cursor).pVtab.cast::<Table>()) }
}

unsafe extern "C" fn x_filter(
    cursor: *mut ffi::sqlite3_vtab_cursor,
    _: c_int,
    _: *const c_char,
    _: c_int,
    _: *mut *mut ffi::sqlite3_value,
) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`.
    let (cursor, table) = unsafe { parts(cursor) };
    guarded(&table.current, |run| {
        cursor.rows.clear();
        cursor.row = 0;
        (table.table.fill)(run.host, &mut |row| cursor.rows.push(row.to_vec()))
    })
}

unsafe extern "C" fn x_next(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`.
    let (cursor, _) = unsafe { parts(cursor) };
    cursor.row += 1;
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_eof(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`.
    let (cursor, _) = unsafe { parts(cursor) };
    c_int::from(cursor.row >= cursor.rows.len())
}

unsafe extern "C" fn x_column(
    cursor: *mut ffi::sqlite3_vtab_cursor,
    context: *mut ffi::sqlite3_context,
    column: c_int,
) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`, and the context of this call.
    unsafe {
        let (cursor, _) = parts(cursor);
        let value = cursor.rows.get(cursor.row).and_then(|row| row.get(column as usize));
        value::answer(context, value.map_or(DatumRef::Null, Datum::as_ref));
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_rowid(cursor: *mut ffi::sqlite3_vtab_cursor, out: *mut i64) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`, and a place for the answer.
    unsafe {
        let (cursor, _) = parts(cursor);
        *out = cursor.row as i64;
    }
    ffi::SQLITE_OK
}
