//! SQL on an engine that is now and then not ready and now and then fails: a statement succeeds whole or leaves nothing.

use super::oracle::{create_ours, statement};
use super::{TestStore, rows_of};
use crate::engine::TestEngine;
use crate::env::Xoshiro;
use crate::error::Result;
use crate::table::datum::Datum;

/// Runs a statement again until the engine does not fail.
fn persist(store: &mut TestStore, text: &str) -> Vec<Vec<Datum>> {
    loop {
        if let Ok(reply) = store.try_run(text, &[]) {
            let mut rows = rows_of(reply);
            rows.sort_by_key(|row| format!("{row:?}"));
            return rows;
        }
    }
}

fn run(store: &mut TestStore, text: &str) -> Result<crate::reply::Reply> {
    store.try_run(text, &[])
}

#[test]
fn statements_succeed_whole_or_leave_nothing() {
    for seed in 300..306 {
        let mut flaky = TestStore::on(Box::new(TestEngine::new(seed, 30, 8)));
        let mut calm = TestStore::new();
        create_ours(&mut calm, seed);
        while flaky.tables.catalog.tables().count() < 2 {
            // Definitions fail, too; those that were made stay.
            super::oracle::try_create_ours(&mut flaky, seed);
        }
        let mut random = Xoshiro::from_seed(seed);
        let mut failed = 0;
        for _ in 0..250 {
            // Some that SQLite's own tables refuse, or do not parse.
            let ours = [
                "UPDATE t SET id = id + 1 WHERE id < 12 RETURNING id",
                "UPDATE t SET id = 20 - id",
                "DELETE FROM t ORDER BY id DESC LIMIT 1 RETURNING *",
                "UPDATE u SET z = z + 1 ORDER BY x, y LIMIT 2",
                "INSERT INTO t (id) VALUES (30), (31) ON DUPLICATE KEY UPDATE a = coalesce(a, 0) + VALUES(id)",
            ];
            let text = match random.below(20) {
                n @ 0..5 => ours[n as usize].to_string(),
                _ => statement(&mut random),
            };
            let outcome = run(&mut flaky, &text);
            match outcome {
                Ok(reply) => assert_eq!(run(&mut calm, &text).unwrap(), reply, "{text}"),
                Err(error) if error == TestEngine::injected_error() => failed += 1,
                Err(error) => assert_eq!(run(&mut calm, &text).unwrap_err().code, error.code, "{text}: {error}"),
            }
            for table in ["t", "u"] {
                let all = format!("SELECT * FROM {table}");
                assert_eq!(persist(&mut calm, &all), persist(&mut flaky, &all), "{text}");
            }
        }
        assert!(failed > 0, "seed {seed}: the engine never failed");
    }
}
