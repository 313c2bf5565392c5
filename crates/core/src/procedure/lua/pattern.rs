//! Lua 5.1's pattern matching, which can be interrupted.
//!
//! A pattern such as `.-.-.-.-b$` takes time that grows with a power of the text's length, and LuaJIT's own matcher
//! cannot be stopped. This one counts its steps and asks now and then whether to go on.

use std::borrow::Cow;

/// Most captures of a pattern.
pub const CAPTURES_MAX: usize = 32;
/// Deepest recursion, as in LuaJIT.
const DEPTH_MAX: usize = 200;
/// Steps between two questions whether to go on.
const STEPS: u32 = 4096;
/// Bytes that one step may look at besides.
const STEP_BYTES: usize = 16;

/// Why matching failed to give an answer.
#[derive(Debug, PartialEq)]
pub enum Failure {
    /// The pattern makes no sense.
    Malformed(Cow<'static, str>),
    /// It was interrupted.
    Interrupted,
}

/// The end of a match, if there is one.
type Match = Result<Option<usize>, Failure>;

fn malformed<T>(text: &'static str) -> Result<T, Failure> {
    Err(Failure::Malformed(text.into()))
}

/// What a capture holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Capture {
    /// Begun, not ended.
    Open(usize),
    /// From here, so many bytes.
    Closed(usize, usize),
    /// `()`: a position, counted from 0.
    Position(usize),
}

/// A pattern applied to a text.
pub struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: [Capture; CAPTURES_MAX],
    level: usize,
    depth: usize,
    steps: u32,
    go_on: &'a dyn Fn() -> bool,
}

impl<'a> Matcher<'a> {
    /// For a pattern without its anchor. `go_on` is asked now and then, and ends matching when it says no.
    pub fn new(text: &'a [u8], pattern: &'a [u8], go_on: &'a dyn Fn() -> bool) -> Self {
        Matcher { text, pattern, captures: [Capture::Open(0); CAPTURES_MAX], level: 0, depth: 0, steps: STEPS, go_on }
    }

    /// The end of a match that begins at `start`.
    #[inline]
    pub fn match_at(&mut self, start: usize) -> Match {
        self.level = 0;
        self.match_here(start, 0)
    }

    /// Number of captures of the last match.
    pub fn captures(&self) -> usize {
        self.level
    }

    /// A capture of the last match, which went from `start` to `end`; without any, number 0 is all of it.
    pub fn capture(&self, index: usize, start: usize, end: usize) -> Result<Capture, Failure> {
        match self.captures.get(index).filter(|_| index < self.level) {
            None if index == 0 => Ok(Capture::Closed(start, end - start)),
            None => malformed("invalid capture index"),
            Some(Capture::Open(_)) => malformed("unfinished capture"),
            Some(capture) => Ok(*capture),
        }
    }

    #[inline]
    fn step(&mut self) -> Result<(), Failure> {
        self.spend(0)
    }

    /// A step that looks at so many bytes: of a set, or of what a capture holds.
    #[inline]
    fn spend(&mut self, bytes: usize) -> Result<(), Failure> {
        let steps = 1 + (bytes / STEP_BYTES) as u32;
        if self.steps <= steps {
            self.steps = STEPS;
            if !(self.go_on)() {
                return Err(Failure::Interrupted);
            }
        } else {
            self.steps -= steps;
        }
        Ok(())
    }

