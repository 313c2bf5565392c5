//! Forms of writing that are ours: upserts, RETURNING, LIMIT of UPDATE and DELETE, beside SQLite's own tables.

use super::oracle::Pair;
use super::{TestStore, rows_of};
use crate::table::datum::Datum;

const T: (&str, &str) = (
    "CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT COLLATE NOCASE DEFAULT 'none', UNIQUE (a, b))",
    "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, a INT, b TEXT COLLATE NOCASE DEFAULT 'none', UNIQUE (a, b)) STRICT",
);
const U: (&str, &str) =
    ("CREATE TABLE u (x INT PRIMARY KEY, y TEXT)", "CREATE TABLE u (x INT NOT NULL PRIMARY KEY, y TEXT) STRICT");

/// Runs statements on both sides, each followed by a look at the tables.
fn both(statements: &[&str]) {
    let mut pair = Pair::new(1, &[T, U], &[]);
    for i in 0..6 {
        pair.check(&format!("INSERT INTO t VALUES ({i}, {}, 'b{i}')", i % 3), &[], true);
        pair.check(&format!("INSERT INTO u VALUES ({}, 'y{i}')", i * 2), &[], true);
    }
    for statement in statements {
        pair.check(statement, &[], false);
        pair.check("SELECT * FROM t", &[], false);
        pair.check("SELECT * FROM u", &[], false);
    }
}

#[test]
fn upserts_change_what_sqlite_changes() {
    both(&[
        "INSERT INTO t VALUES (1, 50, 'new') ON CONFLICT DO NOTHING",
        "INSERT INTO t VALUES (1, 50, 'new') ON CONFLICT (id) DO NOTHING",
        "INSERT INTO t VALUES (1, 50, 'new') ON CONFLICT (id) DO UPDATE SET a = excluded.a, b = excluded.b || b",
        "INSERT INTO t VALUES (9, 2, 'B2') ON CONFLICT (a, b) DO UPDATE SET a = a + 100",
        "INSERT INTO t VALUES (9, 2, 'B5') ON CONFLICT (b, a) DO UPDATE SET id = excluded.id + t.id WHERE t.id > 2",
        "INSERT INTO t VALUES (14, 0, 'B3') ON CONFLICT (b, a) DO UPDATE SET id = excluded.id WHERE t.id > 3",
        "INSERT INTO t VALUES (1, 0, 'b0') ON CONFLICT (id) DO UPDATE SET a = 7 ON CONFLICT DO NOTHING",
        "INSERT INTO t VALUES (1, 0, 'b0') ON CONFLICT (a, b) DO UPDATE SET a = 8 ON CONFLICT (id) DO NOTHING",
        // The target is not what the row conflicts with.
        "INSERT INTO t VALUES (1, 90, 'q') ON CONFLICT (a, b) DO NOTHING",
        "INSERT OR IGNORE INTO t VALUES (1, 90, 'q') ON CONFLICT (a, b) DO NOTHING",
        "INSERT OR REPLACE INTO t VALUES (1, 90, 'q') ON CONFLICT (a, b) DO NOTHING",
        // The update itself conflicts.
        "INSERT INTO t VALUES (1, 1, 'x') ON CONFLICT (id) DO UPDATE SET id = 2",
        "INSERT INTO t VALUES (1, 1, 'x') ON CONFLICT (id) DO UPDATE SET (a, b) = (a + 1, 'pair')",
        "INSERT INTO t VALUES (1, 1, 'x') ON CONFLICT (id) DO UPDATE SET (b, a) = (SELECT y, x + t.id FROM u WHERE x = 4)",
        "INSERT INTO t VALUES (2, 1, 'x') ON CONFLICT (id) DO UPDATE SET a = (SELECT count(*) FROM t AS o WHERE o.a < excluded.a)",
        "INSERT INTO t (id) SELECT x FROM u WHERE true ON CONFLICT (id) DO UPDATE SET b = 'was ' || t.b",
        "INSERT INTO t SELECT id, a + 1, b FROM t WHERE true ON CONFLICT (id) DO UPDATE SET a = excluded.a + 10",
        "INSERT INTO t VALUES (30, 1, 'p'), (30, 2, 'q'), (30, 3, 'r') ON CONFLICT (id) DO UPDATE SET a = t.a + excluded.a",
        "WITH q(i) AS (SELECT 3) INSERT INTO t (id, a) SELECT i, 77 FROM q WHERE true ON CONFLICT (id) DO UPDATE SET a = 78",
        "INSERT INTO t AS z VALUES (4, 1, 'x') ON CONFLICT (id) DO UPDATE SET a = z.a + 1 WHERE z.id = 4",
        "INSERT INTO t VALUES (NULL, 1, 'x') ON CONFLICT (id) DO UPDATE SET a = 1",
        "INSERT INTO u VALUES (2, 'Z') ON CONFLICT (x) DO UPDATE SET y = excluded.y WHERE excluded.y = 'z'",
        "INSERT INTO t (id) VALUES (4) ON CONFLICT (id) DO UPDATE SET a = length(excluded.b)",
    ]);
}

