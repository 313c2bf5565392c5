//! One run of a statement: what its callbacks work on, whom they may ask, and how it ended early.

use super::constraint::foreign_key::Pending;
use super::control::Control;
use super::dml::returning::Returned;
use super::dml::upsert::Upserting;
use super::executor::Sql;
use super::vtab::transient::Transient;
use crate::engine::{ReadError, Source, TableMemory, Wanted};
use crate::error::{Code, Error, Result};
use crate::meter::Uses;
use crate::reply::Reply;
use crate::table::batch::Batch;
use crate::table::catalog::{Catalog, TableDef, TableId};
use crate::table::datum::{Datum, DatumRef};
use crate::table::row_id::RowId;
use crate::table::trigger::TriggerDef;
use crate::txn::{KeysScope, TableChanges, Tables};
use std::collections::HashMap;
use std::ffi::c_int;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// What a statement needs from above: the tables it reads and writes, the time, the keyspace beside them.
pub trait Host {
    /// What the statement reads: the live tables or a view.
    fn source(&self) -> &dyn Source;

    /// The tables to write and where to note it; an error when the caller may only read.
    fn write(&mut self) -> Result<(&mut Tables, &mut TableChanges)>;

    /// What [`write`](Self::write) gave before, to close what was opened then, though nothing may be written any more.
    fn written(&mut self) -> Result<(&mut Tables, &mut TableChanges)> {
        self.write()
    }

    /// Gives the next number of a table's sequence, larger than `at_least`. The engine raises the sequence when a row
    /// that has it is written, so that a statement that fails, or leaves the row out, gives none away.
    fn next_number(&mut self, table: TableId, at_least: i64) -> Result<i64> {
        let (tables, _) = self.write()?;
        number_after(tables.engine().sequence(table)?.max(at_least))
    }

    /// Opens or ends a transaction of the session, or sets or uses a savepoint.
    fn control(&mut self, control: &Control) -> Result<Reply> {
        let _ = control;
        Err(Error::new(Code::Sql, "there are no transactions here"))
    }

    /// Calls a procedure. The reply may come later.
    fn call(&mut self, name: &str, args: Vec<Datum>) -> Result<Reply> {
        let _ = args;
        Err(Error::new(Code::Sql, format!("the procedure {name} cannot be called from here")))
    }

    /// The SQL side of the store.
    fn sql(&mut self) -> &mut Sql;

    /// The catalog.
    fn catalog(&self) -> &Catalog;

    /// Gets for the engine what it needs before it can answer.
    fn fetch(&mut self, wanted: &Wanted) -> Result<()>;

    /// When a statement that begins now must end, on the monotonic clock.
    fn deadline_ns(&mut self) -> Option<u64> {
        None
    }

    /// When a read that begins now has had its slice of the store's time, on the monotonic clock; then it begins again
    /// elsewhere. None: it stays here to its end.
    fn slice_end_ns(&mut self) -> Option<u64> {
        None
    }

