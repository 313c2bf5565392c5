//! What the log's handles and its thread share: the queue of records, the numbers, the condition, who waits.

use super::Lsn;
use super::format::{self, GROUP_HEADER_BYTES};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// How the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It takes records.
    Fine,
    /// The disk has no room: writers must be refused. It becomes fine by itself.
    Full,
    /// A write or a sync failed: writers must be refused until the store is opened again.
    Failed,
}

/// Called by the log's thread when more is durable or the condition changed. It must be quick.
pub type Listener = Arc<dyn Fn() + Send + Sync>;

/// Buffers that are kept for later are not larger than this many groups.
const SPARE_GROUPS: usize = 2;
/// Buffers that are kept for later.
const SPARES_MAX: usize = 4;

/// Records that one write puts down, with room before them for the group's header.
pub struct Batch {
    /// Header and payload.
    pub bytes: Vec<u8>,
    /// LSN of the first record.
    pub first: Lsn,
    /// How many records.
    pub records: u32,
}

impl Batch {
    fn new(mut bytes: Vec<u8>, first: Lsn) -> Batch {
        bytes.clear();
        bytes.resize(GROUP_HEADER_BYTES, 0);
        Batch { bytes, first, records: 0 }
    }

    /// A group without records.
    pub fn empty(first: Lsn) -> Batch {
        Batch::new(Vec::new(), first)
    }

    /// LSN of the record after the last.
    pub fn next(&self) -> Lsn {
        self.first + Lsn::from(self.records)
    }
}

/// Behind the mutex: held for the time of encoding one record.
pub struct Queue {
    current: Batch,
    full: VecDeque<Batch>,
    spares: Vec<Vec<u8>>,
    /// LSN of the record that comes next.
    next: Lsn,
    bytes: usize,
    group_bytes: usize,
    /// The thread sleeps, and would sleep too long for the next record.
    pub wake_on_append: bool,
    /// The thread sleeps.
    pub asleep: bool,
    /// Nothing is taken any more: failed or closed.
    pub refuses: bool,
    /// The log is to end when all is durable.
    pub closing: bool,
    /// A segment is to begin with this record.
    pub rotate_at: Option<Lsn>,
}

impl Queue {
    /// Whether nothing waits to be written.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Whether so much is queued that it should be written.
    pub fn is_heavy(&self) -> bool {
        self.bytes >= self.group_bytes
    }

    /// LSN of the record that comes next.
    pub fn next(&self) -> Lsn {
        self.next
    }

    /// Ends the current group.
    pub fn seal(&mut self) {
        if self.current.records > 0 {
            let bytes = self.spares.pop().unwrap_or_default();
            let next = Batch::new(bytes, self.next);
            self.full.push_back(std::mem::replace(&mut self.current, next));
        }
    }

    /// Takes all that is queued.
    pub fn take(&mut self, into: &mut VecDeque<Batch>) {
        self.seal();
        into.append(&mut self.full);
        self.bytes = 0;
    }

    /// Gives a buffer back.
    pub fn recycle(&mut self, batch: Batch) {
        if self.spares.len() < SPARES_MAX && batch.bytes.capacity() <= SPARE_GROUPS * self.group_bytes {
            self.spares.push(batch.bytes);
        }
    }

    fn push(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let before = self.current.bytes.len();
        format::put_record(&mut self.current.bytes, encode);
        self.current.records += 1;
        self.next += 1;
        self.bytes += self.current.bytes.len() - before;
        if self.current.bytes.len() >= self.group_bytes {
            self.seal();
        }
    }
}

/// What handles and thread share.
pub struct Shared {
    pub queue: Mutex<Queue>,
    /// The thread sleeps on it.
    pub work: Condvar,
    /// As in the queue, to be seen without its mutex.
    asleep: AtomicBool,
    last: AtomicU64,
    durable: AtomicU64,
    wanted: AtomicU64,
    /// Queued, or taken and not yet written.
    queued_bytes: AtomicUsize,
    condition: AtomicU8,
    /// Nothing will become durable any more.
    settled: AtomicBool,
    refusal: Mutex<Option<String>>,
    waiters: Mutex<()>,
    progressed: Condvar,
    listeners: Mutex<Arc<Vec<(u64, Listener)>>>,
    listener_ids: AtomicU64,
    /// How often the thread went to sleep.
    #[cfg(test)]
    pub sleeps: AtomicU64,
}

