//! A growable byte string behind one pointer: length, capacity and bytes share one allocation.
//!
//! ```text
//! ThinBytes -> | len u32 | capacity u32 (top bit: a mark its owner may set) | bytes .. |
//! ```
//! Compared with `Vec<u8>` it takes 8 bytes where it is stored instead of 24, and reading a boxed one costs one cache
//! miss instead of two. It holds up to 2 GB.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, copy_nonoverlapping};

#[repr(C)]
struct Header {
    len: u32,
    capacity_and_mark: u32,
}

const HEADER: usize = size_of::<Header>();
const MARK: u32 = 1 << 31;
const CAPACITY_MAX: usize = (MARK - 1) as usize;

/// What every empty string without an allocation points at; its capacity of 0 keeps it from being written or freed.
static EMPTY: Header = Header { len: 0, capacity_and_mark: 0 };

/// A growable byte string of one word.
pub struct ThinBytes(NonNull<Header>);

// SAFETY: the allocation is owned by this value alone, like a Vec's; EMPTY is never written.
unsafe impl Send for ThinBytes {}
// SAFETY: through a shared reference the bytes are only read.
unsafe impl Sync for ThinBytes {}

impl ThinBytes {
    /// An empty string; allocates nothing.
    pub const fn new() -> Self {
        // SAFETY: the address of a static is not null.
        ThinBytes(unsafe { NonNull::new_unchecked((&raw const EMPTY).cast_mut()) })
    }

    /// An empty string with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        let mut this = Self::new();
        if capacity > 0 {
            this.set_capacity(capacity);
        }
        this
    }

    /// A copy of `bytes`, without spare room.
    #[inline]
    pub fn from_slice(bytes: &[u8]) -> Self {
        let mut this = Self::with_capacity(bytes.len());
        this.extend_from_slice(bytes);
        this
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: the pointer is EMPTY or a live allocation that starts with a Header.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn data(&self) -> *mut u8 {
        // SAFETY: every allocation is HEADER + capacity bytes; one past EMPTY's header is in bounds of the static.
        unsafe { self.0.as_ptr().cast::<u8>().add(HEADER) }
    }

    /// How many bytes fit without growing.
    #[inline]
    pub fn capacity(&self) -> usize {
        (self.header().capacity_and_mark & !MARK) as usize
    }

    /// Bytes taken from the allocator.
    pub fn memory(&self) -> usize {
        if self.capacity() == 0 { 0 } else { HEADER + self.capacity() }
    }

    /// The owner's mark.
    pub fn mark(&self) -> bool {
        self.header().capacity_and_mark & MARK != 0
    }

    /// Sets the owner's mark; a string without an allocation keeps none.
    pub fn set_mark(&mut self, mark: bool) {
        if self.capacity() == 0 {
            return;
        }
        // SAFETY: a capacity above 0 means an allocation of our own, and `&mut self` makes the access unique.
        let header = unsafe { self.0.as_mut() };
        header.capacity_and_mark = (header.capacity_and_mark & !MARK) | if mark { MARK } else { 0 };
    }

    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(HEADER + capacity, align_of::<Header>()).expect("below 2 GB")
    }

    /// Moves to an allocation of exactly `capacity` (above 0, and not below the length).
    fn set_capacity(&mut self, capacity: usize) {
        assert!(capacity <= CAPACITY_MAX, "byte string over 2 GB");
        debug_assert!(capacity > 0);
        debug_assert!(capacity >= self.len());
        let old = self.capacity();
        let mark = self.mark();
        let len = self.len();
        let layout = Self::layout(capacity);
        let raw = if old == 0 {
            // SAFETY: the layout has a size of at least HEADER.
            unsafe { alloc(layout) }
        } else {
            // SAFETY: the pointer came from this allocator with the layout of `old`, and the new size is not 0.
            unsafe { realloc(self.0.as_ptr().cast(), Self::layout(old), layout.size()) }
        };
        let Some(header) = NonNull::new(raw.cast::<Header>()) else { handle_alloc_error(layout) };
        self.0 = header;
        // SAFETY: the allocation is ours, aligned for Header and large enough.
        unsafe {
            header.write(Header { len: len as u32, capacity_and_mark: capacity as u32 | if mark { MARK } else { 0 } })
        };
    }

    fn set_len(&mut self, len: usize) {
        debug_assert!(len <= self.capacity());
        if self.capacity() > 0 {
            // SAFETY: a capacity above 0 means an allocation of our own.
            unsafe { self.0.as_mut().len = len as u32 };
        }
    }

    /// Makes room for `extra` bytes more: doubling at first, then a megabyte at a time (an eighth from 8 MB on).
    pub fn reserve(&mut self, extra: usize) {
        const MEGABYTE: usize = 1 << 20;
        let needed = self.len().checked_add(extra).expect("length overflow");
        if needed > self.capacity() {
            let spare = if needed < MEGABYTE { needed } else { MEGABYTE.max(needed / 8) };
            self.set_capacity((needed + spare).min(CAPACITY_MAX.max(needed)));
        }
    }

    /// Appends bytes; into an empty string without spare room.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let len = self.len();
        if self.capacity() == 0 {
            self.set_capacity(bytes.len());
        } else if self.capacity() - len < bytes.len() {
            self.reserve(bytes.len());
        }
        // SAFETY: there is room for len + bytes.len(), and `bytes` cannot overlap what `&mut self` owns.
        unsafe { copy_nonoverlapping(bytes.as_ptr(), self.data().add(len), bytes.len()) };
        self.set_len(len + bytes.len());
    }

    /// Shortens to `len` bytes, or fills up with zeros.
    pub fn resize(&mut self, len: usize) {
        let old = self.len();
        if len > old {
            if self.capacity() == 0 {
                self.set_capacity(len);
            } else {
                self.reserve(len - old);
            }
            // SAFETY: there is room for `len` bytes.
            unsafe { self.data().add(old).write_bytes(0, len - old) };
        }
        self.set_len(len);
    }

    /// Replaces the content, in place where it fits without wasting more than half.
    #[inline]
    pub fn assign(&mut self, bytes: &[u8]) {
        let mark = self.mark();
        if bytes.len() <= self.capacity() && bytes.len() >= self.capacity() / 2 {
            self.set_len(0);
            self.extend_from_slice(bytes);
        } else {
            *self = Self::from_slice(bytes);
            self.set_mark(mark);
        }
    }

    /// Gives the string up for a pointer, which owns it until `from_raw`.
    #[inline]
    pub fn into_raw(self) -> NonNull<u8> {
        ManuallyDrop::new(self).0.cast()
    }

    /// Takes a string back.
    ///
    /// # Safety
    /// The pointer came from `into_raw`, and is not used as one any more (or the result is not dropped).
    #[inline]
    pub unsafe fn from_raw(raw: NonNull<u8>) -> Self {
        ThinBytes(raw.cast())
    }

    /// The bytes of a string that was given up.
    ///
    /// # Safety
    /// The pointer came from `into_raw`; for `'a` the string is neither dropped nor changed.
    #[inline]
    pub unsafe fn slice_of_raw<'a>(raw: NonNull<u8>) -> &'a [u8] {
        let header = raw.cast::<Header>();
        // SAFETY: by contract the pointer is that of a live string, whose bytes follow its header.
        unsafe { std::slice::from_raw_parts(raw.as_ptr().add(HEADER), header.as_ref().len as usize) }
    }

    /// Gives spare room back.
    pub fn shrink_to_fit(&mut self) {
        if self.is_empty() {
            *self = Self::new();
        } else if self.len() < self.capacity() {
            self.set_capacity(self.len());
        }
    }
}

