//! The engine as scripts and functions may use it.

use super::atomic;
use super::context::{Context, Origin};
use super::dispatch::{self, ScriptMode};
use super::{routine, script, sql};
use crate::error::Result;
use crate::procedure::functions::not_found;
use crate::procedure::{Host, LogLevel, RunFunction};
use crate::reply::Reply;
use crate::sql::direct::{Asked, Show};
use crate::sql::records::ShowAt;
use crate::table::datum::DatumRef;

/// Lends the engine to what runs with it, in its caller's database with RESP2, and leaves the caller as it was.
#[inline]
pub(super) fn with_host<T>(ctx: &mut Context<'_>, mode: ScriptMode, run: impl FnOnce(&mut dyn Host) -> T) -> T {
    let (db, protocol) = (ctx.session.db, std::mem::replace(&mut ctx.session.protocol, 2));
    let result = run(&mut ScriptHost { ctx, mode });
    (ctx.session.db, ctx.session.protocol) = (db, protocol);
    result
}

struct ScriptHost<'c, 'a> {
    ctx: &'c mut Context<'a>,
    mode: ScriptMode,
}

impl ScriptHost<'_, '_> {
    /// Has a statement, or a look at rows, run on the procedure's behalf.
    #[inline]
    fn on_behalf<T>(&mut self, run: impl FnOnce(&mut Context<'_>) -> Result<T>) -> Result<T> {
        routine::count_call(self.ctx.state)?;
        let origin = if self.mode.read_only { Origin::ReadOnlyScript } else { Origin::Script };
        let Context { state, session, effect, .. } = &mut *self.ctx;
        let result = run(&mut Context { state, session, effect, origin, ready: None });
        self.mode.wrote |= self.ctx.state.scripts.watch().has_written();
        result
    }

    /// Runs a function in a mode of its own; what is changed of the session is as before then.
    fn run_in_mode(&mut self, mode: ScriptMode, run: impl FnOnce(&mut Self) -> bool) -> bool {
        let before = std::mem::replace(&mut self.mode, mode);
        let (db, protocol) = (self.ctx.session.db, std::mem::replace(&mut self.ctx.session.protocol, 2));
        let is_well = run(self);
        (self.ctx.session.db, self.ctx.session.protocol) = (db, protocol);
        let wrote = self.mode.wrote;
        self.mode = ScriptMode { wrote: before.wrote || wrote, ..before };
        is_well
    }
}

impl Host for ScriptHost<'_, '_> {
    #[inline]
    fn call(&mut self, args: &[&[u8]]) -> Reply {
        match routine::count_call(self.ctx.state) {
            Ok(()) => dispatch::call_from_script(self.ctx, &mut self.mode, args),
            Err(error) => Reply::Error(error),
        }
    }

    fn permits(&self, args: &[&[u8]]) -> Option<bool> {
        dispatch::find(args[0], args).ok().map(|_| true)
    }

    fn set_protocol(&mut self, version: u8) {
        self.ctx.session.protocol = version;
    }

    fn log(&mut self, level: LogLevel, message: &[u8]) {
        self.ctx.state.env.log(level as u8, &String::from_utf8_lossy(message));
    }

    fn monotonic_ns(&mut self) -> u64 {
        self.ctx.state.env.monotonic_ns()
    }

    #[inline]
    fn sql(&mut self, text: &[u8], values: &[DatumRef<'_>], show: Show<'_>) -> Result<Asked> {
        self.on_behalf(|ctx| sql::ask(ctx, text, values, show))
    }

    #[inline]
    fn rows(&mut self, table: &[u8], keys: &[DatumRef<'_>], columns: Option<&[&[u8]]>, show: ShowAt<'_>) -> Result<()> {
        self.on_behalf(|ctx| super::records::show(ctx, table, keys, columns, show))
    }

    fn with_function(&mut self, name: &[u8], run: RunFunction<'_>) -> Result<()> {
        let functions = routine::lend(self.ctx.state)?;
        let function = functions.find(name).ok_or_else(not_found)?;
        let mode = script::mode_of(self.ctx, function.flags, self.mode.read_only)?;
        let ignores_memory_limit = mode.ignores_memory_limit || self.mode.ignores_memory_limit;
        let mode = ScriptMode { wrote: self.mode.wrote, ignores_memory_limit, ..mode };
        let scope = mode.is_atomic.then(|| atomic::open(self.ctx));
        let is_well = self.run_in_mode(mode, |host| run(host, &functions, function));
        functions.count(function, !is_well);
        if let Some(scope) = scope {
            atomic::close(self.ctx, scope, is_well);
        }
        Ok(())
    }
}
