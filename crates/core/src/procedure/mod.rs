//! Procedures: code of the user's that runs inside the store, next to its data.
//!
//! A procedure is written in a [`Language`] and reaches the engine only through a [`Host`], which whoever calls it
//! provides; so this layer names nothing above it. What a procedure may take of time and memory is in [`budget`],
//! the scripts that clients sent with EVAL or SCRIPT LOAD in [`registry`]. Libraries of functions stay (FUNCTION LOAD):
//! the catalog has their definitions, [`functions`] what is compiled of them; [`library`] reads a library's first line,
//! [`payload`] what FUNCTION DUMP gives. Procedures in other languages run outside of the store: [`external`].

pub mod budget;
pub mod external;
pub mod functions;
pub mod library;
pub mod lua;
pub mod payload;
pub mod registry;
mod watchdog;

#[cfg(test)]
mod nesting_tests;

pub use budget::Watch;
pub use functions::{Function, Functions, Lent, Place};
pub use registry::{Registry, Script, ScriptFlags, ScriptId};

use crate::error::{Error, Result};
use crate::reply::Reply;
use crate::sql::direct::{Asked, Show};
use crate::sql::records::ShowAt;
use crate::table::datum::DatumRef;
use crate::table::library::Libraries;
use std::sync::Arc;

/// How important a line of a procedure's log is; the numbers are Redis's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // the names say it all
pub enum LogLevel {
    Debug = 0,
    Verbose = 1,
    Notice = 2,
    Warning = 3,
}

/// What a procedure may ask of the engine that runs it.
pub trait Host {
    /// Runs a command. A refusal is an error reply, already counted as the command's.
    fn call(&mut self, args: &[&[u8]]) -> Reply;
    /// Whether the procedure's user may run this command; None when there is no such command.
    fn permits(&self, args: &[&[u8]]) -> Option<bool>;
    /// Sets the RESP version, 2 or 3, whose shapes replies have from now on.
    fn set_protocol(&mut self, version: u8);
    /// Writes a line to the log.
    fn log(&mut self, level: LogLevel, message: &[u8]);
    /// A clock that never goes back, nanoseconds.
    fn monotonic_ns(&mut self) -> u64;

    /// Runs a statement with these values for its parameters, and shows its rows.
    fn sql(&mut self, _text: &[u8], _values: &[DatumRef<'_>], _show: Show<'_>) -> Result<Asked> {
        Err(out_of_reach())
    }

    /// Shows the rows of a table that have these primary keys, a value for each column of a key, with the place of their
    /// keys. Of the columns named, if any are, those only.
    fn rows(
        &mut self,
        _table: &[u8],
        _keys: &[DatumRef<'_>],
        _columns: Option<&[&[u8]]>,
        _show: ShowAt<'_>,
    ) -> Result<()> {
        Err(out_of_reach())
    }

    /// Has `run` run the function of this name, with what its flags ask for around it. What `run` gives is whether the
    /// function did well.
    fn with_function(&mut self, _name: &[u8], _run: RunFunction<'_>) -> Result<()> {
        Err(out_of_reach())
    }
}

/// Runs a function that was found, and tells whether it did well.
pub type RunFunction<'a> = &'a mut dyn FnMut(&mut dyn Host, &Functions, Function) -> bool;

#[cold]
fn out_of_reach() -> Error {
    Error::err("the data is out of reach here")
}

/// What came of a procedure's run.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    /// The reply to its caller.
    pub reply: Reply,
    /// True when `reply` is an error that the failing command has already counted.
    pub counted: bool,
}

/// A language that procedures are written in: compiles scripts, keeps what it compiled, runs it.
pub trait Language {
    /// Makes a script ready to run; an error is one of syntax. Preparing it again does nothing.
    fn prepare(&mut self, id: ScriptId, script: &Script) -> Result<()>;
    /// Forgets a prepared script.
    fn forget(&mut self, id: ScriptId);
    /// Runs a prepared script. `now_ns` is the time of the request on the steady clock.
    fn run(&mut self, host: &mut dyn Host, id: ScriptId, call: &Call<'_>) -> Outcome;
    /// Bytes of memory it holds.
    fn memory(&self) -> usize;
}

/// One call of a script or function.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// What messages call it: a script's SHA-1 in hexadecimal, a function's name.
    pub name: &'a [u8],
    /// The request that calls a function; None for a script.
    pub words: Option<&'a [&'a [u8]]>,
    /// Names of the keys it works on.
    pub keys: &'a [&'a [u8]],
    /// Other arguments.
    pub args: &'a [&'a [u8]],
    /// When the request came, on the steady clock.
    pub now_ns: u64,
    /// Most bytes the language may hold while it runs.
    pub memory_bytes_max: usize,
    /// Most bytes by which the language's memory may grow while it runs.
    pub growth_bytes_max: usize,
    /// What it did is undone if it fails, so it may be ended whatever it has written.
    pub is_atomic: bool,
}

