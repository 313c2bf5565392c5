//! Files in memory that lose, tear and refuse what a test wants, by a seed.
//!
//! A crash keeps what was synced. Of the rest each page of 4 kB is kept, lost or torn between its sectors of 512 bytes,
//! and each change of a name is kept or lost, whatever came before or after.

use super::Xoshiro;
use super::files::{FileReader, FileWriter, Files};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::sync::Arc;

const PAGE: usize = 4096;
const SECTOR: usize = 512;

/// What can be made to fail. Reading always works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operation {
    Create,
    Write,
    Reserve,
    Truncate,
    Sync,
    Rename,
    Remove,
    SyncDirectory,
}

/// A directory in memory. A clone is the same directory.
#[derive(Clone)]
pub struct SimulatedFiles {
    disk: Arc<Mutex<Disk>>,
}

struct Disk {
    files: Vec<File>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// Changes of names since the directory was synced.
    unsynced_names: Vec<NameChange>,
    capacity: u64,
    can_reserve: bool,
    faults: Vec<Fault>,
    operations: u64,
    stop_at: u64,
    random: Xoshiro,
}

#[derive(Clone)]
enum NameChange {
    Made(String, usize),
    Renamed(String, String, usize),
    Removed(String),
}

struct Fault {
    operation: Operation,
    /// How many more of these go well.
    after: u64,
    /// None: it panics.
    error: Option<ErrorKind>,
    /// All that follow fail, too.
    stays: bool,
}

/// A file as programs see it, and as the disk has it.
#[derive(Clone, Default)]
struct File {
    seen: Vec<u8>,
    durable: Vec<u8>,
    /// Pages that a sync would write.
    dirty: BTreeSet<usize>,
    /// Room on the disk, bytes.
    allocated: u64,
}

impl SimulatedFiles {
    /// An empty directory.
    pub fn new(seed: u64) -> Self {
        let disk = Disk {
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            unsynced_names: Vec::new(),
            capacity: u64::MAX,
            can_reserve: true,
            faults: Vec::new(),
            operations: 0,
            stop_at: u64::MAX,
            random: Xoshiro::from_seed(seed),
        };
        SimulatedFiles { disk: Arc::new(Mutex::new(disk)) }
    }

    /// What is found after a crash at this moment. The old one goes on as if there had been none.
    pub fn crash(&self, seed: u64) -> SimulatedFiles {
        let disk = self.disk.lock();
        let found = SimulatedFiles::new(seed ^ 0x5DEE_CE66);
        let mut random = Xoshiro::from_seed(seed);
        {
            let mut new = found.disk.lock();
            new.files = disk.files.iter().map(|file| file.after_crash(&mut random)).collect();
            new.names = disk.durable_names.clone();
            for change in &disk.unsynced_names {
                if random.below(2) == 0 {
                    change.apply(&mut new.names);
                }
            }
            new.durable_names = new.names.clone();
            new.capacity = disk.capacity;
            new.can_reserve = disk.can_reserve;
        }
        found
    }

    /// How many operations there were.
    pub fn operations(&self) -> u64 {
        self.disk.lock().operations
    }

    /// The power goes at the operation of this number (the first is 0): it is done in part, and it and all after fail.
    pub fn stop_at(&self, operation: u64) {
        self.disk.lock().stop_at = operation;
    }

    /// Whether the power went.
    pub fn is_stopped(&self) -> bool {
        let disk = self.disk.lock();
        disk.operations > disk.stop_at
    }

    /// Has the `nth` operation of a kind from now on fail; 1 is the next.
    pub fn fail(&self, operation: Operation, nth: u64, error: ErrorKind) {
        self.disk.lock().faults.push(Fault { operation, after: nth - 1, error: Some(error), stays: false });
    }

    /// Has the `nth` operation of a kind from now on panic, as a bug would.
    pub fn panic_at(&self, operation: Operation, nth: u64) {
        self.disk.lock().faults.push(Fault { operation, after: nth - 1, error: None, stays: false });
    }

