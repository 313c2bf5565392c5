//! What else needs a column: indexes, keys, CHECKs, generated columns, triggers, views.

use super::rename::renamed;
use crate::error::{Error, Result};
use crate::sql::constraint::{RowEvaluator, may_name, uses_of};
use crate::sql::error::sql;
use crate::sql::executor;
use crate::sql::run::{Host, Traits};
use crate::sql::schema::show_index_name;
use crate::sql::token::{Tokens, quote_name};
use crate::table::catalog::{Catalog, ColumnDef, IndexDef, Origin, TableDef, ViewDef};
use std::sync::Arc;

/// Refuses to let a column go, or to move its values, while an index holds them.
pub fn refuse_indexes(def: &TableDef, column: &ColumnDef) -> Result<()> {
    for index in &def.indexes {
        if !holds(def, index, column)? {
            continue;
        }
        let what = match index.origin {
            Origin::PrimaryKey => "it is part of the primary key".to_string(),
            Origin::Unique => format!("UNIQUE KEY {} needs it", show_index_name(index)),
            Origin::Created => format!("index {} needs it: DROP INDEX first", index.name),
        };
        return Err(needed(def, column, &what));
    }
    Ok(())
}

fn needed(def: &TableDef, column: &ColumnDef, what: &str) -> Error {
    sql(format!("column {}.{} stays as it is: {what}", def.name, column.name))
}

/// Does an expression use the column?
fn uses(def: &TableDef, expression: &str, column: &ColumnDef) -> Result<bool> {
    Ok(uses_of(def, expression)?.iter().any(|at| def.columns[*at].position == column.position))
}

/// Refuses to let a column go that the table's own definition, or another table's, needs.
pub fn refuse(catalog: &Catalog, def: &TableDef, column: &ColumnDef) -> Result<()> {
    refuse_indexes(def, column)?;
    let needs = |what: String| Err(needed(def, column, &what));
    for other in def.columns.iter().filter(|c| !c.hidden && c.position != column.position) {
        if other.generated.as_deref().map_or(Ok(false), |text| uses(def, text, column))? {
            return needs(format!("generated column {} needs it", other.name));
        }
    }
    for check in &def.checks {
        if uses(def, &check.expression, column)? {
            let name = check.name.as_ref().unwrap_or(&check.expression);
            return needs(format!("CHECK {name} needs it"));
        }
    }
    let is_it = |name: &String| name.eq_ignore_ascii_case(&column.name);
    if let Some(key) = def.foreign_keys.iter().find(|key| key.columns.iter().any(is_it)) {
        return needs(format!("its foreign key to table {} needs it", key.parent));
    }
    for other in catalog.tables() {
        let refers = |key: &&crate::table::catalog::ForeignKey| {
            key.parent.eq_ignore_ascii_case(&def.name) && key.parent_columns.iter().any(is_it)
        };
        if other.foreign_keys.iter().any(|key| refers(&key)) {
            return needs(format!("a foreign key of table {} refers to it", other.name));
        }
    }
    Ok(())
}

