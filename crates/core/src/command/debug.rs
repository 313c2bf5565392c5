//! DEBUG: looks inside the store, for tests and for those who mend it.

use super::arguments::{integer, is};
use super::context::Context;
use super::server::{container, help};
use super::spec::{Flags, Group, Keys, Run, Spec};
use crate::ds::number;
use crate::engine::Memory;
use crate::error::{Error, Result};
use crate::keyspace::keys::Expiry;
use crate::keyspace::{Keyspace, Wants};
use crate::reply::{Blob, Reply};
use crate::txn::{Tables, redo, undo};
use std::time::Duration;

const fn row(name: &'static str, run: Run, arity: i32, usage: &'static str, summary: &'static str) -> Spec {
    let flags = Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE);
    Spec::row(Group::Server, name, run, arity, flags, Keys::None, "1.0.0", "Depends on the subcommand", usage, summary)
}

pub(super) const COMMANDS: &[Spec] = &[row("debug", container, -2, "", "Looks inside the store.").with(&[
    row("debug|digest", digest, 2, "", "Gives a digest of all keys and values."),
    row("debug|digest-value", digest_value, -3, "key [key ...]", "Gives digests of the values of keys."),
    row("debug|object", object, 3, "key", "Describes how a key is kept."),
    row("debug|error", error, 3, "text", "Answers with an error."),
    row("debug|protocol", protocol, 3, "type", "Answers with a value of a protocol type."),
    row("debug|sleep", sleep, 3, "seconds", "Does nothing for a while, holding everything up."),
    row("debug|populate", populate, -3, "count [prefix [size]]", "Creates strings named <prefix>:<number>."),
    row(
        "debug|set-active-expire",
        set_active_expire,
        3,
        "0 | 1",
        "Stops or starts the removal of expired keys that nobody touches.",
    ),
    row(
        "debug|effects",
        effects,
        3,
        "START | CHECK",
        "Checks that the effects since START replay and undo exactly; undoes them.",
    ),
    row("debug|jmap", ignored, 2, "", "Does nothing."),
    row("debug|change-repl-id", ignored, 2, "", "Does nothing."),
    row("debug|quicklist-packed-threshold", ignored, 3, "size", "Does nothing: lists keep elements of any size alike."),
    row("debug|help", debug_help, 2, "", "Shows what DEBUG can do."),
])];

fn debug_help(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(help("DEBUG"))
}

fn ignored(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::Ok)
}

fn hex(digest: u64) -> Reply {
    Reply::status(format!("{digest:040x}"))
}

fn digest(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(hex(ctx.state.keyspace.digest()))
}

fn digest_value(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    let digest = |key: &&[u8]| hex(keys.cloned(key).map_or(0, |(value, _)| value.digest()));
    Ok(Reply::Array(args[2..].iter().map(digest).collect()))
}

fn object(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    let encoding = keys.inspect(args[2]).ok_or_else(Error::no_such_key)?.encoding();
    let bytes = keys.memory(args[2]).unwrap_or(0);
    let idle_s = keys.idle_s(args[2]).unwrap_or(0);
    Ok(Reply::status(format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{bytes} lru:0 lru_seconds_idle:{idle_s}"
    )))
}

fn error(_: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    Err(Error::quoting(crate::error::Code::Custom, args[2].to_vec()))
}

