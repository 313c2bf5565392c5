//! Commands on keys of any type: DEL, EXISTS, TYPE, RENAME, COPY, MOVE, SCAN, OBJECT and the like.

use super::arguments::{cursor, database_number, integer, is};
use super::connection::database;
use super::context::Context;
use super::server::{container, help};
use super::spec::{Flags, Group, Keys, Run, Spec, Use};
use crate::ds::glob;
use crate::error::{Error, Result};
use crate::keyspace::EventClass;
use crate::keyspace::entry::{EntryRef, ValueRef};
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
    Spec::row(Group::Generic, name, run, arity, flags, keys, since, "O(1)", usage, summary)
}

const fn costs(complexity: &'static str, spec: Spec) -> Spec {
    Spec { complexity, ..spec }
}

const READ: Flags = Flags::READONLY.union(Flags::FAST);
const WRITE: Flags = Flags::WRITE;
const PER_KEY: &str = "O(N) where N is the number of keys";
const ALL_KEYS: &str = "O(N) where N is the number of keys in the database";
const OBJECT_KEY: Keys = Keys::of_subcommand(Use::LOOK);

pub(super) const COMMANDS: &[Spec] = &[
    costs(PER_KEY, row("del", del, -2, WRITE, Keys::all(Use::REMOVE), "1.0.0", "key [key ...]", "Removes keys.")),
    costs(
        PER_KEY,
        row(
            "unlink",
            unlink,
            -2,
            WRITE.union(Flags::FAST),
            Keys::all(Use::REMOVE),
            "4.0.0",
            "key [key ...]",
            "Removes keys; their memory is freed in the background.",
        ),
    ),
    costs(
        PER_KEY,
        row(
            "exists",
            exists,
            -2,
            READ,
            Keys::all(Use::LOOK),
            "1.0.0",
            "key [key ...]",
            "Counts how many of the keys exist.",
        ),
    ),
    costs(
        PER_KEY,
        row(
            "touch",
            touch,
            -2,
            READ,
            Keys::all(Use::LOOK),
            "3.2.1",
            "key [key ...]",
            "Marks keys as used; counts those that exist.",
        ),
    ),
    row("type", kind, 2, READ, Keys::one(Use::LOOK), "1.0.0", "key", "Tells the type of a key's value."),
    costs(
        ALL_KEYS,
        row("keys", keys, 2, Flags::READONLY, Keys::None, "1.0.0", "pattern", "Lists all keys that match.")
            .in_categories(&["@keyspace", "@dangerous"]),
    ),
    row("randomkey", randomkey, 1, Flags::READONLY, Keys::None, "1.0.0", "", "Picks a key at random."),
    row(
        "rename",
        rename,
        3,
        WRITE,
        Keys::two(Use::TAKE, Use::REPLACE),
        "1.0.0",
        "key newkey",
        "Gives a key another name, replacing what had it.",
    ),
    row(
        "renamenx",
        renamenx,
        3,
        WRITE.union(Flags::FAST),
        Keys::two(Use::TAKE, Use::CREATE),
        "1.0.0",
        "key newkey",
        "Gives a key another name unless it is taken.",
    ),
    row(
        "move",
        move_key,
        3,
        WRITE.union(Flags::FAST),
        Keys::one(Use::READ_CHANGE),
        "1.0.0",
        "key db",
        "Moves a key to another database.",
    ),
    costs(
        "O(N) where N is the size of the value",
        row(
            "copy",
            copy,
            -3,
            WRITE.union(Flags::DENYOOM),
            Keys::two(Use::READ, Use::REPLACE),
            "6.2.0",
            "source destination [DB destination-db] [REPLACE]",
            "Copies a key.",
        ),
    ),
    row(
        "scan",
        scan,
        -2,
        Flags::READONLY,
        Keys::None,
        "2.8.0",
        "cursor [MATCH pattern] [COUNT count] [TYPE type]",
        "Lists the keys a part at a time.",
    ),
    row("object", container, -2, Flags::empty(), Keys::None, "2.2.3", "", "Looks inside keys.").holding(&[
        row(
            "object|encoding",
            object_encoding,
            3,
            Flags::READONLY,
            OBJECT_KEY,
            "2.2.3",
            "key",
            "Tells how a value is represented.",
        ),
        row(
            "object|refcount",
            object_refcount,
            3,
            Flags::READONLY,
            OBJECT_KEY,
            "2.2.3",
            "key",
            "Tells how many references a value has.",
        ),
        row(
            "object|idletime",
            object_idletime,
            3,
            Flags::READONLY,
            OBJECT_KEY,
            "2.2.3",
            "key",
            "Tells how long a key was not used, seconds.",
        ),
        row(
            "object|freq",
            object_freq,
            3,
            Flags::READONLY,
            OBJECT_KEY,
            "4.0.0",
            "key",
            "Tells how often a key is used, on a logarithmic scale.",
        ),
        row(
            "object|help",
            object_help,
            2,
            Flags::LOADING.union(Flags::STALE),
            Keys::None,
            "6.2.0",
            "",
            "Shows what OBJECT can do.",
        ),
    ]),
];

