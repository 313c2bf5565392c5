//! Replies to Lua values and back, in Redis 7's shapes for RESP2 and RESP3.

use super::stack::{Fault, Kind, Stack, push_error_table};
use crate::ds::number;
use crate::error::{Code, Error};
use crate::limits;
use crate::reply::{Blob, Reply};
use crate::sql::report::sqlstate;
use std::borrow::Cow;
use std::ffi::c_int;

/// Where Lua's registry has the texts `ok` and `OK`.
pub const OK_KEYS: (c_int, c_int) = (3, 4);

/// Pushes `{ok = 'OK'}`, what most writing commands answer.
#[inline]
fn push_ok(stack: Stack<'_>) {
    stack.push_table(0, 1);
    stack.get_element(mlua_sys::LUA_REGISTRYINDEX, OK_KEYS.0);
    stack.get_element(mlua_sys::LUA_REGISTRYINDEX, OK_KEYS.1);
    stack.set_pair(-3);
}

/// Pushes a command's reply, in the shape that the given RESP version has.
#[inline]
pub fn push_reply(stack: Stack<'_>, reply: &Reply, protocol: u8) -> Result<(), Fault> {
    match reply {
        Reply::Bulk(bytes) => stack.push_bytes(bytes),
        Reply::Int(number) => {
            stack.push_number(*number as f64);
            Ok(())
        }
        other => push_other(stack, other, protocol),
    }
}

fn push_other(stack: Stack<'_>, reply: &Reply, protocol: u8) -> Result<(), Fault> {
    let resp3 = protocol >= 3;
    // A key and its value may stand above this one while it is built.
    if !stack.reserve(6) || !stack.shared().heap.has_room(0) {
        return Err(Fault::Memory);
    }
    match reply {
        Reply::Ok => push_ok(stack),
        Reply::Status(text) => push_tagged(stack, "ok", text.as_bytes())?,
        Reply::Error(error) => push_error(stack, error),
        Reply::Nil | Reply::NilArray if resp3 => stack.push_nil(),
        Reply::Nil | Reply::NilArray | Reply::None => stack.push_bool(false),
        Reply::Bool(value) if resp3 => stack.push_bool(*value),
        Reply::Bool(value) => stack.push_number(*value as u8 as f64),
        Reply::Double(value) if resp3 => {
            stack.push_table(0, 1);
            stack.push_number(*value);
            stack.set_field(-2, "double");
        }
        Reply::Double(value) => stack.push_bytes(&number::score_text(*value))?,
        Reply::BigNumber(digits) if resp3 => push_tagged(stack, "big_number", digits)?,
        Reply::BigNumber(digits) => stack.push_bytes(digits)?,
        Reply::Verbatim(format, text) if resp3 => {
            stack.push_table(0, 1);
            stack.push_table(0, 2);
            stack.push_bytes(text)?;
            stack.set_field(-2, "string");
            stack.push_bytes(format)?;
            stack.set_field(-2, "format");
            stack.set_field(-2, "verbatim_string");
        }
        Reply::Verbatim(_, text) => stack.push_bytes(text)?,
        Reply::Map(pairs) if resp3 => {
            stack.push_table(0, 1);
            stack.push_table(0, pairs.len());
            for (key, value) in pairs {
                push_reply(stack, key, protocol)?;
                push_reply(stack, value, protocol)?;
                stack.set_pair(-3);
            }
            stack.set_field(-2, "map");
        }
        Reply::Set(members) if resp3 => {
            stack.push_table(0, 1);
            stack.push_table(0, members.len());
            for member in members {
                push_reply(stack, member, protocol)?;
                stack.push_bool(true);
                stack.set_pair(-3);
            }
            stack.set_field(-2, "set");
        }
        Reply::Pairs(pairs) if resp3 => {
            stack.push_table(pairs.len(), 0);
            for (position, (first, second)) in (1..).zip(pairs) {
                stack.push_table(2, 0);
                push_element(stack, first, protocol, 1)?;
                push_element(stack, second, protocol, 2)?;
                stack.set_element(-2, position);
            }
        }
        Reply::Map(pairs) | Reply::Pairs(pairs) => {
            stack.push_table(pairs.len() * 2, 0);
            for (position, (first, second)) in (1..).step_by(2).zip(pairs) {
                push_element(stack, first, protocol, position)?;
                push_element(stack, second, protocol, position + 1)?;
            }
        }
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) | Reply::Many(items) => {
            stack.push_table(items.len(), 0);
            for (position, item) in (1..).zip(items) {
                push_element(stack, item, protocol, position)?;
            }
        }
        Reply::As(protocol, reply) => push_reply(stack, reply, *protocol)?,
        Reply::Rows(rows) => push_reply(stack, &Reply::Rows(rows.clone()).plain(), protocol)?,
        Reply::Bulk(_) | Reply::Int(_) => push_reply(stack, reply, protocol)?,
    }
    Ok(())
}

