//! What a running procedure may take, and how others see and stop it: the watch.
//!
//! A script holds the baton until it ends, so nobody can ask the store about it. The watch is the one thing shared
//! with those who wait: which script runs, since when, whether it has written, and whether somebody wants it dead.

use super::watchdog;
use crate::error::{Code, Error, Result};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

/// The script has run a command that writes: killing it now would leave half its work.
const WROTE: u64 = 1;
/// The script is to end.
const KILL: u64 = 2;
/// It is a function of a library.
const FUNCTION: u64 = 4;
/// What it did is undone when it fails, so it may be killed whatever it has written.
const ATOMIC: u64 = 8;
/// Its time is over.
const LATE: u64 = 16;
/// It has given as many commands as it may.
const SPENT: u64 = 32;
/// Any reason to end.
const ENDS: u64 = KILL | LATE | SPENT;
/// The run's number stands above the flags, so that a kill can only hit the run it was meant for.
const RUN: u64 = 64;

/// Makes an interpreter stop soon, from any thread.
pub trait Interrupt: Send {
    /// Makes it look at the watch before its next instruction.
    fn arm(&self);
    /// Lets it run at full speed again.
    fn disarm(&self);
}

/// Where procedures come from, which matters to those who end one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// EVAL and its kin.
    Script,
    /// FCALL.
    Function,
}

/// The function that runs, as FUNCTION STATS tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningFunction {
    /// Its name.
    pub name: Vec<u8>,
    /// The request that called it.
    pub words: Vec<Vec<u8>>,
    /// When it began, on the steady clock of the store.
    pub since_ns: u64,
}

/// The name and the request of the function that runs, in its caller's memory: addresses and lengths.
#[derive(Default)]
struct Told {
    name: (AtomicPtr<u8>, AtomicUsize),
    words: (AtomicPtr<&'static [u8]>, AtomicUsize),
}

/// The running script or function as others see it.
#[derive(Default)]
pub struct Watch {
    /// 0 when nothing runs, otherwise the run's number and flags.
    state: AtomicU64,
    since_ns: AtomicU64,
    /// The session whose run it is.
    owner: AtomicU64,
    runs: AtomicU64,
    /// The interpreters, each with its number. What is not running does not mind being interrupted.
    interrupt: Mutex<Vec<(u64, Box<dyn Interrupt>)>>,
    told: Told,
    /// Whoever reads what is told holds this lock, and says so before looking whether a function runs. The end of a run
    /// waits for the reader that it sees. Both write one word and then read the other's, in one order for all, so either
    /// the reader sees the end or the end sees the reader.
    telling: Mutex<()>,
    is_telling: AtomicBool,
    /// Libraries and functions, for those who ask without the baton.
    counts: (AtomicU64, AtomicU64),
    /// The number of the last interrupt set.
    interrupts: AtomicU64,
    /// How long a run may take, nanoseconds; 0: as long as it takes.
    limit_ns: AtomicU64,
    /// Commands that the run has given, while their number is limited.
    calls: AtomicU64,
    /// The watchdog, when there has been a limit, and whether it waits for a run.
    watchdog: OnceLock<Thread>,
    dozes: AtomicBool,
}

impl Watch {
    /// A run begins. Only the holder of the baton calls this, and the functions down to [`Watch::end`].
    #[inline]
    pub fn begin(&self, now_ns: u64, is_atomic: bool) {
        self.begin_as(if is_atomic { ATOMIC } else { 0 }, now_ns);
    }

    #[inline]
    fn begin_as(&self, flags: u64, now_ns: u64) {
        let run = self.runs.load(Ordering::Relaxed) + RUN;
        self.runs.store(run, Ordering::Relaxed);
        self.since_ns.store(now_ns, Ordering::Relaxed);
        self.state.store(run | flags, Ordering::Release);
        if self.limit_ns.load(Ordering::Relaxed) != 0 {
            self.begin_limited();
        }
    }

    #[cold]
    fn begin_limited(&self) {
        if self.dozes.load(Ordering::Relaxed) {
            self.watchdog.get().into_iter().for_each(Thread::unpark);
        }
    }

