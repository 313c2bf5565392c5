//! SELECT of columns by a range of an ordered index: equalities on its first columns, bounds on the next one, its order,
//! and a limit.

use super::key::{self, Encoded, KeyColumn};
use super::read::{Condition, Reader, Value};
use super::select::Output;
use crate::engine::{Access, Cursor};
use crate::error::{Code, Error};
use crate::limits;
use crate::reply::Reply;
use crate::sql::run::{Host, Outcome};
use crate::sql::table_info::TableInfo;
use crate::sql::vtab::describe::Step;
use crate::sql::vtab::plan::{Bound, EQUAL_ROWS, Limit, LimitKind, Op, Plan, Slot, Walk, edges, exclude_null};
use crate::table::catalog::{IndexDef, IndexId, Method};
use crate::table::datum::DatumRef;
use crate::table::key::{KeyBuf, put_column};
use smallvec::SmallVec;
use std::sync::Arc;

/// SELECT by range.
pub struct Range {
    info: Arc<TableInfo>,
    /// Which index it is of.
    pub index: IndexId,
    columns: SmallVec<[KeyColumn; 2]>,
    equal: SmallVec<[Value; 2]>,
    low: Option<(Value, bool)>,
    high: Option<(Value, bool)>,
    not_null: bool,
    desc: bool,
    /// From its end to its start.
    pub reverse: bool,
    limit: Option<Value>,
    output: Output,
    /// Parameters of the statement.
    pub parameters: usize,
}

/// Reads what may follow the conditions, and finds the index that serves all of it.
pub fn compile(
    reader: &mut Reader<'_>,
    info: &Arc<TableInfo>,
    alias: Option<&str>,
    conditions: &[Condition],
    output: Output,
) -> Option<Range> {
    let mut order = None;
    if reader.word("ORDER").is_some() {
        reader.word("BY").filter(|()| !output.renamed)?;
        let column = reader.column(info, alias)?;
        let desc = reader.word("DESC").is_some();
        if !desc {
            let _ = reader.word("ASC");
        }
        order = Some((info.def.columns[column].position, desc));
    }
    let limit = if reader.word("LIMIT").is_some() { Some(reader.value()?) } else { None };
    reader.end()?;
    if conditions.iter().any(|c| c.list) {
        return None;
    }
    let range = Range::serving(info, conditions, order)?;
    Some(Range { limit, output, parameters: reader.parameters, ..range })
}

impl Range {
    /// The range of the first index that answers all conditions and gives the order.
    pub fn serving(info: &Arc<TableInfo>, conditions: &[Condition], order: Option<(u16, bool)>) -> Option<Range> {
        let serve = |index: &IndexDef| serve(info, index, conditions, order);
        let (index, served) = info.def.indexes.iter().find_map(|index| Some((index, serve(index)?)))?;
        let next = index.columns.get(served.equal.len());
        Some(Range {
            info: info.clone(),
            index: index.id,
            columns: KeyColumn::all(info, index),
            equal: served.equal,
            low: served.low,
            high: served.high,
            not_null: false,
            desc: next.is_some_and(|c| c.desc),
            reverse: served.reverse,
            limit: None,
            output: Output::default(),
            parameters: 0,
        })
    }

    /// The position of the column that the range is ordered by.
    pub fn next_position(&self) -> Option<u16> {
        self.columns.get(self.equal.len()).map(|c| c.column().position)
    }

    /// Leaves out the entries in which that column is NULL.
    pub fn exclude_null(&mut self) {
        self.not_null = true;
    }

    /// Is that column kept largest first?
    pub fn is_desc(&self) -> bool {
        self.desc
    }

    /// What it does, for EXPLAIN.
    pub fn step(&self) -> Step {
        let slot = Slot { argument: Some(0), list: false, null_equals: false, sure: true };
        let limit = |bound: &Option<(Value, bool)>| {
            bound.as_ref().map(|(_, inclusive)| Limit { slot, inclusive: *inclusive, kind: LimitKind::Value })
        };
        let not_null = Limit { slot, inclusive: false, kind: LimitKind::NotNull };
        let low = limit(&self.low).or(self.not_null.then_some(not_null));
        let plan = Plan::Range {
            index: self.index,
            equal: self.equal.iter().map(|_| slot).collect(),
            low,
            high: limit(&self.high),
            walk: Walk { reverse: self.reverse, ..Walk::default() },
        };
        Step::new(&self.info.def, &plan, EQUAL_ROWS)
    }

