//! The facade: open a store, take its baton, serve requests of sessions, close it.

#[cfg(test)]
mod alter_model_tests;
#[cfg(test)]
mod alter_tests;
#[cfg(test)]
mod checkpoint_tests;
mod checkpointing;
#[cfg(test)]
mod crash_tests;
mod durable;
#[cfg(test)]
mod external_tests;
#[cfg(test)]
mod function_tests;
mod overrun;
#[cfg(test)]
mod procedure_fuzz_tests;
#[cfg(test)]
mod procedure_tests;
mod procedures;
mod reading;
#[cfg(test)]
mod reading_tests;
#[cfg(test)]
mod redis_tests;
#[cfg(test)]
mod rollback_tests;
#[cfg(test)]
mod rollback_trigger_tests;
#[cfg(test)]
mod saving_tests;
#[cfg(test)]
mod sql_keys_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod transaction_model_tests;
#[cfg(test)]
mod transaction_tests;
#[cfg(test)]
mod trigger_oracle_tests;
#[cfg(test)]
mod trigger_tests;

pub use crate::command::dispatch::is_short;
pub use crate::command::is_statement;
pub use crate::procedure::external::{Job, Routine, Runner, Task};
pub use crate::recovery::{Phase, Report, Step};
pub use crate::sql::direct::{Done, Prepared};
pub use crate::sql::packed::put as pack;
pub use crate::table::batch::Batch;
pub use crate::table::datum::{Datum as Argument, DatumRef as Value};
pub use crate::wal::{Condition, Log, Lsn};
pub use durable::{Progress, check, restore};
pub use overrun::Overrun;

use crate::command::{self, connection, dispatch, room, schedule, table, transact, trigger, waiting};
use crate::directory::Directory;
use crate::env::{Env, Files, SystemEnv};
use crate::error::{Code, Error, Result};
use crate::memory;
use crate::readers::Readers;
use crate::reply::Reply;
use crate::session::{Door, Durability, Session, SessionId, Waker};
use crate::state::State;
use crate::wal::LogSettings;
use checkpointing::Saver;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How to open a store.
#[derive(Default)]
pub struct Options {
    /// The world to live in; None is the real one.
    pub env: Option<Box<dyn Env>>,
    /// The data directory, which must be no other store's; None: in memory only.
    pub dir: Option<PathBuf>,
    /// What replies promise; None: `interval` in a directory.
    pub durability: Option<Durability>,
    /// Files to use in the place of the directory's.
    pub files: Option<Arc<dyn Files>>,
    /// How the log works.
    pub log: LogSettings,
    /// Is told how far the opening is.
    pub progress: Option<Progress>,
    /// Whether DEBUG may be used; it can undo and hold up everything, so it is for tests.
    pub debug_commands: bool,
}

/// A store: keyspace and tables in one process. Handles are cheap to copy and may be used from any thread.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    /// The baton. `parking_lot`'s mutex hands itself over at least every half millisecond when somebody waits.
    state: Mutex<State>,
    overrun: Overrun,
    readers: Readers,
    reader_threads: Mutex<Vec<JoinHandle<()>>>,
    housekeeper: Arc<Housekeeper>,
    closed: AtomicBool,
    /// Held by who closes the store.
    closing: Mutex<()>,
    /// Ours until the store is closed.
    directory: Mutex<Option<Directory>>,
    log: Option<Log>,
    saver: Arc<Saver>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Whoever drops a store without closing it has heard of no error, and here is nobody who could be told. But the
        // directory must be ours until the log has ended.
        if let Some(log) = &self.log {
            let _ = log.close();
        }
    }
}

/// The thread that expires keys and ends waits, and how to wake it.
#[derive(Default)]
struct Housekeeper {
    thread: Mutex<Option<JoinHandle<()>>>,
    alarm: Mutex<bool>,
    bell: Condvar,
}

