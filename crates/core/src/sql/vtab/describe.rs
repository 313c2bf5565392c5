//! Access paths in words, for EXPLAIN.

use super::plan::{Plan, Slot};
use crate::sql::schema::show_index_name;
use crate::table::catalog::{IndexColumn, IndexDef, Method, TableDef};

/// "hash look-up in PRIMARY of t by id", "range of index i of t: a = ? and b > ?", "full scan of t" and the like.
pub fn words(def: &TableDef, plan: &Plan) -> String {
    let table = &def.name;
    match plan {
        Plan::All => format!("full scan of {table}"),
        Plan::Rows(slot) => format!("row{} of {table} by row id", if slot.list { "s" } else { "" }),
        Plan::Keys { index, columns, .. } => {
            let Some(index) = def.index(*index) else { return String::new() };
            let lists = columns.iter().any(|s| s.list);
            let how = match index.method {
                Method::Hash => "hash look-up",
                Method::Ordered => "key look-up",
            };
            let batch = if lists { ", one batch for the list" } else { "" };
            let names: Vec<&str> = index.columns.iter().map(|c| column_name(def, c)).collect();
            format!("{how} in {} of {table} by {}{batch}", show_index_name(index), names.join(", "))
        }
        Plan::Range { index, equal, low, high, reverse } => {
            let Some(index) = def.index(*index) else { return String::new() };
            let conditions = conditions(def, index, equal, *low, *high);
            let order = if *reverse { ", backward" } else { "" };
            match conditions.is_empty() {
                true => format!("whole index {} of {table} in its order{order}", show_index_name(index)),
                false => format!("range of index {} of {table}: {conditions}{order}", show_index_name(index)),
            }
        }
        Plan::Equal { position, .. } => {
            let name = def.column_at(*position).map_or("?", |c| &c.name);
            format!("full scan of {table} for {name} = ?, once: asked again, a hash table made from it")
        }
    }
}

fn column_name<'a>(def: &'a TableDef, column: &IndexColumn) -> &'a str {
    def.column_at(column.position).map_or("?", |c| match &c.generated {
        Some(expression) if c.hidden => expression,
        _ => &c.name,
    })
}

fn conditions(
    def: &TableDef,
    index: &IndexDef,
    equal: &[Slot],
    low: Option<(Slot, bool)>,
    high: Option<(Slot, bool)>,
) -> String {
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
    let next = name(equal.len());
    parts.extend(low.map(|(_, inclusive)| format!("{next} {} ?", if inclusive { ">=" } else { ">" })));
    parts.extend(high.map(|(_, inclusive)| format!("{next} {} ?", if inclusive { "<=" } else { "<" })));
    parts.join(" and ")
}
