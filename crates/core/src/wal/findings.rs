//! What reading a log finds: its end, a torn tail, damage.

use super::{Lsn, StoreId};
use std::fmt;
use std::io;

/// Where to begin, and whose log it should be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Start {
    /// The first record that is wanted; 0 and 1 say all.
    pub from: Lsn,
    /// The store's id, if it is known from elsewhere.
    pub id: Option<StoreId>,
}

/// How far the log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// LSN of the record that comes next.
    pub next: Lsn,
    /// The store that the log belongs to; none if there is no log.
    pub id: Option<StoreId>,
    /// A torn tail that [`settle`](super::settle) cuts.
    pub cut: Option<Cut>,
    /// What may not be durable although it was read.
    pub(super) tail: Option<Tail>,
}

/// A torn tail: what a crash left of writes that nobody was promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The segment's file.
    pub file: String,
    /// Where the last good group ends.
    pub offset: u64,
    /// How much follows.
    pub bytes: u64,
}

/// The end of the last segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    pub(super) file: String,
    /// Groups from here on were not known to be durable by any later one.
    pub(super) unsure: u64,
    /// Where the last good group ends.
    pub(super) end: u64,
}

/// A log that does not have what it should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The segment's file.
    pub file: String,
    /// Where it is no good.
    pub offset: u64,
    /// What is wrong, in words.
    pub what: String,
    /// The first record that cannot be read.
    pub from: Lsn,
    /// A record after it that can be read, and would be lost, too, by cutting here, if there is one.
    pub resumes: Option<Lsn>,
    /// Bytes of the log from there on, in this segment and those after it.
    pub bytes: u64,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the log is damaged: {} at offset {}: {}; changes from {} on",
            self.file, self.offset, self.what, self.from
        )?;
        if let Some(resumes) = self.resumes {
            write!(f, " cannot be read, those from {resumes} on can")?;
        }
        write!(f, ": cutting the log there loses them ({} bytes)", self.bytes)
    }
}

/// Why a log was not read to its end.
#[derive(Debug)]
pub enum ReadError<E> {
    /// A file cannot be read.
    Io {
        /// Its name.
        file: String,
        /// What the system says.
        error: io::Error,
    },
    /// The log is damaged; [`repair`](super::repair) cuts it.
    Damage(Damage),
    /// A segment of another store or a later version, which no repair should touch.
    Foreign {
        /// The segment's file.
        file: String,
        /// Why it is not ours.
        what: String,
    },
    /// The visitor did not want to go on.
    Visit {
        /// The record that it was given.
        lsn: Lsn,
        /// What it said.
        error: E,
    },
}

impl<E: fmt::Display> fmt::Display for ReadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io { file, error } => write!(f, "cannot read {file}: {error}"),
            ReadError::Damage(damage) => damage.fmt(f),
            ReadError::Foreign { file, what } => write!(f, "{file}: {what}"),
            ReadError::Visit { lsn, error } => write!(f, "change {lsn} of the log: {error}"),
        }
    }
}

impl<E> ReadError<E> {
    pub(super) fn io(file: &str) -> impl FnOnce(io::Error) -> ReadError<E> {
        let file = file.to_string();
        move |error| ReadError::Io { file, error }
    }
}