/// How often expired keys are looked for, milliseconds.
const HOUSEKEEPING_MS: u64 = 100;
/// How often clients that have been idle for too long are looked for, milliseconds.
const IDLE_LOOK_MS: i64 = 1000;
/// How often a log that is behind is looked at.
const LOG_PAUSE: Duration = Duration::from_millis(1);
/// Waiting for the log is done in pieces of this length.
const KEEP_SLICE: Duration = Duration::from_secs(10);

impl Store {
    /// Opens a store.
    pub fn open(options: Options) -> Result<Store> {
        let mut env = options.env.unwrap_or_else(|| Box::new(SystemEnv::new()));
        let opened = (Instant::now(), env.monotonic_ns());
        let directory = options.dir.as_deref().map(Directory::claim).transpose()?;
        let mut state = State::new(env, table::TABLE.size());
        state.debug_allowed = options.debug_commands;
        let files = options.files.or_else(|| directory.as_ref().map(durable::files));
        let durability = options.durability.unwrap_or(Durability::Interval);
        if let Some(directory) = &directory {
            state.journal.saves.backup_place = directory.path().join("backups");
        }
        let data = files
            .map(|files| durable::open(files, durability, options.log, options.progress, &mut state))
            .transpose()?;
        command::function::prepare(&mut state);
        state.follow_routines();
        let shared = Shared {
            overrun: Overrun::new(&state, opened),
            readers: state.readers.clone(),
            reader_threads: Mutex::default(),
            state: Mutex::new(state),
            housekeeper: Arc::default(),
            closed: AtomicBool::new(false),
            closing: Mutex::new(()),
            directory: Mutex::new(directory),
            log: data.as_ref().and_then(|data| data.log.clone()),
            saver: Arc::default(),
        };
        let store = Store { shared: Arc::new(shared) };
        store.start_housekeeper();
        reading::set_up(&store);
        if let Some(data) = data {
            store.start_saver(data)?;
        }
        Ok(store)
    }

