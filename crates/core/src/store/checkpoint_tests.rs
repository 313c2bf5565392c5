//! Checkpoints of a store, taken while commands of all kinds run, against the log of what they did.

use super::Options;
use super::tests::{Client, random_statement};
use crate::env::simulated::SimulatedFiles;
use crate::env::{Env, Xoshiro};
use crate::keyspace::saving::Sizes;
use crate::keyspace::{Keyspace, Wants};
use crate::recovery::tests::{about, empty, restored, write_at_once};
use crate::recovery::{Run, remove_others};
use crate::reply::Reply;
use crate::state::State;
use crate::txn::{Effect, Tables, redo, undo};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

#[test]
fn tables_and_keys_come_back() {
    let (client, files) = (Client::new(), SimulatedFiles::new(1));
    for statement in [
        "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a INT UNIQUE, b TEXT DEFAULT 'new', c REAL, d DECIMAL)",
        "CREATE INDEX t_b ON t (b)",
        "CREATE VIEW v AS SELECT a FROM t WHERE b > 'x'",
        "INSERT INTO t (a, b, c, d) VALUES (1, 'one', 1.5, '1.50'), (2, 'two', NULL, '-3'), (3, 'three', -0.0, NULL)",
        "DELETE FROM t WHERE a = 2",
        "DELETE FROM t WHERE a = 3",
        "CREATE TABLE gone (id INT PRIMARY KEY)",
        "DROP TABLE gone",
    ] {
        client.call(&["SQL", statement]);
    }
    client.call(&["SQL", "UPDATE t SET b = ? WHERE a = 1", &"long".repeat(3000)]);
    client.call(&["HSET", "h", "f", "v"]);
    let mut baton = client.store.enter();
    let state = baton.state();
    write_at_once(&files, &mut state.keyspace, &mut state.tables, 3);
    let (keyspace, tables) = restored(&files, 3).unwrap();
    assert_eq!(state.keyspace.digest(), keyspace.digest());
    assert_eq!(state.tables.digest(), tables.digest());
    assert_eq!(state.tables.catalog, tables.catalog);
}

/// A world whose clock a test moves.
struct World {
    now_us: Arc<AtomicI64>,
    random: Xoshiro,
}

impl Env for World {
    fn now_us(&mut self) -> i64 {
        self.now_us.load(Ordering::Relaxed)
    }
    fn monotonic_ns(&mut self) -> u64 {
        self.now_us.load(Ordering::Relaxed) as u64 * 1000
    }
    fn random_u64(&mut self) -> u64 {
        self.random.next()
    }
}

/// A store with two sessions, and the log of its changes.
struct Logged {
    now_us: Arc<AtomicI64>,
    client: Client,
    /// Is now and then in a transaction of BEGIN.
    other: Client,
    random: Xoshiro,
    records: Vec<Vec<u8>>,
    steps: usize,
    failures: usize,
}

