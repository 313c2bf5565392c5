//! Saves all keys as they were at one instant, a few at a time, while commands go on changing them.
//!
//! A *pass* gives each database that holds keys a [`Saver`], and then walks the databases in slices under the baton. An
//! entry is saved once: by the walk, or, just before it is changed or removed, by the database itself, whoever asked for
//! the change. Which entries are saved stands in their `epoch`; entries that are made meanwhile have it from birth, as
//! they are not part of the instant. When a database is walked through its saver goes, so databases that are done, or
//! were empty, cost nothing.
//!
//! The saver stays with its database and knows the number that this had: SWAPDB changes nothing. A database emptied by
//! FLUSHDB takes the saver along, and comes to the pass when it is dropped, to be walked there; one that is put back
//! (undo) goes on where it was.
//!
//! A *big* value is saved in pieces, over several slices. A command that edits a table (a large set, hash or sorted set)
//! in the meantime tells by its inverse what was there before, and that is saved; one that changes another big value, or
//! removes one, has the rest of it saved at once.
//!
//! **Epochs** are 1 to 65535, in turn; 0 is the mark of no pass. The marks in databases are those of passes since the
//! last one that came to its end, which marked every entry. So an epoch can only come again while a mark of it is left
//! if 65534 passes in a row were given up; before that the marks are wiped.

use super::Keyspace;
use super::database::Database;
use super::entry::{EntryRef, ValueRef};
use crate::ds::number;
use crate::limits;
use crate::value::pieces::{self, Told};
use crate::value::{Op, Value, codec};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A batch is closed when it is this long, bytes.
const BATCH_BYTES: usize = 128 << 10;
/// Bytes of a big value that are saved at once; of a list more, whose pieces are found by walking to them.
const PIECE_BYTES: usize = 64 << 10;
const LIST_PIECE_BYTES: usize = 256 << 10;
/// A string is big when it is longer. It is copied faster than a collection is walked.
const STRING_BIG_BYTES: usize = 1 << 20;
/// What looking at an entry costs of a slice's budget, besides the bytes it is saved in.
const LOOK_COST: usize = 64;

/// Keys of one database, saved.
#[derive(Debug, Default)]
pub struct Batch {
    /// The number that the database had when the pass began.
    pub db: usize,
    /// How many keys begin here.
    pub keys: u64,
    /// For each, and for each further piece of a big one: the key, and an operation (`value::op`).
    pub bytes: Vec<u8>,
}

/// What the passes of a keyspace have to know of each other.
#[derive(Default)]
pub struct Epochs {
    last: u16,
    /// Passes begun since the last one that came to its end.
    unfinished: u16,
    running: Weak<Home>,
}

impl Epochs {
    /// The epoch of the next pass, and whether all marks must be wiped first.
    fn next(&mut self) -> (u16, bool) {
        let wipe = self.unfinished == u16::MAX - 1;
        self.unfinished = if wipe { 1 } else { self.unfinished + 1 };
        self.last = self.last.checked_add(1).unwrap_or(1);
        (self.last, wipe)
    }
}

/// Where databases go that are dropped before they are walked through.
#[derive(Default)]
struct Home(Mutex<Vec<Database>>);

impl Home {
    fn databases(&self) -> std::sync::MutexGuard<'_, Vec<Database>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Saves the entries of one database.
pub(super) struct Saver {
    db: usize,
    epoch: u16,
    cursor: u64,
    /// All buckets have been visited.
    is_through: bool,
    /// The big values of which a part is saved.
    partial: Vec<Partial>,
    batch: Batch,
    full: Vec<Batch>,
    /// Dead when the pass was given up.
    home: Weak<Home>,
}

/// A big value of which a part is saved.
struct Partial {
    key: Box<[u8]>,
    /// Where the next piece begins.
    next: u64,
    /// What commands changed since it was begun, and is saved or was not there.
    told: Told,
}

fn is_big(value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::Bytes(bytes) => bytes.len() > STRING_BIG_BYTES,
        ValueRef::Int(_) => false,
        ValueRef::Value(value) => value.is_big(),
    }
}

impl Saver {
    fn new(db: usize, epoch: u16, home: &Arc<Home>) -> Box<Saver> {
        let (batch, home) = (Batch { db, ..Batch::default() }, Arc::downgrade(home));
        Box::new(Saver { db, epoch, cursor: 0, is_through: false, partial: Vec::new(), batch, full: Vec::new(), home })
    }

