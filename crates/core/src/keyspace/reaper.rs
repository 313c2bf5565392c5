//! Frees big values and whole databases away from the baton (principle: nothing under the baton takes long).

use super::entry::{Entry, ValueRef};
use super::saving::Taken;
use crate::memory;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};

/// A thread that drops what it is given; started when it is first needed.
#[derive(Default)]
pub struct Reaper {
    sender: Option<Sender<Garbage>>,
    pending: Arc<Pending>,
    /// Memory is short: see [`Reaper::free_entry`].
    pub hurried: bool,
}

/// What is to be dropped, and its bytes if they are known.
struct Garbage {
    content: Box<dyn Any + Send>,
    bytes: Option<u64>,
}

/// What waits to be dropped.
#[derive(Default)]
struct Pending {
    bytes: AtomicU64,
    /// Things whose bytes are not known, such as whole databases.
    unmeasured: AtomicU64,
    things: AtomicU64,
    dropped: AtomicU64,
}

impl Pending {
    fn begin(&self, garbage: &Garbage) {
        self.bytes.fetch_add(garbage.bytes.unwrap_or(0), Ordering::AcqRel);
        self.unmeasured.fetch_add(u64::from(garbage.bytes.is_none()), Ordering::AcqRel);
        self.things.fetch_add(1, Ordering::AcqRel);
    }

    fn end(&self, garbage: Garbage) {
        let bytes = garbage.bytes;
        drop(garbage.content);
        // Else the thread that allocates next would do it, which may be the one with the baton.
        if bytes.is_some_and(|bytes| bytes >= GIVE_BACK_BYTES) {
            memory::give_back();
        }
        self.bytes.fetch_sub(bytes.unwrap_or(0), Ordering::AcqRel);
        self.unmeasured.fetch_sub(u64::from(bytes.is_none()), Ordering::AcqRel);
        self.things.fetch_sub(1, Ordering::AcqRel);
        self.dropped.fetch_add(1, Ordering::AcqRel);
    }
}

/// The memory of a value that was larger is given back to the system at once, bytes.
const GIVE_BACK_BYTES: u64 = 32 << 20;

/// Counts bytes among those that wait to be dropped.
#[derive(Clone)]
pub struct Counter(Arc<Pending>);

/// So many bytes, counted until this is dropped.
pub struct Counted {
    bytes: u64,
    pending: Arc<Pending>,
}

impl Counter {
    /// Counts so many bytes.
    pub fn count(&self, bytes: usize) -> Counted {
        self.0.bytes.fetch_add(bytes as u64, Ordering::AcqRel);
        Counted { bytes: bytes as u64, pending: self.0.clone() }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.pending.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// Who frees many values in a row leaves no more than this to the thread, bytes.
const BACKLOG_BYTES: u64 = 64 << 20;

impl Reaper {
    /// Drops `content` soon, on another thread; here and now if there can be none.
    pub fn free(&mut self, content: impl Any + Send) {
        self.send(Garbage { content: Box::new(content), bytes: None });
    }

    /// Drops an entry: a small one here and now, and a big one, too, when there is a hurry and the thread lags behind.
    pub fn free_entry(&mut self, entry: Entry) {
        let bytes = match entry.as_ref().value() {
            ValueRef::Value(value) if value.is_big() => value.memory() as u64,
            _ => return,
        };
        if !self.hurried || self.pending_bytes() < BACKLOG_BYTES {
            self.send(Garbage { content: Box::new(entry), bytes: Some(bytes) });
        }
    }

    /// [`Reaper::free_entry`] for one that has left its database. What is being saved goes to the pass first.
    pub fn free_taken(&mut self, taken: Option<Taken>) {
        if let Some(entry) = taken.and_then(Taken::release) {
            self.free_entry(entry);
        }
    }

    /// Drops soon what is counted already.
    pub fn free_counted(&mut self, content: impl Any + Send) {
        self.send(Garbage { content: Box::new(content), bytes: Some(0) });
    }

    /// Counts what will come here later.
    pub fn counter(&self) -> Counter {
        Counter(self.pending.clone())
    }

    fn send(&mut self, garbage: Garbage) {
        let sender = self.sender.get_or_insert_with(|| {
            let (sender, receiver) = channel::<Garbage>();
            let pending = self.pending.clone();
            // Without a thread the receiver is gone, and sending gives the garbage back.
            let builder = std::thread::Builder::new().name("peryton-reaper".into());
            let _ = builder.spawn(move || receiver.into_iter().for_each(|garbage| pending.end(garbage)));
            sender
        });
        self.pending.begin(&garbage);
        if let Err(unsent) = sender.send(garbage) {
            self.pending.end(unsent.0);
        }
    }

    /// Bytes of values that will be free in a moment, and are used until then.
    pub fn pending_bytes(&self) -> u64 {
        self.pending.bytes.load(Ordering::Acquire)
    }

    /// Is something being dropped that may be large, nobody knows how much?
    pub fn is_dropping_unmeasured(&self) -> bool {
        self.pending.unmeasured.load(Ordering::Acquire) > 0
    }

    /// Things that wait to be dropped, and those that were.
    pub fn counts(&self) -> (u64, u64) {
        (self.pending.things.load(Ordering::Acquire), self.pending.dropped.load(Ordering::Acquire))
    }
}
