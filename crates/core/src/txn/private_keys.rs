//! The keys of a transaction: private entries of those that it wrote, and how a command works on them.
//!
//! A command knows the keyspace only. So its keys' private entries are *lent* to the keyspace while it runs, with nobody
//! told of what it does, and the entries that were there before come back afterwards. The changes are kept twice over: as
//! entries, which COMMIT puts into the keyspace, and as redo operations, which it logs.

use crate::error::{Code, Error, Result};
use crate::keyspace::database::HashedKey;
use crate::keyspace::entry::{Entry, EntryRef, ValueRef};
use crate::keyspace::saving::Taken;
use crate::keyspace::waiting::Waiting;
use crate::keyspace::watch::Watches;
use crate::keyspace::{Change, Changes, Event, Keyspace, Wants};
use crate::limits;
use crate::value::Op;
use std::collections::{HashMap, HashSet};

/// A database and a key of it.
pub type Name = (usize, Box<[u8]>);

/// The keys of a transaction.
#[derive(Default)]
pub struct PrivateKeys {
    /// What the keys that it wrote hold now, if they exist.
    entries: HashMap<Name, Held>,
    /// Keys that it read, or tried to write, and whether they existed for others then.
    used: HashMap<Name, bool>,
    /// The changes in order: redo while somebody logs, inverses while there is a savepoint.
    list: Vec<Change>,
    /// The list has not all that was changed.
    list_has_gaps: bool,
    events: Vec<Event>,
    dirty: u64,
    /// Keys that became private so far.
    births: u64,
    /// Bytes of the entries; of names, changes and events.
    entry_bytes: usize,
    noted_bytes: usize,
}

/// How far changes and events had come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark {
    changes: usize,
    events: usize,
    dirty: u64,
    births: u64,
}

struct Held {
    entry: Option<Entry>,
    /// How many were private when it became so.
    born: u64,
    bytes: usize,
}

/// What to keep of each change besides the entries.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// What to do again.
    pub redo: bool,
    /// What takes it back.
    pub undo: bool,
}

/// What stood in the keyspace while private entries are lent to it.
pub struct Lent {
    keys: HashMap<Name, LentKey>,
    watches: Watches,
    waiting: Waiting,
}

struct LentKey {
    original: Option<Taken>,
    /// It was private before, so it is afterwards, changed or not.
    born: Option<u64>,
}

/// What keeping a name, a change or an event takes besides its bytes, about.
const NOTE_BYTES: usize = 64;

/// Bytes of an entry with its value.
fn bytes_of(entry: EntryRef<'_>) -> usize {
    let boxed = match entry.value() {
        ValueRef::Value(value) => value.memory(),
        ValueRef::Bytes(bytes) if entry.is_boxed() => bytes.len(),
        _ => 0,
    };
    entry.memory() + boxed
}

impl Lent {
    fn has(&self, db: usize, key: &[u8]) -> bool {
        self.keys.contains_key(&(db, Box::from(key)))
    }

    /// Has a command changed more than what was lent? That a key's time was up is not its doing.
    pub fn has_stray(&self, changes: &Changes, now_ms: i64) -> bool {
        changes.list.iter().any(|change| match change {
            Change::Key { undo: Some(Op::Put(_, Some(at))), redo: Some(Op::Remove), .. } if *at <= now_ms => false,
            Change::Taken { taken, redo: Some(Op::Remove), .. } if taken.entry().is_expired(now_ms) => false,
            Change::Key { db, key, .. } | Change::Taken { db, key, .. } => !self.has(*db, key),
            Change::Move { from, to } => !self.has(from.0, &from.1) || !self.has(to.0, &to.1),
            Change::Flush { .. } | Change::Swap(..) => true,
        })
    }
}

/// The keys of a change, if it is of keys.
fn names_of(change: &Change) -> impl Iterator<Item = Name> {
    let names = match change {
        Change::Key { db, key, .. } | Change::Taken { db, key, .. } => [Some((*db, key.clone())), None],
        Change::Move { from, to } => [Some(from.clone()), Some(to.clone())],
        Change::Flush { .. } | Change::Swap(..) => [None, None],
    };
    names.into_iter().flatten()
}

/// Bytes that a change takes, about: its operations as the log would have them.
fn bytes_of_change(change: &Change, scratch: &mut Vec<u8>) -> usize {
    scratch.clear();
    if let Change::Key { redo, undo, .. } = change {
        redo.iter().chain(undo).for_each(|op| op.encode(scratch));
    }
    names_of(change).map(|(_, key)| key.len()).sum::<usize>() + scratch.len() + NOTE_BYTES
}

