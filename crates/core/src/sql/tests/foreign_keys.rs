//! Foreign keys: SQLite's own tables accept, refuse, cascade and hold the same, over random tables and writes.

use super::oracle::Pair;
use super::{TestStore, text_of};
use crate::engine::{Memory, TestEngine};
use crate::env::Xoshiro;
use crate::error::Code;
use crate::keyspace::{Keyspace, Wants};
use crate::reply::Reply;
use crate::table::datum::Datum;
use crate::txn::{Effect, TableChanges, Tables, redo, undo};

fn pick<'a>(random: &mut Xoshiro, choices: &[&'a str]) -> &'a str {
    choices[random.below(choices.len() as u64) as usize]
}

fn actions(random: &mut Xoshiro, choices: &[&str]) -> String {
    let mut text = String::new();
    for event in ["DELETE", "UPDATE"] {
        let action = pick(random, choices);
        if !action.is_empty() {
            text += &format!(" ON {event} {action}");
        }
    }
    text
}

const ACTIONS: [&str; 7] = ["", "NO ACTION", "RESTRICT", "CASCADE", "SET NULL", "SET DEFAULT", "CASCADE"];

/// A parent, a child that refers to it twice and to itself, and a grandchild.
fn tables(random: &mut Xoshiro) -> Vec<String> {
    let parent = pick(random, &["id INT NOT NULL PRIMARY KEY", "id INT NOT NULL UNIQUE"]);
    let ctype = pick(random, &["INT", "INT", "TEXT", "REAL"]);
    let collation = pick(random, &["", "COLLATE NOCASE"]);
    let other = pick(random, &["", "COLLATE NOCASE"]);
    let (first, second) = (actions(random, &ACTIONS), actions(random, &ACTIONS));
    // Whom RESTRICT meets first depends on the order in which rows are deleted.
    let own = actions(random, &["", "CASCADE", "SET NULL"]);
    let third = actions(random, &ACTIONS);
    let null = pick(random, &["", "NOT NULL"]);
    vec![
        format!("CREATE TABLE p ({parent}, x INT, y TEXT {collation}, UNIQUE (x, y)) STRICT"),
        format!(
            "CREATE TABLE c (id INT NOT NULL PRIMARY KEY, p {ctype} {null} DEFAULT 1 REFERENCES p(id) {first}, x INT, y TEXT \
             {other} DEFAULT 'a', own INT REFERENCES c(id) {own}, FOREIGN KEY (y, x) REFERENCES p (y, x) {second}) STRICT"
        ),
        format!(
            "CREATE TABLE g (id INT NOT NULL PRIMARY KEY, c INT DEFAULT 2, CHECK (c <> 7), CONSTRAINT up FOREIGN KEY (c) \
             REFERENCES c (id) {third}) STRICT"
        ),
    ]
}

const INDEXES: [&str; 8] = [
    "CREATE INDEX i1 ON c (p)",
    "CREATE INDEX i2 ON c (p) USING HASH",
    "CREATE INDEX i3 ON c (x, y)",
    "CREATE INDEX i4 ON c (y DESC, x, own)",
    "CREATE INDEX i5 ON c (y, x) USING HASH",
    "CREATE INDEX i6 ON c (own)",
    "CREATE INDEX i7 ON g (c)",
    "CREATE INDEX i8 ON c (y COLLATE BINARY, x)",
];

fn statement(random: &mut Xoshiro) -> String {
    let id = |random: &mut Xoshiro| random.below(9).to_string();
    let maybe = |random: &mut Xoshiro| if random.below(4) == 0 { "NULL".into() } else { random.below(9).to_string() };
    let text = |random: &mut Xoshiro| pick(random, &["'a'", "'A'", "'b'", "NULL"]).to_string();
    let parent = |random: &mut Xoshiro| format!("({}, {}, {})", id(random), maybe(random), text(random));
    let child = |random: &mut Xoshiro| {
        format!("({}, {}, {}, {}, {})", id(random), maybe(random), maybe(random), text(random), maybe(random))
    };
    let word = pick(random, &["INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE", "INSERT"]);
    match random.below(16) {
        0..=2 => format!("{word} INTO p VALUES {}", parent(random)),
        // SQLite forgets to check what a row replaced by OR REPLACE says of its own table.
        3..=5 if word.ends_with("REPLACE") => {
            let (id, p, x, y) = (id(random), maybe(random), maybe(random), text(random));
            format!("{word} INTO c VALUES ({id}, {p}, {x}, {y}, NULL)")
        }
        3..=5 => format!("{word} INTO c VALUES {}", child(random)),
        6 => format!("INSERT INTO c VALUES {}, {}, {}", child(random), child(random), child(random)),
        7 => format!("INSERT INTO c (id, p, x) SELECT id + 3, p, x FROM c WHERE id = {}", id(random)),
        8 | 9 => format!("{word} INTO g VALUES ({}, {})", id(random), maybe(random)),
        10 => format!("UPDATE p SET id = {} WHERE id = {}", id(random), id(random)),
        11 => format!("UPDATE p SET x = {}, y = {} WHERE id = {}", maybe(random), text(random), id(random)),
        12 => {
            let column = pick(random, &["p", "x", "own", "id"]);
            let value = if column == "id" { id(random) } else { maybe(random) };
            format!("UPDATE c SET {column} = {value} WHERE id = {}", id(random))
        }
        13 => format!("DELETE FROM p WHERE id = {}", id(random)),
        14 => format!("DELETE FROM {} WHERE id < {}", pick(random, &["p", "c", "g"]), random.below(4)),
        _ => format!("DELETE FROM c WHERE id = {}", id(random)),
    }
}

