//! What a running procedure may take, and how others see and stop it: the watch.
//!
//! A script holds the baton until it ends, so nobody can ask the store about it. The watch is the one thing shared
//! with those who wait: which script runs, since when, whether it has written, and whether somebody wants it dead.

use crate::error::{Code, Error, Result};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The script has run a command that writes: killing it now would leave half its work.
const WROTE: u64 = 1;
/// The script is to end.
const KILL: u64 = 2;
/// The run's number stands above the flags, so that a kill can only hit the run it was meant for.
const RUN: u64 = 4;

/// Makes an interpreter stop soon, from any thread.
pub trait Interrupt: Send {
    /// Makes it look at the watch before its next instruction.
    fn arm(&self);
    /// Lets it run at full speed again.
    fn disarm(&self);
}

/// The running script as others see it.
#[derive(Default)]
pub struct Watch {
    /// 0 when nothing runs, otherwise the run's number and flags.
    state: AtomicU64,
    since_ns: AtomicU64,
    /// The session whose run it is.
    owner: AtomicU64,
    runs: AtomicU64,
    interrupt: Mutex<Option<Box<dyn Interrupt>>>,
    /// The number of the last interrupt set.
    interrupts: AtomicU64,
}

impl Watch {
    /// A run begins. Only the holder of the baton calls this, and the functions down to [`Watch::end`].
    #[inline]
    pub fn begin(&self, now_ns: u64) {
        let run = self.runs.load(Ordering::Relaxed) + RUN;
        self.runs.store(run, Ordering::Relaxed);
        self.since_ns.store(now_ns, Ordering::Relaxed);
        self.state.store(run, Ordering::Release);
    }

    /// [`Watch::begin`] for a run that belongs to a session.
    #[inline]
    pub fn begin_for(&self, owner: u64, now_ns: u64) {
        self.owner.store(owner, Ordering::Relaxed);
        self.begin(now_ns);
    }

    /// The session whose run it is; None when nothing runs.
    pub fn owner(&self) -> Option<u64> {
        self.is_running().then(|| self.owner.load(Ordering::Relaxed))
    }

    /// The run is about to write. False when it has been killed and must not.
    pub fn note_write(&self) -> bool {
        let alive = |state| (state & KILL == 0).then_some(state | WROTE);
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
        self.state.load(Ordering::Relaxed) & KILL != 0
    }

    /// The run is over.
    #[inline]
    pub fn end(&self) {
        if self.state.swap(0, Ordering::AcqRel) & KILL != 0 {
            // The killer sets the flag and arms the interrupt under this lock, so it cannot arm it after this.
            if let Some(interrupt) = &*self.interrupt.lock() {
                interrupt.disarm();
            }
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

    /// Ends the running script, unless it has written (SCRIPT KILL). It ends soon after this returns.
    pub fn kill(&self) -> Result<()> {
        let interrupt = self.interrupt.lock();
        let marked = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
            (state != 0 && state & WROTE == 0).then_some(state | KILL)
        });
        match marked {
            Ok(_) => {
                if let Some(interrupt) = &*interrupt {
                    interrupt.arm();
                }
                Ok(())
            }
            Err(0) => Err(Error::new(Code::NotBusy, "No scripts in execution right now.")),
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

    /// How to interrupt the interpreter, which takes the place of one before it. Gives what
    /// [`Watch::remove_interrupt`] wants.
    pub fn set_interrupt(&self, interrupt: Box<dyn Interrupt>) -> u64 {
        let mut place = self.interrupt.lock();
        *place = Some(interrupt);
        self.interrupts.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The interpreter whose interrupt has this number goes away. Another may have its place already: an old one is
    /// freed in a thread of its own.
    pub fn remove_interrupt(&self, number: u64) {
        let mut place = self.interrupt.lock();
        if self.interrupts.load(Ordering::Relaxed) == number {
            *place = None;
        }
    }
}

/// What others get to hear while a script runs for too long (Redis 7's text).
pub fn busy() -> Error {
    Error::new(Code::Busy, "Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.")
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
        assert_eq!(Code::NotBusy, watch.kill().unwrap_err().code);
        watch.begin(7);
        assert_eq!(Some(7), watch.running_since_ns());
        assert_eq!(Ok(()), watch.kill());
        assert!(watch.is_killed());
        assert!(armed.load(Ordering::Relaxed));
        assert!(!watch.note_write());
        watch.end();
        assert!(!armed.load(Ordering::Relaxed));
        watch.begin(8);
        assert!(!watch.is_killed());
    }

    #[test]
    fn an_old_interrupt_goes_without_the_new_one() {
        let (watch, armed) = (Watch::default(), Arc::new(AtomicBool::new(false)));
        let old = watch.set_interrupt(Box::new(Flag(Arc::default())));
        let new = watch.set_interrupt(Box::new(Flag(armed.clone())));
        watch.remove_interrupt(old);
        watch.begin(1);
        assert_eq!(Ok(()), watch.kill());
        assert!(armed.swap(false, Ordering::Relaxed));
        watch.end();
        watch.remove_interrupt(new);
        watch.begin(2);
        assert_eq!(Ok(()), watch.kill());
        assert!(!armed.load(Ordering::Relaxed));
    }

    #[test]
    fn a_run_that_wrote_is_not_killed() {
        let watch = Watch::default();
        watch.begin(1);
        assert!(watch.note_write());
        assert_eq!(Code::Unkillable, watch.kill().unwrap_err().code);
        assert!(!watch.is_killed());
        watch.end();
        assert_eq!(None, watch.running_since_ns());
    }
}
