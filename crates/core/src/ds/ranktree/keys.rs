//! What a node knows of members: enough to find a place among them mostly without looking at one.
//!
//! Scores decide where they differ. Where they are equal, members are compared by their bytes, which lie elsewhere, and
//! each look may be a cache miss. So a node remembers what the bytes of all its members have in common at their
//! beginning, and of each the four bytes that follow, its *head*.

use super::member::Handle;
use crate::ds::prefetch::prefetch;
use smallvec::SmallVec;
use std::ops::Range;

/// Most bytes of a common beginning that are remembered.
const SHARED_MAX: usize = 24;

/// Keys of up to `N` members, in order. The scores come first, where `prefetch` expects them.
#[derive(Default)]
#[repr(C)]
pub(super) struct Keys<const N: usize> {
    pub scores: SmallVec<[f64; N]>,
    heads: SmallVec<[u32; N]>,
    pub members: SmallVec<[Handle; N]>,
    shared: Shared,
}

/// A beginning that all members of a node have.
#[derive(Clone, Copy, Default)]
struct Shared {
    bytes: [u8; SHARED_MAX],
    len: u8,
}

/// A score and bytes, as places are looked for.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    pub score: f64,
    pub member: &'a [u8],
}

impl Shared {
    fn new(bytes: &[u8]) -> Self {
        let mut shared = Shared { bytes: [0; SHARED_MAX], len: bytes.len().min(SHARED_MAX) as u8 };
        shared.bytes[..shared.len as usize].copy_from_slice(&bytes[..shared.len as usize]);
        shared
    }

    #[inline]
    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }

    /// How many bytes another string begins with in common.
    #[inline]
    fn common(&self, bytes: &[u8]) -> usize {
        if bytes.starts_with(self.as_slice()) { self.len as usize } else { common(self.as_slice(), bytes) }
    }
}

fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The first four bytes as a number of the same order, zeros behind a shorter string. Strings whose heads differ are in
/// the order of their heads; equal heads decide nothing.
#[inline]
fn head(bytes: &[u8]) -> u32 {
    match bytes.first_chunk::<4>() {
        Some(first) => u32::from_be_bytes(*first),
        None => bytes.iter().enumerate().fold(0, |head, (i, byte)| head | (*byte as u32) << (24 - 8 * i)),
    }
}

/// The bytes of a member of the tree.
#[inline]
fn bytes<'a>(member: Handle) -> &'a [u8] {
    // SAFETY: the handles in a tree are of live members, and the bytes are not used beyond one operation on the tree.
    unsafe { member.member() }
}

