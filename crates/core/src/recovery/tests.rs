//! A checkpoint of a store, taken while commands run, against the log of what they did.

use super::*;
use crate::ds::packed::Packed;
use crate::engine::Memory;
use crate::env::{FileReader, FileWriter, Files, Xoshiro};
use crate::keyspace::Keyspace;
use crate::table::batch::Batch;
use crate::table::catalog::{IndexColumn, IndexDef, IndexId, Method, Origin, TableDef, ViewDef};
use crate::table::datum::DatumRef;
use crate::table::row_id::RowId;
use crate::txn::{TableChanges, Tables};
use crate::value::{HashOp, ListOp, Op, SetOp, Value, ZSetOp};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

/// Files in memory.
#[derive(Clone, Default)]
pub(crate) struct MemoryFiles(Arc<Mutex<HashMap<String, Arc<Mutex<Vec<u8>>>>>>);

struct OpenFile(Arc<Mutex<Vec<u8>>>);

impl MemoryFiles {
    fn file(&self, name: &str) -> io::Result<Arc<Mutex<Vec<u8>>>> {
        self.0.lock().unwrap().get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        self.file(name).unwrap().lock().unwrap().clone()
    }
    pub fn put(&self, name: &str, bytes: &[u8]) {
        self.0.lock().unwrap().insert(name.into(), Arc::new(Mutex::new(bytes.to_vec())));
    }
}

impl Files for MemoryFiles {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.lock().unwrap().keys().cloned().collect())
    }
    fn open(&self, name: &str) -> io::Result<Box<dyn FileReader>> {
        Ok(Box::new(OpenFile(self.file(name)?)))
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn FileWriter>> {
        self.put(name, b"");
        self.modify(name)
    }
    fn modify(&self, name: &str) -> io::Result<Box<dyn FileWriter>> {
        Ok(Box::new(OpenFile(self.file(name)?)))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.0.lock().unwrap();
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.into(), file);
        Ok(())
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.lock().unwrap().remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }
}

impl FileReader for OpenFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.0.lock().unwrap();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

impl FileWriter for OpenFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut all = self.0.lock().unwrap();
        let end = offset as usize + bytes.len();
        let length = all.len().max(end);
        all.resize(length, 0);
        all[offset as usize..end].copy_from_slice(bytes);
        Ok(())
    }
    fn reserve(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.lock().unwrap().truncate(length as usize);
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn empty() -> (Keyspace, Tables) {
    (Keyspace::new(16), Tables::new(Box::new(Memory::new())))
}

pub(crate) fn about(lsn: u64) -> About {
    About { store: [7; 16], lsn, created_ms: 5, things: vec![("settings".into(), b"x y".to_vec())] }
}

/// What a checkpoint gives that `about` is about.
pub(crate) fn restored(files: &MemoryFiles, lsn: u64) -> Result<(Keyspace, Tables), RestoreError> {
    let (keyspace, tables, loaded) = loaded(files, lsn)?;
    assert_eq!(
        about(lsn),
        About { store: loaded.store, lsn: loaded.lsn, created_ms: loaded.created_ms, things: loaded.things }
    );
    Ok((keyspace, tables))
}

fn restored_any(files: &MemoryFiles, lsn: u64) -> Result<(Keyspace, Tables), RestoreError> {
    loaded(files, lsn).map(|(keyspace, tables, _)| (keyspace, tables))
}

fn loaded(files: &MemoryFiles, lsn: u64) -> Result<(Keyspace, Tables, Loaded), RestoreError> {
    let (mut keyspace, mut tables) = empty();
    let found = Found { name: name_of(lsn), lsn };
    let mut last = None;
    let loaded = load(files, &found, &mut keyspace, &mut tables, &mut |progress| last = Some(progress))?;
    assert!(last.is_some_and(|progress| progress.done == progress.total));
    Ok((keyspace, tables, loaded))
}

/// Writes a checkpoint in one go.
pub(crate) fn write_at_once(files: &MemoryFiles, keyspace: &mut Keyspace, tables: &mut Tables, lsn: u64) -> Written {
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
        let files = MemoryFiles::default();
        let mut run = Run::begin(&mut keyspace, &mut tables, about(seed)).unwrap();
        while run.slice(&mut keyspace, 1 << (3 * seed)) {
            run.write(&files).unwrap();
        }
        let written = run.finish(&files).unwrap();
        let (again, tables_again) = restored(&files, seed).unwrap();
        assert_eq!(digests(&keyspace, &tables), digests(&again, &tables_again));
        assert_eq!(files.bytes(&written.name).len() as u64, written.bytes);
        assert_eq!(vec![written.name], files.list().unwrap());
    }
}

#[test]
fn damaged_files_are_errors_that_say_where() {
    let files = MemoryFiles::default();
    let (mut keyspace, mut tables) = some_store(1);
    let written = write_at_once(&files, &mut keyspace, &mut tables, 9);
    let good = files.bytes(&written.name);
    let mut random = Xoshiro::from_seed(2);
    let refused = |bytes: &[u8], what: &str| {
        files.put(&written.name, bytes);
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
    files.put(&written.name, &good);
    assert_eq!(digests(&keyspace, &tables), restored(&files, 9).map(|(k, t)| digests(&k, &t)).unwrap());
    files.put(&name_of(10), &good);
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
            let files = MemoryFiles::default();
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
        let forged = MemoryFiles::default();
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
    let files = MemoryFiles::default();
    let (mut keyspace, mut tables) = empty();
    for lsn in [3, 20, 100] {
        write_at_once(&files, &mut keyspace, &mut tables, lsn);
    }
    files.put("checkpoint-00000000000000000200.tmp", b"half");
    files.put("wal-00000000000000000001.log", b"log");
    let found: Vec<u64> = list(&files).unwrap().iter().map(|found| found.lsn).collect();
    assert_eq!(vec![100, 20, 3], found);
    let mut removed = remove_others(&files, 20).unwrap();
    removed.sort();
    assert_eq!(vec![name_of(3), "checkpoint-00000000000000000200.tmp".to_string()], removed);
    let mut left = files.list().unwrap();
    left.sort();
    assert_eq!(vec![name_of(20), name_of(100), "wal-00000000000000000001.log".to_string()], left);
}
