//! How a call is ended from outside: its session's wait is over, its time is up, or the store closes.

use super::pool::Pool;
use peryton_core::error::{Code, Error};
use peryton_core::session::Elsewhere;
use std::sync::Weak;
use std::sync::atomic::{AtomicU8, Ordering};

/// How the message begins when a call is refused or ended because the store closes (SQLSTATE: admin shutdown).
pub const CLOSING: &str = "57P01";

/// Why a call is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Why {
    /// CANCEL, CLIENT KILL, or the client is gone.
    Cancelled = 1,
    /// It took too long.
    TooLong = 2,
    /// The store closes.
    Closing = 3,
}

/// Ends one call. Never waits, so whoever has the baton may use it.
pub struct Ticket {
    ended: AtomicU8,
    pool: Weak<Pool>,
}

impl Ticket {
    /// For a call in this pool.
    pub fn new(pool: Weak<Pool>) -> Ticket {
        Ticket { ended: AtomicU8::new(0), pool }
    }

    /// Has it end; the first reason is the one that is told.
    pub fn end(&self, why: Why) {
        let _ = self.ended.compare_exchange(0, why as u8, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Is it to end?
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire) != 0
    }

    /// The reply to a call that was ended; None if it was not.
    pub fn error(&self, what: &str, has_begun: bool) -> Option<Error> {
        let undone = if has_begun { "was stopped, and what it did is undone" } else { "did not begin" };
        let text = match self.ended.load(Ordering::Acquire) {
            0 => return None,
            why if why == Why::Cancelled as u8 => format!("57014 {what} was cancelled: it {undone}"),
            why if why == Why::TooLong as u8 => format!("57014 {what} took too long (python-time-limit): it {undone}"),
            _ => format!("{CLOSING} the store is closing: {what} {undone}"),
        };
        Some(Error::new(Code::Cancelled, text))
    }
}

impl Elsewhere for Ticket {
    fn cancel(&self) {
        self.end(Why::Cancelled);
        if let Some(pool) = self.pool.upgrade() {
            pool.look();
        }
    }
}
