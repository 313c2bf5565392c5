//! The statements that open and end transactions: BEGIN, COMMIT, ROLLBACK, SAVEPOINT, RELEASE, in the spellings of
//! SQLite, MySQL and PostgreSQL.

use super::error::{sql, syntax};
use super::token::Token;
use crate::error::Result;
use crate::session::Durability;

/// What to do with the session's transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// BEGIN, START TRANSACTION.
    Begin {
        /// It may not write.
        read_only: bool,
        /// What the reply to its COMMIT promises; None: what the session's replies do.
        durability: Option<Durability>,
    },
    /// COMMIT, END.
    Commit,
    /// ROLLBACK.
    Rollback,
    /// SAVEPOINT name.
    Savepoint(String),
    /// RELEASE name.
    Release(String),
    /// ROLLBACK TO name.
    RollbackTo(String),
}

/// What is left of a statement.
struct Rest<'a, 't> {
    text: &'a str,
    tokens: &'t [Token<'a>],
}

impl Rest<'_, '_> {
    fn word(&mut self, word: &str) -> bool {
        let is = self.tokens.first().is_some_and(|token| token.is_word(word));
        self.tokens = &self.tokens[usize::from(is)..];
        is
    }

    fn any(&mut self, words: &[&str]) -> bool {
        words.iter().any(|word| self.word(word))
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        if self.word(word) { Ok(()) } else { Err(self.error(word)) }
    }

    fn error(&self, expected: &str) -> crate::error::Error {
        match self.tokens.first() {
            Some(token) => syntax(self.text, token.start, format!("expected {expected}, found {}", token.text)),
            None => syntax(self.text, self.text.len(), format!("expected {expected}")),
        }
    }

    fn name(&mut self) -> Result<String> {
        let name = self.tokens.first().and_then(Token::name).ok_or_else(|| self.error("the name of a savepoint"))?;
        self.tokens = &self.tokens[1..];
        Ok(name.into())
    }

    fn end(&self) -> Result<()> {
        if self.tokens.is_empty() { Ok(()) } else { Err(self.error("the end of the statement")) }
    }

    /// `READ ONLY`, `READ WRITE`, `WITH CONSISTENT SNAPSHOT`, `ISOLATION LEVEL x`, `DURABILITY x`, with commas between
    /// them.
    fn modes(&mut self) -> Result<Control> {
        let (mut read_only, mut durability) = (false, None);
        while !self.tokens.is_empty() {
            match () {
                () if self.word("READ") => match self.word("ONLY") {
                    true => read_only = true,
                    false => self.expect("WRITE")?,
                },
                () if self.word("WITH") => {
                    self.expect("CONSISTENT")?;
                    self.expect("SNAPSHOT")?;
                }
                () if self.word("ISOLATION") => self.isolation()?,
                () if self.word("DURABILITY") => durability = Some(self.durability()?),
                () => {
                    let known = "READ ONLY, READ WRITE, WITH CONSISTENT SNAPSHOT, ISOLATION LEVEL or DURABILITY";
                    return Err(self.error(known));
                }
            }
            if self.tokens.first().is_some_and(|token| token.is_symbol(",")) {
                self.tokens = &self.tokens[1..];
            }
        }
        Ok(Control::Begin { read_only, durability })
    }

    fn durability(&mut self) -> Result<Durability> {
        let named = self.tokens.first().and_then(|token| Durability::parse(token.text.as_bytes()));
        let durability = named.ok_or_else(|| self.error("SYNC, INTERVAL or NONE"))?;
        self.tokens = &self.tokens[1..];
        Ok(durability)
    }

