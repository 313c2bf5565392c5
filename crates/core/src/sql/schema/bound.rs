//! The bound on a table's rows: what a definition says of it, and which tables cannot have one.

use crate::error::Result;
use crate::sql::ddl::BoundOptions;
use crate::sql::error::sql;
use crate::sql::run::Host;
use crate::table::catalog::{Bound, Catalog, Evict, TableDef};

/// ALTER TABLE .. SET (..): what is not said stays as it is. Rows go, or are refused, when the next one comes.
pub fn set(host: &mut dyn Host, before: &TableDef, options: &BoundOptions) -> Result<()> {
    let mut def = before.clone();
    def.bound = settle(&def, options)?;
    check(host.catalog(), &def)?;
    let (tables, changes) = host.write()?;
    tables.alter_table(def, changes).map(|_| ())
}

/// The bound that a table gets.
pub fn settle(def: &TableDef, options: &BoundOptions) -> Result<Option<Bound>> {
    let max_rows = options.max_rows.unwrap_or(def.bound.map(|bound| bound.max_rows));
    let evict = options.evict.or(def.bound.map(|bound| bound.evict)).unwrap_or_default();
    match max_rows {
        Some(max_rows) => Ok(Some(Bound { max_rows, evict })),
        None if options.evict.is_some_and(|evict| evict != Evict::Refuse) => {
            Err(sql(format!("evict needs max_rows, which table {} has not", def.name)))
        }
        None => Ok(None),
    }
}

/// Refuses foreign keys that refer to rows that go by themselves: with each of them others would have to go, or stay and
/// refer to nothing.
pub fn check(catalog: &Catalog, def: &TableDef) -> Result<()> {
    let refuse = |child: &str, parent: &str| {
        Err(sql(format!("table {child} cannot refer to table {parent}, whose rows go by themselves (evict)")))
    };
    let refers =
        |child: &TableDef, parent: &str| child.foreign_keys.iter().any(|key| key.parent.eq_ignore_ascii_case(parent));
    if def.forgets()
        && let Some(child) = catalog.tables().find(|t| t.id != def.id && refers(t, &def.name))
    {
        return refuse(&child.name, &def.name);
    }
    if def.forgets() && refers(def, &def.name) {
        return refuse(&def.name, &def.name);
    }
    match def.foreign_keys.iter().find_map(|key| catalog.table(&key.parent).filter(|parent| parent.forgets())) {
        Some(parent) => refuse(&def.name, &parent.name),
        None => Ok(()),
    }
}

/// ` WITH (max_rows = 1000, evict = lru)`, for the statement that makes the table.
pub fn clause(def: &TableDef) -> String {
    let evict = |evict| match evict {
        Evict::Refuse => "",
        Evict::Lru => ", evict = lru",
        Evict::Fifo => ", evict = fifo",
    };
    def.bound.map_or(String::new(), |bound| format!(" WITH (max_rows = {}{})", bound.max_rows, evict(bound.evict)))
}
