//! Where an expression may give way to the column that keeps its value.
//!
//! A column brings its affinity and its collation into a comparison and an expression has none, so `abs(a) = name` and
//! `hidden = name` are not the same. They are where the other side is a constant or has neither of its own, or where it
//! is a column of which both forms make the same; nowhere else does an expression give way.

use super::scope::{Clause, clauses};
use crate::sql::token::{Kind, Token, is_keyword};
use crate::table::catalog::{Catalog, ColumnDef, TableDef};
use crate::table::types::{Collation, ColumnType, Storage};
use std::ops::Range;

const COMPARES: [&str; 8] = ["=", "==", "<", ">", "<=", ">=", "<>", "!="];
/// Words that a comparison as a whole may stand behind.
const BEFORE: [&str; 3] = ["WHERE", "ON", "OR"];
/// Words that may follow one.
const AFTER: [&str; 23] = [
    "AND",
    "OR",
    "GROUP",
    "ORDER",
    "LIMIT",
    "HAVING",
    "WINDOW",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "RETURNING",
    "WHERE",
    "JOIN",
    "LEFT",
    "RIGHT",
    "FULL",
    "INNER",
    "CROSS",
    "NATURAL",
    "THEN",
    "ON",
    "DO",
    "END",
];
/// Functions that always give a text, a blob or NULL.
const TEXTS: [&str; 20] = [
    "char",
    "date",
    "datetime",
    "format",
    "hex",
    "json",
    "lower",
    "ltrim",
    "printf",
    "quote",
    "replace",
    "rtrim",
    "strftime",
    "substr",
    "substring",
    "time",
    "trim",
    "typeof",
    "upper",
    "concat",
];

/// A query and what of it is asked at every place.
pub struct Query<'a> {
    /// Its tokens.
    pub tokens: &'a [Token<'a>],
    /// The clause that each stands in.
    pub clauses: Vec<Clause>,
    catalog: &'a Catalog,
    /// The tables that its columns may be of; none when some may come from elsewhere.
    tables: Option<Vec<&'a TableDef>>,
}

impl<'a> Query<'a> {
    /// Looks at a query's text.
    pub fn new(catalog: &'a Catalog, tokens: &'a [Token<'a>]) -> Query<'a> {
        let mut query = Query { tokens, clauses: clauses(tokens), catalog, tables: None };
        query.tables = query.read_tables();
        query
    }

    fn at(&self, at: usize) -> Option<&'a Token<'a>> {
        self.tokens.get(at)
    }

    fn before(&self, at: usize) -> Option<&'a Token<'a>> {
        self.at(at.checked_sub(1)?)
    }

    /// The tables by name, unless there are views, queries or sources whose columns are not in the catalog.
    fn read_tables(&self) -> Option<Vec<&'a TableDef>> {
        let mut tables: Vec<&TableDef> = Vec::new();
        for (i, token) in self.tokens.iter().enumerate() {
            if token.is_word("WITH") {
                return None;
            }
            let Some(before) = self.before(i) else { continue };
            let must = ["FROM", "JOIN", "UPDATE"].iter().any(|word| before.is_word(word));
            if !must && !before.is_symbol(",") {
                continue;
            }
            let name = token.name().filter(|_| matches!(token.kind, Kind::Word | Kind::Quoted));
            let Some(name) = name else {
                let selects = || self.at(i + 1).is_some_and(|t| t.is_word("SELECT") || t.is_word("VALUES"));
                if must || (token.is_symbol("(") && selects()) {
                    return None;
                }
                continue;
            };
            let called =
                self.at(i + 1).is_some_and(|t| t.is_symbol("(")) && crate::sql::source::names().any(|s| s == name);
            match self.catalog.table(&name) {
                _ if called || self.catalog.view(&name).is_some() => return None,
                Some(def) if !tables.iter().any(|t| t.id == def.id) => tables.push(def),
                None if must && !["OR", "SET"].iter().any(|word| token.is_word(word)) => return None,
                _ => {}
            }
        }
        Some(tables)
    }

    /// May the expression that the tokens `found` are, and whose value `column` keeps, give way to it in a condition?
    pub fn fits_condition(&self, found: Range<usize>, column: &ColumnDef, compares: bool) -> bool {
        let (start, end) = self.widened(&found);
        if compares && start == found.start {
            return false;
        }
        let expression = Expression { tokens: &self.tokens[found], column };
        self.is_left(start, end, &expression) || self.is_right(start, end, &expression)
    }

    /// May it in ORDER BY? It must be a whole term.
    pub fn fits_order(&self, found: Range<usize>, compares: bool) -> bool {
        let (start, end) = self.widened(&found);
        if compares && start == found.start {
            return false;
        }
        let after = |t: &Token<'_>| {
            is_any(t, &[",", ")", ";"], &["ASC", "DESC", "NULLS", "LIMIT", "ROWS", "RANGE", "GROUPS", "RETURNING"])
        };
        self.before(start).is_some_and(|t| t.is_symbol(",") || t.is_word("BY"))
            && self.at(end).is_none_or(after)
            && self.is_listed_by(start)
    }

