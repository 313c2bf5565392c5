//! A checkpoint of a store, taken while commands run, against the log of what they did.

use super::*;
use crate::ds::packed::Packed;
use crate::engine::Memory;
use crate::env::simulated::{Operation, SimulatedFiles};
use crate::env::{Files, Xoshiro};
use crate::keyspace::Keyspace;
use crate::table::batch::Batch;
use crate::table::catalog::{IndexColumn, IndexDef, IndexId, Method, Origin, TableDef, ViewDef};
use crate::table::datum::DatumRef;
use crate::table::row_id::RowId;
use crate::txn::{TableChanges, Tables};
use crate::value::{HashOp, ListOp, Op, SetOp, Value, ZSetOp};
use std::io::ErrorKind;

pub(crate) fn empty() -> (Keyspace, Tables) {
    (Keyspace::new(16), Tables::new(Box::new(Memory::new())))
}

pub(crate) fn about(lsn: u64) -> About {
    About { store: [7; 16], lsn, created_ms: 5, things: vec![("settings".into(), b"x y".to_vec())] }
}

/// What a checkpoint gives that `about` is about.
pub(crate) fn restored(files: &SimulatedFiles, lsn: u64) -> Result<(Keyspace, Tables), RestoreError> {
    let (keyspace, tables, loaded) = loaded(files, lsn)?;
    assert_eq!(
        about(lsn),
        About { store: loaded.store, lsn: loaded.lsn, created_ms: loaded.created_ms, things: loaded.things }
    );
    Ok((keyspace, tables))
}

fn restored_any(files: &SimulatedFiles, lsn: u64) -> Result<(Keyspace, Tables), RestoreError> {
    loaded(files, lsn).map(|(keyspace, tables, _)| (keyspace, tables))
}

fn loaded(files: &SimulatedFiles, lsn: u64) -> Result<(Keyspace, Tables, Loaded), RestoreError> {
    let (mut keyspace, mut tables) = empty();
    let found = Found { name: name_of(lsn), lsn };
    let mut last = None;
    let loaded = load(files, &found, &mut keyspace, &mut tables, &mut |progress| last = Some(progress))?;
    assert!(last.is_some_and(|progress| progress.done == progress.total));
    Ok((keyspace, tables, loaded))
}

/// Writes a checkpoint in one go.
pub(crate) fn write_at_once(files: &SimulatedFiles, keyspace: &mut Keyspace, tables: &mut Tables, lsn: u64) -> Written {
    let mut run = Run::begin(keyspace, tables, about(lsn)).unwrap();
    while run.slice(keyspace, 1 << 20) {
        run.write(files).unwrap();
    }
    run.finish(files).unwrap()
}

/// Keys of all types, tables and a view; enough for several blocks of each kind.
fn some_store(seed: u64) -> (Keyspace, Tables) {
    let (mut keyspace, mut tables) = empty();
    let mut random = Xoshiro::from_seed(seed);
    for n in 0..300 + random.below(3000) {
        let word = format!("{n}{}", "v".repeat(random.below(200) as usize)).into_bytes();
        let mut words = Packed::new();
        (0..2 + 2 * random.below(if n == 7 { 4000 } else { 20 }))
            .for_each(|n| words.push_back(&[&word[..], &[n as u8, (n >> 8) as u8]].concat()));
        let op = match random.below(5) {
            0 => Op::Put(Value::string(&word), (n % 2 == 0).then_some(n as i64)),
            1 => Op::List(ListOp::Push { front: Packed::new(), back: words }),
            2 => Op::Set(SetOp::Add(words)),
            3 => Op::Hash(HashOp::Set(words)),
            _ => Op::ZSet(ZSetOp::Set([&word[..], &[5]].into_iter().collect())),
        };
        keyspace.apply(random.below(4) as usize, format!("key {n}").as_bytes(), op).unwrap();
    }
    let mut changes = TableChanges::default();
    let mut def = TableDef::new("t");
    def.add_column("id", "INTEGER").unwrap();
    def.add_column("text", "TEXT").unwrap();
    let columns =
        |position| vec![IndexColumn { position, desc: false, collation: def.columns[position as usize].collation }];
    let index = |position, unique, method| IndexDef {
        id: IndexId(0),
        name: format!("i{position}"),
        columns: columns(position),
        unique,
        method,
        origin: Origin::Created,
        filter: None,
    };
    def.indexes = vec![index(0, true, Method::Hash), index(1, false, Method::Ordered)];
    let id = tables.create_table(def, &mut changes).unwrap().id;
    let (mut rows, mut ids) = (Batch::new(), Vec::new());
    for n in 0..3000 {
        let text = "t".repeat(if n % 500 == 3 { 2500 } else { random.below(90) as usize });
        let mut row = Vec::new();
        let values = [DatumRef::Int(n), DatumRef::Text(text.as_bytes())];
        tables.source().layout(id).unwrap().encode(&values, &mut row).unwrap();
        rows.push(&row);
    }
    tables.insert(id, &rows, &mut ids, &mut changes).unwrap();
    let gone: Vec<RowId> = ids.into_iter().filter(|_| random.below(3) == 0).collect();
    tables.delete(id, &gone, &mut changes).unwrap();
    tables.put_view(ViewDef { name: "v".into(), sql: "CREATE VIEW v AS SELECT 1".into() }, &mut changes).unwrap();
    (keyspace, tables)
}

