//! Column types: their names, and the strict check that turns a value into one the column may hold, or refuses it.
//!
//! The rule is that of SQLite's STRICT tables: a value of another type is converted when nothing is lost by it (text
//! `'3'` or real `3.0` into an INTEGER column), and is an error otherwise. Nothing is rounded, cut or replaced.

use super::datum::{Datum, DatumRef, order_int_real, real_text};
use super::{decimal, time};
use crate::error::{Code, Error, Result};
use std::cmp::Ordering;
use std::fmt;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// 64-bit integers (also INT, BIGINT, SMALLINT, BOOLEAN ...).
    Integer,
    /// Doubles.
    Real,
    /// UTF-8 text of at most so many characters.
    Text {
        /// The n of VARCHAR(n) and CHAR(n).
        chars_max: Option<u32>,
    },
    /// Bytes.
    Blob,
    /// Text `YYYY-MM-DD` naming a day that exists.
    Date,
    /// Text `YYYY-MM-DD HH:MM:SS[.f...]`.
    DateTime,
    /// Well-formed JSON text.
    Json,
    /// Exact decimal numbers as canonical text; compared as numbers.
    Decimal {
        /// Most digits in all; 0: only the general limit.
        precision: u8,
        /// Digits after the point, always shown; `None`: as many as the value has.
        scale: Option<u8>,
    },
    /// Any value, as it comes (hidden columns of expression indexes).
    Any,
}

/// How a text column compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Collation {
    /// By bytes.
    #[default]
    Binary,
    /// By bytes, ASCII letters without case.
    NoCase,
    /// By bytes, trailing spaces ignored.
    RTrim,
    /// By numeric value (DECIMAL columns).
    Decimal,
}

/// The form in which a row keeps a column's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// An integer in the bytes it needs.
    Int,
    /// A double without its trailing zero bytes.
    Real,
    /// Text bytes.
    Text,
    /// Bytes.
    Blob,
    /// A tagged value of any type.
    Any,
}

impl ColumnType {
    /// Reads a type as written in CREATE TABLE: a name and up to two numbers in parentheses.
    pub fn parse(declared: &str) -> Option<ColumnType> {
        let (name, arguments) = match declared.split_once('(') {
            Some((name, rest)) => (name, parse_arguments(rest.trim_end().strip_suffix(')')?)?),
            None => (declared, Vec::new()),
        };
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ").to_ascii_uppercase();
        let first = arguments.first().copied();
        Some(match name.as_str() {
            "INTEGER" | "INT" | "BIGINT" | "SMALLINT" | "TINYINT" | "MEDIUMINT" | "INT2" | "INT4" | "INT8"
            | "BOOLEAN" | "BOOL" => ColumnType::Integer,
            "REAL" | "DOUBLE" | "DOUBLE PRECISION" | "FLOAT" => ColumnType::Real,
            "TEXT" | "CLOB" | "LONGTEXT" | "MEDIUMTEXT" | "TINYTEXT" | "STRING" => ColumnType::Text { chars_max: None },
            "VARCHAR" | "CHAR" | "CHARACTER" | "NCHAR" | "NVARCHAR" | "CHARACTER VARYING" => {
                ColumnType::Text { chars_max: first }
            }
            "BLOB" | "BINARY" | "VARBINARY" | "LONGBLOB" | "BYTEA" => ColumnType::Blob,
            "DATE" => ColumnType::Date,
            "DATETIME" | "TIMESTAMP" => ColumnType::DateTime,
            "JSON" => ColumnType::Json,
            "DECIMAL" | "NUMERIC" | "DEC" => decimal_type(&arguments)?,
            "ANY" => ColumnType::Any,
            _ => return None,
        })
    }

    /// The storage form of the type.
    pub fn storage(self) -> Storage {
        match self {
            ColumnType::Integer => Storage::Int,
            ColumnType::Real => Storage::Real,
            ColumnType::Blob => Storage::Blob,
            ColumnType::Any => Storage::Any,
            _ => Storage::Text,
        }
    }

