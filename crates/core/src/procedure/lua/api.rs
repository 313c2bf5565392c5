//! The table `redis`: what a script may ask of the engine, as in Redis ([`super::peryton`] has what it may ask besides).

use super::convert::{push_error, push_reply};
use super::stack::{Answer, Fault, Kind, Stack, push_error_table};
use crate::ds::{number, sha1};
use crate::procedure::LogLevel;
use crate::reply::Reply;
use smallvec::SmallVec;
use std::ffi::c_int;

/// The arguments of a command, as slices of the Lua strings.
type Arguments<'a> = SmallVec<[&'a [u8]; 8]>;

/// `redis.call(command, ...)`: an error reply ends the script, unless it catches it.
pub fn call(stack: Stack<'_>) -> Answer {
    command(stack, true)
}

/// `redis.pcall(command, ...)`: an error reply is a table with the field `err`.
pub fn pcall(stack: Stack<'_>) -> Answer {
    command(stack, false)
}

#[inline]
fn command(stack: Stack<'_>, raise: bool) -> Answer {
    let mut args = Arguments::new();
    if let Err(fault) = arguments(stack, &mut args) {
        return fail(stack, raise, fault);
    }
    let Some(reply) = stack.with_host(|host| host.call(&args)) else {
        return Err(reply_fault("ERR redis.call/pcall can only be called inside a script invocation"));
    };
    drop(args);
    stack.set_top(0);
    match reply {
        Reply::Error(error) => {
            push_error(stack, &error);
            if raise { Err(Fault::Value) } else { Ok(1) }
        }
        reply => push_reply(stack, &reply, stack.shared().protocol.get()).map(|()| 1),
    }
}

/// All arguments as bytes. Numbers become text on the stack, with the digits that Redis gives them.
#[inline]
fn arguments<'a>(stack: Stack<'a>, args: &mut Arguments<'a>) -> Result<(), Fault> {
    let count = stack.top();
    if count == 0 {
        return Err(reply_fault("ERR Please specify at least one argument for this redis lib call"));
    }
    args.reserve(count as usize);
    for index in 1..=count {
        match stack.kind(index) {
            Kind::String => {}
            Kind::Number => spell_number(stack, index)?,
            _ => return Err(reply_fault("ERR Lua redis lib command arguments must be strings or integers")),
        }
        args.push(stack.bytes(index).unwrap_or_default());
    }
    Ok(())
}

fn spell_number(stack: Stack<'_>, index: c_int) -> Result<(), Fault> {
    if !stack.reserve(1) {
        return Err(Fault::Memory);
    }
    stack.push_bytes(&number::score_text(stack.number(index).unwrap_or_default()))?;
    stack.replace(index);
    Ok(())
}

/// An error of the call itself: thrown, or given as a table.
#[cold]
fn fail(stack: Stack<'_>, raise: bool, fault: Fault) -> Answer {
    match fault {
        Fault::Reply(text) if !raise => {
            stack.set_top(0);
            push_error_table(stack, &text);
            Ok(1)
        }
        fault => Err(fault),
    }
}

pub fn reply_fault(text: &str) -> Fault {
    Fault::Reply(text.into())
}

/// `redis.error_reply(text)`
pub fn error_reply(stack: Stack<'_>) -> Answer {
    let Some(text) = only_string(stack) else { return Ok(1) };
    // "-CODE text" and "CODE text" are taken as they are; a word alone is no code.
    let text = super::convert::c_text(Some(text.strip_prefix(b"-").unwrap_or(text)));
    let (code, message) = match text.iter().position(|byte| *byte == b' ') {
        Some(at) => text.split_at(at + 1),
        None => (&b"ERR "[..], text),
    };
    push_error_bytes(stack, &[code, without_line_ends(message)].concat())?;
    Ok(1)
}

/// Without line ends at either end.
fn without_line_ends(mut text: &[u8]) -> &[u8] {
    while let [b'\r' | b'\n', rest @ ..] | [rest @ .., b'\r' | b'\n'] = text {
        text = rest;
    }
    text
}

/// Pushes the table that stands for an error reply.
fn push_error_bytes(stack: Stack<'_>, text: &[u8]) -> Result<(), Fault> {
    stack.push_table(0, 1);
    stack.push_bytes(text)?;
    stack.set_field(-2, "err");
    Ok(())
}

