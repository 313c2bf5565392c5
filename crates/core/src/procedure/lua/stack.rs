//! The border between Lua and Rust: a view of a Lua stack, and the guard in front of every Rust function that Lua calls.
//!
//! Lua reports errors by unwinding the C stack, Rust panics do too, and neither may pass through the other's frames
//! (invariant 12). So a Rust function never calls anything of Lua's that can throw, and answers a [`Fault`] instead of
//! throwing itself; the guard ([`protect`]) catches panics and does the throwing when all Rust frames are gone.
//!
//! **Why nothing here can throw.** Lua's API throws for want of memory, for wrong types, from metamethods and from
//! collected objects' finalizers. Memory is not refused to Rust ([`super::heap`]). Functions that run metamethods are
//! not used: all access is raw, and scripts have no means to attach finalizers. Types, indices and lengths are checked
//! before the call, and stack slots are reserved ([`Stack::reserve`]; a function starts with twenty). The `SAFETY`
//! comments below cite this as "nothing throws".

use super::shared::Shared;
use crate::procedure::Host;
use mlua_sys as ffi;
use mlua_sys::lua_State;
use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};

/// Longest string that LuaJIT can hold, bytes.
pub const STRING_BYTES_MAX: usize = 0x7fff_ff00;

/// Why a Rust function called by Lua fails.
#[derive(Debug)]
pub enum Fault {
    /// A message; the place in the calling Lua code is put before it.
    Here(Cow<'static, str>),
    /// A message as it is.
    Plain(Cow<'static, str>),
    /// An argument, counted from 1, does not fit.
    Argument(c_int, Cow<'static, str>),
    /// An error reply, thrown as a table with the field `err`.
    Reply(String),
    /// The value on top of the stack is the error.
    Value,
    /// The memory limit is reached.
    Memory,
    /// Somebody, or a limit, ends the script.
    Ended,
}

/// Number of results left on top of the stack.
pub type Answer = Result<c_int, Fault>;

/// A function that Lua can call.
pub type Function = fn(Stack<'_>) -> Answer;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it all
pub enum Kind {
    None,
    Nil,
    Boolean,
    LightUserdata,
    Number,
    String,
    Table,
    Function,
    Userdata,
    Thread,
    Other,
}

/// The stack of a running Lua thread. Negative indices count from the top.
///
/// Bytes read from it ([`Stack::bytes`]) are Lua's own: they live while the value stays on the stack, so functions leave
/// their arguments in place until they are done with them.
#[derive(Clone, Copy)]
pub struct Stack<'a> {
    l: *mut lua_State,
    shared: &'a Shared,
}

impl<'a> Stack<'a> {
    /// A view of `l`'s stack.
    ///
    /// # Safety
    /// `l` is a live thread of an interpreter made by [`super::Lua`], nothing else uses it meanwhile, and its heap is not
    /// strict (Lua's code is not running).
    pub unsafe fn new(l: *mut lua_State) -> Self {
        let mut shared = ptr::null_mut();
        // SAFETY: the thread is live; its allocator's data is the interpreter's Shared, which outlives the thread.
        let shared: &Shared = unsafe {
            ffi::lua_getallocf(l, &mut shared);
            &*shared.cast()
        };
        Stack { l, shared }
    }

    /// What the functions of one interpreter share.
    pub fn shared(self) -> &'a Shared {
        self.shared
    }

    /// Gives the host to a function; None when no script runs, or the host is in use further up. A function that the host
    /// calls back runs above what is on this stack (see [`super::state::Ground`]).
    #[inline]
    pub fn with_host<R>(self, use_it: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
        /// Notes the thread that called out before, whatever happens.
        struct Back<'a>(&'a Shared, Option<NonNull<lua_State>>);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.thread.set(self.1);
            }
        }
        let _back = Back(self.shared, self.shared.thread.replace(NonNull::new(self.l)));
        self.shared.with_host(use_it)
    }

    /// The thread, for the few who need more than this view.
    pub fn raw(self) -> *mut lua_State {
        self.l
    }

    /// Number of values; when a function begins, of its arguments.
    #[inline]
    pub fn top(self) -> c_int {
        // SAFETY: the thread is live; nothing throws.
        unsafe { ffi::lua_gettop(self.l) }
    }

    /// Drops values above the first `count`, or adds nils.
    #[inline]
    pub fn set_top(self, count: c_int) {
        debug_assert!(count >= 0);
        // SAFETY: the thread is live; growth is by less than was reserved; nothing throws.
        unsafe { ffi::lua_settop(self.l, count) }
    }

    /// Drops `count` values.
    #[inline]
    pub fn pop(self, count: c_int) {
        // SAFETY: as in set_top.
        unsafe { ffi::lua_settop(self.l, -count - 1) }
    }

    /// Makes sure that `slots` more values can be pushed; false when the stack would become too deep.
    #[inline]
    pub fn reserve(self, slots: c_int) -> bool {
        // SAFETY: the thread is live; the function reports failure by its result.
        unsafe { ffi::lua_checkstack(self.l, slots) != 0 }
    }

    /// What the value at `index` is.
    #[inline]
    pub fn kind(self, index: c_int) -> Kind {
        // SAFETY: the thread is live; any index may be asked for.
        match unsafe { ffi::lua_type(self.l, index) } {
            ffi::LUA_TNONE => Kind::None,
            ffi::LUA_TNIL => Kind::Nil,
            ffi::LUA_TBOOLEAN => Kind::Boolean,
            ffi::LUA_TLIGHTUSERDATA => Kind::LightUserdata,
            ffi::LUA_TNUMBER => Kind::Number,
            ffi::LUA_TSTRING => Kind::String,
            ffi::LUA_TTABLE => Kind::Table,
            ffi::LUA_TFUNCTION => Kind::Function,
            ffi::LUA_TUSERDATA => Kind::Userdata,
            ffi::LUA_TTHREAD => Kind::Thread,
            _ => Kind::Other,
        }
    }

    /// The name of a value's type as messages show it.
    pub fn type_name(self, index: c_int) -> &'static str {
        // SAFETY: the thread is live, and names of types are constants of the interpreter.
        let name = unsafe { CStr::from_ptr(ffi::lua_typename(self.l, ffi::lua_type(self.l, index))) };
        name.to_str().unwrap_or("?")
    }

    /// The bytes of a string; of a number its text, which then replaces it on the stack. None for other values.
    #[inline]
    pub fn bytes(self, index: c_int) -> Option<&'a [u8]> {
        let mut len = 0;
        // SAFETY: the index is acceptable, nothing throws; a string's bytes stay in place while it is on the stack.
        unsafe {
            let start = ffi::lua_tolstring(self.l, index, &mut len);
            (!start.is_null()).then(|| std::slice::from_raw_parts(start.cast(), len))
        }
    }

    /// The number at `index`, or the number that the text at `index` spells.
    #[inline]
    pub fn number(self, index: c_int) -> Option<f64> {
        // SAFETY: the index is acceptable; nothing throws.
        unsafe { (ffi::lua_isnumber(self.l, index) != 0).then(|| ffi::lua_tonumber(self.l, index)) }
    }

    /// What Lua takes the value for in a condition.
    #[inline]
    pub fn truth(self, index: c_int) -> bool {
        // SAFETY: the index is acceptable; nothing throws.
        unsafe { ffi::lua_toboolean(self.l, index) != 0 }
    }

    /// The address of a userdatum, light or full; null for other values.
    pub fn userdata(self, index: c_int) -> *mut std::ffi::c_void {
        // SAFETY: the index is acceptable; nothing throws.
        unsafe { ffi::lua_touserdata(self.l, index) }
    }

    /// Pushes a userdatum that holds a copy of `value`. It is not dropped, so it must be plain.
    pub fn push_userdata<T: Copy>(self, value: T) {
        const { assert!(align_of::<T>() <= 8) };
        // SAFETY: a slot is reserved; the block is new, large enough and aligned to 8; nothing throws.
        unsafe { ffi::lua_newuserdata(self.l, size_of::<T>()).cast::<T>().write(value) };
    }

    /// What a userdatum made by [`Stack::push_userdata`] holds.
    ///
    /// # Safety
    /// The value at `index` is such a userdatum, and was made with a `T`.
    pub unsafe fn read_userdata<T: Copy>(self, index: c_int) -> T {
        // SAFETY: the caller's promise.
        unsafe { self.userdata(index).cast::<T>().read() }
    }

    /// Changes what a userdatum made by [`Stack::push_userdata`] holds.
    ///
    /// # Safety
    /// As for [`Stack::read_userdata`].
    pub unsafe fn write_userdata<T: Copy>(self, index: c_int, value: T) {
        // SAFETY: the caller's promise.
        unsafe { self.userdata(index).cast::<T>().write(value) }
    }

    /// The length of a table's array part, as the operator `#` gives it.
    pub fn table_len(self, index: c_int) -> usize {
        // SAFETY: the index is acceptable; nothing throws.
        unsafe { ffi::lua_objlen(self.l, index) }
    }

    /// Pushes nil.
    #[inline]
    pub fn push_nil(self) {
        // SAFETY: a slot is reserved; nothing throws.
        unsafe { ffi::lua_pushnil(self.l) }
    }

    /// Pushes a truth value.
    #[inline]
    pub fn push_bool(self, value: bool) {
        // SAFETY: a slot is reserved; nothing throws.
        unsafe { ffi::lua_pushboolean(self.l, value as c_int) }
    }

    /// Pushes a number.
    #[inline]
    pub fn push_number(self, value: f64) {
        // SAFETY: a slot is reserved; nothing throws.
        unsafe { ffi::lua_pushnumber(self.l, value) }
    }

    /// Pushes a string. Fails when it does not fit into the limit.
    #[inline]
    pub fn push_bytes(self, bytes: &[u8]) -> Result<(), Fault> {
        if !self.shared.heap.has_room(bytes.len()) || bytes.len() > STRING_BYTES_MAX {
            return Err(Fault::Memory);
        }
        // SAFETY: a slot is reserved; the length is within LuaJIT's bounds; nothing throws.
        unsafe { ffi::lua_pushlstring_(self.l, bytes.as_ptr().cast(), bytes.len()) };
        Ok(())
    }

    /// Pushes a short text of our own.
    #[inline]
    pub fn push_text(self, text: &str) {
        debug_assert!(text.len() <= 1 << 20);
        // SAFETY: as in push_bytes.
        unsafe { ffi::lua_pushlstring_(self.l, text.as_ptr().cast(), text.len()) };
    }

    /// Pushes an empty table with room for so many elements and fields.
    #[inline]
    pub fn push_table(self, elements: usize, fields: usize) {
        // Room is a hint: a table grows by itself, within the limit.
        let hint = |n: usize| n.min(1 << 16) as c_int;
        // SAFETY: a slot is reserved; the sizes are within LuaJIT's bounds; nothing throws.
        unsafe { ffi::lua_createtable(self.l, hint(elements), hint(fields)) }
    }

    /// Pushes a light userdatum that stands for null in JSON.
    pub fn push_null(self) {
        // SAFETY: a slot is reserved; nothing throws.
        unsafe { ffi::lua_pushlightuserdata(self.l, ptr::null_mut()) }
    }

    /// Pushes a function with the topmost `upvalues` values bound to it, which are popped.
    pub fn push_function(self, function: ffi::lua_CFunction, upvalues: c_int) {
        // SAFETY: a slot is reserved; the values are there; nothing throws.
        unsafe { ffi::lua_pushcclosure(self.l, function, upvalues) }
    }

    /// Pushes a copy of the value at `index`.
    #[inline]
    pub fn push_copy(self, index: c_int) {
        // SAFETY: a slot is reserved, the index valid; nothing throws.
        unsafe { ffi::lua_pushvalue(self.l, index) }
    }

    /// Moves the top value to `index`, shifting those above.
    pub fn insert(self, index: c_int) {
        // SAFETY: the index is valid; nothing throws.
        unsafe { ffi::lua_insert(self.l, index) }
    }

    /// Removes the value at `index`, shifting those above.
    pub fn remove(self, index: c_int) {
        // SAFETY: the index is valid; nothing throws.
        unsafe { ffi::lua_remove(self.l, index) }
    }

    /// Moves the top value over the one at `index`.
    pub fn replace(self, index: c_int) {
        // SAFETY: the index is valid; nothing throws.
        unsafe { ffi::lua_replace(self.l, index) }
    }

    /// Pushes element `position` of the table at `index`, without metamethods.
    #[inline]
    pub fn get_element(self, index: c_int, position: c_int) {
        // SAFETY: a slot is reserved and the index is a table's; raw access; nothing throws.
        unsafe { ffi::lua_rawgeti_(self.l, index, position) }
    }

    /// Pops a value into element `position` of the table at `index`, without metamethods.
    #[inline]
    pub fn set_element(self, index: c_int, position: c_int) {
        // SAFETY: the index is a table's; raw access; nothing throws.
        unsafe { ffi::lua_rawseti_(self.l, index, position) }
    }

    /// Pushes a field of the table at `index`, without metamethods.
    pub fn get_field(self, index: c_int, name: &str) {
        let index = self.absolute(index);
        self.push_text(name);
        // SAFETY: the index is a table's; raw access; nothing throws.
        unsafe { ffi::lua_rawget_(self.l, index) }
    }

    /// Replaces the key on top by its value in the table at `index`, without metamethods.
    #[inline]
    pub fn get_pair(self, index: c_int) {
        // SAFETY: the index is a table's and a key is on top; raw access; nothing throws.
        unsafe { ffi::lua_rawget_(self.l, index) }
    }

    /// Pops a value into a field of the table at `index`, without metamethods.
    pub fn set_field(self, index: c_int, name: &str) {
        let index = self.absolute(index);
        self.push_text(name);
        self.insert(-2);
        // SAFETY: the index is a table's and the key a string; raw access; nothing throws.
        unsafe { ffi::lua_rawset(self.l, index) }
    }

    /// Pops a value and, below it, its key into the table at `index`; a key that no table can have is dropped.
    pub fn set_pair(self, index: c_int) {
        let unusable = match self.kind(-2) {
            Kind::Nil => true,
            Kind::Number => self.number(-2).is_some_and(f64::is_nan),
            _ => false,
        };
        if unusable {
            self.pop(2);
            return;
        }
        // SAFETY: the index is a table's and the key neither nil nor NaN; raw access; nothing throws.
        unsafe { ffi::lua_rawset(self.l, index) }
    }

    /// Pops a key of the table at `index` and pushes the next key and its value; false, pushing nothing, after the last.
    #[inline]
    pub fn next(self, index: c_int) -> bool {
        // SAFETY: slots are reserved, and the key is nil or was pushed by this function while nobody changes the table,
        // so it is a key of the table, and nothing throws.
        unsafe { ffi::lua_next(self.l, index) != 0 }
    }

    /// Pops a table or nil and makes it the metatable of the table at `index`.
    pub fn set_metatable(self, index: c_int) {
        // SAFETY: the index is a table's and a table is on top; nothing throws.
        unsafe { ffi::lua_setmetatable(self.l, index) };
    }

    /// Pushes the metatable of the table at `index`, if it has one.
    pub fn get_metatable(self, index: c_int) -> bool {
        // SAFETY: a slot is reserved, the index valid; nothing throws.
        unsafe { ffi::lua_getmetatable(self.l, index) != 0 }
    }

    /// Takes the table at `index` its metatable and all that is in it.
    pub fn clear_table(self, index: c_int) {
        let index = self.absolute(index);
        self.push_nil();
        self.set_metatable(index);
        self.push_nil();
        while self.next(index) {
            self.pop(1);
            self.push_copy(-1);
            self.push_nil();
            self.set_pair(index);
        }
    }

    /// Pops a table and makes it the environment of the function at `index`.
    pub fn set_environment(self, index: c_int) {
        // SAFETY: the index is a function's and a table is on top; nothing throws.
        unsafe { ffi::lua_setfenv(self.l, index) };
    }

    /// The same place counted from the bottom.
    #[inline]
    pub fn absolute(self, index: c_int) -> c_int {
        if index < 0 && index > ffi::LUA_REGISTRYINDEX { self.top() + 1 + index } else { index }
    }

    /// Calls the function below the topmost `args` values, which are popped, and leaves `results` of its results. An
    /// error is left on top of the stack.
    pub fn call(self, args: c_int, results: c_int) -> Result<(), Fault> {
        let heap = &self.shared.heap;
        let before = heap.set_strict(true);
        // SAFETY: the function and its arguments are on the stack; errors are caught by the protected call.
        let status = unsafe { ffi::lua_pcall(self.l, args, results, 0) };
        heap.set_strict(before);
        if status == ffi::LUA_OK { Ok(()) } else { Err(Fault::Value) }
    }

    // ---- Arguments, with the messages of Lua's own library.

    /// A string argument; a number will do.
    #[inline]
    pub fn string_argument(self, index: c_int) -> Result<&'a [u8], Fault> {
        self.bytes(index).ok_or_else(|| self.wrong_type(index, "string"))
    }

    /// A number argument; a text that spells one will do.
    #[inline]
    pub fn number_argument(self, index: c_int) -> Result<f64, Fault> {
        self.number(index).ok_or_else(|| self.wrong_type(index, "number"))
    }

    /// An integer argument, truncated.
    pub fn integer_argument(self, index: c_int) -> Result<i64, Fault> {
        self.number_argument(index).map(|number| number as i64)
    }

    /// An integer argument that may be left out.
    pub fn optional_integer(self, index: c_int, default: i64) -> Result<i64, Fault> {
        match self.kind(index) {
            Kind::None | Kind::Nil => Ok(default),
            _ => self.integer_argument(index),
        }
    }

    /// "string expected, got nil"
    #[cold]
    pub fn wrong_type(self, index: c_int, expected: &str) -> Fault {
        let got = if self.kind(index) == Kind::None { "no value" } else { self.type_name(index) };
        Fault::Argument(index, format!("{expected} expected, got {got}").into())
    }
}

