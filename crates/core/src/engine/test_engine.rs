//! An engine for tests: the memory engine, but its calls answer `NotReady` or fail at random.
//!
//! What passes on it as well as on memory is written against the contract and not against memory's habits.

use super::{
    Access, Capabilities, Changes, Cursor, Edge, Engine, Fetched, IndexBuild, Kept, Memory, Read, ReadError, RowOp,
    Source, Statistics, TableMemory, View, Wanted, Write, WriteError, WriteFailure,
};
use crate::env::Xoshiro;
use crate::error::{Code, Error, Result};
use crate::table::batch::Batch;
use crate::table::catalog::{IndexDef, IndexId, TableDef, TableId};
use crate::table::row::{Row, RowLayout};
use crate::table::row_id::RowId;
use std::sync::{Arc, Mutex, PoisonError};

/// The memory engine with mishaps.
pub struct TestEngine {
    inner: Memory,
    mishaps: Arc<Mishaps>,
}

/// Decides by a seed which calls go wrong.
struct Mishaps {
    random: Mutex<Xoshiro>,
    not_ready_in_thousand: u64,
    errors_in_thousand: u64,
}

impl Mishaps {
    fn below(&self, bound: u64) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).below(bound)
    }

    fn before_read(&self, table: TableId) -> Read<()> {
        let dice = self.below(1000);
        if dice < self.not_ready_in_thousand {
            return Err(ReadError::NotReady(wanted(table)));
        }
        if dice < self.not_ready_in_thousand + self.errors_in_thousand {
            return Err(ReadError::Failed(TestEngine::injected_error()));
        }
        Ok(())
    }

    /// Moving a cursor goes wrong a hundred times less often: a walk is done again from its start, and must end.
    fn before_next(&self, table: TableId) -> Read<()> {
        if self.below(100) == 0 { self.before_read(table) } else { Ok(()) }
    }

    /// The place in a batch at which a write stops, and why.
    fn stop_of_write(&self, table: TableId, rows: usize) -> Option<WriteError> {
        let failure = match self.before_read(table) {
            Ok(()) => return None,
            Err(ReadError::NotReady(wanted)) => WriteFailure::NotReady(wanted),
            Err(ReadError::Failed(error)) => WriteFailure::Failed(error),
        };
        (rows > 0).then(|| WriteError { at: self.below(rows as u64) as usize, failure })
    }
}

fn wanted(table: TableId) -> Box<Wanted> {
    Box::new(Wanted { table, what: vec![Box::from(*b"test")] })
}

impl TestEngine {
    /// An engine of which, in a thousand calls, so many answer `NotReady` and so many fail.
    pub fn new(seed: u64, not_ready_in_thousand: u64, errors_in_thousand: u64) -> TestEngine {
        let random = Mutex::new(Xoshiro::from_seed(seed));
        let mishaps = Arc::new(Mishaps { random, not_ready_in_thousand, errors_in_thousand });
        TestEngine { inner: Memory::new(), mishaps }
    }

    /// The error of calls that fail at random.
    pub fn injected_error() -> Error {
        Error::new(Code::Engine, "the test engine failed at random")
    }

    /// The first `rows` byte strings of a batch.
    fn front(batch: &Batch, rows: usize) -> Batch {
        let mut front = Batch::new();
        batch.iter().take(rows).for_each(|bytes| front.push(bytes));
        front
    }
}

impl Source for TestEngine {
    fn definition(&self, table: TableId) -> Result<&Arc<TableDef>> {
        self.inner.definition(table)
    }

    fn layout(&self, table: TableId) -> Result<&Arc<RowLayout>> {
        self.inner.layout(table)
    }

    fn row_count(&self, table: TableId) -> Read<u64> {
        self.mishaps.before_read(table)?;
        self.inner.row_count(table)
    }

