//! What definitions do and refuse, one behaviour each.

use super::{TestStore, text_of};
use crate::env::Xoshiro;
use crate::reply::Reply;
use crate::table::datum::Datum;

#[test]
fn checks_and_generated_columns_say_what_is_wrong() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (id INT PRIMARY KEY, a INT CHECK (a > 0), b INT AS (a * 2), c TEXT, CONSTRAINT short CHECK \
         (length(c) < 4), UNIQUE (b))",
        "INSERT INTO t VALUES (1, 2, 'x')",
    ]);
    for (text, message) in [
        ("INSERT INTO t VALUES (2, 0, 'x')", "CONSTRAINT CHECK constraint failed: a > 0 (table t)"),
        ("INSERT INTO t VALUES (2, 1, 'long')", "CHECK constraint failed: short (table t)"),
        ("UPDATE t SET c = 'long' WHERE id = 1", "CHECK constraint failed: short"),
        ("UPDATE t SET a = -1", "CHECK constraint failed: a > 0"),
        ("INSERT INTO t VALUES (2, 2, 'y')", "UNIQUE constraint failed: t.b: 4 exists"),
        ("INSERT INTO t (id, b) VALUES (2, 5)", "cannot INSERT into generated column t.b"),
        ("UPDATE t SET b = 5", "cannot UPDATE generated column t.b"),
        ("INSERT INTO t VALUES (2, 1, 2, 'x')", "4 values for 3 columns"),
    ] {
        let error = store.error(text);
        assert!(error.contains(message), "{text}: {error}");
    }
    assert_eq!(Reply::Int(1), store.run("INSERT OR IGNORE INTO t VALUES (2, 0, 'x'), (3, 5, NULL)"));
    let int = Datum::Int;
    let expected = vec![vec![int(1), int(2), int(4), Datum::text("x")], vec![int(3), int(5), int(10), Datum::Null]];
    assert_eq!(expected, store.rows("SELECT * FROM t", &[]));
}

#[test]
fn expressions_are_judged_when_they_are_defined() {
    let mut store = TestStore::with(&["CREATE TABLE t (a INT, b TEXT)"]);
    for (text, message) in [
        ("CREATE TABLE u (a INT CHECK (z > 0))", "CHECK (z > 0) of table u: no such column: z"),
        ("CREATE TABLE u (a INT CHECK (random() > 0))", "non-deterministic"),
        ("CREATE TABLE u (a INT CHECK (nope(a)))", "no such function: nope"),
        ("CREATE TABLE u (a INT CHECK (rowid > 0))", "no such column: rowid"),
        ("CREATE TABLE u (a INT, b INT AS (b + 1))", "generated columns of table u use each other"),
        ("CREATE TABLE u (a INT, b INT AS (c), c INT AS (b))", "generated columns of table u use each other"),
        ("CREATE TABLE u (a INT AS (1))", "no columns that are not generated"),
        ("CREATE TABLE u (a INT, b INT DEFAULT 1 AS (a))", "neither DEFAULT nor"),
        ("CREATE TABLE u (a INT, b INT AS (a) PRIMARY KEY)", "cannot be part of the primary key"),
        ("CREATE TABLE u (a INT, b INT AS (sum(a)))", "misuse of aggregate"),
        ("CREATE TABLE u (a INT, PRIMARY KEY (a + 1))", "a primary key holds columns"),
        ("CREATE TABLE u (a INT) ENGINE = rocks", "unknown engine rocks"),
        ("CREATE INDEX i ON t (random() + a)", "non-deterministic"),
        ("CREATE INDEX i ON t (z + 1)", "no such column: z"),
        ("CREATE INDEX i ON t (a) WHERE z", "no such column: z"),
        ("CREATE INDEX i ON t (CAST(a AS NUMERIC))", "CAST AS NUMERIC"),
        ("CREATE VIEW v AS SELECT nope FROM t", "view v: no such column: nope"),
        ("CREATE VIEW v AS SELECT ? FROM t", "cannot have parameters"),
        ("CREATE VIEW v (x) AS SELECT a, b FROM t", "names 1 columns, its query has 2"),
        ("CREATE VIEW t AS SELECT 1", "table t already exists"),
        ("CREATE VIEW keys AS SELECT 1", "Peryton's own"),
        ("CREATE TABLE u AS SELECT nope FROM t", "no such column: nope"),
        ("CREATE TABLE t AS SELECT 1", "table t already exists"),
        ("DROP TABLE u, t", "no such table: u"),
        ("DROP VIEW t", "it is a table"),
        ("ALTER TABLE t RENAME TO keys", "Peryton's own"),
        ("ALTER TABLE nope RENAME TO u", "no such table: nope"),
    ] {
        let error = store.error(text);
        assert!(error.contains(message), "{text}: {error}");
    }
    assert_eq!(1, store.tables.catalog.tables().count());
    let checked = "CREATE TABLE w (a TEXT CHECK (a < datetime('now')), b TEXT)";
    store.run(checked);
    assert!(store.error("INSERT INTO w VALUES ('2000-01-01', 'x')").contains("ask for the present time"));
    assert_eq!(0, store.count("w"));
}

