//! SQLite as Peryton uses it: a query processor without files, on our allocator and our clock.

pub mod connection;
pub mod decimal_sum;
pub mod functions;
pub mod memory;
pub mod prepared;
mod regexp;
pub mod value;
pub mod world;

pub use connection::Connection;
pub use prepared::{Prepared, Step};
