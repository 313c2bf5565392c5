//! Our functions, and `instr` and `replace` in linear time. SQLite's own take the product of both lengths, hours for a few megabytes, and
//! nothing can interrupt a function while it runs.

use super::Connection;
use super::value::slice;
use crate::error::Result;
use crate::limits;
use libsqlite3_sys as ffi;
use std::ffi::{CStr, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

type Values<'a> = &'a [*mut ffi::sqlite3_value];

/// A function: its name, its arguments, and what is called.
pub type Define =
    (&'static CStr, c_int, unsafe extern "C" fn(*mut ffi::sqlite3_context, c_int, *mut *mut ffi::sqlite3_value));

/// Puts our functions in the place of SQLite's.
pub fn register(connection: &Connection) -> Result<()> {
    let own: [Define; 2] = [(c"instr", 2, x_instr), (c"replace", 3, x_replace)];
    let flags = ffi::SQLITE_UTF8 | ffi::SQLITE_DETERMINISTIC | ffi::SQLITE_INNOCUOUS;
    for (name, arguments, function) in own.into_iter().chain(super::regexp::FUNCTIONS) {
        let (db, none) = (connection.handle(), std::ptr::null_mut());
        // SAFETY: the connection is open, the name ends in zero, and the functions have no state.
        let code = unsafe {
            let name = name.as_ptr();
            ffi::sqlite3_create_function_v2(db, name, arguments, flags, none, Some(function), None, None, None)
        };
        if code != ffi::SQLITE_OK {
            return Err(connection.error(code, ""));
        }
    }
    super::decimal_sum::register(connection)
}

/// Ends a function's call with an error.
///
/// # Safety
/// The context is that of the running call.
pub unsafe fn fail(context: *mut ffi::sqlite3_context, text: &str) {
    // SAFETY: the caller's promise; SQLite copies the text, which is as long as is said.
    unsafe { ffi::sqlite3_result_error(context, text.as_ptr().cast(), text.len() as c_int) };
}

unsafe extern "C" fn x_instr(context: *mut ffi::sqlite3_context, _: c_int, values: *mut *mut ffi::sqlite3_value) {
    // SAFETY: SQLite passes two values, and the context of this call.
    unsafe { guarded(context, || instr(context, std::slice::from_raw_parts(values, 2))) };
}

unsafe extern "C" fn x_replace(context: *mut ffi::sqlite3_context, _: c_int, values: *mut *mut ffi::sqlite3_value) {
    // SAFETY: SQLite passes three values, and the context of this call.
    unsafe { guarded(context, || replace(context, std::slice::from_raw_parts(values, 3))) };
}

/// Keeps a panic away from C (invariant 12).
///
/// # Safety
/// The context is that of the running call.
pub unsafe fn guarded(context: *mut ffi::sqlite3_context, body: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(body)).is_err() {
        // SAFETY: the caller's promise; SQLite copies the text.
        unsafe { ffi::sqlite3_result_error(context, c"BUG functions.rs: a panic".as_ptr(), -1) };
    }
}

/// The bytes of a value: a blob's own, or those of the text that SQLite makes of anything else. None for NULL, and when
/// there is no memory, which SQLite notes.
///
/// # Safety
/// `value` is an argument of the running call, for which the result stays.
pub unsafe fn bytes<'a>(value: *mut ffi::sqlite3_value) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise; the pointer is asked for before the length, as SQLite demands.
    unsafe {
        match ffi::sqlite3_value_type(value) {
            ffi::SQLITE_NULL => None,
            ffi::SQLITE_BLOB => {
                let start = ffi::sqlite3_value_blob(value).cast();
                Some(slice(start, ffi::sqlite3_value_bytes(value)))
            }
            _ => text(value),
        }
    }
}

/// The text that SQLite makes of a value, which is a text from then on. None as for [`bytes`].
///
/// # Safety
/// As for [`bytes`].
unsafe fn text<'a>(value: *mut ffi::sqlite3_value) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise; the pointer is asked for before the length, as SQLite demands.
    unsafe {
        let start = ffi::sqlite3_value_text(value);
        (!start.is_null()).then(|| slice(start, ffi::sqlite3_value_bytes(value)))
    }
}

/// # Safety
/// Context and values are those of the running call.
unsafe fn instr(context: *mut ffi::sqlite3_context, values: Values<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        let (Some(text), Some(wanted)) = (bytes(values[0]), bytes(values[1])) else { return };
        let is_blob = |value| ffi::sqlite3_value_type(value) == ffi::SQLITE_BLOB;
        let count_bytes = is_blob(values[0]) && is_blob(values[1]);
        ffi::sqlite3_result_int64(context, place(text, wanted, count_bytes));
    }
}

