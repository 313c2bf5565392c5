//! Sessions that wait for keys (BLPOP and its kin): who waits for which key, in order of arrival, and which keys are
//! ready to be tried.

use std::collections::{HashMap, HashSet, VecDeque};

/// Names a session for its life; never used twice by one store.
pub type SessionId = u64;

/// Waiting sessions by key.
#[derive(Default)]
pub struct Waiting {
    keys: HashMap<(usize, Box<[u8]>), VecDeque<SessionId>>,
    ready: Vec<(usize, Box<[u8]>)>,
    /// What is in `ready`, so that a key is there once.
    is_ready: HashSet<(usize, Box<[u8]>)>,
}

impl Waiting {
    /// A session begins to wait for keys.
    pub fn wait(&mut self, session: SessionId, db: usize, keys: &[Box<[u8]>]) {
        for key in keys {
            let queue = self.keys.entry((db, key.clone())).or_default();
            // A key named twice in one command waits once.
            if !queue.contains(&session) {
                queue.push_back(session);
            }
        }
    }

    /// A session stops waiting.
    pub fn leave(&mut self, session: SessionId, db: usize, keys: &[Box<[u8]>]) {
        for key in keys {
            let name = (db, key.clone());
            if let Some(queue) = self.keys.get_mut(&name) {
                queue.retain(|waiting| *waiting != session);
                if queue.is_empty() {
                    self.keys.remove(&name);
                }
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
        let name = (db, key.into());
        if self.keys.contains_key(&name) && self.is_ready.insert(name.clone()) {
            self.ready.push(name);
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
    pub fn take_ready(&mut self) -> Vec<(usize, Box<[u8]>)> {
        self.is_ready.clear();
        std::mem::take(&mut self.ready)
    }

    /// The sessions waiting for a key, the longest-waiting first.
    pub fn sessions(&self, db: usize, key: &[u8]) -> Vec<SessionId> {
        self.keys.get(&(db, key.into())).map(|queue| queue.iter().copied().collect()).unwrap_or_default()
    }

    /// Number of keys waited for.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }
}
