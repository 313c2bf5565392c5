//! Aggregates as SQLite computes them, to the last bit: count, sum, total, avg, min and max of one group.

use super::filter::order;
use super::tables::Field;
use crate::table::catalog::IndexColumn;
use crate::table::datum::{Datum, DatumRef};
use std::cmp::Ordering;

/// An aggregate function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// `count(*)`
    Rows,
    /// `count(column)`
    Count,
    /// `sum(column)`
    Sum,
    /// `total(column)`
    Total,
    /// `avg(column)`
    Average,
    /// `min(column)`
    Min,
    /// `max(column)`
    Max,
}

impl Function {
    /// `min` or `max`.
    pub fn is_end(self) -> bool {
        matches!(self, Function::Min | Function::Max)
    }
}

/// A call of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The function.
    pub function: Function,
    /// The column and how it compares; None for `count(*)`.
    pub of: Option<(Field, IndexColumn)>,
}

/// What a call has come to in one group.
#[derive(Clone, Debug)]
pub enum Accumulator {
    /// Rows counted.
    Count(i64),
    /// Numbers added.
    Sum(Sum),
    /// The least or greatest value so far; NULL at first.
    Best(Datum),
}

/// Numbers added, as SQLite does it: whole ones exactly while they fit, then in doubles with the error carried along
/// (Kahan, Babuska, Neumaier).
#[derive(Clone, Debug, Default)]
pub struct Sum {
    count: i64,
    whole: i64,
    /// From here on in doubles.
    approximate: bool,
    sum: f64,
    error: f64,
}

impl Accumulator {
    /// Nothing was counted yet.
    pub fn new(function: Function) -> Accumulator {
        match function {
            Function::Rows | Function::Count => Accumulator::Count(0),
            Function::Sum | Function::Total | Function::Average => Accumulator::Sum(Sum::default()),
            Function::Min | Function::Max => Accumulator::Best(Datum::Null),
        }
    }

    /// Takes the value of a row, and tells how many bytes of it are kept. None: a sum of integers is too large, which is
    /// for SQLite to tell.
    #[inline(always)]
    pub fn add(&mut self, call: &Call, value: DatumRef<'_>) -> Option<usize> {
        match self {
            Accumulator::Count(count) => *count += i64::from(call.of.is_none() || !value.is_null()),
            Accumulator::Sum(sum) => return (sum.add(value) || call.function != Function::Sum).then_some(0),
            Accumulator::Best(best) => return Some(improve(best, call, value)),
        }
        Some(0)
    }

    /// What it has come to.
    pub fn value(&self, function: Function) -> Datum {
        match self {
            Accumulator::Count(count) => Datum::Int(*count),
            Accumulator::Best(best) => best.clone(),
            Accumulator::Sum(sum) => match function {
                Function::Total => Datum::from(sum.real()),
                _ if sum.count == 0 => Datum::Null,
                Function::Average => Datum::from(sum.real() / sum.count as f64),
                _ if sum.approximate => Datum::from(sum.real()),
                _ => Datum::Int(sum.whole),
            },
        }
    }
}

/// Of values that are equal the first one stays.
#[inline]
fn improve(best: &mut Datum, call: &Call, value: DatumRef<'_>) -> usize {
    let Some((_, column)) = &call.of else { return 0 };
    let wanted = if call.function == Function::Min { Ordering::Less } else { Ordering::Greater };
    let improves = match (&*best, value) {
        (_, DatumRef::Null) => false,
        (Datum::Null, _) => true,
        (best, value) => order(value, best.as_ref(), column) == wanted,
    };
    if !improves {
        return 0;
    }
    *best = value.to_owned();
    value.bytes_len()
}

/// Integers from here on are split in two, each of which a double holds exactly.
const LARGE: i64 = 1 << 52;

impl Sum {
    /// Adds a number, or NULL. False: the whole sum fits no integer.
    #[inline(always)]
    fn add(&mut self, value: DatumRef<'_>) -> bool {
        match value {
            DatumRef::Int(i) if !self.approximate => match self.whole.checked_add(i) {
                Some(whole) => self.whole = whole,
                None => {
                    self.approximate();
                    self.step_int(i);
                    self.count += 1;
                    return false;
                }
            },
            DatumRef::Int(i) => self.step_int(i),
            DatumRef::Real(r) => {
                if !self.approximate {
                    self.approximate();
                }
                self.step(r);
            }
            // No other values are in columns of numbers.
            _ => return true,
        }
        self.count += 1;
        true
    }

    fn approximate(&mut self) {
        self.approximate = true;
        let small = if is_large(self.whole) { self.whole % 16384 } else { 0 };
        self.sum = (self.whole - small) as f64;
        self.error = small as f64;
    }

    #[inline(always)]
    fn step(&mut self, r: f64) {
        let sum = self.sum;
        let next = sum + r;
        self.error += if sum.abs() > r.abs() { (sum - next) + r } else { (r - next) + sum };
        self.sum = next;
    }

    fn step_int(&mut self, i: i64) {
        if is_large(i) {
            let small = i % 16384;
            self.step((i - small) as f64);
            self.step(small as f64);
        } else {
            self.step(i as f64);
        }
    }

    fn real(&self) -> f64 {
        match self.approximate {
            false => self.whole as f64,
            true if self.error.is_finite() => self.sum + self.error,
            true => self.sum,
        }
    }
}

fn is_large(i: i64) -> bool {
    i <= -LARGE || i >= LARGE
}
