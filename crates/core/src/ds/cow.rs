//! Reference-counted memory that is written in place by its only owner and copied when it is shared (invariant 4).
//!
//! The whole state of a structure hangs on one owner; a view is a second owner of its root. A writer makes the nodes on
//! its way unique from the root down: whatever a view can reach below a node is shared as soon as the node has been
//! copied, because the copy owns the children too. With no view alive that is one load and one comparison a node.

use super::prefetch::prefetch;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Owners of one thing, counted. Like `Arc` without weak references, so that "am I alone?" is a plain load.
#[derive(Debug)]
struct Owners(AtomicU32);

impl Owners {
    const fn one() -> Owners {
        Owners(AtomicU32::new(1))
    }

    #[inline]
    fn add(&self) {
        // Relaxed suffices to take another share while holding one. Each share is a pointer in memory, so 2^31 of them
        // cannot be reached without a leak; the check keeps even that from becoming a use after free.
        if self.0.fetch_add(1, Ordering::Relaxed) > u32::MAX / 2 {
            std::process::abort();
        }
    }

    /// Gives a share back; true for the last one.
    #[inline]
    fn leave(&self) -> bool {
        // Release: our reads are over before whoever is last frees or writes. The fence is the other side of that.
        if self.0.fetch_sub(1, Ordering::Release) != 1 {
            return false;
        }
        fence(Ordering::Acquire);
        true
    }

    /// Nobody else has a share. Asked through `&mut` of the only share, the answer cannot change meanwhile.
    #[inline(always)]
    fn is_one(&self) -> bool {
        self.0.load(Ordering::Acquire) == 1
    }
}

/// A shared value; copied on writing while it has other owners.
#[derive(Debug)]
pub struct Shared<T>(NonNull<SharedBox<T>>);

#[derive(Debug)]
struct SharedBox<T> {
    owners: Owners,
    value: T,
}

// SAFETY: the value is read through any share and written only through `&mut` of the only share; the count is atomic.
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Bytes that a shared value takes.
    pub const MEMORY: usize = size_of::<SharedBox<T>>();

    /// A value with one owner.
    pub fn new(value: T) -> Self {
        Shared(NonNull::from(Box::leak(Box::new(SharedBox { owners: Owners::one(), value }))))
    }

    #[inline(always)]
    fn inner(&self) -> &SharedBox<T> {
        // SAFETY: the box lives while it has an owner, and self is one.
        unsafe { self.0.as_ref() }
    }
}

impl<T: Clone> Shared<T> {
    /// The value for writing, copied first if others own it too; `copied` grows by the bytes of a copy.
    #[inline(always)]
    pub fn make_mut(&mut self, copied: &mut u64) -> &mut T {
        if !self.inner().owners.is_one() {
            *copied += Self::MEMORY as u64;
            *self = Shared::new(T::clone(self));
        }
        // SAFETY: this is the only share, and it is mutably borrowed.
        unsafe { &mut self.0.as_mut().value }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.inner().value
    }
}

