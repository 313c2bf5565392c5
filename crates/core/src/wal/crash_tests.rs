//! Crashes at every operation: what is read back is a beginning of what was appended, with all that was durable.

use super::writer::{Order, Writer};
use super::*;
use crate::env::Xoshiro;
use crate::env::simulated::{Operation, SimulatedFiles};
use std::convert::Infallible;
use std::io::ErrorKind;
use std::sync::Arc;

const ID: StoreId = [9; 16];

fn settings() -> LogSettings {
    LogSettings {
        segment_bytes: 20_000,
        head_room_bytes: 8 << 10,
        reserve_step_bytes: 4 << 10,
        group_bytes: 4000,
        unsynced_bytes: 12_000,
        zeros_ahead_bytes: 8 << 10,
        ..LogSettings::default()
    }
}

/// Says what was run when a test fails.
pub(super) struct Told(pub(super) String);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("it was {}", self.0);
        }
    }
}

/// A record that tells its number, of a length that `seed` fixes.
fn record(seed: u64, lsn: Lsn) -> Vec<u8> {
    let mut random = Xoshiro::from_seed(seed ^ lsn.wrapping_mul(0x9E37_79B9));
    let length = match random.below(10) {
        0 => 0,
        1 => random.below(9000),
        2..5 => random.below(700),
        _ => random.below(60),
    };
    (0..length).map(|_| random.next() as u8).collect()
}

/// A store as far as the log goes: it appends, is opened and closed, and remembers what it was promised.
struct Model {
    seed: u64,
    random: Xoshiro,
    files: SimulatedFiles,
    appended: Lsn,
    /// What was told to be durable, and below which records may be gone.
    durable: Lsn,
    removed: Lsn,
}

impl Model {
    fn new(seed: u64) -> Model {
        let files = SimulatedFiles::new(seed);
        Model { seed, random: Xoshiro::from_seed(seed), files, appended: 0, durable: 0, removed: 1 }
    }

    /// Opens, works for a while and perhaps closes, perhaps on a disk that fails or is full.
    fn session(&mut self) {
        self.make_trouble();
        self.work();
        self.files.heal();
        self.files.set_capacity(u64::MAX);
    }

    fn make_trouble(&mut self) {
        use Operation::{Create, Rename, Reserve, Sync, SyncDirectory, Truncate, Write};
        if self.random.below(3) == 0 {
            for _ in 0..=self.random.below(2) {
                let operations = [Create, Rename, Reserve, Sync, Sync, Sync, SyncDirectory, Truncate, Write, Write];
                let operation = operations[self.random.below(operations.len() as u64) as usize];
                self.files.fail(operation, 1 + self.random.below(8), ErrorKind::Other);
            }
        }
        if self.random.below(4) == 0 {
            self.files.set_capacity(self.files.used() + self.random.below(80_000));
        }
    }

    fn work(&mut self) {
        let next = self.appended + 1;
        let Ok((log, mut writer)) = Log::without_thread(Arc::new(self.files.clone()), ID, next, settings()) else {
            return;
        };
        let steps = self.random.below(30);
        for _ in 0..steps {
            self.step(&log, &mut writer);
            if log.condition() == Condition::Failed {
                return;
            }
        }
        if self.random.below(2) == 0 {
            writer.step(Order { sync: true, close: true });
            self.durable = log.durable();
        }
    }

    fn step(&mut self, log: &Log, writer: &mut Writer) {
        match self.random.below(10) {
            0..5 => {
                for _ in 0..self.random.below(12) {
                    self.appended += 1;
                    let record = record(self.seed, self.appended);
                    assert_eq!(self.appended, log.append(|out| out.extend_from_slice(&record)));
                }
            }
            5 => writer.step(Order::default()),
            6..9 => writer.step(Order { sync: true, close: false }),
            _ => {
                let at = log.rotate();
                if self.random.below(2) == 0 {
                    writer.step(Order { sync: true, close: false });
                }
                // A checkpoint would be durable by now, if what it holds is.
                let before = at.min(log.durable() + 1);
                self.removed = self.removed.max(before);
                // If it fails some are removed.
                let _ = log.remove_before(before);
            }
        }
        self.durable = log.durable();
    }

    /// Recovers what is there, and checks it.
    fn recover(&mut self) -> Result<(), String> {
        let (seed, from) = (self.seed, self.removed);
        let mut expected = from;
        let mut visit = |lsn, bytes: &[u8]| {
            assert_eq!(expected, lsn);
            assert_eq!(record(seed, lsn), bytes, "record {lsn}");
            expected += 1;
            Ok::<(), Infallible>(())
        };
        let end = read(&self.files, Start { from, id: Some(ID) }, &mut |_, _| {}, &mut visit);
        let end = end.map_err(|error| error.to_string())?;
        assert_eq!(expected, end.next);
        if end.next <= self.durable {
            return Err(format!("{} was durable, and the log ends before {}", self.durable, end.next));
        }
        if end.next > self.appended + 1 {
            return Err(format!("{} were appended, and {} come back", self.appended, end.next - 1));
        }
        settle(&self.files, &end).map_err(|error| error.to_string())?;
        self.appended = end.next - 1;
        // What was read may have been served: from now on it must stay.
        self.durable = self.appended;
        Ok(())
    }
}

/// Some sessions with crashes, or mere ends of the process, between, then one that the power ends at operation `stop`
/// (counted from its start). Gives false if it came to its end before.
fn run(seed: u64, stop: u64) -> bool {
    let _told = Told(format!("seed {seed}, stopped at operation {stop}"));
    let mut model = Model::new(seed);
    let fail = |what: String| panic!("{what}");
    let crashes = Xoshiro::from_seed(seed).below(3);
    for crash in 0..crashes {
        model.session();
        if model.random.below(2) == 0 {
            model.files = model.files.crash(seed ^ crash);
        }
        model.recover().unwrap_or_else(fail);
    }
    model.files.stop_at(model.files.operations() + stop);
    model.session();
    let stopped = model.files.is_stopped();
    // The power may go again while the log is recovered.
    for again in 0..3 {
        model.files = model.files.crash(seed.wrapping_mul(31) ^ stop ^ (again << 32));
        let stop = model.random.below(6);
        model.files.stop_at(if again < 2 { model.files.operations() + stop } else { u64::MAX });
        match model.recover() {
            Err(what) if !what.contains("power is off") => fail(what),
            _ => {}
        }
    }
    stopped
}

#[test]
fn a_crash_at_any_operation_loses_nothing_that_was_durable() {
    let (seeds, stops_max) = if std::env::var_os("PERYTON_LONG").is_some() { (3000, 400) } else { (60, 400) };
    for seed in 0..seeds {
        let mut stop = 0;
        while run(seed, stop) && stop < stops_max {
            stop += 1;
        }
    }
}
