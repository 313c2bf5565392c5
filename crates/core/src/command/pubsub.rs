//! SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE and their opposites, PUBLISH, SPUBLISH, PUBSUB.

use super::context::{Context, Origin};
use super::deliver;
use super::spec::{Flags, Group, Keys, Spec, Use};
use crate::error::Result;
use crate::pubsub::Kind;
use crate::reply::Reply;
use crate::session::Session;
use crate::state::State;
use std::collections::BTreeSet;

const LISTEN: Flags =
    Flags::PUBSUB.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE).union(Flags::SUBSCRIBED);

const fn listen(name: &'static str, run: super::spec::Run, arity: i32, summary: &'static str) -> Spec {
    Spec {
        name,
        run,
        arity,
        flags: LISTEN,
        keys: Keys::None,
        group: Group::PubSub,
        since: "2.0.0",
        complexity: "O(N) where N is the number of channels or patterns.",
        summary,
        usage: if arity == -1 { "[name [name ...]]" } else { "name [name ...]" },
        subcommands: &[],
        categories: None,
    }
}

const fn sub(
    name: &'static str,
    run: super::spec::Run,
    arity: i32,
    since: &'static str,
    summary: &'static str,
) -> Spec {
    Spec {
        name,
        run,
        arity,
        flags: Flags::PUBSUB.union(Flags::LOADING).union(Flags::STALE),
        keys: Keys::None,
        group: Group::PubSub,
        since,
        complexity: "O(N) where N is the number of channels.",
        summary,
        usage: "",
        subcommands: &[],
        categories: None,
    }
}

const SENDS: Flags =
    Flags::PUBSUB.union(Flags::LOADING).union(Flags::STALE).union(Flags::FAST).union(Flags::MAY_REPLICATE);

/// Shard channels belong to slots, as keys do.
const CHANNELS: Keys = Keys::all(Use::NOT_KEY);

pub(super) const COMMANDS: &[Spec] = &[
    listen("subscribe", subscribe, -2, "Listens to channels."),
    listen("psubscribe", psubscribe, -2, "Listens to all channels that match a pattern."),
    Spec { since: "7.0.0", keys: CHANNELS, ..listen("ssubscribe", ssubscribe, -2, "Listens to shard channels.") },
    listen("unsubscribe", unsubscribe, -1, "Stops listening to channels, or to all of them."),
    listen("punsubscribe", punsubscribe, -1, "Stops listening to patterns, or to all of them."),
    Spec {
        since: "7.0.0",
        keys: CHANNELS,
        ..listen("sunsubscribe", sunsubscribe, -1, "Stops listening to shard channels, or all.")
    },
    Spec {
        flags: SENDS,
        usage: "channel message",
        ..sub("publish", publish, 3, "2.0.0", "Sends a message to a channel.")
    },
    Spec {
        flags: SENDS,
        usage: "shardchannel message",
        keys: Keys::one(Use::NOT_KEY),
        ..sub("spublish", spublish, 3, "7.0.0", "Sends a message to a shard channel.")
    },
    sub("pubsub", super::server::container, -2, "2.8.0", "Looks at channels and their subscribers.").holding(&[
        sub("pubsub|channels", pubsub_channels, -2, "2.8.0", "Lists the channels that have a subscriber."),
        sub("pubsub|numsub", pubsub_numsub, -2, "2.8.0", "Counts the subscribers of channels."),
        sub("pubsub|numpat", pubsub_numpat, 2, "2.8.0", "Counts the patterns subscribed to."),
        sub("pubsub|shardchannels", pubsub_shardchannels, -2, "7.0.0", "Lists the shard channels with a subscriber."),
        sub("pubsub|shardnumsub", pubsub_shardnumsub, -2, "7.0.0", "Counts the subscribers of shard channels."),
        Spec {
            flags: Flags::LOADING.union(Flags::STALE),
            ..sub("pubsub|help", pubsub_help, 2, "6.2.0", "Shows what PUBSUB can do.")
        },
    ]),
];

fn names(session: &mut Session, kind: Kind) -> &mut BTreeSet<Box<[u8]>> {
    match kind {
        Kind::Channel => &mut session.channels,
        Kind::Pattern => &mut session.patterns,
        Kind::Shard => &mut session.shard_channels,
    }
}

/// The count that confirmations of `kind` carry.
fn count(session: &Session, kind: Kind) -> i64 {
    match kind {
        Kind::Shard => session.shard_channels.len() as i64,
        _ => session.subscriptions() as i64,
    }
}

