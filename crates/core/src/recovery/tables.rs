//! Tables in a checkpoint: definitions, sequences, views, libraries, triggers, schedules and rows under their ids, out and in.
//!
//! ```text
//! definitions   0 catalog: version, last table, last index    1 table: sequence, definition    2 view: name, statement
//!               3 library    4 trigger    5 schedule
//! rows          table, then for each row: its id less the one before, length, bytes
//! ```

use super::format::Kind;
use super::writer::Writer;
use crate::engine::{Access, Cursor, ReadError, View};
use crate::error::{Code, Error, Result};
use crate::table::catalog::{Catalog, Marks, TableDef, TableId, ViewDef};
use crate::table::library::LibraryDef;
use crate::table::row_id::RowId;
use crate::table::schedule::ScheduleDef;
use crate::table::trigger::{TriggerDef, take_text};
use crate::txn::Tables;
use crate::value::codec::{self, Decoded, Malformed};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// A block is closed when it is this long, bytes.
const BLOCK_BYTES: usize = 128 << 10;

/// Why a checkpoint is not written.
#[derive(Debug)]
pub enum WriteError {
    /// A file failed.
    Io(io::Error),
    /// The tables cannot be read.
    Tables(Error),
    /// Keys that were to be saved are lost.
    Keys,
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        WriteError::Io(error)
    }
}

impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Io(error) => Error::err(format!("a checkpoint cannot be written: {error}")),
            WriteError::Tables(error) => error,
            WriteError::Keys => Error::new(Code::Bug, "a command that failed has left a checkpoint without all keys"),
        }
    }
}

/// The tables at one instant, on their way into a file.
pub struct Saved {
    catalog: Catalog,
    sequences: Vec<(TableId, i64)>,
    are_definitions_written: bool,
    /// The rows that are still to be written; views let go of what is written, so that it is not kept for them when it
    /// changes.
    views: VecDeque<(TableId, Arc<dyn View>)>,
    next: RowId,
    payload: Vec<u8>,
}

impl Saved {
    /// The tables as they are now.
    pub fn of(tables: &mut Tables) -> Result<Saved> {
        let catalog = tables.catalog.clone();
        let (mut sequences, mut views) = (Vec::new(), VecDeque::new());
        for def in catalog.tables() {
            sequences.push((def.id, tables.engine().sequence(def.id)?));
            views.push_back((def.id, tables.engine_mut().view_of_rows(&[def.id])?));
        }
        let (next, payload) = (RowId(0), Vec::new());
        Ok(Saved { catalog, sequences, are_definitions_written: false, views, next, payload })
    }

    /// Writes the next part. True: there is more.
    pub fn write_some(&mut self, writer: &mut Writer) -> std::result::Result<bool, WriteError> {
        if !self.are_definitions_written {
            self.write_definitions(writer)?;
            self.are_definitions_written = true;
            return Ok(true);
        }
        let Some((table, mut view)) = self.views.pop_front() else { return Ok(false) };
        let rows = self.fill(table, &*view).map_err(WriteError::Tables)?;
        if rows > 0 {
            if let Some(view) = Arc::get_mut(&mut view) {
                view.forget_before(table, self.next);
            }
            self.views.push_front((table, view));
            writer.block(Kind::Rows, &self.payload)?;
            writer.counts.rows += rows;
        } else {
            self.next = RowId(0);
        }
        Ok(!self.views.is_empty())
    }

    /// Fills the payload with the next rows of a table; gives their number, 0 at its end.
    fn fill(&mut self, table: TableId, view: &dyn View) -> Result<u64> {
        self.payload.clear();
        codec::put_number(&mut self.payload, table.0.into());
        let waits = |error| match error {
            ReadError::Failed(error) => error,
            ReadError::NotReady(_) => {
                Error::new(Code::Engine, "a view that is to be saved has rows that must be fetched")
            }
        };
        let (mut cursor, mut rows, mut before) = (Cursor::new(), 0, 0);
        let mut more = view.seek(&mut cursor, table, &Access::From(self.next)).map_err(waits)?;
        while more && self.payload.len() < BLOCK_BYTES {
            let id = cursor.row_id();
            codec::put_number(&mut self.payload, id.0 - before);
            codec::put_bytes(&mut self.payload, view.row(&cursor).bytes());
            (before, self.next, rows) = (id.0, RowId(id.0 + 1), rows + 1);
            more = view.next(&mut cursor).map_err(waits)?;
        }
        cursor.close();
        Ok(rows)
    }

    fn write_definitions(&mut self, writer: &mut Writer) -> io::Result<()> {
        let mut out = Vec::new();
        let Marks { version, last_table, last_index } = self.catalog.marks();
        out.push(0);
        [version, last_table.into(), last_index.into()].into_iter().for_each(|n| codec::put_number(&mut out, n));
        for (def, (_, sequence)) in self.catalog.tables().zip(&self.sequences) {
            out.push(1);
            codec::put_signed(&mut out, *sequence);
            def.encode(&mut out);
            writer.counts.tables += 1;
            write_if_full(&mut out, writer)?;
        }
        for view in self.catalog.views() {
            out.push(2);
            codec::put_bytes(&mut out, view.name.as_bytes());
            codec::put_bytes(&mut out, view.sql.as_bytes());
            writer.counts.views += 1;
            write_if_full(&mut out, writer)?;
        }
        for library in self.catalog.libraries.iter() {
            out.push(3);
            library.encode(&mut out);
            writer.counts.libraries += 1;
            write_if_full(&mut out, writer)?;
        }
        for trigger in self.catalog.triggers().iter() {
            out.push(4);
            trigger.encode(&mut out);
            writer.counts.triggers += 1;
            write_if_full(&mut out, writer)?;
        }
        for schedule in self.catalog.schedules.iter() {
            out.push(5);
            schedule.encode(&mut out);
            writer.counts.schedules += 1;
            write_if_full(&mut out, writer)?;
        }
        writer.block(Kind::Definitions, &out)
    }
}