#[test]
fn returning_gives_what_sqlite_gives() {
    both(&[
        "INSERT INTO t VALUES (20, 1, 'x') RETURNING *",
        "INSERT INTO t (id) VALUES (21), (22) RETURNING id, b",
        "INSERT INTO t (id) VALUES (23) RETURNING id AS key, upper(b) AS \"B b\", (SELECT max(x) FROM u), a IS NULL",
        "INSERT INTO t (id) VALUES (24) RETURNING *, id + 1",
        "INSERT INTO t SELECT x + 100, x, y FROM u RETURNING id, b COLLATE BINARY",
        "INSERT OR IGNORE INTO t VALUES (20, 1, 'x'), (25, 1, 'y') RETURNING t.id",
        "REPLACE INTO t VALUES (20, 1, 'again') RETURNING id, b",
        "INSERT INTO t VALUES (20, 5, 'x') ON CONFLICT (id) DO UPDATE SET a = a + 1 RETURNING a, b",
        "INSERT INTO t VALUES (20, 5, 'x') ON CONFLICT DO NOTHING RETURNING a",
        "INSERT INTO t VALUES (20, 5, 'x'), (26, 2, 'y') ON CONFLICT (id) DO UPDATE SET a = 3 WHERE false RETURNING a",
        "UPDATE t SET a = a + 100 * id WHERE id > 3 RETURNING id, a",
        "UPDATE t SET a = -id RETURNING a, abs(a)",
        "UPDATE t SET a = 1000 + id WHERE id = 3 RETURNING *",
        "UPDATE t SET b = y FROM u WHERE t.id = u.x RETURNING id, b",
        "UPDATE OR IGNORE t SET id = 1 WHERE id < 4 RETURNING id",
        "DELETE FROM t WHERE id = 3 RETURNING *",
        "DELETE FROM t WHERE a < 0 AND id > 20 RETURNING id, b || '!' AS gone, b = 'Y1'",
        "DELETE FROM u RETURNING x",
        "DELETE FROM u RETURNING x",
    ]);
}

