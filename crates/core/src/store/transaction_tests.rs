//! Transactions of BEGIN as several sessions see them: what is isolated, what conflicts, what is left behind.

use super::tests::Client;
use super::*;

/// The integers of a reply, row by row.
fn numbers(reply: &Reply) -> Vec<Vec<i64>> {
    let Reply::Array(rows) = reply else { panic!("{reply:?}") };
    let number = |reply: &Reply| match reply {
        Reply::Int(n) => *n,
        other => panic!("{other:?}"),
    };
    let row = |row: &Reply| match row {
        Reply::Array(row) => row.iter().map(number).collect(),
        other => panic!("{other:?}"),
    };
    rows.iter().skip(1).map(row).collect()
}

impl Client {
    /// Runs a statement that must succeed; its integers.
    fn sql(&self, text: &str) -> Vec<Vec<i64>> {
        match self.call(&["SQL", text]) {
            Reply::Array(rows) => numbers(&Reply::Array(rows)),
            Reply::Error(error) => panic!("{text}: {error}"),
            _ => Vec::new(),
        }
    }

    fn sql_error(&self, text: &str) -> String {
        self.error(&["SQL", text])
    }

    fn one(&self, text: &str) -> i64 {
        self.sql(text)[0][0]
    }

    fn start(&self) -> &Client {
        self.sql("BEGIN");
        self
    }

    fn text(&self, args: &[&str]) -> Option<String> {
        match self.call(args) {
            Reply::Nil => None,
            Reply::Bulk(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            other => panic!("{args:?}: {other:?}"),
        }
    }
}

/// A store with accounts 1 to 4 of 100 each, and two sessions.
fn accounts() -> (Client, Client) {
    let a = Client::new();
    // On a slow machine reads would go on in other threads.
    a.call(&["CONFIG", "SET", "statement-slice", "60000000"]);
    a.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, u INTEGER UNIQUE)");
    a.sql("CREATE INDEX t_n ON t (n)");
    a.sql("INSERT INTO t VALUES (1, 100, 1), (2, 100, 2), (3, 100, 3), (4, 100, 4)");
    let b = a.another();
    (a, b)
}

const SUM: &str = "SELECT sum(n) FROM t";

#[test]
fn what_is_written_is_seen_inside_and_by_all_after_commit() {
    let (a, b) = accounts();
    a.start();
    a.sql("INSERT INTO t VALUES (5, 50, 5)");
    a.sql("UPDATE t SET n = 110 WHERE id = 1");
    a.sql("UPDATE t SET n = n + 1 WHERE n BETWEEN 90 AND 105");
    a.sql("DELETE FROM t WHERE id = 4");
    let all = "SELECT id, n FROM t ORDER BY id";
    assert_eq!(vec![vec![1, 110], vec![2, 101], vec![3, 101], vec![5, 50]], a.sql(all));
    assert_eq!(vec![vec![5], vec![2], vec![3], vec![1]], a.sql("SELECT id FROM t WHERE n > 0 ORDER BY n"));
    assert_eq!(vec![vec![5]], a.sql("SELECT id FROM t WHERE u = 5"));
    assert_eq!(vec![vec![1], vec![2]], a.sql("SELECT id FROM t WHERE id IN (1, 2, 4)"));
    assert_eq!(400, b.one(SUM));
    assert_eq!(Reply::Ok, a.call(&["COMMIT"]));
    assert_eq!(vec![vec![1, 110], vec![2, 101], vec![3, 101], vec![5, 50]], b.sql(all));
}

#[test]
fn rollback_leaves_nothing() {
    let (a, b) = accounts();
    a.start().sql("UPDATE t SET n = 0");
    a.sql("INSERT INTO t VALUES (9, 9, 9)");
    assert_eq!(9, a.one(SUM));
    a.sql("ROLLBACK");
    assert_eq!((400, 400), (a.one(SUM), b.one(SUM)));
    assert_eq!("SQL 25P01 cannot roll back: no transaction is open", a.sql_error("ROLLBACK"));
    assert_eq!("SQL 25P01 cannot commit: no transaction is open", a.sql_error("COMMIT"));
}