    /// Has a read run in another thread, on the tables as they are now. The reply comes later.
    fn read_elsewhere(&mut self, _text: &[u8], _params: &[DatumRef<'_>]) -> Result<Reply> {
        Err(Error::new(Code::Bug, "run.rs: this read has nowhere to go"))
    }

    /// A statement begins that nobody can be served during; others may have it cancelled.
    fn statement_begins(&mut self) {}

    /// It has ended.
    fn statement_ends(&mut self) {}

    /// Makes room for more rows; an error when there is no memory for them.
    fn make_room(&mut self) -> Result<()> {
        Ok(())
    }

    /// The bytes of a table, by part, where that is known.
    fn table_memory(&self, _table: TableId) -> Option<TableMemory> {
        None
    }

    /// The instant that the statement sees, microseconds since 1970.
    fn now_us(&self) -> i64;

    /// A clock that never goes back, nanoseconds.
    fn monotonic_ns(&mut self) -> u64;

    /// True when somebody asked for the statement's end.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// Gives rows of the value at a key, for the table-valued functions; none when there is no key. An error when the
    /// key holds another type.
    fn read_key(
        &mut self,
        key: &[u8],
        shape: Shape,
        portion: Portion<'_>,
        each: &mut dyn FnMut(&[Datum]),
    ) -> Result<()>;

    /// The ranks of the members of a sorted set whose scores are in a range, its ends included.
    fn ranks(&mut self, key: &[u8], low: Option<f64>, high: Option<f64>) -> Result<Range<usize>>;

    /// Gives the row of a key in the table `keys`, if there is one.
    fn find_key(&mut self, key: &[u8], each: &mut dyn FnMut(&[Datum])) -> Result<()>;

    /// Gives a batch of keys with a prefix from a cursor of SCAN on (0 begins) and the next cursor (0 ends): key, type,
    /// TTL in milliseconds or NULL, bytes (NULL unless they are wanted), encoding.
    fn scan_keys(&mut self, cursor: u64, prefix: &[u8], bytes: bool, each: &mut dyn FnMut(&[Datum])) -> Result<u64>;

    /// A statement begins that deletes keys and may be done in slices: from now on `scan_keys` shows the keys of a slice.
    /// Whoever runs the statement sees to the rest.
    fn begin_slice(&mut self) {}

    /// Opens an undo scope over the keys that triggers of a statement may change; None: there are no such triggers.
    #[inline]
    fn open_keys(&mut self) -> Option<KeysScope> {
        None
    }

    /// Closes a scope of [`open_keys`](Self::open_keys); what was changed in it is kept or taken back.
    fn close_keys(&mut self, scope: KeysScope, keep: bool) {
        let (KeysScope { .. }, _) = (scope, keep);
    }

    /// Calls the routine of a trigger of rows.
    ///
    /// # Errors
    /// The routine failed, or there is none, or triggers fire each other too deeply.
    fn fire(&mut self, firing: &Firing<'_>) -> Result<Fired> {
        let _ = firing;
        Err(Error::new(Code::Bug, "run.rs: no triggers are fired here"))
    }

    /// How each routine was used.
    fn routines(&self) -> Vec<RoutineUses> {
        Vec::new()
    }

    /// The value that a pure function of a library gives.
    ///
    /// # Errors
    /// The function failed, or there is none.
    fn call_function(&mut self, name: &str, _args: &[DatumRef<'_>]) -> Result<Datum> {
        Err(Error::new(Code::Sql, format!("no such function: {name}")))
    }

    /// How the calls of the trigger of this name went.
    fn trigger_runs(&self, _name: &str) -> Runs {
        Runs::default()
    }

    /// How the calls of the schedule of this name went.
    fn schedule_runs(&self, _name: &str) -> ScheduleRuns {
        ScheduleRuns::default()
    }

    /// Makes a key hold a value of these elements, whatever it held, or removes it when there are none. Gives the number
    /// of elements of the value.
    fn store_key(&mut self, key: &[u8], shape: Shape, elements: &[Vec<Datum>]) -> Result<usize>;

    /// Deletes keys and tells how many there were.
    fn delete_keys(&mut self, keys: &[Vec<u8>]) -> Result<u64>;
}

/// What fires a trigger of rows. Values are those of the columns that `SELECT *` shows, in their order.
pub struct Firing<'a> {
    /// The trigger.
    pub trigger: &'a Arc<TriggerDef>,
    /// Its table.
    pub table: &'a TableDef,
    /// The row as it is, or was.
    pub old: Option<&'a [DatumRef<'a>]>,
    /// The row as it is to be, or is.
    pub new: Option<&'a [DatumRef<'a>]>,
}

/// What a trigger came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fired {
    /// It does not want the row to be written.
    pub refused: bool,
    /// The new row as the routine left it.
    pub new: Option<Vec<Datum>>,
}

/// A routine, and how it was used since it was loaded.
#[derive(Clone, Debug)]
pub struct RoutineUses {
    /// Its name.
    pub name: String,
    /// The library that has it, if it is in one.
    pub library: Option<String>,
    /// What it is written in.
    pub language: String,
    /// What it declares.
    pub flags: String,
    /// Its calls.
    pub uses: Uses,
}

/// How the calls of a routine went since the store was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// How many there were.
    pub calls: u64,
    /// How many failed.
    pub failures: u64,
    /// What the last one that failed said.
    pub last_error: Option<String>,
}

