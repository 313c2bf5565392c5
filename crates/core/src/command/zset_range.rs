//! Commands on ranges of a sorted set, by rank, by score and by the order of bytes.

use super::arguments::{integer, is};
use super::context::Context;
use super::spec::{Flags, Group, Keys, Run, Spec, Use};
use super::zset::members_reply;
use crate::error::{Error, Result};
use crate::keyspace::EventClass;
use crate::reply::Reply;
use crate::value::zset::range::{LexRange, ScoreRange};
use crate::value::{Edit, Value, ZSet, range};
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
    let complexity = "O(log(N)+M) where M is the number of members in the range";
    Spec::row(Group::SortedSet, name, run, arity, flags, keys, since, complexity, usage, summary)
}

const READ: Flags = Flags::READONLY;

pub(super) const COMMANDS: &[Spec] = &[
    row(
        "zrange",
        zrange,
        -4,
        READ,
        Keys::one(Use::READ),
        "1.2.0",
        "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
        "Gets the members of a range.",
    ),
    Spec {
        ..row(
            "zrangestore",
            zrangestore,
            -5,
            Flags::WRITE.union(Flags::DENYOOM),
            Keys::two(Use::REPLACE, Use::READ),
            "6.2.0",
            "dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
            "Stores the members of a range.",
        )
    },
    row(
        "zrevrange",
        zrevrange,
        -4,
        READ,
        Keys::one(Use::READ),
        "1.2.0",
        "key start stop [WITHSCORES]",
        "Gets a range of ranks, highest score first.",
    ),
    row(
        "zrangebyscore",
        zrangebyscore,
        -4,
        READ,
        Keys::one(Use::READ),
        "1.0.5",
        "key min max [WITHSCORES] [LIMIT offset count]",
        "Gets the members in a range of scores.",
    ),
    row(
        "zrevrangebyscore",
        zrevrangebyscore,
        -4,
        READ,
        Keys::one(Use::READ),
        "2.2.0",
        "key max min [WITHSCORES] [LIMIT offset count]",
        "Gets a range of scores, highest first.",
    ),
    row(
        "zrangebylex",
        zrangebylex,
        -4,
        READ,
        Keys::one(Use::READ),
        "2.8.9",
        "key min max [LIMIT offset count]",
        "Gets the members between two texts.",
    ),
    row(
        "zrevrangebylex",
        zrevrangebylex,
        -4,
        READ,
        Keys::one(Use::READ),
        "2.8.9",
        "key max min [LIMIT offset count]",
        "Gets the members between two texts, last first.",
    ),
    row(
        "zcount",
        zcount,
        4,
        READ.union(Flags::FAST),
        Keys::one(Use::READ),
        "2.0.0",
        "key min max",
        "Counts the members in a range of scores.",
    ),
    row(
        "zlexcount",
        zlexcount,
        4,
        READ.union(Flags::FAST),
        Keys::one(Use::READ),
        "2.8.9",
        "key min max",
        "Counts the members between two texts.",
    ),
    row(
        "zremrangebyrank",
        zremrangebyrank,
        4,
        Flags::WRITE,
        Keys::one(Use::SHRINK),
        "2.0.0",
        "key start stop",
        "Removes a range of ranks.",
    ),
    row(
        "zremrangebyscore",
        zremrangebyscore,
        4,
        Flags::WRITE,
        Keys::one(Use::SHRINK),
        "1.2.0",
        "key min max",
        "Removes a range of scores.",
    ),
    row(
        "zremrangebylex",
        zremrangebylex,
        4,
        Flags::WRITE,
        Keys::one(Use::SHRINK),
        "2.8.9",
        "key min max",
        "Removes the members between two texts.",
    ),
];

/// What the ends of a range mean.
#[derive(Clone, Copy)]
enum Bounds<'a> {
    Ranks(i64, i64),
    Scores(ScoreRange),
    Lex(LexRange<'a>),
}

