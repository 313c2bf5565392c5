//! A slotted page: the records of some hundred rows, each found by the number of its slot.
//!
//! ```text
//! 0      2      4       6      8      10     12
//! | slots | free | start | room | used | dead | slot 0 | slot 1 | ... | gap | ... record | record |
//! ```
//! A slot is two bytes: three bits of kind and thirteen of offset. A record is the length of the row (one byte, or two
//! from 128 on), then the row; it takes at least six bytes, so that it can always be turned into a *stub*, the number
//! of a row kept outside. Records grow from the end of the page downward; holes are closed when the gap is too small.
//! The slot of a deleted row is *dead* until it is released, and only then free for another row.

use super::row_id::SLOTS_MAX;

/// Bytes of a page: with the header of its buffer, what an allocator gives for 8 kB.
pub const PAGE_BYTES: usize = 8168;
/// Slots that a page can have at most, so that a stub fits for each.
pub const PAGE_SLOTS: usize = (PAGE_BYTES - HEADER) / (2 + RECORD_MIN);
/// Rows longer than this live outside pages.
pub const ROW_IN_PAGE_MAX: usize = 1990;

const HEADER: usize = 12;
const RECORD_MIN: usize = 6;
/// Bytes of a stub's number.
const STUB_BYTES: usize = 5;

const SLOTS: usize = 0;
/// The first free slot plus one; 0: none. Free slots are chained through their offsets.
const FREE: usize = 2;
/// Offset of the lowest record.
const START: usize = 4;
/// Bytes in the gap and in holes.
const ROOM: usize = 6;
/// Slots with a row or a stub.
const USED: usize = 8;
const DEAD: usize = 10;

const _: () = assert!(PAGE_SLOTS <= SLOTS_MAX && PAGE_BYTES <= 1 << 13);

/// What a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Free = 0,
    Row = 1,
    Stub = 2,
    Dead = 3,
}

const ROW: u16 = Kind::Row as u16;
const STUB: u16 = Kind::Stub as u16;

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held<'a> {
    /// A row.
    Row(&'a [u8]),
    /// The number of a row kept outside.
    Stub(u64),
}

/// What to put into a slot.
#[derive(Clone, Copy, Debug)]
pub enum Record<'a> {
    /// A row, at most [`ROW_IN_PAGE_MAX`] bytes.
    Row(&'a [u8]),
    /// The number of a row kept outside.
    Stub(u64),
}

impl Record<'_> {
    fn size(&self) -> usize {
        match self {
            Record::Row(row) => record_size(row.len()),
            Record::Stub(_) => RECORD_MIN,
        }
    }
}

fn record_size(row_len: usize) -> usize {
    (row_len + if row_len < 0x80 { 1 } else { 2 }).max(RECORD_MIN)
}

/// A page for reading.
#[derive(Clone, Copy)]
pub struct Page<'a>(pub &'a [u8]);

/// A page for writing.
pub struct PageMut<'a>(pub &'a mut [u8]);

/// Makes a page of zero bytes an empty page.
pub fn init(bytes: &mut [u8]) {
    assert_eq!(PAGE_BYTES, bytes.len());
    put(bytes, START, PAGE_BYTES);
    put(bytes, ROOM, PAGE_BYTES - HEADER);
}

impl<'a> Page<'a> {
    /// How many slots there are, used or not.
    #[inline]
    pub fn slots(&self) -> usize {
        get(self.0, SLOTS)
    }

    /// Slots with rows.
    pub fn used(&self) -> usize {
        get(self.0, USED)
    }

    /// Dead slots.
    pub fn dead(&self) -> usize {
        get(self.0, DEAD)
    }

    /// Bytes that are free.
    pub fn room(&self) -> usize {
        get(self.0, ROOM)
    }

