//! Commands on strings.

use super::arguments::{integer, is};
use super::context::Context;
use super::expiry::Unit;
use super::spec::{Find, Flags, Group, Keys, Run, Spec, Use};
use crate::ds::extended::Extended;
use crate::ds::number;
use crate::error::{Error, Result};
use crate::keyspace::EventClass;
use crate::keyspace::keys::Expiry;
use crate::limits::STRING_BYTES_MAX;
use crate::reply::{Blob, Reply};
use crate::value::{Str, lcs, string};
use std::ops::Range;

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
    Spec::row(Group::String, name, run, arity, flags, keys, since, "O(1)", usage, summary)
}

const fn costs(complexity: &'static str, spec: Spec) -> Spec {
    Spec { complexity, ..spec }
}

const READ: Flags = Flags::READONLY.union(Flags::FAST);
const READ_SLOW: Flags = Flags::READONLY;
const WRITE: Flags = Flags::WRITE.union(Flags::DENYOOM);
const WRITE_FAST: Flags = WRITE.union(Flags::FAST);

/// SET reads the old value only to give it.
fn set_use(args: &[&[u8]]) -> Use {
    if args.iter().skip(3).any(|arg| is(arg, "GET")) { Use::READ_CHANGE } else { Use::REPLACE }
}

pub(super) const COMMANDS: &[Spec] = &[
    row("get", get, 2, READ, Keys::one(Use::READ), "1.0.0", "key", "Gets the value of a string."),
    row(
        "set",
        set,
        -3,
        WRITE,
        Keys::one(Use::READ_CHANGE).depending(set_use),
        "1.0.0",
        "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds \
         | KEEPTTL]",
        "Sets the value of a key, whatever it held, and its time to live.",
    ),
    row(
        "setnx",
        setnx,
        3,
        WRITE_FAST,
        Keys::one(Use::CREATE),
        "1.0.0",
        "key value",
        "Sets a string if the key does not exist.",
    ),
    row(
        "setex",
        setex,
        4,
        WRITE,
        Keys::one(Use::REPLACE),
        "2.0.0",
        "key seconds value",
        "Sets a string and its time to live.",
    ),
    row(
        "psetex",
        psetex,
        4,
        WRITE,
        Keys::one(Use::REPLACE),
        "2.6.0",
        "key milliseconds value",
        "Sets a string and its time to live.",
    ),
    row(
        "getset",
        getset,
        3,
        WRITE_FAST,
        Keys::one(Use::READ_CHANGE),
        "1.0.0",
        "key value",
        "Sets a string and gives its old value.",
    ),
    row(
        "getdel",
        getdel,
        2,
        Flags::WRITE.union(Flags::FAST),
        Keys::one(Use::TAKE),
        "6.2.0",
        "key",
        "Gets a string and removes it.",
    ),
    row(
        "getex",
        getex,
        -2,
        Flags::WRITE.union(Flags::FAST),
        Keys::one(Use::READ_CHANGE),
        "6.2.0",
        "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]",
        "Gets a string and sets its time to live.",
    ),
    row("strlen", strlen, 2, READ, Keys::one(Use::LOOK), "2.2.0", "key", "Tells the length of a string, bytes."),
    row(
        "append",
        append,
        3,
        WRITE_FAST,
        Keys::one(Use::GROW),
        "2.0.0",
        "key value",
        "Adds bytes to the end of a string.",
    ),
    costs(
        "O(N) where N is the length of the part",
        row(
            "getrange",
            getrange,
            4,
            READ_SLOW,
            Keys::one(Use::READ),
            "2.4.0",
            "key start end",
            "Gets a part of a string.",
        ),
    ),
    costs(
        "O(N) where N is the length of the part",
        row(
            "substr",
            getrange,
            4,
            READ_SLOW,
            Keys::one(Use::READ),
            "1.0.0",
            "key start end",
            "Gets a part of a string (old name of GETRANGE).",
        ),
    ),
    row(
        "setrange",
        setrange,
        4,
        WRITE,
        Keys::one(Use::CHANGE),
        "2.2.0",
        "key offset value",
        "Overwrites a part of a string.",
    ),
    row("incr", incr, 2, WRITE_FAST, Keys::one(Use::READ_CHANGE), "1.0.0", "key", "Adds one to an integer."),
    row("decr", decr, 2, WRITE_FAST, Keys::one(Use::READ_CHANGE), "1.0.0", "key", "Takes one from an integer."),
    row("incrby", incrby, 3, WRITE_FAST, Keys::one(Use::READ_CHANGE), "1.0.0", "key increment", "Adds to an integer."),
    row(
        "decrby",
        decrby,
        3,
        WRITE_FAST,
        Keys::one(Use::READ_CHANGE),
        "1.0.0",
        "key decrement",
        "Takes from an integer.",
    ),
    row(
        "incrbyfloat",
        incrbyfloat,
        3,
        WRITE_FAST,
        Keys::one(Use::READ_CHANGE),
        "2.6.0",
        "key increment",
        "Adds to a floating-point number.",
    ),
    costs(
        "O(N) where N is the number of keys",
        row(
            "mget",
            mget,
            -2,
            READ,
            Keys::all(Use::READ),
            "1.0.0",
            "key [key ...]",
            "Gets the values of several strings.",
        ),
    ),
    costs(
        "O(N) where N is the number of keys",
        row(
            "mset",
            mset,
            -3,
            WRITE,
            Keys::pairs(Use::REPLACE),
            "1.0.1",
            "key value [key value ...]",
            "Sets several strings.",
        ),
    ),
    costs(
        "O(N) where N is the number of keys",
        row(
            "msetnx",
            msetnx,
            -3,
            WRITE,
            Keys::pairs(Use::CREATE),
            "1.0.1",
            "key value [key value ...]",
            "Sets several strings if none of the keys exists.",
        ),
    ),
    costs(
        "O(N*M) where N and M are the lengths of the strings",
        row(
            "lcs",
            lcs_command,
            -3,
            READ_SLOW,
            Keys::None.and(Use::READ, 1, Find::Range { last: 1, step: 1 }),
            "7.0.0",
            "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]",
            "Finds the longest common subsequence of two strings.",
        ),
    ),
];

