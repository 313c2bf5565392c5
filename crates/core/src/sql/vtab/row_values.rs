//! Comparisons of several columns at once, `(a, b) > (?, ?)`, as keyset paging writes them.
//!
//! Of such a comparison SQLite tells a virtual table only `a >= ?`. So the text that SQLite gets says more: the
//! comparison is followed by calls that are true for every row and that the table is told of as conditions:
//! ```text
//! (a, b) > (?, ?)   becomes   ((a, b) > (?1, ?2) AND peryton_row_gt(a, peryton_row(?1, ?2)) AND peryton_row_next(b, 1))
//! ```
//! The table finds in the first the comparison and all values, in the others the columns that follow. SQLite itself goes
//! on to check the comparison, so a hint can make a query faster and not wrong.

use super::plan::Op;
use crate::sql::sqlite::{Connection, value};
use crate::sql::table_info::literal;
use crate::sql::token::{Kind, Token, Tokens};
use crate::table::datum::Datum;
use libsqlite3_sys as ffi;
use std::borrow::Cow;
use std::ffi::{CStr, c_int};
use std::fmt::Write;

/// The hints by name, and the numbers under which SQLite passes them as conditions.
const HINTS: [(&CStr, u8); 5] = [
    (c"peryton_row_gt", ffi::SQLITE_INDEX_CONSTRAINT_FUNCTION as u8),
    (c"peryton_row_ge", ffi::SQLITE_INDEX_CONSTRAINT_FUNCTION as u8 + 1),
    (c"peryton_row_lt", ffi::SQLITE_INDEX_CONSTRAINT_FUNCTION as u8 + 2),
    (c"peryton_row_le", ffi::SQLITE_INDEX_CONSTRAINT_FUNCTION as u8 + 3),
    (c"peryton_row_next", ffi::SQLITE_INDEX_CONSTRAINT_FUNCTION as u8 + 4),
];

/// A hint, as a condition tells it.
pub enum Hint {
    /// The first column of a comparison.
    First(Op),
    /// A column that follows.
    Next,
}

/// The hint that a condition of this number is.
pub fn hint(code: i32) -> Option<Hint> {
    let ops = [Op::Greater, Op::GreaterOrEqual, Op::Less, Op::LessOrEqual];
    match code - ffi::SQLITE_INDEX_CONSTRAINT_FUNCTION {
        first @ 0..4 => Some(Hint::First(ops[first as usize])),
        4 => Some(Hint::Next),
        _ => None,
    }
}

