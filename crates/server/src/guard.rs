//! The guard of an event loop: while a script or a statement overruns and the loop cannot serve, it answers the other
//! clients, and lets them end it.
//!
//! It is a thread that sleeps nearly always. When one has run for longer than the threshold, the loop is either
//! executing it or waiting for the baton, and in both cases has let go of the sockets.

use crate::connection::Connection;
use crate::event_loop::Shared;
use peryton_core::reply::Reply;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often the guard looks, and how often it serves while the store is busy.
const PAUSE: Duration = Duration::from_millis(50);

/// Watches until the loop ends.
pub fn run(shared: &Shared) {
    while !shared.stop.load(Ordering::Acquire) && !shared.store.is_closed() {
        std::thread::sleep(PAUSE);
        if is_busy(shared) {
            serve(shared);
        }
    }
}

fn is_busy(shared: &Shared) -> bool {
    let threshold_ms = shared.busy_after_ms.load(Ordering::Relaxed).max(0) as u128;
    shared.store.overrun().running_for().is_some_and(|time| time.as_millis() >= threshold_ms)
}

/// Answers what has arrived.
fn serve(shared: &Shared) {
    // The loop holds the sockets while it waits for the network or writes; then it is not stuck.
    let Some(mut sockets) = shared.sockets.try_lock() else { return };
    if sockets.look().is_ok() {
        sockets.serve_each(|connection| answer(shared, connection));
    }
}

fn answer(shared: &Shared, connection: &mut Connection) {
    let may_kill = connection.is_authenticated() || shared.is_open.load(Ordering::Relaxed);
    connection.run_busy(|args| match args {
        args if may_kill && let Some(reply) = shared.store.overrun().answer(args) => reply,
        _ => Reply::Error(shared.store.overrun().busy()),
    });
    connection.send();
}
