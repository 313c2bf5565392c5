//! Keys in CREATE TABLE and CREATE INDEX: columns, expressions, and the condition of a partial index.

use super::Ddl;
use super::parser::Parser;
use crate::error::Result;
use crate::sql::error::{not_yet, syntax};
use crate::sql::token::{Kind, Token};
use crate::table::catalog::Method;
use crate::table::types::Collation;

/// What a key of CREATE TABLE is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// PRIMARY KEY.
    Primary,
    /// UNIQUE.
    Unique,
    /// KEY or INDEX.
    Plain,
}

/// A key of CREATE TABLE, or an index.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// What it is.
    pub kind: KeyKind,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// What it is made of.
    pub parts: Vec<KeyPart>,
    /// USING.
    pub method: Option<Method>,
    /// WHERE: only rows for which this is true are in the index.
    pub filter: Option<String>,
}

/// What one part of a key holds.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyOn {
    /// A column.
    Column(String),
    /// The value of an expression, as SQL text.
    Expression(String),
}

/// A column or expression of a key or index.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyPart {
    /// What it holds.
    pub on: KeyOn,
    /// Largest first.
    pub desc: bool,
    /// COLLATE; otherwise the column's own.
    pub collation: Option<Collation>,
}

impl KeyPart {
    /// A column as it is.
    pub fn column(name: &str, desc: bool) -> KeyPart {
        KeyPart { on: KeyOn::Column(name.into()), desc, collation: None }
    }

    /// The text by which people know it.
    pub fn text(&self) -> &str {
        match &self.on {
            KeyOn::Column(text) | KeyOn::Expression(text) => text,
        }
    }
}

/// `CREATE [UNIQUE] INDEX [IF NOT EXISTS] name ON table (...)`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateIndex {
    /// The index's name.
    pub name: String,
    /// An existing index of the name is no error.
    pub if_not_exists: bool,
    /// The table.
    pub table: String,
    /// The key; its kind is Unique or Plain.
    pub key: Key,
}

impl Parser<'_> {
    pub(super) fn create_index(&mut self, unique: bool) -> Result<Ddl> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name("an index's name")?;
        let before = self.using()?;
        self.word("ON")?;
        let table = self.name("a table's name")?;
        let between = self.using()?;
        let (parts, _) = self.key_parts(false)?;
        let method = self.using()?.or(between).or(before);
        let filter = if self.take("WHERE") { Some(self.filter()?) } else { None };
        let method = self.using()?.or(method);
        if self.take("COMMENT") {
            self.string("a comment in quotes")?;
        }
        let kind = if unique { KeyKind::Unique } else { KeyKind::Plain };
        let key = Key { kind, name: Some(name.clone()), parts, method, filter };
        Ok(Ddl::CreateIndex(CreateIndex { name, if_not_exists, table, key }))
    }

    /// The condition of a partial index, up to the end or USING.
    fn filter(&mut self) -> Result<String> {
        let start = self.at;
        while self.peek().is_some_and(|t| !t.is_symbol(";") && !t.is_word("USING") && !t.is_word("COMMENT")) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.expected("a condition"));
        }
        self.stands_alone(start, "the condition of an index")?;
        Ok(self.text_from(start))
    }

    /// `(a, lower(b) COLLATE NOCASE DESC)`; SQLite lets AUTOINCREMENT stand after the column of a primary key, whose
    /// name is then given too.
    pub(super) fn key_parts(&mut self, primary: bool) -> Result<(Vec<KeyPart>, Option<String>)> {
        self.symbol("(", "'(' and the columns of the key")?;
        let (mut parts, mut autoincrement) = (Vec::new(), None);
        loop {
            let (part, numbered) = self.key_part(primary)?;
            if numbered {
                autoincrement = Some(part.text().to_string());
            }
            parts.push(part);
            if !self.take_symbol(",") {
                break;
            }
        }
        self.symbol(")", "',' or ')'")?;
        Ok((parts, autoincrement))
    }

    fn key_part(&mut self, primary: bool) -> Result<(KeyPart, bool)> {
        let start = self.at;
        self.skip_list_item()?;
        let end = self.at;
        // What follows the expression is read from its end, so that the expression may be anything.
        let (mut last, mut numbered, mut desc, mut collation) = (end, false, false, None);
        let ends_in = |last: usize, word: &str| last > start && self.tokens[last - 1].is_word(word);
        if primary && ends_in(last, "AUTOINCREMENT") {
            (last, numbered) = (last - 1, true);
        }
        if last > start + 1 && (ends_in(last, "DESC") || ends_in(last, "ASC")) {
            desc = ends_in(last, "DESC");
            last -= 1;
        }
        if last > start + 2 && ends_in(last - 1, "COLLATE") {
            self.at = last - 1;
            collation = Some(self.collation()?);
            last -= 2;
        }
        self.at = last;
        let on = self.key_on(start)?;
        self.at = end;
        Ok((KeyPart { on, desc, collation }, numbered))
    }

    /// The tokens from `start` up to here: a column, or an expression.
    fn key_on(&mut self, start: usize) -> Result<KeyOn> {
        let tokens = &self.tokens[start..self.at];
        match tokens {
            [] => {
                self.at = start;
                Err(self.expected("a column's name"))
            }
            [name] if name.name().is_some() => Ok(KeyOn::Column(name.name().unwrap_or_default().into_owned())),
            [name, open, length, close]
                if name.name().is_some()
                    && open.is_symbol("(")
                    && length.kind == Kind::Integer
                    && close.is_symbol(")") =>
            {
                Err(not_yet("an index on a part of a column"))
            }
            [first, ..] => {
                let at = first.start;
                self.stands_alone(start, "the expression of an index")?;
                match bare(tokens) {
                    [] => Err(syntax(self.text, at, "an index without an expression")),
                    [name] if name.name().is_some() => Ok(KeyOn::Column(name.name().unwrap_or_default().into_owned())),
                    [first, .., last] => Ok(KeyOn::Expression(self.text[first.start..last.end()].to_string())),
                    [only] => Ok(KeyOn::Expression(only.text.to_string())),
                }
            }
        }
    }
}

/// The tokens without parentheses around all of them.
pub(in crate::sql) fn bare<'t, 'a>(mut tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    loop {
        let [first, inner @ .., last] = tokens else { return tokens };
        if !first.is_symbol("(") || !last.is_symbol(")") || !is_balanced(inner) {
            return tokens;
        }
        tokens = inner;
    }
}

/// Does every parenthesis close after it was opened?
fn is_balanced(tokens: &[Token<'_>]) -> bool {
    let mut depth = 0i32;
    for token in tokens {
        depth += i32::from(token.is_symbol("(")) - i32::from(token.is_symbol(")"));
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}
