//! Plain data structures that know nothing of the server.

pub mod btree;
pub mod cow;
pub mod cow_vec;
pub mod crc64;
pub mod dict;
pub mod extended;
pub mod glob;
pub mod hash;
pub mod intset;
pub mod lzf;
pub mod number;
pub mod packed;
pub mod prefetch;
pub mod ranktree;
pub mod recent;
pub mod sha1;
pub mod thin;
