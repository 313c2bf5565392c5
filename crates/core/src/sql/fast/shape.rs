//! The shape of an answer made of groups: what is shown of each, which are left out by HAVING, their order, and the
//! words in which a query says so.

use super::accumulator::{Call, Function};
use super::filter::order;
use super::group::{Grouping, Groups};
use super::read::{Reader, Value};
use super::tables::{Field, Tables};
use crate::reply::{self, Blob, Reply};
use crate::sql::executor;
use crate::sql::run::Outcome;
use crate::sql::vtab::plan::Op;
use crate::table::catalog::IndexColumn;
use crate::table::datum::{Datum, DatumRef};
use crate::table::types::{Collation, Storage};
use std::cmp::Ordering;

/// What stands between SELECT and FROM.
pub enum Item {
    /// A column.
    Field(Field),
    /// An aggregate, by its place among the calls.
    Call(usize),
}

impl Item {
    /// The column that it is.
    pub fn field(&self) -> Option<Field> {
        if let Item::Field(field) = self { Some(*field) } else { None }
    }
}

/// The list of a SELECT.
#[derive(Default)]
pub struct Items {
    /// What is selected.
    pub items: Vec<Item>,
    /// The names of the answer's columns.
    pub names: Vec<Blob>,
    /// The names that the query gives.
    aliases: Vec<Option<String>>,
}

/// One value of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shown {
    /// A column that is grouped by.
    Column(usize),
    /// An aggregate.
    Call(usize),
}

/// How groups become rows.
#[derive(Default)]
pub struct Shape {
    shown: Vec<Shown>,
    having: Vec<(usize, Op, Value)>,
    order: Vec<(Shown, bool)>,
}

/// The part of the rows that is wanted.
#[derive(Clone, Copy)]
pub struct Window {
    /// Rows left out at first.
    pub offset: u64,
    /// Rows at most.
    pub limit: u64,
}

impl Items {
    /// Reads `item [[AS] name], ...`
    pub fn read(reader: &mut Reader<'_>, tables: &Tables, text: &str, calls: &mut Vec<Call>) -> Option<Items> {
        let mut items = Items::default();
        if reader.symbol("*").is_some() {
            tables.all().for_each(|field| items.add_field(tables, field, None));
            return Some(items);
        }
        loop {
            let start = reader.place();
            if let Some(call) = reader.attempt(|reader| read_call(reader, tables)) {
                let shown = &text[start..reader.end_before()];
                let alias = read_alias(reader)?;
                items.names.push(Blob::from_slice(alias.as_deref().unwrap_or(shown).as_bytes()));
                items.aliases.push(alias);
                items.items.push(Item::Call(place_of(call, calls)));
            } else {
                let field = tables.field(reader)?;
                let alias = read_alias(reader)?;
                items.add_field(tables, field, alias);
            }
            if reader.symbol(",").is_none() {
                return Some(items);
            }
        }
    }

    fn add_field(&mut self, tables: &Tables, field: Field, alias: Option<String>) {
        let name = alias.as_deref().unwrap_or(&tables.column(field).name);
        self.names.push(Blob::from_slice(name.as_bytes()));
        self.aliases.push(alias);
        self.items.push(Item::Field(field));
    }

    /// The item that has this name.
    fn named(&self, name: &str) -> Option<usize> {
        self.aliases.iter().position(|alias| alias.as_ref().is_some_and(|alias| alias.eq_ignore_ascii_case(name)))
    }
}

/// `[[AS] name]`; None when AS is followed by something else.
fn read_alias(reader: &mut Reader<'_>) -> Option<Option<String>> {
    if reader.word("AS").is_some() {
        return reader.name().map(|name| Some(name.into_owned()));
    }
    Some(reader.name().map(std::borrow::Cow::into_owned))
}

fn place_of(call: Call, calls: &mut Vec<Call>) -> usize {
    calls.iter().position(|other| *other == call).unwrap_or_else(|| {
        calls.push(call);
        calls.len() - 1
    })
}

const FUNCTIONS: [(&str, Function); 6] = [
    ("COUNT", Function::Count),
    ("SUM", Function::Sum),
    ("TOTAL", Function::Total),
    ("AVG", Function::Average),
    ("MIN", Function::Min),
    ("MAX", Function::Max),
];

