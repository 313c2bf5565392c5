//! What statements do and say, one behaviour each.

use super::{TestStore, rows_of};
use crate::env::Xoshiro;
use crate::reply::Reply;
use crate::table::datum::Datum;

fn ints(rows: Vec<Vec<Datum>>) -> Vec<Vec<i64>> {
    let int = |value: &Datum| match value {
        Datum::Int(i) => *i,
        other => panic!("{other:?}"),
    };
    rows.iter().map(|row| row.iter().map(int).collect()).collect()
}

#[test]
fn a_table_is_made_filled_and_read() {
    let mut store = TestStore::new();
    assert_eq!(Reply::Int(0), store.run("CREATE TABLE t (id INT PRIMARY KEY, name TEXT, x REAL, b BLOB)"));
    assert_eq!(Reply::Int(2), store.run("INSERT INTO t VALUES (1, 'one', 1.5, x'00'), (2, 'two', 2, NULL)"));
    let reply = store.run("SELECT * FROM t WHERE id = 1");
    let Reply::Array(rows) = &reply else { panic!() };
    assert_eq!(Reply::bulks(["id", "name", "x", "b"]), rows[0]);
    let expected = vec![Datum::Int(1), Datum::text("one"), Datum::Real(1.5), Datum::blob([0])];
    assert_eq!(vec![expected], rows_of(reply));
    assert_eq!(Reply::Int(1), store.run("UPDATE t SET name = 'zwei', x = x * 2 WHERE id = 2"));
    let row = store.rows("SELECT name, x FROM t WHERE id = ?", &[Datum::Int(2)]);
    assert_eq!(vec![vec![Datum::text("zwei"), Datum::Real(4.0)]], row);
    assert_eq!(Reply::Int(1), store.run("DELETE FROM t WHERE id = 1"));
    assert_eq!(1, store.count("t"));
}

#[test]
fn defaults_and_numbers_fill_the_gaps() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a INT DEFAULT 7, b TEXT DEFAULT 'x', c TEXT DEFAULT (lower('UP')), d INT)",
        "INSERT INTO t (d) VALUES (1)",
        "INSERT INTO t DEFAULT VALUES",
        "INSERT INTO t (id, a) VALUES (10, NULL)",
        "INSERT INTO t (b) SELECT 'y'",
        "INSERT INTO t VALUES (NULL, 1, 'z', 'q', 2)",
    ]);
    let text = Datum::text;
    let rows = store.rows("SELECT * FROM t ORDER BY id", &[]);
    let expected = vec![
        vec![Datum::Int(1), Datum::Int(7), text("x"), text("up"), Datum::Int(1)],
        vec![Datum::Int(2), Datum::Int(7), text("x"), text("up"), Datum::Null],
        vec![Datum::Int(10), Datum::Null, text("x"), text("up"), Datum::Null],
        vec![Datum::Int(11), Datum::Int(7), text("y"), text("up"), Datum::Null],
        vec![Datum::Int(12), Datum::Int(1), text("z"), text("q"), Datum::Int(2)],
    ];
    assert_eq!(expected, rows);
}

#[test]
fn a_failed_statement_gives_no_numbers_away() {
    for fast in [true, false] {
        let mut store = TestStore::with(&["CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a INT UNIQUE)"]);
        store.sql.set_fast_path(fast);
        store.run("INSERT INTO t (a) VALUES (1), (2)");
        for text in [
            "INSERT INTO t (a) VALUES (2)",
            "INSERT INTO t (a) VALUES (3), (4), (1)",
            "INSERT INTO t (id, a) VALUES (90, 3), (NULL, 1)",
            "INSERT INTO t (a) SELECT a + 1 FROM t ORDER BY a DESC",
            "UPDATE t SET id = id + 70, a = 5",
        ] {
            store.error(text);
        }
        store.run("INSERT OR IGNORE INTO t (a) VALUES (1), (3), (2)");
        store.run("INSERT INTO t (id, a) VALUES (NULL, 5), (10, 6), (NULL, 7)");
        let expected = vec![vec![1, 1], vec![2, 2], vec![4, 3], vec![5, 5], vec![10, 6], vec![11, 7]];
        assert_eq!(expected, ints(store.rows("SELECT * FROM t ORDER BY id", &[])), "fast: {fast}");
    }
}

