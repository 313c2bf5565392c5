//! What a script's text tells before it runs: how to keep its frame, and which tables it leaves alone.
//!
//! Only tokens are looked at, so every answer errs on the safe side.
//!
//! **Its frame.** `return redis.call(...)` is a tail call: LuaJIT gives the callee the caller's frame, and an error of the
//! callee could no longer tell the script's line (the original Lua keeps the frame when the callee is a C function).
//! Only one result of a script counts, so at its outermost level `return f(x)` means what `return (f(x))` means, and that
//! is no tail call. Inner functions keep their tail calls: recursion may rest on them; but `return redis.call(...)` has one
//! result at any level, unless `redis` is something else there.
//!
//! **Its variables.** A script reaches a global variable through two guards (see `prelude.lua`), which costs more than
//! calling a command. A variable that the script's text never assigns may stand in an environment of the script's own
//! instead, and a library of which it only reads fields may stand there unguarded.
//!
//! **Its lists.** When it only reads elements and lengths of `KEYS` and `ARGV`, nothing need be cleaned up after it.
//!
//! All of this is judged by Lua 5.1's grammar. LuaJIT's knows more (`a.b += 1` assigns, `a?.b`, `x -> y`), and skips a first
//! line that begins with `#`: of a text with anything that is none of Lua 5.1's nothing is believed.

use std::collections::BTreeMap;

/// How a script uses a global variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// It reads fields by name only.
    Fields,
    /// It uses the value in any way.
    Value,
    /// It may assign the variable.
    Assigned,
}

/// A script's text, analysed.
pub struct Source {
    /// The text with its outermost returned calls in parentheses; lines keep their numbers.
    pub text: Vec<u8>,
    /// Names that may be global variables, with the strongest use of each.
    pub uses: BTreeMap<Vec<u8>, Use>,
    /// True when `KEYS` and `ARGV` stay as they are.
    pub keeps_lists: bool,
}

impl Source {
    /// Analyses a text, which must compile.
    pub fn new(text: &[u8]) -> Source {
        let tokens = tokens(text);
        if is_foreign(text, &tokens) {
            return Source { text: text.to_vec(), uses: BTreeMap::new(), keeps_lists: false };
        }
        let mut source = Source { text: Vec::new(), uses: BTreeMap::new(), keeps_lists: true };
        let mut nesting = Nesting::default();
        // Where returned calls are, and whether they are good ones only if `redis` is what it seems.
        let mut calls = Vec::new();
        for at in 0..tokens.len() {
            let token = &tokens[at];
            if token.is_name() && !tokens.before(at, &[".", ":"]) {
                source.note(&tokens, at, nesting.is_in_brackets());
            }
            nesting.enter(token.bytes);
            let is_return = token.bytes == b"return" && !token.is_string;
            let is_inner = nesting.functions > 0;
            if is_return
                && (!is_inner || is_redis_call(&tokens, at + 1))
                && let Some((start, end)) = returned_call(&tokens[at + 1..])
            {
                calls.push((start, end, is_inner));
            }
        }
        let is_redis_itself = source.uses.get(&b"redis"[..]) == Some(&Use::Fields);
        let mut copied = 0;
        for (start, end, is_inner) in calls {
            // Calls in functions within a returned call are within its parentheses.
            if start < copied || is_inner && !is_redis_itself {
                continue;
            }
            source.text.extend_from_slice(&text[copied..start]);
            source.text.push(b'(');
            source.text.extend_from_slice(&text[start..end]);
            source.text.push(b')');
            copied = end;
        }
        source.text.extend_from_slice(&text[copied..]);
        source
    }

