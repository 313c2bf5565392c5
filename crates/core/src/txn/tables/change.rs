//! What was changed in tables: told to the effect, with what takes it back.

use crate::engine::{Changes, Kept, RowOp};
use crate::keyspace::Wants;
use crate::reply::Blob;
use crate::table::catalog::{TableDef, TableId, ViewDef};
use crate::table::library::LibraryDef;
use crate::table::row_id::RowId;
use crate::table::schedule::ScheduleDef;
use crate::table::trigger::TriggerDef;
use std::sync::Arc;

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
    /// A library of functions was loaded, replaced or deleted.
    Library {
        /// Its name.
        name: String,
        /// What it is now; None: it is gone.
        now: Option<Arc<LibraryDef>>,
        /// What it was.
        before: Option<Arc<LibraryDef>>,
    },
    /// A trigger was made or dropped.
    Trigger {
        /// Its name.
        name: String,
        /// What it is now; None: it is gone.
        now: Option<Arc<TriggerDef>>,
        /// What it was.
        before: Option<Arc<TriggerDef>>,
    },
    /// A schedule was made or dropped.
    Schedule {
        /// Its name.
        name: String,
        /// What it is now; None: it is gone.
        now: Option<Arc<ScheduleDef>>,
        /// What it was.
        before: Option<Arc<ScheduleDef>>,
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
    pub(super) def: Option<Arc<TableDef>>,
    /// What a dropped table or index held.
    pub(super) kept: Option<Kept>,
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
    pub(super) fn note_definition(
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

    pub(super) fn note_library(&mut self, name: &str, now: Option<Arc<LibraryDef>>, before: Option<Arc<LibraryDef>>) {
        self.dirty += 1;
        if !self.wants.is_empty() {
            self.list.push(TableChange::Library { name: name.into(), now, before });
        }
    }

    pub(super) fn note_trigger(&mut self, name: &str, now: Option<Arc<TriggerDef>>, before: Option<Arc<TriggerDef>>) {
        self.dirty += 1;
        if !self.wants.is_empty() {
            self.list.push(TableChange::Trigger { name: name.into(), now, before });
        }
    }

    pub(super) fn note_schedule(
        &mut self,
        name: &str,
        now: Option<Arc<ScheduleDef>>,
        before: Option<Arc<ScheduleDef>>,
    ) {
        self.dirty += 1;
        if !self.wants.is_empty() {
            self.list.push(TableChange::Schedule { name: name.into(), now, before });
        }
    }

    pub(super) fn note_view(&mut self, name: String, now: Option<Arc<ViewDef>>, before: Option<Arc<ViewDef>>) {
        self.dirty += 1;
        if !self.wants.is_empty() {
            self.list.push(TableChange::View { name, now, before });
        }
    }
}
