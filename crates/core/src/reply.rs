//! What a command answers, before any protocol: the doors turn it into RESP, Lua values or Python objects.

use crate::error::Error;
use smallvec::SmallVec;
use std::borrow::Cow;

/// Bytes on their way out; short ones without an allocation.
pub type Blob = SmallVec<[u8; 40]>;

/// One reply. Shapes that RESP2 lacks say in their comment what RESP2 shows instead.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Nothing is sent (the command answers later, or the client asked for silence).
    None,
    /// `+OK`.
    Ok,
    /// A status line, such as `PONG` or `QUEUED`.
    Status(Cow<'static, str>),
    /// An error.
    Error(Error),
    /// An integer.
    Int(i64),
    /// The missing value: RESP2 `$-1`, RESP3 `_`.
    Nil,
    /// The missing array: RESP2 `*-1`, RESP3 `_`.
    NilArray,
    /// A string of bytes.
    Bulk(Blob),
    /// Text with a format of three letters (`txt`, `mkd`); RESP2: bulk.
    Verbatim([u8; 3], Blob),
    /// A floating-point number; RESP2: bulk with the shortest text that reads back equal.
    Double(f64),
    /// A truth value; RESP2: integer 1 or 0.
    Bool(bool),
    /// An integer beyond 64 bits, in decimal; RESP2: bulk.
    BigNumber(Blob),
    /// A sequence.
    Array(Vec<Reply>),
    /// Keys and values; RESP2: a flat array.
    Map(Vec<(Reply, Reply)>),
    /// Members without order; RESP2: array.
    Set(Vec<Reply>),
    /// Pairs in order (members with scores): RESP3 an array of two-element arrays; RESP2: a flat array.
    Pairs(Vec<(Reply, Reply)>),
    /// A message the client did not ask for; RESP2: array.
    Push(Vec<Reply>),
    /// A reply in a version of the protocol (2 or 3) that the session no longer speaks: HELLO came after it in EXEC.
    As(u8, Box<Reply>),
    /// Several replies to one request (SUBSCRIBE with many channels), one after another.
    Many(Vec<Reply>),
}

impl Reply {
    /// A bulk reply with a copy of `bytes`.
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Reply {
        Reply::Bulk(Blob::from_slice(bytes.as_ref()))
    }

    /// A bulk reply, or nil.
    pub fn bulk_or_nil<T: AsRef<[u8]>>(bytes: Option<T>) -> Reply {
        bytes.map_or(Reply::Nil, Reply::bulk)
    }

    /// A status line.
    pub fn status(text: impl Into<Cow<'static, str>>) -> Reply {
        Reply::Status(text.into())
    }

    /// A bulk string holding a decimal integer.
    pub fn bulk_int(n: i64) -> Reply {
        Reply::bulk(itoa::Buffer::new().format(n))
    }

    /// An array of bulk strings.
    pub fn bulks<T: AsRef<[u8]>>(items: impl IntoIterator<Item = T>) -> Reply {
        Reply::Array(items.into_iter().map(Reply::bulk).collect())
    }

    /// About the memory it takes, bytes.
    pub fn bytes(&self) -> usize {
        let inside = match self {
            Reply::Bulk(bytes) | Reply::Verbatim(_, bytes) | Reply::BigNumber(bytes) => bytes.len(),
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) | Reply::Many(items) => {
                items.iter().map(Reply::bytes).sum()
            }
            Reply::Map(pairs) | Reply::Pairs(pairs) => pairs.iter().map(|(a, b)| a.bytes() + b.bytes()).sum(),
            _ => 0,
        };
        size_of::<Reply>() + inside
    }

    /// True for an error reply.
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }
}

impl From<Error> for Reply {
    fn from(error: Error) -> Self {
        Reply::Error(error)
    }
}
