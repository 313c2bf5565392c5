//! INSERT of literals and parameters, UPDATE and DELETE by key. Rows that fire triggers are written one by one: their routines
//! may write the same table between two of them.

use super::key::{self, Encoded, KeyColumn, KeyValues};
use super::read::{Condition, Reader, Value, index_of_all};
use super::select::Output;
use super::upsert::{Planned, Upsert};
use crate::error::{Code, Error};
use crate::reply::Reply;
use crate::sql::constraint::foreign_key;
use crate::sql::dml::returning::Returned;
use crate::sql::dml::upsert::Upserting;
use crate::sql::executor::in_scope;
use crate::sql::run::{Failure, Host, Outcome, Run, Traits};
use crate::sql::table_info::TableInfo;
use crate::sql::vtab::describe::Step;
use crate::sql::write::{self, Given, OnConflict, Set};
use crate::table::batch::Batch;
use crate::table::catalog::{ColumnDef, IndexId};
use crate::table::datum::DatumRef;
use crate::table::row::Row;
use crate::table::row_id::RowId;
use crate::table::types::ColumnType;
use smallvec::SmallVec;
use std::sync::Arc;

/// INSERT INTO t [(...)] VALUES (...), ... [ON CONFLICT ...] [RETURNING column, ...]
pub struct Insert {
    info: Arc<TableInfo>,
    on_conflict: OnConflict,
    /// For each column of the table, the place among the values of a row.
    places: Vec<Option<usize>>,
    /// The values of all rows, one row after another.
    values: Vec<Value>,
    width: usize,
    /// What becomes of a row whose key is taken.
    upsert: Option<Upsert>,
    /// The columns to return.
    returning: Option<Output>,
    /// Parameters of the statement.
    pub parameters: usize,
}

/// Reads an INSERT or REPLACE.
pub fn compile_insert(host: &mut dyn Host, reader: &mut Reader<'_>) -> Option<Insert> {
    let on_conflict = if reader.word("REPLACE").is_some() {
        OnConflict::Replace
    } else {
        reader.word("INSERT")?;
        read_on_conflict(reader)?
    };
    reader.word("INTO")?;
    let (info, alias) = reader.table(host)?;
    if alias.is_some() {
        return None;
    }
    let count = info.def.columns.len();
    let visible = info.def.columns.iter().filter(|c| !c.hidden).count();
    let (mut places, mut width) = (vec![None; count], visible);
    if reader.symbol("(").is_some() {
        width = read_columns(reader, &info, &mut places)?;
    } else {
        (0..visible).for_each(|column| places[column] = Some(column));
    }
    reader.word("VALUES")?;
    let mut values = Vec::new();
    loop {
        let row = reader.list()?;
        if row.len() != width {
            return None;
        }
        values.extend(row);
        if reader.symbol(",").is_none() {
            break;
        }
    }
    let mut insert = Insert { info, on_conflict, places, values, width, upsert: None, returning: None, parameters: 0 };
    // After several rows it would be too late to give up.
    let is_one = insert.values.len() == width && on_conflict == OnConflict::Abort;
    // What triggers did would be done again, if it were given up.
    if insert.info.triggers.is_some() && reader.is_word("ON") {
        return None;
    }
    if is_one && reader.is_word("ON") {
        insert.upsert = Some(Upsert::read(reader, &insert)?);
    }
    if reader.word("RETURNING").is_some() {
        if insert.info.triggers.is_some() {
            return None;
        }
        insert.returning = Some(Output::read(reader, &insert.info, None)?);
    }
    reader.end()?;
    insert.parameters = reader.parameters;
    Some(insert)
}

fn read_on_conflict(reader: &mut Reader<'_>) -> Option<OnConflict> {
    if reader.word("OR").is_none() {
        return Some(OnConflict::Abort);
    }
    let words = [("IGNORE", OnConflict::Ignore), ("REPLACE", OnConflict::Replace), ("ABORT", OnConflict::Abort)];
    words.into_iter().find_map(|(word, meaning)| reader.word(word).map(|()| meaning))
}

/// `a, b)`: notes for each column its place, and gives how many there are.
fn read_columns(reader: &mut Reader<'_>, info: &TableInfo, places: &mut [Option<usize>]) -> Option<usize> {
    let mut width = 0;
    loop {
        let column = reader.column(info, None)?;
        if places[column].replace(width).is_some() {
            return None;
        }
        width += 1;
        if reader.symbol(",").is_none() {
            reader.symbol(")")?;
            return Some(width);
        }
    }
}

