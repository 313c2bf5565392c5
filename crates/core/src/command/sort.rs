//! SORT and SORT_RO: the elements of a list, set or sorted set, by their own value or by that of other keys.

use super::arguments::{integer, is};
use super::context::Context;
use super::spec::{Find, Flags, Group, Keys, Spec, Use};
use crate::ds::number;
use crate::error::{Error, Result};
use crate::keyspace::entry::ValueRef;
use crate::keyspace::{self, EventClass};
use crate::reply::{Blob, Reply};
use crate::value::list::Side;
use crate::value::{Edit, Hash, List, Value};
use std::cmp::Ordering;

const SORT_USAGE: &str =
    "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] [STORE destination]";
const SORT_RO_USAGE: &str =
    "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]";
const COMPLEXITY: &str = "O(N+M*log(M)) where N is the number of elements and M of those returned";

const CATEGORIES: &[&str] = &["@list", "@set", "@sortedset", "@dangerous"];

/// The key that is sorted, and those that BY and GET make of its elements.
const WITH_PATTERNS: Keys = Keys::one(Use::READ).and(Use::READ, 0, Find::Anywhere(|_| None));

pub(super) const COMMANDS: &[Spec] = &[
    Spec::row(
        Group::Generic,
        "sort",
        sort,
        -2,
        Flags::WRITE.union(Flags::DENYOOM),
        WITH_PATTERNS.and(Use::REPLACE, 0, Find::Anywhere(stored)),
        "1.0.0",
        COMPLEXITY,
        SORT_USAGE,
        "Sorts the elements of a list, set or sorted set.",
    )
    .in_categories(CATEGORIES),
    Spec::row(
        Group::Generic,
        "sort_ro",
        sort_ro,
        -2,
        Flags::READONLY,
        WITH_PATTERNS,
        "7.0.0",
        COMPLEXITY,
        SORT_RO_USAGE,
        "Sorts the elements of a list, set or sorted set, without storing them.",
    )
    .in_categories(CATEGORIES),
];

/// The key that STORE names (the last, if there are several).
fn stored(args: &[&[u8]]) -> Option<usize> {
    let store = (2..args.len().saturating_sub(1)).rev().find(|at| is(args[*at], "STORE"));
    store.map(|at| at + 1)
}

/// The options of SORT.
#[derive(Default)]
struct Options<'a> {
    by: Option<&'a [u8]>,
    get: Vec<&'a [u8]>,
    limit: Option<(i64, i64)>,
    descending: bool,
    alpha: bool,
    store: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(args: &[&'a [u8]], may_store: bool) -> Result<Self> {
        let mut options = Options::default();
        let mut rest = args;
        while let Some((option, after)) = rest.split_first() {
            rest = match after {
                _ if is(option, "ASC") => {
                    options.descending = false;
                    after
                }
                _ if is(option, "DESC") => {
                    options.descending = true;
                    after
                }
                _ if is(option, "ALPHA") => {
                    options.alpha = true;
                    after
                }
                [offset, count, after @ ..] if is(option, "LIMIT") => {
                    options.limit = Some((integer(offset)?, integer(count)?));
                    after
                }
                [destination, after @ ..] if is(option, "STORE") && may_store => {
                    options.store = Some(destination);
                    after
                }
                [pattern, after @ ..] if is(option, "BY") => {
                    options.by = Some(pattern);
                    after
                }
                [pattern, after @ ..] if is(option, "GET") => {
                    options.get.push(pattern);
                    after
                }
                _ => return Err(Error::syntax()),
            };
        }
        Ok(options)
    }

    /// True when the order of the source stays: BY a pattern that does not depend on the element.
    fn unsorted(&self) -> bool {
        self.by.is_some_and(|pattern| !pattern.contains(&b'*'))
    }
}

/// What is to be sorted.
struct Source {
    elements: Vec<Blob>,
    is_set: bool,
}

/// The elements; unsorted, lists and sorted sets come in their own order, backwards for DESC.
fn source(keys: &mut keyspace::Keys<'_>, key: &[u8], descending: bool) -> Result<Source> {
    let mut source = Source { elements: Vec::new(), is_set: false };
    match keys.value(key) {
        None => {}
        Some(ValueRef::Value(Value::List(list))) => {
            source.elements = list.iter().map(Blob::from_slice).collect();
            if descending {
                source.elements.reverse();
            }
        }
        Some(ValueRef::Value(Value::Set(set))) => {
            source.is_set = true;
            source.elements = set.iter().map(|member| Blob::from_slice(&member)).collect();
        }
        Some(ValueRef::Value(Value::ZSet(zset))) => {
            source.elements =
                zset.walk(0..zset.len(), descending).map(|(member, _)| Blob::from_slice(member)).collect();
        }
        Some(_) => return Err(Error::wrong_type()),
    }
    Ok(source)
}

