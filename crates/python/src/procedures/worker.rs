//! `_core.Worker`: what a thread of Python's runs procedures with. It gives the next call and takes what came of the last.

use super::pool::{Call, Pool, STALL};
use super::{inside, values, watch};
use crate::line::Line;
use crate::session::Session;
use parking_lot::Mutex;
use peryton_core::error::{Code, Error, Result};
use peryton_core::reply::Reply;
use peryton_core::store::{Store as Core, Task};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::ffi::c_ulong;
use std::sync::Arc;
use std::time::Duration;

/// What a thread runs procedures with.
#[pyclass(frozen, module = "peryton._core")]
pub struct Worker {
    core: Core,
    pool: Arc<Pool>,
    thread: c_ulong,
    desk: Mutex<Desk>,
}

#[derive(Default)]
struct Desk {
    /// The call that runs.
    current: Option<Current>,
    line: Option<Arc<Line>>,
    /// The same for Python.
    session: Option<Py<Session>>,
    has_left: bool,
    /// The last call was soon over.
    was_short: bool,
}

struct Current {
    call: Arc<Call>,
    /// How often it met a conflict.
    conflicts: u32,
}

/// What came of a run.
enum End {
    /// What the procedure gave.
    Value(Reply),
    /// It raised; the second says whether running it again may help.
    Raised(Error, bool),
    /// Nobody knows: the exception that ends it hit between the user's code and ours.
    Lost,
}

impl Worker {
    /// For the calling thread.
    pub fn new(py: Python<'_>, core: &Core, pool: &Arc<Pool>) -> PyResult<Worker> {
        let thread = py.import("threading")?.call_method0("get_ident")?.extract()?;
        pool.arrive();
        Ok(Worker { core: core.clone(), pool: pool.clone(), thread, desk: Mutex::default() })
    }

    /// Ends the current call and begins the next one.
    fn go_on<'py>(&self, py: Python<'py>, end: End) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.close_to_exceptions(py);
        // Only this thread uses its desk.
        let desk = &mut *self.desk.lock();
        let Some(call) = py.detach(|| self.settle(desk, end).or_else(|| self.begin_next(desk))) else {
            self.leave(desk);
            return Ok(None);
        };
        let job = self.for_python(py, desk, &call)?;
        self.open_to_exceptions();
        Ok(Some(job))
    }

    /// From now on no exception from outside hits this thread.
    fn close_to_exceptions(&self, py: Python<'_>) {
        self.each_own(|running| running.is_open = false);
        watch::send(py, self.thread, None);
        inside::set(None);
    }

    fn open_to_exceptions(&self) {
        inside::set(Some(&self.core));
        let mut is_told = false;
        self.each_own(|running| {
            running.is_open = true;
            is_told |= running.told.is_some();
        });
        if is_told {
            self.pool.look();
        }
    }

    fn each_own(&self, mut each: impl FnMut(&mut super::pool::Running)) {
        let mut work = self.pool.work();
        work.running.iter_mut().filter(|running| running.thread == self.thread).for_each(&mut each);
    }

    // --- without the GIL --------------------------------------------------------------------------------------------

    /// Ends the current call. Gives it when it has to run again.
    fn settle(&self, desk: &mut Desk, end: End) -> Option<Arc<Call>> {
        let mut current = desk.current.take()?;
        let call = current.call.clone();
        let line = desk.line.clone()?;
        let error = match end {
            _ if call.ticket.is_ended() => call.stopped(true).unwrap_or_else(|| Error::err("stopped")),
            End::Value(reply) => match commit(&line, &call, reply, current.conflicts) {
                Ok(()) => {
                    self.done(desk);
                    // While the log is far behind, nobody adds to it.
                    let _ = line.keep(0);
                    return None;
                }
                Err(error) => error,
            },
            End::Raised(error, may_retry) => {
                line.turn().roll_back_procedure();
                match may_retry {
                    true => Error::new(Code::Conflict, error.message.clone()),
                    false => error,
                }
            }
            End::Lost => Error::new(Code::Bug, format!("{} was lost", call.what())),
        };
        if error.code == Code::Conflict && current.conflicts < retries(&call) {
            current.conflicts += 1;
            std::thread::sleep(pause_before(current.conflicts, self.thread));
            if begin(&line, &call).is_ok() {
                desk.current = Some(current);
                return Some(call);
            }
        }
        line.turn().roll_back_procedure();
        self.fail_call(desk, &call, error, current.conflicts);
        None
    }

    /// Takes the next call and opens its transaction. None: this thread is to end.
    fn begin_next(&self, desk: &mut Desk) -> Option<Arc<Call>> {
        if desk.has_left {
            return None;
        }
        loop {
            let line = desk.line.take().filter(|line| !line.is_closed());
            let line = line.unwrap_or_else(|| Arc::new(Line::open(&self.core, 0, 3)));
            desk.line = Some(line.clone());
            let call = self.pool.next(self.thread, desk.was_short, || line.clone())?;
            match begin(&line, &call) {
                Ok(()) => {
                    desk.current = Some(Current { call: call.clone(), conflicts: 0 });
                    return Some(call);
                }
                Err(error) => {
                    let error = call.stopped(false).unwrap_or(error);
                    self.fail_call(desk, &call, error, 0);
                }
            }
        }
    }

    /// Ends a call in an error, unless it was given up and its caller has been answered.
    fn fail_call(&self, desk: &mut Desk, call: &Call, error: Error, conflicts: u32) {
        if self.done(desk) {
            self.core.enter().answer(&call.job, &call.elsewhere(), error.into(), conflicts.into());
        }
    }

    /// The call runs no longer. False: it was given up; another thread has the place of this one, which is to end.
    fn done(&self, desk: &mut Desk) -> bool {
        let (is_ours, time) = self.pool.done(self.thread);
        desk.has_left |= !is_ours;
        desk.was_short = time < STALL;
        if let Some(line) = desk.line.take_if(|line| line.is_closed()) {
            line.turn().close_session();
        }
        is_ours
    }

    // --- with it ----------------------------------------------------------------------------------------------------

    /// A call as `peryton.procedures` wants it: the procedure's name (None: load all anew), its session, its arguments, and
    /// whether these are words without types.
    fn for_python<'py>(&self, py: Python<'py>, desk: &mut Desk, call: &Call) -> PyResult<Bound<'py, PyTuple>> {
        let Some(line) = &desk.line else { unreachable!("a call has a line") };
        let is_same = |session: &Py<Session>| session.get().is_on(line);
        if !desk.session.as_ref().is_some_and(is_same) {
            desk.session = Some(Py::new(py, Session::of_procedure(line.clone()))?);
        }
        let session = desk.session.as_ref().map(|session| session.clone_ref(py));
        match &call.job.task {
            Task::Call { routine, args, untyped, .. } => {
                let args = args.iter().map(|arg| values::object(py, arg)).collect::<PyResult<Vec<_>>>()?;
                (&routine.name, session, PyList::new(py, args)?, *untyped).into_pyobject(py)
            }
            Task::Reload => (py.None(), session, PyList::empty(py), false).into_pyobject(py),
        }
    }

    fn leave(&self, desk: &mut Desk) {
        desk.has_left = true;
        // Under the GIL nobody waits for the baton.
        if let Some(line) = desk.line.take() {
            line.hang_up();
            crate::store::close_later(&self.core, line.id());
        }
        desk.session = None;
        self.pool.leave();
    }
}