#[test]
fn expression_and_partial_indexes_are_used() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, name TEXT)",
        "CREATE TABLE o (id INT PRIMARY KEY, name TEXT)",
    ]);
    for i in 0..300 {
        store.run(&format!("INSERT INTO t VALUES ({i}, {}, 'Name{i}')", i % 50));
        store.run(&format!("INSERT INTO o VALUES ({i}, 'name{i}')"));
    }
    store.run("CREATE INDEX by_lower ON t (lower(name))");
    store.run("CREATE INDEX rare ON t (name) WHERE a = 7");
    store.run("CREATE INDEX sums ON t (a + id) USING HASH");
    for (text, plan) in [
        ("SELECT id FROM t WHERE lower(name) = 'name7'", "key look-up in by_lower of t by lower(name)"),
        ("SELECT id FROM t WHERE LOWER ( \"name\" ) = ?", "key look-up in by_lower of t by lower(name)"),
        ("SELECT id FROM t WHERE a + id = 5", "hash look-up in sums of t by a + id"),
        ("SELECT id FROM t WHERE 2 * a + id = 5", "full scan of t"),
        ("SELECT id FROM t ORDER BY lower(name) LIMIT 3", "whole index by_lower of t in its order"),
        ("SELECT name FROM t WHERE a = 7", "whole index rare of t in its order"),
        ("SELECT name FROM t WHERE name > 'Name2' AND a = 7", "range of index rare of t: name > ?"),
        ("SELECT name FROM t WHERE name > 'Name2' AND a = 8", "full scan of t"),
        (
            "SELECT o.id FROM o JOIN t AS x ON lower(x.name) = o.name",
            "full scan of o\nx: key look-up in by_lower of t by lower(name)",
        ),
        ("UPDATE t SET a = 1 WHERE lower(name) = 'zz'", "key look-up in by_lower of t by lower(name)"),
        // Here a name might be another table's.
        ("SELECT (SELECT lower(name) FROM o LIMIT 1) FROM t WHERE lower(name) = 'x'", "full scan"),
    ] {
        let shown = store.plan(text);
        assert!(shown.starts_with(plan), "{text}: {shown}");
    }
    assert_eq!(vec![vec![Datum::Int(7)]], store.rows("SELECT id FROM t WHERE lower(name) = 'name7'", &[]));
    let reply = store.run("SELECT lower(name) FROM t WHERE lower(name) = 'name7'");
    let Reply::Array(rows) = &reply else { panic!() };
    assert_eq!(Reply::bulks(["lower(name)"]), rows[0], "columns keep their names");
    // What is hidden is not shown.
    assert_eq!(3, store.rows("SELECT * FROM t WHERE id = 1", &[])[0].len());
    assert_eq!(3, store.rows("DESCRIBE t", &[]).len());
    let columns = |store: &mut TestStore| store.tables.catalog.table("t").unwrap().columns.len();
    assert_eq!(6, columns(&mut store));
    store.run("DROP INDEX rare");
    store.run("DROP INDEX by_lower");
    assert_eq!(4, columns(&mut store));
    store.run("UPDATE t SET name = 'x' WHERE id = 5");
    assert_eq!(1, store.rows("SELECT * FROM t WHERE lower(name) = 'x'", &[]).len());
}

