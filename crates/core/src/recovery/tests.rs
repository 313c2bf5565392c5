//! A checkpoint of a store, taken while commands run, against the log of what they did.

use super::*;
use crate::engine::Memory;
use crate::env::{FileReader, FileWriter, Files};
use crate::keyspace::{Changes, Keyspace};
use crate::txn::Tables;
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

pub(crate) fn restored(files: &MemoryFiles, lsn: u64) -> Result<(Keyspace, Tables), RestoreError> {
    let (mut keyspace, mut tables) = empty();
    let found = Found { name: name_of(lsn), lsn };
    let mut last = None;
    let loaded = load(files, &found, &mut keyspace, &mut tables, &mut |progress| last = Some(progress))?;
    assert_eq!((lsn, [7; 16], 5, 1), (loaded.lsn, loaded.store, loaded.created_ms, loaded.things.len()));
    assert!(last.is_some_and(|progress| progress.done == progress.total));
    Ok((keyspace, tables))
}

/// Writes a checkpoint in one go.
pub(crate) fn write_at_once(files: &MemoryFiles, keyspace: &mut Keyspace, tables: &mut Tables, lsn: u64) -> Written {
    let mut run = Run::begin(keyspace, tables, about(lsn)).unwrap();
    while run.slice(keyspace, 1 << 20) {
        run.write(files).unwrap();
    }
    run.finish(files).unwrap()
}

#[test]
fn keys_come_back() {
    let files = MemoryFiles::default();
    let (mut keyspace, mut tables) = empty();
    let mut changes = Changes::default();
    for n in 0..5000 {
        let value = crate::value::Value::string(format!("{n}{}", "x".repeat(n % 300)).as_bytes());
        keyspace.keys(n % 16, 0, &mut changes).put(format!("key {n}").as_bytes(), value, Some(n as i64));
    }
    let written = write_at_once(&files, &mut keyspace, &mut tables, 12);
    assert_eq!((5000, name_of(12)), (written.keys, written.name));
    assert_eq!(vec![Found { name: name_of(12), lsn: 12 }], list(&files).unwrap());
    let (again, _) = restored(&files, 12).unwrap();
    assert_eq!(keyspace.digest(), again.digest());
}
