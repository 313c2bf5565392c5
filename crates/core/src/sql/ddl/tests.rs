//! What is read, and what is refused where.

use super::*;
use crate::table::catalog::{Action, Method};
use crate::table::types::Collation;

fn table(sql: &str) -> CreateTable {
    match parse(sql).unwrap() {
        Ddl::CreateTable(table) => table,
        other => panic!("{other:?}"),
    }
}

fn error(sql: &str) -> String {
    parse(sql).unwrap_err().message.into_owned()
}

#[test]
fn columns_have_types_and_constraints() {
    let t = table(
        "CREATE TABLE IF NOT EXISTS `my t` (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20) NOT NULL \
         DEFAULT 'x''y' COLLATE NOCASE, price DECIMAL(10, 2) UNIQUE, ratio DOUBLE PRECISION DEFAULT -1.5, anything, \
         at DATETIME DEFAULT CURRENT_TIMESTAMP, n INT NULL DEFAULT (1 + (2))) ENGINE = InnoDB;;",
    );
    assert_eq!(("my t", true, Some("InnoDB")), (&*t.name, t.if_not_exists, t.engine.as_deref()));
    let declared: Vec<&str> = t.columns.iter().map(|c| &*c.declared).collect();
    assert_eq!(vec!["BIGINT", "VARCHAR(20)", "DECIMAL(10,2)", "DOUBLE PRECISION", "ANY", "DATETIME", "INT"], declared);
    let defaults: Vec<Option<&str>> = t.columns.iter().map(|c| c.default.as_deref()).collect();
    let expected = [None, Some("'x''y'"), None, Some("-1.5"), None, Some("CURRENT_TIMESTAMP"), Some("(1 + (2))")];
    assert_eq!(expected.to_vec(), defaults);
    assert!(t.columns[0].autoincrement && t.columns[1].not_null);
    assert_eq!(Some(Collation::NoCase), t.columns[1].collation);
    let kinds: Vec<(KeyKind, &str)> = t.keys.iter().map(|k| (k.kind, k.parts[0].text())).collect();
    assert_eq!(vec![(KeyKind::Primary, "id"), (KeyKind::Unique, "price")], kinds);
}

#[test]
fn using_stands_in_all_its_places() {
    for sql in [
        "CREATE TABLE t (id INT PRIMARY KEY USING BTREE)",
        "CREATE TABLE t (id INT, PRIMARY KEY (id) USING BTREE)",
        "CREATE TABLE t (id INT, PRIMARY KEY USING BTREE (id))",
        "CREATE TABLE t (id INT, CONSTRAINT PRIMARY KEY USING BTREE (id) ) STORAGE MEMORY",
    ] {
        let t = table(sql);
        assert_eq!((KeyKind::Primary, Some(Method::Ordered)), (t.keys[0].kind, t.keys[0].method), "{sql}");
    }
    for sql in [
        "CREATE UNIQUE INDEX i ON t (a, b DESC) USING HASH",
        "CREATE UNIQUE INDEX i ON t USING HASH (a, b DESC)",
        "CREATE UNIQUE INDEX i USING HASH ON t (a ASC, b DESC)",
    ] {
        let Ddl::CreateIndex(index) = parse(sql).unwrap() else { panic!("{sql}") };
        assert_eq!(("i", "t", false), (&*index.name, &*index.table, index.if_not_exists));
        assert_eq!((KeyKind::Unique, Some(Method::Hash)), (index.key.kind, index.key.method));
        assert_eq!(vec![false, true], index.key.parts.iter().map(|c| c.desc).collect::<Vec<_>>());
    }
}

#[test]
fn keys_of_the_table() {
    let t = table(
        "create table t (a int, b int, key k1 (a), unique key u using hash (b), index (a, b), \
         constraint c unique (a, b), primary key (a, b desc))",
    );
    let names: Vec<Option<&str>> = t.keys.iter().map(|k| k.name.as_deref()).collect();
    assert_eq!(vec![Some("k1"), Some("u"), None, Some("c"), None], names);
    let kinds: Vec<KeyKind> = t.keys.iter().map(|k| k.kind).collect();
    use KeyKind::*;
    assert_eq!(vec![Plain, Unique, Plain, Unique, Primary], kinds);
    let t = table("CREATE TABLE t (id INTEGER, PRIMARY KEY (id AUTOINCREMENT))");
    assert!(t.columns[0].autoincrement);
    let t = table("CREATE TABLE t (key TEXT, \"index\" INT)");
    assert_eq!("key", t.columns[0].name);
}

