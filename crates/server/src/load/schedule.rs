//! When each request of an open-loop load is due: a pure function of its number, whatever the server does.
//!
//! Requests come in bursts (of one, unless a pipeline is asked for). Burst `b` is due at `b * burst / rate` seconds and
//! goes to connection `b % connections`, so each connection has a fixed timetable of its own.

/// A timetable. Times are nanoseconds from its beginning.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    interval_ns: f64,
    connections: u64,
    burst: u64,
}

impl Schedule {
    /// `rate` requests a second, `burst` at a time, over `connections` in turn.
    pub fn new(rate: f64, connections: usize, burst: usize) -> Schedule {
        Schedule { interval_ns: burst as f64 * 1e9 / rate, connections: connections as u64, burst: burst as u64 }
    }

    /// Requests in a burst.
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// When a burst is due.
    #[inline]
    pub fn due_ns(&self, burst: u64) -> u64 {
        (burst as f64 * self.interval_ns) as u64
    }

    /// Number of bursts that are due before `ns`.
    pub fn bursts_before(&self, ns: u64) -> u64 {
        let mut count = (ns as f64 / self.interval_ns).ceil() as u64;
        // `due_ns` rounds down, so the quotient may be off by one either way.
        while count > 0 && self.due_ns(count - 1) >= ns {
            count -= 1;
        }
        while self.due_ns(count) < ns {
            count += 1;
        }
        count
    }

    /// Number of bursts that come nearest to this rate over a time: at least one.
    pub fn bursts_in(&self, ns: u64) -> u64 {
        ((ns as f64 / self.interval_ns).round() as u64).max(1)
    }

    /// Which connection sends a burst.
    pub fn connection(&self, burst: u64) -> usize {
        (burst % self.connections) as usize
    }

    /// The burst that a connection's request number `nth` (from 0) belongs to.
    #[inline]
    pub fn burst_of(&self, connection: usize, nth: u64) -> u64 {
        nth / self.burst * self.connections + connection as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_sends_at_fixed_distances_whatever_else_happens() {
        let schedule = Schedule::new(1000.0, 4, 1);
        for burst in 0..1000 {
            assert_eq!(burst * 1_000_000, schedule.due_ns(burst));
            assert_eq!(burst as usize % 4, schedule.connection(burst));
        }
        let of_second: Vec<u64> = (0..4).map(|nth| schedule.due_ns(schedule.burst_of(1, nth))).collect();
        assert_eq!(vec![1_000_000, 5_000_000, 9_000_000, 13_000_000], of_second);
    }

    #[test]
    fn a_burst_is_due_at_one_moment() {
        let schedule = Schedule::new(48_000.0, 3, 16);
        assert_eq!((0, 1, 2), (schedule.connection(0), schedule.connection(1), schedule.connection(2)));
        assert!((0..16).all(|nth| schedule.burst_of(2, nth) == 2));
        assert!((16..32).all(|nth| schedule.burst_of(2, nth) == 5));
        assert_eq!(schedule.due_ns(0) + 333_333, schedule.due_ns(1));
        assert_eq!(3000, schedule.bursts_in(1_000_000_000));
    }

    #[test]
    fn counting_agrees_with_the_timetable() {
        for rate in [0.3, 7.0, 999.0, 83_333.3, 1e6, 2.5e6] {
            let schedule = Schedule::new(rate, 50, 1);
            for burst in (0..200).chain([10_007, 1_234_567]) {
                let due = schedule.due_ns(burst);
                let before = schedule.bursts_before(due);
                assert!(before <= burst && (before == 0 || schedule.due_ns(before - 1) < due), "{rate} {burst}");
                assert!(schedule.bursts_before(due + 1) > burst, "{rate} {burst}");
            }
        }
    }
}