impl Logged {
    fn new(seed: u64, undo: bool) -> Logged {
        let now_us = Arc::new(AtomicI64::new(1_767_225_600_000_000));
        let world = World { now_us: now_us.clone(), random: Xoshiro::from_seed(seed) };
        let client = Client::with(Options { env: Some(Box::new(world)), debug_commands: true, ..Options::default() });
        let other = client.another();
        {
            let mut baton = client.store.enter();
            let state = baton.state();
            state.active_expire = false;
            if !seed.is_multiple_of(3) {
                // Most values are big, and saved in many pieces.
                state.keyspace.shared.epochs.sizes =
                    Sizes { batch: 2000, piece: 300, big_string: 500, big_collection: 400 };
            }
            state.recorded = Some(Vec::new());
            state.wants |= if undo { Wants::REDO | Wants::UNDO } else { Wants::REDO };
        }
        Logged { now_us, client, other, random: Xoshiro::from_seed(seed), records: Vec::new(), steps: 0, failures: 0 }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn key(&mut self) -> String {
        format!("k{}", self.below(500))
    }

    fn word(&mut self) -> String {
        let long = [0, 3, 20, 70, 900, 3000][self.below(6) as usize];
        match self.below(3) {
            0 => self.below(1000).to_string(),
            _ => format!("{}{}", self.below(40), "w".repeat(self.below(long + 1) as usize)),
        }
    }

    /// A command that changes keys, with its words separated by spaces.
    fn key_command(&mut self) -> String {
        let (k, other, w, n) = (self.key(), self.key(), self.word(), self.below(30));
        let (m, db) = (self.word(), self.below(4));
        match self.below(58) {
            0..=3 => format!("SET {k} {w}"),
            4 => format!("SET {k} {w} PX {}", 1 + n * 20),
            5 => format!("SET {k} {w} KEEPTTL"),
            6 => format!("INCR {k}"),
            7 => format!("APPEND {k} {w}"),
            8 => format!("SETRANGE {k} {n} {w}"),
            9 => format!("SETBIT {k} {n} 1"),
            10..=12 => format!("RPUSH {k} {w} {m} {n}"),
            13 => format!("LPOP {k} {n}"),
            14 => format!("LSET {k} 0 {w}"),
            15 => format!("LINSERT {k} BEFORE {w} {m}"),
            16 => format!("LREM {k} 0 {w}"),
            17 => format!("LMOVE {k} {other} LEFT RIGHT"),
            18..=20 => format!("SADD {k} {w} {m} {n}"),
            21 => format!("SPOP {k} {n}"),
            22 => format!("SREM {k} {w} {n}"),
            23 => format!("SMOVE {k} {other} {w}"),
            24 => format!("SUNIONSTORE {k} {other} {k}"),
            25..=27 => format!("HSET {k} {w} {m} {n} {w}"),
            28 => format!("HDEL {k} {w} {n}"),
            29 => format!("HINCRBY {k} {n} 3"),
            30..=32 => format!("ZADD {k} {n} {w} 1.5 {m}"),
            33 => format!("ZREM {k} {w}"),
            34 => format!("ZINCRBY {k} 2 {w}"),
            35 => format!("ZUNIONSTORE {k} 2 {other} {k}"),
            36 => format!("ZPOPMIN {k} {n}"),
            37 | 38 => format!("DEL {k} {other}"),
            39 => format!("UNLINK {k}"),
            40 => format!("GETDEL {k}"),
            41 => format!("RENAME {k} {other}"),
            42 => format!("RENAMENX {k} {other}"),
            43 | 44 => format!("MOVE {k} {db}"),
            45 => format!("COPY {k} {other} REPLACE"),
            46 => format!("COPY {k} {other} DB {db}"),
            47 => format!("SORT {k} ALPHA STORE {other}"),
            48 => format!("PEXPIRE {k} {}", n * 30),
            49 => format!("PEXPIREAT {k} 1000"),
            50 => format!("PERSIST {k}"),
            51 => format!("BITOP OR {k} {k} {other}"),
            52 => format!("PFADD {k} {w}"),
            53 if n < 3 => "FLUSHDB".into(),
            54 if n < 1 => "FLUSHALL".into(),
            55 if n < 10 => format!("SWAPDB {db} {}", self.below(4)),
            56 => format!("GETEX {k} PX 300"),
            _ => format!("MGET {k} {other}"),
        }
    }

    fn ask(&mut self, which: bool, args: &[&str]) -> Reply {
        let reply = if which { self.other.call(args) } else { self.client.call(args) };
        self.steps += 1;
        self.failures += usize::from(matches!(reply, Reply::Error(_)));
        reply
    }

    /// Runs something at random, in some session.
    fn step(&mut self) {
        if self.below(6) == 0 {
            self.now_us.fetch_add(self.random.below(60_000) as i64, Ordering::Relaxed);
        }
        let which = self.below(3) == 0;
        match self.below(30) {
            0 => drop(self.ask(which, &["SELECT", &self.random.clone().below(4).to_string()])),
            1 => {
                let control = ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO s"][self.below(5) as usize];
                self.ask(true, &["SQL", control]);
            }
            2 => {
                self.ask(which, &["MULTI"]);
                for _ in 0..self.below(6) {
                    let command = self.key_command();
                    self.ask(which, &command.split(' ').collect::<Vec<_>>());
                }
                let end = ["EXEC", "DISCARD"][usize::from(self.below(5) == 0)];
                self.ask(which, &[end]);
            }
            3 => {
                let (k, other, w) = (self.key(), self.key(), self.word());
                let script = "redis.call('SET', KEYS[1], ARGV[1]) redis.call('DEL', KEYS[2]) \
                              return redis.call('LPUSH', KEYS[1], 'x')";
                self.ask(which, &["EVAL", script, "2", &k, &other, &w]);
            }
            4 => {
                let (k, n) = (format!("big{}", self.below(4)), self.below(4));
                let script = "local k, n = KEYS[1], tonumber(ARGV[1]) \
                    if n == 0 then return redis.call('SETRANGE', k, 1100000 + n, ARGV[2]) end \
                    for i = 1, 1500 do local w = ARGV[2] .. i .. string.rep('b', 40) \
                    if n == 1 then redis.call('RPUSH', k, w) elseif n == 2 then redis.call('SADD', k, w) \
                    else redis.call('ZADD', k, i, w) redis.call('HSET', k .. 'h', w, i) end end";
                let word = self.below(5).to_string();
                self.ask(which, &["EVAL", script, "1", &k, &n.to_string(), &word]);
            }
            5..=8 => {
                let (k, n) = (format!("big{}", self.below(4)), self.below(1600));
                let member = format!("{}{n}{}", self.below(5), "b".repeat(40));
                let command = match self.below(28) {
                    0 => format!("RPOP {k} 20"),
                    1 => format!("SPOP {k} 20"),
                    2 | 3 => format!("SREM {k} {member} x{member}"),
                    4 | 5 => format!("SADD {k} x{member} {member}"),
                    6 => format!("ZREMRANGEBYSCORE {k} {n} {}", n + 20),
                    7 => format!("ZINCRBY {k} 2 {member}"),
                    8 => format!("ZADD {k} 3 {member} 5 x{member} 7 {member}"),
                    9 => format!("HDEL {k}h {member} x{member}"),
                    10 | 11 => format!("HSET {k}h x{member} 1 {member} 2 x{member} 3"),
                    12 => format!("HINCRBY {k}h {member} 5"),
                    13 => format!("APPEND {k} {n}"),
                    14 | 15 => format!("RENAME {k} big{}", self.below(4)),
                    16 => format!("SETRANGE {k} {} {member}", n * 700),
                    17 => format!("SETBIT {k} {} 1", n * 5000),
                    18 => format!("LPUSH {k} {member} {n}"),
                    19 => format!("LTRIM {k} {} -{}", n / 4, 1 + n / 8),
                    20 => format!("LSET {k} {n} {member}"),
                    21 => format!("LINSERT {k} AFTER {member} {n}"),
                    22 => format!("LREM {k} 0 {member}"),
                    23 => format!("LMOVE {k} big{} LEFT RIGHT", self.below(4)),
                    24 if n < 300 => format!("DEL {k} {k}h"),
                    24 if n < 500 => format!("SET {k} {member}"),
                    25 if n < 300 => format!("PEXPIRE {k} {n}"),
                    26 => format!("SUNIONSTORE {k} {k} big{}", self.below(4)),
                    27 => format!("COPY {k} big{} REPLACE", self.below(4)),
                    _ => format!("MOVE {k} {}", self.below(4)),
                };
                self.ask(which, &command.split(' ').collect::<Vec<_>>());
            }
            9..=13 => {
                let statement = random_statement(&mut self.random);
                self.ask(which, &["SQL", &statement]);
            }
            _ => {
                let command = self.key_command();
                self.ask(which, &command.split(' ').collect::<Vec<_>>());
            }
        }
        let takes_back = self.random.below(6) == 0;
        let mut baton = self.client.store.enter();
        let state = baton.state();
        // A transaction that found a key expired counts on its not coming back.
        let takes_back = takes_back && state.transactions.sessions().next().is_none();
        let effects: Vec<Effect> = state.recorded.replace(Vec::new()).unwrap();
        if takes_back && state.wants.contains(Wants::UNDO) {
            for effect in effects.into_iter().rev() {
                undo::undo(effect, &mut state.keyspace, &mut state.tables).unwrap();
            }
        } else {
            for effect in effects {
                let mut record = Vec::new();
                redo::encode(&effect, &mut record);
                self.records.push(record);
            }
        }
    }

    fn with<T>(&self, body: impl FnOnce(&mut State) -> T) -> T {
        body(self.client.store.enter().state())
    }

    fn digests(&self) -> (u64, u64) {
        self.with(|state| digests(&state.keyspace, &state.tables))
    }
}

fn digests(keyspace: &Keyspace, tables: &Tables) -> (u64, u64) {
    (keyspace.digest(), tables.digest().unwrap())
}

/// Invariant 5: a checkpoint is the state at its LSN, and with each later record, once and in order, the state now.
fn check_a_checkpoint_taken_while_commands_run(seed: u64) -> u64 {
    println!("seed {seed}");
    let files = SimulatedFiles::new(1);
    let mut logged = Logged::new(seed, seed % 2 == 1);
    let mut copied = 0;
    for round in 0..6 {
        (0..300).for_each(|_| logged.step());
        let lsn = logged.records.len() as u64;
        let then = logged.digests();
        let mut run = logged.with(|s| Run::begin(&mut s.keyspace, &mut s.tables, about(lsn)).unwrap());
        let again = logged.with(|s| Run::begin(&mut s.keyspace, &mut s.tables, about(lsn)).is_err());
        assert!(again, "one at a time");
        let (mut slices, gives_up) = (0, round % 3 == 1);
        loop {
            for _ in 0..logged.below(8) {
                logged.step();
            }
            let budget = 1 + logged.below(6000) as usize;
            // By the thread that saves, or by a server at the end of its turn.
            let is_served = logged.below(2) == 0;
            let slice = |state: &mut State| match is_served {
                true => run.keys().try_slice(&mut state.keyspace, budget, 1),
                false => run.keys().slice(&mut state.keyspace, budget),
            };
            if !logged.with(slice) {
                break;
            }
            if logged.below(2) == 0 {
                run.write(&files).unwrap();
            }
            slices += 1;
            if gives_up && slices > 4 {
                break;
            }
        }
        if gives_up {
            if round == 1 {
                logged.with(|state| run.abort(&mut state.keyspace));
            }
            run.discard(&files);
            continue;
        }
        let written = run.finish(&files).unwrap();
        assert_eq!(lsn, written.lsn);
        remove_others(&files, lsn).unwrap();
        (0..30).for_each(|_| logged.step());
        let (mut keyspace, mut tables) = restored(&files, lsn).unwrap();
        assert_eq!(then, digests(&keyspace, &tables), "round {round} after {slices} slices");
        for record in &logged.records[lsn as usize..] {
            redo::replay(record, &mut keyspace, &mut tables).unwrap();
        }
        assert_eq!(logged.digests(), digests(&keyspace, &tables), "round {round}, with the log since");
        copied += written.keys + written.rows;
        check_tables(&tables);
    }
    let (mut keyspace, mut tables) = empty();
    logged.records.iter().for_each(|record| redo::replay(record, &mut keyspace, &mut tables).unwrap());
    assert_eq!(logged.digests(), digests(&keyspace, &tables));
    assert!(logged.failures < logged.steps / 2, "{} of {} steps failed", logged.failures, logged.steps);
    copied
}

/// Invariant 3: what an index finds is what a scan finds.
fn check_tables(tables: &Tables) {
    for def in tables.catalog.tables() {
        let statistics = tables.source().statistics(def.id).unwrap();
        for index in statistics.indexes.iter().filter(|index| def.index(index.id).unwrap().filter.is_none()) {
            assert_eq!(statistics.rows, index.entries);
        }
    }
}

#[test]
fn a_checkpoint_taken_while_commands_run_is_the_state_at_its_lsn() {
    let copied: u64 = (0..14).map(check_a_checkpoint_taken_while_commands_run).sum();
    assert!(copied > 9_000, "{copied} keys and rows were in checkpoints");
}
