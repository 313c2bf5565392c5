//! Commands on strings as arrays of bits: SETBIT, GETBIT, BITCOUNT, BITPOS, BITOP, BITFIELD.

use super::arguments::{integer, is};
use super::context::Context;
use super::spec::{Flags, Group, Keys, Run, Spec, Use};
use crate::ds::number;
use crate::error::{Error, Result};
use crate::keyspace::EventClass;
use crate::limits::STRING_BYTES_MAX;
use crate::reply::{Blob, Reply};
use crate::value::bits::{self, Combine, Field, Overflow, Unit};
use crate::value::{Str, Value};

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
    Spec::row(Group::Bitmap, name, run, arity, flags, keys, since, "O(N)", usage, summary)
}

const WRITE: Flags = Flags::WRITE.union(Flags::DENYOOM);
const READ: Flags = Flags::READONLY;
const OPERATIONS: &str = "key [GET encoding offset | [OVERFLOW WRAP | SAT | FAIL] SET encoding offset value | [OVERFLOW \
                          WRAP | SAT | FAIL] INCRBY encoding offset increment ...]";

/// BITFIELD with nothing but GET changes nothing.
fn bitfield_use(args: &[&[u8]]) -> Use {
    let changes = |arg: &&[u8]| is(arg, "SET") || is(arg, "INCRBY");
    if args.iter().skip(2).any(changes) { Use::READ_CHANGE } else { Use::READ }
}

pub(super) const COMMANDS: &[Spec] = &[
    Spec {
        complexity: "O(1)",
        ..row("setbit", setbit, 4, WRITE, Keys::one(Use::READ_CHANGE), "2.2.0", "key offset value", "Sets a bit.")
    },
    Spec {
        complexity: "O(1)",
        ..row("getbit", getbit, 3, READ.union(Flags::FAST), Keys::one(Use::READ), "2.2.0", "key offset", "Gets a bit.")
    },
    row(
        "bitcount",
        bitcount,
        -2,
        READ,
        Keys::one(Use::READ),
        "2.6.0",
        "key [start end [BYTE | BIT]]",
        "Counts the bits that are set.",
    ),
    row(
        "bitpos",
        bitpos,
        -3,
        READ,
        Keys::one(Use::READ),
        "2.8.7",
        "key bit [start [end [BYTE | BIT]]]",
        "Finds the first bit of a kind.",
    ),
    row(
        "bitop",
        bitop,
        -4,
        WRITE,
        Keys::of_subcommand(Use::REPLACE).and_rest(Use::READ, 3),
        "2.6.0",
        "operation destination key [key ...]",
        "Combines strings bit by bit.",
    ),
    row(
        "bitfield",
        bitfield,
        -2,
        WRITE,
        Keys::one(Use::READ_CHANGE).depending(bitfield_use),
        "3.2.0",
        OPERATIONS,
        "Reads and changes integers of any width.",
    ),
    row(
        "bitfield_ro",
        bitfield_ro,
        -2,
        READ.union(Flags::FAST),
        Keys::one(Use::READ),
        "6.0.0",
        "key [GET encoding offset ...]",
        "Reads integers of any width.",
    ),
];

fn bit_offset(arg: &[u8]) -> Result<u64> {
    let offset = number::parse_i64(arg).and_then(|n| u64::try_from(n).ok());
    offset
        .filter(|offset| offset / 8 < STRING_BYTES_MAX as u64)
        .ok_or_else(|| Error::err("bit offset is not an integer or out of range"))
}

fn setbit(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let offset = bit_offset(args[2])?;
    let bit = match number::parse_i64(args[3]) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(Error::err("bit is not an integer or out of range")),
    };
    let mut keys = ctx.keys();
    let (old, grew) = keys.edit_or_create(args[1], |string: &mut Str, edit| {
        let length = string.len();
        bits::set(string, offset, bit, edit).map(|old| (old, string.len() > length))
    })??;
    // What changes nothing does not break a watch (Redis 7).
    if old != bit || grew {
        keys.notify(EventClass::STRING, "setbit", args[1]);
    }
    Ok(Reply::Int(old as i64))
}

fn getbit(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let offset = bit_offset(args[2])?;
    Ok(Reply::Int(ctx.keys().string(args[1])?.is_some_and(|bytes| bits::get(&bytes, offset)) as i64))
}