#[test]
fn defaults_stand_alone() {
    let mut store = TestStore::with(&["CREATE TABLE other (a INT)"]);
    for (default, what) in [
        ("(CASE WHEN random() % 2 = 0 THEN (SELECT count(*) FROM keys) ELSE 0 END)", "a default cannot query"),
        ("(1 IN keys)", "a default cannot query"),
        ("(1 IN json_each('[1]'))", "a default cannot query"),
        ("(EXISTS (WITH x AS (VALUES (1)) SELECT * FROM x))", "a default cannot query"),
        ("abs((SELECT a FROM other))", "a default cannot query"),
        ("(1 + ?)", "a default cannot have parameters"),
    ] {
        let error = store.error(&format!("CREATE TABLE t (id INT PRIMARY KEY, a INT DEFAULT {default})"));
        assert!(error.contains(what), "{default}: {error}");
    }
    // A long expression, in which SQLite asks for the time while a callback has the run, is no trouble.
    let long = vec!["abs(1)"; 400].join(" + ");
    store.run(&format!("CREATE TABLE t (id INT PRIMARY KEY, a INT DEFAULT ({long}), b TEXT DEFAULT ('SELECT' || 1))"));
    for path in [true, false] {
        store.sql.set_fast_path(path);
        store.run(&format!("INSERT INTO t (id) VALUES ({})", i32::from(path)));
    }
    let row = |id| vec![Datum::Int(id), Datum::Int(400), Datum::text("SELECT1")];
    assert_eq!(vec![row(0), row(1)], store.rows("SELECT * FROM t ORDER BY id", &[]));
}

#[test]
fn constraints_are_kept_and_named() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (a INT, b TEXT NOT NULL, c VARCHAR(3), PRIMARY KEY (a, b), UNIQUE (c))",
        "INSERT INTO t VALUES (1, 'x', 'abc')",
    ]);
    for (text, message) in [
        ("INSERT INTO t VALUES (1, 'x', 'd')", "CONSTRAINT UNIQUE constraint failed: t.a, t.b: (1, 'x') exists"),
        ("INSERT INTO t VALUES (2, 'x', 'abc')", "CONSTRAINT UNIQUE constraint failed: t.c: 'abc' exists"),
        ("INSERT INTO t VALUES (2, NULL, 'd')", "CONSTRAINT NOT NULL constraint failed: t.b"),
        ("INSERT INTO t (b) VALUES ('x')", "CONSTRAINT NOT NULL constraint failed: t.a"),
        ("INSERT INTO t VALUES (2, 'x', 'long')", "the text is too long"),
        ("INSERT INTO t VALUES ('no', 'x', 'd')", "cannot store TEXT 'no' in INT"),
        ("UPDATE t SET a = 1.5", "cannot store REAL 1.5"),
        ("UPDATE t SET b = NULL", "NOT NULL constraint failed: t.b"),
    ] {
        let error = store.error(text);
        assert!(error.contains(message), "{text}: {error}");
    }
    assert_eq!(1, store.count("t"));
}

#[test]
fn a_statement_that_fails_leaves_nothing() {
    let mut store = TestStore::with(&["CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (3)"]);
    let before = store.changes.list.len();
    store.error("INSERT INTO t VALUES (1), (2), (3), (4)");
    store.error("UPDATE t SET a = a / 0 + NULL");
    store.error("INSERT INTO t SELECT a + 1 FROM t UNION ALL SELECT 3");
    assert_eq!(before, store.changes.list.len());
    assert_eq!(vec![vec![3]], ints(store.rows("SELECT a FROM t", &[])));
    store.run("INSERT OR ROLLBACK INTO t VALUES (5)");
    store.error("INSERT OR ROLLBACK INTO t VALUES (6), (5)");
    // FAIL would keep 6.
    store.error("INSERT OR FAIL INTO t VALUES (6), (5)");
    assert_eq!(2, store.count("t"));
}

