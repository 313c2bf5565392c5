//! The keyspace: keys to values, with expiry, watches, waiting sessions and notifications.

pub mod changes;
pub mod database;
pub mod entry;
pub mod events;
pub mod keys;
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
}
