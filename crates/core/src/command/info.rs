//! INFO: the state of the server in Redis's sections and field names.

use super::arguments::is;
use super::context::Context;
use super::routine;
use super::save;
use super::server::REDIS_VERSION;
use super::spec::{Flags, Group, Keys, Spec};
use super::table::TABLE;
use crate::error::Result;
use crate::memory;
use crate::reply::Reply;
use std::fmt::{Display, Write};

pub(super) const COMMANDS: &[Spec] = &[Spec::row(
    Group::Server,
    "info",
    info,
    -1,
    Flags::LOADING.union(Flags::STALE),
    Keys::None,
    "1.0.0",
    "O(1)",
    "[section [section ...]]",
    "Describes the server: clients, memory, counters, keys.",
)
.in_categories(&["@dangerous"])];

/// A section: its name, whether INFO without arguments shows it, and what writes it.
struct Section {
    name: &'static str,
    by_default: bool,
    write: fn(&Context<'_>, &mut Lines),
}

const SECTIONS: &[Section] = &[
    Section { name: "Server", by_default: true, write: server },
    Section { name: "Clients", by_default: true, write: clients },
    Section { name: "Memory", by_default: true, write: memory_section },
    Section { name: "Persistence", by_default: true, write: save::section },
    Section { name: "Stats", by_default: true, write: stats },
    Section { name: "Replication", by_default: true, write: replication },
    Section { name: "CPU", by_default: true, write: cpu },
    Section { name: "Modules", by_default: true, write: |_, _| {} },
    Section { name: "Commandstats", by_default: false, write: commandstats },
    Section { name: "Routines", by_default: false, write: routines },
    Section { name: "Errorstats", by_default: true, write: errorstats },
    Section { name: "Cluster", by_default: true, write: |_, lines| lines.field("cluster_enabled", 0) },
    Section { name: "Keyspace", by_default: true, write: keyspace },
];

/// Text in INFO's form.
#[derive(Default)]
pub(super) struct Lines(String);

impl Lines {
    pub(super) fn field(&mut self, name: &str, value: impl Display) {
        // Writing to a String cannot fail.
        let _ = write!(self.0, "{name}:{value}\r\n");
    }

