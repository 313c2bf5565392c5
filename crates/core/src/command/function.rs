//! Functions that stay: FCALL and its kin, and what FUNCTION tells of them; [`super::function_change`] has the rest.

use super::arguments::{integer_or, is};
use super::context::{Context, Origin};
use super::dispatch::ScriptMode;
use super::function_change::{delete, dump, flush, load, restore};
use super::server::{container, help};
use super::spec::{Find, Flags, Group, Keys, Run, Spec, Use};
use super::{routine, script};
use crate::ds::glob;
use crate::env::Env;
use crate::error::{Error, Result};
use crate::procedure::budget::{Kind, RunningFunction};
use crate::procedure::functions::not_found;
use crate::procedure::library::quoting;
use crate::procedure::{Call, Function, Functions, Host, LogLevel};
use crate::reply::Reply;
use crate::state::State;
use crate::table::library::{FLAG_NAMES, FunctionDef, LibraryDef};
use std::sync::Arc;

const RUNS: Flags = Flags::NOSCRIPT
    .union(Flags::STALE)
    .union(Flags::SKIP_MONITOR)
    .union(Flags::MAY_REPLICATE)
    .union(Flags::NO_MANDATORY_KEYS);
const RUNS_READ_ONLY: Flags = RUNS.difference(Flags::MAY_REPLICATE).union(Flags::READONLY);
const WRITES: Flags = Flags::NOSCRIPT.union(Flags::WRITE);

/// A command that calls a function.
const fn calls(name: &'static str, run: Run, flags: Flags, uses: Use, summary: &'static str) -> Spec {
    let complexity = "Depends on the function that is executed.";
    // How a function uses its keys is not known, so the worst is told.
    let keys = Keys::None.and(uses, 2, Find::Counted { at_least: 0 });
    let usage = "function numkeys [key [key ...]] [arg [arg ...]]";
    Spec::row(Group::Scripting, name, run, -3, flags, keys, "7.0.0", complexity, usage, summary)
}

/// A subcommand of FUNCTION.
const fn sub(
    name: &'static str,
    run: Run,
    arity: i32,
    flags: Flags,
    complexity: &'static str,
    usage: &'static str,
    summary: &'static str,
) -> Spec {
    Spec::row(Group::Scripting, name, run, arity, flags, Keys::None, "7.0.0", complexity, usage, summary)
}

pub(super) const COMMANDS: &[Spec] = &[
    calls("fcall", fcall, RUNS, Use::READ_CHANGE, "Calls a function of a library."),
    calls("fcall_ro", fcall_ro, RUNS_READ_ONLY, Use::READ, "Calls a function that does not write."),
    sub(
        "function",
        container,
        -2,
        Flags::empty(),
        "Depends on subcommand.",
        "",
        "A container for commands on functions.",
    )
    .holding(&[
        sub("function|delete", delete, 3, WRITES, "O(1)", "library-name", "Deletes a library and its functions."),
        sub(
            "function|dump",
            dump,
            2,
            Flags::NOSCRIPT,
            "O(N) where N is the number of functions",
            "",
            "Gives all libraries in one piece, for FUNCTION RESTORE.",
        ),
        sub(
            "function|flush",
            flush,
            -2,
            WRITES,
            "O(N) where N is the number of functions deleted",
            "[ASYNC|SYNC]",
            "Deletes all libraries.",
        ),
        sub(
            "function|help",
            function_help,
            2,
            Flags::LOADING.union(Flags::STALE),
            "O(1)",
            "",
            "Shows what FUNCTION can do.",
        ),
        sub(
            "function|kill",
            kill,
            2,
            Flags::NOSCRIPT.union(Flags::ALLOW_BUSY),
            "O(1)",
            "",
            "Ends the running function, unless it has written.",
        ),
        sub(
            "function|list",
            list,
            -2,
            Flags::NOSCRIPT,
            "O(N) where N is the number of functions",
            "[LIBRARYNAME library-name-pattern] [WITHCODE]",
            "Lists libraries and their functions.",
        ),
        sub(
            "function|load",
            load,
            -3,
            WRITES.union(Flags::DENYOOM),
            "O(1) (considering compilation time is redundant)",
            "[REPLACE] function-code",
            "Loads a library of functions, which stays.",
        ),
        sub(
            "function|restore",
            restore,
            -3,
            WRITES.union(Flags::DENYOOM),
            "O(N) where N is the number of functions on the payload",
            "serialized-value [FLUSH|APPEND|REPLACE]",
            "Loads all libraries of what FUNCTION DUMP gave.",
        ),
        sub(
            "function|stats",
            stats,
            2,
            Flags::NOSCRIPT.union(Flags::ALLOW_BUSY),
            "O(1)",
            "",
            "Tells of the running function, and how many there are.",
        ),
    ]),
];

