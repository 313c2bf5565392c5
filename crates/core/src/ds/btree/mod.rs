//! The ordered map from byte keys to small numbers: ordered indexes, and lists of row ids of one key.
//!
//! A B+tree whose leaves (1 kB) keep the common start of their keys once and values in the bytes they need (`leaf`), and
//! whose inner nodes know how many entries each child has (`inner`): rank and offset cost a descent. Nodes are shared
//! with views by reference count and copied when written while shared (`cow`), so a view is taken at once.
//!
//! A tree is a **map** (one value per key, any keys) or a **multimap** (entries are pairs, ordered by key, then by
//! value; no key may be the start of another one, which the encoding of index keys guarantees). Values are below 2^40.

mod build;
mod cursor;
mod inner;
mod leaf;
mod probe;
#[cfg(test)]
mod tests;

pub use build::Builder;
pub use cursor::Cursor;
pub use leaf::Entry;
pub use probe::{Probe, Side};

use crate::ds::cow::Shared;
use inner::{Change, Inner, Inserted, Kids, Root, insert_in_leaf, new_inner, remove_from_leaf};
use leaf::{Edges, Leaf, Tally};
use probe::Joined;

/// Values are below this.
pub const VALUE_END: u64 = 1 << 40;
/// Longest key, bytes.
pub const KEY_BYTES_MAX: usize = 16 * 1024;

/// An ordered map or multimap. A clone is a view: it costs the same at any size, and the two change independently.
pub struct BTree {
    root: Root,
    multi: bool,
    len: u64,
    memory: usize,
    copied: u64,
}

impl BTree {
    /// An empty map.
    pub fn map() -> BTree {
        BTree::new(false)
    }

    /// An empty multimap.
    pub fn multimap() -> BTree {
        BTree::new(true)
    }

    fn new(multi: bool) -> BTree {
        let mut tally = Tally::default();
        let root = Root::Leaf(Leaf::empty(&mut tally));
        BTree { root, multi, len: 0, memory: tally.memory as usize, copied: 0 }
    }

    /// Entries.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of all nodes, those shared with views included.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Bytes copied because views held them, since the tree began.
    pub fn copied(&self) -> u64 {
        self.copied
    }

    /// Inserts an entry. In a map: returns the value that the key had, which is replaced. In a multimap: returns the
    /// value if this very pair was there.
    pub fn insert(&mut self, key: &[u8], value: u64) -> Option<u64> {
        assert!(value < VALUE_END);
        assert!(key.len() <= KEY_BYTES_MAX);
        let mut change = self.change(key, value);
        let edges = Edges { leftmost: true, rightmost: true };
        // The root is taken out to become a child if it splits.
        let old = match &mut self.root {
            Root::Leaf(leaf) => match insert_in_leaf(leaf, &mut change, edges) {
                Inserted::No(old) => Some(old),
                Inserted::Yes(siblings) if siblings.is_empty() => None,
                Inserted::Yes(siblings) => {
                    let count = leaf.count() as u64;
                    let left = std::mem::replace(leaf, Leaf::empty(&mut Tally::default()));
                    self.root = Root::Inner(new_inner(Inner::above(left, count, siblings), &mut change.tally));
                    None
                }
            },
            Root::Inner(inner) => match inner.make_mut(&mut change.tally.copied).insert(&mut change, edges) {
                Inserted::No(old) => Some(old),
                Inserted::Yes(siblings) if siblings.is_empty() => None,
                Inserted::Yes(siblings) => {
                    let (left, count) = (inner.clone(), inner.count());
                    self.root = Root::Inner(new_inner(Inner::above(left, count, siblings), &mut change.tally));
                    None
                }
            },
        };
        self.len += u64::from(old.is_none());
        self.take_tally(change.tally);
        old
    }

    /// Removes an entry (in a multimap, the one with this value) and returns its value.
    pub fn remove(&mut self, key: &[u8], value: u64) -> Option<u64> {
        let mut change = self.change(key, value);
        let removed = match &mut self.root {
            Root::Leaf(leaf) => remove_from_leaf(leaf, &mut change),
            Root::Inner(inner) => inner.make_mut(&mut change.tally.copied).remove(&mut change),
        };
        self.len -= u64::from(removed.is_some());
        self.lower_root(&mut change.tally);
        self.take_tally(change.tally);
        removed
    }

    fn change<'a>(&self, key: &'a [u8], value: u64) -> Change<'a> {
        let probe = if self.multi { Probe::at(key, value) } else { Probe::before(key) };
        Change { key, value, probe, joined: Joined::new(&probe), multi: self.multi, tally: Tally::default() }
    }

    /// An inner root with one child gives way to it, one without children to an empty leaf.
    fn lower_root(&mut self, tally: &mut Tally) {
        while let Root::Inner(inner) = &self.root {
            let lower = match (inner.len(), inner.kids()) {
                (0, _) => Root::Leaf(Leaf::empty(tally)),
                (1, Kids::Leaves(leaves)) => Root::Leaf(leaves[0].share()),
                (1, Kids::Inners(inners)) => Root::Inner(inners[0].clone()),
                _ => return,
            };
            self.root = lower;
            tally.memory -= Shared::<Inner>::MEMORY as isize;
        }
    }

    fn take_tally(&mut self, tally: Tally) {
        self.memory = self.memory.checked_add_signed(tally.memory).expect("a tree has no fewer than 0 bytes");
        self.copied += tally.copied;
    }

    /// The value of a key (in a multimap, its least).
    pub fn get(&self, key: &[u8]) -> Option<u64> {
        let mut cursor = self.cursor(&Probe::before(key));
        let entry = cursor.next()?;
        (key.strip_prefix(entry.prefix) == Some(entry.suffix)).then_some(entry.value)
    }

    /// A cursor at a place.
    pub fn cursor(&self, probe: &Probe<'_>) -> Cursor<'_> {
        Cursor::new(&self.root, probe)
    }

    /// How many entries are before a place.
    pub fn rank(&self, probe: &Probe<'_>) -> u64 {
        if probe.key.is_empty() {
            return if probe.side == Side::After { self.len } else { 0 };
        }
        let joined = Joined::new(probe);
        let mut rank = 0;
        let mut inner = match &self.root {
            Root::Leaf(leaf) => return leaf.search(probe) as u64,
            Root::Inner(inner) => inner,
        };
        loop {
            let at = inner.find(&joined);
            inner.prefetch_kid(at);
            rank += inner.counts()[..at].iter().sum::<u64>();
            match inner.kids() {
                Kids::Leaves(leaves) => return rank + leaves[at].search(probe) as u64,
                Kids::Inners(inners) => inner = &inners[at],
            }
        }
    }

    /// How many entries lie between two places.
    pub fn count(&self, from: &Probe<'_>, to: &Probe<'_>) -> u64 {
        self.rank(to).saturating_sub(self.rank(from))
    }

    /// A cursor before the entry of this rank (0: the first).
    pub fn cursor_at(&self, rank: u64) -> Cursor<'_> {
        Cursor::at_rank(&self.root, rank)
    }
}

impl Clone for BTree {
    fn clone(&self) -> BTree {
        let root = match &self.root {
            Root::Leaf(leaf) => Root::Leaf(leaf.share()),
            Root::Inner(inner) => Root::Inner(inner.clone()),
        };
        BTree { root, ..*self }
    }
}
