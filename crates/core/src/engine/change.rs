//! Changes of rows: what writing calls report, and the operation that redoes or undoes one of them.

use crate::error::Result;
use crate::reply::Blob;
use crate::table::catalog::TableId;
use crate::table::datum::{damaged, put_bytes, put_varint, take, take_bytes, take_varint};
use crate::table::row_id::RowId;

/// Is told of each change as it happens. The bytes are borrowed, so that nothing is copied when nobody logs or undoes.
///
/// A call is made when the change is certain to succeed and, for `old`, just before the bytes go.
pub trait Changes {
    /// A row was inserted.
    fn inserted(&mut self, table: TableId, id: RowId, row: &[u8]);
    /// A row was replaced.
    fn updated(&mut self, table: TableId, id: RowId, old: &[u8], new: &[u8]);
    /// A row was deleted.
    fn deleted(&mut self, table: TableId, id: RowId, old: &[u8]);
}

/// For writes that nobody logs or undoes.
pub struct Untold;

impl Changes for Untold {
    fn inserted(&mut self, _: TableId, _: RowId, _: &[u8]) {}
    fn updated(&mut self, _: TableId, _: RowId, _: &[u8], _: &[u8]) {}
    fn deleted(&mut self, _: TableId, _: RowId, _: &[u8]) {}
}

/// One change of one row, complete enough to be done again or, as the inverse of another, to undo that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowOp {
    /// Put a row where none is.
    Insert {
        /// Its id.
        id: RowId,
        /// Its bytes.
        row: Blob,
    },
    /// Put a row in the place of the one with this id.
    Update {
        /// Its id.
        id: RowId,
        /// Its new bytes.
        row: Blob,
    },
    /// Remove the row with this id.
    Delete {
        /// Its id.
        id: RowId,
    },
}

impl RowOp {
    /// The row it changes.
    pub fn id(&self) -> RowId {
        match self {
            RowOp::Insert { id, .. } | RowOp::Update { id, .. } | RowOp::Delete { id } => *id,
        }
    }

    /// Appends the deterministic encoding: kind, row id (LEB128), then length and bytes of the row.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            RowOp::Insert { id, row } => encode_row(0, *id, row, out),
            RowOp::Update { id, row } => encode_row(1, *id, row, out),
            RowOp::Delete { id } => {
                out.push(2);
                put_varint(out, id.0);
            }
        }
    }

    /// Reads what [`encode`](Self::encode) wrote and moves `input` past it. The row bytes are checked when applied.
    pub fn decode(input: &mut &[u8]) -> Result<RowOp> {
        let kind = take(input, 1)?[0];
        let id = RowId(take_varint(input)?);
        Ok(match kind {
            0 => RowOp::Insert { id, row: Blob::from_slice(take_bytes(input)?) },
            1 => RowOp::Update { id, row: Blob::from_slice(take_bytes(input)?) },
            2 => RowOp::Delete { id },
            _ => return Err(damaged()),
        })
    }
}

fn encode_row(kind: u8, id: RowId, row: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    put_varint(out, id.0);
    put_bytes(out, row);
}

/// Collects both directions of each change: what a log and an undo scope keep. `undo` is to be applied from its end.
#[derive(Debug, Default)]
pub struct Collected {
    /// The changes.
    pub redo: Vec<(TableId, RowOp)>,
    /// Their inverses.
    pub undo: Vec<(TableId, RowOp)>,
}

impl Changes for Collected {
    fn inserted(&mut self, table: TableId, id: RowId, row: &[u8]) {
        self.redo.push((table, RowOp::Insert { id, row: Blob::from_slice(row) }));
        self.undo.push((table, RowOp::Delete { id }));
    }

    fn updated(&mut self, table: TableId, id: RowId, old: &[u8], new: &[u8]) {
        self.redo.push((table, RowOp::Update { id, row: Blob::from_slice(new) }));
        self.undo.push((table, RowOp::Update { id, row: Blob::from_slice(old) }));
    }

    fn deleted(&mut self, table: TableId, id: RowId, old: &[u8]) {
        self.redo.push((table, RowOp::Delete { id }));
        self.undo.push((table, RowOp::Insert { id, row: Blob::from_slice(old) }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_read_back_and_refuse_cut_input() {
        let row = Blob::from_slice(b"row bytes");
        let id = RowId::new(70_000, 3);
        for op in [RowOp::Insert { id, row: row.clone() }, RowOp::Update { id, row }, RowOp::Delete { id }] {
            let mut bytes = Vec::new();
            op.encode(&mut bytes);
            assert_eq!(op, RowOp::decode(&mut &bytes[..]).unwrap());
            for cut in 0..bytes.len() {
                assert!(RowOp::decode(&mut &bytes[..cut]).is_err());
            }
        }
        assert!(RowOp::decode(&mut &[9, 0][..]).is_err());
    }
}
