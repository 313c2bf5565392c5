//! SHOW CREATE TABLE: the statements that make a table as it is.

use super::bound;
use super::show::{index_columns, method};
use crate::sql::token::show_name;
use crate::sql::vtab;
use crate::table::catalog::{Action, ColumnDef, ForeignKey, IndexDef, Origin, TableDef};

/// The statements that make a table as it is.
pub fn create_statement(def: &TableDef) -> String {
    let mut lines: Vec<String> = def.columns.iter().filter(|c| !c.hidden).map(column_line).collect();
    let mut after = String::new();
    for index in &def.indexes {
        let (columns, method) = (index_columns(def, index), method(index.method));
        match index.origin {
            Origin::PrimaryKey => lines.push(format!("PRIMARY KEY ({columns}) USING {method}")),
            Origin::Unique => lines.push(format!("UNIQUE KEY {} ({columns}) USING {method}", show_name(&index.name))),
            Origin::Created => {
                let unique = if index.unique { "UNIQUE " } else { "" };
                let (name, table) = (show_name(&index.name), show_name(&def.name));
                let filter = filter_of(def, index).map_or(String::new(), |filter| format!(" WHERE {filter}"));
                after += &format!(";\nCREATE {unique}INDEX {name} ON {table} ({columns}) USING {method}{filter}");
            }
        }
    }
    for check in &def.checks {
        lines.push(format!("{}CHECK ({})", constraint(&check.name), check.expression));
    }
    lines.extend(def.foreign_keys.iter().map(foreign_key_line));
    let (name, bound) = (show_name(&def.name), bound::clause(def));
    format!("CREATE TABLE {name} (\n  {}\n){bound}{after}", lines.join(",\n  "))
}

fn constraint(name: &Option<String>) -> String {
    name.as_ref().map_or(String::new(), |name| format!("CONSTRAINT {} ", show_name(name)))
}

fn column_line(column: &ColumnDef) -> String {
    let mut line = format!("{} {}", show_name(&column.name), column.declared);
    if column.collation != column.ctype.collation() {
        line += &format!(" COLLATE {}", vtab::name(column.collation));
    }
    if column.not_null {
        line += " NOT NULL";
    }
    if column.autoincrement {
        line += " AUTO_INCREMENT";
    }
    if let Some(default) = &column.default {
        line += &format!(" DEFAULT {default}");
    }
    if let Some(expression) = &column.generated {
        line += &format!(" GENERATED ALWAYS AS ({expression}) STORED");
    }
    line
}

fn foreign_key_line(key: &ForeignKey) -> String {
    let names = |names: &[String]| names.iter().map(|n| show_name(n)).collect::<Vec<_>>().join(", ");
    let parent = match key.parent_columns.is_empty() {
        true => String::new(),
        false => format!(" ({})", names(&key.parent_columns)),
    };
    let mut line = format!(
        "{}FOREIGN KEY ({}) REFERENCES {}{parent}",
        constraint(&key.name),
        names(&key.columns),
        show_name(&key.parent)
    );
    for (event, action) in [("DELETE", key.on_delete), ("UPDATE", key.on_update)] {
        if action != Action::NoAction {
            line += &format!(" ON {event} {}", action_words(action));
        }
    }
    line
}

/// An action in the words of SQL.
pub fn action_words(action: Action) -> &'static str {
    match action {
        Action::NoAction => "NO ACTION",
        Action::Restrict => "RESTRICT",
        Action::Cascade => "CASCADE",
        Action::SetNull => "SET NULL",
        Action::SetDefault => "SET DEFAULT",
    }
}

/// The condition of a partial index.
pub fn filter_of<'a>(def: &'a TableDef, index: &IndexDef) -> Option<&'a str> {
    let expression = def.column_at(index.filter?)?.generated.as_deref()?;
    let condition = expression.strip_prefix('(').and_then(|rest| rest.strip_suffix("\n) IS TRUE"));
    Some(condition.unwrap_or(expression))
}
