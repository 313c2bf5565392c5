//! The rollback property with what the store calls by itself, triggers and schedules, and with the transactions of
//! procedures outside of it: whatever fails at whatever step leaves keys, tables and definitions exactly as before.

use super::external_tests::{Desk, routine};
use super::rollback_tests::{Chance, fcall, prepared, rounds, state_of};
use super::tests::Client;
use super::trigger_tests::World;
use super::*;
use crate::env::{TestEnv, Xoshiro};
use crate::error::Code;
use crate::reply::Reply;
use crate::session::Elsewhere;
use std::sync::atomic::AtomicI64;

/// Routines that write keys and tables, and fail when the row says so; and one for keys that fails after half its work.
const ROUTINES: &str = "#!lua name=trig
local function note(e)
  local row = e.new or e.old
  local n = tonumber(row.n) or tonumber(row.id) or 0
  redis.call('HINCRBY', 'fired', e.table .. e.when .. e.event, 1)
  redis.call('RPUSH', 'k' .. n % 12, e.event)
  peryton.psql('INSERT INTO audit (what, n) VALUES (?, ?)', e.event, n)
  peryton.psql('DELETE FROM child WHERE id = ?', n)
  if n % 5 == 3 then error('refused') end
  if n % 7 == 6 then return redis.error_reply('NO thanks') end
  if e.when == 'before' and e.new and n % 4 == 1 then e.new.n = n + 1 end
  if n % 11 == 5 then return false end
end
redis.register_function('note', note)
redis.register_function{function_name = 'all_note', callback = note, flags = {'atomic'}}
redis.register_function('half', function(e)
  peryton.sql('INSERT INTO first VALUES (?)', e.key)
  redis.call('SADD', 'seen', e.key)
  if math.random(3) == 1 then error('half done') end
  peryton.sql('INSERT INTO second VALUES (?)', e.key)
end)";

fn with_triggers(client: Client) -> Client {
    let client = prepared(client);
    assert_eq!(Reply::bulk("trig"), client.call(&["FUNCTION", "LOAD", ROUTINES]));
    for text in [
        "CREATE TABLE audit (what TEXT, n INT)",
        "CREATE TABLE first (key TEXT)",
        "CREATE TABLE second (key TEXT)",
        "CREATE TRIGGER a BEFORE INSERT ON t CALL note",
        "CREATE TRIGGER b AFTER INSERT ON t WHEN (NEW.id % 2 = 0) CALL all_note",
        "CREATE TRIGGER c BEFORE UPDATE ON t CALL all_note",
        "CREATE TRIGGER d AFTER UPDATE OF n, id ON t CALL note",
        "CREATE TRIGGER e BEFORE DELETE ON t CALL note",
        "CREATE TRIGGER f AFTER DELETE ON child CALL all_note",
        "CREATE TRIGGER g AFTER INSERT ON auto CALL note",
    ] {
        assert!(!client.call(&["SQL", text]).is_error(), "{text}");
    }
    client
}

fn count(client: &Client, table: &str) -> Reply {
    let Reply::Array(rows) = client.call(&["SQL", &format!("SELECT count(*) FROM {table}")]).plain() else { panic!() };
    rows[1].clone()
}

#[test]
fn an_atomic_routine_that_fires_triggers_and_fails_leaves_everything_as_before() {
    for seed in 0..12 {
        rounds(seed, &with_triggers(Client::new()));
    }
}

#[test]
fn a_statement_that_a_trigger_fails_leaves_everything_as_before() {
    for seed in 100..112 {
        let mut chance = Chance(Xoshiro::from_seed(seed));
        let client = with_triggers(Client::new());
        let (mut failed, mut done) = (0, 0);
        for round in 0..200 {
            let statement = chance.statement(true).remove(0);
            let before = state_of(&client);
            let way = chance.below(4);
            let reply = match way {
                0 => client.call(&["EVAL", "return peryton.sql(ARGV[1])", "0", &statement]),
                1 => {
                    client.call(&["MULTI"]);
                    client.call(&["SQL", &statement]);
                    let Reply::Array(mut replies) = client.call(&["EXEC"]) else { panic!("{statement}") };
                    replies.remove(0)
                }
                _ => client.call(&["SQL", &statement]),
            };
            if reply.is_error() {
                assert_eq!(before, state_of(&client), "seed {seed}, round {round}, way {way}: {statement}: {reply:?}");
                failed += 1;
            } else {
                done += 1;
            }
        }
        assert!(failed > 20 && done > 20, "seed {seed}: {failed} failed, {done} did not");
    }
}

