//! Snapshot isolation against a model of it: several sessions, random interleavings, a printed seed.
//!
//! The model keeps the committed rows by an identity of its own. A transaction has the rows as they were at its BEGIN, its
//! own view of them, and which of them it wrote; it may commit if these are still what they were and no unique key is in
//! the way. Keys have a version; a transaction that wrote may commit if those it used have none younger than its BEGIN.

use super::tests::Client;
use super::*;
use crate::env::Xoshiro;
use crate::keyspace::{Keyspace, Wants};
use crate::txn::{Tables, redo, undo};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    k: i64,
    v: i64,
    u: Option<i64>,
}

type Rows = BTreeMap<u64, Row>;
type Keys = BTreeMap<&'static str, String>;

#[derive(Default)]
struct Model {
    rows: Rows,
    /// When a transaction last wrote a row, whatever it wrote.
    claimed: BTreeMap<u64, u64>,
    keys: Keys,
    changed: BTreeMap<&'static str, u64>,
    now: u64,
    next_row: u64,
    next_value: i64,
}

#[derive(Clone)]
struct Open {
    began: u64,
    before: Rows,
    rows: Rows,
    written: BTreeSet<u64>,
    /// Keys written, with what they hold.
    keys: BTreeMap<&'static str, Option<String>>,
    used: BTreeSet<&'static str>,
    savepoint: Option<Box<Open>>,
}

const NAMES: [&str; 3] = ["x", "y", "z"];

fn find(rows: &Rows, k: i64) -> Option<u64> {
    rows.iter().find(|(_, row)| row.k == k).map(|(id, _)| *id)
}

fn clashes(rows: &Rows, row: &Row, but: Option<u64>) -> bool {
    rows.iter().any(|(id, other)| Some(*id) != but && (other.k == row.k || (row.u.is_some() && other.u == row.u)))
}

/// A session and its transaction in the model.
struct Side {
    client: Client,
    open: Option<Open>,
}

