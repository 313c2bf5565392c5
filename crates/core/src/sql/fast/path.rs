//! How a query reaches the rows of one table: by key, by range, or all of them, and which conditions are left to test.

use super::filter::{self, Filter, Test};
use super::key::{self, Encoded, KeyColumn, KeyValues};
use super::look::Look;
use super::range::{Range, Ranged};
use super::read::{Condition, index_of_all};
use super::tables::Lying;
use crate::engine::{Access, Cursor, Read, Source};
use crate::sql::run::{Host, Outcome};
use crate::sql::table_info::TableInfo;
use crate::sql::vtab::describe::Step;
use crate::sql::vtab::plan::{Op, Plan, edges};
use crate::table::batch::Batch;
use crate::table::catalog::{IndexDef, IndexId, Method};
use crate::table::datum::DatumRef;
use smallvec::SmallVec;
use std::sync::Arc;

/// The way to the rows of a table.
pub struct Path {
    /// The table.
    pub info: Arc<TableInfo>,
    by: By,
    /// What is tested row by row.
    filters: Vec<Filter>,
}

enum By {
    All,
    Keys { index: IndexId, columns: SmallVec<[KeyColumn; 2]>, values: KeyValues },
    Range(Box<Range>),
}

/// Is more wanted?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The next row.
    More,
    /// No more: there are enough.
    Enough,
    /// Only SQLite can go on.
    Unknown,
}

/// Takes rows as they are found.
pub trait Visitor {
    /// A row. It stays where it is until `flush` has returned.
    fn row(&mut self, source: &dyn Source, row: Lying<'_>) -> Read<Flow>;

    /// Rows of other tables that it has looked at since it was asked last.
    fn work(&mut self) -> usize {
        0
    }

    /// The rows since the last flush are about to go.
    fn flush(&mut self, _source: &dyn Source) -> Read<Flow> {
        Ok(Flow::More)
    }
}

impl Path {
    /// The way to the rows that meet the conditions. None: another plan may need fewer rows, and SQLite is to choose.
    pub fn choose(info: &Arc<TableInfo>, conditions: &[Condition]) -> Option<Path> {
        let helpful: Vec<&IndexDef> = info.def.indexes.iter().filter(|i| helps(info, i, conditions)).collect();
        if let Some(by) = Self::by_index(info, conditions) {
            return Some(Path { info: info.clone(), by, filters: Vec::new() });
        }
        let filter = |condition: &&Condition| Filter::new(info, condition);
        let [only] = helpful[..] else {
            let filters = conditions.iter().map(|condition| filter(&condition)).collect();
            return helpful.is_empty().then(|| Path { info: info.clone(), by: By::All, filters });
        };
        let on_index = |condition: &&Condition| {
            only.columns.iter().any(|c| c.position == info.def.columns[condition.column].position)
        };
        let served: SmallVec<[Condition; 4]> = conditions.iter().filter(on_index).cloned().collect();
        let by = Self::by_index(info, &served)?;
        let filters = conditions.iter().filter(|condition| !on_index(condition)).map(|c| filter(&c)).collect();
        Some(Path { info: info.clone(), by, filters })
    }

    fn by_index(info: &Arc<TableInfo>, conditions: &[Condition]) -> Option<By> {
        if conditions.is_empty() {
            return None;
        }
        if let Some(index) = index_of_all(info, conditions) {
            let values = key::values_of(info, index, conditions)?;
            return Some(By::Keys { index: index.id, columns: KeyColumn::all(info, index), values });
        }
        if conditions.iter().any(|condition| condition.list) {
            return None;
        }
        Range::serving(info, conditions, None).map(|range| By::Range(Box::new(range)))
    }

    /// Does an index choose the rows?
    pub fn is_chosen(&self) -> bool {
        !matches!(self.by, By::All)
    }

    /// Does it find one row at most?
    pub fn is_single(&self) -> bool {
        match &self.by {
            By::Keys { index, values, .. } => {
                key::is_unique(&self.info, *index) && values.iter().all(|values| values.len() == 1)
            }
            _ => false,
        }
    }

    /// About which part of the rows it gives.
    pub fn selectivity(&self) -> f64 {
        self.filters.iter().map(Filter::selectivity).product()
    }

