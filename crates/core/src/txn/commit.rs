//! What COMMIT does with the rows of a transaction: looks whether others were first, then writes them to the live tables.
//!
//! A row is in conflict when it is not any more what it was when the transaction began: bytes are compared, so writers
//! outside of transactions pay nothing for this. A write that changes no byte does not show, so rows that transactions
//! wrote are remembered besides, while others are open: an UPDATE that sets a column to itself claims a row.

use super::tables::{TableChanges, Tables};
use crate::ds::recent::Recent;
use crate::engine::{
    Access, Cursor, Overlay, Read, ReadError, Shadow, Source, Write, WriteError, WriteFailure, Written,
};
use crate::error::{Code, Error, Result};
use crate::table::batch::Batch;
use crate::table::catalog::{IndexId, TableDef, TableId};
use crate::table::key::{KeyBuf, KeyOf, row_key};
use crate::table::row::Row;
use crate::table::row_id::RowId;
use std::collections::HashSet;
use std::sync::Arc;

/// Rows that transactions wrote lately, and when.
pub type Claims = Recent<(TableId, RowId)>;

/// Rows compared at once.
const ROWS_AT_ONCE: usize = 256;

/// The rows of a table that were updated or deleted, by id.
fn shadows(written: &Written) -> Vec<(RowId, Shadow)> {
    let mut shadows: Vec<(RowId, Shadow)> = written.shadows().collect();
    shadows.sort_unstable_by_key(|(id, _)| *id);
    shadows
}

/// An error if a row that the transaction updated or deleted has changed since it began.
pub fn check_rows(overlay: &Overlay, live: &Tables, claims: &Claims, began: u64) -> Read<()> {
    for (table, written) in overlay.written() {
        let def = overlay.base().definition(table)?.clone();
        if !live.catalog.table_by_id(table).is_some_and(|now| Arc::ptr_eq(now, &def)) {
            return Err(conflict(&format!("table {}: its definition", def.name)).into());
        }
        let ids: Vec<RowId> = shadows(written).into_iter().map(|(id, _)| id).collect();
        for ids in ids.chunks(ROWS_AT_ONCE) {
            if let Some(changed) = first_changed(overlay.base().as_ref(), live.source(), table, ids)? {
                return Err(row_conflict(overlay, &def, changed).into());
            }
            if let Some(claimed) = ids.iter().find(|id| claims.may_have_changed(&(table, **id), began)) {
                return Err(row_conflict(overlay, &def, *claimed).into());
            }
        }
    }
    Ok(())
}

/// The first of some rows that is not the same in both sources.
fn first_changed(base: &dyn Source, live: &dyn Source, table: TableId, ids: &[RowId]) -> Read<Option<RowId>> {
    let mut before = vec![None; ids.len()];
    base.rows(table, ids, &mut |at, row| before[at] = Some(row.bytes().to_vec()))?;
    let mut same = vec![false; ids.len()];
    live.rows(table, ids, &mut |at, row| same[at] = before[at].as_deref() == Some(row.bytes()))?;
    Ok(same.iter().position(|same| !same).map(|at| ids[at]))
}

/// Writes a transaction's rows to the live tables: deletions, then new images, then new rows.
pub fn write_rows(overlay: &Overlay, live: &mut Tables, changes: &mut TableChanges) -> Write<()> {
    for (table, written) in overlay.written() {
        let (mut deleted, mut images) = (Vec::new(), Vec::new());
        for (id, shadow) in shadows(written) {
            match shadow {
                Shadow::Deleted(_) => deleted.push(id),
                Shadow::Replaced(image) => images.push((id, image.own)),
            }
        }
        live.delete(table, &deleted, changes)?;
        write_images(overlay, live, table, images, changes)?;
        insert_new(overlay, live, table, written, changes)?;
    }
    Ok(())
}

/// Updates rows in an order in which no unique key is in the way of another one of them.
fn write_images(
    overlay: &Overlay,
    live: &mut Tables,
    table: TableId,
    mut images: Vec<(RowId, RowId)>,
    changes: &mut TableChanges,
) -> Write<()> {
    let mut waiting: HashSet<RowId> = images.iter().map(|(id, _)| *id).collect();
    let mut aside = Vec::new();
    while !images.is_empty() {
        let (count, mut blocked) = (images.len(), Vec::new());
        for (id, own) in images {
            let row = own_row(overlay, table, own)?;
            match live.update(table, &[id], &row, changes) {
                Ok(()) => drop(waiting.remove(&id)),
                Err(WriteError { failure: WriteFailure::Duplicate { existing, .. }, .. })
                    if waiting.contains(&existing) =>
                {
                    blocked.push((id, own));
                }
                Err(error) => return Err(taken(overlay, table, &row, error)),
            }
        }
        // Each waits for another one: one of them steps aside.
        if blocked.len() == count
            && let Some((id, own)) = blocked.pop()
        {
            live.delete(table, &[id], changes)?;
            waiting.remove(&id);
            aside.push((id, own));
        }
        images = blocked;
    }
    for (id, own) in aside {
        let row = own_row(overlay, table, own)?;
        if let Some((index, existing)) = find_duplicate(live.source(), table, row.get(0))? {
            let error = WriteError { at: 0, failure: WriteFailure::Duplicate { index, existing } };
            return Err(taken(overlay, table, &row, error));
        }
        live.put_back(table, id, row.get(0), changes)?;
    }
    Ok(())
}

