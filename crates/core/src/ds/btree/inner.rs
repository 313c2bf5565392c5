//! An inner node: children, how many entries each has below it, and the separators between them.

use super::leaf::{Edges, LEAF_BYTES_MAX, LEAF_BYTES_MIN, Leaf, Piece, Tally, size_of_leaf};
use super::probe::{Joined, Probe, common_prefix, value_bytes};
use crate::ds::cow::{Shared, prefetch_bytes};
use smallvec::SmallVec;
use std::cmp::Ordering;

/// Most children of a node. Two more fit, so that a child may split before the node does.
pub(super) const KIDS_MAX: usize = 62;
const FAN: usize = KIDS_MAX + 2;

/// A string between two neighbouring children: above everything in the left one, not above anything in the right one.
pub(super) type Separator = SmallVec<[u8; 16]>;

pub(super) struct Inner {
    /// Bytes that all separators start with.
    common: usize,
    separators: SmallVec<[Separator; FAN]>,
    /// The first eight bytes of each separator after the common ones, as numbers: most comparisons end there.
    heads: SmallVec<[u64; FAN]>,
    counts: SmallVec<[u64; FAN]>,
    kids: Kids,
}

pub(super) enum Kids {
    Leaves(SmallVec<[Leaf; FAN]>),
    Inners(SmallVec<[Shared<Inner>; FAN]>),
}

/// A new right neighbour of a node that was split.
pub(super) struct Sibling<T> {
    pub separator: Separator,
    pub node: T,
    pub count: u64,
}

/// Where a change happens and what it costs.
pub(super) struct Change<'a> {
    pub key: &'a [u8],
    pub value: u64,
    pub probe: Probe<'a>,
    pub joined: Joined,
    /// In a multimap equal keys may follow each other.
    pub multi: bool,
    pub tally: Tally,
}

/// What came of an insertion.
pub(super) enum Inserted<T> {
    /// The entry is new; these nodes are to stand after the changed one.
    Yes(SmallVec<[Sibling<T>; 2]>),
    /// The key was there (in a map, with this value, which has been replaced; in a multimap the pair).
    No(u64),
}

impl Clone for Inner {
    fn clone(&self) -> Self {
        let kids = match &self.kids {
            Kids::Leaves(leaves) => Kids::Leaves(leaves.iter().map(Leaf::share).collect()),
            Kids::Inners(inners) => Kids::Inners(inners.clone()),
        };
        Inner {
            common: self.common,
            separators: self.separators.clone(),
            heads: self.heads.clone(),
            counts: self.counts.clone(),
            kids,
        }
    }
}

impl Inner {
    /// A node of children and the separators between them.
    pub fn new(kids: Kids, counts: SmallVec<[u64; FAN]>, separators: SmallVec<[Separator; FAN]>) -> Inner {
        let mut inner = Inner { common: 0, separators, heads: SmallVec::new(), counts, kids };
        inner.refresh();
        inner
    }

    /// A root above one that was split.
    pub fn above<T: Into<Root>>(left: T, left_count: u64, right: SmallVec<[Sibling<T>; 2]>) -> Inner {
        let mut counts: SmallVec<[u64; FAN]> = SmallVec::new();
        counts.push(left_count);
        let mut separators = SmallVec::new();
        let mut roots: SmallVec<[Root; 3]> = SmallVec::new();
        roots.push(left.into());
        for sibling in right {
            counts.push(sibling.count);
            separators.push(sibling.separator);
            roots.push(sibling.node.into());
        }
        let kids = if matches!(roots[0], Root::Leaf(_)) {
            Kids::Leaves(roots.into_iter().map(Root::into_leaf).collect())
        } else {
            Kids::Inners(roots.into_iter().map(Root::into_inner).collect())
        };
        Inner::new(kids, counts, separators)
    }

    pub fn kids(&self) -> &Kids {
        &self.kids
    }