    /// The base type under which SQLite knows the column.
    pub fn sqlite_name(self) -> &'static str {
        match self.storage() {
            Storage::Int => "INTEGER",
            Storage::Real => "REAL",
            Storage::Text => "TEXT",
            Storage::Blob => "BLOB",
            Storage::Any => "",
        }
    }

    /// The collation of a column of this type unless it names one.
    pub fn collation(self) -> Collation {
        if matches!(self, ColumnType::Decimal { .. }) { Collation::Decimal } else { Collation::Binary }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColumnType::Text { chars_max: Some(n) } => write!(f, "VARCHAR({n})"),
            ColumnType::Decimal { precision: 0, .. } => f.write_str("DECIMAL"),
            ColumnType::Decimal { precision, scale: None } => write!(f, "DECIMAL({precision})"),
            ColumnType::Decimal { precision, scale: Some(scale) } => write!(f, "DECIMAL({precision},{scale})"),
            ColumnType::Date => f.write_str("DATE"),
            ColumnType::DateTime => f.write_str("DATETIME"),
            ColumnType::Json => f.write_str("JSON"),
            ColumnType::Any => f.write_str("ANY"),
            _ => f.write_str(self.sqlite_name()),
        }
    }
}

fn parse_arguments(text: &str) -> Option<Vec<u32>> {
    let numbers: Option<Vec<u32>> = text.split(',').map(|n| n.trim().parse().ok()).collect();
    numbers.filter(|n| n.len() <= 2)
}

fn decimal_type(arguments: &[u32]) -> Option<ColumnType> {
    let limit = decimal::DIGITS_MAX as u32;
    Some(match *arguments {
        [] => ColumnType::Decimal { precision: 0, scale: None },
        [p] if (1..=limit).contains(&p) => ColumnType::Decimal { precision: p as u8, scale: Some(0) },
        [p, s] if (1..=limit).contains(&p) && s <= p => {
            ColumnType::Decimal { precision: p as u8, scale: Some(s as u8) }
        }
        _ => return None,
    })
}

/// A value that fits its column: as it came, or converted.
#[derive(Clone, Debug)]
pub enum Fitted<'a> {
    /// Nothing had to change.
    AsIs(DatumRef<'a>),
    /// The converted value.
    Converted(Datum),
}

impl Fitted<'_> {
    /// The value.
    #[inline]
    pub fn as_ref(&self) -> DatumRef<'_> {
        match self {
            Fitted::AsIs(value) => *value,
            Fitted::Converted(value) => value.as_ref(),
        }
    }
}

/// Fits a value into a column of type `ctype`, or says why not. `table` and `column` name it in the error.
#[inline]
pub fn coerce<'a>(value: DatumRef<'a>, ctype: ColumnType, table: &str, column: &str) -> Result<Fitted<'a>> {
    match (ctype, value) {
        (_, DatumRef::Null) | (ColumnType::Integer, DatumRef::Int(_)) | (ColumnType::Blob, DatumRef::Blob(_)) => {
            Ok(Fitted::AsIs(value))
        }
        _ => convert(value, ctype).map_err(|why| misfit(value, ctype, table, column, why)),
    }
}

/// Why a value does not fit; an empty reason when the types say it all.
type Misfit = &'static str;

type Fit<T> = std::result::Result<T, Misfit>;

