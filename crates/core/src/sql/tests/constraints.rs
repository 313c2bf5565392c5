//! CHECK, generated columns, defaults, expression and partial indexes: SQLite's own STRICT tables accept, refuse and hold
//! the same, over random tables and random writes, whatever indexes come and go meanwhile.

use super::oracle::Pair;
use crate::env::Xoshiro;

fn pick<'a>(random: &mut Xoshiro, choices: &[&'a str]) -> &'a str {
    choices[random.below(choices.len() as u64) as usize]
}

const CHECKS: [&str; 16] = [
    "a > 0",
    "a < 20 OR b IS NULL",
    "length(c) < 3",
    "c <> d",
    "d <> c",
    "d = 'x' OR a > 2",
    "a BETWEEN -3 AND 15",
    "b >= '1'",
    "c < 5",
    "typeof(b) <> 'text' AND t.a IS NOT 7",
    "CASE WHEN a > 5 THEN c IS NOT NULL ELSE 1 END",
    "a IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)",
    "d IN ('A', 'b', 'AB', 'x ')",
    "c LIKE 'a%' OR c IS NULL OR a > 3",
    "a -- a comment\n > 1",
    "NULL",
];

const GENERATED: [(&str, &str); 8] = [
    ("g INT", "a * 2"),
    ("g INT UNIQUE", "length(c) + id"),
    // SQLite forgets the type of whole numbers here.
    ("g REAL", "b / 2 + 0.125"),
    ("g INT", "b"),
    ("h TEXT NOT NULL", "lower(c) || coalesce(d, '')"),
    ("h TEXT COLLATE NOCASE UNIQUE", "c || id"),
    ("k ANY", "coalesce(c, a, b)"),
    ("k", "abs(a)"),
];

/// A table of five columns, with what chance demands of them. SQLite wants a type for each.
fn table(random: &mut Xoshiro) -> (String, String) {
    let mut lines = vec![
        "id INT NOT NULL PRIMARY KEY".to_string(),
        format!("a INT {}", pick(random, &["", "DEFAULT 4", "DEFAULT (abs(-6) + 1)"])),
        format!("b REAL {}", pick(random, &["", "DEFAULT 2.5", "NOT NULL DEFAULT 1"])),
        format!("c TEXT {}", pick(random, &["", "DEFAULT 'ab'", "DEFAULT (lower('A'))"])),
        format!("d TEXT COLLATE NOCASE {}", pick(random, &["", "DEFAULT 'x'"])),
    ];
    let mut kinds: Vec<&str> = Vec::new();
    for _ in 0..random.below(3) {
        let (name, expression) = GENERATED[random.below(8) as usize];
        if !kinds.contains(&&name[..1]) {
            kinds.push(&name[..1]);
            let name = if name == "k" { "k ANY" } else { name };
            lines.push(format!(
                "{name} GENERATED ALWAYS AS ({expression}) {}",
                pick(random, &["STORED", "VIRTUAL", ""])
            ));
        }
    }
    if kinds.contains(&"g") && random.below(2) == 0 {
        lines.push("m ANY AS (g + 1)".into());
        lines.push("CHECK (m IS NULL OR m < 60)".into());
    }
    for _ in 0..random.below(3) {
        let place = if random.below(2) == 0 { lines.len() } else { 1 };
        let check = pick(random, &CHECKS);
        if place == 1 {
            lines[1] += &format!(" CONSTRAINT one CHECK ({check})");
        } else {
            lines.push(format!("CONSTRAINT two CHECK ({check})"));
        }
    }
    // Constraints of the table come last in SQLite.
    lines.sort_by_key(|line| line.starts_with("CONSTRAINT") || line.starts_with("CHECK"));
    let text = format!("CREATE TABLE t (\n{}\n) STRICT", lines.join(",\n"));
    let method = pick(random, &["HASH", "BTREE"]);
    (text.replacen("PRIMARY KEY", &format!("PRIMARY KEY USING {method}"), 1), text)
}

const INDEXES: [&str; 14] = [
    "CREATE INDEX i ON t (a)",
    "CREATE INDEX i ON t (lower(c))",
    "CREATE INDEX i ON t (a + 1, b DESC)",
    "CREATE INDEX i ON t (c || d COLLATE NOCASE)",
    "CREATE INDEX i ON t (CAST(c AS INTEGER) DESC)",
    "CREATE INDEX i ON t (CAST(d AS TEXT))",
    "CREATE INDEX i ON t (c) WHERE a > 3",
    "CREATE INDEX i ON t (a) WHERE c IS NOT NULL AND a > 2",
    "CREATE INDEX i ON t (lower(d)) WHERE a < 9 OR b > 1",
    "CREATE INDEX i ON t (length(c)) WHERE d = 'AB'",
    "CREATE UNIQUE INDEX i ON t (c) WHERE a > 3",
    "CREATE UNIQUE INDEX i ON t (lower(c), a)",
    "CREATE UNIQUE INDEX i ON t (a + 0)",
    "CREATE UNIQUE INDEX i ON t (d) WHERE length(c) = 2",
];

/// Makes an index on ours; on SQLite's only if it forbids anything.
fn add_index(pair: &mut Pair) {
    let text = pick(&mut pair.random, &INDEXES);
    if text.contains("UNIQUE") {
        return pair.check(text, &[], true);
    }
    let method = if text.contains("WHERE") { "" } else { pick(&mut pair.random, &["", " USING HASH", " USING BTREE"]) };
    pair.ours.run(&format!("{text}{method}"));
}