/// Reads BYTE or BIT.
fn unit(arg: Option<&&[u8]>) -> Result<Unit> {
    match arg {
        None => Ok(Unit::Byte),
        Some(arg) if is(arg, "BYTE") => Ok(Unit::Byte),
        Some(arg) if is(arg, "BIT") => Ok(Unit::Bit),
        Some(_) => Err(Error::syntax()),
    }
}

fn bitcount(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut keys = ctx.keys();
    // Without key nobody looks at the rest (Redis 7).
    let Some(string) = keys.string(args[1])? else { return Ok(Reply::Int(0)) };
    let range = match &args[2..] {
        [] => None,
        [start, end, unit_arg @ ..] if unit_arg.len() <= 1 => {
            let (start, end) = (integer(start)?, integer(end)?);
            // A range that is empty on its face is answered before the unit is looked at (Redis 7).
            if start < 0 && end < 0 && start > end {
                return Ok(Reply::Int(0));
            }
            Some((start, end, unit(unit_arg.first())?))
        }
        _ => return Err(Error::syntax()),
    };
    Ok(Reply::Int(bits::count(&string, range) as i64))
}

fn bitpos(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let bit = match integer(args[2])? {
        0 => false,
        1 => true,
        _ => return Err(Error::err("The bit argument must be 1 or 0.")),
    };
    let mut keys = ctx.keys();
    let string = keys.string(args[1])?;
    let Some(bytes) = string else { return Ok(Reply::Int(if bit { -1 } else { 0 })) };
    let (start, end, unit) = match &args[3..] {
        [] => (0, None, Unit::Byte),
        [start] => (integer(start)?, None, Unit::Byte),
        [start, end, rest @ ..] if rest.len() <= 1 => {
            let start = integer(start)?;
            // The unit is looked at before the end (Redis 7).
            let unit = unit(rest.first())?;
            (start, Some(integer(end)?), unit)
        }
        _ => return Err(Error::syntax()),
    };
    Ok(Reply::Int(bits::position(&bytes, bit, start, end, unit).map_or(-1, |position| position as i64)))
}

fn bitop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let how = match args[1] {
        arg if is(arg, "AND") => Combine::And,
        arg if is(arg, "OR") => Combine::Or,
        arg if is(arg, "XOR") => Combine::Xor,
        arg if is(arg, "NOT") => Combine::Not,
        _ => return Err(Error::syntax()),
    };
    if how == Combine::Not && args.len() != 4 {
        return Err(Error::err("BITOP NOT must be called with a single source key."));
    }
    let mut keys = ctx.keys();
    let sources =
        args[3..].iter().map(|key| Ok(keys.string(key)?.map_or(Blob::new(), |bytes| Blob::from_slice(&bytes))));
    let sources: Vec<Blob> = sources.collect::<Result<_>>()?;
    let slices: Vec<&[u8]> = sources.iter().map(|blob| &blob[..]).collect();
    let result = bits::combine(how, &slices);
    if !result.is_empty() {
        keys.put(args[2], Value::Str(Str::raw(&result)), None);
        keys.notify(EventClass::STRING, "set", args[2]);
    } else if keys.remove(args[2]) {
        keys.notify(EventClass::GENERIC, "del", args[2]);
    }
    Ok(Reply::Int(result.len() as i64))
}

/// One step of BITFIELD.
enum Step {
    Get(Field, u64),
    Set(Field, u64, i64, Overflow),
    Increment(Field, u64, i64, Overflow),
}

impl Step {
    /// The length that the string must have for it, bytes; 0 when it only reads.
    fn end(&self) -> usize {
        match self {
            Step::Get(..) => 0,
            Step::Set(field, offset, ..) | Step::Increment(field, offset, ..) => field.end(*offset) as usize,
        }
    }
}

fn field_type(arg: &[u8]) -> Result<Field> {
    Field::parse(arg).ok_or_else(|| {
        Error::err("Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.")
    })
}

