//! ALTER TABLE: one change or several, separated by commas.

use super::Ddl;
use super::create_table::{BoundOptions, CreateTable};
use super::others::Rename;
use super::parser::Parser;
use crate::error::Result;
use crate::sql::error::not_yet;
use crate::table::types::Collation;

/// `ALTER TABLE [IF EXISTS] name change, ...`
#[derive(Clone, Debug, PartialEq)]
pub struct AlterTable {
    /// The table.
    pub table: String,
    /// A missing table is no error.
    pub if_exists: bool,
    /// What is to change, in order.
    pub changes: Vec<Change>,
}

/// One change of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// ADD COLUMN.
    AddColumn(Box<AddColumn>),
    /// DROP COLUMN: its name, and whether a missing one is no error.
    DropColumn(String, bool),
    /// RENAME COLUMN.
    RenameColumn(Rename),
    /// RENAME TO.
    RenameTo(String),
    /// ALTER COLUMN .. SET DEFAULT, as SQL text; None: DROP DEFAULT.
    Default(String, Option<String>),
    /// ALTER COLUMN .. SET NOT NULL (true), DROP NOT NULL.
    NotNull(String, bool),
    /// ALTER COLUMN .. TYPE.
    Type(NewType),
    /// ADD CHECK, FOREIGN KEY, UNIQUE, KEY: a list of keys, CHECKs and foreign keys with one element.
    AddConstraint(Box<CreateTable>),
    /// DROP CONSTRAINT, CHECK, FOREIGN KEY, INDEX.
    DropConstraint(DropConstraint),
    /// SET (max_rows = ..).
    Bound(BoundOptions),
}

/// Another type for a column.
#[derive(Clone, Debug, PartialEq)]
pub struct NewType {
    /// The column.
    pub column: String,
    /// The type as written.
    pub declared: String,
    /// COLLATE.
    pub collation: Option<Collation>,
}

/// A constraint that is to go.
#[derive(Clone, Debug, PartialEq)]
pub struct DropConstraint {
    /// What it is, if the statement says so.
    pub kind: Option<ConstraintKind>,
    /// Its name; of a CHECK without a name, its expression.
    pub name: String,
    /// A missing one is no error.
    pub if_exists: bool,
}

/// What a constraint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstraintKind {
    /// CHECK.
    Check,
    /// FOREIGN KEY.
    ForeignKey,
    /// UNIQUE, or a plain index.
    Key,
}

/// A new column.
#[derive(Clone, Debug, PartialEq)]
pub struct AddColumn {
    /// A column of the name is no error.
    pub if_not_exists: bool,
    /// The column, with what its definition says of keys, CHECKs and foreign keys.
    pub part: CreateTable,
    /// Where it stands among the others.
    pub place: Place,
}

/// Where a new column stands among the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Place {
    /// After all others.
    #[default]
    Last,
    /// Before all others.
    First,
    /// After this one.
    After(String),
}

