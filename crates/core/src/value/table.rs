//! The table under large hashes, sets and sorted sets: entries found by the bytes they carry.
//!
//! The one place that knows which hash table it is.

use crate::env::Xoshiro;
use hashbrown::{DefaultHashBuilder, HashTable, hash_table};
use std::hash::BuildHasher;
use std::sync::LazyLock;

/// What a table holds.
pub(super) trait Entry {
    /// The bytes by which the entry is found; they never change.
    fn key(&self) -> &[u8];
    /// Bytes the entry takes from the allocator, beside its place in the table.
    fn memory(&self) -> usize;
}

/// Entries by key, in no order.
#[derive(Clone)]
pub(super) struct Table<T> {
    map: HashTable<T>,
    /// Memory of all entries.
    bytes: usize,
}

static HASHER: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);

/// The hash of a key, the same for every table of the process.
#[inline]
pub(super) fn hash(key: &[u8]) -> u64 {
    HASHER.hash_one(key)
}

impl<T: Entry> Table<T> {
    pub fn with_capacity(count: usize) -> Self {
        Table { map: HashTable::with_capacity(count), bytes: 0 }
    }

    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Bytes taken from the allocator, entries included.
    pub fn memory(&self) -> usize {
        self.map.allocation_size() + self.bytes
    }

    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&T> {
        self.map.find(hash(key), |entry| entry.key() == key)
    }

    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.get(key).is_some()
    }

    /// Shows the entry with this key to `found`, which may change all but its key, or adds the one that `make` makes.
    /// Returns true when it was added.
    #[inline]
    pub fn upsert(&mut self, key: &[u8], found: impl FnOnce(&mut T), make: impl FnOnce() -> T) -> bool {
        match self.map.entry(hash(key), |entry| entry.key() == key, |entry| hash(entry.key())) {
            hash_table::Entry::Occupied(mut slot) => {
                let entry = slot.get_mut();
                self.bytes -= entry.memory();
                found(entry);
                self.bytes += entry.memory();
                false
            }
            hash_table::Entry::Vacant(slot) => {
                let entry = make();
                self.bytes += entry.memory();
                slot.insert(entry);
                true
            }
        }
    }

    /// Adds an entry whose key is not in the table and hashes to `hash`.
    pub fn insert_new(&mut self, hash_of_key: u64, entry: T) {
        self.bytes += entry.memory();
        self.map.insert_unique(hash_of_key, entry, |entry| hash(entry.key()));
    }

    pub fn remove(&mut self, key: &[u8]) -> Option<T> {
        let slot = self.map.find_entry(hash(key), |entry| entry.key() == key).ok()?;
        let (entry, _) = slot.remove();
        self.bytes -= entry.memory();
        self.shrink();
        Some(entry)
    }

    /// A table kept from the time when it was larger wastes memory and makes random picks slow.
    #[inline]
    fn shrink(&mut self) {
        if self.map.num_buckets() > 64 && self.map.len() < self.map.num_buckets() / 8 {
            let room = self.map.len() * 2;
            self.map.shrink_to(room, |entry| hash(entry.key()));
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.map.iter()
    }

    /// An entry picked at random; every one is as likely.
    pub fn random(&self, random: &mut Xoshiro) -> Option<&T> {
        if self.map.is_empty() {
            return None;
        }
        loop {
            let index = random.below(self.map.num_buckets() as u64) as usize;
            if let Some(entry) = self.map.get_bucket(index) {
                return Some(entry);
            }
        }
    }

    /// Shows `count` entries or a few more from `cursor` on, and returns the next cursor, 0 at the end. An entry that
    /// stays in the table from cursor 0 to the end is shown, whatever else changes meanwhile.
    ///
    /// Entries are visited in the order of their hashes, which growth does not change.
    pub fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(&T)) -> u64 {
        let mut rest: Vec<(u64, &T)> =
            self.map.iter().map(|entry| (hash(entry.key()), entry)).filter(|(hash, _)| *hash >= cursor).collect();
        let last = if rest.len() > count {
            let (_, (hash, _), _) = rest.select_nth_unstable_by_key(count.max(1) - 1, |(hash, _)| *hash);
            *hash
        } else {
            u64::MAX
        };
        rest.iter().filter(|(hash, _)| *hash <= last).for_each(|(_, entry)| show(entry));
        last.wrapping_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ds::thin::ThinBytes;
    use std::collections::HashMap;

    fn text(n: u64) -> Vec<u8> {
        n.to_string().into_bytes()
    }

    fn filled(count: u64) -> Table<ThinBytes> {
        let mut table = Table::with_capacity(0);
        for n in 0..count {
            assert!(table.upsert(&text(n), |_| (), || ThinBytes::from_slice(&text(n))));
        }
        table
    }

    #[test]
    fn a_scan_shows_all_that_stays() {
        let mut table = filled(1000);
        let mut seen: HashMap<Vec<u8>, u32> = HashMap::new();
        let (mut cursor, mut round) = (0, 0);
        loop {
            cursor = table.scan(cursor, 10, |entry| *seen.entry(entry.to_vec()).or_default() += 1);
            if cursor == 0 {
                break;
            }
            table.remove(&text(500 + round % 500));
            let added = text(2000 + round);
            table.upsert(&added, |_| (), || ThinBytes::from_slice(&added));
            round += 1;
        }
        assert!((0..500).all(|n| seen[&text(n)] == 1));
    }

    #[test]
    fn random_picks_reach_every_entry_about_equally() {
        let mut table = filled(1000);
        (10..1000).for_each(|n| assert!(table.remove(&text(n)).is_some()));
        let mut random = Xoshiro::from_seed(1);
        let mut picks: HashMap<Vec<u8>, u32> = HashMap::new();
        (0..10_000).for_each(|_| *picks.entry(table.random(&mut random).unwrap().to_vec()).or_default() += 1);
        assert_eq!(10, picks.len());
        assert!(picks.values().all(|n| (700..1300).contains(n)), "{picks:?}");
    }

    #[test]
    fn memory_is_given_back() {
        let mut table = filled(1000);
        assert!(table.memory() > 1000 * 17);
        (0..1000).for_each(|n| assert!(table.remove(&text(n)).is_some()));
        assert_eq!(0, table.bytes);
        assert!(table.memory() < 2000);
    }
}
