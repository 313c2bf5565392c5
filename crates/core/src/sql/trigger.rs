//! Triggers of rows: which ones a write fires, what their routines are given, and what becomes of the new row.
//!
//! The routine is the host's affair (`Host::fire`). It may run statements of its own, on this table, too: so what was read
//! before a BEFORE trigger is read again after it, and nothing is kept in hand across a call but copies.

use super::run::{Firing, Outcome, Run};
use super::table_info::TableInfo;
use super::write::Set;
use crate::error::{Code, Error};
use crate::table::catalog::{Catalog, TableId};
use crate::table::datum::{Datum, DatumRef};
use crate::table::row::Row;
use crate::table::trigger::{RowEvent, Timing, TriggerDef};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// The triggers of a table.
pub struct RowTriggers {
    /// In the order in which they were made.
    all: Vec<Arc<TriggerDef>>,
}

/// The values of a row in the order of the table's columns.
pub type Image = Vec<Datum>;

type Values<'a> = SmallVec<[DatumRef<'a>; 16]>;

impl RowTriggers {
    /// The triggers of all tables that have any.
    pub fn resolve(catalog: &Catalog) -> HashMap<TableId, RowTriggers> {
        if !catalog.triggers().has_rows() {
            return HashMap::new();
        }
        let of = |id: TableId| Some((id, RowTriggers { all: catalog.triggers().of_table(id) }));
        let found = catalog.tables().filter_map(|def| of(def.id));
        found.filter(|(_, triggers)| !triggers.all.is_empty()).collect()
    }

    /// Does a write call any of them?
    pub fn are_fired(&self, timing: Timing, event: RowEvent) -> bool {
        self.fired(timing, event).next().is_some()
    }

    fn fired(&self, timing: Timing, event: RowEvent) -> impl Iterator<Item = &Arc<TriggerDef>> {
        let fits = move |trigger: &&Arc<TriggerDef>| {
            trigger.rows().is_some_and(|rows| rows.timing == timing && rows.event == event)
        };
        self.all.iter().filter(fits)
    }
}

/// One write of a row, as its triggers see it.
struct Written<'a> {
    info: &'a TableInfo,
    timing: Timing,
    event: RowEvent,
    /// The columns that an UPDATE sets, by place.
    set: &'a [usize],
    old: Option<Image>,
    new: Option<Image>,
}

impl Written<'_> {
    /// Calls the triggers, one after another; each gets the row that the one before has left.
    fn fire(&mut self, run: &mut Run<'_>) -> Outcome<()> {
        let Some(triggers) = &self.info.triggers else { return Ok(()) };
        for trigger in triggers.fired(self.timing, self.event) {
            if self.is_meant(trigger) && self.holds(run, trigger)? {
                self.fire_one(run, trigger)?;
            }
        }
        Ok(())
    }

    fn is_meant(&self, trigger: &TriggerDef) -> bool {
        let position = |place: &usize| self.info.def.columns[*place].position;
        let columns = trigger.rows().map_or(&[][..], |rows| &rows.columns);
        columns.is_empty() || self.set.iter().any(|place| columns.contains(&position(place)))
    }

    fn holds(&self, run: &mut Run<'_>, trigger: &TriggerDef) -> Outcome<bool> {
        if trigger.rows().is_none_or(|rows| rows.condition.is_none()) {
            return Ok(true);
        }
        let now_us = run.host.now_us();
        super::sqlite::world::set_now(now_us);
        let (old, new) = (self.old.as_ref().map(|old| self.stored(old)), self.new.as_ref().map(|new| self.stored(new)));
        let evaluator = run.host.sql().evaluator_of_rows();
        let answer = evaluator.holds(&self.info.def, trigger, old.as_deref(), new.as_deref());
        Ok(answer.map_err(|error| about(trigger, error))?)
    }

    /// The values at their positions in rows.
    fn stored<'a>(&self, image: &'a Image) -> Values<'a> {
        let mut values: Values<'a> = SmallVec::from_elem(DatumRef::Null, self.info.layout.positions());
        for (column, value) in self.info.def.columns.iter().zip(image) {
            values[usize::from(column.position)] = value.as_ref();
        }
        values
    }

    /// The values of the columns that are shown.
    fn shown<'a>(&self, image: &'a Image) -> Values<'a> {
        let columns = self.info.def.columns.iter().zip(image);
        columns.filter(|(column, _)| !column.hidden).map(|(_, value)| value.as_ref()).collect()
    }

    fn fire_one(&mut self, run: &mut Run<'_>, trigger: &Arc<TriggerDef>) -> Outcome<()> {
        let fired = {
            let (old, new) = (self.old.as_ref(), self.new.as_ref());
            let (old, new) = (old.map(|old| self.shown(old)), new.map(|new| self.shown(new)));
            let (old, new) = (old.as_deref(), new.as_deref());
            run.host.fire(&Firing { trigger, table: &self.info.def, old, new })?
        };
        if fired.refused {
            return Err(about(trigger, Error::new(Code::Constraint, "the row was refused")).into());
        }
        if self.timing == Timing::Before
            && let (Some(new), Some(left)) = (&mut self.new, fired.new)
        {
            let shown = self.info.def.columns.iter().zip(new).filter(|(column, _)| !column.hidden);
            for ((column, value), left) in shown.zip(left).filter(|((_, value), left)| !is_same(value, left)) {
                if column.generated.is_some() {
                    let text = format!("it cannot set generated column {}", column.name);
                    return Err(about(trigger, Error::new(Code::Sql, text)).into());
                }
                *value = left;
            }
        }
        Ok(())
    }
}

