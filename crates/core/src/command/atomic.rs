//! All or nothing: what is done in a scope, to keys and to tables, is kept or undone as a whole.
//!
//! Outside of a transaction the effect has what takes each change back, and of what is undone nothing is left in it, so
//! nothing is logged (invariant 6). In a transaction of BEGIN a scope is a savepoint. What leaves the store at once cannot
//! be undone: messages published, settings changed.

use super::context::Context;
use crate::error::Result;
use crate::keyspace;
use crate::txn::{self, undo};

/// An open scope. Scopes nest; each is closed by [`keep`] or [`undo`], the innermost first.
#[must_use]
pub(super) enum Scope {
    /// In the effect.
    Effect(keyspace::ChangesScope, txn::Scope),
    /// In the session's transaction.
    Savepoint,
}

/// A name that no statement can give a savepoint.
const SAVEPOINT: &str = "\0atomic";

/// Opens a scope.
pub(super) fn open(ctx: &mut Context<'_>) -> Result<Scope> {
    match &mut ctx.session.transaction {
        Some(transaction) => transaction.savepoint(SAVEPOINT).map(|()| Scope::Savepoint),
        None => {
            let keys = ctx.effect.keys.open();
            Ok(Scope::Effect(keys, ctx.state.tables.open_wide(&mut ctx.effect.tables)))
        }
    }
}

/// Closes a scope; its changes stay.
pub(super) fn keep(ctx: &mut Context<'_>, scope: Scope) {
    match scope {
        Scope::Effect(keys, tables) => {
            ctx.effect.keys.keep(keys);
            ctx.state.tables.keep(&mut ctx.effect.tables, tables);
        }
        Scope::Savepoint => {
            let released = ctx.session.transaction.as_mut().map(|transaction| transaction.release(SAVEPOINT));
            debug_assert!(matches!(released, Some(Ok(false))));
        }
    }
}

/// Closes a scope and undoes all that was changed in it.
pub(super) fn undo(ctx: &mut Context<'_>, scope: Scope) {
    match scope {
        Scope::Effect(keys, tables) => {
            let changes = ctx.effect.keys.take_since(keys);
            let undone = undo::undo_keys(changes, &mut ctx.state.keyspace);
            // An inverse that does not fit the state that it was made for is a bug, and the state is no longer known.
            assert!(undone.is_ok(), "a change of keys cannot be taken back: {undone:?}");
            ctx.state.tables.undo(&mut ctx.effect.tables, tables);
        }
        Scope::Savepoint => {
            let Some(transaction) = &mut ctx.session.transaction else { return };
            let undone = transaction.rollback_to(SAVEPOINT, &mut ctx.state.keyspace);
            assert!(undone.is_ok(), "a change of a transaction cannot be taken back: {undone:?}");
            keep(ctx, Scope::Savepoint);
        }
    }
}

/// Runs `body`, in a scope if that is wanted, which is undone unless `is_well` says otherwise of what came of it.
#[inline]
pub(super) fn run<T>(
    ctx: &mut Context<'_>,
    wanted: bool,
    body: impl FnOnce(&mut Context<'_>) -> T,
    is_well: impl FnOnce(&T) -> bool,
) -> Result<T> {
    if !wanted {
        return Ok(body(ctx));
    }
    let scope = open(ctx)?;
    let result = body(ctx);
    if is_well(&result) {
        keep(ctx, scope)
    } else {
        undo(ctx, scope)
    }
    Ok(result)
}
