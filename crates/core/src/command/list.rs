//! Commands on lists, waiting ones included.

use super::arguments::{integer, is, opposable, pop_count, positive_or, timeout};
use super::context::Context;
use super::spec::{Flags, Group, Keys, Run, Spec, Use};
use crate::error::{Error, Result};
use crate::keyspace::{self, EventClass};
use crate::reply::{Blob, Reply};
use crate::value::List;
use crate::value::list::Side;

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
    Spec::row(Group::List, name, run, arity, flags, keys, since, "O(1)", usage, summary)
}

const fn long(spec: Spec) -> Spec {
    Spec { complexity: "O(N) where N is the number of elements to walk over", ..spec }
}

const READ: Flags = Flags::READONLY;
const WRITE: Flags = Flags::WRITE;
const GROW: Flags = WRITE.union(Flags::DENYOOM);
const FAST: Flags = Flags::FAST;
const BLOCK: Flags = Flags::BLOCKING;
/// Scripts may not call the older waiting commands.
const BLOCK_OUTSIDE: Flags = BLOCK.union(Flags::NOSCRIPT);

pub(super) const COMMANDS: &[Spec] = &[
    row(
        "lpush",
        lpush,
        -3,
        GROW.union(FAST),
        Keys::one(Use::GROW),
        "1.0.0",
        "key element [element ...]",
        "Adds elements to the front of a list.",
    ),
    row(
        "rpush",
        rpush,
        -3,
        GROW.union(FAST),
        Keys::one(Use::GROW),
        "1.0.0",
        "key element [element ...]",
        "Adds elements to the end of a list.",
    ),
    row(
        "lpushx",
        lpushx,
        -3,
        GROW.union(FAST),
        Keys::one(Use::GROW),
        "2.2.0",
        "key element [element ...]",
        "Adds to the front of a list that exists.",
    ),
    row(
        "rpushx",
        rpushx,
        -3,
        GROW.union(FAST),
        Keys::one(Use::GROW),
        "2.2.0",
        "key element [element ...]",
        "Adds to the end of a list that exists.",
    ),
    row(
        "lpop",
        lpop,
        -2,
        WRITE.union(FAST),
        Keys::one(Use::TAKE),
        "1.0.0",
        "key [count]",
        "Takes elements from the front of a list.",
    ),
    row(
        "rpop",
        rpop,
        -2,
        WRITE.union(FAST),
        Keys::one(Use::TAKE),
        "1.0.0",
        "key [count]",
        "Takes elements from the end of a list.",
    ),
    row("llen", llen, 2, READ.union(FAST), Keys::one(Use::LOOK), "1.0.0", "key", "Tells the length of a list."),
    long(row("lindex", lindex, 3, READ, Keys::one(Use::READ), "1.0.0", "key index", "Gets the element at an index.")),
    long(row(
        "lset",
        lset,
        4,
        GROW,
        Keys::one(Use::CHANGE),
        "1.0.0",
        "key index element",
        "Replaces the element at an index.",
    )),
    long(row(
        "linsert",
        linsert,
        5,
        GROW,
        Keys::one(Use::GROW),
        "2.2.0",
        "key BEFORE | AFTER pivot element",
        "Inserts before or after another element.",
    )),
    long(row(
        "lrange",
        lrange,
        4,
        READ,
        Keys::one(Use::READ),
        "1.0.0",
        "key start stop",
        "Gets the elements of a range.",
    )),
    long(row(
        "ltrim",
        ltrim,
        4,
        WRITE,
        Keys::one(Use::SHRINK),
        "1.0.0",
        "key start stop",
        "Keeps only the elements of a range.",
    )),
    long(row(
        "lrem",
        lrem,
        4,
        WRITE,
        Keys::one(Use::SHRINK),
        "1.0.0",
        "key count element",
        "Removes elements equal to a value.",
    )),
    long(row(
        "lpos",
        lpos,
        -3,
        READ,
        Keys::one(Use::READ),
        "6.0.6",
        "key element [RANK rank] [COUNT num-matches] [MAXLEN len]",
        "Finds the indexes of elements equal to a value.",
    )),
    row(
        "rpoplpush",
        rpoplpush,
        3,
        GROW,
        Keys::two(Use::TAKE, Use::GROW),
        "1.2.0",
        "source destination",
        "Moves the last element to the front of another list.",
    ),
    row(
        "lmove",
        lmove,
        5,
        GROW,
        Keys::two(Use::TAKE, Use::GROW),
        "6.2.0",
        "source destination LEFT | RIGHT LEFT | RIGHT",
        "Moves an element between lists.",
    ),
    row(
        "lmpop",
        lmpop,
        -4,
        WRITE,
        Keys::counted(Use::TAKE, 1),
        "7.0.0",
        "numkeys key [key ...] LEFT | RIGHT [COUNT count]",
        "Takes elements from the first list that has any.",
    ),
    row(
        "blpop",
        blpop,
        -3,
        WRITE.union(BLOCK_OUTSIDE),
        Keys::all_but_last(Use::TAKE),
        "2.0.0",
        "key [key ...] timeout",
        "LPOP that waits for an element.",
    ),
    row(
        "brpop",
        brpop,
        -3,
        WRITE.union(BLOCK_OUTSIDE),
        Keys::all_but_last(Use::TAKE),
        "2.0.0",
        "key [key ...] timeout",
        "RPOP that waits for an element.",
    ),
    row(
        "brpoplpush",
        brpoplpush,
        4,
        GROW.union(BLOCK_OUTSIDE),
        Keys::two(Use::TAKE, Use::GROW),
        "2.2.0",
        "source destination timeout",
        "RPOPLPUSH that waits for an element.",
    ),
    row(
        "blmove",
        blmove,
        6,
        GROW.union(BLOCK_OUTSIDE),
        Keys::two(Use::TAKE, Use::GROW),
        "6.2.0",
        "source destination LEFT | RIGHT LEFT | RIGHT timeout",
        "LMOVE that waits for an element.",
    ),
    row(
        "blmpop",
        blmpop,
        -5,
        WRITE.union(BLOCK),
        Keys::counted(Use::TAKE, 2),
        "7.0.0",
        "timeout numkeys key [key ...] LEFT | RIGHT [COUNT count]",
        "LMPOP that waits for an element.",
    ),
];

