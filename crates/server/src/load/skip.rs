//! Counts RESP elements in a stream without keeping them: as little as a client must know to match replies with
//! requests.
//!
//! Nesting needs no stack. `open` is the number of elements still to come before the outermost one is complete: a
//! scalar takes one off, an aggregate of n takes itself off and adds n. A request is an array, so this counts requests
//! as well as replies.

use std::io::{self, ErrorKind};

/// What a stream has held so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Complete replies; pushes are not replies.
    pub replies: u64,
    /// Errors, those inside arrays too.
    pub errors: u64,
    /// Nulls, those inside arrays too.
    pub nils: u64,
}

/// Reads one stream.
#[derive(Debug, Default)]
pub struct Skipper {
    /// What was counted; the owner may reset it.
    pub tally: Tally,
    /// The first error's text.
    pub first_error: Option<String>,
    open: u64,
    is_push: bool,
    /// Bytes of a bulk string that are still to come, its line end included.
    body: usize,
    /// A header line whose end has not come yet.
    partial: Vec<u8>,
}

/// Longest header line that is believed: simple strings and errors are one line.
const LINE_BYTES_MAX: usize = 1 << 20;

impl Skipper {
    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// The bytes are no RESP.
    pub fn feed(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if !self.partial.is_empty() {
            bytes = self.finish_partial(bytes)?;
        }
        loop {
            if self.body > 0 {
                let here = self.body.min(bytes.len());
                self.body -= here;
                bytes = &bytes[here..];
                if self.body > 0 {
                    return Ok(());
                }
                self.close_element();
            }
            let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                self.partial.extend_from_slice(bytes);
                return if self.partial.len() > LINE_BYTES_MAX { Err(malformed("an endless line")) } else { Ok(()) };
            };
            self.header(&bytes[..end])?;
            bytes = &bytes[end + 1..];
        }
    }

    fn finish_partial<'a>(&mut self, bytes: &'a [u8]) -> io::Result<&'a [u8]> {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            return Ok(bytes);
        };
        let mut line = std::mem::take(&mut self.partial);
        line.extend_from_slice(&bytes[..end]);
        self.header(&line)?;
        Ok(&bytes[end + 1..])
    }

    /// One header line, without its final newline.
    #[inline]
    fn header(&mut self, line: &[u8]) -> io::Result<()> {
        let Some((kind, rest)) = line.split_first() else { return Err(malformed("an empty line")) };
        if self.open == 0 {
            self.open = 1;
            self.is_push = *kind == b'>';
        }
        match kind {
            b'+' | b':' | b',' | b'#' | b'(' => self.close_element(),
            b'$' | b'=' => return self.bulk(rest),
            b'*' | b'~' | b'>' => return self.aggregate(rest, 1),
            b'%' => return self.aggregate(rest, 2),
            // An attribute precedes the element it describes, so its own place stays open.
            b'|' => self.open += 2 * length(rest)?,
            b'-' => {
                self.note_error(rest);
                self.close_element();
            }
            b'!' => {
                self.note_error(b"(bulk error)");
                return self.bulk(rest);
            }
            b'_' => {
                self.tally.nils += 1;
                self.close_element();
            }
            _ => return Err(malformed("an unknown type byte")),
        }
        Ok(())
    }

    #[inline]
    fn bulk(&mut self, rest: &[u8]) -> io::Result<()> {
        if rest.first() == Some(&b'-') {
            self.tally.nils += 1;
            self.close_element();
        } else {
            self.body = length(rest)? as usize + 2;
        }
        Ok(())
    }

    fn aggregate(&mut self, rest: &[u8], each: u64) -> io::Result<()> {
        if rest.first() == Some(&b'-') {
            self.tally.nils += 1;
        } else {
            self.open += length(rest)? * each;
        }
        self.close_element();
        Ok(())
    }

    #[inline]
    fn close_element(&mut self) {
        self.open -= 1;
        if self.open == 0 && !self.is_push {
            self.tally.replies += 1;
        }
    }

    fn note_error(&mut self, text: &[u8]) {
        self.tally.errors += 1;
        self.first_error.get_or_insert_with(|| String::from_utf8_lossy(text).trim_end().to_string());
    }
}

#[inline]
fn length(digits: &[u8]) -> io::Result<u64> {
    let digits = digits.strip_suffix(b"\r").unwrap_or(digits);
    if digits.is_empty() || digits.len() > 10 {
        return Err(malformed("a length"));
    }
    digits.iter().try_fold(0, |value, byte| match byte {
        b'0'..=b'9' => Ok(value * 10 + u64::from(byte - b'0')),
        _ => Err(malformed("a length")),
    })
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("the other side does not speak RESP: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(stream: &[u8], step: usize) -> Tally {
        let mut skipper = Skipper::default();
        stream.chunks(step).for_each(|chunk| skipper.feed(chunk).expect("RESP"));
        skipper.tally
    }

    #[test]
    fn counts_the_same_however_the_stream_is_cut() {
        let stream = b"+OK\r\n$3\r\nabc\r\n$0\r\n\r\n:7\r\n$-1\r\n*-1\r\n_\r\n-ERR no\r\n*2\r\n$1\r\n\n\r\n*2\r\n:1\r\n-ERR x\r\n\
            *0\r\n%1\r\n+a\r\n,1.5\r\n~2\r\n#t\r\n(12\r\n=7\r\ntxt:abc\r\n!5\r\nERR y\r\n";
        let expected = Tally { replies: 14, errors: 3, nils: 3 };
        for step in 1..=stream.len() {
            assert_eq!(expected, tally(stream, step), "in chunks of {step}");
        }
    }

    #[test]
    fn pushes_and_attributes_are_not_replies() {
        assert_eq!(1, tally(b">2\r\n+message\r\n$1\r\nx\r\n+OK\r\n", 1).replies);
        assert_eq!(1, tally(b"|1\r\n+ttl\r\n:5\r\n*1\r\n|1\r\n+a\r\n*1\r\n:1\r\n+OK\r\n", 1).replies);
    }

    #[test]
    fn counts_requests() {
        assert_eq!(2, tally(b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\n*\r\n", 3).replies);
    }

    #[test]
    fn keeps_the_first_error() {
        let mut skipper = Skipper::default();
        skipper.feed(b"+OK\r\n-ERR one\r\n-ERR two\r\n").expect("RESP");
        assert_eq!(Some("ERR one"), skipper.first_error.as_deref());
    }

    #[test]
    fn refuses_what_is_not_resp() {
        for stream in [&b"HTTP/1.1 200 OK\r\n"[..], b"\r\n", b"$x\r\n", b"$\r\n", b"*99999999999\r\n"] {
            assert!(Skipper::default().feed(stream).is_err());
        }
    }
}
