//! The load generator and the responder of the bench, for `peryton.bench`.

use peryton_server::load::{
    Control, Cpu, Histogram, Options, Pace, Paced, Plan, Report, Responder as NativeResponder, Until, run,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::PyDict;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
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

/// Steers a load at a rate from another thread.
#[pyclass(frozen, module = "peryton._core")]
struct LoadControl(Arc<Control>);

#[pymethods]
impl LoadControl {
    #[new]
    fn new() -> Self {
        LoadControl(Arc::default())
    }

    /// From now on requests belong to this phase; a load begins with phase 0.
    fn begin(&self, phase: u32) {
        self.0.begin(phase);
    }

    /// Nothing more is sent; the load ends when all is answered.
    fn stop(&self) {
        self.0.stop();
    }
}

/// Sends commands to a server and measures; runs without the GIL, and Ctrl-C ends it. With a rate, requests go out when
/// they are due, and their times count from then; a control steers it, and then it asks for the GIL at no time.
#[pyfunction]
#[pyo3(signature = (
    host, port, commands, fields=Vec::new(), *, connections=50, pipeline=1, requests=None, seconds=1.0, warmup=0.0,
    setup=Vec::new(), pids=Vec::new(), watch_cpu=false, seed=1, patience=30.0, rate=None, slot=0.0, control=None
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
    rate: Option<f64>,
    slot: f64,
    control: Option<Bound<'_, LoadControl>>,
) -> PyResult<Py<PyDict>> {
    let plan = plan(&fields, &commands).map_err(PyValueError::new_err)?;
    let until = match requests {
        Some(requests) => Until::Requests(requests),
        None => Until::Elapsed { warmup: duration(warmup)?, measured: duration(seconds)? },
    };
    let setup = setup.iter().map(|request| request.iter().map(|arg| arg.bytes().to_vec()).collect()).collect();
    let patience = duration(patience)?;
    let address = resolve(host, port)?;
    let is_steered = control.is_some();
    let control = control.map_or_else(Arc::default, |control| control.get().0.clone());
    let slot = duration(slot)?;
    let pace = rate.map(|rate| Pace { rate, slot, control });
    let options = Options { address, connections, pipeline, until, setup, pids, watch_cpu, seed, patience, pace };
    let mut interrupt = None;
    let mut go_on = || {
        if is_steered {
            return true;
        }
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
    dict.set_item("batch_percentiles_ns", percentiles(&report.batches))?;
    dict.set_item("slowest", slowest)?;
    dict.set_item("hardest", report.hardest.map(|hardest| (hardest.ns, hardest.after_replies)))?;
    dict.set_item("paced", report.paced.as_ref().map(|paced| paced_to_dict(py, paced)).transpose()?)?;
    Ok(dict)
}

fn paced_to_dict<'py>(py: Python<'py>, paced: &Paced) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("sent", paced.sent)?;
    dict.set_item("late_percentiles_ns", percentiles(&paced.late))?;
    let phases = paced.phases.iter().map(|phase| {
        let dict = PyDict::new(py);
        dict.set_item("number", phase.number)?;
        dict.set_item("from_ns", phase.from_ns)?;
        dict.set_item("until_ns", phase.until_ns)?;
        dict.set_item("asked", phase.asked)?;
        dict.set_item("answered", phase.answered)?;
        dict.set_item("percentiles_ns", percentiles(&phase.latency))?;
        Ok(dict)
    });
    dict.set_item("phases", phases.collect::<PyResult<Vec<_>>>()?)?;
    dict.set_item("slots", paced.slots.iter().map(|slot| (slot.answered, slot.max_ns)).collect::<Vec<_>>())?;
    Ok(dict)
}

fn percentiles(times: &Histogram) -> Vec<(f64, u64)> {
    [50.0, 90.0, 99.0, 99.9, 99.99, 100.0].map(|percent| (percent, times.percentile_ns(percent))).to_vec()
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
    module.add_class::<LoadControl>()?;
    module.add_class::<Responder>()
}
