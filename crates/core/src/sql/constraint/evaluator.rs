//! Evaluates a table's expressions for a row in hand, and conditions of its triggers for two of them, as SQLite does: with the
//! columns' affinities and collations.
//!
//! The row is that of a table-valued module declared like the table, in a connection of its own, so that nothing here
//! touches the statements that run: no run is lent, no user sees the module, and a statement that is in use cannot be
//! met again, as evaluating borrows the whole of it. One step of a kept SELECT computes all expressions of a stage.

use super::judge::refuse_row_ids;
use super::rules::Rules;
use crate::error::{Code, Error, Result};
use crate::limits;
use crate::sql::sqlite::{Connection, Prepared, Step, connection, functions, memory, value, world};
use crate::sql::table_info::TableInfo;
use crate::sql::token::quote_name;
use crate::sql::vtab::declaration;
use crate::table::catalog::{TableDef, TableId};
use crate::table::datum::{Datum, DatumRef};
use crate::table::trigger::{RowEvent, TriggerDef};
use libsqlite3_sys as ffi;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The expressions of all tables that have any.
#[derive(Default)]
pub struct RowEvaluator {
    // Fields are dropped in this order: statements before their connection.
    tables: HashMap<TableId, Compiled>,
    connection: Option<Connection>,
    hand: Arc<Hand>,
    /// The row as it was, for triggers.
    old: Arc<Hand>,
}

/// What was compiled for one table.
#[derive(Default)]
struct Compiled {
    stages: Vec<Prepared>,
    /// Conditions of triggers, by their numbers.
    conditions: HashMap<u64, Prepared>,
}

/// The row that the module shows, while it is evaluated.
#[derive(Default)]
struct Hand {
    values: AtomicPtr<DatumRef<'static>>,
    count: AtomicUsize,
}

impl Hand {
    /// Holds `values` while `body` runs.
    fn with<T>(&self, values: &[DatumRef<'_>], body: impl FnOnce() -> T) -> T {
        /// Lets go, whatever happens.
        struct Empty<'a>(&'a Hand);
        impl Drop for Empty<'_> {
            fn drop(&mut self) {
                self.0.count.store(0, Ordering::Relaxed);
                self.0.values.store(std::ptr::null_mut(), Ordering::Relaxed);
            }
        }
        // The lifetime is erased here and kept by `Empty`: the values are out of hand before the borrow ends.
        self.values.store(values.as_ptr().cast_mut().cast(), Ordering::Relaxed);
        self.count.store(values.len(), Ordering::Relaxed);
        let _empty = Empty(self);
        body()
    }

    fn value(&self, position: u16) -> DatumRef<'_> {
        if usize::from(position) >= self.count.load(Ordering::Relaxed) {
            return DatumRef::Null;
        }
        // SAFETY: `with` put the values there and takes them away before their borrow ends; the position is below their
        // number. Only the thread inside `with` comes here, as the connection is used by one thread at a time.
        unsafe { *self.values.load(Ordering::Relaxed).add(usize::from(position)) }
    }
}

impl RowEvaluator {
    /// Forgets a table whose definition is no longer what it was.
    pub fn forget(&mut self, table: TableId) {
        if self.tables.remove(&table).is_some()
            && let Some(connection) = &self.connection
        {
            connection.drop_module(&module_name(table));
            connection.drop_module(&old_name(table));
        }
    }

