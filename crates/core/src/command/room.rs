//! Makes room when memory is short: evicts keys before requests, inside statements that write, and in between.

use super::context::Context;
use super::dispatch;
use crate::error::{Code, Error, Result};
use crate::session::Session;
use crate::state::State;

/// Keys that are evicted between two looks at the clock; they are one effect.
const KEYS_AT_ONCE: usize = 16;

/// "command not allowed when used memory > 'maxmemory'." (Redis 7's text).
pub fn out_of_memory() -> Error {
    Error::new(Code::Oom, "command not allowed when used memory > 'maxmemory'.")
}

/// Evicts keys until what is used is within the limit, or the time for it is over. False: it is not, and no key can go.
#[inline]
pub fn make(state: &mut State, session: &mut Session) -> bool {
    if state.shortage.since_ns.is_none() && !state.is_over_limit() {
        return true;
    }
    let limit_ns = limit_ns(state.config.maxmemory_eviction_tenacity);
    let found = evict(state, session, limit_ns);
    note(state, found);
    found != Found::Nothing
}

/// How an eviction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// What is used is within the limit.
    Room,
    /// Some, and the time was over.
    Some,
    /// No more keys.
    Nothing,
}

#[cold]
fn evict(state: &mut State, session: &mut Session, limit_ns: u64) -> Found {
    let mut began_ns = None;
    loop {
        if !state.is_over_limit() {
            return Found::Room;
        }
        let now_ns = state.env.monotonic_ns();
        if now_ns - *began_ns.get_or_insert(now_ns) > limit_ns {
            return Found::Some;
        }
        if evict_some(state, session) == 0 {
            // What is being freed may be enough, and nobody knows yet.
            return if state.keyspace.shared.reaper.is_dropping_unmeasured() { Found::Some } else { Found::Nothing };
        }
    }
}

/// Evicts a few keys, as an effect of its own: while they are part of another one they take memory. Gives their number.
fn evict_some(state: &mut State, session: &mut Session) -> usize {
    // A log that takes nothing takes no eviction either (invariant 2).
    if state.journal.check_write().is_err() {
        return 0;
    }
    let mut effect = state.new_effect();
    let (policy, samples, now_ms) = (state.config.maxmemory_policy, state.config.maxmemory_samples, state.clock.now_ms);
    let mut evicted = 0;
    while evicted < KEYS_AT_ONCE
        && state.is_over_limit()
        && state.keyspace.evict(policy, samples, now_ms, &mut state.random, &mut effect.keys)
    {
        evicted += 1;
    }
    dispatch::commit_quietly(state, session, effect);
    evicted
}

/// How long one request may be held up, from 50 us a step up to 10, then more and more, as Redis has it.
fn limit_ns(tenacity: u32) -> u64 {
    match tenacity {
        0..=10 => 50_000 * u64::from(tenacity),
        11..100 => (500_000.0 * 1.15f64.powi(tenacity as i32 - 10)) as u64,
        _ => u64::MAX,
    }
}

#[cold]
fn note(state: &mut State, found: Found) {
    state.shortage.is_full = found == Found::Nothing;
    state.shortage.goes_on = found == Found::Some;
    if found != Found::Room {
        state.shortage.since_ns.get_or_insert(state.monotonic_ns);
    } else if let Some(since_ns) = state.shortage.since_ns.take() {
        state.shortage.total_ns += state.monotonic_ns.saturating_sub(since_ns);
    }
}

/// Goes on with what requests had no time for. True: there is more to do.
pub fn keep_house(state: &mut State) -> bool {
    if state.shortage.since_ns.is_some() {
        let mut nobody = dispatch::nobody(state);
        make(state, &mut nobody);
    }
    state.shortage.goes_on && !state.keyspace.shared.reaper.is_dropping_unmeasured()
}

/// A statement is about to write more rows: an error when there is no memory for them.
///
/// Keys are evicted at once and apart from the statement, whose failure does not bring them back. That must not be done
/// when keys have been changed before, in the same script: the log would have the evictions come first.
#[inline]
pub fn make_for_rows(ctx: &mut Context<'_>) -> Result<()> {
    if ctx.state.is_over_limit() { make_for_rows_now(ctx) } else { Ok(()) }
}

#[cold]
fn make_for_rows_now(ctx: &mut Context<'_>) -> Result<()> {
    let is_first = ctx.effect.keys.dirty == 0 && ctx.session.transaction.is_none();
    if !is_first {
        return Err(out_of_memory());
    }
    let held = std::mem::replace(&mut ctx.state.routines.held, true);
    // Without an end: rows would come faster than keys go.
    let found = evict(ctx.state, ctx.session, u64::MAX);
    ctx.state.routines.held = held;
    match found {
        Found::Nothing => Err(out_of_memory()),
        _ => Ok(()),
    }
}
