//! Takes rows from behind the last one found, where a join asks for them in the order in which they lie.

use crate::engine::{Access, Cursor, Read, Source};
use crate::table::catalog::TableId;
use crate::table::datum::DatumRef;
use crate::table::row::Row;
use crate::table::row_id::RowId;

/// A walk beside the look-ups of a unique key that is one integer.
#[derive(Default)]
pub struct Follow {
    /// Stands on the row found last, when it is on.
    cursor: Cursor,
    on: bool,
    /// The position of the key.
    position: u16,
    /// The row found last, and how many of the last batch lay behind the one before.
    last: RowId,
    rising: usize,
}

impl Follow {
    /// Is the next row likely to be the next one asked for?
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// The row behind the last one, if its key is the wanted one. None: it is to be looked up.
    #[inline]
    pub fn next<'a>(
        &'a mut self,
        source: &'a dyn Source,
        table: TableId,
        wanted: DatumRef<'_>,
    ) -> Read<Option<Row<'a>>> {
        if self.cursor.step() || source.next(&mut self.cursor)? {
            let layout = source.layout(table)?;
            if let (Some(row), DatumRef::Int(wanted)) = (self.cursor.at_hand(), wanted) {
                // SAFETY: the cursor stands on the row until the next call, and is borrowed.
                let row = unsafe { row.get() };
                if layout.number(row, self.position).is_some_and(|own| own == DatumRef::Int(wanted)) {
                    return Ok(Some(Row::new(row, layout)));
                }
            }
        }
        self.on = false;
        self.cursor.close();
        Ok(None)
    }

    /// A batch of look-ups begins.
    pub fn begin(&mut self) {
        self.rising = 0;
    }

    /// A look-up has found this row.
    #[inline]
    pub fn note(&mut self, id: RowId) {
        self.rising += usize::from(id.0 == self.last.0 + 1);
        self.last = id;
    }

    /// The batch has ended. If nearly all rows lay behind each other, those behind the last one are laid at hand.
    pub fn end(&mut self, source: &dyn Source, table: TableId, position: u16, batch: usize) -> Read<()> {
        // At the end of a page the next row has another number.
        if batch < 32 || self.rising + 4 < batch {
            return Ok(());
        }
        self.position = position;
        self.on = source.seek(&mut self.cursor, table, &Access::From(self.last))? && self.cursor.at_hand().is_some();
        if !self.on {
            self.cursor.close();
        }
        Ok(())
    }
}
