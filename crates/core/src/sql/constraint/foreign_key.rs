//! Foreign keys kept while rows are written.
//!
//! A row that refers to one that is not there (yet), and a row that others refer to when it goes, are noted; at the end of
//! the statement what is still so breaks the foreign key. RESTRICT refuses at once. The other actions are done right
//! after the row that asked for them, from a list and not one inside the other, so that no chain of them can take more
//! of the stack than one.

use super::link::{Link, Links, Values};
use crate::engine::{Access, Cursor};
use crate::error::{Code, Error, Result};
use crate::limits;
use crate::sql::executor::synchronize;
use crate::sql::run::{Host, Outcome, Run, Traits, until_ready};
use crate::sql::table_info::{Default, TableInfo};
use crate::sql::write::{self, OnConflict, Set};
use crate::table::batch::Batch;
use crate::table::catalog::{Action, TableDef, TableId};
use crate::table::datum::{Datum, DatumRef};
use crate::table::key::{KeyBuf, put_column};
use crate::table::row::Row;
use crate::table::row_id::RowId;
use smallvec::SmallVec;
use std::sync::Arc;

/// What a statement's writes left to be looked at.
#[derive(Default)]
pub struct Pending {
    /// Keys that rows refer to and that no row has, when last looked at.
    missing: Vec<(Arc<Link>, Values)>,
    /// Actions to be done.
    actions: Vec<Todo>,
    /// Actions are being done.
    busy: bool,
    /// How deep the action is that is being done.
    depth: usize,
}

struct Todo {
    link: Arc<Link>,
    /// The key that referring rows have.
    key: Values,
    /// What is to become of them.
    what: What,
    depth: usize,
}

enum What {
    Delete,
    SetNull,
    SetDefault,
    /// They are to refer to this key.
    Follow(Values),
}

/// A row was inserted.
pub fn inserted(run: &mut Run<'_>, links: &Links, row: Row<'_>) -> Outcome<()> {
    for link in &links.parents {
        refer(run, link, row)?;
    }
    Ok(())
}

/// A row was replaced by another.
pub fn updated(run: &mut Run<'_>, links: &Links, old: Row<'_>, new: Row<'_>) -> Outcome<()> {
    for link in &links.parents {
        if link.parts.iter().any(|part| old.get(part.child) != new.get(part.child)) || link.parent.is_err() {
            refer(run, link, new)?;
        }
    }
    for link in &links.children {
        check(link)?;
        let (Some(before), after) = (link.key_of_parent(old), link.key_of_parent(new)) else { continue };
        let same = after.as_ref().is_some_and(|after| link.encoded(after) == link.encoded(&before));
        if !same {
            let what = match link.on_update {
                Action::SetNull => Some(What::SetNull),
                Action::SetDefault => Some(What::SetDefault),
                // Also where some of it is NULL now.
                Action::Cascade => {
                    Some(What::Follow(link.parts.iter().map(|p| new.get(p.parent.position).to_owned()).collect()))
                }
                _ => None,
            };
            leave(run, link, before, link.on_update, what)?;
        }
    }
    work(run)
}

/// A transaction has changed a row, or made or deleted one, and done what that asked for: what refers to nothing now is
/// noted.
pub fn changed(run: &mut Run<'_>, links: &Links, old: Option<Row<'_>>, new: Option<Row<'_>>) -> Outcome<()> {
    if let Some(new) = new {
        for link in &links.parents {
            let same = |old: Row<'_>| link.parts.iter().all(|part| old.get(part.child) == new.get(part.child));
            if !old.is_some_and(same) {
                refer(run, link, new)?;
            }
        }
    }
    for link in &links.children {
        let Some(before) = old.and_then(|old| link.key_of_parent(old)) else { continue };
        let after = new.and_then(|new| link.key_of_parent(new));
        let same = after.is_some_and(|after| link.encoded(&after) == link.encoded(&before));
        if !same && link.parent.is_ok() && has_child(run, link, &before)? {
            note_missing(run, link, before)?;
        }
    }
    Ok(())
}

