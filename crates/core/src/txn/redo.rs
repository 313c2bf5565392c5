//! Effects as bytes, and bytes done again: what the log will hold, one record for each effect.
//!
//! ```text
//! record   count, changes of keys, count, changes of tables
//! key      0 key: db, key, operation    1 move: db, key, db, key    2 flush: db    3 swap: db, db
//! table    0 row: table, operation      1 definition: table, definition      2 dropped: table
//!          3 truncated: table            4 raised sequence: table, number
//!          5 view: name, statement       6 view dropped: name
//!          7 library                     8 library deleted: name
//!          9 trigger                    10 trigger dropped: name
//!         11 schedule                   12 schedule dropped: name
//! ```
//! Counts and databases are numbers of 7 bits a byte, keys are preceded by their length (`value/codec.rs`).

use super::{Effect, TableChange, Tables};
use crate::engine::RowOp;
use crate::keyspace::{Change, Changes, Keyspace};
use crate::table::catalog::{TableDef, TableId, ViewDef};
use crate::table::library::{LibraryDef, take_name};
use crate::table::schedule::ScheduleDef;
use crate::table::trigger::{TriggerDef, take_text};
use crate::value::codec::{self, Decoded, Malformed};
use crate::value::{Op, Thresholds};
use std::sync::Arc;

/// Has the effect anything to do again?
#[inline]
pub fn has_redo(effect: &Effect) -> bool {
    effect.keys.list.iter().any(has_key_redo) || effect.tables.list.iter().any(has_table_redo)
}

/// Appends the redo record of an effect that was made with redo wanted.
pub fn encode(effect: &Effect, out: &mut Vec<u8>) {
    let changes: Vec<&Change> = effect.keys.list.iter().filter(|change| has_key_redo(change)).collect();
    codec::put_number(out, changes.len() as u64);
    changes.into_iter().for_each(|change| encode_change(change, out));
    let changes: Vec<&TableChange> = effect.tables.list.iter().filter(|change| has_table_redo(change)).collect();
    codec::put_number(out, changes.len() as u64);
    changes.into_iter().for_each(|change| encode_table_change(change, out));
}

fn has_table_redo(change: &TableChange) -> bool {
    !matches!(change, TableChange::Row { redo: None, .. } | TableChange::Sequence { .. })
}

fn encode_table_change(change: &TableChange, out: &mut Vec<u8>) {
    match change {
        TableChange::Row { table, redo, .. } => {
            out.push(0);
            codec::put_number(out, table.0.into());
            redo.iter().for_each(|op| op.encode(out));
        }
        TableChange::Definition { table, now, .. } => {
            out.push(if now.is_some() { 1 } else { 2 });
            codec::put_number(out, table.0.into());
            now.iter().for_each(|def| def.encode(out));
        }
        TableChange::Raised { table, to, .. } => {
            out.push(4);
            codec::put_number(out, table.0.into());
            codec::put_signed(out, *to);
        }
        TableChange::View { name, now, .. } => {
            out.push(if now.is_some() { 5 } else { 6 });
            codec::put_bytes(out, name.as_bytes());
            now.iter().for_each(|view| codec::put_bytes(out, view.sql.as_bytes()));
        }
        TableChange::Library { now: Some(library), .. } => {
            out.push(7);
            library.encode(out);
        }
        TableChange::Library { name, now: None, .. } => {
            out.push(8);
            codec::put_bytes(out, name.as_bytes());
        }
        TableChange::Trigger { name, now, .. } => {
            out.push(if now.is_some() { 9 } else { 10 });
            match now {
                Some(trigger) => trigger.encode(out),
                None => codec::put_bytes(out, name.as_bytes()),
            }
        }
        TableChange::Schedule { name, now, .. } => {
            out.push(if now.is_some() { 11 } else { 12 });
            match now {
                Some(schedule) => schedule.encode(out),
                None => codec::put_bytes(out, name.as_bytes()),
            }
        }
        TableChange::Truncated { table, .. } => {
            out.push(3);
            codec::put_number(out, table.0.into());
        }
        TableChange::Sequence { .. } => {}
    }
}

fn has_key_redo(change: &Change) -> bool {
    !matches!(change, Change::Key { redo: None, .. } | Change::Taken { redo: None, .. })
}

fn encode_change(change: &Change, out: &mut Vec<u8>) {
    let place = |db: usize, key: &[u8], out: &mut Vec<u8>| {
        codec::put_number(out, db as u64);
        codec::put_bytes(out, key);
    };
    match change {
        Change::Key { db, key, redo, .. } | Change::Taken { db, key, redo, .. } => {
            out.push(0);
            place(*db, key, out);
            redo.iter().for_each(|op| op.encode(out));
        }
        Change::Move { from, to } => {
            out.push(1);
            place(from.0, &from.1, out);
            place(to.0, &to.1, out);
        }
        Change::Flush { db, .. } => {
            out.push(2);
            codec::put_number(out, *db as u64);
        }
        Change::Swap(a, b) => {
            out.push(3);
            codec::put_number(out, *a as u64);
            codec::put_number(out, *b as u64);
        }
    }
}

