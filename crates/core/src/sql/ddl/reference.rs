//! REFERENCES: the other table, and what happens to referring rows when a row of it goes.

use super::parser::Parser;
use crate::error::Result;
use crate::sql::error::not_yet;
use crate::table::catalog::{Action, ForeignKey};

impl Parser<'_> {
    /// `REFERENCES parent [(columns)] [ON DELETE action] [ON UPDATE action] ...`
    pub(super) fn references(&mut self, name: Option<String>, columns: Vec<String>) -> Result<ForeignKey> {
        self.word("REFERENCES")?;
        let parent = self.name("a table's name")?;
        let parent_columns = if self.is_symbol("(") { self.names("a column's name")? } else { Vec::new() };
        let mut key = ForeignKey {
            name,
            columns,
            parent,
            parent_columns,
            on_delete: Action::NoAction,
            on_update: Action::NoAction,
        };
        while self.reference_option(&mut key)? {}
        Ok(key)
    }

    fn reference_option(&mut self, key: &mut ForeignKey) -> Result<bool> {
        if self.is("ON") && self.ahead_is(1, "DELETE") {
            self.at += 2;
            key.on_delete = self.action()?;
        } else if self.is("ON") && self.ahead_is(1, "UPDATE") {
            self.at += 2;
            key.on_update = self.action()?;
        } else if self.take("MATCH") {
            if self.is("FULL") || self.is("PARTIAL") {
                return Err(not_yet("MATCH other than SIMPLE"));
            }
            self.word("SIMPLE")?;
        } else if self.is("NOT") && self.ahead_is(1, "DEFERRABLE") {
            self.at += 2;
            self.deferral()?;
        } else if self.take("DEFERRABLE") {
            self.deferral()?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn deferral(&mut self) -> Result<()> {
        if self.take("INITIALLY") {
            if self.is("DEFERRED") {
                return Err(not_yet("INITIALLY DEFERRED (foreign keys are checked at the end of each statement)"));
            }
            self.word("IMMEDIATE")?;
        }
        Ok(())
    }

    fn action(&mut self) -> Result<Action> {
        if self.take("CASCADE") {
            return Ok(Action::Cascade);
        }
        if self.take("RESTRICT") {
            return Ok(Action::Restrict);
        }
        if self.take("NO") {
            self.word("ACTION")?;
            return Ok(Action::NoAction);
        }
        if self.take("SET") {
            if self.take("NULL") {
                return Ok(Action::SetNull);
            }
            if self.take("DEFAULT") {
                return Ok(Action::SetDefault);
            }
            return Err(self.expected("NULL or DEFAULT"));
        }
        Err(self.expected("NO ACTION, RESTRICT, CASCADE, SET NULL or SET DEFAULT"))
    }
}
