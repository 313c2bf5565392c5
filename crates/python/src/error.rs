//! Errors as Python exceptions: the only place in Rust that knows `peryton.exceptions`.

use peryton_core::error::{Code, Error};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use std::any::Any;

const MODULE: &str = "peryton.exceptions";

/// The exception object for an error reply.
pub fn from_reply<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    MAKE.import(py, MODULE, "error_from_reply")?.call1((error.to_string(),))
}

/// The exception to raise for an error.
pub fn raise(py: Python<'_>, error: &Error) -> PyErr {
    from_reply(py, error).map_or_else(|broken| broken, PyErr::from_value)
}

/// ClosedError: `what` is closed.
pub fn closed(py: Python<'_>, what: &str) -> PyErr {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    of_class(py, &CLASS, "ClosedError", &format!("this {what} is closed"))
}

/// ForkError.
pub fn forked(py: Python<'_>) -> PyErr {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let text = "this handle belongs to the parent process; open the store again here, or let the parent serve it";
    of_class(py, &CLASS, "ForkError", text)
}

/// ProcedureError: another handle of the store that a procedure runs in was used there.
pub fn inside(py: Python<'_>) -> PyErr {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let text = "a procedure works through its own handle: what another handle of the store does is no part of it";
    of_class(py, &CLASS, "ProcedureError", text)
}

/// A panic, caught at this border, as an error (invariant 12).
pub fn from_panic(panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message");
    Error::new(Code::Bug, text.to_string())
}

fn of_class(py: Python<'_>, cell: &'static PyOnceLock<Py<PyAny>>, name: &str, text: &str) -> PyErr {
    let made = cell.import(py, MODULE, name).and_then(|class| class.call1((PyString::new(py, text),)));
    made.map_or_else(|broken| broken, PyErr::from_value)
}
