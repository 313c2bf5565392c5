//! A store on files that a crash takes apart: what comes back is the state after some step, not earlier than the last one
//! that was promised to be safe (invariants 2 and 5).

use super::tests::Client;
use super::trigger_tests::World;
use super::*;
use crate::command::context::Origin;
use crate::env::simulated::{Operation, SimulatedFiles};
use crate::env::{TestEnv, Xoshiro};
use crate::procedure::payload;
use crate::table::library::{Libraries, LibraryDef};
use std::io::ErrorKind;
use std::sync::atomic::AtomicI64;

/// The state as a crash test compares it.
type State = (u64, u64);

fn state_of(store: &Store) -> State {
    let mut baton = store.enter();
    let state = baton.state();
    (state.keyspace.digest(), state.tables.digest().unwrap())
}

fn settings() -> LogSettings {
    LogSettings {
        segment_bytes: 30_000,
        head_room_bytes: 16 << 10,
        reserve_step_bytes: 8 << 10,
        group_bytes: 4000,
        unsynced_bytes: 12_000,
        zeros_ahead_bytes: 8 << 10,
        ..LogSettings::default()
    }
}

fn open(files: &SimulatedFiles) -> Result<Client> {
    open_with(files, Options::default())
}

fn open_with(files: &SimulatedFiles, options: Options) -> Result<Client> {
    let options = Options {
        files: Some(Arc::new(files.clone())),
        durability: Some(Durability::Sync),
        log: settings(),
        ..options
    };
    let store = Store::open(options)?;
    let session = store.enter().open_session(Door::Embedded, Arc::new(crate::session::NoWaker));
    Ok(Client::of(store, session))
}

/// One step of all kinds, at random.
fn step(random: &mut Xoshiro, client: &Client) -> Reply {
    let n = random.below(20).to_string();
    let longest = if random.below(8) == 0 { 3000 } else { 40 };
    let value = "v".repeat(1 + random.below(longest) as usize);
    let call = |args: &[&str]| client.call(args);
    match random.below(27) {
        0..3 => call(&["SET", &n, &value]),
        3 => call(&["RPUSH", "list", &value]),
        4 => call(&["LPOP", "list"]),
        5 => call(&["HSET", "hash", &n, &value]),
        6 => call(&["SADD", "set", &n]),
        7 => call(&["ZADD", "zset", &n, &value]),
        8 => call(&["DEL", &n]),
        9 => call(&["RENAME", &n, "renamed"]),
        10 => call(&["EVAL", "redis.call('INCR', 'a') redis.call('APPEND', 'b', 'x')", "0"]),
        11..15 => call(&["SQL", "INSERT OR REPLACE INTO t VALUES (?, ?)", &n, &value]),
        15 => call(&["SQL", "UPDATE t SET v = v || 'x' WHERE id < ?", &n]),
        16 => call(&["SQL", "DELETE FROM t WHERE id = ?", &n]),
        17 => {
            call(&["BEGIN"]);
            call(&["SQL", "INSERT OR REPLACE INTO t VALUES (?, 'transaction')", &n]);
            call(&["SET", "c", &value]);
            call(&[if random.below(4) == 0 { "ROLLBACK" } else { "COMMIT" }])
        }
        18 => call(&["SQL", &format!("CREATE TABLE IF NOT EXISTS u{n} (a INT PRIMARY KEY USING BTREE, b TEXT)")]),
        19 => call(&["SQL", &format!("DROP TABLE IF EXISTS u{n}")]),
        20 => {
            // A checkpoint in the midst of it all.
            client.store.enter().state().journal.saves.wanted = true;
            client.store.shared.saver.ring();
            Reply::Ok
        }
        21 => call(&["FUNCTION", "LOAD", "REPLACE", &library(&n, &value)]),
        22 => match random.below(4) {
            0 => call(&["FUNCTION", "FLUSH"]),
            1 => call(&["FUNCTION", "DELETE", &format!("lib{}", random.below(4))]),
            _ => call(&["FCALL", &format!("f{}", random.below(4)), "1", &n]),
        },
        23 => {
            let mut libraries = Libraries::default();
            for n in [&n, "12"] {
                let (name, code) = (n.into(), library(n, &value).into_bytes().into());
                libraries.put(Arc::new(LibraryDef { name, code, functions: Vec::new() })).unwrap();
            }
            let policy = [&b"FLUSH"[..], b"REPLACE", b"APPEND"][random.below(3) as usize];
            let args: [&[u8]; 4] = [b"FUNCTION", b"RESTORE", &payload::write(&libraries), policy];
            client.store.enter().execute(client.session, &args)
        }
        24 => match random.below(4) {
            0 => call(&["SQL", &format!("DROP TRIGGER IF EXISTS r{n}")]),
            1 => call(&["SQL", &format!("CREATE TRIGGER IF NOT EXISTS r{n} ON KEYS 'none:{value}' CALL f0")]),
            _ => call(&["SQL", &format!("CREATE TRIGGER IF NOT EXISTS r{n} AFTER UPDATE OF b ON u{n} CALL f0")]),
        },
        25 => match random.below(3) {
            0 => call(&["SQL", &format!("DROP SCHEDULE IF EXISTS s{n}")]),
            _ => call(&["SQL", &format!("CREATE SCHEDULE IF NOT EXISTS s{n} EVERY 9 DAYS CALL f0 WITH ('{value}')")]),
        },
        _ => call(&["SWAPDB", "0", "1"]),
    }
}