    /// With the brackets around it that only group.
    fn widened(&self, found: &Range<usize>) -> (usize, usize) {
        let (mut start, mut end) = (found.start, found.end);
        while self.before(start).is_some_and(|t| t.is_symbol("("))
            && self.at(end).is_some_and(|t| t.is_symbol(")"))
            && !self.before(start - 1).is_some_and(calls)
        {
            (start, end) = (start - 1, end + 1);
        }
        (start, end)
    }

    /// Is the token in a list that BY begins, in no bracket of its own?
    fn is_listed_by(&self, at: usize) -> bool {
        let mut depth = 0usize;
        for token in self.tokens[..at].iter().rev() {
            if token.is_symbol(")") {
                depth += 1;
            } else if token.is_symbol("(") {
                let Some(outer) = depth.checked_sub(1) else { return false };
                depth = outer;
            } else if depth == 0 && token.is_word("BY") {
                return true;
            }
        }
        false
    }

    /// Does a whole comparison begin here?
    fn begins(&self, at: usize) -> bool {
        let Some(before) = self.before(at) else { return false };
        if before.is_word("AND") {
            return !self.ends_between(at - 1);
        }
        // IS NOT is no beginning.
        if before.is_word("NOT") {
            return self.begins(at - 1);
        }
        let grouped = || before.is_symbol("(") && !self.before(at - 1).is_some_and(calls) && self.begins(at - 1);
        is_any(before, &[], &BEFORE) || grouped()
    }

    /// Is the AND at `at` that of a BETWEEN? In doubt it is.
    fn ends_between(&self, at: usize) -> bool {
        let mut depth = 0usize;
        for token in self.tokens[..at].iter().rev() {
            if token.is_symbol(")") {
                depth += 1;
            } else if token.is_symbol("(") {
                let Some(outer) = depth.checked_sub(1) else { return false };
                depth = outer;
            } else if depth == 0 && token.is_word("BETWEEN") {
                return true;
            } else if depth == 0 && is_any(token, &[], &["WHERE", "ON", "AND", "OR", "SELECT"]) {
                return false;
            }
        }
        false
    }

    /// Does a whole comparison end before this token?
    fn ends(&self, at: usize) -> bool {
        self.at(at).is_none_or(|t| is_any(t, &[")", ",", ";"], &AFTER))
    }

