//! Recovery: checkpoints of the whole state (`checkpoint` writes one, `restore` loads one).

pub mod checkpoint;
mod format;
mod reader;
pub mod restore;
mod tables;
#[cfg(test)]
pub(crate) mod tests;
mod writer;

pub use checkpoint::{About, Run, WriteError, Written};
pub use format::{name_of, remove_others};
pub use restore::{Found, Loaded, Progress, RestoreError, list, load};
