//! An engine over a view of another one: the view stays as it is, and what is written goes to private tables.
//!
//! It is what a transaction reads and writes. For each table written, a private memory table holds the new rows and the
//! new images of the view's rows, which they *shadow*. Reading merges both, in the order that the access path promises.
//! A row keeps its id: an image of a view's row has that row's id, and a new row has a *provisional* id, far above all
//! ids that engines give. Ids of deleted private rows are not given again.

mod merge;
mod read;
mod shadow;
mod write;

pub use shadow::{Shadow, Written};

use super::{
    Access, Capabilities, Changes, Cursor, Engine, Fetched, IndexBuild, Kept, Memory, Read, RowOp, Source, TableMemory,
    View, Wanted, Write, WriteError,
};
use crate::error::{Code, Error, Result};
use crate::table::batch::Batch;
use crate::table::catalog::{IndexDef, IndexId, TableDef, TableId};
use crate::table::row_id::RowId;
use std::sync::Arc;

/// Ids of new rows begin here; they are private row ids above it.
const PROVISIONAL: u64 = 1 << 48;

/// The most that an overlay may hold.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Rows written, deletions included.
    pub rows: usize,
    /// Bytes of the rows with what it takes to find them.
    pub bytes: usize,
}

/// A view and what was written over it.
pub struct Overlay {
    base: Arc<dyn View>,
    /// The rows written.
    own: Memory,
    /// Tables written, with what they shadow.
    written: Vec<(TableId, Written)>,
    /// Tables whose definition is not the view's any more.
    stale: Vec<TableId>,
    bounds: Bounds,
    rows: usize,
    bytes: usize,
}

impl Overlay {
    /// Nothing written over `base`.
    pub fn new(base: Arc<dyn View>, bounds: Bounds) -> Overlay {
        Overlay { base, own: Memory::new(), written: Vec::new(), stale: Vec::new(), bounds, rows: 0, bytes: 0 }
    }

    /// Compares with the definitions that hold now: tables that were altered or made since cannot be used here.
    pub fn note_definitions<'a>(&mut self, now: impl Iterator<Item = &'a Arc<TableDef>>) {
        let same = |def: &Arc<TableDef>| self.base.definition(def.id).is_ok_and(|known| Arc::ptr_eq(known, def));
        self.stale = now.filter(|def| !same(def)).map(|def| def.id).collect();
    }

    /// The view underneath.
    pub fn base(&self) -> &Arc<dyn View> {
        &self.base
    }

    /// The rows written, by private id.
    pub fn own(&self) -> &dyn Source {
        &self.own
    }

    /// The private rows of a table that was written.
    pub fn own_rows(&self, table: TableId) -> Read<Vec<RowId>> {
        let (mut cursor, mut ids) = (Cursor::new(), Vec::new());
        let mut more = self.own.seek(&mut cursor, table, &Access::All)?;
        while more {
            ids.push(cursor.row_id());
            more = self.own.next(&mut cursor)?;
        }
        Ok(ids)
    }

    /// The tables written, in the order of their first change.
    pub fn written(&self) -> impl Iterator<Item = (TableId, &Written)> {
        self.written.iter().map(|(table, written)| (*table, written))
    }

    /// True when nothing is written.
    pub fn is_clean(&self) -> bool {
        self.rows == 0
    }

    /// Are there tables that cannot be used here any more?
    pub fn has_stale(&self) -> bool {
        !self.stale.is_empty()
    }

    /// Rows written, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.rows, self.bytes)
    }

    #[inline]
    fn written_in(&self, table: TableId) -> Option<&Written> {
        self.written.iter().find(|(id, _)| *id == table).map(|(_, written)| written)
    }

    #[inline]
    fn check(&self, table: TableId) -> Result<()> {
        if self.stale.contains(&table) { Err(self.changed_definition(table)) } else { Ok(()) }
    }

    /// The error for a table that was made or altered since the view was taken.
    #[cold]
    fn changed_definition(&self, table: TableId) -> Error {
        let what = match self.base.definition(table) {
            Ok(def) => format!("table {}: its definition has changed", def.name),
            Err(_) => "a table was made".to_string(),
        };
        Error::new(Code::Conflict, format!("{what} since the transaction began; run the transaction again"))
    }
}