impl Shared {
    /// For a log that goes on with the record `next`.
    pub fn new(next: Lsn, group_bytes: usize) -> Shared {
        let queue = Queue {
            current: Batch::new(Vec::new(), next),
            full: VecDeque::new(),
            spares: Vec::new(),
            next,
            bytes: 0,
            group_bytes,
            wake_on_append: false,
            asleep: false,
            refuses: false,
            closing: false,
            rotate_at: None,
        };
        Shared {
            queue: Mutex::new(queue),
            work: Condvar::new(),
            asleep: AtomicBool::new(false),
            last: AtomicU64::new(next - 1),
            durable: AtomicU64::new(next - 1),
            wanted: AtomicU64::new(0),
            queued_bytes: AtomicUsize::new(0),
            condition: AtomicU8::new(Condition::Fine as u8),
            settled: AtomicBool::new(false),
            refusal: Mutex::new(None),
            waiters: Mutex::new(()),
            progressed: Condvar::new(),
            listeners: Mutex::new(Arc::new(Vec::new())),
            listener_ids: AtomicU64::new(0),
            #[cfg(test)]
            sleeps: AtomicU64::new(0),
        }
    }

    pub fn append(&self, encode: impl FnOnce(&mut Vec<u8>)) -> Lsn {
        let mut queue = self.queue.lock();
        let lsn = queue.next;
        if queue.refuses {
            // The number is not taken: `last` stays what it was, and whoever waits for this record gets the error.
            return lsn;
        }
        let before = queue.bytes;
        queue.push(encode);
        self.last.store(lsn, Ordering::Release);
        self.queued_bytes.fetch_add(queue.bytes - before, Ordering::Relaxed);
        if queue.wake_on_append || (queue.asleep && queue.is_heavy()) {
            self.wake(&mut queue);
        }
        lsn
    }

    /// Wakes the thread, once.
    pub fn wake(&self, queue: &mut Queue) {
        if queue.asleep {
            self.note_sleep(queue, false, false);
            self.work.notify_one();
        }
    }

    /// Notes whether the thread sleeps, and whether the next record must wake it.
    pub fn note_sleep(&self, queue: &mut Queue, asleep: bool, wake_on_append: bool) {
        queue.asleep = asleep;
        queue.wake_on_append = wake_on_append;
        self.asleep.store(asleep, Ordering::SeqCst);
    }

    pub fn want(&self, lsn: Lsn) {
        if self.durable() >= lsn {
            return;
        }
        self.wanted.fetch_max(lsn, Ordering::SeqCst);
        // The thread notes that it sleeps before it looks at `wanted` for the last time: one of us sees the other.
        if self.asleep.load(Ordering::SeqCst) {
            self.wake(&mut self.queue.lock());
        }
    }

    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst).min(self.last()) > self.durable()
    }

    pub fn last(&self) -> Lsn {
        self.last.load(Ordering::Acquire)
    }

    pub fn durable(&self) -> Lsn {
        self.durable.load(Ordering::Acquire)
    }

    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes.load(Ordering::Relaxed)
    }

    pub fn note_written(&self, bytes: usize) {
        self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub fn note_nothing_queued(&self) {
        self.queued_bytes.store(0, Ordering::Relaxed);
    }

    pub fn condition(&self) -> Condition {
        match self.condition.load(Ordering::Relaxed) {
            0 => Condition::Fine,
            1 => Condition::Full,
            _ => Condition::Failed,
        }
    }

    pub fn set_condition(&self, condition: Condition, refusal: Option<String>) {
        *self.refusal.lock() = refusal;
        if self.condition.swap(condition as u8, Ordering::Relaxed) != condition as u8 {
            self.tell();
        }
    }

    pub fn refusal(&self) -> Option<String> {
        self.refusal.lock().clone()
    }

    pub fn set_durable(&self, lsn: Lsn) {
        self.durable.store(lsn, Ordering::Release);
        self.tell();
    }

    /// Whether nothing will become durable any more.
    pub fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    pub fn settle(&self) {
        self.settled.store(true, Ordering::Release);
        self.tell();
    }

    /// Sleeps until there is news after `judge` said that there is none, or the time is over. Gives what `judge` says.
    pub fn sleep_until<T>(&self, deadline: Option<std::time::Instant>, judge: impl Fn() -> Option<T>) -> Option<T> {
        let mut waiters = self.waiters.lock();
        loop {
            if let Some(verdict) = judge() {
                return Some(verdict);
            }
            match deadline {
                None => self.progressed.wait(&mut waiters),
                Some(deadline) if self.progressed.wait_until(&mut waiters, deadline).timed_out() => return judge(),
                Some(_) => {}
            }
        }
    }

    pub fn listen(&self, listener: Listener) -> u64 {
        let id = self.listener_ids.fetch_add(1, Ordering::Relaxed);
        Arc::make_mut(&mut *self.listeners.lock()).push((id, listener));
        id
    }

    pub fn forget(&self, id: u64) {
        Arc::make_mut(&mut *self.listeners.lock()).retain(|(other, _)| *other != id);
    }

    /// Tells all who wait that there is news.
    fn tell(&self) {
        // Between a waiter's look and its sleep it holds this mutex, so it cannot miss us.
        drop(self.waiters.lock());
        self.progressed.notify_all();
        let listeners = self.listeners.lock().clone();
        for (_, listener) in listeners.iter() {
            // A bug of a listener, which the hook has reported, is no failure of the log.
            let _ = catch_unwind(AssertUnwindSafe(|| listener()));
        }
    }
}
