//! A transaction that BEGIN opened: what it sees of the tables, what it has written, and its savepoints.
//!
//! Its tables are an overlay over a view of all tables, taken when it began; its keys are private copies of those that
//! it wrote. Nobody else sees either before COMMIT.

use super::private_keys::{Keep, Mark, PrivateKeys};
use super::tables::{Scope, TableChanges, Tables};
use crate::engine::{Bounds, Overlay};
use crate::error::{Code, Error, Result};
use crate::keyspace::Keyspace;
use crate::limits;
use crate::table::catalog::{Catalog, TableId};
use crate::wal::Durability;
use std::any::Any;

/// An open transaction.
pub struct Transaction {
    /// The tables as it sees and writes them.
    pub tables: Tables,
    /// What it wrote in them since its oldest savepoint, to be taken back.
    pub changes: TableChanges,
    /// The keys that it read and wrote.
    pub keys: PrivateKeys,
    /// The time of its BEGIN, on the clock of all transactions.
    pub began: u64,
    /// It may not write.
    pub read_only: bool,
    /// What the reply to its COMMIT promises, if it chose.
    pub durability: Option<Durability>,
    /// SAVEPOINT opened it, so that the release of its first savepoint commits it.
    pub by_savepoint: bool,
    /// Why it was ended from outside. It only waits for its session to see that.
    pub ended: Option<Error>,
    savepoints: Vec<Savepoint>,
    /// Scopes over its keys that statements have opened.
    key_scopes: usize,
    /// The catalog's version that its tables were last compared with.
    catalog_version: u64,
    /// Bytes that the engine had copied for views when it began.
    copied_before: u64,
}

struct Savepoint {
    name: String,
    scope: Scope,
    keys: Mark,
}

impl Transaction {
    /// Opens a transaction on the tables as they are now.
    pub fn begin(live: &mut Tables, began: u64, read_only: bool) -> Result<Transaction> {
        let ids: Vec<TableId> = live.catalog.tables().map(|def| def.id).collect();
        let base = live.engine_mut().view(&ids)?;
        let bounds = Bounds { rows: limits::TRANSACTION_ROWS_MAX, bytes: limits::TRANSACTION_BYTES_MAX };
        Ok(Transaction {
            tables: Tables::private(Box::new(Overlay::new(base, bounds))),
            changes: TableChanges::default(),
            keys: PrivateKeys::default(),
            began,
            read_only,
            durability: None,
            by_savepoint: false,
            ended: None,
            savepoints: Vec::new(),
            key_scopes: 0,
            catalog_version: live.catalog.version(),
            copied_before: live.engine().copied_bytes(),
        })
    }

    /// What it wrote in tables.
    pub fn overlay(&self) -> &Overlay {
        let engine: &dyn Any = self.tables.engine();
        engine.downcast_ref().unwrap_or_else(|| unreachable!("begin made it"))
    }

    fn overlay_mut(&mut self) -> &mut Overlay {
        let engine: &mut dyn Any = self.tables.engine_mut();
        engine.downcast_mut().unwrap_or_else(|| unreachable!("begin made it"))
    }

    /// Notices tables that others have altered or made since.
    #[inline]
    pub fn follow(&mut self, catalog: &Catalog) {
        if self.catalog_version != catalog.version() {
            self.overlay_mut().note_definitions(catalog.tables());
            self.catalog_version = catalog.version();
        }
    }

    /// Has it written anything?
    pub fn has_written(&self) -> bool {
        !self.overlay().is_clean() || self.keys.has_written()
    }

    /// Is all that it sees the view that it began with? Then another thread can read for it.
    pub fn is_its_view(&self) -> bool {
        !self.has_written() && !self.overlay().has_stale()
    }

    /// Bytes that the engine had copied for views when it began.
    pub fn copied_before(&self) -> u64 {
        self.copied_before
    }

    /// Bytes that the engine has copied for views since it began.
    pub fn copied_since(&self, live: &Tables) -> u64 {
        live.engine().copied_bytes().saturating_sub(self.copied_before)
    }

