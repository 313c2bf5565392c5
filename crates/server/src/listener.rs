//! Opening a door: checks what may be listened to, binds it, and runs the event loop on a thread of its own.

use crate::event_loop::{self, Shared};
use crate::guard;
use crate::sockets::Sockets;
use crate::wake::WakeQueue;
use parking_lot::Mutex;
use peryton_core::error::{Error, Result};
use peryton_core::limits;
use peryton_core::store::Store;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::JoinHandle;

/// Where to listen.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Host and port; port 0 takes a free one. None: no TCP.
    pub bind: Option<(String, u16)>,
    /// Path of a Unix socket.
    pub unix_socket: Option<PathBuf>,
    /// The store's new password, for all its doors; None: it keeps the one it has, if it has one.
    pub password: Option<String>,
}

/// An address somebody can connect to.
pub type Address = SocketAddr;

/// A door whose sockets are bound, but which nobody serves yet.
pub struct Bound {
    /// Listeners, and clients that have come.
    pub sockets: Sockets,
    /// Wakes whoever waits for the sockets.
    pub queue: Arc<WakeQueue>,
    options: Options,
    address: Option<Address>,
}

impl Bound {
    /// Begins to listen.
    ///
    /// # Errors
    /// The address cannot be bound, or it can be reached from other machines and there is no password.
    pub fn open(options: &Options, has_password: bool) -> Result<Bound> {
        let tcp = options.bind.as_ref().map(|(host, port)| bind_tcp(host, *port, has_password)).transpose()?;
        let unix = options.unix_socket.as_ref().map(bind_unix).transpose()?;
        let address = tcp.as_ref().and_then(|listener| listener.local_addr().ok());
        let sockets = Sockets::new(tcp, unix).map_err(|e| io_error("cannot start", &e))?;
        let waker = sockets.waker().map_err(|e| io_error("cannot start", &e))?;
        Ok(Bound { sockets, queue: Arc::new(WakeQueue::new(waker)), options: options.clone(), address })
    }

    /// The TCP address listened to.
    pub fn address(&self) -> Option<Address> {
        self.address
    }
}

/// A running door. Dropping it stops it.
pub struct Server {
    address: Option<Address>,
    unix_socket: Option<PathBuf>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// What the log tells of its progress, until this door is closed.
    hearing: Option<u64>,
}

impl Server {
    /// Begins to listen.
    ///
    /// # Errors
    /// The address cannot be bound, or it can be reached from other machines and the store has no password.
    pub fn start(store: &Store, options: &Options) -> Result<Server> {
        let has_password = {
            let mut baton = store.enter();
            !options.password.as_deref().unwrap_or(&baton.state().config.requirepass).is_empty()
        };
        Server::serve(store, Bound::open(options, has_password)?)
    }

    /// Serves whoever comes, or has come, to a door.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn serve(store: &Store, bound: Bound) -> Result<Server> {
        let Bound { sockets, queue, options, address } = bound;
        let (has_password, busy_after_ms) = {
            let mut baton = store.enter();
            let config = &mut baton.state().config;
            // Not before the door is open: one that cannot be must not lock the others.
            options.password.iter().for_each(|password| config.requirepass.clone_from(password));
            (!config.requirepass.is_empty(), config.busy_reply_threshold_ms)
        };
        let shared = Arc::new(Shared {
            store: store.clone(),
            sockets: Mutex::new(sockets),
            queue,
            stop: AtomicBool::new(false),
            busy_after_ms: AtomicI64::new(busy_after_ms),
            was_shut_down: AtomicBool::new(false),
            is_open: AtomicBool::new(!has_password),
            awaits_log: AtomicBool::new(false),
        });
        let hearing = store.log().map(|log| {
            let loop_of = Arc::downgrade(&shared);
            log.on_progress(Arc::new(move || {
                if let Some(shared) = loop_of.upgrade()
                    && shared.awaits_log.load(Ordering::SeqCst)
                {
                    shared.queue.ring();
                }
            }))
        });
        let unix_socket = options.unix_socket;
        let mut server = Server { address, unix_socket, shared, threads: Vec::new(), hearing };
        server.spawn("peryton-resp", |shared| {
            if let Err(error) = event_loop::run(shared) {
                eprintln!("peryton: the door closed: {error}");
            }
        })?;
        server.spawn("peryton-guard", guard::run)?;
        Ok(server)
    }

    fn spawn(&mut self, name: &str, run: fn(&Shared)) -> Result<()> {
        let shared = self.shared.clone();
        let builder = std::thread::Builder::new().name(name.into()).stack_size(limits::THREAD_STACK_BYTES);
        let thread = builder.spawn(move || run(&shared));
        self.threads.push(thread.map_err(|e| io_error("cannot start a thread", &e))?);
        Ok(())
    }

    /// The TCP address listened to.
    pub fn address(&self) -> Option<Address> {
        self.address
    }

    /// True while it serves.
    pub fn is_running(&self) -> bool {
        self.threads.first().is_some_and(|thread| !thread.is_finished())
    }

    /// True once a client has ended it with SHUTDOWN.
    pub fn was_shut_down(&self) -> bool {
        self.shared.was_shut_down.load(Ordering::Acquire)
    }

    /// Stops listening, closes all connections and waits for the loop to end.
    pub fn stop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        if let (Some(log), Some(hearing)) = (self.shared.store.log(), self.hearing.take()) {
            log.forget(hearing);
        }
        if let Some(path) = &self.unix_socket {
            // Left behind, it would only puzzle the next server, which removes it anyway.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Clients that may wait to be accepted, as many as in Redis.
const BACKLOG: libc::c_int = 511;

fn bind_tcp(host: &str, port: u16, has_password: bool) -> Result<mio::net::TcpListener> {
    let place = format!("cannot listen on {host}:{port}");
    let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(|e| io_error(&place, &e))?.collect();
    if !has_password && !addresses.iter().all(|address| is_loopback(address.ip())) {
        return Err(Error::err(format!(
            "{place}: other machines could reach it and there is no password; set one (requirepass) or bind to 127.0.0.1"
        )));
    }
    let listener = std::net::TcpListener::bind(&addresses[..]).map_err(|e| io_error(&place, &e))?;
    listener.set_nonblocking(true).map_err(|e| io_error(&place, &e))?;
    // The standard library lets 128 clients queue up; a larger burst would wait a second for the kernel to try again.
    // SAFETY: the descriptor is that of a listening socket that `listener` keeps open; no memory is involved.
    if unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) } != 0 {
        return Err(io_error(&place, &std::io::Error::last_os_error()));
    }
    Ok(mio::net::TcpListener::from_std(listener))
}

fn is_loopback(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
    }
}

fn bind_unix(path: &PathBuf) -> Result<mio::net::UnixListener> {
    let place = format!("cannot listen on {}", path.display());
    // A socket file of a server that is gone refuses connections; a living one accepts them and keeps its place.
    if path.exists() && std::os::unix::net::UnixStream::connect(path).is_err() {
        std::fs::remove_file(path).map_err(|e| io_error(&place, &e))?;
    }
    mio::net::UnixListener::bind(path).map_err(|e| io_error(&place, &e))
}

/// An error of the operating system.
pub fn io_error(what: &str, error: &std::io::Error) -> Error {
    Error::err(format!("{what}: {error}"))
}