    /// [`Watch::begin`] for a function, of which more is told.
    ///
    /// # Safety
    /// The name and the words stay in place until [`Watch::end`] has returned.
    #[inline]
    pub unsafe fn begin_function(&self, now_ns: u64, name: &[u8], words: &[&[u8]], is_atomic: bool) {
        let Told { name: told_name, words: told_words } = &self.told;
        told_name.0.store(name.as_ptr().cast_mut(), Ordering::Relaxed);
        told_name.1.store(name.len(), Ordering::Relaxed);
        // The pointer forgets a lifetime, for which the caller answers.
        told_words.0.store(words.as_ptr().cast_mut().cast(), Ordering::Relaxed);
        told_words.1.store(words.len(), Ordering::Relaxed);
        self.begin_as(if is_atomic { FUNCTION | ATOMIC } else { FUNCTION }, now_ns);
    }

    /// The function that runs; None when none does.
    pub fn function(&self) -> Option<RunningFunction> {
        let telling = self.telling.lock();
        self.is_telling.store(true, Ordering::SeqCst);
        let runs = self.state.load(Ordering::SeqCst) & FUNCTION != 0;
        let running = runs.then(|| {
            let Told { name, words } = &self.told;
            // SAFETY: the addresses were written before the state that was seen, and what is there stays until the run's
            // end has returned, which waits for us: it saw `is_telling` or had not begun when we looked.
            let (name, words) = unsafe {
                (
                    std::slice::from_raw_parts(name.0.load(Ordering::Relaxed), name.1.load(Ordering::Relaxed)),
                    std::slice::from_raw_parts(words.0.load(Ordering::Relaxed), words.1.load(Ordering::Relaxed)),
                )
            };
            let words = words.iter().map(|word| word.to_vec()).collect();
            RunningFunction { name: name.to_vec(), words, since_ns: self.since_ns.load(Ordering::Relaxed) }
        });
        self.is_telling.store(false, Ordering::SeqCst);
        drop(telling);
        running
    }

    /// Notes how many libraries and functions there are.
    pub fn set_counts(&self, libraries: usize, functions: usize) {
        self.counts.0.store(libraries as u64, Ordering::Relaxed);
        self.counts.1.store(functions as u64, Ordering::Relaxed);
    }

    /// How many libraries and functions there were when one was last called.
    pub fn counts(&self) -> (u64, u64) {
        (self.counts.0.load(Ordering::Relaxed), self.counts.1.load(Ordering::Relaxed))
    }

    /// Is what runs a function?
    pub fn is_function(&self) -> bool {
        self.state.load(Ordering::Acquire) & FUNCTION != 0
    }

    /// [`Watch::begin`] for a run that belongs to a session.
    #[inline]
    pub fn begin_for(&self, owner: u64, now_ns: u64) {
        self.owner.store(owner, Ordering::Relaxed);
        self.begin(now_ns, false);
    }

    /// The session whose run it is; None when nothing runs.
    pub fn owner(&self) -> Option<u64> {
        self.is_running().then(|| self.owner.load(Ordering::Relaxed))
    }

    /// The run is about to write. False when it has been killed and must not.
    pub fn note_write(&self) -> bool {
        let alive = |state| (state & ENDS == 0).then_some(state | WROTE);
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, alive).is_ok()
    }

    /// True when the run has written.
    #[inline]
    pub fn has_written(&self) -> bool {
        self.state.load(Ordering::Relaxed) & WROTE != 0
    }

    /// True when the run is to end.
    #[inline]
    pub fn is_killed(&self) -> bool {
        self.state.load(Ordering::Relaxed) & ENDS != 0
    }

