//! Requests out of a byte stream: arrays of bulk strings, and inline lines as typed into telnet.
//!
//! The decoder keeps its place, so a request that arrives in a thousand pieces is looked at once, and it checks every
//! count and length against the limits before anything is allocated for it (invariant 8). Error texts are Redis 7's.

use peryton_core::limits;
use peryton_core::store::is_statement;
use std::ops::Range;

/// What the next bytes were.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A whole request; its arguments are in [`Decoder::arguments`].
    Request,
    /// An empty line or an empty array: nothing to execute, nothing to answer.
    Empty,
    /// The request is not complete yet.
    Incomplete,
}

/// The stream cannot be followed any further: the text is sent and the connection closed.
#[derive(Debug, PartialEq, Eq)]
pub struct ProtocolError(pub Vec<u8>);

/// Bounds that depend on who is talking.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most arguments in one request.
    pub arguments_max: usize,
    /// Longest argument, bytes.
    pub bulk_bytes_max: usize,
    /// True while the client has not authenticated; only changes the text of the error.
    pub unauthenticated: bool,
}

impl Limits {
    /// For a client that may do anything.
    pub const TRUSTED: Limits =
        Limits { arguments_max: limits::ARGUMENTS_MAX, bulk_bytes_max: limits::BULK_BYTES_MAX, unauthenticated: false };
    /// For a client that has yet to give its password.
    pub const UNAUTHENTICATED: Limits = Limits {
        arguments_max: limits::UNAUTHENTICATED_ARGUMENTS_MAX,
        bulk_bytes_max: limits::UNAUTHENTICATED_BULK_BYTES_MAX,
        unauthenticated: true,
    };
}

/// Longest line that may announce a count or a length, bytes (Redis: PROTO_INLINE_MAX_SIZE).
const LINE_BYTES_MAX: usize = limits::INLINE_BYTES_MAX;

/// The place in one connection's stream.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Arguments of the request, as places in the buffer, or in `inline` when `is_inline`.
    places: Vec<Range<usize>>,
    /// Arguments still to come; 0 between requests.
    missing: usize,
    /// The length of the argument being read, once its `$` line is read.
    bulk_bytes: Option<usize>,
    /// Where reading goes on, relative to the start of the request.
    position: usize,
    /// Unquoted text of an inline request.
    inline: Vec<u8>,
    is_inline: bool,
}

impl Decoder {
    /// Reads on in `buffer`, which must start where the unfinished request starts.
    ///
    /// After [`Parsed::Request`] or [`Parsed::Empty`], [`Decoder::consumed`] bytes belong to it, and the next call
    /// must get a buffer without them, after [`Decoder::reset`].
    #[inline]
    pub fn decode(&mut self, buffer: &[u8], limits: &Limits) -> Result<Parsed, ProtocolError> {
        if self.missing == 0 {
            match buffer.first() {
                None => return Ok(Parsed::Incomplete),
                Some(b'*') => {
                    if let Some(done) = self.decode_count(buffer, limits)? {
                        return Ok(done);
                    }
                }
                Some(_) => return self.decode_inline(buffer),
            }
        }
        self.decode_arguments(buffer, limits)
    }

    /// True inside a request, so that the next byte is not the first of one.
    #[inline]
    pub fn is_inside(&self) -> bool {
        self.missing > 0
    }

    /// Bytes of the buffer that the finished request took.
    #[inline]
    pub fn consumed(&self) -> usize {
        self.position
    }

    /// Forgets the finished request.
    #[inline]
    pub fn reset(&mut self) {
        self.places.clear();
        self.position = 0;
        self.is_inline = false;
        // One request of a million arguments must not keep its memory for the life of the connection.
        if self.places.capacity() > 1024 {
            self.places = Vec::new();
        }
        if self.inline.capacity() > 4096 {
            self.inline = Vec::new();
        }
    }

    /// The arguments of the finished request; `buffer` is the one given to `decode`.
    #[inline]
    pub fn arguments<'a>(&'a self, buffer: &'a [u8]) -> impl ExactSizeIterator<Item = &'a [u8]> {
        let source = if self.is_inline { &self.inline[..] } else { buffer };
        self.places.iter().map(move |place| &source[place.start..place.end])
    }

