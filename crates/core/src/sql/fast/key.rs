//! Index keys from the values of a statement, compared as SQLite would compare them with the columns.

use super::read::{Condition, Value};
use crate::sql::table_info::TableInfo;
use crate::sql::vtab::describe::Step;
use crate::sql::vtab::plan::{EQUAL_ROWS, Plan, Slot};
use crate::table::catalog::{IndexColumn, IndexDef, IndexId};
use crate::table::datum::DatumRef;
use crate::table::key::{KeyBuf, put_column};
use crate::table::types::{self, Storage};
use smallvec::SmallVec;

/// A column of an index, and how its values are stored.
#[derive(Clone, Copy, Debug)]
pub struct KeyColumn {
    column: IndexColumn,
    storage: Storage,
}

impl KeyColumn {
    /// The column as the index has it.
    pub fn column(&self) -> &IndexColumn {
        &self.column
    }

    /// All columns of an index.
    pub fn all(info: &TableInfo, index: &IndexDef) -> SmallVec<[KeyColumn; 2]> {
        let storage = |position: u16| info.def.stored[usize::from(position)].storage;
        index.columns.iter().map(|c| KeyColumn { column: *c, storage: storage(c.position) }).collect()
    }
}

/// What became of a value or a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoded {
    /// Its bytes were appended.
    Bytes,
    /// No row can match.
    Never,
    /// Only SQLite can judge.
    Unknown,
}

/// Appends one column of a key.
#[inline]
pub fn encode(value: DatumRef<'_>, column: &KeyColumn, out: &mut KeyBuf) -> Encoded {
    let mut digits = itoa::Buffer::new();
    let value = match (column.storage, value) {
        (_, DatumRef::Null) => return Encoded::Never,
        (Storage::Int | Storage::Real, DatumRef::Text(bytes)) => types::number(bytes).unwrap_or(value),
        (Storage::Text, DatumRef::Int(i)) => DatumRef::Text(digits.format(i).as_bytes()),
        // SQLite's text of a double is its own.
        (Storage::Text, DatumRef::Real(_)) => return Encoded::Unknown,
        _ => value,
    };
    put_column(value, &column.column, out);
    Encoded::Bytes
}

/// The values of each column of an index, in its order.
pub type KeyValues = SmallVec<[SmallVec<[Value; 1]>; 2]>;

/// Puts the conditions into the order of the index's columns. At most one of them may be a list.
pub fn values_of(info: &TableInfo, index: &IndexDef, conditions: &[Condition]) -> Option<KeyValues> {
    if conditions.iter().filter(|c| c.list).count() > 1 {
        return None;
    }
    let of = |position: u16| conditions.iter().find(|c| info.def.columns[c.column].position == position);
    index.columns.iter().map(|c| of(c.position).map(|condition| condition.values.clone())).collect()
}

/// Has the index one row for a key at most?
pub fn is_unique(info: &TableInfo, index: IndexId) -> bool {
    info.def.index(index).is_some_and(|i| i.unique)
}

/// The look-up of these values, for EXPLAIN.
pub fn step(info: &TableInfo, index: IndexId, values: &KeyValues) -> Step {
    let slot = |values: &SmallVec<[Value; 1]>| Slot {
        argument: Some(0),
        list: values.len() > 1,
        null_equals: false,
        sure: true,
    };
    let unique = info.def.index(index).is_some_and(|i| i.unique);
    let columns: SmallVec<[Slot; 4]> = values.iter().map(slot).collect();
    let questions = values.iter().map(SmallVec::len).max().unwrap_or(1);
    let rows = if unique { questions as f64 } else { EQUAL_ROWS * questions as f64 };
    Step::new(&info.def, &Plan::Keys { index, columns, single: unique, reverse: false }, rows)
}

/// The whole keys of the values: one, or one for each item of the list, each once.
#[inline]
pub fn keys(
    columns: &[KeyColumn],
    values: &KeyValues,
    params: &[DatumRef<'_>],
    out: &mut crate::table::batch::Batch,
) -> Encoded {
    out.clear();
    let mut key = KeyBuf::new();
    // The usual statement asks for one key of one column.
    if let ([column], [values]) = (columns, &values[..])
        && let [value] = &values[..]
    {
        let encoded = encode(value.get(params), column, &mut key);
        if encoded == Encoded::Bytes {
            out.push(&key);
        }
        return encoded;
    }
    let longest = values.iter().map(SmallVec::len).max().unwrap_or(0);
    let mut known = Known::default();
    for i in 0..longest {
        key.clear();
        let mut encoded = Encoded::Bytes;
        for (column, values) in columns.iter().zip(values) {
            let value = &values[if values.len() == 1 { 0 } else { i }];
            encoded = encode(value.get(params), column, &mut key);
            if encoded != Encoded::Bytes {
                break;
            }
        }
        match encoded {
            Encoded::Unknown => return Encoded::Unknown,
            Encoded::Bytes if longest == 1 || known.is_new(&key, out) => out.push(&key),
            _ => {}
        }
    }
    if out.is_empty() { Encoded::Never } else { Encoded::Bytes }
}

/// Which keys of a list may have come before: a bit for each of 64 kinds of keys. Only when the kind is known are the keys
/// searched.
#[derive(Default)]
struct Known(u64);

impl Known {
    #[inline]
    fn is_new(&mut self, key: &[u8], keys: &crate::table::batch::Batch) -> bool {
        let kind = 1 << (crate::ds::hash::bytes(key) % 64);
        let may_be_known = self.0 & kind != 0;
        self.0 |= kind;
        !may_be_known || !keys.iter().any(|known| known == key)
    }
}
