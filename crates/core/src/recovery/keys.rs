//! The keys of a checkpoint on their way from whoever saves them, under the baton, to the thread that writes them.
//!
//! Whoever has the baton anyway may save the next few: another thread that came for it would need a processor, and make
//! those who serve wait for both. The lock is never waited for by them, as the thread that writes goes last.

use crate::keyspace::Keyspace;
use crate::keyspace::saving::{Batch, Pass};
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A server saves no more while so much waits to be taken, bytes.
const WAITING_MAX: usize = 2 << 20;

/// The keys of one checkpoint.
pub struct Keys {
    inner: Mutex<Inner>,
    /// Bytes that were saved and not taken yet.
    waiting: AtomicUsize,
    /// When a server last saved some, on the store's steady clock, nanoseconds.
    served_ns: AtomicU64,
}

struct Inner {
    /// None: all are saved, or it was given up.
    pass: Option<Pass>,
    /// Not all are saved, through some bug.
    is_broken: bool,
    saved: Vec<Batch>,
}

impl Keys {
    pub(super) fn new(pass: Pass) -> Keys {
        let inner = Inner { pass: Some(pass), is_broken: false, saved: Vec::new() };
        Keys { inner: Mutex::new(inner), waiting: AtomicUsize::new(0), served_ns: AtomicU64::new(0) }
    }

    /// Saves some: `budget` is in bytes, and 64 for each key looked at; under the baton. True: there are more.
    pub fn slice(&self, keyspace: &mut Keyspace, budget: usize) -> bool {
        self.slice_in(&mut self.inner.lock(), keyspace, budget)
    }

    /// As [`slice`](Self::slice), for a server that has the baton for other things, at `now_ns` on the store's steady clock;
    /// but not while much waits to be taken, or when it is being taken. A panic gives the checkpoint up (invariant 12).
    pub fn try_slice(&self, keyspace: &mut Keyspace, budget: usize, now_ns: u64) -> bool {
        self.served_ns.store(now_ns, Ordering::Relaxed);
        if self.waiting_bytes() > WAITING_MAX {
            return true;
        }
        let Some(mut inner) = self.inner.try_lock() else { return true };
        let slice = AssertUnwindSafe(|| self.slice_in(&mut inner, keyspace, budget));
        catch_unwind(slice).unwrap_or_else(|_| {
            inner.is_broken = true;
            inner.pass.take().into_iter().for_each(|pass| pass.abort(keyspace));
            false
        })
    }

    fn slice_in(&self, inner: &mut Inner, keyspace: &mut Keyspace, budget: usize) -> bool {
        let Some(pass) = &mut inner.pass else { return false };
        let more = pass.slice(keyspace, budget);
        let mut output = pass.take_output();
        if !more {
            inner.is_broken = pass.is_broken();
            inner.pass = None;
        }
        let bytes = output.iter().map(|batch| batch.bytes.len()).sum();
        inner.saved.append(&mut output);
        self.waiting.fetch_add(bytes, Ordering::Relaxed);
        more
    }

    /// Bytes that were saved and not taken yet.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// When a server last saved some, on the store's steady clock, nanoseconds; 0: never.
    pub fn served_ns(&self) -> u64 {
        self.served_ns.load(Ordering::Relaxed)
    }

    /// Are there some to be saved?
    pub fn has_more(&self) -> bool {
        self.inner.lock().pass.is_some()
    }

    /// Were not all of them saved, through some bug?
    pub(super) fn is_broken(&self) -> bool {
        self.inner.lock().is_broken
    }

    /// What was saved since this was last asked.
    pub(super) fn take(&self) -> Vec<Batch> {
        let saved = std::mem::take(&mut self.inner.lock().saved);
        self.waiting.fetch_sub(saved.iter().map(|batch| batch.bytes.len()).sum(), Ordering::Relaxed);
        saved
    }

    /// Saves no more; under the baton.
    pub(super) fn abort(&self, keyspace: &mut Keyspace) {
        if let Some(pass) = self.inner.lock().pass.take() {
            pass.abort(keyspace);
        }
    }
}
