//! The log as commands and doors see it: what is written down, what a reply has to wait for, and when nothing may be
//! written.

use crate::error::{Code, Error, Result};
use crate::recovery::Keys;
use crate::session::{Durability, Elsewhere, Session, SessionId};
use crate::txn::{Effect, redo};
use crate::wal::{Condition, Log, Lsn};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The store's log. Without one there is nothing to wait for.
pub struct Journal {
    log: Option<Log>,
    /// A record that the log did not take, because it failed between the gate and the end of the command; 0: there is none.
    /// Whoever waits for it learns that it is not safe.
    lost: Lsn,
    /// Without a log: the number of the last checkpoint.
    pub unlogged: Lsn,
    /// Checkpoints: the last one and the one that runs.
    pub saves: Saves,
}

/// What is known of checkpoints.
#[derive(Default)]
pub struct Saves {
    /// There is a directory to make them in.
    pub possible: bool,
    /// When the last one was finished, or the store opened, seconds since 1970.
    pub last_s: i64,
    /// Changes there had been when it began.
    pub dirty_at: u64,
    /// How the last one ended; None: well.
    pub failed: Option<String>,
    /// When one was last begun, or the store opened, on the steady clock, nanoseconds.
    pub tried_ns: u64,
    /// How old the last one was when the store was opened, until one is begun.
    pub age_when_opened: Duration,
    /// Changes there had been when the one that runs began.
    pub dirty_at_begin: u64,
    /// One is being made.
    pub running: bool,
    /// The keys of the one that runs, while some are to be saved.
    pub slices: Option<Slices>,
    /// One shall be made soon.
    pub wanted: bool,
    /// How many were finished since the store was opened.
    pub count: u64,
    /// How long the last one took, milliseconds.
    pub took_ms: i64,
    /// Sessions that wait for the next one to end (SAVE).
    pub waiting: Vec<(SessionId, Arc<dyn Elsewhere>)>,
    /// The server shall end after the next one, if that is well (SHUTDOWN SAVE without a log).
    pub ends: bool,
    /// It shall end after the one that runs.
    pub ending: bool,
    /// Sessions that wait for the one that runs.
    pub served: Vec<(SessionId, Arc<dyn Elsewhere>)>,
    /// Backups that are asked for.
    pub backups: Vec<Backup>,
    /// Where backups are put; empty: nowhere.
    pub backup_place: PathBuf,
}

/// How a server moves a checkpoint on.
pub struct Slices {
    /// Its keys.
    pub keys: Arc<Keys>,
    /// When the next ones may be saved, on the steady clock, nanoseconds.
    pub due_ns: u64,
}

/// A copy of the store that somebody waits for.
pub struct Backup {
    /// The directory to make, in the place for backups.
    pub name: String,
    /// Who waits.
    pub session: SessionId,
    /// How it is told.
    pub ticket: Arc<dyn Elsewhere>,
}

impl Saves {
    /// An error if there is no place for a checkpoint.
    pub fn check(&self) -> Result<()> {
        if self.possible {
            return Ok(());
        }
        Err(Error::err("this store is in memory only: open it with a directory (--dir) to save it"))
    }
}

impl Journal {
    /// A store without a log, opened at `now_s`.
    pub fn none(now_s: i64) -> Journal {
        Journal { log: None, lost: 0, unlogged: 0, saves: Saves { last_s: now_s, ..Saves::default() } }
    }

    /// Writes effects to `log` from now on.
    pub fn start(&mut self, log: Log) {
        self.log = Some(log);
    }

    /// The log, if there is one.
    #[inline]
    pub fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Writes an effect down.
    #[inline]
    pub fn record(&mut self, effect: &Effect) {
        if let Some(log) = &self.log
            && redo::has_redo(effect)
        {
            let lsn = log.append(|out| redo::encode(effect, out));
            if log.last() < lsn {
                self.lost = lsn;
            }
        }
    }

    /// The record that must be durable before a reply to the session may leave now; 0 if it may leave at once.
    ///
    /// A read waits as well: it may have seen what a change of another session did. `usual` is what the store promises to
    /// sessions that chose nothing.
    #[inline]
    pub fn promise(&self, session: &mut Session, usual: Durability) -> Lsn {
        match &self.log {
            None => 0,
            Some(log) => {
                let last = log.last().max(self.lost);
                promise(log, last, session.promise.take().or(session.durability).unwrap_or(usual))
            }
        }
    }

    /// Does the log take what is written to it? Without one, everything is well, too.
    #[inline]
    pub fn is_fine(&self) -> bool {
        self.log.as_ref().is_none_or(|log| log.condition() == Condition::Fine)
    }

    /// An error if the log takes nothing: the disk is full, or a write to it has failed.
    #[inline]
    pub fn check_write(&self) -> Result<()> {
        match &self.log {
            Some(log) if log.condition() != Condition::Fine => Err(refusal(log)),
            _ => Ok(()),
        }
    }

    /// An error if the session asks for data (`sees_data`) of which some is not durable and never will be. What it is told
    /// instead promises nothing, so it need not wait for anything.
    #[inline]
    pub fn check_read(&self, session: &mut Session, usual: Durability, sees_data: impl FnOnce() -> bool) -> Result<()> {
        match &self.log {
            Some(log) if log.condition() == Condition::Failed && log.durable() < log.last().max(self.lost) => {
                session.promise = Some(Durability::None);
                check_lost(session.durability.unwrap_or(usual), sees_data())
            }
            _ => Ok(()),
        }
    }
}

#[cold]
fn check_lost(durability: Durability, sees_data: bool) -> Result<()> {
    if durability != Durability::Sync || !sees_data {
        return Ok(());
    }
    let text = "the log failed, and the store holds changes that are not on disk: a session with the promise SYNC may \
                not see them. Reopen the store, or read with DURABILITY INTERVAL.";
    Err(Error::new(Code::MisConf, text))
}

#[inline]
fn promise(log: &Log, last: Lsn, durability: Durability) -> Lsn {
    // Also when the log has failed meanwhile: then it is waited for in vain, and the reply does not leave.
    if durability == Durability::Sync && log.durable() < last { last } else { 0 }
}

#[cold]
fn refusal(log: &Log) -> Error {
    Error::new(Code::MisConf, log.refusal().unwrap_or_else(|| "the log takes no writes".into()))
}
