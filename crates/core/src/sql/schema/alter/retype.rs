//! ALTER COLUMN .. TYPE: at once where every value of the old type is one of the new; otherwise every row is looked at
//! first, and the rows are written again only if some value takes another form.

use super::rows::{self, Which};
use super::{column as column_of, dependents, put};
use crate::error::Result;
use crate::sql::constraint::judge;
use crate::sql::ddl::NewType;
use crate::sql::error::{not_yet, sql};
use crate::sql::run::Host;
use crate::sql::schema::create_table::{check_sequence, default_value};
use crate::table::catalog::{ColumnDef, TableDef};
use crate::table::datum::Datum;
use crate::table::trigger::{Fires, TriggerDef};
use crate::table::types::{self, ColumnType};

/// Gives a column another type.
pub fn column(host: &mut dyn Host, before: &TableDef, new: &NewType) -> Result<()> {
    let (at, old) = column_of(before, &new.column)?;
    let Some(ctype) = ColumnType::parse(&new.declared) else {
        return Err(sql(format!("unknown type {} of column {}.{}", new.declared, before.name, old.name)));
    };
    if old.generated.is_some() {
        return Err(not_yet("another type for a generated column"));
    }
    let mut def = before.clone();
    let column = &mut def.columns[at];
    column.declared = new.declared.clone();
    column.ctype = ctype;
    // A collation of its own stays.
    let is_own = old.collation != old.ctype.collation();
    column.collation = new.collation.unwrap_or(if is_own { old.collation } else { ctype.collation() });
    let (position, collation) = (usize::from(old.position), column.collation);
    def.stored[position].storage = ctype.storage();
    check_sequence(&def)?;
    default_value(host.sql(), &def, &def.columns[at])?;
    let same_form = ctype.storage() == old.ctype.storage() && collation == old.collation;
    if same_form && (widens(old.ctype, ctype) || keeps_all(host, before, old, ctype)?) {
        return put(host, def).map(|_| ());
    }
    judge::table(&def)?;
    rewrite(host, before, def, at)
}

/// Is every value of one type a value of the other, in the same form?
fn widens(from: ColumnType, to: ColumnType) -> bool {
    use ColumnType::*;
    match (from, to) {
        (Text { chars_max: None } | Date | DateTime | Json, Text { chars_max: None }) => true,
        (Text { chars_max: Some(old) }, Text { chars_max: new }) => new.is_none_or(|new| new >= old),
        _ => from == to,
    }
}

/// Are the values that the rows have values of the type, in the same form? An error if one is none.
fn keeps_all(host: &mut dyn Host, def: &TableDef, column: &ColumnDef, ctype: ColumnType) -> Result<bool> {
    let mut all = true;
    let missing = &def.stored[usize::from(column.position)].missing;
    // Rows of older versions read it; it must be one that fits, too.
    all &= matches!(types::coerce(missing.as_ref(), ctype, "", ""), Ok(fitted) if fitted.as_ref() == missing.as_ref());
    rows::each_row(host, def, Which::All, &mut |_, info, row| {
        let value = row.get(column.position);
        all &= types::coerce(value, ctype, &info.def.name, &column.name)?.as_ref() == value;
        Ok(())
    })?;
    Ok(all)
}

/// Writes all rows again: the column moves to a position of its own, where the values have their new form.
fn rewrite(host: &mut dyn Host, before: &TableDef, mut def: TableDef, at: usize) -> Result<()> {
    let old = &before.columns[at];
    dependents::refuse_indexes(before, old)?;
    if !rows::any(host, before.id) {
        def.stored[usize::from(old.position)].missing = Datum::Null;
        put(host, def)?;
        return Ok(());
    }
    let name = def.columns[at].name.clone();
    // The old position keeps its form for the rows there are.
    def.stored[usize::from(old.position)] = before.stored[usize::from(old.position)].clone();
    let mut column = def.columns.remove(at);
    def.add_column_later(&name, &column.declared, Datum::Null)?;
    let added = def.column(&name).map_or(0, |(added, _)| added);
    column.position = def.columns.remove(added).position;
    let (position, ctype) = (column.position, column.ctype);
    let in_foreign_key = def.foreign_keys.iter().any(|key| key.columns.iter().any(|n| n.eq_ignore_ascii_case(&name)));
    def.columns.insert(at, column);
    let def = put(host, def)?;
    move_triggers(host, before, old.position, position)?;
    rows::rewrite(host, &def, &mut |row, values| {
        let fitted = types::coerce(row.get(old.position), ctype, &before.name, &old.name)?;
        values[usize::from(position)] = fitted.as_ref().to_owned();
        Ok(())
    })?;
    if in_foreign_key { rows::validate_foreign_keys(host, &def, Which::All) } else { Ok(()) }
}

/// UPDATE OF knows columns by their positions.
fn move_triggers(host: &mut dyn Host, def: &TableDef, from: u16, to: u16) -> Result<()> {
    for trigger in host.catalog().triggers().of_table(def.id) {
        let mut moved = TriggerDef::clone(&trigger);
        if let Fires::Rows(rows) = &mut moved.fires {
            rows.columns.iter_mut().filter(|position| **position == from).for_each(|position| *position = to);
        }
        if moved != *trigger {
            let (tables, changes) = host.write()?;
            tables.create_trigger(moved, changes)?;
        }
    }
    Ok(())
}
