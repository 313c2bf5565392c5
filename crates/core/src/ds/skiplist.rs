//! A skip list of members ordered by score, then by bytes, that counts as it goes: rank, and member by rank, in
//! logarithmic time.
//!
//! Each node is one allocation, which also holds the member's bytes; nothing else needs to store them:
//!
//! ```text
//! | score f64 | back ptr | member length u32 | height u32 | next ptr x height | span u32 x (height - 1) | member .. |
//! ```
//! A span is the number of steps on the lowest level that a link jumps over; on that level it would always be 1, so it
//! is not stored. A node of height 1 (three of four) costs 32 bytes beside its member.
//!
//! Handles are plain pointers: whoever keeps them (a table from member to handle) must drop them when the node goes.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cmp::Ordering;
use std::ptr::{self, NonNull};

/// Tallest node: 4^16 members keep one node at the top.
const HEIGHT_MAX: usize = 16;

#[repr(C)]
struct Header {
    score: f64,
    back: *mut Header,
    len: u32,
    height: u32,
}

/// Names a node of one list, as long as it is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(NonNull<Header>);

/// The list. Its members are distinct, which is up to the owner.
pub struct SkipList {
    /// Not a member: its links start every level.
    root: NonNull<Header>,
    tail: *mut Header,
    len: usize,
    /// Levels in use, at least 1.
    levels: usize,
    bytes: usize,
}

// SAFETY: the nodes are owned by the list alone; handles are only used with access to the list.
unsafe impl Send for SkipList {}
// SAFETY: nothing is written through a shared reference.
unsafe impl Sync for SkipList {}
// SAFETY: a handle is an address; using it takes the list.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// Where a search came down: for each level the last node before the place, and the rank of that node (root 0).
struct Path {
    before: [NonNull<Header>; HEIGHT_MAX],
    rank: [usize; HEIGHT_MAX],
}

impl Handle {
    fn layout(len: usize, height: usize) -> Layout {
        let size = size_of::<Header>() + height * size_of::<*mut Header>() + (height - 1) * size_of::<u32>() + len;
        Layout::from_size_align(size, align_of::<Header>()).expect("members are far below the address space")
    }

    fn create(score: f64, member: &[u8], height: usize) -> Handle {
        let len = u32::try_from(member.len()).expect("members are below 4 GB");
        let layout = Self::layout(member.len(), height);
        // SAFETY: the layout's size is at least that of a Header.
        let raw = unsafe { alloc(layout) };
        let Some(node) = NonNull::new(raw.cast::<Header>()) else { handle_alloc_error(layout) };
        let this = Handle(node);
        // SAFETY: the allocation has room for header, links, spans and member, in this order; the pointer is aligned
        // for the header and the links; the member is copied from memory that cannot be the new allocation.
        unsafe {
            node.write(Header { score, back: ptr::null_mut(), len, height: height as u32 });
            for level in 0..height {
                this.next_slot(level).write(ptr::null_mut());
            }
            for level in 1..height {
                this.span_slot(level).write(0);
            }
            ptr::copy_nonoverlapping(member.as_ptr(), this.member_start(), member.len());
        }
        this
    }

    /// # Safety
    /// The node is alive and in no list any more.
    unsafe fn destroy(self) {
        // SAFETY: by contract the node is alive, and it was made with this layout.
        unsafe {
            let header = self.0.as_ref();
            dealloc(self.0.as_ptr().cast(), Self::layout(header.len as usize, header.height as usize));
        }
    }

    /// # Safety
    /// The node is alive and `level` is below its height.
    unsafe fn next_slot(self, level: usize) -> *mut *mut Header {
        // SAFETY: the links follow the header, one for each level below the height.
        unsafe { self.0.as_ptr().add(1).cast::<*mut Header>().add(level) }
    }

    /// # Safety
    /// The node is alive and `level` is above 0 and below its height.
    unsafe fn span_slot(self, level: usize) -> *mut u32 {
        // SAFETY: the spans follow the links; level 0 has none.
        unsafe { self.next_slot(self.0.as_ref().height as usize).cast::<u32>().add(level - 1) }
    }

    /// # Safety
    /// The node is alive.
    unsafe fn member_start(self) -> *mut u8 {
        // SAFETY: the member follows the last span.
        unsafe { self.span_slot(self.0.as_ref().height as usize).cast() }
    }

    /// # Safety
    /// The node is alive and `level` is below its height.
    #[inline]
    unsafe fn next(self, level: usize) -> Option<Handle> {
        // SAFETY: by contract; links are null or point at live nodes of the list.
        NonNull::new(unsafe { *self.next_slot(level) }).map(Handle)
    }

