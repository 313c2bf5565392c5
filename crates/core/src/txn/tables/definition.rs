//! Tables and views that are made, altered and dropped, and definitions as the log and undo bring them back.

use super::{TableChange, TableChanges, Tables};
use crate::engine::Kept;
use crate::error::{Code, Error, Result};
use crate::keyspace::Wants;
use crate::table::catalog::{IndexId, TableDef, TableId, ViewDef};
use std::sync::Arc;

impl Tables {
    /// Makes a table; its definition comes back with the ids given to it.
    pub fn create_table(&mut self, mut def: TableDef, changes: &mut TableChanges) -> Result<Arc<TableDef>> {
        self.refuse_if_busy()?;
        def.id = self.catalog.next_table_id();
        for index in &mut def.indexes {
            index.id = self.catalog.next_index_id();
        }
        let def = self.add_table(def)?;
        changes.note_definition(def.id, Some(&def), None, None);
        Ok(def)
    }

    pub(super) fn add_table(&mut self, def: TableDef) -> Result<Arc<TableDef>> {
        let def = self.catalog.put_table(def)?;
        if let Err(error) = self.engine.create_table(&def) {
            self.catalog.remove_table(&def.name);
            return Err(error);
        }
        Ok(def)
    }

    /// Drops a table. What it held comes back, to be freed where nobody waits for it.
    pub fn drop_table(&mut self, name: &str, changes: &mut TableChanges) -> Result<Option<Kept>> {
        self.refuse_if_busy()?;
        let def = self.table(name)?.clone();
        let kept = self.engine.drop_table(def.id)?;
        self.drop_triggers_of(def.id, changes);
        self.catalog.remove_table(name);
        Ok(changes.note_definition(def.id, None, Some(def), Some(kept)))
    }

    /// Empties a table at once; its sequence goes on. What it held comes back, as for a table that is dropped.
    pub fn truncate_table(&mut self, table: TableId, changes: &mut TableChanges) -> Result<Option<Kept>> {
        self.refuse_if_busy()?;
        let kept = self.engine.truncate_table(table)?;
        changes.dirty += 1;
        if changes.wants.is_empty() {
            return Ok(Some(kept));
        }
        let (noted, freed) = if changes.wants.contains(Wants::UNDO) { (Some(kept), None) } else { (None, Some(kept)) };
        changes.list.push(TableChange::Truncated { table, kept: noted });
        Ok(freed)
    }

    /// Gives a table a changed definition with the same indexes: other columns, another name.
    pub fn alter_table(&mut self, def: TableDef, changes: &mut TableChanges) -> Result<Arc<TableDef>> {
        self.refuse_if_busy()?;
        let missing = || Error::new(Code::Bug, format!("tables.rs: no table {} to alter", def.name));
        let before = self.catalog.table_by_id(def.id).cloned().ok_or_else(missing)?;
        let def = self.put_altered(&before, def)?;
        changes.note_definition(def.id, Some(&def), Some(before), None);
        Ok(def)
    }

    pub(super) fn put_altered(&mut self, before: &Arc<TableDef>, def: TableDef) -> Result<Arc<TableDef>> {
        let def = self.catalog.put_table(def)?;
        if let Err(error) = self.engine.alter_table(&def) {
            self.catalog.put_table(TableDef::clone(before))?;
            return Err(error);
        }
        Ok(def)
    }

    /// Makes a view, or replaces the one of the same name.
    pub fn put_view(&mut self, view: ViewDef, changes: &mut TableChanges) -> Result<()> {
        self.refuse_if_busy()?;
        let (name, before) = (view.name.clone(), self.catalog.view(&view.name).cloned());
        self.catalog.put_view(view)?;
        let now = self.catalog.view(&name).cloned();
        changes.note_view(name, now, before);
        Ok(())
    }

    /// Drops a view.
    pub fn drop_view(&mut self, name: &str, changes: &mut TableChanges) -> Result<()> {
        self.refuse_if_busy()?;
        let missing = || Error::new(Code::Sql, format!("no such view: {name}"));
        let before = self.catalog.remove_view(name).ok_or_else(missing)?;
        changes.note_view(before.name.clone(), None, Some(before));
        Ok(())
    }

    /// Makes a view be what it was or is to be: for recovery, and to take changes back.
    pub fn restore_view(&mut self, name: &str, view: Option<&ViewDef>) -> Result<()> {
        match view {
            Some(view) => self.catalog.put_view(view.clone()),
            None => {
                self.catalog.remove_view(name);
                Ok(())
            }
        }
    }

    /// Makes a table be what a definition says, whatever it is now: for recovery, and to take changes back.
    pub fn restore_definition(&mut self, table: TableId, def: Option<&TableDef>) -> Result<()> {
        let now = self.catalog.table_by_id(table).cloned();
        match (now, def) {
            (None, None) => Ok(()),
            (Some(now), None) => {
                self.engine.drop_table(table)?;
                self.catalog.remove_table(&now.name);
                Ok(())
            }
            (None, Some(def)) => self.add_table(def.clone()).map(|_| ()),
            (Some(now), Some(def)) => self.alter(now, def),
        }
    }

    pub(super) fn alter(&mut self, mut now: Arc<TableDef>, def: &TableDef) -> Result<()> {
        let gone: Vec<IndexId> = now.indexes.iter().map(|i| i.id).filter(|id| def.index(*id).is_none()).collect();
        for index in gone {
            now = self.remove_index(&now, index)?.0;
        }
        // Columns come before the indexes on them.
        let mut columns = def.clone();
        columns.indexes = now.indexes.clone();
        if *now != columns {
            now = self.put_altered(&now, columns)?;
        }
        for index in &def.indexes {
            if now.index(index.id).is_none() {
                now = self.add_index(&now, index)?;
            }
        }
        if *now != *def {
            let def = self.catalog.put_table(def.clone())?;
            self.engine.alter_table(&def)?;
        }
        Ok(())
    }
}
