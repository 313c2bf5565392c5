//! Python procedures of a store: `_core.Procedures`, which says what there is, and `_core.Worker`, for the threads that run
//! them.
//!
//! The threads are Python's own and run `peryton.procedures`: they ask a worker for the next call, run the function, and
//! give the worker what came of it. So no frame of ours is beneath the user's code. All else (the queue, transactions,
//! limits, replies) happens here without the GIL, and nobody who holds the baton or the queue's lock waits for the GIL.

mod inside;
mod pool;
mod ticket;
mod values;
mod watch;
mod worker;

pub use inside::{check as check_place, is_any as are_any};
pub use pool::Pool;
pub use ticket::CLOSING;
pub use worker::Worker;

use crate::error;
use peryton_core::limits;
use peryton_core::store::{Routine, Runner, Store as Core};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;

/// What a procedure is declared with: name, read-only, retries, signature, description.
type Declared = (String, bool, u32, String, String);

/// The Python procedures of a store.
#[pyclass(frozen, module = "peryton._core")]
pub struct Procedures {
    core: Core,
    pool: Arc<Pool>,
}

impl Procedures {
    /// Those of a store.
    pub fn new(core: &Core, pool: &Arc<Pool>) -> Procedures {
        Procedures { core: core.clone(), pool: pool.clone() }
    }
}

#[pymethods]
impl Procedures {
    /// Makes these the procedures that there are: name, whether it only reads, retries, signature and description of each.
    fn declare(&self, py: Python<'_>, routines: Vec<Declared>) -> PyResult<()> {
        let routine = |(name, read_only, retries, signature, description)| {
            Arc::new(Routine { name, language: "Python", read_only, retries, signature, description })
        };
        let routines = routines.into_iter().map(routine).collect();
        let runner: Arc<dyn Runner> = self.pool.clone();
        py.detach(|| self.core.enter().set_procedures(routines, Some(runner))).map_err(|error| error::raise(py, &error))
    }

    /// What the calling thread runs procedures with. `stopped` is the exception that ends one from outside, and
    /// `start_thread` is called when a thread does not come back from one.
    fn worker(&self, py: Python<'_>, stopped: Py<PyAny>, start_thread: Py<PyAny>) -> PyResult<Worker> {
        if self.pool.threads() >= limits::PROCEDURE_THREADS_MAX {
            let text = format!("a store runs procedures on at most {} threads", limits::PROCEDURE_THREADS_MAX);
            return Err(PyValueError::new_err(text));
        }
        watch::start(&self.pool, &self.core, stopped, start_thread);
        Worker::new(py, &self.core, &self.pool)
    }
}