    pub fn len(&self) -> usize {
        self.counts.len()
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Starts loading what `find` looks at.
    #[inline]
    fn prefetch(&self) {
        prefetch_bytes((&raw const self.heads).cast(), size_of_val(&self.heads));
        prefetch_bytes((&raw const self.separators).cast(), 64);
    }

    /// Starts loading a child.
    #[inline]
    pub fn prefetch_kid(&self, at: usize) {
        match &self.kids {
            Kids::Leaves(leaves) => leaves[at].prefetch(),
            Kids::Inners(inners) => inners[at].prefetch(),
        }
    }

    /// The child in which the probe's place is: as many separators lie before it.
    #[inline]
    pub fn find(&self, probe: &Joined) -> usize {
        let Some(first) = self.separators.first() else { return 0 };
        let key = &probe.bytes[..];
        let common = self.common.min(key.len());
        match key[..common].cmp(&first[..common]) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.separators.len(),
            Ordering::Equal if key.len() < self.common => {
                return if probe.after { self.separators.len() } else { 0 };
            }
            Ordering::Equal => {}
        }
        let rest = &key[common..];
        let head = head_of(rest);
        // Only as many bytes of the heads count as the probe has.
        let mask = u64::MAX.checked_shl(64 - 8 * rest.len().min(8) as u32).unwrap_or(0);
        // One head of each cache line, loaded side by side, tells the line; see `Leaf::search`.
        let below = |i: usize| usize::from(self.heads[i] & mask < head);
        let low = 8 * (8..self.heads.len()).step_by(8).map(below).sum::<usize>();
        let low = low + (low..self.heads.len().min(low + 8)).map(below).sum::<usize>();
        let ties = self.heads[low..].iter().take_while(|h| **h & mask == head).count();
        low + (low..low + ties)
            .collect::<SmallVec<[usize; FAN]>>()
            .partition_point(|i| self.passes(*i, rest, probe.after))
    }

    /// Does separator `i` lie before a probe that goes on with `rest` after the common bytes?
    fn passes(&self, i: usize, rest: &[u8], after: bool) -> bool {
        let separator = &self.separators[i][self.common..];
        let common = separator.len().min(rest.len());
        match separator[..common].cmp(&rest[..common]) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => separator.len() <= rest.len() || after,
        }
    }

    fn refresh(&mut self) {
        let separators = &self.separators;
        self.common = match (separators.first(), separators.last()) {
            (Some(first), Some(last)) => common_prefix(first, last),
            _ => 0,
        };
        self.heads = separators.iter().map(|s| head_of(&s[self.common..])).collect();
    }

    /// Inserts an entry below this node.
    pub fn insert(&mut self, change: &mut Change<'_>, edges: Edges) -> Inserted<Shared<Inner>> {
        let at = self.find(&change.joined);
        self.prefetch_kid(at);
        let below = Edges { leftmost: edges.leftmost && at == 0, rightmost: edges.rightmost && at + 1 == self.len() };
        match &mut self.kids {
            Kids::Leaves(leaves) => match insert_in_leaf(&mut leaves[at], change, below) {
                Inserted::No(old) => return Inserted::No(old),
                Inserted::Yes(siblings) => {
                    self.counts[at] += 1;
                    self.adopt(at, siblings, |kids, at, leaf| match kids {
                        Kids::Leaves(leaves) => leaves.insert(at, leaf),
                        Kids::Inners(_) => unreachable!("the children are leaves"),
                    });
                }
            },
            Kids::Inners(inners) => {
                let child = inners[at].make_mut(&mut change.tally.copied);
                match child.insert(change, below) {
                    Inserted::No(old) => return Inserted::No(old),
                    Inserted::Yes(siblings) => {
                        self.counts[at] += 1;
                        self.adopt(at, siblings, |kids, at, inner| match kids {
                            Kids::Inners(inners) => inners.insert(at, inner),
                            Kids::Leaves(_) => unreachable!("the children are inner nodes"),
                        });
                    }
                }
            }
        }
        if self.len() <= KIDS_MAX {
            return Inserted::Yes(SmallVec::new());
        }
        let left = if edges.rightmost && at + 3 > self.len() { self.len() - 1 } else { self.len() / 2 };
        Inserted::Yes(SmallVec::from_iter([self.split(left, &mut change.tally)]))
    }

    fn adopt<T>(&mut self, at: usize, siblings: SmallVec<[Sibling<T>; 2]>, put: impl Fn(&mut Kids, usize, T)) {
        if siblings.is_empty() {
            return;
        }
        for (i, sibling) in siblings.into_iter().enumerate() {
            self.counts[at] -= sibling.count;
            self.counts.insert(at + 1 + i, sibling.count);
            self.separators.insert(at + i, sibling.separator);
            put(&mut self.kids, at + 1 + i, sibling.node);
        }
        self.refresh();
    }

    /// Moves the children from `left` on to a new node.
    fn split(&mut self, left: usize, tally: &mut Tally) -> Sibling<Shared<Inner>> {
        let kids = match &mut self.kids {
            Kids::Leaves(leaves) => Kids::Leaves(leaves.drain(left..).collect()),
            Kids::Inners(inners) => Kids::Inners(inners.drain(left..).collect()),
        };
        let counts: SmallVec<[u64; FAN]> = self.counts.drain(left..).collect();
        let separators = self.separators.drain(left..).collect();
        let Some(separator) = self.separators.pop() else { unreachable!("a node is split between two children") };
        self.refresh();
        let count = counts.iter().sum();
        Sibling { separator, node: new_inner(Inner::new(kids, counts, separators), tally), count }
    }

    /// Removes an entry below this node; says whether there was one.
    pub fn remove(&mut self, change: &mut Change<'_>) -> Option<u64> {
        let at = self.find(&change.joined);
        self.prefetch_kid(at);
        let removed = match &mut self.kids {
            Kids::Leaves(leaves) => remove_from_leaf(&mut leaves[at], change)?,
            Kids::Inners(inners) => inners[at].make_mut(&mut change.tally.copied).remove(change)?,
        };
        self.counts[at] -= 1;
        if self.counts[at] == 0 {
            self.drop_child(at, &mut change.tally);
        } else if self.is_small(at) {
            self.join_neighbours(at, &mut change.tally);
        }
        Some(removed)
    }

    fn drop_child(&mut self, at: usize, tally: &mut Tally) {
        match &mut self.kids {
            Kids::Leaves(leaves) => tally.memory -= leaves.remove(at).memory() as isize,
            Kids::Inners(inners) => {
                inners.remove(at);
                tally.memory -= Shared::<Inner>::MEMORY as isize;
            }
        }
        self.counts.remove(at);
        if !self.separators.is_empty() {
            self.separators.remove(at.saturating_sub(1));
        }
        self.refresh();
    }

    fn is_small(&self, at: usize) -> bool {
        match &self.kids {
            Kids::Leaves(leaves) => leaves[at].size() < LEAF_BYTES_MIN,
            Kids::Inners(inners) => inners[at].len() < KIDS_MAX / 4,
        }
    }

    /// Joins a small child with a neighbour if both together leave room for growth.
    fn join_neighbours(&mut self, at: usize, tally: &mut Tally) {
        let left = at.checked_sub(1).into_iter().chain((at + 1 < self.len()).then_some(at));
        for left in left {
            let joined = match &mut self.kids {
                Kids::Leaves(leaves) => join_leaves(leaves, left, tally),
                Kids::Inners(inners) => join_inners(inners, left, &self.separators[left], tally),
            };
            if joined {
                self.counts[left] += self.counts.remove(left + 1);
                self.separators.remove(left);
                self.refresh();
                return;
            }
        }
    }
}