/// An error that a trigger made, with its name.
fn about(trigger: &TriggerDef, error: Error) -> Error {
    Error::new(error.code, format!("trigger {}: {}", trigger.name, error.message))
}

/// Is that what a routine gives back of a value that it leaves alone? It knows one kind of numbers.
fn is_same(value: &Datum, left: &Datum) -> bool {
    match (value, left) {
        (Datum::Real(real), Datum::Int(integer)) => *real == *integer as f64,
        (value, left) => value == left,
    }
}

fn image_of(info: &TableInfo, row: Row<'_>) -> Image {
    info.def.columns.iter().map(|column| row.get(column.position).to_owned()).collect()
}

/// Calls the BEFORE triggers of a row that is to be inserted, and gives what it is to be then.
pub fn before_insert(run: &mut Run<'_>, info: &TableInfo, new: Image) -> Outcome<Image> {
    let (timing, event) = (Timing::Before, RowEvent::Insert);
    let mut written = Written { info, timing, event, set: &[], old: None, new: Some(new) };
    written.fire(run)?;
    Ok(written.new.unwrap_or_default())
}

/// Calls the AFTER triggers of a row that was inserted.
pub fn after_insert(run: &mut Run<'_>, info: &TableInfo, row: Row<'_>) -> Outcome<()> {
    if !is_fired(info, Timing::After, RowEvent::Insert) {
        return Ok(());
    }
    let new = Some(image_of(info, row));
    Written { info, timing: Timing::After, event: RowEvent::Insert, set: &[], old: None, new }.fire(run)
}

/// Calls the BEFORE triggers of a row that is to be updated: gives all columns that are to get other values than `old`
/// has, with the values, and those that the statement sets.
pub fn before_update(
    run: &mut Run<'_>,
    info: &TableInfo,
    old: Row<'_>,
    sets: &[Set<'_>],
) -> Outcome<Vec<(usize, Datum)>> {
    let old = image_of(info, old);
    let mut new = old.clone();
    for (place, value) in sets {
        new[*place] = super::write::as_column(info, *place, *value);
    }
    let set: Vec<usize> = sets.iter().map(|(place, _)| *place).collect();
    let (timing, event) = (Timing::Before, RowEvent::Update);
    let mut written = Written { info, timing, event, set: &set, old: Some(old), new: Some(new) };
    written.fire(run)?;
    let (old, new) = (written.old.unwrap_or_default(), written.new.unwrap_or_default());
    let places = new.into_iter().enumerate().zip(&old);
    let differs =
        |((place, new), old): ((usize, Datum), &Datum)| (new != *old || set.contains(&place)).then_some((place, new));
    Ok(places.filter_map(differs).collect())
}

/// Calls the AFTER triggers of a row that was updated, in columns given by place.
pub fn after_update(run: &mut Run<'_>, info: &TableInfo, set: &[usize], old: Row<'_>, new: Row<'_>) -> Outcome<()> {
    if !is_fired(info, Timing::After, RowEvent::Update) {
        return Ok(());
    }
    let (old, new) = (Some(image_of(info, old)), Some(image_of(info, new)));
    Written { info, timing: Timing::After, event: RowEvent::Update, set, old, new }.fire(run)
}

/// Calls the triggers of a row that is to be deleted, or was.
pub fn delete(run: &mut Run<'_>, info: &TableInfo, timing: Timing, old: Row<'_>) -> Outcome<()> {
    if !is_fired(info, timing, RowEvent::Delete) {
        return Ok(());
    }
    let old = Some(image_of(info, old));
    Written { info, timing, event: RowEvent::Delete, set: &[], old, new: None }.fire(run)
}

/// Does a write of a row of the table call triggers?
#[inline]
pub fn is_fired(info: &TableInfo, timing: Timing, event: RowEvent) -> bool {
    info.triggers.as_ref().is_some_and(|triggers| triggers.are_fired(timing, event))
}
