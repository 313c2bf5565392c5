//! Plain SQLite beside our tables: the same statements on the same random data give the same rows and change the same,
//! with the fast path and without it, whatever the indexes are.

use super::{TestStore, rows_of};
use crate::env::Xoshiro;
use crate::reply::Reply;
use crate::sql::sqlite::{Connection, Step};
use crate::table::datum::Datum;

/// A statement's outcome: rows, or None for an error.
type Outcome = Option<Vec<Vec<Datum>>>;

pub struct Pair {
    pub ours: TestStore,
    theirs: Connection,
    pub random: Xoshiro,
    /// Writes that both refused.
    pub refused: u64,
}

/// Values for parameters.
type Params = Vec<Datum>;

impl Pair {
    pub fn new(seed: u64, tables: &[(&str, &str)], indexes: &[&str]) -> Pair {
        let mut pair = Pair {
            ours: TestStore::new(),
            theirs: Connection::open_native().unwrap(),
            random: Xoshiro::from_seed(seed),
            refused: 0,
        };
        for (ours, theirs) in tables {
            pair.ours.run(ours);
            assert!(pair.ask_theirs(theirs, &[]).is_some(), "{theirs}");
        }
        indexes.iter().for_each(|index| {
            pair.ours.run(index);
        });
        pair
    }

    pub fn ask_theirs(&mut self, text: &str, params: &[Datum]) -> Outcome {
        let mut statement = self.theirs.prepare(text, false).unwrap_or_else(|error| panic!("{text}: {error}"));
        for (i, value) in params.iter().enumerate() {
            statement.bind(i + 1, value.as_ref()).unwrap();
        }
        let mut rows = Vec::new();
        loop {
            match statement.step() {
                Step::Done => return Some(rows),
                Step::Failed(_) => return None,
                Step::Row => {
                    let columns = statement.column_count();
                    rows.push((0..columns).map(|i| statement.column(i).to_owned()).collect());
                }
            }
        }
    }

    /// Does SQLite carry out a statement?
    pub fn they_accept(&mut self, text: &str) -> bool {
        let Ok(mut statement) = self.theirs.prepare(text, false) else { return false };
        loop {
            match statement.step() {
                Step::Done => return true,
                Step::Failed(_) => return false,
                Step::Row => {}
            }
        }
    }

    fn ask_ours(&mut self, text: &str, params: &[Datum]) -> Outcome {
        match self.ours.try_run(text, params) {
            Ok(Reply::Int(_)) => Some(Vec::new()),
            Ok(reply) => Some(rows_of(reply)),
            Err(error) => {
                assert!(!matches!(error.code, crate::error::Code::Bug | crate::error::Code::Sql), "{text}: {error}");
                None
            }
        }
    }

    /// Writes the same to both.
    pub fn both(&mut self, text: &str, params: &[Datum]) {
        assert_eq!(self.ask_theirs(text, params), self.ask_ours(text, params), "{text} {params:?}");
    }

    /// Asks both; ours with and without the fast path.
    pub fn check(&mut self, text: &str, params: &[Datum], ordered: bool) {
        let theirs = sorted(self.ask_theirs(text, params), ordered);
        let is_query = text.starts_with("SELECT");
        for fast in [true, false] {
            if !is_query && !fast && self.random.below(2) == 0 {
                continue;
            }
            self.ours.sql.set_fast_path(fast || (!is_query && self.random.below(2) == 0));
            let ours = sorted(self.ask_ours(text, params), ordered);
            let plan = if ours == theirs { String::new() } else { self.describe(text) };
            assert_eq!(theirs, ours, "fast {fast}: {text} {params:?}\n{plan}");
            if !is_query {
                break;
            }
        }
        self.ours.sql.set_fast_path(true);
        self.refused += u64::from(theirs.is_none());
    }

    /// What there is to know when both differ.
    fn describe(&mut self, text: &str) -> String {
        let plan = self.ours.try_run(&format!("EXPLAIN {text}"), &[]).map(rows_of);
        let mut lines = vec![format!("{plan:?}")];
        let defs: Vec<_> = self.ours.tables.catalog.tables().cloned().collect();
        for def in defs {
            lines.push(crate::sql::schema::create_statement(&def));
            lines.push(format!("{:?}", self.ours.try_run(&format!("SELECT * FROM {}", def.name), &[]).map(rows_of)));
        }
        lines.join("\n")
    }

