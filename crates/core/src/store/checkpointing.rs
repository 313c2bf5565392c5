//! The thread that makes checkpoints: when one is asked for, when the log has grown, when time has passed.

use super::Store;
use super::durable::{Data, new_id};
use crate::command::waiting;
use crate::directory;
use crate::env::{DirectoryFiles, Files, go_last, whereabouts};
use crate::error::{Code, Error, Result};
use crate::journal::{Journal, Slices};
use crate::recovery::{About, Run, Written, remove_others, remove_unfinished};
use crate::reply::Reply;
use crate::state::State;
use crate::wal::{LogError, Lsn, StoreId};
use parking_lot::{Condvar, Mutex};
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// How often is looked whether a checkpoint is due.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// What one slice of keys may cost, in the units of [`Run::slice`]: less than a hundred microseconds, which is less than a
/// request takes on its way. Smaller ones wake the thread more often, and each time it takes a processor from those who
/// serve, of which there may be two: that cost them more than the slices themselves.
const SLICE_BUDGET: usize = 32 << 10;
/// The same where a server saves at the end of its turn: no thread has to wake for it, so it may be less.
const SERVER_BUDGET: usize = 8 << 10;
/// Where no server has saved anything for so long, nanoseconds, this thread does.
const SERVED_WITHIN_NS: u64 = 30_000_000;
/// How often this thread looks where a server saves.
const SERVED_LOOK: Duration = Duration::from_millis(20);
/// What was saved is written when it is so much, bytes: another thread wakes for it.
const WRITE_BYTES: usize = 256 << 10;
/// The pause after a slice, in lengths of it: the store has most of the time.
const PAUSE_FACTOR: u32 = 20;
/// The same in a store that nobody asks anything.
const PAUSE_FACTOR_IDLE: u32 = 1;
/// The longest pause: on a full machine a piece takes long because others go first.
const PAUSE_MAX: Duration = Duration::from_millis(4);
/// Nobody asks anything when there was no request for so long.
const IDLE_AFTER: Duration = Duration::from_millis(100);

/// Wakes the thread before its time.
#[derive(Default)]
pub(super) struct Saver {
    alarm: Mutex<bool>,
    bell: Condvar,
}

impl Saver {
    /// Has the thread look now.
    pub fn ring(&self) {
        *self.alarm.lock() = true;
        self.bell.notify_one();
    }

    fn sleep(&self) {
        let mut alarm = self.alarm.lock();
        if !*alarm {
            self.bell.wait_for(&mut alarm, LOOK_EVERY);
        }
        *alarm = false;
    }
}

/// Looks and saves until the store is closed.
pub(super) fn run(saver: &Arc<Saver>, data: &Data, store: &dyn Fn() -> Option<Store>) {
    loop {
        saver.sleep();
        let Some(store) = store() else { return };
        if store.is_closed() {
            return;
        }
        // A panic here was reported by the hook; the thread must not end while others wait for what it does.
        let _ = catch_unwind(AssertUnwindSafe(|| turn(&store, data)));
    }
}

fn turn(store: &Store, data: &Data) {
    tidy_log(data);
    back_up(store, data);
    let is_due = begin_if_due(&mut store.enter().state, data);
    if is_due {
        let begun = Instant::now();
        let result = whole(|| save(store, data));
        end(&mut store.enter().state, result, begun.elapsed());
    }
}

/// What `work` gives; a panic, which the hook has reported, is an error as any other (invariant 12). Whoever waits for the
/// end of the work hears of it, and the next one can begin.
fn whole<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(Error::new(Code::Bug, "no checkpoint could be made: it failed inside Peryton")))
}

/// Removes the log before the last checkpoint, as far as it is still there: the segment that was written then can go when
/// the next has begun, which the log's thread does when it comes to it.
fn tidy_log(data: &Data) {
    if let Some(log) = &data.log
        && log.is_untidy()
    {
        // What cannot be removed is tried again.
        let _ = log.tidy();
    }
}

