//! One gate and one executor: every request passes here, whichever door, transaction or script it comes from.

use super::context::{Context, Origin};
use super::room::out_of_memory;
use super::spec::{Flags, Group, Spec};
use super::table::{Command, TABLE};
use super::{deliver, room, transact, transaction, trigger, waiting};
use crate::ds::hash;
use crate::error::{Code, Error};
use crate::limits;
use crate::reply::Reply;
use crate::session::{Door, NoWaker, ReplyMode, Session};
use crate::slowlog::{self, SlowEntry};
use crate::sql::Ahead;
use crate::sql::direct::{Done, Prepared};
use crate::state::State;
use crate::table::batch::Batch;
use crate::table::datum::DatumRef;
use crate::txn::Effect;
use smallvec::SmallVec;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, LazyLock};

/// Serves one request from a door and commits what it changed.
pub fn request(state: &mut State, session: &mut Session, args: &[&[u8]]) -> Reply {
    let Some(name) = args.first() else { return Reply::None };
    // The end of the last request is the start of this one, so that each reads the clock once.
    let started_ns = state.monotonic_ns;
    session.active_ms = state.clock.now_ms;
    let command = match find(name, args) {
        Ok(command) => command,
        // A web browser that was talked into sending a request here sends these first (Redis hangs up, too).
        Err(_) if name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:") => {
            session.closing = true;
            return Reply::None;
        }
        Err(error) => {
            session.last_command = "NULL";
            return reject(state, session, None, error);
        }
    };
    session.last_command = command.spec.name;
    let accepted = if command.spec.accepts(args.len()) { Ok(()) } else { Err(wrong_arity(command.spec.name)) };
    if let Err(error) = accepted.and_then(|()| gate(state, session, command)) {
        return reject(state, session, Some(command), error);
    }
    if session.multi.is_some() && !command.spec.flags.contains(Flags::MULTI_CONTROL) {
        return queue(state, session, command, args);
    }
    let (reply, effect) = perform(state, session, Origin::Client, None, |context| call(context, command, args));
    commit(state, session, effect);
    measure(state, session, command, started_ns, || slowlog::shorten(args));
    answer(session, reply)
}

/// Does what a session asked for; gives the effect, too. If it panics, what it has changed until then is committed before
/// the panic goes on (invariant 2): what comes later builds on it, and without it the log could not be replayed.
#[inline]
pub(crate) fn perform<R>(
    state: &mut State,
    session: &mut Session,
    origin: Origin,
    ready: Option<&[u8]>,
    work: impl FnOnce(&mut Context<'_>) -> R,
) -> (R, Effect) {
    let mut effect = state.new_effect();
    let mut unfinished = Unfinished(Context { state, session, effect: &mut effect, origin, ready });
    let result = work(&mut unfinished.0);
    mem::forget(unfinished);
    (result, effect)
}

/// A command that is at work. Dropped, it has panicked: then what it has changed so far is written down. (To catch the
/// panic instead would cost each command a call that cannot be inlined.)
struct Unfinished<'a>(Context<'a>);

impl Drop for Unfinished<'_> {
    #[cold]
    fn drop(&mut self) {
        // A second panic on the way out of the first would end the process.
        let _ = catch_unwind(AssertUnwindSafe(|| keep_after_panic(self.0.state, self.0.effect)));
    }
}

/// Writes down what a command has changed before it panicked. Nobody is told of it, nor triggers.
fn keep_after_panic(state: &mut State, effect: &Effect) {
    state.stats.dirty += effect.dirty();
    state.journal.record(effect);
    if effect.tables.dirty > 0 {
        state.follow_routines();
    }
}

/// The command that a prepared statement counts as.
static STATEMENT: LazyLock<&Command> =
    LazyLock::new(|| TABLE.find(b"sql.bind").unwrap_or_else(|| unreachable!("it is in the table")));

