//! Loads a checkpoint into an empty store.

use super::format::{self, Counts, Header, Kind};
use super::reader::{Block, Reader};
use super::tables::Loading;
use crate::env::Files;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::keyspace::entry::{Entry, EntryValue};
use crate::txn::Tables;
use crate::value::codec::{self, Decoded, Malformed};
use crate::value::{Op, Thresholds};
use std::fmt;
use std::io;

/// A file that claims to be a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// The LSN that the name says.
    pub lsn: u64,
}

/// What was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The last record of the log that is in it.
    pub lsn: u64,
    /// The store that wrote it.
    pub store: [u8; 16],
    /// When it was begun, milliseconds since 1970.
    pub created_ms: i64,
    /// What belongs to neither keys nor tables: name and bytes.
    pub things: Vec<(String, Vec<u8>)>,
    /// Keys.
    pub keys: u64,
    /// Rows.
    pub rows: u64,
}

/// How far loading is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read.
    pub done: u64,
    /// Bytes of the file.
    pub total: u64,
}

/// Why a checkpoint was not loaded, and where in which file that shows.
#[derive(Debug)]
pub struct RestoreError {
    /// The file.
    pub file: String,
    /// The place in it.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
    /// The file could not be read, which says nothing about its bytes.
    pub io: Option<io::Error>,
}

impl RestoreError {
    pub(super) fn io(file: &str, offset: u64, error: io::Error) -> Self {
        RestoreError { file: file.into(), offset, what: format!("cannot be read: {error}"), io: Some(error) }
    }

    pub(super) fn damaged(file: &str, offset: u64, what: impl Into<String>) -> Self {
        RestoreError { file: file.into(), offset, what: what.into(), io: None }
    }
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "checkpoint {}, offset {}: {}", self.file, self.offset, self.what)
    }
}

impl std::error::Error for RestoreError {}

impl From<RestoreError> for Error {
    fn from(error: RestoreError) -> Self {
        Error::err(error.to_string())
    }
}

/// The checkpoints there are, the newest first. An older one is of use if the newest cannot be loaded and the log still
/// has all records since.
///
/// # Errors
/// The directory cannot be read.
pub fn list(files: &dyn Files) -> io::Result<Vec<Found>> {
    let found = |name: String| format::lsn_of(&name).map(|lsn| Found { name, lsn });
    let mut all: Vec<Found> = files.list()?.into_iter().filter_map(found).collect();
    all.sort_by_key(|found| std::cmp::Reverse(found.lsn));
    Ok(all)
}

/// Loads a checkpoint into an empty keyspace and empty tables, and says at each block how far it is.
///
/// # Errors
/// It is damaged, or cannot be read. Keyspace and tables then hold some of it, and are to be thrown away.
pub fn load(
    files: &dyn Files,
    found: &Found,
    keyspace: &mut Keyspace,
    tables: &mut Tables,
    progress: &mut dyn FnMut(Progress),
) -> Result<Loaded, RestoreError> {
    let mut reader = Reader::open(files, &found.name)?;
    let header = reader.header.clone();
    if header.lsn != found.lsn {
        return Err(reader.damaged(0, format!("this is the checkpoint at {}, not at {}", header.lsn, found.lsn)));
    }
    let mut loader = Loader {
        thresholds: keyspace.shared.thresholds.clone(),
        keyspace,
        tables,
        loading: Loading::default(),
        things: Vec::new(),
        keys: 0,
        empty: 0,
    };
    while let Some(block) = reader.next()? {
        let taken = loader.take(&block, reader.blocks());
        taken.map_err(|Malformed(what)| reader.damaged(block.offset, what))?;
        progress(Progress { done: reader.offset(), total: reader.length() });
    }
    let Loader { things, keys, loading, tables, .. } = loader;
    let rows = loading.rows;
    loading.finish(tables).map_err(|error| reader.damaged(reader.offset(), error.message))?;
    let Header { lsn, store, created_ms } = header;
    Ok(Loaded { lsn, store, created_ms, things, keys, rows })
}

struct Loader<'a> {
    thresholds: Thresholds,
    keyspace: &'a mut Keyspace,
    tables: &'a mut Tables,
    loading: Loading,
    things: Vec<(String, Vec<u8>)>,
    keys: u64,
    /// Collections of which no piece has come yet.
    empty: u64,
}

impl Loader<'_> {
    fn take(&mut self, block: &Block, blocks: u64) -> Decoded<()> {
        match block.kind {
            Kind::Things => self.thing(&block.payload),
            Kind::Definitions => self.loading.definitions(&block.payload, self.tables),
            Kind::Rows => self.loading.rows(&block.payload, self.tables),
            Kind::Keys => self.keys(&block.payload),
            Kind::End => self.end(&block.payload, blocks - 1),
        }
    }

    fn thing(&mut self, mut payload: &[u8]) -> Decoded<()> {
        let input = &mut payload;
        let name = std::str::from_utf8(codec::take_bytes(input)?).map_err(|_| Malformed("a name that is not UTF-8"))?;
        self.things.push((name.into(), codec::take_bytes(input)?.into()));
        if input.is_empty() { Ok(()) } else { Err(Malformed("bytes behind a thing")) }
    }

    fn keys(&mut self, mut payload: &[u8]) -> Decoded<()> {
        let input = &mut payload;
        let db = codec::take_size(input)?;
        // When keys were used is not kept: all count as used now, so that eviction does not take them before new ones.
        let access = self.keyspace.shared.clock.start(self.keyspace.shared.coarse_ms);
        let database = self.keyspace.databases.get_mut(db).ok_or(Malformed("no such database"))?;
        while !input.is_empty() {
            let key = codec::take_bytes(input)?;
            match Op::decode(input, &self.thresholds)? {
                Op::Put(value, expire_at) => {
                    self.empty += u64::from(value.is_empty_collection());
                    let entry = Entry::new(key, EntryValue::Value(value), expire_at);
                    entry.as_ref().set_access(access);
                    if database.put(entry).is_some() {
                        return Err(Malformed("a key twice"));
                    }
                    self.keys += 1;
                }
                // A piece of a big value.
                op => {
                    let (mut entry, _) = database.edit(key).ok_or(Malformed("a piece of no key"))?;
                    let value = entry.value_mut();
                    let was_empty = value.is_empty_collection();
                    value.apply(op, &self.thresholds)?;
                    self.empty -= u64::from(was_empty && !value.is_empty_collection());
                }
            }
        }
        Ok(())
    }

    fn end(&mut self, payload: &[u8], blocks: u64) -> Decoded<()> {
        let Loading { tables, views, libraries, triggers, schedules, rows, .. } = self.loading;
        let (things, keys) = (self.things.len() as u64, self.keys);
        let counts = Counts { blocks, things, tables, views, rows, keys, libraries, triggers, schedules };
        if self.empty > 0 {
            return Err(Malformed("a collection without elements"));
        }
        if counts.are(payload) { Ok(()) } else { Err(Malformed("not as much of everything as was written")) }
    }
}
