//! Writing over a view: uniqueness against both sides, images, deletions, and all of it taken back.

use super::shadow::{Image, Place, Shadow};
use super::{Overlay, Written};
use crate::engine::{Changes, Engine, ReadError, RowOp, Source, Untold, WriteError, WriteFailure};
use crate::error::{Code, Error, Result};
use crate::reply::Blob;
use crate::table::batch::Batch;
use crate::table::catalog::{IndexId, TableId};
use crate::table::key::{KeyBuf, KeyOf, row_key};
use crate::table::row::Row;
use crate::table::row_id::RowId;

/// What finding a row written takes besides its bytes, about.
const ROW_OVERHEAD: usize = 96;

type One<T> = std::result::Result<T, WriteFailure>;

impl From<ReadError> for WriteFailure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotReady(wanted) => WriteFailure::NotReady(wanted),
            ReadError::Failed(error) => WriteFailure::Failed(error),
        }
    }
}

impl From<Error> for WriteFailure {
    fn from(error: Error) -> Self {
        WriteFailure::Failed(error)
    }
}

/// The failure of a write of one row, or of a call for one.
fn failure(error: WriteError) -> WriteFailure {
    error.failure
}

impl Overlay {
    /// Makes the private table for a table's first write.
    pub(super) fn prepare(&mut self, table: TableId) -> Result<()> {
        self.check(table)?;
        if self.written_in(table).is_none() {
            self.own.create_table(&self.base.definition(table)?.clone())?;
            self.written.push((table, Written::default()));
        }
        Ok(())
    }

    fn written_mut(&mut self, table: TableId) -> Result<&mut Written> {
        let found = self.written.iter_mut().find(|(id, _)| *id == table);
        found.map(|(_, written)| written).ok_or_else(|| Error::new(Code::Bug, "overlay: a table that was not prepared"))
    }

    /// There must be room for another row of so many bytes.
    fn check_room(&self, bytes: usize) -> Result<()> {
        let (rows_max, bytes_max) = (self.bounds.rows, self.bounds.bytes);
        if self.rows >= rows_max {
            return Err(too_large(format!("{rows_max} rows")));
        }
        if self.bytes + bytes + ROW_OVERHEAD > bytes_max {
            return Err(too_large(format!("{bytes_max} bytes")));
        }
        Ok(())
    }

    fn grow(&mut self, row: &[u8]) {
        self.rows += 1;
        self.bytes += row.len() + ROW_OVERHEAD;
    }

    fn shrink(&mut self, bytes: usize) {
        self.rows -= 1;
        self.bytes -= bytes + ROW_OVERHEAD;
    }

    fn insert_own(&mut self, table: TableId, row: &[u8]) -> One<RowId> {
        let mut ids = Vec::with_capacity(1);
        self.own.insert(table, &Batch::of(row), &mut ids, &mut Untold).map_err(failure)?;
        self.grow(row);
        Ok(ids[0])
    }

    fn update_own(&mut self, table: TableId, own: RowId, old_bytes: usize, row: &[u8]) -> One<()> {
        self.own.update(table, &[own], &Batch::of(row), &mut Untold).map_err(failure)?;
        self.bytes = self.bytes + row.len() - old_bytes;
        Ok(())
    }

    fn delete_own(&mut self, table: TableId, own: RowId, old_bytes: usize) -> One<()> {
        self.own.delete(table, &[own], &mut Untold).map_err(failure)?;
        self.shrink(old_bytes);
        Ok(())
    }

    /// The bytes of the row at a place.
    fn read(&self, table: TableId, place: Place) -> One<Option<Vec<u8>>> {
        let mut found = None;
        let keep = &mut |_: usize, row: Row<'_>| found = Some(row.bytes().to_vec());
        match place {
            Place::Base(id) => self.base.rows(table, &[id], keep)?,
            Place::Own(id) => self.own.rows(table, &[id], keep)?,
            Place::Nowhere => {}
        }
        Ok(found)
    }

