//! An open-loop load: requests go out when they are due, whether or not earlier ones are answered.
//!
//! Users do not wait for each other's replies, so a server that stands still for a second makes all that second's
//! requests late. A closed loop would send one, wait, and count one slow request. Here latency counts from when a request
//! was due, so the time that it waited behind others, here or in a socket, is in it.

use super::client::{ASK, Options, SCRATCH_BYTES, Until, closed, connect};
use super::ledger::Ledger;
use super::plan::{Batch, Generator, Plan};
use super::report::Report;
use super::schedule::Schedule;
use super::skip::Skipper;
use super::timer::Timer;
use super::usage::Clocks;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How an open-loop load goes.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// Requests a second.
    pub rate: f64,
    /// Length of the time series' steps; zero: none is kept.
    pub slot: Duration,
    /// How others steer it while it runs.
    pub control: Arc<Control>,
}

/// Steers a load from another thread.
#[derive(Debug, Default)]
pub struct Control {
    phase: AtomicU32,
    stop: AtomicBool,
}

impl Control {
    /// From now on requests belong to this phase; a load begins with phase 0.
    pub fn begin(&self, phase: u32) {
        self.phase.store(phase, Relaxed);
    }

    /// Nothing more is sent; the load ends when all is answered.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }
}

/// Bursts sent before replies are looked at again.
const BURSTS_A_TURN: u64 = 512;
/// A wait shorter than this is spent polling: setting the timer and being woken takes as long.
const WORTH_WAITING: Duration = Duration::from_micros(4);
/// More than this unsent means that the server will never catch up.
const UNSENT_BYTES_MAX: usize = 512 << 20;

/// Sends a plan's requests at a rate.
///
/// # Errors
/// As those of `run`, and when the server falls hopelessly behind.
pub(super) fn run(plan: Plan, options: &Options, pace: &Pace, go_on: &mut dyn FnMut() -> bool) -> io::Result<Report> {
    if !(pace.rate > 0.0 && pace.rate < 1e9) {
        return Err(io::Error::new(ErrorKind::InvalidInput, "a rate is between 0 and 1e9 requests a second"));
    }
    PacedClient::connect(plan, options, pace)?.run(go_on)
}

struct Line {
    stream: TcpStream,
    skipper: Skipper,
    /// Requests that are due; the first `sent` bytes are gone.
    out: Vec<u8>,
    sent: usize,
}

struct PacedClient<'a> {
    options: &'a Options,
    control: &'a Control,
    generator: Generator,
    batch: Batch,
    schedule: Schedule,
    ledger: Ledger,
    poll: Poll,
    timer: Timer,
    lines: Vec<Line>,
    unsent: usize,
    scratch: Vec<u8>,
    start: Instant,
    warmup: Duration,
    last_reply: Instant,
    report: Report,
}