#[test]
fn a_failed_definition_leaves_nothing() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (id INT PRIMARY KEY, a TEXT)",
        "INSERT INTO t VALUES (1, 'x'), (2, 'X'), (3, NULL)",
    ]);
    let before = store.tables.digest().unwrap();
    let (records, dirty) = (store.changes.list.len(), store.changes.dirty);
    for text in [
        "CREATE UNIQUE INDEX i ON t (lower(a))",
        "CREATE INDEX i ON t (json_extract(a, '$'))",
        "CREATE TABLE u AS SELECT id, abs(-9223372036854775807 - id) FROM t",
        "RENAME TABLE t TO u, nope TO v",
        "DROP TABLE t, nope",
        "CREATE TABLE v AS SELECT 1 AS a UNION ALL SELECT json('{')",
    ] {
        store.error(text);
        assert_eq!(before, store.tables.digest().unwrap(), "{text}");
        assert_eq!((records, dirty), (store.changes.list.len(), store.changes.dirty), "{text}");
    }
    assert_eq!(3, store.count("t"));
    store.run("CREATE INDEX i ON t (lower(a))");
}

#[test]
fn queries_make_tables() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (id INTEGER PRIMARY KEY, price DECIMAL(8,2), name VARCHAR(9) COLLATE NOCASE)",
        "INSERT INTO t VALUES (1, 2.5, 'one'), (2, 3, 'two')",
    ]);
    store.run("CREATE TABLE u AS SELECT id, price, name, price * 2 AS twice, id FROM t WHERE id > 0");
    let shown = text_of(&store.rows("SHOW CREATE TABLE u", &[])[0][1]);
    let expected = "CREATE TABLE u (\n  id INTEGER,\n  price DECIMAL(8,2),\n  name VARCHAR(9) COLLATE NOCASE,\n  twice \
                    ANY,\n  \"id:1\" INTEGER\n)";
    assert_eq!(expected, shown);
    assert_eq!(2, store.count("u"));
    assert_eq!(1, store.rows("SELECT * FROM u WHERE name = 'TWO' AND price = 3", &[]).len());
    store.run("CREATE TABLE IF NOT EXISTS u AS SELECT 1");
    store.run("CREATE TABLE w AS VALUES (1, 'x')");
    assert_eq!(1, store.count("w"));
}

#[test]
fn views_are_named_queries() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "INSERT INTO t VALUES (1, 10), (2, 20)",
        "CREATE VIEW v (x, y) AS SELECT id, a * 2 FROM t",
        "CREATE VIEW w AS SELECT max(y) AS m FROM v",
    ]);
    assert_eq!(vec![vec![Datum::Int(40)]], store.rows("SELECT y FROM v WHERE x = 2", &[]));
    assert_eq!(vec![vec![Datum::Int(40)]], store.rows("SELECT m FROM w", &[]));
    assert!(store.plan("SELECT y FROM v WHERE x = 2").contains("hash look-up in PRIMARY of t by id"));
    store.run("INSERT INTO t VALUES (3, 30)");
    assert_eq!(vec![vec![Datum::Int(60)]], store.rows("SELECT * FROM w", &[]));
    assert!(store.error("INSERT INTO v VALUES (1, 2)").contains("view"));
    assert!(store.error("CREATE VIEW v AS SELECT 1").contains("view v already exists"));
    assert!(store.error("CREATE TABLE v (a INT)").contains("already exists"));
    store.run("CREATE VIEW IF NOT EXISTS v AS SELECT 1");
    store.run("CREATE OR REPLACE VIEW w AS SELECT min(y) AS m FROM v");
    assert_eq!(vec![vec![Datum::Int(20)]], store.rows("SELECT * FROM w", &[]));
    assert_eq!(2, store.rows("SHOW VIEWS", &[]).len());
    assert_eq!(2, store.rows("DESCRIBE v", &[]).len());
    let shown = text_of(&store.rows("SHOW CREATE VIEW v", &[])[0][1]);
    assert_eq!("CREATE VIEW v (x, y) AS SELECT id, a * 2 FROM t", shown);
    store.run("DROP VIEW v, w");
    assert!(store.error("SELECT * FROM v").contains("no such table: v"));
    store.run("DROP VIEW IF EXISTS v");
    store.run("CREATE TABLE v (a INT)");
}