#[test]
fn rows_are_chosen_by_order_and_limit() {
    let mut store = TestStore::with(&["CREATE TABLE t (id INT PRIMARY KEY, a INT)"]);
    let fill = |store: &mut TestStore| {
        store.run("DELETE FROM t");
        store.run("INSERT INTO t VALUES (1, 5), (2, 4), (3, 3), (4, 2), (5, 1)");
    };
    for (text, left) in [
        ("DELETE FROM t ORDER BY a LIMIT 2", "1 2 3"),
        ("DELETE FROM t ORDER BY id DESC LIMIT 2 OFFSET 1", "1 2 5"),
        ("DELETE FROM t WHERE id > 1 ORDER BY id LIMIT 1, 2", "1 2 5"),
        ("DELETE FROM t AS x WHERE x.a > 1 ORDER BY x.a LIMIT 1", "1 2 3 5"),
        ("DELETE FROM t LIMIT 0", "1 2 3 4 5"),
        ("DELETE FROM t LIMIT -1", ""),
        ("WITH q AS (SELECT 2 AS n) DELETE FROM t WHERE id IN (SELECT n FROM q) LIMIT 1", "1 3 4 5"),
    ] {
        fill(&mut store);
        store.run(text);
        let rows = store.rows("SELECT group_concat(id, ' ') FROM (SELECT id FROM t ORDER BY id)", &[]);
        let expected = if left.is_empty() { Datum::Null } else { Datum::text(left) };
        assert_eq!(expected, rows[0][0], "{text}");
    }
    fill(&mut store);
    let returned = store.rows(
        "UPDATE t SET a = a * ? WHERE id < ? ORDER BY a LIMIT ? RETURNING id",
        &[Datum::Int(10), Datum::Int(5), Datum::Int(2)],
    );
    assert_eq!(2, returned.len());
    let rows = store.rows("SELECT a FROM t ORDER BY id", &[]);
    assert_eq!("[[5], [4], [30], [20], [1]]", show(&rows));
    assert!(store.error("UPDATE t SET a = 1 FROM t AS o WHERE o.id = t.id LIMIT 1").contains("with FROM"));
}

fn show(rows: &[Vec<Datum>]) -> String {
    let row = |row: &Vec<Datum>| format!("[{}]", row.iter().map(super::text_of).collect::<Vec<_>>().join(", "));
    format!("[{}]", rows.iter().map(row).collect::<Vec<_>>().join(", "))
}

#[test]
fn mysql_spellings_mean_the_same() {
    let mut store = TestStore::with(&["CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT DEFAULT 7)"]);
    let int = Datum::Int;
    store.run("INSERT INTO t SET id = 1, a = 2 * 3");
    store.run("INSERT IGNORE INTO t SET id = 1, a = 9");
    assert_eq!("[[1, 6, 7]]", show(&store.rows("SELECT * FROM t", &[])));
    for (text, expected) in [
        ("INSERT INTO t (id, a) VALUES (1, 10) ON DUPLICATE KEY UPDATE a = VALUES(a), b = b + 1", "[[1, 10, 8]]"),
        ("INSERT INTO t VALUES (1, 11, 3) AS new ON DUPLICATE KEY UPDATE a = new.a + t.a, b = new.b", "[[1, 21, 3]]"),
        ("INSERT INTO t VALUES (1, 5, 3) AS new(k, m, n) ON DUPLICATE KEY UPDATE a = m, b = b + new.n", "[[1, 5, 6]]"),
        ("INSERT INTO t SET id = 1, a = 4 ON DUPLICATE KEY UPDATE a = t.a + VALUES(a)", "[[1, 9, 6]]"),
        // The right sides see the row as it was, as in SQLite, and not as in MySQL.
        ("INSERT INTO t (id) VALUES (1) ON DUPLICATE KEY UPDATE a = b, b = a", "[[1, 6, 9]]"),
    ] {
        store.run(text);
        assert_eq!(expected, show(&store.rows("SELECT * FROM t", &[])), "{text}");
    }
    let text = "INSERT INTO t (id, a) VALUES (?, ?) ON DUPLICATE KEY UPDATE a = a + VALUES(a) * ? RETURNING a, ? AS p";
    let params = [int(1), int(2), int(10), int(5)];
    assert_eq!("[[26, 5]]", show(&store.rows(text, &params)));
    let named = "INSERT INTO t (id, a) VALUES (:id, :a) ON CONFLICT (id) DO UPDATE SET a = a + :a RETURNING a, :id";
    assert_eq!("[[29, 1]]", show(&store.rows(named, &[int(1), int(3)])));
    let numbered = "INSERT INTO t (id, a) VALUES (?2, ?1) ON CONFLICT (id) DO UPDATE SET a = ?1 RETURNING a, ?3";
    assert_eq!("[[4, x]]", show(&store.rows(numbered, &[int(4), int(1), Datum::text("x")])));
}

