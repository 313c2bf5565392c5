//! The hash table of keyspaces, large hashes and sets, and hash indexes.
//!
//! It holds small slots, and its caller knows the keys behind them: every operation gets the hash, and a closure where
//! keys must be compared or hashed again. Buckets are cache lines with one-byte tags (`line`), so that a hit touches the
//! bucket and the entry and nothing else, and a miss the bucket alone.
//!
//! **Growth is linear hashing**: one bucket is split at a time, so no operation stalls. A bucket that is full goes on
//! in an overflow bucket. When to split is decided by a *budget of memory*: while the buckets, overflow included, take
//! fewer bytes per entry than the width of the slots allows, one more is split. So memory per entry is the same at every
//! point of the growth cycle, and what linear hashing trades is the length of chains (a look-up touches between 1.03 and
//! 1.15 buckets for 6-byte slots). Shrinking merges buckets in the opposite order.
//!
//! **Views** (`view`) share the buckets' pages and are never written: `pages` copies what a view holds.

mod body;
mod line;
mod pages;
#[cfg(test)]
mod tests;

pub use body::{At, Body};
pub use line::Slot;

use body::Place;
use line::{Line, Positions, tag_of};
use pages::Pages;
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::ops::Deref;

/// Most buckets split or merged by one operation. One insertion earns a sixth of a bucket or less, so this catches up.
const STEPS: usize = 2;

/// An unordered collection of slots, found by hash.
pub struct Dict<S: Slot> {
    body: Body<S>,
}

/// A dict as it was when the view was taken. It can be read in any thread.
pub struct View<S: Slot> {
    body: Body<S>,
}

impl<S: Slot> Deref for Dict<S> {
    type Target = Body<S>;
    #[inline(always)]
    fn deref(&self) -> &Body<S> {
        &self.body
    }
}

impl<S: Slot> Deref for View<S> {
    type Target = Body<S>;
    #[inline(always)]
    fn deref(&self) -> &Body<S> {
        &self.body
    }
}

impl<S: Slot> Clone for View<S> {
    fn clone(&self) -> Self {
        let Body { primary, overflow, mask, len, slots } = &self.body;
        View {
            body: Body { primary: primary.clone(), overflow: overflow.clone(), mask: *mask, len: *len, slots: *slots },
        }
    }
}

impl<S: Slot> Default for Dict<S> {
    fn default() -> Self {
        Self::new()
    }
}

const fn assert_send_and_sync<T: Send + Sync>() {}
const _: () = assert_send_and_sync::<View<u32>>();

/// Entries of a chain that is being rebuilt, with their tags.
type Chain<S> = SmallVec<[(u8, S); 24]>;

impl<S: Slot> Dict<S> {
    /// Sixteenths of a byte that one entry may cost before buckets are split, by width. The page header adds 1.6 %.
    ///
    /// The floor is what full buckets take (5.3 bytes for width 4, 7.1 for 6) plus half an overflow bucket a chain; near
    /// it chains grow long. These values keep a hit near 1.1 buckets for the wider slots, 1.2 for row ids.
    const BUDGET: u64 = [7 * 16 + 5, 9 * 16 + 4, 11 * 16 + 4, 14 * 16, 14 * 16][S::WIDTH - 4];

    /// An empty dict, which needs no memory.
    pub const fn new() -> Self {
        Dict { body: Body { primary: Pages::new(), overflow: Pages::new(), mask: 0, len: 0, slots: PhantomData } }
    }

    /// A dict with its buckets made for `entries` beforehand, so that filling it splits few.
    pub fn with_capacity(entries: usize) -> Self {
        let mut dict = Self::new();
        // What full chains at even load leave of the budget to primary buckets, in sixteenths. (Splits do the rest.)
        const PRIMARY: [u64; 5] = [9, 12, 14, 13, 13];
        let buckets = entries as u64 * Self::BUDGET * PRIMARY[S::WIDTH - 4] / (16 * 16 * 64);
        let buckets = buckets.clamp(1, 1 << 31) as u32;
        (0..buckets).for_each(|_| dict.body.primary.push(Line::EMPTY));
        dict.body.mask = buckets.next_power_of_two() - 1;
        dict
    }

