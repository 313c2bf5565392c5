//! The calls that wait for a thread and those that run. Knows no Python; its lock is held for moments only, and whoever
//! holds it waits for nothing else.

use super::ticket::{CLOSING, Ticket, Why};
use crate::line::Line;
use parking_lot::{Condvar, Mutex, MutexGuard};
use peryton_core::error::{Code, Error, Result};
use peryton_core::limits;
use peryton_core::session::Elsewhere;
use peryton_core::store::{Job, Runner, Task};
use std::collections::VecDeque;
use std::ffi::c_ulong;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long the end of a store waits for procedures that do not end.
const CLOSE_MAX: Duration = Duration::from_secs(3);

/// For how long calls may wait while no thread takes one before another thread is woken. Threads that run short procedures
/// only take Python's lock from each other: two need twice the time of one for the same calls. So there are as many at
/// work as keep the calls going.
pub const STALL: Duration = Duration::from_micros(300);

/// A call on its way.
pub struct Call {
    /// What is to be done, and for whom.
    pub job: Job,
    /// Ends it.
    pub ticket: Arc<Ticket>,
    /// When its time is up.
    pub deadline: Option<Instant>,
}

impl Call {
    /// What messages call it.
    pub fn what(&self) -> String {
        match &self.job.task {
            Task::Call { routine, .. } => format!("procedure {}", routine.name),
            Task::Reload => "PROCEDURE RELOAD".into(),
        }
    }

    /// Its reply if it was ended.
    pub fn stopped(&self, has_begun: bool) -> Option<Error> {
        self.ticket.error(&self.what(), has_begun)
    }

    /// The ticket as the store knows it.
    pub fn elsewhere(&self) -> Arc<dyn Elsewhere> {
        self.ticket.clone()
    }
}

/// A call that a thread has taken.
pub struct Running {
    /// The call.
    pub call: Arc<Call>,
    /// When the thread took it.
    pub since: Instant,
    /// The thread, as Python numbers it.
    pub thread: c_ulong,
    /// The line that it works on.
    pub line: Arc<Line>,
    /// The user's code runs now, so an exception may be sent to the thread.
    pub is_open: bool,
    /// When it was first told to end.
    pub told: Option<Instant>,
    /// It did not end, and its caller was answered without it.
    pub is_given_up: bool,
}

/// What there is to do.
#[derive(Default)]
pub struct Work {
    /// Calls that wait for a thread.
    pub waiting: VecDeque<Arc<Call>>,
    /// Calls that a thread has.
    pub running: Vec<Running>,
    /// Threads that there are, those included that were given up.
    pub threads: usize,
    /// Threads that wait for a call, and those of them that have been woken.
    pub idle: usize,
    pub woken: usize,
    /// When a thread last took a call.
    pub taken: Option<Instant>,
    /// No more calls are taken.
    pub closed: bool,
    /// Nobody watches any longer.
    pub is_over: bool,
    /// The watch has been started.
    pub is_watched: bool,
    /// Somebody wants the watch to look.
    pub look: bool,
    /// Until when the watch sleeps; None while it does not.
    pub asleep_until: Option<Instant>,
}

impl Work {
    /// Is any thread at work, or about to be?
    fn is_attended(&self) -> bool {
        let lost = self.running.iter().filter(|running| running.is_given_up).count();
        self.woken > 0 || self.threads > self.idle + lost
    }

    /// Is there somebody else who comes along with short calls?
    fn is_fast(&self, now: Instant) -> bool {
        let is_young = |running: &Running| !running.is_given_up && now.saturating_duration_since(running.since) < STALL;
        self.running.iter().any(is_young)
    }
}

/// Runs the procedures of a store.
pub struct Pool {
    me: Weak<Pool>,
    work: Mutex<Work>,
    /// A call has come, or the pool closes.
    arrival: Condvar,
    /// The watch has something to look at.
    alarm: Condvar,
    /// A thread has ended.
    departure: Condvar,
}

impl Pool {
    /// Without threads or calls.
    pub fn new() -> Arc<Pool> {
        Arc::new_cyclic(|me| Pool {
            me: me.clone(),
            work: Mutex::default(),
            arrival: Condvar::new(),
            alarm: Condvar::new(),
            departure: Condvar::new(),
        })
    }

