//! CLIENT and its subcommands: who is connected, under which name, and how to be rid of him.

use super::arguments::is;
use super::connection::check_name;
use super::context::Context;
use super::server::{container, help};
use super::spec::{Flags, Group, Keys, Run, Spec};
use super::waiting;
use crate::ds::number;
use crate::error::{Error, Result};
use crate::reply::Reply;
use crate::session::{ReplyMode, Session, SessionId};

const fn row(
    name: &'static str,
    run: Run,
    arity: i32,
    since: &'static str,
    usage: &'static str,
    summary: &'static str,
) -> Spec {
    let flags = Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE);
    Spec::row(Group::Connection, name, run, arity, flags, Keys::None, since, "O(1)", usage, summary)
}

const fn admin(spec: Spec) -> Spec {
    Spec {
        flags: spec.flags.union(Flags::ADMIN),
        complexity: "O(N) where N is the number of client connections",
        ..spec
    }
}

pub(super) const COMMANDS: &[Spec] = &[row("client", container, -2, "2.4.0", "", "Looks after client connections.")
    .holding(&[
        row("client|id", id, 2, "5.0.0", "", "Tells the connection's number."),
        row("client|info", info, 2, "6.2.0", "", "Describes this connection."),
        admin(row("client|list", list, -2, "2.4.0", "[TYPE type] [ID id [id ...]]", "Describes all connections.")),
        row("client|getname", getname, 2, "2.6.9", "", "Tells the connection's name."),
        row("client|setname", setname, 3, "2.6.9", "connection-name", "Names the connection."),
        row("client|setinfo", setinfo, 4, "7.2.0", "LIB-NAME name | LIB-VER version", "Names the client's library."),
        admin(row(
            "client|kill",
            kill,
            -3,
            "2.4.0",
            "ip:port | [ID id] [TYPE type] [ADDR ip:port] [LADDR ip:port] [USER name] [SKIPME yes|no]",
            "Closes connections.",
        )),
        row("client|reply", reply, 3, "3.2.0", "ON | OFF | SKIP", "Chooses whether replies are sent."),
        admin(row("client|unblock", unblock, -3, "5.0.0", "client-id [TIMEOUT | ERROR]", "Ends a client's wait.")),
        admin(row("client|no-evict", no_evict, 3, "7.0.0", "ON | OFF", "Keeps the connection when memory is short.")),
        row(
            "client|no-touch",
            no_touch,
            3,
            "7.2.0",
            "ON | OFF",
            "Makes the connection's look-ups leave no trace in LRU and LFU.",
        ),
        row("client|getredir", getredir, 2, "6.0.0", "", "Tells where invalidation messages go."),
        row("client|caching", caching, 3, "6.0.0", "YES | NO", "Says whether the next command's keys are tracked."),
        row("client|trackinginfo", trackinginfo, 2, "6.2.0", "", "Tells how this connection tracks keys."),
        Spec {
            flags: Flags::LOADING.union(Flags::STALE),
            ..row("client|help", client_help, 2, "5.0.0", "", "Shows what CLIENT can do.")
        },
    ])];

fn client_help(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(help("CLIENT"))
}

fn id(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::Int(ctx.session.id as i64))
}

fn getname(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(if ctx.session.name.is_empty() { Reply::Nil } else { Reply::bulk(&ctx.session.name) })
}

fn setname(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    check_name(args[2])?;
    ctx.session.name = args[2].to_vec();
    Ok(Reply::Ok)
}

fn setinfo(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let printable = |what: &str| {
        let text = format!("{what} cannot contain spaces, newlines or special characters.");
        args[3].iter().all(|byte| (b'!'..=b'~').contains(byte)).then_some(()).ok_or_else(|| Error::err(text))
    };
    if is(args[2], "LIB-NAME") {
        printable("lib-name")?;
        ctx.session.library.0 = args[3].to_vec();
    } else if is(args[2], "LIB-VER") {
        printable("lib-ver")?;
        ctx.session.library.1 = args[3].to_vec();
    } else {
        return Err(Error::about("Unrecognized option '", args[2], "'"));
    }
    Ok(Reply::Ok)
}

