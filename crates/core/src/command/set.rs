//! Commands on sets.

use super::arguments::{cursor, positive_or};
use super::context::Context;
use super::key::{ScanOptions, scan_reply};
use super::spec::{Flags, Group, Keys, Run, Spec, Use};
use crate::error::{Error, Result};
use crate::keyspace::EventClass;
use crate::reply::Reply;
use crate::value::set_algebra;
use crate::value::{Set, Thresholds, Value};

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
    Spec::row(Group::Set, name, run, arity, flags, keys, since, "O(1)", usage, summary)
}

const fn algebra(spec: Spec) -> Spec {
    Spec { complexity: "O(N) where N is the number of members in all sets", ..spec }
}

const READ: Flags = Flags::READONLY;
const WRITE: Flags = Flags::WRITE;
const GROW: Flags = WRITE.union(Flags::DENYOOM);
const FAST: Flags = Flags::FAST;

pub(super) const COMMANDS: &[Spec] = &[
    row(
        "sadd",
        sadd,
        -3,
        GROW.union(FAST),
        Keys::one(Use::GROW),
        "1.0.0",
        "key member [member ...]",
        "Adds members to a set.",
    ),
    row(
        "srem",
        srem,
        -3,
        WRITE.union(FAST),
        Keys::one(Use::SHRINK),
        "1.0.0",
        "key member [member ...]",
        "Removes members.",
    ),
    row("scard", scard, 2, READ.union(FAST), Keys::one(Use::LOOK), "1.0.0", "key", "Counts the members."),
    row(
        "sismember",
        sismember,
        3,
        READ.union(FAST),
        Keys::one(Use::LOOK),
        "1.0.0",
        "key member",
        "Tells whether a member is there.",
    ),
    row(
        "smismember",
        smismember,
        -3,
        READ.union(FAST),
        Keys::one(Use::READ),
        "6.2.0",
        "key member [member ...]",
        "Tells of several members whether they are there.",
    ),
    algebra(row("smembers", smembers, 2, READ, Keys::one(Use::READ), "1.0.0", "key", "Gets all members.")),
    row(
        "smove",
        smove,
        4,
        WRITE.union(FAST),
        Keys::two(Use::TAKE, Use::GROW),
        "1.0.0",
        "source destination member",
        "Moves a member to another set.",
    ),
    row("spop", spop, -2, WRITE.union(FAST), Keys::one(Use::TAKE), "1.0.0", "key [count]", "Takes members at random."),
    row("srandmember", srandmember, -2, READ, Keys::one(Use::READ), "1.0.0", "key [count]", "Picks members at random."),
    row(
        "sscan",
        sscan,
        -3,
        READ,
        Keys::one(Use::READ),
        "2.8.0",
        "key cursor [MATCH pattern] [COUNT count]",
        "Lists the members a part at a time.",
    ),
    algebra(row(
        "sinter",
        sinter,
        -2,
        READ,
        Keys::all(Use::READ),
        "1.0.0",
        "key [key ...]",
        "Gets the members common to all sets.",
    )),
    algebra(row(
        "sunion",
        sunion,
        -2,
        READ,
        Keys::all(Use::READ),
        "1.0.0",
        "key [key ...]",
        "Gets the members of any set.",
    )),
    algebra(row(
        "sdiff",
        sdiff,
        -2,
        READ,
        Keys::all(Use::READ),
        "1.0.0",
        "key [key ...]",
        "Gets the members of the first set that no other has.",
    )),
    algebra(row(
        "sinterstore",
        sinterstore,
        -3,
        GROW,
        Keys::one(Use::CHANGE).and_rest(Use::READ, 2),
        "1.0.0",
        "destination key [key ...]",
        "Stores the members common to all sets.",
    )),
    algebra(row(
        "sunionstore",
        sunionstore,
        -3,
        GROW,
        Keys::one(Use::REPLACE).and_rest(Use::READ, 2),
        "1.0.0",
        "destination key [key ...]",
        "Stores the members of any set.",
    )),
    algebra(row(
        "sdiffstore",
        sdiffstore,
        -3,
        GROW,
        Keys::one(Use::REPLACE).and_rest(Use::READ, 2),
        "1.0.0",
        "destination key [key ...]",
        "Stores the members of the first set that no other has.",
    )),
    algebra(row(
        "sintercard",
        sintercard,
        -3,
        READ,
        Keys::counted(Use::READ, 1),
        "7.0.0",
        "numkeys key [key ...] [LIMIT limit]",
        "Counts the members common to all sets.",
    )),
];

fn sadd(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    let added = keys.edit_or_create(args[1], |set: &mut Set, edit| set.add(&args[2..], edit))?;
    if added > 0 {
        keys.notify(EventClass::SET, "sadd", args[1]);
    }
    Ok(Reply::Int(added as i64))
}

fn srem(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    let removed = keys.edit(args[1], |set: &mut Set, edit| set.remove(&args[2..], edit))?.unwrap_or(0);
    if removed > 0 {
        keys.settle(EventClass::SET, "srem", args[1]);
    }
    Ok(Reply::Int(removed as i64))
}

fn scard(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::Int(ctx.keys().get::<Set>(args[1])?.map_or(0, Set::len) as i64))
}

fn sismember(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    Ok(Reply::Int(keys.get::<Set>(args[1])?.is_some_and(|set| set.contains(args[2])) as i64))
}

fn smismember(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    let set = keys.get::<Set>(args[1])?;
    let has = |member: &&[u8]| Reply::Int(set.is_some_and(|set| set.contains(member)) as i64);
    Ok(Reply::Array(args[2..].iter().map(has).collect()))
}

