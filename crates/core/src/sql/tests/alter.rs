//! ALTER TABLE: what each change does and refuses, on rows that are older than it.

use super::oracle::Pair;
use super::{TestStore, text_of};
use crate::keyspace::{Keyspace, Wants};
use crate::reply::Reply;
use crate::table::datum::Datum;
use crate::txn::{Effect, TableChanges, redo, undo};

/// Rows of a query, as lines.
fn lines(store: &mut TestStore, query: &str) -> Vec<String> {
    let line = |row: &Vec<Datum>| row.iter().map(text_of).collect::<Vec<_>>().join("|");
    store.rows(query, &[]).iter().map(line).collect()
}

fn refused(store: &mut TestStore, cases: &[(&str, &str)]) {
    for (text, message) in cases {
        let before = store.tables.digest().unwrap();
        let error = store.error(text);
        assert!(error.contains(message), "{text}: {error}");
        assert_eq!(before, store.tables.digest().unwrap(), "{text}");
    }
}

fn made(store: &mut TestStore) -> String {
    text_of(&store.rows("SHOW CREATE TABLE t", &[])[0][1])
}

fn three() -> TestStore {
    TestStore::with(&[
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a INT, b TEXT)",
        "INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y'), (3, NULL, NULL)",
    ])
}

#[test]
fn a_new_column_reads_as_its_default_in_old_rows() {
    let mut store = three();
    store.run("ALTER TABLE t ADD COLUMN c TEXT NOT NULL DEFAULT 'new'");
    store.run("ALTER TABLE t ADD d INT");
    assert_eq!(["1|10|x|new|NULL", "2|20|y|new|NULL", "3|NULL|NULL|new|NULL"], *lines(&mut store, "SELECT * FROM t"));
    store.run("UPDATE t SET a = 11 WHERE id = 1");
    store.run("INSERT INTO t VALUES (4, 40, 'z', 'own', 4)");
    store.run("INSERT INTO t (id) VALUES (5)");
    store.run("UPDATE t SET d = 9 WHERE c = 'new' AND id < 3");
    let expected = ["1|11|x|new|9", "2|20|y|new|9", "3|NULL|NULL|new|NULL", "4|40|z|own|4", "5|NULL|NULL|new|NULL"];
    assert_eq!(expected, *lines(&mut store, "SELECT * FROM t ORDER BY id"));
    // By key, in groups, and through an index over rows of all versions.
    assert_eq!(["new|NULL"], *lines(&mut store, "SELECT c, d FROM t WHERE id = 3"));
    assert_eq!(["new|4", "own|1"], *lines(&mut store, "SELECT c, count(*) FROM t GROUP BY c ORDER BY c"));
    store.run("CREATE INDEX t_c ON t (c, d)");
    assert_eq!(["1", "2"], *lines(&mut store, "SELECT id FROM t WHERE c = 'new' AND d = 9 ORDER BY id"));
    store.run("DELETE FROM t WHERE c = 'new'");
    assert_eq!(["4"], *lines(&mut store, "SELECT id FROM t"));
}

#[test]
fn another_default_is_for_rows_to_come() {
    let mut store = three();
    store.run("ALTER TABLE t ADD COLUMN c INT DEFAULT 5");
    store.run("ALTER TABLE t ALTER COLUMN c SET DEFAULT 6, ALTER a SET DEFAULT (1 + 1)");
    store.run("INSERT INTO t (id) VALUES (4)");
    store.run("ALTER TABLE t ALTER c DROP DEFAULT");
    store.run("INSERT INTO t (id) VALUES (5)");
    assert_eq!(["1|10|5", "4|2|6", "5|2|NULL"], *lines(&mut store, "SELECT id, a, c FROM t WHERE id NOT IN (2, 3)"));
    refused(
        &mut store,
        &[
            ("ALTER TABLE t ALTER c SET DEFAULT 'x'", "cannot store"),
            ("ALTER TABLE t ALTER id SET DEFAULT 7", "AUTO_INCREMENT column t.id cannot have a DEFAULT"),
            ("ALTER TABLE t ALTER nope DROP DEFAULT", "table t has no column named nope"),
        ],
    );
}

