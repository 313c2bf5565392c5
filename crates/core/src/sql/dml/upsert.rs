//! Upserts: what becomes of a row that cannot be inserted since another one has its key.

use super::part::{Builder, Hand, Part};
use super::split::{Form, SetClause, Span, UpsertClause};
use super::text::Script;
use crate::error::Result;
use crate::sql::error::sql;
use crate::sql::fast::upsert::Planned;
use crate::sql::run::{Host, Outcome, Run};
use crate::sql::schema;
use crate::sql::table_info::TableInfo;
use crate::sql::token::Tokens;
use crate::sql::write::{self, OnConflict, Set};
use crate::table::catalog::{IndexDef, IndexId, TableId};
use crate::table::datum::{Datum, DatumRef};
use crate::table::row::Row;
use crate::table::row_id::RowId;
use smallvec::SmallVec;
use std::sync::Arc;

/// The compiled clauses of an upsert, in their order.
pub struct Upsert {
    table: TableId,
    clauses: Vec<Clause>,
}

struct Clause {
    /// The unique indexes that it is about.
    indexes: Vec<IndexId>,
    /// What to do; None leaves the row out.
    update: Option<Update>,
}

struct Update {
    /// The columns that are set, in the order of the expressions.
    columns: Vec<usize>,
    /// The values, and whether to update at all if there is a condition.
    part: Part,
    has_condition: bool,
}

