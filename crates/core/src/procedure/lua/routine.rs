//! Calls the functions of libraries: with keys and arguments as FCALL does, with an event as triggers do, with values as SQL
//! does.
//!
//! A function may be called while another one of the same interpreter runs, which has called out to the engine. It runs
//! above that one then, and shares the library's variables with it.

use super::convert::c_text;
use super::library::{FUNCTIONS_KEY, FunctionId};
use super::rows::{self, Cell};
use super::stack::{Fault, Kind, Stack};
use super::state::{FUNCTIONS, Ground, Lua, Running};
use crate::error::{Code, Error, Result};
use crate::procedure::{Call, Host, Outcome};
use crate::reply::Reply;
use crate::table::datum::{Datum, DatumRef};
use mlua_sys as ffi;
use std::ffi::c_int;

/// A field of the event that a function gets as a table.
#[derive(Clone, Copy, Debug)]
pub enum Field<'a> {
    /// A value; NULL is no field.
    Value(DatumRef<'a>),
    /// A row, as a table by column.
    Row(&'a [Cell<'a>]),
}

/// What came of a function that was told of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// It returned false.
    pub refused: bool,
    /// The row in the field that was asked for, as the function left it.
    pub row: Option<Vec<Datum>>,
}

impl Lua {
    /// Calls a function with keys and arguments.
    pub fn call_function(&self, host: &mut dyn Host, id: FunctionId, call: &Call<'_>) -> Outcome {
        let Ok(ground) = self.ground() else { return Self::out_of_memory(call.name) };
        let stack = ground.stack;
        if ground.is_outermost {
            self.set_limit(call);
        }
        self.push_callee(&ground, id);
        let lists = push_list(stack, call.keys).and_then(|()| push_list(stack, call.args));
        let outcome = match lists {
            Ok(()) if self.shared().heap.has_room(0) => self.run_function(&ground, host, 2, call),
            _ => Self::out_of_memory(call.name),
        };
        self.tidy(&ground);
        outcome
    }

    /// Calls a function with the lists that are the second and the third value on the stack of its caller, which waits in
    /// [`Stack::with_host`]. The result is left on top of that stack. None: the caller is another interpreter's.
    pub fn call_here(
        &self,
        host: &mut dyn Host,
        id: FunctionId,
        name: &[u8],
        stack: Stack<'_>,
    ) -> Option<std::result::Result<(), Outcome>> {
        if !std::ptr::eq(stack.shared(), self.shared()) {
            return None;
        }
        let Ok(ground) = self.ground() else { return Some(Err(Self::out_of_memory(name))) };
        self.push_callee(&ground, id);
        stack.push_copy(2);
        stack.push_copy(3);
        let result = match self.execute(&ground, host, 2) {
            true => {
                stack.insert(ground.top + 1);
                stack.set_top(ground.top + 1);
                Ok(())
            }
            false => {
                let outcome = self.failure(&ground, name);
                stack.set_top(ground.top);
                Err(outcome)
            }
        };
        self.shared().protocol.set(ground.protocol);
        Some(result)
    }

    /// Calls a function with a table of these fields, and reads the row in the field called `back` afterwards.
    ///
    /// # Errors
    /// What the function raised or returned as an error, with its name and line, or what is wrong with the row.
    pub fn tell_function(
        &self,
        host: &mut dyn Host,
        id: FunctionId,
        call: &Call<'_>,
        fields: &[(&str, Field<'_>)],
        back: Option<&str>,
    ) -> Result<Told> {
        let event = |stack: Stack<'_>| push_event(stack, fields);
        let argument = |stack: Stack<'_>| {
            // The event stands below the function.
            stack.push_copy(-2);
            Ok(1)
        };
        self.with_values(host, id, call, event, argument, |stack| {
            let refused = stack.kind(-1) == Kind::Boolean && !stack.truth(-1);
            let asked = fields.iter().find(|(name, _)| Some(*name) == back && !refused);
            let row = match asked {
                Some((name, Field::Row(cells))) => {
                    Some(read_back(stack, name, cells).map_err(|why| about(call, &why))?)
                }
                _ => None,
            };
            Ok(Told { refused, row })
        })
    }

    /// Calls a function with values, and gives the value that it returns.
    ///
    /// # Errors
    /// As for [`Lua::tell_function`].
    pub fn evaluate_function(
        &self,
        host: &mut dyn Host,
        id: FunctionId,
        call: &Call<'_>,
        args: &[DatumRef<'_>],
    ) -> Result<Datum> {
        let nothing = |stack: Stack<'_>| {
            stack.push_nil();
            Ok(())
        };
        let values = |stack: Stack<'_>| {
            if !stack.reserve(args.len() as c_int + 1) {
                return Err(Fault::Memory);
            }
            args.iter().try_for_each(|value| rows::push_value(stack, *value))?;
            Ok(args.len() as c_int)
        };
        self.with_values(host, id, call, nothing, values, |stack| {
            let unfit = || about(call, &format!("a {} is no value of SQL", stack.type_name(-1)));
            rows::value_at(stack, -1).map(DatumRef::to_owned).ok_or_else(unfit)
        })
    }

