//! Undo scopes: what is changed in one is kept or taken back as a whole.

use super::{TableChanges, Tables};
use crate::error::{Code, Error, Result};
use crate::keyspace::Wants;

/// An open undo scope: whatever is changed until it is closed can be taken back.
#[must_use]
#[derive(Debug)]
pub struct Scope {
    mark: usize,
    dirty: u64,
    wanted_undo: bool,
    /// Rows may change in it, definitions must not.
    of_rows: bool,
}

impl Tables {
    /// Opens an undo scope. Scopes nest; each is closed by `keep` or `undo`, the innermost first.
    #[inline]
    pub fn open(&mut self, changes: &mut TableChanges) -> Scope {
        self.scopes += 1;
        Self::begin(changes, true)
    }

    /// Opens an undo scope in which definitions change; it is closed like one of [`open`](Self::open), which may be
    /// opened and closed inside.
    pub fn open_definitions(&mut self, changes: &mut TableChanges) -> Result<Scope> {
        self.refuse_if_busy()?;
        Ok(Self::begin(changes, false))
    }

    /// Opens an undo scope around statements, of rows and of definitions: both kinds of scope may be opened inside.
    pub fn open_wide(&mut self, changes: &mut TableChanges) -> Scope {
        Self::begin(changes, false)
    }

    pub(super) fn begin(changes: &mut TableChanges, of_rows: bool) -> Scope {
        let wanted_undo = changes.wants.contains(Wants::UNDO);
        changes.wants |= Wants::UNDO;
        changes.sequence_of = None;
        Scope { mark: changes.list.len(), dirty: changes.dirty, wanted_undo, of_rows }
    }

    /// Closes a scope; its changes stay.
    #[inline]
    pub fn keep(&mut self, changes: &mut TableChanges, scope: Scope) {
        changes.sequence_of = None;
        if !scope.wanted_undo {
            changes.wants -= Wants::UNDO;
            if changes.wants.is_empty() {
                changes.list.truncate(scope.mark);
            }
        }
        self.close(scope.of_rows);
    }

    /// Closes a scope and takes back all that was changed in it (invariant 6).
    pub fn undo(&mut self, changes: &mut TableChanges, scope: Scope) {
        self.undo_to(changes, scope.mark);
        changes.dirty = scope.dirty;
        changes.sequence_of = None;
        if !scope.wanted_undo {
            changes.wants -= Wants::UNDO;
        }
        self.close(scope.of_rows);
    }

    /// Takes back the changes after the first `mark` ones, the last one first.
    pub(super) fn undo_to(&mut self, changes: &mut TableChanges, mark: usize) {
        while changes.list.len() > mark {
            // An inverse that does not fit the state that it was made for is a bug, and the state is no longer known.
            let result = changes.list.pop().map_or(Ok(()), |change| self.undo_change(change));
            assert!(result.is_ok(), "a change of tables cannot be taken back: {result:?}");
        }
    }

    #[inline]
    pub(super) fn close(&mut self, of_rows: bool) {
        self.scopes -= usize::from(of_rows);
        if self.scopes == 0 {
            self.engine.scope_end();
        }
    }

    /// True while a statement that may be undone runs; definitions must not change then.
    pub fn is_busy(&self) -> bool {
        self.scopes > 0
    }

    pub(super) fn refuse_if_busy(&self) -> Result<()> {
        if self.private {
            let text = "definitions cannot change inside a transaction: COMMIT or ROLLBACK first";
            return Err(Error::new(Code::Sql, text));
        }
        if self.is_busy() {
            return Err(Error::new(Code::Sql, "definitions cannot change while a statement runs"));
        }
        Ok(())
    }
}
