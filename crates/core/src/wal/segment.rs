//! The segments of a log as files: their names and their order.

use super::Lsn;
use crate::env::Files;
use std::io;

/// A segment that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// LSN of its first record, from its name.
    pub first: Lsn,
    /// Its file.
    pub name: String,
}

/// The name of the segment that begins with a record.
pub fn name(first: Lsn) -> String {
    format!("wal-{first:020}.log")
}

/// The name of a segment that is being made: it gets the one above when it is durable.
pub fn new_name(first: Lsn) -> String {
    format!("wal-{first:020}.new")
}

/// The LSN in a segment's name.
pub fn parse(name: &str) -> Option<Lsn> {
    let digits = name.strip_prefix("wal-")?.strip_suffix(".log")?;
    let plain = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

/// All segments, the oldest first.
pub fn list(files: &dyn Files) -> io::Result<Vec<Segment>> {
    let mut segments: Vec<Segment> =
        files.list()?.into_iter().filter_map(|name| Some(Segment { first: parse(&name)?, name })).collect();
    segments.sort_by_key(|segment| segment.first);
    Ok(segments)
}

/// Removes segments whose making did not come to its end.
pub fn remove_new(files: &dyn Files) -> io::Result<()> {
    let is_new = |name: &String| name.starts_with("wal-") && name.ends_with(".new");
    files.list()?.iter().filter(|name| is_new(name)).try_for_each(|name| files.remove(name))
}
