//! Reading a table, live or as a view has it: the one code for both.

use crate::ds::btree::{BTree, Entry, Probe};
use crate::engine::cursor::{After, EdgeKind, KeysRest, RangeRest, Rest};
use crate::engine::{Access, Cursor, Edge, IndexStatistics, RowBytes, Statistics};
use crate::error::{Code, Error, Result};
use crate::index::{HashRead, RowKeys, estimate_distinct, probe_of};
use crate::table::batch::Batch;
use crate::table::catalog::{IndexDef, IndexId, TableDef};
use crate::table::heap::Rows;
use crate::table::row::{Row, RowLayout};
use crate::table::row_id::RowId;
use std::sync::Arc;

/// Rows or keys looked up side by side.
const SIDE_BY_SIDE: usize = 32;
/// Row ids gathered at once when nothing is known of how many are wanted.
const GATHERED: usize = 256;

/// A table that can be read.
pub(super) trait Readable {
    fn def(&self) -> &Arc<TableDef>;
    fn layout(&self) -> &Arc<RowLayout>;
    fn rows(&self) -> &Rows;
    fn indexes(&self) -> impl Iterator<Item = IndexRead<'_>>;

    fn index(&self, id: IndexId) -> Result<IndexRead<'_>> {
        self.indexes().find(|i| i.def.id == id).ok_or_else(|| no_such_index(self.def(), id))
    }
}

/// An index that can be read.
#[derive(Clone, Copy)]
pub(super) struct IndexRead<'a> {
    pub def: &'a IndexDef,
    pub method: MethodRead<'a>,
}

#[derive(Clone, Copy)]
pub(super) enum MethodRead<'a> {
    Hash(HashRead<'a>),
    Ordered(&'a BTree),
}

#[cold]
fn no_such_index(def: &TableDef, id: IndexId) -> Error {
    Error::new(Code::Engine, format!("table {} has no index number {}", def.name, id.0))
}

#[cold]
fn not_ordered(def: &IndexDef) -> Error {
    Error::new(Code::Engine, format!("index {} is a hash index, which answers only equality", def.name))
}

impl<'a> IndexRead<'a> {
    fn ordered(&self) -> Result<&'a BTree> {
        match self.method {
            MethodRead::Ordered(tree) => Ok(tree),
            MethodRead::Hash(_) => Err(not_ordered(self.def)),
        }
    }

    /// One of the rows with a key.
    #[inline]
    pub fn get(&self, key: &[u8], keys: &RowKeys<'_>) -> Option<RowId> {
        match self.method {
            MethodRead::Hash(hash) => hash.get(key, keys),
            MethodRead::Ordered(tree) => tree.get(key).map(RowId),
        }
    }

    /// Visits all rows with a key; in an ordered index the key may be the start of keys.
    #[inline]
    fn rows_of(&self, key: &[u8], keys: &RowKeys<'_>, mut visit: impl FnMut(RowId)) {
        match self.method {
            MethodRead::Hash(hash) => {
                hash.rows_after(key, None, usize::MAX, keys, visit);
            }
            MethodRead::Ordered(tree) => {
                tree.cursor(&Probe::before(key)).walk(&Probe::after(key), usize::MAX, |e| visit(RowId(e.value)));
            }
        }
    }

    /// Appends the rows with a key, at most `limit`, those after `after` if it says so. True if that was all; otherwise
    /// `after` says where to go on. In an ordered index the key may be the start of keys.
    fn gather(
        &self,
        key: &[u8],
        after: &mut Option<After>,
        limit: usize,
        keys: &RowKeys<'_>,
        ids: &mut Vec<RowId>,
    ) -> bool {
        match self.method {
            MethodRead::Hash(hash) => {
                let from = after.take().map(|after| after.id);
                let all = hash.rows_after(key, from, limit, keys, |id| ids.push(id));
                if let (false, Some(id)) = (all, ids.last()) {
                    *after = Some(After { key: Vec::new(), id: *id });
                }
                all
            }
            MethodRead::Ordered(tree) => {
                let done = after.take();
                let from = done.as_ref().map_or(Probe::before(key), |done| Probe::at(&done.key, done.id.0 + 1));
                let mut last = None;
                let visit = remember(&mut last, |entry| ids.push(RowId(entry.value)));
                let all = tree.cursor(&from).walk(&Probe::after(key), limit, visit);
                if let (false, Some(entry)) = (all, last) {
                    *after = Some(After { key: entry.key(), id: RowId(entry.value) });
                }
                all
            }
        }
    }
}