fn convert(value: DatumRef<'_>, ctype: ColumnType) -> Fit<Fitted<'_>> {
    match ctype {
        ColumnType::Integer => to_integer(value).map(|i| Fitted::Converted(Datum::Int(i))),
        ColumnType::Real => to_real(value).map(|r| Fitted::Converted(Datum::Real(r))),
        ColumnType::Text { chars_max } => fit_text(value, chars_max),
        ColumnType::Blob => {
            if matches!(value, DatumRef::Blob(_)) {
                Ok(Fitted::AsIs(value))
            } else {
                Err("")
            }
        }
        ColumnType::Date => time::fit_date(text_of(value)?).map(|_| Fitted::AsIs(value)),
        ColumnType::DateTime => match time::fit_date_time(text_of(value)?)? {
            None => Ok(Fitted::AsIs(value)),
            Some(text) => Ok(Fitted::Converted(Datum::text(text))),
        },
        ColumnType::Json => {
            super::json::check(text_of(value)?)?;
            Ok(Fitted::AsIs(value))
        }
        ColumnType::Decimal { precision, scale } => decimal::fit(value, precision, scale),
        ColumnType::Any => match value {
            DatumRef::Text(bytes) => std::str::from_utf8(bytes).map(|_| Fitted::AsIs(value)).map_err(|_| NOT_UTF8),
            DatumRef::Real(r) if r.is_nan() => Ok(Fitted::AsIs(DatumRef::Null)),
            _ => Ok(Fitted::AsIs(value)),
        },
    }
}

const NOT_UTF8: Misfit = "the text is not UTF-8";

fn text_of(value: DatumRef<'_>) -> Fit<&str> {
    match value {
        DatumRef::Text(bytes) => std::str::from_utf8(bytes).map_err(|_| NOT_UTF8),
        _ => Err(""),
    }
}

fn fit_text(value: DatumRef<'_>, chars_max: Option<u32>) -> Fit<Fitted<'_>> {
    let fitted = match value {
        DatumRef::Text(bytes) => {
            std::str::from_utf8(bytes).map_err(|_| NOT_UTF8)?;
            Fitted::AsIs(value)
        }
        DatumRef::Int(i) => Fitted::Converted(Datum::text(itoa::Buffer::new().format(i))),
        DatumRef::Real(r) => Fitted::Converted(Datum::text(real_text(r))),
        _ => return Err(""),
    };
    if let (Some(max), DatumRef::Text(bytes)) = (chars_max, fitted.as_ref()) {
        // Continuation bytes do not start a character; counting is needed only when the bytes alone could be too many.
        if bytes.len() > max as usize && bytes.iter().filter(|&&b| b & 0xC0 != 0x80).count() > max as usize {
            return Err("the text is too long");
        }
    }
    Ok(fitted)
}

fn to_integer(value: DatumRef<'_>) -> Fit<i64> {
    match value {
        DatumRef::Int(i) => Ok(i),
        DatumRef::Real(r) => whole(r).ok_or("it is not a 64-bit whole number"),
        DatumRef::Text(bytes) => match number(bytes).ok_or("")? {
            DatumRef::Int(i) => Ok(i),
            DatumRef::Real(r) => whole(r).ok_or("it is not a 64-bit whole number"),
            _ => Err(""),
        },
        _ => Err(""),
    }
}

fn to_real(value: DatumRef<'_>) -> Fit<f64> {
    match value {
        DatumRef::Real(r) => Ok(r),
        DatumRef::Int(i) => exact_real(i).ok_or("a double cannot hold it exactly"),
        DatumRef::Text(bytes) => match number(bytes).ok_or("")? {
            DatumRef::Int(i) => exact_real(i).ok_or("a double cannot hold it exactly"),
            DatumRef::Real(r) => Ok(r),
            _ => Err(""),
        },
        _ => Err(""),
    }
}

fn whole(real: f64) -> Option<i64> {
    let int = real as i64; // saturates; the comparison finds out
    (order_int_real(int, real) == Ordering::Equal).then_some(int)
}

fn exact_real(int: i64) -> Option<f64> {
    let real = int as f64;
    (order_int_real(int, real) == Ordering::Equal).then_some(real)
}

/// The number that a text spells out in full (spaces around it allowed, as SQLite's affinity allows them).
pub fn number(text: &[u8]) -> Option<DatumRef<'static>> {
    let text = std::str::from_utf8(text).ok()?.trim_matches([' ', '\t', '\n', '\x0B', '\x0C', '\r']);
    // Rust's parser also knows "inf" and "nan", which SQL does not.
    if !text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E')) {
        return None;
    }
    if let Ok(int) = text.parse::<i64>() {
        return Some(DatumRef::Int(int));
    }
    text.parse::<f64>().ok().map(DatumRef::Real)
}

#[cold]
fn misfit(value: DatumRef<'_>, ctype: ColumnType, table: &str, column: &str, why: Misfit) -> Error {
    let (colon, kind) = (if why.is_empty() { "" } else { ": " }, value.type_name());
    Error::new(Code::Constraint, format!("cannot store {kind} {value} in {ctype} column {table}.{column}{colon}{why}"))
}