/// Opens the transaction of a call.
fn begin(line: &Line, call: &Call) -> Result<()> {
    match &call.job.task {
        Task::Call { routine, .. } => line.turn().begin_procedure(call.job.db, routine.read_only),
        Task::Reload => Ok(()),
    }
}

/// Commits, and brings the reply.
fn commit(line: &Line, call: &Call, reply: Reply, conflicts: u32) -> Result<()> {
    line.turn().end_procedure(&call.job, &call.elsewhere(), reply, conflicts.into())
}

fn retries(call: &Call) -> u32 {
    match &call.job.task {
        Task::Call { routine, .. } => routine.retries,
        Task::Reload => 0,
    }
}

/// None at first, then longer; threads that met at the same row do not meet again.
fn pause_before(attempt: u32, thread: c_ulong) -> Duration {
    match attempt {
        0 | 1 => Duration::ZERO,
        _ => Duration::from_micros((100u64 << attempt.min(7)) * (1 + thread / 4096 % 7) / 4),
    }
}

#[pymethods]
impl Worker {
    /// The next call: the procedure's name (None: load all anew), its session, its arguments, and whether these are words
    /// without types. None: the thread is to end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.go_on(py, End::Lost)
    }

    /// Ends the current call with what its procedure gave, and gives the next one.
    fn finish<'py>(&self, py: Python<'py>, value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        // Reading what it gave may run code of the user's, which must be possible to stop.
        let end = match values::reply(value) {
            Ok(reply) => End::Value(reply),
            Err(text) => End::Raised(Error::new(Code::Custom, self.about_value(&text)), false),
        };
        self.go_on(py, end)
    }

    /// Ends the current call with an error, text that begins with its code, and gives the next one. `retry`: it was a
    /// conflict, after which running the procedure again may help.
    fn fail<'py>(&self, py: Python<'py>, text: String, retry: bool) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let error = match text.strip_prefix("CONFLICT ").filter(|_| retry) {
            Some(text) => Error::new(Code::Conflict, text.to_string()),
            None => Error::new(Code::Custom, text),
        };
        self.go_on(py, End::Raised(error, retry))
    }
}

impl Worker {
    fn about_value(&self, what: &str) -> String {
        let desk = self.desk.lock();
        let call = desk.current.as_ref().map(|current| current.call.what());
        format!("PROCEDURE {}: {what}", call.unwrap_or_default().trim_start_matches("procedure "))
    }
}