    /// Steps on the lowest level to the next node of this level (meaningless without one on level 0).
    ///
    /// # Safety
    /// The node is alive and `level` is below its height.
    #[inline]
    unsafe fn span(self, level: usize) -> usize {
        // SAFETY: by contract.
        if level == 0 { 1 } else { unsafe { *self.span_slot(level) as usize } }
    }

    /// # Safety
    /// The node is alive and `level` is below its height.
    unsafe fn set_span(self, level: usize, span: usize) {
        if level > 0 {
            // SAFETY: by contract; at most 2^32 members, asserted when one is added.
            unsafe { *self.span_slot(level) = span as u32 };
        }
    }

    /// The node's score.
    ///
    /// # Safety
    /// The node is still in its list.
    #[inline]
    pub unsafe fn score(self) -> f64 {
        // SAFETY: by contract the node is alive.
        unsafe { self.0.as_ref().score }
    }

    /// The node's member.
    ///
    /// # Safety
    /// The node stays in its list for as long as the bytes are used.
    #[inline]
    pub unsafe fn member<'a>(self) -> &'a [u8] {
        // SAFETY: by contract the node is alive, and a member never changes.
        unsafe { std::slice::from_raw_parts(self.member_start(), self.0.as_ref().len as usize) }
    }

    /// # Safety
    /// The node is alive.
    #[inline]
    unsafe fn order(self, score: f64, member: &[u8]) -> Ordering {
        // SAFETY: by contract.
        let own = unsafe { self.score() };
        if own < score {
            Ordering::Less
        } else if own > score {
            Ordering::Greater
        } else {
            // SAFETY: by contract.
            unsafe { self.member() }.cmp(member)
        }
    }
}

impl SkipList {
    /// An empty list.
    pub fn new() -> Self {
        let root = Handle::create(0.0, b"", HEIGHT_MAX);
        SkipList { root: root.0, tail: ptr::null_mut(), len: 0, levels: 1, bytes: 0 }
    }

    /// How many members.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without members.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes taken from the allocator.
    pub fn memory(&self) -> usize {
        Handle::layout(0, HEIGHT_MAX).size() + self.bytes
    }

    fn root(&self) -> Handle {
        Handle(self.root)
    }

    /// Goes down to the last node for which `before` holds, which must be true of a prefix of the list only.
    /// Returns that node and its rank (the root's is 0, the first member's 1).
    #[inline]
    fn descend(&self, mut before: impl FnMut(Handle) -> bool, mut turn: impl FnMut(usize, Handle, usize)) {
        let (mut node, mut rank) = (self.root(), 0);
        for level in (0..self.levels).rev() {
            // SAFETY: the root has every level; another node was reached over a link of this level or a higher one, so
            // it is taller than `level`. All linked nodes are alive.
            unsafe {
                while let Some(next) = node.next(level).filter(|next| before(*next)) {
                    rank += node.span(level);
                    node = next;
                }
            }
            turn(level, node, rank);
        }
    }

    fn path(&self, score: f64, member: &[u8]) -> Path {
        let mut path = Path { before: [self.root; HEIGHT_MAX], rank: [0; HEIGHT_MAX] };
        // SAFETY: `descend` shows only live nodes.
        let before = |node: Handle| unsafe { node.order(score, member) == Ordering::Less };
        self.descend(before, |level, node, rank| {
            path.before[level] = node.0;
            path.rank[level] = rank;
        });
        path
    }

    /// Adds a member that is not in the list. `random` decides the node's height: three of four are 1 high, and so on.
    pub fn insert(&mut self, score: f64, member: &[u8], random: u64) -> Handle {
        assert!(self.len < u32::MAX as usize, "a sorted set holds fewer than 2^32 members");
        let height = (1 + random.trailing_zeros() as usize / 2).min(HEIGHT_MAX);
        let node = Handle::create(score, member, height);
        self.bytes += Handle::layout(member.len(), height).size();
        self.link(node);
        node
    }

