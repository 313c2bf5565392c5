//! The access path through one index: which conditions it answers, in which order its rows come, and what that costs.

use super::choose::{EQUAL_ROWS, INDEX_ENTRY, INDEX_ROW, LIST_LENGTH, PROBE, PROBE_ORDERED, RANGE_SHARE, slot};
use super::edges::{edges, exclude_null};
use super::{Choice, Field, Grouping, Limit, LimitKind, Op, Plan, Question, RowTerm, Slot, Term, Walk};
use crate::engine::IndexStatistics;
use crate::table::catalog::{IndexColumn, IndexDef, Method, TableDef};
use crate::table::datum::Datum;
use crate::table::key::{KeyBuf, is_reversible, put_column};
use crate::table::types::{Collation, Storage};
use smallvec::SmallVec;

/// A jump to the next distinct value pays when it passes over so many entries.
const JUMP_LEAST: f64 = 8.0;

/// Builds the access path through one index.
pub struct IndexPlanner<'a> {
    question: &'a Question<'a>,
    index: &'a IndexDef,
    entries: f64,
    distinct: &'a [u64],
    arguments: SmallVec<[usize; 4]>,
    hints: SmallVec<[usize; 4]>,
    equal: SmallVec<[Slot; 4]>,
    /// The fields whose conditions the path answers.
    fields: SmallVec<[Field; 4]>,
    /// Terms with a list are among the equal ones, so rows come in several runs.
    lists: i32,
    /// No values of a kind whose comparison only SQLite can judge are among the arguments.
    exact: bool,
    /// The encoded values, as long as all are literals.
    prefix: Option<KeyBuf>,
}

/// The bounds of a range.
#[derive(Default)]
struct Limits<'a> {
    low: Option<&'a Term>,
    high: Option<&'a Term>,
    row: Option<(&'a RowTerm, u8)>,
    pattern: Option<&'a Term>,
    not_null: bool,
}

impl<'a> IndexPlanner<'a> {
    /// For an index with these numbers of entries and of distinct values.
    pub fn new(question: &'a Question<'a>, index: &'a IndexDef, statistics: &'a IndexStatistics) -> Self {
        // That a row is in a partial index answers the index's own condition.
        let entries = if index.filter.is_none() { question.count() } else { statistics.entries.max(1) as f64 };
        IndexPlanner {
            question,
            index,
            entries,
            distinct: &statistics.distinct,
            arguments: SmallVec::new(),
            hints: SmallVec::new(),
            equal: SmallVec::new(),
            fields: index.filter.map(Field::Position).into_iter().collect(),
            lists: 0,
            exact: true,
            prefix: Some(KeyBuf::new()),
        }
    }

    /// The path, if the index is of use.
    pub fn plan(mut self) -> Option<Choice> {
        self.take_equalities();
        let whole = self.equal.len() == self.index.columns.len();
        match self.index.method {
            Method::Ordered if whole && !self.index.unique && self.is_covering() => self.range(),
            _ if whole => Some(self.keys()),
            Method::Hash => None,
            Method::Ordered => self.range(),
        }
    }

