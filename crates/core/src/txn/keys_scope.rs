//! Undo scopes over keys: what is changed in one is kept or taken back as a whole, inside a larger effect.
//!
//! Tables have their own (`tables/scope.rs`), which statements open always; this one is opened where a statement may change
//! keys, too, because of its triggers.

use super::undo::undo_keys;
use super::{Effect, Transaction, private_keys};
use crate::keyspace::{ChangesScope, Keyspace};

/// An open scope. Scopes nest; each is closed by [`KeysScope::close`], the innermost first.
#[must_use]
#[derive(Debug)]
pub struct KeysScope {
    shared: ChangesScope,
    /// How far the keys of the transaction had come.
    private: Option<private_keys::Mark>,
}

impl KeysScope {
    /// Opens a scope over the keys of an effect, and of a transaction.
    pub fn open(effect: &mut Effect, transaction: Option<&mut Transaction>) -> KeysScope {
        KeysScope { shared: effect.keys.open(), private: transaction.map(Transaction::open_keys) }
    }

    /// Closes it.
    pub fn close(
        self,
        keep: bool,
        effect: &mut Effect,
        transaction: Option<&mut Transaction>,
        keyspace: &mut Keyspace,
    ) {
        if keep {
            effect.keys.keep(self.shared);
        } else {
            let undone = undo_keys(effect.keys.take_since(self.shared), keyspace);
            // An inverse that does not fit the state that it was made for is a bug, and the state is no longer known.
            assert!(undone.is_ok(), "changes of keys cannot be taken back: {undone:?}");
        }
        if let (Some(mark), Some(transaction)) = (self.private, transaction) {
            transaction.close_keys(mark, keep, keyspace);
        }
    }
}
