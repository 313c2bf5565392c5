//! Commands about what is on disk: SAVE, BGSAVE, BGREWRITEAOF, BACKUP, LASTSAVE, DURABILITY; and INFO's section about it.

use super::arguments::is;
use super::context::Context;
use super::info::Lines;
use super::spec::{Flags, Group, Keys, Run, Spec};
use crate::error::{Code, Error, Result};
use crate::journal::Backup;
use crate::reply::Reply;
use crate::session::{Blocked, Durability, Elsewhere};
use crate::wal::Condition;
use std::sync::Arc;

const fn row(
    name: &'static str,
    run: Run,
    arity: i32,
    flags: Flags,
    since: &'static str,
    usage: &'static str,
    summary: &'static str,
) -> Spec {
    Spec::row(Group::Server, name, run, arity, flags, Keys::None, since, "O(N) for N keys and rows", usage, summary)
}

const ADMIN: Flags = Flags::ADMIN.union(Flags::NOSCRIPT);
const FAST: Flags = Flags::LOADING.union(Flags::STALE).union(Flags::FAST);

pub(super) const COMMANDS: &[Spec] = &[
    row(
        "save",
        save,
        1,
        ADMIN.union(Flags::NO_MULTI),
        "1.0.0",
        "",
        "Makes a checkpoint, and answers when it is on disk.",
    ),
    row("bgsave", bgsave, -1, ADMIN, "1.0.0", "[SCHEDULE]", "Begins a checkpoint."),
    row("bgrewriteaof", bgrewriteaof, 1, ADMIN, "1.0.0", "", "Begins a checkpoint, after which the older log goes."),
    row(
        "backup",
        backup,
        2,
        ADMIN.union(Flags::NO_MULTI),
        "peryton",
        "name",
        "Makes a copy of the store as it is now, a directory of this name, and tells its path.",
    ),
    Spec {
        complexity: "O(1)",
        ..row("lastsave", lastsave, 1, FAST, "1.0.0", "", "Tells when the last checkpoint was made.")
    }
    .in_categories(&["@admin", "@dangerous"]),
    Spec {
        group: Group::Connection,
        complexity: "O(1)",
        ..row(
            "durability",
            durability,
            -1,
            FAST.union(Flags::NOSCRIPT),
            "peryton",
            "[SYNC | INTERVAL | NONE | DEFAULT]",
            "Chooses what the session's replies promise about changes, or tells it.",
        )
    },
];

/// The wait of a session that called SAVE. The checkpoint goes on when the session does not wait any more.
struct SaveTicket;

impl Elsewhere for SaveTicket {
    fn cancel(&self) {}
}

fn save(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    let saves = &mut ctx.state.journal.saves;
    saves.check()?;
    if saves.running {
        return Err(Error::err("Background save already in progress"));
    }
    wait_for_next(ctx);
    Ok(Reply::None)
}

/// Has the session wait for the next checkpoint.
fn wait_for_next(ctx: &mut Context<'_>) {
    let saves = &mut ctx.state.journal.saves;
    saves.wanted = true;
    let ticket: Arc<dyn Elsewhere> = Arc::new(SaveTicket);
    saves.waiting.push((ctx.session.id, ticket.clone()));
    ctx.session.blocked = Some(wait_for(ticket));
}

/// SHUTDOWN SAVE: true if a checkpoint comes first. With a log there is none, as the log has everything.
pub(super) fn comes_before_the_end(ctx: &mut Context<'_>) -> bool {
    if !ctx.state.journal.saves.possible || ctx.state.journal.log().is_some() {
        return false;
    }
    ctx.state.journal.saves.ends = true;
    wait_for_next(ctx);
    true
}

fn wait_for(ticket: Arc<dyn Elsewhere>) -> Blocked {
    Blocked {
        request: Vec::new(),
        keys: Vec::new(),
        deadline_ms: None,
        on_timeout: Error::new(Code::Cancelled, "the wait was ended; what is being written goes on").into(),
        elsewhere: Some(ticket),
        sweep: None,
    }
}

