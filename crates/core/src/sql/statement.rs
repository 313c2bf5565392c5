//! Reads a statement just far enough to know what to do with it: ours, SQLite's, or refused.

use super::call::{self, Call};
use super::control::{self, Control};
use super::error::{sql, syntax};
use super::run::Traits;
use super::token::{Kind, Token, Tokens, is_keyword, quote_name};
use crate::error::Result;
use std::borrow::Cow;

/// What a statement is.
#[derive(Clone, Debug, PartialEq)]
pub enum Class {
    /// One of our own; to be read by `ddl`.
    Ddl,
    /// A transaction is opened or ended.
    Control(Control),
    /// A procedure is called.
    Call(Call),
    /// TRUNCATE of the table called so.
    Truncate(String),
    /// Rows are asked for or written.
    Query(Traits),
    /// REINDEX or ANALYZE, of everything or of the table or index named.
    Maintenance(Option<String>),
    /// EXPLAIN of the statement that begins at this byte.
    Explain(usize, Traits),
}

/// Classifies a text, which must be one statement.
pub fn classify(text: &str) -> Result<(Class, Vec<Token<'_>>)> {
    let mut tokens = Tokens::all(text)?;
    while tokens.last().is_some_and(|t| t.is_symbol(";")) {
        tokens.pop();
    }
    if let Some(end) = tokens.iter().position(|t| t.is_symbol(";")) {
        let next = tokens.get(end + 1).map_or(text.len(), |t| t.start);
        return Err(syntax(text, next, "one statement at a time: a second one begins here"));
    }
    let Some(first) = tokens.first() else { return Err(sql("the statement is empty")) };
    let class = class_of(text, *first, &tokens)?;
    Ok((class, tokens))
}

