//! A live table: its rows and indexes, changed together (invariant 3).

use super::read::{IndexRead, MethodRead, Readable, statistics};
use super::recency::Recency;
use super::view::{FrozenIndex, FrozenMethod, FrozenTable, MemoryView};
use crate::ds::btree::BTree;
use crate::engine::{Changes, Gate, RowOp, Statistics, TableMemory, Write, WriteError, WriteFailure};
use crate::error::{Code, Error, Result};
use crate::index::{Hash, RowKeys};
use crate::reply::Blob;
use crate::table::batch::Batch;
use crate::table::catalog::{IndexDef, IndexId, Method, TableDef, TableId};
use crate::table::datum::DatumRef;
use crate::table::heap::{Heap, Rows};
use crate::table::key::{KeyBuf, KeyOf, row_key};
use crate::table::row::{Row, RowLayout};
use crate::table::row_id::RowId;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

pub(super) struct Table {
    pub def: Arc<TableDef>,
    pub layout: Arc<RowLayout>,
    pub heap: Heap,
    pub indexes: Vec<LiveIndex>,
    /// Held by the cursors that are open on the table.
    pub gate: Arc<Gate>,
    /// Rows changed since a build of an index began, for each build.
    pub builds: Vec<(IndexId, Vec<RowId>)>,
    pub sequence: i64,
    autoincrement: Option<u16>,
    /// The order in which rows go, if they go by themselves.
    pub recency: Option<Box<Recency>>,
    statistics: Mutex<Option<Arc<Statistics>>>,
    /// The keys of the row being written, and of the one it replaces; kept for their memory.
    new_keys: Vec<RowKey>,
    old_keys: Vec<RowKey>,
    /// The keys of rows that are inserted together.
    batch_keys: Vec<RowKey>,
}

/// Rows whose places are loaded side by side before they are inserted.
const SIDE_BY_SIDE: usize = 16;

pub(super) struct LiveIndex {
    pub def: Arc<IndexDef>,
    pub method: LiveMethod,
    /// No key in an ordered index is larger, so a larger one is new there; None when that is not known.
    largest: Option<KeyBuf>,
}

#[allow(clippy::large_enum_variant)] // some hundred bytes an index
pub(super) enum LiveMethod {
    Hash(Hash),
    Ordered(BTree),
}

/// The result of a write of one row.
type One<T> = std::result::Result<T, WriteFailure>;

/// The key that a row has in one index.
#[derive(Clone)]
struct RowKey {
    key: KeyBuf,
    of: KeyOf,
}

impl RowKey {
    fn none() -> RowKey {
        RowKey { key: KeyBuf::new(), of: KeyOf::Absent }
    }

    fn is_present(&self) -> bool {
        self.of != KeyOf::Absent
    }

    /// Must no other row have it in a unique index?
    fn is_exclusive(&self) -> bool {
        self.of == KeyOf::Key { has_null: false }
    }
}

impl PartialEq for RowKey {
    fn eq(&self, other: &RowKey) -> bool {
        self.is_present() == other.is_present() && (!self.is_present() || self.key == other.key)
    }
}

impl LiveIndex {
    pub fn empty(def: &IndexDef) -> LiveIndex {
        let method = match def.method {
            Method::Hash => LiveMethod::Hash(Hash::default()),
            Method::Ordered => LiveMethod::Ordered(BTree::multimap()),
        };
        LiveIndex { def: Arc::new(def.clone()), method, largest: Some(KeyBuf::new()) }
    }

    /// With what was built.
    pub fn built(def: Arc<IndexDef>, method: LiveMethod) -> LiveIndex {
        LiveIndex { def, method, largest: None }
    }

