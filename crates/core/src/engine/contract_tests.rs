//! The storage-engine contract as tests, which every engine must pass.

use super::*;
use crate::env::Xoshiro;
use crate::reply::Blob;
use crate::table::catalog::{Method, Origin, tests as catalog};
use crate::table::datum::{Datum, DatumRef};
use crate::table::key::put_key;
use crate::table::row::RowLayout;
use std::collections::BTreeMap;

const TABLE: TableId = TableId(7);
const PRIMARY: IndexId = IndexId(1);
const BY_A_B: IndexId = IndexId(2);
const UNIQUE_C: IndexId = IndexId(3);
const HASH_A: IndexId = IndexId(4);
const PARTIAL: IndexId = IndexId(5);

type Values = Vec<Datum>;
type Model = BTreeMap<RowId, Values>;

fn engines(seed: u64) -> Vec<Box<dyn Engine>> {
    vec![Box::new(Memory::new()), Box::new(TestEngine::new(seed, 60, 60))]
}

/// t (id INTEGER PRIMARY KEY USING HASH, a INT, b TEXT, c REAL UNIQUE, d BLOB, flag INT), with one index of each kind.
fn definition() -> TableDef {
    let mut def = catalog::table("t", &[("a", "INT"), ("b", "TEXT"), ("c", "REAL"), ("d", "BLOB"), ("flag", "INT")]);
    def.id = TABLE;
    let mut primary = catalog::index(&def, PRIMARY.0, &["id"], true, Method::Hash);
    primary.origin = Origin::PrimaryKey;
    let mut by_a_b = catalog::index(&def, BY_A_B.0, &["a", "b"], false, Method::Ordered);
    by_a_b.columns[1].desc = true;
    let unique_c = catalog::index(&def, UNIQUE_C.0, &["c"], true, Method::Ordered);
    let hash_a = catalog::index(&def, HASH_A.0, &["a"], false, Method::Hash);
    let mut partial = catalog::index(&def, PARTIAL.0, &["d"], false, Method::Ordered);
    partial.filter = Some(5);
    def.indexes = vec![primary, by_a_b, unique_c, hash_a, partial];
    def
}

fn random_values(random: &mut Xoshiro) -> Values {
    let maybe = |datum: Datum, random: &mut Xoshiro| if random.below(8) == 0 { Datum::Null } else { datum };
    let len = if random.below(30) == 0 { random.below(5000) } else { random.below(30) } as usize;
    // Long ones live outside pages; index keys, where small bytes take two, stay within their limit.
    let d = maybe(Datum::blob(vec![(random.next() as u8).max(2); len.min(3000)]), random);
    vec![
        Datum::Int(random.below(2000) as i64),
        maybe(Datum::Int(random.below(10) as i64 - 5), random),
        maybe(Datum::text(&"abcdefgh"[..random.below(8) as usize]), random),
        maybe(Datum::Real(random.below(3000) as f64 / 4.0), random),
        d,
        maybe(Datum::Int(random.below(2) as i64), random),
    ]
}

fn encode(engine: &dyn Engine, values: &[Datum]) -> Vec<u8> {
    let mut row = Vec::new();
    let values: Vec<DatumRef<'_>> = values.iter().map(Datum::as_ref).collect();
    engine.layout(TABLE).unwrap().encode(&values, &mut row).unwrap();
    row
}

fn decode(row: Row<'_>) -> Values {
    row.values().map(DatumRef::to_owned).collect()
}

/// Asks again until there is an answer, as the statement executor does.
fn ask<T>(engine: &mut dyn Engine, mut question: impl FnMut(&dyn Engine) -> Read<T>) -> T {
    loop {
        match question(engine) {
            Ok(answer) => return answer,
            Err(ReadError::NotReady(wanted)) => fetch(engine, &wanted),
            Err(ReadError::Failed(error)) => assert_eq!(TestEngine::injected_error(), error),
        }
    }
}

fn fetch(engine: &mut dyn Engine, wanted: &Wanted) {
    let work = engine.fetch(wanted);
    let fetched = std::thread::spawn(work).join().unwrap().unwrap();
    engine.admit(fetched);
}

/// Does a write; where the engine stopped for no reason of the data, goes on from there.
fn persist(
    engine: &mut dyn Engine,
    rows: usize,
    mut write: impl FnMut(&mut dyn Engine, usize) -> Write<()>,
) -> Write<()> {
    let mut done = 0;
    loop {
        let Err(error) = write(engine, done) else { return Ok(()) };
        done += error.at;
        assert!(done < rows);
        match error.failure {
            WriteFailure::NotReady(wanted) => fetch(engine, &wanted),
            WriteFailure::Failed(error) => assert_eq!(TestEngine::injected_error(), error),
            failure => return Err(WriteError { at: done, failure }),
        }
    }
}

fn tail(batch: &Batch, from: usize) -> Batch {
    let mut tail = Batch::new();
    (from..batch.len()).for_each(|i| tail.push(batch.get(i)));
    tail
}