    /// Waits for the baton.
    #[inline]
    pub fn enter(&self) -> Baton<'_> {
        Baton::new(self.shared.state.lock(), &self.shared.housekeeper)
    }

    /// Takes the baton if it is free.
    #[inline]
    pub fn try_enter(&self) -> Option<Baton<'_>> {
        Some(Baton::new(self.shared.state.try_lock()?, &self.shared.housekeeper))
    }

    /// The running script or statement as seen without the baton, which it holds until it ends.
    pub fn overrun(&self) -> &Overrun {
        &self.shared.overrun
    }

    /// The log, if the store has one. Whoever sends a reply waits for what [`Active::promise`] says first.
    #[inline]
    pub fn log(&self) -> Option<&Log> {
        self.shared.log.as_ref()
    }

    /// Waits until a record is durable (see [`Active::promise`]), and while the log is far behind. Not to be called by
    /// whoever has the baton.
    ///
    /// # Errors
    /// The log has failed: nobody knows whether the change survives.
    pub fn keep(&self, promise: Lsn) -> Result<()> {
        while !self.keep_for(promise, KEEP_SLICE)? {}
        Ok(())
    }

    /// As [`keep`](Self::keep), but no longer than this; gives whether nothing is left to be waited for. On a full disk
    /// that may never be.
    ///
    /// # Errors
    /// As of `keep`.
    pub fn keep_for(&self, promise: Lsn, time: Duration) -> Result<bool> {
        let Some(log) = &self.shared.log else { return Ok(true) };
        let begun = Instant::now();
        while log.is_behind() {
            if begun.elapsed() >= time {
                return Ok(false);
            }
            std::thread::sleep(LOG_PAUSE);
        }
        if promise == 0 {
            return Ok(true);
        }
        log.wait_for(promise, time).map_err(|error| {
            let text = format!("the change was made, but the log failed, so it may not survive: {error}");
            Error::new(Code::MisConf, text)
        })
    }

    /// True after [`Store::close`].
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    /// Ends the store: its sessions are closed, its threads end. Closing twice is allowed; whoever comes second waits for
    /// the first, as what he would do next may be to end the process. Not to be called by the store's own threads.
    pub fn close(&self) {
        let _one_at_a_time = self.shared.closing.lock();
        if self.shared.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.enter().close_all();
        self.shared.readers.close();
        self.shared.housekeeper.ring();
        self.shared.saver.ring();
        let mut threads = std::mem::take(&mut *self.shared.reader_threads.lock());
        threads.extend(self.shared.housekeeper.thread.lock().take());
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != std::thread::current().id()) {
            // A panic in one of them was reported when it happened.
            let _ = thread.join();
        }
        if let Some(log) = &self.shared.log
            && let Err(error) = log.close()
        {
            self.enter().state.env.log(3, &format!("the end of the log is not safe: {error}"));
        }
        self.shared.directory.lock().take();
    }

    fn start_saver(&self, data: durable::Data) -> Result<()> {
        let (weak, saver) = (Arc::downgrade(&self.shared), self.shared.saver.clone());
        let store = move || weak.upgrade().map(|shared| Store { shared });
        let builder = std::thread::Builder::new().name("peryton-saver".into());
        let thread = builder.spawn(move || checkpointing::run(&saver, &data, &store));
        let thread = thread.map_err(|error| Error::err(format!("cannot start a thread: {error}")))?;
        self.shared.reader_threads.lock().push(thread);
        Ok(())
    }

    fn start_housekeeper(&self) {
        // A weak handle: a store that nobody holds any longer must not live on for its own thread.
        let weak = Arc::downgrade(&self.shared);
        let housekeeper = self.shared.housekeeper.clone();
        let builder = std::thread::Builder::new().name("peryton-keeper".into());
        let thread = builder.spawn(move || {
            let mut returns = memory::Returns::default();
            while let Some(shared) = weak.upgrade() {
                let store = Store { shared };
                if store.is_closed() {
                    return;
                }
                // A panic here was reported by the hook; the house is kept again in a moment.
                let pause = catch_unwind(AssertUnwindSafe(|| store.enter().keep_house(store.overrun().take_doomed())));
                drop(store);
                returns.look();
                housekeeper.sleep(pause.unwrap_or(Duration::from_millis(HOUSEKEEPING_MS)));
            }
        });
        // Without the thread keys still expire when touched; only waits with a deadline would not end.
        *self.shared.housekeeper.thread.lock() = thread.ok();
    }
}

impl Housekeeper {
    fn ring(&self) {
        *self.alarm.lock() = true;
        self.bell.notify_one();
    }

    fn sleep(&self, pause: Duration) {
        let mut alarm = self.alarm.lock();
        if !*alarm {
            self.bell.wait_for(&mut alarm, pause);
        }
        *alarm = false;
    }
}

/// The right to change the store (invariant 1): whoever holds it runs, everybody else waits.
pub struct Baton<'a> {
    state: MutexGuard<'a, State>,
    housekeeper: &'a Housekeeper,
}

impl<'a> Baton<'a> {
    /// The present is read when the baton is taken; from then on each request moves it on by its own time, so that
    /// serving the next session reads no clock.
    #[inline]
    fn new(mut state: MutexGuard<'a, State>, housekeeper: &'a Housekeeper) -> Self {
        state.tick();
        Baton { state, housekeeper }
    }

    /// Opens a session for a client that came through `door`.
    pub fn open_session(&mut self, door: Door, waker: Arc<dyn Waker>) -> SessionId {
        let id = self.state.new_session_id();
        let mut session = Session::new(id, door, self.state.clock.now_ms, waker);
        // Whoever comes while no password is set stays in when one is set later (Redis 7).
        session.authenticated = self.state.config.requirepass.is_empty();
        self.state.sessions.insert(id, Box::new(session));
        self.state.stats.connections += 1;
        id
    }

