//! Checkpoints of a store, taken while commands of all kinds run, against the log of what they did.

use super::tests::Client;
use crate::recovery::tests::{MemoryFiles, restored, write_at_once};

#[test]
fn tables_and_keys_come_back() {
    let (client, files) = (Client::new(), MemoryFiles::default());
    for statement in [
        "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a INT UNIQUE, b TEXT DEFAULT 'new', c REAL, d DECIMAL)",
        "CREATE INDEX t_b ON t (b)",
        "CREATE VIEW v AS SELECT a FROM t WHERE b > 'x'",
        "INSERT INTO t (a, b, c, d) VALUES (1, 'one', 1.5, '1.50'), (2, 'two', NULL, '-3'), (3, 'three', -0.0, NULL)",
        "DELETE FROM t WHERE a = 2",
        "DELETE FROM t WHERE a = 3",
        "CREATE TABLE gone (id INT PRIMARY KEY)",
        "DROP TABLE gone",
    ] {
        client.call(&["SQL", statement]);
    }
    client.call(&["SQL", "UPDATE t SET b = ? WHERE a = 1", &"long".repeat(3000)]);
    client.call(&["HSET", "h", "f", "v"]);
    let mut baton = client.store.enter();
    let state = baton.state();
    write_at_once(&files, &mut state.keyspace, &mut state.tables, 3);
    let (keyspace, tables) = restored(&files, 3).unwrap();
    assert_eq!(state.keyspace.digest(), keyspace.digest());
    assert_eq!(state.tables.digest(), tables.digest());
    assert_eq!(state.tables.catalog, tables.catalog);
}
