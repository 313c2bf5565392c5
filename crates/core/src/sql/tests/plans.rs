//! Which access path a query takes, and that it gives the rows that SQLite gives on its own tables.

use super::TestStore;
use super::oracle::Pair;
use crate::reply::Reply;
use crate::table::datum::Datum;

const TABLES: [(&str, &str); 2] = [
    (
        "CREATE TABLE t (id INT PRIMARY KEY USING BTREE, a INT, b INT, c TEXT, n TEXT COLLATE NOCASE, r REAL NOT NULL)",
        "CREATE TABLE t (id INT PRIMARY KEY NOT NULL, a INT, b INT, c TEXT, n TEXT COLLATE NOCASE, r REAL NOT NULL) STRICT",
    ),
    (
        "CREATE TABLE u (x INT PRIMARY KEY, y INT, z TEXT)",
        "CREATE TABLE u (x INT PRIMARY KEY NOT NULL, y INT, z TEXT) STRICT",
    ),
];

const INDEXES: [&str; 4] = [
    "CREATE INDEX ab ON t (a, b)",
    "CREATE INDEX c ON t (c)",
    "CREATE INDEX n ON t (n)",
    "CREATE INDEX rd ON t (r DESC, a DESC)",
];

fn filled(rows: i64) -> Pair {
    let mut pair = Pair::new(77, &TABLES, &INDEXES);
    for i in 0..rows {
        let a = if i % 97 == 0 { Datum::Null } else { Datum::Int(i % 50) };
        let texts = [format!("c{}", i * 7 % 3000), format!("{}{}", ["N", "n", "Ä"][i as usize % 3], i % 400)];
        let [c, n] = texts.map(Datum::text);
        let row = [Datum::Int(i), a, Datum::Int(i % 7), c, n, Datum::Real((i % 300) as f64 / 2.0)];
        pair.both("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", &row);
        let z = Datum::text(format!("c{i}"));
        pair.both("INSERT INTO u VALUES (?, ?, ?)", &[Datum::Int(i), Datum::Int(i % 100), z]);
    }
    pair
}

