//! How rows are reached: access paths, and the cursor that walks one.

use super::View;
use crate::table::batch::Batch;
use crate::table::catalog::{IndexId, TableId};
use crate::table::row_id::RowId;
use std::any::Any;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

/// An access path: which rows, in which order.
#[derive(Clone, Copy, Debug)]
pub enum Access<'a> {
    /// All rows, by row id.
    All,
    /// The rows from this id on, by row id; there need not be a row of this id.
    From(RowId),
    /// The rows with these ids that exist, in this order.
    Rows(&'a [RowId]),
    /// For each key in turn, the rows that have it.
    Keys {
        /// The index.
        index: IndexId,
        /// Whole index keys (`table::key`). For an ordered index also the encoding of its first columns, which stands
        /// for every key that starts with it; the rows then come in the order of their keys.
        keys: &'a Batch,
    },
    /// The rows whose index key lies between two edges, in the order of the keys. Ordered indexes offer it.
    Range {
        /// The index.
        index: IndexId,
        /// Where it begins (in key order, also when walked backward).
        from: Edge<'a>,
        /// Where it ends.
        to: Edge<'a>,
        /// Largest key first.
        reverse: bool,
        /// Walk the index alone: `Cursor::key` and `Cursor::row_id` answer, `Source::row` does not.
        keys_only: bool,
    },
}

