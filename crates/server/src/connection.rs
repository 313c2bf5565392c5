//! One client's connection: bytes in, requests executed, bytes out.

use crate::resp::{Decoder, Limits, Parsed, ProtocolError, encode};
use mio::net::{TcpStream, UnixStream};
use peryton_core::config::OutputLimit;
use peryton_core::error::{Code, Error};
use peryton_core::reply::Reply;
use peryton_core::session::SessionId;
use peryton_core::store::{Active, Baton, Lsn};
use smallvec::SmallVec;
use std::io::{self, ErrorKind, Read, Write};
use std::time::Instant;

/// A connected socket.
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

impl Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    /// The socket as the poll knows it.
    pub fn source(&mut self) -> &mut dyn mio::event::Source {
        match self {
            Stream::Tcp(stream) => stream,
            Stream::Unix(stream) => stream,
        }
    }
}

/// Buffers up to this size are kept by an idle connection, bytes.
const IDLE_BUFFER_BYTES: usize = 16 * 1024;
/// Unsent bytes past which no further request of the connection is executed until some are sent.
const OUTPUT_PAUSE_BYTES: usize = 4 << 20;
/// Most bytes read from one connection in one turn of the loop.
const TURN_BYTES: usize = 1 << 20;
/// After so long, nanoseconds, the connection's further requests wait until the others had their turn.
const TURN_NS: u64 = 1_000_000;

/// A connection and its buffers.
pub struct Connection {
    /// The socket.
    pub stream: Stream,
    /// Its session in the store; None until the baton was there to open one.
    pub session: Option<SessionId>,
    /// True when the peer has closed its side or failed.
    pub gone: bool,
    /// True when the socket took no more bytes and the poll must tell when it does.
    pub write_blocked: bool,
    /// True when the kernel may hold bytes that were not read yet.
    pub readable: bool,
    /// The record of the log that must be durable before the output may be sent; 0: none. Until then nothing further is
    /// executed, so that a reply never waits for a change that came after it.
    pub held_for: Lsn,
    /// It is in the loop's list of those held.
    pub is_listed: bool,
    input: Vec<u8>,
    decoder: Decoder,
    output: Vec<u8>,
    sent: usize,
    protocol: u8,
    authenticated: bool,
    /// Nothing further is executed; what is in `output` is sent, then the socket closed.
    closing: bool,
    blocked: bool,
    /// Requests were left in the input because too much output was waiting or the others shall have a turn.
    paused: bool,
    /// Since when more than `soft_limit` has been waiting to be sent.
    over_since: Option<Instant>,
    soft_limit: OutputLimit,
    /// When its requests began to be executed in this turn, on the store's steady clock.
    turn_began_ns: u64,
}

/// Requests decoded before the first is executed, so that their keys can be fetched from memory together.
#[derive(Default)]
struct Batch<'i> {
    args: SmallVec<[&'i [u8]; BATCH_ARGUMENTS]>,
    /// Of each request: the end of its arguments in `args` and of its bytes in the input.
    ends: SmallVec<[(usize, usize); BATCH_REQUESTS]>,
    /// The end of the bytes looked at.
    end: usize,
}

impl<'i> Batch<'i> {
    fn requests(&self) -> impl Iterator<Item = &[&'i [u8]]> + Clone {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(end, _)| *end));
        starts.zip(&self.ends).map(|(start, (end, _))| &self.args[start..*end])
    }
}

/// Why a batch ended.
enum Ended {
    /// It is full; there may be more.
    Full,
    /// The next request has not arrived whole.
    Incomplete,
    /// The next request is a line.
    Inline,
    /// The next bytes are no request.
    Broken(ProtocolError),
}

/// Most requests of a batch: enough to hide the latency of memory, few enough to stay in the nearest cache.
const BATCH_REQUESTS: usize = 32;
/// A batch with more arguments than that needs memory for them.
const BATCH_ARGUMENTS: usize = 64;