fn insert(engine: &mut dyn Engine, rows: &Batch, ids: &mut Vec<RowId>, changes: &mut dyn Changes) -> Write<()> {
    persist(engine, rows.len(), |engine, done| engine.insert(TABLE, &tail(rows, done), ids, changes))
}

fn walk(engine: &mut dyn Engine, access: &Access<'_>) -> Vec<(RowId, Values)> {
    ask(engine, |engine| walk_once(engine, access))
}

fn walk_once(source: &dyn Engine, access: &Access<'_>) -> Read<Vec<(RowId, Values)>> {
    let (mut cursor, mut found) = (Cursor::new(), Vec::new());
    let mut more = source.seek(&mut cursor, TABLE, access)?;
    while more {
        if let Some(row) = cursor.at_hand() {
            // SAFETY: the cursor stands on the row, and the engine is there.
            assert_eq!(source.row(&cursor).bytes(), unsafe { row.get() });
        }
        found.push((cursor.row_id(), decode(source.row(&cursor))));
        more = source.next(&mut cursor)?;
    }
    Ok(found)
}

/// The key of a row's values in an index; `None` if the index does not hold the row.
fn key_of(def: &TableDef, index: &IndexDef, values: &[Datum]) -> Option<Vec<u8>> {
    let held = index.filter.is_none_or(|position| matches!(values[usize::from(position)], Datum::Int(1)));
    let columns: Vec<DatumRef<'_>> = index.columns.iter().map(|c| values[usize::from(c.position)].as_ref()).collect();
    let mut key = Vec::new();
    put_key(&columns, &index.columns, &mut key);
    let _ = def;
    held.then_some(key)
}

/// What stands in the way of a row's uniqueness in the model: index and row.
fn conflict(def: &TableDef, model: &Model, values: &[Datum], but: Option<RowId>) -> Option<(IndexId, RowId)> {
    def.indexes.iter().filter(|i| i.unique).find_map(|index| {
        let position = usize::from(index.columns[0].position);
        if values[position] == Datum::Null {
            return None;
        }
        let same = model.iter().find(|(id, row)| Some(**id) != but && row[position] == values[position]);
        same.map(|(id, _)| (index.id, *id))
    })
}

/// The engine's table shows exactly the model, on every access path.
fn check(engine: &mut dyn Engine, def: &TableDef, model: &Model, random: &mut Xoshiro) {
    let expected: Vec<(RowId, Values)> = model.iter().map(|(id, values)| (*id, values.clone())).collect();
    assert_eq!(expected, walk(engine, &Access::All));
    let from = some(model, random).map_or(RowId(0), |id| RowId(id.0 + random.below(2)));
    let rest: Vec<(RowId, Values)> = expected.iter().filter(|(id, _)| *id >= from).cloned().collect();
    assert_eq!(rest, walk(engine, &Access::From(from)));
    assert!(walk(engine, &Access::From(RowId(u64::MAX))).is_empty());
    assert_eq!(model.len() as u64, ask(engine, |e| e.row_count(TABLE)));
    for index in &def.indexes {
        let mut entries: Vec<(Vec<u8>, RowId)> =
            model.iter().filter_map(|(id, values)| Some((key_of(def, index, values)?, *id))).collect();
        entries.sort();
        check_keys(engine, index, model, &entries, random);
        if index.method == Method::Ordered {
            check_ranges(engine, index, model, &entries, random);
        } else {
            let access =
                Access::Range { index: index.id, from: Edge::Open, to: Edge::Open, reverse: false, keys_only: false };
            let refused = engine.seek(&mut Cursor::new(), TABLE, &access);
            assert!(matches!(refused, Err(ReadError::Failed(_) | ReadError::NotReady(_))));
        }
    }
    let id = |random: &mut Xoshiro| match random.below(2) {
        0 => RowId(random.below(3000)),
        _ => some(model, random).unwrap_or_default(),
    };
    let ids: Vec<RowId> = (0..40).map(|_| id(random)).collect();
    let found = ask(engine, |engine| {
        let mut found = Vec::new();
        engine.rows(TABLE, &ids, &mut |i, row| found.push((i, decode(row)))).map(|()| found)
    });
    let expected: Vec<(usize, Values)> =
        ids.iter().enumerate().filter_map(|(i, id)| Some((i, model.get(id)?.clone()))).collect();
    assert_eq!(expected, found);
    let existing: Vec<(RowId, Values)> = ids.iter().filter_map(|id| Some((*id, model.get(id)?.clone()))).collect();
    assert_eq!(existing, walk(engine, &Access::Rows(&ids)));
}

/// Puts rows with equal keys into the order of their ids, in which an overlay need not give them.
fn with_ties_by_id<T, K: PartialEq>(
    engine: &dyn Engine,
    mut found: Vec<T>,
    key: impl Fn(&T) -> K,
    id: impl Fn(&T) -> RowId,
) -> Vec<T> {
    if engine.name() == "overlay" {
        found.chunk_by_mut(|a, b| key(a) == key(b)).for_each(|ties| ties.sort_by_key(|row| id(row)));
    }
    found
}

