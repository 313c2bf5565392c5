//! Saves the entries of one database: walks through it, and is told before one changes.

use super::home::{Home, Output, Ticket};
use super::{LOOK_COST, Partial, Sizes};
use crate::ds::number;
use crate::keyspace::database::Database;
use crate::keyspace::entry::{EntryRef, ValueRef};
use crate::value::pieces::Rest;
use crate::value::{Op, Value, codec};
use hashbrown::HashMap;
use std::sync::Arc;

/// Saves the entries of one database.
pub(in crate::keyspace) struct Saver {
    /// The number that the database had when the pass began.
    db: usize,
    epoch: u16,
    cursor: u64,
    /// All buckets have been visited: no entry is still to be begun.
    is_through: bool,
    /// The big values of which a part is saved, by the keys that they have now.
    partials: HashMap<Box<[u8]>, Box<Partial>>,
    output: Output,
    sizes: Sizes,
    ticket: Ticket,
}

/// A big value that is being edited, out of its saver's hands.
pub struct Lent {
    key: Box<[u8]>,
    partial: Box<Partial>,
}

impl Lent {
    /// What is still to be saved.
    pub fn rest(&mut self) -> &mut Rest {
        &mut self.partial.rest
    }
}

impl Saver {
    /// One for a database that is to be saved.
    pub(super) fn new(db: usize, home: &Arc<Home>) -> Box<Saver> {
        let (output, ticket, partials) = (Output::new(home), Ticket::new(home), HashMap::new());
        let Home { epoch, sizes, .. } = **home;
        Box::new(Saver { db, epoch, cursor: 0, is_through: false, partials, output, sizes, ticket })
    }

    /// The mark of entries that need not be saved.
    pub fn epoch(&self) -> u16 {
        self.epoch
    }

    pub(super) fn is_of(&self, home: &Arc<Home>) -> bool {
        self.ticket.is_of(home)
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_through && self.partials.is_empty()
    }

    /// An entry is about to change, or to go: it is saved, or, if it is big, begun.
    #[inline]
    pub fn before_change(&mut self, entry: EntryRef<'_>) {
        if entry.epoch() != self.epoch && !self.is_through {
            self.begin(entry);
        }
    }

    /// An entry's value is about to be edited. What this gives is for the edit, and comes back with `after_edit`.
    #[cold]
    pub fn before_edit(&mut self, entry: EntryRef<'_>) -> Option<Lent> {
        self.before_change(entry);
        if !self.ticket.is_good() {
            return None;
        }
        let (key, partial) = self.partials.remove_entry(entry.key())?;
        Some(Lent { key, partial })
    }

    /// The edit is done, and `undo` takes it back.
    pub fn after_edit(&mut self, lent: Lent, undo: Option<&Op>) {
        let Lent { key, mut partial } = lent;
        if let Some(undo) = undo {
            let mut before = Vec::new();
            codec::put_bytes(&mut before, &partial.key);
            partial.rest.tell(undo, &before, &mut self.output.batch_of(partial.db).bytes);
            self.output.close_if_full();
        }
        self.partials.insert(key, partial);
    }

    /// Is this key's value saved in part?
    pub fn is_at(&self, key: &[u8]) -> bool {
        self.partials.contains_key(key)
    }

    /// A key leaves the database: what is to be saved of its value goes along. What is saved of it must come first.
    pub fn let_go(&mut self, key: &[u8]) -> Option<Box<Partial>> {
        let partial = self.partials.remove(key)?;
        self.output.close();
        Some(partial)
    }

    /// Saves an entry and marks it; of a big one no more than that there is one.
    #[cold]
    fn begin(&mut self, entry: EntryRef<'_>) {
        // A pass that was given up wants nothing any more.
        let Some(home) = self.ticket.home() else { return };
        entry.set_epoch(self.epoch);
        let rest = entry.boxed().and_then(|value| self.rest_of(value));
        let batch = self.output.batch_of(self.db);
        let (expire_at, out) = (entry.expire_at(), &mut batch.bytes);
        codec::put_bytes(out, entry.key());
        match entry.value() {
            ValueRef::Bytes(bytes) => {
                Op::encode_put_string(if rest.is_some() { b"" } else { bytes }, expire_at, out);
            }
            ValueRef::Int(n) => Op::encode_put_string(&number::i64_text(n), expire_at, out),
            ValueRef::Value(value) if rest.is_some() => Op::encode_put(&value.emptied(), expire_at, out),
            ValueRef::Value(value) => Op::encode_put(value, expire_at, out),
        }
        batch.keys += 1;
        self.output.close_if_full();
        if let Some(rest) = rest {
            let key: Box<[u8]> = entry.key().into();
            let partial = Partial { db: self.db, key: key.clone(), rest, ticket: Ticket::new(&home) };
            self.partials.insert(key, Box::new(partial));
        }
    }