fn compare(pair: &mut Pair) {
    for table in ["p", "c", "g"] {
        pair.check(&format!("SELECT * FROM {table}"), &[], false);
    }
}

#[test]
fn rows_refer_and_cascade_as_in_sqlite() {
    let mut refused = 0;
    for seed in 500..580 {
        let mut random = Xoshiro::from_seed(seed);
        let tables = tables(&mut random);
        let mut pair = Pair::new(seed, &[], &[]);
        pair.ours.changes = TableChanges::new(Wants::REDO | Wants::UNDO);
        assert!(pair.ask_theirs("PRAGMA foreign_keys = ON", &[]).is_some());
        tables.iter().for_each(|table| pair.check(table, &[], true));
        for step in 0..120 {
            if step % 30 == 20 {
                let _ = pair.ours.try_run(pick(&mut random, &INDEXES), &[]);
            }
            pair.check(&statement(&mut random), &[], true);
            compare(&mut pair);
        }
        refused += pair.refused;
        let effect = Effect { tables: std::mem::take(&mut pair.ours.changes), ..Effect::default() };
        let mut record = Vec::new();
        redo::encode(&effect, &mut record);
        let (mut keyspace, mut replayed) = (Keyspace::new(1), Tables::new(Box::new(Memory::new())));
        assert!(redo::replay(&record, &mut keyspace, &mut replayed).is_ok());
        assert_eq!(pair.ours.tables.digest().unwrap(), replayed.digest().unwrap(), "seed {seed}");
        assert!(undo::undo(effect, &mut keyspace, &mut pair.ours.tables).is_ok());
        assert_eq!(0, pair.ours.tables.catalog.tables().count());
    }
    assert!(refused > 1000, "hardly anything was refused: {refused}");
}