/// Queries with parameters, what their plan says, and whether the order of the rows is fixed.
const QUERIES: &[(&str, &[i64], &str, bool)] = &[
    // Equality and ranges on any prefix.
    ("SELECT * FROM t WHERE a = 3 AND b = 4", &[], "key look-up in ab of t by a, b", false),
    ("SELECT * FROM t WHERE a = ? AND b > ?", &[3, 2], "range of index ab of t: a = ? and b > ?", false),
    ("SELECT * FROM t WHERE a = 3 AND b BETWEEN 2 AND 5", &[], "ab of t: a = ? and b >= ? and b <= ?", false),
    ("SELECT * FROM t WHERE r < 3 AND a > 4", &[], "range of index rd of t: r < ?", false),
    ("SELECT * FROM t WHERE a IS NULL", &[], "range of index ab of t: a is NULL", false),
    ("SELECT a, b FROM t WHERE a IS NOT NULL", &[], "ab of t: a is not NULL, index only", false),
    ("SELECT * FROM t WHERE a IS NULL AND b >= 3", &[], "range of index ab of t: a is NULL and b >= ?", false),
    // Lists.
    ("SELECT * FROM t WHERE id IN (5, 3, 99, 3)", &[], "key look-up in PRIMARY of t by id, one batch", false),
    ("SELECT * FROM t WHERE a IN (1, ?) AND b IN (2, 3)", &[7], "in ab of t by a, b, one batch", false),
    ("SELECT * FROM t WHERE a IN (1, 2) AND b > 4", &[], "range of index ab of t: a in (..) and b > ?", false),
    ("SELECT id, a, b FROM t WHERE a IN (9, 3) ORDER BY a, b, id", &[], "range of index ab of t: a in (..)", true),
    (
        "SELECT a, b FROM t WHERE a IN (9, 3, NULL) ORDER BY a DESC, b DESC",
        &[],
        "a in (..), backward, index only",
        true,
    ),
    ("SELECT id FROM t WHERE id IN (9, 3, 8) ORDER BY id DESC", &[], "one batch for the list, backward", true),
    // OR.
    ("SELECT * FROM t WHERE a = 1 OR c = 'c2'", &[], "range of index ab of t: a = ?", false),
    ("SELECT * FROM t WHERE id = 1 OR c = 'c2' OR a = 7", &[], "key look-up in c of t by c", false),
    // Orders and limits.
    ("SELECT id, r, a FROM t ORDER BY r DESC, a DESC LIMIT 5", &[], "whole index rd of t in its order", false),
    ("SELECT r, a FROM t ORDER BY r, a LIMIT ?", &[5], "whole index rd of t in its order, backward, index only", true),
    ("SELECT id FROM t ORDER BY id DESC LIMIT 4", &[], "PRIMARY of t in its order, backward, index only", true),
    ("SELECT * FROM t WHERE a = 3 AND b = 2 ORDER BY a, b", &[], "key look-up in ab of t by a, b", false),
    ("SELECT * FROM t ORDER BY id LIMIT 3 OFFSET 2500", &[], "PRIMARY of t in its order, offset by count", true),
    ("SELECT * FROM t ORDER BY id DESC LIMIT ? OFFSET ?", &[3, 2900], "backward, offset by count", true),
    ("SELECT id, c FROM t WHERE id > 100 ORDER BY id LIMIT 3 OFFSET 20", &[], "id > ?, offset by count", true),
    ("SELECT id, c FROM t WHERE id > 100 ORDER BY id LIMIT 3 OFFSET 9999", &[], "id > ?, offset by count", true),
    ("SELECT b FROM t WHERE a = 3 ORDER BY b LIMIT 3 OFFSET -1", &[], "a = ?, index only, offset by count", true),
    ("SELECT id FROM t WHERE id > 90 AND c > 'c2' ORDER BY id LIMIT 3 OFFSET 20", &[], "range of index PRIMARY", true),
    ("SELECT id FROM t WHERE (id, a) > (90, 3) ORDER BY id LIMIT 3 OFFSET 20", &[], "PRIMARY of t: id >= ?", true),
    // The least, the greatest.
    ("SELECT min(id) FROM t", &[], "first entry: whole index PRIMARY of t in its order", true),
    ("SELECT min(id) + 1 FROM t", &[], "whole index PRIMARY of t in its order, index only", true),
    ("SELECT max(r) FROM t", &[], "first entry: whole index rd of t in its order", true),
    (
        "SELECT min(r), max(a), count(*) FROM t AS x",
        &[],
        "first entry: whole index rd of t in its order, backward",
        true,
    ),
    ("SELECT min(a) FROM t", &[], "first entry: range of index ab of t: a is not NULL", true),
    ("SELECT max(a) FROM t WHERE a < ?", &[7], "first entry: range of index ab of t: a < ?, backward", true),
    ("SELECT min(b) FROM t WHERE a = 77", &[], "first entry: range of index ab", true),
    ("SELECT max(r) + 1 FROM t", &[], "whole index rd of t in its order, index only", true),
    ("SELECT count(*) FROM t", &[], "number of rows of t", true),
    (
        "SELECT count(*) FROM t WHERE a BETWEEN ? AND 9",
        &[7],
        "count by range of index ab of t: a >= ? and a <= ?",
        true,
    ),
    ("SELECT count(*) FROM t WHERE c = ?", &[7], "count by range of index c of t: c = ?", true),
    ("SELECT max(b) + 1 FROM t WHERE a = 3", &[], "range of index ab of t: a = ?, backward, index only", true),
    // Keyset paging.
    (
        "SELECT a, b FROM t WHERE (a, b) > (3, 4) ORDER BY a, b LIMIT 90",
        &[],
        "range of index ab of t: (a, b) > (..), index only",
        true,
    ),
    ("SELECT * FROM t WHERE (a, b) >= (?, ?) AND a < 6", &[3, 4], "ab of t: (a, b) >= (..) and a < ?", false),
    (
        "SELECT a, b FROM t WHERE (a, b) < (?, ?) ORDER BY a DESC, b DESC LIMIT 9",
        &[3, 4],
        "(a, b) < (..), backward",
        true,
    ),
    (
        "SELECT r, a FROM t WHERE (r, a) < (9.5, ?) ORDER BY r DESC, a DESC LIMIT 9",
        &[4],
        "rd of t: (r, a) < (..)",
        true,
    ),
    ("SELECT r, a FROM t WHERE (r, a) > (9.5, ?) ORDER BY r, a LIMIT 50", &[4], "(r, a) > (..), backward", true),
    ("SELECT * FROM t WHERE (a, b, id) > (3, 4, ?)", &[200], "range of index ab of t: (a, b) > (..)", false),
    ("SELECT * FROM t WHERE (a, b) > (3, NULL)", &[], "range of index ab of t: (a, b) > (..)", false),
    ("SELECT * FROM t WHERE (a, b) > (NULL, 3)", &[], "range of index ab of t: (a, b) > (..)", false),
    ("SELECT * FROM t WHERE (a, b) > ('3', '4')", &[], "range of index ab of t: (a, b) > (..)", false),
    ("SELECT * FROM t JOIN u ON (t.a, u.y) > (47, 3) AND u.x = t.b", &[], "of t: a >= ?", false),
    // Groups.
    ("SELECT a, count(*) FROM t GROUP BY a LIMIT 99", &[], "whole index ab of t in its order, index only", true),
    (
        "SELECT b, a, count(*) FROM t GROUP BY b, a LIMIT 999",
        &[],
        "whole index ab of t in its order, index only",
        false,
    ),
    ("SELECT a, b, sum(r) FROM t WHERE a = 3 GROUP BY b", &[], "range of index ab of t: a = ?", false),
    ("SELECT DISTINCT a FROM t", &[], "ab of t in its order, index only, jumping to each a", false),
    ("SELECT DISTINCT b, a FROM t WHERE a > 40", &[], "range of index ab of t: a > ?, index only", false),
    (
        "SELECT DISTINCT a FROM t WHERE a < 9 ORDER BY a DESC",
        &[],
        "a < ?, backward, index only, jumping to each a",
        true,
    ),
    ("SELECT DISTINCT b FROM t WHERE a = 9", &[], "a = ?, index only", false),
    ("SELECT DISTINCT a FROM t WHERE b % 2 = 1", &[], "ab of t in its order, index only, jumping to each a, b", false),
    // Patterns.
    ("SELECT * FROM t WHERE n LIKE 'n1%'", &[], "range of index n of t: n >= ? and n < ?", false),
    ("SELECT * FROM t WHERE n LIKE 'n' || ?", &[17], "range of index n of t: n like ?", false),
    ("SELECT * FROM t WHERE n LIKE 'N' || ? || '_'", &[1], "range of index n of t: n like ?", false),
    ("SELECT * FROM t WHERE n LIKE '%' || ?", &[7], "range of index n of t: n like ?", false),
    ("SELECT * FROM t WHERE c GLOB 'c12*'", &[], "range of index c of t: c >= ? and c < ?", false),
    ("SELECT * FROM t WHERE c GLOB 'c1' || ? || '?'", &[2], "range of index c of t: c glob ?", false),
    ("SELECT * FROM t WHERE c LIKE 'c12%'", &[], "full scan of t", false),
    // The index alone.
    ("SELECT a + b FROM t WHERE a > 40", &[], "range of index ab of t: a > ?, index only", false),
    ("SELECT sum(b) + 0, count(*) FROM t WHERE a = 3", &[], "range of index ab of t: a = ?, index only", true),
    ("SELECT upper(c) FROM t WHERE c >= 'c2999'", &[], "range of index c of t: c >= ?, index only", false),
    ("SELECT r FROM t WHERE r > 140 AND a > 3", &[], "range of index rd of t: r > ?, index only", false),
    ("SELECT n FROM t WHERE n > 'n9'", &[], "range of index n of t: n > ?", false),
    // The selective index, and the selective table first.
    ("SELECT * FROM t WHERE a = 3 AND c = 'c21'", &[], "key look-up in c of t by c", false),
    ("SELECT * FROM t WHERE a = ? AND id = ?", &[3, 3], "key look-up in PRIMARY of t by id", false),
    (
        "SELECT * FROM t, u WHERE t.a = u.y AND u.x IN (7, 9)",
        &[],
        "hash look-up in PRIMARY of u by x, one batch for the list\nrange of index ab of t: a = ?",
        false,
    ),
    ("SELECT count(*) FROM t JOIN u ON u.z = t.n", &[], "full scan of t\nfull scan of u for z = ?", true),
    ("SELECT * FROM u WHERE x IN (SELECT b FROM t WHERE a = 3)", &[], "hash look-up in PRIMARY of u by x", false),
];