/// Is it time? Then it has begun.
fn begin_if_due(state: &mut State, data: &Data) -> bool {
    // Not by the wall clock, which may be put back.
    let now_ns = state.monotonic_ns;
    let config = &state.config;
    let saves = &state.journal.saves;
    let has_changed = state.stats.dirty != saves.dirty_at;
    let log_bytes = data.log.as_ref().map_or(0, |log| log.needed_bytes());
    let is_long = config.checkpoint_log_bytes > 0 && log_bytes > config.checkpoint_log_bytes && has_changed;
    let idle = Duration::from_nanos(now_ns.saturating_sub(saves.tried_ns)).saturating_add(saves.age_when_opened);
    let is_old = config.checkpoint_seconds > 0
        && idle >= Duration::from_secs(config.checkpoint_seconds)
        && has_changed
        && data.log.is_some();
    // After a failure, as on a full disk, it is not tried again at once.
    let may_try = saves.failed.is_none() || now_ns.saturating_sub(saves.tried_ns) >= RETRY.as_nanos() as u64;
    if !(saves.wanted || may_try && (is_long || is_old)) {
        return false;
    }
    let dirty = state.stats.dirty;
    let saves = &mut state.journal.saves;
    (saves.wanted, saves.running, saves.dirty_at_begin) = (false, true, dirty);
    (saves.tried_ns, saves.age_when_opened) = (now_ns, Duration::ZERO);
    // Who asks while it runs waits for the next one.
    saves.served = std::mem::take(&mut saves.waiting);
    saves.ending = std::mem::take(&mut saves.ends);
    true
}

/// After a failed checkpoint the next one by itself comes so much later.
const RETRY: Duration = Duration::from_secs(10);

fn end(state: &mut State, result: Result<Written>, took: Duration) {
    let now_s = state.clock.now_ms / 1000;
    let saves = &mut state.journal.saves;
    saves.running = false;
    saves.took_ms = took.as_millis() as i64;
    let reply = match result {
        Ok(_) => {
            (saves.failed, saves.last_s, saves.dirty_at) = (None, now_s, saves.dirty_at_begin);
            saves.count += 1;
            // Whoever asked for it is told next, and that wakes the server.
            state.shutdown_wanted |= std::mem::take(&mut saves.ending);
            Reply::Ok
        }
        Err(error) => {
            saves.failed = Some(error.message.to_string());
            saves.ending = false;
            state.env.log(3, &error.message);
            error.into()
        }
    };
    for (session, ticket) in std::mem::take(&mut state.journal.saves.served) {
        waiting::bring(state, session, &ticket, reply.clone());
    }
}

/// Makes the backups that are asked for: each is a checkpoint in a directory of its own.
fn back_up(store: &Store, data: &Data) {
    loop {
        let (backup, place) = {
            let saves = &mut store.enter().state.journal.saves;
            let Some(backup) = saves.backups.pop() else { return };
            let place = saves.backup_place.join(&backup.name);
            (backup, place)
        };
        let reply = match copy_to(store, data, &place) {
            Ok(()) => Reply::bulk(place.display().to_string().as_bytes()),
            Err(error) => Error::err(format!("no backup in {}: {}", place.display(), error.message)).into(),
        };
        waiting::bring(&mut store.enter().state, backup.session, &backup.ticket, reply);
    }
}

fn copy_to(store: &Store, data: &Data, place: &Path) -> Result<()> {
    let failed = |error: io::Error| Error::err(error.to_string());
    // Also a link that leads nowhere is something.
    if place.symlink_metadata().is_ok() {
        return Err(Error::err("there is something of this name"));
    }
    directory::make(place).map_err(failed)?;
    // A store of its own: what it will be told is another history than ours, though both begin alike.
    let result = whole(|| save_in(store, data, &DirectoryFiles::new(place), new_id()));
    if result.is_err() {
        // What is left of it would only look like a backup.
        let _ = fs::remove_dir_all(place);
    }
    result.map(drop)
}

