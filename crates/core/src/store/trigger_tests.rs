//! Triggers, functions called by SQL and schedules in a whole store, with routines in Lua.

use super::tests::Client;
use super::*;
use crate::env::simulated::SimulatedFiles;
use crate::env::{TestEnv, Xoshiro};
use crate::limits;
use crate::reply::Reply;
use std::sync::atomic::{AtomicI64, Ordering as AtomicOrdering};

const LIBRARY: &str = r#"#!lua name=t
local function words(row)
  if not row then return '-' end
  local names = {}
  for name in pairs(row) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do names[i] = name .. '=' .. tostring(row[name]) end
  return table.concat(names, ',')
end
redis.register_function('tell', function(e)
  local what = e.trigger .. ' ' .. e.table .. ' ' .. e.when .. ' ' .. e.event
  redis.call('RPUSH', 'told', what .. ' ' .. words(e.old) .. ' ' .. words(e.new))
end)
redis.register_function('upper', function(e) e.new.name = string.upper(e.new.name) end)
redis.register_function('refuse', function(e)
  redis.call('SET', 'tried', e.new.id)
  error('no ' .. e.new.name)
end)
redis.register_function('reply', function(e) return redis.error_reply('NEVER do that') end)
redis.register_function('copy', function(e)
  peryton.sql('INSERT INTO copies VALUES (?, ?)', e.new.id, e.new.name)
end)
redis.register_function('insert', function(keys, args)
  return peryton.sql('INSERT INTO t (id, name) VALUES (?, ?)', tonumber(args[1]), args[2])
end)
redis.register_function('again', function(e)
  redis.call('SQL', 'INSERT INTO t (id, name) SELECT ?, ?', e.new.id + 1, 'x')
end)
redis.register_function('unknown', function(e) e.new.nosuch = 1 end)
redis.register_function('event', function(e)
  redis.call('RPUSH', 'events', e.trigger .. ' ' .. e.key .. ' ' .. e.event .. ' ' .. e.db)
end)
redis.register_function('fail', function(e)
  redis.call('SET', 'half', 1)
  error('cannot')
end)
redis.register_function('follow', function(e) redis.call('INCR', e.key) end)
redis.register_function('tick', function(keys, args)
  redis.call('RPUSH', 'ticks', args[1] or 'none')
  if args[1] == 'bad' then error('bad tick') end
end)
"#;

fn loaded() -> Client {
    let client = Client::new();
    assert_eq!(Reply::bulk("t"), client.call(&["FUNCTION", "LOAD", LIBRARY]));
    sql(&client, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, big INTEGER)");
    client
}

fn sql(client: &Client, statement: &str) -> Reply {
    match client.call(&["SQL", statement]) {
        Reply::Error(error) => panic!("{statement}: {error}"),
        reply => reply,
    }
}

fn error(client: &Client, request: &[&str]) -> String {
    match client.call(request) {
        Reply::Error(error) => error.to_string(),
        reply => panic!("{request:?}: {reply:?}"),
    }
}

