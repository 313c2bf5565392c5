//! Places in the order of a tree's entries, and how keys compare with them.

use smallvec::SmallVec;
use std::cmp::Ordering;

/// Bytes that hold any value: values are below 2^40.
pub(super) const VALUE_BYTES: usize = 5;

/// A place between entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe<'a> {
    /// The key that the place is next to.
    pub key: &'a [u8],
    /// On which side of it.
    pub side: Side,
}

/// On which side of the entries with a key a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Before every entry whose key is, starts with, or follows the key.
    Before,
    /// After every entry whose key is or starts with the key.
    After,
    /// Among the entries with this very key, before the one with this value.
    At(u64),
}

impl<'a> Probe<'a> {
    /// Before all entries.
    pub const START: Probe<'static> = Probe { key: &[], side: Side::Before };
    /// After all entries.
    pub const END: Probe<'static> = Probe { key: &[], side: Side::After };

    /// The place before an entry.
    pub fn before(key: &'a [u8]) -> Probe<'a> {
        Probe { key, side: Side::Before }
    }

    /// The place after every entry that starts with `key`.
    pub fn after(key: &'a [u8]) -> Probe<'a> {
        Probe { key, side: Side::After }
    }

    /// The place before the entry of a multimap with this key and value.
    pub fn at(key: &'a [u8], value: u64) -> Probe<'a> {
        Probe { key, side: Side::At(value) }
    }

    /// Is an entry before this place? `suffix` is what its key has after a prefix that the probe's key has as well, and
    /// `rest` is the probe's key after it.
    #[inline]
    pub(super) fn passes(side: Side, rest: &[u8], suffix: &[u8], value: impl FnOnce() -> u64) -> bool {
        let common = rest.len().min(suffix.len());
        match suffix[..common].cmp(&rest[..common]) {
            Ordering::Less => true,
            Ordering::Greater => false,
            // The entry's key is the start of the probe's and not all of it: less.
            Ordering::Equal if suffix.len() < rest.len() => true,
            Ordering::Equal if suffix.len() > rest.len() => side == Side::After,
            Ordering::Equal => match side {
                Side::Before => false,
                Side::After => true,
                Side::At(limit) => value() < limit,
            },
        }
    }
}

/// A probe in the form in which inner nodes compare it: key and value as one string of bytes.
///
/// A separator cuts somewhere between two neighbours, perhaps within the value, so it has this form too. No key of a
/// multimap is the start of another one, hence comparing the joined strings compares keys first and values second.
pub(super) struct Joined {
    pub bytes: SmallVec<[u8; 72]>,
    pub after: bool,
}

impl Joined {
    pub fn new(probe: &Probe<'_>) -> Joined {
        let mut bytes = SmallVec::from_slice(probe.key);
        if let Side::At(value) = probe.side {
            bytes.extend_from_slice(&value_bytes(value));
        }
        Joined { bytes, after: probe.side == Side::After }
    }
}

/// A value as it follows its key in a joined string.
#[inline]
pub(super) fn value_bytes(value: u64) -> [u8; VALUE_BYTES] {
    let [_, _, _, bytes @ ..] = value.to_be_bytes();
    bytes
}

/// How many bytes two strings have in common at their start.
pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
