//! Rows by primary key without SQL: what TABLE.GET and its kin do.

use super::constraint::foreign_key;
use super::error::sql;
use super::executor::{in_scope, synchronize, table_info};
use super::fast::key::{Encoded, KeyColumn, encode};
use super::run::{Failure, Host, Run, Traits, until_ready};
use super::table_info::TableInfo;
use super::write::{self, Given, OnConflict};
use crate::engine::{Access, Cursor};
use crate::error::{Code, Error, Result};
use crate::limits;
use crate::table::batch::Batch;
use crate::table::catalog::{ColumnDef, IndexId};
use crate::table::datum::DatumRef;
use crate::table::key::KeyBuf;
use crate::table::row::Row;
use crate::table::row_id::RowId;
use crate::table::types::Storage;
use smallvec::SmallVec;
use std::sync::Arc;

/// Is shown the place of a key, the names of the columns and the values of the row that has it; an error ends the showing.
pub type ShowAt<'a> = &'a mut dyn FnMut(usize, &[&[u8]], &[DatumRef<'_>]) -> Result<()>;

/// A table and its primary key.
pub struct Records {
    /// What is known of the table.
    pub info: Arc<TableInfo>,
    key: IndexId,
    columns: SmallVec<[KeyColumn; 2]>,
    /// For each column of the key, whether it keeps bytes.
    blobs: SmallVec<[bool; 2]>,
}

impl Records {
    /// The table called `name`, which must have a primary key.
    pub fn open(host: &mut dyn Host, name: &[u8]) -> Result<Records> {
        let name = std::str::from_utf8(name).map_err(|_| sql("a table's name that is not UTF-8"))?;
        let info = table_info(host, name)?;
        let no_key = || sql(format!("table {} has no primary key", info.def.name));
        let index = info.def.primary_key().ok_or_else(no_key)?;
        let is_blob = |position: u16| info.def.stored[usize::from(position)].storage == Storage::Blob;
        Ok(Records {
            key: index.id,
            columns: KeyColumn::all(&info, index),
            blobs: index.columns.iter().map(|c| is_blob(c.position)).collect(),
            info,
        })
    }

    /// [`Records::open`] for a caller who comes often: what was found before is kept while no definition changes.
    #[inline]
    pub fn known(host: &mut dyn Host, name: &[u8]) -> Result<Arc<Records>> {
        synchronize(host)?;
        let known = host.sql().records.iter().find(|(known, _)| **known == *name).map(|(_, records)| records.clone());
        known.map_or_else(|| Records::learn(host, name), Ok)
    }

    #[cold]
    fn learn(host: &mut dyn Host, name: &[u8]) -> Result<Arc<Records>> {
        let records = Arc::new(Records::open(host, name)?);
        let all = &mut host.sql().records;
        if all.len() >= limits::RECORDS_KEPT {
            all.remove(0);
        }
        all.push((name.into(), records.clone()));
        Ok(records)
    }

    /// How many arguments make a key.
    pub fn key_parts(&self) -> usize {
        self.columns.len()
    }

    /// The keys that arguments spell, one value for each column of the key; a key that no row can have is left empty.
    fn keys(&self, parts: &[&[u8]]) -> Result<Batch> {
        let mut keys = Batch::new();
        let spelled = parts.iter().zip(self.blobs.iter().cycle());
        let values: SmallVec<[DatumRef<'_>; 4]> =
            spelled.map(|(part, blob)| if *blob { DatumRef::Blob(part) } else { DatumRef::Text(part) }).collect();
        self.encode_keys(&values, &mut keys)?;
        Ok(keys)
    }

    /// Adds the keys that have these values, one for each column of a key; a key that no row can have is left empty.
    fn encode_keys(&self, values: &[DatumRef<'_>], keys: &mut Batch) -> Result<()> {
        let width = self.key_parts();
        if values.is_empty() || !values.len().is_multiple_of(width) {
            let text = format!("a key of table {} has {width} values, {} given", self.info.def.name, values.len());
            return Err(Error::new(Code::Err, text));
        }
        let mut key = KeyBuf::new();
        for values in values.chunks(width) {
            key.clear();
            for ((value, column), blob) in values.iter().zip(&self.columns).zip(&self.blobs) {
                let value = match value {
                    DatumRef::Text(bytes) if *blob => DatumRef::Blob(bytes),
                    value => *value,
                };
                if encode(value, column, &mut key) != Encoded::Bytes {
                    key.clear();
                    break;
                }
            }
            keys.push(&key);
        }
        Ok(())
    }

    /// Shows the rows that have the keys with these values: the place of the key, and all columns or those named.
    pub fn show(
        &self,
        host: &mut dyn Host,
        keys: &[DatumRef<'_>],
        columns: Option<&[&[u8]]>,
        show: ShowAt<'_>,
    ) -> Result<()> {
        let mut encoded = std::mem::take(&mut host.sql().keys);
        encoded.clear();
        let shown =
            self.encode_keys(keys, &mut encoded).and_then(|()| self.show_encoded(host, &encoded, columns, show));
        host.sql().keys = encoded;
        shown
    }

    fn show_encoded(
        &self,
        host: &mut dyn Host,
        keys: &Batch,
        columns: Option<&[&[u8]]>,
        show: ShowAt<'_>,
    ) -> Result<()> {
        let mut names: SmallVec<[&[u8]; 8]> = SmallVec::new();
        let mut positions: SmallVec<[u16; 8]> = SmallVec::new();
        self.choose(columns, &mut |name, position| {
            names.push(name);
            positions.push(position);
        })?;
        let mut result = Ok(());
        until_ready(host, |host| {
            host.source().get_many(self.info.def.id, self.key, keys, &mut |place, _, row| {
                let mut values: SmallVec<[DatumRef<'_>; 8]> = SmallVec::new();
                positions.iter().for_each(|position| values.push(row.get(*position)));
                if result.is_ok() {
                    result = show(place, &names, &values);
                }
            })?;
            Ok(())
        })?;
        result
    }

    /// Gives the names and positions of all columns, or of those named.
    fn choose<'a>(&'a self, wanted: Option<&[&[u8]]>, take: &mut dyn FnMut(&'a [u8], u16)) -> Result<()> {
        let columns = &self.info.def.columns;
        let Some(wanted) = wanted else {
            columns.iter().filter(|c| !c.hidden).for_each(|c| take(c.name.as_bytes(), c.position));
            return Ok(());
        };
        for name in wanted {
            let column = &columns[self.info.column(&String::from_utf8_lossy(name))?];
            take(column.name.as_bytes(), column.position);
        }
        Ok(())
    }

    /// Shows the rows that have the keys, with the place of each key.
    pub fn get_many(
        &self,
        host: &mut dyn Host,
        parts: &[&[u8]],
        show: &mut dyn FnMut(usize, Row<'_>),
    ) -> Result<usize> {
        let keys = self.keys(parts)?;
        until_ready(host, |host| {
            Ok(host.source().get_many(self.info.def.id, self.key, &keys, &mut |place, _, row| show(place, row))?)
        })?;
        Ok(keys.len())
    }

    /// Inserts a row, or replaces those with the same unique keys. The arguments are column names and values in turn; a
    /// column that is not named gets its default.
    pub fn put(&self, host: &mut dyn Host, pairs: &[&[u8]]) -> Result<()> {
        let mut given: SmallVec<[Given<'_>; 16]> = SmallVec::from_elem(Given::Nothing, self.info.def.columns.len());
        for pair in pairs.chunks_exact(2) {
            let name = String::from_utf8_lossy(pair[0]);
            let column = self.info.column(&name)?;
            given[column] = Given::Value(self.value(&self.info.def.columns[column], pair[1]));
        }
        until_ready(host, |host| {
            in_scope(host, true, |host| {
                let evaluator = host.sql().evaluator();
                let evaluate = &mut |text: &str| evaluator.evaluate(text).map_err(Failure::from);
                let mut run = Run::new(host, &Traits::NONE);
                write::insert(&mut run, &self.info, &given, OnConflict::Replace, evaluate)?;
                foreign_key::finish(&mut run)
            })
        })
    }

    fn value<'a>(&self, column: &ColumnDef, bytes: &'a [u8]) -> DatumRef<'a> {
        let blob = self.info.def.stored[usize::from(column.position)].storage == Storage::Blob;
        if blob { DatumRef::Blob(bytes) } else { DatumRef::Text(bytes) }
    }

    /// Deletes the rows that have the keys; gives how many there were.
    pub fn delete(&self, host: &mut dyn Host, parts: &[&[u8]]) -> Result<u64> {
        let keys = self.keys(parts)?;
        until_ready(host, |host| {
            let mut ids: SmallVec<[RowId; 4]> = SmallVec::new();
            host.source().get_many(self.info.def.id, self.key, &keys, &mut |_, id, _| ids.push(id))?;
            in_scope(host, true, |host| {
                let mut run = Run::new(host, &Traits::NONE);
                for id in &ids {
                    write::delete(&mut run, &self.info, *id)?;
                }
                foreign_key::finish(&mut run)?;
                Ok(run.changed)
            })
        })
    }
}

/// Up to `count` rows in the order of their ids from a cursor on (0 begins), and the next cursor, 0 at the end.
pub fn scan<T>(
    host: &mut dyn Host,
    info: &TableInfo,
    from: u64,
    count: usize,
    make: impl Fn(Row<'_>) -> T,
) -> Result<(u64, Vec<T>)> {
    until_ready(host, |host| {
        let source = host.source();
        let mut cursor = Cursor::new();
        // A scan that has to wait begins anew, so its rows are its own.
        let (mut rows, mut bytes) = (Vec::new(), 0);
        // Cursors are row ids plus one, as 0 begins and ends.
        let first = RowId(from.saturating_sub(1).min(RowId::END.0));
        let mut more = source.seek(&mut cursor, info.def.id, &Access::From(first))?;
        while more && rows.len() < count && bytes < limits::SQL_RESULT_BYTES_MAX {
            let row = source.row(&cursor);
            bytes += row.bytes().len();
            rows.push(make(row));
            more = source.next(&mut cursor)?;
        }
        Ok((if more { cursor.row_id().0 + 1 } else { 0 }, rows))
    })
}