#[test]
fn conflicts_are_ignored_or_replaced_on_demand() {
    let mut store =
        TestStore::with(&["CREATE TABLE t (a INT PRIMARY KEY, b INT UNIQUE)", "INSERT INTO t VALUES (1, 10), (2, 20)"]);
    assert_eq!(Reply::Int(1), store.run("INSERT OR IGNORE INTO t VALUES (1, 11), (3, 30), (4, 20), (NULL, 5)"));
    assert_eq!(Reply::Int(1), store.run("REPLACE INTO t VALUES (1, 20)"));
    assert_eq!(vec![vec![1, 20], vec![3, 30]], ints(store.rows("SELECT * FROM t ORDER BY a", &[])));
    store.run("UPDATE OR REPLACE t SET b = 30 WHERE a = 1");
    assert_eq!(vec![vec![1, 30]], ints(store.rows("SELECT * FROM t ORDER BY a", &[])));
    store.run("INSERT INTO t VALUES (2, 2)");
    assert_eq!(Reply::Int(0), store.run("UPDATE OR IGNORE t SET b = 30 WHERE a = 2"));
}

#[test]
fn an_update_of_the_key_it_walks_sees_each_row_once() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (a INT PRIMARY KEY USING BTREE)",
        "INSERT INTO t VALUES (1), (2), (3), (1000)",
    ]);
    assert_eq!(Reply::Int(3), store.run("UPDATE t SET a = a + 100 WHERE a < 500"));
    assert_eq!(Reply::Int(4), store.run("INSERT INTO t SELECT a + 1000 FROM t"));
    assert_eq!(Reply::Int(8), store.run("DELETE FROM t WHERE a > 0"));
}

#[test]
fn explain_names_the_access_path() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, s TEXT)",
        "CREATE INDEX i ON t (a, b)",
        "CREATE TABLE u (id INT PRIMARY KEY USING BTREE, x INT)",
    ]);
    for i in 0..200 {
        store.run(&format!("INSERT INTO t VALUES ({i}, {}, {i}, 's{i}')", i % 10));
        store.run(&format!("INSERT INTO u VALUES ({i}, {})", i % 7));
    }
    for (text, plan) in [
        ("SELECT * FROM t WHERE id = 5", "hash look-up in PRIMARY of t by id"),
        ("SELECT * FROM t WHERE id IN (1, 2, 3)", "hash look-up in PRIMARY of t by id, one batch for the list"),
        ("SELECT * FROM t WHERE a = 5", "range of index i of t: a = ?"),
        ("SELECT * FROM t WHERE a = 5 AND b > 7 AND b <= 90", "range of index i of t: a = ? and b > ? and b <= ?"),
        ("SELECT * FROM t WHERE a = 5 AND b = 7", "key look-up in i of t by a, b"),
        ("SELECT * FROM t ORDER BY a DESC, b DESC", "whole index i of t in its order, backward"),
        ("SELECT max(a) + 1 FROM t", "whole index i of t in its order, backward, index only"),
        ("SELECT * FROM t WHERE s = 'x'", "full scan of t"),
        ("SELECT * FROM t WHERE id > 5", "full scan of t"),
        ("SELECT * FROM u WHERE id > 190", "range of index PRIMARY of u: id > ?"),
        ("SELECT * FROM t ORDER BY s", "full scan of t\nsort for ORDER BY"),
        ("SELECT * FROM u JOIN t ON t.id = u.x", "full scan of u\nhash look-up in PRIMARY of t by id"),
        (
            "SELECT * FROM u AS v JOIN t ON t.id = v.x WHERE v.id = 1",
            "v: key look-up in PRIMARY of u by id\nhash look-up in PRIMARY of t by id",
        ),
        ("SELECT 1", "one row of constants"),
        (
            "SELECT count(*), max(a) FROM t",
            "number of rows of t, as it is kept\nfirst entry: whole index i of t in its order, backward",
        ),
        ("SELECT count(*) AS n FROM t WHERE a = 5 AND b > 7", "count by range of index i of t: a = ? and b > ?"),
        ("SELECT min(b) FROM t WHERE a = ?", "first entry: range of index i of t: a = ? and b is not NULL"),
        ("UPDATE t SET a = 1 WHERE id = 5", "hash look-up in PRIMARY of t by id"),
        ("INSERT INTO u VALUES (1000, 2), (1001, 3)", "values into u"),
    ] {
        assert_eq!(plan, store.plan(text), "{text}");
    }
}