    /// Its bounds, given the parameters.
    pub fn range(&self, params: &[DatumRef<'_>]) -> Ranged {
        let mut prefix = KeyBuf::new();
        for (column, value) in self.columns.iter().zip(&self.equal) {
            match key::encode(value.get(params), column, &mut prefix) {
                Encoded::Bytes => {}
                Encoded::Never => return Ranged::Never,
                Encoded::Unknown => return Ranged::Unknown,
            }
        }
        let next = self.columns.get(self.equal.len());
        let bound = |bound: &Option<(Value, bool)>| -> std::result::Result<Bound, Encoded> {
            let (Some((value, inclusive)), Some(column)) = (bound, next) else { return Ok(None) };
            let mut key = prefix.clone();
            match key::encode(value.get(params), column, &mut key) {
                Encoded::Bytes => Ok(Some((key, *inclusive))),
                other => Err(other),
            }
        };
        let (mut low, high) = match (bound(&self.low), bound(&self.high)) {
            (Ok(low), Ok(high)) => (low, high),
            (Err(Encoded::Unknown), _) | (_, Err(Encoded::Unknown)) => return Ranged::Unknown,
            _ => return Ranged::Never,
        };
        exclude_null(&mut low, &high, &prefix, next.map(KeyColumn::column));
        if let (true, None, Some(column)) = (self.not_null, &low, next) {
            let mut key = prefix.clone();
            put_column(DatumRef::Null, column.column(), &mut key);
            low = Some((key, false));
        }
        Ranged::Between(prefix, low, high)
    }
}

/// A range, given the parameters.
#[allow(clippy::large_enum_variant)] // made and taken apart at once
pub enum Ranged {
    /// The keys with a prefix, between bounds.
    Between(KeyBuf, Bound, Bound),
    /// No row can match.
    Never,
    /// Only SQLite can judge.
    Unknown,
}

/// How an index answers the conditions.
#[derive(Default)]
struct Served {
    equal: SmallVec<[Value; 2]>,
    low: Option<(Value, bool)>,
    high: Option<(Value, bool)>,
    reverse: bool,
}

fn serve(info: &TableInfo, index: &IndexDef, conditions: &[Condition], order: Option<(u16, bool)>) -> Option<Served> {
    let own = |position: u16| info.def.column_at(position).map(|c| c.collation);
    if index.method != Method::Ordered
        || index.filter.is_some()
        || index.columns.iter().any(|c| own(c.position) != Some(c.collation))
    {
        return None;
    }
    let mut served = Served::default();
    let mut used = 0;
    let on = |position: u16, op: fn(Op) -> bool| {
        let mut found = conditions.iter().filter(move |c| info.def.columns[c.column].position == position && op(c.op));
        let first = found.next();
        // Two conditions of one kind on a column are SQLite's to combine.
        first.filter(|_| found.next().is_none())
    };
    for column in &index.columns {
        let Some(condition) = on(column.position, |op| op == Op::Equal) else { break };
        served.equal.push(condition.values[0].clone());
        used += 1;
    }
    let next = index.columns.get(served.equal.len());
    if let Some(next) = next {
        let bound = |condition: &Condition, inclusive: Op| (condition.values[0].clone(), condition.op == inclusive);
        let low = on(next.position, |op| matches!(op, Op::Greater | Op::GreaterOrEqual));
        let high = on(next.position, |op| matches!(op, Op::Less | Op::LessOrEqual));
        used += usize::from(low.is_some()) + usize::from(high.is_some());
        served.low = low.map(|c| bound(c, Op::GreaterOrEqual));
        served.high = high.map(|c| bound(c, Op::LessOrEqual));
    }
    if let Some((position, desc)) = order {
        let fixed = index.columns[..served.equal.len()].iter().any(|c| c.position == position);
        match next {
            _ if fixed => {}
            Some(next) if next.position == position => served.reverse = desc != next.desc,
            _ => return None,
        }
    }
    (used == conditions.len()).then_some(served)
}

/// Runs it.
pub fn run(host: &mut dyn Host, plan: &Range, params: &[DatumRef<'_>]) -> Outcome<Option<Reply>> {
    let limit = match plan.limit.as_ref().map(|limit| limit.get(params)) {
        None => u64::MAX,
        // A negative limit is none, as in SQLite.
        Some(DatumRef::Int(limit)) => u64::try_from(limit).unwrap_or(u64::MAX),
        Some(_) => return Ok(None),
    };
    match plan.range(params) {
        Ranged::Unknown => Ok(None),
        Ranged::Never => Ok(Some(Reply::Rows(plan.output.rows(0)))),
        Ranged::Between(prefix, low, high) => walk(host, plan, (&prefix, &low, &high), limit),
    }
}

/// Rows between two looks at the clock.
const ROWS_PER_LOOK: u64 = 4096;

fn walk(host: &mut dyn Host, plan: &Range, range: (&KeyBuf, &Bound, &Bound), limit: u64) -> Outcome<Option<Reply>> {
    let deadline_ns = host.deadline_ns();
    let slice_end_ns = host.slice_end_ns();
    let (from, to) = edges(range.0, range.1, range.2, plan.desc);
    let access = Access::Range { index: plan.index, from, to, reverse: plan.reverse, keys_only: false };
    let mut rows = plan.output.rows(0);
    let mut count = 0;
    let mut cursor = Cursor::new();
    let mut bytes = 0;
    let mut more = limit > 0 && host.source().seek(&mut cursor, plan.info.def.id, &access)?;
    while more {
        let row = host.source().row(&cursor);
        bytes += row.bytes().len() + plan.output.row_bytes();
        plan.output.add_to(&mut rows, row);
        count += 1;
        if bytes > limits::SQL_RESULT_BYTES_MAX {
            let text = format!("the result is larger than {} bytes: use LIMIT", limits::SQL_RESULT_BYTES_MAX);
            return Err(Error::new(Code::Limit, text).into());
        }
        if count % ROWS_PER_LOOK == 0 {
            let now_ns = host.monotonic_ns();
            if slice_end_ns.is_some_and(|end| now_ns > end) {
                // Only what SQLite runs goes on elsewhere.
                return Ok(None);
            }
            let late = deadline_ns.is_some_and(|deadline| now_ns > deadline);
            if late || host.is_cancelled() {
                return Err(Error::new(Code::Cancelled, "the statement took too long or was cancelled").into());
            }
        }
        more = count < limit && host.source().next(&mut cursor)?;
    }
    Ok(Some(Reply::Rows(rows)))
}
