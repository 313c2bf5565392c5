//! What integration tests share.

pub mod md5;
