//! The table `peryton`: statements, rows by their keys, and other functions.
//!
//! Values go to the engine as they are, and rows come from it as they are stored: no text is made of either.

use super::api::reply_fault;
use super::convert::{push_error, push_reply};
use super::routine::returned_error;
use super::rows::{argument_at, push_value, value_at};
use super::stack::{Answer, Fault, Kind, Stack, entry};
use crate::ds::number;
use crate::error::{Code, Error};
use crate::procedure::{Call, Function, Functions, Host, Outcome};
use crate::reply::Reply;
use crate::sql::direct::Asked;
use crate::table::datum::DatumRef;
use smallvec::SmallVec;
use std::ffi::c_int;

/// Values for the engine, whose bytes are Lua's.
type Values<'a> = SmallVec<[DatumRef<'a>; 8]>;

/// Index of a C function's first upvalue.
const TEXT: c_int = mlua_sys::lua_upvalueindex(1);

/// `peryton.sql(text, ...)`: a list of rows, each a table by column; of a statement without rows, the number of rows
/// that it changed. An error ends the script, unless it catches it.
pub fn sql(stack: Stack<'_>) -> Answer {
    let text = stack.string_argument(1)?;
    statement(stack, text, 2, true)
}

/// `peryton.psql(text, ...)`: as `peryton.sql`, and an error is a table with the fields `err` and `sqlstate`.
pub fn psql(stack: Stack<'_>) -> Answer {
    let text = stack.string_argument(1)?;
    statement(stack, text, 2, false)
}

/// `peryton.prepare(text)`: a function that runs the statement with its arguments. It may be kept: the store finds what the
/// text was compiled to, and compiles it anew when definitions have changed.
pub fn prepare(stack: Stack<'_>) -> Answer {
    stack.string_argument(1)?;
    stack.push_copy(1);
    stack.push_function(entry!(prepared), 1);
    Ok(1)
}

fn prepared(stack: Stack<'_>) -> Answer {
    let text = stack.bytes(TEXT).unwrap_or_default();
    statement(stack, text, 1, true)
}

/// Runs a statement whose values are the arguments from `first` on.
#[inline]
fn statement(stack: Stack<'_>, text: &[u8], first: c_int, raise: bool) -> Answer {
    let mut values = Values::new();
    for index in first..=stack.top() {
        values.push(argument_at(stack, index).ok_or_else(|| stack.wrong_type(index, VALUE))?);
    }
    let mut list = List::new(stack)?;
    let asked = stack.with_host(|host| host.sql(text, &values, &mut |names, values| list.add(names, values)));
    match asked {
        Some(Ok(Asked::Rows)) => list.push(),
        Some(Ok(Asked::Changed(count))) => {
            stack.push_number(count as f64);
            Ok(1)
        }
        Some(Ok(Asked::Other(reply))) => push_reply(stack, &reply, 2).map(|()| 1),
        Some(Err(error)) => fail(stack, error, raise),
        None => Err(outside("peryton.sql")),
    }
}

const VALUE: &str = "nil, boolean, number, string or peryton.blob";

fn outside(name: &str) -> Fault {
    reply_fault(&format!("ERR {name} can only be called inside a script invocation"))
}

/// An error of the engine: thrown, or given as a table.
#[cold]
fn fail(stack: Stack<'_>, error: Error, raise: bool) -> Answer {
    if error.message.contains(NO_ROOM) {
        return Err(Fault::Memory);
    }
    push_error(stack, &error);
    if raise { Err(Fault::Value) } else { Ok(1) }
}

/// What ends the showing of rows that do not fit into the interpreter's memory.
const NO_ROOM: &str = "not enough memory for the rows";

#[cold]
fn no_room(_: Fault) -> Error {
    Error::new(Code::Oom, NO_ROOM)
}

/// A list of rows that is made row by row.
struct List<'a> {
    stack: Stack<'a>,
    /// Rows in it; while there is none, it is not made.
    rows: c_int,
}

