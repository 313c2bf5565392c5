//! The write path: what a row goes through between a statement and the engine, whoever runs the statement.
//!
//! Defaults and numbers from the sequence fill the gaps, types and NOT NULL are checked, the row is encoded, and the
//! engine judges uniqueness. SQLite enforces none of this on virtual tables.

use super::constraint::{self, foreign_key};
use super::dml::returning::Returned;
use super::dml::upsert;
use super::run::{Failure, Outcome, Run};
use super::table_info::{Default, TableInfo};
use super::trigger;
use crate::engine::{WriteError, WriteFailure};
use crate::error::{Code, Error};
use crate::table::batch::Batch;
use crate::table::catalog::{IndexDef, IndexId};
use crate::table::datum::{Datum, DatumRef};
use crate::table::key::{KeyBuf, KeyOf, row_key};
use crate::table::row::Row;
use crate::table::row_id::RowId;
use crate::table::trigger::{RowEvent, Timing};
use crate::table::types::{self, Fitted};
use smallvec::SmallVec;

/// What to do with a row that a constraint forbids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Fail, and the statement with it.
    #[default]
    Abort,
    /// Leave the row out.
    Ignore,
    /// Remove the rows in the way.
    Replace,
    /// Judge uniqueness when all rows of the statement are written; see [`finish`].
    Defer,
}

/// A value of a row to be written.
#[derive(Clone, Copy, Debug)]
pub enum Given<'a> {
    /// This value.
    Value(DatumRef<'a>),
    /// The statement says nothing of the column: its default, or what it has.
    Nothing,
}

impl<'a> Given<'a> {
    /// The value, if there is one.
    pub fn value(&self) -> Option<DatumRef<'a>> {
        match self {
            Given::Value(value) => Some(*value),
            Given::Nothing => None,
        }
    }
}

/// A column's place in the table, and its new value.
pub type Set<'a> = (usize, DatumRef<'a>);

/// Evaluates a default that is no literal.
pub type Evaluate<'a> = &'a mut dyn FnMut(&str) -> Outcome<Datum>;

type Values<'a> = SmallVec<[DatumRef<'a>; 16]>;

