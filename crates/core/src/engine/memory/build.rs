//! Builds an index from a view of the rows, in slices and in any thread, while the table goes on changing.

use super::table::{LiveIndex, LiveMethod, Table};
use crate::ds::btree::{BTree, Builder};
use crate::engine::{IndexBuild, duplicate_error};
use crate::error::{Code, Error, Result};
use crate::index::{Hash, RowKeys};
use crate::table::catalog::{IndexDef, Method, TableDef, TableId};
use crate::table::heap::Rows;
use crate::table::key::{KeyBuf, KeyOf, row_key};
use crate::table::row::{Row, RowLayout};
use crate::table::row_id::RowId;
use std::any::Any;
use std::sync::Arc;

/// An index build of the memory engine.
pub(super) struct Build {
    pub table: TableId,
    pub def: Arc<IndexDef>,
    table_def: Arc<TableDef>,
    layout: Arc<RowLayout>,
    rows: Rows,
    /// The row to go on with; `None` when all were seen.
    next: Option<RowId>,
    into: Into,
}

enum Into {
    Hash(Hash),
    Sorter(Sorter),
    Done(LiveMethod),
}

impl Build {
    pub fn new(table: &Table, def: &IndexDef) -> Build {
        let into = match def.method {
            Method::Hash => Into::Hash(Hash::with_capacity(table.heap.count() as usize)),
            Method::Ordered => Into::Sorter(Sorter::default()),
        };
        Build {
            table: table.def.id,
            def: Arc::new(def.clone()),
            table_def: table.def.clone(),
            layout: table.layout.clone(),
            rows: table.heap.view(),
            next: Some(RowId(0)),
            into,
        }
    }

    fn keys(&self) -> RowKeys<'_> {
        RowKeys { rows: &self.rows, layout: &self.layout, def: &self.def }
    }

    /// Takes in a page of rows; returns how many.
    fn take_page(&mut self, from: RowId) -> Result<usize> {
        let mut ids = Vec::new();
        self.next = self.rows.ids_from(from, &mut ids);
        let keys = RowKeys { rows: &self.rows, layout: &self.layout, def: &self.def };
        let mut key = KeyBuf::new();
        for id in &ids {
            let Some(row) = keys.row(*id) else { continue };
            let KeyOf::Key { has_null } = row_key(&self.def, row, &mut key)? else { continue };
            match &mut self.into {
                Into::Sorter(sorter) => sorter.push(&key, *id),
                Into::Hash(hash) => {
                    if !self.def.unique || has_null {
                        hash.insert(&key, *id, &keys);
                    } else if hash.read().get(&key, &keys).is_some() {
                        return Err(duplicate_error(&self.table_def, &self.def));
                    } else {
                        hash.insert_unique(&key, *id, &keys);
                    }
                }
                Into::Done(_) => {}
            }
        }
        Ok(ids.len())
    }

    /// All rows are in: makes the tree of a sorted index.
    fn complete(&mut self) -> Result<()> {
        let done = match std::mem::replace(&mut self.into, Into::Done(LiveMethod::Ordered(BTree::multimap()))) {
            Into::Hash(hash) => LiveMethod::Hash(hash),
            Into::Sorter(sorter) => LiveMethod::Ordered(self.build_tree(sorter)?),
            Into::Done(done) => done,
        };
        self.into = Into::Done(done);
        Ok(())
    }

    fn build_tree(&self, sorter: Sorter) -> Result<BTree> {
        let mut builder = Builder::new(true);
        let mut last = KeyBuf::new();
        let mut duplicate = false;
        sorter.sorted(|key, id| {
            duplicate |= self.def.unique && last[..] == *key && self.is_exclusive(id);
            last.clear();
            last.extend_from_slice(key);
            builder.push(key, id.0);
        });
        if duplicate { Err(duplicate_error(&self.table_def, &self.def)) } else { Ok(builder.finish()) }
    }

    /// Rows with a NULL in the key may have equal keys in a unique index.
    fn is_exclusive(&self, id: RowId) -> bool {
        let key = self.keys().row(id).map(|row| row_key(&self.def, row, &mut KeyBuf::new()));
        key == Some(Ok(KeyOf::Key { has_null: false }))
    }

    /// The index as it is to be now: `changed` rows are taken out as they were and put in as they are.
    pub fn finish(self, table: &Table, changed: Vec<RowId>) -> Result<LiveIndex> {
        let Into::Done(method) = self.into else {
            return Err(Error::new(Code::Engine, format!("index {} is not built yet", self.def.name)));
        };
        let mut changed = changed;
        changed.sort_unstable();
        changed.dedup();
        let mut index = LiveIndex::built(self.def.clone(), method);
        let mut key = KeyBuf::new();
        // All removals come first: until they are done the index agrees with the old rows, afterwards with the new.
        for id in &changed {
            let Some(row) = self.rows.get(*id).map(|bytes| Row::new(bytes, &self.layout)) else { continue };
            if row_key(&self.def, row, &mut key)? != KeyOf::Absent {
                index.remove(&key, *id, &self.rows, &self.layout);
            }
        }
        let keys = RowKeys { rows: &table.heap, layout: &table.layout, def: &self.def };
        for id in &changed {
            let Some(row) = keys.row(*id) else { continue };
            let KeyOf::Key { has_null } = row_key(&self.def, row, &mut key)? else { continue };
            if self.def.unique && !has_null && index.read().get(&key, &keys).is_some() {
                return Err(duplicate_error(&table.def, &self.def));
            }
            index.insert(&key, !has_null, *id, &table.heap, &table.layout);
        }
        Ok(index)
    }
}

