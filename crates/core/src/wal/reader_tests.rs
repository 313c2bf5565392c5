//! Damaged logs: the reader gives a beginning of what was written or an error that says where, never a wrong record.

use super::crash_tests::Told;
use super::writer::Order;
use super::*;
use crate::env::simulated::SimulatedFiles;
use crate::env::{Files, Xoshiro};
use std::convert::Infallible;
use std::sync::Arc;

const ID: StoreId = [3; 16];
const WRITE: Order = Order { sync: false, close: false };
const SYNC: Order = Order { sync: true, close: false };
const CLOSE: Order = Order { sync: true, close: true };

fn record(lsn: Lsn) -> Vec<u8> {
    (0..(lsn * 7) % 40).map(|at| (lsn + at) as u8).collect()
}

fn small() -> LogSettings {
    LogSettings { segment_bytes: 600, head_room_bytes: 4096, reserve_step_bytes: 4096, ..LogSettings::default() }
}

/// A log of records 1 to 60 in several segments, closed or not.
fn written(close: bool) -> SimulatedFiles {
    let files = SimulatedFiles::new(1);
    let (log, mut writer) = Log::without_thread(Arc::new(files.clone()), ID, 1, small()).unwrap();
    let mut random = Xoshiro::from_seed(2);
    while log.last() < 60 {
        for _ in 0..(1 + random.below(4)).min(60 - log.last()) {
            let lsn = log.last() + 1;
            log.append(|out| out.extend_from_slice(&record(lsn)));
        }
        writer.step(if random.below(2) == 0 { SYNC } else { WRITE });
    }
    if close {
        writer.step(CLOSE);
    }
    files.copy()
}

/// Reads all; what is given must be what was written.
fn read_all(files: &dyn Files, from: Lsn) -> (Lsn, Result<End, ReadError<Infallible>>) {
    let mut next = from;
    let mut visit = |lsn, bytes: &[u8]| {
        assert_eq!((next, record(lsn)), (lsn, bytes.to_vec()));
        next += 1;
        Ok(())
    };
    let end = read(files, Start { from, id: Some(ID) }, &mut |done, total| assert!(done <= total), &mut visit);
    (next, end)
}

fn names(files: &SimulatedFiles) -> Vec<String> {
    segment::list(files).unwrap().into_iter().map(|segment| segment.name).collect()
}

/// Reads what is left of a log, cuts it where it ends, and sees that it then reads the same without complaint.
fn check_and_mend(files: &SimulatedFiles) -> (Lsn, Result<End, ReadError<Infallible>>) {
    let (next, end) = read_all(files, 1);
    match &end {
        Ok(end) => {
            assert_eq!(next, end.next);
            settle(files, end).unwrap();
        }
        Err(ReadError::Damage(damage)) => {
            assert!(damage.from >= next, "{damage}");
            repair(files, damage).unwrap();
        }
        Err(ReadError::Foreign { .. }) => return (next, end),
        Err(error) => panic!("{error}"),
    }
    let (again, mended) = read_all(files, 1);
    let mended = mended.unwrap_or_else(|error| panic!("after mending {end:?}: {error}"));
    assert_eq!((next, next), (again, mended.next));
    if end.is_ok() {
        assert_eq!(None, mended.cut);
    }
    // A segment that a repair made the last may have a tail that did not matter before.
    settle(files, &mended).unwrap();
    assert_eq!(None, read_all(files, 1).1.unwrap().cut);
    let log = Log::without_thread(Arc::new(files.clone()), ID, next, small());
    assert!(log.is_ok(), "the log can go on: {:?}", log.err());
    (next, end)
}

#[test]
fn reading_may_begin_anywhere() {
    for close in [false, true] {
        let files = written(close);
        assert!(names(&files).len() > 3);
        for from in 1..=70 {
            let (next, end) = read_all(&files, from);
            let end = end.unwrap();
            assert_eq!((61.max(from), 61.max(from)), (next, end.next));
            assert_eq!((Some(ID), None), (end.id, end.cut));
        }
    }
}

#[test]
fn a_visitor_may_stop() {
    let files = written(true);
    let stopped =
        read(&files, Start::default(), &mut |_, _| {}, &mut |lsn, _| if lsn < 30 { Ok(()) } else { Err("no") });
    assert!(matches!(stopped, Err(ReadError::Visit { lsn: 30, error: "no" })));
}

