//! Keys to values: entries, numbered databases, deadlines.

pub mod database;
mod deadlines;
pub mod entry;

pub use database::{Database, EntryMut, HashedKey};
pub use entry::{Entry, EntryRef, EntryValue, ValueRef};