    /// The mark of entries that need not be saved.
    pub fn epoch(&self) -> u16 {
        self.epoch
    }

    fn is_of(&self, home: &Arc<Home>) -> bool {
        std::ptr::eq(self.home.as_ptr(), Arc::as_ptr(home))
    }

    fn is_done(&self) -> bool {
        self.is_through && self.partial.is_empty()
    }

    /// An entry is about to change, or to go.
    #[inline]
    pub fn before_change(&mut self, entry: EntryRef<'_>) {
        if entry.epoch() != self.epoch || !self.partial.is_empty() {
            self.save_first(entry);
        }
    }

    #[cold]
    fn save_first(&mut self, entry: EntryRef<'_>) {
        // A pass that was given up wants nothing any more.
        if self.home.strong_count() == 0 {
            return;
        }
        let place = self.place_of(entry.key());
        let mut rest = match place {
            _ if entry.epoch() != self.epoch => self.begin(entry),
            Some(place) => Some(self.partial.swap_remove(place)),
            None => None,
        };
        while let Some(partial) = rest {
            rest = self.save_piece(entry, partial);
        }
    }

    fn place_of(&self, key: &[u8]) -> Option<usize> {
        self.partial.iter().position(|partial| *partial.key == *key)
    }

    /// An entry's value is about to be edited. True: `after_edit` wants to know what takes the edit back.
    #[cold]
    pub fn before_edit(&mut self, entry: EntryRef<'_>) -> bool {
        let may_change = matches!(entry.value(), ValueRef::Value(value) if value.may_change_between_pieces());
        if !may_change || self.home.strong_count() == 0 {
            self.before_change(entry);
            return false;
        }
        if entry.epoch() != self.epoch
            && let Some(partial) = self.begin(entry)
        {
            self.partial.push(partial);
        }
        self.place_of(entry.key()).is_some()
    }

    /// An edit is done that `undo` takes back.
    pub fn after_edit(&mut self, key: &[u8], undo: &Op) {
        let Some(place) = self.place_of(key) else { return };
        let mut before = Vec::new();
        codec::put_bytes(&mut before, key);
        let told = pieces::tell_change(undo, &mut self.partial[place].told, &before, &mut self.batch.bytes);
        assert!(told, "a table is edited by additions and removals");
        self.close_batch_if_full();
    }

    /// Saves an entry and marks it; of a big one no more than that there is one.
    fn begin(&mut self, entry: EntryRef<'_>) -> Option<Partial> {
        entry.set_epoch(self.epoch);
        let (value, expire_at, out) = (entry.value(), entry.expire_at(), &mut self.batch.bytes);
        let is_big = is_big(value);
        codec::put_bytes(out, entry.key());
        match value {
            ValueRef::Bytes(bytes) => Op::encode_put_string(if is_big { b"" } else { bytes }, expire_at, out),
            ValueRef::Int(n) => Op::encode_put_string(&number::i64_text(n), expire_at, out),
            ValueRef::Value(value) if is_big => Op::encode_put(&value.emptied(), expire_at, out),
            ValueRef::Value(value) => Op::encode_put(value, expire_at, out),
        }
        self.batch.keys += 1;
        self.close_batch_if_full();
        is_big.then(|| Partial { key: entry.key().into(), next: 0, told: Told::default() })
    }

    /// Saves the next piece of a big value; gives what is left.
    fn save_piece(&mut self, entry: EntryRef<'_>, partial: Partial) -> Option<Partial> {
        let out = &mut self.batch.bytes;
        codec::put_bytes(out, entry.key());
        let Partial { next: from, ref told, .. } = partial;
        let next = match entry.value() {
            ValueRef::Bytes(bytes) => pieces::string_piece(bytes, from, PIECE_BYTES, out),
            ValueRef::Value(value @ Value::List(_)) => value.encode_piece(from, LIST_PIECE_BYTES, told, out),
            ValueRef::Value(value) => value.encode_piece(from, PIECE_BYTES, told, out),
            ValueRef::Int(_) => unreachable!("an integer is not big"),
        };
        self.close_batch_if_full();
        next.map(|next| Partial { next, ..partial })
    }