    /// Has the next operation of a kind panic, and all after it.
    pub fn panic_from(&self, operation: Operation) {
        self.disk.lock().faults.push(Fault { operation, after: 0, error: None, stays: true });
    }

    /// Has the `nth` operation of a kind from now on fail, and all after it.
    pub fn fail_from(&self, operation: Operation, nth: u64, error: ErrorKind) {
        self.disk.lock().faults.push(Fault { operation, after: nth - 1, error: Some(error), stays: true });
    }

    /// Nothing fails that did not fail yet.
    pub fn heal(&self) {
        self.disk.lock().faults.clear();
    }

    /// The disk has room for so many bytes, counted in pages.
    pub fn set_capacity(&self, bytes: u64) {
        self.disk.lock().capacity = bytes;
    }

    /// Bytes of room that are taken.
    pub fn used(&self) -> u64 {
        self.disk.lock().used()
    }

    /// Room cannot be reserved, as on some file systems.
    pub fn forbid_reserving(&self) {
        self.disk.lock().can_reserve = false;
    }

    /// All bytes of a file.
    pub fn content(&self, name: &str) -> Vec<u8> {
        let disk = self.disk.lock();
        disk.files[disk.names[name]].seen.clone()
    }

    /// Makes a file, or changes it, as if it had always been so.
    pub fn set_content(&self, name: &str, bytes: Vec<u8>) {
        let mut disk = self.disk.lock();
        let allocated = pages(bytes.len());
        let file = File { seen: bytes.clone(), durable: bytes, dirty: BTreeSet::new(), allocated };
        disk.files.push(file);
        let index = disk.files.len() - 1;
        disk.names.insert(name.into(), index);
        disk.durable_names.insert(name.into(), index);
    }

    /// A directory of its own with the same files, all durable.
    pub fn copy(&self) -> SimulatedFiles {
        let copy = SimulatedFiles::new(0);
        for name in self.list().expect("listing works") {
            copy.set_content(&name, self.content(&name));
        }
        copy
    }
}

/// What becomes of an operation.
enum Fate {
    Fine,
    /// It fails with this error, having done what part it may.
    Fails(io::Error),
}

impl Disk {
    fn fate(&mut self, operation: Operation) -> Fate {
        let number = self.operations;
        self.operations += 1;
        if number >= self.stop_at {
            // Only the first may still do a part.
            return Fate::Fails(io::Error::other("the power is off"));
        }
        for at in 0..self.faults.len() {
            let fault = &mut self.faults[at];
            if fault.operation != operation {
                continue;
            }
            if fault.after > 0 {
                fault.after -= 1;
                continue;
            }
            let error = fault.error;
            if !fault.stays {
                self.faults.remove(at);
            }
            let Some(error) = error else { panic!("a test wants this to panic") };
            return Fate::Fails(error.into());
        }
        Fate::Fine
    }

    /// Whether the power is off for longer than the present operation.
    fn is_off(&self) -> bool {
        self.operations > self.stop_at.saturating_add(1)
    }

    fn used(&self) -> u64 {
        let live: BTreeSet<usize> = self.names.values().copied().collect();
        live.into_iter().map(|index| self.files[index].allocated).sum()
    }

    /// Takes room for a file up to `length`; gives up to where there is some.
    fn allocate(&mut self, index: usize, length: usize) -> u64 {
        let (wanted, has) = (pages(length), self.files[index].allocated);
        if wanted > has {
            let free = self.capacity.saturating_sub(self.used()) / PAGE as u64 * PAGE as u64;
            self.files[index].allocated = wanted.min(has + free);
        }
        self.files[index].allocated
    }