#[cold]
fn too_large() -> Error {
    let most = limits::TRANSACTION_BYTES_MAX;
    let text = format!("the transaction would hold more than {most} bytes of keys: commit in smaller parts");
    Error::new(Code::Limit, text)
}

impl PrivateKeys {
    /// Has it changed any key?
    pub fn has_written(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Has it written this key?
    pub fn holds(&self, name: &Name) -> bool {
        self.entries.contains_key(name)
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.entry_bytes + self.noted_bytes
    }

    /// The names of all keys written.
    pub fn names(&self) -> Vec<Name> {
        self.entries.keys().cloned().collect()
    }

    /// The keys that must not have changed in the meantime, and whether they existed.
    pub fn used(&self) -> impl Iterator<Item = (&Name, bool)> {
        self.used.iter().map(|(name, existed)| (name, *existed))
    }

    /// Notes that a key is used, which exists for others or does not.
    pub fn note_use(&mut self, name: Name, exists: bool) -> Result<()> {
        if self.holds(&name) || self.used.contains_key(&name) {
            return Ok(());
        }
        self.noted_bytes += name.1.len() + NOTE_BYTES;
        if self.noted_bytes > limits::TRANSACTION_BYTES_MAX {
            return Err(too_large());
        }
        self.used.insert(name, exists);
        Ok(())
    }

    /// Lends the private entries of `names` to the keyspace; for a command that `writes`, copies of the others, too.
    ///
    /// # Errors
    /// There is no room for the copies. Nothing is lent then.
    pub fn lend(&mut self, keyspace: &mut Keyspace, names: &[Name], writes: bool) -> Result<Lent> {
        if writes {
            self.check_room(keyspace, names)?;
        }
        let mut lent = Lent {
            keys: HashMap::with_capacity(names.len()),
            watches: std::mem::take(&mut keyspace.shared.watches),
            waiting: std::mem::take(&mut keyspace.shared.waiting),
        };
        for name in names {
            // A key named twice is lent once.
            if lent.keys.contains_key(name) {
                continue;
            }
            let database = &mut keyspace.databases[name.0];
            let (born, entry) = match self.entries.remove(name) {
                Some(held) => {
                    self.entry_bytes -= held.bytes;
                    (Some(held.born), held.entry)
                }
                None if writes => (None, database.get(&name.1[..]).map(|entry| entry.copy_as(&name.1))),
                None => continue,
            };
            let original = database.take(&name.1[..]);
            if let Some(entry) = entry {
                database.put(entry);
            }
            lent.keys.insert(name.clone(), LentKey { original, born });
        }
        Ok(lent)
    }

    fn check_room(&self, keyspace: &Keyspace, names: &[Name]) -> Result<()> {
        let mut copies = 0;
        for name in names.iter().filter(|name| !self.holds(name)) {
            let bytes = keyspace.databases[name.0].get(&name.1[..]).map_or(0, bytes_of);
            if bytes > limits::TRANSACTION_VALUE_BYTES_MAX {
                let text = format!(
                    "a value of {bytes} bytes cannot be changed inside a transaction, which would copy it: at most {}",
                    limits::TRANSACTION_VALUE_BYTES_MAX
                );
                return Err(Error::new(Code::Limit, text));
            }
            copies += bytes;
        }
        let all = self.entry_bytes + self.noted_bytes + copies;
        if all > limits::TRANSACTION_BYTES_MAX { Err(too_large()) } else { Ok(()) }
    }

    /// Takes the entries back after a command made `changes`, and gives the keyspace what it had. Changes of other keys
    /// come back: those of expired ones are the keyspace's own; any other the command should not have made.
    pub fn take_back(&mut self, keyspace: &mut Keyspace, lent: Lent, changes: Changes, keep: Keep) -> Vec<Change> {
        let mut changed: HashSet<Name> = HashSet::new();
        let (mut others, mut scratch) = (Vec::new(), Vec::new());
        for mut change in changes.list {
            if !names_of(&change).all(|name| lent.keys.contains_key(&name)) {
                others.push(change);
                continue;
            }
            changed.extend(names_of(&change));
            if let Change::Key { redo, undo, .. } = &mut change {
                redo.take_if(|_| !keep.redo);
                undo.take_if(|_| !keep.undo);
            }
            self.list_has_gaps |= !keep.redo;
            if keep.redo || keep.undo {
                self.noted_bytes += bytes_of_change(&change, &mut scratch);
                self.list.push(change);
            }
        }
        let Lent { keys, watches, waiting } = lent;
        for (name, key) in keys {
            let database = &mut keyspace.databases[name.0];
            // Made after the instant that a pass saves, so nothing is to be saved of it.
            let entry = database.take(&name.1[..]).and_then(Taken::release);
            if let Some(original) = key.original {
                database.put(original);
            }
            if key.born.is_some() || changed.contains(&name) {
                let born = key.born.unwrap_or(self.births);
                self.births += u64::from(key.born.is_none());
                let bytes = entry.as_ref().map_or(0, |entry| bytes_of(entry.as_ref())) + name.1.len() + NOTE_BYTES;
                self.entry_bytes += bytes;
                self.entries.insert(name, Held { entry, born, bytes });
            }
        }
        self.noted_bytes += changes.events.iter().map(|event| event.key.len() + NOTE_BYTES).sum::<usize>();
        self.events.extend(changes.events);
        self.dirty += changes.dirty;
        (keyspace.shared.watches, keyspace.shared.waiting) = (watches, waiting);
        others
    }

    /// How far it has come, to go back to.
    pub fn mark(&self) -> Mark {
        let (changes, events) = (self.list.len(), self.events.len());
        Mark { changes, events, dirty: self.dirty, births: self.births }
    }

    /// Forgets the inverses: no savepoint wants them any more.
    pub fn forget_undo(&mut self) {
        for change in &mut self.list {
            if let Change::Key { undo, .. } = change {
                *undo = None;
            }
        }
    }

    /// Forgets the inverses of what was done since a mark.
    pub fn forget_undo_since(&mut self, mark: Mark) {
        for change in self.list.iter_mut().skip(mark.changes) {
            if let Change::Key { undo, .. } = change {
                *undo = None;
            }
        }
    }

    /// Takes back the changes since a mark, whose inverses were kept. Keys that were not changed before are not private
    /// any more.
    pub fn undo_to(&mut self, mark: Mark, keyspace: &mut Keyspace) -> Result<()> {
        self.events.truncate(mark.events);
        self.dirty = mark.dirty;
        if self.list.len() <= mark.changes {
            return Ok(());
        }
        let lent = self.lend(keyspace, &self.names(), false)?;
        let mut nobody = Changes::default();
        let mut result = Ok(());
        for change in self.list.drain(mark.changes..).rev() {
            match change {
                Change::Key { db, key, undo: Some(op), .. } => {
                    let misfit = |_| Error::new(Code::Bug, "private_keys: an inverse that does not fit");
                    result = result.and(keyspace.apply(db, &key, op).map_err(misfit));
                }
                Change::Move { from, to } => keyspace.relocate((to.0, &to.1), (from.0, &from.1), &mut nobody),
                Change::Key { .. } | Change::Taken { .. } | Change::Flush { .. } | Change::Swap(..) => {}
            }
        }
        self.take_back(keyspace, lent, Changes::default(), Keep { redo: true, undo: true });
        self.entries.retain(|_, held| held.born < mark.births);
        self.entry_bytes = self.entries.values().map(|held| held.bytes).sum();
        result
    }

    /// COMMIT: the private entries take the place of those in the keyspace, watchers and waiters are told, and the
    /// changes go to `changes`, with one inverse for each key if inverses are wanted.
    pub fn commit(self, keyspace: &mut Keyspace, changes: &mut Changes) {
        let PrivateKeys { entries, list, list_has_gaps, events, dirty, .. } = self;
        changes.dirty += dirty.max(entries.len() as u64);
        let logs = changes.wants.contains(Wants::REDO);
        let moved: HashSet<Name> = list
            .iter()
            .filter_map(|change| if let Change::Move { from, to } = change { Some([from, to]) } else { None })
            .flatten()
            .cloned()
            .collect();
        // A key that was renamed is logged as what it is in the end; so is every key if nobody logged at first.
        let logged_whole = |name: &Name| list_has_gaps || moved.contains(name);
        if logs {
            for change in list {
                if let Change::Key { db, key, redo: Some(redo), .. } = change {
                    let name = (db, key);
                    if !logged_whole(&name) {
                        changes.list.push(Change::Key { db, key: name.1, redo: Some(redo), undo: None });
                    }
                }
            }
        }
        for (name, held) in entries {
            let redo = match &held.entry {
                _ if !logs || !logged_whole(&name) => None,
                None => Some(Op::Remove),
                Some(entry) => Some(Op::Put(entry.as_ref().cloned_value(), entry.as_ref().expire_at())),
            };
            let (db, key) = name;
            let original = keyspace.databases[db].take(HashedKey::from(&key[..]));
            if let Some(entry) = held.entry {
                keyspace.databases[db].put(entry);
            }
            keyspace.shared.watches.touch(db, &key);
            keyspace.shared.waiting.signal(db, &key);
            if changes.wants.contains(Wants::UNDO) {
                changes.taken(db, key, redo, original);
            } else {
                keyspace.shared.reaper.free_taken(original);
                changes.taken(db, key, redo, None);
            }
        }
        changes.events.extend(events);
    }
}
