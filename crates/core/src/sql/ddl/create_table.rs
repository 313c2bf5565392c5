//! CREATE TABLE: columns, constraints of the table, options.

use super::Ddl;
use super::column::Column;
use super::index::{Key, KeyKind};
use super::parser::Parser;
use crate::error::Result;
use crate::sql::error::not_yet;
use crate::sql::token::Kind;
use crate::table::catalog::{CheckDef, Evict, ForeignKey};

/// `CREATE TABLE [IF NOT EXISTS] name (...) options`, or `.. AS SELECT`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreateTable {
    /// The table's name.
    pub name: String,
    /// An existing table of the name is no error.
    pub if_not_exists: bool,
    /// The columns, in order.
    pub columns: Vec<Column>,
    /// Keys written apart from the columns or with them, in order.
    pub keys: Vec<Key>,
    /// CHECK, of columns and of the table.
    pub checks: Vec<CheckDef>,
    /// REFERENCES, of columns and of the table.
    pub foreign_keys: Vec<ForeignKey>,
    /// ENGINE=..., as written.
    pub engine: Option<String>,
    /// WITH (max_rows = ..).
    pub bound: BoundOptions,
    /// AS SELECT: the query.
    pub query: Option<String>,
}

/// `(max_rows = number | NONE, evict = lru | fifo | NONE)`: what is said of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BoundOptions {
    /// Most rows; `Some(None)`: as many as there are.
    pub max_rows: Option<Option<u64>>,
    /// Which row goes then.
    pub evict: Option<Evict>,
}

