//! The rows of a table: pages, and rows too long for a page, each found by row id.
//!
//! A row keeps its id when it changes. One that no longer fits in its page, or is too long for any, moves to an
//! allocation of its own, and a stub in its slot says which (`page`). So only the slot, never an index, knows where a
//! row is. Pages and long rows hang in directories that views share (`cow_vec`); what is only needed to write, the
//! pages with room and the slots to be released, stands beside them.

use super::page::{self, Held, PAGE_BYTES, Page, PageMut, ROW_IN_PAGE_MAX, Record};
use super::row_id::{PAGES_MAX, RowId};
use crate::ds::cow::{Buf, prefetch_bytes};
use crate::ds::cow_vec::CowVec;
use crate::ds::prefetch::prefetch;
use crate::error::{Code, Error, Result};
use std::ops::Deref;

/// A page with this many free bytes takes new rows: any row that belongs in a page fits.
const ROOMY: usize = ROW_IN_PAGE_MAX + 64;

/// The rows as they are, or were when a view was taken; only to be read. A clone is a view.
#[derive(Clone, Default)]
pub struct Rows {
    pages: CowVec<Buf>,
    long: CowVec<Buf>,
    count: u64,
}

/// The rows of a table, for writing.
#[derive(Default)]
pub struct Heap {
    rows: Rows,
    /// Pages with room for any row, each once; `listed` says which.
    roomy: Vec<u32>,
    listed: Vec<bool>,
    /// The page that new rows go to.
    current: Option<u32>,
    /// Numbers of pages that were freed.
    empty: Vec<u32>,
    /// Numbers of long rows that were freed.
    long_free: Vec<u64>,
    /// Slots of rows deleted since the last release.
    dead: Vec<RowId>,
    page_count: usize,
    long_bytes: usize,
    copied: u64,
}

impl Deref for Heap {
    type Target = Rows;
    #[inline(always)]
    fn deref(&self) -> &Rows {
        &self.rows
    }
}

impl Rows {
    /// How many rows there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The bytes of a row.
    #[inline]
    pub fn get(&self, id: RowId) -> Option<&[u8]> {
        self.held(Page(self.pages.get(id.page() as usize)?).get(id.slot())?)
    }

    /// The row in a slot, or the one that the slot's stub stands for.
    #[inline(always)]
    fn held<'a>(&'a self, held: Held<'a>) -> Option<&'a [u8]> {
        match held {
            Held::Row(row) => Some(row),
            Held::Stub(number) => self.long.get(number as usize).map(|row| &row[..]),
        }
    }

    /// Loads the rows of a batch into the cache side by side: first the slots of all, then the records.
    pub fn prefetch(&self, ids: &[RowId]) {
        let pages = || ids.iter().filter_map(|id| Some((Page(self.pages.get(id.page() as usize)?), id.slot())));
        pages().for_each(|(page, slot)| {
            prefetch(page.0.as_ptr());
            prefetch(page.slot_address(slot));
        });
        pages().for_each(|(page, slot)| prefetch_bytes(page.record_address(slot), 64));
    }

    /// Starts loading one row, whose slot has been loaded.
    #[inline]
    pub fn prefetch_record(&self, id: RowId) {
        if let Some(page) = self.pages.get(id.page() as usize) {
            prefetch_bytes(Page(page).record_address(id.slot()), 64);
        }
    }

    /// Starts loading the slot of one row.
    #[inline]
    pub fn prefetch_slot(&self, id: RowId) {
        if let Some(page) = self.pages.get(id.page() as usize) {
            prefetch(Page(page).slot_address(id.slot()));
        }
    }

    /// Appends the ids of rows from `from` on, in order, to `ids`: the rest of a page, at most. Returns where to go on;
    /// `None` at the end.
    pub fn ids_from(&self, from: RowId, ids: &mut Vec<RowId>) -> Option<RowId> {
        self.page_from(from, |id, _| ids.push(id))
    }

    /// Visits rows from `from` on, in the order of ids: the rest of a page, at most. Returns where to go on; `None` at the
    /// end.
    #[inline]
    pub fn page_from<'a>(&'a self, from: RowId, mut visit: impl FnMut(RowId, &'a [u8])) -> Option<RowId> {
        let mut from = from;
        while (from.page() as usize) < self.pages.len() {
            let number = from.page();
            let mut found = false;
            if let Some(page) = self.pages.get(number as usize) {
                let page = Page(page);
                for slot in from.slot()..page.slots() {
                    if let Some(row) = page.get(slot).and_then(|held| self.held(held)) {
                        found = true;
                        visit(RowId::new(number, slot), row);
                    }
                }
            }
            from = RowId::new(number + 1, 0);
            if found {
                return Some(from);
            }
        }
        None
    }