fn add(ctx: &mut Context<'_>, kind: Kind, word: &str, args: &[&[u8]]) -> Result<Reply> {
    // Redis lets a RESP3 client subscribe inside EXEC; a script may not (NOSCRIPT).
    let mut confirmations = Vec::with_capacity(args.len() - 1);
    for name in &args[1..] {
        if names(ctx.session, kind).insert(Box::from(*name)) {
            ctx.state.pubsub.subscribe(kind, name, ctx.session.id);
        }
        confirmations.push(confirmation(word, Reply::bulk(name), count(ctx.session, kind)));
    }
    Ok(many(ctx, confirmations))
}

fn remove(ctx: &mut Context<'_>, kind: Kind, word: &str, args: &[&[u8]]) -> Result<Reply> {
    let all: Vec<Box<[u8]>> = if args.len() > 1 {
        args[1..].iter().map(|name| Box::from(*name)).collect()
    } else {
        names(ctx.session, kind).iter().cloned().collect()
    };
    if all.is_empty() {
        return Ok(confirmation(word, Reply::Nil, count(ctx.session, kind)));
    }
    let mut confirmations = Vec::with_capacity(all.len());
    for name in all {
        names(ctx.session, kind).remove(&name);
        ctx.state.pubsub.unsubscribe(kind, &name, ctx.session.id);
        confirmations.push(confirmation(word, Reply::bulk(&name), count(ctx.session, kind)));
    }
    Ok(many(ctx, confirmations))
}

/// One reply for each name; inside EXEC they must be one reply, so the rest go ahead as pushes.
fn many(ctx: &mut Context<'_>, mut replies: Vec<Reply>) -> Reply {
    if ctx.origin == Origin::Exec && replies.len() > 1 {
        let last = replies.pop().unwrap_or(Reply::None);
        replies.into_iter().for_each(|reply| ctx.session.post(reply));
        return last;
    }
    if replies.len() == 1 { replies.remove(0) } else { Reply::Many(replies) }
}

fn confirmation(word: &str, name: Reply, count: i64) -> Reply {
    Reply::Push(vec![Reply::bulk(word), name, Reply::Int(count)])
}

fn subscribe(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    add(ctx, Kind::Channel, "subscribe", args)
}

fn psubscribe(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    add(ctx, Kind::Pattern, "psubscribe", args)
}

fn ssubscribe(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    add(ctx, Kind::Shard, "ssubscribe", args)
}

fn unsubscribe(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    remove(ctx, Kind::Channel, "unsubscribe", args)
}

fn punsubscribe(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    remove(ctx, Kind::Pattern, "punsubscribe", args)
}

fn sunsubscribe(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    remove(ctx, Kind::Shard, "sunsubscribe", args)
}

fn publish(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    ctx.state.stats.published += 1;
    Ok(Reply::Int(deliver::publish(ctx.state, ctx.session, args[1], args[2]) as i64))
}

fn spublish(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    ctx.state.stats.published += 1;
    Ok(Reply::Int(deliver::publish_shard(ctx.state, ctx.session, args[1], args[2]) as i64))
}

fn channels(ctx: &mut Context<'_>, kind: Kind, args: &[&[u8]]) -> Result<Reply> {
    if args.len() > 3 {
        return Err(super::dispatch::wrong_subcommand("pubsub", args[1]));
    }
    Ok(Reply::bulks(ctx.state.pubsub.active(kind, args.get(2).copied())))
}

fn numsub(ctx: &mut Context<'_>, kind: Kind, args: &[&[u8]]) -> Result<Reply> {
    let count = |name: &[u8]| Reply::Int(ctx.state.pubsub.subscribers(kind, name) as i64);
    // A flat array in RESP3 too, as in Redis 7.
    Ok(Reply::Array(args[2..].iter().flat_map(|name| [Reply::bulk(name), count(name)]).collect()))
}

fn pubsub_channels(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    channels(ctx, Kind::Channel, args)
}

fn pubsub_shardchannels(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    channels(ctx, Kind::Shard, args)
}

fn pubsub_numsub(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    numsub(ctx, Kind::Channel, args)
}

fn pubsub_shardnumsub(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    numsub(ctx, Kind::Shard, args)
}

fn pubsub_numpat(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::Int(ctx.state.pubsub.patterns() as i64))
}

fn pubsub_help(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(super::server::help("PUBSUB"))
}

/// Ends all subscriptions of a session that goes away or resets.
pub(super) fn forget_subscriptions(state: &mut State, session: &mut Session) {
    for kind in [Kind::Channel, Kind::Pattern, Kind::Shard] {
        for name in std::mem::take(names(session, kind)) {
            state.pubsub.unsubscribe(kind, &name, session.id);
        }
    }
}