fn is_inside_character(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// Where `wanted` begins in `text`, in characters or bytes from 1; 0 when it is not there.
fn place(text: &[u8], wanted: &[u8], count_bytes: bool) -> i64 {
    if wanted.is_empty() {
        return 1;
    }
    let found = match is_inside_character(wanted[0]) && !count_bytes {
        // Only at the start of characters does SQLite look, or at that of the text.
        true => text.starts_with(wanted).then_some(0),
        false => Finder::new(wanted).find(text),
    };
    match found {
        None => 0,
        Some(at) if count_bytes => at as i64 + 1,
        Some(at) => 1 + text.iter().take(at + 1).skip(1).filter(|byte| !is_inside_character(**byte)).count() as i64,
    }
}

/// # Safety
/// Context and values are those of the running call.
unsafe fn replace(context: *mut ffi::sqlite3_context, values: Values<'_>) {
    // SAFETY: the caller's promise; SQLite copies the result.
    unsafe {
        let (Some(whole), Some(old)) = (text(values[0]), text(values[1])) else { return };
        // Nothing and what begins with a zero byte is not looked for.
        let made = match old.first().is_none_or(|byte| *byte == 0) {
            true => Some(whole.to_vec()),
            false => {
                let Some(new) = text(values[2]) else { return };
                replaced(whole, old, new)
            }
        };
        match made {
            Some(made) => {
                let (start, length) = (made.as_ptr().cast(), made.len() as u64);
                let encoding = ffi::SQLITE_UTF8 as u8;
                ffi::sqlite3_result_text64(context, start, length, ffi::SQLITE_TRANSIENT(), encoding);
            }
            None => ffi::sqlite3_result_error_toobig(context),
        }
    }
}

/// `text` with `new` for each `old`; None when it gets too long.
fn replaced(text: &[u8], old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    let finder = Finder::new(old);
    let (mut made, mut rest) = (Vec::new(), text);
    while let Some(at) = finder.find(rest) {
        made.extend_from_slice(&rest[..at]);
        made.extend_from_slice(new);
        rest = &rest[at + old.len()..];
        if made.len() > limits::SQL_VALUE_BYTES_MAX {
            return None;
        }
    }
    made.extend_from_slice(rest);
    Some(made)
}

/// Finds a byte string that is not empty, looking at each byte once (Knuth, Morris and Pratt).
struct Finder<'a> {
    wanted: &'a [u8],
    /// For each length of a beginning: the longest shorter beginning that it ends with.
    borders: Vec<u32>,
}

impl<'a> Finder<'a> {
    fn new(wanted: &'a [u8]) -> Finder<'a> {
        let mut finder = Finder { wanted, borders: vec![0; wanted.len()] };
        let mut length = 0;
        for (at, byte) in wanted.iter().enumerate().skip(1) {
            length = finder.step(length, *byte);
            finder.borders[at] = length as u32;
        }
        finder
    }

    /// How much of what is wanted has come after one more byte, when `length` bytes had (not all).
    #[inline]
    fn step(&self, mut length: usize, byte: u8) -> usize {
        while length > 0 && self.wanted[length] != byte {
            length = self.borders[length - 1] as usize;
        }
        length + usize::from(self.wanted[length] == byte)
    }

    fn find(&self, text: &[u8]) -> Option<usize> {
        let mut length = 0;
        for (at, byte) in text.iter().enumerate() {
            length = self.step(length, *byte);
            if length == self.wanted.len() {
                return Some(at + 1 - length);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;
    use crate::sql::sqlite::Step;
    use crate::table::datum::Datum;

    fn ask(connection: &Connection, text: &str, values: &[&Datum]) -> Datum {
        let mut statement = connection.prepare(text, false).unwrap();
        for (number, value) in (1..).zip(values) {
            statement.bind(number, value.as_ref()).unwrap();
        }
        assert!(matches!(statement.step(), Step::Row));
        statement.column(0).to_owned()
    }

    fn random_value(random: &mut Xoshiro, length: u64) -> Datum {
        let letters = ["a", "a", "b", "ä", "€", "1"];
        let text: String = (0..random.below(length)).map(|_| letters[random.below(6) as usize]).collect();
        match random.below(12) {
            0 => Datum::Null,
            1 => Datum::Int(random.below(200) as i64),
            2 => Datum::Real(1.5),
            3 | 4 => Datum::blob(text.as_bytes()),
            // Cut anywhere, also inside a character.
            5 => Datum::blob(&text.as_bytes()[(random.below(text.len() as u64 + 1) as usize)..]),
            _ => Datum::text(text),
        }
    }

    #[test]
    fn they_answer_as_sqlites_own() {
        let (sqlites, ours) = (Connection::open_native().unwrap(), Connection::open_native().unwrap());
        register(&ours).unwrap();
        let seed = 20;
        let mut random = Xoshiro::from_seed(seed);
        for round in 0..4000 {
            let (text, wanted, new) =
                (random_value(&mut random, 30), random_value(&mut random, 4), random_value(&mut random, 4));
            let instr = |connection| ask(connection, "SELECT instr(?, ?)", &[&text, &wanted]);
            assert_eq!(instr(&sqlites), instr(&ours), "round {round} of seed {seed}: {text:?} {wanted:?}");
            let replace = |connection| ask(connection, "SELECT replace(?, ?, ?)", &[&text, &wanted, &new]);
            assert_eq!(replace(&sqlites), replace(&ours), "round {round} of seed {seed}: {text:?} {wanted:?} {new:?}");
        }
    }

    #[test]
    fn long_texts_take_no_longer_than_they_are() {
        let connection = Connection::open_native().unwrap();
        register(&connection).unwrap();
        let text = "SELECT instr(zeroblob(8000000), zeroblob(4000000) || x'01')";
        assert_eq!(Datum::Int(0), ask(&connection, text, &[]));
        let (long, wanted) = (Datum::text("a".repeat(4_000_000)), Datum::text("a".repeat(2_000_000) + "b"));
        assert_eq!(long, ask(&connection, "SELECT replace(?, ?, 'x')", &[&long, &wanted]));
        let mut statement = connection.prepare("SELECT replace(?, 'a', 'aaaaaaaa')", false).unwrap();
        statement.bind(1, long.as_ref()).unwrap();
        assert!(matches!(statement.step(), Step::Failed(ffi::SQLITE_TOOBIG)));
    }
}