impl Bounds<'_> {
    /// The ranks of the range; with `reverse`, rank bounds count from the end.
    fn ranks(&self, zset: &ZSet, reverse: bool) -> Range<usize> {
        match self {
            Bounds::Ranks(start, stop) => {
                let len = zset.len();
                let ranks = range::positions(*start, *stop, len);
                if reverse { len - ranks.end..len - ranks.start } else { ranks }
            }
            Bounds::Scores(scores) => zset.ranks_by_score(scores),
            Bounds::Lex(lex) => zset.ranks_by_lex(lex),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// A whole range request.
struct RangeRequest<'a> {
    bounds: Bounds<'a>,
    reverse: bool,
    limit: Option<(i64, i64)>,
    scores: bool,
}

impl<'a> RangeRequest<'a> {
    /// Reads `start stop [options]`. `by` and `reverse` are None where options may choose them.
    fn parse(args: &[&'a [u8]], by: Option<By>, reverse: Option<bool>, scores_allowed: bool) -> Result<Self> {
        let (mut chosen_by, mut chosen_reverse, mut limit, mut scores) = (None, None, None, false);
        let mut rest = &args[2..];
        while let Some((option, after)) = rest.split_first() {
            rest = after;
            match option {
                o if is(o, "WITHSCORES") && scores_allowed => scores = true,
                o if is(o, "BYSCORE") && by.or(chosen_by).is_none() => chosen_by = Some(By::Score),
                o if is(o, "BYLEX") && by.or(chosen_by).is_none() => chosen_by = Some(By::Lex),
                o if is(o, "REV") && reverse.or(chosen_reverse).is_none() => chosen_reverse = Some(true),
                o if is(o, "LIMIT") && rest.len() >= 2 => {
                    limit = Some((integer(rest[0])?, integer(rest[1])?));
                    rest = &rest[2..];
                }
                _ => return Err(Error::syntax()),
            }
        }
        let by = by.or(chosen_by).unwrap_or(By::Rank);
        let reverse = reverse.or(chosen_reverse).unwrap_or(false);
        if limit.is_some_and(|(_, count)| count != -1) && by == By::Rank {
            return Err(Error::err(
                "syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if scores && by == By::Lex {
            return Err(Error::err("syntax error, WITHSCORES not supported in combination with BYLEX"));
        }
        // Where scores or texts run backwards, the higher end is given first.
        let (low, high) = if reverse && by != By::Rank { (args[1], args[0]) } else { (args[0], args[1]) };
        let bounds = match by {
            By::Rank => Bounds::Ranks(integer(low)?, integer(high)?),
            By::Score => Bounds::Scores(ScoreRange::parse(low, high)?),
            By::Lex => Bounds::Lex(LexRange::parse(low, high)?),
        };
        Ok(RangeRequest { bounds, reverse, limit, scores })
    }

    fn ranks(&self, zset: &ZSet) -> Range<usize> {
        let ranks = self.bounds.ranks(zset, self.reverse);
        match self.limit {
            None => ranks,
            Some((offset, _)) if offset < 0 => 0..0,
            Some((offset, count)) => range::limited(ranks, self.reverse, offset as usize, count),
        }
    }

    fn reply(&self, zset: Option<&ZSet>) -> Reply {
        let members = zset.into_iter().flat_map(|zset| zset.walk(self.ranks(zset), self.reverse));
        members_reply(members, self.scores)
    }
}

fn get(ctx: &mut Context<'_>, args: &[&[u8]], by: Option<By>, reverse: Option<bool>) -> Result<Reply> {
    let request = RangeRequest::parse(&args[2..], by, reverse, by != Some(By::Lex))?;
    let mut keys = ctx.keys();
    Ok(request.reply(keys.get::<ZSet>(args[1])?))
}

fn zrange(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    get(ctx, args, None, None)
}

fn zrevrange(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    get(ctx, args, Some(By::Rank), Some(true))
}

fn zrangebyscore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    get(ctx, args, Some(By::Score), Some(false))
}

fn zrevrangebyscore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    get(ctx, args, Some(By::Score), Some(true))
}

fn zrangebylex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    get(ctx, args, Some(By::Lex), Some(false))
}

fn zrevrangebylex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    get(ctx, args, Some(By::Lex), Some(true))
}

fn zrangestore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let request = RangeRequest::parse(&args[3..], None, None, false)?;
    let thresholds = ctx.state.keyspace.shared.thresholds.clone();
    let mut keys = ctx.keys();
    let zset = keys.get::<ZSet>(args[2])?;
    let stored =
        zset.map_or_else(ZSet::new, |zset| ZSet::of(zset.walk(request.ranks(zset), request.reverse), &thresholds));
    let size = stored.len();
    if size > 0 {
        keys.put(args[1], Value::ZSet(Box::new(stored)), None);
        keys.notify(EventClass::ZSET, "zrangestore", args[1]);
    } else if keys.remove(args[1]) {
        keys.notify(EventClass::GENERIC, "del", args[1]);
    }
    Ok(Reply::Int(size as i64))
}

fn count(ctx: &mut Context<'_>, key: &[u8], bounds: Bounds<'_>) -> Result<Reply> {
    Ok(Reply::Int(ctx.keys().get::<ZSet>(key)?.map_or(0, |zset| bounds.ranks(zset, false).len()) as i64))
}

fn zcount(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    count(ctx, args[1], Bounds::Scores(ScoreRange::parse(args[2], args[3])?))
}

fn zlexcount(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    count(ctx, args[1], Bounds::Lex(LexRange::parse(args[2], args[3])?))
}

fn remove(ctx: &mut Context<'_>, key: &[u8], bounds: Bounds<'_>, event: &'static str) -> Result<Reply> {
    let mut keys = ctx.keys();
    let remove = |zset: &mut ZSet, edit: &mut Edit<'_, _>| zset.remove_ranks(bounds.ranks(zset, false), edit);
    let removed = keys.edit(key, remove)?.unwrap_or(0);
    if removed > 0 {
        keys.settle(EventClass::ZSET, event, key);
    }
    Ok(Reply::Int(removed as i64))
}

fn zremrangebyrank(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    remove(ctx, args[1], Bounds::Ranks(integer(args[2])?, integer(args[3])?), "zremrangebyrank")
}

fn zremrangebyscore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    remove(ctx, args[1], Bounds::Scores(ScoreRange::parse(args[2], args[3])?), "zremrangebyscore")
}

fn zremrangebylex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    remove(ctx, args[1], Bounds::Lex(LexRange::parse(args[2], args[3])?), "zremrangebylex")
}
