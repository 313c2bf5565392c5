//! How a log works: sizes and times, which tests make small.

use std::time::Duration;

/// Sizes and times of a log.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// A segment that has reached this size is followed by the next, bytes.
    pub segment_bytes: u64,
    /// Room on the disk that is held ready for what may yet be appended, bytes. Without it writers are refused.
    pub head_room_bytes: u64,
    /// Room is reserved in steps of this size, bytes.
    pub reserve_step_bytes: u64,
    /// Queued bytes that are written at once; more than this is not put into one group, unless by one record.
    pub group_bytes: usize,
    /// Written bytes that are synced at once. They are kept until then, in case the sync fails.
    pub unsynced_bytes: usize,
    /// A record is written after this time though nobody wants it durable soon.
    pub write_delay: Duration,
    /// A record is synced after this time though nobody wants it durable soon: the promise `interval`.
    pub sync_interval: Duration,
    /// How often a full disk is asked whether there is room.
    pub retry: Duration,
    /// Zeros are written this far ahead of small groups that somebody waits for: syncing what overwrites them is cheaper
    /// than syncing what fills reserved room. 0 for never.
    pub zeros_ahead_bytes: usize,
}

impl Default for LogSettings {
    fn default() -> Self {
        LogSettings {
            segment_bytes: 64 << 20,
            head_room_bytes: 16 << 20,
            reserve_step_bytes: 4 << 20,
            group_bytes: 1 << 20,
            unsynced_bytes: 16 << 20,
            write_delay: Duration::from_millis(10),
            sync_interval: Duration::from_secs(1),
            retry: Duration::from_millis(100),
            zeros_ahead_bytes: 256 << 10,
        }
    }
}