#[test]
fn tables_get_other_names() {
    let mut store = TestStore::with(&[
        "CREATE TABLE a (id INT PRIMARY KEY, x INT CHECK (a.x > 0))",
        "CREATE TABLE b (id INT PRIMARY KEY)",
        "INSERT INTO a VALUES (1, 5)",
        "CREATE INDEX i ON a (x)",
    ]);
    store.run("ALTER TABLE a RENAME TO c");
    assert!(store.error("SELECT * FROM a").contains("no such table"));
    assert_eq!(1, store.rows("SELECT * FROM c WHERE x = 5", &[]).len());
    assert!(store.error("INSERT INTO c VALUES (2, 0)").contains("CHECK constraint failed"));
    store.run("RENAME TABLE b TO d, c TO b, d TO c");
    assert_eq!(1, store.count("b"));
    assert_eq!(0, store.count("c"));
    store.run("CREATE TABLE a (id INT PRIMARY KEY)");
    assert!(store.error("ALTER TABLE a RENAME TO b").contains("already exists"));
}

/// A random table in our own words.
fn any_table(random: &mut Xoshiro, name: &str) -> Vec<String> {
    let mut pick = |choices: &[&str]| choices[random.below(choices.len() as u64) as usize].to_string();
    let types =
        ["INT", "VARCHAR(9)", "TEXT", "DECIMAL(9,3)", "REAL", "BLOB", "DATE", "DATETIME", "JSON", "ANY", "BOOLEAN"];
    let mut lines =
        vec![format!("id {}", pick(&["INTEGER", "INT AUTO_INCREMENT", "BIGINT", "INTEGER NOT NULL DEFAULT 7"]))];
    for column in ["a", "\"b c\"", "\"order\""] {
        let collation = pick(&["", "", " COLLATE NOCASE", " COLLATE RTRIM", " COLLATE BINARY"]);
        lines.push(format!(
            "{column} {}{collation}{}",
            pick(&types),
            pick(&["", " NOT NULL", " UNIQUE", " CHECK (id <> 5)"])
        ));
    }
    lines.push(format!("g INT {}", pick(&["", "AS (id + 1)", "GENERATED ALWAYS AS (length(a) /* n */) STORED"])));
    lines.push(format!(
        "s TEXT {}",
        pick(&["DEFAULT 'it''s'", "DEFAULT (lower('X') || 1)", "DEFAULT NULL", "DEFAULT CURRENT_TIMESTAMP"])
    ));
    lines.push(format!("PRIMARY KEY {}", pick(&["(id)", "(id) USING BTREE", "USING HASH (id)"])));
    lines.push(pick(&[
        "CONSTRAINT \"odd one\" CHECK (id > 0 OR \"b c\" IS NULL)",
        "CHECK (a <> s)",
        "KEY (a DESC, s)",
    ]));
    lines.push(pick(&[
        "UNIQUE (a, s COLLATE NOCASE) USING BTREE",
        "INDEX k ((lower(a)) DESC)",
        "UNIQUE KEY u ((id % 7), a)",
    ]));
    lines.push(pick(&[
        "FOREIGN KEY (a, g) REFERENCES other (x, \"y z\") ON DELETE CASCADE ON UPDATE SET NULL",
        "CONSTRAINT f FOREIGN KEY (s) REFERENCES other ON DELETE SET DEFAULT",
        "CHECK (typeof(a) <> 'x')",
    ]));
    vec![
        format!("CREATE TABLE {name} ({}) ENGINE=InnoDB CHARSET=utf8 COMMENT='x'", lines.join(", ")),
        format!(
            "CREATE INDEX {} ON {name} {}",
            pick(&["i", "\"i 2\""]),
            pick(&["(a, \"order\" DESC)", "(s || a)", "(a) WHERE id > 3 AND s IS NULL"])
        ),
        format!("CREATE UNIQUE INDEX j ON {name} (id, (g)) USING {}", pick(&["HASH", "BTREE"])),
    ]
}

