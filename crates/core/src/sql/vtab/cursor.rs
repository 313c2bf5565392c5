//! Walks one table along the access path that was planned: xFilter, xNext, xColumn.

use super::arguments::{Arguments, Range};
use super::plan::{Plan, Slot, Walk, edges};
use super::transient::Transient;
use crate::engine::{Access, Cursor, Edge, RowBytes, Source};
use crate::sql::run::{Outcome, Run};
use crate::table::batch::Batch;
use crate::table::catalog::{IndexColumn, IndexDef, IndexId, TableDef};
use crate::table::datum::{Datum, DatumRef};
use crate::table::key::{KeyBuf, column_len, take_column};
use crate::table::row::{Row, RowLayout};
use crate::table::row_id::RowId;
use crate::table::types::{Collation, Storage};
use libsqlite3_sys as ffi;
use smallvec::SmallVec;
use std::cell::Cell;
use std::ffi::c_int;
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
    /// The number of the plan that was begun last.
    pub plan: c_int,
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
    /// others. The argument and the position of the key, if that is one integer.
    Followed { missed: u8, key: Option<(u8, u16)> },
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
        if let Order::Followed { key, .. } = self.order
            // SAFETY: the caller's promise.
            && unsafe { self.find_behind(run, index, columns, arguments)? }
        {
            self.order = Order::Followed { missed: 0, key };
            return Ok(true);
        }
        // SAFETY: the caller's promise.
        if !unsafe { arguments.one_key(index, columns, &mut self.keys) } {
            return Ok(false);
        }
        let last = self.row_id;
        self.look_up(run, arguments.def, index)?;
        self.note_order(run, arguments.def, last, arguments.one_integer(index, columns))?;
        Ok(true)
    }

    /// Takes the row behind the last one, if that is at hand and its key, an integer, is what the plan with this number asks
    /// for now: `filter` for most look-ups of a join in the order of rows. False: nothing is done. Nothing here can panic.
    ///
    /// # Safety
    /// `arguments` are the values of the running xFilter call, as many as the plan takes.
    #[inline]
    pub unsafe fn take_behind(&mut self, plan: c_int, arguments: &[*mut ffi::sqlite3_value]) -> bool {
        let Order::Followed { missed, key: Some((argument, position)) } = &mut self.order else { return false };
        let (Some(layout), Some(row)) = (&self.layout, self.cursor.next_at_hand()) else { return false };
        let Some(argument) = arguments.get(usize::from(*argument)).filter(|_| self.plan == plan) else { return false };
        // SAFETY: the argument is the caller's; the row is at hand of a cursor that has not moved since.
        let is_it = unsafe {
            ffi::sqlite3_value_type(*argument) == ffi::SQLITE_INTEGER
                && layout.number(row.get(), *position) == Some(DatumRef::Int(ffi::sqlite3_value_int64(*argument)))
        };
        if is_it {
            *missed = 0;
            self.cursor.step();
            self.row_id = self.cursor.row_id();
            self.current.set(Some(row));
            self.state = State::Single;
        }
        is_it
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
    fn note_order(&mut self, run: &mut Run<'_>, def: &TableDef, last: RowId, key: Option<(u8, u16)>) -> Outcome<()> {
        let rises = self.state == State::Single && self.row_id.0 == last.0 + 1;
        self.order = match self.order {
            Order::Followed { missed, key } if missed < MISSED_MOST && self.cursor.go_to(self.row_id) => {
                Order::Followed { missed: missed + 1, key }
            }
            Order::Rising(count) if rises && count >= RISING_LEAST => {
                let found = run.host.source().seek(&mut self.cursor, def.id, &Access::From(self.row_id))?;
                match found && self.cursor.at_hand().is_some() {
                    true => Order::Followed { missed: 0, key },
                    false => {
                        self.cursor.close();
                        Order::Rising(0)
                    }
                }
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
