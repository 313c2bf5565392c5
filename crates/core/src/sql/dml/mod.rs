//! Writing forms that SQLite refuses on virtual tables: upserts, RETURNING, LIMIT of UPDATE and DELETE, STORE INTO,
//! DELETE FROM keys.
//!
//! `split` cuts a statement by its tokens into what SQLite can run and our clauses; `part` has the expressions of these
//! evaluated by SQLite over rows in hand. The rows themselves go through `write`, as those of any statement.

mod part;
pub mod returning;
pub mod split;
pub mod store;
pub mod text;
pub mod truncate;
pub mod upsert;

use super::executor::{self, Statement};
use super::run::Host;
use super::statement::{self, Class};
use super::token::Token;
use crate::error::Result;
use returning::Returning;
use store::Sink;
use text::Script;
use upsert::Upsert;

/// What a statement does besides what SQLite runs.
#[derive(Default)]
pub struct Extra {
    /// ON CONFLICT, ON DUPLICATE KEY.
    pub upsert: Option<Upsert>,
    /// RETURNING.
    pub returning: Option<Returning>,
    /// What becomes of the rows of a query.
    pub sink: Option<Sink>,
}

/// Compiles a statement whose text has clauses of ours; None: it has none.
pub fn compile(host: &mut dyn Host, text: &str, tokens: &[Token<'_>]) -> Result<Option<Statement>> {
    let script = Script::new(text, tokens);
    let Some(form) = split::split(&script)? else { return Ok(None) };
    let (Class::Query(traits), _) = statement::classify(&form.main)? else { return Ok(None) };
    // First, so that SQLite reports what is wrong with the statement as such.
    let statement =
        executor::prepare(host, &form.main, traits).map_err(|error| form.origin.relocated(error, &form.main, text))?;
    let mut extra = Extra::default();
    if let Some(target) = &form.table {
        let info = executor::table_info(host, &target.name)?;
        if !form.upserts.is_empty() {
            extra.upsert = Some(upsert::compile(host, &script, &info, &form)?);
        }
        if let Some(span) = &form.returning {
            extra.returning = Some(returning::compile(host, &script, &info, target, span.clone())?);
        }
    }
    extra.sink = store::compile(&script, &form, statement.width())?;
    Ok(Some(statement.with_extra(extra, script.parameters)))
}

/// What SQLite runs of a statement; what is explained.
pub fn main_text(text: &str) -> Result<Option<String>> {
    let (_, tokens) = statement::classify(text)?;
    Ok(split::split(&Script::new(text, &tokens))?.map(|form| form.main))
}
