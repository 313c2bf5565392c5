//! Expressions of our clauses, compiled as a SELECT over rows in hand: SQLite is the only judge of expressions.
//!
//! A row in hand becomes a subquery of bound values, `(SELECT CAST(?3 AS INTEGER) AS "a", ..) AS "t"`, whose columns have
//! the types and collations of the table's, so that they compare alike. Only the columns that are named are bound.

use super::split::{Proposed, Target};
use super::text::Script;
use crate::error::{Code, Error, Result};
use crate::sql::executor;
use crate::sql::origin::Origin;
use crate::sql::run::{Failure, Host, Outcome, Run, Traits};
use crate::sql::sqlite::{Prepared, Step};
use crate::sql::table_info::TableInfo;
use crate::sql::token::quote_name;
use crate::sql::vtab;
use crate::table::catalog::ColumnDef;
use crate::table::datum::DatumRef;
use crate::table::row::Row;
use crate::table::row_id::RowId;
use crate::table::types::Collation;
use std::ops::Range;

/// A row that expressions can name.
#[derive(Clone, Copy)]
pub struct Hand<'a> {
    /// Its values.
    pub row: Row<'a>,
    /// Its id, when it has one.
    pub id: Option<RowId>,
}

/// Which row in hand a value is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// The column at a position of the row that is written.
    Written(u16),
    /// The id of that row.
    WrittenId,
    /// The column at a position of the row that could not be inserted.
    Proposed(u16),
}

/// A compiled list of expressions.
pub struct Part {
    prepared: Prepared,
    /// The statement's parameters that are bound first, from 0.
    params: Vec<usize>,
    /// What is bound then.
    bound: Vec<From>,
}

/// Makes the text of a part.
pub struct Builder<'s, 't> {
    script: &'s Script<'t>,
    info: &'s TableInfo,
    target: &'s Target,
    /// What the proposed row is called, when the expressions may name it.
    proposed: Option<&'s Proposed>,
    text: String,
    /// Where its pieces come from.
    origin: Origin,
    params: Vec<usize>,
    /// Spans that were written, to see which columns they name.
    spans: Vec<Range<usize>>,
    /// Columns of the proposed row that were named.
    proposed_columns: Vec<usize>,
    everything: bool,
}

const EXCLUDED: &str = "excluded";

impl<'s, 't> Builder<'s, 't> {
    /// Expressions about rows of a table.
    pub fn new(
        script: &'s Script<'t>,
        info: &'s TableInfo,
        target: &'s Target,
        proposed: Option<&'s Proposed>,
    ) -> Builder<'s, 't> {
        Builder {
            script,
            info,
            target,
            proposed,
            text: "SELECT ".into(),
            origin: Origin::default(),
            params: Vec::new(),
            spans: Vec::new(),
            proposed_columns: Vec::new(),
            everything: false,
        }
    }

    /// Appends a text of ours.
    pub fn push(&mut self, text: &str) {
        self.text += text;
    }

    /// All columns that `*` stands for.
    pub fn all_columns(&mut self) {
        let names: Vec<String> =
            self.info.def.columns.iter().filter(|c| !c.hidden).map(|c| quote_name(&c.name)).collect();
        self.text += &names.join(", ");
        self.everything = true;
    }

    /// Appends an expression.
    pub fn expression(&mut self, span: Range<usize>) {
        self.spans.push(span.clone());
        let mut at = span.start;
        let mut end = self.script.start(at);
        while at < span.end {
            let Some(token) = self.script.token(at) else { break };
            self.text += &self.script.text()[end..token.start];
            self.origin.copied(self.text.len(), token.start, token.text.len());
            let taken = self.proposed_column(at, span.end);
            if let Some((column, length)) = taken {
                self.text += &format!("{EXCLUDED}.{}", proposed_name(&self.info.def.columns[column]));
                if !self.proposed_columns.contains(&column) {
                    self.proposed_columns.push(column);
                }
                at += length;
            } else if let Some(number) = self.script.parameter(at) {
                let place = self.params.iter().position(|known| *known == number - 1).unwrap_or_else(|| {
                    self.params.push(number - 1);
                    self.params.len() - 1
                });
                self.text += &format!("?{}", place + 1);
                at += 1;
            } else {
                self.text += token.text;
                at += 1;
            }
            end = self.script.token(at - 1).map_or(end, |token| token.end());
        }
    }

    /// The column of the proposed row named at a token, and how many tokens name it: `excluded.a`, `new.a`, `VALUES(a)`,
    /// or MySQL's own name for it.
    fn proposed_column(&self, at: usize, end: usize) -> Option<(usize, usize)> {
        let proposed = self.proposed?;
        let script = self.script;
        let name = script.token(at)?.name()?;
        let column = |at: usize| {
            let name = script.token(at).filter(|_| at < end)?.name()?;
            self.info.def.column(&name).map(|(column, _)| column)
        };
        let is_alias = |name: &str| proposed.alias.as_ref().is_some_and(|alias| alias.eq_ignore_ascii_case(name));
        if (name.eq_ignore_ascii_case(EXCLUDED) || is_alias(&name)) && script.is_symbol(at + 1, ".") {
            let renamed = script.token(at + 2).and_then(|t| t.name()).and_then(|name| self.renamed(&name));
            return Some((renamed.or_else(|| column(at + 2))?, 3));
        }
        if script.is_word(at, "VALUES") && script.is_symbol(at + 1, "(") && script.is_symbol(at + 3, ")") {
            return Some((column(at + 2)?, 4));
        }
        let follows_dot = at > 0 && script.is_symbol(at - 1, ".");
        let called = script.is_symbol(at + 1, "(") || script.is_symbol(at + 1, ".");
        if script.is_plain_name(at) && !follows_dot && !called {
            return Some((self.renamed(&name)?, 1));
        }
        None
    }

