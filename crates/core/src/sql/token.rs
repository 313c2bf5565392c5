//! The one tokenizer of SQL text: SQLite's lexical rules, which already include MySQL's back-quoted identifiers.
//!
//! Our own parsers and the classifier read SQL only through it, so they cannot disagree with each other on quotes and
//! comments; SQLite reads the same text by the same rules.

use super::error::syntax;
use crate::error::Result;
use std::borrow::Cow;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A bare word: a keyword or an identifier.
    Word,
    /// An identifier in `"double quotes"`, `` `back quotes` `` or `[brackets]`.
    Quoted,
    /// `'text'`.
    Text,
    /// `x'00ff'`.
    Blob,
    /// `42`, `0x2A`, `1_000`.
    Integer,
    /// `1.5`, `.5e-3`.
    Float,
    /// `?`, `?3`, `:name`, `@name`, `$name`.
    Parameter,
    /// Punctuation and operators, one or more bytes.
    Symbol,
}

/// A token and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its bytes as written, quotes included.
    pub text: &'a str,
    /// Byte position of its first byte in the statement.
    pub start: usize,
}

impl<'a> Token<'a> {
    /// Byte position after its last byte.
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Is it this keyword (in any case) without quotes?
    pub fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }

    /// Is it this symbol?
    pub fn is_symbol(&self, symbol: &str) -> bool {
        self.kind == Kind::Symbol && self.text == symbol
    }

    /// What it names as an identifier (SQLite lets a string stand for a name, as we do).
    pub fn name(&self) -> Option<Cow<'a, str>> {
        match self.kind {
            Kind::Word => Some(Cow::Borrowed(self.text)),
            Kind::Quoted | Kind::Text => Some(self.unquoted()),
            _ => None,
        }
    }

    /// The text between the quotes, doubled quotes made single.
    pub fn unquoted(&self) -> Cow<'a, str> {
        let inner = &self.text[1..self.text.len() - 1];
        let quote = &self.text[..1];
        if quote == "[" || !inner.contains(quote) {
            return Cow::Borrowed(inner);
        }
        Cow::Owned(inner.replace(&quote.repeat(2), quote))
    }
}

