//! `INSERT INTO t VALUES (...)` gives values for the columns that are not generated, which SQLite does not know to be
//! such: the statement is made to name its columns.

use super::Edit;
use crate::sql::token::{Token, quote_name};
use crate::table::catalog::Catalog;

/// The list of columns that an INSERT without one means, if its table has generated columns.
pub fn name_columns(catalog: &Catalog, tokens: &[Token<'_>]) -> Option<Edit> {
    let at = verb(tokens)?;
    let word = |n: usize, word: &str| tokens.get(n).is_some_and(|t| t.is_word(word));
    let symbol = |n: usize, symbol: &str| tokens.get(n).is_some_and(|t| t.is_symbol(symbol));
    let mut at = at + if word(at + 1, "OR") { 3 } else { 1 };
    if !word(at, "INTO") {
        return None;
    }
    at += 1;
    at += if symbol(at + 1, ".") { 2 } else { 0 };
    let name = tokens.get(at)?;
    at += 1;
    if word(at, "AS") {
        at += 2;
    }
    if symbol(at, "(") || word(at, "DEFAULT") || word(at, "SET") {
        return None;
    }
    let def = catalog.table(&name.name()?)?;
    let visible = || def.columns.iter().filter(|c| !c.hidden);
    if visible().all(|c| c.generated.is_none()) {
        return None;
    }
    let names: Vec<String> = visible().filter(|c| c.generated.is_none()).map(|c| quote_name(&c.name)).collect();
    let end = tokens.get(at - 1)?.end();
    Some(Edit { start: end, end, text: format!(" ({})", names.join(", ")) })
}

/// Where the INSERT or REPLACE of the statement stands, which may begin WITH.
pub fn verb(tokens: &[Token<'_>]) -> Option<usize> {
    let mut depth = 0usize;
    for (i, token) in tokens.iter().enumerate() {
        depth += usize::from(token.is_symbol("("));
        depth = depth.saturating_sub(usize::from(token.is_symbol(")")));
        if depth > 0 {
            continue;
        }
        if token.is_word("INSERT") || token.is_word("REPLACE") {
            return Some(i);
        }
        if i == 0 && !token.is_word("WITH") && !token.is_word("EXPLAIN") {
            return None;
        }
    }
    None
}
