//! Walks one table along the access path that was planned: xFilter, xNext, xColumn.

use super::plan::{Bound, Limit, LimitKind, Plan, Slot, Walk, edges, exclude_null};
use super::row_values::unpack;
use super::transient::Transient;
use crate::engine::{Access, Cursor, Edge, RowBytes, Source};
use crate::sql::run::{Outcome, Run};
use crate::sql::sqlite::value;
use crate::table::batch::Batch;
use crate::table::catalog::{IndexColumn, IndexDef, IndexId, TableDef};
use crate::table::datum::{Datum, DatumRef};
use crate::table::key::{KeyBuf, column_len, put_column, put_text_prefix, take_column};
use crate::table::row::{Row, RowLayout};
use crate::table::row_id::RowId;
use crate::table::types::{self, Collation, Storage};
use libsqlite3_sys as ffi;
use smallvec::SmallVec;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// A cursor of SQLite's over one of our tables.
#[derive(Default)]
pub struct TableCursor {
    cursor: Cursor,
    state: State,
    /// The single row of a point look-up, copied so that no cursor is open when a statement updates it.
    row: Vec<u8>,
    layout: Option<Arc<RowLayout>>,
    row_id: RowId,
    keys: Batch,
    ids: Vec<RowId>,
    /// The ranges still to be walked.
    ranges: Vec<Range>,
    range: usize,
    walk: Walk,
    /// Rows still to be skipped.
    skip: u64,
    /// What the index keys hold, when they are read in the place of rows.
    key_columns: SmallVec<[KeyColumn; 8]>,
    /// The bytes of the row that `cursor` stands on, once they are known.
    current: Cell<Option<RowBytes>>,
    order: Order,
    /// The hash table over the column at this position, once it was asked for.
    transient: Option<(u16, Rc<Transient>)>,
    /// The rows at hand may be walked without a look at the run: nobody counts them.
    uncounted: bool,
    /// The number of its step in the plan, when the statement is analysed.
    pub step: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Done,
    /// On the copied row, after which there is none.
    Single,
    /// On the row of the engine's cursor.
    Walking,
    /// On the entry of the engine's cursor over an index.
    WalkingIndex,
}

/// In which order look-ups by a unique key find their rows. A join of two tables that were filled alike asks for one row
/// behind the other. Once that shows, the rows behind the one found are laid at hand, where each costs a comparison; the
/// others cost a hash and three places in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    /// So many look-ups, the last ones, found the row behind that of the look-up before.
    Rising(u8),
    /// The engine's cursor stands on the row found last, with those behind it at hand. So many look-ups in a row asked for
    /// others.
    Followed { missed: u8 },
}

impl Default for Order {
    fn default() -> Order {
        Order::Rising(0)
    }
}

/// So many look-ups in order make it worth while to lay a page of rows at hand.
const RISING_LEAST: u8 = 32;
/// So many that asked for other rows than the next one make it worth while no longer.
const MISSED_MOST: u8 = 4;

/// A column in the keys of an index.
#[derive(Clone, Copy)]
struct KeyColumn {
    position: u16,
    desc: bool,
    storage: Storage,
}

struct Range {
    prefix: KeyBuf,
    low: Bound,
    high: Bound,
    index: IndexId,
    desc: bool,
}

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

impl TableCursor {
    /// A cursor that stands nowhere.
    pub fn new() -> TableCursor {
        TableCursor::default()
    }

