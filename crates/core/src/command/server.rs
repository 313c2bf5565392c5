//! Commands about the server: COMMAND, CONFIG, DBSIZE, FLUSHDB, FLUSHALL, INFO, TIME and the like.

use super::context::Context;
use super::spec::{Flags, Group, Keys, Run, Spec};
use super::table::{Command, TABLE};
use crate::error::{Error, Result};
use crate::reply::Reply;

/// The version of Redis whose commands and replies are spoken.
pub const REDIS_VERSION: &str = "7.0.15";

const fn row(
    name: &'static str,
    run: Run,
    arity: i32,
    flags: Flags,
    usage: &'static str,
    summary: &'static str,
) -> Spec {
    Spec::row(Group::Server, name, run, arity, flags, Keys::None, "1.0.0", "O(1)", usage, summary)
}

const ANYTIME: Flags = Flags::LOADING.union(Flags::STALE);

pub(super) const COMMANDS: &[Spec] = &[
    row("command", command, -1, ANYTIME, "", "Tells of all commands.").with(&[
        row("command|count", command_count, 2, ANYTIME, "", "Counts the commands."),
        row("command|help", command_help, 2, ANYTIME, "", "Shows what COMMAND can do."),
    ]),
    row("dbsize", dbsize, 1, Flags::READONLY.union(Flags::FAST), "", "Counts the keys of the database."),
];

/// Runs a container command called without a subcommand.
pub(super) fn container(_: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    Err(super::dispatch::wrong_arity(&String::from_utf8_lossy(args[0]).to_ascii_lowercase()))
}

/// The lines of `<CONTAINER> HELP`, from the command table.
pub(super) fn help(container: &str) -> Reply {
    let mut lines =
        vec![Reply::status(format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"))];
    let command = TABLE.find(container.as_bytes());
    for sub in command.map_or(&[][..], |c| &c.subcommands) {
        let name = sub.spec.name.rsplit('|').next().unwrap_or_default().to_ascii_uppercase();
        lines.push(Reply::status(format!("{name} {}", sub.spec.usage).trim_end().to_string()));
        lines.push(Reply::status(format!("    {}", sub.spec.summary)));
    }
    Reply::Array(lines)
}

fn command(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::Array(TABLE.commands().iter().map(describe).collect()))
}

fn describe(command: &Command) -> Reply {
    let spec = command.spec;
    let (first, last, step) = match spec.keys {
        Keys::None => (0, 0, 0),
        Keys::Range { first, last, step } => (first, last, step),
        Keys::Found { shown, .. } => shown,
    };
    Reply::Array(vec![
        Reply::bulk(spec.name),
        Reply::Int(spec.arity as i64),
        Reply::Set(Vec::new()),
        Reply::Int(first as i64),
        Reply::Int(last as i64),
        Reply::Int(step as i64),
        Reply::Set(Vec::new()),
        Reply::Array(Vec::new()),
        Reply::Array(Vec::new()),
        Reply::Array(command.subcommands.iter().map(describe).collect()),
    ])
}

fn command_count(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::Int(TABLE.commands().len() as i64))
}

fn command_help(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(help("COMMAND"))
}

fn dbsize(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    let db = ctx.session.db;
    let size = ctx.state.keyspace.databases[db].len();
    i64::try_from(size).map(Reply::Int).map_err(|_| Error::out_of_range())
}