impl Parser<'_> {
    pub(super) fn create_table(&mut self) -> Result<Ddl> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name("a table's name")?;
        let mut table = CreateTable { name, if_not_exists, ..CreateTable::default() };
        if self.is("LIKE") {
            return Err(not_yet("CREATE TABLE .. LIKE"));
        }
        let has_columns = self.is_symbol("(");
        if has_columns {
            self.elements(&mut table)?;
        }
        self.table_options(&mut table)?;
        if self.is("AS") || ["SELECT", "WITH", "VALUES"].iter().any(|word| self.is(word)) {
            if has_columns {
                return Err(not_yet("CREATE TABLE .. AS SELECT with columns of its own"));
            }
            self.take("AS");
            table.query = Some(self.query()?);
        } else if !has_columns {
            return Err(self.expected("'(' and the columns, or AS and a query"));
        }
        Ok(Ddl::CreateTable(table))
    }

    /// The query that the rest of the statement is.
    pub(super) fn query(&mut self) -> Result<String> {
        if !["SELECT", "WITH", "VALUES"].iter().any(|word| self.is(word)) {
            return Err(self.expected("SELECT, WITH or VALUES"));
        }
        let start = self.at;
        while self.peek().is_some_and(|t| !t.is_symbol(";")) {
            self.at += 1;
        }
        Ok(self.text_from(start))
    }

    fn elements(&mut self, table: &mut CreateTable) -> Result<()> {
        self.symbol("(", "'(' and the columns")?;
        loop {
            if self.begins_table_constraint() {
                self.table_constraint(table)?;
            } else {
                self.column(table)?;
            }
            if !self.take_symbol(",") {
                break;
            }
        }
        self.symbol(")", "',' or ')'")
    }

    pub(super) fn begins_table_constraint(&self) -> bool {
        let opens = |n: usize| self.ahead_is_symbol(n, "(");
        // PRIMARY and KEY may also name a column; what follows tells.
        let keyed = ["UNIQUE", "KEY", "INDEX"].iter().any(|w| self.is(w));
        let goes_on = |n: usize| opens(n) || self.ahead_is(n, "USING");
        self.is("CONSTRAINT")
            || (self.is("PRIMARY") && self.ahead_is(1, "KEY"))
            || (keyed && (goes_on(1) || goes_on(2) || self.ahead_is(1, "KEY") || self.ahead_is(1, "INDEX")))
            || (self.is("CHECK") && opens(1))
            || (self.is("FOREIGN") && self.ahead_is(1, "KEY"))
    }

    pub(super) fn table_constraint(&mut self, table: &mut CreateTable) -> Result<()> {
        let mut name = None;
        let begins = |parser: &Self| ["PRIMARY", "UNIQUE", "CHECK", "FOREIGN"].iter().any(|word| parser.is(word));
        if self.take("CONSTRAINT") && !begins(self) {
            name = Some(self.name("a constraint's name")?);
        }
        if self.take("CHECK") {
            table.checks.push(self.check(name)?);
            return Ok(());
        }
        if self.take("FOREIGN") {
            self.word("KEY")?;
            if !self.is_symbol("(") {
                // MySQL's name of an index that it would make.
                name = Some(self.name("a name or '('")?).filter(|_| name.is_none()).or(name);
            }
            let columns = self.names("a column's name")?;
            let key = self.references(name, columns)?;
            table.foreign_keys.push(key);
            return Ok(());
        }
        self.table_key(table, name)
    }

    fn table_key(&mut self, table: &mut CreateTable, mut name: Option<String>) -> Result<()> {
        let kind = if self.take("PRIMARY") {
            self.word("KEY")?;
            KeyKind::Primary
        } else if self.take("UNIQUE") {
            let _ = self.take("KEY") || self.take("INDEX");
            KeyKind::Unique
        } else if self.take("KEY") || self.take("INDEX") {
            KeyKind::Plain
        } else {
            return Err(self.expected("PRIMARY KEY, UNIQUE, KEY, CHECK or FOREIGN KEY"));
        };
        if !self.is("USING") && !self.is_symbol("(") {
            name = Some(self.name("an index's name or '('")?);
        }
        let before = self.using()?;
        let (parts, autoincrement) = self.key_parts(kind == KeyKind::Primary)?;
        if let Some(name) = autoincrement {
            let column = table.columns.iter_mut().find(|c| c.name.eq_ignore_ascii_case(&name));
            column.into_iter().for_each(|c| c.autoincrement = true);
        }
        let method = self.using()?.or(before);
        if self.take("COMMENT") {
            self.string("a comment in quotes")?;
        }
        self.on_conflict()?;
        table.keys.push(Key { kind, name, parts, method, filter: None });
        Ok(())
    }

    /// ENGINE=.., STORAGE MEMORY and what else MySQL and SQLite write after the columns.
    fn table_options(&mut self, table: &mut CreateTable) -> Result<()> {
        loop {
            if self.take("ENGINE") {
                self.take_symbol("=");
                table.engine = Some(self.name("an engine's name")?);
            } else if self.take("STORAGE") {
                self.storage()?;
            } else if self.is("WITH") && self.ahead_is_symbol(1, "(") {
                self.word("WITH")?;
                table.bound = self.bound_options()?;
            } else if self.take("STRICT") {
                // Every table is.
            } else if self.take("WITHOUT") {
                self.word("ROWID")?;
            } else if self.take("COMMENT")
                || self.take("CHARSET")
                || self.take("COLLATE")
                || self.take("AUTO_INCREMENT")
                || self.take("ROW_FORMAT")
            {
                self.option_value()?;
            } else if self.take("DEFAULT") || self.take("CHARACTER") {
                let _ = self.take("CHARACTER");
                let _ = self.take("SET") || self.take("CHARSET") || self.take("COLLATE");
                self.option_value()?;
            } else if self.is("TABLESPACE") || self.is("PARTITION") {
                let word = self.peek().map_or("", |t| t.text);
                return Err(not_yet(word));
            } else if !self.take_symbol(",") {
                return Ok(());
            }
        }
    }

    /// The bound of a table, in parentheses.
    pub(super) fn bound_options(&mut self) -> Result<BoundOptions> {
        let mut options = BoundOptions::default();
        self.symbol("(", "'(' and max_rows")?;
        loop {
            if self.take("max_rows") {
                self.take_symbol("=");
                options.max_rows =
                    Some(if self.take("NONE") { None } else { Some(self.positive("a number of rows")?) });
            } else if self.take("evict") {
                self.take_symbol("=");
                options.evict = Some(match () {
                    () if self.take("lru") => Evict::Lru,
                    () if self.take("fifo") => Evict::Fifo,
                    () if self.take("NONE") => Evict::Refuse,
                    () => return Err(self.expected("lru, fifo or none")),
                });
            } else {
                return Err(self.expected("max_rows or evict"));
            }
            if !self.take_symbol(",") {
                break;
            }
        }
        self.symbol(")", "',' or ')'")?;
        Ok(options)
    }

    fn positive(&mut self, what: &str) -> Result<u64> {
        let number = self.peek().filter(|t| t.kind == Kind::Integer).and_then(|t| t.text.parse::<u64>().ok());
        match number {
            Some(number) if number > 0 => {
                self.at += 1;
                Ok(number)
            }
            _ => Err(self.expected(what)),
        }
    }

    fn option_value(&mut self) -> Result<()> {
        self.take_symbol("=");
        match self.peek() {
            Some(token) if token.kind != Kind::Symbol => self.at += 1,
            _ => return Err(self.expected("a value")),
        }
        Ok(())
    }

    pub(super) fn storage(&mut self) -> Result<()> {
        if self.take("MEMORY") || self.take("DEFAULT") {
            return Ok(());
        }
        if self.is("DISK") {
            return Err(not_yet("STORAGE DISK"));
        }
        Err(self.expected("MEMORY or DISK"))
    }
}
