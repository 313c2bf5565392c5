//! One numbered database: its entries by key, and those of them that have a deadline.
//!
//! The database knows deadlines but no clock: whether an expired key is to be seen is decided above.

use super::deadlines::Deadlines;
use super::entry::{Entry, EntryRef, EntrySlot, EntryValue};
use super::saving::Saver;
use crate::ds::dict::{At, Dict};
use crate::ds::hash;
use crate::env::Xoshiro;
use crate::value::{Op, Value};
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

/// A key with its hash, so that a batch can hash all its keys first.
#[derive(Clone, Copy)]
pub struct HashedKey<'a> {
    /// The key.
    pub bytes: &'a [u8],
    /// Its hash.
    pub hash: u64,
}

impl<'a> From<&'a [u8]> for HashedKey<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        HashedKey { bytes, hash: hash::bytes(bytes) }
    }
}

/// The keys of one number of SELECT.
pub struct Database {
    /// Owns the entries: each slot's entry is alive, and in this dict once.
    keys: Dict<EntrySlot>,
    /// Exactly the entries that have a deadline.
    deadlines: Deadlines,
    /// Sum of the entries' own allocations.
    entry_bytes: usize,
    /// Saves entries before they change, while a pass has not walked through them.
    pub(super) saver: Option<Box<Saver>>,
    /// Readers set access clocks through shared references, so two threads must not have them (but it is Send).
    not_sync: PhantomData<Cell<()>>,
}

const fn assert_send<T: Send>() {}
const _: () = assert_send::<Database>();

/// The hash of an entry in `keys`.
fn rehash(slot: EntrySlot) -> u64 {
    // SAFETY: called by the dict for its slots, whose entries are alive.
    hash::bytes(unsafe { slot.entry() }.key())
}

impl Default for Database {
    fn default() -> Self {
        Self::new()
    }
}

impl Database {
    /// An empty database, which needs no memory.
    pub const fn new() -> Self {
        Database { keys: Dict::new(), deadlines: Deadlines::new(), entry_bytes: 0, saver: None, not_sync: PhantomData }
    }

    /// Keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// True without keys.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Keys that have a deadline.
    pub fn len_with_deadline(&self) -> usize {
        self.deadlines.len()
    }

    /// Bytes of the dicts and of the entries; what boxed values have beyond the entry is not in it.
    pub fn memory(&self) -> usize {
        self.keys.memory() + self.deadlines.memory() + self.entry_bytes
    }

    #[inline]
    fn find_at(&self, key: HashedKey<'_>) -> Option<(At, EntrySlot)> {
        // SAFETY: the entries of the dict are alive.
        self.keys.find_at(key.hash, |slot| unsafe { slot.entry() }.key() == key.bytes)
    }

