//! Which access path a query takes, and that it gives the rows that SQLite gives on its own tables.

use super::oracle::Pair;
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
    ("SELECT min(id) FROM t", &[], "whole index PRIMARY of t in its order, index only", true),
    ("SELECT max(r) FROM t", &[], "whole index rd of t in its order, index only", true),
    ("SELECT min(r) FROM t", &[], "whole index rd of t in its order, backward, index only", true),
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
    ("SELECT a, count(*) FROM t GROUP BY a", &[], "whole index ab of t in its order, index only", true),
    ("SELECT b, a, count(*) FROM t GROUP BY b, a", &[], "whole index ab of t in its order, index only", false),
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
    ("SELECT a, b FROM t WHERE a > 40", &[], "range of index ab of t: a > ?, index only", false),
    ("SELECT sum(b), count(*) FROM t WHERE a = 3", &[], "range of index ab of t: a = ?, index only", true),
    ("SELECT c FROM t WHERE c >= 'c2999'", &[], "range of index c of t: c >= ?, index only", false),
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
