//! What changed lately, and when: for a bounded number of things, on a clock that counts up.

use std::collections::HashMap;
use std::hash::Hash;

/// The times of the latest changes. Past its bound it forgets all of them, and from then on knows of everything before
/// only that it may have changed.
#[derive(Debug)]
pub struct Recent<T> {
    changed: HashMap<T, u64>,
    most: usize,
    /// What was forgotten changed at this time or before.
    forgotten: Option<u64>,
}

impl<T: Eq + Hash> Recent<T> {
    /// Remembers at most so many things.
    pub fn new(most: usize) -> Recent<T> {
        Recent { changed: HashMap::new(), most, forgotten: None }
    }

    /// Something changes now. Time does not go back.
    pub fn note(&mut self, what: T, now: u64) {
        if self.changed.len() >= self.most && !self.changed.contains_key(&what) {
            self.changed.clear();
            self.forgotten = Some(now);
        }
        self.changed.insert(what, now);
    }

    /// Did it change at this time or later? True, too, when that is not known any more.
    pub fn may_have_changed(&self, what: &T, since: u64) -> bool {
        self.has_forgotten(since) || self.changed.get(what).is_some_and(|at| *at >= since)
    }

    /// Is it unknown what changed at this time or later?
    pub fn has_forgotten(&self, since: u64) -> bool {
        self.forgotten.is_some_and(|at| at >= since)
    }

    /// Forgets everything, as nobody will ask about the time up to now.
    pub fn clear(&mut self) {
        self.changed = HashMap::new();
        self.forgotten = None;
    }

    /// Things remembered.
    pub fn len(&self) -> usize {
        self.changed.len()
    }

    /// Is nothing remembered?
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_known_until_there_are_too_many() {
        let mut recent = Recent::new(3);
        recent.note("a", 4);
        recent.note("b", 6);
        assert_eq!([true, false, false], ["a", "b", "c"].map(|what| recent.may_have_changed(&what, 4) && what == "a"));
        assert!(recent.may_have_changed(&"a", 4) && !recent.may_have_changed(&"a", 5));
        assert!(recent.may_have_changed(&"b", 5) && !recent.may_have_changed(&"c", 0));
        recent.note("a", 7);
        recent.note("c", 7);
        assert!(!recent.has_forgotten(0));
        recent.note("d", 9);
        assert!(recent.has_forgotten(9) && recent.may_have_changed(&"never", 9), "all before may have changed");
        assert!(!recent.has_forgotten(10) && !recent.may_have_changed(&"d", 10));
        recent.clear();
        assert!(!recent.may_have_changed(&"d", 0) && recent.is_empty());
    }
}
