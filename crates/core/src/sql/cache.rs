//! Statements by their text: what was compiled once is used again, with the catalog version it was made for.

use super::executor::Statement;
use super::fast;
use crate::ds::hash;
use crate::limits;
use smallvec::SmallVec;
use std::sync::Arc;

/// What a text was compiled to.
pub enum Compiled {
    /// Answered without SQLite.
    Fast(Arc<fast::Plan>),
    /// SQLite's; the statement is checked out while it runs, so that a nested use of the text gets another.
    Statement(Statement),
}

enum Kept {
    Fast(Arc<fast::Plan>),
    Statements(SmallVec<[Statement; 1]>),
}

struct Slot {
    text: Box<[u8]>,
    hash: u64,
    kept: Kept,
    /// Used since the hand last came by.
    used: bool,
    /// The next slot of the same bucket.
    next: u32,
    calls: u64,
    ns: u64,
    rows: u64,
}

/// How a statement was used since it came into the cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// Times it was called.
    pub calls: u64,
    /// Time it took, nanoseconds; not taken of those without SQLite.
    pub ns: u64,
    /// Rows returned or changed, likewise.
    pub rows: u64,
    /// It is answered without SQLite.
    pub fast: bool,
}

/// Where in the cache a text was once.
#[derive(Clone, Copy, Debug)]
pub struct Place(usize);

/// The cache. When it is full, a hand goes round and throws out what was not used since its last round.
pub struct Cache {
    slots: Vec<Slot>,
    /// The first slot of each bucket.
    buckets: Box<[u32]>,
    hand: usize,
    /// The slot found last: the requests of a pipeline are often alike.
    last: usize,
}

/// No slot.
const NONE: u32 = u32::MAX;
const BUCKETS: usize = (2 * limits::STATEMENTS_CACHED).next_power_of_two();

impl Default for Cache {
    fn default() -> Self {
        Cache { slots: Vec::new(), buckets: vec![NONE; BUCKETS].into(), hand: 0, last: 0 }
    }
}

/// Idle statements kept for one text: one, and one for a nested use.
const IDLE_MAX: usize = 2;

impl Cache {
    /// Forgets what all texts were compiled to: the catalog changed. How they were used is kept.
    pub fn clear(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.kept = Kept::Statements(SmallVec::new()));
    }

    /// All texts and how they were used.
    pub fn usages(&self) -> impl Iterator<Item = (&[u8], Usage)> {
        self.slots.iter().map(|slot| {
            let fast = matches!(slot.kept, Kept::Fast(_));
            (&*slot.text, Usage { calls: slot.calls, ns: slot.ns, rows: slot.rows, fast })
        })
    }

    /// Notes what one call of a text took and gave.
    pub fn note(&mut self, text: &[u8], ns: u64, rows: u64) {
        if let Some(slot) = self.find(text) {
            let slot = &mut self.slots[slot];
            slot.ns += ns;
            slot.rows += rows;
        }
    }

    /// Texts kept.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Is nothing kept?
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    #[inline]
    fn find(&self, text: &[u8]) -> Option<usize> {
        match self.slots.get(self.last) {
            Some(slot) if *slot.text == *text => Some(self.last),
            _ => self.search(text),
        }
    }

    fn search(&self, text: &[u8]) -> Option<usize> {
        let hash = hash::bytes(text);
        let mut at = self.buckets[hash as usize % BUCKETS];
        while let Some(slot) = self.slots.get(at as usize) {
            if slot.hash == hash && *slot.text == *text {
                return Some(at as usize);
            }
            at = slot.next;
        }
        None
    }

    /// What the text was compiled to; a statement is no longer in the cache then.
    #[inline]
    pub fn check_out(&mut self, text: &[u8]) -> Option<Compiled> {
        self.last = self.find(text)?;
        let slot = &mut self.slots[self.last];
        slot.used = true;
        slot.calls += 1;
        match &mut slot.kept {
            Kept::Fast(plan) => Some(Compiled::Fast(plan.clone())),
            Kept::Statements(idle) => idle.pop().map(Compiled::Statement),
        }
    }

    /// The plan that a text was compiled to, if it needs no SQLite.
    #[inline]
    pub fn fast(&self, text: &[u8]) -> Option<&fast::Plan> {
        match &self.slots[self.find(text)?].kept {
            Kept::Fast(plan) => Some(plan),
            Kept::Statements(_) => None,
        }
    }

    /// The plan that a text was compiled to, if it needs no SQLite, and where it is kept.
    pub fn place(&self, text: &[u8]) -> Option<(Arc<fast::Plan>, Place)> {
        let slot = self.find(text)?;
        match &self.slots[slot].kept {
            Kept::Fast(plan) => Some((plan.clone(), Place(slot))),
            Kept::Statements(_) => None,
        }
    }

    /// Is this plan kept at that place? Then it is used now.
    #[inline]
    pub fn is_at(&mut self, place: Place, plan: &Arc<fast::Plan>) -> bool {
        let Some(slot) = self.slots.get_mut(place.0) else { return false };
        let is_there = matches!(&slot.kept, Kept::Fast(kept) if Arc::ptr_eq(kept, plan));
        slot.used |= is_there;
        slot.calls += u64::from(is_there);
        is_there
    }

    /// Keeps a plan.
    pub fn keep_fast(&mut self, text: &[u8], plan: Arc<fast::Plan>) {
        match self.find(text) {
            Some(slot) => self.slots[slot].kept = Kept::Fast(plan),
            None => self.add(text, Kept::Fast(plan)),
        }
    }

    /// Keeps a statement that has run.
    #[inline]
    pub fn check_in(&mut self, text: &[u8], statement: Statement) {
        match self.find(text) {
            Some(slot) => {
                if let Kept::Statements(idle) = &mut self.slots[slot].kept
                    && idle.len() < IDLE_MAX
                {
                    idle.push(statement);
                }
            }
            None => self.add(text, Kept::Statements(SmallVec::from_iter([statement]))),
        }
    }

    fn add(&mut self, text: &[u8], kept: Kept) {
        if text.len() > limits::SQL_CACHED_BYTES_MAX {
            return;
        }
        let full = self.slots.len() >= limits::STATEMENTS_CACHED;
        let number = if full { self.victim() } else { self.slots.len() };
        let hash = hash::bytes(text);
        let bucket = &mut self.buckets[hash as usize % BUCKETS];
        let slot = Slot { text: text.into(), hash, kept, used: false, next: *bucket, calls: 1, ns: 0, rows: 0 };
        *bucket = number as u32;
        match self.slots.get_mut(number) {
            Some(old) => *old = slot,
            None => self.slots.push(slot),
        }
    }

    /// Takes the next slot that was not used out of its bucket.
    fn victim(&mut self) -> usize {
        loop {
            let number = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            if !std::mem::take(&mut self.slots[number].used) {
                self.unlink(number);
                return number;
            }
        }
    }

    fn unlink(&mut self, number: usize) {
        let (next, bucket) = (self.slots[number].next, self.slots[number].hash as usize % BUCKETS);
        let mut at = self.buckets[bucket];
        if at == number as u32 {
            self.buckets[bucket] = next;
            return;
        }
        while let Some(slot) = self.slots.get_mut(at as usize) {
            if slot.next == number as u32 {
                slot.next = next;
                return;
            }
            at = slot.next;
        }
    }
}
