//! Where small encodings end: the sizes up to which collections stay packed.

/// The limits of the small encodings. They steer memory and speed, never meaning; a value keeps its encoding when they
/// change, until it is next written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Most fields of a packed hash (`hash-max-listpack-entries`, formerly `hash-max-ziplist-entries`).
    pub hash_entries: usize,
    /// Longest field or value of a packed hash, bytes (`hash-max-listpack-value`, `hash-max-ziplist-value`).
    pub hash_value: usize,
    /// Most members of a set of integers (`set-max-intset-entries`).
    pub set_integers: usize,
    /// Most members of a packed sorted set (`zset-max-listpack-entries`, `zset-max-ziplist-entries`).
    pub zset_entries: usize,
    /// Longest member of a packed sorted set, bytes (`zset-max-listpack-value`, `zset-max-ziplist-value`).
    pub zset_value: usize,
    /// Size of a list's node (`list-max-listpack-size`, `list-max-ziplist-size`): entries when positive, -1 to -5 for
    /// 4, 8, 16, 32 and 64 kB.
    pub list_node: i32,
}

/// A packed value never grows beyond this, whatever the thresholds (Redis: LISTPACK_MAX_SAFETY_LIMIT).
pub(super) const PACKED_BYTES_MAX: usize = 1 << 30;

impl Thresholds {
    /// Redis 7.0's defaults.
    pub const DEFAULT: Thresholds = Thresholds {
        hash_entries: 512,
        hash_value: 64,
        set_integers: 512,
        zset_entries: 128,
        zset_value: 64,
        list_node: -2,
    };

    /// Most entries and most bytes of a list's node.
    pub(super) fn list_node_limits(&self) -> (usize, usize) {
        // Nodes limited by entries still stay below 8 kB, as in Redis, so that one edit never moves more.
        match self.list_node {
            0 => (1, 8 * 1024),
            1.. => (self.list_node as usize, 8 * 1024),
            negative => (usize::MAX, (4 * 1024) << (negative.max(-5).unsigned_abs() - 1)),
        }
    }
}

impl Default for Thresholds {
    fn default() -> Self {
        Self::DEFAULT
    }
}
