//! CREATE TABLE: from what was read to a definition, which is judged before anything is made.

use super::index::{add_index, index_of};
use super::{all_or_none, bound, check_name};
use crate::error::{Code, Error, Result};
use crate::limits;
use crate::reply::Reply;
use crate::sql::constraint::judge;
use crate::sql::constraint::link::link_of;
use crate::sql::ddl::{Column, CreateTable};
use crate::sql::error::sql;
use crate::sql::executor::{self, Sql};
use crate::sql::run::Host;
use crate::sql::statement;
use crate::sql::table_info::Default;
use crate::sql::token::quote_name;
use crate::table::catalog::{Catalog, ColumnDef, TableDef};
use crate::table::datum::Datum;
use crate::table::types::{self, ColumnType};

/// Names of engines that mean the one there is: tables in memory.
const ENGINES: [&str; 7] = ["memory", "innodb", "myisam", "ndb", "ndbcluster", "heap", "aria"];

/// Carries it out.
pub fn create(host: &mut dyn Host, statement: &CreateTable) -> Result<Reply> {
    if statement.if_not_exists && host.catalog().table(&statement.name).is_some() {
        return Ok(Reply::Int(0));
    }
    check_name("table", &statement.name)?;
    if let Some(engine) = &statement.engine
        && !ENGINES.iter().any(|known| known.eq_ignore_ascii_case(engine))
    {
        return Err(sql(format!("unknown engine {engine}: tables are kept by the engine memory")));
    }
    match &statement.query {
        Some(query) => create_as(host, statement, query),
        None => {
            let def = define(host, statement)?;
            let (tables, changes) = host.write()?;
            tables.create_table(def, changes)?;
            Ok(Reply::Int(0))
        }
    }
}

fn define(host: &mut dyn Host, statement: &CreateTable) -> Result<TableDef> {
    check_counts(statement)?;
    let mut def = TableDef::new(&statement.name);
    for column in &statement.columns {
        add_column(&mut def, column)?;
    }
    if def.columns.iter().all(|c| c.generated.is_some()) {
        return Err(sql(format!("table {} has no columns that are not generated", def.name)));
    }
    def.checks = statement.checks.clone();
    judge::table(&def)?;
    for key in &statement.keys {
        let index = index_of(&mut def, key, host.catalog(), false)?;
        add_index(&mut def, index)?;
    }
    settle_primary_key(&mut def)?;
    check_sequence(&def)?;
    check_defaults(host.sql(), &def)?;
    def.foreign_keys = statement.foreign_keys.clone();
    check_foreign_keys(host.catalog(), &def)?;
    def.bound = bound::settle(&def, &statement.bound)?;
    bound::check(host.catalog(), &def)?;
    Ok(def)
}

/// Before anything is judged, as each judgement takes its time.
fn check_counts(statement: &CreateTable) -> Result<()> {
    check_numbers(&statement.name, statement.keys.len(), statement.checks.len(), statement.foreign_keys.len())
}

/// The same for a definition that is there.
pub fn check_counts_of(def: &TableDef) -> Result<()> {
    check_numbers(&def.name, def.indexes.len(), def.checks.len(), def.foreign_keys.len())
}

fn check_numbers(table: &str, indexes: usize, checks: usize, foreign_keys: usize) -> Result<()> {
    let counts = [
        (indexes, limits::INDEXES_MAX, "indexes"),
        (checks, limits::CONSTRAINTS_MAX, "CHECKs"),
        (foreign_keys, limits::CONSTRAINTS_MAX, "foreign keys"),
    ];
    match counts.iter().find(|(count, most, _)| count > most) {
        Some((_, most, what)) => {
            Err(Error::new(Code::Limit, format!("table {table} would have more than {most} {what}")))
        }
        None => Ok(()),
    }
}

/// The referring columns must be there; so must the parent's key, unless the parent is made later.
pub fn check_foreign_keys(catalog: &Catalog, def: &TableDef) -> Result<()> {
    for key in &def.foreign_keys {
        for name in &key.columns {
            if def.column(name).is_none_or(|(_, column)| column.hidden) {
                return Err(sql(format!("unknown column {name} in a foreign key of table {}", def.name)));
            }
        }
        let exists = catalog.table(&key.parent).is_some() || key.parent.eq_ignore_ascii_case(&def.name);
        if let (true, Err(why)) = (exists, link_of(catalog, def, key).parent) {
            return Err(sql(why));
        }
        if !key.parent_columns.is_empty() && key.parent_columns.len() != key.columns.len() {
            return Err(sql(format!(
                "a foreign key of table {} does not have as many columns as it refers to",
                def.name
            )));
        }
    }
    Ok(())
}

fn add_column(def: &mut TableDef, column: &Column) -> Result<()> {
    let table = def.name.clone();
    let added = def.add_column(&column.name, &column.declared)?;
    set_column(&table, added, column)
}