    /// The condition on a column of the index that `wanted` accepts. Equalities with one value come before lists.
    fn term(&self, column: usize, wanted: impl Fn(Op) -> bool) -> Option<&'a Term> {
        let column = self.index.columns.get(column)?;
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
            self.fields.push(term.field);
            self.equal.push(slot(term, argument));
            let literal = if term.op == Op::IsNull { Some(Datum::Null) } else { term.literal.clone() };
            self.prefix = self.extended(column, literal.filter(|_| !term.list).as_ref());
        }
    }

    /// Notes a term as the next argument and tells its number.
    fn argument(&mut self, term: &Term) -> u8 {
        if let Field::Position(position) = term.field {
            let storage = self.question.def.stored[usize::from(position)].storage;
            let is_text = term.sure && matches!(term.literal, Some(Datum::Text(_)));
            self.exact &= match storage {
                Storage::Text => is_text,
                Storage::Any => false,
                _ => true,
            };
        }
        self.take(term.number)
    }

    fn take(&mut self, number: usize) -> u8 {
        self.arguments.push(number);
        (self.arguments.len() - 1) as u8
    }

    /// The prefix with one more column, if that is a literal.
    fn extended(&self, column: usize, literal: Option<&Datum>) -> Option<KeyBuf> {
        let mut prefix = self.prefix.clone()?;
        put_column(literal?.as_ref(), &self.index.columns[column], &mut prefix);
        Some(prefix)
    }

    /// Has the index all columns that the statement reads, in a form from which they can be had back?
    fn is_covering(&self) -> bool {
        let has = |position: &u16| {
            let storage = self.question.def.stored[usize::from(*position)].storage;
            self.index.columns.iter().any(|c| c.position == *position && is_reversible(c, storage))
        };
        self.question.reads.is_some_and(|reads| reads.iter().all(has))
    }

    /// All columns have their value.
    fn keys(&mut self) -> Choice {
        let nulls = self.equal.iter().any(|s| s.null_equals);
        let ambiguous = self.equal.iter().enumerate().any(|(column, s)| self.is_ambiguous(column, s));
        let unique = self.index.unique && !nulls;
        let single = unique && self.lists == 0 && !ambiguous;
        let questions = LIST_LENGTH.powi(self.lists);
        let each = if unique {
            1.0
        } else {
            self.counted(&Limits::default()).unwrap_or(self.entries / self.distinct_of(self.index.columns.len()))
        };
        let probe = if self.index.method == Method::Hash { PROBE } else { PROBE_ORDERED };
        let reverse = if self.index.method == Method::Ordered { self.order_served() } else { self.order_fixed() };
        Choice {
            plan: Plan::Keys {
                index: self.index.id,
                columns: self.equal.clone(),
                single,
                reverse: reverse == Some(true) && self.lists > 0,
            },
            arguments: self.arguments.clone(),
            exact: self.exact,
            hints: SmallVec::new(),
            cost: questions * (probe + each * INDEX_ROW),
            rows: (questions * each * self.question.residue(&self.fields)).max(1.0),
            ordered: single || reverse.is_some(),
        }
    }

    /// A text key compared with a column of another table may equal several rows ('5' and '05' for the number 5).
    fn is_ambiguous(&self, column: usize, slot: &Slot) -> bool {
        let position = usize::from(self.index.columns[column].position);
        let number = slot.argument.map(|a| self.arguments[usize::from(a)]);
        matches!(self.question.def.stored[position].storage, Storage::Text | Storage::Any)
            && !slot.sure
            && !self.question.terms.iter().any(|t| Some(t.number) == number && t.parameter)
    }

    /// Distinct values of the first `columns` columns.
    fn distinct_of(&self, columns: usize) -> f64 {
        if self.question.is_small() {
            return self.entries / (EQUAL_ROWS / columns as f64).max(1.0);
        }
        let known = self.distinct.get(columns - 1).or(self.distinct.last()).copied().unwrap_or(1);
        known.max(1) as f64
    }

    /// What bounds the columns after those that have their value.
    fn limits(&self) -> Limits<'a> {
        let next = self.equal.len();
        let low = self.term(next, Op::is_low).filter(|t| !t.list);
        let high = self.term(next, Op::is_high).filter(|t| !t.list);
        let row = self.question.rows.iter().find_map(|row| Some((row, self.columns_of(row)?)));
        let bare = low.is_none() && high.is_none();
        let pattern = if bare { self.pattern(next) } else { None };
        let not_null = bare && pattern.is_none() && self.term(next, |op| op == Op::NotNull).is_some();
        Limits { low, high, row, pattern, not_null }
    }

    /// How many of a row's columns are the next ones of the index, in one direction; None if fewer than two.
    fn columns_of(&self, row: &RowTerm) -> Option<u8> {
        let next = &self.index.columns[self.equal.len()..];
        let fits = |(column, position): &(&IndexColumn, &u16)| {
            column.position == **position && column.desc == next[0].desc && is_own(self.question.def, column)
        };
        let count = next.iter().zip(&row.positions).take_while(fits).count();
        (count >= 2).then_some(count as u8)
    }

    /// LIKE finds its first letters in an index that does not tell upper from lower case, GLOB in any.
    fn pattern(&self, next: usize) -> Option<&'a Term> {
        let column = self.index.columns.get(next)?;
        let is_text = self.question.def.stored[usize::from(column.position)].storage == Storage::Text;
        let fits = |t: &&Term| {
            let folds = column.collation == Collation::NoCase;
            let collates = t.op == Op::Glob && (folds || column.collation == Collation::Binary);
            t.field == Field::Position(column.position) && (collates || t.op == Op::Like && folds)
        };
        self.question.terms.iter().find(fits).filter(|_| is_text)
    }

    /// The first columns have their values; the next ones may have bounds.
    fn range(&mut self) -> Option<Choice> {
        let limits = self.limits();
        let counted = self.counted(&limits);
        let reverse = self.order_served();
        let bounds = i32::from(limits.low.is_some() || limits.row.is_some_and(|(row, _)| row.op.is_low()))
            + i32::from(limits.high.is_some() || limits.row.is_some_and(|(row, _)| row.op.is_high()))
            + 2 * i32::from(limits.pattern.is_some());
        let ordered = reverse.is_some();
        let useful = self.index.filter.is_some() || bounds > 0 || !self.equal.is_empty() || limits.not_null;
        if !useful && (!ordered || self.question.order.is_empty()) {
            return None;
        }
        let next = self.equal.len();
        let prefix = if next == 0 { self.entries } else { self.entries / self.distinct_of(next) };
        let each = counted.unwrap_or(prefix / RANGE_SHARE.powi(bounds));
        let questions = LIST_LENGTH.powi(self.lists);
        let rows = (questions * each).max(1.0);
        let (low, high) = self.take_limits(&limits);
        let residue = self.question.residue(&self.fields);
        let mut walk =
            Walk { reverse: ordered && reverse == Some(true), index_only: self.is_covering(), ..Walk::default() };
        let mut read = match self.question.limit {
            // So many rows are read until enough of them satisfy the other conditions.
            Some(limit) if ordered => rows.min(limit as f64 / residue),
            _ => rows,
        };
        let mut row_cost = if walk.index_only { INDEX_ENTRY } else { INDEX_ROW };
        let mut found = (rows * residue).max(1.0);
        if let (true, Some((columns, groups))) = (walk.index_only && ordered, self.groups(next, rows)) {
            (walk.distinct, read, row_cost, found) = (columns, groups, 2.0 * PROBE_ORDERED, groups);
        }
        // What jumps from one distinct value to the next cannot be counted.
        if let (true, Some(offset)) = (ordered && walk.distinct == 0 && self.is_all_answered(), self.question.offset) {
            walk.offset = Some(self.take(offset));
        }
        Some(Choice {
            plan: Plan::Range { index: self.index.id, equal: self.equal.clone(), low, high, walk },
            arguments: self.arguments.clone(),
            exact: self.exact,
            hints: self.hints.clone(),
            cost: questions * PROBE_ORDERED + read * row_cost,
            rows: found,
            ordered,
        })
    }

    /// Makes arguments of what bounds the range.
    fn take_limits(&mut self, limits: &Limits<'a>) -> (Option<Limit>, Option<Limit>) {
        let row = limits.row.map(|(row, columns)| {
            let first = self.take(row.numbers[0]);
            row.numbers[1..].iter().for_each(|number| {
                self.take(*number);
            });
            self.hints.extend_from_slice(&row.numbers);
            self.fields.push(Field::Position(row.positions[0]));
            let slot = Slot { argument: Some(first), list: false, null_equals: false, sure: true };
            let limit = Limit { slot, inclusive: row.op.is_inclusive(), kind: LimitKind::Row(columns) };
            (row.op.is_low(), limit)
        });
        if let Some(term) = limits.pattern {
            let kind = if term.op == Op::Like { LimitKind::Like } else { LimitKind::Glob };
            self.exact = false;
            self.fields.push(term.field);
            let slot = slot(term, Some(self.take(term.number)));
            let limit = Some(Limit { slot, inclusive: true, kind });
            return (limit, limit);
        }
        if limits.not_null {
            let slot = Slot { argument: None, list: false, null_equals: true, sure: true };
            return (Some(Limit { slot, inclusive: false, kind: LimitKind::NotNull }), None);
        }
        let mut one = |term: Option<&Term>, low: bool| match row {
            Some((is_low, limit)) if is_low == low => Some(limit),
            _ => term.map(|term| {
                let argument = self.argument(term);
                if !self.fields.contains(&term.field) {
                    self.fields.push(term.field);
                }
                Limit { slot: slot(term, Some(argument)), inclusive: term.op.is_inclusive(), kind: LimitKind::Value }
            }),
        };
        (one(limits.low, true), one(limits.high, false))
    }

    /// Does the path answer every condition, so that SQLite drops no row of it?
    fn is_all_answered(&self) -> bool {
        let answered = |term: &Term| self.arguments.contains(&term.number);
        let complete = self.question.complete && self.question.rows.is_empty();
        complete && self.exact && self.lists == 0 && self.question.terms.iter().all(answered)
    }

    /// When one row of each group is enough, and jumping from one to the next pays: the columns that tell the groups
    /// apart, and how many groups there are. Rows that differ in a column that the statement reads are different ones.
    fn groups(&self, fixed: usize, rows: f64) -> Option<(u8, f64)> {
        let wanted = matches!(self.question.grouping, Grouping::Distinct | Grouping::DistinctOrder);
        if !wanted || self.lists > 0 || self.question.is_small() {
            return None;
        }
        let reads = self.question.reads?;
        let columns = self.index.columns.iter().rposition(|c| reads.contains(&c.position)).map_or(0, |last| last + 1);
        if columns <= fixed || columns == self.index.columns.len() && self.index.unique {
            return None;
        }
        let before = if fixed == 0 { 1.0 } else { self.distinct_of(fixed) };
        let groups = (self.distinct_of(columns) / before).max(1.0);
        (groups * JUMP_LEAST < rows).then_some((columns as u8, groups))
    }

    /// How many entries lie in the range, when all its values are literals.
    fn counted(&self, limits: &Limits<'_>) -> Option<f64> {
        if self.index.method != Method::Ordered || limits.row.is_some() || limits.pattern.is_some() {
            return None;
        }
        let column = self.equal.len();
        let prefix = self.prefix.as_ref().filter(|_| !self.question.is_small())?;
        let edge = |term: Option<&Term>| match term {
            None => Some(None),
            Some(term) => {
                let key = self.extended(column, term.literal.as_ref())?;
                Some(Some((key, term.op.is_inclusive())))
            }
        };
        let (mut low, high) = (edge(limits.low)?, edge(limits.high)?);
        let next = self.index.columns.get(column);
        if let (true, Some(next)) = (limits.not_null, next) {
            let mut key = prefix.clone();
            put_column(crate::table::datum::DatumRef::Null, next, &mut key);
            low = Some((key, false));
        }
        exclude_null(&mut low, &high, prefix, next);
        let (from, to) = edges(prefix, &low, &high, next.is_some_and(|c| c.desc));
        let count = self.question.source.count(self.question.def.id, self.index.id, from, to);
        count.ok().map(|n| n as f64)
    }

    /// Of an index without order: is every wanted field one with a single value? The answer never is "backward".
    fn order_fixed(&self) -> Option<bool> {
        let fixed =
            |(field, _): &(Field, bool)| self.index.columns.iter().any(|c| *field == Field::Position(c.position));
        (self.lists == 0 && self.question.order.iter().all(fixed)).then_some(false)
    }

    /// Do the entries come in the wanted order? Then whether backward.
    fn order_served(&self) -> Option<bool> {
        if matches!(self.question.grouping, Grouping::Group | Grouping::Distinct) && self.groups_served() {
            return Some(false);
        }
        // The values of a list are looked up in the order of their keys: a column with a list is one to order by, while
        // one with a single value need not be.
        let fixed = self.equal.iter().take_while(|slot| !slot.list).count();
        let mut columns = self.index.columns[fixed..].iter();
        let mut reverse = None;
        for (field, desc) in self.question.order {
            if self.index.columns[..fixed].iter().any(|c| *field == Field::Position(c.position)) {
                continue;
            }
            let column = columns.next()?;
            let backward = *desc != column.desc;
            let own = is_own(self.question.def, column);
            if *field != Field::Position(column.position) || !own || reverse.is_some_and(|r| r != backward) {
                return None;
            }
            reverse = Some(backward);
        }
        // Rows of several runs come in order only if the columns with lists are all among those to order by.
        let used = self.index.columns.len() - columns.len();
        let runs_in_order = self.question.order.is_empty() || self.equal.iter().skip(used).all(|slot| !slot.list);
        runs_in_order.then_some(reverse.unwrap_or(false))
    }

    /// For groups, any order of the columns will do, as long as they are the next ones of the index.
    fn groups_served(&self) -> bool {
        let wanted = |position: u16| self.question.order.iter().any(|(f, _)| *f == Field::Position(position));
        let fixed = &self.index.columns[..self.equal.len()];
        let is_fixed = |f: &Field| fixed.iter().any(|c| *f == Field::Position(c.position));
        let rest = self.question.order.iter().filter(|(f, _)| !is_fixed(f)).count();
        let next = self.index.columns[self.equal.len()..].iter();
        let served = next.take_while(|c| wanted(c.position) && is_own(self.question.def, c)).count();
        self.lists == 0 && rest > 0 && served >= rest
    }
}

/// Does the index order a column as the column's own comparisons do?
fn is_own(def: &TableDef, column: &IndexColumn) -> bool {
    def.column_at(column.position).is_some_and(|c| c.collation == column.collation)
}

/// Does a condition compare a column as an index on it does? Numbers and blobs compare alike under any collation.
fn compares_alike(def: &TableDef, column: &IndexColumn, term: &Term) -> bool {
    let storage = def.stored[usize::from(column.position)].storage;
    matches!(storage, Storage::Int | Storage::Real | Storage::Blob) || column.collation == term.collation
}
