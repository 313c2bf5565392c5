//! Full disks and failed writes: what the log says, what it saves, how it goes on.

use super::writer::{Order, Writer};
use super::*;
use crate::env::simulated::{Operation, SimulatedFiles};
use std::convert::Infallible;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

const ID: StoreId = [7; 16];
const SYNC: Order = Order { sync: true, close: false };
const CLOSE: Order = Order { sync: true, close: true };

fn settings() -> LogSettings {
    LogSettings {
        segment_bytes: 60_000,
        head_room_bytes: 16 << 10,
        reserve_step_bytes: 4 << 10,
        zeros_ahead_bytes: 8 << 10,
        retry: Duration::from_millis(1),
        ..LogSettings::default()
    }
}

fn open(files: &SimulatedFiles, next: Lsn) -> (Log, Writer) {
    Log::without_thread(Arc::new(files.clone()), ID, next, settings()).unwrap()
}

fn record(lsn: Lsn) -> Vec<u8> {
    vec![lsn as u8; 100 + (lsn as usize * 37) % 400]
}

fn append(log: &Log, count: u64) {
    for _ in 0..count {
        let lsn = log.last() + 1;
        assert_eq!(lsn, log.append(|out| out.extend_from_slice(&record(lsn))));
    }
}

/// Reads all, which must be what was appended, and gives how much.
fn read_all(files: &SimulatedFiles) -> (Lsn, End) {
    let mut next = 1;
    let end = read(files, Start { from: 1, id: Some(ID) }, &mut |_, _| {}, &mut |lsn, bytes| {
        assert_eq!((next, record(lsn)), (lsn, bytes.to_vec()));
        next += 1;
        Ok::<(), Infallible>(())
    })
    .unwrap();
    assert_eq!(next, end.next);
    (next - 1, end)
}

#[test]
fn a_full_disk_refuses_writers_and_goes_on_by_itself() {
    let files = SimulatedFiles::new(1);
    files.set_capacity(40 << 10);
    let (log, mut writer) = open(&files, 1);
    assert_eq!(Condition::Fine, log.condition());
    let mut appended = 0;
    while log.condition() == Condition::Fine {
        append(&log, 5);
        writer.step(SYNC);
        appended += 5;
        assert_eq!(appended, log.durable(), "room is reserved ahead");
    }
    assert_eq!(Condition::Full, log.condition());
    assert!(log.refusal().unwrap().contains("no room"), "{:?}", log.refusal());
    // The head-room takes what is still appended.
    append(&log, 20);
    writer.step(SYNC);
    assert_eq!(appended + 20, log.durable());
    assert_eq!(Condition::Full, log.condition());
    // What does not fit waits.
    append(&log, 200);
    writer.step(SYNC);
    assert_eq!(appended + 20, log.durable());
    assert!(log.queued_bytes() > 20_000);
    assert_eq!(None, log.poll(log.last()));

    files.set_capacity(1 << 20);
    writer.step(SYNC);
    assert_eq!((Condition::Fine, None), (log.condition(), log.refusal()));
    assert_eq!(appended + 220, log.durable());
    assert_eq!(0, log.queued_bytes());
    assert_eq!(appended + 220, read_all(&files.crash(3)).0);
}

#[test]
fn what_still_had_room_is_durable_though_the_rest_waits() {
    let files = SimulatedFiles::new(1);
    files.set_capacity(24 << 10);
    let settings = LogSettings { group_bytes: 2000, ..settings() };
    let (log, mut writer) = Log::without_thread(Arc::new(files.clone()), ID, 1, settings).unwrap();
    append(&log, 300);
    writer.step(SYNC);
    assert_eq!(Condition::Full, log.condition());
    let durable = log.durable();
    assert!(durable > 20 && durable < 300, "{durable}");
    assert!(read_all(&files.crash(4)).0 >= durable);
    files.set_capacity(1 << 20);
    writer.step(SYNC);
    assert_eq!(300, log.durable());
}

