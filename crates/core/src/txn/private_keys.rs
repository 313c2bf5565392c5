//! The keys of a transaction: private entries of those that it wrote, and how a command works on them.
//!
//! A command knows the keyspace only. So its keys' private entries are *lent* to the keyspace while it runs, with nobody
//! told of what it does, and the entries that were there before come back afterwards. The changes are kept twice over: as
//! entries, which COMMIT puts into the keyspace, and as redo operations, which it logs.

use crate::error::{Code, Error, Result};
use crate::keyspace::database::HashedKey;
use crate::keyspace::entry::{Entry, EntryRef, ValueRef};
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
    /// Keys that it read, or tried to write.
    used: HashSet<Name>,
    /// The changes in order; their inverses only while there is a savepoint.
    list: Vec<Change>,
    events: Vec<Event>,
    bytes: usize,
}

struct Held {
    entry: Option<Entry>,
    bytes: usize,
}

/// What stood in the keyspace while private entries are lent to it.
pub struct Lent {
    keys: Vec<LentKey>,
    watches: Watches,
    waiting: Waiting,
}

struct LentKey {
    name: Name,
    original: Option<Entry>,
    /// It was private before, so it is afterwards, changed or not.
    private: bool,
}

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
        self.keys.iter().any(|lent| lent.name.0 == db && *lent.name.1 == *key)
    }

    /// Has a command changed more than what was lent? That a key's time was up is not its doing.
    pub fn has_stray(&self, changes: &Changes, now_ms: i64) -> bool {
        changes.list.iter().any(|change| match change {
            Change::Key { undo: Some(Op::Put(_, Some(at))), redo: Some(Op::Remove), .. } if *at <= now_ms => false,
            Change::Key { db, key, .. } => !self.has(*db, key),
            Change::Move { from, to } => !self.has(from.0, &from.1) || !self.has(to.0, &to.1),
            Change::Flush { .. } | Change::Swap(..) => true,
        })
    }
}

