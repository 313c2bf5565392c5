//! RETURNING: what a statement shows of the rows that it wrote.
//!
//! The rows are kept as they were written (or, for DELETE, as they were), and the expressions are evaluated when all
//! rows are written, before the statement's scope is closed: a subquery sees what the whole statement left.

use super::part::{Builder, Hand, Part};
use super::split::{Span, Target};
use super::text::Script;
use crate::error::Result;
use crate::reply::{Blob, Reply};
use crate::sql::executor::{self, reply};
use crate::sql::run::{Host, Outcome};
use crate::sql::table_info::TableInfo;
use crate::table::batch::Batch;
use crate::table::datum::DatumRef;
use crate::table::row::Row;
use crate::table::row_id::RowId;
use std::sync::Arc;

/// A compiled RETURNING clause.
pub struct Returning {
    info: Arc<TableInfo>,
    names: Vec<Blob>,
    how: How,
}

enum How {
    /// Columns alone are read from the row.
    Columns(Vec<u16>),
    /// Anything else is SQLite's.
    Expressions(Box<Part>),
}

/// Rows as they were written, in the order in which they were.
#[derive(Default)]
pub struct Returned {
    rows: Batch,
    ids: Vec<RowId>,
    bytes: usize,
}

impl Returned {
    /// The rows and their ids.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (RowId, &[u8])> + ExactSizeIterator {
        self.ids.iter().enumerate().map(|(i, id)| (*id, self.rows.get(i)))
    }

    /// Keeps a row.
    pub fn keep(&mut self, id: RowId, row: &[u8]) -> Result<()> {
        self.rows.push(row);
        self.ids.push(id);
        self.bytes += row.len();
        executor::check_result_size(self.bytes)
    }
}

/// Compiles the clause.
pub fn compile(
    host: &mut dyn Host,
    script: &Script<'_>,
    info: &Arc<TableInfo>,
    target: &Target,
    span: Span,
) -> Result<Returning> {
    let items = script.list(span);
    if let Some((names, positions)) = columns_alone(script, info, target, &items) {
        return Ok(Returning { info: info.clone(), names, how: How::Columns(positions) });
    }
    let mut builder = Builder::new(script, info, target, None);
    for (i, item) in items.into_iter().enumerate() {
        builder.push(if i == 0 { "" } else { ", " });
        if is_star(script, &item) {
            builder.all_columns();
        } else {
            builder.expression(item);
        }
    }
    let part = builder.compile(host)?;
    let names = (0..part.columns()).map(|i| Blob::from_slice(part.column_name(i).as_bytes())).collect();
    Ok(Returning { info: info.clone(), names, how: How::Expressions(Box::new(part)) })
}

fn is_star(script: &Script<'_>, item: &Span) -> bool {
    item.len() == 1 && script.is_symbol(item.start, "*")
}

/// The columns, if the items are nothing else: `*`, `[t.]column [[AS] name]`.
fn columns_alone(
    script: &Script<'_>,
    info: &TableInfo,
    target: &Target,
    items: &[Span],
) -> Option<(Vec<Blob>, Vec<u16>)> {
    let (mut names, mut positions) = (Vec::new(), Vec::new());
    let mut add = |name: &str, position: u16| {
        names.push(Blob::from_slice(name.as_bytes()));
        positions.push(position);
    };
    for item in items {
        if is_star(script, item) {
            info.def.columns.iter().filter(|c| !c.hidden).for_each(|c| add(&c.name, c.position));
            continue;
        }
        let mut at = item.start;
        let name = |at: usize| script.token(at).filter(|_| at < item.end && script.is_plain_name(at))?.name();
        if script.is_symbol(at + 1, ".") {
            let of = target.alias.as_deref().unwrap_or(&target.name);
            name(at).filter(|name| name.eq_ignore_ascii_case(of))?;
            at += 2;
        }
        let (_, column) = info.def.column(&name(at)?)?;
        at += 1;
        at += usize::from(at < item.end && script.is_word(at, "AS"));
        let alias = if at < item.end { Some(name(at)?) } else { None };
        if at + usize::from(alias.is_some()) != item.end {
            return None;
        }
        add(alias.as_deref().unwrap_or(&column.name), column.position);
    }
    Some((names, positions))
}

impl Returning {
    /// The reply: the names of the columns, then a row for each row written.
    pub fn reply(&mut self, host: &mut dyn Host, params: &[DatumRef<'_>], returned: &Returned) -> Outcome<Vec<Reply>> {
        let mut rows = Vec::with_capacity(1 + returned.ids.len());
        rows.push(Reply::Array(self.names.iter().cloned().map(Reply::Bulk).collect()));
        let info = self.info.clone();
        let mut bytes = 0;
        for (id, row) in returned.iter() {
            let row = Row::new(row, &info.layout);
            rows.push(match &mut self.how {
                How::Columns(positions) => {
                    Reply::Array(positions.iter().map(|position| reply(row.get(*position))).collect())
                }
                How::Expressions(part) => {
                    let columns = self.names.len();
                    let hand = Hand { row, id: Some(id) };
                    part.evaluate(host, params, hand, None, |prepared| executor::row(prepared, columns, &mut bytes))?
                }
            });
            executor::check_result_size(bytes)?;
        }
        Ok(rows)
    }
}