#[test]
fn the_thread_itself_sees_that_there_is_room_again() {
    let files = SimulatedFiles::new(1);
    files.set_capacity(40 << 10);
    let log = Log::open(Arc::new(files.clone()), ID, 1, settings()).unwrap();
    append(&log, 300);
    let waiter = {
        let log = log.clone();
        std::thread::spawn(move || log.wait(300))
    };
    while log.condition() != Condition::Full {
        std::thread::yield_now();
    }
    assert_eq!(Ok(false), log.wait_for(300, Duration::from_millis(20)));
    files.set_capacity(1 << 20);
    waiter.join().unwrap().unwrap();
    while log.condition() != Condition::Fine {
        std::thread::yield_now();
    }
    log.close().unwrap();
    assert_eq!(300, read_all(&files).0);
}

#[test]
fn a_log_opens_on_a_full_disk() {
    for capacity in [0, 4096, 8192] {
        let files = SimulatedFiles::new(1);
        files.set_capacity(capacity);
        let (log, mut writer) = open(&files, 1);
        assert_eq!(Condition::Full, log.condition());
        files.set_capacity(1 << 20);
        append(&log, 3);
        writer.step(SYNC);
        assert_eq!((Condition::Fine, 3), (log.condition(), log.durable()));
        assert_eq!(3, read_all(&files.crash(3)).0);
    }
}

#[test]
fn without_reserving_a_full_disk_is_met_by_writes() {
    let files = SimulatedFiles::new(1);
    files.forbid_reserving();
    files.set_capacity(8192);
    let (log, mut writer) = open(&files, 1);
    append(&log, 50);
    writer.step(SYNC);
    assert_eq!((Condition::Full, 0), (log.condition(), log.durable()));
    files.set_capacity(1 << 20);
    writer.step(SYNC);
    assert_eq!((Condition::Fine, 50), (log.condition(), log.durable()));
    assert_eq!(50, read_all(&files.crash(9)).0);
}

#[test]
fn a_closed_log_that_found_no_room_says_what_is_lost() {
    let files = SimulatedFiles::new(1);
    files.set_capacity(24 << 10);
    let (log, mut writer) = open(&files, 1);
    append(&log, 10);
    writer.step(SYNC);
    append(&log, 200);
    writer.step(CLOSE);
    assert!(log.wait(10).is_ok());
    let error = log.wait(210).unwrap_err().to_string();
    assert!(error.contains("changes 11 to 210 are not durable"), "{error}");
}

#[test]
fn after_a_failed_sync_all_is_saved_in_another_segment() {
    for seed in 0..30 {
        for durable in [0, 5] {
            let files = SimulatedFiles::new(seed);
            let (log, mut writer) = open(&files, 1);
            append(&log, durable);
            writer.step(SYNC);
            append(&log, 10);
            writer.step(Order::default());
            append(&log, 10);
            files.fail(Operation::Sync, 1, ErrorKind::Other);
            writer.step(SYNC);

            assert_eq!(Condition::Failed, log.condition());
            let refusal = log.refusal().unwrap();
            assert!(refusal.contains("cannot sync wal-00000000000000000001.log"), "{refusal}");
            assert_eq!(durable + 20, log.durable());
            log.wait(durable + 20).unwrap();
            // A record that the store makes by itself is dropped, and is no promise.
            assert_eq!(durable + 21, log.append(|out| out.push(1)));
            assert_eq!(durable + 20, log.last());
            assert!(log.wait(durable + 21).is_err());
            assert_eq!(durable + 20, read_all(&files.crash(seed)).0);
            // And the log goes on after it.
            let files = files.crash(seed);
            let end = read_all(&files).1;
            settle(&files, &end).unwrap();
            let (log, mut writer) = open(&files, end.next);
            append(&log, 3);
            writer.step(SYNC);
            assert_eq!(durable + 23, read_all(&files.crash(seed)).0);
        }
    }
}