/// An offset in bits, or with `#` in fields.
fn field_offset(arg: &[u8], field: Field) -> Result<u64> {
    let invalid = || Error::err("bit offset is not an integer or out of range");
    let (digits, unit) = match arg {
        [b'#', digits @ ..] => (digits, field.bits as i64),
        _ => (arg, 1),
    };
    let offset = number::parse_i64(digits).and_then(|n| n.checked_mul(unit)).and_then(|n| u64::try_from(n).ok());
    offset.filter(|offset| offset / 8 < STRING_BYTES_MAX as u64).ok_or_else(invalid)
}

fn parse_steps(args: &[&[u8]]) -> Result<Vec<Step>> {
    let mut overflow = Overflow::Wrap;
    let mut steps = Vec::new();
    let mut rest = args;
    while let Some((word, after)) = rest.split_first() {
        rest = match after {
            [how, after @ ..] if is(word, "OVERFLOW") => {
                overflow = match how {
                    how if is(how, "WRAP") => Overflow::Wrap,
                    how if is(how, "SAT") => Overflow::Saturate,
                    how if is(how, "FAIL") => Overflow::Fail,
                    _ => return Err(Error::err("Invalid OVERFLOW type specified")),
                };
                after
            }
            [field, offset, after @ ..] if is(word, "GET") => {
                let field = field_type(field)?;
                steps.push(Step::Get(field, field_offset(offset, field)?));
                after
            }
            [field, offset, value, after @ ..] if is(word, "SET") => {
                let field = field_type(field)?;
                steps.push(Step::Set(field, field_offset(offset, field)?, integer(value)?, overflow));
                after
            }
            [field, offset, value, after @ ..] if is(word, "INCRBY") => {
                let field = field_type(field)?;
                steps.push(Step::Increment(field, field_offset(offset, field)?, integer(value)?, overflow));
                after
            }
            _ => return Err(Error::syntax()),
        };
    }
    Ok(steps)
}

fn bitfield(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let steps = parse_steps(&args[2..])?;
    let mut keys = ctx.keys();
    // The type is checked before anything is done, and the string grows once, to the longest place written.
    let read_only = steps.iter().all(|step| matches!(step, Step::Get(..)));
    if read_only {
        let bytes = keys.string(args[1])?;
        return Ok(Reply::Array(steps.iter().map(|step| read(step, bytes.as_deref().unwrap_or(b""))).collect()));
    }
    let end = steps.iter().map(Step::end).max().unwrap_or(0);
    let mut changes = 0;
    let replies = keys.edit_or_create(args[1], |string: &mut Str, edit| {
        changes += (string.len() < end) as usize;
        string.grow_to(end, edit)?;
        steps.iter().map(|step| perform(step, string, edit, &mut changes)).collect::<Result<Vec<Reply>>>()
    })??;
    if changes > 0 {
        keys.notify(EventClass::STRING, "setbit", args[1]);
    }
    Ok(Reply::Array(replies))
}

fn read(step: &Step, bytes: &[u8]) -> Reply {
    match step {
        Step::Get(field, offset) => Reply::Int(field.get(bytes, *offset)),
        _ => Reply::Nil,
    }
}

fn perform(
    step: &Step,
    string: &mut Str,
    edit: &mut crate::value::Edit<'_, crate::value::StrOp>,
    changes: &mut usize,
) -> Result<Reply> {
    let (field, offset) = match *step {
        Step::Get(..) => return Ok(read(step, string)),
        Step::Set(field, offset, ..) | Step::Increment(field, offset, ..) => (field, offset),
    };
    let before = field.get(string, offset);
    let result = match *step {
        Step::Get(..) => None,
        Step::Set(field, offset, value, overflow) => field.set(string, offset, value, overflow, edit)?,
        Step::Increment(field, offset, value, overflow) => field.increment(string, offset, value, overflow, edit)?,
    };
    *changes += (result.is_some() && field.get(string, offset) != before) as usize;
    Ok(result.map_or(Reply::Nil, Reply::Int))
}

fn bitfield_ro(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let steps = parse_steps(&args[2..])?;
    if steps.iter().any(|step| !matches!(step, Step::Get(..))) {
        return Err(Error::err("BITFIELD_RO only supports the GET subcommand"));
    }
    let mut keys = ctx.keys();
    let bytes = keys.string(args[1])?;
    Ok(Reply::Array(steps.iter().map(|step| read(step, bytes.as_deref().unwrap_or(b""))).collect()))
}
