//! The keyspace as SQL sees it: a table `keys`, and table-valued functions over the values of its types.
//!
//! `hash(key)` has the columns field and value; `list(key)` position and value; `set(key)` member; `zset(key)` member,
//! score and rank; `string(key)` value. A key that does not exist has no rows. Texts are TEXT when they are UTF-8 and
//! BLOB otherwise.
//!
//! A key, field, member or position that is asked for is looked up. A sorted set is read in ranks, some hundreds at a
//! time, from the range of scores and in the order that the query wants; other values are copied at the first row.
//! Nothing changes a key while a statement runs, so both see one state.

mod cursor;
mod plan;

use super::run::{Current, Shape};
use super::sqlite::{Connection, connection, value};
use crate::error::Result;
use crate::table::datum::Datum;
use cursor::Cursor;
use libsqlite3_sys as ffi;
use plan::Plan;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

/// What a source reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Value(Shape),
    Keys,
}

/// A source: its name, its columns as SQLite is told, how many of them are not hidden.
struct Source {
    name: &'static str,
    kind: Kind,
    declaration: &'static str,
    columns: usize,
}

impl Source {
    /// Does the first column tell rows apart, so that one can be looked up by it?
    fn has_names(&self) -> bool {
        self.kind != Kind::Value(Shape::String)
    }
}

const SOURCES: [Source; 6] = [
    Source {
        name: "string",
        kind: Kind::Value(Shape::String),
        declaration: "CREATE TABLE x(value TEXT, key TEXT HIDDEN)",
        columns: 1,
    },
    Source {
        name: "hash",
        kind: Kind::Value(Shape::Hash),
        declaration: "CREATE TABLE x(field TEXT, value TEXT, key TEXT HIDDEN)",
        columns: 2,
    },
    Source {
        name: "list",
        kind: Kind::Value(Shape::List),
        declaration: "CREATE TABLE x(position INTEGER, value TEXT, key TEXT HIDDEN)",
        columns: 2,
    },
    Source {
        name: "set",
        kind: Kind::Value(Shape::Set),
        declaration: "CREATE TABLE x(member TEXT, key TEXT HIDDEN)",
        columns: 1,
    },
    Source {
        name: "zset",
        kind: Kind::Value(Shape::ZSet),
        declaration: "CREATE TABLE x(member TEXT, score REAL, rank INTEGER, key TEXT HIDDEN)",
        columns: 3,
    },
    Source {
        name: "keys",
        kind: Kind::Keys,
        declaration: "CREATE TABLE x(key TEXT, type TEXT, ttl_ms INTEGER, bytes INTEGER, encoding TEXT)",
        columns: 5,
    },
];

/// Is this name taken by a source, or by one of SQLite's own table-valued functions?
pub fn is_own_name(name: &str) -> bool {
    let sqlite = ["json_each", "json_tree"];
    SOURCES.iter().map(|s| s.name).chain(sqlite).any(|own| own.eq_ignore_ascii_case(name))
}

/// The names of the sources.
pub fn names() -> impl Iterator<Item = &'static str> {
    SOURCES.iter().map(|s| s.name)
}

/// Makes the sources known to a connection.
pub fn register(connection: &Connection, current: &Arc<Current>) -> Result<()> {
    for source in &SOURCES {
        let aux = Box::into_raw(Box::new(Aux { source, current: current.clone() })).cast::<c_void>();
        // SAFETY: the module is static, its xConnect takes an `Aux`, and `drop_aux` frees one.
        unsafe { connection.create_module(source.name, &MODULE, aux, drop_aux)? };
    }
    Ok(())
}

/// Bytes of the keyspace as a value: TEXT if they are UTF-8.
pub fn datum(bytes: &[u8]) -> Datum {
    match std::str::from_utf8(bytes) {
        Ok(text) => Datum::text(text),
        Err(_) => Datum::blob(bytes),
    }
}

struct Aux {
    source: &'static Source,
    current: Arc<Current>,
}

#[repr(C)]
struct Table {
    base: ffi::sqlite3_vtab,
    source: &'static Source,
    current: Arc<Current>,
}

