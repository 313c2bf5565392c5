//! A list of byte strings in one contiguous buffer, in order: how small hashes, small sorted sets and the nodes of
//! lists are kept.
//!
//! ```text
//! buffer  | gap .. | entry | entry | ..          entry  | len | bytes | len backwards |
//! ```
//! The length stands on both sides of the bytes, so that entries can be walked either way: 1 byte each below 128,
//! otherwise 7 bits a byte, most significant bits towards the bytes' far side, the top bit meaning "more". The gap lets
//! both ends grow and shrink without moving the rest; there is none until the front is used.

use std::fmt;

/// Byte strings in order, in one buffer.
#[derive(Clone, Default)]
pub struct Packed {
    buffer: Vec<u8>,
    /// Where the first entry starts.
    head: u32,
    count: u32,
}

/// The place of an entry, or the end. Good until the next change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(usize);

impl Packed {
    /// An empty list; allocates nothing.
    pub const fn new() -> Self {
        Packed { buffer: Vec::new(), head: 0, count: 0 }
    }

    /// An empty list with room for `bytes` bytes of entries.
    pub fn with_capacity(bytes: usize) -> Self {
        Packed { buffer: Vec::with_capacity(bytes), head: 0, count: 0 }
    }

    /// How many entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// True without entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes that the entries take, their lengths included.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.buffer.len() - self.head as usize
    }

    /// Bytes that an entry of `len` bytes would take.
    #[inline]
    pub fn cost(len: usize) -> usize {
        len + 2 * length_size(len)
    }

    /// Bytes taken from the allocator.
    pub fn memory(&self) -> usize {
        self.buffer.capacity()
    }

    /// The place of the first entry (or the end).
    #[inline]
    pub fn first(&self) -> Place {
        Place(self.head as usize)
    }

    /// The place after the last entry.
    #[inline]
    pub fn end(&self) -> Place {
        Place(self.buffer.len())
    }

    /// The entry at a place, or `None` at the end.
    #[inline]
    pub fn get(&self, place: Place) -> Option<&[u8]> {
        (place.0 < self.buffer.len()).then(|| self.read(place.0).0)
    }

    /// The place after the entry at `place`, which is not the end.
    #[inline]
    pub fn next(&self, place: Place) -> Place {
        Place(self.read(place.0).1)
    }

    /// The place before `place`, or `None` at the front.
    #[inline]
    pub fn previous(&self, place: Place) -> Option<Place> {
        (place.0 > self.head as usize).then(|| Place(self.read_back(place.0).1))
    }

    /// The place of the entry with this index, or the end. Walks from the nearer side.
    pub fn place(&self, index: usize) -> Place {
        if index >= self.len() {
            return self.end();
        }
        if index <= self.len() / 2 {
            return (0..index).fold(self.first(), |place, _| self.next(place));
        }
        (index..self.len()).fold(self.end(), |place, _| Place(self.read_back(place.0).1))
    }

    /// The first entry.
    #[inline]
    pub fn front(&self) -> Option<&[u8]> {
        self.get(self.first())
    }

    /// The last entry.
    #[inline]
    pub fn back(&self) -> Option<&[u8]> {
        (!self.is_empty()).then(|| self.read_back(self.buffer.len()).0)
    }

    /// The entries from the first to the last.
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        Iter { list: self, from: self.head as usize, to: self.buffer.len() }
    }

    /// The entries between two places.
    pub fn iter_between(&self, from: Place, to: Place) -> Iter<'_> {
        Iter { list: self, from: from.0, to: to.0 }
    }

    /// Finds the first entry equal to `needle` among each `stride`-th one.
    #[inline]
    pub fn find(&self, needle: &[u8], stride: usize) -> Option<Place> {
        let buffer = &self.buffer[..];
        let mut at = self.head as usize;
        let mut skipped = 0;
        // One byte is looked at for each entry that is too short, too long or skipped.
        while at < buffer.len() {
            let first = buffer[at];
            let (len, size) = if first < 0x80 { (first as usize, 1) } else { read_length(&buffer[at..]) };
            let next = at + len + 2 * size;
            if skipped > 0 {
                skipped -= 1;
            } else {
                if len == needle.len() && is_equal(&buffer[at + size..at + size + len], needle) {
                    return Some(Place(at));
                }
                skipped = stride - 1;
            }
            at = next;
        }
        None
    }

    /// Adds an entry after the last.
    #[inline]
    pub fn push_back(&mut self, entry: &[u8]) {
        self.reserve(Self::cost(entry.len()));
        append(&mut self.buffer, entry);
        self.count += 1;
    }

    /// Adds an entry before the first.
    pub fn push_front(&mut self, entry: &[u8]) {
        let cost = Self::cost(entry.len());
        if (self.head as usize) < cost {
            self.widen_gap(cost);
        }
        self.head -= cost as u32;
        let at = self.head as usize;
        write(&mut self.buffer[at..at + cost], entry);
        self.count += 1;
    }

    /// Adds entries at a place, before what is there.
    pub fn insert(&mut self, place: Place, entries: &[&[u8]]) {
        if place == self.end() {
            return entries.iter().for_each(|entry| self.push_back(entry));
        }
        if place == self.first() && self.head > 0 {
            return entries.iter().rev().for_each(|entry| self.push_front(entry));
        }
        let cost: usize = entries.iter().map(|entry| Self::cost(entry.len())).sum();
        let offset = place.0 - self.head as usize;
        self.reserve(cost);
        let mut at = self.head as usize + offset;
        self.open(at, cost);
        for entry in entries {
            let end = at + Self::cost(entry.len());
            write(&mut self.buffer[at..end], entry);
            at = end;
        }
        self.count += entries.len() as u32;
    }

    /// Removes `count` entries from a place on; `place` then names what followed them.
    pub fn remove(&mut self, place: Place, count: usize) -> Place {
        let mut end = place;
        for _ in 0..count {
            end = self.next(end);
        }
        self.count -= count as u32;
        if self.count == 0 {
            self.clear();
            return self.end();
        }
        if place == self.first() {
            return self.drop_front(end);
        }
        self.buffer.drain(place.0..end.0);
        let offset = place.0 - self.head as usize;
        self.shrink();
        Place(self.head as usize + offset)
    }

    fn drop_front(&mut self, end: Place) -> Place {
        match u32::try_from(end.0) {
            Ok(head) => self.head = head,
            Err(_) => {
                self.buffer.drain(self.head as usize..end.0);
            }
        }
        self.shrink();
        self.first()
    }

    /// Puts another entry in the place of one.
    pub fn replace(&mut self, place: Place, entry: &[u8]) {
        let (old_len, next) = {
            let (old, next) = self.read(place.0);
            (old.len(), next)
        };
        if old_len == entry.len() {
            let start = place.0 + length_size(old_len);
            self.buffer[start..start + old_len].copy_from_slice(entry);
            return;
        }
        let (old_cost, cost) = (next - place.0, Self::cost(entry.len()));
        let mut at = place.0;
        if cost > old_cost {
            let offset = at - self.head as usize;
            self.reserve(cost - old_cost);
            at = self.head as usize + offset;
            self.open(at, cost - old_cost);
        } else {
            self.buffer.drain(at..at + old_cost - cost);
        }
        write(&mut self.buffer[at..at + cost], entry);
    }

    /// Cuts the list in two: the entries from `place` on are returned.
    pub fn split_off(&mut self, place: Place) -> Packed {
        let count = self.iter_between(place, self.end()).count();
        let tail = Packed { buffer: self.buffer[place.0..].to_vec(), head: 0, count: count as u32 };
        self.buffer.truncate(place.0);
        self.count -= count as u32;
        if self.count == 0 {
            self.clear();
        }
        self.shrink();
        tail
    }

    /// Adds the entries of another list at the end.
    pub fn append(&mut self, other: &Packed) {
        self.reserve(other.bytes());
        self.buffer.extend_from_slice(&other.buffer[other.head as usize..]);
        self.count += other.count;
    }

    /// Removes all entries and frees the buffer.
    pub fn clear(&mut self) {
        *self = Packed::new();
    }

    /// Gives spare room and the gap back.
    pub fn shrink_to_fit(&mut self) {
        self.close_gap();
        self.buffer.shrink_to_fit();
    }

    /// The entry that starts at `at`, and where the next one starts.
    #[inline]
    fn read(&self, at: usize) -> (&[u8], usize) {
        let first = self.buffer[at];
        let (len, size) = if first < 0x80 { (first as usize, 1) } else { read_length(&self.buffer[at..]) };
        let start = at + size;
        (&self.buffer[start..start + len], start + len + size)
    }

    /// The entry that ends before `end`, and where it starts.
    #[inline]
    fn read_back(&self, end: usize) -> (&[u8], usize) {
        let last = self.buffer[end - 1];
        let (len, size) = if last < 0x80 { (last as usize, 1) } else { read_length_back(&self.buffer[..end]) };
        let stop = end - size;
        (&self.buffer[stop - len..stop], stop - len - size)
    }

    /// Makes room at the end, with an eighth to spare; closes the gap instead where that gives the room. Places move.
    #[inline]
    fn reserve(&mut self, extra: usize) {
        if self.buffer.capacity() - self.buffer.len() < extra {
            self.grow(extra);
        }
    }

    #[cold]
    fn grow(&mut self, extra: usize) {
        let gap = self.head as usize;
        // Closing a gap moves every byte once, so it must be worth a share of them, or a queue of steady length would
        // move its bytes at each push.
        if gap >= extra && gap >= self.bytes() / 8 {
            return self.close_gap();
        }
        self.buffer.reserve_exact(extra + (self.bytes() + extra) / 8);
    }

    fn close_gap(&mut self) {
        self.buffer.drain(..self.head as usize);
        self.head = 0;
    }

    /// Makes the gap at least `cost` wide, half the content wider than that.
    #[cold]
    fn widen_gap(&mut self, cost: usize) {
        let gap = cost + (self.bytes() / 2).min(u32::MAX as usize / 2);
        // A new buffer, so that the content is moved once and not by the allocator first.
        let mut buffer = Vec::with_capacity(gap + self.bytes());
        buffer.resize(gap, 0);
        buffer.extend_from_slice(&self.buffer[self.head as usize..]);
        self.buffer = buffer;
        self.head = u32::try_from(gap).expect("entries at the front are below 2 GB");
    }

    /// Moves what is from `at` on by `extra` bytes.
    fn open(&mut self, at: usize, extra: usize) {
        let len = self.buffer.len();
        self.buffer.resize(len + extra, 0);
        self.buffer.copy_within(at..len, at + extra);
    }

    /// Gives memory back when less than half of a buffer worth the trouble is used.
    fn shrink(&mut self) {
        if self.buffer.capacity() > 256 && self.bytes() < self.buffer.capacity() / 2 {
            self.close_gap();
            let len = self.buffer.len();
            self.buffer.shrink_to(len + len / 8);
        }
    }
}

