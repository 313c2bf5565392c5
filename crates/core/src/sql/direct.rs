//! Statements by key for a caller in the same process who keeps what their text was compiled to: values go in as they
//! are, and rows come out as the bytes that they are stored in.
//!
//! A request that asks the same costs three times as much: its parameters are spelled out and read again, its text is
//! looked up, and each value of its reply is an object of its own.

use super::cache::Place;
use super::executor::{synchronize, wrong_count};
use super::fast::{self, Plan};
use super::report::{self, dressed};
use super::run::{self, Host};
use super::table_info::TableInfo;
use crate::error::Result;
use crate::reply::{Blob, Reply};
use crate::table::batch::Batch;
use crate::table::datum::DatumRef;
use smallvec::SmallVec;
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

/// What a statement came to for a caller who was shown its rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// Its rows, or none, were shown.
    Rows,
    /// So many rows were changed.
    Changed(i64),
    /// It answers with something else.
    Other(Reply),
}

/// Is shown the names of the columns and the values of a row; an error ends the showing.
pub type Show<'a> = &'a mut dyn FnMut(&[&[u8]], &[DatumRef<'_>]) -> Result<()>;

/// Runs a statement and shows its rows, for a caller in the same process who keeps nothing but the text.
#[inline]
pub fn ask(host: &mut dyn Host, text: &[u8], params: &[DatumRef<'_>], show: Show<'_>) -> Result<Asked> {
    synchronize(host)?;
    if let Some((plan, place)) = host.sql().known(text)
        && plan.is_short()
        && (plan.writes() || plan.output().is_some())
        && host.sql().is_current(place, &plan)
        && let Some(asked) = ask_plan(host, &plan, params, show).map_err(|error| dressed(host, text, error))?
    {
        return Ok(asked);
    }
    show_reply(report::execute(host, text, params)?, show)
}

/// None: SQLite must judge; nothing was done.
#[inline]
fn ask_plan(host: &mut dyn Host, plan: &Plan, params: &[DatumRef<'_>], show: Show<'_>) -> Result<Option<Asked>> {
    let mut found = std::mem::take(&mut host.sql().found);
    let done = run(host, plan, params, &mut found);
    let asked = match (done, plan.output()) {
        (Ok(Some(Done::Rows)), Some((info, output))) => {
            show_found(info, output, &found, show).map(|()| Some(Asked::Rows))
        }
        (Ok(Some(Done::Changed(count))), _) => Ok(Some(Asked::Changed(count))),
        (Ok(_), _) => Ok(None),
        (Err(error), _) => Err(error),
    };
    if found.memory() <= FOUND_BYTES_KEPT {
        found.clear();
        host.sql().found = found;
    }
    asked
}

/// Bytes of found rows whose buffer is kept.
const FOUND_BYTES_KEPT: usize = 64 << 10;

fn show_found(info: &TableInfo, output: &fast::Output, found: &Batch, show: Show<'_>) -> Result<()> {
    let names: SmallVec<[&[u8]; 16]> = output.names().iter().map(|name| &name[..]).collect();
    let mut values: SmallVec<[DatumRef<'_>; 16]> = SmallVec::new();
    for row in found.iter() {
        values.clear();
        output.values(row, info).for_each(|value| values.push(value));
        show(&names, &values)?;
    }
    Ok(())
}

/// Shows the rows of a reply, if it has some.
fn show_reply(reply: Reply, show: Show<'_>) -> Result<Asked> {
    match reply {
        Reply::Int(count) => Ok(Asked::Changed(count)),
        Reply::Rows(rows) => {
            let names: Vec<&[u8]> = rows.names().iter().map(|name| &name[..]).collect();
            show_rows(&names, rows.iter(), show)
        }
        Reply::Array(all) if matches!(all.first(), Some(Reply::Array(_))) => {
            let Some((Reply::Array(names), rows)) = all.split_first() else { return Ok(Asked::Rows) };
            let names: Vec<&[u8]> = names.iter().map(bytes_of).collect();
            let values = rows.iter().map(|row| if let Reply::Array(values) = row { &values[..] } else { &[] });
            show_rows(&names, values, show)
        }
        other => Ok(Asked::Other(other)),
    }
}

fn show_rows<'a>(names: &[&[u8]], rows: impl Iterator<Item = &'a [Reply]>, show: Show<'_>) -> Result<Asked> {
    let mut values: SmallVec<[DatumRef<'_>; 16]> = SmallVec::new();
    for row in rows {
        values.clear();
        row.iter().for_each(|value| values.push(value_of(value)));
        show(names, &values)?;
    }
    Ok(Asked::Rows)
}

/// The value that a reply in a row stands for.
fn value_of(reply: &Reply) -> DatumRef<'_> {
    match reply {
        Reply::Int(number) => DatumRef::Int(*number),
        Reply::Double(number) => DatumRef::Real(*number),
        Reply::Verbatim(_, text) => DatumRef::Text(text),
        Reply::Bulk(bytes) => DatumRef::Blob(bytes),
        _ => DatumRef::Null,
    }
}

fn bytes_of(reply: &Reply) -> &[u8] {
    match reply {
        Reply::Bulk(bytes) | Reply::Verbatim(_, bytes) => bytes,
        Reply::Status(text) => text.as_bytes(),
        _ => b"?",
    }
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