    /// Adds an entry without looking whether an equal one exists: the caller knows, or wants several.
    ///
    /// `rehash` gives the hash of any entry; it is called for the entries of a bucket that is split. The slots'
    /// `prefetch` has been called one split earlier, so what they point at is in the cache.
    #[inline]
    pub fn insert(&mut self, hash: u64, slot: S, rehash: impl FnMut(S) -> u64) {
        if self.body.primary.len() == 0 {
            self.body.primary.push(Line::EMPTY);
        }
        self.add(self.body.bucket_of(hash), tag_of(hash), slot);
        self.body.len += 1;
        if self.wants_split() {
            self.grow(rehash);
        }
    }

    /// Puts `new`, whose hash must be the same, in the place of the entry that `eq` accepts, and returns that.
    pub fn replace(&mut self, hash: u64, new: S, eq: impl FnMut(S) -> bool) -> Option<S> {
        let (at, old) = self.body.find_at(hash, eq)?;
        self.replace_at(at, hash, new);
        Some(old)
    }

    /// Removes the first entry under `hash` that `eq` accepts.
    pub fn remove(&mut self, hash: u64, eq: impl FnMut(S) -> bool) -> Option<S> {
        let (at, _) = self.body.find_at(hash, eq)?;
        Some(self.remove_at(at))
    }

    /// Puts `new`, whose hash must be the same, at a position that `find_at` gave; the dict has not changed since.
    #[inline]
    pub fn replace_at(&mut self, at: At, hash: u64, new: S) {
        self.at_mut_checked(at.0).put(at.1, tag_of(hash), new);
    }

    /// Removes the entry at a position that `find_at` gave; the dict has not changed since.
    pub fn remove_at(&mut self, at: At) -> S {
        let slot = self.at_mut_checked(at.0).slot(at.1);
        self.empty(at.0, at.1);
        self.body.len -= 1;
        self.shrink();
        slot
    }

    /// Changes the entries of bucket `index` (below `bucket_count`) by `change`, which must keep their hashes.
    pub fn update_bucket(&mut self, index: usize, mut change: impl FnMut(S) -> S) {
        let place = self.body.place(index);
        let line = self.at_mut(place);
        for i in line.entries::<S>() {
            line.put(i, line.tag::<S>(i), change(line.slot(i)));
        }
    }

    /// Removes every entry and frees all memory at once; `drain` does it in slices.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// Removes buckets from the end, visiting their entries, until `entries` or a few more are gone. True while some
    /// are left. The dict stays usable between slices.
    pub fn drain(&mut self, entries: usize, mut visit: impl FnMut(S)) -> bool {
        let mut gone = 0;
        while gone < entries && self.body.len > 0 {
            let chain = self.pop_bucket();
            gone += chain.len();
            self.body.len -= chain.len();
            chain.into_iter().for_each(|(_, slot)| visit(slot));
        }
        if self.body.len == 0 {
            self.clear();
        }
        self.body.len > 0
    }

    /// A view of the dict as it is now, in constant time. Later writes copy the pages that views hold.
    pub fn view(&mut self) -> View<S> {
        let Body { primary, overflow, mask, len, slots } = &mut self.body;
        View {
            body: Body { primary: primary.view(), overflow: overflow.view(), mask: *mask, len: *len, slots: *slots },
        }
    }

    /// Bytes copied because views held them, since the dict began. The growth of this number since a view was taken is
    /// the most that the view alone can be holding.
    pub fn copied(&self) -> usize {
        self.body.primary.copied() + self.body.overflow.copied()
    }

    #[inline(always)]
    fn at_mut(&mut self, place: Place) -> &mut Line {
        match place {
            Place::Primary(i) => self.body.primary.line_mut(i),
            Place::Overflow(i) => self.body.overflow.line_mut(i),
        }
    }

