//! CALL and PROCEDURE: procedures by name, those of Lua libraries and those that run outside of the store.

use super::context::{Context, Origin};
use super::server::{container, help};
use super::spec::{Flags, Group, Keys, Run, Spec};
use super::sql::{STATEMENT, bare, typed_parameters};
use super::{dispatch, function};
use crate::error::{Error, Result};
use crate::procedure::external::{self, Job, Routine, Task, Usage};
use crate::reply::Reply;
use crate::session::{Blocked, Elsewhere};
use crate::slowlog;
use crate::sql::report;
use crate::state::State;
use crate::table::datum::{Bytes, Datum, DatumRef};
use std::sync::Arc;
use std::time::Duration;

const fn row(
    name: &'static str,
    run: Run,
    arity: i32,
    flags: Flags,
    usage: &'static str,
    summary: &'static str,
) -> Spec {
    let cost = "Depends on the procedure";
    Spec::row(Group::Scripting, name, run, arity, flags, Keys::None, "peryton", cost, usage, summary)
}

const CALLS: Flags = STATEMENT.union(Flags::STALE);
const TELLS: Flags = Flags::LOADING.union(Flags::STALE);

pub(super) const COMMANDS: &[Spec] = &[
    row(
        "call",
        call,
        -2,
        CALLS,
        "procedure [arg ...] | procedure(value, ...)",
        "Calls a procedure; with brackets it is a SQL statement, whose reply is rows.",
    ),
    row(
        "call.bind",
        call_bind,
        -3,
        CALLS,
        "types procedure [arg ...]",
        "Calls a procedure; types has a letter for each argument: i, r, t, b, or n for NULL.",
    ),
    row("procedure", container, -2, Flags::empty(), "", "A container for commands on Python procedures.").holding(&[
        row("procedure|help", procedure_help, 2, TELLS, "", "Shows what PROCEDURE can do."),
        row(
            "procedure|list",
            list,
            2,
            TELLS,
            "",
            "Lists the procedures that run outside of the store, and how they were used.",
        ),
        row(
            "procedure|reload",
            reload,
            2,
            Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::NO_MULTI),
            "",
            "Loads the procedures of a server's modules anew; the old ones stay when that fails.",
        ),
    ]),
];

/// `CALL f 1 2` is a command with arguments of bytes; `CALL f(1, 2)`, typed bare, is the statement. A name has no bracket,
/// so no argument can make one of the other.
fn call(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    if args[1].contains(&b'(') {
        return bare(ctx, args);
    }
    call_words(ctx, args[1], &args[2..], args, false)
}

fn call_bind(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let (types, name, values) = (args[1], args[2], &args[3..]);
    let given = typed_parameters(types, values)?;
    if let Some(routine) = find(ctx, name) {
        let args = given.iter().map(|value| DatumRef::to_owned(*value)).collect();
        return submit(ctx, Task::Call { routine, args, untyped: false, as_rows: false });
    }
    function::call_named(ctx, args, name, values)
}

/// Calls a procedure with the words of a request as its arguments.
fn call_words(ctx: &mut Context<'_>, name: &[u8], values: &[&[u8]], words: &[&[u8]], read_only: bool) -> Result<Reply> {
    match find(ctx, name) {
        Some(routine) => from_words(ctx, routine, values, read_only),
        None => function::call_named(ctx, words, name, values),
    }
}

fn from_words(ctx: &mut Context<'_>, routine: Arc<Routine>, values: &[&[u8]], read_only: bool) -> Result<Reply> {
    if read_only && !routine.read_only {
        // As for functions that may write.
        return Err(Error::err("Can not execute a script with write flag using *_ro command."));
    }
    let args = values.iter().map(|value| Datum::Blob(Bytes::from_slice(value))).collect();
    submit(ctx, Task::Call { routine, args, untyped: true, as_rows: false })
}

/// FCALL of a name that no library has. None: no procedure has it either.
#[cold]
pub(super) fn from_fcall(ctx: &mut Context<'_>, args: &[&[u8]], read_only: bool) -> Result<Option<Reply>> {
    let Some(routine) = find(ctx, args[1]) else { return Ok(None) };
    let count = super::arguments::integer_or(args[2], "Bad number of keys provided")?;
    super::script::split_keys(args, count)?;
    // Keys and other arguments are one list to a procedure.
    from_words(ctx, routine, &args[3..], read_only).map(Some)
}

