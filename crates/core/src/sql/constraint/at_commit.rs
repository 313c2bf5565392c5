//! Foreign keys judged again when a transaction commits: it saw the rows as they were when it began, and others may have
//! taken away what its rows refer to, or begun to refer to what it took away.

use super::foreign_key;
use crate::engine::{Overlay, Shadow, Source};
use crate::error::Code;
use crate::error::Error;
use crate::sql::executor;
use crate::sql::run::{Host, Outcome, Run, Traits};
use crate::table::catalog::TableId;
use crate::table::row::Row;
use crate::table::row_id::RowId;

/// Judges what a transaction wrote, which stands in the live tables that `host` reads.
pub fn judge(host: &mut dyn Host, overlay: &Overlay) -> Outcome<()> {
    executor::synchronize(host)?;
    for (table, written) in overlay.written() {
        let Some(info) = host.sql().info(table).cloned() else { continue };
        let Some(links) = &info.links else { continue };
        let mut run = Run::new(host, &Traits::NONE);
        let mut judge = |old: Option<&[u8]>, new: Option<&[u8]>| -> Outcome<()> {
            let row = |bytes| Row::new(bytes, &info.layout);
            foreign_key::changed(&mut run, links, old.map(row), new.map(row))?;
            foreign_key::finish(&mut run)
        };
        for (id, shadow) in written.shadows() {
            let old = read(&**overlay.base(), table, id)?;
            let new = match shadow {
                Shadow::Replaced(image) => read(overlay.own(), table, image.own)?,
                Shadow::Deleted(_) => None,
            };
            judge(old.as_deref(), new.as_deref())?;
        }
        for own in overlay.own_rows(table)?.into_iter().filter(|own| written.is_new(*own)) {
            judge(None, read(overlay.own(), table, own)?.as_deref())?;
        }
    }
    Ok(())
}

fn read(source: &dyn Source, table: TableId, id: RowId) -> Outcome<Option<Vec<u8>>> {
    let mut found = None;
    source.rows(table, &[id], &mut |_, row| found = Some(row.bytes().to_vec()))?;
    Ok(found)
}

/// What the transaction is told: it had kept the foreign key when it wrote.
pub fn as_conflict(error: Error) -> Error {
    match error.code {
        Code::Constraint => {
            let text = format!(
                "{}, as others changed since the transaction began; it is rolled back, run it again",
                error.message
            );
            Error::new(Code::Conflict, text)
        }
        _ => error,
    }
}