#[test]
fn drops_and_shows() {
    let drop = |name: &str, if_exists| Drop { names: vec![name.into()], if_exists, table: None };
    assert_eq!(Ddl::DropTable(drop("t", true)), parse("DROP TABLE IF EXISTS t").unwrap());
    let index = Drop { table: Some("t".into()), ..drop("i", false) };
    assert_eq!(Ddl::DropIndex(index), parse("DROP INDEX i ON t").unwrap());
    let names = vec!["a".into(), "b".into()];
    assert_eq!(Ddl::DropView(Drop { names, if_exists: false, table: None }), parse("DROP VIEW a, b").unwrap());
    assert_eq!(Ddl::ShowTables, parse("show tables").unwrap());
    assert_eq!(Ddl::Describe("t".into()), parse("DESC t;").unwrap());
    assert_eq!(Ddl::Describe("t".into()), parse("SHOW COLUMNS FROM t").unwrap());
    assert_eq!(Ddl::ShowIndexes("t".into()), parse("SHOW INDEX FROM t").unwrap());
    assert_eq!(Ddl::ShowCreate("a b".into()), parse("SHOW CREATE TABLE \"a b\"").unwrap());
}

#[test]
fn errors_name_the_place_and_what_was_expected() {
    assert_eq!("syntax error at position 18: expected ',' or ')', found ;", error("CREATE TABLE t (a;"));
    assert_eq!("syntax error at position 19: unknown column type FOO", error("CREATE TABLE t (a FOO)"));
    assert_eq!(
        "syntax error at position 14: expected TABLE, INDEX, VIEW, TRIGGER or SCHEDULE, found SCHEMA",
        error("  DROP /* */ SCHEMA x")
    );
    assert_eq!(
        "syntax error at position 15: expected '(' and the columns, or AS and a query, found the end",
        error("CREATE TABLE t")
    );
    assert_eq!("syntax error at position 14: expected the end of the statement, found x", error("DROP TABLE t x"));
    let hash = error("CREATE INDEX i ON t (a) USING TREE");
    assert_eq!("syntax error at position 31: expected HASH or BTREE, found TREE", hash);
}

#[test]
fn constraints_are_read_with_columns_and_apart() {
    let t = table(
        "CREATE TABLE t (a INT CHECK (a > 0) CONSTRAINT small CHECK(a < 9 AND (a) <> 5), b INT GENERATED ALWAYS AS (a * 2) \
         STORED, c AS ( lower( 'X' ) ), p INT REFERENCES u ON DELETE CASCADE, CONSTRAINT sum CHECK (a + b < 100), \
         CONSTRAINT f FOREIGN KEY (a, b) REFERENCES v (x, y) ON UPDATE SET NULL ON DELETE RESTRICT DEFERRABLE)",
    );
    let checks: Vec<(Option<&str>, &str)> = t.checks.iter().map(|c| (c.name.as_deref(), &*c.expression)).collect();
    let expected = [(None, "a > 0"), (Some("small"), "a < 9 AND (a) <> 5"), (Some("sum"), "a + b < 100")];
    assert_eq!(expected.to_vec(), checks);
    assert_eq!(Some("a * 2"), t.columns[1].generated.as_deref());
    assert_eq!(Some("lower( 'X' )"), t.columns[2].generated.as_deref());
    let [first, second] = &t.foreign_keys[..] else { panic!() };
    assert_eq!(("u", Action::Cascade, Action::NoAction), (&*first.parent, first.on_delete, first.on_update));
    assert_eq!((vec!["a".to_string(), "b".into()], Some("f")), (second.columns.clone(), second.name.as_deref()));
    assert_eq!((Action::Restrict, Action::SetNull), (second.on_delete, second.on_update));
}