impl IndexBuild for Build {
    fn index(&self) -> &IndexDef {
        &self.def
    }

    fn run(&mut self, rows: usize) -> Result<bool> {
        let mut left = rows as isize;
        while let Some(next) = self.next {
            if left <= 0 {
                return Ok(false);
            }
            left -= self.take_page(next)?.max(1) as isize;
        }
        self.complete()?;
        Ok(true)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}

/// Sorts keys with their row ids.
#[derive(Default)]
struct Sorter {
    /// Keys of at most eight bytes: the key, filled with zeros, above the row id and the key's length. No key is the
    /// start of another one, so the zeros decide nothing.
    short: Vec<u128>,
    /// Longer keys, one after another, and where each is: first bytes, place, length, row id.
    bytes: Vec<u8>,
    long: Vec<(u64, u64, u16, RowId)>,
}

impl Sorter {
    #[inline]
    fn push(&mut self, key: &[u8], id: RowId) {
        if key.len() <= 8 && self.long.is_empty() {
            self.short.push(u128::from(head_of(key)) << 64 | u128::from(id.0) << 8 | key.len() as u128);
        } else {
            self.push_long(key, id);
        }
    }

    fn push_long(&mut self, key: &[u8], id: RowId) {
        for short in std::mem::take(&mut self.short) {
            let (key, len, id) = unpack(short);
            self.keep(&key[..len], id);
        }
        self.keep(key, id);
    }

    fn keep(&mut self, key: &[u8], id: RowId) {
        self.long.push((head_of(key), self.bytes.len() as u64, key.len() as u16, id));
        self.bytes.extend_from_slice(key);
    }

    fn sorted(mut self, mut visit: impl FnMut(&[u8], RowId)) {
        self.short.sort_unstable();
        for short in self.short {
            let (key, len, id) = unpack(short);
            visit(&key[..len], id);
        }
        let key =
            |(_, at, len, _): &(u64, u64, u16, RowId)| &self.bytes[*at as usize..*at as usize + usize::from(*len)];
        self.long.sort_unstable_by(|a, b| {
            let by_head = a.0.cmp(&b.0);
            by_head.then_with(|| key(a).cmp(key(b))).then_with(|| a.3.cmp(&b.3))
        });
        self.long.iter().for_each(|entry| visit(key(entry), entry.3));
    }
}

fn unpack(short: u128) -> ([u8; 8], usize, RowId) {
    let id = (short as u64) >> 8;
    (((short >> 64) as u64).to_be_bytes(), (short & 0xFF) as usize, RowId(id))
}

fn head_of(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    let len = key.len().min(8);
    head[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(head)
}
