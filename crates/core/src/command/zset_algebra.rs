//! Commands that combine sorted sets (and sets): ZUNION, ZINTER, ZDIFF, their storing forms, ZINTERCARD.

use super::arguments::is;
use super::context::Context;
use super::spec::{Flags, Group, Keys, Run, Spec, Use};
use super::zset::members_reply;
use crate::ds::number;
use crate::error::{Error, Result};
use crate::keyspace::entry::ValueRef;
use crate::keyspace::{self, EventClass};
use crate::reply::Reply;
use crate::value::zset::algebra::{self, Aggregate, Scored, Source};
use crate::value::{Value, ZSet};

const fn row(
    name: &'static str,
    run: Run,
    arity: i32,
    flags: Flags,
    keys: Keys,
    usage: &'static str,
    summary: &'static str,
) -> Spec {
    let complexity = "O(N*log(N)) where N is the number of members in all sorted sets";
    Spec::row(Group::SortedSet, name, run, arity, flags, keys, "6.2.0", complexity, usage, summary)
}

const READ: Flags = Flags::READONLY;
const STORE: Flags = Flags::WRITE.union(Flags::DENYOOM);
const WEIGHTED: &str = "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]";
const WEIGHTED_STORE: &str =
    "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX]";

pub(super) const COMMANDS: &[Spec] = &[
    row(
        "zunion",
        zunion,
        -3,
        READ,
        Keys::counted(Use::READ, 1),
        WEIGHTED,
        "Gets the members of any of the sorted sets.",
    ),
    row(
        "zinter",
        zinter,
        -3,
        READ,
        Keys::counted(Use::READ, 1),
        WEIGHTED,
        "Gets the members common to all sorted sets.",
    ),
    row(
        "zdiff",
        zdiff,
        -3,
        READ,
        Keys::counted(Use::READ, 1),
        "numkeys key [key ...] [WITHSCORES]",
        "Gets the members of the first that no other has.",
    ),
    Spec {
        since: "2.0.0",
        ..row(
            "zunionstore",
            zunionstore,
            -4,
            STORE,
            Keys::one(Use::REPLACE).and_counted(Use::READ, 2),
            WEIGHTED_STORE,
            "Stores the members of any of the sorted sets.",
        )
    },
    Spec {
        since: "2.0.0",
        ..row(
            "zinterstore",
            zinterstore,
            -4,
            STORE,
            Keys::one(Use::REPLACE).and_counted(Use::READ, 2),
            WEIGHTED_STORE,
            "Stores the members common to all sorted sets.",
        )
    },
    row(
        "zdiffstore",
        zdiffstore,
        -4,
        STORE,
        Keys::one(Use::REPLACE).and_counted(Use::READ, 2),
        "destination numkeys key [key ...]",
        "Stores the members of the first that no other has.",
    ),
    Spec {
        since: "7.0.0",
        ..row(
            "zintercard",
            zintercard,
            -3,
            READ,
            Keys::counted(Use::READ, 1),
            "numkeys key [key ...] [LIMIT limit]",
            "Counts the members common to all sorted sets.",
        )
    },
];

#[derive(Clone, Copy, PartialEq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// The options of an operation, and which it is.
struct Request {
    operation: Operation,
    weights: Vec<f64>,
    aggregate: Aggregate,
    scores: bool,
}

/// The keys counted by the first argument, and what follows them.
#[allow(clippy::type_complexity)] // two slices of the arguments
fn counted<'a, 'b>(args: &'b [&'a [u8]], command: &str) -> Result<(&'b [&'a [u8]], &'b [&'a [u8]])> {
    let numkeys = super::arguments::integer(args[0])?;
    if numkeys < 1 {
        return Err(Error::err(format!("at least 1 input key is needed for '{command}' command")));
    }
    let keys = usize::try_from(numkeys).ok().and_then(|n| args.get(1..n.checked_add(1)?)).ok_or_else(Error::syntax)?;
    Ok((keys, &args[1 + keys.len()..]))
}