/// Inserts a row; `given` has a value for each column of the definition. None: the row was left out.
pub fn insert(
    run: &mut Run<'_>,
    info: &TableInfo,
    given: &[Given<'_>],
    on_conflict: OnConflict,
    evaluate: Evaluate<'_>,
) -> Outcome<Option<RowId>> {
    let mut rows = std::mem::take(&mut run.rows);
    rows.clear();
    let result = encode(run, info, given, on_conflict, evaluate, &mut rows)
        .and_then(|encoded| if encoded { insert_row(run, info, &rows, on_conflict) } else { Ok(None) });
    run.rows = rows;
    result
}

/// Makes a row of the values given and appends it to `rows`; false: it is to be left out.
pub fn encode(
    run: &mut Run<'_>,
    info: &TableInfo,
    given: &[Given<'_>],
    on_conflict: OnConflict,
    evaluate: Evaluate<'_>,
    rows: &mut Batch,
) -> Outcome<bool> {
    if !trigger::is_fired(info, Timing::Before, RowEvent::Insert) {
        return encode_given(run, info, given, on_conflict, evaluate, rows);
    }
    let image = proposed(info, given, evaluate)?;
    let image = trigger::before_insert(run, info, image)?;
    let columns = info.def.columns.iter().zip(&image);
    let given: SmallVec<[Given<'_>; 16]> = columns
        .map(|(column, value)| match column.generated {
            Some(_) => Given::Nothing,
            None => Given::Value(value.as_ref()),
        })
        .collect();
    encode_given(run, info, &given, on_conflict, evaluate, rows)
}

/// A new row as its BEFORE triggers get it: with defaults, without the number that the sequence will give it.
fn proposed(info: &TableInfo, given: &[Given<'_>], evaluate: Evaluate<'_>) -> Outcome<trigger::Image> {
    let mut image = trigger::Image::with_capacity(given.len());
    for (place, column) in info.def.columns.iter().enumerate() {
        image.push(match (given[place], &info.defaults[place]) {
            (given, _) if column.generated.is_some() => {
                refuse_generated(info, place, given)?;
                Datum::Null
            }
            (Given::Value(value), _) => as_column(info, place, value),
            (Given::Nothing, Default::Literal(value)) => as_column(info, place, value.as_ref()),
            (Given::Nothing, Default::Expression(text)) => as_column(info, place, evaluate(text)?.as_ref()),
        });
    }
    Ok(image)
}

/// A value in the form that the column keeps it in, or as it is, if it does not fit.
pub fn as_column(info: &TableInfo, place: usize, value: DatumRef<'_>) -> Datum {
    let column = &info.def.columns[place];
    let fitted = types::coerce(value, column.ctype, &info.def.name, &column.name);
    fitted.map_or_else(|_| value.to_owned(), |fitted| fitted.as_ref().to_owned())
}

fn encode_given(
    run: &mut Run<'_>,
    info: &TableInfo,
    given: &[Given<'_>],
    on_conflict: OnConflict,
    evaluate: Evaluate<'_>,
    rows: &mut Batch,
) -> Outcome<bool> {
    let made = fill_gaps(run, info, given, evaluate)?;
    let mut fitted: SmallVec<[Fitted<'_>; 16]> = SmallVec::new();
    for (i, column) in info.def.columns.iter().enumerate() {
        if column.generated.is_some() {
            refuse_generated(info, i, given[i])?;
            fitted.push(Fitted::AsIs(DatumRef::Null));
            continue;
        }
        let value = match (&made.get(i), given[i]) {
            (Some(Some(made)), _) => made.as_ref(),
            (_, Given::Value(value)) => value,
            (_, Given::Nothing) => info.defaults[i].literal(),
        };
        let value = match (column.not_null && value.is_null(), on_conflict) {
            (false, _) => value,
            (true, OnConflict::Ignore) => return Ok(false),
            (true, OnConflict::Replace) if !info.defaults[i].literal().is_null() => info.defaults[i].literal(),
            (true, _) => return Err(types::not_null_failed(&info.def.name, &column.name).into()),
        };
        fitted.push(types::coerce(value, column.ctype, &info.def.name, &column.name)?);
    }
    if let Some(column) = info.sequence_column
        && let DatumRef::Int(number) = fitted[column].as_ref()
    {
        run.last_number = run.last_number.max(number);
    }
    let computed;
    let mut values: Values<'_> = SmallVec::from_elem(DatumRef::Null, info.layout.positions());
    for (column, value) in info.def.columns.iter().zip(&fitted) {
        values[usize::from(column.position)] = value.as_ref();
    }
    if let Some(rules) = &info.rules {
        let Some(settled) = constraint::settle(run, info, rules, &values, on_conflict)? else { return Ok(false) };
        computed = settled;
        computed.place(&mut values);
    }
    rows.write(|out| info.layout.encode(&values, out))?;
    run.admit(rows.get(rows.len() - 1).len())?;
    Ok(true)
}

/// Nobody chooses the value of a generated column. SQLite gives NULL for a hidden one that a statement does not name.
fn refuse_generated(info: &TableInfo, column: usize, given: Given<'_>) -> Outcome<()> {
    match given {
        Given::Nothing => Ok(()),
        Given::Value(value) if info.def.columns[column].hidden && value.is_null() => Ok(()),
        Given::Value(_) => Err(constraint::generated_given(info, column, "INSERT into").into()),
    }
}

/// Inserts encoded rows, in one call of the engine unless conflicts are to be resolved.
pub fn insert_encoded(run: &mut Run<'_>, info: &TableInfo, rows: &Batch, on_conflict: OnConflict) -> Outcome<()> {
    if rows.len() == 1 || on_conflict == OnConflict::Abort {
        return insert_all(run, info, rows, on_conflict);
    }
    let mut one = Batch::new();
    for row in rows.iter() {
        one.clear();
        one.push(row);
        insert_row(run, info, &one, on_conflict)?;
    }
    Ok(())
}

fn insert_all(run: &mut Run<'_>, info: &TableInfo, rows: &Batch, on_conflict: OnConflict) -> Outcome<()> {
    if rows.len() == 1 {
        return insert_row(run, info, rows, on_conflict).map(|_| ());
    }
    let (tables, changes) = run.host.write()?;
    let mut ids = Vec::with_capacity(rows.len());
    match tables.insert(info.def.id, rows, &mut ids, changes) {
        Ok(()) => {
            run.changed += rows.len() as u64;
            if let Some(returned) = &mut run.returned {
                ids.iter().zip(rows.iter()).try_for_each(|(id, row)| returned.keep(*id, row))?;
            }
            if let Some(links) = &info.links {
                for row in rows.iter() {
                    foreign_key::inserted(run, links, Row::new(row, &info.layout))?;
                }
            }
        }
        Err(error) => {
            resolve(run, info, error, rows, on_conflict)?;
        }
    }
    Ok(())
}

/// The values that the statement does not give and that are not in the definition: numbers of the sequence and defaults
/// that are expressions. Empty when there are none.
fn fill_gaps(
    run: &mut Run<'_>,
    info: &TableInfo,
    given: &[Given<'_>],
    evaluate: Evaluate<'_>,
) -> Outcome<Vec<Option<Datum>>> {
    let mut made = Vec::new();
    if let Some(column) = info.sequence_column {
        let missing = match given[column] {
            Given::Nothing => true,
            Given::Value(value) => value.is_null(),
        };
        if missing {
            made.resize(given.len(), None);
            made[column] = Some(Datum::Int(run.host.next_number(info.def.id, run.last_number)?));
        }
    }
    for &column in &info.computed_defaults {
        if let (Given::Nothing, Default::Expression(text)) = (given[column], &info.defaults[column]) {
            made.resize(given.len(), None);
            made[column] = Some(evaluate(text)?);
        }
    }
    Ok(made)
}

/// Hands the one row of `rows` to the engine.
fn insert_row(run: &mut Run<'_>, info: &TableInfo, rows: &Batch, on_conflict: OnConflict) -> Outcome<Option<RowId>> {
    let mut removed = 0;
    loop {
        let (tables, changes) = run.host.write()?;
        let mut ids = std::mem::take(&mut run.ids);
        ids.clear();
        let result = tables.insert(info.def.id, rows, &mut ids, changes);
        let id = ids.first().copied();
        run.ids = ids;
        match result {
            Ok(()) => {
                run.changed += 1;
                if let Some((returned, id)) = run.returned.as_mut().zip(id) {
                    returned.keep(id, rows.get(0))?;
                }
                if let Some(links) = &info.links {
                    foreign_key::inserted(run, links, Row::new(rows.get(0), &info.layout))?;
                }
                if info.triggers.is_some() {
                    trigger::after_insert(run, info, Row::new(rows.get(0), &info.layout))?;
                }
                return Ok(id);
            }
            Err(WriteError { failure: WriteFailure::Duplicate { index, existing }, .. })
                if run.upserting.is_some()
                    && upsert::resolve(run, info, Row::new(rows.get(0), &info.layout), (index, existing))? =>
            {
                return Ok(None);
            }
            Err(error) => match resolve(run, info, error, rows, on_conflict)? {
                Resolved::Again => note_removed(info, &mut removed)?,
                Resolved::LeaveOut => return Ok(None),
            },
        }
    }
}

/// A row made way for another. Each unique index has one such row; more come when triggers put them back.
fn note_removed(info: &TableInfo, removed: &mut usize) -> Outcome<()> {
    *removed += 1;
    if *removed <= info.def.indexes.len() {
        return Ok(());
    }
    let text = format!("UNIQUE constraint failed: triggers of table {} put back what is to be replaced", info.def.name);
    Err(Error::new(Code::Constraint, text).into())
}

enum Resolved {
    Again,
    LeaveOut,
}

/// What becomes of a write that the engine refused.
#[cold]
fn resolve(
    run: &mut Run<'_>,
    info: &TableInfo,
    error: WriteError,
    rows: &Batch,
    on_conflict: OnConflict,
) -> Outcome<Resolved> {
    match (error.failure, on_conflict) {
        (WriteFailure::Duplicate { .. }, OnConflict::Ignore) => Ok(Resolved::LeaveOut),
        (WriteFailure::Duplicate { existing, .. }, OnConflict::Replace) => {
            remove_row(run, info, existing)?;
            Ok(Resolved::Again)
        }
        (WriteFailure::Duplicate { index, .. }, OnConflict::Abort | OnConflict::Defer) => {
            Err(duplicate(info, index, Row::new(rows.get(error.at), &info.layout)).into())
        }
        (WriteFailure::NotReady(wanted), _) => Err(Failure::NotReady(wanted)),
        (WriteFailure::NoSuchRow(_), _) => Ok(Resolved::LeaveOut),
        (WriteFailure::Failed(error), _) => Err(error.into()),
    }
}

/// A write that the engine refused, as a failure of the statement.
pub fn failure(info: &TableInfo, error: WriteError, rows: &Batch) -> Failure {
    match error.failure {
        WriteFailure::Duplicate { index, .. } => {
            duplicate(info, index, Row::new(rows.get(error.at), &info.layout)).into()
        }
        WriteFailure::NotReady(wanted) => Failure::NotReady(wanted),
        WriteFailure::NoSuchRow(id) => Error::new(Code::Bug, format!("write.rs: no row {id}")).into(),
        WriteFailure::Failed(error) => error.into(),
    }
}

/// "UNIQUE constraint failed: t.a, t.b: (1, 'x') exists"
pub fn duplicate(info: &TableInfo, index: IndexId, row: Row<'_>) -> Error {
    let columns = info.def.index(index).map_or(&[][..], |i| &i.columns);
    let name = |position: u16| info.def.column_at(position).map_or("?", |c| &c.name);
    let names: Vec<String> = columns.iter().map(|c| format!("{}.{}", info.def.name, name(c.position))).collect();
    let values: Vec<String> = columns.iter().map(|c| row.get(c.position).to_string()).collect();
    let values = values.join(", ");
    let values = if columns.len() == 1 { values } else { format!("({values})") };
    Error::new(Code::Constraint, format!("UNIQUE constraint failed: {}: {values} exists", names.join(", ")))
}

/// Gives columns of the row `id`, named in the table's order, other values. False: the row was left as it is.
pub fn update(
    run: &mut Run<'_>,
    info: &TableInfo,
    id: RowId,
    sets: &[Set<'_>],
    on_conflict: OnConflict,
) -> Outcome<bool> {
    let mut old = std::mem::take(&mut run.old);
    let found = read_row(run, info, id, &mut old);
    let result = found.and_then(|found| Ok(found && update_from(run, info, (id, &old), sets, on_conflict)?));
    run.old = old;
    result
}

/// As `update`, for a row that was read.
pub fn update_from(
    run: &mut Run<'_>,
    info: &TableInfo,
    (id, old): (RowId, &[u8]),
    sets: &[Set<'_>],
    on_conflict: OnConflict,
) -> Outcome<bool> {
    if info.triggers.is_none() {
        return update_to(run, info, (id, old), sets, on_conflict, &[]);
    }
    let set: SmallVec<[usize; 16]> = sets.iter().map(|(place, _)| *place).collect();
    if !trigger::is_fired(info, Timing::Before, RowEvent::Update) {
        return update_to(run, info, (id, old), sets, on_conflict, &set);
    }
    let changed = trigger::before_update(run, info, Row::new(old, &info.layout), sets)?;
    // The triggers may have changed the row, or deleted it.
    let mut now = Vec::new();
    if !read_row(run, info, id, &mut now)? {
        return Ok(false);
    }
    let sets: SmallVec<[Set<'_>; 16]> = changed.iter().map(|(place, value)| (*place, value.as_ref())).collect();
    update_to(run, info, (id, &now), &sets, on_conflict, &set)
}

/// Gives columns of a row other values. `set` are the places of those that the statement sets, if the table has triggers.
fn update_to(
    run: &mut Run<'_>,
    info: &TableInfo,
    (id, old): (RowId, &[u8]),
    sets: &[Set<'_>],
    on_conflict: OnConflict,
    set: &[usize],
) -> Outcome<bool> {
    let old = Row::new(old, &info.layout);
    let mut changed: SmallVec<[(u16, Fitted<'_>); 4]> = SmallVec::new();
    for (i, value) in sets {
        let column = &info.def.columns[*i];
        if column.generated.is_some() {
            // UPDATE .. FROM hands back what it read of columns that it leaves alone.
            if *value != old.get(column.position) {
                return Err(constraint::generated_given(info, *i, "UPDATE").into());
            }
            continue;
        }
        let value = match (column.not_null && value.is_null(), on_conflict) {
            (false, _) => *value,
            (true, OnConflict::Ignore) => return Ok(false),
            (true, OnConflict::Replace) if !info.defaults[*i].literal().is_null() => info.defaults[*i].literal(),
            (true, _) => return Err(types::not_null_failed(&info.def.name, &column.name).into()),
        };
        changed.push((column.position, types::coerce(value, column.ctype, &info.def.name, &column.name)?));
    }
    let mut rows = std::mem::take(&mut run.rows);
    rows.clear();
    let result = match encode_update(run, info, old, &changed, on_conflict, &mut rows) {
        Ok(true) => update_encoded(run, info, (id, old), &rows, on_conflict, set),
        left_out => left_out,
    };
    run.rows = rows;
    result
}

/// Puts the row with other values at some positions into `rows`, which is empty. False: the row is to be left as it is.
fn encode_update(
    run: &mut Run<'_>,
    info: &TableInfo,
    old: Row<'_>,
    changed: &[(u16, Fitted<'_>)],
    on_conflict: OnConflict,
    rows: &mut Batch,
) -> Outcome<bool> {
    if info.rules.is_none() {
        let numbers = changed.iter().map(|(position, value)| (*position, value.as_ref()));
        let encode = |out: &mut Vec<u8>| info.layout.encode_changed(old.bytes(), numbers, out).ok_or(());
        if rows.write(encode).is_ok() {
            return Ok(true);
        }
    }
    let computed;
    let mut values: Values<'_> = old.values().collect();
    for (position, value) in changed {
        values[usize::from(*position)] = value.as_ref();
    }
    if let Some(rules) = &info.rules {
        let Some(settled) = constraint::settle(run, info, rules, &values, on_conflict)? else { return Ok(false) };
        computed = settled;
        computed.place(&mut values);
    }
    rows.write(|out| info.layout.encode(&values, out))?;
    Ok(true)
}

/// Puts the one row of `rows` in the place of another.
fn update_encoded(
    run: &mut Run<'_>,
    info: &TableInfo,
    (id, old): (RowId, Row<'_>),
    rows: &Batch,
    on_conflict: OnConflict,
    set: &[usize],
) -> Outcome<bool> {
    run.admit(rows.get(0).len())?;
    let waiting = run.deferred.iter().len();
    let written = update_row(run, info, id, rows, on_conflict)?;
    let new = Row::new(rows.get(0), &info.layout);
    if let (true, Some(links)) = (written, &info.links) {
        foreign_key::updated(run, links, old, new)?;
    }
    if written && info.triggers.is_some() {
        if run.deferred.iter().len() > waiting {
            run.deferred_set = set.into();
        } else {
            trigger::after_update(run, info, set, old, new)?;
        }
    }
    Ok(written)
}

fn read_row(run: &mut Run<'_>, info: &TableInfo, id: RowId, out: &mut Vec<u8>) -> Outcome<bool> {
    let mut found = false;
    run.host.source().rows(info.def.id, &[id], &mut |_, row| {
        out.clear();
        out.extend_from_slice(row.bytes());
        found = true;
    })?;
    Ok(found)
}

fn update_row(run: &mut Run<'_>, info: &TableInfo, id: RowId, rows: &Batch, on_conflict: OnConflict) -> Outcome<bool> {
    let mut removed = 0;
    loop {
        let (tables, changes) = run.host.write()?;
        match tables.update(info.def.id, &[id], rows, changes) {
            Ok(()) => return updated(run, id, rows.get(0)),
            Err(WriteError { failure: WriteFailure::Duplicate { .. }, .. }) if on_conflict == OnConflict::Defer => {
                run.deferred_of = Some(info.def.id);
                run.deferred.keep(id, rows.get(0))?;
                return updated(run, id, rows.get(0));
            }
            Err(error) => match resolve(run, info, error, rows, on_conflict)? {
                Resolved::Again => note_removed(info, &mut removed)?,
                Resolved::LeaveOut => return Ok(false),
            },
        }
    }
}

fn updated(run: &mut Run<'_>, id: RowId, row: &[u8]) -> Outcome<bool> {
    run.changed += 1;
    if let Some(returned) = &mut run.returned {
        returned.keep(id, row)?;
    }
    Ok(true)
}

/// Writes the rows whose keys others still had when it was their turn, as in `UPDATE t SET id = id + 1`.
///
/// Backwards most of them find their place free. What is left waits for each other in a ring, or for a row that stays:
/// all of these are taken out and put back under their ids, and who finds no place then breaks UNIQUE.
pub fn finish(run: &mut Run<'_>, info: &TableInfo) -> Outcome<()> {
    let deferred = std::mem::take(&mut run.deferred);
    let before = rows_for_triggers(run, info, &deferred)?;
    let mut one = Batch::new();
    let mut left = Vec::new();
    for (id, row) in deferred.iter().rev() {
        one.clear();
        one.push(row);
        let (tables, changes) = run.host.write()?;
        match tables.update(info.def.id, &[id], &one, changes) {
            Ok(()) => {}
            Err(WriteError { failure: WriteFailure::Duplicate { .. }, .. }) => left.push((id, row)),
            Err(error) => resolve(run, info, error, &one, OnConflict::Abort).map(drop)?,
        }
    }
    for (id, _) in &left {
        delete_row(run, info, *id)?;
    }
    for (id, row) in left {
        let proposed = Row::new(row, &info.layout);
        let unique = info.def.indexes.iter().filter(|index| index.unique);
        for index in unique {
            if find_row(run, info, index, proposed)?.is_some() {
                return Err(duplicate(info, index.id, proposed).into());
            }
        }
        let (tables, changes) = run.host.write()?;
        tables.put_back(info.def.id, id, row, changes)?;
    }
    let set = std::mem::take(&mut run.deferred_set);
    for (old, (_, new)) in before.iter().zip(deferred.iter()) {
        trigger::after_update(run, info, &set, Row::new(old, &info.layout), Row::new(new, &info.layout))?;
    }
    Ok(())
}

/// The rows as they are that wait to be written, if triggers are to be told of them.
fn rows_for_triggers(run: &mut Run<'_>, info: &TableInfo, deferred: &Returned) -> Outcome<Vec<Vec<u8>>> {
    if !trigger::is_fired(info, Timing::After, RowEvent::Update) {
        return Ok(Vec::new());
    }
    let mut rows = vec![Vec::new(); deferred.iter().len()];
    for ((id, _), row) in deferred.iter().zip(&mut rows) {
        read_row(run, info, id, row)?;
    }
    Ok(rows)
}

/// The row that has the key of `row` in a unique index.
pub fn find_row(
    run: &mut Run<'_>,
    info: &TableInfo,
    index: &IndexDef,
    row: Row<'_>,
) -> Outcome<Option<(RowId, Vec<u8>)>> {
    let mut key = KeyBuf::new();
    if row_key(index, row, &mut key)? != (KeyOf::Key { has_null: false }) {
        return Ok(None);
    }
    let mut found = None;
    let visit = &mut |_: usize, id: RowId, row: Row<'_>| found = Some((id, row.bytes().to_vec()));
    run.host.source().get_many(info.def.id, index.id, &Batch::of(&key), visit)?;
    Ok(found)
}

/// Deletes the row `id`; false if it is gone already.
pub fn delete(run: &mut Run<'_>, info: &TableInfo, id: RowId) -> Outcome<bool> {
    if run.returned.is_some() {
        let mut old = std::mem::take(&mut run.old);
        let found = read_row(run, info, id, &mut old);
        if let (Ok(true), Some(returned)) = (&found, &mut run.returned) {
            returned.keep(id, &old)?;
        }
        run.old = old;
        found?;
    }
    let deleted = remove_row(run, info, id)?;
    run.changed += u64::from(deleted);
    Ok(deleted)
}

/// Deletes the row `id`, does what foreign keys ask for then, and calls triggers.
fn remove_row(run: &mut Run<'_>, info: &TableInfo, id: RowId) -> Outcome<bool> {
    if info.triggers.is_some() {
        return remove_firing(run, info, id);
    }
    let Some(links) = info.links.as_ref().filter(|links| !links.children.is_empty()) else {
        return delete_row(run, info, id);
    };
    let mut old = Vec::new();
    if !read_row(run, info, id, &mut old)? || !delete_row(run, info, id)? {
        return Ok(false);
    }
    foreign_key::deleted(run, links, Row::new(&old, &info.layout))?;
    Ok(true)
}

fn remove_firing(run: &mut Run<'_>, info: &TableInfo, id: RowId) -> Outcome<bool> {
    let mut old = Vec::new();
    if !read_row(run, info, id, &mut old)? {
        return Ok(false);
    }
    trigger::delete(run, info, Timing::Before, Row::new(&old, &info.layout))?;
    // The triggers may have changed the row, or deleted it.
    if !read_row(run, info, id, &mut old)? || !delete_row(run, info, id)? {
        return Ok(false);
    }
    if let Some(links) = &info.links {
        foreign_key::deleted(run, links, Row::new(&old, &info.layout))?;
    }
    trigger::delete(run, info, Timing::After, Row::new(&old, &info.layout))?;
    Ok(true)
}

/// Deletes the row `id` and nothing else.
fn delete_row(run: &mut Run<'_>, info: &TableInfo, id: RowId) -> Outcome<bool> {
    let (tables, changes) = run.host.write()?;
    match tables.delete(info.def.id, &[id], changes) {
        Ok(()) => Ok(true),
        Err(WriteError { failure: WriteFailure::NoSuchRow(_), .. }) => Ok(false),
        Err(WriteError { failure: WriteFailure::NotReady(wanted), .. }) => Err(Failure::NotReady(wanted)),
        Err(WriteError { failure: WriteFailure::Failed(error), .. }) => Err(error.into()),
        Err(WriteError { failure: WriteFailure::Duplicate { .. }, .. }) => {
            Err(Error::new(Code::Bug, "write.rs: a duplicate when deleting").into())
        }
    }
}
