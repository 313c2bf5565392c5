//! Commands: one file per family, each thin: parse arguments, call one layer below, shape a reply.

pub mod arguments;
pub mod context;
pub mod deliver;
pub mod dispatch;
pub mod key_spec;
pub mod room;
pub mod spec;
pub mod table;
pub mod waiting;

mod atomic;
mod bitmap;
pub(crate) mod call;
mod client;
mod cluster;
mod commands;
mod config;
mod debug;
mod expire;
mod expiry;
pub(crate) mod function;
mod function_change;
mod hash;
mod info;
mod key;
mod list;
mod usage;
mod zset;
mod zset_algebra;
mod zset_range;

pub(crate) mod connection;
mod pubsub;
mod records;
mod routine;
mod save;
pub(crate) mod schedule;
mod script;
mod script_host;
mod server;
mod set;
mod sort;
pub(crate) mod sql;
mod sql_keys;
mod string;
pub(crate) mod transact;
mod transaction;
pub(crate) mod trigger;

pub use context::{Context, Origin};
pub use spec::{Flags, Group, Keys, Spec};
pub use sql::is_statement;
