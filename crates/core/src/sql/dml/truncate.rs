//! TRUNCATE: empties a table at once, whatever its size.

use crate::error::Result;
use crate::reply::Reply;
use crate::sql::error::sql;
use crate::sql::executor::table_info;
use crate::sql::run::{Host, until_ready};
use crate::sql::schema::free_elsewhere;

/// Empties the table called `name` and tells how many rows it had. Its sequence goes on, so that no id comes twice.
pub fn execute(host: &mut dyn Host, name: &str) -> Result<Reply> {
    let info = table_info(host, name)?;
    let refers = |def: &&std::sync::Arc<crate::table::catalog::TableDef>| {
        def.id != info.def.id && def.foreign_keys.iter().any(|key| key.parent.eq_ignore_ascii_case(name))
    };
    if let Some(child) = host.catalog().tables().find(refers) {
        let text =
            format!("table {} cannot be truncated, as table {} refers to it: use DELETE", info.def.name, child.name);
        return Err(sql(text));
    }
    let rows = until_ready(host, |host| Ok(host.source().row_count(info.def.id)?))?;
    let (tables, changes) = host.write()?;
    if let Some(kept) = tables.truncate_table(info.def.id, changes)? {
        free_elsewhere(kept);
    }
    Ok(Reply::Int(rows as i64))
}