#[test]
fn a_default_that_is_no_constant_is_computed_once_for_old_rows() {
    let mut store = three();
    store.run("ALTER TABLE t ADD c INT DEFAULT (random()), ADD d DATETIME DEFAULT CURRENT_TIMESTAMP");
    assert_eq!(["1|1"], *lines(&mut store, "SELECT count(DISTINCT c), count(DISTINCT d) FROM t"));
    store.run("INSERT INTO t (id) VALUES (4), (5)");
    assert_eq!(["3"], *lines(&mut store, "SELECT count(DISTINCT c) FROM t"));
    assert_eq!(["2026-01-01 00:00:00"], *lines(&mut store, "SELECT d FROM t WHERE id = 1"));
}

#[test]
fn a_dropped_column_is_gone_and_its_name_is_free() {
    let mut store = three();
    store.run("ALTER TABLE t DROP COLUMN a");
    assert_eq!(["1|x", "2|y", "3|NULL"], *lines(&mut store, "SELECT * FROM t"));
    assert!(store.error("SELECT a FROM t").contains("no such column"));
    store.run("ALTER TABLE t ADD a TEXT DEFAULT 'again'");
    store.run("INSERT INTO t VALUES (4, 'z', 'own')");
    store.run("UPDATE t SET b = 'w' WHERE id = 2");
    assert_eq!(["1|x|again", "2|w|again", "3|NULL|again", "4|z|own"], *lines(&mut store, "SELECT * FROM t"));
    store.run("ALTER TABLE t DROP IF EXISTS nope, ADD COLUMN IF NOT EXISTS a INT, DROP a");
    assert_eq!(["1|x", "2|w", "3|NULL", "4|z"], *lines(&mut store, "SELECT * FROM t"));
}

#[test]
fn a_row_that_is_written_again_loses_what_was_dropped() {
    let mut store = TestStore::with(&["CREATE TABLE t (id INT PRIMARY KEY, a TEXT, b TEXT)"]);
    store.run(&format!("INSERT INTO t VALUES (1, '{}', 'b')", "long ".repeat(300)));
    let bytes = |store: &mut TestStore| {
        let id = store.tables.catalog.table("t").unwrap().id;
        let source = store.tables.source();
        let mut cursor = crate::engine::Cursor::new();
        assert!(source.seek(&mut cursor, id, &crate::engine::Access::All).unwrap());
        source.row(&cursor).bytes().len()
    };
    store.run("ALTER TABLE t DROP a");
    assert!(bytes(&mut store) > 1000);
    store.run("UPDATE t SET b = 'c'");
    assert!(bytes(&mut store) < 20);
    assert_eq!(["1|c"], *lines(&mut store, "SELECT * FROM t"));
}

