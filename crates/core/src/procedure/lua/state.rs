//! The interpreter: made once, compiles each script once, runs it with its keys and arguments.

use super::convert::{FIELDS, OK_KEYS, Reader, c_text};
use super::library::Places;
use super::shared::Shared;
use super::source::{Source, Use};
use super::stack::{Answer, Fault, Kind, Stack, entry, push_error_table};
use super::{library, sandbox};
use crate::error::{Code, Error, Result};
use crate::procedure::budget::Interrupt;
use crate::procedure::{Call, Host, Language, Outcome, Script, ScriptId, Watch};
use mlua_sys as ffi;
use mlua_sys::lua_State;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

// What stands at the bottom of the interpreter's stack for good.
const HANDLER: c_int = 1;
const GLOBALS: c_int = 2;
/// From guards to what they guard.
const BEHIND: c_int = 3;
/// The metatable of a library's environment while it is loaded.
pub(super) const LOADING: c_int = 4;
/// Functions of libraries, by their number.
pub(super) const FUNCTIONS: c_int = 5;
/// Compiled scripts, by their number plus one.
const SCRIPTS: c_int = 6;
/// What scripts have as KEYS and ARGV: always the same two tables.
const KEYS: c_int = 7;
const ARGV: c_int = 8;
const FIRST_FIELD: c_int = 9;
const BASE: c_int = FIRST_FIELD + FIELDS.len() as c_int - 1;

/// Where Lua's registry has the handler.
const HANDLER_KEY: c_int = 2;
/// Slots of the stack that are reserved for calling a function and reading what it gives.
const SLOTS: c_int = 32;

/// Name of scripts in messages.
const SCRIPT_NAME: &CStr = c"@user_script";
/// Bytes of keys and arguments that may stay in place until the next run.
const LISTED_BYTES_MAX: usize = 4096;
/// Garbage that may gather between two collections, bytes.
const GARBAGE_BYTES: usize = 1 << 17;
/// Lua's own measure of when to begin a collection, in percent of what is alive.
const PAUSE: c_int = 200;

unsafe extern "C-unwind" {
    /// LuaJIT's loader with the kinds of chunk it may load; not among `mlua-sys`'s declarations for LuaJIT.
    #[link_name = "luaL_loadbufferx"]
    fn load_buffer(
        l: *mut lua_State,
        start: *const c_char,
        len: usize,
        name: *const c_char,
        kinds: *const c_char,
    ) -> c_int;
}

/// Pushes a chunk of source text compiled, or fails with the message on top.
pub fn load(stack: Stack<'_>, text: &[u8], name: &CStr) -> std::result::Result<(), Fault> {
    let heap = &stack.shared().heap;
    let before = heap.set_strict(true);
    // SAFETY: the text and both names outlive the call; errors are caught and reported by the result.
    let status = unsafe { load_buffer(stack.raw(), text.as_ptr().cast(), text.len(), name.as_ptr(), c"t".as_ptr()) };
    heap.set_strict(before);
    if status == ffi::LUA_OK { Ok(()) } else { Err(Fault::Value) }
}

/// What is known of a compiled script.
#[derive(Clone, Copy)]
struct Compiled {
    /// See [`Source::keeps_lists`].
    keeps_lists: bool,
}

/// Where a script's function stands among the compiled ones.
fn place_of(id: ScriptId) -> c_int {
    id.0 as c_int + 1
}

/// A Lua interpreter with the environment of scripts.
pub struct Lua {
    l: NonNull<lua_State>,
    shared: NonNull<Shared>,
    /// Compiled scripts by number.
    compiled: Vec<Option<Compiled>>,
    /// Numbers of the functions of libraries.
    pub(super) places: Places,
    /// Elements that KEYS and ARGV have from the last run.
    listed: (usize, usize),
    /// Collect garbage when so much is in use, bytes.
    collect_at: Cell<usize>,
    /// The number of its interrupt at the watch.
    interrupt: u64,
}

