//! Arguments of calls as Python objects, and what procedures give as replies.

use crate::convert::text;
use crate::rows::Rows;
use peryton_core::limits;
use peryton_core::reply::{Blob, Reply, Rows as ReplyRows};
use peryton_core::store::Argument;
use pyo3::IntoPyObjectExt;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyIterator, PyList, PyMapping, PySet, PyString, PyTuple,
};
use std::sync::Arc;

/// An argument.
pub fn object<'py>(py: Python<'py>, argument: &Argument) -> PyResult<Bound<'py, PyAny>> {
    match argument {
        Argument::Null => Ok(py.None().into_bound(py)),
        Argument::Int(number) => number.into_bound_py_any(py),
        Argument::Real(number) => number.into_bound_py_any(py),
        Argument::Text(bytes) => text(py, bytes),
        Argument::Blob(bytes) => Ok(PyBytes::new(py, bytes).into_any()),
    }
}

/// Elements and bytes that a reply may still have.
struct Room {
    elements: usize,
    bytes: usize,
}

/// What a procedure gave, as a reply.
///
/// # Errors
/// Why it is none, in words.
pub fn reply(value: &Bound<'_, PyAny>) -> Result<Reply, String> {
    let mut room = Room { elements: limits::SCRIPT_REPLY_ELEMENTS_MAX, bytes: limits::SCRIPT_REPLY_BYTES_MAX };
    room.reply(value, 0).map_err(|wrong| match wrong {
        Wrong::Value(text) => text,
        Wrong::Python(error) => format!("what it gave cannot be read: {error}"),
    })
}

/// Why a value is no reply.
enum Wrong {
    Value(String),
    Python(PyErr),
}

impl From<PyErr> for Wrong {
    fn from(error: PyErr) -> Self {
        Wrong::Python(error)
    }
}

impl Room {
    fn reply(&mut self, value: &Bound<'_, PyAny>, depth: usize) -> Result<Reply, Wrong> {
        self.elements =
            self.elements.checked_sub(1).ok_or_else(|| Wrong::Value("a reply has too many parts".into()))?;
        if depth > limits::REPLY_DEPTH_MAX {
            return Err(Wrong::Value(format!("a reply is nested deeper than {}", limits::REPLY_DEPTH_MAX)));
        }
        if value.is_none() {
            return Ok(Reply::Nil);
        }
        // bool before int, whose subclass it is.
        if let Ok(truth) = value.cast::<PyBool>() {
            return Ok(Reply::Bool(truth.is_true()));
        }
        if value.is_instance_of::<PyInt>() {
            return self.integer(value);
        }
        if let Ok(number) = value.cast::<PyFloat>() {
            return Ok(Reply::Double(number.value()));
        }
        if let Ok(text) = value.cast::<PyString>() {
            return self.text(text);
        }
        if let Ok(bytes) = value.cast::<PyBytes>() {
            return Ok(Reply::Bulk(self.blob(bytes.as_bytes())?));
        }
        self.collection(value, depth)
    }

    fn collection(&mut self, value: &Bound<'_, PyAny>, depth: usize) -> Result<Reply, Wrong> {
        if let Ok(list) = value.cast::<PyList>() {
            return self.all(list.try_iter()?, depth).map(Reply::Array);
        }
        if let Ok(tuple) = value.cast::<PyTuple>() {
            return self.all(tuple.try_iter()?, depth).map(Reply::Array);
        }
        if let Ok(dict) = value.cast::<PyDict>() {
            return self.map(dict.as_mapping(), depth);
        }
        if value.is_instance_of::<PySet>() || value.is_instance_of::<PyFrozenSet>() {
            return self.all(value.try_iter()?, depth).map(Reply::Set);
        }
        if let Ok(rows) = value.cast::<Rows>() {
            return self.rows(rows);
        }
        if let Ok(buffer) = PyBuffer::<u8>::get(value) {
            let bytes = buffer.to_vec(value.py())?;
            return Ok(Reply::Bulk(self.blob(&bytes)?));
        }
        let kind = value.get_type().name()?.to_string();
        Err(Wrong::Value(format!(
            "a procedure gives None, bool, int, float, str, bytes, list, tuple, dict, set or Rows, and no {kind}"
        )))
    }

    fn integer(&mut self, value: &Bound<'_, PyAny>) -> Result<Reply, Wrong> {
        match value.extract::<i64>() {
            Ok(number) => Ok(Reply::Int(number)),
            // Python itself limits the digits that it makes of a number.
            Err(_) => Ok(Reply::BigNumber(self.blob(value.str()?.to_string().as_bytes())?)),
        }
    }

    fn text(&mut self, text: &Bound<'_, PyString>) -> Result<Reply, Wrong> {
        if let Ok(utf8) = text.to_str() {
            return Ok(Reply::Verbatim(*b"txt", self.blob(utf8.as_bytes())?));
        }
        // Surrogates stand for bytes that are no UTF-8, and go out as these.
        let bytes = text.call_method1("encode", ("utf-8", "surrogateescape"))?;
        let bytes = bytes.cast::<PyBytes>().map_err(PyErr::from)?;
        Ok(Reply::Bulk(self.blob(bytes.as_bytes())?))
    }

    fn blob(&mut self, bytes: &[u8]) -> Result<Blob, Wrong> {
        let left = self.bytes.checked_sub(bytes.len());
        self.bytes = left.ok_or_else(|| Wrong::Value("a reply is too long".into()))?;
        Ok(Blob::from_slice(bytes))
    }

    fn all(&mut self, items: Bound<'_, PyIterator>, depth: usize) -> Result<Vec<Reply>, Wrong> {
        items.map(|item| self.reply(&item?, depth + 1)).collect()
    }

    fn map(&mut self, mapping: &Bound<'_, PyMapping>, depth: usize) -> Result<Reply, Wrong> {
        let mut pairs = Vec::new();
        for pair in mapping.items()?.iter() {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
            pairs.push((self.reply(&key, depth + 1)?, self.reply(&value, depth + 1)?));
        }
        Ok(Reply::Map(pairs))
    }

    /// Rows of a statement stay rows; a statement that gave none is the number of rows it changed.
    fn rows(&mut self, rows: &Bound<'_, Rows>) -> Result<Reply, Wrong> {
        let columns = rows.getattr("columns")?;
        let columns = columns.cast::<PyTuple>().map_err(PyErr::from)?;
        if columns.is_empty() {
            return Ok(Reply::Int(rows.getattr("rowcount")?.extract()?));
        }
        let names = columns.iter().map(|name| Ok(Blob::from_slice(name.extract::<String>()?.as_bytes())));
        let names = Arc::new(names.collect::<PyResult<Vec<_>>>()?);
        let mut made = ReplyRows::new(&names, rows.len()?);
        for row in rows.try_iter()? {
            let cells = self.all(row?.try_iter()?, 1)?;
            made.push(cells.into_iter());
        }
        Ok(Reply::Rows(made))
    }
}
