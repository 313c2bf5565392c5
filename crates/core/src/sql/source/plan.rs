//! Chooses how a source finds its rows: by key, by member, by a range of scores, or all of them.

use super::{Kind, Source};
use crate::sql::run::Shape;
use crate::sql::sqlite::connection;
use bitflags::bitflags;
use libsqlite3_sys as ffi;
use std::ffi::{CStr, c_int};

bitflags! {
    /// An access path: which values it gets, in this order, and how it goes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Plan: i32 {
        /// The key of the value: the argument of the function.
        const KEY = 1;
        /// The row's own name: a field, member or position, or a key of `keys`.
        const NAME = 2;
        /// The least score.
        const LOW = 4;
        /// The greatest score.
        const HIGH = 8;
        /// A pattern of GLOB that the key must match.
        const PATTERN = 16;
        /// From the end.
        const REVERSE = 32;
        /// The column `bytes`, which costs a look at the value, is not wanted.
        const WITHOUT_BYTES = 64;
    }
}

/// The column of `zset` with the score, and the one with the rank.
const SCORE: c_int = 1;
const RANK: c_int = 2;
/// The column of `keys` with the bytes.
const BYTES: u64 = 1 << 3;

/// Answers SQLite's question; its code.
///
/// # Safety
/// `info` is the structure of the running xBestIndex call.
pub unsafe fn choose(info: *mut ffi::sqlite3_index_info, source: &Source, explains: bool) -> c_int {
    let mut plan = Plan::empty();
    let mut found: [Option<usize>; 5] = [None; 5];
    let is_zset = source.kind == Kind::Value(Shape::ZSet);
    // SAFETY: the caller's promise; there are so many constraints.
    let constraints = unsafe { (0..(*info).nConstraint as usize).map(|i| (i, *(*info).aConstraint.add(i))) };
    for (i, constraint) in constraints.filter(|(_, constraint)| constraint.usable != 0) {
        let (op, column) = (i32::from(constraint.op), constraint.iColumn);
        let equals = op == ffi::SQLITE_INDEX_CONSTRAINT_EQ;
        // SAFETY: the constraint is one of this call.
        let binary = || unsafe { collates_binary(info, i) };
        if source.kind != Kind::Keys && equals && column == source.columns as c_int {
            found[0] = Some(i);
        } else if equals && column == 0 && source.has_names() && binary() {
            found[1] = Some(i);
        } else if is_zset && column == SCORE {
            use ffi::{SQLITE_INDEX_CONSTRAINT_GE as GE, SQLITE_INDEX_CONSTRAINT_GT as GT};
            use ffi::{SQLITE_INDEX_CONSTRAINT_LE as LE, SQLITE_INDEX_CONSTRAINT_LT as LT};
            if equals || op == GE || op == GT {
                found[2].get_or_insert(i);
            }
            if (equals && found[2] != Some(i)) || op == LE || op == LT {
                found[3].get_or_insert(i);
            }
        } else if source.kind == Kind::Keys && column == 0 && op == ffi::SQLITE_INDEX_CONSTRAINT_GLOB {
            found[4] = Some(i);
        }
    }
    if source.kind != Kind::Keys && found[0].is_none() {
        return ffi::SQLITE_CONSTRAINT;
    }
    if found[1].is_some() {
        // One row at most: nothing else is worth a value.
        found[2..].fill(None);
    }
    let mut arguments = 0;
    for (place, constraint) in found.iter().enumerate() {
        let Some(constraint) = constraint else { continue };
        plan |= Plan::from_bits_truncate(1 << place);
        arguments += 1;
        // SAFETY: the usages are as many as the constraints. All but the key are checked again by SQLite.
        unsafe {
            let usage = &mut *(*info).aConstraintUsage.add(*constraint);
            usage.argvIndex = arguments;
            usage.omit = u8::from(place == 0);
        }
    }
    // SAFETY: the caller's promise.
    unsafe {
        if source.kind == Kind::Keys && (*info).colUsed & BYTES == 0 {
            plan |= Plan::WITHOUT_BYTES;
        }
        if is_zset && (*info).nOrderBy == 1 && matches!((*(*info).aOrderBy).iColumn, SCORE | RANK) {
            (*info).orderByConsumed = 1;
            plan.set(Plan::REVERSE, (*(*info).aOrderBy).desc != 0);
        }
        let (cost, rows) = cost(source, plan);
        (*info).estimatedCost = cost;
        (*info).estimatedRows = rows;
        (*info).idxFlags = if plan.contains(Plan::NAME) { ffi::SQLITE_INDEX_SCAN_UNIQUE } else { 0 };
        (*info).idxNum = plan.bits();
        if explains {
            (*info).idxStr = connection::owned_by_sqlite(&words(source, plan));
            (*info).needToFreeIdxStr = 1;
        }
    }
    ffi::SQLITE_OK
}

/// # Safety
/// `info` is the structure of the running xBestIndex call and has a constraint of the number.
unsafe fn collates_binary(info: *mut ffi::sqlite3_index_info, number: usize) -> bool {
    // SAFETY: the caller's promise; the name is null or a string.
    unsafe {
        let name = ffi::sqlite3_vtab_collation(info, number as c_int);
        name.is_null() || CStr::from_ptr(name).to_bytes().eq_ignore_ascii_case(b"BINARY")
    }
}

/// In rows read; the sizes of values and of the keyspace are not known yet.
fn cost(source: &Source, plan: Plan) -> (f64, i64) {
    match () {
        () if plan.contains(Plan::NAME) => (5.0, 1),
        () if source.kind == Kind::Keys => (1e9, 1_000_000),
        () if plan.contains(Plan::LOW | Plan::HIGH) => (500.0, 50),
        () if plan.intersects(Plan::LOW | Plan::HIGH) => (2000.0, 200),
        () => (10_000.0, 1000),
    }
}

/// For EXPLAIN.
fn words(source: &Source, plan: Plan) -> String {
    let name = source.name;
    let backwards = if plan.contains(Plan::REVERSE) { ", from the end" } else { "" };
    match (source.kind, plan) {
        (Kind::Keys, plan) if plan.contains(Plan::NAME) => "one key of keys".into(),
        (Kind::Keys, plan) if plan.contains(Plan::PATTERN) => "scan of keys with a pattern".into(),
        (Kind::Keys, _) => "scan of keys".into(),
        (_, plan) if plan.contains(Plan::NAME) => format!("look-up in {name}"),
        (_, plan) if plan.intersects(Plan::LOW | Plan::HIGH) => format!("range of scores in {name}{backwards}"),
        _ => format!("all of {name}{backwards}"),
    }
}
