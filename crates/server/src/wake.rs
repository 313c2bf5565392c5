//! How other threads, and other sessions, tell the event loop that a session's outbox has something in it.

use mio::Token;
use parking_lot::Mutex;
use peryton_core::session::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The sessions to look at, shared by all wakers of one event loop.
pub struct WakeQueue {
    tokens: Mutex<Vec<Token>>,
    /// Set while the loop holds the baton. Wakers run under the baton too, so whoever sees it set is the loop itself,
    /// which looks at the queue before it sleeps: no system call is needed.
    awake: AtomicBool,
    poll: mio::Waker,
}

impl WakeQueue {
    /// A queue that wakes its loop through `poll`.
    pub fn new(poll: mio::Waker) -> Self {
        WakeQueue { tokens: Mutex::new(Vec::new()), awake: AtomicBool::new(false), poll }
    }

    /// The loop says whether it will look at the queue by itself.
    pub fn set_awake(&self, awake: bool) {
        self.awake.store(awake, Ordering::Relaxed);
    }

    /// Takes the queued tokens.
    pub fn take(&self) -> Vec<Token> {
        std::mem::take(&mut self.tokens.lock())
    }

    /// Makes the loop run once, without naming a session.
    pub fn ring(&self) {
        // The only failure is a full counter, and then the loop is awake already.
        let _ = self.poll.wake();
    }

    fn push(&self, token: Token) {
        self.tokens.lock().push(token);
        if !self.awake.load(Ordering::Relaxed) {
            self.ring();
        }
    }
}

/// The waker of one connection's session.
pub struct ConnectionWaker {
    /// The connection.
    pub token: Token,
    /// Its loop's queue.
    pub queue: Arc<WakeQueue>,
}

impl Waker for ConnectionWaker {
    fn wake(&self) {
        self.queue.push(self.token);
    }
}