/// The scripts of a store and the interpreter that runs them, which is made when the first script needs it.
pub struct Scripts {
    /// The known scripts.
    pub registry: Registry,
    /// The interpreter; out of its place while it runs a script.
    pub lua: Option<Box<lua::Lua>>,
    /// Compiled functions of libraries, with an interpreter of their own; away while they change.
    functions: Option<Place>,
    watch: Arc<Watch>,
}

impl Default for Scripts {
    fn default() -> Self {
        Scripts { registry: Registry::default(), lua: None, functions: None, watch: Arc::new(Watch::default()) }
    }
}

impl Scripts {
    /// Takes the interpreter out of its place, so that a running script and the state it works on stay apart. None
    /// while a script runs.
    pub fn take_lua(&mut self) -> Option<Box<lua::Lua>> {
        if self.watch.is_running() {
            return None;
        }
        Some(self.lua.take().unwrap_or_else(|| Box::new(lua::Lua::new(self.watch.clone()))))
    }

    /// Takes the functions with their place, to change what there is of them; [`Scripts::put_functions`] gives them back.
    pub fn take_functions(&mut self) -> Place {
        self.functions.take().unwrap_or_else(|| Place::new(Functions::new(self.watch.clone())))
    }

    /// Puts the functions back.
    pub fn put_functions(&mut self, place: Place) {
        self.functions = Some(place);
    }

    /// The functions to call one, if they are what the catalog says.
    #[inline]
    pub fn lend_functions(&self, libraries: &Libraries) -> Option<Result<Lent>> {
        let place = self.functions.as_ref()?;
        place.get().is_current(libraries).then(|| place.lend())
    }

    /// Tells of the running script, and kills it, without the baton.
    pub fn watch(&self) -> &Arc<Watch> {
        &self.watch
    }

    /// Forgets every script. Gives what is to be freed, which may be done elsewhere.
    pub fn flush(&mut self) -> (Registry, Option<Box<lua::Lua>>) {
        (std::mem::take(&mut self.registry), self.lua.take())
    }

    /// Adds a script and compiles it, or says why that cannot be.
    pub fn add(&mut self, lua: &mut lua::Lua, text: &[u8]) -> Result<ScriptId> {
        let (id, is_reused) = self.registry.add(text)?;
        if is_reused {
            lua.forget(id);
        }
        let Some(script) = self.registry.get(id) else { return Err(Error::err("the script was forgotten at once")) };
        lua.prepare(id, script).inspect_err(|_| self.registry.remove(id))?;
        Ok(id)
    }

    /// Notes how long the last request took, if it called a function.
    #[inline]
    pub fn time(&self, ns: u64) {
        self.functions.iter().for_each(|place| place.get().time(ns));
    }

    /// The functions, to look at; None while there are none.
    pub fn functions(&self) -> Option<&Functions> {
        self.functions.as_ref().map(Place::get)
    }

    /// Bytes held by the interpreter of functions.
    pub fn functions_memory(&self) -> usize {
        self.functions.as_ref().map_or(0, |place| place.get().memory())
    }

    /// Bytes held by the interpreter.
    pub fn memory(&self) -> usize {
        self.lua.as_ref().map_or(0, |lua| lua.memory())
    }
}