impl Parser<'_> {
    /// What follows ALTER.
    pub(super) fn alter(&mut self) -> Result<Ddl> {
        self.word("TABLE")?;
        let if_exists = self.if_exists()?;
        let table = self.name("a table's name")?;
        let mut changes = vec![self.change(&table)?];
        while self.take_symbol(",") {
            changes.push(self.change(&table)?);
        }
        if let ([Change::RenameTo(to)], false) = (&changes[..], if_exists) {
            return Ok(Ddl::Rename(vec![Rename { from: table, to: to.clone() }]));
        }
        Ok(Ddl::Alter(AlterTable { table, if_exists, changes }))
    }

    fn change(&mut self, table: &str) -> Result<Change> {
        if self.take("ADD") {
            return self.add(table);
        }
        if self.take("DROP") {
            return self.drop_part();
        }
        if self.take("RENAME") {
            return self.rename_part();
        }
        if self.is("SET") && self.ahead_is_symbol(1, "(") {
            self.word("SET")?;
            return Ok(Change::Bound(self.bound_options()?));
        }
        if self.take("ALTER") {
            return self.alter_column();
        }
        match ["MODIFY", "CHANGE", "SET", "PRIMARY", "ENGINE", "ORDER", "ENABLE", "DISABLE"].iter().find(|w| self.is(w))
        {
            Some(word) => Err(not_yet(format!("ALTER TABLE .. {word}"))),
            None => Err(self.expected("ADD, DROP, RENAME, ALTER or SET")),
        }
    }

    fn add(&mut self, table: &str) -> Result<Change> {
        let named = self.take("COLUMN");
        if !named && self.begins_table_constraint() {
            let mut part = CreateTable { name: table.to_string(), ..CreateTable::default() };
            self.table_constraint(&mut part)?;
            return Ok(Change::AddConstraint(Box::new(part)));
        }
        let if_not_exists = self.if_not_exists()?;
        let mut part = CreateTable { name: table.to_string(), ..CreateTable::default() };
        self.column(&mut part)?;
        let place = match () {
            () if self.take("FIRST") => Place::First,
            () if self.take("AFTER") => Place::After(self.name("a column's name")?),
            () => Place::Last,
        };
        Ok(Change::AddColumn(Box::new(AddColumn { if_not_exists, part, place })))
    }

    fn drop_part(&mut self) -> Result<Change> {
        if !self.take("COLUMN") && !self.ends_with_name() {
            if self.is("PRIMARY") {
                return Err(not_yet("ALTER TABLE .. DROP PRIMARY KEY"));
            }
            if let Some(change) = self.drop_constraint()? {
                return Ok(change);
            }
        }
        let if_exists = self.if_exists()?;
        let name = self.name("a column's name")?;
        if self.is("CASCADE") {
            return Err(not_yet("DROP COLUMN .. CASCADE"));
        }
        self.take("RESTRICT");
        Ok(Change::DropColumn(name, if_exists))
    }

    /// Is the next token the last one of this change? Then it is a name, whatever else it could be.
    fn ends_with_name(&self) -> bool {
        self.tokens.len() <= self.at + 1 || self.ahead_is_symbol(1, ",") || self.ahead_is_symbol(1, ";")
    }

    fn drop_constraint(&mut self) -> Result<Option<Change>> {
        let kind = match () {
            () if self.take("CONSTRAINT") => None,
            () if self.take("CHECK") => Some(ConstraintKind::Check),
            () if self.take("INDEX") || self.take("KEY") => Some(ConstraintKind::Key),
            () if self.is("FOREIGN") && self.ahead_is(1, "KEY") => {
                self.at += 2;
                Some(ConstraintKind::ForeignKey)
            }
            () => return Ok(None),
        };
        let if_exists = self.if_exists()?;
        let name = match kind {
            Some(ConstraintKind::Check) if self.is_symbol("(") => self.expression("a CHECK")?,
            _ => self.name("a constraint's name")?,
        };
        Ok(Some(Change::DropConstraint(DropConstraint { kind, name, if_exists })))
    }

    fn rename_part(&mut self) -> Result<Change> {
        if self.take("TO") || self.take("AS") {
            return Ok(Change::RenameTo(self.name("a table's name")?));
        }
        for word in ["INDEX", "KEY", "CONSTRAINT"] {
            if self.is(word) && !self.ahead_is(1, "TO") {
                return Err(not_yet(format!("ALTER TABLE .. RENAME {word}")));
            }
        }
        let named = self.is("COLUMN") && !self.ahead_is(1, "TO") && self.take("COLUMN");
        let from = self.name("a column's name")?;
        if !named && !self.is("TO") {
            // MySQL: RENAME new_name.
            return Ok(Change::RenameTo(from));
        }
        self.word("TO")?;
        Ok(Change::RenameColumn(Rename { from, to: self.name("a column's name")? }))
    }

    fn alter_column(&mut self) -> Result<Change> {
        if self.is("INDEX") && !self.ahead_is(1, "SET") && !self.ahead_is(1, "DROP") {
            return Err(not_yet("ALTER TABLE .. ALTER INDEX"));
        }
        self.take("COLUMN");
        let column = self.name("a column's name")?;
        let set = self.take("SET");
        if set && self.take("DEFAULT") {
            return Ok(Change::Default(column, Some(self.default_value()?)));
        }
        if !set && self.take("DROP") {
            if self.take("DEFAULT") {
                return Ok(Change::Default(column, None));
            }
            self.word("NOT")?;
            self.word("NULL")?;
            return Ok(Change::NotNull(column, false));
        }
        if set && self.take("NOT") {
            self.word("NULL")?;
            return Ok(Change::NotNull(column, true));
        }
        if set && self.take("DATA") && !self.is("TYPE") {
            return Err(self.expected("TYPE"));
        }
        if !self.take("TYPE") {
            return Err(self.expected("TYPE, SET DEFAULT, DROP DEFAULT, SET NOT NULL or DROP NOT NULL"));
        }
        let declared = self.column_type()?;
        let collation = if self.take("COLLATE") { Some(self.collation()?) } else { None };
        if self.is("USING") {
            return Err(not_yet("ALTER COLUMN .. TYPE .. USING"));
        }
        Ok(Change::Type(NewType { column, declared, collation }))
    }
}