    fn close_batch_if_full(&mut self) {
        if self.batch.bytes.len() >= BATCH_BYTES {
            self.close_batch();
        }
    }

    fn close_batch(&mut self) {
        let next = Batch { db: self.db, ..Batch::default() };
        self.full.push(std::mem::replace(&mut self.batch, next));
    }

    /// Bytes saved and not taken yet.
    fn bytes(&self) -> usize {
        self.batch.bytes.len() + self.full.iter().map(|batch| batch.bytes.len()).sum::<usize>()
    }

    /// Walks on through its database until about `budget` is spent; gives what was.
    fn walk(&mut self, database: &Database, budget: usize) -> usize {
        let (before, mut looks) = (self.bytes(), 0);
        let spent = |saver: &Saver, looks: usize| looks * LOOK_COST + saver.bytes() - before;
        while !self.is_done() && spent(self, looks) < budget {
            looks += 1;
            match self.partial.pop() {
                Some(partial) => {
                    let entry = database.get(&partial.key[..]);
                    let rest = entry.and_then(|entry| self.save_piece(entry, partial));
                    self.partial.extend(rest);
                }
                None => looks += self.visit_bucket(database),
            }
        }
        spent(self, looks)
    }

    /// Saves the entries of the next bucket, up to the first big one; gives how many it looked at.
    fn visit_bucket(&mut self, database: &Database) -> usize {
        let (mut looks, mut again) = (0, false);
        let next = database.scan(self.cursor, |entry| {
            looks += 1;
            if entry.epoch() == self.epoch {
                return;
            }
            if !self.partial.is_empty() {
                again = true;
                return;
            }
            let partial = self.begin(entry);
            self.partial.extend(partial);
        });
        if !again {
            self.cursor = next;
            self.is_through = next == 0;
        }
        looks
    }
}

impl Database {
    fn save_some(&mut self, budget: usize) -> usize {
        let Some(mut saver) = self.saver.take() else { return 0 };
        let spent = saver.walk(self, budget);
        self.saver = Some(saver);
        spent
    }

    fn saver_of(&mut self, home: &Arc<Home>) -> Option<&mut Saver> {
        self.saver.as_deref_mut().filter(|saver| saver.is_of(home))
    }

    /// Has it entries that are still to be saved?
    pub(super) fn is_being_saved(&self) -> bool {
        self.saver.as_ref().is_some_and(|saver| saver.home.strong_count() > 0)
    }

    /// The database is dropped: if it has entries to be saved, the pass takes it. True if it did.
    #[cold]
    pub(super) fn go_home(&mut self) -> bool {
        let Some(home) = self.saver.as_ref().and_then(|saver| saver.home.upgrade()) else { return false };
        home.databases().push(std::mem::take(self));
        true
    }
}

/// A pass over all databases. Dropped, it is given up.
pub struct Pass {
    epoch: u16,
    home: Arc<Home>,
    /// Databases that were emptied meanwhile.
    emptied: Vec<Database>,
    /// Databases that are not walked through yet, wherever they are.
    left: usize,
    output: Vec<Batch>,
    output_bytes: usize,
}

impl Pass {
    /// Begins to save the keys as they are now. `None` while another pass runs.
    pub fn begin(keyspace: &mut Keyspace) -> Option<Pass> {
        let epochs = &mut keyspace.shared.epochs;
        if epochs.running.strong_count() > 0 {
            return None;
        }
        let (epoch, wipe) = epochs.next();
        let home = Arc::new(Home::default());
        epochs.running = Arc::downgrade(&home);
        let mut left = 0;
        for (db, database) in keyspace.databases.iter_mut().enumerate() {
            if wipe {
                database.iter().for_each(|entry| entry.set_epoch(0));
            }
            database.saver = (!database.is_empty()).then(|| Saver::new(db, epoch, &home));
            left += usize::from(database.saver.is_some());
        }
        Some(Pass { epoch, home, emptied: Vec::new(), left, output: Vec::new(), output_bytes: 0 })
    }