fn row_keys<'a, T: Readable>(table: &'a T, def: &'a IndexDef) -> RowKeys<'a> {
    RowKeys { rows: table.rows(), layout: table.layout(), def }
}

/// Starts loading what looking up these keys will touch.
pub(super) fn prefetch<T: Readable>(table: &T, index: IndexId, keys: &Batch) {
    let Ok(index) = table.index(index) else { return };
    if let MethodRead::Hash(hash) = index.method {
        let context = row_keys(table, index.def);
        for from in (0..keys.len()).step_by(SIDE_BY_SIDE) {
            hash.prefetch((from..keys.len().min(from + SIDE_BY_SIDE)).map(|i| keys.get(i)), &context);
        }
    }
}

pub(super) fn get_many<T: Readable>(
    table: &T,
    index: IndexId,
    keys: &Batch,
    visit: &mut dyn FnMut(usize, RowId, Row<'_>),
) -> Result<()> {
    let index = table.index(index)?;
    let context = row_keys(table, index.def);
    let mut ids = smallvec::SmallVec::<[RowId; 16]>::new();
    for from in (0..keys.len()).step_by(SIDE_BY_SIDE) {
        let to = keys.len().min(from + SIDE_BY_SIDE);
        if let (MethodRead::Hash(hash), true) = (index.method, to - from > 1) {
            hash.prefetch((from..to).map(|i| keys.get(i)), &context);
        }
        for i in from..to {
            // A key that no row shares: the row is read once, where the key is compared.
            if let MethodRead::Hash(hash) = index.method
                && let Some(found) = hash.only_row(keys.get(i), &context)
            {
                found.into_iter().for_each(|(id, row)| visit(i, id, row));
                continue;
            }
            ids.clear();
            index.rows_of(keys.get(i), &context, |id| ids.push(id));
            for id in &ids {
                visit(i, *id, row_of(table, *id));
            }
        }
    }
    Ok(())
}

pub(super) fn rows<T: Readable>(table: &T, ids: &[RowId], visit: &mut dyn FnMut(usize, Row<'_>)) {
    for (chunk, part) in ids.chunks(SIDE_BY_SIDE).enumerate() {
        table.rows().prefetch(part);
        for (i, id) in part.iter().enumerate() {
            if let Some(bytes) = table.rows().get(*id) {
                visit(chunk * SIDE_BY_SIDE + i, Row::new(bytes, table.layout()));
            }
        }
    }
}

/// The row of an id that an index or the heap itself gave.
#[inline]
pub(super) fn row_of<T: Readable>(table: &T, id: RowId) -> Row<'_> {
    match table.rows().get(id) {
        Some(bytes) => Row::new(bytes, table.layout()),
        None => panic!("invariant 3: row {id} of table {} is not in the heap", table.def().name),
    }
}

/// Puts a cursor on the first row of an access path.
pub(super) fn seek<T: Readable>(table: &T, cursor: &mut Cursor, access: &Access<'_>) -> Result<bool> {
    cursor.clear();
    cursor.rest = Rest::Done;
    match *access {
        Access::All => cursor.rest = Rest::Scan { next: RowId(0) },
        Access::From(id) if id >= RowId::END => {}
        Access::From(id) => cursor.rest = Rest::Scan { next: id },
        Access::Rows(ids) => {
            let rows = ids.iter().filter_map(|id| Some((*id, RowBytes::of(table.rows().get(*id)?))));
            rows.for_each(|(id, row)| {
                cursor.ids.push(id);
                cursor.rows.push(row);
            });
        }
        Access::Keys { index, keys } => {
            let rest = gather_keys(table, index, keys, 0, None, &mut cursor.ids)?;
            lay_at_hand(table, cursor);
            if let Some((next, after)) = rest {
                // Only a long list is copied, to be gone on with later.
                let mut rest = Batch::new();
                (next..keys.len()).for_each(|i| rest.push(keys.get(i)));
                cursor.rest = Rest::Keys(Box::new(KeysRest { index, keys: rest, next: 0, after }));
            }
        }
        Access::Range { index, from, to, reverse, keys_only } => {
            let mut rest =
                Box::new(RangeRest { index: Some(index), reverse, keys_only, batch: 16, ..Default::default() });
            rest.from_kind = keep_edge(from, &mut rest.from);
            rest.to_kind = keep_edge(to, &mut rest.to);
            cursor.rest = Rest::Range(rest);
        }
    }
    if cursor.ids.is_empty() { refill(table, cursor) } else { Ok(true) }
}

fn keep_edge(edge: Edge<'_>, kept: &mut Vec<u8>) -> EdgeKind {
    let (kind, key): (_, &[u8]) = match edge {
        Edge::Open => (EdgeKind::Open, &[]),
        Edge::Before(key) => (EdgeKind::Before, key),
        Edge::After(key) => (EdgeKind::After, key),
    };
    kept.extend_from_slice(key);
    kind
}

/// Moves a cursor to the next row.
#[inline]
pub(super) fn next<T: Readable>(table: &T, cursor: &mut Cursor) -> Result<bool> {
    cursor.at += 1;
    if cursor.at < cursor.ids.len() { Ok(true) } else { refill(table, cursor) }
}

/// Fetches the next rows of a cursor that has used up those at hand; closes it if there are none.
fn refill<T: Readable>(table: &T, cursor: &mut Cursor) -> Result<bool> {
    cursor.clear();
    match std::mem::take(&mut cursor.rest) {
        Rest::Done => {}
        Rest::Scan { next } => {
            let (ids, rows) = (&mut cursor.ids, &mut cursor.rows);
            let next = table.rows().page_from(next, |id, row| {
                ids.push(id);
                rows.push(RowBytes::of(row));
            });
            cursor.rest = next.map_or(Rest::Done, |next| Rest::Scan { next });
        }
        Rest::Keys(mut rest) => {
            let left = gather_keys(table, rest.index, &rest.keys, rest.next, rest.after, &mut cursor.ids)?;
            lay_at_hand(table, cursor);
            if let Some((next, after)) = left {
                (rest.next, rest.after) = (next, after);
                cursor.rest = Rest::Keys(rest);
            }
        }
        Rest::Range(mut rest) => {
            let ended = walk_range(table, &mut rest, &mut cursor.ids, &mut cursor.keys)?;
            if !rest.keys_only {
                table.rows().prefetch(&cursor.ids);
                lay_at_hand(table, cursor);
            }
            if !ended {
                cursor.rest = Rest::Range(rest);
            }
        }
    }
    if cursor.ids.is_empty() {
        cursor.close();
        return Ok(false);
    }
    Ok(true)
}

/// Finds where the rows lie whose ids were gathered.
fn lay_at_hand<T: Readable>(table: &T, cursor: &mut Cursor) {
    let Cursor { ids, rows, .. } = cursor;
    rows.extend(ids.iter().map(|id| RowBytes::of(row_of(table, *id).bytes())));
}

/// Appends the rows of some keys, from number `next` and there from `after` on, until enough are gathered. Returns where
/// to go on; `None` at the end.
fn gather_keys<T: Readable>(
    table: &T,
    index: IndexId,
    keys: &Batch,
    next: usize,
    mut after: Option<After>,
    ids: &mut Vec<RowId>,
) -> Result<Option<(usize, Option<After>)>> {
    let index = table.index(index)?;
    let context = row_keys(table, index.def);
    for i in next..keys.len() {
        if let (MethodRead::Hash(hash), 0, 2..) = (index.method, (i - next) % SIDE_BY_SIDE, keys.len() - i) {
            hash.prefetch((i..keys.len().min(i + SIDE_BY_SIDE)).map(|i| keys.get(i)), &context);
        }
        if !index.gather(keys.get(i), &mut after, GATHERED, &context, ids) {
            return Ok(Some((i, after)));
        }
        if ids.len() >= GATHERED {
            return Ok((i + 1 < keys.len()).then_some((i + 1, None)));
        }
    }
    Ok(None)
}

/// Appends the next rows of an index range; true if they were the last.
fn walk_range<T: Readable>(table: &T, rest: &mut RangeRest, ids: &mut Vec<RowId>, keys: &mut Batch) -> Result<bool> {
    let Some(index) = rest.index else { return Ok(true) };
    let tree = table.index(index)?.ordered()?;
    let from = edge_probe(rest.from_kind, &rest.from, false);
    let to = edge_probe(rest.to_kind, &rest.to, true);
    let mut last: Option<Entry<'_>> = None;
    let visit = |entry: Entry<'_>| {
        ids.push(RowId(entry.value));
        if rest.keys_only {
            let _ = keys.write(|out| {
                entry.key_into(out);
                Ok::<(), ()>(())
            });
        }
    };
    let ended = if rest.reverse {
        let start = rest.last.map_or(to, |id| Probe::at(&rest.to, id.0));
        tree.cursor(&start).walk_back(&from, rest.batch, remember(&mut last, visit))
    } else {
        let start = rest.last.map_or(from, |id| Probe::at(&rest.from, id.0 + 1));
        tree.cursor(&start).walk(&to, rest.batch, remember(&mut last, visit))
    };
    if let (Some(entry), false) = (last, ended) {
        // The walk goes on next to this entry: its key takes the place of the edge that is done with.
        let edge = if rest.reverse { &mut rest.to } else { &mut rest.from };
        edge.clear();
        entry.key_into(edge);
        rest.last = Some(RowId(entry.value));
        rest.batch = (rest.batch * 4).min(GATHERED);
    }
    Ok(ended)
}