#[test]
fn dirty_reads_do_not_happen() {
    let (a, b) = accounts();
    a.start().sql("UPDATE t SET n = 0 WHERE id = 1");
    b.start();
    assert_eq!(400, b.one(SUM));
    a.sql("COMMIT");
    assert_eq!(400, b.one(SUM));
}

#[test]
fn reads_repeat() {
    let (a, b) = accounts();
    let read = "SELECT n FROM t WHERE id = 1";
    assert_eq!(100, a.start().one(read));
    b.sql("UPDATE t SET n = 7 WHERE id = 1");
    b.sql("DELETE FROM t WHERE id = 2");
    assert_eq!((100, 400), (a.one(read), a.one(SUM)));
    a.sql("COMMIT");
    assert_eq!((7, 207), (a.one(read), a.one(SUM)));
}

#[test]
fn phantoms_do_not_happen() {
    let (a, b) = accounts();
    let range = "SELECT count(*) FROM t WHERE n >= 100";
    assert_eq!(4, a.start().one(range));
    b.sql("INSERT INTO t VALUES (5, 500, 5)");
    b.sql("UPDATE t SET n = 1 WHERE id = 4");
    assert_eq!(4, a.one(range));
    a.sql("INSERT INTO t VALUES (6, 600, 6)");
    assert_eq!(5, a.one(range));
    a.sql("COMMIT");
    assert_eq!(5, a.one(range));
}

#[test]
fn the_snapshot_is_that_of_begin_and_not_of_the_first_read() {
    let (a, b) = accounts();
    a.start();
    b.sql("UPDATE t SET n = 0");
    assert_eq!(400, a.one(SUM));
}

#[test]
fn updates_are_not_lost() {
    let (a, b) = accounts();
    a.start();
    b.start();
    a.sql("UPDATE t SET n = n + 10 WHERE id = 1");
    b.sql("UPDATE t SET n = n + 20 WHERE id = 1");
    a.sql("COMMIT");
    let error = b.sql_error("COMMIT");
    assert_eq!(
        "CONFLICT 40001 table t: row id = 1 has changed since the transaction began; it is rolled back, run it again",
        error
    );
    assert_eq!(110, b.one("SELECT n FROM t WHERE id = 1"), "the loser is rolled back");
    b.start().sql("UPDATE t SET n = n + 20 WHERE id = 1");
    b.sql("COMMIT");
    assert_eq!(130, b.one("SELECT n FROM t WHERE id = 1"));
    // A statement of its own is first, too.
    a.start().sql("DELETE FROM t WHERE id = 2");
    b.sql("UPDATE t SET u = 22 WHERE id = 2");
    assert!(a.sql_error("COMMIT").starts_with("CONFLICT"));
}

#[test]
fn reads_are_not_skewed() {
    let (a, b) = accounts();
    let x = a.start().one("SELECT n FROM t WHERE id = 1");
    b.sql("UPDATE t SET n = CASE id WHEN 1 THEN 0 ELSE 200 END WHERE id IN (1, 2)");
    assert_eq!(200, x + a.one("SELECT n FROM t WHERE id = 2"));
}

#[test]
fn writes_may_be_skewed_unless_rows_are_claimed() {
    let (a, b) = accounts();
    for (session, id) in [(&a, 1), (&b, 2)] {
        assert_eq!(200, session.start().one("SELECT sum(n) FROM t WHERE id IN (1, 2)"));
        session.sql(&format!("UPDATE t SET n = n - 150 WHERE id = {id}"));
    }
    a.sql("COMMIT");
    b.sql("COMMIT");
    assert_eq!(-100, a.one("SELECT sum(n) FROM t WHERE id IN (1, 2)"), "snapshot isolation allows this");
    for (session, id) in [(&a, 3), (&b, 4)] {
        // Writing what was read, unchanged, claims it.
        session.start().sql("UPDATE t SET n = n WHERE id IN (3, 4)");
        session.sql(&format!("UPDATE t SET n = n - 150 WHERE id = {id}"));
    }
    a.sql("COMMIT");
    assert!(b.sql_error("COMMIT").starts_with("CONFLICT"));
}

