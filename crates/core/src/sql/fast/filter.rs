//! Conditions that are tested row by row, where no index answers them.

use super::read::{Condition, Value};
use super::tables::Lying;
use crate::sql::table_info::TableInfo;
use crate::sql::vtab::plan::Op;
use crate::table::catalog::IndexColumn;
use crate::table::datum::{Datum, DatumRef};
use crate::table::key::{KeyBuf, put_column};
use crate::table::types::{self, Collation, Storage};
use smallvec::SmallVec;
use std::cmp::Ordering;

/// A condition on a column.
pub struct Filter {
    column: IndexColumn,
    storage: Storage,
    op: Op,
    values: SmallVec<[Value; 1]>,
    list: bool,
}

/// The same, given the parameters.
pub struct Test {
    column: IndexColumn,
    op: Op,
    values: SmallVec<[Datum; 1]>,
}

impl Filter {
    /// The filter for a condition.
    pub fn new(info: &TableInfo, condition: &Condition) -> Filter {
        let def = &info.def.columns[condition.column];
        Filter {
            column: IndexColumn { position: def.position, desc: false, collation: def.collation },
            storage: info.def.stored[usize::from(def.position)].storage,
            op: condition.op,
            values: condition.values.clone(),
            list: condition.list,
        }
    }

    /// About which part of the rows passes.
    pub fn selectivity(&self) -> f64 {
        match (self.op, self.list) {
            (Op::Equal, false) => 0.05,
            (Op::Equal, true) => 0.2,
            (Op::NotNull, _) => 0.9,
            (Op::IsNull, _) => 0.1,
            _ => 0.4,
        }
    }

    /// The position of its column.
    pub fn position(&self) -> u16 {
        self.column.position
    }

    /// The test that rows are to pass. None: only SQLite can judge.
    fn bind(&self, params: &[DatumRef<'_>]) -> Option<Test> {
        let mut values = SmallVec::new();
        for value in &self.values {
            match (self.storage, value.get(params)) {
                // Nothing equals NULL, nor is it above or below it.
                (_, DatumRef::Null) => {}
                (Storage::Int | Storage::Real, DatumRef::Text(text)) => {
                    values.push(types::number(text).unwrap_or(DatumRef::Text(text)).to_owned());
                }
                (Storage::Text, DatumRef::Int(i)) => values.push(Datum::text(i.to_string())),
                // SQLite's text of a double is its own.
                (Storage::Text, DatumRef::Real(_)) => return None,
                (_, value) => values.push(value.to_owned()),
            }
        }
        Some(Test { column: self.column, op: self.op, values })
    }
}

/// The tests for filters. None: only SQLite can judge.
pub fn bind(filters: &[Filter], params: &[DatumRef<'_>]) -> Option<Vec<Test>> {
    filters.iter().map(|filter| filter.bind(params)).collect()
}

impl Test {
    /// Does a row pass that is not there, in a LEFT JOIN?
    pub fn passes_null(&self) -> bool {
        self.op == Op::IsNull
    }

    /// Does the row pass?
    #[inline]
    pub fn passes(&self, row: &Lying<'_>) -> bool {
        let value = row.get(self.column.position);
        let mut orders = self.values.iter().map(|other| order(value, other.as_ref(), &self.column));
        match self.op {
            Op::IsNull => return value.is_null(),
            _ if value.is_null() => return false,
            Op::NotNull => return true,
            _ => {}
        }
        orders.any(|order| match self.op {
            Op::Equal => order == Ordering::Equal,
            Op::Less => order == Ordering::Less,
            Op::LessOrEqual => order != Ordering::Greater,
            Op::Greater => order == Ordering::Greater,
            _ => order != Ordering::Less,
        })
    }
}

/// How two values stand to each other by the collation of a column.
#[inline]
pub fn order(a: DatumRef<'_>, b: DatumRef<'_>, column: &IndexColumn) -> Ordering {
    if column.collation == Collation::Binary { a.order(b) } else { order_by_key(a, b, column) }
}

#[inline(never)]
fn order_by_key(a: DatumRef<'_>, b: DatumRef<'_>, column: &IndexColumn) -> Ordering {
    let [mut left, mut right] = [KeyBuf::new(), KeyBuf::new()];
    put_column(a, column, &mut left);
    put_column(b, column, &mut right);
    left.cmp(&right)
}