    /// Why the run is to end: the error's code and its words.
    pub fn why(&self) -> &'static str {
        match self.state.load(Ordering::Relaxed) {
            state if state & KILL != 0 => KILLED,
            state if state & LATE != 0 => OVER_TIME,
            _ => OVER_CALLS,
        }
    }

    /// The run is over.
    #[inline]
    pub fn end(&self) {
        let state = self.state.swap(0, Ordering::SeqCst);
        if state & FUNCTION != 0 && self.is_telling.load(Ordering::SeqCst) {
            drop(self.telling.lock());
        }
        if state & ENDS != 0 {
            // The killer sets the flag and arms the interrupts under this lock, so it cannot arm one after this.
            self.interrupt.lock().iter().for_each(|(_, interrupt)| interrupt.disarm());
        }
    }

    /// True while a script runs.
    pub fn is_running(&self) -> bool {
        self.state.load(Ordering::Acquire) != 0
    }

    /// When the running script began, on the steady clock of the store.
    pub fn running_since_ns(&self) -> Option<u64> {
        self.is_running().then(|| self.since_ns.load(Ordering::Relaxed))
    }

    /// Ends the running script or function, unless it has written or is not of this kind (SCRIPT KILL, FUNCTION KILL). It
    /// ends soon after this returns.
    pub fn kill(&self, kind: Kind) -> Result<()> {
        let interrupt = self.interrupt.lock();
        let marked = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
            (state != 0 && is_killable(state) && kind_of(state) == kind).then_some(state | KILL)
        });
        match marked {
            Ok(_) => {
                interrupt.iter().for_each(|(_, interrupt)| interrupt.arm());
                Ok(())
            }
            Err(0) => Err(Error::new(Code::NotBusy, "No scripts in execution right now.")),
            Err(state) if is_killable(state) => Err(busy(kind_of(state))),
            Err(_) => Err(Error::new(
                Code::Unkillable,
                "Sorry the script already executed write commands against the dataset. You can either wait the script \
                 termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
            )),
        }
    }

    /// Ends the run of this owner, whatever it has written: for runs whose changes are taken back then. False: it has
    /// none.
    pub fn cancel(&self, owner: u64) -> bool {
        let state = self.state.load(Ordering::Acquire);
        // If the run ends meanwhile, another one has another number.
        state != 0
            && self.owner.load(Ordering::Relaxed) == owner
            && self.state.compare_exchange(state, state | KILL, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Sets how long a run may take, milliseconds; 0: as long as it takes. The first limit brings the watchdog, which keeps
    /// time by a clock that shows `now_ns` now.
    pub fn set_time_limit(self: &Arc<Self>, ms: u64, now_ns: u64) {
        self.limit_ns.store(ms.saturating_mul(1_000_000), Ordering::Relaxed);
        if ms != 0 && self.watchdog.get().is_none() {
            watchdog::start(self, now_ns);
        }
        self.watchdog.get().into_iter().for_each(Thread::unpark);
    }

    /// Ends the run if it has taken longer than it may at this time, whatever it has written.
    pub fn enforce(&self, now_ns: u64) {
        let limit_ns = self.limit_ns.load(Ordering::Relaxed);
        let state = self.state.load(Ordering::Acquire);
        let is_late = now_ns.saturating_sub(self.since_ns.load(Ordering::Relaxed)) > limit_ns;
        if limit_ns != 0 && state != 0 && state & ENDS == 0 && is_late {
            self.stop(state, LATE);
        }
    }

    /// Counts a command of the run, and ends the run when it has given more than `max`. False: it is to end.
    pub fn count_call(&self, max: u64) -> bool {
        let calls = self.calls.load(Ordering::Relaxed) + 1;
        self.calls.store(calls, Ordering::Relaxed);
        if calls > max {
            self.stop(self.state.load(Ordering::Acquire), SPENT);
        }
        !self.is_killed()
    }

    /// A run of which commands are counted begins.
    pub fn forget_calls(&self) {
        self.calls.store(0, Ordering::Relaxed);
    }

    /// Ends the run that was in this state.
    fn stop(&self, state: u64, why: u64) {
        let interrupt = self.interrupt.lock();
        let is_it = |now: u64| (state != 0 && now / RUN == state / RUN).then_some(now | why);
        if self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, is_it).is_ok() {
            interrupt.iter().for_each(|(_, interrupt)| interrupt.arm());
        }
    }

    /// How to interrupt one more interpreter. Gives what
    /// [`Watch::remove_interrupt`] wants.
    pub fn set_interrupt(&self, interrupt: Box<dyn Interrupt>) -> u64 {
        let number = self.interrupts.fetch_add(1, Ordering::Relaxed) + 1;
        self.interrupt.lock().push((number, interrupt));
        number
    }

    /// The interpreter whose interrupt has this number goes away, perhaps in a thread of its own.
    pub fn remove_interrupt(&self, number: u64) {
        self.interrupt.lock().retain(|(known, _)| *known != number);
    }

    /// How long a run may take, nanoseconds.
    pub(super) fn limit_ns(&self) -> u64 {
        self.limit_ns.load(Ordering::Relaxed)
    }

    /// How many runs have begun.
    pub(super) fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    pub(super) fn set_watchdog(&self, thread: Thread) {
        // Only the holder of the baton starts one.
        let _ = self.watchdog.set(thread);
    }

    pub(super) fn set_dozes(&self, dozes: bool) {
        self.dozes.store(dozes, Ordering::Relaxed);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It ends when there is nothing left to watch.
        self.watchdog.get().into_iter().for_each(Thread::unpark);
    }
}