    /// Lets go of the pages before a row, in a view that will not be asked for them again.
    pub fn forget_before(&mut self, id: RowId) {
        self.pages.forget_before(id.page() as usize);
    }

    /// Visits every row in the order of ids.
    pub fn for_each(&self, mut visit: impl FnMut(RowId, &[u8])) {
        let mut from = Some(RowId(0));
        while let Some(next) = from {
            from = self.page_from(next, &mut visit);
        }
    }
}

impl Heap {
    /// Bytes of pages, long rows and directories, those shared with views included.
    pub fn memory(&self) -> usize {
        let lists = 4 * (self.roomy.capacity() + self.empty.capacity()) + self.listed.capacity();
        let free = 8 * (self.long_free.capacity() + self.dead.capacity());
        let directories = self.rows.pages.memory() + self.rows.long.memory();
        self.page_count * (PAGE_BYTES + 8) + self.long_bytes + directories + lists + free
    }

    /// Bytes copied because views held them, since the heap began.
    pub fn copied(&self) -> u64 {
        self.copied + self.rows.pages.copied() + self.rows.long.copied()
    }

    /// A view of the rows as they are now.
    pub fn view(&self) -> Rows {
        self.rows.clone()
    }

    /// Adds a row and gives it an id.
    pub fn insert(&mut self, row: &[u8]) -> Result<RowId> {
        let long = (row.len() > ROW_IN_PAGE_MAX).then(|| self.add_long(row));
        let record = long.map_or(Record::Row(row), Record::Stub);
        let id = loop {
            let number = match self.current {
                Some(number) => number,
                None => self.open_page()?,
            };
            if let Some(slot) = self.page_mut(number).insert(record) {
                break RowId::new(number, slot);
            }
            self.current = None;
        };
        self.rows.count += 1;
        Ok(id)
    }

    /// Puts a row under an id that no row has: redo and undo.
    pub fn insert_at(&mut self, id: RowId, row: &[u8]) -> Result<()> {
        let number = id.page();
        if id >= RowId::END || id.slot() >= page::PAGE_SLOTS || self.get(id).is_some() {
            return Err(Error::new(Code::Engine, format!("row id {id} is taken or out of range")));
        }
        if self.rows.pages.get(number as usize).is_none() {
            self.empty.retain(|n| *n != number);
            self.add_page(number);
        }
        let fits = row.len() <= ROW_IN_PAGE_MAX && self.page_mut(number).place(id.slot(), Record::Row(row));
        if !fits {
            let stub = Record::Stub(self.add_long(row));
            while !self.page_mut(number).place(id.slot(), stub) {
                self.move_out(number);
            }
        }
        self.rows.count += 1;
        self.list_if_roomy(number);
        Ok(())
    }

    /// Replaces a row's bytes; false if there is no such row.
    pub fn update(&mut self, id: RowId, row: &[u8]) -> bool {
        let Some(buf) = self.rows.pages.get(id.page() as usize) else { return false };
        let Some(held) = Page(buf).get(id.slot()) else { return false };
        let old_long = if let Held::Stub(number) = held { Some(number) } else { None };
        let fits = row.len() <= ROW_IN_PAGE_MAX && self.page_mut(id.page()).replace(id.slot(), Record::Row(row));
        match (fits, old_long) {
            (true, None) => {}
            (true, Some(number)) => self.free_long(number),
            (false, Some(number)) => self.set_long(number, row),
            (false, None) => {
                let number = self.add_long(row);
                let fits = self.page_mut(id.page()).replace(id.slot(), Record::Stub(number));
                assert!(fits, "a stub fits in the place of any record");
            }
        }
        self.list_if_roomy(id.page());
        true
    }

    /// Removes a row; false if there is none. Its slot is dead until `release`.
    pub fn delete(&mut self, id: RowId) -> bool {
        let Some(buf) = self.rows.pages.get(id.page() as usize) else { return false };
        match Page(buf).get(id.slot()) {
            None => return false,
            Some(Held::Stub(number)) => self.free_long(number),
            Some(Held::Row(_)) => {}
        }
        self.page_mut(id.page()).remove(id.slot());
        self.dead.push(id);
        self.rows.count -= 1;
        self.list_if_roomy(id.page());
        true
    }

