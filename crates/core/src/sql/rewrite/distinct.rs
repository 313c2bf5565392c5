//! `SELECT count(DISTINCT a) FROM t ..` becomes a count of `SELECT DISTINCT a FROM t ..`, which can jump from value to value
//! in an index on `a`. SQLite sorts for the first whatever indexes there are.

use super::Edit;
use crate::sql::token::{Token, quote_name};
use crate::table::catalog::{Catalog, Method};

/// The clauses behind which rows are no longer those of the count.
const OTHERS: [&str; 10] =
    ["GROUP", "HAVING", "ORDER", "LIMIT", "WINDOW", "UNION", "EXCEPT", "INTERSECT", "STORE", "JOIN"];

/// The edits, for a statement of just this shape whose column begins an ordered index.
pub fn count_rows(catalog: &Catalog, text: &str, tokens: &[Token<'_>]) -> Vec<Edit> {
    edits(catalog, text, tokens).unwrap_or_default()
}

fn edits(catalog: &Catalog, text: &str, tokens: &[Token<'_>]) -> Option<Vec<Edit>> {
    let explains = tokens.first()?.is_word("EXPLAIN");
    let select = if explains { tokens.iter().position(|t| t.is_word("SELECT"))? } else { 0 };
    let [verb, count, open, distinct, column, close, rest @ ..] = tokens.get(select..)? else { return None };
    let shape = verb.is_word("SELECT") && count.is_word("count") && open.is_symbol("(") && close.is_symbol(")");
    if !shape || !distinct.is_word("DISTINCT") {
        return None;
    }
    let (alias, rest) = match rest {
        [first, alias, rest @ ..] if first.is_word("AS") => (alias.name()?, rest),
        rest => (text[count.start..close.end()].into(), rest),
    };
    let [from, table, rest @ ..] = rest else { return None };
    let is_single = rest.first().is_none_or(|t| t.is_word("WHERE") || t.is_symbol(";"));
    if !from.is_word("FROM") || !is_single || has_others(rest) {
        return None;
    }
    let def = catalog.table(&table.name()?)?;
    let (_, counted) = def.column(&column.name()?).filter(|(_, c)| !c.hidden)?;
    let leads = |i: &&crate::table::catalog::IndexDef| {
        let first =
            i.columns.first().is_some_and(|c| c.position == counted.position && c.collation == counted.collation);
        first && i.method == Method::Ordered && i.filter.is_none()
    };
    def.indexes.iter().find(leads)?;
    let column = quote_name(&counted.name);
    let begin = format!("SELECT count({column}) AS {} FROM (SELECT DISTINCT {column} ", quote_name(&alias));
    let end = tokens.iter().rev().find(|t| !t.is_symbol(";"))?.end();
    Some(vec![Edit { start: verb.start, end: from.start, text: begin }, Edit { start: end, end, text: ")".into() }])
}

fn has_others(rest: &[Token<'_>]) -> bool {
    let mut depth = 0usize;
    rest.iter().any(|token| {
        depth += usize::from(token.is_symbol("("));
        depth = depth.saturating_sub(usize::from(token.is_symbol(")")));
        depth == 0 && OTHERS.iter().any(|word| token.is_word(word))
    })
}