/// Does again what one record says.
///
/// # Errors
/// The record is damaged. What came before the damage has been done.
pub fn replay(mut record: &[u8], keyspace: &mut Keyspace, tables: &mut Tables) -> Decoded<()> {
    let record = &mut record;
    let thresholds = keyspace.shared.thresholds.clone();
    for _ in 0..codec::take_count(record)? {
        replay_change(record, keyspace, &thresholds)?;
    }
    for _ in 0..codec::take_count(record)? {
        replay_table_change(record, tables)?;
    }
    if record.is_empty() { Ok(()) } else { Err(Malformed("bytes behind the last change")) }
}

fn replay_table_change(record: &mut &[u8], tables: &mut Tables) -> Decoded<()> {
    let kind = codec::take_byte(record)?;
    match kind {
        5 | 6 => return replay_view(kind, record, tables),
        7 | 8 => return replay_library(kind, record, tables),
        9..=12 => return replay_routine(kind, record, tables),
        _ => {}
    }
    let table = u32::try_from(codec::take_number(record)?).map(TableId).map_err(|_| Malformed("no such table"))?;
    let result = match kind {
        0 => {
            let op = RowOp::decode(record).map_err(|_| Malformed("a damaged row"))?;
            tables.redo_row(table, &op)
        }
        1 => {
            let def = TableDef::decode(record).map_err(|_| Malformed("a damaged definition"))?;
            if def.id != table {
                return Err(Malformed("a definition of another table"));
            }
            tables.restore_definition(table, Some(&def))
        }
        2 => tables.restore_definition(table, None),
        3 => tables.redo_truncate(table),
        4 => tables.redo_raise(table, codec::take_signed(record)?),
        _ => return Err(Malformed("unknown change of a table")),
    };
    result.map_err(|_| Malformed("a change that does not fit its table"))
}

fn replay_view(kind: u8, record: &mut &[u8], tables: &mut Tables) -> Decoded<()> {
    let name = take_text(record)?;
    let view = match kind {
        5 => Some(ViewDef { name: name.clone(), sql: take_text(record)? }),
        _ => None,
    };
    tables.restore_view(&name, view.as_ref()).map_err(|_| Malformed("a view in the place of a table"))
}

fn replay_library(kind: u8, record: &mut &[u8], tables: &mut Tables) -> Decoded<()> {
    let (name, library) = match kind {
        7 => {
            let library = LibraryDef::decode(record)?;
            (library.name.clone(), Some(Arc::new(library)))
        }
        _ => (take_name(record)?, None),
    };
    let misfit = |_| Malformed("a library with functions of another");
    tables.restore_library(&name, library).map_err(misfit)
}

fn replay_routine(kind: u8, record: &mut &[u8], tables: &mut Tables) -> Decoded<()> {
    match kind {
        9 => {
            let trigger = TriggerDef::decode(record)?;
            tables.restore_trigger(&trigger.name.clone(), Some(Arc::new(trigger)));
        }
        10 => tables.restore_trigger(&take_text(record)?, None),
        11 => {
            let schedule = ScheduleDef::decode(record)?;
            tables.restore_schedule(&schedule.name.clone(), Some(Arc::new(schedule)));
        }
        _ => tables.restore_schedule(&take_text(record)?, None),
    }
    Ok(())
}

fn replay_change(record: &mut &[u8], keyspace: &mut Keyspace, thresholds: &Thresholds) -> Decoded<()> {
    let databases = keyspace.databases.len();
    let take_db = |record: &mut &[u8]| {
        let db = codec::take_number(record)? as usize;
        if db < databases { Ok(db) } else { Err(Malformed("no such database")) }
    };
    let mut nobody = Changes::default();
    match codec::take_byte(record)? {
        0 => {
            let db = take_db(record)?;
            let key = codec::take_bytes(record)?;
            let op = Op::decode(record, thresholds)?;
            keyspace.apply(db, key, op)?;
        }
        1 => {
            let from = (take_db(record)?, codec::take_bytes(record)?);
            let to = (take_db(record)?, codec::take_bytes(record)?);
            keyspace.relocate(from, to, &mut nobody);
        }
        2 => keyspace.flush(take_db(record)?, &mut nobody),
        3 => keyspace.swap(take_db(record)?, take_db(record)?, &mut nobody),
        _ => return Err(Malformed("unknown change")),
    }
    Ok(())
}