fn drop_index(pair: &mut Pair) {
    pair.ours.run("DROP INDEX IF EXISTS i");
    let _ = pair.ask_theirs("DROP INDEX IF EXISTS i", &[]);
}

fn row(pair: &mut Pair) -> String {
    let id = pair.random.below(40);
    format!(
        "{id}, {}, {}, {}, {}",
        pair.literal("int"),
        pair.literal("real"),
        pair.literal("text"),
        pair.literal("text")
    )
}

fn write(pair: &mut Pair) {
    let text = match pair.random.below(12) {
        0..=2 => {
            let word = pick(&mut pair.random, &["INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE", "REPLACE"]);
            format!("{word} INTO t VALUES ({})", row(pair))
        }
        3 | 4 => {
            let rows: Vec<String> = (0..1 + pair.random.below(3)).map(|_| format!("({})", row(pair))).collect();
            format!("INSERT INTO t (id, a, b, c, d) VALUES {}", rows.join(", "))
        }
        5 => format!("INSERT OR IGNORE INTO t (id, c) VALUES ({}, {})", pair.random.below(40), pair.literal("text")),
        6 => format!("INSERT INTO t (d, id) SELECT d, id + 20 FROM t WHERE id = {}", pair.random.below(20)),
        7 | 8 => {
            let column = pick(&mut pair.random, &["a", "b", "c", "d"]);
            let kind = if column < "b" {
                "int"
            } else if column == "b" {
                "real"
            } else {
                "text"
            };
            let word = pick(&mut pair.random, &["UPDATE", "UPDATE OR IGNORE", "UPDATE"]);
            format!("{word} t SET {column} = {} WHERE id = {}", pair.literal(kind), pair.random.below(40))
        }
        9 => {
            let new = pick(&mut pair.random, &["a = a + 1", "c = d, d = c", "b = a", "a = length(c)"]);
            let which = condition(pair);
            // SQLite judges UNIQUE after each row, ours after all of them.
            format!("UPDATE t SET {new} WHERE id = {} AND ({which})", pair.random.below(40))
        }
        10 => format!("UPDATE t SET a = x.n, c = 'q' FROM (SELECT 5 AS n) AS x WHERE id = {}", pair.random.below(40)),
        _ => format!("DELETE FROM t WHERE id = {}", pair.random.below(40)),
    };
    pair.check(&text, &[], true);
    pair.check("SELECT * FROM t", &[], false);
}

/// Conditions that hold the expressions of the indexes, or nearly.
fn condition(pair: &mut Pair) -> String {
    let (int, text) = (pair.literal("int"), pair.literal("text"));
    let one = match pair.random.below(14) {
        0 => format!("lower(c) = {text}"),
        1 => format!("a + 1 = {int}"),
        2 => format!("2 * a + 1 > {int}"),
        3 => format!("c || d = {text}"),
        4 => format!("CAST(c AS INTEGER) < {text}"),
        5 => format!("CAST(d AS TEXT) = {text}"),
        6 => format!("a > 3 AND c = {text}"),
        7 => format!("c >= {text} AND a > 3"),
        8 => format!("c IS NOT NULL AND b > 0 AND a > 2 AND a < {int}"),
        9 => format!("(a < 9 OR b > 1) AND LOWER(d) = {text}"),
        10 => format!("d = 'AB' AND length(c) IN ({int}, 2, 1)"),
        11 => format!("b BETWEEN 1 AND a > 3 AND c > {text}"),
        12 => format!("(a + 1) * 2 = {int}"),
        _ => format!("a > 3 OR c = {text}"),
    };
    if pair.random.below(4) == 0 { format!("NOT ({one})") } else { one }
}

fn query(pair: &mut Pair) {
    let which = condition(pair);
    let order = pick(
        &mut pair.random,
        &["", "ORDER BY lower(c), id", "ORDER BY a + 1, b DESC, id LIMIT 7", "ORDER BY c || d, id"],
    );
    let text = match pair.random.below(4) {
        0 => format!("SELECT lower(c), count(*) FROM t WHERE {which} GROUP BY lower(c)"),
        1 => {
            let qualified = format!("lower(x.c) = {} AND x.a > 3 AND y.a + 1 < 9", pair.literal("text"));
            format!("SELECT x.id, y.id FROM t AS x JOIN t AS y ON x.a = y.a WHERE {qualified}")
        }
        2 => format!("SELECT id, (SELECT count(*) FROM t AS u WHERE lower(u.c) = lower(t.c)) FROM t WHERE {which}"),
        _ => format!("SELECT *, lower(c) FROM t WHERE {which} {order}"),
    };
    let ordered = text.contains("ORDER");
    pair.check(&text, &[], ordered);
}

#[test]
fn rows_are_refused_and_kept_as_by_sqlite() {
    let mut refused = 0;
    for seed in 400..460 {
        let mut random = Xoshiro::from_seed(seed);
        let (ours, theirs) = table(&mut random);
        let mut pair = Pair::new(seed, &[(&ours, &theirs)], &[]);
        for step in 0..80 {
            match step % 20 {
                5 => add_index(&mut pair),
                17 => drop_index(&mut pair),
                _ => write(&mut pair),
            }
            query(&mut pair);
        }
        refused += pair.refused;
    }
    assert!(refused > 500, "hardly anything was refused: {refused}");
}
