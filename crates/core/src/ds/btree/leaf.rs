//! A leaf: sorted entries in one buffer, the bytes common to all keys stored once, values in as few bytes as they need.
//!
//! ```text
//! fixed:     header | prefix | suffix value | suffix value | ...                        | spare
//! variable:  header | prefix | suffix value | suffix value | ... | spare | ... end 1, end 0 |
//! ```
//! When all keys have the same length the entries form an array and are found by comparing whole words. Otherwise the
//! end of each entry (relative to the first) stands at the end of the buffer. Buffers grow by allocator classes, so a
//! leaf that splits have left half full takes little more memory than its entries.

use super::probe::{Probe, Side};
use crate::ds::cow::Buf;

/// Most bytes of a leaf, unless a single entry needs more.
pub(super) const LEAF_BYTES_MAX: usize = 1000;
/// A leaf with fewer bytes looks for a neighbour to join.
pub(super) const LEAF_BYTES_MIN: usize = LEAF_BYTES_MAX / 4;

/// `count`, `prefix_len`, `suffix_len`, `last`, `used` (two bytes each), `value_len` (one byte), one byte spare.
const HEADER: usize = 12;
/// Bytes behind the entries, so that a word can be loaded at any of them.
const SLACK: usize = 8;
/// `suffix_len` of a leaf whose keys differ in length.
const VARIABLE: usize = 0xFFFF;
/// `last` (the place of the last insertion) when there was none since the leaf was built.
const NEVER: usize = 0xFFFF;

/// What changed besides the entries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Bytes copied because views held them.
    pub copied: u64,
    /// Bytes allocated, less bytes freed.
    pub memory: isize,
}

#[derive(Debug)]
pub(super) struct Leaf(Buf);

/// The header, read at once.
#[derive(Clone, Copy)]
struct Shape {
    count: usize,
    prefix_len: usize,
    suffix_len: usize,
    value_len: usize,
    /// Bytes of all entries.
    used: usize,
}

impl Shape {
    fn base(&self) -> usize {
        HEADER + self.prefix_len
    }

    fn stride(&self) -> usize {
        self.suffix_len + self.value_len
    }

    fn is_fixed(&self) -> bool {
        self.suffix_len != VARIABLE
    }

    /// Bytes of a buffer that these entries need.
    fn size(&self) -> usize {
        self.base() + self.used + SLACK + if self.is_fixed() { 0 } else { 2 * self.count }
    }
}

/// One entry of a leaf, in place.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The start of its key.
    pub prefix: &'a [u8],
    /// The rest of its key.
    pub suffix: &'a [u8],
    /// Its value.
    pub value: u64,
}

impl Entry<'_> {
    /// Appends the whole key.
    pub fn key_into(&self, out: &mut impl Extend<u8>) {
        out.extend(self.prefix.iter().copied());
        out.extend(self.suffix.iter().copied());
    }

    /// A copy of the whole key.
    pub fn key(&self) -> Vec<u8> {
        [self.prefix, self.suffix].concat()
    }

    fn len(&self) -> usize {
        self.prefix.len() + self.suffix.len()
    }

    /// Byte `i` of the key.
    fn byte(&self, i: usize) -> Option<u8> {
        self.prefix.get(i).or_else(|| self.suffix.get(i - self.prefix.len())).copied()
    }
}

/// Entries to build a leaf of, in order.
#[derive(Clone, Copy)]
pub(super) enum Piece<'a> {
    /// Entries from .. to of a leaf.
    Of(&'a Leaf, usize, usize),
    /// A new one.
    New(&'a [u8], u64),
}

impl<'a> Piece<'a> {
    fn len(&self) -> usize {
        match self {
            Piece::Of(_, from, to) => to - from,
            Piece::New(..) => 1,
        }
    }

    fn get(&self, i: usize) -> Entry<'a> {
        match *self {
            Piece::Of(leaf, from, _) => leaf.entry(from + i),
            Piece::New(key, value) => Entry { prefix: &[], suffix: key, value },
        }
    }

    fn entries(self) -> impl Iterator<Item = Entry<'a>> {
        (0..self.len()).map(move |i| self.get(i))
    }
}

