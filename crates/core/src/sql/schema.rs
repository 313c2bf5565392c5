//! Carries out our statements about tables, and shows what there is.

use super::ddl::{Column, CreateIndex, CreateTable, Ddl, Drop, Key, KeyColumn, KeyKind};
use super::error::sql;
use super::executor::Sql;
use super::run::Host;
use super::source;
use super::table_info::Default;
use super::token::show_name;
use crate::error::{Code, Error, Result};
use crate::reply::Reply;
use crate::table::catalog::{Catalog, IndexColumn, IndexDef, IndexId, Method, Origin, TableDef};
use crate::table::types::{self, Collation, ColumnType};
use std::sync::Arc;

/// Carries out one statement.
pub fn execute(host: &mut dyn Host, statement: &Ddl) -> Result<Reply> {
    match statement {
        Ddl::CreateTable(table) => create_table(host, table),
        Ddl::CreateIndex(index) => create_index(host, index),
        Ddl::DropTable(drop) => drop_table(host, drop),
        Ddl::DropIndex(drop) => drop_index(host, drop),
        Ddl::ShowTables => Ok(show_tables(host)),
        Ddl::Describe(name) => Ok(describe(&*table(host.catalog(), name)?)),
        Ddl::ShowCreateTable(name) => Ok(show_create_table(&*table(host.catalog(), name)?)),
        Ddl::ShowIndexes(name) => Ok(show_indexes(&*table(host.catalog(), name)?)),
    }
}

fn table(catalog: &Catalog, name: &str) -> Result<Arc<TableDef>> {
    catalog.table(name).cloned().ok_or_else(|| sql(format!("no such table: {name}")))
}

fn create_table(host: &mut dyn Host, statement: &CreateTable) -> Result<Reply> {
    if statement.if_not_exists && host.catalog().table(&statement.name).is_some() {
        return Ok(Reply::Int(0));
    }
    if source::is_own_name(&statement.name) || statement.name.to_ascii_lowercase().starts_with("sqlite_") {
        return Err(sql(format!("a table cannot be called {}: the name is Peryton's own", statement.name)));
    }
    let mut def = TableDef::new(&statement.name);
    for column in &statement.columns {
        add_column(&mut def, column)?;
    }
    if def.columns.is_empty() {
        return Err(sql(format!("table {} has no columns", def.name)));
    }
    for key in &statement.keys {
        let index = index_of(&def, key, host.catalog())?;
        add_index(&mut def, index)?;
    }
    settle_primary_key(&mut def);
    check_sequence(&def)?;
    check_defaults(host.sql(), &def)?;
    let (tables, changes) = host.write()?;
    tables.create_table(def, changes)?;
    Ok(Reply::Int(0))
}

fn add_column(def: &mut TableDef, column: &Column) -> Result<()> {
    let added = def.add_column(&column.name, &column.declared)?;
    if let Some(collation) = column.collation {
        added.collation = collation;
    }
    added.not_null = column.not_null;
    added.autoincrement = column.autoincrement;
    added.default = column.default.clone();
    Ok(())
}

