//! A connection to SQLite: an empty database in memory that only lends its query processor.

use super::prepared::{Prepared, Step};
use super::value::slice;
use super::{memory, world};
use crate::error::{Code, Error, Result};
use crate::limits;
use crate::table::catalog::IndexColumn;
use crate::table::datum::{Datum, DatumRef};
use crate::table::key::{KeyBuf, put_column};
use crate::table::types::Collation;
use libsqlite3_sys as ffi;
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// A connection. It belongs to one thread at a time.
pub struct Connection {
    db: NonNull<ffi::sqlite3>,
}

// SAFETY: SQLite is compiled with THREADSAFE=2, which lets a connection go from thread to thread as long as two never
// use it at once; `&mut` and the baton see to that.
unsafe impl Send for Connection {}

/// What SQLite refuses by itself, as in `limits.rs`.
const LIMITS: [(c_int, usize); 11] = [
    (ffi::SQLITE_LIMIT_LENGTH, limits::SQL_VALUE_BYTES_MAX),
    (ffi::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, limits::SQL_PATTERN_BYTES_MAX),
    (ffi::SQLITE_LIMIT_SQL_LENGTH, limits::SQL_BYTES_MAX),
    (ffi::SQLITE_LIMIT_COLUMN, limits::COLUMNS_MAX),
    (ffi::SQLITE_LIMIT_EXPR_DEPTH, limits::SQL_EXPRESSION_DEPTH_MAX),
    (ffi::SQLITE_LIMIT_PARSER_DEPTH, limits::SQL_PARSER_DEPTH_MAX),
    (ffi::SQLITE_LIMIT_COMPOUND_SELECT, limits::SQL_COMPOUND_MAX),
    (ffi::SQLITE_LIMIT_VARIABLE_NUMBER, limits::SQL_PARAMETERS_MAX),
    (ffi::SQLITE_LIMIT_ATTACHED, 0),
    (ffi::SQLITE_LIMIT_WORKER_THREADS, 0),
    (ffi::SQLITE_LIMIT_TRIGGER_DEPTH, limits::NESTING_MAX),
];

impl Connection {
    /// Opens a connection.
    pub fn open() -> Result<Connection> {
        memory::initialize();
        let mut db = std::ptr::null_mut();
        let flags = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE | ffi::SQLITE_OPEN_MEMORY;
        // SAFETY: names end in zero; SQLite writes the handle.
        unsafe { ffi::sqlite3_open_v2(c":memory:".as_ptr(), &mut db, flags, world::NAME.as_ptr()) };
        let Some(db) = NonNull::new(db) else { return Err(Error::new(Code::Oom, "no memory for SQLite")) };
        let connection = Connection { db };
        connection.set_up();
        // SAFETY: the authorizer is a function without state.
        unsafe { ffi::sqlite3_set_authorizer(db.as_ptr(), Some(authorize), std::ptr::null_mut()) };
        Ok(connection)
    }

    /// A connection that may have tables of SQLite's own: the oracle of tests and the peer of benchmarks.
    pub fn open_native() -> Result<Connection> {
        let connection = Connection::open()?;
        // SAFETY: the handle is open; without an authorizer everything is allowed.
        unsafe { ffi::sqlite3_set_authorizer(connection.handle(), None, std::ptr::null_mut()) };
        Ok(connection)
    }

    fn set_up(&self) {
        let db = self.handle();
        // SAFETY: the handle is open; the third and fourth argument of the DEFENSIVE switch are an int and a pointer to
        // one, which may be null; the collation is a function without state.
        unsafe {
            for (limit, value) in LIMITS {
                ffi::sqlite3_limit(db, limit, value as c_int);
            }
            ffi::sqlite3_db_config(db, ffi::SQLITE_DBCONFIG_DEFENSIVE, 1 as c_int, std::ptr::null_mut::<c_int>());
            let (name, none) = (c"DECIMAL".as_ptr(), std::ptr::null_mut());
            ffi::sqlite3_create_collation_v2(db, name, ffi::SQLITE_UTF8, none, Some(compare_decimals), None);
        }
    }

    /// The same connection, for as long as the lender lives; it is not closed when this goes.
    pub fn lend(&self) -> ManuallyDrop<Connection> {
        ManuallyDrop::new(Connection { db: self.db })
    }

    /// SQLite's handle.
    pub fn handle(&self) -> *mut ffi::sqlite3 {
        self.db.as_ptr()
    }

