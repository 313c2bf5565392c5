//! GROUP BY and aggregates: the same groups as SQLite's, in its order and to the last bit, with the fast path and without
//! it, in transactions too.
//!
//! The last bit of a sum depends on the order in which numbers are added. We add in the order of the rows. SQLite does the
//! same where an index gives the groups; where it sorts, it also sorts by the first column beside those grouped by. So it
//! is told to use an index, and without the fast path only sums that are exact in any order are compared.

use super::oracle::Pair;
use super::{TestStore, rows_of};
use crate::table::datum::Datum;

/// Columns, and a native table of the same. Decimals are tested apart, as SQLite has none of its own.
fn tables(method: &str) -> [(String, String); 1] {
    let columns = "k INT, big INT, r REAL, c TEXT, d TEXT COLLATE NOCASE, e TEXT COLLATE RTRIM, b BLOB";
    [(
        format!("CREATE TABLE t (id INT PRIMARY KEY USING {method}, {columns})"),
        format!("CREATE TABLE t (id INT NOT NULL PRIMARY KEY, {columns}) STRICT"),
    )]
}

/// Sets of indexes. Those on columns that are not grouped by change the order in which numbers are added, so they come
/// with numbers whose sums are exact.
const INDEXES: [&[&str]; 4] = [
    &[],
    &["CREATE INDEX i1 ON t (k)"],
    &["CREATE INDEX i1 ON t (k) USING HASH", "CREATE INDEX i2 ON t (c, k)"],
    &["CREATE INDEX i1 ON t (r DESC)", "CREATE INDEX i2 ON t (d)"],
];

/// What is grouped by.
const GROUPS: [&str; 12] = ["", "k", "c", "d", "e", "r", "b", "big", "k, c", "d, k", "c, r, k", "id"];

/// The index by which SQLite is to find the groups.
fn index_of(groups: &str) -> String {
    format!("by_{}", groups.replace(", ", "_"))
}

struct Made {
    pair: Pair,
    /// Sums do not depend on the order.
    exact: bool,
    hits: usize,
}

impl Made {
    fn new(seed: u64, rows: i64) -> Made {
        let tables = tables(if seed.is_multiple_of(2) { "HASH" } else { "BTREE" });
        let tables: Vec<(&str, &str)> = tables.iter().map(|(a, b)| (&**a, &**b)).collect();
        let indexes = INDEXES[(seed / 2) as usize % INDEXES.len()];
        let mut made = Made { pair: Pair::new(seed, &tables, indexes), exact: !indexes.is_empty(), hits: 0 };
        for groups in GROUPS.iter().filter(|groups| !groups.is_empty()) {
            let index = format!("CREATE INDEX {} ON t ({groups})", index_of(groups));
            assert!(made.pair.ask_theirs(&index, &[]).is_some());
        }
        for id in 0..rows {
            made.insert(id);
        }
        made
    }

    fn insert(&mut self, id: i64) {
        let mut row = vec![Datum::Int(id)];
        row.extend((0..7).map(|column| self.value(column)));
        self.pair.both("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?)", &row);
    }

    fn value(&mut self, column: usize) -> Datum {
        let pair = &mut self.pair;
        if pair.chance(10) {
            return Datum::Null;
        }
        let n = pair.random.below(9) as i64 - 3;
        let wild = [1e300, -1e300, 1e16, 0.1, -0.3, 1e-9, 1.0, 4e18, f64::INFINITY, 123456.789];
        match column {
            0 => Datum::Int(n),
            1 => {
                Datum::Int([1, -2, i64::MAX, i64::MIN, i64::MAX / 3, 1 << 52, -(1 << 52) - 1, 1 << 60][n as usize & 7])
            }
            2 if self.exact => Datum::Real(n as f64 / 4.0),
            2 => Datum::Real(wild[pair.random.below(10) as usize]),
            3 => Datum::text(pair.pick(&["a", "A", "b", "", "5", "é", "a much longer text than the others"])),
            4 => Datum::text(pair.pick(&["a", "A", "ab", "aB", "B", "b"])),
            5 => Datum::text(pair.pick(&["x", "x ", "x  ", "y", " x"])),
            _ => Datum::blob(pair.pick(&["", "\0", "a", "\u{1}b"]).as_bytes()),
        }
    }

