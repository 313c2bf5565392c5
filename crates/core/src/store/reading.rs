//! The reader threads of a store: each runs long reads on views of the tables, with a SQLite connection of its own, while
//! the store serves others.

use super::{Shared, Store};
use crate::command::{sql, waiting};
use crate::engine::{Source, Wanted};
use crate::error::{Code, Error, Result};
use crate::limits;
use crate::readers::Job;
use crate::reply::Reply;
use crate::sql::{Host, Portion, Shape, Sql};
use crate::table::catalog::Catalog;
use crate::table::datum::{Datum, DatumRef};
use crate::txn::{TableChanges, Tables};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Weak};

/// Has reader threads started when there is work for them.
pub(super) fn set_up(store: &Store) {
    let weak = Arc::downgrade(&store.shared);
    store.shared.readers.set_spawn(Box::new(move || spawn(&weak)));
}

/// Starts a thread. It holds no store while it waits, so a store that nobody else holds ends.
fn spawn(store: &Weak<Shared>) -> bool {
    let Some(shared) = store.upgrade() else { return false };
    let (readers, weak) = (shared.readers.clone(), store.clone());
    let builder = std::thread::Builder::new().name("peryton-reader".into()).stack_size(limits::THREAD_STACK_BYTES);
    let thread = builder.spawn(move || {
        let mut sql = Sql::default();
        while let Some(job) = readers.next() {
            let Some(shared) = weak.upgrade() else { return };
            serve(&Store { shared }, &mut sql, job);
        }
    });
    let is_started = thread.is_ok();
    shared.reader_threads.lock().extend(thread);
    is_started
}

/// Runs a read and brings its reply.
fn serve(store: &Store, sql: &mut Sql, job: Job) {
    let (session, ticket) = (job.session, job.ticket.clone());
    // Invariant 12: a bug in a read is that read's error. What it left in its connection goes with that.
    let reply = catch_unwind(AssertUnwindSafe(|| run(store, sql, &job))).unwrap_or_else(|panic| {
        std::mem::take(sql);
        Reply::Error(super::bug(&[&job.text], &*panic))
    });
    // Freeing the pages that only the view still has takes its time, so it is not done under the baton.
    drop(job);
    store.shared.readers.done(&ticket);
    let mut baton = store.enter();
    baton.state.tick();
    waiting::bring(&mut baton.state, session, &(ticket as Arc<_>), reply);
}

fn run(store: &Store, sql: &mut Sql, job: &Job) -> Reply {
    if let Some(error) = job.ticket.why() {
        return error.into();
    }
    let params: Vec<DatumRef<'_>> = job.params.iter().map(Datum::as_ref).collect();
    let mut read = Reading { store, sql, job, keys: HashMap::new(), bytes: 0 };
    let reply = crate::sql::execute(&mut read, &job.text, &params);
    match (reply, job.ticket.why()) {
        (Ok(reply), _) => reply,
        (Err(_), Some(why)) => why.into(),
        (Err(error), None) => error.into(),
    }
}

/// Rows that were copied.
type Rows = Vec<Vec<Datum>>;

/// What a read in a reader thread works on.
struct Reading<'a> {
    store: &'a Store,
    sql: &'a mut Sql,
    job: &'a Job,
    /// The values of keys as they were when the read first looked at them.
    keys: HashMap<(Vec<u8>, Shape), Rc<Copied>>,
    /// Bytes of `keys`.
    bytes: usize,
}

impl Reading<'_> {
    /// The value at a key, copied when it is first asked for.
    fn copied(&mut self, key: &[u8], shape: Shape) -> Result<Rc<Copied>> {
        let name = (key.to_vec(), shape);
        if let Some(copied) = self.keys.get(&name) {
            return Ok(copied.clone());
        }
        let ((), rows) = self.copy(|host, keep| host.read_key(key, shape, Portion::All, keep))?;
        let copied = Rc::new(Copied { rows, places: OnceCell::new() });
        self.keys.insert(name, copied.clone());
        Ok(copied)
    }

    /// Copies rows that the keyspace gives under the baton.
    fn copy<T>(
        &mut self,
        read: impl FnOnce(&mut dyn Host, &mut dyn FnMut(&[Datum])) -> Result<T>,
    ) -> Result<(T, Rows)> {
        let mut rows = Vec::new();
        let mut baton = self.store.enter();
        baton.state.tick();
        let copied = &mut self.bytes;
        let mut keep = |row: &[Datum]| {
            *copied += row.iter().map(bytes_of).sum::<usize>();
            // What is past the limit is an error below, and need not be held until then.
            if *copied <= limits::READ_KEYS_BYTES_MAX {
                rows.push(row.to_vec());
            }
        };
        let result = sql::lend(&mut baton.state, self.job.db, |host| read(host, &mut keep))?;
        if *copied > limits::READ_KEYS_BYTES_MAX {
            let text = format!("a long statement may read {} bytes of keys", limits::READ_KEYS_BYTES_MAX);
            return Err(Error::new(Code::Limit, text));
        }
        Ok((result, rows))
    }
}