fn list(client: &Client, key: &str) -> Vec<String> {
    let Reply::Array(items) = client.call(&["LRANGE", key, "0", "-1"]) else { panic!() };
    let text = |item: Reply| match item {
        Reply::Bulk(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        other => panic!("{other:?}"),
    };
    client.call(&["DEL", key]);
    items.into_iter().map(text).collect()
}

fn count(client: &Client, table: &str) -> Reply {
    match sql(client, &format!("SELECT count(*) FROM {table}")) {
        Reply::Array(rows) => match &rows[1] {
            Reply::Array(row) => row[0].clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// The values of rows, without the names of their columns.
fn shown(rows: Reply) -> String {
    let value = |value: &Reply| match value {
        Reply::Int(number) => number.to_string(),
        Reply::Bulk(text) | Reply::Verbatim(_, text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    };
    let Reply::Array(rows) = rows else { panic!("{rows:?}") };
    let row = |row: &Reply| match row {
        Reply::Array(values) => values.iter().map(value).collect::<Vec<_>>().join(" "),
        other => panic!("{other:?}"),
    };
    rows[1..].iter().map(row).collect::<Vec<_>>().join(" ")
}

fn digests(client: &Client) -> (u64, u64) {
    let mut baton = client.store.enter();
    let state = baton.state();
    (state.keyspace.digest(), state.tables.digest().unwrap())
}

#[test]
fn a_routine_gets_the_event_and_changes_the_row() {
    let client = loaded();
    sql(&client, "CREATE TRIGGER a BEFORE INSERT ON t CALL upper");
    sql(&client, "CREATE TRIGGER b AFTER INSERT ON t CALL tell");
    sql(&client, "CREATE TRIGGER c AFTER UPDATE ON t CALL tell");
    sql(&client, "CREATE TRIGGER d BEFORE DELETE ON t CALL tell");
    // An integer that no double holds passes through unchanged.
    sql(&client, "INSERT INTO t VALUES (1, 'ann', 9007199254740993)");
    sql(&client, "UPDATE t SET name = NULL WHERE id = 1");
    client.call(&["TABLE.DEL", "t", "1"]);
    let expected = [
        "b t after insert - big=9007199254740993,id=1,name=ANN",
        "c t after update big=9007199254740993,id=1,name=ANN big=9007199254740993,id=1",
        "d t before delete big=9007199254740993,id=1 -",
    ];
    assert_eq!(expected.map(String::from).to_vec(), list(&client, "told"));
    client.call(&["TABLE.PUT", "t", "id", "2", "name", "bob"]);
    assert_eq!(vec!["b t after insert - id=2,name=BOB"], list(&client, "told"));
}

#[test]
fn a_failure_undoes_the_statement_with_keys_and_all() {
    let client = loaded();
    sql(&client, "CREATE TABLE copies (id INTEGER PRIMARY KEY, name TEXT)");
    sql(&client, "CREATE TRIGGER a AFTER INSERT ON t CALL copy");
    sql(&client, "CREATE TRIGGER b AFTER INSERT ON t WHEN (NEW.id = 3) CALL refuse");
    let before = digests(&client);
    let failure = error(&client, &["SQL", "INSERT INTO t (id, name) VALUES (1, 'a'), (2, 'b'), (3, 'c')"]);
    assert!(failure.starts_with("CONSTRAINT 09000 trigger b of table t: "), "{failure}");
    assert!(
        failure.contains("no c") && failure.contains("refuse") && failure.contains("@user_function:17"),
        "{failure}"
    );
    assert_eq!(before, digests(&client));
    sql(&client, "INSERT INTO t (id, name) VALUES (1, 'a'), (2, 'b')");
    assert_eq!((Reply::Int(2), Reply::Int(2)), (count(&client, "t"), count(&client, "copies")));
    let many = ["SQL.MANY", "it", "INSERT INTO t (id, name) VALUES (?, ?)", "5", "e", "3", "c"];
    let failure = error(&client, &many);
    assert!(failure.starts_with("CONSTRAINT 09000 row 2: trigger b of table t: "), "{failure}");
    assert_eq!((Reply::Int(2), Reply::Int(2)), (count(&client, "t"), count(&client, "copies")));
    sql(&client, "CREATE TRIGGER c BEFORE UPDATE ON t CALL reply");
    let failure = error(&client, &["SQL", "UPDATE t SET name = 'x'"]);
    assert!(failure.starts_with("CONSTRAINT 09000 trigger c of table t: NEVER do that"), "{failure}");
    sql(&client, "CREATE TRIGGER d BEFORE INSERT ON t CALL unknown");
    let failure = error(&client, &["SQL", "INSERT INTO t (id) VALUES (9)"]);
    assert!(failure.contains("nosuch"), "{failure}");
}

#[test]
fn scripts_and_functions_fire_triggers_too() {
    let client = loaded();
    sql(&client, "CREATE TABLE copies (id INTEGER PRIMARY KEY, name TEXT)");
    sql(&client, "CREATE TRIGGER a AFTER INSERT ON t CALL copy");
    sql(&client, "CREATE TRIGGER b AFTER INSERT ON copies CALL tell");
    client.call(&["EVAL", "redis.call('SQL', 'INSERT INTO t (id, name) VALUES (1, ?)', ARGV[1])", "0", "x"]);
    client.call(&["FCALL", "insert", "0", "2", "y"]);
    let expected = ["b copies after insert - id=1,name=x", "b copies after insert - id=2,name=y"];
    assert_eq!(expected.map(String::from).to_vec(), list(&client, "told"));
    // A script that catches the failure goes on, without what the statement did.
    sql(&client, "CREATE TRIGGER c BEFORE INSERT ON copies WHEN (NEW.id = 9) CALL refuse");
    let script = "local r = redis.pcall('SQL', 'INSERT INTO t (id, name) VALUES (9, \\'z\\')') return r.err";
    let Reply::Bulk(failure) = client.call(&["EVAL", script, "0"]) else { panic!() };
    assert!(String::from_utf8_lossy(&failure).contains("09000 trigger c of table copies"), "{failure:?}");
    assert_eq!((Reply::Int(2), Reply::Nil), (count(&client, "t"), client.call(&["GET", "tried"])));
}

#[test]
fn in_a_transaction_a_failure_undoes_the_statement_alone() {
    let client = loaded();
    sql(&client, "CREATE TRIGGER b AFTER INSERT ON t WHEN (NEW.id = 3) CALL refuse");
    sql(&client, "CREATE TRIGGER c AFTER INSERT ON t CALL tell");
    client.call(&["BEGIN"]);
    client.call(&["SET", "mine", "1"]);
    sql(&client, "INSERT INTO t (id, name) VALUES (1, 'a')");
    error(&client, &["SQL", "INSERT INTO t (id, name) VALUES (2, 'b'), (3, 'c')"]);
    assert_eq!(Reply::Nil, client.call(&["GET", "tried"]));
    assert_eq!(Reply::bulk("1"), client.call(&["GET", "mine"]));
    assert_eq!(Reply::Int(1), client.call(&["LLEN", "told"]));
    assert_eq!(Reply::Nil, client.another().call(&["GET", "mine"]));
    client.call(&["COMMIT"]);
    assert_eq!(vec!["c t after insert - id=1,name=a"], list(&client, "told"));
    assert_eq!(Reply::Int(1), count(&client, "t"));
    client.call(&["BEGIN"]);
    sql(&client, "INSERT INTO t (id, name) VALUES (5, 'e')");
    client.call(&["ROLLBACK"]);
    assert!(list(&client, "told").is_empty());
    // A function that is atomic has closed its own scope when the statement fails.
    let atomic = "#!lua name=a\nredis.register_function{function_name='safe', flags={'atomic'}, callback=function(e) \
                  redis.call('SET', 'safe', e.new.id) end}";
    assert_eq!(Reply::bulk("a"), client.call(&["FUNCTION", "LOAD", atomic]));
    sql(&client, "CREATE TRIGGER a AFTER INSERT ON t CALL safe");
    client.call(&["BEGIN"]);
    sql(&client, "INSERT INTO t (id, name) VALUES (6, 'f')");
    error(&client, &["SQL", "INSERT INTO t (id, name) VALUES (7, 'g'), (3, 'c')"]);
    assert_eq!(Reply::bulk("6"), client.call(&["GET", "safe"]));
    client.call(&["COMMIT"]);
    assert_eq!(Reply::bulk("6"), client.call(&["GET", "safe"]));
}

/// Through SQLite at each step, on the smallest stack that callers may have.
#[test]
fn a_chain_of_triggers_ends_and_is_named() {
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(chain_of_triggers);
    thread.unwrap().join().unwrap();
}

fn chain_of_triggers() {
    let client = loaded();
    sql(&client, "CREATE TRIGGER more AFTER INSERT ON t CALL again");
    let before = digests(&client);
    let failure = error(&client, &["SQL", "INSERT INTO t (id) VALUES (1)"]);
    assert!(failure.contains("more -> more -> more"), "{failure}");
    assert_eq!(before, digests(&client));
    sql(&client, "DROP TRIGGER more");
    sql(&client, "CREATE TRIGGER more AFTER INSERT ON t WHEN (NEW.id < 6) CALL again");
    sql(&client, "INSERT INTO t (id) VALUES (1)");
    assert_eq!(Reply::Int(6), count(&client, "t"));
}

#[test]
fn a_routine_that_is_gone_fails_the_writer() {
    let client = loaded();
    sql(&client, "CREATE TRIGGER a AFTER INSERT ON t CALL tell");
    client.call(&["FUNCTION", "DELETE", "t"]);
    let failure = error(&client, &["SQL", "INSERT INTO t (id) VALUES (1)"]);
    assert!(failure.starts_with("SQL 42883 trigger a calls function tell, which is gone"), "{failure}");
    assert_eq!(Reply::Int(0), count(&client, "t"));
    client.call(&["FUNCTION", "LOAD", LIBRARY]);
    sql(&client, "INSERT INTO t (id) VALUES (1)");
}

#[test]
fn keys_fire_triggers_by_pattern_and_event() {
    let client = loaded();
    sql(&client, "CREATE TRIGGER all ON KEYS 'user:*' CALL event");
    sql(&client, "CREATE TRIGGER gone ON KEYS '[ou]*' FOR 'del', 'expired' CALL event");
    client.call(&["SET", "user:1", "x"]);
    client.call(&["SET", "other", "x"]);
    client.call(&["DEL", "other", "user:1"]);
    client.call(&["EVAL", "redis.call('HSET', 'user:2', 'a', 1) redis.call('HDEL', 'user:2', 'a')", "0"]);
    client.call(&["SELECT", "3"]);
    client.call(&["SET", "user:3", "x"]);
    assert_eq!(vec!["all user:3 set 3"], list(&client, "events"));
    client.call(&["SELECT", "0"]);
    let expected = [
        "all user:1 set 0",
        "gone other del 0",
        "all user:1 del 0",
        "gone user:1 del 0",
        "all user:2 hset 0",
        "all user:2 hdel 0",
        "all user:2 del 0",
        "gone user:2 del 0",
    ];
    assert_eq!(expected.map(String::from).to_vec(), list(&client, "events"));
    // In a transaction they fire when it commits, in EXEC at its end.
    client.call(&["BEGIN"]);
    client.call(&["SET", "user:4", "x"]);
    assert!(list(&client, "events").is_empty());
    client.call(&["COMMIT"]);
    client.call(&["MULTI"]);
    client.call(&["SET", "user:5", "x"]);
    client.call(&["LLEN", "events"]);
    assert_eq!(Reply::Array(vec![Reply::Ok, Reply::Int(1)]), client.call(&["EXEC"]));
    assert_eq!(vec!["all user:4 set 0", "all user:5 set 0"], list(&client, "events"));
    sql(&client, "DROP TRIGGER all, gone");
    client.call(&["SET", "user:6", "x"]);
    assert!(list(&client, "events").is_empty());
}

#[test]
fn a_trigger_of_keys_that_fails_is_undone_and_counted() {
    let client = loaded();
    sql(&client, "CREATE TRIGGER bad ON KEYS 'x' CALL fail");
    assert_eq!(Reply::Ok, client.call(&["SET", "x", "1"]));
    assert_eq!(Reply::Nil, client.call(&["GET", "half"]));
    assert_eq!(Reply::bulk("1"), client.call(&["GET", "x"]));
    let query = "SELECT calls, failures, last_error LIKE '%cannot%' FROM information_schema.triggers";
    let Reply::Array(rows) = sql(&client, query) else { panic!() };
    assert_eq!(Reply::Array(vec![Reply::Int(1), Reply::Int(1), Reply::Int(1)]), rows[1]);
}

#[test]
fn triggers_of_keys_that_fire_themselves_end() {
    let client = loaded();
    sql(&client, "CREATE TRIGGER turn ON KEYS 'n' CALL follow");
    client.call(&["INCR", "n"]);
    let expected = (1 + limits::TRIGGER_DEPTH_MAX).to_string();
    assert_eq!(Reply::bulk(&expected), client.call(&["GET", "n"]));
    let error = shown(sql(&client, "SELECT last_error FROM information_schema.triggers"));
    assert!(error.contains("turn -> turn"), "{error}");
}

#[test]
fn what_triggers_do_is_in_the_log_and_fires_nothing_when_it_is_read() {
    let files = SimulatedFiles::new(1);
    let open = |files: &SimulatedFiles| {
        let options =
            Options { files: Some(Arc::new(files.clone())), durability: Some(Durability::Sync), ..Options::default() };
        let store = Store::open(options).unwrap();
        let session = store.enter().open_session(Door::Embedded, Arc::new(crate::session::NoWaker));
        Client::of(store, session)
    };
    let client = open(&files);
    client.call(&["FUNCTION", "LOAD", LIBRARY]);
    sql(&client, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)");
    sql(&client, "CREATE TRIGGER a BEFORE INSERT ON t CALL upper");
    sql(&client, "CREATE TRIGGER b AFTER INSERT ON t CALL tell");
    sql(&client, "CREATE TRIGGER k ON KEYS 'told' FOR 'rpush' CALL event");
    sql(&client, "CREATE SCHEDULE s EVERY 3 DAYS CALL tick WITH ('x')");
    let mut files = files;
    let mut client = client;
    for round in 0..4 {
        sql(&client, &format!("INSERT INTO t (id, name) VALUES ({round}, 'n{round}')"));
        if round == 1 {
            assert_eq!(Reply::Ok, client.call(&["SAVE"]));
        }
        let before = digests(&client);
        client.store.close();
        drop(client);
        files = files.crash(round);
        client = open(&files);
        assert_eq!(before, digests(&client), "round {round}");
        assert_eq!(Reply::Int(round as i64 + 1), client.call(&["LLEN", "told"]));
        assert_eq!(Reply::Int(round as i64 + 1), client.call(&["LLEN", "events"]));
    }
    assert_eq!("N0 N1 N2 N3", shown(sql(&client, "SELECT name FROM t ORDER BY id")));
}

#[test]
fn the_slow_log_names_what_a_request_fired() {
    let client = loaded();
    sql(&client, "CREATE TRIGGER a BEFORE INSERT ON t CALL upper");
    sql(&client, "CREATE TRIGGER b AFTER INSERT ON t CALL tell");
    sql(&client, "CREATE TRIGGER c ON KEYS 'told' CALL event");
    client.call(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    let slowest = |request: &[&str]| {
        client.call(request);
        let mut baton = client.store.enter();
        let entry = baton.state().slowlog.newest(1).next().unwrap().arguments.clone();
        entry.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>().join(" ")
    };
    let insert = "INSERT INTO t (id, name) VALUES (1, 'x'), (2, 'y')";
    let fired = "(trigger a CALL upper, trigger b CALL tell, trigger c CALL event)";
    assert_eq!(format!("SQL {insert} {fired}"), slowest(&["SQL", insert]));
    assert_eq!("GET k", slowest(&["GET", "k"]));
    assert_eq!("LPUSH told x (trigger c CALL event)", slowest(&["LPUSH", "told", "x"]));
    assert_eq!("SQL DELETE FROM t", slowest(&["SQL", "DELETE FROM t"]));
}

#[test]
fn sql_calls_pure_functions() {
    let client = Client::new();
    let library = r#"#!lua name=p
redis.register_function{function_name='twice', callback=function(a) return a * 2 end, flags={'pure'}}
redis.register_function{function_name='glue', callback=function(a, b) return (a or '?') .. (b or '?') end, flags={'pure'}}
redis.register_function{function_name='lower', callback=function(a) return 'mine' end, flags={'pure'}}
redis.register_function{function_name='sets', callback=function(a) return redis.call('SET', 'k', a) end, flags={'pure'}}
redis.register_function('impure', function(keys, args) return 1 end)
"#;
    assert_eq!(Reply::bulk("p"), client.call(&["FUNCTION", "LOAD", library]));
    sql(&client, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)");
    sql(&client, "INSERT INTO t VALUES (1, 'a'), (2, NULL), (3, 'c')");
    let rows = |statement: &str| shown(sql(&client, statement));
    let one = rows("SELECT twice(21), glue('a', NULL), lower('ABC')");
    assert_eq!("42 a? abc", one);
    let some = rows("SELECT id FROM t WHERE twice(id) > 3 ORDER BY glue(name, id) DESC");
    assert_eq!("3 2", some);
    sql(&client, "UPDATE t SET id = twice(id) + 10");
    assert_eq!("12 14 16", rows("SELECT id FROM t ORDER BY id"));
    sql(&client, "CREATE VIEW v AS SELECT twice(id) AS d FROM t");
    assert_eq!("24", rows("SELECT min(d) FROM v"));
    for (statement, message) in [
        ("SELECT impure(1)", "no such function: impure"),
        ("SELECT twice('x')", "SQL 38000 function twice: "),
        ("SELECT sets(1)", "a pure function calls no commands"),
        ("CREATE TABLE u (a INTEGER CHECK (twice(a) > 1))", "no such function: twice"),
        ("CREATE TABLE u (a INTEGER DEFAULT (twice(1)))", "no definition can call it"),
        ("CREATE INDEX i ON t (twice(id))", "no such function: twice"),
    ] {
        let failure = error(&client, &["SQL", statement]);
        assert!(failure.contains(message), "{statement}: {failure}");
    }
    let later = library.replace("a * 2", "a * 3").replace("'glue'", "'paste'");
    client.call(&["FUNCTION", "LOAD", "REPLACE", &later]);
    assert_eq!("63", rows("SELECT twice(21)"));
    assert!(error(&client, &["SQL", "SELECT glue(1, 2)"]).contains("no such function: glue"));
    client.call(&["FUNCTION", "FLUSH"]);
    assert!(error(&client, &["SQL", "SELECT twice(1)"]).contains("no such function: twice"));
    assert!(error(&client, &["SQL", "SELECT * FROM v"]).contains("no such function: twice"));
}

#[test]
fn a_long_read_that_calls_functions_gives_the_same_rows() {
    let client = Client::new();
    let library = "#!lua name=p\nredis.register_function{function_name='twice', callback=function(a) return a * 2 end, \
                   flags={'pure'}}";
    client.call(&["FUNCTION", "LOAD", library]);
    sql(&client, "CREATE TABLE t (id INTEGER PRIMARY KEY USING BTREE, a INTEGER)");
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)";
    sql(&client, &format!("{numbers} INSERT INTO t SELECT i, i % 100 FROM n"));
    client.store.enter().state().config.statement_slice_us = 1;
    // The function comes first here, and there after a sort that takes its time.
    for query in
        ["SELECT sum(twice(a)) FROM t", "SELECT sum(twice(a)) FROM (SELECT a FROM t ORDER BY a, id DESC LIMIT -1)"]
    {
        let Reply::Array(rows) = client.call(&["SQL", query]) else { panic!() };
        assert_eq!(Reply::Array(vec![Reply::Int(2_970_000)]), rows[1], "{query}");
    }
}

/// A world whose clock a test moves.
pub(super) struct World(pub Arc<AtomicI64>, pub Xoshiro);

impl Env for World {
    fn now_us(&mut self) -> i64 {
        self.0.load(AtomicOrdering::Relaxed)
    }
    fn monotonic_ns(&mut self) -> u64 {
        self.0.load(AtomicOrdering::Relaxed) as u64 * 1000
    }
    fn random_u64(&mut self) -> u64 {
        self.1.next()
    }
}

#[test]
fn schedules_are_called_when_they_are_due() {
    let start_us = TestEnv::new(1).now_us;
    let now_us = Arc::new(AtomicI64::new(start_us));
    let env = Box::new(World(now_us.clone(), Xoshiro::from_seed(1)));
    let client = Client::with(Options { env: Some(env), ..Options::default() });
    client.call(&["FUNCTION", "LOAD", LIBRARY]);
    client.call(&["CONFIG", "SET", "requirepass", "secret"]);
    sql(&client, "CREATE SCHEDULE second EVERY 1 SECOND CALL tick WITH ('s')");
    sql(&client, "CREATE SCHEDULE minute EVERY 1 MINUTE CALL tick WITH ('bad', 2)");
    let at = |ms: i64| {
        now_us.store(start_us + ms * 1000, AtomicOrdering::Relaxed);
        // The store's own thread may be quicker, which is as well.
        client.store.enter().keep_house(Vec::new());
        list(&client, "ticks").join(" ")
    };
    assert_eq!("", at(999));
    assert_eq!("s", at(1000));
    assert_eq!("", at(1500));
    assert_eq!("s", at(2100));
    assert_eq!("s", at(30_000), "not once for each second that was missed");
    assert_eq!("s bad", at(60_000));
    let query = "SELECT runs, failures, last_run, next_run, last_error LIKE '%bad tick%' \
                 FROM information_schema.schedules WHERE schedule_name = 'minute'";
    let Reply::Array(rows) = sql(&client, query) else { panic!() };
    let text = |text: &str| Reply::Verbatim(*b"txt", crate::reply::Blob::from_slice(text.as_bytes())).plain();
    let expected = vec![
        Reply::Int(1),
        Reply::Int(1),
        text("2026-01-01 00:01:00.000"),
        text("2026-01-01 00:02:00.000"),
        Reply::Int(1),
    ];
    assert_eq!(Reply::Array(expected), rows[1]);
    sql(&client, "DROP SCHEDULE second, minute");
    assert_eq!("", at(200_000));
    assert!(client.store.enter().state().routines.next_due_ns().is_none());
}
