//! Triggers in Lua beside SQLite's own: the same logic, written twice, leaves the same tables after the same statements.
//!
//! Rows may be written in another order, so what is logged is compared without order. SQLite fires DELETE triggers for REPLACE
//! and triggers of triggers with `recursive_triggers`.

use super::tests::Client;
use crate::env::Xoshiro;
use crate::reply::Reply;
use crate::sql::sqlite::{Connection, Step};
use crate::table::datum::DatumRef;

const TABLES: [&str; 5] = [
    "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER NOT NULL, b TEXT, n INTEGER DEFAULT 0)",
    "CREATE TABLE child (id INTEGER PRIMARY KEY, t INTEGER REFERENCES t (id) ON DELETE CASCADE ON UPDATE CASCADE)",
    "CREATE TABLE sums (a INTEGER PRIMARY KEY, total INTEGER)",
    "CREATE TABLE log (k INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT)",
    "CREATE TABLE chain (k INTEGER PRIMARY KEY AUTOINCREMENT, n INTEGER)",
];

/// Triggers of SQLite; the last word of each names the function that does the same.
const ORACLE: [(&str, &str, &str); 12] = [
    (
        "BEFORE INSERT ON t",
        "SELECT RAISE(ABORT, 'no') WHERE NEW.a < 0; INSERT INTO log (what) VALUES ('b' || NEW.id)",
        "b_t",
    ),
    (
        "AFTER INSERT ON t",
        "INSERT INTO sums VALUES (NEW.a, 1) ON CONFLICT (a) DO UPDATE SET total = total + 1; \
         INSERT INTO log (what) VALUES ('i' || NEW.id || coalesce(NEW.b, '-'))",
        "i_t",
    ),
    ("AFTER INSERT ON t WHEN NEW.n > 0", "INSERT INTO chain (n) VALUES (NEW.n)", "chain"),
    ("AFTER INSERT ON chain WHEN NEW.n > 1", "INSERT INTO chain (n) VALUES (NEW.n - 1)", "chain_on"),
    (
        "AFTER UPDATE OF a ON t WHEN OLD.a <> NEW.a",
        "UPDATE sums SET total = total - 1 WHERE a = OLD.a; DELETE FROM sums WHERE total = 0; \
         INSERT INTO sums VALUES (NEW.a, 1) ON CONFLICT (a) DO UPDATE SET total = total + 1",
        "move",
    ),
    ("BEFORE UPDATE ON t", "INSERT INTO log (what) VALUES ('u' || OLD.id || '>' || NEW.id || ':' || NEW.a)", "u_t"),
    ("AFTER UPDATE OF b ON t", "INSERT INTO log (what) VALUES ('of b ' || NEW.id)", "of_b"),
    ("BEFORE DELETE ON t WHEN OLD.b = 'keep'", "SELECT RAISE(ABORT, 'kept')", "kept"),
    (
        "AFTER DELETE ON t",
        "UPDATE sums SET total = total - 1 WHERE a = OLD.a; DELETE FROM sums WHERE total = 0; \
         INSERT INTO log (what) VALUES ('d' || OLD.id)",
        "d_t",
    ),
    ("AFTER DELETE ON child", "INSERT INTO log (what) VALUES ('dc' || OLD.id)", "d_c"),
    ("AFTER UPDATE ON child", "INSERT INTO log (what) VALUES ('uc' || OLD.t || '>' || NEW.t)", "u_c"),
    ("BEFORE INSERT ON child WHEN NEW.id % 7 = 0", "SELECT RAISE(ABORT, 'seven')", "kept"),
];

const LIBRARY: &str = r#"#!lua name=oracle
local function sql(...) return redis.call('SQL', ...) end
local function log(what) sql('INSERT INTO log (what) VALUES (?)', what) end
local function less(a)
  sql('UPDATE sums SET total = total - 1 WHERE a = ?', a)
  sql('DELETE FROM sums WHERE total = 0')
end
local function more(a) sql('INSERT INTO sums VALUES (?, 1) ON CONFLICT (a) DO UPDATE SET total = total + 1', a) end
redis.register_function('b_t', function(e) if e.new.a < 0 then error('no') end log('b' .. e.new.id) end)
redis.register_function('i_t', function(e) more(e.new.a) log('i' .. e.new.id .. (e.new.b or '-')) end)
redis.register_function('chain', function(e) sql('INSERT INTO chain (n) VALUES (?)', e.new.n) end)
redis.register_function('chain_on', function(e) sql('INSERT INTO chain (n) VALUES (?)', e.new.n - 1) end)
redis.register_function('move', function(e) less(e.old.a) more(e.new.a) end)
redis.register_function('u_t', function(e) log('u' .. e.old.id .. '>' .. e.new.id .. ':' .. e.new.a) end)
redis.register_function('of_b', function(e) log('of b ' .. e.new.id) end)
redis.register_function('kept', function(e) error('kept') end)
redis.register_function('d_t', function(e) less(e.old.a) log('d' .. e.old.id) end)
redis.register_function('d_c', function(e) log('dc' .. e.old.id) end)
redis.register_function('u_c', function(e) log('uc' .. (e.old.t or '') .. '>' .. (e.new.t or '')) end)
"#;

/// A store and SQLite, with the same tables and triggers.
struct Pair {
    ours: Client,
    oracle: Connection,
}

