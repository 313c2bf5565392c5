//! The slow log: the last requests that took longer than a set time.

use std::collections::VecDeque;

/// One slow request.
#[derive(Clone, Debug)]
pub struct SlowEntry {
    /// Its number; grows by one.
    pub id: u64,
    /// When it ran, seconds since 1970.
    pub time_s: i64,
    /// How long it took, microseconds.
    pub duration_us: u64,
    /// Its arguments, shortened.
    pub arguments: Vec<Vec<u8>>,
    /// The client's address.
    pub address: String,
    /// The client's name.
    pub name: Vec<u8>,
}

/// The slow log, newest first.
#[derive(Default)]
pub struct SlowLog {
    entries: VecDeque<SlowEntry>,
    next_id: u64,
}

/// Most arguments kept of one request, and most bytes of one argument (Redis 7).
const ARGUMENTS_KEPT: usize = 32;
const ARGUMENT_BYTES_KEPT: usize = 128;

impl SlowLog {
    /// Notes a request, dropping the oldest beyond `max_len`.
    pub fn add(&mut self, mut entry: SlowEntry, max_len: usize) {
        entry.id = self.next_id;
        self.next_id += 1;
        self.entries.push_front(entry);
        self.entries.truncate(max_len);
    }

    /// Up to `count` entries, newest first.
    pub fn newest(&self, count: usize) -> impl Iterator<Item = &SlowEntry> {
        self.entries.iter().take(count)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets all entries; numbers go on.
    pub fn reset(&mut self) {
        self.entries.clear();
    }
}

/// The arguments of a request as the slow log keeps them (Redis 7: 32 arguments of 128 bytes, and what was cut).
pub fn shorten(args: &[impl AsRef<[u8]>]) -> Vec<Vec<u8>> {
    let cut = args.len() > ARGUMENTS_KEPT;
    let kept = if cut { ARGUMENTS_KEPT - 1 } else { args.len() };
    let mut arguments: Vec<Vec<u8>> = args[..kept].iter().map(|arg| shorten_one(arg.as_ref())).collect();
    if cut {
        arguments.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    arguments
}

fn shorten_one(arg: &[u8]) -> Vec<u8> {
    if arg.len() <= ARGUMENT_BYTES_KEPT {
        return arg.to_vec();
    }
    let mut text = arg[..ARGUMENT_BYTES_KEPT].to_vec();
    text.extend_from_slice(format!("... ({} more bytes)", arg.len() - ARGUMENT_BYTES_KEPT).as_bytes());
    text
}
