//! Reads the shapes of fast statements from tokens; anything unexpected is None, and the statement is SQLite's.

use crate::sql::run::Host;
use crate::sql::table_info::{TableInfo, literal};
use crate::sql::token::{Kind, Token, is_keyword};
use crate::sql::vtab::plan::Op;
use crate::table::catalog::{IndexDef, Method};
use crate::table::datum::{Datum, DatumRef};
use smallvec::SmallVec;
use std::sync::Arc;

/// A literal or a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The parameter at this place.
    Parameter(usize),
    /// This value.
    Literal(Datum),
}

impl Value {
    /// The value, given the parameters.
    #[inline]
    pub fn get<'a>(&'a self, params: &[DatumRef<'a>]) -> DatumRef<'a> {
        match self {
            Value::Parameter(place) => params[*place],
            Value::Literal(value) => value.as_ref(),
        }
    }
}

/// `column op value`
#[derive(Clone, Debug)]
pub struct Condition {
    /// The column's place in the table.
    pub column: usize,
    /// The comparison.
    pub op: Op,
    /// The value; several for IN.
    pub values: SmallVec<[Value; 1]>,
    /// It is an IN.
    pub list: bool,
}

/// A place among tokens.
pub struct Reader<'t> {
    tokens: &'t [Token<'t>],
    at: usize,
    /// Parameters read so far.
    pub parameters: usize,
}

