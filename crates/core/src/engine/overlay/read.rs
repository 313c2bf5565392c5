//! Reading a view and what was written over it as one.

use super::merge::Walk;
use super::shadow::{Place, Shadows};
use super::{Overlay, Written};
use crate::engine::{Access, Cursor, Edge, IndexStatistics, Read, Source, Statistics};
use crate::error::Result;
use crate::table::batch::Batch;
use crate::table::catalog::{IndexId, Method, TableDef, TableId};
use crate::table::key::{KeyBuf, KeyOf, row_key};
use crate::table::row::{Row, RowLayout};
use crate::table::row_id::RowId;
use std::sync::Arc;

impl Source for Overlay {
    fn definition(&self, table: TableId) -> Result<&Arc<TableDef>> {
        self.check(table)?;
        self.base.definition(table)
    }

    fn layout(&self, table: TableId) -> Result<&Arc<RowLayout>> {
        self.check(table)?;
        self.base.layout(table)
    }

    fn row_count(&self, table: TableId) -> Read<u64> {
        self.check(table)?;
        let base = self.base.row_count(table)?;
        Ok(match self.written_in(table) {
            None => base,
            Some(written) => base - written.shadows.len() as u64 + self.own.row_count(table)?,
        })
    }

    fn get_many(
        &self,
        table: TableId,
        index: IndexId,
        keys: &Batch,
        visit: &mut dyn FnMut(usize, RowId, Row<'_>),
    ) -> Read<()> {
        self.check(table)?;
        let Some(written) = self.written_in(table) else { return self.base.get_many(table, index, keys, visit) };
        let mut found = false;
        self.own.get_many(table, index, keys, &mut |_, _, _| found = true)?;
        let filtered = |keys: &Batch, visit: &mut dyn FnMut(usize, RowId, Row<'_>)| {
            self.base.get_many(table, index, keys, &mut |at, id, row| {
                if !written.is_shadowed(id) {
                    visit(at, id, row);
                }
            })
        };
        if !found {
            return filtered(keys, visit);
        }
        if self.is_ordered(table, index)? {
            return self.get_in_order(table, index, keys, visit);
        }
        for (at, key) in keys.iter().enumerate() {
            let (key, mut images) = (Batch::of(key), Vec::new());
            self.own.get_many(table, index, &key, &mut |_, own, _| images.push((written.id_of(own), own)))?;
            images.sort_unstable();
            let (mut images, mut result) = (images.into_iter().peekable(), Ok(()));
            let mut private = |before: RowId, visit: &mut dyn FnMut(usize, RowId, Row<'_>)| -> Read<()> {
                while let Some((id, own)) = images.next_if(|(id, _)| *id < before) {
                    self.own.rows(table, &[own], &mut |_, row| visit(at, id, row))?;
                }
                Ok(())
            };
            filtered(&key, &mut |_, id, row| {
                if result.is_ok() {
                    result = private(id, visit);
                }
                visit(at, id, row);
            })?;
            result.and_then(|()| private(RowId(u64::MAX), visit))?;
        }
        Ok(())
    }

    fn prefetch(&self, table: TableId, index: IndexId, keys: &Batch) {
        self.base.prefetch(table, index, keys);
    }

    fn rows(&self, table: TableId, ids: &[RowId], visit: &mut dyn FnMut(usize, Row<'_>)) -> Read<()> {
        self.check(table)?;
        let Some(written) = self.written_in(table) else { return self.base.rows(table, ids, visit) };
        for (at, id) in ids.iter().enumerate() {
            match written.place(*id) {
                Place::Base(id) => self.base.rows(table, &[id], &mut |_, row| visit(at, row))?,
                Place::Own(own) => self.own.rows(table, &[own], &mut |_, row| visit(at, row))?,
                Place::Nowhere => {}
            }
        }
        Ok(())
    }

    fn seek(&self, cursor: &mut Cursor, table: TableId, access: &Access<'_>) -> Read<bool> {
        self.check(table)?;
        cursor.close();
        let Some(written) = self.written_in(table) else { return self.base.seek(cursor, table, access) };
        cursor.table = Some(table);
        let mut walk = Box::new(Walk::begin(self, table, written, access)?);
        let found = walk.stand(self, table)?;
        show(cursor, &walk, found);
        if found {
            cursor.foreign = Some(walk);
        }
        Ok(found)
    }

    fn next(&self, cursor: &mut Cursor) -> Read<bool> {
        if !cursor.foreign.as_ref().is_some_and(|walk| walk.is::<Walk>()) {
            return self.base.next(cursor);
        }
        let table = cursor.table();
        let mut foreign = cursor.foreign.take();
        let mut found = false;
        if let Some(walk) = foreign.as_mut().and_then(|walk| walk.downcast_mut::<Walk>()) {
            walk.step(self)?;
            found = walk.stand(self, table)?;
            show(cursor, walk, found);
        }
        cursor.foreign = foreign.filter(|_| found);
        Ok(found)
    }

    fn skip(&self, cursor: &mut Cursor, rows: u64) -> Read<bool> {
        if !cursor.foreign.as_ref().is_some_and(|walk| walk.is::<Walk>()) {
            return self.base.skip(cursor, rows);
        }
        for _ in 0..rows {
            if !self.next(cursor)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn row<'a>(&'a self, cursor: &'a Cursor) -> Row<'a> {
        match cursor.foreign.as_ref().and_then(|walk| walk.downcast_ref::<Walk>()) {
            None => self.base.row(cursor),
            Some(walk) => walk.row(self),
        }
    }

    fn count(&self, table: TableId, index: IndexId, from: Edge<'_>, to: Edge<'_>) -> Read<u64> {
        self.check(table)?;
        let base = self.base.count(table, index, from, to)?;
        let Some(written) = self.written_in(table) else { return Ok(base) };
        let hidden = self.count_shadowed(table, index, &written.shadows, from, to)?;
        Ok(base - hidden + self.own.count(table, index, from, to)?)
    }

    fn statistics(&self, table: TableId) -> Read<Arc<Statistics>> {
        self.check(table)?;
        let base = self.base.statistics(table)?;
        if self.written_in(table).is_none() {
            return Ok(base);
        }
        let own = self.own.statistics(table)?;
        // A few rows more do not change any plan.
        if own.rows <= base.rows / 8 {
            return Ok(base);
        }
        let indexes = base.indexes.iter().zip(&own.indexes).map(|(base, own)| IndexStatistics {
            id: base.id,
            entries: base.entries + own.entries,
            distinct: base.distinct.iter().zip(&own.distinct).map(|(a, b)| a + b).collect(),
        });
        Ok(Arc::new(Statistics { rows: base.rows + own.rows, indexes: indexes.collect() }))
    }
}

impl Overlay {
    fn is_ordered(&self, table: TableId, index: IndexId) -> Read<bool> {
        match self.base.definition(table)?.index(index) {
            Some(index) => Ok(index.method == Method::Ordered),
            // The view says what is wrong with it.
            None => self.base.get_many(table, index, &Batch::new(), &mut |_, _, _| {}).map(|()| false),
        }
    }

    /// `get_many` of an ordered index in which private rows have some of the keys: a key may be the start of keys.
    fn get_in_order(
        &self,
        table: TableId,
        index: IndexId,
        keys: &Batch,
        visit: &mut dyn FnMut(usize, RowId, Row<'_>),
    ) -> Read<()> {
        let mut cursor = Cursor::new();
        for (at, key) in keys.iter().enumerate() {
            let (from, to) = (Edge::Before(key), Edge::After(key));
            let access = Access::Range { index, from, to, reverse: false, keys_only: false };
            let mut more = self.seek(&mut cursor, table, &access)?;
            while more {
                visit(at, cursor.row_id(), self.row(&cursor));
                more = self.next(&mut cursor)?;
            }
        }
        Ok(())
    }

    /// Of the rows shadowed, those whose key lies between two edges.
    fn count_shadowed(
        &self,
        table: TableId,
        index: IndexId,
        shadows: &Shadows,
        from: Edge<'_>,
        to: Edge<'_>,
    ) -> Read<u64> {
        let Some(index) = self.base.definition(table)?.index(index) else { return Ok(0) };
        let (mut hidden, mut failed, mut key) = (0, None, KeyBuf::new());
        let ids: Vec<RowId> = shadows.keys().copied().collect();
        self.base.rows(table, &ids, &mut |_, row| match row_key(index, row, &mut key) {
            Ok(KeyOf::Absent) => {}
            Ok(KeyOf::Key { .. }) => hidden += u64::from(is_behind(&key, from, true) && !is_behind(&key, to, false)),
            Err(error) => failed = Some(error),
        })?;
        failed.map_or(Ok(hidden), |error| Err(error.into()))
    }
}

/// Lets the cursor show where a walk stands.
fn show(cursor: &mut Cursor, walk: &Walk, found: bool) {
    if !found {
        return cursor.close();
    }
    cursor.clear();
    cursor.ids.push(walk.id());
    if let Some(key) = walk.key() {
        cursor.keys.push(key);
    }
}

/// Does a key lie behind an edge? An open one lies before everything if it begins a range, behind everything if it ends
/// it.
fn is_behind(key: &[u8], edge: Edge<'_>, begins: bool) -> bool {
    match edge {
        Edge::Open => begins,
        Edge::Before(edge) => key >= edge,
        Edge::After(edge) => key > edge && !key.starts_with(edge),
    }
}

/// The rows that an access path by id leads to, by id: those of the view are `written`'s to filter.
pub(super) fn own_by_id(
    overlay: &Overlay,
    table: TableId,
    written: &Written,
    from: RowId,
) -> Read<Vec<(RowId, RowId)>> {
    let own = overlay.own_rows(table)?;
    let mut ids: Vec<(RowId, RowId)> = own.into_iter().map(|own| (written.id_of(own), own)).collect();
    ids.retain(|(id, _)| *id >= from);
    ids.sort_unstable();
    Ok(ids)
}
