//! An engine without any art, on the standard library's maps: for tests of what stands above engines.

use super::*;
use crate::error::Code;
use crate::table::key;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Tables in plain maps.
#[derive(Default)]
pub struct Plain {
    tables: HashMap<TableId, PlainTable>,
}

struct PlainTable {
    def: Arc<TableDef>,
    layout: Arc<RowLayout>,
    rows: BTreeMap<RowId, Vec<u8>>,
    indexes: HashMap<IndexId, BTreeMap<Vec<u8>, BTreeSet<RowId>>>,
    next: u64,
    sequence: i64,
}

struct Walked {
    layout: Arc<RowLayout>,
    rows: Vec<(RowId, Vec<u8>)>,
    at: usize,
}

fn key_of(index: &IndexDef, row: Row<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for column in &index.columns {
        key::put_column(row.get(column.position), column, &mut out);
    }
    out
}

fn has_null(index: &IndexDef, row: Row<'_>) -> bool {
    index.columns.iter().any(|c| row.get(c.position).is_null())
}

impl PlainTable {
    fn conflict(&self, row: Row<'_>, own: Option<RowId>) -> Option<WriteFailure> {
        for index in self.def.indexes.iter().filter(|i| i.unique && !has_null(i, row)) {
            let ids = self.indexes.get(&index.id).and_then(|m| m.get(&key_of(index, row)));
            if let Some(existing) = ids.and_then(|ids| ids.iter().find(|id| Some(**id) != own)) {
                return Some(WriteFailure::Duplicate { index: index.id, existing: *existing });
            }
        }
        None
    }

    fn index(&mut self, id: RowId, bytes: &[u8], add: bool) {
        let layout = self.layout.clone();
        let row = Row::new(bytes, &layout);
        for index in &self.def.indexes {
            let map = self.indexes.entry(index.id).or_default();
            let key = key_of(index, row);
            let ids = map.entry(key.clone()).or_default();
            if add {
                ids.insert(id);
            } else {
                ids.remove(&id);
            }
            if ids.is_empty() {
                map.remove(&key);
            }
        }
        if let Some(column) = self.def.columns.iter().find(|c| c.autoincrement && add)
            && let crate::table::datum::DatumRef::Int(n) = row.get(column.position)
        {
            self.sequence = self.sequence.max(n);
        }
    }

    fn put(&mut self, id: RowId, bytes: &[u8]) -> Option<Vec<u8>> {
        let old = self.rows.insert(id, bytes.to_vec());
        if let Some(old) = &old {
            self.index(id, old, false);
        }
        self.index(id, bytes, true);
        old
    }

    fn take(&mut self, id: RowId) -> Option<Vec<u8>> {
        let old = self.rows.remove(&id)?;
        self.index(id, &old, false);
        Some(old)
    }

    fn between(&self, index: IndexId, from: Edge<'_>, to: Edge<'_>) -> Vec<RowId> {
        let after_start = |key: &[u8]| match from {
            Edge::Open => true,
            Edge::Before(edge) => key >= edge,
            Edge::After(edge) => key > edge && !key.starts_with(edge),
        };
        let before_end = |key: &[u8]| match to {
            Edge::Open => true,
            Edge::Before(edge) => key < edge,
            Edge::After(edge) => key < edge || key.starts_with(edge),
        };
        let map = self.indexes.get(&index);
        let entries = map.into_iter().flatten().filter(|(key, _)| after_start(key) && before_end(key));
        entries.flat_map(|(_, ids)| ids.iter().copied()).collect()
    }
}

impl Plain {
    /// No tables.
    pub fn new() -> Plain {
        Plain::default()
    }

    fn table(&self, table: TableId) -> Result<&PlainTable> {
        self.tables.get(&table).ok_or_else(|| Error::new(Code::Bug, "no such table"))
    }

    fn table_mut(&mut self, table: TableId) -> Result<&mut PlainTable> {
        self.tables.get_mut(&table).ok_or_else(|| Error::new(Code::Bug, "no such table"))
    }
}

