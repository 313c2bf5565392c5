//! What a client sees of scripts, statements and their limits together.

use super::*;
use crate::engine::Memory;
use crate::env::Xoshiro;
use crate::error::Code;
use crate::keyspace::{Keyspace, Wants};
use crate::session::NoWaker;
use crate::txn::{Tables, redo, undo};

/// A store and a session of it.
pub(super) struct Client {
    pub store: Store,
    pub session: SessionId,
    owns_store: bool,
}

impl Client {
    pub fn new() -> Client {
        Client::with(Options { debug_commands: true, ..Options::default() })
    }

    /// The first session of a store opened so.
    pub fn with(options: Options) -> Client {
        let store = Store::open(options).unwrap();
        let session = store.enter().open_session(Door::Embedded, Arc::new(NoWaker));
        Client { store, session, owns_store: true }
    }

    /// A session of a store that goes with it.
    pub fn of(store: Store, session: SessionId) -> Client {
        Client { store, session, owns_store: true }
    }

    /// Another session of the same store.
    pub fn another(&self) -> Client {
        let session = self.store.enter().open_session(Door::Embedded, Arc::new(NoWaker));
        Client { store: self.store.clone(), session, owns_store: false }
    }

    /// The reply to a request, even if it comes late because it is a read that goes on elsewhere.
    pub fn call(&self, args: &[&str]) -> Reply {
        let reply = self.send(args);
        // A short read elsewhere may have answered before this thread runs again.
        let comes_late = |session: &mut Session| {
            !session.outbox.is_empty() || session.blocked.as_ref().is_some_and(|blocked| blocked.elsewhere.is_some())
        };
        if reply == Reply::None
            && self.store.enter().activate(self.session).is_some_and(|mut active| comes_late(active.session()))
        {
            return self.late();
        }
        reply
    }

    /// The reply that a request has at once.
    pub fn send(&self, args: &[&str]) -> Reply {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        self.store.enter().execute(self.session, &args)
    }

    /// The reply that comes later.
    pub fn late(&self) -> Reply {
        loop {
            if let Some(reply) = self.store.enter().activate(self.session).unwrap().session().outbox.pop() {
                return reply.plain();
            }
            std::thread::yield_now();
        }
    }

    pub fn error(&self, args: &[&str]) -> String {
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
                match store.overrun().kill_script() {
                    Err(error) if error.code == Code::NotBusy => std::thread::yield_now(),
                    answer => return answer,
                }
            }
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.owns_store {
            self.store.close();
        }
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
    let named = client.call(&["TABLE.SCAN", "t", "0", "COUNT", "2", "ROWS"]);
    let Reply::Array(parts) = named else { panic!("{named:?}") };
    let empty = client.call(&["SQL", "SELECT id, name FROM t WHERE id = 0"]);
    let Reply::Array(lines) = empty else { panic!("{empty:?}") };
    let Reply::Array(rows) = &parts[1] else { panic!() };
    assert_eq!((3, &lines[..]), (rows.len(), &rows[..2]));
    assert!(client.error(&["TABLE.SCAN", "t", "0", "ROWS", "COUNT", "2"]).contains("syntax error"));
    for beyond in ["1099511627776", "4398046511105", "18446744073709551615"] {
        let nothing = Reply::Array(vec![Reply::bulk("0"), Reply::Array(Vec::new())]);
        assert_eq!(nothing, client.call(&["TABLE.SCAN", "t", beyond]), "{beyond}");
    }
}

/// A statement about a few small tables; many fail.
pub(super) fn random_statement(random: &mut Xoshiro) -> String {
    let table = ["t", "u"][random.below(2) as usize];
    let (id, other) = (random.below(30), random.below(8));
    let text = "x".repeat(random.below(if other == 0 { 9000 } else { 40 }) as usize);
    match random.below(16) {
        0 => format!("CREATE TABLE {table} (id INTEGER PRIMARY KEY AUTOINCREMENT, a INT UNIQUE, b TEXT DEFAULT 'new')"),
        1 if other < 2 => format!("DROP TABLE {table}"),
        2 => format!("CREATE {} INDEX i{other} ON {table} (b)", ["", "UNIQUE"][(other == 0) as usize]),
        3 => format!("DROP INDEX i{other}"),
        4 | 5 => format!("INSERT INTO {table} (id, b) VALUES ({id}, '{text}')"),
        6 | 7 => format!("INSERT INTO {table} (a) VALUES ({id}), ({other}), (NULL)"),
        8 => format!("INSERT OR IGNORE INTO {table} (a, b) VALUES ({other}, 'y'), ({id}, 'z')"),
        9 => format!("REPLACE INTO {table} VALUES ({other}, {id}, '{text}')"),
        10 => format!("INSERT INTO {table} (b) SELECT b || '!' FROM {table} WHERE id < {id}"),
        11 | 12 => format!("UPDATE {table} SET b = '{text}', a = a + {other} WHERE id > {id}"),
        13 => format!("UPDATE {table} SET id = id + 1 WHERE id = {id}"),
        14 => format!("DELETE FROM {table} WHERE id = {id}"),
        _ => format!("DELETE FROM {table} WHERE id % 8 = {other}"),
    }
}

/// Invariants 5 and 6: the effects of statements done again in an empty store give the same tables, and undone none.
#[test]
fn effects_of_statements_replay_and_undo() {
    for seed in 0..12 {
        let (client, mut random) = (Client::new(), Xoshiro::from_seed(seed));
        {
            let mut baton = client.store.enter();
            baton.state().recorded = Some(Vec::new());
            baton.state().wants |= Wants::REDO | Wants::UNDO;
        }
        let mut succeeded = 0;
        for _ in 0..250 {
            let statement = random_statement(&mut random);
            let reply = match random.below(4) {
                0 => {
                    client.call(&["EVAL", "redis.call('INCR', 'k') return redis.call('SQL', ARGV[1])", "0", &statement])
                }
                _ => client.call(&["SQL", &statement]),
            };
            succeeded += i32::from(!matches!(reply, Reply::Error(_)));
        }
        assert!(succeeded > 40, "{succeeded} statements of seed {seed} succeeded");
        let mut baton = client.store.enter();
        let state = baton.state();
        let recorded = state.recorded.take().unwrap();
        let (mut keyspace, mut tables) = (Keyspace::new(16), Tables::new(Box::new(Memory::new())));
        for effect in &recorded {
            let mut record = Vec::new();
            redo::encode(effect, &mut record);
            redo::replay(&record, &mut keyspace, &mut tables).unwrap();
        }
        assert_eq!(state.tables.digest(), tables.digest(), "seed {seed}");
        assert_eq!(state.keyspace.digest(), keyspace.digest(), "seed {seed}");
        for effect in recorded.into_iter().rev() {
            undo::undo(effect, &mut state.keyspace, &mut state.tables).unwrap();
        }
        assert_eq!(0, state.tables.catalog.tables().count(), "seed {seed}");
        assert_eq!(Keyspace::new(16).digest(), state.keyspace.digest(), "seed {seed}");
    }
}