/// Makes a checkpoint, while the store serves; the log before it goes.
fn save(store: &Store, data: &Data) -> Result<Written> {
    let written = whole(|| save_in(store, data, &*data.files, data.id)).inspect_err(|_| {
        // After a panic there may be some.
        let _ = remove_unfinished(&*data.files);
    })?;
    tidy(data, written.lsn);
    Ok(written)
}

/// Writes a checkpoint to these files, as one of the store `id`.
fn save_in(store: &Store, data: &Data, files: &dyn Files, id: StoreId) -> Result<Written> {
    let run = begin(&mut store.enter().state, id)?;
    let (mut run, result) = walk(store, run, files);
    // A checkpoint must not hold what the log might yet lose: who was told nothing must not see it come back.
    let lsn = run.lsn();
    let result =
        result.and_then(|()| await_log(store, data, lsn)).and_then(|()| run.finish(files).map_err(Error::from));
    result.map_err(|error| {
        run.discard(files);
        Error::new(error.code, format!("{}{}", error.message, whereabouts(files)))
    })
}

/// Waits until the log has a record safe, which on a full disk may take for ever; but not after the store was closed.
fn await_log(store: &Store, data: &Data, lsn: Lsn) -> Result<()> {
    let Some(log) = &data.log else { return Ok(()) };
    let failed = |error: LogError| Error::err(format!("no checkpoint could be made: {error}"));
    while !log.wait_for(lsn, LOOK_EVERY).map_err(failed)? {
        if store.is_closed() {
            return Err(being_closed());
        }
    }
    Ok(())
}

fn being_closed() -> Error {
    Error::err("no checkpoint could be made: the store is being closed")
}

/// Saves keys in slices under the baton, and writes what they hold, and the tables, off it, in a thread that goes last: on
/// two cores it would take one of them from those who serve.
fn walk(store: &Store, run: Run, files: &dyn Files) -> (Run, Result<()>) {
    store.enter().state.journal.saves.slices = Some(Slices { keys: run.keys().clone(), due_ns: 0 });
    let end = std::thread::scope(|scope| {
        let (to_write, asked) = mpsc::channel::<(Run, Duration)>();
        let (written, answers) = mpsc::channel();
        let write = move || {
            go_last();
            for (mut run, time) in asked {
                let result = write_for(&mut run, files, time);
                if written.send((run, result)).is_err() {
                    return;
                }
            }
        };
        let writer = std::thread::Builder::new().name("peryton-writer".into()).spawn_scoped(scope, write);
        // Without the thread the work is done here.
        let write = |mut run: Run, time| match &writer {
            Ok(_) => {
                to_write.send((run, time)).unwrap_or_else(|_| unreachable!("the writer waits for more"));
                answers.recv().unwrap_or_else(|_| unreachable!("the writer answers"))
            }
            Err(_) => {
                let result = write_for(&mut run, files, time);
                (run, result)
            }
        };
        let end = walk_with(store, run, write);
        drop(to_write);
        end
    });
    store.enter().state.journal.saves.slices = None;
    end
}

/// Writes the next parts for about this long, and rests as long after each as it took; true: there is more of the tables.
fn write_for(run: &mut Run, files: &dyn Files, time: Duration) -> Result<bool> {
    let begun = Instant::now();
    loop {
        let part = Instant::now();
        // A panic is an error, so that the run can be given up under the baton.
        let more = whole(|| run.write(files).map_err(Error::from))?;
        if !more && run.keys().waiting_bytes() < WRITE_BYTES {
            return Ok(more);
        }
        std::thread::sleep(part.elapsed().min(PAUSE_MAX));
        if begun.elapsed() >= time {
            return Ok(more);
        }
    }
}

