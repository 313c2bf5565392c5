//! What those need of a store who run procedures outside of it: to say which there are, to work as a procedure in a
//! transaction, and to bring the reply.

use super::{Active, Baton, Store};
use crate::command::{call, transact, waiting};
use crate::error::{Error, Result};
use crate::procedure::external::{Job, Routine, Runner, Task};
use crate::reply::Reply;
use crate::session::{Elsewhere, Session};
use crate::state::State;
use std::sync::Arc;

impl Store {
    /// Is the other one a handle of the same store?
    pub fn is_same(&self, other: &Store) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Baton<'_> {
    /// Makes these the procedures that run outside of the store, and forgets all others.
    ///
    /// # Errors
    /// A library has a function that is called like one of them.
    pub fn set_procedures(&mut self, routines: Vec<Arc<Routine>>, runner: Option<Arc<dyn Runner>>) -> Result<()> {
        let libraries = &self.state.tables.catalog.libraries;
        for routine in &routines {
            if let Some(library) = libraries.of_function(&routine.name) {
                let text = format!("the library {} has a function {} already", library.name, routine.name);
                return Err(Error::err(text));
            }
        }
        self.state.externals.set(routines, runner);
        Ok(())
    }

    /// Brings the reply to a job that is done, to the session that waits for it if it still does. `conflicts` is how often
    /// it met one.
    pub fn answer(&mut self, job: &Job, ticket: &Arc<dyn Elsewhere>, reply: Reply, conflicts: u64) {
        answer(&mut self.state, job, ticket, reply, conflicts);
    }
}

fn answer(state: &mut State, job: &Job, ticket: &Arc<dyn Elsewhere>, reply: Reply, conflicts: u64) {
    let ns = state.advance().saturating_sub(job.since_ns);
    if let Reply::Error(error) = &reply {
        state.count_error(error);
    }
    state.externals.end(job, ticket);
    if let Task::Call { routine, .. } = &job.task {
        state.externals.note(routine, ns, conflicts, matches!(reply, Reply::Error(_)));
        call::note_slow(state, job, ns / 1000);
    }
    let reply = job.shaped(reply);
    waiting::bring(state, job.session, ticket, reply);
}

/// A session that runs procedures. Between the beginning of one and its end, what the session is asked belongs to its
/// transaction.
impl Active<'_> {
    fn parts(&mut self) -> (&mut State, &mut Session) {
        let session = self.session.as_mut().unwrap_or_else(|| unreachable!("taken only by drop"));
        (self.state, session)
    }

    /// Opens the transaction of a procedure on the keys of database `db`.
    ///
    /// # Errors
    /// The tables cannot be held as they are.
    pub fn begin_procedure(&mut self, db: usize, read_only: bool) -> Result<()> {
        let (state, session) = self.parts();
        transact::begin_procedure(state, session, db, read_only)
    }

    /// Commits what a procedure did and brings the reply to its caller.
    ///
    /// # Errors
    /// Nothing was done, and the caller still waits: there was a conflict, or the log takes nothing.
    pub fn end_procedure(
        &mut self,
        job: &Job,
        ticket: &Arc<dyn Elsewhere>,
        reply: Reply,
        conflicts: u64,
    ) -> Result<()> {
        let (state, session) = self.parts();
        transact::commit_procedure(state, session)?;
        answer(state, job, ticket, reply, conflicts);
        Ok(())
    }

    /// Rolls back what a procedure did.
    pub fn roll_back_procedure(&mut self) {
        let (state, session) = self.parts();
        transact::roll_back_procedure(state, session);
    }
}
