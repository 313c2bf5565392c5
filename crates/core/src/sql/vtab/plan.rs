//! Chooses the access path of one table in a query: what SQLite's planner is told in xBestIndex.
//!
//! SQLite asks: "these conditions would hold a column against a value known by then; this order is wanted: how would
//! you find the rows, and at what cost?" The answer weighs every index in turn. Costs are in rows read; a walk through
//! an index costs more a row than a scan, as it jumps.

use crate::engine::{Edge, Source, Statistics};
use crate::table::catalog::{IndexColumn, IndexDef, IndexId, Method, TableDef};
use crate::table::datum::{Datum, DatumRef};
use crate::table::key::{KeyBuf, put_column};
use crate::table::types::{Collation, Storage};
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
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
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

/// A table with fewer rows is planned as if it had so many: it is likely to grow, and its plans stay in the cache.
const ROWS_LEAST: u64 = 1000;
/// Rows that a value of an index's first column is taken to have then.
const EQUAL_ROWS: f64 = 10.0;

impl Question<'_> {
    fn is_small(&self) -> bool {
        self.statistics.rows < ROWS_LEAST
    }

    /// Are all rows that are looked for in the index? A partial one is named by a condition on its hidden column, which
    /// the text was given where it has the index's own condition.
    fn may_use(&self, index: &IndexDef) -> bool {
        index.filter.is_none_or(|position| {
            let is_true = |t: &Term| t.op == Op::Equal && !t.list && t.literal == Some(Datum::Int(1));
            self.terms.iter().any(|t| t.field == Field::Position(position) && is_true(t))
        })
    }

    /// The rows to plan for.
    fn rows(&self) -> f64 {
        self.statistics.rows.max(ROWS_LEAST) as f64
    }
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
    /// The wanted order: fields and whether largest first.
    pub order: &'a [(Field, bool)],
    /// A LIMIT that ends the walk, if it is known.
    pub limit: Option<u64>,
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
    },
    /// A range of an ordered index.
    Range {
        /// The index.
        index: IndexId,
        /// Values of its first columns.
        equal: SmallVec<[Slot; 4]>,
        /// Lower bound of the next column, and whether it belongs to the range.
        low: Option<(Slot, bool)>,
        /// Upper bound of the next column.
        high: Option<(Slot, bool)>,
        /// From the end of the index to its start.
        reverse: bool,
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
    /// Cost, in rows read in a scan.
    pub cost: f64,
    /// Rows that it yields.
    pub rows: f64,
    /// The rows come in the wanted order.
    pub ordered: bool,
}

impl Choice {
    /// At most one row is found.
    pub fn is_single(&self) -> bool {
        matches!(self.plan, Plan::Keys { single: true, .. } | Plan::Rows(Slot { list: false, .. }))
    }
}

/// What a condition without an index or statistics lets through, and what a list is taken to hold.
const EQUAL_SHARE: f64 = 10.0;
const RANGE_SHARE: f64 = 4.0;
const LIST_LENGTH: f64 = 8.0;
/// Costs: finding a key, and reading a row through an index, in rows of a scan.
const PROBE: f64 = 2.0;
const PROBE_ORDERED: f64 = 4.0;
const INDEX_ROW: f64 = 1.5;

/// The best access path.
pub fn choose(question: &Question<'_>) -> Choice {
    let rows = question.rows();
    let all = Choice {
        plan: Plan::All,
        arguments: SmallVec::new(),
        exact: false,
        cost: rows + PROBE,
        rows,
        ordered: question.order.is_empty(),
    };
    let mut candidates: SmallVec<[Choice; 8]> = SmallVec::new();
    candidates.extend(by_row_id(question));
    for (index, statistics) in question.def.indexes.iter().zip(&question.statistics.indexes) {
        if question.may_use(index) {
            let mut planner = IndexPlanner::new(question, index, &statistics.distinct);
            if index.filter.is_some() {
                planner.entries = (statistics.entries as f64).max(1.0);
            }
            candidates.extend(planner.plan());
        }
    }
    if candidates.iter().all(|c| c.cost >= all.cost) {
        candidates.extend(by_scan_or_hash(question));
    }
    let total = |choice: &Choice| choice.cost + if choice.ordered { 0.0 } else { sort_cost(choice.rows) };
    candidates.into_iter().fold(all, |best, next| if total(&next) < total(&best) { next } else { best })
}