impl Connection {
    /// A new client's connection, without a session.
    pub fn new(stream: Stream) -> Self {
        Connection {
            stream,
            session: None,
            gone: false,
            write_blocked: false,
            readable: false,
            held_for: 0,
            is_listed: false,
            input: Vec::new(),
            decoder: Decoder::default(),
            output: Vec::new(),
            sent: 0,
            protocol: 2,
            authenticated: false,
            closing: false,
            blocked: false,
            paused: false,
            over_since: None,
            soft_limit: OutputLimit { hard_bytes: 0, soft_bytes: 0, soft_seconds: 0 },
            turn_began_ns: 0,
        }
    }

    /// Reads what has arrived into the input buffer, through the loop's scratch buffer.
    pub fn receive(&mut self, scratch: &mut [u8]) {
        let mut total = 0;
        // A request that waits, or output that nobody reads, must not let input pile up without end.
        while self.readable && total < TURN_BYTES && self.input.len() < self.input_bytes_max() {
            match self.stream.read(scratch) {
                Ok(0) => {
                    self.gone = true;
                    return;
                }
                Ok(count) => {
                    self.input.extend_from_slice(&scratch[..count]);
                    total += count;
                    // A short read has emptied the socket; the poll tells of anything newer.
                    self.readable = count == scratch.len();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.gone = true;
                    return;
                }
            }
        }
    }

    fn input_bytes_max(&self) -> usize {
        let idle = self.blocked || self.held_for > 0 || self.output.len() - self.sent > OUTPUT_PAUSE_BYTES;
        if idle { TURN_BYTES } else { peryton_core::limits::QUERY_BUFFER_BYTES_MAX }
    }

    /// Executes every complete request in the input buffer and takes what the outbox holds.
    pub fn run(&mut self, baton: &mut Baton<'_>) {
        let Some(session) = self.session else { return };
        let Some(mut active) = baton.activate(session) else {
            self.gone = true;
            return;
        };
        self.authenticated = active.session().authenticated || active.config().requirepass.is_empty();
        if self.held_for > 0 {
            self.gone |= active.session().killed;
            return;
        }
        self.take_outbox(&mut active);
        if self.gone {
            return;
        }
        self.turn_began_ns = active.now_ns();
        let input = std::mem::take(&mut self.input);
        let start = self.execute_all(&mut active, &input);
        self.input = input;
        self.input.drain(..start);
        if self.input.is_empty() && self.input.capacity() > IDLE_BUFFER_BYTES {
            self.input = Vec::new();
        }
        let limit = self.limit(&mut active);
        self.check_output(limit);
        active.session().buffers = (self.input.len(), self.output.len() - self.sent);
    }

    /// True once the client may use the store.
    pub fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// The client need not give a password.
    pub fn trust(&mut self) {
        self.authenticated = true;
    }

    /// Answers the requests that have arrived without the store, which is busy: with what `answer` says of each.
    pub fn run_busy(&mut self, mut answer: impl FnMut(&[&[u8]]) -> Reply) {
        let input = std::mem::take(&mut self.input);
        let mut start = 0;
        // A client that waits, or does not read, gets no answers either.
        while !self.closing && !self.blocked && self.held_for == 0 && self.output.len() - self.sent < OUTPUT_PAUSE_BYTES
        {
            let buffer = &input[start..];
            match self.decoder.decode(buffer, &self.limits()) {
                Ok(Parsed::Incomplete) => break,
                Ok(Parsed::Empty) => {}
                Ok(Parsed::Request) => {
                    let args: SmallVec<[&[u8]; 16]> = self.decoder.arguments(buffer).collect();
                    encode(&answer(&args), self.protocol, &mut self.output);
                }
                Err(error) => {
                    self.refuse(&error);
                    start = input.len();
                    break;
                }
            }
            start += self.decoder.consumed();
            self.decoder.reset();
        }
        self.input = input;
        self.input.drain(..start);
    }