#[test]
fn writes_on_a_failing_engine_leave_all_or_nothing() {
    for seed in 600..606 {
        let mut random = Xoshiro::from_seed(seed);
        let (mut flaky, mut calm) = (TestStore::on(Box::new(TestEngine::new(seed, 20, 6))), TestStore::new());
        for table in tables(&mut random) {
            calm.run(&table);
            while flaky.try_run(&table, &[]).is_err() {}
        }
        let mut failed = 0;
        for _ in 0..250 {
            let text = statement(&mut random);
            match flaky.try_run(&text, &[]) {
                Ok(reply) => assert_eq!(calm.try_run(&text, &[]).unwrap(), reply, "{text}"),
                Err(error) if error.code == Code::Engine => failed += 1,
                Err(error) => assert_eq!(calm.try_run(&text, &[]).unwrap_err().code, error.code, "{text}: {error}"),
            }
            for table in ["p", "c", "g"] {
                let all = format!("SELECT * FROM {table} ORDER BY id");
                let rows = loop {
                    if let Ok(reply) = flaky.try_run(&all, &[]) {
                        break reply;
                    }
                };
                assert_eq!(calm.run(&all), rows, "{text}");
            }
        }
        assert!(failed > 0, "the engine never failed");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let mut store = TestStore::with(&[
        "CREATE TABLE p (id INT PRIMARY KEY, a INT, b TEXT, UNIQUE (a, b))",
        "CREATE TABLE c (id INT PRIMARY KEY, p INT REFERENCES p, a INT, b TEXT, FOREIGN KEY (a, b) REFERENCES p (a, b))",
        "CREATE TABLE early (id INT PRIMARY KEY, later INT REFERENCES later (x))",
        "CREATE TABLE loose (id INT PRIMARY KEY, e INT REFERENCES early ON DELETE RESTRICT)",
        "INSERT INTO p VALUES (1, 1, 'x')",
        "INSERT INTO c VALUES (1, 1, 1, 'x')",
        "INSERT INTO early VALUES (1, NULL)",
        "INSERT INTO loose VALUES (1, 1)",
    ]);
    let failed = "CONSTRAINT FOREIGN KEY constraint failed: ";
    for (text, message) in [
        ("INSERT INTO c VALUES (2, 5, NULL, NULL)", format!("{failed}c.p = 5 would refer to no row of p")),
        ("UPDATE c SET b = 'y'", format!("{failed}(c.a, c.b) = (1, 'y') would refer to no row of p")),
        ("DELETE FROM p", format!("{failed}c.p = 1 would refer to no row of p")),
        ("DELETE FROM early", format!("{failed}loose.e = 1 would refer to no row of early")),
        ("INSERT INTO early VALUES (2, 7)", "no such table: later, to which table early refers".into()),
        ("DROP TABLE p", "CONSTRAINT table p cannot be dropped: rows of table c refer to it".into()),
        ("CREATE TABLE u (a INT REFERENCES p (b))", "neither PRIMARY KEY nor UNIQUE".into()),
        ("CREATE TABLE u (a INT REFERENCES p (z))", "which has no column z".into()),
        ("CREATE TABLE u (a INT, FOREIGN KEY (z) REFERENCES p)", "unknown column z in a foreign key of table u".into()),
        ("CREATE TABLE u (a INT, b INT, FOREIGN KEY (a, b) REFERENCES p)", "2 columns to 1".into()),
    ] {
        let error = store.error(text);
        assert!(error.contains(&message), "{text}: {error}");
    }
    // The parent comes later, first without the key, then with it.
    store.run("CREATE TABLE later (x INT)");
    assert!(store.error("INSERT INTO early VALUES (2, 7)").contains("neither PRIMARY KEY nor UNIQUE"));
    store.run("CREATE UNIQUE INDEX later_x ON later (x)");
    assert!(store.error("INSERT INTO early VALUES (2, 7)").contains("early.later = 7"));
    store.run("INSERT INTO later VALUES (7)");
    store.run("INSERT INTO early VALUES (2, 7)");
    store.run("ALTER TABLE later RENAME TO now");
    assert!(store.error("DELETE FROM now").contains("would refer to no row of now"));
    assert!(text_of(&store.rows("SHOW CREATE TABLE early", &[])[0][1]).contains("REFERENCES now (x)"));
    // Both at once may go.
    store.run("DROP TABLE c, p");
    store.run("DROP TABLE loose");
    store.run("DROP TABLE early");
}

#[test]
fn a_statement_may_set_right_what_it_breaks() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (id INT PRIMARY KEY, up INT REFERENCES t)",
        "INSERT INTO t VALUES (1, 3), (2, 1), (3, 3)",
    ]);
    assert!(store.error("DELETE FROM t WHERE id = 3").contains("FOREIGN KEY"));
    assert_eq!(Reply::Int(3), store.run("DELETE FROM t"));
    store.run("INSERT INTO t VALUES (1, 1)");
    // Replacing a row takes it out and puts it back.
    store.run("REPLACE INTO t VALUES (1, 1)");
    store.run("INSERT INTO t VALUES (1, 1) ON CONFLICT DO UPDATE SET up = NULL");
    store.run("DROP TABLE t");
}

#[test]
fn long_chains_cascade_and_endless_ones_end() {
    let mut store = TestStore::with(&["CREATE TABLE t (id INT PRIMARY KEY, up INT REFERENCES t ON DELETE CASCADE)"]);
    store.run("CREATE INDEX ups ON t (up)");
    store.run("INSERT INTO t VALUES (0, NULL)");
    for i in 1..900 {
        store.run(&format!("INSERT INTO t VALUES ({i}, {})", i - 1));
    }
    // What cascades is not counted, as in SQLite.
    assert_eq!(Reply::Int(1), store.run("DELETE FROM t WHERE id = 0"));
    assert_eq!(0, store.count("t"));
    store.run("INSERT INTO t VALUES (0, NULL)");
    for i in 1..1200 {
        store.run(&format!("INSERT INTO t VALUES ({i}, {})", i - 1));
    }
    assert!(store.error("DELETE FROM t WHERE id = 0").contains("LIMIT foreign keys cascade deeper than 1000"));
    assert_eq!(1200, store.count("t"));
    let rows = store.rows("DELETE FROM t WHERE id = 1199 RETURNING id", &[]);
    assert_eq!(vec![vec![Datum::Int(1199)]], rows);
}
