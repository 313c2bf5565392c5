//! Python objects to the bytes of a request, and replies to Python objects.

use crate::error;
use peryton_core::error::Error;
use peryton_core::reply::Reply;
use pyo3::IntoPyObjectExt;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use smallvec::SmallVec;

// --- requests -------------------------------------------------------------------------------------------------------

/// One argument: borrowed from an immutable Python object that it keeps alive, or a copy.
enum Argument<'py> {
    Bytes(Bound<'py, PyBytes>),
    Text(Bound<'py, PyString>),
    Copy(SmallVec<[u8; 32]>),
}

/// The arguments of one request. Bytes and text are not copied, so nothing may outlive this.
pub struct Arguments<'py>(SmallVec<[Argument<'py>; 8]>);

impl<'py> Arguments<'py> {
    /// Reads a sequence of bytes, str, int, float and buffers.
    pub fn new(args: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(tuple) = args.cast::<PyTuple>() {
            return tuple.iter().map(argument).collect::<PyResult<_>>().map(Arguments);
        }
        if let Ok(list) = args.cast::<PyList>() {
            return list.iter().map(argument).collect::<PyResult<_>>().map(Arguments);
        }
        args.try_iter()?.map(|item| argument(item?)).collect::<PyResult<_>>().map(Arguments)
    }

    /// The bytes of all arguments; valid as long as `self`, with or without the GIL, since bytes and str never change.
    pub fn slices(&self) -> PyResult<SmallVec<[&[u8]; 8]>> {
        self.0
            .iter()
            .map(|argument| {
                Ok(match argument {
                    Argument::Bytes(bytes) => bytes.as_bytes(),
                    Argument::Text(text) => text.to_str()?.as_bytes(),
                    Argument::Copy(copy) => copy,
                })
            })
            .collect()
    }
}