#[test]
fn the_proposed_row_compares_as_the_column_does() {
    let mut store = TestStore::with(&["CREATE TABLE t (id INT PRIMARY KEY, b TEXT COLLATE NOCASE, d DECIMAL(5, 2))"]);
    store.run("INSERT INTO t VALUES (1, 'x', '1.5')");
    // SQLite forgets the collation of `excluded.b`; here it is the column's.
    let text = "INSERT INTO t VALUES (1, 'NEW', 20) ON CONFLICT (id) DO UPDATE SET b = excluded.b \
                WHERE excluded.b = 'new' AND excluded.d > t.d RETURNING b = 'nEW'";
    assert_eq!("[[1]]", show(&store.rows(text, &[])));
}

#[test]
fn what_cannot_be_is_said() {
    let mut store =
        TestStore::with(&["CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL)", "INSERT INTO t VALUES (1, 1)"]);
    for (text, message) in [
        ("INSERT INTO t VALUES (1, 2) ON CONFLICT (a) DO NOTHING", "does not match any PRIMARY KEY or UNIQUE"),
        ("INSERT INTO t VALUES (1, 2) ON CONFLICT (q) DO NOTHING", "no column named q"),
        ("INSERT INTO t VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET q = 1", "no column named q"),
        ("INSERT INTO t VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET a = q", "no such column: q"),
        ("INSERT INTO t VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET a = excluded.q", "no such column: excluded.q"),
        ("INSERT INTO t VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET a = NULL", "NOT NULL constraint failed: t.a"),
        ("INSERT INTO t VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET a = 'x'", "t.a"),
        (
            "INSERT INTO t VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET (id, a) = (1, 2, 3)",
            "2 columns assigned 3 values",
        ),
        ("INSERT INTO t VALUES (2, 2) RETURNING q", "no such column: q"),
        ("INSERT INTO t VALUES (2, 2) RETURNING json(a || '{')", "malformed JSON"),
        ("INSERT INTO q VALUES (2, 2) RETURNING q", "no such table: q"),
        ("INSERT INTO t VALUES (2, 2, 3) ON CONFLICT DO NOTHING", "2 columns but 3 values"),
        ("DELETE FROM t WHERE (SELECT LIMIT 1", "syntax error"),
    ] {
        let error = store.error(text);
        assert!(error.contains(message), "{text}: {error}");
        assert_eq!("[[1, 1]]", show(&store.rows("SELECT * FROM t", &[])), "{text}");
    }
    assert!(store.try_run("INSERT INTO t VALUES (?, 1) RETURNING ?", &[Datum::Int(1)]).is_err());
    let _ = rows_of;
}

#[test]
fn uniqueness_is_judged_when_all_rows_are_written() {
    for method in ["HASH", "BTREE"] {
        let create = format!("CREATE TABLE t (id INT PRIMARY KEY USING {method}, a INT UNIQUE)");
        let mut store = TestStore::with(&[&create, "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30), (4, 40)"]);
        let ids = |store: &mut TestStore| show(&store.rows("SELECT id, a FROM t ORDER BY id", &[]));
        store.run("UPDATE t SET id = id + 1");
        assert_eq!("[[2, 10], [3, 20], [4, 30], [5, 40]]", ids(&mut store));
        store.run("UPDATE t SET id = id - 1");
        // Rings, and two columns at once.
        store.run("UPDATE t SET id = 5 - id");
        assert_eq!("[[1, 40], [2, 30], [3, 20], [4, 10]]", ids(&mut store));
        let returned = store.rows("UPDATE t SET id = id % 4 + 1, a = 50 - a WHERE a > 0 RETURNING id, a", &[]);
        assert_eq!("[[1, 40], [2, 10], [3, 20], [4, 30]]", ids(&mut store));
        assert_eq!(4, returned.len());
        // Nobody makes room.
        let before = (ids(&mut store), store.tables.digest().unwrap(), store.changes.list.len());
        let error = store.error("UPDATE t SET id = id + 1 WHERE id < 4");
        assert!(error.contains("UNIQUE constraint failed: t.id"), "{error}");
        store.error("UPDATE t SET a = 1");
        store.error("UPDATE t SET id = id / 2 + 1");
        assert_eq!(before, (ids(&mut store), store.tables.digest().unwrap(), store.changes.list.len()));
        store.run("INSERT INTO t SELECT id + 4, a + 100 FROM t");
        store.run("UPDATE t SET id = (id * 5) % 9");
        assert_eq!(8, store.count("t"));
        for id in 1..9 {
            assert_eq!(1, store.rows("SELECT a FROM t WHERE id = ?", &[Datum::Int(id)]).len());
        }
    }
}

