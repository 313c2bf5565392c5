//! xBestIndex: SQLite's question in our words, and the path that was chosen in its.

use super::guard::guarded;
use super::plan::{Choice, Field, Grouping, Op, Question, RowTerm, Term};
use super::row_values::Hint;
use super::{Table, collation_named, describe, plan, row_values};
use crate::sql::run::Run;
use crate::sql::sqlite::{connection, value};
use crate::table::datum::Datum;
use libsqlite3_sys as ffi;
use smallvec::SmallVec;
use std::ffi::{CStr, c_int};

pub(super) unsafe extern "C" fn x_best_index(
    table: *mut ffi::sqlite3_vtab,
    info: *mut ffi::sqlite3_index_info,
) -> c_int {
    // SAFETY: SQLite passes a table of `x_connect`.
    let table = unsafe { &*table.cast::<Table>() };
    guarded(&table.current, |run| {
        // SAFETY: the structure is that of this call.
        let asked = unsafe { Asked::read(table, info, run) };
        let source = run.host.source();
        let statistics = source.statistics(table.info.def.id)?;
        let choice = plan::choose(&Question {
            def: &table.info.def,
            source,
            statistics: &statistics,
            terms: &asked.terms,
            rows: &asked.rows,
            complete: asked.complete && !run.traits.row_values,
            order: &asked.order,
            grouping: asked.grouping,
            limit: asked.limit,
            offset: asked.offset,
            reads: asked.reads.as_deref(),
        });
        // SAFETY: the structure is that of this call, and the choice uses its constraints.
        unsafe { table.answer(info, &choice, run) };
        Ok(())
    })
}

/// SQLite's question in our words.
struct Asked {
    terms: SmallVec<[Term; 8]>,
    rows: SmallVec<[RowTerm; 1]>,
    /// The columns that follow in the comparison whose first column is still to come: place, constraint, position.
    next: SmallVec<[(i64, usize, u16); 4]>,
    /// All conditions are among the terms.
    complete: bool,
    order: SmallVec<[(Field, bool); 4]>,
    grouping: Grouping,
    limit: Option<u64>,
    offset: Option<usize>,
    reads: Option<SmallVec<[u16; 16]>>,
}

/// What a LIMIT that is not known yet is taken for.
const LIMIT_GUESS: u64 = 25;

impl Asked {
    /// # Safety
    /// `info` is the structure of the running xBestIndex call.
    unsafe fn read(table: &Table, info: *mut ffi::sqlite3_index_info, run: &Run<'_>) -> Asked {
        // SAFETY: the caller's promise: the arrays have the lengths that the structure tells.
        let (constraints, order, distinct, used) = unsafe {
            let constraints = array((*info).aConstraint, (*info).nConstraint);
            let order = array((*info).aOrderBy, (*info).nOrderBy);
            (constraints, order, ffi::sqlite3_vtab_distinct(info), (*info).colUsed)
        };
        let mut asked = Asked {
            terms: SmallVec::new(),
            rows: SmallVec::new(),
            next: SmallVec::new(),
            complete: true,
            order: order.iter().filter_map(|o| Some((field(table, o.iColumn)?, o.desc != 0))).collect(),
            grouping: match distinct {
                1 => Grouping::Group,
                2 => Grouping::Distinct,
                3 => Grouping::DistinctOrder,
                _ => Grouping::Order,
            },
            limit: None,
            offset: None,
            reads: reads(table, used),
        };
        for (number, constraint) in constraints.iter().enumerate() {
            if constraint.usable == 0 {
                asked.complete = false;
                continue;
            }
            // SAFETY: the caller's promise.
            unsafe { asked.add(table, info, number, constraint, run) };
        }
        asked
    }

    /// # Safety
    /// As for `read`; `number` is a constraint of it.
    unsafe fn add(
        &mut self,
        table: &Table,
        info: *mut ffi::sqlite3_index_info,
        number: usize,
        constraint: &ffi::sqlite3_index_constraint,
        run: &Run<'_>,
    ) {
        // SAFETY: the caller's promise.
        let literal = || unsafe { literal(info, number) };
        let code = i32::from(constraint.op);
        match code {
            ffi::SQLITE_INDEX_CONSTRAINT_LIMIT => {
                self.limit = match literal() {
                    Some(Datum::Int(limit)) => u64::try_from(limit).ok(),
                    _ => Some(LIMIT_GUESS),
                };
                return;
            }
            ffi::SQLITE_INDEX_CONSTRAINT_OFFSET => {
                self.offset = Some(number);
                return;
            }
            _ => {}
        }
        let field = field(table, constraint.iColumn);
        if let (Some(hint), Some(Field::Position(position))) = (row_values::hint(code), field) {
            return self.add_hint(hint, number, position, literal());
        }
        // SAFETY: the caller's promise.
        let (list, collation) = unsafe {
            let collation = ffi::sqlite3_vtab_collation(info, number as c_int);
            let collation = if collation.is_null() { c"BINARY" } else { CStr::from_ptr(collation) };
            (ffi::sqlite3_vtab_in(info, number as c_int, -1) != 0, collation_named(collation.to_bytes()))
        };
        let (Some(op), Some(field), Some(collation)) = (op(code), field, collation) else {
            self.complete = false;
            return;
        };
        let literal = if list { None } else { literal() };
        let sure = literal.is_some() && !run.traits.casts;
        let parameter = literal.is_none() && run.traits.parameters;
        self.terms.push(Term { number, field, op, list, collation, literal, sure, parameter });
    }

