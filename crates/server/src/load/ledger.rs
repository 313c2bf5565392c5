//! The books of an open-loop load: which requests are due, which are answered, and how long after they were due.
//!
//! It reads no clock: whoever owns it says what time it is, in nanoseconds since the load began.

use super::histogram::Histogram;
use super::schedule::Schedule;
use std::ops::Range;

/// What an open-loop load adds to a report.
#[derive(Clone, Debug, Default)]
pub struct Paced {
    /// Requests sent, those of the warm-up left out.
    pub sent: u64,
    /// How late requests went out: the generator's own share of the latencies.
    pub late: Histogram,
    /// The load's parts, in order.
    pub phases: Vec<Phase>,
    /// Replies over time; empty unless asked for.
    pub slots: Vec<Slot>,
}

/// A part of a load; whoever controls the load says when one begins.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// The number that it was begun with.
    pub number: u32,
    /// When it began, since the end of the warm-up.
    pub from_ns: u64,
    /// When it ended.
    pub until_ns: u64,
    /// Requests that were due in it.
    pub asked: u64,
    /// Replies that came in it, to whatever.
    pub answered: u64,
    /// Latencies of the requests that were due in it.
    pub latency: Histogram,
}

/// A short stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Replies that came in it.
    pub answered: u64,
    /// The longest latency among them.
    pub max_ns: u64,
}

/// The books.
#[derive(Debug)]
pub struct Ledger {
    schedule: Schedule,
    /// What is due before this is the warm-up and not recorded.
    warm_ns: u64,
    /// Bursts in all; fewer when the load is stopped.
    bursts: u64,
    /// Bursts sent.
    sent: u64,
    /// Of each connection, the number of its requests that are answered.
    answered: Vec<u64>,
    in_flight: u64,
    slot_ns: u64,
    latency: Histogram,
    paced: Paced,
}

impl Ledger {
    /// Books for `bursts` of a schedule. `slot_ns` of 0 keeps no slots.
    pub fn new(schedule: Schedule, connections: usize, bursts: u64, warm_ns: u64, slot_ns: u64) -> Ledger {
        let first = Phase { from_ns: warm_ns, ..Phase::default() };
        let paced = Paced { phases: vec![first], ..Paced::default() };
        let (latency, answered) = (Histogram::default(), vec![0; connections]);
        Ledger { schedule, warm_ns, bursts, sent: 0, answered, in_flight: 0, slot_ns, latency, paced }
    }

    /// The bursts to be sent now, `most` at a time; they count as sent.
    pub fn take_due(&mut self, now_ns: u64, most: u64) -> Range<u64> {
        let due = self.schedule.bursts_before(now_ns.saturating_add(1)).min(self.bursts);
        let range = self.sent..due.max(self.sent).min(self.sent.saturating_add(most));
        for burst in range.clone() {
            let due_ns = self.schedule.due_ns(burst);
            if due_ns >= self.warm_ns {
                self.paced.late.record(now_ns - due_ns);
                self.paced.sent += self.schedule.burst();
            }
        }
        self.sent = range.end;
        self.in_flight += (range.end - range.start) * self.schedule.burst();
        range
    }

    /// When the next burst is due; None when there is none.
    pub fn next_due_ns(&self) -> Option<u64> {
        (self.sent < self.bursts).then(|| self.schedule.due_ns(self.sent))
    }

    /// Requests that wait for their replies.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Whether a connection's next `count` replies were asked for.
    pub fn awaits(&self, connection: usize, count: u64) -> bool {
        let connections = self.answered.len() as u64;
        let bursts = self.sent / connections + u64::from((connection as u64) < self.sent % connections);
        self.answered[connection] + count <= bursts * self.schedule.burst()
    }

    /// Books a connection's next `count` replies.
    pub fn answer(&mut self, connection: usize, count: u64, now_ns: u64) {
        let first = self.answered[connection];
        self.answered[connection] += count;
        self.in_flight -= count;
        for nth in first..first + count {
            let due_ns = self.schedule.due_ns(self.schedule.burst_of(connection, nth));
            if due_ns >= self.warm_ns {
                self.record(due_ns, now_ns);
            }
        }
    }

