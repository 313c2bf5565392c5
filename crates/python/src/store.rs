//! `_core.Store`: a store in this process, and its end when the interpreter exits.

use crate::error;
use crate::fork::Birth;
use crate::line::Line;
use crate::procedures::{Pool, Procedures};
use crate::server::{Door, Loading, Server, options};
use crate::session::Session;
use crate::statements::Statements;
use parking_lot::Mutex;
use peryton_core::limits::DATABASES;
use peryton_core::reply::Reply;
use peryton_core::session::{Durability, SessionId};
use peryton_core::store::{Options, Phase, Progress, Report, Store as Core};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

/// A store with the doors that were opened on it, which stay open as long as it does.
struct Opened {
    core: Core,
    procedures: Arc<Pool>,
    doors: Mutex<Vec<Arc<Door>>>,
    birth: Birth,
}

/// Every open store, for the end of the interpreter.
static OPEN: Mutex<Vec<Weak<Opened>>> = Mutex::new(Vec::new());

impl Opened {
    /// Stops the doors and closes the store. Waits for threads, so not under the GIL.
    fn close(&self) {
        close(&self.core, &self.procedures, std::mem::take(&mut *self.doors.lock()));
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.birth.is_elsewhere() {
            // In a child neither the threads nor, perhaps, the baton can be waited for.
            std::mem::take(&mut *self.doors.lock()).into_iter().for_each(std::mem::forget);
        } else if !self.core.is_closed() {
            // Python drops objects under the GIL, where nothing may wait for threads that may hold the baton.
            let (core, pool) = (self.core.clone(), self.procedures.clone());
            let doors = std::mem::take(&mut *self.doors.lock());
            if let Some(thread) = on_another_thread(move || close(&core, &pool, doors)) {
                let mut closing = CLOSING.lock();
                closing.retain(|thread| !thread.is_finished());
                closing.push(thread);
            }
        }
    }
}

/// How often Python hears how far the opening is.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Tells a Python callable how far the opening is.
fn teller(callable: Py<PyAny>) -> Progress {
    let mut told = Instant::now();
    Box::new(move |step| {
        if told.elapsed() < TELL_EVERY && step.done < step.total {
            return;
        }
        told = Instant::now();
        let phase = match step.phase {
            Phase::Checkpoint => "checkpoint",
            Phase::Log => "log",
        };
        Python::attach(|py| {
            if let Err(error) = callable.call1(py, (phase, step.done, step.total)) {
                // The store opens all the same.
                error.write_unraisable(py, None);
            }
        });
    })
}

fn close(core: &Core, pool: &Pool, doors: Vec<Arc<Door>>) {
    let waiting = pool.begin_closing();
    if !waiting.is_empty() {
        let mut baton = core.enter();
        for call in waiting {
            let error = call.stopped(false);
            baton.answer(&call.job, &call.elsewhere(), error.map_or(Reply::Nil, Reply::Error), 0);
        }
    }
    pool.end_closing();
    doors.iter().for_each(|door| door.stop());
    core.close();
}

/// Threads that close what was dropped. The interpreter's end waits for them, or what is in no file yet would be lost.
static CLOSING: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());

fn on_another_thread(work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    // Without a thread to be had, the work is left undone: all that it frees lives until the process ends.
    std::thread::Builder::new().name("peryton-close".into()).spawn(work).ok()
}

/// A store in this process.
#[pyclass(frozen, module = "peryton._core")]
pub struct Store {
    opened: Arc<Opened>,
    path: Option<String>,
}

#[pymethods]
impl Store {
    /// Opens a store: in the directory `path`, or in memory.
    #[new]
    ///
    /// `progress(phase, done, total)` is called now and then while what the directory holds is read: phase is
    /// "checkpoint" or "log", the others are bytes.
    #[pyo3(signature = (path=None, *, durability=None, maxmemory=0, debug_commands=false, progress=None))]
    fn new(
        py: Python<'_>,
        path: Option<String>,
        durability: Option<&str>,
        maxmemory: u64,
        debug_commands: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Store> {
        let durability = durability.map(|name| {
            let text = || PyValueError::new_err(format!("durability is sync, interval or none, not {name:?}"));
            Durability::parse(name.as_bytes()).ok_or_else(text)
        });
        let durability = durability.transpose()?;
        if path.is_none() && durability.is_some_and(|durability| durability != Durability::None) {
            return Err(PyValueError::new_err("a store in memory keeps nothing: durability needs a directory"));
        }
        let core = py.detach(|| {
            let dir = path.as_ref().map(PathBuf::from);
            let progress = progress.map(teller);
            let core = Core::open(Options { dir, durability, progress, debug_commands, ..Options::default() })?;
            core.enter().state().config.maxmemory = maxmemory;
            Ok(core)
        });
        let core = core.map_err(|error| error::raise(py, &error))?;
        let opened = Arc::new(Opened { core, procedures: Pool::new(), doors: Mutex::default(), birth: Birth::here() });
        let mut open = OPEN.lock();
        open.retain(|store| store.strong_count() > 0);
        open.push(Arc::downgrade(&opened));
        Ok(Store { opened, path })
    }

    /// A new session in the keyspace `db`; `protocol` is the RESP version whose rules it follows.
    #[pyo3(signature = (db=0, *, protocol=3))]
    fn session(&self, py: Python<'_>, db: usize, protocol: u8) -> PyResult<Session> {
        self.check(py)?;
        if db >= DATABASES {
            return Err(PyValueError::new_err(format!("db is 0 to {}, not {db}", DATABASES - 1)));
        }
        if !(2..=3).contains(&protocol) {
            return Err(PyValueError::new_err("protocol is 2 or 3"));
        }
        Ok(Session::new(Line::open(&self.opened.core, db, protocol)))
    }

    /// What runs statements in the keyspace `db`.
    #[pyo3(signature = (db=0))]
    fn statements(&self, py: Python<'_>, db: usize) -> PyResult<Statements> {
        self.check(py)?;
        Ok(Statements::new(&self.opened.core, db))
    }

    /// The Python procedures of the store.
    fn procedures(&self, py: Python<'_>) -> PyResult<Procedures> {
        self.check(py)?;
        Ok(Procedures::new(&self.opened.core, &self.opened.procedures))
    }

    /// Opens a RESP door; port 0 takes a free one, and an empty host opens no TCP port.
    #[pyo3(signature = (host="127.0.0.1", port=0, *, unixsocket=None, password=None))]
    fn serve(
        &self,
        py: Python<'_>,
        host: &str,
        port: u16,
        unixsocket: Option<String>,
        password: Option<String>,
    ) -> PyResult<Server> {
        self.check(py)?;
        let options = options(host, port, unixsocket, password);
        self.keep(py, || Door::open(&self.opened.core, &options))
    }

    /// Serves at a door that was open while the store was not: clients that have come stay connected.
    fn take_over(&self, py: Python<'_>, door: &Loading) -> PyResult<Server> {
        self.check(py)?;
        self.keep(py, || door.serve(&self.opened.core))
    }

    /// Stops its servers, ends its sessions' waits and closes the store; once is enough.
    fn close(&self, py: Python<'_>) {
        if !self.opened.birth.is_elsewhere() {
            py.detach(|| self.opened.close());
        }
    }

    /// Whether the store is closed.
    #[getter]
    fn closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.opened.birth.check(py)?;
        Ok(self.opened.core.is_closed())
    }