/// `function(column)` or `count(*)`. What SQLite would first make numbers of is left to it.
fn read_call(reader: &mut Reader<'_>, tables: &Tables) -> Option<Call> {
    let (_, function) = FUNCTIONS.iter().find(|(word, _)| reader.word(word).is_some())?;
    reader.symbol("(")?;
    let call = if *function == Function::Count && reader.symbol("*").is_some() {
        Call { function: Function::Rows, of: None }
    } else {
        let field = tables.field(reader)?;
        let is_number = matches!(tables.storage(field), Storage::Int | Storage::Real);
        if matches!(function, Function::Sum | Function::Total | Function::Average) && !is_number {
            return None;
        }
        Call { function: *function, of: Some((field, tables.key_column(field))) }
    };
    reader.symbol(")")?;
    Some(call)
}

impl Shape {
    /// Reads `[HAVING ..] [ORDER BY ..]`, and puts the items into terms of groups.
    pub fn read(reader: &mut Reader<'_>, tables: &Tables, items: &Items, grouping: &mut Grouping) -> Option<Shape> {
        let mut shape = Shape::default();
        for item in &items.items {
            shape.shown.push(match item {
                Item::Field(field) => Shown::Column(grouping.columns.iter().position(|(of, _)| of == field)?),
                Item::Call(call) => Shown::Call(*call),
            });
        }
        if reader.word("HAVING").is_some() {
            loop {
                shape.read_having(reader, tables, items, grouping)?;
                if reader.word("AND").is_none() {
                    break;
                }
            }
        }
        if reader.word("ORDER").is_some() {
            reader.word("BY")?;
            loop {
                let shown = shape.read_order(reader, tables, items, grouping)?;
                let desc = reader.word("DESC").is_some();
                let _ = if desc { None } else { reader.word("ASC") };
                shape.order.push((shown, desc));
                if reader.symbol(",").is_none() {
                    break;
                }
            }
        }
        Some(shape)
    }

    /// `aggregate op value`
    fn read_having(
        &mut self,
        reader: &mut Reader<'_>,
        tables: &Tables,
        items: &Items,
        grouping: &mut Grouping,
    ) -> Option<()> {
        // A condition without groups is for SQLite to judge.
        grouping.columns.first()?;
        let call = match reader.attempt(|reader| read_call(reader, tables)) {
            Some(call) => place_of(call, &mut grouping.calls),
            None => {
                let name = reader.name()?;
                // A column goes before a name that the query gives.
                let is_column = tables.0.iter().any(|named| named.info.def.column(&name).is_some());
                match self.shown[items.named(&name).filter(|_| !is_column)?] {
                    Shown::Call(call) => call,
                    Shown::Column(_) => return None,
                }
            }
        };
        let op = reader.comparison()?;
        self.having.push((call, op, reader.value()?));
        Some(())
    }

    /// A name that the query gives, the number of an item, an aggregate, or a column that is grouped by.
    fn read_order(
        &mut self,
        reader: &mut Reader<'_>,
        tables: &Tables,
        items: &Items,
        grouping: &mut Grouping,
    ) -> Option<Shown> {
        if let Some(call) = reader.attempt(|reader| read_call(reader, tables)) {
            return Some(Shown::Call(place_of(call, &mut grouping.calls)));
        }
        let named = reader.attempt(|reader| {
            let name = reader.name()?;
            items.named(&name).filter(|_| !reader.is_symbol("."))
        });
        if let Some(item) = named {
            return Some(self.shown[item]);
        }
        if let Some(value) = reader.value() {
            let Value::Literal(Datum::Int(number)) = value else { return None };
            return self.shown.get(usize::try_from(number).ok()?.checked_sub(1)?).copied();
        }
        let field = tables.field(reader)?;
        grouping.columns.iter().position(|(of, _)| *of == field).map(Shown::Column)
    }

    /// Is a column shown whose values in one group may differ, as they are only equal by its collation?
    pub fn shows_alike(&self, grouping: &Grouping) -> bool {
        let differs = |column: usize| grouping.columns[column].1.collation != Collation::Binary;
        self.shown.iter().any(|shown| matches!(shown, Shown::Column(column) if differs(*column)))
    }