/// Gives a column what its definition says beside its name and type.
pub fn set_column(table: &str, added: &mut ColumnDef, column: &Column) -> Result<()> {
    if let Some(collation) = column.collation {
        added.collation = collation;
    }
    added.not_null = column.not_null;
    added.autoincrement = column.autoincrement;
    added.default = column.default.clone();
    added.generated = column.generated.clone();
    if added.generated.is_some() && (added.default.is_some() || added.autoincrement) {
        return Err(sql(format!(
            "generated column {table}.{} can have neither DEFAULT nor AUTO_INCREMENT",
            added.name
        )));
    }
    Ok(())
}

/// The columns of a primary key are not NULL. A single one declared INTEGER numbers its rows itself, as in SQLite.
fn settle_primary_key(def: &mut TableDef) -> Result<()> {
    let Some(key) = def.primary_key() else { return Ok(()) };
    let positions: Vec<u16> = key.columns.iter().map(|c| c.position).collect();
    let numbered = def.columns.iter().any(|c| c.autoincrement);
    for column in def.columns.iter_mut().filter(|c| positions.contains(&c.position)) {
        if column.generated.is_some() {
            return Err(sql(format!(
                "generated columns cannot be part of the primary key: {}.{}",
                def.name, column.name
            )));
        }
        column.not_null = true;
        let counts =
            positions.len() == 1 && column.default.is_none() && column.declared.eq_ignore_ascii_case("INTEGER");
        column.autoincrement |= counts && !numbered;
    }
    Ok(())
}

/// At most one column numbers rows.
pub fn check_sequence(def: &TableDef) -> Result<()> {
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
    def.columns.iter().try_for_each(|column| default_value(sql_side, def, column).map(|_| ()))
}

/// What a column's default gives now, in the form in which the column keeps it; NULL if it has none.
pub fn default_value(sql_side: &Sql, def: &TableDef, column: &ColumnDef) -> Result<Datum> {
    let Some(text) = &column.default else { return Ok(Datum::Null) };
    let value = match Default::parse(text)? {
        Default::Literal(value) => value,
        Default::Expression(text) => sql_side.evaluate(&text).map_err(|error| {
            // A place in the evaluator's own text would mislead.
            let message = error.message.split(" at position ").next().unwrap_or_default();
            Error::new(error.code, format!("DEFAULT of {}.{}: {message}", def.name, column.name))
        })?,
    };
    let fitted = types::coerce(value.as_ref(), column.ctype, &def.name, &column.name)?;
    Ok(fitted.as_ref().to_owned())
}

/// CREATE TABLE .. AS SELECT: the query's columns make the table, its rows fill it.
fn create_as(host: &mut dyn Host, statement: &CreateTable, query: &str) -> Result<Reply> {
    let def = define_by(host, statement, query)?;
    let insert = format!("INSERT INTO {} {query}", quote_name(&def.name));
    all_or_none(host, |host| {
        let (tables, changes) = host.write()?;
        tables.create_table(def, changes)?;
        executor::execute(host, insert.as_bytes(), &[])
    })
}

/// A table with the columns of a query: those that are a table's have its type, others that of their expression.
fn define_by(host: &mut dyn Host, statement: &CreateTable, query: &str) -> Result<TableDef> {
    let (class, _) = statement::classify(query)?;
    let statement::Class::Query(traits) = class else { return Err(sql("CREATE TABLE .. AS needs a query")) };
    if traits.parameters {
        return Err(sql("CREATE TABLE .. AS SELECT cannot have parameters"));
    }
    let prepared = executor::prepare(host, query, traits)?;
    let mut def = TableDef::new(&statement.name);
    for column in prepared.columns() {
        let origin = column.origin.as_ref().and_then(|(table, name)| {
            let (_, found) = host.catalog().table(table)?.column(name)?;
            Some((found.declared.clone(), found.collation))
        });
        let (declared, collation) = match origin {
            Some((declared, collation)) => (declared, Some(collation)),
            None => (column.declared.unwrap_or_else(|| "ANY".into()), None),
        };
        let name = free_name(&def, &column.name);
        let added = def.add_column(&name, &declared)?;
        added.collation = collation.unwrap_or(added.collation);
    }
    def.bound = bound::settle(&def, &statement.bound)?;
    bound::check(host.catalog(), &def)?;
    Ok(def)
}

/// The name, or the name with a number if a column has it already, as SQLite does it.
fn free_name(def: &TableDef, name: &str) -> String {
    let numbered = (1..).map(|n| format!("{name}:{n}"));
    let mut names = std::iter::once(name.to_string()).chain(numbered);
    names.find(|name| def.column(name).is_none()).unwrap_or_default()
}
