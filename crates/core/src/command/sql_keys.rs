//! The keyspace for SQL: rows of values, rows of keys, values made of rows.

use super::context::Context;
use crate::ds::number;
use crate::error::{Code, Error, Result};
use crate::keyspace::EventClass;
use crate::keyspace::entry::EntryRef;
use crate::limits;
use crate::sql::{Portion, Shape, source};
use crate::table::datum::{Datum, DatumRef};
use crate::value::list::Side;
use crate::value::zset::range::{ScoreBound, ScoreRange};
use crate::value::{Edit, Hash, List, Set, Value, ZSet};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

type Each<'a> = &'a mut dyn FnMut(&[Datum]);

/// Rows of the value at a key.
pub fn read(ctx: &mut Context<'_>, key: &[u8], shape: Shape, portion: Portion<'_>, each: Each<'_>) -> Result<()> {
    let mut keys = ctx.keys();
    match shape {
        Shape::String => keys.string(key)?.iter().for_each(|value| each(&[source::datum(value)])),
        Shape::Hash => {
            if let Some(hash) = keys.get::<Hash>(key)? {
                read_hash(hash, portion, each);
            }
        }
        Shape::List => {
            if let Some(list) = keys.get::<List>(key)? {
                read_list(list, portion, each);
            }
        }
        Shape::Set => {
            if let Some(set) = keys.get::<Set>(key)? {
                read_set(set, portion, each);
            }
        }
        Shape::ZSet => {
            if let Some(zset) = keys.get::<ZSet>(key)? {
                read_zset(zset, portion, each);
            }
        }
    }
    Ok(())
}

fn read_hash(hash: &Hash, portion: Portion<'_>, each: Each<'_>) {
    let mut row = |field: &[u8], value: &[u8]| each(&[source::datum(field), source::datum(value)]);
    match portion {
        Portion::Named(field) => hash.get(field).into_iter().for_each(|value| row(field, value)),
        _ => hash.iter().for_each(|(field, value)| row(field, value)),
    }
}

fn read_list(list: &List, portion: Portion<'_>, each: Each<'_>) {
    let mut row = |position: i64, value: &[u8]| each(&[Datum::Int(position), source::datum(value)]);
    match portion {
        // From the end a list counts down; its rows have positions from 0 on only.
        Portion::At(position) if position < 0 => {}
        Portion::At(position) => list.get(position).into_iter().for_each(|value| row(position, value)),
        _ => list.iter().enumerate().for_each(|(i, value)| row(i as i64, value)),
    }
}

fn read_set(set: &Set, portion: Portion<'_>, each: Each<'_>) {
    match portion {
        Portion::Named(member) if !set.contains(member) => {}
        Portion::Named(member) => each(&[source::datum(member)]),
        _ => set.iter().for_each(|member| each(&[source::datum(&member)])),
    }
}

fn read_zset(zset: &ZSet, portion: Portion<'_>, each: Each<'_>) {
    let mut row = |member: &[u8], score: f64, rank: usize| {
        each(&[source::datum(member), Datum::Real(score), Datum::Int(rank as i64)]);
    };
    match portion {
        Portion::Named(member) => {
            zset.rank(member, false).into_iter().for_each(|(rank, score)| row(member, score, rank));
        }
        Portion::Ranks(ranks, reverse) => {
            let ranks = ranks.start.min(zset.len())..ranks.end.min(zset.len());
            let rank = |i: usize| if reverse { ranks.end - 1 - i } else { ranks.start + i };
            let members = zset.walk(ranks.clone(), reverse).enumerate();
            members.for_each(|(i, (member, score))| row(member, score, rank(i)));
        }
        _ => zset.iter().enumerate().for_each(|(rank, (member, score))| row(member, score, rank)),
    }
}

/// The ranks of the members of a sorted set whose scores are in a range.
pub fn ranks(ctx: &mut Context<'_>, key: &[u8], low: Option<f64>, high: Option<f64>) -> Result<Range<usize>> {
    let bound = |score: f64| ScoreBound { score, exclusive: false };
    let (min, max) = (bound(low.unwrap_or(f64::NEG_INFINITY)), bound(high.unwrap_or(f64::INFINITY)));
    let mut keys = ctx.keys();
    let zset = keys.get::<ZSet>(key)?;
    let ranks = zset.map_or(0..0, |zset| zset.ranks_by_score(&ScoreRange { min, max }));
    Ok(ranks.start.min(ranks.end)..ranks.end)
}

/// The row of a key in the table `keys`.
pub fn find(ctx: &mut Context<'_>, key: &[u8], each: Each<'_>) {
    if let Some(kind) = ctx.keys().kind(key) {
        each(&key_row(ctx, key, kind, true));
    }
}