    fn condition(&mut self, params: &mut Vec<Datum>) -> String {
        let pair = &mut self.pair;
        let column = pair.pick(&["id", "k", "k", "c", "d", "e", "r", "big"]);
        let kind = match column {
            "id" | "k" | "big" => "int",
            "r" => "real",
            _ => "text",
        };
        match pair.random.below(8) {
            0 => format!("{column} {}", pair.pick(&["IS NULL", "IS NOT NULL"])),
            1 => format!("{column} BETWEEN {} AND {}", pair.value(kind, params), pair.value(kind, params)),
            2 => format!("{column} IN ({}, {})", pair.value(kind, params), pair.value(kind, params)),
            3 => format!("{column} <> {}", pair.value(kind, params)),
            _ => {
                let op = pair.pick(&["=", "==", "<", "<=", ">", ">="]);
                format!("{column} {op} {}", pair.value(kind, params))
            }
        }
    }

    fn call(&mut self) -> String {
        let function = self.pair.pick(&["count", "sum", "total", "avg", "min", "max"]);
        let column = match function {
            "sum" | "total" | "avg" => self.pair.pick(&["k", "r", "big", "id", "r", "c"]),
            _ => self.pair.pick(&["k", "r", "c", "d", "e", "b", "id", "*"]),
        };
        if column == "*" { "count(*)".into() } else { format!("{function}({column})") }
    }

    /// A query, its parameters, whether it fixes the order of its rows, and what it groups by.
    fn query(&mut self) -> (String, Vec<Datum>, bool, &'static str) {
        let mut params = Vec::new();
        let calls: Vec<String> = (0..1 + self.pair.random.below(4)).map(|_| self.call()).collect();
        let groups = self.pair.pick(&GROUPS);
        let mut items: Vec<&str> = groups.split(", ").filter(|_| self.pair.random.below(9) > 0).collect();
        items.retain(|item| !item.is_empty());
        let named = self.pair.chance(40);
        let shown =
            calls.iter().enumerate().map(|(i, call)| if named { format!("{call} AS n{i}") } else { call.clone() });
        let shown: Vec<String> = items.iter().map(|item| item.to_string()).chain(shown).collect();
        let mut text = format!("SELECT {} FROM t", shown.join(", "));
        for i in 0..self.pair.random.below(3) {
            let word = if i == 0 { "WHERE" } else { "AND" };
            text = format!("{text} {word} {}", self.condition(&mut params));
        }
        if groups.is_empty() {
            return (text, params, true, groups);
        }
        text = format!("{text} GROUP BY {groups}");
        if self.pair.chance(25) {
            let what = if named && self.pair.chance(50) { "n0".into() } else { self.call() };
            let op = self.pair.pick(&["=", "<", "<=", ">", ">="]);
            text = format!("{text} HAVING {what} {op} {}", self.pair.value("int", &mut params));
        }
        let ordered = self.pair.chance(50);
        if ordered {
            let mut first = match self.pair.random.below(4) {
                0 if named => "n0 DESC, ".into(),
                1 => format!("{} DESC, ", self.call()),
                2 if !items.is_empty() => format!("1 {}, ", self.pair.pick(&["DESC", "ASC"])),
                _ => String::new(),
            };
            // Infinite averages are NULL for one and a sum for the other order; sums are no good order then.
            if !self.exact {
                first = String::new();
            }
            // Backward the index gives the rows of a group backward.
            let direction = if self.exact { self.pair.pick(&["", " DESC"]) } else { "" };
            text = format!("{text} ORDER BY {first}{}", groups.replace(", ", &format!("{direction}, ")) + direction);
            if self.pair.chance(40) {
                text = format!("{text} LIMIT {}", self.pair.random.below(6) as i64 - 1);
                if self.pair.chance(50) {
                    text = format!("{text} OFFSET {}", self.pair.random.below(4));
                }
            }
        }
        (text, params, ordered, groups)
    }

    fn check(&mut self) {
        let (text, params, ordered, groups) = self.query();
        let index = if groups.is_empty() { "NOT INDEXED".into() } else { format!("INDEXED BY {}", index_of(groups)) };
        let asked = text.replace("FROM t", &format!("FROM t {index}"));
        let theirs = self.pair.ask_theirs(&asked, &params);
        let by_end = ["min(", "max("].iter().any(|call| text.contains(call));
        let alike = |outcome| if self.exact || by_end { alike(outcome) } else { outcome };
        let theirs = sorted(alike(theirs), ordered);
        for fast in [true, false] {
            if !fast && !self.exact {
                continue;
            }
            let ours = sorted(alike(ask(&mut self.pair.ours, &text, &params, fast)), ordered);
            assert!(same(&theirs, &ours), "fast {fast}: {text} {params:?}\ntheirs {theirs:?}\nours   {ours:?}");
        }
        self.hits += usize::from(self.pair.ours.plan(&text).contains("group"));
    }
}