    /// As `at_mut`, for places that come from outside.
    #[inline]
    fn at_mut_checked(&mut self, place: Place) -> &mut Line {
        let exists = match place {
            Place::Primary(i) => i < self.body.primary.len(),
            Place::Overflow(i) => i < self.body.overflow.len(),
        };
        assert!(exists, "a position from before the dict changed");
        self.at_mut(place)
    }

    /// Adds an entry to the chain of `bucket`.
    #[inline]
    fn add(&mut self, bucket: u32, tag: u8, slot: S) {
        match self.body.primary.line(bucket).free::<S>() {
            Some(i) => self.body.primary.line_mut(bucket).put(i, tag, slot),
            None => self.add_to_overflow(bucket, tag, slot),
        }
    }

    /// Adds an entry to the first overflow bucket of a chain, or to a new one before it: so a chain of any length takes
    /// an entry in constant time, and no bucket after the first overflow bucket has a hole.
    #[inline(never)]
    fn add_to_overflow(&mut self, bucket: u32, tag: u8, slot: S) {
        let first = self.body.primary.line(bucket).link::<S>();
        if let Some(first) = first
            && let Some(i) = self.body.overflow.line(first).free::<S>()
        {
            return self.body.overflow.line_mut(first).put(i, tag, slot);
        }
        let mut line = Line::overflow::<S>(bucket);
        if let Some(first) = first {
            line.set_link::<S>(first);
        }
        line.put(0, tag, slot);
        let new = self.body.overflow.len();
        if let Some((tag, slot)) = self.body.primary.line_mut(bucket).set_link::<S>(new) {
            line.put(1, tag, slot);
        }
        self.body.overflow.push(line);
    }

    /// Empties a position. If its chain has overflow, the first overflow bucket gives an entry to fill the hole.
    fn empty(&mut self, place: Place, i: usize) {
        let bucket = match place {
            Place::Primary(bucket) => bucket,
            Place::Overflow(index) => self.body.overflow.line(index).home::<S>(),
        };
        let Some(first) = self.body.primary.line(bucket).link::<S>() else {
            return self.at_mut(place).clear::<S>(i);
        };
        let line = self.body.overflow.line_mut(first);
        let Some(j) = line.entries::<S>().next() else { unreachable!("an overflow bucket without entries") };
        let (tag, slot) = (line.tag::<S>(j), line.slot::<S>(j));
        line.clear::<S>(j);
        let (is_empty, next) = (line.entries::<S>().next().is_none(), line.link::<S>());
        if (place, i) != (Place::Overflow(first), j) {
            self.at_mut(place).put(i, tag, slot);
        }
        if is_empty {
            let head = self.body.primary.line_mut(bucket);
            match next {
                Some(next) => drop(head.set_link::<S>(next)),
                None => head.clear_link::<S>(),
            }
            self.free_overflow(first);
        }
    }

    /// Frees overflow bucket `index`, which is in no chain any more; the last one moves into its place.
    fn free_overflow(&mut self, index: u32) {
        let last = self.body.overflow.len() - 1;
        if index != last {
            let moved = *self.body.overflow.line(last);
            let mut before = Place::Primary(moved.home::<S>());
            while let Some(next) = self.body.at(before).link::<S>()
                && next != last
            {
                before = Place::Overflow(next);
            }
            self.at_mut(before).set_link::<S>(index);
            *self.body.overflow.line_mut(index) = moved;
        }
        self.body.overflow.pop();
    }

    /// Takes all entries of a chain and frees its overflow buckets.
    fn take_chain(&mut self, bucket: u32) -> Chain<S> {
        let mut chain = Chain::new();
        let mut freed: SmallVec<[u32; 4]> = SmallVec::new();
        let mut place = Place::Primary(bucket);
        loop {
            let line = self.body.at(place);
            chain.extend(line.entries::<S>().map(|i| (line.tag::<S>(i), line.slot(i))));
            let Some(next) = line.link::<S>() else { break };
            freed.push(next);
            place = Place::Overflow(next);
        }
        *self.body.primary.line_mut(bucket) = Line::EMPTY;
        // From the highest down: the bucket that moves into a hole is then never one of those to be freed.
        freed.sort_unstable();
        freed.into_iter().rev().for_each(|index| self.free_overflow(index));
        chain
    }

