//! Watched keys: a version per key that grows with each change, kept only while some session watches the key.

use super::place::{OwnedPlace, Place};
use hashbrown::HashMap;

/// Versions of the watched keys.
#[derive(Default)]
pub struct Watches {
    keys: HashMap<OwnedPlace, Watch>,
}

struct Watch {
    version: u64,
    sessions: u32,
}

impl Watches {
    /// A session begins to watch a key; gives the version to compare with later.
    pub fn watch(&mut self, db: usize, key: &[u8]) -> u64 {
        let watch = self.keys.entry((db, key.into())).or_insert(Watch { version: 0, sessions: 0 });
        watch.sessions += 1;
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
    }

    /// The version of a watched key.
    pub fn version(&self, db: usize, key: &[u8]) -> Option<u64> {
        self.keys.get(&Place(db, key)).map(|watch| watch.version)
    }

    /// A key changed.
    #[inline]
    pub fn touch(&mut self, db: usize, key: &[u8]) {
        if !self.keys.is_empty() {
            self.touch_watched(db, key);
        }
    }

    #[cold]
    fn touch_watched(&mut self, db: usize, key: &[u8]) {
        if let Some(watch) = self.keys.get_mut(&Place(db, key)) {
            watch.version += 1;
        }
    }

    /// Every watched key of a database for which `changed` says so changed.
    pub fn touch_where(&mut self, db: usize, changed: impl Fn(&[u8]) -> bool) {
        for ((_, key), watch) in self.keys.iter_mut().filter(|((in_db, _), _)| *in_db == db) {
            if changed(key) {
                watch.version += 1;
            }
        }
    }
}