    /// Begins a walk: goes to the first row of the plan with these values.
    ///
    /// # Safety
    /// `arguments` are the values of the running xFilter call, as many as the plan takes.
    pub unsafe fn filter(
        &mut self,
        run: &mut Run<'_>,
        def: &TableDef,
        plan: &Plan,
        arguments: &[*mut ffi::sqlite3_value],
    ) -> Outcome<()> {
        let arguments = Arguments { values: arguments, def };
        // SAFETY: the caller's promise.
        if matches!(plan, Plan::Keys { single: true, .. }) && unsafe { self.find_single(run, plan, &arguments)? } {
            return Ok(());
        }
        self.moves();
        self.order = Order::default();
        self.cursor.close();
        self.ranges.clear();
        self.state = State::Done;
        self.walk = Walk::default();
        match plan {
            Plan::All => self.seek(run, def, &Access::All),
            Plan::Rows(slot) => {
                self.ids.clear();
                // SAFETY: the caller's promise.
                let values = unsafe { arguments.all(slot, Storage::Int)? };
                self.ids.extend(values.iter().filter_map(row_id_of));
                self.seek_ids(run, def)
            }
            Plan::Keys { index, columns, single, reverse } => {
                let Some(index) = def.index(*index) else { return Err(lost_index()) };
                // SAFETY: the caller's promise.
                match unsafe { arguments.keys(index, columns)? } {
                    Some(mut keys) => {
                        if *reverse {
                            keys.reverse();
                        }
                        self.seek_keys(run, def, index, &keys, *single)
                    }
                    None => self.seek(run, def, &Access::All),
                }
            }
            Plan::Range { index, equal, low, high, walk } => {
                let Some(index) = def.index(*index) else { return Err(lost_index()) };
                self.walk = *walk;
                // SAFETY: the caller's promise.
                unsafe {
                    arguments.ranges(index, equal, [low, high], &mut self.ranges)?;
                    self.skip = arguments.number(walk.offset);
                }
                if walk.reverse {
                    self.ranges.reverse();
                }
                self.key_columns.clear();
                if walk.index_only {
                    self.key_columns.extend(KeyColumn::all(def, index));
                }
                self.range = 0;
                self.seek_next_range(run, def)
            }
            Plan::Equal { position, value } => {
                // SAFETY: the caller's promise.
                let value = unsafe { arguments.single(value, *position)? };
                self.seek_equal(run, def, *position, value)
            }
        }
    }

    fn seek(&mut self, run: &mut Run<'_>, def: &TableDef, access: &Access<'_>) -> Outcome<()> {
        self.moves();
        if self.layout.is_none() {
            self.layout = Some(run.host.source().layout(def.id)?.clone());
        }
        let found = run.host.source().seek(&mut self.cursor, def.id, access)?;
        self.state = if found { State::Walking } else { State::Done };
        self.current.set(self.cursor.at_hand());
        self.uncounted = !run.traits.analyzes;
        Ok(())
    }

    fn seek_ids(&mut self, run: &mut Run<'_>, def: &TableDef) -> Outcome<()> {
        let ids = std::mem::take(&mut self.ids);
        let result = self.seek(run, def, &Access::Rows(&ids));
        self.ids = ids;
        result
    }

    fn seek_keys(
        &mut self,
        run: &mut Run<'_>,
        def: &TableDef,
        index: &IndexDef,
        keys: &[KeyBuf],
        single: bool,
    ) -> Outcome<()> {
        self.keys.clear();
        keys.iter().for_each(|key| self.keys.push(key));
        if !single {
            let keys = std::mem::take(&mut self.keys);
            let result = self.seek(run, def, &Access::Keys { index: index.id, keys: &keys });
            self.keys = keys;
            return result;
        }
        self.look_up(run, def, index)
    }

    /// Copies the row of the one key.
    #[inline]
    fn look_up(&mut self, run: &mut Run<'_>, def: &TableDef, index: &IndexDef) -> Outcome<()> {
        let source = run.host.source();
        let (state, row, row_id) = (&mut self.state, &mut self.row, &mut self.row_id);
        source.get_many(def.id, index.id, &self.keys, &mut |_, id, found| {
            row.clear();
            row.extend_from_slice(found.bytes());
            *row_id = id;
            *state = State::Single;
        })?;
        if self.layout.is_none() {
            self.layout = Some(source.layout(def.id)?.clone());
        }
        // `row` does not change before the next look-up, which is a move.
        self.current.set(Some(RowBytes::of(&self.row)));
        self.uncounted = !run.traits.analyzes;
        Ok(())
    }

