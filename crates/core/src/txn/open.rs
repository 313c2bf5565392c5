//! The transactions that are open, and the clock that they share.

use super::commit::Claims;
use crate::keyspace::Keyspace;
use crate::keyspace::waiting::SessionId;
use crate::limits;
use std::collections::BTreeMap;

/// Open transactions.
pub struct Transactions {
    /// Grows with each BEGIN and COMMIT.
    clock: u64,
    /// Their sessions, the oldest transaction first.
    open: BTreeMap<u64, SessionId>,
    /// Rows that transactions wrote while others were open.
    pub claims: Claims,
    /// Counters for INFO.
    pub stats: TransactionStats,
}

/// Counters of transactions.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransactionStats {
    /// Ended by COMMIT.
    pub committed: u64,
    /// Ended by ROLLBACK, or with their sessions.
    pub rolled_back: u64,
    /// Refused at COMMIT because others were first.
    pub conflicts: u64,
    /// Ended from outside: idle for too long, or too old.
    pub expired: u64,
}

impl Default for Transactions {
    fn default() -> Self {
        let claims = Claims::new(limits::TRACKED_CHANGES_MAX);
        Transactions { clock: 0, open: BTreeMap::new(), claims, stats: TransactionStats::default() }
    }
}

impl Transactions {
    /// How many are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Is none open?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Their sessions, the oldest transaction first.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.open.values().copied()
    }

    /// A transaction begins; gives the time of it. What changes from now on is remembered.
    pub fn begin(&mut self, session: SessionId, keyspace: &mut Keyspace) -> u64 {
        self.clock += 1;
        self.open.insert(self.clock, session);
        keyspace.shared.watches.track(self.clock);
        self.clock
    }

    /// A transaction ends. With the last one goes what is remembered.
    pub fn end(&mut self, began: u64, keyspace: &mut Keyspace) {
        self.open.remove(&began);
        if self.open.is_empty() {
            self.claims.clear();
            keyspace.shared.watches.stop_tracking();
        }
    }

    /// The time now.
    pub fn now(&self) -> u64 {
        self.clock
    }
}
