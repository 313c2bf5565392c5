//! Joins by key and by a hash table: the rows that SQLite gives, with the fast path and without it.

use super::oracle::Pair;
use super::{TestStore, rows_of};
use crate::table::datum::Datum;

const T: [(&str, &str); 5] = [("t.id", "int"), ("t.a", "int"), ("t.r", "real"), ("t.c", "text"), ("t.d", "text")];
const U: [(&str, &str); 5] = [("u.x", "int"), ("u.y", "text"), ("u.z", "int"), ("u.w", "real"), ("u.d", "text")];

/// Sets of indexes on our tables; SQLite has only the keys.
const INDEXES: [&[&str]; 4] = [
    &[],
    &["CREATE INDEX i1 ON u (z)", "CREATE INDEX i2 ON t (c)"],
    &["CREATE INDEX i1 ON u (z) USING HASH", "CREATE UNIQUE INDEX i2 ON t (id, a)", "CREATE INDEX i3 ON u (d)"],
    &[
        "CREATE INDEX i1 ON u (y, z)",
        "CREATE INDEX i2 ON t (a, c) USING HASH",
        "CREATE INDEX i3 ON u (d COLLATE BINARY)",
    ],
];

struct Made {
    pair: Pair,
    hits: usize,
}

impl Made {
    fn new(seed: u64, rows: [i64; 2]) -> Made {
        let method = if seed.is_multiple_of(2) { "HASH" } else { "BTREE" };
        let t = "a INT, r REAL, c TEXT, d TEXT COLLATE NOCASE";
        let u = "y TEXT, z INT, w REAL, d TEXT COLLATE NOCASE";
        let tables = [
            (
                format!("CREATE TABLE t (id INT PRIMARY KEY USING {method}, {t})"),
                format!("CREATE TABLE t (id INT NOT NULL PRIMARY KEY, {t}) STRICT"),
            ),
            (
                format!("CREATE TABLE u (x INT PRIMARY KEY USING {method}, {u})"),
                format!("CREATE TABLE u (x INT NOT NULL PRIMARY KEY, {u}) STRICT"),
            ),
        ];
        let tables: Vec<(&str, &str)> = tables.iter().map(|(a, b)| (&**a, &**b)).collect();
        let mut made = Made { pair: Pair::new(seed, &tables, INDEXES[(seed / 2) as usize % INDEXES.len()]), hits: 0 };
        (0..rows[0]).for_each(|i| made.insert("t", i, &["int", "real", "text", "text"]));
        (0..rows[1]).for_each(|i| made.insert("u", i, &["text", "int", "real", "text"]));
        made
    }

    fn insert(&mut self, table: &str, number: i64, kinds: &[&str]) {
        // Keys in order for a while, then with gaps, so that rows are taken from behind others, and not.
        let key = if number < 60 { number - 5 } else { number * 3 };
        let values: Vec<String> = kinds.iter().map(|kind| self.pair.literal(kind)).collect();
        self.pair.both(&format!("INSERT INTO {table} VALUES ({key}, {})", values.join(", ")), &[]);
    }

    fn condition(&mut self, side: &[(&str, &str)], params: &mut Vec<Datum>) -> String {
        let (column, kind) = side[self.pair.random.below(side.len() as u64) as usize];
        match self.pair.random.below(6) {
            0 => format!("{column} {}", self.pair.pick(&["IS NULL", "IS NOT NULL"])),
            1 => format!("{column} BETWEEN {} AND {}", self.pair.value(kind, params), self.pair.value(kind, params)),
            2 => format!("{column} IN ({}, {})", self.pair.value(kind, params), self.pair.value(kind, params)),
            _ => {
                let op = self.pair.pick(&["=", "<", "<=", ">", ">="]);
                format!("{column} {op} {}", self.pair.value(kind, params))
            }
        }
    }

    /// `FROM .. WHERE ..`
    fn from(&mut self, params: &mut Vec<Datum>) -> String {
        let on = self.pair.pick(&[
            "t.id = u.x",
            "u.x = t.id",
            "(u.x = t.id)",
            "t.a = u.x",
            "u.z = t.id",
            "t.r = u.x",
            "t.a = u.z",
            "t.c = u.y",
            "t.d = u.d",
            "t.r = u.w",
            "t.c = u.d",
            "t.c = u.z",
            "t.a = u.z AND t.c = u.y",
            "t.id = u.z AND t.a = u.x",
        ]);
        let mut text = match self.pair.random.below(5) {
            0 => format!("FROM t, u WHERE {on}"),
            1 => format!("FROM t INNER JOIN u ON {on} AND {}", self.condition(&U, params)),
            2 => format!("FROM u JOIN t ON {on}"),
            3 => format!("FROM t LEFT JOIN u ON {on}"),
            _ => format!("FROM t JOIN u ON {on}"),
        };
        for _ in 0..self.pair.random.below(3) {
            let word = if text.contains("WHERE") { "AND" } else { "WHERE" };
            let side = if self.pair.chance(50) { &T } else { &U };
            text = format!("{text} {word} {}", self.condition(side, params));
        }
        text
    }

