//! CREATE TRIGGER, on rows and on keys.

use super::Ddl;
use super::parser::Parser;
use crate::error::Result;
use crate::sql::error::sql;
use crate::table::trigger::{RowEvent, Timing};

/// `CREATE TRIGGER [IF NOT EXISTS] name .. CALL routine`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTrigger {
    /// The trigger's name.
    pub name: String,
    /// An existing trigger of the name is no error.
    pub if_not_exists: bool,
    /// What fires it.
    pub on: On,
    /// The function that it calls.
    pub routine: String,
}

/// What fires a trigger.
#[derive(Clone, Debug, PartialEq)]
pub enum On {
    /// `{BEFORE | AFTER} {INSERT | UPDATE [OF columns] | DELETE} ON table [FOR EACH ROW] [WHEN (expression)]`
    Rows {
        /// Before or after the row is written.
        timing: Timing,
        /// What is done to it.
        event: RowEvent,
        /// The columns of UPDATE OF.
        columns: Vec<String>,
        /// The table.
        table: String,
        /// The condition.
        condition: Option<String>,
    },
    /// `ON KEYS 'pattern' [FOR 'event', ...]`
    Keys {
        /// The pattern.
        pattern: String,
        /// The events; empty: all.
        events: Vec<String>,
    },
}

impl Parser<'_> {
    /// What follows CREATE TRIGGER.
    pub(super) fn create_trigger(&mut self) -> Result<Ddl> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name("a trigger's name")?;
        let on = if self.take("ON") { self.on_keys()? } else { self.on_rows()? };
        let routine = self.call()?;
        Ok(Ddl::CreateTrigger(CreateTrigger { name, if_not_exists, on, routine }))
    }

    /// `CALL f`, or `CALL f()`.
    pub(super) fn call(&mut self) -> Result<String> {
        if self.is("BEGIN") {
            return Err(sql("a trigger's body is a function of a library: CALL f; see docs/triggers.md"));
        }
        self.word("CALL")?;
        let routine = self.name("a function's name")?;
        if self.take_symbol("(") {
            self.symbol(")", "')': the function gets what happened, and no arguments")?;
        }
        Ok(routine)
    }

    /// The condition before CALL, in parentheses or without.
    fn condition(&mut self) -> Result<String> {
        const WHOSE: &str = "WHEN of a trigger";
        let start = self.at;
        if self.is_symbol("(") {
            self.skip_parentheses()?;
            let is_all = self.is("CALL");
            self.at = start;
            if is_all {
                return self.expression(WHOSE);
            }
        }
        while self.peek().is_some_and(|token| !token.is_word("CALL") && !token.is_symbol(";")) {
            if self.is_symbol("(") { self.skip_parentheses()? } else { self.at += 1 }
        }
        if self.at == start {
            return Err(self.expected("a condition"));
        }
        self.stands_alone(start, WHOSE)?;
        Ok(self.text_from(start))
    }

    fn on_keys(&mut self) -> Result<On> {
        self.word("KEYS")?;
        let pattern = self.text("a pattern of keys, in quotes")?;
        let mut events = Vec::new();
        if self.take("FOR") {
            events.push(self.text("an event, in quotes")?);
            while self.take_symbol(",") {
                events.push(self.text("an event, in quotes")?);
            }
        }
        Ok(On::Keys { pattern, events })
    }

    fn on_rows(&mut self) -> Result<On> {
        let timing = match () {
            () if self.take("BEFORE") => Timing::Before,
            () if self.take("AFTER") => Timing::After,
            () if self.is("INSTEAD") => {
                return Err(sql("there are no INSTEAD OF triggers: a view cannot be written"));
            }
            () => return Err(self.expected("BEFORE, AFTER or ON KEYS")),
        };
        let (mut columns, mut event) = (Vec::new(), RowEvent::Insert);
        match () {
            () if self.take("INSERT") => {}
            () if self.take("DELETE") => event = RowEvent::Delete,
            () if self.take("UPDATE") => {
                event = RowEvent::Update;
                if self.take("OF") {
                    columns.push(self.name("a column's name")?);
                    while self.take_symbol(",") {
                        columns.push(self.name("a column's name")?);
                    }
                }
            }
            () => return Err(self.expected("INSERT, UPDATE or DELETE")),
        }
        self.word("ON")?;
        let table = self.name("a table's name")?;
        if self.take("FOR") {
            self.word("EACH")?;
            if self.is("STATEMENT") {
                return Err(sql("triggers are called for each row: FOR EACH STATEMENT is not supported"));
            }
            self.word("ROW")?;
        }
        let condition = if self.take("WHEN") { Some(self.condition()?) } else { None };
        Ok(On::Rows { timing, event, columns, table, condition })
    }
}
