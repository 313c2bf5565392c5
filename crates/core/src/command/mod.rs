//! Commands: one file per family, each thin: parse arguments, call one layer below, shape a reply.

pub mod arguments;
pub mod context;
pub mod deliver;
pub mod dispatch;
pub mod spec;
pub mod table;
pub mod waiting;

pub(crate) mod connection;
mod pubsub;
mod script;
mod server;
mod string;
mod transaction;

pub use context::{Context, Origin};
pub use spec::{Flags, Group, Keys, Spec};
