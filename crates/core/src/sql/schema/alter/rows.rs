//! The rows there are, looked at before a change that depends on them holds.

use crate::error::{Error, Result};
use crate::sql::constraint::{self, foreign_key, uses_of};
use crate::sql::executor::{in_scope, table_info};
use crate::sql::run::{Failure, Host, Outcome, Run, Traits, until_ready};
use crate::sql::schema::index::{check_time, read_rows};
use crate::sql::table_info::TableInfo;
use crate::sql::write::{self, OnConflict};
use crate::table::batch::Batch;
use crate::table::catalog::{TableDef, TableId};
use crate::table::datum::{Datum, DatumRef};
use crate::table::row::Row;
use crate::table::row_id::RowId;

/// Which rows are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// One of them, as all have the same value.
    First,
    /// All.
    All,
}

/// Has the table any rows?
pub fn any(host: &dyn Host, table: TableId) -> bool {
    host.source().row_count(table).map_or(true, |rows| rows > 0)
}

/// Does an expression use no column but this one?
pub fn uses_only(def: &TableDef, expression: &str, name: &str) -> Result<bool> {
    let uses = uses_of(def, expression)?;
    Ok(uses.iter().all(|at| def.columns[*at].name.eq_ignore_ascii_case(name)))
}

/// Do rows satisfy the table's CHECKs? The error names the first that does not.
pub fn validate_checks(host: &mut dyn Host, def: &TableDef, which: Which) -> Result<()> {
    each_row(host, def, which, &mut |run, info, row| {
        let values: Vec<DatumRef<'_>> = row.values().collect();
        match &info.rules {
            Some(rules) => constraint::settle(run, info, rules, &values, OnConflict::Abort).map(drop),
            None => Ok(()),
        }
    })
}

/// Do rows refer to rows that are there? The error names the first that does not.
pub fn validate_foreign_keys(host: &mut dyn Host, def: &TableDef, which: Which) -> Result<()> {
    each_row(host, def, which, &mut |run, info, row| match &info.links {
        Some(links) => {
            foreign_key::inserted(run, links, row)?;
            foreign_key::finish(run)
        }
        None => Ok(()),
    })
}

/// What is to be done with a row; an error is about this row.
type Visit<'a> = &'a mut dyn FnMut(&mut Run<'_>, &TableInfo, Row<'_>) -> Outcome<()>;

/// Visits rows, some at a time, and looks at the clock between.
pub fn each_row(host: &mut dyn Host, def: &TableDef, which: Which, visit: Visit<'_>) -> Result<()> {
    let info = table_info(host, &def.name)?;
    let deadline_ns = host.deadline_ns();
    let mut from = Some(RowId(0));
    while let Some(next) = from {
        check_time(host, deadline_ns)?;
        from = until_ready(host, |host| visit_some(host, &info, next, which, visit))?;
    }
    Ok(())
}

fn visit_some(
    host: &mut dyn Host,
    info: &TableInfo,
    from: RowId,
    which: Which,
    visit: Visit<'_>,
) -> Outcome<Option<RowId>> {
    let (ids, rows) = read_rows(host, info, from)?;
    let mut run = Run::new(host, &Traits::NONE);
    for row in rows.iter() {
        let row = Row::new(row, &info.layout);
        visit(&mut run, info, row).map_err(|failure| match failure {
            Failure::Error(error) => Failure::Error(about(info, row, error)),
            other => other,
        })?;
        if which == Which::First {
            return Ok(None);
        }
    }
    Ok(ids.last().map(|last| RowId(last.0 + 1)))
}

/// The error, with the row that it is about.
fn about(info: &TableInfo, row: Row<'_>, error: Error) -> Error {
    let Some(key) = info.def.primary_key() else { return error };
    let named = key.columns.iter().filter_map(|column| {
        let name = &info.def.column_at(column.position)?.name;
        Some(format!("{name} = {}", row.get(column.position)))
    });
    let named = named.collect::<Vec<_>>().join(", ");
    Error::new(error.code, format!("{} (the row with {named})", error.message))
}

/// Changes the values of a row, which stand at their positions.
type Change<'a> = &'a mut dyn FnMut(Row<'_>, &mut [Datum]) -> Outcome<()>;

/// Writes all rows again with values that `change` has changed; generated columns are computed anew, CHECKs judged.
pub fn rewrite(host: &mut dyn Host, def: &TableDef, change: Change<'_>) -> Result<()> {
    let info = table_info(host, &def.name)?;
    let deadline_ns = host.deadline_ns();
    let mut from = Some(RowId(0));
    while let Some(next) = from {
        check_time(host, deadline_ns)?;
        host.make_room()?;
        from = until_ready(host, |host| in_scope(host, true, |host| rewrite_some(host, &info, next, change)))?;
    }
    Ok(())
}

fn rewrite_some(host: &mut dyn Host, info: &TableInfo, from: RowId, change: Change<'_>) -> Outcome<Option<RowId>> {
    let (ids, rows) = read_rows(host, info, from)?;
    let mut run = Run::new(host, &Traits::NONE);
    let mut fresh = Batch::new();
    for row in rows.iter() {
        let row = Row::new(row, &info.layout);
        rewrite_row(&mut run, info, row, change, &mut fresh).map_err(|failure| match failure {
            Failure::Error(error) => Failure::Error(about(info, row, error)),
            other => other,
        })?;
    }
    let (tables, changes) = run.host.write()?;
    match tables.update(info.def.id, &ids, &fresh, changes) {
        Ok(()) => Ok(ids.last().map(|last| RowId(last.0 + 1))),
        Err(error) => Err(write::failure(info, error, &fresh)),
    }
}

fn rewrite_row(
    run: &mut Run<'_>,
    info: &TableInfo,
    row: Row<'_>,
    change: Change<'_>,
    fresh: &mut Batch,
) -> Outcome<()> {
    let mut values: Vec<Datum> = row.values().map(DatumRef::to_owned).collect();
    change(row, &mut values)?;
    let mut values: Vec<DatumRef<'_>> = values.iter().map(Datum::as_ref).collect();
    let computed;
    if let Some(rules) = &info.rules {
        computed = constraint::settle(run, info, rules, &values, OnConflict::Abort)?.unwrap_or_default();
        computed.place(&mut values);
    }
    fresh.write(|out| info.layout.encode(&values, out))?;
    Ok(())
}
