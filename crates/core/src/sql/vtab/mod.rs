//! SQLite over our tables: the callbacks of a virtual-table module, one module (and so one table) for each of ours.
//!
//! The module is "eponymous": registering it makes the table, in 0.1 us and 3 us more when it is first used, where
//! CREATE VIRTUAL TABLE takes 30 us. SQLite does not notice when such a table is registered anew, so statements are
//! used only with the catalog version that they were made for (invariant 11).
//!
//! Every callback finds the [`Run`] of the statement through [`Current`], keeps its failure there, and
//! catches its panics (invariant 12). xBegin and its kin are missing on purpose: atomicity is ours, by undo scopes.

mod arguments;
pub mod cursor;
pub mod describe;
pub mod plan;
pub mod row_values;
pub mod transient;

use super::run::{Current, Failure, Outcome, Run, outside};
use super::sqlite::{connection, value};
use super::table_info::TableInfo;
use super::token::quote_name;
use super::write::{self, Given, OnConflict, Set};
use crate::error::{Code, Error, Result};
use crate::table::catalog::TableDef;
use crate::table::datum::{Datum, DatumRef};
use crate::table::row::Row;
use crate::table::row_id::RowId;
use crate::table::types::Collation;
use cursor::TableCursor;
use libsqlite3_sys as ffi;
use plan::{Choice, Field, Grouping, Op, Plan, Question, RowTerm, Term};
use row_values::Hint;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
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

