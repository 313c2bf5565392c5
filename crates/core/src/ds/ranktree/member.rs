//! A member with its score, in one allocation, and the handle that names it.

use crate::ds::prefetch::prefetch;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};

#[repr(C)]
struct Header {
    score: f64,
    len: u32,
}

/// The bytes follow the length at once, in what would be the header's padding.
const BYTES: usize = std::mem::offset_of!(Header, len) + size_of::<u32>();

/// Names a member of one tree, as long as it is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(NonNull<Header>);

// SAFETY: a handle is an address; following it takes an unsafe call, whose contract asks for the tree.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// How a member of `len` bytes is allocated.
    pub(super) fn layout(len: usize) -> Layout {
        let size = (BYTES + len).max(size_of::<Header>());
        Layout::from_size_align(size, align_of::<Header>()).expect("members are far below the address space")
    }

    /// A new member, which is in no tree yet.
    pub(super) fn create(score: f64, member: &[u8]) -> Handle {
        let len = u32::try_from(member.len()).expect("members are below 4 GB");
        let layout = Self::layout(member.len());
        // SAFETY: the layout's size is at least that of a Header.
        let raw = unsafe { alloc(layout) };
        let Some(node) = NonNull::new(raw.cast::<Header>()) else { handle_alloc_error(layout) };
        // SAFETY: the allocation has room for a header, and for the bytes after the length; they come from elsewhere.
        unsafe {
            node.write(Header { score, len });
            ptr::copy_nonoverlapping(member.as_ptr(), raw.add(BYTES), member.len());
        }
        Handle(node)
    }

    /// Frees the member.
    ///
    /// # Safety
    /// The member is in no tree any more, and nobody uses it.
    pub(super) unsafe fn destroy(self) {
        // SAFETY: by contract the allocation is alive until here; it was made with this layout.
        unsafe { dealloc(self.0.as_ptr().cast(), Self::layout(self.0.as_ref().len as usize)) };
    }

    /// The member's score.
    ///
    /// # Safety
    /// The member is still in its tree.
    #[inline]
    pub unsafe fn score(self) -> f64 {
        // SAFETY: by contract it is alive.
        unsafe { self.0.as_ref().score }
    }

    /// The member's bytes.
    ///
    /// # Safety
    /// The member stays in its tree for as long as the bytes are used.
    #[inline]
    pub unsafe fn member<'a>(self) -> &'a [u8] {
        // SAFETY: by contract it is alive, and its bytes never change.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast::<u8>().add(BYTES), self.0.as_ref().len as usize) }
    }

    /// Gives the member another score.
    ///
    /// # Safety
    /// The member is alive, and its place in the tree is made to fit.
    pub(super) unsafe fn set_score(self, score: f64) {
        // SAFETY: by contract it is alive; references to members are to their bytes only, never to the score.
        unsafe { (*self.0.as_ptr()).score = score };
    }

    /// Starts loading the member.
    #[inline]
    pub(super) fn prefetch(self) {
        prefetch(self.0.as_ptr());
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
