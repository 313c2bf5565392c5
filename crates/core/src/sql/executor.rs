//! Runs statements: finds or compiles what their text means, opens the undo scope, steps, shapes the reply.

use super::cache::{Cache, Compiled, Place};
use super::constraint::{RowEvaluator, foreign_key, link};
use super::dml::returning::Returned;
use super::dml::store::{self, Sink};
use super::dml::upsert::Upserting;
use super::dml::{self, Extra};
use super::error::sql;
use super::origin::Origin;
use super::records::Records;
use super::run::{self, Current, Failure, Host, Outcome, Run, Traits};
use super::sqlite::{Connection, Prepared, Step, functions, memory};
use super::statement::{self, Class};
use super::table_info::TableInfo;
use super::token::{Token, quote_name};
use super::trigger::RowTriggers;
use super::{call, catalog_tables, ddl, explain, fast, rewrite, routines, schema, source, vtab, write};
use crate::error::{Code, Error, Result};
use crate::limits;
use crate::reply::{Blob, Reply};
use crate::table::batch::Batch;
use crate::table::catalog::{TableId, ViewDef};
use crate::table::datum::{Datum, DatumRef};
use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// The SQL side of a store: a connection to SQLite that knows the store's tables, and the statements compiled for it.
pub struct Sql {
    // Fields are dropped in this order: statements before their connection.
    cache: Cache,
    connection: Option<Connection>,
    current: Arc<Current>,
    tables: HashMap<TableId, Arc<TableInfo>>,
    /// The functions of libraries that the connection knows.
    functions: routines::Known,
    /// The views that the connection knows.
    views: Vec<Arc<ViewDef>>,
    /// The catalog version that all of the above was made for.
    version: u64,
    /// Statements that are running, inside each other.
    running: usize,
    /// Statements of simple shapes are answered without SQLite. Tests compare both ways.
    pub(super) fast_path: bool,
    /// What the steps of the statement took that was analysed last.
    pub(super) taken: Vec<run::Taken>,
    /// Buffers of the fast path: keys to look up, a row to write and the row as it was.
    pub(super) keys: Batch,
    pub(super) row_buffers: (Batch, Vec<u8>),
    /// What is known of the tables whose rows were looked up by name lately.
    pub(super) records: Vec<(Box<[u8]>, Arc<Records>)>,
    /// Rows found for a caller in the same process.
    pub(super) found: Batch,
    /// Evaluates what definitions demand of rows.
    rows: RowEvaluator,
}

/// A statement compiled by SQLite.
pub struct Statement {
    prepared: Prepared,
    traits: Arc<Traits>,
    names: Vec<Blob>,
    parameters: usize,
    /// Those that SQLite knows of; the others are in `extra`.
    bound: usize,
    readonly: bool,
    /// The clauses that are not SQLite's.
    extra: Option<Box<Extra>>,
}

impl Statement {
    /// The same with clauses of ours, and so many parameters in all.
    pub fn with_extra(self, extra: Extra, parameters: usize) -> Statement {
        // What changes the keyspace is no reading, though SQLite takes it for that.
        let readonly = self.readonly && extra.sink.is_none();
        Statement { extra: Some(Box::new(extra)), parameters, readonly, ..self }
    }

    /// How many parameters it has.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// How many columns its rows have.
    pub fn width(&self) -> usize {
        self.names.len()
    }

    /// Does it change rows and return none?
    pub fn only_writes(&self) -> bool {
        let returns = self.extra.as_ref().is_some_and(|extra| extra.returning.is_some());
        !self.readonly && self.names.is_empty() && !returns
    }

    /// Makes it ready for the next run.
    pub fn reset(&mut self) {
        self.prepared.reset();
    }
}

/// What is known of a result column.
pub struct Described {
    /// Its name.
    pub name: String,
    /// The base type of the column that it is.
    pub declared: Option<String>,
    /// The table and column that it is.
    pub origin: Option<(String, String)>,
}

impl Statement {
    /// What is known of its result columns.
    pub fn columns(&self) -> Vec<Described> {
        let describe = |i: usize| Described {
            name: self.prepared.column_name(i),
            declared: self.prepared.column_type(i).filter(|declared| !declared.is_empty()),
            origin: self.prepared.column_origin(i),
        };
        (0..self.prepared.column_count()).map(describe).collect()
    }

