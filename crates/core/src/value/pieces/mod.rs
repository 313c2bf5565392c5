//! A long value as several operations: one that makes an empty value, and others that add part after part to it. So a
//! value of any length is saved and loaded in pieces.
//!
//! What is told is the value as it was at one instant, though it changes meanwhile: a [`Rest`] knows what is still to be
//! told. Whoever edits the value gives the rest to the edit, and the mutators copy what they are about to change:
//! - of a string the stretches of a piece's length that are written to (`string.rs`),
//! - of a list the nodes that are changed; nodes that go are not copied but move to the rest (`list.rs`),
//! - of a set, a hash or a sorted set the elements, which the edit's inverse names (`table.rs`).
//!
//! So one edit copies no more than what it changes and, at either end of that, a piece of a string or a node of a list
//! (8 kB unless `list-max-listpack-size` says otherwise, or one element if that is longer).

mod list;
mod string;
mod table;

use super::{Op, Value};
use list::ListRest;
use string::StringRest;
use table::TableRest;

#[cfg(test)]
mod tests;

/// What is still to be told of a value.
pub struct Rest(Kind);

enum Kind {
    Str(StringRest),
    List(ListRest),
    Table(TableRest),
}

impl Rest {
    /// The whole value, to be told in pieces of about so many bytes. `None` for what is short by nature: an integer set or
    /// a packed encoding, which is told at once.
    pub fn of(value: &Value, piece_bytes: usize) -> Option<Rest> {
        Some(Rest(match value {
            Value::Str(string) => Kind::Str(StringRest::new(string.len(), piece_bytes)),
            Value::List(list) => Kind::List(ListRest::new(list.nodes().len(), piece_bytes)),
            Value::Set(_) | Value::Hash(_) | Value::ZSet(_) => {
                let is_table = matches!(value.encoding(), "hashtable" | "skiplist");
                is_table.then(|| Kind::Table(TableRest::new(piece_bytes)))?
            }
        }))
    }

    /// Nothing is left to be told.
    pub fn is_done(&self) -> bool {
        match &self.0 {
            Kind::Str(rest) => rest.is_done(),
            Kind::List(rest) => rest.is_done(),
            Kind::Table(rest) => rest.is_done(),
        }
    }

    /// Appends the operation (`Op`) that adds the next piece to what the pieces before have made. `value` is the one that
    /// this is the rest of, after all edits that knew of it.
    pub fn put_piece(&mut self, value: &Value, out: &mut Vec<u8>) {
        match (&mut self.0, value) {
            (Kind::Str(rest), Value::Str(string)) => rest.put_piece(string, out),
            (Kind::List(rest), Value::List(list)) => rest.put_piece(list, out),
            (Kind::Table(rest), value) => rest.put_piece(value, out),
            _ => unreachable!("a value keeps its type"),
        }
    }

    /// An edit must note its inverse for [`Rest::tell`].
    pub fn wants_inverse(&self) -> bool {
        matches!(self.0, Kind::Table(_))
    }

    /// The value has been edited, and `undo` takes that back: appends, each after `before`, the operations that tell what
    /// was there before and is not told yet.
    pub fn tell(&mut self, undo: &Op, before: &[u8], out: &mut Vec<u8>) {
        if let Kind::Table(rest) = &mut self.0 {
            rest.tell(undo, before, out);
        }
    }

    /// The rest of a list, for its mutators.
    pub(super) fn list(&mut self) -> Option<&mut ListRest> {
        if let Kind::List(rest) = &mut self.0 { Some(rest) } else { None }
    }

    /// The rest of a string, for its mutators.
    pub(super) fn string(&mut self) -> Option<&mut StringRest> {
        if let Kind::Str(rest) = &mut self.0 { Some(rest) } else { None }
    }

    /// Bytes kept by edits and not told yet.
    #[cfg(test)]
    pub fn kept_bytes(&self) -> usize {
        match &self.0 {
            Kind::Str(rest) => rest.kept_bytes(),
            Kind::List(rest) => rest.kept_bytes(),
            Kind::Table(_) => 0,
        }
    }
}

impl Value {
    /// A value of this type without content.
    pub fn emptied(&self) -> Value {
        match self {
            Value::Str(_) => Value::string(b""),
            Value::List(_) => Value::List(Box::default()),
            Value::Set(_) => Value::Set(Box::default()),
            Value::Hash(_) => Value::Hash(Box::default()),
            Value::ZSet(_) => Value::ZSet(Box::default()),
        }
    }
}

#[cfg(test)]
thread_local! {
    /// Bytes that edits have copied for rests.
    pub static COPIED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[inline]
fn note_copy(_bytes: usize) {
    #[cfg(test)]
    COPIED.set(COPIED.get() + _bytes);
}

/// The tags of operations and of values here are those of `op`, `any` and the types' own files.
mod tag {
    pub const STRING: u8 = 3;
    pub const LIST: u8 = 4;
    pub const SET: u8 = 5;
    pub const HASH: u8 = 6;
    pub const ZSET: u8 = 7;
}
