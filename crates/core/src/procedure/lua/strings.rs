//! `string.find`, `match`, `gmatch` and `gsub` on the interruptible matcher.

use super::pattern::{Capture, Failure, Matcher};
use super::stack::{Answer, Fault, Kind, Stack, entry};
use crate::limits;
use mlua_sys as ffi;
use std::ffi::c_int;

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Fault {
        match failure {
            Failure::Malformed(text) => Fault::Here(text),
            Failure::Interrupted => Fault::Ended,
        }
    }
}

/// Where a search begins, from its optional argument: counted from 1, negative from the end.
fn start(stack: Stack<'_>, index: c_int, len: usize) -> Result<usize, Fault> {
    let position = stack.optional_integer(index, 1)?;
    let at = if position < 0 { len as i64 + position } else { position - 1 };
    Ok(at.clamp(0, len as i64) as usize)
}

/// `string.find(text, pattern [, start [, plain]])`
pub fn find(stack: Stack<'_>) -> Answer {
    let (text, pattern) = (stack.string_argument(1)?, stack.string_argument(2)?);
    let from = start(stack, 3, text.len())?;
    let plain = stack.truth(4) || !pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte));
    if !plain {
        return search(stack, text, pattern, from, true);
    }
    match find_plain(&text[from..], pattern) {
        Some(at) => {
            stack.push_number((from + at + 1) as f64);
            stack.push_number((from + at + pattern.len()) as f64);
            Ok(2)
        }
        None => {
            stack.push_nil();
            Ok(1)
        }
    }
}

fn find_plain(text: &[u8], part: &[u8]) -> Option<usize> {
    // SAFETY: both slices are readable for their lengths; the result is null or points into the first.
    unsafe {
        let found = libc::memmem(text.as_ptr().cast(), text.len(), part.as_ptr().cast(), part.len());
        (!found.is_null()).then(|| found.cast::<u8>().offset_from(text.as_ptr()) as usize)
    }
}

/// `string.match(text, pattern [, start])`
pub fn match_(stack: Stack<'_>) -> Answer {
    let (text, pattern) = (stack.string_argument(1)?, stack.string_argument(2)?);
    let from = start(stack, 3, text.len())?;
    search(stack, text, pattern, from, false)
}

/// Pushes what the first match gives: its place and captures for `find`, captures or all of it for `match`.
fn search(stack: Stack<'_>, text: &[u8], pattern: &[u8], from: usize, find: bool) -> Answer {
    let go_on = || !stack.shared().must_end();
    let anchored = pattern.first() == Some(&b'^');
    let mut matcher = Matcher::new(text, &pattern[anchored as usize..], &go_on);
    for begin in from..=text.len() {
        if let Some(end) = matcher.match_at(begin)? {
            if !find {
                return push_captures(stack, text, &matcher, begin, end, true);
            }
            stack.push_number((begin + 1) as f64);
            stack.push_number(end as f64);
            return push_captures(stack, text, &matcher, begin, end, false).map(|count| count + 2);
        }
        if anchored {
            break;
        }
    }
    stack.push_nil();
    Ok(1)
}

/// Pushes all captures; `whole` asks for the whole match when there are none.
fn push_captures(
    stack: Stack<'_>,
    text: &[u8],
    matcher: &Matcher<'_>,
    begin: usize,
    end: usize,
    whole: bool,
) -> Answer {
    let count = matcher.captures().max(whole as usize);
    if !stack.reserve(count as c_int) {
        return Err(Fault::Here("stack overflow (too many captures)".into()));
    }
    for index in 0..count {
        push_capture(stack, text, matcher.capture(index, begin, end)?)?;
    }
    Ok(count as c_int)
}

fn push_capture(stack: Stack<'_>, text: &[u8], capture: Capture) -> Result<(), Fault> {
    match capture {
        Capture::Closed(start, len) => stack.push_bytes(&text[start..start + len]),
        Capture::Position(at) | Capture::Open(at) => {
            stack.push_number((at + 1) as f64);
            Ok(())
        }
    }
}

/// `string.gmatch(text, pattern)`: an iterator over the matches.
pub fn gmatch(stack: Stack<'_>) -> Answer {
    stack.string_argument(1)?;
    stack.string_argument(2)?;
    stack.set_top(2);
    stack.push_number(0.0);
    stack.push_function(entry!(gmatch_next), 3);
    Ok(1)
}

/// The iterator's step. Its upvalues are the text, the pattern and where to go on.
fn gmatch_next(stack: Stack<'_>) -> Answer {
    let upvalue = ffi::lua_upvalueindex;
    let (text, pattern) = (stack.string_argument(upvalue(1))?, stack.string_argument(upvalue(2))?);
    let from = stack.number(upvalue(3)).unwrap_or_default() as usize;
    let go_on = || !stack.shared().must_end();
    let mut matcher = Matcher::new(text, pattern, &go_on);
    for begin in from..=text.len() {
        if let Some(end) = matcher.match_at(begin)? {
            // An empty match must not be found again.
            stack.push_number((end + (end == begin) as usize) as f64);
            stack.replace(upvalue(3));
            return push_captures(stack, text, &matcher, begin, end, true);
        }
    }
    Ok(0)
}

