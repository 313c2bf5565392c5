//! An index on an expression finds the rows that the expression would find: beside SQLite, whatever stands around it.

use super::TestStore;
use super::oracle::Pair;
use crate::sql::rewrite::forms;
use crate::sql::token::Tokens;

const TABLES: [(&str, &str); 2] = [
    (
        "CREATE TABLE t (id INT, a INT, s TEXT, n TEXT COLLATE NOCASE, b BLOB)",
        "CREATE TABLE t (id INT, a INT, s TEXT, n TEXT COLLATE NOCASE, b BLOB) STRICT",
    ),
    (
        "CREATE TABLE u (x TEXT, y INT, z TEXT COLLATE NOCASE)",
        "CREATE TABLE u (x TEXT, y INT, z TEXT COLLATE NOCASE) STRICT",
    ),
];

const EXPRESSIONS: [&str; 10] = [
    "abs(a)",
    "lower(s)",
    "lower(n)",
    "s || ''",
    "hex(b)",
    "a + 0",
    "length(s)",
    "CAST(s AS INTEGER)",
    "coalesce(a, 5)",
    "n || ''",
];

fn filled(indexes: &[String]) -> Pair {
    let indexes: Vec<&str> = indexes.iter().map(String::as_str).collect();
    let mut pair = Pair::new(1, &TABLES, &indexes);
    for row in ["1, 5, '5', 'A', x'35'", "2, -6, '06', 'b', x'41'", "3, 7, 'x', 'X', NULL", "4, NULL, 'X', 'x', x''"] {
        pair.both(&format!("INSERT INTO t VALUES ({row})"), &[]);
    }
    for row in ["'5', 5, 'A'", "'6', 6, 'a'", "'x', 65, 'X'", "'A', 7, 'B'", "NULL, NULL, NULL", "'', 0, ''"] {
        pair.both(&format!("INSERT INTO u VALUES ({row})"), &[]);
    }
    pair
}

/// The hidden column had the affinity and collation of a column, and its expression has none: `abs(a) = s` found nothing,
/// `lower(s) = n` told letter cases apart.
#[test]
fn comparisons_come_out_as_without_the_index() {
    let indexes: Vec<String> =
        EXPRESSIONS.iter().enumerate().map(|(i, e)| format!("CREATE INDEX i{i} ON t ({e})")).collect();
    let mut pair = filled(&indexes);
    let others = [
        "t.s",
        "u.x",
        "u.y",
        "u.z",
        "t.n",
        "'5'",
        "5",
        "'x'",
        "(SELECT u.z)",
        "u.x || ''",
        "CAST(5 AS TEXT)",
        "nullif(u.z, 'q')",
        "+u.x",
        "(u.z)",
        "lower(u.z)",
        "abs(t.a)",
        "lower(t.n)",
    ];
    for expression in EXPRESSIONS {
        let named = ["a", "s", "n", "b"]
            .iter()
            .fold(expression.to_string(), |text, name| text.replace(&format!("({name}"), &format!("(t.{name}")));
        let named = named.replace("s || ", "t.s || ").replace("n || ", "t.n || ").replace("a + ", "t.a + ");
        for other in others {
            for condition in [
                format!("{named} = {other}"),
                format!("{other} = {named}"),
                format!("{named} < {other}"),
                format!("{other} < {named}"),
                format!("({named}) >= ({other})"),
                format!("{named} IS {other}"),
                format!("{other} IS NOT {named}"),
                format!("{named} IN ({other})"),
                format!("{named} IN ({other}, 99)"),
                format!("{other} IN ({named}, 99)"),
                format!("{named} NOT IN (SELECT {other})"),
                format!("{named} BETWEEN {other} AND {other}"),
                format!("{other} BETWEEN '' AND {named}"),
                format!("NOT {named} = {other} OR {named} LIKE {other}"),
                format!("nullif({named}, {other}) IS NULL AND max('', {named}) > {other}"),
                format!("({named}, 1) <= ({other}, 2)"),
                format!("CASE {named} WHEN {other} THEN 1 END"),
            ] {
                pair.check(&format!("SELECT * FROM t, u WHERE {condition}"), &[], false);
            }
        }
        for order in ["", " COLLATE NOCASE", " DESC", " = t.n", ", t.s"] {
            pair.check(&format!("SELECT id FROM t ORDER BY {expression}{order}, id"), &[], true);
        }
        pair.check(&format!("SELECT id FROM t ORDER BY max('', {expression}, n), id"), &[], true);
    }
}