/// Runs an INSERT.
pub fn insert(host: &mut dyn Host, plan: &Insert, params: &[DatumRef<'_>]) -> Outcome<Option<Reply>> {
    let several = plan.values.len() > plan.width || plan.on_conflict == OnConflict::Replace;
    let several = several || plan.info.links.is_some() || plan.info.def.bound.is_some();
    let several = several || plan.info.triggers.is_some();
    in_scope(host, several, |host| {
        let mut run = Run::new(host, &Traits::NONE);
        let mut rows = std::mem::take(&mut run.rows);
        rows.clear();
        if plan.info.triggers.is_some() {
            plan.insert_firing(&mut run, params, &mut rows)?;
            foreign_key::finish(&mut run)?;
            return Ok(Some(Reply::Int(run.changed as i64)));
        }
        plan.encode(&mut run, params, &mut rows)?;
        if plan.upsert.is_some() || plan.returning.is_some() {
            return insert_and_more(&mut run, plan, params, &rows);
        }
        write::insert_encoded(&mut run, &plan.info, &rows, plan.on_conflict)?;
        foreign_key::finish(&mut run)?;
        Ok(Some(Reply::Int(run.changed as i64)))
    })
}

/// Inserts with an upsert or RETURNING.
fn insert_and_more<'a>(
    run: &mut Run<'a>,
    plan: &'a Insert,
    params: &'a [DatumRef<'a>],
    rows: &Batch,
) -> Outcome<Option<Reply>> {
    run.returned = plan.returning.is_some().then(Returned::default);
    run.upserting = plan.upsert.as_ref().map(|upsert| upsert.start(params));
    let inserted = write::insert_encoded(run, &plan.info, rows, plan.on_conflict);
    if let Some(Upserting::Planned(Planned { gave_up: true, .. })) = run.upserting {
        return Ok(None);
    }
    inserted?;
    foreign_key::finish(run)?;
    let Some((output, returned)) = plan.returning.as_ref().zip(run.returned.take()) else {
        return Ok(Some(Reply::Int(run.changed as i64)));
    };
    let mut rows = output.rows(1);
    returned.iter().for_each(|(_, row)| output.add_to(&mut rows, Row::new(row, &plan.info.layout)));
    Ok(Some(Reply::Rows(rows)))
}

/// Rows that are handed to the engine at once.
const ROWS_AT_ONCE: usize = 1024;

/// Runs an INSERT for each group of parameters, many rows at once. The caller has opened a scope.
pub fn insert_many(host: &mut dyn Host, plan: &Insert, values: &[DatumRef<'_>]) -> Outcome<u64> {
    let mut run = Run::new(host, &Traits::NONE);
    let mut rows = std::mem::take(&mut run.rows);
    let deadline_ns = run.host.deadline_ns();
    for groups in values.chunks(ROWS_AT_ONCE * plan.parameters) {
        rows.clear();
        for params in groups.chunks(plan.parameters) {
            match plan.info.triggers {
                Some(_) => plan.insert_firing(&mut run, params, &mut rows)?,
                None => plan.encode(&mut run, params, &mut rows)?,
            }
        }
        if plan.info.triggers.is_none() {
            write::insert_encoded(&mut run, &plan.info, &rows, plan.on_conflict)?;
        }
        if run.host.is_cancelled() || deadline_ns.is_some_and(|deadline| run.host.monotonic_ns() > deadline) {
            return Err(Error::new(Code::Cancelled, "the statement took too long or was cancelled").into());
        }
    }
    // All groups are one step, so a row may refer to one of a later group.
    foreign_key::finish(&mut run)?;
    Ok(run.changed)
}

impl Insert {
    /// The table.
    pub fn info(&self) -> &TableInfo {
        &self.info
    }

    /// Does it return rows?
    pub fn returns(&self) -> bool {
        self.returning.is_some()
    }

    /// May it change rows that are there?
    pub fn is_upsert(&self) -> bool {
        self.upsert.is_some()
    }

    /// Appends its rows for one group of parameters.
    fn encode(&self, run: &mut Run<'_>, params: &[DatumRef<'_>], rows: &mut Batch) -> Outcome<()> {
        self.values.chunks(self.width).try_for_each(|row| self.encode_row(run, row, params, rows))
    }

    fn encode_row(&self, run: &mut Run<'_>, row: &[Value], params: &[DatumRef<'_>], rows: &mut Batch) -> Outcome<()> {
        let evaluator = run.host.sql().evaluator();
        let evaluate = &mut |text: &str| evaluator.evaluate(text).map_err(Failure::from);
        let given = self.places.iter().map(|place| match place {
            Some(place) => Given::Value(row[*place].get(params)),
            None => Given::Nothing,
        });
        let given: SmallVec<[Given<'_>; 16]> = given.collect();
        write::encode(run, &self.info, &given, self.on_conflict, evaluate, rows).map(drop)
    }

    /// Inserts its rows for one group of parameters one by one, each with its triggers.
    fn insert_firing(&self, run: &mut Run<'_>, params: &[DatumRef<'_>], rows: &mut Batch) -> Outcome<()> {
        let deadline_ns = run.host.deadline_ns();
        for row in self.values.chunks(self.width) {
            if run.host.is_cancelled() || deadline_ns.is_some_and(|deadline| run.host.monotonic_ns() > deadline) {
                return Err(Error::new(Code::Cancelled, "the statement took too long or was cancelled").into());
            }
            rows.clear();
            self.encode_row(run, row, params, rows)?;
            if !rows.is_empty() {
                write::insert_encoded(run, &self.info, rows, self.on_conflict)?;
            }
        }
        Ok(())
    }
}