    pub fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.random.below(choices.len() as u64) as usize]
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    pub fn literal(&mut self, kind: &str) -> String {
        let n = self.random.below(24) as i64 - 4;
        match kind {
            _ if self.chance(5) => "NULL".into(),
            "int" => n.to_string(),
            "real" if self.chance(50) => format!("{n}.5"),
            "real" => format!("{n}.0"),
            _ => {
                let texts = ["'a'", "'A'", "'b'", "'ab'", "'AB'", "''", "'5'", "'05'", "' x'", "'x '", "'z9'", "'é'"];
                self.pick(&texts).into()
            }
        }
    }

    /// A literal, or a parameter with its value.
    pub fn value(&mut self, kind: &str, params: &mut Params) -> String {
        // Now and then a value of another type than the column's.
        let kind = if self.chance(12) { self.pick(&["int", "real", "text"]) } else { kind };
        let literal = self.literal(kind);
        if self.chance(60) {
            return literal;
        }
        params.push(match literal.as_str() {
            "NULL" => Datum::Null,
            text if text.starts_with('\'') => Datum::text(text.trim_matches('\'')),
            number if number.contains('.') => Datum::Real(number.parse().unwrap()),
            number => Datum::Int(number.parse().unwrap()),
        });
        "?".into()
    }

    fn condition(&mut self, columns: &[(&str, &str)], params: &mut Params) -> String {
        let (column, kind) = columns[self.random.below(columns.len() as u64) as usize];
        match self.random.below(16) {
            // Expressions that have indexes in one of the sets.
            14 | 15 if columns.iter().any(|(name, _)| *name == "a") => {
                let (expression, kind) =
                    [("abs(t.a)", "int"), ("coalesce(t.a, 0)", "int"), ("lower(t.c)", "text"), ("lower(t.d)", "text")]
                        [self.random.below(4) as usize];
                let op = self.pick(&["=", "=", "<", ">=", "IS"]);
                let other = if self.chance(30) {
                    self.pick(&["t.d", "t.c", "t.a", "t.b"]).into()
                } else {
                    self.value(kind, params)
                };
                let also = self.pick(&["", "", " AND t.a IS NULL", " AND coalesce(t.a, 0) > 2 AND t.c IS NOT NULL"]);
                format!("{expression} {op} {other}{also}")
            }
            0..=5 => format!("{column} = {}", self.value(kind, params)),
            6 | 7 => {
                let op = self.pick(&["<", "<=", ">", ">=", "<>"]);
                format!("{column} {op} {}", self.value(kind, params))
            }
            8 => {
                let (low, high) = (self.value(kind, params), self.value(kind, params));
                format!("{column} BETWEEN {low} AND {high}")
            }
            9 | 10 => {
                let count = 1 + self.random.below(4);
                let values: Vec<String> = (0..count).map(|_| self.value(kind, params)).collect();
                format!("{column} IN ({})", values.join(", "))
            }
            11 => format!(
                "{column} {}",
                self.pick(&["IS NULL", "IS NOT NULL", "LIKE 'a%'", "LIKE 'A' || '_'", "GLOB 'a*'", "IS 5"])
            ),
            12 => format!("{column} = {} COLLATE {}", self.value(kind, params), self.pick(&["NOCASE", "BINARY"])),
            _ => {
                let (other, _) = columns[self.random.below(columns.len() as u64) as usize];
                format!("{column} {} {other}", self.pick(&["=", "<", ">="]))
            }
        }
    }

    fn conditions(&mut self, columns: &[(&str, &str)], params: &mut Params) -> String {
        let count = 1 + self.random.below(3);
        let mut text = self.condition(columns, params);
        for _ in 1..count {
            let word = if self.chance(75) { "AND" } else { "OR" };
            text = format!("{text} {word} {}", self.condition(columns, params));
        }
        text
    }
}

fn sorted(outcome: Outcome, ordered: bool) -> Outcome {
    let mut rows = outcome?;
    if !ordered {
        rows.sort_by(|a, b| {
            let orders = a.iter().zip(b).map(|(a, b)| a.as_ref().order(b.as_ref()));
            orders.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        });
    }
    Some(rows)
}

const T: [(&str, &str); 5] = [("id", "int"), ("a", "int"), ("b", "real"), ("c", "text"), ("d", "text")];
const U: [(&str, &str); 3] = [("x", "int"), ("y", "text"), ("z", "int")];

