//! Random changes of big values, whose names, databases and owners change too, while they are saved: what was saved is
//! the keyspace at the instant. Then the bound: what one command saves.

use super::*;
use crate::ds::packed::Packed;
use crate::env::Xoshiro;
use crate::keyspace::entry::EntryValue;
use crate::keyspace::evict::Policy;
use crate::keyspace::keys::Expiry;
use crate::keyspace::{Changes, EventClass, Wants};
use crate::recovery::tests::empty;
use crate::txn::private_keys::{Keep, Mark, Name, PrivateKeys};
use crate::txn::{Effect, Tables, undo};
use crate::value::list::Side;
use crate::value::pieces::COPIED;
use crate::value::{
    Edit, Hash, HashOp, List, ListOp, Op, Set, SetOp, Str, StrOp, Thresholds, Value, ZSet, ZSetOp, bits, codec,
    zset::Conditions,
};
use std::collections::HashSet;

/// Everything longer than a line is big.
const SMALL: Sizes = Sizes { batch: 700, piece: 150, big_string: 200, big_collection: 300 };
const LOW: Thresholds =
    Thresholds { hash_entries: 4, hash_value: 8, set_integers: 4, zset_entries: 4, zset_value: 8, list_node: 5 };

const DATABASES: usize = 4;

struct World {
    keyspace: Keyspace,
    tables: Tables,
    random: Xoshiro,
    now_ms: i64,
    /// A transaction of BEGIN, and where a savepoint was set.
    transaction: Option<(PrivateKeys, Mark)>,
    commands: usize,
    undone: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let (mut keyspace, tables) = empty();
        keyspace.databases.truncate(DATABASES);
        keyspace.shared.epochs.sizes = SMALL;
        keyspace.shared.thresholds = LOW;
        let random = Xoshiro::from_seed(seed);
        World { keyspace, tables, random, now_ms: 1000, transaction: None, commands: 0, undone: 0 }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn db(&mut self) -> usize {
        self.below(DATABASES as u64) as usize
    }

    fn key(&mut self) -> Vec<u8> {
        format!("key {}", self.below(7)).into_bytes()
    }

    fn word(&mut self) -> Vec<u8> {
        format!("{}{}", self.below(300), "x".repeat(self.below(30) as usize)).into_bytes()
    }

    fn words(&mut self, most: u64) -> Vec<Vec<u8>> {
        (0..1 + self.below(most)).map(|_| self.word()).collect()
    }

    fn value(&mut self) -> Value {
        let most = if self.below(5) == 0 { 3 } else { 150 };
        let words = self.words(most);
        let all = |words: &[Vec<u8>]| words.iter().map(|word| &word[..]).collect::<Packed>();
        let pairs: Packed = words.iter().flat_map(|word| [&word[..], &word[..1]]).collect();
        let (mut value, op) = match self.below(5) {
            0 => return Value::string(&words.concat()),
            1 => (Value::List(Box::default()), Op::List(ListOp::Push { front: all(&words), back: Packed::new() })),
            2 => (Value::Set(Box::default()), Op::Set(SetOp::Add(all(&words)))),
            3 => (Value::Hash(Box::default()), Op::Hash(HashOp::Set(pairs))),
            _ => (Value::ZSet(Box::default()), Op::ZSet(ZSetOp::Set(pairs))),
        };
        value.apply(op, &LOW).unwrap();
        value
    }

