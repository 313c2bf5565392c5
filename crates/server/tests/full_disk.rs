//! A door on a store whose disk is full: reads go on, and the server can be stopped although replies wait for room.

use peryton_core::env::{DirectoryFiles, FileReader, FileWriter, Files};
use peryton_core::session::Durability;
use peryton_core::store::{Condition, Options, Store};
use peryton_server::{Options as DoorOptions, Server};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// Files on a disk that becomes full when a test wants it.
struct Disk {
    files: DirectoryFiles,
    is_full: Arc<AtomicBool>,
}

struct Writer {
    file: Box<dyn FileWriter>,
    is_full: Arc<AtomicBool>,
}

impl Writer {
    fn check(&self) -> io::Result<()> {
        if self.is_full.load(Ordering::SeqCst) { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl Files for Disk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.files.list()
    }
    fn open(&self, name: &str) -> io::Result<Box<dyn FileReader>> {
        self.files.open(name)
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn FileWriter>> {
        Ok(Box::new(Writer { file: self.files.create(name)?, is_full: self.is_full.clone() }))
    }
    fn modify(&self, name: &str) -> io::Result<Box<dyn FileWriter>> {
        Ok(Box::new(Writer { file: self.files.modify(name)?, is_full: self.is_full.clone() }))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.files.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.remove(name)
    }
    fn sync_directory(&self) -> io::Result<()> {
        self.files.sync_directory()
    }
}

impl FileWriter for Writer {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.check()?;
        self.file.write_at(offset, bytes)
    }
    fn reserve(&mut self, length: u64) -> io::Result<()> {
        self.check()?;
        self.file.reserve(length)
    }
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file.truncate(length)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }
}

fn ask(client: &mut TcpStream, line: &str, expected: &str) {
    client.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    let mut reply = vec![0; expected.len()];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(expected, String::from_utf8_lossy(&reply), "{line}");
}

fn within<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    is_done.recv_timeout(LONG).unwrap_or_else(|_| panic!("{what} takes for ever"))
}

#[test]
fn a_server_whose_disk_is_full_reads_and_stops() {
    let path = std::env::temp_dir().join(format!("peryton-full-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    let is_full = Arc::new(AtomicBool::new(false));
    let files = Disk { files: DirectoryFiles::new(&path), is_full: is_full.clone() };
    let options = Options { files: Some(Arc::new(files)), durability: Some(Durability::Sync), ..Options::default() };
    let store = Store::open(options).unwrap();
    let door = DoorOptions { bind: Some(("127.0.0.1".into(), 0)), ..DoorOptions::default() };
    let mut server = Server::start(&store, &door).unwrap();
    let connect = || {
        let client = TcpStream::connect(server.address().unwrap()).unwrap();
        client.set_read_timeout(Some(LONG)).unwrap();
        client
    };
    let (mut first, mut second) = (connect(), connect());
    ask(&mut first, "SET a 1", "+OK\r\n");
    ask(&mut first, "SETRANGE large 73400319 x", ":73400320\r\n");
    is_full.store(true, Ordering::SeqCst);
    ask(&mut second, "DURABILITY INTERVAL", "+OK\r\n");
    let begun = Instant::now();
    // More than may wait to be written, in one command; its reply waits for room.
    first.write_all(b"COPY large another\r\n").unwrap();
    while store.log().unwrap().condition() != Condition::Full {
        assert!(begun.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(1));
    }
    ask(&mut second, "GET a", "$1\r\n1\r\n");
    ask(&mut second, "SET b 1", "-MISCONF");
    let server = within("stopping the server", move || {
        server.stop();
        server
    });
    drop(server);
    let closing = store.clone();
    within("closing the store", move || closing.close());
    std::fs::remove_dir_all(&path).unwrap();
}