/// Serves a statement that its caller has prepared, as [`request`] would serve the words for it. None: it has to be asked
/// with words.
#[inline]
pub fn statement(
    state: &mut State,
    session: &mut Session,
    prepared: &Prepared,
    params: &[DatumRef<'_>],
    found: &mut Batch,
) -> Option<Result<Done, Error>> {
    if session.multi.is_some() || session.transaction.is_some() || session.reply_mode != ReplyMode::On {
        return None;
    }
    let started_ns = state.monotonic_ns;
    session.active_ms = state.clock.now_ms;
    let command = *STATEMENT;
    session.last_command = command.spec.name;
    if let Err(error) = gate(state, session, command) {
        return Some(Err(refuse(state, session, Some(command), error)));
    }
    let run = |context: &mut Context<'_>| super::sql::run_prepared(context, prepared, params, found);
    let (result, effect) = perform(state, session, Origin::Client, None, run);
    let result = result.transpose()?;
    count(state, command, result.as_ref().err());
    commit(state, session, effect);
    measure(state, session, command, started_ns, || slowlog::shorten(&super::sql::words(prepared, params)));
    Some(result)
}

/// Commands that take constant time, although they are not called fast: they may need memory, or free it.
const CONSTANT_TIME: [&str; 8] = ["set", "setex", "psetex", "getset", "append", "del", "substr", "getrange"];
/// A request with more arguments takes its time, whatever its command.
const SHORT_ARGUMENTS: usize = 64;

/// Is the request over in no time? A caller that holds something others need may run such a one at once.
#[inline]
pub fn is_short(args: &[&[u8]]) -> bool {
    let Some(command) = args.first().and_then(|name| TABLE.find(name)) else { return true };
    let spec = command.spec;
    let is_constant = spec.flags.contains(Flags::FAST) || CONSTANT_TIME.contains(&spec.name);
    // SELECT takes a database's number, or is a statement.
    is_constant && args.len() <= SHORT_ARGUMENTS && (spec.name != "select" || args.len() == 2)
}

/// Starts loading from memory what the first key of each request leads to, or the key of a statement: first all
/// buckets, then all entries.
pub fn prefetch<'r, 'i: 'r>(state: &mut State, db: usize, requests: impl Iterator<Item = &'r [&'i [u8]]>) {
    let database = &state.keyspace.databases[db];
    let mut hashes: SmallVec<[u64; 64]> = SmallVec::new();
    let mut statements = Ahead::default();
    for request in requests {
        let Some(command) = request.first().and_then(|name| TABLE.find(name)) else { continue };
        if let Some(key) = command.spec.keys.first().and_then(|first| request.get(first)) {
            let hash = hash::bytes(key);
            database.prefetch(hash);
            hashes.push(hash);
        } else if command.spec.flags.contains(Flags::SQL) {
            super::sql::look_ahead(&state.sql, request, &mut statements, state.tables.source());
        }
    }
    hashes.iter().for_each(|hash| database.prefetch_entry(*hash));
    statements.load(state.tables.source());
}

/// The command that a request names.
pub fn find(name: &[u8], args: &[&[u8]]) -> Result<&'static Command, Error> {
    let command = TABLE.find(name).ok_or_else(|| unknown_command(args))?;
    if command.subcommands.is_empty() || args.len() < 2 {
        return Ok(command);
    }
    command.subcommand(args[1]).ok_or_else(|| unknown_subcommand(command.spec.name, args[1]))
}

/// Every refusal after that of a wrong number of arguments, in the order in which Redis makes them.
fn gate(state: &mut State, session: &mut Session, command: &Command) -> Result<(), Error> {
    let spec = command.spec;
    if !session.authenticated && !spec.flags.contains(Flags::NO_AUTH) && !state.config.requirepass.is_empty() {
        return Err(Error::new(Code::NoAuth, "Authentication required."));
    }
    if !state.debug_allowed && spec.name.starts_with("debug") {
        return Err(Error::err(
            "DEBUG command not allowed. The store must be opened for it: peryton serve --enable-debug-command.",
        ));
    }
    if session.multi.is_some() && spec.flags.contains(Flags::NO_MULTI) {
        return Err(Error::err("Command not allowed inside a transaction"));
    }
    // Whatever the command, keys go when memory is short, as in Redis.
    if state.config.maxmemory != 0 && !room::make(state, session) && needs_memory(session, command) {
        return Err(out_of_memory());
    }
    state.keyspace.shared.keeps_expired = !state.journal.is_fine();
    if state.keyspace.shared.keeps_expired {
        check_log(state, session, spec)?;
    }
    if session.in_subscribed_mode() && !spec.flags.contains(Flags::SUBSCRIBED) {
        return Err(Error::err(format!(
            "Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this \
             context",
            spec.name
        )));
    }
    Ok(())
}

/// Does it show data? EXEC shows what was queued when all of it was safe still; and libraries of functions are data.
fn sees_data(spec: &Spec) -> bool {
    const SEES_DATA: Flags = Flags::READONLY.union(Flags::WRITE).union(Flags::SQL).union(Flags::MAY_REPLICATE);
    spec.flags.intersects(SEES_DATA)
        || matches!(spec.name, "exec" | "function|list" | "function|dump" | "function|stats")
}