    /// The arguments of the finished request, which was an array and not a line, so that they live as long as `buffer`.
    #[inline]
    pub fn array_arguments<'b>(&self, buffer: &'b [u8]) -> impl Iterator<Item = &'b [u8]> {
        debug_assert!(!self.is_inline);
        self.places.iter().map(move |place| &buffer[place.start..place.end])
    }

    /// Reads `*<count>\r\n`. Some means there is nothing further to read now.
    fn decode_count(&mut self, buffer: &[u8], limits: &Limits) -> Result<Option<Parsed>, ProtocolError> {
        let Some((line, next)) = line_after(buffer, 1) else {
            return too_long(buffer.len(), "too big mbulk count string").map(|()| Some(Parsed::Incomplete));
        };
        let count = match parse_length(line) {
            Some(n) if n <= limits::ARGUMENTS_MAX as i64 => n,
            _ => return Err(ProtocolError(b"invalid multibulk length".to_vec())),
        };
        if limits.unauthenticated && count > limits.arguments_max as i64 {
            return Err(ProtocolError("unauthenticated multibulk length".into()));
        }
        self.position = next;
        if count <= 0 {
            return Ok(Some(Parsed::Empty));
        }
        self.missing = count as usize;
        Ok(None)
    }

    fn decode_arguments(&mut self, buffer: &[u8], limits: &Limits) -> Result<Parsed, ProtocolError> {
        loop {
            let length = match self.bulk_bytes {
                Some(length) => length,
                None => match self.decode_bulk_length(buffer, limits)? {
                    Some(length) => length,
                    None => return Ok(Parsed::Incomplete),
                },
            };
            // Like Redis, the two bytes after the argument are skipped, not checked.
            if buffer.len() - self.position < length + 2 {
                self.bulk_bytes = Some(length);
                return Ok(Parsed::Incomplete);
            }
            self.places.push(self.position..self.position + length);
            self.position += length + 2;
            self.bulk_bytes = None;
            self.missing -= 1;
            if self.missing == 0 {
                return Ok(Parsed::Request);
            }
        }
    }

    /// Reads `$<length>\r\n`; None when the line is not complete.
    #[inline]
    fn decode_bulk_length(&mut self, buffer: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        let rest = &buffer[self.position..];
        // Nearly every argument is shorter than 100 bytes: read "$n\r\n" and "$nn\r\n" without a search.
        if let [b'$', a @ b'0'..=b'9', b'\r', b'\n', ..] = *rest {
            self.position += 4;
            return Ok(Some((a - b'0') as usize));
        }
        if let [b'$', a @ b'1'..=b'9', b @ b'0'..=b'9', b'\r', b'\n', ..] = *rest {
            self.position += 5;
            return Ok(Some((a - b'0') as usize * 10 + (b - b'0') as usize));
        }
        let Some((line, next)) = line_after(buffer, self.position) else {
            too_long(rest.len(), "too big bulk count string")?;
            // A wrong first byte is known before its line is complete, but Redis waits for the line too.
            return Ok(None);
        };
        let Some(digits) = line.strip_prefix(b"$") else {
            return Err(ProtocolError([b"expected '$', got '", &rest[..1], b"'"].concat()));
        };
        match parse_length(digits) {
            Some(n) if n >= 0 && n <= limits::BULK_BYTES_MAX as i64 => {
                if limits.unauthenticated && n > limits.bulk_bytes_max as i64 {
                    return Err(ProtocolError("unauthenticated bulk length".into()));
                }
                self.position = next;
                Ok(Some(n as usize))
            }
            _ => Err(ProtocolError("invalid bulk length".into())),
        }
    }

    fn decode_inline(&mut self, buffer: &[u8]) -> Result<Parsed, ProtocolError> {
        let Some(end) = buffer.iter().take(LINE_BYTES_MAX + 1).position(|&b| b == b'\n') else {
            return too_long(buffer.len(), "too big inline request").map(|()| Parsed::Incomplete);
        };
        let line = buffer[..end].strip_suffix(b"\r").unwrap_or(&buffer[..end]);
        self.position = end + 1;
        self.is_inline = true;
        self.inline.clear();
        if is_statement(line) {
            // SQL has quotes of its own: the line stays whole behind its first word.
            let line = line.trim_ascii();
            let word = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
            self.inline.extend_from_slice(line);
            self.places.extend([0..word, (word + 1).min(line.len())..line.len()]);
            return Ok(Parsed::Request);
        }
        split_inline(line, &mut self.inline, &mut self.places)
            .ok_or_else(|| ProtocolError("unbalanced quotes in request".into()))?;
        Ok(if self.places.is_empty() { Parsed::Empty } else { Parsed::Request })
    }
}