/// How the calls of a schedule went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleRuns {
    /// The calls.
    pub runs: Runs,
    /// When the next one is due, milliseconds since 1970.
    pub next_ms: Option<i64>,
    /// When the last one was.
    pub last_ms: Option<i64>,
}

/// Which rows of a value are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Portion<'a> {
    /// All.
    All,
    /// The one with this field or member.
    Named(&'a [u8]),
    /// The one at this position of a list.
    At(i64),
    /// Those with these ranks in a sorted set, perhaps from the last one to the first.
    Ranks(Range<usize>, bool),
}

/// The number after another in a sequence.
pub fn number_after(last: i64) -> Result<i64> {
    last.checked_add(1).ok_or_else(|| Error::new(Code::Limit, "a table has no number left for its sequence"))
}

/// The types of values that SQL can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// One row: value.
    String,
    /// A row for each field: field, value.
    Hash,
    /// A row for each element: position, value.
    List,
    /// A row for each member: member.
    Set,
    /// A row for each member in order: member, score, rank.
    ZSet,
}

/// Why a run ended early.
#[derive(Clone, Debug)]
pub enum Failure {
    /// For good.
    Error(Error),
    /// The engine must fetch something first; then the statement runs again.
    NotReady(Box<Wanted>),
    /// A read's slice of the store's time is over; it begins again elsewhere.
    SliceOver,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Error(error)
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotReady(wanted) => Failure::NotReady(wanted),
            ReadError::Failed(error) => Failure::Error(error),
        }
    }
}

/// What callbacks return.
pub type Outcome<T> = std::result::Result<T, Failure>;

/// Runs `body`, again when the engine must fetch something first.
#[inline]
pub fn until_ready<T>(host: &mut dyn Host, mut body: impl FnMut(&mut dyn Host) -> Outcome<T>) -> Result<T> {
    loop {
        match body(host) {
            Ok(value) => return Ok(value),
            Err(Failure::Error(error)) => return Err(error),
            Err(Failure::NotReady(wanted)) => host.fetch(&wanted)?,
            Err(Failure::SliceOver) => return Err(Error::new(Code::Bug, "run.rs: what cannot move was told to")),
        }
    }
}

/// What is known of a statement's text before SQLite sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traits {
    /// It has parameters.
    pub parameters: bool,
    /// It has a CAST, so a literal may not be what it is compared as.
    pub casts: bool,
    /// It may compare several columns at once, `(a, b) > (x, y)`, of which SQLite tells the first alone.
    pub row_values: bool,
    /// The plan is to be described in words.
    pub explains: bool,
    /// Rows and time of each step of the plan are to be counted.
    pub analyzes: bool,
    /// The columns that an INSERT names; None when it names none, so that it gives all.
    pub inserted: Option<Vec<String>>,
    /// INSERT .. DEFAULT VALUES.
    pub default_values: bool,
}

impl Traits {
    /// Of a statement of which nothing need be known.
    pub const NONE: Traits = Traits {
        parameters: false,
        casts: false,
        row_values: false,
        explains: false,
        analyzes: false,
        inserted: None,
        default_values: false,
    };

    /// Of expressions over rows in hand.
    pub const PART: Traits = Traits { parameters: true, casts: true, row_values: true, ..Traits::NONE };
}

/// What a row counts beside its bytes, for its place in pages, indexes and undo.
const ROW_BYTES: usize = 256;
/// Bytes that a statement may write between two looks at the memory limit: a thousand short rows.
const BYTES_BETWEEN_LOOKS: usize = 1024 * ROW_BYTES;