#[test]
fn when_saving_fails_too_the_error_says_what_is_lost() {
    let operations = [Operation::Create, Operation::Write, Operation::Rename, Operation::SyncDirectory];
    for (seed, operation) in operations.into_iter().enumerate() {
        let files = SimulatedFiles::new(seed as u64);
        let (log, mut writer) = open(&files, 1);
        append(&log, 5);
        writer.step(SYNC);
        append(&log, 5);
        writer.step(Order::default());
        files.fail(Operation::Sync, 1, ErrorKind::Other);
        files.fail(operation, 1, ErrorKind::Other);
        writer.step(SYNC);
        assert_eq!((Condition::Failed, 5, 10), (log.condition(), log.durable(), log.last()));
        let error = log.wait(10).unwrap_err().to_string();
        assert!(error.contains("changes 6 to 10 are not durable"), "{operation:?}: {error}");
        assert!(read_all(&files.crash(3)).0 >= 5);
    }
}

#[test]
fn a_failed_write_is_saved_too() {
    let files = SimulatedFiles::new(1);
    let (log, mut writer) = open(&files, 1);
    append(&log, 5);
    files.fail(Operation::Write, 1, ErrorKind::Other);
    writer.step(SYNC);
    assert_eq!((Condition::Failed, 5), (log.condition(), log.durable()));
    assert_eq!(0, log.queued_bytes());
    assert_eq!(5, read_all(&files.crash(3)).0);
}

#[test]
fn a_segment_that_cannot_begin_is_a_failure_that_loses_nothing() {
    for operation in [Operation::Create, Operation::Sync, Operation::SyncDirectory, Operation::Write] {
        let files = SimulatedFiles::new(1);
        let (log, mut writer) = open(&files, 1);
        append(&log, 5);
        writer.step(SYNC);
        log.rotate();
        append(&log, 5);
        files.fail(operation, 1, ErrorKind::Other);
        writer.step(SYNC);
        assert_eq!((Condition::Failed, 10), (log.condition(), log.durable()), "{operation:?}");
        assert_eq!(10, read_all(&files.crash(3)).0);
    }
}

#[test]
fn a_waiter_is_not_told_of_a_failure_that_loses_nothing() {
    let files = SimulatedFiles::new(5);
    let log = Log::open(Arc::new(files.clone()), ID, 1, settings()).unwrap();
    files.fail_from(Operation::Sync, 1, ErrorKind::Other);
    let lost: Vec<_> = (0..4)
        .map(|_| {
            let log = log.clone();
            std::thread::spawn(move || log.wait(log.append(|out| out.push(1))))
        })
        .collect();
    assert!(lost.into_iter().all(|waiter| waiter.join().unwrap().is_err()));

    let files = SimulatedFiles::new(5);
    let log = Log::open(Arc::new(files.clone()), ID, 1, settings()).unwrap();
    files.fail(Operation::Sync, 1, ErrorKind::Other);
    append(&log, 1);
    assert_eq!(Ok(()), log.wait(1));
    assert_eq!(Condition::Failed, log.condition());
    assert_eq!(Ok(()), log.close());
}

#[test]
fn a_bug_in_the_logs_thread_is_a_failure_that_loses_nothing() {
    for operation in [Operation::Write, Operation::Sync] {
        let files = SimulatedFiles::new(5);
        let log = Log::open(Arc::new(files.clone()), ID, 1, settings()).unwrap();
        append(&log, 5);
        log.wait(5).unwrap();
        files.panic_at(operation, 1);
        append(&log, 5);
        assert_eq!(Ok(()), log.wait(10), "{operation:?}");
        assert_eq!(Condition::Failed, log.condition());
        assert_eq!(0, log.queued_bytes());
        assert_eq!(10, read_all(&files.crash(1)).0);
    }
}

#[test]
fn who_waits_for_a_log_that_cannot_even_fail_is_told() {
    for operation in [Operation::Write, Operation::Create, Operation::Rename] {
        let files = SimulatedFiles::new(5);
        let log = Log::open(Arc::new(files.clone()), ID, 1, settings()).unwrap();
        append(&log, 5);
        log.wait(5).unwrap();
        files.panic_at(Operation::Sync, 1);
        files.panic_from(operation);
        append(&log, 5);
        let error = log.wait(10).unwrap_err().to_string();
        assert!(error.contains("panicked"), "{error}");
        assert_eq!((Condition::Failed, 5, 0), (log.condition(), log.durable(), log.queued_bytes()));
        assert!(log.close().is_err());
        assert!(read_all(&files.crash(1)).0 >= 5);
    }
}