struct World {
    model: Model,
    sides: Vec<Side>,
    random: Xoshiro,
    conflicts: usize,
    commits: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let first = Client::new();
        // On a slow machine reads would go on in other threads.
        first.call(&["CONFIG", "SET", "statement-slice", "60000000"]);
        first.call(&["DEBUG", "EFFECTS", "START"]);
        first.call(&["SQL", "CREATE TABLE t (k INTEGER PRIMARY KEY, v INTEGER, u INTEGER UNIQUE USING HASH)"]);
        first.call(&["SQL", "CREATE INDEX t_v ON t (v)"]);
        let others: Vec<Client> = (0..3).map(|_| first.another()).collect();
        let sides = std::iter::once(first).chain(others).map(|client| Side { client, open: None }).collect();
        World { model: Model::default(), sides, random: Xoshiro::from_seed(seed), conflicts: 0, commits: 0 }
    }

    fn below(&mut self, bound: u64) -> i64 {
        self.random.below(bound) as i64
    }

    fn value(&mut self) -> i64 {
        self.model.next_value += 1;
        self.model.next_value
    }

    /// What a session sees.
    fn seen(&mut self, side: usize) -> &mut Rows {
        match &mut self.sides[side].open {
            Some(open) => &mut open.rows,
            None => &mut self.model.rows,
        }
    }

    fn wrote(&mut self, side: usize, id: u64) {
        if let Some(open) = &mut self.sides[side].open
            && open.before.contains_key(&id)
        {
            open.written.insert(id);
        }
    }

    fn ask(&self, side: usize, text: &str) -> Reply {
        self.sides[side].client.call(&["SQL", text])
    }

    fn rows(&self, side: usize, text: &str) -> Vec<Vec<Option<i64>>> {
        let Reply::Array(rows) = self.ask(side, text) else { panic!("{text}: {:?}", self.ask(side, text)) };
        let value = |reply: &Reply| match reply {
            Reply::Int(n) => Some(*n),
            Reply::Nil => None,
            other => panic!("{other:?}"),
        };
        let row = |row: &Reply| match row {
            Reply::Array(row) => row.iter().map(value).collect(),
            other => panic!("{other:?}"),
        };
        rows.iter().skip(1).map(row).collect()
    }

    fn check(&mut self, side: usize) {
        let mut expected: Vec<Vec<Option<i64>>> =
            self.seen(side).values().map(|row| vec![Some(row.k), Some(row.v), row.u]).collect();
        expected.sort();
        assert_eq!(expected, self.rows(side, "SELECT k, v, u FROM t ORDER BY k"));
        let limit = self.model.next_value / 2;
        let mut high: Vec<(i64, i64)> =
            self.seen(side).values().filter(|row| row.v > limit).map(|row| (row.v, row.k)).collect();
        high.sort();
        let found: Vec<(i64, i64)> = self
            .rows(side, &format!("SELECT v, k FROM t WHERE v > {limit} ORDER BY v, k"))
            .into_iter()
            .map(|row| (row[0].unwrap(), row[1].unwrap()))
            .collect();
        assert_eq!(high, found);
        let u = self.below(8);
        let expected: Vec<i64> = self.seen(side).values().filter(|row| row.u == Some(u)).map(|row| row.k).collect();
        let found: Vec<i64> =
            self.rows(side, &format!("SELECT k FROM t WHERE u = {u}")).into_iter().map(|row| row[0].unwrap()).collect();
        assert_eq!(expected, found);
    }

    /// A statement that writes; both agree whether it fails.
    fn write(&mut self, side: usize) {
        let (k, v) = (self.below(10), self.value());
        let u = Some(self.below(8)).filter(|u| *u < 6);
        let shown = u.map_or("NULL".to_string(), |u| u.to_string());
        let (text, fails) = match self.below(7) {
            0 | 1 => {
                let row = Row { k, v, u };
                let fails = clashes(self.seen(side), &row, None);
                if !fails {
                    let id = self.model.next_row;
                    self.model.next_row += 1;
                    self.seen(side).insert(id, row);
                }
                (format!("INSERT INTO t VALUES ({k}, {v}, {shown})"), fails)
            }
            2 | 3 => {
                if let Some(id) = find(self.seen(side), k) {
                    self.seen(side).get_mut(&id).unwrap().v = v;
                    self.wrote(side, id);
                }
                (format!("UPDATE t SET v = {v} WHERE k = {k}"), false)
            }
            4 => {
                let mut fails = false;
                if let Some(id) = find(self.seen(side), k) {
                    let row = Row { u, ..self.seen(side)[&id] };
                    fails = clashes(self.seen(side), &row, Some(id));
                    if !fails {
                        self.seen(side).insert(id, row);
                        self.wrote(side, id);
                    }
                }
                (format!("UPDATE t SET u = {shown} WHERE k = {k}"), fails)
            }
            5 => {
                // In a transaction an update that changes nothing is a write all the same.
                let ids: Vec<u64> =
                    self.seen(side).iter().filter(|(_, row)| row.k >= k && row.k < k + 2).map(|(id, _)| *id).collect();
                ids.iter().for_each(|id| self.wrote(side, *id));
                (format!("UPDATE t SET v = v WHERE k >= {k} AND k < {}", k + 2), false)
            }
            _ => {
                if let Some(id) = find(self.seen(side), k) {
                    self.seen(side).remove(&id);
                    self.wrote(side, id);
                }
                (format!("DELETE FROM t WHERE k = {k}"), false)
            }
        };
        let reply = self.ask(side, &text);
        assert_eq!(fails, matches!(reply, Reply::Error(_)), "session {side}: {text}: {reply:?}");
    }

    fn key(&mut self, side: usize) {
        let name = NAMES[self.below(3) as usize];
        let held = match &self.sides[side].open {
            Some(open) => open.keys.get(name).cloned().unwrap_or_else(|| self.model.keys.get(name).cloned()),
            None => self.model.keys.get(name).cloned(),
        };
        if let Some(open) = &mut self.sides[side].open {
            open.used.insert(name);
        }
        let client = &self.sides[side].client;
        let new = match self.random.below(4) {
            0 => {
                let expected = held.as_ref().map_or(Reply::Nil, Reply::bulk);
                assert_eq!(expected, client.call(&["GET", name]));
                return;
            }
            1 => {
                client.call(&["APPEND", name, "+"]);
                Some(held.unwrap_or_default() + "+")
            }
            2 => {
                client.call(&["DEL", name]);
                if held.is_none() {
                    return;
                }
                None
            }
            _ => {
                let value = self.model.next_value.to_string();
                client.call(&["SET", name, &value]);
                Some(value)
            }
        };
        match &mut self.sides[side].open {
            Some(open) => drop(open.keys.insert(name, new)),
            None => self.model.change_key(name, new),
        }
    }

    fn begin_or_end(&mut self, side: usize) {
        let Some(mut open) = self.sides[side].open.take() else {
            self.model.now += 1;
            let rows = self.model.rows.clone();
            self.sides[side].open = Some(Open {
                began: self.model.now,
                before: rows.clone(),
                rows,
                written: BTreeSet::new(),
                keys: BTreeMap::new(),
                used: BTreeSet::new(),
                savepoint: None,
            });
            assert_eq!(Reply::Ok, self.ask(side, "BEGIN"));
            return;
        };
        match self.random.below(6) {
            0 => assert_eq!(Reply::Ok, self.ask(side, "ROLLBACK")),
            1 if open.savepoint.is_none() => {
                assert_eq!(Reply::Ok, self.ask(side, "SAVEPOINT s"));
                open.savepoint = Some(Box::new(open.clone()));
                self.sides[side].open = Some(open);
            }
            2 if open.savepoint.is_some() => {
                assert_eq!(Reply::Ok, self.ask(side, "ROLLBACK TO s"));
                let before = open.savepoint.take().unwrap();
                // What was used stays used.
                let again = Open { used: open.used.clone(), savepoint: Some(before.clone()), ..*before };
                self.sides[side].open = Some(again);
            }
            _ => {
                let expected = self.model.commit(open);
                let reply = self.ask(side, "COMMIT");
                match &reply {
                    Reply::Ok => self.commits += 1,
                    Reply::Error(error) if error.code == Code::Conflict => self.conflicts += 1,
                    other => panic!("COMMIT: {other:?}"),
                }
                assert_eq!(expected, reply == Reply::Ok, "session {side}: {reply:?}");
            }
        }
    }
}

