//! BEGIN, COMMIT and their kin, and what becomes of a command inside a transaction.
//!
//! Statements read and write the transaction's own tables, which `Statement` gives them. A command that has keys runs on
//! the transaction's private entries of these, and what it changes is kept until COMMIT; other commands act at once, and
//! those that change keys they do not name are refused.

use super::context::{Context, Origin};
use super::dispatch;
use super::spec::{Find, Flags, Group, Keys, Run, Spec};
use super::sql::{STATEMENT, Statement, bare};
use super::table::Command;
use crate::engine::{Overlay, ReadError, WriteFailure};
use crate::error::{Code, Error, Result};
use crate::keyspace::{Change, Wants};
use crate::reply::Reply;
use crate::session::{Durability, ReplyMode, Session, SessionId};
use crate::sql::Host;
use crate::sql::constraint::foreign_key::Recheck;
use crate::sql::control::Control;
use crate::sql::report;
use crate::sql::run::{Failure, Outcome};
use crate::state::State;
use crate::txn::private_keys::Name;
use crate::txn::{Effect, Transaction, commit, undo};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

const fn row(name: &'static str, run: Run, usage: &'static str, summary: &'static str) -> Spec {
    let flags = STATEMENT.union(Flags::NOSCRIPT).union(Flags::NO_MULTI);
    let cost = "O(N) for N rows and keys written, for COMMIT; O(T) for T tables, for BEGIN";
    Spec::row(Group::Table, name, run, -1, flags, Keys::None, "peryton", cost, usage, summary)
}

pub(super) const COMMANDS: &[Spec] = &[
    row(
        "begin",
        bare,
        "[TRANSACTION] [READ ONLY] [DURABILITY SYNC | INTERVAL | NONE]",
        "Opens a transaction over tables and keys.",
    ),
    row(
        "start",
        bare,
        "TRANSACTION [READ ONLY] [DURABILITY SYNC | INTERVAL | NONE]",
        "Opens a transaction, as BEGIN does.",
    ),
    row("commit", bare, "", "Makes everything in the transaction visible at once, or refuses with CONFLICT."),
    row("end", bare, "", "Ends the transaction as COMMIT does."),
    row("rollback", bare, "[TO savepoint]", "Forgets what was done in the transaction, or since a savepoint."),
    row("savepoint", bare, "name", "Sets a mark in the transaction that ROLLBACK TO goes back to."),
    row("release", bare, "name", "Forgets a savepoint and keeps what was done since."),
];

/// Carries out a statement about the session's transaction.
pub(super) fn control(ctx: &mut Context<'_>, control: &Control) -> Result<Reply> {
    match ctx.origin {
        Origin::Script | Origin::ReadOnlyScript => {
            return Err(refused("a script: what it does is one step anyway"));
        }
        Origin::Exec => return Err(refused("MULTI and EXEC, which are a transaction of their own")),
        Origin::Client | Origin::Retry => {}
    }
    let is_of_transaction = matches!(control, Control::Begin { .. } | Control::Commit | Control::Rollback);
    if ctx.session.in_procedure && is_of_transaction {
        return Err(refused("a procedure: its end commits, and an exception rolls back"));
    }
    let open = ctx.session.transaction.as_mut();
    match (control, open) {
        (Control::Begin { read_only, durability }, None) => begin(ctx, *read_only, *durability),
        (Control::Begin { .. }, Some(_)) => Err(Error::new(Code::Sql, "a transaction is open already")),
        (Control::Savepoint(name), None) => {
            begin(ctx, false, None)?;
            let Some(transaction) = &mut ctx.session.transaction else { return Ok(Reply::Ok) };
            transaction.by_savepoint = true;
            transaction.savepoint(name).map(|()| Reply::Ok)
        }
        (Control::Commit, None) => Err(Error::new(Code::Sql, "cannot commit: no transaction is open")),
        (Control::Rollback, None) => Err(Error::new(Code::Sql, "cannot roll back: no transaction is open")),
        (Control::Release(name) | Control::RollbackTo(name), None) => {
            Err(Error::new(Code::Sql, format!("no such savepoint: {name}")))
        }
        (Control::Commit, Some(_)) => commit(ctx),
        (Control::Rollback, Some(_)) => {
            forget(ctx.state, ctx.session);
            Ok(Reply::Ok)
        }
        (Control::Savepoint(name), Some(transaction)) => transaction.savepoint(name).map(|()| Reply::Ok),
        (Control::Release(name), Some(transaction)) => match transaction.release(name)? {
            true => commit(ctx),
            false => Ok(Reply::Ok),
        },
        (Control::RollbackTo(name), Some(transaction)) => {
            transaction.rollback_to(name, &mut ctx.state.keyspace).map(|()| Reply::Ok)
        }
    }
}

