//! Libraries: runs a library's code, which registers its functions ([`super::routine`] calls these).
//!
//! The functions of a library share an environment of their own. While the code runs there is only a table `redis`,
//! whose `register_function` works then and only then; afterwards it becomes like that of a script (`prelude.lua`). A
//! function that is registered is kept in a table by its number; nothing is compiled or looked up by text again.

use super::convert::c_text;
use super::source::Source;
use super::stack::{Answer, Fault, Kind, Stack, push_error_table};
use super::state::{FUNCTIONS, LOADING, Lua, load};
use crate::error::{Error, Result};
use crate::limits;
use crate::procedure::Host;
use crate::procedure::library::bad_name;
use crate::table::library::{FLAG_NAMES, FunctionDef, ScriptFlags, is_name};
use mlua_sys as ffi;
use mlua_sys::lua_State;
use std::ffi::{CStr, c_int};

/// Where Lua's registry has the table of functions.
pub(super) const FUNCTIONS_KEY: c_int = 1;
/// Name of libraries in messages.
const NAME: &CStr = c"@user_function";

/// Names a compiled function while its library is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionId(c_int);

impl FunctionId {
    /// Its number.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Its place in the table of functions.
    #[inline]
    pub(super) fn place(self) -> c_int {
        self.0
    }
}

/// What a library may take while it is loaded.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most bytes the interpreter may hold.
    pub memory_bytes_max: usize,
    /// How long it may run, milliseconds; None: as long as it takes.
    pub ms_max: Option<u64>,
}

/// A library being loaded: what it has registered so far.
#[derive(Default)]
pub struct Loading {
    functions: Vec<FunctionDef>,
    /// Bytes of names and descriptions.
    bytes: usize,
    /// The places that its functions take.
    places: Places,
}

/// Numbers of functions, used again when they are free.
#[derive(Default)]
pub struct Places {
    free: Vec<c_int>,
    last: c_int,
}

impl Places {
    /// The place that is taken after `taken` others.
    fn get(&self, taken: usize) -> c_int {
        match self.free.len().checked_sub(taken + 1) {
            Some(at) => self.free[at],
            None => self.last + (taken - self.free.len()) as c_int + 1,
        }
    }

    /// Takes so many.
    fn take(&mut self, count: usize) -> Vec<FunctionId> {
        let taken = (0..count).map(|nth| FunctionId(self.get(nth))).collect();
        let new = count.saturating_sub(self.free.len());
        self.free.truncate(self.free.len().saturating_sub(count));
        self.last += new as c_int;
        taken
    }
}

impl Lua {
    /// Runs the code of a library and gives what it registers.
    ///
    /// # Errors
    /// It does not compile, fails, or takes too much. It has registered nothing then.
    pub fn load_library(
        &mut self,
        host: &mut dyn Host,
        code: &[u8],
        limits: Limits,
    ) -> Result<Vec<(FunctionDef, FunctionId)>> {
        let result = self.run_library(host, code, limits);
        let loading = self.shared().loading.take().unwrap_or_default();
        self.places = loading.places;
        let ids = self.places.take(loading.functions.len());
        if result.is_err() {
            ids.iter().for_each(|id| self.forget_function(*id));
        }
        self.tidy(&self.base());
        result.map(|()| loading.functions.into_iter().zip(ids).collect())
    }

    /// Forgets a function. Its number is used again.
    pub fn forget_function(&mut self, id: FunctionId) {
        self.stack().push_nil();
        self.stack().set_element(FUNCTIONS, id.0);
        self.places.free.push(id.0);
    }

    fn run_library(&mut self, host: &mut dyn Host, code: &[u8], limits: Limits) -> Result<()> {
        let places = std::mem::take(&mut self.places);
        let (stack, shared) = (self.stack(), self.shared());
        shared.loading.set(Some(Loading { places, ..Loading::default() }));
        shared.heap.set_limit(limits.memory_bytes_max);
        stack.reserve(12);
        if load(stack, code, NAME).is_err() {
            let text = String::from_utf8_lossy(stack.bytes(-1).unwrap_or_default()).into_owned();
            return Err(Error::err(format!("Error compiling function: {}", one_line(&text))));
        }
        let source = Source::new(code);
        // What compiles so compiles with a few parentheses more, unless it is at a limit of the compiler.
        match load(stack, &source.text, NAME) {
            Ok(()) => stack.remove(-2),
            Err(_) => stack.pop(1),
        }
        self.push_environment(source.uses.len());
        stack.push_copy(-2);
        let deadline_ns = limits.ms_max.map_or(0, |ms| host.monotonic_ns() + ms * 1_000_000);
        shared.deadline_ns.set(deadline_ns);
        self.set_look(deadline_ns != 0);
        let is_well = self.execute(&self.base(), host, 0);
        self.set_look(false);
        shared.deadline_ns.set(0);
        if !is_well {
            // Patterns end with words of their own when the time is over.
            let is_late = deadline_ns != 0 && host.monotonic_ns() > deadline_ns;
            return Err(if is_late { failed(TIMEOUT) } else { self.load_failure() });
        }
        stack.pop(1);
        self.fill_environment(&source);
        Ok(())
    }