impl<'a> List<'a> {
    fn new(stack: Stack<'a>) -> Result<List<'a>, Fault> {
        if stack.reserve(8) { Ok(List { stack, rows: 0 }) } else { Err(Fault::Memory) }
    }

    fn add(&mut self, names: &[&[u8]], values: &[DatumRef<'_>]) -> Result<(), Error> {
        if self.rows == 0 {
            self.stack.push_table(1, 0);
        }
        self.rows += 1;
        self.set(self.rows, names, values)
    }

    /// Sets a row; the list stays on top.
    fn set(&mut self, place: c_int, names: &[&[u8]], values: &[DatumRef<'_>]) -> Result<(), Error> {
        push_named(self.stack, names, values).map_err(no_room)?;
        self.stack.set_element(-2, place);
        Ok(())
    }

    fn push(self) -> Answer {
        if self.rows == 0 {
            self.stack.push_table(0, 0);
        }
        Ok(1)
    }
}

/// Pushes a row as a table by column; a column that is NULL is absent.
#[inline]
fn push_named(stack: Stack<'_>, names: &[&[u8]], values: &[DatumRef<'_>]) -> Result<(), Fault> {
    if !stack.shared().heap.has_room(0) {
        return Err(Fault::Memory);
    }
    stack.push_table(0, values.len());
    for (name, value) in names.iter().zip(values) {
        if value.is_null() {
            continue;
        }
        stack.push_bytes(name)?;
        push_value(stack, *value)?;
        stack.set_pair(-3);
    }
    Ok(())
}

/// `peryton.get(table, key [, columns])`: the row with this primary key as a table by column, or nil. A key of several
/// columns is a list of values.
pub fn get(stack: Stack<'_>) -> Answer {
    let table = stack.string_argument(1)?;
    let mut key = Values::new();
    add_key(stack, 2, &mut key)?;
    let columns = columns_argument(stack, 3)?;
    let top = stack.top();
    if !stack.reserve(8) {
        return Err(Fault::Memory);
    }
    let found = stack.with_host(|host| {
        host.rows(table, &key, columns.as_deref(), &mut |_, names, values| {
            // If the rows have to be shown again, the last one counts.
            stack.set_top(top);
            push_named(stack, names, values).map_err(no_room)
        })
    });
    match found {
        Some(Ok(())) => {
            if stack.top() == top {
                stack.push_nil();
            }
            Ok(1)
        }
        Some(Err(error)) => fail(stack, error, true),
        None => Err(outside("peryton.get")),
    }
}

/// What a key of `peryton.mget` takes at least, while rows are looked for and in the list of them.
const MGET_KEY_BYTES: usize = size_of::<DatumRef<'_>>() + 16;

/// `peryton.mget(table, keys [, columns])`: a list with the row of each key, or false where there is none.
pub fn mget(stack: Stack<'_>) -> Answer {
    let table = stack.string_argument(1)?;
    if stack.kind(2) != Kind::Table {
        return Err(stack.wrong_type(2, "table"));
    }
    let columns = columns_argument(stack, 3)?;
    let (mut keys, count) = (Values::new(), stack.table_len(2) as c_int);
    if !stack.reserve(8) || !stack.shared().heap.has_room(count as usize * MGET_KEY_BYTES) {
        return Err(Fault::Memory);
    }
    for place in 1..=count {
        stack.get_element(2, place);
        let added = add_key(stack, stack.top(), &mut keys).map_err(|_| stack.wrong_type(2, "a list of keys,"));
        // The list keeps the key, and its bytes, in place.
        stack.pop(1);
        added?;
    }
    stack.push_table(count as usize, 0);
    for place in 1..=count {
        stack.push_bool(false);
        stack.set_element(-2, place);
    }
    if count == 0 {
        return Ok(1);
    }
    let mut list = List { stack, rows: 0 };
    let found = stack.with_host(|host| {
        host.rows(table, &keys, columns.as_deref(), &mut |place, names, values| {
            list.set(place as c_int + 1, names, values)
        })
    });
    match found {
        Some(Ok(())) => Ok(1),
        Some(Err(error)) => fail(stack, error, true),
        None => Err(outside("peryton.mget")),
    }
}

/// Adds the values of the key at `index`: a value, or a list of them, which keeps their bytes in place.
fn add_key<'a>(stack: Stack<'a>, index: c_int, key: &mut Values<'a>) -> Result<(), Fault> {
    let misfit = || stack.wrong_type(index, "a key: a value, or a list of values,");
    if stack.kind(index) != Kind::Table {
        key.push(value_at(stack, index).filter(|value| !value.is_null()).ok_or_else(misfit)?);
        return Ok(());
    }
    let count = stack.table_len(index) as c_int;
    if count == 0 {
        key.push(value_at(stack, index).ok_or_else(misfit)?);
        return Ok(());
    }
    for place in 1..=count {
        stack.get_element(index, place);
        let value = value_at(stack, -1);
        stack.pop(1);
        key.push(value.ok_or_else(misfit)?);
    }
    Ok(())
}

/// The names of columns in the list at `index`; None: there is no list.
fn columns_argument(stack: Stack<'_>, index: c_int) -> Result<Option<SmallVec<[&[u8]; 8]>>, Fault> {
    match stack.kind(index) {
        Kind::None | Kind::Nil => return Ok(None),
        Kind::Table => {}
        _ => return Err(stack.wrong_type(index, "table")),
    }
    let mut columns = SmallVec::new();
    for place in 1..=stack.table_len(index) as c_int {
        stack.get_element(index, place);
        let is_string = stack.kind(-1) == Kind::String;
        let name = stack.bytes(-1).filter(|_| is_string);
        stack.pop(1);
        columns.push(name.ok_or_else(|| stack.wrong_type(index, "a list of names,"))?);
    }
    Ok(Some(columns))
}

/// `peryton.blob(text)`: a value that is these bytes and no text, for the column of a table.
pub fn blob(stack: Stack<'_>) -> Answer {
    stack.string_argument(1)?;
    stack.push_table(0, 1);
    stack.push_copy(1);
    stack.set_field(-2, "blob");
    Ok(1)
}

/// `peryton.call(name, keys, args)`: calls a function of any library and gives its result. Between functions, lists and
/// result pass as they are; from a script they pass as those of FCALL do.
pub fn call(stack: Stack<'_>) -> Answer {
    let name = stack.string_argument(1)?;
    stack.set_top(3);
    if !stack.reserve(8) {
        return Err(Fault::Memory);
    }
    for index in 2..=3 {
        match stack.kind(index) {
            Kind::Table => {}
            Kind::Nil => {
                stack.push_table(0, 0);
                stack.replace(index);
            }
            _ => return Err(stack.wrong_type(index, "table")),
        }
    }
    let mut outcome = None;
    let found = stack.with_host(|host| {
        host.with_function(name, &mut |host, functions, function| {
            let came_of_it = call_found(stack, host, functions, function);
            let is_well = came_of_it.is_well(stack);
            outcome = Some(came_of_it);
            is_well
        })
    });
    let outcome = match (found, outcome) {
        (None, _) => return Err(outside("peryton.call")),
        (Some(Err(error)), _) => Came::Failed(error, false),
        (Some(Ok(())), Some(outcome)) => outcome,
        (Some(Ok(())), None) => {
            Came::Failed(Error::new(Code::Bug, "peryton.rs: a function that was found did not run"), false)
        }
    };
    match outcome {
        Came::Here => Ok(1),
        Came::Reply(reply) => push_reply(stack, &reply, 2).map(|()| 1),
        Came::Failed(error, counted) => {
            push_error(stack, &error);
            if !counted {
                stack.push_nil();
                stack.set_field(-2, "ignore_error_stats_update");
            }
            Err(Fault::Value)
        }
    }
}

/// What came of a function that was called.
enum Came {
    /// Its result is on top of the stack.
    Here,
    /// The result, from another interpreter.
    Reply(Reply),
    /// It failed; true: that is counted already.
    Failed(Error, bool),
}

impl Came {
    fn is_well(&self, stack: Stack<'_>) -> bool {
        match self {
            Came::Here => returned_error(stack).is_none(),
            Came::Reply(reply) => !reply.is_error(),
            Came::Failed(..) => false,
        }
    }
}

fn call_found(stack: Stack<'_>, host: &mut dyn Host, functions: &Functions, function: Function) -> Came {
    let failed = |outcome: Outcome| match outcome {
        Outcome { reply: Reply::Error(error), counted } => Came::Failed(error, counted),
        Outcome { reply, .. } => Came::Reply(reply),
    };
    if let Some(result) = functions.call_here(host, function, stack) {
        return result.map_or_else(failed, |()| Came::Here);
    }
    let (Some(keys), Some(args)) = (strings_of(stack, 2), strings_of(stack, 3)) else {
        let text = "keys and arguments of a function that a script calls must be strings or integers";
        return Came::Failed(Error::err(text), false);
    };
    let (keys, args): (Vec<&[u8]>, Vec<&[u8]>) =
        (keys.iter().map(|key| &key[..]).collect(), args.iter().map(|arg| &arg[..]).collect());
    let memory_bytes_max = stack.shared().heap.limit();
    let call = Call {
        name: b"",
        words: None,
        keys: &keys,
        args: &args,
        now_ns: 0,
        memory_bytes_max,
        growth_bytes_max: memory_bytes_max,
        is_atomic: false,
    };
    failed(functions.call(host, function, &call))
}

/// The strings and numbers of the list at `index`; None: it has other values.
fn strings_of(stack: Stack<'_>, index: c_int) -> Option<Vec<Vec<u8>>> {
    let mut strings = Vec::new();
    for place in 1..=stack.table_len(index) as c_int {
        stack.get_element(index, place);
        let string = match stack.kind(-1) {
            Kind::String => stack.bytes(-1).map(<[u8]>::to_vec),
            Kind::Number => stack.number(-1).map(|number| number::score_text(number).to_vec()),
            _ => None,
        };
        stack.pop(1);
        strings.push(string?);
    }
    Some(strings)
}
