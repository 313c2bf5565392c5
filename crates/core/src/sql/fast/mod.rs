//! Statements of known shapes, answered without SQLite: a point SELECT costs a third of one through it.
//!
//! The shapes are few and closed: `column op value` joined by AND, with values that are literals or parameters; rows of one
//! table by an index that answers all of it (`select`, `range`, `aggregate`, `write`); groups of a table, and two tables
//! joined by equal columns (`query`). Anything else is SQLite's, also what turns out when a plan runs to need
//! SQLite's judgement (`run` says None then). Both ways must give the same rows; a differential test sees to it.

mod accumulator;
mod aggregate;
mod ahead;
mod filter;
mod follow;
mod group;
mod hashed;
mod join;
pub mod key;
mod listing;
mod look;
mod path;
mod query;
mod range;
mod read;
mod select;
mod shape;
mod tables;
pub mod upsert;
mod write;

pub use ahead::Ahead;
pub use query::Query;
pub use write::{Insert, insert_many};

use super::run::{Host, Outcome, Taken};
use super::token::Token;
use super::vtab::describe::Step;
use crate::engine::Source;
use crate::error::{Code, Error, Result};
use crate::reply::Reply;
use crate::sql::direct::Done;
use crate::sql::table_info::TableInfo;
use crate::table::batch::Batch;
use crate::table::datum::DatumRef;
use read::Reader;
pub use select::Output;

/// A compiled statement.
pub enum Plan {
    /// SELECT by key.
    Select(select::Select),
    /// SELECT by range.
    Range(range::Range),
    /// SELECT of count(*), min and max.
    Aggregate(aggregate::Aggregate),
    /// SELECT of groups, and of joined rows.
    Query(Box<Query>),
    /// INSERT of values.
    Insert(write::Insert),
    /// UPDATE by key.
    Update(write::Update),
    /// DELETE by key.
    Delete(write::Delete),
}

/// Compiles a statement of a known shape; None for any other.
pub fn compile(host: &mut dyn Host, text: &str, tokens: &[Token<'_>]) -> Result<Option<Plan>> {
    let mut reader = Reader::new(tokens);
    Ok(match tokens.first() {
        Some(first) if first.is_word("SELECT") => {
            let by_index = match is_aggregate(tokens) {
                true => aggregate::compile(host, &mut reader, text).map(Plan::Aggregate),
                false => select::compile(host, &mut reader),
            };
            let by_walk = |host| query::compile(host, &mut Reader::new(tokens), text);
            by_index.or_else(|| by_walk(host).map(|plan| Plan::Query(Box::new(plan))))
        }
        Some(first) if first.is_word("INSERT") || first.is_word("REPLACE") => {
            write::compile_insert(host, &mut reader).map(Plan::Insert)
        }
        Some(first) if first.is_word("UPDATE") => write::compile_update(host, &mut reader).map(Plan::Update),
        Some(first) if first.is_word("DELETE") => write::compile_delete(host, &mut reader).map(Plan::Delete),
        _ => None,
    })
}

/// Does the SELECT begin with a call?
fn is_aggregate(tokens: &[Token<'_>]) -> bool {
    tokens.get(2).is_some_and(|t| t.is_symbol("("))
}

/// A statement with more parameters takes its time.
const SHORT_PARAMETERS: usize = 64;

impl Plan {
    /// Does the statement change rows, and return none?
    pub fn writes(&self) -> bool {
        match self {
            Plan::Insert(plan) => !plan.returns(),
            Plan::Update(_) | Plan::Delete(_) => true,
            _ => false,
        }
    }

    /// How many parameters the statement has.
    #[inline]
    pub fn parameters(&self) -> usize {
        match self {
            Plan::Select(plan) => plan.parameters,
            Plan::Range(plan) => plan.parameters,
            Plan::Aggregate(plan) => plan.parameters,
            Plan::Query(plan) => plan.parameters,
            Plan::Insert(plan) => plan.parameters,
            Plan::Update(plan) => plan.parameters,
            Plan::Delete(plan) => plan.parameters,
        }
    }
}

/// Runs a plan, whose number of parameters was checked. None: SQLite must judge; nothing was done.
#[inline]
pub fn run(host: &mut dyn Host, plan: &Plan, params: &[DatumRef<'_>]) -> Outcome<Option<Reply>> {
    match plan {
        Plan::Select(plan) => select::run(host, plan, params),
        Plan::Range(plan) => range::run(host, plan, params),
        Plan::Aggregate(plan) => aggregate::run(host, plan, params),
        Plan::Query(plan) => plan.run(host, params),
        Plan::Insert(plan) => write::insert(host, plan, params),
        Plan::Update(plan) => write::update(host, plan, params),
        Plan::Delete(plan) => write::delete(host, plan, params),
    }
}

/// Runs a plan for EXPLAIN ANALYZE, to its end, and tells what its steps took, of those that are counted.
pub fn run_analysed(
    host: &mut dyn Host,
    plan: &Plan,
    params: &[DatumRef<'_>],
    taken: &mut Vec<Taken>,
) -> Outcome<Option<Reply>> {
    taken.clear();
    match plan {
        Plan::Query(plan) => plan.run_analysed(host, params, taken),
        _ => run(host, plan, params),
    }
}

/// As [`run`], with the rows found as they are stored, for a plan that writes or has an [`Plan::output`].
#[inline]
pub fn run_directly(
    host: &mut dyn Host,
    plan: &Plan,
    params: &[DatumRef<'_>],
    found: &mut Batch,
) -> Outcome<Option<Done>> {
    if let Plan::Select(plan) = plan {
        return Ok(select::find(host, plan, params, &mut |row| found.push(row.bytes()))?.map(|()| Done::Rows));
    }
    match run(host, plan, params)? {
        None => Ok(None),
        Some(Reply::Int(changed)) => Ok(Some(Done::Changed(changed))),
        Some(_) => Err(Error::new(Code::Bug, "fast/mod.rs: a statement with rows ran as one without").into()),
    }
}

impl Plan {
    /// The table and the columns of which its rows are made, if they are rows of one table as they are stored.
    #[inline]
    pub fn output(&self) -> Option<(&TableInfo, &Output)> {
        match self {
            Plan::Select(plan) => Some(plan.output()),
            _ => None,
        }
    }

    /// Does it look up or write a few rows by their keys?
    pub fn is_short(&self) -> bool {
        match self {
            Plan::Range(_) => false,
            Plan::Select(plan) => plan.is_short(),
            Plan::Aggregate(_) => true,
            Plan::Query(plan) => plan.is_short(),
            Plan::Insert(plan) => plan.parameters <= SHORT_PARAMETERS,
            Plan::Update(plan) => plan.is_short(),
            Plan::Delete(plan) => plan.is_short(),
        }
    }

    /// What it does, for EXPLAIN.
    pub fn steps(&self, source: &dyn Source) -> Vec<Step> {
        match self {
            Plan::Select(plan) => vec![plan.step()],
            Plan::Range(plan) => vec![plan.step()],
            Plan::Aggregate(plan) => plan.steps(),
            Plan::Query(plan) => plan.steps(source),
            Plan::Insert(plan) => vec![plan.step()],
            Plan::Update(plan) => vec![plan.step()],
            Plan::Delete(plan) => vec![plan.step()],
        }
    }
}
