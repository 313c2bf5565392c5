//! What a command changed in the keyspace: redo and undo of each change, and the events to tell subscribers.
//!
//! Nothing is materialised that nobody wants: with no log, no undo scope and no listener, recording a change is adding
//! one to a counter.

use super::database::Database;
use super::events::{Event, EventClass};
use super::saving::Taken;
use crate::value::Op;
use bitflags::bitflags;

bitflags! {
    /// What somebody will read of a command's changes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Wants: u8 {
        /// Redo records: there is a log.
        const REDO = 1;
        /// Inverses: an undo scope is open.
        const UNDO = 2;
    }
}

/// One change, in the order made.
pub enum Change {
    /// The value of one key changed.
    Key {
        /// Its database.
        db: usize,
        /// The key.
        key: Box<[u8]>,
        /// What to do again.
        redo: Option<Op>,
        /// What takes it back.
        undo: Option<Op>,
    },
    /// A key lost its value while this was being saved (see `saving`).
    Taken {
        /// Its database.
        db: usize,
        /// The key.
        key: Box<[u8]>,
        /// What to do again.
        redo: Option<Op>,
        /// What it had, kept while it may be put back in the place of what the key has now.
        taken: Taken,
    },
    /// A key moved with its value and deadline (RENAME, MOVE); the destination did not exist.
    Move {
        /// Database and key it had.
        from: (usize, Box<[u8]>),
        /// Database and key it has.
        to: (usize, Box<[u8]>),
    },
    /// A database was emptied.
    Flush {
        /// Its number.
        db: usize,
        /// What was in it, kept while it may be taken back.
        kept: Option<Box<Database>>,
    },
    /// Two databases changed their numbers; its own inverse.
    Swap(usize, usize),
}

/// The changes of one command, script or transaction.
#[derive(Default)]
pub struct Changes {
    /// What to materialise.
    pub wants: Wants,
    /// Which events to keep.
    pub events_wanted: EventClass,
    /// Number of changes told to watchers, whether materialised or not (Redis: dirty).
    pub dirty: u64,
    /// The changes, if anything is wanted.
    pub list: Vec<Change>,
    /// Events, if wanted, in order.
    pub events: Vec<Event>,
}

impl Changes {
    /// Notes one change of a key. The closures run only if their result is wanted.
    #[inline]
    pub fn key(&mut self, db: usize, key: &[u8], redo: impl FnOnce() -> Op, undo: impl FnOnce() -> Op) {
        if !self.wants.is_empty() {
            self.keep_key(db, key, redo, undo);
        }
    }

    #[cold]
    fn keep_key(&mut self, db: usize, key: &[u8], redo: impl FnOnce() -> Op, undo: impl FnOnce() -> Op) {
        let redo = self.wants.contains(Wants::REDO).then(redo);
        let undo = self.wants.contains(Wants::UNDO).then(undo);
        self.list.push(Change::Key { db, key: key.into(), redo, undo });
    }

    /// Notes that a key lost its value, if it had one, and what has become of it.
    pub fn taken(&mut self, db: usize, key: Box<[u8]>, redo: Option<Op>, old: Option<Taken>) {
        let undo = match old {
            _ if !self.wants.contains(Wants::UNDO) => None,
            Some(taken) if taken.is_being_saved() => {
                return self.list.push(Change::Taken { db, key, redo, taken });
            }
            Some(taken) => {
                let (value, expire_at) = taken.into_parts().0.into_parts();
                Some(Op::Put(value, expire_at))
            }
            None => Some(Op::Remove),
        };
        if redo.is_some() || undo.is_some() {
            self.list.push(Change::Key { db, key, redo, undo });
        }
    }

    /// Notes a change that an edit has recorded already.
    pub fn edited(&mut self, db: usize, key: &[u8], redo: Option<Op>, undo: Option<Op>) {
        self.list.push(Change::Key { db, key: key.into(), redo, undo });
    }

    /// Notes a change that is not of one key's value. The closure runs only if it is wanted.
    pub fn other(&mut self, change: impl FnOnce() -> Change) {
        self.dirty += 1;
        if !self.wants.is_empty() {
            self.list.push(change());
        }
    }

    /// Notes an event, if its class is wanted.
    #[inline]
    pub fn event(&mut self, class: EventClass, name: &'static str, db: usize, key: &[u8]) {
        if self.events_wanted.intersects(class) {
            debug_assert_eq!(Some(class), super::events::class_of(name), "{name} stands in no list of events");
            self.events.push(Event { class, name, db, key: key.into() });
        }
    }
}