    /// Whoever asks for less than snapshots gets them all the same.
    fn isolation(&mut self) -> Result<()> {
        self.expect("LEVEL")?;
        if self.word("SERIALIZABLE") {
            return Err(sql("ISOLATION LEVEL SERIALIZABLE is not offered: transactions have SNAPSHOT isolation"));
        }
        match () {
            () if self.word("SNAPSHOT") => Ok(()),
            () if self.word("REPEATABLE") => self.expect("READ"),
            () if self.word("READ") && self.any(&["COMMITTED", "UNCOMMITTED"]) => Ok(()),
            () => Err(self.error("SNAPSHOT, REPEATABLE READ or READ COMMITTED")),
        }
    }
}

/// Reads a statement that begins with one of these words.
pub fn parse(text: &str, tokens: &[Token<'_>]) -> Result<Control> {
    let mut rest = Rest { text, tokens };
    let control = match () {
        () if rest.word("BEGIN") => {
            rest.any(&["DEFERRED", "IMMEDIATE", "EXCLUSIVE", "CONCURRENT"]);
            rest.any(&["TRANSACTION", "WORK"]);
            rest.modes()?
        }
        () if rest.word("START") => {
            rest.expect("TRANSACTION")?;
            rest.modes()?
        }
        () if rest.any(&["COMMIT", "END"]) => {
            rest.any(&["TRANSACTION", "WORK"]);
            Control::Commit
        }
        () if rest.word("ROLLBACK") => {
            rest.any(&["TRANSACTION", "WORK"]);
            match rest.word("TO") {
                true => {
                    rest.word("SAVEPOINT");
                    Control::RollbackTo(rest.name()?)
                }
                false => Control::Rollback,
            }
        }
        () if rest.word("SAVEPOINT") => Control::Savepoint(rest.name()?),
        () => {
            rest.expect("RELEASE")?;
            rest.word("SAVEPOINT");
            Control::Release(rest.name()?)
        }
    };
    rest.end()?;
    Ok(control)
}

#[cfg(test)]
mod tests {
    use super::super::statement::{Class, classify};
    use super::*;

    fn control(text: &str) -> Result<Control> {
        match classify(text)?.0 {
            Class::Control(control) => Ok(control),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_spellings_of_three_dialects_are_read() {
        let begin = |read_only| Control::Begin { read_only, durability: None };
        let promised = |durability| Control::Begin { read_only: false, durability: Some(durability) };
        for (text, expected) in [
            ("BEGIN", begin(false)),
            ("BEGIN DURABILITY none", promised(Durability::None)),
            ("START TRANSACTION READ WRITE, DURABILITY SYNC", promised(Durability::Sync)),
            ("begin immediate transaction;", begin(false)),
            ("BEGIN WORK", begin(false)),
            ("START TRANSACTION", begin(false)),
            ("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", begin(true)),
            ("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ WRITE", begin(false)),
            ("COMMIT WORK", Control::Commit),
            ("END TRANSACTION", Control::Commit),
            ("ROLLBACK", Control::Rollback),
            ("ROLLBACK TRANSACTION TO SAVEPOINT a", Control::RollbackTo("a".into())),
            ("ROLLBACK TO \"a b\"", Control::RollbackTo("a b".into())),
            ("SAVEPOINT a", Control::Savepoint("a".into())),
            ("RELEASE SAVEPOINT a", Control::Release("a".into())),
            ("RELEASE a", Control::Release("a".into())),
        ] {
            assert_eq!(expected, control(text).unwrap(), "{text}");
        }
        for (text, message) in [
            ("BEGIN x", "position 7: expected READ ONLY"),
            ("BEGIN DURABILITY", "expected SYNC, INTERVAL or NONE"),
            ("BEGIN DURABILITY fast", "position 18: expected SYNC, INTERVAL or NONE, found fast"),
            ("START", "expected TRANSACTION"),
            ("COMMIT AND CHAIN", "position 8: expected the end"),
            ("SAVEPOINT", "the name of a savepoint"),
            ("BEGIN ISOLATION LEVEL SERIALIZABLE", "not offered"),
            ("BEGIN; COMMIT", "one statement at a time"),
            ("EXPLAIN BEGIN", "no access path"),
        ] {
            let error = control(text).unwrap_err().message;
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