    fn borrowed(&self, slot: EntrySlot) -> EntryRef<'_> {
        // SAFETY: the database owns the entry; it can be changed or removed only through `&mut Database`, that is, not
        // while this borrow lasts.
        unsafe { slot.entry() }
    }

    /// The entry of a key, expired or not.
    #[inline]
    pub fn get<'k>(&self, key: impl Into<HashedKey<'k>>) -> Option<EntryRef<'_>> {
        self.find_at(key.into()).map(|(_, slot)| self.borrowed(slot))
    }

    /// The entry of a key, expired or not, to be changed.
    #[inline]
    pub fn get_mut<'k>(&mut self, key: impl Into<HashedKey<'k>>) -> Option<EntryMut<'_>> {
        let key = key.into();
        let (at, slot) = self.find_at(key)?;
        if let Some(saver) = &mut self.saver {
            // SAFETY: the entry is alive, and nobody changes it during the call.
            saver.before_change(unsafe { slot.entry() });
        }
        Some(self.entry_mut(key.hash, at, slot))
    }

    fn entry_mut(&mut self, hash: u64, at: At, slot: EntrySlot) -> EntryMut<'_> {
        // SAFETY: the entry is alive, and the database is mutably borrowed while the EntryMut lives. It is never
        // dropped by the EntryMut, except that `remove` takes it out of the dict first.
        let entry = ManuallyDrop::new(unsafe { slot.into_entry() });
        EntryMut { database: self, hash, at, entry }
    }

    /// [`Database::get_mut`] for an edit of the value. True: what takes it back is to be told to `edited`.
    #[inline]
    pub fn edit<'k>(&mut self, key: impl Into<HashedKey<'k>>) -> Option<(EntryMut<'_>, bool)> {
        let key = key.into();
        let (at, slot) = self.find_at(key)?;
        let wanted = match &mut self.saver {
            // SAFETY: the entry is alive, and nobody changes it during the call.
            Some(saver) => saver.before_edit(unsafe { slot.entry() }),
            None => false,
        };
        Some((self.entry_mut(key.hash, at, slot), wanted))
    }

    /// A value was edited that is being saved.
    pub fn edited(&mut self, key: &[u8], undo: &Op) {
        if let Some(saver) = &mut self.saver {
            saver.after_edit(key, undo);
        }
    }

    /// Sets value and deadline of a key, in the old entry's place if there is one. True if there was. `access` is
    /// what its access clock says then.
    #[inline]
    pub fn set<'k>(
        &mut self,
        key: impl Into<HashedKey<'k>>,
        value: EntryValue<'_>,
        expire_at: Option<i64>,
        access: u32,
    ) -> bool {
        let key = key.into();
        if let Some(mut entry) = self.get_mut(key) {
            entry.set(value, expire_at);
            entry.entry().set_access(access);
            return true;
        }
        let entry = Entry::new(key.bytes, value, expire_at);
        entry.as_ref().set_access(access);
        self.insert_new(key.hash, entry);
        false
    }

    /// Puts an entry in, and returns the one that had its key.
    pub fn put(&mut self, entry: Entry) -> Option<Entry> {
        let hash = hash::bytes(entry.as_ref().key());
        let old = self.get_mut(HashedKey { bytes: entry.as_ref().key(), hash }).map(EntryMut::remove);
        // It may come from elsewhere, with a mark that means nothing here.
        entry.as_ref().set_epoch(0);
        self.insert_new(hash, entry);
        old
    }

    fn insert_new(&mut self, hash: u64, entry: Entry) {
        let expire_at = entry.as_ref().expire_at();
        self.entry_bytes += entry.as_ref().memory();
        if let Some(saver) = &self.saver {
            entry.as_ref().set_epoch(saver.epoch());
        }
        let slot = entry.into_slot();
        self.keys.insert(hash, slot, rehash);
        if let Some(at) = expire_at {
            // SAFETY: the entry is alive; whoever removes it from `keys` removes it from `deadlines`.
            unsafe { self.deadlines.add(hash, slot, at) };
        }
    }

    /// Removes a key.
    pub fn remove<'k>(&mut self, key: impl Into<HashedKey<'k>>) -> Option<Entry> {
        self.get_mut(key).map(EntryMut::remove)
    }

    /// Sets or removes a key's deadline. False without such a key.
    pub fn set_expire<'k>(&mut self, key: impl Into<HashedKey<'k>>, expire_at: Option<i64>) -> bool {
        self.get_mut(key).map(|mut entry| entry.set_expire(expire_at)).is_some()
    }

    /// Visits some entries and returns the cursor of the next step; 0 starts a scan and ends it. Each entry that is
    /// there from the first step to the last is visited, perhaps more than once.
    pub fn scan(&self, cursor: u64, mut visit: impl FnMut(EntryRef<'_>)) -> u64 {
        self.keys.scan(cursor, |slot| visit(self.borrowed(slot)))
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = EntryRef<'_>> {
        self.keys.iter().map(|slot| self.borrowed(slot))
    }

    /// All entries with a deadline, in no order.
    pub fn iter_with_deadline(&self) -> impl Iterator<Item = EntryRef<'_>> {
        self.deadlines.iter().map(|slot| self.borrowed(slot))
    }

    /// An entry at random, each with the same chance.
    pub fn random(&self, random: &mut Xoshiro) -> Option<EntryRef<'_>> {
        self.keys.random(random).map(|slot| self.borrowed(slot))
    }

    /// An entry with a deadline at random.
    pub fn random_with_deadline(&self, random: &mut Xoshiro) -> Option<EntryRef<'_>> {
        self.deadlines.random(random).map(|slot| self.borrowed(slot))
    }

    /// Keys whose deadlines have passed at `now_ms`, from a part of the database that `budget` bounds: it pays for each
    /// bucket looked at (up to 7 keys) and each key touched, from where the last call stopped to the end at most.
    /// The caller removes the keys; until then later calls find them again.
    pub fn expire_due(&mut self, now_ms: i64, budget: usize) -> Vec<Box<[u8]>> {
        self.deadlines.due(now_ms, budget)
    }

    /// Takes everything out at once; `put_back` undoes that.
    pub fn take_all(&mut self) -> Database {
        std::mem::take(self)
    }

    /// Puts back what `take_all` took. What the database holds now is dropped.
    pub fn put_back(&mut self, taken: Database) {
        *self = taken;
    }

    /// Frees entries until about `entries` are gone. True while some are left.
    pub fn drain(&mut self, entries: usize) -> bool {
        self.deadlines = Deadlines::new();
        let entry_bytes = &mut self.entry_bytes;
        self.keys.drain(entries, |slot| {
            // SAFETY: the slot has left the dict, and `deadlines` is empty, so nothing refers to the entry.
            let entry = unsafe { slot.into_entry() };
            *entry_bytes -= entry.as_ref().memory();
        })
    }

    /// First stage of a batched look-up: starts loading the bucket of a hash.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.keys.prefetch(hash);
    }

    /// Second stage: starts loading the entry that the hash probably belongs to.
    #[inline]
    pub fn prefetch_entry(&self, hash: u64) {
        if let Some(slot) = self.keys.candidate(hash) {
            self.borrowed(slot).prefetch();
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if self.saver.is_some() && self.go_home() {
            return;
        }
        while self.drain(usize::MAX) {}
    }
}

