//! `VALUES (1, DEFAULT)` and `SET a = DEFAULT`: the word becomes what the column's definition gives, since SQLite knows
//! neither the word there nor the definition. MySQL's `INSERT INTO t () VALUES ()` becomes DEFAULT VALUES.

use super::Edit;
use super::insert::verb;
use crate::error::Result;
use crate::sql::error::syntax;
use crate::sql::table_info::literal;
use crate::sql::token::{Kind, Token, Tokens};
use crate::table::catalog::{Catalog, ColumnDef, TableDef};

/// The edits that put values in the place of DEFAULT.
pub fn give_values(catalog: &Catalog, text: &str, tokens: &[Token<'_>]) -> Result<Vec<Edit>> {
    if !tokens.iter().any(|t| t.is_word("DEFAULT")) {
        return Ok(empty_values(tokens).into_iter().collect());
    }
    let Some(statement) = Statement::read(catalog, text, tokens) else { return Ok(Vec::new()) };
    let mut edits = Vec::new();
    for at in outside(tokens).filter(|at| *at >= statement.after) {
        let token = &tokens[at];
        if token.is_word("VALUES") && statement.inserts {
            statement.rows(at + 1, &mut edits)?;
        } else if token.is_word("SET") || (token.is_word("UPDATE") && tokens[at - 1].is_word("KEY")) {
            statement.assignments(at + 1, &mut edits)?;
        }
    }
    Ok(edits)
}

/// `() VALUES ()`
fn empty_values(tokens: &[Token<'_>]) -> Option<Edit> {
    let shape = |five: &[Token<'_>]| {
        let [a, b, c, d, e] = five else { return false };
        a.is_symbol("(") && b.is_symbol(")") && c.is_word("VALUES") && d.is_symbol("(") && e.is_symbol(")")
    };
    let at = verb(tokens)?;
    let found = (at..tokens.len().saturating_sub(4)).take(6).find(|i| shape(&tokens[*i..i + 5]))?;
    Some(Edit { start: tokens[found].start, end: tokens[found + 4].end(), text: "DEFAULT VALUES".into() })
}

struct Statement<'a> {
    text: &'a str,
    tokens: &'a [Token<'a>],
    def: &'a TableDef,
    inserts: bool,
    /// The columns that an INSERT gives values to.
    columns: Vec<&'a ColumnDef>,
    /// The token after the table and its columns.
    after: usize,
}

