//! What a load measured.

use super::histogram::Histogram;
use super::ledger::Paced;
use super::usage::{Cpu, Machine};

/// One batch that took long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slow {
    /// From sending a batch to its last reply, nanoseconds.
    pub ns: u64,
    /// Replies that had come by then, from all connections: it tells where in a fill the wait was.
    pub after_replies: u64,
}

/// The measured part of a load.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Replies received.
    pub requests: u64,
    /// Error replies among them, those inside arrays too.
    pub errors: u64,
    /// Nulls among them, those inside arrays too.
    pub nils: u64,
    /// The first error's text.
    pub first_error: Option<String>,
    /// How long it took.
    pub seconds: f64,
    /// Times from sending a batch to its last reply; of a load at a rate, from when a request was due to its reply.
    pub batches: Histogram,
    /// The longest of these, longest first.
    pub slowest: Vec<Slow>,
    /// The batch during which the server worked longest: the lesser of the batch's time and of the server's CPU time in
    /// it. None unless it was asked for. Unlike the longest wait it leaves out time in which the server waited for a core.
    pub hardest: Option<Slow>,
    /// CPU time of the load generator.
    pub client: Cpu,
    /// CPU time of the measured processes together.
    pub servers: Cpu,
    /// What the whole machine did meanwhile.
    pub machine: Machine,
    /// What else is known of a load at a rate.
    pub paced: Option<Paced>,
}

/// Number of longest waits kept.
const SLOWEST: usize = 8;

impl Report {
    /// Replies per second.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.requests as f64 / self.seconds } else { 0.0 }
    }

    /// Cores' time that neither the generator nor the servers used, seconds: others on the machine were busy, and the
    /// kernel for all.
    pub fn others_s(&self) -> f64 {
        (self.machine.busy_s - self.client.total_s - self.servers.total_s).max(0.0)
    }

    /// Counts a batch's time.
    #[inline]
    pub fn record(&mut self, slow: Slow) {
        self.batches.record(slow.ns);
        let full = self.slowest.len() == SLOWEST;
        if !full || self.slowest.last().is_some_and(|least| slow.ns > least.ns) {
            if full {
                self.slowest.pop();
            }
            let at = self.slowest.partition_point(|other| other.ns >= slow.ns);
            self.slowest.insert(at, slow);
        }
    }

    /// Notes for how long the server worked during a batch.
    pub fn record_work(&mut self, slow: Slow) {
        self.hardest = self.hardest.max(Some(slow));
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let each = |seconds: f64| if self.requests > 0 { seconds * 1e6 / self.requests as f64 } else { 0.0 };
        let ms = |percent| self.batches.percentile_ns(percent) as f64 / 1e6;
        writeln!(f, "{:.0} requests/s ({} in {:.3} s)", self.rate(), self.requests, self.seconds)?;
        writeln!(f, "errors {} nulls {} {}", self.errors, self.nils, self.first_error.as_deref().unwrap_or(""))?;
        for (name, cpu) in [("server", self.servers), ("client", self.client)] {
            let (user, total) = (each(cpu.user_s), each(cpu.total_s));
            writeln!(f, "{name} CPU per request: user {user:.3} us, total {total:.3} us")?;
        }
        writeln!(f, "others used {:.2} cores", self.others_s() / self.seconds)?;
        write!(f, "batch ms: p50 {:.3} p99 {:.3} p99.9 {:.3} max {:.3}", ms(50.0), ms(99.0), ms(99.9), ms(100.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_longest_waits_in_order() {
        let mut report = Report::default();
        for ns in (1..100_u64).map(|n| n * 37 % 101) {
            report.record(Slow { ns, after_replies: ns * 10 });
        }
        let slowest: Vec<u64> = report.slowest.iter().map(|slow| slow.ns).collect();
        assert_eq!(vec![100, 99, 98, 97, 96, 95, 94, 93], slowest);
        assert_eq!((99, 100), (report.batches.count(), report.batches.max_ns()));
    }
}
