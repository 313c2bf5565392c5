//! Saves all keys as they were at one instant, a few at a time, while commands go on changing them.
//!
//! A *pass* gives each database that holds keys a [`Saver`], and then walks the databases in slices under the baton. An
//! entry is saved once: by the walk, or, just before it is changed or removed, by the database itself, whoever asked for
//! the change. Which entries are saved stands in their `epoch`; entries that are made meanwhile have it from birth, as
//! they are not part of the instant. When a database is walked through its saver goes, so databases that are done, or
//! were empty, cost nothing.
//!
//! The saver stays with its database and knows the number that this had: SWAPDB changes nothing. A database emptied by
//! FLUSHDB takes the saver along, and comes to the pass when it is dropped, to be walked there; one that is put back
//! (undo) goes on where it was.
//!
//! A *big* value is only begun, by an empty value, when its turn comes or when it is first touched. From then on a
//! [`Partial`] says under which key it is saved and what is still to be saved of it, and is always where the value is:
//! - in the saver of the database that has the value, under the key that it has now; an edit borrows it, and leaves in it
//!   what it overwrites (`value/pieces`);
//! - while the value has no key (removed, replaced, renamed, lent to a transaction), beside the entry in a [`Taken`]. Put
//!   under another key or into another database, or put back, it goes on from there;
//! - a `Taken` that is dropped comes to the pass, which saves the rest in slices and then has the value freed.
//!
//! So the most that one command saves is, for each key that it changes: an entry that is not big, or the beginning of one
//! that is, and what it overwrites of a big value with a piece (64 kB of a string, a node of a list) at either end.
//!
//! **Epochs** are 1 to 65535, in turn; 0 is the mark of no pass. The marks in databases are those of passes since the
//! last one that came to its end, which marked every entry. So an epoch can only come again while a mark of it is left
//! if 65534 passes in a row were given up; before that the marks are wiped.

mod home;
#[cfg(test)]
mod model_tests;
mod saver;
#[cfg(test)]
mod tests;

use super::Keyspace;
use super::database::Database;
use super::entry::{Entry, EntryRef};
use crate::value::pieces::Rest;
use home::{Home, Orphan, Output, Ticket};
pub use saver::Lent;
pub(super) use saver::Saver;
use std::sync::{Arc, Weak};

/// What looking at an entry costs of a slice's budget, besides the bytes it is saved in.
const LOOK_COST: usize = 64;

/// Where a pass divides what it saves, bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// A batch is closed when it is this long.
    pub batch: usize,
    /// Pieces of a big value are about so long.
    pub piece: usize,
    /// A string is big when it is longer. It is copied faster than a collection is walked.
    pub big_string: usize,
    /// A collection is big when it takes more.
    pub big_collection: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes { batch: 128 << 10, piece: 64 << 10, big_string: 1 << 20, big_collection: 64 << 10 }
    }
}

/// Keys of one database, saved.
#[derive(Debug, Default)]
pub struct Batch {
    /// The number that the database had when the pass began.
    pub db: usize,
    /// How many keys begin here.
    pub keys: u64,
    /// For each, and for each further piece of a big one: the key, and an operation (`value::op`).
    pub bytes: Vec<u8>,
}

/// What the passes of a keyspace have to know of each other.
#[derive(Default)]
pub struct Epochs {
    last: u16,
    /// Passes begun since the last one that came to its end.
    unfinished: u16,
    running: Weak<Home>,
    /// How passes divide what they save.
    pub sizes: Sizes,
}

impl Epochs {
    /// The epoch of the next pass, and whether all marks must be wiped first.
    fn next(&mut self) -> (u16, bool) {
        let wipe = self.unfinished == u16::MAX - 1;
        self.unfinished = if wipe { 1 } else { self.unfinished + 1 };
        self.last = self.last.checked_add(1).unwrap_or(1);
        (self.last, wipe)
    }
}

/// How far a big value is saved.
pub struct Partial {
    /// The number and the key that it had at the instant.
    db: usize,
    key: Box<[u8]>,
    rest: Rest,
    ticket: Ticket,
}

/// An entry that has left its database, with what is still to be saved of it. Dropped, it goes to the pass for that.
pub struct Taken {
    /// There until the end.
    entry: Option<Entry>,
    partial: Option<Box<Partial>>,
}

impl From<Entry> for Taken {
    fn from(entry: Entry) -> Taken {
        Taken { entry: Some(entry), partial: None }
    }
}

impl Taken {
    pub(super) fn new(entry: Entry, partial: Option<Box<Partial>>) -> Taken {
        Taken { entry: Some(entry), partial }
    }

