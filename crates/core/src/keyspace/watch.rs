//! Watched keys: a version per key that grows with each change, kept only while some session watches the key; and, while
//! transactions are open, which keys changed when.

use super::place::{OwnedPlace, Place};
use crate::ds::hash;
use crate::ds::recent::Recent;
use crate::limits;
use hashbrown::HashMap;

/// Versions of the watched keys.
#[derive(Default)]
pub struct Watches {
    keys: HashMap<OwnedPlace, Watch>,
    tracked: Option<Box<Tracked>>,
    /// Somebody watches, or changes are tracked.
    active: bool,
}

struct Watch {
    version: u64,
    sessions: u32,
}

/// Which keys changed when, by the hash of database and key. Two keys with one hash are taken for one; that costs a
/// transaction at most a second run.
struct Tracked {
    now: u64,
    keys: Recent<u64>,
    databases: Recent<usize>,
}

/// A key among all databases.
fn fingerprint(db: usize, key: &[u8]) -> u64 {
    hash::bytes(key) ^ (db as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Watches {
    /// A session begins to watch a key; gives the version to compare with later.
    pub fn watch(&mut self, db: usize, key: &[u8]) -> u64 {
        let watch = self.keys.entry((db, key.into())).or_insert(Watch { version: 0, sessions: 0 });
        watch.sessions += 1;
        self.active = true;
        watch.version
    }

    /// A session stops watching a key.
    pub fn unwatch(&mut self, db: usize, key: &[u8]) {
        if let Some(watch) = self.keys.get_mut(&Place(db, key)) {
            watch.sessions -= 1;
            if watch.sessions == 0 {
                self.keys.remove(&Place(db, key));
            }
        }
        self.active = !self.keys.is_empty() || self.tracked.is_some();
    }

    /// The version of a watched key.
    pub fn version(&self, db: usize, key: &[u8]) -> Option<u64> {
        self.keys.get(&Place(db, key)).map(|watch| watch.version)
    }

    /// Changes from here on happen at `now`, which only grows, and are remembered.
    pub fn track(&mut self, now: u64) {
        let new = || Tracked {
            now,
            keys: Recent::new(limits::TRACKED_CHANGES_MAX),
            databases: Recent::new(limits::TRACKED_CHANGES_MAX),
        };
        self.tracked.get_or_insert_with(|| Box::new(new())).now = now;
        self.active = true;
    }

    /// Nobody will ask about what is tracked.
    pub fn stop_tracking(&mut self) {
        self.tracked = None;
        self.active = !self.keys.is_empty();
    }

    /// May a key have changed at a time or later? Asked while changes are tracked, about a time since then.
    pub fn may_have_changed(&self, db: usize, key: &[u8], since: u64) -> bool {
        self.tracked.as_ref().is_none_or(|tracked| {
            tracked.databases.may_have_changed(&db, since)
                || tracked.keys.may_have_changed(&fingerprint(db, key), since)
        })
    }

    /// A key changed.
    #[inline]
    pub fn touch(&mut self, db: usize, key: &[u8]) {
        if self.active {
            self.touch_watched(db, key);
        }
    }

    #[cold]
    fn touch_watched(&mut self, db: usize, key: &[u8]) {
        if let Some(tracked) = &mut self.tracked {
            tracked.keys.note(fingerprint(db, key), tracked.now);
        }
        self.expire(db, key);
    }

    /// A key's time was up. That may have been long ago, so it is not tracked: whoever used the key has to see that it is
    /// gone.
    pub fn expire(&mut self, db: usize, key: &[u8]) {
        if !self.keys.is_empty()
            && let Some(watch) = self.keys.get_mut(&Place(db, key))
        {
            watch.version += 1;
        }
    }

    /// Every watched key of a database for which `changed` says so changed; so may any other.
    pub fn touch_where(&mut self, db: usize, changed: impl Fn(&[u8]) -> bool) {
        if let Some(tracked) = &mut self.tracked {
            tracked.databases.note(db, tracked.now);
        }
        for ((_, key), watch) in self.keys.iter_mut().filter(|((in_db, _), _)| *in_db == db) {
            if changed(key) {
                watch.version += 1;
            }
        }
    }
}