/// Codes by which [`attempt`] tells [`protect`] what to throw; an argument's number is subtracted from the last.
const THROW_VALUE: c_int = -1;
const THROW_HERE: c_int = -2;
const THROW_ARGUMENT: c_int = -10;

/// Runs a Rust function that Lua called. It throws what the function answers as a fault.
///
/// The number of results fills a whole register: LuaJIT's interpreter on x86-64 reads all of it, though the C convention
/// defines the lower half of an `int` only.
///
/// # Safety
/// To be called by Lua only, on the thread that it passes.
#[inline]
pub unsafe fn protect(l: *mut lua_State, function: Function) -> usize {
    // SAFETY: Lua's code called us, so it is not running.
    let results = unsafe { attempt(l, function) };
    if results < 0 {
        // SAFETY: nothing of Rust's is left to drop.
        unsafe { throw(l, results) };
    }
    results as usize
}

/// Runs the function; gives the number of results, or a code of what is to be thrown, whose value is on the stack.
#[inline]
unsafe fn attempt(l: *mut lua_State, function: Function) -> c_int {
    // SAFETY: the caller's promise; the heap is lenient from here on.
    let stack = unsafe { Stack::new(l) };
    stack.shared.heap.set_strict(false);
    let outcome = match catch_unwind(AssertUnwindSafe(|| function(stack))) {
        Ok(Ok(results)) => results,
        Ok(Err(fault)) => push_fault(stack, fault),
        Err(_) => push_fault(stack, Fault::Reply("BUG a function of the scripting library panicked".into())),
    };
    stack.shared.heap.set_strict(true);
    outcome
}

