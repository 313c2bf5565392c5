//! The storage-engine contract: what SQL, transactions and recovery may ask of whatever keeps the rows of a table.
//!
//! # The words
//! A **row** crosses the contract as the bytes of `table::row`: made once from coerced values, read column by column in
//! place ([`Row::get`]). An **index key** crosses it as the bytes of `table::key`. A **row id** ([`RowId`]) is opaque to
//! everyone above: it names a row from its insertion to its deletion and does not change when the row does.
//! A [`TableId`] and an [`IndexId`] are given by the catalog and are never reused.
//!
//! # Reading
//! Every reading call takes a batch and may fail, or answer [`ReadError::NotReady`] with what it wants. The caller then
//! undoes its statement, lets the engine fetch that off the baton ([`Engine::fetch`]), and runs the statement again.
//! Reads go to a [`Source`]: the live engine or a [`View`]; so the same code serves the data path and reader threads.
//!
//! Point reads and IN lists: [`Source::get_many`], or a [`Cursor`] over [`Access::Keys`]. Ranges and scans: a cursor over
//! [`Access::Range`], [`Access::All`] or [`Access::From`]:
//! ```text
//! if source.seek(&mut cursor, table, &access)? {          // on the first row
//!     loop {
//!         let row = source.row(&cursor);                  // borrowed, nothing copied
//!         ... row.get(position) ... cursor.row_id() ...
//!         if !source.next(&mut cursor)? { break }
//!     }
//! }
//! cursor.close();
//! ```
//! A cursor shows the table as it was at `seek`, whatever is written meanwhile, and its current row's bytes stay in place
//! until it moves; see [`Cursor`] for what that costs (nothing, if nobody writes).
//!
//! # Writing
//! Writing calls take a batch of encoded rows and report each change to [`Changes`] with the bytes borrowed. One row is
//! all or nothing: heap and indexes change together or, on any error, not at all (invariant 3). A batch stops at its
//! first error, which says how far it came: the rows before it stand and have been reported. The caller runs in an undo
//! scope anyway and takes them back with [`Engine::apply`] (invariant 6), or, for OR IGNORE, goes on after the row.
//!
//! [`Engine::apply`] performs a [`RowOp`] under the row id that it names and returns the inverse; recovery and rollback
//! use it. Inverses are to be applied in reverse order. A slot freed by a delete is not given to another row before
//! [`Engine::scope_end`], so that row ids collected by a statement cannot come to mean other rows.
//!
//! # Saving and loading
//! A checkpoint is made of rows with their ids, read from a view ([`Engine::view_of_rows`]) off the baton; so any engine
//! that has views can be saved. Loading begins with an empty table without indexes: [`Engine::load`] puts the rows under
//! their ids, then indexes are built as for CREATE INDEX. The engine may place rows as it likes, as long as it can do the
//! operations of the log that follow.
//!
//! # What the engine does not do
//! It does not evaluate expressions: DEFAULT, CHECK, generated columns and foreign keys are the work of `sql`, NOT NULL
//! and types that of `table::types`, before a row is encoded. It does enforce UNIQUE, because only it can.

mod change;
#[cfg(test)]
mod contract_tests;
mod cursor;
mod memory;
mod overlay;
#[cfg(any(test, feature = "test-engine"))]
mod test_engine;

pub use change::{Changes, Collected, RowOp, Untold};
pub use cursor::{Access, Cursor, Edge, Gate, RowBytes};
pub use memory::Memory;
pub use overlay::{Bounds, Overlay, Shadow, Written};
#[cfg(any(test, feature = "test-engine"))]
pub use test_engine::TestEngine;

use crate::error::{Code, Error, Result};
use crate::reply::Blob;
use crate::table::batch::Batch;
use crate::table::catalog::{IndexDef, IndexId, TableDef, TableId};
use crate::table::row::{Row, RowLayout};
use crate::table::row_id::RowId;
use std::any::Any;
use std::sync::Arc;

bitflags::bitflags! {
    /// What an engine offers beyond the contract's minimum.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Capabilities: u32 {
        /// Views of one instant, at constant cost.
        const VIEWS = 1;
        /// Ordered indexes: ranges, order, counting between keys.
        const ORDER = 2;
        /// Transactions of its own.
        const TRANSACTIONS = 4;
        /// It logs its changes itself, so the store's log must not.
        const LOGS = 8;
        /// Reads may answer `NotReady`.
        const WAITS = 16;
    }
}

/// What a read needs before it can answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The table.
    pub table: TableId,
    /// The wanted things, in the engine's own words.
    pub what: Vec<Box<[u8]>>,
}

/// Why a read did not answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadError {
    /// Not now: fetch this off the baton, then run the statement again.
    NotReady(Box<Wanted>),
    /// Not at all.
    Failed(Error),
}

/// The result of a read.
pub type Read<T> = std::result::Result<T, ReadError>;

/// Why a write stopped.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteFailure {
    /// A row with the same key exists.
    Duplicate {
        /// The unique index.
        index: IndexId,
        /// The row that has the key.
        existing: RowId,
    },
    /// There is no row with that id.
    NoSuchRow(RowId),
    /// As for reads.
    NotReady(Box<Wanted>),
    /// Anything else.
    Failed(Error),
}