    /// Looks, index by index, for another row with the row's key. Keys that the row keeps need no look.
    fn check_unique(&self, table: TableId, row: &[u8], old: Option<(RowId, &[u8])>) -> One<()> {
        let layout = self.base.layout(table)?;
        let (row, old) = (Row::new(row, layout), old.map(|(id, old)| (id, Row::new(old, layout))));
        let (mut key, mut old_key) = (KeyBuf::new(), KeyBuf::new());
        for index in self.base.definition(table)?.indexes.iter().filter(|index| index.unique) {
            let of = row_key(index, row, &mut key)?;
            if of != (KeyOf::Key { has_null: false }) {
                continue;
            }
            if let Some((_, old)) = old
                && row_key(index, old, &mut old_key)? == of
                && old_key == key
            {
                continue;
            }
            let existing = self.find(table, index.id, &key)?;
            if let Some(existing) = existing.filter(|id| old.is_none_or(|(own_id, _)| own_id != *id)) {
                return Err(WriteFailure::Duplicate { index: index.id, existing });
            }
        }
        Ok(())
    }

    /// A row with a key in a unique index.
    fn find(&self, table: TableId, index: IndexId, key: &[u8]) -> One<Option<RowId>> {
        let mut found = None;
        self.get_many(table, index, &Batch::of(key), &mut |_, id, _| found = Some(id))?;
        Ok(found)
    }

    /// Inserts a row under a provisional id.
    pub(super) fn insert_row(&mut self, table: TableId, row: &[u8], changes: &mut dyn Changes) -> One<RowId> {
        self.check_room(row.len())?;
        self.check_unique(table, row, None)?;
        let own = self.insert_own(table, row)?;
        let id = self.written_mut(table)?.id_of(own);
        changes.inserted(table, id, row);
        Ok(id)
    }

    /// Replaces a row, of the view or private.
    pub(super) fn update_row(&mut self, table: TableId, id: RowId, row: &[u8], changes: &mut dyn Changes) -> One<()> {
        let place = self.written_mut(table)?.place(id);
        let old = self.read(table, place)?.ok_or(WriteFailure::NoSuchRow(id))?;
        self.check_unique(table, row, Some((id, &old)))?;
        self.check_room(row.len())?;
        let image = match place {
            Place::Own(own) => {
                self.update_own(table, own, old.len(), row)?;
                match self.written_mut(table)?.shadows.get(&id) {
                    Some(Shadow::Replaced(image)) => Some(Image { updates: image.updates + 1, ..*image }),
                    _ => None,
                }
            }
            _ => Some(Image { own: self.insert_own(table, row)?, updates: 1, put_back: false }),
        };
        if let Some(image) = image {
            self.written_mut(table)?.set(id, Some(Shadow::Replaced(image)));
        }
        changes.updated(table, id, &old, row);
        Ok(())
    }

    /// Deletes a row, of the view or private.
    pub(super) fn delete_row(&mut self, table: TableId, id: RowId, changes: &mut dyn Changes) -> One<()> {
        let place = self.written_mut(table)?.place(id);
        let old = self.read(table, place)?.ok_or(WriteFailure::NoSuchRow(id))?;
        let image = match (place, self.written_mut(table)?.shadows.get(&id).copied()) {
            (Place::Own(own), shadow) => {
                self.delete_own(table, own, old.len())?;
                match shadow {
                    Some(Shadow::Replaced(image)) => Some(image),
                    _ => None,
                }
            }
            _ => {
                self.check_room(old.len())?;
                // Kept for good, so it counts for good.
                if self.written_mut(table)?.deleted.insert(id, old.as_slice().into()).is_none() {
                    self.bytes += old.len();
                }
                None
            }
        };
        if id.0 < super::PROVISIONAL {
            self.written_mut(table)?.set(id, Some(Shadow::Deleted(image)));
            self.grow(&[]);
        }
        changes.deleted(table, id, &old);
        Ok(())
    }

