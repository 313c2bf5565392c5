//! Redis values: one file per type with its API, its encodings and its operations; no keys, no replies.
//!
//! (A stand-in until the values are merged: the shape that the keyspace relies on.)

/// A growable byte string.
#[derive(Debug, PartialEq, Eq, Clone)]
pub struct Str(Box<Vec<u8>>);

impl Str {
    /// A copy of `bytes`.
    pub fn from_slice(bytes: &[u8]) -> Self {
        Str(Box::new(bytes.to_vec()))
    }
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

/// A list.
#[derive(Debug, PartialEq, Eq, Clone, Default)]
pub struct List(pub Vec<Vec<u8>>);

/// The value of a key.
#[derive(Debug, PartialEq, Eq, Clone)]
pub enum Value {
    /// A string.
    Str(Str),
    /// A list.
    List(Box<List>),
}
