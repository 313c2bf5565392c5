//! Tables as statements see them: the catalog and the engine, every change told to an effect and taken back on failure.

use crate::engine::{Changes, Engine, Kept, RowOp, Source, Write};
use crate::error::{Code, Error, Result};
use crate::keyspace::Wants;
use crate::reply::Blob;
use crate::table::batch::Batch;
use crate::table::catalog::{Catalog, IndexDef, TableDef, TableId};
use crate::table::row_id::RowId;
use std::sync::Arc;

/// The catalog and the engine that keeps the rows.
pub struct Tables {
    /// What tables there are.
    pub catalog: Catalog,
    engine: Box<dyn Engine>,
    /// Undo scopes that are open, inside each other.
    scopes: usize,
}

/// One change of the tables, in the order made.
#[derive(Debug)]
pub enum TableChange {
    /// A row changed.
    Row {
        /// Its table.
        table: TableId,
        /// What to do again.
        redo: Option<RowOp>,
        /// What takes it back.
        undo: Option<RowOp>,
    },
    /// A table was made.
    Created(Arc<TableDef>),
    /// A table's definition changed (an index came or went).
    Altered(Arc<TableDef>),
    /// A table went.
    Dropped(TableId),
}

/// The changes that one command, statement or script made to tables.
#[derive(Debug, Default)]
pub struct TableChanges {
    /// What to materialise.
    pub wants: Wants,
    /// Number of changes, whether materialised or not.
    pub dirty: u64,
    /// The changes, if anything is wanted.
    pub list: Vec<TableChange>,
}

/// An open undo scope: whatever is changed until it is closed can be taken back.
#[must_use]
#[derive(Debug)]
pub struct Scope {
    mark: usize,
    dirty: u64,
    wanted_undo: bool,
}

impl Changes for TableChanges {
    #[inline]
    fn inserted(&mut self, table: TableId, id: RowId, row: &[u8]) {
        self.note(table, || RowOp::Insert { id, row: Blob::from_slice(row) }, || RowOp::Delete { id });
    }

    #[inline]
    fn updated(&mut self, table: TableId, id: RowId, old: &[u8], new: &[u8]) {
        let redo = || RowOp::Update { id, row: Blob::from_slice(new) };
        self.note(table, redo, || RowOp::Update { id, row: Blob::from_slice(old) });
    }

    #[inline]
    fn deleted(&mut self, table: TableId, id: RowId, old: &[u8]) {
        self.note(table, || RowOp::Delete { id }, || RowOp::Insert { id, row: Blob::from_slice(old) });
    }
}

impl TableChanges {
    #[inline]
    fn note(&mut self, table: TableId, redo: impl FnOnce() -> RowOp, undo: impl FnOnce() -> RowOp) {
        self.dirty += 1;
        if !self.wants.is_empty() {
            let redo = self.wants.contains(Wants::REDO).then(redo);
            let undo = self.wants.contains(Wants::UNDO).then(undo);
            self.list.push(TableChange::Row { table, redo, undo });
        }
    }

    fn note_definition(&mut self, change: impl FnOnce() -> TableChange) {
        self.dirty += 1;
        if self.wants.contains(Wants::REDO) {
            self.list.push(change());
        }
    }
}

