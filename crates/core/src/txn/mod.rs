//! Transactions: what a command changed (effect), how it is logged (redo) and taken back (undo, keys_scope); and those of BEGIN, with
//! what they wrote (transaction, private_keys) and how it becomes everybody's (commit).

pub mod commit;
pub mod effect;
pub mod keys_scope;
pub mod open;
pub mod private_keys;
pub mod redo;
pub mod tables;
pub mod transaction;
pub mod undo;

pub use effect::Effect;
pub use keys_scope::KeysScope;
pub use open::Transactions;
pub use tables::{Building, Scope, TableChange, TableChanges, Tables};
pub use transaction::Transaction;