#[test]
fn a_read_only_transaction_may_see_what_no_order_explains() {
    // Fekete, O'Neil and O'Neil: with the report, no order of the three is right; each of them commits all the same.
    let (a, b) = accounts();
    let report = a.another();
    a.sql("UPDATE t SET n = 0");
    a.start();
    assert_eq!(0, a.one("SELECT sum(n) FROM t WHERE id IN (1, 2)"));
    b.sql("UPDATE t SET n = 20 WHERE id = 2");
    report.start();
    assert_eq!(20, report.one("SELECT sum(n) FROM t WHERE id IN (1, 2)"));
    report.sql("COMMIT");
    // The balance was below zero as `a` saw it, so it pays a fee although the deposit had been reported.
    a.sql("UPDATE t SET n = -11 WHERE id = 1");
    a.sql("COMMIT");
    assert_eq!(9, a.one("SELECT sum(n) FROM t WHERE id IN (1, 2)"));
}

#[test]
fn transactions_that_only_read_never_fail() {
    let (a, b) = accounts();
    a.start().one(SUM);
    a.text(&["GET", "k"]);
    b.sql("DELETE FROM t");
    b.call(&["SET", "k", "x"]);
    b.sql("DROP TABLE t");
    assert_eq!(Reply::Ok, a.call(&["COMMIT"]));
    a.sql("START TRANSACTION READ ONLY");
    assert_eq!("READONLY the transaction is READ ONLY", a.error(&["SET", "k", "y"]));
    a.sql("END");
}

#[test]
fn unique_keys_are_judged_again_at_commit() {
    let (a, b) = accounts();
    a.start().sql("INSERT INTO t VALUES (5, 0, 50)");
    b.start().sql("INSERT INTO t VALUES (6, 0, 50)");
    a.sql("COMMIT");
    let error = b.sql_error("COMMIT");
    assert!(error.starts_with("CONFLICT 40001 UNIQUE constraint failed: table t: another row got u = 50"), "{error}");
    assert_eq!(5, b.one("SELECT count(*) FROM t"));
    b.start();
    let error = b.sql_error("INSERT INTO t VALUES (6, 0, 50)");
    assert!(error.starts_with("CONSTRAINT 23505 UNIQUE constraint failed: t.u: 50 exists"), "{error}");
    // What others have inserted meanwhile is not seen, and its key is free in the snapshot.
    a.sql("INSERT INTO t VALUES (7, 0, 70)");
    b.sql("INSERT INTO t VALUES (7, 0, 71)");
    assert!(b.sql_error("COMMIT").contains("another row got id = 7"));
}

#[test]
fn foreign_keys_are_judged_again_at_commit() {
    let (a, b) = accounts();
    a.sql("CREATE TABLE c (id INTEGER PRIMARY KEY, t INTEGER REFERENCES t, k INTEGER REFERENCES t ON DELETE CASCADE)");
    a.sql("CREATE INDEX c_t ON c (t)");
    // The parent goes while a child comes.
    a.start().sql("INSERT INTO c VALUES (1, 1, NULL)");
    b.sql("DELETE FROM t WHERE id = 1");
    let error = a.sql_error("COMMIT");
    assert!(
        error.starts_with("CONFLICT 40001 FOREIGN KEY constraint failed: c.t = 1 would refer to no row of t"),
        "{error}"
    );
    assert_eq!(0, b.one("SELECT count(*) FROM c"));
    // A child comes while the parent goes, and what would cascade does not see it.
    a.start().sql("DELETE FROM t WHERE id = 2");
    b.sql("INSERT INTO c VALUES (2, NULL, 2)");
    assert!(a.sql_error("COMMIT").starts_with("CONFLICT 40001 FOREIGN KEY"));
    assert_eq!(1, b.one("SELECT count(*) FROM t WHERE id = 2"));
    // Inside, statements are judged as outside, and what cascades is the transaction's.
    a.start();
    assert!(a.sql_error("INSERT INTO c VALUES (3, 77, NULL)").starts_with("CONSTRAINT 23503 FOREIGN KEY"));
    a.sql("INSERT INTO t VALUES (77, 0, 77)");
    a.sql("INSERT INTO c VALUES (3, 77, 2), (4, 3, 2)");
    a.sql("DELETE FROM t WHERE id = 2");
    assert_eq!(0, a.one("SELECT count(*) FROM c"));
    assert_eq!(1, b.one("SELECT count(*) FROM c"));
    a.sql("COMMIT");
    assert_eq!(0, b.one("SELECT count(*) FROM c"));
    assert_eq!(1, b.one("SELECT count(*) FROM t WHERE id = 77"));
}