fn del(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    let mut removed = 0;
    for key in &args[1..] {
        if keys.remove(key) {
            keys.notify(EventClass::GENERIC, "del", key);
            removed += 1;
        }
    }
    Ok(Reply::Int(removed))
}

/// Big values are always freed away from the baton, so this is DEL.
fn unlink(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    del(ctx, args)
}

fn exists(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    Ok(Reply::Int(args[1..].iter().filter(|key| keys.exists(key)).count() as i64))
}

fn touch(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    Ok(Reply::Int(args[1..].iter().filter(|key| keys.touch(key)).count() as i64))
}

fn kind(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::status(ctx.keys().kind(args[1]).unwrap_or("none")))
}

fn keys(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut found = Vec::new();
    ctx.keys().each_key(|key| {
        // A lone star takes the empty key too, which no other pattern does.
        if args[1] == b"*" || glob::matches(args[1], key) {
            found.push(Reply::bulk(key));
        }
    });
    Ok(Reply::Array(found))
}

fn randomkey(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    let mut random = ctx.random();
    Ok(Reply::bulk_or_nil(ctx.keys().random_key(&mut random)))
}

fn rename(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let db = ctx.session.db;
    relocate(ctx, (db, args[1]), (db, args[2]), true)?.ok_or_else(Error::no_such_key)?;
    Ok(Reply::Ok)
}

fn renamenx(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let db = ctx.session.db;
    let moved = relocate(ctx, (db, args[1]), (db, args[2]), false)?.ok_or_else(Error::no_such_key)?;
    Ok(Reply::Int(moved as i64))
}

/// Moves a key; None if there is none, false if the destination is taken.
fn relocate(ctx: &mut Context<'_>, from: (usize, &[u8]), to: (usize, &[u8]), replace: bool) -> Result<Option<bool>> {
    if !ctx.keys_in(from.0).owns(from.1) {
        return Ok(None);
    }
    if from == to {
        return Ok(Some(replace));
    }
    if ctx.keys_in(to.0).owns(to.1) {
        if !replace {
            return Ok(Some(false));
        }
        ctx.keys_in(to.0).remove(to.1);
    }
    ctx.state.keyspace.relocate(from, to, &mut ctx.effect.keys);
    let (out, into) = if from.0 == to.0 { ("rename_from", "rename_to") } else { ("move_from", "move_to") };
    ctx.keys_in(from.0).notify(EventClass::GENERIC, out, from.1);
    ctx.keys_in(to.0).arrived(EventClass::GENERIC, into, to.1);
    Ok(Some(true))
}

fn move_key(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let from = ctx.session.db;
    let to = database(ctx.state, database_number(args[2])?)?;
    if from == to {
        return Err(Error::err("source and destination objects are the same"));
    }
    let moved = relocate(ctx, (from, args[1]), (to, args[1]), false)?.unwrap_or(false);
    Ok(Reply::Int(moved as i64))
}

