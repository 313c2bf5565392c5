//! Redis values: one file per type with its API, its encodings and its operations; no keys, no replies.
//!
//! A mutator takes an [`Edit`], which knows the thresholds of the encodings and collects, if wanted, the redo and undo
//! operations of what was done. The same operations are applied by recovery and rollback.

mod any;
pub mod bits;
pub mod codec;
mod digest;
mod edit;
mod entry;
pub mod hash;
pub mod lcs;
pub mod list;
pub mod op;
pub mod pieces;
pub mod range;
mod sample;
pub mod set;
pub mod set_algebra;
pub mod string;
mod table;
#[cfg(test)]
mod tests;
mod thresholds;
pub mod zset;

pub use any::Value;
pub use edit::{Edit, Operation};
pub use hash::{Hash, HashOp};
pub use list::{List, ListOp};
pub use op::Op;
pub use set::{Set, SetOp};
pub use string::{Str, StrOp};
pub use thresholds::Thresholds;
pub use zset::{ZSet, ZSetOp};
