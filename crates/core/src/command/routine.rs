//! Functions of libraries called by the store itself: told of an event by a trigger, asked for a value by SQL.
//!
//! A function may run while others do, which have called a command or a statement that has it called. All of them work on
//! the same effect, and the outermost one is what others see and may end.

use super::context::{Context, Origin};
use super::dispatch::ScriptMode;
use super::function::Aside;
use super::script_host::with_host;
use super::{atomic, function, script};
use crate::error::{Code, Error, Result};
use crate::procedure::functions::not_found;
use crate::procedure::lua::{Field, Told};
use crate::procedure::{Call, Lent, ScriptFlags};
use crate::sql::run::RoutineUses;
use crate::state::State;
use crate::table::datum::{Datum, DatumRef};
use crate::table::library::FLAG_NAMES;

/// The functions, to call one.
#[inline]
pub(super) fn lend(state: &mut State) -> Result<Lent> {
    match state.scripts.lend_functions(&state.tables.catalog.libraries) {
        Some(lent) => lent,
        None => compile_and_lend(state),
    }
}

#[cold]
fn compile_and_lend(state: &mut State) -> Result<Lent> {
    function::prepare(state);
    let lent = state.scripts.lend_functions(&state.tables.catalog.libraries);
    lent.unwrap_or_else(|| Err(Error::err("the libraries changed while a function runs")))
}

/// A call that begins now, without keys and arguments, with what it may take.
#[inline]
pub(super) fn plain_call<'a>(ctx: &mut Context<'_>, name: &'a [u8]) -> Call<'a> {
    let config = &ctx.state.config;
    let (memory_bytes_max, growth) = (config.procedure_memory_bytes, config.procedure_growth_bytes);
    let is_limited = config.procedure_call_limit | config.procedure_time_limit_ms != 0;
    let now_ns = if is_limited { begin_limited(ctx) } else { ctx.state.clock.steady_ns };
    let growth_bytes_max = if growth == 0 { usize::MAX } else { growth };
    Call { name, words: None, keys: &[], args: &[], now_ns, memory_bytes_max, growth_bytes_max, is_atomic: false }
}

/// Notes that a run begins whose time or commands are limited, and tells when.
#[cold]
fn begin_limited(ctx: &mut Context<'_>) -> u64 {
    if !ctx.state.scripts.watch().is_running() {
        ctx.state.scripts.watch().forget_calls();
    }
    // The clock of the request stands still in EXEC.
    if ctx.origin == Origin::Exec { ctx.state.env.monotonic_ns() } else { ctx.state.clock.steady_ns }
}

/// Counts a command or statement of a procedure.
///
/// # Errors
/// The procedure has given as many as it may, and ends.
#[inline]
pub(super) fn count_call(state: &State) -> Result<()> {
    let max = state.config.procedure_call_limit;
    if max == 0 { Ok(()) } else { count_one(state, max) }
}

#[cold]
fn count_one(state: &State, max: u64) -> Result<()> {
    let watch = state.scripts.watch();
    if watch.count_call(max) { Ok(()) } else { Err(Error::new(Code::Custom, watch.why())) }
}

/// Tells the function called `name` of an event: it gets one table with these fields. The row in the field called `back`,
/// if one is named, is given as the function left it.
///
/// Whoever tells undoes what the function did if it fails, so it may be ended whatever it has written.
///
/// # Errors
/// There is no such function, or what it raised or returned as an error, with its name and line.
pub(super) fn tell(
    ctx: &mut Context<'_>,
    name: &[u8],
    fields: &[(&str, Field<'_>)],
    back: Option<&str>,
) -> Result<Told> {
    let functions = lend(ctx.state)?;
    let function = functions.find(name).ok_or_else(not_found)?;
    let is_read_only = ctx.origin == Origin::ReadOnlyScript;
    let mode = script::mode_of(ctx, function.flags, is_read_only)?;
    let mode = ScriptMode { wrote: ctx.state.scripts.watch().has_written(), ..mode };
    let words = [name];
    let call = Call { words: Some(&words), is_atomic: true, ..plain_call(ctx, name) };
    let is_atomic = mode.is_atomic;
    let run = |ctx: &mut Context<'_>| with_host(ctx, mode, |host| functions.tell(host, function, &call, fields, back));
    let told = atomic::run(ctx, is_atomic, run, Result::is_ok);
    functions.count(function, told.is_err());
    told
}

/// The value that the function called `name`, which is declared pure, gives for these values.
///
/// # Errors
/// As for [`tell`], or the function is not pure.
pub(super) fn evaluate(ctx: &mut Context<'_>, name: &[u8], args: &[DatumRef<'_>]) -> Result<Datum> {
    let functions = lend(ctx.state)?;
    let function = functions.find(name).ok_or_else(not_found)?;
    if !function.flags.contains(ScriptFlags::PURE) {
        return Err(Error::err(format!("function {} is not declared pure", String::from_utf8_lossy(name))));
    }
    let words = [name];
    let call = Call { words: Some(&words), ..plain_call(ctx, name) };
    let value = functions.evaluate(&mut Aside::pure(&mut *ctx.state.env), function, &call, args);
    functions.count(function, value.is_err());
    value
}

/// How each function of the libraries and each procedure outside of the store was used, for `information_schema.routines` and INFO.
pub(super) fn uses(state: &State) -> Vec<RoutineUses> {
    let mut all = Vec::new();
    for library in state.tables.catalog.libraries.iter() {
        for function in &library.functions {
            let functions = state.scripts.functions();
            let uses = functions.and_then(|f| f.find(function.name.as_bytes()).map(|found| f.uses(found)));
            let flags = FLAG_NAMES.iter().filter(|(_, flag)| function.flags.contains(*flag)).map(|(name, _)| *name);
            all.push(RoutineUses {
                name: function.name.clone(),
                library: Some(library.name.clone()),
                language: "LUA".into(),
                flags: flags.collect::<Vec<_>>().join(" "),
                uses: uses.unwrap_or_default(),
            });
        }
    }
    let outside = state.externals.iter().map(|(routine, usage)| RoutineUses {
        name: routine.name.clone(),
        library: None,
        language: routine.language.to_uppercase(),
        flags: if routine.read_only { "no-writes".into() } else { String::new() },
        uses: usage.uses.clone(),
    });
    all.extend(outside);
    all
}