/// UPDATE t SET column = value, ... WHERE key
pub struct Update {
    target: Target,
    /// Columns of the table, in its order, and their new values.
    values: Vec<(usize, Value)>,
    /// Parameters of the statement.
    pub parameters: usize,
}

/// DELETE FROM t WHERE key
pub struct Delete {
    target: Target,
    /// Parameters of the statement.
    pub parameters: usize,
}

/// The rows that a statement writes: those with a key.
struct Target {
    info: Arc<TableInfo>,
    index: IndexId,
    columns: SmallVec<[KeyColumn; 2]>,
    values: KeyValues,
}

impl Insert {
    /// What it does, for EXPLAIN.
    pub fn step(&self) -> Step {
        let rows = self.values.len() / self.width.max(1);
        let (table, words) = (self.info.def.name.clone(), format!("values into {}", self.info.def.name));
        Step { table, path: "values".into(), rows: rows.to_string(), words, ..Step::default() }
    }
}

impl Update {
    /// Does it find a row for each key at most?
    pub fn is_short(&self) -> bool {
        key::is_unique(&self.target.info, self.target.index) && self.parameters <= 64
    }

    /// What it does, for EXPLAIN.
    pub fn step(&self) -> Step {
        key::step(&self.target.info, self.target.index, &self.target.values)
    }
}

impl Delete {
    /// Does it find a row for each key at most?
    pub fn is_short(&self) -> bool {
        key::is_unique(&self.target.info, self.target.index) && self.parameters <= 64
    }

    /// What it does, for EXPLAIN.
    pub fn step(&self) -> Step {
        key::step(&self.target.info, self.target.index, &self.target.values)
    }
}

impl Target {
    fn new(info: &Arc<TableInfo>, conditions: &[Condition]) -> Option<Target> {
        let index = index_of_all(info, conditions)?;
        Some(Target {
            info: info.clone(),
            index: index.id,
            columns: KeyColumn::all(info, index),
            values: key::values_of(info, index, conditions)?,
        })
    }

    /// The ids of the rows, all before the first is written, and the bytes of the last one. None: only SQLite can judge.
    fn find(
        &self,
        host: &mut dyn Host,
        params: &[DatumRef<'_>],
        row: &mut Vec<u8>,
    ) -> Outcome<Option<SmallVec<[RowId; 4]>>> {
        let mut keys = std::mem::take(&mut host.sql().keys);
        let mut ids = SmallVec::new();
        let result = match key::keys(&self.columns, &self.values, params, &mut keys) {
            Encoded::Unknown => Ok(None),
            Encoded::Never => Ok(Some(())),
            Encoded::Bytes => {
                let visit = &mut |_: usize, id: RowId, found: Row<'_>| {
                    ids.push(id);
                    row.clear();
                    row.extend_from_slice(found.bytes());
                };
                host.source().get_many(self.info.def.id, self.index, &keys, visit).map(Some)
            }
        };
        host.sql().keys = keys;
        Ok(result?.map(|()| ids))
    }
}

