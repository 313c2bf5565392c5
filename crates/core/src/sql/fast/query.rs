//! SELECT of groups, aggregates and joined rows, without SQLite: a walk over the rows of one table or two, and what is made
//! of them.

use super::group::{Grouping, Groups};
use super::join::Join;
use super::listing::Listing;
use super::look::Look;
use super::path::{Flow, Path, Visitor};
use super::read::{Reader, Value};
use super::shape::{Item, Items, Shape, Window};
use super::tables::{Demands, Field, Lying, Rows, Tables, join_word};
use crate::engine::{Read, Source};
use crate::reply::{self, Blob, Reply};
use crate::sql::run::{Failure, Host, Outcome, Taken};
use crate::sql::vtab::describe::Step;
use crate::table::catalog::{IndexDef, Method};
use crate::table::datum::DatumRef;
use std::sync::Arc;

/// SELECT of groups, aggregates or joined rows.
pub struct Query {
    names: Arc<Vec<Blob>>,
    input: Input,
    answer: Answer,
    limit: Option<Value>,
    offset: Option<Value>,
    /// Parameters of the statement.
    pub parameters: usize,
}

/// Where rows come from.
enum Input {
    /// One table.
    One(Path),
    /// Two; and of which of them columns are looked at.
    Joined(Box<Join>, [bool; 2]),
}

/// What is made of them.
enum Answer {
    /// A row for each group.
    Groups(Grouping, Shape),
    /// A row for each, of these columns.
    Rows(Vec<Field>),
}

/// Reads the statement.
pub fn compile(host: &mut dyn Host, reader: &mut Reader<'_>, text: &str) -> Option<Query> {
    reader.word("SELECT")?;
    let tables = reader.ahead_of("FROM", |reader| Tables::read(reader, host))?;
    let mut grouping = Grouping::default();
    let items = Items::read(reader, &tables, text, &mut grouping.calls)?;
    reader.word("FROM")?;
    let (demands, left) = read_from(reader, &tables)?;
    if reader.word("GROUP").is_some() {
        reader.word("BY")?;
        loop {
            let field = tables.field(reader)?;
            grouping.columns.push((field, tables.key_column(field)));
            if reader.symbol(",").is_none() {
                break;
            }
        }
    }
    let answer = match grouping.columns.is_empty() && grouping.calls.is_empty() {
        true if tables.0.len() == 1 => return None,
        true => Answer::Rows(items.items.iter().map(Item::field).collect::<Option<_>>()?),
        false => {
            let shape = Shape::read(reader, &tables, &items, &mut grouping)?;
            Answer::Groups(grouping, shape)
        }
    };
    let limit = if reader.word("LIMIT").is_some() { Some(reader.value()?) } else { None };
    let offset = match &limit {
        Some(_) if reader.word("OFFSET").is_some() => Some(reader.value()?),
        _ => None,
    };
    reader.end()?;
    let input = match tables.0.len() {
        1 => Input::One(Path::choose(&tables.0[0].info, &demands.conditions[0])?),
        _ => Input::Joined(Box::new(Join::choose(&tables, &demands, left)?), used(&answer)),
    };
    if is_for_sqlite(&tables, &input, &answer, limit.is_some()) {
        return None;
    }
    Some(Query { names: Arc::new(items.names), input, answer, limit, offset, parameters: reader.parameters })
}

/// `table [JOIN table [ON ..]] [WHERE ..]`; and whether it is a LEFT JOIN.
fn read_from(reader: &mut Reader<'_>, tables: &Tables) -> Option<(Demands, bool)> {
    let mut demands = Demands::default();
    let mut left = false;
    tables.skip(reader, 0)?;
    if tables.0.len() == 2 {
        left = join_word(reader)?;
        tables.skip(reader, 1)?;
        if reader.word("ON").is_some() {
            demands.read(reader, tables)?;
        }
        // What else ON says of a LEFT JOIN decides which rows have partners, not which rows there are.
        if left && demands.conditions.iter().any(|conditions| !conditions.is_empty()) {
            return None;
        }
    }
    let of_on = demands.equal.len();
    if reader.word("WHERE").is_some() {
        demands.read(reader, tables)?;
    }
    (!left || demands.equal.len() == of_on).then_some((demands, left))
}

/// Of which tables does the answer show columns?
fn used(answer: &Answer) -> [bool; 2] {
    let mut used = [false; 2];
    match answer {
        Answer::Rows(fields) => fields.iter().for_each(|field| used[field.side] = true),
        Answer::Groups(grouping, _) => {
            grouping.columns.iter().for_each(|(field, _)| used[field.side] = true);
            grouping.calls.iter().filter_map(|call| call.of.as_ref()).for_each(|(field, _)| used[field.side] = true);
        }
    }
    used
}

/// Has SQLite a better way, or another answer?
fn is_for_sqlite(tables: &Tables, input: &Input, answer: &Answer, limited: bool) -> bool {
    let Answer::Groups(grouping, shape) = answer else { return false };
    // Then the least or greatest row decides which of equal texts is shown.
    let by_row = shape.shows_alike(grouping) && grouping.calls.iter().any(|call| call.function.is_end());
    let scans = matches!(input, Input::One(path) if !path.is_chosen());
    by_row || scans && is_quicker_by_index(tables, grouping, limited && shape.follows_columns())
}