fn add_index(def: &mut TableDef, index: IndexDef) -> Result<()> {
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

/// The columns of a primary key are not NULL. A single one declared INTEGER numbers its rows itself, as in SQLite.
fn settle_primary_key(def: &mut TableDef) {
    let Some(key) = def.primary_key() else { return };
    let positions: Vec<u16> = key.columns.iter().map(|c| c.position).collect();
    let numbered = def.columns.iter().any(|c| c.autoincrement);
    for column in def.columns.iter_mut().filter(|c| positions.contains(&c.position)) {
        column.not_null = true;
        let counts =
            positions.len() == 1 && column.default.is_none() && column.declared.eq_ignore_ascii_case("INTEGER");
        column.autoincrement |= counts && !numbered;
    }
}

fn check_sequence(def: &TableDef) -> Result<()> {
    let mut numbered = def.columns.iter().filter(|c| c.autoincrement);
    let (first, second) = (numbered.next(), numbered.next());
    if let Some(column) = first.filter(|c| c.ctype != ColumnType::Integer) {
        return Err(sql(format!("AUTO_INCREMENT column {}.{} is not an INTEGER", def.name, column.name)));
    }
    if let Some(column) = second {
        return Err(sql(format!("{}.{} is a second AUTO_INCREMENT column", def.name, column.name)));
    }
    Ok(())
}

/// Every default must be something its column can hold. Expressions are tried once.
fn check_defaults(sql_side: &Sql, def: &TableDef) -> Result<()> {
    for column in &def.columns {
        let Some(text) = &column.default else { continue };
        let value = match Default::parse(text)? {
            Default::Literal(value) => value,
            Default::Expression(text) => sql_side.evaluate(&text).map_err(|error| {
                Error::new(error.code, format!("DEFAULT of {}.{}: {}", def.name, column.name, error.message))
            })?,
        };
        types::coerce(value.as_ref(), column.ctype, &def.name, &column.name)?;
    }
    Ok(())
}

/// The index that a key asks for; its id comes from the catalog.
fn index_of(def: &TableDef, key: &Key, catalog: &Catalog) -> Result<IndexDef> {
    let columns = key.columns.iter().map(|c| index_column(def, c)).collect::<Result<Vec<_>>>()?;
    for (i, column) in columns.iter().enumerate() {
        if columns[..i].iter().any(|c| c.position == column.position) {
            return Err(sql(format!("column {} stands twice in a key of {}", key.columns[i].name, def.name)));
        }
    }
    let (origin, usual) = match key.kind {
        KeyKind::Primary => (Origin::PrimaryKey, Method::Hash),
        KeyKind::Unique => (Origin::Unique, Method::Ordered),
        KeyKind::Plain => (Origin::Created, Method::Ordered),
    };
    Ok(IndexDef {
        id: IndexId(0),
        name: index_name(def, key, catalog)?,
        columns,
        unique: key.kind != KeyKind::Plain,
        method: key.method.unwrap_or(usual),
        origin,
        filter: None,
    })
}

fn index_column(def: &TableDef, column: &KeyColumn) -> Result<IndexColumn> {
    let missing = || sql(format!("table {} has no column named {}", def.name, column.name));
    let (_, found) = def.column(&column.name).ok_or_else(missing)?;
    Ok(IndexColumn {
        position: found.position,
        desc: column.desc,
        collation: column.collation.unwrap_or(found.collation),
    })
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
    let columns: Vec<&str> = key.columns.iter().map(|c| &*c.name).collect();
    let base = format!("{}_{}", def.name, columns.join("_"));
    let numbered = (2..).map(|n| format!("{base}_{n}"));
    let free = std::iter::once(base.clone()).chain(numbered).find(|name| !is_taken(name));
    Ok(free.unwrap_or(base))
}

fn create_index(host: &mut dyn Host, statement: &CreateIndex) -> Result<Reply> {
    if statement.if_not_exists && host.catalog().index(&statement.name).is_some() {
        return Ok(Reply::Int(0));
    }
    let def = table(host.catalog(), &statement.table)?;
    let mut index = index_of(&def, &statement.key, host.catalog())?;
    index.origin = Origin::Created;
    let (tables, changes) = host.write()?;
    tables.create_index(&def.name, index, changes)?;
    Ok(Reply::Int(0))
}

fn drop_table(host: &mut dyn Host, statement: &Drop) -> Result<Reply> {
    if host.catalog().table(&statement.name).is_none() && statement.if_exists {
        return Ok(Reply::Int(0));
    }
    let (tables, changes) = host.write()?;
    if let Some(kept) = tables.drop_table(&statement.name, changes)? {
        free_elsewhere(kept);
    }
    Ok(Reply::Int(0))
}

fn drop_index(host: &mut dyn Host, statement: &Drop) -> Result<Reply> {
    match host.catalog().index(&statement.name) {
        None if statement.if_exists => return Ok(Reply::Int(0)),
        Some((table, index)) if index.origin != Origin::Created => {
            let text = format!("index {} belongs to the definition of table {}", index.name, table.name);
            return Err(Error::new(Code::Sql, text));
        }
        _ => {}
    }
    let (tables, changes) = host.write()?;
    if let Some(kept) = tables.drop_index(&statement.name, changes)? {
        free_elsewhere(kept);
    }
    Ok(Reply::Int(0))
}

/// Frees what a table or index held without holding up the store.
pub fn free_elsewhere(kept: crate::engine::Kept) {
    let thread = std::thread::Builder::new().name("peryton-free".into());
    // Without a thread it is freed here, when the closure is dropped.
    let _ = thread.spawn(move || drop(kept));
}

/// The reply for rows: names, then rows.
pub fn rows(names: &[&str], rows: impl IntoIterator<Item = Vec<Reply>>) -> Reply {
    let header = Reply::bulks(names);
    Reply::Array(std::iter::once(header).chain(rows.into_iter().map(Reply::Array)).collect())
}

/// A text as a reply.
pub fn text(text: impl AsRef<str>) -> Reply {
    Reply::Verbatim(*b"txt", crate::reply::Blob::from_slice(text.as_ref().as_bytes()))
}

fn show_tables(host: &mut dyn Host) -> Reply {
    let source = host.source();
    let count = |def: &TableDef| source.row_count(def.id).map_or(Reply::Nil, |n| Reply::Int(n as i64));
    rows(&["name", "rows"], host.catalog().tables().map(|def| vec![text(&def.name), count(def)]))
}

fn describe(def: &TableDef) -> Reply {
    let key = |position: u16| {
        let has = |index: &&IndexDef| index.columns.first().is_some_and(|c| c.position == position);
        let index = def.indexes.iter().find(has);
        index.map_or("", |i| match i.origin {
            Origin::PrimaryKey => "PRI",
            _ if i.unique && i.columns.len() == 1 => "UNI",
            _ => "MUL",
        })
    };
    rows(
        &["name", "type", "null", "key", "default", "extra"],
        def.columns.iter().filter(|c| !c.hidden).map(|c| {
            vec![
                text(&c.name),
                text(&c.declared),
                text(if c.not_null { "NO" } else { "YES" }),
                text(key(c.position)),
                c.default.as_ref().map_or(Reply::Nil, text),
                text(if c.autoincrement { "AUTO_INCREMENT" } else { "" }),
            ]
        }),
    )
}

fn show_indexes(def: &TableDef) -> Reply {
    rows(
        &["name", "unique", "method", "columns"],
        def.indexes.iter().map(|i| {
            vec![
                text(show_index_name(i)),
                Reply::Int(i.unique.into()),
                text(method(i.method)),
                text(index_columns(def, i)),
            ]
        }),
    )
}

/// An index's name as people know it: the primary key is PRIMARY.
pub fn show_index_name(index: &IndexDef) -> &str {
    if index.origin == Origin::PrimaryKey { "PRIMARY" } else { &index.name }
}

/// An access method's name in statements.
pub fn method(method: Method) -> &'static str {
    match method {
        Method::Hash => "HASH",
        Method::Ordered => "BTREE",
    }
}

