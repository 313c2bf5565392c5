//! `_core.Server`: a RESP door on a store.

use crate::fork::Birth;
use parking_lot::{Condvar, Mutex};
use peryton_core::error::{Error, Result};
use peryton_core::store::Store as Core;
use peryton_server::{Address, Loading as Waiting, Options, Server as Listener};
use pyo3::prelude::*;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a waiting caller looks at Python's signals, and at a server that may have ended by itself.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A running door, shared by its handle and its store.
pub struct Door {
    listener: Mutex<Option<ManuallyDrop<Listener>>>,
    stopped: Condvar,
    birth: Birth,
    host: String,
    port: u16,
    unix_socket: Option<String>,
}

impl Door {
    /// Begins to listen.
    pub fn open(store: &Core, options: &Options) -> Result<Door> {
        let listener = Listener::start(store, options)?;
        let address = listener.address();
        Ok(Door::new(listener, address, options.unix_socket.as_deref()))
    }

    fn new(listener: Listener, address: Option<Address>, unix_socket: Option<&Path>) -> Door {
        Door {
            listener: Mutex::new(Some(ManuallyDrop::new(listener))),
            stopped: Condvar::new(),
            birth: Birth::here(),
            host: address.map_or_else(String::new, |address| address.ip().to_string()),
            port: address.map_or(0, |address| address.port()),
            unix_socket: unix_socket.map(|path| path.to_string_lossy().into_owned()),
        }
    }

    /// Stops listening and waits for the event loop to end. Waits, so not under the GIL.
    pub fn stop(&self) {
        let listener = self.listener.lock().take();
        if let Some(mut listener) = listener {
            listener.stop();
        }
        self.stopped.notify_all();
    }

    /// Sleeps until stopped or `until`; true when it no longer runs.
    fn sleep(&self, until: Instant) -> bool {
        let mut listener = self.listener.lock();
        let runs = |listener: &Option<ManuallyDrop<Listener>>| listener.as_ref().is_some_and(|one| one.is_running());
        if runs(&listener) {
            self.stopped.wait_until(&mut listener, until);
        }
        !runs(&listener)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // In a child there is no thread to wait for.
        if !self.birth.is_elsewhere() {
            self.stop();
        }
    }
}

/// A RESP door on a store.
#[pyclass(frozen, module = "peryton._core")]
pub struct Server {
    door: Arc<Door>,
}

impl Server {
    /// The handle of a door.
    pub fn new(door: Arc<Door>) -> Server {
        Server { door }
    }
}

#[pymethods]
impl Server {
    /// Stops it and closes its connections; once is enough.
    fn stop(&self, py: Python<'_>) {
        if !self.door.birth.is_elsewhere() {
            py.detach(|| self.door.stop());
        }
    }

    /// Waits until it has stopped; False when `timeout` seconds passed first.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        self.door.birth.check(py)?;
        let timeout = timeout.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX));
        let until = crate::line::deadline(timeout);
        loop {
            let slice = Instant::now() + LOOK_EVERY;
            if py.detach(|| self.door.sleep(until.map_or(slice, |until| until.min(slice)))) {
                return Ok(true);
            }
            py.check_signals()?;
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(false);
            }
        }
    }

    /// Whether a client has ended it with SHUTDOWN.
    #[getter]
    fn shut_down(&self) -> bool {
        self.door.listener.lock().as_ref().is_some_and(|listener| listener.was_shut_down())
    }

    /// Its TCP port; 0 when it serves a Unix socket only.
    #[getter]
    fn port(&self) -> u16 {
        self.door.port
    }

    /// Its address as a URL for `peryton.connect`.
    #[getter]
    fn address(&self) -> String {
        match &self.door.unix_socket {
            Some(path) if self.door.port == 0 => format!("unix://{path}"),
            _ if self.door.host.contains(':') => format!("peryton://[{}]:{}", self.door.host, self.door.port),
            _ => format!("peryton://{}:{}", self.door.host, self.door.port),
        }
    }

    /// Whether it serves.
    #[getter]
    fn running(&self, py: Python<'_>) -> PyResult<bool> {
        self.door.birth.check(py)?;
        Ok(!self.door.sleep(Instant::now()))
    }

    fn __repr__(&self) -> String {
        format!("<Server {}>", self.address())
    }
}

/// Where a door is to be, as Python says it: an empty host opens no TCP port.
pub fn options(host: &str, port: u16, unixsocket: Option<String>, password: Option<String>) -> Options {
    let bind = (!host.is_empty()).then(|| (host.to_string(), port));
    Options { bind, unix_socket: unixsocket.map(PathBuf::from), password }
}

/// A RESP door whose store is still being opened: clients hear that it is loading.
#[pyclass(frozen, module = "peryton._core")]
pub struct Loading {
    waiting: Mutex<Option<ManuallyDrop<Waiting>>>,
    unix_socket: Option<PathBuf>,
    birth: Birth,
}

#[pymethods]
impl Loading {
    /// Begins to listen; port 0 takes a free one, and an empty host opens no TCP port.
    #[new]
    #[pyo3(signature = (host="127.0.0.1", port=0, *, unixsocket=None, password=None))]
    fn new(
        py: Python<'_>,
        host: &str,
        port: u16,
        unixsocket: Option<String>,
        password: Option<String>,
    ) -> PyResult<Loading> {
        let options = options(host, port, unixsocket, password);
        let waiting = py.detach(|| Waiting::start(&options)).map_err(|error| crate::error::raise(py, &error))?;
        let waiting = Mutex::new(Some(ManuallyDrop::new(waiting)));
        Ok(Loading { waiting, unix_socket: options.unix_socket, birth: Birth::here() })
    }

    /// Hears how far the loading is, in bytes.
    fn tell(&self, done: u64, total: u64) {
        self.waiting.lock().iter().for_each(|waiting| waiting.tell(done, total));
    }

    /// Closes it, unless a store has it; once is enough.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.take()));
    }

    /// Its TCP port; 0 when there is none, or a store has it.
    #[getter]
    fn port(&self) -> u16 {
        self.waiting.lock().as_ref().and_then(|waiting| waiting.address()).map_or(0, |address| address.port())
    }
}

impl Loading {
    /// The door, if this still has it.
    fn take(&self) -> Option<Waiting> {
        // In a child its thread is not there.
        if self.birth.is_elsewhere() { None } else { self.waiting.lock().take().map(ManuallyDrop::into_inner) }
    }

    /// Gives it to a store, with the clients that have come. Waits for a thread, so not under the GIL.
    pub fn serve(&self, store: &Core) -> Result<Door> {
        let waiting = self.take().ok_or_else(|| Error::err("the door is closed, or a store has it already"))?;
        let address = waiting.address();
        Ok(Door::new(waiting.serve(store)?, address, self.unix_socket.as_deref()))
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        drop(self.take());
    }
}
