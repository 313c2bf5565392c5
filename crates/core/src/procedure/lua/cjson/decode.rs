//! JSON to Lua values.

use super::super::number;
use super::super::pace::Pace;
use super::super::stack::{Answer, Fault, Stack};
use super::Settings;
use crate::limits;

/// `cjson.decode(text)`
pub fn decode(stack: Stack<'_>) -> Answer {
    if stack.top() != 1 {
        return Err(Fault::Argument(1, "expected 1 argument".into()));
    }
    let text = stack.string_argument(1)?;
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(Fault::Here("JSON parser does not support UTF-16 or UTF-32".into()));
    }
    let (settings, pace) = (Settings::of(stack), Pace::new(stack));
    let mut decoder = Decoder { stack, settings, text, at: 0, depth: 0, unescaped: Vec::new(), pace };
    let token = decoder.next();
    decoder.value(token)?;
    match decoder.next() {
        Token { kind: TokenKind::End, .. } => Ok(1),
        other => Err(unexpected("the end", &other)),
    }
}

/// A token and where it was found, counted from 0.
struct Token {
    kind: TokenKind,
    at: usize,
}

enum TokenKind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// A string as it stands between its quotes.
    Plain(usize, usize),
    /// A string with escapes, whose value is in the decoder's buffer.
    Escaped,
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl TokenKind {
    /// The name in messages.
    fn name(&self) -> &'static str {
        match self {
            TokenKind::ObjectBegin => "T_OBJ_BEGIN",
            TokenKind::ObjectEnd => "T_OBJ_END",
            TokenKind::ArrayBegin => "T_ARR_BEGIN",
            TokenKind::ArrayEnd => "T_ARR_END",
            TokenKind::Plain(..) | TokenKind::Escaped => "T_STRING",
            TokenKind::Number(_) => "T_NUMBER",
            TokenKind::Boolean(_) => "T_BOOLEAN",
            TokenKind::Null => "T_NULL",
            TokenKind::Colon => "T_COLON",
            TokenKind::Comma => "T_COMMA",
            TokenKind::End => "T_END",
            TokenKind::Error(text) => text,
        }
    }
}

#[cold]
fn unexpected(expected: &str, token: &Token) -> Fault {
    Fault::Here(format!("Expected {expected} but found {} at character {}", token.kind.name(), token.at + 1).into())
}

struct Decoder<'a> {
    stack: Stack<'a>,
    settings: Settings,
    text: &'a [u8],
    at: usize,
    depth: i32,
    unescaped: Vec<u8>,
    pace: Pace<'a>,
}