fn check_keys(
    engine: &mut dyn Engine,
    index: &IndexDef,
    model: &Model,
    entries: &[(Vec<u8>, RowId)],
    random: &mut Xoshiro,
) {
    let mut keys = Batch::new();
    for _ in 0..random.below(50) {
        match entries.get(random.below(entries.len() as u64 + 1) as usize) {
            Some((key, _)) => keys.push(key),
            // The number 0: a whole key here, the first of two columns there.
            None => keys.push(&[0x80]),
        }
    }
    let expected: Vec<(usize, RowId)> = keys
        .iter()
        .enumerate()
        .flat_map(|(i, key)| {
            let has = move |k: &[u8]| if index.method == Method::Ordered { k.starts_with(key) } else { k == key };
            entries.iter().filter(move |(k, _)| has(k)).map(move |(_, id)| (i, *id))
        })
        .collect();
    let found = ask(engine, |engine| {
        let mut found = Vec::new();
        let visit = &mut |i, id, row: Row<'_>| {
            assert_eq!(model[&id], decode(row));
            found.push((i, id));
        };
        engine.get_many(TABLE, index.id, &keys, visit).map(|()| found)
    });
    let ties = |(place, id): &(usize, RowId)| (*place, entries.iter().find(|(_, of)| of == id).map(|(key, _)| key));
    assert_eq!(expected, with_ties_by_id(engine, found, ties, |(_, id)| *id));
    let walked: Vec<RowId> =
        walk(engine, &Access::Keys { index: index.id, keys: &keys }).iter().map(|(id, _)| *id).collect();
    assert_eq!(expected.len(), walked.len());
    let walked = expected.iter().zip(walked).map(|((place, _), id)| (*place, id)).collect();
    assert_eq!(expected, with_ties_by_id(engine, walked, ties, |(_, id)| *id));
}

fn check_ranges(
    engine: &mut dyn Engine,
    index: &IndexDef,
    model: &Model,
    entries: &[(Vec<u8>, RowId)],
    random: &mut Xoshiro,
) {
    for _ in 0..10 {
        let mut bounds: Vec<Vec<u8>> = (0..2)
            .map(|_| {
                let mut key =
                    entries.get(random.below(entries.len().max(1) as u64) as usize).map_or(vec![], |e| e.0.clone());
                // A whole key, or the start of some.
                key.truncate(if random.below(2) == 0 {
                    key.len()
                } else {
                    random.below(key.len() as u64 + 1) as usize
                });
                key
            })
            .collect();
        bounds.sort();
        let mut edge = |key| match random.below(3) {
            0 => Edge::Open,
            1 => Edge::Before(key),
            _ => Edge::After(key),
        };
        let (from, to) = (edge(&bounds[0][..]), edge(&bounds[1][..]));
        let is_before = |key: &[u8], edge: Edge<'_>, is_end: bool| match edge {
            Edge::Open => is_end,
            Edge::Before(bound) => key < bound,
            Edge::After(bound) => key < bound || key.starts_with(bound),
        };
        let expected: Vec<(Vec<u8>, RowId)> =
            entries.iter().filter(|(k, _)| !is_before(k, from, false) && is_before(k, to, true)).cloned().collect();
        assert_eq!(expected.len() as u64, ask(engine, |e| e.count(TABLE, index.id, from, to)));
        for reverse in [false, true] {
            let mut expected = expected.clone();
            if reverse {
                expected.reverse();
            }
            let rows: Vec<(RowId, Values)> = expected.iter().map(|(_, id)| (*id, model[id].clone())).collect();
            let access = Access::Range { index: index.id, from, to, reverse, keys_only: false };
            let walked = walk(engine, &access);
            let by_id = |mut rows: Vec<(RowId, Values)>| {
                // Of rows with equal keys the smaller id is first, or last.
                if reverse {
                    rows.reverse();
                }
                let key = |(id, _): &(RowId, Values)| entries.iter().find(|(_, of)| of == id).map(|(key, _)| key);
                with_ties_by_id(engine, rows, key, |(id, _)| *id)
            };
            assert_eq!(by_id(rows), by_id(walked));
            let access = Access::Range { index: index.id, from, to, reverse, keys_only: true };
            let keys = ask(engine, |engine| {
                let (mut cursor, mut found) = (Cursor::new(), Vec::new());
                let mut more = engine.seek(&mut cursor, TABLE, &access)?;
                while more {
                    found.push((cursor.key().to_vec(), cursor.row_id()));
                    more = engine.next(&mut cursor)?;
                }
                Ok(found)
            });
            let by_id = |keys| with_ties_by_id(engine, keys, |(key, _): &(Vec<u8>, RowId)| key.clone(), |(_, id)| *id);
            assert_eq!(by_id(expected), by_id(keys.clone()));
            let (steps, skipped) = (random.below(30) as usize, random.below(entries.len() as u64 + 40) as usize);
            let behind: Vec<(Vec<u8>, RowId)> = ask(engine, |engine| {
                let (mut cursor, mut found) = (Cursor::new(), Vec::new());
                let mut more = engine.seek(&mut cursor, TABLE, &access)?;
                for _ in 0..steps {
                    more = more && engine.next(&mut cursor)?;
                }
                more = more && engine.skip(&mut cursor, skipped as u64)?;
                while more {
                    found.push((cursor.key().to_vec(), cursor.row_id()));
                    more = engine.next(&mut cursor)?;
                }
                Ok(found)
            });
            assert_eq!(keys.get(steps + skipped..).unwrap_or_default(), behind);
        }
    }
}

