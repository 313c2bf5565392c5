//! What a mutator is given: thresholds to obey, and the places where redo and undo operations are left if wanted.

use super::Thresholds;

/// An operation of one type of value.
pub trait Operation: Sized {
    /// One operation that does several, in order.
    fn many(ops: Vec<Self>) -> Self;

    /// Joins a later operation to this one, or gives it back when they do not combine.
    fn absorb(&mut self, next: Self) -> Option<Self> {
        Some(next)
    }
}

/// One change in progress. With neither redo nor undo wanted it costs a test per mutator.
#[derive(Debug)]
pub struct Edit<'t, O> {
    /// The limits of the small encodings.
    pub thresholds: &'t Thresholds,
    redo: Option<Vec<O>>,
    undo: Option<Vec<O>>,
}

impl<'t, O: Operation> Edit<'t, O> {
    /// An edit that keeps no record.
    pub fn silent(thresholds: &'t Thresholds) -> Self {
        Edit { thresholds, redo: None, undo: None }
    }

    /// An edit that records what is wanted.
    pub fn recording(thresholds: &'t Thresholds, redo: bool, undo: bool) -> Self {
        Edit { thresholds, redo: redo.then(Vec::new), undo: undo.then(Vec::new) }
    }

    /// Notes what was done, in words that do it again.
    #[inline]
    pub(super) fn redo(&mut self, make: impl FnOnce() -> O) {
        if let Some(ops) = &mut self.redo {
            let op = make();
            let rest = match ops.last_mut() {
                Some(last) => last.absorb(op),
                None => Some(op),
            };
            ops.extend(rest);
        }
    }

    /// Notes how to take the last step back.
    #[inline]
    pub(super) fn undo(&mut self, make: impl FnOnce() -> O) {
        if let Some(ops) = &mut self.undo {
            ops.push(make());
        }
    }

    /// True when inverses are wanted, for mutators that must look before they change.
    #[inline]
    pub(super) fn wants_undo(&self) -> bool {
        self.undo.is_some()
    }

    /// What was recorded: the redo operation and the undo operation; `None` for what was not wanted or did not happen.
    pub fn finish(self) -> (Option<O>, Option<O>) {
        let undo = self.undo.map(|mut ops| {
            ops.reverse();
            ops
        });
        (self.redo.and_then(join), undo.and_then(join))
    }
}

fn join<O: Operation>(mut ops: Vec<O>) -> Option<O> {
    if ops.len() > 1 { Some(O::many(ops)) } else { ops.pop() }
}