impl<'t> Reader<'t> {
    /// Before the first token.
    pub fn new(tokens: &'t [Token<'t>]) -> Reader<'t> {
        Reader { tokens, at: 0, parameters: 0 }
    }

    fn peek(&self) -> Option<&'t Token<'t>> {
        self.tokens.get(self.at)
    }

    /// Is this word the next token?
    pub fn is_word(&self, word: &str) -> bool {
        self.peek().is_some_and(|t| t.is_word(word))
    }

    /// Is this symbol the next token?
    pub fn is_symbol(&self, symbol: &str) -> bool {
        self.peek().is_some_and(|t| t.is_symbol(symbol))
    }

    /// The byte of the text at which the next token begins.
    pub fn place(&self) -> usize {
        self.peek().map_or(0, |token| token.start)
    }

    /// The byte of the text at which the last token ended.
    pub fn end_before(&self) -> usize {
        self.at.checked_sub(1).map_or(0, |before| self.tokens[before].end())
    }

    /// Steps over a word; None if it is not the next token.
    pub fn word(&mut self, word: &str) -> Option<()> {
        self.peek().filter(|t| t.is_word(word))?;
        self.at += 1;
        Some(())
    }

    /// Steps over a symbol; None if it is not the next token.
    pub fn symbol(&mut self, symbol: &str) -> Option<()> {
        self.peek().filter(|t| t.is_symbol(symbol))?;
        self.at += 1;
        Some(())
    }

    /// None unless all tokens were read.
    pub fn end(&self) -> Option<()> {
        (self.at == self.tokens.len()).then_some(())
    }

    /// A name that is no keyword, or is quoted as a name.
    pub fn name(&mut self) -> Option<std::borrow::Cow<'t, str>> {
        let token = self.peek()?;
        let fits = match token.kind {
            Kind::Word => !is_keyword(token.text),
            Kind::Quoted => true,
            _ => false,
        };
        self.at += usize::from(fits);
        if fits { token.name() } else { None }
    }

    /// A literal or a parameter by position.
    pub fn value(&mut self) -> Option<Value> {
        let token = self.peek()?;
        if token.kind == Kind::Parameter {
            let place = match token.text {
                "?" => self.parameters,
                text => text.strip_prefix('?')?.parse::<usize>().ok()?.checked_sub(1)?,
            };
            self.at += 1;
            self.parameters = self.parameters.max(place + 1);
            return (place < crate::limits::SQL_PARAMETERS_MAX).then_some(Value::Parameter(place));
        }
        let signed = usize::from(token.is_symbol("-") || token.is_symbol("+"));
        let tokens = self.tokens.get(self.at..=self.at + signed)?;
        // TRUE and FALSE might be columns; a name is never read as a value here.
        let fits = |t: &Token<'_>| t.kind != Kind::Word || t.is_word("NULL");
        let value = literal(tokens).filter(|_| tokens.iter().all(fits))?;
        self.at += tokens.len();
        Some(Value::Literal(value))
    }

    /// The table named here, with another name if one is given.
    pub fn table(&mut self, host: &mut dyn Host) -> Option<(Arc<TableInfo>, Option<String>)> {
        let name = self.name()?;
        let id = host.catalog().table(&name)?.id;
        let info = host.sql().info(id)?.clone();
        let named = self.word("AS").is_some();
        let alias = match self.peek() {
            Some(token) if named || token.kind == Kind::Quoted => Some(self.name()?.into_owned()),
            Some(token) if token.kind == Kind::Word && !is_keyword(token.text) => Some(self.name()?.into_owned()),
            _ => None,
        };
        Some((info, alias))
    }

    /// Reads something that may be there; if it is not, comes back.
    pub fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let (at, parameters) = (self.at, self.parameters);
        let result = read(self);
        if result.is_none() {
            (self.at, self.parameters) = (at, parameters);
        }
        result
    }

    /// Reads what follows the first `word` here, and comes back.
    pub fn ahead_of<T>(&mut self, word: &str, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let here = self.at;
        let found = self.tokens[here..].iter().position(|t| t.is_word(word))?;
        self.at = here + found + 1;
        let result = read(self);
        self.at = here;
        result
    }

    /// Steps over a table that was read before, with its other name.
    pub fn skip_table(&mut self, has_alias: bool) -> Option<()> {
        self.name()?;
        if has_alias {
            let _ = self.word("AS");
            self.name()?;
        }
        Some(())
    }

    /// A column of the table, perhaps with the table's name before it.
    pub fn column(&mut self, info: &TableInfo, alias: Option<&str>) -> Option<usize> {
        let mut name = self.name()?;
        if self.symbol(".").is_some() {
            let table = alias.unwrap_or(&info.def.name);
            if !name.eq_ignore_ascii_case(table) {
                return None;
            }
            name = self.name()?;
        }
        info.def.column(&name).map(|(place, _)| place)
    }

    /// `WHERE column op value [AND ...]`
    pub fn conditions(&mut self, info: &TableInfo, alias: Option<&str>) -> Option<SmallVec<[Condition; 4]>> {
        self.word("WHERE")?;
        let mut conditions = SmallVec::new();
        loop {
            self.condition(info, alias, &mut conditions)?;
            if self.word("AND").is_none() {
                return Some(conditions);
            }
        }
    }

    fn condition(
        &mut self,
        info: &TableInfo,
        alias: Option<&str>,
        conditions: &mut SmallVec<[Condition; 4]>,
    ) -> Option<()> {
        let column = self.column(info, alias)?;
        let mut add = |op, value: Value| {
            conditions.push(Condition { column, op, values: SmallVec::from_iter([value]), list: false });
        };
        if self.word("BETWEEN").is_some() {
            add(Op::GreaterOrEqual, self.value()?);
            self.word("AND")?;
            add(Op::LessOrEqual, self.value()?);
            return Some(());
        }
        if self.word("IN").is_some() {
            let values = self.list()?;
            conditions.push(Condition { column, op: Op::Equal, values, list: true });
            return Some(());
        }
        add(self.comparison()?, self.value()?);
        Some(())
    }

    /// `=` and its kin.
    pub fn comparison(&mut self) -> Option<Op> {
        let token = self.peek().filter(|t| t.kind == Kind::Symbol)?;
        let op = match token.text {
            "=" | "==" => Op::Equal,
            ">" => Op::Greater,
            ">=" => Op::GreaterOrEqual,
            "<" => Op::Less,
            "<=" => Op::LessOrEqual,
            _ => return None,
        };
        self.at += 1;
        Some(op)
    }

    /// `(value, ...)`
    pub fn list(&mut self) -> Option<SmallVec<[Value; 1]>> {
        self.symbol("(")?;
        let mut values = SmallVec::new();
        loop {
            values.push(self.value()?);
            if self.symbol(",").is_none() {
                break;
            }
        }
        self.symbol(")")?;
        Some(values)
    }
}

/// The best index whose columns are just those of the conditions, all equalities. Unique ones come first, then hashes.
pub fn index_of_all<'a>(info: &'a TableInfo, conditions: &[Condition]) -> Option<&'a IndexDef> {
    let fits = |index: &&IndexDef| {
        index.filter.is_none()
            && index.columns.len() == conditions.len()
            && index.columns.iter().all(|c| {
                let column = info.def.column_at(c.position);
                let same = |condition: &Condition| {
                    condition.op == Op::Equal && info.def.columns[condition.column].position == c.position
                };
                column.is_some_and(|column| column.collation == c.collation) && conditions.iter().any(same)
            })
    };
    info.def.indexes.iter().filter(fits).min_by_key(|i| (!i.unique, i.method != Method::Hash))
}
