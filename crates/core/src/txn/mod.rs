//! Transactions: what a command changed (effect), how it is logged (redo) and taken back (undo).

pub mod effect;
pub mod redo;
pub mod tables;
pub mod undo;

pub use effect::Effect;
pub use tables::{Scope, TableChange, TableChanges, Tables};