#[test]
fn indexes_hold_columns_and_expressions() {
    let index = |sql: &str| match parse(sql).unwrap() {
        Ddl::CreateIndex(index) => index.key,
        other => panic!("{other:?}"),
    };
    let key =
        index("CREATE INDEX i ON t (a, lower(b) DESC, (c), ((a + 1)) COLLATE NOCASE ASC) WHERE a > 1 AND b IS NULL");
    let column = |name: &str| KeyOn::Column(name.into());
    let expression = |text: &str| KeyOn::Expression(text.into());
    let on: Vec<KeyOn> = key.parts.iter().map(|p| p.on.clone()).collect();
    assert_eq!(vec![column("a"), expression("lower(b)"), column("c"), expression("a + 1")], on);
    assert!(key.parts[1].desc && !key.parts[3].desc);
    assert_eq!(Some(Collation::NoCase), key.parts[3].collation);
    assert_eq!(Some("a > 1 AND b IS NULL"), key.filter.as_deref());
    let key = index("CREATE UNIQUE INDEX i ON t (json_extract(j, '$.a,b')) WHERE x USING HASH");
    assert_eq!((Some("x"), Some(Method::Hash)), (key.filter.as_deref(), key.method));
}

#[test]
fn views_renames_and_queries_are_read() {
    let Ddl::CreateView(view) = parse("CREATE VIEW IF NOT EXISTS v (x, y) AS SELECT a, b FROM t;").unwrap() else {
        panic!()
    };
    assert_eq!(("v", "SELECT a, b FROM t", 2), (&*view.name, &*view.query, view.columns.len()));
    assert_eq!(Some("SELECT 1 AS a"), table("CREATE TABLE t ENGINE=memory AS SELECT 1 AS a").query.as_deref());
    let rename = |from: &str, to: &str| Rename { from: from.into(), to: to.into() };
    assert_eq!(Ddl::Rename(vec![rename("a", "b")]), parse("ALTER TABLE a RENAME TO b").unwrap());
    let both = vec![rename("a", "b"), rename("c", "d")];
    assert_eq!(Ddl::Rename(both), parse("RENAME TABLE a TO b, c TO d").unwrap());
}

#[test]
fn later_features_are_refused_by_name() {
    for (sql, name) in [
        ("CREATE TABLE t (a INT) STORAGE DISK", "STORAGE DISK"),
        ("CREATE TABLE t LIKE u", "LIKE"),
        ("CREATE INDEX i ON t (a(10))", "part of a column"),
        ("CREATE TEMP TABLE t (a)", "TEMP"),
        ("ALTER TABLE t MODIFY COLUMN b INT", "ALTER TABLE .. MODIFY"),
        ("ALTER TABLE t RENAME INDEX a TO b", "RENAME INDEX"),
        ("CREATE TABLE t (a INT REFERENCES u DEFERRABLE INITIALLY DEFERRED)", "INITIALLY DEFERRED"),
        ("CREATE TABLE t (a INT PRIMARY KEY ON CONFLICT IGNORE)", "ON CONFLICT"),
        ("CREATE TABLE t (a DATETIME ON UPDATE CURRENT_TIMESTAMP)", "ON UPDATE"),
    ] {
        let error = error(sql);
        assert!(error.contains(name) && error.contains("not supported yet"), "{sql}: {error}");
    }
    for (sql, what) in [
        ("CREATE TABLE t (a INT CHECK (a IN (SELECT 1)))", "position 36: a CHECK cannot query"),
        ("CREATE TABLE t (a INT CHECK (a > ?))", "position 34: a CHECK cannot have parameters"),
        ("CREATE TABLE t (a INT CHECK ())", "position 29: a CHECK without an expression"),
        ("CREATE INDEX i ON t (a) WHERE a IN u", "the condition of an index cannot query"),
        ("CREATE INDEX i ON t ()", "expected a column's name"),
    ] {
        assert!(error(sql).contains(what), "{sql}: {}", error(sql));
    }
}

#[test]
fn any_tokens_end_in_a_statement_or_an_error() {
    let mut random = crate::env::Xoshiro::from_seed(11);
    let words: Vec<&str> =
        "CREATE TABLE UNIQUE INDEX t a ( ) , INT PRIMARY KEY USING HASH DEFAULT - 'x' ON DESC IF \
                            NOT EXISTS DROP SHOW ; COLLATE NOCASE CONSTRAINT ENGINE = CHECK AS REFERENCES WHERE FOREIGN 1"
            .split_whitespace()
            .collect();
    for _ in 0..20_000 {
        let length = 2 + random.below(12);
        let text: Vec<&str> = (0..length).map(|_| words[random.below(words.len() as u64) as usize]).collect();
        let start = ["CREATE TABLE", "CREATE INDEX", "CREATE TABLE t ("][random.below(3) as usize];
        let _ = parse(&format!("{start} {}", text.join(" ")));
    }
}
