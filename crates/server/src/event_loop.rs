//! The event loop: in each turn it reads every socket that has something, takes the baton once to execute all that came,
//! then writes every reply.

use crate::connection::{Connection, Stream};
use crate::wake::{ConnectionWaker, WakeQueue};
use mio::net::{TcpListener, UnixListener};
use mio::{Events, Interest, Poll, Token};
use peryton_core::session::Door;
use peryton_core::store::Store;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const TCP: Token = Token(0);
const UNIX: Token = Token(1);
const WAKE: Token = Token(2);
/// Connections take the tokens from here on.
const FIRST_CONNECTION: usize = 3;
/// Size of the buffer that sockets are read through, bytes.
const SCRATCH_BYTES: usize = 64 * 1024;

/// What an event loop owns.
pub struct EventLoop {
    store: Store,
    poll: Poll,
    queue: Arc<WakeQueue>,
    stop: Arc<AtomicBool>,
    tcp: Option<TcpListener>,
    unix: Option<UnixListener>,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Connections to look at in this turn.
    turn: Vec<usize>,
    in_turn: Vec<bool>,
    accepted: Vec<(Stream, String, String)>,
}

impl EventLoop {
    /// A loop over the given listeners. It ends when `stop` is set and its queue rung.
    pub fn new(
        store: Store,
        mut tcp: Option<TcpListener>,
        mut unix: Option<UnixListener>,
        stop: Arc<AtomicBool>,
    ) -> io::Result<(Self, Arc<WakeQueue>)> {
        let poll = Poll::new()?;
        let queue = Arc::new(WakeQueue::new(mio::Waker::new(poll.registry(), WAKE)?));
        if let Some(tcp) = &mut tcp {
            poll.registry().register(tcp, TCP, Interest::READABLE)?;
        }
        if let Some(unix) = &mut unix {
            poll.registry().register(unix, UNIX, Interest::READABLE)?;
        }
        let event_loop = EventLoop {
            store,
            poll,
            queue: queue.clone(),
            stop,
            tcp,
            unix,
            connections: Vec::new(),
            free: Vec::new(),
            turn: Vec::new(),
            in_turn: Vec::new(),
            accepted: Vec::new(),
        };
        Ok((event_loop, queue))
    }