/// A row was deleted.
pub fn deleted(run: &mut Run<'_>, links: &Links, old: Row<'_>) -> Outcome<()> {
    for link in &links.children {
        check(link)?;
        let Some(key) = link.key_of_parent(old) else { continue };
        let what = match link.on_delete {
            Action::SetNull => Some(What::SetNull),
            Action::SetDefault => Some(What::SetDefault),
            Action::Cascade => Some(What::Delete),
            _ => None,
        };
        leave(run, link, key, link.on_delete, what)?;
    }
    work(run)
}

/// The error of a foreign key that cannot be kept.
fn check(link: &Link) -> Result<()> {
    match &link.parent {
        Ok(_) => Ok(()),
        Err(why) => Err(Error::new(Code::Sql, why.clone())),
    }
}

/// A row refers to a key: if no row has it, that is noted.
fn refer(run: &mut Run<'_>, link: &Arc<Link>, row: Row<'_>) -> Outcome<()> {
    if link.parent.is_err() {
        // Without a parent only rows that refer to nothing can be.
        let def = run.host.sql().info(link.child).map(|info| info.def.clone());
        let nulls = def.is_some_and(|def| refers_to_nothing(&def, link, row));
        return if nulls { Ok(()) } else { Ok(check(link)?) };
    }
    let Some(key) = link.key_of_child(row) else { return Ok(()) };
    if !has_parent(run, link, &key)? {
        note_missing(run, link, key)?;
    }
    Ok(())
}

fn refers_to_nothing(def: &TableDef, link: &Link, row: Row<'_>) -> bool {
    let of_link = |key: &&crate::table::catalog::ForeignKey| key.parent == link.parent_name;
    def.foreign_keys.iter().filter(of_link).all(|key| {
        key.columns.iter().any(|name| def.column(name).is_none_or(|(_, column)| row.get(column.position).is_null()))
    })
}

fn note_missing(run: &mut Run<'_>, link: &Arc<Link>, key: Values) -> Outcome<()> {
    if run.foreign_keys.missing.len() >= limits::FOREIGN_KEYS_PENDING_MAX {
        let text = format!(
            "{}: more than {} rows of one statement refer to rows that are not there",
            link.child_name,
            limits::FOREIGN_KEYS_PENDING_MAX
        );
        return Err(Error::new(Code::Limit, text).into());
    }
    run.foreign_keys.missing.push((link.clone(), key));
    Ok(())
}

/// A key that rows may refer to is no longer there.
fn leave(run: &mut Run<'_>, link: &Arc<Link>, key: Values, action: Action, what: Option<What>) -> Outcome<()> {
    if let Some(what) = what {
        let depth = run.foreign_keys.depth + 1;
        if depth > limits::FOREIGN_KEY_DEPTH_MAX {
            let text = format!("foreign keys cascade deeper than {}", limits::FOREIGN_KEY_DEPTH_MAX);
            return Err(Error::new(Code::Limit, text).into());
        }
        run.foreign_keys.actions.push(Todo { link: link.clone(), key, what, depth });
        return Ok(());
    }
    if !has_child(run, link, &key)? {
        return Ok(());
    }
    if action == Action::Restrict {
        return Err(broken(run.host, link, &key).into());
    }
    note_missing(run, link, key)
}

/// Does the actions asked for, and those that they ask for.
fn work(run: &mut Run<'_>) -> Outcome<()> {
    if run.foreign_keys.busy || run.foreign_keys.actions.is_empty() {
        return Ok(());
    }
    run.foreign_keys.busy = true;
    // What foreign keys change is neither counted nor returned, as in SQLite, and no upsert is about it.
    let (changed, returned, upserting) = (run.changed, run.returned.take(), run.upserting.take());
    let result = work_all(run);
    run.changed = changed;
    run.returned = returned;
    run.upserting = upserting;
    run.foreign_keys.busy = false;
    run.foreign_keys.depth = 0;
    result
}