/// One of four libraries, with a text of its own.
fn library(n: &str, text: &str) -> String {
    let n = n.len() * 2 + n.parse::<usize>().unwrap_or(0) % 2 - 2;
    format!(
        "#!lua name=lib{n}\nredis.register_function{{function_name = 'f{n}', description = '{text}', callback = \
         function(keys) return redis.call('INCR', keys[1]) end}}"
    )
}

/// All functions of a store can be called when it has been opened.
fn call_all(client: &Client, what: &str) {
    let libraries: Vec<_> = client.store.enter().state().tables.catalog.libraries.iter().cloned().collect();
    for function in libraries.iter().flat_map(|library| &library.functions) {
        let reply = client.call(&["FCALL_RO", &function.name, "0"]);
        let Reply::Error(error) = reply else { panic!("{what}: {reply:?}") };
        assert_eq!("Can not execute a script with write flag using *_ro command.", error.message, "{what}");
    }
}

/// Runs until the power goes or the steps are done; gives all states there were and how many were promised.
fn work(random: &mut Xoshiro, client: &Client, steps: u64) -> (Vec<State>, usize) {
    let (mut states, mut promised) = (vec![state_of(&client.store)], 0);
    for _ in 0..steps {
        let reply = step(random, client);
        if let Reply::Error(error) = &reply
            && error.code == Code::MisConf
        {
            break;
        }
        states.push(state_of(&client.store));
        // After that a reply tells of nothing that has changed, and promises nothing.
        if client.store.log().unwrap().condition() == Condition::Failed {
            break;
        }
        let promise = client.store.enter().activate(client.session).unwrap().promise();
        // Not every step is waited for, so that several share a group.
        if random.below(3) == 0 {
            if client.store.keep(promise).is_err() {
                break;
            }
            promised = states.len() - 1;
        }
    }
    (states, promised)
}

fn judge(found: State, states: &[State], promised: usize, what: &str) {
    let at: Vec<usize> = (0..states.len()).filter(|at| states[*at] == found).collect();
    let parts = |pick: fn(&State) -> u64| -> Vec<usize> {
        (0..states.len()).filter(|at| pick(&states[*at]) == pick(&found)).collect()
    };
    let what =
        format!("{what} (found as after {at:?}; keys as after {:?}, tables {:?})", parts(|s| s.0), parts(|s| s.1));
    assert!(
        states[promised..].contains(&found),
        "{what}: {} steps, {promised} promised: not what is found",
        states.len()
    );
}

