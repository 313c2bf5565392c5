//! Access methods: from index keys to row ids.

mod hash;
mod ordered;
mod row_keys;

pub use hash::{Hash, HashRead, HashView};
pub use ordered::{estimate_distinct, probe_of};
pub use row_keys::RowKeys;
