//! A growable array of lines in shared pages: no growth ever moves more than a page, a view of it is taken at once, and
//! what a view can reach is copied before it is written (invariant 4).
//!
//! Three levels of reference-counted nodes: the root holds leaves, a leaf holds 128 pages, a page holds 63 lines, which
//! with its header makes 4 kB. Reference counts are not looked at in the normal course of writing: the pointer to a
//! node carries a mark *perhaps shared* in its lowest bit. Taking a view marks the root alone. The first write after
//! that finds the mark and copies the root; in the copy every pointer is marked, because each leaf has two parents now;
//! and so on down, one node a level. Where no view exists a write costs three tests of a bit in a register. Where a mark
//! outlives its view, the count (back to one) says so, and the mark is removed instead of the node copied.

use super::line::Line;
use crate::ds::prefetch::prefetch;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// Lines of a page: 63 and the page's header fill 4 kB.
const PAGE_LINES: usize = 63;
/// Pages of a leaf. Copying a leaf touches the header of each of its pages, so this bounds the stall of one write.
const LEAF_PAGES: usize = 128;

/// What nodes are made of.
trait Item {
    /// Another owner of the same thing.
    fn share(&self) -> Self;
}

impl Item for Line {
    #[inline(always)]
    fn share(&self) -> Line {
        *self
    }
}

struct Header {
    owners: AtomicUsize,
    len: u32,
    capacity: u32,
}

/// An owner of a reference-counted array of `T`: a pointer to the header, with the mark in its lowest bit.
struct Node<T: Item>(*mut Header, PhantomData<T>);

// SAFETY: a node is written only through `&mut Node` while it has one owner; shared nodes are only read, and the count
// is atomic. So owners may live in different threads whenever the items may.
unsafe impl<T: Item + Send + Sync> Send for Node<T> {}
// SAFETY: as above.
unsafe impl<T: Item + Send + Sync> Sync for Node<T> {}

impl<T: Item> Node<T> {
    /// Offset of the first item.
    const ITEMS: usize = if align_of::<T>() > size_of::<Header>() { align_of::<T>() } else { size_of::<Header>() };

    fn layout(capacity: usize) -> Layout {
        let align = align_of::<T>().max(align_of::<Header>());
        Layout::from_size_align(Self::ITEMS + capacity * size_of::<T>(), align).expect("nodes are small")
    }

    fn with_capacity(capacity: usize) -> Self {
        let layout = Self::layout(capacity);
        // SAFETY: the layout has a header, so its size is not zero.
        let p = unsafe { alloc(layout) }.cast::<Header>();
        if p.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: fresh memory, aligned for and at least as large as a header.
        unsafe { p.write(Header { owners: AtomicUsize::new(1), len: 0, capacity: capacity as u32 }) };
        Node(p, PhantomData)
    }

    #[inline(always)]
    fn header_ptr(&self) -> *mut Header {
        self.0.map_addr(|a| a & !1)
    }

    #[inline(always)]
    fn header(&self) -> &Header {
        // SAFETY: the node is alive while it has an owner, and self is one. Of a shared header only the count changes.
        unsafe { &*self.header_ptr() }
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.header().len as usize
    }

    fn capacity(&self) -> usize {
        self.header().capacity as usize
    }

    #[inline(always)]
    fn is_marked(&self) -> bool {
        self.0.addr() & 1 == 1
    }

    fn mark(&mut self) {
        self.0 = self.0.map_addr(|a| a | 1);
    }

    #[inline(always)]
    fn items(&self) -> *mut T {
        // SAFETY: items begin at this offset of the same allocation.
        unsafe { self.header_ptr().byte_add(Self::ITEMS).cast() }
    }

    /// Item `i`. The caller vouches that `i < len`.
    #[inline(always)]
    unsafe fn get(&self, i: usize) -> &T {
        debug_assert!(i < self.len());
        // SAFETY: item i is initialised; nobody writes it while self is borrowed (writers need the only owner).
        unsafe { &*self.items().add(i) }
    }

    /// Item `i` for writing; copies the node first if it is shared. The caller vouches that `i < len`.
    #[inline(always)]
    unsafe fn get_mut(&mut self, i: usize, copied: &mut usize) -> &mut T {
        self.own(copied);
        debug_assert!(i < self.len());
        // SAFETY: item i is initialised, and after `own` this is the node's only owner, mutably borrowed.
        unsafe { &mut *self.items().add(i) }
    }

