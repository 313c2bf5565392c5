//! Procedures that run outside of the store, in a language that this crate does not know: which there are, and how a call
//! is handed to whoever runs them.
//!
//! A call is a [`Job`]. The holder of the baton submits it to the [`Runner`] and lets the session wait, as for a long read;
//! the runner works on a session of its own, in a transaction, and brings the reply (`store/procedures.rs`). So nobody
//! who has the baton ever waits for a procedure.

use crate::error::{Error, Result};
use crate::meter::Uses;
use crate::reply::{Blob, Reply, Rows};
use crate::session::{Elsewhere, SessionId};
use crate::table::datum::Datum;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// A procedure as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routine {
    /// Its name, as it was given.
    pub name: String,
    /// The language it is written in, for people.
    pub language: &'static str,
    /// It does not write, so FCALL_RO may call it.
    pub read_only: bool,
    /// How often it runs again after a conflict.
    pub retries: u32,
    /// Its parameters, for people: `(source: int, target: int)`.
    pub signature: String,
    /// What it does, in one line; empty: nobody says.
    pub description: String,
}

/// What came of the calls of a procedure; times are from calls to replies.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// Its calls.
    pub uses: Uses,
    /// Runs that met a conflict.
    pub conflicts: u64,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Task {
    /// A procedure is called.
    Call {
        /// Which.
        routine: Arc<Routine>,
        /// With what.
        args: Vec<Datum>,
        /// The arguments are words of a request, whose types only the procedure knows; each is a blob.
        untyped: bool,
        /// A SQL statement asks, so the reply is to be rows.
        as_rows: bool,
    },
    /// Procedures are to be loaded anew from where they came.
    Reload,
}

/// A task of a session.
#[derive(Clone, Debug)]
pub struct Job {
    /// Who waits for it.
    pub session: SessionId,
    /// The database of that session.
    pub db: usize,
    /// When it came, on the store's steady clock, nanoseconds.
    pub since_ns: u64,
    /// How long it may take, waiting for a thread included; None: for ever.
    pub limit: Option<Duration>,
    /// What to do.
    pub task: Task,
}

impl Job {
    /// The words of a request that asks for it, for the slow log.
    pub fn words(&self) -> Vec<Vec<u8>> {
        match &self.task {
            Task::Call { routine, args, .. } => {
                let args = args.iter().map(argument_bytes);
                [b"CALL".to_vec(), routine.name.clone().into_bytes()].into_iter().chain(args).collect()
            }
            Task::Reload => vec![b"PROCEDURE".to_vec(), b"RELOAD".to_vec()],
        }
    }

    /// The reply in the shape that its caller wants.
    pub fn shaped(&self, reply: Reply) -> Reply {
        match &self.task {
            Task::Call { routine, as_rows: true, .. } => as_rows(&routine.name, reply),
            _ => reply,
        }
    }
}

/// A value as an argument of a request, or of a Lua function.
pub fn argument_bytes(value: &Datum) -> Vec<u8> {
    match value {
        Datum::Null => Vec::new(),
        Datum::Int(number) => number.to_string().into_bytes(),
        Datum::Real(number) => format!("{number:?}").into_bytes(),
        Datum::Text(bytes) | Datum::Blob(bytes) => bytes.to_vec(),
    }
}

/// What a procedure gave as a statement's reply: its rows, if it gave rows; else one row with one value, in a column that
/// has the procedure's name.
pub fn as_rows(name: &str, reply: Reply) -> Reply {
    match reply {
        Reply::Rows(_) | Reply::Error(_) | Reply::None => reply,
        value => {
            let mut rows = Rows::new(&Arc::new(vec![Blob::from_slice(name.as_bytes())]), 1);
            rows.push(std::iter::once(value));
            Reply::Rows(rows)
        }
    }
}

/// Whoever runs procedures.
pub trait Runner: Send + Sync {
    /// Takes a job, whose reply it brings later; gives what ends it early. The baton is held: this may wait for nothing.
    ///
    /// # Errors
    /// Too many wait already, or it has been closed.
    fn submit(&self, job: Job) -> Result<Arc<dyn Elsewhere>>;
}

/// The sessions that wait for procedures, and what ends these: to be asked without the baton, which a statement of such a
/// procedure may have. Its lock is held for moments only.
#[derive(Default)]
pub struct Callers(Mutex<HashMap<SessionId, Arc<dyn Elsewhere>>>);

impl Callers {
    /// Ends the procedure that a session waits for. False: it waits for none.
    pub fn cancel(&self, session: SessionId) -> bool {
        let ticket = self.0.lock().get(&session).cloned();
        ticket.inspect(|ticket| ticket.cancel()).is_some()
    }