#[cold]
fn no_definitions() -> Error {
    Error::new(Code::Sql, "definitions cannot change inside a transaction; COMMIT or ROLLBACK first")
}

impl Engine for Overlay {
    fn name(&self) -> &'static str {
        "overlay"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ORDER
    }

    fn create_table(&mut self, _: &Arc<TableDef>) -> Result<()> {
        Err(no_definitions())
    }

    fn drop_table(&mut self, _: TableId) -> Result<Kept> {
        Err(no_definitions())
    }

    fn truncate_table(&mut self, _: TableId) -> Result<Kept> {
        Err(no_definitions())
    }

    fn restore(&mut self, _: Kept, _: &Arc<TableDef>) -> Result<()> {
        Err(no_definitions())
    }

    fn alter_table(&mut self, _: &Arc<TableDef>) -> Result<()> {
        Err(no_definitions())
    }

    fn begin_index(&mut self, _: TableId, _: &IndexDef) -> Result<Box<dyn IndexBuild>> {
        Err(no_definitions())
    }

    fn finish_index(&mut self, _: Box<dyn IndexBuild>, _: &Arc<TableDef>) -> Result<()> {
        Err(no_definitions())
    }

    fn abandon_index(&mut self, _: Box<dyn IndexBuild>) {}

    fn drop_index(&mut self, _: IndexId, _: &Arc<TableDef>) -> Result<Kept> {
        Err(no_definitions())
    }

    fn insert(&mut self, table: TableId, rows: &Batch, ids: &mut Vec<RowId>, changes: &mut dyn Changes) -> Write<()> {
        self.prepare(table)?;
        for (at, row) in rows.iter().enumerate() {
            let id = self.insert_row(table, row, changes).map_err(|failure| WriteError { at, failure })?;
            ids.push(id);
        }
        Ok(())
    }

    fn update(&mut self, table: TableId, ids: &[RowId], rows: &Batch, changes: &mut dyn Changes) -> Write<()> {
        self.prepare(table)?;
        for (at, (id, row)) in ids.iter().zip(rows.iter()).enumerate() {
            self.update_row(table, *id, row, changes).map_err(|failure| WriteError { at, failure })?;
        }
        Ok(())
    }

    fn delete(&mut self, table: TableId, ids: &[RowId], changes: &mut dyn Changes) -> Write<()> {
        self.prepare(table)?;
        for (at, id) in ids.iter().enumerate() {
            self.delete_row(table, *id, changes).map_err(|failure| WriteError { at, failure })?;
        }
        Ok(())
    }

    fn apply(&mut self, table: TableId, op: &RowOp) -> Result<RowOp> {
        self.take_back(table, op)
    }

    /// Slots of private rows stay unused, so that a row's place in the write set never comes to mean another row.
    fn scope_end(&mut self) {}

    /// How far the rows written raise the sequence; the numbers of rows that say none come from the live table.
    fn sequence(&self, table: TableId) -> Result<i64> {
        if self.written_in(table).is_some() { self.own.sequence(table) } else { Ok(0) }
    }

    fn raise_sequence(&mut self, table: TableId, value: i64) -> Result<()> {
        if self.written_in(table).is_some() { self.own.raise_sequence(table, value) } else { Ok(()) }
    }

    fn restore_sequence(&mut self, table: TableId, value: i64) -> Result<()> {
        if self.written_in(table).is_some() { self.own.restore_sequence(table, value) } else { Ok(()) }
    }

    fn view(&mut self, _: &[TableId]) -> Result<Arc<dyn View>> {
        Err(Error::new(Code::Engine, "there is no view of what a transaction has written"))
    }

    fn copied_bytes(&self) -> u64 {
        0
    }

    fn memory(&self, table: TableId) -> Result<TableMemory> {
        if self.written_in(table).is_some() { self.own.memory(table) } else { Ok(TableMemory::default()) }
    }

    fn fetch(&self, wanted: &Wanted) -> Box<dyn FnOnce() -> Result<Fetched> + Send> {
        let table = wanted.table;
        Box::new(move || {
            Err(Error::new(Code::Bug, format!("overlay: what table {} wants, its engine fetches", table.0)))
        })
    }

    fn admit(&mut self, _: Fetched) {}
}