fn members(set: &Set) -> Reply {
    Reply::Set(set.iter().map(Reply::bulk).collect())
}

fn smembers(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    Ok(keys.get::<Set>(args[1])?.map_or(Reply::Set(Vec::new()), members))
}

fn smove(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let (source, destination, member) = (args[1], args[2], args[3]);
    let mut keys = ctx.keys();
    let Some(set) = keys.own_value::<Set>(source)? else { return Ok(Reply::Int(0)) };
    let has = set.contains(member);
    keys.own_value::<Set>(destination)?;
    if source == destination {
        return Ok(Reply::Int(has as i64));
    }
    if !has {
        return Ok(Reply::Int(0));
    }
    keys.edit(source, |set: &mut Set, edit| set.remove_one(member, edit))?;
    keys.settle(EventClass::SET, "srem", source);
    if keys.edit_or_create(destination, |set: &mut Set, edit| set.add_one(member, edit))? {
        keys.notify(EventClass::SET, "sadd", destination);
    }
    Ok(Reply::Int(1))
}

fn spop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut random = ctx.random();
    let mut keys = ctx.keys();
    let [_, key, rest @ ..] = args else { return Err(Error::syntax()) };
    let count = match rest {
        [] => None,
        [count] => Some(count_from(count)?),
        _ => return Err(Error::syntax()),
    };
    let popped = keys.edit(key, |set: &mut Set, edit| set.pop_many(count.unwrap_or(1), &mut random, edit))?;
    let popped = popped.unwrap_or_default();
    if !popped.is_empty() {
        keys.settle(EventClass::SET, "spop", key);
    }
    let mut popped = popped.into_iter().map(Reply::Bulk);
    Ok(if count.is_some() { Reply::Set(popped.collect()) } else { popped.next().unwrap_or(Reply::Nil) })
}

/// A count of elements to take.
fn count_from(arg: &[u8]) -> Result<usize> {
    let text = "value is out of range, must be positive";
    usize::try_from(super::arguments::integer_or(arg, text)?).map_err(|_| Error::err(text))
}

fn srandmember(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut random = ctx.random();
    let mut keys = ctx.keys();
    let [_, key, rest @ ..] = args else { return Err(Error::syntax()) };
    let count = match rest {
        [] => return Ok(Reply::bulk_or_nil(keys.get::<Set>(key)?.and_then(|set| set.random(&mut random)))),
        [count] => super::arguments::sample_count(count)?,
        _ => return Err(Error::syntax()),
    };
    let Some(set) = keys.get::<Set>(key)? else { return Ok(Reply::Array(Vec::new())) };
    Ok(if count >= 0 {
        Reply::bulks(set.sample(count as usize, &mut random))
    } else {
        Reply::bulks((0..count.unsigned_abs()).filter_map(|_| set.random(&mut random)))
    })
}

fn sscan(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    cursor(args[2])?;
    let mut keys = ctx.keys();
    // Without key nobody looks at the options (Redis 7).
    let Some(set) = keys.get::<Set>(args[1])? else { return Ok(scan_reply(0, Vec::new())) };
    let options = ScanOptions::parse(&args[2..], false)?;
    let mut found = Vec::new();
    let next = set.scan(options.cursor, options.count, |member| {
        if options.matches(member) {
            found.push(Reply::bulk(member));
        }
    });
    Ok(scan_reply(next, found))
}

/// What combines sets into one.
type Combine = fn(&[Option<&Set>], &Thresholds) -> Set;

fn combined(ctx: &mut Context<'_>, sources: &[&[u8]], combine: Combine) -> Result<Set> {
    let thresholds = ctx.state.keyspace.shared.thresholds.clone();
    let mut keys = ctx.keys();
    Ok(combine(&keys.get_many::<Set>(sources)?, &thresholds))
}

fn sinter(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    let mut found = Vec::new();
    set_algebra::intersection(&keys.get_many::<Set>(&args[1..])?, |member| {
        found.push(Reply::bulk(member));
        true
    });
    Ok(Reply::Set(found))
}

fn sunion(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    Ok(members(&combined(ctx, &args[1..], set_algebra::union)?))
}

fn sdiff(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    Ok(members(&combined(ctx, &args[1..], set_algebra::difference)?))
}

fn store(ctx: &mut Context<'_>, args: &[&[u8]], combine: Combine, event: &'static str) -> Result<Reply> {
    let set = combined(ctx, &args[2..], combine)?;
    let size = set.len();
    let mut keys = ctx.keys();
    if size > 0 {
        keys.put(args[1], Value::Set(Box::new(set)), None);
        keys.notify(EventClass::SET, event, args[1]);
    } else if keys.remove(args[1]) {
        keys.notify(EventClass::GENERIC, "del", args[1]);
    }
    Ok(Reply::Int(size as i64))
}

fn sinterstore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    store(ctx, args, set_algebra::intersected, "sinterstore")
}

fn sunionstore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    store(ctx, args, set_algebra::union, "sunionstore")
}

fn sdiffstore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    store(ctx, args, set_algebra::difference, "sdiffstore")
}

fn sintercard(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let numkeys = positive_or(args[1], "numkeys should be greater than 0")?;
    let sources =
        args.get(2..2 + numkeys).ok_or_else(|| Error::err("Number of keys can't be greater than number of args"))?;
    let limit = super::arguments::cardinality_limit(&args[2 + numkeys..])?;
    let mut keys = ctx.keys();
    Ok(Reply::Int(set_algebra::intersection_count(&keys.get_many::<Set>(sources)?, limit) as i64))
}
