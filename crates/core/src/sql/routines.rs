//! Pure functions of libraries as functions of SQL.
//!
//! They are made known to the connection when the catalog's version grows, and called by name, so that a library can be
//! replaced. A name that SQLite has a function for stays SQLite's. A read that calls one stays where it is: the functions
//! belong to the thread that holds the store.

use super::run::{Current, Failure, Outcome, Run};
use super::sqlite::{Connection, Step, connection, functions, value};
use crate::error::Result;
use crate::table::catalog::Catalog;
use crate::table::datum::{Datum, DatumRef};
use crate::table::library::ScriptFlags;
use libsqlite3_sys as ffi;
use smallvec::SmallVec;
use std::collections::HashSet;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, OnceLock};

/// The functions of libraries that a connection knows, by their names in lower case.
#[derive(Default)]
pub struct Known {
    names: HashSet<String>,
}

/// What a function is registered with.
struct Aux {
    name: String,
    current: Arc<Current>,
}

const FLAGS: c_int = ffi::SQLITE_UTF8 | ffi::SQLITE_DETERMINISTIC;

/// The names of the functions that SQL may call, in lower case.
pub fn pure_functions(catalog: &Catalog) -> HashSet<String> {
    let functions = catalog.libraries.iter().flat_map(|library| &library.functions);
    functions.filter(|f| f.flags.contains(ScriptFlags::PURE)).map(|f| f.name.to_ascii_lowercase()).collect()
}

/// The names of SQLite's functions, and of ours, in lower case.
fn built_in() -> Result<&'static HashSet<String>> {
    static NAMES: OnceLock<HashSet<String>> = OnceLock::new();
    if let Some(names) = NAMES.get() {
        return Ok(names);
    }
    let connection = Connection::open_native()?;
    functions::register(&connection)?;
    let mut list = connection.prepare("SELECT lower(name) FROM pragma_function_list", false)?;
    let mut names = HashSet::new();
    loop {
        match list.step() {
            Step::Done => return Ok(NAMES.get_or_init(|| names)),
            Step::Failed(code) => return Err(connection.error(code, "")),
            Step::Row => {
                if let DatumRef::Text(name) = list.column(0) {
                    names.insert(String::from_utf8_lossy(name).into_owned());
                }
            }
        }
    }
}

impl Known {
    /// Makes the connection know those of these names. No statement of it may be running.
    pub fn follow(
        &mut self,
        connection: &Connection,
        mut wanted: HashSet<String>,
        current: &Arc<Current>,
    ) -> Result<()> {
        if wanted.is_empty() && self.names.is_empty() {
            return Ok(());
        }
        let built_in = built_in()?;
        wanted.retain(|name| !built_in.contains(name));
        for name in self.names.difference(&wanted) {
            define(connection, name, None)?;
        }
        for name in wanted.difference(&self.names) {
            define(connection, name, Some(current))?;
        }
        self.names = wanted;
        Ok(())
    }
}

/// Defines a function, or, without a place for runs, forgets it.
fn define(connection: &Connection, name: &str, current: Option<&Arc<Current>>) -> Result<()> {
    let c_name = connection::c_string(name)?;
    let db = connection.handle();
    // SAFETY: the connection is open and the name ends in zero; `x_call` takes an `Aux`, which `drop_aux` frees: SQLite calls
    // it once, also when this fails.
    let code = unsafe {
        match current {
            Some(current) => {
                let aux = Box::new(Aux { name: name.to_string(), current: current.clone() });
                let aux = Box::into_raw(aux).cast();
                let (call, free) = (Some(x_call as CallFn), Some(drop_aux as FreeFn));
                ffi::sqlite3_create_function_v2(db, c_name.as_ptr(), -1, FLAGS, aux, call, None, None, free)
            }
            None => {
                let none = std::ptr::null_mut();
                ffi::sqlite3_create_function_v2(db, c_name.as_ptr(), -1, FLAGS, none, None, None, None, None)
            }
        }
    };
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(connection.error(code, "")) }
}

type CallFn = unsafe extern "C" fn(*mut ffi::sqlite3_context, c_int, *mut *mut ffi::sqlite3_value);
type FreeFn = unsafe extern "C" fn(*mut c_void);

unsafe extern "C" fn drop_aux(aux: *mut c_void) {
    // SAFETY: made by `define` with `Box::into_raw`; SQLite calls this once.
    drop(unsafe { Box::from_raw(aux.cast::<Aux>()) });
}

unsafe extern "C" fn x_call(context: *mut ffi::sqlite3_context, count: c_int, values: *mut *mut ffi::sqlite3_value) {
    // SAFETY: SQLite passes the context of this call, `count` values, and what the function was defined with; the answer is
    // copied before this returns.
    unsafe {
        functions::guarded(context, || {
            let aux = &*ffi::sqlite3_user_data(context).cast::<Aux>();
            let values = if count == 0 { &[][..] } else { std::slice::from_raw_parts(values, count as usize) };
            let args: SmallVec<[DatumRef<'_>; 8]> = values.iter().map(|value| value::read(*value)).collect();
            match aux.current.try_with(|run| call(run, &aux.name, &args)) {
                Some(Ok(answer)) => value::answer(context, answer.as_ref()),
                Some(Err(failure)) => {
                    aux.current.fail(failure);
                    functions::fail(context, "a function of a library failed");
                }
                // A definition is tried, or one that is no statement's.
                None => {
                    let text = "is one of a library, which may be replaced: no definition can call it";
                    functions::fail(context, &format!("function {} {text}", aux.name));
                }
            }
        });
    }
}

fn call(run: &mut Run<'_>, name: &str, args: &[DatumRef<'_>]) -> Outcome<Datum> {
    // From here on it stays where it is.
    run.slice_end_ns = None;
    run.host.call_function(name, args).map_err(Failure::from)
}