    pub fn read(&self) -> IndexRead<'_> {
        let method = match &self.method {
            LiveMethod::Hash(hash) => MethodRead::Hash(hash.read()),
            LiveMethod::Ordered(tree) => MethodRead::Ordered(tree),
        };
        IndexRead { def: &self.def, method }
    }

    /// Adds an entry for a row that is in the heap.
    #[inline]
    pub fn insert(&mut self, key: &[u8], exclusive: bool, id: RowId, rows: &Rows, layout: &RowLayout) {
        match &mut self.method {
            LiveMethod::Ordered(tree) => {
                let old = tree.insert(key, id.0);
                debug_assert!(old.is_none());
                if let Some(largest) = self.largest.as_mut().filter(|largest| largest[..] < *key) {
                    largest.clear();
                    largest.extend_from_slice(key);
                }
            }
            LiveMethod::Hash(hash) => {
                let keys = RowKeys { rows, layout, def: &self.def };
                if self.def.unique && exclusive {
                    hash.insert_unique(key, id, &keys);
                } else {
                    hash.insert(key, id, &keys);
                }
            }
        }
    }

    /// Is the key larger than all that ever were here? Most rows come in the order of their keys, and spare a search so.
    #[inline]
    fn is_behind_all(&self, key: &[u8]) -> bool {
        matches!(self.method, LiveMethod::Ordered(_)) && self.largest.as_ref().is_some_and(|largest| largest[..] < *key)
    }

    /// Removes the entry of a row that is still in the heap.
    #[inline]
    pub fn remove(&mut self, key: &[u8], id: RowId, rows: &Rows, layout: &RowLayout) {
        let removed = match &mut self.method {
            LiveMethod::Ordered(tree) => tree.remove(key, id.0).is_some(),
            LiveMethod::Hash(hash) => hash.remove(key, id, &RowKeys { rows, layout, def: &self.def }),
        };
        assert!(removed, "invariant 3: row {id} is not in index {}", self.def.name);
    }

    pub fn memory(&self) -> usize {
        match &self.method {
            LiveMethod::Hash(hash) => hash.memory(),
            LiveMethod::Ordered(tree) => tree.memory(),
        }
    }

    fn copied(&self) -> u64 {
        match &self.method {
            LiveMethod::Hash(hash) => hash.copied(),
            LiveMethod::Ordered(tree) => tree.copied(),
        }
    }
}

impl Readable for Table {
    fn def(&self) -> &Arc<TableDef> {
        &self.def
    }
    fn layout(&self) -> &Arc<RowLayout> {
        &self.layout
    }
    fn rows(&self) -> &Rows {
        &self.heap
    }
    fn indexes(&self) -> impl Iterator<Item = IndexRead<'_>> {
        self.indexes.iter().map(LiveIndex::read)
    }
}

impl Table {
    /// An empty table with the indexes of its definition.
    pub fn new(def: &Arc<TableDef>) -> Table {
        Table {
            def: def.clone(),
            layout: Arc::new(RowLayout::new(def)),
            heap: Heap::default(),
            indexes: def.indexes.iter().map(LiveIndex::empty).collect(),
            gate: Arc::default(),
            builds: Vec::new(),
            sequence: 0,
            autoincrement: autoincrement_of(def),
            recency: Recency::new(def.bound),
            statistics: Mutex::default(),
            new_keys: Vec::new(),
            old_keys: Vec::new(),
            batch_keys: Vec::new(),
        }
    }