/// Makes the functions known.
pub fn register(connection: &Connection) -> crate::error::Result<()> {
    let flags = ffi::SQLITE_UTF8 | ffi::SQLITE_DETERMINISTIC | ffi::SQLITE_INNOCUOUS;
    let row = (c"peryton_row", -1, pack as Function);
    for (name, arguments, function) in HINTS.iter().map(|(name, _)| (*name, 2, yes as Function)).chain([row]) {
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
    Ok(())
}

type Function = unsafe extern "C" fn(*mut ffi::sqlite3_context, c_int, *mut *mut ffi::sqlite3_value);

unsafe extern "C" fn yes(context: *mut ffi::sqlite3_context, _: c_int, _: *mut *mut ffi::sqlite3_value) {
    // SAFETY: the context is that of this call.
    unsafe { ffi::sqlite3_result_int(context, 1) };
}

unsafe extern "C" fn pack(context: *mut ffi::sqlite3_context, count: c_int, values: *mut *mut ffi::sqlite3_value) {
    let mut bytes = Vec::new();
    for i in 0..count as usize {
        // SAFETY: SQLite passes `count` values, of which each is read before SQLite runs again.
        unsafe { value::read(*values.add(i)) }.to_owned().encode(&mut bytes);
    }
    // SAFETY: the context is that of this call; SQLite copies the bytes.
    unsafe { value::answer(context, crate::table::datum::DatumRef::Blob(&bytes)) };
}

/// The values that `peryton_row` packed.
pub fn unpack(mut bytes: &[u8]) -> Vec<Datum> {
    let mut values = Vec::new();
    while let (false, Ok(value)) = (bytes.is_empty(), Datum::decode(&mut bytes)) {
        values.push(value);
    }
    values
}

/// Tells SQLite that a call of the function is a condition for the table.
///
/// # Safety
/// For SQLite to call: `name` is a C string, and `function` a place to write to.
pub unsafe extern "C" fn find_function(
    _: *mut ffi::sqlite3_vtab,
    arguments: c_int,
    name: *const std::ffi::c_char,
    function: *mut Option<Function>,
    _: *mut *mut std::ffi::c_void,
) -> c_int {
    // SAFETY: SQLite passes the function's name and a place for what is to be called.
    unsafe {
        let name = CStr::from_ptr(name);
        let Some((_, code)) = HINTS.iter().find(|(hint, _)| arguments == 2 && *hint == name) else { return 0 };
        *function = Some(yes);
        c_int::from(*code)
    }
}

/// The text with hints behind the comparisons of several columns.
pub fn with_hints(text: &str) -> Cow<'_, str> {
    if !text.contains('<') && !text.contains('>') {
        return Cow::Borrowed(text);
    }
    let Ok(tokens) = Tokens::all(text) else { return Cow::Borrowed(text) };
    let found: Vec<Comparison> = (0..tokens.len()).filter_map(|start| Comparison::read(&tokens, start)).collect();
    // A name gets the next number where it first stands, which only SQLite knows.
    let is_named = |t: &Token<'_>| t.kind == Kind::Parameter && !t.text.starts_with('?');
    if found.is_empty() || tokens.iter().any(is_named) && tokens.iter().any(|t| t.text == "?") {
        return Cow::Borrowed(text);
    }
    let (mut made, mut copied, mut at, mut parameters) = (String::new(), 0, 0, Parameters::default());
    for comparison in found {
        tokens[at..comparison.start].iter().for_each(|token| {
            parameters.numbered(token);
        });
        made += &text[copied..tokens[comparison.start].start];
        comparison.write(text, &tokens, &mut parameters, &mut made);
        at = comparison.end;
        copied = tokens[at - 1].end();
    }
    Cow::Owned(made + &text[copied..])
}

/// A bare `?` written twice would be two parameters, so it gets the number that it has.
#[derive(Default)]
struct Parameters {
    last: usize,
}

impl Parameters {
    fn numbered<'t>(&mut self, token: &Token<'t>) -> Cow<'t, str> {
        match token.text.strip_prefix('?') {
            Some("") => {
                self.last += 1;
                format!("?{}", self.last).into()
            }
            number => {
                self.last = self.last.max(number.and_then(|n| n.parse().ok()).unwrap_or(0));
                token.text.into()
            }
        }
    }
}

/// `(column, ...) op (value, ...)`
struct Comparison {
    start: usize,
    end: usize,
    op: &'static str,
    /// The tokens of each column, as a range.
    columns: Vec<(usize, usize)>,
    values: Vec<(usize, usize)>,
}

