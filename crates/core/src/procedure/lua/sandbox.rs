//! What scripts see: builds their environment from the libraries and the prelude.
//!
//! Redis patches its Lua to have read-only tables. Here the prelude guards each shared table with an empty one (see
//! `prelude.lua`). Scripts may not change any table that outlives them, nor reach a function's environment, so nothing
//! passes from one script to the next but the settings of `cjson` and the state of `math.random`, as in Redis.

use super::stack::{Answer, Fault, Kind, Stack, entry};
use super::{api, cjson, cmsgpack, library, peryton, random, strings, structs};
use mlua_sys as ffi;

/// The version of Redis whose scripting is spoken.
const REDIS_VERSION: &str = "7.0.15";
const REDIS_VERSION_NUM: f64 = 0x0007_000f as f64;

const PRELUDE: &str = include_str!("prelude.lua");
/// The prelude's name in messages and frames; scripts' errors are not blamed on it.
pub const PRELUDE_NAME: &std::ffi::CStr = c"=peryton";

/// Opens Lua's libraries and pushes the environment of scripts, the table of their globals that it guards, the table of
/// what stands behind each guard, and the metatable of a library's environment while it is loaded.
pub fn open(stack: Stack<'_>) -> Result<(), Fault> {
    let libraries: [ffi::lua_CFunction; 5] =
        [ffi::luaopen_base, ffi::luaopen_table, ffi::luaopen_string, ffi::luaopen_math, ffi::luaopen_bit];
    for library in libraries {
        stack.push_function(library, 0);
        stack.push_text("");
        stack.call(1, 0)?;
    }
    super::state::load(stack, PRELUDE.as_bytes(), PRELUDE_NAME)?;
    push_native(stack)?;
    stack.call(1, 4)
}

/// Pushes the table through which the prelude gets at our own functions.
fn push_native(stack: Stack<'_>) -> Result<(), Fault> {
    push_library(
        stack,
        &[
            ("refuse", entry!(refuse)),
            ("refuse_here", entry!(refuse_here)),
            ("missing", entry!(missing)),
            ("no_handler", entry!(no_handler)),
            ("clock", entry!(api::clock)),
            ("random", entry!(random::random)),
            ("randomseed", entry!(random::randomseed)),
            ("find", entry!(strings::find)),
            ("match", entry!(strings::match_)),
            ("gmatch", entry!(strings::gmatch)),
            ("gsub", entry!(strings::gsub)),
            ("sorts_long", entry!(sorts_long)),
            ("is_native", entry!(is_native)),
            ("is_deep", entry!(is_deep)),
            ("has_tables", entry!(has_tables)),
        ],
    );
    push_redis(stack);
    stack.set_field(-2, "redis");
    push_redis(stack);
    push_peryton(stack);
    stack.set_field(-2, "peryton");
    push_library(stack, &[("prepare", entry!(peryton::prepare)), ("blob", entry!(peryton::blob))]);
    stack.set_field(-2, "aside");
    cjson::push(stack);
    stack.set_field(-2, "cjson");
    cmsgpack::push(stack);
    stack.set_field(-2, "cmsgpack");
    push_library(
        stack,
        &[("pack", entry!(structs::pack)), ("unpack", entry!(structs::unpack)), ("size", entry!(structs::size))],
    );
    stack.set_field(-2, "struct");
    push_library(stack, &[("register_function", entry!(library::register_function)), ("log", entry!(api::log))]);
    push_constants(stack, &LOG_LEVELS);
    stack.set_field(-2, "library");
    Ok(())
}

const LOG_LEVELS: [(&str, f64); 4] =
    [("LOG_DEBUG", 0.0), ("LOG_VERBOSE", 1.0), ("LOG_NOTICE", 2.0), ("LOG_WARNING", 3.0)];

/// Adds numbers, and the version of Redis, to the table on top.
fn push_constants(stack: Stack<'_>, numbers: &[(&str, f64)]) {
    for (name, number) in numbers.iter().chain(&[("REDIS_VERSION_NUM", REDIS_VERSION_NUM)]) {
        stack.push_number(*number);
        stack.set_field(-2, name);
    }
    stack.push_text(REDIS_VERSION);
    stack.set_field(-2, "REDIS_VERSION");
}