#[test]
fn a_crash_at_any_moment_leaves_a_beginning_with_all_that_was_promised() {
    let rounds = if std::env::var_os("PERYTON_LONG").is_some() { 20_000 } else { 400 };
    let base: u64 = std::env::var("PERYTON_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in base..base + rounds {
        let mut random = Xoshiro::from_seed(seed);
        let mut files = SimulatedFiles::new(seed);
        let client = open(&files).unwrap();
        client.call(&["SQL", "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)"]);
        client.call(&["SQL", "CREATE INDEX t_v ON t (v)"]);
        drop(client);
        for life in 0..3 {
            let Ok(client) = open(&files) else { panic!("seed {seed}, life {life}: does not open") };
            files.stop_at(files.operations() + random.below(120));
            let (states, promised) = work(&mut random, &client, 40);
            let after = files.crash(random.next());
            drop(client);
            files = after;
            let client = open(&files).unwrap_or_else(|error| panic!("seed {seed}, life {life}: {error:?}"));
            judge(state_of(&client.store), &states, promised, &format!("seed {seed}, life {life}"));
            call_all(&client, &format!("seed {seed}, life {life}"));
        }
    }
}

/// Has operations fail now and then, or the disk be full.
fn make_trouble(random: &mut Xoshiro, files: &SimulatedFiles) {
    use Operation::{Create, Remove, Rename, Reserve, Sync, SyncDirectory, Truncate, Write};
    for _ in 0..random.below(3) {
        let operations = [Create, Remove, Rename, Reserve, Sync, Sync, SyncDirectory, Truncate, Write, Write];
        let operation = operations[random.below(operations.len() as u64) as usize];
        match random.below(8) {
            0 => files.panic_at(operation, 1 + random.below(12)),
            1 | 2 => files.fail(operation, 1 + random.below(12), ErrorKind::StorageFull),
            _ => files.fail(operation, 1 + random.below(12), ErrorKind::Other),
        }
    }
    if random.below(3) == 0 {
        files.set_capacity(files.used() + random.below(60_000));
    }
}

/// How a store comes to its end: by a crash, because its process dies, or well. Whatever was in its way is over then.
fn come_to_an_end(random: &mut Xoshiro, files: SimulatedFiles, client: Client) -> SimulatedFiles {
    let after = match random.below(3) {
        0 => files.crash(random.next()),
        1 => {
            // The system still has what was written, durable or not.
            files.stop_at(files.operations());
            files.clone()
        }
        _ => files.clone(),
    };
    drop(client);
    after.stop_at(u64::MAX);
    after.heal();
    after.set_capacity(u64::MAX);
    after
}

#[test]
fn whatever_goes_wrong_a_beginning_with_all_that_was_promised_is_left() {
    let rounds = if std::env::var_os("PERYTON_LONG").is_some() { 20_000 } else { 400 };
    let base: u64 = std::env::var("PERYTON_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in base..base + rounds {
        let mut random = Xoshiro::from_seed(seed);
        let mut files = SimulatedFiles::new(seed);
        let client = open(&files).unwrap();
        client.call(&["SQL", "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)"]);
        drop(client);
        for life in 0..4 {
            let what = format!("seed {seed}, life {life}");
            let client = open(&files).unwrap_or_else(|error| panic!("{what}: {error:?}"));
            if random.below(4) == 0 {
                files.stop_at(files.operations() + random.below(150));
            }
            make_trouble(&mut random, &files);
            let (states, promised) = work(&mut random, &client, 40);
            files = come_to_an_end(&mut random, files, client);
            let client = open(&files).unwrap_or_else(|error| panic!("{what}: {error:?}"));
            let found = state_of(&client.store);
            judge(found, &states, promised, &what);
            // What was found is promised, too.
            files = if random.below(2) == 0 { files.crash(random.next()) } else { files };
            drop(client);
            let client = open(&files).unwrap_or_else(|error| panic!("{what}, again: {error:?}"));
            assert_eq!(found, state_of(&client.store), "{what}, again");
        }
    }
}