    /// Finds the one row of a unique key. False: nothing is done, as only SQLite can judge, or the values need a copy.
    ///
    /// # Safety
    /// As for `filter`.
    unsafe fn find_single(&mut self, run: &mut Run<'_>, plan: &Plan, arguments: &Arguments<'_>) -> Outcome<bool> {
        let Plan::Keys { index, columns, .. } = plan else { return Ok(false) };
        let Some(index) = arguments.def.index(*index) else { return Err(lost_index()) };
        self.moves();
        if matches!(self.state, State::Walking | State::WalkingIndex) {
            self.cursor.close();
        }
        self.state = State::Done;
        // SAFETY: the caller's promise.
        if matches!(self.order, Order::Followed { .. }) && unsafe { self.find_behind(run, index, columns, arguments)? }
        {
            self.order = Order::Followed { missed: 0 };
            return Ok(true);
        }
        // SAFETY: the caller's promise.
        if !unsafe { arguments.one_key(index, columns, &mut self.keys) } {
            return Ok(false);
        }
        let last = self.row_id;
        self.look_up(run, arguments.def, index)?;
        self.note_order(run, arguments.def, last)?;
        Ok(true)
    }

    /// Takes the row behind the last one, if the values are its key. False: they are to be looked up.
    ///
    /// # Safety
    /// As for `filter`.
    #[inline]
    unsafe fn find_behind(
        &mut self,
        run: &mut Run<'_>,
        index: &IndexDef,
        columns: &[Slot],
        arguments: &Arguments<'_>,
    ) -> Outcome<bool> {
        if !self.cursor.step() && !run.host.source().next(&mut self.cursor)? {
            return Ok(false);
        }
        self.current.set(self.cursor.at_hand());
        let Some((row, layout)) = self.at_hand() else { return Ok(false) };
        // SAFETY: the caller's promise.
        if !unsafe { arguments.are_key_of(row, layout, index, columns) } {
            return Ok(false);
        }
        self.row_id = self.cursor.row_id();
        self.state = State::Single;
        Ok(true)
    }

    /// Notes where a look-up found its row, and whether it is worth while to have the next ones at hand.
    fn note_order(&mut self, run: &mut Run<'_>, def: &TableDef, last: RowId) -> Outcome<()> {
        let rises = self.state == State::Single && self.row_id.0 == last.0 + 1;
        self.order = match self.order {
            Order::Followed { missed } if missed < MISSED_MOST && self.cursor.go_to(self.row_id) => {
                Order::Followed { missed: missed + 1 }
            }
            Order::Rising(count) if rises && count >= RISING_LEAST => {
                let found = run.host.source().seek(&mut self.cursor, def.id, &Access::From(self.row_id))?;
                if found && self.cursor.at_hand().is_some() { Order::Followed { missed: 0 } } else { Order::Rising(0) }
            }
            Order::Rising(count) if rises => Order::Rising(count + u8::from(run.only_reads && !run.traits.analyzes)),
            Order::Rising(_) => Order::Rising(0),
            Order::Followed { .. } => {
                self.cursor.close();
                Order::Rising(0)
            }
        };
        Ok(())
    }

    fn seek_next_range(&mut self, run: &mut Run<'_>, def: &TableDef) -> Outcome<()> {
        self.state = State::Done;
        while self.state == State::Done && self.range < self.ranges.len() {
            let ranges = std::mem::take(&mut self.ranges);
            let range = &ranges[self.range];
            let (from, to) = edges(&range.prefix, &range.low, &range.high, range.desc);
            let result = self.seek_range(run, def, range.index, from, to);
            self.ranges = ranges;
            self.range += 1;
            result?;
        }
        Ok(())
    }

    fn seek_range(
        &mut self,
        run: &mut Run<'_>,
        def: &TableDef,
        index: IndexId,
        from: Edge<'_>,
        to: Edge<'_>,
    ) -> Outcome<()> {
        let Walk { reverse, index_only, .. } = self.walk;
        self.seek(run, def, &Access::Range { index, from, to, reverse, keys_only: index_only })?;
        if self.state == State::Walking && self.skip > 0 {
            // Counted, not read.
            let skip = std::mem::take(&mut self.skip);
            self.moves();
            let found = run.host.source().skip(&mut self.cursor, skip)?;
            self.state = if found { State::Walking } else { State::Done };
            self.current.set(self.cursor.at_hand());
        }
        if self.state == State::Walking && index_only {
            self.state = State::WalkingIndex;
        }
        Ok(())
    }