/// The log takes nothing: an error if the command writes, or reads what is lost. EXEC does what is in its queue, and SQL is
/// asked when it writes.
#[cold]
fn check_log(state: &State, session: &mut Session, spec: &Spec) -> Result<(), Error> {
    let queue_writes = || spec.name == "exec" && session.multi.as_ref().is_some_and(|multi| multi.writes);
    let writes = spec.flags.contains(Flags::WRITE) && !spec.flags.contains(Flags::SQL);
    if writes || queue_writes() {
        state.journal.check_write()?;
    }
    state.journal.check_read(session, state.config.durability, || sees_data(spec))
}

/// May the command not run when memory is short? EXEC is what its queue is, and a queue must not grow.
#[cold]
fn needs_memory(session: &Session, command: &Command) -> bool {
    command.spec.flags.contains(Flags::DENYOOM)
        || session.multi.as_ref().is_some_and(|multi| match command.spec.name {
            "exec" => multi.denyoom,
            name => !["discard", "quit", "reset"].contains(&name),
        })
}

/// Runs a command that has passed the gate. The effect stays open: the outermost caller commits it.
pub fn call(ctx: &mut Context<'_>, command: &Command, args: &[&[u8]]) -> Reply {
    let result = match ctx.session.transaction {
        None => (command.spec.run)(ctx, args),
        Some(_) => transact::run(ctx, command, args),
    };
    count(ctx.state, command, result.as_ref().err());
    result.unwrap_or_else(Reply::Error)
}

/// The command that a look at rows by their keys counts as.
static LOOK: LazyLock<&Command> =
    LazyLock::new(|| TABLE.find(b"table.get").unwrap_or_else(|| unreachable!("it is in the table")));

/// Counts a statement that a procedure had run.
#[inline]
pub fn count_statement(state: &mut State, failure: Option<&Error>) {
    count(state, *STATEMENT, failure);
}

/// Counts a look at rows that a procedure had.
#[inline]
pub fn count_look(state: &mut State, failure: Option<&Error>) {
    count(state, *LOOK, failure);
}

/// Counts a call of a command, and its failure.
#[inline]
fn count(state: &mut State, command: &Command, failure: Option<&Error>) {
    let stats = &mut state.command_stats[command.id];
    stats.calls += 1;
    if let Some(error) = failure {
        stats.failed += 1;
        state.count_error(error);
    }
}

/// What a running script may do, and what it has done.
pub struct ScriptMode {
    /// It may not write.
    pub read_only: bool,
    /// The memory limit does not concern it: it said so, or there was room when it began.
    pub ignores_memory_limit: bool,
    /// It has run a command that writes. From then on it is not refused for want of memory, nor killed.
    pub wrote: bool,
    /// What it did is undone if it fails.
    pub is_atomic: bool,
}

/// Runs a command that a script asks for. Its effect goes into the script's, and refusals have the words that Redis has
/// for scripts.
pub fn call_from_script(ctx: &mut Context<'_>, mode: &mut ScriptMode, args: &[&[u8]]) -> Reply {
    let found = find(args[0], args);
    let command = match found.map_err(|_| Error::err("Unknown Redis command called from script")) {
        Ok(command) => command,
        Err(error) => return refuse_script(ctx.state, None, error),
    };
    if let Err(error) = script_gate(ctx.state, mode, command, args) {
        return refuse_script(ctx.state, Some(command), error);
    }
    let Context { state, session, effect, .. } = ctx;
    let origin = if mode.read_only { Origin::ReadOnlyScript } else { Origin::Script };
    let reply = call(&mut Context { state, session, effect, origin, ready: None }, command, args);
    if command.spec.flags.contains(Flags::SQL) {
        mode.wrote |= ctx.state.scripts.watch().has_written();
    }
    reply
}

/// A script is about to write: an error when it may not, or has been killed.
pub fn note_script_write(state: &State, read_only: bool) -> Result<(), Error> {
    if read_only {
        return Err(Error::err("Write commands are not allowed from read-only scripts."));
    }
    state.journal.check_write()?;
    match state.scripts.watch().note_write() {
        true => Ok(()),
        false => Err(Error::new(Code::Custom, state.scripts.watch().why())),
    }
}