fn get(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    Ok(ctx.keys().string(args[1])?.map_or(Reply::Nil, Reply::bulk))
}

/// The options of SET.
#[derive(Default)]
struct SetOptions<'a> {
    if_missing: bool,
    if_present: bool,
    get: bool,
    keep_ttl: bool,
    expire: Option<(Unit, &'a [u8])>,
}

impl<'a> SetOptions<'a> {
    fn parse(args: &[&'a [u8]]) -> Result<Self> {
        let mut options = SetOptions::default();
        let mut rest = args;
        while let Some((option, after)) = rest.split_first() {
            rest = after;
            if is(option, "NX") && !options.if_present {
                options.if_missing = true;
            } else if is(option, "XX") && !options.if_missing {
                options.if_present = true;
            } else if is(option, "GET") {
                options.get = true;
            } else if is(option, "KEEPTTL") && options.expire.is_none() {
                options.keep_ttl = true;
            } else {
                let unit = Unit::from_option(option).filter(|_| !options.keep_ttl && options.expire.is_none());
                let (value, after) = rest.split_first().ok_or_else(Error::syntax)?;
                options.expire = Some((unit.ok_or_else(Error::syntax)?, value));
                rest = after;
            }
        }
        Ok(options)
    }
}

fn set(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    if args.len() == 3 {
        ctx.keys().set_string(args[1], args[2], Expiry::Clear);
        ctx.keys().notify(EventClass::STRING, "set", args[1]);
        return Ok(Reply::Ok);
    }
    let options = SetOptions::parse(&args[3..])?;
    let now_ms = ctx.state.clock.now_ms;
    let expire = options.expire.map(|(unit, arg)| unit.positive_deadline(arg, now_ms, "set")).transpose()?;
    let mut keys = ctx.keys();
    let old = if options.get { Some(keys.string(args[1])?.map_or(Reply::Nil, Reply::bulk)) } else { None };
    let exists = keys.owns(args[1]);
    if (options.if_missing && exists) || (options.if_present && !exists) {
        return Ok(old.unwrap_or(Reply::Nil));
    }
    let expiry = match expire {
        Some(deadline) => Expiry::At(deadline),
        None if options.keep_ttl => Expiry::Keep,
        None => Expiry::Clear,
    };
    keys.set_string(args[1], args[2], expiry);
    keys.notify(EventClass::STRING, "set", args[1]);
    if expire.is_some() {
        keys.notify(EventClass::GENERIC, "expire", args[1]);
    }
    Ok(old.unwrap_or(Reply::Ok))
}

fn setnx(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    if keys.owns(args[1]) {
        return Ok(Reply::Int(0));
    }
    keys.set_string(args[1], args[2], Expiry::Clear);
    keys.notify(EventClass::STRING, "set", args[1]);
    Ok(Reply::Int(1))
}

fn set_with_expire(ctx: &mut Context<'_>, args: &[&[u8]], seconds: bool, command: &str) -> Result<Reply> {
    let unit = Unit { seconds, absolute: false };
    let deadline = unit.positive_deadline(args[2], ctx.state.clock.now_ms, command)?;
    let mut keys = ctx.keys();
    keys.set_string(args[1], args[3], Expiry::At(deadline));
    keys.notify(EventClass::STRING, "set", args[1]);
    keys.notify(EventClass::GENERIC, "expire", args[1]);
    Ok(Reply::Ok)
}

fn setex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    set_with_expire(ctx, args, true, "setex")
}