    /// Does it only read?
    pub fn is_readonly(&self) -> bool {
        self.readonly
    }
}

/// Evaluates expressions on the connection of a [`Sql`], which must be alive.
#[derive(Clone, Copy)]
pub struct Evaluator(*mut libsqlite3_sys::sqlite3);

impl Evaluator {
    /// The value of an expression without columns.
    pub fn evaluate(&self, expression: &str) -> Result<Datum> {
        super::sqlite::connection::evaluate(self.0, expression)
    }
}

#[cfg(test)]
impl Sql {
    /// Turns the fast path off or on, also for statements that were compiled before.
    pub(super) fn set_fast_path(&mut self, on: bool) {
        self.fast_path = on;
        self.cache.clear();
    }
}

/// SQLite's steps between two looks at the clock: some 50 us.
const PROGRESS_STEPS: i32 = 1000;

impl Default for Sql {
    fn default() -> Self {
        Sql {
            cache: Cache::default(),
            connection: None,
            current: Arc::default(),
            tables: HashMap::new(),
            functions: routines::Known::default(),
            views: Vec::new(),
            version: u64::MAX,
            running: 0,
            fast_path: true,
            taken: Vec::new(),
            keys: Batch::new(),
            row_buffers: Default::default(),
            records: Vec::new(),
            found: Batch::new(),
            rows: RowEvaluator::default(),
        }
    }
}