#[test]
fn errors_name_what_and_where() {
    let mut store = TestStore::with(&["CREATE TABLE t (a INT)"]);
    for (text, message) in [
        ("SELECT * FROM missing", "SQL no such table: missing"),
        ("SELECT a, nope FROM t", "SQL no such column: nope at position 11"),
        ("SELECT FROM t", "near \"FROM\": syntax error at position 8"),
        ("INSERT INTO t (a, z) VALUES (1, 2)", "table t has no column named z"),
        ("SELECT \"a\", \"text\" FROM t", "no such column: \"text\""),
        ("SELECT * FROM t WHERE rowid = 'x' AND zz(1)", "no such function: zz"),
        ("SELECT * FROM sqlite_nope", "no such table"),
        ("DROP TABLE missing", "no such table: missing"),
        ("CREATE TABLE t (b INT)", "table t already exists"),
        ("CREATE TABLE sqlite_x (b INT)", "Peryton's own"),
        ("CREATE TABLE zset (b INT)", "Peryton's own"),
        ("CREATE TABLE u (b INT DEFAULT 'x')", "cannot store TEXT 'x' in INTEGER column u.b"),
        ("CREATE TABLE u (b INT DEFAULT (nope(1)))", "DEFAULT of u.b: no such function: nope"),
        ("CREATE TABLE u (b INT, b TEXT)", "duplicate column name: u.b"),
        ("CREATE TABLE u (b INT PRIMARY KEY, PRIMARY KEY (b))", "more than one primary key"),
        ("CREATE TABLE u (b TEXT AUTO_INCREMENT)", "is not an INTEGER"),
        ("CREATE INDEX i ON t (z)", "no column named z"),
        ("WITH x AS (SELECT 1) SELECT * FROM pragma_table_list", "not authorized"),
        ("INSERT INTO t(rowid, a) VALUES (5, 5)", "a row id cannot be chosen"),
        ("SELECT ?", "the statement has 1 parameters, 0 given"),
    ] {
        let error = store.error(text);
        assert!(error.contains(message), "{text}: {error}");
    }
    assert!(store.try_run("SELECT 1", &[Datum::Int(1)]).unwrap_err().message.contains("0 parameters, 1 given"));
}

#[test]
fn definitions_change_what_cached_statements_see() {
    let mut store = TestStore::with(&["CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1)"]);
    assert_eq!(vec![vec![1]], ints(store.rows("SELECT * FROM t", &[])));
    store.run("DROP TABLE t");
    store.error("SELECT * FROM t");
    store.run("CREATE TABLE t (a INT, b INT)");
    store.run("INSERT INTO t VALUES (1, 2)");
    assert_eq!(vec![vec![1, 2]], ints(store.rows("SELECT * FROM t", &[])));
    assert_eq!("full scan of t", store.plan("SELECT * FROM t WHERE b = 2"));
    store.run("CREATE INDEX i ON t (b) USING HASH");
    assert_eq!("hash look-up in i of t by b", store.plan("SELECT * FROM t WHERE b = 2"));
    assert!(store.error("CREATE UNIQUE INDEX i ON t (a)").contains("index i already exists"));
    store.run("CREATE UNIQUE INDEX IF NOT EXISTS i ON t (a)");
    store.run("DROP INDEX i");
    assert_eq!("full scan of t", store.plan("SELECT * FROM t WHERE b = 2"));
    store.run("INSERT INTO t VALUES (5, 2)");
    assert!(store.error("CREATE UNIQUE INDEX j ON t (b)").contains("CONSTRAINT"));
    assert!(store.rows("SHOW INDEXES FROM t", &[]).is_empty());
}