    /// Pushes the environment of the function on top, as it is while a library is loaded.
    fn push_environment(&self, variables: usize) {
        let stack = self.stack();
        stack.push_table(0, variables);
        stack.push_copy(LOADING);
        stack.set_metatable(-2);
        stack.push_copy(-1);
        stack.set_environment(-3);
    }

    /// Has the running code look at the clock from time to time, or not any more.
    fn set_look(&self, looks: bool) {
        // SAFETY: the interpreter lives and is ours; this stores words only. Interrupts set the same hook, but nobody
        // interrupts what the watch does not show.
        unsafe {
            match looks {
                true => {
                    ffi::lua_sethook(self.stack().raw(), Some(on_look), ffi::LUA_MASKCOUNT, limits::LIBRARY_LOOK_EVERY)
                }
                false => ffi::lua_sethook(self.stack().raw(), None, 0, 0),
            };
        }
    }

    /// What the error on top means for whoever loads the library.
    fn load_failure(&self) -> Error {
        let stack = self.stack();
        let text = |index| String::from_utf8_lossy(c_text(stack.bytes(index))).into_owned();
        let text = match stack.kind(-1) {
            Kind::Table => {
                stack.get_field(-1, "err");
                match stack.kind(-1) {
                    Kind::String | Kind::Number => text(-1),
                    _ => "(null)".into(),
                }
            }
            Kind::String | Kind::Number => format!("ERR {}", text(-1)),
            _ => format!("ERR {}", stack.type_name(-1)),
        };
        failed(&text)
    }
}

/// What a library that runs for too long fails with.
const TIMEOUT: &str = "ERR FUNCTION LOAD timeout";

fn failed(text: &str) -> Error {
    Error::err(format!("Error registering functions: {}", one_line(text)))
}

fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

/// Ends a library that has run for too long.
unsafe extern "C-unwind" fn on_look(l: *mut lua_State, _: *mut ffi::lua_Debug) {
    // SAFETY: Lua's code called us on its running thread; from here on Rust runs, until the error is thrown, when there
    // is nothing to drop.
    unsafe {
        let stack = Stack::new(l);
        stack.shared().heap.set_strict(false);
        let is_over = stack.shared().must_end();
        if is_over {
            stack.reserve(4);
            push_error_table(stack, TIMEOUT);
        }
        stack.shared().heap.set_strict(true);
        if is_over {
            ffi::lua_error(l);
        }
    }
}

fn refused(text: &str) -> Fault {
    Fault::Reply(format!("ERR {text}"))
}

/// `redis.register_function(name, function)`, or with a table of named arguments.
pub fn register_function(stack: Stack<'_>) -> Answer {
    let shared = stack.shared();
    let Some(mut loading) = shared.loading.take() else {
        return Err(refused("redis.register_function can only be called on FUNCTION LOAD command"));
    };
    let result = read_arguments(stack).and_then(|function| loading.add(stack, function));
    shared.loading.set(Some(loading));
    result.map(|()| 0)
}

impl Loading {
    /// Adds the function on top.
    fn add(&mut self, stack: Stack<'_>, function: FunctionDef) -> std::result::Result<(), Fault> {
        if self.functions.iter().any(|known| known.name.eq_ignore_ascii_case(&function.name)) {
            return Err(refused("Function already exists in the library"));
        }
        self.bytes += function.name.len() + function.description.as_ref().map_or(0, |text| text.len());
        if self.functions.len() >= limits::LIBRARY_FUNCTIONS_MAX || self.bytes > limits::LIBRARY_BYTES_MAX {
            return Err(refused(&format!(
                "a library has at most {} functions, with {} bytes of names and descriptions",
                limits::LIBRARY_FUNCTIONS_MAX,
                limits::LIBRARY_BYTES_MAX
            )));
        }
        stack.get_element(ffi::LUA_REGISTRYINDEX, FUNCTIONS_KEY);
        stack.push_copy(-2);
        stack.set_element(-2, self.places.get(self.functions.len()));
        self.functions.push(function);
        Ok(())
    }
}

