//! The index of keys with a deadline: finds the due ones without touching the others.
//!
//! A second dict over the same entries. Each slot holds the entry's address (divided by 16: 44 bits) and 20 bits of a
//! coarse deadline, so a sweep reads buckets one after another (15 bytes and about 4 ns a key) and touches an entry
//! when its coarse deadline has come.
//!
//! The coarse deadline counts seconds modulo 2^20 and never lies after the true one. It may lie before: a deadline that
//! moves later (SET with EX of a key that has one, the common case) leaves the index alone; the sweep that comes too
//! early notes the true second. Deadlines far ahead are noted as three days ahead for the same reason.

use super::entry::EntrySlot;
use crate::ds::dict::{Dict, Slot};
use crate::ds::hash;
use crate::env::Xoshiro;

const ADDRESS_BITS: u32 = 44;
const SECOND_MASK: i64 = (1 << 20) - 1;
/// Coarse deadlines less than this behind the clock are due, others are to come: 6 days.
const HALF_CIRCLE_S: i64 = 1 << 19;
/// No coarse deadline is noted farther ahead: 3 days.
const AHEAD_MAX_S: i64 = 1 << 18;
/// When the clock has jumped by more, all coarse deadlines are noted anew: 1.5 days.
const JUMP_S: i64 = 1 << 17;

/// An entry's address and its coarse deadline.
#[derive(Clone, Copy)]
struct Timed(u64);

impl Timed {
    fn new(slot: EntrySlot, second: i64) -> Self {
        Timed(slot.to_bits() >> 4 | ((second & SECOND_MASK) as u64) << ADDRESS_BITS)
    }

    fn slot(self) -> EntrySlot {
        EntrySlot::from_bits((self.0 & ((1 << ADDRESS_BITS) - 1)) << 4)
    }

    fn is_due(self, now_s: i64) -> bool {
        (now_s - (self.0 >> ADDRESS_BITS) as i64) & SECOND_MASK < HALF_CIRCLE_S
    }
}

impl Slot for Timed {
    const WIDTH: usize = 8;
    fn to_bits(self) -> u64 {
        self.0
    }
    fn from_bits(bits: u64) -> Self {
        Timed(bits)
    }
    fn prefetch(self) {
        self.slot().prefetch();
    }
}

/// The index. Its owner keeps every entry in it alive (that is the contract of `add` and `change`).
pub(super) struct Deadlines {
    dict: Dict<Timed>,
    /// The clock at the last sweep, which coarse deadlines are relative to; seconds.
    reference_s: i64,
    /// The bucket where the next sweep begins.
    position: usize,
    /// Buckets whose coarse deadlines cannot be trusted, counted from `position` on.
    untrusted: usize,
}

impl Deadlines {
    pub const fn new() -> Self {
        Deadlines { dict: Dict::new(), reference_s: 0, position: 0, untrusted: 0 }
    }

    pub fn len(&self) -> usize {
        self.dict.len()
    }

    pub fn memory(&self) -> usize {
        self.dict.memory()
    }

    pub fn random(&self, random: &mut Xoshiro) -> Option<EntrySlot> {
        self.dict.random(random).map(Timed::slot)
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = EntrySlot> {
        self.dict.iter().map(Timed::slot)
    }

    fn timed(&self, slot: EntrySlot, at_ms: i64) -> Timed {
        Timed::new(slot, at_ms.div_euclid(1000).clamp(self.reference_s, self.reference_s + AHEAD_MAX_S))
    }

    /// Adds an entry.
    ///
    /// # Safety
    /// The entry is alive, and stays so until it is removed or replaced.
    pub unsafe fn add(&mut self, hash: u64, slot: EntrySlot, at_ms: i64) {
        let timed = self.timed(slot, at_ms);
        // SAFETY: all entries of the index are alive, by this contract and that of `change`.
        self.dict.insert(hash, timed, |other| hash::bytes(unsafe { other.slot().entry() }.key()));
    }

    /// Removes an entry, if it is there; it need not be alive any more.
    pub fn remove(&mut self, hash: u64, slot: EntrySlot) {
        self.dict.remove(hash, |timed| timed.slot() == slot);
    }

    /// Follows an entry that may have moved, and whose deadline may have changed.
    ///
    /// # Safety
    /// As `add`, for the new address. The old one need not be alive.
    #[inline]
    pub unsafe fn change(&mut self, hash: u64, old: (EntrySlot, Option<i64>), new: (EntrySlot, Option<i64>)) {
        match (old.1, new.1) {
            (None, None) => {}
            // SAFETY: passed on.
            (None, Some(at)) => unsafe { self.add(hash, new.0, at) },
            (Some(_), None) => self.remove(hash, old.0),
            // What is noted lies at or before the old deadline, hence at or before this one.
            (Some(before), Some(at)) if old.0 == new.0 && at >= before => {}
            (Some(_), Some(at)) => {
                let timed = self.timed(new.0, at);
                self.dict.replace(hash, timed, |timed| timed.slot() == old.0);
            }
        }
    }

    /// Looks at the next buckets, to the last one at most, and returns the keys whose deadlines have passed. `budget` is
    /// counted down by one for each bucket and each entry that was touched.
    pub fn due(&mut self, now_ms: i64, mut budget: usize) -> Vec<Box<[u8]>> {
        let now_s = now_ms.div_euclid(1000);
        if (now_s - self.reference_s).abs() > JUMP_S {
            // Twice around, because entries move between buckets meanwhile.
            self.untrusted = 2 * self.dict.bucket_count();
        }
        self.reference_s = now_s;
        let mut due = Vec::new();
        while self.position < self.dict.bucket_count() && budget > 0 {
            let touched = self.sweep_bucket(now_ms, now_s, &mut due);
            self.position += 1;
            self.untrusted = self.untrusted.saturating_sub(1);
            budget = budget.saturating_sub(1 + touched);
        }
        if self.position >= self.dict.bucket_count() {
            self.position = 0;
        }
        due
    }

    /// True if the next sweep starts a new round.
    #[cfg(test)]
    pub fn is_back_at_start(&self) -> bool {
        self.position == 0
    }

    fn sweep_bucket(&mut self, now_ms: i64, now_s: i64, due: &mut Vec<Box<[u8]>>) -> usize {
        let all = self.untrusted > 0;
        let has_come = |timed: Timed| all || timed.is_due(now_s);
        let mut touched = 0;
        for timed in self.dict.bucket(self.position).filter(|timed| has_come(*timed)) {
            timed.prefetch();
            touched += 1;
        }
        if touched > 0 {
            let latest_s = now_s + AHEAD_MAX_S;
            self.dict.update_bucket(self.position, |timed| {
                if !has_come(timed) {
                    return timed;
                }
                // SAFETY: all entries of the index are alive, by the contracts of `add` and `change`.
                let entry = unsafe { timed.slot().entry() };
                if entry.is_expired(now_ms) {
                    due.push(entry.key().into());
                }
                let second = entry.expire_at().unwrap_or(now_ms).div_euclid(1000);
                Timed::new(timed.slot(), second.clamp(now_s, latest_s))
            });
        }
        touched
    }
}
