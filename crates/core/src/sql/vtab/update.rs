//! xUpdate: a row that SQLite inserts, changes or deletes goes to `write`.

use super::Table;
use super::guard::guarded;
use crate::error::{Code, Error};
use crate::sql::run::{Failure, Run};
use crate::sql::sqlite::{connection, value};
use crate::sql::write::{self, Given, OnConflict, Set};
use crate::table::datum::DatumRef;
use crate::table::row_id::RowId;
use libsqlite3_sys as ffi;
use smallvec::SmallVec;
use std::ffi::c_int;

impl Table {
    /// The values of an xUpdate call as `write` takes them.
    ///
    /// # Safety
    /// `values` are the column values of the running xUpdate call.
    unsafe fn given<'a>(
        &self,
        run: &mut Run<'_>,
        values: &[*mut ffi::sqlite3_value],
        insert: bool,
    ) -> SmallVec<[Given<'a>; 16]> {
        let omitted = if insert { run.omitted(&self.info.def) } else { &[] };
        let given = values.iter().enumerate().map(|(i, value)| {
            if omitted.get(i).copied().unwrap_or(false) {
                return Given::Nothing;
            }
            // SAFETY: the caller's promise.
            unsafe {
                if !insert && ffi::sqlite3_value_nochange(*value) != 0 {
                    return Given::Nothing;
                }
                Given::Value(value::read(*value))
            }
        });
        given.collect()
    }

    fn on_conflict(&self) -> OnConflict {
        // SAFETY: called inside xUpdate, as the function demands.
        match unsafe { ffi::sqlite3_vtab_on_conflict(self.db) } {
            ffi::SQLITE_REPLACE => OnConflict::Replace,
            ffi::SQLITE_IGNORE => OnConflict::Ignore,
            // FAIL would keep the rows before the failing one; here a statement that fails leaves nothing.
            _ => OnConflict::Abort,
        }
    }
}

pub(super) unsafe extern "C" fn x_update(
    table: *mut ffi::sqlite3_vtab,
    argc: c_int,
    argv: *mut *mut ffi::sqlite3_value,
    out: *mut i64,
) -> c_int {
    // SAFETY: SQLite passes a table of `x_connect`, and `argc` values.
    let (table, values) = unsafe { (&*table.cast::<Table>(), std::slice::from_raw_parts(argv, argc as usize)) };
    guarded(&table.current, |run| {
        // SAFETY: the values are those of this call.
        let old = unsafe { value::read(values[0]) };
        let on_conflict = table.on_conflict();
        match (old, values) {
            (DatumRef::Int(id), [_]) => write::delete(run, &table.info, RowId(id as u64)).map(|_| ()),
            (DatumRef::Int(id), [_, new, values @ ..]) => {
                // SAFETY: the values are those of this call.
                let (new, given) = unsafe { (value::read(*new), table.given(run, values, false)) };
                if new != old {
                    return Err(Error::new(Code::Sql, "a row id cannot be changed").into());
                }
                let on_conflict = if on_conflict == OnConflict::Abort { OnConflict::Defer } else { on_conflict };
                let values = given.iter().enumerate();
                let sets: Vec<Set<'_>> = values.filter_map(|(i, given)| Some((i, given.value()?))).collect();
                write::update(run, &table.info, RowId(id as u64), &sets, on_conflict).map(|_| ())
            }
            (DatumRef::Null, [_, new, values @ ..]) => {
                // SAFETY: the values are those of this call.
                let (new, given) = unsafe { (value::read(*new), table.given(run, values, true)) };
                if !new.is_null() {
                    return Err(Error::new(Code::Sql, "a row id cannot be chosen").into());
                }
                let evaluate = &mut |text: &str| connection::evaluate(table.db, text).map_err(Failure::from);
                let id = write::insert(run, &table.info, &given, on_conflict, evaluate)?;
                if let Some(id) = id {
                    // SAFETY: SQLite passes a place for the new row's id.
                    unsafe { *out = id.0 as i64 };
                }
                Ok(())
            }
            _ => Err(Error::new(Code::Bug, "vtab: an xUpdate call of an unknown form").into()),
        }
    })
}