    fn match_here(&mut self, s: usize, p: usize) -> Match {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return malformed("pattern too complex");
        }
        self.step()?;
        let result = self.match_items(s, p);
        self.depth -= 1;
        result
    }

    /// Matches the pattern from `p` on, item by item.
    fn match_items(&mut self, mut s: usize, mut p: usize) -> Match {
        while p < self.pattern.len() {
            match (self.pattern[p], self.pattern.get(p + 1)) {
                (b'(', Some(b')')) => return self.open_capture(Capture::Position(s), s, p + 2),
                (b'(', _) => return self.open_capture(Capture::Open(s), s, p + 1),
                (b')', _) => return self.close_capture(s, p + 1),
                (b'$', None) => return Ok((s == self.text.len()).then_some(s)),
                (b'%', Some(b'b')) => match self.match_balance(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => {
                    if self.pattern.get(p + 2) != Some(&b'[') {
                        return malformed("missing '[' after '%f' in pattern");
                    }
                    let end = self.class_end(p + 2)?;
                    self.spend(3 * (end - p))?;
                    let before = if s == 0 { 0 } else { self.text[s - 1] };
                    let here = self.text.get(s).copied().unwrap_or(0);
                    if self.in_set(before, p + 2, end - 1) || !self.in_set(here, p + 2, end - 1) {
                        return Ok(None);
                    }
                    p = end;
                }
                (b'%', Some(digit @ b'0'..=b'9')) => match self.match_capture(s, *digit)? {
                    Some(end) => (s, p) = (end, p + 2),
                    None => return Ok(None),
                },
                _ => {
                    let end = self.class_end(p)?;
                    self.spend(2 * (end - p))?;
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if self.matches_one(s, p, end)
                                && let Some(done) = self.match_here(s + 1, end + 1)?
                            {
                                return Ok(Some(done));
                            }
                            p = end + 1;
                        }
                        Some(b'*') => return self.match_greedily(s, p, end, 0),
                        Some(b'+') => return self.match_greedily(s, p, end, 1),
                        Some(b'-') => return self.match_lazily(s, p, end),
                        _ => {
                            if !self.matches_one(s, p, end) {
                                return Ok(None);
                            }
                            (s, p) = (s + 1, end);
                        }
                    }
                }
            }
        }
        Ok(Some(s))
    }

    /// As many of the class at `p` as possible, at least `least`, then the rest.
    fn match_greedily(&mut self, s: usize, p: usize, end: usize, least: usize) -> Match {
        let mut count = 0;
        while self.matches_one(s + count, p, end) {
            self.spend(end - p)?;
            count += 1;
        }
        while count >= least {
            self.step()?;
            if let Some(done) = self.match_here(s + count, end + 1)? {
                return Ok(Some(done));
            }
            if count == 0 {
                break;
            }
            count -= 1;
        }
        Ok(None)
    }

    /// As few of the class at `p` as possible, then the rest.
    fn match_lazily(&mut self, mut s: usize, p: usize, end: usize) -> Match {
        loop {
            self.spend(end - p)?;
            if let Some(done) = self.match_here(s, end + 1)? {
                return Ok(Some(done));
            }
            if !self.matches_one(s, p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn open_capture(&mut self, capture: Capture, s: usize, p: usize) -> Match {
        if self.level >= CAPTURES_MAX {
            return malformed("too many captures");
        }
        self.captures[self.level] = capture;
        self.level += 1;
        let done = self.match_here(s, p)?;
        if done.is_none() {
            self.level -= 1;
        }
        Ok(done)
    }

    fn close_capture(&mut self, s: usize, p: usize) -> Match {
        let open = self.captures[..self.level].iter().rposition(|capture| matches!(capture, Capture::Open(_)));
        let Some(index) = open else { return malformed("invalid pattern capture") };
        let Capture::Open(start) = self.captures[index] else { return malformed("invalid pattern capture") };
        self.captures[index] = Capture::Closed(start, s - start);
        let done = self.match_here(s, p)?;
        if done.is_none() {
            self.captures[index] = Capture::Open(start);
        }
        Ok(done)
    }

    /// `%b()`: from an opening to its closing byte.
    fn match_balance(&mut self, s: usize, p: usize) -> Match {
        let [open, close] = match self.pattern.get(p..p + 2) {
            Some(pair) => [pair[0], pair[1]],
            None => return malformed("unbalanced pattern"),
        };
        if self.text.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for (offset, byte) in self.text[s + 1..].iter().enumerate() {
            self.step()?;
            if *byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(s + offset + 2));
                }
            } else if *byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// `%1`: what the capture holds, again.
    fn match_capture(&mut self, s: usize, digit: u8) -> Match {
        let index = digit.wrapping_sub(b'1') as usize;
        let (start, len) = match self.captures[..self.level].get(index) {
            Some(Capture::Closed(start, len)) => (*start, *len),
            // A position is as long as nothing.
            Some(Capture::Position(_)) => return Ok(None),
            _ => return malformed("invalid capture index"),
        };
        self.spend(len)?;
        let again = self.text[s..].starts_with(&self.text[start..start + len]);
        Ok(again.then_some(s + len))
    }

    /// Where the class that begins at `p` ends.
    fn class_end(&self, p: usize) -> Result<usize, Failure> {
        match self.pattern[p] {
            b'%' if p + 1 >= self.pattern.len() => malformed("malformed pattern (ends with '%')"),
            b'%' => Ok(p + 2),
            b'[' => {
                let mut p = p + 1;
                if self.pattern.get(p) == Some(&b'^') {
                    p += 1;
                }
                // A bracket right at the beginning stands for itself.
                loop {
                    let Some(byte) = self.pattern.get(p) else { return malformed("malformed pattern (missing ']')") };
                    p += 1;
                    if *byte == b'%' {
                        p += 1;
                    }
                    match self.pattern.get(p) {
                        Some(b']') => return Ok(p + 1),
                        Some(_) => {}
                        None => return malformed("malformed pattern (missing ']')"),
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// True when the byte at `s` is of the class from `p` to `end`.
    #[inline]
    fn matches_one(&self, s: usize, p: usize, end: usize) -> bool {
        let Some(&byte) = self.text.get(s) else { return false };
        match self.pattern[p] {
            b'.' => true,
            b'%' => in_class(byte, self.pattern[p + 1]),
            b'[' => self.in_set(byte, p, end - 1),
            literal => literal == byte,
        }
    }

    /// True when a byte is of the set whose opening bracket is at `p` and whose closing one at `end`.
    fn in_set(&self, byte: u8, p: usize, end: usize) -> bool {
        let negated = self.pattern.get(p + 1) == Some(&b'^');
        let mut items = &self.pattern[p + 1 + negated as usize..end];
        while let Some((&first, rest)) = items.split_first() {
            let (hit, after) = match (first, rest) {
                (b'%', [class, after @ ..]) => (in_class(byte, *class), after),
                (low, [b'-', high, after @ ..]) => ((low..=*high).contains(&byte), after),
                (literal, after) => (literal == byte, after),
            };
            if hit {
                return !negated;
            }
            items = after;
        }
        negated
    }
}

/// True when a byte is of the class that a letter names; other letters stand for themselves.
fn in_class(byte: u8, class: u8) -> bool {
    let hit = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | 9..=13),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    hit != class.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(text: &str, pattern: &str) -> Match {
        Matcher::new(text.as_bytes(), pattern.as_bytes(), &|| true).match_at(0)
    }

    #[test]
    fn items_match() {
        for (text, pattern, expected) in [
            ("abc", "abc", Some(3)),
            ("abc", "abd", None),
            ("aaa", "a*", Some(3)),
            ("aaab", "a-b", Some(4)),
            ("aaa", "a-", Some(0)),
            ("ab", "a?b", Some(2)),
            ("b", "a?b", Some(1)),
            ("b", "a+b", None),
            ("a.b", "a%.b", Some(3)),
            ("x]y", "[]x]+", Some(2)),
            ("abc-", "[%w-]+", Some(4)),
            ("a-z", "[a-]+", Some(2)),
            ("XYZ", "[^a-z]+", Some(3)),
            ("(a(b)c)d", "%b()", Some(7)),
            ("abab", "(ab)%1", Some(4)),
            ("THE (quick)", "%f[%a]%a+", Some(3)),
            ("abc", "abc$", Some(3)),
            ("abcd", "abc$", None),
            ("a$b", "a$b", Some(3)),
            ("", ".", None),
            ("\0a", "%za", Some(2)),
            ("a b", "%a%s%a", Some(3)),
        ] {
            assert_eq!(Ok(expected), end(text, pattern), "{text} {pattern}");
        }
    }

    #[test]
    fn captures_are_kept() {
        let go_on = || true;
        let mut matcher = Matcher::new(b"key = value", b"(%w+)%s*=()%s*(%w+)", &go_on);
        assert_eq!(Ok(Some(11)), matcher.match_at(0));
        assert_eq!(3, matcher.captures());
        assert_eq!(Ok(Capture::Closed(0, 3)), matcher.capture(0, 0, 11));
        assert_eq!(Ok(Capture::Position(5)), matcher.capture(1, 0, 11));
        assert_eq!(Ok(Capture::Closed(6, 5)), matcher.capture(2, 0, 11));
    }

    #[test]
    fn nonsense_is_named() {
        for (pattern, text) in [
            ("%", "malformed pattern (ends with '%')"),
            ("[a", "malformed pattern (missing ']')"),
            ("[]", "malformed pattern (missing ']')"),
            ("[^", "malformed pattern (missing ']')"),
            ("%f", "missing '[' after '%f' in pattern"),
            ("%bx", "unbalanced pattern"),
            ("a)", "invalid pattern capture"),
            ("%1", "invalid capture index"),
            ("(%1", "invalid capture index"),
        ] {
            assert_eq!(Err(Failure::Malformed(text.into())), end("aaa", pattern), "{pattern}");
        }
        let many = "()".repeat(33);
        assert_eq!(Err(Failure::Malformed("too many captures".into())), end("", &many));
        let deep = "a?".repeat(300);
        assert_eq!(Err(Failure::Malformed("pattern too complex".into())), end(&"a".repeat(300), &deep));
    }

    #[test]
    fn a_runaway_is_interrupted() {
        let text = "a".repeat(100_000);
        let asked = std::cell::Cell::new(0);
        let go_on = || {
            asked.set(asked.get() + 1);
            asked.get() < 3
        };
        let mut matcher = Matcher::new(text.as_bytes(), b".-.-.-.-b$", &go_on);
        assert_eq!(Err(Failure::Interrupted), matcher.match_at(0));
        assert_eq!(3, asked.get());
    }
}
