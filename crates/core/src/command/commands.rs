//! COMMAND and its subcommands: what the command table knows, as clients ask for it.

use super::arguments::is;
use super::context::Context;
use super::server::help;
use super::spec::{Flags, Group, Keys, Run, Spec};
use super::table::{Command, TABLE};
use crate::ds::glob;
use crate::error::{Error, Result};
use crate::reply::Reply;

const fn row(
    name: &'static str,
    run: Run,
    arity: i32,
    since: &'static str,
    usage: &'static str,
    summary: &'static str,
) -> Spec {
    let flags = Flags::LOADING.union(Flags::STALE);
    let complexity = "O(N) where N is the number of commands to look up";
    Spec::row(Group::Server, name, run, arity, flags, Keys::None, since, complexity, usage, summary)
}

pub(super) const COMMANDS: &[Spec] = &[row("command", all, -1, "2.8.13", "", "Describes all commands.").with(&[
    row("command|count", count, 2, "2.8.13", "", "Counts the commands."),
    row("command|info", info, -2, "2.8.13", "[name [name ...]]", "Describes some commands, or all."),
    row("command|docs", docs, -2, "7.0.0", "[name [name ...]]", "Gives the documentation of some commands, or of all."),
    row("command|getkeys", getkeys, -3, "2.8.13", "command [arg ...]", "Finds the keys among a request's arguments."),
    row(
        "command|getkeysandflags",
        getkeysandflags,
        -3,
        "7.0.0",
        "command [arg ...]",
        "Finds the keys and how they are used.",
    ),
    row(
        "command|list",
        list,
        -2,
        "7.0.0",
        "[FILTERBY MODULE name | ACLCAT category | PATTERN pattern]",
        "Lists command names.",
    ),
    row("command|help", command_help, 2, "5.0.0", "", "Shows what COMMAND can do."),
])];

fn command_help(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(help("COMMAND"))
}

fn all(_: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    if args.len() > 1 {
        return Err(super::dispatch::unknown_subcommand("command", args[1]));
    }
    Ok(Reply::Array(TABLE.commands().iter().map(describe).collect()))
}

fn count(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::Int(TABLE.commands().len() as i64))
}

fn info(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    if args.len() == 2 {
        return all(ctx, &args[..1]);
    }
    let one = |name: &&[u8]| TABLE.find_full(name).map_or(Reply::NilArray, describe);
    Ok(Reply::Array(args[2..].iter().map(one).collect()))
}

/// Names of flags as COMMAND INFO shows them.
const FLAG_NAMES: [(Flags, &str); 17] = [
    (Flags::WRITE, "write"),
    (Flags::READONLY, "readonly"),
    (Flags::DENYOOM, "denyoom"),
    (Flags::ADMIN, "admin"),
    (Flags::PUBSUB, "pubsub"),
    (Flags::NOSCRIPT, "noscript"),
    (Flags::BLOCKING, "blocking"),
    (Flags::LOADING, "loading"),
    (Flags::STALE, "stale"),
    (Flags::SKIP_SLOWLOG, "skip_slowlog"),
    (Flags::FAST, "fast"),
    (Flags::NO_AUTH, "no_auth"),
    (Flags::MAY_REPLICATE, "may_replicate"),
    (Flags::NO_MULTI, "no_multi"),
    (Flags::MOVABLE_KEYS, "movablekeys"),
    (Flags::ALLOW_BUSY, "allow_busy"),
    (Flags::TOUCHES_ARBITRARY_KEYS, "touches_arbitrary_keys"),
];

/// ACL categories, which follow from family and flags.
fn categories(spec: &Spec) -> Vec<&'static str> {
    let family = match spec.group {
        Group::String => "@string",
        Group::Bitmap => "@bitmap",
        Group::Hash => "@hash",
        Group::List => "@list",
        Group::Set => "@set",
        Group::SortedSet => "@sortedset",
        Group::Generic => "@keyspace",
        Group::Transactions => "@transaction",
        Group::PubSub => "@pubsub",
        Group::Scripting => "@scripting",
        Group::Connection => "@connection",
        Group::Server => "",
        Group::Table => "@sql",
    };
    let has = |flag| spec.flags.contains(flag);
    let all = [
        (has(Flags::WRITE), "@write"),
        (has(Flags::READONLY) && spec.group != Group::Scripting, "@read"),
        (!family.is_empty() && spec.group != Group::PubSub, family),
        (has(Flags::ADMIN), "@admin"),
        (has(Flags::ADMIN), "@dangerous"),
        (has(Flags::PUBSUB), "@pubsub"),
        (has(Flags::FAST), "@fast"),
        (!has(Flags::FAST), "@slow"),
        (has(Flags::BLOCKING), "@blocking"),
    ];
    all.into_iter().filter(|(holds, _)| *holds).map(|(_, name)| name).collect()
}

fn shown_range(keys: &Keys) -> (i32, i32, i32) {
    match *keys {
        Keys::None => (0, 0, 0),
        Keys::Range { first, last, step } => (first, last, step),
        Keys::Found { shown, .. } => shown,
    }
}

