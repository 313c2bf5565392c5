//! Statements at their limits: a clear error, or an answer, on the smallest stack; never the end of the process.

use super::TestStore;
use crate::error::Code;
use crate::limits;
use crate::sql::sqlite::memory;
use crate::table::datum::Datum;

/// The stack that `limits.rs` promises to be enough for any statement.
const STACK_BYTES: usize = 512 << 10;

/// Runs `body` with a store on a thread with a small stack.
fn on_a_small_stack(body: impl FnOnce(&mut TestStore) + Send + 'static) {
    let tables = ["CREATE TABLE t (a INT PRIMARY KEY, b TEXT)", "INSERT INTO t VALUES (1, 'x')"];
    let run = move || body(&mut TestStore::with(&tables));
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).unwrap().join().unwrap();
}

#[test]
fn a_pattern_that_recurses_is_refused_when_long() {
    on_a_small_stack(|store| {
        for (word, any) in [("LIKE", "%a"), ("GLOB", "*a")] {
            let match_it = |store: &mut TestStore, wildcards: usize| {
                let (text, pattern) = ("a".repeat(wildcards) + "b", any.repeat(wildcards) + "b");
                store.try_run(&format!("SELECT ? {word} ?"), &[Datum::text(text), Datum::text(pattern)])
            };
            assert!(match_it(store, limits::SQL_PATTERN_BYTES_MAX / 2 - 1).is_ok());
            let error = match_it(store, 25_000).unwrap_err().to_string();
            assert_eq!("SQL LIKE or GLOB pattern too complex", error);
        }
    });
}

#[test]
fn the_deepest_statements_fit_a_small_stack() {
    on_a_small_stack(|store| {
        let depth = limits::SQL_EXPRESSION_DEPTH_MAX - 5;
        let with = |limit: &str| {
            let next = |i| format!("c{} AS (SELECT a FROM c{i}{limit})", i + 1);
            let all: Vec<String> = (0..depth).map(next).collect();
            format!("WITH c0 AS (SELECT a FROM t), {} SELECT * FROM c{depth}", all.join(", "))
        };
        for text in [
            format!("SELECT {} FROM t", vec!["a = 1"; depth].join(" OR ")),
            format!("SELECT 1 FROM t WHERE {}", vec!["a = 1"; depth].join(" AND ")),
            format!("SELECT {} FROM t", vec!["b"; depth].join(" || ")),
            format!("SELECT {}1", "- ".repeat(depth)),
            format!("SELECT {}1{}", "(".repeat(depth), ")".repeat(depth)),
            format!("SELECT {}a{} FROM t", "abs(".repeat(400), ")".repeat(400)),
            format!("SELECT {}a{} FROM t", "CASE WHEN a THEN ".repeat(400), " END".repeat(400)),
            format!("{}t{}", "SELECT * FROM (".repeat(400), ")".repeat(400)),
            vec!["SELECT a FROM t"; limits::SQL_COMPOUND_MAX].join(" UNION "),
            with(""),
            with(" LIMIT 5"),
            format!("SELECT json('{}{}')", "[".repeat(1000), "]".repeat(1000)),
        ] {
            assert!(store.try_run(&text, &[]).is_ok(), "{}", &text[..60]);
        }
        for text in [
            format!("SELECT {} FROM t", vec!["a = 1"; 20_000].join(" OR ")),
            format!("SELECT {}1{}", "(".repeat(100_000), ")".repeat(100_000)),
            format!("SELECT {}a{} FROM t", "(SELECT ".repeat(5_000), ")".repeat(5_000)),
            format!("SELECT 1 FROM t WHERE {}1{}", "EXISTS (SELECT 1 FROM t WHERE ".repeat(5_000), ")".repeat(5_000)),
            vec!["SELECT a FROM t"; 5_000].join(" UNION ALL "),
        ] {
            assert!(store.try_run(&text, &[]).is_err(), "{}", &text[..60]);
        }
    });
}

#[test]
fn values_are_no_longer_than_a_row() {
    let mut store = TestStore::new();
    let longest = format!("SELECT length(zeroblob({}))", limits::SQL_VALUE_BYTES_MAX);
    assert!(store.try_run(&longest, &[]).is_ok());
    assert!(store.error("SELECT length(zeroblob(100000000))").contains("too big"));
    assert!(store.error("SELECT length(randomblob(500000000))").contains("too big"));
    let long = Datum::blob(vec![0; limits::SQL_VALUE_BYTES_MAX + 1]);
    assert!(store.try_run("SELECT length(?)", &[long]).is_err());
}

#[test]
fn a_statement_gets_so_much_memory_and_no_more() {
    let mut store = TestStore::with(&["CREATE TABLE t (a INT PRIMARY KEY, b TEXT)", "INSERT INTO t VALUES (1, 'x')"]);
    let columns = vec!["zeroblob(16000000) || ''"; 100].join(", ");
    let error = store.try_run(&format!("SELECT {columns}"), &[]).unwrap_err();
    assert_eq!(Code::Oom, error.code);
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n LIMIT 100)";
    let error = store.error(&format!("INSERT INTO t {numbers} SELECT i, hex(zeroblob(8000000)) FROM n ORDER BY 2, 1"));
    assert!(error.starts_with("OOM out of memory"), "{error}");
    assert_eq!(1, store.count("t"));
}

#[test]
fn a_statement_that_lacks_memory_at_any_point_leaves_nothing() {
    let tables = [
        "CREATE TABLE t (a INT PRIMARY KEY, b TEXT DEFAULT (lower('UP')), c DECIMAL(9, 2))",
        "CREATE INDEX i ON t (c)",
    ];
    let texts = [
        "INSERT INTO t (a, c) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 60) \
         SELECT i, i * 0.5 FROM n ORDER BY i % 7",
        "UPDATE t SET b = b || hex(zeroblob(50)), c = c + 1 WHERE a % 3 > 0",
        "SELECT b, sum(c), group_concat(a) FROM t JOIN (SELECT a AS k FROM t) ON k = c GROUP BY b ORDER BY 2",
        "DELETE FROM t WHERE a IN (SELECT a + 1 FROM t WHERE c > 3)",
    ];
    let all = |store: &mut TestStore| store.rows("SELECT * FROM t ORDER BY a", &[]);
    for (number, text) in texts.iter().enumerate() {
        let made = || {
            let mut store = TestStore::with(&tables);
            texts[..number].iter().for_each(|text| drop(store.run(text)));
            store
        };
        let (mut whole, mut failed) = (made(), 0);
        let before = all(&mut whole);
        whole.run(text);
        let after = all(&mut whole);
        let mut store = made();
        for limit in (0..).step_by(307) {
            match memory::limited(limit, || store.try_run(text, &[])) {
                Ok(_) => break,
                Err(error) => assert_eq!(Code::Oom, error.code, "{error}"),
            }
            failed += 1;
            assert_eq!(before, all(&mut store), "{text} with {limit} bytes");
        }
        assert_eq!(after, all(&mut store));
        assert!(failed > 10, "{text} failed {failed} times");
    }
}
