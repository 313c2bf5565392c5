//! All mutable state of a store, which whoever holds the baton may change (invariant 1).

mod routines;

pub use routines::Routines;

use crate::config::Config;
use crate::env::{Env, Xoshiro};
use crate::error::{Code, Error};
use crate::journal::Journal;
use crate::keyspace::{EventClass, Keyspace, Wants};
use crate::limits;
use crate::meter::Meter;
use crate::procedure::external::Externals;
use crate::procedure::{Scripts, Watch};
use crate::pubsub::PubSub;
use crate::readers::Readers;
use crate::session::{Session, SessionId};
use crate::slowlog::SlowLog;
use crate::sql::Sql;
use crate::txn::{Effect, Tables, Transactions};
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The time of the request being served; read once per request, so that a command sees one instant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// Milliseconds since 1970.
    pub now_ms: i64,
    /// Microseconds since 1970.
    pub now_us: i64,
    /// The steady clock, nanoseconds.
    pub steady_ns: u64,
}

/// Counters for INFO.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Requests executed.
    pub commands: u64,
    /// Clients that ever connected.
    pub connections: u64,
    /// Changes since the start (Redis: rdb_changes_since_last_save).
    pub dirty: u64,
    /// Messages published.
    pub published: u64,
    /// Error replies by code word.
    pub errors: BTreeMap<String, u64>,
    /// Error replies in all.
    pub errors_total: u64,
}

/// Whether memory is short, as the last request found it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shortage {
    /// More is used than may be, and no key could be evicted.
    pub is_full: bool,
    /// More is used than may be, and the rest of the eviction waits for the next request or the housekeeper.
    pub goes_on: bool,
    /// Since when more has been used than may be, on the monotonic clock, nanoseconds.
    pub since_ns: Option<u64>,
    /// How long that was so before, nanoseconds.
    pub total_ns: u64,
}

/// Calls and time of one command.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommandStats {
    /// Times called.
    pub calls: u64,
    /// Time spent, nanoseconds.
    pub ns: u64,
    /// Calls refused before they ran.
    pub rejected: u64,
    /// Calls that failed.
    pub failed: u64,
}

/// The whole of a store's state.
pub struct State {
    /// Clock and randomness.
    pub env: Box<dyn Env>,
    /// The present instant.
    pub clock: Clock,
    /// The steady clock when it was last read, nanoseconds.
    pub monotonic_ns: u64,
    /// Randomness for sampling.
    pub random: Xoshiro,
    /// Keys and values.
    pub keyspace: Keyspace,
    /// SQL tables.
    pub tables: Tables,
    /// Transactions that BEGIN opened.
    pub transactions: Transactions,
    /// Statements over them.
    pub sql: Sql,
    /// Subscriptions.
    pub pubsub: PubSub,
    /// Settings.
    pub config: Config,
    /// Counters.
    pub stats: Stats,
    /// Counters by command, in the order of the command table.
    pub command_stats: Vec<CommandStats>,
    /// Scripts and the interpreter that runs them.
    pub scripts: Scripts,
    /// Triggers and schedules.
    pub routines: Routines,
    /// Procedures that run outside of the store.
    pub externals: Externals,
    /// Long reads, which run in other threads.
    pub readers: Readers,
    /// The statement that holds the store, as others see it.
    pub statement_watch: Arc<Watch>,
    /// How many requests are executed a second.
    pub request_rate: Meter,
    /// What became of the memory limit.
    pub shortage: Shortage,
    /// Slow requests.
    pub slowlog: SlowLog,
    /// All sessions but the one being served.
    pub sessions: HashMap<SessionId, Box<Session>>,
    /// Sessions that wait with a deadline, by deadline (milliseconds since 1970).
    pub deadlines: BTreeSet<(i64, SessionId)>,
    /// When the store was opened, milliseconds since 1970.
    pub started_ms: i64,
    /// A random name of this run, 40 hexadecimal digits.
    pub run_id: String,
    /// Which changes must be materialised although no command asks: the log's and the tests' wish.
    pub wants: Wants,
    /// Expired keys are removed though nobody touches them (DEBUG SET-ACTIVE-EXPIRE).
    pub active_expire: bool,
    /// When idle clients are looked for next, milliseconds since 1970.
    pub idle_look_ms: i64,
    /// The log, if there is one.
    pub journal: Journal,
    /// SHUTDOWN was called: the doors close, and who opened them ends the process.
    pub shutdown_wanted: bool,
    /// Whether DEBUG may be used.
    pub debug_allowed: bool,
    /// Effects kept for tests, when `wants` asks for them and nobody logs.
    pub recorded: Option<Vec<Effect>>,
    next_session: SessionId,
    wall_us: i64,
    wall_at_ns: u64,
}

/// The wall clock is not older than this when the baton is taken: it may be set, or run at another pace.
const WALL_CLOCK_EVERY_NS: u64 = 1_000_000;

