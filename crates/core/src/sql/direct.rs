//! Statements by key for a caller in the same process who keeps what their text was compiled to: values go in as they
//! are, and rows come out as the bytes that they are stored in.
//!
//! A request that asks the same costs three times as much: its parameters are spelled out and read again, its text is
//! looked up, and each value of its reply is an object of its own.

use super::cache::Place;
use super::executor::{synchronize, wrong_count};
use super::fast::{self, Plan};
use super::report::dressed;
use super::run::{self, Host};
use crate::error::Result;
use crate::reply::Blob;
use crate::table::batch::Batch;
use crate::table::datum::DatumRef;
use std::sync::Arc;

/// What a text was compiled to. It is of use as long as no definition changes, and may be read without the baton.
pub struct Prepared {
    plan: Arc<Plan>,
    text: Box<[u8]>,
    place: Place,
}

/// What a statement came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Rows were found, or none.
    Rows,
    /// So many rows were changed.
    Changed(i64),
}

impl Prepared {
    /// The text.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The names of the columns of its rows; none if it gives none.
    pub fn names(&self) -> &[Blob] {
        self.plan.output().map_or(&[], |(_, output)| output.names())
    }

    /// The values of a row that it found.
    #[inline]
    pub fn values<'a>(&'a self, row: &'a [u8]) -> impl ExactSizeIterator<Item = DatumRef<'a>> {
        let found = self.plan.output().map(|(info, output)| output.values(row, info));
        found.unwrap_or_else(|| unreachable!("rows come from a statement that has columns"))
    }
}

/// What a text was compiled to, if it is a short statement by key that ran before.
pub fn prepared(host: &mut dyn Host, text: &[u8]) -> Result<Option<Prepared>> {
    synchronize(host)?;
    let known = host.sql().known(text).filter(|(plan, _)| plan.is_short());
    let fits = known.filter(|(plan, _)| plan.writes() || plan.output().is_some());
    Ok(fits.map(|(plan, place)| Prepared { plan, place, text: text.into() }))
}

/// Runs a statement; the rows that it finds are put into `found`. Texts among `params` must be UTF-8. None: the caller
/// has to ask with a request, as the text is to be compiled anew or SQLite must judge; nothing was done.
#[inline]
pub fn execute(
    host: &mut dyn Host,
    prepared: &Prepared,
    params: &[DatumRef<'_>],
    found: &mut Batch,
) -> Result<Option<Done>> {
    synchronize(host)?;
    if !host.sql().is_current(prepared.place, &prepared.plan) {
        return Ok(None);
    }
    run(host, &prepared.plan, params, found).map_err(|error| dressed(host, &prepared.text, error))
}

#[inline]
fn run(host: &mut dyn Host, plan: &Plan, params: &[DatumRef<'_>], found: &mut Batch) -> Result<Option<Done>> {
    if plan.parameters() != params.len() {
        return Err(wrong_count(plan.parameters(), params.len()));
    }
    run::until_ready(host, |host| {
        found.clear();
        fast::run_directly(host, plan, params, found)
    })
}