#[test]
fn a_failed_sync_stops_writes_and_reads_go_on() {
    let files = SimulatedFiles::new(3);
    let client = open(&files).unwrap();
    client.call(&["SET", "a", "safe"]);
    let promise = |client: &Client| client.store.enter().activate(client.session).unwrap().promise();
    client.store.keep(promise(&client)).unwrap();
    let other = client.another();
    other.call(&["MULTI"]);
    other.call(&["GET", "a"]);
    files.fail_from(Operation::Sync, 1, ErrorKind::Other);
    client.call(&["SET", "a", "lost"]);
    assert!(client.store.keep(promise(&client)).is_err());
    // Not even to who had asked when all was safe.
    assert!(other.error(&["EXEC"]).contains("may not see them"));
    assert!(other.error(&["FUNCTION", "LIST"]).contains("may not see them"));
    // Nothing is written any more, and who was promised safety is not shown what is not safe.
    for command in [["SET", "b", "1"].as_slice(), &["GET", "a"], &["SQL", "SELECT 1"]] {
        let Reply::Error(error) = client.call(command) else { panic!("{command:?}") };
        assert_eq!(Code::MisConf, error.code, "{command:?}");
    }
    assert_eq!(Reply::Ok, client.call(&["DURABILITY", "INTERVAL"]));
    assert_eq!(Reply::bulk("lost"), client.call(&["GET", "a"]));
    let after = files.crash(1);
    drop(client);
    let client = open(&after).unwrap();
    // What nobody was told to be safe may be there or not.
    assert!([Reply::bulk("safe"), Reply::bulk("lost")].contains(&client.call(&["GET", "a"])));
    assert_eq!(Reply::Ok, client.call(&["SET", "b", "1"]));
}

/// A key whose time was up made every read of a careful session fail once the log had: its removal is a change, too.
#[test]
fn keys_whose_time_is_up_are_hidden_while_the_log_takes_nothing() {
    for fails in [true, false] {
        let files = SimulatedFiles::new(5);
        let now_us = Arc::new(AtomicI64::new(TestEnv::new(1).now_us));
        let env = World(now_us.clone(), Xoshiro::from_seed(1));
        let client = open_with(&files, Options { env: Some(Box::new(env)), ..Options::default() }).unwrap();
        let keep = || client.store.keep(client.store.enter().activate(client.session).unwrap().promise());
        client.call(&["SET", "short", "1", "PX", "3600000"]);
        client.call(&["SET", "other", "2", "PX", "3600000"]);
        client.call(&["SADD", "long", "3"]);
        keep().unwrap();
        match fails {
            true => files.fail(Operation::Sync, 1, ErrorKind::Other),
            false => files.set_capacity(0),
        }
        let log = client.store.log().unwrap();
        client.call(&["SET", "filler", &"x".repeat(20_000)]);
        while log.condition() == Condition::Fine {
            std::thread::yield_now();
        }
        let last = log.last();
        now_us.fetch_add(7_200_000_000, Ordering::Relaxed);
        client.store.enter().keep_house(Vec::new());
        client.call(&["DURABILITY", "INTERVAL"]);
        for (command, reply) in [
            (&["GET", "short"][..], Reply::Nil),
            (&["EXISTS", "short", "other", "long"], Reply::Int(1)),
            (&["TTL", "other"], Reply::Int(-2)),
            (&["SCARD", "long"], Reply::Int(1)),
            (&["SQL", "SELECT count(*) FROM keys()"], client.call(&["SQL", "SELECT 2 AS \"count(*)\""])),
        ] {
            assert_eq!(reply, client.call(command), "{command:?}");
        }
        assert_eq!(last, log.last(), "nothing was given to the log");
        assert_eq!(0, client.store.enter().state().keyspace.shared.stats.expired);
        if !fails {
            files.set_capacity(u64::MAX);
            while log.condition() != Condition::Fine {
                std::thread::yield_now();
            }
            assert_eq!(Reply::Int(1), client.call(&["RPUSH", "short", "a list now"]));
            client.store.enter().keep_house(Vec::new());
            assert_eq!(Reply::Int(3), client.call(&["DBSIZE"]));
            assert_eq!(2, client.store.enter().state().keyspace.shared.stats.expired);
        }
    }
}

