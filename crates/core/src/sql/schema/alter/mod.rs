//! ALTER TABLE: several changes of one table, all or none.
//!
//! No change touches a row unless it must: a new column is a new version of the rows' form, which tells what older rows
//! read for it; a dropped one is a position that nobody reads any longer; a name is in no row. So these take the same time
//! for any number of rows.

mod add;
mod constraint;
mod dependents;
mod drop;
mod rename;
mod retype;
mod rows;

use super::{all_or_none, bound, drop as tables};
use crate::error::Result;
use crate::reply::Reply;
use crate::sql::ddl::{AlterTable, Change, Rename};
use crate::sql::error::sql;
use crate::sql::run::Host;
use crate::sql::sqlite::world;
use crate::table::catalog::{ColumnDef, TableDef, TableId};
use std::sync::Arc;

/// Carries it out.
pub fn alter(host: &mut dyn Host, statement: &AlterTable) -> Result<Reply> {
    let Some(def) = host.catalog().table(&statement.table).cloned() else {
        return match (host.catalog().view(&statement.table), statement.if_exists) {
            (Some(view), _) => Err(sql(format!("{} is a view: use CREATE OR REPLACE VIEW", view.name))),
            (None, true) => Ok(Reply::Int(0)),
            (None, false) => Err(sql(format!("no such table: {}", statement.table))),
        };
    };
    world::set_now(host.now_us());
    let mut alteration = Alteration { table: def.id, is_version_new: false };
    all_or_none(host, |host| {
        for change in &statement.changes {
            alteration.make(host, change)?;
        }
        Ok(Reply::Int(0))
    })
}

/// Changes of one table that are on their way.
struct Alteration {
    table: TableId,
    /// The last version of the rows' form was begun by the change before this one, and no row has it yet.
    is_version_new: bool,
}

impl Alteration {
    fn make(&mut self, host: &mut dyn Host, change: &Change) -> Result<()> {
        let def = self.def(host)?;
        // Only additions in a row share a version.
        let is_version_new = std::mem::take(&mut self.is_version_new);
        match change {
            Change::AddColumn(column) => self.is_version_new = add::column(host, &def, column, is_version_new)?,
            Change::DropColumn(name, if_exists) => drop::column(host, &def, name, *if_exists)?,
            Change::RenameColumn(Rename { from, to }) => rename::column(host, &def, from, to)?,
            Change::RenameTo(to) => tables::rename_one(host, &def.name, to)?,
            Change::Default(column, text) => add::default(host, &def, column, text.as_deref())?,
            Change::NotNull(column, not_null) => constraint::not_null(host, &def, column, *not_null)?,
            Change::Type(new) => retype::column(host, &def, new)?,
            Change::AddConstraint(part) => constraint::add(host, &def, part)?,
            Change::DropConstraint(which) => constraint::drop(host, &def, which)?,
            Change::Bound(options) => bound::set(host, &def, options)?,
        }
        Ok(())
    }

    fn def(&self, host: &dyn Host) -> Result<Arc<TableDef>> {
        let found = host.catalog().table_by_id(self.table).cloned();
        found.ok_or_else(|| sql("the table is gone"))
    }
}

/// The column of this name and its place, or the error that names it.
fn column<'a>(def: &'a TableDef, name: &str) -> Result<(usize, &'a ColumnDef)> {
    let missing = || sql(format!("table {} has no column named {name}", def.name));
    def.column(name).filter(|(_, column)| !column.hidden).ok_or_else(missing)
}

/// Gives the table its new definition.
fn put(host: &mut dyn Host, def: TableDef) -> Result<Arc<TableDef>> {
    let (tables, changes) = host.write()?;
    tables.alter_table(def, changes)
}
