//! Keeps a script's own frame alive during its last call.
//!
//! `return redis.call(...)` is a tail call: LuaJIT gives the callee the caller's frame, and an error of the callee could
//! no longer tell the script's line (the original Lua keeps the frame when the callee is a C function). Only one result
//! of a script counts, so at its outermost level `return f(x)` means what `return (f(x))` means, and that is no tail
//! call. Inner functions keep their tail calls: recursion may rest on them.

/// The script with its outermost returned calls in parentheses; lines keep their numbers. Only for text that compiles.
pub fn keep_frame(text: &[u8]) -> Vec<u8> {
    let mut scanner = Scanner { text, at: 0 };
    let mut blocks = Blocks::default();
    let (mut kept, mut copied) = (Vec::with_capacity(text.len() + 2), 0);
    while let Some(token) = scanner.next() {
        blocks.enter(token.bytes);
        if token.bytes != b"return" || blocks.functions > 0 {
            continue;
        }
        if let Some((start, end)) = returned_call(&mut scanner) {
            kept.extend_from_slice(&text[copied..start]);
            kept.push(b'(');
            kept.extend_from_slice(&text[start..end]);
            kept.push(b')');
            copied = end;
        }
    }
    kept.extend_from_slice(&text[copied..]);
    kept
}

/// Where the single expression after `return` begins and ends, if it may be a call. Reads up to its end.
fn returned_call(scanner: &mut Scanner<'_>) -> Option<(usize, usize)> {
    let mut blocks = Blocks::default();
    let mut brackets = 0;
    let mut span: Option<(usize, usize)> = None;
    let (mut is_list, mut may_be_call) = (false, false);
    loop {
        let before = scanner.at;
        let Some(token) = scanner.next() else { break };
        let outside = blocks.open.is_empty() && brackets == 0;
        if outside && matches!(token.bytes, b"end" | b"else" | b"elseif" | b"until" | b";") {
            // Not part of the expression: whoever reads on needs it.
            scanner.at = before;
            break;
        }
        is_list |= outside && token.bytes == b",";
        match token.bytes {
            b"(" | b"{" | b"[" => brackets += 1,
            b")" | b"}" | b"]" => brackets -= 1,
            word => blocks.enter(word),
        }
        may_be_call = token.is_string || matches!(token.bytes, b")" | b"}");
        span = Some((span.map_or(token.start, |(start, _)| start), scanner.at));
    }
    span.filter(|_| may_be_call && !is_list)
}

/// Open blocks; true for a function's.
#[derive(Default)]
struct Blocks {
    open: Vec<bool>,
    functions: usize,
}

impl Blocks {
    fn enter(&mut self, word: &[u8]) {
        match word {
            b"function" => {
                self.open.push(true);
                self.functions += 1;
            }
            // The `do` of a loop stands for the loop.
            b"if" | b"do" | b"repeat" => self.open.push(false),
            b"end" | b"until" => {
                if self.open.pop() == Some(true) {
                    self.functions -= 1;
                }
            }
            _ => {}
        }
    }
}

struct Token<'a> {
    start: usize,
    bytes: &'a [u8],
    is_string: bool,
}

/// Splits Lua source into tokens.
struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    fn byte(&self, offset: usize) -> u8 {
        self.text.get(self.at + offset).copied().unwrap_or(0)
    }

    /// The next token, without spaces and comments before it.
    fn next(&mut self) -> Option<Token<'a>> {
        self.skip_blanks();
        let start = self.at;
        let first = *self.text.get(start)?;
        let mut is_string = false;
        match first {
            b'\'' | b'"' => {
                is_string = true;
                self.skip_quoted(first);
            }
            b'[' if self.bracket_level().is_some() => {
                is_string = true;
                self.skip_long();
            }
            b'0'..=b'9' => self.skip_number(),
            b'.' if self.byte(1).is_ascii_digit() => self.skip_number(),
            _ if is_name(first) => {
                self.at += self.text[start..].iter().take_while(|byte| is_name(**byte)).count();
            }
            _ => self.at += 1,
        }
        self.at = self.at.min(self.text.len());
        Some(Token { start, bytes: &self.text[start..self.at], is_string })
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.byte(0) {
                b' ' | 9..=13 => self.at += 1,
                b'-' if self.byte(1) == b'-' => {
                    self.at += 2;
                    if self.byte(0) == b'[' && self.bracket_level().is_some() {
                        self.skip_long();
                    } else {
                        let line = self.text[self.at..].iter().take_while(|byte| **byte != b'\n').count();
                        self.at += line;
                    }
                }
                _ => return,
            }
        }
    }

    fn skip_quoted(&mut self, quote: u8) {
        self.at += 1;
        while self.at < self.text.len() && self.byte(0) != quote {
            self.at += if self.byte(0) == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
    }

    /// Number of equals signs of a long bracket that opens here, if one does.
    fn bracket_level(&self) -> Option<usize> {
        let signs = self.text[self.at + 1..].iter().take_while(|byte| **byte == b'=').count();
        (self.byte(1 + signs) == b'[').then_some(signs)
    }

    fn skip_long(&mut self) {
        let level = self.bracket_level().unwrap_or_default();
        let close = [&b"]"[..], &b"=".repeat(level), b"]"].concat();
        let inside = self.at + level + 2;
        let rest = self.text.get(inside..).unwrap_or_default();
        let len = rest.windows(close.len()).position(|part| part == close);
        self.at = len.map_or(self.text.len(), |len| inside + len + close.len());
    }

    fn skip_number(&mut self) {
        while is_name(self.byte(0)) || self.byte(0) == b'.' {
            let exponent = matches!(self.byte(0), b'e' | b'E' | b'p' | b'P') && matches!(self.byte(1), b'+' | b'-');
            self.at += 1 + exponent as usize;
        }
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outermost_returned_calls_are_put_in_parentheses() {
        for (text, expected) in [
            ("return f(x)", "return (f(x))"),
            ("return  f(x) -- done", "return  (f(x)) -- done"),
            ("return f'x'", "return (f'x')"),
            ("return f{1,2}", "return (f{1,2})"),
            ("return f[[x]]", "return (f[[x]])"),
            ("if a then return f(1) else return g(2) end", "if a then return (f(1)) else return (g(2)) end"),
            ("if a then return f(1); end return 2", "if a then return (f(1)); end return 2"),
            (
                "for i=1,2 do if x then return f(i) end end return g(1)",
                "for i=1,2 do if x then return (f(i)) end end return (g(1))",
            ),
            ("repeat return f(1) until x", "repeat return (f(1)) until x"),
            ("return f(function() return g(1) end)", "return (f(function() return g(1) end))"),
            ("return a.b:c(d)\n:e()", "return (a.b:c(d)\n:e())"),
        ] {
            assert_eq!(expected, String::from_utf8(keep_frame(text.as_bytes())).unwrap());
        }
    }

    #[test]
    fn all_else_stays() {
        for text in [
            "return",
            "return 1",
            "return a, f(x)",
            "return f(x), 1",
            "return ...",
            "return function() return f(1) end",
            "local function g() return f(1) end return g",
            "local s = 'return f(x)' return s",
            "--[[ return f(x) ]] return 1",
            "-- return f(x)\nreturn 1",
            "local s = [==[ return f(x) ]] ]==] return s",
            "local n = 1e+5 return n",
            "do local a = {function() if x then return f() end end} end",
            "return a[1]",
            "local s = 'it\\'s' return s",
        ] {
            assert_eq!(text, String::from_utf8(keep_frame(text.as_bytes())).unwrap());
        }
    }
}
