//! The clock of a plan that walks over many rows: when its slice of the store's time is over, when it must end, and
//! whether somebody wants it to.

use crate::error::{Code, Error};
use crate::sql::run::{Host, Outcome};

/// Rows, or what takes as long, between two looks at the clock.
const ROWS_PER_LOOK: usize = 2048;

/// What one run has used of its time.
pub struct Look {
    may_move: bool,
    /// Rows since the last look.
    rows: usize,
    /// Rows in all.
    pub visited: u64,
    /// The run was told to end, as its slice is over.
    pub slice_over: bool,
    begun: Option<Begun>,
}

/// A run that is long enough to be watched.
struct Begun {
    deadline_ns: Option<u64>,
    slice_end_ns: Option<u64>,
    /// It can be cancelled as a statement of its own.
    outermost: bool,
}

impl Look {
    /// A run begins. `may_move`: at the end of its slice it may be told to go on elsewhere.
    pub fn new(may_move: bool) -> Look {
        Look { may_move, rows: 0, visited: 0, slice_over: false, begun: None }
    }

    /// Notes rows that were read. False: the slice is over.
    #[inline]
    pub fn after(&mut self, host: &mut dyn Host, rows: usize) -> Outcome<bool> {
        self.rows += rows;
        self.visited += rows as u64;
        if self.rows < ROWS_PER_LOOK {
            return Ok(true);
        }
        self.rows = 0;
        self.now(host)
    }

    #[cold]
    fn now(&mut self, host: &mut dyn Host) -> Outcome<bool> {
        let may_move = self.may_move;
        let begun = self.begun.get_or_insert_with(|| {
            let outermost = host.sql().running() == 0;
            if outermost {
                host.statement_begins();
            }
            let slice_end_ns = if may_move && outermost { host.slice_end_ns() } else { None };
            Begun { deadline_ns: host.deadline_ns(), slice_end_ns, outermost }
        });
        let now_ns = host.monotonic_ns();
        if begun.slice_end_ns.is_some_and(|end| now_ns > end) {
            self.slice_over = true;
            return Ok(false);
        }
        let late = begun.deadline_ns.is_some_and(|deadline| now_ns > deadline);
        if late || host.is_cancelled() {
            let why = if late { "the statement took too long" } else { "the statement was cancelled" };
            return Err(Error::new(Code::Cancelled, why).into());
        }
        Ok(true)
    }

    /// The run has ended.
    pub fn end(&self, host: &mut dyn Host) {
        if self.begun.as_ref().is_some_and(|begun| begun.outermost) {
            host.statement_ends();
        }
    }
}
