//! Triggers and schedules that are made and dropped, and as the log and undo bring them back.

use super::{TableChanges, Tables};
use crate::error::{Code, Error, Result};
use crate::table::catalog::TableId;
use crate::table::schedule::ScheduleDef;
use crate::table::trigger::TriggerDef;
use std::sync::Arc;

impl Tables {
    /// Makes a trigger, whose name is free.
    pub fn create_trigger(&mut self, trigger: TriggerDef, changes: &mut TableChanges) -> Result<()> {
        self.refuse_if_busy()?;
        let trigger = Arc::new(trigger);
        let before = self.catalog.put_trigger(trigger.clone());
        changes.note_trigger(&trigger.name.clone(), Some(trigger), before);
        Ok(())
    }

    /// Drops a trigger.
    pub fn drop_trigger(&mut self, name: &str, changes: &mut TableChanges) -> Result<()> {
        self.refuse_if_busy()?;
        let missing = || Error::new(Code::Sql, format!("no such trigger: {name}"));
        let before = self.catalog.remove_trigger(name).ok_or_else(missing)?;
        changes.note_trigger(&before.name.clone(), None, Some(before));
        Ok(())
    }

    /// Drops the triggers of a table that goes.
    pub(super) fn drop_triggers_of(&mut self, table: TableId, changes: &mut TableChanges) {
        if !self.catalog.triggers().has_rows() {
            return;
        }
        for trigger in self.catalog.triggers().of_table(table) {
            self.catalog.remove_trigger(&trigger.name);
            changes.note_trigger(&trigger.name.clone(), None, Some(trigger));
        }
    }

    /// Makes a trigger be what it was or is to be: for recovery, and to take changes back.
    pub fn restore_trigger(&mut self, name: &str, trigger: Option<Arc<TriggerDef>>) {
        match trigger {
            Some(trigger) => drop(self.catalog.put_trigger(trigger)),
            None => drop(self.catalog.remove_trigger(name)),
        }
    }

    /// Makes a schedule, whose name is free.
    pub fn create_schedule(&mut self, schedule: ScheduleDef, changes: &mut TableChanges) -> Result<()> {
        self.refuse_if_busy()?;
        let schedule = Arc::new(schedule);
        let before = self.catalog.schedules.put(schedule.clone());
        changes.note_schedule(&schedule.name.clone(), Some(schedule), before);
        Ok(())
    }

    /// Drops a schedule.
    pub fn drop_schedule(&mut self, name: &str, changes: &mut TableChanges) -> Result<()> {
        self.refuse_if_busy()?;
        let missing = || Error::new(Code::Sql, format!("no such schedule: {name}"));
        let before = self.catalog.schedules.remove(name).ok_or_else(missing)?;
        changes.note_schedule(&before.name.clone(), None, Some(before));
        Ok(())
    }

    /// Makes a schedule be what it was or is to be: for recovery, and to take changes back.
    pub fn restore_schedule(&mut self, name: &str, schedule: Option<Arc<ScheduleDef>>) {
        match schedule {
            Some(schedule) => drop(self.catalog.schedules.put(schedule)),
            None => drop(self.catalog.schedules.remove(name)),
        }
    }
}
