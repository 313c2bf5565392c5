//! The rules of one table, made ready: which expressions to compute for a row, in which order, as SELECTs.

use crate::error::{Code, Error, Result};
use crate::sql::token::{Kind, Token, Tokens, quote_name};
use crate::table::catalog::TableDef;

/// What to compute for each row, step by step: a generated column may use those of earlier stages.
#[derive(Debug, Default)]
pub struct Rules {
    /// The steps.
    pub stages: Vec<Stage>,
}

/// Expressions that one SELECT computes.
#[derive(Debug)]
pub struct Stage {
    /// Places of the generated columns, whose values come first.
    pub columns: Vec<usize>,
    /// Places of the CHECKs, whose verdicts follow.
    pub checks: Vec<usize>,
    /// What SELECT is to return.
    pub list: String,
}

impl Rules {
    /// The rules of a definition; None if there are none.
    pub fn new(def: &TableDef) -> Result<Option<Rules>> {
        let mut columns: Vec<(usize, Vec<usize>)> = Vec::new();
        for (place, column) in def.columns.iter().enumerate() {
            if let Some(expression) = &column.generated {
                columns.push((place, uses_of(def, expression)?));
            }
        }
        let mut checks: Vec<(usize, Vec<usize>)> = Vec::new();
        for (place, check) in def.checks.iter().enumerate() {
            checks.push((place, uses_of(def, &check.expression)?));
        }
        if columns.is_empty() && checks.is_empty() {
            return Ok(None);
        }
        let mut rules = Rules::default();
        while !columns.is_empty() || !checks.is_empty() {
            let waits: Vec<usize> = columns.iter().map(|(place, _)| *place).collect();
            let ready = |(_, uses): &mut (usize, Vec<usize>)| !uses.iter().any(|column| waits.contains(column));
            let now: Vec<usize> = columns.extract_if(.., ready).map(|(place, _)| place).collect();
            let judged: Vec<usize> = checks.extract_if(.., ready).map(|(place, _)| place).collect();
            if now.is_empty() && judged.is_empty() {
                return Err(Error::new(Code::Sql, format!("generated columns of table {} use each other", def.name)));
            }
            rules.stages.push(Stage::new(def, now, judged));
        }
        Ok(Some(rules))
    }
}

impl Stage {
    fn new(def: &TableDef, columns: Vec<usize>, checks: Vec<usize>) -> Stage {
        let values = columns.iter().filter_map(|c| def.columns[*c].generated.as_ref()).map(|e| format!("({e}\n)"));
        let verdicts = checks.iter().map(|c| format!("NOT ({}\n)", def.checks[*c].expression));
        let list = values.chain(verdicts).collect::<Vec<_>>().join(", ");
        Stage { columns, checks, list }
    }

    /// The SELECT over a table called `module` that has the row.
    pub fn select(&self, def: &TableDef, module: &str) -> String {
        format!("SELECT {} FROM {} AS {}", self.list, quote_name(module), quote_name(&def.name))
    }
}

/// The columns that an expression may use, by place: all whose names stand in it, functions excepted.
pub fn uses_of(def: &TableDef, expression: &str) -> Result<Vec<usize>> {
    let tokens = Tokens::all(expression)?;
    let mut uses: Vec<usize> = names_of(&tokens).filter_map(|t| Some(def.column(&t.name()?)?.0)).collect();
    uses.sort_unstable();
    uses.dedup();
    Ok(uses)
}

/// The tokens that may name columns.
pub fn names_of<'t, 'a>(tokens: &'t [Token<'a>]) -> impl Iterator<Item = &'t Token<'a>> {
    (0..tokens.len()).filter(|i| may_name(tokens, *i)).map(|i| &tokens[i])
}

/// May the token `i` name a column? It is a name, and neither a function's nor a table's.
pub fn may_name(tokens: &[Token<'_>], i: usize) -> bool {
    matches!(tokens[i].kind, Kind::Word | Kind::Quoted)
        && !tokens.get(i + 1).is_some_and(|next| next.is_symbol("(") || next.is_symbol("."))
}

/// An expression in which `from.column` becomes `to.column`, or `column`.
pub fn requalified(expression: &str, from: &str, to: Option<&str>) -> String {
    let Ok(tokens) = Tokens::all(expression) else { return expression.to_string() };
    let mut text = String::new();
    let mut copied = 0;
    for pair in tokens.windows(2) {
        let [name, dot] = pair else { continue };
        if dot.is_symbol(".") && name.name().is_some_and(|name| name.eq_ignore_ascii_case(from)) {
            text += &expression[copied..name.start];
            text += &to.map_or(String::new(), |to| format!("{}.", quote_name(to)));
            copied = dot.end();
        }
    }
    text + &expression[copied..]
}