/// What a tree hangs on: a leaf or an inner node.
pub(super) enum Root {
    Leaf(Leaf),
    Inner(Shared<Inner>),
}

impl Root {
    fn into_leaf(self) -> Leaf {
        let Root::Leaf(leaf) = self else { unreachable!("siblings are of one level") };
        leaf
    }

    fn into_inner(self) -> Shared<Inner> {
        let Root::Inner(inner) = self else { unreachable!("siblings are of one level") };
        inner
    }
}

impl From<Leaf> for Root {
    fn from(leaf: Leaf) -> Root {
        Root::Leaf(leaf)
    }
}

impl From<Shared<Inner>> for Root {
    fn from(inner: Shared<Inner>) -> Root {
        Root::Inner(inner)
    }
}

pub(super) fn new_inner(inner: Inner, tally: &mut Tally) -> Shared<Inner> {
    tally.memory += Shared::<Inner>::MEMORY as isize;
    Shared::new(inner)
}

/// The first eight bytes as a number, zeros where there are none.
#[inline]
fn head_of(bytes: &[u8]) -> u64 {
    if let Some(head) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [0; 8];
    head[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(head)
}

pub(super) fn insert_in_leaf(leaf: &mut Leaf, change: &mut Change<'_>, edges: Edges) -> Inserted<Leaf> {
    let at = leaf.search(&change.probe);
    if let Some(old) = existing(leaf, at, change) {
        if !change.multi {
            leaf.set_value(at, change.value, &mut change.tally);
        }
        return Inserted::No(old);
    }
    if leaf.insert_in_place(at, change.key, change.value, &mut change.tally) {
        return Inserted::Yes(SmallVec::new());
    }
    let right = leaf.insert_rebuilding(at, change.key, change.value, edges, &mut change.tally);
    let mut siblings: SmallVec<[Sibling<Leaf>; 2]> = SmallVec::new();
    for node in right {
        let separator = separator(siblings.last().map_or(&*leaf, |s| &s.node), &node, change.multi);
        let count = node.count() as u64;
        siblings.push(Sibling { separator, node, count });
    }
    Inserted::Yes(siblings)
}

pub(super) fn remove_from_leaf(leaf: &mut Leaf, change: &mut Change<'_>) -> Option<u64> {
    let at = leaf.search(&change.probe);
    let old = existing(leaf, at, change)?;
    leaf.remove(at, &mut change.tally);
    Some(old)
}

/// The value of the entry that the change is about, if it is there.
fn existing(leaf: &Leaf, at: usize, change: &Change<'_>) -> Option<u64> {
    if at == leaf.count() {
        return None;
    }
    let entry = leaf.entry(at);
    let same_key = change.key.strip_prefix(entry.prefix) == Some(entry.suffix);
    (same_key && (!change.multi || entry.value == change.value)).then_some(entry.value)
}

/// The shortest string that separates two neighbouring leaves.
pub(super) fn separator(left: &Leaf, right: &Leaf, multi: bool) -> Separator {
    let joined = |leaf: &Leaf, at: usize| {
        let entry = leaf.entry(at);
        let mut joined: SmallVec<[u8; 72]> = SmallVec::new();
        entry.key_into(&mut joined);
        if multi {
            joined.extend_from_slice(&value_bytes(entry.value));
        }
        joined
    };
    between(&joined(left, left.count() - 1), &joined(right, 0))
}

/// The shortest start of `right` that is above `left`.
pub(super) fn between(left: &[u8], right: &[u8]) -> Separator {
    debug_assert!(left < right);
    Separator::from_slice(&right[..common_prefix(left, right) + 1])
}

fn join_leaves(leaves: &mut SmallVec<[Leaf; FAN]>, left: usize, tally: &mut Tally) -> bool {
    let (first, second) = (&leaves[left], &leaves[left + 1]);
    let pieces = [Piece::Of(first, 0, first.count()), Piece::Of(second, 0, second.count())];
    if size_of_leaf(&pieces) > LEAF_BYTES_MAX * 3 / 4 {
        return false;
    }
    let joined = Leaf::build(&pieces, tally);
    tally.memory -= leaves.remove(left + 1).memory() as isize;
    leaves[left].replace(joined, tally);
    true
}

fn join_inners(
    inners: &mut SmallVec<[Shared<Inner>; FAN]>,
    left: usize,
    separator: &Separator,
    tally: &mut Tally,
) -> bool {
    if inners[left].len() + inners[left + 1].len() > KIDS_MAX * 3 / 4 {
        return false;
    }
    let mut right = inners.remove(left + 1);
    tally.memory -= Shared::<Inner>::MEMORY as isize;
    let right = right.make_mut(&mut tally.copied);
    let joined = inners[left].make_mut(&mut tally.copied);
    joined.separators.push(separator.clone());
    joined.separators.extend(right.separators.drain(..));
    joined.counts.extend(right.counts.drain(..));
    match (&mut joined.kids, &mut right.kids) {
        (Kids::Leaves(to), Kids::Leaves(from)) => to.extend(from.drain(..)),
        (Kids::Inners(to), Kids::Inners(from)) => to.extend(from.drain(..)),
        _ => unreachable!("neighbours are of one level"),
    }
    joined.refresh();
    true
}

#[cfg(test)]
impl Inner {
    /// Checks the node and everything below it; returns entries, bytes and depth.
    pub(super) fn check(&self, multi: bool) -> (u64, usize, usize) {
        assert!(self.len() <= KIDS_MAX && self.len() > 0);
        assert_eq!(self.len(), self.separators.len() + 1);
        assert!(self.separators.windows(2).all(|pair| pair[0] < pair[1]));
        let mut memory = Shared::<Inner>::MEMORY;
        let mut depth = 0;
        for at in 0..self.len() {
            let (count, bytes, below) = match &self.kids {
                Kids::Leaves(leaves) => {
                    let leaf = &leaves[at];
                    for i in 0..leaf.count() {
                        let mut joined = leaf.entry(i).key();
                        if multi {
                            joined.extend(value_bytes(leaf.entry(i).value));
                        }
                        assert!(at == 0 || self.separators[at - 1][..] <= joined[..]);
                        assert!(at == self.separators.len() || joined[..] < self.separators[at][..]);
                    }
                    (leaf.count() as u64, leaf.memory(), 1)
                }
                Kids::Inners(inners) => inners[at].check(multi),
            };
            assert_eq!(self.counts[at], count);
            assert!(count > 0);
            memory += bytes;
            assert!(depth == 0 || depth == below + 1, "all leaves are at one depth");
            depth = below + 1;
        }
        (self.count(), memory, depth)
    }
}