#[test]
fn truncate_empties_at_once_and_can_be_taken_back() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a INT UNIQUE)",
        "INSERT INTO t (a) VALUES (1), (2), (3)",
    ]);
    assert_eq!(crate::reply::Reply::Int(3), store.run("TRUNCATE TABLE t"));
    assert_eq!(0, store.count("t"));
    store.run("INSERT INTO t (a) VALUES (1)");
    assert_eq!("[[4, 1]]", show(&store.rows("SELECT * FROM t", &[])), "no id comes twice");
    assert_eq!(crate::reply::Reply::Int(1), store.run("truncate t;"));
    for (text, message) in [
        ("TRUNCATE q", "no such table: q"),
        ("TRUNCATE", "expected a table's name"),
        ("TRUNCATE TABLE t WHERE a", "expected the end"),
    ] {
        assert!(store.error(text).contains(message), "{text}");
    }
}

#[test]
fn common_upserts_need_no_sqlite() {
    let mut store = TestStore::with(&["CREATE TABLE t (id INT PRIMARY KEY, a INT, b REAL)"]);
    for (text, params, is_fast) in [
        ("INSERT INTO t VALUES (?, ?, 1) ON CONFLICT (id) DO UPDATE SET a = excluded.a", 2, true),
        (
            "INSERT INTO t VALUES (?, ?, 1) ON CONFLICT (id) DO UPDATE SET a = a + excluded.a, b = ? RETURNING *",
            3,
            true,
        ),
        ("INSERT INTO t VALUES (?, ?, 1) ON DUPLICATE KEY UPDATE a = VALUES(a) - a, b = t.b + 0.5", 2, true),
        ("INSERT INTO t VALUES (?, ?, 1) ON CONFLICT (id) DO NOTHING RETURNING id, a AS x", 2, true),
        ("INSERT INTO t VALUES (?, ?, 1), (9, 9, 9) RETURNING id", 2, true),
        ("INSERT INTO t VALUES (?, ?, 1) ON CONFLICT DO NOTHING", 2, false),
        ("INSERT INTO t VALUES (?, ?, 1) ON CONFLICT (id) DO UPDATE SET a = a * 2", 2, false),
        ("INSERT INTO t VALUES (?, ?, 1) ON CONFLICT (id) DO UPDATE SET a = 1 WHERE a > 3", 2, false),
        ("INSERT INTO t VALUES (?, ?, 1), (8, 8, 8) ON CONFLICT (id) DO NOTHING", 2, false),
    ] {
        let values: Vec<Datum> = (1..=params as i64).map(Datum::Int).collect();
        let mut twice = Vec::new();
        for fast_path in [true, false] {
            // A new one knows no plan.
            store.sql = crate::sql::Sql::default();
            store.sql.set_fast_path(fast_path);
            store.run("DELETE FROM t");
            let replies = [1, 2].map(|_| store.try_run(text, &values));
            twice.push((format!("{replies:?}"), show(&store.rows("SELECT * FROM t", &[]))));
            assert_eq!(fast_path && is_fast, store.sql.planned(text.as_bytes(), params).is_some(), "{text}");
        }
        assert_eq!(twice[0], twice[1], "{text}");
    }
    // A sum past 64 bits, and a text, are SQLite's.
    store.sql.set_fast_path(true);
    store.run("INSERT INTO t VALUES (50, 9223372036854775807, 1)");
    let sum = "INSERT INTO t VALUES (50, ?, 1) ON CONFLICT (id) DO UPDATE SET b = a + excluded.a RETURNING b";
    assert_eq!("[[9.223372036854776e+18]]", show(&store.rows(sum, &[Datum::Int(1)])));
    let text = "INSERT INTO t VALUES (50, 1, 1) ON CONFLICT (id) DO UPDATE SET b = b + ? RETURNING b > 5";
    assert_eq!("[[1]]", show(&store.rows(text, &[Datum::text("3")])));
}

