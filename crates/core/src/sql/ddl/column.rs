//! One column of CREATE TABLE: its type and what is demanded of it.

use super::create_table::CreateTable;
use super::index::{Key, KeyKind, KeyPart};
use super::parser::Parser;
use crate::error::Result;
use crate::sql::error::{not_yet, syntax};
use crate::sql::token::{Kind, Token};
use crate::table::catalog::CheckDef;
use crate::table::types::{Collation, ColumnType};

/// One column of CREATE TABLE.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type as written; `ANY` when none is.
    pub declared: String,
    /// COLLATE.
    pub collation: Option<Collation>,
    /// NOT NULL.
    pub not_null: bool,
    /// AUTO_INCREMENT or AUTOINCREMENT.
    pub autoincrement: bool,
    /// DEFAULT, as SQL text.
    pub default: Option<String>,
    /// GENERATED ALWAYS AS, as SQL text.
    pub generated: Option<String>,
}

/// Words by which a column's type ends and its constraints begin.
const CONSTRAINT_WORDS: [&str; 20] = [
    "ON",
    "CONSTRAINT",
    "PRIMARY",
    "UNIQUE",
    "NOT",
    "NULL",
    "DEFAULT",
    "COLLATE",
    "CHECK",
    "REFERENCES",
    "GENERATED",
    "AS",
    "AUTO_INCREMENT",
    "AUTOINCREMENT",
    "STORAGE",
    "COMMENT",
    "KEY",
    "FIRST",
    "AFTER",
    "USING",
];

impl Parser<'_> {
    pub(super) fn column(&mut self, table: &mut CreateTable) -> Result<()> {
        let name = self.name("a column's name")?;
        let declared = self.column_type()?;
        let mut column = Column {
            name,
            declared,
            collation: None,
            not_null: false,
            autoincrement: false,
            default: None,
            generated: None,
        };
        while self.column_constraint(&mut column, table)? {}
        table.columns.push(column);
        Ok(())
    }

    /// A type: words up to a constraint, and at most two numbers in parentheses.
    pub(super) fn column_type(&mut self) -> Result<String> {
        let start = self.at;
        while let Some(token) = self.peek()
            && matches!(token.kind, Kind::Word | Kind::Quoted)
            && !CONSTRAINT_WORDS.iter().any(|word| token.is_word(word))
        {
            self.at += 1;
        }
        if self.at == start {
            return Ok("ANY".into());
        }
        let words: Vec<_> = self.tokens[start..self.at].iter().filter_map(Token::name).collect();
        let mut declared = words.join(" ");
        if self.take_symbol("(") {
            let open = self.at;
            while self.peek().is_some_and(|t| t.kind == Kind::Integer || t.is_symbol(",")) {
                self.at += 1;
            }
            let numbers: String = self.tokens[open..self.at].iter().map(|t| t.text).collect();
            self.symbol(")", "a number or ')'")?;
            declared += &format!("({numbers})");
        }
        if ColumnType::parse(&declared).is_none() {
            let at = self.tokens[start].start;
            return Err(syntax(self.text, at, format!("unknown column type {declared}")));
        }
        Ok(declared)
    }

    /// One constraint of a column; false when there is none here.
    fn column_constraint(&mut self, column: &mut Column, table: &mut CreateTable) -> Result<bool> {
        let mut name = None;
        if self.take("CONSTRAINT") && !self.is("CHECK") {
            name = Some(self.name("a constraint's name")?);
        }
        if self.take("NOT") {
            self.word("NULL")?;
            column.not_null = true;
            self.on_conflict()?;
        } else if self.take("NULL") {
            column.not_null = false;
        } else if self.take("DEFAULT") {
            column.default = Some(self.default_value()?);
        } else if self.take("COLLATE") {
            column.collation = Some(self.collation()?);
        } else if self.take("AUTO_INCREMENT") || self.take("AUTOINCREMENT") {
            column.autoincrement = true;
        } else if self.is("GENERATED") || self.is("AS") {
            column.generated = Some(self.generated()?);
        } else if self.take("CHECK") {
            table.checks.push(self.check(name)?);
        } else if self.is("REFERENCES") {
            let key = self.references(name, vec![column.name.clone()])?;
            table.foreign_keys.push(key);
        } else {
            return self.column_key_or_option(column, table, name);
        }
        Ok(true)
    }

    fn column_key_or_option(
        &mut self,
        column: &mut Column,
        table: &mut CreateTable,
        name: Option<String>,
    ) -> Result<bool> {
        if self.take("PRIMARY") {
            self.word("KEY")?;
            self.column_key(KeyKind::Primary, column, &mut table.keys)?;
        } else if self.take("UNIQUE") {
            self.take("KEY");
            self.column_key(KeyKind::Unique, column, &mut table.keys)?;
        } else if self.take("KEY") {
            // MySQL: a bare KEY in a column's definition is a primary key.
            self.column_key(KeyKind::Primary, column, &mut table.keys)?;
        } else if self.take("COMMENT") {
            self.string("a comment in quotes")?;
        } else if self.take("STORAGE") {
            self.storage()?;
        } else if self.is("ON") && self.ahead_is(1, "UPDATE") {
            return Err(not_yet("ON UPDATE of a column"));
        } else if name.is_some() {
            return Err(self.expected("a constraint"));
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn column_key(&mut self, kind: KeyKind, column: &mut Column, keys: &mut Vec<Key>) -> Result<()> {
        let desc = self.direction();
        self.on_conflict()?;
        if kind == KeyKind::Primary && (self.take("AUTOINCREMENT") || self.take("AUTO_INCREMENT")) {
            column.autoincrement = true;
        }
        let method = self.using()?;
        let parts = vec![KeyPart::column(&column.name, desc)];
        keys.push(Key { kind, name: None, parts, method, filter: None });
        Ok(())
    }

    /// `[GENERATED ALWAYS] AS (expression) [STORED | VIRTUAL]`; rows keep the value either way.
    fn generated(&mut self) -> Result<String> {
        if self.take("GENERATED") {
            self.word("ALWAYS")?;
        }
        self.word("AS")?;
        let expression = self.expression("a generated column")?;
        let _ = self.take("STORED") || self.take("VIRTUAL");
        Ok(expression)
    }

    /// What follows the word CHECK.
    pub(super) fn check(&mut self, name: Option<String>) -> Result<CheckDef> {
        let expression = self.expression("a CHECK")?;
        if self.is("NOT") && self.ahead_is(1, "ENFORCED") {
            return Err(not_yet("NOT ENFORCED"));
        }
        self.take("ENFORCED");
        self.on_conflict()?;
        Ok(CheckDef { name, expression })
    }

    /// SQLite's clause of a constraint in CREATE TABLE; statements say it themselves (INSERT OR IGNORE).
    pub(super) fn on_conflict(&mut self) -> Result<()> {
        if self.is("ON") && self.ahead_is(1, "CONFLICT") {
            return Err(not_yet("ON CONFLICT in CREATE TABLE"));
        }
        Ok(())
    }
}