    /// Changes what a key holds.
    fn edit(&mut self, db: usize, key: &[u8], changes: &mut Changes) {
        let (kind, n) = (self.below(7), self.below(40) as usize);
        let (words, other) = (self.words(12), self.word());
        let refs: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
        let pairs: Vec<&[u8]> = words.iter().flat_map(|word| [&word[..], &other[..]]).collect();
        let mut random = Xoshiro::from_seed(self.random.next());
        let mut keys = self.keyspace.keys(db, self.now_ms, changes);
        let Some(name) = keys.kind(key) else { return };
        let class = EventClass::GENERIC;
        match name {
            "string" => {
                let edit = |string: &mut Str, edit: &mut Edit<StrOp>| match kind {
                    0..=1 => drop(string.append(&other, edit).unwrap()),
                    2..=3 => {
                        let at = random.below(string.len() as u64 + 9) as usize;
                        string.set_range(at, &other, edit).unwrap();
                    }
                    4 => drop(string.set_range(n, &words.concat(), edit).unwrap()),
                    5 => string.grow_to(string.len() + n, edit).unwrap(),
                    _ => drop(bits::set(string, random.below(8 * string.len() as u64 + 1), true, edit).unwrap()),
                };
                keys.edit(key, edit).unwrap();
            }
            "list" => {
                let side = if n.is_multiple_of(2) { Side::Front } else { Side::Back };
                let edit = |list: &mut List, edit: &mut Edit<ListOp>| match kind {
                    0 => list.push(side, &refs, edit),
                    1 => drop(list.pop(side, edit)),
                    2 => drop(list.pop_many(side, n, edit)),
                    3 => {
                        let far = list.len() as i64;
                        list.trim(random.below(far as u64) as i64, far - 1 - random.below(9) as i64, edit);
                    }
                    4 => drop(list.set(n as i64, &other, edit)),
                    5 => {
                        let pivot = list.get(n as i64).unwrap_or(b"").to_vec();
                        list.insert(n.is_multiple_of(3), &pivot, &words.concat(), edit);
                    }
                    _ => {
                        let some = list.get(n as i64).unwrap_or(b"").to_vec();
                        list.remove(n as i64 % 3 - 1, &some, edit);
                    }
                };
                keys.edit(key, edit).unwrap();
            }
            "set" => {
                let edit = |set: &mut Set, edit: &mut Edit<SetOp>| match kind {
                    0..=2 => drop(set.add(&refs, edit)),
                    3..=5 => drop(set.remove(&refs, edit)),
                    _ => drop(set.pop_many(n, &mut random, edit)),
                };
                keys.edit(key, edit).unwrap();
            }
            "hash" => {
                let edit = |hash: &mut Hash, edit: &mut Edit<HashOp>| match kind {
                    0..=3 => drop(hash.set(&pairs, edit)),
                    _ => drop(hash.remove(&refs, edit)),
                };
                keys.edit(key, edit).unwrap();
            }
            _ => {
                let edit = |zset: &mut ZSet, edit: &mut Edit<ZSetOp>| match kind {
                    0..=3 => refs.iter().for_each(|word| {
                        zset.add(word, n as f64, Conditions::default(), edit);
                    }),
                    _ => drop(zset.remove(&refs, edit)),
                };
                keys.edit(key, edit).unwrap();
            }
        }
        keys.settle(class, "edited", key);
    }

    /// One change that a transaction of BEGIN may make, too: of these keys only.
    fn change_of(&mut self, db: usize, key: &[u8], to: (usize, &[u8]), changes: &mut Changes) {
        let (value, deadline) = (self.value(), self.now_ms + self.random.below(60) as i64);
        let bytes = self.words(40).concat();
        match self.below(16) {
            0..=6 => return self.edit(db, key, changes),
            7..=9 if (db, key) != to => {
                if self.keyspace.keys(db, self.now_ms, changes).owns(key) {
                    self.keyspace.keys(to.0, self.now_ms, changes).remove(to.1);
                    self.keyspace.relocate((db, key), to, changes);
                }
                return;
            }
            10 if (db, key) != to => {
                if let Some(copy) = self.keyspace.keys(db, self.now_ms, changes).copied(key, to.1) {
                    self.keyspace.keys(to.0, self.now_ms, changes).put_entry(copy);
                }
                return;
            }
            _ => {}
        }
        let kind = self.below(6);
        let mut keys = self.keyspace.keys(db, self.now_ms, changes);
        match kind {
            0 => drop(keys.remove(key)),
            1 => keys.set_string(key, &bytes, Expiry::Keep),
            2 => keys.put(key, value, None),
            3 => keys.put(key, value, Some(deadline)),
            4 => drop(keys.set_expire(key, Some(deadline))),
            _ => drop(keys.set_expire(key, None)),
        }
    }

