//! The place of a reader among the tokens of a statement, and the steps that all its parts take.

use crate::error::{Error, Result};
use crate::sql::error::syntax;
use crate::sql::token::{Kind, Token};
use crate::table::catalog::Method;
use crate::table::types::Collation;

pub(super) struct Parser<'a> {
    pub text: &'a str,
    pub tokens: Vec<Token<'a>>,
    pub at: usize,
}

impl<'a> Parser<'a> {
    pub fn new(text: &'a str, tokens: Vec<Token<'a>>) -> Parser<'a> {
        Parser { text, tokens, at: 0 }
    }

    pub fn peek(&self) -> Option<&Token<'a>> {
        self.tokens.get(self.at)
    }

    pub fn is(&self, word: &str) -> bool {
        self.peek().is_some_and(|t| t.is_word(word))
    }

    pub fn is_symbol(&self, symbol: &str) -> bool {
        self.peek().is_some_and(|t| t.is_symbol(symbol))
    }

    /// Is the token `n` places further on this word?
    pub fn ahead_is(&self, n: usize, word: &str) -> bool {
        self.tokens.get(self.at + n).is_some_and(|t| t.is_word(word))
    }

    /// Is the token `n` places further on this symbol?
    pub fn ahead_is_symbol(&self, n: usize, symbol: &str) -> bool {
        self.tokens.get(self.at + n).is_some_and(|t| t.is_symbol(symbol))
    }

    pub fn take(&mut self, word: &str) -> bool {
        let found = self.is(word);
        self.at += usize::from(found);
        found
    }

    pub fn take_symbol(&mut self, symbol: &str) -> bool {
        let found = self.is_symbol(symbol);
        self.at += usize::from(found);
        found
    }

    pub fn word(&mut self, word: &str) -> Result<()> {
        if self.take(word) { Ok(()) } else { Err(self.expected(word)) }
    }

    pub fn symbol(&mut self, symbol: &str, what: &str) -> Result<()> {
        if self.take_symbol(symbol) { Ok(()) } else { Err(self.expected(what)) }
    }

    pub fn name(&mut self, what: &str) -> Result<String> {
        match self.peek().and_then(Token::name) {
            Some(name) if !name.is_empty() => {
                self.at += 1;
                Ok(name.into_owned())
            }
            _ => Err(self.expected(what)),
        }
    }

    /// `(name, ...)`
    pub fn names(&mut self, what: &str) -> Result<Vec<String>> {
        self.symbol("(", &format!("'(' and {what}s"))?;
        let mut names = vec![self.name(what)?];
        while self.take_symbol(",") {
            names.push(self.name(what)?);
        }
        self.symbol(")", "',' or ')'")?;
        Ok(names)
    }

    pub fn string(&mut self, what: &str) -> Result<()> {
        match self.peek() {
            Some(token) if token.kind == Kind::Text => self.at += 1,
            _ => return Err(self.expected(what)),
        }
        Ok(())
    }

    /// A text in quotes.
    pub fn text(&mut self, what: &str) -> Result<String> {
        match self.peek() {
            Some(token) if token.kind == Kind::Text => {
                let text = token.unquoted().into_owned();
                self.at += 1;
                Ok(text)
            }
            _ => Err(self.expected(what)),
        }
    }

    /// The number that comes next, as it is written.
    pub fn number(&mut self) -> Option<String> {
        let token = self.peek().filter(|token| matches!(token.kind, Kind::Integer | Kind::Float))?;
        let text = token.text.to_string();
        self.at += 1;
        Some(text)
    }

    /// The whole number that comes next, if one does.
    pub fn integer(&mut self) -> Option<Result<u64>> {
        let token = self.peek().filter(|token| token.kind == Kind::Integer)?;
        let Ok(number) = token.text.parse() else { return Some(Err(self.expected("a whole number"))) };
        self.at += 1;
        Some(Ok(number))
    }

    pub fn if_not_exists(&mut self) -> Result<bool> {
        if !self.take("IF") {
            return Ok(false);
        }
        self.word("NOT")?;
        self.word("EXISTS")?;
        Ok(true)
    }

    pub fn if_exists(&mut self) -> Result<bool> {
        if !self.take("IF") {
            return Ok(false);
        }
        self.word("EXISTS")?;
        Ok(true)
    }

    pub fn direction(&mut self) -> bool {
        let desc = self.take("DESC");
        if !desc {
            self.take("ASC");
        }
        desc
    }

    pub fn using(&mut self) -> Result<Option<Method>> {
        if !self.take("USING") {
            return Ok(None);
        }
        if self.take("HASH") {
            return Ok(Some(Method::Hash));
        }
        if self.take("BTREE") {
            return Ok(Some(Method::Ordered));
        }
        Err(self.expected("HASH or BTREE"))
    }

    pub fn collation(&mut self) -> Result<Collation> {
        for (word, collation) in
            [("BINARY", Collation::Binary), ("NOCASE", Collation::NoCase), ("RTRIM", Collation::RTrim)]
        {
            if self.take(word) {
                return Ok(collation);
            }
        }
        // Only what SHOW CREATE TABLE writes of an index that differs from its column.
        if self.take("DECIMAL") {
            return Ok(Collation::Decimal);
        }
        Err(self.expected("BINARY, NOCASE or RTRIM"))
    }

    pub fn expected(&self, what: &str) -> Error {
        match self.peek() {
            Some(token) => syntax(self.text, token.start, format!("expected {what}, found {}", token.text)),
            None => syntax(self.text, self.text.trim_end().len(), format!("expected {what}, found the end")),
        }
    }

    /// The text of the tokens from `start` up to here.
    pub fn text_from(&self, start: usize) -> String {
        match self.tokens.get(start..self.at) {
            Some([first, .., last]) => self.text[first.start..last.end()].to_string(),
            Some([only]) => only.text.to_string(),
            _ => String::new(),
        }
    }
}
