//! Tables with `WITH (max_rows = ..)`: which rows go, what is refused, and that the rest of SQL goes on as ever.

use super::{TestStore, text_of};
use crate::engine::Memory;
use crate::env::Xoshiro;
use crate::keyspace::{Keyspace, Wants};
use crate::reply::Reply;
use crate::table::datum::Datum;
use crate::txn::{Effect, TableChanges, Tables, redo, undo};
use std::collections::{BTreeSet, VecDeque};

fn store(options: &str) -> TestStore {
    TestStore::with(&[&format!("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT) WITH ({options})")])
}

fn ids(store: &mut TestStore) -> Vec<i64> {
    let rows = store.rows("SELECT id FROM t ORDER BY id", &[]);
    rows.iter().map(|row| if let Datum::Int(id) = row[0] { id } else { panic!("{row:?}") }).collect()
}

fn insert(store: &mut TestStore, id: u64) {
    store.try_run("INSERT INTO t VALUES (?, 1, 'x')", &[Datum::Int(id as i64)]).unwrap();
}

fn read(store: &mut TestStore, id: u64) -> bool {
    store.rows("SELECT a FROM t WHERE id = ?", &[Datum::Int(id as i64)]).len() == 1
}

#[test]
fn fifo_is_a_queue() {
    for seed in 1..=8 {
        let mut random = Xoshiro::from_seed(seed);
        let mut store = store("max_rows = 20, evict = fifo");
        store.sql.set_fast_path(seed % 2 == 0);
        let mut queue: VecDeque<u64> = VecDeque::new();
        for step in 0..3000 {
            let id = random.below(60);
            match random.below(6) {
                0..=2 if !queue.contains(&id) => {
                    insert(&mut store, id);
                    queue.push_back(id);
                }
                // A row that replaces another one is new; one that is changed is not.
                3 => {
                    store.run(&format!("REPLACE INTO t VALUES ({id}, 2, 'y')"));
                    queue.retain(|other| *other != id);
                    queue.push_back(id);
                }
                4 => {
                    store.run(&format!("UPDATE t SET a = a + 1 WHERE id = {id}"));
                    read(&mut store, id);
                }
                5 => {
                    store.run(&format!("DELETE FROM t WHERE id = {id}"));
                    queue.retain(|other| *other != id);
                }
                _ => {}
            }
            if queue.len() > 20 {
                queue.pop_front();
            }
            let expected: BTreeSet<i64> = queue.iter().map(|id| *id as i64).collect();
            assert_eq!(Vec::from_iter(expected), ids(&mut store), "seed {seed}, step {step}");
        }
    }
}

/// Hits of a cache of rows under a sequence of look-ups.
fn hits(options: &str, uses: &[u64]) -> usize {
    let mut store = store(options);
    let mut hits = 0;
    for id in uses {
        match read(&mut store, *id) {
            true => hits += 1,
            false => insert(&mut store, *id),
        }
    }
    hits
}

#[test]
fn lru_keeps_what_is_read() {
    for seed in 1..=4 {
        let mut random = Xoshiro::from_seed(seed);
        let uses: Vec<u64> =
            (0..20_000).map(|_| random.below(600).min(random.below(600)).min(random.below(600))).collect();
        let (mut order, mut exact) = (VecDeque::new(), 0);
        for id in &uses {
            let place = order.iter().position(|other| other == id);
            exact += usize::from(place.and_then(|place| order.remove(place)).is_some());
            order.push_back(*id);
            if order.len() > 100 {
                order.pop_front();
            }
        }
        let (lru, fifo) = (hits("max_rows = 100, evict = lru", &uses), hits("max_rows = 100, evict = fifo", &uses));
        assert!(exact > fifo, "seed {seed}: the uses tell nothing: {exact} and {fifo}");
        // Nearer to the exact order than to none.
        assert!(2 * lru > exact + fifo, "seed {seed}: exact {exact}, lru {lru}, fifo {fifo}");
    }
}

#[test]
fn what_marks_a_row_as_used() {
    for (mark, keeps) in [
        ("SELECT a FROM t WHERE id = 1", true),
        ("SELECT a + 1 FROM t WHERE id = 1 AND a > 0", true),
        ("SELECT * FROM t WHERE id IN (1, 99)", true),
        ("SELECT x.a FROM (SELECT 1 AS one) o JOIN t x ON x.id = o.one", true),
        ("UPDATE t SET a = 5 WHERE id = 1", true),
        ("INSERT INTO t VALUES (1, 1, 'x') ON CONFLICT DO UPDATE SET a = 7", true),
        ("SELECT count(b) FROM t", false),
        ("SELECT * FROM t WHERE a = 1", false),
        ("SELECT * FROM t ORDER BY id", false),
    ] {
        let mut store = store("max_rows = 10, evict = lru");
        (1..=10).for_each(|id| insert(&mut store, id));
        store.run(mark);
        insert(&mut store, 100);
        assert_eq!(keeps, ids(&mut store).contains(&1), "{mark}");
    }
}

