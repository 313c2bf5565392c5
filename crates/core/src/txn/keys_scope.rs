//! Undo scopes over keys: what is changed in one is kept or taken back as a whole, inside a larger effect.
//!
//! Tables have their own (`tables/scope.rs`), which statements open always; this one is opened where a statement may change
//! keys, too, because of its triggers.

use super::undo::undo_keys;
use super::{Effect, Transaction, private_keys};
use crate::keyspace::{Keyspace, Wants};

/// An open scope. Scopes nest; each is closed by [`KeysScope::close`], the innermost first.
#[must_use]
#[derive(Debug)]
pub struct KeysScope {
    changes: usize,
    events: usize,
    dirty: u64,
    wanted_undo: bool,
    /// How far the keys of the transaction had come.
    private: Option<private_keys::Mark>,
}

impl KeysScope {
    /// Opens a scope over the keys of an effect, or of a transaction.
    pub fn open(effect: &mut Effect, transaction: Option<&mut Transaction>) -> KeysScope {
        let keys = &mut effect.keys;
        let wanted_undo = keys.wants.contains(Wants::UNDO);
        keys.wants |= Wants::UNDO;
        KeysScope {
            changes: keys.list.len(),
            events: keys.events.len(),
            dirty: keys.dirty,
            wanted_undo,
            private: transaction.map(Transaction::open_keys),
        }
    }

    /// Closes it.
    pub fn close(
        self,
        keep: bool,
        effect: &mut Effect,
        transaction: Option<&mut Transaction>,
        keyspace: &mut Keyspace,
    ) {
        let keys = &mut effect.keys;
        if !keep {
            let undone = undo_keys(keys.list.drain(self.changes..), keyspace);
            // An inverse that does not fit the state that it was made for is a bug, and the state is no longer known.
            assert!(undone.is_ok(), "changes of keys cannot be taken back: {undone:?}");
            keys.events.truncate(self.events);
            keys.dirty = self.dirty;
        }
        if !self.wanted_undo {
            keys.wants -= Wants::UNDO;
            if keys.wants.is_empty() {
                keys.list.truncate(self.changes);
            }
        }
        if let (Some(mark), Some(transaction)) = (self.private, transaction) {
            transaction.close_keys(mark, keep, keyspace);
        }
    }
}
