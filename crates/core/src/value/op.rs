//! The one vocabulary for redo and undo of a key's value, and its bytes.
//!
//! ```text
//! operation  tag, then
//!            0 put: value, expire   1 remove   2 expire   3 string   4 list   5 set   6 hash   7 sorted set operation
//! expire     0 for none; 1 and a signed number of milliseconds
//! of a type  tag of its own; 255 "many": count, operations (none of them "many")
//! ```

use super::codec::{self, Decoded, Malformed};
use super::{HashOp, ListOp, SetOp, StrOp, Thresholds, Value, ZSetOp};

/// A change of one key. Applied to the state it was made for, each gives its inverse, in the same vocabulary.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// The key gets this value and this expire (milliseconds since 1970), whatever it had.
    Put(Value, Option<i64>),
    /// The key goes.
    Remove,
    /// The key keeps its value and gets this expire.
    ExpireAt(Option<i64>),
    /// A change of a string.
    Str(StrOp),
    /// A change of a list.
    List(ListOp),
    /// A change of a set.
    Set(SetOp),
    /// A change of a hash.
    Hash(HashOp),
    /// A change of a sorted set.
    ZSet(ZSetOp),
}

impl Op {
    /// The empty value that a change of a missing key starts from; `None` for changes that are not of one type.
    pub fn empty_value(&self) -> Option<Value> {
        Some(match self {
            Op::Put(..) | Op::Remove | Op::ExpireAt(_) => return None,
            Op::Str(_) => Value::Str(super::Str::new(b"")),
            Op::List(_) => Value::List(Box::default()),
            Op::Set(_) => Value::Set(Box::default()),
            Op::Hash(_) => Value::Hash(Box::default()),
            Op::ZSet(_) => Value::ZSet(Box::default()),
        })
    }

    /// Appends the bytes that [`Op::decode`] reads.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Op::Put(value, expire) => Op::encode_put(value, *expire, out),
            Op::Remove => out.push(1),
            Op::ExpireAt(expire) => {
                out.push(2);
                put_expire(out, *expire);
            }
            Op::Str(op) => {
                out.push(3);
                op.encode(out);
            }
            Op::List(op) => {
                out.push(4);
                op.encode(out);
            }
            Op::Set(op) => {
                out.push(5);
                op.encode(out);
            }
            Op::Hash(op) => {
                out.push(6);
                op.encode(out);
            }
            Op::ZSet(op) => {
                out.push(7);
                op.encode(out);
            }
        }
    }

    /// Appends what `Op::Put(value, expire)` is encoded as.
    pub fn encode_put(value: &Value, expire: Option<i64>, out: &mut Vec<u8>) {
        out.push(0);
        value.encode(out);
        put_expire(out, expire);
    }

    /// [`Op::encode_put`] for a string of these bytes.
    pub fn encode_put_string(bytes: &[u8], expire: Option<i64>, out: &mut Vec<u8>) {
        out.push(0);
        Value::encode_string(bytes, out);
        put_expire(out, expire);
    }

    /// Reads what [`Op::encode`] wrote; values get the encodings that the thresholds ask for.
    pub fn decode(input: &mut &[u8], thresholds: &Thresholds) -> Decoded<Op> {
        Ok(match codec::take_byte(input)? {
            0 => Op::Put(Value::decode(input, thresholds)?, take_expire(input)?),
            1 => Op::Remove,
            2 => Op::ExpireAt(take_expire(input)?),
            3 => Op::Str(StrOp::decode(input)?),
            4 => Op::List(ListOp::decode(input)?),
            5 => Op::Set(SetOp::decode(input, thresholds)?),
            6 => Op::Hash(HashOp::decode(input, thresholds)?),
            7 => Op::ZSet(ZSetOp::decode(input)?),
            _ => return Err(Malformed("unknown operation")),
        })
    }
}

fn put_expire(out: &mut Vec<u8>, expire: Option<i64>) {
    // Zero, the shortest, is for the many keys without one.
    match expire {
        None => out.push(0),
        Some(at_ms) => {
            out.push(1);
            codec::put_signed(out, at_ms);
        }
    }
}

fn take_expire(input: &mut &[u8]) -> Decoded<Option<i64>> {
    match codec::take_byte(input)? {
        0 => Ok(None),
        1 => Ok(Some(codec::take_signed(input)?)),
        _ => Err(Malformed("unknown kind of expire")),
    }
}

/// Tag of several operations of one type.
const MANY: u8 = 255;

/// Appends several operations, flattened.
pub(super) fn encode_many<O: Flatten>(ops: &[O], out: &mut Vec<u8>, encode: impl Fn(&O, &mut Vec<u8>)) {
    let mut flat = Vec::new();
    ops.iter().for_each(|op| op.flatten(&mut flat));
    out.push(MANY);
    codec::put_number(out, flat.len() as u64);
    flat.into_iter().for_each(|op| encode(op, out));
}

/// Reads one operation or several. Several inside several are refused, so that hostile bytes cannot nest deeply.
pub(super) fn decode_many<O>(
    input: &mut &[u8],
    many: impl Fn(Vec<O>) -> O,
    decode: impl Fn(u8, &mut &[u8]) -> Decoded<O>,
) -> Decoded<O> {
    let tag = codec::take_byte(input)?;
    if tag != MANY {
        return decode(tag, input);
    }
    let count = codec::take_count(input)?;
    let mut ops = Vec::new();
    for _ in 0..count {
        let tag = codec::take_byte(input)?;
        ops.push(decode(tag, input)?);
    }
    Ok(many(ops))
}

/// Operations that may be several.
pub(super) trait Flatten: Sized {
    /// The operations inside, or `None` for a single one.
    fn parts(&self) -> Option<&[Self]>;

    /// Appends the single operations, in order.
    fn flatten<'a>(&'a self, flat: &mut Vec<&'a Self>) {
        match self.parts() {
            Some(ops) => ops.iter().for_each(|op| op.flatten(flat)),
            None => flat.push(self),
        }
    }
}

macro_rules! flatten {
    ($($op:ident),*) => {$(
        impl Flatten for $op {
            fn parts(&self) -> Option<&[Self]> {
                if let $op::Many(ops) = self { Some(ops) } else { None }
            }
        }
    )*};
}
flatten!(StrOp, ListOp, SetOp, HashOp, ZSetOp);
