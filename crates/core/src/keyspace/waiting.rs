//! Sessions that wait for keys (BLPOP and its kin): who waits for which key, in order of arrival, and which keys are
//! ready to be tried.

use super::place::{OwnedPlace, Place};
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeMap;

/// Names a session for its life; never used twice by one store.
pub type SessionId = u64;

/// Waiting sessions by key.
#[derive(Default)]
pub struct Waiting {
    keys: HashMap<OwnedPlace, Queue>,
    ready: Vec<OwnedPlace>,
    /// What is in `ready`, so that a key is there once.
    is_ready: HashSet<OwnedPlace>,
    /// The number of the last arrival.
    arrivals: u64,
}

/// Those who wait for one key. Both maps hold the same sessions, so that coming and going cost no walk.
#[derive(Default)]
struct Queue {
    by_arrival: BTreeMap<u64, SessionId>,
    arrival: HashMap<SessionId, u64>,
}

impl Waiting {
    /// A session begins to wait for keys.
    pub fn wait(&mut self, session: SessionId, db: usize, keys: &[Box<[u8]>]) {
        self.arrivals += 1;
        for key in keys {
            let queue = self.keys.entry((db, key.clone())).or_default();
            // A key named twice in one command waits once.
            if queue.arrival.insert(session, self.arrivals).is_none() {
                queue.by_arrival.insert(self.arrivals, session);
            }
        }
    }

    /// A session stops waiting.
    pub fn leave(&mut self, session: SessionId, db: usize, keys: &[Box<[u8]>]) {
        for key in keys {
            let Some(queue) = self.keys.get_mut(&Place(db, key)) else { continue };
            if let Some(arrival) = queue.arrival.remove(&session) {
                queue.by_arrival.remove(&arrival);
            }
            if queue.arrival.is_empty() {
                self.keys.remove(&Place(db, key));
            }
        }
    }

    /// A key may have something to take now.
    #[inline]
    pub fn signal(&mut self, db: usize, key: &[u8]) {
        if !self.keys.is_empty() {
            self.signal_waited(db, key);
        }
    }

    #[cold]
    fn signal_waited(&mut self, db: usize, key: &[u8]) {
        if self.keys.contains_key(&Place(db, key)) && !self.is_ready.contains(&Place(db, key)) {
            self.is_ready.insert((db, key.into()));
            self.ready.push((db, key.into()));
        }
    }

    /// Every key of a database that somebody waits for may be ready (after SWAPDB).
    pub fn signal_database(&mut self, db: usize) {
        let names: Vec<_> = self.keys.keys().filter(|(in_db, _)| *in_db == db).cloned().collect();
        for (db, key) in names {
            self.signal_waited(db, &key);
        }
    }

    /// True when some key is to be tried.
    #[inline]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes the keys to be tried, in the order in which they became ready.
    pub fn take_ready(&mut self) -> Vec<OwnedPlace> {
        self.is_ready.clear();
        std::mem::take(&mut self.ready)
    }

    /// The sessions waiting for a key, the longest-waiting first.
    pub fn sessions(&self, db: usize, key: &[u8]) -> Vec<SessionId> {
        self.keys.get(&Place(db, key)).map(|queue| queue.by_arrival.values().copied().collect()).unwrap_or_default()
    }

    /// Number of keys waited for.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }
}