    /// Ends it from outside. What it held goes now; the session hears of it with its next command.
    pub fn end(&mut self, why: Error) {
        let empty = Overlay::new(crate::engine::no_tables(), Bounds { rows: 0, bytes: 0 });
        self.tables = Tables::private(Box::new(empty));
        self.changes = TableChanges::default();
        self.keys = PrivateKeys::default();
        self.savepoints.clear();
        self.ended = Some(why);
    }

    /// SAVEPOINT.
    pub fn savepoint(&mut self, name: &str) -> Result<()> {
        if self.savepoints.len() >= limits::SAVEPOINTS_MAX {
            let text = format!("more than {} savepoints", limits::SAVEPOINTS_MAX);
            return Err(Error::new(Code::Limit, text));
        }
        self.push_savepoint(name.to_string());
        Ok(())
    }

    fn push_savepoint(&mut self, name: String) {
        let scope = self.tables.open(&mut self.changes);
        self.savepoints.push(Savepoint { name, scope, keys: self.keys.mark() });
    }

    /// The youngest savepoint of a name.
    fn find(&self, name: &str) -> Result<usize> {
        let found = self.savepoints.iter().rposition(|savepoint| savepoint.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| Error::new(Code::Sql, format!("no such savepoint: {name}")))
    }

    /// RELEASE: forgets a savepoint and those in it. True: that was the whole transaction, which is to be committed.
    pub fn release(&mut self, name: &str) -> Result<bool> {
        let at = self.find(name)?;
        if at == 0 && self.by_savepoint {
            return Ok(true);
        }
        for savepoint in self.savepoints.drain(at..).rev() {
            self.tables.keep(&mut self.changes, savepoint.scope);
        }
        // A statement that has opened a scope may still want them.
        if self.savepoints.is_empty() && self.key_scopes == 0 {
            self.keys.forget_undo();
        }
        Ok(false)
    }

    /// ROLLBACK TO: takes back what was done since a savepoint, which stays.
    pub fn rollback_to(&mut self, name: &str, keyspace: &mut Keyspace) -> Result<()> {
        let at = self.find(name)?;
        let mut mark = Mark::default();
        for savepoint in self.savepoints.drain(at..).rev() {
            mark = savepoint.keys;
            self.tables.undo(&mut self.changes, savepoint.scope);
        }
        self.keys.undo_to(mark, keyspace)?;
        self.push_savepoint(name.to_string());
        Ok(())
    }

    /// Gives the next number of a sequence, larger than `at_least`. The live table gives it away for good, so that no
    /// other transaction gets the same.
    pub fn next_number(
        &self,
        live: &mut Tables,
        table: TableId,
        at_least: i64,
        changes: &mut TableChanges,
    ) -> Result<i64> {
        let last = at_least.max(self.tables.engine().sequence(table)?).max(live.engine().sequence(table)?);
        let full = || Error::new(Code::Limit, "a table has no number left for its sequence");
        let number = last.checked_add(1).ok_or_else(full)?;
        live.raise_sequence(table, number, changes)?;
        Ok(number)
    }

    /// What to keep of changes of keys, if somebody logs or not.
    pub fn keep(&self, logs: bool) -> Keep {
        Keep { redo: logs, undo: !self.savepoints.is_empty() || self.key_scopes > 0 }
    }

    /// Opens a scope over its keys.
    pub(super) fn open_keys(&mut self) -> Mark {
        self.key_scopes += 1;
        self.keys.mark()
    }

    /// Closes a scope over its keys.
    pub(super) fn close_keys(&mut self, mark: Mark, keep: bool, keyspace: &mut Keyspace) {
        if !keep && self.ended.is_none() {
            let undone = self.keys.undo_to(mark, keyspace);
            debug_assert!(undone.is_ok(), "{undone:?}");
        }
        self.key_scopes -= 1;
        if self.key_scopes == 0 && self.savepoints.is_empty() {
            self.keys.forget_undo_since(mark);
        }
    }
}

const fn assert_send<T: Send>() {}
const _: () = assert_send::<Transaction>();
