//! `_core.Statements`: SQL on an embedded store without a Python frame in between; `Database.sql` is its `run`.
//!
//! Lends itself sessions as the pool of `Database` does, so that threads never wait for each other's. What short
//! statements were compiled to is kept by the text's object, so that a statement in a loop is not looked up by its words,
//! nor its values spelled out.

use crate::convert::{Arguments, PERYTON, text};
use crate::error;
use crate::fork::Birth;
use crate::line::Line;
use crate::procedures;
use crate::rows::Rows;
use crate::session::Session;
use parking_lot::Mutex;
use peryton_core::reply::{Blob, Reply};
use peryton_core::store::{Batch, Done, Prepared, Store, Value};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple};
use smallvec::SmallVec;
use std::sync::Arc;

/// Texts whose statements are kept, a power of two.
const KEPT: usize = 64;

/// A buffer that has held more is not kept, bytes.
const FOUND_BYTES_KEPT: usize = 1 << 20;

/// Runs statements on a store.
#[pyclass(frozen, module = "peryton._core")]
pub struct Statements {
    store: Store,
    db: usize,
    birth: Birth,
    idle: Mutex<Vec<Idle>>,
    /// Each at the place that its text's address says.
    kept: Mutex<[Option<Kept>; KEPT]>,
    /// The column names of the last result, which often are those of the next.
    names: Mutex<Option<(Vec<Reply>, Py<PyTuple>)>>,
}

/// A session that nobody uses, and its buffer for rows.
struct Idle {
    session: Session,
    found: Batch,
}

/// A prepared statement.
struct Kept {
    /// Kept alive, so that no other text can have its address.
    text: Py<PyString>,
    prepared: Arc<Prepared>,
    columns: Py<PyTuple>,
}

type Params<'a> = SmallVec<[Value<'a>; 8]>;

impl Statements {
    /// For a store's keyspace `db`.
    pub fn new(store: &Store, db: usize) -> Statements {
        let (idle, kept, names) = (Mutex::default(), Mutex::new([const { None }; KEPT]), Mutex::default());
        Statements { store: store.clone(), db, birth: Birth::here(), idle, kept, names }
    }

    fn idle(&self) -> Idle {
        let open = || Session::new(Line::open(&self.store, self.db, 3));
        self.idle.lock().pop().unwrap_or_else(|| Idle { session: open(), found: Batch::new() })
    }

    // --- prepared statements ----------------------------------------------------------------------------------------

    fn kept(&self, py: Python<'_>, text: &Bound<'_, PyString>) -> Option<(Arc<Prepared>, Py<PyTuple>)> {
        let kept = self.kept.lock();
        let kept = kept[place(text)].as_ref().filter(|kept| kept.text.is(text))?;
        Some((kept.prepared.clone(), kept.columns.clone_ref(py)))
    }