    fn index(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn change_name(&mut self, change: NameChange, operation: Operation) -> io::Result<()> {
        let fate = self.fate(operation);
        // A failure because of the crash may leave the change done, one for another reason does not.
        let by_crash = Some(self.operations) == self.stop_at.checked_add(1);
        if matches!(fate, Fate::Fine) || by_crash {
            change.apply(&mut self.names);
            self.unsynced_names.push(change);
        }
        match fate {
            Fate::Fine => Ok(()),
            Fate::Fails(error) => Err(error),
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            NameChange::Made(name, index) => drop(names.insert(name.clone(), *index)),
            NameChange::Renamed(from, to, index) => {
                names.remove(from);
                names.insert(to.clone(), *index);
            }
            NameChange::Removed(name) => drop(names.remove(name)),
        }
    }
}

fn pages(length: usize) -> u64 {
    length.next_multiple_of(PAGE) as u64
}

impl File {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.seen.len() < end {
            self.seen.resize(end, 0);
        }
        self.seen[offset..end].copy_from_slice(bytes);
        if !bytes.is_empty() {
            self.dirty.extend(offset / PAGE..=(end - 1) / PAGE);
        }
    }

    fn set_length(&mut self, length: usize) {
        // What is cut off must not come back when the file grows again.
        let end = self.seen.len().max(self.durable.len());
        if length < end {
            self.dirty.extend(length / PAGE..=(end - 1) / PAGE);
        }
        self.seen.resize(length, 0);
    }

    /// Puts a page on the disk, which may have it beyond what it takes for the file's end.
    fn put_page(&self, page: usize, into: &mut [u8], sector_is_kept: &mut dyn FnMut() -> bool) {
        for start in (page * PAGE..(page + 1) * PAGE).step_by(SECTOR) {
            let end = (start + SECTOR).min(into.len());
            if start < end && sector_is_kept() {
                for (at, byte) in into[start..end].iter_mut().enumerate() {
                    *byte = self.seen.get(start + at).copied().unwrap_or(0);
                }
            }
        }
    }

    fn sync(&mut self) {
        let mut durable = std::mem::take(&mut self.durable);
        durable.resize(self.seen.len(), 0);
        self.dirty.iter().for_each(|page| self.put_page(*page, &mut durable, &mut || true));
        self.dirty.clear();
        self.durable = durable;
    }

    /// The bytes on the disk if the power went now.
    fn torn(&self, random: &mut Xoshiro) -> Vec<u8> {
        let (old, new) = (self.durable.len(), self.seen.len());
        let length = match random.below(3) {
            0 => old,
            1 => new,
            // A growing file may have grown in part.
            _ if new > old => (old + random.below((new - old) as u64) as usize).next_multiple_of(PAGE).min(new),
            _ => old,
        };
        let mut found = self.durable.clone();
        found.resize(length, 0);
        for page in &self.dirty {
            match random.below(3) {
                0 => {}
                1 => self.put_page(*page, &mut found, &mut || true),
                _ => self.put_page(*page, &mut found, &mut || random.below(2) == 0),
            }
        }
        found
    }

    fn after_crash(&self, random: &mut Xoshiro) -> File {
        let found = self.torn(random);
        File { seen: found.clone(), allocated: pages(found.len()), durable: found, dirty: BTreeSet::new() }
    }

    /// As Linux does it: what was to be written is in memory still, taken for clean, and perhaps not on the disk.
    fn fail_sync(&mut self, random: &mut Xoshiro) {
        self.durable = self.torn(random);
        self.dirty.clear();
    }
}

