//! `_core.pack`: rows of Python values as one string, as `SQL.PACKED` takes them.

use peryton_core::store::{Value, pack as put};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyIterator, PyList, PyString, PyTuple};

/// Bytes after which no further row is packed, so that a request stays far from its limit.
const BYTES_ENOUGH: usize = 4 * 1024 * 1024;
/// Rows and bytes for which room is made at first.
const ROWS_USUAL: usize = 4_000;
const ROW_BYTES_USUAL: usize = 32;

/// Packs up to `count` rows of an iterator, all of the same length; empty at its end.
///
/// `convert` makes one of int, float, str, bytes and None of any other value.
#[pyfunction]
pub fn pack<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyIterator>,
    count: usize,
    convert: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    // Room for the usual batch, so that it is not moved while it grows.
    let room = count.min(ROWS_USUAL).saturating_mul(ROW_BYTES_USUAL);
    let mut packer = Packer { out: Vec::with_capacity(room), convert, width: None, row: 0 };
    let mut rows = rows.clone();
    while packer.row < count && packer.out.len() < BYTES_ENOUGH {
        let Some(row) = rows.next() else { break };
        packer.row += 1;
        packer.row(&row?)?;
    }
    Ok(PyBytes::new(py, &packer.out))
}

struct Packer<'a, 'py> {
    out: Vec<u8>,
    convert: &'a Bound<'py, PyAny>,
    /// Values of the first row.
    width: Option<usize>,
    /// Rows begun.
    row: usize,
}

impl<'py> Packer<'_, 'py> {
    fn row(&mut self, row: &Bound<'py, PyAny>) -> PyResult<()> {
        let mut width = 0;
        if let Ok(tuple) = row.cast::<PyTuple>() {
            for value in tuple.iter_borrowed() {
                self.value(&value)?;
                width += 1;
            }
        } else if let Ok(list) = row.cast::<PyList>() {
            for value in list.iter() {
                self.value(&value)?;
                width += 1;
            }
        } else {
            for value in row.try_iter()? {
                self.value(&value?)?;
                width += 1;
            }
        }
        let first = *self.width.get_or_insert(width);
        if width != first || width == 0 {
            let text = format!("row {} has {width} values, the first one has {first}", self.row);
            return Err(PyValueError::new_err(text));
        }
        Ok(())
    }

    #[inline]
    fn value(&mut self, value: &Bound<'py, PyAny>) -> PyResult<()> {
        match self.plain(value) {
            Some(result) => result,
            None => {
                let converted = self.convert.call1((value,))?;
                let unknown = || PyValueError::new_err("a value that was not converted to a plain one");
                self.plain(&converted).ok_or_else(unknown)?
            }
        }
    }

    /// Packs a value of a plain type; None for any other, subclasses (bool) included.
    #[inline]
    fn plain(&mut self, value: &Bound<'py, PyAny>) -> Option<PyResult<()>> {
        if let Ok(int) = value.cast_exact::<PyInt>() {
            return Some(int.extract().and_then(|int| self.put(Value::Int(int))));
        }
        if let Ok(text) = value.cast_exact::<PyString>() {
            return Some(text.to_str().and_then(|text| self.put(Value::Text(text.as_bytes()))));
        }
        if let Ok(float) = value.cast_exact::<PyFloat>() {
            return Some(self.put(Value::Real(float.value())));
        }
        if let Ok(bytes) = value.cast_exact::<PyBytes>() {
            return Some(self.put(Value::Blob(bytes.as_bytes())));
        }
        value.is_none().then(|| self.put(Value::Null))
    }

    #[inline]
    fn put(&mut self, value: Value<'_>) -> PyResult<()> {
        put(value, &mut self.out).ok_or_else(|| PyValueError::new_err("a value is longer than 4 GB"))
    }
}