/// The tokens of a text, one after another; comments and white space are skipped.
pub struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Tokens<'a> {
    /// Starts at the beginning of `text`.
    pub fn new(text: &'a str) -> Tokens<'a> {
        Tokens { text, at: 0 }
    }

    /// All tokens of a text.
    pub fn all(text: &'a str) -> Result<Vec<Token<'a>>> {
        Tokens::new(text).collect()
    }

    fn byte(&self, offset: usize) -> u8 {
        // Zero ends everything: it is no part of any token.
        self.text.as_bytes().get(self.at + offset).copied().unwrap_or(0)
    }

    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }

    /// Moves over white space and comments. A block comment that does not end takes the rest, as in SQLite.
    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let length = match rest {
                [b' ' | b'\t' | b'\n' | b'\x0C' | b'\r', ..] => 1,
                [b'-', b'-', ..] => rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()),
                [b'/', b'*', ..] => rest[2..].windows(2).position(|two| two == b"*/").map_or(rest.len(), |p| p + 4),
                _ => return,
            };
            self.at += length;
        }
    }

    /// Kind and length of the token that starts here.
    fn measure(&self) -> Result<(Kind, usize)> {
        let rest = self.rest();
        Ok(match rest[0] {
            b'\'' => (Kind::Text, self.quoted(b'\'', "string")?),
            quote @ (b'"' | b'`') => (Kind::Quoted, self.quoted(quote, "quoted name")?),
            b'[' => (Kind::Quoted, self.bracketed()?),
            b'x' | b'X' if self.byte(1) == b'\'' => (Kind::Blob, self.blob()?),
            b'0'..=b'9' => self.number()?,
            b'.' if self.byte(1).is_ascii_digit() => self.number()?,
            b'?' => (Kind::Parameter, 1 + count(&rest[1..], |b| b.is_ascii_digit())),
            b':' | b'@' | b'#' | b'$' => (Kind::Parameter, self.named_parameter()?),
            byte if is_word_byte(byte) => (Kind::Word, count(rest, is_word_byte)),
            _ => (Kind::Symbol, self.symbol()?),
        })
    }

    fn quoted(&self, quote: u8, what: &str) -> Result<usize> {
        let rest = self.rest();
        let mut at = 1;
        while at < rest.len() {
            match (rest[at] == quote, rest.get(at + 1) == Some(&quote)) {
                (true, true) => at += 2,
                (true, false) => return Ok(at + 1),
                _ => at += 1,
            }
        }
        Err(syntax(self.text, self.at, format!("the {what} that begins here does not end")))
    }

    fn bracketed(&self) -> Result<usize> {
        let end = self.rest().iter().position(|&b| b == b']');
        end.map(|p| p + 1).ok_or_else(|| syntax(self.text, self.at, "the quoted name that begins here does not end"))
    }

    fn blob(&self) -> Result<usize> {
        let digits = count(&self.rest()[2..], |b| b.is_ascii_hexdigit());
        if digits % 2 == 0 && self.byte(2 + digits) == b'\'' {
            return Ok(digits + 3);
        }
        Err(syntax(self.text, self.at, "a blob is written x'..' with an even number of hexadecimal digits"))
    }

    fn number(&self) -> Result<(Kind, usize)> {
        let rest = self.rest();
        let (kind, length) = if rest[0] == b'0' && matches!(self.byte(1), b'x' | b'X') {
            (Kind::Integer, 2 + count(&rest[2..], |b| b.is_ascii_hexdigit() || b == b'_'))
        } else {
            self.decimal()
        };
        if is_word_byte(self.byte(length)) {
            let whole = length + count(&rest[length..], is_word_byte);
            let text = String::from_utf8_lossy(&rest[..whole]);
            return Err(syntax(self.text, self.at, format!("{text} is neither a number nor a name")));
        }
        Ok((kind, length))
    }

    fn decimal(&self) -> (Kind, usize) {
        let digits = |from: usize| count(&self.rest()[from..], |b| b.is_ascii_digit() || b == b'_');
        let mut length = digits(0);
        let mut kind = Kind::Integer;
        if self.byte(length) == b'.' {
            kind = Kind::Float;
            length += 1;
            length += digits(length);
        }
        if matches!(self.byte(length), b'e' | b'E') {
            let sign = usize::from(matches!(self.byte(length + 1), b'+' | b'-'));
            if self.byte(length + 1 + sign).is_ascii_digit() {
                kind = Kind::Float;
                length += 1 + sign;
                length += digits(length);
            }
        }
        (kind, length)
    }

    fn named_parameter(&self) -> Result<usize> {
        let name = count(&self.rest()[1..], is_word_byte);
        if name == 0 || self.rest()[0] == b'#' {
            return Err(self.unexpected());
        }
        Ok(1 + name)
    }

    fn symbol(&self) -> Result<usize> {
        const LONG: [&[u8]; 10] = [b"->>", b"->", b"||", b"<=", b"<>", b"<<", b">=", b">>", b"==", b"!="];
        let rest = self.rest();
        if let Some(symbol) = LONG.iter().find(|symbol| rest.starts_with(symbol)) {
            return Ok(symbol.len());
        }
        if b"()+-*/%,;.=<>&|~".contains(&rest[0]) { Ok(1) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> crate::error::Error {
        let byte = self.text[self.at..].chars().next().unwrap_or(' ');
        syntax(self.text, self.at, format!("unrecognized character {byte:?}"))
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Result<Token<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.skip_blanks();
        if self.at == self.text.len() {
            return None;
        }
        match self.measure() {
            Ok((kind, length)) => {
                let start = self.at;
                self.at += length;
                Some(Ok(Token { kind, text: &self.text[start..self.at], start }))
            }
            Err(error) => {
                self.at = self.text.len();
                Some(Err(error))
            }
        }
    }
}

/// Bytes that words are made of: letters, digits, `_`, `$` and all that is not ASCII.
fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

fn count(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|&b| !belongs(b)).unwrap_or(bytes.len())
}

/// A name as it can stand in SQL text: in double quotes, whatever it holds.
pub fn quote_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A name as SHOW CREATE TABLE writes it: quoted only where it must be.
pub fn show_name(name: &str) -> Cow<'_, str> {
    let plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let plain = plain && !name.as_bytes()[0].is_ascii_digit() && !is_keyword(name);
    if plain { Cow::Borrowed(name) } else { Cow::Owned(quote_name(name)) }
}

