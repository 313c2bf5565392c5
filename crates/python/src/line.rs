//! One session of a store as a line: requests go in, replies and pushes come out in order, and a wait can be slept on.
//!
//! Knows no Python. The binding decides when it may wait (without the GIL) and when it may only try (with it).

use crate::error::from_panic;
use parking_lot::{Condvar, Mutex, MutexGuard};
use peryton_core::error::{Code, Error, Result};
use peryton_core::reply::Reply;
use peryton_core::session::{Door, Elsewhere, SessionId, Waker};
use peryton_core::store::{Active, Batch, Baton, Done, Job, Log, Lsn, Prepared, Store, Value};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A request kept until the session no longer waits in a blocking command.
pub type Request = Vec<Vec<u8>>;

/// By which a job is told from others.
type Ticket = Arc<dyn Elsewhere>;

/// A line to a store.
pub struct Line {
    store: Store,
    /// The session, once it is open.
    id: OnceLock<SessionId>,
    /// Its first database and protocol.
    start: (usize, u8),
    bell: Arc<Bell>,
    desk: Mutex<Desk>,
    closed: AtomicBool,
}

/// How often a request that may end what holds the baton looks at it.
const OVERRUN_LOOK: Duration = Duration::from_millis(1);

/// What is on its way, in order.
#[derive(Default)]
struct Desk {
    /// Replies and pushes that nobody has taken yet.
    inbox: VecDeque<Reply>,
    /// The record of the log that must be durable before any of them may be shown.
    owed: Lsn,
    /// Requests behind a blocking command.
    backlog: VecDeque<Request>,
    /// The session waits in a blocking command.
    blocked: bool,
}

/// Rung by the store when the session's outbox has something, and by `close`.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    heard: Condvar,
}

impl Waker for Bell {
    fn wake(&self) {
        *self.rung.lock() = true;
        self.heard.notify_all();
    }
}

impl Bell {
    /// Waits until it rings or `until` passes; a ring since the last wait counts.
    fn wait(&self, until: Instant) {
        let mut rung = self.rung.lock();
        while !*rung && !self.heard.wait_until(&mut rung, until).timed_out() {}
        *rung = false;
    }
}

/// What a request came to.
pub enum Outcome {
    /// Its reply.
    Reply(Reply),
    /// Nothing: the client asked for silence.
    Silence,
    /// Its reply comes later: wait.
    Later,
    /// The line is closed.
    Closed,
}

/// The right to use a line: its desk and the baton.
pub struct Turn<'a> {
    line: &'a Line,
    desk: MutexGuard<'a, Desk>,
    baton: Baton<'a>,
    /// The record of the log that must be durable before what came of this turn may be shown; 0: none.
    promise: Lsn,
}

impl Line {
    /// A line to a session in database `db`, speaking `protocol`. The session opens with the first turn, so that
    /// opening a line waits for nobody: it may be wanted to end a script that holds the baton.
    pub fn open(store: &Store, db: usize, protocol: u8) -> Line {
        Line {
            store: store.clone(),
            id: OnceLock::new(),
            start: (db, protocol),
            bell: Arc::new(Bell::default()),
            desk: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Waits for the line and the baton.
    pub fn turn(&self) -> Turn<'_> {
        // The desk first, always: a holder of the baton never waits for a desk.
        let desk = self.desk.lock();
        self.turn_with(desk, self.store.enter())
    }

    /// The line and the baton, if both are free.
    pub fn try_turn(&self) -> Option<Turn<'_>> {
        let desk = self.desk.try_lock()?;
        Some(self.turn_with(desk, self.store.try_enter()?))
    }