/// SQLite's view of a cursor.
#[repr(C)]
struct OpenCursor {
    base: ffi::sqlite3_vtab_cursor,
    cursor: TableCursor,
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

static MODULE: ffi::sqlite3_module = ffi::sqlite3_module {
    iVersion: 2,
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
    xUpdate: Some(x_update),
    xBegin: None,
    xSync: None,
    xCommit: None,
    xRollback: None,
    xFindFunction: Some(row_values::find_function),
    xRename: None,
    xSavepoint: None,
    xRelease: None,
    xRollbackTo: None,
    xShadowName: None,
    xIntegrity: None,
};

/// Runs the body of a callback: failures and panics are kept in the run, SQLite gets a code.
pub(super) fn guarded(current: &Current, body: impl FnOnce(&mut Run<'_>) -> Outcome<()>) -> c_int {
    // Only a flag leaves the closures: an outcome that is handed on from one to the next is copied each time, and the
    // processor waits for the copies, longer than most callbacks take.
    let mut failure = None;
    let lent = || current.try_with(|run| body(run).map_err(|why| failure = Some(why)).is_ok());
    let failure = match catch_unwind(AssertUnwindSafe(lent)) {
        Ok(Some(true)) => return ffi::SQLITE_OK,
        Ok(_) => failure.unwrap_or_else(outside),
        Err(panic) => panicked(&*panic),
    };
    failed(current, failure)
}

/// Keeps a failure; SQLite gets a code.
#[cold]
fn failed(current: &Current, failure: Failure) -> c_int {
    let code = match &failure {
        Failure::Error(error) if error.code == Code::Constraint => ffi::SQLITE_CONSTRAINT,
        _ => ffi::SQLITE_ERROR,
    };
    current.fail(failure);
    code
}

#[cold]
fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    Error::new(Code::Bug, format!("a panic in a callback of SQLite: {text}")).into()
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

/// The columns as SQLite is to know them: by base type and collation.
pub fn declaration(def: &TableDef) -> String {
    let column = |c: &crate::table::catalog::ColumnDef| {
        // SQLite looks for the collation of a hidden column in the wrong place; queries name it instead.
        let plain = c.collation == Collation::Binary || c.hidden;
        let collation = if plain { String::new() } else { format!(" COLLATE {}", name(c.collation)) };
        let (ctype, hidden) = match (c.ctype.sqlite_name(), c.hidden) {
            // SQLite takes the word HIDDEN for the type when there is none, and its values for numbers.
            ("", true) => ("BLOB", " HIDDEN"),
            (ctype, true) => (ctype, " HIDDEN"),
            (ctype, false) => (ctype, ""),
        };
        // SQLite does not check it; it knows then that min() need not look for NULLs.
        let not_null = if c.not_null { " NOT NULL" } else { "" };
        format!("{} {ctype}{hidden}{not_null}{collation}", quote_name(&c.name))
    };
    let columns: Vec<String> = def.columns.iter().map(column).collect();
    format!("CREATE TABLE x({})", columns.join(", "))
}

/// A collation's name in SQLite.
pub fn name(collation: Collation) -> &'static str {
    match collation {
        Collation::Binary => "BINARY",
        Collation::NoCase => "NOCASE",
        Collation::RTrim => "RTRIM",
        Collation::Decimal => "DECIMAL",
    }
}

/// The collation that SQLite calls so.
pub fn collation_named(name: &[u8]) -> Option<Collation> {
    use Collation::*;
    [Binary, NoCase, RTrim, Decimal].into_iter().find(|c| self::name(*c).as_bytes().eq_ignore_ascii_case(name))
}

unsafe extern "C" fn x_disconnect(table: *mut ffi::sqlite3_vtab) -> c_int {
    // SAFETY: made by `x_connect` with `Box::into_raw`; SQLite gives it back once.
    drop(unsafe { Box::from_raw(table.cast::<Table>()) });
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_open(_: *mut ffi::sqlite3_vtab, out: *mut *mut ffi::sqlite3_vtab_cursor) -> c_int {
    let cursor = OpenCursor { base: ffi::sqlite3_vtab_cursor::default(), cursor: TableCursor::new() };
    // SAFETY: SQLite passes a place for the pointer, whose target begins with a `sqlite3_vtab_cursor`.
    unsafe { *out = Box::into_raw(Box::new(cursor)).cast() };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_close(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
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

unsafe extern "C" fn x_filter(
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

unsafe extern "C" fn x_next(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`.
    let (cursor, table) = unsafe { parts(cursor) };
    if cursor.advance() { ffi::SQLITE_OK } else { next_guarded(cursor, table) }
}

/// Goes to a row that is not at hand.
#[inline(never)]
fn next_guarded(cursor: &mut TableCursor, table: &Table) -> c_int {
    guarded(&table.current, |run| watched(run, cursor, |run, cursor| cursor.next(run, &table.info.def)))
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

unsafe extern "C" fn x_rowid(cursor: *mut ffi::sqlite3_vtab_cursor, out: *mut i64) -> c_int {
    // SAFETY: SQLite passes a cursor of `x_open`, and a place for the answer.
    unsafe {
        let (cursor, _) = parts(cursor);
        *out = cursor.row_id().0 as i64;
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_best_index(table: *mut ffi::sqlite3_vtab, info: *mut ffi::sqlite3_index_info) -> c_int {
    // SAFETY: SQLite passes a table of `x_connect`.
    let table = unsafe { &*table.cast::<Table>() };
    guarded(&table.current, |run| {
        // SAFETY: the structure is that of this call.
        let asked = unsafe { Asked::read(table, info, run) };
        let source = run.host.source();
        let statistics = source.statistics(table.info.def.id)?;
        let choice = plan::choose(&Question {
            def: &table.info.def,
            source,
            statistics: &statistics,
            terms: &asked.terms,
            rows: &asked.rows,
            complete: asked.complete && !run.traits.row_values,
            order: &asked.order,
            grouping: asked.grouping,
            limit: asked.limit,
            offset: asked.offset,
            reads: asked.reads.as_deref(),
        });
        // SAFETY: the structure is that of this call, and the choice uses its constraints.
        unsafe { table.answer(info, &choice, run) };
        Ok(())
    })
}

/// SQLite's question in our words.
struct Asked {
    terms: SmallVec<[Term; 8]>,
    rows: SmallVec<[RowTerm; 1]>,
    /// The columns that follow in the comparison whose first column is still to come: place, constraint, position.
    next: SmallVec<[(i64, usize, u16); 4]>,
    /// All conditions are among the terms.
    complete: bool,
    order: SmallVec<[(Field, bool); 4]>,
    grouping: Grouping,
    limit: Option<u64>,
    offset: Option<usize>,
    reads: Option<SmallVec<[u16; 16]>>,
}

/// What a LIMIT that is not known yet is taken for.
const LIMIT_GUESS: u64 = 25;

impl Asked {
    /// # Safety
    /// `info` is the structure of the running xBestIndex call.
    unsafe fn read(table: &Table, info: *mut ffi::sqlite3_index_info, run: &Run<'_>) -> Asked {
        // SAFETY: the caller's promise: the arrays have the lengths that the structure tells.
        let (constraints, order, distinct, used) = unsafe {
            let constraints = array((*info).aConstraint, (*info).nConstraint);
            let order = array((*info).aOrderBy, (*info).nOrderBy);
            (constraints, order, ffi::sqlite3_vtab_distinct(info), (*info).colUsed)
        };
        let mut asked = Asked {
            terms: SmallVec::new(),
            rows: SmallVec::new(),
            next: SmallVec::new(),
            complete: true,
            order: order.iter().filter_map(|o| Some((field(table, o.iColumn)?, o.desc != 0))).collect(),
            grouping: match distinct {
                1 => Grouping::Group,
                2 => Grouping::Distinct,
                3 => Grouping::DistinctOrder,
                _ => Grouping::Order,
            },
            limit: None,
            offset: None,
            reads: reads(table, used),
        };
        for (number, constraint) in constraints.iter().enumerate() {
            if constraint.usable == 0 {
                asked.complete = false;
                continue;
            }
            // SAFETY: the caller's promise.
            unsafe { asked.add(table, info, number, constraint, run) };
        }
        asked
    }

    /// # Safety
    /// As for `read`; `number` is a constraint of it.
    unsafe fn add(
        &mut self,
        table: &Table,
        info: *mut ffi::sqlite3_index_info,
        number: usize,
        constraint: &ffi::sqlite3_index_constraint,
        run: &Run<'_>,
    ) {
        // SAFETY: the caller's promise.
        let literal = || unsafe { literal(info, number) };
        let code = i32::from(constraint.op);
        match code {
            ffi::SQLITE_INDEX_CONSTRAINT_LIMIT => {
                self.limit = match literal() {
                    Some(Datum::Int(limit)) => u64::try_from(limit).ok(),
                    _ => Some(LIMIT_GUESS),
                };
                return;
            }
            ffi::SQLITE_INDEX_CONSTRAINT_OFFSET => {
                self.offset = Some(number);
                return;
            }
            _ => {}
        }
        let field = field(table, constraint.iColumn);
        if let (Some(hint), Some(Field::Position(position))) = (row_values::hint(code), field) {
            return self.add_hint(hint, number, position, literal());
        }
        // SAFETY: the caller's promise.
        let (list, collation) = unsafe {
            let collation = ffi::sqlite3_vtab_collation(info, number as c_int);
            let collation = if collation.is_null() { c"BINARY" } else { CStr::from_ptr(collation) };
            (ffi::sqlite3_vtab_in(info, number as c_int, -1) != 0, collation_named(collation.to_bytes()))
        };
        let (Some(op), Some(field), Some(collation)) = (op(code), field, collation) else {
            self.complete = false;
            return;
        };
        let literal = if list { None } else { literal() };
        let sure = literal.is_some() && !run.traits.casts;
        let parameter = literal.is_none() && run.traits.parameters;
        self.terms.push(Term { number, field, op, list, collation, literal, sure, parameter });
    }

    /// SQLite tells the hints of a comparison from its last column to the first.
    fn add_hint(&mut self, hint: Hint, number: usize, position: u16, place: Option<Datum>) {
        match hint {
            Hint::Next => {
                if let Some(Datum::Int(place)) = place {
                    self.next.push((place, number, position));
                }
            }
            Hint::First(op) => {
                let mut row = RowTerm {
                    op,
                    numbers: SmallVec::from_slice(&[number]),
                    positions: SmallVec::from_slice(&[position]),
                };
                self.next.sort_unstable();
                for (expected, (place, number, position)) in (1..).zip(self.next.drain(..)) {
                    // Columns of other tables leave gaps, behind which nothing is of use.
                    if place == expected {
                        row.numbers.push(number);
                        row.positions.push(position);
                    }
                }
                self.rows.push(row);
            }
        }
    }
}

/// The positions of the columns that a statement reads; None: perhaps all.
fn reads(table: &Table, used: u64) -> Option<SmallVec<[u16; 16]>> {
    const REST: u64 = 1 << 63;
    let columns = &table.info.def.columns;
    let is_used = |(i, _): &(usize, &crate::table::catalog::ColumnDef)| used >> i & 1 == 1;
    (used & REST == 0).then(|| columns.iter().enumerate().take(63).filter(is_used).map(|(_, c)| c.position).collect())
}

fn op(code: i32) -> Option<Op> {
    Some(match code {
        ffi::SQLITE_INDEX_CONSTRAINT_EQ => Op::Equal,
        ffi::SQLITE_INDEX_CONSTRAINT_IS => Op::Is,
        ffi::SQLITE_INDEX_CONSTRAINT_ISNULL => Op::IsNull,
        ffi::SQLITE_INDEX_CONSTRAINT_GT => Op::Greater,
        ffi::SQLITE_INDEX_CONSTRAINT_GE => Op::GreaterOrEqual,
        ffi::SQLITE_INDEX_CONSTRAINT_LT => Op::Less,
        ffi::SQLITE_INDEX_CONSTRAINT_LE => Op::LessOrEqual,
        ffi::SQLITE_INDEX_CONSTRAINT_ISNOTNULL => Op::NotNull,
        ffi::SQLITE_INDEX_CONSTRAINT_LIKE => Op::Like,
        ffi::SQLITE_INDEX_CONSTRAINT_GLOB => Op::Glob,
        _ => return None,
    })
}

fn field(table: &Table, column: c_int) -> Option<Field> {
    match usize::try_from(column) {
        Ok(column) => table.info.def.columns.get(column).map(|c| Field::Position(c.position)),
        Err(_) => Some(Field::RowId),
    }
}

/// The right side of a constraint, if it is a literal.
///
/// # Safety
/// `info` is the structure of the running xBestIndex call and has a constraint of the number.
unsafe fn literal(info: *mut ffi::sqlite3_index_info, number: usize) -> Option<Datum> {
    let mut value = std::ptr::null_mut();
    // SAFETY: the caller's promise; the value stays until xBestIndex returns and is copied here.
    unsafe {
        let code = ffi::sqlite3_vtab_rhs_value(info, number as c_int, &mut value);
        (code == ffi::SQLITE_OK && !value.is_null()).then(|| value::read(value).to_owned())
    }
}

/// # Safety
/// Unless `length` is 0, `pointer` points to that many items, which stay for `'a`.
unsafe fn array<'a, T>(pointer: *const T, length: c_int) -> &'a [T] {
    // SAFETY: the caller's promise.
    if length <= 0 { &[] } else { unsafe { std::slice::from_raw_parts(pointer, length as usize) } }
}

impl Table {
    /// Writes a choice into SQLite's structure.
    ///
    /// # Safety
    /// `info` is the structure of the running xBestIndex call, whose constraints the choice uses.
    unsafe fn answer(&self, info: *mut ffi::sqlite3_index_info, choice: &Choice, run: &mut Run<'_>) {
        let number = {
            let mut plans = self.plans.borrow_mut();
            plans.iter().position(|p| *p == choice.plan).unwrap_or_else(|| {
                plans.push(choice.plan.clone());
                plans.len() - 1
            })
        };
        // SAFETY: the caller's promise: the usages are as many as the constraints, and the arguments are among these.
        unsafe {
            for (argument, &constraint) in choice.arguments.iter().enumerate() {
                let usage = &mut *(*info).aConstraintUsage.add(constraint);
                usage.argvIndex = argument as c_int + 1;
                let skips = choice.offset() == Some(constraint);
                usage.omit = u8::from(choice.exact || skips || choice.hints.contains(&constraint));
                if ffi::sqlite3_vtab_in(info, constraint as c_int, -1) != 0 {
                    ffi::sqlite3_vtab_in(info, constraint as c_int, 1);
                }
            }
            (*info).idxNum = number as c_int;
            (*info).estimatedCost = choice.cost;
            (*info).estimatedRows = choice.rows as i64;
            (*info).orderByConsumed = c_int::from(choice.ordered && (*info).nOrderBy > 0);
            (*info).idxFlags = if choice.is_single() { ffi::SQLITE_INDEX_SCAN_UNIQUE } else { 0 };
            if run.traits.explains {
                run.steps += 1;
                let step = describe::Step::new(&self.info.def, &choice.plan, choice.rows).packed(run.steps);
                (*info).idxStr = connection::owned_by_sqlite(&step);
                (*info).needToFreeIdxStr = 1;
            }
        }
    }

    /// The values of an xUpdate call as `write` takes them.
    ///
    /// # Safety
    /// `values` are the column values of the running xUpdate call.
    unsafe fn given<'a>(
        &self,
        run: &mut Run<'_>,
        values: &[*mut ffi::sqlite3_value],
        insert: bool,
    ) -> SmallVec<[Given<'a>; 16]> {
        let omitted = if insert { run.omitted(&self.info.def) } else { &[] };
        let given = values.iter().enumerate().map(|(i, value)| {
            if omitted.get(i).copied().unwrap_or(false) {
                return Given::Nothing;
            }
            // SAFETY: the caller's promise.
            unsafe {
                if !insert && ffi::sqlite3_value_nochange(*value) != 0 {
                    return Given::Nothing;
                }
                Given::Value(value::read(*value))
            }
        });
        given.collect()
    }

    fn on_conflict(&self) -> OnConflict {
        // SAFETY: called inside xUpdate, as the function demands.
        match unsafe { ffi::sqlite3_vtab_on_conflict(self.db) } {
            ffi::SQLITE_REPLACE => OnConflict::Replace,
            ffi::SQLITE_IGNORE => OnConflict::Ignore,
            // FAIL would keep the rows before the failing one; here a statement that fails leaves nothing.
            _ => OnConflict::Abort,
        }
    }
}

unsafe extern "C" fn x_update(
    table: *mut ffi::sqlite3_vtab,
    argc: c_int,
    argv: *mut *mut ffi::sqlite3_value,
    out: *mut i64,
) -> c_int {
    // SAFETY: SQLite passes a table of `x_connect`, and `argc` values.
    let (table, values) = unsafe { (&*table.cast::<Table>(), std::slice::from_raw_parts(argv, argc as usize)) };
    guarded(&table.current, |run| {
        // SAFETY: the values are those of this call.
        let old = unsafe { value::read(values[0]) };
        let on_conflict = table.on_conflict();
        match (old, values) {
            (DatumRef::Int(id), [_]) => write::delete(run, &table.info, RowId(id as u64)).map(|_| ()),
            (DatumRef::Int(id), [_, new, values @ ..]) => {
                // SAFETY: the values are those of this call.
                let (new, given) = unsafe { (value::read(*new), table.given(run, values, false)) };
                if new != old {
                    return Err(Error::new(Code::Sql, "a row id cannot be changed").into());
                }
                let on_conflict = if on_conflict == OnConflict::Abort { OnConflict::Defer } else { on_conflict };
                let values = given.iter().enumerate();
                let sets: Vec<Set<'_>> = values.filter_map(|(i, given)| Some((i, given.value()?))).collect();
                write::update(run, &table.info, RowId(id as u64), &sets, on_conflict).map(|_| ())
            }
            (DatumRef::Null, [_, new, values @ ..]) => {
                // SAFETY: the values are those of this call.
                let (new, given) = unsafe { (value::read(*new), table.given(run, values, true)) };
                if !new.is_null() {
                    return Err(Error::new(Code::Sql, "a row id cannot be chosen").into());
                }
                let evaluate = &mut |text: &str| connection::evaluate(table.db, text).map_err(Failure::from);
                let id = write::insert(run, &table.info, &given, on_conflict, evaluate)?;
                if let Some(id) = id {
                    // SAFETY: SQLite passes a place for the new row's id.
                    unsafe { *out = id.0 as i64 };
                }
                Ok(())
            }
            _ => Err(Error::new(Code::Bug, "vtab: an xUpdate call of an unknown form").into()),
        }
    })
}