/// What sorting costs SQLite.
fn sort_cost(rows: f64) -> f64 {
    rows * rows.max(2.0).log2()
}

fn by_row_id(question: &Question<'_>) -> Option<Choice> {
    let term = question.terms.iter().find(|t| t.field == Field::RowId && t.op == Op::Equal)?;
    let count = if term.list { LIST_LENGTH } else { 1.0 };
    Some(Choice {
        plan: Plan::Rows(slot(term, Some(0))),
        arguments: SmallVec::from_slice(&[term.number]),
        exact: true,
        cost: count * PROBE,
        rows: count,
        ordered: question.order.is_empty() || !term.list,
    })
}

/// An equality on a column without an index.
fn by_scan_or_hash(question: &Question<'_>) -> Option<Choice> {
    let rows = question.rows();
    let fits = |t: &&Term| t.op == Op::Equal && !t.list && t.literal.is_none() && collates(question.def, t);
    let term = question.terms.iter().find(fits)?;
    let Field::Position(position) = term.field else { return None };
    // A parameter asks once; then this is a scan, and it must not look cheaper than one. A column of another table asks
    // again and again: then the table is scanned once, whatever the number of questions.
    let cost = if term.parameter { rows } else { PROBE + rows / EQUAL_SHARE };
    Some(Choice {
        plan: Plan::Equal { position, value: slot(term, Some(0)) },
        arguments: SmallVec::from_slice(&[term.number]),
        exact: false,
        cost,
        rows: (rows / EQUAL_SHARE).max(1.0),
        ordered: question.order.is_empty(),
    })
}

fn slot(term: &Term, argument: Option<u8>) -> Slot {
    Slot { argument, list: term.list, null_equals: matches!(term.op, Op::Is | Op::IsNull), sure: term.sure }
}

/// Does the condition compare as the column's own values do?
fn collates(def: &TableDef, term: &Term) -> bool {
    match term.field {
        Field::RowId => false,
        Field::Position(position) => def.column_at(position).is_some_and(|c| c.collation == term.collation),
    }
}

/// Builds the access path through one index.
struct IndexPlanner<'a> {
    question: &'a Question<'a>,
    index: &'a IndexDef,
    entries: f64,
    distinct: &'a [u64],
    arguments: SmallVec<[usize; 4]>,
    equal: SmallVec<[Slot; 4]>,
    /// A term with a list is among the equal ones, so rows come in several runs.
    lists: i32,
    /// Values of a kind whose comparison only SQLite can judge are among the arguments.
    exact: bool,
    /// The encoded values, as long as all are literals.
    prefix: Option<KeyBuf>,
}

impl<'a> IndexPlanner<'a> {
    fn new(question: &'a Question<'a>, index: &'a IndexDef, distinct: &'a [u64]) -> Self {
        let entries = question.rows();
        let (arguments, equal) = (SmallVec::new(), SmallVec::new());
        let prefix = Some(KeyBuf::new());
        IndexPlanner { question, index, entries, distinct, arguments, equal, lists: 0, exact: true, prefix }
    }

    fn plan(&mut self) -> Option<Choice> {
        self.take_equalities();
        let whole = self.equal.len() == self.index.columns.len();
        match self.index.method {
            _ if whole => Some(self.keys()),
            Method::Hash => None,
            Method::Ordered => self.range(),
        }
    }