    fn turn_with<'a>(&'a self, desk: MutexGuard<'a, Desk>, mut baton: Baton<'a>) -> Turn<'a> {
        // Under the baton, so only once.
        self.id.get_or_init(|| {
            let id = baton.open_session(Door::Embedded, self.bell.clone());
            if let Some(mut active) = baton.activate(id) {
                let session = active.session();
                (session.db, session.protocol) = self.start;
                // Whoever is in the process has the data anyway; the password is for doors that others can reach.
                session.authenticated = true;
            }
            id
        });
        Turn { desk, baton, promise: 0, line: self }
    }

    /// The next reply or push, if it is there already and may be shown; does not enter the store.
    pub fn take(&self) -> Option<Reply> {
        let mut desk = self.desk.try_lock()?;
        // Whoever has put it there may still be waiting for the log, or have waited in vain.
        let may_be_shown = self.store.log().is_none_or(|log| desk.owed <= log.durable());
        if may_be_shown { desk.inbox.pop_front() } else { None }
    }

    /// Puts a reply behind those that wait to be taken. Waits for the line, not for the baton.
    pub fn deliver(&self, reply: Reply) {
        self.desk.lock().inbox.push_back(reply);
        self.bell.wake();
    }

    /// A turn for a request that may end what holds the baton, or its reply if it did and so passes the baton by. Never
    /// waits in the queue for the baton: whoever comes before it there may be what the request is to end.
    pub fn turn_unless_answered(&self, args: &[&[u8]]) -> std::result::Result<Turn<'_>, Reply> {
        loop {
            if let Some(reply) = self.store.overrun().answer(args) {
                return Err(reply);
            }
            if let Some(turn) = self.try_turn() {
                return Ok(turn);
            }
            std::thread::sleep(OVERRUN_LOOK);
        }
    }

    /// Whether there is something to take, as far as that can be told without waiting for anybody.
    pub fn has_news(&self) -> bool {
        if self.is_closed() || self.desk.try_lock().is_some_and(|desk| !desk.inbox.is_empty()) {
            return true;
        }
        // A statement of its own: a turn looks at the bell too.
        let rung = *self.bell.rung.lock();
        rung && self.try_turn().is_some_and(|mut turn| turn.is_pending())
    }

    /// Sleeps until the store has something for this session, or `until` passes.
    pub fn sleep(&self, until: Instant) {
        self.bell.wait(until);
    }

    /// True after `close`, or when the store ended the session.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire) || self.store.is_closed()
    }

    /// Ends waits in this line; the session itself is ended by `Turn::close_session`. True the first time.
    pub fn hang_up(&self) -> bool {
        let first = !self.closed.swap(true, Ordering::AcqRel);
        self.bell.wake();
        first
    }

    /// Waits for what a turn has promised, which must be over; without the GIL, for however long it takes.
    ///
    /// # Errors
    /// The log has failed.
    pub fn keep(&self, promise: Lsn) -> Result<()> {
        self.store.keep(promise)
    }

    /// Waits for what a turn has promised, which must be over, but no longer than this; true when it is kept.
    ///
    /// # Errors
    /// The log has failed.
    pub fn keep_for(&self, promise: Lsn, time: Duration) -> Result<bool> {
        self.store.keep_for(promise, time)
    }

    /// Has a turn promised nothing that has to be waited for?
    pub fn is_kept(&self, promise: Lsn) -> bool {
        promise == 0 && !self.store.log().is_some_and(Log::is_behind)
    }

    /// The store at the other end.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The session's number; 0 before its first turn.
    pub fn id(&self) -> SessionId {
        self.id.get().copied().unwrap_or(0)
    }
}

/// When to give up waiting, `timeout` from now; None waits for ever.
pub fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