/// Compares two byte strings of the same length.
#[inline]
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    // Names of one length mostly differ near their end: eight bytes there save the call of a comparison.
    match (a.last_chunk::<8>(), b.last_chunk::<8>()) {
        (Some(end), Some(other)) => end == other && a == b,
        _ => a == b,
    }
}

/// Bytes of one written length.
#[inline]
fn length_size(len: usize) -> usize {
    if len < 0x80 { 1 } else { (usize::BITS - len.leading_zeros()).div_ceil(7) as usize }
}

/// Fills `target`, which is exactly as long as the entry costs.
#[inline]
fn write(target: &mut [u8], entry: &[u8]) {
    let (len, size) = (entry.len(), length_size(entry.len()));
    target[size..size + len].copy_from_slice(entry);
    if size == 1 {
        target[0] = len as u8;
        target[len + 1] = len as u8;
        return;
    }
    let cost = target.len();
    let mut rest = len;
    for i in 0..size {
        let byte = (rest & 0x7f) as u8 | if i + 1 < size { 0x80 } else { 0 };
        target[i] = byte;
        target[cost - 1 - i] = byte;
        rest >>= 7;
    }
}

#[inline]
fn append(buffer: &mut Vec<u8>, entry: &[u8]) {
    if entry.len() < 0x80 {
        buffer.push(entry.len() as u8);
        buffer.extend_from_slice(entry);
        buffer.push(entry.len() as u8);
    } else {
        let at = buffer.len();
        buffer.resize(at + Packed::cost(entry.len()), 0);
        write(&mut buffer[at..], entry);
    }
}

