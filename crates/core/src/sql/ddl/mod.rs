//! Our own statements about tables, indexes, views, triggers and schedules, read by recursive descent.
//!
//! The grammar is small and closed, takes MySQL's and SQLite's words where they have a meaning here, and refuses by name
//! what is planned. Expressions inside it (DEFAULT, CHECK, generated columns, indexes) are kept as text: SQLite judges
//! them when the definition is made.

mod alter;
mod column;
mod create_table;
mod expression;
mod index;
mod others;
mod parser;
mod reference;
mod schedule;
#[cfg(test)]
mod tests;
mod trigger;

pub use alter::{AddColumn, AlterTable, Change, ConstraintKind, DropConstraint, NewType, Place};
pub use column::Column;
pub use create_table::{BoundOptions, CreateTable};
pub(super) use index::bare;
pub use index::{CreateIndex, Key, KeyKind, KeyOn, KeyPart};
pub use others::{CreateView, Drop, Rename};
pub use schedule::CreateSchedule;
pub use trigger::{CreateTrigger, On};

use super::token::Tokens;
use crate::error::Result;
use parser::Parser;

/// One of our statements.
#[derive(Clone, Debug, PartialEq)]
pub enum Ddl {
    /// CREATE TABLE.
    CreateTable(CreateTable),
    /// CREATE INDEX.
    CreateIndex(CreateIndex),
    /// CREATE VIEW.
    CreateView(CreateView),
    /// CREATE TRIGGER.
    CreateTrigger(CreateTrigger),
    /// CREATE SCHEDULE.
    CreateSchedule(CreateSchedule),
    /// DROP TABLE.
    DropTable(Drop),
    /// DROP INDEX.
    DropIndex(Drop),
    /// DROP VIEW.
    DropView(Drop),
    /// DROP TRIGGER.
    DropTrigger(Drop),
    /// DROP SCHEDULE.
    DropSchedule(Drop),
    /// ALTER TABLE .. RENAME TO, RENAME TABLE.
    Rename(Vec<Rename>),
    /// ALTER TABLE of anything but its name.
    Alter(AlterTable),
    /// SHOW TABLES.
    ShowTables,
    /// SHOW VIEWS.
    ShowViews,
    /// SHOW TRIGGERS [FROM t].
    ShowTriggers(Option<String>),
    /// SHOW SCHEDULES.
    ShowSchedules,
    /// SHOW CREATE TRIGGER.
    ShowCreateTrigger(String),
    /// SHOW CREATE SCHEDULE.
    ShowCreateSchedule(String),
    /// DESCRIBE t, SHOW COLUMNS FROM t.
    Describe(String),
    /// SHOW CREATE TABLE t, SHOW CREATE VIEW t.
    ShowCreate(String),
    /// SHOW INDEXES FROM t.
    ShowIndexes(String),
}

/// Reads one of our statements; the text must have been classified as one.
pub fn parse(text: &str) -> Result<Ddl> {
    let mut parser = Parser::new(text, Tokens::all(text)?);
    let statement = parser.statement()?;
    while parser.take_symbol(";") {}
    match parser.peek() {
        None => Ok(statement),
        Some(_) => Err(parser.expected("the end of the statement")),
    }
}

impl Parser<'_> {
    fn statement(&mut self) -> Result<Ddl> {
        if self.take("CREATE") {
            return self.create();
        }
        if self.take("DROP") {
            return self.drop();
        }
        if self.take("SHOW") {
            return self.show();
        }
        if self.take("ALTER") {
            return self.alter();
        }
        if self.take("RENAME") {
            return self.rename_tables();
        }
        if self.take("DESCRIBE") || self.take("DESC") {
            return Ok(Ddl::Describe(self.name("a table's name")?));
        }
        Err(self.expected("CREATE, DROP, ALTER, RENAME, SHOW or DESCRIBE"))
    }

    fn create(&mut self) -> Result<Ddl> {
        if self.take("TABLE") {
            return self.create_table();
        }
        // A view has no rows that would have to go with the session; one made for a while is dropped by who made it.
        if (self.is("TEMP") || self.is("TEMPORARY")) && self.ahead_is(1, "VIEW") {
            self.take("TEMP");
            self.take("TEMPORARY");
        }
        if self.is("VIEW") || (self.is("OR") && self.ahead_is(1, "REPLACE") && self.ahead_is(2, "VIEW")) {
            return self.create_view();
        }
        if self.take("TRIGGER") {
            return self.create_trigger();
        }
        if self.take("SCHEDULE") {
            return self.create_schedule();
        }
        let unique = self.take("UNIQUE");
        if self.take("INDEX") {
            return self.create_index(unique);
        }
        for word in ["TEMP", "TEMPORARY", "VIRTUAL"] {
            if !unique && self.is(word) {
                return Err(super::error::not_yet(format!("CREATE {word}")));
            }
        }
        Err(self.expected(if unique { "INDEX" } else { "TABLE, VIEW, INDEX, UNIQUE INDEX, TRIGGER or SCHEDULE" }))
    }
}
