//! What an expression gives for the rows of NULLs that outer joins make up.
//!
//! There a hidden column is NULL, whatever its expression would give: `coalesce(a, 0)` would give 0. So beside an outer
//! join only expressions give way that are surely NULL when all their columns are.

use crate::sql::token::{Kind, Token};
use crate::table::catalog::TableDef;

/// Functions that give NULL if one of their arguments is NULL.
const STRICT: [&str; 20] = [
    "abs",
    "acos",
    "ceil",
    "date",
    "datetime",
    "floor",
    "instr",
    "json_extract",
    "julianday",
    "length",
    "lower",
    "ltrim",
    "round",
    "rtrim",
    "strftime",
    "substr",
    "time",
    "trim",
    "unixepoch",
    "upper",
];

/// Operators that do.
const SYMBOLS: [&str; 26] = [
    "(", ")", ",", ".", "+", "-", "*", "/", "%", "||", "&", "|", "<<", ">>", "~", "->", "->>", "=", "==", "<", ">",
    "<=", ">=", "<>", "!=", ";",
];

/// May the statement have rows of NULLs that are in no table?
pub fn are_made_up(query: &[Token<'_>]) -> bool {
    query.iter().any(|t| ["LEFT", "RIGHT", "FULL"].iter().any(|word| t.is_word(word)))
}

/// Is the expression surely NULL when its columns are? It is, if all in it hand NULL on and it has a column.
pub fn give_null(expression: &[Token<'_>], def: &TableDef) -> bool {
    let mut columns = 0;
    for (i, token) in expression.iter().enumerate() {
        let before = i.checked_sub(1).map(|i| &expression[i]);
        let is_followed = |symbol: &str| expression.get(i + 1).is_some_and(|t| t.is_symbol(symbol));
        let is_strict = match token.kind {
            Kind::Symbol => SYMBOLS.contains(&token.text),
            Kind::Word if is_followed("(") => STRICT.iter().any(|name| token.is_word(name)) || token.is_word("CAST"),
            Kind::Word | Kind::Quoted if before.is_some_and(|t| t.is_word("AS") || t.is_word("COLLATE")) => true,
            Kind::Word if token.is_word("AS") || token.is_word("COLLATE") => true,
            Kind::Word | Kind::Quoted if is_followed(".") => true,
            Kind::Word | Kind::Quoted => {
                columns += 1;
                token.name().is_some_and(|name| def.column(&name).is_some())
            }
            Kind::Parameter => false,
            _ => true,
        };
        if !is_strict {
            return false;
        }
    }
    columns > 0
}

/// Is a condition surely not true when its columns are NULL?
pub fn fail(condition: &[Token<'_>], def: &TableDef) -> bool {
    let words = |wanted: &[&str]| {
        let start = condition.len().checked_sub(wanted.len())?;
        let fits = condition[start..].iter().zip(wanted).all(|(t, word)| t.is_word(word));
        fits.then_some(&condition[..start])
    };
    let left = words(&["IS", "NOT", "NULL"]).or_else(|| words(&["NOTNULL"])).unwrap_or(condition);
    // Of these the left side decides.
    let end = left.iter().position(|t| ["LIKE", "GLOB", "IN", "BETWEEN"].iter().any(|word| t.is_word(word)));
    give_null(&left[..end.unwrap_or(left.len())], def)
}