    fn bytes(&mut self, name: &str, bytes: u64) {
        self.field(name, bytes);
        self.field(&format!("{name}_human"), human(bytes));
    }
}

/// Bytes as Redis shows them to people: `1.23M`.
fn human(bytes: u64) -> String {
    let units = [("P", 50), ("T", 40), ("G", 30), ("M", 20), ("K", 10)];
    let unit = units.iter().find(|(_, shift)| bytes >> shift > 0);
    unit.map_or(format!("{bytes}B"), |(letter, shift)| format!("{:.2}{letter}", bytes as f64 / (1u64 << shift) as f64))
}

fn info(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let wanted = |section: &Section| {
        let named = |word: &&[u8]| {
            is(word, section.name)
                || is(word, "all")
                || is(word, "everything")
                || (is(word, "default") && section.by_default)
        };
        if args.len() > 1 { args[1..].iter().any(named) } else { section.by_default }
    };
    let mut lines = Lines::default();
    for section in SECTIONS.iter().filter(|section| wanted(section)) {
        if !lines.0.is_empty() {
            lines.0.push_str("\r\n");
        }
        lines.0.push_str(&format!("# {}\r\n", section.name));
        (section.write)(ctx, &mut lines);
    }
    Ok(Reply::Verbatim(*b"txt", lines.0.as_bytes().into()))
}

fn server(ctx: &Context<'_>, lines: &mut Lines) {
    let uptime_s = (ctx.state.clock.now_ms - ctx.state.started_ms) / 1000;
    lines.field("redis_version", REDIS_VERSION);
    lines.field("peryton_version", env!("CARGO_PKG_VERSION"));
    lines.field("redis_mode", "standalone");
    lines.field("os", format!("{} {}", std::env::consts::OS, std::env::consts::ARCH));
    lines.field("arch_bits", usize::BITS);
    lines.field("multiplexing_api", "epoll");
    lines.field("process_id", std::process::id());
    lines.field("run_id", &ctx.state.run_id);
    lines.field("tcp_port", ctx.session.address.1.rsplit(':').next().unwrap_or("0"));
    lines.field("server_time_usec", ctx.state.clock.now_us);
    lines.field("uptime_in_seconds", uptime_s);
    lines.field("uptime_in_days", uptime_s / 86400);
    lines.field("hz", 10);
    lines.field("configured_hz", 10);
    lines.field("executable", std::env::current_exe().unwrap_or_default().display());
    lines.field("config_file", "");
}

fn clients(ctx: &Context<'_>, lines: &mut Lines) {
    let blocked = ctx.state.sessions.values().filter(|session| session.blocked.is_some()).count();
    lines.field("connected_clients", ctx.state.sessions.len() + 1);
    lines.field("cluster_connections", 0);
    lines.field("maxclients", ctx.state.config.maxclients);
    lines.field("blocked_clients", blocked);
    lines.field("tracking_clients", 0);
    lines.field("clients_in_timeout_table", ctx.state.deadlines.len());
}

/// What scripts and functions take: their texts, and the interpreters (`vm`).
fn scripts_section(ctx: &Context<'_>, lines: &mut Lines) {
    let (scripts, libraries) = (&ctx.state.scripts, &ctx.state.tables.catalog.libraries);
    let (vm_eval, vm_functions) = (scripts.memory(), scripts.functions_memory());
    lines.field("used_memory_lua", vm_eval);
    lines.field("used_memory_vm_eval", vm_eval);
    lines.field("used_memory_scripts_eval", scripts.registry.bytes());
    lines.field("number_of_cached_scripts", scripts.registry.len());
    lines.field("number_of_functions", libraries.functions());
    lines.field("number_of_libraries", libraries.len());
    lines.field("used_memory_vm_functions", vm_functions);
    lines.bytes("used_memory_vm_total", (vm_eval + vm_functions) as u64);
    lines.field("used_memory_functions", libraries.bytes());
    lines.bytes("used_memory_scripts", (scripts.registry.bytes() + libraries.bytes()) as u64);
}

fn memory_section(ctx: &Context<'_>, lines: &mut Lines) {
    let used = memory::used();
    let resident = memory::resident();
    lines.bytes("used_memory", used);
    lines.bytes("used_memory_rss", resident);
    lines.bytes("used_memory_peak", memory::peak().max(used));
    lines.bytes("total_system_memory", memory::system_total());
    lines.bytes("maxmemory", ctx.state.config.maxmemory);
    lines.field("maxmemory_policy", ctx.state.config.maxmemory_policy.name());
    scripts_section(ctx, lines);
    lines.field("mem_fragmentation_ratio", format!("{:.2}", resident as f64 / used.max(1) as f64));
    lines.field("mem_fragmentation_bytes", resident as i64 - used as i64);
    let reaper = &ctx.state.keyspace.shared.reaper;
    let (pending, freed) = reaper.counts();
    // Replicas' buffers and the log's are what Redis leaves out: we have none of the former, and count the latter.
    lines.field("mem_not_counted_for_evict", reaper.pending_bytes());
    lines.field("mem_allocator", "mimalloc");
    lines.field("active_defrag_running", 0);
    lines.field("lazyfree_pending_objects", pending);
    lines.field("lazyfreed_objects", freed);
}

fn stats(ctx: &Context<'_>, lines: &mut Lines) {
    let stats = &ctx.state.stats;
    let keys = &ctx.state.keyspace.shared.stats;
    lines.field("total_connections_received", stats.connections);
    lines.field("total_commands_processed", stats.commands);
    lines.field("instantaneous_ops_per_sec", ctx.state.request_rate.per_second());
    lines.field("rejected_connections", 0);
    lines.field("expired_keys", keys.expired);
    lines.field("evicted_keys", keys.evicted);
    let shortage = &ctx.state.shortage;
    let current_ns = shortage.since_ns.map_or(0, |since_ns| ctx.state.monotonic_ns.saturating_sub(since_ns));
    lines.field("total_eviction_exceeded_time", (shortage.total_ns + current_ns) / 1_000_000);
    lines.field("current_eviction_exceeded_time", current_ns / 1_000_000);
    lines.field("keyspace_hits", keys.hits);
    lines.field("keyspace_misses", keys.misses);
    lines.field("pubsub_channels", ctx.state.pubsub.channels());
    lines.field("pubsub_patterns", ctx.state.pubsub.patterns());
    lines.field("latest_fork_usec", 0);
    lines.field("total_forks", 0);
    lines.field("total_error_replies", stats.errors_total);
    let transactions = &ctx.state.transactions;
    lines.field("transactions_open", transactions.len());
    lines.field("transactions_committed", transactions.stats.committed);
    lines.field("transactions_rolled_back", transactions.stats.rolled_back);
    lines.field("transactions_conflicts", transactions.stats.conflicts);
    lines.field("transactions_expired", transactions.stats.expired);
}

fn replication(ctx: &Context<'_>, lines: &mut Lines) {
    lines.field("role", "master");
    lines.field("connected_slaves", 0);
    lines.field("master_failover_state", "no-failover");
    lines.field("master_replid", &ctx.state.run_id);
    lines.field("master_repl_offset", 0);
}

fn cpu(_: &Context<'_>, lines: &mut Lines) {
    let (user_s, system_s) = memory::cpu_seconds();
    lines.field("used_cpu_sys", format!("{system_s:.6}"));
    lines.field("used_cpu_user", format!("{user_s:.6}"));
}

fn commandstats(ctx: &Context<'_>, lines: &mut Lines) {
    let all = TABLE.commands().iter().flat_map(|c| std::iter::once(c).chain(&c.subcommands));
    for command in all {
        let stats = &ctx.state.command_stats[command.id];
        if stats.calls + stats.rejected == 0 {
            continue;
        }
        let us = stats.ns / 1000;
        let value = format!(
            "calls={},usec={us},usec_per_call={:.2},rejected_calls={},failed_calls={}",
            stats.calls,
            us as f64 / stats.calls.max(1) as f64,
            stats.rejected,
            stats.failed
        );
        lines.field(&format!("cmdstat_{}", command.spec.name), value);
    }
}

/// How functions were used; times are of those that requests called.
fn routines(ctx: &Context<'_>, lines: &mut Lines) {
    for routine in routine::uses(ctx.state).iter().filter(|routine| routine.uses.calls > 0) {
        let uses = &routine.uses;
        let value = format!(
            "calls={},usec={},usec_per_call={:.2},failed_calls={},max_usec={},p99_usec={}",
            uses.calls,
            uses.total_ns / 1000,
            uses.total_ns as f64 / 1000.0 / uses.timed.max(1) as f64,
            uses.failures,
            uses.max_ns / 1000,
            uses.quantile_ns(0.99) / 1000
        );
        lines.field(&format!("routine_{}", routine.name), value);
    }
}

fn errorstats(ctx: &Context<'_>, lines: &mut Lines) {
    for (word, count) in &ctx.state.stats.errors {
        lines.field(&format!("errorstat_{word}"), format!("count={count}"));
    }
}

fn keyspace(ctx: &Context<'_>, lines: &mut Lines) {
    for (number, database) in ctx.state.keyspace.databases.iter().enumerate() {
        if !database.is_empty() {
            let expires = database.len_with_deadline();
            lines.field(&format!("db{number}"), format!("keys={},expires={expires},avg_ttl=0", database.len()));
        }
    }
}
