//! Changes done again from the log, and taken back.

use super::{Before, TableChange, Tables};
use crate::engine::RowOp;
use crate::error::{Code, Error, Result};
use crate::table::catalog::{TableDef, TableId};
use crate::table::row_id::RowId;

impl Tables {
    /// Does again what [`raise_sequence`](Self::raise_sequence) did.
    pub fn redo_raise(&mut self, table: TableId, to: i64) -> Result<()> {
        self.engine.raise_sequence(table, to)
    }

    /// Does a change again, by its redo record.
    pub fn redo_row(&mut self, table: TableId, op: &RowOp) -> Result<()> {
        self.engine.apply(table, op).map(|_| ())
    }

    /// Empties a table again, by its redo record.
    pub fn redo_truncate(&mut self, table: TableId) -> Result<()> {
        self.engine.truncate_table(table).map(drop)
    }

    /// Puts rows under their ids into a table that has no indexes yet: loading a checkpoint.
    pub fn load_rows(&mut self, table: TableId, rows: &[(RowId, &[u8])]) -> Result<()> {
        self.engine.load(table, rows)
    }

    /// Takes one change back.
    pub fn undo_change(&mut self, change: TableChange) -> Result<()> {
        match change {
            TableChange::Row { table, undo: Some(undo), .. } => self.engine.apply(table, &undo).map(|_| ()),
            TableChange::Definition { before: Some(before), table, .. } => {
                let Before { def, kept } = *before;
                match (kept, &def) {
                    (Some(kept), Some(def)) => {
                        let def = self.catalog.put_table(TableDef::clone(def))?;
                        self.engine.restore(kept, &def)
                    }
                    _ => self.restore_definition(table, def.as_deref()),
                }
            }
            TableChange::Raised { table, before, .. } => self.engine.restore_sequence(table, before),
            TableChange::View { name, before, .. } => self.restore_view(&name, before.as_deref()),
            TableChange::Library { name, before, .. } => self.restore_library(&name, before),
            TableChange::Trigger { name, before, .. } => {
                self.restore_trigger(&name, before);
                Ok(())
            }
            TableChange::Schedule { name, before, .. } => {
                self.restore_schedule(&name, before);
                Ok(())
            }
            TableChange::Truncated { table, kept: Some(kept) } => match self.catalog.table_by_id(table).cloned() {
                Some(def) => self.engine.restore(kept, &def),
                None => Err(Error::new(Code::Bug, "tables.rs: a table that was emptied is gone")),
            },
            TableChange::Sequence { table, before } => self.engine.restore_sequence(table, before),
            TableChange::Row { .. } | TableChange::Definition { .. } | TableChange::Truncated { .. } => Ok(()),
        }
    }
}
