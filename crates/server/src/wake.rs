//! How other threads, and other sessions, tell the event loop that a session's outbox has something in it.

use mio::Token;
use parking_lot::Mutex;
use peryton_core::session::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The sessions to look at, each once, however often it was woken.
#[derive(Default)]
struct Queued {
    tokens: Vec<Token>,
    /// By token: whether it is in `tokens`.
    is_queued: Vec<bool>,
}

/// The sessions to look at, shared by all wakers of one event loop.
pub struct WakeQueue {
    queued: Mutex<Queued>,
    /// Set while the loop holds the baton. Wakers run under the baton too, so whoever sees it set is the loop itself,
    /// which looks at the queue before it sleeps: no system call is needed.
    awake: AtomicBool,
    poll: mio::Waker,
}

impl WakeQueue {
    /// A queue that wakes its loop through `poll`.
    pub fn new(poll: mio::Waker) -> Self {
        WakeQueue { queued: Mutex::default(), awake: AtomicBool::new(false), poll }
    }

    /// The loop says whether it will look at the queue by itself.
    pub fn set_awake(&self, awake: bool) {
        self.awake.store(awake, Ordering::Relaxed);
    }

    /// Takes the queued tokens.
    pub fn take(&self) -> Vec<Token> {
        let queued = &mut *self.queued.lock();
        for token in &queued.tokens {
            queued.is_queued[token.0] = false;
        }
        std::mem::take(&mut queued.tokens)
    }

    /// Makes the loop run once, without naming a session.
    pub fn ring(&self) {
        // The only failure is a full counter, and then the loop is awake already.
        let _ = self.poll.wake();
    }

    fn push(&self, token: Token) {
        {
            let queued = &mut *self.queued.lock();
            if queued.is_queued.len() <= token.0 {
                queued.is_queued.resize(token.0 + 1, false);
            }
            if std::mem::replace(&mut queued.is_queued[token.0], true) {
                return;
            }
            queued.tokens.push(token);
        }
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