fn protocol(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let three = || (0..3).map(Reply::Int).collect::<Vec<_>>();
    Ok(match args[2] {
        kind if is(kind, "string") => Reply::bulk("Hello World"),
        kind if is(kind, "integer") => Reply::Int(12345),
        kind if is(kind, "double") => Reply::Double(3.5),
        kind if is(kind, "null") => Reply::Nil,
        kind if is(kind, "array") => Reply::Array(three()),
        kind if is(kind, "set") => Reply::Set(three()),
        kind if is(kind, "map") => Reply::Map((0..3).map(|n| (Reply::Int(n), Reply::Bool(n == 1))).collect()),
        kind if is(kind, "push") && ctx.session.protocol >= 3 => {
            Reply::Push(vec![Reply::bulk("server-cpu-usage"), Reply::Int(42)])
        }
        kind if is(kind, "push") => return Err(Error::err("RESP2 is not supported by this command")),
        kind if is(kind, "verbatim") => Reply::Verbatim(*b"txt", Blob::from_slice(b"This is a verbatim\nstring")),
        kind if is(kind, "true") => Reply::Bool(true),
        kind if is(kind, "false") => Reply::Bool(false),
        kind if is(kind, "bignum") => Reply::BigNumber(Blob::from_slice(b"1234567999999999999999999999999999999")),
        _ => {
            return Err(Error::err(
                "Wrong protocol type name. Please use one of the following: \
                 string|integer|double|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    })
}

fn sleep(_: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let seconds = number::parse_f64(args[2]).filter(|s| (0.0..=3600.0).contains(s)).ok_or_else(Error::not_a_float)?;
    std::thread::sleep(Duration::from_secs_f64(seconds));
    Ok(Reply::Ok)
}

fn populate(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let count = usize::try_from(integer(args[2])?).map_err(|_| Error::out_of_range())?;
    let prefix = args.get(3).copied().unwrap_or(b"key");
    let size = args.get(4).map(|arg| integer(arg)).transpose()?;
    let mut keys = ctx.keys();
    for number in 0..count {
        let key = [prefix, format!(":{number}").as_bytes()].concat();
        let mut value = format!("value:{number}").into_bytes();
        if let Some(size) = size {
            value.resize(usize::try_from(size).map_err(|_| Error::out_of_range())?, 0);
        }
        if !keys.peek(&key) {
            keys.set_string(&key, &value, Expiry::Clear);
        }
    }
    Ok(Reply::Ok)
}

fn set_active_expire(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    ctx.state.active_expire = integer(args[2])? != 0;
    Ok(Reply::Ok)
}

/// The proof of invariants 5 and 6 on whatever was executed: START with an empty store, execute, CHECK.
fn effects(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    if is(args[2], "START") {
        let keys: usize = ctx.state.keyspace.databases.iter().map(|database| database.len()).sum();
        let catalog = &ctx.state.tables.catalog;
        if keys > 0 || catalog.tables().next().is_some() || !catalog.libraries.is_empty() {
            let advice =
                "effects can be recorded from an empty store on only: FLUSHALL, FUNCTION FLUSH and DROP TABLE first";
            return Err(Error::err(advice));
        }
        ctx.state.recorded = Some(Vec::new());
        ctx.state.wants |= Wants::REDO | Wants::UNDO;
        return Ok(Reply::Ok);
    }
    if !is(args[2], "CHECK") {
        return Err(Error::syntax());
    }
    let Some(recorded) = ctx.state.recorded.take() else {
        return Err(Error::err("nothing was recorded: DEBUG EFFECTS START first"));
    };
    ctx.state.wants -= Wants::REDO | Wants::UNDO;
    let expected = ctx.state.keyspace.digest();
    let mut replayed = Keyspace::new(ctx.state.keyspace.databases.len());
    replayed.shared.thresholds = ctx.state.keyspace.shared.thresholds.clone();
    let mut replayed_tables = Tables::new(Box::new(Memory::new()));
    let mut record = Vec::new();
    for (number, effect) in recorded.iter().enumerate() {
        record.clear();
        redo::encode(effect, &mut record);
        redo::replay(&record, &mut replayed, &mut replayed_tables)
            .map_err(|bad| Error::err(format!("effect {number} does not replay: {}", bad.0)))?;
    }
    if replayed.digest() != expected || replayed_tables.digest()? != ctx.state.tables.digest()? {
        return Err(Error::err("the replayed effects give another state"));
    }
    for (number, effect) in recorded.into_iter().enumerate().rev() {
        undo::undo(effect, &mut ctx.state.keyspace, &mut ctx.state.tables)
            .map_err(|bad| Error::err(format!("effect {number} cannot be undone: {}", bad.0)))?;
    }
    let left: usize = ctx.state.keyspace.databases.iter().map(|database| database.len()).sum();
    if left > 0 {
        return Err(Error::err(format!("{left} keys are left after all effects were undone")));
    }
    if let Some(table) = ctx.state.tables.catalog.tables().next() {
        return Err(Error::err(format!("table {} is left after all effects were undone", table.name)));
    }
    if !ctx.state.tables.catalog.libraries.is_empty() {
        return Err(Error::err("a library is left after all effects were undone"));
    }
    if !ctx.state.tables.catalog.triggers().is_empty() || !ctx.state.tables.catalog.schedules.is_empty() {
        return Err(Error::err("a trigger or a schedule is left after all effects were undone"));
    }
    ctx.state.follow_routines();
    Ok(Reply::Ok)
}