fn psetex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    set_with_expire(ctx, args, false, "psetex")
}

fn getset(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    let old = keys.string(args[1])?.map_or(Reply::Nil, Reply::bulk);
    keys.set_string(args[1], args[2], Expiry::Clear);
    keys.notify(EventClass::STRING, "set", args[1]);
    Ok(old)
}

fn getdel(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    let Some(old) = keys.string(args[1])?.map(Reply::bulk) else { return Ok(Reply::Nil) };
    keys.remove(args[1]);
    keys.notify(EventClass::GENERIC, "del", args[1]);
    Ok(old)
}

fn getex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let now_ms = ctx.state.clock.now_ms;
    // None: leave the deadline alone. Some(None): remove it.
    let change = match &args[2..] {
        [] => None,
        [option] if is(option, "PERSIST") => Some(None),
        [option, value] => {
            let unit = Unit::from_option(option).ok_or_else(Error::syntax)?;
            Some(Some((unit, *value)))
        }
        _ => return Err(Error::syntax()),
    };
    let mut keys = ctx.keys();
    let Some(value) = keys.string(args[1])?.map(Reply::bulk) else { return Ok(Reply::Nil) };
    match change {
        Some(None) if keys.set_expire(args[1], None) => keys.notify(EventClass::GENERIC, "persist", args[1]),
        None | Some(None) => {}
        Some(Some((unit, arg))) => {
            let deadline = unit.positive_deadline(arg, now_ms, "getex")?;
            super::expire::set_or_remove(&mut keys, args[1], deadline);
        }
    }
    Ok(value)
}

fn strlen(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::Int(ctx.keys().string(args[1])?.map_or(0, |bytes| bytes.len() as i64)))
}

fn append(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    let length = match keys.own_string(args[1])? {
        None => {
            keys.set_string(args[1], args[2], Expiry::Clear);
            args[2].len()
        }
        Some(_) => keys.edit(args[1], |string: &mut Str, edit| string.append(args[2], edit))?.unwrap_or(Ok(0))?,
    };
    keys.notify(EventClass::STRING, "append", args[1]);
    Ok(Reply::Int(length as i64))
}

fn getrange(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let (start, end) = (integer(args[2])?, integer(args[3])?);
    let mut keys = ctx.keys();
    let bytes = keys.string(args[1])?;
    Ok(Reply::bulk(bytes.as_deref().map_or(&b""[..], |bytes| string::substring(bytes, start, end))))
}

fn setrange(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let offset = usize::try_from(integer(args[2])?).map_err(|_| Error::err("offset is out of range"))?;
    let bytes = args[3];
    let mut keys = ctx.keys();
    let length = keys.own_string(args[1])?.map_or(0, |bytes| bytes.len());
    if bytes.is_empty() {
        return Ok(Reply::Int(length as i64));
    }
    // Checked before a missing key is created for nothing.
    if offset.checked_add(bytes.len()).is_none_or(|end| end > STRING_BYTES_MAX) {
        return Err(Error::err("string exceeds maximum allowed size (proto-max-bulk-len)"));
    }
    let length = keys.edit_or_create(args[1], |string: &mut Str, edit| string.set_range(offset, bytes, edit))??;
    keys.notify(EventClass::STRING, "setrange", args[1]);
    Ok(Reply::Int(length as i64))
}

fn add(ctx: &mut Context<'_>, key: &[u8], by: i64) -> Result<Reply> {
    let mut keys = ctx.keys();
    let sum = string::incremented(keys.own_string(key)?.as_deref().unwrap_or(b"0"), by)?;
    keys.set_string(key, &number::i64_text(sum), Expiry::Keep);
    keys.notify(EventClass::STRING, "incrby", key);
    Ok(Reply::Int(sum))
}

fn incr(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    add(ctx, args[1], 1)
}

fn decr(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    add(ctx, args[1], -1)
}

fn incrby(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    add(ctx, args[1], integer(args[2])?)
}

