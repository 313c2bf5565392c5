//! Indexes from what was read: columns, hidden columns for expressions and conditions, and their values in rows.

use super::{all_or_none, table};
use crate::engine::{Access, Cursor};
use crate::error::{Code, Error, Result};
use crate::reply::Reply;
use crate::sql::constraint::{self, judge};
use crate::sql::ddl::{CreateIndex, Key, KeyKind, KeyOn, KeyPart};
use crate::sql::error::sql;
use crate::sql::executor::{in_scope, table_info};
use crate::sql::run::{Host, Outcome, Run, Traits, until_ready};
use crate::sql::table_info::TableInfo;
use crate::sql::write;
use crate::table::batch::Batch;
use crate::table::catalog::{Catalog, IndexColumn, IndexDef, IndexId, Method, Origin, TableDef};
use crate::table::datum::Datum;
use crate::table::row::Row;
use crate::table::row_id::RowId;
use crate::table::types::Collation;

/// Carries out CREATE INDEX.
pub fn create(host: &mut dyn Host, statement: &CreateIndex) -> Result<Reply> {
    if statement.if_not_exists && host.catalog().index(&statement.name).is_some() {
        return Ok(Reply::Int(0));
    }
    let key = &statement.key;
    add_to(host, &statement.table, key, Some(Origin::Created))?;
    Ok(Reply::Int(0))
}

/// Adds an index to a table that may have rows; `origin`, if it is not what the key says.
pub fn add_to(host: &mut dyn Host, name: &str, key: &Key, origin: Option<Origin>) -> Result<()> {
    let before = table(host.catalog(), name)?;
    let mut def = TableDef::clone(&before);
    let has_rows = match host.source().row_count(def.id) {
        Ok(rows) => rows > 0,
        Err(_) => true,
    };
    let mut index = index_of(&mut def, key, host.catalog(), has_rows)?;
    index.origin = origin.unwrap_or(index.origin);
    if def == *before {
        return build(host, &def.name, index);
    }
    all_or_none(host, |host| {
        let (tables, changes) = host.write()?;
        let def = tables.alter_table(def, changes)?;
        if has_rows {
            refresh_rows(host, &def.name)?;
        }
        build(host, &def.name, index)
    })
}

/// Builds an index, as long as there are memory and time for it.
fn build(host: &mut dyn Host, table: &str, index: IndexDef) -> Result<()> {
    let deadline_ns = host.deadline_ns();
    let (tables, _) = host.write()?;
    let mut building = tables.begin_index(table, index)?;
    let result = loop {
        let step = building.run();
        if !matches!(step, Ok(false)) {
            break step;
        }
        if let Err(error) = check_time(host, deadline_ns).and_then(|()| host.make_room()) {
            break Err(error);
        }
    };
    let (tables, changes) = host.write()?;
    match result {
        Ok(_) => tables.finish_index(building, changes),
        Err(error) => {
            tables.abandon_index(building);
            Err(error)
        }
    }
}

/// An error if the statement has taken too long, or somebody wants its end.
pub fn check_time(host: &mut dyn Host, deadline_ns: Option<u64>) -> Result<()> {
    let is_late = deadline_ns.is_some_and(|deadline| host.monotonic_ns() > deadline);
    if is_late || host.is_cancelled() {
        return Err(Error::new(Code::Cancelled, "the statement took too long or was cancelled"));
    }
    Ok(())
}

/// Puts an index where it belongs in a new definition.
pub fn add_index(def: &mut TableDef, index: IndexDef) -> Result<()> {
    if index.origin == Origin::PrimaryKey {
        if def.primary_key().is_some() {
            return Err(sql(format!("table {} has more than one primary key", def.name)));
        }
        def.indexes.insert(0, index);
    } else {
        def.indexes.push(index);
    }
    Ok(())
}

/// The index that a key asks for; its id comes from the catalog. Expressions get hidden columns, `later` ones if the table
/// has rows.
pub fn index_of(def: &mut TableDef, key: &Key, catalog: &Catalog, later: bool) -> Result<IndexDef> {
    let name = index_name(def, key, catalog)?;
    let mut columns: Vec<IndexColumn> = Vec::new();
    for part in &key.parts {
        let column = index_column(def, key.kind, part, &name, columns.len(), later)?;
        if columns.iter().any(|c| c.position == column.position) {
            return Err(sql(format!("column {} stands twice in a key of {}", part.text(), def.name)));
        }
        columns.push(column);
    }
    let filter = match &key.filter {
        None => None,
        Some(condition) => Some(add_filter(def, condition, &name, later)?),
    };
    let (origin, usual) = match key.kind {
        KeyKind::Primary => (Origin::PrimaryKey, Method::Hash),
        KeyKind::Unique => (Origin::Unique, Method::Ordered),
        KeyKind::Plain => (Origin::Created, Method::Ordered),
    };
    let (unique, method) = (key.kind != KeyKind::Plain, key.method.unwrap_or(usual));
    Ok(IndexDef { id: IndexId(0), name, columns, unique, method, origin, filter })
}

