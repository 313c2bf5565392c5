//! The event loop: in each turn it reads every socket that has something, takes the baton once to execute all that came,
//! then writes every reply.

use crate::sockets::{Newcomer, Sockets};
use crate::wake::{ConnectionWaker, WakeQueue};
use parking_lot::Mutex;
use peryton_core::session::Door;
use peryton_core::store::{Baton, Log, Lsn, Store};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

/// What an event loop shares with its guard and with who stops it.
pub struct Shared {
    /// The store behind the door.
    pub store: Store,
    /// The sockets: the loop's, but for the time it executes, when the guard may have them.
    pub sockets: Mutex<Sockets>,
    /// Sessions to look at.
    pub queue: Arc<WakeQueue>,
    /// Set to end the loop.
    pub stop: AtomicBool,
    /// How long a script may run before others hear that it is busy, milliseconds.
    pub busy_after_ms: AtomicI64,
    /// SHUTDOWN was called.
    pub was_shut_down: AtomicBool,
    /// No password is asked for.
    pub is_open: AtomicBool,
    /// Some connection waits for the log, whose progress is to wake the loop.
    pub awaits_log: AtomicBool,
}

impl Shared {
    /// Makes the loop end soon.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.queue.ring();
    }
}

/// Serves until stopped, then closes all connections.
pub fn run(shared: &Shared) -> io::Result<()> {
    let mut unasked = 0;
    while !shared.stop.load(Ordering::Acquire) && !shared.store.is_closed() {
        wait(shared, &mut unasked)?;
        execute(shared);
        let ended = shared.sockets.lock().finish_turn();
        close_sessions(shared, &ended);
    }
    if let Some(log) = shared.store.log() {
        // What was promised is kept before the connections are closed. If the log has failed they are told nothing, nor
        // while the disk is full, which may be for ever.
        let awaited = shared.sockets.lock().awaited();
        let _ = log.wait_unless_full(awaited);
        release(&mut shared.sockets.lock(), log);
    }
    let ended = shared.sockets.lock().remove_all();
    close_sessions(shared, &ended);
    Ok(())
}

/// Turns after which the log is told what is waited for, although there are requests that could share its sync.
const UNASKED_TURNS_MAX: u32 = 8;

/// Waits until a socket has something, or a reply may leave.
///
/// The log is told what is waited for when nothing else is to be done: requests that are there already share its sync.
fn wait(shared: &Shared, unasked: &mut u32) -> io::Result<()> {
    let Some(log) = shared.store.log() else { return shared.sockets.lock().wait() };
    // The disk is slower than the clients: nothing more is read from them until it has caught up.
    while log.is_behind() && !shared.stop.load(Ordering::Acquire) {
        std::thread::sleep(LOG_PAUSE);
    }
    let mut sockets = shared.sockets.lock();
    release(&mut sockets, log);
    let awaited = sockets.awaited();
    if awaited > 0 && *unasked < UNASKED_TURNS_MAX {
        *unasked += 1;
        sockets.poll()?;
        release(&mut sockets, log);
        if sockets.in_turn(0).is_some() {
            return Ok(());
        }
    }
    *unasked = 0;
    // Before the log is told: whoever sees progress after that rings.
    shared.awaits_log.store(awaited > 0, Ordering::SeqCst);
    if awaited > 0 {
        log.want(awaited);
        // And what was done before is seen here.
        release(&mut sockets, log);
    }
    sockets.wait()?;
    release(&mut sockets, log);
    Ok(())
}

/// How often a log that is behind is looked at.
const LOG_PAUSE: Duration = Duration::from_millis(1);

fn release(sockets: &mut Sockets, log: &Log) {
    // Not from its condition: after a failure the log still tries to save what is waited for. Nor from its last record: it
    // may not have taken the one that is waited for.
    let has_failed = matches!(log.poll(Lsn::MAX), Some(Err(_)));
    sockets.release(log.durable(), has_failed);
}

fn close_sessions(shared: &Shared, ended: &[u64]) {
    if !ended.is_empty() {
        let mut baton = shared.store.enter();
        ended.iter().for_each(|session| baton.close_session(*session));
    }
}

/// Under the baton: opens sessions for new clients, then executes what every connection of the turn has received.
fn execute(shared: &Shared) {
    let mut baton = shared.store.enter();
    shared.queue.set_awake(true);
    // Not in the loop's head, which would hold the lock for its length.
    let newcomers = shared.sockets.lock().newcomers();
    for newcomer in newcomers {
        open(shared, &mut baton, newcomer);
    }
    let mut at = 0;
    loop {
        let next = {
            let mut sockets = shared.sockets.lock();
            // Serving one session may wake another, even one that was served earlier in this turn.
            shared.queue.take().into_iter().for_each(|token| sockets.serve_again(token));
            let Some(token) = sockets.in_turn(at) else { break };
            sockets.take(token).map(|connection| (token, connection))
        };
        at += 1;
        if let Some((token, mut connection)) = next {
            // The sockets are free meanwhile: if a script takes long, the guard answers the others.
            connection.run(&mut baton);
            shared.sockets.lock().put(token, connection);
            // Embedded callers and the housekeeper may have been waiting.
            baton.offer();
        }
    }
    // Those who were served get their replies after this, so it is short.
    baton.save_some();
    shared.queue.set_awake(false);
    shared.busy_after_ms.store(baton.state().config.busy_reply_threshold_ms, Ordering::Relaxed);
    shared.is_open.store(baton.state().config.requirepass.is_empty(), Ordering::Relaxed);
    if baton.state().shutdown_wanted {
        shared.was_shut_down.store(true, Ordering::Release);
        shared.stop.store(true, Ordering::Release);
    }
}

/// Gives a new client its session.
fn open(shared: &Shared, baton: &mut Baton<'_>, newcomer: Newcomer) {
    let Newcomer { token, address } = newcomer;
    let mut sockets = shared.sockets.lock();
    let is_full = sockets.len() > baton.state().config.maxclients;
    let Some(connection) = sockets.get_mut(token) else { return };
    if is_full {
        connection.dismiss("max number of clients reached");
        return;
    }
    let session = baton.open_session(Door::Resp, Arc::new(ConnectionWaker { token, queue: shared.queue.clone() }));
    if let Some(mut active) = baton.activate(session) {
        active.session().address = address;
    }
    connection.session = Some(session);
    sockets.serve_again(token);
}
