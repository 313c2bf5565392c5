//! DROP COLUMN: refused, by name, while anything needs the column.

use super::{column as column_of, dependents, put};
use crate::error::Result;
use crate::sql::error::sql;
use crate::sql::run::Host;
use crate::table::catalog::TableDef;

/// Drops a column. Rows keep the bytes that they have for it until they are written again.
pub fn column(host: &mut dyn Host, before: &TableDef, name: &str, if_exists: bool) -> Result<()> {
    if if_exists && before.column(name).is_none_or(|(_, column)| column.hidden) {
        return Ok(());
    }
    let (at, found) = column_of(before, name)?;
    dependents::refuse(host.catalog(), before, found)?;
    let views = dependents::sound_views(host, before)?;
    let mut def = before.clone();
    def.columns.remove(at);
    if def.columns.iter().filter(|c| !c.hidden).all(|c| c.generated.is_some()) {
        return Err(sql(format!(
            "column {}.{} cannot be dropped: no column would be left that is not generated",
            def.name, found.name
        )));
    }
    let def = put(host, def)?;
    dependents::refuse_triggers(host.catalog(), before, &def, found)?;
    dependents::refuse_views(host, views, before, found)
}