type Outcome = Option<Vec<Vec<Datum>>>;

/// The rows, or None for an error.
fn ask(store: &mut TestStore, text: &str, params: &[Datum], fast: bool) -> Outcome {
    store.sql.fast_path = fast;
    let reply = store.try_run(text, params);
    store.sql.fast_path = true;
    match reply {
        Ok(reply) => Some(rows_of(reply)),
        Err(error) => {
            assert!(error.message.contains("integer overflow"), "{text}: {error}");
            None
        }
    }
}

fn sorted(outcome: Outcome, ordered: bool) -> Outcome {
    let mut rows = outcome?;
    if !ordered {
        rows.sort_by_cached_key(|row| format!("{row:?}"));
    }
    Some(rows)
}

/// Which of several equal texts stands for a group depends on the order of the rows, too, or on the row of min() or max():
/// they are made the same.
fn alike(outcome: Outcome) -> Outcome {
    let one = |value: Datum| match value {
        Datum::Text(text) => {
            Datum::text(std::str::from_utf8(&text).unwrap().to_ascii_lowercase().trim_end_matches(' '))
        }
        value => value,
    };
    Some(outcome?.into_iter().map(|row| row.into_iter().map(one).collect()).collect())
}

/// To the last bit.
fn same(a: &Outcome, b: &Outcome) -> bool {
    format!("{a:?}") == format!("{b:?}")
}

#[test]
fn groups_are_those_of_sqlite() {
    let mut hits = 0;
    for seed in 0..32 {
        let mut made = Made::new(seed, [40, 0, 300, 1][(seed / 8) as usize]);
        (0..120).for_each(|_| made.check());
        hits += made.hits;
    }
    assert!(hits > 32 * 120 / 2, "{hits} statements took the fast path");
}

#[test]
fn a_transaction_groups_its_own_rows() {
    for seed in 100..108 {
        let mut made = Made::new(seed, 60);
        made.pair.both("BEGIN", &[]);
        for id in 60..80 {
            made.insert(id);
        }
        // Rows that change their places would be added in another order.
        made.pair.both("DELETE FROM t WHERE id IN (3, 5, 61) OR id > 77", &[]);
        made.pair.both("UPDATE t SET k = 7, c = 'new' WHERE id BETWEEN 10 AND 20", &[]);
        (0..80).for_each(|_| made.check());
        made.pair.both("ROLLBACK", &[]);
        (0..20).for_each(|_| made.check());
    }
}

#[test]
fn decimals_are_grouped_by_value() {
    let mut store = TestStore::with(&["CREATE TABLE t (id INT PRIMARY KEY, m DECIMAL, n DECIMAL(9, 2), k INT)"]);
    for id in 0..200 {
        let text = ["1.5", "10", "9.25", "-3", "0", "100.125"][id % 6];
        let m = if id % 11 == 0 { "NULL".into() } else { format!("'{text}'") };
        store.run(&format!("INSERT INTO t VALUES ({id}, {m}, '{}.50', {})", id % 7, id % 5));
    }
    for text in [
        "SELECT m, count(*), avg(id), sum(k) FROM t GROUP BY m",
        "SELECT count(m), max(m), min(m) FROM t GROUP BY n ORDER BY n DESC",
        "SELECT n, count(m) FROM t GROUP BY n ORDER BY n DESC",
        "SELECT k, min(m), max(m), min(n), max(n) FROM t GROUP BY k ORDER BY k",
        "SELECT k, max(m) AS most FROM t GROUP BY k ORDER BY most, k",
        "SELECT min(m), max(m), count(m) FROM t WHERE m > 2",
        "SELECT k, count(*) FROM t WHERE m >= '9' AND n <= 4.5 GROUP BY k",
        "SELECT k, count(*) FROM t WHERE m = '10.00' GROUP BY k",
    ] {
        let rows = [true, false].map(|fast| sorted(ask(&mut store, text, &[], fast), false));
        assert!(same(&rows[0], &rows[1]), "{text}: {rows:?}");
        assert!(store.plan(text).contains("group"), "{text}: {}", store.plan(text));
    }
    let plan = store.plan("SELECT k, sum(n) FROM t GROUP BY k");
    assert!(!plan.contains("hash table"), "a sum of texts is SQLite's: {plan}");
}

