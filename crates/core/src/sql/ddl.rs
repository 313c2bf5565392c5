//! Our own statements about tables: CREATE and DROP of tables and indexes, SHOW and DESCRIBE, read by recursive descent.
//!
//! The grammar is small and closed, takes MySQL's words where they have a meaning here, and refuses by name what is
//! planned. Expressions inside it (DEFAULT) are kept as text: SQLite judges them when the table is made.

use super::error::{not_yet, syntax};
use super::token::{Kind, Token, Tokens};
use crate::error::Result;
use crate::table::catalog::Method;
use crate::table::types::{Collation, ColumnType};

/// One of our statements.
#[derive(Clone, Debug, PartialEq)]
pub enum Ddl {
    /// CREATE TABLE.
    CreateTable(CreateTable),
    /// CREATE INDEX.
    CreateIndex(CreateIndex),
    /// DROP TABLE.
    DropTable(Drop),
    /// DROP INDEX.
    DropIndex(Drop),
    /// SHOW TABLES.
    ShowTables,
    /// DESCRIBE t, SHOW COLUMNS FROM t.
    Describe(String),
    /// SHOW CREATE TABLE t.
    ShowCreateTable(String),
    /// SHOW INDEXES FROM t.
    ShowIndexes(String),
}

/// `CREATE TABLE [IF NOT EXISTS] name (...) options`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTable {
    /// The table's name.
    pub name: String,
    /// An existing table of the name is no error.
    pub if_not_exists: bool,
    /// The columns, in order.
    pub columns: Vec<Column>,
    /// Keys written apart from the columns or with them, in order.
    pub keys: Vec<Key>,
    /// ENGINE=..., as written.
    pub engine: Option<String>,
}

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
}

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

/// A key of CREATE TABLE.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// What it is.
    pub kind: KeyKind,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its columns.
    pub columns: Vec<KeyColumn>,
    /// USING.
    pub method: Option<Method>,
}

/// A column of a key or index.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyColumn {
    /// The column's name.
    pub name: String,
    /// Largest first.
    pub desc: bool,
    /// COLLATE; otherwise the column's own.
    pub collation: Option<Collation>,
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

/// DROP TABLE or DROP INDEX.
#[derive(Clone, Debug, PartialEq)]
pub struct Drop {
    /// What to drop.
    pub name: String,
    /// A missing one is no error.
    pub if_exists: bool,
}