    fn change(&mut self, changes: &mut Changes) {
        let ((db, key), (to, other)) = ((self.db(), self.key()), (self.db(), self.key()));
        match self.below(40) {
            0 => {
                self.now_ms += self.random.below(50) as i64;
                self.keyspace.keys(db, self.now_ms, changes).peek(&key);
            }
            1 => drop(self.keyspace.keys(db, self.now_ms, changes).evict(&key)),
            2 => {
                let mut random = Xoshiro::from_seed(self.random.next());
                self.keyspace.evict(Policy::AllkeysRandom, 3, self.now_ms, &mut random, changes);
            }
            3 if self.below(4) == 0 => self.keyspace.flush(db, changes),
            4 | 5 => self.keyspace.swap(db, to, changes),
            _ => {
                let to = if self.below(2) == 0 { to } else { db };
                self.change_of(db, &key, (to, &other), changes);
            }
        }
    }

    /// Something done as a whole: some changes, which may be taken back at once, or a step of a transaction.
    fn command(&mut self) {
        self.commands += 1;
        let wants = [Wants::empty(), Wants::REDO, Wants::REDO | Wants::UNDO][self.below(3) as usize];
        let mut effect = Effect::new(wants, EventClass::empty());
        let before = self.keyspace.digest();
        if self.below(6) == 0 {
            self.step_of_transaction(&mut effect.keys);
        } else {
            for _ in 0..1 + self.below(4) {
                self.change(&mut effect.keys);
            }
        }
        if wants.contains(Wants::UNDO) && self.below(2) == 0 {
            self.undone += 1;
            undo::undo(effect, &mut self.keyspace, &mut self.tables).unwrap();
            assert_eq!(before, self.keyspace.digest());
        }
    }

    fn step_of_transaction(&mut self, changes: &mut Changes) {
        let (mut private, mark) = self.transaction.take().unwrap_or_default();
        match self.below(8) {
            0 => private.commit(&mut self.keyspace, changes),
            1 => {}
            2 => {
                private.undo_to(mark, &mut self.keyspace).unwrap();
                self.transaction = Some((private, mark));
            }
            3 => {
                let mark = private.mark();
                self.transaction = Some((private, mark));
            }
            _ => {
                let names: [Name; 2] = [(self.db(), self.key().into()), (self.db(), self.key().into())];
                let [(db, key), (to, other)] = &names;
                let lent = private.lend(&mut self.keyspace, &names, true).unwrap();
                let mut effect = Effect::new(Wants::REDO | Wants::UNDO, EventClass::empty());
                for _ in 0..1 + self.below(3) {
                    self.change_of(*db, key, (*to, other), &mut effect.keys);
                }
                let keep = Keep { redo: true, undo: true };
                let others = private.take_back(&mut self.keyspace, lent, effect.keys, keep);
                assert!(others.is_empty());
                self.transaction = Some((private, mark));
            }
        }
    }
}

/// The keyspace that batches hold, read as a checkpoint is: a key once, and pieces of it behind it.
fn restored(batches: &[Batch]) -> Keyspace {
    let mut keyspace = Keyspace::new(DATABASES);
    keyspace.shared.thresholds = LOW;
    let (mut seen, mut keys) = (HashSet::new(), 0);
    for batch in batches {
        let input = &mut &batch.bytes[..];
        while !input.is_empty() {
            let key = codec::take_bytes(input).unwrap();
            let op = Op::decode(input, &LOW).unwrap();
            assert_eq!(
                matches!(op, Op::Put(..)),
                seen.insert((batch.db, key.to_vec())),
                "{:?}",
                String::from_utf8_lossy(key)
            );
            keyspace.apply_piece(batch.db, key, op);
        }
        keys += batch.keys;
    }
    assert_eq!(seen.len() as u64, keys);
    keyspace
}

impl Keyspace {
    /// [`Keyspace::apply`], but that a collection may be empty: its elements come later.
    fn apply_piece(&mut self, db: usize, key: &[u8], op: Op) {
        match op {
            Op::Put(value, expire_at) => {
                self.databases[db].put(Entry::new(key, EntryValue::Value(value), expire_at));
            }
            op => {
                let (mut entry, lent) = self.databases[db].edit(key).unwrap();
                assert!(lent.is_none());
                entry.value_mut().apply(op, &LOW).unwrap();
            }
        }
    }
}