/// The log may fail when a command has passed the gate and is not at its end: the change is made, and the log does not
/// take its record. Who made it must not be told that it is safe, although all records that there are were rescued.
#[test]
fn a_change_that_the_log_did_not_take_is_not_promised() {
    let files = SimulatedFiles::new(5);
    let client = open(&files).unwrap();
    files.fail(Operation::Sync, 1, ErrorKind::Other);
    client.call(&["SET", "a", "rescued"]);
    let promise = |client: &Client| client.store.enter().activate(client.session).unwrap().promise();
    client.store.keep(promise(&client)).unwrap();
    let log = client.store.log().unwrap();
    assert_eq!((Condition::Failed, log.last()), (log.condition(), log.durable()));
    {
        let mut baton = client.store.enter();
        let state = baton.state();
        let (mut effect, now_ms) = (state.new_effect(), state.clock.now_ms);
        assert!(state.keyspace.keys(0, now_ms, &mut effect.keys).remove(b"a"));
        effect.keys.dirty = 1;
        dispatch::commit_alone(state, effect);
    }
    assert!(client.store.keep(promise(&client)).is_err());
    let Reply::Error(error) = client.call(&["EXISTS", "a"]) else { panic!("what is not safe is shown") };
    assert_eq!(Code::MisConf, error.code);
    let after = files.crash(1);
    drop(client);
    assert_eq!(Reply::bulk("rescued"), open(&after).unwrap().call(&["GET", "a"]));
}

/// What a command has changed when a bug ends it is in memory, so it must be in the log before what builds on it.
#[test]
fn a_panic_in_a_command_leaves_a_log_that_can_be_replayed() {
    let files = SimulatedFiles::new(5);
    let client = open(&files).unwrap();
    client.call(&["SQL", "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)"]);
    {
        let mut baton = client.store.enter();
        let state = baton.state();
        let mut nobody = dispatch::nobody(state);
        let run = |line: &str, context: &mut crate::command::context::Context<'_>| {
            let args: Vec<&[u8]> = line.split('|').map(str::as_bytes).collect();
            dispatch::call(context, dispatch::find(args[0], &args).unwrap(), &args)
        };
        let failed = catch_unwind(AssertUnwindSafe(|| {
            dispatch::perform(state, &mut nobody, Origin::Client, None, |context| {
                run("RPUSH|list|a|b", context);
                run("SQL|INSERT INTO t VALUES (1, 'one')", context);
                panic!("a test wants this to panic")
            })
        }));
        assert!(failed.is_err());
    }
    client.call(&["LPOP", "list"]);
    client.call(&["SQL", "UPDATE t SET v = 'other' WHERE id = 1"]);
    let (before, log) = (state_of(&client.store), client.store.log().unwrap());
    log.wait(log.last()).unwrap();
    let after = files.crash(1);
    drop(client);
    let client = open(&after).unwrap();
    assert_eq!(before, state_of(&client.store));
    assert_eq!(Reply::Int(1), client.call(&["LLEN", "list"]));
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    let files = SimulatedFiles::new(4);
    files.set_capacity(200_000);
    let client = open(&files).unwrap();
    let value = "x".repeat(2000);
    let refused = (0..1000).find_map(|n: u32| match client.call(&["SET", &n.to_string(), &value]) {
        Reply::Error(error) => Some((n, error)),
        _ => {
            client.store.keep(client.store.enter().activate(client.session).unwrap().promise()).unwrap();
            None
        }
    });
    let (count, error) = refused.expect("the disk is full at some time");
    assert_eq!(Code::MisConf, error.code, "{error:?}");
    assert_eq!(Reply::bulk(value.as_str()), client.call(&["GET", "0"]));
    files.set_capacity(u64::MAX);
    while client.store.log().unwrap().condition() != Condition::Fine {
        std::thread::yield_now();
    }
    assert_eq!(Reply::Ok, client.call(&["SET", "after", "1"]));
    client.store.keep(client.store.enter().activate(client.session).unwrap().promise()).unwrap();
    let after = files.crash(2);
    drop(client);
    assert_eq!(Reply::Int(i64::from(count) + 1), open(&after).unwrap().call(&["DBSIZE"]));
}
