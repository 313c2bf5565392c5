//! The load generator and the responder of the bench, for `peryton.bench`.

use peryton_server::load::{Cpu, Options, Plan, Report, Responder as NativeResponder, Until, run};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::PyDict;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// An argument of a command.
#[derive(FromPyObject)]
enum Argument {
    Bytes(PyBackedBytes),
    Text(PyBackedStr),
}

impl Argument {
    fn bytes(&self) -> &[u8] {
        match self {
            Argument::Bytes(bytes) => bytes,
            Argument::Text(text) => text.as_bytes(),
        }
    }
}

/// Sends commands to a server and measures; runs without the GIL, and Ctrl-C ends it.
#[pyfunction]
#[pyo3(signature = (
    host, port, commands, fields=Vec::new(), *, connections=50, pipeline=1, requests=None, seconds=1.0, warmup=0.0,
    setup=Vec::new(), pids=Vec::new(), watch_cpu=false, seed=1, patience=30.0
))]
#[allow(clippy::too_many_arguments)] // they are keywords
fn load(
    py: Python<'_>,
    host: &str,
    port: u16,
    commands: Vec<(u64, Vec<Argument>)>,
    fields: Vec<String>,
    connections: usize,
    pipeline: usize,
    requests: Option<u64>,
    seconds: f64,
    warmup: f64,
    setup: Vec<Vec<Argument>>,
    pids: Vec<u32>,
    watch_cpu: bool,
    seed: u64,
    patience: f64,
) -> PyResult<Py<PyDict>> {
    let plan = plan(&fields, &commands).map_err(PyValueError::new_err)?;
    let until = match requests {
        Some(requests) => Until::Requests(requests),
        None => Until::Elapsed { warmup: duration(warmup)?, measured: duration(seconds)? },
    };
    let setup = setup.iter().map(|request| request.iter().map(|arg| arg.bytes().to_vec()).collect()).collect();
    let patience = duration(patience)?;
    let address = resolve(host, port)?;
    let options = Options { address, connections, pipeline, until, setup, pids, watch_cpu, seed, patience };
    let mut interrupt = None;
    let mut go_on = || {
        interrupt = Python::attach(|py| py.check_signals()).err();
        interrupt.is_none()
    };
    let report = py.detach(|| run(plan, &options, &mut go_on));
    if let Some(error) = interrupt {
        return Err(error);
    }
    Ok(to_dict(py, &report?)?.unbind())
}

fn plan(fields: &[String], commands: &[(u64, Vec<Argument>)]) -> Result<Plan, String> {
    let mut plan = Plan::default();
    fields.iter().try_for_each(|field| plan.field(field))?;
    for (weight, args) in commands {
        plan.command(*weight, &args.iter().map(Argument::bytes).collect::<Vec<_>>())?;
    }
    Ok(plan)
}

fn duration(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(format!("{seconds} s: {error}")))
}

fn resolve(host: &str, port: u16) -> PyResult<SocketAddr> {
    let address = (host, port).to_socket_addrs()?.next();
    address.ok_or_else(|| PyValueError::new_err(format!("{host} has no address")))
}

fn to_dict<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    let cpu = |cpu: Cpu| (cpu.user_s, cpu.total_s);
    let percentiles = [50.0, 90.0, 99.0, 99.9, 99.99, 100.0].map(|p| (p, report.batches.percentile_ns(p)));
    let slowest: Vec<(u64, u64)> = report.slowest.iter().map(|slow| (slow.ns, slow.after_replies)).collect();
    let dict = PyDict::new(py);
    dict.set_item("requests", report.requests)?;
    dict.set_item("errors", report.errors)?;
    dict.set_item("nils", report.nils)?;
    dict.set_item("first_error", &report.first_error)?;
    dict.set_item("seconds", report.seconds)?;
    dict.set_item("client_cpu_s", cpu(report.client))?;
    dict.set_item("server_cpu_s", cpu(report.servers))?;
    dict.set_item("others_cpu_s", report.others_s())?;
    dict.set_item("stolen_cpu_s", report.machine.stolen_s)?;
    dict.set_item("batches", report.batches.count())?;
    dict.set_item("batch_mean_ns", report.batches.mean_ns())?;
    dict.set_item("batch_percentiles_ns", percentiles.to_vec())?;
    dict.set_item("slowest", slowest)?;
    dict.set_item("hardest", report.hardest.map(|hardest| (hardest.ns, hardest.after_replies)))?;
    Ok(dict)
}

/// A server that answers every request with the same bytes, on a thread of its own.
#[pyclass(frozen, module = "peryton._core")]
struct Responder(std::sync::Mutex<NativeResponder>);

#[pymethods]
impl Responder {
    #[new]
    #[pyo3(signature = (host="127.0.0.1", port=0, *, reply))]
    fn new(host: &str, port: u16, reply: Argument) -> PyResult<Self> {
        Ok(Responder(std::sync::Mutex::new(NativeResponder::start(resolve(host, port)?, reply.bytes())?)))
    }

    /// Its TCP port.
    #[getter]
    fn port(&self) -> u16 {
        self.inner().address().port()
    }

    /// Requests answered so far.
    #[getter]
    fn requests(&self) -> u64 {
        self.inner().requests()
    }

    /// Closes its connections and stops; once is enough.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.inner().stop());
    }
}

impl Responder {
    fn inner(&self) -> std::sync::MutexGuard<'_, NativeResponder> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Adds what the bench uses to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(load, module)?)?;
    module.add_class::<Responder>()
}
