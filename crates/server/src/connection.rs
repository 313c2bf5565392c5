//! One client's connection: bytes in, requests executed, bytes out.

use crate::resp::{Decoder, Limits, Parsed, encode};
use mio::net::{TcpStream, UnixStream};
use peryton_core::config::OutputLimit;
use peryton_core::reply::Reply;
use peryton_core::session::SessionId;
use peryton_core::store::{Active, Baton};
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

/// A connection and its buffers.
pub struct Connection {
    /// The socket.
    pub stream: Stream,
    /// Its session in the store.
    pub session: SessionId,
    /// True when the peer has closed its side or failed.
    pub gone: bool,
    /// True when the socket took no more bytes and the poll must tell when it does.
    pub write_blocked: bool,
    /// True when the kernel may hold bytes that were not read yet.
    pub readable: bool,
    input: Vec<u8>,
    decoder: Decoder,
    output: Vec<u8>,
    sent: usize,
    protocol: u8,
    authenticated: bool,
    /// Nothing further is executed; what is in `output` is sent, then the socket closed.
    closing: bool,
    blocked: bool,
    /// Requests were left in the input because too much output was waiting.
    paused: bool,
    soft_limit_since: Option<Instant>,
}

impl Connection {
    /// A connection for a new session.
    pub fn new(stream: Stream, session: SessionId) -> Self {
        Connection {
            stream,
            session,
            gone: false,
            write_blocked: false,
            readable: false,
            input: Vec::new(),
            decoder: Decoder::default(),
            output: Vec::new(),
            sent: 0,
            protocol: 2,
            authenticated: false,
            closing: false,
            blocked: false,
            paused: false,
            soft_limit_since: None,
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
        let idle = self.blocked || self.output.len() - self.sent > OUTPUT_PAUSE_BYTES;
        if idle { TURN_BYTES } else { peryton_core::limits::QUERY_BUFFER_BYTES_MAX }
    }

    /// Executes every complete request in the input buffer and takes what the outbox holds.
    pub fn run(&mut self, baton: &mut Baton<'_>) {
        let Some(mut active) = baton.activate(self.session) else {
            self.gone = true;
            return;
        };
        self.authenticated = active.session().authenticated || active.config().requirepass.is_empty();
        self.take_outbox(&mut active);
        let start = self.execute_all(&mut active);
        self.input.drain(..start);
        if self.input.is_empty() && self.input.capacity() > IDLE_BUFFER_BYTES {
            self.input = Vec::new();
        }
        let limit = self.limit(&mut active);
        self.check_output(limit);
        active.session().buffers = (self.input.len(), self.output.len() - self.sent);
    }

    /// Executes requests from the front of the input; gives the number of bytes they took.
    fn execute_all(&mut self, active: &mut Active<'_>) -> usize {
        let mut start = 0;
        self.paused = false;
        while !self.closing && !self.blocked {
            if self.output.len() - self.sent >= OUTPUT_PAUSE_BYTES {
                self.paused = true;
                break;
            }
            let limits = if self.authenticated { Limits::TRUSTED } else { Limits::UNAUTHENTICATED };
            let buffer = &self.input[start..];
            match self.decoder.decode(buffer, &limits) {
                Ok(Parsed::Incomplete) => {
                    let expected = self.decoder.expected(buffer.len());
                    self.input.reserve(expected.min(32 << 20));
                    break;
                }
                Ok(Parsed::Empty) => {}
                Ok(Parsed::Request) => {
                    let args: SmallVec<[&[u8]; 16]> = self.decoder.arguments(buffer).collect();
                    let reply = active.execute(&args);
                    drop(args);
                    self.after(active, reply);
                }
                Err(error) => {
                    self.output.extend_from_slice(format!("-ERR Protocol error: {}\r\n", error.0).as_bytes());
                    self.closing = true;
                    return self.input.len();
                }
            }
            start += self.decoder.consumed();
            self.decoder.reset();
        }
        start
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
    }

    /// Takes replies and pushes that came while the session was not being served.
    fn take_outbox(&mut self, active: &mut Active<'_>) {
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
        if limit.hard_bytes > 0 && unsent > limit.hard_bytes {
            self.gone = true;
        }
        if limit.soft_bytes == 0 || unsent <= limit.soft_bytes {
            self.soft_limit_since = None;
            return;
        }
        let since = *self.soft_limit_since.get_or_insert_with(Instant::now);
        self.gone |= since.elapsed().as_secs() >= limit.soft_seconds;
    }

    /// Sends what the socket takes.
    pub fn send(&mut self) {
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
        self.output.clear();
        self.sent = 0;
        if self.output.capacity() > IDLE_BUFFER_BYTES * 4 {
            self.output = Vec::new();
        }
        self.gone |= self.closing;
    }

    /// True when there are bytes to send and the socket may take them.
    pub fn has_output(&self) -> bool {
        (self.closing || self.sent < self.output.len()) && !self.write_blocked
    }

    /// True when there is more to read or to execute without waiting for the poll.
    pub fn has_more(&self) -> bool {
        (self.paused || self.readable) && !self.closing && !self.blocked && !self.write_blocked
    }
}
