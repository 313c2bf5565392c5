//! SQL: our statements about tables, and SQLite as the query processor over our tables.

pub mod ddl;
pub mod error;
pub mod run;
pub mod sqlite;
pub mod table_info;
pub mod token;
pub mod vtab;
pub mod write;
