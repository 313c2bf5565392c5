//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.

use super::context::{Context, Origin};
use super::dispatch;
use super::spec::{Flags, Group, Keys, Spec, Use};
use crate::error::{Code, Error, Result};
use crate::reply::Reply;
use crate::session::{Multi, Session};
use crate::state::State;

const CONTROL: Flags = Flags::NOSCRIPT
    .union(Flags::LOADING)
    .union(Flags::STALE)
    .union(Flags::FAST)
    .union(Flags::MULTI_CONTROL)
    .union(Flags::ALLOW_BUSY);

pub(super) const COMMANDS: &[Spec] = &[
    Spec {
        name: "multi",
        run: multi,
        arity: 1,
        flags: CONTROL,
        keys: Keys::None,
        group: Group::Transactions,
        since: "1.2.0",
        complexity: "O(1)",
        summary: "Starts a transaction: later requests are queued until EXEC.",
        usage: "",
        subcommands: &[],
        categories: None,
    },
    Spec {
        name: "exec",
        run: exec,
        arity: 1,
        flags: CONTROL.difference(Flags::FAST).difference(Flags::ALLOW_BUSY).union(Flags::SKIP_SLOWLOG),
        keys: Keys::None,
        group: Group::Transactions,
        since: "1.2.0",
        complexity: "Depends on commands in the transaction",
        summary: "Executes the queued requests as one atomic step.",
        usage: "",
        subcommands: &[],
        categories: None,
    },
    Spec {
        name: "discard",
        run: discard,
        arity: 1,
        flags: CONTROL,
        keys: Keys::None,
        group: Group::Transactions,
        since: "2.0.0",
        complexity: "O(N), when N is the number of queued commands",
        summary: "Forgets the queued requests and ends the transaction.",
        usage: "",
        subcommands: &[],
        categories: None,
    },
    Spec {
        name: "watch",
        run: watch,
        arity: -2,
        flags: CONTROL,
        keys: Keys::all(Use::LOOK),
        group: Group::Transactions,
        since: "2.2.0",
        complexity: "O(1) for every key.",
        summary: "Makes the next EXEC fail if one of the keys changes before it.",
        usage: "key [key ...]",
        subcommands: &[],
        categories: None,
    },
    Spec {
        name: "unwatch",
        run: unwatch,
        arity: 1,
        flags: CONTROL.difference(Flags::MULTI_CONTROL),
        keys: Keys::None,
        group: Group::Transactions,
        since: "2.2.0",
        complexity: "O(1)",
        summary: "Forgets all watched keys.",
        usage: "",
        subcommands: &[],
        categories: None,
    },
];

fn multi(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    if ctx.session.multi.is_some() {
        return Err(Error::err("MULTI calls can not be nested"));
    }
    ctx.session.multi = Some(Multi::default());
    Ok(Reply::Ok)
}

fn discard(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    if ctx.session.multi.is_none() {
        return Err(Error::err("DISCARD without MULTI"));
    }
    discard_all(ctx.state, ctx.session);
    Ok(Reply::Ok)
}

fn exec(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    let Some(multi) = ctx.session.multi.take() else { return Err(Error::err("EXEC without MULTI")) };
    let broken = watch_is_broken(ctx);
    forget_watches(ctx.state, ctx.session);
    if multi.aborted {
        return Err(Error::new(Code::ExecAbort, "Transaction discarded because of previous errors."));
    }
    if broken {
        return Ok(Reply::NilArray);
    }
    let replies: Vec<(u8, Reply)> = multi
        .queue
        .iter()
        .map(|request| {
            let args: Vec<&[u8]> = request.iter().map(|arg| &arg[..]).collect();
            let reply = exec_one(ctx, &args);
            (ctx.session.protocol, reply)
        })
        .collect();
    // The door encodes in the protocol of the end; what came before a HELLO keeps its own.
    let last = ctx.session.protocol;
    let kept = |(protocol, reply)| if protocol == last { reply } else { Reply::As(protocol, Box::new(reply)) };
    Ok(Reply::Array(replies.into_iter().map(kept).collect()))
}

fn exec_one(ctx: &mut Context<'_>, args: &[&[u8]]) -> Reply {
    let command = match dispatch::find(args[0], args) {
        Ok(command) => command,
        Err(error) => return Reply::Error(error),
    };
    let Context { state, session, effect, .. } = ctx;
    dispatch::call(&mut Context { state, session, effect, origin: Origin::Exec, ready: None }, command, args)
}

fn watch(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    if ctx.session.multi.is_some() {
        return Err(Error::err("WATCH inside MULTI is not allowed"));
    }
    let db = ctx.session.db;
    for key in &args[1..] {
        // An expired key is removed first, so that its removal later does not break the watch.
        ctx.keys().peek(key);
        let name = (db, Box::from(*key));
        if !ctx.session.watched.contains_key(&name) {
            let version = ctx.state.keyspace.shared.watches.watch(db, key);
            ctx.session.watched.insert(name, version);
        }
    }
    Ok(Reply::Ok)
}

fn unwatch(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    forget_watches(ctx.state, ctx.session);
    Ok(Reply::Ok)
}

fn watch_is_broken(ctx: &mut Context<'_>) -> bool {
    let watched: Vec<_> = ctx.session.watched.iter().map(|((db, key), version)| (*db, key.clone(), *version)).collect();
    watched.iter().any(|(db, key, version)| {
        // A watched key whose time ran out counts as changed, seen or not.
        ctx.keys_in(*db).peek(key);
        ctx.state.keyspace.shared.watches.version(*db, key) != Some(*version)
    })
}

/// Forgets the queued requests and all watches.
pub(super) fn discard_all(state: &mut State, session: &mut Session) {
    session.multi = None;
    forget_watches(state, session);
}

/// Ends all watches of a session.
pub(super) fn forget_watches(state: &mut State, session: &mut Session) {
    for ((db, key), _) in session.watched.drain() {
        state.keyspace.shared.watches.unwatch(db, &key);
    }
}
