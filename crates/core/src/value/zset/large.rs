//! A large sorted set: a tree keeps the order and owns the members, a table finds a member in it.

use super::{Source, Walk};
use crate::ds::ranktree::{self, Handle, RankTree};
use crate::env::Xoshiro;
use crate::value::table::{self, Entry, Table};
use std::ops::Range;
use std::ptr::NonNull;

/// Invariant: the table holds the handle of every member of the tree, and no other.
pub(super) struct Large {
    table: Table<Node>,
    tree: RankTree,
}

/// A member as the table holds it; it does not own the member, the tree does.
struct Node(Handle);

// SAFETY: the raw pointer is the handle. The tree keeps the member alive as long as the table holds it (the invariant of
// `Large`), and a member's bytes never change.
unsafe impl Entry for Node {
    type Shown<'a> = Handle;

    fn into_raw(self) -> NonNull<u8> {
        self.0.into_raw()
    }
    unsafe fn from_raw(raw: NonNull<u8>) -> Self {
        // SAFETY: by the same contract.
        Node(unsafe { Handle::from_raw(raw) })
    }
    #[inline]
    unsafe fn show<'a>(raw: NonNull<u8>) -> Self::Shown<'a> {
        // SAFETY: by the same contract.
        unsafe { Handle::from_raw(raw) }
    }
    #[inline]
    unsafe fn key<'a>(raw: NonNull<u8>) -> &'a [u8] {
        // SAFETY: by the same contract.
        unsafe { Handle::from_raw(raw).member() }
    }
    fn memory(&self) -> usize {
        0 // the tree counts its members
    }
}

impl Large {
    /// An empty one with room for so many members.
    pub fn with_capacity(members: usize) -> Self {
        Large { table: Table::with_capacity(members + 1), tree: RankTree::new() }
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn memory(&self) -> usize {
        self.table.memory() + self.tree.memory()
    }

    /// The handle of a member and its score. The handle is good until the set changes, but for `set_score`.
    #[inline]
    pub fn find(&self, member: &[u8]) -> Option<(Handle, f64)> {
        let handle = self.table.get(member)?;
        Some((handle, self.read(handle).1))
    }

    /// Bytes and score of a member of the tree.
    #[inline]
    fn read(&self, handle: Handle) -> (&[u8], f64) {
        // SAFETY: the member is in the tree (callers got it from table or tree), and stays while self is borrowed.
        unsafe { (handle.member(), handle.score()) }
    }

    /// Adds a member that is not there.
    pub fn insert(&mut self, member: &[u8], score: f64) {
        let handle = self.tree.insert(score, member);
        self.table.insert_new(table::hash_of(member), Node(handle));
    }

    /// Gives a member another score.
    ///
    /// # Safety
    /// The handle came from `find`, and the set has not changed since.
    pub unsafe fn set_score(&mut self, handle: Handle, score: f64) {
        // SAFETY: by contract the member is in the tree.
        unsafe { self.tree.set_score(handle, score) };
    }

    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let handle = self.table.remove(member)?.0;
        let score = self.read(handle).1;
        // SAFETY: the handle was in the table, so the member is in the tree; it has left the table, so nobody else has it.
        unsafe { self.tree.remove(handle) };
        Some(score)
    }

    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let (handle, score) = self.find(member)?;
        // SAFETY: the table's handles are of members in the tree.
        Some((unsafe { self.tree.rank(handle) }, score))
    }

    pub fn count_while(&self, before: impl FnMut(f64, &[u8]) -> bool) -> usize {
        self.tree.count_while(before)
    }

    pub fn walk(&self, ranks: Range<usize>, reverse: bool) -> Walk<'_> {
        let start = if reverse { ranks.end } else { ranks.start };
        let cursor = Cursor { large: self, inner: self.tree.cursor(start) };
        Walk { source: Source::Large(cursor), left: ranks.len(), reverse }
    }

    pub fn remove_ranks(&mut self, ranks: Range<usize>) {
        let table = &mut self.table;
        self.tree.remove_ranks(ranks.start, ranks.len(), |handle| {
            // SAFETY: the tree shows a member before it frees it.
            table.remove(unsafe { handle.member() });
        });
    }

    pub fn random(&self, random: &mut Xoshiro) -> Option<(&[u8], f64)> {
        self.table.random(random).map(|handle| self.read(handle))
    }

    pub fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(&[u8], f64)) -> u64 {
        self.table.scan(cursor, count, |handle| {
            let (member, score) = self.read(handle);
            show(member, score);
        })
    }
}

impl<'a> FromIterator<(&'a [u8], f64)> for Large {
    fn from_iter<I: IntoIterator<Item = (&'a [u8], f64)>>(members: I) -> Self {
        let members = members.into_iter();
        let mut large = Large::with_capacity(members.size_hint().0);
        members.for_each(|(member, score)| large.insert(member, score));
        large
    }
}

impl Clone for Large {
    fn clone(&self) -> Self {
        self.walk(0..self.len(), false).collect()
    }
}

/// Stands between two members and goes either way.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    large: &'a Large,
    inner: ranktree::Cursor<'a>,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub fn next(&mut self, reverse: bool) -> Option<(&'a [u8], f64)> {
        let handle = if reverse { self.inner.backward() } else { self.inner.forward() }?;
        Some(self.large.read(handle))
    }
}
