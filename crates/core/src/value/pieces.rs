//! A long value as several operations: one that makes an empty value, and others that add part after part to it. So a
//! value of any length is saved and loaded in pieces.

use super::codec::put_number;
use super::op::Flatten;
use super::zset::put_score;
use super::{Hash, HashOp, List, Op, Set, SetOp, Value, ZSet, ZSetOp, codec};
use crate::ds::packed::Packed;
use hashbrown::HashSet;

/// Members or fields that pieces leave out: they were told already, or were not there at first.
pub type Told = HashSet<Box<[u8]>>;

/// The tags of operations and of values here are those of `op`, `any` and the types' own files.
const STRING: u8 = 3;
const LIST: u8 = 4;
const SET: u8 = 5;
const HASH: u8 = 6;
const ZSET: u8 = 7;

/// Elements that a table shows at once, unless that is more bytes than a piece should have.
const SHOWN_AT_ONCE: usize = 16;

/// Appends the operation (`Op`) that writes the bytes of a string from `from` on, `bytes` at most; gives where the next
/// piece begins.
pub fn string_piece(string: &[u8], from: u64, bytes: usize, out: &mut Vec<u8>) -> Option<u64> {
    let start = (from as usize).min(string.len());
    let end = string.len().min(start + bytes);
    out.extend([STRING, 1]);
    put_number(out, start as u64);
    codec::put_bytes(out, &string[start..end]);
    put_number(out, string.len() as u64);
    (end < string.len()).then_some(end as u64)
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

    /// May it change between two pieces? What changes must then be told by [`tell_change`].
    pub fn may_change_between_pieces(&self) -> bool {
        // Tables are shown in an order that changes do not disturb; small encodings are shown at once anyway.
        match self {
            Value::Str(_) | Value::List(_) => false,
            Value::Set(_) | Value::Hash(_) | Value::ZSet(_) => matches!(self.encoding(), "hashtable" | "skiplist"),
        }
    }

    /// Appends the operation (`Op`) that adds what comes from `from` on, about `bytes` long, to a value that has what
    /// comes before; gives where the next piece begins. 0 is the first. What is in `told` is left out.
    pub fn encode_piece(&self, from: u64, bytes: usize, told: &Told, out: &mut Vec<u8>) -> Option<u64> {
        let mut piece = Piece { bytes, told, body: Vec::new(), count: 0 };
        // A list has two ends; nothing comes at the front.
        let (tags, next): (&[u8], _) = match self {
            Value::Str(string) => return string_piece(string, from, bytes, out),
            Value::List(list) => (&[LIST, 0, 0], piece.of_list(list, from as usize)),
            Value::Set(set) => (&[SET, 0], piece.of_set(set, from)),
            Value::Hash(hash) => (&[HASH, 0], piece.of_hash(hash, from)),
            Value::ZSet(zset) => (&[ZSET, 0], piece.of_zset(zset, from)),
        };
        out.extend_from_slice(tags);
        put_number(out, piece.count);
        out.extend_from_slice(&piece.body);
        next
    }
}

/// A list of byte strings that is being made.
struct Piece<'t> {
    /// About as long as it is to be.
    bytes: usize,
    told: &'t Told,
    body: Vec<u8>,
    count: u64,
}

impl Piece<'_> {
    fn add(&mut self, element: &[u8]) {
        codec::put_bytes(&mut self.body, element);
        self.count += 1;
    }

    fn is_full(&self) -> bool {
        self.body.len() >= self.bytes
    }

    fn of_list(&mut self, list: &List, from: usize) -> Option<u64> {
        let mut next = from.min(list.len());
        for value in list.iter_range(next..list.len()) {
            self.add(value);
            next += 1;
            if self.is_full() {
                break;
            }
        }
        (next < list.len()).then_some(next as u64)
    }

    fn of_set(&mut self, set: &Set, from: u64) -> Option<u64> {
        self.of_table(from, |piece, next| {
            set.scan(next, SHOWN_AT_ONCE, |member| {
                if !piece.told.contains(member) {
                    piece.add(member);
                }
            })
        })
    }

    fn of_hash(&mut self, hash: &Hash, from: u64) -> Option<u64> {
        self.of_table(from, |piece, next| {
            hash.scan(next, SHOWN_AT_ONCE, |field, value| {
                if !piece.told.contains(field) {
                    piece.add(field);
                    piece.add(value);
                }
            })
        })
    }

    fn of_zset(&mut self, zset: &ZSet, from: u64) -> Option<u64> {
        self.of_table(from, |piece, next| {
            zset.scan(next, SHOWN_AT_ONCE, |member, score| {
                if !piece.told.contains(member) {
                    piece.add(member);
                    piece.add(put_score(score, &mut [0; 8]));
                }
            })
        })
    }

    fn of_table(&mut self, from: u64, mut scan: impl FnMut(&mut Self, u64) -> u64) -> Option<u64> {
        let mut next = from;
        loop {
            next = scan(self, next);
            if next == 0 || self.is_full() {
                return (next != 0).then_some(next);
            }
        }
    }
}