fn refused(place: &str) -> Error {
    Error::new(Code::Sql, format!("BEGIN, COMMIT, ROLLBACK and savepoints are not allowed in {place}"))
}

fn begin(ctx: &mut Context<'_>, read_only: bool, durability: Option<Durability>) -> Result<Reply> {
    if !ctx.session.watched.is_empty() {
        return Err(Error::new(Code::Sql, "WATCH is for MULTI: UNWATCH before BEGIN"));
    }
    let began = ctx.state.transactions.begin(ctx.session.id, &mut ctx.state.keyspace);
    match Transaction::begin(&mut ctx.state.tables, began, read_only) {
        Ok(mut transaction) => {
            transaction.durability = durability;
            ctx.session.transaction = Some(Box::new(transaction));
            Ok(Reply::Ok)
        }
        Err(error) => {
            ctx.state.transactions.end(began, &mut ctx.state.keyspace);
            Err(error)
        }
    }
}

/// Opens the transaction of a procedure in a session of its own, on the keys of database `db`.
pub fn begin_procedure(state: &mut State, session: &mut Session, db: usize, read_only: bool) -> Result<()> {
    (session.db, session.active_ms) = (db, state.clock.now_ms);
    // What another procedure asked for, for itself.
    (session.reply_mode, session.name) = (ReplyMode::On, Vec::new());
    in_context(state, session, |ctx| begin(ctx, read_only, None))?;
    session.in_procedure = true;
    Ok(())
}

/// Commits the transaction of a procedure.
pub fn commit_procedure(state: &mut State, session: &mut Session) -> Result<()> {
    session.in_procedure = false;
    in_context(state, session, |ctx| {
        commit(ctx).map_err(|error| report::dressed(&mut Statement::new(ctx), b"COMMIT", error))
    })
    .map(drop)
}

/// Rolls back the transaction of a procedure.
pub fn roll_back_procedure(state: &mut State, session: &mut Session) {
    session.in_procedure = false;
    forget(state, session);
}