#[test]
fn a_column_stays_while_anything_needs_it() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE, i INT, e TEXT, f INT, g INT, gg INT AS (g + 1), k INT, \
         c INT CHECK (c > 0), n INT CONSTRAINT odd CHECK (n % 2 = 1), v INT, free INT)",
        "CREATE TABLE child (a INT REFERENCES t (u))",
        "CREATE INDEX t_i ON t (i)",
        "CREATE INDEX t_e ON t (lower(e)) WHERE f > 0",
        "CREATE TABLE o (id INT PRIMARY KEY)",
        "CREATE VIEW w AS SELECT id, v FROM t",
        "CREATE VIEW ww AS SELECT v FROM w",
        "INSERT INTO t (id, c, n) VALUES (1, 1, 1)",
    ]);
    store.run("ALTER TABLE t ADD r INT REFERENCES o");
    refused(
        &mut store,
        &[
            ("ALTER TABLE t DROP id", "part of the primary key"),
            ("ALTER TABLE t DROP u", "UNIQUE KEY t_u needs it"),
            ("ALTER TABLE t DROP i", "index t_i needs it"),
            ("ALTER TABLE t DROP e", "index t_e needs it"),
            ("ALTER TABLE t DROP f", "index t_e needs it"),
            ("ALTER TABLE t DROP g", "generated column gg needs it"),
            ("ALTER TABLE t DROP c", "CHECK c > 0 needs it"),
            ("ALTER TABLE t DROP n", "CHECK odd needs it"),
            ("ALTER TABLE t DROP r", "foreign key to table o needs it"),
            ("ALTER TABLE t DROP v", "view w needs it"),
            ("ALTER TABLE t DROP nope", "table t has no column named nope"),
            ("ALTER TABLE t DROP \"t_e#1\"", "has no column named"),
            ("ALTER TABLE o DROP id", "part of the primary key"),
            ("ALTER TABLE child DROP a", "foreign key to table t needs it"),
            ("ALTER TABLE w DROP v", "w is a view"),
            ("ALTER TABLE nope DROP v", "no such table: nope"),
        ],
    );
    store.run("ALTER TABLE t DROP gg, DROP g, DROP k, DROP free");
    store.run("DROP VIEW ww, w");
    store.run("DROP INDEX t_i");
    store.run("ALTER TABLE t DROP v, DROP i");
    store.run("ALTER TABLE IF EXISTS nope DROP v");
    assert_eq!(["1|NULL|NULL|NULL|1|1|NULL"], *lines(&mut store, "SELECT * FROM t"));
    store.run("CREATE TABLE one (a INT)");
    assert!(store.error("ALTER TABLE one DROP a").contains("no column would be left"));
}

#[test]
fn a_new_name_is_known_everywhere() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (id INT PRIMARY KEY, a INT CHECK (a > 0 AND t.a < 100), b TEXT COLLATE NOCASE DEFAULT 'a', \
         g INT AS (a * 2), UNIQUE (a))",
        "CREATE TABLE child (x INT, y INT, FOREIGN KEY (x) REFERENCES t (a) ON UPDATE CASCADE)",
        "CREATE INDEX t_e ON t (abs(a)) WHERE \"A\" > 1",
        "CREATE VIEW w (a, \"other name\") AS SELECT a, b AS a FROM t WHERE t.a > 1",
        "INSERT INTO t (id, a) VALUES (1, 10), (2, 20)",
        "INSERT INTO child VALUES (10, 1)",
    ]);
    store.run("ALTER TABLE t RENAME COLUMN a TO \"new name\"");
    store.run("ALTER TABLE child RENAME x TO xx");
    let shown = made(&mut store);
    for part in [
        "CHECK (\"new name\" > 0 AND t.\"new name\" < 100)",
        "AS (\"new name\" * 2)",
        "UNIQUE KEY t_a (\"new name\")",
        "(abs(\"new name\"))",
        "WHERE \"new name\" > 1",
        "DEFAULT 'a'",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert_eq!(["1|10|a|20", "2|20|a|40"], *lines(&mut store, "SELECT * FROM t"));
    assert_eq!(["10|a", "20|a"], *lines(&mut store, "SELECT a, \"other name\" FROM w ORDER BY 1"));
    assert!(store.plan("SELECT * FROM t WHERE abs(\"new name\") = 10 AND \"new name\" > 1").contains("t_e"));
    store.run("UPDATE t SET \"new name\" = 11 WHERE id = 1");
    assert_eq!(["11|1"], *lines(&mut store, "SELECT xx, y FROM child"));
    assert!(store.error("INSERT INTO t (id, \"new name\") VALUES (3, 0)").contains("CHECK constraint failed"));
    assert!(store.error("INSERT INTO child VALUES (5, 5)").contains("FOREIGN KEY"));
    refused(
        &mut store,
        &[
            ("ALTER TABLE t RENAME b TO ID", "duplicate column name"),
            ("ALTER TABLE t RENAME nope TO x", "has no column named nope"),
            ("ALTER TABLE t RENAME \"t_e#1\" TO x", "has no column named"),
        ],
    );
    // Only the letters' case.
    store.run("ALTER TABLE t RENAME b TO B");
    assert_eq!(["a"], *lines(&mut store, "SELECT B FROM t WHERE id = 1"));
}

