//! Brings back what a directory holds: the newest checkpoint, then every later record of the log, each once.

use super::restore::{self, Loaded};
use crate::env::Files;
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::txn::{Tables, redo};
use crate::wal::{self, Cut, Lsn, StoreId};

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
    /// The torn tail that was cut off.
    pub cut: Option<Cut>,
}

/// Loads everything into an empty keyspace and empty tables.
///
/// # Errors
/// A file is damaged, and where; or cannot be read. Keyspace and tables then hold some of it and are to be thrown away.
pub fn recover(
    files: &dyn Files,
    keyspace: &mut Keyspace,
    tables: &mut Tables,
    progress: &mut dyn FnMut(Step),
) -> Result<Recovered> {
    let found = restore::list(files).map_err(|error| Error::err(format!("cannot read the directory: {error}")))?;
    let newest = found.first();
    let checkpoint = newest.map(|newest| {
        let mut tell =
            |it: restore::Progress| progress(Step { phase: Phase::Checkpoint, done: it.done, total: it.total });
        restore::load(files, newest, keyspace, tables, &mut tell)
    });
    let checkpoint = checkpoint.transpose().map_err(|error| damaged(&error))?;
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
    let end = wal::read(files, start, &mut tell, &mut redo).map_err(|error| damaged(&error))?;
    wal::settle(files, &end).map_err(|error| Error::err(format!("cannot write the end of the log: {error}")))?;
    let id = start.id.or(end.id);
    Ok(Recovered { id, next: end.next.max(start.from), checkpoint, records, cut: end.cut })
}

fn damaged(what: &dyn std::fmt::Display) -> Error {
    Error::err(format!("{what}. `peryton check` looks closer, and tells what a repair would lose."))
}
