//! What a command answers, before any protocol: the doors turn it into RESP, Lua values or Python objects.

use crate::error::Error;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;

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
    /// The rows of a statement: an array of the names of the columns, then one of each row's values.
    Rows(Rows),
}

/// Rows as a statement by key or range gives them: all replies of a statement share the names, and the values of all rows
/// stand in one list, so that a row costs no memory of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    names: Arc<Vec<Blob>>,
    values: Vec<Reply>,
}

impl Rows {
    /// No rows yet of these columns, of which there is at least one; there will be about `count`.
    #[inline]
    pub fn new(names: &Arc<Vec<Blob>>, count: usize) -> Rows {
        assert!(!names.is_empty(), "a row has a value");
        Rows { names: names.clone(), values: Vec::with_capacity(names.len() * count) }
    }

    /// Adds a row; it has a value for each name.
    #[inline]
    pub fn push(&mut self, row: impl Iterator<Item = Reply>) {
        row.for_each(|value| self.values.push(value));
        debug_assert!(self.values.len().is_multiple_of(self.names.len()));
    }

    /// The names of the columns.
    pub fn names(&self) -> &[Blob] {
        &self.names
    }

    /// The values of each row.
    #[inline]
    pub fn iter(&self) -> std::slice::ChunksExact<'_, Reply> {
        self.values.chunks_exact(self.names.len())
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.names.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The same as arrays.
    fn into_array(self) -> Reply {
        let names = Reply::Array(self.names.iter().cloned().map(Reply::Bulk).collect());
        let rows = self.iter().map(|row| Reply::Array(row.to_vec()));
        Reply::Array(std::iter::once(names).chain(rows).collect())
    }
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

    /// The same in the shapes that clients see: rows as arrays.
    pub fn plain(self) -> Reply {
        match self {
            Reply::Rows(rows) => rows.into_array(),
            Reply::Array(items) => Reply::Array(items.into_iter().map(Reply::plain).collect()),
            Reply::As(protocol, reply) => Reply::As(protocol, Box::new(reply.plain())),
            other => other,
        }
    }

    /// About the memory it takes, bytes.
    pub fn bytes(&self) -> usize {
        let inside = match self {
            Reply::Bulk(bytes) | Reply::Verbatim(_, bytes) | Reply::BigNumber(bytes) => bytes.len(),
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) | Reply::Many(items) => {
                items.iter().map(Reply::bytes).sum()
            }
            Reply::Rows(rows) => rows.values.iter().map(Reply::bytes).sum(),
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