impl Source for Plain {
    fn definition(&self, table: TableId) -> Result<&Arc<TableDef>> {
        Ok(&self.table(table)?.def)
    }
    fn layout(&self, table: TableId) -> Result<&Arc<RowLayout>> {
        Ok(&self.table(table)?.layout)
    }
    fn row_count(&self, table: TableId) -> Read<u64> {
        Ok(self.table(table)?.rows.len() as u64)
    }
    fn get_many(
        &self,
        table: TableId,
        index: IndexId,
        keys: &Batch,
        visit: &mut dyn FnMut(usize, RowId, Row<'_>),
    ) -> Read<()> {
        let table = self.table(table)?;
        for (i, key) in keys.iter().enumerate() {
            for id in table.indexes.get(&index).and_then(|m| m.get(key)).into_iter().flatten() {
                visit(i, *id, Row::new(&table.rows[id], &table.layout));
            }
        }
        Ok(())
    }
    fn rows(&self, table: TableId, ids: &[RowId], visit: &mut dyn FnMut(usize, Row<'_>)) -> Read<()> {
        let table = self.table(table)?;
        for (i, id) in ids.iter().enumerate() {
            if let Some(row) = table.rows.get(id) {
                visit(i, Row::new(row, &table.layout));
            }
        }
        Ok(())
    }
    fn seek(&self, cursor: &mut Cursor, table: TableId, access: &Access<'_>) -> Read<bool> {
        let table = self.table(table)?;
        let ids: Vec<RowId> = match access {
            Access::All => table.rows.keys().copied().collect(),
            Access::Rows(ids) => ids.to_vec(),
            Access::Keys { index, keys } => {
                let map = table.indexes.get(index);
                let found = keys.iter().flat_map(|key| map.and_then(|m| m.get(key)).into_iter().flatten().copied());
                found.collect()
            }
            Access::Range { index, from, to, reverse, .. } => {
                let mut ids = table.between(*index, *from, *to);
                if *reverse {
                    ids.reverse();
                }
                ids
            }
            #[allow(unreachable_patterns)]
            _ => Vec::new(),
        };
        let rows: Vec<_> = ids.into_iter().filter_map(|id| Some((id, table.rows.get(&id)?.clone()))).collect();
        cursor.close();
        if rows.is_empty() {
            return Ok(false);
        }
        cursor.ids = rows.iter().map(|r| r.0).collect();
        cursor.foreign = Some(Box::new(Walked { layout: table.layout.clone(), rows, at: 0 }));
        Ok(true)
    }
    fn next(&self, cursor: &mut Cursor) -> Read<bool> {
        let Some(walked) = cursor.foreign.as_mut().and_then(|f| f.downcast_mut::<Walked>()) else { return Ok(false) };
        walked.at += 1;
        cursor.at = walked.at;
        if walked.at < walked.rows.len() {
            return Ok(true);
        }
        cursor.close();
        Ok(false)
    }
    fn row<'a>(&'a self, cursor: &'a Cursor) -> Row<'a> {
        let walked = cursor.foreign.as_ref().and_then(|f| f.downcast_ref::<Walked>()).expect("on a row");
        Row::new(&walked.rows[walked.at].1, &walked.layout)
    }
    fn count(&self, table: TableId, index: IndexId, from: Edge<'_>, to: Edge<'_>) -> Read<u64> {
        Ok(self.table(table)?.between(index, from, to).len() as u64)
    }
    fn statistics(&self, table: TableId) -> Read<Arc<Statistics>> {
        let table = self.table(table)?;
        let one = |i: &IndexDef| IndexStatistics {
            id: i.id,
            entries: table.rows.len() as u64,
            distinct: vec![table.indexes.get(&i.id).map_or(0, |m| m.len() as u64)],
        };
        let indexes = table.def.indexes.iter().map(one).collect();
        Ok(Arc::new(Statistics { rows: table.rows.len() as u64, indexes }))
    }
}

impl Engine for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities::ORDER
    }
    fn create_table(&mut self, def: &Arc<TableDef>) -> Result<()> {
        let layout = Arc::new(RowLayout::new(def));
        let (rows, indexes) = (BTreeMap::new(), HashMap::new());
        self.tables.insert(def.id, PlainTable { def: def.clone(), layout, rows, indexes, next: 0, sequence: 0 });
        Ok(())
    }
    fn drop_table(&mut self, table: TableId) -> Result<Kept> {
        Ok(Kept(Box::new(self.tables.remove(&table))))
    }
    fn truncate_table(&mut self, table: TableId) -> Result<Kept> {
        let table = self.table_mut(table)?;
        table.indexes.clear();
        Ok(Kept(Box::new(std::mem::take(&mut table.rows))))
    }
    fn restore_table(&mut self, _: Kept) -> Result<()> {
        Err(Error::new(Code::Bug, "plain: no restore"))
    }
    fn alter_table(&mut self, def: &Arc<TableDef>) -> Result<()> {
        let table = self.table_mut(def.id)?;
        table.def = def.clone();
        table.layout = Arc::new(RowLayout::new(def));
        Ok(())
    }
    fn begin_index(&mut self, table: TableId, index: &IndexDef) -> Result<Box<dyn IndexBuild>> {
        let table = self.table(table)?;
        let mut map: BTreeMap<Vec<u8>, BTreeSet<RowId>> = BTreeMap::new();
        for (id, bytes) in &table.rows {
            let row = Row::new(bytes, &table.layout);
            let ids = map.entry(key_of(index, row)).or_default();
            ids.insert(*id);
            if index.unique && !has_null(index, row) && ids.len() > 1 {
                return Err(Error::new(Code::Constraint, format!("duplicates in index {}", index.name)));
            }
        }
        Ok(Box::new(Build { index: index.clone(), map }))
    }
    fn finish_index(&mut self, build: Box<dyn IndexBuild>, def: &Arc<TableDef>) -> Result<()> {
        let build = build.into_any().downcast::<Build>().expect("our build");
        let table = self.table_mut(def.id)?;
        table.def = def.clone();
        table.indexes.insert(build.index.id, build.map);
        Ok(())
    }
    fn abandon_index(&mut self, _: Box<dyn IndexBuild>) {}
    fn drop_index(&mut self, index: IndexId, def: &Arc<TableDef>) -> Result<Kept> {
        let table = self.table_mut(def.id)?;
        table.def = def.clone();
        Ok(Kept(Box::new(table.indexes.remove(&index))))
    }
    fn insert(&mut self, table: TableId, rows: &Batch, ids: &mut Vec<RowId>, changes: &mut dyn Changes) -> Write<()> {
        let t = self.tables.get_mut(&table).expect("a table");
        for (at, bytes) in rows.iter().enumerate() {
            let layout = t.layout.clone();
            if let Some(failure) = t.conflict(Row::new(bytes, &layout), None) {
                return Err(WriteError { at, failure });
            }
            let id = RowId(t.next);
            t.next += 1;
            t.put(id, bytes);
            ids.push(id);
            changes.inserted(table, id, bytes);
        }
        Ok(())
    }
    fn update(&mut self, table: TableId, ids: &[RowId], rows: &Batch, changes: &mut dyn Changes) -> Write<()> {
        let t = self.tables.get_mut(&table).expect("a table");
        for (at, (id, bytes)) in ids.iter().zip(rows.iter()).enumerate() {
            if !t.rows.contains_key(id) {
                return Err(WriteError { at, failure: WriteFailure::NoSuchRow(*id) });
            }
            let layout = t.layout.clone();
            if let Some(failure) = t.conflict(Row::new(bytes, &layout), Some(*id)) {
                return Err(WriteError { at, failure });
            }
            let old = t.put(*id, bytes).unwrap_or_default();
            changes.updated(table, *id, &old, bytes);
        }
        Ok(())
    }
    fn delete(&mut self, table: TableId, ids: &[RowId], changes: &mut dyn Changes) -> Write<()> {
        let t = self.tables.get_mut(&table).expect("a table");
        for (at, id) in ids.iter().enumerate() {
            let Some(old) = t.take(*id) else {
                return Err(WriteError { at, failure: WriteFailure::NoSuchRow(*id) });
            };
            changes.deleted(table, *id, &old);
        }
        Ok(())
    }
    fn apply(&mut self, table: TableId, op: &RowOp) -> Result<RowOp> {
        let t = self.table_mut(table)?;
        let blob = |bytes: Vec<u8>| crate::reply::Blob::from_vec(bytes);
        Ok(match op {
            RowOp::Insert { id, row } => {
                t.next = t.next.max(id.0 + 1);
                t.put(*id, row);
                RowOp::Delete { id: *id }
            }
            RowOp::Update { id, row } => RowOp::Update { id: *id, row: blob(t.put(*id, row).unwrap_or_default()) },
            RowOp::Delete { id } => RowOp::Insert { id: *id, row: blob(t.take(*id).unwrap_or_default()) },
        })
    }
    fn scope_end(&mut self) {}
    fn sequence(&self, table: TableId) -> Result<i64> {
        Ok(self.table(table)?.sequence)
    }
    fn raise_sequence(&mut self, table: TableId, value: i64) -> Result<()> {
        let table = self.table_mut(table)?;
        table.sequence = table.sequence.max(value);
        Ok(())
    }
    fn view(&mut self, _: &[TableId]) -> Result<Arc<dyn View>> {
        Err(Error::new(Code::Bug, "plain: no views"))
    }
    fn copied_bytes(&self) -> u64 {
        0
    }
    fn memory(&self, table: TableId) -> Result<TableMemory> {
        let table = self.table(table)?;
        Ok(TableMemory { rows: table.rows.values().map(Vec::len).sum(), indexes: Vec::new() })
    }
    fn fetch(&self, _: &Wanted) -> Box<dyn FnOnce() -> Result<Fetched> + Send> {
        Box::new(|| Err(Error::new(Code::Bug, "plain: nothing to fetch")))
    }
    fn admit(&mut self, _: Fetched) {}
}

struct Build {
    index: IndexDef,
    map: BTreeMap<Vec<u8>, BTreeSet<RowId>>,
}

impl IndexBuild for Build {
    fn index(&self) -> &IndexDef {
        &self.index
    }
    fn run(&mut self, _: usize) -> Result<bool> {
        Ok(true)
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}