fn tables(method: &str) -> [(String, String); 2] {
    [
        (
            format!("CREATE TABLE t (id INT PRIMARY KEY USING {method}, a INT, b REAL, c TEXT, d TEXT COLLATE NOCASE)"),
            "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, a INT, b REAL, c TEXT, d TEXT COLLATE NOCASE) STRICT".into(),
        ),
        (
            format!("CREATE TABLE u (x INT, y TEXT, z INT, PRIMARY KEY (x, y) USING {method})"),
            "CREATE TABLE u (x INT NOT NULL, y TEXT NOT NULL, z INT, PRIMARY KEY (x, y)) STRICT".into(),
        ),
    ]
}

/// Sets of indexes; the statements give the same rows with each.
const INDEXES: [&[&str]; 6] = [
    &[],
    &["CREATE INDEX i1 ON t (a)", "CREATE INDEX i2 ON t (c, a DESC)", "CREATE INDEX i3 ON u (z)"],
    &["CREATE INDEX i1 ON t (a) USING HASH", "CREATE INDEX i2 ON t (c) USING HASH", "CREATE INDEX i3 ON t (d, b)"],
    &["CREATE INDEX i1 ON t (b DESC, a)", "CREATE INDEX i2 ON t (d)", "CREATE INDEX i3 ON u (y, z)"],
    &[
        "CREATE INDEX i1 ON t (d COLLATE BINARY)",
        "CREATE INDEX i2 ON t (c COLLATE NOCASE)",
        "CREATE INDEX i3 ON t (a, b, c)",
    ],
    &[
        "CREATE INDEX i1 ON t (abs(a), c)",
        "CREATE INDEX i2 ON t (lower(d)) WHERE a IS NULL",
        "CREATE INDEX i3 ON t (coalesce(a, 0) DESC)",
        "CREATE INDEX i4 ON t (lower(c)) USING HASH",
        "CREATE INDEX i5 ON t (b) WHERE coalesce(a, 0) > 2 AND c IS NOT NULL",
    ],
];

pub fn pair(seed: u64) -> Pair {
    let method = if seed.is_multiple_of(2) { "HASH" } else { "BTREE" };
    let tables = tables(method);
    let tables: Vec<(&str, &str)> = tables.iter().map(|(a, b)| (&**a, &**b)).collect();
    Pair::new(seed, &tables, INDEXES[(seed / 2) as usize % INDEXES.len()])
}

/// Makes our tables with the indexes that `seed` chooses.
pub fn create_ours(store: &mut TestStore, seed: u64) {
    try_create_ours(store, seed);
    assert_eq!(2, store.tables.catalog.tables().count());
}

/// The same, whatever fails.
pub fn try_create_ours(store: &mut TestStore, seed: u64) {
    let tables = tables(if seed.is_multiple_of(2) { "HASH" } else { "BTREE" });
    for (ours, _) in tables {
        let _ = store.try_run(&ours, &[]);
    }
    for index in INDEXES[(seed / 2) as usize % INDEXES.len()] {
        let _ = store.try_run(index, &[]);
    }
}

/// A writing statement without parameters.
pub fn statement(random: &mut Xoshiro) -> String {
    let mut pair =
        Pair { ours: TestStore::new(), theirs: Connection::open_native().unwrap(), random: random.clone(), refused: 0 };
    let mut params = Params::new();
    let text = loop {
        params.clear();
        let text = write_statement(&mut pair, &mut params);
        if params.is_empty() {
            break text;
        }
    };
    *random = pair.random;
    text
}

pub fn fill(pair: &mut Pair) {
    for _ in 0..60 {
        let row: Vec<String> = T.iter().map(|(_, kind)| pair.literal(kind)).collect();
        pair.check(&format!("INSERT OR IGNORE INTO t VALUES ({})", row.join(", ")), &[], true);
        let row: Vec<String> = U.iter().map(|(_, kind)| pair.literal(kind)).collect();
        pair.check(&format!("INSERT OR IGNORE INTO u VALUES ({})", row.join(", ")), &[], true);
    }
}

