//! Peryton's engine: a Redis-compatible keyspace and SQL tables under one baton, without sockets and without Python.
//!
//! The modules are listed from the bottom up; each may use those above it in this list, never those below
//! (`tests/test_layers.py` enforces it). `docs/architecture.md` has the reading order.

pub mod error;
pub mod limits;

pub mod directory;
pub mod ds;
pub mod env;
pub mod memory;
pub mod meter;
pub mod reply;

pub mod value;

pub mod table;

pub mod index;

pub mod engine;

pub mod keyspace;

pub mod wal;

pub mod txn;

pub mod recovery;

pub mod sql;

pub mod pubsub;
pub mod session;

pub mod procedure;

pub mod config;
pub mod journal;
pub mod readers;
pub mod slowlog;
pub mod state;

pub mod command;

pub mod store;
