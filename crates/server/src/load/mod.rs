//! The load generator of the bench: a pipelining RESP client that costs less than any server it measures, in a closed loop
//! or at a given rate, and a server that does nothing, which shows how far the client itself can go.

mod client;
mod histogram;
mod ledger;
mod paced;
mod plan;
mod report;
mod responder;
mod schedule;
mod skip;
mod timer;
mod usage;

pub use client::{Options, Until, run};
pub use histogram::Histogram;
pub use ledger::{Paced, Phase, Slot};
pub use paced::{Control, Pace};
pub use plan::Plan;
pub use report::{Report, Slow};
pub use responder::Responder;
pub use usage::{Cpu, Machine};