    /// Makes this the only owner of its node.
    #[inline(always)]
    fn own(&mut self, copied: &mut usize) {
        if self.is_marked() {
            self.own_marked(copied);
        }
    }

    #[cold]
    fn own_marked(&mut self, copied: &mut usize) {
        // Acquire: what other owners read, they read before they let go, and we write after.
        if self.header().owners.load(Ordering::Acquire) == 1 {
            self.0 = self.header_ptr();
            return;
        }
        *self = self.copy(self.capacity());
        *copied += Self::layout(self.capacity()).size();
    }

    fn copy(&self, capacity: usize) -> Self {
        let mut copy = Self::with_capacity(capacity);
        for i in 0..self.len() {
            // SAFETY: i < len.
            copy.push_within(unsafe { self.get(i) }.share());
        }
        copy
    }

    /// Appends to a node that has room and one owner.
    #[inline(always)]
    fn push_within(&mut self, item: T) {
        let header = self.header_ptr();
        debug_assert!(!self.is_marked());
        debug_assert!(self.len() < self.capacity());
        // SAFETY: this is the only owner; the item goes into allocated memory past the last one, which `len` then covers.
        unsafe {
            self.items().add((*header).len as usize).write(item);
            (*header).len += 1;
        }
    }

    /// Appends; the node moves to a larger allocation, up to `max` items, when it is full.
    fn push(&mut self, item: T, max: usize, copied: &mut usize) {
        self.own(copied);
        if self.len() == self.capacity() {
            self.resize((2 * self.capacity() + 1).min(max));
        }
        self.push_within(item);
    }

    /// Removes the last item.
    fn pop(&mut self, copied: &mut usize) -> T {
        self.own(copied);
        assert!(self.len() > 0);
        let header = self.header_ptr();
        // SAFETY: the last item is initialised; with `len` lowered nobody reads it again.
        unsafe {
            (*header).len -= 1;
            self.items().add((*header).len as usize).read()
        }
    }

    /// Moves the items of a node with one owner to an allocation for `capacity` items.
    fn resize(&mut self, capacity: usize) {
        debug_assert!(!self.is_marked());
        assert!(capacity >= self.len());
        let larger = Self::with_capacity(capacity);
        // SAFETY: both allocations have room for len items. The items move: the old node forgets them by its length.
        unsafe {
            ptr::copy_nonoverlapping(self.items(), larger.items(), self.len());
            (*larger.header_ptr()).len = self.len() as u32;
            (*self.header_ptr()).len = 0;
        }
        *self = larger;
    }

    fn memory(&self) -> usize {
        Self::layout(self.capacity()).size()
    }
}

impl<T: Item> Item for Node<T> {
    #[inline]
    fn share(&self) -> Self {
        // Relaxed suffices to take another share while holding one, as in Arc.
        self.header().owners.fetch_add(1, Ordering::Relaxed);
        let mut other = Node(self.0, PhantomData);
        other.mark();
        other
    }
}

impl<T: Item> Drop for Node<T> {
    fn drop(&mut self) {
        // The count decides, not the mark: in a node that only views reach, pointers are unmarked though the writer may
        // have a share in what they point at.
        // Release: our reads are over before whoever counts to zero frees. The fence is the other side of that.
        if self.header().owners.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        fence(Ordering::Acquire);
        // SAFETY: the last owner is going; items 0..len are initialised and are dropped once; the layout is the one
        // that this node was allocated with.
        unsafe {
            if std::mem::needs_drop::<T>() {
                ptr::drop_in_place(ptr::slice_from_raw_parts_mut(self.items(), self.len()));
            }
            dealloc(self.header_ptr().cast(), Self::layout(self.capacity()));
        }
    }
}

type Page = Node<Line>;
type Leaf = Node<Page>;

/// The array.
pub(super) struct Pages {
    /// None while there is no line, so that an empty array needs no memory.
    root: Option<Node<Leaf>>,
    len: u32,
    /// Bytes copied because views held them, since the array began.
    copied: usize,
}

/// Where line `i` lies: its leaf, its page in the leaf, its line in the page.
#[inline(always)]
fn locate(i: u32) -> (usize, usize, usize) {
    let (page, line) = (i / PAGE_LINES as u32, i % PAGE_LINES as u32);
    (page as usize / LEAF_PAGES, page as usize % LEAF_PAGES, line as usize)
}