fn write_if_full(out: &mut Vec<u8>, writer: &mut Writer) -> io::Result<()> {
    if out.len() >= BLOCK_BYTES {
        writer.block(Kind::Definitions, out)?;
        out.clear();
    }
    Ok(())
}

/// Tables on their way out of a file: rows come first, indexes at the end.
#[derive(Default)]
pub struct Loading {
    marks: Option<Marks>,
    /// The whole definitions.
    defs: Vec<TableDef>,
    /// Tables, views and rows so far.
    pub tables: u64,
    /// Views so far.
    pub views: u64,
    /// Libraries so far.
    pub libraries: u64,
    /// Triggers so far.
    pub triggers: u64,
    /// Schedules so far.
    pub schedules: u64,
    /// Rows so far.
    pub rows: u64,
}

const MISFIT: Malformed = Malformed("a definition that does not fit");

impl Loading {
    /// Takes in a block of definitions.
    pub fn definitions(&mut self, mut payload: &[u8], tables: &mut Tables) -> Decoded<()> {
        let input = &mut payload;
        while !input.is_empty() {
            match codec::take_byte(input)? {
                0 => {
                    let take_u32 = |input: &mut &[u8]| {
                        u32::try_from(codec::take_number(input)?).map_err(|_| Malformed("a number over 32 bits"))
                    };
                    let version = codec::take_number(input)?;
                    let (last_table, last_index) = (take_u32(input)?, take_u32(input)?);
                    self.marks = Some(Marks { version, last_table, last_index });
                }
                1 => self.table(input, tables)?,
                2 => {
                    let (name, sql) = (take_text(input)?, take_text(input)?);
                    let view = ViewDef { name: name.clone(), sql };
                    tables.restore_view(&name, Some(&view)).map_err(|_| MISFIT)?;
                    self.views += 1;
                }
                3 => {
                    let library = LibraryDef::decode(input)?;
                    if tables.catalog.libraries.get(&library.name).is_some() {
                        return Err(Malformed("a library twice"));
                    }
                    let name = library.name.clone();
                    tables.restore_library(&name, Some(Arc::new(library))).map_err(|_| MISFIT)?;
                    self.libraries += 1;
                }
                4 => {
                    let trigger = TriggerDef::decode(input)?;
                    if tables.catalog.triggers().get(&trigger.name).is_some() {
                        return Err(Malformed("a trigger twice"));
                    }
                    tables.restore_trigger(&trigger.name.clone(), Some(Arc::new(trigger)));
                    self.triggers += 1;
                }
                5 => {
                    let schedule = ScheduleDef::decode(input)?;
                    if tables.catalog.schedules.get(&schedule.name).is_some() {
                        return Err(Malformed("a schedule twice"));
                    }
                    tables.restore_schedule(&schedule.name.clone(), Some(Arc::new(schedule)));
                    self.schedules += 1;
                }
                _ => return Err(Malformed("an unknown definition")),
            }
        }
        Ok(())
    }

    fn table(&mut self, input: &mut &[u8], tables: &mut Tables) -> Decoded<()> {
        let sequence = codec::take_signed(input)?;
        let def = TableDef::decode(input).map_err(|_| Malformed("a damaged definition"))?;
        if tables.catalog.table_by_id(def.id).is_some() {
            return Err(Malformed("a table twice"));
        }
        let bare = TableDef { indexes: Vec::new(), ..def.clone() };
        tables.restore_definition(def.id, Some(&bare)).map_err(|_| MISFIT)?;
        tables.redo_raise(def.id, sequence).map_err(|_| MISFIT)?;
        self.defs.push(def);
        self.tables += 1;
        Ok(())
    }

    /// Takes in a block of rows.
    pub fn rows(&mut self, mut payload: &[u8], tables: &mut Tables) -> Decoded<()> {
        let input = &mut payload;
        let table = u32::try_from(codec::take_number(input)?).map_err(|_| Malformed("no such table"))?;
        let mut rows: Vec<(RowId, &[u8])> = Vec::new();
        let mut id = 0u64;
        while !input.is_empty() {
            let step = codec::take_number(input)?;
            if step == 0 && !rows.is_empty() {
                return Err(Malformed("a row id twice"));
            }
            id = id.checked_add(step).ok_or(Malformed("a row id over 64 bits"))?;
            rows.push((RowId(id), codec::take_bytes(input)?));
        }
        self.rows += rows.len() as u64;
        tables.load_rows(TableId(table), &rows).map_err(|_| Malformed("a row that does not fit its table"))
    }

    /// Ends it: makes the indexes.
    pub fn finish(self, tables: &mut Tables) -> Result<()> {
        tables.build_indexes(&self.defs)?;
        if let Some(marks) = self.marks {
            tables.catalog.resume(marks);
        }
        Ok(())
    }
}
