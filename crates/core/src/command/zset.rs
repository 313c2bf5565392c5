//! Commands on single sorted sets, waiting ones included.

use super::arguments::{cursor, float, is, pop_count, positive_or, timeout};
use super::context::Context;
use super::key::{ScanOptions, scan_reply};
use super::spec::{Flags, Group, Keys, Run, Spec, Use};
use crate::ds::number::{self, NumberText};
use crate::error::{Error, Result};
use crate::keyspace::{self, EventClass};
use crate::reply::{Blob, Reply};
use crate::value::ZSet;
use crate::value::zset::{Added, Conditions};

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
    Spec::row(Group::SortedSet, name, run, arity, flags, keys, since, "O(log(N))", usage, summary)
}

const READ: Flags = Flags::READONLY;
const WRITE: Flags = Flags::WRITE;
const GROW: Flags = WRITE.union(Flags::DENYOOM);
const FAST: Flags = Flags::FAST;
const BLOCK: Flags = Flags::BLOCKING;
/// Scripts may not call the older waiting commands.
const BLOCK_OUTSIDE: Flags = BLOCK.union(Flags::NOSCRIPT);

pub(super) const COMMANDS: &[Spec] = &[
    row(
        "zadd",
        zadd,
        -4,
        GROW.union(FAST),
        Keys::one(Use::CHANGE),
        "1.2.0",
        "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
        "Gives members their scores.",
    ),
    row(
        "zincrby",
        zincrby,
        4,
        GROW.union(FAST),
        Keys::one(Use::READ_CHANGE),
        "1.2.0",
        "key increment member",
        "Adds to a member's score.",
    ),
    row(
        "zrem",
        zrem,
        -3,
        WRITE.union(FAST),
        Keys::one(Use::SHRINK),
        "1.2.0",
        "key member [member ...]",
        "Removes members.",
    ),
    row("zcard", zcard, 2, READ.union(FAST), Keys::one(Use::LOOK), "1.2.0", "key", "Counts the members."),
    row("zscore", zscore, 3, READ.union(FAST), Keys::one(Use::READ), "1.2.0", "key member", "Gets a member's score."),
    row(
        "zmscore",
        zmscore,
        -3,
        READ.union(FAST),
        Keys::one(Use::READ),
        "6.2.0",
        "key member [member ...]",
        "Gets the scores of several members.",
    ),
    row(
        "zrank",
        zrank,
        3,
        READ.union(FAST),
        Keys::one(Use::READ),
        "2.0.0",
        "key member",
        "Counts the members before this one.",
    ),
    row(
        "zrevrank",
        zrevrank,
        3,
        READ.union(FAST),
        Keys::one(Use::READ),
        "2.0.0",
        "key member",
        "Counts the members after this one.",
    ),
    row(
        "zpopmin",
        zpopmin,
        -2,
        WRITE.union(FAST),
        Keys::one(Use::TAKE),
        "5.0.0",
        "key [count]",
        "Takes the members with the lowest scores.",
    ),
    row(
        "zpopmax",
        zpopmax,
        -2,
        WRITE.union(FAST),
        Keys::one(Use::TAKE),
        "5.0.0",
        "key [count]",
        "Takes the members with the highest scores.",
    ),
    row(
        "zmpop",
        zmpop,
        -4,
        WRITE,
        Keys::counted(Use::TAKE, 1),
        "7.0.0",
        "numkeys key [key ...] MIN | MAX [COUNT count]",
        "Takes members from the first sorted set that has any.",
    ),
    row(
        "bzpopmin",
        bzpopmin,
        -3,
        WRITE.union(FAST).union(BLOCK_OUTSIDE),
        Keys::all_but_last(Use::TAKE),
        "5.0.0",
        "key [key ...] timeout",
        "ZPOPMIN that waits for a member.",
    ),
    row(
        "bzpopmax",
        bzpopmax,
        -3,
        WRITE.union(FAST).union(BLOCK_OUTSIDE),
        Keys::all_but_last(Use::TAKE),
        "5.0.0",
        "key [key ...] timeout",
        "ZPOPMAX that waits for a member.",
    ),
    row(
        "bzmpop",
        bzmpop,
        -5,
        WRITE.union(BLOCK),
        Keys::counted(Use::TAKE, 2),
        "7.0.0",
        "timeout numkeys key [key ...] MIN | MAX [COUNT count]",
        "ZMPOP that waits for a member.",
    ),
    row(
        "zrandmember",
        zrandmember,
        -2,
        READ,
        Keys::one(Use::READ),
        "6.2.0",
        "key [count [WITHSCORES]]",
        "Picks members at random.",
    ),
    row(
        "zscan",
        zscan,
        -3,
        READ,
        Keys::one(Use::READ),
        "2.8.0",
        "key cursor [MATCH pattern] [COUNT count]",
        "Lists the members a part at a time.",
    ),
];