fn push_element(stack: Stack<'_>, reply: &Reply, protocol: u8, position: c_int) -> Result<(), Fault> {
    push_reply(stack, reply, protocol)?;
    stack.set_element(-2, position);
    Ok(())
}

fn push_tagged(stack: Stack<'_>, tag: &str, bytes: &[u8]) -> Result<(), Fault> {
    stack.push_table(0, 1);
    stack.push_bytes(bytes)?;
    stack.set_field(-2, tag);
    Ok(())
}

/// Pushes the table that stands for a command's error, marked as counted already.
pub fn push_error(stack: Stack<'_>, error: &Error) {
    push_error_table(stack, &error.to_string());
    stack.push_bool(true);
    stack.set_field(-2, "ignore_error_stats_update");
    if let Some(state) = sqlstate(error) {
        stack.push_text(state);
        stack.set_field(-2, "sqlstate");
    }
}

/// Fields that give a table returned by a script its meaning, in the order in which they are looked for.
pub const FIELDS: [&str; 9] =
    ["err", "ok", "double", "big_number", "verbatim_string", "map", "set", "format", "string"];

/// Values between two looks at whether somebody wants the script's end.
const LOOK_EVERY: usize = 1024;

/// Turns what a script returned into a reply. The names of [`FIELDS`] stand on the stack from `fields` on.
pub struct Reader<'a> {
    stack: Stack<'a>,
    fields: c_int,
    protocol: u8,
    depth: usize,
    elements: usize,
    bytes: usize,
    /// Why the reply was given up. From then on everything reads as nil.
    stopped: Option<Error>,
    /// True when the reply is an error that the failing command has counted.
    pub counted: bool,
}

impl<'a> Reader<'a> {
    /// A reader for a script that spoke the given RESP version.
    pub fn new(stack: Stack<'a>, fields: c_int, protocol: u8) -> Self {
        Reader { stack, fields, protocol, depth: 0, elements: 0, bytes: 0, stopped: None, counted: false }
    }

    /// Pops what the script returned and turns it into a reply: an error if that would be too large, or somebody ends
    /// the script meanwhile. A small table that holds itself many times over can be a reply without end.
    pub fn read(&mut self) -> Reply {
        let reply = self.pop();
        self.stopped.take().map_or(reply, Reply::Error)
    }

    /// Counts one more value; false: it is not to be read any more.
    #[inline]
    fn admit(&mut self) -> bool {
        self.elements += 1;
        if self.elements.is_multiple_of(LOOK_EVERY) {
            self.look();
        }
        self.stopped.is_none()
    }

