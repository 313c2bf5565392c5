//! COMMAND and its subcommands: what the command table knows, as clients ask for it.

use super::arguments::is;
use super::context::Context;
use super::key_spec::KeySpec;
use super::server::help;
use super::spec::{Find, Flags, Group, Keys, Run, Spec, Use};
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
        .in_categories(&["@connection"])
}

pub(super) const COMMANDS: &[Spec] = &[row("command", all, -1, "2.8.13", "", "Describes all commands.").with(&[
    row("command|count", count, 2, "2.8.13", "", "Counts the commands."),
    row("command|info", info, -2, "2.8.13", "[name [name ...]]", "Describes some commands, or all."),
    row("command|docs", docs, -2, "7.0.0", "[name [name ...]]", "Gives the documentation of some commands, or of all."),
    row("command|getkeys", getkeys, -4, "2.8.13", "command [arg ...]", "Finds the keys among a request's arguments."),
    row(
        "command|getkeysandflags",
        getkeysandflags,
        -4,
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
    let one = |name: &&[u8]| TABLE.find_full(name).map_or(Reply::Nil, describe);
    Ok(Reply::Array(args[2..].iter().map(one).collect()))
}

/// Names of flags as COMMAND INFO shows them, in its order. It keeps quiet about MAY_REPLICATE.
const FLAG_NAMES: [(Flags, &str); 18] = [
    (Flags::WRITE, "write"),
    (Flags::READONLY, "readonly"),
    (Flags::DENYOOM, "denyoom"),
    (Flags::ADMIN, "admin"),
    (Flags::PUBSUB, "pubsub"),
    (Flags::NOSCRIPT, "noscript"),
    (Flags::BLOCKING, "blocking"),
    (Flags::LOADING, "loading"),
    (Flags::STALE, "stale"),
    (Flags::SKIP_MONITOR, "skip_monitor"),
    (Flags::SKIP_SLOWLOG, "skip_slowlog"),
    (Flags::FAST, "fast"),
    (Flags::NO_AUTH, "no_auth"),
    (Flags::NO_MANDATORY_KEYS, "no_mandatory_keys"),
    (Flags::NO_MULTI, "no_multi"),
    (Flags::MOVABLE_KEYS, "movablekeys"),
    (Flags::ALLOW_BUSY, "allow_busy"),
    (Flags::TOUCHES_ARBITRARY_KEYS, "touches_arbitrary_keys"),
];

/// ACL categories in the order in which Redis shows them.
const CATEGORIES: [&str; 22] = [
    "@keyspace",
    "@read",
    "@write",
    "@set",
    "@sortedset",
    "@list",
    "@hash",
    "@string",
    "@bitmap",
    "@hyperloglog",
    "@geo",
    "@stream",
    "@pubsub",
    "@admin",
    "@fast",
    "@slow",
    "@blocking",
    "@dangerous",
    "@connection",
    "@transaction",
    "@scripting",
    "@sql",
];

/// ACL categories: those of the row or of its family, and those that follow from the flags.
fn categories(spec: &Spec) -> Vec<&'static str> {
    let own: &[&str] = spec.categories.unwrap_or(match spec.group {
        Group::String => &["@string"],
        Group::Bitmap => &["@bitmap"],
        Group::Hash => &["@hash"],
        Group::List => &["@list"],
        Group::Set => &["@set"],
        Group::SortedSet => &["@sortedset"],
        Group::Generic => &["@keyspace"],
        Group::Transactions => &["@transaction"],
        Group::Scripting => &["@scripting"],
        Group::Connection => &["@connection"],
        Group::PubSub | Group::Server => &[],
        Group::Table => &["@sql"],
    });
    let has = |flag| spec.flags.contains(flag);
    let of_flags = [
        (has(Flags::WRITE), "@write"),
        (has(Flags::READONLY) && spec.group != Group::Scripting, "@read"),
        (has(Flags::ADMIN), "@admin"),
        (has(Flags::ADMIN), "@dangerous"),
        (has(Flags::PUBSUB), "@pubsub"),
        (has(Flags::FAST), "@fast"),
        (!has(Flags::FAST), "@slow"),
        (has(Flags::BLOCKING), "@blocking"),
    ];
    let of_flags = of_flags.into_iter().filter(|(holds, _)| *holds).map(|(_, name)| name);
    let mut all: Vec<&str> = own.iter().copied().chain(of_flags).collect();
    all.sort_by_key(|name| CATEGORIES.iter().position(|category| category == name));
    all
}

/// A command as COMMAND INFO shows it.
fn describe(command: &Command) -> Reply {
    let spec = command.spec;
    let ((first, last, step), is_partial) = spec.keys.legacy_range();
    let mut flags = spec.flags;
    flags.set(Flags::MOVABLE_KEYS, is_partial);
    let flag_names = FLAG_NAMES.iter().filter(|(flag, _)| flags.contains(*flag));
    Reply::Array(vec![
        Reply::bulk(spec.name),
        Reply::Int(spec.arity as i64),
        Reply::Set(flag_names.map(|(_, name)| Reply::status(*name)).collect()),
        Reply::Int(first as i64),
        Reply::Int(last as i64),
        Reply::Int(step as i64),
        Reply::Set(categories(spec).into_iter().map(Reply::status).collect()),
        Reply::Set(Vec::new()),
        Reply::Set(spec.keys.specs().map(describe_keys).collect()),
        Reply::Set(command.subcommands.iter().map(describe).collect()),
    ])
}

fn pair(name: &str, value: Reply) -> (Reply, Reply) {
    (Reply::bulk(name), value)
}

fn use_names(uses: Use) -> Reply {
    Reply::Set(uses.names().map(Reply::status).collect())
}

/// A key specification as COMMAND INFO shows it.
fn describe_keys(spec: &KeySpec) -> Reply {
    let typed = |kind: &str, fields: &[(&str, i64)]| {
        let fields = fields.iter().map(|(name, value)| pair(name, Reply::Int(*value))).collect();
        Reply::Map(vec![pair("type", Reply::bulk(kind)), pair("spec", Reply::Map(fields))])
    };
    let index = typed("index", &[("index", spec.first as i64)]);
    let (begin, find) = match spec.find {
        Find::Range { last, step } => {
            (index, typed("range", &[("lastkey", last as i64), ("keystep", step as i64), ("limit", 0)]))
        }
        Find::Counted { .. } => (index, typed("keynum", &[("keynumidx", 0), ("firstkey", 1), ("keystep", 1)])),
        Find::Anywhere(_) => (typed("unknown", &[]), typed("unknown", &[])),
    };
    Reply::Map(vec![pair("flags", use_names(spec.uses)), pair("begin_search", begin), pair("find_keys", find)])
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

/// The keys of a request inside another one, and what is done with them.
fn keys_of<'a>(request: &[&'a [u8]]) -> Result<Vec<(&'a [u8], Use)>> {
    let command = super::dispatch::find(request[0], request).map_err(|_| Error::err("Invalid command specified"))?;
    let spec = command.spec;
    if !spec.keys.has_keys() {
        return Err(Error::err("The command has no key arguments"));
    }
    if !spec.accepts(request.len()) {
        return Err(Error::err("Invalid number of arguments specified for command"));
    }
    let positions = match spec.keys.positions(request) {
        Some(positions) if !positions.is_empty() => positions,
        _ if spec.flags.contains(Flags::NO_MANDATORY_KEYS) => Vec::new(),
        _ => return Err(Error::err("Invalid arguments specified for command")),
    };
    Ok(positions.into_iter().map(|(at, uses)| (request[at], uses)).collect())
}

fn getkeys(_: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::bulks(keys_of(&args[2..])?.into_iter().map(|(key, _)| key)))
}

fn getkeysandflags(_: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let keys = keys_of(&args[2..])?;
    Ok(Reply::Array(
        keys.into_iter().map(|(key, uses)| Reply::Array(vec![Reply::bulk(key), use_names(uses)])).collect(),
    ))
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