fn event_of(side: Side, push: bool) -> &'static str {
    match (side, push) {
        (Side::Front, true) => "lpush",
        (Side::Back, true) => "rpush",
        (Side::Front, false) => "lpop",
        (Side::Back, false) => "rpop",
    }
}

fn push(ctx: &mut Context<'_>, args: &[&[u8]], side: Side) -> Result<Reply> {
    let mut keys = ctx.keys();
    let length = keys.edit_or_create(args[1], |list: &mut List, edit| {
        list.push(side, &args[2..], edit);
        list.len()
    })?;
    keys.notify(EventClass::LIST, event_of(side, true), args[1]);
    Ok(Reply::Int(length as i64))
}

fn push_existing(ctx: &mut Context<'_>, args: &[&[u8]], side: Side) -> Result<Reply> {
    if ctx.keys().own_value::<List>(args[1])?.is_none() { Ok(Reply::Int(0)) } else { push(ctx, args, side) }
}

fn lpush(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    push(ctx, args, Side::Front)
}

fn rpush(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    push(ctx, args, Side::Back)
}

fn lpushx(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    push_existing(ctx, args, Side::Front)
}

fn rpushx(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    push_existing(ctx, args, Side::Back)
}

/// Takes up to `count` elements; None if there is no list.
fn take(keys: &mut keyspace::Keys<'_>, key: &[u8], side: Side, count: usize) -> Result<Option<Vec<Blob>>> {
    let taken = keys.edit(key, |list: &mut List, edit| list.pop_many(side, count, edit))?;
    if taken.as_ref().is_some_and(|elements| !elements.is_empty()) {
        keys.settle(EventClass::LIST, event_of(side, false), key);
    }
    Ok(taken)
}

fn pop(ctx: &mut Context<'_>, args: &[&[u8]], side: Side) -> Result<Reply> {
    if args.len() > 3 {
        let name = String::from_utf8_lossy(args[0]).to_ascii_lowercase();
        return Err(super::dispatch::wrong_arity(&name));
    }
    let count = match args.get(2) {
        None => None,
        Some(arg) => {
            let text = "value is out of range, must be positive";
            Some(usize::try_from(super::arguments::integer_or(arg, text)?).map_err(|_| Error::err(text))?)
        }
    };
    let taken = take(&mut ctx.keys(), args[1], side, count.unwrap_or(1))?;
    Ok(match (taken, count) {
        (None, None) => Reply::Nil,
        (None, Some(_)) => Reply::NilArray,
        (Some(elements), None) => elements.into_iter().next().map_or(Reply::Nil, Reply::Bulk),
        (Some(elements), Some(_)) => Reply::Array(elements.into_iter().map(Reply::Bulk).collect()),
    })
}

