//! The sockets of one event loop: listeners, connections, and which of them have something to do.

use crate::connection::{Connection, Stream};
use mio::net::{TcpListener, UnixListener};
use mio::{Events, Interest, Poll, Token};
use peryton_core::store::Lsn;
use std::io;
use std::time::{Duration, Instant};

const TCP: Token = Token(0);
const UNIX: Token = Token(1);
/// The token of the loop's waker.
pub const WAKE: Token = Token(2);
/// Connections take the tokens from here on.
const FIRST_CONNECTION: usize = 3;
/// Size of the buffer that sockets are read through, bytes.
const SCRATCH_BYTES: usize = 64 * 1024;

/// How soon accepting is tried again after it failed, as when the process has no descriptor left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// How often clients that read too slowly are looked at.
const SOFT_LIMIT_PAUSE: Duration = Duration::from_secs(1);

/// A client that has connected but has no session yet.
pub struct Newcomer {
    /// Its connection.
    pub token: Token,
    /// Its address, and the one it connected to.
    pub address: (String, String),
}

/// Listeners and connections.
pub struct Sockets {
    poll: Poll,
    events: Events,
    tcp: Option<TcpListener>,
    unix: Option<UnixListener>,
    connections: Vec<Option<Box<Connection>>>,
    /// Places in `connections` without one.
    free: Vec<usize>,
    /// Connections to look at in this turn, each once.
    turn: Vec<usize>,
    in_turn: Vec<bool>,
    newcomers: Vec<Newcomer>,
    /// Connections whose output waits for the log.
    held: Vec<usize>,
    /// The guard has polled while connections were out being served; events meant for them are lost.
    missed: bool,
    /// Clients may be waiting that could not be accepted.
    accept_again: bool,
    /// Some connection has had more unsent output than its soft limit.
    over_soft_limit: bool,
    scratch: Vec<u8>,
}

impl Sockets {
    /// Sockets with the given listeners.
    pub fn new(mut tcp: Option<TcpListener>, mut unix: Option<UnixListener>) -> io::Result<Self> {
        let poll = Poll::new()?;
        if let Some(tcp) = &mut tcp {
            poll.registry().register(tcp, TCP, Interest::READABLE)?;
        }
        if let Some(unix) = &mut unix {
            poll.registry().register(unix, UNIX, Interest::READABLE)?;
        }
        Ok(Sockets {
            poll,
            events: Events::with_capacity(1024),
            tcp,
            unix,
            connections: Vec::new(),
            free: Vec::new(),
            turn: Vec::new(),
            in_turn: Vec::new(),
            newcomers: Vec::new(),
            held: Vec::new(),
            missed: false,
            accept_again: false,
            over_soft_limit: false,
            scratch: vec![0; SCRATCH_BYTES],
        })
    }

    /// A waker that ends [`Sockets::wait`].
    pub fn waker(&self) -> io::Result<mio::Waker> {
        mio::Waker::new(self.poll.registry(), WAKE)
    }

    /// Waits until a socket has something, and reads it.
    pub fn wait(&mut self) -> io::Result<()> {
        let timeout = match (self.accept_again, self.over_soft_limit) {
            // With work left over it does not wait.
            _ if !self.turn.is_empty() => Some(Duration::ZERO),
            (true, _) => Some(ACCEPT_AGAIN),
            (false, true) => Some(SOFT_LIMIT_PAUSE),
            (false, false) => None,
        };
        self.poll_and_receive(timeout)?;
        if self.over_soft_limit {
            self.note_slow_readers();
        }
        Ok(())
    }

    /// Reads what has arrived, without waiting.
    pub fn poll(&mut self) -> io::Result<()> {
        self.poll_and_receive(Some(Duration::ZERO))
    }

