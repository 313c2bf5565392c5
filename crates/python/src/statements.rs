//! `_core.Statements`: SQL on an embedded store without a Python frame in between; `Database.sql` is its `__call__`.
//!
//! Lends itself sessions as the pool of `Database` does, so that threads never wait for each other's.

use crate::convert::{PERYTON, text};
use crate::error;
use crate::fork::Birth;
use crate::line::Line;
use crate::rows::Rows;
use crate::session::Session;
use parking_lot::Mutex;
use peryton_core::reply::Reply;
use peryton_core::store::Store;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple};
use smallvec::SmallVec;

/// Runs statements on a store.
#[pyclass(frozen, module = "peryton._core")]
pub struct Statements {
    store: Store,
    db: usize,
    birth: Birth,
    idle: Mutex<Vec<Session>>,
    /// The column names of the last result, which often are those of the next.
    names: Mutex<Option<(Vec<Reply>, Py<PyTuple>)>>,
}

/// One value of a statement: borrowed from a Python object that the caller holds, or made of it.
enum Value<'a> {
    Borrowed(&'a [u8]),
    Made(SmallVec<[u8; 24]>),
}

impl Statements {
    /// For a store's keyspace `db`.
    pub fn new(store: &Store, db: usize) -> Statements {
        let (idle, names) = (Mutex::default(), Mutex::default());
        Statements { store: store.clone(), db, birth: Birth::here(), idle, names }
    }

    fn run(&self, py: Python<'_>, args: &[&[u8]]) -> PyResult<Reply> {
        self.birth.check(py)?;
        let session = self.idle.lock().pop().unwrap_or_else(|| Session::new(Line::open(&self.store, self.db, 3)));
        let reply = session.statement(py, args);
        let keeps = !matches!(reply, Ok(Reply::Ok | Reply::Status(_)));
        // One that was left while it waited has ended, and one in which a transaction was begun must end.
        if keeps && !session.is_closed() {
            self.idle.lock().push(session);
        }
        match reply? {
            Reply::Error(error) => Err(error::raise(py, &error)),
            status if !keeps => {
                // Raises what says so.
                py.import("peryton._calls")?.call_method1("_rows", (PERYTON.object(py, &status)?,))?;
                Ok(status)
            }
            reply => Ok(reply),
        }
    }

    fn rows(&self, py: Python<'_>, reply: &Reply) -> PyResult<Rows> {
        let Reply::Array(rows) = reply else {
            let changed = if let Reply::Int(changed) = reply { *changed } else { 0 };
            return Ok(Rows::new(PyTuple::empty(py).unbind(), PyList::empty(py).unbind(), changed));
        };
        let Some((Reply::Array(names), rows)) = rows.split_first() else {
            return Ok(Rows::new(PyTuple::empty(py).unbind(), PyList::empty(py).unbind(), 0));
        };
        let columns = self.columns(py, names)?;
        let list = match rows {
            [row] => PyList::new(py, [tuple(py, row)?])?,
            rows => PyList::new(py, rows.iter().map(|row| tuple(py, row)).collect::<PyResult<Vec<_>>>()?)?,
        };
        Ok(Rows::new(columns, list.unbind(), rows.len() as i64))
    }

    fn columns(&self, py: Python<'_>, names: &[Reply]) -> PyResult<Py<PyTuple>> {
        if let Some((last, columns)) = &*self.names.lock()
            && last == names
        {
            return Ok(columns.clone_ref(py));
        }
        let name = |name: &Reply| match name {
            Reply::Bulk(name) => text(py, name),
            other => PERYTON.object(py, other),
        };
        let replies = names;
        let names = replies.iter().map(name).collect::<PyResult<Vec<_>>>()?;
        let columns = PyTuple::new(py, names)?.unbind();
        *self.names.lock() = Some((replies.to_vec(), columns.clone_ref(py)));
        Ok(columns)
    }
}

