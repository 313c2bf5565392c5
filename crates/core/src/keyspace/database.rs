//! One numbered database: its entries by key, and those of them that have a deadline.
//!
//! The database knows deadlines but no clock: whether an expired key is to be seen is decided above.

use super::deadlines::Deadlines;
use super::entry::{Entry, EntryRef, EntrySlot, EntryValue};
use super::saving::{Lent, Saver, Taken};
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

    /// The entry of a key, expired or not, to be changed; its value only if it is not big.
    #[inline]
    fn get_mut<'k>(&mut self, key: impl Into<HashedKey<'k>>) -> Option<EntryMut<'_>> {
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
        // dropped by the EntryMut, except that `take` takes it out of the dict first.
        let entry = ManuallyDrop::new(unsafe { slot.into_entry() });
        EntryMut { database: self, hash, at, entry }
    }

    /// The entry of a key, expired or not, for an edit of its value. If that is being saved, what is still to be saved of
    /// it is for the edit to know, and to be given back to `edited` (not to anybody else: the checkpoint would fail).
    #[inline]
    pub fn edit<'k>(&mut self, key: impl Into<HashedKey<'k>>) -> Option<(EntryMut<'_>, Option<Lent>)> {
        let key = key.into();
        let (at, slot) = self.find_at(key)?;
        let lent = match &mut self.saver {
            // SAFETY: the entry is alive, and nobody changes it during the call.
            Some(saver) => saver.before_edit(unsafe { slot.entry() }),
            None => None,
        };
        Some((self.entry_mut(key.hash, at, slot), lent))
    }

    /// A value was edited that is being saved; `undo` takes that back, if the edit had to note it.
    pub fn edited(&mut self, lent: Lent, undo: Option<&Op>) {
        if let Some(saver) = &mut self.saver {
            saver.after_edit(lent, undo);
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
        // A value that is being saved goes to the pass, and another entry comes.
        let replaced = self.saver.is_some() && self.take_if_being_saved(key);
        if let Some(mut entry) = self.get_mut(key) {
            entry.set(value, expire_at);
            entry.entry().set_access(access);
            return true;
        }
        let entry = Entry::new(key.bytes, value, expire_at);
        entry.as_ref().set_access(access);
        self.insert_new(key.hash, entry);
        replaced
    }

    #[cold]
    fn take_if_being_saved(&mut self, key: HashedKey<'_>) -> bool {
        self.get_mut(key).is_some()
            && self.saver.as_ref().is_some_and(|saver| saver.is_at(key.bytes))
            && self.take(key).is_some()
    }

    /// Puts an entry in, and returns the one that had its key. One that is being saved goes on being saved.
    pub fn put(&mut self, entry: impl Into<Taken>) -> Option<Taken> {
        let (entry, partial) = entry.into().into_parts();
        let key = entry.as_ref().key();
        let hash = hash::bytes(key);
        let old = self.take(HashedKey { bytes: key, hash });
        if let Some(partial) = partial {
            self.adopt(key, partial);
        }
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

    /// Takes a key out.
    pub fn take<'k>(&mut self, key: impl Into<HashedKey<'k>>) -> Option<Taken> {
        let key = key.into();
        let entry = self.get_mut(key)?.take();
        let partial = self.saver.as_mut().and_then(|saver| saver.let_go(key.bytes));
        Some(Taken::new(entry, partial))
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

    /// Starts loading what `scan` will visit some steps after the cursor.
    pub fn prefetch_scan(&self, cursor: u64) {
        self.keys.prefetch_scan(cursor);
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

    /// Takes the entry out of its database.
    fn take(self) -> Entry {
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
