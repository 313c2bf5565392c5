//! A cursor over a source: some rows in hand, and where to go on.

use super::Kind;
use super::plan::Plan;
use crate::error::{Code, Error};
use crate::limits;
use crate::sql::run::{Outcome, Portion, Run, Shape};
use crate::table::datum::{Datum, DatumRef};
use crate::table::types;
use std::ops::Range;

/// Members of a sorted set that are read at once.
const RANKS_BATCH: usize = 256;

/// Rows in hand, and the rest.
#[derive(Default)]
pub struct Cursor {
    key: Datum,
    /// The values of the rows in hand, one row after another.
    values: Vec<Datum>,
    row: usize,
    rows: usize,
    /// Rows that were in hand before these.
    before: usize,
    rest: Rest,
}

/// What is still to be read.
#[derive(Default)]
enum Rest {
    #[default]
    Nothing,
    /// Keys from a cursor of SCAN on, those with a prefix.
    Keys { cursor: u64, prefix: Vec<u8>, bytes: bool },
    /// Members of a sorted set.
    Ranks { ranks: Range<usize>, reverse: bool },
}

impl Cursor {
    /// Goes to the first row of an access path, whose values are given.
    pub fn start(&mut self, run: &mut Run<'_>, kind: Kind, plan: Plan, arguments: Vec<Datum>) -> Outcome<()> {
        *self = Cursor::default();
        let mut arguments = arguments.into_iter();
        let mut argument = |of: Plan| if plan.contains(of) { arguments.next() } else { None };
        self.key = argument(Plan::KEY).unwrap_or_default();
        let name = argument(Plan::NAME);
        let (low, high, pattern) = (argument(Plan::LOW), argument(Plan::HIGH), argument(Plan::PATTERN));
        let host = &mut *run.host;
        match (kind, name) {
            (_, Some(Datum::Null)) => Ok(()),
            (Kind::Keys, Some(ref name)) if let Some(name) = bytes_of(name) => {
                self.fill(|add| host.find_key(&name, add))
            }
            (Kind::Keys, _) => {
                let prefix = pattern.as_ref().map_or(Vec::new(), literal_prefix);
                self.rest = Rest::Keys { cursor: 0, prefix, bytes: !plan.contains(Plan::WITHOUT_BYTES) };
                self.go_on(run)
            }
            (Kind::Value(shape), name) => {
                let Some(key) = bytes_of(&self.key) else { return Ok(()) };
                match (shape, name) {
                    // What is no position, and what only SQLite can write as text, is SQLite's to judge.
                    (Shape::List, Some(name)) => {
                        let portion = position(&name).map_or(Portion::All, Portion::At);
                        self.fill(|add| host.read_key(&key, shape, portion, add))
                    }
                    (_, Some(name)) => {
                        let name = bytes_of(&name);
                        let portion = name.as_deref().map_or(Portion::All, Portion::Named);
                        self.fill(|add| host.read_key(&key, shape, portion, add))
                    }
                    (Shape::ZSet, None) => {
                        let ranks = host.ranks(&key, score(low), score(high))?;
                        self.rest = Rest::Ranks { ranks, reverse: plan.contains(Plan::REVERSE) };
                        self.go_on(run)
                    }
                    (_, None) => self.fill(|add| host.read_key(&key, shape, Portion::All, add)),
                }
            }
        }
    }

    /// Reads rows into the hand.
    fn fill<T>(&mut self, read: impl FnOnce(&mut dyn FnMut(&[Datum])) -> crate::error::Result<T>) -> Outcome<T> {
        self.before += self.rows;
        self.values.clear();
        (self.row, self.rows) = (0, 0);
        let (values, rows) = (&mut self.values, &mut self.rows);
        let mut bytes = 0;
        let result = read(&mut |row| {
            bytes += row.iter().map(size).sum::<usize>();
            if bytes <= limits::SQL_RESULT_BYTES_MAX {
                values.extend_from_slice(row);
                *rows += 1;
            }
        })?;
        if bytes > limits::SQL_RESULT_BYTES_MAX {
            let text = format!("a value of more than {} bytes cannot be read by SQL", limits::SQL_RESULT_BYTES_MAX);
            return Err(Error::new(Code::Limit, text).into());
        }
        Ok(result)
    }