fn too_long(bytes: usize, text: &str) -> Result<(), ProtocolError> {
    if bytes > LINE_BYTES_MAX { Err(ProtocolError(text.into())) } else { Ok(()) }
}

/// The bytes from `start` to the next `\r`, and the place after the byte that follows it (which is not checked).
fn line_after(buffer: &[u8], start: usize) -> Option<(&[u8], usize)> {
    let rest = buffer.get(start..)?;
    let end = rest.iter().position(|&b| b == b'\r')?;
    // The '\n' must have arrived too.
    (start + end + 1 < buffer.len()).then(|| (&rest[..end], start + end + 2))
}

/// A decimal integer as Redis reads it: an optional minus, no leading zeros, no plus, nothing around it.
fn parse_length(line: &[u8]) -> Option<i64> {
    let (negative, digits) = match line {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, line),
    };
    let canonical = match digits {
        [] => false,
        [b'0'] => !negative,
        [b'0', ..] => false,
        _ => digits.len() <= 18 && digits.iter().all(u8::is_ascii_digit),
    };
    if !canonical {
        return None;
    }
    let n = digits.iter().fold(0i64, |n, &d| n * 10 + (d - b'0') as i64);
    Some(if negative { -n } else { n })
}

/// Splits a line into words, which may be quoted as in Redis: `"..."` with escapes, `'...'` with `\'`.
fn split_inline(line: &[u8], text: &mut Vec<u8>, places: &mut Vec<Range<usize>>) -> Option<()> {
    let mut i = 0;
    loop {
        while i < line.len() && line[i].is_ascii_whitespace() {
            i += 1;
        }
        if i >= line.len() {
            return Some(());
        }
        let start = text.len();
        i = inline_word(line, i, text)?;
        places.push(start..text.len());
    }
}

/// Appends one word to `text` and gives the place after it.
fn inline_word(line: &[u8], mut i: usize, text: &mut Vec<u8>) -> Option<usize> {
    while i < line.len() && !line[i].is_ascii_whitespace() {
        match line[i] {
            quote @ (b'"' | b'\'') => {
                i = quoted(line, i + 1, quote, text)?;
                // A closing quote ends its word.
                return (i == line.len() || line[i].is_ascii_whitespace()).then_some(i);
            }
            byte => {
                text.push(byte);
                i += 1;
            }
        }
    }
    Some(i)
}

/// Appends the text up to the closing `quote` and gives the place after it; None when it is missing.
fn quoted(line: &[u8], mut i: usize, quote: u8, text: &mut Vec<u8>) -> Option<usize> {
    loop {
        match *line.get(i)? {
            byte if byte == quote => return Some(i + 1),
            b'\\' if quote == b'\'' && line.get(i + 1) == Some(&b'\'') => {
                text.push(b'\'');
                i += 2;
            }
            b'\\' if quote == b'"' && i + 1 < line.len() => {
                let (byte, length) = unescape(&line[i + 1..]);
                text.push(byte);
                i += 1 + length;
            }
            byte => {
                text.push(byte);
                i += 1;
            }
        }
    }
}

