//! SQL, SQL.BIND, and SQL statements typed bare: the way from requests to statements and back.

use super::context::{Context, Origin};
use super::spec::{Flags, Group, Keys, Run, Spec};
use super::{call, dispatch, room, routine, sql_keys, transact, trigger};
use crate::ds::number;
use crate::engine::{Capabilities, Source, TableMemory, Wanted};
use crate::error::{Code, Error, Result};
use crate::readers::{Job, Ticket};
use crate::reply::Reply;
use crate::session::{Blocked, Door, NoWaker, Session, SessionId, Sweep};
use crate::sql::control::Control;
use crate::sql::direct::{self, Asked, Done, Prepared, Show};
use crate::sql::run::{RoutineUses, number_after};
use crate::sql::{self, Ahead, Fired, Firing, Host, Portion, Runs, ScheduleRuns, Shape, Sql, packed};
use crate::state::State;
use crate::table::batch::Batch;
use crate::table::catalog::{Catalog, TableId};
use crate::table::datum::{Datum, DatumRef};
use crate::txn::{KeysScope, TableChanges, Tables};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

pub(super) const STATEMENT: Flags = Flags::WRITE.union(Flags::SQL).union(Flags::TOUCHES_ARBITRARY_KEYS);

const fn row(name: &'static str, run: Run, arity: i32, usage: &'static str, summary: &'static str) -> Spec {
    let cost = "Depends on the statement; O(1) by a hash key, O(log N) by an ordered one";
    Spec::row(Group::Table, name, run, arity, STATEMENT, Keys::None, "peryton", cost, usage, summary)
}

pub(super) const COMMANDS: &[Spec] = &[
    row("sql", sql_text, -2, "text [param ...]", "Runs a SQL statement; parameters that are integers bind as such."),
    row(
        "sql.bind",
        sql_bind,
        -3,
        "types text [param ...]",
        "Runs a SQL statement; types has a letter for each parameter: i, r, t, b, or n for NULL.",
    ),
    row(
        "sql.many",
        sql_many,
        -3,
        "types text [param ...]",
        "Runs a statement that writes for each group of as many parameters as it has, all or none; types is repeated.",
    ),
    row(
        "sql.packed",
        sql_packed,
        3,
        "text values",
        "As SQL.MANY, with all parameters packed into one string: what Peryton's embedded client sends.",
    ),
    row("insert", bare, -2, "INTO t [(c, ...)] VALUES (...)", "Inserts rows; arguments are joined by spaces."),
    row("replace", bare, -2, "INTO t [(c, ...)] VALUES (...)", "Inserts rows in the place of those in their way."),
    row("update", bare, -2, "t SET c = ... [WHERE ...]", "Changes rows; arguments are joined by spaces."),
    row("delete", bare, -2, "FROM t [WHERE ...]", "Deletes rows; arguments are joined by spaces."),
    row("with", bare, -2, "q AS (...) SELECT ...", "Queries with common table expressions."),
    row(
        "create",
        bare,
        -2,
        "TABLE t (...) | INDEX i ON t (...) | VIEW v AS query | TRIGGER .. CALL f | SCHEDULE .. CALL f",
        "Makes a table, an index, a view, a trigger or a schedule.",
    ),
    row(
        "drop",
        bare,
        -2,
        "TABLE t | INDEX i | VIEW v | TRIGGER r | SCHEDULE s",
        "Drops tables, an index, views, triggers or schedules.",
    ),
    row("truncate", bare, -2, "[TABLE] t", "Empties a table at once."),
    row(
        "alter",
        bare,
        -2,
        "TABLE t change [, change ...]",
        "Adds, drops, renames or changes columns, or gives the table another name.",
    ),
    row("explain", bare, -2, "SELECT ...", "Tells how the rows of a statement would be found."),
    row(
        "show",
        bare,
        -2,
        "TABLES | CREATE TABLE t | INDEXES FROM t | TRIGGERS | SCHEDULES",
        "Shows what tables, indexes, triggers and schedules there are.",
    ),
    Spec {
        flags: Flags::NOSCRIPT.union(Flags::FAST).union(Flags::LOADING).union(Flags::STALE).union(Flags::ALLOW_BUSY),
        complexity: "O(1)",
        ..row("cancel", cancel, 2, "client-id", "Ends the statement that a client waits for.")
    },
    row("describe", bare, -2, "t", "Shows the columns of a table."),
];

