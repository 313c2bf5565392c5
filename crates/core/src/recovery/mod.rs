//! Recovery: checkpoints of the whole state (`checkpoint` writes one, `keys` saves its keys, `restore` loads one).

mod check;
pub mod checkpoint;
mod format;
mod keys;
pub mod open;
mod reader;
pub mod restore;
mod tables;
#[cfg(test)]
pub(crate) mod tests;
mod writer;

pub use check::{Content, Report, check};
pub use checkpoint::{About, Run, WriteError, Written};
pub use format::{name_of, remove_others, remove_unfinished};
pub use keys::Keys;
pub use open::{Phase, Recovered, Step, Trouble, recover};
pub use restore::{Found, Loaded, Progress, RestoreError, list, load};
