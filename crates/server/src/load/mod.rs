//! The load generator of the bench: a pipelining RESP client that costs less than any server it measures, and a server
//! that does nothing, which shows how far the client itself can go.

mod client;
mod histogram;
mod plan;
mod report;
mod responder;
mod skip;
mod usage;

pub use client::{Options, Until, run};
pub use histogram::Histogram;
pub use plan::Plan;
pub use report::{Report, Slow};
pub use responder::Responder;
pub use usage::{Cpu, Machine};