impl Turn<'_> {
    /// Ends the turn; gives what it has promised.
    pub fn end(self) -> Lsn {
        self.promise
    }

    /// Runs one request.
    pub fn execute(&mut self, args: &[&[u8]]) -> Outcome {
        if self.desk.blocked || !self.desk.backlog.is_empty() {
            return Outcome::Reply(Error::err("this session waits in a blocking command").into());
        }
        self.run(args)
    }

    /// Is the request a statement that is known and over in no time?
    pub fn is_short_statement(&mut self, args: &[&[u8]]) -> bool {
        self.baton.is_short_statement(args)
    }

    /// What a text was compiled to, if it ran before and is a short statement by key.
    pub fn prepare(&mut self, text: &[u8]) -> Option<Prepared> {
        self.baton.activate(self.line.id())?.prepare(text)
    }

    /// Runs a prepared statement; see [`Active::statement`]. None: it has to be asked as a request.
    pub fn statement(&mut self, prepared: &Prepared, params: &[Value<'_>], found: &mut Batch) -> Option<Result<Done>> {
        if self.desk.blocked || !self.desk.backlog.is_empty() || self.line.is_closed() {
            return None;
        }
        let mut active = self.baton.activate(self.line.id())?;
        if active.session().killed {
            return None;
        }
        let done = active.statement(prepared, params, found);
        self.promise = self.promise.max(active.promise());
        done
    }

    /// Runs a request behind those before it, leaving its reply in the inbox.
    pub fn send(&mut self, args: &[&[u8]]) -> Outcome {
        if self.desk.blocked || !self.desk.backlog.is_empty() {
            self.desk.backlog.push_back(args.iter().map(|arg| arg.to_vec()).collect());
            return Outcome::Later;
        }
        match self.run(args) {
            Outcome::Reply(reply) => {
                self.desk.inbox.extend(flatten(reply));
                Outcome::Silence
            }
            other => other,
        }
    }

    /// The next reply or push, as far as it is there.
    pub fn next(&mut self) -> Outcome {
        if self.desk.inbox.is_empty() {
            self.catch_up();
        }
        self.promise = self.promise.max(self.desk.owed);
        match self.desk.inbox.pop_front() {
            Some(reply) => Outcome::Reply(reply),
            None if self.line.is_closed() => Outcome::Closed,
            None => Outcome::Later,
        }
    }

    /// The late reply of a blocking command, as far as it is there; pushes stay in the inbox.
    pub fn late_reply(&mut self) -> Outcome {
        self.catch_up();
        self.promise = self.promise.max(self.desk.owed);
        let reply = self.desk.inbox.iter().position(|reply| !matches!(reply, Reply::Push(_)));
        match reply.and_then(|at| self.desk.inbox.remove(at)) {
            Some(reply) => Outcome::Reply(reply),
            None if self.line.is_closed() => Outcome::Closed,
            None if !self.desk.blocked => Outcome::Silence,
            None => Outcome::Later,
        }
    }

    /// All pushes that have come.
    pub fn pushes(&mut self) -> Vec<Reply> {
        self.catch_up();
        self.promise = self.promise.max(self.desk.owed);
        let inbox = std::mem::take(&mut self.desk.inbox);
        let (pushes, others): (Vec<_>, Vec<_>) = inbox.into_iter().partition(|reply| matches!(reply, Reply::Push(_)));
        self.desk.inbox = others.into();
        pushes
    }

    /// True when `next` has something to give.
    pub fn is_pending(&mut self) -> bool {
        if self.desk.inbox.is_empty() {
            self.catch_up();
        }
        !self.desk.inbox.is_empty()
    }

    /// True after the line was closed by either end.
    pub fn is_closed(&self) -> bool {
        self.line.is_closed()
    }

    /// Opens the transaction of a procedure on the keys of database `db`.
    ///
    /// # Errors
    /// The line is closed, or the tables cannot be held as they are.
    pub fn begin_procedure(&mut self, db: usize, read_only: bool) -> Result<()> {
        self.active()?.begin_procedure(db, read_only)
    }

    /// Commits what a procedure did and brings the reply to its caller; see [`Active::end_procedure`].
    ///
    /// # Errors
    /// Nothing was done, and the caller still waits.
    pub fn end_procedure(&mut self, job: &Job, ticket: &Ticket, reply: Reply, conflicts: u64) -> Result<()> {
        self.active()?.end_procedure(job, ticket, reply, conflicts)
    }

    /// Rolls back what a procedure did, if it still has a session.
    pub fn roll_back_procedure(&mut self) {
        if let Some(mut active) = self.baton.activate(self.line.id()) {
            active.roll_back_procedure();
        }
    }

    fn active(&mut self) -> Result<Active<'_>> {
        let mut active = self.baton.activate(self.line.id()).filter(|_| !self.line.is_closed());
        let is_killed = active.as_mut().is_some_and(|active| active.session().killed);
        let closed = || Error::new(Code::Cancelled, "57014 the session of the procedure was closed");
        active.filter(|_| !is_killed).ok_or_else(closed)
    }

    /// Ends the session.
    pub fn close_session(&mut self) {
        self.desk.backlog.clear();
        self.baton.close_session(self.line.id());
    }

    fn run(&mut self, args: &[&[u8]]) -> Outcome {
        let Some(mut active) = self.baton.activate(self.line.id()) else { return Outcome::Closed };
        if active.session().killed || self.line.is_closed() {
            return Outcome::Closed;
        }
        let reply = guarded(&mut active, args);
        self.promise = self.promise.max(active.promise());
        let session = active.session();
        // A command's pushes to its own session come before its reply, as on a socket.
        if !session.outbox.is_empty() {
            self.desk.inbox.extend(session.outbox.drain(..).flat_map(flatten));
        }
        self.desk.blocked = session.blocked.is_some();
        let closing = session.closing;
        drop(active);
        if closing {
            self.line.hang_up();
            self.close_session();
        }
        match reply {
            Reply::None if self.desk.blocked => Outcome::Later,
            Reply::None => Outcome::Silence,
            reply => Outcome::Reply(reply),
        }
    }

    /// Takes what the store has posted, then runs the requests that waited for it.
    fn catch_up(&mut self) {
        // Whoever rings holds the baton, so what was rung for is in the outbox by now.
        *self.line.bell.rung.lock() = false;
        loop {
            let Some(mut active) = self.baton.activate(self.line.id()) else {
                self.line.hang_up();
                return;
            };
            if !active.session().outbox.is_empty() {
                self.promise = self.promise.max(active.promise());
            }
            let session = active.session();
            self.desk.inbox.extend(session.outbox.drain(..).flat_map(flatten));
            self.desk.blocked = session.blocked.is_some();
            let killed = session.killed;
            drop(active);
            if killed {
                self.line.hang_up();
                self.close_session();
                return;
            }
            if self.desk.blocked {
                return;
            }
            let Some(request) = self.desk.backlog.pop_front() else { return };
            let args: Vec<&[u8]> = request.iter().map(|arg| &arg[..]).collect();
            if let Outcome::Reply(reply) = self.run(&args) {
                self.desk.inbox.extend(flatten(reply));
            }
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // What stays in the inbox was not shown, so its promise stays with it, whoever takes it and when.
        self.desk.owed = if self.desk.inbox.is_empty() { 0 } else { self.desk.owed.max(self.promise) };
    }
}

/// Runs a request; a panic becomes an error reply (invariant 12).
fn guarded(active: &mut Active<'_>, args: &[&[u8]]) -> Reply {
    let run = AssertUnwindSafe(|| active.execute(args));
    catch_unwind(run).unwrap_or_else(|panic| from_panic(&*panic).into())
}

fn flatten(reply: Reply) -> Vec<Reply> {
    match reply {
        Reply::None => Vec::new(),
        Reply::Many(replies) => replies,
        other => vec![other],
    }
}