impl PrivateKeys {
    /// Has it changed any key?
    pub fn has_written(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keys written.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Is no key written?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Has this key been written?
    pub fn holds(&self, name: &Name) -> bool {
        self.entries.contains_key(name)
    }

    /// The names of all keys written.
    pub fn names(&self) -> Vec<Name> {
        self.entries.keys().cloned().collect()
    }

    /// The keys that must not have changed in the meantime.
    pub fn used(&self) -> impl Iterator<Item = &Name> {
        self.used.iter()
    }

    /// Notes that a key was read.
    pub fn note_use(&mut self, name: Name) {
        self.used.insert(name);
    }

    /// Lends the private entries of `names` to the keyspace; for a command that `writes`, copies of the others, too.
    ///
    /// # Errors
    /// There is no room for the copies. Nothing is lent then.
    pub fn lend(&mut self, keyspace: &mut Keyspace, names: &[Name], writes: bool) -> Result<Lent> {
        let mut copies = 0;
        for name in names.iter().filter(|name| writes && !self.holds(name)) {
            let entry = keyspace.databases[name.0].get(&name.1[..]);
            let bytes = entry.map_or(0, bytes_of);
            if bytes > limits::TRANSACTION_VALUE_BYTES_MAX {
                let text = format!(
                    "a value of {bytes} bytes cannot be changed inside a transaction, which would copy it: at most {}",
                    limits::TRANSACTION_VALUE_BYTES_MAX
                );
                return Err(Error::new(Code::Limit, text));
            }
            copies += bytes;
        }
        if writes && self.bytes + copies > limits::TRANSACTION_BYTES_MAX {
            let most = limits::TRANSACTION_BYTES_MAX;
            let text = format!("the transaction would hold more than {most} bytes of keys: commit in smaller parts");
            return Err(Error::new(Code::Limit, text));
        }
        let mut lent = Lent {
            keys: Vec::with_capacity(names.len()),
            watches: std::mem::take(&mut keyspace.shared.watches),
            waiting: std::mem::take(&mut keyspace.shared.waiting),
        };
        for name in names {
            // A key named twice is lent once.
            if lent.keys.iter().any(|key| key.name == *name) {
                continue;
            }
            let database = &mut keyspace.databases[name.0];
            let held = self.entries.remove(name);
            let (private, entry) = match held {
                Some(held) => {
                    self.bytes -= held.bytes;
                    (true, held.entry)
                }
                None if writes => (false, database.get(&name.1[..]).map(|entry| entry.copy_as(&name.1))),
                None => continue,
            };
            let original = database.remove(&name.1[..]);
            if let Some(entry) = entry {
                database.put(entry);
            }
            lent.keys.push(LentKey { name: name.clone(), original, private });
        }
        Ok(lent)
    }

    /// Takes the entries back after a command made `changes`, and gives the keyspace what it had. Changes of other keys
    /// come back: those of expired ones are the keyspace's own; any other the command should not have made.
    pub fn take_back(&mut self, keyspace: &mut Keyspace, lent: Lent, changes: Changes, undo: bool) -> Vec<Change> {
        let Lent { keys, watches, waiting } = lent;
        let mut changed: HashSet<&Name> = HashSet::new();
        let mut others = Vec::new();
        let is_lent =
            |db: usize, key: &[u8]| keys.iter().map(|key| &key.name).find(|name| name.0 == db && *name.1 == *key);
        for mut change in changes.list {
            let names = match &change {
                Change::Key { db, key, .. } => [is_lent(*db, key), is_lent(*db, key)],
                Change::Move { from, to } => [is_lent(from.0, &from.1), is_lent(to.0, &to.1)],
                Change::Flush { .. } | Change::Swap(..) => [None, None],
            };
            match names {
                [Some(one), Some(other)] => {
                    changed.extend([one, other]);
                    if let Change::Key { undo: inverse, .. } = &mut change
                        && !undo
                    {
                        *inverse = None;
                    }
                    self.list.push(change);
                }
                _ => others.push(change),
            }
        }
        let mut kept = Vec::new();
        for key in &keys {
            let database = &mut keyspace.databases[key.name.0];
            let now = database.remove(&key.name.1[..]);
            kept.push((key.private || changed.contains(&key.name)).then_some(now));
        }
        for (key, kept) in keys.into_iter().zip(kept) {
            if let Some(original) = key.original {
                keyspace.databases[key.name.0].put(original);
            }
            if let Some(entry) = kept {
                let bytes = entry.as_ref().map_or(0, |entry| bytes_of(entry.as_ref())) + key.name.1.len();
                self.bytes += bytes;
                self.entries.insert(key.name, Held { entry, bytes });
            }
        }
        self.events.extend(changes.events);
        (keyspace.shared.watches, keyspace.shared.waiting) = (watches, waiting);
        others
    }

    /// Where the list of changes stands.
    pub fn mark(&self) -> usize {
        self.list.len()
    }

    /// Forgets the inverses, unless a savepoint may still want them.
    pub fn forget_undo_unless(&mut self, wanted: bool) {
        if !wanted {
            for change in &mut self.list {
                if let Change::Key { undo, .. } = change {
                    *undo = None;
                }
            }
        }
    }

    /// Takes back the changes after the first `mark` ones. Keys that were not changed before are not private any more.
    pub fn undo_to(&mut self, mark: usize, keyspace: &mut Keyspace) -> Result<()> {
        if self.list.len() <= mark {
            return Ok(());
        }
        let lent = self.lend(keyspace, &self.names(), false)?;
        let mut nobody = Changes::default();
        let mut result = Ok(());
        for change in self.list.drain(mark..).rev() {
            match change {
                Change::Key { db, key, undo: Some(op), .. } => {
                    let misfit = |_| Error::new(Code::Bug, "private_keys: an inverse that does not fit");
                    result = result.and(keyspace.apply(db, &key, op).map_err(misfit));
                }
                Change::Move { from, to } => keyspace.relocate((to.0, &to.1), (from.0, &from.1), &mut nobody),
                Change::Key { .. } | Change::Flush { .. } | Change::Swap(..) => {}
            }
        }
        self.take_back(keyspace, lent, Changes::default(), true);
        let mut changed: HashSet<Name> = HashSet::new();
        for change in &self.list {
            match change {
                Change::Key { db, key, .. } => {
                    changed.insert((*db, key.clone()));
                }
                Change::Move { from, to } => changed.extend([from.clone(), to.clone()]),
                Change::Flush { .. } | Change::Swap(..) => {}
            }
        }
        self.entries.retain(|name, _| changed.contains(name));
        self.bytes = self.entries.values().map(|held| held.bytes).sum();
        result
    }

    /// COMMIT: the private entries take the place of those in the keyspace, watchers and waiters are told, and the
    /// changes go to `changes`, with one inverse for each key if inverses are wanted.
    pub fn commit(self, keyspace: &mut Keyspace, changes: &mut Changes) {
        let PrivateKeys { entries, list, events, .. } = self;
        changes.dirty += list.len().max(entries.len()) as u64;
        let moved: HashSet<Name> = list
            .iter()
            .filter_map(|change| if let Change::Move { from, to } = change { Some([from, to]) } else { None })
            .flatten()
            .cloned()
            .collect();
        if changes.wants.contains(Wants::REDO) {
            for change in list {
                // A key that was renamed is logged as what it is in the end.
                if let Change::Key { db, key, redo: Some(redo), .. } = change
                    && !moved.contains(&(db, key.clone()))
                {
                    changes.list.push(Change::Key { db, key, redo: Some(redo), undo: None });
                }
            }
        }
        for ((db, key), held) in entries {
            let redo = match &held.entry {
                _ if !moved.contains(&(db, key.clone())) || !changes.wants.contains(Wants::REDO) => None,
                None => Some(Op::Remove),
                Some(entry) => Some(Op::Put(entry.as_ref().cloned_value(), entry.as_ref().expire_at())),
            };
            let original = keyspace.databases[db].remove(HashedKey::from(&key[..]));
            if let Some(entry) = held.entry {
                keyspace.databases[db].put(entry);
            }
            keyspace.shared.watches.touch(db, &key);
            keyspace.shared.waiting.signal(db, &key);
            let undo = changes.wants.contains(Wants::UNDO).then(|| {
                original.map_or(Op::Remove, |entry| {
                    let (value, expire_at) = entry.into_parts();
                    Op::Put(value, expire_at)
                })
            });
            if redo.is_some() || undo.is_some() {
                changes.list.push(Change::Key { db, key, redo, undo });
            }
        }
        changes.events.extend(events);
    }
}
