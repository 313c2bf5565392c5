//! The handle of a log: what the store and the doors see of it.

use super::queue::{Condition, Listener, Shared};
use super::writer::Writer;
use super::{LogSettings, Lsn, StoreId};
use crate::env::Files;
use crate::limits;
use parking_lot::Mutex;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often is looked whether waiting still makes sense.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Why a record is not durable and will not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogError(String);

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LogError {}

/// A log that is being written. A clone is another handle of the same log; the last one closes it.
#[derive(Clone)]
pub struct Log {
    shared: Arc<Shared>,
    owner: Arc<Owner>,
}

/// Ends the thread.
struct Owner {
    shared: Arc<Shared>,
    segments: Arc<Segments>,
    thread: Mutex<Option<JoinHandle<()>>>,
    process: u32,
}

/// The segments there are, the oldest first; the last is the one that is written.
pub(super) struct Segments {
    pub(super) files: Arc<dyn Files>,
    pub(super) list: Mutex<Vec<SegmentSize>>,
    /// Records before this one are needed no more.
    needed_from: AtomicU64,
}

pub(super) struct SegmentSize {
    pub(super) first: Lsn,
    pub(super) name: String,
    pub(super) bytes: u64,
}

impl Log {
    /// Begins a segment with the record `next`; those that are there stay as they are.
    ///
    /// Whoever recovered must have [settled](super::settle) what was read. A full disk is no error: the log is then
    /// [`Condition::Full`] until there is room.
    ///
    /// # Errors
    /// The segment cannot be made, or there is one with records from `next` on.
    pub fn open(files: Arc<dyn Files>, id: StoreId, next: Lsn, settings: LogSettings) -> io::Result<Log> {
        let (log, writer) = Log::without_thread(files, id, next, settings)?;
        let thread = std::thread::Builder::new().name("peryton-log".into()).spawn(move || writer.run())?;
        *log.owner.thread.lock() = Some(thread);
        Ok(log)
    }

    /// How often the thread went to sleep.
    #[cfg(test)]
    pub(super) fn sleeps(&self) -> u64 {
        self.shared.sleeps.load(Ordering::Relaxed)
    }

    /// The log, and what its thread would do, for tests that do it themselves.
    pub(super) fn without_thread(
        files: Arc<dyn Files>,
        id: StoreId,
        next: Lsn,
        settings: LogSettings,
    ) -> io::Result<(Log, Writer)> {
        let shared = Arc::new(Shared::new(next, settings.group_bytes));
        let segments = Arc::new(Segments { files, list: Mutex::new(Vec::new()), needed_from: AtomicU64::new(0) });
        let writer = Writer::open(shared.clone(), segments.clone(), id, next, settings)?;
        let owner = Owner { shared: shared.clone(), segments, thread: Mutex::new(None), process: std::process::id() };
        Ok((Log { shared, owner: Arc::new(owner) }, writer))
    }

    /// Queues a record, whose bytes `encode` appends to what it is given, and gives its number. Never waits for the disk.
    ///
    /// After a failure the record is dropped: the number given is not counted in [`last`](Self::last), and waiting for it
    /// gives the error.
    pub fn append(&self, encode: impl FnOnce(&mut Vec<u8>)) -> Lsn {
        self.shared.append(encode)
    }

    /// The last record that was appended.
    pub fn last(&self) -> Lsn {
        self.shared.last()
    }

    /// All records up to this one are durable.
    pub fn durable(&self) -> Lsn {
        self.shared.durable()
    }

    /// Has the log write and sync soon: somebody waits for this record.
    pub fn want(&self, lsn: Lsn) {
        self.shared.want(lsn);
    }

    /// Whether a record is durable, or will never be; `None` while it may yet become so.
    pub fn poll(&self, lsn: Lsn) -> Option<Result<(), LogError>> {
        // First this: what is durable when all is settled stays so.
        let settled = self.shared.is_settled();
        if self.durable() >= lsn {
            return Some(Ok(()));
        }
        settled.then(|| Err(LogError(self.refusal().unwrap_or_else(|| "the log is closed".into()))))
    }

    /// Waits until a record is durable. Not under the baton.
    ///
    /// # Errors
    /// The log failed, and the record is not durable.
    pub fn wait(&self, lsn: Lsn) -> Result<(), LogError> {
        self.want(lsn);
        if let Some(verdict) = self.poll(lsn) {
            return verdict;
        }
        self.shared.sleep_until(None, || self.poll(lsn)).expect("there is no deadline")
    }

    /// As [`wait`](Self::wait), but no longer than this; gives whether the record is durable.
    ///
    /// # Errors
    /// As of `wait`.
    pub fn wait_for(&self, lsn: Lsn, time: Duration) -> Result<bool, LogError> {
        self.want(lsn);
        if let Some(verdict) = self.poll(lsn) {
            return verdict.map(|()| true);
        }
        let verdict = self.shared.sleep_until(Some(Instant::now() + time), || self.poll(lsn));
        verdict.map_or(Ok(false), |verdict| verdict.map(|()| true))
    }

