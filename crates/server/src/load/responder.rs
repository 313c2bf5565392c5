//! A server that does nothing: it counts requests and answers each with the same bytes.
//!
//! What a load reaches against it is the ceiling of the generator, the sockets and the machine together: no server can
//! be measured to be faster.

use super::skip::Skipper;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

const LISTENER: Token = Token(0);
const WAKE: Token = Token(1);
/// Connections take the tokens from here on.
const FIRST_CONNECTION: usize = 2;
/// Size of the buffer that requests are read through, bytes.
const SCRATCH_BYTES: usize = 256 * 1024;
/// Bytes of replies laid out to be sent in one piece, as far as they are short.
const PIECE_BYTES: usize = 64 * 1024;

/// A running responder. Dropping it stops it.
pub struct Responder {
    address: SocketAddr,
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    requests: AtomicU64,
}

impl Responder {
    /// Begins to listen on `address` (port 0 takes a free one) and to answer every request with `reply`.
    ///
    /// # Errors
    /// The address cannot be bound, or the reply is empty.
    pub fn start(address: SocketAddr, reply: &[u8]) -> io::Result<Responder> {
        if reply.is_empty() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "a reply has at least a byte"));
        }
        let mut listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let shared = Arc::new(Shared::default());
        let desk = Desk {
            poll,
            listener,
            connections: Vec::new(),
            replies: reply.repeat(PIECE_BYTES.div_ceil(reply.len())),
            reply_bytes: reply.len(),
            scratch: vec![0; SCRATCH_BYTES],
            shared: shared.clone(),
        };
        let thread = std::thread::Builder::new().name("responder".into()).spawn(move || desk.run())?;
        Ok(Responder { address, shared, waker, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requests answered.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// Closes everything and waits for its thread.
    pub fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        // The only failure is a full counter, and then it is awake already.
        let _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Connection {
    stream: TcpStream,
    skipper: Skipper,
    /// Bytes of replies owed.
    owed: usize,
}

struct Desk {
    poll: Poll,
    listener: TcpListener,
    connections: Vec<Option<Connection>>,
    replies: Vec<u8>,
    reply_bytes: usize,
    scratch: Vec<u8>,
    shared: Arc<Shared>,
}

impl Desk {
    fn run(mut self) {
        let mut events = Events::with_capacity(1024);
        while !self.shared.stop.load(Ordering::Acquire) {
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return,
                Ok(()) => {}
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(),
                    WAKE => {}
                    Token(token) => self.serve(token - FIRST_CONNECTION),
                }
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((mut stream, _)) = self.listener.accept() {
            let index = self.connections.iter().position(Option::is_none).unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            let interest = Interest::READABLE | Interest::WRITABLE;
            let token = Token(index + FIRST_CONNECTION);
            let ready =
                stream.set_nodelay(true).and_then(|()| self.poll.registry().register(&mut stream, token, interest));
            if ready.is_ok() {
                self.connections[index] = Some(Connection { stream, skipper: Skipper::default(), owed: 0 });
            }
        }
    }

    fn serve(&mut self, index: usize) {
        let Some(connection) = &mut self.connections[index] else { return };
        let served = connection.receive(&mut self.scratch, self.reply_bytes, &self.shared.requests);
        if served.and_then(|()| connection.send(&self.replies, self.reply_bytes)).is_err() {
            self.connections[index] = None;
        }
    }
}

impl Connection {
    fn receive(&mut self, scratch: &mut [u8], reply_bytes: usize, requests: &AtomicU64) -> io::Result<()> {
        loop {
            let count = match self.stream.read(scratch) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.skipper.feed(&scratch[..count])?;
            let tally = std::mem::take(&mut self.skipper.tally);
            self.owed += tally.replies as usize * reply_bytes;
            requests.fetch_add(tally.replies, Ordering::Relaxed);
            if count < scratch.len() {
                return Ok(());
            }
        }
    }

    /// Sends what the socket takes of the replies owed.
    fn send(&mut self, replies: &[u8], reply_bytes: usize) -> io::Result<()> {
        while self.owed > 0 {
            // A reply cut by a full socket goes on where it stopped: what is owed tells how far into one we are.
            let into = (reply_bytes - self.owed % reply_bytes) % reply_bytes;
            let piece = &replies[into..replies.len().min(into + self.owed)];
            match self.stream.write(piece) {
                Ok(count) => self.owed -= count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
