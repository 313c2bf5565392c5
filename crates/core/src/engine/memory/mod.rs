//! The memory engine: tables whose rows and indexes live in memory, with views at constant cost.

mod build;
mod read;
mod recency;
mod table;
mod view;

use super::{
    Access, Capabilities, Changes, Cursor, Edge, Engine, Fetched, IndexBuild, Kept, Read, RowOp, Source, Statistics,
    TableMemory, View, Wanted, Write, WriteError, no_such_table,
};
use crate::error::{Code, Error, Result};
use crate::table::batch::Batch;
use crate::table::catalog::{IndexDef, IndexId, TableDef, TableId};
use crate::table::row::{Row, RowLayout};
use crate::table::row_id::RowId;
use build::Build;
use std::sync::Arc;
use table::{LiveIndex, Table};
use view::MemoryView;

/// The memory engine.
#[derive(Default)]
pub struct Memory {
    /// Sorted by id.
    tables: Vec<(TableId, Box<Table>)>,
    /// Tables with slots to be released.
    deleted_from: Vec<TableId>,
    /// Bytes that tables now gone had copied.
    copied_before: u64,
}

/// A view of no tables.
pub(super) fn no_tables() -> Arc<dyn View> {
    Arc::new(MemoryView::of(Vec::new()))
}

/// What was dropped, to be restored.
enum Dropped {
    Table(Box<Table>),
    Index(TableId, usize, Box<LiveIndex>),
}

impl Memory {
    /// An engine without tables.
    pub fn new() -> Memory {
        Memory::default()
    }

    #[inline]
    fn place(&self, id: TableId) -> Result<usize> {
        self.tables.binary_search_by_key(&id, |(id, _)| *id).map_err(|_| no_such_table(id))
    }

    /// The table that a cursor was opened on, in most cases where it was then.
    #[inline]
    fn table_of(&self, cursor: &Cursor) -> Option<&Table> {
        match self.tables.get(cursor.place) {
            Some((id, table)) if *id == cursor.table() => Some(table),
            _ => self.table(cursor.table()).ok(),
        }
    }

    #[inline]
    fn table(&self, id: TableId) -> Result<&Table> {
        Ok(&self.tables[self.place(id)?].1)
    }

    #[inline]
    fn table_mut(&mut self, id: TableId) -> Result<&mut Table> {
        let place = self.place(id)?;
        Ok(&mut self.tables[place].1)
    }

    /// The table for a write: cursors that are open on it are given a view.
    #[inline]
    fn table_to_write(&mut self, id: TableId) -> Result<&mut Table> {
        let table = self.table_mut(id)?;
        table.freeze_for_cursors();
        Ok(table)
    }

    fn take_table(&mut self, id: TableId) -> Result<Box<Table>> {
        self.table_to_write(id)?;
        let place = self.place(id)?;
        let table = self.tables.remove(place).1;
        self.copied_before += table.copied();
        Ok(table)
    }

    fn put_table(&mut self, table: Box<Table>) -> Result<()> {
        let id = table.def.id;
        match self.tables.binary_search_by_key(&id, |(id, _)| *id) {
            Ok(_) => Err(Error::new(Code::Engine, format!("table {} exists already", table.def.name))),
            Err(place) => {
                self.tables.insert(place, (id, table));
                Ok(())
            }
        }
    }
}

/// Performs one write of a batch after another; says at which it stopped.
fn write_each<T>(
    items: impl Iterator<Item = T>,
    mut write: impl FnMut(T) -> std::result::Result<(), super::WriteFailure>,
) -> Write<()> {
    for (at, item) in items.enumerate() {
        write(item).map_err(|failure| WriteError { at, failure })?;
    }
    Ok(())
}

impl Source for Memory {
    fn definition(&self, table: TableId) -> Result<&Arc<TableDef>> {
        Ok(&self.table(table)?.def)
    }

    fn layout(&self, table: TableId) -> Result<&Arc<RowLayout>> {
        Ok(&self.table(table)?.layout)
    }

    fn row_count(&self, table: TableId) -> Read<u64> {
        Ok(self.table(table)?.heap.count())
    }

    fn get_many(
        &self,
        table: TableId,
        index: IndexId,
        keys: &Batch,
        visit: &mut dyn FnMut(usize, RowId, Row<'_>),
    ) -> Read<()> {
        let table = self.table(table)?;
        let Some(recency) = &table.recency else { return Ok(read::get_many(table, index, keys, visit)?) };
        let visit = &mut |at: usize, id: RowId, row: Row<'_>| {
            recency.used(id);
            visit(at, id, row);
        };
        Ok(read::get_many(table, index, keys, visit)?)
    }

    fn prefetch(&self, table: TableId, index: IndexId, keys: &Batch) {
        if let Ok(table) = self.table(table) {
            read::prefetch(table, index, keys);
        }
    }