impl<const N: usize> Keys<N>
where
    [f64; N]: smallvec::Array<Item = f64>,
    [u32; N]: smallvec::Array<Item = u32>,
    [Handle; N]: smallvec::Array<Item = Handle>,
{
    /// Starts loading the scores: one wait instead of one for each step of a binary search.
    #[inline]
    pub fn prefetch(&self) {
        let start = std::ptr::from_ref(self).cast::<u8>();
        (0..=N * size_of::<f64>()).step_by(64).for_each(|offset| prefetch(start.wrapping_add(offset)));
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn first(&self) -> (f64, Handle) {
        (self.scores[0], self.members[0])
    }

    /// The place of the first member that is not before the key.
    #[inline]
    pub fn lower_bound(&self, key: Key) -> usize {
        let start = self.scores.partition_point(|score| *score < key.score);
        if self.scores.get(start) != Some(&key.score) {
            return start;
        }
        let equal = self.scores[start..].partition_point(|score| *score == key.score);
        start + self.lower_bound_by_bytes(start..start + equal, key.member)
    }

    /// The same among members of one score, counted from the first of them.
    fn lower_bound_by_bytes(&self, range: Range<usize>, member: &[u8]) -> usize {
        let Some(rest) = member.strip_prefix(self.shared.as_slice()) else {
            return if member < self.shared.as_slice() { 0 } else { range.len() };
        };
        let head = head(rest);
        let heads = &self.heads[range.clone()];
        let before = heads.partition_point(|other| *other < head);
        let equal = heads[before..].partition_point(|other| *other == head);
        let members = &self.members[range][before..before + equal];
        before + members.partition_point(|other| bytes(*other) < member)
    }

    /// True when the member at a place is the key's.
    pub fn is_at(&self, at: usize, key: Key) -> bool {
        self.scores.get(at) == Some(&key.score) && bytes(self.members[at]) == key.member
    }

    /// How many members, from the first on, satisfy `before`, which must be true of a prefix of them only.
    pub fn count_while(&self, before: &mut impl FnMut(f64, &[u8]) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            if before(self.scores[middle], bytes(self.members[middle])) { low = middle + 1 } else { high = middle }
        }
        low
    }

    pub fn insert(&mut self, at: usize, score: f64, member: Handle) {
        let head = self.fit(bytes(member));
        self.scores.insert(at, score);
        self.heads.insert(at, head);
        self.members.insert(at, member);
    }

    pub fn remove(&mut self, at: usize) -> Handle {
        self.scores.remove(at);
        self.heads.remove(at);
        self.members.remove(at)
    }

    /// Puts another member in the place of one; its score is set apart.
    pub fn replace(&mut self, at: usize, member: Handle) {
        self.heads[at] = self.fit(bytes(member));
        self.members[at] = member;
    }

    pub fn drain(&mut self, range: Range<usize>, visit: impl FnMut(Handle)) {
        self.scores.drain(range.clone());
        self.heads.drain(range.clone());
        self.members.drain(range).for_each(visit);
    }

    /// Moves the key at `from` to `to`, those between by one.
    pub fn rotate(&mut self, from: usize, to: usize) {
        let range = from.min(to)..=from.max(to);
        let by = if from < to { 1 } else { range.clone().count() - 1 };
        self.scores[range.clone()].rotate_left(by);
        self.heads[range.clone()].rotate_left(by);
        self.members[range].rotate_left(by);
    }

    /// Cuts the keys in two: those from `at` on are returned.
    pub fn split_off(&mut self, at: usize) -> Self {
        let mut right = Keys {
            scores: self.scores[at..].into(),
            heads: self.heads[at..].into(),
            members: self.members[at..].into(),
            shared: self.shared,
        };
        self.scores.truncate(at);
        self.heads.truncate(at);
        self.members.truncate(at);
        self.tighten();
        right.tighten();
        right
    }

    /// Adds the keys of the right neighbour.
    pub fn append(&mut self, right: &Self) {
        self.scores.extend_from_slice(&right.scores);
        self.heads.extend_from_slice(&right.heads);
        self.members.extend_from_slice(&right.members);
        self.share(self.shared.common(right.shared.as_slice()));
    }

    /// Makes the shared beginning one of this member's too; the member's head.
    #[inline]
    fn fit(&mut self, member: &[u8]) -> u32 {
        if self.members.is_empty() {
            self.shared = Shared::new(member);
        }
        let common = self.shared.common(member);
        if common < self.shared.len as usize {
            self.share(common);
        }
        head(&member[common..])
    }

    /// Looks anew for what members have in common, after many left. Where scores differ that would take a look at all
    /// members, and would seldom be of use.
    fn tighten(&mut self) {
        if self.len() > 1 && self.scores.first() == self.scores.last() {
            let first = bytes(self.members[0]);
            let shared = common(first, bytes(self.members[self.len() - 1])).min(SHARED_MAX);
            if shared > self.shared.len as usize {
                self.shared = Shared::new(&first[..shared]);
                self.share(shared);
            }
        }
    }

    /// Makes the heads anew, for a shared beginning of `len` bytes.
    #[cold]
    fn share(&mut self, len: usize) {
        self.shared.len = len as u8;
        self.members.iter().for_each(|member| member.prefetch());
        self.heads = self.members.iter().map(|member| head(&bytes(*member)[len..])).collect();
    }

    /// Checks that every head is what it should be.
    #[cfg(test)]
    pub fn check(&self) {
        assert_eq!(self.members.len(), self.scores.len());
        assert_eq!(self.members.len(), self.heads.len());
        for (member, head_of_it) in self.members.iter().zip(&self.heads) {
            let rest = bytes(*member).strip_prefix(self.shared.as_slice()).expect("the shared beginning");
            assert_eq!(head(rest), *head_of_it);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_that_differ_are_in_the_order_of_their_strings() {
        let strings: [&[u8]; 9] = [b"", b"\0", b"\0\0", b"a", b"a\0", b"ab", b"abcd", b"abcde", b"b"];
        for (a, b) in strings.iter().zip(&strings[1..]) {
            assert!(head(a) <= head(b), "{a:?} {b:?}");
        }
        assert!(head(b"ab") < head(b"abcd"));
    }
}