fn copy(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let (mut to, mut replace) = (ctx.session.db, false);
    let mut rest = &args[3..];
    while let Some((option, after)) = rest.split_first() {
        rest = match after {
            [db, after @ ..] if is(option, "DB") => {
                to = database(ctx.state, database_number(db)?)?;
                after
            }
            _ if is(option, "REPLACE") => {
                replace = true;
                after
            }
            _ => return Err(Error::syntax()),
        };
    }
    if to == ctx.session.db && args[1] == args[2] {
        return Err(Error::err("source and destination objects are the same"));
    }
    let Some(entry) = ctx.keys().copied(args[1], args[2]) else { return Ok(Reply::Int(0)) };
    let mut keys = ctx.keys_in(to);
    if keys.owns(args[2]) {
        if !replace {
            return Ok(Reply::Int(0));
        }
        // So that the copy counts as new, as in Redis.
        keys.remove(args[2]);
    }
    keys.put_entry(entry);
    keys.arrived(EventClass::GENERIC, "copy_to", args[2]);
    Ok(Reply::Int(1))
}

/// The options of the SCAN family.
pub(super) struct ScanOptions<'a> {
    /// Where to go on.
    pub cursor: u64,
    /// How much to look at.
    pub count: usize,
    /// Which names to give; None: all.
    pub pattern: Option<&'a [u8]>,
    /// Which type; SCAN only.
    kind: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    /// Reads the cursor and the options after it.
    pub fn parse(args: &[&'a [u8]], with_type: bool) -> Result<Self> {
        let mut options = ScanOptions { cursor: cursor(args[0])?, count: 10, pattern: None, kind: None };
        let mut rest = &args[1..];
        while let [option, value, after @ ..] = rest {
            match option {
                o if is(o, "MATCH") => options.pattern = (*value != b"*").then_some(value),
                o if is(o, "COUNT") => {
                    options.count =
                        usize::try_from(integer(value)?).ok().filter(|n| *n > 0).ok_or_else(Error::syntax)?;
                }
                o if is(o, "TYPE") && with_type => options.kind = Some(value),
                _ => return Err(Error::syntax()),
            }
            rest = after;
        }
        if rest.is_empty() { Ok(options) } else { Err(Error::syntax()) }
    }

    /// True when a name is to be given.
    pub fn matches(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name))
    }
}

/// The reply of the SCAN family.
pub(super) fn scan_reply(cursor: u64, items: Vec<Reply>) -> Reply {
    Reply::Array(vec![Reply::bulk(cursor.to_string()), Reply::Array(items)])
}

fn scan(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let options = ScanOptions::parse(&args[1..], true)?;
    let mut found = Vec::new();
    let next = ctx.keys().scan(options.cursor, options.count, |key, kind| {
        if options.matches(key) && options.kind.is_none_or(|wanted| is(wanted, kind)) {
            found.push(Reply::bulk(key));
        }
    });
    Ok(scan_reply(next, found))
}

fn object_help(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(help("OBJECT"))
}

fn object_encoding(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::bulk_or_nil(ctx.keys().inspect(args[2]).map(EntryRef::encoding)))
}

fn object_refcount(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    // Redis shares the integers from 0 to 9999 and shows the largest number for them.
    let count = |entry: EntryRef<'_>| match entry.value() {
        ValueRef::Int(0..10_000) => i32::MAX as i64,
        _ => 1,
    };
    Ok(ctx.keys().inspect(args[2]).map_or(Reply::Nil, |entry| Reply::Int(count(entry))))
}

fn object_idletime(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let Some(seconds) = ctx.keys().idle_s(args[2]) else { return Ok(Reply::Nil) };
    if ctx.state.keyspace.shared.clock.lfu {
        return Err(Error::err(
            "An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies \
             at runtime LRU and LFU data will take some time to adjust.",
        ));
    }
    Ok(Reply::Int(seconds as i64))
}

fn object_freq(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let Some(frequency) = ctx.keys().frequency(args[2]) else { return Ok(Reply::Nil) };
    if !ctx.state.keyspace.shared.clock.lfu {
        return Err(Error::err(
            "An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching \
             between policies at runtime LRU and LFU data will take some time to adjust.",
        ));
    }
    Ok(Reply::Int(frequency as i64))
}