// SAFETY: the interpreter is used by one thread at a time, because it needs `&mut`, and it keeps nothing of the thread
// that made it.
unsafe impl Send for Lua {}

impl Lua {
    /// An interpreter whose runs `watch` shows.
    pub fn new(watch: Arc<Watch>) -> Self {
        let shared = NonNull::from(Box::leak(Box::new(Shared::new(watch.clone()))));
        // SAFETY: the allocator keeps C's contract, and its data lives until `drop`.
        let l = unsafe { ffi::lua_newstate(allocate, shared.as_ptr().cast()) };
        let l = NonNull::new(l).expect("memory is not refused to Rust");
        let mut lua = Lua {
            l,
            shared,
            compiled: Vec::new(),
            places: Places::default(),
            listed: (0, 0),
            collect_at: Cell::new(0),
            interrupt: 0,
        };
        lua.shared().heap.set_limit(usize::MAX);
        if sandbox::open(lua.stack()).is_err() {
            let message = String::from_utf8_lossy(lua.stack().bytes(-1).unwrap_or_default()).into_owned();
            unreachable!("the prelude is part of the program and tested: {message}");
        }
        lua.lay_base();
        lua.collect();
        lua.interrupt = watch.set_interrupt(Box::new(Hook(l)));
        lua
    }

    /// [`Lua::new`] for functions, which get keys and arguments as theirs and not as KEYS and ARGV.
    pub fn for_functions(watch: Arc<Watch>) -> Self {
        let lua = Lua::new(watch);
        for name in ["KEYS", "ARGV"] {
            lua.stack().push_nil();
            lua.stack().set_field(GLOBALS, name);
        }
        lua
    }

    /// Puts in place what stays at the bottom of the stack. The environment, the globals and what is behind guards are on
    /// it.
    fn lay_base(&mut self) {
        let stack = self.stack();
        stack.push_function(entry!(on_error), 0);
        stack.push_copy(-1);
        stack.set_element(ffi::LUA_REGISTRYINDEX, HANDLER_KEY);
        stack.insert(HANDLER);
        for (key, text) in [(OK_KEYS.0, "ok"), (OK_KEYS.1, "OK")] {
            stack.push_text(text);
            stack.set_element(ffi::LUA_REGISTRYINDEX, key);
        }
        stack.push_copy(HANDLER + 1);
        stack.replace(ffi::LUA_GLOBALSINDEX);
        stack.remove(HANDLER + 1);
        stack.push_table(0, 0);
        stack.push_copy(-1);
        stack.set_element(ffi::LUA_REGISTRYINDEX, library::FUNCTIONS_KEY);
        stack.push_table(0, 0);
        for name in ["KEYS", "ARGV"] {
            stack.push_table(4, 0);
            stack.push_copy(-1);
            stack.set_field(GLOBALS, name);
        }
        FIELDS.iter().for_each(|field| stack.push_text(field));
        debug_assert_eq!(BASE, stack.top());
        debug_assert_eq!(Kind::Table, stack.kind(GLOBALS));
        debug_assert_eq!(Kind::Table, stack.kind(LOADING));
    }

