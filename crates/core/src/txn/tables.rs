//! Tables as statements see them: the catalog and the engine, every change told to an effect and taken back on failure.

use crate::ds::hash;
use crate::engine::{
    Access, Changes, Cursor, Engine, IndexBuild, Kept, RowOp, Source, Write, WriteError, WriteFailure,
};
use crate::error::{Code, Error, Result};
use crate::keyspace::Wants;
use crate::reply::Blob;
use crate::table::batch::Batch;
use crate::table::catalog::{Bound, Catalog, Evict, IndexDef, IndexId, TableDef, TableId, ViewDef};
use crate::table::row_id::RowId;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};

/// Rows that the build of an index reads between two looks at anything else.
const INDEX_ROWS_AT_ONCE: usize = 1 << 16;

/// An index on its way.
pub struct Building {
    before: Arc<TableDef>,
    def: TableDef,
    build: Box<dyn IndexBuild>,
}

impl Building {
    /// Works on some more rows; true when the index can be finished.
    pub fn run(&mut self) -> Result<bool> {
        self.build.run(INDEX_ROWS_AT_ONCE)
    }
}

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

/// One change of the tables, in the order made.
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
    /// A table was made, altered or dropped.
    Definition {
        /// The table.
        table: TableId,
        /// What it is now; None: it is gone.
        now: Option<Arc<TableDef>>,
        /// What it was.
        before: Option<Box<Before>>,
    },
    /// Numbers were taken from a table's sequence although no row has them yet.
    Raised {
        /// The table.
        table: TableId,
        /// The largest number given.
        to: i64,
        /// The largest before.
        before: i64,
    },
    /// A view was made, replaced or dropped.
    View {
        /// Its name.
        name: String,
        /// What it is now; None: it is gone.
        now: Option<Arc<ViewDef>>,
        /// What it was.
        before: Option<Arc<ViewDef>>,
    },
    /// A table was emptied at once.
    Truncated {
        /// The table.
        table: TableId,
        /// What it held.
        kept: Option<Kept>,
    },
    /// Rows that follow may raise the numbers that the table gives. Doing their changes again raises them again, so this
    /// is for undo only.
    Sequence {
        /// The table.
        table: TableId,
        /// Its largest number so far.
        before: i64,
    },
}

/// What a table was before its definition changed.
pub struct Before {
    /// The definition; None: it did not exist.
    def: Option<Arc<TableDef>>,
    /// What a dropped table or index held.
    kept: Option<Kept>,
}

/// The changes that one command, statement or script made to tables.
#[derive(Default)]
pub struct TableChanges {
    /// What to materialise.
    pub wants: Wants,
    /// Number of changes, whether materialised or not.
    pub dirty: u64,
    /// The changes, if anything is wanted.
    pub list: Vec<TableChange>,
    /// The table whose sequence was noted last, in the innermost scope.
    pub sequence_of: Option<TableId>,
}

/// An open undo scope: whatever is changed until it is closed can be taken back.
#[must_use]
#[derive(Debug)]
pub struct Scope {
    mark: usize,
    dirty: u64,
    wanted_undo: bool,
    /// Rows may change in it, definitions must not.
    of_rows: bool,
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
    /// No changes yet; materialises what is wanted.
    pub fn new(wants: Wants) -> TableChanges {
        TableChanges { wants, ..TableChanges::default() }
    }

    #[inline]
    fn note(&mut self, table: TableId, redo: impl FnOnce() -> RowOp, undo: impl FnOnce() -> RowOp) {
        self.dirty += 1;
        if !self.wants.is_empty() {
            let redo = self.wants.contains(Wants::REDO).then(redo);
            let undo = self.wants.contains(Wants::UNDO).then(undo);
            self.list.push(TableChange::Row { table, redo, undo });
        }
    }