impl State {
    /// Empty state in a world given by `env`; `commands` is the size of the command table.
    pub fn new(mut env: Box<dyn Env>, commands: usize) -> Self {
        let now_us = env.now_us();
        let wall_at_ns = env.monotonic_ns();
        let clock = Clock { now_ms: now_us / 1000, now_us, steady_ns: wall_at_ns };
        let mut keyspace = Keyspace::new(limits::DATABASES);
        keyspace.shared.coarse_ms = clock.now_ms;
        let run_id = (0..3).map(|_| format!("{:016x}", env.random_u64())).collect::<String>()[..40].to_string();
        State {
            clock,
            monotonic_ns: wall_at_ns,
            random: Xoshiro::from_seed(env.random_u64()),
            env,
            keyspace,
            tables: Tables::new(Box::new(crate::engine::Memory::new())),
            transactions: Transactions::default(),
            sql: Sql::default(),
            pubsub: PubSub::default(),
            config: Config::default(),
            stats: Stats::default(),
            command_stats: vec![CommandStats::default(); commands],
            scripts: Scripts::default(),
            routines: Routines::default(),
            externals: Externals::default(),
            readers: Readers::default(),
            statement_watch: Arc::default(),
            request_rate: Meter::default(),
            shortage: Shortage::default(),
            slowlog: SlowLog::default(),
            sessions: HashMap::new(),
            deadlines: BTreeSet::new(),
            started_ms: clock.now_ms,
            run_id,
            wants: Wants::empty(),
            active_expire: true,
            idle_look_ms: 0,
            journal: Journal::none(clock.now_ms / 1000),
            shutdown_wanted: false,
            debug_allowed: false,
            recorded: None,
            next_session: 1,
            wall_us: now_us,
            wall_at_ns,
        }
    }

    /// Reads the steady clock, and now and then the wall clock too; in between [`State::clock_at`] reckons.
    pub fn tick(&mut self) {
        if self.advance().saturating_sub(self.wall_at_ns) >= WALL_CLOCK_EVERY_NS {
            self.wall_us = self.env.now_us();
            self.wall_at_ns = self.env.monotonic_ns();
            self.monotonic_ns = self.wall_at_ns;
            self.clock = self.clock_at(self.wall_at_ns);
        }
    }

    /// Reads the steady clock, and moves the present to it; gives its nanoseconds.
    #[inline]
    pub fn advance(&mut self) -> u64 {
        self.monotonic_ns = self.env.monotonic_ns();
        self.clock = self.clock_at(self.monotonic_ns);
        self.monotonic_ns
    }

    /// The instant at which the steady clock shows `monotonic_ns`.
    #[inline]
    fn clock_at(&self, monotonic_ns: u64) -> Clock {
        let now_us = self.wall_us + (monotonic_ns.saturating_sub(self.wall_at_ns) / 1000) as i64;
        Clock { now_ms: now_us / 1000, now_us, steady_ns: monotonic_ns }
    }

    /// True when more memory is used than may be. What is about to be freed does not count.
    #[inline]
    pub fn is_over_limit(&self) -> bool {
        self.config.maxmemory != 0 && crate::memory::used() > self.config.maxmemory && self.stays_over_limit()
    }

    #[cold]
    fn stays_over_limit(&self) -> bool {
        let reaper = &self.keyspace.shared.reaper;
        crate::memory::used() > self.config.maxmemory.saturating_add(reaper.pending_bytes())
    }

    /// Counts an error reply.
    pub fn count_error(&mut self, error: &Error) {
        self.stats.errors_total += 1;
        let word = match error.code {
            Code::Custom => error.message.split(' ').next().unwrap_or("ERR"),
            code => code.word(),
        };
        // Scripts may invent words without end; only the first hundred are told apart.
        if self.stats.errors.len() < 100 || self.stats.errors.contains_key(word) {
            *self.stats.errors.entry(word.to_string()).or_default() += 1;
        }
    }

    /// Another session, or the one being served.
    pub fn session_mut<'a>(&'a mut self, current: &'a mut Session, id: SessionId) -> Option<&'a mut Session> {
        if current.id == id { Some(current) } else { self.sessions.get_mut(&id).map(|session| &mut **session) }
    }

    /// A number for a new session.
    pub fn new_session_id(&mut self) -> SessionId {
        self.next_session += 1;
        self.next_session - 1
    }

    /// An empty effect that keeps what the log and subscribers want.
    #[inline]
    pub fn new_effect(&self) -> Effect {
        Effect::new(self.wants, self.events_wanted())
    }

    /// Classes of events that somebody may listen to.
    #[inline]
    pub fn events_wanted(&self) -> EventClass {
        self.config.notify.effective() | self.routines.classes()
    }

    /// Follows the catalog's triggers and schedules.
    #[inline]
    pub fn follow_routines(&mut self) {
        if !self.routines.is_current(&self.tables.catalog) {
            self.routines.follow(&self.tables.catalog, self.monotonic_ns);
        }
    }
}
