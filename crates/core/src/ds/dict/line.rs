//! One bucket of a dict: a cache line of slots, their tags, and a link to an overflow bucket.
//!
//! ```text
//! byte 0                                                          63
//! | slot 0 | slot 1 | ... | slot n-1 | tag 0 | ... | tag n-1 | spare |
//!
//! width 4: 12 slots, 4 spare    width 6: 9 slots, 1 spare    width 8: 7 slots, 1 spare
//! width 5: 10 slots, 4 spare    width 7: 7 slots, 8 spare
//! ```
//! A tag is 1 to 254, made from the entry's hash; 0 marks an empty slot, 255 a slot that holds no entry but a number of
//! the dict's own: the link to the next bucket of the chain, or, in an overflow bucket, the bucket where its chain
//! starts (its *home*). Where 4 bytes are spare the link stands there and costs no slot. All tags lie in the last 16
//! bytes, so one vector comparison finds the candidates.

use std::marker::PhantomData;

/// What a dict stores: a small value that fits in `WIDTH` bytes, from which its owner can find the key.
pub trait Slot: Copy {
    /// Bytes a slot takes, 4 to 8.
    const WIDTH: usize;
    /// The value as a number below 2^(8 * WIDTH).
    fn to_bits(self) -> u64;
    /// The value that `to_bits` made a number of.
    fn from_bits(bits: u64) -> Self;
    /// Starts loading what the slot points at, if it points at something.
    #[inline]
    fn prefetch(self) {}
}

/// Slots of a row id packed into 32 bits.
impl Slot for u32 {
    const WIDTH: usize = 4;
    #[inline]
    fn to_bits(self) -> u64 {
        self.into()
    }
    #[inline]
    fn from_bits(bits: u64) -> Self {
        bits as u32
    }
}

/// Slots of any 64 bits.
impl Slot for u64 {
    const WIDTH: usize = 8;
    #[inline]
    fn to_bits(self) -> u64 {
        self
    }
    #[inline]
    fn from_bits(bits: u64) -> Self {
        bits
    }
}

const EMPTY: u8 = 0;
const NUMBER: u8 = 255;

/// The tag of a hash. It is made from the upper half, which bucket numbers (below 2^32) leave alone.
#[inline(always)]
pub(super) fn tag_of(hash: u64) -> u8 {
    (1 + (((hash >> 32) * 254) >> 32)) as u8
}

/// Positions in a bucket, lowest first.
#[derive(Clone, Copy)]
pub(super) struct Positions(pub u32);

impl Iterator for Positions {
    type Item = usize;
    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let i = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(i)
    }
}

/// The bytes of a bucket, not yet typed.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(super) struct Line(pub [u8; 64]);

/// How slots of type `S` lie in a line.
pub(super) struct Layout<S>(PhantomData<S>);

impl<S: Slot> Layout<S> {
    /// Slots of a bucket.
    pub const SLOTS: usize = {
        assert!(S::WIDTH >= 4 && S::WIDTH <= 8);
        63 / (S::WIDTH + 1)
    };
    /// Offset of the first tag; at least 48 for every width.
    const TAGS: usize = Self::SLOTS * S::WIDTH;
    const SLOT_MASK: u64 = u64::MAX >> (64 - 8 * S::WIDTH);
    /// True where the spare bytes hold the link.
    const SPARE_LINK: bool = 64 - Self::SLOTS * (S::WIDTH + 1) >= 4;
    /// The slot that holds the link where no bytes are spare.
    const LINK_SLOT: usize = Self::SLOTS - 1;
    /// The slot that holds the home of an overflow bucket.
    const HOME_SLOT: usize = if Self::SPARE_LINK { Self::SLOTS - 1 } else { Self::SLOTS - 2 };
}

impl Line {
    pub const EMPTY: Line = Line([0; 64]);

    /// An overflow bucket of the chain that starts at primary bucket `home`.
    pub fn overflow<S: Slot>(home: u32) -> Line {
        let mut line = Line::EMPTY;
        line.write::<S>(Layout::<S>::HOME_SLOT, NUMBER, home.into());
        line
    }