    fn poll_and_receive(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if let Err(error) = self.poll.poll(&mut self.events, timeout)
            && error.kind() != io::ErrorKind::Interrupted
        {
            return Err(error);
        }
        let events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        events.iter().for_each(|event| self.notice(event));
        self.events = events;
        if std::mem::take(&mut self.accept_again) {
            self.accept_tcp();
            self.accept_unix();
        }
        for at in 0..self.turn.len() {
            if let Some(connection) = &mut self.connections[self.turn[at]] {
                connection.receive(&mut self.scratch);
            }
        }
        Ok(())
    }

    /// Makes connections that have been over their soft limit for too long end with this turn.
    fn note_slow_readers(&mut self) {
        self.over_soft_limit = false;
        let now = Instant::now();
        for index in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[index] else { continue };
            self.over_soft_limit |= connection.is_over_soft_limit();
            if connection.end_if_too_slow(now) {
                self.note(index);
            }
        }
    }

    fn notice(&mut self, event: &mio::event::Event) {
        match event.token() {
            TCP => self.accept_tcp(),
            UNIX => self.accept_unix(),
            WAKE => {}
            Token(token) => {
                let index = token - FIRST_CONNECTION;
                // A connection that is being served is not here (`missed`).
                if let Some(Some(connection)) = self.connections.get_mut(index) {
                    connection.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
                    connection.write_blocked &= !event.is_writable();
                    self.note(index);
                }
            }
        }
    }

    fn accept_tcp(&mut self) {
        while let Some(listener) = &self.tcp {
            match listener.accept() {
                Ok((stream, peer)) => {
                    // Replies are written whole; waiting for more to send would only delay them.
                    let _ = stream.set_nodelay(true);
                    let local = stream.local_addr().map(|a| a.to_string()).unwrap_or_default();
                    self.admit(Stream::Tcp(stream), (peer.to_string(), local));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.note_failed_accept(&error),
            }
        }
    }

    fn accept_unix(&mut self) {
        while let Some(listener) = &self.unix {
            match listener.accept() {
                Ok((stream, _)) => self.admit(Stream::Unix(stream), ("/:0".into(), "/:0".into())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.note_failed_accept(&error),
            }
        }
    }

    /// Out of descriptors, or a client that has gone already: no event tells of those who still wait, so time must.
    fn note_failed_accept(&mut self, error: &io::Error) {
        self.accept_again |= error.kind() != io::ErrorKind::WouldBlock;
    }

    /// Gives a new client a place. It gets its session when the baton is there.
    fn admit(&mut self, mut stream: Stream, address: (String, String)) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.in_turn.push(false);
            self.connections.len() - 1
        });
        let token = Token(index + FIRST_CONNECTION);
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self.poll.registry().register(stream.source(), token, interest).is_err() {
            // Dropping the socket closes it.
            self.free.push(index);
            return;
        }
        self.connections[index] = Some(Box::new(Connection::new(stream)));
        self.newcomers.push(Newcomer { token, address });
    }

    /// Clients that came since the last call.
    pub fn newcomers(&mut self) -> Vec<Newcomer> {
        std::mem::take(&mut self.newcomers)
    }

    /// A connection that is not being served.
    pub fn get_mut(&mut self, token: Token) -> Option<&mut Connection> {
        self.connections.get_mut(token.0 - FIRST_CONNECTION)?.as_deref_mut()
    }

    /// Number of connections.
    pub fn len(&self) -> usize {
        self.connections.len() - self.free.len()
    }

    /// Reads what has arrived while a connection is out being served.
    pub fn look(&mut self) -> io::Result<()> {
        self.missed = true;
        self.poll_and_receive(Some(Duration::ZERO))
    }

    /// Puts a connection back after it was served.
    pub fn put(&mut self, token: Token, mut connection: Box<Connection>) {
        if self.missed {
            // Looking once too often costs a system call, looking once too rarely would lose a request.
            connection.readable = true;
            connection.write_blocked = false;
        }
        self.connections[token.0 - FIRST_CONNECTION] = Some(connection);
    }

    /// Takes a connection out to serve it; None if it is being served or gone.
    pub fn take(&mut self, token: Token) -> Option<Box<Connection>> {
        self.connections.get_mut(token.0 - FIRST_CONNECTION)?.take()
    }

    /// Makes a connection one to look at in this turn.
    fn note(&mut self, index: usize) {
        if !std::mem::replace(&mut self.in_turn[index], true) {
            self.turn.push(index);
        }
    }

    /// The connection at a place of the turn.
    pub fn in_turn(&self, at: usize) -> Option<Token> {
        self.turn.get(at).map(|index| Token(index + FIRST_CONNECTION))
    }

    /// Makes a connection one to serve in this turn although it may have been served already.
    pub fn serve_again(&mut self, token: Token) {
        let index = token.0 - FIRST_CONNECTION;
        if self.connections.get(index).is_some_and(Option::is_some) {
            self.in_turn[index] = true;
            self.turn.push(index);
        }
    }

    /// Lets go the connections whose record is durable by now. If the log has failed for good, the others are closed:
    /// nobody knows what became of their changes.
    pub fn release(&mut self, durable: Lsn, has_failed: bool) {
        if self.held.is_empty() {
            return;
        }
        for index in std::mem::take(&mut self.held) {
            let Some(connection) = &mut self.connections[index] else { continue };
            let is_kept = connection.held_for <= durable;
            if !is_kept && !has_failed {
                self.held.push(index);
                continue;
            }
            (connection.held_for, connection.is_listed) = (0, false);
            connection.gone |= !is_kept;
            if is_kept {
                // Now, not with the replies to what waits in its input, which may be held in their turn.
                connection.send();
            }
            self.note(index);
        }
    }

    /// The record that the connection held longest waits for; 0: none is held.
    pub fn awaited(&self) -> Lsn {
        let held = self.held.iter().filter_map(|index| self.connections[*index].as_ref());
        held.map(|connection| connection.held_for).max().unwrap_or(0)
    }

    /// Sends replies, drops connections that are over, and keeps for the next turn those that have more to do. Gives the
    /// sessions of the dropped ones.
    pub fn finish_turn(&mut self) -> Vec<u64> {
        let mut ended = Vec::new();
        self.missed = false;
        let turn = std::mem::take(&mut self.turn);
        for index in turn {
            let Some(connection) = &mut self.connections[index] else { continue };
            // Whoever was noted twice is looked at once.
            if !std::mem::replace(&mut self.in_turn[index], false) {
                continue;
            }
            if !connection.gone && connection.has_output() {
                connection.send();
            }
            if connection.held_for > 0 && !std::mem::replace(&mut connection.is_listed, true) {
                self.held.push(index);
            }
            self.over_soft_limit |= connection.is_over_soft_limit();
            if connection.gone {
                ended.extend(self.remove(index));
            } else if connection.has_more() {
                self.note(index);
            }
        }
        ended
    }

    /// Calls `serve` with every connection that has received something, while the store is busy.
    pub fn serve_each(&mut self, mut serve: impl FnMut(&mut Connection)) {
        for at in 0..self.turn.len() {
            if let Some(connection) = &mut self.connections[self.turn[at]] {
                serve(connection);
            }
        }
    }

    fn remove(&mut self, index: usize) -> Option<u64> {
        self.in_turn[index] = false;
        let mut connection = self.connections[index].take()?;
        if connection.session.is_none() {
            // Its place may be another's before it is asked who came.
            self.newcomers.retain(|newcomer| newcomer.token.0 != index + FIRST_CONNECTION);
        }
        if connection.is_listed {
            self.held.retain(|held| *held != index);
        }
        let _ = self.poll.registry().deregister(connection.stream.source());
        self.free.push(index);
        connection.session
    }

    /// Sends what can be sent and drops all connections; gives their sessions.
    pub fn remove_all(&mut self) -> Vec<u64> {
        let all = 0..self.connections.len();
        all.filter_map(|index| {
            self.connections[index].iter_mut().for_each(|connection| connection.send());
            self.remove(index)
        })
        .collect()
    }
}