    fn get_many(
        &self,
        table: TableId,
        index: IndexId,
        keys: &Batch,
        visit: &mut dyn FnMut(usize, RowId, Row<'_>),
    ) -> Read<()> {
        self.mishaps.before_read(table)?;
        self.inner.get_many(table, index, keys, visit)
    }

    fn rows(&self, table: TableId, ids: &[RowId], visit: &mut dyn FnMut(usize, Row<'_>)) -> Read<()> {
        self.mishaps.before_read(table)?;
        self.inner.rows(table, ids, visit)
    }

    fn seek(&self, cursor: &mut Cursor, table: TableId, access: &Access<'_>) -> Read<bool> {
        self.mishaps.before_read(table)?;
        let found = self.inner.seek(cursor, table, access);
        cursor.rows.clear();
        found
    }

    fn next(&self, cursor: &mut Cursor) -> Read<bool> {
        self.mishaps.before_next(cursor.table())?;
        let found = self.inner.next(cursor);
        cursor.rows.clear();
        found
    }

    fn skip(&self, cursor: &mut Cursor, rows: u64) -> Read<bool> {
        self.mishaps.before_next(cursor.table())?;
        let found = self.inner.skip(cursor, rows);
        cursor.rows.clear();
        found
    }

    fn row<'a>(&'a self, cursor: &'a Cursor) -> Row<'a> {
        self.inner.row(cursor)
    }

    fn count(&self, table: TableId, index: IndexId, from: Edge<'_>, to: Edge<'_>) -> Read<u64> {
        self.mishaps.before_read(table)?;
        self.inner.count(table, index, from, to)
    }

    fn statistics(&self, table: TableId) -> Read<Arc<Statistics>> {
        self.mishaps.before_read(table)?;
        self.inner.statistics(table)
    }
}

impl Engine for TestEngine {
    fn name(&self) -> &'static str {
        "test"
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities() | Capabilities::WAITS
    }

    fn create_table(&mut self, def: &Arc<TableDef>) -> Result<()> {
        self.inner.create_table(def)
    }

    fn drop_table(&mut self, table: TableId) -> Result<Kept> {
        self.inner.drop_table(table)
    }

    fn truncate_table(&mut self, table: TableId) -> Result<Kept> {
        self.inner.truncate_table(table)
    }

    fn restore(&mut self, kept: Kept, def: &Arc<TableDef>) -> Result<()> {
        self.inner.restore(kept, def)
    }

    fn alter_table(&mut self, def: &Arc<TableDef>) -> Result<()> {
        self.inner.alter_table(def)
    }

    fn begin_index(&mut self, table: TableId, index: &IndexDef) -> Result<Box<dyn IndexBuild>> {
        self.inner.begin_index(table, index)
    }

    fn finish_index(&mut self, build: Box<dyn IndexBuild>, def: &Arc<TableDef>) -> Result<()> {
        self.inner.finish_index(build, def)
    }

    fn abandon_index(&mut self, build: Box<dyn IndexBuild>) {
        self.inner.abandon_index(build);
    }

    fn drop_index(&mut self, index: IndexId, def: &Arc<TableDef>) -> Result<Kept> {
        self.inner.drop_index(index, def)
    }

    fn insert(&mut self, table: TableId, rows: &Batch, ids: &mut Vec<RowId>, changes: &mut dyn Changes) -> Write<()> {
        let Some(stop) = self.mishaps.stop_of_write(table, rows.len()) else {
            return self.inner.insert(table, rows, ids, changes);
        };
        self.inner.insert(table, &Self::front(rows, stop.at), ids, changes)?;
        Err(stop)
    }

    fn update(&mut self, table: TableId, ids: &[RowId], rows: &Batch, changes: &mut dyn Changes) -> Write<()> {
        let Some(stop) = self.mishaps.stop_of_write(table, rows.len()) else {
            return self.inner.update(table, ids, rows, changes);
        };
        self.inner.update(table, &ids[..stop.at], &Self::front(rows, stop.at), changes)?;
        Err(stop)
    }

    fn delete(&mut self, table: TableId, ids: &[RowId], changes: &mut dyn Changes) -> Write<()> {
        let Some(stop) = self.mishaps.stop_of_write(table, ids.len()) else {
            return self.inner.delete(table, ids, changes);
        };
        self.inner.delete(table, &ids[..stop.at], changes)?;
        Err(stop)
    }

    fn next_to_go(&mut self, table: TableId) -> Result<Option<RowId>> {
        self.inner.next_to_go(table)
    }

    fn apply(&mut self, table: TableId, op: &RowOp) -> Result<RowOp> {
        // Undo must not fail, so neither does it here.
        self.inner.apply(table, op)
    }

    fn scope_end(&mut self) {
        self.inner.scope_end();
    }

    fn sequence(&self, table: TableId) -> Result<i64> {
        self.inner.sequence(table)
    }

    fn raise_sequence(&mut self, table: TableId, value: i64) -> Result<()> {
        self.inner.raise_sequence(table, value)
    }

    fn restore_sequence(&mut self, table: TableId, value: i64) -> Result<()> {
        self.inner.restore_sequence(table, value)
    }

    fn view(&mut self, tables: &[TableId]) -> Result<Arc<dyn View>> {
        Ok(Arc::new(TestView { inner: self.inner.view(tables)?, mishaps: self.mishaps.clone() }))
    }

    fn copied_bytes(&self) -> u64 {
        self.inner.copied_bytes()
    }

    fn memory(&self, table: TableId) -> Result<TableMemory> {
        self.inner.memory(table)
    }

    fn fetch(&self, wanted: &Wanted) -> Box<dyn FnOnce() -> Result<Fetched> + Send> {
        let wanted = wanted.clone();
        Box::new(move || Ok(Fetched(Box::new(wanted))))
    }

    fn admit(&mut self, fetched: Fetched) {
        assert!(fetched.0.is::<Wanted>(), "what was fetched is what was wanted");
    }
}

/// A view with mishaps.
struct TestView {
    inner: Arc<dyn View>,
    mishaps: Arc<Mishaps>,
}

impl Source for TestView {
    fn definition(&self, table: TableId) -> Result<&Arc<TableDef>> {
        self.inner.definition(table)
    }

