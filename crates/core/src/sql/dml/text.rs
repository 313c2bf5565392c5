//! A statement's tokens with their depth and their parameters' numbers, and texts made of parts of it.

use crate::sql::origin::Origin;
use crate::sql::token::{Kind, Token, is_keyword};
use std::ops::Range;

/// The tokens of a statement.
pub struct Script<'t> {
    text: &'t str,
    tokens: &'t [Token<'t>],
    depths: Vec<u32>,
    /// For each token that is a parameter, its number from 1.
    numbers: Vec<usize>,
    /// The highest number of a parameter.
    pub parameters: usize,
}

impl<'t> Script<'t> {
    /// Looks at the tokens of `text`.
    pub fn new(text: &'t str, tokens: &'t [Token<'t>]) -> Script<'t> {
        let mut script =
            Script { text, tokens, depths: Vec::with_capacity(tokens.len()), numbers: Vec::new(), parameters: 0 };
        let mut depth = 0u32;
        let mut names: Vec<&str> = Vec::new();
        for token in tokens {
            if token.is_symbol(")") {
                depth = depth.saturating_sub(1);
            }
            // A parenthesis has the depth of what is around it.
            script.depths.push(depth);
            depth += u32::from(token.is_symbol("("));
            let number = if token.kind == Kind::Parameter { script.number(token.text, &mut names) } else { 0 };
            script.numbers.push(number);
            script.parameters = script.parameters.max(number);
        }
        script
    }

    /// SQLite's rules: `?` is one more than the highest so far, and so is a name when it comes first.
    fn number(&self, text: &'t str, names: &mut Vec<&'t str>) -> usize {
        if text == "?" {
            return self.parameters + 1;
        }
        if let Some(number) = text.strip_prefix('?') {
            return number.parse().unwrap_or(usize::MAX);
        }
        if let Some(at) = names.iter().position(|name| *name == text) {
            let first = self.tokens.iter().position(|t| t.text == names[at]);
            return first.map_or(0, |first| self.numbers[first]);
        }
        names.push(text);
        self.parameters + 1
    }

    /// How many tokens there are.
    pub fn count(&self) -> usize {
        self.tokens.len()
    }

    /// The whole text.
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// A token.
    pub fn token(&self, at: usize) -> Option<&'t Token<'t>> {
        self.tokens.get(at)
    }

    /// How many parentheses are open around a token.
    pub fn depth(&self, at: usize) -> u32 {
        self.depths.get(at).copied().unwrap_or(0)
    }

    /// The number of a parameter.
    pub fn parameter(&self, at: usize) -> Option<usize> {
        self.numbers.get(at).copied().filter(|number| *number > 0)
    }

    /// Is the token this word?
    pub fn is_word(&self, at: usize, word: &str) -> bool {
        self.token(at).is_some_and(|token| token.is_word(word))
    }

    /// Is the token this symbol?
    pub fn is_symbol(&self, at: usize, symbol: &str) -> bool {
        self.token(at).is_some_and(|token| token.is_symbol(symbol))
    }

    /// Is it a name that is no keyword, or in quotes?
    pub fn is_plain_name(&self, at: usize) -> bool {
        self.token(at).is_some_and(|token| match token.kind {
            Kind::Word => !is_keyword(token.text),
            Kind::Quoted => true,
            _ => false,
        })
    }

    /// Is it a text or a parameter?
    pub fn is_text_or_parameter(&self, at: usize) -> bool {
        self.token(at).is_some_and(|token| matches!(token.kind, Kind::Text | Kind::Parameter))
    }

    /// The byte at which a token starts, or the end.
    pub fn start(&self, at: usize) -> usize {
        self.token(at).map_or(self.text.len(), |token| token.start)
    }

    /// The place of a token as people count.
    pub fn position(&self, at: usize) -> usize {
        self.text[..self.start(at)].chars().count() + 1
    }

    /// The text of some tokens.
    pub fn slice(&self, span: Range<usize>) -> &'t str {
        match span.is_empty() {
            true => "",
            false => &self.text[self.tokens[span.start].start..self.tokens[span.end - 1].end()],
        }
    }

    /// The parenthesis that closes the one at `open`.
    pub fn close(&self, open: usize) -> Option<usize> {
        (open + 1..self.count()).find(|at| self.depths[*at] == self.depths[open] && self.is_symbol(*at, ")"))
    }

    /// Some tokens, split at the commas that are in no parentheses of theirs.
    pub fn list(&self, span: Range<usize>) -> Vec<Range<usize>> {
        let depth = self.depth(span.start);
        let mut items = Vec::new();
        let mut start = span.start;
        for at in span.clone() {
            if self.depths[at] == depth && self.is_symbol(at, ",") {
                items.push(start..at);
                start = at + 1;
            }
        }
        items.push(start..span.end);
        items
    }
}

/// Changes of a text, token by token, made all at once.
#[derive(Debug, Default)]
pub struct Rewrite {
    /// In order of their places: tokens and what stands instead of them.
    changes: Vec<(Range<usize>, String)>,
}

impl Rewrite {
    /// Is nothing changed?
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Puts a text in the place of tokens.
    pub fn replace(&mut self, span: Range<usize>, text: &str) {
        self.changes.push((span, text.to_string()));
    }

    /// Puts a text before a token.
    pub fn insert(&mut self, at: usize, text: &str) {
        self.replace(at..at, text);
    }

    /// Leaves tokens out.
    pub fn cut(&mut self, span: Range<usize>) {
        self.replace(span, "");
    }

    /// The changed text, and where its pieces come from.
    pub fn apply(&self, script: &Script<'_>) -> (String, Origin) {
        let mut origin = Origin::default();
        let mut text = String::with_capacity(script.text().len() + 64);
        let mut copied = 0;
        for (span, new) in &self.changes {
            // Up to the token before: a comment between could swallow what comes now.
            let end = span.start.checked_sub(1).and_then(|at| script.token(at)).map_or(0, |token| token.end());
            if let Some(piece) = script.text().get(copied..end) {
                origin.copied(text.len(), copied, piece.len());
                text += piece;
            }
            if !new.is_empty() {
                text.push(' ');
                text += new;
            }
            text.push(' ');
            copied = script.start(span.end);
        }
        origin.copied(text.len(), copied, script.text().len() - copied);
        text += &script.text()[copied..];
        (text.trim_end().to_string(), origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::token::Tokens;

    #[test]
    fn parameters_are_numbered_as_sqlite_does() {
        let text = "? ?5 :a ? :a @b ?2";
        let tokens = Tokens::all(text).unwrap();
        let script = Script::new(text, &tokens);
        let numbers: Vec<usize> = (0..script.count()).filter_map(|at| script.parameter(at)).collect();
        assert_eq!(vec![1, 5, 6, 7, 6, 8, 2], numbers);
        assert_eq!(8, script.parameters);
        let connection = crate::sql::sqlite::Connection::open_native().unwrap();
        let prepared = connection.prepare("SELECT ?, ?5, :a, ?, :a, @b, ?2", false).unwrap();
        assert_eq!(script.parameters, prepared.parameter_count());
    }

    #[test]
    fn lists_are_split_outside_of_parentheses() {
        let text = "x (a, f(b, c), (d))";
        let tokens = Tokens::all(text).unwrap();
        let script = Script::new(text, &tokens);
        let close = script.close(1).unwrap();
        let items: Vec<&str> = script.list(2..close).into_iter().map(|span| script.slice(span)).collect();
        assert_eq!(vec!["a", "f(b, c)", "(d)"], items);
    }
}