#[test]
fn rules_hold_inside_a_transaction() {
    let (a, b) = accounts();
    a.sql("CREATE TABLE r (id INTEGER PRIMARY KEY, n INTEGER CHECK (n > 0), twice INTEGER AS (n * 2))");
    a.sql("CREATE UNIQUE INDEX r_n ON r (n % 10) WHERE n < 100");
    a.start().sql("INSERT INTO r (n) VALUES (1), (2)");
    assert!(a.sql_error("INSERT INTO r (n) VALUES (0)").starts_with("CONSTRAINT 23514 CHECK"));
    assert!(a.sql_error("INSERT INTO r (n) VALUES (11)").starts_with("CONSTRAINT 23505 UNIQUE"));
    assert_eq!(vec![vec![2], vec![4]], a.sql("SELECT twice FROM r WHERE n < 100 AND n % 10 > 0 ORDER BY id"));
    b.sql("INSERT INTO r (n) VALUES (22)");
    assert!(a.sql_error("COMMIT").starts_with("CONFLICT 40001 UNIQUE"));
    assert_eq!(vec![vec![22, 44]], b.sql("SELECT n, twice FROM r"));
}

#[test]
fn unique_keys_may_change_places() {
    let (a, _) = accounts();
    a.start().sql("UPDATE t SET u = NULL WHERE id = 1");
    a.sql("UPDATE t SET u = 1 WHERE id = 2");
    a.sql("UPDATE t SET u = 2 WHERE id = 3");
    a.sql("UPDATE t SET u = 3 WHERE id = 1");
    a.sql("DELETE FROM t WHERE id = 4");
    a.sql("INSERT INTO t VALUES (40, 0, 4)");
    a.sql("COMMIT");
    assert_eq!(vec![vec![1, 3], vec![2, 1], vec![3, 2], vec![40, 4]], a.sql("SELECT id, u FROM t ORDER BY id"));
}

#[test]
fn a_statement_that_fails_leaves_the_rest() {
    let (a, b) = accounts();
    a.start().sql("UPDATE t SET n = 1 WHERE id = 1");
    let error = a.sql_error("INSERT INTO t VALUES (10, 0, 10), (11, 0, 11), (1, 0, 12)");
    assert!(error.starts_with("CONSTRAINT"), "{error}");
    assert!(a.sql_error("UPDATE t SET u = 2").starts_with("CONSTRAINT"));
    assert!(a.sql_error("SELECT * FROM nowhere").starts_with("SQL"));
    // What the failed statements touched does not count as written.
    b.sql("UPDATE t SET n = 5 WHERE id = 3");
    a.sql("COMMIT");
    assert_eq!(vec![vec![1], vec![100], vec![5], vec![100]], a.sql("SELECT n FROM t ORDER BY id"));
}

#[test]
fn savepoints_nest() {
    let (a, _) = accounts();
    a.start().sql("UPDATE t SET n = 1 WHERE id = 1");
    a.call(&["SET", "k", "1"]);
    a.sql("SAVEPOINT s");
    a.sql("UPDATE t SET n = 2 WHERE id = 1");
    a.call(&["APPEND", "k", "2"]);
    a.sql("SAVEPOINT inner");
    a.sql("DELETE FROM t");
    a.call(&["RENAME", "k", "other"]);
    assert_eq!((0, None), (a.one("SELECT count(*) FROM t"), a.text(&["GET", "k"])));
    a.sql("ROLLBACK TO inner");
    assert_eq!((302, Some("12".into())), (a.one(SUM), a.text(&["GET", "k"])));
    a.sql("ROLLBACK TO S");
    assert_eq!((301, Some("1".into())), (a.one(SUM), a.text(&["GET", "k"])));
    assert_eq!("SQL 3B001 no such savepoint: inner", a.sql_error("RELEASE inner"));
    a.sql("RELEASE s");
    a.sql("COMMIT");
    assert_eq!((301, Some("1".into()), None), (a.one(SUM), a.text(&["GET", "k"]), a.text(&["GET", "other"])));
    // As in SQLite, a savepoint opens a transaction, and its release commits it.
    a.sql("SAVEPOINT outer");
    a.sql("UPDATE t SET n = 0");
    a.sql("RELEASE outer");
    assert_eq!("SQL 25P01 cannot commit: no transaction is open", a.sql_error("COMMIT"));
    assert_eq!(0, a.one(SUM));
}