    /// What a slot holds, if anything.
    #[inline(always)]
    pub fn get(&self, slot: usize) -> Option<Held<'a>> {
        if slot >= self.slots() {
            return None;
        }
        let (kind, offset) = slot_at(self.0, slot);
        match kind {
            Kind::Row => Some(Held::Row(self.row_at(offset))),
            Kind::Stub => Some(Held::Stub(self.stub_at(offset))),
            Kind::Free | Kind::Dead => None,
        }
    }

    /// Does a slot hold a row?
    #[inline]
    pub fn is_used(&self, slot: usize) -> bool {
        matches!(slot_at(self.0, slot).0, Kind::Row | Kind::Stub)
    }

    /// Address of a slot, for prefetching.
    #[inline]
    pub fn slot_address(&self, slot: usize) -> *const u8 {
        self.0.as_ptr().wrapping_add(HEADER + 2 * slot)
    }

    /// Address of a slot's record, for prefetching.
    #[inline]
    pub fn record_address(&self, slot: usize) -> *const u8 {
        let offset = if slot < self.slots() { slot_at(self.0, slot).1 } else { 0 };
        self.0.as_ptr().wrapping_add(offset)
    }

    #[inline(always)]
    fn row_at(&self, offset: usize) -> &'a [u8] {
        let first = usize::from(self.0[offset]);
        if first < 0x80 {
            return &self.0[offset + 1..offset + 1 + first];
        }
        let len = first & 0x7F | usize::from(self.0[offset + 1]) << 7;
        &self.0[offset + 2..offset + 2 + len]
    }

    fn stub_at(&self, offset: usize) -> u64 {
        let mut number = [0; 8];
        number[..STUB_BYTES].copy_from_slice(&self.0[offset..offset + STUB_BYTES]);
        u64::from_le_bytes(number)
    }

    /// Bytes of a used slot's record.
    fn size_at(&self, kind: Kind, offset: usize) -> usize {
        if kind == Kind::Stub { RECORD_MIN } else { record_size(self.row_at(offset).len()) }
    }

    /// The slot with the longest row, for making room.
    pub fn longest(&self) -> Option<(usize, &'a [u8])> {
        let rows = (0..self.slots()).filter_map(|slot| match self.get(slot) {
            Some(Held::Row(row)) if record_size(row.len()) > RECORD_MIN => Some((slot, row)),
            _ => None,
        });
        rows.max_by_key(|(_, row)| row.len())
    }
}