fn walk_with(store: &Store, mut run: Run, write: impl Fn(Run, Duration) -> (Run, Result<bool>)) -> (Run, Result<()>) {
    let (mut has_keys, mut has_rows, mut pace) = (true, true, Pace::default());
    loop {
        let is_served = is_served(store, &run);
        // Rows soon: as long as they are not written, each page that changes is there twice.
        if has_rows || !has_keys || run.keys().waiting_bytes() >= WRITE_BYTES {
            let written;
            (run, written) = write(run, if is_served || !has_keys { SERVED_LOOK } else { Duration::ZERO });
            match written {
                Err(error) => return (abort(store, run), Err(error)),
                Ok(false) if !has_keys => return (run, Ok(())),
                Ok(more) => has_rows = more,
            }
        }
        if store.is_closed() {
            return (abort(store, run), Err(being_closed()));
        }
        if is_served {
            has_keys = has_keys && run.keys().has_more();
            if !has_rows {
                std::thread::sleep(SERVED_LOOK);
            }
            continue;
        }
        let mut baton = store.enter();
        // The wait for the baton is not work.
        let begun = Instant::now();
        has_keys = has_keys && run.slice(&mut baton.state.keyspace, SLICE_BUDGET);
        pace.look(baton.state.stats.commands);
        drop(baton);
        std::thread::sleep((begun.elapsed() * pace.factor()).min(PAUSE_MAX));
    }
}

/// Has a server saved keys lately?
fn is_served(store: &Store, run: &Run) -> bool {
    let served_ns = run.keys().served_ns();
    served_ns != 0 && store.overrun().now_ns().saturating_sub(served_ns) < SERVED_WITHIN_NS
}

/// Saves the next keys if it is time, for whoever has the baton and has served all others.
#[cold]
pub(super) fn save_some(state: &mut State) {
    let State { journal, keyspace, env, monotonic_ns, .. } = state;
    let Some(slices) = journal.saves.slices.as_mut().filter(|slices| slices.due_ns <= *monotonic_ns) else { return };
    let begun_ns = env.monotonic_ns();
    let more = slices.keys.try_slice(keyspace, SERVER_BUDGET, begun_ns);
    let now_ns = env.monotonic_ns();
    slices.due_ns = now_ns + (now_ns - begun_ns) * u64::from(PAUSE_FACTOR);
    if !more {
        journal.saves.slices = None;
    }
}

fn abort(store: &Store, mut run: Run) -> Run {
    run.abort(&mut store.enter().state.keyspace);
    run
}

/// How much of the time is taken.
#[derive(Default)]
struct Pace {
    commands: u64,
    asked: Option<Instant>,
}

impl Pace {
    /// Sees how many requests were served so far.
    fn look(&mut self, commands: u64) {
        if std::mem::replace(&mut self.commands, commands) != commands {
            self.asked = Some(Instant::now());
        }
    }

    /// How many times as long as the work the pause after it is.
    fn factor(&self) -> u32 {
        let is_asked = self.asked.is_some_and(|asked| asked.elapsed() < IDLE_AFTER);
        if is_asked { PAUSE_FACTOR } else { PAUSE_FACTOR_IDLE }
    }
}

/// Removes what the new checkpoint makes superfluous. What cannot be removed of the log is tried again, and an older
/// checkpoint goes with the next one.
fn tidy(data: &Data, lsn: Lsn) {
    let _ = remove_others(&*data.files, lsn);
    if let Some(log) = &data.log {
        let _ = log.remove_before(lsn + 1);
    }
}

fn begin(state: &mut State, id: StoreId) -> Result<Run> {
    let State { journal, keyspace, tables, clock, .. } = state;
    let lsn = next_lsn(journal);
    let about = About { store: id, lsn, created_ms: clock.now_ms, things: Vec::new() };
    Run::begin(keyspace, tables, about)
}

/// The record that the checkpoint holds everything up to; the log goes on in a new segment behind it.
fn next_lsn(journal: &mut Journal) -> u64 {
    match journal.log() {
        Some(log) => log.rotate() - 1,
        None => {
            // Without a log each checkpoint is a step of its own, so that the newest has the largest number.
            journal.unlogged += 1;
            journal.unlogged
        }
    }
}
