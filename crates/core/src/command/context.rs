//! What a command gets to work with.

use crate::env::Xoshiro;
use crate::keyspace::Keys;
use crate::keyspace::typed::Typed;
use crate::session::Session;
use crate::state::State;
use crate::txn::Effect;

/// From where a command was called; decides what it may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Straight from a door.
    Client,
    /// By EXEC.
    Exec,
    /// By a Lua script or function.
    Script,
    /// By one that may not write.
    ReadOnlyScript,
    /// Again, because a key that a blocked session waits for is ready.
    Retry,
}

/// The store's state, the calling session, and the effect to fill.
pub struct Context<'a> {
    /// All state of the store; the baton is held.
    pub state: &'a mut State,
    /// The calling session.
    pub session: &'a mut Session,
    /// What the command changes is recorded here; the executor commits it.
    pub effect: &'a mut Effect,
    /// From where the command was called.
    pub origin: Origin,
    /// The key that is ready, when a waiting command is tried again.
    pub ready: Option<&'a [u8]>,
}

impl Context<'_> {
    /// The keys of the session's database.
    #[inline]
    pub fn keys(&mut self) -> Keys<'_> {
        self.keys_in(self.session.db)
    }

    /// The keys of database `db`, which must exist.
    #[inline]
    pub fn keys_in(&mut self, db: usize) -> Keys<'_> {
        self.state.keyspace.keys(db, self.state.clock.now_ms, &mut self.effect.keys)
    }

    /// A generator for picking elements, apart from the state so that both can be used at once.
    pub fn random(&mut self) -> Xoshiro {
        Xoshiro::from_seed(self.state.random.next())
    }

    /// True when a command that waits for values of type `T` may look at this key: once it has waited, it looks only at
    /// the key that is ready, and only if that holds what it waits for, as in Redis 7.0.
    pub fn may_take<T: Typed>(&mut self, key: &[u8]) -> bool {
        let Some(ready) = self.ready else { return true };
        ready == key && self.keys().look(key).is_some_and(|entry| entry.type_name() == T::NAME)
    }

    /// True when the command may put its session to sleep: not inside EXEC, a script or a transaction.
    pub fn may_block(&self) -> bool {
        matches!(self.origin, Origin::Client | Origin::Retry) && self.session.transaction.is_none()
    }
}