#[test]
fn plans_are_good_and_their_rows_right() {
    let mut pair = filled(3000);
    let mut wrong = Vec::new();
    for (text, params, words, ordered) in QUERIES {
        let plan = pair.ours.plan(text);
        if !plan.contains(words) {
            wrong.push(format!("{text}\n    expected {words}\n    got      {plan}"));
        }
        let params: Vec<Datum> = params.iter().map(|i| Datum::Int(*i)).collect();
        pair.check(text, &params, *ordered);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn explain_tells_each_part_of_a_step() {
    let mut pair = filled(2000);
    let rows = pair.ours.rows("EXPLAIN SELECT * FROM t JOIN u ON u.x = t.b WHERE a = 3 ORDER BY c", &[]);
    let texts: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(super::text_of).collect()).collect();
    let expected = [
        ["range of index ab of t: a = ?", "t", "range", "ab", "a = ?", "40"],
        ["hash look-up in PRIMARY of u by x", "u", "hash look-up", "PRIMARY", "x = ?", "1"],
        ["sort for ORDER BY", "NULL", "NULL", "NULL", "NULL", "NULL"],
    ];
    assert_eq!(expected.map(|row| row.map(String::from).to_vec()).to_vec(), texts);
}

/// Words, loops, visited and yielded of each step.
fn analysed(pair: &mut Pair, text: &str, params: &[Datum]) -> Vec<(String, [i64; 3])> {
    let rows = pair.ours.rows(&format!("EXPLAIN ANALYZE {text}"), params);
    let number = |value: &Datum| if let Datum::Int(i) = value { *i } else { -1 };
    let step = |row: &Vec<Datum>| {
        assert!(number(&row[9]) >= 0, "{row:?}");
        (super::text_of(&row[0]), [6, 7, 8].map(|i| number(&row[i])))
    };
    rows.iter().filter(|row| row[6] != Datum::Null).map(step).collect()
}

#[test]
fn analyze_counts_what_each_step_reads() {
    let mut pair = filled(2000);
    let expect = |steps: &[(&str, [i64; 3])]| -> Vec<(String, [i64; 3])> {
        steps.iter().map(|(words, counts)| (words.to_string(), *counts)).collect()
    };
    let steps = analysed(&mut pair, "SELECT * FROM t JOIN u ON u.x = t.b WHERE a = ? ORDER BY c", &[Datum::Int(3)]);
    let expected = expect(&[
        ("range of index ab of t: a = ?", [1, 40, 40]),
        ("hash look-up in PRIMARY of u by x", [40, 40, 40]),
        ("rows of the result", [1, 40, 40]),
    ]);
    assert_eq!(expected, steps);
    let steps = analysed(&mut pair, "SELECT count(*) FROM t JOIN u ON u.z = t.n", &[]);
    assert_eq!(("full scan of t".to_string(), [1, 2000, 2000]), steps[0]);
    // The first question scans, the second builds a table of all rows.
    assert_eq!([2000, 4000], [steps[1].1[0], steps[1].1[1]]);
    let steps = analysed(&mut pair, "SELECT * FROM t WHERE id = 7", &[]);
    assert_eq!([1, 1, 1], steps[0].1);
    let steps = analysed(&mut pair, "SELECT * FROM t WHERE (a, b) > (3, 4) ORDER BY a, b LIMIT 10", &[]);
    assert_eq!(("range of index ab of t: (a, b) > (..)".to_string(), [1, 10, 10]), steps[0]);
    // A write is done.
    let steps = analysed(&mut pair, "UPDATE t SET b = 100 WHERE a = 3", &[]);
    let expected = expect(&[("range of index ab of t: a = ?", [1, 40, 40]), ("rows changed", [1, 40, 40])]);
    assert_eq!(expected, steps);
    assert_eq!(40, pair.ours.rows("SELECT id FROM t WHERE b = 100", &[]).len());
    let steps = analysed(&mut pair, "INSERT INTO u VALUES (9000, 1, 'x'), (9001, 1, 'x')", &[]);
    assert_eq!(("rows changed".to_string(), [1, 2, 2]), steps[1]);
    assert_eq!(2002, pair.ours.count("u"));
    assert!(pair.ours.error("EXPLAIN ANALYZE INSERT INTO u VALUES (9000, 1, 'x')").contains("CONSTRAINT"));
}

#[test]
fn the_selective_index_is_found_in_skewed_data() {
    let (ours, theirs) = (
        "CREATE TABLE t (id INT PRIMARY KEY, state TEXT, who INT, day INT)",
        "CREATE TABLE t (id INT \
                          PRIMARY KEY NOT NULL, state TEXT, who INT, day INT) STRICT",
    );
    let indexes =
        ["CREATE INDEX s ON t (state, day)", "CREATE INDEX w ON t (who)", "CREATE INDEX d ON t (day) USING HASH"];
    let mut pair = Pair::new(5, &[(ours, theirs)], &indexes);
    for i in 0..4000 {
        // Nearly all rows are done; a few people have most rows.
        let state = Datum::text(if i % 500 == 0 { "open" } else { "done" });
        let who = if i % 4 == 0 { i } else { i % 3 };
        pair.both("INSERT INTO t VALUES (?, ?, ?, ?)", &[Datum::Int(i), state, Datum::Int(who), Datum::Int(i % 365)]);
    }
    for (text, words) in [
        ("SELECT * FROM t WHERE state = 'open' AND who = 1", "range of index s of t: state = ?"),
        ("SELECT * FROM t WHERE state = 'done' AND who = 4", "key look-up in w of t by who"),
        ("SELECT * FROM t WHERE state = ? AND who = ?", "key look-up in w of t by who"),
        ("SELECT * FROM t WHERE state = ? AND day = ?", "key look-up in s of t by state, day"),
        ("SELECT * FROM t WHERE day = ? AND state > ?", "hash look-up in d of t by day"),
        (
            "SELECT * FROM t WHERE state = 'done' AND day BETWEEN 3 AND 4 AND who = 1",
            "state = ? and day >= ? and day <= ?",
        ),
    ] {
        assert!(pair.ours.plan(text).contains(words), "{text}: {}", pair.ours.plan(text));
        let params = [Datum::text("done"), Datum::Int(8)];
        let params = if text.contains("> ?") { [params[1].clone(), params[0].clone()] } else { params };
        pair.check(text, if text.contains('?') { &params } else { &[] }, false);
    }
}

/// SQLite sorts for `count(DISTINCT a)` whatever indexes there are; a table of 200,000 rows took it most of a second.
#[test]
fn distinct_values_are_counted_by_an_index() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT COLLATE NOCASE, c INT)",
        "CREATE INDEX ta ON t (a, c)",
        "CREATE INDEX tb ON t (b)",
        "CREATE INDEX th ON t (c) USING HASH",
    ]);
    for i in 0..600 {
        let b = ["'x'", "'X'", "'y'", "NULL"][i % 4];
        store.run(&format!("INSERT INTO t VALUES ({i}, {}, {b}, {})", i % 9, i % 5));
    }
    for (text, expected, plan) in [
        ("SELECT count(DISTINCT a) FROM t", 9, "whole index ta of t in its order, index only"),
        ("SELECT COUNT( DISTINCT b ) AS n FROM t;", 2, "whole index tb of t in its order"),
        ("SELECT count(DISTINCT a) FROM t WHERE a > 3 AND id < ?1", 5, "a > ?"),
        ("SELECT count(DISTINCT c) FROM t", 5, "sort for count(DISTINCT)"),
        ("SELECT count(DISTINCT a) FROM t WHERE a > 5 LIMIT 1", 3, "sort for count(DISTINCT)"),
        ("SELECT count(DISTINCT x.a) FROM t AS x", 9, "sort for count(DISTINCT)"),
    ] {
        let params: Vec<Datum> = text.contains("?1").then_some(Datum::Int(500)).into_iter().collect();
        assert_eq!(vec![vec![Datum::Int(expected)]], store.rows(text, &params), "{text}");
        let shown = store.plan(text);
        assert!(shown.contains(plan), "{text}: {shown}");
    }
    let Reply::Array(rows) = store.run("SELECT count(DISTINCT a) FROM t") else { panic!() };
    assert_eq!(Reply::bulks(["count(DISTINCT a)"]), rows[0]);
}

#[test]
fn rows_in_a_list_are_looked_up() {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (a INT, b TEXT, c INT, PRIMARY KEY (a, b))",
        "CREATE INDEX tc ON t (c, b)",
        "CREATE TABLE u (x INT, y TEXT)",
    ]);
    for (text, plan) in [
        ("SELECT c FROM t WHERE (a, b) IN (VALUES (1, 'x'), (2, 'y'))", "hash look-up in PRIMARY of t by a, b"),
        ("SELECT c FROM t WHERE (a, b) IN (SELECT x, y FROM u)", "hash look-up in PRIMARY of t by a, b"),
        ("SELECT a FROM t WHERE (b, c) IN (SELECT y, x FROM u)", "key look-up in tc of t by c, b"),
    ] {
        let shown = store.plan(text);
        assert!(shown.contains(plan), "{text}: {shown}");
    }
}