#[test]
fn a_full_table_refuses_new_rows_and_no_others() {
    let mut store = store("max_rows = 3");
    store.run("CREATE UNIQUE INDEX u ON t (a)");
    store.run("INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'x'), (3, 3, 'x')");
    for statement in [
        "INSERT INTO t VALUES (4, 4, 'x')",
        "INSERT OR IGNORE INTO t VALUES (4, 4, 'x')",
        "INSERT INTO t SELECT id + 10, a + 10, b FROM t",
        "REPLACE INTO t VALUES (3, 3, 'y'), (4, 4, 'x')",
        "INSERT INTO t VALUES (4, 4, 'x') RETURNING id",
    ] {
        for fast in [true, false] {
            store.sql.set_fast_path(fast);
            let dirty = store.changes.dirty;
            assert_eq!("LIMIT table t is full: max_rows = 3", store.error(statement), "{statement}");
            assert_eq!(dirty, store.changes.dirty, "{statement}");
            assert_eq!(vec![1, 2, 3], ids(&mut store), "{statement}");
        }
    }
    store.run("REPLACE INTO t VALUES (3, 3, 'y')");
    store.run("INSERT INTO t VALUES (1, 9, 'z') ON CONFLICT DO UPDATE SET b = 'z'");
    assert_eq!(Reply::Int(0), store.run("INSERT OR IGNORE INTO t VALUES (1, 9, 'z')"));
    store.run("UPDATE t SET id = id + 1");
    store.run("DELETE FROM t WHERE id = 2");
    store.run("INSERT INTO t VALUES (9, 9, 'x')");
    assert_eq!(vec![3, 4, 9], ids(&mut store));
}

#[test]
fn a_statement_of_many_rows_keeps_the_last() {
    let mut store = store("max_rows = 5, evict = fifo");
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) SELECT i, i, 'x' FROM n";
    assert_eq!(Reply::Int(3000), store.run(&format!("INSERT INTO t {many}")));
    assert_eq!(vec![2996, 2997, 2998, 2999, 3000], ids(&mut store));
    let values: Vec<String> = (1..=50).map(|id| format!("({id}, 1, 'y')")).collect();
    let returned = store.rows(&format!("INSERT INTO t VALUES {} RETURNING id", values.join(", ")), &[]);
    assert_eq!((50, vec![46, 47, 48, 49, 50]), (returned.len(), ids(&mut store)));
    // Its own rows go while it reads them.
    assert_eq!(Reply::Int(5), store.run("INSERT INTO t SELECT id + 100, a, b FROM t"));
    assert_eq!(vec![146, 147, 148, 149, 150], ids(&mut store));
    // One that fails leaves all.
    store.error("INSERT INTO t VALUES (1, 1, 'x'), (2, 1, 'x'), (3, 1, 'x'), (1, 1, 'again')");
    assert_eq!(vec![146, 147, 148, 149, 150], ids(&mut store));
}

#[test]
fn a_transaction_is_bounded_at_its_commit() {
    let mut store = store("max_rows = 4, evict = fifo");
    (1..=4).for_each(|id| insert(&mut store, id));
    store.run("BEGIN");
    (5..=7).for_each(|id| insert(&mut store, id));
    store.run("UPDATE t SET a = 9 WHERE id IN (1, 4)");
    store.run("DELETE FROM t WHERE id = 2");
    assert_eq!(vec![1, 3, 4, 5, 6, 7], ids(&mut store));
    store.run("COMMIT");
    assert_eq!(vec![4, 5, 6, 7], ids(&mut store));
    let mut full = TestStore::with(&["CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT) WITH (max_rows = 1)"]);
    full.run("BEGIN");
    (1..=2).for_each(|id| insert(&mut full, id));
    assert_eq!("LIMIT table t is full: max_rows = 1", full.error("COMMIT"));
    assert_eq!(0, full.count("t"));
}

#[test]
fn a_bound_is_set_changed_shown_and_taken_away() {
    let mut store = store("max_rows = 10, evict = lru");
    let shown = |store: &mut TestStore| text_of(&store.rows("SHOW CREATE TABLE t", &[])[0][1]);
    assert!(shown(&mut store).ends_with(") WITH (max_rows = 10, evict = lru)"), "{}", shown(&mut store));
    let statement = "SELECT create_statement LIKE '%WITH (max_rows = 10, evict = lru)%' FROM information_schema.tables";
    assert_eq!(Datum::Int(1), store.rows(statement, &[])[0][0]);
    // What is shown makes the table again.
    let again = shown(&mut store);
    store.run("DROP TABLE t");
    store.run(&again);
    assert_eq!(again, shown(&mut store));
    (1..=20).for_each(|id| insert(&mut store, id));
    assert_eq!(10, store.count("t"));
    // Rows go with the next one that comes.
    store.run("ALTER TABLE t SET (max_rows = 3, evict = fifo)");
    assert_eq!(10, store.count("t"));
    insert(&mut store, 21);
    assert_eq!(vec![19, 20, 21], ids(&mut store));
    store.run("ALTER TABLE t SET (evict = none)");
    assert_eq!("LIMIT table t is full: max_rows = 3", store.error("INSERT INTO t VALUES (22, 1, 'x')"));
    store.run("ALTER TABLE t SET (max_rows = none)");
    (22..=30).for_each(|id| insert(&mut store, id));
    assert!(!shown(&mut store).contains("WITH"));
    // Rows from before the bound are the oldest, in the order of their places.
    store.run("ALTER TABLE t SET (max_rows = 12, evict = lru)");
    insert(&mut store, 31);
    assert_eq!((12, true), (store.count("t"), ids(&mut store).contains(&31)));
    store.run("CREATE TABLE c WITH (max_rows = 4, evict = fifo) AS SELECT * FROM t ORDER BY id");
    assert_eq!(4, store.count("c"));
    for (wrong, why) in [
        ("CREATE TABLE x (a INT) WITH (evict = lru)", "evict needs max_rows"),
        ("CREATE TABLE x (a INT) WITH (max_rows = 0)", "a number of rows"),
        ("CREATE TABLE x (a INT) WITH (max_rows = 'x')", "a number of rows"),
        ("CREATE TABLE x (a INT) WITH (max_rows = 5, evict = newest)", "lru, fifo or none"),
        ("CREATE TABLE x (a INT) WITH (rows = 5)", "max_rows or evict"),
        ("ALTER TABLE c SET (max_rows = none, evict = lru)", "evict needs max_rows"),
    ] {
        let error = store.error(wrong);
        assert!(error.contains(why), "{wrong}: {error}");
    }
}

