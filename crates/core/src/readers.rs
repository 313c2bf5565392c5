//! Reads that have had their slice of the store's time: what goes on in other threads, and how it is ended.
//!
//! The holder of the baton submits a [`Job`] with a view of the tables. A reader thread of the store takes it, runs it on
//! that view, and brings the reply to the session, which waits as in a blocking command.

use crate::engine::View;
use crate::error::{Code, Error};
use crate::limits;
use crate::session::{Elsewhere, SessionId};
use crate::sql::report;
use crate::table::catalog::Catalog;
use crate::table::datum::Datum;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// A read to be run on a view.
pub struct Job {
    /// Whose it is.
    pub session: SessionId,
    /// The database of that session, for the keys that the read looks at.
    pub db: usize,
    /// The statement.
    pub text: Box<[u8]>,
    /// Its parameters.
    pub params: Vec<Datum>,
    /// The definitions at the instant of the view.
    pub catalog: Catalog,
    /// The tables at that instant.
    pub view: Arc<dyn View>,
    /// That instant, microseconds since 1970.
    pub now_us: i64,
    /// When it must end, on the monotonic clock.
    pub deadline_ns: Option<u64>,
    /// Ends it.
    pub ticket: Arc<Ticket>,
}

/// By which a read is told from others, and ended from any thread.
#[derive(Debug, Default)]
pub struct Ticket {
    ended: AtomicU8,
    /// What the views of the store had made the engine copy when this one was taken, bytes.
    copied_before: u64,
}

const CANCELLED: u8 = 1;
const TOO_OLD: u8 = 2;

impl Ticket {
    /// A ticket for a read whose view is taken now.
    pub fn new(copied_before: u64) -> Ticket {
        Ticket { ended: AtomicU8::new(0), copied_before }
    }

    fn end(&self, why: u8) {
        // The first reason is the one that is told.
        let _ = self.ended.compare_exchange(0, why, Ordering::AcqRel, Ordering::Acquire);
    }

    /// True when it is to end.
    #[inline]
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed) != 0
    }

    /// Why it was ended.
    pub fn why(&self) -> Option<Error> {
        match self.ended.load(Ordering::Acquire) {
            0 => None,
            TOO_OLD => Some(Error::new(
                Code::Cancelled,
                format!(
                    "57014 snapshot too old: since the statement began, more than {} bytes were kept for it of what others \
                     changed; make it shorter, or run it when less is written",
                    limits::VIEW_BYTES_MAX
                ),
            )),
            _ => Some(report::cancelled()),
        }
    }
}

impl Elsewhere for Ticket {
    fn cancel(&self) {
        self.end(CANCELLED);
    }
}

/// The reads that wait or run, and the threads for them; copies are handles of the same.
#[derive(Clone, Default)]
pub struct Readers {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    work: Mutex<Work>,
    bell: Condvar,
}

#[derive(Default)]
struct Work {
    waiting: VecDeque<Job>,
    running: Vec<Arc<Ticket>>,
    /// Threads that there are, and those of them that have nothing to do.
    threads: usize,
    idle: usize,
    closed: bool,
    spawn: Option<Spawn>,
}

/// Starts one reader thread; false if the system has none to give.
pub type Spawn = Box<dyn Fn() -> bool + Send>;

impl Readers {
    /// Says how a thread is started, which happens when there is work for it.
    pub fn set_spawn(&self, spawn: Spawn) {
        self.shared.work.lock().spawn = Some(spawn);
    }

    /// Has a job run. An error when too many are waiting already.
    pub fn submit(&self, job: Job) -> Result<(), Error> {
        let work = &mut *self.shared.work.lock();
        if work.waiting.len() >= limits::READS_WAITING_MAX {
            let text = format!("{} long statements are waiting already; try again later", work.waiting.len());
            return Err(Error::new(Code::Limit, text));
        }
        if work.idle <= work.waiting.len()
            && work.threads < limits::READERS_MAX
            && work.spawn.as_ref().is_some_and(|s| s())
        {
            work.threads += 1;
        }
        if work.threads == 0 {
            return Err(Error::new(Code::Engine, "no thread can be started for a long statement"));
        }
        work.waiting.push_back(job);
        self.shared.bell.notify_one();
        Ok(())
    }

    /// The next job, for a reader thread; None when the store closes.
    pub fn next(&self) -> Option<Job> {
        let mut work = self.shared.work.lock();
        work.idle += 1;
        while work.waiting.is_empty() && !work.closed {
            self.shared.bell.wait(&mut work);
        }
        work.idle -= 1;
        let job = if work.closed { None } else { work.waiting.pop_front() };
        work.running.extend(job.as_ref().map(|job| job.ticket.clone()));
        job
    }

    /// A job is done.
    pub fn done(&self, ticket: &Arc<Ticket>) {
        self.shared.work.lock().running.retain(|running| !Arc::ptr_eq(running, ticket));
    }

    /// Ends the oldest reads while their views hold too much: `copied` is what the engine has copied so far, bytes.
    pub fn end_too_old(&self, copied: u64) {
        let work = &*self.shared.work.lock();
        let tickets = work.running.iter().chain(work.waiting.iter().map(|job| &job.ticket));
        let is_too_old = |ticket: &&Arc<Ticket>| copied.saturating_sub(ticket.copied_before) > limits::VIEW_BYTES_MAX;
        tickets.filter(is_too_old).for_each(|ticket| ticket.end(TOO_OLD));
    }

    /// Reads that wait or run.
    pub fn count(&self) -> usize {
        let work = &*self.shared.work.lock();
        work.waiting.len() + work.running.len()
    }

    /// Ends all reads and lets the threads end. What never ran is dropped.
    pub fn close(&self) {
        let waiting = {
            let work = &mut *self.shared.work.lock();
            work.closed = true;
            work.spawn = None;
            work.running.iter().for_each(|ticket| ticket.cancel());
            std::mem::take(&mut work.waiting)
        };
        self.shared.bell.notify_all();
        drop(waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_tells_the_first_reason() {
        let ticket = Ticket::new(0);
        assert_eq!(None, ticket.why());
        ticket.end(TOO_OLD);
        ticket.cancel();
        assert!(ticket.is_ended());
        assert!(ticket.why().unwrap().message.starts_with("57014 snapshot too old"));
    }

    #[test]
    fn only_old_reads_are_ended_for_what_is_kept_for_them() {
        let readers = Readers::default();
        let tickets = [0, limits::VIEW_BYTES_MAX].map(|copied| Arc::new(Ticket::new(copied)));
        readers.shared.work.lock().running.extend(tickets.iter().cloned());
        readers.end_too_old(limits::VIEW_BYTES_MAX + 1);
        assert_eq!([true, false], [tickets[0].is_ended(), tickets[1].is_ended()]);
        readers.done(&tickets[0]);
        assert_eq!(1, readers.count());
        readers.close();
        assert!(tickets[1].is_ended());
        assert!(readers.next().is_none());
    }
}