fn digests(keyspace: &Keyspace, tables: &Tables) -> (u64, u64) {
    (keyspace.digest(), tables.digest().unwrap())
}

#[test]
fn everything_comes_back_in_slices_of_any_size() {
    for seed in 0..6 {
        let (mut keyspace, mut tables) = some_store(seed);
        let files = SimulatedFiles::new(1);
        let mut run = Run::begin(&mut keyspace, &mut tables, about(seed)).unwrap();
        while run.slice(&mut keyspace, 1 << (3 * seed)) {
            run.write(&files).unwrap();
        }
        let written = run.finish(&files).unwrap();
        let (again, tables_again) = restored(&files, seed).unwrap();
        assert_eq!(digests(&keyspace, &tables), digests(&again, &tables_again));
        assert_eq!(files.content(&written.name).len() as u64, written.bytes);
        assert_eq!(vec![written.name], files.list().unwrap());
    }
}

#[test]
fn damaged_files_are_errors_that_say_where() {
    let files = SimulatedFiles::new(1);
    let (mut keyspace, mut tables) = some_store(1);
    let written = write_at_once(&files, &mut keyspace, &mut tables, 9);
    let good = files.content(&written.name);
    let mut random = Xoshiro::from_seed(2);
    let refused = |bytes: &[u8], what: &str| {
        files.set_content(&written.name, bytes.to_vec());
        let Err(error) = restored(&files, 9) else { panic!("{what} was not noticed") };
        assert!(error.io.is_none() && error.offset <= bytes.len() as u64, "{what}: {error}");
        assert!(error.to_string().contains("checkpoint-00000000000000000009.ckp"), "{error}");
    };
    for _ in 0..60 {
        let at = random.below(good.len() as u64) as usize;
        refused(&good[..at], &format!("an end at {at}"));
        let mut bytes = good.clone();
        bytes[at] ^= 1 << random.below(8);
        refused(&bytes, &format!("a flipped bit in byte {at}"));
        let (from, len) = (random.below(good.len() as u64) as usize, 1 + random.below(5000) as usize);
        let mut bytes = good.clone();
        bytes.drain(from..(from + len).min(good.len()));
        refused(&bytes, &format!("a hole of {len} bytes at {from}"));
    }
    for at in 0..200 {
        refused(&good[..at], &format!("an end at {at}"));
        refused(&good[..good.len() - 1 - at], &format!("the last {} bytes missing", at + 1));
    }
    refused(&[&good[..], b"x"].concat(), "a byte behind the end");
    files.set_content(&written.name, good.clone());
    assert_eq!(digests(&keyspace, &tables), restored(&files, 9).map(|(k, t)| digests(&k, &t)).unwrap());
    files.set_content(&name_of(10), good);
    let Err(error) = restored(&files, 10) else { panic!("another checkpoint's file was loaded") };
    assert_eq!(
        "checkpoint checkpoint-00000000000000000010.ckp, offset 0: this is the checkpoint at 9, not at 10",
        error.to_string()
    );
}

/// Whoever makes the checksums right can make the loader say no, or give it another store; nothing else.
#[test]
fn payloads_that_nobody_wrote_do_no_harm() {
    let (mut refused, mut taken) = (0, 0);
    let stores: Vec<_> = (0..3)
        .map(|seed| {
            let files = SimulatedFiles::new(1);
            let (mut keyspace, mut tables) = some_store(seed);
            write_at_once(&files, &mut keyspace, &mut tables, 9);
            let mut reader = reader::Reader::open(&files, &name_of(9)).unwrap();
            let mut blocks = Vec::new();
            while let Some(block) = reader.next().unwrap() {
                blocks.push((block.kind, block.payload));
            }
            (reader.header, blocks)
        })
        .collect();
    for seed in 0..240 {
        let mut random = Xoshiro::from_seed(seed);
        let (header, mut blocks) = stores[seed as usize % 3].clone();
        let forged = SimulatedFiles::new(1);
        let end = blocks.pop().unwrap().1;
        let mut writer = writer::Writer::create(&forged, &header).unwrap();
        let chosen = random.below(blocks.len() as u64) as usize;
        for (at, (kind, payload)) in blocks.iter_mut().enumerate() {
            for _ in 0..if at == chosen { 1 + random.below(3) } else { 0 } {
                let place = match random.below(2) {
                    0 => random.below(payload.len() as u64),
                    _ => random.below(payload.len().min(40) as u64),
                };
                match random.below(3) {
                    0 => payload.truncate(1 + place as usize),
                    1 => payload[place as usize] ^= 1 << random.below(8),
                    _ => payload[place as usize] = random.next() as u8,
                }
            }
            writer.block(*kind, payload).unwrap();
        }
        writer.block(format::Kind::End, &end).unwrap();
        drop(writer);
        forged.rename(&format::unfinished_name_of(9), &name_of(9)).unwrap();
        match restored_any(&forged, 9) {
            Err(error) => {
                assert!(error.io.is_none(), "{error}");
                refused += 1;
            }
            // What was loaded can be read.
            Ok((keyspace, tables)) => {
                digests(&keyspace, &tables);
                taken += 1;
            }
        }
    }
    assert!(refused > 40 && taken > 40, "{refused} refused, {taken} taken");
}

