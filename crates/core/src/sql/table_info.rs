//! What statements need to know of a table beyond its definition, made once for each definition.

use super::constraint::Rules;
use super::constraint::link::Links;
use super::error::sql;
use super::token::{Kind, Token, Tokens};
use super::trigger::RowTriggers;
use crate::error::Result;
use crate::table::catalog::TableDef;
use crate::table::datum::{Bytes, Datum, DatumRef};
use crate::table::row::RowLayout;
use crate::table::types;
use std::sync::Arc;

/// A table's definition made ready for use.
pub struct TableInfo {
    /// The definition.
    pub def: Arc<TableDef>,
    /// How its rows are encoded.
    pub layout: RowLayout,
    /// DEFAULT of each column.
    pub defaults: Vec<Default>,
    /// Columns whose default must be computed for each row.
    pub computed_defaults: Vec<usize>,
    /// The AUTOINCREMENT column.
    pub sequence_column: Option<usize>,
    /// CHECKs and generated columns.
    pub rules: Option<Box<Rules>>,
    /// Foreign keys, its own and those of tables that refer to it.
    pub links: Option<Box<Links>>,
    /// Triggers that its rows fire.
    pub triggers: Option<Box<RowTriggers>>,
}

/// A column's default.
#[derive(Clone, Debug, PartialEq)]
pub enum Default {
    /// A value that is known.
    Literal(Datum),
    /// An expression for SQLite.
    Expression(String),
}

impl Default {
    /// The known value; NULL for an expression.
    pub fn literal(&self) -> DatumRef<'_> {
        match self {
            Default::Literal(value) => value.as_ref(),
            Default::Expression(_) => DatumRef::Null,
        }
    }

    /// Reads a DEFAULT clause.
    pub fn parse(text: &str) -> Result<Default> {
        let tokens = Tokens::all(text)?;
        Ok(match literal(&tokens) {
            Some(value) => Default::Literal(value),
            None => Default::Expression(text.to_string()),
        })
    }
}

impl TableInfo {
    /// Reads a definition.
    pub fn new(def: &Arc<TableDef>) -> Result<TableInfo> {
        let parse = |default: &Option<String>| {
            default.as_ref().map_or(Ok(Default::Literal(Datum::Null)), |text| Default::parse(text))
        };
        let defaults = def.columns.iter().map(|c| parse(&c.default)).collect::<Result<Vec<_>>>()?;
        let computed = |(i, default): (usize, &Default)| matches!(default, Default::Expression(_)).then_some(i);
        Ok(TableInfo {
            def: def.clone(),
            layout: RowLayout::new(def),
            computed_defaults: defaults.iter().enumerate().filter_map(computed).collect(),
            sequence_column: def.columns.iter().position(|c| c.autoincrement),
            rules: Rules::new(def)?.map(Box::new),
            links: None,
            triggers: None,
            defaults,
        })
    }

    /// The place of a column among the table's columns, or the error that names it.
    pub fn column(&self, name: &str) -> Result<usize> {
        let found = self.def.column(name).map(|(i, _)| i);
        found.ok_or_else(|| sql(format!("table {} has no column named {name}", self.def.name)))
    }
}

/// The value of a literal: one token, or a number with a sign.
pub fn literal(tokens: &[Token<'_>]) -> Option<Datum> {
    match tokens {
        [token] => literal_token(token),
        [sign, number] if sign.is_symbol("-") => match literal_token(number)? {
            Datum::Int(i) => Some(Datum::Int(-i)),
            Datum::Real(r) if number.text == "9223372036854775808" => {
                let _ = r;
                Some(Datum::Int(i64::MIN))
            }
            Datum::Real(r) => Some(Datum::Real(-r)),
            _ => None,
        },
        [sign, number] if sign.is_symbol("+") => {
            literal_token(number).filter(|v| matches!(v, Datum::Int(_) | Datum::Real(_)))
        }
        _ => None,
    }
}

fn literal_token(token: &Token<'_>) -> Option<Datum> {
    match token.kind {
        Kind::Text => Some(Datum::text(&*token.unquoted())),
        Kind::Blob => Some(Datum::Blob(hexadecimal(&token.text[2..token.text.len() - 1]))),
        Kind::Integer | Kind::Float => number(token.text),
        Kind::Word if token.is_word("NULL") => Some(Datum::Null),
        Kind::Word if token.is_word("TRUE") => Some(Datum::Int(1)),
        Kind::Word if token.is_word("FALSE") => Some(Datum::Int(0)),
        _ => None,
    }
}

/// A number as SQL writes it; whole numbers past 64 bits are doubles, hexadecimal ones wrap into the sign.
fn number(text: &str) -> Option<Datum> {
    let digits: std::borrow::Cow<'_, str> = if text.contains('_') { text.replace('_', "").into() } else { text.into() };
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok().map(|n| Datum::Int(n as i64));
    }
    types::number(digits.as_bytes()).map(DatumRef::to_owned)
}

fn hexadecimal(digits: &str) -> Bytes {
    let value = |digit: u8| (digit as char).to_digit(16).unwrap_or(0) as u8;
    digits.as_bytes().chunks_exact(2).map(|pair| value(pair[0]) << 4 | value(pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_have_their_values() {
        for (text, value) in [
            ("1", Datum::Int(1)),
            ("-1", Datum::Int(-1)),
            ("+ 2.5", Datum::Real(2.5)),
            ("-9223372036854775808", Datum::Int(i64::MIN)),
            ("9223372036854775808", Datum::Real(9223372036854775808.0)),
            ("0xff", Datum::Int(255)),
            ("0xFFFFFFFFFFFFFFFF", Datum::Int(-1)),
            ("1_000", Datum::Int(1000)),
            ("'it''s'", Datum::text("it's")),
            ("x'0aFF'", Datum::blob([10, 255])),
            ("NULL", Datum::Null),
            ("true", Datum::Int(1)),
        ] {
            assert_eq!(Default::Literal(value), Default::parse(text).unwrap(), "{text}");
        }
        for text in ["CURRENT_TIMESTAMP", "(1 + 1)", "random()", "-'x'", "\"a\""] {
            assert_eq!(Default::Expression(text.into()), Default::parse(text).unwrap());
        }
    }
}