/// Runs one statement and gives its reply: rows, or the number of rows changed.
#[inline]
pub fn execute(host: &mut dyn Host, text: &[u8], params: &[DatumRef<'_>]) -> Result<Reply> {
    synchronize(host)?;
    match host.sql().cache.check_out(text) {
        Some(Compiled::Fast(plan)) => run_fast(host, text, &plan, params),
        Some(Compiled::Statement(statement)) => run_statement(host, text, statement, params),
        None => compile_and_run(host, text, params),
    }
}

/// Brings what is known of the tables up to the catalog's version.
#[inline]
pub fn synchronize(host: &mut dyn Host) -> Result<()> {
    let version = host.catalog().version();
    let sql = host.sql();
    if sql.version == version { Ok(()) } else { follow_catalog(host, version) }
}

#[cold]
fn follow_catalog(host: &mut dyn Host, version: u64) -> Result<()> {
    let defs: Vec<_> = host.catalog().tables().cloned().collect();
    let views: Vec<_> = host.catalog().views().cloned().collect();
    let mut links = link::resolve(host.catalog());
    let mut triggers = RowTriggers::resolve(host.catalog());
    let functions = routines::pure_functions(host.catalog());
    let sql = host.sql();
    sql.cache.clear();
    sql.records.clear();
    if sql.connection.is_none() {
        sql.connection = Some(connect(&sql.current)?);
    }
    let Some(connection) = &sql.connection else { return Ok(()) };
    sql.functions.follow(connection, functions, &sql.current)?;
    // What a table has to do with others may change though it does not.
    let linked = |info: &TableInfo| {
        let was = info.links.is_some() || info.triggers.is_some();
        was || links.contains_key(&info.def.id) || triggers.contains_key(&info.def.id)
    };
    let gone = |info: &Arc<TableInfo>| linked(info) || !defs.iter().any(|def| Arc::ptr_eq(def, &info.def));
    let known = sql.tables.len();
    for (_, info) in sql.tables.extract_if(|_, info| gone(info)) {
        connection.drop_module(&info.def.name);
        sql.rows.forget(info.def.id);
    }
    if sql.tables.len() < known {
        // SQLite keeps the columns of a view that it has met, also where these are another table's by now.
        follow_views(connection, &mut sql.views, Vec::new())?;
    }
    for def in &defs {
        if !sql.tables.contains_key(&def.id) {
            let links = links.remove(&def.id).map(Box::new);
            let triggers = triggers.remove(&def.id).map(Box::new);
            let info = Arc::new(TableInfo { links, triggers, ..TableInfo::new(def)? });
            vtab::register(connection, &info, &sql.current)?;
            sql.tables.insert(def.id, info);
        }
    }
    follow_views(connection, &mut sql.views, views)?;
    sql.version = version;
    Ok(())
}

/// Makes the connection's views those of the catalog.
fn follow_views(connection: &Connection, known: &mut Vec<Arc<ViewDef>>, views: Vec<Arc<ViewDef>>) -> Result<()> {
    let is_in = |list: &[Arc<ViewDef>], view: &Arc<ViewDef>| list.iter().any(|other| Arc::ptr_eq(other, view));
    for gone in known.extract_if(.., |view| !is_in(&views, view)) {
        connection.define(&format!("DROP VIEW {}", quote_name(&gone.name)))?;
    }
    for view in views {
        if !is_in(known, &view) {
            connection.define(&statement::with_sources_quoted(&view.sql))?;
            known.push(view);
        }
    }
    Ok(())
}

fn connect(current: &Arc<Current>) -> Result<Connection> {
    let connection = Connection::open()?;
    functions::register(&connection)?;
    vtab::row_values::register(&connection)?;
    source::register(&connection, current)?;
    catalog_tables::register(&connection, current)?;
    let context = Arc::as_ptr(current).cast_mut().cast();
    // SAFETY: `current` lives as long as `Sql`, which drops the connection first.
    unsafe { connection.set_progress(PROGRESS_STEPS, Some(run::check_progress), context) };
    Ok(connection)
}

impl Sql {
    /// What is known of a table.
    pub fn info(&self, table: TableId) -> Option<&Arc<TableInfo>> {
        self.tables.get(&table)
    }

    /// The value of an expression without columns.
    pub fn evaluate(&self, expression: &str) -> Result<Datum> {
        self.evaluator().evaluate(expression)
    }

    /// What evaluates expressions, apart from the rest.
    pub fn evaluator(&self) -> Evaluator {
        Evaluator(self.connection.as_ref().map_or(std::ptr::null_mut(), Connection::handle))
    }

    /// What evaluates the rules of tables for a row.
    pub fn evaluator_of_rows(&mut self) -> &mut RowEvaluator {
        &mut self.rows
    }

    /// SQLite's connection and the place of the current run, for statements inside statements.
    pub fn entrance(&self) -> Result<(ManuallyDrop<Connection>, Arc<Current>)> {
        let connection = self.connection.as_ref().map(Connection::lend).ok_or_else(|| sql("no connection"))?;
        Ok((connection, self.current.clone()))
    }

    /// The plan by key that a text with so many parameters has, if it is known.
    #[inline]
    pub fn planned(&self, text: &[u8], parameters: usize) -> Option<&fast::Plan> {
        self.cache.fast(text).filter(|plan| plan.parameters() == parameters)
    }

    /// The plan by key of a text that ran before, and its place in the cache.
    pub fn known(&self, text: &[u8]) -> Option<(Arc<fast::Plan>, Place)> {
        self.cache.place(text)
    }

    /// Is the plan at that place in the cache still this one? If so, that counts as a call.
    #[inline]
    pub fn is_current(&mut self, place: Place, plan: &Arc<fast::Plan>) -> bool {
        self.cache.is_at(place, plan)
    }

    /// The statements in the cache and how they were used.
    pub fn statements(&self) -> impl Iterator<Item = (&[u8], super::cache::Usage)> {
        self.cache.usages()
    }

    /// Texts whose compiled form is kept.
    pub fn cached(&self) -> usize {
        self.cache.len()
    }

    /// Statements running now.
    pub fn running(&self) -> usize {
        self.running
    }
}

/// What is known of the table called `name`.
pub fn table_info(host: &mut dyn Host, name: &str) -> Result<Arc<TableInfo>> {
    synchronize(host)?;
    let id = host.catalog().table(name).map(|def| def.id);
    let info = id.and_then(|id| host.sql().info(id).cloned());
    info.ok_or_else(|| sql(format!("no such table: {name}")))
}

/// The text of a statement, if it can be one.
fn checked(bytes: &[u8]) -> Result<&str> {
    if bytes.len() > limits::SQL_BYTES_MAX {
        let text = format!("a statement of {} bytes is longer than {}", bytes.len(), limits::SQL_BYTES_MAX);
        return Err(Error::new(Code::Limit, text));
    }
    std::str::from_utf8(bytes)
        .map_err(|error| sql(format!("the statement is not UTF-8 at byte {}", error.valid_up_to() + 1)))
}

#[cold]
fn compile_and_run(host: &mut dyn Host, bytes: &[u8], params: &[DatumRef<'_>]) -> Result<Reply> {
    let text = checked(bytes)?;
    let (class, tokens) = statement::classify(text)?;
    match class {
        Class::Ddl => {
            if host.sql().running > 0 {
                return Err(sql("definitions cannot change while a statement runs"));
            }
            schema::execute(host, &ddl::parse(text)?)
        }
        Class::Control(control) => {
            if host.sql().running > 0 {
                return Err(sql("a transaction cannot be opened or ended while a statement runs"));
            }
            host.control(&control)
        }
        Class::Call(routine) => {
            if host.sql().running > 0 {
                return Err(sql("a procedure cannot be called while a statement runs"));
            }
            call::execute(host, &routine, params)
        }
        Class::Maintenance(name) => maintain(host, name.as_deref()),
        Class::Truncate(name) => dml::truncate::execute(host, &name),
        Class::Explain(..) => in_forms(host, text, tokens, |host, form, class, _| match class {
            Class::Explain(at, traits) => explained(host, &form[at..], traits, params),
            _ => Err(sql("not an EXPLAIN")),
        }),
        Class::Query(_) => match compile_query(host, text, tokens)? {
            Compiled::Fast(plan) => run_fast(host, bytes, &plan, params),
            Compiled::Statement(statement) => run_statement(host, bytes, statement, params),
        },
    }
}

/// Tries the forms that a text may take for SQLite, the best first; the last one tells what is wrong.
fn in_forms<T>(
    host: &mut dyn Host,
    text: &str,
    tokens: Vec<Token<'_>>,
    mut body: impl FnMut(&mut dyn Host, &str, Class, &[Token<'_>]) -> Result<T>,
) -> Result<T> {
    let mut forms = rewrite::forms(host.catalog(), text, &tokens)?;
    let last = forms.pop().unwrap_or(text.into());
    for form in forms {
        let (class, tokens) = statement::classify(&form)?;
        let result = body(host, &form, class, &tokens);
        if result.is_ok() {
            return result;
        }
    }
    let (class, tokens) = statement::classify(&last)?;
    body(host, &last, class, &tokens).map_err(|error| relocated(error, &last, text))
}

fn compile_query(host: &mut dyn Host, text: &str, tokens: Vec<Token<'_>>) -> Result<Compiled> {
    in_forms(host, text, tokens, |host, form, class, tokens| {
        let Class::Query(traits) = class else { return Err(sql("not a query")) };
        let plan = if host.sql().fast_path { fast::compile(host, form, tokens)? } else { None };
        let Some(plan) = plan else { return compile(host, form, tokens, traits).map(Compiled::Statement) };
        let plan = Arc::new(plan);
        // A text of literals alone rarely comes twice, unless it walks over a table; keeping it would push others out.
        if traits.parameters || matches!(*plan, fast::Plan::Query(_)) {
            host.sql().cache.keep_fast(text.as_bytes(), plan.clone());
        }
        Ok(Compiled::Fast(plan))
    })
}

fn explained(host: &mut dyn Host, text: &str, traits: Traits, params: &[DatumRef<'_>]) -> Result<Reply> {
    let main = dml::main_text(text)?;
    explain::execute(host, main.as_deref().unwrap_or(text), traits, params)
}

/// What a text that reads or writes rows was compiled to; a statement is checked out.
pub fn compiled(host: &mut dyn Host, bytes: &[u8]) -> Result<Compiled> {
    synchronize(host)?;
    if let Some(compiled) = host.sql().cache.check_out(bytes) {
        return Ok(compiled);
    }
    let text = checked(bytes)?;
    match statement::classify(text)? {
        (Class::Query(_), tokens) => compile_query(host, text, tokens),
        _ => Err(sql("only a statement that writes rows can be run many times")),
    }
}

/// Gives a statement back to the cache, unless the catalog has changed meanwhile.
pub fn check_in(host: &mut dyn Host, text: &[u8], mut statement: Statement) {
    statement.prepared.reset();
    let is_current = host.catalog().version() == host.sql().version;
    if is_current {
        host.sql().cache.check_in(text, statement);
    }
}

/// REINDEX and ANALYZE: an index is never out of step with its table (invariant 3), and statistics follow the rows, so
/// what is left to do is to plan the statements anew.
#[cold]
fn maintain(host: &mut dyn Host, name: Option<&str>) -> Result<Reply> {
    if let Some(name) = name {
        let is_named = |index: &crate::table::catalog::IndexDef| index.name.eq_ignore_ascii_case(name);
        let catalog = host.catalog();
        if catalog.table(name).is_none() && !catalog.tables().any(|def| def.indexes.iter().any(is_named)) {
            return Err(sql(format!("no such table or index: {name}")));
        }
    }
    host.sql().cache.clear();
    Ok(Reply::Int(0))
}

/// Runs a plan that needs no SQLite; if it turns out to need it, SQLite runs the statement.
#[inline]
fn run_fast(host: &mut dyn Host, text: &[u8], plan: &fast::Plan, params: &[DatumRef<'_>]) -> Result<Reply> {
    if let fast::Plan::Query(query) = plan {
        return run_query(host, text, query, params);
    }
    match run_planned(host, plan, params)? {
        Some(reply) => Ok(reply),
        None => run_slow(host, text, params),
    }
}

/// Runs a plan that may walk over many rows, elsewhere if it takes too long here, and notes its time.
#[inline(never)]
fn run_query(host: &mut dyn Host, text: &[u8], query: &fast::Query, params: &[DatumRef<'_>]) -> Result<Reply> {
    if query.parameters != params.len() {
        return Err(wrong_count(query.parameters, params.len()));
    }
    let begun_ns = host.monotonic_ns();
    let reply = loop {
        match query.run_or_move(host, params) {
            Ok(Some(reply)) => break Ok(reply),
            Ok(None) => return run_slow(host, text, params),
            Err(Failure::NotReady(wanted)) => host.fetch(&wanted)?,
            Err(Failure::SliceOver) => break host.read_elsewhere(text, params),
            Err(Failure::Error(error)) => break Err(error),
        }
    };
    let ns = host.monotonic_ns().saturating_sub(begun_ns);
    host.sql().cache.note(text, ns, reply.as_ref().map_or(0, row_count));
    reply
}

/// Runs a plan that needs no SQLite; None: it turned out to need it, and nothing was done.
#[inline]
pub fn run_planned(host: &mut dyn Host, plan: &fast::Plan, params: &[DatumRef<'_>]) -> Result<Option<Reply>> {
    if plan.parameters() != params.len() {
        return Err(wrong_count(plan.parameters(), params.len()));
    }
    run::until_ready(host, |host| fast::run(host, plan, params))
}

/// The error for a number of parameters that is not the statement's.
#[cold]
pub fn wrong_count(wants: usize, given: usize) -> Error {
    sql(format!("the statement has {wants} parameters, {given} given"))
}

/// Runs a statement with SQLite although there is a plan that needs none.
#[cold]
pub fn run_slow(host: &mut dyn Host, bytes: &[u8], params: &[DatumRef<'_>]) -> Result<Reply> {
    let text = String::from_utf8_lossy(bytes);
    let (_, tokens) = statement::classify(&text)?;
    let mut statement = in_forms(host, &text, tokens, |host, form, class, tokens| match class {
        Class::Query(traits) => compile(host, form, tokens, traits),
        _ => Err(sql("not a query")),
    })?;
    if statement.parameters != params.len() {
        return Err(wrong_count(statement.parameters, params.len()));
    }
    run_until_ready(host, &mut statement, bytes, params)
}

/// Compiles a statement that is SQLite's, or whose text has clauses of ours.
fn compile(host: &mut dyn Host, text: &str, tokens: &[Token<'_>], traits: Traits) -> Result<Statement> {
    match dml::compile(host, text, tokens)? {
        Some(statement) => Ok(statement),
        None => prepare(host, text, traits),
    }
}

/// Compiles expressions over rows in hand.
pub fn prepare_part(host: &mut dyn Host, text: &str) -> Result<Prepared> {
    let quoted = statement::with_sources_quoted(text);
    prepare_until_ready(host, &quoted, &Traits::PART).map_err(|error| relocated(error, &quoted, text))
}

/// An error about a text that was made of the one given.
fn relocated(error: Error, made: &str, given: &str) -> Error {
    if made == given { error } else { Origin::of(made, given).relocated(error, made, given) }
}

/// Compiles a statement with SQLite.
pub fn prepare(host: &mut dyn Host, text: &str, traits: Traits) -> Result<Statement> {
    synchronize(host)?;
    let quoted = statement::with_sources_quoted(text);
    let hinted = &*vtab::row_values::with_hints(&quoted);
    let traits = Arc::new(traits);
    let prepared = match prepare_until_ready(host, hinted, &traits) {
        // Places in the text are to be those of the text as it was given.
        Err(error) if *hinted != *quoted => Err(prepare_until_ready(host, &quoted, &traits).err().unwrap_or(error)),
        prepared => prepared,
    };
    let prepared = prepared.map_err(|error| relocated(error, &quoted, text))?;
    let count = prepared.column_count();
    let names = (0..count).map(|i| Blob::from_slice(prepared.column_name(i).as_bytes())).collect();
    let (parameters, readonly) = (prepared.parameter_count(), prepared.is_readonly());
    Ok(Statement { prepared, traits, names, parameters, bound: parameters, readonly, extra: None })
}

fn prepare_until_ready(host: &mut dyn Host, text: &str, traits: &Traits) -> Result<Prepared> {
    super::sqlite::world::set_now(host.now_us());
    run::until_ready(host, |host| prepare_once(host, text, traits))
}

fn prepare_once(host: &mut dyn Host, text: &str, traits: &Traits) -> Outcome<Prepared> {
    let sql_side = host.sql();
    let connection = sql_side.connection.as_ref().ok_or_else(|| sql("no connection"))?.lend();
    let current = sql_side.current.clone();
    let mut run = Run::new(host, traits);
    let prepared = current.enter(&mut run, || connection.prepare(text, true));
    match run.failure.take() {
        Some(failure) => Err(failure),
        None => Ok(prepared?),
    }
}

/// Runs a compiled statement and gives it back to the cache.
fn run_statement(host: &mut dyn Host, text: &[u8], mut statement: Statement, params: &[DatumRef<'_>]) -> Result<Reply> {
    if statement.parameters != params.len() {
        let wants = statement.parameters;
        host.sql().cache.check_in(text, statement);
        return Err(wrong_count(wants, params.len()));
    }
    let version = host.sql().version;
    let begun_ns = host.monotonic_ns();
    let reply = run_until_ready(host, &mut statement, text, params);
    statement.prepared.reset();
    let ns = host.monotonic_ns().saturating_sub(begun_ns);
    let sql = host.sql();
    if sql.version == version {
        sql.cache.check_in(text, statement);
        sql.cache.note(text, ns, reply.as_ref().map_or(0, row_count));
    }
    reply
}

/// The rows that a statement returned or changed.
fn row_count(reply: &Reply) -> u64 {
    match reply {
        Reply::Array(rows) => rows.len().saturating_sub(1) as u64,
        Reply::Rows(rows) => rows.len() as u64,
        Reply::Int(changed) => (*changed).max(0) as u64,
        _ => 0,
    }
}

/// Runs a statement; when the engine must fetch something first, the statement is undone and run again. A read that
/// takes too long begins again elsewhere.
fn run_until_ready(
    host: &mut dyn Host,
    statement: &mut Statement,
    text: &[u8],
    params: &[DatumRef<'_>],
) -> Result<Reply> {
    loop {
        match run_once(host, statement, params, true) {
            Ok(reply) => return Ok(reply),
            Err(Failure::Error(error)) => return Err(error),
            Err(Failure::NotReady(wanted)) => {
                statement.prepared.reset();
                host.fetch(&wanted)?;
            }
            Err(Failure::SliceOver) => {
                statement.prepared.reset();
                return host.read_elsewhere(text, params);
            }
        }
    }
}

/// Runs a statement once, in a scope if it writes; `may_move`: a read may say that its slice is over.
pub fn run_once(
    host: &mut dyn Host,
    statement: &mut Statement,
    params: &[DatumRef<'_>],
    may_move: bool,
) -> Outcome<Reply> {
    if host.sql().running >= limits::NESTING_MAX {
        return Err(Error::new(Code::Limit, "statements are nested too deeply").into());
    }
    let writes = !statement.readonly;
    in_scope(host, writes, |host| {
        let result = step_all(host, statement, params, may_move);
        if result.is_err() {
            // Open cursors of the failed statement must not see the rows move back.
            statement.prepared.reset();
        }
        result
    })
}

/// Runs `body` in an undo scope, if it may write several rows: one row the engine writes whole or not at all.
pub fn in_scope<T>(host: &mut dyn Host, scope: bool, body: impl FnOnce(&mut dyn Host) -> Outcome<T>) -> Outcome<T> {
    if !scope {
        return body(host);
    }
    let (tables, changes) = host.write()?;
    let scope = tables.open(changes);
    let keys = host.open_keys();
    let result = body(host);
    if let Some(keys) = keys {
        host.close_keys(keys, result.is_ok());
    }
    // Whatever may be written by now: what was opened is closed.
    let (tables, changes) = host.written()?;
    match result {
        Ok(_) => tables.keep(changes, scope),
        Err(_) => tables.undo(changes, scope),
    }
    result
}

fn step_all(host: &mut dyn Host, statement: &mut Statement, params: &[DatumRef<'_>], may_move: bool) -> Outcome<Reply> {
    super::sqlite::world::set_now(host.now_us());
    let deadline_ns = host.deadline_ns();
    let sql_side = host.sql();
    let (connection, current) = sql_side.entrance()?;
    let is_outermost = sql_side.running == 0;
    sql_side.running += 1;
    let Statement { prepared, traits, names, bound, extra, readonly, .. } = statement;
    let may_move = may_move && is_outermost && *readonly && extra.is_none();
    let slice_end_ns = if may_move { host.slice_end_ns() } else { None };
    if is_outermost {
        host.statement_begins();
    }
    let (upsert, returning, sink) = match extra {
        Some(extra) => (extra.upsert.as_mut(), extra.returning.as_mut(), extra.sink.as_ref()),
        None => (None, None, None),
    };
    if sink.is_some_and(Sink::is_sliced) {
        host.begin_slice();
    }
    let mut run = Run::new(host, traits);
    run.only_reads = *readonly;
    run.deadline_ns = deadline_ns;
    run.slice_end_ns = slice_end_ns;
    run.upserting = upsert.map(|upsert| Upserting::Compiled(upsert, params));
    run.returned = returning.is_some().then(Returned::default);
    let mut collected = Vec::new();
    let result = memory::limited(limits::SQL_MEMORY_BYTES_MAX, || {
        current.enter(&mut run, || match sink {
            None => step(&connection, prepared, names, &params[..*bound]),
            Some(_) => {
                collected = store::collect(&connection, prepared, names.len(), &params[..*bound])?;
                Ok(Vec::new())
            }
        })
    });
    if result.is_ok()
        && let Some(table) = run.deferred_of
    {
        write_deferred(&mut run, table);
    }
    if result.is_ok() && run.failure.is_none() {
        run.failure = foreign_key::finish(&mut run).err();
    }
    let (failure, changed, returned) = (run.failure.take(), run.changed, run.returned.take());
    let taken = std::mem::take(&mut run.taken);
    drop(run);
    if traits.analyzes {
        host.sql().taken = taken;
    }
    let reply = match (failure, result) {
        (Some(failure), _) => Err(failure),
        (None, Err(error)) => Err(error.into()),
        (None, Ok(_)) if let Some((returning, returned)) = returning.zip(returned) => {
            let rows = || returning.reply(host, params, &returned).map(Reply::Array);
            memory::limited(limits::SQL_MEMORY_BYTES_MAX, rows)
        }
        (None, Ok(_)) if let Some(sink) = sink => {
            sink.take(host, params, collected).map(|count| Reply::Int(count as i64)).map_err(Failure::from)
        }
        (None, Ok(rows)) if names.is_empty() => {
            debug_assert!(rows.is_empty());
            Ok(Reply::Int(changed as i64))
        }
        (None, Ok(rows)) => Ok(Reply::Array(rows)),
    };
    host.sql().running -= 1;
    if is_outermost {
        host.statement_ends();
    }
    reply
}

/// Writes the rows of an UPDATE that had to wait for each other.
#[cold]
fn write_deferred(run: &mut Run<'_>, table: TableId) {
    let info = run.host.sql().info(table).cloned();
    let result = info.map_or(Ok(()), |info| write::finish(run, &info));
    run.failure = run.failure.take().or(result.err());
}

/// Steps a statement to its end: the names of its columns, then its rows.
fn step(
    connection: &Connection,
    prepared: &mut Prepared,
    names: &[Blob],
    params: &[DatumRef<'_>],
) -> Result<Vec<Reply>> {
    for (i, value) in params.iter().enumerate() {
        prepared.bind(i + 1, *value)?;
    }
    let mut rows = Vec::new();
    if !names.is_empty() {
        rows.push(Reply::Array(names.iter().cloned().map(Reply::Bulk).collect()));
    }
    let mut bytes = 0;
    loop {
        match prepared.step() {
            Step::Done => return Ok(rows),
            Step::Failed(code) => return Err(connection.error(code, "")),
            Step::Row => {
                rows.push(row(prepared, names.len(), &mut bytes)?);
                check_result_size(bytes)?;
            }
        }
    }
}

/// The row on which a statement stands; its size is added to `bytes`.
#[inline]
pub fn row(prepared: &mut Prepared, columns: usize, bytes: &mut usize) -> Result<Reply> {
    let mut row = Vec::with_capacity(columns);
    for column in 0..columns {
        let value = prepared.column(column);
        *bytes += size_of::<Reply>() + length(value);
        row.push(match value {
            // Rows hold UTF-8 only, but an expression can make a text of any bytes.
            DatumRef::Text(text) if std::str::from_utf8(text).is_err() => Reply::bulk(text),
            value => reply(value),
        });
    }
    Ok(Reply::Array(row))
}

/// An error when a result has too many bytes.
#[inline]
pub fn check_result_size(bytes: usize) -> Result<()> {
    if bytes > limits::SQL_RESULT_BYTES_MAX {
        let text = format!("the result is larger than {} bytes: use LIMIT", limits::SQL_RESULT_BYTES_MAX);
        return Err(Error::new(Code::Limit, text));
    }
    Ok(())
}

/// The steps of an EXPLAIN QUERY PLAN: id, id of the step it belongs to, text.
pub fn explain_steps(
    host: &mut dyn Host,
    statement: &mut Statement,
    params: &[DatumRef<'_>],
) -> Result<Vec<(i64, i64, String)>> {
    // The plan does not depend on the values, so they need not be given.
    let nulls = vec![DatumRef::Null; statement.parameters];
    let params = if params.len() == nulls.len() { params } else { &nulls };
    let reply = run::until_ready(host, |host| run_once(host, statement, params, false))?;
    let Reply::Array(rows) = reply else { return Ok(Vec::new()) };
    let step = |row: Reply| match row {
        Reply::Array(columns) => match &columns[..] {
            [Reply::Int(id), Reply::Int(parent), _, Reply::Verbatim(_, detail)] => {
                Some((*id, *parent, String::from_utf8_lossy(detail).into_owned()))
            }
            _ => None,
        },
        _ => None,
    };
    Ok(rows.into_iter().filter_map(step).collect())
}

/// Compiles and runs a statement once, with its steps counted; where it has clauses of ours, it is only run.
pub fn run_analysed(host: &mut dyn Host, text: &str, traits: Traits, params: &[DatumRef<'_>]) -> Result<Reply> {
    let (_, tokens) = statement::classify(text)?;
    let mut statement = match dml::compile(host, text, &tokens)? {
        Some(statement) => statement,
        None => prepare(host, text, traits)?,
    };
    if statement.parameters != params.len() {
        return Err(wrong_count(statement.parameters, params.len()));
    }
    run::until_ready(host, |host| {
        let outcome = run_once(host, &mut statement, params, false);
        if outcome.is_err() {
            statement.prepared.reset();
        }
        outcome
    })
}

fn length(value: DatumRef<'_>) -> usize {
    match value {
        DatumRef::Text(bytes) | DatumRef::Blob(bytes) => bytes.len(),
        _ => 0,
    }
}

/// A value as a reply.
#[inline]
pub fn reply(value: DatumRef<'_>) -> Reply {
    match value {
        DatumRef::Null => Reply::Nil,
        DatumRef::Int(i) => Reply::Int(i),
        DatumRef::Real(r) => Reply::Double(r),
        DatumRef::Text(bytes) => Reply::Verbatim(*b"txt", Blob::from_slice(bytes)),
        DatumRef::Blob(bytes) => Reply::Bulk(Blob::from_slice(bytes)),
    }
}