/// `string.gsub(text, pattern, replacement [, max])`: the text with matches replaced, and their number.
pub fn gsub(stack: Stack<'_>) -> Answer {
    let (text, pattern) = (stack.string_argument(1)?, stack.string_argument(2)?);
    let replacement = match stack.kind(3) {
        Kind::String | Kind::Number => Replacement::Text(stack.string_argument(3)?),
        Kind::Table => Replacement::Table,
        Kind::Function => Replacement::Function,
        _ => return Err(Fault::Argument(3, "string/function/table expected".into())),
    };
    let max = stack.optional_integer(4, i64::MAX)?;
    let go_on = || !stack.shared().must_end();
    let anchored = pattern.first() == Some(&b'^');
    let mut matcher = Matcher::new(text, &pattern[anchored as usize..], &go_on);
    let mut out = Vec::with_capacity(text.len());
    let (mut at, mut count) = (0, 0);
    while count < max {
        let end = matcher.match_at(at)?;
        if let Some(end) = end {
            count += 1;
            replace(stack, text, &matcher, (at, end), &replacement, &mut out)?;
        }
        match end {
            Some(end) if end > at => at = end,
            _ if at < text.len() => {
                out.push(text[at]);
                at += 1;
            }
            _ => break,
        }
        if !stack.shared().heap.has_room(out.len()) {
            return Err(Fault::Memory);
        }
        if anchored {
            break;
        }
    }
    out.extend_from_slice(&text[at.min(text.len())..]);
    stack.push_bytes(&out)?;
    stack.push_number(count as f64);
    Ok(2)
}

enum Replacement<'a> {
    Text(&'a [u8]),
    Table,
    Function,
}

/// Appends what stands for one match.
fn replace(
    stack: Stack<'_>,
    text: &[u8],
    matcher: &Matcher<'_>,
    (begin, end): (usize, usize),
    replacement: &Replacement<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let top = stack.top();
    match replacement {
        Replacement::Text(template) => return fill_in(stack, text, matcher, (begin, end), template, out),
        Replacement::Table => {
            look_up(stack, |stack| push_capture(stack, text, matcher.capture(0, begin, end)?))?;
        }
        Replacement::Function => {
            if !stack.reserve(2) {
                return Err(Fault::Memory);
            }
            stack.push_copy(3);
            let count = push_captures(stack, text, matcher, begin, end, true)?;
            call_back(stack, count)?;
        }
    }
    match stack.kind(-1) {
        Kind::Nil => out.extend_from_slice(&text[begin..end]),
        Kind::Boolean if !stack.truth(-1) => out.extend_from_slice(&text[begin..end]),
        Kind::String | Kind::Number => out.extend_from_slice(stack.bytes(-1).unwrap_or_default()),
        _ => {
            let text = format!("invalid replacement value (a {})", stack.type_name(-1));
            return Err(Fault::Here(text.into()));
        }
    }
    stack.set_top(top);
    Ok(())
}

/// Calls a function of the script's, which may come back here: only so deep, as this uses the machine's stack.
fn call_back(stack: Stack<'_>, args: c_int) -> Result<(), Fault> {
    let depth = &stack.shared().callbacks;
    if depth.get() >= limits::SCRIPT_CALLBACKS_MAX || stack.shared().is_deep() {
        return Err(Fault::Here("C stack overflow".into()));
    }
    depth.set(depth.get() + 1);
    let result = stack.call(args, 1);
    depth.set(depth.get() - 1);
    result
}

/// Pushes the value that the table of replacements has for a key, which may be a metamethod's.
fn look_up(stack: Stack<'_>, push_key: impl FnOnce(Stack<'_>) -> Result<(), Fault>) -> Result<(), Fault> {
    /// Plain Lua indexing, in a protected call of its own.
    unsafe extern "C-unwind" fn index(l: *mut ffi::lua_State) -> c_int {
        // SAFETY: Lua calls this with a table and a key; nothing of Rust's is in this frame when it throws.
        unsafe { ffi::lua_gettable_(l, 1) };
        1
    }
    if !stack.reserve(4) {
        return Err(Fault::Memory);
    }
    stack.push_function(index, 0);
    stack.push_copy(3);
    push_key(stack)?;
    call_back(stack, 2)
}

/// Appends a replacement text in which `%1` stands for a capture, `%0` for the match and `%%` for a percent sign.
fn fill_in(
    stack: Stack<'_>,
    text: &[u8],
    matcher: &Matcher<'_>,
    (begin, end): (usize, usize),
    template: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let mut rest = template.iter();
    while let Some(&byte) = rest.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        match rest.next().copied().unwrap_or(0) {
            b'0' => out.extend_from_slice(&text[begin..end]),
            digit @ b'1'..=b'9' => match matcher.capture((digit - b'1') as usize, begin, end)? {
                Capture::Closed(start, len) => out.extend_from_slice(&text[start..start + len]),
                Capture::Position(at) | Capture::Open(at) => {
                    out.extend_from_slice(itoa::Buffer::new().format(at + 1).as_bytes());
                }
            },
            other => out.push(other),
        }
        if !stack.shared().heap.has_room(out.len()) {
            return Err(Fault::Memory);
        }
    }
    Ok(())
}