/// One run of a statement.
pub struct Run<'a> {
    /// Whom to ask.
    pub host: &'a mut dyn Host,
    /// What is known of the text.
    pub traits: &'a Traits,
    /// The first failure of a callback; SQLite only learns that there was one.
    pub failure: Option<Failure>,
    /// Rows changed.
    pub changed: u64,
    /// Bytes written since the last look at the memory limit.
    unlooked: usize,
    /// The statement writes nothing, so what it read is so to its end.
    pub only_reads: bool,
    /// When to stop, on the monotonic clock.
    pub deadline_ns: Option<u64>,
    /// See [`Host::slice_end_ns`].
    pub slice_end_ns: Option<u64>,
    /// Hash tables made for this run.
    pub transients: HashMap<(TableId, u16), Rc<Transient>>,
    /// How often each was asked for before it was made.
    pub asked: HashMap<(TableId, u16), u32>,
    /// The largest number that the rows made so far have in the AUTOINCREMENT column.
    pub last_number: i64,
    /// What to do with rows that cannot be inserted.
    pub upserting: Option<Upserting<'a>>,
    /// The rows written, when the statement returns them.
    pub returned: Option<Returned>,
    /// Rows to be written when their keys are free; see `write::finish`.
    pub deferred: Returned,
    /// The table of these rows.
    pub deferred_of: Option<TableId>,
    /// The columns that the UPDATE sets, by place, if triggers are to be told of these rows.
    pub deferred_set: Vec<usize>,
    /// What its writes left of foreign keys to be looked at.
    pub foreign_keys: Pending,
    /// Steps that were described.
    pub steps: usize,
    /// Rows read besides those that a cursor stands on.
    pub rows_read: u64,
    /// What each step took, when that is counted.
    pub taken: Vec<Taken>,
    /// Columns that an INSERT does not name; made at its first row.
    omitted: Option<Vec<bool>>,
    /// Buffers of the write path: rows to write, ids written, the row as it was.
    pub rows: Batch,
    /// See `rows`.
    pub ids: Vec<RowId>,
    /// See `rows`.
    pub old: Vec<u8>,
}

impl<'a> Run<'a> {
    /// A run that has not begun.
    pub fn new(host: &'a mut dyn Host, traits: &'a Traits) -> Run<'a> {
        Run {
            host,
            traits,
            failure: None,
            changed: 0,
            unlooked: BYTES_BETWEEN_LOOKS,
            only_reads: false,
            deadline_ns: None,
            slice_end_ns: None,
            transients: HashMap::new(),
            asked: HashMap::new(),
            last_number: 0,
            upserting: None,
            returned: None,
            deferred: Returned::default(),
            deferred_of: None,
            deferred_set: Vec::new(),
            foreign_keys: Pending::default(),
            steps: 0,
            rows_read: 0,
            taken: Vec::new(),
            omitted: None,
            rows: Batch::new(),
            ids: Vec::new(),
            old: Vec::new(),
        }
    }

    /// A row of so many bytes is about to be written: looks now and then, first of all before the first row, whether
    /// there is memory for more.
    #[inline]
    pub fn admit(&mut self, bytes: usize) -> Result<()> {
        self.unlooked += bytes + ROW_BYTES;
        if self.unlooked < BYTES_BETWEEN_LOOKS {
            return Ok(());
        }
        self.unlooked = 0;
        self.host.make_room()
    }

    /// For each column of the table that the statement inserts into: is it left out?
    pub fn omitted(&mut self, def: &TableDef) -> &[bool] {
        let traits = self.traits;
        self.omitted.get_or_insert_with(|| match &traits.inserted {
            _ if traits.default_values => vec![true; def.columns.len()],
            None => Vec::new(),
            Some(names) => {
                let is_named = |column: &str| names.iter().any(|name| name.eq_ignore_ascii_case(column));
                def.columns.iter().map(|c| !is_named(&c.name)).collect()
            }
        })
    }

    /// What the step of this number took so far.
    pub fn timed(&mut self, step: usize) -> &mut Taken {
        if self.taken.len() <= step {
            self.taken.resize(step + 1, Taken::default());
        }
        &mut self.taken[step]
    }

    /// Is it time to stop? Asked now and then by SQLite.
    fn must_stop(&mut self) -> bool {
        let now_ns = self.host.monotonic_ns();
        if self.slice_end_ns.is_some_and(|end| now_ns > end) {
            self.failure.get_or_insert(Failure::SliceOver);
            return true;
        }
        let late = self.deadline_ns.is_some_and(|deadline| now_ns > deadline);
        if late || self.host.is_cancelled() {
            let why = if late { "the statement took too long" } else { "the statement was cancelled" };
            self.failure.get_or_insert(Error::new(Code::Cancelled, why).into());
            return true;
        }
        false
    }
}