/// The options of ZADD.
#[derive(Default)]
struct AddOptions {
    when: Conditions,
    count_changed: bool,
    increment: bool,
}

impl AddOptions {
    /// Reads options from the front; gives what follows.
    fn parse<'a, 'b>(mut args: &'b [&'a [u8]]) -> (AddOptions, &'b [&'a [u8]]) {
        let mut options = AddOptions::default();
        while let Some((word, rest)) = args.split_first() {
            match word {
                w if is(w, "NX") => options.when.new = true,
                w if is(w, "XX") => options.when.existing = true,
                w if is(w, "GT") => options.when.greater = true,
                w if is(w, "LT") => options.when.less = true,
                w if is(w, "CH") => options.count_changed = true,
                w if is(w, "INCR") => options.increment = true,
                _ => break,
            }
            args = rest;
        }
        (options, args)
    }

    fn check(&self, pairs: usize) -> Result<()> {
        let Conditions { new, existing, greater, less } = self.when;
        if new && existing {
            return Err(Error::err("XX and NX options at the same time are not compatible"));
        }
        if (new && (greater || less)) || (greater && less) {
            return Err(Error::err("GT, LT, and/or NX options at the same time are not compatible"));
        }
        if self.increment && pairs > 1 {
            return Err(Error::err("INCR option supports a single increment-element pair"));
        }
        Ok(())
    }
}

fn zadd(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let (options, pairs) = AddOptions::parse(&args[2..]);
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(Error::syntax());
    }
    options.check(pairs.len() / 2)?;
    let scores: Vec<f64> = pairs.iter().step_by(2).map(|score| float(score)).collect::<Result<_>>()?;
    if options.increment {
        return increment(ctx, args[1], pairs[1], scores[0], options.when);
    }
    let mut keys = ctx.keys();
    // With XX nothing is created, so a missing key stays missing.
    if options.when.existing && keys.own_value::<ZSet>(args[1])?.is_none() {
        return Ok(Reply::Int(0));
    }
    let (mut added, mut updated) = (0, 0);
    keys.edit_or_create(args[1], |zset: &mut ZSet, edit| {
        for (score, pair) in scores.iter().zip(pairs.chunks(2)) {
            match zset.add(pair[1], *score, options.when, edit) {
                Added::New(_) => added += 1,
                Added::Updated(_) => updated += 1,
                Added::Same(_) | Added::Refused => {}
            }
        }
    })?;
    if added + updated > 0 {
        keys.notify(EventClass::ZSET, "zadd", args[1]);
    }
    Ok(Reply::Int(if options.count_changed { added + updated } else { added }))
}

fn increment(ctx: &mut Context<'_>, key: &[u8], member: &[u8], by: f64, when: Conditions) -> Result<Reply> {
    let mut keys = ctx.keys();
    if when.existing && keys.own_value::<ZSet>(key)?.is_none() {
        return Ok(Reply::Nil);
    }
    let result = keys.edit_or_create(key, |zset: &mut ZSet, edit| zset.increment(member, by, when, edit))??;
    let changed = matches!(result, Added::New(_) | Added::Updated(_));
    if changed {
        keys.notify(EventClass::ZSET, "zincr", key);
    }
    Ok(match result {
        Added::New(score) | Added::Updated(score) | Added::Same(score) => Reply::Double(score),
        Added::Refused => Reply::Nil,
    })
}

fn zincrby(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    increment(ctx, args[1], args[3], float(args[2])?, Conditions::default())
}

