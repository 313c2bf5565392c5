//! The Python binding of Peryton: registration of the `peryton._core` module.

mod load;

use pyo3::prelude::*;

/// The compiled core of Peryton; `peryton` is its public face.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    load::register(module)?;
    Ok(())
}