/// A row of the model.
fn some(model: &Model, random: &mut Xoshiro) -> Option<RowId> {
    model.keys().nth(random.below(model.len().max(1) as u64) as usize).copied()
}

/// One random statement on engine and model; returns what it changed.
fn random_statement(
    engine: &mut dyn Engine,
    def: &TableDef,
    model: &mut Model,
    random: &mut Xoshiro,
    grows: bool,
) -> Collected {
    let mut changes = Collected::default();
    match random.below(10) {
        0..=5 if grows => {
            let rows: Vec<Values> = (0..1 + random.below(6)).map(|_| random_values(random)).collect();
            let mut batch = Batch::new();
            rows.iter().for_each(|values| batch.push(&encode(engine, values)));
            let (mut ids, mut after) = (Vec::new(), model.clone());
            let result = insert(engine, &batch, &mut ids, &mut changes);
            for (i, id) in ids.iter().enumerate() {
                assert_eq!(None, conflict(def, &after, &rows[i], None));
                assert!(after.insert(*id, rows[i].clone()).is_none());
            }
            if let Err(error) = result {
                assert_eq!(ids.len(), error.at);
                let (index, existing) = conflict(def, &after, &rows[error.at], None).expect("a conflict in the model");
                assert_eq!(WriteFailure::Duplicate { index, existing }, error.failure);
            } else {
                assert_eq!(rows.len(), ids.len());
            }
            *model = after;
        }
        0..=7 => {
            let ids: Vec<RowId> = (0..1 + random.below(4)).filter_map(|_| some(model, random)).collect();
            let rows: Vec<Values> = ids
                .iter()
                .map(|id| {
                    // Mostly a change of a column or two.
                    let (mut values, new) = (model[id].clone(), random_values(random));
                    (0..values.len()).filter(|_| random.below(3) == 0).for_each(|i| values[i] = new[i].clone());
                    values
                })
                .collect();
            let mut batch = Batch::new();
            rows.iter().for_each(|values| batch.push(&encode(engine, values)));
            let result = persist(engine, ids.len(), |engine, done| {
                engine.update(TABLE, &ids[done..], &tail(&batch, done), &mut changes)
            });
            let done = result.as_ref().map_or_else(|error| error.at, |()| ids.len());
            for i in 0..done {
                assert_eq!(None, conflict(def, model, &rows[i], Some(ids[i])));
                model.insert(ids[i], rows[i].clone());
            }
            if let Err(error) = result {
                let found = conflict(def, model, &rows[done], Some(ids[done])).expect("a conflict in the model");
                assert_eq!(WriteFailure::Duplicate { index: found.0, existing: found.1 }, error.failure);
            }
        }
        8 => {
            // A row steps aside and comes back as another one under its id.
            let Some(id) = some(model, random) else { return changes };
            let mut values = random_values(random);
            assert_eq!(Ok(()), persist(engine, 1, |engine, _| engine.delete(TABLE, &[id], &mut changes)));
            let old = model.remove(&id).unwrap();
            if conflict(def, model, &values, None).is_some() || random.below(3) == 0 {
                values = old;
            }
            let row = Blob::from_slice(&encode(engine, &values));
            engine.apply(TABLE, &RowOp::Insert { id, row: row.clone() }).unwrap();
            changes.inserted(TABLE, id, &row);
            model.insert(id, values);
        }
        _ => {
            let mut ids: Vec<RowId> = (0..1 + random.below(5)).filter_map(|_| some(model, random)).collect();
            ids.sort_unstable();
            ids.dedup();
            let result = persist(engine, ids.len(), |engine, done| engine.delete(TABLE, &ids[done..], &mut changes));
            assert_eq!(Ok(()), result);
            ids.iter().for_each(|id| assert!(model.remove(id).is_some()));
        }
    }
    changes
}

fn undo(engine: &mut dyn Engine, changes: &Collected) {
    for ((table, undo), (_, redo)) in changes.undo.iter().zip(&changes.redo).rev() {
        let inverse = engine.apply(*table, undo).unwrap();
        assert_eq!(*redo, inverse);
    }
}