    /// Notes a definition; what a dropped table held comes back unless it is kept to undo that.
    fn note_definition(
        &mut self,
        table: TableId,
        now: Option<&Arc<TableDef>>,
        def: Option<Arc<TableDef>>,
        kept: Option<Kept>,
    ) -> Option<Kept> {
        self.dirty += 1;
        if self.wants.is_empty() {
            return kept;
        }
        let (before, kept) = match self.wants.contains(Wants::UNDO) {
            true => (Some(Box::new(Before { def, kept })), None),
            false => (None, kept),
        };
        self.list.push(TableChange::Definition { table, now: now.cloned(), before });
        kept
    }
}

impl TableChanges {
    fn note_view(&mut self, name: String, now: Option<Arc<ViewDef>>, before: Option<Arc<ViewDef>>) {
        self.dirty += 1;
        if !self.wants.is_empty() {
            self.list.push(TableChange::View { name, now, before });
        }
    }
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

    /// Opens an undo scope. Scopes nest; each is closed by `keep` or `undo`, the innermost first.
    #[inline]
    pub fn open(&mut self, changes: &mut TableChanges) -> Scope {
        self.scopes += 1;
        Self::begin(changes, true)
    }

    /// Opens an undo scope in which definitions change; it is closed like one of [`open`](Self::open), which may be
    /// opened and closed inside.
    pub fn open_definitions(&mut self, changes: &mut TableChanges) -> Result<Scope> {
        self.refuse_if_busy()?;
        Ok(Self::begin(changes, false))
    }

    fn begin(changes: &mut TableChanges, of_rows: bool) -> Scope {
        let wanted_undo = changes.wants.contains(Wants::UNDO);
        changes.wants |= Wants::UNDO;
        changes.sequence_of = None;
        Scope { mark: changes.list.len(), dirty: changes.dirty, wanted_undo, of_rows }
    }

    /// Closes a scope; its changes stay.
    #[inline]
    pub fn keep(&mut self, changes: &mut TableChanges, scope: Scope) {
        changes.sequence_of = None;
        if !scope.wanted_undo {
            changes.wants -= Wants::UNDO;
            if changes.wants.is_empty() {
                changes.list.truncate(scope.mark);
            }
        }
        self.close(scope.of_rows);
    }

    /// Closes a scope and takes back all that was changed in it (invariant 6).
    pub fn undo(&mut self, changes: &mut TableChanges, scope: Scope) {
        self.undo_to(changes, scope.mark);
        changes.dirty = scope.dirty;
        changes.sequence_of = None;
        if !scope.wanted_undo {
            changes.wants -= Wants::UNDO;
        }
        self.close(scope.of_rows);
    }

    /// Takes back the changes after the first `mark` ones, the last one first.
    fn undo_to(&mut self, changes: &mut TableChanges, mark: usize) {
        while changes.list.len() > mark {
            // An inverse that does not fit the state that it was made for is a bug, and the state is no longer known.
            let result = changes.list.pop().map_or(Ok(()), |change| self.undo_change(change));
            assert!(result.is_ok(), "a change of tables cannot be taken back: {result:?}");
        }
    }

