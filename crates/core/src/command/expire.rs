//! Commands on the time to live of keys: EXPIRE and its kin, TTL, PERSIST.

use super::arguments::is;
use super::context::Context;
use super::expiry::Unit;
use super::spec::{Flags, Group, Keys, Run, Spec, Use};
use crate::error::{Error, Result};
use crate::keyspace::{self, EventClass};
use crate::reply::Reply;

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
    Spec::row(Group::Generic, name, run, arity, flags.union(Flags::FAST), keys, since, "O(1)", usage, summary)
}

pub(super) const COMMANDS: &[Spec] = &[
    row(
        "expire",
        expire,
        -3,
        Flags::WRITE,
        Keys::one(Use::CHANGE),
        "1.0.0",
        "key seconds [NX | XX | GT | LT]",
        "Sets the time to live, seconds.",
    ),
    row(
        "pexpire",
        pexpire,
        -3,
        Flags::WRITE,
        Keys::one(Use::CHANGE),
        "2.6.0",
        "key milliseconds [NX | XX | GT | LT]",
        "Sets the time to live, milliseconds.",
    ),
    row(
        "expireat",
        expireat,
        -3,
        Flags::WRITE,
        Keys::one(Use::CHANGE),
        "1.2.0",
        "key unix-time-seconds [NX | XX | GT | LT]",
        "Sets when the key ends, seconds since 1970.",
    ),
    row(
        "pexpireat",
        pexpireat,
        -3,
        Flags::WRITE,
        Keys::one(Use::CHANGE),
        "2.6.0",
        "key unix-time-milliseconds [NX | XX | GT | LT]",
        "Sets when the key ends, milliseconds since 1970.",
    ),
    row("ttl", ttl, 2, Flags::READONLY, Keys::one(Use::READ), "1.0.0", "key", "Tells the time to live, seconds."),
    row(
        "pttl",
        pttl,
        2,
        Flags::READONLY,
        Keys::one(Use::READ),
        "2.6.0",
        "key",
        "Tells the time to live, milliseconds.",
    ),
    row(
        "expiretime",
        expiretime,
        2,
        Flags::READONLY,
        Keys::one(Use::READ),
        "7.0.0",
        "key",
        "Tells when the key ends, seconds since 1970.",
    ),
    row(
        "pexpiretime",
        pexpiretime,
        2,
        Flags::READONLY,
        Keys::one(Use::READ),
        "7.0.0",
        "key",
        "Tells when the key ends, milliseconds since 1970.",
    ),
    row("persist", persist, 2, Flags::WRITE, Keys::one(Use::CHANGE), "2.2.0", "key", "Removes the time to live."),
];

/// Sets a deadline, or removes the key at once if the deadline has passed, and tells which happened.
pub(super) fn set_or_remove(keys: &mut keyspace::Keys<'_>, key: &[u8], deadline_ms: i64) {
    if deadline_ms <= keys.now_ms() {
        keys.remove(key);
        keys.notify(EventClass::GENERIC, "del", key);
    } else {
        keys.set_expire(key, Some(deadline_ms));
        keys.notify(EventClass::GENERIC, "expire", key);
    }
}

/// The conditions of EXPIRE: NX, XX, GT, LT.
#[derive(Default)]
struct Conditions {
    if_none: bool,
    if_any: bool,
    if_later: bool,
    if_sooner: bool,
}

impl Conditions {
    fn parse(args: &[&[u8]]) -> Result<Self> {
        let mut conditions = Conditions::default();
        for arg in args {
            match arg {
                a if is(a, "NX") => conditions.if_none = true,
                a if is(a, "XX") => conditions.if_any = true,
                a if is(a, "GT") => conditions.if_later = true,
                a if is(a, "LT") => conditions.if_sooner = true,
                _ => return Err(Error::about("Unsupported option ", arg, "")),
            }
        }
        if conditions.if_none && (conditions.if_any || conditions.if_later || conditions.if_sooner) {
            return Err(Error::err("NX and XX, GT or LT options at the same time are not compatible"));
        }
        if conditions.if_later && conditions.if_sooner {
            return Err(Error::err("GT and LT options at the same time are not compatible"));
        }
        Ok(conditions)
    }

    /// Whether a new deadline may take the place of the current one. No deadline counts as infinitely late.
    fn allow(&self, current: Option<i64>, new: i64) -> bool {
        !(self.if_none && current.is_some()
            || self.if_any && current.is_none()
            || self.if_later && current.is_none_or(|current| new <= current)
            || self.if_sooner && current.is_some_and(|current| new >= current))
    }
}

fn set(ctx: &mut Context<'_>, args: &[&[u8]], unit: Unit, command: &str) -> Result<Reply> {
    let conditions = Conditions::parse(&args[3..])?;
    let deadline = unit.deadline(args[2], ctx.state.clock.now_ms, command)?;
    let mut keys = ctx.keys();
    let Some(current) = keys.own_deadline(args[1]) else { return Ok(Reply::Int(0)) };
    if !conditions.allow(current, deadline) {
        return Ok(Reply::Int(0));
    }
    set_or_remove(&mut keys, args[1], deadline);
    Ok(Reply::Int(1))
}

fn expire(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    set(ctx, args, Unit { seconds: true, absolute: false }, "expire")
}

fn pexpire(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    set(ctx, args, Unit { seconds: false, absolute: false }, "pexpire")
}

fn expireat(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    set(ctx, args, Unit { seconds: true, absolute: true }, "expireat")
}

fn pexpireat(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    set(ctx, args, Unit { seconds: false, absolute: true }, "pexpireat")
}

/// Answers -2 without key, -1 without deadline, else what `shape` makes of deadline and present.
fn tell(ctx: &mut Context<'_>, key: &[u8], shape: fn(i64, i64) -> i64) -> Result<Reply> {
    let mut keys = ctx.keys();
    let now_ms = keys.now_ms();
    Ok(Reply::Int(match keys.deadline(key) {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline)) => shape(deadline, now_ms),
    }))
}

fn ttl(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    tell(ctx, args[1], |deadline, now| ((deadline - now).max(0) + 500) / 1000)
}

fn pttl(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    tell(ctx, args[1], |deadline, now| (deadline - now).max(0))
}

fn expiretime(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    tell(ctx, args[1], |deadline, _| (deadline + 500) / 1000)
}

fn pexpiretime(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    tell(ctx, args[1], |deadline, _| deadline)
}

fn persist(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    if !keys.set_expire(args[1], None) {
        return Ok(Reply::Int(0));
    }
    keys.notify(EventClass::GENERIC, "persist", args[1]);
    Ok(Reply::Int(1))
}
