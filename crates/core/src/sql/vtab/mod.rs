//! SQLite over our tables: the callbacks of a virtual-table module, one module (and so one table) for each of ours.
//!
//! The module is "eponymous": registering it makes the table, in 0.1 us and 3 us more when it is first used, where
//! CREATE VIRTUAL TABLE takes 30 us. SQLite does not notice when such a table is registered anew, so statements are
//! used only with the catalog version that they were made for (invariant 11).
//!
//! Every callback finds the [`Run`] of the statement through [`Current`], keeps its failure there, and
//! catches its panics (invariant 12). xBegin and its kin are missing on purpose: atomicity is ours, by undo scopes.

mod arguments;
mod ask;
pub mod cursor;
mod declare;
pub mod describe;
mod guard;
pub mod plan;
pub mod row_values;
mod step;
pub mod transient;
mod update;

pub use declare::{collation_named, declaration, name};
pub(super) use guard::guarded;

use super::run::Current;
use super::sqlite::connection;
use super::table_info::TableInfo;
use crate::error::Result;
use libsqlite3_sys as ffi;
use plan::Plan;
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

/// What a module is registered with.
struct Aux {
    info: Arc<TableInfo>,
    current: Arc<Current>,
}

/// SQLite's view of a table. The base must come first: SQLite knows only that.
#[repr(C)]
struct Table {
    base: ffi::sqlite3_vtab,
    db: *mut ffi::sqlite3,
    info: Arc<TableInfo>,
    current: Arc<Current>,
    /// The position of each column in rows.
    positions: Box<[u16]>,
    /// Access paths given to SQLite, which names them by their place here.
    plans: RefCell<Vec<Plan>>,
}

/// Makes `info`'s table known to a connection.
pub fn register(connection: &connection::Connection, info: &Arc<TableInfo>, current: &Arc<Current>) -> Result<()> {
    let aux = Box::new(Aux { info: info.clone(), current: current.clone() });
    let aux = Box::into_raw(aux).cast::<c_void>();
    // SAFETY: the module is static, its xConnect takes an `Aux`, and `drop_aux` frees one; SQLite calls that also when
    // it refuses the module.
    unsafe { connection.create_module(&info.def.name, &MODULE, aux, drop_aux) }
}

unsafe extern "C" fn drop_aux(aux: *mut c_void) {
    // SAFETY: made by `register` with `Box::into_raw`; SQLite calls this once.
    drop(unsafe { Box::from_raw(aux.cast::<Aux>()) });
}

/// A module without callbacks, to begin with.
pub(super) const NO_CALLBACKS: ffi::sqlite3_module = ffi::sqlite3_module {
    iVersion: 1,
    xCreate: None,
    xConnect: None,
    xBestIndex: None,
    xDisconnect: None,
    xDestroy: None,
    xOpen: None,
    xClose: None,
    xFilter: None,
    xNext: None,
    xEof: None,
    xColumn: None,
    xRowid: None,
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

static MODULE: ffi::sqlite3_module = ffi::sqlite3_module {
    iVersion: 2,
    xConnect: Some(x_connect),
    xBestIndex: Some(ask::x_best_index),
    xDisconnect: Some(x_disconnect),
    xDestroy: Some(x_disconnect),
    xOpen: Some(step::x_open),
    xClose: Some(step::x_close),
    xFilter: Some(step::x_filter),
    xNext: Some(step::x_next),
    xEof: Some(step::x_eof),
    xColumn: Some(step::x_column),
    xRowid: Some(step::x_rowid),
    xUpdate: Some(update::x_update),
    xFindFunction: Some(row_values::find_function),
    ..NO_CALLBACKS
};

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
    let Ok(declaration) = connection::c_string(&declaration(&aux.info.def)) else { return ffi::SQLITE_ERROR };
    // SAFETY: called inside xConnect, as both functions demand; the third argument of sqlite3_vtab_config is an int.
    let code = unsafe {
        ffi::sqlite3_vtab_config(db, ffi::SQLITE_VTAB_CONSTRAINT_SUPPORT, 1 as c_int);
        ffi::sqlite3_declare_vtab(db, declaration.as_ptr())
    };
    if code == ffi::SQLITE_OK {
        let table = Table {
            base: ffi::sqlite3_vtab::default(),
            db,
            info: aux.info.clone(),
            current: aux.current.clone(),
            positions: aux.info.def.columns.iter().map(|c| c.position).collect(),
            plans: RefCell::new(Vec::new()),
        };
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