/// The value that a pattern names for an element: `#` itself, `key_*` a string, `key_*->field` a hash's field.
fn look_up(keys: &mut keyspace::Keys<'_>, pattern: &[u8], element: &[u8]) -> Option<Blob> {
    if pattern == b"#" {
        return Some(Blob::from_slice(element));
    }
    let star = pattern.iter().position(|&b| b == b'*')?;
    // The arrow counts only behind the star, and only with a field name after it.
    let arrow = pattern[star..].windows(2).position(|pair| pair == b"->").map(|at| star + at);
    let arrow = arrow.filter(|at| at + 2 < pattern.len());
    let name_end = arrow.unwrap_or(pattern.len());
    let key = [&pattern[..star], element, &pattern[star + 1..name_end]].concat();
    match arrow {
        Some(at) => keys.get::<Hash>(&key).ok()??.get(&pattern[at + 2..]).map(Blob::from_slice),
        None => keys.string(&key).ok()?.map(|bytes| Blob::from_slice(&bytes)),
    }
}

/// What an element is compared by.
enum Weight {
    Number(f64),
    Text(Option<Blob>),
}

fn weight(keys: &mut keyspace::Keys<'_>, options: &Options<'_>, element: &[u8]) -> Result<Weight> {
    let value = match options.by {
        Some(pattern) => look_up(keys, pattern, element),
        None => Some(Blob::from_slice(element)),
    };
    if options.alpha {
        return Ok(Weight::Text(value));
    }
    let Some(value) = value else { return Ok(Weight::Number(0.0)) };
    let number = number::parse_weight(&value);
    number.map(Weight::Number).ok_or_else(|| Error::err("One or more scores can't be converted into double"))
}

fn compare(a: &Weight, b: &Weight) -> Ordering {
    match (a, b) {
        (Weight::Number(a), Weight::Number(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
        (Weight::Text(a), Weight::Text(b)) => a.cmp(b),
        _ => Ordering::Equal,
    }
}

fn sorted(keys: &mut keyspace::Keys<'_>, key: &[u8], options: &Options<'_>) -> Result<Vec<Blob>> {
    let source = source(keys, key, options.descending && options.unsorted())?;
    let is_set = source.is_set;
    let mut elements = source.elements;
    // A set that is not sorted would come in any order; where it matters (STORE, scripts) Redis sorts it by text.
    let by_text = options.unsorted() && is_set && options.store.is_some();
    if by_text {
        elements.sort();
    } else if !options.unsorted() {
        let mut weighted = Vec::with_capacity(elements.len());
        for element in elements {
            weighted.push((weight(keys, options, &element)?, element));
        }
        weighted.sort_by(|(a, x), (b, y)| {
            // Equal weights are ordered by the elements themselves, so that the result does not depend on the source.
            let order = compare(a, b).then_with(|| x.cmp(y));
            if options.descending { order.reverse() } else { order }
        });
        elements = weighted.into_iter().map(|(_, element)| element).collect();
    }
    Ok(limited(elements, options.limit))
}

fn limited(elements: Vec<Blob>, limit: Option<(i64, i64)>) -> Vec<Blob> {
    let Some((offset, count)) = limit else { return elements };
    let start = (offset.max(0) as usize).min(elements.len());
    let count = if count < 0 { elements.len() } else { count as usize };
    elements.into_iter().skip(start).take(count).collect()
}

fn run(ctx: &mut Context<'_>, args: &[&[u8]], may_store: bool) -> Result<Reply> {
    let options = Options::parse(&args[2..], may_store)?;
    let mut keys = ctx.keys();
    let elements = sorted(&mut keys, args[1], &options)?;
    let mut output: Vec<Option<Blob>> = Vec::new();
    for element in elements {
        if options.get.is_empty() {
            output.push(Some(element));
            continue;
        }
        for pattern in &options.get {
            output.push(look_up(&mut keys, pattern, &element));
        }
    }
    match options.store {
        None => Ok(Reply::Array(output.into_iter().map(|value| value.map_or(Reply::Nil, Reply::Bulk)).collect())),
        Some(destination) => Ok(store(ctx, destination, output)),
    }
}

/// Stores the result as a list; what GET did not find becomes an empty element.
fn store(ctx: &mut Context<'_>, destination: &[u8], output: Vec<Option<Blob>>) -> Reply {
    let thresholds = ctx.state.keyspace.shared.thresholds.clone();
    let mut keys = ctx.keys();
    let size = output.len();
    if size > 0 {
        let output: Vec<Blob> = output.into_iter().map(Option::unwrap_or_default).collect();
        let slices: Vec<&[u8]> = output.iter().map(|blob| &blob[..]).collect();
        let mut list = List::new();
        list.push(Side::Back, &slices, &mut Edit::silent(&thresholds));
        keys.put(destination, Value::List(Box::new(list)), None);
        keys.notify(EventClass::LIST, "sortstore", destination);
    } else if keys.remove(destination) {
        keys.notify(EventClass::GENERIC, "del", destination);
    }
    Reply::Int(size as i64)
}

fn sort(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    run(ctx, args, true)
}

fn sort_ro(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    run(ctx, args, false)
}