    /// Positions whose tag is `tag`.
    #[inline(always)]
    pub fn tagged<S: Slot>(&self, tag: u8) -> Positions {
        let all = equal_bytes(self.0.last_chunk::<16>().expect("64 bytes"), tag);
        Positions((all >> (Layout::<S>::TAGS - 48)) & ((1 << Layout::<S>::SLOTS) - 1))
    }

    /// Positions that hold entries.
    #[inline]
    pub fn entries<S: Slot>(&self) -> Positions {
        let others = self.tagged::<S>(EMPTY).0 | self.tagged::<S>(NUMBER).0;
        Positions(!others & ((1 << Layout::<S>::SLOTS) - 1))
    }

    /// An empty position, if any.
    #[inline]
    pub fn free<S: Slot>(&self) -> Option<usize> {
        self.tagged::<S>(EMPTY).next()
    }

    /// The entry at position `i`.
    #[inline(always)]
    pub fn slot<S: Slot>(&self, i: usize) -> S {
        S::from_bits(self.bits::<S>(i))
    }

    #[inline(always)]
    fn bits<S: Slot>(&self, i: usize) -> u64 {
        debug_assert!(i < Layout::<S>::SLOTS);
        // The last slot ends at or before byte 56 for width 8 and earlier for the others, so 8 bytes can always be read.
        let bytes = self.0[i * S::WIDTH..][..8].try_into().expect("8 bytes");
        u64::from_le_bytes(bytes) & Layout::<S>::SLOT_MASK
    }

    #[inline]
    pub fn tag<S: Slot>(&self, i: usize) -> u8 {
        self.0[Layout::<S>::TAGS + i]
    }

    /// Puts an entry at position `i`.
    #[inline]
    pub fn put<S: Slot>(&mut self, i: usize, tag: u8, slot: S) {
        self.write::<S>(i, tag, slot.to_bits());
    }

    #[inline]
    fn write<S: Slot>(&mut self, i: usize, tag: u8, bits: u64) {
        debug_assert!(i < Layout::<S>::SLOTS);
        debug_assert!(bits <= Layout::<S>::SLOT_MASK, "a slot wider than its WIDTH");
        self.0[i * S::WIDTH..][..S::WIDTH].copy_from_slice(&bits.to_le_bytes()[..S::WIDTH]);
        self.0[Layout::<S>::TAGS + i] = tag;
    }

    /// Empties position `i`.
    #[inline]
    pub fn clear<S: Slot>(&mut self, i: usize) {
        self.0[Layout::<S>::TAGS + i] = EMPTY;
    }

    /// The overflow bucket that continues this one's chain.
    #[inline(always)]
    pub fn link<S: Slot>(&self) -> Option<u32> {
        if Layout::<S>::SPARE_LINK {
            // Stored plus one, so that zeros mean none.
            u32::from_le_bytes(*self.0.last_chunk().expect("64 bytes")).checked_sub(1)
        } else if self.tag::<S>(Layout::<S>::LINK_SLOT) == NUMBER {
            Some(self.bits::<S>(Layout::<S>::LINK_SLOT) as u32)
        } else {
            None
        }
    }

    /// Links this full bucket to overflow bucket `next`. An entry that had to make room comes back.
    pub fn set_link<S: Slot>(&mut self, next: u32) -> Option<(u8, S)> {
        if Layout::<S>::SPARE_LINK {
            *self.0.last_chunk_mut().expect("64 bytes") = (next + 1).to_le_bytes();
            return None;
        }
        let i = Layout::<S>::LINK_SLOT;
        let tag = self.tag::<S>(i);
        let displaced = (tag != EMPTY && tag != NUMBER).then(|| (tag, self.slot::<S>(i)));
        self.write::<S>(i, NUMBER, next.into());
        displaced
    }

    /// Makes this bucket the last of its chain.
    pub fn clear_link<S: Slot>(&mut self) {
        if Layout::<S>::SPARE_LINK {
            *self.0.last_chunk_mut().expect("64 bytes") = [0; 4];
        } else {
            self.clear::<S>(Layout::<S>::LINK_SLOT);
        }
    }

