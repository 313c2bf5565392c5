//! How the use of keys is remembered: the time of the last use (LRU), or how often (LFU), in 24 bits of the entry.

use super::entry::EntryRef;

/// What is written into an entry when it is used.
#[derive(Clone, Copy, Debug)]
pub struct AccessClock {
    /// Count uses (LFU) instead of noting their time (LRU).
    pub lfu: bool,
    /// The session being served leaves no trace of its uses (CLIENT NO-TOUCH).
    pub no_touch: bool,
    /// LFU: how much harder each count is to reach than the one before (lfu-log-factor).
    pub log_factor: u32,
    /// LFU: minutes without use that take one off the count; 0: none do (lfu-decay-time).
    pub decay_minutes: u32,
    /// LFU: what chance is made of.
    dice: u32,
    /// LFU: the hash of the key that the running command has counted for, as it may look twice before it writes.
    counted: u64,
}

impl Default for AccessClock {
    fn default() -> Self {
        // Redis's defaults; the dice may be anything but zero.
        AccessClock { lfu: false, no_touch: false, log_factor: 10, decay_minutes: 1, dice: 0x2545_F491, counted: 0 }
    }
}

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
    /// The clock for one use, which its chance is drawn for.
    #[inline]
    pub fn draw(&mut self) -> AccessClock {
        if self.lfu {
            self.dice ^= self.dice << 13;
            self.dice ^= self.dice >> 17;
            self.dice ^= self.dice << 5;
        }
        *self
    }

    /// [`AccessClock::draw`] for a command that will change the key of this hash: its first look counts.
    #[inline]
    pub fn draw_to_change(&mut self, hash: u64) -> AccessClock {
        if !self.lfu {
            return *self;
        }
        if std::mem::replace(&mut self.counted, hash) == hash {
            self.counted = 0;
            return AccessClock { no_touch: true, ..*self };
        }
        self.draw()
    }

    /// The key was changed: what comes next counts again.
    #[inline]
    pub fn changed(&mut self) {
        self.counted = 0;
    }

    /// What a new key's entry says.
    #[inline]
    pub fn start(self, now_ms: i64) -> u32 {
        if self.lfu { minutes(now_ms) << 8 | LFU_START } else { seconds(now_ms) }
    }

    /// What an entry says after a use, of which it said `access` before.
    #[inline]
    pub fn after(self, access: u32, now_ms: i64) -> u32 {
        if self.lfu { self.count(access, now_ms) } else { seconds(now_ms) }
    }

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
        let access = self.after(entry.access(), now_ms);
        // Reading is cheaper than dirtying a cache line for nothing.
        if entry.access() != access {
            entry.set_access(access);
        }
    }

    /// The counter grows by chance: the higher it is, the less likely.
    fn count(self, access: u32, now_ms: i64) -> u32 {
        let counter = u32::from(self.frequency(access, now_ms));
        let over = u64::from(counter.saturating_sub(LFU_START));
        let one_in = over * u64::from(self.log_factor) + 1;
        let grows = counter < 255 && u64::from(self.dice) * one_in < 1 << 32;
        minutes(now_ms) << 8 | (counter + u32::from(grows))
    }

    /// LFU: the counter, less one for each span without use.
    pub fn frequency(self, access: u32, now_ms: i64) -> u8 {
        let elapsed = minutes(now_ms).wrapping_sub(access >> 8) & 0xFFFF;
        (access & 0xFF).saturating_sub(elapsed.checked_div(self.decay_minutes).unwrap_or(0)) as u8
    }
}

/// LRU: seconds since the last use.
pub fn idle_s(access: u32, now_ms: i64) -> u64 {
    (seconds(now_ms).wrapping_sub(access) & 0xFF_FFFF) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const LFU: AccessClock =
        AccessClock { lfu: true, no_touch: false, log_factor: 10, decay_minutes: 1, dice: 0x2545_F491, counted: 0 };

    #[test]
    fn counts_grow_as_the_logarithm_of_the_uses() {
        // Redis's table for factor 10: 100 uses reach about 10, 1000 about 18, 100000 about 142.
        let (mut clock, mut access) = (LFU, LFU.start(0));
        let mut at = Vec::new();
        for used in 1..=100_000 {
            access = clock.draw().after(access, 0);
            if [100, 1000, 100_000].contains(&used) {
                at.push(clock.frequency(access, 0));
            }
        }
        assert!((8..=13).contains(&at[0]) && (15..=24).contains(&at[1]) && (125..=160).contains(&at[2]), "{at:?}");
        let mut fast = AccessClock { log_factor: 0, ..LFU };
        let access = (0..300).fold(fast.start(0), |access, _| fast.draw().after(access, 0));
        assert_eq!(255, fast.frequency(access, 0));
    }

    #[test]
    fn counts_fall_with_time_unless_they_are_told_not_to() {
        let access = LFU.start(0) + 20;
        let after = |clock: AccessClock, minutes: i64| clock.frequency(access, minutes * 60_000);
        assert_eq!([25, 24, 15, 0], [0, 1, 10, 1000].map(|minutes| after(LFU, minutes)));
        let slow = AccessClock { decay_minutes: 10, ..LFU };
        assert_eq!([25, 24, 0], [9, 10, 1000].map(|minutes| after(slow, minutes)));
        assert_eq!(25, after(AccessClock { decay_minutes: 0, ..LFU }, 1000));
    }
}
