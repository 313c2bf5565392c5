//! Tables as they were at one instant, read in any thread.

use super::read::{self, IndexRead, MethodRead, Readable};
use crate::ds::btree::BTree;
use crate::engine::{Access, Cursor, Edge, Read, Source, Statistics, View, no_such_table};
use crate::error::Result;
use crate::index::HashView;
use crate::table::batch::Batch;
use crate::table::catalog::{IndexDef, IndexId, TableDef, TableId};
use crate::table::heap::Rows;
use crate::table::row::{Row, RowLayout};
use crate::table::row_id::RowId;
use std::sync::{Arc, OnceLock};

/// A table in a view.
pub(super) struct FrozenTable {
    pub def: Arc<TableDef>,
    pub layout: Arc<RowLayout>,
    pub rows: Rows,
    pub indexes: Vec<FrozenIndex>,
    pub statistics: OnceLock<Arc<Statistics>>,
}

pub(super) struct FrozenIndex {
    pub def: Arc<IndexDef>,
    pub method: FrozenMethod,
}

#[allow(clippy::large_enum_variant)] // some hundred bytes an index
pub(super) enum FrozenMethod {
    Hash(HashView),
    Ordered(BTree),
}

impl Readable for FrozenTable {
    fn def(&self) -> &Arc<TableDef> {
        &self.def
    }
    fn layout(&self) -> &Arc<RowLayout> {
        &self.layout
    }
    fn rows(&self) -> &Rows {
        &self.rows
    }
    fn indexes(&self) -> impl Iterator<Item = IndexRead<'_>> {
        self.indexes.iter().map(|index| {
            let method = match &index.method {
                FrozenMethod::Hash(hash) => MethodRead::Hash(hash.read()),
                FrozenMethod::Ordered(tree) => MethodRead::Ordered(tree),
            };
            IndexRead { def: &index.def, method }
        })
    }
}

/// Some tables of the memory engine at one instant.
pub(super) struct MemoryView {
    tables: Vec<(TableId, FrozenTable)>,
}

impl MemoryView {
    pub fn of(tables: Vec<(TableId, FrozenTable)>) -> MemoryView {
        MemoryView { tables }
    }

    fn table(&self, id: TableId) -> Result<&FrozenTable> {
        self.tables.iter().find(|(table, _)| *table == id).map(|(_, table)| table).ok_or_else(|| no_such_table(id))
    }

    /// The table that a cursor was opened on.
    fn table_of(&self, cursor: &Cursor) -> Result<&FrozenTable> {
        self.table(cursor.table())
    }
}

impl Source for MemoryView {
    fn definition(&self, table: TableId) -> Result<&Arc<TableDef>> {
        Ok(&self.table(table)?.def)
    }

    fn layout(&self, table: TableId) -> Result<&Arc<RowLayout>> {
        Ok(&self.table(table)?.layout)
    }

    fn row_count(&self, table: TableId) -> Read<u64> {
        Ok(self.table(table)?.rows.count())
    }

    fn get_many(
        &self,
        table: TableId,
        index: IndexId,
        keys: &Batch,
        visit: &mut dyn FnMut(usize, RowId, Row<'_>),
    ) -> Read<()> {
        Ok(read::get_many(self.table(table)?, index, keys, visit)?)
    }

    fn rows(&self, table: TableId, ids: &[RowId], visit: &mut dyn FnMut(usize, Row<'_>)) -> Read<()> {
        read::rows(self.table(table)?, ids, visit);
        Ok(())
    }

    fn seek(&self, cursor: &mut Cursor, table: TableId, access: &Access<'_>) -> Read<bool> {
        cursor.table = Some(table);
        Ok(read::seek(self.table(table)?, cursor, access)?)
    }

    fn next(&self, cursor: &mut Cursor) -> Read<bool> {
        Ok(read::next(self.table_of(cursor)?, cursor)?)
    }

    fn skip(&self, cursor: &mut Cursor, rows: u64) -> Read<bool> {
        Ok(read::skip(self.table_of(cursor)?, cursor, rows)?)
    }

    fn row<'a>(&'a self, cursor: &'a Cursor) -> Row<'a> {
        match self.table_of(cursor) {
            Ok(table) => read::row_of(table, cursor.row_id()),
            Err(error) => panic!("a cursor of another view: {error}"),
        }
    }

    fn count(&self, table: TableId, index: IndexId, from: Edge<'_>, to: Edge<'_>) -> Read<u64> {
        Ok(read::count(self.table(table)?, index, from, to)?)
    }

    fn statistics(&self, table: TableId) -> Read<Arc<Statistics>> {
        let table = self.table(table)?;
        Ok(table.statistics.get_or_init(|| Arc::new(read::statistics(table))).clone())
    }
}

impl View for MemoryView {
    fn forget_before(&mut self, table: TableId, id: RowId) {
        if let Some((_, table)) = self.tables.iter_mut().find(|(id, _)| *id == table) {
            table.rows.forget_before(id);
        }
    }
}