#[test]
fn a_view_in_which_a_name_may_mean_two_things_stops_a_renaming() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "CREATE TABLE u (id INT PRIMARY KEY, a INT)",
        "CREATE VIEW w AS SELECT t.a, u.a AS other FROM t JOIN u USING (id)",
        "CREATE VIEW star AS SELECT * FROM t",
        "CREATE VIEW above AS SELECT a FROM star",
    ]);
    refused(&mut store, &[("ALTER TABLE t RENAME a TO b", "view w names it")]);
    store.run("DROP VIEW w");
    refused(&mut store, &[("ALTER TABLE t RENAME a TO b", "view above names it")]);
    store.run("DROP VIEW above");
    store.run("ALTER TABLE t RENAME a TO b");
    store.run("INSERT INTO t VALUES (1, 2)");
    assert_eq!(["2"], *lines(&mut store, "SELECT b FROM star"));
}

#[test]
fn a_view_of_all_columns_has_those_that_there_are() {
    let mut store = three();
    store.run("CREATE VIEW w AS SELECT * FROM t");
    store.run("CREATE VIEW ww AS SELECT * FROM w WHERE id < 3");
    assert_eq!(["1|10|x", "2|20|y"], *lines(&mut store, "SELECT * FROM ww"));
    store.run("ALTER TABLE t ADD c INT DEFAULT 7");
    assert_eq!(["1|10|x|7", "2|20|y|7"], *lines(&mut store, "SELECT * FROM ww"));
    store.run("ALTER TABLE t DROP a, RENAME c TO cc");
    assert_eq!(["x|7", "y|7"], *lines(&mut store, "SELECT b, cc FROM ww"));
    assert_eq!(3, store.rows("DESCRIBE ww", &[]).len());
}

#[test]
fn several_changes_are_made_all_or_none() {
    let mut store = three();
    refused(
        &mut store,
        &[
            ("ALTER TABLE t ADD c INT DEFAULT 1, RENAME b TO bb, DROP nope", "has no column named nope"),
            ("ALTER TABLE t RENAME TO u, ADD c INT, ADD c INT", "duplicate column name: u.c"),
            ("ALTER TABLE t ADD c INT DEFAULT 1, ADD d INT UNIQUE DEFAULT 7", "UNIQUE constraint failed"),
            ("ALTER TABLE t ADD g INT AS (a * 2), ADD c INT NOT NULL", "needs a DEFAULT"),
        ],
    );
    store.run("ALTER TABLE t ADD c INT DEFAULT 1, ADD d INT DEFAULT 2, RENAME b TO bb, DROP a, RENAME TO u");
    assert_eq!(["1|x|1|2", "2|y|1|2", "3|NULL|1|2"], *lines(&mut store, "SELECT * FROM u"));
    // Both new columns came with one version of the rows' form.
    assert_eq!(vec![3, 5], store.tables.catalog.table("u").unwrap().versions);
}