    pub(super) fn stack(&self) -> Stack<'_> {
        // SAFETY: the thread is live as long as self, and no Lua code runs: whoever runs some holds `&mut self`.
        unsafe { Stack::new(self.l.as_ptr()) }
    }

    pub(super) fn shared(&self) -> &Shared {
        // SAFETY: it lives as long as self and is only ever shared.
        unsafe { self.shared.as_ref() }
    }

    /// Fills the list at `index`, which has `before` elements.
    #[inline]
    fn fill_list(&self, index: c_int, items: &[&[u8]], before: usize) -> std::result::Result<(), Fault> {
        let stack = self.stack();
        for (position, item) in (1..).zip(items) {
            stack.push_bytes(item)?;
            stack.set_element(index, position);
        }
        for position in items.len()..before {
            stack.push_nil();
            stack.set_element(index, position as c_int + 1);
        }
        Ok(())
    }

    /// Gives the function on top an environment of its own with the globals that its source may use directly.
    fn bind_globals(&self, source: &Source) {
        let stack = self.stack();
        stack.push_table(0, source.uses.len());
        self.fill_environment(source);
        stack.set_environment(-2);
    }

    /// Makes an environment of the table on top.
    pub(super) fn fill_environment(&self, source: &Source) {
        let stack = self.stack();
        if stack.get_metatable(ffi::LUA_GLOBALSINDEX) {
            stack.set_metatable(-2);
        }
        for (name, used) in source.uses.iter().filter(|(_, used)| **used != Use::Assigned) {
            let Ok(name) = std::str::from_utf8(name) else { continue };
            stack.get_field(GLOBALS, name);
            if *used == Use::Fields {
                stack.push_copy(-1);
                stack.get_pair(BEHIND);
                // What is not guarded stays as it is.
                if stack.kind(-1) == Kind::Nil { stack.pop(1) } else { stack.remove(-2) }
            }
            stack.set_field(-2, name);
        }
    }

    /// Sets what the interpreter may hold while a run lasts.
    #[inline]
    pub(super) fn set_limit(&self, call: &Call<'_>) {
        let heap = &self.shared().heap;
        if heap.used() > call.memory_bytes_max {
            self.collect_all();
        }
        heap.set_limit(call.memory_bytes_max.min(heap.used().saturating_add(call.growth_bytes_max)));
    }

    /// Where a function can be called: on the interpreter's own stack, or, while a function of it has called out to the
    /// engine, above what that one has on its.
    #[inline]
    pub(super) fn ground(&self) -> std::result::Result<Ground<'_>, Fault> {
        match self.shared().thread.get() {
            None => Ok(self.base()),
            Some(thread) => self.ground_above(thread),
        }
    }

    /// The interpreter's own stack, when none of its functions runs.
    #[inline]
    pub(super) fn base(&self) -> Ground<'_> {
        let stack = self.stack();
        stack.reserve(SLOTS);
        Ground { stack, top: BASE, handler: HANDLER, is_outermost: true, protocol: 2 }
    }

    #[cold]
    fn ground_above(&self, thread: NonNull<lua_State>) -> std::result::Result<Ground<'_>, Fault> {
        // SAFETY: it is a live thread of this interpreter that waits for what it called out for (`Stack::with_host`), so
        // our code runs and may use what is above its top.
        let stack = unsafe { Stack::new(thread.as_ptr()) };
        if !stack.reserve(SLOTS) {
            return Err(Fault::Memory);
        }
        let top = stack.top();
        stack.get_element(ffi::LUA_REGISTRYINDEX, HANDLER_KEY);
        Ok(Ground { stack, top, handler: top + 1, is_outermost: false, protocol: self.shared().protocol.get() })
    }

    /// Runs the function below `args` arguments; its result, or the error, is on top then. False for an error.
    pub(super) fn execute(&self, ground: &Ground<'_>, host: &mut dyn Host, args: c_int) -> bool {
        let shared = self.shared();
        shared.error_place.set(None);
        shared.protocol.set(2);
        let status = shared.lend(host, || {
            shared.heap.set_strict(true);
            // SAFETY: the function and its arguments are on top and the handler in its place; errors are caught by the protected call.
            let status = unsafe { ffi::lua_pcall(ground.stack.raw(), args, 1, ground.handler) };
            shared.heap.set_strict(false);
            status
        });
        status == ffi::LUA_OK
    }

    /// What the error on top means for the caller of the script.
    pub(super) fn failure(&self, ground: &Ground<'_>, name: &[u8]) -> Outcome {
        let name = String::from_utf8_lossy(name);
        let (stack, place) = (ground.stack, self.shared().error_place.take());
        let place = place.map(|(source, line)| format!(" script: {}, on {source}:{line}.", name));
        let mut counted = false;
        let err = |text: &[u8]| Some([b"ERR ", text].concat());
        let message: Option<Vec<u8>> = match stack.kind(-1) {
            Kind::Table => {
                stack.get_field(-1, "ignore_error_stats_update");
                counted = stack.truth(-1);
                stack.get_field(-2, "err");
                stack.bytes(-1).map(|bytes| c_text(Some(bytes)).to_vec())
            }
            _ if place.is_none() => None,
            Kind::Nil => err(b"nil"),
            Kind::Boolean => err(stack.truth(-1).to_string().as_bytes()),
            Kind::String | Kind::Number => err(c_text(stack.bytes(-1))),
            _ => err(stack.type_name(-1).as_bytes()),
        };
        let reply = match message {
            // Of a routine that another one called, the place is known already.
            Some(message) if is_placed(&String::from_utf8_lossy(&message)) => Error::quoting(Code::Custom, message),
            Some(message) => Error::quoting(Code::Custom, [message, place.unwrap_or_default().into_bytes()].concat()),
            None => {
                let text = stack.bytes(-1).map_or("execution failure".into(), String::from_utf8_lossy);
                Error::err(format!("Error running script {}, {text}", name))
            }
        };
        Outcome { reply: reply.into(), counted }
    }

    pub(super) fn out_of_memory(name: &[u8]) -> Outcome {
        let name = String::from_utf8_lossy(name);
        let error = Error::err(format!("Error running script {}, not enough memory", name));
        Outcome { reply: error.into(), counted: false }
    }

    /// Runs the function below `args` arguments, on top, and makes a reply of what it gives. The watch shows it until then.
    pub(super) fn run_function(
        &self,
        ground: &Ground<'_>,
        host: &mut dyn Host,
        args: c_int,
        call: &Call<'_>,
    ) -> Outcome {
        let _running = Running::begin(&self.shared().watch, call);
        if !self.execute(ground, host, args) {
            return self.failure(ground, call.name);
        }
        let fields = if ground.is_outermost { FIRST_FIELD } else { push_fields_below(ground.stack) };
        let mut reader = Reader::new(ground.stack, fields, self.shared().protocol.get());
        let reply = reader.read();
        Outcome { reply, counted: reader.counted }
    }

    /// Ends a run: the stack is as before, and garbage that has gathered is collected.
    #[inline]
    pub(super) fn tidy(&self, ground: &Ground<'_>) {
        ground.stack.set_top(ground.top);
        if !ground.is_outermost {
            self.shared().protocol.set(ground.protocol);
        } else if self.memory() >= self.collect_at.get() {
            self.collect();
        }
    }

    /// Collects all garbage there is.
    #[cold]
    fn collect_all(&self) {
        // SAFETY: as in `collect`.
        unsafe { ffi::lua_gc(self.l.as_ptr(), ffi::LUA_GCCOLLECT, 0) };
    }

    /// Collects garbage and sets when to do so again: between scripts if possible, where a whole collection is cheaper
    /// than many small steps.
    fn collect(&self) {
        let l = self.l.as_ptr();
        // SAFETY: no Lua code runs, and as scripts cannot attach finalizers none will.
        // One cycle, or what is left of one: a full collection would sweep everything twice.
        unsafe { ffi::lua_gc(l, ffi::LUA_GCSTEP, 1 << 20) };
        let heap = &self.shared().heap;
        // What a cycle that was under way had marked already is garbage for the next one. Much of that must not be in the
        // way of the next script.
        if heap.used() > heap.limit() / 2 {
            self.collect_all();
        }
        let alive = heap.used();
        let headroom = GARBAGE_BYTES.max(alive / 2);
        let collect_at = alive + headroom;
        self.collect_at.set(collect_at);
        // Restarting sets Lua's own threshold to what is alive times the pause.
        let percent = (collect_at + GARBAGE_BYTES / 4).saturating_mul(100) / alive.max(1);
        // SAFETY: these set numbers only.
        unsafe {
            ffi::lua_gc(l, ffi::LUA_GCSETPAUSE, percent.min(1 << 20) as c_int);
            ffi::lua_gc(l, ffi::LUA_GCRESTART, -1);
            ffi::lua_gc(l, ffi::LUA_GCSETPAUSE, PAUSE);
        }
    }
}