#[test]
fn groups_come_in_the_order_of_their_columns() {
    let mut store = TestStore::with(&["CREATE TABLE t (id INT PRIMARY KEY, k INT, c TEXT COLLATE NOCASE)"]);
    store.run("INSERT INTO t VALUES (1, 30, 'b'), (2, -5, 'A'), (3, NULL, 'a'), (4, 300, NULL), (5, 30, 'B')");
    let keys = |store: &mut TestStore, text: &str| -> Vec<String> {
        store
            .rows(text, &[])
            .iter()
            .map(|row| format!("{}:{}", super::text_of(&row[0]), super::text_of(&row[1])))
            .collect()
    };
    assert_eq!(["NULL:1", "-5:1", "30:2", "300:1"], *keys(&mut store, "SELECT k, count(*) FROM t GROUP BY k"));
    assert_eq!(["NULL:1", "A:2", "b:2"], *keys(&mut store, "SELECT c, count(*) FROM t GROUP BY c"));
    let busy = "SELECT c, count(*) n FROM t GROUP BY c HAVING n > 1 ORDER BY 2, c DESC LIMIT 1 OFFSET 1";
    assert_eq!(["A:2"], *keys(&mut store, busy));
}

#[test]
fn many_integers_find_their_groups() {
    let mut store = TestStore::with(&["CREATE TABLE t (id INT PRIMARY KEY, k INT)"]);
    for from in (0..12_000i64).step_by(500) {
        let rows: Vec<String> = (from..from + 500).map(|id| format!("({id}, {})", id * 7919 % 4000 - 2000)).collect();
        store.run(&format!("INSERT INTO t VALUES {}", rows.join(", ")));
    }
    let rows = store.rows("SELECT k, count(*), min(id) FROM t GROUP BY k", &[]);
    let first = |k: i64| (0..4000).find(|id| id * 7919 % 4000 - 2000 == k).unwrap();
    let expected: Vec<Vec<Datum>> =
        (-2000..2000).map(|k| vec![Datum::Int(k), Datum::Int(3), Datum::Int(first(k))]).collect();
    assert_eq!(expected, rows);
}

#[test]
fn explain_tells_of_the_hash_table() {
    let mut store = TestStore::with(&["CREATE TABLE t (id INT PRIMARY KEY, k INT, c TEXT)", "CREATE INDEX i ON t (k)"]);
    (0..9).for_each(|id| drop(store.run(&format!("INSERT INTO t VALUES ({id}, {}, 'x')", id % 3))));
    for (text, plan) in [
        ("SELECT c, count(*) FROM t GROUP BY c", "full scan of t\ngroups in a hash table, given in order"),
        ("SELECT sum(id) FROM t WHERE c = 'x'", "full scan of t, filtered by c\none group"),
        (
            "SELECT c, max(id) m FROM t WHERE k > 1 AND c > 'a' GROUP BY c HAVING m > 3 ORDER BY m",
            "range of index i of t: k > ?, filtered by c\n\
             groups in a hash table, given in order, filtered by HAVING, sorted for ORDER BY",
        ),
    ] {
        assert_eq!(plan, store.plan(text), "{text}");
    }
    let analysed = store.rows("EXPLAIN ANALYZE SELECT c, count(*) FROM t GROUP BY c", &[]);
    assert_eq!(Datum::Int(9), analysed[0][7], "rows visited: {analysed:?}");
    // What needs the first entries of an index alone is left to SQLite.
    for text in [
        "SELECT k, count(*) FROM t GROUP BY k LIMIT 2",
        "SELECT k FROM t GROUP BY k",
        "SELECT max(k) FROM t WHERE c = 'x'",
    ] {
        assert!(!store.plan(text).contains("group"), "{text}: {}", store.plan(text));
    }
}

#[test]
fn a_long_walk_ends_at_its_deadline() {
    let mut store = TestStore::with(&["CREATE TABLE t (id INT PRIMARY KEY, k INT)"]);
    for from in (0..10_000).step_by(500) {
        let rows: Vec<String> = (from..from + 500).map(|id| format!("({id}, {})", id % 10)).collect();
        store.run(&format!("INSERT INTO t VALUES {}", rows.join(", ")));
    }
    assert_eq!(10, store.rows("SELECT k, count(*) FROM t GROUP BY k", &[]).len());
    store.deadline_ns = Some(0);
    assert!(store.error("SELECT k, count(*) FROM t GROUP BY k").contains("took too long"));
    assert!(store.error("SELECT sum(k) FROM t").contains("took too long"));
}
