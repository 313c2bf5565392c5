//! The first line of a library, which names its language and itself: `#!lua name=mylib`.

use crate::error::{Code, Error, Result};
use crate::limits;
use crate::table::library::is_name;

/// What a library's text says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// Its name.
    pub name: String,
    /// Bytes before the code; the line feed after them stays, so that lines keep their numbers.
    pub code_at: usize,
}

const NAMES: &str =
    "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// A name of a library or function that cannot be one.
pub fn bad_name() -> Error {
    Error::err(NAMES)
}

/// Reads the first line of a library; errors have Redis's words.
pub fn read_heading(text: &[u8]) -> Result<Heading> {
    if text.len() > limits::LIBRARY_BYTES_MAX {
        let text = format!("a library is longer than {} bytes", limits::LIBRARY_BYTES_MAX);
        return Err(Error::new(Code::Limit, text));
    }
    if !text.starts_with(b"#!") {
        return Err(Error::err("Missing library metadata"));
    }
    let invalid = || Error::err("Invalid library metadata");
    // In Redis the line is a C string.
    let end = text.iter().position(|byte| matches!(byte, b'\n' | 0)).filter(|end| text[*end] == b'\n');
    let end = end.ok_or_else(invalid)?;
    let words = split(&text[..end]).ok_or_else(invalid)?;
    let (engine, rest) = words.split_first().ok_or_else(invalid)?;
    let mut name: Option<&[u8]> = None;
    for word in rest {
        let value = word.split_at_checked(5).filter(|(key, _)| key.eq_ignore_ascii_case(b"name="));
        let Some((_, value)) = value else {
            return Err(quoting(b"Invalid metadata value given: ", word, b""));
        };
        if name.replace(value).is_some() {
            return Err(Error::err("Invalid metadata value, name argument was given multiple times"));
        }
    }
    let name = name.ok_or_else(|| Error::err("Library name was not given"))?;
    if !is_name(name) {
        return Err(bad_name());
    }
    let engine = engine.get(2..).unwrap_or_default();
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err(quoting(b"Engine '", engine, b"' not found"));
    }
    Ok(Heading { name: String::from_utf8_lossy(name).into_owned(), code_at: end })
}

/// An error that quotes bytes of a request, as far as C would: up to a zero.
pub fn quoting(before: &[u8], quoted: &[u8], after: &[u8]) -> Error {
    let line = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
    let quoted: Vec<u8> = quoted.iter().take_while(|byte| **byte != 0).map(line).collect();
    Error::quoting(Code::Err, [before, &quoted, after].concat())
}

/// The words of a line, quoted and escaped as a shell would have them; None: a quote is not closed as it should be.
fn split(mut line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 11;
    let mut words = Vec::new();
    loop {
        line = &line[line.iter().position(|byte| !is_blank(byte)).unwrap_or(line.len())..];
        if line.is_empty() {
            return Some(words);
        }
        let mut word = Vec::new();
        while let Some((first, rest)) = line.split_first().filter(|(first, _)| !is_blank(first)) {
            line = match first {
                b'"' | b'\'' => {
                    let rest = quoted(rest, *first, &mut word)?;
                    // The closing quote ends the word.
                    if rest.first().is_some_and(|byte| !is_blank(byte)) {
                        return None;
                    }
                    rest
                }
                _ => {
                    word.push(*first);
                    rest
                }
            };
        }
        words.push(word);
    }
}

/// Appends what stands in quotes, and gives what follows the closing one.
fn quoted<'a>(mut line: &'a [u8], quote: u8, word: &mut Vec<u8>) -> Option<&'a [u8]> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    loop {
        let (byte, rest) = match line {
            [b'\\', b'x', high, low, rest @ ..] if quote == b'"' && digit(*high).is_some() && digit(*low).is_some() => {
                (digit(*high)? << 4 | digit(*low)?, rest)
            }
            [b'\\', escaped, rest @ ..] if quote == b'"' => (unescape(*escaped), rest),
            [b'\\', b'\'', rest @ ..] if quote == b'\'' => (b'\'', rest),
            [byte, rest @ ..] if *byte == quote => return Some(rest),
            [byte, rest @ ..] => (*byte, rest),
            [] => return None,
        };
        word.push(byte);
        line = rest;
    }
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_read_as_in_redis() {
        let name = |text: &str| read_heading(text.as_bytes()).map(|heading| heading.name).map_err(|e| e.message);
        for text in ["#!lua name=lib\n", "#!LUA  NAME=lib \n x", "#!lua \"name=lib\"\n", "#!lua 'name=lib'\n"] {
            assert_eq!(Ok("lib".into()), name(text), "{text}");
        }
        assert_eq!(Ok("lib".into()), name("#!lua \"\\x6eame=l\\ib\"\n"));
        for (text, error) in [
            ("", "Missing library metadata"),
            ("return 1", "Missing library metadata"),
            ("#!lua name=x", "Invalid library metadata"),
            ("#!lua name=\0x\n", "Invalid library metadata"),
            ("#!lua 'name=x\n", "Invalid library metadata"),
            ("#!lua 'name='x\n", "Invalid library metadata"),
            ("#!lua\n", "Library name was not given"),
            ("#!lua name=x name=y\n", "Invalid metadata value, name argument was given multiple times"),
            ("#!lua nam=x\n", "Invalid metadata value given: nam=x"),
            ("#!lua na\n", "Invalid metadata value given: na"),
            ("#!lua name=\n", NAMES),
            ("#!lua name=a-b\n", NAMES),
            ("#!nope name=x\n", "Engine 'nope' not found"),
            ("#!\n", "Library name was not given"),
            ("#!'x' name=x\n", "Engine 'x' not found"),
        ] {
            assert_eq!(Err(error.into()), name(text), "{text}");
        }
        let code_at = read_heading(b"#!lua name=x\nreturn").unwrap().code_at;
        assert_eq!(12, code_at);
    }

    #[test]
    fn no_bytes_are_too_strange() {
        let mut random = crate::env::Xoshiro::from_seed(3);
        let pieces: [&[u8]; 12] =
            [b"#!", b"lua", b" ", b"name=", b"x", b"\"", b"'", b"\\", b"\\x", b"f", b"\n", b"\xff"];
        for _ in 0..20_000 {
            let count = random.below(12);
            let text: Vec<u8> =
                (0..count).flat_map(|_| pieces[random.below(pieces.len() as u64) as usize].to_vec()).collect();
            if let Ok(heading) = read_heading(&text) {
                assert_eq!(b'\n', text[heading.code_at]);
            }
        }
    }
}