/// May SQLite do with the first entries of an index, where a hash table takes all rows?
fn is_quicker_by_index(tables: &Tables, grouping: &Grouping, limited: bool) -> bool {
    let indexes = || tables.0[0].info.def.indexes.iter().filter(|index| index.method == Method::Ordered);
    let begins_with = |index: &IndexDef, position: u16| index.columns[0].position == position;
    if grouping.columns.is_empty() {
        let [call] = &grouping.calls[..] else { return false };
        let begins = |position: u16| indexes().any(|index| begins_with(index, position));
        return call.of.as_ref().is_some_and(|(of, _)| call.function.is_end() && begins(of.position));
    }
    let begins = |index: &IndexDef| grouping.columns.iter().any(|(field, _)| begins_with(index, field.position));
    (limited || grouping.calls.is_empty()) && indexes().any(begins)
}

/// Puts the rows of one table into groups.
struct Grouper<'g, 'p>(&'g mut Groups<'p>);

impl Visitor for Grouper<'_, '_> {
    #[inline(always)]
    fn row(&mut self, _: &dyn Source, row: Lying<'_>) -> Read<Flow> {
        Ok(self.0.take(&Rows([Some(&row), None])))
    }
}

impl Query {
    /// Runs it. None: SQLite must judge, from the start, also when its slice is over.
    pub fn run(&self, host: &mut dyn Host, params: &[DatumRef<'_>]) -> Outcome<Option<Reply>> {
        self.run_watched(host, params, &mut Look::new(true))
    }

    /// Runs it, and tells when its slice is over: the caller has it go on elsewhere.
    pub fn run_or_move(&self, host: &mut dyn Host, params: &[DatumRef<'_>]) -> Outcome<Option<Reply>> {
        let mut look = Look::new(true);
        let reply = self.run_watched(host, params, &mut look)?;
        if look.slice_over { Err(Failure::SliceOver) } else { Ok(reply) }
    }

    /// Runs it to its end here, and tells what its steps took.
    pub fn run_analysed(
        &self,
        host: &mut dyn Host,
        params: &[DatumRef<'_>],
        taken: &mut Vec<Taken>,
    ) -> Outcome<Option<Reply>> {
        let mut look = Look::new(false);
        let begun_ns = host.monotonic_ns();
        let reply = self.run_watched(host, params, &mut look)?;
        let ns = host.monotonic_ns().saturating_sub(begun_ns);
        taken.push(Taken { loops: 1, visited: look.visited, yielded: look.visited, ns });
        Ok(reply)
    }

    fn run_watched(&self, host: &mut dyn Host, params: &[DatumRef<'_>], look: &mut Look) -> Outcome<Option<Reply>> {
        let result = self.answer(host, params, look);
        look.end(host);
        result
    }

    fn answer(&self, host: &mut dyn Host, params: &[DatumRef<'_>], look: &mut Look) -> Outcome<Option<Reply>> {
        let Some(window) = self.window(params) else { return Ok(None) };
        let (grouping, shape) = match (&self.answer, &self.input) {
            (Answer::Groups(grouping, shape), _) => (grouping, shape),
            (Answer::Rows(fields), Input::Joined(join, used)) => {
                let mut listing = Listing::new(fields, window, &self.names);
                let walked = match window.limit {
                    0 => Some(()),
                    _ => join.walk(host, params, look, *used, &mut listing)?,
                };
                return Ok(walked.map(|()| Reply::Rows(listing.rows)));
            }
            (Answer::Rows(_), Input::One(_)) => return Ok(None),
        };
        let mut groups = Groups::new(grouping);
        let walked = match &self.input {
            Input::One(path) => path.walk(host, params, look, &mut Grouper(&mut groups))?,
            Input::Joined(join, used) => join.walk(host, params, look, *used, &mut groups)?,
        };
        if walked.is_none() {
            return Ok(None);
        }
        let mut rows = reply::Rows::new(&self.names, 0);
        shape.rows(grouping, &groups, params, window, &mut rows)?;
        Ok(Some(Reply::Rows(rows)))
    }

    /// The part of the rows that LIMIT and OFFSET want. None: they are no integers.
    fn window(&self, params: &[DatumRef<'_>]) -> Option<Window> {
        let number = |value: &Option<Value>, none: u64| match value.as_ref().map(|value| value.get(params)) {
            None => Some(none),
            // A negative limit is none, and so is a negative offset, as in SQLite.
            Some(DatumRef::Int(number)) => Some(u64::try_from(number).unwrap_or(none)),
            Some(_) => None,
        };
        Some(Window { limit: number(&self.limit, u64::MAX)?, offset: number(&self.offset, 0)? })
    }

    /// Does it look at a row or two?
    pub fn is_short(&self) -> bool {
        match &self.input {
            Input::One(path) => path.is_single(),
            Input::Joined(join, _) => join.is_short(),
        }
    }

    /// What it does, for EXPLAIN.
    pub fn steps(&self, source: &dyn Source) -> Vec<Step> {
        let mut steps = match &self.input {
            Input::One(path) => vec![path.step(source.row_count(path.info.def.id).unwrap_or(0))],
            Input::Joined(join, _) => join.steps(source),
        };
        if let Answer::Groups(grouping, shape) = &self.answer {
            let one = grouping.columns.is_empty();
            let what = if one { "one group" } else { "groups in a hash table, given in order" };
            let words = format!("{what}{}", shape.words());
            steps.push(Step { path: "hash groups".into(), words, ..Step::default() });
        }
        steps
    }
}