#[test]
fn what_is_shown_makes_the_same_table() {
    for seed in 0..150 {
        let mut random = Xoshiro::from_seed(seed);
        let statements = any_table(&mut random, "\"t 1\"");
        let mut store = TestStore::new();
        for statement in &statements {
            store.run(statement);
        }
        let shown = text_of(&store.rows("SHOW CREATE TABLE \"t 1\"", &[])[0][1]);
        let mut again = TestStore::new();
        for statement in shown.split(";\n") {
            again.run(statement);
        }
        let (first, second) = (store.tables.catalog.table("t 1").unwrap(), again.tables.catalog.table("t 1").unwrap());
        // Numbers of indexes and places of hidden columns depend on the order in which they were made.
        let plain = |def: &crate::table::catalog::TableDef| {
            let mut def = def.clone();
            let shown = crate::sql::schema::create_statement(&def);
            def.indexes.clear();
            def.columns.retain(|c| !c.hidden);
            def.stored.clear();
            def.versions.clear();
            (shown, def.columns, def.checks, def.foreign_keys, def.name)
        };
        assert_eq!(plain(first), plain(second), "seed {seed}: {statements:?}");
    }
}

#[test]
fn the_catalog_is_read_by_queries() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a INT CHECK (a > 0), b TEXT COLLATE NOCASE DEFAULT 'x', c INT AS (a + 1), \
         up INT CONSTRAINT upward REFERENCES t ON DELETE CASCADE)",
        "CREATE INDEX i ON t (lower(b), a DESC) WHERE a > 5",
        "CREATE VIEW v AS SELECT table_name FROM information_schema.tables",
        "INSERT INTO t (a) VALUES (1), (2), (9)",
    ]);
    let mut texts = |query: &str| -> Vec<String> {
        let rows = store.rows(query, &[]);
        rows.iter().map(|row| row.iter().map(text_of).collect::<Vec<_>>().join(" ")).collect()
    };
    assert_eq!(
        vec!["t BASE TABLE memory 3 1", "v VIEW NULL NULL NULL"],
        texts(
            "SELECT table_name, table_type, engine, table_rows, data_length > 0 FROM information_schema.tables ORDER BY 1"
        )
    );
    assert_eq!(vec!["t", "v"], texts("SELECT * FROM v ORDER BY 1"));
    let columns = "SELECT c.column_name, data_type, is_nullable, column_key, extra FROM information_schema.tables AS t JOIN \
                   information_schema.columns c ON c.table_name = t.table_name ORDER BY ordinal_position";
    let expected = vec![
        "id INTEGER NO PRI AUTO_INCREMENT",
        "a INT YES  ",
        "b TEXT YES  ",
        "c INT YES  STORED GENERATED",
        "up INT YES  ",
    ];
    assert_eq!(expected, texts(columns));
    assert_eq!(
        vec!["PRIMARY 1 HASH id NULL 3 3", "i 0 BTREE (lower(b)), a DESC a > 5 1 1"],
        texts(
            "SELECT index_name, is_unique, method, columns, condition, entries, distinct_keys FROM \
             INFORMATION_SCHEMA.indexes WHERE bytes > 0"
        )
    );
    assert_eq!(
        vec!["t upward up t NULL CASCADE NO ACTION"],
        texts("SELECT information_schema.foreign_keys.* FROM information_schema.foreign_keys")
    );
    assert_eq!(vec!["t NULL a > 0"], texts("SELECT * FROM information_schema.check_constraints"));
    assert_eq!(vec!["v"], texts("SELECT views.table_name FROM information_schema.views"));
    for _ in 0..3 {
        texts("SELECT a FROM t ORDER BY b || a");
    }
    let used = "SELECT calls, rows, path, total_ms > 0 FROM information_schema.statements WHERE statement LIKE '%ORDER BY b ||%'";
    assert_eq!(vec!["3 9 sqlite 1"], texts(used));
    assert!(store.error("CREATE TABLE \"information_schema.tables\" (a INT)").contains("Peryton's own"));
    assert!(store.error("DELETE FROM information_schema.tables").contains("may not be modified"));
    assert!(store.error("SELECT * FROM information_schema.nope").contains("no such table: information_schema.nope"));
    for _ in 0..5 {
        store.rows("SELECT a FROM t WHERE id = ?", &[Datum::Int(1)]);
    }
    let used = "SELECT calls, path FROM information_schema.statements WHERE statement = 'SELECT a FROM t WHERE id = ?'";
    assert_eq!(vec![vec![Datum::Int(5), Datum::text("fast")]], store.rows(used, &[]));
    // What statements were used for survives a change of definitions.
    store.run("CREATE TABLE other (a INT)");
    assert_eq!(Datum::Int(5), store.rows(used, &[])[0][0]);
}