#[test]
fn no_log_is_an_empty_log() {
    let files = SimulatedFiles::new(1);
    let (next, end) = read_all(&files, 1);
    assert_eq!((1, 1), (next, end.as_ref().unwrap().next));
    assert_eq!(None, end.as_ref().unwrap().cut);
    settle(&files, &end.unwrap()).unwrap();
    assert_eq!(9, read_all(&files, 9).1.unwrap().next);
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let files = written(true);
    let names = names(&files);
    for (index, name) in names.iter().enumerate() {
        let bytes = files.content(name);
        let is_last = index + 1 == names.len();
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << (at % 8);
            let is_end = at + format::GROUP_HEADER_BYTES >= bytes.len();
            let damaged = files.copy();
            damaged.set_content(name, bytes);
            let (next, end) = check_and_mend(&damaged);
            if is_last && is_end {
                // The group that ends a closed log holds nothing.
                assert_eq!(61, next);
                assert_eq!(format::GROUP_HEADER_BYTES as u64, end.unwrap().cut.unwrap().bytes);
            } else {
                assert!(next <= 60, "{name} at {at}");
                assert!(end.is_err(), "{name} at {at}");
            }
        }
    }
}

#[test]
fn a_file_cut_short_is_found_unless_it_is_the_end() {
    let files = written(true);
    let names = names(&files);
    for (index, name) in names.iter().enumerate() {
        let bytes = files.content(name);
        for length in 0..bytes.len() {
            let damaged = files.copy();
            damaged.set_content(name, bytes[..length].to_vec());
            let (next, end) = check_and_mend(&damaged);
            if index + 1 < names.len() || length < format::SEGMENT_HEADER_BYTES {
                assert!(end.is_err() && next <= 60, "{name} cut to {length}");
            } else {
                // Nothing after it tells that it was there.
                assert!(end.is_ok(), "{name} cut to {length}");
            }
        }
    }
}

#[test]
fn a_torn_tail_is_cut_unless_a_later_group_says_that_it_was_durable() {
    let files = written(false);
    let name = names(&files).pop().unwrap();
    let bytes = files.content(&name);
    let (mut cut, mut found) = (0, 0);
    for at in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x10;
        let damaged = files.copy();
        damaged.set_content(&name, bytes);
        match check_and_mend(&damaged).1 {
            Ok(_) => cut += 1,
            Err(_) => found += 1,
        }
    }
    assert!(cut > 100 && found > 100, "{cut} {found}");
}

#[test]
fn garbage_never_passes_for_a_record() {
    let files = written(false);
    let names = names(&files);
    let rounds = if std::env::var_os("PERYTON_LONG").is_some() { 200_000 } else { 3000 };
    for seed in 0..rounds {
        let _told = Told(format!("seed {seed}"));
        let mut random = Xoshiro::from_seed(seed);
        let damaged = files.copy();
        for _ in 0..=random.below(2) {
            let name = &names[random.below(names.len() as u64) as usize];
            let mut bytes = damaged.content(name);
            let at = random.below(bytes.len() as u64 + 1) as usize;
            let count = random.below(100) as usize;
            match random.below(5) {
                0 => bytes.truncate(at),
                1 => bytes.splice(at..at, (0..count).map(|_| random.next() as u8)).for_each(drop),
                2 => bytes.drain(at..(at + count).min(bytes.len())).for_each(drop),
                3 => bytes.iter_mut().skip(at).take(count).for_each(|byte| *byte = random.next() as u8),
                _ => {
                    // A piece of another place, perhaps of another segment: whole groups, too.
                    let other = damaged.content(&names[random.below(names.len() as u64) as usize]);
                    let from = random.below(other.len() as u64) as usize;
                    let piece = other[from..(from + 3 * count).min(other.len())].to_vec();
                    bytes.splice(at..(at + piece.len()).min(bytes.len()), piece).for_each(drop);
                }
            }
            damaged.set_content(name, bytes);
        }
        let _ = check_and_mend(&damaged);
    }
}

/// Where the groups of a segment begin, and where the last ends.
fn groups(bytes: &[u8]) -> Vec<usize> {
    let header = format::SegmentHeader::decode(bytes).unwrap();
    let mut places = vec![format::SEGMENT_HEADER_BYTES];
    while let Some(group) = format::GroupHeader::decode(&bytes[*places.last().unwrap()..], header.seed()) {
        places.push(places.last().unwrap() + format::GROUP_HEADER_BYTES + group.length as usize);
    }
    places
}

#[test]
fn a_good_group_in_a_wrong_place_is_none() {
    let files = written(false);
    let name = &names(&files)[0];
    let bytes = files.content(name);
    let places = groups(&bytes);
    assert!(places.len() > 4);
    for group in places.windows(2) {
        for at in &places {
            if *at == group[0] {
                continue;
            }
            let mut bytes = bytes.clone();
            let group = bytes[group[0]..group[1]].to_vec();
            bytes.splice(at..at, group);
            let damaged = files.copy();
            damaged.set_content(name, bytes);
            let (next, end) = check_and_mend(&damaged);
            assert!(end.is_err() != (next == 61), "{end:?}");
        }
    }
}