fn fcall(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    call(ctx, args, false)
}

fn fcall_ro(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    call(ctx, args, true)
}

fn call(ctx: &mut Context<'_>, args: &[&[u8]], read_only: bool) -> Result<Reply> {
    let functions = routine::lend(ctx.state)?;
    let Some(function) = functions.find(args[1]) else {
        return super::call::from_fcall(ctx, args, read_only)?.ok_or_else(not_found);
    };
    let count = integer_or(args[2], "Bad number of keys provided")?;
    let (keys, rest) = script::split_keys(args, count)?;
    let mode = script::mode_of(ctx, function.flags, read_only)?;
    let is_atomic = mode.is_atomic;
    let call = Call { words: Some(args), keys, args: rest, is_atomic, ..routine::plain_call(ctx, args[1]) };
    run(ctx, &functions, function, mode, &call)
}

fn run(
    ctx: &mut Context<'_>,
    functions: &Functions,
    function: Function,
    mode: ScriptMode,
    call: &Call<'_>,
) -> Result<Reply> {
    let reply = script::run_as(ctx, mode, |host| functions.call(host, function, call));
    functions.count_request(function, !matches!(&reply, Ok(reply) if !reply.is_error()));
    reply
}

/// CALL of a function: without keys.
pub(super) fn call_named(ctx: &mut Context<'_>, words: &[&[u8]], name: &[u8], args: &[&[u8]]) -> Result<Reply> {
    if matches!(ctx.origin, Origin::Script | Origin::ReadOnlyScript) {
        return Err(Error::err("a script calls no other function with CALL, as with FCALL"));
    }
    let functions = routine::lend(ctx.state)?;
    let nameless = || Error::err(format!("there is no procedure {}", String::from_utf8_lossy(name)));
    let function = functions.find(name).ok_or_else(nameless)?;
    let mode = script::mode_of(ctx, function.flags, false)?;
    let is_atomic = mode.is_atomic;
    let call = Call { words: Some(words), args, is_atomic, ..routine::plain_call(ctx, name) };
    run(ctx, &functions, function, mode, &call)
}

/// Gives the functions to `body` to change what there is of them, when they are what the catalog says.
pub(super) fn with_functions<T>(
    ctx: &mut Context<'_>,
    body: impl FnOnce(&mut Context<'_>, &mut Functions) -> Result<T>,
) -> Result<T> {
    let mut place = ctx.state.scripts.take_functions();
    let result = match place.get_mut() {
        Some(functions) => {
            follow(ctx.state, functions);
            body(ctx, functions)
        }
        None => Err(Error::err("a script is running already")),
    };
    ctx.state.scripts.put_functions(place);
    result
}

fn follow(state: &mut State, functions: &mut Functions) {
    let State { env, tables, .. } = state;
    for error in functions.follow(&tables.catalog.libraries, &mut Aside::loading(&mut **env)) {
        env.log(3, &error.message);
    }
}

/// Compiles what is not up to date, first of all in a store that has just been opened.
pub(crate) fn prepare(state: &mut State) {
    let mut place = state.scripts.take_functions();
    if let Some(functions) = place.get_mut() {
        follow(state, functions);
    }
    state.scripts.put_functions(place);
}

/// What code may use of the world that has nothing to do with the data: the log and the clock.
pub(super) struct Aside<'a> {
    env: &'a mut dyn Env,
    /// Why it calls no commands.
    why: &'static str,
}