    fn record(&mut self, due_ns: u64, now_ns: u64) {
        let latency_ns = now_ns.saturating_sub(due_ns);
        self.latency.record(latency_ns);
        let is_in_time = now_ns < self.end_ns();
        let phases = &mut self.paced.phases;
        // There are few, and the last one is nearly always right; the first begins where recording does.
        if let Some(phase) = phases.iter_mut().rev().find(|phase| phase.from_ns <= due_ns) {
            phase.latency.record(latency_ns);
        }
        if let Some(phase) = phases.last_mut().filter(|_| is_in_time) {
            phase.answered += 1;
        }
        if let Some(index) = (now_ns - self.warm_ns).checked_div(self.slot_ns) {
            let slots = &mut self.paced.slots;
            if slots.len() <= index as usize {
                slots.resize(index as usize + 1, Slot::default());
            }
            let slot = &mut slots[index as usize];
            *slot = Slot { answered: slot.answered + 1, max_ns: slot.max_ns.max(latency_ns) };
        }
    }

    /// When the last burst has had its share of the time.
    fn end_ns(&self) -> u64 {
        self.schedule.due_ns(self.bursts)
    }

    /// Begins a phase, unless that phase is on already.
    pub fn begin(&mut self, number: u32, now_ns: u64) {
        let from_ns = now_ns.max(self.warm_ns);
        if let Some(last) = self.paced.phases.last_mut() {
            if last.number == number {
                return;
            }
            last.until_ns = from_ns;
        }
        self.paced.phases.push(Phase { number, from_ns, ..Phase::default() });
    }

    /// Sends nothing more.
    pub fn stop(&mut self) {
        self.bursts = self.bursts.min(self.sent);
    }

    /// Whether all is sent and answered.
    pub fn is_done(&self) -> bool {
        self.sent == self.bursts && self.in_flight == 0
    }