    fn check(&mut self) {
        let mut params = Vec::new();
        let from = self.from(&mut params);
        let grouped = self.pair.pick(&["", "a", "z", "c", "y", "a, y"]);
        let list = match self.pair.random.below(4) {
            0 => "count(*), sum(t.a), max(u.z), count(y)".to_string(),
            1 if !grouped.is_empty() => format!("{grouped}, count(*), total(w), min(t.id)"),
            2 => self.pair.pick(&["t.id, u.x", "u.d, t.c, x", "u.y AS q, r", "t.id", "x, x, a"]).to_string(),
            _ => "*".into(),
        };
        let mut text = format!("SELECT {list} {from}");
        if list.starts_with(grouped) && list.contains("total(") {
            text = format!("{text} GROUP BY {grouped}");
        }
        let theirs = self.pair.ask_theirs(&text, &params).map(sorted);
        for fast in [true, false] {
            let ours = Some(sorted(ask(&mut self.pair.ours, &text, &params, fast)));
            let plan = self.pair.ours.plan(&text);
            assert_eq!(theirs, ours, "fast {fast}: {text} {params:?}\n{plan}");
        }
        if !list.contains('(') {
            self.check_limit(&text, &params, theirs.unwrap());
        }
        // Only our own words begin so.
        let plan = self.pair.ours.plan(&text);
        self.hits += usize::from(
            plan.contains("made for the statement") || plan.contains("look-up in") || plan.contains("one group"),
        );
    }

    /// With a limit there are as many rows of these.
    fn check_limit(&mut self, text: &str, params: &[Datum], all: Vec<Vec<Datum>>) {
        let (limit, offset) = (self.pair.random.below(9) as usize, self.pair.random.below(4) as usize);
        let some = ask(&mut self.pair.ours, &format!("{text} LIMIT {limit} OFFSET {offset}"), params, true);
        assert_eq!(all.len().saturating_sub(offset).min(limit), some.len(), "{text} LIMIT {limit} OFFSET {offset}");
        assert!(some.iter().all(|row| all.contains(row)), "{text} {some:?}");
    }
}

fn ask(store: &mut TestStore, text: &str, params: &[Datum], fast: bool) -> Vec<Vec<Datum>> {
    store.sql.fast_path = fast;
    let reply = store.try_run(text, params);
    store.sql.fast_path = true;
    rows_of(reply.unwrap_or_else(|error| panic!("{text}: {error}")))
}

fn sorted(mut rows: Vec<Vec<Datum>>) -> Vec<Vec<Datum>> {
    rows.sort_by_cached_key(|row| format!("{row:?}"));
    rows
}

#[test]
fn joins_give_the_rows_of_sqlite() {
    let mut hits = 0;
    for seed in 0..24 {
        let rows = [[60, 60], [200, 30], [0, 20], [30, 200], [20, 0], [200, 200]][seed as usize % 6];
        let mut made = Made::new(seed, rows);
        (0..100).for_each(|_| made.check());
        hits += made.hits;
    }
    assert!(hits > 24 * 100 / 2, "{hits} statements took the fast path");
}

#[test]
fn a_transaction_joins_its_own_rows() {
    for seed in 50..58 {
        let mut made = Made::new(seed, [80, 80]);
        made.pair.both("BEGIN", &[]);
        (80..100).for_each(|i| made.insert("t", i, &["int", "real", "text", "text"]));
        (80..90).for_each(|i| made.insert("u", i, &["text", "int", "real", "text"]));
        made.pair.both("DELETE FROM u WHERE x BETWEEN 10 AND 14", &[]);
        made.pair.both("UPDATE u SET z = 3, w = 1.5 WHERE x BETWEEN 20 AND 40", &[]);
        made.pair.both("UPDATE t SET id = id + 1000 WHERE id < 3", &[]);
        (0..60).for_each(|_| made.check());
        made.pair.both("ROLLBACK", &[]);
        (0..20).for_each(|_| made.check());
    }
}