pub(super) type Params<'a> = SmallVec<[DatumRef<'a>; 8]>;

fn sql_text(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let mut params = Params::new();
    args[2..].iter().for_each(|arg| params.push(untyped(arg)));
    run(ctx, args, args[1], &params)
}

/// Runs a statement; one that deletes keys sleeps between its slices.
#[inline]
fn run(ctx: &mut Context<'_>, args: &[&[u8]], text: &[u8], params: &[DatumRef<'_>]) -> Result<Reply> {
    let mut statement = Statement::new(ctx);
    let reply = sql::execute(&mut statement, text, params)?;
    match statement.window {
        None => Ok(reply),
        Some(window) => Ok(after_slice(ctx, args, &reply, window)),
    }
}

/// A slice of DELETE FROM keys is done: the next one, or the number of all keys deleted.
#[cold]
fn after_slice(ctx: &mut Context<'_>, args: &[&[u8]], reply: &Reply, window: Window) -> Reply {
    let before = ctx.session.sweep.take().unwrap_or_default().deleted;
    let deleted = before + if let Reply::Int(deleted) = reply { *deleted as u64 } else { 0 };
    match window.cursor {
        0 => Reply::Int(deleted as i64),
        cursor => ctx.sweep(args, Sweep { cursor, deleted }),
    }
}

/// Runs a statement for a procedure, which is shown its rows; see [`direct::ask`].
#[inline]
pub(super) fn ask(ctx: &mut Context<'_>, text: &[u8], values: &[DatumRef<'_>], show: Show<'_>) -> Result<Asked> {
    let asked = transact::follow(ctx).and_then(|()| direct::ask(&mut Statement::new(ctx), text, values, show));
    dispatch::count_statement(ctx.state, asked.as_ref().err());
    asked
}

/// Runs a statement that its caller has prepared; see [`direct::execute`].
#[inline]
pub(super) fn run_prepared(
    ctx: &mut Context<'_>,
    prepared: &Prepared,
    params: &[DatumRef<'_>],
    found: &mut Batch,
) -> Result<Option<Done>> {
    direct::execute(&mut Statement::new(ctx), prepared, params, found)
}

/// What a text was compiled to, for a caller who will ask it again.
pub fn prepare(state: &mut State, session: &mut Session, text: &[u8]) -> Option<Prepared> {
    let mut effect = state.new_effect();
    let mut ctx = Context { state, session, effect: &mut effect, origin: Origin::Client, ready: None };
    direct::prepared(&mut Statement::new(&mut ctx), text).ok().flatten()
}

/// The request that asks what a prepared statement does.
#[cold]
pub(super) fn words(prepared: &Prepared, params: &[DatumRef<'_>]) -> Vec<Vec<u8>> {
    let spelled = |value: &DatumRef<'_>| match value {
        DatumRef::Null => (b'n', Vec::new()),
        DatumRef::Int(number) => (b'i', number::i64_text(*number).to_vec()),
        DatumRef::Real(number) => (b'r', format!("{number:?}").into_bytes()),
        DatumRef::Text(text) => (b't', text.to_vec()),
        DatumRef::Blob(bytes) => (b'b', bytes.to_vec()),
    };
    let (letters, values): (Vec<u8>, Vec<Vec<u8>>) = params.iter().map(spelled).unzip();
    let head = match letters.is_empty() {
        true => vec![b"SQL".to_vec(), prepared.text().to_vec()],
        false => vec![b"SQL.BIND".to_vec(), letters, prepared.text().to_vec()],
    };
    [head, values].concat()
}

/// Notes what a statement that is about to run will look up.
#[inline]
pub(super) fn look_ahead(sql: &Sql, request: &[&[u8]], ahead: &mut Ahead, source: &dyn Source) {
    let (text, types, params) = match request {
        [name, text, params @ ..] if name.eq_ignore_ascii_case(b"sql") => (text, None, params),
        [name, types, text, params @ ..] if name.eq_ignore_ascii_case(b"sql.bind") => (text, Some(types), params),
        _ => return,
    };
    let Some(plan) = sql.planned(text, params.len()).filter(|plan| Ahead::wants(plan)) else { return };
    // No collecting; see `sql_bind`.
    let mut values = Params::new();
    match types {
        None => params.iter().for_each(|arg| values.push(untyped(arg))),
        Some(types) => {
            let typed = types.iter().zip(params).map_while(|(letter, value)| typed(0, *letter, value).ok());
            typed.for_each(|value| values.push(value));
        }
    }
    if values.len() == plan.parameters() {
        ahead.add(plan, &values, source);
    }
}

/// A parameter without a type: an integer if it is written as one, else text, or bytes that are no text.
#[inline]
fn untyped(arg: &[u8]) -> DatumRef<'_> {
    match number::parse_i64(arg) {
        Some(integer) => DatumRef::Int(integer),
        None if std::str::from_utf8(arg).is_ok() => DatumRef::Text(arg),
        None => DatumRef::Blob(arg),
    }
}