#[test]
fn types_meet_as_in_sqlite() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (i INT PRIMARY KEY, s TEXT UNIQUE)",
        "CREATE TABLE n (x INT)",
        "INSERT INTO t VALUES (5, '5'), (6, '05'), (7, 'x')",
        "INSERT INTO n VALUES (5)",
    ]);
    let mut ids = |text: &str, params: &[Datum]| ints(store.rows(text, params));
    assert_eq!(vec![vec![5]], ids("SELECT i FROM t WHERE i = '5'", &[]));
    assert_eq!(vec![vec![5]], ids("SELECT i FROM t WHERE i = ?", &[Datum::text(" 5.0 ")]));
    assert_eq!(vec![vec![5]], ids("SELECT i FROM t WHERE s = 5", &[]));
    assert_eq!(vec![vec![5]], ids("SELECT i FROM t WHERE s = ?", &[Datum::Int(5)]));
    // A column of numbers makes numbers of the other side's texts: '05' is 5 then.
    assert_eq!(vec![vec![5], vec![6]], ids("SELECT i FROM n JOIN t ON t.s = n.x ORDER BY i", &[]));
    assert_eq!(vec![vec![5], vec![6]], ids("SELECT i FROM t WHERE s IN (SELECT x FROM n) ORDER BY i", &[]));
    assert_eq!(vec![vec![5]], ids("SELECT i FROM t WHERE s IN (5, 'y')", &[]));
    assert!(ids("SELECT i FROM t WHERE i = 'x'", &[]).is_empty());
    assert!(ids("SELECT i FROM t WHERE i = NULL", &[]).is_empty());
    assert!(ids("SELECT i FROM t WHERE i = ?", &[Datum::Null]).is_empty());
}

/// A join takes the rows behind the one that it found last without a look-up, as long as it asks for those.
#[test]
fn a_join_in_the_order_of_rows_finds_what_look_ups_find() {
    let mut random = Xoshiro::from_seed(17);
    for keys in ["INTEGER PRIMARY KEY", "INTEGER PRIMARY KEY USING BTREE", "TEXT PRIMARY KEY", "REAL PRIMARY KEY"] {
        let create = format!("CREATE TABLE b (id {keys}, v INT, more TEXT)");
        let mut store = TestStore::with(&["CREATE TABLE a (id INTEGER PRIMARY KEY, far INT)", &create]);
        let mut model = std::collections::BTreeMap::new();
        for id in 0..2500 {
            store.run(&format!("INSERT INTO a VALUES ({id}, {})", random.below(2500)));
            store.run(&format!("INSERT INTO b VALUES ({id}, {}, 'some text')", id * 3));
            model.insert(id as i64, id as i64 * 3);
        }
        // Holes, runs of them, and rows that come back elsewhere.
        for _ in 0..200 {
            let from = random.below(2500) as i64;
            let gone = from..from + 1 + random.below(4) as i64;
            store.run(&format!(
                "DELETE FROM b WHERE id IN ({})",
                gone.clone().map(|id| id.to_string()).collect::<Vec<_>>().join(",")
            ));
            model.retain(|id, _| !gone.contains(id));
            let back = random.below(2500) as i64;
            if model.insert(back, -back).is_none() {
                store.run(&format!("INSERT INTO b VALUES ({back}, {}, NULL)", -back));
            } else {
                store.run(&format!("UPDATE b SET v = {}, more = 'x' WHERE id = {back}", -back));
            }
        }
        for step in [1, 2, 7, 300] {
            let text = format!("SELECT a.id, b.v FROM a CROSS JOIN b ON b.id = a.id WHERE a.id % {step} = 0");
            let expected: Vec<Vec<i64>> =
                model.iter().filter(|(id, _)| *id % step == 0).map(|(id, v)| vec![*id, *v]).collect();
            assert_eq!(expected, ints(store.rows(&text, &[])), "{keys}, {step}");
        }
        let far = "SELECT a.id, a.far, b.v FROM a LEFT JOIN b ON b.id = a.far WHERE b.v IS NOT NULL";
        for row in ints(store.rows(far, &[])) {
            assert_eq!(Some(&row[2]), model.get(&row[1]), "{keys}");
        }
        let both = "SELECT count(*) FROM a JOIN b ON b.id = a.id JOIN b c ON c.id = b.v / 3";
        let joined = |(id, v): (&i64, &i64)| model.contains_key(&(v / 3)) && *id < 2500;
        let expected = model.iter().filter(|row| joined(*row)).count() as i64;
        assert_eq!(vec![vec![expected]], ints(store.rows(both, &[])), "{keys}");
    }
}