#[cold]
fn push_fault(stack: Stack<'_>, fault: Fault) -> c_int {
    // A stack that is full to the brim still has the few slots that Lua keeps for errors.
    stack.reserve(4);
    match fault {
        Fault::Value => THROW_VALUE,
        Fault::Here(text) => {
            stack.push_text(&text);
            THROW_HERE
        }
        Fault::Plain(text) => {
            stack.push_text(&text);
            THROW_VALUE
        }
        Fault::Argument(index, text) => {
            stack.push_text(&text);
            THROW_ARGUMENT - index
        }
        Fault::Reply(text) => {
            push_error_table(stack, &text);
            THROW_VALUE
        }
        Fault::Memory => {
            stack.push_text("not enough memory");
            THROW_VALUE
        }
        Fault::Ended => {
            push_error_table(stack, stack.shared().watch.why());
            THROW_VALUE
        }
    }
}

/// Pushes the table that stands for an error reply.
pub fn push_error_table(stack: Stack<'_>, text: &str) {
    stack.push_table(0, 1);
    stack.push_text(text);
    stack.set_field(-2, "err");
}

/// Throws the value on top of the stack.
#[cold]
unsafe fn throw(l: *mut lua_State, code: c_int) {
    // SAFETY: the value is on the stack, and there is nothing to drop in this frame and those it unwinds.
    unsafe {
        match code {
            THROW_VALUE => ffi::lua_error(l),
            THROW_HERE => ffi::luaL_error(l, c"%s".as_ptr(), ffi::lua_tolstring(l, -1, ptr::null_mut())),
            _ => {
                let text: *const c_char = ffi::lua_tolstring(l, -1, ptr::null_mut());
                ffi::luaL_argerror(l, THROW_ARGUMENT - code, text)
            }
        };
    }
}

/// The C function through which Lua calls a [`Function`].
macro_rules! entry {
    ($function:path) => {{
        unsafe extern "C-unwind" fn entry(l: *mut mlua_sys::lua_State) -> usize {
            // SAFETY: Lua calls this, on its running thread.
            unsafe { $crate::procedure::lua::stack::protect(l, $function) }
        }
        // SAFETY: only Lua calls it, by the C convention, which returns an `int` in the lower half of the register that
        // returns a `usize`.
        unsafe {
            std::mem::transmute::<unsafe extern "C-unwind" fn(*mut mlua_sys::lua_State) -> usize, mlua_sys::lua_CFunction>(
                entry,
            )
        }
    }};
}
pub(super) use entry;