/// Where in its batch a write stopped, and why. The rows before are written.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteError {
    /// The place in the batch of the row that failed; nothing of it is left.
    pub at: usize,
    /// Why.
    pub failure: WriteFailure,
}

/// The result of a write.
pub type Write<T> = std::result::Result<T, WriteError>;

/// What rows are read from: the live tables, or a view of them.
pub trait Source {
    /// The definition of a table, as of the source.
    fn definition(&self, table: TableId) -> Result<&Arc<TableDef>>;

    /// How the table's rows are encoded.
    fn layout(&self, table: TableId) -> Result<&Arc<RowLayout>>;

    /// How many rows the table has.
    fn row_count(&self, table: TableId) -> Read<u64>;

    /// Visits, key by key, the rows that have it in `index`: `visit(place of the key in keys, row id, row)`. Keys are as
    /// in [`Access::Keys`].
    fn get_many(
        &self,
        table: TableId,
        index: IndexId,
        keys: &Batch,
        visit: &mut dyn FnMut(usize, RowId, Row<'_>),
    ) -> Read<()>;

    /// Starts loading from memory what looking up these keys will touch. Answers nothing and changes nothing.
    fn prefetch(&self, _table: TableId, _index: IndexId, _keys: &Batch) {}

    /// Visits the rows with these ids that exist: `visit(place in ids, row)`.
    fn rows(&self, table: TableId, ids: &[RowId], visit: &mut dyn FnMut(usize, Row<'_>)) -> Read<()>;

    /// Opens `cursor` on an access path. True: it stands on the first row. False: there is none, and it is closed.
    fn seek(&self, cursor: &mut Cursor, table: TableId, access: &Access<'_>) -> Read<bool>;

    /// Moves to the next row. False: there is none, and the cursor is closed.
    fn next(&self, cursor: &mut Cursor) -> Read<bool>;

    /// Moves over so many rows: from the current one to that far behind it. False as for `next`.
    fn skip(&self, cursor: &mut Cursor, rows: u64) -> Read<bool> {
        for _ in 0..rows {
            if !self.next(cursor)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The current row of a cursor that `seek` or `next` just put on one.
    fn row<'a>(&'a self, cursor: &'a Cursor) -> Row<'a>;

    /// How many rows lie between two edges of an ordered index, without walking them.
    fn count(&self, table: TableId, index: IndexId, from: Edge<'_>, to: Edge<'_>) -> Read<u64>;

    /// Sizes and distinct keys, for the planner; cheap enough to ask at every preparation of a statement.
    fn statistics(&self, table: TableId) -> Read<Arc<Statistics>>;
}

/// Tables at one instant. Cheap to take, and read in any thread while the live tables change.
pub trait View: Source + Send + Sync {
    /// The caller is done with the rows of a table before this one and asks for them no more: the view may let go of what
    /// only it still holds.
    fn forget_before(&mut self, _table: TableId, _id: RowId) {}
}

/// Keeps the rows of tables.
pub trait Engine: Source + Send + Any {
    /// The name in `ENGINE = name`, in the catalog and in error messages.
    fn name(&self) -> &'static str;

    /// What it offers.
    fn capabilities(&self) -> Capabilities;

    /// Starts to keep a new, empty table.
    fn create_table(&mut self, def: &Arc<TableDef>) -> Result<()>;

    /// Stops keeping a table. What it held may be put back by `restore`, or dropped in any thread.
    fn drop_table(&mut self, table: TableId) -> Result<Kept>;

    /// Empties a table at once. The result is as for `drop_table`.
    fn truncate_table(&mut self, table: TableId) -> Result<Kept>;

    /// Undoes `drop_table`, `truncate_table` or `drop_index`; the definition is `def` again.
    fn restore(&mut self, kept: Kept, def: &Arc<TableDef>) -> Result<()>;

    /// Takes a table's changed definition, which has the same indexes.
    fn alter_table(&mut self, def: &Arc<TableDef>) -> Result<()>;

    /// Begins to build an index from the rows there are now; the build runs in any thread while the table changes.
    fn begin_index(&mut self, table: TableId, index: &IndexDef) -> Result<Box<dyn IndexBuild>>;

    /// Ends a build that has run: brings the index up to date and makes it part of the table, whose definition is now
    /// `def`. On an error (a duplicate in a unique index) the table is as before.
    fn finish_index(&mut self, build: Box<dyn IndexBuild>, def: &Arc<TableDef>) -> Result<()>;

    /// Gives up a build.
    fn abandon_index(&mut self, build: Box<dyn IndexBuild>);

    /// Drops an index; the table's definition is now `def`.
    fn drop_index(&mut self, index: IndexId, def: &Arc<TableDef>) -> Result<Kept>;

    /// Inserts rows and appends their ids.
    fn insert(&mut self, table: TableId, rows: &Batch, ids: &mut Vec<RowId>, changes: &mut dyn Changes) -> Write<()>;

    /// Replaces the rows `ids`, in turn, by `rows`. Uniqueness is judged row by row.
    fn update(&mut self, table: TableId, ids: &[RowId], rows: &Batch, changes: &mut dyn Changes) -> Write<()>;

    /// Deletes rows.
    fn delete(&mut self, table: TableId, ids: &[RowId], changes: &mut dyn Changes) -> Write<()>;

    /// The row that a table with a bound is to lose when it has too many. None: the engine knows no order.
    fn next_to_go(&mut self, _table: TableId) -> Result<Option<RowId>> {
        Ok(None)
    }

    /// Performs one operation under the row id it names, and returns its inverse. Redo and undo.
    fn apply(&mut self, table: TableId, op: &RowOp) -> Result<RowOp>;

    /// The outermost undo scope has ended: slots of deleted rows may be used again.
    fn scope_end(&mut self);

    /// The largest value that the table's AUTOINCREMENT column ever had; 0 at first. Deleting rows does not lower it.
    fn sequence(&self, table: TableId) -> Result<i64>;

    /// Raises the sequence to at least `value` (numbers handed out before their rows are inserted; recovery).
    fn raise_sequence(&mut self, table: TableId, value: i64) -> Result<()>;

    /// Sets the sequence back to what it was before rows that were taken back.
    fn restore_sequence(&mut self, table: TableId, value: i64) -> Result<()>;

    /// A view of these tables as they are now.
    fn view(&mut self, tables: &[TableId]) -> Result<Arc<dyn View>>;

    /// A view that is read by row id only ([`Access::All`], [`Access::From`]): for a checkpoint, which needs no index.
    fn view_of_rows(&mut self, tables: &[TableId]) -> Result<Arc<dyn View>> {
        self.view(tables)
    }

    /// Puts rows under their ids, in ascending order, into a table that has no indexes yet and no row with any of these
    /// ids: loading a checkpoint. Rows that come from a damaged file are an error; some may be in the table then.
    fn load(&mut self, table: TableId, rows: &[(RowId, &[u8])]) -> Result<()> {
        rows.iter().try_for_each(|(id, row)| {
            self.apply(table, &RowOp::Insert { id: *id, row: Blob::from_slice(row) }).map(|_| ())
        })
    }

    /// Bytes copied so far because views held them; its growth since a view was taken bounds what the view holds.
    fn copied_bytes(&self) -> u64;

    /// Bytes of a table, by part.
    fn memory(&self, table: TableId) -> Result<TableMemory>;

    /// A piece of work that fetches what a read wanted; it runs off the baton. Only engines with `WAITS` have any.
    fn fetch(&self, wanted: &Wanted) -> Box<dyn FnOnce() -> Result<Fetched> + Send>;

    /// Takes in what `fetch` brought.
    fn admit(&mut self, fetched: Fetched);
}

/// An index being built. It sees the table as it was when the build began.
pub trait IndexBuild: Send {
    /// The index.
    fn index(&self) -> &IndexDef;
    /// Works on about `rows` more rows; true when the build is ready to be finished. In any thread.
    fn run(&mut self, rows: usize) -> Result<bool>;
    /// For `finish_index`, which knows the engine's own type.
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
}

/// What a dropped table or index held.
pub struct Kept(pub Box<dyn Any + Send>);

/// What a fetch brought, in the engine's own form.
pub struct Fetched(pub Box<dyn Any + Send>);

/// What the planner may know of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Rows.
    pub rows: u64,
    /// One for each index, in the order of the definition.
    pub indexes: Vec<IndexStatistics>,
}

/// What the planner may know of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexStatistics {
    /// The index.
    pub id: IndexId,
    /// Entries; fewer than the table's rows only in a partial index.
    pub entries: u64,
    /// Distinct values (about) of the first column, the first two, ...; a hash index knows the whole key only, so its
    /// list holds that number alone.
    pub distinct: Vec<u64>,
}

/// Bytes of a table, by part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableMemory {
    /// Pages, long rows, directories.
    pub rows: usize,
    /// Each index.
    pub indexes: Vec<(IndexId, usize)>,
}

impl TableMemory {
    /// All of it.
    pub fn total(&self) -> usize {
        self.rows + self.indexes.iter().map(|(_, bytes)| bytes).sum::<usize>()
    }
}

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        ReadError::Failed(error)
    }
}

impl From<Error> for WriteError {
    fn from(error: Error) -> Self {
        WriteError { at: 0, failure: WriteFailure::Failed(error) }
    }
}

/// A view of no tables.
pub fn no_tables() -> Arc<dyn View> {
    memory::no_tables()
}

/// The error for a row whose key in a unique index another row has.
#[cold]
pub fn duplicate_error(table: &TableDef, index: &IndexDef) -> Error {
    let column = |position| table.column_at(position).map_or("?", |c| c.name.as_str());
    let columns: Vec<String> = index.columns.iter().map(|c| format!("{}.{}", table.name, column(c.position))).collect();
    Error::new(Code::Constraint, format!("UNIQUE constraint failed: {}", columns.join(", ")))
}

/// The error for a table id that an engine or a view does not know.
#[cold]
pub(crate) fn no_such_table(id: TableId) -> Error {
    Error::new(Code::Engine, format!("no table number {} here", id.0))
}
