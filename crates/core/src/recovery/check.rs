//! Looks at what a directory holds without opening a store on it, repairs a log by cutting it, and puts what is there into
//! another directory.

use super::checkpoint::{About, Run, Written};
use super::open::{Recovered, Step, Trouble, read};
use crate::engine::Memory;
use crate::env::Files;
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::limits;
use crate::txn::Tables;
use crate::wal::{self, ReadError, StoreId};

/// What a directory holds.
#[derive(Debug)]
pub struct Report {
    /// What was read, if all of it could be.
    pub recovered: Option<Recovered>,
    /// What is wrong, in words: what, in which file and where.
    pub trouble: Option<String>,
    /// What is wrong can be repaired by cutting the log there.
    pub is_repairable: bool,
    /// The log was cut.
    pub is_repaired: bool,
    /// Keys, as far as they could be read.
    pub keys: u64,
    /// Tables, likewise.
    pub tables: u64,
    /// Rows, likewise.
    pub rows: u64,
}

impl Report {
    /// Has anything ever been done in the store?
    pub fn has_data(&self) -> bool {
        self.recovered.as_ref().is_some_and(|found| found.next > 1 || found.checkpoint.is_some())
    }
}

/// What files hold, read as the opening of a store would.
pub struct Content {
    keyspace: Keyspace,
    tables: Tables,
    trouble: Option<Trouble>,
    /// What there is to tell of it.
    pub report: Report,
}

impl Content {
    /// Reads it; changes no file.
    pub fn read(files: &dyn Files, progress: &mut dyn FnMut(Step)) -> Content {
        let mut keyspace = Keyspace::new(limits::DATABASES);
        let mut tables = Tables::new(Box::new(Memory::new()));
        let result = read(files, &mut keyspace, &mut tables, progress);
        let (recovered, trouble) = match result {
            Ok((recovered, _)) => (Some(recovered), None),
            Err(trouble) => (None, Some(trouble)),
        };
        let report = Report {
            recovered,
            trouble: trouble.as_ref().map(Trouble::to_string),
            is_repairable: matches!(&trouble, Some(Trouble::Log(ReadError::Damage(_)))),
            is_repaired: false,
            keys: keyspace.databases.iter().map(|database| database.len() as u64).sum(),
            tables: tables.catalog.tables().count() as u64,
            rows: tables.catalog.tables().map(|def| tables.source().row_count(def.id).unwrap_or(0)).sum(),
        };
        Content { keyspace, tables, trouble, report }
    }

    /// Could all of it be read?
    pub fn is_whole(&self) -> bool {
        self.report.recovered.is_some()
    }

    /// Writes it to other files, as one checkpoint of the store `id`, made at `now_ms`. Another id than the one it had: from
    /// here on the two have histories of their own, and whoever followed one must not take the other for it.
    ///
    /// # Errors
    /// It is not whole, or cannot be written; then nothing is left of it.
    pub fn write(&mut self, files: &dyn Files, id: StoreId, now_ms: i64) -> Result<Written> {
        let Some(found) = &self.report.recovered else { return Err(Error::err("there is not all to be written")) };
        let things = found.checkpoint.as_ref().map(|loaded| loaded.things.clone()).unwrap_or_default();
        let about = About { store: id, lsn: found.next - 1, created_ms: now_ms, things };
        let mut run = Run::begin(&mut self.keyspace, &mut self.tables, about)?;
        let result = write_all(&mut run, files, &mut self.keyspace);
        if result.is_err() {
            run.abort(&mut self.keyspace);
            run.discard(files);
        }
        result
    }
}

/// What one slice of keys may cost: nobody waits here.
const SLICE_BUDGET: usize = 1 << 20;

fn write_all(run: &mut Run, files: &dyn Files, keyspace: &mut Keyspace) -> Result<Written> {
    while run.slice(keyspace, SLICE_BUDGET) {
        run.write(files)?;
    }
    Ok(run.finish(files)?)
}

/// Reads everything as the opening of a store would, and tells what was found. With `repair`, a damaged log is cut where
/// the damage is: what is before it stays, what follows is lost.
///
/// # Errors
/// The repair failed.
pub fn check(files: &dyn Files, repair: bool, progress: &mut dyn FnMut(Step)) -> Result<Report> {
    let Content { mut report, trouble, .. } = Content::read(files, progress);
    if let (true, Some(Trouble::Log(ReadError::Damage(damage)))) = (repair, &trouble) {
        let failed = |error| Error::err(format!("cannot cut {}: {error}", damage.file));
        wal::repair(files, damage).map_err(failed)?;
        report.is_repaired = true;
    }
    Ok(report)
}
