//! What is changed in a statement's text before SQLite sees it, where its tables are not quite SQLite's.

mod defaults;
mod distinct;
mod hidden;
mod insert;
mod matcher;
mod nulls;
mod place;
mod scope;

use super::token::{Token, Tokens};
use crate::error::Result;
use crate::table::catalog::Catalog;
use std::borrow::Cow;

/// A piece of text that takes the place of another.
#[derive(Clone, Debug, PartialEq)]
struct Edit {
    /// Byte position of the first byte that goes.
    start: usize,
    /// Byte position after the last byte that goes.
    end: usize,
    /// What comes.
    text: String,
}

/// The text as SQLite may see it, the best form first; if SQLite refuses that, the next one tells why. `tokens` are those
/// of the one statement in the text.
pub fn forms<'a>(catalog: &Catalog, text: &'a str, tokens: &[Token<'_>]) -> Result<Vec<Cow<'a, str>>> {
    let mut edits = defaults::give_values(catalog, text, tokens)?;
    edits.extend(insert::name_columns(catalog, tokens));
    let plain = apply(text, edits);
    let has_hidden = catalog.tables().any(|def| def.columns.last().is_some_and(|c| c.hidden));
    let counts = tokens.iter().any(|t| t.is_word("DISTINCT"));
    if !has_hidden && !counts {
        return Ok(vec![plain]);
    }
    let Ok(tokens) = Tokens::all(&plain) else { return Ok(vec![plain]) };
    let mut edits = if has_hidden { hidden::use_columns(catalog, &tokens) } else { Vec::new() };
    edits.extend(distinct::count_rows(catalog, &plain, &tokens));
    if edits.is_empty() {
        return Ok(vec![plain]);
    }
    Ok(vec![Cow::Owned(apply(&plain, edits).into_owned()), plain])
}

/// Carries out edits, which do not overlap.
fn apply(text: &str, mut edits: Vec<Edit>) -> Cow<'_, str> {
    if edits.is_empty() {
        return Cow::Borrowed(text);
    }
    edits.sort_by_key(|edit| (edit.start, edit.end));
    let mut result = String::with_capacity(text.len());
    let mut copied = 0;
    for edit in edits {
        if edit.start >= copied {
            result += &text[copied..edit.start];
            result += &edit.text;
            copied = edit.end;
        }
    }
    Cow::Owned(result + &text[copied..])
}