/// `LEFT JOIN .. WHERE coalesce(b.x, 0) = 0` lost the rows without a partner, whose hidden column is NULL, and so did
/// `WHERE b.gone IS NULL` beside a partial index on just that.
#[test]
fn rows_that_an_outer_join_makes_up_are_found() {
    for indexes in [
        vec![],
        vec![
            "CREATE INDEX i1 ON t (coalesce(a, 0))",
            "CREATE INDEX i2 ON t (hex(b))",
            "CREATE INDEX i3 ON t (a) WHERE a IS NULL",
        ],
        vec!["CREATE INDEX i1 ON t (id) WHERE a IS NULL AND s IS NULL", "CREATE INDEX i2 ON t (abs(a))"],
        vec!["CREATE INDEX i1 ON t (id) WHERE coalesce(a, 0) = 0", "CREATE INDEX i2 ON t (id) WHERE a > 4"],
    ] {
        let mut pair = filled(&indexes.iter().map(|i| i.to_string()).collect::<Vec<_>>());
        for join in ["u LEFT JOIN t ON u.y = t.a", "t RIGHT JOIN u ON u.y = t.a", "t FULL JOIN u ON t.s = u.x"] {
            for condition in [
                "coalesce(t.a, 0) = 0",
                "hex(t.b) = ''",
                "hex(t.b) <= 'zz'",
                "t.a IS NULL",
                "t.a IS NULL AND t.s IS NULL",
                "t.a > 4",
                "abs(t.a) > 4",
                "abs(t.a) IS NULL",
            ] {
                pair.check(&format!("SELECT * FROM {join} WHERE {condition}"), &[], false);
            }
        }
        let text = "SELECT u.x, t.id FROM u LEFT JOIN t ON u.y = t.a LEFT JOIN u AS v ON coalesce(t.a, 0) = v.y";
        pair.check(text, &[], false);
    }
}

#[test]
fn indexes_are_used_where_nothing_changes() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, s TEXT, n TEXT COLLATE NOCASE)",
        "CREATE TABLE u (x TEXT, y INT, n TEXT COLLATE NOCASE)",
        "CREATE INDEX by_lower ON t (lower(s))",
        "CREATE INDEX by_sum ON t (a + 1)",
        "CREATE INDEX few ON t (a) WHERE a > 100",
    ]);
    for (condition, used) in [
        ("lower(s) = lower(?)", true),
        ("lower(s) = 'x' || ? AND a = 1", true),
        ("('x') = lower(s)", false),
        ("? = lower(s)", true),
        ("u.x || ? = lower(s)", true),
        ("id = 3 OR lower(s) = ?", true),
        ("NOT lower(s) <> 'x'", true),
        ("(lower(s)) IN ('x', 'y')", true),
        ("lower(s) BETWEEN ? AND ?", true),
        ("id BETWEEN 1 AND 2 AND lower(s) = ?", true),
        ("s BETWEEN 'a' AND lower(s)", false),
        ("lower(s) IN (SELECT x FROM u)", true),
        ("lower(s) IN (SELECT y FROM u)", true),
        ("lower(s) IN (SELECT n FROM u)", false),
        ("lower(s) = x", true),
        ("lower(s) = n", false),
        ("lower(s) IS NOT y", true),
        ("x IS NOT lower(s)", false),
        ("(lower(s), 1) > ('x', 2)", false),
        ("lower(s) GLOB 'a*'", true),
        ("a + 1 = 7", true),
        ("a + 1 > ? + 2", true),
        ("a + 1 = x", false),
        ("a + 1 = y", true),
        ("a > 100", true),
    ] {
        let text =
            format!("SELECT * FROM t, u WHERE {}", condition.replace("(s)", "(t.s)").replace("a + 1", "t.a + 1"));
        let text = text.replace("a > 100", "t.a > 100");
        let tokens = Tokens::all(&text).unwrap();
        let forms = forms(&store.tables.catalog, &text, &tokens).unwrap();
        assert_eq!(used, forms.len() == 2, "{condition}: {forms:?}");
    }
    let joined = store.plan("SELECT * FROM u LEFT JOIN t ON lower(t.s) = u.x");
    assert!(joined.contains("by_lower"), "{joined}");
}

/// Each table that a text names took a walk through all of it, and each walk was for nothing: SQLite joins 64 tables. A text
/// of 70 kB held the store up for ten seconds.
#[test]
fn a_text_that_names_many_tables_is_read_once() {
    let mut store = TestStore::with(&["CREATE TABLE t (a INT, s TEXT)", "CREATE INDEX i ON t (lower(s))"]);
    let names: Vec<String> = (0..40_000).map(|i| format!("t AS t{i}")).collect();
    let error = store.error(&format!("SELECT 1 FROM {} WHERE lower(t1.s) = 'x'", names.join(", ")));
    assert!(error.contains("too many FROM clause terms"), "{error}");
}