impl<T> Clone for Shared<T> {
    /// Another owner of the same value.
    fn clone(&self) -> Self {
        self.inner().owners.add();
        Shared(self.0)
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        if self.inner().owners.leave() {
            // SAFETY: the last owner is going; the box came from `Box::leak`.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

/// A shared array of bytes in one allocation; copied on writing while it has other owners.
#[derive(Debug)]
pub struct Buf(NonNull<Header>);

#[derive(Debug)]
struct Header {
    owners: Owners,
    capacity: u32,
}

// SAFETY: as for `Shared`, with bytes as the value.
unsafe impl Send for Buf {}
// SAFETY: as for `Shared`.
unsafe impl Sync for Buf {}

const HEADER: usize = size_of::<Header>();

impl Buf {
    /// A buffer of at least `capacity` zero bytes; as many more as the allocator would waste.
    pub fn with_capacity(capacity: usize) -> Buf {
        Buf::exact(size_class(capacity + HEADER) - HEADER)
    }

    /// A buffer of `capacity` zero bytes.
    pub fn exact(capacity: usize) -> Buf {
        let layout = Self::layout(capacity);
        // SAFETY: the layout has a header, so its size is not zero.
        let Some(p) = NonNull::new(unsafe { alloc_zeroed(layout) }.cast::<Header>()) else {
            handle_alloc_error(layout)
        };
        let capacity = u32::try_from(capacity).expect("a buffer is smaller than 4 GB");
        // SAFETY: fresh memory, aligned for and at least as large as a header.
        unsafe { p.write(Header { owners: Owners::one(), capacity }) };
        Buf(p)
    }

    /// A buffer with these bytes and no more.
    pub fn of(bytes: &[u8]) -> Buf {
        let mut buf = Buf::exact(bytes.len());
        buf.as_mut_unshared().copy_from_slice(bytes);
        buf
    }

    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(HEADER + capacity, align_of::<Header>()).expect("a buffer is smaller than 4 GB")
    }

    #[inline(always)]
    fn header(&self) -> &Header {
        // SAFETY: the allocation lives while it has an owner, and self is one.
        unsafe { self.0.as_ref() }
    }

    /// Bytes allocated.
    #[inline]
    pub fn memory(&self) -> usize {
        HEADER + self.len()
    }

    /// Starts loading the bytes `from..to`, whether they exist or not; reads nothing itself.
    #[inline]
    pub fn prefetch(&self, from: usize, to: usize) {
        prefetch_bytes(self.0.as_ptr().cast::<u8>().wrapping_add(HEADER + from), to - from);
    }

    /// The bytes for writing, copied first if others own them too; `copied` grows by the bytes of a copy.
    #[inline(always)]
    pub fn make_mut(&mut self, copied: &mut u64) -> &mut [u8] {
        if !self.header().owners.is_one() {
            *copied += self.memory() as u64;
            *self = Buf::of(self);
        }
        self.as_mut_unshared()
    }

    #[inline(always)]
    fn as_mut_unshared(&mut self) -> &mut [u8] {
        debug_assert!(self.header().owners.is_one());
        // SAFETY: the bytes behind the header belong to the allocation and were zeroed; this is the only owner.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(1).cast().as_ptr(), self.header().capacity as usize) }
    }
}

impl Deref for Buf {
    type Target = [u8];
    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes behind the header belong to the allocation and were zeroed; writers need the only share.
        unsafe { std::slice::from_raw_parts(self.0.add(1).cast().as_ptr(), self.header().capacity as usize) }
    }
}

impl Clone for Buf {
    /// Another owner of the same bytes.
    fn clone(&self) -> Self {
        self.header().owners.add();
        Buf(self.0)
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        if self.header().owners.leave() {
            let layout = Self::layout(self.len());
            // SAFETY: the last owner is going; the layout is the one it was allocated with.
            unsafe { dealloc(self.0.as_ptr().cast(), layout) };
        }
    }
}

/// Starts loading the cache lines of the `len` bytes at `p`.
#[inline]
pub fn prefetch_bytes(p: *const u8, len: usize) {
    (0..len).step_by(64).for_each(|at| prefetch(p.wrapping_add(at)));
}

/// The largest request that costs the allocator as much as one of `size` bytes. Allocators keep classes, four to a
/// doubling, and some bytes of their own in each block: 16 less than the class is safe with those in use.
pub fn size_class(size: usize) -> usize {
    let needed = size + 16;
    if needed <= 128 {
        return needed.next_multiple_of(16) - 16;
    }
    let step = (needed.next_power_of_two() / 8).max(16);
    needed.next_multiple_of(step) - 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sole_owners_write_in_place_and_others_get_a_copy() {
        let mut copied = 0;
        let mut shared = Shared::new(vec![1, 2]);
        shared.make_mut(&mut copied).push(3);
        assert_eq!(0, copied);
        let view = shared.clone();
        shared.make_mut(&mut copied).push(4);
        assert_eq!(Shared::<Vec<i32>>::MEMORY as u64, copied);
        assert_eq!((vec![1, 2, 3], vec![1, 2, 3, 4]), (view.to_vec(), shared.to_vec()));
        drop(view);
        shared.make_mut(&mut copied).push(5);
        assert_eq!(Shared::<Vec<i32>>::MEMORY as u64, copied);
    }

    #[test]
    fn buffers_share_and_copy_bytes() {
        let mut copied = 0;
        let mut buf = Buf::of(b"abc");
        let views: Vec<Buf> = (0..3).map(|_| buf.clone()).collect();
        buf.make_mut(&mut copied)[0] = b'x';
        assert_eq!(11, copied);
        assert_eq!(b"xbc", &buf[..]);
        let threads: Vec<_> =
            views.into_iter().map(|v| std::thread::spawn(move || assert_eq!(b"abc", &v[..]))).collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(0, Buf::exact(0).len());
    }

    #[test]
    fn size_classes_lie_just_below_the_allocators() {
        assert_eq!(vec![0, 16, 64, 80, 112, 144], [0, 1, 50, 65, 112, 113].map(size_class).to_vec());
        assert_eq!(vec![1264, 1520, 2032, 2032, 2544], [1100, 1265, 1800, 2032, 2033].map(size_class).to_vec());
        (0..5000).for_each(|n| assert!(size_class(n) >= n && size_class(n) <= n * 5 / 4 + 32));
    }
}
