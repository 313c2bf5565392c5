//! The values of an xFilter call: as keys to look up, bounds of ranges, or what a row at hand is compared with.

use super::plan::{Bound, Limit, LimitKind, Slot, exclude_null};
use super::row_values::unpack;
use crate::sql::run::Outcome;
use crate::sql::sqlite::value;
use crate::table::batch::Batch;
use crate::table::catalog::{IndexColumn, IndexDef, IndexId, TableDef};
use crate::table::datum::{Datum, DatumRef};
use crate::table::key::{KeyBuf, put_column, put_text_prefix};
use crate::table::row::{Row, RowLayout};
use crate::table::types::{self, Storage};
use libsqlite3_sys as ffi;
use smallvec::SmallVec;

/// A value in the form in which the column compares it.
enum Fitted<'a> {
    /// Compare with this.
    Value(DatumRef<'a>),
    /// The comparison is true for no row.
    Never,
    /// Only SQLite can judge (a number against a TEXT column, for one): give it all rows.
    Unknown,
}

/// The values that one argument stands for.
type Values = SmallVec<[Datum; 1]>;

/// A range of an index still to be walked.
pub(super) struct Range {
    pub prefix: KeyBuf,
    pub low: Bound,
    pub high: Bound,
    pub index: IndexId,
    pub desc: bool,
}

/// The values of an xFilter call.
pub(super) struct Arguments<'a> {
    pub values: &'a [*mut ffi::sqlite3_value],
    pub def: &'a TableDef,
}

