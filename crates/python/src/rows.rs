//! `_core.Rows`: what a SQL statement gives back.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList, PyTuple};

/// The rows of a statement as a sequence of tuples, with their column names.
///
/// A statement that returns no rows (INSERT, CREATE TABLE, ...) gives an empty sequence whose `rowcount` is the number
/// of rows it changed.
#[pyclass(frozen, sequence, module = "peryton")]
pub struct Rows {
    /// The names of the columns.
    #[pyo3(get)]
    columns: Py<PyTuple>,
    rows: Py<PyList>,
    /// Rows that there are, or that were changed.
    #[pyo3(get)]
    rowcount: i64,
}

#[pymethods]
impl Rows {
    #[new]
    pub fn new(columns: Py<PyTuple>, rows: Py<PyList>, rowcount: i64) -> Rows {
        Rows { columns, rows, rowcount }
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.rows.bind(py).len()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.rows.bind(py).as_any().get_item(index)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.rows.bind(py).try_iter()
    }

    fn __eq__<'py>(&self, py: Python<'py>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let rows = self.rows.bind(py);
        if let Ok(other) = other.cast::<Rows>() {
            let other = other.get();
            let same = self.rowcount == other.rowcount
                && self.columns.bind(py).eq(other.columns.bind(py))?
                && rows.eq(other.rows.bind(py))?;
            return same.into_bound_py_any(py);
        }
        match other.cast::<PyList>() {
            Ok(list) => rows.eq(list)?.into_bound_py_any(py),
            Err(_) => Ok(py.NotImplemented().into_bound(py)),
        }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let columns = self.columns.bind(py);
        if columns.is_empty() {
            return Ok(format!("<Rows: {} changed>", self.rowcount));
        }
        let names = columns.iter().map(|name| Ok(name.str()?.to_string())).collect::<PyResult<Vec<_>>>()?;
        Ok(format!("<Rows: {} of ({})>", self.rows.bind(py).len(), names.join(", ")))
    }

    /// The rows as dictionaries from column name to value.
    fn dicts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let (columns, list) = (self.columns.bind(py), PyList::empty(py));
        for row in self.rows.bind(py) {
            let dict = PyDict::new(py);
            for (name, value) in columns.iter().zip(row.try_iter()?) {
                dict.set_item(name, value?)?;
            }
            list.append(dict)?;
        }
        Ok(list)
    }

    /// The only row; ValueError unless there is exactly one.
    fn one<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows = self.rows.bind(py);
        match rows.len() {
            1 => rows.get_item(0),
            count => Err(PyValueError::new_err(format!("expected one row, got {count}"))),
        }
    }

    /// The first value of the first row, or None when there is no row.
    fn scalar<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows = self.rows.bind(py);
        if rows.is_empty() {
            return Ok(py.None().into_bound(py));
        }
        rows.get_item(0)?.get_item(0)
    }

    /// One column's values, by name or position.
    #[pyo3(signature = (name=None), text_signature = "($self, name=0)")]
    fn column<'py>(&self, py: Python<'py>, name: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyList>> {
        let index = match name {
            None => 0usize.into_bound_py_any(py)?,
            Some(number) if number.is_instance_of::<pyo3::types::PyInt>() => number.clone(),
            Some(name) => self.columns.bind(py).call_method1("index", (name,))?,
        };
        let list = PyList::empty(py);
        for row in self.rows.bind(py) {
            list.append(row.get_item(&index)?)?;
        }
        Ok(list)
    }
}