fn filled(rows: i64) -> TestStore {
    let mut store = TestStore::with(&[
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, c TEXT)",
        "CREATE TABLE u (x INT PRIMARY KEY, z INT)",
    ]);
    for from in (0..rows).step_by(500) {
        let ids = || from..rows.min(from + 500);
        let t: Vec<String> = ids().map(|id| format!("({id}, {}, 'c{id}')", id * 7 % rows)).collect();
        let u: Vec<String> = ids().filter(|id| id % 1000 != 999).map(|id| format!("({id}, {})", id % 100)).collect();
        store.run(&format!("INSERT INTO t VALUES {}", t.join(", ")));
        store.run(&format!("INSERT INTO u VALUES {}", u.join(", ")));
    }
    store
}

#[test]
fn rows_in_the_same_order_are_followed_past_gaps() {
    let mut store = filled(5000);
    for (on, from) in [("u.x = t.id", "t JOIN u"), ("u.x = t.a", "t JOIN u"), ("u.x = t.id", "t LEFT JOIN u")] {
        let text = format!("SELECT count(*), count(x), sum(z), sum(a) FROM {from} ON {on}");
        let rows = [true, false].map(|fast| ask(&mut store, &text, &[], fast));
        assert_eq!(rows[1], rows[0], "{text}");
        let listed = format!("SELECT id, x FROM {from} ON {on}");
        let rows = [true, false].map(|fast| ask(&mut store, &listed, &[], fast));
        assert_eq!(rows[1], rows[0], "the outer table's order is kept: {listed}");
    }
}

#[test]
fn explain_tells_the_way_of_a_join() {
    let mut store = filled(50);
    store.run("CREATE TABLE big (id INT PRIMARY KEY, v INT)");
    (0..60).for_each(|id| drop(store.run(&format!("INSERT INTO big VALUES ({id}, {})", id % 9))));
    for (text, plan) in [
        ("SELECT id, z FROM t JOIN u ON u.x = t.a", "full scan of t\nhash look-up in PRIMARY of u by x"),
        ("SELECT t.id, v FROM big JOIN t ON t.id = big.id", "full scan of t\nhash look-up in PRIMARY of big by id"),
        (
            "SELECT p.id, q.c FROM t p JOIN t q ON q.id = p.a",
            "p: full scan of t\nq: hash look-up in PRIMARY of t by id",
        ),
        (
            "SELECT count(*) FROM big JOIN t ON t.a = big.v WHERE c >= 'c' AND v = 3",
            "full scan of big, filtered by v\nhash table of t by a, made for the statement, filtered by c\none group",
        ),
        (
            "SELECT z, count(*) FROM t LEFT JOIN u ON u.x = t.a WHERE t.id = ? GROUP BY z ORDER BY 2 DESC",
            "hash look-up in PRIMARY of t by id\nhash look-up in PRIMARY of u by x, for a left join\n\
             groups in a hash table, given in order, sorted for ORDER BY",
        ),
    ] {
        assert_eq!(plan, store.plan(text), "{text}");
    }
    // Without equal columns, with more tables, or sorted, it is SQLite's.
    let sorted = store.plan("SELECT id, x FROM t JOIN u ON x = a ORDER BY z");
    assert!(sorted.ends_with("sort for ORDER BY"), "{sorted}");
    assert!(store.plan("SELECT id FROM t, u WHERE id < x").ends_with("full scan of u"));
}

#[test]
fn a_hash_table_past_its_limit_is_left_to_sqlite() {
    let mut store = TestStore::with(&["CREATE TABLE p (id INT PRIMARY KEY, k INT, c TEXT)"]);
    store.run("CREATE TABLE q (id INT PRIMARY KEY, k INT)");
    for id in 0..70 {
        store.run(&format!("INSERT INTO p SELECT {id}, {}, hex(zeroblob(500000))", id % 7));
        store.run(&format!("INSERT INTO q VALUES ({id}, {})", id % 9));
    }
    let text = "SELECT count(*), count(c), min(p.id) FROM q JOIN p ON p.k = q.k";
    assert!(store.plan(text).contains("hash table of p"), "{}", store.plan(text));
    let rows = [true, false].map(|fast| ask(&mut store, text, &[], fast));
    assert_eq!(rows[1], rows[0]);
    let analysed = store.plan(&format!("ANALYZE {text}"));
    assert!(analysed.contains("full scan of p for k = ?"), "SQLite did it: {analysed}");
    let counted = store.plan("ANALYZE SELECT count(*) FROM q JOIN p ON p.k = q.k");
    assert!(counted.contains("hash table of p"), "rows that nobody looks at are not copied: {counted}");
}

#[test]
fn a_join_ends_at_its_deadline() {
    let mut store = filled(10_000);
    store.deadline_ns = Some(0);
    for on in ["u.x = t.id", "u.x = t.a", "u.z = t.a"] {
        let text = format!("SELECT count(*) FROM t JOIN u ON {on}");
        assert!(store.error(&text).contains("took too long"), "{text}");
    }
}