#[test]
fn what_is_saved_is_the_keyspace_at_the_instant_whatever_happens_meanwhile() {
    let (mut commands, mut undone, mut slices) = (0, 0, 0);
    for seed in 0..150 {
        println!("seed {seed}");
        let mut world = World::new(seed);
        for round in 0..4 {
            for _ in 0..world.below(80) {
                world.command();
            }
            let then = world.keyspace.digest();
            let mut pass = Pass::begin(&mut world.keyspace).unwrap();
            let (mut saved, gives_up, budget) = (Vec::new(), world.below(5) == 0, 1 + world.below(900) as usize);
            loop {
                for _ in 0..world.below(5) {
                    world.command();
                }
                slices += 1;
                let more = pass.slice(&mut world.keyspace, budget);
                saved.extend(pass.take_output());
                if !more || gives_up && world.below(8) == 0 {
                    break;
                }
            }
            assert!(!pass.is_broken());
            if gives_up {
                if world.below(2) == 0 {
                    pass.abort(&mut world.keyspace);
                }
                continue;
            }
            assert_eq!(then, restored(&saved).digest(), "round {round}");
            assert!(world.keyspace.databases.iter().all(|database| database.saver.is_none()));
            assert_eq!(0, pass.orphans.len() + pass.emptied.len());
        }
        commands += world.commands;
        undone += world.undone;
    }
    assert!(commands > 20_000 && undone > 2_000 && slices > 6_000, "{commands} {undone} {slices}");
}

#[test]
fn a_value_that_is_lost_breaks_the_pass() {
    let mut world = World::new(1);
    let mut changes = Changes::default();
    world.keyspace.keys(0, 0, &mut changes).set_string(b"long", &[b'x'; 10_000], Expiry::Clear);
    let mut pass = Pass::begin(&mut world.keyspace).unwrap();
    pass.slice(&mut world.keyspace, 1000);
    assert!(!pass.is_broken());
    // As when a command panics.
    let (_, lent) = world.keyspace.databases[0].edit(&b"long"[..]).unwrap();
    drop(lent.unwrap());
    while pass.slice(&mut world.keyspace, 1000) {}
    assert!(pass.is_broken());
}

/// A keyspace with a big value of the type that the key names.
fn big_value(key: &str) -> Keyspace {
    let mut keyspace = Keyspace::new(2);
    keyspace.shared.epochs.sizes = SMALLER;
    let members = |pairs: bool| {
        let mut packed = Packed::new();
        for n in 0..10_000 {
            packed.push_back(format!("member {n}").as_bytes());
            if pairs {
                packed.push_back(&[n as u8]);
            }
        }
        packed
    };
    let op = match key {
        "string" => Op::Put(Value::string(&[b'x'; 1 << 20]), None),
        "list" => Op::List(ListOp::Push { front: Packed::new(), back: members(false) }),
        "set" => Op::Set(SetOp::Add(members(false))),
        "hash" => Op::Hash(HashOp::Set(members(true))),
        _ => Op::ZSet(ZSetOp::Set(members(true))),
    };
    keyspace.apply(0, key.as_bytes(), op).unwrap();
    keyspace
}

const BIG_KEYS: [&str; 5] = ["string", "list", "set", "hash", "zset"];

/// Performs a change under its wants, and gives the bytes that were saved or copied for that.
fn bytes_saved_by(
    keyspace: &mut Keyspace,
    pass: &Pass,
    wants: Wants,
    change: impl FnOnce(&mut Keyspace, &mut Changes),
) -> usize {
    let before = pass.bytes(keyspace);
    COPIED.set(0);
    let mut changes = Changes { wants, ..Changes::default() };
    change(keyspace, &mut changes);
    drop(changes);
    pass.bytes(keyspace) - before + COPIED.get()
}

/// A sixteenth of what pieces are otherwise, so that values need not be so large.
const SMALLER: Sizes = Sizes { batch: 16 << 10, piece: 4 << 10, big_string: 64 << 10, big_collection: 8 << 10 };

