//! The load itself: connections that each send a batch, wait for all its replies, and send the next.
//!
//! One thread and one poll. A batch costs two system calls, a request some 20 ns.

use super::paced::{self, Pace};
use super::plan::{Batch, Generator, Plan};
use super::report::{Report, Slow};
use super::skip::Skipper;
use super::usage::{Clocks, process_clock};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long to go on.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// So many requests are sent and all answered; all of it is measured.
    Requests(u64),
    /// First a time that is not measured, then one that is.
    Elapsed {
        /// Not measured.
        warmup: Duration,
        /// Measured.
        measured: Duration,
    },
}

/// How to send.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server.
    pub address: SocketAddr,
    /// Connections.
    pub connections: usize,
    /// Requests in a batch.
    pub pipeline: usize,
    /// When to stop.
    pub until: Until,
    /// Requests that each connection makes first, without errors: AUTH, HELLO, SELECT.
    pub setup: Vec<Vec<Vec<u8>>>,
    /// Processes whose CPU time is the server's.
    pub pids: Vec<u32>,
    /// Also read the first process's CPU clock around every batch (about a microsecond each), for `Report::hardest`.
    pub watch_cpu: bool,
    /// Fixes all that is random.
    pub seed: u64,
    /// Longest silence of the server before the load gives up.
    pub patience: Duration,
    /// Send at a rate, whatever is answered. None: each connection sends its next batch when its last is answered.
    pub pace: Option<Pace>,
}

/// Size of the buffer that replies are read through, bytes.
pub(super) const SCRATCH_BYTES: usize = 256 * 1024;
/// How often the caller is asked whether to go on.
pub(super) const ASK: Duration = Duration::from_millis(50);

/// Sends a plan's requests and measures; `go_on` is asked every 50 ms.
///
/// # Errors
/// The server cannot be reached, refuses the set-up, closes a connection, falls silent or does not speak RESP; a
/// process to measure does not exist; `go_on` said no (`Interrupted`).
pub fn run(plan: Plan, options: &Options, go_on: &mut dyn FnMut() -> bool) -> io::Result<Report> {
    if plan.is_empty() || options.connections == 0 || options.pipeline == 0 {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "a load needs a command, a connection and a pipeline of 1",
        ));
    }
    match &options.pace {
        Some(pace) => paced::run(plan, options, pace, go_on),
        None => Client::connect(plan, options)?.run(go_on),
    }
}

struct Connection {
    stream: TcpStream,
    skipper: Skipper,
    batch: Batch,
    /// Bytes of the batch that the socket has taken.
    sent: usize,
    /// Replies to the batch that have not come yet.
    awaited: u64,
    since: Instant,
    /// The server's CPU clock at that time, seconds, if it is watched.
    cpu_since: f64,
}

struct Client<'a> {
    options: &'a Options,
    generator: Generator,
    poll: Poll,
    connections: Vec<Connection>,
    scratch: Vec<u8>,
    /// Requests that may still be sent.
    budget: u64,
    /// Requests sent and not answered.
    in_flight: u64,
    /// Whether what comes now counts.
    measuring: bool,
    report: Report,
    last_reply: Instant,
}

impl<'a> Client<'a> {
    fn connect(plan: Plan, options: &'a Options) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut connections = Vec::with_capacity(options.connections);
        for index in 0..options.connections {
            let mut connection = Connection::open(options)?;
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(&mut connection.stream, Token(index), interest)?;
            connections.push(connection);
        }
        let budget = match options.until {
            Until::Requests(requests) => requests,
            Until::Elapsed { .. } => u64::MAX,
        };
        Ok(Client {
            options,
            generator: Generator::new(plan, options.seed),
            poll,
            connections,
            scratch: vec![0; SCRATCH_BYTES],
            budget,
            in_flight: 0,
            measuring: false,
            report: Report::default(),
            last_reply: Instant::now(),
        })
    }

    fn run(mut self, go_on: &mut dyn FnMut() -> bool) -> io::Result<Report> {
        let (warmup, measured) = match self.options.until {
            Until::Requests(_) => (Duration::ZERO, Duration::MAX),
            Until::Elapsed { warmup, measured } => (warmup, measured),
        };
        // A load without warm-up is measured from before its first request.
        let begun = if warmup.is_zero() { Some(self.begin()?) } else { None };
        for index in 0..self.connections.len() {
            self.send_next(index, Instant::now())?;
        }
        let (start, before) = match begun {
            Some(begun) => begun,
            None => {
                self.turn_until(Instant::now().checked_add(warmup), go_on)?;
                self.begin()?
            }
        };
        self.turn_until(start.checked_add(measured), go_on)?;
        self.report.seconds = start.elapsed().as_secs_f64();
        self.measuring = false;
        let after = Clocks::read(&self.options.pids)?;
        self.report.client = after.client_since(&before);
        self.report.servers = after.servers_since(&before);
        self.report.machine = after.machine_since(&before);
        // Leave the server without work that the next measurement would pay for.
        self.budget = 0;
        self.turn_until(None, go_on)?;
        self.report.first_error =
            self.connections.iter_mut().find_map(|connection| connection.skipper.first_error.take());
        Ok(self.report)
    }