#[test]
fn random_statements_agree_with_a_model_and_can_be_undone_and_replayed() {
    for seed in 0..3 {
        for mut engine in engines(seed) {
            let engine = &mut *engine;
            let def = Arc::new(definition());
            let mut random = Xoshiro::from_seed(seed);
            let mut model = Model::new();
            engine.create_table(&def).unwrap();
            let mut replica = Memory::new();
            replica.create_table(&def).unwrap();
            for step in 0..800 {
                let before = model.clone();
                let mut scope = Vec::new();
                for _ in 0..1 + random.below(3) {
                    scope.push(random_statement(engine, &def, &mut model, &mut random, step / 200 % 2 == 0));
                }
                if random.below(5) == 0 {
                    scope.iter().rev().for_each(|changes| undo(engine, changes));
                    model = before;
                } else {
                    for (table, op) in scope.iter().flat_map(|changes| &changes.redo) {
                        let mut bytes = Vec::new();
                        op.encode(&mut bytes);
                        replica.apply(*table, &RowOp::decode(&mut &bytes[..]).unwrap()).unwrap();
                    }
                    replica.scope_end();
                }
                engine.scope_end();
                if step % 60 == 0 {
                    check(engine, &def, &model, &mut random);
                }
            }
            check(engine, &def, &model, &mut random);
            check(&mut replica, &def, &model, &mut random);
            let statistics = ask(engine, |e| e.statistics(TABLE));
            assert_eq!(def.indexes.len(), statistics.indexes.len());
            let all: Vec<RowId> = model.keys().copied().collect();
            assert_eq!(Ok(()), persist(engine, all.len(), |e, done| e.delete(TABLE, &all[done..], &mut Untold)));
            engine.scope_end();
            check(engine, &def, &Model::new(), &mut random);
        }
    }
}

/// A memory engine with some rows, and its model.
fn filled(rows: usize, random: &mut Xoshiro) -> (Memory, Arc<TableDef>, Model) {
    let (mut engine, def, mut model) = (Memory::new(), Arc::new(definition()), Model::new());
    engine.create_table(&def).unwrap();
    while model.len() < rows {
        random_statement(&mut engine, &def, &mut model, random, true);
    }
    engine.scope_end();
    (engine, def, model)
}

/// What may be written over a view in a test that is not about that.
const NO_BOUNDS: Bounds = Bounds { rows: usize::MAX, bytes: usize::MAX };

/// An overlay over a view of some rows, and its model; the view answers, or does not, as `engine` does.
fn overlaid(mut engine: Box<dyn Engine>, rows: usize, random: &mut Xoshiro) -> (Overlay, Arc<TableDef>, Model) {
    let (mut filled, def, model) = filled(rows, random);
    engine.create_table(&def).unwrap();
    for (id, values) in &model {
        let row = Blob::from_slice(&encode(&filled, values));
        engine.apply(TABLE, &RowOp::Insert { id: *id, row }).unwrap();
    }
    let overlay = Overlay::new(engine.view(&[TABLE]).unwrap(), NO_BOUNDS);
    // What comes later is not in the view.
    let all: Vec<RowId> = model.keys().copied().collect();
    while engine.delete(TABLE, &all[..50], &mut Untold).is_err() {}
    filled.scope_end();
    (overlay, def, model)
}

#[test]
fn an_overlay_is_the_view_with_what_was_written_over_it() {
    for seed in 40..46 {
        let mut random = Xoshiro::from_seed(seed);
        let flaky: Box<dyn Engine> = match seed % 2 {
            0 => Box::new(Memory::new()),
            _ => Box::new(TestEngine::new(seed, 0, 20)),
        };
        let (mut overlay, def, mut model) = overlaid(flaky, 400, &mut random);
        let before = model.clone();
        check(&mut overlay, &def, &model, &mut random);
        let mut done = Vec::new();
        for step in 0..600 {
            let (earlier, mark) = (model.clone(), done.len());
            for _ in 0..1 + random.below(3) {
                done.push(random_statement(&mut overlay, &def, &mut model, &mut random, step / 150 % 2 == 0));
            }
            if random.below(4) == 0 {
                done.drain(mark..).rev().for_each(|changes| undo(&mut overlay, &changes));
                model = earlier;
            }
            if step % 60 == 0 {
                check(&mut overlay, &def, &model, &mut random);
            }
        }
        check(&mut overlay, &def, &model, &mut random);
        assert!(!overlay.is_clean());
        done.into_iter().rev().for_each(|changes| undo(&mut overlay, &changes));
        check(&mut overlay, &def, &before, &mut random);
        assert_eq!(0, overlay.size().0);
        assert_eq!(0, overlay.written().map(|(_, written)| written.shadows().count()).sum::<usize>());
    }
}

#[test]
fn an_overlay_holds_no_more_than_it_may() {
    let mut random = Xoshiro::from_seed(47);
    let (overlay, _, model) = overlaid(Box::new(Memory::new()), 100, &mut random);
    let mut overlay = Overlay::new(overlay.base().clone(), Bounds { rows: 5, bytes: 100_000 });
    let ids: Vec<RowId> = model.keys().take(6).copied().collect();
    let refused = overlay.delete(TABLE, &ids, &mut Untold).unwrap_err();
    assert_eq!((5, 5), (refused.at, overlay.size().0));
    let WriteFailure::Failed(error) = refused.failure else { panic!("{refused:?}") };
    assert_eq!(Code::Limit, error.code);
}

#[test]
fn cursors_show_the_table_as_it_was_when_they_were_opened() {
    let mut random = Xoshiro::from_seed(21);
    let (engine, def, model) = filled(600, &mut random);
    cursors_stand_still(engine, &def, model, &mut random, true);
    let (overlay, def, model) = overlaid(Box::new(Memory::new()), 600, &mut random);
    cursors_stand_still(overlay, &def, model, &mut random, false);
}

