//! Brings back what a directory holds: the newest checkpoint, then every later record of the log, each once.

use super::restore::{self, Loaded, RestoreError};
use crate::env::{Files, whereabouts};
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::txn::{Tables, redo};
use crate::wal::{self, Cut, End, Lsn, ReadError, StoreId};
use std::{fmt, io};

/// What is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The checkpoint.
    Checkpoint,
    /// The log since.
    Log,
}

/// How far recovery is.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// What is being read.
    pub phase: Phase,
    /// Bytes of it that were read.
    pub done: u64,
    /// Bytes of it in all.
    pub total: u64,
}

/// What was found.
#[derive(Debug)]
pub struct Recovered {
    /// The store that the files belong to; None: there are none.
    pub id: Option<StoreId>,
    /// The number of the next record.
    pub next: Lsn,
    /// The checkpoint that was loaded.
    pub checkpoint: Option<Loaded>,
    /// Records done again.
    pub records: u64,
    /// The torn tail that was cut off, or would be.
    pub cut: Option<Cut>,
}

/// Why not everything came back.
#[derive(Debug)]
pub enum Trouble {
    /// The files cannot be listed.
    Directory(io::Error),
    /// The checkpoint is damaged or cannot be read.
    Checkpoint(RestoreError),
    /// The log is damaged or cannot be read.
    Log(ReadError<&'static str>),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Directory(error) => write!(f, "the directory cannot be read: {error}"),
            Trouble::Checkpoint(error) => error.fmt(f),
            Trouble::Log(error) => error.fmt(f),
        }
    }
}

/// Loads everything into an empty keyspace and empty tables, and makes the files ready for what comes next.
///
/// # Errors
/// A file is damaged, and where; or cannot be read. Keyspace and tables then hold some of it and are to be thrown away.
pub fn recover(
    files: &dyn Files,
    keyspace: &mut Keyspace,
    tables: &mut Tables,
    progress: &mut dyn FnMut(Step),
) -> Result<Recovered> {
    let (recovered, end) = read(files, keyspace, tables, progress).map_err(|trouble| {
        let place = whereabouts(files);
        Error::err(format!("{trouble}{place}. `peryton check` looks closer, and tells what a repair would lose."))
    })?;
    let failed = |error| Error::err(format!("cannot write the end of the log{}: {error}", whereabouts(files)));
    wal::settle(files, &end).map_err(failed)?;
    Ok(recovered)
}

/// Loads everything and changes no file.
///
/// # Errors
/// As of [`recover`].
pub fn read(
    files: &dyn Files,
    keyspace: &mut Keyspace,
    tables: &mut Tables,
    progress: &mut dyn FnMut(Step),
) -> std::result::Result<(Recovered, End), Trouble> {
    let found = restore::list(files).map_err(Trouble::Directory)?;
    let checkpoint = found.first().map(|newest| {
        let mut tell =
            |it: restore::Progress| progress(Step { phase: Phase::Checkpoint, done: it.done, total: it.total });
        restore::load(files, newest, keyspace, tables, &mut tell)
    });
    let checkpoint = checkpoint.transpose().map_err(Trouble::Checkpoint)?;
    let start = wal::Start {
        from: checkpoint.as_ref().map_or(1, |loaded| loaded.lsn + 1),
        id: checkpoint.as_ref().map(|loaded| loaded.store),
    };
    let mut records = 0;
    let mut redo = |_: Lsn, record: &[u8]| {
        records += 1;
        redo::replay(record, keyspace, tables).map_err(|bad| bad.0)
    };
    let mut tell = |done, total| progress(Step { phase: Phase::Log, done, total });
    let end = wal::read(files, start, &mut tell, &mut redo).map_err(Trouble::Log)?;
    let (id, next) = (start.id.or(end.id), end.next.max(start.from));
    Ok((Recovered { id, next, checkpoint, records, cut: end.cut.clone() }, end))
}