/// What one step of a plan took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Taken {
    /// How often the access path was begun.
    pub loops: u64,
    /// Rows that were read.
    pub visited: u64,
    /// Rows that were handed on.
    pub yielded: u64,
    /// Nanoseconds.
    pub ns: u64,
}

/// The place through which callbacks find the run that they belong to.
#[derive(Default)]
pub struct Current {
    run: AtomicPtr<()>,
}

impl Current {
    /// Makes `run` current while `body` runs; runs nest.
    #[inline]
    pub fn enter<T>(&self, run: &mut Run<'_>, body: impl FnOnce() -> T) -> T {
        struct Restore<'a>(&'a Current, *mut ());
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.0.run.store(self.1, Ordering::Relaxed);
            }
        }
        let outer = self.run.swap((run as *mut Run<'_>).cast(), Ordering::Relaxed);
        let _restore = Restore(self, outer);
        body()
    }

    /// Lends the current run to a callback of SQLite, which is called only while the statement of a run is prepared,
    /// stepped or reset. An error when there is none, or another callback further up has it.
    #[inline]
    pub fn with<T>(&self, body: impl FnOnce(&mut Run<'_>) -> Outcome<T>) -> Outcome<T> {
        self.try_with(body).unwrap_or_else(|| Err(outside()))
    }

    /// Lends the current run, which nobody else gets meanwhile; None when there is none to lend.
    #[inline]
    pub fn try_with<T>(&self, body: impl FnOnce(&mut Run<'_>) -> T) -> Option<T> {
        /// Puts the run back, whatever happens.
        struct Back<'a>(&'a Current, *mut ());
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.run.store(self.1, Ordering::Relaxed);
            }
        }
        let run = self.run.load(Ordering::Relaxed);
        if run.is_null() {
            return None;
        }
        self.run.store(std::ptr::null_mut(), Ordering::Relaxed);
        let _back = Back(self, run);
        // SAFETY: `enter` put the pointer there and takes it away before its borrow of the run ends, and the one who
        // entered does not touch the run inside its body. A connection belongs to one thread at a time, and as the
        // pointer is out of its place while the run is lent, no second reference can be made meanwhile.
        Some(body(unsafe { &mut *run.cast::<Run<'_>>() }))
    }

    /// Keeps the first failure of the current run.
    #[cold]
    pub fn fail(&self, failure: Failure) {
        // Outside of any run there is nobody to tell.
        let _ = self.with(|run| {
            run.failure.get_or_insert(failure);
            Ok(())
        });
    }
}

/// The failure of a callback that finds no run to lend.
#[cold]
pub fn outside() -> Failure {
    Error::new(Code::Bug, "run.rs: a callback outside of any run").into()
}

/// SQLite's progress callback: not zero interrupts the statement.
///
/// # Safety
/// `current` points to a [`Current`] inside `enter`.
pub unsafe extern "C" fn check_progress(current: *mut std::ffi::c_void) -> c_int {
    // SAFETY: the caller's promise.
    let current = unsafe { &*current.cast::<Current>() };
    // Without a run to ask (a callback has it and evaluates a default) the clock is looked at later.
    let stop = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| current.try_with(|run| run.must_stop())));
    c_int::from(!matches!(stop, Ok(None | Some(false))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::tests::TestStore;

    #[test]
    fn a_run_is_lent_to_one_callback_at_a_time() {
        let (current, mut store) = (Current::default(), TestStore::new());
        let mut run = Run::new(&mut store, &Traits::NONE);
        assert!(current.with(|_| Ok(())).is_err(), "nothing runs");
        current.enter(&mut run, || {
            let inside = current.with(|_| Ok(current.with(|_| Ok(())).is_err()));
            assert!(inside.is_ok_and(|refused| refused));
            let panic = std::panic::AssertUnwindSafe(|| current.with(|_| -> Outcome<()> { panic!("a callback's") }));
            assert!(std::panic::catch_unwind(panic).is_err());
            assert!(current.with(|_| Ok(())).is_ok(), "it came back");
        });
        assert!(current.with(|_| Ok(())).is_err(), "nothing runs any longer");
    }
}