    /// Works on for about `budget` (bytes saved, and 64 for each key looked at), unless a lot waits to be taken. True:
    /// there is more to do. After false, and taking the output, all keys are saved.
    pub fn slice(&mut self, keyspace: &mut Keyspace, budget: usize) -> bool {
        self.emptied.append(&mut self.home.databases());
        let mut left = budget;
        for database in keyspace.databases.iter_mut().chain(&mut self.emptied) {
            let Some(saver) = database.saver_of(&self.home) else { continue };
            take_full(saver, &mut self.output, &mut self.output_bytes);
            if left > 0 && self.output_bytes < limits::CHECKPOINT_WAITING_BYTES_MAX {
                left = left.saturating_sub(database.save_some(left));
                self.left -= usize::from(take_saved(database, &mut self.output, &mut self.output_bytes));
            }
        }
        for database in self.emptied.extract_if(.., |database| database.saver.is_none()) {
            keyspace.shared.reaper.free(database);
        }
        if self.left == 0 && keyspace.shared.epochs.last == self.epoch {
            keyspace.shared.epochs.unfinished = 1;
        }
        self.left > 0
    }

    /// What was saved since the last call.
    pub fn take_output(&mut self) -> Vec<Batch> {
        self.output_bytes = 0;
        std::mem::take(&mut self.output)
    }

    /// Gives the pass up.
    pub fn abort(self, keyspace: &mut Keyspace) {
        for database in &mut keyspace.databases {
            database.saver = None;
        }
        keyspace.shared.epochs.running = Weak::new();
        // What was emptied meanwhile is freed away from the baton.
        keyspace.shared.reaper.free(self);
    }
}

fn take_full(saver: &mut Saver, output: &mut Vec<Batch>, output_bytes: &mut usize) {
    *output_bytes += saver.full.iter().map(|batch| batch.bytes.len()).sum::<usize>();
    output.append(&mut saver.full);
}