    /// The rows of a statement that is kept. None: it must be asked as a request.
    fn run_kept(&self, py: Python<'_>, text: &Bound<'_, PyString>, params: &Params<'_>) -> PyResult<Option<Rows>> {
        let Some((prepared, columns)) = self.kept(py, text) else { return Ok(None) };
        let Idle { session, mut found } = self.idle();
        let done = session.prepared(py, &prepared, params, &mut found);
        let rows = match done {
            Ok(Some(Ok(Done::Rows))) => found_rows(py, &prepared, columns, &found).map(Some),
            Ok(Some(Ok(Done::Changed(count)))) => Ok(Some(Rows::new(columns, PyList::empty(py).unbind(), count))),
            Ok(Some(Err(error))) => Err(error::raise(py, &error)),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        if found.memory() > FOUND_BYTES_KEPT {
            found = Batch::new();
        }
        self.idle.lock().push(Idle { session, found });
        rows
    }

    /// Keeps what a text was compiled to, if it is a short statement.
    fn keep(&self, py: Python<'_>, session: &Session, text: &Bound<'_, PyString>, statement: &str) -> PyResult<()> {
        let Some(prepared) = session.prepare(statement.as_bytes()) else { return Ok(()) };
        let columns = names(py, prepared.names())?;
        let kept = Kept { text: text.clone().unbind(), prepared: Arc::new(prepared), columns };
        // What was there is dropped after the lock is given back.
        let old = self.kept.lock()[place(text)].replace(kept);
        drop(old);
        Ok(())
    }

    // --- requests ---------------------------------------------------------------------------------------------------

    /// The rows of a statement as a request; what it was compiled to is kept as that of `text`, if one is given.
    fn request(&self, py: Python<'_>, text: Option<&Bound<'_, PyString>>, args: &[&[u8]]) -> PyResult<Rows> {
        let Idle { session, found } = self.idle();
        let reply = session.statement(py, args);
        let keeps = !matches!(reply, Ok(Reply::Ok | Reply::Status(_)));
        if let (Some(text), Ok(Reply::Rows(_) | Reply::Int(_))) = (text, &reply) {
            self.keep(py, &session, text, text.to_str()?)?;
        }
        // One that was left while it waited has ended, and one in which a transaction was begun must end.
        if keeps && !session.is_closed() {
            self.idle.lock().push(Idle { session, found });
        } else if !keeps {
            // Now, and not when the baton happens to be free: the caller may look whether a transaction is open.
            session.end(py);
        }
        match reply? {
            Reply::Error(error) => Err(error::raise(py, &error)),
            status if !keeps => {
                // Raises what says so.
                py.import("peryton._calls")?.call_method1("_rows", (PERYTON.object(py, &status)?,))?;
                self.rows(py, &status)
            }
            reply => self.rows(py, &reply),
        }
    }

    fn rows(&self, py: Python<'_>, reply: &Reply) -> PyResult<Rows> {
        if let Reply::Rows(rows) = reply {
            let columns = names(py, rows.names())?;
            let list = PyList::new(py, rows.iter().map(|row| tuple(py, row)).collect::<PyResult<Vec<_>>>()?)?;
            return Ok(Rows::new(columns, list.unbind(), rows.len() as i64));
        }
        let Reply::Array(rows) = reply else {
            let changed = if let Reply::Int(changed) = reply { *changed } else { 0 };
            return Ok(Rows::new(PyTuple::empty(py).unbind(), PyList::empty(py).unbind(), changed));
        };
        let Some((Reply::Array(names), rows)) = rows.split_first() else {
            return Ok(Rows::new(PyTuple::empty(py).unbind(), PyList::empty(py).unbind(), 0));
        };
        let columns = self.columns(py, names)?;
        let values = |row: &'_ Reply| if let Reply::Array(values) = row { tuple(py, values) } else { tuple(py, &[]) };
        let list = PyList::new(py, rows.iter().map(values).collect::<PyResult<Vec<_>>>()?)?;
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

/// Where a text's statement is kept.
fn place(text: &Bound<'_, PyString>) -> usize {
    (text.as_ptr() as usize >> 4) % KEPT
}

fn found_rows(py: Python<'_>, prepared: &Prepared, columns: Py<PyTuple>, found: &Batch) -> PyResult<Rows> {
    let list = PyList::empty(py);
    for row in found.iter() {
        list.append(stored_tuple(py, prepared, row)?)?;
    }
    Ok(Rows::new(columns, list.unbind(), found.len() as i64))
}

/// A row as it is stored, as a tuple.
#[inline]
fn stored_tuple<'py>(py: Python<'py>, prepared: &Prepared, row: &[u8]) -> PyResult<Bound<'py, PyTuple>> {
    let mut objects: SmallVec<[Bound<'py, PyAny>; 16]> = SmallVec::new();
    for value in prepared.values(row) {
        objects.push(match value {
            Value::Null => py.None().into_bound(py),
            Value::Int(number) => number.into_bound_py_any(py)?,
            Value::Real(number) => number.into_bound_py_any(py)?,
            Value::Text(bytes) => text(py, bytes)?,
            Value::Blob(bytes) => PyBytes::new(py, bytes).into_any(),
        });
    }
    PyTuple::new(py, objects)
}

/// The names of columns as a tuple.
fn names(py: Python<'_>, names: &[Blob]) -> PyResult<Py<PyTuple>> {
    let names = names.iter().map(|name| text(py, name)).collect::<PyResult<Vec<_>>>()?;
    Ok(PyTuple::new(py, names)?.unbind())
}

fn tuple<'py>(py: Python<'py>, values: &[Reply]) -> PyResult<Bound<'py, PyTuple>> {
    let mut objects: SmallVec<[Bound<'py, PyAny>; 16]> = SmallVec::new();
    for value in values {
        objects.push(PERYTON.object(py, value)?);
    }
    PyTuple::new(py, objects)
}

/// A parameter's value; None when only `_calls` knows what to make of it.
#[inline]
fn value<'a>(object: &'a Bound<'_, PyAny>) -> Option<Value<'a>> {
    if let Ok(number) = object.cast_exact::<PyInt>() {
        return number.extract().ok().map(Value::Int);
    }
    if let Ok(text) = object.cast_exact::<PyString>() {
        // Text with surrogates is for `_calls` to encode.
        return text.to_str().ok().map(|text| Value::Text(text.as_bytes()));
    }
    if let Ok(number) = object.cast_exact::<PyFloat>() {
        // What is no number is refused, as words for it are.
        return Some(Value::Real(number.value())).filter(|_| !number.value().is_nan());
    }
    if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        return Some(Value::Blob(bytes.as_bytes()));
    }
    object.is_none().then_some(Value::Null)
}

