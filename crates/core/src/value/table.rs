//! The table under large hashes, sets and sorted sets: entries found by the bytes they carry.
//!
//! It owns its entries, each of which is one pointer, and keeps their addresses in a dict. What a look-up shows is what
//! the kind of entry can say about itself for as long as the table is borrowed.

use crate::ds::dict::{Dict, Slot};
use crate::ds::hash;
use crate::ds::prefetch::prefetch;
use crate::env::Xoshiro;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// What a table holds.
///
/// # Safety
/// `into_raw` gives a pointer that owns the entry until `from_raw` takes it back, and that stays good wherever the
/// pointer is kept. The key never changes.
pub(super) unsafe trait Entry: Sized {
    /// What a look-up shows.
    type Shown<'a>: Copy;

    /// Gives the entry up for a pointer.
    fn into_raw(self) -> NonNull<u8>;

    /// Takes the entry back.
    ///
    /// # Safety
    /// The pointer came from `into_raw`, and is not used as an entry's any more (or the result is not dropped).
    unsafe fn from_raw(raw: NonNull<u8>) -> Self;

    /// Shows the entry behind a pointer.
    ///
    /// # Safety
    /// The pointer came from `into_raw`; for `'a` the entry is neither taken back nor changed.
    unsafe fn show<'a>(raw: NonNull<u8>) -> Self::Shown<'a>;

    /// The bytes by which the entry behind a pointer is found.
    ///
    /// # Safety
    /// As for `show`.
    unsafe fn key<'a>(raw: NonNull<u8>) -> &'a [u8];

    /// Bytes the entry takes from the allocator, beside its place in the table.
    fn memory(&self) -> usize;
}

/// The address of an entry: 6 bytes, because user addresses have at most 48 bits.
#[derive(Clone, Copy)]
struct Address(u64);

impl Address {
    fn of(raw: NonNull<u8>) -> Self {
        let address = raw.as_ptr().expose_provenance() as u64;
        assert!(address < 1 << 48, "a user address over 48 bits");
        Address(address)
    }

    #[inline(always)]
    fn raw(self) -> NonNull<u8> {
        NonNull::new(std::ptr::with_exposed_provenance_mut(self.0 as usize)).expect("made of a pointer to an entry")
    }
}

impl Slot for Address {
    const WIDTH: usize = 6;
    #[inline(always)]
    fn to_bits(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        Address(bits)
    }
    #[inline(always)]
    fn prefetch(self) {
        prefetch(self.0 as *const u8);
    }
}

/// Entries by key, in no order.
pub(super) struct Table<T: Entry> {
    /// Invariant: each address is that of one entry, which the table owns.
    dict: Dict<Address>,
    /// Memory of all entries.
    bytes: usize,
    owned: PhantomData<T>,
}

/// The hash of a key, the same for every table of the process.
#[inline]
pub(super) fn hash_of(key: &[u8]) -> u64 {
    hash::bytes(key)
}

/// Shows the entry at an address of a table.
///
/// # Safety
/// The address is in a table that is borrowed for `'a` (so that nothing changes or drops the entry meanwhile).
#[inline(always)]
unsafe fn show<'a, T: Entry>(address: Address) -> T::Shown<'a> {
    // SAFETY: by contract, and a table's addresses came from `into_raw`.
    unsafe { T::show(address.raw()) }
}

/// The key of the entry at an address of a table.
///
/// # Safety
/// As for `show`.
#[inline(always)]
unsafe fn key<'a, T: Entry>(address: Address) -> &'a [u8] {
    // SAFETY: as in `show`.
    unsafe { T::key(address.raw()) }
}

impl<T: Entry> Table<T> {
    pub fn with_capacity(count: usize) -> Self {
        Table { dict: Dict::with_capacity(count), bytes: 0, owned: PhantomData }
    }

    pub fn len(&self) -> usize {
        self.dict.len()
    }

    /// Bytes taken from the allocator, entries included.
    pub fn memory(&self) -> usize {
        self.dict.memory() + self.bytes
    }