impl Pages {
    pub const fn new() -> Self {
        Pages { root: None, len: 0, copied: 0 }
    }

    #[inline(always)]
    pub fn len(&self) -> u32 {
        self.len
    }

    pub fn copied(&self) -> usize {
        self.copied
    }

    /// Line `i`, which must exist.
    #[inline(always)]
    pub fn line(&self, i: u32) -> &Line {
        debug_assert!(i < self.len);
        let (leaf, page, line) = locate(i);
        // SAFETY: line i exists (every caller's contract, asserted in debug builds), hence its page, its leaf and the
        // root do.
        unsafe { self.root.as_ref().unwrap_unchecked().get(leaf).get(page).get(line) }
    }

    /// Line `i` for writing, copied away from views if need be.
    #[inline(always)]
    pub fn line_mut(&mut self, i: u32) -> &mut Line {
        debug_assert!(i < self.len);
        let (leaf, page, line) = locate(i);
        let copied = &mut self.copied;
        // SAFETY: as in `line`.
        unsafe {
            let root = self.root.as_mut().unwrap_unchecked();
            root.get_mut(leaf, copied).get_mut(page, copied).get_mut(line, copied)
        }
    }

    /// Starts loading line `i`.
    #[inline(always)]
    pub fn prefetch(&self, i: u32) {
        prefetch(self.line(i));
    }

    /// Appends a line.
    pub fn push(&mut self, new: Line) {
        assert!(self.len < u32::MAX, "a dict has fewer than 2^32 buckets");
        let (leaf, page, line) = locate(self.len);
        let copied = &mut self.copied;
        // Only the first page and the first leaf begin small: a dict of ten entries should not take 5 kB.
        let (page_capacity, leaf_capacity) =
            (if self.len == 0 { 1 } else { PAGE_LINES }, if leaf == 0 { 1 } else { LEAF_PAGES });
        let root = self.root.get_or_insert_with(|| Node::with_capacity(1));
        if page == 0 && line == 0 {
            root.push(Node::with_capacity(leaf_capacity), usize::MAX, copied);
        }
        // SAFETY: the leaf of a new line exists: it was pushed just now, or with the first line that lies in it.
        let leaf = unsafe { root.get_mut(leaf, copied) };
        if line == 0 {
            leaf.push(Node::with_capacity(page_capacity), LEAF_PAGES, copied);
        }
        // SAFETY: likewise the page.
        unsafe { leaf.get_mut(page, copied) }.push(new, PAGE_LINES, copied);
        self.len += 1;
    }

    /// Removes the last line.
    pub fn pop(&mut self) {
        assert!(self.len > 0);
        self.len -= 1;
        let (leaf, page, line) = locate(self.len);
        let copied = &mut self.copied;
        let Some(root) = self.root.as_mut() else { unreachable!("lines without a root") };
        // SAFETY: the line that goes exists until now, so its leaf and page do.
        let last_leaf = unsafe { root.get_mut(leaf, copied) };
        if line > 0 {
            // SAFETY: as above.
            let last_page = unsafe { last_leaf.get_mut(page, copied) };
            last_page.pop(copied);
            if self.len < PAGE_LINES as u32 && line * 4 <= last_page.capacity() && last_page.capacity() > 3 {
                last_page.resize(last_page.capacity() / 2);
            }
        } else if page > 0 {
            last_leaf.pop(copied);
        } else if leaf > 0 {
            root.pop(copied);
        } else {
            self.root = None;
        }
    }

    /// A view of the array as it is now; in constant time.
    pub fn view(&mut self) -> Pages {
        let root = self.root.as_mut().map(|root| {
            root.mark();
            root.share()
        });
        Pages { root, len: self.len, copied: 0 }
    }

    /// Bytes of all nodes, those shared with views included.
    pub fn memory(&self) -> usize {
        let Some(root) = &self.root else { return 0 };
        let (leaves, pages) = (root.len(), (self.len as usize).div_ceil(PAGE_LINES));
        // SAFETY: a root that exists has a leaf, and this one a page. Only the first of each is of its own size.
        let (first_leaf, first_page) = unsafe { (root.get(0), root.get(0).get(0)) };
        let others = (leaves - 1) * Leaf::layout(LEAF_PAGES).size() + (pages - 1) * Page::layout(PAGE_LINES).size();
        root.memory() + first_leaf.memory() + first_page.memory() + others
    }
}