impl Arguments<'_> {
    /// All values of a slot as they come; a list is read to its end.
    ///
    /// # Safety
    /// The values are those of the running xFilter call.
    pub unsafe fn all(&self, slot: &Slot, storage: Storage) -> Outcome<Values> {
        let mut values = Values::new();
        let Some(argument) = slot.argument else { return Ok(SmallVec::from_elem(Datum::Null, 1)) };
        let argument = self.values[usize::from(argument)];
        if !slot.list {
            // SAFETY: the caller's promise; the value is copied before SQLite runs again.
            values.push(unsafe {
                match (value::read(argument), storage) {
                    (DatumRef::Int(_) | DatumRef::Real(_), Storage::Text) if self.is_sure(slot) => {
                        value::to_text(argument)
                    }
                    (value, _) => value.to_owned(),
                }
            });
            return Ok(values);
        }
        let mut item = std::ptr::null_mut();
        // SAFETY: the argument is the list of an IN that xBestIndex asked for with sqlite3_vtab_in; each item is read
        // before the next one is asked for.
        unsafe {
            let mut code = ffi::sqlite3_vtab_in_first(argument, &mut item);
            while code == ffi::SQLITE_OK {
                values.push(value::read(item).to_owned());
                code = ffi::sqlite3_vtab_in_next(argument, &mut item);
            }
            if code != ffi::SQLITE_DONE {
                let text = format!("cursor.rs: reading an IN list: SQLite error {code}");
                return Err(crate::error::Error::new(crate::error::Code::Bug, text).into());
            }
        }
        Ok(values)
    }

    /// True when the value is a literal's or a parameter's: then its type is what it is compared as.
    ///
    /// # Safety
    /// As for `all`.
    unsafe fn is_sure(&self, slot: &Slot) -> bool {
        // SAFETY: the caller's promise.
        let is_parameter = |a: u8| unsafe { ffi::sqlite3_value_frombind(self.values[usize::from(a)]) != 0 };
        !slot.list && (slot.sure || slot.argument.is_some_and(is_parameter))
    }

    /// The one value of a slot: None when only SQLite can judge, Some(None) when nothing can match.
    ///
    /// # Safety
    /// As for `all`.
    pub unsafe fn single(&self, slot: &Slot, position: u16) -> Outcome<Option<Option<Datum>>> {
        let storage = self.def.stored[usize::from(position)].storage;
        // SAFETY: the caller's promise.
        let (values, sure) = unsafe { (self.all(slot, storage)?, self.is_sure(slot)) };
        Ok(values.first().and_then(|value| match fit(value.as_ref(), storage, sure, slot.null_equals) {
            Fitted::Value(value) => Some(Some(value.to_owned())),
            Fitted::Never => Some(None),
            Fitted::Unknown => None,
        }))
    }

    /// Extends every key by every value of a slot. False when only SQLite can judge.
    ///
    /// # Safety
    /// As for `all`.
    unsafe fn extend(&self, keys: &mut Vec<KeyBuf>, slot: &Slot, column: &IndexColumn) -> Outcome<bool> {
        let storage = self.def.stored[usize::from(column.position)].storage;
        // SAFETY: the caller's promise.
        let (values, sure) = unsafe { (self.all(slot, storage)?, self.is_sure(slot)) };
        let mut extended = Vec::with_capacity(keys.len() * values.len());
        for key in keys.iter() {
            for value in &values {
                match fit(value.as_ref(), storage, sure, slot.null_equals) {
                    Fitted::Value(value) => {
                        let mut key = key.clone();
                        put_column(value, column, &mut key);
                        extended.push(key);
                    }
                    Fitted::Never => {}
                    Fitted::Unknown => return Ok(false),
                }
            }
        }
        if slot.list {
            // Values that differ may have equal keys ('a' and 'A' without case); each row is to be found once.
            extended.sort_unstable();
            extended.dedup();
        }
        *keys = extended;
        Ok(true)
    }

    /// Puts the one key of values that need no judgement and no copy into `keys`; false when there is none: see `keys`.
    ///
    /// # Safety
    /// As for `all`.
    #[inline]
    pub unsafe fn one_key(&self, index: &IndexDef, slots: &[Slot], keys: &mut Batch) -> bool {
        keys.clear();
        let encoded = keys.write(|key| {
            for (slot, column) in slots.iter().zip(&index.columns) {
                let storage = self.def.stored[usize::from(column.position)].storage;
                let argument = slot.argument.ok_or(())?;
                // SAFETY: the caller's promise; the value is used before SQLite runs again.
                let value = unsafe { value::read(self.values[usize::from(argument)]) };
                match fit(value, storage, false, slot.null_equals) {
                    Fitted::Value(value) if !slot.list => put_column(value, column, key),
                    _ => return Err(()),
                }
            }
            Ok(())
        });
        encoded.is_ok()
    }

    /// The argument and the position of a key that is one integer.
    pub fn one_integer(&self, index: &IndexDef, slots: &[Slot]) -> Option<(u8, u16)> {
        let ([slot], [column], None) = (slots, &index.columns[..], index.filter) else { return None };
        let storage = self.def.stored[usize::from(column.position)].storage;
        slot.argument.filter(|_| storage == Storage::Int).map(|argument| (argument, column.position))
    }

    /// Is this surely a row with the key of the values? False when it takes a look-up to know.
    ///
    /// # Safety
    /// As for `all`.
    #[inline]
    pub unsafe fn are_key_of(&self, row: &[u8], layout: &RowLayout, index: &IndexDef, slots: &[Slot]) -> bool {
        // Equal values have equal keys. Of others, and of those that SQLite would convert first, the look-up knows.
        let is_equal = |slot: &Slot, column: &IndexColumn| {
            let storage = self.def.stored[usize::from(column.position)].storage;
            // SAFETY: the caller's promise; the value is used before SQLite runs again.
            let value = slot.argument.map(|place| unsafe { value::read(self.values[usize::from(place)]) });
            let own = Row::new(row, layout).get_likely_number(column.position);
            match (value, own) {
                (Some(DatumRef::Int(given)), DatumRef::Int(own)) => given == own && storage == Storage::Int,
                (Some(DatumRef::Text(given)), DatumRef::Text(own)) => given == own && storage == Storage::Text,
                _ => false,
            }
        };
        index.filter.is_none() && slots.iter().zip(&index.columns).all(|(slot, column)| is_equal(slot, column))
    }

    /// The whole keys to look up. None when only SQLite can judge.
    ///
    /// # Safety
    /// As for `all`.
    pub unsafe fn keys(&self, index: &IndexDef, slots: &[Slot]) -> Outcome<Option<Vec<KeyBuf>>> {
        let mut keys = vec![KeyBuf::new()];
        for (slot, column) in slots.iter().zip(&index.columns) {
            // SAFETY: the caller's promise.
            if !unsafe { self.extend(&mut keys, slot, column)? } {
                return Ok(None);
            }
        }
        Ok(Some(keys))
    }

    /// The number in an argument; 0 when it is none or negative.
    ///
    /// # Safety
    /// As for `all`.
    pub unsafe fn number(&self, argument: Option<u8>) -> u64 {
        // SAFETY: the caller's promise.
        match argument.map(|argument| unsafe { value::read(self.values[usize::from(argument)]) }) {
            Some(DatumRef::Int(number)) => u64::try_from(number).unwrap_or(0),
            _ => 0,
        }
    }

    /// The ranges to walk, in key order. Where only SQLite can judge, the range is wider.
    ///
    /// # Safety
    /// As for `all`.
    pub unsafe fn ranges(
        &self,
        index: &IndexDef,
        equal: &[Slot],
        limits: [&Option<Limit>; 2],
        ranges: &mut Vec<Range>,
    ) -> Outcome<()> {
        let mut prefixes = vec![KeyBuf::new()];
        for (i, (slot, column)) in equal.iter().zip(&index.columns).enumerate() {
            let before = prefixes.clone();
            // SAFETY: the caller's promise.
            if !unsafe { self.extend(&mut prefixes, slot, column)? } {
                ranges.extend(before.into_iter().map(|prefix| Range::new(prefix, index, None, None, i)));
                return Ok(());
            }
        }
        // SAFETY: the caller's promise.
        let bounds = unsafe { limits.map(|limit| self.bound(limit, index, equal.len())) };
        let [low, high] = bounds;
        let (Some(low), Some(high)) = (low?, high?) else { return Ok(()) };
        for prefix in prefixes {
            ranges.push(Range::new(prefix, index, low.clone(), high.clone(), equal.len()));
        }
        Ok(())
    }

    /// The encoding of a bound: None when nothing can match, Some(None) when there is no bound.
    ///
    /// # Safety
    /// As for `all`.
    unsafe fn bound(&self, limit: &Option<Limit>, index: &IndexDef, column: usize) -> Outcome<Option<Bound>> {
        let Some(limit) = limit else { return Ok(Some(None)) };
        let columns = &index.columns[column..];
        let mut key = KeyBuf::new();
        // SAFETY: the caller's promise.
        unsafe {
            match limit.kind {
                LimitKind::Row(count) => return self.row_bound(limit, &columns[..usize::from(count)]),
                LimitKind::Like | LimitKind::Glob => return self.pattern_bound(limit, &columns[0]),
                LimitKind::NotNull => put_column(DatumRef::Null, &columns[0], &mut key),
                LimitKind::Value => match self.single(&limit.slot, columns[0].position)? {
                    None => return Ok(Some(None)),
                    Some(None) => return Ok(None),
                    Some(Some(value)) => put_column(value.as_ref(), &columns[0], &mut key),
                },
            }
        }
        Ok(Some(Some((key, limit.inclusive))))
    }

    /// The bound by several columns at once; of their values as many as can be judged here.
    ///
    /// # Safety
    /// As for `all`.
    unsafe fn row_bound(&self, limit: &Limit, columns: &[IndexColumn]) -> Outcome<Option<Bound>> {
        let Some(argument) = limit.slot.argument else { return Ok(Some(None)) };
        // SAFETY: the caller's promise; the value is copied before SQLite runs again.
        let DatumRef::Blob(packed) = (unsafe { value::read(self.values[usize::from(argument)]) }) else {
            return Ok(Some(None));
        };
        let values = unpack(packed);
        let (mut key, mut used) = (KeyBuf::new(), 0);
        for (column, value) in columns.iter().zip(&values) {
            let storage = self.def.stored[usize::from(column.position)].storage;
            let text;
            let value = match (storage, value) {
                (Storage::Text, Datum::Int(i)) => {
                    text = Datum::text(i.to_string());
                    &text
                }
                _ => value,
            };
            let Fitted::Value(value) = fit(value.as_ref(), storage, true, false) else { break };
            put_column(value, column, &mut key);
            used += 1;
        }
        // A row that equals the values that count here is decided by the others.
        let inclusive = limit.inclusive || used < values.len();
        Ok(Some((used > 0).then_some((key, inclusive))))
    }

    /// The keys of the texts that begin as the pattern does; all texts when it begins with a wildcard.
    ///
    /// # Safety
    /// As for `all`.
    unsafe fn pattern_bound(&self, limit: &Limit, column: &IndexColumn) -> Outcome<Option<Bound>> {
        // SAFETY: the caller's promise.
        let values = unsafe { self.all(&limit.slot, Storage::Text)? };
        let Some(Datum::Text(pattern)) = values.first() else {
            return Ok(if values.first() == Some(&Datum::Null) { None } else { Some(None) });
        };
        let wildcards: &[u8] = if limit.kind == LimitKind::Like { b"%_" } else { b"*?[" };
        let length = pattern.iter().position(|b| wildcards.contains(b) || *b == 0).unwrap_or(pattern.len());
        let mut key = KeyBuf::new();
        put_text_prefix(&pattern[..length], column, &mut key);
        Ok(Some(Some((key, true))))
    }
}