/// Reads one of our statements; the text must have been classified as one.
pub fn parse(text: &str) -> Result<Ddl> {
    let mut parser = Parser { text, tokens: Tokens::all(text)?, at: 0 };
    let statement = parser.statement()?;
    while parser.take_symbol(";") {}
    match parser.peek() {
        None => Ok(statement),
        Some(_) => Err(parser.expected("the end of the statement")),
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
    at: usize,
}

/// Words by which a column's type ends and its constraints begin.
const CONSTRAINT_WORDS: [&str; 16] = [
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
];

impl<'a> Parser<'a> {
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
        if self.take("DESCRIBE") || self.take("DESC") {
            return Ok(Ddl::Describe(self.name("a table's name")?));
        }
        Err(self.expected("CREATE, DROP, SHOW or DESCRIBE"))
    }

    fn create(&mut self) -> Result<Ddl> {
        if self.take("TABLE") {
            return self.create_table();
        }
        let unique = self.take("UNIQUE");
        if self.take("INDEX") {
            return self.create_index(unique);
        }
        for word in ["TEMP", "TEMPORARY", "VIEW", "TRIGGER", "VIRTUAL"] {
            if !unique && self.is(word) {
                return Err(not_yet(format!("CREATE {word}")));
            }
        }
        Err(self.expected(if unique { "INDEX" } else { "TABLE, INDEX or UNIQUE INDEX" }))
    }

    fn create_table(&mut self) -> Result<Ddl> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name("a table's name")?;
        let mut table = CreateTable { name, if_not_exists, columns: Vec::new(), keys: Vec::new(), engine: None };
        if self.is("AS") {
            return Err(not_yet("CREATE TABLE .. AS SELECT"));
        }
        self.symbol("(", "'(' and the columns")?;
        loop {
            if self.begins_table_constraint() {
                self.table_constraint(&mut table)?;
            } else {
                self.column(&mut table)?;
            }
            if !self.take_symbol(",") {
                break;
            }
        }
        self.symbol(")", "',' or ')'")?;
        self.table_options(&mut table)?;
        Ok(Ddl::CreateTable(table))
    }

    fn column(&mut self, table: &mut CreateTable) -> Result<()> {
        let name = self.name("a column's name")?;
        let declared = self.column_type()?;
        let mut column =
            Column { name, declared, collation: None, not_null: false, autoincrement: false, default: None };
        while self.column_constraint(&mut column, &mut table.keys)? {}
        table.columns.push(column);
        Ok(())
    }

    /// A type: words up to a constraint, and at most two numbers in parentheses.
    fn column_type(&mut self) -> Result<String> {
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
    fn column_constraint(&mut self, column: &mut Column, keys: &mut Vec<Key>) -> Result<bool> {
        if self.take("CONSTRAINT") {
            // The name only serves error messages, which name the column already.
            self.name("a constraint's name")?;
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
        } else if self.take("PRIMARY") {
            self.word("KEY")?;
            self.column_key(KeyKind::Primary, column, keys)?;
        } else if self.take("UNIQUE") {
            self.take("KEY");
            self.column_key(KeyKind::Unique, column, keys)?;
        } else if self.take("KEY") {
            // MySQL: a bare KEY in a column's definition is a primary key.
            self.column_key(KeyKind::Primary, column, keys)?;
        } else if self.take("COMMENT") {
            self.string("a comment in quotes")?;
        } else if self.take("STORAGE") {
            self.storage()?;
        } else {
            self.refuse_later_constraints()?;
            return Ok(false);
        }
        Ok(true)
    }

    fn refuse_later_constraints(&self) -> Result<()> {
        for (word, what) in [
            ("CHECK", "CHECK"),
            ("REFERENCES", "REFERENCES"),
            ("FOREIGN", "FOREIGN KEY"),
            ("GENERATED", "GENERATED ALWAYS AS"),
            ("AS", "a generated column"),
        ] {
            if self.is(word) {
                return Err(not_yet(what));
            }
        }
        Ok(())
    }

    fn column_key(&mut self, kind: KeyKind, column: &mut Column, keys: &mut Vec<Key>) -> Result<()> {
        let desc = self.direction();
        self.on_conflict()?;
        if kind == KeyKind::Primary && (self.take("AUTOINCREMENT") || self.take("AUTO_INCREMENT")) {
            column.autoincrement = true;
        }
        let method = self.using()?;
        let columns = vec![KeyColumn { name: column.name.clone(), desc, collation: None }];
        keys.push(Key { kind, name: None, columns, method });
        Ok(())
    }

    fn begins_table_constraint(&self) -> bool {
        let next = |n: usize, word: &str| self.tokens.get(self.at + n).is_some_and(|t| t.is_word(word));
        let opens = |n: usize| self.tokens.get(self.at + n).is_some_and(|t| t.is_symbol("("));
        // PRIMARY and KEY may also name a column; what follows tells.
        let keyed = ["UNIQUE", "KEY", "INDEX"].iter().any(|w| self.is(w));
        self.is("CONSTRAINT")
            || (self.is("PRIMARY") && next(1, "KEY"))
            || (keyed
                && (opens(1) || opens(2) || next(1, "USING") || next(2, "USING") || next(1, "KEY") || next(1, "INDEX")))
            || (self.is("CHECK") && opens(1))
            || (self.is("FOREIGN") && next(1, "KEY"))
    }

    fn table_constraint(&mut self, table: &mut CreateTable) -> Result<()> {
        let mut name = None;
        if self.take("CONSTRAINT") && !self.is("PRIMARY") && !self.is("UNIQUE") {
            name = Some(self.name("a constraint's name")?);
        }
        self.refuse_later_constraints()?;
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
        let (columns, autoincrement) = self.key_columns(kind == KeyKind::Primary)?;
        if let Some(name) = autoincrement {
            let column = table.columns.iter_mut().find(|c| c.name.eq_ignore_ascii_case(&name));
            column.into_iter().for_each(|c| c.autoincrement = true);
        }
        let method = self.using()?.or(before);
        self.on_conflict()?;
        table.keys.push(Key { kind, name, columns, method });
        Ok(())
    }

    /// `(a, b DESC)`; SQLite lets AUTOINCREMENT stand after the column of a primary key, whose name is then given too.
    fn key_columns(&mut self, primary: bool) -> Result<(Vec<KeyColumn>, Option<String>)> {
        self.symbol("(", "'(' and the columns of the key")?;
        let (mut columns, mut autoincrement) = (Vec::new(), None);
        loop {
            let name = self.name("a column's name")?;
            if self.is_symbol("(") {
                return Err(not_yet("an index on an expression or on a part of a column"));
            }
            let collation = if self.take("COLLATE") { Some(self.collation()?) } else { None };
            let desc = self.direction();
            if primary && self.take("AUTOINCREMENT") {
                autoincrement = Some(name.clone());
            }
            columns.push(KeyColumn { name, desc, collation });
            if !self.take_symbol(",") {
                break;
            }
        }
        if !self.is_symbol(")") && self.peek().is_some_and(|t| t.kind == Kind::Symbol) {
            return Err(not_yet("an index on an expression"));
        }
        self.symbol(")", "',' or ')'")?;
        Ok((columns, autoincrement))
    }

    fn create_index(&mut self, unique: bool) -> Result<Ddl> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name("an index's name")?;
        let before = self.using()?;
        self.word("ON")?;
        let table = self.name("a table's name")?;
        let between = self.using()?;
        let (columns, _) = self.key_columns(false)?;
        let method = self.using()?.or(between).or(before);
        if self.is("WHERE") {
            return Err(not_yet("a partial index (WHERE)"));
        }
        let kind = if unique { KeyKind::Unique } else { KeyKind::Plain };
        let key = Key { kind, name: Some(name.clone()), columns, method };
        Ok(Ddl::CreateIndex(CreateIndex { name, if_not_exists, table, key }))
    }

    fn drop(&mut self) -> Result<Ddl> {
        let table = self.take("TABLE");
        if !table && !self.take("INDEX") {
            for word in ["VIEW", "TRIGGER"] {
                if self.is(word) {
                    return Err(not_yet(format!("DROP {word}")));
                }
            }
            return Err(self.expected("TABLE or INDEX"));
        }
        let if_exists = self.take("IF");
        if if_exists {
            self.word("EXISTS")?;
        }
        let name = self.name(if table { "a table's name" } else { "an index's name" })?;
        if !table && self.take("ON") {
            // MySQL names the table too; names of indexes are unique here.
            self.name("a table's name")?;
        }
        let drop = Drop { name, if_exists };
        Ok(if table { Ddl::DropTable(drop) } else { Ddl::DropIndex(drop) })
    }

    fn show(&mut self) -> Result<Ddl> {
        if self.take("TABLES") {
            return Ok(Ddl::ShowTables);
        }
        if self.take("CREATE") {
            self.word("TABLE")?;
            return Ok(Ddl::ShowCreateTable(self.name("a table's name")?));
        }
        let columns = self.take("COLUMNS") || self.take("FIELDS");
        if columns || self.take("INDEXES") || self.take("INDEX") || self.take("KEYS") {
            if !self.take("IN") {
                self.word("FROM")?;
            }
            let name = self.name("a table's name")?;
            return Ok(if columns { Ddl::Describe(name) } else { Ddl::ShowIndexes(name) });
        }
        Err(self.expected("TABLES, CREATE TABLE, COLUMNS or INDEXES"))
    }

    /// ENGINE=.., STORAGE MEMORY and what else MySQL and SQLite write after the columns.
    fn table_options(&mut self, table: &mut CreateTable) -> Result<()> {
        loop {
            if self.take("ENGINE") {
                self.take_symbol("=");
                table.engine = Some(self.name("an engine's name")?);
            } else if self.take("STORAGE") {
                self.storage()?;
            } else if self.take("STRICT") {
                // Every table is.
            } else if self.take("WITHOUT") {
                self.word("ROWID")?;
            } else if self.take("COMMENT")
                || self.take("CHARSET")
                || self.take("COLLATE")
                || self.take("AUTO_INCREMENT")
            {
                self.option_value()?;
            } else if self.take("DEFAULT") || self.take("CHARACTER") {
                let _ = self.take("CHARACTER");
                let _ = self.take("SET") || self.take("CHARSET");
                self.option_value()?;
            } else if self.is("TABLESPACE") || self.is("PARTITION") {
                let word = self.peek().map_or("", |t| t.text);
                return Err(not_yet(word));
            } else if !self.take_symbol(",") {
                return Ok(());
            }
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

    fn storage(&mut self) -> Result<()> {
        if self.take("MEMORY") || self.take("DEFAULT") {
            return Ok(());
        }
        if self.is("DISK") {
            return Err(not_yet("STORAGE DISK"));
        }
        Err(self.expected("MEMORY or DISK"))
    }

    /// A literal, with a sign, a word such as CURRENT_TIMESTAMP, or an expression in parentheses.
    fn default_value(&mut self) -> Result<String> {
        let start = self.at;
        if self.is_symbol("(") {
            self.skip_parentheses()?;
        } else {
            let _ = self.take_symbol("-") || self.take_symbol("+");
            let fits = |t: &Token<'_>| !matches!(t.kind, Kind::Symbol | Kind::Parameter);
            match self.peek() {
                Some(token) if fits(token) => self.at += 1,
                _ => return Err(self.expected("a value or an expression in parentheses")),
            }
            // DEFAULT now(): the parentheses belong to the word.
            if self.tokens[self.at - 1].kind == Kind::Word && self.is_symbol("(") {
                self.skip_parentheses()?;
            }
        }
        self.stands_alone(start)?;
        let (first, last) = (&self.tokens[start], &self.tokens[self.at - 1]);
        Ok(self.text[first.start..last.end()].to_string())
    }

    /// Refuses queries and parameters in the expression from token `start` up to here: it is evaluated for each row,
    /// inside another statement.
    fn stands_alone(&self, start: usize) -> Result<()> {
        let tokens = &self.tokens[start..self.at];
        let reads = |(i, token): &(usize, &Token<'_>)| {
            let of_table = token.is_word("IN") && !tokens.get(i + 1).is_some_and(|next| next.is_symbol("("));
            of_table || ["SELECT", "VALUES", "WITH"].iter().any(|word| token.is_word(word))
        };
        if let Some((_, token)) = tokens.iter().enumerate().find(reads) {
            return Err(syntax(self.text, token.start, "a default cannot query"));
        }
        match tokens.iter().find(|token| token.kind == Kind::Parameter) {
            Some(token) => Err(syntax(self.text, token.start, "a default cannot have parameters")),
            None => Ok(()),
        }
    }

    fn skip_parentheses(&mut self) -> Result<()> {
        let mut depth = 0usize;
        while let Some(token) = self.peek() {
            depth += usize::from(token.is_symbol("("));
            depth -= usize::from(token.is_symbol(")"));
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
        Err(self.expected("')'"))
    }

    fn if_not_exists(&mut self) -> Result<bool> {
        if !self.take("IF") {
            return Ok(false);
        }
        self.word("NOT")?;
        self.word("EXISTS")?;
        Ok(true)
    }

    fn direction(&mut self) -> bool {
        let desc = self.take("DESC");
        if !desc {
            self.take("ASC");
        }
        desc
    }

    fn using(&mut self) -> Result<Option<Method>> {
        if !self.take("USING") {
            return Ok(None);
        }
        if self.take("HASH") {
            return Ok(Some(Method::Hash));
        }
        if self.take("BTREE") {
            return Ok(Some(Method::Ordered));
        }
        Err(self.expected("HASH or BTREE"))
    }

    fn collation(&mut self) -> Result<Collation> {
        for (word, collation) in
            [("BINARY", Collation::Binary), ("NOCASE", Collation::NoCase), ("RTRIM", Collation::RTrim)]
        {
            if self.take(word) {
                return Ok(collation);
            }
        }
        Err(self.expected("BINARY, NOCASE or RTRIM"))
    }

    /// SQLite's clause of a constraint in CREATE TABLE; statements say it themselves (INSERT OR IGNORE).
    fn on_conflict(&mut self) -> Result<()> {
        if self.is("ON") && self.tokens.get(self.at + 1).is_some_and(|t| t.is_word("CONFLICT")) {
            return Err(not_yet("ON CONFLICT in CREATE TABLE"));
        }
        Ok(())
    }

    fn peek(&self) -> Option<&Token<'a>> {
        self.tokens.get(self.at)
    }

    fn is(&self, word: &str) -> bool {
        self.peek().is_some_and(|t| t.is_word(word))
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        self.peek().is_some_and(|t| t.is_symbol(symbol))
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.is(word);
        self.at += usize::from(found);
        found
    }

    fn take_symbol(&mut self, symbol: &str) -> bool {
        let found = self.is_symbol(symbol);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, word: &str) -> Result<()> {
        if self.take(word) { Ok(()) } else { Err(self.expected(word)) }
    }

    fn symbol(&mut self, symbol: &str, what: &str) -> Result<()> {
        if self.take_symbol(symbol) { Ok(()) } else { Err(self.expected(what)) }
    }

    fn name(&mut self, what: &str) -> Result<String> {
        match self.peek().and_then(Token::name) {
            Some(name) if !name.is_empty() => {
                self.at += 1;
                Ok(name.into_owned())
            }
            _ => Err(self.expected(what)),
        }
    }

    fn string(&mut self, what: &str) -> Result<()> {
        match self.peek() {
            Some(token) if token.kind == Kind::Text => self.at += 1,
            _ => return Err(self.expected(what)),
        }
        Ok(())
    }

    fn expected(&self, what: &str) -> crate::error::Error {
        match self.peek() {
            Some(token) => syntax(self.text, token.start, format!("expected {what}, found {}", token.text)),
            None => syntax(self.text, self.text.trim_end().len(), format!("expected {what}, found the end")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(sql: &str) -> CreateTable {
        match parse(sql).unwrap() {
            Ddl::CreateTable(table) => table,
            other => panic!("{other:?}"),
        }
    }

    fn error(sql: &str) -> String {
        parse(sql).unwrap_err().message.into_owned()
    }

    #[test]
    fn columns_have_types_and_constraints() {
        let t = table(
            "CREATE TABLE IF NOT EXISTS `my t` (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20) NOT NULL \
             DEFAULT 'x''y' COLLATE NOCASE, price DECIMAL(10, 2) UNIQUE, ratio DOUBLE PRECISION DEFAULT -1.5, anything, \
             at DATETIME DEFAULT CURRENT_TIMESTAMP, n INT NULL DEFAULT (1 + (2))) ENGINE = InnoDB;;",
        );
        assert_eq!(("my t", true, Some("InnoDB")), (&*t.name, t.if_not_exists, t.engine.as_deref()));
        let declared: Vec<&str> = t.columns.iter().map(|c| &*c.declared).collect();
        assert_eq!(
            vec!["BIGINT", "VARCHAR(20)", "DECIMAL(10,2)", "DOUBLE PRECISION", "ANY", "DATETIME", "INT"],
            declared
        );
        let defaults: Vec<Option<&str>> = t.columns.iter().map(|c| c.default.as_deref()).collect();
        let expected = [None, Some("'x''y'"), None, Some("-1.5"), None, Some("CURRENT_TIMESTAMP"), Some("(1 + (2))")];
        assert_eq!(expected.to_vec(), defaults);
        assert!(t.columns[0].autoincrement && t.columns[1].not_null);
        assert_eq!(Some(Collation::NoCase), t.columns[1].collation);
        let kinds: Vec<(KeyKind, &str)> = t.keys.iter().map(|k| (k.kind, &*k.columns[0].name)).collect();
        assert_eq!(vec![(KeyKind::Primary, "id"), (KeyKind::Unique, "price")], kinds);
    }

    #[test]
    fn using_stands_in_all_its_places() {
        for sql in [
            "CREATE TABLE t (id INT PRIMARY KEY USING BTREE)",
            "CREATE TABLE t (id INT, PRIMARY KEY (id) USING BTREE)",
            "CREATE TABLE t (id INT, PRIMARY KEY USING BTREE (id))",
            "CREATE TABLE t (id INT, CONSTRAINT PRIMARY KEY USING BTREE (id) ) STORAGE MEMORY",
        ] {
            let t = table(sql);
            assert_eq!((KeyKind::Primary, Some(Method::Ordered)), (t.keys[0].kind, t.keys[0].method), "{sql}");
        }
        for sql in [
            "CREATE UNIQUE INDEX i ON t (a, b DESC) USING HASH",
            "CREATE UNIQUE INDEX i ON t USING HASH (a, b DESC)",
            "CREATE UNIQUE INDEX i USING HASH ON t (a ASC, b DESC)",
        ] {
            let Ddl::CreateIndex(index) = parse(sql).unwrap() else { panic!("{sql}") };
            assert_eq!(("i", "t", false), (&*index.name, &*index.table, index.if_not_exists));
            assert_eq!((KeyKind::Unique, Some(Method::Hash)), (index.key.kind, index.key.method));
            assert_eq!(vec![false, true], index.key.columns.iter().map(|c| c.desc).collect::<Vec<_>>());
        }
    }

    #[test]
    fn keys_of_the_table() {
        let t = table(
            "create table t (a int, b int, key k1 (a), unique key u using hash (b), index (a, b), \
             constraint c unique (a, b), primary key (a, b desc))",
        );
        let names: Vec<Option<&str>> = t.keys.iter().map(|k| k.name.as_deref()).collect();
        assert_eq!(vec![Some("k1"), Some("u"), None, Some("c"), None], names);
        let kinds: Vec<KeyKind> = t.keys.iter().map(|k| k.kind).collect();
        use KeyKind::*;
        assert_eq!(vec![Plain, Unique, Plain, Unique, Primary], kinds);
        let t = table("CREATE TABLE t (id INTEGER, PRIMARY KEY (id AUTOINCREMENT))");
        assert!(t.columns[0].autoincrement);
        let t = table("CREATE TABLE t (key TEXT, \"index\" INT)");
        assert_eq!("key", t.columns[0].name);
    }

    #[test]
    fn drops_and_shows() {
        let drop = |name: &str, if_exists| Drop { name: name.into(), if_exists };
        assert_eq!(Ddl::DropTable(drop("t", true)), parse("DROP TABLE IF EXISTS t").unwrap());
        assert_eq!(Ddl::DropIndex(drop("i", false)), parse("DROP INDEX i ON t").unwrap());
        assert_eq!(Ddl::ShowTables, parse("show tables").unwrap());
        assert_eq!(Ddl::Describe("t".into()), parse("DESC t;").unwrap());
        assert_eq!(Ddl::Describe("t".into()), parse("SHOW COLUMNS FROM t").unwrap());
        assert_eq!(Ddl::ShowIndexes("t".into()), parse("SHOW INDEX FROM t").unwrap());
        assert_eq!(Ddl::ShowCreateTable("a b".into()), parse("SHOW CREATE TABLE \"a b\"").unwrap());
    }

    #[test]
    fn errors_name_the_place_and_what_was_expected() {
        assert_eq!("syntax error at position 18: expected ',' or ')', found ;", error("CREATE TABLE t (a;"));
        assert_eq!("syntax error at position 19: unknown column type FOO", error("CREATE TABLE t (a FOO)"));
        assert_eq!(
            "syntax error at position 14: expected TABLE or INDEX, found SCHEMA",
            error("  DROP /* */ SCHEMA x")
        );
        assert_eq!("syntax error at position 15: expected '(' and the columns, found the end", error("CREATE TABLE t"));
        assert_eq!("syntax error at position 14: expected the end of the statement, found x", error("DROP TABLE t x"));
        let hash = error("CREATE INDEX i ON t (a) USING TREE");
        assert_eq!("syntax error at position 31: expected HASH or BTREE, found TREE", hash);
    }

    #[test]
    fn later_features_are_refused_by_name() {
        for (sql, name) in [
            ("CREATE TABLE t (a INT CHECK (a > 0))", "CHECK"),
            ("CREATE TABLE t (a INT REFERENCES u)", "REFERENCES"),
            ("CREATE TABLE t (a INT, FOREIGN KEY (a) REFERENCES u)", "FOREIGN KEY"),
            ("CREATE TABLE t (a INT, b INT AS (a + 1))", "generated"),
            ("CREATE TABLE t (a INT) STORAGE DISK", "STORAGE DISK"),
            ("CREATE TABLE t AS SELECT 1", "AS SELECT"),
            ("CREATE INDEX i ON t (lower(a))", "expression"),
            ("CREATE INDEX i ON t (a + 1)", "expression"),
            ("CREATE INDEX i ON t (a) WHERE a > 1", "partial"),
            ("CREATE VIEW v AS SELECT 1", "VIEW"),
        ] {
            let error = error(sql);
            assert!(error.contains(name) && error.contains("not supported yet"), "{sql}: {error}");
        }
    }

    #[test]
    fn any_tokens_end_in_a_statement_or_an_error() {
        let mut random = crate::env::Xoshiro::from_seed(11);
        let words: Vec<&str> =
            "CREATE TABLE UNIQUE INDEX t a ( ) , INT PRIMARY KEY USING HASH DEFAULT - 'x' ON DESC IF \
                                NOT EXISTS DROP SHOW ; COLLATE NOCASE CONSTRAINT ENGINE ="
                .split_whitespace()
                .collect();
        for _ in 0..20_000 {
            let length = 2 + random.below(12);
            let text: Vec<&str> = (0..length).map(|_| words[random.below(words.len() as u64) as usize]).collect();
            let start = ["CREATE TABLE", "CREATE INDEX", "CREATE TABLE t ("][random.below(3) as usize];
            let _ = parse(&format!("{start} {}", text.join(" ")));
        }
    }
}
