//! Commands about the connection itself: PING, ECHO, SELECT, AUTH, HELLO, RESET, QUIT.

use super::arguments::{database_number, is};
use super::context::Context;
use super::spec::{Flags, Group, Keys, Run, Spec};
use super::{pubsub, transact, transaction, waiting};
use crate::error::{Code, Error, Result};
use crate::reply::Reply;
use crate::session::{Door, ReplyMode, Session, SessionId};
use crate::state::State;

const fn row(
    name: &'static str,
    run: Run,
    arity: i32,
    flags: Flags,
    usage: &'static str,
    summary: &'static str,
) -> Spec {
    Spec::row(Group::Connection, name, run, arity, flags, Keys::None, "1.0.0", "O(1)", usage, summary)
}

const BEFORE_AUTH: Flags = Flags::NOSCRIPT
    .union(Flags::LOADING)
    .union(Flags::STALE)
    .union(Flags::FAST)
    .union(Flags::NO_AUTH)
    .union(Flags::ALLOW_BUSY);

pub(super) const COMMANDS: &[Spec] = &[
    row("ping", ping, -1, Flags::FAST.union(Flags::SUBSCRIBED), "[message]", "Answers PONG, or the message."),
    row("echo", echo, 2, Flags::LOADING.union(Flags::STALE).union(Flags::FAST), "message", "Answers the message."),
    row(
        "select",
        select,
        -2,
        Flags::LOADING.union(Flags::STALE).union(Flags::FAST),
        "index | columns FROM t ...",
        "Chooses a database; with anything but a number it is a SQL query.",
    ),
    row("auth", auth, -2, BEFORE_AUTH, "[username] password", "Gives the password."),
    Spec {
        since: "6.0.0",
        ..row(
            "hello",
            hello,
            -1,
            BEFORE_AUTH,
            "[protover [AUTH username password] [SETNAME clientname]]",
            "Chooses the protocol version, and tells about the server.",
        )
    },
    Spec {
        since: "6.2.0",
        ..row(
            "reset",
            reset,
            1,
            BEFORE_AUTH.union(Flags::SUBSCRIBED).union(Flags::MULTI_CONTROL),
            "",
            "Makes the connection as good as new.",
        )
    },
    row(
        "quit",
        quit,
        -1,
        BEFORE_AUTH.union(Flags::SUBSCRIBED).union(Flags::MULTI_CONTROL),
        "",
        "Closes the connection.",
    ),
];

fn ping(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    if args.len() > 2 {
        return Err(super::dispatch::wrong_arity("ping"));
    }
    // A RESP2 subscriber reads arrays only.
    if ctx.session.in_subscribed_mode() {
        return Ok(Reply::Array(vec![Reply::bulk("pong"), Reply::bulk(args.get(1).copied().unwrap_or(b""))]));
    }
    Ok(args.get(1).map_or(Reply::status("PONG"), Reply::bulk))
}

fn echo(_: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::bulk(args[1]))
}

fn select(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    if super::sql::is_sql_select(args) {
        return super::sql::bare(ctx, args);
    }
    ctx.session.db = database(ctx.state, database_number(args[1])?)?;
    Ok(Reply::Ok)
}

/// A database's number from an argument's value.
pub(super) fn database(state: &State, index: i64) -> Result<usize> {
    let index = usize::try_from(index).ok().filter(|n| *n < state.keyspace.databases.len());
    index.ok_or_else(|| Error::err("DB index is out of range"))
}

fn auth(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    match args {
        [_, password] if ctx.state.config.requirepass.is_empty() => {
            let _ = password;
            Err(Error::err(
                "AUTH <password> called without any password configured for the default user. Are you sure your \
                 configuration is correct?",
            ))
        }
        [_, password] => log_in(ctx, b"default", password),
        [_, user, password] => log_in(ctx, user, password),
        _ => Err(Error::syntax()),
    }
}

