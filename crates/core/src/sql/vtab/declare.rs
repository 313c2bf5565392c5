//! How a table and its collations are told to SQLite.

use crate::sql::token::quote_name;
use crate::table::catalog::TableDef;
use crate::table::types::Collation;

/// The columns as SQLite is to know them: by base type and collation.
pub fn declaration(def: &TableDef) -> String {
    let column = |c: &crate::table::catalog::ColumnDef| {
        // SQLite looks for the collation of a hidden column in the wrong place; queries name it instead.
        let plain = c.collation == Collation::Binary || c.hidden;
        let collation = if plain { String::new() } else { format!(" COLLATE {}", name(c.collation)) };
        let (ctype, hidden) = match (c.ctype.sqlite_name(), c.hidden) {
            // SQLite takes the word HIDDEN for the type when there is none, and its values for numbers.
            ("", true) => ("BLOB", " HIDDEN"),
            (ctype, true) => (ctype, " HIDDEN"),
            (ctype, false) => (ctype, ""),
        };
        // SQLite does not check it; it knows then that min() need not look for NULLs.
        let not_null = if c.not_null { " NOT NULL" } else { "" };
        format!("{} {ctype}{hidden}{not_null}{collation}", quote_name(&c.name))
    };
    let columns: Vec<String> = def.columns.iter().map(column).collect();
    format!("CREATE TABLE x({})", columns.join(", "))
}

/// A collation's name in SQLite.
pub fn name(collation: Collation) -> &'static str {
    match collation {
        Collation::Binary => "BINARY",
        Collation::NoCase => "NOCASE",
        Collation::RTrim => "RTRIM",
        Collation::Decimal => "DECIMAL",
    }
}

/// The collation that SQLite calls so.
pub fn collation_named(name: &[u8]) -> Option<Collation> {
    use Collation::*;
    [Binary, NoCase, RTrim, Decimal].into_iter().find(|c| self::name(*c).as_bytes().eq_ignore_ascii_case(name))
}