    /// Puts a node, alive and in no list, where its score and member belong.
    fn link(&mut self, node: Handle) {
        // SAFETY: the node is alive, which is all that reading its fields takes.
        let (path, height) = unsafe { (self.path(node.score(), node.member()), node.0.as_ref().height as usize) };
        let rank = path.rank[0];
        while self.levels < height {
            // SAFETY: the root has every level. An unused level's one link spans the whole list.
            unsafe { self.root().set_span(self.levels, self.len) };
            self.levels += 1;
        }
        for level in 0..self.levels {
            let before = Handle(path.before[level]);
            // SAFETY: `before` was met on this level, so it is taller; the node is taller than `level` in the branch
            // that uses its links.
            unsafe {
                if level < height {
                    let to_node = rank - path.rank[level] + 1;
                    *node.next_slot(level) = *before.next_slot(level);
                    node.set_span(level, (before.span(level) + 1).saturating_sub(to_node));
                    *before.next_slot(level) = node.0.as_ptr();
                    before.set_span(level, to_node);
                } else {
                    before.set_span(level, before.span(level) + 1);
                }
            }
        }
        self.len += 1;
        let before = Handle(path.before[0]);
        // SAFETY: node and its new neighbours are alive.
        unsafe {
            (*node.0.as_ptr()).back = if before == self.root() { ptr::null_mut() } else { before.0.as_ptr() };
            match node.next(0) {
                Some(next) => (*next.0.as_ptr()).back = node.0.as_ptr(),
                None => self.tail = node.0.as_ptr(),
            }
        }
    }

    /// Takes a node out, keeping it alive. `path` leads to it.
    ///
    /// # Safety
    /// The node is in this list and `path` is the path to its score and member.
    unsafe fn unlink(&mut self, node: Handle, path: &Path) {
        // SAFETY: by contract node and path are alive; each link of the path on a level is followed or jumped over by
        // the node, as the comparison tells.
        unsafe {
            for level in 0..self.levels {
                let before = Handle(path.before[level]);
                if before.next(level) == Some(node) {
                    before.set_span(level, before.span(level) + node.span(level) - 1);
                    *before.next_slot(level) = *node.next_slot(level);
                } else {
                    before.set_span(level, before.span(level).saturating_sub(1));
                }
            }
            let back = node.0.as_ref().back;
            match node.next(0) {
                Some(next) => (*next.0.as_ptr()).back = back,
                None => self.tail = back,
            }
            while self.levels > 1 && self.root().next(self.levels - 1).is_none() {
                self.levels -= 1;
            }
        }
        self.len -= 1;
    }

    /// Removes a member and frees its node.
    ///
    /// # Safety
    /// The node is in this list; the handle must not be used again.
    pub unsafe fn remove(&mut self, node: Handle) {
        // SAFETY: by contract the node is in the list, so the path leads to it, and nobody uses it afterwards.
        unsafe {
            let path = self.path(node.score(), node.member());
            self.unlink(node, &path);
            self.bytes -= Handle::layout(node.member().len(), node.0.as_ref().height as usize).size();
            node.destroy();
        }
    }

    /// Gives a member another score; its handle stays good.
    ///
    /// # Safety
    /// The node is in this list.
    pub unsafe fn set_score(&mut self, node: Handle, score: f64) {
        // SAFETY: by contract the node is in the list; its neighbours are too.
        unsafe {
            let member = node.member();
            let after_back = Handle::from_link(node.0.as_ref().back).is_none_or(|b| b.order(score, member).is_lt());
            let before_next = node.next(0).is_none_or(|next| next.order(score, member).is_gt());
            if after_back && before_next {
                (*node.0.as_ptr()).score = score;
                return;
            }
            let path = self.path(node.score(), member);
            self.unlink(node, &path);
            (*node.0.as_ptr()).score = score;
        }
        self.link(node);
    }

    /// How many members, from the first on, satisfy `before`, which must be true of a prefix of the list only.
    pub fn count_while(&self, mut before: impl FnMut(f64, &[u8]) -> bool) -> usize {
        let mut count = 0;
        // SAFETY: `descend` shows only live nodes.
        let before = |node: Handle| unsafe { before(node.score(), node.member()) };
        self.descend(before, |_, _, rank| count = rank);
        count
    }

    /// The place of a member: 0 for the first.
    ///
    /// # Safety
    /// The node is in this list.
    pub unsafe fn rank(&self, node: Handle) -> usize {
        // SAFETY: by contract the node is alive.
        let (score, member) = unsafe { (node.score(), node.member()) };
        self.path(score, member).rank[0]
    }

    /// The member at a rank.
    pub fn at(&self, rank: usize) -> Option<Handle> {
        if rank >= self.len {
            return None;
        }
        let (mut node, mut passed) = (self.root(), 0);
        for level in (0..self.levels).rev() {
            // SAFETY: as in `descend`.
            unsafe {
                while let Some(next) = node.next(level).filter(|_| passed + node.span(level) <= rank + 1) {
                    passed += node.span(level);
                    node = next;
                }
            }
        }
        debug_assert_eq!(passed, rank + 1);
        Some(node)
    }

