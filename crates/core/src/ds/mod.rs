//! Plain data structures that know nothing of the server.

pub mod extended;
pub mod glob;
pub mod intset;
pub mod number;
pub mod packed;
pub mod sha1;
pub mod skiplist;
pub mod thin;