/// An upsert that runs.
pub enum Upserting<'a> {
    /// Clauses whose expressions SQLite evaluates, and the statement's parameters.
    Compiled(&'a mut Upsert, &'a [DatumRef<'a>]),
    /// One that needs no SQLite.
    Planned(Planned<'a>),
}

/// Compiles the clauses.
pub fn compile(host: &mut dyn Host, script: &Script<'_>, info: &Arc<TableInfo>, form: &Form) -> Result<Upsert> {
    let clause = |clause: &UpsertClause| {
        let indexes = indexes_of(script, info, clause)?;
        let update = clause.update.as_ref().map(|set| update(host, script, info, form, set)).transpose()?;
        Ok(Clause { indexes, update })
    };
    Ok(Upsert { table: info.def.id, clauses: form.upserts.iter().map(clause).collect::<Result<_>>()? })
}

/// The unique indexes that a clause is about: all, or those on just the columns of its target.
fn indexes_of(script: &Script<'_>, info: &TableInfo, clause: &UpsertClause) -> Result<Vec<IndexId>> {
    let unique = info.def.indexes.iter().filter(|index| index.unique);
    let Some(target) = &clause.target else { return Ok(unique.map(|index| index.id).collect()) };
    let items = script.list(target.clone());
    let positions: Vec<u16> = items.iter().map(|item| position_of(script, info, item)).collect::<Result<_>>()?;
    let fits = |index: &&IndexDef| {
        index.columns.len() == positions.len()
            && index.columns.iter().all(|column| positions.contains(&column.position))
            && positions.iter().all(|position| index.columns.iter().any(|column| column.position == *position))
            && is_implied(script, info, index, clause.target_where.as_ref())
    };
    let found: Vec<IndexId> = unique.filter(fits).map(|index| index.id).collect();
    if found.is_empty() {
        return Err(sql("ON CONFLICT clause does not match any PRIMARY KEY or UNIQUE constraint"));
    }
    Ok(found)
}

/// The position of a target's column, or of the hidden column that an expression index has.
fn position_of(script: &Script<'_>, info: &TableInfo, item: &Span) -> Result<u16> {
    let mut end = item.end;
    while end > item.start + 1 {
        match () {
            () if script.is_word(end - 1, "ASC") || script.is_word(end - 1, "DESC") => end -= 1,
            () if end > item.start + 2 && script.is_word(end - 2, "COLLATE") => end -= 2,
            () => break,
        }
    }
    let text = script.slice(item.start..end);
    let name = script.token(item.start).filter(|_| end == item.start + 1).and_then(|token| token.name());
    if let Some(name) = name {
        let column = info.def.column(&name).filter(|(_, column)| !column.hidden);
        return match column {
            Some((_, column)) => Ok(column.position),
            None => Err(sql(format!("table {} has no column named {name}", info.def.name))),
        };
    }
    let made = info.def.columns.iter().find(|c| c.hidden && c.generated.as_ref().is_some_and(|g| is_same(g, text)));
    let missing = || sql(format!("ON CONFLICT ({text}) does not match any PRIMARY KEY or UNIQUE constraint"));
    made.map(|column| column.position).ok_or_else(missing)
}

/// A partial index is meant only if the target repeats its condition.
fn is_implied(script: &Script<'_>, info: &TableInfo, index: &IndexDef, condition: Option<&Span>) -> bool {
    if index.filter.is_none() {
        return true;
    }
    let wanted = schema::filter_of(&info.def, index);
    let given = condition.map(|span| script.slice(span.clone()));
    wanted.zip(given).is_some_and(|(wanted, given)| is_same(wanted, given))
}

/// Are two texts the same, token for token?
fn is_same(one: &str, other: &str) -> bool {
    let plain = |text: &str| {
        let mut tokens = Tokens::all(text).ok()?;
        while tokens.first().is_some_and(|t| t.is_symbol("(")) && tokens.last().is_some_and(|t| t.is_symbol(")")) {
            tokens.remove(0);
            tokens.pop();
        }
        Some(tokens.iter().map(|t| t.text.to_ascii_lowercase()).collect::<Vec<_>>())
    };
    plain(one).is_some_and(|one| Some(one) == plain(other))
}

/// SET: `column = expression`, `(a, b) = (expression, expression)`, `(a, b) = (SELECT ..)`; then the condition.
fn update(
    host: &mut dyn Host,
    script: &Script<'_>,
    info: &Arc<TableInfo>,
    form: &Form,
    set: &SetClause,
) -> Result<Update> {
    let target = form.table.clone().unwrap_or_default();
    let mut builder = Builder::new(script, info, &target, Some(&form.proposed));
    let mut columns = Vec::new();
    for item in &set.items {
        let several = script.is_symbol(item.start, "(");
        // The columns, and the place of the equals sign.
        let (names, equals) = if several {
            let close = script.close(item.start).unwrap_or(item.end);
            (script.list(item.start + 1..close), close + 1)
        } else {
            let from = if script.is_symbol(item.start + 1, ".") { item.start + 2 } else { item.start };
            (script.list(from..from + 1), from + 1)
        };
        if !script.is_symbol(equals, "=") || equals + 1 >= item.end {
            let place = script.position(equals);
            return Err(sql(format!("syntax error at position {place}: expected column = expression in an upsert")));
        }
        let values = equals + 1..item.end;
        for name in &names {
            let name = script.token(name.start).and_then(|t| t.name()).unwrap_or_default();
            let column = info.column(&name)?;
            if info.def.columns[column].generated.is_some() {
                return Err(sql(format!("cannot UPDATE generated column \"{name}\"")));
            }
            columns.push(column);
        }
        values_of(&mut builder, script, values, names.len(), several, columns.len() == names.len())?;
    }
    if let Some(condition) = &set.condition {
        builder.push(", CASE WHEN (");
        builder.expression(condition.clone());
        builder.push(") THEN 1 END");
    }
    let part = builder.compile(host)?;
    Ok(Update { columns, part, has_condition: set.condition.is_some() })
}

/// Appends the expressions that one assignment gives to its columns.
fn values_of(
    builder: &mut Builder<'_, '_>,
    script: &Script<'_>,
    values: Span,
    count: usize,
    several: bool,
    first: bool,
) -> Result<()> {
    let comma = |i: usize| if first && i == 0 { "" } else { ", " };
    if !several {
        builder.push(comma(0));
        builder.expression(values);
        return Ok(());
    }
    let inner = values.start + 1..values.end.saturating_sub(1);
    if ["SELECT", "WITH", "VALUES"].iter().any(|word| script.is_word(inner.start, word)) {
        let names: Vec<String> = (0..count).map(|i| format!("c{i}")).collect();
        for i in 0..count {
            builder.push(&format!("{}(WITH \"upsert row\"({}) AS (", comma(i), names.join(", ")));
            builder.expression(inner.clone());
            builder.push(&format!(") SELECT c{i} FROM \"upsert row\")"));
        }
        return Ok(());
    }
    let items = if inner.start < inner.end { script.list(inner) } else { Vec::new() };
    if items.len() != count {
        return Err(sql(format!("{count} columns assigned {} values", items.len())));
    }
    for (i, item) in items.into_iter().enumerate() {
        builder.push(comma(i));
        builder.expression(item);
    }
    Ok(())
}

/// Does what the clauses say about a row that was not inserted, since another one has its key in an index. False: none
/// of them is about that.
#[cold]
pub fn resolve(run: &mut Run<'_>, info: &TableInfo, proposed: Row<'_>, conflict: (IndexId, RowId)) -> Outcome<bool> {
    // While the row is updated there is no upsert: a conflict of the update is an error.
    let Some(mut upserting) = run.upserting.take() else { return Ok(false) };
    let result = match &mut upserting {
        Upserting::Compiled(upsert, params) => resolve_with(run, info, proposed, upsert, params),
        Upserting::Planned(planned) => planned.resolve(run, info, proposed, conflict),
    };
    run.upserting = Some(upserting);
    result
}

fn resolve_with(
    run: &mut Run<'_>,
    info: &TableInfo,
    proposed: Row<'_>,
    upsert: &mut Upsert,
    params: &[DatumRef<'_>],
) -> Outcome<bool> {
    if upsert.table != info.def.id {
        return Ok(false);
    }
    for clause in &mut upsert.clauses {
        let Some((id, existing)) = find(run, info, &clause.indexes, proposed)? else { continue };
        if let Some(update) = &mut clause.update {
            apply(run, info, update, params, (id, Row::new(&existing, &info.layout)), proposed)?;
        }
        return Ok(true);
    }
    Ok(false)
}

/// The row that has the proposed row's key in one of the indexes.
fn find(
    run: &mut Run<'_>,
    info: &TableInfo,
    indexes: &[IndexId],
    proposed: Row<'_>,
) -> Outcome<Option<(RowId, Vec<u8>)>> {
    for index in indexes {
        let Some(index) = info.def.index(*index) else { continue };
        let found = write::find_row(run, info, index, proposed)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn apply(
    run: &mut Run<'_>,
    info: &TableInfo,
    update: &mut Update,
    params: &[DatumRef<'_>],
    (id, existing): (RowId, Row<'_>),
    proposed: Row<'_>,
) -> Outcome<()> {
    let count = update.columns.len();
    let has_condition = update.has_condition;
    let hand = Hand { row: existing, id: Some(id) };
    let values = update.part.evaluate(&mut *run.host, params, hand, Some(proposed), |prepared| {
        let holds = !has_condition || !prepared.column(count).is_null();
        let values = (0..count).map(|i| prepared.column(i).to_owned());
        Ok(holds.then(|| values.collect::<SmallVec<[Datum; 8]>>()))
    })?;
    let Some(values) = values else { return Ok(()) };
    let values = update.columns.iter().zip(&values);
    let mut sets: SmallVec<[Set<'_>; 8]> = values.map(|(column, value)| (*column, value.as_ref())).collect();
    sets.sort_by_key(|(column, _)| *column);
    write::update(run, info, id, &sets, OnConflict::Abort).map(|_| ())
}
