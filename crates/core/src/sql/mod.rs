//! SQL: our statements about tables, and SQLite as the query processor over our tables.

pub mod ddl;
pub mod error;
pub mod sqlite;
pub mod token;