    /// Calls a function. `kept` pushes a value that stays below it, `args` pushes its arguments and says how many they are;
    /// `read` finds its result on top, and what was kept below.
    fn with_values<T>(
        &self,
        host: &mut dyn Host,
        id: FunctionId,
        call: &Call<'_>,
        kept: impl FnOnce(Stack<'_>) -> std::result::Result<(), Fault>,
        args: impl FnOnce(Stack<'_>) -> std::result::Result<c_int, Fault>,
        read: impl FnOnce(Stack<'_>) -> Result<T>,
    ) -> Result<T> {
        let Ok(ground) = self.ground() else { return Err(error_of(Self::out_of_memory(call.name))) };
        let stack = ground.stack;
        // One that another called has that one's limit.
        if ground.is_outermost {
            self.set_limit(call);
        }
        let pushed = kept(stack).and_then(|()| {
            self.push_callee(&ground, id);
            args(stack)
        });
        let result = match pushed {
            Ok(args) if self.shared().heap.has_room(0) => {
                let _running = Running::begin(&self.shared().watch, call);
                match self.execute(&ground, host, args) {
                    true => returned_error(stack).map_or_else(|| read(stack), Err),
                    false => Err(error_of(self.failure(&ground, call.name))),
                }
            }
            _ => Err(error_of(Self::out_of_memory(call.name))),
        };
        self.tidy(&ground);
        result
    }

    #[inline]
    fn push_callee(&self, ground: &Ground<'_>, id: FunctionId) {
        if ground.is_outermost {
            return ground.stack.get_element(FUNCTIONS, id.place());
        }
        ground.stack.get_element(ffi::LUA_REGISTRYINDEX, FUNCTIONS_KEY);
        ground.stack.get_element(-1, id.place());
        ground.stack.remove(-2);
    }
}

/// Pushes a list of strings.
#[inline]
fn push_list(stack: Stack<'_>, items: &[&[u8]]) -> std::result::Result<(), Fault> {
    stack.push_table(items.len(), 0);
    for (position, item) in (1..).zip(items) {
        stack.push_bytes(item)?;
        stack.set_element(-2, position);
    }
    Ok(())
}

/// Pushes an event as a table.
fn push_event(stack: Stack<'_>, fields: &[(&str, Field<'_>)]) -> std::result::Result<(), Fault> {
    stack.push_table(0, fields.len());
    for (name, field) in fields {
        match field {
            Field::Value(value) => rows::set_value(stack, name, *value)?,
            Field::Row(cells) => {
                rows::push_row(stack, cells)?;
                stack.set_field(-2, name);
            }
        }
    }
    Ok(())
}

/// The row that the event, below the result on top, now has in its field `name`.
fn read_back(stack: Stack<'_>, name: &str, cells: &[Cell<'_>]) -> std::result::Result<Vec<Datum>, String> {
    stack.get_field(-2, name);
    let row = match stack.kind(-1) {
        Kind::Table => rows::read_row(stack, cells),
        _ => Err(format!("the field {name} is no row any more")),
    };
    stack.pop(1);
    row
}

/// The error that a function returned, as `redis.error_reply` makes it.
pub fn returned_error(stack: Stack<'_>) -> Option<Error> {
    if stack.kind(-1) != Kind::Table {
        return None;
    }
    stack.get_field(-1, "err");
    let is_text = stack.kind(-1) == Kind::String;
    let error = is_text.then(|| Error::quoting(Code::Custom, c_text(stack.bytes(-1)).to_vec()));
    stack.pop(1);
    error
}

/// An error about what a function did.
fn about(call: &Call<'_>, why: &str) -> Error {
    Error::err(format!("function {}: {why}", String::from_utf8_lossy(call.name)))
}

fn error_of(outcome: Outcome) -> Error {
    match outcome.reply {
        Reply::Error(error) => error,
        _ => Error::new(Code::Bug, "routine.rs: a failure without an error"),
    }
}
