//! A large sorted set: a skip list keeps the order and owns the members, a table finds a member's node.

use super::{Source, Walk};
use crate::ds::skiplist::{Handle, SkipList};
use crate::env::Xoshiro;
use crate::value::table::{self, Entry, Table};
use std::ops::Range;
use std::ptr::NonNull;

/// Invariant: the table holds the handle of every node of the list, and no other.
pub(super) struct Large {
    table: Table<Node>,
    list: SkipList,
}

/// A node as the table holds it; it does not own the node, the list does.
struct Node(Handle);

// SAFETY: the raw pointer is the handle. The list keeps the node alive as long as the table holds it (the invariant of
// `Large`), and a node's member never changes.
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
        0 // the list counts its nodes
    }
}

impl Large {
    /// An empty one with room for so many members.
    pub fn with_capacity(members: usize) -> Self {
        Large { table: Table::with_capacity(members + 1), list: SkipList::new() }
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn memory(&self) -> usize {
        self.table.memory() + self.list.memory()
    }

    #[inline]
    fn find(&self, member: &[u8]) -> Option<Handle> {
        self.table.get(member)
    }

    /// Member and score of a node of the list.
    #[inline]
    fn read(&self, node: Handle) -> (&[u8], f64) {
        // SAFETY: the node is in the list (callers got it from table or list), and stays while self is borrowed.
        unsafe { (node.member(), node.score()) }
    }

    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.find(member).map(|node| self.read(node).1)
    }

    /// Adds a member that is not there.
    pub fn insert(&mut self, member: &[u8], score: f64) {
        let hash = table::hash_of(member);
        // The node's height comes from the member's hash: as good as random to whoever does not know the seed, and the
        // same whenever the member comes back. Other bits of the hash than those the table looks at.
        let node = self.list.insert(score, member, hash.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_right(20));
        self.table.insert_new(hash, Node(node));
    }

    /// Gives a member that is there another score.
    pub fn set_score(&mut self, member: &[u8], score: f64) {
        if let Some(node) = self.find(member) {
            // SAFETY: the table's handles are of nodes in the list.
            unsafe { self.list.set_score(node, score) };
        }
    }

    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let node = self.table.remove(member)?.0;
        let score = self.read(node).1;
        // SAFETY: the handle was in the table, so the node is in the list; it has left the table, so nobody else has it.
        unsafe { self.list.remove(node) };
        Some(score)
    }

    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let node = self.find(member)?;
        // SAFETY: the table's handles are of nodes in the list.
        Some((unsafe { self.list.rank(node) }, self.read(node).1))
    }

    pub fn count_while(&self, before: impl FnMut(f64, &[u8]) -> bool) -> usize {
        self.list.count_while(before)
    }

    pub fn walk(&self, ranks: Range<usize>, reverse: bool) -> Walk<'_> {
        let first = if reverse { ranks.end.wrapping_sub(1) } else { ranks.start };
        let cursor = Cursor { large: self, node: self.list.at(first) };
        Walk { source: Source::Large(cursor), left: ranks.len(), reverse }
    }

    pub fn remove_ranks(&mut self, ranks: Range<usize>) {
        let mut next = self.list.at(ranks.start);
        for _ in ranks {
            let Some(node) = next else { break };
            // SAFETY: the node is in the list; its member is not used after the node is gone.
            unsafe {
                next = self.list.next(node);
                self.table.remove(node.member());
                self.list.remove(node);
            }
        }
    }

    pub fn random(&self, random: &mut Xoshiro) -> Option<(&[u8], f64)> {
        self.table.random(random).map(|node| self.read(node))
    }

    pub fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(&[u8], f64)) -> u64 {
        self.table.scan(cursor, count, |node| {
            let (member, score) = self.read(node);
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

/// Stands at a node and goes either way.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    large: &'a Large,
    node: Option<Handle>,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub fn next(&mut self, reverse: bool) -> Option<(&'a [u8], f64)> {
        let node = self.node?;
        let list = &self.large.list;
        // SAFETY: the node is in the list, which is borrowed as long as the cursor lives.
        self.node = unsafe { if reverse { list.previous(node) } else { list.next(node) } };
        Some(self.large.read(node))
    }
}
