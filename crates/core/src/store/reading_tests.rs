//! Long reads: they see one instant, others are served meanwhile, and whoever may end them can.

use super::tests::Client;
use super::*;
use crate::error::Code;
use crate::reply::Reply;

/// A SELECT of `what` over the numbers up to `count`, which takes some milliseconds at least.
fn numbers(what: &str, count: u64) -> String {
    format!("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {count}) SELECT {what} FROM n")
}

const MANY: u64 = 300_000;

/// A read that would never end.
const ENDLESS: &str = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";

/// The cells of a reply with one row.
fn cells(reply: Reply) -> Vec<Reply> {
    match reply {
        Reply::Array(mut rows) if rows.len() == 2 => match rows.pop() {
            Some(Reply::Array(row)) => row,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn error_of(reply: Reply) -> Error {
    match reply {
        Reply::Error(error) => error,
        other => panic!("{other:?}"),
    }
}

impl Client {
    /// Runs a statement that has to go on elsewhere: no reply now, one later. (It may have come to its end before
    /// this thread runs again, so whether the session still waits says nothing.)
    fn begin(&self, text: &str) {
        assert_eq!(Reply::None, self.send(&["SQL", text]));
    }
}

fn with_table(rows: u64) -> Client {
    let client = Client::new();
    client.call(&["SQL", "CREATE TABLE t (id INT PRIMARY KEY, name TEXT)"]);
    client.call(&["SQL", &format!("INSERT INTO t {}", numbers("x, 'name' || x", rows))]);
    client
}

#[test]
fn a_long_read_sees_the_instant_at_which_it_left() {
    let client = with_table(1000);
    let other = client.another();
    client.begin(&numbers("count(*), (SELECT count(*) FROM t), (SELECT sum(id) FROM t)", MANY));
    assert_eq!(Reply::Int(500), other.call(&["SQL", "DELETE FROM t WHERE id <= 500"]));
    assert_eq!(Reply::Int(500), other.call(&["SQL", "UPDATE t SET id = id + 5000"]));
    other.call(&["SQL", "DROP TABLE t"]);
    assert_eq!(vec![Reply::Int(MANY as i64), Reply::Int(1000), Reply::Int(500_500)], cells(client.late()));
    assert!(client.error(&["SQL", "SELECT * FROM t"]).contains("no such table"));
}

#[test]
fn it_answers_as_it_would_have_in_place() {
    let client = with_table(600);
    client.call(&["ZADD", "z", "1", "10", "2", "20"]);
    for what in [
        "SELECT count(*), min(a.name), max(b.name) FROM t a, t b WHERE a.id % 100 = b.id % 100",
        "SELECT t.name, z.score FROM zset('z') z JOIN t ON t.id = z.member, (SELECT count(*) FROM t a, t b) n",
        "SELECT key, type FROM keys, (SELECT count(*) FROM t a, t b)",
        "SELECT id FROM t WHERE id NOT IN (SELECT a.id FROM t a, t b WHERE a.id = b.id + 590)",
    ] {
        client.call(&["CONFIG", "SET", "statement-slice", "60000000"]);
        let here = client.call(&["SQL", what]);
        client.call(&["CONFIG", "SET", "statement-slice", "0"]);
        client.begin(what);
        assert_eq!(here, client.late(), "{what}");
    }
}

#[test]
fn a_read_by_range_leaves_too() {
    let client = with_table(60_000);
    client.call(&["SQL", "CREATE INDEX i ON t (name)"]);
    client.call(&["CONFIG", "SET", "statement-slice", "0"]);
    client.begin("SELECT id FROM t WHERE name >= 'a'");
    assert!(matches!(client.late(), Reply::Array(rows) if rows.len() == 60_001));
}

#[test]
fn groups_and_joins_leave_too() {
    let client = with_table(60_000);
    let other = client.another();
    let texts = [
        "SELECT name, count(*) FROM t GROUP BY name",
        "SELECT count(*), sum(b.id) FROM t a JOIN t b ON b.id = a.id",
        "SELECT count(*), sum(b.id) FROM t a JOIN t b ON b.name = a.name",
        "SELECT sum(id), max(name) FROM t",
    ];
    let here = texts.map(|text| {
        client.call(&["CONFIG", "SET", "statement-slice", "60000000"]);
        client.call(&["SQL", text])
    });
    client.call(&["CONFIG", "SET", "statement-slice", "0"]);
    for (text, here) in texts.iter().zip(here) {
        client.begin(text);
        assert_eq!(Reply::Int(1000), other.call(&["SQL", "UPDATE t SET id = id + 100000 WHERE id <= 1000"]));
        assert_eq!(here, client.late(), "{text}");
        assert_eq!(Reply::Int(1000), other.call(&["SQL", "UPDATE t SET id = id - 100000 WHERE id > 100000"]));
    }
    let statements =
        "SELECT calls, rows FROM information_schema.statements WHERE statement = 'SELECT sum(id), max(name) FROM t'";
    client.call(&["CONFIG", "SET", "statement-slice", "60000000"]);
    assert_eq!(Reply::Int(2), cells(client.call(&["SQL", statements])).remove(0));
}

#[test]
fn a_join_that_holds_the_store_is_cancelled_without_the_baton() {
    let client = Client::new();
    client.call(&["SQL", "CREATE TABLE t (id INT PRIMARY KEY, k INT)"]);
    client.call(&["SQL", &format!("INSERT INTO t {}", numbers("x, 1", 20_000))]);
    let runner = client.another();
    let id = runner.session.to_string();
    // Within EXEC it stays; there are 400 million pairs.
    let join = std::thread::spawn(move || {
        runner.call(&["MULTI"]);
        runner.call(&["SQL", "SELECT count(*) FROM t a JOIN t b ON b.k = a.k"]);
        runner.call(&["EXEC"])
    });
    let overrun = client.store.overrun();
    while overrun.answer(&[b"CANCEL", id.as_bytes()]) != Some(Reply::Int(1)) {
        std::thread::yield_now();
    }
    let Reply::Array(mut replies) = join.join().unwrap() else { panic!() };
    assert!(error_of(replies.remove(0)).message.contains("cancelled"));
}

#[test]
fn what_must_be_atomic_stays() {
    let client = with_table(10);
    client.call(&["CONFIG", "SET", "statement-slice", "0"]);
    let read = numbers("count(*)", MANY);
    let script = format!("return redis.call('SQL', '{read}')[2][1]");
    assert_eq!(Reply::Int(MANY as i64), client.call(&["EVAL", &script, "0"]));
    client.call(&["MULTI"]);
    client.call(&["SQL", &read]);
    let Reply::Array(mut replies) = client.call(&["EXEC"]) else { panic!() };
    assert_eq!(vec![Reply::Int(MANY as i64)], cells(replies.remove(0)));
    assert_eq!(
        Reply::Int(MANY as i64),
        client.call(&["SQL", &format!("INSERT INTO t {}", numbers("x + 100, 0", MANY))])
    );
}

#[test]
fn its_time_is_limited() {
    let client = Client::new();
    client.call(&["CONFIG", "SET", "statement-timeout", "30"]);
    client.begin(ENDLESS);
    let error = error_of(client.late());
    assert_eq!((Code::Cancelled, true), (error.code, error.message.contains("too long")), "{error}");
}

#[test]
fn another_client_ends_it() {
    let client = Client::new();
    let other = client.another();
    let id = client.session.to_string();
    client.begin(ENDLESS);
    assert_eq!(Reply::Int(1), other.call(&["CANCEL", &id]));
    assert!(error_of(client.late()).message.contains("cancelled"));
    assert_eq!(Reply::Int(0), other.call(&["CANCEL", &id]));
    assert_eq!(Reply::Int(0), other.call(&["CANCEL", "12345"]));
    client.begin(ENDLESS);
    assert_eq!(Reply::Int(1), other.call(&["CLIENT", "UNBLOCK", &id]));
    assert!(error_of(client.late()).message.contains("cancelled"));
    client.begin(ENDLESS);
    assert_eq!(Reply::Int(1), other.call(&["CLIENT", "KILL", "ID", &id]));
    while client.store.shared.readers.count() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_store_that_closes_waits_for_no_read() {
    let client = Client::new();
    let others = [client.another(), client.another(), client.another(), client.another()];
    for one in &others {
        one.begin(ENDLESS);
    }
    client.store.close();
}

#[test]
fn a_session_that_ends_ends_its_read() {
    let client = Client::new();
    let other = client.another();
    other.begin(ENDLESS);
    client.store.enter().close_session(other.session);
    while client.store.shared.readers.count() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_statement_that_holds_the_store_is_cancelled_without_the_baton() {
    let client = with_table(10);
    let writer = client.another();
    let id = writer.session.to_string();
    let runner = std::thread::spawn(move || {
        writer.call(&[
            "SQL",
            "INSERT INTO t WITH RECURSIVE n(x) AS (SELECT 100 UNION ALL SELECT x + 1 FROM n) SELECT x, 0 FROM n",
        ])
    });
    let overrun = client.store.overrun();
    let answer = loop {
        if let Some(reply) = overrun.answer(&[b"CANCEL", id.as_bytes()])
            && reply == Reply::Int(1)
        {
            break reply;
        }
        std::thread::yield_now();
    };
    assert_eq!(Reply::Int(1), answer);
    assert!(error_of(runner.join().unwrap()).message.contains("cancelled"));
    assert_eq!(vec![Reply::Int(10)], cells(client.call(&["SQL", "SELECT count(*) FROM t"])));
    assert_eq!(None, overrun.answer(&[b"CANCEL", b"1"]));
}

#[test]
fn too_many_reads_are_refused() {
    let client = Client::new();
    client.call(&["CONFIG", "SET", "statement-slice", "0"]);
    let many: Vec<Client> =
        (0..=crate::limits::READERS_MAX + crate::limits::READS_WAITING_MAX).map(|_| client.another()).collect();
    let refused = many
        .iter()
        .filter(|one| matches!(one.send(&["SQL", ENDLESS]), Reply::Error(e) if e.code == Code::Limit))
        .count();
    assert!((1..=crate::limits::READERS_MAX + 1).contains(&refused), "{refused}");
    client.store.close();
}
