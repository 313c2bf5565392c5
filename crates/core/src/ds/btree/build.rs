//! Builds a tree from entries in order: full leaves, then the levels above them.

use super::inner::{Inner, KIDS_MAX, Kids, Root, Separator, between, new_inner};
use super::leaf::{LEAF_BYTES_MAX, Leaf, Piece, Tally, size_of_leaf};
use super::probe::{common_prefix, value_bytes};
use super::{BTree, KEY_BYTES_MAX, VALUE_END};
use crate::ds::cow::Shared;
use smallvec::SmallVec;

/// Takes entries in order and makes a tree of them.
pub struct Builder {
    multi: bool,
    len: u64,
    tally: Tally,
    leaves: Vec<(Separator, Leaf)>,
    /// The entries of the next leaf.
    keys: Vec<u8>,
    ends: Vec<usize>,
    values: Vec<u64>,
    /// What the entries of the next leaf have in common.
    common: usize,
    equal_len: bool,
    value_bits: u64,
    /// The last entry before it, key and value.
    before: Vec<u8>,
}

impl Builder {
    /// For a map (`multi` false) or a multimap.
    pub fn new(multi: bool) -> Builder {
        Builder {
            multi,
            len: 0,
            tally: Tally::default(),
            leaves: Vec::new(),
            keys: Vec::new(),
            ends: Vec::new(),
            values: Vec::new(),
            common: 0,
            equal_len: true,
            value_bits: 0,
            before: Vec::new(),
        }
    }

    /// Adds an entry above all those before it.
    pub fn push(&mut self, key: &[u8], value: u64) {
        assert!(value < VALUE_END);
        assert!(key.len() <= KEY_BYTES_MAX);
        if !self.ends.is_empty() && self.size_with(key, value) > LEAF_BYTES_MAX {
            self.end_leaf();
        }
        if self.ends.is_empty() {
            (self.common, self.equal_len, self.value_bits) = (key.len(), true, 0);
        } else {
            let first = self.key(0);
            let (common, equal_len) = (common_prefix(first, key), first.len() == key.len());
            self.common = self.common.min(common);
            self.equal_len &= equal_len;
        }
        self.value_bits |= value;
        self.keys.extend_from_slice(key);
        self.ends.push(self.keys.len());
        self.values.push(value);
        self.len += 1;
    }

    fn key(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.keys[start..self.ends[i]]
    }

    /// Bytes of the leaf with one more entry; a little too many is no harm.
    fn size_with(&self, key: &[u8], value: u64) -> usize {
        let first = self.key(0);
        let common = self.common.min(common_prefix(first, key));
        let count = self.ends.len() + 1;
        let value_len = (64 - (self.value_bits | value).leading_zeros() as usize).div_ceil(8).max(1);
        let ends = if self.equal_len && first.len() == key.len() { 0 } else { 2 * count };
        32 + common + (self.keys.len() + key.len() - count * common) + count * value_len + ends
    }

    fn end_leaf(&mut self) {
        let pieces: Vec<Piece<'_>> =
            self.values.iter().enumerate().map(|(i, &value)| Piece::New(self.key(i), value)).collect();
        debug_assert!(size_of_leaf(&pieces) <= LEAF_BYTES_MAX || pieces.len() == 1);
        let mut tally = self.tally;
        let leaf = Leaf::build(&pieces, &mut tally);
        self.tally = tally;
        let first = self.joined(0);
        let separator = if self.leaves.is_empty() { Separator::new() } else { between(&self.before, &first) };
        self.before = self.joined(self.ends.len() - 1);
        self.leaves.push((separator, leaf));
        self.keys.clear();
        self.ends.clear();
        self.values.clear();
    }

    fn joined(&self, i: usize) -> Vec<u8> {
        let mut joined = self.key(i).to_vec();
        if self.multi {
            joined.extend(value_bytes(self.values[i]));
        }
        joined
    }

    /// The tree.
    pub fn finish(mut self) -> BTree {
        if !self.ends.is_empty() {
            self.end_leaf();
        }
        let mut tally = self.tally;
        let root = match self.leaves.len() {
            0 => Root::Leaf(Leaf::empty(&mut tally)),
            1 => Root::Leaf(self.leaves.remove(0).1),
            _ => {
                let leaves = self.leaves.into_iter().map(|(s, leaf)| (s, leaf.count() as u64, leaf)).collect();
                let mut level = level_above(leaves, |leaves| Kids::Leaves(leaves.collect()), &mut tally);
                while level.len() > 1 {
                    level = level_above(level, |inners| Kids::Inners(inners.collect()), &mut tally);
                }
                Root::Inner(level.remove(0).2)
            }
        };
        BTree { root, multi: self.multi, len: self.len, memory: tally.memory as usize, copied: 0 }
    }
}

type Level<T> = Vec<(Separator, u64, T)>;

/// Distributes the nodes of a level evenly over as few nodes as hold them with a little room.
fn level_above<T>(
    nodes: Level<T>,
    kids: impl Fn(&mut dyn Iterator<Item = T>) -> Kids,
    tally: &mut Tally,
) -> Level<Shared<Inner>> {
    let parents = nodes.len().div_ceil(KIDS_MAX * 7 / 8);
    let total = nodes.len();
    let mut nodes = nodes.into_iter();
    (0..parents)
        .map(|i| {
            let len = total * (i + 1) / parents - total * i / parents;
            let mut counts = SmallVec::new();
            let mut separators = SmallVec::new();
            let mut below = Vec::with_capacity(len);
            for (separator, count, node) in nodes.by_ref().take(len) {
                separators.push(separator);
                counts.push(count);
                below.push(node);
            }
            let separator = separators.remove(0);
            let count = counts.iter().sum();
            let inner = Inner::new(kids(&mut below.into_iter()), counts, separators);
            (separator, count, new_inner(inner, tally))
        })
        .collect()
}
