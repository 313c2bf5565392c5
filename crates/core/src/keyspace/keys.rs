//! The keys of one database as a command sees them: expired keys are gone (invariant 7), every change is recorded
//! (invariant 2).

use super::Shared;
use super::changes::{Change, Changes, Wants};
use super::database::{Database, HashedKey};
use super::entry::{Entry, EntryRef, EntryValue, ValueRef};
use super::events::EventClass;
use super::saving::Lent;
use super::typed::Typed;
use crate::ds::number::{self, NumberText};
use crate::env::Xoshiro;
use crate::error::{Error, Result};
use crate::value::{Edit, Op, Value};
use std::ops::Deref;

/// One database, for the length of one command.
pub struct Keys<'a> {
    database: &'a mut Database,
    db: usize,
    shared: &'a mut Shared,
    changes: &'a mut Changes,
    now_ms: i64,
}

/// What becomes of a key's deadline when its value is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// It has none afterwards.
    Clear,
    /// It keeps the one it has.
    Keep,
    /// It gets this one, milliseconds since 1970.
    At(i64),
}

/// The content of a string; integers are kept as numbers and written out when read.
pub enum StringRef<'a> {
    /// Bytes of the keyspace.
    Bytes(&'a [u8]),
    /// The text of an integer.
    Number(NumberText),
}

impl Deref for StringRef<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            StringRef::Bytes(bytes) => bytes,
            StringRef::Number(text) => text,
        }
    }
}