/// A batch of rows of the table `keys`, and the next cursor.
pub fn scan(ctx: &mut Context<'_>, cursor: u64, prefix: &[u8], bytes: bool, each: Each<'_>) -> u64 {
    let mut found: Vec<(Vec<u8>, &'static str)> = Vec::new();
    let next = ctx.keys().scan(cursor, limits::SQL_KEYS_BATCH, |key, kind| {
        if key.starts_with(prefix) {
            found.push((key.to_vec(), kind));
        }
    });
    for (key, kind) in found {
        each(&key_row(ctx, &key, kind, bytes));
    }
    next
}

fn key_row(ctx: &mut Context<'_>, key: &[u8], kind: &'static str, bytes: bool) -> [Datum; 5] {
    let now_ms = ctx.state.clock.now_ms;
    let mut keys = ctx.keys();
    let ttl = keys.look(key).and_then(EntryRef::expire_at).map_or(Datum::Null, |at| Datum::Int(at - now_ms));
    let bytes = if bytes { keys.memory(key) } else { None };
    let encoding = keys.look(key).map(EntryRef::encoding).map_or(Datum::Null, Datum::text);
    [source::datum(key), Datum::text(kind), ttl, bytes.map_or(Datum::Null, |n| Datum::Int(n as i64)), encoding]
}

/// Makes a key hold a value of these elements; an empty one is no key.
pub fn store(ctx: &mut Context<'_>, key: &[u8], shape: Shape, elements: &[Vec<Datum>]) -> Result<usize> {
    ctx.state.journal.check_write()?;
    let thresholds = ctx.state.keyspace.shared.thresholds.clone();
    let columns = if matches!(shape, Shape::Hash | Shape::ZSet) { 2 } else { 1 };
    let mut texts: Vec<Cow<'_, [u8]>> = Vec::with_capacity(elements.len() * columns);
    for (i, element) in elements.iter().enumerate() {
        for value in element {
            texts.push(text_of(value).ok_or_else(|| null_in_row(i))?);
        }
    }
    let slices: Vec<&[u8]> = texts.iter().map(AsRef::as_ref).collect();
    let (value, count, class, event) = match shape {
        Shape::Hash => {
            let mut hash = Hash::new();
            hash.set(&slices, &mut Edit::silent(&thresholds));
            let count = hash.len();
            (Value::Hash(Box::new(hash)), count, EventClass::HASH, "hset")
        }
        Shape::Set => {
            let mut set = Set::new();
            set.add(&slices, &mut Edit::silent(&thresholds));
            let count = set.len();
            (Value::Set(Box::new(set)), count, EventClass::SET, "sadd")
        }
        Shape::ZSet => {
            let members = scores(elements, &slices)?;
            let zset = ZSet::of(members.into_iter(), &thresholds);
            let count = zset.len();
            (Value::ZSet(Box::new(zset)), count, EventClass::ZSET, "zadd")
        }
        Shape::List => {
            let mut list = List::new();
            list.push(Side::Back, &slices, &mut Edit::silent(&thresholds));
            let count = list.len();
            (Value::List(Box::new(list)), count, EventClass::LIST, "rpush")
        }
        Shape::String => return Err(Error::new(Code::Bug, "sql_keys.rs: rows stored into a string")),
    };
    let mut keys = ctx.keys();
    if count > 0 {
        keys.put(key, value, None);
        keys.notify(class, event, key);
    } else if keys.remove(key) {
        keys.notify(EventClass::GENERIC, "del", key);
    }
    Ok(count)
}

/// Members with the scores of the last rows that name them.
fn scores<'a>(elements: &[Vec<Datum>], slices: &[&'a [u8]]) -> Result<Vec<(&'a [u8], f64)>> {
    let mut places: HashMap<&[u8], usize> = HashMap::with_capacity(elements.len());
    let mut members: Vec<(&[u8], f64)> = Vec::with_capacity(elements.len());
    for (i, pair) in slices.chunks_exact(2).enumerate() {
        let score = match &elements[i][1] {
            Datum::Int(score) => Some(*score as f64),
            Datum::Real(score) => Some(*score),
            _ => number::parse_f64(pair[1]).filter(|score| !score.is_nan()),
        };
        let text = || format!("row {}: a score is a number, not {}", i + 1, String::from_utf8_lossy(pair[1]));
        let score = score.ok_or_else(|| Error::new(Code::Sql, text()))?;
        match places.get(pair[0]) {
            Some(place) => members[*place].1 = score,
            None => {
                places.insert(pair[0], members.len());
                members.push((pair[0], score));
            }
        }
    }
    Ok(members)
}

/// A value as the bytes that a key keeps; None for NULL.
fn text_of(value: &Datum) -> Option<Cow<'_, [u8]>> {
    Some(match value.as_ref() {
        DatumRef::Null => return None,
        DatumRef::Int(i) => Cow::Owned(i.to_string().into_bytes()),
        DatumRef::Real(r) => Cow::Owned(number::shortest_text(r).to_vec()),
        DatumRef::Text(bytes) | DatumRef::Blob(bytes) => Cow::Borrowed(bytes),
    })
}

#[cold]
fn null_in_row(row: usize) -> Error {
    Error::new(
        Code::Sql,
        format!("row {}: a key holds no NULL: leave such rows out with WHERE, or use coalesce()", row + 1),
    )
}

/// Deletes keys and tells how many there were.
pub fn delete(ctx: &mut Context<'_>, keys: &[Vec<u8>]) -> u64 {
    let mut space = ctx.keys();
    let mut removed = 0;
    for key in keys {
        if space.remove(key) {
            space.notify(EventClass::GENERIC, "del", key);
            removed += 1;
        }
    }
    removed
}