fn push_redis(stack: Stack<'_>) {
    push_library(
        stack,
        &[
            ("call", entry!(api::call)),
            ("pcall", entry!(api::pcall)),
            ("error_reply", entry!(api::error_reply)),
            ("status_reply", entry!(api::status_reply)),
            ("sha1hex", entry!(api::sha1hex)),
            ("log", entry!(api::log)),
            ("setresp", entry!(api::setresp)),
            ("set_repl", entry!(api::set_repl)),
            ("acl_check_cmd", entry!(api::acl_check_cmd)),
            ("replicate_commands", entry!(api::replicate_commands)),
            ("breakpoint", entry!(api::breakpoint)),
            ("debug", entry!(api::debug)),
        ],
    );
    push_constants(stack, &LOG_LEVELS);
    let numbers =
        [("REPL_NONE", 0.0), ("REPL_AOF", 1.0), ("REPL_SLAVE", 2.0), ("REPL_REPLICA", 2.0), ("REPL_ALL", 3.0)];
    push_constants(stack, &numbers);
}

/// Adds what is not Redis's to the table on top.
fn push_peryton(stack: Stack<'_>) {
    let functions: [(&str, ffi::lua_CFunction); 7] = [
        ("sql", entry!(peryton::sql)),
        ("psql", entry!(peryton::psql)),
        ("prepare", entry!(peryton::prepare)),
        ("get", entry!(peryton::get)),
        ("mget", entry!(peryton::mget)),
        ("blob", entry!(peryton::blob)),
        ("call", entry!(peryton::call)),
    ];
    for (name, function) in functions {
        stack.push_function(function, 0);
        stack.set_field(-2, name);
    }
}

/// Pushes a table of functions.
pub fn push_library(stack: Stack<'_>, functions: &[(&str, ffi::lua_CFunction)]) {
    stack.push_table(0, functions.len());
    for (name, function) in functions {
        stack.push_function(*function, 0);
        stack.set_field(-2, name);
    }
}

const READ_ONLY: &str = "Attempt to modify a readonly table";

/// Refuses to change a guarded table through a function of Lua's.
fn refuse(_: Stack<'_>) -> Answer {
    Err(Fault::Plain(READ_ONLY.into()))
}

/// Refuses an assignment to a guarded table.
fn refuse_here(_: Stack<'_>) -> Answer {
    Err(Fault::Here(READ_ONLY.into()))
}

/// Refuses to run without a handler of errors.
fn no_handler(_: Stack<'_>) -> Answer {
    Err(Fault::Argument(2, "value expected".into()))
}

/// Elements, and bytes of strings that comparisons may look at, from which on a sort is a long one.
const LONG_SORT: (usize, usize) = (10_000, 64 << 20);

/// Will it take long to sort this table? LuaJIT's sort cannot be ended while it compares by itself.
fn sorts_long(stack: Stack<'_>) -> Answer {
    let count = if stack.kind(1) == Kind::Table { stack.table_len(1) } else { 0 };
    let is_long = count > LONG_SORT.0 || {
        let longest = (1..=count as i32).map(|place| {
            stack.get_element(1, place);
            let len = if stack.kind(-1) == Kind::String { stack.bytes(-1).map_or(0, <[u8]>::len) } else { 0 };
            stack.pop(1);
            len
        });
        let comparisons = count * (usize::BITS - count.leading_zeros()) as usize;
        longest.max().unwrap_or(0).saturating_mul(comparisons) > LONG_SORT.1
    };
    stack.push_bool(is_long);
    Ok(1)
}

/// Is this a function that is not written in Lua?
fn is_native(stack: Stack<'_>) -> Answer {
    // SAFETY: any index may be asked for; nothing throws.
    let is_native = unsafe { ffi::lua_iscfunction(stack.raw(), 1) != 0 };
    stack.push_bool(is_native);
    Ok(1)
}

/// Is it too deep to call back Lua code from other code once more?
fn is_deep(stack: Stack<'_>) -> Answer {
    stack.push_bool(stack.shared().is_deep());
    Ok(1)
}

/// Is any argument a table, whose metamethods may be called?
fn has_tables(stack: Stack<'_>) -> Answer {
    let has_tables = (1..=stack.top()).any(|index| stack.kind(index) == Kind::Table);
    stack.push_bool(has_tables);
    Ok(1)
}

/// Refuses to read a global variable that does not exist.
fn missing(stack: Stack<'_>) -> Answer {
    if !matches!(stack.kind(2), Kind::String | Kind::Number) {
        return Err(Fault::Here("Second argument to luaProtectedTableError must be a string or number".into()));
    }
    let name = String::from_utf8_lossy(stack.bytes(2).unwrap_or_default());
    Err(Fault::Here(format!("Script attempted to access nonexistent global variable '{name}'").into()))
}