/// Moves a cursor over rows without visiting them, where an index can count them.
pub(super) fn skip<T: Readable>(table: &T, cursor: &mut Cursor, rows: u64) -> Result<bool> {
    let at_hand = (cursor.ids.len() - 1 - cursor.at) as u64;
    if rows <= at_hand {
        cursor.at += rows as usize;
        return Ok(true);
    }
    if let Rest::Range(rest) = &mut cursor.rest {
        jump(table, rest, rows - at_hand - 1)?;
        return refill(table, cursor);
    }
    for _ in 0..rows {
        if !next(table, cursor)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Takes so many entries off the rest of a range.
fn jump<T: Readable>(table: &T, rest: &mut RangeRest, entries: u64) -> Result<()> {
    let Some(index) = rest.index.filter(|_| entries > 0) else { return Ok(()) };
    let tree = table.index(index)?.ordered()?;
    let from = edge_probe(rest.from_kind, &rest.from, false);
    let to = edge_probe(rest.to_kind, &rest.to, true);
    // The entry that is passed last takes the place of the edge, as at the end of a batch.
    let last = if rest.reverse {
        let end = tree.rank(&rest.last.map_or(to, |id| Probe::at(&rest.to, id.0)));
        end.checked_sub(entries).filter(|rank| *rank >= tree.rank(&from))
    } else {
        let start = tree.rank(&rest.last.map_or(from, |id| Probe::at(&rest.from, id.0 + 1)));
        Some(start + entries - 1).filter(|rank| *rank < tree.rank(&to))
    };
    match last.and_then(|rank| tree.cursor_at(rank).next()) {
        None => *rest = RangeRest::default(),
        Some(entry) => {
            let edge = if rest.reverse { &mut rest.to } else { &mut rest.from };
            edge.clear();
            entry.key_into(edge);
            rest.last = Some(RowId(entry.value));
        }
    }
    Ok(())
}

fn remember<'t>(last: &mut Option<Entry<'t>>, mut visit: impl FnMut(Entry<'t>)) -> impl FnMut(Entry<'t>) {
    move |entry| {
        *last = Some(entry);
        visit(entry);
    }
}

fn edge_probe(kind: EdgeKind, key: &[u8], is_end: bool) -> Probe<'_> {
    match kind {
        EdgeKind::Open => probe_of(None, is_end),
        EdgeKind::Before => probe_of(Some(key), false),
        EdgeKind::After => probe_of(Some(key), true),
    }
}

pub(super) fn count<T: Readable>(table: &T, index: IndexId, from: Edge<'_>, to: Edge<'_>) -> Result<u64> {
    let tree = table.index(index)?.ordered()?;
    let probe = |edge, is_end| match edge {
        Edge::Open => probe_of(None, is_end),
        Edge::Before(key) => probe_of(Some(key), false),
        Edge::After(key) => probe_of(Some(key), true),
    };
    Ok(tree.count(&probe(from, false), &probe(to, true)))
}

pub(super) fn statistics<T: Readable>(table: &T) -> Statistics {
    let indexes = table.indexes().map(|index| match index.method {
        MethodRead::Hash(hash) => {
            IndexStatistics { id: index.def.id, entries: hash.len(), distinct: vec![hash.distinct()] }
        }
        MethodRead::Ordered(tree) => {
            IndexStatistics { id: index.def.id, entries: tree.len(), distinct: estimate_distinct(tree, index.def) }
        }
    });
    Statistics { rows: table.rows().count(), indexes: indexes.collect() }
}