fn index_column(
    def: &mut TableDef,
    kind: KeyKind,
    part: &KeyPart,
    index: &str,
    number: usize,
    later: bool,
) -> Result<IndexColumn> {
    let (position, own) = match &part.on {
        KeyOn::Column(name) => {
            let missing = || sql(format!("table {} has no column named {name}", def.name));
            let (_, found) = def.column(name).filter(|(_, c)| !c.hidden).ok_or_else(missing)?;
            (found.position, found.collation)
        }
        KeyOn::Expression(text) if kind == KeyKind::Primary => {
            return Err(sql(format!("a primary key holds columns, not expressions such as {text}")));
        }
        KeyOn::Expression(text) => {
            let judged = judge::index_expression(def, text)?;
            let name = format!("{index}#{}", number + 1);
            add_hidden(def, &name, &judged.ctype.to_string(), text.clone(), judged.collation, later)?
        }
    };
    Ok(IndexColumn { position, desc: part.desc, collation: part.collation.unwrap_or(own) })
}

/// Adds the hidden boolean column of a partial index.
fn add_filter(def: &mut TableDef, condition: &str, index: &str, later: bool) -> Result<u16> {
    judge::index_filter(def, condition)?;
    let (name, expression) = (format!("{index}#where"), format!("({condition}\n) IS TRUE"));
    Ok(add_hidden(def, &name, "INTEGER", expression, Collation::Binary, later)?.0)
}

fn add_hidden(
    def: &mut TableDef,
    name: &str,
    declared: &str,
    expression: String,
    collation: Collation,
    later: bool,
) -> Result<(u16, Collation)> {
    let before = def.columns.len();
    if later {
        def.add_column_later(name, declared, Datum::Null)?;
    } else {
        def.add_column(name, declared)?;
    }
    // A new column stands before hidden ones; this one is to be among them, at the end.
    let at = def.column(name).map_or(before, |(at, _)| at);
    let mut column = def.columns.remove(at);
    column.hidden = true;
    column.generated = Some(expression);
    column.collation = collation;
    let position = column.position;
    def.columns.push(column);
    Ok((position, collation))
}

/// The name given, or one made of the table's and the columns'.
fn index_name(def: &TableDef, key: &Key, catalog: &Catalog) -> Result<String> {
    if key.kind == KeyKind::Primary {
        return Ok(format!("{}.PRIMARY", def.name));
    }
    let is_taken =
        |name: &str| catalog.index(name).is_some() || def.indexes.iter().any(|i| i.name.eq_ignore_ascii_case(name));
    if let Some(name) = &key.name {
        return if is_taken(name) { Err(sql(format!("index {name} already exists"))) } else { Ok(name.clone()) };
    }
    let word = |part: &KeyPart| match &part.on {
        KeyOn::Column(name) => name.clone(),
        KeyOn::Expression(_) => "expression".to_string(),
    };
    let columns: Vec<String> = key.parts.iter().map(word).collect();
    let base = format!("{}_{}", def.name, columns.join("_"));
    let numbered = (2..).map(|n| format!("{base}_{n}"));
    let free = std::iter::once(base.clone()).chain(numbered).find(|name| !is_taken(name));
    Ok(free.unwrap_or(base))
}

/// Rows that are computed anew at once.
const ROWS_AT_ONCE: usize = 1024;

/// Computes the generated columns of all rows, as the definition has new ones.
pub fn refresh_rows(host: &mut dyn Host, name: &str) -> Result<()> {
    let info = table_info(host, name)?;
    let mut from = RowId(0);
    loop {
        let batch = until_ready(host, |host| in_scope(host, true, |host| refresh_batch(host, &info, from)))?;
        match batch {
            Some(next) => from = next,
            None => return Ok(()),
        }
    }
}

/// Computes some rows anew, from the id `from` on; the id to go on from, None at the end.
fn refresh_batch(host: &mut dyn Host, info: &TableInfo, from: RowId) -> Outcome<Option<RowId>> {
    let (ids, rows) = read_rows(host, info, from)?;
    let Some(last) = ids.last().copied() else { return Ok(None) };
    let mut run = Run::new(host, &Traits::NONE);
    let mut fresh = Batch::new();
    for row in rows.iter() {
        constraint::refresh(&mut run, info, Row::new(row, &info.layout), &mut fresh)?;
    }
    let (tables, changes) = run.host.write()?;
    match tables.update(info.def.id, &ids, &fresh, changes) {
        Ok(()) => Ok(Some(RowId(last.0 + 1))),
        Err(error) => Err(write::failure(info, error, &fresh)),
    }
}

/// Reads some rows, from the id `from` on.
pub fn read_rows(host: &mut dyn Host, info: &TableInfo, from: RowId) -> Outcome<(Vec<RowId>, Batch)> {
    let source = host.source();
    let (mut cursor, mut ids, mut rows) = (Cursor::new(), Vec::new(), Batch::new());
    let mut more = source.seek(&mut cursor, info.def.id, &Access::From(from))?;
    while more && ids.len() < ROWS_AT_ONCE {
        ids.push(cursor.row_id());
        rows.push(source.row(&cursor).bytes());
        more = source.next(&mut cursor)?;
    }
    cursor.close();
    Ok((ids, rows))
}

/// The error for an index that belongs to its table's definition.
pub fn belongs(table: &TableDef, index: &IndexDef) -> Error {
    Error::new(Code::Sql, format!("index {} belongs to the definition of table {}", index.name, table.name))
}