/// Takes what a database has saved; and its saver, if that is done.
fn take_saved(database: &mut Database, output: &mut Vec<Batch>, output_bytes: &mut usize) -> bool {
    let Some(saver) = &mut database.saver else { return false };
    let is_done = saver.is_done();
    if is_done && !saver.batch.bytes.is_empty() {
        saver.close_batch();
    }
    take_full(saver, output, output_bytes);
    if is_done {
        database.saver = None;
    }
    is_done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ds::packed::Packed;
    use crate::keyspace::keys::Expiry;
    use crate::keyspace::{Changes, Wants};
    use crate::value::{Edit, Set, SetOp};

    fn keyspace(keys: usize) -> Keyspace {
        let mut keyspace = Keyspace::new(2);
        (0..keys).for_each(|n| set(&mut keyspace, n, "then"));
        keyspace
    }

    fn set(keyspace: &mut Keyspace, n: usize, value: &str) {
        let mut changes = Changes::default();
        keyspace.keys(n % 2, 0, &mut changes).set_string(format!("k{n}").as_bytes(), value.as_bytes(), Expiry::Clear);
    }

    fn run(pass: &mut Pass, keyspace: &mut Keyspace) -> u64 {
        let mut keys = 0;
        let mut count = |batches: Vec<Batch>| keys += batches.iter().map(|batch| batch.keys).sum::<u64>();
        while pass.slice(keyspace, 1000) {
            count(pass.take_output());
        }
        count(pass.take_output());
        keys
    }

    #[test]
    fn epochs_come_round_and_no_key_is_missed() {
        let mut keyspace = keyspace(50);
        keyspace.shared.epochs.last = u16::MAX - 3;
        for _ in 0..8 {
            let mut pass = Pass::begin(&mut keyspace).unwrap();
            assert_ne!(0, pass.epoch);
            assert_eq!(50, run(&mut pass, &mut keyspace));
        }
        assert_eq!(5, keyspace.shared.epochs.last);
    }

    #[test]
    fn marks_of_passes_that_were_given_up_are_wiped_before_their_epoch_comes_again() {
        for ahead in [0, 1, 5, 9] {
            let mut keyspace = keyspace(50);
            for n in 0..65_535 + ahead {
                let mut pass = Pass::begin(&mut keyspace).unwrap();
                // The first ones mark some keys each.
                if n < 10 {
                    pass.slice(&mut keyspace, 200);
                }
                if n % 2 == 0 {
                    pass.abort(&mut keyspace);
                }
            }
            let mut pass = Pass::begin(&mut keyspace).unwrap();
            assert_eq!(ahead + 1, pass.epoch.into());
            assert_eq!(50, run(&mut pass, &mut keyspace));
        }
    }

    #[test]
    fn what_waits_to_be_taken_stops_the_walk() {
        let mut keyspace = keyspace(20_000);
        (0..20_000).for_each(|n| set(&mut keyspace, n, &"long".repeat(250)));
        let mut pass = Pass::begin(&mut keyspace).unwrap();
        (0..1000).for_each(|_| assert!(pass.slice(&mut keyspace, 1 << 20)));
        let waiting: usize = pass.take_output().iter().map(|batch| batch.bytes.len()).sum();
        let most = limits::CHECKPOINT_WAITING_BYTES_MAX + (3 << 20);
        assert!((limits::CHECKPOINT_WAITING_BYTES_MAX..most).contains(&waiting), "{waiting} bytes");
        assert!(pass.slice(&mut keyspace, 1 << 20));
    }

    #[test]
    fn an_emptied_database_comes_to_the_pass_and_one_that_is_put_back_goes_on() {
        for wants in [Wants::empty(), Wants::REDO, Wants::UNDO] {
            let mut keyspace = keyspace(1000);
            let mut pass = Pass::begin(&mut keyspace).unwrap();
            pass.slice(&mut keyspace, 500);
            let mut changes = Changes { wants, ..Changes::default() };
            keyspace.flush(0, &mut changes);
            keyspace.swap(0, 1, &mut Changes::default());
            (0..100).for_each(|n| set(&mut keyspace, n, "new"));
            if wants == Wants::UNDO {
                assert!(pass.slice(&mut keyspace, usize::MAX >> 1), "what an undo scope keeps is still to come");
            }
            drop(changes);
            assert_eq!(1000, run(&mut pass, &mut keyspace));
        }
    }

    #[test]
    fn a_pass_costs_nothing_once_a_database_is_done_or_the_pass_is_gone() {
        let mut keyspace = keyspace(100);
        let mut pass = Pass::begin(&mut keyspace).unwrap();
        assert!(keyspace.databases.iter().all(|database| database.saver.is_some()));
        assert!(Pass::begin(&mut keyspace).is_none());
        run(&mut pass, &mut keyspace);
        assert!(keyspace.databases.iter().all(|database| database.saver.is_none()));
        drop(pass);
        let pass = Pass::begin(&mut keyspace).unwrap();
        drop(pass);
        // Nobody takes what would be saved now.
        (0..100).for_each(|n| set(&mut keyspace, n, "later"));
        assert!(keyspace.databases.iter().all(|database| database.saver.as_ref().unwrap().bytes() == 0));
    }

    #[test]
    fn a_big_set_is_edited_while_it_is_saved_and_nobody_waits_for_it() {
        let mut keyspace = Keyspace::new(1);
        let member = |n: usize| format!("member {n}").into_bytes();
        let members: Packed = (0..60_000).map(member).collect::<Vec<_>>().iter().map(|m| &m[..]).collect();
        keyspace.apply(0, b"big", Op::Set(SetOp::Add(members))).unwrap();
        let then = keyspace.digest();
        let mut pass = Pass::begin(&mut keyspace).unwrap();
        let mut saved = Vec::new();
        for n in 0.. {
            let mut changes = Changes::default();
            let mut keys = keyspace.keys(0, 0, &mut changes);
            let edit = |set: &mut Set, edit: &mut Edit<'_, SetOp>| {
                set.remove(&[&member(n * 7), &member(n * 7)], edit);
                set.add(&[&member(50_000 + n), &member(n * 7), &member(n * 14)], edit);
                set.remove(&[&member(n * 21), &member(50_000 + n)], edit)
            };
            keys.edit(b"big", edit).unwrap();
            let waiting = keyspace.databases[0].saver.as_ref().unwrap().bytes();
            assert!(waiting < BATCH_BYTES + 200, "{waiting} bytes were saved by an edit");
            let more = pass.slice(&mut keyspace, 10_000);
            saved.extend(pass.take_output());
            if !more {
                break;
            }
        }
        let mut again = Keyspace::new(1);
        for batch in &saved {
            let input = &mut &batch.bytes[..];
            while !input.is_empty() {
                let key = codec::take_bytes(input).unwrap();
                again.apply(batch.db, key, Op::decode(input, &again.shared.thresholds).unwrap()).unwrap();
            }
        }
        assert!(saved.len() > 2, "{} batches", saved.len());
        assert_eq!(then, again.digest());
    }
}