    fn begin(&mut self) -> io::Result<(Instant, Clocks)> {
        self.measuring = true;
        Ok((Instant::now(), Clocks::read(&self.options.pids)?))
    }

    /// Turns the loop until `end`, or until all is answered and nothing may be sent.
    fn turn_until(&mut self, end: Option<Instant>, go_on: &mut dyn FnMut() -> bool) -> io::Result<()> {
        let mut events = Events::with_capacity(self.connections.len().min(1024));
        let mut asked = Instant::now();
        loop {
            let now = Instant::now();
            if end.is_some_and(|end| now >= end) || (self.budget == 0 && self.in_flight == 0) {
                return Ok(());
            }
            if now - asked >= ASK {
                asked = now;
                if !go_on() {
                    return Err(io::Error::new(ErrorKind::Interrupted, "interrupted"));
                }
                if now - self.last_reply > self.options.patience {
                    let text = format!("no reply for {} s", self.options.patience.as_secs());
                    return Err(io::Error::new(ErrorKind::TimedOut, text));
                }
            }
            let wait = end.map_or(ASK, |end| ASK.min(end - now));
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            for event in &events {
                let index = event.token().0;
                if event.is_writable() {
                    self.connections[index].flush()?;
                }
                if event.is_readable() {
                    self.receive(index)?;
                }
            }
        }
    }

    /// Reads what has come for a connection; when its batch is answered, sends the next.
    fn receive(&mut self, index: usize) -> io::Result<()> {
        loop {
            let connection = &mut self.connections[index];
            let count = match connection.stream.read(&mut self.scratch) {
                Ok(0) => return Err(closed(connection.skipper.first_error.as_deref())),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            connection.skipper.feed(&self.scratch[..count])?;
            self.take_tally(index)?;
            // A short read has emptied the socket; the poll tells of anything newer.
            if count < self.scratch.len() {
                return Ok(());
            }
        }
    }

    fn take_tally(&mut self, index: usize) -> io::Result<()> {
        let connection = &mut self.connections[index];
        let tally = std::mem::take(&mut connection.skipper.tally);
        if tally.replies > connection.awaited {
            return Err(io::Error::new(ErrorKind::InvalidData, "the server sent more replies than it got requests"));
        }
        connection.awaited -= tally.replies;
        self.in_flight -= tally.replies;
        if self.measuring {
            self.report.requests += tally.replies;
            self.report.errors += tally.errors;
            self.report.nils += tally.nils;
        }
        if tally.replies > 0 && connection.awaited == 0 {
            let now = Instant::now();
            let ns = (now - connection.since).as_nanos() as u64;
            self.last_reply = now;
            if self.measuring {
                self.record(index, ns);
            }
            self.send_next(index, now)?;
        }
        Ok(())
    }

    fn record(&mut self, index: usize, ns: u64) {
        let after_replies = self.report.requests;
        self.report.record(Slow { ns, after_replies });
        if self.options.watch_cpu {
            let spent = self.watched_clock() - self.connections[index].cpu_since;
            // That clock moves in ticks of some milliseconds, so a quick batch may see a tick that others filled; a
            // server cannot have worked for longer than the batch took.
            self.report.record_work(Slow { ns: ns.min((spent * 1e9) as u64), after_replies });
        }
    }

    /// The CPU clock of the watched process, seconds; 0 when none is watched.
    fn watched_clock(&self) -> f64 {
        let watched = self.options.pids.first().filter(|_| self.options.watch_cpu);
        watched.and_then(|pid| process_clock(*pid)).unwrap_or(0.0)
    }

    fn send_next(&mut self, index: usize, now: Instant) -> io::Result<()> {
        let count = self.budget.min(self.options.pipeline as u64);
        if count == 0 {
            return Ok(());
        }
        self.budget -= count;
        self.in_flight += count;
        let cpu_since = self.watched_clock();
        let connection = &mut self.connections[index];
        self.generator.fill(&mut connection.batch, count as usize);
        connection.awaited = count;
        connection.sent = 0;
        (connection.since, connection.cpu_since) = (now, cpu_since);
        connection.flush()
    }
}

impl Connection {
    fn open(options: &Options) -> io::Result<Self> {
        Ok(Connection {
            stream: connect(options)?,
            skipper: Skipper::default(),
            batch: Batch::default(),
            sent: 0,
            awaited: 0,
            since: Instant::now(),
            cpu_since: 0.0,
        })
    }

