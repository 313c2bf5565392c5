//! SHOW and DESCRIBE: what there is, as rows.

use super::script::{create_statement, filter_of};
use super::table;
use crate::error::Result;
use crate::reply::{Blob, Reply};
use crate::sql::error::sql;
use crate::sql::run::Host;
use crate::sql::token::show_name;
use crate::sql::{executor, vtab};
use crate::table::catalog::{Catalog, IndexColumn, IndexDef, Method, Origin, TableDef};

/// The reply for rows: names, then rows.
pub fn rows(names: &[&str], rows: impl IntoIterator<Item = Vec<Reply>>) -> Reply {
    let header = Reply::bulks(names);
    Reply::Array(std::iter::once(header).chain(rows.into_iter().map(Reply::Array)).collect())
}

/// A text as a reply.
pub fn text(text: impl AsRef<str>) -> Reply {
    Reply::Verbatim(*b"txt", Blob::from_slice(text.as_ref().as_bytes()))
}

/// SHOW TABLES.
pub fn tables(host: &mut dyn Host) -> Reply {
    let source = host.source();
    let count = |def: &TableDef| source.row_count(def.id).map_or(Reply::Nil, |n| Reply::Int(n as i64));
    rows(&["name", "rows"], host.catalog().tables().map(|def| vec![text(&def.name), count(def)]))
}

/// SHOW VIEWS.
pub fn views(host: &mut dyn Host) -> Reply {
    rows(&["name", "sql"], host.catalog().views().map(|view| vec![text(&view.name), text(&view.sql)]))
}

/// DESCRIBE of a table or a view.
pub fn describe(host: &mut dyn Host, name: &str) -> Result<Reply> {
    match host.catalog().view(name).map(|view| view.name.clone()) {
        Some(view) => describe_view(host, &view),
        None => Ok(describe_table(&*table(host.catalog(), name)?)),
    }
}

const DESCRIBED: [&str; 6] = ["name", "type", "null", "key", "default", "extra"];

fn describe_view(host: &mut dyn Host, view: &str) -> Result<Reply> {
    let query = format!("SELECT * FROM {}", show_name(view));
    let prepared = executor::prepare(host, &query, crate::sql::run::Traits::NONE)?;
    let row = |column: executor::Described| {
        let declared = column.declared.unwrap_or_else(|| "ANY".into());
        vec![text(column.name), text(declared), text("YES"), text(""), Reply::Nil, text("")]
    };
    Ok(rows(&DESCRIBED, prepared.columns().into_iter().map(row)))
}

fn describe_table(def: &TableDef) -> Reply {
    rows(
        &DESCRIBED,
        def.columns.iter().filter(|c| !c.hidden).map(|c| {
            vec![
                text(&c.name),
                text(&c.declared),
                text(if c.not_null { "NO" } else { "YES" }),
                text(key_word(def, c.position)),
                c.default.as_ref().map_or(Reply::Nil, text),
                text(match (c.autoincrement, c.generated.is_some()) {
                    (true, _) => "AUTO_INCREMENT",
                    (_, true) => "STORED GENERATED",
                    _ => "",
                }),
            ]
        }),
    )
}

/// MySQL's word for the part that a column has in keys.
pub fn key_word(def: &TableDef, position: u16) -> &'static str {
    let index = def.indexes.iter().find(|index| index.columns.first().is_some_and(|c| c.position == position));
    index.map_or("", |i| match i.origin {
        Origin::PrimaryKey => "PRI",
        _ if i.unique && i.columns.len() == 1 => "UNI",
        _ => "MUL",
    })
}

/// SHOW INDEXES.
pub fn indexes(def: &TableDef) -> Reply {
    rows(
        &["name", "unique", "method", "columns", "condition"],
        def.indexes.iter().map(|i| {
            vec![
                text(show_index_name(i)),
                Reply::Int(i.unique.into()),
                text(method(i.method)),
                text(index_columns(def, i)),
                filter_of(def, i).map_or(Reply::Nil, text),
            ]
        }),
    )
}

/// SHOW CREATE TABLE, SHOW CREATE VIEW.
pub fn create(catalog: &Catalog, name: &str) -> Result<Reply> {
    let (name, statement) = match (catalog.table(name), catalog.view(name)) {
        (Some(def), _) => (&def.name, create_statement(def)),
        (_, Some(view)) => (&view.name, view.sql.clone()),
        _ => return Err(sql(format!("no such table: {name}"))),
    };
    Ok(rows(&["name", "sql"], [vec![text(name), text(statement)]]))
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

/// "a, lower(b) DESC"
pub fn index_columns(def: &TableDef, index: &IndexDef) -> String {
    let column = |c: &IndexColumn| {
        let found = def.column_at(c.position);
        let name = found.map_or("?".into(), |found| match &found.generated {
            Some(expression) if found.hidden => format!("({expression})"),
            _ => show_name(&found.name).into_owned(),
        });
        let own = found.map(|found| found.collation);
        let collation =
            if own == Some(c.collation) { String::new() } else { format!(" COLLATE {}", vtab::name(c.collation)) };
        format!("{name}{collation}{}", if c.desc { " DESC" } else { "" })
    };
    index.columns.iter().map(column).collect::<Vec<_>>().join(", ")
}