fn reply(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mode = match args[2] {
        arg if is(arg, "ON") => ReplyMode::On,
        arg if is(arg, "OFF") => ReplyMode::Off,
        // While replies are off, SKIP changes nothing (Redis 7).
        arg if is(arg, "SKIP") && ctx.session.reply_mode == ReplyMode::Off => ReplyMode::Off,
        arg if is(arg, "SKIP") => ReplyMode::SkipNext,
        _ => return Err(Error::syntax()),
    };
    ctx.session.reply_mode = mode;
    Ok(if mode == ReplyMode::On { Reply::Ok } else { Reply::None })
}

fn on_or_off(arg: &[u8]) -> Result<bool> {
    match arg {
        arg if is(arg, "ON") => Ok(true),
        arg if is(arg, "OFF") => Ok(false),
        _ => Err(Error::syntax()),
    }
}

fn no_evict(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    ctx.session.no_evict = on_or_off(args[2])?;
    Ok(Reply::Ok)
}

fn no_touch(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    ctx.session.no_touch = on_or_off(args[2])?;
    ctx.state.keyspace.shared.clock.no_touch = ctx.session.no_touch;
    Ok(Reply::Ok)
}

fn caching(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    let text =
        "CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled";
    Err(Error::err(text))
}

fn getredir(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::Int(-1))
}

fn trackinginfo(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::Map(vec![
        (Reply::bulk("flags"), Reply::Set(vec![Reply::bulk("off")])),
        (Reply::bulk("redirect"), Reply::Int(-1)),
        (Reply::bulk("prefixes"), Reply::Array(Vec::new())),
    ]))
}

fn unblock(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    if args.len() > 4 {
        return Err(super::dispatch::wrong_subcommand("client", args[1]));
    }
    let with_error = match args.get(3) {
        None => false,
        Some(arg) if is(arg, "TIMEOUT") => false,
        Some(arg) if is(arg, "ERROR") => true,
        Some(_) => return Err(Error::err("CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
    };
    let id = super::arguments::integer(args[2])?;
    let waited = id > 0 && waiting::unblock(ctx.state, id as SessionId, with_error);
    Ok(Reply::Int(waited as i64))
}

/// The letter that CLIENT LIST shows, and the name that its TYPE filter takes.
fn kind(session: &Session) -> &'static str {
    if session.subscriptions() + session.shard_channels.len() > 0 { "pubsub" } else { "normal" }
}

fn kind_from(arg: &[u8]) -> Result<&'static str> {
    ["normal", "master", "replica", "pubsub"]
        .into_iter()
        .find(|name| is(arg, name))
        .or_else(|| is(arg, "slave").then_some("replica"))
        .ok_or_else(|| Error::about("Unknown client type '", arg, "'"))
}

/// One line of CLIENT LIST, with Redis 7's fields; those that have no meaning here are zero.
fn describe(session: &Session, now_ms: i64) -> String {
    let mut flags = String::new();
    for (set, letter) in [
        (kind(session) == "pubsub", 'P'),
        (session.multi.is_some() || session.transaction.is_some(), 'x'),
        (session.blocked.is_some(), 'b'),
        (session.closing, 'c'),
        (session.killed, 'A'),
        (session.no_evict, 'e'),
        (session.no_touch, 'T'),
        (session.address.0.starts_with('/'), 'U'),
    ] {
        if set {
            flags.push(letter);
        }
    }
    if flags.is_empty() {
        flags.push('N');
    }
    let (multi, multi_bytes) = session.multi.as_ref().map_or((-1, 0), |m| (m.queue.len() as i64, m.bytes));
    format!(
        "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={} qbuf={} \
         qbuf-free=0 argv-mem=0 multi-mem={} rbs=0 rbp=0 obl=0 oll=0 omem={} tot-mem={} events=r cmd={} user=default \
         redir=-1 resp={} lib-name={} lib-ver={}",
        session.id,
        session.address.0,
        session.address.1,
        String::from_utf8_lossy(&session.name),
        (now_ms - session.created_ms) / 1000,
        (now_ms - session.active_ms) / 1000,
        flags,
        session.db,
        session.channels.len(),
        session.patterns.len(),
        session.shard_channels.len(),
        multi,
        session.buffers.0,
        multi_bytes,
        session.buffers.1,
        session.buffers.0 + session.buffers.1 + multi_bytes + std::mem::size_of::<Session>(),
        session.last_command,
        session.protocol,
        String::from_utf8_lossy(&session.library.0),
        String::from_utf8_lossy(&session.library.1),
    )
}

