//! Tables as statements see them: the catalog and the engine, every change told to an effect and taken back on failure.

mod change;
mod definition;
mod index_build;
mod library;
mod redo;
mod routine;
mod scope;

use crate::ds::hash;
use crate::engine::{Access, Changes, Cursor, Engine, RowOp, Source, Write, WriteError, WriteFailure};
use crate::error::{Code, Error, Result};
use crate::keyspace::Wants;
use crate::reply::Blob;
use crate::table::batch::Batch;
use crate::table::catalog::{Bound, Catalog, Evict, TableDef, TableId};
use crate::table::row_id::RowId;
use std::sync::Arc;

pub use change::{Before, TableChange, TableChanges};
pub use index_build::Building;
pub use library::taken;
pub use scope::Scope;

/// The catalog and the engine that keeps the rows.
pub struct Tables {
    /// What tables there are.
    pub catalog: Catalog,
    engine: Box<dyn Engine>,
    /// Undo scopes that are open, inside each other.
    scopes: usize,
    /// They are what a transaction sees and writes, and have no definitions of their own.
    private: bool,
}

impl Tables {
    /// No tables yet, in `engine`.
    pub fn new(engine: Box<dyn Engine>) -> Tables {
        Tables { catalog: Catalog::default(), engine, scopes: 0, private: false }
    }

    /// What a transaction sees and writes.
    pub fn private(engine: Box<dyn Engine>) -> Tables {
        Tables { private: true, ..Tables::new(engine) }
    }

    /// What to read rows from.
    #[inline]
    pub fn source(&self) -> &dyn Source {
        &*self.engine
    }

    /// The engine, to look at: sizes, sequences, capabilities.
    #[inline]
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// The engine, for what changes no rows: fetching, raising sequences.
    #[inline]
    pub fn engine_mut(&mut self) -> &mut dyn Engine {
        &mut *self.engine
    }

    /// The table of this name, or the error that names it.
    pub fn table(&self, name: &str) -> Result<&Arc<TableDef>> {
        self.catalog.table(name).ok_or_else(|| Error::new(Code::Sql, format!("no such table: {name}")))
    }

    /// Inserts encoded rows and appends their ids.
    #[inline]
    pub fn insert(&mut self, t: TableId, rows: &Batch, ids: &mut Vec<RowId>, changes: &mut TableChanges) -> Write<()> {
        self.note_sequence(t, changes);
        let known = ids.len();
        self.engine.insert(t, rows, ids, changes)?;
        match self.catalog.bound(t) {
            Some(bound) => self.keep_bound(t, bound, &ids[known..], changes),
            None => Ok(()),
        }
    }

    /// After rows were inserted: lets go of as many as there are too many, or refuses the new ones. A transaction's own
    /// tables are not bounded; its COMMIT comes by here.
    #[cold]
    fn keep_bound(&mut self, t: TableId, bound: Bound, new: &[RowId], changes: &mut TableChanges) -> Write<()> {
        let failed = |error: Error| WriteError { at: 0, failure: WriteFailure::Failed(error) };
        let count = |tables: &Tables| {
            tables.engine.row_count(t).map_err(|error| WriteError { at: 0, failure: WriteFailure::from(error) })
        };
        if self.private || count(self)? <= bound.max_rows {
            return Ok(());
        }
        if bound.evict == Evict::Refuse {
            self.engine.delete(t, new, changes)?;
            let name = self.catalog.table_by_id(t).map_or("?", |def| &def.name);
            let text = format!("table {name} is full: max_rows = {}", bound.max_rows);
            return Err(failed(Error::new(Code::Limit, text)));
        }
        while count(self)? > bound.max_rows {
            let Some(id) = self.engine.next_to_go(t).map_err(failed)? else { return Ok(()) };
            self.engine.delete(t, &[id], changes)?;
        }
        Ok(())
    }

    /// Notes how far a table's sequence is, if that may have to be taken back.
    #[inline]
    fn note_sequence(&self, table: TableId, changes: &mut TableChanges) {
        if changes.wants.contains(Wants::UNDO)
            && changes.sequence_of != Some(table)
            && let Ok(before) = self.engine.sequence(table)
        {
            changes.sequence_of = Some(table);
            changes.list.push(TableChange::Sequence { table, before });
        }
    }

    /// Replaces the rows `ids`, in turn, by `rows`.
    #[inline]
    pub fn update(&mut self, t: TableId, ids: &[RowId], rows: &Batch, changes: &mut TableChanges) -> Write<()> {
        self.note_sequence(t, changes);
        self.engine.update(t, ids, rows, changes)
    }

    /// Deletes rows.
    #[inline]
    pub fn delete(&mut self, t: TableId, ids: &[RowId], changes: &mut TableChanges) -> Write<()> {
        self.engine.delete(t, ids, changes)
    }

    /// Puts a row back under the id that it had when it was deleted in this scope. No other row may have its keys.
    pub fn put_back(&mut self, table: TableId, id: RowId, row: &[u8], changes: &mut TableChanges) -> Result<()> {
        self.engine.apply(table, &RowOp::Insert { id, row: Blob::from_slice(row) })?;
        changes.inserted(table, id, row);
        Ok(())
    }

    /// Raises a table's sequence to a number that is given away before a row has it.
    pub fn raise_sequence(&mut self, table: TableId, to: i64, changes: &mut TableChanges) -> Result<()> {
        let before = self.engine.sequence(table)?;
        self.engine.raise_sequence(table, to)?;
        changes.dirty += 1;
        if !changes.wants.is_empty() {
            changes.list.push(TableChange::Raised { table, to, before });
        }
        Ok(())
    }

    /// A number that is equal for equal tables: definitions, sequences, and rows under their ids.
    pub fn digest(&self) -> Result<u64> {
        let mut sum = 0u64;
        for view in self.catalog.views() {
            sum = sum.wrapping_add(hash::bytes(format!("{}\0{}", view.name, view.sql).as_bytes()));
        }
        for library in self.catalog.libraries.iter() {
            let mut bytes = Vec::new();
            library.encode(&mut bytes);
            sum = sum.wrapping_add(hash::bytes(&bytes));
        }
        for trigger in self.catalog.triggers().iter() {
            let mut bytes = b"trigger".to_vec();
            trigger.encode(&mut bytes);
            sum = sum.wrapping_add(hash::bytes(&bytes));
        }
        for schedule in self.catalog.schedules.iter() {
            let mut bytes = b"schedule".to_vec();
            schedule.encode(&mut bytes);
            sum = sum.wrapping_add(hash::bytes(&bytes));
        }
        for def in self.catalog.tables() {
            let mut bytes = Vec::new();
            def.encode(&mut bytes);
            bytes.extend_from_slice(&self.engine.sequence(def.id)?.to_le_bytes());
            sum = sum.wrapping_add(hash::bytes(&bytes));
            let mut cursor = Cursor::new();
            let failed = |_| Error::new(Code::Engine, "a table cannot be read");
            let mut more = self.engine.seek(&mut cursor, def.id, &Access::All).map_err(failed)?;
            while more {
                bytes.clear();
                bytes.extend_from_slice(&def.id.0.to_le_bytes());
                bytes.extend_from_slice(&cursor.row_id().0.to_le_bytes());
                bytes.extend_from_slice(self.engine.row(&cursor).bytes());
                sum = sum.wrapping_add(hash::bytes(&bytes));
                more = self.engine.next(&mut cursor).map_err(failed)?;
            }
        }
        Ok(sum)
    }
}