    /// Executes requests from the front of the input; gives the number of bytes they took.
    fn execute_all(&mut self, active: &mut Active<'_>, input: &[u8]) -> usize {
        let mut start = 0;
        self.paused = false;
        while !self.closing && !self.blocked {
            self.paused = self.shall_pause(active);
            if self.paused {
                break;
            }
            let mut batch = Batch::default();
            let ended = self.decode_batch(input, start, &mut batch);
            if batch.ends.len() > 1 {
                active.prefetch(batch.requests());
            }
            start = self.execute_batch(active, &batch, start);
            match ended {
                // What was decoded beyond the last request executed is decoded again when its time comes.
                _ if self.closing || self.blocked || self.paused => self.decoder = Decoder::default(),
                Ended::Full => {}
                Ended::Incomplete => break,
                Ended::Inline => match self.execute_inline(active, input, start) {
                    Some(end) => start = end,
                    None => break,
                },
                Ended::Broken(error) => {
                    self.refuse(&error);
                    return input.len();
                }
            }
        }
        start
    }

    fn limits(&self) -> Limits {
        if self.authenticated { Limits::TRUSTED } else { Limits::UNAUTHENTICATED }
    }

    /// Decodes the requests that have arrived whole, up to a batch.
    fn decode_batch<'i>(&mut self, input: &'i [u8], mut start: usize, batch: &mut Batch<'i>) -> Ended {
        // Until the password is given the limits may change with each request.
        let batch_max = if self.authenticated { BATCH_REQUESTS } else { 1 };
        while batch.ends.len() < batch_max {
            let buffer = &input[start..];
            if buffer.first().is_some_and(|first| *first != b'*') && !self.decoder.is_inside() {
                return Ended::Inline;
            }
            match self.decoder.decode(buffer, &self.limits()) {
                Ok(Parsed::Incomplete) => return Ended::Incomplete,
                Ok(Parsed::Empty) => start += self.decoder.consumed(),
                Ok(Parsed::Request) => {
                    batch.args.extend(self.decoder.array_arguments(buffer));
                    start += self.decoder.consumed();
                    batch.ends.push((batch.args.len(), start));
                }
                Err(error) => return Ended::Broken(error),
            }
            batch.end = start;
            self.decoder.reset();
        }
        Ended::Full
    }

    /// Must further requests wait until output was sent, or the others had their turn?
    #[inline]
    fn shall_pause(&self, active: &Active<'_>) -> bool {
        self.output.len() - self.sent >= OUTPUT_PAUSE_BYTES || active.now_ns() - self.turn_began_ns > TURN_NS
    }

    /// Executes a batch, up to a request that closes the connection, waits, or makes the others wait; gives the place after the last one.
    fn execute_batch(&mut self, active: &mut Active<'_>, batch: &Batch<'_>, start: usize) -> usize {
        let mut done = start;
        for (args, end) in batch.requests().zip(batch.ends.iter().map(|(_, end)| *end)) {
            let reply = active.execute(args);
            self.after(active, reply);
            done = end;
            self.paused = self.shall_pause(active);
            if self.closing || self.blocked || self.paused {
                return done;
            }
        }
        done.max(batch.end)
    }

    /// Executes one request typed as a line; gives the place after it, None while the line is not complete.
    fn execute_inline(&mut self, active: &mut Active<'_>, input: &[u8], start: usize) -> Option<usize> {
        let buffer = &input[start..];
        match self.decoder.decode(buffer, &self.limits()) {
            Ok(Parsed::Incomplete) => return None,
            Ok(Parsed::Empty) => {}
            Ok(Parsed::Request) => {
                let args: SmallVec<[&[u8]; 16]> = self.decoder.arguments(buffer).collect();
                let reply = active.execute(&args);
                drop(args);
                self.after(active, reply);
            }
            Err(error) => {
                self.refuse(&error);
                return Some(input.len());
            }
        }
        let end = start + self.decoder.consumed();
        self.decoder.reset();
        Some(end)
    }

    /// Refuses the client, and closes.
    pub fn dismiss(&mut self, why: &'static str) {
        encode(&Reply::Error(Error::err(why)), 2, &mut self.output);
        self.closing = true;
    }

    /// Answers bytes that are no request, and closes.
    fn refuse(&mut self, error: &ProtocolError) {
        encode(
            &Reply::Error(Error::quoting(Code::Err, [b"Protocol error: ", &error.0[..]].concat())),
            2,
            &mut self.output,
        );
        self.closing = true;
    }

    /// Sends a request's reply on its way, behind any push it caused to its own session.
    #[inline]
    fn after(&mut self, active: &mut Active<'_>, reply: Reply) {
        let session = active.session();
        self.protocol = session.protocol;
        self.authenticated |= session.authenticated;
        self.blocked = session.blocked.is_some();
        if !session.outbox.is_empty() {
            let outbox = std::mem::take(&mut session.outbox);
            outbox.iter().for_each(|push| encode(push, self.protocol, &mut self.output));
        }
        encode(&reply, self.protocol, &mut self.output);
        self.closing |= session.closing;
        self.held_for = self.held_for.max(active.promise());
    }

    /// Takes replies and pushes that came while the session was not being served.
    fn take_outbox(&mut self, active: &mut Active<'_>) {
        if !active.session().outbox.is_empty() {
            self.held_for = self.held_for.max(active.promise());
        }
        let session = active.session();
        self.protocol = session.protocol;
        self.blocked = session.blocked.is_some();
        for reply in session.outbox.drain(..) {
            encode(&reply, self.protocol, &mut self.output);
        }
        self.gone |= session.killed;
    }

    fn limit(&self, active: &mut Active<'_>) -> OutputLimit {
        let subscribed = active.session().subscriptions() > 0;
        let config = active.config();
        if subscribed { config.output_buffer_pubsub } else { config.output_buffer_normal }
    }

    /// Gives up a client that does not read what it asked for.
    fn check_output(&mut self, limit: OutputLimit) {
        let unsent = (self.output.len() - self.sent) as u64;
        self.gone |= limit.hard_bytes > 0 && unsent > limit.hard_bytes;
        self.soft_limit = limit;
        if limit.soft_bytes > 0 && unsent > limit.soft_bytes {
            let now = *self.over_since.get_or_insert_with(Instant::now);
            self.end_if_too_slow(now);
        }
    }

    /// True while more is waiting to be sent than may wait for long.
    pub fn is_over_soft_limit(&self) -> bool {
        self.over_since.is_some()
    }

    /// Gives up a client that has been over its soft limit for too long; true if so.
    pub fn end_if_too_slow(&mut self, now: Instant) -> bool {
        let unsent = (self.output.len() - self.sent) as u64;
        if unsent <= self.soft_limit.soft_bytes {
            self.over_since = None;
        }
        let Some(since) = self.over_since else { return false };
        let is_too_slow = now.saturating_duration_since(since).as_secs() >= self.soft_limit.soft_seconds;
        self.gone |= is_too_slow;
        is_too_slow
    }

    /// Sends what the socket takes, unless it is held.
    pub fn send(&mut self) {
        if self.held_for > 0 {
            return;
        }
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => {
                    self.gone = true;
                    return;
                }
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.write_blocked = true;
                    return;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.gone = true;
                    return;
                }
            }
        }
        self.write_blocked = false;
        self.over_since = None;
        self.output.clear();
        self.sent = 0;
        if self.output.capacity() > IDLE_BUFFER_BYTES * 4 {
            self.output = Vec::new();
        }
        self.gone |= self.closing;
    }

    /// True when there are bytes to send and the socket may take them.
    pub fn has_output(&self) -> bool {
        (self.closing || self.sent < self.output.len()) && !self.write_blocked && self.held_for == 0
    }

    /// True when there is more to read or to execute without waiting for the poll.
    pub fn has_more(&self) -> bool {
        (self.paused || self.readable) && !self.closing && !self.blocked && !self.write_blocked && self.held_for == 0
    }
}