#[test]
fn a_statement_runs_for_many_groups_or_for_none() {
    use crate::table::datum::DatumRef;
    for fast_path in [true, false] {
        let mut store = TestStore::with(&["CREATE TABLE t (id INT PRIMARY KEY, a TEXT)"]);
        store.sql.set_fast_path(fast_path);
        let many = |store: &mut TestStore, text: &str, values: &[Datum]| {
            let values: Vec<DatumRef<'_>> = values.iter().map(Datum::as_ref).collect();
            crate::sql::many::execute(store, text.as_bytes(), &values).map_err(|error| error.to_string())
        };
        let rows = |ids: std::ops::Range<i64>| ids.flat_map(|i| [Datum::Int(i), Datum::text("x")]).collect::<Vec<_>>();
        let insert = "INSERT INTO t VALUES (?, ?)";
        assert_eq!(Ok(3000), many(&mut store, insert, &rows(0..3000)));
        // One that fails takes all back, in whichever group it stands.
        for last in [0, 1, 2999] {
            let mut values = rows(5000..6000);
            values.extend([Datum::Int(last), Datum::Null]);
            assert!(many(&mut store, insert, &values).unwrap_err().contains("UNIQUE constraint failed: t.id"));
            assert_eq!(3000, store.count("t"));
        }
        assert_eq!(Ok(2), many(&mut store, "REPLACE INTO t VALUES (?, 'y')", &[Datum::Int(1), Datum::Int(2)]));
        assert_eq!(
            Ok(1),
            many(&mut store, "INSERT OR IGNORE INTO t VALUES (?, 'y')", &[Datum::Int(1), Datum::Int(-1)])
        );
        assert_eq!(
            Ok(2),
            many(&mut store, "DELETE FROM t WHERE id = ?", &[Datum::Int(1), Datum::Int(2), Datum::Int(1)])
        );
        assert_eq!(Ok(4), many(&mut store, "UPDATE t SET a = a || ? WHERE id < 2", &[Datum::Int(1), Datum::Int(2)]));
        let upsert = "INSERT INTO t VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET a = excluded.a";
        assert_eq!(Ok(20), many(&mut store, upsert, &rows(2990..3010)));
        assert_eq!(Ok(0), many(&mut store, insert, &[]));
        assert!(many(&mut store, insert, &rows(0..1)[..1]).unwrap_err().contains("2 parameters, 1 values"));
        for text in ["SELECT ?", "SELECT a FROM t WHERE id = ?", "INSERT INTO t (id) VALUES (?) RETURNING id"] {
            assert!(many(&mut store, text, &[Datum::Int(1)]).unwrap_err().contains("may not return rows"), "{text}");
        }
        assert!(many(&mut store, "TRUNCATE t", &[]).unwrap_err().contains("only a statement that writes rows"));
    }
}

