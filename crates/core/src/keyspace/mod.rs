//! The keyspace: keys to values, with expiry, watches, waiting sessions and notifications.

mod access;
pub mod changes;
pub mod database;
mod deadlines;
pub mod entry;
pub mod events;
pub mod evict;
pub mod keys;
mod place;
pub mod reaper;
pub mod saving;
pub mod typed;
pub mod waiting;
pub mod watch;

pub use access::AccessClock;
pub use changes::{Change, Changes, Wants};
pub use events::{Event, EventClass};
pub use keys::Keys;

use crate::value::codec::{Decoded, Malformed};
use crate::value::{Op, Thresholds, string};
use database::Database;

/// All numbered databases and what they share.
pub struct Keyspace {
    /// The databases, by number.
    pub databases: Vec<Database>,
    /// What commands in any database share.
    pub shared: Shared,
}

/// What the databases share: settings, counters, watchers, waiters.
#[derive(Default)]
pub struct Shared {
    /// When small encodings give way to large ones.
    pub thresholds: Thresholds,
    /// Watched keys.
    pub watches: watch::Watches,
    /// Sessions waiting for keys.
    pub waiting: waiting::Waiting,
    /// Counters for INFO.
    pub stats: Stats,
    /// How accesses are remembered.
    pub clock: AccessClock,
    /// The present, about: what is put back or done again counts as used then. Milliseconds since 1970.
    pub coarse_ms: i64,
    /// Frees what is big.
    pub reaper: reaper::Reaper,
    /// The passes that save all keys.
    pub epochs: saving::Epochs,
    /// Keys whose time is up are hidden but stay, because the log takes nothing: not their removal, either.
    pub keeps_expired: bool,
    /// Keys that may have to go.
    pub evictor: evict::Evictor,
}

/// Counters of the keyspace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Look-ups that found their key.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
    /// Keys removed because their time was up.
    pub expired: u64,
    /// Keys removed for want of memory.
    pub evicted: u64,
}

impl Keyspace {
    /// `count` empty databases.
    pub fn new(count: usize) -> Self {
        Keyspace { databases: (0..count).map(|_| Database::new()).collect(), shared: Shared::default() }
    }

    /// The keys of database `db`, for one command at `now_ms`, whose changes go to `changes`.
    #[inline]
    pub fn keys<'a>(&'a mut self, db: usize, now_ms: i64, changes: &'a mut Changes) -> Keys<'a> {
        Keys::new(&mut self.databases[db], db, &mut self.shared, changes, now_ms)
    }

    /// Empties a database at once; what was in it is freed away from the baton, or kept while it may be taken back.
    pub fn flush(&mut self, db: usize, changes: &mut Changes) {
        let database = &mut self.databases[db];
        self.shared.watches.touch_where(db, |key| database.get(key).is_some());
        if database.is_empty() {
            return;
        }
        changes.dirty += database.len() as u64;
        let kept = Box::new(database.take_all());
        if changes.wants.contains(Wants::UNDO) {
            changes.list.push(Change::Flush { db, kept: Some(kept) });
            return;
        }
        if kept.is_being_saved() {
            // The pass that saves it takes it over.
            drop(kept);
        } else {
            self.shared.reaper.free(kept);
        }
        changes.other(|| Change::Flush { db, kept: None });
    }

    /// Exchanges two databases.
    pub fn swap(&mut self, a: usize, b: usize, changes: &mut Changes) {
        if a == b {
            return;
        }
        let (first, second) = (&self.databases[a], &self.databases[b]);
        // A watched key changed if it exists in either.
        let exists = |key: &[u8]| first.get(key).is_some() || second.get(key).is_some();
        self.shared.watches.touch_where(a, exists);
        self.shared.watches.touch_where(b, exists);
        self.databases.swap(a, b);
        self.shared.waiting.signal_database(a);
        self.shared.waiting.signal_database(b);
        changes.other(|| Change::Swap(a, b));
    }

    /// Performs one operation on a key, for replay and rollback; a collection left empty goes.
    ///
    /// # Errors
    /// The operation does not fit what the key holds.
    pub fn apply(&mut self, db: usize, key: &[u8], op: Op) -> Decoded<()> {
        let database = &mut self.databases[db];
        match op {
            Op::Put(value, expire_at) => {
                let entry = entry::Entry::new(key, entry::EntryValue::Value(value), expire_at);
                entry.as_ref().set_access(self.shared.clock.start(self.shared.coarse_ms));
                let old = database.put(entry);
                self.shared.reaper.free_taken(old);
            }
            Op::Remove => {
                let old = database.take(key);
                self.shared.reaper.free_taken(old);
            }
            Op::ExpireAt(expire_at) => {
                database.set_expire(key, expire_at);
            }
            op => {
                if let Some(empty) = op.empty_value()
                    && database.get(key).is_none()
                {
                    let access = self.shared.clock.start(self.shared.coarse_ms);
                    database.set(key, entry::EntryValue::Value(empty), None, access);
                }
                let found = database.edit(key).ok_or(Malformed("a change of a key that does not exist"))?;
                let (mut entry, mut lent) = found;
                let value = entry.value_mut();
                let undo = value.apply_saving(op, &self.shared.thresholds, lent.as_mut().map(saving::Lent::rest));
                let is_empty = value.is_empty_collection();
                if let Some(lent) = lent {
                    database.edited(lent, undo.as_ref().ok());
                }
                undo?;
                if is_empty {
                    let old = database.take(key);
                    self.shared.reaper.free_taken(old);
                }
            }
        }
        Ok(())
    }

    /// A digest of all keys with their values and deadlines, equal for equal contents, whatever the encodings.
    pub fn digest(&self) -> u64 {
        let mut digest = 0u64;
        for (db, database) in self.databases.iter().enumerate() {
            for entry in database.iter() {
                let key = string::digest(entry.key()).rotate_left(17);
                let value = entry.cloned_value().digest();
                let deadline = entry.expire_at().map_or(0, |at| at as u64 ^ 0x9E37_79B9_7F4A_7C15);
                // Keys come in no order, so theirs are added up; within one the parts are mixed.
                let mixed = (key ^ value.rotate_left(31)).wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ deadline;
                digest = digest.wrapping_add(mixed.rotate_left(db as u32).wrapping_mul(0xA24B_AED4_963E_E407));
            }
        }
        digest
    }

    /// Removes keys whose time is up, for a slice of work; gives their number and whether more may be due.
    pub fn expire_due(&mut self, now_ms: i64, changes: &mut Changes) -> (usize, bool) {
        const BUDGET: usize = 400;
        let (mut removed, mut more) = (0, false);
        for db in 0..self.databases.len() {
            if self.databases[db].len_with_deadline() == 0 {
                continue;
            }
            let due = self.databases[db].expire_due(now_ms, BUDGET);
            more |= due.len() * 4 > BUDGET;
            removed += due.len();
            let mut keys = self.keys(db, now_ms, changes);
            due.iter().for_each(|key| {
                keys.peek(key);
            });
        }
        (removed, more)
    }

    /// Gives a key another name or another database. The source must exist, the destination must not.
    pub fn relocate(&mut self, from: (usize, &[u8]), to: (usize, &[u8]), changes: &mut Changes) {
        let Some(taken) = self.databases[from.0].take(from.1) else { return };
        self.databases[to.0].put(taken.renamed(to.1));
        changes.event(EventClass::NEW, "new", to.0, to.1);
        changes.other(|| Change::Move { from: (from.0, from.1.into()), to: (to.0, to.1.into()) });
    }
}