impl Model {
    fn change_key(&mut self, name: &'static str, value: Option<String>) {
        match value {
            Some(value) => drop(self.keys.insert(name, value)),
            None => drop(self.keys.remove(name)),
        }
        self.changed.insert(name, self.now);
    }

    /// True: it may, and has.
    fn commit(&mut self, open: Open) -> bool {
        let inserted: Vec<u64> = open.rows.keys().filter(|id| !open.before.contains_key(id)).copied().collect();
        if open.written.is_empty() && inserted.is_empty() && open.keys.is_empty() {
            return true;
        }
        let young = |name: &&'static str| self.changed.get(*name).is_some_and(|at| *at >= open.began);
        if open.used.iter().any(young) {
            return false;
        }
        let lost = |id: &u64| {
            self.rows.get(id) != open.before.get(id) || self.claimed.get(id).is_some_and(|at| *at >= open.began)
        };
        if open.written.iter().any(lost) {
            return false;
        }
        let mut after = self.rows.clone();
        after.retain(|id, _| !open.written.contains(id));
        for id in open.written.iter().chain(&inserted) {
            if let Some(row) = open.rows.get(id) {
                if clashes(&after, row, None) {
                    return false;
                }
                after.insert(*id, *row);
            }
        }
        self.claimed.extend(open.written.iter().map(|id| (*id, self.now)));
        self.rows = after;
        open.keys.into_iter().for_each(|(name, value)| self.change_key(name, value));
        true
    }
}

#[test]
fn random_interleavings_agree_with_a_model_of_snapshot_isolation() {
    let (mut commits, mut conflicts) = (0, 0);
    for seed in 0..40 {
        println!("seed {seed}");
        let mut world = World::new(seed);
        for _ in 0..400 {
            let side = world.below(4) as usize;
            match world.below(10) {
                0 | 1 => world.begin_or_end(side),
                2 | 3 => world.check(side),
                4 => world.key(side),
                _ => world.write(side),
            }
        }
        for side in 0..4 {
            world.check(side);
            if world.sides[side].open.take().is_some() {
                world.ask(side, "ROLLBACK");
            }
        }
        world.check(0);
        commits += world.commits;
        conflicts += world.conflicts;
        assert_eq!(0, world.sides[0].client.store.enter().state().transactions.len());
        check_effects(&world.sides[0].client);
    }
    assert!(commits > 100 && conflicts > 100, "{commits} commits, {conflicts} conflicts");
}

/// What was recorded gives the same state again, and nothing when it is taken back.
fn check_effects(client: &Client) {
    let mut baton = client.store.enter();
    let state = baton.state();
    let recorded = state.recorded.take().unwrap();
    let (mut keyspace, mut tables) = (Keyspace::new(16), Tables::new(Box::new(crate::engine::Memory::new())));
    for effect in &recorded {
        let mut record = Vec::new();
        redo::encode(effect, &mut record);
        redo::replay(&record, &mut keyspace, &mut tables).unwrap();
    }
    assert_eq!(state.keyspace.digest(), keyspace.digest());
    assert_eq!(state.tables.digest().unwrap(), tables.digest().unwrap());
    state.wants -= Wants::REDO | Wants::UNDO;
    for effect in recorded.into_iter().rev() {
        undo::undo(effect, &mut state.keyspace, &mut state.tables).unwrap();
    }
    assert_eq!(0, state.keyspace.databases[0].len());
    assert_eq!(0, state.tables.catalog.tables().count());
}
