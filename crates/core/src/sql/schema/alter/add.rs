//! ADD COLUMN, and defaults of columns that are there.

use super::rows::{self, Which};
use super::{column as column_of, put};
use crate::error::Result;
use crate::sql::constraint::judge;
use crate::sql::ddl::{AddColumn, KeyKind, Place};
use crate::sql::error::sql;
use crate::sql::run::Host;
use crate::sql::schema::create_table::{
    check_counts_of, check_foreign_keys, check_sequence, default_value, set_column,
};
use crate::sql::schema::{bound, index};
use crate::table::catalog::TableDef;
use crate::table::datum::Datum;

/// Adds a column; true: as a new version of the rows' form, which no row has yet.
pub fn column(host: &mut dyn Host, before: &TableDef, added: &AddColumn, is_version_new: bool) -> Result<bool> {
    let part = &added.part;
    let new = &part.columns[0];
    if added.if_not_exists && before.column(&new.name).is_some() {
        return Ok(is_version_new);
    }
    let has_rows = rows::any(host, before.id);
    let mut def = before.clone();
    refuse(&def, added, has_rows)?;
    if has_rows {
        def.add_column_later(&new.name, &new.declared, Datum::Null)?;
        if is_version_new {
            let positions = def.versions.pop();
            *def.versions.last_mut().expect("a table has a schema version") = positions.unwrap_or_default();
        }
    } else {
        def.add_column(&new.name, &new.declared)?;
    }
    let at = def.column(&new.name).map_or(0, |(at, _)| at);
    set_column(&def.name, &mut def.columns[at], new)?;
    let missing = default_value(host.sql(), &def, &def.columns[at])?;
    if has_rows && new.not_null && missing.as_ref().is_null() && new.generated.is_none() {
        return Err(sql(format!(
            "column {}.{} is NOT NULL and needs a DEFAULT that is not NULL, as the table has rows",
            def.name, new.name
        )));
    }
    let position = usize::from(def.columns[at].position);
    if has_rows {
        def.stored[position].missing = missing;
    }
    move_to(&mut def, at, &added.place)?;
    def.checks.extend(part.checks.iter().cloned());
    def.foreign_keys.extend(part.foreign_keys.iter().cloned());
    check_counts_of(&def)?;
    check_sequence(&def)?;
    if new.generated.is_some() || !part.checks.is_empty() {
        judge::table(&def)?;
    }
    check_foreign_keys(host.catalog(), &def)?;
    bound::check(host.catalog(), &def)?;
    let def = put(host, def)?;
    let is_new = fill(host, &def, added, has_rows)?;
    for key in &part.keys {
        index::add_to(host, &def.name, key, None)?;
    }
    Ok(is_new && has_rows)
}

/// Looks at the rows there are, where they must be looked at; false: they were written anew.
fn fill(host: &mut dyn Host, def: &TableDef, added: &AddColumn, has_rows: bool) -> Result<bool> {
    let (part, new) = (&added.part, &added.part.columns[0]);
    if !has_rows {
        return Ok(true);
    }
    if new.generated.is_some() {
        // Their values differ from row to row. Writing a row checks it, too.
        index::refresh_rows(host, &def.name)?;
        return Ok(false);
    }
    if !part.checks.is_empty() {
        let mut alone = true;
        for check in &part.checks {
            alone &= rows::uses_only(def, &check.expression, &new.name)?;
        }
        // All rows have the same value in the new column.
        rows::validate_checks(host, def, if alone { Which::First } else { Which::All })?;
    }
    if !part.foreign_keys.is_empty() {
        rows::validate_foreign_keys(host, def, Which::First)?;
    }
    Ok(true)
}

fn refuse(def: &TableDef, added: &AddColumn, has_rows: bool) -> Result<()> {
    let new = &added.part.columns[0];
    if added.part.keys.iter().any(|key| key.kind == KeyKind::Primary) {
        return Err(sql(format!("column {}.{} cannot be added as a PRIMARY KEY", def.name, new.name)));
    }
    if has_rows && new.autoincrement {
        return Err(sql(format!(
            "column {}.{} cannot be AUTO_INCREMENT: the table has rows, which have no numbers",
            def.name, new.name
        )));
    }
    Ok(())
}

/// Moves the column at `at`, the last one that is not hidden, to its place.
fn move_to(def: &mut TableDef, at: usize, place: &Place) -> Result<()> {
    let to = match place {
        Place::Last => return Ok(()),
        Place::First => 0,
        Place::After(name) => column_of(def, name)?.0 + 1,
    };
    let column = def.columns.remove(at);
    def.columns.insert(to.min(at), column);
    Ok(())
}

/// Gives a column another default, or none. Rows that are there keep what they have.
pub fn default(host: &mut dyn Host, before: &TableDef, name: &str, text: Option<&str>) -> Result<()> {
    let mut def = before.clone();
    let (at, found) = column_of(&def, name)?;
    if text.is_some() && (found.generated.is_some() || found.autoincrement) {
        let what = if found.autoincrement { "AUTO_INCREMENT" } else { "generated" };
        return Err(sql(format!("{what} column {}.{} cannot have a DEFAULT", def.name, found.name)));
    }
    def.columns[at].default = text.map(str::to_string);
    default_value(host.sql(), &def, &def.columns[at])?;
    put(host, def).map(|_| ())
}