#[test]
fn a_group_is_good_in_its_own_segment_only() {
    let group = format::GroupHeader { first: 5, durable: 4, length: 10, records: 2, payload_crc: 1 };
    let here = format::SegmentHeader { id: ID, first: 5 };
    assert_eq!(Some(group), format::GroupHeader::decode(&group.encode(here.seed()), here.seed()));
    for there in [format::SegmentHeader { first: 4, ..here }, format::SegmentHeader { id: [4; 16], ..here }] {
        assert_eq!(None, format::GroupHeader::decode(&group.encode(here.seed()), there.seed()));
    }
}

#[test]
fn a_missing_segment_is_found() {
    let files = written(true);
    let names = names(&files);
    for name in &names[..names.len() - 1] {
        let damaged = files.copy();
        damaged.remove(name).unwrap();
        let (_, end) = check_and_mend(&damaged);
        let Err(ReadError::Damage(damage)) = end else { panic!("{end:?}") };
        assert!(damage.resumes.is_some_and(|resumes| resumes > damage.from), "{damage}");
    }
}

#[test]
fn what_is_set_aside_is_still_there() {
    let files = written(true);
    let names = names(&files);
    files.remove(&names[1]).unwrap();
    let _ = check_and_mend(&files);
    let kept = files.list().unwrap();
    assert!(names[2..].iter().all(|name| kept.contains(&format!("{name}.damaged"))), "{kept:?}");
    // Also when there is another to be set aside under the same name.
    let aside = format!("{}.damaged", names[2]);
    let before = files.content(&aside);
    files.set_content(&names[2], b"no segment".to_vec());
    let _ = check_and_mend(&files);
    assert_eq!(before, files.content(&aside));
    assert_eq!(b"no segment".to_vec(), files.content(&format!("{}.2.damaged", names[2])));
}

#[test]
fn a_log_of_another_store_or_version_is_not_touched() {
    let files = written(true);
    let other = read(&files, Start { from: 1, id: Some([4; 16]) }, &mut |_, _| {}, &mut |_, _| Ok::<(), ()>(()));
    assert!(matches!(other, Err(ReadError::Foreign { .. })));

    let name = &names(&files)[0];
    let mut bytes = files.content(name);
    bytes[8] += 1;
    let crc = crc32c::crc32c(&bytes[..36]);
    bytes[36..40].copy_from_slice(&crc.to_le_bytes());
    files.set_content(name, bytes);
    let (_, end) = read_all(&files, 1);
    assert!(matches!(&end, Err(ReadError::Foreign { what, .. }) if what.contains("version 2")), "{end:?}");
}

#[test]
fn a_message_says_where_and_what_is_lost() {
    let files = written(true);
    let names = names(&files);
    let mut bytes = files.content(&names[1]);
    bytes[100] ^= 1;
    files.set_content(&names[1], bytes);
    let (next, end) = read_all(&files, 1);
    let message = end.unwrap_err().to_string();
    assert!(message.contains(&format!("{} at offset 40", names[1])), "{message}");
    assert!(message.contains(&format!("changes from {next} on")), "{message}");
}

#[test]
fn numbers_in_names_are_ordered() {
    let files = SimulatedFiles::new(1);
    for first in [100, 9, 18_446_744_073_709_551_615] {
        files.create(&segment::name(first)).unwrap();
    }
    for other in ["wal-1.log", "wal-0000000000000000000x.log", "LOCK", "wal-00000000000000000009.new"] {
        files.create(other).unwrap();
    }
    let firsts: Vec<Lsn> = segment::list(&files).unwrap().iter().map(|segment| segment.first).collect();
    assert_eq!(vec![9, 100, u64::MAX], firsts);
}

#[test]
fn the_document_says_what_the_code_does() {
    let document = include_str!("../../../../docs/formats/wal.md");
    let numbers = [
        format!("Version {}.", format::VERSION),
        format!("header of {} bytes", format::SEGMENT_HEADER_BYTES),
        format!("{} bytes before its records", format::GROUP_HEADER_BYTES),
        format!("`{}`", String::from_utf8_lossy(&format::SEGMENT_MAGIC)),
        format::GROUP_MAGIC.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(" "),
    ];
    for text in numbers {
        assert!(document.contains(&text), "{text}");
    }
}