impl Request {
    /// Reads the options behind `keys` keys.
    fn parse(keys: usize, mut rest: &[&[u8]], operation: Operation, storing: bool) -> Result<Self> {
        let mut request = Request { operation, weights: vec![1.0; keys], aggregate: Aggregate::Sum, scores: false };
        let weighted = operation != Operation::Difference;
        while let Some((option, after)) = rest.split_first() {
            rest = match after {
                _ if is(option, "WITHSCORES") && !storing => {
                    request.scores = true;
                    after
                }
                _ if is(option, "WEIGHTS") && weighted && after.len() >= keys => {
                    let weight =
                        |arg: &&[u8]| number::parse_f64(arg).ok_or_else(|| Error::err("weight value is not a float"));
                    request.weights = after[..keys].iter().map(weight).collect::<Result<_>>()?;
                    &after[keys..]
                }
                [how, after @ ..] if is(option, "AGGREGATE") && weighted => {
                    request.aggregate = match how {
                        how if is(how, "SUM") => Aggregate::Sum,
                        how if is(how, "MIN") => Aggregate::Min,
                        how if is(how, "MAX") => Aggregate::Max,
                        _ => return Err(Error::syntax()),
                    };
                    after
                }
                _ => return Err(Error::syntax()),
            };
        }
        Ok(request)
    }

    fn run(&self, sources: &[Source<'_>]) -> Scored {
        let weighted = || sources.iter().copied().zip(self.weights.iter().copied()).collect::<Vec<_>>();
        match self.operation {
            Operation::Union => algebra::union(&weighted(), self.aggregate),
            Operation::Intersection => algebra::intersection(&weighted(), self.aggregate),
            Operation::Difference => algebra::difference(sources),
        }
    }
}

/// The values of keys, each a set, a sorted set or missing.
fn sources<'k>(keys: &'k mut keyspace::Keys<'_>, names: &[&[u8]]) -> Result<Vec<Source<'k>>> {
    let source = |value: Option<ValueRef<'k>>| match value {
        None => Ok(Source::Missing),
        Some(ValueRef::Value(Value::Set(set))) => Ok(Source::Set(set)),
        Some(ValueRef::Value(Value::ZSet(zset))) => Ok(Source::ZSet(zset)),
        Some(_) => Err(Error::wrong_type()),
    };
    keys.values(names).into_iter().map(source).collect()
}

/// Reads a request (without the destination) and does it. Redis complains of a key's type before it complains of options.
fn compute(
    ctx: &mut Context<'_>,
    args: &[&[u8]],
    operation: Operation,
    stores: bool,
    command: &str,
) -> Result<(Scored, bool)> {
    let (names, options) = counted(args, command)?;
    let mut keys = ctx.keys();
    let sources = sources(&mut keys, names)?;
    let request = Request::parse(names.len(), options, operation, stores)?;
    Ok((request.run(&sources), request.scores))
}

fn get(ctx: &mut Context<'_>, args: &[&[u8]], operation: Operation, command: &str) -> Result<Reply> {
    let (result, scores) = compute(ctx, &args[1..], operation, false, command)?;
    Ok(members_reply(result.iter().map(|(member, score)| (&member[..], *score)), scores))
}

fn store(ctx: &mut Context<'_>, args: &[&[u8]], operation: Operation, command: &'static str) -> Result<Reply> {
    let (result, _) = compute(ctx, &args[2..], operation, true, command)?;
    let thresholds = ctx.state.keyspace.shared.thresholds.clone();
    let mut keys = ctx.keys();
    let size = result.len();
    if size > 0 {
        let members = result.iter().map(|(member, score)| (member, *score));
        keys.put(args[1], Value::ZSet(Box::new(ZSet::of(members, &thresholds))), None);
        keys.notify(EventClass::ZSET, command, args[1]);
    } else if keys.remove(args[1]) {
        keys.notify(EventClass::GENERIC, "del", args[1]);
    }
    Ok(Reply::Int(size as i64))
}

fn zunion(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    get(ctx, args, Operation::Union, "zunion")
}

fn zinter(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    get(ctx, args, Operation::Intersection, "zinter")
}

fn zdiff(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    get(ctx, args, Operation::Difference, "zdiff")
}

fn zunionstore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    store(ctx, args, Operation::Union, "zunionstore")
}

fn zinterstore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    store(ctx, args, Operation::Intersection, "zinterstore")
}

fn zdiffstore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    store(ctx, args, Operation::Difference, "zdiffstore")
}

fn zintercard(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let (names, options) = counted(&args[1..], "zintercard")?;
    let limit = super::arguments::cardinality_limit(options);
    let mut keys = ctx.keys();
    let sources = sources(&mut keys, names)?;
    Ok(Reply::Int(algebra::intersection_count(&sources, limit?) as i64))
}
