//! The Python binding of Peryton: registration of the `peryton._core` module.

mod convert;
mod error;
mod fork;
mod line;
mod load;
mod pack;
mod procedures;
mod rows;
mod server;
mod session;
mod statements;
mod store;

use mimalloc::MiMalloc;
use peryton_core::memory::{AlignedByEight, Counting};
use pyo3::prelude::*;

#[global_allocator]
// SAFETY: mimalloc's blocks lie at multiples of eight.
static ALLOCATOR: Counting<AlignedByEight<MiMalloc>> = Counting(unsafe { AlignedByEight::new(MiMalloc) });

unsafe extern "C" {
    /// mimalloc: frees what this thread holds ready and, with `force`, gives all unused memory back to the system.
    fn mi_collect(force: bool);
}

fn give_back() {
    // SAFETY: mimalloc allows the call in any thread at any time; its one argument is a C `bool`.
    unsafe { mi_collect(true) };
}

/// The compiled core of Peryton; `peryton` is its public face.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    fork::watch();
    peryton_core::memory::on_give_back(give_back);
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<store::Store>()?;
    module.add_class::<session::Session>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<server::Loading>()?;
    module.add_class::<rows::Rows>()?;
    module.add_class::<statements::Statements>()?;
    module.add_class::<procedures::Procedures>()?;
    module.add_class::<procedures::Worker>()?;
    load::register(module)?;
    module.add_function(wrap_pyfunction!(pack::pack, module)?)?;
    let close_all = wrap_pyfunction!(store::close_all, module)?;
    module.add_function(close_all.clone())?;
    module.add_function(wrap_pyfunction!(store::check, module)?)?;
    module.add_function(wrap_pyfunction!(store::restore, module)?)?;
    // Threads of a store must not run on while the interpreter takes itself apart.
    module.py().import("atexit")?.call_method1("register", (close_all,))?;
    Ok(())
}