type Bounded = (&'static str, usize, fn(&mut Keyspace, &[u8], &mut Changes));

/// What a key, its beginning and what stands around it take.
const HEAD: usize = 200;
const NODE: usize = 8 << 10;
const PIECE: usize = SMALLER.piece;

/// Commands on big values, and the bytes that each may save.
const BOUNDED: &[Bounded] = &[
    ("DEL", HEAD, |keyspace, key, changes| assert!(keyspace.keys(0, 0, changes).remove(key))),
    ("SET", HEAD, |keyspace, key, changes| keyspace.keys(0, 0, changes).set_string(key, b"new", Expiry::Clear)),
    ("STORE", HEAD, |keyspace, key, changes| keyspace.keys(0, 0, changes).put(key, Value::string(b"new"), None)),
    ("evict", HEAD, |keyspace, key, changes| assert!(keyspace.keys(0, 0, changes).evict(key))),
    ("EXPIRE", HEAD, |keyspace, key, changes| {
        keyspace.keys(0, 0, changes).set_expire(key, Some(5));
        keyspace.keys(0, 6, changes).peek(key);
    }),
    ("RENAME", 2 * HEAD, |keyspace, key, changes| {
        keyspace.relocate((0, key), (0, b"other"), changes);
        keyspace.relocate((0, b"other"), (1, b"another"), changes);
        keyspace.relocate((1, b"another"), (0, key), changes);
    }),
    ("FLUSHDB", HEAD, |keyspace, _, changes| keyspace.flush(0, changes)),
    ("SWAPDB", HEAD, |keyspace, _, changes| keyspace.swap(0, 1, changes)),
    ("edit", 2 * PIECE + 3 * NODE, |keyspace, key, changes| edit_a_little(keyspace, key, changes)),
    ("BEGIN", HEAD, |keyspace, key, _| {
        let mut private = PrivateKeys::default();
        let name: Name = (0, key.into());
        let lent = private.lend(keyspace, &[name], true).unwrap();
        private.take_back(keyspace, lent, Changes::default(), Keep { redo: true, undo: true });
    }),
];

fn edit_a_little(keyspace: &mut Keyspace, key: &[u8], changes: &mut Changes) {
    let mut keys = keyspace.keys(0, 0, changes);
    match key {
        b"string" => keys
            .edit(key, |string: &mut Str, edit| {
                string.append(&[b'y'; 30_000], edit).unwrap();
                string.set_range(500_000, b"little", edit).unwrap()
            })
            .map(drop),
        b"list" => keys
            .edit(key, |list: &mut List, edit| {
                list.set(7000, b"other", edit);
                list.trim(1500, -1500, edit);
            })
            .map(drop),
        b"set" => keys.edit(key, |set: &mut Set, edit| set.remove(&[b"member 1", b"member 9999"], edit)).map(drop),
        b"hash" => keys.edit(key, |hash: &mut Hash, edit| hash.set(&[b"member 7", b"new"], edit)).map(drop),
        _ => keys.edit(key, |zset: &mut ZSet, edit| zset.remove(&[b"member 9"], edit)).map(drop),
    }
    .unwrap();
}

#[test]
fn one_command_saves_no_more_than_it_changes_and_a_piece_or_two() {
    for key in BIG_KEYS {
        for &(name, most, change) in BOUNDED {
            for (slices, wants) in [(0, Wants::empty()), (1, Wants::REDO), (4, Wants::UNDO), (9, Wants::empty())] {
                let mut keyspace = big_value(key);
                let then = keyspace.digest();
                let mut pass = Pass::begin(&mut keyspace).unwrap();
                let mut saved = Vec::new();
                for _ in 0..slices {
                    assert!(pass.slice(&mut keyspace, 4000));
                    saved.extend(pass.take_output());
                }
                let bytes = bytes_saved_by(&mut keyspace, &pass, wants, |keyspace, changes| {
                    change(keyspace, key.as_bytes(), changes);
                });
                assert!(bytes <= most, "{name} {key} after {slices} slices: {bytes} bytes");
                while pass.slice(&mut keyspace, 1 << 20) {
                    saved.extend(pass.take_output());
                }
                saved.extend(pass.take_output());
                assert!(saved.iter().all(|batch| batch.bytes.len() < SMALLER.batch + 2 * NODE));
                assert_eq!(then, restored(&saved).digest(), "{name} {key} after {slices} slices");
            }
        }
    }
}