    /// The condition on a column of the index that `wanted` accepts. Equalities with one value come before lists.
    fn term(&self, column: usize, wanted: impl Fn(Op) -> bool) -> Option<&'a Term> {
        let column = &self.index.columns[column];
        let fits = |t: &&Term| {
            t.field == Field::Position(column.position) && wanted(t.op) && compares_alike(self.question.def, column, t)
        };
        self.question.terms.iter().filter(fits).min_by_key(|t| t.list)
    }

    fn take_equalities(&mut self) {
        for column in 0..self.index.columns.len() {
            let Some(term) = self.term(column, |op| matches!(op, Op::Equal | Op::Is | Op::IsNull)) else { return };
            let argument = (term.op != Op::IsNull).then(|| self.argument(term));
            self.lists += i32::from(term.list);
            // IS also finds NULL, and SQLite may pass a row's NULL; it checks again.
            self.exact &= term.op == Op::Equal;
            let slot = slot(term, argument);
            self.equal.push(slot);
            let literal = if term.op == Op::IsNull { Some(Datum::Null) } else { term.literal.clone() };
            self.prefix = self.extended(column, literal.filter(|_| !term.list).as_ref());
        }
    }

    /// Notes a term as the next argument and tells its number.
    fn argument(&mut self, term: &Term) -> u8 {
        self.arguments.push(term.number);
        if let Field::Position(position) = term.field {
            let storage = self.question.def.stored[usize::from(position)].storage;
            self.exact &= !matches!(storage, Storage::Text | Storage::Any);
        }
        (self.arguments.len() - 1) as u8
    }

    /// The prefix with one more column, if that is a literal.
    fn extended(&self, column: usize, literal: Option<&Datum>) -> Option<KeyBuf> {
        let mut prefix = self.prefix.clone()?;
        put_column(literal?.as_ref(), &self.index.columns[column], &mut prefix);
        Some(prefix)
    }

    /// All columns have their value.
    fn keys(&mut self) -> Choice {
        let nulls = self.equal.iter().any(|s| s.null_equals);
        // A text key compared with a column of another table may equal several rows ('5' and '05' for the number 5).
        let ambiguous = |s: &Slot, column: usize| {
            let position = usize::from(self.index.columns[column].position);
            matches!(self.question.def.stored[position].storage, Storage::Text | Storage::Any)
                && !s.sure
                && !self.question.terms.iter().any(|t| Some(t.number) == self.number(s) && t.parameter)
        };
        let ambiguous = self.equal.iter().enumerate().any(|(column, s)| ambiguous(s, column));
        let unique = self.index.unique && !nulls;
        let single = unique && self.lists == 0 && !ambiguous;
        let questions = LIST_LENGTH.powi(self.lists);
        let each = if unique { 1.0 } else { self.entries / self.distinct_of(self.index.columns.len()) };
        let probe = if self.index.method == Method::Hash { PROBE } else { PROBE_ORDERED };
        let fixed =
            |(field, _): &(Field, bool)| self.index.columns.iter().any(|c| *field == Field::Position(c.position));
        Choice {
            plan: Plan::Keys { index: self.index.id, columns: self.equal.clone(), single },
            arguments: self.arguments.clone(),
            exact: self.exact,
            cost: questions * (probe + each * INDEX_ROW),
            rows: (questions * each).max(1.0),
            ordered: single || (self.lists == 0 && self.question.order.iter().all(fixed)),
        }
    }

    fn number(&self, slot: &Slot) -> Option<usize> {
        slot.argument.map(|a| self.arguments[usize::from(a)])
    }

    /// Distinct values of the first `columns` columns.
    fn distinct_of(&self, columns: usize) -> f64 {
        if self.question.is_small() {
            return self.entries / (EQUAL_ROWS / columns as f64).max(1.0);
        }
        let known = self.distinct.get(columns - 1).or(self.distinct.last()).copied().unwrap_or(1);
        known.max(1) as f64
    }

    /// The first columns have their values; the next one may have bounds.
    fn range(&mut self) -> Option<Choice> {
        let next = self.equal.len();
        let low = self.term(next, |op| matches!(op, Op::Greater | Op::GreaterOrEqual)).filter(|t| !t.list);
        let high = self.term(next, |op| matches!(op, Op::Less | Op::LessOrEqual)).filter(|t| !t.list);
        let counted = self.count(low, high);
        let bound = |this: &mut Self, term: Option<&Term>| {
            let term = term?;
            let argument = this.argument(term);
            Some((slot(term, Some(argument)), matches!(term.op, Op::GreaterOrEqual | Op::LessOrEqual)))
        };
        let (low, high) = (bound(self, low), bound(self, high));
        let reverse = self.order_served();
        let whole = next == 0 && low.is_none() && high.is_none();
        if whole && self.index.filter.is_none() && (reverse.is_none() || self.question.order.is_empty()) {
            return None;
        }
        let bounds = i32::from(low.is_some()) + i32::from(high.is_some());
        let prefix = if next == 0 { self.entries } else { self.entries / self.distinct_of(next) };
        let each = counted.unwrap_or(prefix / RANGE_SHARE.powi(bounds));
        let questions = LIST_LENGTH.powi(self.lists);
        let rows = (questions * each).max(1.0);
        let ordered = reverse.is_some() && self.lists == 0;
        let read = match self.question.limit {
            Some(limit) if ordered => rows.min(limit as f64),
            _ => rows,
        };
        Some(Choice {
            plan: Plan::Range {
                index: self.index.id,
                equal: self.equal.clone(),
                low,
                high,
                reverse: ordered && reverse == Some(true),
            },
            arguments: self.arguments.clone(),
            exact: self.exact,
            cost: questions * PROBE_ORDERED + read * INDEX_ROW,
            rows,
            ordered,
        })
    }

    /// How many entries lie in the range, when all its values are literals.
    fn count(&self, low: Option<&Term>, high: Option<&Term>) -> Option<f64> {
        let column = self.equal.len();
        let prefix = self.prefix.as_ref().filter(|_| !self.question.is_small())?;
        let edge = |term: Option<&Term>| match term {
            None => Some(None),
            Some(term) => {
                let key = self.extended(column, term.literal.as_ref())?;
                Some(Some((key, matches!(term.op, Op::GreaterOrEqual | Op::LessOrEqual))))
            }
        };
        let (mut low, high) = (edge(low)?, edge(high)?);
        exclude_null(&mut low, &high, prefix, self.index.columns.get(column));
        let desc = self.index.columns.get(column).is_some_and(|c| c.desc);
        let (from, to) = edges(prefix, &low, &high, desc);
        let count = self.question.source.count(self.question.def.id, self.index.id, from, to);
        count.ok().map(|n| n as f64)
    }

    /// Do the entries come in the wanted order? Then whether backward.
    fn order_served(&self) -> Option<bool> {
        let fixed = &self.index.columns[..self.equal.len()];
        let mut columns = self.index.columns[self.equal.len()..].iter();
        let mut reverse = None;
        for (field, desc) in self.question.order {
            if self.lists == 0 && fixed.iter().any(|c| *field == Field::Position(c.position)) {
                continue;
            }
            let column = columns.next()?;
            let own = self.question.def.column_at(column.position)?.collation == column.collation;
            let backward = *desc != column.desc;
            if *field != Field::Position(column.position) || !own || reverse.is_some_and(|r| r != backward) {
                return None;
            }
            reverse = Some(backward);
        }
        Some(reverse.unwrap_or(false))
    }
}