impl<'a> PacedClient<'a> {
    fn connect(plan: Plan, options: &'a Options, pace: &'a Pace) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut lines = Vec::with_capacity(options.connections);
        for index in 0..options.connections {
            let mut stream = connect(options)?;
            poll.registry().register(&mut stream, Token(index), Interest::READABLE | Interest::WRITABLE)?;
            lines.push(Line { stream, skipper: Skipper::default(), out: Vec::new(), sent: 0 });
        }
        let timer = Timer::new(poll.registry(), Token(options.connections))?;
        let schedule = Schedule::new(pace.rate, options.connections, options.pipeline);
        let (warmup, bursts) = match options.until {
            Until::Requests(requests) => (Duration::ZERO, requests.div_ceil(options.pipeline as u64)),
            Until::Elapsed { warmup, measured } => (warmup, schedule.bursts_in(nanos(warmup.saturating_add(measured)))),
        };
        let ledger = Ledger::new(schedule, options.connections, bursts, nanos(warmup), nanos(pace.slot));
        let generator = Generator::new(plan, options.seed);
        let (start, scratch) = (Instant::now(), vec![0; SCRATCH_BYTES]);
        Ok(PacedClient {
            options,
            control: &pace.control,
            generator,
            batch: Batch::default(),
            schedule,
            ledger,
            poll,
            timer,
            lines,
            unsent: 0,
            scratch,
            start,
            warmup,
            last_reply: start,
            report: Report::default(),
        })
    }

    fn run(mut self, go_on: &mut dyn FnMut() -> bool) -> io::Result<Report> {
        let mut before = Clocks::read(&self.options.pids)?;
        let mut is_warm = self.warmup.is_zero();
        let mut events = Events::with_capacity(self.lines.len().min(1024) + 1);
        self.start = Instant::now();
        let mut asked = self.start;
        while !self.ledger.is_done() {
            let now = self.start.elapsed();
            if !is_warm && now >= self.warmup {
                (is_warm, before) = (true, Clocks::read(&self.options.pids)?);
            }
            self.obey(nanos(now));
            self.send_due(nanos(now))?;
            self.wait(&mut events)?;
            for event in &events {
                let index = event.token().0;
                if index < self.lines.len() {
                    if event.is_writable() {
                        self.flush(index)?;
                    }
                    if event.is_readable() {
                        self.receive(index)?;
                    }
                }
            }
            if asked.elapsed() >= ASK {
                asked = Instant::now();
                self.check(asked, go_on)?;
            }
        }
        let after = Clocks::read(&self.options.pids)?;
        self.report.client = after.client_since(&before);
        self.report.servers = after.servers_since(&before);
        self.report.machine = after.machine_since(&before);
        self.finish()
    }

    fn obey(&mut self, now_ns: u64) {
        self.ledger.begin(self.control.phase.load(Relaxed), now_ns);
        if self.control.stop.load(Relaxed) {
            self.ledger.stop();
        }
    }

    fn send_due(&mut self, now_ns: u64) -> io::Result<()> {
        let due = self.ledger.take_due(now_ns, BURSTS_A_TURN);
        for burst in due.clone() {
            self.generator.fill(&mut self.batch, self.options.pipeline);
            self.lines[self.schedule.connection(burst)].out.extend_from_slice(self.batch.bytes());
            self.unsent += self.batch.bytes().len();
        }
        // Consecutive bursts go to consecutive connections.
        for burst in due.take(self.lines.len()) {
            self.flush(self.schedule.connection(burst))?;
        }
        if self.unsent > UNSENT_BYTES_MAX {
            let text = format!("the server is {} requests behind", self.ledger.in_flight());
            return Err(io::Error::new(ErrorKind::TimedOut, text));
        }
        Ok(())
    }

    /// Waits for a reply or until the next burst is due.
    fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        let due = self.ledger.next_due_ns().map(Duration::from_nanos);
        let wait = due.map_or(ASK, |due| due.saturating_sub(self.start.elapsed()));
        let timeout = if wait < WORTH_WAITING {
            Duration::ZERO
        } else {
            if wait < ASK {
                self.timer.set(wait)?;
            }
            ASK
        };
        match self.poll.poll(events, Some(timeout)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                events.clear();
                Ok(())
            }
            polled => polled,
        }
    }

    fn check(&mut self, now: Instant, go_on: &mut dyn FnMut() -> bool) -> io::Result<()> {
        if !go_on() {
            return Err(io::Error::new(ErrorKind::Interrupted, "interrupted"));
        }
        if self.ledger.in_flight() == 0 {
            self.last_reply = now;
        } else if now - self.last_reply > self.options.patience {
            let text = format!("no reply for {} s", self.options.patience.as_secs());
            return Err(io::Error::new(ErrorKind::TimedOut, text));
        }
        Ok(())
    }

    /// Sends what the socket takes of what is due.
    fn flush(&mut self, index: usize) -> io::Result<()> {
        let line = &mut self.lines[index];
        while line.sent < line.out.len() {
            match line.stream.write(&line.out[line.sent..]) {
                Ok(count) => {
                    line.sent += count;
                    self.unsent -= count;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        line.out.clear();
        line.sent = 0;
        Ok(())
    }

    fn receive(&mut self, index: usize) -> io::Result<()> {
        loop {
            let line = &mut self.lines[index];
            let count = match line.stream.read(&mut self.scratch) {
                Ok(0) => return Err(closed(line.skipper.first_error.as_deref())),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            line.skipper.feed(&self.scratch[..count])?;
            let tally = std::mem::take(&mut line.skipper.tally);
            if !self.ledger.awaits(index, tally.replies) {
                let text = "the server sent more replies than it got requests";
                return Err(io::Error::new(ErrorKind::InvalidData, text));
            }
            self.report.errors += tally.errors;
            self.report.nils += tally.nils;
            if tally.replies > 0 {
                self.last_reply = Instant::now();
                self.ledger.answer(index, tally.replies, nanos(self.last_reply - self.start));
            }
            // A short read has emptied the socket; the poll tells of anything newer.
            if count < self.scratch.len() {
                return Ok(());
            }
        }
    }

    fn finish(mut self) -> io::Result<Report> {
        let answered_ns = nanos((self.last_reply - self.start).saturating_sub(self.warmup));
        let (latency, paced) = self.ledger.close();
        let scheduled_ns = paced.phases.last().map_or(0, |phase| phase.until_ns);
        self.report.requests = latency.count();
        self.report.seconds = answered_ns.max(scheduled_ns) as f64 / 1e9;
        self.report.batches = latency;
        self.report.paced = Some(paced);
        self.report.first_error = self.lines.iter_mut().find_map(|line| line.skipper.first_error.take());
        Ok(self.report)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::client::run;
    use super::super::responder::Responder;
    use super::*;

    fn options(responder: &Responder, rate: f64, until: Until) -> Options {
        let slot = Duration::from_millis(10);
        Options {
            address: responder.address(),
            connections: 5,
            pipeline: 1,
            until,
            setup: Vec::new(),
            pids: vec![std::process::id()],
            watch_cpu: false,
            seed: 1,
            patience: Duration::from_secs(20),
            pace: Some(Pace { rate, slot, control: Arc::default() }),
        }
    }

    fn plan() -> Plan {
        let mut plan = Plan::default();
        plan.field("key=uniform:0:1000:12").expect("a field");
        plan.command(1, &[b"GET", b"key:%key%"]).expect("a command");
        plan.command(1, &[b"PING"]).expect("a command");
        plan
    }

    fn responder(reply: &[u8]) -> Responder {
        Responder::start(([127, 0, 0, 1], 0).into(), reply).expect("a free port")
    }

    #[test]
    fn asks_exactly_as_often_as_the_rate_says() {
        let responder = responder(b"$-1\r\n");
        let until = Until::Elapsed { warmup: Duration::from_millis(100), measured: Duration::from_millis(200) };
        let options = options(&responder, 10_000.0, until);
        let report = run(plan(), &options, &mut || true).expect("a report");
        let paced = report.paced.as_ref().expect("it was paced");
        assert_eq!((2000, 2000, 3000), (report.requests, paced.sent, responder.requests()));
        assert_eq!((0, 3000), (report.errors, report.nils));
        assert_eq!(1, paced.phases.len());
        assert_eq!((2000, 2000), (paced.phases[0].asked, paced.phases[0].latency.count()));
        assert_eq!(2000, paced.slots.iter().map(|slot| slot.answered).sum::<u64>());
        assert!(paced.slots.iter().any(|slot| slot.max_ns == report.batches.max_ns()));
        assert!(report.seconds >= 0.2 && report.rate() <= 10_001.0);
    }

    #[test]
    fn bursts_are_sent_whole() {
        let responder = responder(b"+OK\r\n");
        let mut options = options(&responder, 100_000.0, Until::Requests(4001));
        options.pipeline = 16;
        let report = run(plan(), &options, &mut || true).expect("a report");
        assert_eq!((4016, 4016), (report.requests, responder.requests()));
        assert_eq!(251, report.paced.expect("it was paced").late.count());
    }

    #[test]
    fn another_thread_begins_phases_and_ends_it() {
        let responder = responder(b"-ERR no\r\n");
        let options = options(&responder, 2000.0, Until::Requests(u64::MAX));
        let control = options.pace.as_ref().expect("a pace").control.clone();
        let (mut asked, other) = (0, control.clone());
        let mut steer = move || {
            asked += 1;
            match asked {
                1 => other.begin(1),
                2 => other.begin(2),
                _ => other.stop(),
            }
            true
        };
        let report = run(plan(), &options, &mut steer).expect("a report");
        let paced = report.paced.as_ref().expect("it was paced");
        assert_eq!(vec![0, 1, 2], paced.phases.iter().map(|phase| phase.number).collect::<Vec<_>>());
        assert_eq!(report.requests, paced.phases.iter().map(|phase| phase.latency.count()).sum::<u64>());
        assert_eq!((report.requests, Some("ERR no")), (report.errors, report.first_error.as_deref()));
        assert_eq!(responder.requests(), paced.sent);
    }

    #[test]
    fn says_why_it_cannot_go_on() {
        let responder = responder(b"+OK\r\n");
        let mut options = options(&responder, 0.0, Until::Requests(1));
        assert_eq!(ErrorKind::InvalidInput, run(plan(), &options, &mut || true).expect_err("no rate").kind());
        options.pace = Some(Pace { rate: 10.0, ..Pace::default() });
        options.until = Until::Requests(u64::MAX);
        assert_eq!(ErrorKind::Interrupted, run(plan(), &options, &mut || false).expect_err("interrupted").kind());
    }
}
