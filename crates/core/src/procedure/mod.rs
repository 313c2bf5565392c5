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

pub use budget::Watch;
pub use functions::Functions;
pub use registry::{Registry, Script, ScriptFlags, ScriptId};

use crate::error::{Error, Result};
use crate::reply::Reply;
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
}

/// The scripts of a store and the interpreter that runs them, which is made when the first script needs it.
pub struct Scripts {
    /// The known scripts.
    pub registry: Registry,
    /// The interpreter; out of its place while it runs a script.
    pub lua: Option<Box<lua::Lua>>,
    /// Compiled functions of libraries, with an interpreter of their own; out of their place while one runs.
    pub functions: Option<Box<Functions>>,
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

    /// Takes the functions out of their place, so that one that runs and the state it works on stay apart. None while a
    /// script or function runs.
    #[inline]
    pub fn take_functions(&mut self) -> Option<Box<Functions>> {
        if self.watch.is_running() {
            return None;
        }
        Some(self.functions.take().unwrap_or_else(|| Box::new(Functions::new(self.watch.clone()))))
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

    /// Bytes held by the interpreter of functions.
    pub fn functions_memory(&self) -> usize {
        self.functions.as_ref().map_or(0, |functions| functions.memory())
    }

    /// Bytes held by the interpreter.
    pub fn memory(&self) -> usize {
        self.lua.as_ref().map_or(0, |lua| lua.memory())
    }
}
