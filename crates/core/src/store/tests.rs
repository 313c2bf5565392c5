//! What a client sees of scripts, statements and their limits together.

use super::*;
use crate::error::Code;
use crate::session::NoWaker;

/// A store and a session of it.
struct Client {
    store: Store,
    session: SessionId,
}

impl Client {
    fn new() -> Client {
        let store = Store::open(Options::default()).unwrap();
        let session = store.enter().open_session(Door::Embedded, Arc::new(NoWaker));
        Client { store, session }
    }

    fn call(&self, args: &[&str]) -> Reply {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        self.store.enter().execute(self.session, &args)
    }

    fn error(&self, args: &[&str]) -> String {
        match self.call(args) {
            Reply::Error(error) => error.to_string(),
            other => panic!("{args:?} gave {other:?}"),
        }
    }

    /// Kills the next script as soon as it can be, and gives what killing it answered in the end.
    fn kill_next_script(&self) -> JoinHandle<Result<()>> {
        let store = self.store.clone();
        std::thread::spawn(move || {
            loop {
                match store.scripts_watch().kill() {
                    Err(error) if error.code == Code::NotBusy => std::thread::yield_now(),
                    answer => return answer,
                }
            }
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.store.close();
    }
}

#[test]
fn a_script_that_reads_tables_has_not_written() {
    let client = Client::new();
    client.call(&["SQL", "CREATE TABLE t (id INT PRIMARY KEY, name TEXT)"]);
    client.call(&["SQL", "INSERT INTO t VALUES (1, 'one')"]);
    let no_writes = |text: &str| format!("#!lua flags=no-writes\n{text}");
    for read in
        ["'SQL', 'SELECT id FROM t'", "'SQL', 'SHOW TABLES'", "'SQL', 'EXPLAIN SELECT 1'", "'TABLE.GET', 't', '1'"]
    {
        let text = format!("return #redis.call({read}) > 0");
        assert_eq!(Reply::Int(1), client.call(&["EVAL_RO", &text, "0"]), "{read}");
        assert_eq!(Reply::Int(1), client.call(&["EVAL", &no_writes(&text), "0"]), "{read}");
    }
    for write in [
        "'SQL', 'INSERT INTO t VALUES (2, 2)'",
        "'SQL', 'UPDATE t SET name = 3 WHERE id = 1'",
        "'SQL', 'DELETE FROM t'",
        "'SQL', 'CREATE TABLE u (a INT)'",
        "'DROP', 'TABLE', 't'",
        "'TABLE.PUT', 't', 'id', '2'",
        "'TABLE.DEL', 't', '1'",
    ] {
        let text = format!("return redis.call({write})");
        let refusal = "ERR Write commands are not allowed from read-only scripts.";
        assert!(client.error(&["EVAL_RO", &text, "0"]).starts_with(refusal), "{write}");
        assert!(client.error(&["EVAL", &no_writes(&text), "0"]).starts_with(refusal), "{write}");
    }
    assert_eq!(Reply::Int(1), client.call(&["EVAL", "return redis.call('SQL', 'SELECT count(*) FROM t')[2][1]", "0"]));
}

#[test]
fn a_script_that_reads_tables_can_be_killed() {
    let client = Client::new();
    client.call(&["SQL", "CREATE TABLE t (id INT PRIMARY KEY)"]);
    let killer = client.kill_next_script();
    assert!(client.error(&["EVAL", "while true do redis.call('SQL', 'SELECT * FROM t') end", "0"]).contains("killed"));
    assert_eq!(Ok(()), killer.join().unwrap());
    let text = "redis.call('SQL', 'INSERT INTO t VALUES (1)') redis.call('SQL', 'SELECT 1') \
                for i = 1, 1e6 do end return redis.call('TABLE.DEL', 't', '1')";
    assert_eq!(Reply::Int(1), client.call(&["EVAL", text, "0"]));
}

#[test]
fn a_flush_in_the_background_leaves_new_scripts_killable() {
    let client = Client::new();
    for _ in 0..20 {
        client.call(&["EVAL", "return 1", "0"]);
        assert_eq!(Reply::Ok, client.call(&["SCRIPT", "FLUSH", "ASYNC"]));
        let killer = client.kill_next_script();
        assert!(client.error(&["EVAL", "while true do end", "0"]).contains("killed"));
        assert_eq!(Ok(()), killer.join().unwrap());
    }
}

#[test]
fn a_scan_of_a_table_goes_on_where_it_was() {
    let client = Client::new();
    client.call(&["SQL", "CREATE TABLE t (id INT PRIMARY KEY, name TEXT)"]);
    let row = |id: i64| format!("({id}, '{}')", "x".repeat((id % 50) as usize));
    let rows: Vec<String> = (0..3000).map(row).collect();
    client.call(&["SQL", &format!("INSERT INTO t VALUES {}", rows.join(","))]);
    client.call(&["SQL", "DELETE FROM t WHERE id % 7 = 3 OR id BETWEEN 1000 AND 2000"]);
    let (mut seen, mut cursor) = (Vec::new(), "0".to_string());
    loop {
        let Reply::Array(mut parts) = client.call(&["TABLE.SCAN", "t", &cursor, "COUNT", "11"]) else { panic!() };
        let (Some(Reply::Array(rows)), Some(Reply::Bulk(next))) = (parts.pop(), parts.pop()) else { panic!() };
        for row in rows {
            let Reply::Map(columns) = row else { panic!() };
            let Reply::Int(id) = columns[0].1 else { panic!() };
            seen.push(id);
        }
        cursor = String::from_utf8_lossy(&next).into_owned();
        if cursor == "0" {
            break;
        }
    }
    seen.sort_unstable();
    let expected: Vec<i64> = (0..3000).filter(|id| id % 7 != 3 && !(1000..=2000).contains(id)).collect();
    assert_eq!(expected, seen);
    for beyond in ["1099511627776", "4398046511105", "18446744073709551615"] {
        let nothing = Reply::Array(vec![Reply::bulk("0"), Reply::Array(Vec::new())]);
        assert_eq!(nothing, client.call(&["TABLE.SCAN", "t", beyond]), "{beyond}");
    }
}
