//! Commands on hashes.

use super::arguments::{cursor, integer, is};
use super::context::Context;
use super::key::{ScanOptions, scan_reply};
use super::spec::{Flags, Group, Keys, Run, Spec, Use};
use crate::ds::extended::Extended;
use crate::error::{Error, Result};
use crate::keyspace::EventClass;
use crate::reply::Reply;
use crate::value::Hash;

#[allow(clippy::too_many_arguments)] // a table's row
const fn row(
    name: &'static str,
    run: Run,
    arity: i32,
    flags: Flags,
    keys: Keys,
    since: &'static str,
    usage: &'static str,
    summary: &'static str,
) -> Spec {
    Spec::row(Group::Hash, name, run, arity, flags, keys, since, "O(1)", usage, summary)
}

const fn whole(spec: Spec) -> Spec {
    Spec { complexity: "O(N) where N is the size of the hash", ..spec }
}

const READ: Flags = Flags::READONLY.union(Flags::FAST);
const WRITE: Flags = Flags::WRITE.union(Flags::FAST);
const GROW: Flags = WRITE.union(Flags::DENYOOM);

pub(super) const COMMANDS: &[Spec] = &[
    row(
        "hset",
        hset,
        -4,
        GROW,
        Keys::one(Use::CHANGE),
        "2.0.0",
        "key field value [field value ...]",
        "Sets fields of a hash.",
    ),
    row("hsetnx", hsetnx, 4, GROW, Keys::one(Use::GROW), "2.0.0", "key field value", "Sets a field unless it exists."),
    row(
        "hmset",
        hmset,
        -4,
        GROW,
        Keys::one(Use::CHANGE),
        "2.0.0",
        "key field value [field value ...]",
        "Sets fields of a hash (old form of HSET).",
    ),
    row("hget", hget, 3, READ, Keys::one(Use::READ), "2.0.0", "key field", "Gets the value of a field."),
    row(
        "hmget",
        hmget,
        -3,
        READ,
        Keys::one(Use::READ),
        "2.0.0",
        "key field [field ...]",
        "Gets the values of several fields.",
    ),
    row("hdel", hdel, -3, WRITE, Keys::one(Use::SHRINK), "2.0.0", "key field [field ...]", "Removes fields."),
    row("hlen", hlen, 2, READ, Keys::one(Use::LOOK), "2.0.0", "key", "Counts the fields."),
    row(
        "hstrlen",
        hstrlen,
        3,
        READ,
        Keys::one(Use::LOOK),
        "3.2.0",
        "key field",
        "Tells the length of a field's value, bytes.",
    ),
    row("hexists", hexists, 3, READ, Keys::one(Use::LOOK), "2.0.0", "key field", "Tells whether a field exists."),
    row(
        "hincrby",
        hincrby,
        4,
        GROW,
        Keys::one(Use::READ_CHANGE),
        "2.0.0",
        "key field increment",
        "Adds to an integer in a field.",
    ),
    row(
        "hincrbyfloat",
        hincrbyfloat,
        4,
        GROW,
        Keys::one(Use::READ_CHANGE),
        "2.6.0",
        "key field increment",
        "Adds to a floating-point number in a field.",
    ),
    whole(row(
        "hgetall",
        hgetall,
        2,
        Flags::READONLY,
        Keys::one(Use::READ),
        "2.0.0",
        "key",
        "Gets all fields and values.",
    )),
    whole(row("hkeys", hkeys, 2, Flags::READONLY, Keys::one(Use::READ), "2.0.0", "key", "Gets all fields.")),
    whole(row("hvals", hvals, 2, Flags::READONLY, Keys::one(Use::READ), "2.0.0", "key", "Gets all values.")),
    row(
        "hrandfield",
        hrandfield,
        -2,
        Flags::READONLY,
        Keys::one(Use::READ),
        "6.2.0",
        "key [count [WITHVALUES]]",
        "Picks fields at random.",
    ),
    row(
        "hscan",
        hscan,
        -3,
        Flags::READONLY,
        Keys::one(Use::READ),
        "2.8.0",
        "key cursor [MATCH pattern] [COUNT count]",
        "Lists the fields a part at a time.",
    ),
];

fn set(ctx: &mut Context<'_>, args: &[&[u8]], command: &str) -> Result<usize> {
    if !args.len().is_multiple_of(2) {
        return Err(super::dispatch::wrong_arity(command));
    }
    let mut keys = ctx.keys();
    let new = keys.edit_or_create(args[1], |hash: &mut Hash, edit| hash.set(&args[2..], edit))?;
    keys.notify(EventClass::HASH, "hset", args[1]);
    Ok(new)
}

fn hset(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::Int(set(ctx, args, "hset")? as i64))
}

fn hmset(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    set(ctx, args, "hmset")?;
    Ok(Reply::Ok)
}

