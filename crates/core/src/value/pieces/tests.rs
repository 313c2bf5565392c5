//! Tests of pieces: values of each type, edited at random while they are told, against a copy taken at the beginning.

use super::*;
use crate::ds::packed::Packed;
use crate::env::Xoshiro;
use crate::value::list::Side;
use crate::value::zset::put_score;
use crate::value::{Edit, HashOp, List, ListOp, SetOp, StrOp, Thresholds, ZSetOp};

/// Nodes of few values, so that there are many.
const LOW: Thresholds =
    Thresholds { hash_entries: 4, hash_value: 8, set_integers: 4, zset_entries: 4, zset_value: 8, list_node: 6 };

fn word(random: &mut Xoshiro) -> Vec<u8> {
    format!("{}{}", random.below(400), "x".repeat(random.below(40) as usize)).into_bytes()
}

fn words(random: &mut Xoshiro, most: u64) -> Packed {
    (0..1 + random.below(most)).map(|_| word(random)).collect::<Vec<_>>().iter().map(|word| &word[..]).collect()
}

/// Words and scores (or values) in turn.
fn pairs(random: &mut Xoshiro, most: u64, scored: bool) -> Packed {
    let mut pairs = Packed::new();
    for _ in 0..1 + random.below(most) {
        pairs.push_back(&word(random));
        match scored {
            true => pairs.push_back(put_score(random.below(90) as f64 / 4.0, &mut [0; 8])),
            false => pairs.push_back(&word(random)),
        }
    }
    pairs
}

const KINDS: u64 = 5;

fn random_value(kind: u64, random: &mut Xoshiro) -> Value {
    let len = 30 + random.below(600);
    let (mut value, op) = match kind {
        0 => return Value::string(&(0..len).flat_map(|_| word(random)).collect::<Vec<_>>()),
        1 => {
            let op = ListOp::Push { front: words(random, len), back: words(random, len) };
            (Value::List(Box::default()), Op::List(op))
        }
        2 => (Value::Set(Box::default()), Op::Set(SetOp::Add(words(random, len)))),
        3 => (Value::Hash(Box::default()), Op::Hash(HashOp::Set(pairs(random, len, false)))),
        _ => (Value::ZSet(Box::default()), Op::ZSet(ZSetOp::Set(pairs(random, len, true)))),
    };
    value.apply(op, &LOW).unwrap();
    value
}

/// Rising indexes below `limit`.
fn indexes(random: &mut Xoshiro, limit: usize) -> Vec<u64> {
    let most = [3, 40][random.below(2) as usize];
    let mut at: Vec<u64> = (0..1 + random.below(most)).map(|_| random.below(limit as u64)).collect();
    at.sort_unstable();
    at.dedup();
    at
}

fn random_list_op(list: &List, random: &mut Xoshiro) -> ListOp {
    let some = |random: &mut Xoshiro| if random.below(3) > 0 { words(random, 5) } else { Packed::new() };
    match random.below(if list.is_empty() { 2 } else { 10 }) {
        0 | 1 => ListOp::Push { front: some(random), back: some(random) },
        2 | 3 => {
            let most = [4, 30, list.len() as u64][random.below(3) as usize].min(list.len() as u64);
            let front = random.below(most + 1);
            ListOp::Pop { front, back: random.below(most - front + 1) }
        }
        4 | 5 => {
            let (index, value) = (random.below(list.len() as u64), word(random));
            let value = if random.below(4) == 0 { value.repeat(30) } else { value };
            ListOp::Set { index, value: crate::reply::Blob::from_slice(&value) }
        }
        6 | 7 => {
            let at = indexes(random, list.len());
            let values = at.iter().map(|_| word(random)).collect::<Vec<_>>().iter().map(|value| &value[..]).collect();
            ListOp::Insert { at, values }
        }
        8 => ListOp::Remove { at: indexes(random, list.len()) },
        _ => ListOp::Many(vec![
            ListOp::Pop { front: 1, back: 0 },
            ListOp::Push { front: some(random), back: some(random) },
        ]),
    }
}

fn random_op(value: &Value, random: &mut Xoshiro) -> Op {
    match value {
        Value::Str(string) => {
            let len = string.len() as u64;
            let bytes = word(random);
            let at = if random.below(3) == 0 { len } else { random.below(len + 50) };
            let end = at + bytes.len() as u64;
            let len = if random.below(12) == 0 { end } else { end.max(len) };
            match random.below(40) {
                0 => Op::Str(StrOp::Set(crate::reply::Blob::from_slice(&bytes))),
                _ => Op::Str(StrOp::Write { at, bytes: crate::reply::Blob::from_slice(&bytes), len }),
            }
        }
        Value::List(list) => Op::List(random_list_op(list, random)),
        Value::Set(_) if random.below(2) == 0 => Op::Set(SetOp::Add(words(random, 9))),
        Value::Set(_) => Op::Set(SetOp::Remove(words(random, 20))),
        Value::Hash(_) if random.below(2) == 0 => Op::Hash(HashOp::Set(pairs(random, 9, false))),
        Value::Hash(_) => Op::Hash(HashOp::Remove(words(random, 20))),
        Value::ZSet(_) if random.below(2) == 0 => Op::ZSet(ZSetOp::Set(pairs(random, 9, true))),
        Value::ZSet(_) => Op::ZSet(ZSetOp::Remove(words(random, 20))),
    }
}

/// A value being told, and what has been heard of it.
struct Telling {
    value: Value,
    rest: Rest,
    heard: Vec<u8>,
    pieces: usize,
}