    /// Takes a changed definition with the same indexes.
    pub fn alter(&mut self, def: &Arc<TableDef>) {
        if self.def.bound != def.bound {
            self.recency = Recency::follow(self.recency.take(), def.bound);
        }
        self.def = def.clone();
        self.layout = Arc::new(RowLayout::new(def));
        self.autoincrement = autoincrement_of(def);
        for index in &mut self.indexes {
            if let Some(def) = def.index(index.def.id) {
                index.def = Arc::new(def.clone());
            }
        }
        *self.statistics.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Before a change: leaves a view for the cursors that are open.
    #[inline]
    pub fn freeze_for_cursors(&mut self) {
        if Arc::strong_count(&self.gate) > 1 {
            self.freeze();
        }
    }

    #[cold]
    fn freeze(&mut self) {
        let view = MemoryView::of(vec![(self.def.id, self.view())]);
        std::mem::take(&mut self.gate).freeze(Arc::new(view));
    }

    pub fn view(&mut self) -> FrozenTable {
        let indexes = self.indexes.iter_mut().map(|index| {
            let method = match &mut index.method {
                LiveMethod::Hash(hash) => FrozenMethod::Hash(hash.view()),
                LiveMethod::Ordered(tree) => FrozenMethod::Ordered(tree.clone()),
            };
            FrozenIndex { def: index.def.clone(), method }
        });
        FrozenTable {
            def: self.def.clone(),
            layout: self.layout.clone(),
            indexes: indexes.collect(),
            rows: self.heap.view(),
            statistics: Default::default(),
        }
    }

    /// The rows as they are now, without indexes: a view that makes later writes copy no index.
    pub fn view_of_rows(&self) -> FrozenTable {
        FrozenTable {
            def: self.def.clone(),
            layout: self.layout.clone(),
            indexes: Vec::new(),
            rows: self.heap.view(),
            statistics: Default::default(),
        }
    }

    /// Puts a row into a table without indexes.
    pub fn load(&mut self, id: RowId, row: &[u8]) -> Result<()> {
        assert!(self.indexes.is_empty(), "rows are loaded before indexes are made");
        self.layout.check(row)?;
        self.heap.insert_at(id, row)?;
        self.note_change(id, row);
        Ok(())
    }

    pub fn memory(&self) -> TableMemory {
        let indexes = self.indexes.iter().map(|index| (index.def.id, index.memory()));
        let recency = self.recency.as_ref().map_or(0, |recency| recency.memory());
        TableMemory { rows: self.heap.memory() + recency, indexes: indexes.collect() }
    }

    pub fn copied(&self) -> u64 {
        self.heap.copied() + self.indexes.iter().map(LiveIndex::copied).sum::<u64>()
    }

    /// The row that is to go when there are too many.
    pub fn next_to_go(&mut self) -> Option<RowId> {
        let recency = self.recency.as_mut()?;
        if recency.len() < self.heap.count() {
            // Rows from a checkpoint, or from before the bound, are taken to have come in the order of their places.
            let mut rows = Vec::new();
            self.heap.for_each(|id, _| rows.push(id));
            recency.adopt(&rows);
        }
        recency.next()
    }

    /// Statistics as of not long ago: they are made anew when the number of rows has changed by an eighth.
    pub fn statistics(&self) -> Arc<Statistics> {
        let mut kept = self.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = self.heap.count();
        match &*kept {
            Some(known) if known.rows.abs_diff(rows) <= known.rows / 8 && known.indexes.len() == self.indexes.len() => {
                known.clone()
            }
            _ => kept.insert(Arc::new(statistics(self))).clone(),
        }
    }

    /// Inserts rows, whose places are loaded side by side; says at which it stopped.
    pub fn insert_many(&mut self, rows: &Batch, ids: &mut Vec<RowId>, changes: &mut dyn Changes) -> Write<()> {
        let mut keys = std::mem::take(&mut self.batch_keys);
        keys.resize_with(self.indexes.len() * SIDE_BY_SIDE, RowKey::none);
        let mut parts = (0..rows.len()).step_by(SIDE_BY_SIDE).map(|from| from..rows.len().min(from + SIDE_BY_SIDE));
        let result = parts.try_for_each(|part| self.insert_part(rows, part, &mut keys, ids, changes));
        self.batch_keys = keys;
        result
    }

    fn insert_part(
        &mut self,
        rows: &Batch,
        part: Range<usize>,
        keys: &mut [RowKey],
        ids: &mut Vec<RowId>,
        changes: &mut dyn Changes,
    ) -> Write<()> {
        let width = self.indexes.len();
        let place = |at: usize| (at - part.start) * width..(at - part.start + 1) * width;
        // A key that cannot be made is an error when it is the row's turn.
        let made = |at: usize| self.keys_of(rows.get(at), &mut keys[place(at)]).map_err(|failure| (at, failure));
        let bad = part.clone().map(made).find_map(std::result::Result::err);
        let end = bad.as_ref().map_or(part.end, |(at, _)| *at);
        self.prefetch_buckets(&keys[..(end - part.start) * width]);
        for at in part.start..end {
            let id = self.place(rows.get(at), None, &keys[place(at)]).map_err(|failure| WriteError { at, failure })?;
            changes.inserted(self.def.id, id, rows.get(at));
            ids.push(id);
        }
        bad.map_or(Ok(()), |(at, failure)| Err(WriteError { at, failure }))
    }

    /// Starts loading the buckets of keys, which are given row by row.
    fn prefetch_buckets(&self, keys: &[RowKey]) {
        for (index, live) in self.indexes.iter().enumerate() {
            let LiveMethod::Hash(hash) = &live.method else { continue };
            let keys = keys.iter().skip(index).step_by(self.indexes.len());
            hash.read().prefetch_buckets(keys.map(|key| &key.key[..]));
        }
    }

    /// Inserts a row. On any error nothing has changed.
    pub fn insert(&mut self, row: &[u8], changes: &mut dyn Changes) -> One<RowId> {
        let mut keys = std::mem::take(&mut self.new_keys);
        let result = self.insert_keyed(row, None, &mut keys);
        self.new_keys = keys;
        let id = result?;
        changes.inserted(self.def.id, id, row);
        Ok(id)
    }

    fn insert_keyed(&mut self, row: &[u8], at: Option<RowId>, keys: &mut Vec<RowKey>) -> One<RowId> {
        self.keys_into(row, keys)?;
        self.place(row, at, keys)
    }

    /// Puts a row with these keys into the heap and the indexes.
    fn place(&mut self, row: &[u8], at: Option<RowId>, keys: &[RowKey]) -> One<RowId> {
        self.check_unique(keys, None, None)?;
        let id = match at {
            None => self.heap.insert(row).map_err(WriteFailure::Failed)?,
            Some(id) => {
                self.heap.insert_at(id, row).map_err(WriteFailure::Failed)?;
                id
            }
        };
        // From here on nothing can fail.
        for (index, key) in self.indexes.iter_mut().zip(keys.iter()) {
            if key.is_present() {
                index.insert(&key.key, key.is_exclusive(), id, &self.heap, &self.layout);
            }
        }
        if let Some(recency) = &mut self.recency {
            recency.added(id);
        }
        self.note_change(id, row);
        Ok(id)
    }

    /// Replaces a row. On any error nothing has changed.
    pub fn update(&mut self, id: RowId, row: &[u8], changes: &mut dyn Changes) -> One<()> {
        let old = self.heap.get(id).ok_or(WriteFailure::NoSuchRow(id))?;
        let (before, after) = (Row::new(old, &self.layout), Row::new(row, &self.layout));
        if self.indexes.iter().all(|index| keeps_key(&index.def, before, after)) {
            changes.updated(self.def.id, id, old, row);
            self.replace(id, row);
            return Ok(());
        }
        let (mut old_keys, mut new_keys) = (std::mem::take(&mut self.old_keys), std::mem::take(&mut self.new_keys));
        let result = self.update_keyed(id, row, &mut old_keys, &mut new_keys, changes);
        (self.old_keys, self.new_keys) = (old_keys, new_keys);
        result
    }

    fn update_keyed(
        &mut self,
        id: RowId,
        row: &[u8],
        old_keys: &mut Vec<RowKey>,
        new_keys: &mut Vec<RowKey>,
        changes: &mut dyn Changes,
    ) -> One<()> {
        let old = self.heap.get(id).ok_or(WriteFailure::NoSuchRow(id))?;
        self.changed_keys(old, row, old_keys, new_keys)?;
        self.check_unique(new_keys, Some(old_keys), Some(id))?;
        changes.updated(self.def.id, id, old, row);
        // From here on nothing can fail. Entries are removed while the heap still has the old row to compare, and added
        // when it has the new one.
        let changed = |(old, new): &(&RowKey, &RowKey)| old != new;
        for (index, (old, _)) in
            self.indexes.iter_mut().zip(old_keys.iter().zip(new_keys.iter())).filter(|(_, k)| changed(k))
        {
            if old.is_present() {
                index.remove(&old.key, id, &self.heap, &self.layout);
            }
        }
        self.replace(id, row);
        for (index, (_, new)) in
            self.indexes.iter_mut().zip(old_keys.iter().zip(new_keys.iter())).filter(|(_, k)| changed(k))
        {
            if new.is_present() {
                index.insert(&new.key, new.is_exclusive(), id, &self.heap, &self.layout);
            }
        }
        Ok(())
    }

    /// Puts a row in the place of another. Nothing can fail.
    #[inline]
    fn replace(&mut self, id: RowId, row: &[u8]) {
        self.heap.update(id, row);
        if let Some(recency) = &self.recency {
            recency.used(id);
        }
        self.note_change(id, row);
    }

    /// Deletes a row. On any error nothing has changed.
    pub fn delete(&mut self, id: RowId, changes: &mut dyn Changes) -> One<()> {
        let mut keys = std::mem::take(&mut self.old_keys);
        let result = self.delete_keyed(id, &mut keys, changes);
        self.old_keys = keys;
        result
    }

    fn delete_keyed(&mut self, id: RowId, keys: &mut Vec<RowKey>, changes: &mut dyn Changes) -> One<()> {
        let old = self.heap.get(id).ok_or(WriteFailure::NoSuchRow(id))?;
        self.keys_into(old, keys)?;
        changes.deleted(self.def.id, id, old);
        for (index, key) in self.indexes.iter_mut().zip(keys.iter()) {
            if key.is_present() {
                index.remove(&key.key, id, &self.heap, &self.layout);
            }
        }
        self.heap.delete(id);
        if let Some(recency) = &mut self.recency {
            recency.removed(id);
        }
        self.builds.iter_mut().for_each(|(_, changed)| changed.push(id));
        Ok(())
    }

    /// Performs an operation and returns its inverse.
    pub fn apply(&mut self, op: &RowOp) -> Result<RowOp> {
        self.freeze_for_cursors();
        let id = op.id();
        let mut kept = OldRow::default();
        let result = match op {
            RowOp::Insert { row, .. } => {
                self.layout.check(row)?;
                let mut keys = std::mem::take(&mut self.new_keys);
                let result = self.insert_keyed(row, Some(id), &mut keys);
                self.new_keys = keys;
                result.map(|_| RowOp::Delete { id })
            }
            RowOp::Update { row, .. } => {
                self.layout.check(row)?;
                self.update(id, row, &mut kept).map(|()| RowOp::Update { id, row: kept.0 })
            }
            RowOp::Delete { .. } => self.delete(id, &mut kept).map(|()| RowOp::Insert { id, row: kept.0 }),
        };
        result.map_err(|failure| self.apply_error(id, failure))
    }

    #[cold]
    fn apply_error(&self, id: RowId, failure: WriteFailure) -> Error {
        let table = &self.def.name;
        match failure {
            WriteFailure::Failed(error) => error,
            failure => Error::new(Code::Engine, format!("redo or undo of row {id} of table {table}: {failure:?}")),
        }
    }

    #[inline]
    fn keys_into(&self, row: &[u8], keys: &mut Vec<RowKey>) -> One<()> {
        keys.resize_with(self.indexes.len(), RowKey::none);
        self.keys_of(row, keys)
    }

    /// The keys of a row as it was and as it will be, one for each index; none where they are the same.
    fn changed_keys(&self, old: &[u8], new: &[u8], old_keys: &mut Vec<RowKey>, new_keys: &mut Vec<RowKey>) -> One<()> {
        old_keys.resize_with(self.indexes.len(), RowKey::none);
        new_keys.resize_with(self.indexes.len(), RowKey::none);
        let (old, new) = (Row::new(old, &self.layout), Row::new(new, &self.layout));
        for ((index, old_key), new_key) in self.indexes.iter().zip(old_keys).zip(new_keys) {
            if keeps_key(&index.def, old, new) {
                (old_key.of, new_key.of) = (KeyOf::Absent, KeyOf::Absent);
                continue;
            }
            old_key.of = row_key(&index.def, old, &mut old_key.key).map_err(WriteFailure::Failed)?;
            new_key.of = row_key(&index.def, new, &mut new_key.key).map_err(WriteFailure::Failed)?;
        }
        Ok(())
    }

    /// The keys of a row, one for each index.
    #[inline]
    fn keys_of(&self, row: &[u8], keys: &mut [RowKey]) -> One<()> {
        let row = Row::new(row, &self.layout);
        for (index, key) in self.indexes.iter().zip(keys) {
            key.of = row_key(&index.def, row, &mut key.key).map_err(WriteFailure::Failed)?;
        }
        Ok(())
    }

    /// Looks for another row with one of these keys in a unique index. Keys that a row keeps need no look.
    fn check_unique(&self, keys: &[RowKey], kept: Option<&[RowKey]>, but: Option<RowId>) -> One<()> {
        for (i, (index, key)) in self.indexes.iter().zip(keys).enumerate() {
            if !index.def.unique || !key.is_exclusive() || kept.is_some_and(|kept| kept[i] == *key) {
                continue;
            }
            if index.is_behind_all(&key.key) {
                continue;
            }
            let context = RowKeys { rows: &self.heap, layout: &self.layout, def: &index.def };
            if let Some(existing) = index.read().get(&key.key, &context).filter(|id| Some(*id) != but) {
                return Err(WriteFailure::Duplicate { index: index.def.id, existing });
            }
        }
        Ok(())
    }

    #[inline]
    fn note_change(&mut self, id: RowId, row: &[u8]) {
        self.builds.iter_mut().for_each(|(_, changed)| changed.push(id));
        if let Some(position) = self.autoincrement
            && let DatumRef::Int(value) = Row::new(row, &self.layout).get_likely_number(position)
        {
            self.sequence = self.sequence.max(value);
        }
    }
}

/// Does a row that becomes another keep its key in an index, and its place in it?
#[inline]
fn keeps_key(def: &IndexDef, old: Row<'_>, new: Row<'_>) -> bool {
    let is_same = |position: u16| old.get_likely_number(position) == new.get_likely_number(position);
    def.columns.iter().all(|c| is_same(c.position)) && def.filter.is_none_or(is_same)
}

fn autoincrement_of(def: &TableDef) -> Option<u16> {
    def.columns.iter().find(|c| c.autoincrement).map(|c| c.position)
}

/// Keeps the bytes that a change replaced or removed.
#[derive(Default)]
struct OldRow(Blob);

impl Changes for OldRow {
    fn inserted(&mut self, _: TableId, _: RowId, _: &[u8]) {}
    fn updated(&mut self, _: TableId, _: RowId, old: &[u8], _: &[u8]) {
        self.0 = Blob::from_slice(old);
    }
    fn deleted(&mut self, _: TableId, _: RowId, old: &[u8]) {
        self.0 = Blob::from_slice(old);
    }
}