    fn note(&self, session: SessionId, ticket: &Arc<dyn Elsewhere>) {
        self.0.lock().insert(session, ticket.clone());
    }

    fn forget(&self, session: SessionId, ticket: &Arc<dyn Elsewhere>) {
        let mut callers = self.0.lock();
        if callers.get(&session).is_some_and(|known| Arc::ptr_eq(known, ticket)) {
            callers.remove(&session);
        }
    }
}

/// The procedures of a store that run outside of it.
#[derive(Default)]
pub struct Externals {
    callers: Arc<Callers>,
    runner: Option<Arc<dyn Runner>>,
    /// By name in lower case.
    routines: BTreeMap<String, (Arc<Routine>, Usage)>,
}

impl Externals {
    /// Makes these the procedures that there are, and forgets all others. What is known of the use of those that stay is
    /// kept.
    pub fn set(&mut self, routines: Vec<Arc<Routine>>, runner: Option<Arc<dyn Runner>>) {
        let usage = |name: &str| self.routines.get(name).map(|(_, usage)| usage.clone()).unwrap_or_default();
        let keyed = |routine: Arc<Routine>| {
            let name = routine.name.to_ascii_lowercase();
            let usage = usage(&name);
            (name, (routine, usage))
        };
        self.routines = routines.into_iter().map(keyed).collect();
        self.runner = runner;
    }

    /// The procedure of this name, in any case.
    pub fn find(&self, name: &[u8]) -> Option<&Arc<Routine>> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        self.routines.get(&name).map(|(routine, _)| routine)
    }

    /// All of them, by name, and their use.
    pub fn iter(&self) -> impl Iterator<Item = (&Routine, &Usage)> {
        self.routines.values().map(|(routine, usage)| (&**routine, usage))
    }

    /// Hands a job to whoever runs procedures.
    ///
    /// # Errors
    /// Those of [`Runner::submit`], and that there is none.
    pub fn submit(&self, job: Job) -> Result<Arc<dyn Elsewhere>> {
        let Some(runner) = &self.runner else { return Err(Error::err("this store has no procedures")) };
        let session = job.session;
        let ticket = runner.submit(job)?;
        self.callers.note(session, &ticket);
        Ok(ticket)
    }

    /// Who waits for procedures.
    pub fn callers(&self) -> &Arc<Callers> {
        &self.callers
    }

    /// A job has ended.
    pub fn end(&self, job: &Job, ticket: &Arc<dyn Elsewhere>) {
        self.callers.forget(job.session, ticket);
    }

    /// Notes that a call has ended.
    pub fn note(&mut self, routine: &Routine, ns: u64, conflicts: u64, failed: bool) {
        let Some((_, usage)) = self.routines.get_mut(&routine.name.to_ascii_lowercase()) else { return };
        usage.uses.count(failed);
        usage.uses.time(ns);
        usage.conflicts += conflicts;
    }

    /// Sets the counters back to zero.
    pub fn forget_usage(&mut self) {
        self.routines.values_mut().for_each(|(_, usage)| *usage = Usage::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routine(name: &str) -> Arc<Routine> {
        Arc::new(Routine {
            name: name.into(),
            language: "Test",
            read_only: false,
            retries: 0,
            signature: "()".into(),
            description: String::new(),
        })
    }

    #[test]
    fn names_are_found_in_any_case_and_use_outlives_a_reload() {
        let mut externals = Externals::default();
        externals.set(vec![routine("Move"), routine("gone")], None);
        let moved = externals.find(b"MOVE").cloned().unwrap();
        externals.note(&moved, 7, 2, true);
        externals.note(&moved, 5, 0, false);
        externals.set(vec![routine("move")], None);
        assert!(externals.find(b"gone").is_none() && externals.find(b"\xFF").is_none());
        let told = |externals: &Externals| {
            let (routine, Usage { uses, conflicts }) = externals.iter().next().unwrap();
            (routine.name.clone(), uses.calls, uses.failures, *conflicts, uses.total_ns, uses.max_ns)
        };
        assert_eq!(("move".into(), 2, 1, 2, 12, 7), told(&externals));
        externals.forget_usage();
        assert_eq!(("move".into(), 0, 0, 0, 0, 0), told(&externals));
    }

    #[test]
    fn a_value_becomes_a_row_and_rows_stay() {
        let Reply::Rows(rows) = as_rows("f", Reply::Int(7)) else { panic!("no rows") };
        assert_eq!((1, Some(&[Reply::Int(7)][..])), (rows.len(), rows.iter().next()));
        let again = as_rows("g", Reply::Rows(rows.clone()));
        assert_eq!(Reply::Rows(rows), again);
        assert_eq!(Reply::Error(Error::err("x")), as_rows("f", Error::err("x").into()));
    }
}
