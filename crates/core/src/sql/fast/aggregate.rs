//! SELECT of count(*), min(column) and max(column): answered by the counts and the ends of an index, where SQLite would
//! walk all of it.

use super::range::{Range, Ranged};
use super::read::{Condition, Reader};
use crate::engine::{Access, Cursor, Edge};
use crate::reply::{Blob, Reply};
use crate::sql::executor::reply;
use crate::sql::run::{Host, Outcome};
use crate::sql::table_info::TableInfo;
use crate::sql::vtab::describe::Step;
use crate::sql::vtab::plan::edges;
use crate::table::datum::DatumRef;
use crate::table::types::Collation;
use smallvec::SmallVec;
use std::sync::Arc;

/// SELECT of aggregates.
pub struct Aggregate {
    info: Arc<TableInfo>,
    names: Vec<Blob>,
    parts: Vec<Part>,
    /// Parameters of the statement.
    pub parameters: usize,
}

/// One aggregate.
enum Part {
    /// All rows are counted.
    Rows,
    /// The entries of a range are counted.
    Count(Range),
    /// The column's value in the first entry of a range; NULLs lie at its start.
    End(Range, u16),
}

/// An aggregate as it is written.
#[derive(Clone, Copy, PartialEq)]
enum Written {
    Count,
    Min(usize),
    Max(usize),
}

/// Reads a SELECT of aggregates.
pub fn compile(host: &mut dyn Host, reader: &mut Reader<'_>, text: &str) -> Option<Aggregate> {
    reader.word("SELECT")?;
    let (info, alias) = reader.ahead_of("FROM", |reader| reader.table(host))?;
    let alias = alias.as_deref();
    let (mut names, mut written) = (Vec::new(), Vec::new());
    loop {
        let start = reader.place();
        written.push(read_one(reader, &info, alias)?);
        let shown = &text[start..reader.end_before()];
        let name = if reader.word("AS").is_some() { Some(reader.name()?) } else { None };
        names.push(Blob::from_slice(name.as_deref().unwrap_or(shown).as_bytes()));
        if reader.symbol(",").is_none() {
            break;
        }
    }
    reader.word("FROM")?;
    reader.skip_table(alias.is_some())?;
    let conditions = if reader.end().is_some() { SmallVec::new() } else { reader.conditions(&info, alias)? };
    reader.end()?;
    let part = |written: &Written| part(&info, *written, &conditions);
    let parts = written.iter().map(part).collect::<Option<Vec<_>>>()?;
    Some(Aggregate { info: info.clone(), names, parts, parameters: reader.parameters })
}

fn read_one(reader: &mut Reader<'_>, info: &TableInfo, alias: Option<&str>) -> Option<Written> {
    let words = ["COUNT", "MIN", "MAX"];
    let which = words.iter().position(|word| reader.word(word).is_some())?;
    reader.symbol("(")?;
    let written = match which {
        0 => reader.symbol("*").map(|()| Written::Count)?,
        1 => Written::Min(reader.column(info, alias)?),
        _ => Written::Max(reader.column(info, alias)?),
    };
    reader.symbol(")")?;
    Some(written)
}

fn part(info: &Arc<TableInfo>, written: Written, conditions: &[Condition]) -> Option<Part> {
    if conditions.iter().any(|c| c.list) {
        return None;
    }
    let (column, desc) = match written {
        Written::Count if conditions.is_empty() => return Some(Part::Rows),
        Written::Count => return Range::serving(info, conditions, None).map(Part::Count),
        Written::Min(column) => (column, false),
        Written::Max(column) => (column, true),
    };
    let position = info.def.columns[column].position;
    let mut range = Range::serving(info, conditions, Some((position, desc)))?;
    // Of texts that are equal without case SQLite gives the first that it meets.
    if matches!(info.def.columns[column].collation, Collation::NoCase | Collation::RTrim) {
        return None;
    }
    // The column must be the one that the range is ordered by, and not one that has a single value.
    if range.next_position() != Some(position) {
        return None;
    }
    if !desc && !info.def.columns[column].not_null {
        range.exclude_null();
    }
    Some(Part::End(range, position))
}

/// Runs it.
pub fn run(host: &mut dyn Host, plan: &Aggregate, params: &[DatumRef<'_>]) -> Outcome<Option<Reply>> {
    let mut values = Vec::with_capacity(plan.parts.len());
    for part in &plan.parts {
        let Some(value) = value(host, plan, part, params)? else { return Ok(None) };
        values.push(value);
    }
    let names = Reply::Array(plan.names.iter().cloned().map(Reply::Bulk).collect());
    Ok(Some(Reply::Array(vec![names, Reply::Array(values)])))
}

fn value(host: &mut dyn Host, plan: &Aggregate, part: &Part, params: &[DatumRef<'_>]) -> Outcome<Option<Reply>> {
    let table = plan.info.def.id;
    let source = host.source();
    let range = match part {
        Part::Rows => return Ok(Some(Reply::Int(source.row_count(table)? as i64))),
        Part::Count(range) | Part::End(range, _) => range,
    };
    let ranged = range.range(params);
    let (from, to) = match &ranged {
        Ranged::Unknown => return Ok(None),
        Ranged::Never => (Edge::Open, Edge::Before(&[])),
        Ranged::Between(prefix, low, high) => edges(prefix, low, high, range.is_desc()),
    };
    let never = matches!(ranged, Ranged::Never);
    if let Part::End(_, position) = part {
        let access = Access::Range { index: range.index, from, to, reverse: range.reverse, keys_only: false };
        let mut cursor = Cursor::new();
        let found = !never && source.seek(&mut cursor, table, &access)?;
        return Ok(Some(if found { reply(source.row(&cursor).get(*position)) } else { Reply::Nil }));
    }
    let count = if never { 0 } else { source.count(table, range.index, from, to)? };
    Ok(Some(Reply::Int(count as i64)))
}

impl Aggregate {
    /// What it does, for EXPLAIN.
    pub fn steps(&self) -> Vec<Step> {
        let table = &self.info.def.name;
        let step = |part: &Part| match part {
            Part::Rows => {
                let words = format!("number of rows of {table}, as it is kept");
                Step { table: table.clone(), path: "row count".into(), rows: "1".into(), words, ..Step::default() }
            }
            Part::Count(range) => told(range.step(), "count by "),
            Part::End(range, _) => told(range.step(), "first entry: "),
        };
        self.parts.iter().map(step).collect()
    }
}

fn told(step: Step, what: &str) -> Step {
    Step { words: format!("{what}{}", step.words), rows: "1".into(), ..step }
}
