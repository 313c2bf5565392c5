//! CREATE VIEW and DROP VIEW. A view is kept as text; SQLite knows it as its own, over our tables.

use super::{all_or_none, check_name};
use crate::error::{Code, Error, Result};
use crate::reply::Reply;
use crate::sql::ddl::{CreateView, Drop};
use crate::sql::error::sql;
use crate::sql::executor;
use crate::sql::run::Host;
use crate::sql::statement::{self, Class};
use crate::sql::token::show_name;
use crate::table::catalog::ViewDef;

/// CREATE VIEW.
pub fn create(host: &mut dyn Host, statement: &CreateView) -> Result<Reply> {
    let exists = host.catalog().view(&statement.name).is_some();
    if exists && statement.if_not_exists {
        return Ok(Reply::Int(0));
    }
    if exists && !statement.or_replace {
        return Err(sql(format!("view {} already exists", statement.name)));
    }
    check_name("view", &statement.name)?;
    check_query(host, statement)?;
    let columns = match statement.columns.is_empty() {
        true => String::new(),
        false => format!(" ({})", statement.columns.iter().map(|c| show_name(c)).collect::<Vec<_>>().join(", ")),
    };
    let text = format!("CREATE VIEW {}{columns} AS {}", show_name(&statement.name), statement.query);
    all_or_none(host, |host| {
        let (tables, changes) = host.write()?;
        tables.put_view(ViewDef { name: statement.name.clone(), sql: text }, changes)?;
        // SQLite reads a view's columns when it is used; that must go well now.
        let (class, _) = statement::classify("SELECT 1")?;
        let Class::Query(traits) = class else { return Ok(()) };
        executor::prepare(host, &format!("SELECT * FROM {}", show_name(&statement.name)), traits).map(|_| ())
    })?;
    Ok(Reply::Int(0))
}

/// The query must be one that reads, without parameters.
fn check_query(host: &mut dyn Host, statement: &CreateView) -> Result<()> {
    let (class, _) = statement::classify(&statement.query)?;
    let Class::Query(traits) = class else { return Err(sql("CREATE VIEW .. AS needs a query")) };
    if traits.parameters {
        return Err(sql(format!("view {} cannot have parameters", statement.name)));
    }
    let about = |error: Error| {
        let message = error.message.split(" at position ").next().unwrap_or_default().to_string();
        Error::new(error.code, format!("view {}: {message}", statement.name))
    };
    let prepared = executor::prepare(host, &statement.query, traits).map_err(about)?;
    if !prepared.is_readonly() {
        return Err(sql(format!("view {} would write", statement.name)));
    }
    let count = prepared.columns().len();
    if !statement.columns.is_empty() && statement.columns.len() != count {
        let named = statement.columns.len();
        return Err(sql(format!("view {} names {named} columns, its query has {count}", statement.name)));
    }
    Ok(())
}

/// DROP VIEW.
pub fn drop(host: &mut dyn Host, statement: &Drop) -> Result<Reply> {
    all_or_none(host, |host| {
        for name in &statement.names {
            if host.catalog().view(name).is_none() {
                if statement.if_exists {
                    continue;
                }
                let is_table = host.catalog().table(name).is_some();
                let hint = if is_table { ": it is a table, use DROP TABLE" } else { "" };
                return Err(Error::new(Code::Sql, format!("no such view: {name}{hint}")));
            }
            let (tables, changes) = host.write()?;
            tables.drop_view(name, changes)?;
        }
        Ok(Reply::Int(0))
    })
}
