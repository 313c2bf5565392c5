//! Which columns the names in a query may mean: the tables that it names, and where each clause begins and ends.

use crate::sql::token::{Kind, Token, is_keyword};
use crate::table::catalog::{Catalog, TableDef};
use std::collections::HashMap;
use std::sync::Arc;

/// A table that a query names once, so that names can be told to mean it.
pub struct Named {
    /// The table.
    pub def: Arc<TableDef>,
    /// What its columns may be qualified with.
    pub alias: String,
    /// Columns without a qualifier are surely its own.
    pub alone: bool,
}

/// Most tables of a statement that are looked at, as each costs a walk through the text. SQLite joins as many.
const TABLES_MAX: usize = 64;

/// The tables with hidden columns that a statement names; none when there are too many.
pub fn tables(catalog: &Catalog, tokens: &[Token<'_>]) -> Vec<Named> {
    let mut mentions = None;
    let found: Vec<Named> =
        (0..tokens.len()).filter_map(|at| named(catalog, tokens, at, &mut mentions)).take(TABLES_MAX + 1).collect();
    if found.len() > TABLES_MAX { Vec::new() } else { found }
}

/// How often each name stands where it is no qualifier, by its small letters.
type Mentions = HashMap<String, usize>;

fn mentions(tokens: &[Token<'_>]) -> Mentions {
    let mut counts = Mentions::new();
    for (i, token) in tokens.iter().enumerate() {
        let qualifies = tokens.get(i + 1).is_some_and(|t| t.is_symbol("."));
        if let Some(name) = token.name().filter(|_| token.kind != Kind::Text && !qualifies) {
            *counts.entry(name.to_ascii_lowercase()).or_default() += 1;
        }
    }
    counts
}

fn named(catalog: &Catalog, tokens: &[Token<'_>], at: usize, counts: &mut Option<Mentions>) -> Option<Named> {
    let token = &tokens[at];
    let before = tokens.get(at.checked_sub(1)?)?;
    let introduced = ["FROM", "JOIN", "UPDATE", "IGNORE", "REPLACE", "ABORT"].iter().any(|word| before.is_word(word));
    if !matches!(token.kind, Kind::Word | Kind::Quoted) || !(introduced || before.is_symbol(",")) {
        return None;
    }
    let def = catalog.table(&token.name()?)?;
    if !def.columns.last().is_some_and(|c| c.hidden) || tokens.get(at + 1).is_some_and(|t| t.is_symbol(".")) {
        return None;
    }
    let (alias, next) = alias(tokens, at);
    let alias = alias.unwrap_or_else(|| token.name().unwrap_or_default().into_owned());
    // The alias is told by its one place that is no qualifier: nothing else may have the name.
    let counts = counts.get_or_insert_with(|| mentions(tokens));
    if counts.get(&alias.to_ascii_lowercase()) != Some(&1) {
        return None;
    }
    Some(Named { def: def.clone(), alias, alone: !before.is_symbol(",") && is_alone(tokens, next) })
}

/// The other name of the table at `at`, and the place after it.
fn alias(tokens: &[Token<'_>], at: usize) -> (Option<String>, usize) {
    let name = |n: usize| tokens.get(n).and_then(Token::name).map(|name| name.into_owned());
    match tokens.get(at + 1) {
        Some(next) if next.is_word("AS") => (name(at + 2), at + 3),
        Some(next) if next.kind == Kind::Quoted || (next.kind == Kind::Word && !is_keyword(next.text)) => {
            (name(at + 1), at + 2)
        }
        _ => (None, at + 1),
    }
}

/// Is the table the only one of the statement? `next` is the place after it.
fn is_alone(tokens: &[Token<'_>], next: usize) -> bool {
    let count = |word: &str| tokens.iter().filter(|t| t.is_word(word)).count();
    let updates = tokens.iter().any(|t| t.is_word("UPDATE"));
    let froms = if updates { 0 } else { 1 };
    let ends = ["WHERE", "GROUP", "ORDER", "LIMIT", "SET", "WINDOW"];
    count("SELECT") <= 1
        && count("FROM") == froms
        && count("JOIN") + count("WITH") + count("VALUES") == 0
        && tokens.get(next).is_none_or(|t| t.is_symbol(";") || ends.iter().any(|word| t.is_word(word)))
}

/// What part of a query a token stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clause {
    /// WHERE or ON.
    Condition,
    /// ORDER BY.
    Order,
    /// Anything else.
    Other,
}

/// The clause that each token stands in; parentheses inherit it.
pub fn clauses(tokens: &[Token<'_>]) -> Vec<Clause> {
    let mut stack = vec![Clause::Other];
    let mut clauses = Vec::with_capacity(tokens.len());
    for token in tokens {
        let here = *stack.last().unwrap_or(&Clause::Other);
        clauses.push(here);
        if token.is_symbol("(") {
            stack.push(here);
        } else if token.is_symbol(")") && stack.len() > 1 {
            stack.pop();
        } else if let Some(clause) = begun_by(token)
            && let Some(top) = stack.last_mut()
        {
            *top = clause;
        }
    }
    clauses
}

fn begun_by(token: &Token<'_>) -> Option<Clause> {
    const OTHERS: [&str; 12] = [
        "SELECT",
        "FROM",
        "GROUP",
        "HAVING",
        "LIMIT",
        "SET",
        "VALUES",
        "RETURNING",
        "UNION",
        "EXCEPT",
        "INTERSECT",
        "WINDOW",
    ];
    if token.is_word("WHERE") || token.is_word("ON") {
        Some(Clause::Condition)
    } else if token.is_word("ORDER") {
        Some(Clause::Order)
    } else {
        OTHERS.iter().any(|word| token.is_word(word)).then_some(Clause::Other)
    }
}

/// The terms joined by AND after the token `start`, up to the end of the clause, as ranges of tokens. None when OR joins
/// any, or when there is no telling.
pub fn and_terms(tokens: &[Token<'_>], start: usize) -> Option<Vec<std::ops::Range<usize>>> {
    const ENDS: [&str; 11] =
        ["GROUP", "ORDER", "HAVING", "LIMIT", "WINDOW", "RETURNING", "UNION", "EXCEPT", "INTERSECT", "WHERE", "JOIN"];
    let (mut terms, mut first, mut depth, mut between) = (Vec::new(), start, 0usize, false);
    let mut at = start;
    while let Some(token) = tokens.get(at) {
        if token.is_symbol("(") || token.is_word("CASE") {
            depth += 1;
        } else if token.is_symbol(")") || token.is_word("END") {
            let Some(outer) = depth.checked_sub(1) else { break };
            depth = outer;
        } else if depth == 0 {
            if token.is_symbol(";") || token.is_symbol(",") || ENDS.iter().any(|word| token.is_word(word)) {
                break;
            }
            if token.is_word("OR") {
                return None;
            }
            if token.is_word("BETWEEN") {
                between = true;
            } else if token.is_word("AND") && !std::mem::take(&mut between) {
                terms.push(first..at);
                first = at + 1;
            }
        }
        at += 1;
    }
    terms.push(first..at);
    terms.iter().all(|term| !term.is_empty()).then_some(terms)
}
