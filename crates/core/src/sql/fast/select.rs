//! SELECT of columns by key: `WHERE` equals all columns of an index, perhaps with a list for one of them.

use super::Plan;
use super::key::{self, Encoded, KeyColumn, KeyValues};
use super::range;
use super::read::{Condition, Reader, index_of_all};
use crate::limits;
use crate::reply::{Blob, Reply, Rows};
use crate::sql::executor::{check_result_size, reply};
use crate::sql::run::{Failure, Host, Outcome};
use crate::sql::table_info::TableInfo;
use crate::sql::vtab::describe::Step;
use crate::table::batch::Batch;
use crate::table::catalog::{IndexId, TableId};
use crate::table::datum::DatumRef;
use crate::table::key::KeyBuf;
use crate::table::row::Row;
use smallvec::SmallVec;
use std::sync::Arc;

/// Columns to return.
#[derive(Default)]
pub struct Output {
    /// Their names.
    names: Arc<Vec<Blob>>,
    /// Their positions in rows.
    positions: SmallVec<[u16; 16]>,
    /// Some have another name, which ORDER BY might mean.
    pub renamed: bool,
}

impl Output {
    /// A reply for about so many rows.
    #[inline]
    pub fn rows(&self, count: usize) -> Rows {
        Rows::new(&self.names, count)
    }

    /// The names.
    pub fn names(&self) -> &[Blob] {
        &self.names
    }

    /// The values of a row of the table as it is stored.
    #[inline]
    pub fn values<'a>(&'a self, row: &'a [u8], info: &'a TableInfo) -> impl ExactSizeIterator<Item = DatumRef<'a>> {
        let row = Row::new(row, &info.layout);
        self.positions.iter().map(move |position| row.get(*position))
    }

    /// Adds a row of the table to the reply.
    #[inline]
    pub fn add_to(&self, rows: &mut Rows, row: Row<'_>) {
        rows.push(self.positions.iter().map(|position| reply(row.get(*position))));
    }

    /// Bytes of a row of the reply besides the values' own.
    pub fn row_bytes(&self) -> usize {
        size_of::<Reply>() * self.positions.len()
    }

    /// `*` or `column [[AS] name], ...`; the table is known only after FROM, so the tokens are read twice.
    pub fn read(reader: &mut Reader<'_>, info: &TableInfo, alias: Option<&str>) -> Option<Output> {
        let mut output = Output::default();
        if reader.symbol("*").is_some() {
            for column in info.def.columns.iter().filter(|c| !c.hidden) {
                output.add(&column.name, column.position);
            }
            return Some(output);
        }
        loop {
            let column = &info.def.columns[reader.column(info, alias)?];
            let name = if reader.word("AS").is_some() { Some(reader.name()?) } else { None };
            output.renamed |= name.is_some();
            output.add(name.as_deref().unwrap_or(&column.name), column.position);
            if reader.symbol(",").is_none() {
                return Some(output);
            }
        }
    }

    fn add(&mut self, name: &str, position: u16) {
        Arc::make_mut(&mut self.names).push(Blob::from_slice(name.as_bytes()));
        self.positions.push(position);
    }
}

/// SELECT by key.
pub struct Select {
    info: Arc<TableInfo>,
    index: IndexId,
    columns: SmallVec<[KeyColumn; 2]>,
    values: KeyValues,
    output: Output,
    /// Parameters of the statement.
    pub parameters: usize,
}

/// Reads a SELECT by key or range.
pub fn compile(host: &mut dyn Host, reader: &mut Reader<'_>) -> Option<Plan> {
    reader.word("SELECT")?;
    let (info, alias) = reader.ahead_of("FROM", |reader| reader.table(host))?;
    let alias = alias.as_deref();
    let output = Output::read(reader, &info, alias)?;
    reader.word("FROM")?;
    reader.skip_table(alias.is_some())?;
    let conditions = reader.conditions(&info, alias)?;
    if reader.end().is_some()
        && let Some(plan) = by_key(&info, &conditions, reader.parameters)
    {
        return Some(Plan::Select(Select { output, ..plan }));
    }
    range::compile(reader, &info, alias, &conditions, output).map(Plan::Range)
}

fn by_key(info: &Arc<TableInfo>, conditions: &[Condition], parameters: usize) -> Option<Select> {
    let index = index_of_all(info, conditions)?;
    let output = Output::default();
    Some(Select {
        info: info.clone(),
        index: index.id,
        columns: KeyColumn::all(info, index),
        values: key::values_of(info, index, conditions)?,
        output,
        parameters,
    })
}

impl Select {
    /// Where it looks its keys up.
    #[inline]
    pub fn place(&self) -> (TableId, IndexId) {
        (self.info.def.id, self.index)
    }

    /// Is its index unique, so that it finds a row for each key at most?
    pub fn is_short(&self) -> bool {
        key::is_unique(&self.info, self.index) && self.parameters <= 64
    }

    /// Its table and the columns that it returns.
    #[inline]
    pub fn output(&self) -> (&TableInfo, &Output) {
        (&self.info, &self.output)
    }

    /// What it does, for EXPLAIN.
    pub fn step(&self) -> Step {
        key::step(&self.info, self.index, &self.values)
    }

    /// Does it look up one key, if any?
    #[inline]
    pub fn is_of_one_key(&self) -> bool {
        self.values.iter().all(|values| values.len() == 1)
    }

    /// How many keys it looks up at most.
    fn questions(&self) -> usize {
        self.values.iter().map(SmallVec::len).max().unwrap_or(0)
    }

    /// Appends the key that the statement will look up, if it is one.
    #[inline]
    pub fn key(&self, params: &[DatumRef<'_>], keys: &mut Batch) -> Option<()> {
        let mut key = KeyBuf::new();
        for (column, values) in self.columns.iter().zip(&self.values) {
            let [value] = &values[..] else { return None };
            if key::encode(value.get(params), column, &mut key) != Encoded::Bytes {
                return None;
            }
        }
        keys.push(&key);
        Some(())
    }
}

/// Runs it.
#[inline]
pub fn run(host: &mut dyn Host, plan: &Select, params: &[DatumRef<'_>]) -> Outcome<Option<Reply>> {
    let mut rows = plan.output.rows(plan.questions());
    let found = find(host, plan, params, &mut |row| plan.output.add_to(&mut rows, row))?;
    Ok(found.map(|()| Reply::Rows(rows)))
}

/// Shows `visit` the rows. None: SQLite must judge, and nothing was shown.
#[inline]
pub fn find(
    host: &mut dyn Host,
    plan: &Select,
    params: &[DatumRef<'_>],
    visit: &mut dyn FnMut(Row<'_>),
) -> Outcome<Option<()>> {
    let mut keys = std::mem::take(&mut host.sql().keys);
    let result = match key::keys(&plan.columns, &plan.values, params, &mut keys) {
        Encoded::Unknown => Ok(None),
        Encoded::Never => Ok(Some(())),
        Encoded::Bytes => {
            let mut bytes = 0;
            let found = host.source().get_many(plan.info.def.id, plan.index, &keys, &mut |_, _, row| {
                bytes += row.bytes().len() + plan.output.row_bytes();
                if bytes <= limits::SQL_RESULT_BYTES_MAX {
                    visit(row);
                }
            });
            found.map_err(Failure::from).and_then(|()| Ok(check_result_size(bytes).map(Some)?))
        }
    };
    host.sql().keys = keys;
    result
}