    #[inline(always)]
    fn lines(&self) -> u64 {
        u64::from(self.body.primary.len()) + u64::from(self.body.overflow.len())
    }

    #[inline(always)]
    fn wants_split(&self) -> bool {
        self.lines() * (64 * 16) < self.body.len as u64 * Self::BUDGET
    }

    #[inline(never)]
    fn grow(&mut self, mut rehash: impl FnMut(S) -> u64) {
        for _ in 0..STEPS {
            self.split(&mut rehash);
            if !self.wants_split() {
                break;
            }
        }
        self.prefetch_next_split();
    }

    /// Splits the next bucket in turn: the entries with the new bit in their hash move to a new bucket at the end.
    fn split(&mut self, rehash: &mut impl FnMut(S) -> u64) {
        let new = self.body.primary.len();
        if new > self.body.mask {
            self.body.mask = 2 * self.body.mask + 1;
        }
        let bit = (self.body.mask >> 1) + 1;
        let old = new - bit;
        let mut upper = Line::EMPTY;
        if self.body.primary.line(old).link::<S>().is_none() {
            let lower = self.body.primary.line_mut(old);
            let mut moving = Positions(0);
            for i in lower.entries::<S>() {
                moving.0 |= u32::from(rehash(lower.slot(i)) & u64::from(bit) != 0) << i;
            }
            for (to, from) in moving.enumerate() {
                upper.put(to, lower.tag::<S>(from), lower.slot::<S>(from));
                lower.clear::<S>(from);
            }
            self.body.primary.push(upper);
            return;
        }
        let chain = self.take_chain(old);
        self.body.primary.push(upper);
        for (tag, slot) in chain {
            let bucket = if rehash(slot) & u64::from(bit) == 0 { old } else { new };
            self.add(bucket, tag, slot);
        }
    }

    /// Starts loading what the next split will touch: the targets of its bucket, and the bucket after that.
    fn prefetch_next_split(&self) {
        let new = self.body.primary.len();
        let next = new & (self.body.mask >> 1);
        self.body.visit_chain(next, &mut |slot| slot.prefetch());
        self.body.primary.prefetch(next + 1);
    }

    /// Visits the entries of the bucket that is split after `ahead` more splits, for those whose slots cannot `prefetch`
    /// by themselves.
    pub fn upcoming(&self, ahead: u32, mut visit: impl FnMut(S)) {
        let new = self.body.primary.len() + ahead;
        // The bucket that the lowest bits name; past the end of this round nothing is foretold.
        let next = if new > self.body.mask { new - self.body.mask - 1 } else { new & (self.body.mask >> 1) };
        if next < self.body.primary.len() {
            self.body.visit_chain(next, &mut visit);
        }
    }

    /// Buckets, besides those that overflow.
    pub fn primary_buckets(&self) -> u32 {
        self.body.primary.len()
    }

    /// Merges buckets while the dict takes a quarter more than its budget, so that a small wave of insertions and
    /// removals splits and merges nothing.
    fn shrink(&mut self) {
        for _ in 0..STEPS {
            if self.body.len == 0 {
                return self.clear();
            }
            if self.body.primary.len() == 1 || self.lines() * (64 * 16) * 4 <= self.body.len as u64 * Self::BUDGET * 5 {
                return;
            }
            let chain = self.pop_bucket();
            let bucket = self.body.primary.len() & (self.body.mask >> 1);
            chain.into_iter().for_each(|(tag, slot)| self.add(bucket, tag, slot));
        }
    }

    /// Removes the last primary bucket and its chain.
    fn pop_bucket(&mut self) -> Chain<S> {
        let last = self.body.primary.len() - 1;
        let chain = self.take_chain(last);
        self.body.primary.pop();
        self.body.mask = last.next_power_of_two() - 1;
        chain
    }
}
