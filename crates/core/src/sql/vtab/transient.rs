//! A hash table over one column, made for the length of one statement, for equalities that no index answers.
//!
//! It finds every row that could match and some that do not (it compares hashes only): SQLite checks each.

use crate::ds::hash;
use crate::engine::{Access, Cursor, Source};
use crate::sql::run::Outcome;
use crate::table::catalog::{IndexColumn, TableId};
use crate::table::datum::DatumRef;
use crate::table::key::{KeyBuf, put_column};
use crate::table::row::Row;
use crate::table::row_id::RowId;

/// The table: chains of entries.
pub struct Transient {
    heads: Vec<u32>,
    entries: Vec<Entry>,
    column: IndexColumn,
}

#[derive(Clone, Copy)]
struct Entry {
    id: RowId,
    hash: u32,
    next: u32,
}

const NONE: u32 = u32::MAX;

impl Transient {
    /// Reads the whole table once.
    pub fn build(source: &dyn Source, table: TableId, column: IndexColumn) -> Outcome<Transient> {
        let rows = source.row_count(table)? as usize;
        let heads = vec![NONE; rows.next_power_of_two().max(16)];
        let mut made = Transient { heads, entries: Vec::with_capacity(rows), column };
        let mut cursor = Cursor::new();
        let layout = source.layout(table)?;
        let mut more = source.seek(&mut cursor, table, &Access::All)?;
        while more {
            let row = match cursor.at_hand() {
                // SAFETY: the cursor stands on the row, and the source is borrowed.
                Some(row) => Row::new(unsafe { row.get() }, layout),
                None => source.row(&cursor),
            };
            made.add(row.get(column.position), cursor.row_id());
            more = cursor.step() || source.next(&mut cursor)?;
        }
        Ok(made)
    }

    /// Rows in it.
    pub fn rows(&self) -> u64 {
        self.entries.len() as u64
    }

    fn add(&mut self, value: DatumRef<'_>, id: RowId) {
        // NULL equals nothing. Entries past 2^32 - 1 cannot be: a table of that many rows is no memory table.
        if value.is_null() || self.entries.len() >= NONE as usize {
            return;
        }
        let hash = self.hash(value);
        let slot = hash as usize & (self.heads.len() - 1);
        self.entries.push(Entry { id, hash, next: self.heads[slot] });
        self.heads[slot] = (self.entries.len() - 1) as u32;
    }

    /// Appends the ids of all rows that may have the value, in the order of the scan.
    pub fn find(&self, value: DatumRef<'_>, ids: &mut Vec<RowId>) {
        let hash = self.hash(value);
        let mut at = self.heads[hash as usize & (self.heads.len() - 1)];
        let start = ids.len();
        while at != NONE {
            let entry = self.entries[at as usize];
            if entry.hash == hash {
                ids.push(entry.id);
            }
            at = entry.next;
        }
        ids[start..].reverse();
    }

    /// Values that compare equal have equal keys, hence equal hashes.
    fn hash(&self, value: DatumRef<'_>) -> u32 {
        let mut key = KeyBuf::new();
        put_column(value, &self.column, &mut key);
        hash::bytes(&key) as u32
    }
}
