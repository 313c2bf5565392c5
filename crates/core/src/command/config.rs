//! CONFIG GET, SET, RESETSTAT and REWRITE.

use super::context::Context;
use super::room;
use super::server::{container, help};
use super::spec::{Flags, Group, Keys, Run, Spec};
use crate::config;
use crate::ds::glob;
use crate::error::{Error, Result};
use crate::reply::Reply;
use crate::state::{CommandStats, Stats};

const fn row(name: &'static str, run: Run, arity: i32, usage: &'static str, summary: &'static str) -> Spec {
    let flags = Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE);
    Spec::row(Group::Server, name, run, arity, flags, Keys::None, "2.0.0", "O(1)", usage, summary)
}

pub(super) const COMMANDS: &[Spec] = &[row("config", container, -2, "", "Reads and changes settings.").holding(&[
    row("config|get", get, -3, "pattern [pattern ...]", "Shows settings whose names match."),
    row("config|set", set, -4, "name value [name value ...]", "Changes settings, all or none."),
    row("config|resetstat", resetstat, 2, "", "Sets the counters of INFO back to zero."),
    Spec { since: "2.8.0", ..row("config|rewrite", rewrite, 2, "", "Writes the settings to the configuration file.") },
    Spec {
        flags: Flags::LOADING.union(Flags::STALE),
        since: "5.0.0",
        ..row("config|help", config_help, 2, "", "Shows what CONFIG can do.")
    },
])];

fn config_help(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(help("CONFIG"))
}

fn get(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let all = config::all(&ctx.state.config, &ctx.state.keyspace);
    // A setting is shown once, under its own name unless it was asked for by name, and then as it was asked for.
    let shown = |name: &'static str| {
        args[2..].iter().find_map(|asked| match asked {
            asked if asked.eq_ignore_ascii_case(name.as_bytes()) => Some(Reply::bulk(asked)),
            asked if glob::matches_nocase(asked, name.as_bytes()) => Some(Reply::bulk(name)),
            _ => None,
        })
    };
    let found = all.into_iter().filter_map(|(name, value)| Some((shown(name)?, Reply::bulk(value))));
    Ok(Reply::Map(found.collect()))
}

fn set(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    if !args.len().is_multiple_of(2) {
        return Err(Error::syntax());
    }
    let pairs: Vec<(String, String)> = args[2..]
        .chunks(2)
        .map(|pair| (String::from_utf8_lossy(pair[0]).into_owned(), String::from_utf8_lossy(pair[1]).into_owned()))
        .collect();
    for (at, (name, _)) in pairs.iter().enumerate() {
        if pairs[..at].iter().any(|(earlier, _)| earlier.eq_ignore_ascii_case(name)) {
            return Err(Error::err(format!(
                "CONFIG SET failed (possibly related to argument '{name}') - duplicate parameter"
            )));
        }
    }
    // All or none: a copy is changed first.
    let mut changed = ctx.state.config.clone();
    let shared = &ctx.state.keyspace.shared;
    let (thresholds, clock) = (shared.thresholds.clone(), shared.clock);
    for (name, value) in &pairs {
        if let Err(error) = config::set(&mut changed, &mut ctx.state.keyspace, name, value) {
            let shared = &mut ctx.state.keyspace.shared;
            (shared.thresholds, shared.clock) = (thresholds, clock);
            return Err(error);
        }
    }
    ctx.state.keyspace.shared.clock.lfu = changed.maxmemory_policy.is_lfu();
    let limit_moved = changed.maxmemory != ctx.state.config.maxmemory;
    if changed.procedure_time_limit_ms != ctx.state.config.procedure_time_limit_ms {
        let now_ns = ctx.state.env.monotonic_ns();
        ctx.state.scripts.watch().set_time_limit(changed.procedure_time_limit_ms, now_ns);
    }
    ctx.state.config = changed;
    if limit_moved && ctx.effect.is_empty() && ctx.session.transaction.is_none() {
        // As in Redis, keys begin to go with the command that lowers the limit. But not by EXEC after changes: those are
        // not in the log yet, where the evictions would come first.
        room::make(ctx.state, ctx.session);
    }
    Ok(Reply::Ok)
}

fn resetstat(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    ctx.state.stats = Stats { dirty: ctx.state.stats.dirty, ..Stats::default() };
    ctx.state.keyspace.shared.stats = Default::default();
    ctx.state.command_stats.fill(CommandStats::default());
    ctx.state.externals.forget_usage();
    ctx.state.scripts.functions().iter().for_each(|functions| functions.forget_uses());
    Ok(Reply::Ok)
}

fn rewrite(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Err(Error::err("The server is running without a config file"))
}
