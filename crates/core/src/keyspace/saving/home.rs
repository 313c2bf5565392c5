//! Where everything of one pass comes together: what was saved, and what left the keyspace before it was.

use super::{Batch, Partial, Sizes, Taken};
use crate::keyspace::database::Database;
use crate::keyspace::entry::Entry;
use crate::keyspace::reaper::{Counted, Counter};
use crate::limits;
use crate::value::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The common ground of a pass and its savers. It is locked for an instant only, and by the baton's holder, but for what
/// other threads drop.
pub(in crate::keyspace) struct Home {
    /// The mark of what is saved.
    pub epoch: u16,
    pub sizes: Sizes,
    /// Counts what is freed when it is saved.
    counter: Counter,
    inside: Mutex<Inside>,
}

#[derive(Default)]
pub(super) struct Inside {
    /// Databases that were dropped before they were walked through.
    pub databases: Vec<Database>,
    /// Big values that were dropped before they were saved.
    pub orphans: Vec<Orphan>,
    /// Batches that are closed, in order: what begins a key comes before its pieces, whoever saves these.
    pub output: Vec<Batch>,
    pub output_bytes: usize,
    /// Savers and values that are not done.
    left: usize,
    /// Something was dropped that was still to be saved.
    pub is_broken: bool,
}

/// A big value without a key, and how far it is saved.
pub(super) struct Orphan {
    pub entry: Entry,
    pub partial: Box<Partial>,
    /// What is as good as freed.
    pub _counted: Counted,
}

impl Home {
    pub fn new(epoch: u16, sizes: Sizes, counter: Counter) -> Home {
        Home { epoch, sizes, counter, inside: Mutex::default() }
    }

    pub fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// May more be saved before some is taken?
    pub fn has_room(&self) -> bool {
        self.inside().output_bytes < limits::CHECKPOINT_WAITING_BYTES_MAX
    }

    /// Is nothing left to be saved?
    pub fn is_done(&self) -> bool {
        self.inside().left == 0
    }
}

/// Counts in its home as something that is not done.
pub(in crate::keyspace) struct Ticket(Weak<Home>);

impl Ticket {
    pub fn new(home: &Arc<Home>) -> Ticket {
        home.inside().left += 1;
        Ticket(Arc::downgrade(home))
    }

    /// The home; `None` when the pass was given up.
    pub fn home(&self) -> Option<Arc<Home>> {
        self.0.upgrade()
    }

    /// Has the pass not been given up?
    pub fn is_good(&self) -> bool {
        self.0.strong_count() > 0
    }

    pub fn is_of(&self, home: &Arc<Home>) -> bool {
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(home))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(home) = self.home() {
            home.inside().left -= 1;
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(partial) = self.partial.take()
            && let Some(home) = partial.ticket.home()
            && let Some(entry) = self.entry.take()
        {
            let counted = home.counter.count(entry.as_ref().boxed().map_or(0, Value::memory));
            home.inside().orphans.push(Orphan { entry, partial, _counted: counted });
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_done()
            && let Some(home) = self.ticket.home()
        {
            home.inside().is_broken = true;
        }
    }
}

/// Makes batches of what is saved.
pub(super) struct Output {
    home: Weak<Home>,
    batch: Batch,
    /// Bytes in batches closed so far.
    closed_bytes: usize,
    batch_bytes: usize,
}

impl Output {
    pub fn new(home: &Arc<Home>) -> Output {
        let (batch, batch_bytes) = (Batch::default(), home.sizes.batch);
        Output { home: Arc::downgrade(home), batch, closed_bytes: 0, batch_bytes }
    }

    /// The batch that keys of a database go into.
    pub fn batch_of(&mut self, db: usize) -> &mut Batch {
        if self.batch.db != db {
            self.close();
            self.batch.db = db;
        }
        &mut self.batch
    }

    pub fn close_if_full(&mut self) {
        if self.batch.bytes.len() >= self.batch_bytes {
            self.close();
        }
    }

    /// Hands over what there is.
    pub fn close(&mut self) {
        if self.batch.bytes.is_empty() {
            return;
        }
        let next = Batch { db: self.batch.db, ..Batch::default() };
        let batch = std::mem::replace(&mut self.batch, next);
        self.closed_bytes += batch.bytes.len();
        if let Some(home) = self.home.upgrade() {
            let mut inside = home.inside();
            inside.output_bytes += batch.bytes.len();
            inside.output.push(batch);
        }
    }

    /// All bytes saved here so far.
    pub fn bytes(&self) -> usize {
        self.closed_bytes + self.batch.bytes.len()
    }
}