    /// Do the groups come in the order of their columns, so that LIMIT needs the first ones only?
    pub fn follows_columns(&self) -> bool {
        self.order.iter().all(|(shown, _)| matches!(shown, Shown::Column(_)))
    }

    /// Is nothing to be sorted once the groups are in the order of their columns?
    fn is_sorted(&self) -> bool {
        self.order.iter().enumerate().all(|(i, (shown, desc))| *shown == Shown::Column(i) && !desc)
    }

    /// The rows of an answer, behind those that `rows` holds already. None: only SQLite can judge.
    pub fn rows(
        &self,
        grouping: &Grouping,
        groups: &Groups<'_>,
        params: &[DatumRef<'_>],
        window: Window,
        rows: &mut reply::Rows,
    ) -> Outcome<()> {
        let mut order = groups.sorted();
        order.retain(|group| self.having.iter().all(|having| passes(having, groups, *group, params)));
        if !self.is_sorted() {
            self.sort(grouping, groups, &mut order);
        }
        let offset = usize::try_from(window.offset).unwrap_or(usize::MAX);
        let limit = usize::try_from(window.limit).unwrap_or(usize::MAX);
        let mut bytes = 0;
        for group in order.into_iter().skip(offset).take(limit) {
            rows.push(self.shown.iter().map(|shown| {
                let value = match shown {
                    Shown::Column(column) => groups.column(group, *column).clone(),
                    Shown::Call(call) => groups.value(group, *call),
                };
                bytes += size_of::<Reply>() + value.as_ref().bytes_len();
                executor::reply(value.as_ref())
            }));
            executor::check_result_size(bytes)?;
        }
        Ok(())
    }

    fn sort(&self, grouping: &Grouping, groups: &Groups<'_>, order_of: &mut Vec<u32>) {
        let value = |group: u32, shown: Shown| match shown {
            Shown::Column(column) => groups.column(group, column).clone(),
            Shown::Call(call) => groups.value(group, call),
        };
        let column = |shown: Shown| match shown {
            Shown::Column(column) => grouping.columns[column].1,
            // An aggregate has no collation of its own.
            Shown::Call(_) => IndexColumn { position: 0, desc: false, collation: Collation::Binary },
        };
        let columns: Vec<IndexColumn> = self.order.iter().map(|(shown, _)| column(*shown)).collect();
        let values = |group: u32| self.order.iter().map(|(shown, _)| value(group, *shown)).collect::<Vec<_>>();
        let mut sorted: Vec<(Vec<Datum>, u32)> = order_of.iter().map(|group| (values(*group), *group)).collect();
        sorted.sort_by(|(a, _), (b, _)| {
            let orders = a.iter().zip(b).zip(&columns).zip(&self.order);
            let mut orders = orders.map(|(((a, b), column), (_, desc))| {
                let order = order(a.as_ref(), b.as_ref(), column);
                if *desc { order.reverse() } else { order }
            });
            orders.find(|order| *order != Ordering::Equal).unwrap_or(Ordering::Equal)
        });
        order_of.clear();
        order_of.extend(sorted.into_iter().map(|(_, group)| group));
    }

    /// What is done after the groups are there, for EXPLAIN.
    pub fn words(&self) -> String {
        let having = if self.having.is_empty() { "" } else { ", filtered by HAVING" };
        let order = if self.is_sorted() { "" } else { ", sorted for ORDER BY" };
        format!("{having}{order}")
    }
}

fn passes((call, op, value): &(usize, Op, Value), groups: &Groups<'_>, group: u32, params: &[DatumRef<'_>]) -> bool {
    let (own, value) = (groups.value(group, *call), value.get(params));
    if own.as_ref().is_null() || value.is_null() {
        return false;
    }
    let order = own.as_ref().order(value);
    match op {
        Op::Equal => order == Ordering::Equal,
        Op::Less => order == Ordering::Less,
        Op::LessOrEqual => order != Ordering::Greater,
        Op::Greater => order == Ordering::Greater,
        _ => order != Ordering::Less,
    }
}
