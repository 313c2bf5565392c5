//! Writes a checkpoint: the state of keys and tables after one record of the log, while commands go on.
//!
//! ```text
//! let mut run = Run::begin(&mut keyspace, &mut tables, about)?;      // under the baton, between two commands
//! loop {
//!     if let Err(error) = run.write(&*files) {                       // off the baton
//!         run.abort(&mut keyspace);                                  // under it
//!         run.discard(&*files); ...
//!     }
//!     if !run.slice(&mut keyspace, budget) { break }                 // under it again, for a moment
//! }
//! let written = run.finish(&*files)?;                                // off it: the rest, sync, rename
//! remove_others(&*files, written.lsn)?;
//! ```

use super::format::{self, Header, Kind};
use super::keys::Keys;
use super::tables::Saved;
pub use super::tables::WriteError;
use super::writer::Writer;
use crate::env::Files;
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::keyspace::saving::{Batch, Pass};
use crate::txn::Tables;
use crate::value::codec;
use std::sync::Arc;

/// What a checkpoint says of itself, and what it keeps besides keys and tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The store.
    pub store: [u8; 16],
    /// The last record of the log that is in it.
    pub lsn: u64,
    /// The time, milliseconds since 1970.
    pub created_ms: i64,
    /// What belongs to neither keys nor tables: name and bytes.
    pub things: Vec<(String, Vec<u8>)>,
}

/// A checkpoint that is in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its file.
    pub name: String,
    /// Its LSN.
    pub lsn: u64,
    /// The file's length, bytes.
    pub bytes: u64,
    /// Keys in it.
    pub keys: u64,
    /// Rows in it.
    pub rows: u64,
}

/// A checkpoint being written.
pub struct Run {
    about: About,
    keys: Arc<Keys>,
    tables: Option<Saved>,
    writer: Option<Writer>,
}

const fn assert_send<T: Send>() {}
const _: () = assert_send::<Run>();

impl Run {
    /// Begins one of the state as it is now, between two commands; under the baton.
    ///
    /// # Errors
    /// Another one is being written, or the tables' engine gives no views.
    pub fn begin(keyspace: &mut Keyspace, tables: &mut Tables, about: About) -> Result<Run> {
        let saved = Saved::of(tables)?;
        let pass = Pass::begin(keyspace).ok_or_else(|| Error::err("a checkpoint is being written already"))?;
        Ok(Run { about, keys: Arc::new(Keys::new(pass)), tables: Some(saved), writer: None })
    }

    /// Its keys, which others may save, too.
    pub fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    /// Saves some keys: `budget` is in bytes, and 64 for each key looked at; under the baton. True: there are more.
    pub fn slice(&mut self, keyspace: &mut Keyspace, budget: usize) -> bool {
        self.keys.slice(keyspace, budget)
    }

    /// Writes what was saved, and a block of the tables' rows; off the baton. True: there is more of the tables.
    ///
    /// # Errors
    /// The run must then be aborted.
    pub fn write(&mut self, files: &dyn Files) -> std::result::Result<bool, WriteError> {
        self.open(files)?;
        let Some(writer) = &mut self.writer else { return Ok(false) };
        for batch in self.keys.take() {
            write_keys(&batch, writer)?;
        }
        if let Some(tables) = &mut self.tables
            && !tables.write_some(writer)?
        {
            self.tables = None;
        }
        Ok(self.tables.is_some())
    }

    fn open(&mut self, files: &dyn Files) -> std::result::Result<(), WriteError> {
        if self.writer.is_none() {
            let About { store, lsn, created_ms, .. } = self.about;
            let writer = self.writer.insert(Writer::create(files, &Header { store, lsn, created_ms })?);
            for (name, bytes) in &self.about.things {
                let mut out = Vec::new();
                codec::put_bytes(&mut out, name.as_bytes());
                codec::put_bytes(&mut out, bytes);
                writer.block(Kind::Things, &out)?;
                writer.counts.things += 1;
            }
        }
        Ok(())
    }

    /// The record that it holds everything up to.
    pub fn lsn(&self) -> u64 {
        self.about.lsn
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, Writer::length)
    }

    /// Writes all that is left, makes it durable and puts the file in place; off the baton, when no keys are left to be
    /// saved.
    ///
    /// # Errors
    /// There may be no new checkpoint, so the older one and the log must stay; `discard` removes what is unfinished.
    pub fn finish(&mut self, files: &dyn Files) -> std::result::Result<Written, WriteError> {
        assert!(!self.keys.has_more(), "a checkpoint without all keys is none");
        if self.keys.is_broken() {
            return Err(WriteError::Keys);
        }
        while self.write(files)? {}
        let Some(writer) = self.writer.take() else { unreachable!("write has opened it") };
        let (lsn, counts) = (self.about.lsn, writer.counts);
        let bytes = writer.finish(files)?;
        Ok(Written { name: format::name_of(lsn), lsn, bytes, keys: counts.keys, rows: counts.rows })
    }

    /// Gives it up; under the baton. What is dropped without it costs changes of keys a little until the next one.
    pub fn abort(&mut self, keyspace: &mut Keyspace) {
        self.keys.abort(keyspace);
    }

    /// Removes the file of one that was given up or failed; off the baton. What cannot be removed now goes with
    /// `remove_others`.
    pub fn discard(self, files: &dyn Files) {
        let name = format::unfinished_name_of(self.about.lsn);
        drop(self.writer);
        let _ = files.remove(&name);
    }
}

fn write_keys(batch: &Batch, writer: &mut Writer) -> std::io::Result<()> {
    let mut out = Vec::with_capacity(batch.bytes.len() + 4);
    codec::put_number(&mut out, batch.db as u64);
    out.extend_from_slice(&batch.bytes);
    writer.block(Kind::Keys, &out)?;
    writer.counts.keys += batch.keys;
    Ok(())
}
