//! Plain data structures that know nothing of the server.

pub mod btree;
pub mod cow;
pub mod cow_vec;
pub mod dict;
pub mod hash;
pub mod prefetch;