    /// Performs the inverse of a write, or puts a deleted row back as another one; gives the inverse of that.
    pub(super) fn take_back(&mut self, table: TableId, op: &RowOp) -> Result<RowOp> {
        let shadow = self.written_mut(table)?.shadows.get(&op.id()).copied();
        let misfit = || Error::new(Code::Bug, "overlay: an inverse that does not fit");
        let place = self.written_mut(table)?.place(op.id());
        let old = match place {
            Place::Base(id) => self.written_mut(table)?.deleted.get(&id).map(|row| row.to_vec()),
            place => self.read(table, place).map_err(|_| misfit())?,
        };
        match (op, place, shadow, old) {
            // A deletion is undone: of an image, of a row of the view, of a new row.
            (RowOp::Insert { id, row }, _, Some(Shadow::Deleted(image)), _) => {
                let image = match image {
                    Some(image) => {
                        self.own.apply(table, &RowOp::Insert { id: image.own, row: row.clone() })?;
                        self.grow(row);
                        Some(image)
                    }
                    None if self.written_mut(table)?.deleted.get(id).is_some_and(|known| **known == **row) => None,
                    None => {
                        let own = self.insert_own(table, row).map_err(|_| misfit())?;
                        Some(Image { own, updates: 0, put_back: true })
                    }
                };
                self.shrink(0);
                self.written_mut(table)?.set(*id, image.map(Shadow::Replaced));
                Ok(RowOp::Delete { id: *id })
            }
            (RowOp::Insert { id, row }, Place::Own(own), None, None) => {
                self.own.apply(table, &RowOp::Insert { id: own, row: row.clone() })?;
                self.grow(row);
                Ok(RowOp::Delete { id: *id })
            }
            // An update is undone; with the first one of a row of the view its image goes.
            (RowOp::Update { id, row }, Place::Own(own), shadow, Some(old)) => {
                match shadow {
                    Some(Shadow::Replaced(image)) if image.updates <= 1 && !image.put_back => {
                        self.own.apply(table, &RowOp::Delete { id: own })?;
                        self.shrink(old.len());
                        self.written_mut(table)?.set(*id, None);
                    }
                    shadow => {
                        self.own.apply(table, &RowOp::Update { id: own, row: row.clone() })?;
                        self.bytes = self.bytes + row.len() - old.len();
                        if let Some(Shadow::Replaced(image)) = shadow {
                            let image = Image { updates: image.updates - 1, ..image };
                            self.written_mut(table)?.set(*id, Some(Shadow::Replaced(image)));
                        }
                    }
                }
                Ok(RowOp::Update { id: *id, row: Blob::from_slice(&old) })
            }
            // Putting back is undone: of a row that had an image before, or had none.
            (RowOp::Delete { id }, _, Some(Shadow::Replaced(image)), Some(old)) => {
                self.own.apply(table, &RowOp::Delete { id: image.own })?;
                self.shrink(old.len());
                self.grow(&[]);
                let image = Some(image).filter(|image| image.updates > 0 || !image.put_back);
                self.written_mut(table)?.set(*id, Some(Shadow::Deleted(image)));
                Ok(RowOp::Insert { id: *id, row: Blob::from_slice(&old) })
            }
            (RowOp::Delete { id }, Place::Base(_), None, Some(old)) => {
                self.written_mut(table)?.set(*id, Some(Shadow::Deleted(None)));
                self.grow(&[]);
                Ok(RowOp::Insert { id: *id, row: Blob::from_slice(&old) })
            }
            // An insertion is undone.
            (RowOp::Delete { id }, Place::Own(own), None, Some(old)) => {
                self.own.apply(table, &RowOp::Delete { id: own })?;
                self.shrink(old.len());
                Ok(RowOp::Insert { id: *id, row: Blob::from_slice(&old) })
            }
            _ => Err(misfit()),
        }
    }
}

#[cold]
fn too_large(what: String) -> Error {
    let text = format!("the transaction would write more than {what}: commit in smaller parts");
    Error::new(Code::Limit, text)
}