fn lpop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    pop(ctx, args, Side::Front)
}

fn rpop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    pop(ctx, args, Side::Back)
}

fn llen(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::Int(ctx.keys().get::<List>(args[1])?.map_or(0, List::len) as i64))
}

fn lindex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    let Some(list) = keys.get::<List>(args[1])? else { return Ok(Reply::Nil) };
    Ok(Reply::bulk_or_nil(list.get(integer(args[2])?)))
}

fn lset(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    if keys.own_value::<List>(args[1])?.is_none() {
        return Err(Error::no_such_key());
    }
    let index = integer(args[2])?;
    let set = keys.edit(args[1], |list: &mut List, edit| list.set(index, args[3], edit))?;
    if set != Some(true) {
        return Err(Error::out_of_range());
    }
    keys.notify(EventClass::LIST, "lset", args[1]);
    Ok(Reply::Ok)
}

fn linsert(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let before = match args[2] {
        arg if is(arg, "BEFORE") => true,
        arg if is(arg, "AFTER") => false,
        _ => return Err(Error::syntax()),
    };
    let mut keys = ctx.keys();
    let length = keys.edit(args[1], |list: &mut List, edit| list.insert(before, args[3], args[4], edit))?;
    let Some(length) = length else { return Ok(Reply::Int(0)) };
    let Some(length) = length else { return Ok(Reply::Int(-1)) };
    keys.notify(EventClass::LIST, "linsert", args[1]);
    Ok(Reply::Int(length as i64))
}

fn lrange(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let (start, stop) = (integer(args[2])?, integer(args[3])?);
    let mut keys = ctx.keys();
    let list = keys.get::<List>(args[1])?;
    Ok(Reply::Array(list.map_or(Vec::new(), |list| list.range(start, stop).map(Reply::bulk).collect())))
}

fn ltrim(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let (start, stop) = (integer(args[2])?, integer(args[3])?);
    let mut keys = ctx.keys();
    if keys.edit(args[1], |list: &mut List, edit| list.trim(start, stop, edit))?.is_some() {
        keys.settle(EventClass::LIST, "ltrim", args[1]);
    }
    Ok(Reply::Ok)
}

fn lrem(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let count = integer(args[2])?;
    let mut keys = ctx.keys();
    let removed = keys.edit(args[1], |list: &mut List, edit| list.remove(count, args[3], edit))?.unwrap_or(0);
    if removed > 0 {
        keys.settle(EventClass::LIST, "lrem", args[1]);
    }
    Ok(Reply::Int(removed as i64))
}

fn lpos(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let (mut rank, mut count, mut looked_at) = (1, None, 0);
    for pair in args[3..].chunks(2) {
        let [option, value] = pair else { return Err(Error::syntax()) };
        match option {
            o if is(o, "RANK") => {
                rank = opposable(value)?;
                if rank == 0 {
                    return Err(Error::err(
                        "RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative \
                         to start from the end of the list",
                    ));
                }
            }
            o if is(o, "COUNT") => count = Some(not_negative(value, "COUNT can't be negative")?),
            o if is(o, "MAXLEN") => looked_at = not_negative(value, "MAXLEN can't be negative")?,
            _ => return Err(Error::syntax()),
        }
    }
    let mut keys = ctx.keys();
    let found = keys.get::<List>(args[1])?.map(|list| list.positions(args[2], rank, count.unwrap_or(1), looked_at));
    Ok(match (found, count) {
        (found, None) => found.and_then(|f| f.first().copied()).map_or(Reply::Nil, |index| Reply::Int(index as i64)),
        (found, Some(_)) => Reply::Array(found.unwrap_or_default().into_iter().map(|i| Reply::Int(i as i64)).collect()),
    })
}

fn not_negative(arg: &[u8], text: &'static str) -> Result<usize> {
    usize::try_from(super::arguments::integer_or(arg, text)?).map_err(|_| Error::err(text))
}

fn side(arg: &[u8]) -> Result<Side> {
    match arg {
        arg if is(arg, "LEFT") => Ok(Side::Front),
        arg if is(arg, "RIGHT") => Ok(Side::Back),
        _ => Err(Error::syntax()),
    }
}

