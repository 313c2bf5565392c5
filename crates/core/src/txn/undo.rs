//! Effects taken back: every change's inverse, in reverse order.

use super::{Effect, Tables};
use crate::keyspace::{Change, Changes, Keyspace};
use crate::value::codec::{Decoded, Malformed};

/// Takes back an effect that was made with undo wanted.
///
/// # Errors
/// An inverse does not fit the state it was made for: a bug, or the effect is not the last one.
pub fn undo(effect: Effect, keyspace: &mut Keyspace, tables: &mut Tables) -> Decoded<()> {
    undo_keys(effect.keys.list.into_iter(), keyspace)?;
    for change in effect.tables.list.into_iter().rev() {
        tables.undo_change(change).map_err(|_| Malformed("a change of a table that cannot be taken back"))?;
    }
    Ok(())
}

/// Takes back changes of keys, the last one first.
///
/// # Errors
/// As for [`undo`].
pub fn undo_keys(changes: impl DoubleEndedIterator<Item = Change>, keyspace: &mut Keyspace) -> Decoded<()> {
    let mut nobody = Changes::default();
    for change in changes.rev() {
        match change {
            Change::Key { db, key, undo, .. } => {
                if let Some(op) = undo {
                    keyspace.apply(db, &key, op)?;
                }
            }
            Change::Taken { db, taken, .. } => {
                let now = keyspace.databases[db].put(taken);
                keyspace.shared.reaper.free_taken(now);
            }
            Change::Move { from, to } => keyspace.relocate((to.0, &to.1), (from.0, &from.1), &mut nobody),
            Change::Flush { db, kept } => {
                if let Some(kept) = kept {
                    keyspace.databases[db].put_back(*kept);
                }
            }
            Change::Swap(a, b) => keyspace.swap(a, b, &mut nobody),
        }
    }
    Ok(())
}