fn cursors_stand_still(
    mut engine: impl Engine,
    def: &Arc<TableDef>,
    mut model: Model,
    random: &mut Xoshiro,
    copies: bool,
) {
    let low = key_of(def, &def.indexes[1], &random_values(random)).unwrap();
    let keys = Batch::of(&key_of(def, &def.indexes[3], &[Datum::Null, Datum::Int(1)]).unwrap());
    for round in 0..40 {
        let access = match round % 4 {
            0 => Access::All,
            1 => Access::Keys { index: HASH_A, keys: &keys },
            n => Access::Range {
                index: BY_A_B,
                from: Edge::Before(&low),
                to: Edge::Open,
                reverse: n == 2,
                keys_only: false,
            },
        };
        let expected = walk(&mut engine, &access);
        let mut cursor = Cursor::new();
        let mut more = engine.seek(&mut cursor, TABLE, &access).unwrap();
        let mut found = Vec::new();
        while more {
            let row = engine.row(&cursor);
            let (address, first) = (row.bytes().as_ptr(), decode(row));
            if random.below(4) == 0 {
                random_statement(&mut engine, def, &mut model, random, round % 8 < 4);
                engine.scope_end();
            }
            // The bytes are still the same, at the same address.
            let row = engine.row(&cursor);
            assert_eq!((address, &first), (row.bytes().as_ptr(), &decode(row)));
            found.push((cursor.row_id(), first));
            more = engine.next(&mut cursor).unwrap();
        }
        assert_eq!(expected, found);
        check(&mut engine, def, &model, random);
    }
    if !copies {
        return;
    }
    let mut cursor = Cursor::new();
    assert!(engine.seek(&mut cursor, TABLE, &Access::All).unwrap());
    let copied = engine.copied_bytes();
    cursor.close();
    random_statement(&mut engine, def, &mut model, random, true);
    assert_eq!(copied, engine.copied_bytes(), "without an open cursor nothing is copied");
}

#[test]
fn views_are_read_in_other_threads_while_the_writer_goes_on() {
    let mut random = Xoshiro::from_seed(22);
    let (mut engine, def, mut model) = filled(500, &mut random);
    let mut readers = Vec::new();
    for _ in 0..4 {
        let view = engine.view(&[TABLE]).unwrap();
        // The reader may be done before anything is written; this one is not.
        let held = view.clone();
        let expected: Vec<(RowId, Values)> = model.iter().map(|(id, v)| (*id, v.clone())).collect();
        readers.push(std::thread::spawn(move || {
            for _ in 0..3 {
                let (mut cursor, mut found) = (Cursor::new(), Vec::new());
                let mut more = view.seek(&mut cursor, TABLE, &Access::All).unwrap();
                while more {
                    found.push((cursor.row_id(), decode(view.row(&cursor))));
                    more = view.next(&mut cursor).unwrap();
                }
                assert_eq!(expected, found);
                let by_key =
                    Access::Range { index: BY_A_B, from: Edge::Open, to: Edge::Open, reverse: true, keys_only: false };
                assert!(view.seek(&mut cursor, TABLE, &by_key).unwrap());
                let all = view.count(TABLE, BY_A_B, Edge::Open, Edge::Open).unwrap();
                assert_eq!(expected.len() as u64, all);
                assert_eq!(view.row_count(TABLE).unwrap(), view.statistics(TABLE).unwrap().rows);
            }
        }));
        for _ in 0..200 {
            let grows = random.below(2) == 0;
            random_statement(&mut engine, &def, &mut model, &mut random, grows);
            engine.scope_end();
        }
        drop(held);
    }
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    assert!(engine.copied_bytes() > 0);
    assert!(engine.view(&[TableId(99)]).is_err());
}

#[test]
fn indexes_are_built_while_the_table_changes() {
    for seed in 0..3 {
        for mut engine in engines(seed) {
            let engine = &mut *engine;
            let mut random = Xoshiro::from_seed(seed);
            let full = definition();
            // The table begins with its primary key; the others are built one after another.
            let mut def = TableDef { indexes: full.indexes[..1].to_vec(), ..full.clone() };
            engine.create_table(&Arc::new(def.clone())).unwrap();
            let mut model = Model::new();
            let mut change = |engine: &mut dyn Engine, def: &TableDef, model: &mut Model, times: usize| {
                for i in 0..times {
                    // Judged by the whole definition, so that the unique index can be built.
                    let before = model.clone();
                    let changes = random_statement(engine, def, model, &mut random, i % 4 != 0);
                    let changed = changes.redo.iter().filter_map(|(_, op)| model.get_key_value(&op.id()));
                    if changed.into_iter().any(|(id, values)| conflict(&full, model, values, Some(*id)).is_some()) {
                        undo(engine, &changes);
                        *model = before;
                    }
                    engine.scope_end();
                }
            };
            change(engine, &def, &mut model, 300);
            for index in &full.indexes[1..] {
                let mut build = engine.begin_index(TABLE, index).unwrap();
                change(engine, &def, &mut model, 100);
                // The steps of the build in another thread, and changes between them.
                loop {
                    let worker = std::thread::spawn(move || build.run(50).map(|done| (done, build)));
                    change(engine, &def, &mut model, 20);
                    let (done, back) = worker.join().unwrap().unwrap();
                    build = back;
                    if done {
                        break;
                    }
                }
                change(engine, &def, &mut model, 50);
                def.indexes.push(index.clone());
                engine.finish_index(build, &Arc::new(def.clone())).unwrap();
                check(engine, &def, &model, &mut Xoshiro::from_seed(seed));
                change(engine, &def, &mut model, 50);
            }
            check(engine, &def, &model, &mut Xoshiro::from_seed(seed));
        }
    }
}