#[test]
fn keys_and_rows_commit_together() {
    let (a, b) = accounts();
    a.call(&["SET", "k", "old"]);
    a.start().sql("UPDATE t SET n = 0 WHERE id = 1");
    a.call(&["SET", "k", "new", "EX", "100"]);
    a.call(&["RPUSH", "l", "1", "2"]);
    a.call(&["HSET", "h", "f", "v"]);
    assert_eq!(Some("new".into()), a.text(&["GET", "k"]));
    assert_eq!(2, a.one("SELECT count(*) FROM list('l')"));
    assert_eq!(3, a.one("SELECT count(*) FROM keys"));
    assert_eq!(Reply::Int(3), a.call(&["DBSIZE"]));
    assert_eq!((Some("old".into()), Reply::Int(1)), (b.text(&["GET", "k"]), b.call(&["DBSIZE"])));
    a.call(&["SET", "w_1", "9"]);
    assert_eq!(Reply::bulks(["2", "1"]), a.call(&["SORT", "l", "BY", "w_*"]));
    a.call(&["DEL", "w_1"]);
    a.sql("COMMIT");
    assert_eq!((Some("new".into()), Reply::Int(3)), (b.text(&["GET", "k"]), b.call(&["DBSIZE"])));
    assert_eq!(Reply::Int(100), b.call(&["TTL", "k"]));
    a.start().sql("UPDATE t SET n = 7 WHERE id = 1");
    a.call(&["DEL", "k", "l", "h"]);
    a.sql("ROLLBACK");
    assert_eq!((300, Reply::Int(3)), (b.one(SUM), b.call(&["DBSIZE"])));
}

#[test]
fn keys_conflict() {
    let (a, b) = accounts();
    // Written by both, blindly.
    a.start().call(&["SET", "k", "a"]);
    b.call(&["SET", "k", "b"]);
    assert!(a.sql_error("COMMIT").starts_with("CONFLICT 40001 key k has changed"));
    // Read here, written there; rows of the loser go, too.
    a.start().text(&["GET", "k"]);
    a.sql("UPDATE t SET n = 0");
    b.call(&["INCR", "other"]);
    b.call(&["SET", "k", "c"]);
    assert!(a.sql_error("COMMIT").starts_with("CONFLICT"));
    assert_eq!(400, a.one(SUM));
    // Changed between BEGIN and its first use.
    a.start();
    b.call(&["SET", "k", "d"]);
    assert_eq!(Some("d".into()), a.text(&["GET", "k"]), "keys are read as they are");
    a.call(&["SET", "mine", "1"]);
    assert!(a.sql_error("COMMIT").starts_with("CONFLICT"));
    // Changed before BEGIN, or another key.
    a.start().call(&["SET", "k", "e"]);
    b.call(&["SET", "x", "1"]);
    a.sql("COMMIT");
    // A flush changes every key.
    a.start().call(&["SET", "new", "1"]);
    b.call(&["FLUSHALL"]);
    assert!(a.sql_error("COMMIT").starts_with("CONFLICT"));
    // The losing COMMIT of another transaction changes nothing.
    a.start().call(&["SET", "k", "1"]);
    b.start().call(&["SET", "k", "2"]);
    b.sql("ROLLBACK");
    a.sql("COMMIT");
    assert_eq!(Some("1".into()), b.text(&["GET", "k"]));
}