fn backup(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let saves = &mut ctx.state.journal.saves;
    saves.check()?;
    if saves.backup_place.as_os_str().is_empty() {
        return Err(Error::err("this store has no directory in which backups could be put"));
    }
    // A name and no path: who may use the store over a network must not write wherever its process may.
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let name = String::from_utf8_lossy(args[1]).into_owned();
    if name.is_empty() || name.len() > 100 || name.starts_with('.') || !name.as_bytes().iter().all(is_plain) {
        return Err(Error::err("a backup's name has letters, digits, '-', '_' and '.', and begins with no '.'"));
    }
    let ticket: Arc<dyn Elsewhere> = Arc::new(SaveTicket);
    saves.backups.push(Backup { name, session: ctx.session.id, ticket: ticket.clone() });
    ctx.session.blocked = Some(wait_for(ticket));
    Ok(Reply::None)
}

fn bgsave(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let scheduled = match &args[1..] {
        [] => false,
        [word] if is(word, "SCHEDULE") => true,
        _ => return Err(Error::syntax()),
    };
    let saves = &mut ctx.state.journal.saves;
    saves.check()?;
    if saves.running && !scheduled {
        return Err(Error::err("Background save already in progress"));
    }
    saves.wanted = true;
    Ok(Reply::status(if saves.running { "Background saving scheduled" } else { "Background saving started" }))
}

fn bgrewriteaof(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    let saves = &mut ctx.state.journal.saves;
    saves.check()?;
    saves.wanted = true;
    Ok(Reply::status(match saves.running {
        true => "Background append only file rewriting scheduled",
        false => "Background append only file rewriting started",
    }))
}

fn lastsave(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::Int(ctx.state.journal.saves.last_s))
}

fn durability(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    match &args[1..] {
        [] => {
            let durability = ctx.session.durability.unwrap_or(ctx.state.config.durability);
            return Ok(Reply::bulk(durability.name()));
        }
        [word] if is(word, "DEFAULT") => ctx.session.durability = None,
        [word] => {
            let known = Durability::parse(word);
            let durability = known.ok_or_else(|| Error::err("DURABILITY is SYNC, INTERVAL, NONE or DEFAULT"))?;
            ctx.state.config.check_durability(durability).map_err(Error::err)?;
            ctx.session.durability = Some(durability);
        }
        _ => return Err(Error::syntax()),
    }
    Ok(Reply::Ok)
}

/// INFO's section Persistence, in Redis's fields where one fits (a checkpoint is its RDB file, the log its AOF).
pub(super) fn section(ctx: &Context<'_>, lines: &mut Lines) {
    let (state, journal) = (&ctx.state, &ctx.state.journal);
    let saves = &journal.saves;
    let ok = |failed: bool| if failed { "err" } else { "ok" };
    lines.field("loading", 0);
    lines.field("async_loading", 0);
    lines.field("rdb_changes_since_last_save", state.stats.dirty - saves.dirty_at.min(state.stats.dirty));
    lines.field("rdb_bgsave_in_progress", i32::from(saves.running));
    lines.field("rdb_last_save_time", saves.last_s);
    lines.field("rdb_last_bgsave_status", ok(saves.failed.is_some()));
    lines.field("rdb_last_bgsave_time_sec", if saves.count == 0 { -1 } else { saves.took_ms / 1000 });
    lines.field("rdb_saves", saves.count);
    lines.field("aof_enabled", i32::from(journal.log().is_some()));
    lines.field("aof_rewrite_in_progress", 0);
    lines.field("aof_last_write_status", ok(journal.log().is_some_and(|log| log.condition() != Condition::Fine)));
    lines.field("durability", state.config.durability.name());
    if let Some(log) = journal.log() {
        lines.field("aof_current_size", log.size_bytes());
        lines.field("log_lsn", log.last());
        lines.field("log_durable_lsn", log.durable());
        lines.field("log_queued_bytes", log.queued_bytes());
        if let Some(why) = log.refusal() {
            lines.field("log_refuses", why);
        }
    }
    if let Some(why) = &saves.failed {
        lines.field("last_save_error", why);
    }
}
