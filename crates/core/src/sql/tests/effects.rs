//! What statements changed, as records: done again on an empty store they give the same tables, taken back none.

use super::TestStore;
use super::oracle::{fill, pair, write};
use crate::engine::Memory;
use crate::keyspace::{Keyspace, Wants};
use crate::txn::{Effect, TableChanges, Tables, redo, undo};

#[test]
fn effects_replay_and_undo_exactly() {
    for seed in 200..210 {
        let mut pair = pair(seed);
        // What came before is not recorded, so the tables are made anew.
        pair.ours = TestStore::new();
        pair.ours.changes = TableChanges::new(Wants::REDO | Wants::UNDO);
        super::oracle::create_ours(&mut pair.ours, seed);
        fill(&mut pair);
        for i in 0..40 {
            write(&mut pair);
            match i {
                10 => drop(pair.ours.run("CREATE TABLE extra (a INTEGER PRIMARY KEY, b TEXT)")),
                15 => drop(pair.ours.run("INSERT INTO extra SELECT NULL, c FROM t")),
                17 => drop(pair.ours.run("UPDATE extra SET a = a + 1")),
                18 => drop(pair.ours.run("TRUNCATE extra")),
                19 => drop(pair.ours.run("INSERT INTO extra SELECT NULL, c FROM t RETURNING a")),
                20 => drop(pair.ours.run("CREATE VIEW seen AS SELECT b FROM extra")),
                21 => drop(pair.ours.run("CREATE INDEX extra_b ON extra (lower(b)) WHERE a > 2")),
                22 => drop(pair.ours.run("INSERT INTO extra SELECT NULL, d FROM t")),
                23 => drop(pair.ours.run("CREATE OR REPLACE VIEW seen AS SELECT a FROM extra")),
                24 => drop(pair.ours.run("RENAME TABLE extra TO further, further TO extra")),
                25 if seed % 2 == 0 => drop(pair.ours.run("DROP TABLE extra")),
                27 if seed % 3 == 0 => drop(pair.ours.run("DROP VIEW seen")),
                28 => drop(pair.ours.run("CREATE TABLE copy AS SELECT * FROM t")),
                25 => drop(pair.ours.run("DROP INDEX extra_b")),
                _ => {}
            }
        }
        let effect = Effect { tables: std::mem::take(&mut pair.ours.changes), ..Effect::default() };
        let mut record = Vec::new();
        redo::encode(&effect, &mut record);
        let (mut keyspace, mut tables) = (Keyspace::new(1), Tables::new(Box::new(Memory::new())));
        assert!(redo::replay(&record, &mut keyspace, &mut tables).is_ok());
        assert_eq!(pair.ours.tables.digest().unwrap(), tables.digest().unwrap(), "seed {seed}");
        for cut in [0, 1, record.len() / 2, record.len() - 1] {
            let mut tables = Tables::new(Box::new(Memory::new()));
            assert!(redo::replay(&record[..cut], &mut keyspace, &mut tables).is_err(), "cut at {cut}");
        }
        assert!(undo::undo(effect, &mut keyspace, &mut pair.ours.tables).is_ok());
        assert_eq!(0, pair.ours.tables.catalog.tables().count() + pair.ours.tables.catalog.views().count());
    }
}