fn class_of(text: &str, first: Token<'_>, tokens: &[Token<'_>]) -> Result<Class> {
    let is = |words: &[&str]| words.iter().any(|word| first.is_word(word));
    if is(&["SELECT", "VALUES", "WITH", "INSERT", "REPLACE", "UPDATE", "DELETE"]) {
        return Ok(Class::Query(traits(tokens)));
    }
    if is(&["CREATE", "DROP", "ALTER", "RENAME", "SHOW", "DESCRIBE", "DESC"]) {
        return Ok(Class::Ddl);
    }
    if is(&["EXPLAIN"]) {
        return explain(text, tokens);
    }
    if is(&["TRUNCATE"]) {
        return truncate(text, tokens);
    }
    if is(&["ANALYZE", "REINDEX"]) {
        return maintenance(text, &tokens[1..]);
    }
    if is(&["BEGIN", "START", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE"]) {
        return control::parse(text, tokens).map(Class::Control);
    }
    if is(&["CALL"]) {
        return call::parse(text, tokens).map(Class::Call);
    }
    if is(&["PRAGMA", "ATTACH", "DETACH", "VACUUM"]) {
        return Err(sql(format!("{} is not part of Peryton's SQL", first.text.to_ascii_uppercase())));
    }
    Err(syntax(text, first.start, format!("expected a statement, found {}", first.text)))
}

fn maintenance(text: &str, tokens: &[Token<'_>]) -> Result<Class> {
    let name = |token: &Token<'_>| token.name().map(Into::into);
    match tokens {
        [] => Ok(Class::Maintenance(None)),
        [only] if name(only).is_some() => Ok(Class::Maintenance(name(only))),
        [first, ..] => Err(syntax(text, first.start, format!("expected one name, found {}", first.text))),
    }
}

fn explain(text: &str, tokens: &[Token<'_>]) -> Result<Class> {
    let words = |n: usize, word: &str| tokens.get(n).is_some_and(|t| t.is_word(word));
    let analyzes = words(1, "ANALYZE");
    let skipped = if words(1, "QUERY") && words(2, "PLAN") { 3 } else { 1 + usize::from(analyzes) };
    let rest = &tokens[skipped..];
    let Some(first) = rest.first() else { return Err(sql("EXPLAIN of what?")) };
    match class_of(text, *first, rest)? {
        Class::Query(traits) => Ok(Class::Explain(first.start, Traits { explains: true, analyzes, ..traits })),
        _ => Err(syntax(text, first.start, format!("{} has no access path to explain", first.text))),
    }
}

/// `TRUNCATE [TABLE] t`
fn truncate(text: &str, tokens: &[Token<'_>]) -> Result<Class> {
    let at = if tokens.get(1).is_some_and(|t| t.is_word("TABLE")) { 2 } else { 1 };
    let end = tokens.get(at + 1).map_or(text.len(), |t| t.start);
    match tokens.get(at).and_then(Token::name) {
        Some(name) if at + 1 == tokens.len() => Ok(Class::Truncate(name.into_owned())),
        Some(_) => Err(syntax(text, end, "expected the end after the table's name")),
        None => Err(syntax(text, tokens.get(at).map_or(text.len(), |t| t.start), "expected a table's name")),
    }
}

/// What the callbacks must know of a query or write before it is prepared.
fn traits(tokens: &[Token<'_>]) -> Traits {
    let mut traits = Traits {
        parameters: tokens.iter().any(|t| t.kind == Kind::Parameter),
        casts: tokens.iter().any(|t| t.is_word("CAST")),
        row_values: tokens.windows(2).any(|pair| compares_rows(&pair[0], &pair[1])),
        ..Traits::default()
    };
    let mut depth = 0usize;
    let mut writes = None;
    for (i, token) in tokens.iter().enumerate() {
        match token.text {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            _ if depth > 0 || token.kind != Kind::Word => {}
            _ if writes.is_none() && ["INSERT", "REPLACE", "UPDATE", "DELETE"].iter().any(|w| token.is_word(w)) => {
                writes = Some(i);
            }
            _ => {}
        }
    }
    if let Some(at) = writes
        && (tokens[at].is_word("INSERT") || tokens[at].is_word("REPLACE"))
    {
        read_insert(&tokens[at + 1..], &mut traits);
    }
    traits
}

/// May these two tokens belong to a comparison of several columns: a bracket beside a comparison?
fn compares_rows(first: &Token<'_>, second: &Token<'_>) -> bool {
    let compares = |t: &Token<'_>| ["<", "<=", ">", ">="].contains(&t.text) || t.is_word("BETWEEN") || t.is_word("NOT");
    first.is_symbol(")") && compares(second) || compares(first) && second.is_symbol("(")
}

/// `[OR x] INTO [schema.]table [AS alias] [(columns)] | DEFAULT VALUES`. What does not fit is SQLite's to refuse.
fn read_insert(tokens: &[Token<'_>], traits: &mut Traits) {
    let word = |n: usize, word: &str| tokens.get(n).is_some_and(|t| t.is_word(word));
    let symbol = |n: usize, symbol: &str| tokens.get(n).is_some_and(|t| t.is_symbol(symbol));
    let mut at = if word(0, "OR") { 2 } else { 0 };
    at += usize::from(word(at, "INTO"));
    at += if symbol(at + 1, ".") { 3 } else { 1 };
    if word(at, "AS") {
        at += 2;
    }
    traits.default_values = word(at, "DEFAULT") && word(at + 1, "VALUES");
    if symbol(at, "(") {
        let names = tokens[at + 1..].iter().take_while(|t| !t.is_symbol(")"));
        traits.inserted = Some(names.filter_map(Token::name).map(Into::into).collect());
    }
}

/// The text with the names of sources as SQLite reads them: `set(..)` in quotes, as the bare word is the SET of UPDATE, and
/// `information_schema.tables` as one name, known as `tables` unless it is given another.
pub fn with_sources_quoted(text: &str) -> Cow<'_, str> {
    let tokens: Vec<Token<'_>> = Tokens::new(text).map_while(Result::ok).collect();
    let mut quoted = String::new();
    let mut copied = 0;
    for (i, token) in tokens.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|i| tokens.get(i));
        let introduced = before.is_some_and(|t| t.is_word("FROM") || t.is_word("JOIN") || t.is_symbol(","));
        let (end, source) = if introduced && token.is_word("SET") && is_opened(&tokens, i + 1) {
            (token.end(), "\"set\"".to_string())
        } else if let Some(found) = catalog_source(&tokens, i) {
            found
        } else {
            continue;
        };
        quoted += &text[copied..token.start];
        quoted += &source;
        copied = end;
    }
    if copied == 0 { Cow::Borrowed(text) } else { Cow::Owned(quoted + &text[copied..]) }
}

fn is_opened(tokens: &[Token<'_>], at: usize) -> bool {
    tokens.get(at).is_some_and(|next| next.is_symbol("("))
}

/// `information_schema.name` at a token: where it ends, and how SQLite is to read it.
fn catalog_source(tokens: &[Token<'_>], at: usize) -> Option<(usize, String)> {
    let is_name = |t: &Token<'_>| matches!(t.kind, Kind::Word | Kind::Quoted);
    let schema = tokens[at].name().filter(|_| is_name(&tokens[at]))?;
    if !schema.eq_ignore_ascii_case("information_schema") || !tokens.get(at + 1)?.is_symbol(".") {
        return None;
    }
    let name = tokens.get(at + 2).filter(|t| is_name(t))?;
    let own = quote_name(&name.name()?.to_ascii_lowercase());
    let whole = quote_name(&format!("information_schema.{}", name.name()?.to_ascii_lowercase()));
    let source = match tokens.get(at + 3) {
        // A column of it.
        Some(next) if next.is_symbol(".") => own,
        Some(next) if next.is_word("AS") || next.kind == Kind::Quoted => whole,
        Some(next) if next.kind == Kind::Word && !is_keyword(next.text) => whole,
        _ => format!("{whole} AS {own}"),
    };
    Some((name.end(), source))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(text: &str) -> Result<Class> {
        classify(text).map(|(class, _)| class)
    }

    fn inserted(text: &str) -> (Option<Vec<String>>, bool) {
        match class(text).unwrap() {
            Class::Query(traits) => (traits.inserted, traits.default_values),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn statements_are_told_apart() {
        assert_eq!(Class::Ddl, class("create table t (a int);;").unwrap());
        assert_eq!(Class::Query(Traits::default()), class("/* x */ SELECT 1 -- ;").unwrap());
        let Class::Explain(at, traits) = class("EXPLAIN QUERY PLAN SELECT ?").unwrap() else { panic!() };
        assert_eq!((19, true, true), (at, traits.explains, traits.parameters));
        for (text, message) in [
            ("SELECT 1; SELECT 2", "position 11: one statement at a time"),
            ("", "empty"),
            (" ; ", "empty"),
            ("PRAGMA x", "PRAGMA is not part"),
            ("FOO", "expected a statement, found FOO"),
            ("EXPLAIN CREATE TABLE t(a)", "no access path"),
        ] {
            let error = class(text).unwrap_err().message;
            assert!(error.contains(message), "{text}: {error}");
        }
        assert!(class("SELECT 'a;b', \";\"").is_ok());
        assert!(class("SELECT (SELECT 1 AS returning)").is_ok());
    }

    #[test]
    fn the_columns_of_an_insert_are_found() {
        let names = |names: &[&str]| Some(names.iter().map(|n| n.to_string()).collect::<Vec<_>>());
        assert_eq!((names(&["a", "b c"]), false), inserted("INSERT INTO t (a, \"b c\") VALUES (1, 2)"));
        assert_eq!((names(&["a"]), false), inserted("REPLACE INTO t(a) SELECT 1"));
        assert_eq!((names(&["a"]), false), inserted("INSERT OR IGNORE INTO main.t AS x (a) VALUES (1)"));
        assert_eq!((names(&["a"]), false), inserted("WITH q(z) AS (SELECT 1) INSERT INTO t(a) SELECT z FROM q"));
        assert_eq!((None, false), inserted("INSERT INTO t VALUES (1)"));
        assert_eq!((None, false), inserted("INSERT INTO t SELECT (1)"));
        assert_eq!((None, true), inserted("INSERT INTO t DEFAULT VALUES"));
        assert_eq!((None, false), inserted("UPDATE t SET a = (1)"));
    }

    #[test]
    fn the_source_set_is_told_from_the_word() {
        for (text, expected) in [
            (
                "SELECT * FROM set('a') s, set(?) JOIN Set ('b')",
                "SELECT * FROM \"set\"('a') s, \"set\"(?) JOIN \"set\" ('b')",
            ),
            (
                "SELECT information_schema.tables.x FROM Information_Schema.TABLES, information_schema.columns c",
                "SELECT \"tables\".x FROM \"information_schema.tables\" AS \"tables\", \"information_schema.columns\" c",
            ),
            ("UPDATE t SET (a, b) = (1, 2)", "UPDATE t SET (a, b) = (1, 2)"),
            ("SELECT 'FROM set(1)' FROM setting", "SELECT 'FROM set(1)' FROM setting"),
        ] {
            assert_eq!(expected, with_sources_quoted(text));
        }
    }
}
