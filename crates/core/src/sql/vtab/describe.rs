//! Access paths in words, for EXPLAIN.

use super::plan::{Limit, LimitKind, Plan, Slot, Walk};
use crate::sql::schema::show_index_name;
use crate::table::catalog::{IndexColumn, IndexDef, IndexId, Method, TableDef};

/// One step of a plan: how the rows of one table are reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// The table.
    pub table: String,
    /// The kind of access path.
    pub path: String,
    /// The index; empty when there is none.
    pub index: String,
    /// The conditions that the path answers.
    pub terms: String,
    /// Rows that it is expected to give.
    pub rows: String,
    /// All of it as a sentence.
    pub words: String,
}

/// Stands between the parts of a step on their way through SQLite.
const SEPARATOR: char = '\u{1f}';

impl Step {
    /// The step of an access path: "hash look-up in PRIMARY of t by id", "range of index i of t: a = ? and b > ?".
    pub fn new(def: &TableDef, plan: &Plan, rows: f64) -> Step {
        let index = |id: &IndexId| def.index(*id).map_or(String::new(), |i| show_index_name(i).into());
        let (path, index, terms) = match plan {
            Plan::All => ("full scan", String::new(), String::new()),
            Plan::Rows(slot) => {
                ("row id", String::new(), format!("row id {}", if slot.list { "in (..)" } else { "= ?" }))
            }
            Plan::Keys { index: id, columns, .. } => {
                let Some(of) = def.index(*id) else { return Step::default() };
                let path = if of.method == Method::Hash { "hash look-up" } else { "key look-up" };
                (path, index(id), conditions(def, of, columns, None, None))
            }
            Plan::Range { index: id, equal, low, high, .. } => {
                let Some(of) = def.index(*id) else { return Step::default() };
                let terms = conditions(def, of, equal, *low, *high);
                (if terms.is_empty() { "whole index" } else { "range" }, index(id), terms)
            }
            Plan::Equal { position, .. } => {
                let name = def.column_at(*position).map_or("?", |c| &c.name);
                ("scan or hash table", String::new(), format!("{name} = ?"))
            }
        };
        let (table, path, rows) = (def.name.clone(), path.into(), format!("{rows:.0}"));
        Step { table, path, index, terms, rows, words: words(def, plan) }
    }

    /// The step as a text that SQLite keeps with its plan, with its number in front.
    pub fn packed(&self, number: usize) -> String {
        let number = number.to_string();
        let parts = [&number, &self.table, &self.path, &self.index, &self.terms, &self.rows, &self.words];
        parts.map(|part| part.replace([SEPARATOR, '\0'], " ")).join(&SEPARATOR.to_string())
    }

    /// Reads what [`packed`](Self::packed) wrote.
    pub fn unpack(text: &str) -> Option<(usize, Step)> {
        let mut parts = text.splitn(7, SEPARATOR).map(String::from);
        let number = parts.next()?.parse().ok()?;
        let mut part = || parts.next();
        let (table, path, index, terms) = (part()?, part()?, part()?, part()?);
        Some((number, Step { table, path, index, terms, rows: part()?, words: part()? }))
    }
}

fn words(def: &TableDef, plan: &Plan) -> String {
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
    def.column_at(column.position).map_or("?", |c| match &c.generated {
        Some(expression) if c.hidden => expression,
        _ => &c.name,
    })
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
