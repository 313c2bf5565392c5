//! CREATE VIEW, DROP, RENAME, SHOW.

use super::Ddl;
use super::parser::Parser;
use crate::error::Result;
use crate::sql::error::not_yet;

/// `CREATE VIEW [IF NOT EXISTS] name [(columns)] AS query`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    /// The view's name.
    pub name: String,
    /// An existing view of the name is no error.
    pub if_not_exists: bool,
    /// An existing view of the name is replaced.
    pub or_replace: bool,
    /// Names of its columns; empty: those of the query.
    pub columns: Vec<String>,
    /// The query.
    pub query: String,
}

/// DROP TABLE, DROP INDEX, DROP VIEW, DROP TRIGGER or DROP SCHEDULE.
#[derive(Clone, Debug, PartialEq)]
pub struct Drop {
    /// What to drop.
    pub names: Vec<String>,
    /// A missing one is no error.
    pub if_exists: bool,
    /// The table that MySQL names with an index.
    pub table: Option<String>,
}

/// A table's new name.
#[derive(Clone, Debug, PartialEq)]
pub struct Rename {
    /// What it is called.
    pub from: String,
    /// What it is to be called.
    pub to: String,
}

impl Parser<'_> {
    /// What follows CREATE: `[OR REPLACE] VIEW ..`
    pub(super) fn create_view(&mut self) -> Result<Ddl> {
        let or_replace = self.take("OR") && self.take("REPLACE");
        self.word("VIEW")?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.name("a view's name")?;
        let columns = if self.is_symbol("(") { self.names("a column's name")? } else { Vec::new() };
        self.word("AS")?;
        let query = self.query()?;
        Ok(Ddl::CreateView(CreateView { name, if_not_exists, or_replace, columns, query }))
    }

    pub(super) fn drop(&mut self) -> Result<Ddl> {
        let (make, what): (fn(Drop) -> Ddl, _) = match () {
            () if self.take("TABLE") => (Ddl::DropTable, "a table's name"),
            () if self.take("INDEX") => (Ddl::DropIndex, "an index's name"),
            () if self.take("VIEW") => (Ddl::DropView, "a view's name"),
            () if self.take("TRIGGER") => (Ddl::DropTrigger, "a trigger's name"),
            () if self.take("SCHEDULE") => (Ddl::DropSchedule, "a schedule's name"),
            () => return Err(self.expected("TABLE, INDEX, VIEW, TRIGGER or SCHEDULE")),
        };
        let if_exists = self.if_exists()?;
        let mut drop = Drop { names: vec![self.name(what)?], if_exists, table: None };
        if what == "an index's name" {
            if self.take("ON") {
                drop.table = Some(self.name("a table's name")?);
            }
            return Ok(make(drop));
        }
        while self.take_symbol(",") {
            drop.names.push(self.name(what)?);
        }
        if self.is("CASCADE") {
            return Err(not_yet("DROP .. CASCADE"));
        }
        self.take("RESTRICT");
        Ok(make(drop))
    }

    /// `RENAME TABLE a TO b, c TO d`
    pub(super) fn rename_tables(&mut self) -> Result<Ddl> {
        self.word("TABLE")?;
        let mut renames = Vec::new();
        loop {
            let from = self.name("a table's name")?;
            self.word("TO")?;
            renames.push(Rename { from, to: self.name("a table's name")? });
            if !self.take_symbol(",") {
                return Ok(Ddl::Rename(renames));
            }
        }
    }

    pub(super) fn show(&mut self) -> Result<Ddl> {
        if self.take("TABLES") {
            return Ok(Ddl::ShowTables);
        }
        if self.take("VIEWS") {
            return Ok(Ddl::ShowViews);
        }
        if self.take("TRIGGERS") {
            let named = self.take("FROM") || self.take("IN");
            return Ok(Ddl::ShowTriggers(if named { Some(self.name("a table's name")?) } else { None }));
        }
        if self.take("SCHEDULES") {
            return Ok(Ddl::ShowSchedules);
        }
        if self.take("CREATE") {
            if self.take("TRIGGER") {
                return Ok(Ddl::ShowCreateTrigger(self.name("a trigger's name")?));
            }
            if self.take("SCHEDULE") {
                return Ok(Ddl::ShowCreateSchedule(self.name("a schedule's name")?));
            }
            if !self.take("VIEW") {
                self.word("TABLE")?;
            }
            return Ok(Ddl::ShowCreate(self.name("a table's name")?));
        }
        let columns = self.take("COLUMNS") || self.take("FIELDS");
        if columns || self.take("INDEXES") || self.take("INDEX") || self.take("KEYS") {
            if !self.take("IN") {
                self.word("FROM")?;
            }
            let name = self.name("a table's name")?;
            return Ok(if columns { Ddl::Describe(name) } else { Ddl::ShowIndexes(name) });
        }
        Err(self.expected("TABLES, VIEWS, TRIGGERS, SCHEDULES, CREATE TABLE, COLUMNS or INDEXES"))
    }
}
