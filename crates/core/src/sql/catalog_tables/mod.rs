//! `information_schema`: what there is, as tables that queries read and join.
//!
//! SQLite knows each as a module whose name has the dot in it; `statement::with_sources_quoted` writes it so. Rows are
//! made when a query begins to read, and are those of that instant.

mod module;
mod rows;

use super::run::{Current, Host, Outcome};
use super::sqlite::Connection;
use crate::error::Result;
use crate::table::datum::Datum;
use std::sync::Arc;

/// Takes the values of one row.
type Each<'a> = &'a mut dyn FnMut(&[Datum]);

/// One of the tables.
struct CatalogTable {
    /// Its name after `information_schema.`
    name: &'static str,
    /// Its columns as SQLite is told.
    columns: &'static str,
    /// Makes its rows.
    fill: fn(&mut dyn Host, Each<'_>) -> Outcome<()>,
}

/// The schema's name.
pub const SCHEMA: &str = "information_schema";

const TABLES: [CatalogTable; 10] = [
    CatalogTable {
        name: "tables",
        columns: "table_name TEXT, table_type TEXT, engine TEXT, table_rows INTEGER, data_length INTEGER, \
                  index_length INTEGER, create_statement TEXT",
        fill: rows::tables,
    },
    CatalogTable {
        name: "columns",
        columns: "table_name TEXT, column_name TEXT, ordinal_position INTEGER, column_default TEXT, is_nullable TEXT, \
                  data_type TEXT, collation_name TEXT, column_key TEXT, extra TEXT, generation_expression TEXT",
        fill: rows::columns,
    },
    CatalogTable {
        name: "indexes",
        columns: "table_name TEXT, index_name TEXT, is_unique INTEGER, method TEXT, columns TEXT, condition TEXT, \
                  entries INTEGER, distinct_keys INTEGER, bytes INTEGER",
        fill: rows::indexes,
    },
    CatalogTable { name: "views", columns: "table_name TEXT, create_statement TEXT", fill: rows::views },
    CatalogTable {
        name: "foreign_keys",
        columns: "table_name TEXT, constraint_name TEXT, columns TEXT, referenced_table TEXT, referenced_columns TEXT, \
                  on_delete TEXT, on_update TEXT",
        fill: rows::foreign_keys,
    },
    CatalogTable {
        name: "check_constraints",
        columns: "table_name TEXT, constraint_name TEXT, check_clause TEXT",
        fill: rows::checks,
    },
    CatalogTable {
        name: "triggers",
        columns: "trigger_name TEXT, event_object_table TEXT, key_pattern TEXT, action_timing TEXT, \
                  event_manipulation TEXT, action_condition TEXT, action_order INTEGER, routine_name TEXT, \
                  calls INTEGER, failures INTEGER, last_error TEXT, create_statement TEXT",
        fill: rows::triggers,
    },
    CatalogTable {
        name: "schedules",
        columns: "schedule_name TEXT, interval_ms INTEGER, routine_name TEXT, next_run TEXT, last_run TEXT, \
                  runs INTEGER, failures INTEGER, last_error TEXT, create_statement TEXT",
        fill: rows::schedules,
    },
    CatalogTable {
        name: "routines",
        columns: "routine_name TEXT, routine_schema TEXT, external_language TEXT, flags TEXT, calls INTEGER, \
                  failures INTEGER, timed INTEGER, total_us INTEGER, max_us INTEGER, p99_us INTEGER",
        fill: rows::routines,
    },
    CatalogTable {
        name: "statements",
        columns: "statement TEXT, calls INTEGER, total_ms REAL, rows INTEGER, path TEXT",
        fill: rows::statements,
    },
];

/// Makes the tables known to a connection.
pub fn register(connection: &Connection, current: &Arc<Current>) -> Result<()> {
    TABLES.iter().try_for_each(|table| module::register(connection, table, current))
}