impl Decoder<'_> {
    /// The byte at a place; 0, which ends the text, past it.
    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    /// Pushes the value that begins with a token.
    fn value(&mut self, token: Token) -> Result<(), Fault> {
        self.pace.take(1)?;
        match token.kind {
            TokenKind::Plain(..) | TokenKind::Escaped => self.push_string(&token)?,
            TokenKind::Number(number) => self.stack.push_number(number),
            TokenKind::Boolean(value) => self.stack.push_bool(value),
            TokenKind::ObjectBegin => self.object()?,
            TokenKind::ArrayBegin => self.array()?,
            // A nil would vanish from its table.
            TokenKind::Null => self.stack.push_null(),
            _ => return Err(unexpected("value", &token)),
        }
        Ok(())
    }

    fn push_string(&self, token: &Token) -> Result<(), Fault> {
        match token.kind {
            TokenKind::Plain(start, end) => self.stack.push_bytes(&self.text[start..end]),
            _ => self.stack.push_bytes(&self.unescaped),
        }
    }

    fn descend(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        let max = self.settings.decode_max_depth.min(limits::SCRIPT_DATA_DEPTH_MAX as i32);
        if self.depth > max || !self.stack.reserve(6) {
            let (depth, at) = (self.depth, self.at);
            let text = format!("Found too many nested data structures ({depth}) at character {at}");
            return Err(Fault::Here(text.into()));
        }
        if !self.stack.shared().heap.has_room(0) {
            return Err(Fault::Memory);
        }
        self.stack.push_table(0, 0);
        Ok(())
    }

    fn object(&mut self) -> Result<(), Fault> {
        self.descend()?;
        let mut token = self.next();
        while !matches!(token.kind, TokenKind::ObjectEnd) {
            if !matches!(token.kind, TokenKind::Plain(..) | TokenKind::Escaped) {
                return Err(unexpected("object key string", &token));
            }
            self.push_string(&token)?;
            let colon = self.next();
            if !matches!(colon.kind, TokenKind::Colon) {
                return Err(unexpected("colon", &colon));
            }
            let first = self.next();
            self.value(first)?;
            self.stack.set_pair(-3);
            let after = self.next();
            token = match after.kind {
                TokenKind::ObjectEnd => after,
                TokenKind::Comma => {
                    let key = self.next();
                    // A comma promises another key.
                    if matches!(key.kind, TokenKind::ObjectEnd) {
                        return Err(unexpected("object key string", &key));
                    }
                    key
                }
                _ => return Err(unexpected("comma or object end", &after)),
            };
        }
        self.depth -= 1;
        Ok(())
    }

    fn array(&mut self) -> Result<(), Fault> {
        self.descend()?;
        let mut token = self.next();
        if !matches!(token.kind, TokenKind::ArrayEnd) {
            for position in 1.. {
                self.value(token)?;
                self.stack.set_element(-2, position);
                let after = self.next();
                match after.kind {
                    TokenKind::ArrayEnd => break,
                    TokenKind::Comma => token = self.next(),
                    _ => return Err(unexpected("comma or array end", &after)),
                }
                if position % 256 == 0 && !self.stack.shared().heap.has_room(0) {
                    return Err(Fault::Memory);
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Reads the next token.
    fn next(&mut self) -> Token {
        while matches!(self.byte(self.at), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        let at = self.at;
        let simple = match self.byte(at) {
            b'{' => TokenKind::ObjectBegin,
            b'}' => TokenKind::ObjectEnd,
            b'[' => TokenKind::ArrayBegin,
            b']' => TokenKind::ArrayEnd,
            b',' => TokenKind::Comma,
            b':' => TokenKind::Colon,
            0 => return Token { kind: TokenKind::End, at },
            b'"' => return self.string(),
            _ => return Token { kind: self.word(), at },
        };
        self.at += 1;
        Token { kind: simple, at }
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self) -> TokenKind {
        let rest = &self.text[self.at..];
        let strict = !self.settings.decode_invalid;
        if matches!(rest[0], b'-' | b'0'..=b'9') {
            if strict && is_invalid_number(rest) {
                return TokenKind::Error("invalid number");
            }
            return self.number();
        }
        for (word, kind) in
            [("true", TokenKind::Boolean(true)), ("false", TokenKind::Boolean(false)), ("null", TokenKind::Null)]
        {
            if rest.starts_with(word.as_bytes()) {
                self.at += word.len();
                return kind;
            }
        }
        if !strict && matches!(rest[0], b'+' | b'i' | b'I' | b'n' | b'N') && is_invalid_number(rest) {
            return self.number();
        }
        TokenKind::Error("invalid token")
    }

    fn number(&mut self) -> TokenKind {
        match number::leading(&self.text[self.at..]) {
            Some((number, len)) => {
                self.at += len;
                TokenKind::Number(number)
            }
            None => TokenKind::Error("invalid number"),
        }
    }

    /// Reads a string whose opening quote is next.
    fn string(&mut self) -> Token {
        let begin = self.at;
        self.at += 1;
        let start = self.at;
        let ends = |byte: &u8| matches!(byte, b'"' | b'\\' | 0);
        let plain = self.text[start..].iter().position(ends).unwrap_or(self.text.len() - start);
        self.at += plain;
        if self.byte(self.at) == b'"' {
            self.at += 1;
            return Token { kind: TokenKind::Plain(start, start + plain), at: begin };
        }
        self.unescaped.clear();
        self.unescaped.extend_from_slice(&self.text[start..start + plain]);
        loop {
            match self.byte(self.at) {
                b'"' => {
                    self.at += 1;
                    return Token { kind: TokenKind::Escaped, at: begin };
                }
                0 => return Token { kind: TokenKind::Error("unexpected end of string"), at: self.at },
                b'\\' => {
                    if let Err(text) = self.escape() {
                        return Token { kind: TokenKind::Error(text), at: self.at };
                    }
                }
                byte => {
                    self.unescaped.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    /// Reads an escape whose backslash is next.
    fn escape(&mut self) -> Result<(), &'static str> {
        let byte = match self.byte(self.at + 1) {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 8,
            b't' => 9,
            b'n' => 10,
            b'f' => 12,
            b'r' => 13,
            b'u' => return self.unicode().ok_or("invalid unicode escape code"),
            _ => return Err("invalid escape code"),
        };
        self.unescaped.push(byte);
        self.at += 2;
        Ok(())
    }

    /// Reads `\uXXXX`, or two of them that make a surrogate pair.
    fn unicode(&mut self) -> Option<()> {
        let mut code = self.hex4(self.at + 2)?;
        let mut len = 6;
        if code & 0xF800 == 0xD800 {
            if code & 0x400 != 0 || self.byte(self.at + 6) != b'\\' || self.byte(self.at + 7) != b'u' {
                return None;
            }
            let low = self.hex4(self.at + 8)?;
            if low & 0xFC00 != 0xDC00 {
                return None;
            }
            code = ((code & 0x3FF) << 10 | low & 0x3FF) + 0x10000;
            len = 12;
        }
        let mut utf8 = [0; 4];
        self.unescaped.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut utf8).as_bytes());
        self.at += len;
        Some(())
    }

    fn hex4(&self, at: usize) -> Option<u32> {
        self.text.get(at..at + 4)?.iter().try_fold(0, |code, digit| Some(code << 4 | (*digit as char).to_digit(16)?))
    }
}

/// True for what C's `strtod` would take although JSON does not know it.
fn is_invalid_number(text: &[u8]) -> bool {
    let digits = match text {
        [b'+', ..] => return true,
        [b'-', rest @ ..] => rest,
        _ => text,
    };
    match digits {
        [b'0', second, ..] => second.eq_ignore_ascii_case(&b'x') || second.is_ascii_digit(),
        [] | [..=b'9', ..] => false,
        _ => digits.get(..3).is_some_and(|word| word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"nan")),
    }
}
