//! The hash index: row ids found by the hash of their key. It keeps no keys; equality is checked in the rows.
//!
//! Row ids below 2^32 (the rows of the first 32 GB) take slots of four bytes, others of five, in a dict of their own, so
//! that no index is ever rebuilt to widen it. A key that several rows share has one slot in a third dict, the number of
//! a group, and the group's row ids lie in a tree: a key shared by a million rows is no long chain.

use super::row_keys::RowKeys;
use crate::ds::btree::{BTree, Probe};
use crate::ds::dict::{Body, Dict, Slot, View};
use crate::ds::hash;
use crate::table::row::Row;
use crate::table::row_id::RowId;

/// A row id of five bytes.
#[derive(Clone, Copy, PartialEq)]
struct WideId(u64);

impl Slot for WideId {
    const WIDTH: usize = RowId::BYTES;
    fn to_bits(self) -> u64 {
        self.0
    }
    fn from_bits(bits: u64) -> Self {
        WideId(bits)
    }
}

/// A hash index.
pub struct Hash {
    narrow: Dict<u32>,
    wide: Dict<WideId>,
    groups: Dict<u32>,
    /// Group number and row id of each row whose key is shared.
    members: BTree,
    groups_free: Vec<u32>,
    groups_end: u32,
}

/// A hash index as it was when the view was taken.
#[derive(Clone)]
pub struct HashView {
    narrow: View<u32>,
    wide: View<WideId>,
    groups: View<u32>,
    members: BTree,
}

/// A hash index or a view of one, for reading.
#[derive(Clone, Copy)]
pub struct HashRead<'a> {
    narrow: &'a Body<u32>,
    wide: &'a Body<WideId>,
    groups: &'a Body<u32>,
    members: &'a BTree,
}

impl Default for Hash {
    fn default() -> Self {
        Hash::with_capacity(0)
    }
}

impl Hash {
    /// An empty index with room made for so many rows.
    pub fn with_capacity(rows: usize) -> Hash {
        Hash {
            narrow: if rows > 0 { Dict::with_capacity(rows) } else { Dict::new() },
            wide: Dict::new(),
            groups: Dict::new(),
            members: BTree::multimap(),
            groups_free: Vec::new(),
            groups_end: 0,
        }
    }

