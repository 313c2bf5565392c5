//! What a dict and a view of it share: everything that only reads.

use super::line::{Layout, Line, Slot, tag_of};
use super::pages::Pages;
use crate::env::Xoshiro;
use std::marker::PhantomData;

/// The readable part of a dict. [`super::Dict`] and [`super::View`] dereference to it.
pub struct Body<S> {
    /// One chain starts at each of these buckets. Their number grows and shrinks one at a time (linear hashing).
    pub(super) primary: Pages,
    /// The other buckets of the chains; dense: a hole is filled with the last one.
    pub(super) overflow: Pages,
    /// The next power of two at or above the number of primary buckets, less one.
    pub(super) mask: u32,
    pub(super) len: usize,
    pub(super) slots: PhantomData<fn() -> S>,
}

/// Where a bucket lies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Primary(u32),
    Overflow(u32),
}

/// The position of an entry, until the dict changes.
#[derive(Clone, Copy)]
pub struct At(pub(super) Place, pub(super) usize);

/// So many steps before a scan comes to a bucket, what its slots point at is loaded, and its slots.
const ENTRIES_AHEAD: usize = 3;
const SLOTS_AHEAD: usize = 6;

impl<S: Slot> Body<S> {
    /// Entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of buckets and directories, shared ones included.
    pub fn memory(&self) -> usize {
        self.primary.memory() + self.overflow.memory()
    }

    /// Primary and overflow buckets, and slots of each: for reports.
    pub fn buckets(&self) -> (usize, usize, usize) {
        (self.primary.len() as usize, self.overflow.len() as usize, Layout::<S>::SLOTS)
    }

    /// The primary bucket of a hash: its low bits, one fewer if that bucket has not been split off yet.
    #[inline(always)]
    pub(super) fn bucket_of(&self, hash: u64) -> u32 {
        let wide = hash as u32 & self.mask;
        if wide < self.primary.len() { wide } else { wide & (self.mask >> 1) }
    }

    #[inline(always)]
    pub(super) fn at(&self, place: Place) -> &Line {
        match place {
            Place::Primary(i) => self.primary.line(i),
            Place::Overflow(i) => self.overflow.line(i),
        }
    }

    /// Position and value of the first entry under `hash` that `eq` accepts.
    #[inline]
    pub fn find_at(&self, hash: u64, mut eq: impl FnMut(S) -> bool) -> Option<(At, S)> {
        if self.primary.len() == 0 {
            return None;
        }
        let tag = tag_of(hash);
        let mut place = Place::Primary(self.bucket_of(hash));
        loop {
            let line = self.at(place);
            for i in line.tagged::<S>(tag) {
                let slot = line.slot(i);
                if eq(slot) {
                    return Some((At(place, i), slot));
                }
            }
            place = Place::Overflow(line.link::<S>()?);
        }
    }

    /// The entry under `hash` that `eq` accepts. `eq` sees about one wrong entry in forty look-ups.
    #[inline]
    pub fn find(&self, hash: u64, eq: impl FnMut(S) -> bool) -> Option<S> {
        self.find_at(hash, eq).map(|(_, slot)| slot)
    }

    /// Calls `visit` with every entry that may be under `hash` (its tag agrees) until it says false.
    pub fn find_all(&self, hash: u64, mut visit: impl FnMut(S) -> bool) {
        self.find_at(hash, |slot| !visit(slot));
    }

