//! The value of a key, of whichever type.

use super::codec::{self, Decoded, Malformed};
use super::pieces::Rest;
use super::{Hash, List, Op, Set, Str, Thresholds, ZSet};
use crate::limits::LAZY_FREE_BYTES;

/// A value, detached from its key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string.
    Str(Str),
    /// A list.
    List(Box<List>),
    /// A set.
    Set(Box<Set>),
    /// A hash.
    Hash(Box<Hash>),
    /// A sorted set.
    ZSet(Box<ZSet>),
}

// What the keyspace and the operations count on.
const _: () = assert!(size_of::<Value>() == 16);

impl Value {
    /// A string value.
    pub fn string(bytes: &[u8]) -> Value {
        Value::Str(Str::new(bytes))
    }

    /// TYPE: `string`, `list`, `set`, `hash` or `zset`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Str(_) => "string",
            Value::List(_) => "list",
            Value::Set(_) => "set",
            Value::Hash(_) => "hash",
            Value::ZSet(_) => "zset",
        }
    }

    /// OBJECT ENCODING.
    pub fn encoding(&self) -> &'static str {
        match self {
            Value::Str(string) => string.encoding(),
            Value::List(list) => list.encoding(),
            Value::Set(set) => set.encoding(),
            Value::Hash(hash) => hash.encoding(),
            Value::ZSet(zset) => zset.encoding(),
        }
    }

    /// How many elements, fields or members; of a string, how many bytes.
    pub fn len_hint(&self) -> usize {
        match self {
            Value::Str(string) => string.len(),
            Value::List(list) => list.len(),
            Value::Set(set) => set.len(),
            Value::Hash(hash) => hash.len(),
            Value::ZSet(zset) => zset.len(),
        }
    }

    /// True for a collection without elements, whose key must go. A string may be empty.
    pub fn is_empty_collection(&self) -> bool {
        !matches!(self, Value::Str(_)) && self.len_hint() == 0
    }

    /// Bytes taken from the allocator, beside this word or two.
    pub fn memory(&self) -> usize {
        match self {
            Value::Str(string) => string.memory(),
            Value::List(list) => list.memory(),
            Value::Set(set) => set.memory(),
            Value::Hash(hash) => hash.memory(),
            Value::ZSet(zset) => zset.memory(),
        }
    }

    /// True when it should be freed away from the baton.
    pub fn is_big(&self) -> bool {
        // One block, however long, is freed at once.
        let factor = if matches!(self, Value::Str(_)) { 16 } else { 1 };
        self.takes_more_than(factor * LAZY_FREE_BYTES)
    }

    /// True when it takes more than so many bytes, about: found without looking at all of it.
    pub fn takes_more_than(&self, bytes: usize) -> bool {
        match self {
            Value::List(list) => list.is_bigger_than(bytes),
            _ => self.memory() > bytes,
        }
    }

    /// A digest, equal for equal values, whatever their encodings.
    pub fn digest(&self) -> u64 {
        match self {
            Value::Str(string) => string.digest(),
            Value::List(list) => list.digest(),
            Value::Set(set) => set.digest(),
            Value::Hash(hash) => hash.digest(),
            Value::ZSet(zset) => zset.digest(),
        }
    }

    /// Performs an operation of this value's type and returns its inverse. Fails, without change, on one that is of
    /// another type, is not of one type at all, or does not fit: those come from a damaged log.
    ///
    /// A collection may be empty afterwards; then its key must go.
    pub fn apply(&mut self, op: Op, thresholds: &Thresholds) -> Decoded<Op> {
        self.apply_saving(op, thresholds, None)
    }

    /// [`Value::apply`] to a value that may be being saved, of which this is the rest.
    pub fn apply_saving(&mut self, op: Op, thresholds: &Thresholds, rest: Option<&mut Rest>) -> Decoded<Op> {
        Ok(match (self, op) {
            (Value::Str(string), Op::Str(op)) => Op::Str(string.apply(op, thresholds, rest)?),
            (Value::List(list), Op::List(op)) => Op::List(list.apply(op, thresholds, rest)?),
            (Value::Set(set), Op::Set(op)) => Op::Set(set.apply(op, thresholds)),
            (Value::Hash(hash), Op::Hash(op)) => Op::Hash(hash.apply(op, thresholds)),
            (Value::ZSet(zset), Op::ZSet(op)) => Op::ZSet(zset.apply(op, thresholds)),
            _ => return Err(Malformed("operation on a value of another type")),
        })
    }

    /// Appends the bytes that [`Value::decode`] reads: a tag (0 string, 1 list, 2 set, 3 hash, 4 sorted set), then those of
    /// the type.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Value::Str(string) => {
                out.push(0);
                string.encode(out);
            }
            Value::List(list) => {
                out.push(1);
                list.encode(out);
            }
            Value::Set(set) => {
                out.push(2);
                set.encode(out);
            }
            Value::Hash(hash) => {
                out.push(3);
                hash.encode(out);
            }
            Value::ZSet(zset) => {
                out.push(4);
                zset.encode(out);
            }
        }
    }

    /// Appends what a string of these bytes is encoded as.
    pub fn encode_string(bytes: &[u8], out: &mut Vec<u8>) {
        out.push(0);
        codec::put_bytes(out, bytes);
    }

    /// Reads what [`Value::encode`] wrote; collections get the encodings that the thresholds ask for.
    pub fn decode(input: &mut &[u8], thresholds: &Thresholds) -> Decoded<Value> {
        Ok(match codec::take_byte(input)? {
            0 => Value::Str(Str::decode(input)?),
            1 => Value::List(Box::new(List::decode(input, thresholds)?)),
            2 => Value::Set(Box::new(Set::decode(input, thresholds)?)),
            3 => Value::Hash(Box::new(Hash::decode(input, thresholds)?)),
            4 => Value::ZSet(Box::new(ZSet::decode(input, thresholds)?)),
            _ => return Err(Malformed("unknown type of value")),
        })
    }
}