/// A value that is told in pieces has changed, and `undo` takes that back: appends, each after `before`, the operations
/// that tell what was there before, unless it was told already. False if `undo` is not of a table.
pub fn tell_change(undo: &Op, told: &mut Told, before: &[u8], out: &mut Vec<u8>) -> bool {
    let mut tell = Teller { told, before, out };
    match undo {
        Op::Set(op) => in_the_order_made(op, |op| match op {
            SetOp::Add(members) => tell.had(SET, members, 1),
            SetOp::Remove(members) => tell.had_not(members),
            SetOp::Replace(_) | SetOp::Many(_) => false,
        }),
        Op::Hash(op) => in_the_order_made(op, |op| match op {
            HashOp::Set(pairs) => tell.had(HASH, pairs, 2),
            HashOp::Remove(fields) => tell.had_not(fields),
            HashOp::Insert { .. } | HashOp::Replace(_) | HashOp::Many(_) => false,
        }),
        Op::ZSet(op) => in_the_order_made(op, |op| match op {
            ZSetOp::Set(pairs) => tell.had(ZSET, pairs, 2),
            ZSetOp::Remove(members) => tell.had_not(members),
            ZSetOp::Many(_) => false,
        }),
        _ => false,
    }
}

/// Inverses stand in the order in which they are applied: the last change's first. What was there at first, the first
/// change's inverse tells.
fn in_the_order_made<O: Flatten>(op: &O, each: impl FnMut(&O) -> bool) -> bool {
    let mut flat = Vec::new();
    op.flatten(&mut flat);
    flat.into_iter().rev().all(each)
}

struct Teller<'a> {
    told: &'a mut Told,
    before: &'a [u8],
    out: &'a mut Vec<u8>,
}

impl Teller<'_> {
    /// These elements, of which each takes `width` strings, were there.
    fn had(&mut self, tag: u8, elements: &Packed, width: usize) -> bool {
        let mut all = elements.iter();
        while let Some(name) = all.next() {
            let value = if width == 2 { all.next() } else { None };
            if !self.told.insert(name.into()) {
                continue;
            }
            self.out.extend_from_slice(self.before);
            self.out.extend([tag, 0]);
            put_number(self.out, width as u64);
            codec::put_bytes(self.out, name);
            value.iter().for_each(|value| codec::put_bytes(self.out, value));
        }
        true
    }

    fn had_not(&mut self, names: &Packed) -> bool {
        self.told.extend(names.iter().map(Box::from));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;
    use crate::value::{ListOp, Thresholds};

    fn random_value(random: &mut Xoshiro) -> Value {
        let (kind, len) = (random.below(5), 1 + random.below(3000));
        let mut word = || format!("{}{}", random.next(), "x".repeat(random.below(60) as usize)).into_bytes();
        if kind == 0 {
            return Value::string(&(0..len).flat_map(|_| word()).collect::<Vec<_>>());
        }
        let mut words = Packed::new();
        for n in 0..2 * len {
            match kind {
                4 if n % 2 == 1 => words.push_back(put_score(n as f64 / 4.0, &mut [0; 8])),
                _ => words.push_back(&word()),
            }
        }
        let (mut value, op) = match kind {
            1 => (Value::List(Box::default()), Op::List(ListOp::Push { front: Packed::new(), back: words })),
            2 => (Value::Set(Box::default()), Op::Set(SetOp::Add(words))),
            3 => (Value::Hash(Box::default()), Op::Hash(HashOp::Set(words))),
            _ => (Value::ZSet(Box::default()), Op::ZSet(ZSetOp::Set(words))),
        };
        value.apply(op, &Thresholds::default()).unwrap();
        value
    }

    #[test]
    fn the_pieces_of_a_value_make_it_again() {
        let thresholds = Thresholds::default();
        for seed in 0..60 {
            println!("seed {seed}");
            let mut random = Xoshiro::from_seed(seed);
            let value = random_value(&mut random);
            let (mut again, mut from, mut pieces) = (value.emptied(), Some(0), 0);
            let bytes = 1 + random.below(10_000) as usize;
            while let Some(at) = from {
                let mut out = Vec::new();
                from = value.encode_piece(at, bytes, &Told::default(), &mut out);
                let input = &mut &out[..];
                again.apply(Op::decode(input, &thresholds).unwrap(), &thresholds).unwrap();
                assert!(input.is_empty());
                pieces += 1;
            }
            assert_eq!(value.digest(), again.digest());
            assert_eq!(value.encoding(), again.encoding());
            assert!(pieces > 1 || value.memory() < 3 * bytes + 1000, "{} in one piece", value.memory());
        }
    }
}