    /// Goes from one value of the first columns of the index to the next.
    fn jump(&mut self, run: &mut Run<'_>, def: &TableDef) -> Outcome<()> {
        let mut prefix = KeyBuf::new();
        let key = self.cursor.key();
        for column in &self.key_columns[..usize::from(self.walk.distinct)] {
            let length = column_len(&key[prefix.len()..], column.desc).ok_or_else(damaged_key)?;
            let start = prefix.len();
            prefix.extend_from_slice(&key[start..start + length]);
        }
        self.state = State::Done;
        let ranges = std::mem::take(&mut self.ranges);
        let range = &ranges[self.range - 1];
        let (from, to) = edges(&range.prefix, &range.low, &range.high, range.desc);
        let result = match self.walk.reverse {
            true => self.seek_range(run, def, range.index, from, Edge::Before(&prefix)),
            false => self.seek_range(run, def, range.index, Edge::After(&prefix), to),
        };
        self.ranges = ranges;
        result
    }

    fn seek_equal(
        &mut self,
        run: &mut Run<'_>,
        def: &TableDef,
        position: u16,
        value: Option<Option<Datum>>,
    ) -> Outcome<()> {
        let Some(value) = value else { return self.seek(run, def, &Access::All) };
        let Some(value) = value else { return Ok(()) };
        if self.transient.as_ref().is_none_or(|(of, _)| *of != position) {
            let Some(made) = transient(run, def, position)? else { return self.seek(run, def, &Access::All) };
            self.transient = Some((position, made));
        }
        self.ids.clear();
        if let Some((_, transient)) = &self.transient {
            transient.find(value.as_ref(), &mut self.ids);
        }
        if self.ids.is_empty() {
            return Ok(());
        }
        self.seek_ids(run, def)
    }

    /// Goes to the next row if it is at hand. False: `next` is to go there.
    #[inline]
    pub fn advance(&mut self) -> bool {
        if !self.uncounted {
            return false;
        }
        match self.state {
            State::Walking if self.cursor.step() => self.current.set(self.cursor.at_hand()),
            State::Single => self.state = State::Done,
            _ => return false,
        }
        true
    }

    /// Goes to the next row.
    #[inline]
    pub fn next(&mut self, run: &mut Run<'_>, def: &TableDef) -> Outcome<()> {
        if self.state == State::Single {
            self.state = State::Done;
            return Ok(());
        }
        if self.walk.distinct > 0 && self.state == State::WalkingIndex {
            self.jump(run, def)?;
            return if self.state == State::Done { self.seek_next_range(run, def) } else { Ok(()) };
        }
        self.moves();
        if !run.host.source().next(&mut self.cursor)? {
            self.state = State::Done;
            return self.seek_next_range(run, def);
        }
        self.current.set(self.cursor.at_hand());
        Ok(())
    }

    /// The current row, if it can be read without the store: its bytes and their layout.
    #[inline]
    pub fn at_hand(&self) -> Option<(&[u8], &RowLayout)> {
        let (row, layout) = (self.current.get()?, self.layout.as_ref()?);
        // SAFETY: the row is at hand of `cursor`, or it is the copy in `row`, and `moves` forgets it before the cursor
        // fetches others or closes, and before `row` changes. What the cursor was opened on lives as long as the run, which
        // SQLite's cursor does not outlive.
        Some((unsafe { row.get() }, layout))
    }

