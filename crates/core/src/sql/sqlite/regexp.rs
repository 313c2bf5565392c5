//! `REGEXP`: a pattern is compiled once for a statement that gives it once, and matches in time linear in the text.

use super::functions::{Define, bytes, fail, guarded};
use crate::limits;
use libsqlite3_sys as ffi;
use regex_lite::{Regex, RegexBuilder};
use std::ffi::{c_int, c_void};

/// The functions defined here.
pub const FUNCTIONS: [Define; 1] = [(c"regexp", 2, x_regexp)];

unsafe extern "C" fn x_regexp(context: *mut ffi::sqlite3_context, _: c_int, values: *mut *mut ffi::sqlite3_value) {
    // SAFETY: SQLite passes two values, and the context of this call.
    unsafe { guarded(context, || regexp(context, std::slice::from_raw_parts(values, 2))) };
}

/// `text REGEXP pattern` is `regexp(pattern, text)`; NULL if either is.
///
/// # Safety
/// Context and values are those of the running call.
unsafe fn regexp(context: *mut ffi::sqlite3_context, values: &[*mut ffi::sqlite3_value]) {
    // SAFETY: the caller's promise; what is kept with the pattern is a `Regex`, as nobody else keeps anything here.
    unsafe {
        let (Some(pattern), Some(text)) = (bytes(values[0]), bytes(values[1])) else { return };
        let Ok(text) = std::str::from_utf8(text) else { return fail(context, "REGEXP of a text that is not UTF-8") };
        let kept = ffi::sqlite3_get_auxdata(context, 0).cast::<Regex>();
        if let Some(regex) = kept.as_ref() {
            return ffi::sqlite3_result_int(context, c_int::from(regex.is_match(text)));
        }
        match compile(pattern) {
            Err(why) => fail(context, &format!("the regular expression is wrong: {why}")),
            Ok(regex) => {
                ffi::sqlite3_result_int(context, c_int::from(regex.is_match(text)));
                let kept = Box::into_raw(Box::new(regex)).cast::<c_void>();
                ffi::sqlite3_set_auxdata(context, 0, kept, Some(forget));
            }
        }
    }
}

unsafe extern "C" fn forget(regex: *mut c_void) {
    // SAFETY: made by `regexp` with `Box::into_raw`; SQLite calls this once.
    drop(unsafe { Box::from_raw(regex.cast::<Regex>()) });
}

fn compile(pattern: &[u8]) -> Result<Regex, String> {
    let pattern = std::str::from_utf8(pattern).map_err(|_| "it is not UTF-8".to_string())?;
    if pattern.len() > limits::SQL_PATTERN_BYTES_MAX {
        return Err(format!("it is longer than {} bytes", limits::SQL_PATTERN_BYTES_MAX));
    }
    let mut builder = RegexBuilder::new(pattern);
    // What the pattern compiles to, and how deep it nests, is bounded too: a{999}{999} is short.
    builder.size_limit(1 << 20).nest_limit(50);
    builder.build().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use crate::sql::tests::TestStore;
    use crate::table::datum::Datum;

    #[test]
    fn patterns_match_anywhere_and_are_bounded() {
        let mut store =
            TestStore::with(&["CREATE TABLE t (a TEXT)", "INSERT INTO t VALUES ('fawn'), ('Fawn 12'), (NULL)"]);
        for (condition, count) in [
            ("a REGEXP 'aw'", 2),
            ("a REGEXP '^f'", 1),
            ("a REGEXP '(?i)^f'", 2),
            ("a REGEXP '[0-9]+$'", 1),
            ("a NOT REGEXP 'x'", 2),
            ("a REGEXP NULL", 0),
            ("regexp('n$', a)", 1),
        ] {
            assert_eq!(count, store.rows(&format!("SELECT a FROM t WHERE {condition}"), &[]).len(), "{condition}");
        }
        assert!(store.error("SELECT a REGEXP '(' FROM t").contains("regular expression is wrong"));
        assert!(store.error("SELECT a REGEXP 'a{999}{999}{999}' FROM t").contains("regular expression is wrong"));
        let deep = "(".repeat(400) + &")".repeat(400);
        assert!(store.error(&format!("SELECT a REGEXP '{deep}' FROM t")).contains("regular expression is wrong"));
        let long = Datum::text("a".repeat(2000));
        assert!(store.try_run("SELECT 'x' REGEXP ?", &[long]).unwrap_err().message.contains("longer than"));
        // What takes others for ever: many ways to match, none that does.
        let text = Datum::text("a".repeat(5000) + "b");
        assert_eq!(vec![vec![Datum::Int(0)]], store.rows("SELECT ? REGEXP '^(a+)+$'", &[text]));
    }
}