impl AsRef<[u8]> for StringRef<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// An entry's content, if it is a string.
#[inline]
fn string_of(entry: EntryRef<'_>) -> Result<StringRef<'_>> {
    match entry.value() {
        ValueRef::Bytes(bytes) => Ok(StringRef::Bytes(bytes)),
        ValueRef::Int(n) => Ok(StringRef::Number(number::i64_text(n))),
        ValueRef::Value(_) => Err(Error::wrong_type()),
    }
}

/// An entry's value, if it is of a type.
#[inline]
fn typed_of<T: Typed>(entry: EntryRef<'_>) -> Result<&T> {
    match entry.value() {
        ValueRef::Value(value) => T::of(value).ok_or_else(Error::wrong_type),
        _ => Err(Error::wrong_type()),
    }
}

impl<'a> Keys<'a> {
    #[inline]
    pub(super) fn new(
        database: &'a mut Database,
        db: usize,
        shared: &'a mut Shared,
        changes: &'a mut Changes,
        now_ms: i64,
    ) -> Self {
        Keys { database, db, shared, changes, now_ms }
    }

    /// The present, milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    // ---- looking

    /// Is the key's time up? Then it is removed, if that can be written down, and hidden in any case.
    #[inline]
    fn is_over(&mut self, key: HashedKey<'_>) -> bool {
        if self.shared.keeps_expired {
            return self.database.get(key).is_some_and(|entry| entry.is_expired(self.now_ms));
        }
        self.expire_if_due(key);
        false
    }

    /// The entry, if it lives.
    #[inline]
    fn live(&mut self, key: HashedKey<'_>) -> Option<EntryRef<'_>> {
        if self.is_over(key) { None } else { self.database.get(key) }
    }

    /// Removes the key if its time is up, as before another takes its place.
    #[inline]
    fn expire_if_due(&mut self, key: HashedKey<'_>) {
        if self.database.len_with_deadline() > 0
            && self.database.get(key).is_some_and(|entry| entry.is_expired(self.now_ms))
        {
            self.expire(key);
        }
    }

    #[cold]
    fn expire(&mut self, key: HashedKey<'_>) {
        self.remove_hashed(key);
        self.shared.stats.expired += 1;
        self.changes.dirty += 1;
        self.shared.watches.expire(self.db, key.bytes);
        self.shared.waiting.signal(self.db, key.bytes);
        self.changes.event(EventClass::EXPIRED, "expired", self.db, key.bytes);
    }

    /// Removes the key for want of memory; false if it is gone already.
    pub fn evict(&mut self, key: &[u8]) -> bool {
        self.shared.reaper.hurried = true;
        let existed = self.remove_hashed(key.into());
        self.shared.reaper.hurried = false;
        if !existed {
            return false;
        }
        self.shared.stats.evicted += 1;
        self.changes.dirty += 1;
        self.shared.watches.touch(self.db, key);
        self.changes.event(EventClass::EVICTED, "evicted", self.db, key);
        true
    }

    /// The entry, if it lives; leaves no trace of the look-up.
    pub fn look(&mut self, key: &[u8]) -> Option<EntryRef<'_>> {
        self.live(key.into())
    }

    /// The entry, if it lives, for a command that will change it: marked as used, but not counted.
    #[inline]
    fn own(&mut self, key: HashedKey<'_>) -> Option<EntryRef<'_>> {
        let (clock, now_ms) = (self.shared.clock.draw_to_change(key.hash), self.now_ms);
        self.expire_if_due(key);
        self.database.get(key).inspect(|entry| clock.touch(*entry, now_ms))
    }

    /// The entry, if it lives, for a command that reads it: marked as used, and counted.
    #[inline]
    fn read(&mut self, key: HashedKey<'_>) -> Option<EntryRef<'_>> {
        let (clock, now_ms) = (self.shared.clock.draw(), self.now_ms);
        self.glance(key).inspect(|entry| clock.touch(*entry, now_ms))
    }

    /// The entry, if it lives, for a command that asks about it only (TTL): counted, and listeners hear of a miss.
    #[inline]
    fn glance(&mut self, key: HashedKey<'_>) -> Option<EntryRef<'_>> {
        let entry = if self.is_over(key) { None } else { self.database.get(key) };
        match entry {
            Some(_) => self.shared.stats.hits += 1,
            None => {
                self.shared.stats.misses += 1;
                self.changes.event(EventClass::KEY_MISS, "keymiss", self.db, key.bytes);
            }
        }
        entry
    }

    /// The entry, if it lives, for OBJECT: counted.
    pub fn inspect(&mut self, key: &[u8]) -> Option<EntryRef<'_>> {
        let key = key.into();
        let entry = if self.is_over(key) { None } else { self.database.get(key) };
        let count = if entry.is_some() { &mut self.shared.stats.hits } else { &mut self.shared.stats.misses };
        *count += 1;
        entry
    }

    /// EXISTS: true if the key exists.
    #[inline]
    pub fn exists(&mut self, key: &[u8]) -> bool {
        self.glance(key.into()).is_some()
    }

    /// TOUCH: true if the key exists, which is then marked as used, whatever CLIENT NO-TOUCH says (Redis 7.2).
    pub fn touch(&mut self, key: &[u8]) -> bool {
        let (clock, now_ms) = (self.shared.clock.draw(), self.now_ms);
        self.glance(key.into()).inspect(|entry| clock.mark(*entry, now_ms)).is_some()
    }

    /// True if the key exists, for a command that will change it.
    pub fn owns(&mut self, key: &[u8]) -> bool {
        self.own(key.into()).is_some()
    }

    /// True if the key exists; leaves no trace.
    pub fn peek(&mut self, key: &[u8]) -> bool {
        self.live(key.into()).is_some()
    }

    /// The type of a key's value, as TYPE names it.
    pub fn kind(&mut self, key: &[u8]) -> Option<&'static str> {
        self.glance(key.into()).map(EntryRef::type_name)
    }

    /// Estimate of a key's memory with its value, bytes.
    pub fn memory(&mut self, key: &[u8]) -> Option<usize> {
        // A slot of the dict is about 13 bytes, counted as one with its share of the pages.
        const SLOT_BYTES: usize = 13;
        let entry = self.live(key.into())?;
        let boxed = if let ValueRef::Value(value) = entry.value() { value.memory() } else { 0 };
        let string = if let ValueRef::Bytes(bytes) = entry.value()
            && entry.is_boxed()
        {
            bytes.len()
        } else {
            0
        };
        Some(SLOT_BYTES + entry.memory() + boxed + string)
    }

    /// How long a key was not used, seconds.
    pub fn idle_s(&mut self, key: &[u8]) -> Option<u64> {
        let now_ms = self.now_ms;
        self.inspect(key).map(|entry| super::access::idle_s(entry.access(), now_ms))
    }

    /// How often a key is used, on Redis's logarithmic scale.
    pub fn frequency(&mut self, key: &[u8]) -> Option<u8> {
        let (clock, now_ms) = (self.shared.clock, self.now_ms);
        self.inspect(key).map(|entry| clock.frequency(entry.access(), now_ms))
    }

    /// A key's deadline, milliseconds since 1970: None without key, `Some(None)` without deadline.
    pub fn deadline(&mut self, key: &[u8]) -> Option<Option<i64>> {
        self.glance(key.into()).map(EntryRef::expire_at)
    }

    /// [`Keys::deadline`] for a command that will change it.
    pub fn own_deadline(&mut self, key: &[u8]) -> Option<Option<i64>> {
        self.own(key.into()).map(EntryRef::expire_at)
    }

    /// The content of a string.
    ///
    /// # Errors
    /// The key holds another type.
    #[inline]
    pub fn string(&mut self, key: &[u8]) -> Result<Option<StringRef<'_>>> {
        self.read(key.into()).map(string_of).transpose()
    }

    /// [`Keys::string`] for a command that will change it.
    ///
    /// # Errors
    /// The key holds another type.
    pub fn own_string(&mut self, key: &[u8]) -> Result<Option<StringRef<'_>>> {
        self.own(key.into()).map(string_of).transpose()
    }

    /// The value of a key, which must be of type `T`.
    ///
    /// # Errors
    /// The key holds another type.
    #[inline]
    pub fn get<T: Typed>(&mut self, key: &[u8]) -> Result<Option<&T>> {
        self.read(key.into()).map(typed_of).transpose()
    }

    /// [`Keys::get`] for a command that will change it.
    ///
    /// # Errors
    /// The key holds another type.
    pub fn own_value<T: Typed>(&mut self, key: &[u8]) -> Result<Option<&T>> {
        self.own(key.into()).map(typed_of).transpose()
    }

    /// The values of several keys at once, each missing or of type `T`.
    ///
    /// # Errors
    /// A key holds another type.
    pub fn get_many<T: Typed>(&mut self, keys: &[&[u8]]) -> Result<Vec<Option<&T>>> {
        for key in keys {
            self.read((*key).into());
        }
        keys.iter().map(|key| self.database.get(*key).map(typed_of).transpose()).collect()
    }

    /// The whole value of several keys at once, of any type (ZUNION takes sets, too).
    pub fn values(&mut self, keys: &[&[u8]]) -> Vec<Option<ValueRef<'_>>> {
        for key in keys {
            self.read((*key).into());
        }
        keys.iter().map(|key| self.database.get(*key).map(EntryRef::value)).collect()
    }

    /// The value of a key, whatever its type.
    pub fn value(&mut self, key: &[u8]) -> Option<ValueRef<'_>> {
        self.read(key.into()).map(EntryRef::value)
    }

    /// A copy of a key's value, with its deadline; leaves no trace.
    pub fn cloned(&mut self, key: &[u8]) -> Option<(Value, Option<i64>)> {
        self.live(key.into()).map(|entry| (entry.cloned_value(), entry.expire_at()))
    }

    /// A copy of a key's entry under another key.
    pub fn copied(&mut self, key: &[u8], new_key: &[u8]) -> Option<Entry> {
        self.read(key.into()).map(|entry| entry.copy_as(new_key))
    }

    /// Shows every living key.
    pub fn each_key(&mut self, mut show: impl FnMut(&[u8])) {
        let now_ms = self.now_ms;
        self.database.iter().filter(|entry| !entry.is_expired(now_ms)).for_each(|entry| show(entry.key()));
    }

    /// Shows some living keys with their types, about `count`, from a cursor on; gives the next cursor, 0 at the end.
    pub fn scan(&mut self, cursor: u64, count: usize, mut show: impl FnMut(&[u8], &'static str)) -> u64 {
        let now_ms = self.now_ms;
        let (mut cursor, mut seen) = (cursor, 0);
        // Empty parts of the table cost steps too; Redis bounds them in the same way.
        for _ in 0..count.saturating_mul(10) {
            cursor = self.database.scan(cursor, |entry| {
                seen += 1;
                if !entry.is_expired(now_ms) {
                    show(entry.key(), entry.type_name());
                }
            });
            if cursor == 0 || seen >= count {
                break;
            }
        }
        cursor
    }

    /// A living key at random.
    pub fn random_key(&mut self, random: &mut Xoshiro) -> Option<Box<[u8]>> {
        // Expired keys met on the way are removed, so this ends; Redis gives up after 100, too.
        for _ in 0..100 {
            let key: Box<[u8]> = self.database.random(random)?.key().into();
            if self.live(key[..].into()).is_some() {
                return Some(key);
            }
        }
        None
    }

    // ---- changing

    /// Tells watchers, waiters and subscribers that a key changed. Every command that changes a key says so with this
    /// or with [`Keys::settle`].
    #[inline]
    pub fn notify(&mut self, class: EventClass, event: &'static str, key: &[u8]) {
        self.changes.dirty += 1;
        self.shared.clock.changed();
        self.shared.watches.touch(self.db, key);
        self.shared.waiting.signal(self.db, key);
        self.changes.event(class, event, self.db, key);
    }

    /// [`Keys::notify`] for a key that may be new under this name (RENAME, COPY).
    pub fn arrived(&mut self, class: EventClass, event: &'static str, key: &[u8]) {
        self.notify(class, event, key);
    }

    /// [`Keys::notify`] after elements were taken: a collection without elements goes.
    #[inline]
    pub fn settle(&mut self, class: EventClass, event: &'static str, key: &[u8]) {
        self.notify(class, event, key);
        let empty =
            |entry: EntryRef<'_>| matches!(entry.value(), ValueRef::Value(value) if value.is_empty_collection());
        if self.database.get(key).is_some_and(empty) {
            self.remove_hashed(key.into());
            self.notify(EventClass::GENERIC, "del", key);
        }
    }

    /// Sets a string, whatever the key held; integers get their compact form.
    #[inline]
    pub fn set_string(&mut self, key: &[u8], bytes: &[u8], expiry: Expiry) {
        self.set_value(key, bytes, EntryValue::Bytes(bytes), expiry);
    }

    /// Sets a string that stays text even if it reads as an integer, as INCRBYFLOAT does.
    pub fn set_text(&mut self, key: &[u8], bytes: &[u8], expiry: Expiry) {
        self.set_value(key, bytes, EntryValue::Text(bytes), expiry);
    }

    #[inline]
    fn set_value(&mut self, key: &[u8], bytes: &[u8], value: EntryValue<'_>, expiry: Expiry) {
        let hashed = HashedKey::from(key);
        self.expire_if_due(hashed);
        let expire_at = match expiry {
            Expiry::Clear => None,
            Expiry::At(deadline) => Some(deadline),
            Expiry::Keep => self.database.get(hashed).and_then(EntryRef::expire_at),
        };
        let access = self.access_when_set(hashed);
        let recorded = !self.changes.wants.is_empty() && self.record_put(hashed, || Value::string(bytes), expire_at);
        let freed = self.free_boxed(hashed);
        let replaced = self.database.set(hashed, value, expire_at, access);
        if !(recorded || freed || replaced) {
            self.changes.event(EventClass::NEW, "new", self.db, key);
        }
    }

    /// Sets a value, whatever the key held.
    pub fn put(&mut self, key: &[u8], value: Value, expire_at: Option<i64>) {
        self.put_entry(Entry::new(key, EntryValue::Value(value), expire_at));
    }

    /// Sets value and deadline of the entry's key, whatever it held.
    pub fn put_entry(&mut self, entry: Entry) {
        let key: Box<[u8]> = entry.as_ref().key().into();
        let hashed = HashedKey::from(&key[..]);
        self.expire_if_due(hashed);
        entry.as_ref().set_access(self.access_when_set(hashed));
        let recorded = !self.changes.wants.is_empty()
            && self.record_put(hashed, || entry.as_ref().cloned_value(), entry.as_ref().expire_at());
        match self.database.put(entry) {
            Some(old) => self.shared.reaper.free_taken(Some(old)),
            None if recorded => {}
            None => self.changes.event(EventClass::NEW, "new", self.db, &key),
        }
    }

    /// What the access clock of a key says when it gets a value: that counts as a use, and the count goes on.
    #[inline]
    fn access_when_set(&mut self, key: HashedKey<'_>) -> u32 {
        let clock = self.shared.clock.draw_to_change(key.hash);
        let before = if clock.lfu { self.database.get(key).map(EntryRef::access) } else { None };
        match before {
            Some(access) if clock.no_touch => access,
            Some(access) => clock.after(access, self.now_ms),
            None => clock.start(self.now_ms),
        }
    }

    /// Records that a key gets a value; the old one, if it is wanted, is taken out for it. True if one was.
    #[cold]
    fn record_put(&mut self, key: HashedKey<'_>, value: impl FnOnce() -> Value, expire_at: Option<i64>) -> bool {
        let wants = self.changes.wants;
        let old = if wants.contains(Wants::UNDO) { self.database.take(key) } else { None };
        let taken = old.is_some();
        let redo = wants.contains(Wants::REDO).then(|| Op::Put(value(), expire_at));
        self.changes.taken(self.db, key.bytes.into(), redo, old);
        taken
    }

    /// A value with allocations of its own is freed away from the baton if it is big, before another takes its place.
    /// True if there was one.
    #[inline]
    fn free_boxed(&mut self, key: HashedKey<'_>) -> bool {
        if self.database.get(key).is_some_and(EntryRef::is_boxed)
            && let Some(old) = self.database.take(key)
        {
            self.shared.reaper.free_taken(Some(old));
            return true;
        }
        false
    }

    /// Removes a key; false if there is none. The caller notifies.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let hashed = HashedKey::from(key);
        self.expire_if_due(hashed);
        self.remove_hashed(hashed)
    }

    fn remove_hashed(&mut self, key: HashedKey<'_>) -> bool {
        let Some(taken) = self.database.take(key) else { return false };
        let wants = self.changes.wants;
        if wants.contains(Wants::UNDO) {
            let redo = wants.contains(Wants::REDO).then_some(Op::Remove);
            self.changes.taken(self.db, key.bytes.into(), redo, Some(taken));
        } else {
            self.changes.key(self.db, key.bytes, || Op::Remove, || Op::Remove);
            self.shared.reaper.free_taken(Some(taken));
        }
        true
    }

    /// Sets or removes a key's deadline. False if there is no key, or no deadline to remove.
    pub fn set_expire(&mut self, key: &[u8], expire_at: Option<i64>) -> bool {
        let hashed = HashedKey::from(key);
        self.expire_if_due(hashed);
        let Some(old) = self.database.get(hashed).map(EntryRef::expire_at) else { return false };
        if old.is_none() && expire_at.is_none() {
            return false;
        }
        self.database.set_expire(hashed, expire_at);
        self.changes.key(self.db, key, || Op::ExpireAt(expire_at), || Op::ExpireAt(old));
        true
    }

    /// Changes a value of type `T` in place; None if there is no key.
    ///
    /// The caller notifies, with [`Keys::settle`] if elements may have been taken.
    ///
    /// # Errors
    /// The key holds another type.
    pub fn edit<T: Typed, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut T, &mut Edit<'_, T::Op>) -> R,
    ) -> Result<Option<R>> {
        let hashed = HashedKey::from(key);
        let Some(entry) = self.own(hashed) else { return Ok(None) };
        if entry.type_name() != T::NAME {
            return Err(Error::wrong_type());
        }
        Ok(self.edit_found(hashed, change))
    }

    /// Changes a value of type `T` in place, after creating an empty one if there is no key. If the change leaves a new
    /// value empty, there is no key afterwards either.
    ///
    /// # Errors
    /// The key holds another type.
    pub fn edit_or_create<T: Typed, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut T, &mut Edit<'_, T::Op>) -> R,
    ) -> Result<R> {
        let hashed = HashedKey::from(key);
        let is_new = match self.own(hashed) {
            Some(entry) if entry.type_name() != T::NAME => return Err(Error::wrong_type()),
            Some(_) => false,
            None => true,
        };
        if is_new {
            self.create(hashed, T::empty());
        }
        let result = self.edit_found(hashed, change);
        if is_new {
            self.drop_if_empty(hashed);
        }
        result.ok_or_else(|| unreachable!("found or created"))
    }

    fn create(&mut self, key: HashedKey<'_>, value: Value) {
        // Redo needs no word for this: an operation on a missing key starts from an empty value.
        if self.changes.wants.contains(Wants::UNDO) {
            let (db, bytes) = (self.db, key.bytes.into());
            self.changes.list.push(Change::Key { db, key: bytes, redo: None, undo: Some(Op::Remove) });
        }
        let access = self.shared.clock.start(self.now_ms);
        self.database.set(key, EntryValue::Value(value), None, access);
        self.changes.event(EventClass::NEW, "new", self.db, key.bytes);
    }

    /// Takes back [`Keys::create`] when the change came to nothing (an error, or no elements).
    fn drop_if_empty(&mut self, key: HashedKey<'_>) {
        let is_empty = |entry: EntryRef<'_>| match entry.value() {
            ValueRef::Bytes(bytes) => bytes.is_empty(),
            ValueRef::Int(_) => false,
            ValueRef::Value(value) => value.is_empty_collection(),
        };
        if self.database.get(key).is_some_and(is_empty) {
            self.database.take(key);
        }
    }

    fn edit_found<T: Typed, R>(
        &mut self,
        key: HashedKey<'_>,
        change: impl FnOnce(&mut T, &mut Edit<'_, T::Op>) -> R,
    ) -> Option<R> {
        let wants = self.changes.wants;
        let (mut entry, mut lent) = self.database.edit(key)?;
        let value = T::of_mut(entry.value_mut())?;
        if wants.is_empty() && lent.is_none() {
            return Some(change(value, &mut Edit::silent(&self.shared.thresholds)));
        }
        let wants_undo = wants.contains(Wants::UNDO);
        let rest = lent.as_mut().map(Lent::rest);
        let notes_undo = wants_undo || rest.as_ref().is_some_and(|rest| rest.wants_inverse());
        let mut edit = Edit::recording(&self.shared.thresholds, wants.contains(Wants::REDO), notes_undo).saving(rest);
        let result = change(value, &mut edit);
        let (redo, undo) = edit.finish();
        let mut undo = undo.map(T::op);
        if let Some(lent) = lent {
            self.database.edited(lent, undo.as_ref());
            undo.take_if(|_| !wants_undo);
        }
        if redo.is_some() || undo.is_some() {
            self.changes.edited(self.db, key.bytes, redo.map(T::op), undo);
        }
        Some(result)
    }
}