    /// Moves to the next row in hand; false if `go_on` must read more.
    #[inline]
    pub fn step(&mut self) -> bool {
        self.row += 1;
        self.row < self.rows || matches!(self.rest, Rest::Nothing)
    }

    /// Reads the next rows; an empty batch of keys is no end.
    pub fn go_on(&mut self, run: &mut Run<'_>) -> Outcome<()> {
        loop {
            match std::mem::take(&mut self.rest) {
                Rest::Nothing => return Ok(()),
                Rest::Keys { cursor, prefix, bytes } => {
                    let host = &mut *run.host;
                    let next = self.fill(|add| host.scan_keys(cursor, &prefix, bytes, add))?;
                    if next != 0 {
                        self.rest = Rest::Keys { cursor: next, prefix, bytes };
                    }
                }
                Rest::Ranks { ranks, reverse } => {
                    let Some(key) = bytes_of(&self.key) else { return Ok(()) };
                    let count = ranks.len().min(RANKS_BATCH);
                    let (now, rest) = match reverse {
                        false => (ranks.start..ranks.start + count, ranks.start + count..ranks.end),
                        true => (ranks.end - count..ranks.end, ranks.start..ranks.end - count),
                    };
                    if !rest.is_empty() {
                        self.rest = Rest::Ranks { ranks: rest, reverse };
                    }
                    let host = &mut *run.host;
                    self.fill(|add| host.read_key(&key, Shape::ZSet, Portion::Ranks(now, reverse), add))?;
                }
            }
            if self.rows > 0 {
                return Ok(());
            }
        }
    }

    /// Is there no row?
    pub fn is_done(&self) -> bool {
        self.row >= self.rows
    }

    /// A column of the row; the one after the others is the key.
    pub fn value(&self, column: usize, columns: usize) -> DatumRef<'_> {
        let value = if column < columns { self.values.get(self.row * columns + column) } else { Some(&self.key) };
        value.map_or(DatumRef::Null, Datum::as_ref)
    }

    /// How many rows came before.
    pub fn number(&self) -> i64 {
        (self.before + self.row) as i64
    }
}

/// What a value means as a key, field or member; None: nothing is called so.
fn bytes_of(value: &Datum) -> Option<Vec<u8>> {
    match value {
        Datum::Text(bytes) | Datum::Blob(bytes) => Some(bytes.to_vec()),
        Datum::Int(i) => Some(i.to_string().into_bytes()),
        Datum::Real(_) | Datum::Null => None,
    }
}

/// A position in a list; None: it is no whole number.
fn position(value: &Datum) -> Option<i64> {
    match value {
        Datum::Int(position) => Some(*position),
        Datum::Text(text) => match types::number(text) {
            Some(DatumRef::Int(position)) => Some(position),
            _ => None,
        },
        _ => None,
    }
}

/// A bound of scores. SQLite checks it again, so what is no number, and a number rounded, bounds less.
fn score(value: Option<Datum>) -> Option<f64> {
    match value? {
        Datum::Int(i) => Some(i as f64),
        Datum::Real(r) => Some(r),
        _ => None,
    }
}

/// What every text that matches a pattern of GLOB begins with.
fn literal_prefix(pattern: &Datum) -> Vec<u8> {
    let bytes = bytes_of(pattern).unwrap_or_default();
    let end = bytes.iter().position(|byte| b"*?[".contains(byte)).unwrap_or(bytes.len());
    bytes[..end].to_vec()
}

fn size(value: &Datum) -> usize {
    match value {
        Datum::Text(bytes) | Datum::Blob(bytes) => size_of::<Datum>() + bytes.len(),
        _ => size_of::<Datum>(),
    }
}