/// May a run in this state be killed? One that has written would leave half its work, unless that is undone.
fn is_killable(state: u64) -> bool {
    state & WROTE == 0 || state & ATOMIC != 0
}

/// What a killed script answers (Redis 7's text).
pub const KILLED: &str = "ERR Script killed by user with SCRIPT KILL...";
const OVER_TIME: &str = "CANCELLED the procedure ran for longer than procedure-time-limit allows";
const OVER_CALLS: &str = "CANCELLED the procedure gave more commands than procedure-call-limit allows";

fn kind_of(state: u64) -> Kind {
    if state & FUNCTION != 0 { Kind::Function } else { Kind::Script }
}

/// What others get to hear while a script or function runs for too long (Redis 7's text).
pub fn busy(kind: Kind) -> Error {
    let text = match kind {
        Kind::Script => "Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        Kind::Function => "Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.",
    };
    Error::new(Code::Busy, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    struct Flag(Arc<AtomicBool>);

    impl Interrupt for Flag {
        fn arm(&self) {
            self.0.store(true, Ordering::Relaxed);
        }
        fn disarm(&self) {
            self.0.store(false, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_kill_ends_the_run_it_was_meant_for_only() {
        let (watch, armed) = (Watch::default(), Arc::new(AtomicBool::new(false)));
        watch.set_interrupt(Box::new(Flag(armed.clone())));
        assert_eq!(Code::NotBusy, watch.kill(Kind::Script).unwrap_err().code);
        watch.begin(7, false);
        assert_eq!(Some(7), watch.running_since_ns());
        assert_eq!(Ok(()), watch.kill(Kind::Script));
        assert!(watch.is_killed());
        assert!(armed.load(Ordering::Relaxed));
        assert!(!watch.note_write());
        watch.end();
        assert!(!armed.load(Ordering::Relaxed));
        watch.begin(8, false);
        assert!(!watch.is_killed());
    }

    #[test]
    fn an_old_interrupt_goes_without_the_new_one() {
        let (watch, armed) = (Watch::default(), Arc::new(AtomicBool::new(false)));
        let old = watch.set_interrupt(Box::new(Flag(Arc::default())));
        let new = watch.set_interrupt(Box::new(Flag(armed.clone())));
        watch.remove_interrupt(old);
        watch.begin(1, false);
        assert_eq!(Ok(()), watch.kill(Kind::Script));
        assert!(armed.swap(false, Ordering::Relaxed));
        watch.end();
        watch.remove_interrupt(new);
        watch.begin(2, false);
        assert_eq!(Ok(()), watch.kill(Kind::Script));
        assert!(!armed.load(Ordering::Relaxed));
    }

    #[test]
    fn a_function_is_told_of_and_killed_by_its_own_command() {
        let watch = Watch::default();
        let (name, words) = (b"f".to_vec(), [&b"FCALL"[..], b"F", b"0"]);
        // SAFETY: both stay until the run has ended.
        unsafe { watch.begin_function(7, &name, &words, false) };
        let told = watch.function().unwrap();
        assert_eq!((name.clone(), 3, 7), (told.name, told.words.len(), told.since_ns));
        assert_eq!(busy(Kind::Function), watch.kill(Kind::Script).unwrap_err());
        assert_eq!(Ok(()), watch.kill(Kind::Function));
        watch.end();
        assert_eq!(None, watch.function());
        watch.begin(8, false);
        assert_eq!(busy(Kind::Script), watch.kill(Kind::Function).unwrap_err());
        assert_eq!(Ok(()), watch.kill(Kind::Script));
        watch.end();
    }

    #[test]
    fn a_run_that_wrote_is_not_killed() {
        let watch = Watch::default();
        watch.begin(1, false);
        assert!(watch.note_write());
        assert_eq!(Code::Unkillable, watch.kill(Kind::Script).unwrap_err().code);
        assert!(!watch.is_killed());
        watch.end();
        assert_eq!(None, watch.running_since_ns());
    }
}