#[cold]
fn read_length(bytes: &[u8]) -> (usize, usize) {
    collect_length(bytes.iter())
}

#[cold]
fn read_length_back(bytes: &[u8]) -> (usize, usize) {
    collect_length(bytes.iter().rev())
}

fn collect_length<'a>(bytes: impl Iterator<Item = &'a u8>) -> (usize, usize) {
    let (mut len, mut size) = (0, 0);
    for byte in bytes {
        len |= ((byte & 0x7f) as usize) << (7 * size);
        size += 1;
        if byte & 0x80 == 0 {
            break;
        }
    }
    (len, size)
}

/// Walks entries from either end.
#[derive(Clone)]
pub struct Iter<'a> {
    list: &'a Packed,
    from: usize,
    to: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a [u8];
    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.from >= self.to {
            return None;
        }
        let (entry, next) = self.list.read(self.from);
        self.from = next;
        Some(entry)
    }
}

impl<'a> DoubleEndedIterator for Iter<'a> {
    #[inline]
    fn next_back(&mut self) -> Option<&'a [u8]> {
        if self.from >= self.to {
            return None;
        }
        let (entry, start) = self.list.read_back(self.to);
        self.to = start;
        Some(entry)
    }
}

impl<'a> IntoIterator for &'a Packed {
    type Item = &'a [u8];
    type IntoIter = Iter<'a>;
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for Packed {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        let mut list = Packed::new();
        entries.into_iter().for_each(|entry| list.push_back(entry.as_ref()));
        list
    }
}

impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        // The same entries are written the same way, so the bytes decide.
        self.count == other.count && self.buffer[self.head as usize..] == other.buffer[other.head as usize..]
    }
}

impl Eq for Packed {}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|entry| entry.escape_ascii().to_string())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;

    fn check(model: &[Vec<u8>], list: &Packed, seed: u64) {
        assert_eq!(model.len(), list.len(), "seed {seed}");
        assert!(model.iter().map(|e| &e[..]).eq(list.iter()), "seed {seed}");
        assert!(model.iter().rev().map(|e| &e[..]).eq(list.iter().rev()), "seed {seed}");
        assert_eq!(model.iter().map(|e| Packed::cost(e.len())).sum::<usize>(), list.bytes(), "seed {seed}");
        assert_eq!(model.first().map(|e| &e[..]), list.front(), "seed {seed}");
        assert_eq!(model.last().map(|e| &e[..]), list.back(), "seed {seed}");
    }

    fn entry(random: &mut Xoshiro) -> Vec<u8> {
        let len = match random.below(20) {
            0 => 120 + random.below(20),
            1 => 16_380 + random.below(10),
            _ => random.below(12),
        };
        (0..len).map(|_| random.next() as u8).collect()
    }

    #[test]
    fn behaves_as_a_vector_of_byte_strings() {
        for seed in 0..30 {
            let mut random = Xoshiro::from_seed(seed);
            let mut list = Packed::new();
            let mut model: Vec<Vec<u8>> = Vec::new();
            for _ in 0..400 {
                let index = random.below(model.len() as u64 + 1) as usize;
                let place = list.place(index);
                match random.below(8) {
                    0 | 1 => {
                        let e = entry(&mut random);
                        list.push_back(&e);
                        model.push(e);
                    }
                    2 => {
                        let e = entry(&mut random);
                        list.push_front(&e);
                        model.insert(0, e);
                    }
                    3 => {
                        let (a, b) = (entry(&mut random), entry(&mut random));
                        list.insert(place, &[&a, &b]);
                        model.splice(index..index, [a, b]);
                    }
                    4 | 5 => {
                        let count = (random.below(3) as usize).min(model.len() - index);
                        let after = list.remove(place, count);
                        model.drain(index..index + count);
                        assert_eq!(model.get(index).map(|e| &e[..]), list.get(after), "seed {seed}");
                    }
                    6 if index < model.len() => {
                        let e = entry(&mut random);
                        list.replace(place, &e);
                        model[index] = e;
                    }
                    _ => {
                        let tail = list.split_off(place);
                        check(&model[index..], &tail, seed);
                        check(&model[..index], &list, seed);
                        list.append(&tail);
                    }
                }
                check(&model, &list, seed);
            }
        }
    }

    #[test]
    fn find_looks_only_at_each_stride() {
        let list: Packed = ["a", "b", "b", "a", "", "x"].into_iter().collect();
        assert_eq!(Some(list.place(1)), list.find(b"b", 1));
        assert_eq!(Some(list.place(2)), list.find(b"b", 2));
        assert_eq!(Some(list.place(4)), list.find(b"", 2));
        assert_eq!(None, list.find(b"x", 2));
        assert_eq!(None, Packed::new().find(b"", 1));
    }

    #[test]
    fn a_queue_of_steady_length_keeps_its_buffer_small() {
        let mut list = Packed::new();
        (0..100).for_each(|_| list.push_back(b"job"));
        for _ in 0..10_000 {
            list.push_back(b"job");
            list.remove(list.first(), 1);
        }
        assert!(list.memory() < 1024, "{}", list.memory());
    }
}