fn sql_bind(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let params = typed_parameters(args[1], &args[3..])?;
    run(ctx, args, args[2], &params)
}

/// Parameters whose types are told by letters.
#[inline]
pub(super) fn typed_parameters<'a>(types: &[u8], values: &[&'a [u8]]) -> Result<Params<'a>> {
    if types.len() != values.len() {
        let text = format!("{} types for {} parameters", types.len(), values.len());
        return Err(Error::new(Code::Sql, text));
    }
    // No collecting: gathering results one by one takes three times as long.
    let mut params = Params::new();
    for (letter, value) in types.iter().zip(values) {
        params.push(typed(params.len() + 1, *letter, value)?);
    }
    Ok(params)
}

fn sql_many(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let (types, values) = (args[1], &args[3..]);
    if types.is_empty() || !values.len().is_multiple_of(types.len()) {
        return Err(Error::new(Code::Sql, format!("{} types for {} parameters", types.len(), values.len())));
    }
    let letters = types.iter().cycle();
    let typed = letters.zip(values).enumerate().map(|(i, (letter, value))| typed(i + 1, *letter, value));
    let values = typed.collect::<Result<Vec<_>>>()?;
    Ok(Reply::Int(sql::execute_many(&mut Statement::new(ctx), args[2], &values)? as i64))
}

fn sql_packed(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let values = packed::read(args[2])?;
    Ok(Reply::Int(sql::execute_many(&mut Statement::new(ctx), args[1], &values)? as i64))
}

fn typed(number: usize, letter: u8, value: &[u8]) -> Result<DatumRef<'_>> {
    let misfit = |what: &str| Error::new(Code::Sql, format!("parameter {number} is not {what}"));
    Ok(match letter {
        b'i' => DatumRef::Int(number::parse_i64(value).ok_or_else(|| misfit("an integer"))?),
        b'r' => DatumRef::Real(number::parse_f64(value).ok_or_else(|| misfit("a number"))?),
        b't' if std::str::from_utf8(value).is_err() => return Err(misfit("UTF-8 text")),
        b't' => DatumRef::Text(value),
        b'b' => DatumRef::Blob(value),
        b'n' => DatumRef::Null,
        _ => return Err(misfit("of a known type: the letters are i, r, t, b and n")),
    })
}

/// A statement typed as a command: its words were split at spaces, so they are joined by spaces again.
pub(super) fn bare(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    run(ctx, args, &args.join(&b' '), &[])
}

/// SELECT is Redis's when one word follows that may be a database's number, however badly written, and SQL otherwise.
pub(super) fn is_sql_select(args: &[&[u8]]) -> bool {
    let is_in_word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'.') || !b.is_ascii_graphic();
    let is_word = |arg: &[u8]| !arg.contains(&b' ') && arg.iter().all(is_in_word);
    args.len() != 2 || !is_word(args[1].trim_ascii())
}

/// Is this line, typed as it is, a SQL statement? Then its quotes are SQL's.
pub fn is_statement(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (word, rest) = (&line[..end], line[end..].trim_ascii());
    if word.eq_ignore_ascii_case(b"select") {
        return !rest.is_empty() && is_sql_select(&[word, rest]);
    }
    if word.eq_ignore_ascii_case(b"call") {
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        return rest[..end].contains(&b'(');
    }
    let is = |spec: &Spec| word.eq_ignore_ascii_case(spec.name.as_bytes());
    !rest.is_empty() && COMMANDS.iter().filter(|spec| !spec.name.starts_with("sql")).any(is)
        || transact::COMMANDS.iter().any(is)
}

/// While a statement holds the baton, [`crate::store::Overrun`] answers; with it in hand only reads in other threads run.
fn cancel(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let id =
        number::parse_i64(args[1]).and_then(|id| SessionId::try_from(id).ok()).ok_or_else(Error::not_an_integer)?;
    let Some(session) = ctx.state.sessions.get(&id) else { return Ok(Reply::Int(0)) };
    let elsewhere = session.blocked.as_ref().and_then(|blocked| blocked.elsewhere.as_ref());
    elsewhere.inspect(|read| read.cancel());
    Ok(Reply::Int(elsewhere.is_some().into()))
}