    /// The primary bucket where this overflow bucket's chain starts.
    pub fn home<S: Slot>(&self) -> u32 {
        debug_assert_eq!(self.tag::<S>(Layout::<S>::HOME_SLOT), NUMBER);
        self.bits::<S>(Layout::<S>::HOME_SLOT) as u32
    }
}

/// A bit for each of 16 bytes: set where it equals `byte`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn equal_bytes(bytes: &[u8; 16], byte: u8) -> u32 {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    // SAFETY: SSE2 is part of x86_64, and the load reads the 16 bytes of the array.
    unsafe {
        let tags = _mm_loadu_si128(bytes.as_ptr().cast::<__m128i>());
        _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(byte as i8))) as u32
    }
}

#[cfg(not(target_arch = "x86_64"))]
use equal_bytes_portable as equal_bytes;

/// The same without vector instructions: eight bytes at a time in a word.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline(always)]
fn equal_bytes_portable(bytes: &[u8; 16], byte: u8) -> u32 {
    const LOW7: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    let half = |at: usize| {
        let word = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let x = word ^ (u64::from(byte) * 0x0101_0101_0101_0101);
        // The top bit of a byte of `zero` is set exactly where the byte of `x` is zero: no carry leaves a byte.
        let zero = !(((x & LOW7) + LOW7) | x | LOW7);
        // Gathers the eight top bits into the highest byte.
        ((zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
    };
    half(0) | half(8) << 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;

    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Wide<const W: usize>(u64);
    impl<const W: usize> Slot for Wide<W> {
        const WIDTH: usize = W;
        fn to_bits(self) -> u64 {
            self.0
        }
        fn from_bits(bits: u64) -> Self {
            Wide(bits)
        }
    }

    #[test]
    fn portable_and_vector_comparison_agree() {
        let mut random = Xoshiro::from_seed(7);
        for _ in 0..10_000 {
            let bytes: [u8; 16] = std::array::from_fn(|_| [0, 1, 127, 128, 254, 255][random.below(6) as usize]);
            for byte in [0, 1, 127, 128, 254, 255] {
                assert_eq!(equal_bytes(&bytes, byte), equal_bytes_portable(&bytes, byte));
            }
        }
    }

    fn fills_and_links<const W: usize>(slots: usize, chained: usize) {
        let max = u64::MAX >> (64 - 8 * W);
        let mut line = Line::EMPTY;
        assert_eq!(line.link::<Wide<W>>(), None);
        for i in 0..slots {
            assert_eq!(line.free::<Wide<W>>(), Some(i));
            line.put(i, i as u8 + 1, Wide::<W>(max - i as u64));
        }
        assert_eq!(line.free::<Wide<W>>(), None);
        let displaced = line.set_link::<Wide<W>>(77);
        assert_eq!(displaced.is_some(), chained < slots);
        assert_eq!(line.link::<Wide<W>>(), Some(77));
        assert_eq!(line.entries::<Wide<W>>().count(), chained);
        for i in line.entries::<Wide<W>>() {
            assert_eq!(line.slot::<Wide<W>>(i), Wide(max - i as u64));
            assert_eq!(line.tagged::<Wide<W>>(i as u8 + 1).collect::<Vec<_>>(), [i]);
        }
        line.clear_link::<Wide<W>>();
        assert_eq!(line.link::<Wide<W>>(), None);
        let mut second = Line::overflow::<Wide<W>>(u32::MAX);
        assert_eq!(second.set_link::<Wide<W>>(5), None);
        assert_eq!((second.home::<Wide<W>>(), second.link::<Wide<W>>()), (u32::MAX, Some(5)));
        assert_eq!(second.entries::<Wide<W>>().count(), 0);
    }

    #[test]
    fn every_width_fills_and_links() {
        fills_and_links::<4>(12, 12);
        fills_and_links::<5>(10, 10);
        fills_and_links::<6>(9, 8);
        fills_and_links::<7>(7, 7);
        fills_and_links::<8>(7, 6);
    }

    #[test]
    fn tags_avoid_the_reserved_values() {
        for hash in [0, u64::MAX, 1 << 32, u64::MAX << 32] {
            assert!((1..=254).contains(&tag_of(hash)));
        }
    }
}
