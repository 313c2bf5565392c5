//! The watch over running procedures: ends those whose time is up or whose caller no longer waits.
//!
//! It is a thread that never asks for the GIL, which a procedure may keep for as long as it runs in C. What needs the GIL,
//! sending an exception to a thread, is done by another thread that comes and goes. Where the exception does not help
//! (in C code that does not return), the caller is answered all the same, and the procedure's session is closed under it.

use super::pool::{Call, Pool, Running};
use super::ticket::Why;
use peryton_core::reply::Reply;
use peryton_core::session::SessionId;
use peryton_core::store::Store as Core;
use pyo3::prelude::*;
use std::ffi::{c_long, c_ulong};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often a thread that does not end is sent the exception again.
const AGAIN: Duration = Duration::from_millis(50);
/// How long a call may go on after it was told to end; then its caller is answered without it.
const GRACE: Duration = Duration::from_secs(1);
/// The longest sleep.
const IDLE: Duration = Duration::from_secs(3600);

/// What sends exceptions into Python.
struct Stopper {
    stopped: Py<PyAny>,
    start_thread: Py<PyAny>,
    is_out: AtomicBool,
    /// Threads to be replaced.
    lost: AtomicUsize,
}

/// Starts the watch of a pool, once.
pub fn start(pool: &Arc<Pool>, core: &Core, stopped: Py<PyAny>, start_thread: Py<PyAny>) {
    if std::mem::replace(&mut pool.work().is_watched, true) {
        return;
    }
    let (pool, core) = (pool.clone(), core.clone());
    let stopper =
        Arc::new(Stopper { stopped, start_thread, is_out: AtomicBool::new(false), lost: AtomicUsize::new(0) });
    let builder = std::thread::Builder::new().name("peryton-watch".into());
    // Without the thread procedures run, but nobody ends them.
    let _ = builder.spawn(move || {
        while let Some(until) = pass(&pool, &core, &stopper) {
            pool.sleep(until);
        }
        // Python's objects are dropped by whoever next has the GIL.
        drop(stopper);
    });
}

/// What a look at the calls found to do.
#[derive(Default)]
struct Found {
    /// Calls to be answered without having come to their end, and whether they began.
    answers: Vec<(Arc<Call>, bool)>,
    /// Sessions whose line is to be cut, so that what they wait for ends.
    cut: Vec<Arc<crate::line::Line>>,
    /// Sessions to be closed under a procedure that does not end.
    close: Vec<SessionId>,
    /// Threads are to be sent an exception.
    stops: bool,
    /// Threads to be replaced.
    lost: usize,
    /// When to look again.
    next: Option<Instant>,
}

/// One look; gives when to look again, None at the end.
fn pass(pool: &Arc<Pool>, core: &Core, stopper: &Arc<Stopper>) -> Option<Instant> {
    let now = Instant::now();
    let mut found = look(pool, now)?;
    found.next = earlier(found.next, pool.hasten(&mut pool.work(), now));
    for line in &found.cut {
        line.hang_up();
        core.overrun().cancel(line.id());
    }
    if !found.answers.is_empty() || !found.close.is_empty() {
        let mut baton = core.enter();
        for (call, has_begun) in &found.answers {
            let error = call.stopped(*has_begun);
            baton.answer(&call.job, &call.elsewhere(), error.map_or(Reply::Nil, Reply::Error), 0);
        }
        found.close.iter().for_each(|session| baton.close_session(*session));
    }
    stopper.lost.fetch_add(found.lost, Ordering::AcqRel);
    if found.stops && !stopper.is_out.swap(true, Ordering::AcqRel) {
        send_out(pool, stopper);
    }
    Some(found.next.unwrap_or(now + IDLE))
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    [one, other].into_iter().flatten().min()
}

/// Looks at all calls.
fn look(pool: &Pool, now: Instant) -> Option<Found> {
    let work = &mut *pool.work();
    if work.is_over {
        return None;
    }
    let mut found = Found::default();
    let soonest = |found: &mut Found, at: Instant| found.next = earlier(found.next, Some(at));
    let is_over = |call: &Call| {
        if call.deadline.is_some_and(|deadline| deadline <= now) {
            call.ticket.end(Why::TooLong);
        }
        call.ticket.is_ended()
    };
    work.waiting.retain(|call| {
        let is_over = is_over(call);
        match call.deadline {
            _ if is_over => found.answers.push((call.clone(), false)),
            Some(deadline) => soonest(&mut found, deadline),
            None => {}
        }
        !is_over
    });
    for running in &mut work.running {
        if !is_over(&running.call) {
            if let Some(deadline) = running.call.deadline {
                soonest(&mut found, deadline);
            }
            continue;
        }
        found.stops = true;
        soonest(&mut found, now + AGAIN);
        // A statement that was about to begin when the line was cut runs all the same: it is ended at the next look.
        found.cut.push(running.line.clone());
        match running.told {
            None => running.told = Some(now),
            Some(told) if now - told >= GRACE && !running.is_given_up => {
                running.is_given_up = true;
                found.answers.push((running.call.clone(), true));
                found.close.push(running.line.id());
                found.lost += 1;
            }
            Some(_) => {}
        }
    }
    Some(found)
}

/// Sends the exception to all threads that are to end, and has others started in the place of those that are lost.
fn send_out(pool: &Arc<Pool>, stopper: &Arc<Stopper>) {
    let (weak, stopper) = (Arc::downgrade(pool), stopper.clone());
    let builder = std::thread::Builder::new().name("peryton-stop".into());
    let _ = builder.spawn(move || {
        Python::try_attach(|py| stop_all(py, &weak, &stopper));
        stopper.is_out.store(false, Ordering::Release);
    });
}

fn stop_all(py: Python<'_>, pool: &Weak<Pool>, stopper: &Stopper) {
    let Some(pool) = pool.upgrade() else { return };
    {
        let work = pool.work();
        let is_due = |running: &&Running| running.is_open && running.told.is_some();
        for running in work.running.iter().filter(is_due) {
            send(py, running.thread, Some(&stopper.stopped));
        }
    }
    for _ in 0..stopper.lost.swap(0, Ordering::AcqRel) {
        if let Err(error) = stopper.start_thread.call0(py) {
            error.write_unraisable(py, None);
        }
    }
}

/// Has Python raise an exception in a thread before its next instruction; None takes back what was not raised yet.
pub fn send(_py: Python<'_>, thread: c_ulong, exception: Option<&Py<PyAny>>) {
    let exception = exception.map_or(std::ptr::null_mut(), Py::as_ptr);
    // SAFETY: the GIL is held; the thread is only looked up by its number, and Python takes a reference of its own to the
    // exception, which is a class or null.
    unsafe { pyo3::ffi::PyThreadState_SetAsyncExc(thread as c_long, exception) };
}
