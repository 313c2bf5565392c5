//! Tests of SQL as a whole: a store of tables without a server, and plain SQLite as the oracle.

mod alter;
mod bounded_tables;
mod bounds;
mod constraints;
mod definitions;
mod dml;
mod effects;
mod expression_indexes;
mod foreign_keys;
mod groups;
mod joins;
mod mishaps;
mod oracle;
mod plans;
mod statements;
mod transactions;
mod triggers;

use super::Sql;
use super::control::Control;
use super::executor::execute;
use super::run::{Fired, Firing, Host, Portion, Shape, number_after};
use crate::engine::{Engine, Memory, Source, Wanted};
use crate::error::Result;
use crate::keyspace::Wants;
use crate::reply::Reply;
use crate::table::catalog::{Catalog, TableId};
use crate::table::datum::{Datum, DatumRef};
use crate::txn::{TableChanges, Tables, Transaction};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// A routine in the place of one of Lua.
pub type Routine = dyn Fn(&mut TestStore, &Firing<'_>) -> Result<Fired>;

/// Tables and their SQL, without a keyspace.
pub struct TestStore {
    pub tables: Tables,
    pub sql: Sql,
    pub changes: TableChanges,
    /// The transaction that BEGIN opened.
    pub transaction: Option<Transaction>,
    /// Rows of the value that every key has.
    pub value: Vec<Vec<Datum>>,
    /// What the routines of triggers do.
    pub routines: HashMap<String, Rc<Routine>>,
    clock_ns: u64,
    pub deadline_ns: Option<u64>,
}

impl TestStore {
    pub fn new() -> TestStore {
        TestStore::on(Box::new(Memory::new()))
    }

    /// A store whose tables are in `engine`.
    pub fn on(engine: Box<dyn Engine>) -> TestStore {
        TestStore {
            tables: Tables::new(engine),
            sql: Sql::default(),
            changes: TableChanges::new(Wants::REDO),
            transaction: None,
            value: Vec::new(),
            routines: HashMap::new(),
            clock_ns: 0,
            deadline_ns: None,
        }
    }

    /// A store on which statements were run.
    pub fn with(statements: &[&str]) -> TestStore {
        let mut store = TestStore::new();
        statements.iter().for_each(|statement| {
            store.run(statement);
        });
        store
    }

    pub fn try_run(&mut self, text: &str, params: &[Datum]) -> Result<Reply> {
        let params: Vec<DatumRef<'_>> = params.iter().map(Datum::as_ref).collect();
        execute(self, text.as_bytes(), &params).map(Reply::plain)
    }

    /// Runs a statement that must succeed.
    pub fn run(&mut self, text: &str) -> Reply {
        self.try_run(text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// Runs a query and gives its rows.
    pub fn rows(&mut self, text: &str, params: &[Datum]) -> Vec<Vec<Datum>> {
        let reply = self.try_run(text, params).unwrap_or_else(|error| panic!("{text}: {error}"));
        rows_of(reply)
    }

    /// The message of a statement's error.
    pub fn error(&mut self, text: &str) -> String {
        match self.try_run(text, &[]) {
            Err(error) => error.to_string(),
            Ok(reply) => panic!("{text}: {reply:?}"),
        }
    }

    /// The plan of a statement, a line each step.
    pub fn plan(&mut self, text: &str) -> String {
        let rows = self.rows(&format!("EXPLAIN {text}"), &[]);
        let lines: Vec<String> = rows.iter().map(|row| text_of(&row[0])).collect();
        lines.join("\n")
    }

    /// The number of rows of a table.
    pub fn count(&mut self, table: &str) -> i64 {
        match &self.rows(&format!("SELECT count(*) FROM {table}"), &[])[0][0] {
            Datum::Int(n) => *n,
            other => panic!("{other:?}"),
        }
    }
}

pub fn text_of(value: &Datum) -> String {
    match value {
        Datum::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => other.as_ref().to_string(),
    }
}

/// The rows of a reply, without the names.
pub fn rows_of(reply: Reply) -> Vec<Vec<Datum>> {
    let value = |reply: Reply| match reply {
        Reply::Nil => Datum::Null,
        Reply::Int(i) => Datum::Int(i),
        Reply::Double(r) => Datum::Real(r),
        Reply::Verbatim(_, text) => Datum::text(std::str::from_utf8(&text).unwrap()),
        Reply::Bulk(bytes) => Datum::blob(bytes),
        other => panic!("{other:?}"),
    };
    let Reply::Array(rows) = reply else { panic!("no rows: {reply:?}") };
    let row = |row: Reply| match row {
        Reply::Array(row) => row.into_iter().map(value).collect(),
        other => panic!("{other:?}"),
    };
    rows.into_iter().skip(1).map(row).collect()
}

impl Host for TestStore {
    fn sql(&mut self) -> &mut Sql {
        &mut self.sql
    }
    fn catalog(&self) -> &Catalog {
        &self.tables.catalog
    }
    fn source(&self) -> &dyn Source {
        self.transaction.as_ref().map_or(&self.tables, |transaction| &transaction.tables).source()
    }
    fn write(&mut self) -> Result<(&mut Tables, &mut TableChanges)> {
        Ok(match &mut self.transaction {
            None => (&mut self.tables, &mut self.changes),
            Some(transaction) => (&mut transaction.tables, &mut transaction.changes),
        })
    }
    fn next_number(&mut self, table: TableId, at_least: i64) -> Result<i64> {
        match &self.transaction {
            None => number_after(self.tables.engine().sequence(table)?.max(at_least)),
            Some(transaction) => transaction.next_number(&mut self.tables, table, at_least, &mut self.changes),
        }
    }
    fn control(&mut self, control: &Control) -> Result<Reply> {
        transactions::control(self, control).map(|()| Reply::Int(0))
    }
    fn fetch(&mut self, wanted: &Wanted) -> Result<()> {
        let fetched = self.tables.engine().fetch(wanted)()?;
        self.tables.engine_mut().admit(fetched);
        Ok(())
    }
    fn fire(&mut self, firing: &Firing<'_>) -> Result<Fired> {
        let routine = self.routines.get(&firing.trigger.routine).cloned().expect("a routine of the test");
        routine(self, firing)
    }
    fn table_memory(&self, table: crate::table::catalog::TableId) -> Option<crate::engine::TableMemory> {
        self.tables.engine().memory(table).ok()
    }
    fn deadline_ns(&mut self) -> Option<u64> {
        self.deadline_ns
    }
    fn now_us(&self) -> i64 {
        1_767_225_600_000_000
    }
    fn monotonic_ns(&mut self) -> u64 {
        self.clock_ns += 1;
        self.clock_ns
    }
    fn read_key(&mut self, _: &[u8], _: Shape, _: Portion<'_>, each: &mut dyn FnMut(&[Datum])) -> Result<()> {
        self.value.iter().for_each(|row| each(row));
        Ok(())
    }
    fn ranks(&mut self, _: &[u8], _: Option<f64>, _: Option<f64>) -> Result<Range<usize>> {
        Ok(0..self.value.len())
    }
    fn find_key(&mut self, _: &[u8], _: &mut dyn FnMut(&[Datum])) -> Result<()> {
        Ok(())
    }
    fn scan_keys(&mut self, cursor: u64, _: &[u8], _: bool, each: &mut dyn FnMut(&[Datum])) -> Result<u64> {
        let key = Datum::text(format!("k{cursor}"));
        each(&[key, Datum::text("string"), Datum::Null, Datum::Int(1), Datum::text("int")]);
        Ok((cursor + 1) % 3)
    }
    fn store_key(&mut self, _: &[u8], _: Shape, elements: &[Vec<Datum>]) -> Result<usize> {
        self.value = elements.to_vec();
        Ok(elements.len())
    }
    fn delete_keys(&mut self, keys: &[Vec<u8>]) -> Result<u64> {
        Ok(keys.len() as u64)
    }
}