#[test]
fn a_listener_with_a_bug_is_no_failure_of_the_log() {
    let files = SimulatedFiles::new(5);
    let log = Log::open(Arc::new(files.clone()), ID, 1, settings()).unwrap();
    log.on_progress(Arc::new(|| panic!("a test wants this to panic")));
    append(&log, 5);
    log.wait(5).unwrap();
    append(&log, 5);
    log.wait(10).unwrap();
    assert_eq!(Condition::Fine, log.condition());
    log.close().unwrap();
}

#[test]
fn waiting_for_room_takes_no_processor() {
    let files = SimulatedFiles::new(1);
    let settings = LogSettings { retry: Duration::from_millis(100), ..settings() };
    let log = Log::open(Arc::new(files.clone()), ID, 1, settings).unwrap();
    files.set_capacity(files.used());
    append(&log, 300);
    while log.condition() != Condition::Full {
        std::thread::yield_now();
    }
    // As the store does, which removes keys whose time is up.
    append(&log, 5);
    let before = log.sleeps();
    std::thread::sleep(Duration::from_millis(350));
    assert!(log.sleeps() < before + 100, "{} times in a third of a second", log.sleeps() - before);
    files.set_capacity(u64::MAX);
    log.wait(305).unwrap();
}

#[test]
fn who_must_not_wait_for_room_is_told_that_there_is_none() {
    let files = SimulatedFiles::new(1);
    let log = Log::open(Arc::new(files.clone()), ID, 1, settings()).unwrap();
    append(&log, 5);
    assert_eq!(Ok(true), log.wait_unless_full(5));
    files.set_capacity(files.used());
    append(&log, 300);
    assert_eq!(Ok(false), log.wait_unless_full(log.last()));
    assert!(!log.is_behind());
    files.set_capacity(u64::MAX);
    log.wait(log.last()).unwrap();
    assert_eq!(Ok(true), log.wait_unless_full(log.last()));
}

#[test]
fn what_was_read_after_a_failed_sync_is_durable_once_settled() {
    // No crash between: the process ends, and another reads what the system has in memory.
    for seed in 0..30 {
        let files = SimulatedFiles::new(seed);
        let (log, mut writer) = open(&files, 1);
        append(&log, 5);
        writer.step(SYNC);
        append(&log, 30);
        writer.step(Order::default());
        files.fail(Operation::Sync, 1, ErrorKind::Other);
        files.fail(Operation::Create, 1, ErrorKind::Other);
        writer.step(SYNC);
        assert_eq!(5, log.durable());

        let (read, end) = read_all(&files);
        assert_eq!(35, read);
        settle(&files, &end).unwrap();
        let (log, mut writer) = open(&files, end.next);
        append(&log, 5);
        writer.step(SYNC);
        assert_eq!(40, read_all(&files.crash(seed)).0);
    }
}

#[test]
fn rotation_waits_for_room_and_the_log_goes_on_meanwhile() {
    let files = SimulatedFiles::new(1);
    let (log, mut writer) = open(&files, 1);
    append(&log, 5);
    writer.step(SYNC);
    files.set_capacity(files.used() + 8192);
    assert_eq!(6, log.rotate());
    append(&log, 2);
    writer.step(SYNC);
    assert_eq!((Condition::Full, 7), (log.condition(), log.durable()));
    assert_eq!(1, segment::list(&files).unwrap().len());
    files.set_capacity(1 << 20);
    writer.step(SYNC);
    assert_eq!(Condition::Fine, log.condition());
    assert_eq!(2, segment::list(&files).unwrap().len());
    log.remove_before(8).unwrap();
    assert_eq!(1, segment::list(&files).unwrap().len());
}