/// The error for NULL in a column that may not hold it.
#[cold]
pub fn not_null_failed(table: &str, column: &str) -> Error {
    Error::new(Code::Constraint, format!("NOT NULL constraint failed: {table}.{column}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(value: impl Into<Datum>, declared: &str) -> Result<Datum> {
        let ctype = ColumnType::parse(declared).expect("a known type");
        let value = value.into();
        coerce(value.as_ref(), ctype, "t", "c").map(|f| f.as_ref().to_owned())
    }

    #[test]
    fn names_of_types_are_read() {
        assert_eq!(Some(ColumnType::Integer), ColumnType::parse("smallint"));
        assert_eq!(Some(ColumnType::Integer), ColumnType::parse("INT(11)"));
        assert_eq!(Some(ColumnType::Real), ColumnType::parse("double   precision"));
        assert_eq!(Some(ColumnType::Text { chars_max: Some(20) }), ColumnType::parse("VARCHAR(20)"));
        assert_eq!(Some(ColumnType::Decimal { precision: 10, scale: Some(2) }), ColumnType::parse("DECIMAL(10, 2)"));
        for wrong in ["VARCHAR(", "VARCHAR(x)", "DECIMAL(2,3)", "DECIMAL(1,1,1)", "GEOMETRY", ""] {
            assert_eq!(None, ColumnType::parse(wrong));
        }
    }

    #[test]
    fn lossless_conversions_happen() {
        assert_eq!(Datum::Int(3), fit("3", "INTEGER").unwrap());
        assert_eq!(Datum::Int(3), fit(" 3.0 ", "INTEGER").unwrap());
        assert_eq!(Datum::Int(1000), fit("1e3", "INTEGER").unwrap());
        assert_eq!(Datum::Int(-4), fit(-4.0, "INTEGER").unwrap());
        assert_eq!(Datum::Real(3.0), fit(3, "REAL").unwrap());
        assert_eq!(Datum::Real(0.5), fit(".5", "REAL").unwrap());
        assert_eq!(Datum::text("17"), fit(17, "TEXT").unwrap());
        assert_eq!(Datum::text("1.5"), fit(1.5, "VARCHAR(3)").unwrap());
        assert_eq!(Datum::text("d\u{e9}j"), fit("d\u{e9}j", "CHAR(3)").unwrap());
        assert_eq!(Datum::Null, fit(f64::NAN, "REAL").unwrap());
    }

    #[test]
    fn losses_are_refused() {
        for (value, ctype) in [
            (Datum::from("abc"), "INTEGER"),
            (Datum::from(2.5), "INTEGER"),
            (Datum::from("2.5"), "INTEGER"),
            (Datum::from(9.3e18), "INTEGER"),
            (Datum::from("inf"), "REAL"),
            (Datum::from("0x10"), "INTEGER"),
            (Datum::from(""), "INTEGER"),
            (Datum::from((1 << 53) + 1), "REAL"),
            (Datum::from("abcd"), "VARCHAR(3)"),
            (Datum::blob("abc"), "TEXT"),
            (Datum::from("abc"), "BLOB"),
            (Datum::from(1), "BLOB"),
            (Datum::from(20240101), "DATE"),
            (Datum::Text(super::super::datum::Bytes::from_slice(&[0xFF])), "TEXT"),
            (Datum::from("{"), "JSON"),
        ] {
            assert!(fit(value.clone(), ctype).is_err(), "{value:?} in {ctype}");
        }
    }

    #[test]
    fn the_error_names_everything() {
        let error = fit("abc", "INTEGER").unwrap_err();
        assert_eq!(Code::Constraint, error.code);
        assert_eq!("cannot store TEXT 'abc' in INTEGER column t.c", error.message);
        let error = fit("abcd", "VARCHAR(3)").unwrap_err();
        assert_eq!("cannot store TEXT 'abcd' in VARCHAR(3) column t.c: the text is too long", error.message);
    }
}