#[test]
fn nobody_refers_to_rows_that_go_by_themselves() {
    let mut store = store("max_rows = 10, evict = lru");
    let why = "whose rows go by themselves";
    let refused = |store: &mut TestStore, statement: &str| {
        let error = store.error(statement);
        assert!(error.contains(why), "{statement}: {error}");
    };
    refused(&mut store, "CREATE TABLE child (a INTEGER REFERENCES t)");
    refused(
        &mut store,
        "CREATE TABLE s (a INTEGER PRIMARY KEY, b INTEGER REFERENCES s) WITH (max_rows = 9, evict = lru)",
    );
    store.run("CREATE TABLE orphan (a INTEGER REFERENCES later)");
    refused(&mut store, "CREATE TABLE later (a INTEGER PRIMARY KEY) WITH (max_rows = 9, evict = lru)");
    refused(&mut store, "RENAME TABLE t TO later");
    store.run("CREATE TABLE later (a INTEGER PRIMARY KEY) WITH (max_rows = 9)");
    refused(&mut store, "ALTER TABLE later SET (evict = fifo)");
    // It may refer to others itself.
    store.run("CREATE TABLE cache (a INTEGER REFERENCES later) WITH (max_rows = 2, evict = fifo)");
    store.run("INSERT INTO later VALUES (1), (2), (3)");
    store.run("INSERT INTO cache VALUES (1), (2), (3)");
    assert!(store.error("INSERT INTO cache VALUES (7)").contains("FOREIGN KEY"));
    assert!(store.error("DELETE FROM later WHERE a = 3").contains("FOREIGN KEY"));
    store.run("DELETE FROM later WHERE a = 1");
}

#[test]
fn what_went_is_logged_and_comes_back_when_undone() {
    for seed in 1..=6 {
        let mut random = Xoshiro::from_seed(seed);
        let mut store = TestStore::new();
        store.changes = TableChanges::new(Wants::REDO | Wants::UNDO);
        store.run("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT) WITH (max_rows = 15, evict = lru)");
        store.run("CREATE INDEX t_a ON t (a)");
        for step in 0..400 {
            let (id, other) = (random.below(40), random.below(40));
            let statement = match random.below(7) {
                0 | 1 => format!("INSERT OR IGNORE INTO t VALUES ({id}, {step}, 'x'), ({other}, {step}, 'y')"),
                2 => format!("REPLACE INTO t VALUES ({id}, {step}, 'z')"),
                3 => format!(
                    "INSERT INTO t VALUES ({}, 1, 'once'), ({other}, 1, 'perhaps'), ({other}, 2, 'twice')",
                    id + 100
                ),
                4 => format!("UPDATE t SET a = a + 1 WHERE id = {id}"),
                5 => format!("DELETE FROM t WHERE id = {id}"),
                _ => format!("SELECT * FROM t WHERE id = {id}"),
            };
            let before = store.tables.digest().unwrap();
            if store.try_run(&statement, &[]).is_err() {
                assert_eq!(before, store.tables.digest().unwrap(), "seed {seed}: {statement}");
            }
            assert!(store.count("t") <= 15);
        }
        let effect = Effect { tables: std::mem::take(&mut store.changes), ..Effect::default() };
        let mut record = Vec::new();
        redo::encode(&effect, &mut record);
        let (mut keyspace, mut tables) = (Keyspace::new(1), Tables::new(Box::new(Memory::new())));
        assert!(redo::replay(&record, &mut keyspace, &mut tables).is_ok());
        assert_eq!(store.tables.digest().unwrap(), tables.digest().unwrap(), "seed {seed}");
        assert!(undo::undo(effect, &mut keyspace, &mut store.tables).is_ok());
        assert_eq!(0, store.tables.catalog.tables().count());
    }
}