    /// The first member.
    pub fn first(&self) -> Option<Handle> {
        // SAFETY: the root is alive and has level 0.
        unsafe { self.root().next(0) }
    }

    /// The last member.
    pub fn last(&self) -> Option<Handle> {
        Handle::from_link(self.tail)
    }

    /// The member after one.
    ///
    /// # Safety
    /// The node is in this list.
    #[inline]
    pub unsafe fn next(&self, node: Handle) -> Option<Handle> {
        // SAFETY: by contract.
        unsafe { node.next(0) }
    }

    /// The member before one.
    ///
    /// # Safety
    /// The node is in this list.
    #[inline]
    pub unsafe fn previous(&self, node: Handle) -> Option<Handle> {
        // SAFETY: by contract.
        Handle::from_link(unsafe { node.0.as_ref().back })
    }
}

impl Handle {
    fn from_link(node: *mut Header) -> Option<Handle> {
        NonNull::new(node).map(Handle)
    }

    /// The handle as a pointer.
    #[inline]
    pub fn into_raw(self) -> NonNull<u8> {
        self.0.cast()
    }

    /// The handle that a pointer came from.
    ///
    /// # Safety
    /// The pointer came from `into_raw`.
    #[inline]
    pub unsafe fn from_raw(raw: NonNull<u8>) -> Handle {
        Handle(raw.cast())
    }
}

impl Default for SkipList {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for SkipList {
    fn drop(&mut self) {
        let mut node = Some(self.root());
        while let Some(current) = node {
            // SAFETY: every node of the list is alive until here, and each is visited once.
            unsafe {
                node = current.next(0);
                current.destroy();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;

    /// Checks links, spans and back links against a sorted vector.
    fn check(list: &SkipList, model: &[(f64, Vec<u8>)]) {
        assert_eq!(model.len(), list.len());
        let mut node = list.first();
        let mut back = None;
        for (rank, (score, member)) in model.iter().enumerate() {
            let current = node.unwrap();
            // SAFETY: the list is not changed while its nodes are looked at.
            unsafe {
                assert_eq!((*score, &member[..]), (current.score(), current.member()));
                assert_eq!(back, list.previous(current));
                assert_eq!(rank, list.rank(current));
                node = list.next(current);
            }
            assert_eq!(Some(current), list.at(rank));
            back = Some(current);
        }
        assert_eq!(None, node);
        assert_eq!(back, list.last());
        assert_eq!(None, list.at(model.len()));
    }

    fn order(a: &(f64, Vec<u8>), b: &(f64, Vec<u8>)) -> Ordering {
        a.0.partial_cmp(&b.0).unwrap().then_with(|| a.1.cmp(&b.1))
    }

    #[test]
    fn behaves_as_a_sorted_vector() {
        for seed in 0..10 {
            let mut random = Xoshiro::from_seed(seed);
            let mut list = SkipList::new();
            let mut model: Vec<(f64, Vec<u8>)> = Vec::new();
            for round in 0..600 {
                let score = random.below(20) as f64 - 10.0;
                let index = random.below(model.len() as u64 + 1) as usize;
                match random.below(5) {
                    0..=2 => {
                        let member = random.below(1000).to_string().into_bytes();
                        if model.iter().all(|(_, m)| *m != member) {
                            list.insert(score, &member, random.next());
                            model.push((score, member));
                        }
                    }
                    3 if index < model.len() => {
                        // SAFETY: the handle comes from the list and is dropped here.
                        unsafe { list.remove(list.at(index).unwrap()) };
                        model.remove(index);
                    }
                    _ if index < model.len() => {
                        // SAFETY: the handle comes from the list.
                        unsafe { list.set_score(list.at(index).unwrap(), score) };
                        model[index].0 = score;
                    }
                    _ => {}
                }
                model.sort_by(order);
                if round % 10 == 0 {
                    check(&list, &model);
                    let below = model.iter().filter(|(s, _)| *s < score).count();
                    assert_eq!(below, list.count_while(|s, _| s < score));
                }
            }
            check(&list, &model);
        }
    }

    #[test]
    fn an_emptied_list_can_be_used_again() {
        let mut list = SkipList::new();
        for round in 0..3 {
            for n in 0..100u64 {
                list.insert(n as f64, n.to_string().as_bytes(), n << round);
            }
            while let Some(node) = list.last() {
                // SAFETY: the handle comes from the list and is dropped here.
                unsafe { list.remove(node) };
            }
            check(&list, &[]);
            assert_eq!(Handle::layout(0, HEIGHT_MAX).size(), list.memory());
        }
    }
}