impl Range {
    /// A range of the keys that begin with `prefix`; the bounds hold the encoding of the column after it.
    fn new(prefix: KeyBuf, index: &IndexDef, low: Bound, high: Bound, column: usize) -> Range {
        let whole = |bound: Bound| {
            bound.map(|(key, inclusive)| {
                let mut whole = prefix.clone();
                whole.extend_from_slice(&key);
                (whole, inclusive)
            })
        };
        let (mut low, high) = (whole(low), whole(high));
        let column = index.columns.get(column);
        exclude_null(&mut low, &high, &prefix, column);
        Range { prefix, low, high, index: index.id, desc: column.is_some_and(|c| c.desc) }
    }
}

/// Brings a value into the form in which SQLite would compare it with a column.
///
/// A column of numbers makes a number of a text that spells one. A TEXT column makes text of a number that is a literal
/// or a parameter (done when it was read); if the number comes from a column of numbers, then the column's text is made
/// a number, row by row, which no index can answer. `sure` says that the value does not come from a column.
#[inline]
fn fit(value: DatumRef<'_>, storage: Storage, sure: bool, null_equals: bool) -> Fitted<'_> {
    match (storage, value) {
        (_, DatumRef::Null) if null_equals => Fitted::Value(DatumRef::Null),
        (_, DatumRef::Null) => Fitted::Never,
        (Storage::Int | Storage::Real, DatumRef::Text(bytes)) => {
            Fitted::Value(types::number(bytes).unwrap_or(DatumRef::Text(bytes)))
        }
        (Storage::Text, DatumRef::Int(_) | DatumRef::Real(_)) => Fitted::Unknown,
        (Storage::Any, DatumRef::Int(_) | DatumRef::Real(_) | DatumRef::Text(_)) if !sure => Fitted::Unknown,
        (_, value) => Fitted::Value(value),
    }
}