    /// First stage of a batched look-up: starts loading the bucket of `hash`.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if self.primary.len() > 0 {
            self.primary.prefetch(self.bucket_of(hash));
        }
    }

    /// Second stage before an insertion: the overflow of the bucket, which has been loaded.
    #[inline]
    pub fn prefetch_overflow(&self, hash: u64) {
        if self.primary.len() > 0
            && let Some(next) = self.primary.line(self.bucket_of(hash)).link::<S>()
        {
            self.overflow.prefetch(next);
        }
    }

    /// Second stage: the first entry of the bucket whose tag agrees, so that the caller can start loading its target.
    #[inline]
    pub fn candidate(&self, hash: u64) -> Option<S> {
        if self.primary.len() == 0 {
            return None;
        }
        let line = self.primary.line(self.bucket_of(hash));
        line.tagged::<S>(tag_of(hash)).next().map(|i| line.slot(i))
    }

    /// Buckets of both kinds.
    pub fn bucket_count(&self) -> usize {
        self.primary.len() as usize + self.overflow.len() as usize
    }

    pub(super) fn place(&self, index: usize) -> Place {
        match index.checked_sub(self.primary.len() as usize) {
            None => Place::Primary(index as u32),
            Some(i) => {
                assert!(i < self.overflow.len() as usize, "no bucket {index}");
                Place::Overflow(i as u32)
            }
        }
    }

    /// The entries of bucket `index`, which is below `bucket_count`. Buckets of neighbouring numbers are neighbours in
    /// memory, so this is the fast way through; but entries move between buckets as the dict changes.
    pub fn bucket(&self, index: usize) -> impl Iterator<Item = S> + '_ {
        let line = self.at(self.place(index));
        line.entries::<S>().map(|i| line.slot(i))
    }

    /// The entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = S> + '_ {
        (0..self.bucket_count()).flat_map(|index| self.bucket(index))
    }

    /// Visits the entries of one bucket and returns the cursor of the next; 0 starts a scan and ends it.
    ///
    /// Order the hashes by their bits, lowest first: each bucket, whatever its depth, covers an interval of this order,
    /// and splitting and merging only cut and join intervals. The cursor is a point in the order (its bits reversed, so
    /// that it is a small number); a step covers the whole interval around it and returns the interval's end. Hence
    /// every entry present from the first step to the last is visited, at least once, however the dict grows or
    /// shrinks meanwhile.
    pub fn scan(&self, cursor: u64, mut visit: impl FnMut(S)) -> u64 {
        if self.primary.len() == 0 {
            return 0;
        }
        self.visit_chain(self.bucket_of(cursor), &mut visit);
        self.after(cursor)
    }

    /// Starts loading what `scan` will visit after `cursor`: what the slots of a bucket some steps later point at, and the
    /// slots of one later still.
    pub fn prefetch_scan(&self, cursor: u64) {
        if self.primary.len() == 0 {
            return;
        }
        let mut later = cursor;
        for step in 1..=SLOTS_AHEAD {
            later = self.after(later);
            if later == 0 {
                return;
            }
            if step == ENTRIES_AHEAD {
                let line = self.primary.line(self.bucket_of(later));
                line.entries::<S>().for_each(|i| line.slot::<S>(i).prefetch());
            }
        }
        self.primary.prefetch(self.bucket_of(later));
    }

    /// The cursor that follows one in a dict that is not empty.
    fn after(&self, cursor: u64) -> u64 {
        let bucket = self.bucket_of(cursor);
        // Buckets of the upper half and those they were split off from are a bit deeper than the rest.
        let half = self.mask >> 1;
        let depth_mask = if bucket + half < self.primary.len() - 1 || bucket > half { self.mask } else { half };
        let end = (cursor | !u64::from(depth_mask)).reverse_bits().wrapping_add(1);
        end.reverse_bits()
    }

    pub(super) fn visit_chain(&self, bucket: u32, visit: &mut impl FnMut(S)) {
        let mut line = self.primary.line(bucket);
        loop {
            line.entries::<S>().for_each(|i| visit(line.slot(i)));
            match line.link::<S>() {
                Some(next) => line = self.overflow.line(next),
                None => return,
            }
        }
    }

    /// An entry at random, each with the same chance.
    pub fn random(&self, random: &mut Xoshiro) -> Option<S> {
        if self.len == 0 {
            return None;
        }
        // All positions of all buckets are equally likely, and empty ones are drawn again; well over half are filled in
        // a dict that grew by itself. One that was made too large finds the next entry after a while instead.
        for _ in 0..1000 {
            let line = self.at(self.place(random.below(self.bucket_count() as u64) as usize));
            let i = random.below(Layout::<S>::SLOTS as u64) as u32;
            if line.entries::<S>().0 >> i & 1 == 1 {
                return Some(line.slot(i as usize));
            }
        }
        let start = random.below(self.primary.len().into()) as u32;
        (start..self.primary.len()).chain(0..start).find_map(|bucket| {
            let mut found = None;
            self.visit_chain(bucket, &mut |slot| found = Some(slot));
            found
        })
    }
}