impl PageMut<'_> {
    /// The page for reading.
    pub fn page(&self) -> Page<'_> {
        Page(self.0)
    }

    /// Adds a record in a free slot or a new one; `None` if there is no room.
    pub fn insert(&mut self, record: Record<'_>) -> Option<usize> {
        let free = get(self.0, FREE);
        let slot = if free > 0 { free - 1 } else { self.page().slots() };
        (slot < PAGE_SLOTS && self.place(slot, record)).then_some(slot)
    }

    /// Puts a record into a slot that holds none (free, dead, or beyond those there are); false if there is no room.
    pub fn place(&mut self, slot: usize, record: Record<'_>) -> bool {
        assert!(slot < PAGE_SLOTS);
        let slots = self.page().slots();
        let new_slots = (slot + 1).saturating_sub(slots);
        let size = record.size();
        if size + 2 * new_slots > get(self.0, ROOM) {
            return false;
        }
        if size + 2 * new_slots > self.gap() {
            self.close_holes(None);
        }
        if new_slots > 0 {
            self.add_slots(slots, slot);
        } else {
            self.take_out(slot);
        }
        self.add(ROOM, -(size as isize));
        self.add(USED, 1);
        self.write(slot, record);
        true
    }

    /// Puts another record in the place of the one in a used slot; false, and nothing done, if there is no room.
    pub fn replace(&mut self, slot: usize, record: Record<'_>) -> bool {
        let (kind, offset) = slot_at(self.0, slot);
        assert!(matches!(kind, Kind::Row | Kind::Stub), "only a used slot has a record to replace");
        let (old, new) = (self.page().size_at(kind, offset), record.size());
        if new > old + get(self.0, ROOM) {
            return false;
        }
        self.add(ROOM, old as isize - new as isize);
        if new <= old {
            self.write_at(slot, offset, record);
            return true;
        }
        if new > self.gap() && new - old <= self.gap() {
            self.push_down(offset, new - old);
            self.write_at(slot, offset - (new - old), record);
            return true;
        }
        if new > self.gap() {
            self.close_holes(Some(slot));
        }
        self.write(slot, record);
        true
    }

    /// Moves the records below `end` down into the gap, so that the one at `end` can grow there: in a page that is almost
    /// full a tenth of the work of closing its holes.
    #[cold]
    fn push_down(&mut self, end: usize, by: usize) {
        let start = get(self.0, START);
        self.0.copy_within(start..end, start - by);
        put(self.0, START, start - by);
        let slots = HEADER + 2 * self.page().slots();
        for slot in self.0[HEADER..slots].chunks_exact_mut(2) {
            let word = u16::from_le_bytes([slot[0], slot[1]]);
            let moves = matches!(word >> 13, ROW | STUB) && usize::from(word & 0x1FFF) < end;
            slot.copy_from_slice(&(word - if moves { by as u16 } else { 0 }).to_le_bytes());
        }
    }

    /// Removes the record of a used slot, which is dead from now on.
    pub fn remove(&mut self, slot: usize) {
        let (kind, offset) = slot_at(self.0, slot);
        assert!(matches!(kind, Kind::Row | Kind::Stub), "only a used slot has a record to remove");
        let size = self.page().size_at(kind, offset);
        self.add(ROOM, size as isize);
        self.add(USED, -1);
        self.add(DEAD, 1);
        if offset == get(self.0, START) {
            put(self.0, START, offset + size);
        }
        put_slot(self.0, slot, Kind::Dead, 0);
    }

    /// Makes a dead slot free; nothing if it has come alive again.
    pub fn release(&mut self, slot: usize) {
        if slot >= self.page().slots() || slot_at(self.0, slot).0 != Kind::Dead {
            return;
        }
        let next = get(self.0, FREE);
        put_slot(self.0, slot, Kind::Free, next);
        put(self.0, FREE, slot + 1);
        self.add(DEAD, -1);
    }

    fn gap(&self) -> usize {
        get(self.0, START) - (HEADER + 2 * get(self.0, SLOTS))
    }

    fn add(&mut self, field: usize, by: isize) {
        let value = get(self.0, field).checked_add_signed(by).expect("counts of a page do not go below 0");
        put(self.0, field, value);
    }

    /// Adds slots up to `last`, which is left for a record; those skipped are free, the lowest first in the chain.
    fn add_slots(&mut self, slots: usize, last: usize) {
        for slot in (slots..last).rev() {
            let next = get(self.0, FREE);
            put_slot(self.0, slot, Kind::Free, next);
            put(self.0, FREE, slot + 1);
        }
        put(self.0, SLOTS, last + 1);
        self.add(ROOM, -(2 * (last + 1 - slots) as isize));
    }

    /// Takes a slot without a record out of the chain of free slots, or out of the number of dead ones.
    fn take_out(&mut self, slot: usize) {
        let (kind, next) = slot_at(self.0, slot);
        match kind {
            Kind::Dead => self.add(DEAD, -1),
            Kind::Free => {
                let mut before = None;
                let mut at = get(self.0, FREE);
                while at != slot + 1 {
                    assert!(at > 0, "a free slot is in the chain");
                    before = Some(at - 1);
                    at = slot_at(self.0, at - 1).1;
                }
                match before {
                    None => put(self.0, FREE, next),
                    Some(before) => put_slot(self.0, before, Kind::Free, next),
                }
            }
            Kind::Row | Kind::Stub => panic!("a record is placed only where none is"),
        }
    }

    /// Writes a record below all others; the gap is large enough.
    fn write(&mut self, slot: usize, record: Record<'_>) {
        let start = get(self.0, START) - record.size();
        put(self.0, START, start);
        self.write_at(slot, start, record);
    }

    fn write_at(&mut self, slot: usize, offset: usize, record: Record<'_>) {
        match record {
            Record::Row(row) => {
                let mut at = offset;
                if row.len() >= 0x80 {
                    self.0[at] = row.len() as u8 | 0x80;
                    at += 1;
                }
                self.0[at] = (if row.len() >= 0x80 { row.len() >> 7 } else { row.len() }) as u8;
                self.0[at + 1..at + 1 + row.len()].copy_from_slice(row);
                put_slot(self.0, slot, Kind::Row, offset);
            }
            Record::Stub(number) => {
                self.0[offset..offset + STUB_BYTES].copy_from_slice(&number.to_le_bytes()[..STUB_BYTES]);
                put_slot(self.0, slot, Kind::Stub, offset);
            }
        }
    }

    /// Moves all records to the end of the page, but for that of a slot which is about to get another one.
    #[cold]
    fn close_holes(&mut self, without: Option<usize>) {
        let mut packed = [0u8; PAGE_BYTES];
        let mut start = PAGE_BYTES;
        for slot in 0..self.page().slots() {
            let (kind, offset) = slot_at(self.0, slot);
            if !matches!(kind, Kind::Row | Kind::Stub) || without == Some(slot) {
                continue;
            }
            let size = self.page().size_at(kind, offset);
            start -= size;
            packed[start..start + size].copy_from_slice(&self.0[offset..offset + size]);
            put_slot(self.0, slot, kind, start);
        }
        self.0[start..].copy_from_slice(&packed[start..]);
        put(self.0, START, start);
    }
}

