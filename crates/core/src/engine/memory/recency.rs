//! The order in which a bounded table's rows go: that of their coming, and for LRU with a second chance for those used.
//!
//! A ring of row ids, oldest first, and beside it what is known of each row. A row that is used only gets a mark; when it is
//! its turn to go, the mark is taken and it goes to the end instead (the algorithm CLOCK). So reading costs one look-up,
//! and the order among rows used since the ring went round is that of their coming.

use crate::table::catalog::{Bound, Evict};
use crate::table::row_id::RowId;
use hashbrown::HashMap;
use std::cell::Cell;
use std::collections::VecDeque;

/// The order of one table's rows.
pub(super) struct Recency {
    marks: bool,
    /// Ids with the number under which they came; what `known` has under another number, or not at all, is void.
    ring: VecDeque<(RowId, u32)>,
    known: HashMap<RowId, Cell<u32>>,
    last: u32,
}

/// The mark of a row that was used.
const USED: u32 = 1 << 31;
/// Second chances at one turn. In a table whose rows are all in use the next one goes after that.
const CHANCES: usize = 64;

impl Recency {
    /// No rows are known yet. None: the bound lets none go.
    pub fn new(bound: Option<Bound>) -> Option<Box<Recency>> {
        let marks = match bound?.evict {
            Evict::Refuse => return None,
            Evict::Lru => true,
            Evict::Fifo => false,
        };
        Some(Box::new(Recency { marks, ring: VecDeque::new(), known: HashMap::new(), last: 0 }))
    }

    /// The same order under another bound.
    pub fn follow(old: Option<Box<Recency>>, bound: Option<Bound>) -> Option<Box<Recency>> {
        let new = Recency::new(bound)?;
        match old {
            Some(old) => Some(Box::new(Recency { marks: new.marks, ..*old })),
            None => Some(new),
        }
    }

    /// A row has come.
    pub fn added(&mut self, id: RowId) {
        let number = self.number(id);
        self.ring.push_back((id, number));
    }

    /// Rows that are known.
    pub fn len(&self) -> u64 {
        self.known.len() as u64
    }

    /// Those of a table's rows, given in the order in which they came, that are not known are the oldest.
    pub fn adopt(&mut self, rows: &[RowId]) {
        for id in rows.iter().rev() {
            if !self.known.contains_key(id) {
                let number = self.number(*id);
                self.ring.push_front((*id, number));
            }
        }
    }

    fn number(&mut self, id: RowId) -> u32 {
        self.last = (self.last + 1) & !USED;
        self.known.insert(id, Cell::new(self.last));
        self.last
    }

    /// A row was read or written.
    #[inline]
    pub fn used(&self, id: RowId) {
        if self.marks
            && let Some(known) = self.known.get(&id)
        {
            known.set(known.get() | USED);
        }
    }

    /// A row is gone.
    pub fn removed(&mut self, id: RowId) {
        self.known.remove(&id);
        if self.ring.len() > 2 * self.known.len() + CHANCES {
            let known = &self.known;
            self.ring.retain(|(id, number)| known.get(id).is_some_and(|known| known.get() & !USED == *number));
        }
    }

    /// The row that is to go next: not the newest, for whose sake it goes. None: none is known.
    pub fn next(&mut self) -> Option<RowId> {
        let mut chances = CHANCES;
        loop {
            let (id, number) = self.ring.pop_front()?;
            let Some(known) = self.known.get(&id).filter(|known| known.get() & !USED == number) else { continue };
            let stays = known.get() & USED != 0 || number == self.last;
            if !stays || chances == 0 {
                // Until it is deleted it stays in its place.
                self.ring.push_front((id, number));
                return Some(id);
            }
            chances -= 1;
            known.set(number);
            self.ring.push_back((id, number));
        }
    }

    /// Bytes.
    pub fn memory(&self) -> usize {
        self.ring.capacity() * size_of::<(RowId, u32)>() + self.known.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recency(evict: Evict) -> Recency {
        *Recency::new(Some(Bound { max_rows: 10, evict })).unwrap()
    }

    fn order(mut recency: Recency) -> Vec<u64> {
        std::iter::from_fn(|| {
            let id = recency.next()?;
            recency.removed(id);
            Some(id.0)
        })
        .collect()
    }

    #[test]
    fn the_first_to_come_is_the_first_to_go() {
        let mut fifo = recency(Evict::Fifo);
        (0..5).for_each(|id| fifo.added(RowId(id)));
        fifo.used(RowId(0));
        fifo.removed(RowId(1));
        // An id that is used again is a new row.
        fifo.added(RowId(1));
        assert_eq!(vec![0, 2, 3, 4, 1], order(fifo));
        assert!(Recency::new(Some(Bound { max_rows: 10, evict: Evict::Refuse })).is_none());
    }

    #[test]
    fn what_was_used_gets_a_second_chance() {
        let mut lru = recency(Evict::Lru);
        lru.added(RowId(9));
        lru.adopt(&[0, 1, 2, 3, 4, 9].map(RowId));
        [1, 3].into_iter().for_each(|id| lru.used(RowId(id)));
        lru.added(RowId(5));
        assert_eq!(7, lru.len());
        // 3 and 1 were read; 5, the newest, is passed over once.
        assert_eq!(vec![0, 2, 4, 9, 1, 3, 5], order(lru));
    }

    #[test]
    fn rows_all_in_use_do_not_hold_up_for_long() {
        let mut lru = recency(Evict::Lru);
        (0..1000).for_each(|id| lru.added(RowId(id)));
        (0..1000).for_each(|id| lru.used(RowId(id)));
        assert_eq!(Some(RowId(CHANCES as u64)), lru.next());
    }

    #[test]
    fn deletions_leave_no_rubbish() {
        let mut fifo = recency(Evict::Fifo);
        for id in 0..100_000 {
            fifo.added(RowId(id % 7));
            fifo.removed(RowId(id % 7));
        }
        assert!(fifo.ring.len() <= CHANCES + 1, "{}", fifo.ring.len());
    }
}