    /// Frees the slots of rows deleted so far, and pages left without rows.
    pub fn release(&mut self) {
        for id in std::mem::take(&mut self.dead) {
            // The page may have gone with an earlier slot.
            if self.rows.pages.get(id.page() as usize).is_none() {
                continue;
            }
            let mut page = self.page_mut(id.page());
            page.release(id.slot());
            if page.page().used() == 0 && page.page().dead() == 0 {
                self.free_page(id.page());
            }
        }
    }

    fn page_mut(&mut self, number: u32) -> PageMut<'_> {
        let Some(buf) = self.rows.pages.get_mut(number as usize) else { unreachable!("page {number} does not exist") };
        PageMut(buf.make_mut(&mut self.copied))
    }

    /// Makes a page with room the current one, a new page if need be.
    fn open_page(&mut self) -> Result<u32> {
        while let Some(number) = self.roomy.pop() {
            self.listed[number as usize] = false;
            let usable = |buf: &Buf| Page(buf).room() >= ROOMY && Page(buf).slots() < page::PAGE_SLOTS;
            if self.rows.pages.get(number as usize).is_some_and(usable) {
                self.current = Some(number);
                return Ok(number);
            }
        }
        let number = match self.empty.pop() {
            Some(number) => number,
            None if (self.rows.pages.len() as u64) < PAGES_MAX => self.rows.pages.len() as u32,
            None => return Err(Error::new(Code::Limit, format!("a table has at most {PAGES_MAX} pages"))),
        };
        self.add_page(number);
        self.current = Some(number);
        Ok(number)
    }

    fn add_page(&mut self, number: u32) {
        let mut buf = Buf::exact(PAGE_BYTES);
        page::init(buf.make_mut(&mut 0));
        self.rows.pages.set(number as usize, buf);
        self.page_count += 1;
        if self.listed.len() <= number as usize {
            self.listed.resize(number as usize + 1, false);
        }
    }

    fn free_page(&mut self, number: u32) {
        self.rows.pages.take(number as usize);
        self.page_count -= 1;
        self.empty.push(number);
        if self.current == Some(number) {
            self.current = None;
        }
    }

    fn list_if_roomy(&mut self, number: u32) {
        if self.listed[number as usize] || self.current == Some(number) {
            return;
        }
        let roomy = self.rows.pages.get(number as usize).is_some_and(|buf| Page(buf).room() >= ROOMY);
        if roomy {
            self.listed[number as usize] = true;
            self.roomy.push(number);
        }
    }

    /// Makes room in a page by moving its longest row out.
    #[cold]
    fn move_out(&mut self, number: u32) {
        let Some(buf) = self.rows.pages.get(number as usize).cloned() else { unreachable!("the page exists") };
        // There is always one: pages have fewer slots than stubs fit in (see PAGE_SLOTS).
        let Some((slot, row)) = Page(&buf).longest() else { unreachable!("a page full of stubs") };
        let long = self.add_long(row);
        drop(buf);
        let fits = self.page_mut(number).replace(slot, Record::Stub(long));
        assert!(fits, "a stub fits in the place of any record");
    }

    fn add_long(&mut self, row: &[u8]) -> u64 {
        let number = self.long_free.pop().unwrap_or(self.rows.long.len() as u64);
        self.put_long(number, row);
        number
    }

    fn set_long(&mut self, number: u64, row: &[u8]) {
        if let Some(old) = self.rows.long.take(number as usize) {
            self.long_bytes -= old.memory();
        }
        self.put_long(number, row);
    }

    fn put_long(&mut self, number: u64, row: &[u8]) {
        let buf = Buf::of(row);
        self.long_bytes += buf.memory();
        let old = self.rows.long.set(number as usize, buf);
        debug_assert!(old.is_none());
    }

    fn free_long(&mut self, number: u64) {
        if let Some(old) = self.rows.long.take(number as usize) {
            self.long_bytes -= old.memory();
        }
        self.long_free.push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;
    use std::collections::{BTreeMap, HashSet};

    type Model = BTreeMap<RowId, Vec<u8>>;

    fn rows_of(rows: &Rows) -> Vec<(RowId, Vec<u8>)> {
        let mut all = Vec::new();
        rows.for_each(|id, row| all.push((id, row.to_vec())));
        all
    }

    fn check(rows: &Rows, model: &Model) {
        assert_eq!(model.len() as u64, rows.count());
        assert!(model.iter().map(|(id, row)| (*id, row.clone())).eq(rows_of(rows)));
        assert!(model.iter().all(|(id, row)| rows.get(*id) == Some(&row[..])));
    }

    fn random_row(random: &mut Xoshiro, seed: u64) -> Vec<u8> {
        let longest = [10, 100, 5000][seed as usize % 3];
        let len = random.below(longest) as usize;
        vec![random.next() as u8; len]
    }

    #[test]
    fn random_changes_agree_with_a_model_and_views_stay() {
        for seed in 0..12 {
            let mut random = Xoshiro::from_seed(seed);
            let mut heap = Heap::default();
            let mut model = Model::new();
            let mut views = Vec::new();
            let mut deleted: HashSet<RowId> = HashSet::new();
            for step in 0..6000 {
                let row = random_row(&mut random, seed);
                let near = RowId(random.below(1 + model.keys().last().map_or(0, |id| id.0)));
                let some = model.range(near..).next().map(|(id, _)| *id);
                let grows = step / 1500 % 2 == 0;
                match (random.below(10), some) {
                    (0..=5, _) if grows => {
                        let id = heap.insert(&row).unwrap();
                        assert!(!deleted.contains(&id), "seed {seed}: slot of a deleted row used before release");
                        assert_eq!(None, model.insert(id, row));
                    }
                    (0..=2 | 6, Some(id)) => {
                        assert!(heap.update(id, &row));
                        model.insert(id, row);
                    }
                    (3..=8, Some(id)) => {
                        assert!(heap.delete(id));
                        model.remove(&id);
                        deleted.insert(id);
                    }
                    _ if random.below(20) == 0 => {
                        heap.release();
                        deleted.clear();
                    }
                    _ => {
                        let id = RowId::new(random.below(200) as u32, random.below(page::PAGE_SLOTS as u64) as usize);
                        assert_eq!(model.contains_key(&id), heap.insert_at(id, &row).is_err());
                        model.entry(id).or_insert(row);
                        deleted.remove(&id);
                    }
                }
                if step % 400 == 0 {
                    check(&heap, &model);
                    views.push((heap.view(), model.clone()));
                }
            }
            check(&heap, &model);
            views.iter().for_each(|(view, then)| check(view, then));
            drop(views);
            model.keys().for_each(|id| assert!(heap.delete(*id)));
            heap.release();
            assert_eq!((0, 0, 0), (heap.count(), heap.page_count, heap.long_bytes));
            assert!(!heap.update(RowId::new(0, 0), b"x") && !heap.delete(RowId::new(7, 7)));
        }
    }

    #[test]
    fn undo_in_reverse_order_gives_every_row_back_its_id() {
        let mut heap = Heap::default();
        let ids: Vec<RowId> = (0..2000).map(|i| heap.insert(&[i as u8; 40]).unwrap()).collect();
        let before = rows_of(&heap);
        // Delete all, insert others, then take it back from the end.
        ids.iter().for_each(|id| assert!(heap.delete(*id)));
        let others: Vec<RowId> = (0..3000).map(|_| heap.insert(&[7; 30]).unwrap()).collect();
        assert!(others.iter().all(|id| !ids.contains(id)));
        others.iter().rev().for_each(|id| assert!(heap.delete(*id)));
        for (id, row) in before.iter().rev() {
            heap.insert_at(*id, row).unwrap();
        }
        heap.release();
        assert_eq!(before, rows_of(&heap));
    }

    #[test]
    fn a_replay_puts_any_mixture_of_rows_under_their_ids() {
        // Rows that all grew after they were packed: more than their page holds.
        let mut heap = Heap::default();
        let ids: Vec<RowId> = (0..page::PAGE_SLOTS + 5).map(|_| heap.insert(b"").unwrap()).collect();
        assert_eq!(1, ids[page::PAGE_SLOTS].page());
        let mut replayed = Heap::default();
        for id in ids.iter().rev() {
            replayed.insert_at(*id, &[1; 500]).unwrap();
        }
        assert!(ids.iter().all(|id| replayed.get(*id) == Some(&[1; 500][..])));
    }

    #[test]
    fn small_rows_take_their_bytes_three_more_and_a_little() {
        let mut heap = Heap::default();
        (0..100_000).for_each(|_| {
            heap.insert(&[1; 13]).unwrap();
        });
        assert!(heap.memory() < 100_000 * 165 / 10, "{}", heap.memory());
        assert_eq!(0, heap.copied());
    }
}
