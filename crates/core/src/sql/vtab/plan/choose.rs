//! Weighs the access paths of a table against each other.

use super::index::IndexPlanner;
use super::{Choice, Field, Op, Plan, Question, Slot, Term};
use crate::table::catalog::{IndexDef, TableDef};
use crate::table::datum::Datum;
use smallvec::SmallVec;

/// A table with fewer rows is planned as if it had so many: it is likely to grow, and its plans stay in the cache.
const ROWS_LEAST: u64 = 1000;
/// Rows that a value of an index's first column is taken to have in a small table.
pub const EQUAL_ROWS: f64 = 10.0;
/// What a condition without an index or statistics lets through, and what a list is taken to hold.
pub const EQUAL_SHARE: f64 = 10.0;
pub const RANGE_SHARE: f64 = 4.0;
pub const LIST_LENGTH: f64 = 8.0;
/// Costs: finding a key, and reading a row through an index or its entry alone, in rows of a scan.
pub const PROBE: f64 = 2.0;
pub const PROBE_ORDERED: f64 = 4.0;
pub const INDEX_ROW: f64 = 1.5;
pub const INDEX_ENTRY: f64 = 0.8;

impl Question<'_> {
    pub(super) fn is_small(&self) -> bool {
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
    pub(super) fn count(&self) -> f64 {
        self.statistics.rows.max(ROWS_LEAST) as f64
    }

    /// The share of rows that the conditions on the fields let through which no path of `used` fields has answered.
    pub(super) fn residue(&self, used: &[Field]) -> f64 {
        let mut share = 1.0;
        for (i, term) in self.terms.iter().enumerate() {
            let first = !self.terms[..i].iter().any(|t| t.field == term.field);
            if first && !used.contains(&term.field) {
                share *= self.share_of(term.field);
            }
        }
        share
    }

    /// The share of rows that the conditions on one field let through together.
    fn share_of(&self, field: Field) -> f64 {
        let on = |op: fn(Op) -> bool| self.terms.iter().filter(move |t| t.field == field && op(t.op));
        let equal = |term: &Term| {
            let lists = if term.list { LIST_LENGTH } else { 1.0 };
            (lists / self.distinct_in(field)).min(1.0)
        };
        let equals = on(|op| matches!(op, Op::Equal | Op::Is | Op::IsNull)).map(equal).fold(1.0, f64::min);
        if equals < 1.0 {
            return equals;
        }
        let bounds = [on(Op::is_low).next().is_some(), on(Op::is_high).next().is_some()];
        RANGE_SHARE.powi(-bounds.map(i32::from).iter().sum::<i32>())
    }

    /// Distinct values of a field, as far as an index tells.
    fn distinct_in(&self, field: Field) -> f64 {
        let Field::Position(position) = field else { return self.count() };
        let mut known = EQUAL_SHARE;
        for (index, statistics) in self.def.indexes.iter().zip(&self.statistics.indexes) {
            let leads = index.columns.first().is_some_and(|c| c.position == position) && index.filter.is_none();
            let tells = leads && (statistics.distinct.len() == index.columns.len() || index.columns.len() == 1);
            if tells && index.unique && index.columns.len() == 1 {
                return self.count();
            }
            if let (true, false, Some(distinct)) = (tells, self.is_small(), statistics.distinct.first()) {
                known = (*distinct).max(1) as f64;
            }
        }
        known
    }
}

/// The best access path.
pub fn choose(question: &Question<'_>) -> Choice {
    let rows = question.count();
    let all = Choice {
        plan: Plan::All,
        arguments: SmallVec::new(),
        exact: false,
        hints: SmallVec::new(),
        cost: rows + PROBE,
        rows: (rows * question.residue(&[])).max(1.0),
        ordered: question.order.is_empty(),
    };
    let mut candidates: SmallVec<[Choice; 8]> = SmallVec::new();
    candidates.extend(by_row_id(question));
    for (index, statistics) in question.def.indexes.iter().zip(&question.statistics.indexes) {
        if question.may_use(index) {
            candidates.extend(IndexPlanner::new(question, index, statistics).plan());
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
        hints: SmallVec::new(),
        cost: count * PROBE,
        rows: count,
        ordered: question.order.is_empty() || !term.list,
    })
}

/// An equality on a column without an index.
fn by_scan_or_hash(question: &Question<'_>) -> Option<Choice> {
    let rows = question.count();
    let fits = |t: &&Term| t.op == Op::Equal && !t.list && t.literal.is_none() && collates(question.def, t);
    let term = question.terms.iter().find(fits)?;
    let Field::Position(position) = term.field else { return None };
    let found = (rows * question.share_of(term.field)).max(1.0);
    // A parameter asks once; then this is a scan, and it must not look cheaper than one. A column of another table asks
    // again and again: then the table is scanned once, whatever the number of questions.
    let cost = if term.parameter { rows } else { PROBE + found };
    Some(Choice {
        plan: Plan::Equal { position, value: slot(term, Some(0)) },
        arguments: SmallVec::from_slice(&[term.number]),
        exact: false,
        hints: SmallVec::new(),
        cost,
        rows: (found * question.residue(&[term.field])).max(1.0),
        ordered: question.order.is_empty(),
    })
}

pub fn slot(term: &Term, argument: Option<u8>) -> Slot {
    Slot { argument, list: term.list, null_equals: matches!(term.op, Op::Is | Op::IsNull), sure: term.sure }
}

/// Does the condition compare as the column's own values do?
fn collates(def: &TableDef, term: &Term) -> bool {
    match term.field {
        Field::RowId => false,
        Field::Position(position) => def.column_at(position).is_some_and(|c| c.collation == term.collation),
    }
}
