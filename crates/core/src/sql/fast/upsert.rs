//! The commonest upserts: a row of literals and parameters, and on the conflict of one unique key columns set to values,
//! columns, or the sum or difference of two of these.

use super::read::{Reader, Value};
use super::write::Insert;
use crate::error::{Code, Error};
use crate::sql::dml::upsert::Upserting;
use crate::sql::run::{Failure, Outcome, Run};
use crate::sql::table_info::TableInfo;
use crate::sql::write::{self, OnConflict, Set};
use crate::table::catalog::{IndexDef, IndexId};
use crate::table::datum::{Datum, DatumRef};
use crate::table::row::Row;
use crate::table::row_id::RowId;
use smallvec::SmallVec;

/// ON CONFLICT (key) DO .. or ON DUPLICATE KEY UPDATE.
pub struct Upsert {
    /// The unique index whose conflict is meant.
    index: IndexId,
    /// What to set; empty does nothing.
    sets: Vec<(usize, Sum)>,
}

/// `term`, `term + term` or `term - term`
struct Sum {
    left: Term,
    right: Option<(bool, Term)>,
}

enum Term {
    /// A literal or a parameter.
    Value(Value),
    /// The column at this position of the row that is there.
    Existing(u16),
    /// The column at this position of the row that could not be inserted.
    Proposed(u16),
}

/// A planned upsert that runs.
pub struct Planned<'a> {
    plan: &'a Upsert,
    params: &'a [DatumRef<'a>],
    /// Only SQLite can judge; nothing was done.
    pub gave_up: bool,
}

impl Upsert {
    /// Reads the clauses after the values; None: SQLite must run the statement.
    pub fn read(reader: &mut Reader<'_>, insert: &Insert) -> Option<Upsert> {
        let info = insert.info();
        reader.word("ON")?;
        if reader.word("DUPLICATE").is_some() {
            reader.word("KEY")?;
            reader.word("UPDATE")?;
            // With several unique keys it is the order of conflicts that decides.
            let mut unique = info.def.indexes.iter().filter(|index| index.unique);
            let index = unique.next().filter(|index| index.filter.is_none())?;
            unique.next().is_none().then_some(())?;
            let sets = assignments(reader, info, true)?;
            return Some(Upsert { index: index.id, sets });
        }
        reader.word("CONFLICT")?;
        let index = target(reader, info)?;
        reader.word("DO")?;
        let sets = match reader.word("NOTHING") {
            Some(()) => Vec::new(),
            None => {
                reader.word("UPDATE")?;
                reader.word("SET")?;
                assignments(reader, info, false)?
            }
        };
        Some(Upsert { index, sets })
    }

    /// The upsert as a run needs it.
    pub fn start<'a>(&'a self, params: &'a [DatumRef<'a>]) -> Upserting<'a> {
        Upserting::Planned(Planned { plan: self, params, gave_up: false })
    }
}

/// `(column, ...)`: the one unique index on just these.
fn target(reader: &mut Reader<'_>, info: &TableInfo) -> Option<IndexId> {
    reader.symbol("(")?;
    let mut positions: SmallVec<[u16; 4]> = SmallVec::new();
    loop {
        positions.push(info.def.columns[reader.column(info, None)?].position);
        if reader.symbol(",").is_none() {
            break;
        }
    }
    reader.symbol(")")?;
    let fits = |index: &&IndexDef| {
        index.unique
            && index.columns.len() == positions.len()
            && positions.iter().all(|position| index.columns.iter().any(|c| c.position == *position))
    };
    let mut found = info.def.indexes.iter().filter(fits);
    let index = found.next().filter(|index| index.filter.is_none())?;
    found.next().is_none().then_some(index.id)
}