/// Lends what a statement in database `db` works on, to one that runs in another thread and needs it for a moment.
pub fn lend<T>(state: &mut State, db: usize, body: impl FnOnce(&mut dyn Host) -> T) -> T {
    let mut session = Session::new(0, Door::Embedded, state.clock.now_ms, Arc::new(NoWaker));
    session.db = db;
    let mut effect = state.new_effect();
    // As if by EXEC: it may neither wait nor go elsewhere.
    let mut ctx = Context { state, session: &mut session, effect: &mut effect, origin: Origin::Exec, ready: None };
    let result = body(&mut Statement::new(&mut ctx));
    dispatch::commit(state, &mut session, effect);
    result
}

/// What a statement works on: the context of the command that runs it.
pub(super) struct Statement<'a, 'b> {
    /// The context.
    pub ctx: &'a mut Context<'b>,
    /// The part of the keyspace that a slice of DELETE FROM keys works on.
    window: Option<Window>,
}

/// A part of the keyspace.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// The cursor of SCAN to go on from; when the part is done, that of the next part, 0 at the end.
    cursor: u64,
    /// Batches of keys that are left in this part.
    batches: usize,
}

/// Batches of keys in a slice: about a thousand keys.
const SLICE_BATCHES: usize = 4;

impl<'a, 'b> Statement<'a, 'b> {
    /// A statement of the command that has this context.
    pub fn new(ctx: &'a mut Context<'b>) -> Self {
        Statement { ctx, window: None }
    }
}

impl Host for Statement<'_, '_> {
    #[inline]
    fn sql(&mut self) -> &mut Sql {
        &mut self.ctx.state.sql
    }

    #[inline]
    fn catalog(&self) -> &Catalog {
        &self.ctx.state.tables.catalog
    }

    #[inline]
    fn source(&self) -> &dyn Source {
        match &self.ctx.session.transaction {
            None => self.ctx.state.tables.source(),
            Some(transaction) => transaction.tables.source(),
        }
    }

    #[inline]
    fn write(&mut self) -> Result<(&mut Tables, &mut TableChanges)> {
        match self.ctx.origin {
            Origin::Script => dispatch::note_script_write(self.ctx.state, false)?,
            Origin::ReadOnlyScript => dispatch::note_script_write(self.ctx.state, true)?,
            _ => {}
        }
        self.ctx.state.journal.check_write()?;
        match &mut self.ctx.session.transaction {
            None => Ok((&mut self.ctx.state.tables, &mut self.ctx.effect.tables)),
            Some(transaction) if transaction.read_only => Err(transact::read_only()),
            Some(transaction) => Ok((&mut transaction.tables, &mut transaction.changes)),
        }
    }

    fn written(&mut self) -> Result<(&mut Tables, &mut TableChanges)> {
        Ok(match &mut self.ctx.session.transaction {
            None => (&mut self.ctx.state.tables, &mut self.ctx.effect.tables),
            Some(transaction) => (&mut transaction.tables, &mut transaction.changes),
        })
    }

    fn next_number(&mut self, table: TableId, at_least: i64) -> Result<i64> {
        let (tables, _) = self.write()?;
        let last = tables.engine().sequence(table)?.max(at_least);
        let Context { state, session, effect, .. } = &mut *self.ctx;
        match &session.transaction {
            None => number_after(last),
            Some(transaction) => transaction.next_number(&mut state.tables, table, last, &mut effect.tables),
        }
    }

    fn control(&mut self, control: &Control) -> Result<Reply> {
        transact::control(self.ctx, control)
    }

    fn call(&mut self, name: &str, args: Vec<Datum>) -> Result<Reply> {
        call::from_statement(self.ctx, name, args)
    }

    fn table_memory(&self, table: TableId) -> Option<TableMemory> {
        self.ctx.state.tables.engine().memory(table).ok()
    }

    #[inline]
    fn make_room(&mut self) -> Result<()> {
        room::make_for_rows(self.ctx)
    }

    fn fetch(&mut self, wanted: &Wanted) -> Result<()> {
        // Under the baton for now; with disk tables the statement will wait without it.
        let fetched = self.ctx.state.tables.engine().fetch(wanted)()?;
        self.ctx.state.tables.engine_mut().admit(fetched);
        Ok(())
    }

