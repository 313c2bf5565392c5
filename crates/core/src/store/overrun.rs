//! What holds the baton for too long, a script or a statement, as those see it who wait, and how they end it: all that can
//! be asked of a store without the baton.

use crate::error::{Code, Error, Result};
use crate::procedure::Watch;
use crate::procedure::budget::{self, Kind};
use crate::procedure::external::Callers;
use crate::reply::Reply;
use crate::session::SessionId;
use crate::state::State;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Tells of the script or statement that runs and ends it, from any thread and without the baton.
pub struct Overrun {
    scripts: Arc<Watch>,
    statements: Arc<Watch>,
    callers: Arc<Callers>,
    /// Sessions to be killed when the baton is free.
    doomed: Mutex<Vec<SessionId>>,
    /// An instant, and what the store's steady clock showed then.
    opened: (Instant, u64),
}

impl Overrun {
    /// For a store that was opened at an instant, when its steady clock showed this.
    pub(super) fn new(state: &State, opened: (Instant, u64)) -> Overrun {
        Overrun {
            scripts: state.scripts.watch().clone(),
            statements: state.statement_watch.clone(),
            callers: state.externals.callers().clone(),
            doomed: Mutex::default(),
            opened,
        }
    }

    /// The store's steady clock, nanoseconds.
    pub fn now_ns(&self) -> u64 {
        let (opened, opened_ns) = self.opened;
        opened_ns + opened.elapsed().as_nanos() as u64
    }

    /// How long what runs has been running; None when nothing does.
    pub fn running_for(&self) -> Option<Duration> {
        let since_ns = self.scripts.running_since_ns().or_else(|| self.statements.running_since_ns())?;
        Some(Duration::from_nanos(self.now_ns().saturating_sub(since_ns)))
    }

    /// True when the running script has run a command that writes.
    pub fn has_written(&self) -> bool {
        self.scripts.has_written()
    }

    /// What others get to hear meanwhile.
    pub fn busy(&self) -> Error {
        match self.statements.owner() {
            Some(id) if !self.scripts.is_running() => Error::new(
                Code::Busy,
                format!("Peryton is busy running a statement. You can only call CANCEL {id} or CLIENT KILL ID {id}."),
            ),
            _ => budget::busy(if self.scripts.is_function() { Kind::Function } else { Kind::Script }),
        }
    }

    /// Ends the running script soon, unless it has written: what SCRIPT KILL answers.
    pub fn kill_script(&self) -> Result<()> {
        self.scripts.kill(Kind::Script)
    }

    /// Ends the statement of a session soon, as far as it runs now, or the procedure that it waits for; what these wrote is
    /// taken back. False: it has none.
    pub fn cancel(&self, session: SessionId) -> bool {
        self.statements.cancel(session) || self.callers.cancel(session)
    }

    /// The reply to a request that ends what runs or tells of it: SCRIPT KILL, FUNCTION KILL, FUNCTION STATS, CANCEL and
    /// CLIENT KILL ID. None: the request needs the baton.
    pub fn answer(&self, args: &[&[u8]]) -> Option<Reply> {
        self.running_for()?;
        Some(match Ending::of(args)? {
            Ending::Procedure(kind) => self.scripts.kill(kind).map_or_else(Reply::Error, |()| Reply::Ok),
            Ending::Told => self.told(),
            // Those whose statement does not run, and who wait for no procedure, can only be ended with the baton.
            Ending::Statement(id) => self.cancel(id).then_some(Reply::Int(1))?,
            Ending::Client(id) => {
                self.cancel(id).then(|| self.doomed.lock().push(id))?;
                Reply::Int(1)
            }
        })
    }

    /// What FUNCTION STATS answers while a function runs; while a script does, that the store is busy.
    fn told(&self) -> Reply {
        let Some(running) = self.scripts.function() else { return self.busy().into() };
        let duration_ms = self.now_ns().saturating_sub(running.since_ns) / 1_000_000;
        // Only whoever has the baton may count libraries; what was there when the function began is.
        crate::command::function::describe_run(Some((&running, duration_ms)), self.scripts.counts())
    }

    /// May a request be answered without the baton, if something runs?
    pub fn may_answer(args: &[&[u8]]) -> bool {
        Ending::of(args).is_some()
    }

    /// The sessions that were killed while the baton was not to be had.
    pub(super) fn take_doomed(&self) -> Vec<SessionId> {
        std::mem::take(&mut *self.doomed.lock())
    }
}

/// What a request would end, or ask.
enum Ending {
    /// The script or function that runs.
    Procedure(Kind),
    /// Nothing: it asks what runs.
    Told,
    /// The statement of this session.
    Statement(SessionId),
    /// This session, and its statement first.
    Client(SessionId),
}

impl Ending {
    fn of(args: &[&[u8]]) -> Option<Ending> {
        let is = |arg: &[u8], word: &str| arg.eq_ignore_ascii_case(word.as_bytes());
        let number = |arg: &[u8]| std::str::from_utf8(arg).ok()?.parse().ok();
        match args {
            [command, what] if is(command, "SCRIPT") && is(what, "KILL") => Some(Ending::Procedure(Kind::Script)),
            [command, what] if is(command, "FUNCTION") && is(what, "KILL") => Some(Ending::Procedure(Kind::Function)),
            [command, what] if is(command, "FUNCTION") && is(what, "STATS") => Some(Ending::Told),
            [command, id] if is(command, "CANCEL") => number(id).map(Ending::Statement),
            [command, what, by, id] if is(command, "CLIENT") && is(what, "KILL") && is(by, "ID") => {
                number(id).map(Ending::Client)
            }
            _ => None,
        }
    }
}
