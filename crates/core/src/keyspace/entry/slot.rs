//! An entry as it stands in a dict.

use super::{Entry, EntryRef};
use crate::ds::dict::Slot;
use crate::ds::prefetch::prefetch;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// The address of an entry as it stands in a dict: 6 bytes, because user addresses have at most 48 bits. It owns
/// nothing by itself; the database that holds the dict owns the entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::keyspace) struct EntrySlot(pub(super) u64);

impl EntrySlot {
    fn pointer(self) -> NonNull<u8> {
        NonNull::new(std::ptr::with_exposed_provenance_mut(self.0 as usize)).expect("slots are made of entries")
    }

    /// The entry for reading.
    ///
    /// # Safety
    /// It is alive for `'a` and not changed meanwhile, except by `set_access` and `set_epoch`.
    #[inline(always)]
    pub unsafe fn entry<'a>(self) -> EntryRef<'a> {
        EntryRef(self.pointer(), PhantomData)
    }

    /// The entry with its ownership.
    ///
    /// # Safety
    /// It is alive, and whoever owned it gives it up (or the result is never dropped).
    pub unsafe fn into_entry(self) -> Entry {
        Entry(self.pointer())
    }
}

impl Slot for EntrySlot {
    const WIDTH: usize = 6;
    #[inline(always)]
    fn to_bits(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        EntrySlot(bits)
    }
    #[inline(always)]
    fn prefetch(self) {
        prefetch(self.0 as *const u8);
    }
}
