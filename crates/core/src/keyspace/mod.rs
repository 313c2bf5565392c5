//! The keyspace: keys to values, with expiry, watches, waiting sessions and notifications.

mod access;
pub mod changes;
pub mod database;
mod deadlines;
pub mod entry;
pub mod events;
pub mod keys;
pub mod reaper;
pub mod typed;
pub mod waiting;
pub mod watch;

pub use changes::{Change, Changes, Wants};
pub use events::{Event, EventClass};
pub use keys::Keys;

use crate::value::Thresholds;
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
    /// Frees what is big.
    pub reaper: reaper::Reaper,
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

/// What is written into an entry when it is used.
#[derive(Clone, Copy, Debug, Default)]
pub struct AccessClock {
    /// Count uses (LFU) instead of noting their time (LRU).
    pub lfu: bool,
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
        self.shared.reaper.free(kept);
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

    /// Gives a key another name or another database. The source must exist, the destination must not.
    pub fn relocate(&mut self, from: (usize, &[u8]), to: (usize, &[u8]), changes: &mut Changes) {
        let Some((value, expire_at)) = self.databases[from.0].remove(from.1).map(entry::Entry::into_parts) else {
            return;
        };
        self.databases[to.0].put(entry::Entry::new(to.1, entry::EntryValue::Value(value), expire_at));
        changes.other(|| Change::Move { from: (from.0, from.1.into()), to: (to.0, to.1.into()) });
    }
}