/// An entry of a database, for changes. The entry may move; the database follows.
pub struct EntryMut<'a> {
    database: &'a mut Database,
    hash: u64,
    at: At,
    /// Owned by the database.
    entry: ManuallyDrop<Entry>,
}

impl EntryMut<'_> {
    /// The entry for reading.
    pub fn entry(&self) -> EntryRef<'_> {
        self.entry.as_ref()
    }

    fn change(&mut self, change: impl FnOnce(&mut Entry)) {
        let state = |entry: &Entry| (entry.slot(), entry.as_ref().expire_at(), entry.as_ref().memory());
        let (slot, expire_at, memory) = state(&self.entry);
        change(&mut self.entry);
        let (new_slot, new_expire_at, new_memory) = state(&self.entry);
        if new_slot != slot {
            self.database.keys.replace_at(self.at, self.hash, new_slot);
        }
        self.database.entry_bytes = self.database.entry_bytes + new_memory - memory;
        let deadlines = &mut self.database.deadlines;
        // SAFETY: the new slot is that of a live entry of the database. The old address is only compared.
        unsafe { deadlines.change(self.hash, (slot, expire_at), (new_slot, new_expire_at)) };
    }

    /// Sets value and deadline; without an allocation where the value fits.
    #[inline]
    pub fn set(&mut self, value: EntryValue<'_>, expire_at: Option<i64>) {
        self.change(|entry| entry.set(value, expire_at));
    }

    /// Sets the value and keeps the deadline.
    pub fn set_value(&mut self, value: EntryValue<'_>) {
        self.change(|entry| entry.set_value(value));
    }

    /// Sets or removes the deadline.
    pub fn set_expire(&mut self, expire_at: Option<i64>) {
        self.change(|entry| entry.set_expire(expire_at));
    }

    /// The value, to be changed in place; a compact string gets an allocation of its own first.
    pub fn value_mut(&mut self) -> &mut Value {
        if !self.entry.as_ref().is_boxed() {
            self.change(|entry| {
                entry.promote();
            });
        }
        self.entry.promote()
    }

    /// Removes the entry from its database.
    pub fn remove(self) -> Entry {
        let slot = self.database.keys.remove_at(self.at);
        debug_assert!(slot == self.entry.slot());
        if self.entry.as_ref().expire_at().is_some() {
            self.database.deadlines.remove(self.hash, slot);
        }
        self.database.entry_bytes -= self.entry.as_ref().memory();
        ManuallyDrop::into_inner(self.entry)
    }
}

#[cfg(test)]
mod tests;
