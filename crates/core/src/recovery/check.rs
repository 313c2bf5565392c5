//! Looks at what a directory holds without opening a store on it, and repairs a log by cutting it.

use super::open::{Recovered, Step, Trouble, read};
use crate::engine::Memory;
use crate::env::Files;
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::limits;
use crate::txn::Tables;
use crate::wal::{self, ReadError};

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

/// Reads everything as the opening of a store would, and tells what was found. With `repair`, a damaged log is cut where
/// the damage is: what is before it stays, what follows is lost.
///
/// # Errors
/// The repair failed.
pub fn check(files: &dyn Files, repair: bool, progress: &mut dyn FnMut(Step)) -> Result<Report> {
    let mut keyspace = Keyspace::new(limits::DATABASES);
    let mut tables = Tables::new(Box::new(Memory::new()));
    let result = read(files, &mut keyspace, &mut tables, progress);
    let mut report = Report {
        recovered: None,
        trouble: None,
        is_repairable: false,
        is_repaired: false,
        keys: keyspace.databases.iter().map(|database| database.len() as u64).sum(),
        tables: tables.catalog.tables().count() as u64,
        rows: tables.catalog.tables().map(|def| tables.source().row_count(def.id).unwrap_or(0)).sum(),
    };
    match result {
        Ok((recovered, _)) => report.recovered = Some(recovered),
        Err(trouble) => {
            report.trouble = Some(trouble.to_string());
            if let Trouble::Log(ReadError::Damage(damage)) = &trouble {
                report.is_repairable = true;
                if repair {
                    let failed = |error| Error::err(format!("cannot cut {}: {error}", damage.file));
                    wal::repair(files, damage).map_err(failed)?;
                    report.is_repaired = true;
                }
            }
        }
    }
    Ok(report)
}