#[test]
fn new_columns_bring_their_constraints() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "CREATE TABLE o (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1, 10), (2, 20)",
        "INSERT INTO o VALUES (5)",
    ]);
    refused(
        &mut store,
        &[
            ("ALTER TABLE t ADD c INT DEFAULT 3 CHECK (c > 5)", "CHECK constraint failed: c > 5"),
            ("ALTER TABLE t ADD c INT DEFAULT 15 CHECK (c > a)", "(the row with id = 2)"),
            ("ALTER TABLE t ADD c INT DEFAULT 6 REFERENCES o", "FOREIGN KEY constraint failed"),
            ("ALTER TABLE t ADD c INT REFERENCES o (nope)", "no column nope"),
            ("ALTER TABLE t ADD c INT CHECK (nope > 1)", "no such column: nope"),
            ("ALTER TABLE t ADD c INT NOT NULL", "needs a DEFAULT that is not NULL"),
            ("ALTER TABLE t ADD c INT NOT NULL DEFAULT NULL", "needs a DEFAULT that is not NULL"),
            ("ALTER TABLE t ADD c INT DEFAULT 'x'", "cannot store"),
            ("ALTER TABLE t ADD c INT PRIMARY KEY", "cannot be added as a PRIMARY KEY"),
            ("ALTER TABLE t ADD c INT AUTO_INCREMENT", "cannot be AUTO_INCREMENT"),
            ("ALTER TABLE t ADD c POINT", "unknown column type"),
            ("ALTER TABLE t ADD A INT", "duplicate column name: t.A"),
            ("ALTER TABLE t ADD c INT AFTER nope", "no column named nope"),
        ],
    );
    store.run("ALTER TABLE t ADD c INT DEFAULT 30 CHECK (c > a), ADD o INT DEFAULT 5 REFERENCES o, ADD u INT UNIQUE");
    store.run("ALTER TABLE t ADD g INT AS (a + c) FIRST, ADD m TEXT COLLATE NOCASE DEFAULT 'm' AFTER a");
    assert_eq!(["40|1|10|m|30|5|NULL", "50|2|20|m|30|5|NULL"], *lines(&mut store, "SELECT * FROM t"));
    refused(
        &mut store,
        &[
            ("INSERT INTO t (id, a) VALUES (3, 31)", "CHECK constraint failed"),
            ("INSERT INTO t (id, o) VALUES (3, 6)", "FOREIGN KEY"),
            ("DELETE FROM o", "FOREIGN KEY"),
        ],
    );
    store.run("INSERT INTO t VALUES (3, 1, 'M', 2, NULL, 7)");
    assert!(store.error("UPDATE t SET u = 7 WHERE id = 1").contains("UNIQUE constraint failed: t.u"));
    assert_eq!(["3"], *lines(&mut store, "SELECT count(*) FROM t WHERE m = 'm'"));
    assert_eq!(["3"], *lines(&mut store, "SELECT id FROM t WHERE u = 7"));
}

#[test]
fn an_empty_table_takes_columns_without_a_new_version() {
    let mut store = TestStore::with(&["CREATE TABLE t (a TEXT)"]);
    store.run("ALTER TABLE t ADD b INT NOT NULL, ADD n INTEGER AUTO_INCREMENT");
    store.run("INSERT INTO t (a, b) VALUES ('x', 1), ('y', 2)");
    assert_eq!(["x|1|1", "y|2|2"], *lines(&mut store, "SELECT * FROM t"));
    assert_eq!(vec![3], store.tables.catalog.table("t").unwrap().versions);
}

#[test]
fn statements_that_were_compiled_before_see_the_new_schema() {
    let mut store = three();
    for text in
        ["SELECT * FROM t WHERE id = 1", "SELECT count(*) FROM t WHERE b = 'x'", "INSERT INTO t (id) VALUES (9)"]
    {
        store.run(text);
    }
    store.run("DELETE FROM t WHERE id = 9");
    store.run("ALTER TABLE t ADD c INT DEFAULT 7, DROP a");
    assert_eq!(["1|x|7"], *lines(&mut store, "SELECT * FROM t WHERE id = 1"));
    store.run("ALTER TABLE t RENAME b TO bb");
    assert!(store.error("SELECT count(*) FROM t WHERE b = 'x'").contains("no such column: b"));
    store.run("INSERT INTO t (id) VALUES (9)");
    assert_eq!(["9|NULL|7"], *lines(&mut store, "SELECT * FROM t WHERE id = 9"));
}