#[test]
fn a_trigger_of_keys_that_fails_leaves_nothing_of_its_own() {
    for seed in 200..206 {
        let mut chance = Chance(Xoshiro::from_seed(seed));
        let client = with_triggers(Client::new());
        assert_eq!(Reply::Int(0), client.call(&["SQL", "CREATE TRIGGER h ON KEYS 'k*' CALL half"]));
        for round in 0..200 {
            let command = chance.command();
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            match chance.below(4) {
                0 => {
                    let steps = chance.steps(0, false);
                    fcall(&client, "plain", &steps);
                }
                _ => drop(client.call(&words)),
            }
            client.call(&["SELECT", "0"]);
            let counts = (count(&client, "first"), count(&client, "second"));
            assert_eq!(counts.0, counts.1, "seed {seed}, round {round}: {command:?}");
        }
        assert_ne!(Reply::Array(vec![Reply::Int(0)]), count(&client, "first"), "seed {seed}");
    }
}

#[test]
fn a_schedule_that_fails_leaves_everything_as_before() {
    for seed in 300..304 {
        let mut chance = Chance(Xoshiro::from_seed(seed));
        let now_us = Arc::new(AtomicI64::new(TestEnv::new(1).now_us));
        let env = Box::new(World(now_us.clone(), Xoshiro::from_seed(seed)));
        let client = with_triggers(Client::with(Options { env: Some(env), ..Options::default() }));
        for round in 0..60 {
            fcall(&client, "plain", &chance.steps(0, true));
            client.call(&["SELECT", "0"]);
            let mut steps = chance.steps(0, true);
            chance.spoil(&mut steps);
            let quoted: Vec<String> = steps.iter().map(|step| format!("'{}'", step.replace('\'', "''"))).collect();
            let text = format!("CREATE SCHEDULE s EVERY 10 MILLISECONDS CALL atomic WITH ({})", quoted.join(", "));
            assert_eq!(Reply::Int(0), client.call(&["SQL", &text]), "{text}");
            let before = state_of(&client);
            now_us.fetch_add(10_000, Ordering::Relaxed);
            client.store.enter().keep_house(Vec::new());
            assert_eq!(before, state_of(&client), "seed {seed}, round {round}: {steps:?}");
            let failures = client.store.enter().state().routines.schedule_runs("s", (0, 0)).runs.failures;
            assert_eq!(1, failures, "seed {seed}, round {round}: {steps:?}");
            assert_eq!(Reply::Int(0), client.call(&["SQL", "DROP SCHEDULE s"]));
        }
    }
}

#[test]
fn a_procedure_that_is_rolled_back_or_meets_a_conflict_leaves_everything_as_before() {
    for seed in 400..412 {
        let mut chance = Chance(Xoshiro::from_seed(seed));
        let (client, desk) = (with_triggers(Client::new()), Arc::new(Desk::default()));
        client.store.enter().set_procedures(vec![routine("move", false)], Some(desk.clone())).unwrap();
        let worker = client.another();
        let active = |work: &dyn Fn(&mut Active<'_>)| work(&mut client.store.enter().activate(worker.session).unwrap());
        for round in 0..40 {
            fcall(&client, "plain", &chance.steps(0, false));
            client.call(&["SELECT", "0"]);
            assert_eq!(Reply::None, client.send(&["CALL", "move"]));
            let (job, ticket) = desk.take();
            let ticket: Arc<dyn Elsewhere> = ticket;
            let before = state_of(&client);
            active(&|active| active.begin_procedure(0, false).unwrap());
            let mut said = Vec::new();
            for _ in 0..chance.below(8) {
                let words = match chance.below(3) {
                    0 => [vec!["SQL".to_string()], chance.statement(false)].concat(),
                    1 => [
                        vec!["FCALL".into(), chance.pick(&["plain", "atomic"]).into(), "0".into()],
                        chance.steps(0, false),
                    ]
                    .concat(),
                    _ => chance.command(),
                };
                // Numbers of sequences are given away for good, and these are no part of a transaction.
                if words.iter().any(|word| word.contains("auto") || word.contains("FLUSH") || word.contains("SWAPDB")) {
                    continue;
                }
                worker.call(&words.iter().map(String::as_str).collect::<Vec<_>>());
                said.push(words);
            }
            assert_eq!(before, state_of(&client), "seed {seed}, round {round}: {said:?}");
            let conflicts = chance.below(2) == 0;
            if conflicts {
                worker.call(&["SELECT", "0"]);
                worker.call(&["SET", "contended", "mine"]);
                client.another().call(&["SET", "contended", &round.to_string()]);
                let before = state_of(&client);
                active(&|active| {
                    let conflict = active.end_procedure(&job, &ticket, Reply::Ok, 0).unwrap_err();
                    assert_eq!(Code::Conflict, conflict.code, "seed {seed}, round {round}: {said:?}");
                });
                assert_eq!(before, state_of(&client), "seed {seed}, round {round}: {said:?}");
            } else {
                active(&|active| active.roll_back_procedure());
                assert_eq!(before, state_of(&client), "seed {seed}, round {round}: {said:?}");
            }
            client.store.enter().answer(&job, &ticket, Reply::Ok, 0);
            assert_eq!(Reply::Ok, client.late());
        }
    }
}