#[test]
fn a_unique_index_is_not_built_over_duplicates() {
    let mut random = Xoshiro::from_seed(31);
    for method in [Method::Hash, Method::Ordered] {
        let (mut engine, def, mut model) = filled(300, &mut random);
        let unique = catalog::index(&def, 9, &["a"], true, method);
        let with = Arc::new(TableDef {
            indexes: def.indexes.iter().cloned().chain([unique.clone()]).collect(),
            ..(*def).clone()
        });
        let mut build = engine.begin_index(TABLE, &unique).unwrap();
        let error = build.run(usize::MAX >> 1).unwrap_err();
        assert_eq!("UNIQUE constraint failed: t.a", error.message);
        engine.abandon_index(build);
        // Duplicates that appear during the build are found at its end.
        let all: Vec<RowId> = model.keys().copied().collect();
        engine.delete(TABLE, &all, &mut Untold).unwrap();
        let mut build = engine.begin_index(TABLE, &unique).unwrap();
        assert!(build.run(1000).unwrap());
        let one = |id: i64| vec![Datum::Int(id), Datum::Int(1), Datum::Null, Datum::Null, Datum::Null, Datum::Null];
        let mut batch = Batch::new();
        [1, 2].iter().for_each(|id| batch.push(&encode(&engine, &one(*id))));
        let mut ids = Vec::new();
        engine.insert(TABLE, &batch, &mut ids, &mut Untold).unwrap();
        assert!(engine.finish_index(build, &with).is_err());
        model = ids.iter().zip([1, 2]).map(|(id, n)| (*id, one(n))).collect();
        check(&mut engine, &def, &model, &mut random);
    }
}

#[test]
fn dropped_and_emptied_tables_come_back() {
    let mut random = Xoshiro::from_seed(41);
    let (mut engine, def, model) = filled(300, &mut random);
    let kept = engine.truncate_table(TABLE).unwrap();
    check(&mut engine, &def, &Model::new(), &mut random);
    engine.restore(kept, &def).unwrap();
    check(&mut engine, &def, &model, &mut random);
    let mut cursor = Cursor::new();
    assert!(engine.seek(&mut cursor, TABLE, &Access::All).unwrap());
    let kept = engine.drop_table(TABLE).unwrap();
    assert!(engine.definition(TABLE).is_err());
    assert!(engine.next(&mut cursor).unwrap(), "an open cursor outlives the table");
    engine.restore(kept, &def).unwrap();
    check(&mut engine, &def, &model, &mut random);
    let without = Arc::new(TableDef { indexes: [&def.indexes[..1], &def.indexes[2..]].concat(), ..(*def).clone() });
    let kept = engine.drop_index(BY_A_B, &without).unwrap();
    check(&mut engine, &without, &model, &mut random);
    engine.restore(kept, &def).unwrap();
    check(&mut engine, &def, &model, &mut random);
    assert!(engine.create_table(&def).is_err());
    assert!(engine.drop_index(IndexId(77), &def).is_err());
    assert!(engine.count(TABLE, PARTIAL, Edge::Open, Edge::Open).is_ok());
    assert!(engine.count(TABLE, UNIQUE_C, Edge::Open, Edge::Open).is_ok());
}

#[test]
fn old_rows_read_the_default_of_a_new_column() {
    let mut random = Xoshiro::from_seed(51);
    let (mut engine, def, mut model) = filled(100, &mut random);
    let view = engine.view(&[TABLE]).unwrap();
    let mut wider = (*def).clone();
    wider.add_column_later("e", "TEXT", Datum::text("new")).unwrap();
    let wider = Arc::new(wider);
    engine.alter_table(&wider).unwrap();
    model.values_mut().for_each(|values| values.push(Datum::text("new")));
    check(&mut engine, &wider, &model, &mut random);
    // Rows written from now on have the column; the view has never heard of it.
    let id = *model.keys().next().unwrap();
    model.get_mut(&id).unwrap()[6] = Datum::text("newer");
    let row = encode(&engine, &model[&id]);
    engine.update(TABLE, &[id], &Batch::of(&row), &mut Untold).unwrap();
    check(&mut engine, &wider, &model, &mut random);
    let mut seen = 0;
    view.rows(TABLE, &[id], &mut |_, row| seen = row.values().count()).unwrap();
    assert_eq!(6, seen);
    assert_eq!(&RowLayout::new(&def), &**view.layout(TABLE).unwrap());
}