    /// The lock: to be held for a moment.
    pub fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock()
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.work().threads
    }

    /// Has the watch look at the calls.
    pub fn look(&self) {
        self.work().look = true;
        self.alarm.notify_one();
    }

    /// For the watch: sleeps until somebody wants it to look, or `until`.
    pub fn sleep(&self, until: Instant) {
        let mut work = self.work();
        work.asleep_until = Some(until);
        while !work.look && !self.alarm.wait_until(&mut work, until).timed_out() {}
        (work.look, work.asleep_until) = (false, None);
    }

    /// The next call, for a thread; None when it is to end. From now on the call counts as running, on this line.
    /// `was_short`: the thread's last one was, so it is not missed where others are as quick.
    pub fn next(&self, thread: c_ulong, was_short: bool, line: impl FnOnce() -> Arc<Line>) -> Option<Arc<Call>> {
        let mut work = self.work();
        let mut rests = was_short && work.is_fast(Instant::now());
        loop {
            if work.closed {
                return None;
            }
            if !rests && let Some(call) = work.waiting.pop_front() {
                let since = Instant::now();
                work.taken = Some(since);
                work.running.push(Running {
                    call: call.clone(),
                    since,
                    thread,
                    line: line(),
                    is_open: false,
                    told: None,
                    is_given_up: false,
                });
                return Some(call);
            }
            if rests && !work.waiting.is_empty() {
                self.look_by(&mut work, Instant::now() + STALL);
            }
            work.idle += 1;
            self.arrival.wait(&mut work);
            work.idle -= 1;
            work.woken = work.woken.saturating_sub(1);
            rests = false;
        }
    }

    /// For the watch: wakes a thread when calls wait and none is taken; gives when to look again.
    pub fn hasten(&self, work: &mut Work, now: Instant) -> Option<Instant> {
        if work.waiting.is_empty() || work.idle == work.woken {
            return None;
        }
        let stalled_at = work.taken.map_or(now, |taken| taken + STALL);
        if stalled_at > now {
            return Some(stalled_at);
        }
        self.wake_one(work);
        Some(now + STALL)
    }

    /// Has the watch look at that time at the latest.
    fn look_by(&self, work: &mut Work, at: Instant) {
        if work.asleep_until.is_none_or(|until| at < until) {
            work.look = true;
            self.alarm.notify_one();
        }
    }

    fn wake_one(&self, work: &mut Work) {
        work.woken += usize::from(self.arrival.notify_one());
    }

    /// A thread is done with its call; gives how long it took. False: the call was given up, and another thread has the
    /// place of this one.
    pub fn done(&self, thread: c_ulong) -> (bool, Duration) {
        let mut work = self.work();
        let Some(at) = work.running.iter().position(|running| running.thread == thread) else {
            return (true, Duration::ZERO);
        };
        let running = work.running.swap_remove(at);
        (!running.is_given_up, running.since.elapsed())
    }

    /// A thread begins.
    pub fn arrive(&self) {
        self.work().threads += 1;
    }

    /// A thread ends.
    pub fn leave(&self) {
        self.work().threads -= 1;
        self.departure.notify_all();
    }

    /// Ends all calls and takes no more. Gives those that never began.
    pub fn begin_closing(&self) -> Vec<Arc<Call>> {
        let mut work = self.work();
        work.closed = true;
        work.running.iter().for_each(|running| running.call.ticket.end(Why::Closing));
        let waiting: Vec<_> = work.waiting.drain(..).collect();
        waiting.iter().for_each(|call| call.ticket.end(Why::Closing));
        work.look = true;
        self.alarm.notify_one();
        self.arrival.notify_all();
        waiting
    }

    /// Waits for the threads to end, but not for long. Not to be called under the GIL, which they need for that.
    pub fn end_closing(&self) {
        let until = Instant::now() + CLOSE_MAX;
        let mut work = self.work();
        while work.threads > 0 && !self.departure.wait_until(&mut work, until).timed_out() {}
        // Those that are left stay until the process ends, and nobody may ask Python for anything once it ends.
        (work.is_over, work.look) = (true, true);
        self.alarm.notify_one();
    }
}

impl Runner for Pool {
    fn submit(&self, job: Job) -> Result<Arc<dyn Elsewhere>> {
        let deadline = job.limit.and_then(|limit| Instant::now().checked_add(limit));
        let ticket = Arc::new(Ticket::new(self.me.clone()));
        let mut work = self.work();
        if work.closed {
            return Err(Error::new(Code::Cancelled, format!("{CLOSING} the store is closing")));
        }
        if work.waiting.len() >= limits::PROCEDURES_WAITING_MAX {
            let text = format!("{} calls of procedures are waiting already; try again later", work.waiting.len());
            return Err(Error::new(Code::Limit, text));
        }
        work.waiting.push_back(Arc::new(Call { job, ticket: ticket.clone(), deadline }));
        let is_attended = work.is_attended();
        if !is_attended {
            self.wake_one(&mut work);
        }
        // Mostly the watch will be awake before; waking it for each call would double the price of a call.
        let look_at = if is_attended && work.idle > work.woken { Some(Instant::now() + STALL) } else { deadline };
        look_at.into_iter().for_each(|at| self.look_by(&mut work, at));
        Ok(ticket)
    }
}