fn tuple<'py>(py: Python<'py>, row: &Reply) -> PyResult<Bound<'py, PyTuple>> {
    let Reply::Array(values) = row else { return Ok(PyTuple::empty(py)) };
    let mut objects: SmallVec<[Bound<'py, PyAny>; 16]> = SmallVec::new();
    for value in values {
        objects.push(PERYTON.object(py, value)?);
    }
    PyTuple::new(py, objects)
}

/// A value and the letter of its type; None when only `_calls` knows what to make of it.
fn value<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<Option<(u8, Value<'a>)>> {
    if object.is_none() {
        return Ok(Some((b'n', Value::Borrowed(&[]))));
    }
    if object.is_exact_instance_of::<PyInt>() {
        let Ok(number) = object.extract::<i64>() else { return Ok(None) };
        let digits = SmallVec::from_slice(itoa::Buffer::new().format(number).as_bytes());
        return Ok(Some((b'i', Value::Made(digits))));
    }
    if let Ok(text) = object.cast_exact::<PyString>() {
        // Text with surrogates is for `_calls` to encode.
        return Ok(text.to_str().ok().map(|text| (b't', Value::Borrowed(text.as_bytes()))));
    }
    if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        return Ok(Some((b'b', Value::Borrowed(bytes.as_bytes()))));
    }
    if object.is_exact_instance_of::<PyFloat>() {
        let digits = object.repr()?;
        return Ok(Some((b'r', Value::Made(SmallVec::from_slice(digits.to_str()?.as_bytes())))));
    }
    Ok(None)
}

#[pymethods]
impl Statements {
    /// Runs a SQL statement with its parameters.
    #[pyo3(signature = (text, params=None))]
    fn __call__(
        &self,
        py: Python<'_>,
        text: &Bound<'_, PyString>,
        params: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Rows> {
        let objects: SmallVec<[Bound<'_, PyAny>; 8]> = match params {
            None => SmallVec::new(),
            Some(params) => match (params.cast::<PyTuple>(), params.cast::<PyList>()) {
                (Ok(tuple), _) => tuple.iter().collect(),
                (_, Ok(list)) => list.iter().collect(),
                _ => return self.run_unusual(py, text, Some(params)),
            },
        };
        let Ok(statement) = text.to_str() else { return self.run_unusual(py, text, params) };
        let (mut letters, mut values) = (SmallVec::<[u8; 16]>::new(), SmallVec::<[Value<'_>; 8]>::new());
        for object in &objects {
            let Some((letter, made)) = value(object)? else { return self.run_unusual(py, text, params) };
            letters.push(letter);
            values.push(made);
        }
        let mut args: SmallVec<[&[u8]; 12]> = SmallVec::new();
        match letters.is_empty() {
            true => args.extend([&b"SQL"[..], statement.as_bytes()]),
            false => args.extend([&b"SQL.BIND"[..], &letters, statement.as_bytes()]),
        }
        args.extend(values.iter().map(|value| match value {
            Value::Borrowed(bytes) => bytes,
            Value::Made(bytes) => &bytes[..],
        }));
        let reply = self.run(py, &args)?;
        self.rows(py, &reply)
    }

    /// Ends the sessions.
    fn close(&self) {
        // Dropped after the lock is given back.
        let idle = std::mem::take(&mut *self.idle.lock());
        drop(idle);
    }
}

impl Statements {
    /// Parameters by name, dates, decimals and the like: `_calls` makes a request of them.
    #[cold]
    fn run_unusual(
        &self,
        py: Python<'_>,
        text: &Bound<'_, PyString>,
        params: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Rows> {
        let call = py.import("peryton._calls")?.call_method1("sql", (text, params))?;
        let arguments = crate::convert::Arguments::new(&call.getattr("args")?)?;
        let reply = self.run(py, &arguments.slices()?)?;
        self.rows(py, &reply)
    }
}