#[repr(C)]
struct OpenCursor {
    base: ffi::sqlite3_vtab_cursor,
    cursor: Cursor,
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
    ..super::vtab::NO_CALLBACKS
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
    let Ok(declaration) = connection::c_string(aux.source.declaration) else { return ffi::SQLITE_ERROR };
    // SAFETY: called inside xConnect, as the function demands.
    let code = unsafe { ffi::sqlite3_declare_vtab(db, declaration.as_ptr()) };
    if code == ffi::SQLITE_OK {
        let base = ffi::sqlite3_vtab::default();
        let table = Table { base, source: aux.source, current: aux.current.clone() };
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

unsafe extern "C" fn x_best_index(table: *mut ffi::sqlite3_vtab, info: *mut ffi::sqlite3_index_info) -> c_int {
    // SAFETY: SQLite passes a table of `x_connect`.
    let table = unsafe { &*table.cast::<Table>() };
    let mut code = ffi::SQLITE_OK;
    let guarded = super::vtab::guarded(&table.current, |run| {
        // SAFETY: SQLite passes a structure whose arrays have the lengths it tells.
        code = unsafe { plan::choose(info, table.source, run.traits.explains) };
        Ok(())
    });
    if guarded == ffi::SQLITE_OK { code } else { guarded }
}

unsafe extern "C" fn x_open(_: *mut ffi::sqlite3_vtab, out: *mut *mut ffi::sqlite3_vtab_cursor) -> c_int {
    let cursor = OpenCursor { base: ffi::sqlite3_vtab_cursor::default(), cursor: Cursor::default() };
    // SAFETY: SQLite passes a place for the pointer, whose target begins with a `sqlite3_vtab_cursor`.
    unsafe { *out = Box::into_raw(Box::new(cursor)).cast() };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_close(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: made by `x_open` with `Box::into_raw`; SQLite gives it back once.
    drop(unsafe { Box::from_raw(cursor.cast::<OpenCursor>()) });
    ffi::SQLITE_OK
}

/// # Safety
/// `cursor` comes from `x_open` and SQLite has set its table; the two references end with the callback.
unsafe fn parts<'a>(cursor: *mut ffi::sqlite3_vtab_cursor) -> (&'a mut Cursor, &'a Table) {
    // SAFETY: the caller's promise; nobody else has a reference to either during a callback.
    unsafe { (&mut (*cursor.cast::<OpenCursor>()).cursor, &*(*cursor).pVtab.cast::<Table>()) }
}

unsafe extern "C" fn x_filter(
    cursor: *mut ffi::sqlite3_vtab_cursor,
    plan: c_int,
    _: *const c_char,
    argc: c_int,
    argv: *mut *mut ffi::sqlite3_value,
) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`.
    let (cursor, table) = unsafe { parts(cursor) };
    super::vtab::guarded(&table.current, |run| {
        // SAFETY: SQLite passes `argc` values at `argv`; they are copied.
        let arguments = (0..argc as usize).map(|i| unsafe { value::read(*argv.add(i)).to_owned() }).collect();
        cursor.start(run, table.source.kind, Plan::from_bits_truncate(plan), arguments)
    })
}

unsafe extern "C" fn x_next(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`.
    let (cursor, table) = unsafe { parts(cursor) };
    if cursor.step() {
        return ffi::SQLITE_OK;
    }
    super::vtab::guarded(&table.current, |run| cursor.go_on(run))
}

unsafe extern "C" fn x_eof(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`.
    let (cursor, _) = unsafe { parts(cursor) };
    c_int::from(cursor.is_done())
}

unsafe extern "C" fn x_column(
    cursor: *mut ffi::sqlite3_vtab_cursor,
    context: *mut ffi::sqlite3_context,
    column: c_int,
) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`.
    let (cursor, table) = unsafe { parts(cursor) };
    let value = cursor.value(column as usize, table.source.columns);
    // SAFETY: the context is that of this call.
    unsafe { value::answer(context, value) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_rowid(cursor: *mut ffi::sqlite3_vtab_cursor, out: *mut i64) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`, and a place for the answer.
    unsafe {
        let (cursor, _) = parts(cursor);
        *out = cursor.number();
    }
    ffi::SQLITE_OK
}