/// Has an index to do with the column?
fn holds(def: &TableDef, index: &IndexDef, column: &ColumnDef) -> Result<bool> {
    for at in index.columns.iter().map(|c| c.position).chain(index.filter) {
        let expression = def.column_at(at).filter(|c| c.hidden).and_then(|c| c.generated.as_deref());
        if at == column.position || expression.map_or(Ok(false), |text| uses(def, text, column))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Refuses to let a column go that triggers of the table need.
pub fn refuse_triggers(catalog: &Catalog, before: &TableDef, now: &TableDef, column: &ColumnDef) -> Result<()> {
    for trigger in catalog.triggers().of_table(before.id) {
        let Some(rows) = trigger.rows() else { continue };
        let judged = match &rows.condition {
            Some(condition) => RowEvaluator::judge_condition(now, rows.event, condition),
            None => Ok(()),
        };
        if rows.columns.contains(&column.position) || judged.is_err() {
            return Err(needed(before, column, &format!("trigger {} needs it", trigger.name)));
        }
    }
    Ok(())
}

/// The views that read the table, perhaps by way of others, and that can be used now.
pub fn sound_views(host: &mut dyn Host, def: &TableDef) -> Result<Vec<Arc<ViewDef>>> {
    let mut names = vec![def.name.clone()];
    let mut waiting: Vec<Arc<ViewDef>> = host.catalog().views().cloned().collect();
    let mut found = Vec::new();
    loop {
        let is_reader = |view: &mut Arc<ViewDef>| names.iter().any(|name| mentions(&view.sql, name));
        let readers: Vec<_> = waiting.extract_if(.., is_reader).collect();
        if readers.is_empty() {
            break;
        }
        names.extend(readers.iter().map(|view| view.name.clone()));
        found.extend(readers);
    }
    found.retain(|view| is_sound(host, view).is_ok());
    Ok(found)
}

fn mentions(text: &str, name: &str) -> bool {
    let Ok(tokens) = Tokens::all(text) else { return true };
    tokens.iter().any(|token| token.name().is_some_and(|word| word.eq_ignore_ascii_case(name)))
}

fn is_sound(host: &mut dyn Host, view: &ViewDef) -> Result<()> {
    executor::prepare(host, &format!("SELECT * FROM {}", quote_name(&view.name)), Traits::NONE).map(|_| ())
}

/// Refuses to let a column go without which a view cannot be used any longer.
pub fn refuse_views(host: &mut dyn Host, views: Vec<Arc<ViewDef>>, def: &TableDef, column: &ColumnDef) -> Result<()> {
    match views.into_iter().find(|view| is_sound(host, view).is_err()) {
        Some(view) => Err(sql(format!("column {}.{} cannot go: view {} needs it", def.name, column.name, view.name))),
        None => Ok(()),
    }
}

/// Renames a column in the views that read it. Refused where the name may mean a column of another table.
pub fn rename_in_views(
    host: &mut dyn Host,
    views: Vec<Arc<ViewDef>>,
    def: &TableDef,
    from: &str,
    to: &str,
) -> Result<()> {
    let refuse = |view: &ViewDef, why: &str| {
        let (table, view) = (&def.name, &view.name);
        Err(sql(format!("column {table}.{from} cannot be renamed: view {view} {why}: drop the view first")))
    };
    for view in &views {
        if !names_column(&view.sql, from) {
            continue;
        }
        if is_ambiguous(host.catalog(), view, def, from, to) {
            return refuse(view, "names it and reads other tables that have a column of the old or the new name");
        }
        // The view's own names of columns, before AS, stay.
        let tokens = Tokens::all(&view.sql)?;
        let body = tokens.iter().find(|token| token.is_word("AS")).map_or(0, |token| token.end());
        let sql = view.sql[..body].to_string() + &renamed(&view.sql[body..], from, to);
        let (tables, changes) = host.write()?;
        tables.put_view(ViewDef { name: view.name.clone(), sql }, changes)?;
    }
    match views.iter().find(|view| is_sound(host, view).is_err()) {
        Some(view) => refuse(view, "could not be used any longer"),
        None => Ok(()),
    }
}

fn names_column(text: &str, name: &str) -> bool {
    let Ok(tokens) = Tokens::all(text) else { return false };
    (0..tokens.len()).any(|i| may_name(&tokens, i) && tokens[i].name().is_some_and(|n| n.eq_ignore_ascii_case(name)))
}

/// May the old or the new name mean something else in a view?
fn is_ambiguous(catalog: &Catalog, view: &ViewDef, def: &TableDef, from: &str, to: &str) -> bool {
    let has = |other: &TableDef| other.column(from).is_some() || other.column(to).is_some();
    let reads = |name: &str| mentions(&view.sql, name);
    catalog.tables().any(|other| other.id != def.id && reads(&other.name) && has(other))
        || catalog.views().any(|other| other.name != view.name && reads(&other.name))
        || (!to.eq_ignore_ascii_case(from) && names_column(&view.sql, to))
        || [&view.name, &def.name].iter().any(|name| name.eq_ignore_ascii_case(from))
}
