//! The identity of a row: its page and its slot there, small enough to be packed into 4 or 5 bytes of an index.

use std::fmt;

/// Bits of a row id that number the slot.
const SLOT_BITS: u32 = 10;
/// Slots of a page, at most.
pub const SLOTS_MAX: usize = 1 << SLOT_BITS;
/// Pages of a table, at most: 2^30 pages of 8 kB are 8 TB.
pub const PAGES_MAX: u64 = 1 << 30;

/// Names a row for as long as it exists; updates do not change it. Engines other than memory may put other numbers in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub u64);

impl RowId {
    /// Bytes that hold any row id.
    pub const BYTES: usize = 5;
    /// No row has an id as large as this.
    pub const END: RowId = RowId(PAGES_MAX << SLOT_BITS);

    /// The id of slot `slot` in page `page`.
    #[inline]
    pub fn new(page: u32, slot: usize) -> RowId {
        debug_assert!(slot < SLOTS_MAX);
        RowId(u64::from(page) << SLOT_BITS | slot as u64)
    }

    /// The number of the page.
    #[inline]
    pub fn page(self) -> u32 {
        (self.0 >> SLOT_BITS) as u32
    }

    /// The slot in the page.
    #[inline]
    pub fn slot(self) -> usize {
        self.0 as usize & (SLOTS_MAX - 1)
    }
}

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.page(), self.slot())
    }
}
