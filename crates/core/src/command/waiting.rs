//! Sessions in blocking commands: putting them to sleep, serving them when a key is ready, waking them when time is up.

use super::context::{Context, Origin};
use super::dispatch;
use crate::error::{Code, Error};
use crate::reply::Reply;
use crate::session::{Blocked, Elsewhere, OwnedRequest, Session, SessionId, Sweep};
use crate::state::State;
use std::sync::Arc;

impl Context<'_> {
    /// Puts the session to sleep until one of `keys` is ready or the deadline passes; the command then runs again.
    ///
    /// Where blocking is not allowed (EXEC, scripts) the answer is `on_timeout` at once, as in Redis.
    pub fn block(&mut self, args: &[&[u8]], keys: &[&[u8]], deadline_ms: Option<i64>, on_timeout: Reply) -> Reply {
        if !self.may_block() {
            return on_timeout;
        }
        let blocked = Blocked {
            request: args.iter().map(|arg| Box::from(*arg)).collect(),
            keys: keys.iter().map(|key| Box::from(*key)).collect(),
            deadline_ms,
            on_timeout,
            sweep: None,
            elsewhere: None,
        };
        // A retry only says that it still waits: its place in the queues and its deadline stay.
        if self.origin == Origin::Client {
            self.state.keyspace.shared.waiting.wait(self.session.id, self.session.db, &blocked.keys);
            if let Some(deadline) = deadline_ms {
                self.state.deadlines.insert((deadline, self.session.id));
            }
        }
        self.session.blocked = Some(blocked);
        Reply::None
    }

    /// Puts the session to sleep until others had their turn; then the request goes on where it stands.
    pub fn sweep(&mut self, args: &[&[u8]], sweep: Sweep) -> Reply {
        let deadline = self.state.clock.now_ms + 1;
        self.session.blocked = Some(Blocked {
            request: args.iter().map(|arg| Box::from(*arg)).collect(),
            keys: Vec::new(),
            deadline_ms: Some(deadline),
            on_timeout: Reply::Nil,
            elsewhere: None,
            sweep: Some(sweep),
        });
        self.state.deadlines.insert((deadline, self.session.id));
        Reply::None
    }
}

/// Tries again the commands that wait for keys which became ready.
pub fn serve(state: &mut State, current: &mut Session) {
    while state.keyspace.shared.waiting.has_ready() {
        for (db, key) in state.keyspace.shared.waiting.take_ready() {
            for id in state.keyspace.shared.waiting.sessions(db, &key) {
                if id != current.id {
                    retry(state, id, &key);
                }
            }
        }
    }
}

/// Runs a waiting session's command again, and wakes the session if it was served.
fn retry(state: &mut State, id: SessionId, key: &[u8]) {
    if state.sessions.get(&id).is_none_or(|session| session.killed) {
        return;
    }
    let Some(mut session) = state.sessions.remove(&id) else { return };
    if let Some(waiting) = session.blocked.take() {
        let reply = run_again(state, &mut session, &waiting.request, Some(key));
        let still_waits = session.blocked.is_some();
        session.blocked = Some(waiting);
        if !still_waits {
            finish(state, &mut session, reply);
        }
    }
    state.sessions.insert(id, session);
}

fn run_again(state: &mut State, session: &mut Session, request: &OwnedRequest, ready: Option<&[u8]>) -> Reply {
    let args: Vec<&[u8]> = request.iter().map(|arg| &arg[..]).collect();
    let Ok(command) = dispatch::find(args[0], &args) else { return Reply::None };
    let run = |context: &mut Context<'_>| dispatch::call(context, command, &args);
    let (reply, effect) = dispatch::perform(state, session, Origin::Retry, ready, run);
    dispatch::commit_quietly(state, session, effect);
    reply
}

/// Ends a session's wait with a reply.
fn finish(state: &mut State, session: &mut Session, reply: Reply) {
    leave(state, session);
    session.post(reply);
}

/// Takes a session out of all queues it waits in.
pub fn leave(state: &mut State, session: &mut Session) {
    if let Some(waiting) = session.blocked.take() {
        state.keyspace.shared.waiting.leave(session.id, session.db, &waiting.keys);
        if let Some(deadline) = waiting.deadline_ms {
            state.deadlines.remove(&(deadline, session.id));
        }
        if let Some(elsewhere) = waiting.elsewhere {
            elsewhere.cancel();
        }
    }
}

/// Brings a session the reply that was made for it in another thread, unless it waits for that no longer.
pub fn bring(state: &mut State, id: SessionId, elsewhere: &Arc<dyn Elsewhere>, reply: Reply) {
    let Some(session) = state.sessions.get_mut(&id) else { return };
    let waits = session.blocked.as_ref().and_then(|blocked| blocked.elsewhere.as_ref());
    if waits.is_some_and(|it| Arc::ptr_eq(it, elsewhere)) {
        session.blocked = None;
        session.post(reply);
    }
}

/// Answers the sessions whose time is up; gives the next deadline.
pub fn expire(state: &mut State) -> Option<i64> {
    while let Some(&(deadline, id)) = state.deadlines.first() {
        if deadline > state.clock.now_ms {
            return Some(deadline);
        }
        state.deadlines.pop_first();
        if !go_on(state, id) {
            unblock_with(state, id, |waiting| waiting.on_timeout.clone());
        }
    }
    None
}

/// Runs the next slice of a session's request; false if it has none.
fn go_on(state: &mut State, id: SessionId) -> bool {
    let sweep = state.sessions.get(&id).and_then(|session| session.blocked.as_ref()?.sweep);
    let Some(sweep) = sweep else { return false };
    let Some(mut session) = state.sessions.remove(&id) else { return false };
    if let Some(waiting) = session.blocked.take().filter(|_| !session.killed) {
        session.sweep = Some(sweep);
        let reply = run_again(state, &mut session, &waiting.request, None);
        session.sweep = None;
        if session.blocked.is_none() {
            session.post(reply);
        }
    }
    state.sessions.insert(id, session);
    true
}

/// Ends a session's wait from outside (CLIENT UNBLOCK): by its timeout's answer or with an error. False if it does not
/// wait.
pub fn unblock(state: &mut State, id: SessionId, with_error: bool) -> bool {
    let error = || Error::new(Code::Unblocked, "client unblocked via CLIENT UNBLOCK");
    unblock_with(state, id, |waiting| if with_error { error().into() } else { waiting.on_timeout.clone() })
}

fn unblock_with(state: &mut State, id: SessionId, reply: impl FnOnce(&Blocked) -> Reply) -> bool {
    let Some(mut session) = state.sessions.remove(&id) else { return false };
    let answer = session.blocked.as_ref().map(reply);
    let waited = answer.is_some();
    if let Some(answer) = answer {
        finish(state, &mut session, answer);
    }
    state.sessions.insert(id, session);
    waited
}