/// `redis.status_reply(text)`
pub fn status_reply(stack: Stack<'_>) -> Answer {
    if only_string(stack).is_some() {
        stack.push_table(0, 1);
        stack.push_copy(1);
        stack.set_field(-2, "ok");
    }
    Ok(1)
}

/// The only argument, if it is a string; otherwise pushes what Redis answers.
fn only_string(stack: Stack<'_>) -> Option<&[u8]> {
    if stack.top() == 1 && stack.kind(1) == Kind::String {
        return stack.bytes(1);
    }
    stack.reserve(4);
    push_error_table(stack, "ERR wrong number or type of arguments");
    None
}

/// `redis.sha1hex(text)`
pub fn sha1hex(stack: Stack<'_>) -> Answer {
    if stack.top() != 1 {
        return Err(reply_fault("ERR wrong number of arguments"));
    }
    let go_on = || !stack.shared().must_end();
    let digest = sha1::hex_while(stack.bytes(1).unwrap_or_default(), go_on).ok_or(Fault::Ended)?;
    stack.push_bytes(&digest)?;
    Ok(1)
}

/// `redis.log(level, text, ...)`
pub fn log(stack: Stack<'_>) -> Answer {
    let count = stack.top();
    if count < 2 {
        return Err(reply_fault("ERR redis.log() requires two arguments or more."));
    }
    let Some(level) = stack.number(1) else {
        return Err(reply_fault("ERR First argument must be a number (log level)."));
    };
    let level = match level as i64 {
        0 => LogLevel::Debug,
        1 => LogLevel::Verbose,
        2 => LogLevel::Notice,
        3 => LogLevel::Warning,
        _ => return Err(reply_fault("ERR Invalid debug level.")),
    };
    let parts: Vec<&[u8]> = (2..=count).filter_map(|index| stack.bytes(index)).collect();
    stack.with_host(|host| host.log(level, &parts.join(&b' ')));
    Ok(0)
}

/// `redis.setresp(version)`
pub fn setresp(stack: Stack<'_>) -> Answer {
    if stack.top() != 1 {
        return Err(reply_fault("ERR redis.setresp() requires one argument."));
    }
    let version = match stack.number(1).unwrap_or_default() as i64 {
        version @ (2 | 3) => version as u8,
        _ => return Err(reply_fault("ERR RESP version must be 2 or 3.")),
    };
    stack.shared().protocol.set(version);
    stack.with_host(|host| host.set_protocol(version));
    Ok(0)
}

/// `redis.set_repl(flags)`: checked and otherwise without effect, since what a script changes is logged whole.
pub fn set_repl(stack: Stack<'_>) -> Answer {
    if stack.top() != 1 {
        return Err(reply_fault("ERR redis.set_repl() requires two arguments."));
    }
    if stack.number(1).unwrap_or_default() as i64 & !3 != 0 {
        return Err(reply_fault("ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE."));
    }
    Ok(0)
}

/// `redis.acl_check_cmd(command, ...)`
pub fn acl_check_cmd(stack: Stack<'_>) -> Answer {
    let mut args = Arguments::new();
    arguments(stack, &mut args)?;
    match stack.with_host(|host| host.permits(&args)).flatten() {
        Some(permitted) => {
            stack.push_bool(permitted);
            Ok(1)
        }
        None => Err(reply_fault("ERR Invalid command passed to redis.acl_check_cmd()")),
    }
}

/// `redis.replicate_commands()`: true, as it always is in Redis 7.
pub fn replicate_commands(stack: Stack<'_>) -> Answer {
    stack.push_bool(true);
    Ok(1)
}

/// `redis.breakpoint()`: false, as nobody debugs.
pub fn breakpoint(stack: Stack<'_>) -> Answer {
    stack.push_bool(false);
    Ok(1)
}

/// `redis.debug(...)`: nothing, as nobody debugs.
pub fn debug(_: Stack<'_>) -> Answer {
    Ok(0)
}

/// `os.clock()`: seconds of the steady clock, to measure with.
pub fn clock(stack: Stack<'_>) -> Answer {
    let now_ns = stack.with_host(|host| host.monotonic_ns()).unwrap_or_default();
    stack.push_number(now_ns as f64 / 1e9);
    Ok(1)
}
