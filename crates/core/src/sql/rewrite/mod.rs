//! What is changed in a statement's text before SQLite sees it, where its tables are not quite SQLite's.

mod hidden;
mod insert;
mod matcher;
mod scope;

use super::token::{Token, Tokens};
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
pub fn forms<'a>(catalog: &Catalog, text: &'a str, tokens: &[Token<'_>]) -> Vec<Cow<'a, str>> {
    let edits: Vec<Edit> = insert::name_columns(catalog, tokens).into_iter().collect();
    let plain = apply(text, edits);
    if !catalog.tables().any(|def| def.columns.last().is_some_and(|c| c.hidden)) {
        return vec![plain];
    }
    let Ok(tokens) = Tokens::all(&plain) else { return vec![plain] };
    let edits = hidden::use_columns(catalog, &tokens);
    if edits.is_empty() {
        return vec![plain];
    }
    vec![Cow::Owned(apply(&plain, edits).into_owned()), plain]
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
