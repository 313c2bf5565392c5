//! The door of a store that is still being opened: tells every client that it is loading, and how far it is.
//!
//! Clients that came meanwhile stay connected: the door is handed over with their connections when the store is there.

use crate::connection::Connection;
use crate::listener::{Address, Bound, Options, Server, io_error};
use peryton_core::error::{Code, Error, Result};
use peryton_core::limits;
use peryton_core::reply::Reply;
use peryton_core::store::Store;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// How far the loading is.
struct Progress {
    began: Instant,
    began_s: u64,
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
    stop: AtomicBool,
}

/// A door that answers for a store that is not there yet. Dropping it closes it.
pub struct Loading {
    address: Option<Address>,
    queue: Arc<crate::wake::WakeQueue>,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<Bound>>,
}

impl Loading {
    /// Begins to listen, and to answer. INFO has the fields of Redis 7 for a server that loads; all else is refused with
    /// LOADING, but where a password is asked for INFO, too.
    ///
    /// # Errors
    /// The address cannot be bound, it can be reached from other machines and there is no password, or there is no thread.
    pub fn start(options: &Options) -> Result<Loading> {
        let has_password = options.password.as_ref().is_some_and(|password| !password.is_empty());
        let bound = Bound::open(options, has_password)?;
        let (address, queue) = (bound.address(), bound.queue.clone());
        let progress = Arc::new(Progress {
            began: Instant::now(),
            began_s: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            done_bytes: AtomicU64::new(0),
            total_bytes: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let shown = progress.clone();
        let builder = std::thread::Builder::new().name("peryton-loading".into()).stack_size(limits::THREAD_STACK_BYTES);
        let thread = builder.spawn(move || run(bound, &shown, has_password));
        let thread = Some(thread.map_err(|e| io_error("cannot start a thread", &e))?);
        Ok(Loading { address, queue, progress, thread })
    }

    /// The TCP address listened to.
    pub fn address(&self) -> Option<Address> {
        self.address
    }

    /// Hears how far the loading is, in bytes.
    pub fn tell(&self, done: u64, total: u64) {
        self.progress.done_bytes.store(done, Ordering::Relaxed);
        self.progress.total_bytes.store(total, Ordering::Relaxed);
    }

    /// Gives the door to the store, with all clients that have come.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn serve(mut self, store: &Store) -> Result<Server> {
        match self.stop() {
            Some(bound) => Server::serve(store, bound),
            None => Err(Error::err("the door of the loading store has failed")),
        }
    }

    fn stop(&mut self) -> Option<Bound> {
        self.progress.stop.store(true, Ordering::Release);
        self.queue.ring();
        self.thread.take()?.join().ok()
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Answers until told to stop.
fn run(mut bound: Bound, progress: &Progress, has_password: bool) -> Bound {
    while !progress.stop.load(Ordering::Acquire) {
        if let Err(error) = bound.sockets.wait() {
            eprintln!("peryton: nobody is told that the store is loading: {error}");
            break;
        }
        bound.sockets.serve_each(|connection| answer(connection, progress, has_password));
        // Nobody has a session yet.
        bound.sockets.finish_turn();
    }
    bound
}

fn answer(connection: &mut Connection, progress: &Progress, has_password: bool) {
    if !has_password {
        connection.trust();
    }
    connection.run_busy(|args| match args {
        [name, sections @ ..] if !has_password && name.eq_ignore_ascii_case(b"INFO") => info(progress, sections),
        _ => Reply::Error(Error::new(Code::Loading, "Peryton is loading the dataset in memory")),
    });
}

/// INFO of a server that loads: what there is of the sections Server and Persistence.
fn info(progress: &Progress, wanted: &[&[u8]]) -> Reply {
    let is_wanted = |name: &str| {
        let named = |word: &&[u8]| {
            [name, "all", "everything", "default"].iter().any(|one| word.eq_ignore_ascii_case(one.as_bytes()))
        };
        wanted.is_empty() || wanted.iter().any(named)
    };
    let sections = [("Server", server()), ("Persistence", progress.section())];
    let texts: Vec<String> = sections
        .into_iter()
        .filter(|(name, _)| is_wanted(name))
        .map(|(name, lines)| format!("# {name}\r\n{lines}"))
        .collect();
    Reply::Verbatim(*b"txt", texts.join("\r\n").into_bytes().into())
}

fn server() -> String {
    format!("peryton_version:{}\r\nprocess_id:{}\r\n", env!("CARGO_PKG_VERSION"), std::process::id())
}

impl Progress {
    /// INFO's section Persistence, in the fields of a Redis 7 that loads.
    fn section(&self) -> String {
        let done = self.done_bytes.load(Ordering::Relaxed);
        let total = self.total_bytes.load(Ordering::Relaxed);
        let percent = if total == 0 { 0.0 } else { 100.0 * done as f64 / total as f64 };
        // As Redis guesses: what is left takes as long as what is done, in proportion.
        let left = total.saturating_sub(done) as f64 / done.max(1) as f64;
        let eta_s = (self.began.elapsed().as_secs_f64() * left).ceil() as u64;
        format!(
            "loading:1\r\nasync_loading:0\r\nloading_start_time:{}\r\nloading_total_bytes:{total}\r\n\
             loading_loaded_bytes:{done}\r\nloading_loaded_perc:{percent:.2}\r\nloading_eta_seconds:{eta_s}\r\n",
            self.began_s,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn options(password: Option<&str>) -> Options {
        Options { bind: Some(("127.0.0.1".into(), 0)), password: password.map(Into::into), ..Options::default() }
    }

    fn ask(stream: &mut TcpStream, request: &str, end: &str) -> String {
        // An answer that never comes is a failure and no hang.
        stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut seen = Vec::new();
        let mut buffer = [0; 4096];
        while !seen.ends_with(end.as_bytes()) {
            match stream.read(&mut buffer) {
                Ok(count) if count > 0 => seen.extend_from_slice(&buffer[..count]),
                other => panic!("{other:?} after {:?}", String::from_utf8_lossy(&seen)),
            }
        }
        String::from_utf8(seen).unwrap()
    }

    #[test]
    fn clients_hear_how_far_it_is_and_stay() {
        let loading = Loading::start(&options(None)).unwrap();
        let mut client = TcpStream::connect(loading.address().unwrap()).unwrap();
        let refusal = "-LOADING Peryton is loading the dataset in memory\r\n";
        assert_eq!(refusal, ask(&mut client, "*1\r\n$4\r\nPING\r\n", "\r\n"));
        assert_eq!(refusal.repeat(2), ask(&mut client, "GET a\r\nSET a 1\r\n", &refusal.repeat(2)));
        loading.tell(25, 100);
        let info = ask(&mut client, "INFO persistence\r\n", "\r\n\r\n");
        for line in ["loading:1", "loading_total_bytes:100", "loading_loaded_bytes:25", "loading_loaded_perc:25.00"] {
            assert!(info.contains(&format!("\n{line}\r\n")), "{line} in {info}");
        }
        assert_eq!(ask(&mut client, "INFO server\r\n", "\r\n\r\n").matches("# ").count(), 1);
        // Half a request that comes before the store is there is answered by the store.
        client.write_all(b"*2\r\n$4\r\nPING\r\n$5\r\nhe").unwrap();
        drop(TcpStream::connect(loading.address().unwrap()).unwrap());
        let store = Store::open(peryton_core::store::Options::default()).unwrap();
        let server = loading.serve(&store).unwrap();
        assert_eq!("$5\r\nhello\r\n", ask(&mut client, "llo\r\n", "hello\r\n"));
        let mut another = TcpStream::connect(server.address().unwrap()).unwrap();
        assert_eq!("+PONG\r\n", ask(&mut another, "PING\r\n", "\r\n"));
        drop(server);
        store.close();
    }

    #[test]
    fn a_password_is_not_needed_to_hear_that_it_loads_but_to_hear_more() {
        let loading = Loading::start(&options(Some("secret"))).unwrap();
        let mut client = TcpStream::connect(loading.address().unwrap()).unwrap();
        let refusal = "-LOADING Peryton is loading the dataset in memory\r\n";
        assert_eq!(refusal, ask(&mut client, "INFO\r\n", "\r\n"));
        let store = Store::open(peryton_core::store::Options::default()).unwrap();
        let server = loading.serve(&store).unwrap();
        assert_eq!("-NOAUTH Authentication required.\r\n", ask(&mut client, "GET a\r\n", "\r\n"));
        assert_eq!("+OK\r\n+PONG\r\n", ask(&mut client, "AUTH secret\r\nPING\r\n", "PONG\r\n"));
        drop(server);
        store.close();
    }

    #[test]
    fn an_address_that_others_reach_needs_a_password() {
        let everywhere = Options { bind: Some(("0.0.0.0".into(), 0)), ..Options::default() };
        assert!(Loading::start(&everywhere).is_err_and(|error| error.message.contains("requirepass")));
    }
}
