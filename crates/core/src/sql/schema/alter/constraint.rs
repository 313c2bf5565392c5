//! NOT NULL and constraints of tables that have rows: what the rows do not satisfy is refused, and the row named.

use super::rows::{self, Which};
use super::{column as column_of, put};
use crate::error::{Code, Error, Result};
use crate::sql::constraint::judge;
use crate::sql::constraint::link::link_of;
use crate::sql::ddl::{ConstraintKind, CreateTable, DropConstraint, KeyKind};
use crate::sql::error::{not_yet, sql};
use crate::sql::run::Host;
use crate::sql::schema::create_table::{check_counts_of, check_foreign_keys};
use crate::sql::schema::{bound, index};
use crate::sql::token::Tokens;
use crate::table::catalog::{Catalog, IndexDef, Origin, TableDef};
use crate::table::types;

/// SET NOT NULL, DROP NOT NULL.
pub fn not_null(host: &mut dyn Host, before: &TableDef, name: &str, not_null: bool) -> Result<()> {
    let (at, found) = column_of(before, name)?;
    if found.not_null == not_null {
        return Ok(());
    }
    let position = found.position;
    let of_key = before.primary_key().is_some_and(|key| key.columns.iter().any(|c| c.position == position));
    if !not_null && of_key {
        let name = &found.name;
        return Err(sql(format!("column {}.{name} is part of the primary key, which holds no NULL", before.name)));
    }
    if not_null {
        rows::each_row(host, before, Which::All, &mut |_, info, row| match row.get(position).is_null() {
            true => Err(types::not_null_failed(&info.def.name, &info.def.columns[at].name).into()),
            false => Ok(()),
        })?;
    }
    let mut def = before.clone();
    def.columns[at].not_null = not_null;
    put(host, def).map(|_| ())
}

/// ADD CONSTRAINT.
pub fn add(host: &mut dyn Host, before: &TableDef, part: &CreateTable) -> Result<()> {
    let mut def = before.clone();
    let names = part.checks.iter().filter_map(|c| c.name.as_ref());
    let names = names.chain(part.foreign_keys.iter().filter_map(|key| key.name.as_ref()));
    if let Some(taken) = names.chain(part.keys.iter().filter_map(|key| key.name.as_ref())).find(|n| has(&def, n)) {
        return Err(sql(format!("constraint {taken} of table {} already exists", def.name)));
    }
    def.checks.extend(part.checks.iter().cloned());
    def.foreign_keys.extend(part.foreign_keys.iter().cloned());
    check_counts_of(&def)?;
    if !part.checks.is_empty() {
        judge::table(&def)?;
        let def = put(host, def)?;
        return rows::validate_checks(host, &def, Which::All);
    }
    if !part.foreign_keys.is_empty() {
        check_foreign_keys(host.catalog(), &def)?;
        bound::check(host.catalog(), &def)?;
        let def = put(host, def)?;
        return rows::validate_foreign_keys(host, &def, Which::All);
    }
    if part.keys.iter().any(|key| key.kind == KeyKind::Primary) {
        return Err(not_yet("ALTER TABLE .. ADD PRIMARY KEY"));
    }
    part.keys.iter().try_for_each(|key| index::add_to(host, &def.name, key, None))
}

fn has(def: &TableDef, name: &str) -> bool {
    let is_it = |other: &Option<String>| other.as_ref().is_some_and(|other| other.eq_ignore_ascii_case(name));
    def.checks.iter().any(|check| is_it(&check.name))
        || def.foreign_keys.iter().any(|key| is_it(&key.name))
        || def.indexes.iter().any(|index| index.name.eq_ignore_ascii_case(name))
}

/// DROP CONSTRAINT.
pub fn drop(host: &mut dyn Host, before: &TableDef, which: &DropConstraint) -> Result<()> {
    let may_be = |kind| which.kind.is_none_or(|wanted| wanted == kind);
    let is_it = |name: &Option<String>| name.as_ref().is_some_and(|name| name.eq_ignore_ascii_case(&which.name));
    let mut def = before.clone();
    if may_be(ConstraintKind::Check) {
        let by_text = which.kind == Some(ConstraintKind::Check);
        let checks = |text: &str, name: &Option<String>| is_it(name) || (by_text && same_text(text, &which.name));
        if let Some(at) = def.checks.iter().position(|check| checks(&check.expression, &check.name)) {
            def.checks.remove(at);
            return put(host, def).map(|_| ());
        }
    }
    if may_be(ConstraintKind::ForeignKey)
        && let Some(at) = def.foreign_keys.iter().position(|key| is_it(&key.name))
    {
        def.foreign_keys.remove(at);
        return put(host, def).map(|_| ());
    }
    let is_key = |index: &&IndexDef| {
        let fits = index.origin == Origin::Unique || which.kind == Some(ConstraintKind::Key);
        fits && index.origin != Origin::PrimaryKey && index.name.eq_ignore_ascii_case(&which.name)
    };
    if may_be(ConstraintKind::Key)
        && let Some(index) = def.indexes.iter().find(is_key)
    {
        refuse_referred(host.catalog(), before, index)?;
        let (tables, changes) = host.write()?;
        return tables.drop_index(&index.name, changes).map(|_| ());
    }
    match which.if_exists {
        true => Ok(()),
        false => Err(sql(format!("table {} has no constraint named {}", def.name, which.name))),
    }
}

/// Are two expressions the same, token for token?
fn same_text(one: &str, other: &str) -> bool {
    let (Ok(one), Ok(other)) = (Tokens::all(one), Tokens::all(other)) else { return false };
    one.len() == other.len() && one.iter().zip(&other).all(|(a, b)| a.text.eq_ignore_ascii_case(b.text))
}

/// Refuses to let the key go by which foreign keys find their rows.
fn refuse_referred(catalog: &Catalog, def: &TableDef, index: &IndexDef) -> Result<()> {
    for child in catalog.tables() {
        for key in child.foreign_keys.iter().filter(|key| key.parent.eq_ignore_ascii_case(&def.name)) {
            if link_of(catalog, child, key).parent == Ok((def.id, index.id)) {
                let text =
                    format!("key {} cannot be dropped: a foreign key of table {} needs it", index.name, child.name);
                return Err(Error::new(Code::Constraint, text));
            }
        }
    }
    Ok(())
}