fn argument(object: Bound<'_, PyAny>) -> PyResult<Argument<'_>> {
    let object = match object.cast_into::<PyBytes>() {
        Ok(bytes) => return Ok(Argument::Bytes(bytes)),
        Err(other) => other.into_inner(),
    };
    let object = match object.cast_into::<PyString>() {
        Ok(text) => return text_argument(text),
        Err(other) => other.into_inner(),
    };
    if object.is_instance_of::<PyBool>() {
        return Err(PyTypeError::new_err("an argument is bytes, str, int or float, not bool: write 1 or 0"));
    }
    if object.is_instance_of::<PyInt>() {
        return Ok(Argument::Copy(match object.extract::<i64>() {
            Ok(number) => SmallVec::from_slice(itoa::Buffer::new().format(number).as_bytes()),
            Err(_) => SmallVec::from_slice(object.str()?.to_str()?.as_bytes()),
        }));
    }
    if object.is_instance_of::<PyFloat>() {
        return Ok(Argument::Copy(SmallVec::from_slice(object.repr()?.to_str()?.as_bytes())));
    }
    if let Ok(buffer) = PyBuffer::<u8>::get(&object) {
        return Ok(Argument::Copy(SmallVec::from_vec(buffer.to_vec(object.py())?)));
    }
    let kind = object.get_type().name()?.to_string();
    Err(PyTypeError::new_err(format!("an argument is bytes, str, int or float, not {kind}")))
}

/// Text that is not UTF-8 on the way out came in as surrogates (see `text`), and goes back as the same bytes.
fn text_argument(text: Bound<'_, PyString>) -> PyResult<Argument<'_>> {
    if text.to_str().is_ok() {
        return Ok(Argument::Text(text));
    }
    let bytes = text.call_method1("encode", ("utf-8", "surrogateescape"))?;
    Ok(Argument::Bytes(bytes.cast_into::<PyBytes>()?))
}

// --- replies --------------------------------------------------------------------------------------------------------

/// Whose shapes replies take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Peryton's own: text as str, bulk strings as bytes.
    Peryton,
    /// Those of redis-py's RESP2 parser.
    Resp2,
    /// Those of redis-py's RESP3 parser.
    Resp3,
}

/// How replies become Python objects.
pub struct Shape<'a, 'py> {
    /// Whose shapes they take.
    pub dialect: Dialect,
    /// Byte strings as str (redis-py's decode_responses).
    pub decode: bool,
    /// Makes the object that stands for an error; None: Peryton's exceptions.
    pub error: Option<&'a Bound<'py, PyAny>>,
}

/// The shape of Peryton's own surface.
pub const PERYTON: Shape<'static, 'static> = Shape { dialect: Dialect::Peryton, decode: false, error: None };

impl<'py> Shape<'_, 'py> {
    /// The Python object for a reply. An error becomes an exception object; raising it is the caller's business.
    pub fn object(&self, py: Python<'py>, reply: &Reply) -> PyResult<Bound<'py, PyAny>> {
        let old = self.dialect == Dialect::Resp2;
        match reply {
            Reply::None | Reply::Nil | Reply::NilArray => Ok(py.None().into_bound(py)),
            Reply::Ok => self.status(py, "OK"),
            Reply::Status(status) => self.status(py, status),
            Reply::Error(error) => self.error(py, error),
            Reply::Int(number) => number.into_bound_py_any(py),
            Reply::Bulk(bytes) => self.bytes(py, bytes),
            Reply::Verbatim(_, bytes) if self.dialect == Dialect::Peryton => text(py, bytes),
            Reply::Verbatim(_, bytes) => self.bytes(py, bytes),
            Reply::Double(number) if old => self.bytes(py, peryton_core::ds::number::score_text(*number).as_bytes()),
            Reply::Double(number) => number.into_bound_py_any(py),
            Reply::Bool(truth) if old => i64::from(*truth).into_bound_py_any(py),
            Reply::Bool(truth) => truth.into_bound_py_any(py),
            Reply::BigNumber(digits) if old => self.bytes(py, digits),
            Reply::BigNumber(digits) => py.get_type::<PyInt>().call1((text(py, digits)?,)),
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) | Reply::Many(items) => self.list(py, items),
            Reply::Rows(rows) => self.object(py, &Reply::Rows(rows.clone()).plain()),
            Reply::As(_, reply) => self.object(py, reply),
            Reply::Map(pairs) | Reply::Pairs(pairs) if old => self.flat(py, pairs),
            Reply::Map(pairs) => self.dict(py, pairs),
            Reply::Pairs(pairs) => self.pairs(py, pairs),
        }
    }

    fn status(&self, py: Python<'py>, status: &str) -> PyResult<Bound<'py, PyAny>> {
        match self.dialect {
            Dialect::Peryton => Ok(PyString::new(py, status).into_any()),
            _ => self.bytes(py, status.as_bytes()),
        }
    }

    fn error(&self, py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
        match self.error {
            Some(make) => make.call1((error.to_string(),)),
            None => error::from_reply(py, error),
        }
    }

    fn bytes(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        if !self.decode {
            return Ok(PyBytes::new(py, bytes).into_any());
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(PyString::new(py, text).into_any()),
            // Python's own decoder raises the error that redis-py's users know.
            Err(_) => PyBytes::new(py, bytes).call_method1("decode", ("utf-8", "strict")),
        }
    }

    fn list(&self, py: Python<'py>, items: &[Reply]) -> PyResult<Bound<'py, PyAny>> {
        let objects = items.iter().map(|item| self.object(py, item)).collect::<PyResult<Vec<_>>>()?;
        Ok(PyList::new(py, objects)?.into_any())
    }

    fn flat(&self, py: Python<'py>, pairs: &[(Reply, Reply)]) -> PyResult<Bound<'py, PyAny>> {
        let items = pairs.iter().flat_map(|(first, second)| [first, second]);
        let objects = items.map(|item| self.object(py, item)).collect::<PyResult<Vec<_>>>()?;
        Ok(PyList::new(py, objects)?.into_any())
    }

    fn pairs(&self, py: Python<'py>, pairs: &[(Reply, Reply)]) -> PyResult<Bound<'py, PyAny>> {
        let list = PyList::empty(py);
        for (first, second) in pairs {
            list.append(PyList::new(py, [self.object(py, first)?, self.object(py, second)?])?)?;
        }
        Ok(list.into_any())
    }

    fn dict(&self, py: Python<'py>, pairs: &[(Reply, Reply)]) -> PyResult<Bound<'py, PyAny>> {
        let dict = PyDict::new(py);
        for (key, value) in pairs {
            let mut key = self.object(py, key)?;
            // A list cannot be a key; as a tuple it can.
            if let Ok(list) = key.cast::<PyList>() {
                key = list.to_tuple().into_any();
            }
            dict.set_item(key, self.object(py, value)?)?;
        }
        Ok(dict.into_any())
    }
}

/// Text as str; bytes that are no UTF-8 become surrogates, which go back as the same bytes.
pub fn text<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(PyString::new(py, text).into_any()),
        Err(_) => PyBytes::new(py, bytes).call_method1("decode", ("utf-8", "surrogateescape")),
    }
}