    /// The data directory; None for a store in memory.
    #[getter]
    fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    fn __repr__(&self) -> String {
        format!("<Store {}>", self.path.as_deref().unwrap_or("in memory"))
    }
}

impl Store {
    /// Opens a door that stays open as long as the store.
    fn keep(
        &self,
        py: Python<'_>,
        open: impl FnOnce() -> peryton_core::error::Result<Door> + Send,
    ) -> PyResult<Server> {
        let door = Arc::new(py.detach(open).map_err(|error| error::raise(py, &error))?);
        self.opened.doors.lock().push(door.clone());
        Ok(Server::new(door))
    }

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.opened.birth.check(py)?;
        if self.opened.core.is_closed() { Err(closed(py, "store")) } else { Ok(()) }
    }
}

/// What a directory holds that no store has open, as a dict; with `repair`, a damaged log is cut where the damage is.
#[pyfunction]
#[pyo3(signature = (path, *, repair=false, progress=None))]
pub fn check<'py>(
    py: Python<'py>,
    path: PathBuf,
    repair: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let report = py.detach(|| peryton_core::store::check(&path, repair, progress.map(teller)));
    report_of(py, &report.map_err(|error| error::raise(py, &error))?)
}

/// Puts what a directory holds into another one, which must not exist, as a store of its own; gives what `check` gives.
#[pyfunction]
#[pyo3(signature = (source, target, *, progress=None))]
pub fn restore<'py>(
    py: Python<'py>,
    source: PathBuf,
    target: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let report = py.detach(|| peryton_core::store::restore(&source, &target, progress.map(teller)));
    report_of(py, &report.map_err(|error| error::raise(py, &error))?)
}

fn report_of<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let recovered = report.recovered.as_ref();
    dict.set_item("checkpoint", recovered.and_then(|found| found.checkpoint.as_ref().map(|loaded| loaded.lsn)))?;
    dict.set_item("records", recovered.map(|found| found.records))?;
    dict.set_item("next", recovered.map(|found| found.next))?;
    let cut = recovered.and_then(|found| found.cut.as_ref());
    dict.set_item("cut", cut.map(|cut| (cut.file.clone(), cut.offset, cut.bytes)))?;
    dict.set_item("trouble", &report.trouble)?;
    dict.set_item("repairable", report.is_repairable)?;
    dict.set_item("repaired", report.is_repaired)?;
    dict.set_item("keys", report.keys)?;
    dict.set_item("tables", report.tables)?;
    dict.set_item("rows", report.rows)?;
    Ok(dict)
}

/// Ends a session whose last handle was dropped while somebody else held the baton.
pub fn close_later(core: &Core, id: SessionId) {
    let core = core.clone();
    on_another_thread(move || core.enter().close_session(id));
}

/// The thread that ends the interpreter, once it does.
static EXITING: OnceLock<ThreadId> = OnceLock::new();

/// ClosedError: `what` is closed. At the interpreter's end only its own thread gets it: the others are daemons that the
/// process takes along, and an exception in each would be noise.
pub fn closed(py: Python<'_>, what: &str) -> PyErr {
    park_at_exit(py);
    error::closed(py, what)
}

/// Holds up a thread for ever once another one ends the interpreter.
pub fn park_at_exit(py: Python<'_>) {
    if EXITING.get().is_some_and(|thread| *thread != std::thread::current().id()) {
        py.detach(|| {
            loop {
                std::thread::park();
            }
        })
    }
}

/// Closes every open store of this process; registered with `atexit`.
#[pyfunction]
pub fn close_all(py: Python<'_>) {
    EXITING.get_or_init(|| std::thread::current().id());
    let stores: Vec<_> = OPEN.lock().iter().filter_map(Weak::upgrade).collect();
    for store in stores {
        if !store.birth.is_elsewhere() {
            py.detach(|| store.close());
        }
    }
    let closing = std::mem::take(&mut *CLOSING.lock());
    py.detach(|| {
        for thread in closing {
            // A panic in one of them was reported when it happened.
            let _ = thread.join();
        }
    });
}
