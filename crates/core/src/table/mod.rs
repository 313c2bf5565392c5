//! The data of SQL tables: catalog, types, rows, pages, heap, index keys.

pub mod batch;
pub mod catalog;
pub mod datum;
pub(crate) mod decimal;
pub mod heap;
mod json;
pub mod key;
pub mod library;
pub mod page;
pub mod row;
pub mod row_id;
pub mod schedule;
pub(crate) mod time;
pub mod trigger;
pub mod types;