    /// `expression op other`
    fn is_left(&self, start: usize, end: usize, expression: &Expression<'_>) -> bool {
        if !self.begins(start) {
            return false;
        }
        let word = |at: usize, word: &str| self.at(at).is_some_and(|t| t.is_word(word));
        // Alone it is true or not; behind a comma it would be a part of a row.
        let is_alone = self.ends(end) && !self.at(end).is_some_and(|t| t.is_symbol(","));
        if is_alone || word(end, "ISNULL") || word(end, "NOTNULL") {
            return true;
        }
        let op = end + usize::from(word(end, "NOT"));
        let negated = op > end;
        if word(op, "LIKE") || word(op, "GLOB") || (negated && word(op, "NULL")) {
            return true;
        }
        if word(op, "BETWEEN") {
            let middle = self.end_of_operand(op + 1);
            let ends = word(middle, "AND").then(|| self.end_of_operand(middle + 1));
            return ends.is_some_and(|last| {
                self.ends(last)
                    && self.is_neutral(op + 1..middle, expression)
                    && self.is_neutral(middle + 1..last, expression)
            });
        }
        if word(op, "IN") {
            return self.is_neutral_list(op + 1, expression);
        }
        let other = match self.at(op) {
            Some(t) if !negated && COMPARES.contains(&t.text) => op + 1,
            Some(t) if !negated && t.is_word("IS") => op + 1 + usize::from(word(op + 1, "NOT")),
            _ => return false,
        };
        let last = self.end_of_operand(other);
        self.ends(last) && self.is_neutral(other..last, expression)
    }

    /// `other op expression`
    fn is_right(&self, start: usize, end: usize, expression: &Expression<'_>) -> bool {
        if !self.ends(end) || !self.before(start).is_some_and(|t| COMPARES.contains(&t.text)) {
            return false;
        }
        let op = start - 1;
        // The operand that ends before the operator and begins where a comparison may.
        let mut depth = 0usize;
        for first in (0..op).rev() {
            let token = &self.tokens[first];
            depth += usize::from(token.is_symbol(")"));
            if token.is_symbol("(") {
                let Some(outer) = depth.checked_sub(1) else { return false };
                depth = outer;
            }
            if depth == 0 && self.begins(first) {
                return self.end_of_operand(first) == op && self.is_neutral(first..op, expression);
            }
        }
        false
    }

    /// Where the operand that begins at `at` ends: before what compares or joins it.
    fn end_of_operand(&self, at: usize) -> usize {
        let mut depth = 0usize;
        for (i, token) in self.tokens.iter().enumerate().skip(at) {
            if token.is_symbol("(") {
                depth += 1;
            } else if token.is_symbol(")") {
                let Some(outer) = depth.checked_sub(1) else { return i };
                depth = outer;
            } else if depth == 0 {
                let ends = is_any(token, &[",", ";"], &AFTER) || COMPARES.contains(&token.text);
                if ends || is_any(token, &[], &["IS", "IN", "NOT", "LIKE", "GLOB", "BETWEEN", "ISNULL", "NOTNULL"]) {
                    return i;
                }
            }
        }
        self.tokens.len()
    }

    /// `(constant, ...)` or `(SELECT column FROM ...)`.
    fn is_neutral_list(&self, open: usize, expression: &Expression<'_>) -> bool {
        if !self.at(open).is_some_and(|t| t.is_symbol("(")) {
            return false;
        }
        if self.at(open + 1).is_some_and(|t| t.is_word("SELECT")) {
            let end = (open + 2..self.tokens.len()).find(|i| self.tokens[*i].is_word("FROM"));
            return end.is_some_and(|end| self.is_like_column(open + 2..end, expression));
        }
        // One value alone is compared as by `=`; several give neither affinity nor collation.
        let end = self.end_of_operand(open + 1);
        !self.at(end).is_some_and(|t| t.is_symbol(")")) || self.is_neutral(open + 1..end, expression)
    }

    /// Does the comparison with these tokens come out the same for the expression and for its column?
    fn is_neutral(&self, operand: Range<usize>, expression: &Expression<'_>) -> bool {
        self.is_plain(operand.clone()) || self.is_like_column(operand, expression)
    }

