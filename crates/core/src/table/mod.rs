//! The data of SQL tables: catalog, types, rows, pages, heap, index keys.

pub mod catalog;
pub mod datum;
mod decimal;
mod json;
pub mod row;
mod time;
pub mod types;