impl Drop for ThinBytes {
    #[inline]
    fn drop(&mut self) {
        let capacity = self.capacity();
        if capacity > 0 {
            // SAFETY: the allocation is ours and was made with this layout.
            unsafe { dealloc(self.0.as_ptr().cast(), Self::layout(capacity)) };
        }
    }
}

impl Deref for ThinBytes {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the first `len` bytes after the header are initialised.
        unsafe { std::slice::from_raw_parts(self.data(), self.header().len as usize) }
    }
}

impl DerefMut for ThinBytes {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in deref; `&mut self` makes it unique, and EMPTY gives an empty slice.
        unsafe { std::slice::from_raw_parts_mut(self.data(), self.header().len as usize) }
    }
}

impl Clone for ThinBytes {
    fn clone(&self) -> Self {
        let mut copy = Self::from_slice(self);
        copy.set_mark(self.mark());
        copy
    }
}

impl Default for ThinBytes {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for ThinBytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for ThinBytes {}

impl fmt::Debug for ThinBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;

    #[test]
    fn behaves_as_a_vector() {
        let mut random = Xoshiro::from_seed(5);
        let mut thin = ThinBytes::new();
        let mut model: Vec<u8> = Vec::new();
        for round in 0..20_000u32 {
            let n = random.below(40) as usize;
            match random.below(7) {
                0..=2 => {
                    thin.extend_from_slice(&[round as u8; 64][..n]);
                    model.extend_from_slice(&[round as u8; 64][..n]);
                }
                3 => {
                    let len = random.below(300) as usize;
                    thin.resize(len);
                    model.resize(len, 0);
                }
                4 => {
                    thin.assign(&[7; 64][..n]);
                    model = vec![7; n];
                }
                5 => thin.shrink_to_fit(),
                _ => thin = thin.clone(),
            }
            assert_eq!(*model, *thin);
        }
    }

    #[test]
    fn the_mark_survives_growth_and_copies() {
        let mut thin = ThinBytes::from_slice(b"a");
        thin.set_mark(true);
        thin.extend_from_slice(&[0; 100]);
        assert!(thin.mark());
        assert!(thin.clone().mark());
        thin.assign(b"x");
        assert!(thin.mark());
        let mut empty = ThinBytes::new();
        empty.set_mark(true);
        assert!(!empty.mark());
    }
}
