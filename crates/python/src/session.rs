//! `_core.Session`: one session with a store, for the thread that calls it.
//!
//! Of the GIL and the baton, whoever holds one never waits for the other (invariant 10): a short request tries the baton
//! and runs inline; otherwise the GIL is released first. No Python object is touched while the baton is held.

use crate::convert::{Arguments, Dialect, PERYTON, Shape};
use crate::error;
use crate::fork::Birth;
use crate::line::{self, Line, Outcome, Turn};
use crate::procedures::{self, CLOSING};
use crate::store;
use peryton_core::error::Error;
use peryton_core::reply::Reply;
use peryton_core::store::{Batch, Done, Lsn, Overrun, Prepared, Value, is_short};
use pyo3::exceptions::{PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest sleep between two looks at Python's signals.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// One session with a store.
#[pyclass(frozen, module = "peryton._core")]
pub struct Session {
    line: Arc<Line>,
    birth: Birth,
    /// A procedure works on it, on a thread that may use no other session of the store.
    of_procedure: bool,
}

impl Session {
    /// A session on an open line.
    pub fn new(line: Line) -> Session {
        Session { line: Arc::new(line), birth: Birth::here(), of_procedure: false }
    }

    /// The session that a procedure works on.
    pub fn of_procedure(line: Arc<Line>) -> Session {
        Session { line, birth: Birth::here(), of_procedure: true }
    }

    /// Is this its line?
    pub fn is_on(&self, line: &Arc<Line>) -> bool {
        Arc::ptr_eq(&self.line, line)
    }

    /// Does `work` with the line and the baton: inline if both are free and `short`, else without the GIL. Then waits for
    /// what was promised.
    fn with_turn<T: Send>(
        &self,
        py: Python<'_>,
        short: bool,
        work: impl FnOnce(&mut Turn<'_>) -> T + Send,
    ) -> PyResult<T> {
        if short && let Some(mut turn) = self.line.try_turn() {
            let done = work(&mut turn);
            let promise = turn.end();
            return self.keep(py, promise).map(|()| done);
        }
        let (done, promise, kept) = py.detach(|| self.work_in(self.line.turn(), work));
        self.keep_on(py, promise, kept).map(|()| done)
    }

    /// The same for a request that may end what holds the baton; its reply if it passes the baton by.
    fn with_turn_unless_answered<T: Send>(
        &self,
        py: Python<'_>,
        args: &[&[u8]],
        work: impl FnOnce(&mut Turn<'_>) -> T + Send,
    ) -> PyResult<Result<T, Reply>> {
        match py.detach(|| self.line.turn_unless_answered(args).map(|turn| self.work_in(turn, work))) {
            Ok((done, promise, kept)) => self.keep_on(py, promise, kept).map(|()| Ok(done)),
            Err(reply) => Ok(Err(reply)),
        }
    }

    /// Without the GIL: gives what came of the work, what it promised, and whether that was kept soon.
    fn work_in<T>(&self, mut turn: Turn<'_>, work: impl FnOnce(&mut Turn<'_>) -> T) -> (T, Lsn, Result<bool, Error>) {
        let done = work(&mut turn);
        let promise = turn.end();
        (done, promise, self.line.keep_for(promise, SIGNALS_EVERY))
    }

    /// Waits, without the GIL, for what a turn has promised.
    fn keep(&self, py: Python<'_>, promise: Lsn) -> PyResult<()> {
        if self.line.is_kept(promise) {
            return Ok(());
        }
        let kept = py.detach(|| self.line.keep_for(promise, SIGNALS_EVERY));
        self.keep_on(py, promise, kept)
    }

    /// Goes on waiting for a promise that may be `kept`, with a look at Python's signals now and then: on a full disk it may
    /// take for ever.
    fn keep_on(&self, py: Python<'_>, promise: Lsn, mut kept: Result<bool, Error>) -> PyResult<()> {
        while !kept.map_err(|error| error::raise(py, &error))? {
            py.check_signals()?;
            kept = py.detach(|| self.line.keep_for(promise, SIGNALS_EVERY));
        }
        Ok(())
    }

    /// Asks `look` again and again, asleep in between, until it is not `Later`, time is up (None), or a signal raises.
    fn wait_for(
        &self,
        py: Python<'_>,
        until: Option<Instant>,
        look: impl Fn(&mut Turn<'_>) -> Outcome + Sync,
    ) -> PyResult<Option<Outcome>> {
        loop {
            let now = Instant::now();
            let slice = until.map_or(now + SIGNALS_EVERY, |until| until.min(now + SIGNALS_EVERY));
            let one_look = || {
                let mut turn = self.line.turn();
                let outcome = look(&mut turn);
                (outcome, turn.end())
            };
            let (outcome, promise, kept) = py.detach(|| {
                let (mut outcome, mut promise) = one_look();
                if matches!(outcome, Outcome::Later) && slice > now {
                    self.line.sleep(slice);
                    let before = promise;
                    (outcome, promise) = one_look();
                    promise = promise.max(before);
                }
                (outcome, promise, self.line.keep_for(promise, SIGNALS_EVERY))
            });
            self.keep_on(py, promise, kept)?;
            if !matches!(outcome, Outcome::Later) {
                return Ok(Some(outcome));
            }
            py.check_signals().inspect_err(|_| self.end(py))?;
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(None);
            }
        }
    }

    /// The reply to a request that has just run, once it is there.
    fn settle(&self, py: Python<'_>, outcome: Outcome) -> PyResult<Reply> {
        let outcome = match outcome {
            Outcome::Later => self.wait_for(py, None, |turn| turn.late_reply())?.unwrap_or(Outcome::Closed),
            outcome => outcome,
        };
        match outcome {
            Outcome::Reply(reply) => Ok(reply),
            Outcome::Silence => Ok(Reply::None),
            Outcome::Later | Outcome::Closed => Err(self.closed_error(py)),
        }
    }

    /// Ends the session. Its wait, if it has one, is over, and a late reply is lost.
    pub fn end(&self, py: Python<'_>) {
        if self.line.hang_up() {
            // Nothing is promised to who leaves.
            let _ = self.with_turn(py, true, |turn| turn.close_session());
        }
    }

    /// Ends the session of a line that was hung up, at once or, if somebody has the baton, in another thread.
    fn end_soon(&self) {
        match self.line.try_turn() {
            Some(mut turn) => turn.close_session(),
            None => store::close_later(self.line.store(), self.line.id()),
        }
    }

    /// Runs a prepared statement with the GIL held. None: it has to be asked as a request, for one because somebody else
    /// has the baton.
    #[inline]
    pub fn prepared(
        &self,
        py: Python<'_>,
        prepared: &Prepared,
        params: &[Value<'_>],
        found: &mut Batch,
    ) -> PyResult<Option<Result<Done, Error>>> {
        let Some(mut turn) = self.line.try_turn() else { return Ok(None) };
        let done = turn.statement(prepared, params, found);
        let promise = turn.end();
        self.keep(py, promise).map(|()| done)
    }

    /// What a text was compiled to, unless somebody has the baton.
    pub fn prepare(&self, text: &[u8]) -> Option<Prepared> {
        self.line.try_turn()?.prepare(text)
    }

    /// The reply to a statement, which is run with the GIL held if it is known and over in no time.
    pub fn statement(&self, py: Python<'_>, args: &[&[u8]]) -> PyResult<Reply> {
        self.check(py)?;
        let inline = self.line.try_turn().and_then(|mut turn| {
            let outcome = turn.is_short_statement(args).then(|| turn.execute(args))?;
            Some((outcome, turn.end()))
        });
        let outcome = match inline {
            Some((outcome, promise)) => self.keep(py, promise).map(|()| outcome)?,
            None => self.with_turn(py, false, |turn| turn.execute(args))?,
        };
        self.settle(py, outcome)
    }

    /// Whether it can be used no longer.
    pub fn is_closed(&self) -> bool {
        self.line.is_closed()
    }

    /// ClosedError. A thread that runs procedures gets it at the interpreter's end, too, as its end is waited for.
    fn closed_error(&self, py: Python<'_>) -> PyErr {
        if self.of_procedure { error::closed(py, "session") } else { store::closed(py, "session") }
    }

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.birth.check(py)?;
        if procedures::are_any() && !self.of_procedure {
            procedures::check_place(py, self.line.store())?;
        }
        if self.line.is_closed() { Err(self.closed_error(py)) } else { Ok(()) }
    }
}

#[pymethods]
impl Session {
    /// Runs a request and gives its reply; an error reply is raised. A blocking command waits here.
    fn execute<'py>(&self, py: Python<'py>, args: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.check(py)?;
        let arguments = Arguments::new(args)?;
        let slices = arguments.slices()?;
        if self.of_procedure && slices.first().is_some_and(|name| name.eq_ignore_ascii_case(b"SQL.BIND")) {
            // Others want the GIL, too: letting go of it for a statement that takes a microsecond would be a long wait.
            return match self.statement(py, &slices)? {
                Reply::Error(error) => Err(error::raise(py, &error)),
                reply => PERYTON.object(py, &reply),
            };
        }
        let outcome = if Overrun::may_answer(&slices) {
            let outcome = self.with_turn_unless_answered(py, &slices, |turn| turn.execute(&slices))?;
            outcome.unwrap_or_else(Outcome::Reply)
        } else {
            self.with_turn(py, is_short(&slices), |turn| turn.execute(&slices))?
        };
        match self.settle(py, outcome)? {
            Reply::Error(error) => {
                if error.message.starts_with(CLOSING) && !self.of_procedure {
                    store::park_at_exit(py);
                }
                Err(error::raise(py, &error))
            }
            reply => PERYTON.object(py, &reply),
        }
    }

    /// Runs several requests under one hold of the baton; error replies are exception objects.
    fn pipeline<'py>(&self, py: Python<'py>, requests: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        self.check(py)?;
        let arguments = requests.try_iter()?.map(|args| Arguments::new(&args?)).collect::<PyResult<Vec<_>>>()?;
        let requests = arguments.iter().map(Arguments::slices).collect::<PyResult<Vec<_>>>()?;
        let replies = PyList::empty(py);
        let mut at = 0;
        while at < requests.len() {
            // A request that has to wait ends the hold; the others follow when it is answered.
            let rest = &requests[at..];
            let outcomes = self.with_turn(py, false, |turn| {
                let mut outcomes = Vec::with_capacity(rest.len());
                for args in rest {
                    outcomes.push(turn.execute(args));
                    if matches!(outcomes.last(), Some(Outcome::Later)) {
                        break;
                    }
                }
                outcomes
            })?;
            at += outcomes.len();
            for outcome in outcomes {
                replies.append(PERYTON.object(py, &self.settle(py, outcome)?)?)?;
            }
        }
        Ok(replies)
    }

    /// The pushes that arrived; waits for one for `timeout` seconds (None: for ever).
    #[pyo3(signature = (timeout=None))]
    fn wait<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        self.check(py)?;
        let pushes = |turn: &mut Turn<'_>| match turn.pushes() {
            none if none.is_empty() => Outcome::Later,
            some => Outcome::Reply(Reply::Array(some)),
        };
        match self.wait_for(py, line::deadline(seconds(timeout)?), pushes)? {
            Some(Outcome::Reply(pushes)) => PERYTON.object(py, &pushes),
            _ => Ok(PyList::empty(py).into_any()),
        }
    }

    /// Runs requests and keeps their replies for `receive`, as a connection would.
    fn send(&self, py: Python<'_>, requests: &Bound<'_, PyAny>) -> PyResult<()> {
        self.check(py)?;
        let arguments = requests.try_iter()?.map(|args| Arguments::new(&args?)).collect::<PyResult<Vec<_>>>()?;
        let requests = arguments.iter().map(Arguments::slices).collect::<PyResult<Vec<_>>>()?;
        let send = |turn: &mut Turn<'_>| requests.iter().any(|args| matches!(turn.send(args), Outcome::Closed));
        let closed = match &requests[..] {
            [args] if Overrun::may_answer(args) => match self.with_turn_unless_answered(py, args, send)? {
                Ok(closed) => closed,
                Err(reply) => {
                    py.detach(|| self.line.deliver(reply));
                    false
                }
            },
            [args] => self.with_turn(py, is_short(args), send)?,
            _ => self.with_turn(py, false, send)?,
        };
        if closed { Err(store::closed(py, "session")) } else { Ok(()) }
    }

    /// The next reply or push, in the shapes of redis-py's parsers for `protocol`; True with a push.
    ///
    /// `decode` gives byte strings as str. `error` makes the object that stands for an error reply. Raises TimeoutError
    /// when `timeout` seconds pass first.
    #[pyo3(signature = (timeout=None, *, protocol=3, decode=false, error=None))]
    fn receive<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
        protocol: u8,
        decode: bool,
        error: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        self.birth.check(py)?;
        let outcome = match self.line.take() {
            Some(reply) => Some(Outcome::Reply(reply)),
            None => self.wait_for(py, line::deadline(seconds(timeout)?), |turn| turn.next())?,
        };
        let reply = match outcome {
            Some(Outcome::Reply(reply)) => reply,
            Some(_) => return Err(store::closed(py, "session")),
            None => return Err(PyTimeoutError::new_err("timed out")),
        };
        let dialect = if protocol == 2 { Dialect::Resp2 } else { Dialect::Resp3 };
        let object = Shape { dialect, decode, error: error.as_ref() }.object(py, &reply)?;
        (matches!(reply, Reply::Push(_)), object).into_pyobject(py)
    }

    /// Whether `receive` would answer at once, after waiting up to `timeout` seconds for it (None: for ever).
    fn pending(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        self.birth.check(py)?;
        let look = |turn: &mut Turn<'_>| match turn.is_pending() {
            true => Outcome::Silence,
            false if turn.is_closed() => Outcome::Closed,
            false => Outcome::Later,
        };
        if timeout == Some(0.0) {
            return Ok(self.line.has_news());
        }
        Ok(self.wait_for(py, line::deadline(seconds(timeout)?), look)?.is_some())
    }

    /// Ends the session and any wait in it.
    fn close(&self, py: Python<'_>) {
        if !self.birth.is_elsewhere() {
            self.end(py);
        }
    }

    /// As `close`, but does not wait for whoever uses the store; for an event loop.
    fn leave(&self) {
        if !self.birth.is_elsewhere() && self.line.hang_up() {
            self.end_soon();
        }
    }

    /// Whether the session has ended.
    #[getter]
    fn closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.birth.check(py)?;
        Ok(self.line.is_closed())
    }

    /// The session's number, as in CLIENT ID.
    #[getter]
    fn id(&self, py: Python<'_>) -> u64 {
        if self.line.id() == 0 {
            // The session opens with its line's first turn.
            py.detach(|| drop(self.line.turn()));
        }
        self.line.id()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // In a child the baton may be locked for ever.
        if self.birth.is_elsewhere() || !self.line.hang_up() {
            return;
        }
        // Python drops objects under the GIL, so this may not wait for the baton.
        self.end_soon();
    }
}

fn seconds(timeout: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(timeout) = timeout else { return Ok(None) };
    if timeout.is_nan() {
        return Err(PyValueError::new_err("a timeout is a number of seconds"));
    }
    // Too long for a Duration is for ever.
    Ok(Duration::try_from_secs_f64(timeout.max(0.0)).ok())
}