    fn layout(&self, table: TableId) -> Result<&Arc<RowLayout>> {
        self.inner.layout(table)
    }

    fn row_count(&self, table: TableId) -> Read<u64> {
        self.mishaps.before_read(table)?;
        self.inner.row_count(table)
    }

    fn get_many(
        &self,
        table: TableId,
        index: IndexId,
        keys: &Batch,
        visit: &mut dyn FnMut(usize, RowId, Row<'_>),
    ) -> Read<()> {
        self.mishaps.before_read(table)?;
        self.inner.get_many(table, index, keys, visit)
    }

    fn rows(&self, table: TableId, ids: &[RowId], visit: &mut dyn FnMut(usize, Row<'_>)) -> Read<()> {
        self.mishaps.before_read(table)?;
        self.inner.rows(table, ids, visit)
    }

    fn seek(&self, cursor: &mut Cursor, table: TableId, access: &Access<'_>) -> Read<bool> {
        self.mishaps.before_read(table)?;
        let found = self.inner.seek(cursor, table, access);
        cursor.rows.clear();
        found
    }

    fn next(&self, cursor: &mut Cursor) -> Read<bool> {
        self.mishaps.before_next(cursor.table())?;
        let found = self.inner.next(cursor);
        cursor.rows.clear();
        found
    }

    fn skip(&self, cursor: &mut Cursor, rows: u64) -> Read<bool> {
        self.mishaps.before_next(cursor.table())?;
        let found = self.inner.skip(cursor, rows);
        cursor.rows.clear();
        found
    }

    fn row<'a>(&'a self, cursor: &'a Cursor) -> Row<'a> {
        self.inner.row(cursor)
    }

    fn count(&self, table: TableId, index: IndexId, from: Edge<'_>, to: Edge<'_>) -> Read<u64> {
        self.mishaps.before_read(table)?;
        self.inner.count(table, index, from, to)
    }

    fn statistics(&self, table: TableId) -> Read<Arc<Statistics>> {
        self.mishaps.before_read(table)?;
        self.inner.statistics(table)
    }
}

impl View for TestView {}