fn log_in(ctx: &mut Context<'_>, user: &[u8], password: &[u8]) -> Result<Reply> {
    let wanted = ctx.state.config.requirepass.as_bytes();
    if user != b"default" || !(wanted.is_empty() || same(wanted, password)) {
        return Err(Error::new(Code::WrongPass, "invalid username-password pair or user is disabled."));
    }
    ctx.session.authenticated = true;
    Ok(Reply::Ok)
}

/// Equality in a time that does not tell where the first difference is.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (x, y)| difference | (x ^ y)) == 0
}

fn hello(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut protocol = ctx.session.protocol;
    if let Some(version) = args.get(1) {
        let version = super::arguments::integer_or(version, "Protocol version is not an integer or out of range")?;
        protocol = match version {
            2 | 3 => version as u8,
            _ => return Err(Error::new(Code::NoProto, "unsupported protocol version")),
        };
    }
    let mut rest = args.get(2..).unwrap_or_default();
    while let Some((option, after)) = rest.split_first() {
        rest = match after {
            // Each takes effect before the next is looked at, as in Redis.
            [user, password, after @ ..] if is(option, "AUTH") => {
                log_in(ctx, user, password)?;
                after
            }
            [name, after @ ..] if is(option, "SETNAME") => {
                check_name(name)?;
                ctx.session.name = name.to_vec();
                after
            }
            _ => return Err(Error::about("Syntax error in HELLO option '", option, "'")),
        };
    }
    if !ctx.session.authenticated && !ctx.state.config.requirepass.is_empty() {
        return Err(Error::new(
            Code::NoAuth,
            "HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> \
             option can be used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    ctx.session.protocol = protocol;
    let field = |name: &str, value: Reply| (Reply::bulk(name), value);
    Ok(Reply::Map(vec![
        field("server", Reply::bulk("redis")),
        field("version", Reply::bulk(super::server::REDIS_VERSION)),
        field("proto", Reply::Int(protocol as i64)),
        field("id", Reply::Int(ctx.session.id as i64)),
        field("mode", Reply::bulk("standalone")),
        field("role", Reply::bulk("master")),
        field("modules", Reply::Array(Vec::new())),
    ]))
}

/// A client's name must print on one line of CLIENT LIST.
pub(super) fn check_name(name: &[u8]) -> Result<()> {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(());
    }
    Err(Error::err("Client names cannot contain spaces, newlines or special characters."))
}

fn reset(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    forget(ctx.state, ctx.session);
    let session = &mut ctx.session;
    session.db = 0;
    session.protocol = 2;
    session.authenticated = false;
    session.name.clear();
    session.reply_mode = ReplyMode::On;
    (session.no_evict, session.no_touch) = (false, false);
    Ok(Reply::status("RESET"))
}

/// Ends the sessions that have sent nothing for longer than the setting `timeout`. Subscribers and those who wait in a
/// blocking command are no idlers (Redis 7).
pub fn end_idle(state: &mut State) {
    let limit_ms = state.config.timeout_s as i64 * 1000;
    let now_ms = state.clock.now_ms;
    let is_idle = |session: &Session| {
        let waits = session.blocked.is_some() || session.subscriptions() + session.shard_channels.len() > 0;
        session.door == Door::Resp && !waits && now_ms - session.active_ms > limit_ms
    };
    let idle: Vec<SessionId> = state.sessions.values().filter(|s| is_idle(s)).map(|s| s.id).collect();
    idle.into_iter().for_each(|id| kill(state, id));
}

/// Ends another session at once: it waits for nothing and hears nothing any more; its door closes it when it looks.
pub fn kill(state: &mut State, id: SessionId) {
    if let Some(mut session) = state.sessions.remove(&id) {
        forget(state, &mut session);
        session.outbox.clear();
        session.killed = true;
        session.wake();
        state.sessions.insert(id, session);
    }
}

/// Ends whatever a session has begun: transaction, watches, subscriptions, waiting.
pub fn forget(state: &mut State, session: &mut Session) {
    session.multi = None;
    transact::forget(state, session);
    transaction::forget_watches(state, session);
    pubsub::forget_subscriptions(state, session);
    waiting::leave(state, session);
}

fn quit(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    ctx.session.closing = true;
    Ok(Reply::Ok)
}