    /// For reading.
    #[inline]
    pub fn read(&self) -> HashRead<'_> {
        HashRead { narrow: &self.narrow, wide: &self.wide, groups: &self.groups, members: &self.members }
    }

    /// A view of the index as it is now.
    pub fn view(&mut self) -> HashView {
        HashView {
            narrow: self.narrow.view(),
            wide: self.wide.view(),
            groups: self.groups.view(),
            members: self.members.clone(),
        }
    }

    /// Bytes.
    pub fn memory(&self) -> usize {
        let dicts = self.narrow.memory() + self.wide.memory() + self.groups.memory();
        dicts + self.members.memory() + 4 * self.groups_free.capacity()
    }

    /// Bytes copied because views held them, since the index began.
    pub fn copied(&self) -> u64 {
        (self.narrow.copied() + self.wide.copied() + self.groups.copied()) as u64 + self.members.copied()
    }

    /// Adds a row, which `keys` can read, under a key that no other row has (the caller has checked).
    #[inline]
    pub fn insert_unique(&mut self, key: &[u8], id: RowId, keys: &RowKeys<'_>) {
        self.add_single(hash::bytes(key), id, keys);
    }

    /// Adds a row, which `keys` can read.
    pub fn insert(&mut self, key: &[u8], id: RowId, keys: &RowKeys<'_>) {
        let hash = hash::bytes(key);
        let (group, single) = {
            let read = self.read();
            let group = read.group(hash, key, keys);
            (group, if group.is_none() { read.single(hash, key, keys) } else { None })
        };
        match (group, single) {
            (Some(group), _) => {
                self.members.insert(&group_key(group), id.0);
            }
            (None, Some(first)) => {
                let group = self.groups_free.pop().unwrap_or_else(|| {
                    self.groups_end += 1;
                    self.groups_end - 1
                });
                self.remove_single(hash, first);
                self.members.insert(&group_key(group), first.0);
                self.members.insert(&group_key(group), id.0);
                let members = &self.members;
                self.groups.insert(hash, group, |g| keys.hash(first_member(members, g)));
            }
            (None, None) => self.add_single(hash, id, keys),
        }
    }

    /// Removes a row, which `keys` can still read. False if it was not there.
    pub fn remove(&mut self, key: &[u8], id: RowId, keys: &RowKeys<'_>) -> bool {
        let hash = hash::bytes(key);
        let Some(group) = self.read().group(hash, key, keys) else { return self.remove_single(hash, id) };
        if self.members.remove(&group_key(group), id.0).is_none() {
            return false;
        }
        // A group of one becomes a single again.
        let mut left = self.members.cursor(&Probe::before(&group_key(group)));
        let (first, second) = (left.next(), left.next());
        let Some(last) = first.map(|e| RowId(e.value)) else { unreachable!("a group has two members at least") };
        if second.is_none_or(|e| e.key() != group_key(group)) {
            drop(left);
            self.members.remove(&group_key(group), last.0);
            self.groups.remove(hash, |g| g == group);
            self.groups_free.push(group);
            self.add_single(hash, last, keys);
        }
        true
    }

    #[inline]
    fn add_single(&mut self, hash: u64, id: RowId, keys: &RowKeys<'_>) {
        match u32::try_from(id.0) {
            Ok(narrow) => {
                let buckets = self.narrow.primary_buckets();
                self.narrow.insert(hash, narrow, |other| keys.hash(RowId(other.into())));
                if self.narrow.primary_buckets() != buckets {
                    self.prefetch_splits(keys);
                }
            }
            Err(_) => self.wide.insert(hash, WideId(id.0), |other| keys.hash(RowId(other.0))),
        }
    }

    /// Starts loading the rows that the next splits will hash: the slots of one, and the rows of the one before, whose
    /// slots are there by now. A dict grows by two buckets at most.
    #[cold]
    fn prefetch_splits(&self, keys: &RowKeys<'_>) {
        for ahead in 2..4 {
            self.narrow.upcoming(ahead, |id| keys.rows.prefetch_slot(RowId(id.into())));
        }
        for ahead in 0..2 {
            self.narrow.upcoming(ahead, |id| keys.rows.prefetch_record(RowId(id.into())));
        }
    }

    fn remove_single(&mut self, hash: u64, id: RowId) -> bool {
        match u32::try_from(id.0) {
            Ok(narrow) => self.narrow.remove(hash, |other| other == narrow).is_some(),
            Err(_) => self.wide.remove(hash, |other| other == WideId(id.0)).is_some(),
        }
    }
}

impl HashView {
    /// For reading.
    #[inline]
    pub fn read(&self) -> HashRead<'_> {
        HashRead { narrow: &self.narrow, wide: &self.wide, groups: &self.groups, members: &self.members }
    }
}

