//! A timer to the microsecond that a poll can wait for: the poll's own time-out counts in milliseconds.

use mio::event::Source;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A timer of the system's. It need not be read: each time it runs out is a new event.
pub struct Timer(OwnedFd);

impl Timer {
    /// A timer that does not run yet, known to a poll as `token`.
    ///
    /// # Errors
    /// The system has none left.
    pub fn new(registry: &Registry, token: Token) -> io::Result<Timer> {
        // SAFETY: takes no pointers.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was made just now and belongs to nobody else.
        let timer = Timer(unsafe { OwnedFd::from_raw_fd(fd) });
        SourceFd(&timer.0.as_raw_fd()).register(registry, token, Interest::READABLE)?;
        Ok(timer)
    }

    /// Has the poll wake after this time, and not at an earlier setting.
    ///
    /// # Errors
    /// The system refuses.
    pub fn set(&self, after: Duration) -> io::Result<()> {
        // All zero would stop it.
        let after = after.max(Duration::from_nanos(1));
        let value = libc::timespec { tv_sec: after.as_secs() as libc::time_t, tv_nsec: after.subsec_nanos().into() };
        let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let setting = libc::itimerspec { it_interval: never, it_value: value };
        // SAFETY: the descriptor is open as long as `self`; the setting is readable; no old one is asked for.
        let failed = unsafe { libc::timerfd_settime(self.0.as_raw_fd(), 0, &setting, std::ptr::null_mut()) } != 0;
        if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Events, Poll};
    use std::time::Instant;

    #[test]
    fn wakes_each_time_it_is_set() {
        let mut poll = Poll::new().expect("a poll");
        let timer = Timer::new(poll.registry(), Token(3)).expect("a timer");
        let mut events = Events::with_capacity(4);
        for us in [1, 300, 2000] {
            let begun = Instant::now();
            timer.set(Duration::from_micros(us)).expect("set");
            while events.is_empty() {
                poll.poll(&mut events, None).expect("polled");
            }
            assert!(events.iter().all(|event| event.token() == Token(3)));
            assert!(begun.elapsed() >= Duration::from_micros(us));
            events.clear();
        }
    }
}