/// Is this a word that SQLite does not take for a name?
pub fn is_keyword(word: &str) -> bool {
    let length = i32::try_from(word.len()).unwrap_or(i32::MAX);
    // SAFETY: the pointer and the length describe `word`; SQLite only compares its bytes with its list of keywords.
    unsafe { libsqlite3_sys::sqlite3_keyword_check(word.as_ptr().cast(), length) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(sql: &str) -> Vec<(Kind, &str)> {
        Tokens::all(sql).unwrap().into_iter().map(|t| (t.kind, t.text)).collect()
    }

    #[test]
    fn all_kinds_are_told_apart() {
        use Kind::*;
        let sql = "SELECT \"a\"\"b\", `c`, [d e], 'it''s', x'0F', X'' FROM t -- end\n WHERE é$1>=?2/* c */AND x!=:n";
        let expected = vec![
            (Word, "SELECT"),
            (Quoted, "\"a\"\"b\""),
            (Symbol, ","),
            (Quoted, "`c`"),
            (Symbol, ","),
            (Quoted, "[d e]"),
            (Symbol, ","),
            (Text, "'it''s'"),
            (Symbol, ","),
            (Blob, "x'0F'"),
            (Symbol, ","),
            (Blob, "X''"),
            (Word, "FROM"),
            (Word, "t"),
            (Word, "WHERE"),
            (Word, "é$1"),
            (Symbol, ">="),
            (Parameter, "?2"),
            (Word, "AND"),
            (Word, "x"),
            (Symbol, "!="),
            (Parameter, ":n"),
        ];
        assert_eq!(expected, texts(sql));
    }

    #[test]
    fn numbers_follow_sqlite() {
        use Kind::*;
        for (text, kind) in [
            ("0", Integer),
            ("12_000", Integer),
            ("0xFf", Integer),
            ("1.", Float),
            ("1.5e3", Float),
            (".5E-3", Float),
            ("1e9", Float),
        ] {
            assert_eq!(vec![(kind, text)], texts(text));
        }
        assert_eq!(vec![(Integer, "1"), (Symbol, "-"), (Integer, "2")], texts("1-2"));
        for wrong in ["1a", "1e", "0xZ", "1e+"] {
            assert!(Tokens::all(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn operators_are_longest_first() {
        let sql = "a->>'x'->b||c<<1<=2<>3!=4==5=6<7";
        let symbols: Vec<&str> = texts(sql).into_iter().filter(|t| t.0 == Kind::Symbol).map(|t| t.1).collect();
        assert_eq!(vec!["->>", "->", "||", "<<", "<=", "<>", "!=", "==", "=", "<"], symbols);
    }

    #[test]
    fn quotes_come_off() {
        let names: Vec<String> = Tokens::all("\"a\"\"b\" `c``d` [e\"f] 'it''s' plain")
            .unwrap()
            .iter()
            .map(|t| t.name().unwrap().into())
            .collect();
        assert_eq!(vec!["a\"b", "c`d", "e\"f", "it's", "plain"], names);
    }

    #[test]
    fn unended_things_are_errors_with_a_position() {
        for (sql, position) in [("SELECT 'abc", 8), ("x'0", 1), ("a [b", 3), ("\"é", 1), ("a \u{1} b", 3), ("é #1", 3)]
        {
            let error = Tokens::all(sql).unwrap_err();
            assert!(error.message.contains(&format!("position {position}")), "{sql}: {error}");
        }
        assert_eq!(vec![(Kind::Word, "a")], texts("a /* open"));
        assert_eq!(vec![(Kind::Word, "a")], texts("a -- open"));
    }

    #[test]
    fn any_bytes_are_tokens_or_an_error() {
        let mut random = crate::env::Xoshiro::from_seed(7);
        let alphabet: Vec<char> = "ab0x19_.'\"`[]?:@$#-/*|<>=!()é;, \n".chars().collect();
        for _ in 0..20_000 {
            let length = random.below(12);
            let text: String = (0..length).map(|_| alphabet[random.below(alphabet.len() as u64) as usize]).collect();
            let mut end = 0;
            for token in Tokens::new(&text).map_while(Result::ok) {
                assert!(token.start >= end && !token.text.is_empty(), "{text:?}");
                end = token.end();
            }
        }
    }

    #[test]
    fn names_are_shown_quoted_only_where_they_must_be() {
        assert_eq!("users", show_name("users"));
        assert_eq!("\"order\"", show_name("order"));
        assert_eq!("\"a b\"", show_name("a b"));
        assert_eq!("\"1st\"", show_name("1st"));
        assert_eq!("\"a\"\"b\"", show_name("a\"b"));
    }
}