impl Pair {
    fn new() -> Pair {
        let ours = Client::new();
        assert_eq!(Reply::bulk("oracle"), ours.call(&["FUNCTION", "LOAD", LIBRARY]));
        let oracle = Connection::open_native().unwrap();
        let pair = Pair { ours, oracle };
        for pragma in ["PRAGMA foreign_keys = ON", "PRAGMA recursive_triggers = ON"] {
            pair.ask(pragma).unwrap();
        }
        for table in TABLES {
            pair.ask(table).unwrap();
            assert!(pair.run(table));
        }
        for (number, (fires, body, function)) in ORACLE.iter().enumerate() {
            let fires = format!("CREATE TRIGGER r{number} {fires}");
            pair.ask(&format!("{fires} BEGIN {body}; END")).unwrap();
            assert!(pair.run(&format!("{fires} CALL {function}")), "{fires}");
        }
        pair
    }

    fn run(&self, statement: &str) -> bool {
        match self.ours.call(&["SQL", statement]) {
            Reply::Error(error) => {
                assert!(!error.to_string().starts_with("BUG"), "{statement}: {error}");
                false
            }
            _ => true,
        }
    }

    /// The rows that SQLite gives, or None where it fails.
    fn ask(&self, statement: &str) -> Option<Vec<String>> {
        let mut prepared = self.oracle.prepare(statement, false).unwrap_or_else(|e| panic!("{statement}: {e}"));
        let mut rows = Vec::new();
        loop {
            match prepared.step() {
                Step::Done => return Some(rows),
                Step::Failed(_) => return None,
                Step::Row => {
                    let value = |value: DatumRef<'_>| match value {
                        DatumRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                        other => other.to_string(),
                    };
                    let columns = prepared.column_count();
                    rows.push((0..columns).map(|i| value(prepared.column(i))).collect::<Vec<_>>().join(" "));
                }
            }
        }
    }

    fn ours(&self, query: &str) -> Vec<String> {
        let value = |value: &Reply| match value {
            Reply::Nil => "NULL".into(),
            Reply::Int(number) => number.to_string(),
            Reply::Bulk(text) | Reply::Verbatim(_, text) => String::from_utf8_lossy(text).into_owned(),
            other => panic!("{other:?}"),
        };
        let Reply::Array(rows) = self.ours.call(&["SQL", query]) else { panic!("{query}") };
        let row = |row: &Reply| match row {
            Reply::Array(values) => values.iter().map(value).collect::<Vec<_>>().join(" "),
            other => panic!("{other:?}"),
        };
        rows[1..].iter().map(row).collect()
    }
}

fn statement(random: &mut Xoshiro) -> String {
    let mut below = |n: u64| random.below(n);
    let row = |below: &mut dyn FnMut(u64) -> u64| {
        let b = ["'x'", "'y'", "'keep'", "NULL"][below(4) as usize];
        let a = if below(25) == 0 { -1 } else { below(4) as i64 };
        format!("({}, {a}, {b}, {})", below(12), below(3))
    };
    let (id, other) = (below(12), below(12));
    match below(14) {
        0..3 => format!("INSERT INTO t VALUES {}", row(&mut below)),
        3 => format!("INSERT INTO t VALUES {}, {}", row(&mut below), row(&mut below)),
        4 => format!("INSERT OR IGNORE INTO t VALUES {}, {}", row(&mut below), row(&mut below)),
        5 => format!("REPLACE INTO t VALUES {}", row(&mut below)),
        6 => format!(
            "INSERT INTO t VALUES {} ON CONFLICT (id) DO UPDATE SET a = excluded.a, b = 'z' WHERE t.a < 3",
            row(&mut below)
        ),
        7 => format!("INSERT INTO t (id, a) SELECT id + 20, a FROM t WHERE a = {}", below(4)),
        8 => format!("UPDATE t SET a = {} WHERE id < {id}", below(4)),
        9 => format!("UPDATE t SET b = 'y', a = a + 1 WHERE a = {}", below(4)),
        10 => format!("UPDATE t SET id = {other} WHERE id = {id}"),
        11 => format!("DELETE FROM t WHERE id = {id} OR (id > 20 AND a = {})", below(4)),
        12 => format!("INSERT INTO child VALUES ({}, {id})", below(30)),
        _ => format!("DELETE FROM child WHERE t = {id}"),
    }
}

#[test]
fn triggers_leave_the_tables_that_those_of_sqlite_leave() {
    let rounds = if std::env::var_os("PERYTON_LONG").is_some() { 400 } else { 12 };
    let base: u64 = std::env::var("PERYTON_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let (mut failures, mut successes) = (0, 0);
    for seed in base..base + rounds {
        let (pair, mut random) = (Pair::new(), Xoshiro::from_seed(seed));
        for step in 0..150 {
            let statement = statement(&mut random);
            let is_well = pair.ask(&statement).is_some();
            assert_eq!(is_well, pair.run(&statement), "seed {seed}, step {step}: {statement}");
            *if is_well { &mut successes } else { &mut failures } += 1;
            for query in [
                "SELECT * FROM t ORDER BY id",
                "SELECT * FROM child ORDER BY id",
                "SELECT * FROM sums ORDER BY a",
                "SELECT what FROM log ORDER BY what",
                "SELECT n FROM chain ORDER BY n",
            ] {
                let expected = pair.ask(query).unwrap();
                assert_eq!(expected, pair.ours(query), "seed {seed}, step {step}: {query} after {statement}");
            }
        }
    }
    assert!(failures * 10 > successes, "{failures} of {} statements failed", failures + successes);
}