impl Language for Lua {
    fn prepare(&mut self, id: ScriptId, script: &Script) -> Result<()> {
        let index = id.0 as usize;
        if self.compiled.get(index).is_some_and(Option::is_some) {
            return Ok(());
        }
        if self.compiled.len() <= index {
            self.compiled.resize(index + 1, None);
        }
        let stack = self.stack();
        stack.reserve(8);
        if load(stack, script.code(), SCRIPT_NAME).is_err() {
            let text = String::from_utf8_lossy(stack.bytes(-1).unwrap_or_default()).into_owned();
            stack.set_top(BASE);
            return Err(Error::err(format!("Error compiling script (new function): {text}")));
        }
        let source = Source::new(script.code());
        // What compiles so compiles with a few parentheses more, unless it is at a limit of the compiler.
        if load(stack, &source.text, SCRIPT_NAME).is_err() {
            stack.pop(1);
        }
        self.bind_globals(&source);
        stack.set_element(SCRIPTS, place_of(id));
        stack.set_top(BASE);
        self.compiled[index] = Some(Compiled { keeps_lists: source.keeps_lists });
        Ok(())
    }

    fn forget(&mut self, id: ScriptId) {
        if self.compiled.get_mut(id.0 as usize).and_then(Option::take).is_some() {
            self.stack().push_nil();
            self.stack().set_element(SCRIPTS, place_of(id));
        }
    }

