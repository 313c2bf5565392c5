//! Queries whose rows go to the keyspace: SELECT .. STORE INTO, and the keys that DELETE FROM keys deletes.

use super::split::{DeleteKeys, Form};
use super::text::Script;
use crate::error::{Code, Error, Result};
use crate::limits;
use crate::sql::error::sql;
use crate::sql::run::{Host, Shape};
use crate::sql::sqlite::{Connection, Prepared, Step};
use crate::sql::token::Kind;
use crate::table::datum::{Datum, DatumRef};

/// What becomes of the rows of a query.
pub enum Sink {
    /// They make the value of a key.
    Store(Shape, Key),
    /// They are keys to delete.
    Delete(DeleteKeys),
}

/// A key that a statement names.
pub enum Key {
    /// The text itself.
    Text(Vec<u8>),
    /// The parameter at this place.
    Parameter(usize),
}

/// Reads the clause of a query with so many columns.
pub fn compile(script: &Script<'_>, form: &Form, columns: usize) -> Result<Option<Sink>> {
    if let Some(keys) = form.keys {
        return Ok(Some(Sink::Delete(keys)));
    }
    let Some(store) = &form.store else { return Ok(None) };
    let (wanted, what) = match store.shape {
        Shape::Hash => (2, "HASH takes two columns, field and value"),
        Shape::ZSet => (2, "ZSET takes two columns, member and score"),
        Shape::Set => (1, "SET takes one column, the member"),
        _ => (1, "LIST takes one column, the value"),
    };
    if columns != wanted {
        return Err(sql(format!("STORE INTO {what}; the query has {columns}")));
    }
    let key = match script.token(store.key) {
        Some(token) if token.kind == Kind::Text => Key::Text(token.unquoted().as_bytes().to_vec()),
        _ => Key::Parameter(script.parameter(store.key).unwrap_or(1) - 1),
    };
    Ok(Some(Sink::Store(store.shape, key)))
}

/// The rows of a query, all of them.
pub fn collect(
    connection: &Connection,
    prepared: &mut Prepared,
    columns: usize,
    params: &[DatumRef<'_>],
) -> Result<Vec<Vec<Datum>>> {
    for (i, value) in params.iter().enumerate() {
        prepared.bind(i + 1, *value)?;
    }
    let (mut rows, mut bytes) = (Vec::new(), 0);
    loop {
        match prepared.step() {
            Step::Done => return Ok(rows),
            Step::Failed(code) => return Err(connection.error(code, "")),
            Step::Row => {
                let row: Vec<Datum> = (0..columns).map(|i| prepared.column(i).to_owned()).collect();
                bytes += row.iter().map(|value| size_of::<Datum>() + length(value)).sum::<usize>();
                if bytes > limits::SQL_RESULT_BYTES_MAX {
                    let text = format!("more than {} bytes for the keyspace: use LIMIT", limits::SQL_RESULT_BYTES_MAX);
                    return Err(Error::new(Code::Limit, text));
                }
                rows.push(row);
            }
        }
    }
}

fn length(value: &Datum) -> usize {
    match value {
        Datum::Text(bytes) | Datum::Blob(bytes) => bytes.len(),
        _ => 0,
    }
}

impl Sink {
    /// Takes the rows in; gives the number of elements stored, or of keys deleted.
    pub fn take(&self, host: &mut dyn Host, params: &[DatumRef<'_>], rows: Vec<Vec<Datum>>) -> Result<u64> {
        match self {
            Sink::Store(shape, key) => {
                let number;
                let key = match key {
                    Key::Text(text) => &text[..],
                    Key::Parameter(place) => match params[*place] {
                        DatumRef::Text(bytes) | DatumRef::Blob(bytes) => bytes,
                        DatumRef::Int(i) => {
                            number = i.to_string();
                            number.as_bytes()
                        }
                        _ => return Err(sql("STORE INTO: the key is a text")),
                    },
                };
                host.store_key(key, *shape, &rows).map(|count| count as u64)
            }
            Sink::Delete(_) => {
                let bytes = |row: Vec<Datum>| match row.into_iter().next() {
                    Some(Datum::Text(bytes) | Datum::Blob(bytes)) => Some(bytes.to_vec()),
                    _ => None,
                };
                let keys: Vec<Vec<u8>> = rows.into_iter().filter_map(bytes).collect();
                host.delete_keys(&keys)
            }
        }
    }

    /// May it be done a part at a time?
    pub fn is_sliced(&self) -> bool {
        matches!(self, Sink::Delete(DeleteKeys::Sliced))
    }
}