    /// True after the last row.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Gives the value at a position of the current row, wherever that is.
    pub fn value(&self, source: &dyn Source, position: u16, give: impl FnOnce(DatumRef<'_>)) {
        match (self.state, &self.layout) {
            (State::Walking, _) => {
                let row = source.row(&self.cursor);
                self.current.set(Some(RowBytes::of(row.bytes())));
                give(row.get(position));
            }
            (State::WalkingIndex, _) => give(self.key_value(position).as_ref()),
            (State::Single, Some(layout)) => give(Row::new(&self.row, layout).get(position)),
            _ => give(DatumRef::Null),
        }
    }

    /// The engine's cursor is about to move or close.
    #[inline]
    fn moves(&mut self) {
        self.current.set(None);
    }

    /// The value of a column in the current index key.
    fn key_value(&self, position: u16) -> Datum {
        let mut key = self.cursor.key();
        for column in &self.key_columns {
            if column.position == position {
                return take_column(&mut key, column.desc, column.storage).unwrap_or(Datum::Null);
            }
            key = column_len(key, column.desc).map_or(&[], |length| &key[length..]);
        }
        Datum::Null
    }

    /// The current row's id.
    pub fn row_id(&self) -> RowId {
        match self.state {
            State::Walking | State::WalkingIndex => self.cursor.row_id(),
            _ => self.row_id,
        }
    }
}

impl KeyColumn {
    fn all<'a>(def: &'a TableDef, index: &'a IndexDef) -> impl Iterator<Item = KeyColumn> + 'a {
        let storage = |position: u16| def.stored[usize::from(position)].storage;
        index.columns.iter().map(move |c| KeyColumn {
            position: c.position,
            desc: c.desc,
            storage: storage(c.position),
        })
    }
}

#[cold]
fn damaged_key() -> crate::sql::run::Failure {
    crate::error::Error::new(crate::error::Code::Bug, "cursor.rs: an index key that is none").into()
}

/// The hash table for a column, from the second question on; the first one is answered by a scan.
fn transient(run: &mut Run<'_>, def: &TableDef, position: u16) -> Outcome<Option<Rc<Transient>>> {
    let name = (def.id, position);
    if let Some(made) = run.transients.get(&name) {
        return Ok(Some(made.clone()));
    }
    let asked = run.asked.entry(name).or_default();
    *asked += 1;
    if *asked == 1 {
        return Ok(None);
    }
    let collation = def.column_at(position).map_or(Collation::Binary, |c| c.collation);
    let column = IndexColumn { position, desc: false, collation };
    let made = Rc::new(Transient::build(run.host.source(), def.id, column)?);
    run.rows_read += made.rows();
    run.transients.insert(name, made.clone());
    Ok(Some(made))
}

#[cold]
fn lost_index() -> crate::sql::run::Failure {
    crate::error::Error::new(crate::error::Code::Bug, "cursor.rs: the plan's index is gone").into()
}

fn row_id_of(value: &Datum) -> Option<RowId> {
    match value {
        Datum::Int(i) => u64::try_from(*i).ok().map(RowId),
        Datum::Real(r) if *r >= 0.0 && r.fract() == 0.0 && *r < RowId::END.0 as f64 => Some(RowId(*r as u64)),
        _ => None,
    }
}

/// The values of an xFilter call.
struct Arguments<'a> {
    values: &'a [*mut ffi::sqlite3_value],
    def: &'a TableDef,
}

impl Arguments<'_> {
    /// All values of a slot as they come; a list is read to its end.
    ///
    /// # Safety
    /// The values are those of the running xFilter call.
    unsafe fn all(&self, slot: &Slot, storage: Storage) -> Outcome<Values> {
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
    unsafe fn single(&self, slot: &Slot, position: u16) -> Outcome<Option<Option<Datum>>> {
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
    unsafe fn one_key(&self, index: &IndexDef, slots: &[Slot], keys: &mut Batch) -> bool {
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

    /// Is this surely a row with the key of the values? False when it takes a look-up to know.
    ///
    /// # Safety
    /// As for `all`.
    #[inline]
    unsafe fn are_key_of(&self, row: &[u8], layout: &RowLayout, index: &IndexDef, slots: &[Slot]) -> bool {
        // Equal values have equal keys. Of others, and of those that SQLite would convert first, the look-up knows.
        let is_equal = |slot: &Slot, column: &IndexColumn| {
            let storage = self.def.stored[usize::from(column.position)].storage;
            // SAFETY: the caller's promise; the value is used before SQLite runs again.
            let value = slot.argument.map(|place| unsafe { value::read(self.values[usize::from(place)]) });
            let own = layout.number(row, column.position).unwrap_or_else(|| Row::new(row, layout).get(column.position));
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
    unsafe fn keys(&self, index: &IndexDef, slots: &[Slot]) -> Outcome<Option<Vec<KeyBuf>>> {
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
    unsafe fn number(&self, argument: Option<u8>) -> u64 {
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
    unsafe fn ranges(
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
