//! RENAME COLUMN: also in all that names the column.

use super::{column as column_of, dependents, put};
use crate::error::Result;
use crate::sql::constraint::may_name;
use crate::sql::error::sql;
use crate::sql::run::Host;
use crate::sql::token::{Tokens, show_name};
use crate::table::catalog::TableDef;
use crate::table::trigger::{Fires, TriggerDef};

/// Gives a column another name. What refers to it by its position (rows, indexes, UPDATE OF) stays as it is.
pub fn column(host: &mut dyn Host, before: &TableDef, from: &str, to: &str) -> Result<()> {
    let (at, found) = column_of(before, from)?;
    if before.column(to).is_some_and(|(other, _)| other != at) {
        return Err(sql(format!("duplicate column name: {}.{to}", before.name)));
    }
    let from = found.name.clone();
    let views = dependents::sound_views(host, before)?;
    let mut def = before.clone();
    def.columns[at].name = to.to_string();
    for expression in def.columns.iter_mut().filter_map(|c| c.generated.as_mut()) {
        *expression = renamed(expression, &from, to);
    }
    for check in &mut def.checks {
        check.expression = renamed(&check.expression, &from, to);
    }
    for name in def.foreign_keys.iter_mut().flat_map(|key| &mut key.columns) {
        rename(name, &from, to);
    }
    rename_in_parent(&mut def, &before.name, &from, to);
    put(host, def)?;
    rename_in_others(host, before, &from, to)?;
    rename_in_triggers(host, before, &from, to)?;
    dependents::rename_in_views(host, views, before, &from, to)
}

fn rename(name: &mut String, from: &str, to: &str) {
    if name.eq_ignore_ascii_case(from) {
        *name = to.to_string();
    }
}

/// Renames the column of `parent` in the foreign keys that refer to it.
fn rename_in_parent(def: &mut TableDef, parent: &str, from: &str, to: &str) {
    let referring = def.foreign_keys.iter_mut().filter(|key| key.parent.eq_ignore_ascii_case(parent));
    referring.flat_map(|key| &mut key.parent_columns).for_each(|name| rename(name, from, to));
}

fn rename_in_others(host: &mut dyn Host, of: &TableDef, from: &str, to: &str) -> Result<()> {
    let others: Vec<_> = host.catalog().tables().filter(|other| other.id != of.id).cloned().collect();
    for other in others {
        let mut def = TableDef::clone(&other);
        rename_in_parent(&mut def, &of.name, from, to);
        if def != *other {
            put(host, def)?;
        }
    }
    Ok(())
}

fn rename_in_triggers(host: &mut dyn Host, of: &TableDef, from: &str, to: &str) -> Result<()> {
    for trigger in host.catalog().triggers().of_table(of.id) {
        let mut new = TriggerDef::clone(&trigger);
        if let Fires::Rows(rows) = &mut new.fires
            && let Some(condition) = &mut rows.condition
        {
            *condition = renamed(condition, from, to);
        }
        if new != *trigger {
            let (tables, changes) = host.write()?;
            tables.create_trigger(new, changes)?;
        }
    }
    Ok(())
}

/// An expression about one table's rows in which a column has another name.
pub fn renamed(expression: &str, from: &str, to: &str) -> String {
    let Ok(tokens) = Tokens::all(expression) else { return expression.to_string() };
    let (mut text, mut copied) = (String::new(), 0);
    for (i, token) in tokens.iter().enumerate() {
        // CAST (x AS type) and COLLATE name no column.
        let other = i > 0 && (tokens[i - 1].is_word("AS") || tokens[i - 1].is_word("COLLATE"));
        if !other && may_name(&tokens, i) && token.name().is_some_and(|name| name.eq_ignore_ascii_case(from)) {
            text += &expression[copied..token.start];
            text += &show_name(to);
            copied = token.end();
        }
    }
    text + &expression[copied..]
}
