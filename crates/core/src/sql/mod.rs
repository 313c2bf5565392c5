//! SQL: our statements about tables, and SQLite as the query processor over our tables.

pub mod cache;
pub mod call;
mod catalog_tables;
pub mod constraint;
pub mod control;
pub mod ddl;
pub mod direct;
pub mod dml;
pub mod error;
pub mod executor;
mod explain;
pub mod fast;
pub mod many;
mod origin;
pub mod packed;
pub mod records;
pub mod report;
mod rewrite;
mod routines;
pub mod run;
pub mod schema;
pub mod source;
pub mod sqlite;
pub mod statement;
pub mod table_info;
pub mod token;
pub mod trigger;
pub mod vtab;
pub mod write;

#[cfg(test)]
mod tests;

pub use executor::Sql;
pub use fast::Ahead;
pub use report::{execute, execute_many};
pub use run::{Fired, Firing, Host, Portion, Runs, ScheduleRuns, Shape};