    /// Serves until stopped, then closes all connections.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut scratch = vec![0; SCRATCH_BYTES];
        while !self.stop.load(Ordering::Acquire) && !self.store.is_closed() {
            self.wait(&mut events)?;
            for index in 0..self.turn.len() {
                if let Some(connection) = &mut self.connections[self.turn[index]] {
                    connection.receive(&mut scratch);
                }
            }
            self.execute();
            self.finish_turn();
        }
        self.close_all();
        Ok(())
    }

    /// Waits for something to do and notes which connections it concerns.
    fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        // Connections left over from the last turn must not wait for the network.
        let timeout = (!self.turn.is_empty()).then_some(std::time::Duration::ZERO);
        if let Err(error) = self.poll.poll(events, timeout)
            && error.kind() != io::ErrorKind::Interrupted
        {
            return Err(error);
        }
        for event in events.iter() {
            match event.token() {
                TCP => self.accept_tcp(),
                UNIX => self.accept_unix(),
                WAKE => {}
                Token(token) => {
                    let index = token - FIRST_CONNECTION;
                    let Some(Some(connection)) = self.connections.get_mut(index) else { continue };
                    connection.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
                    connection.write_blocked &= !event.is_writable();
                    self.note(index);
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, index: usize) {
        if !std::mem::replace(&mut self.in_turn[index], true) {
            self.turn.push(index);
        }
    }

    fn accept_tcp(&mut self) {
        let Some(listener) = &self.tcp else { return };
        loop {
            match listener.accept() {
                Ok((stream, peer)) => {
                    // Replies are written whole; waiting for more to send would only delay them.
                    let _ = stream.set_nodelay(true);
                    let local = stream.local_addr().map(|a| a.to_string()).unwrap_or_default();
                    self.accepted.push((Stream::Tcp(stream), peer.to_string(), local));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Out of descriptors or a client gone already: the next event tries again.
                Err(_) => return,
            }
        }
    }

    fn accept_unix(&mut self) {
        let Some(listener) = &self.unix else { return };
        loop {
            match listener.accept() {
                Ok((stream, _)) => self.accepted.push((Stream::Unix(stream), "/:0".into(), "/:0".into())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Under the baton: opens sessions for new clients, then executes what every connection of the turn has received.
    fn execute(&mut self) {
        let store = self.store.clone();
        let mut baton = store.enter();
        self.queue.set_awake(true);
        for (stream, peer, local) in std::mem::take(&mut self.accepted) {
            self.open(&mut baton, stream, peer, local);
        }
        let mut done = 0;
        loop {
            for token in self.queue.take() {
                let index = token.0 - FIRST_CONNECTION;
                // Serving one session may wake another that was served earlier in this turn: look at it again.
                if self.connections.get(index).is_some_and(Option::is_some) {
                    self.note(index);
                    if let Some(at) = self.turn[..done].iter().position(|i| *i == index) {
                        let again = self.turn.remove(at);
                        done -= 1;
                        self.turn.push(again);
                    }
                }
            }
            let Some(index) = self.turn.get(done).copied() else { break };
            done += 1;
            if let Some(connection) = &mut self.connections[index] {
                connection.run(&mut baton);
                if connection.gone {
                    baton.close_session(connection.session);
                }
            }
        }
        self.queue.set_awake(false);
        if baton.state().shutdown_wanted {
            self.stop.store(true, Ordering::Release);
        }
    }

    fn open(&mut self, baton: &mut peryton_core::store::Baton<'_>, mut stream: Stream, peer: String, local: String) {
        if self.connections.len() - self.free.len() >= baton.state().config.maxclients {
            refuse(&mut stream);
            return;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.in_turn.push(false);
            self.connections.len() - 1
        });
        let token = Token(index + FIRST_CONNECTION);
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self.poll.registry().register(stream.source(), token, interest).is_err() {
            self.free.push(index);
            return;
        }
        let waker = Arc::new(ConnectionWaker { token, queue: self.queue.clone() });
        let session = baton.open_session(Door::Resp, waker);
        if let Some(mut active) = baton.activate(session) {
            active.session().address = (peer, local);
        }
        self.connections[index] = Some(Connection::new(stream, session));
    }

    /// Sends replies, drops connections that are over, and keeps for the next turn those that have more to do.
    fn finish_turn(&mut self) {
        let mut turn = std::mem::take(&mut self.turn);
        turn.retain(|&index| {
            let Some(connection) = &mut self.connections[index] else {
                self.in_turn[index] = false;
                return false;
            };
            if !connection.gone && connection.has_output() {
                connection.send();
            }
            if connection.gone {
                self.drop_connection(index);
                return false;
            }
            let again = connection.has_more();
            self.in_turn[index] = again;
            again
        });
        self.turn = turn;
    }

    fn drop_connection(&mut self, index: usize) {
        self.in_turn[index] = false;
        let Some(mut connection) = self.connections[index].take() else { return };
        let _ = self.poll.registry().deregister(connection.stream.source());
        self.store.enter().close_session(connection.session);
        self.free.push(index);
    }

    fn close_all(&mut self) {
        for index in 0..self.connections.len() {
            if let Some(connection) = &mut self.connections[index] {
                connection.send();
            }
            self.drop_connection(index);
        }
    }
}

fn refuse(stream: &mut Stream) {
    let text = b"-ERR max number of clients reached\r\n";
    // The client is gone either way.
    let _ = match stream {
        Stream::Tcp(stream) => io::Write::write(stream, text),
        Stream::Unix(stream) => io::Write::write(stream, text),
    };
}
