//! Chooses the access path of one table in a query: what SQLite's planner is told in xBestIndex.
//!
//! SQLite asks: "these conditions would hold a column against a value known by then; this order is wanted: how would
//! you find the rows, and at what cost?" The answer weighs every index in turn. Costs are in rows read; a walk through
//! an index costs more a row than a scan, as it jumps.

mod choose;
mod edges;
mod index;

pub use choose::{EQUAL_ROWS, choose};
pub use edges::{Bound, edges, exclude_null};

use crate::engine::{Source, Statistics};
use crate::table::catalog::{IndexId, TableDef};
use crate::table::datum::Datum;
use crate::table::types::Collation;
use smallvec::SmallVec;

/// What a condition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The row id.
    RowId,
    /// The column whose values rows keep at this position.
    Position(u16),
}

/// How a condition compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `=`, or `IN` when the term is a list.
    Equal,
    /// `IS`: NULL equals NULL.
    Is,
    /// `IS NULL`.
    IsNull,
    /// `IS NOT NULL`.
    NotNull,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `LIKE`, which may fix the first letters.
    Like,
    /// `GLOB`, likewise.
    Glob,
}

impl Op {
    /// A bound from below, and whether it belongs to the range.
    pub fn is_low(self) -> bool {
        matches!(self, Op::Greater | Op::GreaterOrEqual)
    }

    /// A bound from above.
    pub fn is_high(self) -> bool {
        matches!(self, Op::Less | Op::LessOrEqual)
    }

    /// Does the bound itself belong to the range?
    pub fn is_inclusive(self) -> bool {
        matches!(self, Op::GreaterOrEqual | Op::LessOrEqual)
    }
}

/// A condition `field op value` whose value will be known.
#[derive(Clone, Debug)]
pub struct Term {
    /// Its number among SQLite's constraints.
    pub number: usize,
    /// The left side.
    pub field: Field,
    /// The comparison.
    pub op: Op,
    /// The right side is the list of an IN.
    pub list: bool,
    /// How the comparison collates.
    pub collation: Collation,
    /// The right side, when it is a literal.
    pub literal: Option<Datum>,
    /// The right side surely is no column of another table (it is a literal): its type is what it is compared as.
    pub sure: bool,
    /// The right side may be a parameter.
    pub parameter: bool,
}

/// A comparison of several columns with as many values at once, `(a, b) > (x, y)`: the hints that `row_values` left.
#[derive(Clone, Debug)]
pub struct RowTerm {
    /// The comparison.
    pub op: Op,
    /// The numbers of the constraints; that of the first column has the values.
    pub numbers: SmallVec<[usize; 4]>,
    /// The positions of the columns; fewer than there are values when some belong to another table.
    pub positions: SmallVec<[u16; 4]>,
}

/// What the wanted order is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// The rows must come in that order.
    Order,
    /// Rows with equal values must be neighbours (GROUP BY).
    Group,
    /// As for `Group`, and one row of each group is enough (DISTINCT).
    Distinct,
    /// Both the order and one row of each group.
    DistinctOrder,
}

/// What SQLite asks.
pub struct Question<'a> {
    /// The table.
    pub def: &'a TableDef,
    /// Where its rows are.
    pub source: &'a dyn Source,
    /// Its sizes.
    pub statistics: &'a Statistics,
    /// The conditions.
    pub terms: &'a [Term],
    /// Comparisons of several columns.
    pub rows: &'a [RowTerm],
    /// There are no other conditions than `terms`.
    pub complete: bool,
    /// The wanted order: fields and whether largest first.
    pub order: &'a [(Field, bool)],
    /// What it is wanted for.
    pub grouping: Grouping,
    /// A LIMIT that ends the walk, if it is known.
    pub limit: Option<u64>,
    /// The number of the constraint that tells how many rows to skip.
    pub offset: Option<usize>,
    /// The positions of the columns that the statement reads; `None`: perhaps all.
    pub reads: Option<&'a [u16]>,
}

/// One value that a plan takes when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its number among the values passed to xFilter; None stands for NULL.
    pub argument: Option<u8>,
    /// It is a list of values.
    pub list: bool,
    /// NULL equals NULL.
    pub null_equals: bool,
    /// See [`Term::sure`].
    pub sure: bool,
}

/// Where a range begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The value.
    pub slot: Slot,
    /// The value itself belongs to the range.
    pub inclusive: bool,
    /// What the value is.
    pub kind: LimitKind,
}

/// What limits a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// A value of the next column.
    Value,
    /// Values of the next columns, so many of them.
    Row(u8),
    /// The pattern of a LIKE: the range is that of its first letters. The same at both ends.
    Like,
    /// The pattern of a GLOB.
    Glob,
    /// NULL, which does not belong to the range.
    NotNull,
}

/// How a range is walked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// From the end to the start.
    pub reverse: bool,
    /// The rows themselves are not read: the index has all columns that are wanted.
    pub index_only: bool,
    /// One entry for each value of so many columns; 0: every entry.
    pub distinct: u8,
    /// The argument that tells how many rows to skip.
    pub offset: Option<u8>,
}

/// An access path with places for its values.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Every row.
    All,
    /// The rows with the row ids given.
    Rows(Slot),
    /// The rows with these keys in an index.
    Keys {
        /// The index.
        index: IndexId,
        /// One for each of its columns.
        columns: SmallVec<[Slot; 4]>,
        /// At most one row can be found.
        single: bool,
        /// The keys are looked up in falling order.
        reverse: bool,
    },
    /// A range of an ordered index.
    Range {
        /// The index.
        index: IndexId,
        /// Values of its first columns.
        equal: SmallVec<[Slot; 4]>,
        /// Lower bound of what follows.
        low: Option<Limit>,
        /// Upper bound of what follows.
        high: Option<Limit>,
        /// How it is walked.
        walk: Walk,
    },
    /// The rows with a value in a column without an index: a scan at first, a hash table made for the statement when
    /// the question comes again.
    Equal {
        /// The column's position.
        position: u16,
        /// The value.
        value: Slot,
    },
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The access path.
    pub plan: Plan,
    /// For each value it takes, the number of the constraint.
    pub arguments: SmallVec<[usize; 4]>,
    /// SQLite need not check those constraints again.
    pub exact: bool,
    /// Constraints among the arguments that only help the choice, and hold for every row.
    pub hints: SmallVec<[usize; 4]>,
    /// Cost, in rows read in a scan.
    pub cost: f64,
    /// Rows that it yields and that satisfy the other conditions too.
    pub rows: f64,
    /// The rows come in the wanted order.
    pub ordered: bool,
}

impl Choice {
    /// The constraint of the OFFSET, if the path skips the rows itself.
    pub fn offset(&self) -> Option<usize> {
        let Plan::Range { walk: Walk { offset: Some(argument), .. }, .. } = &self.plan else { return None };
        Some(self.arguments[usize::from(*argument)])
    }

    /// At most one row is found.
    pub fn is_single(&self) -> bool {
        matches!(self.plan, Plan::Keys { single: true, .. } | Plan::Rows(Slot { list: false, .. }))
    }
}