fn assignments(reader: &mut Reader<'_>, info: &TableInfo, mysql: bool) -> Option<Vec<(usize, Sum)>> {
    let mut sets: Vec<(usize, Sum)> = Vec::new();
    loop {
        let column = reader.column(info, None)?;
        if sets.iter().any(|(known, _)| *known == column) || info.def.columns[column].generated.is_some() {
            return None;
        }
        reader.symbol("=")?;
        let left = term(reader, info, mysql)?;
        let minus = reader.symbol("-").is_some();
        let right =
            if minus || reader.symbol("+").is_some() { Some((minus, term(reader, info, mysql)?)) } else { None };
        sets.push((column, Sum { left, right }));
        if reader.symbol(",").is_none() {
            return Some(sets);
        }
    }
}

fn term(reader: &mut Reader<'_>, info: &TableInfo, mysql: bool) -> Option<Term> {
    let position = |column: usize| info.def.columns[column].position;
    if mysql && reader.word("VALUES").is_some() {
        reader.symbol("(")?;
        let column = reader.column(info, None)?;
        reader.symbol(")")?;
        return Some(Term::Proposed(position(column)));
    }
    if reader.word("excluded").is_some() {
        reader.symbol(".")?;
        return Some(Term::Proposed(position(reader.column(info, None)?)));
    }
    match reader.value() {
        Some(value) => Some(Term::Value(value)),
        None => Some(Term::Existing(position(reader.column(info, None)?))),
    }
}

impl Planned<'_> {
    /// Does what the plan says about a row that was not inserted. An error after giving up says nothing.
    pub fn resolve(
        &mut self,
        run: &mut Run<'_>,
        info: &TableInfo,
        proposed: Row<'_>,
        (index, existing): (IndexId, RowId),
    ) -> Outcome<bool> {
        if index != self.plan.index {
            return self.give_up();
        }
        if self.plan.sets.is_empty() {
            return Ok(true);
        }
        let mut values: SmallVec<[Option<Datum>; 4]> = SmallVec::new();
        let (plan, params) = (self.plan, self.params);
        run.host.source().rows(info.def.id, &[existing], &mut |_, row| {
            values = plan.sets.iter().map(|(_, sum)| sum.value(params, row, proposed)).collect();
        })?;
        if values.len() < plan.sets.len() || values.iter().any(Option::is_none) {
            return self.give_up();
        }
        let values = plan.sets.iter().zip(values.iter().flatten());
        let mut sets: SmallVec<[Set<'_>; 4]> = values.map(|((column, _), value)| (*column, value.as_ref())).collect();
        sets.sort_by_key(|(column, _)| *column);
        write::update(run, info, existing, &sets, OnConflict::Abort).map(|_| true)
    }

    #[cold]
    fn give_up(&mut self) -> Outcome<bool> {
        self.gave_up = true;
        Err(Failure::from(Error::new(Code::Bug, "fast/upsert.rs: nobody runs this upsert")))
    }
}

impl Sum {
    /// None: only SQLite can judge.
    fn value(&self, params: &[DatumRef<'_>], existing: Row<'_>, proposed: Row<'_>) -> Option<Datum> {
        let of = |term: &Term| match term {
            Term::Value(value) => value.get(params).to_owned(),
            Term::Existing(position) => existing.get(*position).to_owned(),
            Term::Proposed(position) => proposed.get(*position).to_owned(),
        };
        let left = of(&self.left);
        let Some((minus, right)) = &self.right else { return Some(left) };
        match (left, of(right)) {
            (Datum::Null, Datum::Null | Datum::Int(_) | Datum::Real(_)) => Some(Datum::Null),
            (Datum::Int(_) | Datum::Real(_), Datum::Null) => Some(Datum::Null),
            (Datum::Int(a), Datum::Int(b)) => {
                // SQLite makes a double of what is too large.
                if *minus { a.checked_sub(b) } else { a.checked_add(b) }.map(Datum::Int)
            }
            (a, b) => {
                let (a, b) = (real(&a)?, real(&b)?);
                Some(if *minus { a - b } else { a + b }).filter(|sum| !sum.is_nan()).map(Datum::Real)
            }
        }
    }
}

fn real(value: &Datum) -> Option<f64> {
    match value {
        Datum::Int(i) => Some(*i as f64),
        Datum::Real(r) => Some(*r),
        _ => None,
    }
}
