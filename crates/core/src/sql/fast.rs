//! stub
use super::run::Host;
use super::token::Token;
use crate::error::Result;
use crate::reply::Reply;
use crate::table::datum::DatumRef;

/// A plan.
pub enum Plan {}

/// Compiles a statement of a shape that needs no SQLite.
pub fn compile(_: &mut dyn Host, _: &[Token<'_>]) -> Result<Option<Plan>> {
    Ok(None)
}

/// Runs a plan.
pub fn run(_: &mut dyn Host, plan: &Plan, _: &[DatumRef<'_>]) -> Result<Reply> {
    match *plan {}
}

/// Describes a plan.
pub fn explain(plan: &Plan) -> Reply {
    match *plan {}
}
