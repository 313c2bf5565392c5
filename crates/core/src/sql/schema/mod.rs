//! Carries out our statements about tables, indexes, views, triggers and schedules, and shows what there is.

mod alter;
mod bound;
mod create_table;
mod drop;
mod index;
mod schedule;
mod script;
mod show;
mod trigger;
mod view;

pub use drop::free_elsewhere;
pub use schedule::{create_statement as create_schedule_statement, period};
pub use script::{action_words, create_statement, filter_of};
pub use show::{index_columns, key_word, method, rows, show_index_name, text};
pub use trigger::{create_statement as create_trigger_statement, event_words, table_of};

use super::ddl::Ddl;
use super::error::sql;
use super::run::Host;
use super::source;
use crate::error::Result;
use crate::reply::Reply;
use crate::table::catalog::{Catalog, TableDef};
use crate::txn::{TableChanges, Tables};
use std::sync::Arc;

/// Carries out one statement.
pub fn execute(host: &mut dyn Host, statement: &Ddl) -> Result<Reply> {
    if matches!(statement, Ddl::CreateTable(_) | Ddl::CreateIndex(_) | Ddl::Alter(_)) {
        host.make_room()?;
    }
    match statement {
        Ddl::CreateTable(table) => create_table::create(host, table),
        Ddl::CreateIndex(index) => index::create(host, index),
        Ddl::CreateView(view) => view::create(host, view),
        Ddl::DropTable(names) => drop::tables(host, names),
        Ddl::DropIndex(names) => drop::index(host, names),
        Ddl::DropView(names) => view::drop(host, names),
        Ddl::CreateTrigger(trigger) => trigger::create(host, trigger),
        Ddl::DropTrigger(names) => trigger::drop(host, names),
        Ddl::CreateSchedule(schedule) => schedule::create(host, schedule),
        Ddl::DropSchedule(names) => schedule::drop(host, names),
        Ddl::ShowTriggers(of) => trigger::show(host, of.as_deref()),
        Ddl::ShowCreateTrigger(name) => trigger::show_create(host.catalog(), name),
        Ddl::ShowSchedules => Ok(schedule::show(host)),
        Ddl::ShowCreateSchedule(name) => schedule::show_create(host.catalog(), name),
        Ddl::Rename(renames) => drop::rename(host, renames),
        Ddl::Alter(statement) => alter::alter(host, statement),
        Ddl::ShowTables => Ok(show::tables(host)),
        Ddl::ShowViews => Ok(show::views(host)),
        Ddl::Describe(name) => show::describe(host, name),
        Ddl::ShowCreate(name) => show::create(host.catalog(), name),
        Ddl::ShowIndexes(name) => Ok(show::indexes(&*table(host.catalog(), name)?)),
    }
}

fn table(catalog: &Catalog, name: &str) -> Result<Arc<TableDef>> {
    catalog.table(name).cloned().ok_or_else(|| sql(format!("no such table: {name}")))
}

/// Does the name begin like those of SQLite's or of the catalog's own tables?
fn own_prefix(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("sqlite_") || name.starts_with("information_schema")
}

/// Refuses names that are ours or SQLite's.
fn check_name(what: &str, name: &str) -> Result<()> {
    if source::is_own_name(name) || own_prefix(name) {
        return Err(sql(format!("a {what} cannot be called {name}: the name is Peryton's own")));
    }
    Ok(())
}

/// Changes definitions, and perhaps rows, all or none: what `body` did before it failed is taken back.
fn all_or_none<T>(host: &mut dyn Host, body: impl FnOnce(&mut dyn Host) -> Result<T>) -> Result<T> {
    let (tables, changes) = host.write()?;
    let scope = tables.open_definitions(changes)?;
    let result = body(host);
    let (tables, changes): (&mut Tables, &mut TableChanges) = host.written()?;
    match result {
        Ok(_) => tables.keep(changes, scope),
        Err(_) => tables.undo(changes, scope),
    }
    result
}