#[test]
fn old_and_unfinished_files_go_and_others_stay() {
    let files = SimulatedFiles::new(1);
    let (mut keyspace, mut tables) = empty();
    for lsn in [3, 20, 100] {
        write_at_once(&files, &mut keyspace, &mut tables, lsn);
    }
    files.set_content("checkpoint-00000000000000000200.tmp", b"half".to_vec());
    files.set_content("wal-00000000000000000001.log", b"log".to_vec());
    let found: Vec<u64> = list(&files).unwrap().iter().map(|found| found.lsn).collect();
    assert_eq!(vec![100, 20, 3], found);
    let mut removed = remove_others(&files, 20).unwrap();
    removed.sort();
    assert_eq!(vec![name_of(3), "checkpoint-00000000000000000200.tmp".to_string()], removed);
    let mut left = files.list().unwrap();
    left.sort();
    assert_eq!(vec![name_of(20), name_of(100), "wal-00000000000000000001.log".to_string()], left);
}

/// Writes one, or says why not.
fn try_to_write(
    files: &SimulatedFiles,
    (keyspace, tables): &mut (Keyspace, Tables),
    lsn: u64,
) -> Result<Written, WriteError> {
    let mut run = Run::begin(keyspace, tables, about(lsn)).unwrap();
    let result = loop {
        if let Err(error) = run.write(files) {
            break Err(error);
        }
        if !run.slice(keyspace, 10_000) {
            break run.finish(files);
        }
    };
    if result.is_err() {
        run.abort(keyspace);
        run.discard(files);
    }
    result
}

#[test]
fn a_crash_at_any_moment_leaves_the_old_checkpoint_or_the_new_one() {
    let (mut old, mut new) = (some_store(3), some_store(4));
    let (before, after) = (digests(&old.0, &old.1), digests(&new.0, &new.1));
    let files = SimulatedFiles::new(5);
    write_at_once(&files, &mut old.0, &mut old.1, 10);
    let whole = files.copy();
    try_to_write(&whole, &mut new, 20).unwrap();
    remove_others(&whole, 20).unwrap();
    let (mut old_left, mut new_left) = (0, 0);
    for operation in 0..whole.operations() {
        for seed in 0..4 {
            let files = files.copy();
            files.stop_at(operation);
            let _ = try_to_write(&files, &mut new, 20).is_ok() && remove_others(&files, 20).is_ok();
            let files = files.crash(seed);
            let newest = list(&files).unwrap().remove(0);
            let (keyspace, tables) = restored(&files, newest.lsn).unwrap();
            assert_eq!(if newest.lsn == 20 { after } else { before }, digests(&keyspace, &tables));
            *if newest.lsn == 20 { &mut new_left } else { &mut old_left } += 1;
            remove_others(&files, newest.lsn).unwrap();
            assert_eq!(vec![newest.name], files.list().unwrap());
        }
    }
    assert!(old_left > 20 && new_left > 2, "{old_left} old ones left, {new_left} new ones");
}

#[test]
fn what_cannot_be_written_is_an_error_and_leaves_nothing() {
    let mut store = some_store(3);
    for operation in [Operation::Create, Operation::Write, Operation::Sync, Operation::Rename, Operation::SyncDirectory]
    {
        let files = SimulatedFiles::new(5);
        files.fail(operation, 1, ErrorKind::StorageFull);
        let error = try_to_write(&files, &mut store, 20).unwrap_err();
        assert!(crate::error::Error::from(error).message.starts_with("a checkpoint cannot be written: "));
        // What is renamed already is whole, and may stay.
        let left = if operation == Operation::SyncDirectory { vec![name_of(20)] } else { Vec::new() };
        assert_eq!(left, files.list().unwrap());
        try_to_write(&files, &mut store, 20).unwrap();
    }
    let files = SimulatedFiles::new(5);
    files.set_capacity(100_000);
    assert!(matches!(try_to_write(&files, &mut store, 20), Err(WriteError::Io(_))));
    assert_eq!(0, files.list().unwrap().len());
}