fn own_row(overlay: &Overlay, table: TableId, own: RowId) -> Result<Batch> {
    let mut rows = Batch::new();
    // The private rows are in memory, so they are there and ready.
    let read = overlay.own().rows(table, &[own], &mut |_, row| rows.push(row.bytes()));
    match read {
        Ok(()) if rows.len() == 1 => Ok(rows),
        _ => Err(Error::new(Code::Bug, "commit: a private row that is not there")),
    }
}

/// A row of the live table that has one of the row's unique keys.
fn find_duplicate(live: &dyn Source, table: TableId, row: &[u8]) -> Write<Option<(IndexId, RowId)>> {
    let not_ready = |error| WriteError { at: 0, failure: WriteFailure::from(error) };
    let row = Row::new(row, live.layout(table)?);
    let mut key = KeyBuf::new();
    for index in live.definition(table)?.indexes.iter().filter(|index| index.unique) {
        if row_key(index, row, &mut key)? != (KeyOf::Key { has_null: false }) {
            continue;
        }
        let mut found = None;
        live.get_many(table, index.id, &Batch::of(&key), &mut |_, id, _| found = Some(id)).map_err(not_ready)?;
        if let Some(id) = found {
            return Ok(Some((index.id, id)));
        }
    }
    Ok(None)
}

fn insert_new(
    overlay: &Overlay,
    live: &mut Tables,
    table: TableId,
    written: &Written,
    changes: &mut TableChanges,
) -> Write<()> {
    let lost = |_| Error::new(Code::Bug, "commit: private rows that cannot be read");
    let (mut cursor, mut rows, mut ids) = (Cursor::new(), Batch::new(), Vec::new());
    let mut more = overlay.own().seek(&mut cursor, table, &Access::All).map_err(lost)?;
    while more {
        if written.is_new(cursor.row_id()) {
            rows.push(overlay.own().row(&cursor).bytes());
        }
        more = overlay.own().next(&mut cursor).map_err(lost)?;
        if rows.len() == ROWS_AT_ONCE || !more {
            ids.clear();
            live.insert(table, &rows, &mut ids, changes).map_err(|error| taken(overlay, table, &rows, error))?;
            rows.clear();
        }
    }
    Ok(())
}

/// Shows a row's change: its table, the row as it was and as it is now.
pub type Visit<'a, E> = &'a mut dyn FnMut(TableId, Option<&[u8]>, Option<&[u8]>) -> std::result::Result<(), E>;

/// Visits the changes of the tables that are `wanted`.
pub fn each_change<E: From<ReadError>>(
    overlay: &Overlay,
    wanted: &dyn Fn(TableId) -> bool,
    visit: Visit<'_, E>,
) -> std::result::Result<(), E> {
    for (table, written) in overlay.written().filter(|(table, _)| wanted(*table)) {
        for (id, shadow) in shadows(written) {
            let mut old = None;
            overlay.base().rows(table, &[id], &mut |_, row| old = Some(row.bytes().to_vec()))?;
            let new = match shadow {
                Shadow::Deleted(_) => None,
                Shadow::Replaced(image) => Some(own_row(overlay, table, image.own).map_err(ReadError::from)?),
            };
            visit(table, old.as_deref(), new.as_ref().map(|row| row.get(0)))?;
        }
        let mut cursor = Cursor::new();
        let mut more = overlay.own().seek(&mut cursor, table, &Access::All)?;
        while more {
            if written.is_new(cursor.row_id()) {
                visit(table, None, Some(overlay.own().row(&cursor).bytes()))?;
            }
            more = overlay.own().next(&mut cursor)?;
        }
    }
    Ok(())
}

/// Notes the rows that a transaction has updated or deleted.
pub fn claim_rows(overlay: &Overlay, claims: &mut Claims, now: u64) {
    for (table, written) in overlay.written() {
        written.shadows().for_each(|(id, _)| claims.note((table, id), now));
    }
}

/// A failed write as the transaction's error: a unique key that was free when it wrote and is not any more is a conflict.
fn taken(overlay: &Overlay, table: TableId, rows: &Batch, error: WriteError) -> WriteError {
    let (WriteFailure::Duplicate { index, .. }, Ok(def), Ok(layout)) =
        (&error.failure, overlay.base().definition(table), overlay.base().layout(table))
    else {
        return error;
    };
    let columns = def.index(*index).map_or(&[][..], |index| &index.columns);
    let row = Row::new(rows.get(error.at), layout);
    let named = columns.iter().map(|column| name_of(def, row, column.position)).collect::<Vec<_>>().join(", ");
    let what = format!("UNIQUE constraint failed: table {}: another row got {named}, which", def.name);
    WriteError { at: error.at, failure: WriteFailure::Failed(conflict(&what)) }
}

fn name_of(def: &TableDef, row: Row<'_>, position: u16) -> String {
    let name = def.column_at(position).map_or("?", |column| column.name.as_str());
    format!("{name} = {}", row.get(position))
}

/// The error that names a row by its primary key, as it was when the transaction began.
fn row_conflict(overlay: &Overlay, def: &TableDef, id: RowId) -> Error {
    let mut named = format!("row id {id}");
    if let Some(key) = def.primary_key() {
        let name = &mut |_: usize, row: Row<'_>| {
            let columns = key.columns.iter().map(|column| name_of(def, row, column.position));
            named = format!("row {}", columns.collect::<Vec<_>>().join(", "));
        };
        // If it cannot be read its number must do.
        let _ = overlay.base().rows(def.id, &[id], name);
    }
    conflict(&format!("table {}: {named}", def.name))
}

/// The error of a transaction that is too late.
pub fn conflict(what: &str) -> Error {
    let text = format!("{what} has changed since the transaction began; it is rolled back, run it again");
    Error::new(Code::Conflict, text)
}