/// Every refusal that meets a script, in the order in which Redis makes them.
#[inline]
fn script_gate(state: &State, mode: &mut ScriptMode, command: &Command, args: &[&[u8]]) -> Result<(), Error> {
    let spec = command.spec;
    if !spec.accepts(args.len()) {
        return Err(Error::err("Wrong number of args calling Redis command from script"));
    }
    if spec.flags.contains(Flags::NOSCRIPT) {
        return Err(Error::err("This Redis command is not allowed from script"));
    }
    // What a SQL statement does is known when it does it, and then `note_script_write` is asked.
    let is_sql = spec.flags.contains(Flags::SQL);
    if mode.read_only && !is_sql && spec.flags.intersects(Flags::WRITE.union(Flags::MAY_REPLICATE)) {
        return note_script_write(state, true);
    }
    if !mode.ignores_memory_limit && !mode.wrote && spec.flags.contains(Flags::DENYOOM) {
        return Err(out_of_memory());
    }
    if spec.flags.contains(Flags::WRITE) && !is_sql && !std::mem::replace(&mut mode.wrote, true) {
        return note_script_write(state, false);
    }
    Ok(())
}

#[cold]
fn refuse_script(state: &mut State, command: Option<&Command>, error: Error) -> Reply {
    if let Some(command) = command {
        state.command_stats[command.id].rejected += 1;
    }
    state.count_error(&error);
    Reply::Error(error)
}

/// Makes an effect final: counts it, hands it to the log, tells subscribers, serves those who waited for it.
#[inline]
pub fn commit(state: &mut State, session: &mut Session, effect: Effect) {
    commit_quietly(state, session, effect);
    if state.keyspace.shared.waiting.has_ready() {
        waiting::serve(state, session);
    }
}

/// [`commit`] without serving waiting sessions, for the one who is serving them.
#[inline]
pub fn commit_quietly(state: &mut State, session: &mut Session, mut effect: Effect) {
    // A record that nobody counted is of a string whose encoding alone has changed (SETBIT of what is there): nothing for the
    // log. Any other would be missed by whoever replays it, which the tests of the log do.
    if !effect.is_empty() {
        if !effect.keys.events.is_empty() && !state.routines.classes().is_empty() {
            fire_keys(state, &mut effect);
        }
        if effect.tables.dirty > 0 {
            state.follow_routines();
        }
        state.stats.dirty += effect.dirty();
        state.journal.record(&effect);
        let events = std::mem::take(&mut effect.keys.events);
        deliver::events(state, session, &events);
        if let Some(recorded) = &mut state.recorded {
            recorded.push(effect);
        }
    }
}

#[cold]
fn fire_keys(state: &mut State, effect: &mut Effect) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| trigger::fire_keys(state, effect))) {
        keep_after_panic(state, effect);
        resume_unwind(panic);
    }
}

/// [`commit`] for changes that no session asked for, such as expiry.
pub fn commit_alone(state: &mut State, effect: Effect) {
    if !effect.is_empty() {
        let mut nobody = nobody(state);
        commit(state, &mut nobody, effect);
    }
}

/// A session for what no session asked for.
pub fn nobody(state: &State) -> Session {
    Session::new(0, Door::Embedded, state.clock.now_ms, Arc::new(NoWaker))
}

fn queue(state: &mut State, session: &mut Session, command: &Command, args: &[&[u8]]) -> Reply {
    if session.multi.as_ref().is_some_and(|multi| multi.bytes > limits::MULTI_BYTES_MAX) {
        let text = format!("the transaction's queue is over {} bytes; send it in parts", limits::MULTI_BYTES_MAX);
        return reject(state, session, None, Error::new(Code::Limit, text));
    }
    if let Some(multi) = &mut session.multi {
        multi.denyoom |= command.spec.flags.contains(Flags::DENYOOM);
        multi.writes |= command.spec.flags.contains(Flags::WRITE);
        multi.bytes += args.iter().map(|arg| arg.len() + 16).sum::<usize>();
        multi.queue.push(args.iter().map(|arg| Box::from(*arg)).collect());
    }
    answer(session, Reply::status("QUEUED"))
}

/// Refuses a request; a refused request spoils the transaction it was meant for.
fn reject(state: &mut State, session: &mut Session, command: Option<&Command>, error: Error) -> Reply {
    let error = refuse(state, session, command, error);
    answer(session, Reply::Error(error))
}

#[cold]
fn refuse(state: &mut State, session: &mut Session, command: Option<&Command>, mut error: Error) -> Error {
    if let Some(multi) = &mut session.multi {
        multi.aborted = true;
    }
    if let Some(command) = command {
        state.command_stats[command.id].rejected += 1;
        if command.spec.name == "exec" {
            transaction::discard_all(state, session);
            let word = if error.code == Code::Err { String::new() } else { format!("{} ", error.code.word()) };
            let text = format!("Transaction discarded because of: {word}{}", error.message);
            error = Error::new(Code::ExecAbort, text);
        }
    }
    state.count_error(&error);
    error
}