/// Gives `ask` the request for a statement with these values.
fn with_words<T>(statement: &str, params: &Params<'_>, ask: impl FnOnce(&[&[u8]]) -> T) -> T {
    let (mut letters, mut spelled) = (SmallVec::<[u8; 16]>::new(), SmallVec::<[SmallVec<[u8; 24]>; 8]>::new());
    for value in params {
        let (letter, digits) = match value {
            Value::Null => (b'n', SmallVec::new()),
            Value::Int(number) => (b'i', SmallVec::from_slice(itoa::Buffer::new().format(*number).as_bytes())),
            // The shortest digits that read back as the same number.
            Value::Real(number) => (b'r', SmallVec::from_vec(format!("{number:?}").into_bytes())),
            Value::Text(_) => (b't', SmallVec::new()),
            Value::Blob(_) => (b'b', SmallVec::new()),
        };
        letters.push(letter);
        spelled.push(digits);
    }
    let mut args: SmallVec<[&[u8]; 12]> = SmallVec::new();
    match letters.is_empty() {
        true => args.extend([&b"SQL"[..], statement.as_bytes()]),
        false => args.extend([&b"SQL.BIND"[..], &letters, statement.as_bytes()]),
    }
    args.extend(params.iter().zip(&spelled).map(|(value, digits)| match value {
        Value::Text(bytes) | Value::Blob(bytes) => *bytes,
        _ => &digits[..],
    }));
    ask(&args)
}

#[pymethods]
impl Statements {
    /// Runs a SQL statement with its parameters.
    #[pyo3(signature = (text, params=None))]
    fn run(&self, py: Python<'_>, text: &Bound<'_, PyString>, params: Option<&Bound<'_, PyAny>>) -> PyResult<Rows> {
        self.birth.check(py)?;
        if procedures::are_any() {
            procedures::check_place(py, &self.store)?;
        }
        let objects: SmallVec<[Bound<'_, PyAny>; 8]> = match params {
            None => SmallVec::new(),
            Some(params) => match (params.cast::<PyTuple>(), params.cast::<PyList>()) {
                (Ok(tuple), _) => tuple.iter().collect(),
                (_, Ok(list)) => list.iter().collect(),
                _ => return self.run_unusual(py, text, Some(params)),
            },
        };
        let mut values = Params::new();
        for object in &objects {
            let Some(value) = value(object) else { return self.run_unusual(py, text, params) };
            values.push(value);
        }
        if let Some(rows) = self.run_kept(py, text, &values)? {
            return Ok(rows);
        }
        let Ok(statement) = text.to_str() else { return self.run_unusual(py, text, params) };
        with_words(statement, &values, |args| self.request(py, Some(text), args))
    }

    /// Ends the sessions.
    fn close(&self) {
        // Dropped after the locks are given back.
        let idle = std::mem::take(&mut *self.idle.lock());
        let kept = std::mem::replace(&mut *self.kept.lock(), [const { None }; KEPT]);
        drop((idle, kept));
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
        let arguments = Arguments::new(&call.getattr("args")?)?;
        self.request(py, None, &arguments.slices()?)
    }
}
