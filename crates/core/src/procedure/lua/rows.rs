//! Values of tables to Lua values and back: what procedures get of rows, and what they give for them.
//!
//! | in a table | in Lua |
//! |---|---|
//! | NULL | nil; a column that is NULL is absent from its row |
//! | INTEGER | a number; past 2^53, where doubles no longer tell neighbours apart, its digits as a string |
//! | REAL | a number |
//! | TEXT, DECIMAL, DATE, DATETIME, JSON | a string |
//! | BLOB | a string |
//!
//! The way back: nil and `cjson.null` are NULL, booleans 1 and 0, a number without a fraction an INTEGER, other numbers
//! REAL, a string TEXT if it is UTF-8 and otherwise BLOB, a table with the field `blob` (`peryton.blob`) that string as BLOB.

use super::stack::{Fault, Kind, Stack};
use crate::ds::number;
use crate::table::datum::{Datum, DatumRef};
use std::ffi::c_int;

/// Up to here doubles tell all integers apart.
const EXACT_MAX: i64 = 1 << 53;

/// A named value of a row.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// The column's name.
    pub name: &'a str,
    /// Its value.
    pub value: DatumRef<'a>,
    /// The column keeps bytes: a string that comes back for it is a BLOB.
    pub is_blob: bool,
}

/// Pushes a value.
#[inline]
pub fn push_value(stack: Stack<'_>, value: DatumRef<'_>) -> Result<(), Fault> {
    match value {
        DatumRef::Null => stack.push_nil(),
        DatumRef::Int(number) if number.unsigned_abs() <= EXACT_MAX as u64 => stack.push_number(number as f64),
        DatumRef::Int(number) => stack.push_bytes(&number::i64_text(number))?,
        DatumRef::Real(number) => stack.push_number(number),
        DatumRef::Text(bytes) | DatumRef::Blob(bytes) => stack.push_bytes(bytes)?,
    }
    Ok(())
}

/// Pushes a row as a table by column.
pub fn push_row(stack: Stack<'_>, cells: &[Cell<'_>]) -> Result<(), Fault> {
    stack.push_table(0, cells.len());
    cells.iter().try_for_each(|cell| set_value(stack, cell.name, cell.value))
}

/// Sets a field of the table on top, unless the value is NULL.
#[inline]
pub fn set_value(stack: Stack<'_>, name: &str, value: DatumRef<'_>) -> Result<(), Fault> {
    if value.is_null() {
        return Ok(());
    }
    stack.push_text(name);
    push_value(stack, value)?;
    stack.set_pair(-3);
    Ok(())
}

/// The value at `index`, whose bytes are Lua's own; None: no value of a table can be made of it.
#[inline]
pub fn value_at(stack: Stack<'_>, index: c_int) -> Option<DatumRef<'_>> {
    Some(match stack.kind(index) {
        Kind::Nil | Kind::None => DatumRef::Null,
        Kind::LightUserdata if stack.userdata(index).is_null() => DatumRef::Null,
        Kind::Boolean => DatumRef::Int(stack.truth(index).into()),
        Kind::Number => number_value(stack.number(index).unwrap_or_default()),
        Kind::String => text_or_blob(stack.bytes(index).unwrap_or_default()),
        Kind::Table => return blob_field(stack, index),
        _ => return None,
    })
}

/// [`value_at`] for an argument, whose bytes live as long as it stays in place: a blob takes the place of its table, which
/// others may change meanwhile.
#[inline]
pub fn argument_at(stack: Stack<'_>, index: c_int) -> Option<DatumRef<'_>> {
    if stack.kind(index) != Kind::Table {
        return value_at(stack, index);
    }
    stack.get_field(index, "blob");
    if stack.kind(-1) != Kind::String {
        stack.pop(1);
        return None;
    }
    stack.replace(index);
    stack.bytes(index).map(DatumRef::Blob)
}

/// A string as TEXT if it can be one.
#[inline]
fn text_or_blob(bytes: &[u8]) -> DatumRef<'_> {
    if std::str::from_utf8(bytes).is_ok() { DatumRef::Text(bytes) } else { DatumRef::Blob(bytes) }
}

#[inline]
fn number_value(number: f64) -> DatumRef<'static> {
    if number.trunc() == number && number.abs() <= EXACT_MAX as f64 {
        DatumRef::Int(number as i64)
    } else if number.is_nan() {
        DatumRef::Null
    } else {
        DatumRef::Real(number)
    }
}

/// The string in the field `blob` of the table at `index`, which stays alive with the table.
#[cold]
fn blob_field(stack: Stack<'_>, index: c_int) -> Option<DatumRef<'_>> {
    stack.get_field(index, "blob");
    let is_string = stack.kind(-1) == Kind::String;
    let bytes = stack.bytes(-1).filter(|_| is_string);
    stack.pop(1);
    bytes.map(DatumRef::Blob)
}

/// Takes the row that the table on top is now, which was made of `cells`.
///
/// # Errors
/// It has a field that is no column, or a value that is none of a table's.
pub fn read_row(stack: Stack<'_>, cells: &[Cell<'_>]) -> Result<Vec<Datum>, String> {
    let mut row = Vec::with_capacity(cells.len());
    let mut present = 0;
    for cell in cells {
        stack.get_field(-1, cell.name);
        let unfit = || format!("a {} is no value for column {}", stack.type_name(-1), cell.name);
        let value = value_at(stack, -1).ok_or_else(unfit).map(|value| of_column(value, cell));
        present += usize::from(stack.kind(-1) != Kind::Nil);
        stack.pop(1);
        row.push(value?);
    }
    match other_field(stack, cells, present) {
        Some(name) => Err(format!("the row has no column {name}")),
        None => Ok(row),
    }
}

/// What a value from Lua is for the column that it comes back for.
fn of_column(value: DatumRef<'_>, cell: &Cell<'_>) -> Datum {
    match (value, cell.value) {
        (DatumRef::Text(bytes), _) if cell.is_blob => Datum::blob(bytes),
        // An integer that went out as its digits and has not changed.
        (DatumRef::Text(bytes), DatumRef::Int(number)) if *bytes == *number::i64_text(number) => Datum::Int(number),
        (value, _) => value.to_owned(),
    }
}

/// A field of the table on top that is none of the columns, if it has more than the `present` ones that are.
fn other_field(stack: Stack<'_>, cells: &[Cell<'_>], present: usize) -> Option<String> {
    let (mut fields, mut other) = (0, None);
    stack.push_nil();
    while stack.next(-2) {
        stack.pop(1);
        fields += 1;
        let name = if stack.kind(-1) == Kind::String { stack.bytes(-1).unwrap_or_default() } else { b"?" };
        if other.is_none() && !cells.iter().any(|cell| cell.name.as_bytes() == name) {
            other = Some(String::from_utf8_lossy(name).into_owned());
        }
    }
    other.filter(|_| fields > present)
}
