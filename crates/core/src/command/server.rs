//! Commands about the server and whole databases: DBSIZE, FLUSHDB, FLUSHALL, SWAPDB, TIME, MEMORY, SLOWLOG and the like.

use super::arguments::{integer, is};
use super::connection::database;
use super::context::Context;
use super::save;
use super::spec::{Flags, Group, Keys, Run, Spec, Use};
use super::table::TABLE;
use crate::ds::number;
use crate::error::{Error, Result};
use crate::reply::Reply;

/// The version of Redis whose commands and replies are spoken.
pub const REDIS_VERSION: &str = "7.0.15";

const fn row(
    name: &'static str,
    run: Run,
    arity: i32,
    flags: Flags,
    usage: &'static str,
    summary: &'static str,
) -> Spec {
    Spec::row(Group::Server, name, run, arity, flags, Keys::None, "1.0.0", "O(1)", usage, summary)
}

const fn since(version: &'static str, spec: Spec) -> Spec {
    Spec { since: version, ..spec }
}

const ANYTIME: Flags = Flags::LOADING.union(Flags::STALE);
const WATCH: Flags = Flags::ADMIN.union(ANYTIME);
const ADMIN: Flags = WATCH.union(Flags::NOSCRIPT);
const FAST: Flags = ANYTIME.union(Flags::FAST);

pub(super) const COMMANDS: &[Spec] = &[
    row("dbsize", dbsize, 1, Flags::READONLY.union(Flags::FAST), "", "Counts the keys of the database.")
        .in_categories(&["@keyspace"]),
    row("flushdb", flushdb, -1, Flags::WRITE, "[ASYNC | SYNC]", "Removes all keys of the database.")
        .in_categories(&["@keyspace", "@dangerous"]),
    row("flushall", flushall, -1, Flags::WRITE, "[ASYNC | SYNC]", "Removes all keys of all databases; tables stay.")
        .in_categories(&["@keyspace", "@dangerous"]),
    since(
        "4.0.0",
        row("swapdb", swapdb, 3, Flags::WRITE.union(Flags::FAST), "index1 index2", "Exchanges two databases."),
    )
    .in_categories(&["@keyspace", "@dangerous"]),
    since("2.6.0", row("time", time, 1, FAST, "", "Tells the server's time.")),
    since(
        "2.8.12",
        row("role", role, 1, FAST.union(Flags::NOSCRIPT), "", "Tells the part the server plays in replication."),
    )
    .in_categories(&["@admin", "@dangerous"]),
    Spec {
        group: Group::Generic,
        since: "3.0.0",
        ..row("wait", wait, 3, Flags::NOSCRIPT, "numreplicas timeout", "Counts the replicas that have all writes.")
    }
    .in_categories(&["@connection"]),
    row(
        "shutdown",
        shutdown,
        -1,
        ADMIN.union(Flags::ALLOW_BUSY).union(Flags::NO_MULTI),
        "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
        "Ends the server.",
    ),
    since(
        "5.0.0",
        row("lolwut", lolwut, -1, Flags::READONLY.union(Flags::FAST), "[VERSION version]", "Shows some art."),
    ),
    since("4.0.0", row("memory", container, -2, Flags::empty(), "", "Looks at memory.")).holding(&[
        Spec {
            keys: Keys::of_subcommand(Use::LOOK),
            since: "4.0.0",
            ..row(
                "memory|usage",
                memory_usage,
                -3,
                Flags::READONLY,
                "key [SAMPLES count]",
                "Estimates the memory of a key, bytes.",
            )
        },
        since(
            "4.0.0",
            row("memory|doctor", memory_doctor, 2, Flags::empty(), "", "Says whether memory looks healthy."),
        ),
        since(
            "4.0.0",
            row("memory|purge", memory_purge, 2, Flags::empty(), "", "Gives free memory back to the system."),
        ),
        since("4.0.0", row("memory|stats", memory_stats, 2, Flags::empty(), "", "Describes the use of memory.")),
        since(
            "4.0.0",
            row("memory|malloc-stats", malloc_stats, 2, Flags::empty(), "", "Shows the allocator's own statistics."),
        ),
        since("4.0.0", row("memory|help", memory_help, 2, ANYTIME, "", "Shows what MEMORY can do.")),
    ]),
    since("2.2.12", row("slowlog", container, -2, Flags::empty(), "", "Looks at slow requests.")).holding(&[
        since("2.2.12", row("slowlog|get", slowlog_get, -2, WATCH, "[count]", "Shows the last slow requests.")),
        since("2.2.12", row("slowlog|len", slowlog_len, 2, WATCH, "", "Counts the entries of the slow log.")),
        since("2.2.12", row("slowlog|reset", slowlog_reset, 2, WATCH, "", "Empties the slow log.")),
        since("6.2.0", row("slowlog|help", slowlog_help, 2, ANYTIME, "", "Shows what SLOWLOG can do.")),
    ]),
];