#[test]
fn what_was_written_and_altered_is_done_again_and_taken_back() {
    for seed in 0..20u64 {
        let mut store = three();
        let before = store.tables.digest().unwrap();
        store.changes = TableChanges::new(Wants::REDO | Wants::UNDO);
        let script = [
            "INSERT INTO t VALUES (7, 7, 'seven')",
            "ALTER TABLE t ADD c TEXT NOT NULL DEFAULT 'c', ADD g INT AS (a + 1)",
            "UPDATE t SET c = 'd' WHERE id < 3",
            "CREATE INDEX t_c ON t (c)",
            "ALTER TABLE t RENAME c TO cc, DROP b",
            "INSERT INTO t (id, a, cc) VALUES (8, 8, 'eight')",
            "UPDATE t SET a = a + 1",
            "DELETE FROM t WHERE id = 2",
            "ALTER TABLE t ADD b INT DEFAULT 3, RENAME TO t2, ALTER cc DROP DEFAULT",
            "DELETE FROM t2 WHERE id = 7",
        ];
        script.iter().take(1 + seed as usize % script.len()).for_each(|text| {
            store.run(text);
        });
        let after = store.tables.digest().unwrap();
        // The record on a store that has the rows.
        let changes = std::mem::take(&mut store.changes);
        let effect = Effect { tables: changes, ..Effect::default() };
        let mut record = Vec::new();
        redo::encode(&effect, &mut record);
        let mut other = three();
        assert!(redo::replay(&record, &mut Keyspace::new(1), &mut other.tables).is_ok());
        assert_eq!(after, other.tables.digest().unwrap(), "seed {seed}");
        assert!(undo::undo(effect, &mut Keyspace::new(1), &mut store.tables).is_ok());
        assert_eq!(before, store.tables.digest().unwrap(), "seed {seed}");
        assert_eq!(3, store.count("t"), "seed {seed}");
    }
}

#[test]
fn a_transaction_that_began_before_gets_a_conflict_on_that_table_alone() {
    let mut store = three();
    store.run("CREATE TABLE other (id INT PRIMARY KEY)");
    store.run("BEGIN");
    store.run("INSERT INTO other VALUES (1)");
    let transaction = store.transaction.take();
    store.run("ALTER TABLE t ADD c INT DEFAULT 1");
    store.transaction = transaction;
    let catalog = store.tables.catalog.clone();
    if let Some(transaction) = &mut store.transaction {
        transaction.follow(&catalog);
    }
    let error = store.error("SELECT * FROM t");
    assert!(error.contains("table t: its definition has changed"), "{error}");
    assert_eq!(1, store.count("other"));
    assert!(store.error("ALTER TABLE other ADD x INT").contains("inside a transaction"));
    store.run("COMMIT");
    assert_eq!(["1|10|x|1"], *lines(&mut store, "SELECT * FROM t WHERE id = 1"));
    assert_eq!(Reply::Int(1), store.run("DELETE FROM other"));
}

#[test]
fn sqlite_alters_tables_alike() {
    let (mut done, mut refused) = (0, 0);
    for seed in 0..40 {
        let of = |generated: &str| {
            format!(
                "(id INTEGER PRIMARY KEY, a INTEGER, b TEXT DEFAULT 'b', c INTEGER{generated}, CHECK (c IS NULL OR c < 50))"
            )
        };
        let ours = format!("CREATE TABLE t {}", of(", g INTEGER AS (a + 1)"));
        let theirs = format!("CREATE TABLE t {} STRICT", of(", g INTEGER AS (a + 1) VIRTUAL"));
        let mut pair = Pair::new(seed, &[(&ours, &theirs)], &[]);
        for text in ["CREATE INDEX t_b ON t (b)", "CREATE VIEW w AS SELECT id, a AS first FROM t WHERE a > 3"] {
            assert!(pair.they_accept(text) && pair.ours.try_run(text, &[]).is_ok());
        }
        let mut table = "t".to_string();
        for step in 0..60 {
            let (one, other) = (pair.pick(&["a", "b", "c", "d", "e", "f", "g"]), pair.pick(&["a", "d", "e", "f", "h"]));
            let n = pair.random.below(60);
            let text = match pair.random.below(16) {
                0 => format!("ALTER TABLE {table} ADD COLUMN {one} INTEGER DEFAULT {n}"),
                1 => format!("ALTER TABLE {table} ADD {one} TEXT NOT NULL DEFAULT 'n{n}' COLLATE NOCASE"),
                2 => format!("ALTER TABLE {table} ADD COLUMN {one} TEXT NOT NULL"),
                3 => format!("ALTER TABLE {table} ADD COLUMN {one} INTEGER AS (c * {n})"),
                4 | 5 => format!("ALTER TABLE {table} DROP COLUMN {one}"),
                6..9 => format!("ALTER TABLE {table} RENAME COLUMN {one} TO {other}"),
                9 if step % 3 == 0 => {
                    let new = if table == "t" { "u" } else { "t" };
                    // SQLite writes the new name into the view; ours keeps the text.
                    for drop in ["DROP VIEW IF EXISTS w", &format!("ALTER TABLE {table} RENAME TO {new}")] {
                        assert!(pair.they_accept(drop) && pair.ours.try_run(drop, &[]).is_ok(), "{drop}");
                    }
                    table = new.to_string();
                    continue;
                }
                10 => format!("DELETE FROM {table} WHERE id % 7 = {}", n % 7),
                11 => format!("UPDATE {table} SET {one} = {n} WHERE id = {}", n % 20),
                _ => format!("INSERT INTO {table} (id, {one}) VALUES ({}, {n})", pair.random.below(1000)),
            };
            // Where no row is hit, ours does not find that the column is generated.
            let def = pair.ours.tables.catalog.table(&table).unwrap();
            if text.starts_with("UPDATE") && def.column(one).is_some_and(|(_, column)| column.generated.is_some()) {
                continue;
            }
            let (theirs, ours) = (pair.they_accept(&text), pair.ours.try_run(&text, &[]));
            assert_eq!(theirs, ours.is_ok(), "seed {seed}: {text}: {ours:?}");
            (done, refused) = (done + u32::from(theirs), refused + u32::from(!theirs));
            pair.check(&format!("SELECT * FROM {table} ORDER BY id"), &[], true);
            if pair.ours.tables.catalog.view("w").is_some() {
                pair.check("SELECT * FROM w", &[], false);
            }
        }
    }
    assert!(done > 500 && refused > 200, "{done} {refused}");
}

