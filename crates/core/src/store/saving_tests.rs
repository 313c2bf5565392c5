//! Checkpoints and backups by the store's own thread when something is in their way; what is removed, and when; stores that
//! are closed, dropped, and put into other directories.

use super::tests::Client;
use super::*;
use crate::env::simulated::{Operation, SimulatedFiles};
use crate::env::{DirectoryFiles, Xoshiro};
use crate::recovery::{Content, name_of};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::mpsc;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG, "it does not come to that");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn on(files: &SimulatedFiles, durability: Durability) -> Options {
    let log = LogSettings { head_room_bytes: 16 << 10, reserve_step_bytes: 8 << 10, ..LogSettings::default() };
    Options { files: Some(Arc::new(files.clone())), durability: Some(durability), log, ..Options::default() }
}

fn in_directory(path: &Path) -> Options {
    Options { dir: Some(path.into()), durability: Some(Durability::Interval), ..Options::default() }
}

fn fresh(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("peryton-saving-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    path
}

fn names(files: &dyn Files, end: &str) -> Vec<String> {
    let mut names: Vec<String> = files.list().unwrap().into_iter().filter(|name| name.ends_with(end)).collect();
    names.sort();
    names
}

#[test]
fn a_bug_in_a_checkpoint_is_an_error_and_the_next_one_is_made() {
    for operation in [Operation::Create, Operation::Write, Operation::Sync, Operation::Rename] {
        let files = SimulatedFiles::new(1);
        let client = Client::with(on(&files, Durability::None));
        client.call(&["SET", "a", "1"]);
        files.panic_at(operation, 1);
        let error = client.error(&["SAVE"]);
        assert!(error.contains("failed inside Peryton"), "{operation:?}: {error}");
        let saves = |client: &Client| {
            let mut baton = client.store.enter();
            let saves = &baton.state().journal.saves;
            (saves.running, saves.failed.is_some(), saves.count)
        };
        assert_eq!((false, true, 0), saves(&client), "{operation:?}");
        assert_eq!(0, files.list().unwrap().len(), "{operation:?}");
        assert_eq!(Reply::Ok, client.call(&["SAVE"]), "{operation:?}");
        assert_eq!((false, false, 1), saves(&client), "{operation:?}");
        drop(client);
        assert_eq!(Reply::bulk("1"), Client::with(on(&files, Durability::None)).call(&["GET", "a"]));
    }
}

#[test]
fn a_store_that_waits_for_room_can_be_closed() {
    let files = SimulatedFiles::new(1);
    let client = Client::with(on(&files, Durability::Interval));
    client.call(&["SET", "small", "1"]);
    client.store.log().unwrap().wait(1).unwrap();
    // There is room for a checkpoint, and not for the log.
    files.set_capacity(files.used() + 80_000);
    client.call(&["SET", "large", &"x".repeat(60_000)]);
    client.call(&["SET", "large", &"x".repeat(60_000)]);
    until(|| client.store.log().unwrap().condition() == Condition::Full);
    assert!(client.store.log().unwrap().durable() < 3);
    client.call(&["DEL", "large"]);
    assert!(matches!(client.send(&["BGSAVE"]), Reply::Status(_)));
    until(|| !names(&files, ".tmp").is_empty() || client.store.enter().state().journal.saves.failed.is_some());
    let (done, is_done) = mpsc::channel();
    let store = client.store.clone();
    std::thread::spawn(move || {
        store.close();
        done.send(())
    });
    is_done.recv_timeout(LONG).expect("the store is closed");
}

#[test]
fn what_a_crash_left_of_checkpoints_goes_when_the_store_is_opened() {
    let files = SimulatedFiles::new(1);
    let client = Client::with(on(&files, Durability::Sync));
    client.call(&["SET", "a", "1"]);
    client.call(&["SAVE"]);
    until(|| names(&files, ".log").len() == 1);
    let before = files.copy();
    client.call(&["SET", "a", "2"]);
    client.call(&["SAVE"]);
    until(|| names(&files, ".log").len() == 1);
    drop(client);
    let newest = names(&files, ".ckp");
    assert_eq!(vec![name_of(2)], newest);
    // As if what is superfluous had not been removed, and another one had been begun.
    for name in names(&before, "").into_iter().filter(|name| !files.list().unwrap().contains(name)) {
        files.set_content(&name, before.content(&name));
    }
    files.set_content("checkpoint-00000000000000000009.tmp", b"half".to_vec());
    files.set_content("wal-00000000000000000009.new", b"half".to_vec());
    assert_eq!((2, 2), (names(&files, ".ckp").len(), names(&files, ".log").len()));
    let client = Client::with(on(&files, Durability::Sync));
    assert_eq!(Reply::bulk("2"), client.call(&["GET", "a"]));
    assert_eq!(newest, names(&files, ".ckp"));
    assert_eq!(0, names(&files, ".tmp").len() + names(&files, ".new").len());
    assert_eq!(vec!["wal-00000000000000000003.log"], names(&files, ".log"));
    drop(client);
    // Also without a checkpoint.
    let files = SimulatedFiles::new(1);
    files.set_content("checkpoint-00000000000000000009.tmp", b"half".to_vec());
    drop(Client::with(on(&files, Durability::None)));
    assert_eq!(0, files.list().unwrap().len());
}

#[test]
fn a_server_saves_keys_at_the_end_of_its_turns() {
    const PAIRS: usize = 2000;
    let files = SimulatedFiles::new(1);
    let client = Client::with(on(&files, Durability::None));
    let set = |pair: usize, value: &str| {
        let (one, other) = (format!("one:{pair}"), format!("other:{pair}"));
        assert_eq!(Reply::Ok, client.call(&["MSET", &one, value, &other, value]));
    };
    (0..PAIRS).for_each(|pair| set(pair, "0"));
    let (mut served, mut value) = (0, 0);
    let count = || client.store.enter().state().journal.saves.count;
    // The store's own thread may be faster.
    until(|| {
        let before = count();
        client.send(&["BGSAVE"]);
        until(|| {
            value += 1;
            set(value * 31 % PAIRS, &value.to_string());
            let mut baton = client.store.enter();
            let is_running = baton.state().journal.saves.slices.is_some();
            baton.save_some();
            served += u64::from(is_running && baton.state().journal.saves.slices.is_none());
            baton.state().journal.saves.count > before
        });
        served > 0
    });
    drop(client);
    // All of one instant: both of each pair, or neither.
    let again = Client::with(on(&files, Durability::None));
    assert_eq!(Reply::Int(2 * PAIRS as i64), again.call(&["DBSIZE"]));
    for pair in 0..PAIRS {
        let one = again.call(&["GET", &format!("one:{pair}")]);
        assert_eq!(one, again.call(&["GET", &format!("other:{pair}")]));
    }
}

#[test]
fn a_bit_that_is_set_again_is_no_change() {
    let files = SimulatedFiles::new(1);
    let client = Client::with(on(&files, Durability::Interval));
    let dirty = || client.store.enter().state().stats.dirty;
    assert_eq!(Reply::Int(0), client.call(&["SETBIT", "k", "12", "1"]));
    assert_eq!(Reply::Int(0), client.call(&["SETBIT", "k", "3", "1"]));
    let before = dirty();
    // It has a record, since the string shows another encoding, which nobody counts.
    assert_eq!(Reply::Int(1), client.call(&["SETBIT", "k", "12", "1"]));
    assert_eq!(Reply::Int(0), client.call(&["SETBIT", "k", "13", "0"]));
    assert_eq!(before, dirty());
    assert_eq!(Reply::Int(0), client.call(&["SETBIT", "k", "16", "0"]));
    assert_eq!(before + 1, dirty());
}

#[test]
fn the_log_before_a_checkpoint_goes_at_once() {
    let files = SimulatedFiles::new(1);
    let client = Client::with(on(&files, Durability::Interval));
    for lsn in 1..4 {
        client.call(&["SET", "a", "1"]);
        assert_eq!(Reply::Ok, client.call(&["SAVE"]));
        until(|| names(&files, ".log") == [format!("wal-{:020}.log", lsn + 1)]);
    }
}

/// A world whose clocks a test moves apart.
#[derive(Clone, Default)]
struct World {
    wall_us: Arc<AtomicI64>,
    steady_ns: Arc<AtomicU64>,
}

impl Env for World {
    fn now_us(&mut self) -> i64 {
        self.wall_us.load(Ordering::Relaxed)
    }
    fn monotonic_ns(&mut self) -> u64 {
        self.steady_ns.load(Ordering::Relaxed)
    }
    fn random_u64(&mut self) -> u64 {
        Xoshiro::from_seed(1).next()
    }
}

#[test]
fn checkpoints_go_on_though_the_clock_is_put_back() {
    const DAY_US: i64 = 86_400_000_000;
    const SECOND_NS: u64 = 1_000_000_000;
    let (files, world) = (SimulatedFiles::new(1), World::default());
    world.wall_us.store(20_000 * DAY_US, Ordering::Relaxed);
    for _ in 0..2 {
        let options = Options { env: Some(Box::new(world.clone())), ..on(&files, Durability::Interval) };
        let client = Client::with(options);
        let count = || client.store.enter().state().journal.saves.count;
        client.call(&["CONFIG", "SET", "checkpoint-seconds", "100"]);
        for round in 0..3 {
            client.call(&["INCR", "a"]);
            world.wall_us.fetch_sub(DAY_US, Ordering::Relaxed);
            world.steady_ns.fetch_add(101 * SECOND_NS, Ordering::Relaxed);
            until(|| count() == round + 1);
        }
        // Nor does a failure last longer for it.
        client.store.enter().state().journal.saves.failed = Some("as on a full disk".into());
        client.call(&["INCR", "a"]);
        world.wall_us.fetch_sub(DAY_US, Ordering::Relaxed);
        world.steady_ns.fetch_add(101 * SECOND_NS, Ordering::Relaxed);
        until(|| count() == 4);
    }
}

#[test]
fn a_dropped_store_keeps_its_directory_until_its_log_has_ended() {
    let path = fresh("dropped");
    for round in 0..20 {
        let mut store = None;
        until(|| match Store::open(in_directory(&path)) {
            Ok(opened) => store.replace(opened).is_none(),
            Err(error) => !error.message.contains("is open in this process") && panic!("{error}"),
        });
        let store = store.unwrap();
        let session = store.enter().open_session(Door::Embedded, Arc::new(crate::session::NoWaker));
        assert_eq!(Reply::Int(round + 1), store.enter().execute(session, &[b"INCR", b"a"]));
    }
    fs::remove_dir_all(&path).unwrap();
}

#[test]
fn who_closes_a_store_second_waits_for_the_first() {
    let path = fresh("second");
    for round in 0..10 {
        let client = Client::with(in_directory(&path));
        assert_eq!(Reply::Int(round + 1), client.call(&["INCR", "a"]));
        let closing = client.store.clone();
        let first = std::thread::spawn(move || closing.close());
        until(|| client.store.is_closed());
        client.store.close();
        // So the directory is free.
        drop(Directory::claim(&path).unwrap());
        first.join().unwrap();
    }
    fs::remove_dir_all(&path).unwrap();
}

#[test]
fn a_backup_is_a_store_of_its_own() {
    let path = fresh("backup");
    let client = Client::with(in_directory(&path));
    client.call(&["SET", "a", "1"]);
    client.call(&["SQL", "CREATE TABLE t (id INT PRIMARY KEY)"]);
    let Reply::Bulk(made) = client.call(&["BACKUP", "copy"]) else { panic!("no backup") };
    let made = PathBuf::from(String::from_utf8(made.to_vec()).unwrap());
    assert_eq!(path.join("backups/copy"), made);
    assert!(client.error(&["BACKUP", "copy"]).contains("there is something of this name"));
    std::os::unix::fs::symlink("nowhere", path.join("backups/link")).unwrap();
    assert!(client.error(&["BACKUP", "link"]).contains("there is something of this name"));
    drop(client);
    let read = |path: &Path| Content::read(&DirectoryFiles::new(path), &mut |_| {}).report;
    let id = |report: &Report| report.recovered.as_ref().unwrap().id.unwrap();
    let (ours, copy) = (read(&path), read(&made));
    assert_eq!((ours.keys, ours.tables), (copy.keys, copy.tables));
    assert_eq!(ours.recovered.as_ref().unwrap().next, copy.recovered.as_ref().unwrap().next);
    assert_ne!(id(&ours), id(&copy));

    let target = path.join("restored");
    let report = restore(&made, &target, None).unwrap();
    assert_eq!((1, 1, true), (report.keys, report.tables, report.has_data()));
    let restored = read(&target);
    assert_eq!(copy.recovered.as_ref().unwrap().next, restored.recovered.as_ref().unwrap().next);
    assert!(id(&restored) != id(&copy) && id(&restored) != id(&ours));
    assert!(restore(&made, &target, None).unwrap_err().message.contains("exists"));
    fs::remove_dir_all(&path).unwrap();
}

#[test]
fn what_is_damaged_or_empty_is_not_restored() {
    let (path, target) = (fresh("source"), fresh("target"));
    fs::create_dir_all(&path).unwrap();
    assert!(!restore(&path, &target, None).unwrap().has_data());
    drop(Client::with(in_directory(&path)));
    assert!(!restore(&path, &target, None).unwrap().has_data());
    let client = Client::with(in_directory(&path));
    client.call(&["SET", "a", "1"]);
    assert!(restore(&path, &target, None).unwrap_err().message.contains("is open in"));
    client.call(&["SAVE"]);
    drop(client);
    let checkpoint = path.join(name_of(1));
    let mut bytes = fs::read(&checkpoint).unwrap();
    bytes[60] ^= 1;
    fs::write(&checkpoint, bytes).unwrap();
    let trouble = restore(&path, &target, None).unwrap().trouble.unwrap();
    assert!(trouble.contains(&name_of(1)), "{trouble}");
    assert!(!target.exists());
    assert!(restore(&target, &path.join("x"), None).is_err());
    fs::remove_dir_all(&path).unwrap();
}

#[test]
fn what_is_restored_is_written_wholly_or_not_at_all() {
    let files = SimulatedFiles::new(1);
    let client = Client::with(on(&files, Durability::Sync));
    for n in 0..50 {
        client.call(&["SET", &n.to_string(), &"x".repeat(1000)]);
    }
    client.call(&["SQL", "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, b TEXT)"]);
    client.call(&["SQL", "INSERT INTO t (b) VALUES ('one'), ('two')"]);
    client.call(&["SQL", "DELETE FROM t WHERE id = 2"]);
    let digests = |state: &State| (state.keyspace.digest(), state.tables.digest().unwrap());
    let before = digests(client.store.enter().state());
    drop(client);
    let mut content = Content::read(&files, &mut |_| {});
    let next = content.report.recovered.as_ref().unwrap().next;
    for (operation, error) in [(Operation::Write, ErrorKind::StorageFull), (Operation::SyncDirectory, ErrorKind::Other)]
    {
        let target = SimulatedFiles::new(2);
        target.fail(operation, 1, error);
        assert!(content.write(&target, [9; 16], 5).is_err(), "{operation:?}");
        assert_eq!(0, names(&target, ".tmp").len());
    }
    let target = SimulatedFiles::new(2);
    let written = content.write(&target, [9; 16], 5).unwrap();
    assert_eq!(next - 1, written.lsn);
    let target = target.crash(1);
    let client = Client::with(on(&target, Durability::Sync));
    assert_eq!(before, digests(client.store.enter().state()));
    client.call(&["SQL", "INSERT INTO t (b) VALUES ('three')"]);
    assert_eq!(Reply::Int(3), single(client.call(&["SQL", "SELECT max(id) FROM t"])));
}

/// The value in a reply of one row with one column.
fn single(reply: Reply) -> Reply {
    let Reply::Array(mut rows) = reply else { panic!("{reply:?}") };
    match rows.pop() {
        Some(Reply::Array(mut row)) => row.pop().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn errors_about_files_say_where_they_are() {
    let path = fresh("place");
    let client = Client::with(in_directory(&path));
    client.call(&["SET", "a", "1"]);
    // A folder is in the place of the checkpoint's file.
    let unfinished = path.join("checkpoint-00000000000000000001.tmp");
    fs::create_dir(&unfinished).unwrap();
    let error = client.error(&["SAVE"]);
    assert!(error.contains(&format!("in {}", path.display())), "{error}");
    fs::remove_dir(&unfinished).unwrap();
    drop(client);
    let log = path.join("wal-00000000000000000001.log");
    fs::write(&log, b"PERYTLOG").unwrap();
    let error = Store::open(in_directory(&path)).map(|_| ()).unwrap_err().message;
    assert!(error.contains("wal-00000000000000000001.log"), "{error}");
    assert!(error.contains(&format!("in {}", path.display())), "{error}");
    fs::remove_dir_all(&path).unwrap();
}

#[test]
fn without_a_directory_there_is_no_place_for_backups() {
    let client = Client::with(on(&SimulatedFiles::new(1), Durability::Interval));
    assert!(client.error(&["BACKUP", "x"]).contains("no directory"));
}
