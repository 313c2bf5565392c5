//! What is still to be told of a table (of a set, a hash or a sorted set): a scan shows what stays, in an order that
//! changes do not disturb, and what changes is told before.

use super::tag;
use crate::ds::packed::Packed;
use crate::value::codec::{self, put_number};
use crate::value::op::Flatten;
use crate::value::zset::put_score;
use crate::value::{Hash, HashOp, Op, Set, SetOp, Value, ZSet, ZSetOp};
use hashbrown::HashSet;

/// Elements that a table shows at once, unless that is more bytes than a piece should have.
const SHOWN_AT_ONCE: usize = 16;

pub struct TableRest {
    /// Where the scan goes on; `None` at its end.
    next: Option<u64>,
    /// Members or fields that the scan leaves out: they were told already, or were not there at first.
    told: HashSet<Box<[u8]>>,
    piece_bytes: usize,
}

impl TableRest {
    pub fn new(piece_bytes: usize) -> TableRest {
        TableRest { next: Some(0), told: HashSet::new(), piece_bytes }
    }

    pub fn is_done(&self) -> bool {
        self.next.is_none()
    }

    /// Each piece is an addition. An element may be told twice, in the same words.
    pub fn put_piece(&mut self, value: &Value, out: &mut Vec<u8>) {
        let Some(from) = self.next else { return };
        let mut piece = Piece { bytes: self.piece_bytes, told: &self.told, body: Vec::new(), count: 0 };
        let (tag, next) = match value {
            Value::Set(set) => (tag::SET, piece.of_set(set, from)),
            Value::Hash(hash) => (tag::HASH, piece.of_hash(hash, from)),
            Value::ZSet(zset) => (tag::ZSET, piece.of_zset(zset, from)),
            Value::Str(_) | Value::List(_) => unreachable!("no table"),
        };
        out.extend([tag, 0]);
        put_number(out, piece.count);
        out.extend_from_slice(&piece.body);
        self.next = next;
    }

    /// Appends, each after `before`, operations that tell what an edit changed, which `undo` takes back.
    pub fn tell(&mut self, undo: &Op, before: &[u8], out: &mut Vec<u8>) {
        let mut teller = Teller { told: &mut self.told, before, out };
        match undo {
            Op::Set(op) => in_the_order_made(op, |op| match op {
                SetOp::Add(members) => teller.had(tag::SET, members, 1),
                SetOp::Remove(members) => teller.had_not(members),
                // These take back the step from a packed encoding to a table, which was before the rest was begun.
                SetOp::Replace(_) | SetOp::Many(_) => unreachable!("a table is edited by additions and removals"),
            }),
            Op::Hash(op) => in_the_order_made(op, |op| match op {
                HashOp::Set(pairs) => teller.had(tag::HASH, pairs, 2),
                HashOp::Remove(fields) => teller.had_not(fields),
                HashOp::Insert { .. } | HashOp::Replace(_) | HashOp::Many(_) => {
                    unreachable!("a table is edited by additions and removals")
                }
            }),
            Op::ZSet(op) => in_the_order_made(op, |op| match op {
                ZSetOp::Set(pairs) => teller.had(tag::ZSET, pairs, 2),
                ZSetOp::Remove(members) => teller.had_not(members),
                ZSetOp::Many(_) => unreachable!("flattened"),
            }),
            _ => unreachable!("an edit of another type"),
        }
    }
}

/// A list of byte strings that is being made.
struct Piece<'t> {
    /// About as long as it is to be.
    bytes: usize,
    told: &'t HashSet<Box<[u8]>>,
    body: Vec<u8>,
    count: u64,
}

impl Piece<'_> {
    fn add(&mut self, element: &[u8]) {
        codec::put_bytes(&mut self.body, element);
        self.count += 1;
    }

    fn of_set(&mut self, set: &Set, from: u64) -> Option<u64> {
        self.scan(from, |piece, next| {
            set.scan(next, SHOWN_AT_ONCE, |member| {
                if !piece.told.contains(member) {
                    piece.add(member);
                }
            })
        })
    }

    fn of_hash(&mut self, hash: &Hash, from: u64) -> Option<u64> {
        self.scan(from, |piece, next| {
            hash.scan(next, SHOWN_AT_ONCE, |field, value| {
                if !piece.told.contains(field) {
                    piece.add(field);
                    piece.add(value);
                }
            })
        })
    }

    fn of_zset(&mut self, zset: &ZSet, from: u64) -> Option<u64> {
        self.scan(from, |piece, next| {
            zset.scan(next, SHOWN_AT_ONCE, |member, score| {
                if !piece.told.contains(member) {
                    piece.add(member);
                    piece.add(put_score(score, &mut [0; 8]));
                }
            })
        })
    }

    /// Gives where the next piece begins. What is left out costs as much as what is told, or a piece could take for ever.
    fn scan(&mut self, from: u64, mut scan: impl FnMut(&mut Self, u64) -> u64) -> Option<u64> {
        const EMPTY_STEP_BYTES: usize = 256;
        let (mut next, mut steps) = (from, 0);
        loop {
            next = scan(self, next);
            steps += 1;
            if next == 0 || self.body.len().max(steps * EMPTY_STEP_BYTES) >= self.bytes {
                return (next != 0).then_some(next);
            }
        }
    }
}

/// Inverses stand in the order in which they are applied: the last change's first. What was there at first, the first
/// change's inverse tells.
fn in_the_order_made<O: Flatten>(op: &O, each: impl FnMut(&O)) {
    let mut flat = Vec::new();
    op.flatten(&mut flat);
    flat.into_iter().rev().for_each(each);
}

struct Teller<'a> {
    told: &'a mut HashSet<Box<[u8]>>,
    before: &'a [u8],
    out: &'a mut Vec<u8>,
}

impl Teller<'_> {
    /// These elements, of which each takes `width` strings, were there.
    fn had(&mut self, tag: u8, elements: &Packed, width: usize) {
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
    }

    fn had_not(&mut self, names: &Packed) {
        self.told.extend(names.iter().map(Box::from));
    }
}