/// Does a condition compare a column as an index on it does? Numbers and blobs compare alike under any collation.
fn compares_alike(def: &TableDef, column: &IndexColumn, term: &Term) -> bool {
    let storage = def.stored[usize::from(column.position)].storage;
    matches!(storage, Storage::Int | Storage::Real | Storage::Blob) || column.collation == term.collation
}

/// A bound of a range: the prefix and the column's value as bytes, and whether they belong to the range.
pub type Bound = Option<(KeyBuf, bool)>;

/// NULL, the smallest value, satisfies no comparison: a range with an upper bound alone begins after it.
pub fn exclude_null(low: &mut Bound, high: &Bound, prefix: &[u8], column: Option<&IndexColumn>) {
    if let (None, Some(_), Some(column)) = (&low, high, column) {
        let mut key = KeyBuf::from_slice(prefix);
        put_column(DatumRef::Null, column, &mut key);
        *low = Some((key, false));
    }
}

/// The edges of a range: a prefix, and bounds (with the prefix in front) on the column after it.
pub fn edges<'a>(prefix: &'a [u8], low: &'a Bound, high: &'a Bound, desc: bool) -> (Edge<'a>, Edge<'a>) {
    let around = |after: bool| match (prefix.is_empty(), after) {
        (true, _) => Edge::Open,
        (false, false) => Edge::Before(prefix),
        (false, true) => Edge::After(prefix),
    };
    let start = |bound: &'a Bound| match bound {
        None => around(false),
        Some((key, true)) => Edge::Before(key),
        Some((key, false)) => Edge::After(key),
    };
    let end = |bound: &'a Bound| match bound {
        None => around(true),
        Some((key, true)) => Edge::After(key),
        Some((key, false)) => Edge::Before(key),
    };
    if desc { (start(high), end(low)) } else { (start(low), end(high)) }
}
