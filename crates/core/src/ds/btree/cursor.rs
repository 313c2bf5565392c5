//! A cursor: a place between two entries of a tree, moved over one entry at a time in either direction.

use super::inner::{Inner, Kids, Root};
use super::leaf::{Entry, Leaf};
use super::probe::{Joined, Probe};
use smallvec::SmallVec;

/// A place in a tree that does not change while the cursor lives. To go on after a change, seek the last key again.
pub struct Cursor<'a> {
    /// The inner nodes from the root down, with the child taken in each.
    path: SmallVec<[(&'a Inner, usize); 6]>,
    leaf: &'a Leaf,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(root: &'a Root, probe: &Probe<'_>) -> Cursor<'a> {
        let joined = Joined::new(probe);
        let mut cursor = Cursor::descend(root, |inner| inner.find(&joined));
        cursor.at = cursor.leaf.search(probe);
        cursor
    }

    pub(super) fn at_rank(root: &'a Root, rank: u64) -> Cursor<'a> {
        let mut rest = rank;
        let mut cursor = Cursor::descend(root, |inner| {
            let counts = inner.counts();
            let mut at = 0;
            // A rank at or past the end leads to the end of the last leaf.
            while at + 1 < counts.len() && rest >= counts[at] {
                rest -= counts[at];
                at += 1;
            }
            at
        });
        cursor.at = cursor.leaf.count().min(usize::try_from(rest).unwrap_or(usize::MAX));
        cursor
    }

    fn descend(root: &'a Root, mut choose: impl FnMut(&Inner) -> usize) -> Cursor<'a> {
        let mut path = SmallVec::new();
        let mut inner: &'a Inner = match root {
            Root::Leaf(leaf) => return Cursor { path, leaf, at: 0 },
            Root::Inner(inner) => inner,
        };
        loop {
            let at = choose(inner);
            inner.prefetch_kid(at);
            path.push((inner, at));
            match inner.kids() {
                Kids::Leaves(leaves) => return Cursor { path, leaf: &leaves[at], at: 0 },
                Kids::Inners(inners) => inner = &inners[at],
            }
        }
    }

    /// The entry after the place, and moves over it.
    #[allow(clippy::should_implement_trait)] // walks both ways, which an Iterator does not
    #[inline]
    pub fn next(&mut self) -> Option<Entry<'a>> {
        if self.at == self.leaf.count() && !self.next_leaf() {
            return None;
        }
        let entry = self.leaf.entry(self.at);
        self.at += 1;
        Some(entry)
    }

    /// The entry before the place, and moves over it.
    #[inline]
    pub fn prev(&mut self) -> Option<Entry<'a>> {
        if self.at == 0 && !self.prev_leaf() {
            return None;
        }
        self.at -= 1;
        Some(self.leaf.entry(self.at))
    }

    /// Walks forward up to a place, at most `limit` entries. True if the place was reached (or the end of the tree).
    pub fn walk(&mut self, to: &Probe<'_>, limit: usize, mut visit: impl FnMut(Entry<'a>)) -> bool {
        let mut left = limit;
        loop {
            let count = self.leaf.count();
            if self.at == count && !self.next_leaf() {
                return true;
            }
            // One comparison with the end of the leaf tells for most leaves that all of it lies before the place.
            let end = self.leaf.search(to).max(self.at);
            let stop = end.min(self.at.saturating_add(left));
            self.leaf.entries(self.at..stop).for_each(&mut visit);
            left -= stop - self.at;
            self.at = stop;
            if stop == end && end < self.leaf.count() {
                return true;
            }
            if left == 0 {
                return false;
            }
        }
    }

    /// Walks backward down to a place, at most `limit` entries. True if the place was reached (or the start).
    pub fn walk_back(&mut self, to: &Probe<'_>, limit: usize, mut visit: impl FnMut(Entry<'a>)) -> bool {
        let mut left = limit;
        loop {
            if self.at == 0 && !self.prev_leaf() {
                return true;
            }
            let end = self.leaf.search(to).min(self.at);
            let stop = end.max(self.at.saturating_sub(left));
            self.leaf.entries(stop..self.at).rev().for_each(&mut visit);
            left -= self.at - stop;
            self.at = stop;
            if stop == end && end > 0 {
                return true;
            }
            if left == 0 {
                return false;
            }
        }
    }

    /// Moves to the start of the next leaf.
    fn next_leaf(&mut self) -> bool {
        let Some(up) = self.path.iter().rposition(|(inner, at)| at + 1 < inner.len()) else { return false };
        self.path.truncate(up + 1);
        self.path[up].1 += 1;
        self.go_down(|_| 0);
        self.at = 0;
        true
    }

    /// Moves to the end of the leaf before.
    fn prev_leaf(&mut self) -> bool {
        let Some(up) = self.path.iter().rposition(|(_, at)| *at > 0) else { return false };
        self.path.truncate(up + 1);
        self.path[up].1 -= 1;
        self.go_down(|inner| inner.len() - 1);
        self.at = self.leaf.count();
        true
    }

    fn go_down(&mut self, choose: impl Fn(&Inner) -> usize) {
        loop {
            let Some(&(inner, at)) = self.path.last() else { unreachable!("a way down begins at a node") };
            match inner.kids() {
                Kids::Leaves(leaves) => {
                    self.leaf = &leaves[at];
                    return;
                }
                Kids::Inners(inners) => self.path.push((&inners[at], choose(&inners[at]))),
            }
        }
    }
}