    fn rows(&self, table: TableId, ids: &[RowId], visit: &mut dyn FnMut(usize, Row<'_>)) -> Read<()> {
        read::rows(self.table(table)?, ids, visit);
        Ok(())
    }

    fn seek(&self, cursor: &mut Cursor, id: TableId, access: &Access<'_>) -> Read<bool> {
        let place = self.place(id)?;
        let table = &*self.tables[place].1;
        cursor.attach(id, &table.gate);
        cursor.place = place;
        let found = read::seek(table, cursor, access);
        if let (Some(recency), Access::Keys { .. }) = (&table.recency, access) {
            cursor.ids.iter().for_each(|id| recency.used(*id));
        }
        if found.is_err() {
            cursor.close();
        }
        Ok(found?)
    }

    #[inline]
    fn next(&self, cursor: &mut Cursor) -> Read<bool> {
        // A row at hand is the next one, whether the table was written meanwhile or not.
        if cursor.at + 1 < cursor.ids.len() {
            cursor.at += 1;
            return Ok(true);
        }
        match cursor.frozen().cloned() {
            None => Ok(read::next(self.table(cursor.table())?, cursor)?),
            Some(view) => view.next(cursor),
        }
    }

    fn skip(&self, cursor: &mut Cursor, rows: u64) -> Read<bool> {
        match cursor.frozen().cloned() {
            None => Ok(read::skip(self.table(cursor.table())?, cursor, rows)?),
            Some(view) => view.skip(cursor, rows),
        }
    }

    #[inline]
    fn row<'a>(&'a self, cursor: &'a Cursor) -> Row<'a> {
        if let Some(view) = cursor.frozen() {
            return view.row(cursor);
        }
        match self.table_of(cursor) {
            Some(table) => read::row_of(table, cursor.row_id()),
            None => panic!("a cursor of another engine: it is open on table {}", cursor.table().0),
        }
    }

    fn count(&self, table: TableId, index: IndexId, from: Edge<'_>, to: Edge<'_>) -> Read<u64> {
        Ok(read::count(self.table(table)?, index, from, to)?)
    }

    fn statistics(&self, table: TableId) -> Read<Arc<Statistics>> {
        Ok(self.table(table)?.statistics())
    }
}

impl Engine for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::VIEWS | Capabilities::ORDER
    }

    fn create_table(&mut self, def: &Arc<TableDef>) -> Result<()> {
        def.check()?;
        self.put_table(Box::new(Table::new(def)))
    }

    fn drop_table(&mut self, table: TableId) -> Result<Kept> {
        Ok(Kept(Box::new(Dropped::Table(self.take_table(table)?))))
    }

    fn truncate_table(&mut self, table: TableId) -> Result<Kept> {
        let old = self.take_table(table)?;
        let mut empty = Table::new(&old.def);
        empty.sequence = old.sequence;
        self.put_table(Box::new(empty))?;
        Ok(Kept(Box::new(Dropped::Table(old))))
    }

    fn restore(&mut self, kept: Kept, def: &Arc<TableDef>) -> Result<()> {
        let foreign = || Error::new(Code::Bug, "memory: what is to be restored is another engine's");
        match *kept.0.downcast::<Dropped>().map_err(|_| foreign())? {
            Dropped::Table(mut table) => {
                if self.place(table.def.id).is_ok() {
                    self.take_table(table.def.id)?;
                }
                table.alter(def);
                self.put_table(table)
            }
            Dropped::Index(id, place, index) => {
                let table = self.table_to_write(id)?;
                table.indexes.insert(place.min(table.indexes.len()), *index);
                table.alter(def);
                Ok(())
            }
        }
    }

    fn alter_table(&mut self, def: &Arc<TableDef>) -> Result<()> {
        def.check()?;
        self.table_to_write(def.id)?.alter(def);
        Ok(())
    }

    fn begin_index(&mut self, table: TableId, index: &IndexDef) -> Result<Box<dyn IndexBuild>> {
        let table = self.table_mut(table)?;
        table.builds.push((index.id, Vec::new()));
        Ok(Box::new(Build::new(table, index)))
    }

    fn finish_index(&mut self, build: Box<dyn IndexBuild>, def: &Arc<TableDef>) -> Result<()> {
        let foreign = || Error::new(Code::Bug, "memory: the index to be finished is another engine's");
        let build = build.into_any().downcast::<Build>().map_err(|_| foreign())?;
        let table = self.table_to_write(build.table)?;
        let place = table.builds.iter().position(|(id, _)| *id == build.def.id);
        let Some(place) = place else {
            // The table was emptied or replaced meanwhile.
            return Err(Error::new(
                Code::Engine,
                format!("index {}: its table is not the same any more", build.def.name),
            ));
        };
        let (_, changed) = table.builds.remove(place);
        let index = build.finish(table, changed)?;
        // The order of the definition's indexes is that of the table's.
        let place = def.indexes.iter().position(|i| i.id == index.def.id).unwrap_or(table.indexes.len());
        table.indexes.insert(place.min(table.indexes.len()), index);
        table.alter(def);
        Ok(())
    }

    fn abandon_index(&mut self, build: Box<dyn IndexBuild>) {
        let id = build.index().id;
        for (_, table) in &mut self.tables {
            table.builds.retain(|(build, _)| *build != id);
        }
    }

    fn drop_index(&mut self, index: IndexId, def: &Arc<TableDef>) -> Result<Kept> {
        let table = self.table_to_write(def.id)?;
        let Some(place) = table.indexes.iter().position(|i| i.def.id == index) else {
            return Err(Error::new(Code::Engine, format!("table {} has no index number {}", def.name, index.0)));
        };
        let dropped = table.indexes.remove(place);
        table.alter(def);
        Ok(Kept(Box::new(Dropped::Index(def.id, place, Box::new(dropped)))))
    }

    fn insert(&mut self, table: TableId, rows: &Batch, ids: &mut Vec<RowId>, changes: &mut dyn Changes) -> Write<()> {
        let table = self.table_to_write(table)?;
        if rows.len() == 1 {
            return write_each(rows.iter(), |row| table.insert(row, changes).map(|id| ids.push(id)));
        }
        ids.reserve(rows.len());
        table.insert_many(rows, ids, changes)
    }

    fn update(&mut self, table: TableId, ids: &[RowId], rows: &Batch, changes: &mut dyn Changes) -> Write<()> {
        assert_eq!(ids.len(), rows.len(), "a row for each id");
        let table = self.table_to_write(table)?;
        write_each(ids.iter().zip(rows.iter()), |(id, row)| table.update(*id, row, changes))
    }

    fn delete(&mut self, table: TableId, ids: &[RowId], changes: &mut dyn Changes) -> Write<()> {
        let id = table;
        let table = self.table_to_write(id)?;
        let result = write_each(ids.iter(), |id| table.delete(*id, changes));
        self.note_deletes(id);
        result
    }

    fn next_to_go(&mut self, table: TableId) -> Result<Option<RowId>> {
        Ok(self.table_mut(table)?.next_to_go())
    }

    fn apply(&mut self, table: TableId, op: &RowOp) -> Result<RowOp> {
        let inverse = self.table_mut(table)?.apply(op)?;
        if matches!(op, RowOp::Delete { .. }) {
            self.note_deletes(table);
        }
        Ok(inverse)
    }

    fn scope_end(&mut self) {
        for id in std::mem::take(&mut self.deleted_from) {
            if let Ok(table) = self.table_mut(id) {
                table.heap.release();
            }
        }
    }

    fn sequence(&self, table: TableId) -> Result<i64> {
        Ok(self.table(table)?.sequence)
    }

    fn raise_sequence(&mut self, table: TableId, value: i64) -> Result<()> {
        let table = self.table_mut(table)?;
        table.sequence = table.sequence.max(value);
        Ok(())
    }

    fn restore_sequence(&mut self, table: TableId, value: i64) -> Result<()> {
        self.table_mut(table)?.sequence = value;
        Ok(())
    }

    fn view(&mut self, tables: &[TableId]) -> Result<Arc<dyn View>> {
        let tables = tables.iter().map(|id| Ok((*id, self.table_mut(*id)?.view()))).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(MemoryView::of(tables)))
    }

    fn view_of_rows(&mut self, tables: &[TableId]) -> Result<Arc<dyn View>> {
        let tables = tables.iter().map(|id| Ok((*id, self.table(*id)?.view_of_rows()))).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(MemoryView::of(tables)))
    }

    fn load(&mut self, table: TableId, rows: &[(RowId, &[u8])]) -> Result<()> {
        let table = self.table_to_write(table)?;
        rows.iter().try_for_each(|(id, row)| table.load(*id, row))
    }

    fn copied_bytes(&self) -> u64 {
        self.copied_before + self.tables.iter().map(|(_, table)| table.copied()).sum::<u64>()
    }

    fn memory(&self, table: TableId) -> Result<TableMemory> {
        Ok(self.table(table)?.memory())
    }

    fn fetch(&self, wanted: &Wanted) -> Box<dyn FnOnce() -> Result<Fetched> + Send> {
        let table = wanted.table;
        Box::new(move || Err(Error::new(Code::Bug, format!("memory: nothing to fetch for table {}", table.0))))
    }

    fn admit(&mut self, _: Fetched) {}
}

impl Memory {
    fn note_deletes(&mut self, table: TableId) {
        if self.deleted_from.last() != Some(&table) {
            self.deleted_from.push(table);
        }
    }
}