#[test]
fn autoincrement_remembers_the_largest_number_ever() {
    let mut def = definition();
    def.columns[0].autoincrement = true;
    let mut engine = Memory::new();
    engine.create_table(&Arc::new(def)).unwrap();
    let row = |engine: &Memory, id: i64| {
        encode(engine, &[Datum::Int(id), Datum::Null, Datum::Null, Datum::Null, Datum::Null, Datum::Null])
    };
    let mut ids = Vec::new();
    let batch = Batch::of(&row(&engine, 41));
    engine.insert(TABLE, &batch, &mut ids, &mut Untold).unwrap();
    engine.delete(TABLE, &ids, &mut Untold).unwrap();
    assert_eq!(41, engine.sequence(TABLE).unwrap());
    engine.raise_sequence(TABLE, 50).unwrap();
    engine.raise_sequence(TABLE, 45).unwrap();
    engine.restore_sequence(TABLE, 48).unwrap();
    assert_eq!(48, engine.sequence(TABLE).unwrap());
    engine.raise_sequence(TABLE, 50).unwrap();
    assert_eq!(50, engine.sequence(TABLE).unwrap());
    drop(engine.truncate_table(TABLE).unwrap());
    assert_eq!(50, engine.sequence(TABLE).unwrap());
}

#[test]
fn writes_to_rows_that_are_not_there_say_so() {
    let mut random = Xoshiro::from_seed(61);
    let (mut engine, def, model) = filled(50, &mut random);
    let missing = RowId::new(5000, 3);
    let row = encode(&engine, &random_values(&mut random));
    let first = *model.keys().next().unwrap();
    let error = engine.delete(TABLE, &[missing], &mut Untold).unwrap_err();
    assert_eq!(WriteError { at: 0, failure: WriteFailure::NoSuchRow(missing) }, error);
    let error = engine.update(TABLE, &[missing], &Batch::of(&row), &mut Untold).unwrap_err();
    assert_eq!(WriteFailure::NoSuchRow(missing), error.failure);
    assert!(engine.apply(TABLE, &RowOp::Delete { id: missing }).is_err());
    assert!(engine.apply(TABLE, &RowOp::Insert { id: first, row: row.as_slice().into() }).is_err());
    assert!(engine.apply(TABLE, &RowOp::Insert { id: missing, row: (&b"\xFF\xFF\xFF"[..]).into() }).is_err());
    check(&mut engine, &def, &model, &mut random);
}

#[test]
fn rows_of_a_view_are_loaded_under_their_ids_and_indexed_afterwards() {
    for seed in 60..66 {
        let mut random = Xoshiro::from_seed(seed);
        let (mut old, def, model) = filled(500, &mut random);
        let mut view = old.view_of_rows(&[TABLE]).unwrap();
        let ids: Vec<RowId> = model.keys().copied().collect();
        old.delete(TABLE, &ids[..1], &mut Untold).unwrap();
        let (mut cursor, mut rows, mut from) = (Cursor::new(), Vec::new(), RowId(0));
        while view.seek(&mut cursor, TABLE, &Access::From(from)).unwrap() {
            for _ in 0..=random.below(40) {
                rows.push((cursor.row_id(), view.row(&cursor).bytes().to_vec()));
                from = RowId(cursor.row_id().0 + 1);
                if !view.next(&mut cursor).unwrap() {
                    break;
                }
            }
            cursor.close();
            Arc::get_mut(&mut view).unwrap().forget_before(TABLE, from);
            // One that is there no more is no matter.
            let _ = old.delete(TABLE, &[ids[random.below(ids.len() as u64) as usize]], &mut Untold);
        }
        let mut engine = engines(seed).remove(seed as usize % 2);
        let bare = TableDef { indexes: Vec::new(), ..TableDef::clone(&def) };
        engine.create_table(&Arc::new(bare)).unwrap();
        for part in rows.chunks(70) {
            let part: Vec<(RowId, &[u8])> = part.iter().map(|(id, row)| (*id, &row[..])).collect();
            engine.load(TABLE, &part).unwrap();
        }
        let mut now = TableDef { indexes: Vec::new(), ..TableDef::clone(&def) };
        for index in &def.indexes {
            let mut build = engine.begin_index(TABLE, index).unwrap();
            while !build.run(100).unwrap() {}
            now.indexes.push(index.clone());
            engine.finish_index(build, &Arc::new(now.clone())).unwrap();
        }
        check(&mut *engine, &def, &model, &mut random);
        assert_eq!(old.sequence(TABLE), engine.sequence(TABLE));
        // What replay does to rows that are there.
        let mut model = model;
        for id in model.keys().copied().step_by(3).collect::<Vec<_>>() {
            let inverse = engine.apply(TABLE, &RowOp::Delete { id }).unwrap();
            match random.below(2) {
                0 => drop(engine.apply(TABLE, &inverse).unwrap()),
                _ => drop(model.remove(&id)),
            }
        }
        check(&mut *engine, &def, &model, &mut random);
    }
}