    fn run(&mut self, host: &mut dyn Host, id: ScriptId, call: &Call<'_>) -> Outcome {
        let shared = self.shared();
        self.set_limit(call);
        let ground = self.base();
        let stack = ground.stack;
        let lists = self
            .fill_list(KEYS, call.keys, self.listed.0)
            .and_then(|()| self.fill_list(ARGV, call.args, self.listed.1));
        let keeps_lists = self.compiled.get(id.0 as usize).copied().flatten().is_some_and(|script| script.keeps_lists);
        let outcome = if lists.is_err() || !shared.heap.has_room(0) {
            Self::out_of_memory(call.name)
        } else {
            stack.get_element(SCRIPTS, place_of(id));
            self.run_function(&ground, host, 0, call)
        };
        stack.set_top(BASE);
        let bytes: usize = call.keys.iter().chain(call.args).map(|item| item.len()).sum();
        let must_clear = lists.is_err() || !keeps_lists || bytes > LISTED_BYTES_MAX;
        if must_clear {
            stack.clear_table(KEYS);
            stack.clear_table(ARGV);
        }
        self.tidy(&ground);
        self.listed = if must_clear { (0, 0) } else { (call.keys.len(), call.args.len()) };
        outcome
    }

    fn memory(&self) -> usize {
        self.shared().heap.used()
    }
}

/// Where a function is called; see [`Lua::ground`].
pub(super) struct Ground<'a> {
    /// The stack that it is called on.
    pub stack: Stack<'a>,
    /// Values on the stack before and after.
    pub top: c_int,
    handler: c_int,
    /// No other function of this interpreter is running.
    pub is_outermost: bool,
    /// The RESP version of the one that is.
    pub protocol: u8,
}

/// Puts the names of [`FIELDS`] below the value on top, and tells where.
#[cold]
fn push_fields_below(stack: Stack<'_>) -> c_int {
    FIELDS.iter().for_each(|field| stack.push_text(field));
    let first = stack.top() - FIELDS.len() as c_int;
    stack.push_copy(first);
    first + 1
}

/// Does a message end in the place of a function or script, as [`Lua::failure`] tells it?
fn is_placed(message: &str) -> bool {
    let place = message.strip_suffix('.').and_then(|text| text.rsplit_once(", on @user_"));
    place.is_some_and(|(before, place)| {
        before.contains(" script: ") && place.rsplit_once(':').is_some_and(|(_, line)| line.parse::<u32>().is_ok())
    })
}