#[test]
fn rules_of_tables_hold_for_every_form() {
    let mut store = TestStore::with(&[
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "CREATE TABLE t (id INT PRIMARY KEY, p INT REFERENCES p (id), a INT CHECK (a < 100), g INT AS (a * 2))",
        "CREATE UNIQUE INDEX few ON t (a) WHERE a > 50",
        "INSERT INTO p VALUES (1), (2)",
        "INSERT INTO t (id, p, a) VALUES (1, 1, 10), (2, 2, 60)",
    ]);
    let before = show(&store.rows("SELECT * FROM t ORDER BY id", &[]));
    for (text, message) in [
        ("INSERT INTO t (id, p, a) VALUES (1, 1, 5) ON CONFLICT (id) DO UPDATE SET a = a + 100", "CHECK"),
        ("INSERT INTO t (id, p, a) VALUES (1, 1, 5) ON CONFLICT (id) DO UPDATE SET a = 100 + excluded.a * 2", "CHECK"),
        ("INSERT INTO t (id, p, a) VALUES (1, 1, 5) ON CONFLICT (id) DO UPDATE SET p = 3", "FOREIGN KEY"),
        (
            "INSERT INTO t (id, p, a) VALUES (1, 3, 5) ON CONFLICT (id) DO UPDATE SET p = excluded.p + 0 * a",
            "FOREIGN KEY",
        ),
        ("INSERT INTO t (id, p, a) VALUES (1, 1, 5) ON CONFLICT (id) DO UPDATE SET g = 3", "generated"),
        ("INSERT INTO t (id, p, a) VALUES (9, 3, 5) RETURNING id", "FOREIGN KEY"),
        ("UPDATE t SET p = p + 1 RETURNING id", "FOREIGN KEY"),
        ("UPDATE t SET a = 100 ORDER BY id LIMIT 1", "CHECK"),
        ("DELETE FROM p WHERE id = 1 RETURNING id", "FOREIGN KEY"),
        ("INSERT INTO t (id, a) VALUES (9, 60) ON CONFLICT (a) DO NOTHING", "does not match any"),
        ("TRUNCATE p", "refers to it"),
    ] {
        let error = store.error(text);
        assert!(error.contains(message), "{text}: {error}");
        assert_eq!(before, show(&store.rows("SELECT * FROM t ORDER BY id", &[])), "{text}");
    }
    let returned =
        "INSERT INTO t (id, p, a) VALUES (1, 1, 7) ON CONFLICT (id) DO UPDATE SET a = excluded.a RETURNING *";
    assert_eq!("[[1, 1, 7, 14]]", show(&store.rows(returned, &[])));
    let partial =
        "INSERT INTO t (id, a) VALUES (9, 60) ON CONFLICT (a) WHERE a > 50 DO UPDATE SET p = 1 RETURNING id, g";
    assert_eq!("[[2, 120]]", show(&store.rows(partial, &[])));
    assert!(
        crate::sql::many::execute(
            &mut store,
            b"INSERT INTO t (id, p) VALUES (?, ?)",
            &[20, 1, 21, 7].map(crate::table::datum::DatumRef::Int),
        )
        .unwrap_err()
        .to_string()
        .contains("FOREIGN KEY")
    );
    assert_eq!(2, store.count("t"));
}