/// The statement CALL.
pub(super) fn from_statement(ctx: &mut Context<'_>, name: &str, args: Vec<Datum>) -> Result<Reply> {
    if let Some(routine) = find(ctx, name.as_bytes()) {
        return submit(ctx, Task::Call { routine, args, untyped: false, as_rows: true });
    }
    let values: Vec<Vec<u8>> = args.iter().map(external::argument_bytes).collect();
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    let words = [&[b"CALL", name.as_bytes()][..], &values].concat();
    let reply = function::call_named(ctx, &words, name.as_bytes(), &values)?;
    Ok(external::as_rows(name, reply))
}

/// The procedure of this name that runs outside of the store, unless a library has a function that is called so.
fn find(ctx: &Context<'_>, name: &[u8]) -> Option<Arc<Routine>> {
    let routine = ctx.state.externals.find(name)?;
    let is_shadowed = ctx.state.tables.catalog.libraries.of_function(&routine.name).is_some();
    (!is_shadowed).then(|| routine.clone())
}

/// Has a task done, and lets the session wait for it.
fn submit(ctx: &mut Context<'_>, task: Task) -> Result<Reply> {
    if let Task::Call { routine, .. } = &task {
        check_place(ctx, routine)?;
    }
    let config = &ctx.state.config;
    let limits = [config.python_time_limit_ms, config.procedure_time_limit_ms, config.statement_timeout_ms];
    let limit = limits.into_iter().filter(|ms| *ms > 0).min().map(Duration::from_millis);
    let (session, db) = (ctx.session.id, ctx.session.db);
    let ticket = ctx.state.externals.submit(Job { session, db, since_ns: ctx.state.monotonic_ns, limit, task })?;
    ctx.session.blocked = Some(waiting_for(ticket));
    Ok(Reply::None)
}

fn waiting_for(ticket: Arc<dyn Elsewhere>) -> Blocked {
    Blocked {
        request: Vec::new(),
        keys: Vec::new(),
        deadline_ms: None,
        on_timeout: report::cancelled().into(),
        elsewhere: Some(ticket),
        sweep: None,
    }
}

/// An error where a procedure cannot run: where somebody would have to wait for it with the baton in hand, or where it
/// could not be a transaction of its own.
fn check_place(ctx: &Context<'_>, routine: &Routine) -> Result<()> {
    let Routine { name, language, .. } = routine;
    let why = match ctx.origin {
        Origin::Script | Origin::ReadOnlyScript => {
            format!("a script or Lua function cannot call it, as everybody would have to wait for {language}")
        }
        Origin::Exec => format!("MULTI and EXEC cannot call it, as everybody would have to wait for {language}"),
        _ if ctx.session.in_procedure => "a procedure calls another one as a function, with its own handle".into(),
        _ if ctx.session.transaction.is_some() => {
            "it is a transaction of its own, so the one that is open must be ended first".into()
        }
        Origin::Client | Origin::Retry => return Ok(()),
    };
    Err(Error::err(format!("{name} is a {language} procedure: {why}")))
}

fn list(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::Array(ctx.state.externals.iter().map(|(routine, usage)| describe(routine, usage)).collect()))
}

fn describe(routine: &Routine, usage: &Usage) -> Reply {
    let number = |number: u64| Reply::Int(number as i64);
    let uses = &usage.uses;
    let fields = [
        ("name", Reply::bulk(&routine.name)),
        ("language", Reply::bulk(routine.language)),
        ("signature", Reply::bulk(&routine.signature)),
        ("description", Reply::bulk(&routine.description)),
        ("read_only", Reply::Int(routine.read_only.into())),
        ("retries", number(routine.retries.into())),
        ("calls", number(uses.calls)),
        ("failed", number(uses.failures)),
        ("conflicts", number(usage.conflicts)),
        ("usec", number(uses.total_ns / 1000)),
        ("usec_max", number(uses.max_ns / 1000)),
        ("usec_p99", number(uses.quantile_ns(0.99).unwrap_or(uses.max_ns) / 1000)),
    ];
    Reply::Map(fields.into_iter().map(|(name, value)| (Reply::bulk(name), value)).collect())
}

fn reload(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    if ctx.session.in_procedure {
        return Err(Error::err("a procedure cannot have procedures loaded anew: it would wait for itself"));
    }
    submit(ctx, Task::Reload)
}

fn procedure_help(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(help("PROCEDURE"))
}

/// Notes in the slow log a call that took long and is over; what the session's request took was only its submission.
pub(crate) fn note_slow(state: &mut State, job: &Job, us: u64) {
    let threshold = state.config.slowlog_log_slower_than_us;
    if threshold >= 0
        && us >= threshold as u64
        && let Some(session) = state.sessions.remove(&job.session)
    {
        dispatch::note_slow(state, &session, slowlog::shorten(&job.words()), us);
        state.sessions.insert(job.session, session);
    }
}
