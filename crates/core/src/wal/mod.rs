//! The write-ahead log: appends opaque records, numbers them, syncs them in groups, and reads them back.
//!
//! [`Log`] is what the store holds: `append` queues a record and never waits; a thread of the log's own writes and syncs
//! (`writer.rs`). [`read`] gives the records back after a crash. The bytes are drawn in docs/formats/wal.md.

mod findings;
pub mod format;
mod log;
mod queue;
mod reader;
mod repair;
pub mod segment;
mod segment_file;
mod settings;
mod window;
mod writer;

pub use findings::{Cut, Damage, End, ReadError, Start};
pub use log::{Log, LogError};
pub use queue::{Condition, Listener};
pub use reader::{Reader, Visit, read};
pub use repair::{repair, settle};
pub use settings::LogSettings;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod log_tests;
#[cfg(test)]
mod reader_tests;
#[cfg(test)]
mod trouble_tests;

/// The number of a record, given when it is appended; the first is 1.
pub type Lsn = u64;

/// What tells the log of one store from that of another: random bytes, made once.
pub type StoreId = [u8; 16];