#[test]
fn a_key_whose_time_was_up_before_has_not_changed() {
    let (a, _) = accounts();
    a.call(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    let end = |key: &[u8]| a.store.enter().state().keyspace.databases[0].set_expire(key, Some(1));
    a.call(&["SET", "old", "v"]);
    end(b"old");
    a.start().call(&["SET", "old", "new"]);
    a.sql("COMMIT");
    assert_eq!(Some("new".into()), a.text(&["GET", "old"]));
    assert_eq!(Some("new".into()), a.start().text(&["GET", "old"]));
    end(b"old");
    a.call(&["SET", "other", "1"]);
    assert!(a.sql_error("COMMIT").starts_with("CONFLICT 40001 key old"));
    // A private key's time may be up, too.
    a.start().call(&["SET", "mine", "1", "PX", "1"]);
    assert_eq!(Reply::Int(1), a.call(&["PEXPIREAT", "mine", "1"]));
    assert_eq!(None, a.text(&["GET", "mine"]));
    a.sql("COMMIT");
    assert_eq!(None, a.text(&["GET", "mine"]));
}

#[test]
fn what_is_rolled_back_is_not_told() {
    let (a, listener) = accounts();
    a.call(&["CONFIG", "SET", "notify-keyspace-events", "KEA"]);
    listener.call(&["SUBSCRIBE", "__keyevent@0__:set", "__keyevent@0__:del"]);
    a.start().call(&["SET", "k", "1"]);
    a.sql("SAVEPOINT s");
    a.call(&["SET", "k", "2"]);
    a.call(&["DEL", "k"]);
    a.sql("ROLLBACK TO s");
    a.sql("COMMIT");
    let outbox = |client: &Client| client.store.enter().state().sessions[&client.session].outbox.len();
    assert_eq!((1, Some("1".into())), (outbox(&listener), a.text(&["GET", "k"])));
}

#[test]
fn a_request_with_many_keys_takes_no_longer_for_each() {
    let (a, _) = accounts();
    let keys: Vec<String> = (0..60_000).map(|i| format!("k{i}")).collect();
    let mut request = vec!["MSET"];
    keys.iter().for_each(|key| request.extend([key.as_str(), "v"]));
    a.start().call(&request);
    a.sql("COMMIT");
    assert_eq!(Reply::Int(60_000), a.call(&["DBSIZE"]));
}

#[test]
fn nobody_is_told_before_commit() {
    let (a, b) = accounts();
    let waiting = a.another();
    b.call(&["CONFIG", "SET", "notify-keyspace-events", "KEA"]);
    waiting.call(&["BLPOP", "l", "0"]);
    b.call(&["WATCH", "k"]);
    a.start().call(&["SET", "k", "1"]);
    a.call(&["RPUSH", "l", "x"]);
    b.call(&["MULTI"]);
    b.call(&["PING"]);
    assert!(matches!(b.call(&["EXEC"]), Reply::Array(_)), "the watched key has not changed for others");
    assert!(waiting.store.enter().state().sessions[&waiting.session].blocked.is_some());
    b.call(&["WATCH", "k"]);
    let listener = a.another();
    listener.call(&["SUBSCRIBE", "__keyevent@0__:set"]);
    a.sql("COMMIT");
    b.call(&["MULTI"]);
    b.call(&["PING"]);
    assert_eq!(Reply::NilArray, b.call(&["EXEC"]));
    assert!(waiting.store.enter().state().sessions[&waiting.session].blocked.is_none(), "served by the commit");
    assert_eq!(1, listener.store.enter().state().sessions[&listener.session].outbox.len());
}

#[test]
fn commands_that_do_not_fit_are_refused() {
    let (a, _) = accounts();
    a.start();
    for (command, message) in [
        (&["MULTI"][..], "SQL MULTI is not allowed inside a transaction of BEGIN"),
        (&["WATCH", "k"], "SQL WATCH is not allowed inside a transaction of BEGIN"),
        (&["FLUSHALL"], "SQL FLUSHALL is not allowed inside a transaction: it names no keys"),
        (&["SWAPDB", "0", "1"], "SQL SWAPDB is not allowed inside a transaction: it names no keys"),
        (&["MOVE", "k", "1"], "SQL inside a transaction a command may change no keys but those it names"),
        (&["BEGIN"], "SQL 25001 a transaction is open already"),
    ] {
        a.call(&["SET", "k", "v"]);
        assert_eq!(message, a.error(command));
    }
    assert!(a.sql_error("CREATE TABLE x (a INTEGER)").contains("inside a transaction"));
    for definition in [
        "DROP TABLE t",
        "CREATE VIEW v AS SELECT 1",
        "CREATE INDEX i ON t (n)",
        "DROP INDEX t_n",
        "ALTER TABLE t RENAME TO x",
        "TRUNCATE TABLE t",
        "CREATE TABLE x AS SELECT * FROM t",
    ] {
        let error = a.sql_error(definition);
        assert!(error.contains("inside a transaction"), "{definition}: {error}");
    }
    assert_eq!(Reply::Nil, a.call(&["BLPOP", "l", "0"]).clone_nil(), "it does not wait");
    assert_eq!(Some("v".into()), a.text(&["GET", "k"]), "what was moved is back");
    a.sql("ROLLBACK");
    a.call(&["MULTI"]);
    assert!(a.error(&["BEGIN"]).contains("not allowed inside a transaction"));
    a.call(&["DISCARD"]);
    a.call(&["MULTI"]);
    assert_eq!(Reply::status("QUEUED"), a.call(&["SQL", "BEGIN"]));
    let Reply::Array(replies) = a.call(&["EXEC"]) else { panic!() };
    assert!(matches!(&replies[..], [Reply::Error(error)] if error.message.contains("not allowed in MULTI")));
    let scripted = a.error(&["EVAL", "return redis.call('SQL', 'BEGIN')", "0"]);
    assert!(scripted.contains("not allowed in a script"), "{scripted}");
}

trait Nil {
    fn clone_nil(self) -> Reply;
}

impl Nil for Reply {
    /// Nil, whatever form it has.
    fn clone_nil(self) -> Reply {
        if matches!(self, Reply::Nil | Reply::NilArray) { Reply::Nil } else { self }
    }
}

#[test]
fn scripts_work_on_what_the_transaction_sees() {
    let (a, b) = accounts();
    a.start();
    let script = "redis.call('SET', 'k', 'v'); redis.call('SQL', 'UPDATE t SET n = 0'); return redis.call('GET', 'k')";
    assert_eq!(Some("v".into()), a.text(&["EVAL", script, "0"]));
    assert_eq!((400, None), (b.one(SUM), b.text(&["GET", "k"])));
    a.sql("COMMIT");
    assert_eq!((0, Some("v".into())), (b.one(SUM), b.text(&["GET", "k"])));
}

#[test]
fn numbers_of_a_sequence_are_given_once() {
    let (a, b) = accounts();
    a.sql("CREATE TABLE s (id INTEGER PRIMARY KEY AUTO_INCREMENT, v INTEGER)");
    a.start().sql("INSERT INTO s (v) VALUES (1), (2)");
    b.start().sql("INSERT INTO s (v) VALUES (3)");
    b.sql("INSERT INTO s (id, v) VALUES (10, 4)");
    b.sql("INSERT INTO s (v) VALUES (5)");
    a.sql("INSERT INTO s (v) VALUES (6)");
    a.sql("ROLLBACK");
    b.sql("COMMIT");
    a.sql("INSERT INTO s (v) VALUES (7)");
    assert_eq!(vec![vec![3, 3], vec![10, 4], vec![11, 5], vec![13, 7]], a.sql("SELECT id, v FROM s ORDER BY id"));
}

#[test]
fn definitions_that_change_meanwhile_are_noticed() {
    let (a, b) = accounts();
    b.sql("CREATE TABLE other (a INTEGER PRIMARY KEY)");
    a.start().sql("UPDATE t SET n = 0 WHERE id = 1");
    b.sql("CREATE TABLE late (a INTEGER PRIMARY KEY)");
    assert_eq!(300, a.one(SUM), "another table's definition is none of its business");
    assert!(a.sql_error("SELECT * FROM late").starts_with("CONFLICT"));
    b.sql("CREATE INDEX t_un ON t (u, n)");
    for statement in ["SELECT sum(n) FROM t", "SELECT n FROM t WHERE id = 1", "INSERT INTO t VALUES (9, 9, 9)"] {
        assert!(a.sql_error(statement).starts_with("CONFLICT"), "{statement}");
    }
    a.sql("INSERT INTO other VALUES (1)");
    assert!(a.sql_error("COMMIT").starts_with("CONFLICT 40001 table t: its definition has changed"));
    assert_eq!((400, 0), (a.one(SUM), a.one("SELECT count(*) FROM other")));
    a.start().sql("DELETE FROM other");
    b.sql("DROP TABLE other");
    assert!(a.sql_error("SELECT * FROM other").contains("no such table"));
    a.sql("COMMIT");
}

#[test]
fn sessions_that_end_roll_back() {
    let (a, b) = accounts();
    b.start().sql("UPDATE t SET n = 0");
    b.call(&["RESET"]);
    assert_eq!(400, b.one(SUM));
    b.start().sql("UPDATE t SET n = 0");
    b.call(&["SET", "k", "1"]);
    a.store.enter().close_session(b.session);
    let c = a.another();
    c.start().sql("UPDATE t SET n = 0");
    a.call(&["CLIENT", "KILL", "ID", &c.session.to_string()]);
    assert_eq!((400, None), (a.one(SUM), a.text(&["GET", "k"])));
    assert_eq!(0, a.store.enter().state().transactions.len());
}

#[test]
fn idle_and_old_transactions_are_ended() {
    let (a, b) = accounts();
    a.call(&["CONFIG", "SET", "transaction-idle-timeout", "1000"]);
    a.start().sql("UPDATE t SET n = 0");
    b.start();
    b.sql("UPDATE t SET u = 20 WHERE id = 2");
    {
        let mut baton = a.store.enter();
        let state = baton.state();
        state.sessions.get_mut(&a.session).unwrap().active_ms -= 2000;
        transact::keep_house(state);
        assert_eq!((1, 1), (state.transactions.len(), state.transactions.stats.expired));
    }
    for _ in 0..2 {
        let error = a.sql_error("UPDATE t SET n = 1");
        assert!(error.starts_with("CANCELLED 25P03 the transaction was idle"), "{error}");
        assert!(a.error(&["SET", "k", "v"]).starts_with("CANCELLED"));
        assert!(a.sql_error("ROLLBACK TO s").starts_with("CANCELLED"));
    }
    assert_eq!(Reply::status("PONG"), a.call(&["PING"]));
    assert!(a.sql_error("COMMIT").starts_with("CANCELLED"));
    assert_eq!(400, a.one(SUM));
    // What others change under a view is copied, within a limit.
    a.store.enter().state().config.view_bytes = 1000;
    a.sql("UPDATE t SET n = 1 WHERE id = 1");
    transact::keep_house(a.store.enter().state());
    let error = b.sql_error("SELECT 1");
    assert!(error.starts_with("CONFLICT 40001 snapshot too old"), "{error}");
    assert_eq!(Reply::Ok, b.call(&["ROLLBACK"]));
    assert_eq!(0, a.store.enter().state().transactions.len());
}

#[test]
fn info_counts_transactions() {
    let (a, b) = accounts();
    a.start().sql("UPDATE t SET n = 0");
    b.sql("UPDATE t SET n = 1");
    a.sql_error("COMMIT");
    a.start().sql("COMMIT");
    a.start().sql("ROLLBACK");
    a.start();
    let Reply::Verbatim(_, info) = a.call(&["INFO", "stats"]) else { panic!() };
    let info = String::from_utf8_lossy(&info).into_owned();
    for line in ["open:1", "committed:1", "rolled_back:1", "conflicts:1", "expired:0"] {
        assert!(info.contains(&format!("transactions_{line}\r\n")), "{line} in {info}");
    }
}

#[test]
fn long_reads_go_elsewhere_with_the_view_of_begin_until_something_is_written() {
    let (a, b) = accounts();
    let slow = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 100000) \
                SELECT (SELECT sum(n) FROM t), count(*) FROM n";
    a.call(&["CONFIG", "SET", "statement-slice", "0"]);
    a.start();
    b.sql("UPDATE t SET n = 0");
    assert_eq!(Reply::None, a.send(&["SQL", slow]));
    assert_eq!(vec![vec![400, 100_000]], numbers(&a.late()));
    a.sql("UPDATE t SET n = 7 WHERE id = 1");
    assert_eq!(vec![vec![307, 100_000]], numbers(&a.send(&["SQL", slow])), "what is private stays here");
    assert!(a.sql_error("COMMIT").starts_with("CONFLICT"));
}