impl Tables {
    /// No tables yet, in `engine`.
    pub fn new(engine: Box<dyn Engine>) -> Tables {
        Tables { catalog: Catalog::default(), engine, scopes: 0 }
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

    /// Opens an undo scope. Scopes nest; each is closed by `keep` or `undo`, the innermost first.
    #[inline]
    pub fn open(&mut self, changes: &mut TableChanges) -> Scope {
        self.scopes += 1;
        let wanted_undo = changes.wants.contains(Wants::UNDO);
        changes.wants |= Wants::UNDO;
        Scope { mark: changes.list.len(), dirty: changes.dirty, wanted_undo }
    }

    /// Closes a scope; its changes stay.
    #[inline]
    pub fn keep(&mut self, changes: &mut TableChanges, scope: Scope) {
        if !scope.wanted_undo {
            changes.wants -= Wants::UNDO;
            if changes.wants.is_empty() {
                changes.list.truncate(scope.mark);
            }
        }
        self.close();
    }

    /// Closes a scope and takes back all that was changed in it (invariant 6).
    pub fn undo(&mut self, changes: &mut TableChanges, scope: Scope) {
        self.undo_to(changes, scope.mark);
        changes.dirty = scope.dirty;
        if !scope.wanted_undo {
            changes.wants -= Wants::UNDO;
        }
        self.close();
    }

    /// Takes back the changes after the first `mark` ones, the last one first.
    fn undo_to(&mut self, changes: &mut TableChanges, mark: usize) {
        while changes.list.len() > mark {
            // Definitions do not change inside scopes, so all that is found here is rows with their inverses.
            if let Some(TableChange::Row { table, undo: Some(undo), .. }) = changes.list.pop() {
                let result = self.engine.apply(table, &undo);
                assert!(result.is_ok(), "a change of {table:?} cannot be taken back: {result:?}");
            }
        }
    }

    #[inline]
    fn close(&mut self) {
        self.scopes -= 1;
        if self.scopes == 0 {
            self.engine.scope_end();
        }
    }

    /// True while a statement that may be undone runs; definitions must not change then.
    pub fn is_busy(&self) -> bool {
        self.scopes > 0
    }

    /// Inserts encoded rows and appends their ids.
    #[inline]
    pub fn insert(&mut self, t: TableId, rows: &Batch, ids: &mut Vec<RowId>, changes: &mut TableChanges) -> Write<()> {
        self.engine.insert(t, rows, ids, changes)
    }

    /// Replaces the rows `ids`, in turn, by `rows`.
    #[inline]
    pub fn update(&mut self, t: TableId, ids: &[RowId], rows: &Batch, changes: &mut TableChanges) -> Write<()> {
        self.engine.update(t, ids, rows, changes)
    }

    /// Deletes rows.
    #[inline]
    pub fn delete(&mut self, t: TableId, ids: &[RowId], changes: &mut TableChanges) -> Write<()> {
        self.engine.delete(t, ids, changes)
    }

    /// Makes a table; its definition comes back with the ids given to it.
    pub fn create_table(&mut self, mut def: TableDef, changes: &mut TableChanges) -> Result<Arc<TableDef>> {
        self.refuse_if_busy()?;
        def.id = self.catalog.next_table_id();
        for index in &mut def.indexes {
            index.id = self.catalog.next_index_id();
        }
        let def = self.catalog.put_table(def)?;
        if let Err(error) = self.engine.create_table(&def) {
            self.catalog.remove_table(&def.name);
            return Err(error);
        }
        changes.note_definition(|| TableChange::Created(def.clone()));
        Ok(def)
    }

    /// Drops a table. What it held comes back, to be freed where nobody waits for it.
    pub fn drop_table(&mut self, name: &str, changes: &mut TableChanges) -> Result<Kept> {
        self.refuse_if_busy()?;
        let id = self.table(name)?.id;
        let kept = self.engine.drop_table(id)?;
        self.catalog.remove_table(name);
        changes.note_definition(|| TableChange::Dropped(id));
        Ok(kept)
    }

    /// Builds an index over the rows there are and adds it to its table.
    pub fn create_index(&mut self, table: &str, mut index: IndexDef, changes: &mut TableChanges) -> Result<()> {
        self.refuse_if_busy()?;
        let mut def = TableDef::clone(self.table(table)?);
        index.id = self.catalog.next_index_id();
        def.indexes.push(index.clone());
        def.check()?;
        let mut build = self.engine.begin_index(def.id, &index)?;
        let result = loop {
            match build.run(usize::MAX) {
                Ok(true) => break Ok(()),
                Ok(false) => {}
                Err(error) => break Err(error),
            }
        };
        if let Err(error) = result {
            self.engine.abandon_index(build);
            return Err(error);
        }
        let before = self.table(table)?.clone();
        let def = self.catalog.put_table(def)?;
        if let Err(error) = self.engine.finish_index(build, &def) {
            self.catalog.put_table(TableDef::clone(&before))?;
            return Err(error);
        }
        changes.note_definition(|| TableChange::Altered(def));
        Ok(())
    }

    /// Drops an index by name. What it held comes back, as for a table.
    pub fn drop_index(&mut self, name: &str, changes: &mut TableChanges) -> Result<Kept> {
        self.refuse_if_busy()?;
        let missing = || Error::new(Code::Sql, format!("no such index: {name}"));
        let (table, index) = self.catalog.index(name).ok_or_else(missing)?;
        let id = index.id;
        let mut def = TableDef::clone(table);
        def.indexes.retain(|i| i.id != id);
        let def = self.catalog.put_table(def)?;
        let kept = self.engine.drop_index(id, &def)?;
        changes.note_definition(|| TableChange::Altered(def));
        Ok(kept)
    }

    fn refuse_if_busy(&self) -> Result<()> {
        if self.is_busy() {
            return Err(Error::new(Code::Sql, "definitions cannot change while a statement runs"));
        }
        Ok(())
    }
}