fn work_all(run: &mut Run<'_>) -> Outcome<()> {
    while let Some(todo) = run.foreign_keys.actions.pop() {
        run.foreign_keys.depth = todo.depth;
        let ids = children(run, &todo.link, &todo.key, usize::MAX)?;
        if ids.is_empty() {
            continue;
        }
        let lost = || Error::new(Code::Bug, "foreign_key.rs: the referring table is not known");
        let info = run.host.sql().info(todo.link.child).cloned().ok_or_else(lost)?;
        let values = new_values(run, &info, &todo)?;
        let parts = todo.link.parts.iter().zip(&values);
        let mut sets: SmallVec<[Set<'_>; 4]> = parts.map(|(part, value)| (part.child_column, value.as_ref())).collect();
        sets.sort_by_key(|(column, _)| *column);
        for id in ids {
            match todo.what {
                What::Delete => write::delete(run, &info, id)?,
                _ => write::update(run, &info, id, &sets, OnConflict::Abort)?,
            };
        }
        if matches!(todo.what, What::SetDefault) {
            // The default may be the key that went.
            note_missing(run, &todo.link, todo.key)?;
        }
    }
    Ok(())
}

/// What the referring columns are to hold.
fn new_values(run: &mut Run<'_>, info: &TableInfo, todo: &Todo) -> Outcome<Values> {
    let parts = &todo.link.parts;
    Ok(match &todo.what {
        What::Delete => Values::new(),
        What::SetNull => parts.iter().map(|_| Datum::Null).collect(),
        What::Follow(key) => key.clone(),
        What::SetDefault => {
            let evaluator = run.host.sql().evaluator();
            let value = |part: &super::link::Part| match &info.defaults[part.child_column] {
                Default::Literal(value) => Ok(value.clone()),
                Default::Expression(text) => evaluator.evaluate(text),
            };
            parts.iter().map(value).collect::<Result<_>>()?
        }
    })
}

/// The end of a statement: what rows refer to must be there now.
pub fn finish(run: &mut Run<'_>) -> Outcome<()> {
    if run.foreign_keys.missing.is_empty() {
        return Ok(());
    }
    for (link, key) in std::mem::take(&mut run.foreign_keys.missing) {
        if !has_parent(run, &link, &key)? && has_child(run, &link, &key)? {
            return Err(broken(run.host, &link, &key).into());
        }
    }
    Ok(())
}

/// Judges the foreign keys of rows that a transaction has put into the live tables: others may have changed what they
/// refer to, or refer to what is gone.
pub struct Recheck<'a> {
    run: Run<'a>,
}