fn zrem(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    let removed = keys.edit(args[1], |zset: &mut ZSet, edit| zset.remove(&args[2..], edit))?.unwrap_or(0);
    if removed > 0 {
        keys.settle(EventClass::ZSET, "zrem", args[1]);
    }
    Ok(Reply::Int(removed as i64))
}

fn zcard(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::Int(ctx.keys().get::<ZSet>(args[1])?.map_or(0, ZSet::len) as i64))
}

fn zscore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    Ok(keys.get::<ZSet>(args[1])?.and_then(|zset| zset.score(args[2])).map_or(Reply::Nil, Reply::Double))
}

fn zmscore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    let zset = keys.get::<ZSet>(args[1])?;
    let score = |member: &&[u8]| zset.and_then(|zset| zset.score(member)).map_or(Reply::Nil, Reply::Double);
    Ok(Reply::Array(args[2..].iter().map(score).collect()))
}

fn rank(ctx: &mut Context<'_>, args: &[&[u8]], reverse: bool) -> Result<Reply> {
    let mut keys = ctx.keys();
    let rank = keys.get::<ZSet>(args[1])?.and_then(|zset| zset.rank(args[2], reverse));
    Ok(rank.map_or(Reply::Nil, |(rank, _)| Reply::Int(rank as i64)))
}

fn zrank(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    rank(ctx, args, false)
}

fn zrevrank(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    rank(ctx, args, true)
}

/// Takes up to `count` members from one end; None if there is no sorted set.
fn take(keys: &mut keyspace::Keys<'_>, key: &[u8], max: bool, count: usize) -> Result<Option<Vec<(Blob, f64)>>> {
    let taken = keys.edit(key, |zset: &mut ZSet, edit| zset.pop(max, count, edit))?;
    if taken.as_ref().is_some_and(|members| !members.is_empty()) {
        keys.settle(EventClass::ZSET, if max { "zpopmax" } else { "zpopmin" }, key);
    }
    Ok(taken)
}

fn with_scores(members: Vec<(Blob, f64)>) -> Reply {
    Reply::Pairs(members.into_iter().map(|(member, score)| (Reply::Bulk(member), Reply::Double(score))).collect())
}

fn pop(ctx: &mut Context<'_>, args: &[&[u8]], max: bool) -> Result<Reply> {
    let count = match &args[2..] {
        [] => None,
        [count] => {
            let text = "value is out of range, must be positive";
            let count = super::arguments::integer_or(count, text)?;
            Some(usize::try_from(count).map_err(|_| Error::err(text))?)
        }
        _ => return Err(Error::syntax()),
    };
    let taken = take(&mut ctx.keys(), args[1], max, count.unwrap_or(1))?.unwrap_or_default();
    if count.is_some() {
        return Ok(with_scores(taken));
    }
    // Without count the one pair is flat in RESP3, too.
    Ok(Reply::Array(
        taken.into_iter().flat_map(|(member, score)| [Reply::Bulk(member), Reply::Double(score)]).collect(),
    ))
}

fn zpopmin(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    pop(ctx, args, false)
}

fn zpopmax(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    pop(ctx, args, true)
}

fn block_pop(ctx: &mut Context<'_>, args: &[&[u8]], max: bool) -> Result<Reply> {
    let names = &args[1..args.len() - 1];
    let deadline = timeout(args[args.len() - 1], ctx.state.clock.now_ms)?;
    for key in names {
        if !ctx.may_take::<ZSet>(key) {
            continue;
        }
        if let Some((member, score)) =
            take(&mut ctx.keys(), key, max, 1)?.and_then(|members| members.into_iter().next())
        {
            return Ok(Reply::Array(vec![Reply::bulk(key), Reply::Bulk(member), Reply::Double(score)]));
        }
    }
    Ok(ctx.block(args, names, deadline, Reply::NilArray))
}

fn bzpopmin(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    block_pop(ctx, args, false)
}

fn bzpopmax(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    block_pop(ctx, args, true)
}

/// `numkeys key [key ...] MIN|MAX [COUNT count]`
struct MultiPop<'a, 'b> {
    keys: &'b [&'a [u8]],
    max: bool,
    count: usize,
}

