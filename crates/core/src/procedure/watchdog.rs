//! The watchdog: ends runs that take longer than they may, though nobody asks for that.
//!
//! There is one only where there is a limit (`procedure-time-limit`). It looks every quarter of the limit while there are
//! runs, and dozes when there are none; a run that begins then wakes it.

use super::Watch;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// How long it waits between two looks.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);
/// How long it dozes. The run that is to wake it may begin while it falls asleep, and is looked at then.
const DOZE: Duration = Duration::from_millis(500);

/// Starts it, for runs whose times are those of a clock that shows `now_ns` now.
pub fn start(watch: &Arc<Watch>, now_ns: u64) {
    let (watched, clock) = (Arc::downgrade(watch), (Instant::now(), now_ns));
    // Without a thread there is no limit; the store goes on.
    if let Ok(thread) = thread::Builder::new().name("peryton-watchdog".into()).spawn(move || keep(watched, clock)) {
        watch.set_watchdog(thread.thread().clone());
    }
}

fn keep(watched: Weak<Watch>, (started, started_ns): (Instant, u64)) {
    let mut runs = 0;
    while let Some(watch) = watched.upgrade() {
        watch.enforce(started_ns + started.elapsed().as_nanos() as u64);
        let is_idle = !watch.is_running() && watch.runs() == runs;
        runs = watch.runs();
        let pause = (Duration::from_nanos(watch.limit_ns()) / 4).clamp(PAUSE_MIN, PAUSE_MAX);
        watch.set_dozes(is_idle);
        drop(watch);
        thread::park_timeout(if is_idle { DOZE } else { pause });
    }
}
