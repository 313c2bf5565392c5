//! DROP TABLE, DROP INDEX, and new names for tables.

use super::index::belongs;
use super::{all_or_none, bound, check_name, table};
use crate::engine::Kept;
use crate::error::Result;
use crate::reply::Reply;
use crate::sql::constraint::{foreign_key, requalified};
use crate::sql::ddl::{Drop, Rename};
use crate::sql::error::sql;
use crate::sql::run::Host;
use crate::table::catalog::{Origin, TableDef};

/// DROP TABLE.
pub fn tables(host: &mut dyn Host, statement: &Drop) -> Result<Reply> {
    let mut names: Vec<&str> = Vec::new();
    for name in &statement.names {
        if host.catalog().view(name).is_some() {
            return Err(sql(format!("{name} is a view: use DROP VIEW")));
        }
        if host.catalog().table(name).is_some() {
            if names.iter().any(|other| other.eq_ignore_ascii_case(name)) {
                return Err(sql(format!("table {name} is named twice")));
            }
            names.push(name);
        } else if !statement.if_exists {
            return Err(sql(format!("no such table: {name}")));
        }
    }
    for name in &names {
        let def = table(host.catalog(), name)?;
        foreign_key::refuse_drop(host, &def, &names)?;
    }
    if let [name] = names[..] {
        let (tables, changes) = host.write()?;
        tables.drop_table(name, changes)?.into_iter().for_each(free_elsewhere);
        return Ok(Reply::Int(0));
    }
    all_or_none(host, |host| {
        let (tables, changes) = host.write()?;
        for name in names {
            tables.drop_table(name, changes)?;
        }
        Ok(Reply::Int(0))
    })
}

/// DROP INDEX.
pub fn index(host: &mut dyn Host, statement: &Drop) -> Result<Reply> {
    let name = &statement.names[0];
    match (host.catalog().index(name), &statement.table) {
        (None, _) if statement.if_exists => return Ok(Reply::Int(0)),
        (Some((table, index)), Some(named)) if !table.name.eq_ignore_ascii_case(named) => {
            return Err(sql(format!("index {} is one of table {}, not of {named}", index.name, table.name)));
        }
        (Some((table, index)), _) if index.origin != Origin::Created => return Err(belongs(table, index)),
        _ => {}
    }
    let (tables, changes) = host.write()?;
    tables.drop_index(name, changes)?.into_iter().for_each(free_elsewhere);
    Ok(Reply::Int(0))
}

/// Frees what a table or index held without holding up the store.
pub fn free_elsewhere(kept: Kept) {
    let thread = std::thread::Builder::new().name("peryton-free".into());
    // Without a thread it is freed here, when the closure is dropped.
    let _ = thread.spawn(move || drop(kept));
}

/// ALTER TABLE .. RENAME TO, RENAME TABLE: one after another, so that names can be exchanged.
pub fn rename(host: &mut dyn Host, renames: &[Rename]) -> Result<Reply> {
    all_or_none(host, |host| {
        for Rename { from, to } in renames {
            rename_one(host, from, to)?;
        }
        Ok(Reply::Int(0))
    })
}

/// Gives a table another name, also in all that refers to it.
pub fn rename_one(host: &mut dyn Host, from: &str, to: &str) -> Result<()> {
    check_name("table", to)?;
    let before = table(host.catalog(), from)?;
    let mut def = TableDef::clone(&before);
    def.name = to.to_string();
    for index in def.indexes.iter_mut().filter(|i| i.origin == Origin::PrimaryKey) {
        index.name = format!("{to}.PRIMARY");
    }
    for expression in def.columns.iter_mut().filter_map(|c| c.generated.as_mut()) {
        *expression = requalified(expression, &before.name, Some(to));
    }
    for check in &mut def.checks {
        check.expression = requalified(&check.expression, &before.name, Some(to));
    }
    point_to(&mut def, &before.name, to);
    bound::check(host.catalog(), &def)?;
    let referring: Vec<TableDef> = host
        .catalog()
        .tables()
        .filter(|other| other.id != def.id && refers_to(other, &before.name))
        .map(|other| TableDef::clone(other))
        .collect();
    let (tables, changes) = host.write()?;
    tables.alter_table(def, changes)?;
    for mut other in referring {
        point_to(&mut other, &before.name, to);
        tables.alter_table(other, changes)?;
    }
    Ok(())
}

fn refers_to(def: &TableDef, parent: &str) -> bool {
    def.foreign_keys.iter().any(|key| key.parent.eq_ignore_ascii_case(parent))
}

fn point_to(def: &mut TableDef, from: &str, to: &str) {
    for key in def.foreign_keys.iter_mut().filter(|key| key.parent.eq_ignore_ascii_case(from)) {
        key.parent = to.to_string();
    }
}