impl Clone for Pages {
    /// Another owner, to read from. Only `view` may share an array that is written afterwards: it marks the writer.
    fn clone(&self) -> Self {
        debug_assert!(self.root.as_ref().is_none_or(|root| root.is_marked()));
        Pages { root: self.root.as_ref().map(Item::share), len: self.len, copied: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;

    fn line(n: u32) -> Line {
        let mut line = Line::EMPTY;
        line.0[..4].copy_from_slice(&n.to_le_bytes());
        line
    }

    fn number(line: &Line) -> u32 {
        u32::from_le_bytes(*line.0.first_chunk().unwrap())
    }

    fn assert_equal(pages: &Pages, model: &[u32]) {
        assert_eq!(pages.len() as usize, model.len());
        for (i, n) in model.iter().enumerate() {
            assert_eq!(number(pages.line(i as u32)), *n);
        }
    }

    #[test]
    fn a_page_is_four_kilobytes_and_the_first_begins_small() {
        assert_eq!(Page::layout(PAGE_LINES).size(), 4096);
        let mut pages = Pages::new();
        assert_eq!(pages.memory(), 0);
        pages.push(line(1));
        assert_eq!(pages.memory(), 128 + 24 + 24);
    }

    #[test]
    fn grows_over_leaves_and_shrinks_to_nothing() {
        let mut pages = Pages::new();
        let n = (PAGE_LINES * LEAF_PAGES * 2 + 100) as u32;
        for i in 0..n {
            pages.push(line(i));
        }
        assert_equal(&pages, &(0..n).collect::<Vec<_>>());
        for left in (0..n).rev() {
            pages.pop();
            if left % 997 == 0 || left < 200 {
                assert_equal(&pages, &(0..left).collect::<Vec<_>>());
            }
        }
        assert_eq!(pages.memory(), 0);
    }

    #[test]
    fn views_stay_as_they_were_taken() {
        let mut random = Xoshiro::from_seed(11);
        let (mut pages, mut model) = (Pages::new(), Vec::new());
        let mut views: Vec<(Pages, Vec<u32>)> = Vec::new();
        for step in 0..60_000u32 {
            match random.below(10) {
                // Phases of growth over the first leaf's end (8064 lines) and of shrinking.
                0..=3 if step / 15_000 % 2 == 0 => (0..4).for_each(|_| {
                    pages.push(line(step));
                    model.push(step);
                }),
                0..=3 => (0..4).for_each(|_| {
                    if model.pop().is_some() {
                        pages.pop();
                    }
                }),
                4..=8 if !model.is_empty() => {
                    let i = random.below(model.len() as u64) as usize;
                    *pages.line_mut(i as u32) = line(step);
                    model[i] = step;
                }
                _ if step % 100 == 0 => views.push((pages.view(), model.clone())),
                _ if step % 101 == 0 && !views.is_empty() => {
                    let (view, then) = views.swap_remove(random.below(views.len() as u64) as usize);
                    assert_equal(&view.clone(), &then);
                }
                _ => {}
            }
        }
        assert_equal(&pages, &model);
        views.iter().for_each(|(view, then)| assert_equal(view, then));
        assert!(pages.copied() > 0);
    }

    #[test]
    fn one_write_copies_one_page_once() {
        let mut pages = Pages::new();
        (0..1000).for_each(|i| pages.push(line(i)));
        let view = pages.view();
        *pages.line_mut(500) = line(1);
        *pages.line_mut(501) = line(1);
        assert!(pages.copied() > 4096);
        assert!(pages.copied() < 2 * 4096);
        drop(view);
        let before = pages.copied();
        *pages.line_mut(5) = line(1);
        assert_eq!(pages.copied(), before, "with the view gone nothing is copied");
    }

    #[test]
    fn views_are_read_and_dropped_in_other_threads() {
        let mut pages = Pages::new();
        (0..20_000).for_each(|i| pages.push(line(i)));
        let readers: Vec<_> = (0..4)
            .map(|round| {
                let view = pages.view();
                let expected: Vec<u32> = (0..20_000).map(|i| number(pages.line(i))).collect();
                (0..20_000).step_by(7).for_each(|i| *pages.line_mut(i) = line(i + round));
                std::thread::spawn(move || assert_equal(&view, &expected))
            })
            .collect();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    }
}