    /// The pieces of a value, if it is big.
    fn rest_of(&self, value: &Value) -> Option<Rest> {
        let is_big = match value {
            Value::Str(string) => string.len() > self.sizes.big_string,
            collection => collection.takes_more_than(self.sizes.big_collection),
        };
        is_big.then(|| Rest::of(value, self.sizes.piece)).flatten()
    }

    /// Walks on through its database until about `budget` is spent; gives what was.
    pub(super) fn walk(&mut self, database: &Database, budget: usize) -> usize {
        let (before, mut looks) = (self.output.bytes(), 0);
        let spent = |saver: &Saver, looks: usize| looks * LOOK_COST + saver.output.bytes() - before;
        while !self.is_done() && spent(self, looks) < budget {
            looks += 1;
            if self.partials.is_empty() {
                looks += self.visit_bucket(database);
            } else {
                self.save_piece(database);
            }
        }
        spent(self, looks)
    }

    /// Saves a piece of some big value.
    fn save_piece(&mut self, database: &Database) {
        let Some((key, partial)) = self.partials.iter_mut().next() else { return };
        match database.get(&key[..]) {
            Some(entry) if !partial.is_done() => partial.save_piece(entry, &mut self.output),
            _ => {
                let key = key.clone();
                self.partials.remove(&key);
            }
        }
    }

    /// Saves the entries of the next bucket, up to the first big one; gives how many it looked at.
    fn visit_bucket(&mut self, database: &Database) -> usize {
        let (mut looks, mut again) = (0, false);
        // A walk in the order of the hashes finds nothing in the processor's cache.
        database.prefetch_scan(self.cursor);
        let next = database.scan(self.cursor, |entry| {
            looks += 1;
            if entry.epoch() == self.epoch {
                return;
            }
            if self.partials.is_empty() {
                self.begin(entry);
            } else {
                again = true;
            }
        });
        if !again {
            self.cursor = next;
            self.is_through = next == 0;
        }
        looks
    }

    /// All bytes saved here.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.output.bytes()
    }
}

impl Partial {
    pub(super) fn is_done(&self) -> bool {
        self.rest.is_done()
    }

    /// Saves the next piece.
    pub(super) fn save_piece(&mut self, entry: EntryRef<'_>, output: &mut Output) {
        let out = &mut output.batch_of(self.db).bytes;
        codec::put_bytes(out, &self.key);
        match entry.boxed() {
            Some(value) => self.rest.put_piece(value, out),
            // A string that was cut, and moved to another key.
            None => self.rest.put_piece(&entry.cloned_value(), out),
        }
        output.close_if_full();
    }
}

impl Database {
    /// Saves some entries; the saver goes when it is done.
    pub(super) fn save_some(&mut self, budget: usize) -> usize {
        let Some(mut saver) = self.saver.take() else { return 0 };
        let spent = saver.walk(self, budget);
        if saver.is_done() {
            saver.output.close();
        } else {
            self.saver = Some(saver);
        }
        spent
    }

    pub(super) fn saver_of(&mut self, home: &Arc<Home>) -> Option<&mut Saver> {
        self.saver.as_deref_mut().filter(|saver| saver.is_of(home))
    }

    /// Has it entries that are still to be saved?
    pub(in crate::keyspace) fn is_being_saved(&self) -> bool {
        self.saver.as_ref().is_some_and(|saver| saver.ticket.is_good())
    }

    /// A value has come under this key that is being saved. In a database that is done, or is not part of the instant,
    /// nothing else is to be saved.
    #[cold]
    pub(in crate::keyspace) fn adopt(&mut self, key: &[u8], partial: Box<Partial>) {
        let Some(home) = partial.ticket.home() else { return };
        if self.saver_of(&home).is_none() {
            let mut saver = Saver::new(partial.db, &home);
            saver.is_through = true;
            self.saver = Some(saver);
        }
        if let Some(saver) = &mut self.saver {
            saver.partials.insert(key.into(), partial);
        }
    }

    /// The database is dropped: if it has entries to be saved, the pass takes it. True if it did.
    #[cold]
    pub(in crate::keyspace) fn go_home(&mut self) -> bool {
        let Some(home) = self.saver.as_ref().and_then(|saver| saver.ticket.home()) else { return false };
        home.inside().databases.push(std::mem::take(self));
        true
    }
}
