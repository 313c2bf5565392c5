//! Procedures in a whole store: tables without text, functions that call others, limits, and functions that are atomic.

use super::tests::Client;
use super::*;
use crate::keyspace::Wants;
use crate::reply::Reply;

fn bulk(text: &str) -> Reply {
    Reply::bulk(text)
}

fn ints(numbers: &[i64]) -> Reply {
    Reply::Array(numbers.iter().map(|n| Reply::Int(*n)).collect())
}

fn load(client: &Client, functions: &str) {
    let text = format!("#!lua name=lib\n{functions}");
    assert_eq!(bulk("lib"), client.call(&["FUNCTION", "LOAD", "REPLACE", &text]));
}

fn with_table() -> Client {
    let client = Client::new();
    client.call(&["SQL", "CREATE TABLE t (id INT PRIMARY KEY, name TEXT, n INT, data BLOB, price DECIMAL(10,2))"]);
    client.call(&["SQL", "CREATE TABLE pair (a TEXT, b INT, v INT, PRIMARY KEY (a, b))"]);
    client
}

#[test]
fn statements_go_to_tables_and_back_as_they_are() {
    let client = with_table();
    let eval = |text: &str| client.call(&["EVAL", text, "0"]);
    let text =
        "local n = peryton.sql('INSERT INTO t VALUES (?, ?, ?, ?, ?)', 1, 'ada', nil, peryton.blob('b\\0'), '1.50')
        n = n + peryton.sql('INSERT INTO t VALUES (2, ?, 9007199254740993, NULL, 2)', 'bob')
        local rows = peryton.sql('SELECT * FROM t ORDER BY id')
        local a, b = rows[1], rows[2]
        assert(a.n == nil and a.data == 'b\\0' and a.price == '1.50' and b.n == '9007199254740993')
        return {n, #rows, a.id, b.name, #peryton.sql('SELECT * FROM t WHERE id = 7')}";
    let expected = vec![Reply::Int(2), Reply::Int(2), Reply::Int(1), bulk("bob"), Reply::Int(0)];
    assert_eq!(Reply::Array(expected), eval(text));
    // By key, without and with SQLite, written and returned.
    for text in [
        "return peryton.sql('SELECT name FROM t WHERE id = ?', 1)[1].name",
        "return peryton.sql('SELECT name || \\'\\' AS name FROM t WHERE id = ?', 1)[1].name",
        "return peryton.sql('UPDATE t SET n = 1 WHERE id = ? RETURNING name', 1)[1].name",
        "return peryton.get('t', 1).name",
        "return peryton.get('t', '1', {'name'}).name",
        "return peryton.mget('t', {7, 1}, {'name'})[2].name",
    ] {
        assert_eq!(bulk("ada"), eval(text), "{text}");
        assert_eq!(bulk("ada"), eval(text), "{text} again");
    }
    assert_eq!(Reply::Int(1), eval("return peryton.sql('UPDATE t SET n = n + 1 WHERE id = ?', 1)"));
    assert_eq!(Reply::Int(2), eval("return peryton.get('t', 1).n"));
    eval(
        "peryton.sql('INSERT INTO pair VALUES (?, ?, ?)', 'x', 1, 10) peryton.sql('INSERT INTO pair VALUES (?, ?, ?)', 'x', 2, 20)",
    );
    assert_eq!(Reply::Int(20), eval("return peryton.get('pair', {'x', 2}).v"));
    let text = "local l = peryton.mget('pair', {{'x', 1}, {'y', 1}, {'x', 2}}, {'v'}) return {l[1].v, l[2] == false and 1, l[3].v}";
    assert_eq!(ints(&[10, 1, 20]), eval(text));
    for (text, expected) in [
        ("peryton.sql('SELECT * FROM none')", "SQL 42S02 no such table: none"),
        ("peryton.get('none', 1)", "SQL 42S02 no such table: none"),
        ("peryton.get('t', 1, {'nam'})", "SQL 42S22 table t has no column named nam"),
        ("peryton.get('pair', 'x')", "ERR a key of table pair has 2 values, 1 given"),
        ("peryton.sql('INSERT INTO t (id) VALUES (1)')", "CONSTRAINT 23505"),
        ("peryton.sql('SELECT ?')", "SQL 07001"),
    ] {
        let error = client.error(&["EVAL", text, "0"]);
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    assert_eq!(bulk("42S02"), eval("return peryton.psql('SELECT * FROM none').sqlstate"));
    assert_eq!(bulk("23505"), eval("return redis.pcall('SQL', 'INSERT INTO t (id) VALUES (1)').sqlstate"));
}

#[test]
fn a_blob_outlives_its_table_while_the_statement_runs() {
    let client = with_table();
    assert!(!client.call(&["SQL", "CREATE TABLE kept (id INT PRIMARY KEY, b BLOB)"]).is_error());
    load(
        &client,
        "local held
         redis.register_function('drop', function()
           held.blob = nil
           local others = {}
           for i = 1, 20000 do others[i] = string.rep(string.char(i % 200), 60) .. i end
           collectgarbage() collectgarbage()
           for i = 1, 20000 do others[i] = string.rep(string.char(i % 200), 60) .. i end
         end)
         redis.register_function('go', function(keys, args)
           held = peryton.blob(string.rep('\\255', 60) .. #args)
           return peryton.sql('INSERT INTO kept VALUES (1, x\\'00\\'), (2, ?), (3, ?)', held, held)
         end)",
    );
    assert!(!client.call(&["SQL", "CREATE TRIGGER d AFTER INSERT ON kept WHEN (NEW.id = 1) CALL drop"]).is_error());
    assert_eq!(Reply::Int(3), client.call(&["FCALL", "go", "0"]));
    let Reply::Array(rows) = client.call(&["SQL", "SELECT hex(b) FROM kept WHERE id > 1"]).plain() else { panic!() };
    let expected = Reply::Verbatim(*b"txt", ("FF".repeat(60) + "30").as_bytes().into());
    assert_eq!([Reply::Array(vec![expected.clone()]), Reply::Array(vec![expected])], rows[1..]);
}

#[test]
fn a_prepared_handle_lives_through_changes_of_the_table() {
    let client = with_table();
    load(
        &client,
        "local put, get = peryton.prepare('INSERT INTO t (id, name) VALUES (?, ?)'), peryton.prepare('SELECT * FROM t WHERE id = ?')
         redis.register_function('put', function(keys, args) return put(tonumber(args[1]), args[2]) end)
         redis.register_function('get', function(keys, args) local row = get(tonumber(args[1]))[1] return {row.name, row.more} end)",
    );
    assert_eq!(Reply::Int(1), client.call(&["FCALL", "put", "0", "1", "ada"]));
    assert_eq!(Reply::Array(vec![bulk("ada")]), client.call(&["FCALL", "get", "0", "1"]));
    client.call(&["SQL", "DROP TABLE t"]);
    assert!(client.error(&["FCALL", "get", "0", "1"]).starts_with("SQL 42S02 no such table: t"));
    client.call(&["SQL", "CREATE TABLE t (more TEXT DEFAULT 'more', name TEXT, id INT PRIMARY KEY)"]);
    assert_eq!(Reply::Int(1), client.call(&["FCALL", "put", "0", "1", "bob"]));
    assert_eq!(Reply::Array(vec![bulk("bob"), bulk("more")]), client.call(&["FCALL", "get", "0", "1"]));
}

#[test]
fn what_may_not_write_does_not_write_by_statements() {
    let client = with_table();
    let refusal = "ERR Write commands are not allowed from read-only scripts.";
    for text in ["peryton.sql('INSERT INTO t (id) VALUES (1)')", "peryton.sql('CREATE TABLE u (id INT)')"] {
        assert!(client.error(&["EVAL_RO", text, "0"]).contains(refusal), "{text}");
    }
    assert_eq!(Reply::Int(0), client.call(&["EVAL_RO", "return #peryton.sql('SELECT * FROM t')", "0"]));
    assert_eq!(Reply::Nil, client.call(&["EVAL_RO", "return peryton.get('t', 1)", "0"]));
    // In a transaction a script sees and writes what is the transaction's.
    client.call(&["BEGIN"]);
    assert_eq!(Reply::Int(1), client.call(&["EVAL", "return peryton.sql('INSERT INTO t (id, n) VALUES (1, 5)')", "0"]));
    assert_eq!(Reply::Int(5), client.call(&["EVAL", "return peryton.get('t', 1).n", "0"]));
    assert_eq!(Reply::Nil, client.another().call(&["EVAL", "return peryton.get('t', 1)", "0"]));
    client.call(&["ROLLBACK"]);
    assert_eq!(Reply::Nil, client.call(&["EVAL", "return peryton.get('t', 1)", "0"]));
}

const CALLS: &str = "
redis.register_function('set', function(keys, args) redis.call('SET', keys[1], args[1]) return redis.status_reply('OK') end)
redis.register_function{function_name='peek', callback=function(keys) return redis.call('GET', keys[1]) end, flags={'no-writes'}}
redis.register_function{function_name='sneak', callback=function(keys, args)
  return peryton.call('set', keys, args) end, flags={'no-writes'}}
redis.register_function('set_and_peek', function(keys, args)
  peryton.call('SET', keys, args)
  return peryton.call('peek', keys)
end)
redis.register_function('half', function(keys, args) return args.n / 2, args end)
redis.register_function('halves', function(keys, args) return tostring(peryton.call('half', nil, {n = 3})) end)
redis.register_function('fails', function(keys, args)
  error('inside')
end)
redis.register_function('outer', function(keys, args)
  return peryton.call('fails')
end)
redis.register_function('deep', function(keys, args) return peryton.call('deep') end)
redis.register_function('elsewhere', function() redis.call('SELECT', 3) redis.setresp(3) return 1 end)
redis.register_function('stays', function(keys) peryton.call('elsewhere') return redis.call('GET', keys[1]) end)";

#[test]
fn functions_call_others() {
    let client = Client::new();
    load(&client, CALLS);
    assert_eq!(bulk("1"), client.call(&["FCALL", "set_and_peek", "1", "k", "1"]));
    assert_eq!(bulk("1.5"), client.call(&["FCALL", "halves", "0"]));
    assert_eq!(bulk("1"), client.call(&["FCALL", "stays", "1", "k"]));
    let error = client.error(&["FCALL", "sneak", "1", "k", "2"]);
    assert!(error.starts_with("ERR Can not execute a script with write flag using *_ro command."), "{error}");
    assert_eq!(bulk("1"), client.call(&["GET", "k"]));
    assert_eq!(
        "ERR user_function:14: inside script: fails, on @user_function:14.",
        client.error(&["FCALL", "outer", "0"])
    );
    assert!(client.error(&["FCALL", "deep", "0"]).starts_with("LIMIT functions are nested more than 8 deep"));
    // From scripts, keys, arguments and result go as those of FCALL.
    assert_eq!(bulk("7"), client.call(&["EVAL", "return peryton.call('set_and_peek', KEYS, {7})", "1", "k"]));
    assert_eq!(Reply::status("OK"), client.call(&["EVAL", "return peryton.call('set', KEYS, ARGV)", "1", "k", "8"]));
    let error = client.error(&["EVAL_RO", "return peryton.call('set', KEYS, ARGV)", "1", "k", "9"]);
    assert!(error.starts_with("ERR Can not execute a script with write flag using *_ro command."), "{error}");
    assert!(client.error(&["EVAL", "peryton.call('nosuch')", "0"]).starts_with("ERR Function not found"));
    assert!(client.error(&["EVAL", "peryton.call('outer')", "0"]).ends_with("script: fails, on @user_function:14."));
    assert_eq!(bulk("8"), client.call(&["GET", "k"]));
}

const ATOMIC: &str = "
local function work(keys, args)
  redis.call('SET', keys[1], 'new', 'EX', 100)
  redis.call('RPUSH', 'list', 1, 2, 3)
  peryton.sql('INSERT INTO t (id, name) VALUES (1, ?)', 'new')
  peryton.sql('CREATE TABLE made (x INT)')
  peryton.sql('INSERT INTO made VALUES (1)')
  if args[1] == 'error' then error('no') end
  if args[1] == 'reply' then return redis.error_reply('MY no') end
  if args[1] == 'forever' then while true do end end
  return 'done'
end
redis.register_function{function_name='all', callback=work, flags={'atomic'}}
redis.register_function('half', work)
redis.register_function('outer', function(keys, args)
  redis.call('SET', 'outer', 1)
  local caught = {pcall(peryton.call, 'all', keys, args)}
  return tostring(caught[1])
end)";

fn atomic_store() -> Client {
    let client = with_table();
    load(&client, ATOMIC);
    client.call(&["SET", "k", "old", "EX", "1000"]);
    client
}

/// What is in keys and tables.
fn digests(client: &Client) -> (u64, u64) {
    let mut baton = client.store.enter();
    let state = baton.state();
    (state.keyspace.digest(), state.tables.digest().unwrap())
}

#[test]
fn what_is_atomic_leaves_all_or_nothing() {
    let client = atomic_store();
    {
        let mut baton = client.store.enter();
        baton.state().wants = Wants::REDO;
        baton.state().recorded = Some(Vec::new());
    }
    let recorded = || client.store.enter().state().recorded.as_ref().unwrap().len();
    let before = digests(&client);
    for how in ["error", "reply"] {
        client.error(&["FCALL", "all", "1", "k", how]);
        assert_eq!(before, digests(&client), "{how}");
        client.error(&[
            "EVAL",
            "#!lua flags=atomic\nredis.call('DEL', 'k') peryton.sql('DELETE FROM t') error('no')",
            "0",
        ]);
        assert_eq!(before, digests(&client));
    }
    assert_eq!(0, recorded());
    assert_eq!(bulk("false"), client.call(&["FCALL", "outer", "1", "k", "error"]));
    assert_eq!(Reply::Int(1), client.call(&["DEL", "outer"]));
    assert_eq!(before, digests(&client));
    assert_eq!(bulk("done"), client.call(&["FCALL", "all", "1", "k"]));
    assert_ne!(before, digests(&client));
    assert_eq!(bulk("new"), client.call(&["GET", "k"]));
    assert_eq!(3, recorded());
}

#[test]
fn what_is_not_atomic_stays_as_in_redis() {
    let client = atomic_store();
    client.error(&["FCALL", "half", "1", "k", "error"]);
    assert_eq!(bulk("new"), client.call(&["GET", "k"]));
    assert_eq!(bulk("new"), client.call(&["EVAL", "return peryton.get('t', 1).name", "0"]));
}

#[test]
fn in_transactions_only_its_own_work_is_undone() {
    let client = atomic_store();
    let before = digests(&client);
    // Definitions cannot change inside a transaction of BEGIN, so there it fails without being told to.
    client.call(&["BEGIN"]);
    client.call(&["SET", "mine", "1"]);
    client.error(&["FCALL", "all", "1", "k"]);
    assert_eq!(bulk("old"), client.call(&["GET", "k"]));
    assert_eq!(Reply::Nil, client.call(&["EVAL", "return peryton.get('t', 1)", "0"]));
    assert_eq!(Reply::Ok, client.call(&["COMMIT"]));
    assert_eq!(bulk("1"), client.call(&["GETDEL", "mine"]));
    assert_eq!(before, digests(&client));
    client.call(&["MULTI"]);
    client.call(&["SET", "mine", "1"]);
    client.call(&["FCALL", "all", "1", "k", "error"]);
    let Reply::Array(replies) = client.call(&["EXEC"]) else { panic!() };
    assert!(replies[1].is_error());
    client.call(&["DEL", "mine"]);
    assert_eq!(before, digests(&client));
}

/// Runs a request that has no end, and ends it with `end` as soon as it runs.
fn ended(client: &Client, args: &[&str], end: impl Fn(&Overrun) -> bool + Send + 'static) -> String {
    let store = client.store.clone();
    let killer = std::thread::spawn(move || {
        while store.overrun().running_for().is_none() || !end(store.overrun()) {
            std::thread::yield_now();
        }
    });
    let error = client.error(args);
    killer.join().unwrap();
    assert_eq!(Reply::status("PONG"), client.call(&["PING"]));
    error
}

#[test]
fn what_is_atomic_can_be_killed_after_it_wrote() {
    let client = atomic_store();
    let before = digests(&client);
    let kill = |overrun: &Overrun| {
        overrun.has_written() && overrun.answer(&[b"FUNCTION", b"KILL"]).is_some_and(|reply| reply == Reply::Ok)
    };
    let error = ended(&client, &["FCALL", "all", "1", "k", "forever"], kill);
    assert!(error.starts_with("ERR Script killed by user with SCRIPT KILL..."), "{error}");
    assert_eq!(before, digests(&client));
}

#[test]
fn a_time_limit_ends_whatever_runs() {
    let client = atomic_store();
    let before = digests(&client);
    client.call(&["CONFIG", "SET", "procedure-time-limit", "5"]);
    let told = "CANCELLED the procedure ran for longer than procedure-time-limit allows";
    for args in [
        &["FCALL", "all", "1", "k", "forever"][..],
        &["EVAL", "while true do pcall(function() while true do end end) end", "0"],
        &["EVAL", "while true do redis.pcall('GET', 'k') end", "0"],
        &["EVAL", "return string.find(('a'):rep(200000), '.-.-.-.-b$')", "0"],
    ] {
        assert!(client.error(args).starts_with(told), "{args:?}");
        assert_eq!(before, digests(&client));
    }
    client.call(&["CONFIG", "SET", "procedure-time-limit", "0"]);
    assert_eq!(Reply::Int(1), client.call(&["EVAL", "return 1", "0"]));
}

#[test]
fn commands_of_a_call_can_be_limited() {
    let client = atomic_store();
    let before = digests(&client);
    client.call(&["CONFIG", "SET", "procedure-call-limit", "100"]);
    let told = "CANCELLED the procedure gave more commands than procedure-call-limit allows";
    for text in [
        "#!lua flags=atomic\nwhile true do redis.pcall('INCR', 'n') end",
        "#!lua flags=atomic\nwhile true do pcall(peryton.sql, 'INSERT INTO t (id) SELECT coalesce(max(id), 0) + 1 FROM t') end",
        "for i = 1, 101 do redis.call('GET', 'k') end",
        "for i = 1, 101 do peryton.get('t', i) end",
    ] {
        let error = client.error(&["EVAL", text, "0"]);
        assert!(error.starts_with(told), "{text}: {error}");
        assert_eq!(before, digests(&client), "{text}");
    }
    assert_eq!(Reply::Nil, client.call(&["EVAL", "for i = 1, 100 do redis.call('GET', 'k') end", "0"]));
}

#[test]
fn memory_of_a_call_can_be_limited() {
    let client = Client::new();
    let text = "local t = {} for i = 1, 300000 do t[i] = 'number ' .. i end return #t";
    assert_eq!(Reply::Int(300_000), client.call(&["EVAL", text, "0"]));
    client.call(&["CONFIG", "SET", "procedure-memory-growth", "4mb"]);
    assert!(client.error(&["EVAL", text, "0"]).contains("not enough memory"));
    client.call(&["CONFIG", "SET", "procedure-memory-growth", "0"]);
    client.call(&["CONFIG", "SET", "procedure-memory-limit", "8mb"]);
    assert!(client.error(&["EVAL", text, "0"]).contains("not enough memory"));
    assert!(client.error(&["CONFIG", "SET", "procedure-memory-limit", "1kb"]).contains("argument must be between"));
    client.call(&["CONFIG", "SET", "procedure-memory-limit", "256mb"]);
    assert_eq!(Reply::Int(300_000), client.call(&["EVAL", text, "0"]));
}

#[test]
fn a_pure_function_reaches_no_data() {
    let client = Client::new();
    load(&client, "redis.register_function{function_name='f', callback=function() return 1 end, flags={'pure'}}");
    let Reply::Array(list) = client.call(&["FUNCTION", "LIST"]) else { panic!() };
    assert!(format!("{list:?}").contains("pure"));
    // Called as a function it may read.
    assert_eq!(Reply::Int(1), client.call(&["FCALL_RO", "f", "0"]));
}

#[test]
fn routines_are_counted_and_timed() {
    let client = Client::new();
    load(&client, CALLS);
    for _ in 0..3 {
        client.call(&["FCALL", "set_and_peek", "1", "k", "1"]);
        client.error(&["FCALL", "outer", "0"]);
    }
    let text = "SELECT routine_name, calls, failures, timed, total_us >= max_us, routine_schema FROM \
                information_schema.routines WHERE calls > 0 ORDER BY routine_name";
    let Reply::Array(rows) = client.call(&["SQL", text]) else { panic!() };
    let row = |name: &str, calls, failures, timed| {
        let name = Reply::Verbatim(*b"txt", name.as_bytes().into());
        let numbers = [calls, failures, timed, 1].map(Reply::Int);
        let library = Reply::Verbatim(*b"txt", b"lib"[..].into());
        Reply::Array([name].into_iter().chain(numbers).chain([library]).collect())
    };
    let expected = [
        row("fails", 3, 3, 0),
        row("outer", 3, 3, 3),
        row("peek", 3, 0, 0),
        row("set", 3, 0, 0),
        row("set_and_peek", 3, 0, 3),
    ];
    assert_eq!(expected.to_vec(), rows[1..].to_vec());
    let Reply::Verbatim(_, info) = client.call(&["INFO", "routines"]) else { panic!() };
    let info = String::from_utf8_lossy(&info).into_owned();
    assert!(info.contains("routine_outer:calls=3,") && info.contains("failed_calls=3,"), "{info}");
    client.call(&["CONFIG", "RESETSTAT"]);
    let Reply::Array(rows) = client.call(&["SQL", text]) else { panic!() };
    assert_eq!(1, rows.len());
    // Slow requests name the routine, by its name or its SHA-1.
    client.call(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    client.call(&["FCALL", "set", "1", "k", "v"]);
    let Reply::Bulk(sha) = client.call(&["SCRIPT", "LOAD", "return 1"]) else { panic!() };
    client.call(&["EVALSHA", &String::from_utf8_lossy(&sha), "0"]);
    let log = format!("{:?}", client.call(&["SLOWLOG", "GET"]));
    for name in [b"set".as_slice(), &sha] {
        assert!(log.contains(&format!("{:?}", Reply::bulk(name))), "{log}");
    }
}

/// Triggers, functions and statements as deep inside each other as they may be, and a statement that is hard to compile
/// inside of all: callers need no more stack than for anything else.
#[test]
fn the_deepest_nesting_fits_a_small_stack() {
    let deepest = || {
        let client = Client::new();
        let depth = 7;
        for n in 0..=depth {
            client.call(&["SQL", &format!("CREATE TABLE t{n} (id INT PRIMARY KEY, v TEXT)")]);
        }
        let terms = "(".repeat(200) + "1" + &" + 1)".repeat(200);
        load(
            &client,
            &format!(
                "redis.register_function('next', function(event)
                   local n = tonumber(event.table:sub(2))
                   if n < {} then
                     return peryton.sql('INSERT INTO t' .. n + 1 .. ' SELECT id, ? FROM t' .. n, event.new.v)
                   end
                   table.sort({{2, 1, 3}}, function(a, b) return coroutine.wrap(function() return a < b end)() end)
                   event.new.v = tostring(peryton.sql('SELECT {terms} AS sum')[1].sum)
                   return peryton.sql('INSERT INTO t{depth} VALUES (1, ?)', event.new.v)
                 end)
                 redis.register_function('begin', function()
                   return peryton.sql('INSERT INTO t0 VALUES (1, ?)', 'x')
                 end)",
                depth - 1
            ),
        );
        for n in 0..depth {
            let text = format!("CREATE TRIGGER r{n} AFTER INSERT ON t{n} CALL next");
            assert!(!client.call(&["SQL", &text]).is_error(), "{text}");
        }
        assert_eq!(Reply::Int(1), client.call(&["FCALL", "begin", "0"]));
        let Reply::Array(rows) = client.call(&["SQL", &format!("SELECT v FROM t{depth}")]).plain() else { panic!() };
        assert_eq!(Reply::Array(vec![Reply::Verbatim(*b"txt", b"201"[..].into())]), rows[1]);
        client.call(&["SQL", &format!("CREATE TRIGGER r{depth} AFTER INSERT ON t{depth} CALL next")]);
        (0..=depth).for_each(|n| assert!(!client.call(&["SQL", &format!("TRUNCATE t{n}")]).is_error()));
        assert!(client.error(&["FCALL", "begin", "0"]).contains("deep"));
    };
    std::thread::Builder::new().stack_size(512 << 10).spawn(deepest).unwrap().join().unwrap();
}