    /// Notes how the name at `at` is used. Within brackets there are no assignments, but the fields of a table.
    fn note(&mut self, tokens: &[Token<'_>], at: usize, is_in_brackets: bool) {
        let may_assign = |at: usize| !is_in_brackets && tokens.is(at, &["=", ","]);
        let is_field = tokens.is(at + 1, &["."]) && tokens.get(at + 2).is_some_and(Token::is_name);
        let used = match () {
            _ if tokens.before(at, &["function"]) || may_assign(at + 1) => Use::Assigned,
            // As a statement, `a.b ~= c` assigns in LuaJIT.
            _ if is_field && !may_assign(at + 3) && !tokens.is(at + 3, &["~="]) => Use::Fields,
            _ => Use::Value,
        };
        let name = tokens[at].bytes;
        let known = self.uses.entry(name.to_vec()).or_insert(used);
        *known = used.max(*known);
        self.keeps_lists &= match name {
            b"KEYS" | b"ARGV" => {
                let element = tokens.is(at + 1, &["["]).then(|| tokens.closing(at + 1)).flatten();
                let length = tokens.before(at, &["#"]) && !tokens.is(at + 1, &["[", ".", ":"]);
                length || element.is_some_and(|close| !may_assign(close + 1))
            }
            // Other ways to the lists.
            b"_G" | b"load" | b"loadstring" => false,
            _ => true,
        };
    }
}

/// Is there anything that Lua 5.1 does not know?
fn is_foreign(text: &[u8], tokens: &[Token<'_>]) -> bool {
    // LuaJIT skips a mark of the encoding and a line that names an interpreter.
    let has_header = text.starts_with(b"#") || text.starts_with(b"\xEF\xBB\xBF");
    // Operators that no operator like these may follow: together they are others.
    let joins = |at: usize| match tokens[at].bytes {
        b"+" | b"-" | b"*" | b"/" | b"%" | b"^" | b".." | b"<" | b">" => {
            tokens.get(at + 1).is_some_and(|next| matches!(next.bytes[0], b'=' | b'<' | b'>' | b'/'))
        }
        _ => false,
    };
    has_header || (0..tokens.len()).any(|at| !tokens[at].is_known() || joins(at))
}

/// Does `redis.call(...)` or `redis.pcall(...)`, and nothing behind it, stand at `at`?
fn is_redis_call(tokens: &[Token<'_>], at: usize) -> bool {
    let is_call = tokens.is(at, &["redis"]) && tokens.is(at + 1, &["."]) && tokens.is(at + 2, &["call", "pcall"]);
    let close = (is_call && tokens.is(at + 3, &["("])).then(|| tokens.closing(at + 3)).flatten();
    close.is_some_and(|close| tokens.is(close + 1, &["end", "else", "elseif", "until", ";"]))
}

/// Where the single expression that `tokens` begin with starts and ends, if it may be a call.
fn returned_call(tokens: &[Token<'_>]) -> Option<(usize, usize)> {
    let mut nesting = Nesting::default();
    let mut count = 0;
    for token in tokens {
        let is_outside = nesting.open.is_empty();
        if is_outside && matches!(token.bytes, b"end" | b"else" | b"elseif" | b"until" | b";") {
            break;
        }
        if is_outside && token.bytes == b"," {
            return None;
        }
        nesting.enter(token.bytes);
        count += 1;
    }
    let (first, last) = (tokens.first()?, tokens[..count].last()?);
    let may_be_call = last.is_string || matches!(last.bytes, b")" | b"}");
    may_be_call.then_some((first.start, last.start + last.bytes.len()))
}

#[derive(Clone, Copy, PartialEq)]
enum Open {
    Bracket,
    Block,
    Function,
}

/// Open brackets, blocks and functions.
#[derive(Default)]
struct Nesting {
    open: Vec<Open>,
    functions: usize,
}

impl Nesting {
    fn enter(&mut self, token: &[u8]) {
        match token {
            b"function" => {
                self.open.push(Open::Function);
                self.functions += 1;
            }
            b"(" | b"{" | b"[" => self.open.push(Open::Bracket),
            // The `do` of a loop stands for the loop.
            b"if" | b"do" | b"repeat" => self.open.push(Open::Block),
            b")" | b"}" | b"]" | b"end" | b"until" => {
                let closed = self.open.pop();
                self.functions -= (closed == Some(Open::Function)) as usize;
            }
            _ => {}
        }
    }

    fn is_in_brackets(&self) -> bool {
        self.open.last() == Some(&Open::Bracket)
    }
}

struct Token<'a> {
    start: usize,
    bytes: &'a [u8],
    is_string: bool,
}

impl Token<'_> {
    /// True for a name, or a word of the language.
    fn is_name(&self) -> bool {
        !self.is_string && is_name(self.bytes[0]) && !self.bytes[0].is_ascii_digit()
    }

    /// Is it a token of Lua 5.1?
    fn is_known(&self) -> bool {
        match self.bytes {
            _ if self.is_string || self.is_name() => true,
            [b'0'..=b'9', ..] | [b'.', b'0'..=b'9', ..] => is_number(self.bytes),
            b"==" | b"~=" | b"<=" | b">=" | b".." | b"..." => true,
            [byte] => b"+-*/%^#<>=(){}[];:,.".contains(byte),
            _ => false,
        }
    }
}

/// Are these bytes, which begin with a digit or a point, a number as Lua 5.1 writes them?
fn is_number(bytes: &[u8]) -> bool {
    let (digits, mark, is_digit): (_, _, fn(&u8) -> bool) =
        match bytes.strip_prefix(b"0x").or_else(|| bytes.strip_prefix(b"0X")) {
            Some(digits) => (digits, b'p', u8::is_ascii_hexdigit),
            None => (bytes, b'e', u8::is_ascii_digit),
        };
    let end = digits.iter().position(|byte| byte.eq_ignore_ascii_case(&mark)).unwrap_or(digits.len());
    let (mantissa, exponent) = digits.split_at(end);
    let exponent = exponent.get(1..).map(|rest| rest.strip_prefix(b"+").or(rest.strip_prefix(b"-")).unwrap_or(rest));
    mantissa.iter().filter(|byte| **byte == b'.').count() <= 1
        && mantissa.iter().all(|byte| *byte == b'.' || is_digit(byte))
        && exponent.is_none_or(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}

/// Looks at tokens by position.
trait Tokens {
    /// True when the token at a position is one of these.
    fn is(&self, at: usize, texts: &[&str]) -> bool;
    /// True when the token before a position is one of these.
    fn before(&self, at: usize, texts: &[&str]) -> bool;
    /// The position of the bracket that closes the one at `at`.
    fn closing(&self, at: usize) -> Option<usize>;
}

impl Tokens for [Token<'_>] {
    fn is(&self, at: usize, texts: &[&str]) -> bool {
        self.get(at).is_some_and(|token| !token.is_string && texts.iter().any(|text| text.as_bytes() == token.bytes))
    }

    fn before(&self, at: usize, texts: &[&str]) -> bool {
        at > 0 && self.is(at - 1, texts)
    }

    fn closing(&self, at: usize) -> Option<usize> {
        let mut nesting = Nesting::default();
        self[at..]
            .iter()
            .position(|token| {
                nesting.enter(token.bytes);
                nesting.open.is_empty()
            })
            .map(|offset| at + offset)
    }
}

fn tokens(text: &[u8]) -> Vec<Token<'_>> {
    let mut scanner = Scanner { text, at: 0 };
    std::iter::from_fn(|| scanner.next()).collect()
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
            _ if is_name(first) => self.at += count(&self.text[start..], is_name),
            b'.' => self.at += count(&self.text[start..], |byte| byte == b'.').min(3),
            b'=' | b'~' | b'<' | b'>' if self.byte(1) == b'=' => self.at += 2,
            b':' if self.byte(1) == b':' => self.at += 2,
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
                        self.at +=
                            count(&self.text[self.at.min(self.text.len())..], |byte| !matches!(byte, b'\n' | b'\r'));
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
        let signs = count(&self.text[self.at + 1..], |byte| byte == b'=');
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

    /// A sign belongs to a number behind the letter of its exponent only, which in a hexadecimal one is no digit.
    fn skip_number(&mut self) {
        let is_hexadecimal = self.byte(0) == b'0' && self.byte(1).eq_ignore_ascii_case(&b'x');
        let mark = if is_hexadecimal { b'p' } else { b'e' };
        while is_name(self.byte(0)) || self.byte(0) == b'.' {
            let exponent = self.byte(0).eq_ignore_ascii_case(&mark) && matches!(self.byte(1), b'+' | b'-');
            self.at += 1 + exponent as usize;
        }
    }
}

fn count(text: &[u8], fits: impl Fn(u8) -> bool) -> usize {
    text.iter().take_while(|byte| fits(**byte)).count()
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 128
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> String {
        String::from_utf8(Source::new(text.as_bytes()).text).unwrap()
    }

    #[test]
    fn outermost_returned_calls_are_put_in_parentheses() {
        for (script, expected) in [
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
            assert_eq!(expected, text(script));
        }
    }

    #[test]
    fn all_else_stays() {
        for script in [
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
            assert_eq!(script, text(script));
        }
    }

    #[test]
    fn uses_are_told_apart() {
        let of = |script: &str| Source::new(script.as_bytes()).uses.get(&b"redis"[..]).copied();
        for (script, expected) in [
            ("return redis.call('get', KEYS[1])", Some(Use::Fields)),
            ("local a = {redis.call('x'), redis.call('y')}", Some(Use::Fields)),
            ("return 'a' .. redis.sha1hex('b')", Some(Use::Fields)),
            ("pcall(redis.call, 'x')", Some(Use::Fields)),
            ("local r = redis", Some(Use::Value)),
            ("return redis['call']('x')", Some(Use::Value)),
            ("redis.call = 1", Some(Use::Value)),
            ("a, redis.call = 1, 2", Some(Use::Value)),
            ("redis.call, a = 1, 2", Some(Use::Value)),
            ("redis = 1", Some(Use::Assigned)),
            ("a, redis = 1, 2", Some(Use::Assigned)),
            ("redis, a = 1, 2", Some(Use::Assigned)),
            ("function redis() end", Some(Use::Assigned)),
            ("function redis.f() end", Some(Use::Assigned)),
            ("f(function() redis.call = 1 end)", Some(Use::Value)),
            ("redis.call --[[ = ]] = 1", Some(Use::Value)),
            ("return a.redis", None),
            ("return 'redis'", None),
        ] {
            assert_eq!(expected, of(script), "{script}");
        }
    }

    #[test]
    fn nothing_hides_from_the_scanner() {
        let of = |script: &str| Source::new(script.as_bytes()).uses.get(&b"redis"[..]).copied();
        for script in [
            "redis.call('x') -- c\rredis.call = 1",
            "redis.call('x') --[c\rredis.call = 1",
            "local n = {0xe+redis, redis.call}",
            "local n = {0xE-redis, redis.call}",
            "local n = {0x1p+1, redis}",
            "redis.LOG_NOTICE ~= 1",
        ] {
            assert_eq!(Some(Use::Value), of(script), "{script}");
        }
        assert_eq!(Some(Use::Fields), of("return 0x1F + 1e+5 + .5e-3 + 3. .. redis.sha1hex('x') .. 0x.8p1"));
        for script in [
            "#\"\nredis.call = 1 --\"\nreturn redis.call('x')",
            "\u{feff}redis.call = 1 return redis.call('x')",
            "redis.x += 1 redis.call('x')",
            "redis.x -= 1",
            "redis.x *= 1",
            "redis.x /= 1",
            "redis.x //= 1",
            "redis.x %= 1",
            "redis.x ^= 1",
            "redis.x ..= 'a'",
            "redis.x ??= 'a'",
            "redis.x &= 1",
            "redis.x |= 1",
            "redis.x ~= 1 redis.x ~>>= 1",
            "redis.x <<= 1",
            "redis.x >>= 1",
            "redis?.x = 1",
            "f(redis -> redis.call)",
            "return redis.a && redis.b",
            "return !redis.a",
            "::a:: redis.call('x')",
            "return redis.a != 1",
            "return 1_0, redis.a",
            "return 1LL, redis.a",
            "return 0x1p, redis.a",
        ] {
            let source = Source::new(script.as_bytes());
            assert!(source.uses.is_empty() && !source.keeps_lists, "{script}");
            assert_eq!(script.as_bytes(), source.text, "{script}");
        }
    }

    #[test]
    fn lists_are_kept_by_scripts_that_only_read_them() {
        let keeps = |script: &str| Source::new(script.as_bytes()).keeps_lists;
        for script in [
            "return redis.call('get', KEYS[1])",
            "return redis.call('set', KEYS[1], ARGV[1], 'EX', ARGV[#ARGV])",
            "for i = 1, #KEYS do redis.call('del', KEYS[i]) end",
            "if KEYS[1] == 'a' then return ARGV[1] .. KEYS[2] end",
            "local t = {[KEYS[1]] = 1, KEYS[2]}",
        ] {
            assert!(keeps(script), "{script}");
        }
        for script in [
            "KEYS[1] = 'a'",
            "KEYS[1], x = 'a', 1",
            "local k = KEYS",
            "table.insert(ARGV, 1)",
            "KEYS.x = 1",
            "f(function() ARGV[1] = 2 end)",
            "_G.KEYS[1] = 2",
            "loadstring('KEYS[1] = 2')()",
            "return unpack(KEYS)",
            "ARGV[#ARGV + 1] = 1",
        ] {
            assert!(!keeps(script), "{script}");
        }
    }
}