/// What the client gets, given what it asked of CLIENT REPLY.
#[inline]
fn answer(session: &mut Session, reply: Reply) -> Reply {
    match session.reply_mode {
        ReplyMode::On => reply,
        ReplyMode::Off => Reply::None,
        ReplyMode::SkipNext => {
            session.reply_mode = ReplyMode::Skip;
            Reply::None
        }
        ReplyMode::Skip => {
            session.reply_mode = ReplyMode::On;
            Reply::None
        }
    }
}

/// Counts the request's time and notes it in the slow log if it was slow.
#[inline]
fn measure(
    state: &mut State,
    session: &Session,
    command: &Command,
    started_ns: u64,
    words: impl FnOnce() -> Vec<Vec<u8>>,
) {
    let ns = state.advance() - started_ns;
    state.stats.commands += 1;
    state.command_stats[command.id].ns += ns;
    if command.spec.group == Group::Scripting {
        state.scripts.time(ns);
    }
    let threshold = state.config.slowlog_log_slower_than_us;
    if threshold >= 0 && ns >= threshold as u64 * 1000 && !command.spec.flags.contains(Flags::SKIP_SLOWLOG) {
        let mut words = words();
        // It has been counted by now.
        words.extend(state.routines.fired_in(state.stats.commands - 1).map(String::into_bytes));
        note_slow(state, session, words, ns / 1000);
    }
}

/// Notes a request in the slow log.
#[cold]
pub(super) fn note_slow(state: &mut State, session: &Session, words: Vec<Vec<u8>>, duration_us: u64) {
    let entry = SlowEntry {
        id: 0,
        time_s: state.clock.now_ms / 1000,
        duration_us,
        arguments: words,
        address: session.address.0.clone(),
        name: session.name.clone(),
    };
    state.slowlog.add(entry, state.config.slowlog_max_len);
}

/// "wrong number of arguments for 'x' command" (Redis 7's text).
pub fn wrong_arity(name: &str) -> Error {
    Error::err(format!("wrong number of arguments for '{name}' command"))
}

fn unknown_command(args: &[&[u8]]) -> Error {
    let mut shown = Vec::new();
    for arg in &args[1..] {
        if shown.len() >= 128 {
            break;
        }
        let room = 128 - shown.len();
        shown.extend_from_slice(&[b"'", c_text(arg, room), b"' "].concat());
    }
    let name = c_text(args[0], 128);
    let text = [b"unknown command '", name, b"', with args beginning with: ", &shown].concat();
    Error::quoting(Code::Err, text)
}

/// "unknown subcommand 'x'. Try Y HELP." (Redis 7's text).
pub fn unknown_subcommand(container: &str, name: &[u8]) -> Error {
    // In Redis this one looks at its arguments by itself.
    if container == "debug" {
        return wrong_subcommand(container, name);
    }
    let container = container.to_ascii_uppercase();
    let text = [b"unknown subcommand '", c_text(name, 128), b"'. Try ", container.as_bytes(), b" HELP."].concat();
    Error::quoting(Code::Err, text)
}

/// "unknown subcommand or wrong number of arguments for 'x'. Try Y HELP." (Redis 7's text).
pub fn wrong_subcommand(container: &str, name: &[u8]) -> Error {
    let container = container.to_ascii_uppercase();
    let start = b"unknown subcommand or wrong number of arguments for '";
    let text = [start, c_text(name, 128), b"'. Try ", container.as_bytes(), b" HELP."].concat();
    Error::quoting(Code::Err, text)
}

/// The part of an argument that C would print: at most `max` bytes, up to a zero.
fn c_text(bytes: &[u8], max: usize) -> &[u8] {
    let end = bytes.iter().take(max).position(|byte| *byte == 0);
    &bytes[..end.unwrap_or(bytes.len().min(max))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_take_long_is_known() {
        let is_short = |line: &str| is_short(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        for line in ["GET a", "set a b", "HSET h f v", "INCR a", "DEL a", "nosuch", "SELECT 3", "ZADD z 1 a"] {
            assert!(is_short(line), "{line}");
        }
        for line in ["KEYS *", "SMEMBERS s", "LRANGE l 0 -1", "EVAL x 0", "SELECT * FROM t", "SQL x", "SORT l", "EXEC"]
        {
            assert!(!is_short(line), "{line}");
        }
        assert!(!is_short(&format!("MGET{}", " k".repeat(100))));
    }
}