/// A run that the watch shows, until its reply is read, whatever happens. Of runs inside each other it shows the outermost.
pub(super) struct Running<'a>(Option<&'a Watch>);

impl<'a> Running<'a> {
    /// Begins, unless another run is under way.
    #[inline]
    pub fn begin(watch: &'a Watch, call: &'a Call<'_>) -> Running<'a> {
        if watch.is_running() {
            return Running(None);
        }
        match call.words {
            None => watch.begin(call.now_ns, call.is_atomic),
            // SAFETY: the name and the words are borrowed for as long as this lives, and its end is the run's.
            Some(words) => unsafe { watch.begin_function(call.now_ns, call.name, words, call.is_atomic) },
        }
        Running(Some(watch))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|watch| watch.end());
    }
}

impl Drop for Lua {
    fn drop(&mut self) {
        self.shared().watch.remove_interrupt(self.interrupt);
        // SAFETY: the interpreter goes first, then what its allocator uses, which came from a Box.
        unsafe {
            ffi::lua_close(self.l.as_ptr());
            drop(Box::from_raw(self.shared.as_ptr()));
        }
    }
}

/// Lua's way to our heap.
unsafe extern "C" fn allocate(shared: *mut c_void, pointer: *mut c_void, old: usize, new: usize) -> *mut c_void {
    // SAFETY: the interpreter passes the data it was made with and keeps the contract of its blocks.
    unsafe { (*shared.cast::<Shared>()).heap.reallocate(pointer, old, new) }
}

/// The interpreter's hook, which runs before each instruction once armed.
struct Hook(NonNull<lua_State>);

// SAFETY: arming is all that other threads do with it; see `arm`.
unsafe impl Send for Hook {}

impl Interrupt for Hook {
    fn arm(&self) {
        // SAFETY: the interpreter lives: its hook leaves the watch, under the watch's lock, before it goes. LuaJIT allows
        // this call while a script runs (it is meant for signal handlers): it stores words that the interpreter reads
        // again at each instruction, and nothing else sets hooks.
        unsafe { ffi::lua_sethook(self.0.as_ptr(), Some(on_hook), ffi::LUA_MASKCOUNT, 1) };
    }

    fn disarm(&self) {
        // SAFETY: as above; no script runs.
        unsafe { ffi::lua_sethook(self.0.as_ptr(), None, 0, 0) };
    }
}

/// Ends a killed script. It runs again at the next instruction, so that catching the error does not help.
unsafe extern "C-unwind" fn on_hook(l: *mut lua_State, _: *mut ffi::lua_Debug) {
    // SAFETY: Lua's code called us on its running thread; from here on Rust runs, until the error is thrown, when there
    // is nothing to drop.
    unsafe {
        let stack = Stack::new(l);
        if !stack.shared().watch.is_killed() {
            return;
        }
        stack.shared().heap.set_strict(false);
        stack.reserve(4);
        push_error_table(stack, stack.shared().watch.why());
        stack.shared().heap.set_strict(true);
        ffi::lua_error(l);
    }
}

/// Notes the script's line that an uncaught error comes from; the error itself passes on.
fn on_error(stack: Stack<'_>) -> Answer {
    let mut frame = MaybeUninit::<ffi::lua_Debug>::zeroed();
    for level in 1.. {
        // SAFETY: all-zero is a valid value of this plain struct, which the functions fill in; nothing throws.
        let (source, line) = unsafe {
            if ffi::lua_getstack(stack.raw(), level, frame.as_mut_ptr()) == 0
                || ffi::lua_getinfo(stack.raw(), c"Sl".as_ptr(), frame.as_mut_ptr()) == 0
            {
                break;
            }
            let frame = frame.assume_init_ref();
            (CStr::from_ptr(frame.source), frame.currentline)
        };
        if line > 0 && source != sandbox::PRELUDE_NAME {
            stack.shared().error_place.set(Some((source.to_string_lossy().into_owned(), line)));
            break;
        }
    }
    stack.set_top(1);
    Ok(1)
}