    /// Sends what the socket takes of the batch.
    fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.batch.bytes().len() {
            match self.stream.write(&self.batch.bytes()[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A connection that is set up.
pub(super) fn connect(options: &Options) -> io::Result<TcpStream> {
    let mut stream = std::net::TcpStream::connect(options.address)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot connect to {}: {error}", options.address)))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(options.patience))?;
    set_up(&mut stream, &options.setup)?;
    stream.set_nonblocking(true)?;
    Ok(TcpStream::from_std(stream))
}

/// Makes requests one after the other, on a socket that still waits.
fn set_up(stream: &mut std::net::TcpStream, requests: &[Vec<Vec<u8>>]) -> io::Result<()> {
    let mut skipper = Skipper::default();
    let mut buffer = vec![0; 4096];
    for request in requests {
        let mut plan = Plan::default();
        let args: Vec<Vec<u8>> = request.iter().map(|arg| escape(arg)).collect();
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        plan.command(1, &args).map_err(io::Error::other)?;
        let mut batch = Batch::default();
        Generator::new(plan, 0).fill(&mut batch, 1);
        stream.write_all(batch.bytes())?;
        let wanted = skipper.tally.replies + 1;
        while skipper.tally.replies < wanted {
            match stream.read(&mut buffer)? {
                0 => return Err(closed(skipper.first_error.as_deref())),
                count => skipper.feed(&buffer[..count])?,
            }
        }
    }
    skipper.first_error.map_or(Ok(()), |error| Err(io::Error::other(format!("the set-up failed: {error}"))))
}

fn escape(arg: &[u8]) -> Vec<u8> {
    arg.iter().flat_map(|byte| if *byte == b'%' { &b"%%"[..] } else { std::slice::from_ref(byte) }).copied().collect()
}

pub(super) fn closed(first_error: Option<&str>) -> io::Error {
    let reason = first_error.map_or_else(String::new, |error| format!(" after the error '{error}'"));
    io::Error::new(ErrorKind::UnexpectedEof, format!("the server closed the connection{reason}"))
}

#[cfg(test)]
mod tests {
    use super::super::responder::Responder;
    use super::*;

    fn options(address: SocketAddr, until: Until) -> Options {
        Options {
            address,
            connections: 5,
            pipeline: 4,
            until,
            setup: Vec::new(),
            pids: vec![std::process::id()],
            watch_cpu: true,
            seed: 1,
            patience: Duration::from_secs(20),
            pace: None,
        }
    }

    fn plan() -> Plan {
        let mut plan = Plan::default();
        plan.field("key=uniform:0:1000:12").expect("a field");
        plan.command(1, &[b"GET", b"key:%key%"]).expect("a command");
        plan
    }

    fn responder(reply: &[u8]) -> Responder {
        Responder::start(([127, 0, 0, 1], 0).into(), reply).expect("a free port")
    }

    #[test]
    fn sends_exactly_the_requests_asked_for() {
        let responder = responder(b"$-1\r\n");
        let report = run(plan(), &options(responder.address(), Until::Requests(1002)), &mut || true).expect("a report");
        assert_eq!((1002, 1002, 0), (report.requests, report.nils, report.errors));
        assert_eq!(1002, responder.requests());
        // 5 connections in batches of 4, the last one of 2.
        assert_eq!(251, report.batches.count());
        assert!(report.seconds > 0.0 && report.slowest[0].ns == report.batches.max_ns());
        assert!(report.hardest.is_some_and(|hardest| hardest.ns > 0 && hardest.after_replies <= 1002));
    }

    #[test]
    fn measures_for_a_time_after_a_warm_up() {
        let responder = responder(b"*1\r\n-ERR no\r\n");
        let until = Until::Elapsed { warmup: Duration::from_millis(20), measured: Duration::from_millis(60) };
        let report = run(plan(), &options(responder.address(), until), &mut || true).expect("a report");
        assert!(report.requests > 0 && report.requests < responder.requests());
        assert_eq!(report.requests, report.errors);
        assert_eq!(Some("ERR no"), report.first_error.as_deref());
        assert!(report.seconds >= 0.06);
    }

    #[test]
    fn big_batches_and_replies_cross_full_sockets() {
        let reply = [b"$1000000\r\n".to_vec(), vec![b'x'; 1_000_000], b"\r\n".to_vec()].concat();
        let responder = responder(&reply);
        let mut plan = Plan::default();
        plan.field("value=text:700000").expect("a field");
        plan.command(1, &[b"SET", b"k", b"%value%"]).expect("a command");
        let mut options = options(responder.address(), Until::Requests(24));
        options.pipeline = 3;
        let report = run(plan, &options, &mut || true).expect("a report");
        assert_eq!((24, 24), (report.requests, responder.requests()));
    }

    #[test]
    fn says_why_it_cannot_go_on() {
        let mut responder = responder(b"-NOAUTH no\r\n");
        let address = responder.address();
        let mut options = options(address, Until::Requests(u64::MAX));
        let mut asked = 0;
        let mut twice = || {
            asked += 1;
            asked < 2
        };
        assert_eq!(ErrorKind::Interrupted, run(plan(), &options, &mut twice).expect_err("interrupted").kind());
        options.setup = vec![vec![b"AUTH".to_vec(), b"100%".to_vec()]];
        let refused = run(plan(), &options, &mut || true).expect_err("refused").to_string();
        assert!(refused.contains("NOAUTH no"), "{refused}");
        assert_eq!(ErrorKind::InvalidInput, run(Plan::default(), &options, &mut || true).expect_err("empty").kind());
        responder.stop();
        assert!(run(plan(), &options, &mut || true).expect_err("gone").to_string().contains("cannot connect"));
    }
}
