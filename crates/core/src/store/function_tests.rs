//! Libraries of functions in a whole store: they survive, they are taken back, and calling one compiles nothing.

use super::tests::Client;
use super::*;
use crate::env::simulated::SimulatedFiles;
use crate::keyspace::Wants;
use crate::reply::Reply;
use crate::txn::undo;

const COUNTER: &str = "#!lua name=counter
local calls = 0
redis.register_function('count', function(keys)
  calls = calls + 1
  redis.call('SET', keys[1], calls)
  return calls
end)";

fn open(files: &SimulatedFiles) -> Client {
    let options = Options { files: Some(Arc::new(files.clone())), ..Options::default() };
    let store = Store::open(options).unwrap();
    let session = store.enter().open_session(Door::Embedded, Arc::new(crate::session::NoWaker));
    Client::of(store, session)
}

fn error(reply: Reply) -> String {
    let Reply::Error(error) = reply else { panic!("{reply:?}") };
    error.to_string()
}

#[test]
fn libraries_come_back_from_the_log_and_from_a_checkpoint() {
    let mut files = SimulatedFiles::new(1);
    for round in 0..4 {
        let client = open(&files);
        match round {
            0 => assert_eq!(Reply::bulk("counter"), client.call(&["FUNCTION", "LOAD", COUNTER])),
            1 => assert_eq!(Reply::Ok, client.call(&["SAVE"])),
            _ => {}
        }
        // What it counts in a variable of its own is not kept.
        assert_eq!(Reply::Int(1), client.call(&["FCALL", "count", "1", "k"]), "round {round}");
        assert_eq!(Reply::Int(2), client.call(&["FCALL", "COUNT", "1", "k"]), "round {round}");
        client.store.close();
        drop(client);
        files = files.crash(round);
    }
    let client = open(&files);
    assert_eq!(Reply::Ok, client.call(&["FUNCTION", "DELETE", "counter"]));
    client.store.close();
    drop(client);
    let client = open(&files.crash(9));
    assert_eq!("ERR Function not found", error(client.call(&["FCALL", "count", "1", "k"])));
}

#[test]
fn what_is_taken_back_can_be_called_again() {
    let client = Client::new();
    client.call(&["FUNCTION", "LOAD", COUNTER]);
    assert_eq!(Reply::Int(1), client.call(&["FCALL", "count", "1", "k"]));
    let later = COUNTER.replace("return calls", "return 'later'");
    for change in
        [&["FUNCTION", "FLUSH"][..], &["FUNCTION", "DELETE", "counter"], &["FUNCTION", "LOAD", "REPLACE", &later]]
    {
        {
            let mut baton = client.store.enter();
            baton.state().wants = Wants::UNDO;
            baton.state().recorded = Some(Vec::new());
        }
        client.call(change);
        {
            let mut baton = client.store.enter();
            let state = baton.state();
            state.wants = Wants::empty();
            for effect in state.recorded.take().unwrap().into_iter().rev() {
                undo::undo(effect, &mut state.keyspace, &mut state.tables).unwrap();
            }
        }
        assert_eq!(Reply::Int(1), client.call(&["FCALL", "count", "1", "k"]), "{change:?}");
    }
}

#[test]
fn a_transaction_of_begin_changes_no_libraries_and_calls_functions() {
    let client = Client::new();
    client.call(&["FUNCTION", "LOAD", COUNTER]);
    client.call(&["BEGIN"]);
    for change in
        [&["FUNCTION", "FLUSH"][..], &["FUNCTION", "LOAD", "REPLACE", COUNTER], &["FUNCTION", "DELETE", "counter"]]
    {
        assert_eq!("SQL libraries cannot be changed inside a transaction of BEGIN", error(client.call(change)));
    }
    assert_eq!(Reply::Int(1), client.call(&["FCALL", "count", "1", "k"]));
    assert_eq!(Reply::bulk("1"), client.call(&["GET", "k"]));
    client.call(&["ROLLBACK"]);
    assert_eq!(Reply::Nil, client.call(&["GET", "k"]));
}

#[test]
fn memory_of_libraries_that_go_is_free_again() {
    let client = Client::new();
    let memory = || client.store.enter().state().scripts.functions_memory();
    let library = |n: usize| {
        let text = "x".repeat(100_000 + n % 7);
        format!("#!lua name=big\nlocal text = '{text}'\nredis.register_function('f', function() return #text end)")
    };
    for n in 0..50 {
        client.call(&["FUNCTION", "LOAD", "REPLACE", &library(n)]);
    }
    let some = memory();
    for n in 0..300 {
        assert_eq!(Reply::bulk("big"), client.call(&["FUNCTION", "LOAD", "REPLACE", &library(n)]));
        // One that fails leaves nothing, either.
        let broken = format!("{} error('no')", library(n));
        error(client.call(&["FUNCTION", "LOAD", "REPLACE", &broken]));
    }
    assert!(memory() < some * 3, "{some} grew to {}", memory());
    client.call(&["FUNCTION", "FLUSH"]);
    assert_eq!(0, memory());
}

#[test]
fn what_scripts_keep_does_not_reach_functions() {
    let client = Client::new();
    client.call(&["FUNCTION", "LOAD", COUNTER]);
    client.call(&["FCALL", "count", "1", "k"]);
    assert_eq!(Reply::Ok, client.call(&["SCRIPT", "FLUSH"]));
    assert_eq!(Reply::Int(2), client.call(&["FCALL", "count", "1", "k"]));
    assert_eq!(Reply::Ok, client.call(&["FLUSHALL"]));
    assert_eq!(Reply::Int(3), client.call(&["FCALL", "count", "1", "k"]));
}

#[test]
fn no_payload_is_too_strange() {
    let client = Client::new();
    client.call(&["FUNCTION", "LOAD", COUNTER]);
    let Reply::Bulk(whole) = client.call(&["FUNCTION", "DUMP"]) else { panic!() };
    let mut random = crate::env::Xoshiro::from_seed(5);
    for _ in 0..3000 {
        let mut body = whole[..whole.len() - 8].to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(body.len() as u64) as usize;
            body[at] = random.below(256) as u8;
        }
        let sum = crate::ds::crc64::sum(&body);
        body.extend_from_slice(&sum.to_le_bytes());
        let policy = [&b"APPEND"[..], b"REPLACE", b"FLUSH"][random.below(3) as usize];
        let args: [&[u8]; 4] = [b"FUNCTION", b"RESTORE", &body, policy];
        client.store.enter().execute(client.session, &args);
    }
    client.call(&["FUNCTION", "FLUSH"]);
    client.call(&["FUNCTION", "LOAD", COUNTER]);
    assert_eq!(Reply::Int(1), client.call(&["FCALL", "count", "1", "k"]));
}
