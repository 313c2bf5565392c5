//! Expressions in definitions: where they end, and the first look at what they may hold.

use super::parser::Parser;
use crate::error::Result;
use crate::sql::error::syntax;
use crate::sql::token::{Kind, Token};

impl Parser<'_> {
    /// `(expression)`: the text between the parentheses. `whose` names it in errors ("a CHECK").
    pub(super) fn expression(&mut self, whose: &str) -> Result<String> {
        if !self.is_symbol("(") {
            return Err(self.expected("an expression in parentheses"));
        }
        let open = self.at;
        self.skip_parentheses()?;
        self.stands_alone(open, whose)?;
        let close = self.at;
        if close - open == 2 {
            return Err(syntax(self.text, self.tokens[open].start, format!("{whose} without an expression")));
        }
        let (first, last) = (&self.tokens[open + 1], &self.tokens[close - 2]);
        Ok(self.text[first.start..last.end()].to_string())
    }

    /// A literal, with a sign, a word such as CURRENT_TIMESTAMP, or an expression in parentheses.
    pub(super) fn default_value(&mut self) -> Result<String> {
        let start = self.at;
        if self.is_symbol("(") {
            self.skip_parentheses()?;
        } else {
            let _ = self.take_symbol("-") || self.take_symbol("+");
            let fits = |t: &Token<'_>| !matches!(t.kind, Kind::Symbol | Kind::Parameter);
            match self.peek() {
                Some(token) if fits(token) => self.at += 1,
                _ => return Err(self.expected("a value or an expression in parentheses")),
            }
            // DEFAULT now(): the parentheses belong to the word.
            if self.tokens[self.at - 1].kind == Kind::Word && self.is_symbol("(") {
                self.skip_parentheses()?;
            }
        }
        self.stands_alone(start, "a default")?;
        Ok(self.text_from(start))
    }

    /// Refuses queries and parameters in the expression from token `start` up to here: it is evaluated for each row,
    /// inside another statement.
    pub(super) fn stands_alone(&self, start: usize, whose: &str) -> Result<()> {
        let tokens = &self.tokens[start..self.at];
        let reads = |(i, token): &(usize, &Token<'_>)| {
            let of_table = token.is_word("IN") && !tokens.get(i + 1).is_some_and(|next| next.is_symbol("("));
            of_table || ["SELECT", "VALUES", "WITH"].iter().any(|word| token.is_word(word))
        };
        if let Some((_, token)) = tokens.iter().enumerate().find(reads) {
            return Err(syntax(self.text, token.start, format!("{whose} cannot query")));
        }
        match tokens.iter().find(|token| token.kind == Kind::Parameter) {
            Some(token) => Err(syntax(self.text, token.start, format!("{whose} cannot have parameters"))),
            None => Ok(()),
        }
    }

    /// Steps over `(...)`, whatever is in it.
    pub(super) fn skip_parentheses(&mut self) -> Result<()> {
        let mut depth = 0usize;
        while let Some(token) = self.peek() {
            depth += usize::from(token.is_symbol("("));
            depth -= usize::from(token.is_symbol(")"));
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
        Err(self.expected("')'"))
    }

    /// Steps to the next `,` or `)` that belongs to the list around this place.
    pub(super) fn skip_list_item(&mut self) -> Result<()> {
        while let Some(token) = self.peek() {
            if token.is_symbol("(") {
                self.skip_parentheses()?;
            } else if token.is_symbol(",") || token.is_symbol(")") {
                return Ok(());
            } else {
                self.at += 1;
            }
        }
        Err(self.expected("')'"))
    }
}