impl HashRead<'_> {
    /// The row with a key, found and read in one go. None when keys may be shared, so that `rows_after` must be asked.
    #[inline]
    pub fn only_row<'r>(&self, key: &[u8], keys: &RowKeys<'r>) -> Option<Option<(RowId, Row<'r>)>> {
        if !self.groups.is_empty() || !self.wide.is_empty() {
            return None;
        }
        let mut found = None;
        self.narrow.find(hash::bytes(key), |id| {
            let id = RowId(id.into());
            found = keys.row_with_key(id, key).map(|row| (id, row));
            found.is_some()
        });
        Some(found)
    }

    /// Rows.
    pub fn len(&self) -> u64 {
        (self.narrow.len() + self.wide.len()) as u64 + self.members.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys.
    pub fn distinct(&self) -> u64 {
        (self.narrow.len() + self.wide.len() + self.groups.len()) as u64
    }

    /// The row of a key that one row has.
    #[inline]
    fn single(&self, hash: u64, key: &[u8], keys: &RowKeys<'_>) -> Option<RowId> {
        let narrow = self.narrow.find(hash, |id| keys.has_key(RowId(id.into()), key)).map(|id| RowId(id.into()));
        if narrow.is_some() || self.wide.is_empty() {
            return narrow;
        }
        self.wide.find(hash, |id| keys.has_key(RowId(id.0), key)).map(|id| RowId(id.0))
    }

    #[inline]
    fn group(&self, hash: u64, key: &[u8], keys: &RowKeys<'_>) -> Option<u32> {
        if self.groups.is_empty() {
            return None;
        }
        self.groups.find(hash, |group| keys.has_key(first_member(self.members, group), key))
    }

    /// One of the rows with a key; the only one in a unique index.
    #[inline]
    pub fn get(&self, key: &[u8], keys: &RowKeys<'_>) -> Option<RowId> {
        self.get_hashed(hash::bytes(key), key, keys)
    }

    #[inline]
    fn get_hashed(&self, hash: u64, key: &[u8], keys: &RowKeys<'_>) -> Option<RowId> {
        if let Some(group) = self.group(hash, key, keys) {
            return Some(first_member(self.members, group));
        }
        self.single(hash, key, keys)
    }

    /// Visits the rows with a key, in the order of their ids: those after `after`, at most `limit`. True if that was all.
    #[inline]
    pub fn rows_after(
        &self,
        key: &[u8],
        after: Option<RowId>,
        limit: usize,
        keys: &RowKeys<'_>,
        mut visit: impl FnMut(RowId),
    ) -> bool {
        let hash = hash::bytes(key);
        let Some(group) = self.group(hash, key, keys) else {
            self.single(hash, key, keys).filter(|id| after.is_none_or(|after| *id > after)).into_iter().for_each(visit);
            return true;
        };
        let group = group_key(group);
        let from = after.map_or(Probe::before(&group), |id| Probe::at(&group, id.0 + 1));
        self.members.cursor(&from).walk(&Probe::after(&group), limit, |e| visit(RowId(e.value)))
    }

    /// Starts loading the buckets of keys that are about to be added, side by side.
    pub fn prefetch_buckets<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        let hashes: smallvec::SmallVec<[u64; 32]> = keys.map(hash::bytes).collect();
        hashes.iter().for_each(|hash| self.narrow.prefetch(*hash));
        hashes.iter().for_each(|hash| self.narrow.prefetch_overflow(*hash));
    }

    /// Loads what looking up these keys will touch, side by side: buckets, then the slots of rows, then the rows.
    pub fn prefetch<'k>(&self, batch: impl Iterator<Item = &'k [u8]> + Clone, keys: &RowKeys<'_>) {
        let hashes: smallvec::SmallVec<[u64; 32]> = batch.map(hash::bytes).collect();
        hashes.iter().for_each(|hash| self.narrow.prefetch(*hash));
        let candidates: smallvec::SmallVec<[RowId; 32]> =
            hashes.iter().filter_map(|hash| self.narrow.candidate(*hash)).map(|id| RowId(id.into())).collect();
        keys.rows.prefetch(&candidates);
    }
}

/// The members of a group lie under this key.
fn group_key(group: u32) -> [u8; 4] {
    group.to_be_bytes()
}