/// Runs a container command called without a subcommand.
pub(super) fn container(_: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    Err(super::dispatch::wrong_arity(&String::from_utf8_lossy(args[0]).to_ascii_lowercase()))
}

/// The lines of `<CONTAINER> HELP`, from the command table.
pub(super) fn help(container: &str) -> Reply {
    let mut lines =
        vec![Reply::status(format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"))];
    let command = TABLE.find(container.as_bytes());
    for sub in command.map_or(&[][..], |c| &c.subcommands) {
        let name = sub.spec.name.rsplit('|').next().unwrap_or_default().to_ascii_uppercase();
        lines.push(Reply::status(format!("{name} {}", sub.spec.usage).trim_end().to_string()));
        lines.push(Reply::status(format!("    {}", sub.spec.summary)));
    }
    Reply::Array(lines)
}

fn dbsize(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::Int(ctx.state.keyspace.databases[ctx.session.db].len() as i64))
}

/// ASYNC and SYNC mean the same here: the keys are gone at once and freed away from the baton.
fn check_flush_option(args: &[&[u8]]) -> Result<()> {
    match args {
        [_] => Ok(()),
        [_, option] if is(option, "ASYNC") || is(option, "SYNC") => Ok(()),
        _ => Err(Error::syntax()),
    }
}

fn flushdb(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    check_flush_option(args)?;
    ctx.state.keyspace.flush(ctx.session.db, &mut ctx.effect.keys);
    Ok(Reply::Ok)
}

fn flushall(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    check_flush_option(args)?;
    for db in 0..ctx.state.keyspace.databases.len() {
        ctx.state.keyspace.flush(db, &mut ctx.effect.keys);
    }
    Ok(Reply::Ok)
}

fn swapdb(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let index = |arg: &[u8], error: &'static str| {
        let index = number::parse_i64(arg).filter(|n| i32::try_from(*n).is_ok());
        index.ok_or_else(|| Error::err(error))
    };
    let (a, b) = (index(args[1], "invalid first DB index")?, index(args[2], "invalid second DB index")?);
    let (a, b) = (database(ctx.state, a)?, database(ctx.state, b)?);
    ctx.state.keyspace.swap(a, b, &mut ctx.effect.keys);
    Ok(Reply::Ok)
}

fn time(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    let now_us = ctx.state.clock.now_us;
    Ok(Reply::Array(vec![Reply::bulk_int(now_us / 1_000_000), Reply::bulk_int(now_us % 1_000_000)]))
}

fn role(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::Array(vec![Reply::bulk("master"), Reply::Int(0), Reply::Array(Vec::new())]))
}

fn wait(_: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    integer(args[1])?;
    let timeout = super::arguments::integer_or(args[2], "timeout is not an integer or out of range")?;
    if timeout < 0 {
        return Err(Error::err("timeout is negative"));
    }
    // There are no replicas yet, so none can acknowledge and there is nothing to wait for.
    Ok(Reply::Int(0))
}

