//! The keys of one database as a command sees them: expired keys are gone, every change is recorded.

use super::Shared;
use super::changes::Changes;
use super::database::Database;
use super::events::EventClass;
use crate::value::{Op, Str, Value};

/// One database, for the length of one command.
pub struct Keys<'a> {
    database: &'a mut Database,
    db: usize,
    shared: &'a mut Shared,
    changes: &'a mut Changes,
    now_ms: i64,
}

impl<'a> Keys<'a> {
    #[inline]
    pub(super) fn new(
        database: &'a mut Database,
        db: usize,
        shared: &'a mut Shared,
        changes: &'a mut Changes,
        now_ms: i64,
    ) -> Self {
        Keys { database, db, shared, changes, now_ms }
    }
    /// stub
    pub fn exists(&mut self, key: &[u8]) -> bool {
        let _ = self.now_ms;
        self.database.map.contains_key(key)
    }
    /// stub
    pub fn get(&mut self, key: &[u8]) -> Option<&[u8]> {
        self.database.map.get(key).map(|(v, _)| match v {
            Value::Str(s) => s.as_slice(),
        })
    }
    /// stub
    pub fn set(&mut self, key: &[u8], v: &[u8]) {
        self.database.map.insert(key.into(), (Value::Str(Str::from_slice(v)), None));
        self.changes.key(self.db, key, || Op::Put(Value::Str(Str::from_slice(v)), None), || Op::Remove);
        self.changes.event(EventClass::STRING, "set", self.db, key);
        self.shared.watches.touch(self.db, key);
    }
}