impl Host for Reading<'_> {
    fn source(&self) -> &dyn Source {
        &*self.job.view
    }

    fn write(&mut self) -> Result<(&mut Tables, &mut TableChanges)> {
        Err(Error::new(Code::Bug, "reading.rs: a read may not write"))
    }

    fn sql(&mut self) -> &mut Sql {
        self.sql
    }

    fn catalog(&self) -> &Catalog {
        &self.job.catalog
    }

    fn fetch(&mut self, wanted: &Wanted) -> Result<()> {
        let fetch = self.store.enter().state.tables.engine().fetch(wanted);
        let fetched = fetch()?;
        self.store.enter().state.tables.engine_mut().admit(fetched);
        Ok(())
    }

    fn deadline_ns(&mut self) -> Option<u64> {
        self.job.deadline_ns
    }

    fn now_us(&self) -> i64 {
        self.job.now_us
    }

    fn monotonic_ns(&mut self) -> u64 {
        self.store.overrun().now_ns()
    }

    fn is_cancelled(&self) -> bool {
        self.job.ticket.is_ended()
    }

    fn read_key(
        &mut self,
        key: &[u8],
        shape: Shape,
        portion: Portion<'_>,
        each: &mut dyn FnMut(&[Datum]),
    ) -> Result<()> {
        self.copied(key, shape)?.show(portion, each);
        Ok(())
    }

    fn ranks(&mut self, key: &[u8], low: Option<f64>, high: Option<f64>) -> Result<Range<usize>> {
        let copied = self.copied(key, Shape::ZSet)?;
        let score = |row: &Vec<Datum>| if let Some(Datum::Real(score)) = row.get(1) { *score } else { f64::NAN };
        let start = low.map_or(0, |low| copied.rows.partition_point(|row| score(row) < low));
        let end = high.map_or(copied.rows.len(), |high| copied.rows.partition_point(|row| score(row) <= high));
        Ok(start.min(end)..end)
    }

    fn find_key(&mut self, key: &[u8], each: &mut dyn FnMut(&[Datum])) -> Result<()> {
        let before = self.bytes;
        let ((), rows) = self.copy(|host, keep| host.find_key(key, keep))?;
        self.bytes = before;
        rows.iter().for_each(|row| each(row));
        Ok(())
    }

    fn scan_keys(&mut self, cursor: u64, prefix: &[u8], bytes: bool, each: &mut dyn FnMut(&[Datum])) -> Result<u64> {
        let before = self.bytes;
        let (next, rows) = self.copy(|host, keep| host.scan_keys(cursor, prefix, bytes, keep))?;
        self.bytes = before;
        rows.iter().for_each(|row| each(row));
        Ok(next)
    }

    fn call_function(&mut self, name: &str, args: &[DatumRef<'_>]) -> Result<Datum> {
        // The interpreter belongs to whoever has the baton.
        let mut baton = self.store.enter();
        baton.state.tick();
        sql::lend(&mut baton.state, self.job.db, |host| host.call_function(name, args))
    }

    fn store_key(&mut self, _: &[u8], _: Shape, _: &[Vec<Datum>]) -> Result<usize> {
        Err(Error::new(Code::Bug, "reading.rs: a read may not write"))
    }

    fn delete_keys(&mut self, _: &[Vec<u8>]) -> Result<u64> {
        Err(Error::new(Code::Bug, "reading.rs: a read may not write"))
    }
}

/// The rows of a value as they were when the read first looked at it.
#[derive(Default)]
struct Copied {
    rows: Vec<Vec<Datum>>,
    /// Where each field or member is; made when one is first asked for.
    places: OnceCell<HashMap<Vec<u8>, usize>>,
}

impl Copied {
    fn show(&self, portion: Portion<'_>, each: &mut dyn FnMut(&[Datum])) {
        match portion {
            Portion::All => self.rows.iter().for_each(|row| each(row)),
            Portion::Named(name) => self.find(name).into_iter().for_each(|row| each(row)),
            Portion::At(position) => {
                let row = usize::try_from(position).ok().and_then(|position| self.rows.get(position));
                row.into_iter().for_each(|row| each(row));
            }
            Portion::Ranks(ranks, reverse) => {
                let rows = &self.rows[ranks.start.min(self.rows.len())..ranks.end.min(self.rows.len())];
                match reverse {
                    false => rows.iter().for_each(|row| each(row)),
                    true => rows.iter().rev().for_each(|row| each(row)),
                }
            }
        }
    }

    fn find(&self, name: &[u8]) -> Option<&Vec<Datum>> {
        let name_of = |(place, row): (usize, &Vec<Datum>)| match row.first() {
            Some(Datum::Text(bytes) | Datum::Blob(bytes)) => Some((bytes.to_vec(), place)),
            _ => None,
        };
        let places = self.places.get_or_init(|| self.rows.iter().enumerate().filter_map(name_of).collect());
        self.rows.get(*places.get(name)?)
    }
}

fn bytes_of(value: &Datum) -> usize {
    let content = match value.as_ref() {
        DatumRef::Text(bytes) | DatumRef::Blob(bytes) => bytes.len(),
        _ => 0,
    };
    size_of::<Datum>() + content
}