/// The arguments of `register_function`; leaves the function itself on top.
fn read_arguments(stack: Stack<'_>) -> std::result::Result<FunctionDef, Fault> {
    let (name, description, flags) = match stack.top() {
        1 => read_named(stack)?,
        2 => {
            let name =
                text(stack, 1).ok_or_else(|| refused("first argument to redis.register_function must be a string"))?;
            if stack.kind(2) != Kind::Function {
                return Err(refused("second argument to redis.register_function must be a function"));
            }
            (name, None, ScriptFlags::empty())
        }
        _ => return Err(refused("wrong number of arguments to redis.register_function")),
    };
    if !is_name(&name) {
        return Err(refused(&bad_name().message));
    }
    let name = String::from_utf8_lossy(&name).into_owned();
    Ok(FunctionDef { name, description, flags: flags | ScriptFlags::DECLARED })
}

/// A string, or a number as one.
fn text(stack: Stack<'_>, index: c_int) -> Option<Box<[u8]>> {
    matches!(stack.kind(index), Kind::String | Kind::Number).then(|| stack.bytes(index).unwrap_or_default().into())
}

type Named = (Box<[u8]>, Option<Box<[u8]>>, ScriptFlags);

/// The arguments as a table of name, description, function and flags; leaves the function on top.
fn read_named(stack: Stack<'_>) -> std::result::Result<Named, Fault> {
    if stack.kind(1) != Kind::Table {
        return Err(refused(
            "calling redis.register_function with a single argument is only applicable to Lua table (representing named \
             arguments).",
        ));
    }
    let (mut name, mut description, mut flags) = (None, None, ScriptFlags::empty());
    // The function stays below the pairs.
    stack.push_nil();
    stack.push_nil();
    while stack.next(1) {
        let key = match stack.kind(-2) {
            Kind::String => stack.bytes(-2).unwrap_or_default().to_ascii_lowercase(),
            // Redis takes a number for its digits, which are no known name.
            Kind::Number => Vec::new(),
            _ => return Err(refused("named argument key given to redis.register_function is not a string")),
        };
        match &key[..] {
            b"function_name" => {
                let wrong = || refused("function_name argument given to redis.register_function must be a string");
                name = Some(text(stack, -1).ok_or_else(wrong)?);
            }
            b"description" => {
                let wrong = || refused("description argument given to redis.register_function must be a string");
                description = Some(text(stack, -1).ok_or_else(wrong)?);
            }
            b"callback" if stack.kind(-1) == Kind::Function => {
                stack.push_copy(-1);
                stack.replace(2);
            }
            b"callback" => {
                return Err(refused("callback argument given to redis.register_function must be a function"));
            }
            b"flags" if stack.kind(-1) == Kind::Table => flags = read_flags(stack)?,
            b"flags" => {
                return Err(refused(
                    "flags argument to redis.register_function must be a table representing function flags",
                ));
            }
            _ => return Err(refused("unknown argument given to redis.register_function")),
        }
        stack.pop(1);
    }
    let name = name.ok_or_else(|| refused("redis.register_function must get a function name argument"))?;
    if stack.kind(2) == Kind::Nil {
        return Err(refused("redis.register_function must get a callback argument"));
    }
    Ok((name, description, flags))
}

/// The flags in the list on top.
fn read_flags(stack: Stack<'_>) -> std::result::Result<ScriptFlags, Fault> {
    let mut flags = ScriptFlags::empty();
    for position in 1.. {
        stack.get_element(-1, position);
        let named = match stack.kind(-1) {
            Kind::Nil => None,
            _ => Some(text(stack, -1).unwrap_or_default()),
        };
        stack.pop(1);
        let Some(named) = named else { break };
        let known = FLAG_NAMES.iter().find(|(name, _)| named.eq_ignore_ascii_case(name.as_bytes()));
        flags |= known.ok_or_else(|| refused("unknown flag given"))?.1;
    }
    Ok(flags)
}