    /// The column that MySQL's `AS new (m, n)` calls so.
    fn renamed(&self, name: &str) -> Option<usize> {
        let at = self.proposed?.columns.iter().position(|column| column.eq_ignore_ascii_case(name))?;
        (at < self.info.def.columns.len()).then_some(at)
    }

    /// Does an expression name this?
    fn is_named(&self, name: &str) -> bool {
        self.spans.iter().cloned().flatten().any(|at| {
            let token = self.script.token(at).and_then(|token| token.name());
            token.is_some_and(|token| token.eq_ignore_ascii_case(name))
        })
    }

    /// Compiles the expressions.
    pub fn compile(mut self, host: &mut dyn Host) -> Result<Part> {
        let mut bound = Vec::new();
        let mut number = self.params.len();
        let mut bind = |from: From| {
            bound.push(from);
            number += 1;
            number
        };
        let mut columns = Vec::new();
        for column in &self.info.def.columns {
            if (self.everything && !column.hidden) || self.is_named(&column.name) {
                let number = bind(From::Written(column.position));
                columns.push(format!("{} AS {}", value_like(column, number), quote_name(&column.name)));
            }
        }
        if self.info.def.column("rowid").is_none() && self.is_named("rowid") {
            columns.push(format!("?{} AS rowid", bind(From::WrittenId)));
        }
        if columns.is_empty() {
            columns.push("1".into());
        }
        let name = self.target.alias.as_deref().unwrap_or(&self.info.def.name);
        self.text += &format!(" FROM (SELECT {}) AS {}", columns.join(", "), quote_name(name));
        if !self.proposed_columns.is_empty() {
            let column = |column: &usize| {
                let column = &self.info.def.columns[*column];
                let number = bind(From::Proposed(column.position));
                format!("{} AS {}", value_like(column, number), proposed_name(column))
            };
            let columns: Vec<String> = self.proposed_columns.iter().map(column).collect();
            self.text += &format!(", (SELECT {}) AS {EXCLUDED}", columns.join(", "));
        }
        let located = |error| self.origin.relocated(error, &self.text, self.script.text());
        let prepared = executor::prepare_part(host, &self.text).map_err(located)?;
        Ok(Part { prepared, params: self.params, bound })
    }
}

/// A name that no column of the table has by accident, so that plain names mean the row that is there.
fn proposed_name(column: &ColumnDef) -> String {
    quote_name(&format!("{EXCLUDED}.{}", column.name))
}

/// A bound value that compares as the column does.
fn value_like(column: &ColumnDef, number: usize) -> String {
    let collation = match column.collation {
        Collation::Binary => String::new(),
        collation => format!(" COLLATE {}", vtab::name(collation)),
    };
    match column.ctype.sqlite_name() {
        "" => format!("?{number}{collation}"),
        name => format!("CAST(?{number} AS {name}){collation}"),
    }
}

impl Part {
    /// How many expressions there are.
    pub fn columns(&self) -> usize {
        self.prepared.column_count()
    }

    /// What an expression is called.
    pub fn column_name(&self, column: usize) -> String {
        self.prepared.column_name(column)
    }

    /// Evaluates the expressions for rows in hand and shows their values.
    pub fn evaluate<T>(
        &mut self,
        host: &mut dyn Host,
        params: &[DatumRef<'_>],
        written: Hand<'_>,
        proposed: Option<Row<'_>>,
        show: impl FnOnce(&mut Prepared) -> Result<T>,
    ) -> Outcome<T> {
        let deadline_ns = host.deadline_ns();
        let (connection, current) = host.sql().entrance()?;
        let mut run = Run::new(host, &Traits::PART);
        run.deadline_ns = deadline_ns;
        let result = current.enter(&mut run, || {
            self.bind(params, written, proposed)?;
            match self.prepared.step() {
                Step::Row => show(&mut self.prepared),
                Step::Done => Err(Error::new(Code::Bug, "part.rs: a row in hand is not there")),
                Step::Failed(code) => Err(connection.error(code, "")),
            }
        });
        // While the run is current: closing cursors may ask for it.
        current.enter(&mut run, || self.prepared.reset());
        match run.failure.take() {
            Some(failure) => Err(failure),
            None => result.map_err(Failure::from),
        }
    }

    fn bind(&mut self, params: &[DatumRef<'_>], written: Hand<'_>, proposed: Option<Row<'_>>) -> Result<()> {
        let mut number = 0;
        let Part { prepared, params: used, bound } = self;
        let mut bind = |value: DatumRef<'_>| {
            number += 1;
            prepared.bind(number, value)
        };
        for place in used {
            bind(params.get(*place).copied().unwrap_or(DatumRef::Null))?;
        }
        for from in bound {
            bind(match from {
                From::Written(position) => written.row.get(*position),
                From::WrittenId => written.id.map_or(DatumRef::Null, |id| DatumRef::Int(id.0 as i64)),
                From::Proposed(position) => proposed.map_or(DatumRef::Null, |row| row.get(*position)),
            })?;
        }
        Ok(())
    }
}