fn in_context<T>(
    state: &mut State,
    session: &mut Session,
    body: impl FnOnce(&mut Context<'_>) -> Result<T>,
) -> Result<T> {
    let (result, effect) = dispatch::perform(state, session, Origin::Client, None, body);
    dispatch::commit(state, session, effect);
    result
}

/// Rolls back the session's transaction, if it has one.
pub(super) fn forget(state: &mut State, session: &mut Session) {
    if let Some(transaction) = session.transaction.take() {
        state.transactions.stats.rolled_back += u64::from(transaction.ended.is_none());
        state.transactions.end(transaction.began, &mut state.keyspace);
        release(state, transaction);
    }
}

/// Lets go of what a transaction held: away from the baton, if it is much.
fn release(state: &mut State, transaction: Box<Transaction>) {
    if is_big(state, &transaction) {
        state.keyspace.shared.reaper.free(transaction);
    }
}

/// Does it take long to free what a transaction holds?
fn is_big(state: &State, transaction: &Transaction) -> bool {
    const BYTES: u64 = 1 << 20;
    let own = transaction.overlay().size().1 + transaction.keys.bytes();
    own as u64 > BYTES || transaction.copied_since(&state.tables) > BYTES
}

fn commit(ctx: &mut Context<'_>) -> Result<Reply> {
    let Some(transaction) = ctx.session.transaction.take() else { return Ok(Reply::Ok) };
    let began = transaction.began;
    ctx.session.promise = transaction.durability;
    let result = match &transaction.ended {
        Some(why) => Err(why.clone()),
        None => publish(ctx, *transaction),
    };
    let stats = &mut ctx.state.transactions.stats;
    match &result {
        Ok(()) => stats.committed += 1,
        Err(error) if error.code == Code::Conflict => stats.conflicts += 1,
        Err(_) => stats.rolled_back += 1,
    }
    ctx.state.transactions.end(began, &mut ctx.state.keyspace);
    result.map(|()| Reply::Ok)
}

/// Makes what a transaction wrote everybody's, all of it or, on any error, none.
fn publish(ctx: &mut Context<'_>, transaction: Transaction) -> Result<()> {
    let is_big = is_big(ctx.state, &transaction);
    if transaction.has_written() {
        ctx.state.journal.check_write()?;
    } else {
        if is_big {
            ctx.state.keyspace.shared.reaper.free(transaction);
        }
        return Ok(());
    }
    check_keys(ctx.state, &transaction)?;
    loop {
        match publish_rows(ctx, &transaction) {
            Ok(()) => break,
            Err(ReadError::Failed(error)) => return Err(error),
            // The store does nothing else meanwhile; if one day it does, everything is to be checked again, as it is.
            Err(ReadError::NotReady(wanted)) => Statement::new(ctx).fetch(&wanted)?,
        }
    }
    let now = ctx.state.transactions.now();
    if ctx.state.transactions.len() > 1 {
        commit::claim_rows(transaction.overlay(), &mut ctx.state.transactions.claims, now);
    }
    let Transaction { tables, keys, .. } = transaction;
    keys.commit(&mut ctx.state.keyspace, &mut ctx.effect.keys);
    if is_big {
        ctx.state.keyspace.shared.reaper.free(tables);
    }
    Ok(())
}

/// An error if a key that the transaction read or wrote has changed since it began.
fn check_keys(state: &mut State, transaction: &Transaction) -> Result<()> {
    for ((db, key), existed) in transaction.keys.used() {
        // A key whose time was up since it was used has changed, seen or not.
        let entry = state.keyspace.databases[*db].get(&key[..]);
        let exists = entry.is_some_and(|entry| !entry.is_expired(state.clock.now_ms));
        if exists != existed || state.keyspace.shared.watches.may_have_changed(*db, key, transaction.began) {
            return Err(commit::conflict(&format!("key {}", String::from_utf8_lossy(key))));
        }
    }
    Ok(())
}

fn publish_rows(ctx: &mut Context<'_>, transaction: &Transaction) -> std::result::Result<(), ReadError> {
    let overlay = transaction.overlay();
    if overlay.is_clean() {
        return Ok(());
    }
    commit::check_rows(overlay, &ctx.state.tables, &ctx.state.transactions.claims, transaction.began)?;
    let scope = ctx.state.tables.open(&mut ctx.effect.tables);
    let result = write_and_judge(ctx, overlay);
    match result {
        Ok(()) => ctx.state.tables.keep(&mut ctx.effect.tables, scope),
        Err(_) => ctx.state.tables.undo(&mut ctx.effect.tables, scope),
    }
    result
}

fn write_and_judge(ctx: &mut Context<'_>, overlay: &Overlay) -> std::result::Result<(), ReadError> {
    commit::write_rows(overlay, &mut ctx.state.tables, &mut ctx.effect.tables).map_err(|error| {
        match error.failure {
            WriteFailure::NotReady(wanted) => ReadError::NotReady(wanted),
            WriteFailure::Failed(error) => ReadError::Failed(error),
            other => ReadError::Failed(Error::new(Code::Bug, format!("transact.rs: {other:?} at COMMIT"))),
        }
    })?;
    judge_foreign_keys(ctx, overlay)
}

/// What the transaction's rows refer to may be gone, and what it deleted may be referred to, by the doing of others.
fn judge_foreign_keys(ctx: &mut Context<'_>, overlay: &Overlay) -> std::result::Result<(), ReadError> {
    let mut host = Statement::new(ctx);
    let judge = |host: &mut dyn Host| -> Outcome<()> {
        let mut recheck = Recheck::new(host)?;
        let linked = recheck.linked();
        commit::each_change(overlay, &|table| linked.contains(&table), &mut |table, old, new| {
            recheck.row(table, old, new)
        })?;
        recheck.finish()
    };
    judge(&mut host).map_err(|failure| match failure {
        Failure::NotReady(wanted) => ReadError::NotReady(wanted),
        Failure::Error(error) if error.code == Code::Constraint => {
            ReadError::Failed(commit::conflict(&format!("{}, which", error.message)))
        }
        Failure::Error(error) => ReadError::Failed(error),
        Failure::SliceOver => ReadError::Failed(Error::new(Code::Bug, "transact.rs: COMMIT cannot move")),
    })
}

/// Runs a command of a session that has a transaction.
#[cold]
pub(super) fn run(ctx: &mut Context<'_>, command: &Command, args: &[&[u8]]) -> Result<Reply> {
    let spec = command.spec;
    let Some(transaction) = &mut ctx.session.transaction else { return (spec.run)(ctx, args) };
    if let Some(why) = &transaction.ended {
        return if ends_transaction(args) || spec.group == Group::Connection && spec.name != "select" {
            (spec.run)(ctx, args)
        } else {
            Err(why.clone())
        };
    }
    transaction.follow(&ctx.state.tables.catalog);
    let is_write = spec.flags.contains(Flags::WRITE);
    match spec.group {
        Group::Transactions => {
            let text = format!("{} is not allowed inside a transaction of BEGIN", spec.name.to_uppercase());
            Err(Error::new(Code::Sql, text))
        }
        // Scripts come back here with each of their commands.
        Group::Table | Group::Scripting => (spec.run)(ctx, args),
        _ if spec.keys.has_keys() => {
            let positions = spec.keys.positions(args).unwrap_or_default();
            let mut keys: Vec<&[u8]> = positions.iter().map(|(at, _)| args[*at]).collect();
            let mut others = Vec::new();
            if spec.keys.specs().any(|keys| matches!(keys.find, Find::Anywhere(_))) {
                // SORT reads keys that its patterns make of what it finds.
                others = transaction.keys.names();
            }
            keys.extend(others.iter().filter(|(db, _)| *db == ctx.session.db).map(|(_, key)| &key[..]));
            match is_write {
                true => write_keys(ctx, &keys, |ctx| (spec.run)(ctx, args)),
                false => read_keys(ctx, &keys, |ctx| (spec.run)(ctx, args)),
            }
        }
        _ if is_write => Err(Error::new(
            Code::Sql,
            format!("{} is not allowed inside a transaction: it names no keys", spec.name.to_uppercase()),
        )),
        // SCAN, KEYS and their kin see what the transaction has written.
        _ if spec.flags.contains(Flags::READONLY) => read_all_keys(ctx, |ctx| (spec.run)(ctx, args)),
        _ => (spec.run)(ctx, args),
    }
}

/// A procedure of a session that may have a transaction is about to run a statement.
#[inline]
pub(super) fn follow(ctx: &mut Context<'_>) -> Result<()> {
    let Some(transaction) = &mut ctx.session.transaction else { return Ok(()) };
    if let Some(why) = &transaction.ended {
        return Err(why.clone());
    }
    transaction.follow(&ctx.state.tables.catalog);
    Ok(())
}

/// The error of a write in a transaction that may only read.
pub(super) fn read_only() -> Error {
    Error::new(Code::ReadOnly, "the transaction is READ ONLY")
}

/// Does a request end a transaction that was ended already?
fn ends_transaction(args: &[&[u8]]) -> bool {
    let text = match args {
        [name, text, ..] if name.eq_ignore_ascii_case(b"sql") => text,
        [name, _, text, ..] if name.eq_ignore_ascii_case(b"sql.bind") => text,
        [name, ..] => name,
        [] => return false,
    };
    let text = text.trim_ascii_start();
    let end = text.iter().position(|byte| !byte.is_ascii_alphabetic()).unwrap_or(text.len());
    [&b"commit"[..], b"end", b"rollback"].iter().any(|word| text[..end].eq_ignore_ascii_case(word))
        && !text.windows(4).any(|word| word.eq_ignore_ascii_case(b" to "))
}

/// Runs `body`, which reads some keys of the session's database, as a transaction sees them.
pub(super) fn read_keys<T>(
    ctx: &mut Context<'_>,
    keys: &[&[u8]],
    body: impl FnOnce(&mut Context<'_>) -> Result<T>,
) -> Result<T> {
    if ctx.session.transaction.is_none() {
        return body(ctx);
    }
    let names = use_keys(ctx, keys)?;
    with_private_keys(ctx, &names, false, body)
}

/// Runs `body`, which may write some keys of the session's database, in the session's transaction if it has one.
pub(super) fn write_keys<T>(
    ctx: &mut Context<'_>,
    keys: &[&[u8]],
    body: impl FnOnce(&mut Context<'_>) -> Result<T>,
) -> Result<T> {
    match &ctx.session.transaction {
        None => return body(ctx),
        Some(transaction) if transaction.read_only => return Err(read_only()),
        Some(_) => {}
    }
    let names = use_keys(ctx, keys)?;
    with_private_keys(ctx, &names, true, body)
}

/// Runs `body`, which reads whatever keys there are, as a transaction sees them.
pub(super) fn read_all_keys<T>(ctx: &mut Context<'_>, body: impl FnOnce(&mut Context<'_>) -> Result<T>) -> Result<T> {
    let names = match &ctx.session.transaction {
        Some(transaction) if transaction.keys.has_written() => transaction.keys.names(),
        _ => return body(ctx),
    };
    with_private_keys(ctx, &names, false, body)
}

/// Notes that the session's transaction uses keys of the session's database.
fn use_keys(ctx: &mut Context<'_>, keys: &[&[u8]]) -> Result<Vec<Name>> {
    let db = ctx.session.db;
    let names: Vec<Name> = keys.iter().map(|key| (db, Box::from(*key))).collect();
    for name in &names {
        // An expired key goes before anything of it is copied.
        let exists = ctx.keys_in(db).peek(&name.1);
        if let Some(transaction) = &mut ctx.session.transaction {
            transaction.keys.note_use(name.clone(), exists)?;
        }
    }
    Ok(names)
}

/// Runs `body` on the private entries of some keys. What it changes of them stays private; what it changes of others
/// makes it fail.
fn with_private_keys<T>(
    ctx: &mut Context<'_>,
    names: &[Name],
    writes: bool,
    body: impl FnOnce(&mut Context<'_>) -> Result<T>,
) -> Result<T> {
    let Some(mut transaction) = ctx.session.transaction.take() else { return body(ctx) };
    if !writes && !names.iter().any(|name| transaction.keys.holds(name)) {
        // Nothing private is concerned, so this is a read like any other.
        ctx.session.transaction = Some(transaction);
        return body(ctx);
    }
    let lent = match transaction.keys.lend(&mut ctx.state.keyspace, names, writes) {
        Ok(lent) => lent,
        Err(error) => {
            ctx.session.transaction = Some(transaction);
            return Err(error);
        }
    };
    let wants = Wants::REDO | Wants::UNDO;
    let mut effect = Effect::new(wants, ctx.state.events_wanted());
    let origin = if ctx.origin == Origin::Client { Origin::Exec } else { ctx.origin };
    let result = catch_unwind(AssertUnwindSafe(|| {
        let Context { state, session, .. } = ctx;
        body(&mut Context { state, session, effect: &mut effect, origin, ready: None })
    }));
    let stray = lent.has_stray(&effect.keys, ctx.state.clock.now_ms);
    if stray {
        let effect = std::mem::replace(&mut effect, Effect::new(wants, Default::default()));
        // Made just now on this very state, so it can be taken back.
        let undone = undo::undo(effect, &mut ctx.state.keyspace, &mut ctx.state.tables);
        debug_assert!(undone.is_ok());
    }
    let keep = transaction.keep(ctx.state.wants.contains(Wants::REDO));
    let others = transaction.keys.take_back(&mut ctx.state.keyspace, lent, effect.keys, keep);
    for change in others {
        // Keys whose time was up while nobody listened.
        if let Change::Key { db, key, .. } | Change::Taken { db, key, .. } = &change {
            ctx.state.keyspace.shared.watches.expire(*db, key);
        }
        ctx.effect.keys.other(|| change);
    }
    ctx.session.transaction = Some(transaction);
    match result {
        Ok(_) if stray => {
            Err(Error::new(Code::Sql, "inside a transaction a command may change no keys but those it names"))
        }
        Ok(result) => result,
        Err(panic) => resume_unwind(panic),
    }
}

/// Ends the transactions that have been idle, or hold on to what is long gone, for too long.
pub fn keep_house(state: &mut State) {
    let sessions: Vec<SessionId> = state.transactions.sessions().collect();
    let idle_ms_max = state.config.transaction_idle_timeout_ms;
    for id in sessions {
        let Some(session) = state.sessions.get_mut(&id) else { continue };
        if session.blocked.is_some() || session.in_procedure {
            // It waits for a read in another thread, or for its procedure, whose time is limited otherwise.
            session.active_ms = state.clock.now_ms;
        }
        let idle_ms = state.clock.now_ms - session.active_ms;
        let Some(transaction) = &mut session.transaction else { continue };
        if transaction.ended.is_some() {
            continue;
        }
        let why = if idle_ms_max > 0 && idle_ms > idle_ms_max {
            let text = format!("25P03 the transaction was idle for {idle_ms} ms and is rolled back");
            Error::new(Code::Cancelled, text)
        } else if transaction.copied_since(&state.tables) > state.config.view_bytes {
            let text = format!(
                "40001 snapshot too old: since the transaction began, others changed more than {} bytes; it is rolled back",
                state.config.view_bytes
            );
            Error::new(Code::Conflict, text)
        } else {
            continue;
        };
        let began = transaction.began;
        transaction.end(why);
        state.transactions.stats.expired += 1;
        state.transactions.end(began, &mut state.keyspace);
    }
}
