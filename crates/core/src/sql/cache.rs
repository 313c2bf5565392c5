//! Statements by their text: what was compiled once is used again, with the catalog version it was made for.

use super::executor::Statement;
use super::fast;
use crate::limits;
use hashbrown::{DefaultHashBuilder, HashTable};
use smallvec::SmallVec;
use std::hash::BuildHasher;
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
    kept: Kept,
    /// Used since the hand last came by.
    used: bool,
}

/// The cache. When it is full, a hand goes round and throws out what was not used since its last round.
#[derive(Default)]
pub struct Cache {
    table: HashTable<u32>,
    slots: Vec<Slot>,
    hand: usize,
    hasher: DefaultHashBuilder,
}

/// Idle statements kept for one text: one, and one for a nested use.
const IDLE_MAX: usize = 2;

impl Cache {
    /// Forgets everything: the catalog changed.
    pub fn clear(&mut self) {
        self.table.clear();
        self.slots.clear();
        self.hand = 0;
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
        let hash = self.hasher.hash_one(text);
        self.table.find(hash, |&slot| *self.slots[slot as usize].text == *text).map(|&slot| slot as usize)
    }

    /// What the text was compiled to; a statement is no longer in the cache then.
    #[inline]
    pub fn check_out(&mut self, text: &[u8]) -> Option<Compiled> {
        let slot = self.find(text)?;
        let slot = &mut self.slots[slot];
        slot.used = true;
        match &mut slot.kept {
            Kept::Fast(plan) => Some(Compiled::Fast(plan.clone())),
            Kept::Statements(idle) => idle.pop().map(Compiled::Statement),
        }
    }

    /// Keeps a plan.
    pub fn keep_fast(&mut self, text: &[u8], plan: Arc<fast::Plan>) {
        if self.find(text).is_none() {
            self.add(text, Kept::Fast(plan));
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
        let slot = Slot { text: text.into(), kept, used: false };
        let number = if self.slots.len() < limits::STATEMENTS_CACHED {
            self.slots.push(slot);
            self.slots.len() - 1
        } else {
            let number = self.victim();
            self.slots[number] = slot;
            number
        };
        let (slots, hasher) = (&self.slots, &self.hasher);
        let hash = hasher.hash_one(text);
        self.table.insert_unique(hash, number as u32, |&slot| hasher.hash_one(&*slots[slot as usize].text));
    }

    /// Takes the next slot that was not used out of the table.
    fn victim(&mut self) -> usize {
        loop {
            let number = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            if std::mem::take(&mut self.slots[number].used) {
                continue;
            }
            let hash = self.hasher.hash_one(&*self.slots[number].text);
            if let Ok(entry) = self.table.find_entry(hash, |&slot| slot as usize == number) {
                entry.remove();
            }
            return number;
        }
    }
}
