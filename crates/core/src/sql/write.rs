//! The write path: what a row goes through between a statement and the engine, whoever runs the statement.
//!
//! Defaults and numbers from the sequence fill the gaps, types and NOT NULL are checked, the row is encoded, and the
//! engine judges uniqueness. SQLite enforces none of this on virtual tables.

use super::constraint;
use super::run::{Failure, Outcome, Run};
use super::table_info::{Default, TableInfo};
use crate::engine::{WriteError, WriteFailure};
use crate::error::{Code, Error};
use crate::table::batch::Batch;
use crate::table::catalog::IndexId;
use crate::table::datum::{Datum, DatumRef};
use crate::table::row::Row;
use crate::table::row_id::RowId;
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
}

/// A value of a row to be written.
#[derive(Clone, Copy, Debug)]
pub enum Given<'a> {
    /// This value.
    Value(DatumRef<'a>),
    /// The statement says nothing of the column: its default, or what it has.
    Nothing,
}

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
    run.host.check_memory()?;
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
        Ok(()) => run.changed += rows.len() as u64,
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
) -> Outcome<SmallVec<[Option<Datum>; 16]>> {
    let mut made: SmallVec<[Option<Datum>; 16]> = SmallVec::new();
    if let Some(column) = info.sequence_column {
        let missing = match given[column] {
            Given::Nothing => true,
            Given::Value(value) => value.is_null(),
        };
        if missing {
            made.resize(given.len(), None);
            made[column] = Some(Datum::Int(next_number(run, info)?));
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

/// The next number of the sequence. The engine raises the sequence when a row that has it is written, so that a statement
/// that fails, or leaves the row out, gives none away.
fn next_number(run: &mut Run<'_>, info: &TableInfo) -> Outcome<i64> {
    let (tables, _) = run.host.write()?;
    let last = tables.engine().sequence(info.def.id)?.max(run.last_number);
    let full = || Error::new(Code::Limit, format!("table {} has no number left for its sequence", info.def.name));
    Ok(last.checked_add(1).ok_or_else(full)?)
}

/// Hands the one row of `rows` to the engine.
fn insert_row(run: &mut Run<'_>, info: &TableInfo, rows: &Batch, on_conflict: OnConflict) -> Outcome<Option<RowId>> {
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
                return Ok(id);
            }
            Err(error) => match resolve(run, info, error, rows, on_conflict)? {
                Resolved::Again => {}
                Resolved::LeaveOut => return Ok(None),
            },
        }
    }
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
            delete_row(run, info, existing)?;
            Ok(Resolved::Again)
        }
        (WriteFailure::Duplicate { index, .. }, OnConflict::Abort) => {
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

/// Changes the row `id`: columns that nothing is given for keep their values. False: the row was left as it is.
pub fn update(
    run: &mut Run<'_>,
    info: &TableInfo,
    id: RowId,
    given: &[Given<'_>],
    on_conflict: OnConflict,
) -> Outcome<bool> {
    let mut old = std::mem::take(&mut run.old);
    let result = read_row(run, info, id, &mut old).and_then(|found| {
        let old = Row::new(if found { &old } else { return Ok(false) }, &info.layout);
        let mut fitted: SmallVec<[Fitted<'_>; 16]> = SmallVec::new();
        for (i, (column, given)) in info.def.columns.iter().zip(given).enumerate() {
            let Given::Value(value) = given else {
                fitted.push(Fitted::AsIs(old.get(column.position)));
                continue;
            };
            if column.generated.is_some() {
                // UPDATE .. FROM hands back what it read of columns that it leaves alone.
                if *value != old.get(column.position) {
                    return Err(constraint::generated_given(info, i, "UPDATE").into());
                }
                fitted.push(Fitted::AsIs(old.get(column.position)));
                continue;
            }
            if column.not_null && value.is_null() {
                if on_conflict == OnConflict::Ignore {
                    return Ok(false);
                }
                return Err(types::not_null_failed(&info.def.name, &column.name).into());
            }
            fitted.push(types::coerce(*value, column.ctype, &info.def.name, &column.name)?);
        }
        let computed;
        let mut values: Values<'_> = old.values().collect();
        for (column, value) in info.def.columns.iter().zip(&fitted) {
            values[usize::from(column.position)] = value.as_ref();
        }
        if let Some(rules) = &info.rules {
            let Some(settled) = constraint::settle(run, info, rules, &values, on_conflict)? else { return Ok(false) };
            computed = settled;
            computed.place(&mut values);
        }
        let mut rows = std::mem::take(&mut run.rows);
        rows.clear();
        let encoded = rows.write(|out| info.layout.encode(&values, out));
        let result = encoded.map_err(Failure::from).and_then(|()| update_row(run, info, id, &rows, on_conflict));
        run.rows = rows;
        result
    });
    run.old = old;
    result
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
    loop {
        let (tables, changes) = run.host.write()?;
        match tables.update(info.def.id, &[id], rows, changes) {
            Ok(()) => {
                run.changed += 1;
                return Ok(true);
            }
            Err(error) => match resolve(run, info, error, rows, on_conflict)? {
                Resolved::Again => {}
                Resolved::LeaveOut => return Ok(false),
            },
        }
    }
}

/// Deletes the row `id`; false if it is gone already.
pub fn delete(run: &mut Run<'_>, info: &TableInfo, id: RowId) -> Outcome<bool> {
    let deleted = delete_row(run, info, id)?;
    run.changed += u64::from(deleted);
    Ok(deleted)
}

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