impl Comparison {
    fn read(tokens: &[Token<'_>], start: usize) -> Option<Comparison> {
        let before = start.checked_sub(1).map(|i| &tokens[i])?;
        if !["WHERE", "AND", "ON"].iter().any(|word| before.is_word(word)) {
            return None;
        }
        let (columns, at) = list(tokens, start, column)?;
        let op = match tokens.get(at)?.text {
            ">" => "gt",
            ">=" => "ge",
            "<" => "lt",
            "<=" => "le",
            _ => return None,
        };
        let (values, end) = list(tokens, at + 1, simple)?;
        let ends = |t: &Token<'_>| t.is_symbol(")") || t.is_symbol(";") || ENDS.iter().any(|word| t.is_word(word));
        let fits = columns.len() == values.len() && columns.len() > 1 && tokens.get(end).is_none_or(ends);
        fits.then_some(Comparison { start, end, op, columns, values })
    }

    fn write(&self, text: &str, tokens: &[Token<'_>], parameters: &mut Parameters, made: &mut String) {
        let of = |range: &(usize, usize)| &text[tokens[range.0].start..tokens[range.1 - 1].end()];
        let columns: Vec<&str> = self.columns.iter().map(of).collect();
        let mut value = |range: &(usize, usize)| match tokens[range.0].kind {
            Kind::Parameter => parameters.numbered(&tokens[range.0]).into_owned(),
            _ => of(range).to_string(),
        };
        let values: Vec<String> = self.values.iter().map(&mut value).collect();
        let (names, values) = (columns.join(", "), values.join(", "));
        let op = tokens[self.columns[self.columns.len() - 1].1 + 1].text;
        // Writing into a String cannot fail.
        let _ = write!(made, "(({names}) {op} ({values})");
        let _ = write!(made, " AND peryton_row_{}({}, peryton_row({values}))", self.op, columns[0]);
        for (i, column) in columns.iter().enumerate().skip(1) {
            let _ = write!(made, " AND peryton_row_next({column}, {i})");
        }
        made.push(')');
    }
}

/// What may follow the comparison.
const ENDS: [&str; 12] =
    ["AND", "OR", "ORDER", "GROUP", "LIMIT", "HAVING", "WINDOW", "UNION", "EXCEPT", "INTERSECT", "RETURNING", "WHERE"];

/// `(item, ...)`: the tokens of each item, and the token after it.
fn list(
    tokens: &[Token<'_>],
    start: usize,
    item: fn(&[Token<'_>], usize) -> Option<usize>,
) -> Option<(Vec<(usize, usize)>, usize)> {
    tokens.get(start).filter(|t| t.is_symbol("("))?;
    let (mut items, mut at) = (Vec::new(), start + 1);
    loop {
        let end = item(tokens, at)?;
        items.push((at, end));
        match tokens.get(end)? {
            t if t.is_symbol(",") => at = end + 1,
            t if t.is_symbol(")") => return Some((items, end + 1)),
            _ => return None,
        }
    }
}

/// `name` or `name.name`
fn column(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    let is_name = |at: usize| tokens.get(at).is_some_and(|t| matches!(t.kind, Kind::Word | Kind::Quoted));
    if !is_name(at) {
        return None;
    }
    let qualified = tokens.get(at + 1).is_some_and(|t| t.is_symbol(".")) && is_name(at + 2);
    Some(if qualified { at + 3 } else { at + 1 })
}

/// A literal or a parameter.
fn simple(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    let token = tokens.get(at)?;
    let signed = usize::from(token.is_symbol("-") || token.is_symbol("+"));
    let is_literal = || literal(tokens.get(at..=at + signed)?).map(|_| ());
    (token.kind == Kind::Parameter || is_literal().is_some()).then_some(at + 1 + signed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_stand_behind_the_comparison() {
        for (text, expected) in [
            (
                "SELECT ? FROM t WHERE (a, t.b) > (?, 'x') AND c = ? LIMIT 3",
                "SELECT ? FROM t WHERE ((a, t.b) > (?2, 'x') AND peryton_row_gt(a, peryton_row(?2, 'x')) AND \
                 peryton_row_next(t.b, 1)) AND c = ? LIMIT 3",
            ),
            (
                "SELECT 1 FROM t WHERE (a,b,c)<=(:x, -1, ?7)",
                "SELECT 1 FROM t WHERE ((a, b, c) <= (:x, -1, ?7) AND peryton_row_le(a, peryton_row(:x, -1, ?7)) AND \
                 peryton_row_next(b, 1) AND peryton_row_next(c, 2))",
            ),
            ("SELECT 1 FROM t WHERE (a, b) > (1, 2) = 1", "SELECT 1 FROM t WHERE (a, b) > (1, 2) = 1"),
            ("SELECT :y, ? FROM t WHERE (a, b) > (?, 1)", "SELECT :y, ? FROM t WHERE (a, b) > (?, 1)"),
            ("SELECT 1 FROM t WHERE (a, b) > (?, c)", "SELECT 1 FROM t WHERE (a, b) > (?, c)"),
            ("SELECT f(a, b) > (1, 2)", "SELECT f(a, b) > (1, 2)"),
            ("SELECT 1 WHERE (a) > (1)", "SELECT 1 WHERE (a) > (1)"),
            ("SELECT 1 WHERE (a, b) = (1, 2) AND c > 1", "SELECT 1 WHERE (a, b) = (1, 2) AND c > 1"),
        ] {
            assert_eq!(expected, with_hints(text));
        }
    }

    #[test]
    fn values_come_back() {
        let values = [Datum::Int(-5), Datum::Null, Datum::text("x"), Datum::Real(0.5), Datum::blob([1, 0])];
        let mut bytes = Vec::new();
        values.iter().for_each(|value| value.encode(&mut bytes));
        assert_eq!(values[..], unpack(&bytes));
    }
}