/// A place between index keys. The bytes may be a whole key or the encoding of its first columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge<'a> {
    /// Before the first or after the last key.
    Open,
    /// Before every key that is, or starts with, or follows these bytes.
    Before(&'a [u8]),
    /// After every key that is, or starts with, these bytes.
    After(&'a [u8]),
}

/// A walk over rows. It owns its state, so it may live beside the engine and be used again for another access path.
///
/// **While the table changes**: what a cursor yields is the table as it was at `seek`, and the bytes of its current row
/// stay where they are until it moves or closes, even if the table is written in between. That costs nothing as long as
/// nobody writes: the first write under an open cursor takes a view for it (see [`Gate`]). So close cursors that are
/// done; one that has run off its end has closed itself.
#[derive(Default)]
pub struct Cursor {
    pub(super) table: Option<TableId>,
    pub(super) gate: Option<Arc<Gate>>,
    /// Where the engine had the table when it was opened; a hint, to be checked.
    pub(super) place: usize,
    /// The rows at hand and which of them is current.
    pub(super) ids: Vec<RowId>,
    /// Where each of them lies; empty when the engine does not tell.
    pub(super) rows: Vec<RowBytes>,
    pub(super) keys: Batch,
    pub(super) at: usize,
    pub(super) rest: Rest,
    /// For engines whose rows do not lie in memory: whatever they keep for the walk.
    pub foreign: Option<Box<dyn Any + Send>>,
}

/// Where the bytes of a row lie.
#[derive(Clone, Copy, Debug)]
pub struct RowBytes {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: a place alone lets nobody read; whoever reads promises what `RowBytes::get` demands, in any thread.
unsafe impl Send for RowBytes {}

impl RowBytes {
    /// The place of a row.
    #[inline]
    pub fn of(row: &[u8]) -> RowBytes {
        RowBytes { start: NonNull::from(row).cast(), length: row.len() }
    }

    /// The bytes.
    ///
    /// # Safety
    /// The row is at hand of a cursor (see [`Cursor::at_hand`]), which has not fetched others nor been closed since.
    #[inline]
    pub unsafe fn get<'a>(self) -> &'a [u8] {
        // SAFETY: the place was made of a slice, whose bytes stay, by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

/// What a cursor fetches when the rows at hand are used up.
#[derive(Debug, Default)]
pub(super) enum Rest {
    /// Nothing.
    #[default]
    Done,
    /// The rows from this id on.
    Scan { next: RowId },
    /// The rows of the keys that are left.
    Keys(Box<KeysRest>),
    /// The rest of an index range.
    Range(Box<RangeRest>),
}

/// The keys of a long list that are still to be looked up.
#[derive(Debug)]
pub(super) struct KeysRest {
    pub index: IndexId,
    pub keys: Batch,
    /// The key to go on with, and after which of its rows.
    pub next: usize,
    pub after: Option<After>,
}

/// An index entry that a walk has passed.
#[derive(Debug)]
pub(super) struct After {
    pub key: Vec<u8>,
    pub id: RowId,
}

/// The part of an index range that is still to come.
#[derive(Debug, Default)]
pub(super) struct RangeRest {
    pub index: Option<IndexId>,
    pub from: Vec<u8>,
    pub to: Vec<u8>,
    pub from_kind: EdgeKind,
    pub to_kind: EdgeKind,
    /// The last entry fetched, after (or, backward, before) which to go on.
    pub last: Option<RowId>,
    pub reverse: bool,
    pub keys_only: bool,
    /// Entries to fetch next: few at first, as a LIMIT may end the walk, then more.
    pub batch: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum EdgeKind {
    #[default]
    Open,
    Before,
    After,
}

/// Holds a table still for the cursors that are open on it.
///
/// Cursors on a live table hold its gate. A write that finds the gate held leaves in it a view of the table as it is,
/// gives the table a new gate, and goes on; the cursors find the view and read from it from then on.
#[derive(Default)]
pub struct Gate {
    frozen: OnceLock<Arc<dyn View>>,
}

impl Gate {
    /// Leaves a view for the cursors that hold this gate.
    pub fn freeze(&self, view: Arc<dyn View>) {
        // Only the holder of the baton freezes, and then drops the table's share, so it is done once.
        let first = self.frozen.set(view).is_ok();
        debug_assert!(first);
    }

    /// The view to read from, if the table was written since the gate was taken.
    #[inline]
    pub fn frozen(&self) -> Option<&Arc<dyn View>> {
        self.frozen.get()
    }
}

impl Cursor {
    /// A cursor that stands nowhere yet.
    pub fn new() -> Cursor {
        Cursor::default()
    }

    /// Takes hold of a live table that is about to be read.
    #[inline]
    pub(super) fn attach(&mut self, table: TableId, gate: &Arc<Gate>) {
        self.table = Some(table);
        if !self.gate.as_ref().is_some_and(|held| Arc::ptr_eq(held, gate)) {
            self.gate = Some(gate.clone());
        }
    }

    /// The table it was opened on.
    #[inline]
    pub(super) fn table(&self) -> TableId {
        self.table.unwrap_or(TableId(0))
    }

    /// The id of the current row.
    #[inline]
    pub fn row_id(&self) -> RowId {
        self.ids[self.at]
    }

    /// Where the current row lies, if it is among rows at hand. By the contract of cursors the bytes of these stay where
    /// they are and as they are until the cursor fetches others (`Source::next`, `seek`) or closes, as long as what it was
    /// opened on lives: a write takes a view first, which keeps their pages.
    #[inline]
    pub fn at_hand(&self) -> Option<RowBytes> {
        self.rows.get(self.at).copied()
    }

    /// Where the next row lies, if that is at hand too.
    #[inline]
    pub fn next_at_hand(&self) -> Option<RowBytes> {
        self.rows.get(self.at + 1).copied()
    }

    /// Where the row lies that is so many behind the current one, if that is at hand.
    #[inline]
    pub fn ahead_at_hand(&self, rows: usize) -> Option<RowBytes> {
        self.rows.get(self.at + rows).copied()
    }

    /// Moves over so many rows, all of which are at hand.
    #[inline]
    pub fn step_over(&mut self, rows: usize) {
        debug_assert!(self.at + rows < self.rows.len());
        self.at += rows;
    }

    /// Moves to the row with this id if that is at hand, in a walk by row id.
    pub fn go_to(&mut self, id: RowId) -> bool {
        let found = self.ids.binary_search(&id);
        self.at = found.unwrap_or(self.at);
        found.is_ok()
    }

    /// Moves to the next row if that is at hand, without asking the source. False: `Source::next` is to be asked.
    #[inline]
    pub fn step(&mut self) -> bool {
        let more = self.at + 1 < self.rows.len();
        self.at += usize::from(more);
        more
    }

    /// The index key of the current row; only of a range walked with `keys_only`.
    pub fn key(&self) -> &[u8] {
        self.keys.get(self.at)
    }

    /// Lets go of the table. The cursor keeps its buffers for the next `seek`.
    #[inline]
    pub fn close(&mut self) {
        self.gate = None;
        self.clear();
        self.rest = Rest::Done;
        self.foreign = None;
    }

    /// Forgets the rows at hand.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.ids.clear();
        self.rows.clear();
        self.keys.clear();
        self.at = 0;
    }

    /// The view that stands for the live table since it was written under this cursor.
    #[inline]
    pub fn frozen(&self) -> Option<&Arc<dyn View>> {
        self.gate.as_ref()?.frozen()
    }
}