impl<'a> Recheck<'a> {
    /// Nothing has been looked at.
    pub fn new(host: &'a mut dyn Host) -> Result<Recheck<'a>> {
        synchronize(host)?;
        Ok(Recheck { run: Run::new(host, &Traits::NONE) })
    }

    /// Has a table part in foreign keys?
    pub fn linked(&mut self) -> Vec<TableId> {
        let defs: Vec<TableId> = self.run.host.catalog().tables().map(|def| def.id).collect();
        let sql = self.run.host.sql();
        defs.into_iter().filter(|id| sql.info(*id).is_some_and(|info| info.links.is_some())).collect()
    }

    /// Looks at one change.
    pub fn row(&mut self, table: TableId, old: Option<&[u8]>, new: Option<&[u8]>) -> Outcome<()> {
        let Some(info) = self.run.host.sql().info(table).cloned() else { return Ok(()) };
        let Some(links) = &info.links else { return Ok(()) };
        if let Some(new) = new {
            inserted(&mut self.run, links, Row::new(new, &info.layout))?;
        }
        for link in &links.children {
            let key = old.and_then(|old| link.key_of_parent(Row::new(old, &info.layout)));
            if let Some(key) = key
                && has_child(&mut self.run, link, &key)?
            {
                note_missing(&mut self.run, link, key)?;
            }
        }
        Ok(())
    }

    /// The verdict.
    pub fn finish(mut self) -> Outcome<()> {
        finish(&mut self.run)
    }
}

/// "FOREIGN KEY constraint failed: orders.customer = 5 refers to no row of customers"
#[cold]
fn broken(host: &mut dyn Host, link: &Link, key: &Values) -> Error {
    let columns = host.sql().info(link.child).map_or(String::new(), |info| link.child_columns(&info.def));
    let values: Vec<String> = key.iter().map(|value| value.as_ref().to_string()).collect();
    let (columns, values) = match values.len() {
        1 => (columns, values.join("")),
        _ => (format!("({columns})"), format!("({})", values.join(", "))),
    };
    let parent = &link.parent_name;
    let text = format!("FOREIGN KEY constraint failed: {columns} = {values} would refer to no row of {parent}");
    Error::new(Code::Constraint, text)
}

fn has_parent(run: &mut Run<'_>, link: &Link, key: &Values) -> Outcome<bool> {
    let Ok((table, index)) = link.parent else { return Ok(false) };
    let mut found = false;
    let keys = Batch::of(&link.encoded(key));
    run.host.source().get_many(table, index, &keys, &mut |_, _, _| found = true)?;
    Ok(found)
}

fn has_child(run: &mut Run<'_>, link: &Link, key: &Values) -> Outcome<bool> {
    Ok(!children(run, link, key, 1)?.is_empty())
}

/// Up to `most` rows that refer to a key: by an index of the child, or else by a scan.
fn children(run: &mut Run<'_>, link: &Link, key: &Values, most: usize) -> Outcome<Vec<RowId>> {
    let source = run.host.source();
    let (mut cursor, mut ids, mut prefix) = (Cursor::new(), Vec::new(), KeyBuf::new());
    let keys;
    let access = match &link.child_index {
        Some(index) => {
            index.columns.iter().for_each(|(place, column)| put_column(key[*place].as_ref(), column, &mut prefix));
            keys = Batch::of(&prefix);
            Access::Keys { index: index.id, keys: &keys }
        }
        None => Access::All,
    };
    let wanted = link.encoded(key);
    let mut more = source.seek(&mut cursor, link.child, &access)?;
    while more && ids.len() < most {
        let found = link.child_index.is_some()
            || link.key_of_child(source.row(&cursor)).is_some_and(|values| link.encoded(&values) == wanted);
        if found {
            ids.push(cursor.row_id());
        }
        more = source.next(&mut cursor)?;
    }
    cursor.close();
    Ok(ids)
}

/// Refuses to let a table go to which rows of tables that stay refer. `going` are the names of those that go.
pub fn refuse_drop(host: &mut dyn Host, def: &TableDef, going: &[&str]) -> Result<()> {
    let goes = |name: &str| going.iter().any(|other| other.eq_ignore_ascii_case(name));
    let children: Vec<Arc<TableDef>> = host.catalog().tables().filter(|child| !goes(&child.name)).cloned().collect();
    for child in children {
        for key in child.foreign_keys.iter().filter(|key| key.parent.eq_ignore_ascii_case(&def.name)) {
            if refers(host, &child, &key.columns)? {
                let text = format!("table {} cannot be dropped: rows of table {} refer to it", def.name, child.name);
                return Err(Error::new(Code::Constraint, text));
            }
        }
    }
    Ok(())
}

/// Has any row of a table a value in all of these columns?
fn refers(host: &mut dyn Host, child: &TableDef, columns: &[String]) -> Result<bool> {
    until_ready(host, |host| any_row(host, child, columns))
}

fn any_row(host: &mut dyn Host, child: &TableDef, columns: &[String]) -> Outcome<bool> {
    let source = host.source();
    let mut cursor = Cursor::new();
    let mut more = source.seek(&mut cursor, child.id, &Access::All)?;
    while more {
        let row = source.row(&cursor);
        let value = |name: &String| child.column(name).map_or(DatumRef::Null, |(_, column)| row.get(column.position));
        if columns.iter().all(|name| !value(name).is_null()) {
            return Ok(true);
        }
        more = source.next(&mut cursor)?;
    }
    Ok(false)
}