#[test]
fn a_type_changes_at_once_or_row_by_row_or_not() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (id INT PRIMARY KEY, n INT, s VARCHAR(5), d TEXT, i INT, UNIQUE (i))",
        "INSERT INTO t VALUES (1, 10, 'abc', '2026-01-01', 1), (2, NULL, 'abcde', '2026-02-30', 2)",
        "CREATE INDEX t_s ON t (s)",
    ]);
    let version = |store: &TestStore| store.tables.catalog.table("t").unwrap().version();
    // Wider: no row is touched, and an index is no hindrance.
    store.run("ALTER TABLE t ALTER COLUMN s TYPE VARCHAR(9), ALTER n SET DATA TYPE BIGINT, ALTER s TYPE TEXT");
    assert_eq!(0, version(&store));
    // Narrower: all rows are looked at.
    store.run("ALTER TABLE t ALTER s TYPE VARCHAR(5)");
    assert_eq!(0, version(&store));
    refused(
        &mut store,
        &[
            ("ALTER TABLE t ALTER s TYPE VARCHAR(4)", "(the row with id = 2)"),
            ("ALTER TABLE t ALTER d TYPE DATE", "(the row with id = 2)"),
            ("ALTER TABLE t ALTER d TYPE INTEGER", "(the row with id = 1)"),
            ("ALTER TABLE t ALTER i TYPE TEXT", "UNIQUE KEY t_i needs it"),
            ("ALTER TABLE t ALTER s TYPE BLOB", "index t_s needs it"),
            ("ALTER TABLE t ALTER n TYPE POINT", "unknown column type"),
            ("ALTER TABLE t ALTER nope TYPE TEXT", "no column named nope"),
            ("ALTER TABLE t ALTER n TYPE TEXT USING n + 1", "USING is not supported yet"),
        ],
    );
    store.run("UPDATE t SET d = '2026-02-28' WHERE id = 2");
    store.run("ALTER TABLE t ALTER d TYPE DATE");
    assert!(store.error("UPDATE t SET d = 'x'").contains("cannot store"));
    // Another form: all rows are written again.
    store.run("ALTER TABLE t ADD g INT AS (n + 1), ADD CHECK (typeof(n) <> 'blob')");
    store.run("ALTER TABLE t ALTER n TYPE REAL, ALTER n SET DEFAULT 2.0");
    store.run("INSERT INTO t (id) VALUES (3)");
    assert_eq!(["1|10.0|11", "2|NULL|NULL"], *lines(&mut store, "SELECT id, n, g FROM t WHERE id < 3"));
    assert_eq!(["2.0"], *lines(&mut store, "SELECT n FROM t WHERE id = 3"));
    store.run("ALTER TABLE t ALTER n DROP DEFAULT, DROP g");
    store.run("ALTER TABLE t ALTER n TYPE TEXT");
    assert_eq!(["10.0", "NULL", "2.0"], *lines(&mut store, "SELECT n FROM t ORDER BY id"));
    assert_eq!("TEXT", text_of(&store.rows("DESCRIBE t", &[])[1][1]));
}