fn decrby(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let by = integer(args[2])?.checked_neg().ok_or_else(|| Error::err("decrement would overflow"))?;
    add(ctx, args[1], by)
}

fn incrbyfloat(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    let old = keys.own_string(args[1])?;
    let old = old.as_deref().unwrap_or(b"0");
    // Redis reads the stored value first, so its error goes first too.
    Extended::parse(old).ok_or_else(Error::not_a_float)?;
    let by = Extended::parse(args[2]).ok_or_else(Error::not_a_float)?;
    let text = string::incremented_by_float(old, by)?;
    keys.set_text(args[1], &text, Expiry::Keep);
    keys.notify(EventClass::STRING, "incrbyfloat", args[1]);
    Ok(Reply::bulk(text))
}

fn mget(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    // A key of another type reads as missing (Redis 7).
    let value = |key: &&[u8]| keys.string(key).ok().flatten().map_or(Reply::Nil, Reply::bulk);
    Ok(Reply::Array(args[1..].iter().map(value).collect()))
}

fn check_pairs(args: &[&[u8]], command: &str) -> Result<()> {
    if args.len().is_multiple_of(2) { Err(super::dispatch::wrong_arity(command)) } else { Ok(()) }
}

fn set_pairs(ctx: &mut Context<'_>, args: &[&[u8]]) {
    let mut keys = ctx.keys();
    for pair in args[1..].chunks(2) {
        keys.set_string(pair[0], pair[1], Expiry::Clear);
        keys.notify(EventClass::STRING, "set", pair[0]);
    }
}

fn mset(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    check_pairs(args, "mset")?;
    set_pairs(ctx, args);
    Ok(Reply::Ok)
}

fn msetnx(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    check_pairs(args, "msetnx")?;
    let mut keys = ctx.keys();
    if args[1..].chunks(2).any(|pair| keys.owns(pair[0])) {
        return Ok(Reply::Int(0));
    }
    set_pairs(ctx, args);
    Ok(Reply::Int(1))
}

/// The options of LCS.
#[derive(Default)]
struct LcsOptions {
    length_only: bool,
    positions: bool,
    with_length: bool,
    shortest: usize,
}

impl LcsOptions {
    fn parse(args: &[&[u8]]) -> Result<Self> {
        let mut options = LcsOptions::default();
        let mut rest = args;
        while let Some((option, after)) = rest.split_first() {
            rest = after;
            match option {
                o if is(o, "LEN") => options.length_only = true,
                o if is(o, "IDX") => options.positions = true,
                o if is(o, "WITHMATCHLEN") => options.with_length = true,
                o if is(o, "MINMATCHLEN") && !rest.is_empty() => {
                    options.shortest = integer(rest[0])?.max(0) as usize;
                    rest = &rest[1..];
                }
                _ => return Err(Error::syntax()),
            }
        }
        if options.positions && options.length_only {
            return Err(Error::err("If you want both the length and indexes, please just use IDX."));
        }
        Ok(options)
    }
}

fn lcs_command(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    let not_strings = |_| Error::err("The specified keys must contain string values");
    let mut content = |key| -> Result<Blob> {
        let bytes = keys.string(key).map_err(not_strings)?;
        Ok(bytes.map_or(Blob::new(), |bytes| Blob::from_slice(&bytes)))
    };
    // Redis complains of a key's type before it complains of options.
    let (a, b) = (content(args[1])?, content(args[2])?);
    let options = LcsOptions::parse(&args[3..])?;
    if options.length_only {
        return Ok(Reply::Int(lcs::length(&a, &b)? as i64));
    }
    let found = lcs::compare(&a, &b)?;
    if !options.positions {
        return Ok(Reply::bulk(found.common));
    }
    Ok(lcs_matches(&found, options.shortest, options.with_length))
}

fn lcs_matches(found: &lcs::Lcs, shortest: usize, with_length: bool) -> Reply {
    let range = |r: &Range<usize>| Reply::Array(vec![Reply::Int(r.start as i64), Reply::Int(r.end as i64 - 1)]);
    let matches = found.matches.iter().filter(|m| m.a.len() >= shortest).map(|m| {
        let mut parts = vec![range(&m.a), range(&m.b)];
        if with_length {
            parts.push(Reply::Int(m.a.len() as i64));
        }
        Reply::Array(parts)
    });
    let matches = Reply::Array(matches.collect());
    Reply::Map(vec![(Reply::bulk("matches"), matches), (Reply::bulk("len"), Reply::Int(found.common.len() as i64))])
}
