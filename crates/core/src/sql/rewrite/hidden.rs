//! Puts the hidden columns of expression and partial indexes into a query that holds their expressions.
//!
//! An expression of an index that stands in WHERE, ON or ORDER BY becomes the column that keeps its value. A query whose
//! conditions include those of a partial index gets the index's own column as one more condition. Both only where the
//! text tells surely which table is meant: a name that might be another's stays.

use super::Edit;
use super::matcher::Pattern;
use super::nulls;
use super::place::Query;
use super::scope::{Clause, Named, and_terms, tables};
use crate::sql::token::{Token, Tokens, quote_name};
use crate::sql::vtab;
use crate::table::catalog::{Catalog, ColumnDef};
use crate::table::types::Collation;

/// The edits that make a query use hidden columns.
pub fn use_columns(catalog: &Catalog, tokens: &[Token<'_>]) -> Vec<Edit> {
    let mut edits = Vec::new();
    let made_up = nulls::are_made_up(tokens);
    let tables = tables(catalog, tokens);
    if tables.is_empty() {
        return edits;
    }
    let query = Query::new(catalog, tokens);
    for named in tables {
        let is_filter = |column: &ColumnDef| named.def.indexes.iter().any(|i| i.filter == Some(column.position));
        for column in named.def.columns.iter().filter(|c| c.hidden) {
            let Some(expression) = &column.generated else { continue };
            let Ok(wanted) = Tokens::all(expression) else { continue };
            if is_filter(column) {
                add_condition(tokens, &named, column, &wanted, &mut edits);
            } else if !made_up || nulls::give_null(&wanted, &named.def) {
                replace(&query, &named, column, &wanted, &mut edits);
            }
        }
    }
    edits
}

fn column_text(named: &Named, column: &ColumnDef, qualified: bool) -> String {
    let name = quote_name(&column.name);
    if qualified { format!("{}.{name}", quote_name(&named.alias)) } else { name }
}

/// The column in the place of its expression. If that brings a collation along, it must be told; what other collations the
/// query names would then weigh less, so with any of them the expression stays.
fn value_text(query: &[Token<'_>], named: &Named, column: &ColumnDef, qualified: bool) -> Option<String> {
    let text = column_text(named, column, qualified);
    match column.collation {
        Collation::Binary => Some(text),
        _ if query.iter().any(|t| t.is_word("COLLATE")) => None,
        collation => Some(format!("{text} COLLATE {}", vtab::name(collation))),
    }
}

fn replace(query: &Query<'_>, named: &Named, column: &ColumnDef, wanted: &[Token<'_>], edits: &mut Vec<Edit>) {
    let tokens = query.tokens;
    let pattern = Pattern::new(wanted, &named.def);
    let has = |word: &str| tokens.iter().any(|t| t.is_word(word));
    // There ORDER BY must name what is selected.
    let orders = !(has("GROUP") || has("DISTINCT") || has("UNION") || has("EXCEPT") || has("INTERSECT"));
    for at in 0..tokens.len() {
        let Some(found) = pattern.at(tokens, at, named) else { continue };
        let fits = match query.clauses[at] {
            Clause::Condition => query.fits_condition(at..found.end, column, pattern.compares()),
            Clause::Order => orders && query.fits_order(at..found.end, pattern.compares()),
            Clause::Other => false,
        };
        if fits {
            let (start, end) = (tokens[at].start, tokens[found.end - 1].end());
            let text = value_text(tokens, named, column, found.qualified);
            edits.extend(text.map(|text| Edit { start, end, text }));
        }
    }
}

/// Adds `column = 1` to a WHERE whose terms include all terms of the condition.
fn add_condition(query: &[Token<'_>], named: &Named, column: &ColumnDef, wanted: &[Token<'_>], edits: &mut Vec<Edit>) {
    // `(condition) IS TRUE`
    let Some(condition) = wanted.len().checked_sub(3).and_then(|end| wanted.get(1..end)) else { return };
    // A condition with OR is one term.
    let parts = and_terms(condition, 0).unwrap_or_else(|| std::iter::once(0..condition.len()).collect());
    if nulls::are_made_up(query) && !parts.iter().any(|part| nulls::fail(&condition[part.clone()], &named.def)) {
        return;
    }
    let patterns: Vec<_> = parts.into_iter().map(|part| Pattern::new(&condition[part], &named.def)).collect();
    add_if_all(query, named, column, &patterns, edits);
}

fn add_if_all(query: &[Token<'_>], named: &Named, column: &ColumnDef, patterns: &[Pattern<'_>], edits: &mut Vec<Edit>) {
    for (at, _) in query.iter().enumerate().filter(|(_, t)| t.is_word("WHERE")) {
        let Some(terms) = and_terms(query, at + 1) else { continue };
        let matches = |pattern: &Pattern<'_>| {
            terms.iter().find_map(|term| {
                let inner = crate::sql::ddl::bare(&query[term.clone()]);
                let found = pattern.at(inner, 0, named)?;
                (found.end == inner.len()).then_some((term.end, found.qualified))
            })
        };
        let Some(found) = patterns.iter().map(matches).collect::<Option<Vec<_>>>() else { continue };
        let Some((end, qualified)) = found.into_iter().max() else { continue };
        let place = query[end - 1].end();
        let text = format!(" AND {} = 1", column_text(named, column, qualified));
        edits.push(Edit { start: place, end: place, text });
    }
}