/// "a, b DESC"
fn index_columns(def: &TableDef, index: &IndexDef) -> String {
    let column = |c: &IndexColumn| {
        let found = def.column_at(c.position);
        let name = found.map_or("?".into(), |found| show_name(&found.name));
        let own = found.map(|found| found.collation);
        let collation = if own == Some(c.collation) {
            String::new()
        } else {
            format!(" COLLATE {}", super::vtab::name(c.collation))
        };
        format!("{name}{collation}{}", if c.desc { " DESC" } else { "" })
    };
    index.columns.iter().map(column).collect::<Vec<_>>().join(", ")
}

fn show_create_table(def: &TableDef) -> Reply {
    let text_of = create_statement(def);
    rows(&["name", "sql"], [vec![text(&def.name), text(text_of)]])
}

/// The statements that make a table as it is.
pub fn create_statement(def: &TableDef) -> String {
    let mut lines: Vec<String> = def.columns.iter().filter(|c| !c.hidden).map(column_line).collect();
    let mut after = String::new();
    for index in &def.indexes {
        let (columns, method) = (index_columns(def, index), method(index.method));
        match index.origin {
            Origin::PrimaryKey => lines.push(format!("PRIMARY KEY ({columns}) USING {method}")),
            Origin::Unique => lines.push(format!("UNIQUE KEY {} ({columns}) USING {method}", show_name(&index.name))),
            Origin::Created => {
                let unique = if index.unique { "UNIQUE " } else { "" };
                let (name, table) = (show_name(&index.name), show_name(&def.name));
                after += &format!(";\nCREATE {unique}INDEX {name} ON {table} ({columns}) USING {method}");
            }
        }
    }
    format!("CREATE TABLE {} (\n  {}\n){after}", show_name(&def.name), lines.join(",\n  "))
}

fn column_line(column: &crate::table::catalog::ColumnDef) -> String {
    let mut line = format!("{} {}", show_name(&column.name), column.declared);
    if !matches!(column.collation, Collation::Binary | Collation::Decimal) {
        line += &format!(" COLLATE {}", super::vtab::name(column.collation));
    }
    if column.not_null {
        line += " NOT NULL";
    }
    if column.autoincrement {
        line += " AUTO_INCREMENT";
    }
    if let Some(default) = &column.default {
        line += &format!(" DEFAULT {default}");
    }
    line
}