    #[inline]
    fn close(&mut self, of_rows: bool) {
        self.scopes -= usize::from(of_rows);
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

    /// Does again what [`raise_sequence`](Self::raise_sequence) did.
    pub fn redo_raise(&mut self, table: TableId, to: i64) -> Result<()> {
        self.engine.raise_sequence(table, to)
    }

    /// Makes a table; its definition comes back with the ids given to it.
    pub fn create_table(&mut self, mut def: TableDef, changes: &mut TableChanges) -> Result<Arc<TableDef>> {
        self.refuse_if_busy()?;
        def.id = self.catalog.next_table_id();
        for index in &mut def.indexes {
            index.id = self.catalog.next_index_id();
        }
        let def = self.add_table(def)?;
        changes.note_definition(def.id, Some(&def), None, None);
        Ok(def)
    }

    fn add_table(&mut self, def: TableDef) -> Result<Arc<TableDef>> {
        let def = self.catalog.put_table(def)?;
        if let Err(error) = self.engine.create_table(&def) {
            self.catalog.remove_table(&def.name);
            return Err(error);
        }
        Ok(def)
    }

    /// Drops a table. What it held comes back, to be freed where nobody waits for it.
    pub fn drop_table(&mut self, name: &str, changes: &mut TableChanges) -> Result<Option<Kept>> {
        self.refuse_if_busy()?;
        let def = self.table(name)?.clone();
        let kept = self.engine.drop_table(def.id)?;
        self.catalog.remove_table(name);
        Ok(changes.note_definition(def.id, None, Some(def), Some(kept)))
    }

    /// Empties a table at once; its sequence goes on. What it held comes back, as for a table that is dropped.
    pub fn truncate_table(&mut self, table: TableId, changes: &mut TableChanges) -> Result<Option<Kept>> {
        self.refuse_if_busy()?;
        let kept = self.engine.truncate_table(table)?;
        changes.dirty += 1;
        if changes.wants.is_empty() {
            return Ok(Some(kept));
        }
        let (noted, freed) = if changes.wants.contains(Wants::UNDO) { (Some(kept), None) } else { (None, Some(kept)) };
        changes.list.push(TableChange::Truncated { table, kept: noted });
        Ok(freed)
    }

    /// Begins to build an index over the rows there are. While it runs, nothing else may change the tables; then it is
    /// finished or abandoned.
    pub fn begin_index(&mut self, table: &str, mut index: IndexDef) -> Result<Building> {
        self.refuse_if_busy()?;
        let before = self.table(table)?.clone();
        index.id = self.catalog.next_index_id();
        self.begin_building(before, &index)
    }

    /// Adds an index whose build has run to its table.
    pub fn finish_index(&mut self, building: Building, changes: &mut TableChanges) -> Result<()> {
        let before = building.before.clone();
        let def = self.finish_building(building)?;
        changes.note_definition(def.id, Some(&def), Some(before), None);
        Ok(())
    }

    /// Gives up a build.
    pub fn abandon_index(&mut self, building: Building) {
        self.engine.abandon_index(building.build);
    }

    fn begin_building(&mut self, before: Arc<TableDef>, index: &IndexDef) -> Result<Building> {
        let mut def = TableDef::clone(&before);
        def.indexes.push(index.clone());
        def.check()?;
        let build = self.engine.begin_index(def.id, index)?;
        Ok(Building { before, def, build })
    }

    fn finish_building(&mut self, building: Building) -> Result<Arc<TableDef>> {
        let def = self.catalog.put_table(building.def)?;
        if let Err(error) = self.engine.finish_index(building.build, &def) {
            self.catalog.put_table(TableDef::clone(&building.before))?;
            return Err(error);
        }
        Ok(def)
    }

    fn add_index(&mut self, before: &Arc<TableDef>, index: &IndexDef) -> Result<Arc<TableDef>> {
        let mut building = self.begin_building(before.clone(), index)?;
        loop {
            match building.run() {
                Ok(true) => return self.finish_building(building),
                Ok(false) => {}
                Err(error) => {
                    self.abandon_index(building);
                    return Err(error);
                }
            }
        }
    }

    /// Drops an index by name. What it held comes back, as for a table.
    pub fn drop_index(&mut self, name: &str, changes: &mut TableChanges) -> Result<Option<Kept>> {
        self.refuse_if_busy()?;
        let missing = || Error::new(Code::Sql, format!("no such index: {name}"));
        let (table, index) = self.catalog.index(name).ok_or_else(missing)?;
        let (before, id) = (table.clone(), index.id);
        let (def, kept) = self.remove_index(&before, id)?;
        Ok(changes.note_definition(def.id, Some(&def), Some(before), Some(kept)))
    }

    fn remove_index(&mut self, before: &Arc<TableDef>, index: IndexId) -> Result<(Arc<TableDef>, Kept)> {
        let mut def = TableDef::clone(before);
        def.indexes.retain(|i| i.id != index);
        def.drop_unused_hidden();
        let def = self.catalog.put_table(def)?;
        let kept = self.engine.drop_index(index, &def)?;
        Ok((def, kept))
    }

    /// Gives a table a changed definition with the same indexes: other columns, another name.
    pub fn alter_table(&mut self, def: TableDef, changes: &mut TableChanges) -> Result<Arc<TableDef>> {
        self.refuse_if_busy()?;
        let missing = || Error::new(Code::Bug, format!("tables.rs: no table {} to alter", def.name));
        let before = self.catalog.table_by_id(def.id).cloned().ok_or_else(missing)?;
        let def = self.put_altered(&before, def)?;
        changes.note_definition(def.id, Some(&def), Some(before), None);
        Ok(def)
    }

    fn put_altered(&mut self, before: &Arc<TableDef>, def: TableDef) -> Result<Arc<TableDef>> {
        let def = self.catalog.put_table(def)?;
        if let Err(error) = self.engine.alter_table(&def) {
            self.catalog.put_table(TableDef::clone(before))?;
            return Err(error);
        }
        Ok(def)
    }

    /// Makes a view, or replaces the one of the same name.
    pub fn put_view(&mut self, view: ViewDef, changes: &mut TableChanges) -> Result<()> {
        self.refuse_if_busy()?;
        let (name, before) = (view.name.clone(), self.catalog.view(&view.name).cloned());
        self.catalog.put_view(view)?;
        let now = self.catalog.view(&name).cloned();
        changes.note_view(name, now, before);
        Ok(())
    }

    /// Drops a view.
    pub fn drop_view(&mut self, name: &str, changes: &mut TableChanges) -> Result<()> {
        self.refuse_if_busy()?;
        let missing = || Error::new(Code::Sql, format!("no such view: {name}"));
        let before = self.catalog.remove_view(name).ok_or_else(missing)?;
        changes.note_view(before.name.clone(), None, Some(before));
        Ok(())
    }

    /// Makes a view be what it was or is to be: for recovery, and to take changes back.
    pub fn restore_view(&mut self, name: &str, view: Option<&ViewDef>) -> Result<()> {
        match view {
            Some(view) => self.catalog.put_view(view.clone()),
            None => {
                self.catalog.remove_view(name);
                Ok(())
            }
        }
    }

    /// Makes a table be what a definition says, whatever it is now: for recovery, and to take changes back.
    pub fn restore_definition(&mut self, table: TableId, def: Option<&TableDef>) -> Result<()> {
        let now = self.catalog.table_by_id(table).cloned();
        match (now, def) {
            (None, None) => Ok(()),
            (Some(now), None) => {
                self.engine.drop_table(table)?;
                self.catalog.remove_table(&now.name);
                Ok(())
            }
            (None, Some(def)) => self.add_table(def.clone()).map(|_| ()),
            (Some(now), Some(def)) => self.alter(now, def),
        }
    }

    fn alter(&mut self, mut now: Arc<TableDef>, def: &TableDef) -> Result<()> {
        let gone: Vec<IndexId> = now.indexes.iter().map(|i| i.id).filter(|id| def.index(*id).is_none()).collect();
        for index in gone {
            now = self.remove_index(&now, index)?.0;
        }
        // Columns come before the indexes on them.
        let mut columns = def.clone();
        columns.indexes = now.indexes.clone();
        if *now != columns {
            now = self.put_altered(&now, columns)?;
        }
        for index in &def.indexes {
            if now.index(index.id).is_none() {
                now = self.add_index(&now, index)?;
            }
        }
        if *now != *def {
            let def = self.catalog.put_table(def.clone())?;
            self.engine.alter_table(&def)?;
        }
        Ok(())
    }

    /// Does a change again, by its redo record.
    pub fn redo_row(&mut self, table: TableId, op: &RowOp) -> Result<()> {
        self.engine.apply(table, op).map(|_| ())
    }

    /// Empties a table again, by its redo record.
    pub fn redo_truncate(&mut self, table: TableId) -> Result<()> {
        self.engine.truncate_table(table).map(drop)
    }

    /// Puts rows under their ids into a table that has no indexes yet: loading a checkpoint.
    pub fn load_rows(&mut self, table: TableId, rows: &[(RowId, &[u8])]) -> Result<()> {
        self.engine.load(table, rows)
    }

    /// Makes the indexes that definitions have and their tables have not, side by side: loading a checkpoint.
    ///
    /// # Errors
    /// Rows do not fit an index. The tables are of no use then.
    pub fn build_indexes(&mut self, defs: &[TableDef]) -> Result<()> {
        let mut builds = Vec::new();
        for def in defs {
            let now = self.engine.definition(def.id)?.clone();
            for index in def.indexes.iter().filter(|index| now.index(index.id).is_none()) {
                builds.push((def, self.engine.begin_index(def.id, index)?));
            }
        }
        run_side_by_side(builds.iter_mut().map(|(_, build)| build))?;
        for (def, build) in builds {
            let mut now = TableDef::clone(self.engine.definition(def.id)?);
            now.indexes.extend(def.index(build.index().id).cloned());
            let now = self.catalog.put_table(now)?;
            self.engine.finish_index(build, &now)?;
        }
        Ok(())
    }

    /// Takes one change back.
    pub fn undo_change(&mut self, change: TableChange) -> Result<()> {
        match change {
            TableChange::Row { table, undo: Some(undo), .. } => self.engine.apply(table, &undo).map(|_| ()),
            TableChange::Definition { before: Some(before), table, .. } => {
                let Before { def, kept } = *before;
                match (kept, &def) {
                    (Some(kept), Some(def)) => {
                        let def = self.catalog.put_table(TableDef::clone(def))?;
                        self.engine.restore(kept, &def)
                    }
                    _ => self.restore_definition(table, def.as_deref()),
                }
            }
            TableChange::Raised { table, before, .. } => self.engine.restore_sequence(table, before),
            TableChange::View { name, before, .. } => self.restore_view(&name, before.as_deref()),
            TableChange::Truncated { table, kept: Some(kept) } => match self.catalog.table_by_id(table).cloned() {
                Some(def) => self.engine.restore(kept, &def),
                None => Err(Error::new(Code::Bug, "tables.rs: a table that was emptied is gone")),
            },
            TableChange::Sequence { table, before } => self.engine.restore_sequence(table, before),
            TableChange::Row { .. } | TableChange::Definition { .. } | TableChange::Truncated { .. } => Ok(()),
        }
    }

    /// A number that is equal for equal tables: definitions, sequences, and rows under their ids.
    pub fn digest(&self) -> Result<u64> {
        let mut sum = 0u64;
        for view in self.catalog.views() {
            sum = sum.wrapping_add(hash::bytes(format!("{}\0{}", view.name, view.sql).as_bytes()));
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

    fn refuse_if_busy(&self) -> Result<()> {
        if self.private {
            let text = "definitions cannot change inside a transaction: COMMIT or ROLLBACK first";
            return Err(Error::new(Code::Sql, text));
        }
        if self.is_busy() {
            return Err(Error::new(Code::Sql, "definitions cannot change while a statement runs"));
        }
        Ok(())
    }
}

/// Runs builds of indexes in as many threads as there are cores.
fn run_side_by_side<'a>(builds: impl Iterator<Item = &'a mut Box<dyn IndexBuild>> + Send) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let builds = Mutex::new(builds);
    let next = || builds.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some(build) = next() {
            while !build.run(INDEX_ROWS_AT_ONCE)? {}
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let end = |thread: std::thread::ScopedJoinHandle<'_, Result<()>>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        threads.into_iter().map(end).collect::<Vec<_>>().into_iter().collect()
    })
}
