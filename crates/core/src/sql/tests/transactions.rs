//! Statements inside transactions: they do what they do outside, savepoints do what SQLite's do, COMMIT changes all or
//! nothing, and what it changed can be done again and taken back.

use super::oracle::{self, Pair, create_ours, fill, pair, query, statement, write};
use super::{TestStore, rows_of};
use crate::engine::{Memory, ReadError, TestEngine, WriteFailure};
use crate::env::Xoshiro;
use crate::error::{Code, Result};
use crate::keyspace::{Keyspace, Wants};
use crate::sql::control::Control;
use crate::sql::run::Host;
use crate::table::datum::Datum;
use crate::txn::commit::{self, Claims};
use crate::txn::{Effect, TableChanges, Tables, Transaction, redo, undo};

/// Carries out a statement about the transaction of a store without sessions.
pub fn control(store: &mut TestStore, control: &Control) -> Result<()> {
    match (control, &mut store.transaction) {
        (Control::Begin { .. }, open) => *open = Some(Transaction::begin(&mut store.tables, 1, false)?),
        (Control::Savepoint(name), Some(transaction)) => transaction.savepoint(name)?,
        (Control::Release(name), Some(transaction)) => drop(transaction.release(name)?),
        (Control::RollbackTo(name), Some(transaction)) => transaction.rollback_to(name, &mut Keyspace::new(1))?,
        (Control::Rollback, open) => *open = None,
        (Control::Commit, open) => {
            let transaction = open.take().unwrap();
            loop {
                match publish(store, &transaction) {
                    Ok(()) => break,
                    Err(ReadError::NotReady(wanted)) => store.fetch(&wanted)?,
                    Err(ReadError::Failed(error)) => return Err(error),
                }
            }
        }
        _ => panic!("no transaction is open"),
    }
    Ok(())
}

fn publish(store: &mut TestStore, transaction: &Transaction) -> std::result::Result<(), ReadError> {
    let overlay = transaction.overlay();
    commit::check_rows(overlay, &store.tables, &Claims::new(1), 1)?;
    let scope = store.tables.open(&mut store.changes);
    let result = commit::write_rows(overlay, &mut store.tables, &mut store.changes);
    match result {
        Ok(()) => store.tables.keep(&mut store.changes, scope),
        Err(_) => store.tables.undo(&mut store.changes, scope),
    }
    result.map_err(|error| match error.failure {
        WriteFailure::NotReady(wanted) => ReadError::NotReady(wanted),
        WriteFailure::Failed(error) => ReadError::Failed(error),
        other => panic!("{other:?}"),
    })
}

/// Runs a statement that gives no rows on both.
fn both(pair: &mut Pair, text: &str) {
    pair.ours.run(text);
    assert!(pair.ask_theirs(text, &[]).is_some(), "{text}");
}

fn compare_all(pair: &mut Pair) {
    for table in ["t", "u"] {
        pair.check(&format!("SELECT * FROM {table}"), &[], false);
    }
}

/// Sets savepoints, goes back to some, forgets others; keeps the names of those that are set.
fn savepoints(pair: &mut Pair, set: &mut Vec<&'static str>) {
    if set.is_empty() || pair.chance(50) {
        let name = ["a", "b", "c"][set.len() % 3];
        set.push(name);
        return both(pair, &format!("SAVEPOINT {name}"));
    }
    let name = pair.pick(&["a", "b", "c"]);
    let Some(at) = set.iter().rposition(|known| *known == name) else { return };
    let (word, left) = if pair.chance(60) { ("ROLLBACK TO", at + 1) } else { ("RELEASE", at) };
    set.truncate(left);
    both(pair, &format!("{word} {name}"));
}

#[test]
fn statements_inside_do_what_they_do_outside() {
    for seed in 500..530 {
        let mut pair = pair(seed);
        (0..seed % 3).for_each(|_| fill(&mut pair));
        for _ in 0..3 {
            both(&mut pair, "BEGIN");
            let mut set = Vec::new();
            for _ in 0..40 {
                write(&mut pair);
                query(&mut pair);
                if pair.chance(20) {
                    savepoints(&mut pair, &mut set);
                    compare_all(&mut pair);
                }
            }
            let end = pair.pick(&["COMMIT", "COMMIT", "ROLLBACK"]);
            both(&mut pair, end);
            compare_all(&mut pair);
            (0..10).for_each(|_| query(&mut pair));
        }
    }
}