pub fn query(pair: &mut Pair) {
    let mut params = Params::new();
    let joined: Vec<(&str, &str)> = T.iter().chain(&U).copied().collect();
    let (text, ordered) = match pair.random.below(13) {
        0..=3 => {
            let list = pair.pick(&["*", "id, c", "b, a AS q", "id"]);
            let conditions = pair.conditions(&T, &mut params);
            (format!("SELECT {list} FROM t WHERE {conditions}"), false)
        }
        4 => {
            let conditions = pair.conditions(&T, &mut params);
            let order = pair.pick(&["id", "id DESC", "a, id", "c DESC, a, id DESC", "d, b, id", "b DESC, a, id"]);
            let limit = pair.random.below(20);
            (format!("SELECT * FROM t WHERE {conditions} ORDER BY {order} LIMIT {limit}"), true)
        }
        5 => {
            let on = pair.pick(&["t.a = u.x", "t.id = u.z", "t.c = u.y", "t.d = u.y", "t.c = u.x", "t.b = u.z"]);
            let join = pair.pick(&["JOIN", "LEFT JOIN", "RIGHT JOIN"]);
            let conditions = pair.conditions(&joined, &mut params);
            (format!("SELECT * FROM t {join} u ON {on} WHERE {conditions}"), false)
        }
        6 => {
            let group = pair.pick(&["a", "c", "d", "a, c"]);
            let conditions = pair.conditions(&T, &mut params);
            let what = format!("{}, count(*), sum(a), max(id), min(b)", if group == "d" { "lower(d)" } else { group });
            (format!("SELECT {what} FROM t WHERE {conditions} GROUP BY {group}"), false)
        }
        8 => {
            // Pages after a row, in the order of some index or of none.
            let columns = pair.pick(&["a, b", "c, a", "d, b", "x, y", "b, a", "a, b, c", "id, a"]);
            let (table, all) = if columns == "x, y" { ("u", &U[..]) } else { ("t", &T[..]) };
            let kinds = columns.split(", ").map(|name| all.iter().find(|(c, _)| *c == name).unwrap().1);
            let values: Vec<String> = kinds.map(|kind| pair.value(kind, &mut params)).collect();
            let op = pair.pick(&["<", "<=", ">", ">="]);
            let conditions = if pair.chance(50) { "TRUE".into() } else { pair.conditions(all, &mut params) };
            (format!("SELECT * FROM {table} WHERE ({columns}) {op} ({}) AND {conditions}", values.join(", ")), false)
        }
        9 => {
            let columns = pair.pick(&["a", "c", "a, b", "b, a", "id", "c, a", "a, c", "lower(d)"]);
            let conditions = pair.conditions(&T, &mut params);
            let order = if pair.chance(50) { format!(" ORDER BY {columns}") } else { String::new() };
            (format!("SELECT DISTINCT {columns} FROM t WHERE {conditions}{order}"), false)
        }
        10 => {
            let what = pair.pick(&["id", "a, id", "c, id", "b DESC, a, id"]);
            let conditions = if pair.chance(50) { "TRUE".into() } else { pair.condition(&T[..2], &mut params) };
            let (limit, offset) = (pair.random.below(9), pair.random.below(40));
            (format!("SELECT id, a FROM t WHERE {conditions} ORDER BY {what} LIMIT {limit} OFFSET {offset}"), true)
        }
        11 => {
            let what =
                pair.pick(&["count(*)", "min(a)", "max(a), min(id)", "count(c)", "min(c), max(c)", "max(b), count(*)"]);
            let conditions = match pair.random.below(3) {
                0 => "TRUE".into(),
                1 => pair.condition(&T, &mut params),
                _ => pair.conditions(&T, &mut params),
            };
            let text = format!("SELECT {what} FROM t WHERE {conditions}");
            (text.replace(" WHERE TRUE", ""), true)
        }
        _ => {
            let inner = pair.conditions(&U, &mut params);
            let column = pair.pick(&["id IN (SELECT x", "c IN (SELECT y", "c IN (SELECT x", "a NOT IN (SELECT z"]);
            (format!("SELECT id FROM t WHERE {column} FROM u WHERE {inner})"), false)
        }
    };
    pair.check(&text, &params, ordered);
}

pub fn write(pair: &mut Pair) {
    let mut params = Params::new();
    let text = write_statement(pair, &mut params);
    pair.check(&text, &params, false);
    pair.check("SELECT * FROM t", &[], false);
    pair.check("SELECT * FROM u", &[], false);
}

