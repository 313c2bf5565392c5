//! Glob patterns as Redis matches them: `*`, `?`, `[a-z]`, `[^x]` and `\` to take the next byte as it is.
//!
//! Every element except `*` takes exactly one byte of the text, so it is enough to remember the last star: when a later
//! element fails, that star takes one byte more. The work is bounded by pattern length times text length, whatever the
//! pattern; no recursion.

/// True when `text` matches all of `pattern`. As in Redis, an empty text matches only an empty pattern, not even `*`;
/// commands that filter ask [`is_all`] first.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    matches_with::<false>(pattern, text)
}

/// As [`matches`], with ASCII letters of either case equal (except after a backslash inside a class, as in Redis).
pub fn matches_nocase(pattern: &[u8], text: &[u8]) -> bool {
    matches_with::<true>(pattern, text)
}

/// True when the pattern can only match itself, so that a look-up can replace a search.
pub fn is_literal(pattern: &[u8]) -> bool {
    !pattern.iter().any(|c| matches!(c, b'*' | b'?' | b'[' | b'\\'))
}

/// True for the pattern `*`, with which KEYS and SCAN do not compare at all.
pub fn is_all(pattern: &[u8]) -> bool {
    pattern == b"*"
}

fn matches_with<const NOCASE: bool>(pattern: &[u8], text: &[u8]) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut p, mut t) = (0, 0);
    // Where to go on when an element fails: the element after the last star, and where that star began to end.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            while p < pattern.len() && pattern[p] == b'*' {
                p += 1;
            }
            if p == pattern.len() {
                return true;
            }
            retry = Some((p, t));
        } else if t == text.len() {
            // Longer stars leave even less text for the rest, so there is nothing to go back to.
            return p == pattern.len();
        } else if let Some(next) = step::<NOCASE>(pattern, p, text[t]) {
            p = next;
            t += 1;
        } else {
            let Some((element, end)) = retry else { return false };
            retry = Some((element, end + 1));
            (p, t) = (element, end + 1);
        }
    }
}

/// Matches the element at `p` with one byte: the place after the element, or `None`.
#[inline]
fn step<const NOCASE: bool>(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    match *pattern.get(p)? {
        b'?' => Some(p + 1),
        b'[' => class::<NOCASE>(pattern, p + 1, byte),
        b'\\' if p + 1 < pattern.len() => same::<NOCASE>(pattern[p + 1], byte).then_some(p + 2),
        c => same::<NOCASE>(c, byte).then_some(p + 1),
    }
}

#[inline]
fn same<const NOCASE: bool>(a: u8, b: u8) -> bool {
    if NOCASE { a.eq_ignore_ascii_case(&b) } else { a == b }
}

/// Matches the class whose inside starts at `p`. A class without `]` ends with the pattern.
fn class<const NOCASE: bool>(pattern: &[u8], mut p: usize, byte: u8) -> Option<usize> {
    let fold = |c: u8| if NOCASE { c.to_ascii_lowercase() } else { c };
    let negated = pattern.get(p) == Some(&b'^');
    p += negated as usize;
    let mut found = false;
    loop {
        match &pattern[p.min(pattern.len())..] {
            [b'\\', c, ..] => {
                found |= *c == byte;
                p += 2;
            }
            [b']', ..] => {
                p += 1;
                break;
            }
            [] => break,
            [from, b'-', to, ..] => {
                let (low, high) = (from.min(to), from.max(to));
                found |= (fold(*low)..=fold(*high)).contains(&fold(byte));
                p += 3;
            }
            [c, ..] => {
                found |= same::<NOCASE>(*c, byte);
                p += 1;
            }
        }
    }
    (found != negated).then_some(p)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;

    #[test]
    fn matches_as_redis_does() {
        let yes: [(&str, &str); 22] = [
            ("", ""),
            ("*", "a"),
            ("**", "abc"),
            ("a*c", "abbc"),
            ("h?llo", "hello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-b]llo", "hbllo"),
            ("h[b-a]llo", "hbllo"),
            ("\\*", "*"),
            ("a\\", "a\\"),
            ("[\\]]", "]"),
            ("[abc", "b"),
            ("[^]", "x"),
            ("[a-]", "]"),
            ("[a-]", "a"),
            ("*a*b*c", "xxaxxbxxc"),
            ("[\\", "\\"),
            ("[a-b-c]", "-"),
            ("*[0-9]", "key7"),
            ("*\\?", "what?"),
            ("[*?]", "*"),
        ];
        for (pattern, text) in yes {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        let no: [(&str, &str); 14] = [
            ("", "a"),
            ("*", ""),
            ("a", ""),
            ("?", ""),
            ("a*c", "abd"),
            ("h[^e]llo", "hello"),
            ("[]", "a"),
            ("[]", "]"),
            ("[]a]", "a"),
            ("[", "["),
            ("\\a", "b"),
            ("*a*b*c", "xxaxxcxxb"),
            ("abc", "ABC"),
            ("[a-b-c]", "c-"),
        ];
        for (pattern, text) in no {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        assert!(matches_nocase(b"H[A-Z]ll*", b"hello"));
        assert!(!matches_nocase(b"[\\A]", b"a"));
    }

    #[test]
    fn a_pathological_pattern_ends_soon() {
        let text = [b'a'; 5000];
        let pattern = b"a*".repeat(2000);
        let pattern = [&pattern[..], b"b"].concat();
        assert!(!matches(&pattern, &text));
    }

    /// The definition by recursion, without bounds.
    fn oracle(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.first() {
            None => text.is_empty(),
            Some(b'*') => (0..=text.len()).any(|n| oracle(&pattern[1..], &text[n..])),
            Some(_) => {
                !text.is_empty()
                    && step::<false>(pattern, 0, text[0]).is_some_and(|p| oracle(&pattern[p..], &text[1..]))
            }
        }
    }

    #[test]
    fn remembering_the_last_star_is_enough() {
        let mut random = Xoshiro::from_seed(4);
        let mut pick = |from: &[u8], max: u64| -> Vec<u8> {
            let len = random.below(max);
            (0..len).map(|_| from[random.below(from.len() as u64) as usize]).collect()
        };
        for _ in 0..50_000 {
            let (pattern, text) = (pick(b"ab*?[]^-\\", 9), pick(b"ab-]", 8));
            assert_eq!(
                oracle(&pattern, &text) && (pattern.is_empty() || !text.is_empty()),
                matches(&pattern, &text),
                "{pattern:?} {text:?}"
            );
        }
    }
}
