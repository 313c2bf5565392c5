//! Access paths in words, for EXPLAIN.

use super::plan::{Limit, LimitKind, Plan, Slot, Walk};
use crate::sql::schema::show_index_name;
use crate::table::catalog::{IndexColumn, IndexDef, Method, TableDef};

/// "hash look-up in PRIMARY of t by id", "range of index i of t: a = ? and b > ?", "full scan of t" and the like.
pub fn words(def: &TableDef, plan: &Plan) -> String {
    let table = &def.name;
    match plan {
        Plan::All => format!("full scan of {table}"),
        Plan::Rows(slot) => format!("row{} of {table} by row id", if slot.list { "s" } else { "" }),
        Plan::Keys { index, columns, reverse, .. } => {
            let Some(index) = def.index(*index) else { return String::new() };
            let lists = columns.iter().any(|s| s.list);
            let how = match index.method {
                Method::Hash => "hash look-up",
                Method::Ordered => "key look-up",
            };
            let batch = if lists { ", one batch for the list" } else { "" };
            let order = if *reverse { ", backward" } else { "" };
            let names: Vec<&str> = index.columns.iter().map(|c| column_name(def, c)).collect();
            format!("{how} in {} of {table} by {}{batch}{order}", show_index_name(index), names.join(", "))
        }
        Plan::Range { index, equal, low, high, walk } => {
            let Some(index) = def.index(*index) else { return String::new() };
            let conditions = conditions(def, index, equal, *low, *high);
            let how = manner(def, index, walk);
            match conditions.is_empty() {
                true => format!("whole index {} of {table} in its order{how}", show_index_name(index)),
                false => format!("range of index {} of {table}: {conditions}{how}", show_index_name(index)),
            }
        }
        Plan::Equal { position, .. } => {
            let name = def.column_at(*position).map_or("?", |c| &c.name);
            format!("full scan of {table} for {name} = ?, once: asked again, a hash table made from it")
        }
    }
}

fn column_name<'a>(def: &'a TableDef, column: &IndexColumn) -> &'a str {
    def.column_at(column.position).map_or("?", |c| &c.name)
}

/// How a range is walked.
fn manner(def: &TableDef, index: &IndexDef, walk: &Walk) -> String {
    let names = |count: u8| -> String {
        let names: Vec<&str> = index.columns[..usize::from(count)].iter().map(|c| column_name(def, c)).collect();
        names.join(", ")
    };
    let mut how = String::new();
    if walk.reverse {
        how += ", backward";
    }
    if walk.index_only {
        how += ", index only";
    }
    if walk.distinct > 0 {
        how += &format!(", jumping to each {}", names(walk.distinct));
    }
    if walk.offset.is_some() {
        how += ", offset by count";
    }
    how
}

fn conditions(def: &TableDef, index: &IndexDef, equal: &[Slot], low: Option<Limit>, high: Option<Limit>) -> String {
    let name = |i: usize| index.columns.get(i).map_or("?", |c| column_name(def, c));
    let mut parts: Vec<String> = equal
        .iter()
        .enumerate()
        .map(|(i, slot)| match (slot.argument, slot.list) {
            (None, _) => format!("{} is NULL", name(i)),
            (_, true) => format!("{} in (..)", name(i)),
            _ => format!("{} = ?", name(i)),
        })
        .collect();
    let next = equal.len();
    let bound = |limit: Limit, mark: &str| {
        let mark = if limit.inclusive { format!("{mark}=") } else { mark.to_string() };
        match limit.kind {
            LimitKind::Value => format!("{} {mark} ?", name(next)),
            LimitKind::Row(count) => {
                let names: Vec<&str> = (next..next + usize::from(count)).map(name).collect();
                format!("({}) {mark} (..)", names.join(", "))
            }
            LimitKind::Like => format!("{} like ?", name(next)),
            LimitKind::Glob => format!("{} glob ?", name(next)),
            LimitKind::NotNull => format!("{} is not NULL", name(next)),
        }
    };
    parts.extend(low.map(|limit| bound(limit, ">")));
    parts.extend(high.map(|limit| bound(limit, "<")));
    // A pattern is both bounds.
    parts.dedup();
    parts.join(" and ")
}