fn write_statement(pair: &mut Pair, params: &mut Params) -> String {
    match pair.random.below(15) {
        10 => upsert_statement(pair, params),
        11 => {
            let count = 1 + pair.random.below(4);
            let row = |pair: &mut Pair| {
                format!("({}, {}, {})", pair.literal("int"), pair.literal("text"), pair.literal("int"))
            };
            let rows: Vec<String> = (0..count).map(|_| row(pair)).collect();
            let action =
                pair.pick(&["DO NOTHING", "(x, y) DO UPDATE SET z = excluded.z + u.z", "(y, x) DO UPDATE SET z = 3"]);
            format!("INSERT INTO u VALUES {} ON CONFLICT {action} RETURNING *", rows.join(", "))
        }
        12 => {
            let list = pair.pick(&["*", "id, a + 1, c || d", "(SELECT 5), d = 'A', typeof(b)"]);
            format!("UPDATE t SET a = a - 1, b = id WHERE {} RETURNING {list}", pair.conditions(&T, params))
        }
        13 => format!("DELETE FROM u WHERE {} RETURNING y, x * 2, *", pair.conditions(&U, params)),
        // One row each, as which of several is taken is arbitrary.
        14 => format!(
            "UPDATE t SET a = v.z, c = v.y FROM (SELECT x, max(z) AS z, min(y) AS y FROM u GROUP BY x) AS v \
             WHERE v.x = t.id AND {}",
            pair.conditions(&[("t.b", "real"), ("t.a", "int")], params)
        ),
        0..=2 => {
            let word = pair.pick(&["INSERT", "INSERT OR REPLACE", "REPLACE", "INSERT OR IGNORE"]);
            let row: Vec<String> = T.iter().map(|(_, kind)| pair.value(kind, params)).collect();
            format!("{word} INTO t VALUES ({})", row.join(", "))
        }
        3 => {
            let count = 1 + pair.random.below(3);
            let row = |pair: &mut Pair| format!("({}, {})", pair.literal("int"), pair.literal("text"));
            let rows: Vec<String> = (0..count).map(|_| row(pair)).collect();
            format!("INSERT INTO u (x, y) VALUES {}", rows.join(", "))
        }
        4 => {
            let (a, id) = (pair.value("int", params), pair.value("int", params));
            format!("UPDATE t SET a = {a} WHERE id = {id}")
        }
        5 => {
            let conditions = pair.conditions(&T, params);
            format!("UPDATE t SET a = a + 1, c = d WHERE {conditions}")
        }
        6 => {
            let (new, old) = (pair.value("int", params), pair.value("int", params));
            let word = pair.pick(&["UPDATE", "UPDATE OR REPLACE", "UPDATE OR IGNORE"]);
            format!("{word} t SET id = {new}, b = 1 WHERE id = {old}")
        }
        7 => format!("DELETE FROM t WHERE id = {}", pair.value("int", params)),
        8 => format!("DELETE FROM u WHERE {}", pair.conditions(&U, params)),
        _ => "INSERT OR IGNORE INTO t (id, c) SELECT x + 30, y FROM u WHERE z > 3 ORDER BY x, y LIMIT 2".into(),
    }
}

fn upsert_statement(pair: &mut Pair, params: &mut Params) -> String {
    let row: Vec<String> = T.iter().map(|(_, kind)| pair.value(kind, params)).collect();
    let target = pair.pick(&["(id)", "(id)", ""]);
    let sets = [
        "a = a - 2, b = 7",
        "a = t.a + excluded.a",
        "b = b - excluded.a",
        "a = excluded.b - a",
        "a = excluded.a + coalesce(t.a, 0)",
        "b = length(excluded.c), a = length(lower(t.d) || coalesce(excluded.c, ''))",
        "(a, b) = (SELECT max(z), 1.5 FROM u WHERE z < excluded.id)",
        "id = id + 50",
        "a = c",
    ];
    let action = if target.is_empty() || pair.chance(10) {
        "NOTHING".into()
    } else {
        let condition = match pair.random.below(3) {
            0 => format!(", c = 'c' WHERE t.a < {}", pair.value("int", params)),
            1 => format!(", c = excluded.c, d = {}", pair.value("text", params)),
            _ => String::new(),
        };
        format!("UPDATE SET {}{condition}", pair.pick(&sets))
    };
    let returning = pair.pick(&["", " RETURNING *", " RETURNING id, a IS NULL, d"]);
    format!("INSERT INTO t VALUES ({}) ON CONFLICT {target} DO {action}{returning}", row.join(", "))
}

#[test]
fn queries_answer_as_sqlite_does() {
    for seed in 0..20 {
        let mut pair = pair(seed);
        fill(&mut pair);
        (0..150).for_each(|_| query(&mut pair));
    }
}

#[test]
fn writes_change_what_sqlite_changes() {
    for seed in 100..120 {
        let mut pair = pair(seed);
        fill(&mut pair);
        for _ in 0..60 {
            write(&mut pair);
            query(&mut pair);
        }
    }
}

#[test]
fn a_large_table_is_planned_by_its_statistics() {
    let mut pair = pair(3);
    for i in 0..3000 {
        let row = format!("({}, {}, {}.5, '{}', NULL)", i, i % 40, i % 7, ["a", "b", "c"][i % 3]);
        pair.check(&format!("INSERT INTO t VALUES {row}"), &[], true);
    }
    (0..200).for_each(|_| query(&mut pair));
}