impl Files for SimulatedFiles {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.disk.lock().names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn FileReader>> {
        let index = self.disk.lock().index(name)?;
        Ok(Box::new(Handle { disk: self.disk.clone(), index }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn FileWriter>> {
        let mut disk = self.disk.lock();
        let index = match disk.index(name) {
            Ok(index) => {
                if let Fate::Fails(error) = disk.fate(Operation::Create) {
                    return Err(error);
                }
                disk.files[index].set_length(0);
                disk.files[index].allocated = 0;
                index
            }
            Err(_) => {
                disk.files.push(File::default());
                let index = disk.files.len() - 1;
                disk.change_name(NameChange::Made(name.into(), index), Operation::Create)?;
                index
            }
        };
        Ok(Box::new(Handle { disk: self.disk.clone(), index }))
    }

    fn modify(&self, name: &str) -> io::Result<Box<dyn FileWriter>> {
        let index = self.disk.lock().index(name)?;
        Ok(Box::new(Handle { disk: self.disk.clone(), index }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.disk.lock();
        let index = disk.index(from)?;
        disk.change_name(NameChange::Renamed(from.into(), to.into(), index), Operation::Rename)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut disk = self.disk.lock();
        disk.index(name)?;
        disk.change_name(NameChange::Removed(name.into()), Operation::Remove)
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut disk = self.disk.lock();
        if let Fate::Fails(error) = disk.fate(Operation::SyncDirectory) {
            return Err(error);
        }
        disk.durable_names = disk.names.clone();
        disk.unsynced_names.clear();
        Ok(())
    }
}

/// An open file.
struct Handle {
    disk: Arc<Mutex<Disk>>,
    index: usize,
}

impl FileReader for Handle {
    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.lock().files[self.index].seen.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let disk = self.disk.lock();
        let bytes = disk.files[self.index].seen.get(offset as usize..).unwrap_or_default();
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }
}

impl FileWriter for Handle {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.disk.lock();
        let fate = disk.fate(Operation::Write);
        if disk.is_off() {
            return Err(io::Error::other("the power is off"));
        }
        let offset = offset as usize;
        let room = disk.allocate(self.index, offset + bytes.len()) as usize;
        let mut count = bytes.len().min(room.saturating_sub(offset));
        if let Fate::Fails(_) = fate {
            count = disk.random.below(count as u64 + 1) as usize;
        }
        disk.files[self.index].write(offset, &bytes[..count]);
        match fate {
            Fate::Fails(error) => Err(error),
            Fate::Fine if count < bytes.len() => Err(ErrorKind::StorageFull.into()),
            Fate::Fine => Ok(()),
        }
    }

    fn reserve(&mut self, length: u64) -> io::Result<()> {
        let mut disk = self.disk.lock();
        if let Fate::Fails(error) = disk.fate(Operation::Reserve) {
            return Err(error);
        }
        if !disk.can_reserve {
            return Err(ErrorKind::Unsupported.into());
        }
        let length = length as usize;
        if disk.allocate(self.index, length) < pages(length) {
            return Err(ErrorKind::StorageFull.into());
        }
        let file = &mut disk.files[self.index];
        let grown = file.seen.len().max(length);
        file.seen.resize(grown, 0);
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let mut disk = self.disk.lock();
        if let Fate::Fails(error) = disk.fate(Operation::Truncate) {
            return Err(error);
        }
        disk.allocate(self.index, length as usize);
        let file = &mut disk.files[self.index];
        file.set_length(length as usize);
        file.allocated = file.allocated.min(pages(length as usize));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut disk = self.disk.lock();
        let fate = disk.fate(Operation::Sync);
        let by_crash = disk.operations > disk.stop_at;
        let Disk { files, random, .. } = &mut *disk;
        match fate {
            Fate::Fine => files[self.index].sync(),
            // What a crash in the middle leaves is as if it had come before.
            Fate::Fails(error) if by_crash => return Err(error),
            Fate::Fails(error) => {
                files[self.index].fail_sync(random);
                return Err(error);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_file(bytes: &[u8]) -> (SimulatedFiles, Box<dyn FileWriter>) {
        let files = SimulatedFiles::new(1);
        let mut file = files.create("a").unwrap();
        file.write_at(0, bytes).unwrap();
        file.sync().unwrap();
        files.sync_directory().unwrap();
        (files, file)
    }

    #[test]
    fn what_was_synced_survives_every_crash() {
        let (files, mut file) = with_file(&[1; 10_000]);
        file.write_at(10_000, &[2; 10_000]).unwrap();
        for seed in 0..50 {
            assert_eq!([1; 10_000], files.crash(seed).content("a")[..10_000]);
        }
    }

    #[test]
    fn what_was_not_is_kept_lost_and_torn() {
        let (files, mut file) = with_file(&[1; 8192]);
        file.write_at(0, &[2; 8192]).unwrap();
        let found: BTreeSet<Vec<u8>> = (0..200).map(|seed| files.crash(seed).content("a")).collect();
        assert!(found.contains(&vec![1; 8192]));
        assert!(found.contains(&vec![2; 8192]));
        let later_page_only = [[1; 4096], [2; 4096]].concat();
        assert!(found.contains(&later_page_only));
        assert!(found.iter().any(|bytes| bytes[..512] != bytes[512..1024]), "a page is torn between its sectors");
        assert!(found.iter().all(|bytes| bytes.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0]))));
    }

    #[test]
    fn names_are_lost_until_the_directory_is_synced() {
        let (files, _) = with_file(b"x");
        files.rename("a", "b").unwrap();
        let found: BTreeSet<Vec<String>> = (0..50).map(|seed| files.crash(seed).list().unwrap()).collect();
        assert_eq!(BTreeSet::from([vec!["a".to_string()], vec!["b".to_string()]]), found);
        files.sync_directory().unwrap();
        assert!((0..50).all(|seed| files.crash(seed).list().unwrap() == ["b"]));
    }

    #[test]
    fn a_failed_sync_takes_for_clean_what_it_lost() {
        let mut lost = 0;
        for seed in 0..20 {
            let (files, mut file) = with_file(&[1; 4096]);
            files.disk.lock().random = Xoshiro::from_seed(seed);
            files.fail(Operation::Sync, 2, ErrorKind::Other);
            file.sync().unwrap();
            file.write_at(0, &[2; 4096]).unwrap();
            assert!(file.sync().is_err());
            assert_eq!([2; 4096], files.content("a")[..]);
            file.sync().unwrap();
            lost += usize::from(files.crash(seed).content("a") == [1; 4096]);
        }
        assert!(lost > 0);
    }

    #[test]
    fn a_full_disk_refuses_until_it_has_room() {
        let (files, mut file) = with_file(&[1; 4096]);
        files.set_capacity(3 * 4096);
        assert_eq!(4096, files.used());
        file.reserve(3 * 4096).unwrap();
        assert_eq!(ErrorKind::StorageFull, file.reserve(3 * 4096 + 1).unwrap_err().kind());
        assert_eq!(ErrorKind::StorageFull, file.write_at(0, &[1; 20_000]).unwrap_err().kind());
        files.set_capacity(5 * 4096);
        file.write_at(0, &[1; 20_000]).unwrap();
        file.truncate(1).unwrap();
        assert_eq!(4096, files.used());
        files.remove("a").unwrap();
        assert_eq!(0, files.used());
    }

    #[test]
    fn what_was_cut_off_does_not_come_back() {
        let (files, mut file) = with_file(&[1; 5000]);
        file.truncate(100).unwrap();
        file.write_at(4999, &[2]).unwrap();
        let expected = [vec![1; 100], vec![0; 4899], vec![2]].concat();
        assert_eq!(expected, files.content("a"));
        file.sync().unwrap();
        assert_eq!(expected, files.crash(1).content("a"));
    }

    #[test]
    fn nothing_works_when_the_power_is_off() {
        let (files, mut file) = with_file(b"x");
        files.stop_at(files.operations() + 1);
        file.write_at(0, b"y").unwrap();
        assert!(file.sync().is_err());
        assert!(file.write_at(0, b"z").is_err());
        assert!(files.create("b").is_err());
        assert!(files.sync_directory().is_err());
        let found: BTreeSet<Vec<u8>> = (0..50).map(|seed| files.crash(seed).content("a")).collect();
        assert_eq!(BTreeSet::from([b"x".to_vec(), b"y".to_vec()]), found);
    }
}