/// The byte that an escape stands for, and how many bytes after the backslash it took.
fn unescape(rest: &[u8]) -> (u8, usize) {
    let hex = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    match rest {
        [b'x', a, b, ..] if hex(*a).is_some() && hex(*b).is_some() => {
            (hex(*a).unwrap_or(0) * 16 + hex(*b).unwrap_or(0), 3)
        }
        [b'n', ..] => (b'\n', 1),
        [b'r', ..] => (b'\r', 1),
        [b't', ..] => (b'\t', 1),
        [b'b', ..] => (8, 1),
        [b'a', ..] => (7, 1),
        [other, ..] => (*other, 1),
        [] => (b'\\', 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All requests of a stream that arrives in pieces of `step` bytes.
    fn decode_all(stream: &[u8], step: usize) -> Result<Vec<Vec<Vec<u8>>>, String> {
        let mut decoder = Decoder::default();
        let mut requests = Vec::new();
        let (mut start, mut end) = (0, 0);
        while end < stream.len() {
            end = (end + step).min(stream.len());
            loop {
                let buffer = &stream[start..end];
                match decoder
                    .decode(buffer, &Limits::TRUSTED)
                    .map_err(|e| String::from_utf8_lossy(&e.0).into_owned())?
                {
                    Parsed::Incomplete => break,
                    Parsed::Empty => {}
                    Parsed::Request => requests.push(decoder.arguments(buffer).map(<[u8]>::to_vec).collect()),
                }
                start += decoder.consumed();
                decoder.reset();
            }
        }
        Ok(requests)
    }

    #[test]
    fn lines_of_sql_stay_whole() {
        let requests =
            decode_all(b"SELECT a FROM t WHERE b = 'x  y'\r\nSELECT 3\r\n insert into t values ('it''s')\n", 5);
        let words = |words: &[&str]| words.iter().map(|w| w.as_bytes().to_vec()).collect::<Vec<_>>();
        let expected = vec![
            words(&["SELECT", "a FROM t WHERE b = 'x  y'"]),
            words(&["SELECT", "3"]),
            words(&["insert", "into t values ('it''s')"]),
        ];
        assert_eq!(Ok(expected), requests);
    }

    #[test]
    fn requests_are_the_same_however_the_stream_is_cut() {
        let long = "x".repeat(300);
        let stream = format!(
            "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$300\r\n{long}\r\n\r\nPING\r\n*0\r\n*-1\r\n*1\r\n$0\r\n\r\nset \"a\\x41\\n\" 'b c'\n"
        );
        let expected = decode_all(stream.as_bytes(), stream.len()).unwrap();
        let words = |r: &[&[u8]]| r.iter().map(|w| w.to_vec()).collect::<Vec<_>>();

        assert_eq!(expected.len(), 4);
        assert_eq!(expected[0], words(&[b"SET", b"k", long.as_bytes()]));
        assert_eq!(expected[1], words(&[b"PING"]));
        assert_eq!(expected[2], words(&[b""]));
        assert_eq!(expected[3], words(&[b"set", b"aA\n", b"b c"]));
        for step in 1..stream.len() {
            assert_eq!(decode_all(stream.as_bytes(), step).unwrap(), expected, "pieces of {step}");
        }
    }

    #[test]
    fn malformed_streams_get_redis_texts() {
        for (stream, text) in [
            ("*x\r\n", "invalid multibulk length"),
            ("*1048577\r\n", "invalid multibulk length"),
            ("*99999999999999999999\r\n", "invalid multibulk length"),
            ("*1\r\nGET\r\n", "expected '$', got 'G'"),
            ("*1\r\n$-1\r\n", "invalid bulk length"),
            ("*1\r\n$536870913\r\n", "invalid bulk length"),
            ("*1\r\n$abc\r\n", "invalid bulk length"),
            ("*1\r\n$03\r\nabc\r\n", "invalid bulk length"),
            ("SET \"a\r\n", "unbalanced quotes in request"),
            ("SET \"a\"b\r\n", "unbalanced quotes in request"),
        ] {
            assert_eq!(decode_all(stream.as_bytes(), 3), Err(text.to_string()), "{stream:?}");
        }
    }

    #[test]
    fn endless_lines_are_refused() {
        let filler = "1".repeat(LINE_BYTES_MAX + 10);
        for (stream, text) in [
            (filler.clone(), "too big inline request"),
            (format!("*{filler}"), "too big mbulk count string"),
            (format!("*1\r\n${filler}"), "too big bulk count string"),
        ] {
            assert_eq!(decode_all(stream.as_bytes(), 4096), Err(text.to_string()));
        }
    }

    #[test]
    fn a_client_without_password_may_send_little() {
        let decode = |stream: &[u8]| Decoder::default().decode(stream, &Limits::UNAUTHENTICATED);

        assert_eq!(decode(b"*11\r\n"), Err(ProtocolError("unauthenticated multibulk length".into())));
        assert_eq!(decode(b"*1\r\n$16385\r\n"), Err(ProtocolError("unauthenticated bulk length".into())));
        assert_eq!(decode(b"*10\r\n$16384\r\n"), Ok(Parsed::Incomplete));
    }
}
