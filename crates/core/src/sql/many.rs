//! One statement run for many groups of parameters, all or none: what executemany does.

use super::cache::Compiled;
use super::error::sql;
use super::executor::{self, Statement, in_scope};
use super::fast::{self, Insert, Plan};
use super::run::{self, Failure, Host, Outcome};
use crate::error::{Code, Error, Result};
use crate::reply::Reply;
use crate::table::datum::DatumRef;
use std::sync::Arc;

/// Runs a statement that writes once for each group of as many values as it has parameters. Gives the number of rows
/// that all of them changed.
pub fn execute(host: &mut dyn Host, text: &[u8], values: &[DatumRef<'_>]) -> Result<u64> {
    let mut compiled = executor::compiled(host, text)?;
    let result = run_until_ready(host, text, &mut compiled, values);
    if let Compiled::Statement(statement) = compiled {
        executor::check_in(host, text, statement);
    }
    result
}

fn run_until_ready(host: &mut dyn Host, text: &[u8], compiled: &mut Compiled, values: &[DatumRef<'_>]) -> Result<u64> {
    let (width, writes) = match compiled {
        Compiled::Fast(plan) => (plan.parameters(), plan.writes()),
        Compiled::Statement(statement) => (statement.parameters(), statement.only_writes()),
    };
    if !writes {
        return Err(sql("a statement that is run many times may not return rows"));
    }
    if width == 0 || !values.len().is_multiple_of(width) {
        return Err(sql(format!("the statement has {width} parameters, {} values given", values.len())));
    }
    if values.is_empty() {
        return Ok(0);
    }
    run::until_ready(host, |host| {
        // A scope around all groups: the first that fails takes back those before it.
        in_scope(host, true, |host| match compiled {
            Compiled::Fast(plan) => run_fast(host, text, plan, values),
            Compiled::Statement(statement) => run_statement(host, statement, values),
        })
    })
}

/// The same error, with the number of the group that failed.
fn of_row(failure: Failure, group: usize) -> Failure {
    match failure {
        Failure::Error(error) if error.code != Code::Cancelled => {
            Failure::Error(Error::new(error.code, format!("row {}: {}", group + 1, error.message)))
        }
        other => other,
    }
}

fn run_fast(host: &mut dyn Host, text: &[u8], plan: &Arc<Plan>, values: &[DatumRef<'_>]) -> Outcome<u64> {
    if let Plan::Insert(insert) = &**plan
        && !insert.is_upsert()
    {
        return insert_all(host, insert, values, plan.parameters());
    }
    let mut changed = 0;
    for (group, params) in values.chunks(plan.parameters()).enumerate() {
        let reply = match fast::run(host, plan, params) {
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => executor::run_slow(host, text, params).map_err(Failure::from),
            Err(failure) => Err(failure),
        };
        changed += count(reply.map_err(|failure| of_row(failure, group))?);
    }
    Ok(changed)
}

/// Inserts many rows at once. If that fails, it is done again row by row, to tell which one it was: the scope around takes
/// back the rows of both.
fn insert_all(host: &mut dyn Host, insert: &Insert, values: &[DatumRef<'_>], width: usize) -> Outcome<u64> {
    let all = in_scope(host, true, |host| fast::insert_many(host, insert, values));
    let Err(Failure::Error(error)) = all else { return all };
    // A row may refer to a later one, so by itself it would be judged too early.
    if error.code == Code::Cancelled || error.message.contains("FOREIGN KEY") {
        return Err(error.into());
    }
    for (group, params) in values.chunks(width).enumerate() {
        match fast::insert_many(host, insert, params) {
            Err(Failure::Error(found)) if found.message.contains("FOREIGN KEY") => {}
            Err(found) => return Err(of_row(found, group)),
            Ok(_) => {}
        }
    }
    Err(error.into())
}

fn run_statement(host: &mut dyn Host, statement: &mut Statement, values: &[DatumRef<'_>]) -> Outcome<u64> {
    let mut changed = 0;
    for (group, params) in values.chunks(statement.parameters()).enumerate() {
        let reply = executor::run_once(host, statement, params, false);
        statement.reset();
        changed += count(reply.map_err(|failure| of_row(failure, group))?);
    }
    Ok(changed)
}

fn count(reply: Reply) -> u64 {
    if let Reply::Int(changed) = reply { changed as u64 } else { 0 }
}
