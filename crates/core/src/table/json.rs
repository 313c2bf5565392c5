//! Checks that a text is one well-formed JSON value (RFC 8259), without building it.

/// Deepest nesting of arrays and objects; SQLite's JSON functions stop at the same depth.
const DEPTH_MAX: usize = 1000;

/// Checks `text`, or says that it is not JSON. Runs in one pass without recursion, so no input can exhaust the stack.
pub(crate) fn check(text: &str) -> Result<(), &'static str> {
    let mut parser = Parser { rest: text.as_bytes() };
    parser.document().ok_or("it is not well-formed JSON")
}

struct Parser<'a> {
    rest: &'a [u8],
}

impl Parser<'_> {
    fn document(&mut self) -> Option<()> {
        let mut open: Vec<u8> = Vec::new(); // the closing bracket of each open array or object
        loop {
            // Here a value must come.
            self.space();
            match self.take()? {
                bracket @ (b'[' | b'{') => {
                    if open.len() == DEPTH_MAX {
                        return None;
                    }
                    self.space();
                    let close = bracket + 2; // in ASCII: '[' + 2 == ']', '{' + 2 == '}'
                    if !self.accept(close) {
                        open.push(close);
                        if bracket == b'{' {
                            self.name()?;
                        }
                        continue;
                    }
                }
                b'"' => self.string()?,
                b't' => self.word(b"rue")?,
                b'f' => self.word(b"alse")?,
                b'n' => self.word(b"ull")?,
                first => self.number(first)?,
            }
            // Here a value has ended: close what closes, then a comma leads to the next one.
            loop {
                self.space();
                let Some(&close) = open.last() else { return self.rest.is_empty().then_some(()) };
                match self.take()? {
                    b',' => {
                        if close == b'}' {
                            self.name()?;
                        }
                        break;
                    }
                    byte if byte == close => open.truncate(open.len() - 1),
                    _ => return None,
                }
            }
        }
    }

    fn name(&mut self) -> Option<()> {
        self.space();
        if self.take()? != b'"' {
            return None;
        }
        self.string()?;
        self.space();
        (self.take()? == b':').then_some(())
    }

    fn string(&mut self) -> Option<()> {
        loop {
            match self.take()? {
                b'"' => return Some(()),
                b'\\' => match self.take()? {
                    b'u' => {
                        for _ in 0..4 {
                            self.take().filter(u8::is_ascii_hexdigit)?;
                        }
                    }
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                    _ => return None,
                },
                0..=0x1F => return None,
                _ => {}
            }
        }
    }

    fn number(&mut self, first: u8) -> Option<()> {
        let digit = if first == b'-' { self.take()? } else { first };
        match digit {
            b'0' => {}
            b'1'..=b'9' => {
                self.digits();
            }
            _ => return None,
        }
        if self.accept(b'.') && self.digits() == 0 {
            return None;
        }
        if self.accept(b'e') || self.accept(b'E') {
            let _sign = self.accept(b'+') || self.accept(b'-');
            if self.digits() == 0 {
                return None;
            }
        }
        Some(())
    }

    fn digits(&mut self) -> usize {
        let n = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
        self.rest = &self.rest[n..];
        n
    }

    fn word(&mut self, tail: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(tail)?;
        Some(())
    }

    fn space(&mut self) {
        let n = self.rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.rest = &self.rest[n..];
    }

    fn take(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn accept(&mut self, byte: u8) -> bool {
        let found = self.rest.first() == Some(&byte);
        self.rest = &self.rest[usize::from(found)..];
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_formed_texts_pass() {
        for text in
            ["null", " true ", "-0.5e+10", "\"a\\u00e9\\n\"", "[]", "[1,[2,{}],{\"a\":{\"b\":[null]}}]", "{\"\":0}"]
        {
            assert!(check(text).is_ok(), "{text}");
        }
        assert!(check(&format!("{}{}", "[".repeat(1000), "]".repeat(1000))).is_ok());
    }

    #[test]
    fn others_do_not() {
        for text in [
            "",
            "nul",
            "01",
            "1.",
            ".5",
            "-",
            "1e",
            "[1,]",
            "[",
            "]",
            "{\"a\"}",
            "{a:1}",
            "{\"a\":1,}",
            "1 2",
            "\"\n\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"",
            "[}",
            "{]",
            "+1",
            "NaN",
        ] {
            assert!(check(text).is_err(), "{text}");
        }
        assert!(check(&"[".repeat(1_000_000)).is_err());
    }
}