/// There is no data to save yet, so the options that steer saving are read and change nothing.
fn shutdown(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let known = |arg: &&[u8]| ["NOSAVE", "SAVE", "NOW", "FORCE"].iter().any(|word| is(arg, word));
    match &args[1..] {
        [only] if is(only, "ABORT") => Err(Error::err("No shutdown in progress.")),
        options if options.iter().all(known) => {
            let saves = options.iter().any(|word| is(word, "SAVE"));
            if !(saves && save::comes_before_the_end(ctx)) {
                ctx.state.shutdown_wanted = true;
            }
            Ok(Reply::None)
        }
        _ => Err(Error::syntax()),
    }
}

fn lolwut(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    const ART: &str = concat!(
        "      ,/|       __\n",
        "   _.'/ | _.--'`  `-._\n",
        "  `-.'  |'   half stag,\n",
        "     \\  |  half bird   )\n",
        "      `.|__..--.__.--'`\n",
        "       ||   //\n",
        "\nPeryton ver. ",
        env!("CARGO_PKG_VERSION"),
        "\n"
    );
    Ok(Reply::Verbatim(*b"txt", ART.as_bytes().into()))
}

fn memory_usage(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    // The estimate does not sample, but the arguments must make sense.
    for option in args[3..].chunks(2) {
        match option {
            [word, count] if is(word, "SAMPLES") && integer(count)? >= 0 => {}
            _ => return Err(Error::syntax()),
        }
    }
    Ok(ctx.keys().memory(args[2]).map_or(Reply::Nil, |bytes| Reply::Int(bytes as i64)))
}

fn memory_doctor(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    let (used, resident) = (crate::memory::used(), crate::memory::resident());
    let text = if resident > 64 << 20 && resident > used * 2 {
        format!(
            "The process holds {resident} bytes but uses {used}: much was freed lately, or big buffers are in flight. \
             MEMORY PURGE gives free memory back."
        )
    } else {
        "Memory looks healthy.".to_string()
    };
    Ok(Reply::Verbatim(*b"txt", text.as_bytes().into()))
}

fn memory_purge(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::Ok)
}

fn memory_stats(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    let used = crate::memory::used() as i64;
    let keys: usize = ctx.state.keyspace.databases.iter().map(|database| database.len()).sum();
    let field = |name: &str, value: i64| (Reply::bulk(name), Reply::Int(value));
    Ok(Reply::Map(vec![
        field("peak.allocated", crate::memory::peak() as i64),
        field("total.allocated", used),
        field("keys.count", keys as i64),
        field("keys.bytes-per-key", used / (keys.max(1) as i64)),
    ]))
}

fn malloc_stats(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::Verbatim(
        *b"txt",
        b"The allocator is mimalloc, which reports no statistics in release builds.\n"[..].into(),
    ))
}

fn memory_help(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(help("MEMORY"))
}

fn slowlog_get(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    if args.len() > 3 {
        return Err(super::dispatch::wrong_subcommand("slowlog", args[1]));
    }
    let count = match args.get(2) {
        None => 10,
        Some(arg) => {
            let text = "count should be greater than or equal to -1";
            match super::arguments::integer_or(arg, text)? {
                -1 => usize::MAX,
                n => usize::try_from(n).map_err(|_| Error::err(text))?,
            }
        }
    };
    let entries = ctx.state.slowlog.newest(count).map(|entry| {
        Reply::Array(vec![
            Reply::Int(entry.id as i64),
            Reply::Int(entry.time_s),
            Reply::Int(entry.duration_us as i64),
            Reply::bulks(&entry.arguments),
            Reply::bulk(&entry.address),
            Reply::bulk(&entry.name),
        ])
    });
    Ok(Reply::Array(entries.collect()))
}

fn slowlog_len(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::Int(ctx.state.slowlog.len() as i64))
}

fn slowlog_reset(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    ctx.state.slowlog.reset();
    Ok(Reply::Ok)
}

fn slowlog_help(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(help("SLOWLOG"))
}