    /// Compiles the first statement of `text`. `lasting` statements will be run many times.
    pub fn prepare(&self, text: &str, lasting: bool) -> Result<Prepared> {
        let length = c_int::try_from(text.len()).map_err(|_| Error::new(Code::Limit, "the statement is too long"))?;
        let flags = if lasting { ffi::SQLITE_PREPARE_PERSISTENT } else { 0 };
        let mut statement = std::ptr::null_mut();
        // SAFETY: pointer and length describe `text`; SQLite writes the statement.
        let code = memory::limited(limits::SQL_MEMORY_BYTES_MAX, || unsafe {
            let text = text.as_ptr().cast();
            ffi::sqlite3_prepare_v3(self.handle(), text, length, flags, &mut statement, std::ptr::null_mut())
        });
        match NonNull::new(statement) {
            Some(statement) if code == ffi::SQLITE_OK => Ok(Prepared::new(statement)),
            _ if code == ffi::SQLITE_OK => Err(Error::new(Code::Sql, "the statement is empty")),
            _ => Err(self.error(code, text)),
        }
    }

    /// The error that SQLite last reported, with its place in `text`.
    #[cold]
    pub fn error(&self, code: c_int, text: &str) -> Error {
        if code & 0xFF == ffi::SQLITE_NOMEM {
            let text = format!("out of memory: a statement may take {} bytes", limits::SQL_MEMORY_BYTES_MAX);
            return Error::new(Code::Oom, text);
        }
        // SAFETY: the message is a string of SQLite's that stays until its next call; it is copied here.
        let message = unsafe { CStr::from_ptr(ffi::sqlite3_errmsg(self.handle())) }.to_string_lossy().into_owned();
        // SAFETY: only reads the connection.
        let offset = unsafe { ffi::sqlite3_error_offset(self.handle()) };
        let place = usize::try_from(offset).ok().and_then(|at| text.get(..at));
        let place = place.map_or(String::new(), |before| format!(" at position {}", before.chars().count() + 1));
        let word = match code & 0xFF {
            ffi::SQLITE_CONSTRAINT => Code::Constraint,
            ffi::SQLITE_TOOBIG => Code::Limit,
            ffi::SQLITE_INTERRUPT => Code::Cancelled,
            ffi::SQLITE_INTERNAL | ffi::SQLITE_CORRUPT | ffi::SQLITE_MISUSE => Code::Bug,
            _ => Code::Sql,
        };
        Error::new(word, message + &place)
    }

    /// Registers a module: as it has no xCreate, there is at once a table of its name.
    ///
    /// # Safety
    /// `module` lives for ever; `aux` is what its xConnect expects, and `destroy` frees it.
    pub unsafe fn create_module(
        &self,
        name: &str,
        module: &'static ffi::sqlite3_module,
        aux: *mut c_void,
        destroy: unsafe extern "C" fn(*mut c_void),
    ) -> Result<()> {
        let name = c_string(name)?;
        // SAFETY: the caller's promise; SQLite copies the name.
        let code = unsafe { ffi::sqlite3_create_module_v2(self.handle(), name.as_ptr(), module, aux, Some(destroy)) };
        if code == ffi::SQLITE_OK { Ok(()) } else { Err(self.error(code, "")) }
    }

    /// Takes a module and its table away. No statement may use it any longer.
    pub fn drop_module(&self, name: &str) {
        let Ok(name) = c_string(name) else { return };
        // SAFETY: a null module removes the one of the name.
        unsafe {
            ffi::sqlite3_create_module_v2(self.handle(), name.as_ptr(), std::ptr::null(), std::ptr::null_mut(), None);
        }
    }

    /// Runs CREATE VIEW or DROP VIEW, which no other statement may.
    pub fn define(&self, text: &str) -> Result<()> {
        let before = DEFINING.replace(true);
        let result = self.prepare(text, false).and_then(|mut statement| match statement.step() {
            Step::Failed(code) => Err(self.error(code, text)),
            _ => Ok(()),
        });
        DEFINING.set(before);
        result
    }

