//! How the use of keys is remembered: the time of the last use (LRU), or how often (LFU), in 24 bits of the entry.

use super::AccessClock;
use super::entry::EntryRef;

/// LRU: seconds, modulo 24 bits (194 days).
fn seconds(now_ms: i64) -> u32 {
    (now_ms / 1000) as u32 & 0xFF_FFFF
}

/// LFU: minutes, modulo 16 bits, above the counter.
fn minutes(now_ms: i64) -> u32 {
    (now_ms / 60_000) as u32 & 0xFFFF
}

/// A new key's LFU counter, so that it is not the first to go (Redis: LFU_INIT_VAL).
const LFU_START: u32 = 5;

impl AccessClock {
    /// Marks an entry as used, unless the session wants no trace left.
    #[inline]
    pub fn touch(self, entry: EntryRef<'_>, now_ms: i64) {
        if !self.no_touch {
            self.mark(entry, now_ms);
        }
    }

    /// Marks an entry as used.
    #[inline]
    pub fn mark(self, entry: EntryRef<'_>, now_ms: i64) {
        let access = if self.lfu { self.count(entry.access(), now_ms) } else { seconds(now_ms) };
        // Reading is cheaper than dirtying a cache line for nothing.
        if entry.access() != access {
            entry.set_access(access);
        }
    }

    /// The counter grows by chance: the higher it is, the less likely (Redis 7: lfu-log-factor 10).
    fn count(self, access: u32, now_ms: i64) -> u32 {
        let counter = frequency(access, now_ms) as u32;
        let over = counter.saturating_sub(LFU_START);
        // A cheap hash of instant and counter decides; it need not be fair, only rare.
        let dice = (now_ms as u32 ^ access.rotate_left(7)).wrapping_mul(0x9E37_79B9) >> 8;
        let grows = counter < 255 && (dice as f64) < (1u32 << 24) as f64 / (over * 10 + 1) as f64;
        minutes(now_ms) << 8 | (counter + grows as u32)
    }
}

/// LFU: the counter, less one for each minute without use (Redis 7: lfu-decay-time 1).
pub fn frequency(access: u32, now_ms: i64) -> u8 {
    let elapsed = minutes(now_ms).wrapping_sub(access >> 8) & 0xFFFF;
    (access & 0xFF).saturating_sub(elapsed) as u8
}

/// LRU: seconds since the last use.
pub fn idle_s(access: u32, now_ms: i64) -> u64 {
    (seconds(now_ms).wrapping_sub(access) & 0xFF_FFFF) as u64
}