    fn deadline_ns(&mut self) -> Option<u64> {
        let limit_ms = self.ctx.state.config.statement_timeout_ms;
        (limit_ms > 0).then(|| self.ctx.state.env.monotonic_ns() + limit_ms * 1_000_000)
    }

    #[inline]
    fn slice_end_ns(&mut self) -> Option<u64> {
        let (state, transaction) = (&*self.ctx.state, &self.ctx.session.transaction);
        let may_move = self.ctx.origin == Origin::Client
            && state.tables.engine().capabilities().contains(Capabilities::VIEWS)
            && transaction.as_ref().is_none_or(|transaction| transaction.is_its_view());
        may_move.then(|| state.monotonic_ns + state.config.statement_slice_us * 1000)
    }

    #[cold]
    fn read_elsewhere(&mut self, text: &[u8], params: &[DatumRef<'_>]) -> Result<Reply> {
        let deadline_ns = self.deadline_ns();
        let (state, session) = (&mut *self.ctx.state, &mut *self.ctx.session);
        let ids: Vec<_> = state.tables.catalog.tables().map(|def| def.id).collect();
        let (view, copied_before) = match &session.transaction {
            None => (state.tables.engine_mut().view(&ids)?, state.tables.engine().copied_bytes()),
            Some(transaction) => (transaction.overlay().base().clone(), transaction.copied_before()),
        };
        let ticket = Arc::new(Ticket::new(copied_before));
        let job = Job {
            session: session.id,
            db: session.db,
            text: text.into(),
            params: params.iter().map(|value| DatumRef::to_owned(*value)).collect(),
            catalog: state.tables.catalog.clone(),
            view,
            now_us: state.clock.now_us,
            deadline_ns,
            ticket: ticket.clone(),
        };
        state.readers.submit(job)?;
        session.blocked = Some(Blocked {
            request: Vec::new(),
            keys: Vec::new(),
            deadline_ms: None,
            on_timeout: crate::sql::report::cancelled().into(),
            elsewhere: Some(ticket),
            sweep: None,
        });
        Ok(Reply::None)
    }

    fn open_keys(&mut self) -> Option<KeysScope> {
        if !self.ctx.state.tables.catalog.triggers().has_rows() {
            return None;
        }
        let Context { session, effect, .. } = &mut *self.ctx;
        Some(KeysScope::open(effect, session.transaction.as_deref_mut()))
    }

    fn close_keys(&mut self, scope: KeysScope, keep: bool) {
        let Context { state, session, effect, .. } = &mut *self.ctx;
        scope.close(keep, effect, session.transaction.as_deref_mut(), &mut state.keyspace);
    }

    fn fire(&mut self, firing: &Firing<'_>) -> Result<Fired> {
        trigger::fire(self.ctx, firing)
    }

    fn call_function(&mut self, name: &str, args: &[DatumRef<'_>]) -> Result<Datum> {
        routine::evaluate(self.ctx, name.as_bytes(), args).map_err(|error| match error.code {
            Code::Err | Code::Custom => {
                let why = error.message.strip_prefix("ERR ").unwrap_or(&error.message);
                Error::new(Code::Sql, format!("function {name}: {why}"))
            }
            _ => error,
        })
    }

    fn trigger_runs(&self, name: &str) -> Runs {
        self.ctx.state.routines.trigger_runs(name)
    }

    fn schedule_runs(&self, name: &str) -> ScheduleRuns {
        let State { routines, clock, .. } = &*self.ctx.state;
        routines.schedule_runs(name, (clock.steady_ns, clock.now_ms))
    }

    fn routines(&self) -> Vec<RoutineUses> {
        routine::uses(self.ctx.state)
    }

    fn statement_begins(&mut self) {
        self.ctx.state.statement_watch.begin_for(self.ctx.session.id, self.ctx.state.monotonic_ns);
    }

    fn statement_ends(&mut self) {
        self.ctx.state.statement_watch.end();
    }

    fn is_cancelled(&self) -> bool {
        // A statement of a script ends with the script.
        self.ctx.state.statement_watch.is_killed() || self.ctx.state.scripts.watch().is_killed()
    }

    fn now_us(&self) -> i64 {
        self.ctx.state.clock.now_us
    }

    fn monotonic_ns(&mut self) -> u64 {
        self.ctx.state.env.monotonic_ns()
    }

    fn read_key(
        &mut self,
        key: &[u8],
        shape: Shape,
        portion: Portion<'_>,
        each: &mut dyn FnMut(&[Datum]),
    ) -> Result<()> {
        transact::read_keys(self.ctx, &[key], |ctx| sql_keys::read(ctx, key, shape, portion, each))
    }

    fn ranks(&mut self, key: &[u8], low: Option<f64>, high: Option<f64>) -> Result<Range<usize>> {
        transact::read_keys(self.ctx, &[key], |ctx| sql_keys::ranks(ctx, key, low, high))
    }

    fn find_key(&mut self, key: &[u8], each: &mut dyn FnMut(&[Datum])) -> Result<()> {
        transact::read_keys(self.ctx, &[key], |ctx| {
            sql_keys::find(ctx, key, each);
            Ok(())
        })
    }

    fn scan_keys(&mut self, cursor: u64, prefix: &[u8], bytes: bool, each: &mut dyn FnMut(&[Datum])) -> Result<u64> {
        if let Some(window) = &mut self.window {
            window.cursor = sql_keys::scan(self.ctx, window.cursor, prefix, bytes, each);
            window.batches -= 1;
            // The end of the window is the end of the scan as the statement sees it.
            return Ok(if window.batches == 0 { 0 } else { window.cursor });
        }
        transact::read_all_keys(self.ctx, |ctx| Ok(sql_keys::scan(ctx, cursor, prefix, bytes, each)))
    }

    fn begin_slice(&mut self) {
        // In transactions and scripts nobody comes in between.
        let alone = matches!(self.ctx.origin, Origin::Client | Origin::Retry) && self.ctx.session.transaction.is_none();
        if alone {
            let cursor = self.ctx.session.sweep.map_or(0, |sweep| sweep.cursor);
            self.window = Some(Window { cursor, batches: SLICE_BATCHES });
        }
    }

    fn store_key(&mut self, key: &[u8], shape: Shape, elements: &[Vec<Datum>]) -> Result<usize> {
        self.write()?;
        // Not when a transaction has lent its private keys: they must not be evicted for others.
        room::make_for_rows(self.ctx)?;
        transact::write_keys(self.ctx, &[key], |ctx| sql_keys::store(ctx, key, shape, elements))
    }

    fn delete_keys(&mut self, keys: &[Vec<u8>]) -> Result<u64> {
        self.write()?;
        let names: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        transact::write_keys(self.ctx, &names, |ctx| Ok(sql_keys::delete(ctx, keys)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn select_of_a_number_is_redis_s() {
        let select = |args: &[&str]| {
            let args: Vec<&[u8]> = args.iter().map(|a| a.as_bytes()).collect();
            is_sql_select(&args)
        };
        assert!(!select(&["SELECT", "3"]));
        assert!(!select(&["SELECT", "-1"]));
        assert!(!select(&["SELECT", "abc"]));
        assert!(!select(&["SELECT", " 1 "]));
        assert!(!select(&["SELECT", "1.5x"]));
        assert!(select(&["SELECT", "1+1;"]));
        assert!(select(&["SELECT", "*", "FROM", "t"]));
        assert!(select(&["SELECT", "1 AS x"]));
    }

    #[test]
    fn lines_of_sql_are_known() {
        for line in ["SELECT * FROM t WHERE a = 'x'", " insert into t values (1)", "select 1 + 1", "Show tables"] {
            assert!(is_statement(line.as_bytes()), "{line}");
        }
        for line in ["SELECT 3", "SELECT", "INSERT", "SET a b", "SQL 'SELECT 1'", "", "selects * from t"] {
            assert!(!is_statement(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn parameters_get_their_types() {
        assert_eq!(DatumRef::Int(-5), untyped(b"-5"));
        assert_eq!(DatumRef::Text(b"05"), untyped(b"05"));
        assert_eq!(DatumRef::Text(b""), untyped(b""));
        assert_eq!(DatumRef::Blob(b"\xFF"), untyped(b"\xFF"));
        assert_eq!(DatumRef::Real(1.5), typed(1, b'r', b"1.5").unwrap());
        assert_eq!(DatumRef::Null, typed(1, b'n', b"").unwrap());
        assert!(typed(1, b'i', b"1.5").is_err() && typed(1, b't', b"\xFF").is_err() && typed(1, b'x', b"").is_err());
    }
}