#[test]
fn a_large_write_set_is_planned_by_its_statistics() {
    let mut pair = pair(3);
    both(&mut pair, "BEGIN");
    for i in 0..2000 {
        let row = format!("({}, {}, {}.5, '{}', NULL)", i, i % 40, i % 7, ["a", "b", "c"][i % 3]);
        pair.check(&format!("INSERT INTO t VALUES {row}"), &[], true);
    }
    (0..100).for_each(|_| query(&mut pair));
}

#[test]
fn commits_replay_and_undo_exactly() {
    for seed in 600..606 {
        let mut pair = pair(seed);
        pair.ours = TestStore::new();
        pair.ours.changes = TableChanges::new(Wants::REDO | Wants::UNDO);
        create_ours(&mut pair.ours, seed);
        pair.ours.run("CREATE TABLE s (id INTEGER PRIMARY KEY AUTO_INCREMENT, c TEXT)");
        fill(&mut pair);
        for end in ["COMMIT", "ROLLBACK", "COMMIT"] {
            both(&mut pair, "BEGIN");
            (0..30).for_each(|_| write(&mut pair));
            pair.ours.run("INSERT INTO s SELECT NULL, c FROM t");
            both(&mut pair, end);
        }
        let effect = Effect { tables: std::mem::take(&mut pair.ours.changes), ..Effect::default() };
        let mut record = Vec::new();
        redo::encode(&effect, &mut record);
        let (mut keyspace, mut tables) = (Keyspace::new(1), Tables::new(Box::new(Memory::new())));
        assert!(redo::replay(&record, &mut keyspace, &mut tables).is_ok());
        assert_eq!(pair.ours.tables.digest().unwrap(), tables.digest().unwrap(), "seed {seed}");
        assert!(undo::undo(effect, &mut keyspace, &mut pair.ours.tables).is_ok());
        assert_eq!(0, pair.ours.tables.catalog.tables().count());
    }
}

/// All rows of both tables.
fn all(store: &mut TestStore) -> Vec<Vec<Datum>> {
    let mut rows = Vec::new();
    for table in ["t", "u"] {
        // On an engine that fails at random somebody must ask again.
        let reply = loop {
            if let Ok(reply) = store.try_run(&format!("SELECT * FROM {table}"), &[]) {
                break reply;
            }
        };
        rows.extend(rows_of(reply));
    }
    rows.sort_by_key(|row| format!("{row:?}"));
    rows
}

#[test]
fn on_an_engine_that_fails_transactions_commit_whole_or_not_at_all() {
    let (mut failed_statements, mut failed_commits) = (0, 0);
    for seed in 700..706 {
        let mut flaky = TestStore::on(Box::new(TestEngine::new(seed, 30, 6)));
        let mut calm = TestStore::new();
        create_ours(&mut calm, seed);
        while flaky.tables.catalog.tables().count() < 2 {
            oracle::try_create_ours(&mut flaky, seed);
        }
        let mut random = Xoshiro::from_seed(seed);
        for _ in 0..25 {
            flaky.run("BEGIN");
            calm.run("BEGIN");
            for _ in 0..8 {
                let text = statement(&mut random);
                match flaky.try_run(&text, &[]) {
                    Ok(reply) => assert_eq!(calm.try_run(&text, &[]).unwrap(), reply, "{text}"),
                    Err(error) if error.code == Code::Engine => failed_statements += 1,
                    Err(error) => {
                        assert_eq!(calm.try_run(&text, &[]).unwrap_err().code, error.code, "{text}: {error}");
                    }
                }
                assert_eq!(all(&mut calm), all(&mut flaky), "seed {seed}: {text}");
            }
            match flaky.try_run("COMMIT", &[]) {
                Ok(_) => drop(calm.run("COMMIT")),
                Err(error) => {
                    assert_eq!(Code::Engine, error.code, "{error}");
                    failed_commits += 1;
                    calm.run("ROLLBACK");
                }
            }
            assert_eq!(all(&mut calm), all(&mut flaky), "seed {seed} after COMMIT");
        }
    }
    assert!(failed_statements > 0 && failed_commits > 0, "the engine never failed");
}