    /// Ends a session; what it had begun is forgotten.
    pub fn close_session(&mut self, id: SessionId) {
        if let Some(mut session) = self.state.sessions.remove(&id) {
            connection::forget(&mut self.state, &mut session);
        }
    }

    /// The session for a series of requests; None if it is closed.
    pub fn activate(&mut self, id: SessionId) -> Option<Active<'_>> {
        let session = self.state.sessions.remove(&id)?;
        self.state.keyspace.shared.clock.no_touch = session.no_touch;
        Some(Active { session: Some(session), state: &mut self.state, housekeeper: self.housekeeper })
    }

    /// Serves one request of a session and gives the reply in plain shapes; pushes and late replies are in the outbox.
    pub fn execute(&mut self, id: SessionId, args: &[&[u8]]) -> Reply {
        self.activate(id).map_or(Reply::None, |mut active| active.execute(args).plain())
    }

    /// Is the request a statement that is known, and over in no time? See [`is_short`] for other commands.
    pub fn is_short_statement(&self, args: &[&[u8]]) -> bool {
        let (text, parameters) = match args {
            [name, text, params @ ..] if name.eq_ignore_ascii_case(b"sql") => (text, params.len()),
            [name, _, text, params @ ..] if name.eq_ignore_ascii_case(b"sql.bind") => (text, params.len()),
            _ => return false,
        };
        self.state.sql.planned(text, parameters).is_some_and(|plan| plan.is_short())
    }

    /// Lets those go first who have been waiting for the baton for a while, if there are any.
    #[inline]
    pub fn offer(&mut self) {
        MutexGuard::bump(&mut self.state);
    }

    /// Moves a checkpoint on, if one runs: for a server at the end of its turn, when it has served everybody. Takes some
    /// tens of microseconds now and then.
    #[inline]
    pub fn save_some(&mut self) {
        if self.state.journal.saves.slices.is_some() {
            checkpointing::save_some(&mut self.state);
        }
    }

    /// All the state, for tests and tools that look inside.
    pub fn state(&mut self) -> &mut State {
        &mut self.state
    }

    /// Expires keys, ends waits and sessions; gives the time until this should be done again.
    fn keep_house(&mut self, doomed: Vec<SessionId>) -> Duration {
        let state = &mut *self.state;
        doomed.into_iter().for_each(|session| connection::kill(state, session));
        state.request_rate.sample(state.monotonic_ns, state.stats.commands);
        transact::keep_house(state);
        let next = waiting::expire(state);
        state.readers.end_too_old(state.tables.engine().copied_bytes());
        if state.config.timeout_s > 0 && state.clock.now_ms >= state.idle_look_ms {
            state.idle_look_ms = state.clock.now_ms + IDLE_LOOK_MS;
            connection::end_idle(state);
        }
        let mut effect = state.new_effect();
        let (now_ms, mut slice) = (state.clock.now_ms, 0);
        // Ten slices of some hundred keys stay below a millisecond; what is left waits for the next round.
        // What the log does not take is not done, either: keys whose time is up are hidden until it does.
        state.keyspace.shared.keeps_expired = !state.journal.is_fine();
        let expires = state.active_expire && !state.keyspace.shared.keeps_expired;
        while expires && slice < 10 && state.keyspace.expire_due(now_ms, &mut effect.keys).1 {
            slice += 1;
        }
        dispatch::commit_alone(state, effect);
        state.keyspace.shared.coarse_ms = now_ms;
        let evicting = room::keep_house(state);
        trigger::keep_house(state);
        let due = schedule::keep_house(state);
        if slice == 10 || evicting {
            return Duration::from_millis(1);
        }
        let until_next = next.map_or(HOUSEKEEPING_MS as i64, |deadline| deadline - state.clock.now_ms);
        let until_next = due.map_or(until_next, |until_due| until_due.min(until_next));
        Duration::from_millis(until_next.clamp(1, HOUSEKEEPING_MS as i64) as u64)
    }

    fn close_all(&mut self) {
        let ids: Vec<SessionId> = self.state.sessions.keys().copied().collect();
        for id in ids {
            if let Some(session) = self.state.sessions.get_mut(&id) {
                session.killed = true;
                session.wake();
            }
        }
    }
}

