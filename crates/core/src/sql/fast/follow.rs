//! Takes rows from behind the last one found, where a join asks for them in the order in which they lie.

use crate::engine::{Access, Cursor, Read, RowBytes, Source};
use crate::table::catalog::TableId;
use crate::table::datum::DatumRef;
use crate::table::row::RowLayout;
use crate::table::row_id::RowId;

/// Rows that are looked at: where rows were placed in gaps, or are missing, the next one is a little further on.
const AHEAD_MOST: usize = 4;
/// So many rows that are not there end it.
const MISSED_MOST: usize = 8;

/// Where a key was seen.
enum Seen {
    /// So many rows ahead.
    At(usize),
    /// Not in the rows that are left at hand.
    Not,
    /// Not in those that were looked at.
    Further,
}

/// A walk beside the look-ups of a unique key that is one integer.
#[derive(Default)]
pub struct Follow {
    /// Stands on the row found last, when it is on.
    cursor: Cursor,
    on: bool,
    /// The position of the key.
    position: u16,
    /// The next row to look at: 1, or 0 when the cursor stands on one that was not looked at.
    from: usize,
    /// So many rows were asked for in turn that were not there.
    missed: usize,
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

    /// The row behind the last one, or a few further on, if its key is the wanted one. None: it is to be looked up. The row
    /// stays where it is until the next call, or the end of a large batch of look-ups.
    #[inline(always)]
    pub fn next(&mut self, source: &dyn Source, layout: &RowLayout, wanted: DatumRef<'_>) -> Read<Option<RowBytes>> {
        let DatumRef::Int(wanted) = wanted else { return Ok(None) };
        if let Some(row) = self.cursor.ahead_at_hand(self.from)
            // SAFETY: the row is at hand of the cursor, which does not move meanwhile.
            && layout.number(unsafe { row.get() }, self.position) == Some(DatumRef::Int(wanted))
        {
            self.cursor.step_over(self.from);
            (self.from, self.missed) = (1, 0);
            return Ok(Some(row));
        }
        self.search(source, layout, wanted)
    }

    /// The same, where it is not the very next row.
    #[inline(never)]
    fn search(&mut self, source: &dyn Source, layout: &RowLayout, wanted: i64) -> Read<Option<RowBytes>> {
        let seen = match self.look(layout, wanted) {
            Seen::Not if self.turn_page(source)? => self.look(layout, wanted),
            seen => seen,
        };
        if let Seen::At(rows) = seen {
            (self.from, self.missed) = (1, 0);
            self.cursor.step_over(rows);
            return Ok(self.cursor.at_hand());
        }
        self.missed += 1;
        if self.missed > MISSED_MOST {
            self.stop();
        }
        Ok(None)
    }

    /// Looks for a key among the next rows.
    fn look(&self, layout: &RowLayout, wanted: i64) -> Seen {
        for ahead in self.from..self.from + AHEAD_MOST {
            let Some(row) = self.cursor.ahead_at_hand(ahead) else { return Seen::Not };
            // SAFETY: the row is at hand of the cursor, which does not move meanwhile.
            if layout.number(unsafe { row.get() }, self.position) == Some(DatumRef::Int(wanted)) {
                return Seen::At(ahead);
            }
        }
        Seen::Further
    }

    /// Lays the rows behind those at hand at hand. False: there are none.
    #[cold]
    fn turn_page(&mut self, source: &dyn Source) -> Read<bool> {
        while self.cursor.step() {}
        self.from = 0;
        if !self.on || !source.next(&mut self.cursor)? {
            self.stop();
        }
        Ok(self.on)
    }

    fn stop(&mut self) {
        self.on = false;
        self.cursor.close();
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
        (self.position, self.from, self.missed) = (position, 1, 0);
        self.on = source.seek(&mut self.cursor, table, &Access::From(self.last))? && self.cursor.at_hand().is_some();
        if !self.on {
            self.stop();
        }
        Ok(())
    }
}
