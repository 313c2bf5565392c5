//! Procedures that run outside of the store: from which places they may be called, what they are given, and that a
//! session waits for its own and nobody else's.

use super::tests::Client;
use super::*;
use crate::reply::Reply;
use crate::session::Elsewhere;
use crate::table::datum::Datum;
use std::collections::VecDeque;

/// Ends one job.
#[derive(Default)]
pub(super) struct Ticket(AtomicBool);

impl Elsewhere for Ticket {
    fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Keeps jobs until the test does them.
#[derive(Default)]
pub(super) struct Desk(Mutex<VecDeque<(Job, Arc<Ticket>)>>);

impl Runner for Desk {
    fn submit(&self, job: Job) -> Result<Arc<dyn Elsewhere>> {
        let ticket = Arc::new(Ticket::default());
        self.0.lock().push_back((job, ticket.clone()));
        Ok(ticket)
    }
}

impl Desk {
    pub fn take(&self) -> (Job, Arc<Ticket>) {
        self.0.lock().pop_front().expect("a job")
    }

    fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

pub(super) fn routine(name: &str, read_only: bool) -> Arc<Routine> {
    let (signature, description) = ("(a, b)".into(), "tests".into());
    Arc::new(Routine { name: name.into(), language: "Test", read_only, retries: 3, signature, description })
}

/// A store with the procedures `move` and `look`, which only reads.
fn open() -> (Client, Arc<Desk>) {
    let (client, desk) = (Client::new(), Arc::new(Desk::default()));
    let routines = vec![routine("move", false), routine("look", true)];
    client.store.enter().set_procedures(routines, Some(desk.clone())).unwrap();
    (client, desk)
}

/// What a job's procedure is given: its name, its arguments, and whether their types are known.
fn given(job: &Job) -> (String, Vec<Datum>, bool) {
    match &job.task {
        Task::Call { routine, args, untyped, .. } => (routine.name.clone(), args.clone(), *untyped),
        Task::Reload => panic!("{job:?}"),
    }
}

fn bring(client: &Client, (job, ticket): (Job, Arc<Ticket>), reply: Reply) {
    client.store.enter().answer(&job, &(ticket as Arc<dyn Elsewhere>), reply, 0);
}

#[test]
fn every_way_of_calling_brings_its_arguments() {
    let (client, desk) = open();
    let words = || vec![Datum::blob("7"), Datum::blob("x\u{7f}")];
    let typed = || vec![Datum::Int(7), Datum::text("x"), Datum::Null];
    for (request, expected, untyped) in [
        (vec!["CALL", "move", "7", "x\u{7f}"], words(), true),
        (vec!["CALL", "MOVE", "7", "x\u{7f}"], words(), true),
        (vec!["FCALL", "move", "1", "7", "x\u{7f}"], words(), true),
        (vec!["CALL.BIND", "itn", "move", "7", "x", ""], typed(), false),
        (vec!["SQL", "CALL move(3 + 4, 'x', NULL)"], typed(), false),
        (vec!["SQL.BIND", "itn", "CALL \"move\"(?, ?, ?)", "7", "x", ""], typed(), false),
        (vec!["CALL", "move(7,", "'x', NULL)"], typed(), false),
        (vec!["CALL", "move"], vec![], true),
        (vec!["SQL", "CALL move"], vec![], false),
    ] {
        assert_eq!(Reply::None, client.send(&request), "{request:?}");
        let (job, ticket) = desk.take();
        assert_eq!(("move".into(), expected, untyped), given(&job), "{request:?}");
        assert_eq!(Some(Duration::from_millis(10_000)), job.limit);
        bring(&client, (job, ticket), Reply::Int(1));
        let as_rows = Reply::Array(vec![Reply::Array(vec![Reply::bulk("move")]), Reply::Array(vec![Reply::Int(1)])]);
        let is_sql = request.iter().any(|word| word.contains('(') || word.starts_with("CALL move"));
        assert_eq!(if is_sql { as_rows } else { Reply::Int(1) }, client.late(), "{request:?}");
    }
}

#[test]
fn only_those_that_read_answer_to_fcall_ro() {
    let (client, desk) = open();
    let refusal = client.error(&["FCALL_RO", "move", "0"]);
    assert_eq!("ERR Can not execute a script with write flag using *_ro command.", refusal);
    assert_eq!(Reply::None, client.send(&["FCALL_RO", "look", "0"]));
    bring(&client, desk.take(), Reply::Nil);
    assert_eq!(Reply::Nil, client.late());
    assert_eq!("ERR Function not found", client.error(&["FCALL", "nothing", "0"]));
    assert_eq!("ERR there is no procedure nothing", client.error(&["CALL", "nothing"]));
    assert_eq!("ERR there is no procedure nothing", client.error(&["SQL", "CALL nothing()"]));
    assert!(client.error(&["FCALL", "move", "2", "k"]).contains("greater than number of args"));
}

#[test]
fn where_all_would_wait_for_it_a_procedure_cannot_be_called() {
    let (client, desk) = open();
    let why = client.error(&["EVAL", "return redis.call('CALL', 'move')", "0"]);
    assert!(why.contains("move is a Test procedure: a script or Lua function cannot call it"), "{why}");
    let why = client.error(&["EVAL", "return redis.call('SQL', 'CALL move()')", "0"]);
    assert!(why.contains("move is a Test procedure: a script or Lua function cannot call it"), "{why}");
    client.call(&["MULTI"]);
    client.call(&["CALL", "move"]);
    let Reply::Array(replies) = client.call(&["EXEC"]) else { panic!("no replies") };
    assert!(matches!(&replies[0], Reply::Error(error) if error.message.contains("MULTI and EXEC cannot call it")));
    client.call(&["BEGIN"]);
    assert!(client.error(&["CALL", "move"]).contains("the one that is open must be ended first"));
    client.call(&["ROLLBACK"]);
    assert!(desk.is_empty());
}

#[test]
fn a_wait_ends_by_cancel_and_with_the_session() {
    let (client, desk) = open();
    let other = client.another();
    assert_eq!(Reply::None, client.send(&["CALL", "move"]));
    let (job, ticket) = desk.take();
    assert_eq!(Reply::Int(1), other.call(&["CANCEL", &client.session.to_string()]));
    assert!(ticket.0.load(Ordering::Acquire));
    bring(&client, (job, ticket), Reply::Int(1));
    assert_eq!(Reply::Int(1), client.late());

    // Without the baton, which a statement of the procedure may have.
    assert_eq!(Reply::None, client.send(&["CALL", "move"]));
    let (job, ticket) = desk.take();
    {
        let _baton = client.store.enter();
        assert!(client.store.overrun().cancel(client.session));
    }
    assert!(ticket.0.load(Ordering::Acquire));
    bring(&client, (job, ticket), Reply::Int(1));
    client.late();
    assert!(!client.store.overrun().cancel(client.session));

    assert_eq!(Reply::None, client.send(&["CALL", "move"]));
    let (job, ticket) = desk.take();
    assert_eq!(Reply::Int(1), other.call(&["CLIENT", "KILL", "ID", &client.session.to_string()]));
    assert!(ticket.0.load(Ordering::Acquire));
    // Nobody waits for it any longer.
    bring(&other, (job, ticket), Reply::Int(1));
    assert_eq!(Reply::Ok, other.call(&["SET", "k", "v"]));
}

#[test]
fn a_reply_goes_only_to_the_call_that_it_is_for() {
    let (client, desk) = open();
    assert_eq!(Reply::None, client.send(&["CALL", "move"]));
    let old = desk.take();
    let id = client.session.to_string();
    assert_eq!(Reply::Int(1), client.another().call(&["CLIENT", "UNBLOCK", &id]));
    assert!(matches!(client.late(), Reply::Error(error) if error.message.contains("cancelled")));
    assert_eq!(Reply::None, client.send(&["CALL", "move"]));
    bring(&client, old, Reply::bulk("old"));
    bring(&client, desk.take(), Reply::bulk("new"));
    assert_eq!(Reply::bulk("new"), client.late());
}

#[test]
fn a_procedure_s_transaction_is_ended_by_its_runner_alone() {
    let (client, desk) = open();
    client.call(&["SQL", "CREATE TABLE t (id INT PRIMARY KEY)"]);
    assert_eq!(Reply::None, client.send(&["CALL", "move"]));
    let worker = client.another();
    let active = |work: &dyn Fn(&mut Active<'_>)| work(&mut client.store.enter().activate(worker.session).unwrap());
    active(&|active| active.begin_procedure(3, false).unwrap());
    worker.call(&["SET", "k", "v"]);
    worker.call(&["SQL", "INSERT INTO t VALUES (1)"]);
    for word in ["BEGIN", "COMMIT", "ROLLBACK"] {
        let refusal = worker.error(&[word]);
        assert!(refusal.contains("not allowed in a procedure"), "{refusal}");
    }
    assert!(worker.error(&["CALL", "look"]).contains("calls another one as a function"));
    assert_eq!(Reply::Ok, worker.call(&["SAVEPOINT", "s"]));
    worker.call(&["SQL", "INSERT INTO t VALUES (2)"]);
    assert_eq!(Reply::Ok, worker.call(&["ROLLBACK", "TO", "s"]));
    let (job, ticket) = desk.take();
    let ticket: Arc<dyn Elsewhere> = ticket;
    active(&|active| active.end_procedure(&job, &ticket, Reply::Ok, 0).unwrap());
    assert_eq!(Reply::Ok, client.late());
    client.call(&["SELECT", "3"]);
    assert_eq!(Reply::bulk("v"), client.call(&["GET", "k"]));
    assert_eq!(Reply::Int(0), client.call(&["SQL", "DELETE FROM t WHERE id = 2"]));
    assert_eq!(Reply::Int(1), client.call(&["SQL", "DELETE FROM t"]));

    // After a conflict nothing is done, and the caller still waits.
    assert_eq!(Reply::None, client.send(&["CALL", "move"]));
    let (job, ticket) = desk.take();
    let ticket: Arc<dyn Elsewhere> = ticket;
    let other = client.another();
    active(&|active| active.begin_procedure(0, false).unwrap());
    worker.call(&["INCR", "n"]);
    other.call(&["SET", "n", "10"]);
    active(&|active| {
        let conflict = active.end_procedure(&job, &ticket, Reply::Ok, 0).unwrap_err();
        assert_eq!(Code::Conflict, conflict.code);
    });
    active(&|active| active.begin_procedure(0, false).unwrap());
    assert_eq!(Reply::Int(11), worker.call(&["INCR", "n"]));
    active(&|active| active.end_procedure(&job, &ticket, Reply::Ok, 1).unwrap());
    assert_eq!(Reply::Ok, client.late());

    active(&|active| active.begin_procedure(0, false).unwrap());
    assert!(worker.error(&["PROCEDURE", "RELOAD"]).contains("it would wait for itself"));
    // What one asks for of its session is not the next one's.
    worker.call(&["CLIENT", "SETNAME", "mine"]);
    worker.call(&["CLIENT", "REPLY", "OFF"]);
    active(&|active| active.roll_back_procedure());
    active(&|active| active.begin_procedure(0, false).unwrap());
    assert_eq!(Reply::Nil, worker.call(&["CLIENT", "GETNAME"]));
    worker.call(&["SET", "n", "lost"]);
    active(&|active| active.roll_back_procedure());
    assert_eq!(Reply::bulk("11"), other.call(&["GET", "n"]));
}

#[test]
fn lua_functions_are_called_by_name_and_come_first() {
    let (client, desk) = open();
    let library = |name: &str| {
        format!(
            "#!lua name=l\nredis.register_function('{name}', function(keys, args) return {{#keys, args[1], args[2]}} end)"
        )
    };
    client.call(&["FUNCTION", "LOAD", &library("twice")]);
    let expected = Reply::Array(vec![Reply::Int(0), Reply::bulk("7"), Reply::bulk("x")]);
    assert_eq!(expected, client.call(&["CALL", "twice", "7", "x"]));
    assert_eq!(expected, client.call(&["CALL.BIND", "it", "Twice", "7", "x"]));
    let rows = Reply::Array(vec![Reply::Array(vec![Reply::bulk("twice")]), Reply::Array(vec![expected.clone()])]);
    assert_eq!(rows, client.call(&["SQL", "CALL twice(7, 'x')"]));
    let refusal = client.error(&["EVAL", "return redis.call('CALL', 'twice')", "0"]);
    assert!(refusal.contains("a script calls no other function"), "{refusal}");
    let refusal = client.store.enter().set_procedures(vec![routine("twice", false)], Some(desk.clone())).unwrap_err();
    assert_eq!("the library l has a function twice already", refusal.message);

    client.call(&["FUNCTION", "LOAD", "REPLACE", &library("move")]);
    assert_eq!(expected, client.call(&["CALL", "move", "7", "x"]));
    assert_eq!(expected, client.call(&["FCALL", "move", "0", "7", "x"]));
    assert!(desk.is_empty());
    client.call(&["FUNCTION", "FLUSH"]);
    assert_eq!(Reply::None, client.send(&["CALL", "move"]));
}

#[test]
fn use_is_counted_and_slow_calls_are_noted_with_their_words() {
    let (client, desk) = open();
    client.call(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    client.send(&["CALL", "move", "7"]);
    bring(&client, desk.take(), Error::err("no").into());
    client.late();
    let mut baton = client.store.enter();
    let state = baton.state();
    let slow: Vec<_> = state.slowlog.newest(1).map(|entry| entry.arguments.clone()).collect();
    assert_eq!(vec![vec![b"CALL".to_vec(), b"move".to_vec(), b"7".to_vec()]], slow);
    let told = |(routine, usage): (&Routine, &crate::procedure::external::Usage)| {
        (routine.name.clone(), usage.uses.calls, usage.uses.failures)
    };
    let usage: Vec<_> = state.externals.iter().map(told).collect();
    assert_eq!(vec![("look".into(), 0, 0), ("move".into(), 1, 1)], usage);
    drop(baton);
    let query = "SELECT routine_name, external_language, flags, calls, failures FROM information_schema.routines";
    let Reply::Array(rows) = client.call(&["SQL", query]) else { panic!("no rows") };
    let row = |name: &str, flags: &str, calls: i64| {
        let texts = [name, "TEST", flags].map(|text| Reply::Verbatim(*b"txt", text.as_bytes().into()));
        Reply::Array(texts.into_iter().chain([calls, calls].map(Reply::Int)).collect())
    };
    assert_eq!([row("look", "no-writes", 0), row("move", "", 1)], rows[1..]);
}