#[inline(always)]
fn get(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

#[inline(always)]
fn put(bytes: &mut [u8], at: usize, value: usize) {
    debug_assert!(value <= 0xFFFF);
    bytes[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
}

#[inline(always)]
fn slot_at(bytes: &[u8], slot: usize) -> (Kind, usize) {
    let word = get(bytes, HEADER + 2 * slot);
    let kind = match word >> 13 {
        0 => Kind::Free,
        1 => Kind::Row,
        2 => Kind::Stub,
        _ => Kind::Dead,
    };
    (kind, word & 0x1FFF)
}

#[inline(always)]
fn put_slot(bytes: &mut [u8], slot: usize, kind: Kind, offset: usize) {
    put(bytes, HEADER + 2 * slot, (kind as usize) << 13 | offset);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;
    use std::collections::BTreeMap;

    fn page() -> Vec<u8> {
        let mut bytes = vec![0; PAGE_BYTES];
        init(&mut bytes);
        bytes
    }

    #[derive(Clone, Debug, PartialEq)]
    enum Model {
        Row(Vec<u8>),
        Stub(u64),
        Dead,
    }

    fn check(bytes: &[u8], model: &BTreeMap<usize, Model>) {
        let page = Page(bytes);
        let mut records = 0;
        for slot in 0..page.slots() {
            let held = match page.get(slot) {
                Some(Held::Row(row)) => {
                    records += record_size(row.len());
                    Some(Model::Row(row.to_vec()))
                }
                Some(Held::Stub(number)) => {
                    records += RECORD_MIN;
                    Some(Model::Stub(number))
                }
                None => None,
            };
            assert_eq!(model.get(&slot).filter(|m| **m != Model::Dead), held.as_ref(), "slot {slot}");
        }
        assert_eq!(PAGE_BYTES - HEADER - 2 * page.slots() - records, page.room());
        assert_eq!(model.values().filter(|m| **m == Model::Dead).count(), page.dead());
        assert_eq!(model.values().filter(|m| **m != Model::Dead).count(), page.used());
    }

    #[test]
    fn random_changes_agree_with_a_model() {
        for seed in 0..20 {
            let mut random = Xoshiro::from_seed(seed);
            let mut bytes = page();
            let mut model: BTreeMap<usize, Model> = BTreeMap::new();
            let longest = [4, 20, 300, ROW_IN_PAGE_MAX as u64][seed as usize % 4];
            for _ in 0..3000 {
                let len = random.below(longest + 1) as usize;
                let row = vec![random.next() as u8; len];
                let number = random.next() >> 24;
                let (record, held) = if random.below(10) == 0 {
                    (Record::Stub(number), Model::Stub(number))
                } else {
                    (Record::Row(&row), Model::Row(row.clone()))
                };
                let mut page = PageMut(&mut bytes);
                let used: Vec<usize> = model.iter().filter(|(_, m)| **m != Model::Dead).map(|(s, _)| *s).collect();
                let some = used.get(random.below(used.len().max(1) as u64) as usize).copied();
                match (random.below(10), some) {
                    (0..4, _) => {
                        if let Some(slot) = page.insert(record) {
                            assert!(!model.contains_key(&slot), "seed {seed}: a dead or used slot was given out");
                            model.insert(slot, held);
                        } else if page.page().slots() < PAGE_SLOTS {
                            assert!(page.page().room() < record.size() + 2);
                        }
                    }
                    (4, _) => {
                        let slot = random.below(PAGE_SLOTS as u64) as usize;
                        if model.get(&slot).is_none_or(|m| *m == Model::Dead) && page.place(slot, record) {
                            model.insert(slot, held);
                        }
                    }
                    #[allow(clippy::collapsible_match)] // in a guard it would hide that it changes the page
                    (5..7, Some(slot)) => {
                        if page.replace(slot, record) {
                            model.insert(slot, held);
                        }
                    }
                    (7..9, Some(slot)) => {
                        page.remove(slot);
                        model.insert(slot, Model::Dead);
                    }
                    (9, _) => {
                        let dead: Vec<usize> =
                            model.iter().filter(|(_, m)| **m == Model::Dead).map(|(s, _)| *s).collect();
                        for slot in dead.into_iter().take(3) {
                            page.release(slot);
                            model.remove(&slot);
                        }
                    }
                    _ => {}
                }
                check(&bytes, &model);
            }
        }
    }

    #[test]
    fn any_row_can_become_a_stub() {
        let mut bytes = page();
        let mut page = PageMut(&mut bytes);
        let mut slots = 0;
        while page.page().slots() < PAGE_SLOTS && page.insert(Record::Row(b"")).is_some() {
            slots += 1;
        }
        assert_eq!(PAGE_SLOTS, slots);
        (0..slots).for_each(|slot| assert!(page.replace(slot, Record::Stub(1 << 39))));
        assert_eq!(Some(Held::Stub(1 << 39)), page.page().get(slots - 1));
    }
}