/// All sessions, this one included, by number.
fn all<'a>(ctx: &'a Context<'_>) -> Vec<&'a Session> {
    let mut sessions: Vec<&Session> = ctx.state.sessions.values().map(|session| &**session).collect();
    sessions.push(ctx.session);
    sessions.sort_by_key(|session| session.id);
    sessions
}

fn info(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    let line = describe(ctx.session, ctx.state.clock.now_ms) + "\n";
    Ok(Reply::Verbatim(*b"txt", line.as_bytes().into()))
}

fn list(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut wanted_kind = None;
    let mut wanted_ids: Option<Vec<i64>> = None;
    match &args[2..] {
        [] => {}
        [option, name] if is(option, "TYPE") => wanted_kind = Some(kind_from(name)?),
        [option, ids @ ..] if is(option, "ID") && !ids.is_empty() => {
            let parse = |id: &&[u8]| number::parse_i64(id).ok_or_else(|| Error::err("Invalid client ID"));
            wanted_ids = Some(ids.iter().map(parse).collect::<Result<_>>()?);
        }
        _ => return Err(Error::syntax()),
    }
    let shown = all(ctx).into_iter().filter(|session| {
        wanted_kind.is_none_or(|wanted| kind(session) == wanted)
            && wanted_ids.as_ref().is_none_or(|ids| ids.contains(&(session.id as i64)))
    });
    let lines: String = shown.map(|session| describe(session, ctx.state.clock.now_ms) + "\n").collect();
    Ok(Reply::Verbatim(*b"txt", lines.as_bytes().into()))
}

/// What CLIENT KILL is to find.
#[derive(Default)]
struct Filter<'a> {
    id: Option<SessionId>,
    kind: Option<&'static str>,
    address: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    user: Option<&'a [u8]>,
    spare_self: bool,
}

impl<'a> Filter<'a> {
    fn parse(mut options: &[&'a [u8]]) -> Result<Self> {
        let mut filter = Filter { spare_self: true, ..Filter::default() };
        while let [option, value, rest @ ..] = options {
            match option {
                o if is(o, "ID") => {
                    let id = number::parse_i64(value).filter(|id| *id > 0);
                    filter.id = Some(id.ok_or_else(|| Error::err("client-id should be greater than 0"))? as SessionId);
                }
                o if is(o, "TYPE") => filter.kind = Some(kind_from(value)?),
                o if is(o, "ADDR") => filter.address = Some(value),
                o if is(o, "LADDR") => filter.local = Some(value),
                o if is(o, "USER") => {
                    if *value != b"default" {
                        return Err(Error::about("No such user '", value, "'"));
                    }
                    filter.user = Some(value);
                }
                o if is(o, "SKIPME") && is(value, "yes") => filter.spare_self = true,
                o if is(o, "SKIPME") && is(value, "no") => filter.spare_self = false,
                _ => return Err(Error::syntax()),
            }
            options = rest;
        }
        if options.is_empty() { Ok(filter) } else { Err(Error::syntax()) }
    }

    fn matches(&self, session: &Session) -> bool {
        self.id.is_none_or(|id| session.id == id)
            && self.kind.is_none_or(|wanted| kind(session) == wanted)
            && self.address.is_none_or(|address| session.address.0.as_bytes() == address)
            && self.local.is_none_or(|address| session.address.1.as_bytes() == address)
    }
}

fn kill(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    // The old form names one address and answers OK; the new one counts.
    let old_form = args.len() == 3;
    let filter =
        if old_form { Filter { address: Some(args[2]), ..Filter::default() } } else { Filter::parse(&args[2..])? };
    let matching = ctx.state.sessions.values().filter(|session| filter.matches(session) && !session.killed);
    let ids: Vec<SessionId> = matching.map(|session| session.id).collect();
    let mut killed = ids.len() as i64;
    ids.into_iter().for_each(|id| super::connection::kill(ctx.state, id));
    if !filter.spare_self && filter.matches(ctx.session) {
        ctx.session.closing = true;
        killed += 1;
    }
    match (old_form, killed) {
        (true, 0) => Err(Error::err("No such client")),
        (true, _) => Ok(Reply::Ok),
        (false, count) => Ok(Reply::Int(count)),
    }
}