/// Moves one element; None if the source has none.
fn move_one(
    keys: &mut keyspace::Keys<'_>,
    source: &[u8],
    destination: &[u8],
    from: Side,
    to: Side,
) -> Result<Option<Blob>> {
    if keys.own_value::<List>(source)?.is_none() {
        return Ok(None);
    }
    // The destination's type is checked before anything is taken.
    keys.own_value::<List>(destination)?;
    let element = keys.edit(source, |list: &mut List, edit| list.pop(from, edit))?.flatten();
    let Some(element) = element else { return Ok(None) };
    keys.edit_or_create(destination, |list: &mut List, edit| list.push(to, &[&element], edit))?;
    keys.notify(EventClass::LIST, event_of(to, true), destination);
    keys.settle(EventClass::LIST, event_of(from, false), source);
    Ok(Some(element))
}

fn rpoplpush(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let moved = move_one(&mut ctx.keys(), args[1], args[2], Side::Back, Side::Front)?;
    Ok(moved.map_or(Reply::Nil, Reply::Bulk))
}

fn lmove(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let (from, to) = (side(args[3])?, side(args[4])?);
    let moved = move_one(&mut ctx.keys(), args[1], args[2], from, to)?;
    Ok(moved.map_or(Reply::Nil, Reply::Bulk))
}

fn block_move(ctx: &mut Context<'_>, args: &[&[u8]], from: Side, to: Side, timeout_arg: &[u8]) -> Result<Reply> {
    let deadline = timeout(timeout_arg, ctx.state.clock.now_ms)?;
    let may_take = ctx.may_take::<List>(args[1]);
    let moved = if may_take { move_one(&mut ctx.keys(), args[1], args[2], from, to)? } else { None };
    match moved {
        Some(element) => Ok(Reply::Bulk(element)),
        // A wait that may not begin answers nil, one that ends in vain answers the nil array (Redis 7).
        None if !ctx.may_block() => Ok(Reply::Nil),
        None => Ok(ctx.block(args, &args[1..2], deadline, Reply::NilArray)),
    }
}

fn brpoplpush(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    block_move(ctx, args, Side::Back, Side::Front, args[3])
}

fn blmove(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let (from, to) = (side(args[3])?, side(args[4])?);
    block_move(ctx, args, from, to, args[5])
}

/// BLPOP and BRPOP.
fn block_pop(ctx: &mut Context<'_>, args: &[&[u8]], side: Side) -> Result<Reply> {
    let keys = &args[1..args.len() - 1];
    let deadline = timeout(args[args.len() - 1], ctx.state.clock.now_ms)?;
    for key in keys {
        if !ctx.may_take::<List>(key) {
            continue;
        }
        if let Some(elements) = take(&mut ctx.keys(), key, side, 1)? {
            let element = elements.into_iter().next().map_or(Reply::Nil, Reply::Bulk);
            return Ok(Reply::Array(vec![Reply::bulk(key), element]));
        }
    }
    Ok(ctx.block(args, keys, deadline, Reply::NilArray))
}

fn blpop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    block_pop(ctx, args, Side::Front)
}

fn brpop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    block_pop(ctx, args, Side::Back)
}

/// `numkeys key [key ...] LEFT|RIGHT [COUNT count]`
struct MultiPop<'a, 'b> {
    keys: &'b [&'a [u8]],
    side: Side,
    count: usize,
}

impl<'a, 'b> MultiPop<'a, 'b> {
    fn parse(args: &'b [&'a [u8]]) -> Result<Self> {
        let numkeys = positive_or(args[0], "numkeys should be greater than 0")?;
        let keys = args.get(1..1 + numkeys).ok_or_else(Error::syntax)?;
        let (end, options) = args[1 + numkeys..].split_first().ok_or_else(Error::syntax)?;
        Ok(MultiPop { keys, side: side(end)?, count: pop_count(options)? })
    }

    fn pop(&self, ctx: &mut Context<'_>) -> Result<Option<Reply>> {
        for key in self.keys {
            if !ctx.may_take::<List>(key) {
                continue;
            }
            if let Some(elements) = take(&mut ctx.keys(), key, self.side, self.count)? {
                let elements = elements.into_iter().map(Reply::Bulk).collect();
                return Ok(Some(Reply::Array(vec![Reply::bulk(key), Reply::Array(elements)])));
            }
        }
        Ok(None)
    }
}

fn lmpop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    Ok(MultiPop::parse(&args[1..])?.pop(ctx)?.unwrap_or(Reply::NilArray))
}

fn blmpop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let request = MultiPop::parse(&args[2..])?;
    let deadline = timeout(args[1], ctx.state.clock.now_ms)?;
    match request.pop(ctx)? {
        Some(reply) => Ok(reply),
        None => Ok(ctx.block(args, request.keys, deadline, Reply::NilArray)),
    }
}
