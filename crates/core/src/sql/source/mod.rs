//! The keyspace as SQL sees it: a table `keys`, and table-valued functions over the values of its types.
//!
//! `hash(key)` has the columns field and value; `list(key)` position and value; `set(key)` member; `zset(key)` member,
//! score and rank; `string(key)` value. A key that does not exist has no rows. Texts are TEXT when they are UTF-8 and
//! BLOB otherwise. A statement sees the value as it is at the first row: it is copied then.

use super::run::{Current, Outcome, Run, Shape};
use super::sqlite::{Connection, connection, value};
use crate::error::{Code, Error, Result};
use crate::table::datum::{Datum, DatumRef};
use libsqlite3_sys as ffi;
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
    key: Datum,
    /// The rows, one after another.
    values: Vec<Datum>,
    row: usize,
    rows: usize,
    /// Where SCAN is to go on; None at the end.
    scan: Option<u64>,
}

static MODULE: ffi::sqlite3_module = ffi::sqlite3_module {
    iVersion: 1,
    xCreate: None,
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
    xUpdate: None,
    xBegin: None,
    xSync: None,
    xCommit: None,
    xRollback: None,
    xFindFunction: None,
    xRename: None,
    xSavepoint: None,
    xRelease: None,
    xRollbackTo: None,
    xShadowName: None,
    xIntegrity: None,
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
    // SAFETY: SQLite passes a table of `x_connect` and a structure whose arrays have the lengths it tells.
    unsafe {
        let table = &*table.cast::<Table>();
        (*info).estimatedCost = 10_000.0;
        (*info).estimatedRows = 1000;
        if table.source.kind == Kind::Keys {
            (*info).estimatedCost = 1e9;
            (*info).estimatedRows = 1_000_000;
            return ffi::SQLITE_OK;
        }
        // The key is what the function is called with: an equality on the hidden column. Without it there is no plan.
        for i in 0..(*info).nConstraint as usize {
            let constraint = &*(*info).aConstraint.add(i);
            let is_key = constraint.iColumn == table.source.columns as c_int
                && i32::from(constraint.op) == ffi::SQLITE_INDEX_CONSTRAINT_EQ;
            if is_key && constraint.usable != 0 {
                let usage = &mut *(*info).aConstraintUsage.add(i);
                usage.argvIndex = 1;
                usage.omit = 1;
                return ffi::SQLITE_OK;
            }
        }
        ffi::SQLITE_CONSTRAINT
    }
}

unsafe extern "C" fn x_open(_: *mut ffi::sqlite3_vtab, out: *mut *mut ffi::sqlite3_vtab_cursor) -> c_int {
    let base = ffi::sqlite3_vtab_cursor::default();
    let cursor = OpenCursor { base, key: Datum::Null, values: Vec::new(), row: 0, rows: 0, scan: None };
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
unsafe fn parts<'a>(cursor: *mut ffi::sqlite3_vtab_cursor) -> (&'a mut OpenCursor, &'a Table) {
    // SAFETY: the caller's promise; nobody else has a reference to either during a callback.
    unsafe { (&mut *cursor.cast::<OpenCursor>(), &*(*cursor).pVtab.cast::<Table>()) }
}

unsafe extern "C" fn x_filter(
    cursor: *mut ffi::sqlite3_vtab_cursor,
    _: c_int,
    _: *const c_char,
    argc: c_int,
    argv: *mut *mut ffi::sqlite3_value,
) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`.
    let (cursor, table) = unsafe { parts(cursor) };
    super::vtab::guarded(&table.current, |run| {
        cursor.row = 0;
        cursor.rows = 0;
        cursor.values.clear();
        match table.source.kind {
            Kind::Keys => {
                cursor.scan = Some(0);
                cursor.scan_on(run)
            }
            Kind::Value(shape) => {
                if argc != 1 {
                    return Err(Error::new(Code::Bug, "source: no key").into());
                }
                // SAFETY: the argument is that of this call, and is copied.
                cursor.key = unsafe { value::read(*argv) }.to_owned();
                cursor.read(run, shape)
            }
        }
    })
}

impl OpenCursor {
    /// Copies the value at the key.
    fn read(&mut self, run: &mut Run<'_>, shape: Shape) -> Outcome<()> {
        let number;
        let key = match &self.key {
            Datum::Text(bytes) | Datum::Blob(bytes) => &bytes[..],
            Datum::Int(i) => {
                number = i.to_string();
                number.as_bytes()
            }
            _ => return Ok(()),
        };
        let (values, rows) = (&mut self.values, &mut self.rows);
        run.host.read_key(key, shape, &mut |row| {
            values.extend_from_slice(row);
            *rows += 1;
        })?;
        Ok(())
    }

    /// Gets the next keys; an empty batch is no end.
    fn scan_on(&mut self, run: &mut Run<'_>) -> Outcome<()> {
        while let Some(from) = self.scan
            && self.row == self.rows
        {
            self.values.clear();
            (self.row, self.rows) = (0, 0);
            let (values, rows) = (&mut self.values, &mut self.rows);
            let next = run.host.scan_keys(from, &mut |row| {
                values.extend_from_slice(row);
                *rows += 1;
            })?;
            self.scan = (next != 0).then_some(next);
        }
        Ok(())
    }
}

unsafe extern "C" fn x_next(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`.
    let (cursor, table) = unsafe { parts(cursor) };
    cursor.row += 1;
    if cursor.row < cursor.rows || table.source.kind != Kind::Keys {
        return ffi::SQLITE_OK;
    }
    super::vtab::guarded(&table.current, |run| cursor.scan_on(run))
}

unsafe extern "C" fn x_eof(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`.
    let (cursor, _) = unsafe { parts(cursor) };
    c_int::from(cursor.row >= cursor.rows)
}

unsafe extern "C" fn x_column(
    cursor: *mut ffi::sqlite3_vtab_cursor,
    context: *mut ffi::sqlite3_context,
    column: c_int,
) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`.
    let (cursor, table) = unsafe { parts(cursor) };
    let (column, columns) = (column as usize, table.source.columns);
    let value = if column < columns { cursor.values.get(cursor.row * columns + column) } else { Some(&cursor.key) };
    // SAFETY: the context is that of this call.
    unsafe { value::answer(context, value.map_or(DatumRef::Null, Datum::as_ref)) };
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
