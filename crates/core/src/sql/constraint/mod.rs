//! What a definition demands of rows beyond types and NOT NULL: CHECK, generated columns, foreign keys.
//!
//! SQLite enforces none of it on virtual tables, so the write path comes through here, whoever writes. A table that
//! demands nothing has no [`Rules`], and pays nothing.

mod evaluator;
pub mod foreign_key;
pub mod judge;
pub mod link;
mod rules;

pub use evaluator::RowEvaluator;
pub use rules::{Rules, may_name, requalified, uses_of};

use super::run::{Outcome, Run};
use super::table_info::TableInfo;
use super::write::OnConflict;
use crate::error::{Code, Error};
use crate::table::batch::Batch;
use crate::table::datum::{Datum, DatumRef};
use crate::table::row::Row;
use crate::table::types;

/// Values made for a row, with their positions.
#[derive(Debug, Default)]
pub struct Computed(Vec<(u16, Datum)>);

impl Computed {
    /// Puts the values into their places in a row.
    pub fn place<'a>(&'a self, values: &mut [DatumRef<'a>]) {
        for (position, value) in &self.0 {
            values[usize::from(*position)] = value.as_ref();
        }
    }
}

/// Computes the generated columns of a row, whose other values stand at their positions, and checks the row. None: it is
/// to be left out.
pub fn settle(
    run: &mut Run<'_>,
    info: &TableInfo,
    rules: &Rules,
    values: &[DatumRef<'_>],
    on_conflict: OnConflict,
) -> Outcome<Option<Computed>> {
    let mut computed = Computed::default();
    for stage in 0..rules.stages.len() {
        // What earlier stages computed stands in the row that later ones see.
        let mut row: smallvec::SmallVec<[DatumRef<'_>; 16]> = values.iter().copied().collect();
        computed.place(&mut row);
        let answers = run.host.sql().evaluator_of_rows().evaluate(info, rules, stage, &row)?;
        drop(row);
        if !take_answers(info, rules, stage, answers, on_conflict, &mut computed)? {
            return Ok(None);
        }
    }
    Ok(Some(computed))
}

/// Sorts a stage's answers into values and verdicts; false: the row is to be left out.
fn take_answers(
    info: &TableInfo,
    rules: &Rules,
    stage: usize,
    answers: Vec<Datum>,
    on_conflict: OnConflict,
    computed: &mut Computed,
) -> Outcome<bool> {
    let stage = &rules.stages[stage];
    let mut answers = answers.into_iter();
    for (column, value) in stage.columns.iter().zip(answers.by_ref()) {
        let column = &info.def.columns[*column];
        if column.not_null && value.as_ref().is_null() {
            if on_conflict == OnConflict::Ignore {
                return Ok(false);
            }
            return Err(types::not_null_failed(&info.def.name, &column.name).into());
        }
        let fitted = types::coerce(value.as_ref(), column.ctype, &info.def.name, &column.name)?.as_ref().to_owned();
        computed.0.push((column.position, fitted));
    }
    for (check, verdict) in stage.checks.iter().zip(answers) {
        // The verdict is that of `NOT (condition)`, so NULL passes, as the standard wants it.
        if matches!(verdict, Datum::Int(n) if n != 0) {
            if on_conflict == OnConflict::Ignore {
                return Ok(false);
            }
            let check = &info.def.checks[*check];
            let name = check.name.as_ref().unwrap_or(&check.expression);
            let text = format!("CHECK constraint failed: {name} (table {})", info.def.name);
            return Err(Error::new(Code::Constraint, text).into());
        }
    }
    Ok(true)
}

/// Appends a row as it is under the present definition: its generated columns computed anew.
pub fn refresh(run: &mut Run<'_>, info: &TableInfo, old: Row<'_>, rows: &mut Batch) -> Outcome<()> {
    let computed;
    let mut values: Vec<DatumRef<'_>> = old.values().collect();
    if let Some(rules) = &info.rules {
        computed = settle(run, info, rules, &values, OnConflict::Abort)?.unwrap_or_default();
        computed.place(&mut values);
    }
    rows.write(|out| info.layout.encode(&values, out))?;
    Ok(())
}

/// The error for a value given for a generated column.
#[cold]
pub fn generated_given(info: &TableInfo, column: usize, verb: &str) -> Error {
    let name = &info.def.columns[column].name;
    Error::new(Code::Sql, format!("cannot {verb} generated column {}.{name}", info.def.name))
}