impl<'a, 'b> MultiPop<'a, 'b> {
    fn parse(args: &'b [&'a [u8]]) -> Result<Self> {
        let numkeys = positive_or(args[0], "numkeys should be greater than 0")?;
        let keys = args.get(1..1 + numkeys).ok_or_else(Error::syntax)?;
        let (end, options) = args[1 + numkeys..].split_first().ok_or_else(Error::syntax)?;
        let max = match end {
            end if is(end, "MIN") => false,
            end if is(end, "MAX") => true,
            _ => return Err(Error::syntax()),
        };
        Ok(MultiPop { keys, max, count: pop_count(options)? })
    }

    fn pop(&self, ctx: &mut Context<'_>) -> Result<Option<Reply>> {
        for key in self.keys {
            if !ctx.may_take::<ZSet>(key) {
                continue;
            }
            if let Some(members) = take(&mut ctx.keys(), key, self.max, self.count)? {
                // Pairs are nested here even in RESP2.
                let pair = |(member, score)| Reply::Array(vec![Reply::Bulk(member), Reply::Double(score)]);
                let members = members.into_iter().map(pair).collect();
                return Ok(Some(Reply::Array(vec![Reply::bulk(key), Reply::Array(members)])));
            }
        }
        Ok(None)
    }
}

fn zmpop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    Ok(MultiPop::parse(&args[1..])?.pop(ctx)?.unwrap_or(Reply::NilArray))
}

fn bzmpop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let request = MultiPop::parse(&args[2..])?;
    let deadline = timeout(args[1], ctx.state.clock.now_ms)?;
    match request.pop(ctx)? {
        Some(reply) => Ok(reply),
        None => Ok(ctx.block(args, request.keys, deadline, Reply::NilArray)),
    }
}

fn zrandmember(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut random = ctx.random();
    let mut keys = ctx.keys();
    let [_, key, rest @ ..] = args else { return Err(Error::syntax()) };
    let Some(count) = rest.first() else {
        let member = keys.get::<ZSet>(key)?.and_then(|zset| zset.random(&mut random));
        return Ok(Reply::bulk_or_nil(member.map(|(member, _)| member)));
    };
    let count = super::arguments::sample_count(count)?;
    let scores = match &rest[1..] {
        [] => false,
        [option] if is(option, "WITHSCORES") => {
            super::arguments::check_pair_count(count)?;
            true
        }
        _ => return Err(Error::syntax()),
    };
    let Some(zset) = keys.get::<ZSet>(key)? else { return Ok(Reply::Array(Vec::new())) };
    let picked: Vec<(&[u8], f64)> = if count >= 0 {
        zset.sample(count as usize, &mut random)
    } else {
        (0..count.unsigned_abs()).filter_map(|_| zset.random(&mut random)).collect()
    };
    Ok(members_reply(picked, scores))
}

/// Members, with their scores if they are wanted.
pub(super) fn members_reply<'a>(members: impl IntoIterator<Item = (&'a [u8], f64)>, scores: bool) -> Reply {
    let members = members.into_iter();
    if scores {
        Reply::Pairs(members.map(|(member, score)| (Reply::bulk(member), Reply::Double(score))).collect())
    } else {
        Reply::bulks(members.map(|(member, _)| member))
    }
}

/// A score as ZSCAN shows it: of a small set as Redis keeps it there, where integers are integers however long.
fn scanned_score(score: f64, packed: bool) -> NumberText {
    const LIMIT: f64 = (i64::MAX / 2) as f64;
    let integer = score as i64;
    if packed && score.abs() <= LIMIT && integer as f64 == score {
        number::i64_text(integer)
    } else {
        number::score_text(score)
    }
}

fn zscan(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    cursor(args[2])?;
    let mut keys = ctx.keys();
    // Without key nobody looks at the options (Redis 7).
    let Some(zset) = keys.get::<ZSet>(args[1])? else { return Ok(scan_reply(0, Vec::new())) };
    let options = ScanOptions::parse(&args[2..], false)?;
    let mut found = Vec::new();
    let packed = zset.is_packed();
    let next = zset.scan(options.cursor, options.count, |member, score| {
        if options.matches(member) {
            found.extend([Reply::bulk(member), Reply::bulk(&*scanned_score(score, packed))]);
        }
    });
    Ok(scan_reply(next, found))
}