/// A command as COMMAND INFO shows it.
fn describe(command: &Command) -> Reply {
    let spec = command.spec;
    let mut flags = spec.flags;
    flags.set(Flags::MOVABLE_KEYS, flags.contains(Flags::MOVABLE_KEYS) || matches!(spec.keys, Keys::Found { .. }));
    let flag_names = FLAG_NAMES.iter().filter(|(flag, _)| flags.contains(*flag));
    let (first, last, step) = shown_range(&spec.keys);
    Reply::Array(vec![
        Reply::bulk(spec.name),
        Reply::Int(spec.arity as i64),
        Reply::Set(flag_names.map(|(_, name)| Reply::status(*name)).collect()),
        Reply::Int(first as i64),
        Reply::Int(last as i64),
        Reply::Int(step as i64),
        Reply::Set(categories(spec).into_iter().map(Reply::status).collect()),
        Reply::Array(Vec::new()),
        Reply::Array(key_specs(spec)),
        Reply::Array(command.subcommands.iter().map(describe).collect()),
    ])
}

/// The key specification of a command whose keys stand in a range.
fn key_specs(spec: &Spec) -> Vec<Reply> {
    let Keys::Range { first, last, step } = spec.keys else { return Vec::new() };
    let flags = if spec.flags.contains(Flags::WRITE) { ["RW", "update"] } else { ["RO", "access"] };
    // A range's last key is told relative to the first, unless it counts from the end.
    let last = if last < 0 { last } else { last - first };
    let pair = |name: &str, value: Reply| (Reply::bulk(name), value);
    let search = vec![
        pair("type", Reply::bulk("index")),
        pair("spec", Reply::Map(vec![pair("index", Reply::Int(first as i64))])),
    ];
    let range = vec![
        pair("lastkey", Reply::Int(last as i64)),
        pair("keystep", Reply::Int(step as i64)),
        pair("limit", Reply::Int(0)),
    ];
    let find = vec![pair("type", Reply::bulk("range")), pair("spec", Reply::Map(range))];
    vec![Reply::Map(vec![
        pair("flags", Reply::Set(flags.into_iter().map(Reply::status).collect())),
        pair("begin_search", Reply::Map(search)),
        pair("find_keys", Reply::Map(find)),
    ])]
}

fn docs(_: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let commands: Vec<&Command> = if args.len() == 2 {
        TABLE.commands().iter().collect()
    } else {
        args[2..].iter().filter_map(|name| TABLE.find_full(name)).collect()
    };
    Ok(Reply::Map(commands.into_iter().map(|c| (Reply::bulk(c.spec.name), document(c))).collect()))
}

/// A command as COMMAND DOCS shows it.
fn document(command: &Command) -> Reply {
    let spec = command.spec;
    let pair = |name: &str, value: Reply| (Reply::bulk(name), value);
    let mut fields = vec![
        pair("summary", Reply::bulk(spec.summary)),
        pair("since", Reply::bulk(spec.since)),
        pair("group", Reply::bulk(spec.group.name())),
        pair("complexity", Reply::bulk(spec.complexity)),
    ];
    if !spec.usage.is_empty() {
        fields.push(pair("arguments", super::usage::arguments(spec.usage)));
    }
    if !command.subcommands.is_empty() {
        let subcommands = command.subcommands.iter().map(|sub| (Reply::bulk(sub.spec.name), document(sub)));
        fields.push(pair("subcommands", Reply::Map(subcommands.collect())));
    }
    Reply::Map(fields)
}

/// The command of a request inside another one, and the positions of its keys.
fn keys_of<'a>(request: &[&'a [u8]]) -> Result<(&'static Command, Vec<&'a [u8]>)> {
    let command = super::dispatch::find(request[0], request).map_err(|_| Error::err("Invalid command specified"))?;
    let spec = command.spec;
    if matches!(spec.keys, Keys::None) {
        return Err(Error::err("The command has no key arguments"));
    }
    if !spec.accepts(request.len()) {
        return Err(Error::err("Invalid number of arguments specified for command"));
    }
    let positions = spec.key_positions(request).filter(|positions| !positions.is_empty());
    let positions = positions.ok_or_else(|| Error::err("Invalid arguments specified for command"))?;
    Ok((command, positions.into_iter().map(|p| request[p]).collect()))
}

fn getkeys(_: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::bulks(keys_of(&args[2..])?.1))
}

fn getkeysandflags(_: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let (command, keys) = keys_of(&args[2..])?;
    let flags: &[&str] = if command.spec.flags.contains(Flags::WRITE) { &["RW", "update"] } else { &["RO", "access"] };
    let flags = || Reply::Set(flags.iter().map(|flag| Reply::status(*flag)).collect());
    Ok(Reply::Array(keys.iter().map(|key| Reply::Array(vec![Reply::bulk(key), flags()])).collect()))
}

fn list(_: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let all = TABLE.commands().iter().flat_map(|c| std::iter::once(c).chain(&c.subcommands)).map(|c| c.spec);
    let chosen: Vec<&Spec> = match &args[2..] {
        [] => all.collect(),
        [by, what, value] if is(by, "FILTERBY") && is(what, "PATTERN") => {
            all.filter(|spec| glob::matches_nocase(value, spec.name.as_bytes())).collect()
        }
        [by, what, value] if is(by, "FILTERBY") && is(what, "ACLCAT") => all
            .filter(|spec| categories(spec).iter().any(|name| name.as_bytes()[1..].eq_ignore_ascii_case(value)))
            .collect(),
        [by, what, _] if is(by, "FILTERBY") && is(what, "MODULE") => Vec::new(),
        _ => return Err(Error::syntax()),
    };
    Ok(Reply::bulks(chosen.into_iter().map(|spec| spec.name)))
}