    #[inline]
    pub fn get(&self, wanted: &[u8]) -> Option<T::Shown<'_>> {
        // SAFETY: the addresses are in this table, which is borrowed.
        let found = self.dict.find(hash_of(wanted), |address| unsafe { key::<T>(address) } == wanted)?;
        // SAFETY: as above.
        Some(unsafe { show::<T>(found) })
    }

    #[inline]
    pub fn contains(&self, wanted: &[u8]) -> bool {
        self.get(wanted).is_some()
    }

    /// Shows the entry with this key to `found`, which may change all but its key, or adds the one that `make` makes.
    /// Returns true when it was added.
    #[inline]
    pub fn upsert(&mut self, wanted: &[u8], found: impl FnOnce(&mut T), make: impl FnOnce() -> T) -> bool {
        let hash = hash_of(wanted);
        // SAFETY: the addresses are in this table, which is borrowed.
        let Some((at, address)) = self.dict.find_at(hash, |address| unsafe { key::<T>(address) } == wanted) else {
            self.insert_new(hash, make());
            return true;
        };
        // SAFETY: the address is in the table. Should `found` panic, the entry stays in the table and is not dropped.
        let mut entry = ManuallyDrop::new(unsafe { T::from_raw(address.raw()) });
        self.bytes -= entry.memory();
        found(&mut entry);
        self.bytes += entry.memory();
        // The entry may have moved to a larger allocation.
        let moved = Address::of(ManuallyDrop::into_inner(entry).into_raw());
        if moved.0 != address.0 {
            self.dict.replace_at(at, hash, moved);
        }
        false
    }

    /// Adds an entry whose key is not in the table and hashes to `hash`.
    pub fn insert_new(&mut self, hash: u64, entry: T) {
        self.bytes += entry.memory();
        // SAFETY: `rehash` sees addresses of this table, the new one included, which nothing changes meanwhile.
        let rehash = |address| hash_of(unsafe { key::<T>(address) });
        self.dict.insert(hash, Address::of(entry.into_raw()), rehash);
    }

    pub fn remove(&mut self, wanted: &[u8]) -> Option<T> {
        // SAFETY: the addresses are in this table, which is borrowed.
        let (at, _) = self.dict.find_at(hash_of(wanted), |address| unsafe { key::<T>(address) } == wanted)?;
        let address = self.dict.remove_at(at);
        // SAFETY: the address was in the table and has just left it.
        let entry = unsafe { T::from_raw(address.raw()) };
        self.bytes -= entry.memory();
        Some(entry)
    }

    pub fn iter(&self) -> impl Iterator<Item = T::Shown<'_>> {
        // SAFETY: the addresses are in this table, which is borrowed.
        self.dict.iter().map(|address| unsafe { show::<T>(address) })
    }

    /// An entry picked at random; every one is as likely.
    pub fn random(&self, random: &mut Xoshiro) -> Option<T::Shown<'_>> {
        // SAFETY: the address is in this table, which is borrowed.
        self.dict.random(random).map(|address| unsafe { show::<T>(address) })
    }

    /// Shows `count` entries or a few more from `cursor` on, and returns the next cursor, 0 at the end. An entry that
    /// stays in the table from cursor 0 to the end is shown, whatever else changes meanwhile.
    pub fn scan<'a>(&'a self, mut cursor: u64, count: usize, mut visit: impl FnMut(T::Shown<'a>)) -> u64 {
        let mut shown = 0;
        // As in Redis, a table with many empty buckets ends the call early.
        for _ in 0..count.saturating_mul(10) {
            cursor = self.dict.scan(cursor, |address| {
                shown += 1;
                // SAFETY: the address is in this table, which is borrowed.
                visit(unsafe { show::<T>(address) });
            });
            if cursor == 0 || shown >= count {
                break;
            }
        }
        cursor
    }
}

impl<T: Entry> Drop for Table<T> {
    fn drop(&mut self) {
        // SAFETY: the table owns its entries, and its addresses are not used after this.
        self.dict.iter().for_each(|address| drop(unsafe { T::from_raw(address.raw()) }));
    }
}

impl<T: Entry + Clone> Clone for Table<T> {
    fn clone(&self) -> Self {
        let mut copy = Table::with_capacity(self.len());
        for address in self.dict.iter() {
            // SAFETY: the entry stays in this table, which is borrowed: it is only looked at, and not dropped.
            let entry = ManuallyDrop::new(unsafe { T::from_raw(address.raw()) });
            // SAFETY: the address is in this table, which is borrowed.
            copy.insert_new(hash_of(unsafe { key::<T>(address) }), T::clone(&entry));
        }
        copy
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
        assert!((0..500).all(|n| seen.contains_key(&text(n))));
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
        assert_eq!(0, table.memory());
    }

    #[test]
    fn entries_may_move_when_they_are_changed() {
        let mut table: Table<super::super::entry::Pair> = Table::with_capacity(0);
        for value in [&b"short"[..], &[b'x'; 1000], b"", b"again short"] {
            for n in 0..100 {
                let field = text(n);
                table.upsert(&field, |pair| pair.set_value(value), || super::super::entry::Pair::new(&field, value));
            }
            let copy = table.clone();
            assert!((0..100).all(|n| copy.get(&text(n)).unwrap().1 == value));
        }
    }

    #[test]
    fn the_empty_key_is_a_key() {
        let mut table: Table<ThinBytes> = Table::with_capacity(0);
        assert!(table.upsert(b"", |_| (), ThinBytes::new));
        assert!(table.contains(b""));
        assert!(table.remove(b"").is_some());
        assert!(!table.contains(b""));
    }
}