#[test]
fn an_unindexed_join_asks_a_hash_table() {
    let mut store = TestStore::with(&["CREATE TABLE a (x INT)", "CREATE TABLE b (y INT, z INT)"]);
    for i in 0..300 {
        store.run(&format!("INSERT INTO a VALUES ({i})"));
        store.run(&format!("INSERT INTO b VALUES ({}, {i})", i / 2));
    }
    let sum = ints(store.rows("SELECT count(*), sum(z) FROM a JOIN b ON a.x = b.y", &[]));
    assert_eq!(vec![vec![300, (0..300).sum::<i64>()]], sum);
    assert!(store.plan("SELECT * FROM a JOIN b ON a.x = b.y").contains("hash table"));
}

#[test]
fn keys_are_read_beside_tables() {
    let mut store = TestStore::with(&["CREATE TABLE t (id INT PRIMARY KEY, n TEXT)"]);
    store.run("INSERT INTO t VALUES (1, 'one'), (2, 'two')");
    let member = |m: &str, score: f64, rank: i64| vec![Datum::text(m), Datum::Real(score), Datum::Int(rank)];
    store.value = vec![member("2", 1.0, 0), member("1", 5.5, 1), member("9", 7.0, 2)];
    let joined = store.rows("SELECT z.score, t.n FROM zset('board') z JOIN t ON t.id = z.member ORDER BY z.rank", &[]);
    let expected = vec![vec![Datum::Real(1.0), Datum::text("two")], vec![Datum::Real(5.5), Datum::text("one")]];
    assert_eq!(expected, joined);
    assert_eq!(3, store.rows("SELECT key FROM keys", &[]).len());
    assert_eq!(3, store.rows("SELECT * FROM zset(?)", &[Datum::text("k")]).len());
    assert_eq!("full scan of t", store.plan("SELECT * FROM t, zset(t.n)").lines().next().unwrap());
}

#[test]
fn a_statement_ends_when_its_time_is_up() {
    let mut store = TestStore::new();
    store.deadline_ns = Some(50);
    let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT sum(x) FROM c";
    let error = store.error(endless);
    assert!(error.contains("CANCELLED the statement took too long"), "{error}");
}

#[test]
fn time_is_the_store_s() {
    let mut store = TestStore::new();
    assert_eq!(vec![vec![Datum::text("2026-01-01 00:00:00")]], store.rows("SELECT datetime('now')", &[]));
}

