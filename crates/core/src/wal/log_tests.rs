//! The log with its thread, over real files.

use super::writer::Order;
use super::*;
use crate::env::simulated::{Operation, SimulatedFiles};
use crate::env::{DirectoryFiles, Files};
use std::convert::Infallible;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ID: StoreId = *b"0123456789abcdef";

/// A directory that goes with this.
struct Fresh(Arc<DirectoryFiles>);

impl Fresh {
    fn new(name: &str) -> Fresh {
        let path = std::env::temp_dir().join(format!("peryton-wal-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Fresh(Arc::new(DirectoryFiles::new(path)))
    }

    fn open(&self, next: Lsn, settings: LogSettings) -> Log {
        Log::open(self.0.clone(), ID, next, settings).unwrap()
    }

    fn read_from(&self, from: Lsn) -> (Vec<(Lsn, Vec<u8>)>, End) {
        let mut records = Vec::new();
        let mut visit = |lsn, record: &[u8]| {
            records.push((lsn, record.to_vec()));
            Ok::<(), Infallible>(())
        };
        let end = read(&*self.0, Start { from, id: Some(ID) }, &mut |_, _| {}, &mut visit).unwrap();
        (records, end)
    }

    fn segments(&self) -> Vec<Lsn> {
        segment::list(&*self.0).unwrap().iter().map(|segment| segment.first).collect()
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.path());
    }
}

fn record(lsn: Lsn) -> Vec<u8> {
    let length = [0, 1, 100, 127, 128, 300, 20_000][lsn as usize % 7];
    (0..length).map(|at| (lsn as usize + at) as u8).collect()
}

fn append(log: &Log, lsn: Lsn) {
    assert_eq!(lsn, log.append(|out| out.extend_from_slice(&record(lsn))));
}

fn small() -> LogSettings {
    LogSettings {
        segment_bytes: 100_000,
        head_room_bytes: 50_000,
        reserve_step_bytes: 10_000,
        ..LogSettings::default()
    }
}

/// Does nothing by itself for as long as a test lasts.
fn idle(settings: LogSettings) -> LogSettings {
    let hour = Duration::from_secs(3600);
    LogSettings { write_delay: hour, sync_interval: hour, ..settings }
}

fn expected(range: std::ops::RangeInclusive<Lsn>) -> Vec<(Lsn, Vec<u8>)> {
    range.map(|lsn| (lsn, record(lsn))).collect()
}

#[test]
fn what_is_closed_is_read_back() {
    let fresh = Fresh::new("close");
    let log = fresh.open(1, LogSettings::default());
    (1..=100).for_each(|lsn| append(&log, lsn));
    assert_eq!(100, log.last());
    log.close().unwrap();
    assert_eq!(100, log.durable());
    assert_eq!(0, log.queued_bytes());

    let (records, end) = fresh.read_from(1);
    assert_eq!(expected(1..=100), records);
    assert_eq!((101, Some(ID), None), (end.next, end.id, end.cut));
}

#[test]
fn what_was_waited_for_is_there_though_nobody_closes() {
    let fresh = Fresh::new("wait");
    let log = fresh.open(1, idle(LogSettings::default()));
    for lsn in 1..=50 {
        append(&log, lsn);
        log.wait(lsn).unwrap();
        assert!(log.durable() >= lsn);
        let (records, end) = fresh.read_from(1);
        assert_eq!(expected(1..=lsn), records);
        assert_eq!(None, end.cut);
    }
}

#[test]
fn what_nobody_wants_becomes_durable_by_itself() {
    let fresh = Fresh::new("interval");
    let log = fresh.open(1, LogSettings { sync_interval: Duration::from_millis(20), ..LogSettings::default() });
    append(&log, 1);
    while log.durable() < 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Also after somebody waited, when the thread takes its time.
    append(&log, 2);
    log.wait(2).unwrap();
    append(&log, 3);
    while log.durable() < 3 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(expected(1..=3), fresh.read_from(1).0);
}

#[test]
fn listeners_hear_of_progress_until_they_are_forgotten() {
    let fresh = Fresh::new("listeners");
    let log = fresh.open(1, idle(LogSettings::default()));
    let heard = Arc::new(AtomicU64::new(0));
    let (here, handle) = (heard.clone(), log.clone());
    let id = log.on_progress(Arc::new(move || here.store(handle.durable(), Ordering::SeqCst)));
    append(&log, 1);
    log.want(1);
    while heard.load(Ordering::SeqCst) < 1 {
        std::thread::yield_now();
    }
    log.forget(id);
    append(&log, 2);
    log.close().unwrap();
    assert_eq!((2, 1), (log.durable(), heard.load(Ordering::SeqCst)));
}

#[test]
fn segments_follow_each_other_and_go() {
    let fresh = Fresh::new("segments");
    let log = fresh.open(1, idle(small()));
    for lsn in 1..=200 {
        append(&log, lsn);
        if lsn % 10 == 0 {
            log.wait(lsn).unwrap();
        }
    }
    assert!(fresh.segments().len() > 3);
    assert_eq!(201, log.rotate());
    assert_eq!(201, log.rotate());
    append(&log, 201);
    log.wait(201).unwrap();
    assert_eq!(Some(&201), fresh.segments().last());

    log.remove_before(101).unwrap();
    let first = fresh.segments()[0];
    assert!(first <= 101 && fresh.segments()[1] > 101, "{:?}", fresh.segments());
    assert_eq!(expected(101..=201), fresh.read_from(101).0);
    log.remove_before(1000).unwrap();
    assert_eq!(vec![201], fresh.segments());
    log.close().unwrap();
    let size = fresh.0.open(&segment::name(201)).unwrap().length().unwrap();
    assert_eq!(size, log.size_bytes());
    assert_eq!(expected(201..=201), fresh.read_from(201).0);
    assert!(matches!(
        read(&*fresh.0, Start { from: 200, id: None }, &mut |_, _| {}, &mut |_, _| Ok::<(), ()>(())),
        Err(ReadError::Damage(damage)) if damage.from == 200
    ));
}

#[test]
fn the_segment_that_was_written_goes_when_the_next_has_begun() {
    let files = SimulatedFiles::new(1);
    let (log, mut writer) = Log::without_thread(Arc::new(files.clone()), ID, 1, small()).unwrap();
    (1..=5).for_each(|lsn| append(&log, lsn));
    writer.step(Order { sync: true, close: false });
    assert_eq!(log.size_bytes(), log.needed_bytes());
    assert_eq!(6, log.rotate());
    log.remove_before(6).unwrap();
    assert_eq!((1, false), (segment::list(&files).unwrap().len(), log.is_untidy()));
    // It has grown by nothing that is needed, so this is no reason for another checkpoint.
    assert_eq!(0, log.needed_bytes());
    writer.step(Order::default());
    assert_eq!((2, true), (segment::list(&files).unwrap().len(), log.is_untidy()));
    files.fail(Operation::Remove, 1, ErrorKind::Other);
    assert!(log.tidy().is_err());
    assert!(log.is_untidy());
    log.tidy().unwrap();
    assert_eq!((1, false), (segment::list(&files).unwrap().len(), log.is_untidy()));
    assert_eq!(log.size_bytes(), log.needed_bytes());
}

/// What nobody waits for is written soon, also if somebody waited for something just before: when only the process dies,
/// some hundredths of a second are lost.
#[test]
fn after_somebody_waited_what_nobody_wants_is_written_as_soon_as_ever() {
    let fresh = Fresh::new("lull");
    let log = fresh.open(1, LogSettings { sync_interval: Duration::from_secs(3600), ..LogSettings::default() });
    for lsn in (1..20).step_by(2) {
        append(&log, lsn);
        log.wait(lsn).unwrap();
        append(&log, lsn + 1);
        let begun = Instant::now();
        while log.queued_bytes() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_log_goes_on_in_a_segment_of_its_own() {
    let fresh = Fresh::new("again");
    let mut next = 1;
    for round in 0..5 {
        let log = fresh.open(next, small());
        let count = 10 * (round % 3);
        (next..next + count).for_each(|lsn| append(&log, lsn));
        log.close().unwrap();
        next += count;
        let (records, end) = fresh.read_from(0);
        assert_eq!(next, end.next);
        assert_eq!(expected(1..=next - 1), records);
        settle(&*fresh.0, &end).unwrap();
    }
    assert!(Log::open(fresh.0.clone(), ID, 5, small()).is_err(), "records that were not recovered are not overwritten");
}

#[test]
fn a_record_may_be_larger_than_all_settings() {
    let fresh = Fresh::new("large");
    let log = fresh.open(1, idle(small()));
    let large: Vec<u8> = (0..3_000_000).map(|at| (at / 7) as u8).collect();
    append(&log, 1);
    log.append(|out| out.extend_from_slice(&large));
    append(&log, 3);
    log.wait(3).unwrap();
    let (records, _) = fresh.read_from(1);
    assert_eq!(vec![(1, record(1)), (2, large), (3, record(3))], records);
}

#[test]
fn much_is_written_though_nobody_wants_it() {
    let fresh = Fresh::new("much");
    let log = fresh.open(1, idle(LogSettings { unsynced_bytes: 3 << 20, ..LogSettings::default() }));
    // Also out of the sleep after somebody waited.
    for round in 0..2 {
        for _ in 0..8 {
            log.append(|out| out.resize(out.len() + (1 << 20), 1));
        }
        let written = 9 * round + 8;
        while log.queued_bytes() > 0 || log.durable() + 3 < written {
            std::thread::yield_now();
        }
        log.wait(log.append(|out| out.push(1))).unwrap();
    }
    assert_eq!(18, log.durable());
}

#[test]
fn an_encoder_that_panics_leaves_no_record() {
    let fresh = Fresh::new("panic");
    let log = fresh.open(1, LogSettings::default());
    append(&log, 1);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        log.append(|out| {
            out.extend_from_slice(b"half a rec");
            panic!("a bug");
        })
    }));
    assert!(panicked.is_err());
    append(&log, 2);
    log.close().unwrap();
    assert_eq!(expected(1..=2), fresh.read_from(1).0);
}

#[test]
fn many_append_and_wait_at_once() {
    let fresh = Fresh::new("many");
    let log = fresh.open(1, idle(small()));
    let threads: Vec<_> = (0..8_u8)
        .map(|thread| {
            let log = log.clone();
            std::thread::spawn(move || {
                (0..100_u8)
                    .map(|count| {
                        let lsn = log.append(|out| out.extend_from_slice(&[thread, count]));
                        if count % 3 == thread % 3 {
                            log.wait(lsn).unwrap();
                            assert!(log.durable() >= lsn);
                        }
                        (lsn, vec![thread, count])
                    })
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    let mut all: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    all.sort();
    log.close().unwrap();
    assert_eq!(all, fresh.read_from(1).0);
    // What comes after the end is dropped, and says so.
    let lsn = log.append(|out| out.push(1));
    assert!(log.wait(lsn).is_err());
    assert_eq!(800, log.last());
}