    /// What rows must pass besides. None: only SQLite can judge.
    pub fn tests(&self, params: &[DatumRef<'_>]) -> Option<Vec<Test>> {
        filter::bind(&self.filters, params)
    }

    /// What it does, for EXPLAIN.
    pub fn step(&self, rows: u64) -> Step {
        let mut step = match &self.by {
            By::All => Step::new(&self.info.def, &Plan::All, rows as f64),
            By::Keys { index, values, .. } => key::step(&self.info, *index, values),
            By::Range(range) => range.step(),
        };
        step.words += &self.filtered();
        step
    }

    /// Which columns are tested row by row, for EXPLAIN.
    pub fn filtered(&self) -> String {
        let name = |filter: &Filter| self.info.def.column_at(filter.position()).map_or("?", |c| &c.name);
        let mut names: Vec<&str> = self.filters.iter().map(name).collect();
        names.dedup();
        if names.is_empty() { String::new() } else { format!(", filtered by {}", names.join(", ")) }
    }

    /// Gives all rows that pass tests to `visitor`. None: SQLite must go on, from the start.
    pub fn walk_all(
        &self,
        host: &mut dyn Host,
        tests: &[Test],
        look: &mut Look,
        visitor: &mut impl Visitor,
    ) -> Outcome<Option<()>> {
        self.walk_access(host, &Access::All, tests, look, visitor)
    }

    /// Gives the rows to `visitor`. None: SQLite must go on, from the start.
    pub fn walk(
        &self,
        host: &mut dyn Host,
        params: &[DatumRef<'_>],
        look: &mut Look,
        visitor: &mut impl Visitor,
    ) -> Outcome<Option<()>> {
        let Some(tests) = self.tests(params) else { return Ok(None) };
        match &self.by {
            By::All => self.walk_access(host, &Access::All, &tests, look, visitor),
            By::Keys { index, columns, values } => {
                let mut keys = Batch::new();
                match key::keys(columns, values, params, &mut keys) {
                    Encoded::Unknown => Ok(None),
                    Encoded::Never => Ok(Some(())),
                    Encoded::Bytes => {
                        self.walk_access(host, &Access::Keys { index: *index, keys: &keys }, &tests, look, visitor)
                    }
                }
            }
            By::Range(range) => match range.range(params) {
                Ranged::Unknown => Ok(None),
                Ranged::Never => Ok(Some(())),
                Ranged::Between(prefix, low, high) => {
                    let (from, to) = edges(&prefix, &low, &high, range.is_desc());
                    let access = Access::Range { index: range.index, from, to, reverse: false, keys_only: false };
                    self.walk_access(host, &access, &tests, look, visitor)
                }
            },
        }
    }

    fn walk_access(
        &self,
        host: &mut dyn Host,
        access: &Access<'_>,
        tests: &[Test],
        look: &mut Look,
        visitor: &mut impl Visitor,
    ) -> Outcome<Option<()>> {
        let table = self.info.def.id;
        let mut cursor = Cursor::new();
        let mut more = host.source().seek(&mut cursor, table, access)?;
        while more {
            let (rows, flow) = at_hand(host.source(), &mut cursor, table, tests, visitor)?;
            match flow {
                Flow::Enough => return Ok(Some(())),
                Flow::Unknown => return Ok(None),
                Flow::More => {}
            }
            if !look.after(host, rows)? {
                return Ok(None);
            }
            more = cursor.step() || host.source().next(&mut cursor)?;
        }
        Ok(Some(()))
    }
}

/// Rows that are given without a look at the clock.
const STRETCH: usize = 4096;

/// Gives the rows at hand to `visitor`; how many rows were looked at.
fn at_hand(
    source: &dyn Source,
    cursor: &mut Cursor,
    table: crate::table::catalog::TableId,
    tests: &[Test],
    visitor: &mut impl Visitor,
) -> Read<(usize, Flow)> {
    let layout = source.layout(table)?;
    let mut rows = 0;
    loop {
        let row = match cursor.at_hand() {
            // SAFETY: the cursor stands on the row and fetches no others before `flush`; the source is borrowed.
            Some(row) => Lying { bytes: unsafe { row.get() }, layout },
            None => {
                let row = source.row(cursor);
                Lying { bytes: row.bytes(), layout: row.layout() }
            }
        };
        rows += 1;
        if tests.iter().all(|test| test.passes(&row)) {
            let flow = visitor.row(source, row)?;
            if flow != Flow::More {
                return Ok((rows, flow));
            }
            rows += visitor.work();
        }
        if rows >= STRETCH || cursor.next_at_hand().is_none() {
            let flow = visitor.flush(source)?;
            return Ok((rows + visitor.work(), flow));
        }
        cursor.step();
    }
}

/// May the index serve to find rows that meet some of the conditions?
fn helps(info: &TableInfo, index: &IndexDef, conditions: &[Condition]) -> bool {
    let on = |position: u16, equal: bool| {
        conditions.iter().any(|condition| {
            info.def.columns[condition.column].position == position && (!equal || condition.op == Op::Equal)
        })
    };
    match index.method {
        Method::Hash => index.columns.iter().all(|c| on(c.position, true)),
        Method::Ordered => on(index.columns[0].position, false),
    }
}
