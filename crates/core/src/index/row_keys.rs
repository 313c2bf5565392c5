//! The keys that rows have in an index, read from the rows: a hash index keeps none itself.

use crate::ds::hash;
use crate::table::catalog::IndexDef;
use crate::table::heap::Rows;
use crate::table::key::{KeyBuf, row_has_key, row_key};
use crate::table::row::{Row, RowLayout};
use crate::table::row_id::RowId;

/// The rows of a table as an index sees them.
#[derive(Clone, Copy)]
pub struct RowKeys<'a> {
    /// The rows.
    pub rows: &'a Rows,
    /// How they are encoded.
    pub layout: &'a RowLayout,
    /// What makes a key of a row.
    pub def: &'a IndexDef,
}

impl<'a> RowKeys<'a> {
    /// The row with this id.
    #[inline]
    pub fn row(&self, id: RowId) -> Option<Row<'a>> {
        self.rows.get(id).map(|bytes| Row::new(bytes, self.layout))
    }

    /// Has the row this key?
    #[inline]
    pub fn has_key(&self, id: RowId, key: &[u8]) -> bool {
        self.row_with_key(id, key).is_some()
    }

    /// The row with this id, if it has this key.
    #[inline]
    pub fn row_with_key(&self, id: RowId, key: &[u8]) -> Option<Row<'a>> {
        self.row(id).filter(|row| row_has_key(self.def, *row, key))
    }

    /// The hash of the row's key. Only of rows in the index, whose keys are within the limits.
    #[inline]
    pub fn hash(&self, id: RowId) -> u64 {
        let mut key = KeyBuf::new();
        match self.row(id).map(|row| row_key(self.def, row, &mut key)) {
            Some(Ok(_)) => hash::bytes(&key),
            _ => unreachable!("index {} has an entry for row {id}, which is not there", self.def.name),
        }
    }
}