    /// Calls `check(context)` about every `steps` steps of a running statement; not zero interrupts it.
    ///
    /// # Safety
    /// `context` is what `check` expects, until the next call of this.
    pub unsafe fn set_progress(
        &self,
        steps: c_int,
        check: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
        context: *mut c_void,
    ) {
        // SAFETY: the caller's promise.
        unsafe { ffi::sqlite3_progress_handler(self.handle(), steps, check, context) };
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: the handle is open and closed once. With a statement alive SQLite refuses, and the connection leaks.
        let code = unsafe { ffi::sqlite3_close(self.handle()) };
        debug_assert_eq!(ffi::SQLITE_OK, code, "a statement outlives its connection");
    }
}

thread_local! {
    /// An expression is being compiled that may read no table; see [`authorize`].
    static WITHOUT_TABLES: Cell<bool> = const { Cell::new(false) };
    /// Views are being made or dropped; see [`Connection::define`].
    static DEFINING: Cell<bool> = const { Cell::new(false) };
}

/// The value of an expression without columns and tables; for callbacks, which know only the handle.
pub fn evaluate(db: *mut ffi::sqlite3, expression: &str) -> Result<Datum> {
    let db = NonNull::new(db).ok_or_else(|| Error::new(Code::Bug, "connection.rs: no connection"))?;
    // The handle is only lent: it must not be closed here.
    let connection = ManuallyDrop::new(Connection { db });
    let text = format!("SELECT {expression}");
    let before = WITHOUT_TABLES.replace(true);
    let statement = connection.prepare(&text, false);
    WITHOUT_TABLES.set(before);
    let mut statement = statement?;
    match memory::limited(limits::SQL_MEMORY_BYTES_MAX, || statement.step()) {
        Step::Row => Ok(statement.column(0).to_owned()),
        Step::Done => Ok(Datum::Null),
        Step::Failed(code) => Err(connection.error(code, "")),
    }
}

/// A copy of a text that SQLite frees; null when there is no memory.
pub fn owned_by_sqlite(text: &str) -> *mut c_char {
    // SAFETY: the piece has room for the text and a zero byte.
    unsafe {
        let copy = ffi::sqlite3_malloc64(text.len() as u64 + 1).cast::<u8>();
        if !copy.is_null() {
            copy.copy_from_nonoverlapping(text.as_ptr(), text.len());
            copy.add(text.len()).write(0);
        }
        copy.cast()
    }
}

/// A name as C wants it.
pub fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::new(Code::Sql, "a name with a zero byte in it"))
}

/// The order of DECIMAL columns: that of their index keys.
unsafe extern "C" fn compare_decimals(
    _: *mut c_void,
    left_length: c_int,
    left: *const c_void,
    right_length: c_int,
    right: *const c_void,
) -> c_int {
    const COLUMN: IndexColumn = IndexColumn { position: 0, desc: false, collation: Collation::Decimal };
    let key = |bytes: *const c_void, length: c_int| {
        let mut key = KeyBuf::new();
        // SAFETY: SQLite passes two texts by pointer and length.
        put_column(DatumRef::Text(unsafe { slice(bytes.cast(), length) }), &COLUMN, &mut key);
        key
    };
    // A panic here would be a bug in the encoding of keys, which its own tests exclude; it must not cross into C.
    let order = std::panic::catch_unwind(|| key(left, left_length).cmp(&key(right, right_length)));
    order.map_or(0, |order| order as c_int)
}

/// What a statement that reaches SQLite may do: query, read, call functions, and write tables. Definitions,
/// transactions, attached files and settings are ours, so this refuses them, however they are wrapped.
unsafe extern "C" fn authorize(
    _: *mut c_void,
    action: c_int,
    _: *const c_char,
    _: *const c_char,
    _: *const c_char,
    _: *const c_char,
) -> c_int {
    match action {
        // A callback that evaluates a default has lent out the run, without which no table can be read.
        ffi::SQLITE_READ if WITHOUT_TABLES.get() => ffi::SQLITE_DENY,
        ffi::SQLITE_SELECT
        | ffi::SQLITE_READ
        | ffi::SQLITE_FUNCTION
        | ffi::SQLITE_RECURSIVE
        | ffi::SQLITE_INSERT
        | ffi::SQLITE_UPDATE
        | ffi::SQLITE_DELETE => ffi::SQLITE_OK,
        ffi::SQLITE_CREATE_VIEW | ffi::SQLITE_DROP_VIEW if DEFINING.get() => ffi::SQLITE_OK,
        // What sqlite3_declare_vtab does with the columns it is told.
        ffi::SQLITE_CREATE_TABLE => ffi::SQLITE_OK,
        _ => ffi::SQLITE_DENY,
    }
}