    /// Has the log's thread call `listener` whenever more is durable or the condition changed. Gives what
    /// [`forget`](Self::forget) takes.
    pub fn on_progress(&self, listener: Listener) -> u64 {
        self.shared.listen(listener)
    }

    /// Calls a listener no more, but for a call that has begun.
    pub fn forget(&self, listener: u64) {
        self.shared.forget(listener);
    }

    /// How the log is.
    pub fn condition(&self) -> Condition {
        self.shared.condition()
    }

    /// Why writers must be refused, in words.
    pub fn refusal(&self) -> Option<String> {
        self.shared.refusal()
    }

    /// Bytes that are not written yet.
    pub fn queued_bytes(&self) -> usize {
        self.shared.queued_bytes()
    }

    /// Whether so much is not written yet that whoever asks for more should wait. Not when the disk is full or has
    /// failed: then nothing is written that could add to it, and who reads must not wait for what may never come.
    #[inline]
    pub fn is_behind(&self) -> bool {
        self.queued_bytes() > limits::LOG_QUEUE_BYTES_MAX && self.condition() == Condition::Fine
    }

    /// As [`wait`](Self::wait), but gives up while the disk is full; gives whether the record is durable.
    ///
    /// # Errors
    /// As of `wait`.
    pub fn wait_unless_full(&self, lsn: Lsn) -> Result<bool, LogError> {
        loop {
            if self.wait_for(lsn, LOOK_EVERY)? {
                return Ok(true);
            }
            if self.condition() == Condition::Full {
                return Ok(false);
            }
        }
    }

    /// Begins a segment with the next record, so that those before it can be removed. Gives that record's number. The
    /// segment is made by the log's thread, when all before it is durable and the disk has room.
    pub fn rotate(&self) -> Lsn {
        let mut queue = self.shared.queue.lock();
        queue.seal();
        let next = queue.next();
        if !queue.refuses {
            queue.rotate_at = Some(next);
            self.shared.wake(&mut queue);
        }
        next
    }

    /// Records before `lsn` are needed no more: removes the segments that hold no others. Not under the baton.
    ///
    /// # Errors
    /// As of [`tidy`](Self::tidy), which can be tried again.
    pub fn remove_before(&self, lsn: Lsn) -> io::Result<()> {
        self.owner.segments.needed_from.fetch_max(lsn, Ordering::Relaxed);
        self.tidy()
    }

    /// Removes the segments that hold no record that is needed. The one that is written stays, so there may be one more
    /// to remove when the next has begun. Not under the baton.
    ///
    /// # Errors
    /// A file cannot be removed; those before it are.
    pub fn tidy(&self) -> io::Result<()> {
        let segments = &self.owner.segments;
        loop {
            let Some(name) = segments.superfluous() else { return Ok(()) };
            match segments.files.remove(&name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => segments.list.lock().retain(|segment| segment.name != name),
            }
        }
    }

    /// Whether [`tidy`](Self::tidy) has something to do.
    pub fn is_untidy(&self) -> bool {
        self.owner.segments.superfluous().is_some()
    }

    /// Bytes of all segments.
    pub fn size_bytes(&self) -> u64 {
        self.owner.segments.list.lock().iter().map(|segment| segment.bytes).sum()
    }

    /// Bytes of the segments that hold only records that are needed.
    pub fn needed_bytes(&self) -> u64 {
        let needed_from = self.owner.segments.needed_from.load(Ordering::Relaxed);
        let list = self.owner.segments.list.lock();
        list.iter().filter(|segment| segment.first >= needed_from).map(|segment| segment.bytes).sum()
    }

    /// Writes and syncs everything, and ends the log.
    ///
    /// # Errors
    /// Something is not durable.
    pub fn close(&self) -> Result<(), LogError> {
        self.owner.close();
        self.poll(self.last()).unwrap_or_else(|| Err(LogError("the log is still closing".into())))
    }
}

impl Segments {
    /// The oldest segment, if it holds nothing that is needed.
    fn superfluous(&self) -> Option<String> {
        let needed_from = self.needed_from.load(Ordering::Relaxed);
        match self.list.lock().as_slice() {
            [oldest, next, ..] if next.first <= needed_from => Some(oldest.name.clone()),
            _ => None,
        }
    }
}

impl Owner {
    fn close(&self) {
        // A forked child has no such thread, and what is queued is its parent's to write.
        if self.process != std::process::id() {
            return;
        }
        {
            let mut queue = self.shared.queue.lock();
            queue.closing = true;
            self.shared.wake(&mut queue);
        }
        let mut thread = self.thread.lock();
        // The thread itself comes here if a listener holds the last handle: it ends after that.
        if thread.as_ref().is_some_and(|thread| thread.thread().id() != std::thread::current().id())
            && let Some(thread) = thread.take()
        {
            // A panic was caught and told as a failure of the log.
            let _ = thread.join();
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.close();
    }
}