    /// The string at `index`, counted; empty when there would be too much.
    fn string(&mut self, index: c_int) -> &'a [u8] {
        let bytes = self.stack.bytes(index).unwrap_or_default();
        self.bytes += bytes.len();
        if self.bytes > limits::SCRIPT_REPLY_BYTES_MAX {
            self.stop(format!("the script's reply has strings of more than {} bytes", limits::SCRIPT_REPLY_BYTES_MAX));
            return &[];
        }
        bytes
    }

    #[cold]
    fn look(&mut self) {
        if self.stack.shared().watch.is_killed() {
            self.stopped.get_or_insert(Error::new(Code::Custom, self.stack.shared().watch.why()));
        }
        if self.elements > limits::SCRIPT_REPLY_ELEMENTS_MAX {
            self.stop(format!("the script's reply has more than {} elements", limits::SCRIPT_REPLY_ELEMENTS_MAX));
        }
    }

    #[cold]
    fn stop(&mut self, why: String) {
        self.stopped.get_or_insert(Error::err(why));
    }

    /// Pops the top value and turns it into a reply.
    fn pop(&mut self) -> Reply {
        let stack = self.stack;
        if !self.admit() {
            stack.pop(1);
            return Reply::Nil;
        }
        let reply = match stack.kind(-1) {
            Kind::String => Reply::bulk(self.string(-1)),
            Kind::Number => Reply::Int(stack.number(-1).map_or(0, truncate)),
            Kind::Boolean => match stack.truth(-1) {
                value if self.protocol >= 3 => Reply::Bool(value),
                true => Reply::Int(1),
                false => Reply::Nil,
            },
            Kind::Table => self.table(),
            _ => Reply::Nil,
        };
        stack.pop(1);
        reply
    }

    /// The table on top, which stays.
    fn table(&mut self) -> Reply {
        if self.depth >= limits::REPLY_DEPTH_MAX || !self.stack.reserve(8) {
            return Error::err("reached lua stack limit").into();
        }
        self.depth += 1;
        let reply = self.marked().unwrap_or_else(|| self.array());
        self.depth -= 1;
        reply
    }

    /// The reply that one of the special fields makes of the table.
    fn marked(&mut self) -> Option<Reply> {
        let stack = self.stack;
        for field in 0..7 {
            self.push_field(field, -1);
            let reply = match (field, stack.kind(-1)) {
                (0, Kind::String) => Some(self.error()),
                (1, Kind::String) => Some(Reply::Status(text(c_text(Some(self.string(-1)))))),
                (2, Kind::Number) => stack.number(-1).map(Reply::Double),
                (3, Kind::String) => {
                    let line = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
                    Some(Reply::BigNumber(self.string(-1).iter().map(line).collect()))
                }
                (4, Kind::Table) => self.verbatim(),
                (5, Kind::Table) => Some(self.map()),
                (6, Kind::Table) => Some(self.set()),
                _ => None,
            };
            stack.pop(1);
            if reply.is_some() {
                return reply;
            }
        }
        None
    }

    /// Pushes field number `field` of the table at `table`.
    fn push_field(&self, field: c_int, table: c_int) {
        let table = self.stack.absolute(table);
        self.stack.push_copy(self.fields + field);
        self.stack.get_pair(table);
    }

    /// The table below the top is an error, whose text is on top.
    fn error(&mut self) -> Reply {
        let stack = self.stack;
        let message = without_newlines(c_text(Some(self.string(-1)))).to_vec();
        stack.get_field(-2, "ignore_error_stats_update");
        self.counted |= self.depth == 1 && stack.kind(-1) == Kind::Boolean && stack.truth(-1);
        stack.pop(1);
        Error::quoting(Code::Custom, message).into()
    }

    /// The table on top may be `{format=..., string=...}`.
    fn verbatim(&mut self) -> Option<Reply> {
        let stack = self.stack;
        self.push_field(7, -1);
        self.push_field(8, -2);
        let both = stack.kind(-2) == Kind::String && stack.kind(-1) == Kind::String;
        let reply = both.then(|| {
            let format = c_text(stack.bytes(-2));
            let format = std::array::from_fn(|i| format.get(i).copied().unwrap_or(b' '));
            Reply::Verbatim(format, Blob::from_slice(self.string(-1)))
        });
        stack.pop(2);
        reply
    }

    /// The table on top holds keys and values.
    fn map(&mut self) -> Reply {
        let stack = self.stack;
        let mut pairs = Vec::new();
        stack.push_nil();
        while stack.next(-2) {
            if self.stopped.is_some() {
                stack.pop(2);
                break;
            }
            stack.push_copy(-2);
            let key = self.pop();
            pairs.push((key, self.pop()));
        }
        Reply::Map(pairs)
    }

    /// The keys of the table on top are members.
    fn set(&mut self) -> Reply {
        let stack = self.stack;
        let mut members = Vec::new();
        stack.push_nil();
        while stack.next(-2) {
            stack.pop(1);
            if self.stopped.is_some() {
                stack.pop(1);
                break;
            }
            stack.push_copy(-1);
            members.push(self.pop());
        }
        Reply::Set(members)
    }

    /// The elements of the table on top up to the first nil.
    fn array(&mut self) -> Reply {
        let mut items = Vec::new();
        for position in 1.. {
            self.stack.get_element(-1, position);
            if self.stack.kind(-1) == Kind::Nil || self.stopped.is_some() {
                self.stack.pop(1);
                break;
            }
            items.push(self.pop());
        }
        Reply::Array(items)
    }
}

/// A number as an integer: truncated, and what does not fit becomes the smallest integer, as on the machines on which
/// Redis runs.
pub fn truncate(number: f64) -> i64 {
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
    if fits { number as i64 } else { i64::MIN }
}

/// A string up to its first zero byte: statuses and errors pass through C strings in Redis.
pub fn c_text(bytes: Option<&[u8]>) -> &[u8] {
    let bytes = bytes.unwrap_or_default();
    &bytes[..bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len())]
}

/// Without line ends at the end, which would become spaces.
fn without_newlines(mut bytes: &[u8]) -> &[u8] {
    while let [rest @ .., b'\r' | b'\n'] = bytes {
        bytes = rest;
    }
    bytes
}

fn text(bytes: &[u8]) -> Cow<'static, str> {
    Cow::Owned(String::from_utf8_lossy(bytes).into_owned())
}
