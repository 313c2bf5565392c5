//! Plain data structures that know nothing of the server.

pub mod dict;
pub mod hash;
pub mod prefetch;