/// `VALUES (1, DEFAULT)` was a syntax error.
#[test]
fn default_stands_for_what_the_definition_gives() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a INT DEFAULT 7, b TEXT NOT NULL DEFAULT (lower('X') || ','), c INT, \
         g INT AS (a + 1), d TEXT DEFAULT 'it''s')",
    ]);
    let all = |store: &mut TestStore| text_of(store, "SELECT * FROM t ORDER BY id");
    store.run("INSERT INTO t VALUES (1, DEFAULT, DEFAULT, DEFAULT, DEFAULT), (DEFAULT, 2, 'default', 3, DEFAULT)");
    store.run(
        "INSERT INTO t (d, a) VALUES (DEFAULT, ?1), (?2, default)".replace("?1", "5").replace("?2", "'q'").as_str(),
    );
    assert_eq!("1 7 x, NULL 8 it's\n2 2 default 3 3 it's\n3 5 x, NULL 6 it's\n4 7 x, NULL 8 q", all(&mut store));
    store.run("UPDATE t SET a = DEFAULT, (b, d) = (DEFAULT, 'DEFAULT') WHERE id = 2");
    store.run("INSERT INTO t SET id = 3, a = 1 ON DUPLICATE KEY UPDATE a = DEFAULT, c = 4");
    store.run("INSERT INTO t (id) VALUES (4) ON CONFLICT (id) DO UPDATE SET d = DEFAULT WHERE t.id = 4 RETURNING *");
    assert_eq!("1 7 x, NULL 8 it's\n2 7 x, 3 8 DEFAULT\n3 7 x, 4 8 it's\n4 7 x, NULL 8 it's", all(&mut store));
    store.run("INSERT INTO t () VALUES ()");
    store.run("WITH q AS (SELECT 1) REPLACE INTO t (id, a) VALUES (5, DEFAULT)");
    assert_eq!(5, store.count("t"));
    assert!(store.error("INSERT INTO t (g) VALUES (DEFAULT)").contains("position 27: t.g is generated"));
    assert!(store.error("INSERT INTO t (id) VALUES (1, DEFAULT)").contains("values for"));
    assert!(store.error("UPDATE t SET nope = DEFAULT").contains("no such column: nope"));
    assert!(store.error("SELECT DEFAULT FROM t").contains("near \"DEFAULT\": syntax error at position 8"));
    assert!(store.error("INSERT INTO t (id, a) VALUES (DEFAULT + 1, 2)").contains("near \"DEFAULT\""));
    for i in 0..3 {
        store.rows("INSERT INTO t (id, a) VALUES (?, DEFAULT) RETURNING a", &[Datum::Int(100 + i)]);
    }
    assert_eq!(8, store.count("t"));
}

/// Rows as lines.
fn text_of(store: &mut TestStore, query: &str) -> String {
    let shown = |value: &Datum| match value {
        Datum::Null => "NULL".to_string(),
        Datum::Int(i) => i.to_string(),
        Datum::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    };
    let rows = store.rows(query, &[]);
    let lines = rows.iter().map(|row| row.iter().map(shown).collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

/// executemany said what was wrong and not where.
#[test]
fn an_error_of_many_rows_tells_the_row() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (id INT PRIMARY KEY, a INT CHECK (a < 100), up INT REFERENCES t)",
        "INSERT INTO t VALUES (5, 1, NULL)",
    ]);
    for (text, values, expected) in [
        ("INSERT INTO t (id, a) VALUES (?, ?)", vec![1, 1, 2, 2, 5, 3], "23505 row 3: UNIQUE constraint failed: t.id"),
        ("INSERT INTO t (id, a) VALUES (?, ?)", vec![1, 1, 2, 200, 5, 3], "23514 row 2: CHECK constraint failed"),
        ("INSERT INTO t (id, a) VALUES (?, ? + 0)", vec![5, 1], "23505 row 1: UNIQUE constraint failed"),
        ("UPDATE t SET a = ? WHERE id = ?", vec![1, 5, 2, 5, 300, 5], "23514 row 3: CHECK constraint failed"),
        (
            "INSERT INTO t (id, a) VALUES (?, 1) ON CONFLICT (id) DO UPDATE SET a = a + ?",
            vec![9, 1, 5, 1, 5, 999],
            "23514 row 3: CHECK constraint failed",
        ),
        ("INSERT INTO t (id, a, up) VALUES (?, 1, ?)", vec![1, 2, 2, 77], "23503 FOREIGN KEY constraint failed"),
        (
            "INSERT INTO t (id, a, up) VALUES (?, 1, ?)",
            vec![1, 2, 2, 77, 1, 1],
            "23505 row 3: UNIQUE constraint failed",
        ),
    ] {
        let values: Vec<Datum> = values.into_iter().map(Datum::Int).collect();
        let values: Vec<_> = values.iter().map(Datum::as_ref).collect();
        let error = crate::sql::execute_many(&mut store, text.as_bytes(), &values).unwrap_err();
        assert!(error.message.starts_with(expected), "{text}: {error}");
        assert_eq!("5 1 NULL", text_of(&mut store, "SELECT * FROM t"), "{text}");
    }
}
