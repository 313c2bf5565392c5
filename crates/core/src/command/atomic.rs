//! All or nothing: what is done in a scope, to keys and to tables, is kept or undone as a whole.
//!
//! Of what is undone nothing is left in the effect, so nothing is logged or told (invariant 6). What leaves the store at
//! once cannot be undone: messages published, settings changed.

use super::context::Context;
use crate::txn::{KeysScope, Scope as TablesScope};

/// An open scope. Scopes nest; each is closed by [`close`], the innermost first.
#[must_use]
pub(super) struct Scope {
    keys: KeysScope,
    tables: TablesScope,
}

/// Opens a scope, in the session's transaction if it has one.
pub(super) fn open(ctx: &mut Context<'_>) -> Scope {
    let keys = KeysScope::open(ctx.effect, ctx.session.transaction.as_deref_mut());
    let tables = match &mut ctx.session.transaction {
        None => ctx.state.tables.open_wide(&mut ctx.effect.tables),
        Some(transaction) => transaction.tables.open_wide(&mut transaction.changes),
    };
    Scope { keys, tables }
}

/// Closes a scope; its changes stay, or are undone.
pub(super) fn close(ctx: &mut Context<'_>, scope: Scope, keep: bool) {
    let Scope { keys, tables: scope } = scope;
    let (tables, changes) = match &mut ctx.session.transaction {
        None => (&mut ctx.state.tables, &mut ctx.effect.tables),
        Some(transaction) => (&mut transaction.tables, &mut transaction.changes),
    };
    if keep {
        tables.keep(changes, scope)
    } else {
        tables.undo(changes, scope)
    }
    keys.close(keep, ctx.effect, ctx.session.transaction.as_deref_mut(), &mut ctx.state.keyspace);
}

/// Runs `body`, in a scope if that is wanted, which is undone unless `is_well` says otherwise of what came of it.
#[inline]
pub(super) fn run<T>(
    ctx: &mut Context<'_>,
    wanted: bool,
    body: impl FnOnce(&mut Context<'_>) -> T,
    is_well: impl FnOnce(&T) -> bool,
) -> T {
    if !wanted {
        return body(ctx);
    }
    let scope = open(ctx);
    let result = body(ctx);
    close(ctx, scope, is_well(&result));
    result
}