fn first_member(members: &BTree, group: u32) -> RowId {
    match members.get(&group_key(group)) {
        Some(id) => RowId(id),
        None => unreachable!("a group has two members at least"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;
    use crate::table::catalog::{IndexDef, Method, TableDef, tests as catalog};
    use crate::table::datum::DatumRef;
    use crate::table::heap::Heap;
    use crate::table::key::{KeyBuf, row_key};
    use crate::table::row::RowLayout;
    use std::collections::{BTreeMap, BTreeSet};

    struct Fixture {
        def: IndexDef,
        layout: RowLayout,
        heap: Heap,
        index: Hash,
    }

    impl Fixture {
        fn new() -> Fixture {
            let table: TableDef = catalog::table("t", &[("a", "INT")]);
            let def = catalog::index(&table, 1, &["a"], false, Method::Hash);
            Fixture { def, layout: RowLayout::new(&table), heap: Heap::default(), index: Hash::default() }
        }

        fn row(&self, a: i64) -> Vec<u8> {
            let mut row = Vec::new();
            self.layout.encode(&[DatumRef::Null, DatumRef::Int(a)], &mut row).unwrap();
            row
        }

        fn key(&self, a: i64) -> KeyBuf {
            let mut key = KeyBuf::new();
            row_key(&self.def, Row::new(&self.row(a), &self.layout), &mut key).unwrap();
            key
        }

        fn found(&self, read: HashRead<'_>, rows: &crate::table::heap::Rows, a: i64) -> Vec<RowId> {
            let keys = RowKeys { rows, layout: &self.layout, def: &self.def };
            let mut found = Vec::new();
            assert!(read.rows_after(&self.key(a), None, usize::MAX, &keys, |id| found.push(id)));
            assert_eq!(found.first().copied(), read.get(&self.key(a), &keys));
            found
        }
    }

    #[test]
    fn keys_of_one_row_and_of_many_agree_with_a_model() {
        let mut f = Fixture::new();
        let mut random = Xoshiro::from_seed(8);
        let mut model: BTreeMap<i64, BTreeSet<RowId>> = BTreeMap::new();
        let mut views = Vec::new();
        for step in 0..20_000 {
            // Few keys with many rows, many with one, ids on both sides of 2^32.
            let a = if random.below(3) == 0 { random.below(5) } else { random.below(3000) } as i64;
            if random.below(10) < if step / 4000 % 2 == 0 { 7 } else { 3 } {
                let row = f.row(a);
                let id = if random.below(4) == 0 {
                    RowId::new((1 << 22) + random.below(4000) as u32, random.below(100) as usize)
                } else {
                    f.heap.insert(&row).unwrap()
                };
                if f.heap.get(id).is_none() {
                    f.heap.insert_at(id, &row).unwrap();
                }
                if !model.values().any(|ids| ids.contains(&id)) {
                    let key = f.key(a);
                    let keys = RowKeys { rows: &f.heap, layout: &f.layout, def: &f.def };
                    f.index.insert(&key, id, &keys);
                    model.entry(a).or_default().insert(id);
                }
            } else if let Some((&a, ids)) = model.range(a..).next() {
                let ids: Vec<RowId> = ids.iter().copied().collect();
                let id = ids[random.below(ids.len() as u64) as usize];
                let key = f.key(a);
                let keys = RowKeys { rows: &f.heap, layout: &f.layout, def: &f.def };
                assert!(f.index.remove(&key, id, &keys));
                f.heap.delete(id);
                let ids = model.get_mut(&a).unwrap();
                ids.remove(&id);
                if ids.is_empty() {
                    model.remove(&a);
                }
            }
            if step % 2500 == 0 {
                f.heap.release();
                views.push((f.index.view(), f.heap.view(), model.clone()));
                assert_eq!(model.len() as u64, f.index.read().distinct());
                assert_eq!(model.values().map(|ids| ids.len() as u64).sum::<u64>(), f.index.read().len());
            }
        }
        views.push((f.index.view(), f.heap.view(), model));
        for (view, rows, then) in views {
            for a in 0..3000 {
                let expected: Vec<RowId> = then.get(&a).into_iter().flatten().copied().collect();
                assert_eq!(expected, f.found(view.read(), &rows, a));
            }
        }
    }

    /// A key that a million rows share must cost a row no more than others do: no step walks its rows.
    #[test]
    fn a_million_rows_may_share_a_key() {
        const ROWS: usize = 1_000_000;
        let mut f = Fixture::new();
        let mut ids = Vec::with_capacity(ROWS);
        let (row, key, other) = (f.row(7), f.key(7), f.key(8));
        for _ in 0..ROWS {
            let id = f.heap.insert(&row).unwrap();
            f.index.insert(&key, id, &RowKeys { rows: &f.heap, layout: &f.layout, def: &f.def });
            ids.push(id);
        }
        assert_eq!((ROWS as u64, 1), (f.index.read().len(), f.index.read().distinct()));
        let bytes = f.index.memory() as f64 / ROWS as f64;
        assert!(bytes < 10.0, "{bytes} bytes a row");
        let mut random = Xoshiro::from_seed(64);
        for left in (1..=ROWS).rev() {
            let id = ids.swap_remove(random.below(left as u64) as usize);
            let keys = RowKeys { rows: &f.heap, layout: &f.layout, def: &f.def };
            assert!(f.index.remove(&key, id, &keys));
            if left % 100_000 == 1 {
                let mut expected = ids.clone();
                expected.sort_unstable();
                assert_eq!(expected, f.found(f.index.read(), &f.heap, 7));
                assert_eq!(None, f.index.read().get(&other, &keys));
            }
        }
        assert!(f.index.read().is_empty());
    }
}