#[test]
fn constraints_come_and_go_with_the_rows_that_satisfy_them() {
    let mut store = TestStore::with(&[
        "CREATE TABLE o (id INT PRIMARY KEY, k INT)",
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, CHECK (a > 0))",
        "INSERT INTO o VALUES (1, 7)",
        "INSERT INTO t VALUES (1, 1, 1), (2, 1, NULL), (3, 2, 5)",
    ]);
    refused(
        &mut store,
        &[
            ("ALTER TABLE t ALTER b SET NOT NULL", "NOT NULL constraint failed: t.b (the row with id = 2)"),
            ("ALTER TABLE t ALTER id DROP NOT NULL", "part of the primary key"),
            (
                "ALTER TABLE t ADD CONSTRAINT small CHECK (b < 5)",
                "CHECK constraint failed: small (table t) (the row with id = 3)",
            ),
            ("ALTER TABLE t ADD CONSTRAINT u UNIQUE (a)", "UNIQUE constraint failed: t.a"),
            ("ALTER TABLE t ADD FOREIGN KEY (b) REFERENCES o", "(the row with id = 3)"),
            ("ALTER TABLE t ADD FOREIGN KEY (b) REFERENCES o (k)", "neither PRIMARY KEY nor UNIQUE"),
            ("ALTER TABLE t ADD CHECK (nope > 1)", "no such column: nope"),
            ("ALTER TABLE t ADD PRIMARY KEY (a)", "not supported yet"),
            ("ALTER TABLE t DROP CONSTRAINT nope", "no constraint named nope"),
        ],
    );
    store.run("DELETE FROM t WHERE id = 3");
    store.run("ALTER TABLE t ADD CONSTRAINT small CHECK (b < 5), ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES o");
    store.run("ALTER TABLE o ADD CONSTRAINT u UNIQUE (k), ALTER k SET NOT NULL");
    store.run("ALTER TABLE t ADD r INT, ADD CONSTRAINT fr FOREIGN KEY (r) REFERENCES o (k), ADD KEY t_r (r)");
    refused(
        &mut store,
        &[
            ("INSERT INTO t VALUES (4, 1, 6, NULL)", "CHECK constraint failed: small"),
            ("INSERT INTO t VALUES (4, 1, 3, NULL)", "FOREIGN KEY"),
            ("INSERT INTO t VALUES (4, 1, 1, 8)", "FOREIGN KEY"),
            ("INSERT INTO o VALUES (2, 7)", "UNIQUE constraint failed: o.k"),
            ("INSERT INTO o VALUES (2, NULL)", "NOT NULL"),
            ("ALTER TABLE o DROP CONSTRAINT u", "a foreign key of table t needs it"),
            ("ALTER TABLE t ADD CONSTRAINT SMALL CHECK (b < 6)", "constraint SMALL of table t already exists"),
        ],
    );
    store.run("ALTER TABLE t DROP CONSTRAINT small, DROP FOREIGN KEY f, DROP CONSTRAINT fr, DROP KEY t_r");
    store.run("ALTER TABLE t DROP CHECK (A>0), DROP CONSTRAINT IF EXISTS nope");
    store.run("ALTER TABLE o DROP CONSTRAINT u, ALTER k DROP NOT NULL");
    store.run("INSERT INTO t VALUES (4, -1, 60, 8)");
    store.run("INSERT INTO o VALUES (2, NULL), (3, 7)");
    assert!(!made(&mut store).contains("CHECK"));
}
