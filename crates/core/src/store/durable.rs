//! Opens what a store keeps on disk: brings back what is there, and begins to write the log.

use crate::directory::Directory;
use crate::env::{DirectoryFiles, Env, Files, SystemEnv, os_random, whereabouts};
use crate::error::{Error, Result};
use crate::keyspace::Wants;
use crate::recovery::{self, Content, Loaded, Recovered, Report, Step, recover};
use crate::session::Durability;
use crate::state::State;
use crate::wal::{Log, LogSettings, StoreId};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Is told how far the opening is.
pub type Progress = Box<dyn FnMut(Step) + Send>;

/// A store's files, and the log in them if it has one.
pub(super) struct Data {
    pub files: Arc<dyn Files>,
    pub id: StoreId,
    pub log: Option<Log>,
}

/// Looks at a directory that no store is open on, as the opening would; with `repair`, cuts a damaged log.
///
/// # Errors
/// A store has it open, there is none, or the repair failed.
pub fn check(path: &Path, repair: bool, mut progress: Option<Progress>) -> Result<Report> {
    if !path.is_dir() {
        return Err(Error::err(format!("there is no directory {}", path.display())));
    }
    let directory = if repair { Directory::claim(path)? } else { Directory::claim_to_read(path)? };
    let mut tell = |step| progress.iter_mut().for_each(|progress| progress(step));
    recovery::check(&*files(&directory), repair, &mut tell)
}

/// Reads what the directory `source` holds, on which no store is open, and puts it into the directory `target`, which must
/// not exist, as a store of its own. Without data, or if something is wrong with it, nothing is made, and the report tells.
///
/// # Errors
/// A store has `source` open, there is none, there is something in the place of `target`, or it cannot be written.
pub fn restore(source: &Path, target: &Path, mut progress: Option<Progress>) -> Result<Report> {
    if target.symlink_metadata().is_ok() {
        return Err(Error::err(format!("{} exists", target.display())));
    }
    let from = Directory::claim_to_read(source)?;
    let mut tell = |step| progress.iter_mut().for_each(|progress| progress(step));
    let mut content = Content::read(&*files(&from), &mut tell);
    if content.is_whole() && content.report.has_data() {
        let to = Directory::claim(target)?;
        let written = content.write(&*files(&to), new_id(), SystemEnv::new().now_us() / 1000);
        if written.is_err() {
            to.remove();
        }
        written?;
    }
    Ok(content.report)
}

/// The files of a directory.
pub(super) fn files(directory: &Directory) -> Arc<dyn Files> {
    Arc::new(DirectoryFiles::new(directory.path()))
}

/// Fills an empty state with what the files hold, and has all further changes logged, unless the promise is `none`.
///
/// # Errors
/// What the files hold is damaged, or cannot be read or written.
pub(super) fn open(
    files: Arc<dyn Files>,
    durability: Durability,
    settings: LogSettings,
    mut progress: Option<Progress>,
    state: &mut State,
) -> Result<Data> {
    let begun_ns = state.env.monotonic_ns();
    let mut tell = |step| progress.iter_mut().for_each(|progress| progress(step));
    let recovered = recover(&*files, &mut state.keyspace, &mut state.tables, &mut tell)?;
    let took_ms = (state.env.monotonic_ns() - begun_ns) / 1_000_000;
    report(&recovered, took_ms, state);
    let id = recovered.id.unwrap_or_else(new_id);
    state.journal.saves.possible = true;
    state.journal.unlogged = recovered.next - 1;
    let is_tidy = tidy(&*files, recovered.checkpoint.as_ref()).is_ok();
    state.journal.saves.tried_ns = state.env.monotonic_ns();
    if let Some(loaded) = &recovered.checkpoint {
        state.journal.saves.last_s = loaded.created_ms / 1000;
        // A clock that was put back since makes it no younger than now.
        let age_ms = u64::try_from(state.clock.now_ms.saturating_sub(loaded.created_ms)).unwrap_or(0);
        state.journal.saves.age_when_opened = Duration::from_millis(age_ms);
    }
    if durability == Durability::None {
        return Ok(Data { files, id, log: None });
    }
    let failed = |error| Error::err(format!("cannot begin the log{}: {error}", whereabouts(&*files)));
    let log = Log::open(files.clone(), id, recovered.next, settings).map_err(failed)?;
    if let (Some(loaded), true) = (&recovered.checkpoint, is_tidy) {
        // What cannot be removed now is tried again.
        let _ = log.remove_before(loaded.lsn + 1);
    }
    state.journal.start(log.clone());
    state.wants |= Wants::REDO;
    (state.config.has_log, state.config.durability) = (true, durability);
    Ok(Data { files, id, log: Some(log) })
}

/// Removes what a crash left of a checkpoint that was not finished, or of those before the one that was loaded: nothing
/// else would until the next one is finished, for which they might take the room. What cannot be removed is only in the way.
fn tidy(files: &dyn Files, loaded: Option<&Loaded>) -> io::Result<()> {
    match loaded {
        None => recovery::remove_unfinished(files),
        Some(loaded) => {
            // Where it was put by others, as by whoever copied the directory, it may be in the system's memory only.
            files.modify(&recovery::name_of(loaded.lsn))?.sync()?;
            recovery::remove_others(files, loaded.lsn).map(drop)
        }
    }
}

/// Tells whoever runs the store what was found, if there was anything.
fn report(recovered: &Recovered, took_ms: u64, state: &mut State) {
    let keys: usize = state.keyspace.databases.iter().map(|database| database.len()).sum();
    let tables = state.tables.catalog.tables().count();
    if recovered.id.is_some() {
        let from = match &recovered.checkpoint {
            Some(loaded) => format!("the checkpoint at {} and {} changes of the log", loaded.lsn, recovered.records),
            None => format!("{} changes of the log", recovered.records),
        };
        state.env.log(1, &format!("{keys} keys and {tables} tables from {from}, in {took_ms} ms"));
    }
    if let Some(cut) = &recovered.cut {
        let text = format!(
            "the last {} bytes of {} (from {} on) were no whole record: a write that a crash cut short and nobody was \
             promised; they are cut off",
            cut.bytes, cut.file, cut.offset
        );
        state.env.log(2, &text);
    }
}

/// An id that no store has yet.
pub(super) fn new_id() -> StoreId {
    let (a, b) = (os_random().to_le_bytes(), os_random().to_le_bytes());
    std::array::from_fn(|i| if i < 8 { a[i] } else { b[i - 8] })
}