impl<'a> Aside<'a> {
    /// For a library that is loaded.
    pub fn loading(env: &'a mut dyn Env) -> Aside<'a> {
        Aside { env, why: "no commands can be called while a library is loaded" }
    }

    /// For a function that is pure.
    #[allow(dead_code)] // SQL will call such
    pub fn pure(env: &'a mut dyn Env) -> Aside<'a> {
        Aside { env, why: "a pure function calls no commands" }
    }
}

impl Host for Aside<'_> {
    fn call(&mut self, _: &[&[u8]]) -> Reply {
        Error::err(self.why).into()
    }

    fn permits(&self, _: &[&[u8]]) -> Option<bool> {
        None
    }

    fn set_protocol(&mut self, _: u8) {}

    fn log(&mut self, level: LogLevel, message: &[u8]) {
        self.env.log(level as u8, &String::from_utf8_lossy(message));
    }

    fn monotonic_ns(&mut self) -> u64 {
        self.env.monotonic_ns()
    }
}

fn list(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let (mut with_code, mut pattern) = (false, None);
    let mut words = args[2..].iter();
    while let Some(word) = words.next() {
        match word {
            word if !with_code && is(word, "WITHCODE") => with_code = true,
            word if pattern.is_none() && is(word, "LIBRARYNAME") => {
                let missing = || Error::err("library name argument was not given");
                pattern = Some(*words.next().ok_or_else(missing)?);
            }
            _ => return Err(quoting(b"Unknown argument ", word, b"")),
        }
    }
    let fits = |library: &&Arc<LibraryDef>| {
        pattern.is_none_or(|pattern| glob::matches_nocase(pattern, library.name.as_bytes()))
    };
    let libraries = ctx.state.tables.catalog.libraries.iter().filter(fits);
    Ok(Reply::Array(libraries.map(|library| describe(library, with_code)).collect()))
}

fn describe(library: &LibraryDef, with_code: bool) -> Reply {
    let functions = library.functions.iter().map(describe_function).collect();
    let mut fields = vec![
        (Reply::bulk("library_name"), Reply::bulk(&library.name)),
        (Reply::bulk("engine"), Reply::bulk("LUA")),
        (Reply::bulk("functions"), Reply::Array(functions)),
    ];
    if with_code {
        fields.push((Reply::bulk("library_code"), Reply::bulk(&library.code)));
    }
    Reply::Map(fields)
}

fn describe_function(function: &FunctionDef) -> Reply {
    let flags = FLAG_NAMES.iter().filter(|(_, flag)| function.flags.contains(*flag));
    Reply::Map(vec![
        (Reply::bulk("name"), Reply::bulk(&function.name)),
        (Reply::bulk("description"), Reply::bulk_or_nil(function.description.as_ref())),
        (Reply::bulk("flags"), Reply::Set(flags.map(|(name, _)| Reply::status(*name)).collect())),
    ])
}

fn stats(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    let libraries = &ctx.state.tables.catalog.libraries;
    Ok(describe_run(None, (libraries.len() as u64, libraries.functions() as u64)))
}

/// What FUNCTION STATS answers: the running function and for how many milliseconds it has been running; the numbers of
/// libraries and functions.
pub(crate) fn describe_run(running: Option<(&RunningFunction, u64)>, counts: (u64, u64)) -> Reply {
    let running = running.map_or(Reply::Nil, |(function, duration_ms)| {
        Reply::Map(vec![
            (Reply::bulk("name"), Reply::bulk(&function.name)),
            (Reply::bulk("command"), Reply::bulks(&function.words)),
            (Reply::bulk("duration_ms"), Reply::Int(duration_ms as i64)),
        ])
    });
    let counts = vec![
        (Reply::bulk("libraries_count"), Reply::Int(counts.0 as i64)),
        (Reply::bulk("functions_count"), Reply::Int(counts.1 as i64)),
    ];
    Reply::Map(vec![
        (Reply::bulk("running_script"), running),
        (Reply::bulk("engines"), Reply::Map(vec![(Reply::bulk("LUA"), Reply::Map(counts))])),
    ])
}

/// With the baton in hand no function runs; a running one is killed through [`crate::store::Overrun`].
fn kill(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    ctx.state.scripts.watch().kill(Kind::Function).map(|()| Reply::Ok)
}

fn function_help(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(help("FUNCTION"))
}