/// The shape that a leaf of these entries will have.
fn plan(pieces: &[Piece<'_>]) -> Shape {
    let entries = || pieces.iter().flat_map(|p| p.entries());
    let Some(first) = entries().next() else {
        return Shape { count: 0, prefix_len: 0, suffix_len: 0, value_len: 1, used: 0 };
    };
    let last = pieces.iter().rev().find(|p| p.len() > 0).map_or(first, |p| p.get(p.len() - 1));
    // In sorted order what the first and the last have in common all have.
    let prefix_len = (0..first.len()).take_while(|&i| first.byte(i) == last.byte(i)).count();
    let (mut count, mut key_bytes, mut all_equal, mut values) = (0, 0, true, 0);
    for entry in entries() {
        count += 1;
        key_bytes += entry.len() - prefix_len;
        all_equal &= entry.len() == first.len();
        values |= entry.value;
    }
    let value_len = value_len(values);
    let suffix_len = if all_equal { first.len() - prefix_len } else { VARIABLE };
    Shape { count, prefix_len, suffix_len, value_len, used: key_bytes + count * value_len }
}

fn value_len(value: u64) -> usize {
    (64 - value.leading_zeros() as usize).div_ceil(8).max(1)
}

/// Bytes that a leaf of these entries would take.
pub(super) fn size_of_leaf(pieces: &[Piece<'_>]) -> usize {
    plan(pieces).size()
}

impl Leaf {
    pub fn empty(tally: &mut Tally) -> Leaf {
        Leaf::build(&[], tally)
    }

    /// A leaf of these entries.
    pub fn build(pieces: &[Piece<'_>], tally: &mut Tally) -> Leaf {
        Leaf::build_planned(pieces, plan(pieces), tally)
    }

    fn build_planned(pieces: &[Piece<'_>], shape: Shape, tally: &mut Tally) -> Leaf {
        let mut buf = Buf::with_capacity(shape.size());
        tally.memory += buf.memory() as isize;
        let bytes = buf.make_mut(&mut 0);
        let mut at = shape.base();
        let mut entries = pieces.iter().flat_map(|p| p.entries()).enumerate().peekable();
        if let Some((_, first)) = entries.peek() {
            put_key(&mut bytes[HEADER..at], *first, 0);
        }
        for (i, entry) in entries {
            let len = entry.len() - shape.prefix_len;
            put_key(&mut bytes[at..at + len], entry, shape.prefix_len);
            at += len;
            put_value(&mut bytes[at..at + shape.value_len], entry.value);
            at += shape.value_len;
            if !shape.is_fixed() {
                put_end(bytes, i, at - shape.base());
            }
        }
        put_shape(bytes, shape);
        put_u16(bytes, 6, NEVER);
        Leaf(buf)
    }

    pub fn memory(&self) -> usize {
        self.0.memory()
    }

    /// Starts loading the leaf. All of it: a search waits for one line after another otherwise, and a change moves
    /// half of the bytes anyway.
    #[inline]
    pub fn prefetch(&self) {
        self.0.prefetch(0, LEAF_BYTES_MAX);
    }

    /// Another owner, for the copy of a node above.
    pub fn share(&self) -> Leaf {
        Leaf(self.0.clone())
    }

    pub fn count(&self) -> usize {
        get_u16(&self.0, 0)
    }

    /// Bytes that the entries need.
    pub fn size(&self) -> usize {
        self.shape().size()
    }

    #[inline]
    fn shape(&self) -> Shape {
        let bytes = &self.0;
        Shape {
            count: get_u16(bytes, 0),
            prefix_len: get_u16(bytes, 2),
            suffix_len: get_u16(bytes, 4),
            used: get_u16(bytes, 8),
            value_len: usize::from(bytes[10]),
        }
    }

    pub fn prefix(&self) -> &[u8] {
        &self.0[HEADER..HEADER + get_u16(&self.0, 2)]
    }

    /// The entry at a place below `count`.
    #[inline]
    pub fn entry(&self, at: usize) -> Entry<'_> {
        self.entry_of(self.shape(), at)
    }

    /// The entries of a range, with the header read once.
    #[inline]
    pub fn entries(&self, range: std::ops::Range<usize>) -> impl DoubleEndedIterator<Item = Entry<'_>> {
        let shape = self.shape();
        range.map(move |at| self.entry_of(shape, at))
    }

    #[inline(always)]
    fn entry_of(&self, shape: Shape, at: usize) -> Entry<'_> {
        debug_assert!(at < shape.count);
        let (start, end) = self.span(shape, at);
        let value_at = end - shape.value_len;
        let bytes = &self.0;
        Entry {
            prefix: &bytes[HEADER..shape.base()],
            suffix: &bytes[start..value_at],
            value: get_value(bytes, end, shape.value_len),
        }
    }

    /// Where the entry begins and ends in the buffer.
    #[inline]
    fn span(&self, shape: Shape, at: usize) -> (usize, usize) {
        let base = shape.base();
        if shape.is_fixed() {
            let start = base + at * shape.stride();
            return (start, start + shape.stride());
        }
        let start = if at == 0 { 0 } else { get_end(&self.0, at - 1) };
        (base + start, base + get_end(&self.0, at))
    }

    /// How many entries are before the probe.
    #[inline]
    pub fn search(&self, probe: &Probe<'_>) -> usize {
        let shape = self.shape();
        let prefix = &self.0[HEADER..shape.base()];
        let common = prefix.len().min(probe.key.len());
        match probe.key[..common].cmp(&prefix[..common]) {
            std::cmp::Ordering::Less => return 0,
            std::cmp::Ordering::Greater => return shape.count,
            // All keys start with the probe's key and go on.
            _ if probe.key.len() < prefix.len() => return if probe.side == Side::After { shape.count } else { 0 },
            _ => {}
        }
        let rest = &probe.key[common..];
        if shape.is_fixed() && shape.stride() <= 8 {
            return self.search_words(shape, rest, probe.side);
        }
        let (mut low, mut high) = (0, shape.count);
        while low < high {
            let middle = (low + high) / 2;
            let (start, end) = self.span(shape, middle);
            let suffix = &self.0[start..end - shape.value_len];
            if Probe::passes(probe.side, rest, suffix, || get_value(&self.0, end, shape.value_len)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The same where an entry fits in a word: entries and probe are compared as numbers.
    fn search_words(&self, shape: Shape, rest: &[u8], side: Side) -> usize {
        let (suffix_len, value_bits) = (shape.suffix_len, 8 * shape.value_len as u32);
        let kept = rest.len().min(suffix_len);
        let mut word = [0; 8];
        word[..kept].copy_from_slice(&rest[..kept]);
        // The probe's key cut or filled with zeros to the length of the entries' keys, then a value of zero.
        let shift = 64 - 8 * shape.stride() as u32;
        let least = u64::from_be_bytes(word) >> shift;
        // All words from `least` on that start with the kept bytes.
        let most = least | u64::MAX.checked_shr(8 * kept as u32).unwrap_or(0) >> shift;
        let limit = match side {
            // Keys that end where the probe's goes on are before it.
            _ if rest.len() > suffix_len => most.checked_add(1),
            Side::After => most.checked_add(1),
            Side::At(value) if rest.len() == suffix_len => {
                if value >> value_bits == 0 {
                    Some(least | value)
                } else {
                    most.checked_add(1)
                }
            }
            Side::Before | Side::At(_) => Some(least),
        };
        let Some(limit) = limit else { return shape.count };
        let entries = &self.0[shape.base()..];
        let stride = shape.stride();
        let passes = |i: usize| {
            let at = i * stride;
            let word = entries[at..at + 8].try_into().expect("eight bytes");
            usize::from(u64::from_be_bytes(word) >> shift < limit)
        };
        // Not by halves: each step would wait for the cache line of the step before. Samples far apart can be loaded
        // at the same time; those that pass tell the block, samples in it the line, and the line the place.
        let (mut low, mut high) = (0, shape.count);
        for apart in [256 / stride, 64 / stride] {
            let blocks: usize = (low + apart..high).step_by(apart).map(passes).sum();
            low += blocks * apart;
            high = high.min(low + apart);
        }
        low + (low..high).map(passes).sum::<usize>()
    }

    /// Inserts an entry at the place that `search` found for it, if that needs no new shape and no split.
    pub fn insert_in_place(&mut self, at: usize, key: &[u8], value: u64, tally: &mut Tally) -> bool {
        let shape = self.shape();
        let Some(suffix) = key.strip_prefix(self.prefix()) else { return false };
        if shape.count == 0
            || value_len(value) > shape.value_len
            || (shape.is_fixed() && suffix.len() != shape.suffix_len)
        {
            return false;
        }
        let len = suffix.len() + shape.value_len;
        let after = Shape { count: shape.count + 1, used: shape.used + len, ..shape };
        if after.size() > self.0.len() {
            if after.size() > LEAF_BYTES_MAX {
                return false;
            }
            self.grow(shape, after.size(), tally);
        }
        let start = if at == shape.count { shape.base() + shape.used } else { self.span(shape, at).0 };
        let bytes = self.0.make_mut(&mut tally.copied);
        bytes.copy_within(start..shape.base() + shape.used, start + len);
        bytes[start..start + suffix.len()].copy_from_slice(suffix);
        put_value(&mut bytes[start + suffix.len()..start + len], value);
        if !shape.is_fixed() {
            for i in (at..shape.count).rev() {
                let end = get_end(bytes, i);
                put_end(bytes, i + 1, end + len);
            }
            put_end(bytes, at, start + len - shape.base());
        }
        put_shape(bytes, after);
        put_u16(bytes, 6, at);
        true
    }

    /// Moves the entries to a buffer of at least `size` bytes.
    fn grow(&mut self, shape: Shape, size: usize, tally: &mut Tally) {
        let mut larger = Buf::with_capacity(size);
        tally.memory += larger.memory() as isize - self.0.memory() as isize;
        let bytes = larger.make_mut(&mut 0);
        let front = shape.base() + shape.used;
        bytes[..front].copy_from_slice(&self.0[..front]);
        if !shape.is_fixed() {
            let ends = 2 * shape.count;
            let len = bytes.len();
            bytes[len - ends..].copy_from_slice(&self.0[self.0.len() - ends..]);
        }
        self.0 = larger;
    }

    /// Inserts an entry where `insert_in_place` could not: into a new buffer, or two or three. Returns the leaves that
    /// are to stand after this one.
    pub fn insert_rebuilding(
        &mut self,
        at: usize,
        key: &[u8],
        value: u64,
        edges: Edges,
        tally: &mut Tally,
    ) -> Vec<Leaf> {
        let count = self.count();
        let all = [Piece::Of(self, 0, at), Piece::New(key, value), Piece::Of(self, at, count)];
        let shape = plan(&all);
        if shape.size() <= LEAF_BYTES_MAX || count == 0 {
            let mut rebuilt = Leaf::build_planned(&all, shape, tally);
            put_u16(rebuilt.0.make_mut(&mut 0), 6, at);
            self.replace(rebuilt, tally);
            return Vec::new();
        }
        let parts = self.split_for(at, edges, &all);
        let mut leaves: Vec<Leaf> = parts.iter().map(|part| Leaf::build(part, tally)).collect();
        // In which leaf the new entry came to lie, and where.
        let mut place = at;
        for leaf in &mut leaves {
            if place < leaf.count() {
                put_u16(leaf.0.make_mut(&mut 0), 6, place);
                break;
            }
            place -= leaf.count();
        }
        self.replace(leaves.remove(0), tally);
        leaves
    }

    /// Takes the place of a leaf by another one.
    pub fn replace(&mut self, other: Leaf, tally: &mut Tally) {
        tally.memory -= self.memory() as isize;
        *self = other;
    }

    /// How to distribute this leaf's entries and a new one.
    fn split_for<'a>(&'a self, at: usize, edges: Edges, all: &[Piece<'a>; 3]) -> Vec<Vec<Piece<'a>>> {
        let count = self.count();
        let [before, new, after] = *all;
        let last = get_u16(&self.0, 6);
        // Rising keys, at the end of the tree or in the middle of it, leave full leaves behind; so do falling ones.
        if at == count && (edges.rightmost || (count > 1 && last + 1 == count)) {
            return vec![vec![before], vec![new]];
        }
        if at == 0 && (edges.leftmost || (count > 1 && last == 0)) {
            return vec![vec![new], vec![after]];
        }
        if at > 0 && at < count && last + 1 == at && at > count / 8 {
            let parts = vec![vec![before, new], vec![after]];
            if fits(&parts) {
                return parts;
            }
            return vec![vec![before], vec![new, after]];
        }
        let half = self.half(at, all);
        if fits(&half) {
            return half;
        }
        // One entry that needs a wider shape than all others: alone it takes nothing from their leaves.
        [vec![before], vec![new], vec![after]].into_iter().filter(|p| p.iter().any(|p| p.len() > 0)).collect()
    }

    /// Two parts of about equal bytes.
    fn half<'a>(&'a self, at: usize, all: &[Piece<'a>; 3]) -> Vec<Vec<Piece<'a>>> {
        let (count, new) = (self.count(), all[1]);
        let new_len = new.get(0).len() + VARIABLE_COST;
        let cost = |i: usize| self.entry(i).len() + VARIABLE_COST;
        let total: usize = (0..count).map(cost).sum::<usize>() + new_len;
        let (mut left, mut sum) = (0, 0);
        // `left` counts entries of the whole sequence, in which the new one stands at `at`.
        while left < count && sum < total / 2 {
            sum += if left == at { new_len } else { cost(left - usize::from(left > at)) };
            left += 1;
        }
        let left = left.max(1);
        if left > at {
            vec![
                vec![Piece::Of(self, 0, at), new, Piece::Of(self, at, left - 1)],
                vec![Piece::Of(self, left - 1, count)],
            ]
        } else {
            vec![vec![Piece::Of(self, 0, left)], vec![Piece::Of(self, left, at), new, Piece::Of(self, at, count)]]
        }
    }

    /// Removes the entry at a place.
    pub fn remove(&mut self, at: usize, tally: &mut Tally) {
        let shape = self.shape();
        let (start, end) = self.span(shape, at);
        let len = end - start;
        let bytes = self.0.make_mut(&mut tally.copied);
        bytes.copy_within(end..shape.base() + shape.used, start);
        if !shape.is_fixed() {
            for i in at + 1..shape.count {
                let end = get_end(bytes, i);
                put_end(bytes, i - 1, end - len);
            }
        }
        let after = Shape { count: shape.count - 1, used: shape.used - len, ..shape };
        put_shape(bytes, after);
        put_u16(bytes, 6, NEVER);
        if after.size() * 2 < self.0.len() && self.0.len() > 128 {
            let smaller = Leaf::build(&[Piece::Of(self, 0, after.count)], tally);
            self.replace(smaller, tally);
        }
    }

    /// Gives the entry at a place another value.
    pub fn set_value(&mut self, at: usize, value: u64, tally: &mut Tally) {
        let shape = self.shape();
        let (_, end) = self.span(shape, at);
        if value_len(value) <= shape.value_len {
            let bytes = self.0.make_mut(&mut tally.copied);
            return put_value(&mut bytes[end - shape.value_len..end], value);
        }
        let key = self.entry(at).key();
        let count = shape.count;
        let pieces = [Piece::Of(self, 0, at), Piece::New(&key, value), Piece::Of(self, at + 1, count)];
        let rebuilt = Leaf::build(&pieces, tally);
        self.replace(rebuilt, tally);
    }
}

/// What an entry costs besides its key when keys differ in length, about.
const VARIABLE_COST: usize = 6;

/// Is the leaf at an end of the tree?
#[derive(Clone, Copy, Debug)]
pub(super) struct Edges {
    pub leftmost: bool,
    pub rightmost: bool,
}

fn fits(parts: &[Vec<Piece<'_>>]) -> bool {
    parts.iter().all(|part| {
        let shape = plan(part);
        shape.count > 0 && (shape.size() <= LEAF_BYTES_MAX || shape.count == 1)
    })
}

#[inline(always)]
fn get_u16(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

#[inline(always)]
fn put_u16(bytes: &mut [u8], at: usize, value: usize) {
    debug_assert!(value <= 0xFFFF);
    bytes[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
}

fn put_shape(bytes: &mut [u8], shape: Shape) {
    put_u16(bytes, 0, shape.count);
    put_u16(bytes, 2, shape.prefix_len);
    put_u16(bytes, 4, shape.suffix_len);
    put_u16(bytes, 8, shape.used);
    bytes[10] = shape.value_len as u8;
}

#[inline(always)]
fn get_end(bytes: &[u8], i: usize) -> usize {
    get_u16(bytes, bytes.len() - 2 * (i + 1))
}

#[inline(always)]
fn put_end(bytes: &mut [u8], i: usize, end: usize) {
    let at = bytes.len() - 2 * (i + 1);
    put_u16(bytes, at, end);
}

/// The value whose last byte is before `end`; the header makes sure that a word can be loaded there.
#[inline(always)]
fn get_value(bytes: &[u8], end: usize, len: usize) -> u64 {
    let word: [u8; 8] = bytes[end - 8..end].try_into().expect("eight bytes");
    u64::from_be_bytes(word) & (u64::MAX >> (64 - 8 * len as u32))
}

#[inline(always)]
fn put_value(out: &mut [u8], value: u64) {
    let bytes = value.to_be_bytes();
    out.copy_from_slice(&bytes[8 - out.len()..]);
}

/// Writes the key of an entry from byte `from` on.
fn put_key(out: &mut [u8], entry: Entry<'_>, from: usize) {
    let in_prefix = entry.prefix.len().saturating_sub(from).min(out.len());
    let (head, tail) = out.split_at_mut(in_prefix);
    if in_prefix > 0 {
        head.copy_from_slice(&entry.prefix[from..from + in_prefix]);
    }
    let skipped = from.saturating_sub(entry.prefix.len());
    tail.copy_from_slice(&entry.suffix[skipped..skipped + tail.len()]);
}