fn hsetnx(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    if ctx.keys().own_value::<Hash>(args[1])?.is_some_and(|hash| hash.contains(args[2])) {
        return Ok(Reply::Int(0));
    }
    set(ctx, args, "hsetnx")?;
    Ok(Reply::Int(1))
}

fn hget(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    Ok(Reply::bulk_or_nil(keys.get::<Hash>(args[1])?.and_then(|hash| hash.get(args[2]))))
}

fn hmget(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    let hash = keys.get::<Hash>(args[1])?;
    let value = |field: &&[u8]| Reply::bulk_or_nil(hash.and_then(|hash| hash.get(field)));
    Ok(Reply::Array(args[2..].iter().map(value).collect()))
}

fn hdel(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    let removed = keys.edit(args[1], |hash: &mut Hash, edit| hash.remove(&args[2..], edit))?.unwrap_or(0);
    if removed > 0 {
        keys.settle(EventClass::HASH, "hdel", args[1]);
    }
    Ok(Reply::Int(removed as i64))
}

fn hlen(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::Int(ctx.keys().get::<Hash>(args[1])?.map_or(0, Hash::len) as i64))
}

fn hstrlen(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    let value = keys.get::<Hash>(args[1])?.and_then(|hash| hash.get(args[2]));
    Ok(Reply::Int(value.map_or(0, |value| value.len() as i64)))
}

fn hexists(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    Ok(Reply::Int(keys.get::<Hash>(args[1])?.is_some_and(|hash| hash.contains(args[2])) as i64))
}

fn hincrby(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let by = integer(args[3])?;
    let mut keys = ctx.keys();
    let sum = keys.edit_or_create(args[1], |hash: &mut Hash, edit| hash.increment(args[2], by, edit))??;
    keys.notify(EventClass::HASH, "hincrby", args[1]);
    Ok(Reply::Int(sum))
}

fn hincrbyfloat(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let by = Extended::parse(args[3]).ok_or_else(Error::not_a_float)?;
    if by.is_infinite() {
        return Err(Error::err("value is NaN or Infinity"));
    }
    let mut keys = ctx.keys();
    let sum = keys.edit_or_create(args[1], |hash: &mut Hash, edit| hash.increment_by_float(args[2], by, edit))??;
    keys.notify(EventClass::HASH, "hincrbyfloat", args[1]);
    Ok(Reply::Bulk(sum))
}

fn hgetall(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    let hash = keys.get::<Hash>(args[1])?;
    let pairs = hash.into_iter().flat_map(Hash::iter).map(|(field, value)| (Reply::bulk(field), Reply::bulk(value)));
    Ok(Reply::Map(pairs.collect()))
}

fn hkeys(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    Ok(Reply::bulks(keys.get::<Hash>(args[1])?.into_iter().flat_map(Hash::iter).map(|(field, _)| field)))
}

fn hvals(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    Ok(Reply::bulks(keys.get::<Hash>(args[1])?.into_iter().flat_map(Hash::iter).map(|(_, value)| value)))
}

fn hrandfield(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut random = ctx.random();
    let mut keys = ctx.keys();
    let [_, key, rest @ ..] = args else { return Err(Error::syntax()) };
    let Some(count) = rest.first() else {
        let field = keys.get::<Hash>(key)?.and_then(|hash| hash.random(&mut random));
        return Ok(Reply::bulk_or_nil(field.map(|(field, _)| field)));
    };
    let count = super::arguments::sample_count(count)?;
    let with_values = match &rest[1..] {
        [] => false,
        [option] if is(option, "WITHVALUES") => {
            super::arguments::check_pair_count(count)?;
            true
        }
        _ => return Err(Error::syntax()),
    };
    let Some(hash) = keys.get::<Hash>(key)? else { return Ok(Reply::Array(Vec::new())) };
    let picked: Vec<(&[u8], &[u8])> = if count >= 0 {
        hash.sample(count as usize, &mut random)
    } else {
        (0..count.unsigned_abs()).filter_map(|_| hash.random(&mut random)).collect()
    };
    Ok(if with_values {
        Reply::Pairs(picked.into_iter().map(|(field, value)| (Reply::bulk(field), Reply::bulk(value))).collect())
    } else {
        Reply::bulks(picked.into_iter().map(|(field, _)| field))
    })
}

fn hscan(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    cursor(args[2])?;
    let mut keys = ctx.keys();
    // Without key nobody looks at the options (Redis 7).
    let Some(hash) = keys.get::<Hash>(args[1])? else { return Ok(scan_reply(0, Vec::new())) };
    let options = ScanOptions::parse(&args[2..], false)?;
    let mut found = Vec::new();
    let next = hash.scan(options.cursor, options.count, |field, value| {
        if options.matches(field) {
            found.extend([Reply::bulk(field), Reply::bulk(value)]);
        }
    });
    Ok(scan_reply(next, found))
}