    /// A constant, or what has neither affinity nor collation: calls and arithmetic.
    fn is_plain(&self, operand: Range<usize>) -> bool {
        let (mut depth, mut columns, mut operators) = (0usize, 0, 0);
        for i in operand.clone() {
            let token = &self.tokens[i];
            let is_called = self.at(i + 1).is_some_and(|t| t.is_symbol("("));
            if depth > 0 {
                depth += usize::from(token.is_symbol("("));
                depth -= usize::from(token.is_symbol(")"));
                continue;
            }
            match token.kind {
                Kind::Symbol if token.text == "(" => {
                    if i == operand.start || !calls(&self.tokens[i - 1]) {
                        return false;
                    }
                    depth = 1;
                }
                Kind::Symbol if token.text == "." => {}
                Kind::Symbol => operators += usize::from(i > operand.start),
                Kind::Word if token.is_word("CAST") || token.is_word("COLLATE") || token.is_word("CASE") => {
                    return false;
                }
                Kind::Word if is_called => {}
                Kind::Word if is_any(token, &[], &["NULL", "TRUE", "FALSE"]) => {}
                Kind::Word if token.text.to_ascii_uppercase().starts_with("CURRENT_") => {}
                Kind::Word if is_keyword(token.text) => return false,
                Kind::Word | Kind::Quoted => columns += 1,
                _ => {}
            }
        }
        !operand.is_empty() && (columns == 0 || operators > 0)
    }

    /// A column of which the comparison makes the same.
    fn is_like_column(&self, operand: Range<usize>, expression: &Expression<'_>) -> bool {
        let name = match &self.tokens[operand] {
            [name] => name,
            [_, dot, name] if dot.is_symbol(".") => name,
            _ => return false,
        };
        let (Some(name), Some(tables)) = (name.name().filter(|_| name.kind != Kind::Text), &self.tables) else {
            return false;
        };
        let mut columns = tables.iter().filter_map(|def| Some(def.column(&name)?.1)).peekable();
        columns.peek().is_some() && columns.all(|other| expression.compares_alike(other))
    }
}

struct Expression<'a> {
    tokens: &'a [Token<'a>],
    column: &'a ColumnDef,
}

impl Expression<'_> {
    fn compares_alike(&self, other: &ColumnDef) -> bool {
        if self.column.collation != Collation::Binary || other.collation != Collation::Binary {
            return false;
        }
        // Beside a column of texts, an expression's number becomes a text and a column's does not.
        let becomes_text = other.ctype.storage() == Storage::Text;
        !becomes_text || !matches!(self.column.ctype, ColumnType::Any) || self.is_text()
    }

    fn is_text(&self) -> bool {
        let mut depth = 0usize;
        let mut outside: Vec<&Token<'_>> = Vec::new();
        for token in self.tokens {
            depth = depth.saturating_sub(usize::from(token.is_symbol(")")));
            if depth == 0 && !token.is_symbol(")") {
                outside.push(token);
            }
            depth += usize::from(token.is_symbol("("));
        }
        let operators: Vec<_> =
            outside.iter().filter(|t| t.kind == Kind::Symbol && t.text != "." && t.text != "(").collect();
        if operators.is_empty() {
            return outside.first().is_some_and(|t| TEXTS.iter().any(|name| t.is_word(name)))
                && outside.get(1).is_some_and(|t| t.is_symbol("("))
                && outside.len() == 2;
        }
        operators.iter().all(|t| t.text == "||")
    }
}

fn is_any(token: &Token<'_>, symbols: &[&str], words: &[&str]) -> bool {
    symbols.iter().any(|s| token.is_symbol(s)) || words.iter().any(|w| token.is_word(w))
}

/// Does a bracket behind this token belong to it, as a call's or a list's?
fn calls(before: &Token<'_>) -> bool {
    match before.kind {
        Kind::Word => {
            before.is_word("IN") || !is_keyword(before.text) || is_any(before, &[], &["REPLACE", "LIKE", "GLOB"])
        }
        Kind::Quoted => true,
        _ => false,
    }
}