impl<'a> Statement<'a> {
    fn read(catalog: &'a Catalog, text: &'a str, tokens: &'a [Token<'a>]) -> Option<Statement<'a>> {
        let word = |n: usize, word: &str| tokens.get(n).is_some_and(|t| t.is_word(word));
        let symbol = |n: usize, symbol: &str| tokens.get(n).is_some_and(|t| t.is_symbol(symbol));
        let verb = verb(tokens).or_else(|| outside(tokens).find(|i| word(*i, "UPDATE")))?;
        let inserts = !word(verb, "UPDATE");
        let mut at = verb + 1;
        at += if word(at, "OR") { 2 } else { usize::from(word(at, "IGNORE") && !symbol(at + 1, ".")) };
        at += usize::from(word(at, "INTO"));
        at += if symbol(at + 1, ".") { 2 } else { 0 };
        let def = &**catalog.table(&tokens.get(at)?.name()?)?;
        at += 1;
        at += if word(at, "AS") { 2 } else { 0 };
        let mut columns: Vec<&ColumnDef> = def.columns.iter().filter(|c| !c.hidden && c.generated.is_none()).collect();
        if inserts && symbol(at, "(") {
            let close = (at..tokens.len()).find(|i| symbol(*i, ")"))?;
            let names = tokens[at + 1..close].iter().filter(|t| !t.is_symbol(",")).map(|t| t.name());
            columns = names.map(|name| Some(def.column(&name?)?.1)).collect::<Option<_>>()?;
            at = close + 1;
        }
        Some(Statement { text, tokens, def, inserts, columns, after: at })
    }

    fn symbol(&self, at: usize, symbol: &str) -> bool {
        self.tokens.get(at).is_some_and(|t| t.is_symbol(symbol))
    }

    /// `(a, ..), (b, ..)`
    fn rows(&self, mut at: usize, edits: &mut Vec<Edit>) -> Result<()> {
        while self.symbol(at, "(") {
            let (mut item, mut place) = (at + 1, 0);
            loop {
                let end = self.end_of_item(item);
                self.give(item, end, self.columns.get(place).copied(), edits)?;
                (item, place) = (end + 1, place + 1);
                if !self.symbol(end, ",") {
                    break;
                }
            }
            at = item;
            at += usize::from(self.symbol(at, ","));
        }
        Ok(())
    }

    /// `a = .., (b, c) = (.., ..)`
    fn assignments(&self, mut at: usize, edits: &mut Vec<Edit>) -> Result<()> {
        loop {
            let end = self.end_of_item(at);
            if self.symbol(at, "(") {
                self.several(at, end, edits)?;
            } else {
                let name = if self.symbol(at + 1, ".") { at + 2 } else { at };
                if self.symbol(name + 1, "=") {
                    // The word is no part of an expression, and the last value ends with the clause.
                    self.give(name + 2, name + 3, self.column(name), edits)?;
                }
            }
            if !self.symbol(end, ",") {
                return Ok(());
            }
            at = end + 1;
        }
    }

    /// `(b, c) = (.., ..)`
    fn several(&self, open: usize, end: usize, edits: &mut Vec<Edit>) -> Result<()> {
        let (mut name, mut names) = (open + 1, Vec::new());
        while name < end && !self.symbol(name, ")") {
            names.push(self.column(name));
            name += 1 + usize::from(self.symbol(name + 1, ","));
        }
        if !self.symbol(name + 1, "=") || !self.symbol(name + 2, "(") {
            return Ok(());
        }
        let mut item = name + 3;
        for column in names {
            let item_end = self.end_of_item(item);
            self.give(item, item_end, column, edits)?;
            item = item_end + 1;
        }
        Ok(())
    }

    fn column(&self, at: usize) -> Option<&'a ColumnDef> {
        let name = self.tokens.get(at)?.name()?;
        Some(self.def.column(&name)?.1)
    }

    /// Where a list's item ends: at a comma or the bracket that closes the list, or at the statement's end.
    fn end_of_item(&self, from: usize) -> usize {
        let mut depth = 0usize;
        for (i, token) in self.tokens.iter().enumerate().skip(from) {
            if token.is_symbol("(") {
                depth += 1;
            } else if token.is_symbol(")") {
                let Some(outer) = depth.checked_sub(1) else { return i };
                depth = outer;
            } else if depth == 0 && token.is_symbol(",") {
                return i;
            }
        }
        self.tokens.len()
    }

    /// The value, if the item is DEFAULT.
    fn give(&self, start: usize, end: usize, column: Option<&ColumnDef>, edits: &mut Vec<Edit>) -> Result<()> {
        let Some(token) = self.tokens.get(start).filter(|t| end == start + 1 && t.is_word("DEFAULT")) else {
            return Ok(());
        };
        if let Some(column) = column.filter(|c| c.generated.is_some()) {
            let what = format!("{}.{} is generated and takes no value, not even DEFAULT", self.def.name, column.name);
            return Err(syntax(self.text, token.start, what));
        }
        // No such column, or more values than columns: SQLite tells.
        let text = column.map_or("NULL".into(), value_of);
        edits.push(Edit { start: token.start, end: token.end(), text });
        Ok(())
    }
}

/// What the definition gives, as SQLite reads it.
fn value_of(column: &ColumnDef) -> String {
    let Some(text) = &column.default else { return "NULL".into() };
    let is_literal = Tokens::all(text).is_ok_and(|tokens| literal(&tokens).is_some());
    if is_literal { text.clone() } else { format!("({text}\n)") }
}

/// The tokens in no brackets.
fn outside<'a>(tokens: &'a [Token<'a>]) -> impl Iterator<Item = usize> + 'a {
    let mut depth = 0usize;
    tokens.iter().enumerate().filter_map(move |(i, token)| {
        depth += usize::from(token.is_symbol("("));
        let here = depth;
        depth = depth.saturating_sub(usize::from(token.is_symbol(")")));
        (here == 0 && token.kind == Kind::Word).then_some(i)
    })
}
