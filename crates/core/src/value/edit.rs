//! What a mutator is given: thresholds to obey, the places where redo and undo operations are left if wanted, and what is
//! still to be told of the value by somebody who saves it.

use super::Thresholds;
use super::pieces::Rest;

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
pub struct Edit<'t, O> {
    /// The limits of the small encodings.
    pub thresholds: &'t Thresholds,
    redo: Option<Vec<O>>,
    undo: Option<Vec<O>>,
    rest: Option<&'t mut Rest>,
}

impl<'t, O: Operation> Edit<'t, O> {
    /// An edit that keeps no record.
    pub fn silent(thresholds: &'t Thresholds) -> Self {
        Edit { thresholds, redo: None, undo: None, rest: None }
    }

    /// An edit that records what is wanted.
    pub fn recording(thresholds: &'t Thresholds, redo: bool, undo: bool) -> Self {
        Edit { thresholds, redo: redo.then(Vec::new), undo: undo.then(Vec::new), rest: None }
    }

    /// The same edit, of a value that is being saved, of which this is the rest.
    pub fn saving(self, rest: Option<&'t mut Rest>) -> Self {
        Edit { rest, ..self }
    }

    /// What is still to be told of the value, if it is being saved: to be asked before each change.
    #[inline]
    pub(super) fn rest(&mut self) -> Option<&mut Rest> {
        self.rest.as_deref_mut()
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