/// Reads an UPDATE.
pub fn compile_update(host: &mut dyn Host, reader: &mut Reader<'_>) -> Option<Update> {
    reader.word("UPDATE")?;
    let (info, alias) = reader.table(host)?;
    reader.word("SET")?;
    let mut values: Vec<(usize, Value)> = Vec::new();
    loop {
        let column = reader.column(&info, None)?;
        reader.symbol("=")?;
        if values.iter().any(|(other, _)| *other == column) {
            return None;
        }
        values.push((column, reader.value()?));
        if reader.symbol(",").is_none() {
            break;
        }
    }
    values.sort_by_key(|(column, _)| *column);
    let conditions = reader.conditions(&info, alias.as_deref())?;
    reader.end()?;
    Some(Update { target: Target::new(&info, &conditions)?, values, parameters: reader.parameters })
}

/// Runs an UPDATE.
pub fn update(host: &mut dyn Host, plan: &Update, params: &[DatumRef<'_>]) -> Outcome<Option<Reply>> {
    let (mut rows, mut old) = std::mem::take(&mut host.sql().row_buffers);
    let Some(ids) = plan.target.find(host, params, &mut old)? else { return Ok(None) };
    let fires = plan.target.info.triggers.is_some();
    if let [id] = ids[..]
        && !fires
        && update_numbers(host, plan, params, (id, &old), &mut rows)?
    {
        host.sql().row_buffers = (rows, old);
        return Ok(Some(Reply::Int(1)));
    }
    in_scope(host, ids.len() > 1 || plan.target.info.links.is_some() || fires, |host| {
        let values = plan.values.iter();
        let sets: SmallVec<[Set<'_>; 4]> = values.map(|(column, value)| (*column, value.get(params))).collect();
        let mut run = Run::new(host, &Traits::NONE);
        run.rows = rows;
        if let [id] = ids[..] {
            write::update_from(&mut run, &plan.target.info, (id, &old), &sets, OnConflict::Abort)?;
        } else {
            for id in &ids {
                write::update(&mut run, &plan.target.info, *id, &sets, OnConflict::Abort)?;
            }
        }
        foreign_key::finish(&mut run)?;
        run.host.sql().row_buffers = (std::mem::take(&mut run.rows), old);
        Ok(Some(Reply::Int(run.changed as i64)))
    })
}

/// Gives numbers to columns of numbers of a row, if nothing else is to be looked at: the usual UPDATE, at two thirds of its
/// cost. False: it is not so, or the row was refused, and nothing was done.
fn update_numbers(
    host: &mut dyn Host,
    plan: &Update,
    params: &[DatumRef<'_>],
    (id, old): (RowId, &[u8]),
    rows: &mut Batch,
) -> Outcome<bool> {
    let info = &*plan.target.info;
    let numbers = plan.values.iter().map(|(column, value)| (&info.def.columns[*column], value.get(params)));
    let fits = |(column, value): (&ColumnDef, DatumRef<'_>)| match value {
        DatumRef::Int(_) => column.ctype == ColumnType::Integer,
        DatumRef::Real(number) => column.ctype == ColumnType::Real && !number.is_nan(),
        _ => false,
    };
    if info.rules.is_some() || info.links.is_some() || !numbers.clone().all(fits) {
        return Ok(false);
    }
    rows.clear();
    let numbers = numbers.map(|(column, value)| (column.position, value));
    if rows.write(|out| info.layout.encode_changed(old, numbers, out).ok_or(())).is_err() {
        return Ok(false);
    }
    host.make_room()?;
    let (tables, changes) = host.write()?;
    Ok(tables.update(info.def.id, &[id], rows, changes).is_ok())
}

/// Reads a DELETE.
pub fn compile_delete(host: &mut dyn Host, reader: &mut Reader<'_>) -> Option<Delete> {
    reader.word("DELETE")?;
    reader.word("FROM")?;
    let (info, alias) = reader.table(host)?;
    let conditions = reader.conditions(&info, alias.as_deref())?;
    reader.end()?;
    Some(Delete { target: Target::new(&info, &conditions)?, parameters: reader.parameters })
}

/// Runs a DELETE.
pub fn delete(host: &mut dyn Host, plan: &Delete, params: &[DatumRef<'_>]) -> Outcome<Option<Reply>> {
    let Some(ids) = plan.target.find(host, params, &mut Vec::new())? else { return Ok(None) };
    in_scope(host, true, |host| {
        let mut run = Run::new(host, &Traits::NONE);
        for id in &ids {
            write::delete(&mut run, &plan.target.info, *id)?;
        }
        foreign_key::finish(&mut run)?;
        Ok(Some(Reply::Int(run.changed as i64)))
    })
}
