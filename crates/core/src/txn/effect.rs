//! What one command, script, statement or transaction changed, in keys and in tables.
//!
//! Keys and tables never touch each other's changes, so each nature keeps its own list; within a list the order is the
//! order in which the changes were made.

use super::tables::TableChanges;
use crate::keyspace::{Changes, EventClass, Wants};

/// The changes of one unit of atomicity, filled by commands and committed by the executor.
#[derive(Default)]
pub struct Effect {
    /// Changes of keys.
    pub keys: Changes,
    /// Changes of tables.
    pub tables: TableChanges,
}

impl Effect {
    /// An empty effect that materialises what is wanted.
    pub fn new(wants: Wants, events_wanted: EventClass) -> Self {
        let keys = Changes { wants, events_wanted, ..Changes::default() };
        Effect { keys, tables: TableChanges::new(wants) }
    }

    /// True when nothing was changed and nothing is to be told.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.keys.dirty == 0 && self.tables.dirty == 0 && self.keys.events.is_empty()
    }

    /// Number of changes.
    #[inline]
    pub fn dirty(&self) -> u64 {
        self.keys.dirty + self.tables.dirty
    }
}