#[test]
fn show_tells_what_there_is() {
    let mut store = TestStore::with(&[
        "CREATE TABLE \"odd name\" (id INTEGER PRIMARY KEY, \"order\" VARCHAR(9) COLLATE NOCASE NOT NULL DEFAULT 'x', d \
         DECIMAL(5,2) UNIQUE)",
        "CREATE INDEX i ON \"odd name\" (\"order\" DESC, id)",
    ]);
    let shown = store.rows("SHOW CREATE TABLE \"odd name\"", &[]);
    let text = super::text_of(&shown[0][1]);
    let expected = "CREATE TABLE \"odd name\" (\n  id INTEGER NOT NULL AUTO_INCREMENT,\n  \"order\" VARCHAR(9) COLLATE \
                    NOCASE NOT NULL DEFAULT 'x',\n  d DECIMAL(5,2),\n  PRIMARY KEY (id) USING HASH,\n  UNIQUE KEY \
                    \"odd name_d\" (d) USING BTREE\n);\nCREATE INDEX i ON \"odd name\" (\"order\" DESC, id) USING BTREE";
    assert_eq!(expected, text);
    assert_eq!(1, store.rows("SHOW TABLES", &[]).len());
    assert_eq!(3, store.rows("DESCRIBE \"odd name\"", &[]).len());
    assert_eq!(3, store.rows("SHOW INDEXES FROM \"odd name\"", &[]).len());
    // What is shown makes the same table again.
    let mut again = TestStore::new();
    text.split(";\n").for_each(|statement| {
        again.run(statement);
    });
    assert_eq!(shown, again.rows("SHOW CREATE TABLE \"odd name\"", &[]));
}

#[test]
fn the_cache_is_bounded_and_keeps_what_is_used() {
    let mut store = TestStore::with(&["CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 2)"]);
    for i in 0..3000 {
        assert_eq!(1, store.rows(&format!("SELECT a + {i} FROM t"), &[]).len());
        assert_eq!(
            1,
            store.rows(&format!("SELECT a, a FROM t WHERE id = ? /* {} */", i % 700), &[Datum::Int(1)]).len()
        );
        assert_eq!(1, store.rows("SELECT a, id + 0 FROM t", &[]).len());
        assert!(store.sql.cached() <= crate::limits::STATEMENTS_CACHED);
    }
    assert_eq!(crate::limits::STATEMENTS_CACHED, store.sql.cached());
}

#[test]
fn extremes_are_errors_and_not_crashes() {
    let mut store = TestStore::with(&["CREATE TABLE t (a INT, s TEXT)"]);
    let deep = format!("SELECT {}1{}", "(".repeat(50_000), ")".repeat(50_000));
    assert!(store.try_run(&deep, &[]).is_err());
    let deep = format!("SELECT -{}1", "~".repeat(20_000));
    assert!(store.try_run(&deep, &[]).is_err());
    let wide = format!("SELECT 1{}", ", 1".repeat(5_000));
    assert!(store.try_run(&wide, &[]).is_err());
    let long = format!("SELECT '{}'", "x".repeat(2_000_000));
    assert!(store.error(&long).contains("LIMIT a statement of 2000009 bytes"));
    let many = format!("SELECT {}", vec!["?"; 40_000].join(", "));
    assert!(store.try_run(&many, &[]).is_err());
    assert!(store.error("SELECT zeroblob(2000000000)").contains("LIMIT"));
    let columns: Vec<String> = (0..2000).map(|i| format!("c{i} INT")).collect();
    assert!(store.error(&format!("CREATE TABLE w ({})", columns.join(", "))).contains("LIMIT"));
    assert!(store.error("INSERT INTO t (s) VALUES (CAST(x'FF' AS TEXT))").contains("not UTF-8"));
    assert_eq!(
        Reply::bulk([0xFF]),
        match store.run("SELECT CAST(x'FF' AS TEXT)") {
            Reply::Array(rows) => match &rows[1] {
                Reply::Array(row) => row[0].clone(),
                other => other.clone(),
            },
            other => other,
        }
    );
    assert_eq!(vec![vec![Datum::text("a\0b")]], store.rows("SELECT ?", &[Datum::text("a\0b")]));
    assert_eq!(vec![vec![Datum::Real(f64::INFINITY)]], store.rows("SELECT 9e999", &[]));
}
