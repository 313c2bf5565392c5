//! Finds an expression of a definition in a query, token for token.

use super::scope::Named;
use crate::sql::constraint::may_name;
use crate::sql::token::{Kind, Token};
use crate::table::catalog::TableDef;

/// An expression of a definition.
pub struct Pattern<'a> {
    tokens: &'a [Token<'a>],
    def: &'a TableDef,
}

/// Where a pattern was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The token after the last one.
    pub end: usize,
    /// Its columns were qualified.
    pub qualified: bool,
}

impl<'a> Pattern<'a> {
    /// The pattern of an expression's tokens.
    pub fn new(tokens: &'a [Token<'a>], def: &'a TableDef) -> Pattern<'a> {
        Pattern { tokens: crate::sql::ddl::bare(tokens), def }
    }

    /// Does the pattern begin at the token `at` of a query, with the columns of `named`?
    pub fn at(&self, query: &[Token<'_>], at: usize, named: &Named) -> Option<Found> {
        let (mut place, mut qualified) = (at, None);
        for (i, wanted) in self.tokens.iter().enumerate() {
            if self.is_column(i) {
                let has = query.get(place + 1).is_some_and(|t| t.is_symbol("."));
                if has && !is_named(query.get(place)?, &named.alias) {
                    return None;
                }
                if *qualified.get_or_insert(has) != has {
                    return None;
                }
                place += if has { 2 } else { 0 };
            }
            if !alike(wanted, query.get(place)?) {
                return None;
            }
            place += 1;
        }
        let qualified = qualified.unwrap_or(false);
        (qualified || named.alone).then_some(Found { end: place, qualified })
    }

    fn is_column(&self, i: usize) -> bool {
        may_name(self.tokens, i) && self.tokens[i].name().is_some_and(|name| self.def.column(&name).is_some())
    }

    /// Does it have operators that bind as weakly as those around it might?
    pub fn compares(&self) -> bool {
        let words = [
            "AND", "OR", "NOT", "IS", "IN", "LIKE", "GLOB", "BETWEEN", "REGEXP", "MATCH", "ISNULL", "NOTNULL",
            "COLLATE",
        ];
        let symbols = ["=", "==", "<", ">", "<=", ">=", "<>", "!="];
        self.tokens.iter().any(|t| is_any(t, &symbols, &words))
    }
}

fn is_any(token: &Token<'_>, symbols: &[&str], words: &[&str]) -> bool {
    symbols.iter().any(|s| token.is_symbol(s)) || words.iter().any(|w| token.is_word(w))
}

fn is_named(token: &Token<'_>, name: &str) -> bool {
    token.kind != Kind::Text && token.name().is_some_and(|found| found.eq_ignore_ascii_case(name))
}

/// Names and keywords are alike in any case and quotes, anything else as it is written.
fn alike(wanted: &Token<'_>, found: &Token<'_>) -> bool {
    let named = |t: &Token<'_>| matches!(t.kind, Kind::Word | Kind::Quoted);
    match (named(wanted), named(found)) {
        (true, true) => wanted.name().zip(found.name()).is_some_and(|(a, b)| a.eq_ignore_ascii_case(&b)),
        _ => wanted.kind == found.kind && wanted.text == found.text,
    }
}