    /// Closes the books: the latencies of all, and the rest.
    pub fn close(mut self) -> (Histogram, Paced) {
        let (end_ns, warm_ns, schedule) = (self.end_ns(), self.warm_ns, self.schedule);
        if let Some(last) = self.paced.phases.last_mut() {
            last.until_ns = end_ns.max(last.from_ns);
        }
        for phase in &mut self.paced.phases {
            let bursts = schedule.bursts_before(phase.until_ns) - schedule.bursts_before(phase.from_ns);
            phase.asked = bursts * schedule.burst();
            phase.from_ns -= warm_ns;
            phase.until_ns -= warm_ns;
        }
        (self.latency, self.paced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// 1000 requests a second over two connections.
    fn ledger(bursts: u64, warm_ms: u64) -> Ledger {
        Ledger::new(Schedule::new(1000.0, 2, 1), 2, bursts, warm_ms * MS, 10 * MS)
    }

    /// What comes due up to each of these times, in order.
    fn take(ledger: &mut Ledger, times_ms: impl IntoIterator<Item = u64>) -> Vec<u64> {
        times_ms.into_iter().flat_map(|ms| ledger.take_due(ms * MS, u64::MAX)).collect()
    }

    #[test]
    fn what_is_due_does_not_depend_on_replies_or_on_when_one_looks() {
        let mut prompt = ledger(100, 0);
        let mut late = ledger(100, 0);
        let all: Vec<u64> = (0..100).collect();
        assert_eq!(all, take(&mut prompt, 0..200));
        assert_eq!(all, take(&mut late, [37, 500]));
        assert_eq!((100, None, false), (late.in_flight(), late.next_due_ns(), late.is_done()));
        assert_eq!((0, 462 * MS), (prompt.paced.late.max_ns(), late.paced.late.max_ns()));
    }

    #[test]
    fn latency_counts_from_the_timetable_and_not_from_the_sending() {
        let mut ledger = ledger(10, 0);
        // The generator slept until 9 ms, so all ten go out then, and are answered at once.
        assert_eq!((0..10).collect::<Vec<_>>(), take(&mut ledger, [9]));
        ledger.answer(0, 5, 9 * MS);
        ledger.answer(1, 5, 9 * MS);
        assert!(ledger.is_done());
        let (latency, paced) = ledger.close();
        assert_eq!((10, 9 * MS, 4.5e6), (latency.count(), latency.max_ns(), latency.mean_ns()));
        assert_eq!(10, paced.sent);
    }

    #[test]
    fn a_stall_is_seen_by_all_requests_that_were_due_in_it() {
        let mut ledger = ledger(100, 0);
        // A server that answers at once, but for the 50 ms from 20 on.
        for ms in 0..100 {
            take(&mut ledger, [ms]);
            if !(20..70).contains(&ms) {
                for connection in 0..2 {
                    let waits = (1..=60).rev().find(|count| ledger.awaits(connection, *count)).unwrap_or(0);
                    ledger.answer(connection, waits, ms * MS);
                }
            }
        }
        let (latency, paced) = ledger.close();
        assert_eq!((100, 50 * MS), (latency.count(), latency.max_ns()));
        assert_eq!((0, 50 * MS), (latency.percentile_ns(50.0), latency.percentile_ns(99.5)));
        let answered: Vec<u64> = paced.slots.iter().map(|slot| slot.answered).collect();
        assert_eq!(vec![10, 10, 0, 0, 0, 0, 0, 60, 10, 10], answered);
        assert_eq!(50 * MS, paced.slots[7].max_ns);
    }

    #[test]
    fn phases_have_the_requests_due_in_them_and_the_replies_that_came() {
        let mut ledger = ledger(40, 10);
        for ms in 0..40 {
            take(&mut ledger, [ms]);
            if ms == 20 {
                ledger.begin(7, 20 * MS);
                ledger.begin(7, 21 * MS);
            }
            // Each is answered 5 ms after it was due.
            if ms >= 5 {
                ledger.answer((ms as usize - 5) % 2, 1, ms * MS);
            }
        }
        for nth in 35..40 {
            ledger.answer(nth % 2, 1, (nth as u64 + 5) * MS);
        }
        assert!(ledger.is_done());
        let (latency, paced) = ledger.close();
        let facts = |phase: &Phase| (phase.number, phase.from_ns / MS, phase.until_ns / MS, phase.asked);
        assert_eq!(vec![(0, 0, 10, 10), (7, 10, 30, 20)], paced.phases.iter().map(facts).collect::<Vec<_>>());
        let counts = |phase: &Phase| (phase.answered, phase.latency.count(), phase.latency.max_ns() / MS);
        assert_eq!(vec![(5, 10, 5), (20, 20, 5)], paced.phases.iter().map(counts).collect::<Vec<_>>());
        assert_eq!((30, 30), (latency.count(), paced.sent), "the warm-up is left out");
    }

    #[test]
    fn a_stopped_load_awaits_what_it_has_sent() {
        let mut ledger = ledger(1000, 0);
        assert_eq!(6, take(&mut ledger, [5]).len());
        ledger.stop();
        assert_eq!(None, ledger.next_due_ns());
        assert!(take(&mut ledger, [900]).is_empty() && !ledger.is_done());
        assert!(ledger.awaits(0, 3) && !ledger.awaits(1, 4));
        ledger.answer(0, 3, 6 * MS);
        ledger.answer(1, 3, 6 * MS);
        assert!(ledger.is_done());
        assert_eq!(6, ledger.close().1.phases[0].asked);
    }

    #[test]
    fn a_turn_sends_no_more_than_it_may() {
        let mut ledger = ledger(100, 0);
        assert_eq!((0..30, 30..60, 60..100), {
            (ledger.take_due(99 * MS, 30), ledger.take_due(99 * MS, 30), ledger.take_due(99 * MS, 90))
        });
    }
}