    /// The entry for reading.
    pub fn entry(&self) -> EntryRef<'_> {
        self.entry.as_ref().map(Entry::as_ref).expect("there until the end")
    }

    /// The same under another key.
    pub fn renamed(self, key: &[u8]) -> Taken {
        let (entry, partial) = self.into_parts();
        Taken::new(entry.renamed(key), partial)
    }

    /// The entry alone, if nothing is to be saved of it; otherwise it goes to the pass.
    pub fn release(mut self) -> Option<Entry> {
        if self.is_being_saved() { None } else { self.entry.take() }
    }

    /// Is something of it still to be saved?
    pub fn is_being_saved(&self) -> bool {
        self.partial.as_ref().is_some_and(|partial| partial.ticket.is_good())
    }

    /// The entry, and what is to be saved of it.
    pub(super) fn into_parts(mut self) -> (Entry, Option<Box<Partial>>) {
        let partial = self.partial.take();
        (self.entry.take().expect("there until the end"), partial)
    }
}

/// A pass over all databases. Dropped, it is given up.
pub struct Pass {
    home: Arc<Home>,
    /// Databases that were emptied meanwhile.
    emptied: Vec<Database>,
    /// Big values that were removed meanwhile, the last one first.
    orphans: Vec<Orphan>,
    output: Output,
}

impl Pass {
    /// Begins to save the keys as they are now. `None` while another pass runs.
    pub fn begin(keyspace: &mut Keyspace) -> Option<Pass> {
        let epochs = &mut keyspace.shared.epochs;
        if epochs.running.strong_count() > 0 {
            return None;
        }
        let (epoch, wipe) = epochs.next();
        let home = Arc::new(Home::new(epoch, epochs.sizes, keyspace.shared.reaper.counter()));
        epochs.running = Arc::downgrade(&home);
        for (db, database) in keyspace.databases.iter_mut().enumerate() {
            if wipe {
                database.iter().for_each(|entry| entry.set_epoch(0));
            }
            database.saver = (!database.is_empty()).then(|| Saver::new(db, &home));
        }
        let output = Output::new(&home);
        Some(Pass { home, emptied: Vec::new(), orphans: Vec::new(), output })
    }

    /// Works on for about `budget` (bytes saved, and 64 for each key looked at), unless a lot waits to be taken. True:
    /// there is more to do. After false, and taking the output, all keys are saved.
    pub fn slice(&mut self, keyspace: &mut Keyspace, budget: usize) -> bool {
        {
            let mut inside = self.home.inside();
            self.emptied.append(&mut inside.databases);
            self.orphans.append(&mut inside.orphans);
        }
        let mut left = budget;
        if self.home.has_room() {
            left = left.saturating_sub(self.save_orphans(keyspace, left));
        }
        for database in keyspace.databases.iter_mut().chain(&mut self.emptied) {
            if left > 0 && self.home.has_room() && database.saver_of(&self.home).is_some() {
                left = left.saturating_sub(database.save_some(left));
            }
        }
        for database in self.emptied.extract_if(.., |database| database.saver.is_none()) {
            keyspace.shared.reaper.free(database);
        }
        let is_done = self.home.is_done();
        if is_done && keyspace.shared.epochs.last == self.home.epoch {
            keyspace.shared.epochs.unfinished = 1;
        }
        !is_done
    }

    /// Saves what is left of removed values; gives what that cost.
    fn save_orphans(&mut self, keyspace: &mut Keyspace, budget: usize) -> usize {
        let (before, mut looks) = (self.output.bytes(), 0);
        while looks * LOOK_COST + self.output.bytes() - before < budget
            && let Some(Orphan { entry, partial, .. }) = self.orphans.last_mut()
        {
            looks += 1;
            if !partial.is_done() {
                partial.save_piece(entry.as_ref(), &mut self.output);
            } else if let Some(orphan) = self.orphans.pop() {
                keyspace.shared.reaper.free_counted(orphan);
            }
        }
        if self.orphans.is_empty() {
            self.output.close();
        }
        looks * LOOK_COST + self.output.bytes() - before
    }

    /// What was saved since the last call.
    pub fn take_output(&mut self) -> Vec<Batch> {
        let mut inside = self.home.inside();
        inside.output_bytes = 0;
        std::mem::take(&mut inside.output)
    }

    /// Has something been lost that was to be saved, as by a panic in the midst of a command? Then what was saved is not
    /// the state at the instant.
    pub fn is_broken(&self) -> bool {
        self.home.inside().is_broken
    }

    /// Bytes saved by all savers that are at work.
    #[cfg(test)]
    pub fn bytes(&self, keyspace: &Keyspace) -> usize {
        let emptied = self.emptied.iter().map(|database| database.saver.as_ref().map_or(0, |saver| saver.bytes()));
        let there = keyspace.databases.iter().map(|database| database.saver.as_ref().map_or(0, |saver| saver.bytes()));
        let at_home = |database: &Database| database.saver.as_ref().map_or(0, |saver| saver.bytes());
        emptied.chain(there).sum::<usize>() + self.home.inside().databases.iter().map(at_home).sum::<usize>()
    }

    /// Gives the pass up.
    pub fn abort(self, keyspace: &mut Keyspace) {
        for database in &mut keyspace.databases {
            database.saver = None;
        }
        keyspace.shared.epochs.running = Weak::new();
        // What was emptied meanwhile is freed away from the baton.
        keyspace.shared.reaper.free(self);
    }
}