impl Telling {
    fn new(value: Value, piece_bytes: usize) -> Option<Telling> {
        let rest = Rest::of(&value, piece_bytes)?;
        Some(Telling { value, rest, heard: Vec::new(), pieces: 0 })
    }

    fn edit(&mut self, op: Op) -> Op {
        let undo = self.value.apply_saving(op, &LOW, Some(&mut self.rest)).unwrap();
        self.rest.tell(&undo, b"", &mut self.heard);
        undo
    }

    fn piece(&mut self) {
        self.rest.put_piece(&self.value, &mut self.heard);
        self.pieces += 1;
    }

    fn value_heard(mut self) -> Value {
        while !self.rest.is_done() {
            self.piece();
        }
        assert_eq!(0, self.rest.kept_bytes());
        let (mut again, input) = (self.value.emptied(), &mut &self.heard[..]);
        while !input.is_empty() {
            again.apply(Op::decode(input, &LOW).unwrap(), &LOW).unwrap();
        }
        again
    }
}

#[test]
fn the_pieces_of_a_value_make_it_again() {
    for seed in 0..100 {
        println!("seed {seed}");
        let mut random = Xoshiro::from_seed(seed);
        let value = random_value(seed % KINDS, &mut random);
        let piece_bytes = 1 + random.below(2000) as usize;
        let Some(mut telling) = Telling::new(value.clone(), piece_bytes) else { continue };
        while !telling.rest.is_done() {
            let before = telling.heard.len();
            telling.piece();
            let bytes = telling.heard.len() - before;
            // A table shows 16 elements at once, and some more that lie in the same places.
            assert!(bytes < piece_bytes + 5000, "a piece of {bytes} bytes");
        }
        assert_eq!(value.digest(), telling.value_heard().digest());
    }
}

#[test]
fn a_value_is_told_as_it_was_whatever_happens_to_it_meanwhile() {
    let mut edits = 0;
    for seed in 0..600 {
        println!("seed {seed}");
        let mut random = Xoshiro::from_seed(seed);
        let value = random_value(seed % KINDS, &mut random);
        let (then, piece_bytes) = (value.digest(), 20 + random.below(400) as usize);
        let Some(mut telling) = Telling::new(value, piece_bytes) else { continue };
        let mut scope = Vec::new();
        while !telling.rest.is_done() {
            for _ in 0..random.below(6) {
                let op = random_op(&telling.value, &mut random);
                scope.push(telling.edit(op));
                edits += 1;
            }
            if random.below(4) == 0 {
                scope.drain(..).rev().for_each(|undo| drop(telling.edit(undo)));
            }
            scope.clear();
            (0..random.below(3)).for_each(|_| {
                if !telling.rest.is_done() {
                    telling.piece();
                }
            });
        }
        assert_eq!(then, telling.value_heard().digest());
    }
    assert!(edits > 5_000, "{edits} edits");
}

#[test]
fn an_edit_copies_what_it_changes_and_a_piece_or_a_node_at_either_end() {
    const NODE: usize = 8 << 10;
    let mut random = Xoshiro::from_seed(1);
    let mut push = |list: &mut List, rest: &mut Rest, thresholds: &Thresholds| {
        let side = if random.below(2) == 0 { Side::Front } else { Side::Back };
        list.push(side, &[b"value"], &mut Edit::silent(thresholds).saving(Some(rest)));
    };
    let thresholds = Thresholds::default();
    let mut list = List::new();
    for n in 0..200_000 {
        list.push(Side::Back, &[format!("value {n}").as_bytes()], &mut Edit::silent(&thresholds));
    }
    let mut value = Value::List(Box::new(list));
    let mut rest = Rest::of(&value, 64 << 10).unwrap();
    let Value::List(list) = &mut value else { unreachable!() };
    let check = |most: usize, what: &str| {
        let copied = COPIED.replace(0);
        assert!(copied <= most, "{what}: {copied} bytes");
    };
    for n in 0..3000i64 {
        push(list, &mut rest, &thresholds);
        check(NODE, "push");
        list.set(n * 60, b"other", &mut Edit::silent(&thresholds).saving(Some(&mut rest)));
        check(NODE, "set");
        list.pop(Side::Front, &mut Edit::silent(&thresholds).saving(Some(&mut rest)));
        check(NODE, "pop");
    }
    let pivot = format!("value {}", 150_001);
    list.insert(true, pivot.as_bytes(), b"in the middle", &mut Edit::silent(&thresholds).saving(Some(&mut rest)));
    check(2 * NODE, "insert");
    list.trim(10_000, -10_000, &mut Edit::silent(&thresholds).saving(Some(&mut rest)));
    check(2 * NODE, "trim");
    list.trim(0, 3, &mut Edit::silent(&thresholds).saving(Some(&mut rest)));
    check(NODE, "trim to almost nothing");
    assert!(rest.kept_bytes() > 1_000_000);

    let mut value = Value::string(&vec![b'x'; 10 << 20]);
    let mut rest = Rest::of(&value, 64 << 10).unwrap();
    let Value::Str(string) = &mut value else { unreachable!() };
    let mut all = 0;
    for n in 0..60 {
        let (at, bytes) = ((n * 977) << 8, vec![b'y'; n * 3000]);
        string.set_range(at, &bytes, &mut Edit::silent(&thresholds).saving(Some(&mut rest))).unwrap();
        let copied = COPIED.replace(0);
        assert!(copied <= bytes.len() + (128 << 10), "{copied} bytes copied for {} written", bytes.len());
        all += copied;
        string.append(&bytes, &mut Edit::silent(&thresholds).saving(Some(&mut rest))).unwrap();
        assert_eq!(0, COPIED.get(), "appending overwrites nothing");
    }
    assert!(all > 1 << 20);
}