/// Reports a panic, and makes the error that the client gets.
#[cold]
fn bug(args: &[&[u8]], panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("no message");
    let command = args.first().map(|name| String::from_utf8_lossy(name).into_owned()).unwrap_or_default();
    eprintln!("peryton: BUG in {command}: {text}; please report it");
    Error::new(Code::Bug, format!("{command} failed inside Peryton: {text}; it may be half done"))
}

/// A session being served; it goes back to the others when this is dropped.
pub struct Active<'a> {
    session: Option<Box<Session>>,
    state: &'a mut State,
    housekeeper: &'a Housekeeper,
}

impl Active<'_> {
    /// Starts loading the keys of requests that will be executed next.
    #[inline]
    pub fn prefetch<'r, 'i: 'r>(&mut self, requests: impl Iterator<Item = &'r [&'i [u8]]>) {
        let db = self.session().db;
        dispatch::prefetch(self.state, db, requests);
    }

    /// Serves one request.
    #[inline]
    pub fn execute(&mut self, args: &[&[u8]]) -> Reply {
        let Some(session) = &mut self.session else { return Reply::None };
        let state = &mut *self.state;
        // Invariant 12: a bug in a command is that command's error, not the end of the server.
        catch_unwind(AssertUnwindSafe(|| dispatch::request(state, session, args)))
            .unwrap_or_else(|panic| Reply::Error(bug(args, &*panic)))
    }

    /// What a text was compiled to, if it ran before and is a short statement by key.
    pub fn prepare(&mut self, text: &[u8]) -> Option<Prepared> {
        let session = self.session.as_mut()?;
        command::sql::prepare(self.state, session, text)
    }

    /// Serves a prepared statement; the rows that it finds are put into `found`, to be read by [`Prepared::values`]. Texts
    /// among `params` must be UTF-8. None: nothing was done, and the request `SQL.BIND` has to be made.
    ///
    /// # Errors
    /// Those of the statement.
    #[inline]
    pub fn statement(&mut self, prepared: &Prepared, params: &[Value<'_>], found: &mut Batch) -> Option<Result<Done>> {
        let session = self.session.as_mut()?;
        let state = &mut *self.state;
        catch_unwind(AssertUnwindSafe(|| dispatch::statement(state, session, prepared, params, found)))
            .unwrap_or_else(|panic| Some(Err(bug(&[prepared.text()], &*panic))))
    }

    /// The store's steady clock at the last request, nanoseconds; reads no clock.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.state.monotonic_ns
    }

    /// The record of the log that must be durable before the reply just given may leave; 0: it may leave at once.
    #[inline]
    pub fn promise(&mut self) -> Lsn {
        let Some(session) = &mut self.session else { return 0 };
        self.state.journal.promise(session, self.state.config.durability)
    }

    /// The session itself.
    #[inline]
    pub fn session(&mut self) -> &mut Session {
        self.session.as_mut().unwrap_or_else(|| unreachable!("taken only by drop"))
    }

    /// Settings of the store.
    #[inline]
    pub fn config(&self) -> &crate::config::Config {
        &self.state.config
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        // The housekeeper may sleep past a deadline that has just been set.
        let waits = session.blocked.as_ref().is_some_and(|waiting| waiting.deadline_ms.is_some());
        if std::mem::take(&mut self.state.routines.alarm) || waits {
            self.housekeeper.ring();
        }
        self.state.sessions.insert(session.id, session);
    }
}