    /// The answers of one stage for a row whose values stand at their positions.
    pub fn evaluate(
        &mut self,
        info: &TableInfo,
        rules: &Rules,
        stage: usize,
        values: &[DatumRef<'_>],
    ) -> Result<Vec<Datum>> {
        if self.tables.get(&info.def.id).is_none_or(|compiled| compiled.stages.is_empty()) {
            self.compile(info, rules)?;
        }
        let connection = self.connection.as_ref().map(Connection::lend).ok_or_else(lost)?;
        let statement = self.tables.get_mut(&info.def.id).and_then(|all| all.stages.get_mut(stage)).ok_or_else(lost)?;
        world::forget_asked();
        let answers = self.hand.with(values, || {
            let step = memory::limited(limits::SQL_MEMORY_BYTES_MAX, || statement.step());
            let answers = match step {
                Step::Row => Ok((0..statement.column_count()).map(|i| statement.column(i).to_owned()).collect()),
                Step::Done => Err(lost()),
                Step::Failed(code) => Err(connection.error(code, "")),
            };
            statement.reset();
            answers
        });
        let about = |error: Error| {
            Error::new(error.code, format!("{} (in the rules of table {})", error.message, info.def.name))
        };
        let answers = answers.map_err(about)?;
        if world::was_asked() {
            let text = format!(
                "the rules of table {} ask for the present time, which would change what they say",
                info.def.name
            );
            return Err(Error::new(Code::Sql, text));
        }
        Ok(answers)
    }

    fn compile(&mut self, info: &TableInfo, rules: &Rules) -> Result<()> {
        self.register(&info.def)?;
        let (Some(connection), Some(compiled)) = (&self.connection, self.tables.get_mut(&info.def.id)) else {
            return Err(lost());
        };
        let name = module_name(info.def.id);
        let compile = |text: String| connection.prepare(&text, true);
        let statements = rules.stages.iter().map(|stage| compile(stage.select(&info.def, &name)));
        compiled.stages = statements.collect::<Result<Vec<_>>>()?;
        Ok(())
    }

    /// Makes the rows of a table known to the connection.
    fn register(&mut self, def: &TableDef) -> Result<()> {
        if self.tables.contains_key(&def.id) {
            return Ok(());
        }
        if self.connection.is_none() {
            let connection = Connection::open()?;
            functions::register(&connection)?;
            self.connection = Some(connection);
        }
        let Some(connection) = &self.connection else { return Err(lost()) };
        for (name, hand) in [(module_name(def.id), &self.hand), (old_name(def.id), &self.old)] {
            let positions = def.columns.iter().map(|c| c.position).collect();
            let aux = Box::new(Aux { declaration: declaration(def), positions, hand: hand.clone() });
            // SAFETY: the module is static, its xConnect takes an `Aux`, and `drop_aux` frees one.
            unsafe { connection.create_module(&name, &MODULE, Box::into_raw(aux).cast(), drop_aux)? };
        }
        self.tables.insert(def.id, Compiled::default());
        Ok(())
    }

    /// Is the condition of a trigger true for rows whose values stand at their positions?
    pub fn holds(
        &mut self,
        def: &TableDef,
        trigger: &TriggerDef,
        old: Option<&[DatumRef<'_>]>,
        new: Option<&[DatumRef<'_>]>,
    ) -> Result<bool> {
        let Some(rows) = trigger.rows() else { return Ok(true) };
        let Some(condition) = &rows.condition else { return Ok(true) };
        self.register(def)?;
        let (Some(connection), Some(compiled)) = (&self.connection, self.tables.get_mut(&def.id)) else {
            return Err(lost());
        };
        let statement = match compiled.conditions.entry(trigger.number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(connection.prepare(&question(def, rows.event, condition), true)?),
        };
        self.hand.with(new.unwrap_or_default(), || {
            self.old.with(old.unwrap_or_default(), || {
                let step = memory::limited(limits::SQL_MEMORY_BYTES_MAX, || statement.step());
                let answer = match step {
                    Step::Row => Ok(true),
                    Step::Done => Ok(false),
                    Step::Failed(code) => Err(connection.error(code, "")),
                };
                statement.reset();
                answer
            })
        })
    }

    /// Judges the condition of a trigger.
    pub fn judge_condition(def: &TableDef, event: RowEvent, condition: &str) -> Result<()> {
        refuse_row_ids(def, condition, "the condition")?;
        let mut evaluator = RowEvaluator::default();
        evaluator.register(def)?;
        let connection = evaluator.connection.as_ref().ok_or_else(lost)?;
        connection.prepare(&question(def, event, condition), false).map(drop)
    }
}

/// The SELECT that gives a row if the condition of a trigger holds. As a WHERE it can have no aggregates.
fn question(def: &TableDef, event: RowEvent, condition: &str) -> String {
    let (new, old) = (quote_name(&module_name(def.id)), quote_name(&old_name(def.id)));
    let rows = match event {
        RowEvent::Insert => format!("{new} AS NEW"),
        RowEvent::Update => format!("{old} AS OLD, {new} AS NEW"),
        RowEvent::Delete => format!("{old} AS OLD"),
    };
    format!("SELECT 1 FROM {rows} WHERE ({condition}\n)")
}

fn module_name(table: TableId) -> String {
    format!("row of {}", table.0)
}

fn old_name(table: TableId) -> String {
    format!("old row of {}", table.0)
}

#[cold]
fn lost() -> Error {
    Error::new(Code::Bug, "evaluator.rs: a row's expressions gave nothing")
}

/// What a module is registered with.
struct Aux {
    declaration: String,
    positions: Vec<u16>,
    hand: Arc<Hand>,
}

/// SQLite's view of the table. The base must come first: SQLite knows only that.
#[repr(C)]
struct Table {
    base: ffi::sqlite3_vtab,
    positions: Vec<u16>,
    hand: Arc<Hand>,
}

#[repr(C)]
struct Cursor {
    base: ffi::sqlite3_vtab_cursor,
    done: bool,
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
    // SAFETY: made by `compile` with `Box::into_raw`; SQLite calls this once.
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
    // SAFETY: `compile` gave this module an `Aux`, which lives until `drop_aux`.
    let aux = unsafe { &*aux.cast::<Aux>() };
    let Ok(declaration) = connection::c_string(&aux.declaration) else { return ffi::SQLITE_ERROR };
    // SAFETY: called inside xConnect, as the function demands.
    let code = unsafe { ffi::sqlite3_declare_vtab(db, declaration.as_ptr()) };
    if code == ffi::SQLITE_OK {
        let base = ffi::sqlite3_vtab::default();
        let table = Table { base, positions: aux.positions.clone(), hand: aux.hand.clone() };
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
        (*info).estimatedCost = 1.0;
        (*info).estimatedRows = 1;
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_open(_: *mut ffi::sqlite3_vtab, out: *mut *mut ffi::sqlite3_vtab_cursor) -> c_int {
    let cursor = Cursor { base: ffi::sqlite3_vtab_cursor::default(), done: true };
    // SAFETY: SQLite passes a place for the pointer, whose target begins with a `sqlite3_vtab_cursor`.
    unsafe { *out = Box::into_raw(Box::new(cursor)).cast() };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_close(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: made by `x_open` with `Box::into_raw`; SQLite gives it back once.
    drop(unsafe { Box::from_raw(cursor.cast::<Cursor>()) });
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_filter(
    cursor: *mut ffi::sqlite3_vtab_cursor,
    _: c_int,
    _: *const c_char,
    _: c_int,
    _: *mut *mut ffi::sqlite3_value,
) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`.
    unsafe { (*cursor.cast::<Cursor>()).done = false };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_next(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`.
    unsafe { (*cursor.cast::<Cursor>()).done = true };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_eof(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`.
    c_int::from(unsafe { (*cursor.cast::<Cursor>()).done })
}

unsafe extern "C" fn x_column(
    cursor: *mut ffi::sqlite3_vtab_cursor,
    context: *mut ffi::sqlite3_context,
    column: c_int,
) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open` whose table it has set, and the context of this call; the value is
    // copied before this returns.
    unsafe {
        let table = &*(*cursor).pVtab.cast::<Table>();
        let position = table.positions.get(column as usize);
        value::answer(context, position.map_or(DatumRef::Null, |position| table.hand.value(*position)));
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_rowid(_: *mut ffi::sqlite3_vtab_cursor, out: *mut i64) -> c_int {
    // SAFETY: SQLite passes a place for the answer.
    unsafe { *out = 0 };
    ffi::SQLITE_OK
}