    /// SQLite tells the hints of a comparison from its last column to the first.
    fn add_hint(&mut self, hint: Hint, number: usize, position: u16, place: Option<Datum>) {
        match hint {
            Hint::Next => {
                if let Some(Datum::Int(place)) = place {
                    self.next.push((place, number, position));
                }
            }
            Hint::First(op) => {
                let mut row = RowTerm {
                    op,
                    numbers: SmallVec::from_slice(&[number]),
                    positions: SmallVec::from_slice(&[position]),
                };
                self.next.sort_unstable();
                for (expected, (place, number, position)) in (1..).zip(self.next.drain(..)) {
                    // Columns of other tables leave gaps, behind which nothing is of use.
                    if place == expected {
                        row.numbers.push(number);
                        row.positions.push(position);
                    }
                }
                self.rows.push(row);
            }
        }
    }
}

/// The positions of the columns that a statement reads; None: perhaps all.
fn reads(table: &Table, used: u64) -> Option<SmallVec<[u16; 16]>> {
    const REST: u64 = 1 << 63;
    let columns = &table.info.def.columns;
    let is_used = |(i, _): &(usize, &crate::table::catalog::ColumnDef)| used >> i & 1 == 1;
    (used & REST == 0).then(|| columns.iter().enumerate().take(63).filter(is_used).map(|(_, c)| c.position).collect())
}

fn op(code: i32) -> Option<Op> {
    Some(match code {
        ffi::SQLITE_INDEX_CONSTRAINT_EQ => Op::Equal,
        ffi::SQLITE_INDEX_CONSTRAINT_IS => Op::Is,
        ffi::SQLITE_INDEX_CONSTRAINT_ISNULL => Op::IsNull,
        ffi::SQLITE_INDEX_CONSTRAINT_GT => Op::Greater,
        ffi::SQLITE_INDEX_CONSTRAINT_GE => Op::GreaterOrEqual,
        ffi::SQLITE_INDEX_CONSTRAINT_LT => Op::Less,
        ffi::SQLITE_INDEX_CONSTRAINT_LE => Op::LessOrEqual,
        ffi::SQLITE_INDEX_CONSTRAINT_ISNOTNULL => Op::NotNull,
        ffi::SQLITE_INDEX_CONSTRAINT_LIKE => Op::Like,
        ffi::SQLITE_INDEX_CONSTRAINT_GLOB => Op::Glob,
        _ => return None,
    })
}

fn field(table: &Table, column: c_int) -> Option<Field> {
    match usize::try_from(column) {
        Ok(column) => table.info.def.columns.get(column).map(|c| Field::Position(c.position)),
        Err(_) => Some(Field::RowId),
    }
}

/// The right side of a constraint, if it is a literal.
///
/// # Safety
/// `info` is the structure of the running xBestIndex call and has a constraint of the number.
unsafe fn literal(info: *mut ffi::sqlite3_index_info, number: usize) -> Option<Datum> {
    let mut value = std::ptr::null_mut();
    // SAFETY: the caller's promise; the value stays until xBestIndex returns and is copied here.
    unsafe {
        let code = ffi::sqlite3_vtab_rhs_value(info, number as c_int, &mut value);
        (code == ffi::SQLITE_OK && !value.is_null()).then(|| value::read(value).to_owned())
    }
}

/// # Safety
/// Unless `length` is 0, `pointer` points to that many items, which stay for `'a`.
unsafe fn array<'a, T>(pointer: *const T, length: c_int) -> &'a [T] {
    // SAFETY: the caller's promise.
    if length <= 0 { &[] } else { unsafe { std::slice::from_raw_parts(pointer, length as usize) } }
}

impl Table {
    /// Writes a choice into SQLite's structure.
    ///
    /// # Safety
    /// `info` is the structure of the running xBestIndex call, whose constraints the choice uses.
    unsafe fn answer(&self, info: *mut ffi::sqlite3_index_info, choice: &Choice, run: &mut Run<'_>) {
        let number = {
            let mut plans = self.plans.borrow_mut();
            plans.iter().position(|p| *p == choice.plan).unwrap_or_else(|| {
                plans.push(choice.plan.clone());
                plans.len() - 1
            })
        };
        // SAFETY: the caller's promise: the usages are as many as the constraints, and the arguments are among these.
        unsafe {
            for (argument, &constraint) in choice.arguments.iter().enumerate() {
                let usage = &mut *(*info).aConstraintUsage.add(constraint);
                usage.argvIndex = argument as c_int + 1;
                let skips = choice.offset() == Some(constraint);
                usage.omit = u8::from(choice.exact || skips || choice.hints.contains(&constraint));
                if ffi::sqlite3_vtab_in(info, constraint as c_int, -1) != 0 {
                    ffi::sqlite3_vtab_in(info, constraint as c_int, 1);
                }
            }
            (*info).idxNum = number as c_int;
            (*info).estimatedCost = choice.cost;
            (*info).estimatedRows = choice.rows as i64;
            (*info).orderByConsumed = c_int::from(choice.ordered && (*info).nOrderBy > 0);
            (*info).idxFlags = if choice.is_single() { ffi::SQLITE_INDEX_SCAN_UNIQUE } else { 0 };
            if run.traits.explains {
                run.steps += 1;
                let step = describe::Step::new(&self.info.def, &choice.plan, choice.rows).packed(run.steps);
                (*info).idxStr = connection::owned_by_sqlite(&step);
                (*info).needToFreeIdxStr = 1;
            }
        }
    }
}
