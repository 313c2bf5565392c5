//! Tests of a database against a model, and of its deadlines.

use super::*;
use crate::keyspace::entry::ValueRef;
use crate::value::list::Side;
use crate::value::{Edit, List, Str, Thresholds};
use std::collections::{BTreeMap, BTreeSet, HashMap};

type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

fn text(value: ValueRef<'_>) -> Vec<u8> {
    match value {
        ValueRef::Bytes(bytes) => bytes.to_vec(),
        ValueRef::Int(n) => n.to_string().into_bytes(),
        ValueRef::Value(value) => format!("{value:?}").into_bytes(),
    }
}

fn contents(database: &Database) -> Model {
    database.iter().map(|e| (e.key().to_vec(), (text(e.value()), e.expire_at()))).collect()
}

fn check(database: &Database, model: &Model) {
    assert_eq!(contents(database), *model);
    assert_eq!(database.len(), model.len());
    let with_deadline = model.values().filter(|(_, at)| at.is_some()).count();
    assert_eq!(database.len_with_deadline(), with_deadline);
    assert_eq!(database.entry_bytes, database.iter().map(EntryRef::memory).sum::<usize>());
}

#[test]
fn agrees_with_a_model() {
    for seed in 0..4 {
        println!("seed {seed}");
        let mut random = Xoshiro::from_seed(seed);
        let (mut database, mut model) = (Database::new(), Model::new());
        for step in 0..20_000 {
            let key = format!("key:{}", random.below(800)).into_bytes();
            let value = match random.below(3) {
                0 => random.below(100_000).to_string().into_bytes(),
                1 => vec![b'x'; random.below(60) as usize],
                _ => vec![b'y'; random.below(1500) as usize],
            };
            let at = (random.below(2) == 0).then(|| random.below(1_000_000) as i64);
            match random.below(8) {
                0..=3 => {
                    assert_eq!(database.set(&key[..], EntryValue::Bytes(&value), at, 0), model.contains_key(&key));
                    model.insert(key, (value, at));
                }
                4 => {
                    let old = database.put(Entry::new(&key, EntryValue::Bytes(&value), at));
                    let expected = model.insert(key, (value, at));
                    assert_eq!(old.map(|e| (text(e.entry().value()), e.entry().expire_at())), expected);
                }
                5 => {
                    let old = database.take(&key[..]).map(|e| text(e.entry().value()));
                    assert_eq!(old, model.remove(&key).map(|(value, _)| value));
                }
                6 => {
                    assert_eq!(database.set_expire(&key[..], at), model.contains_key(&key));
                    model.entry(key).and_modify(|entry| entry.1 = at);
                }
                _ => {
                    if let Some(mut entry) = database.get_mut(&key[..]) {
                        *entry.value_mut() = Value::Str(Str::new(&value));
                    }
                    model.entry(key).and_modify(|entry| entry.0 = value);
                }
            }
            if step % 1000 == 0 {
                check(&database, &model);
            }
        }
        check(&database, &model);
        let (mut seen, mut cursor) = (BTreeSet::new(), 0);
        loop {
            cursor = database.scan(cursor, |entry| assert!(seen.insert(entry.key().to_vec())));
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(seen, model.keys().cloned().collect());
        let taken = database.take_all();
        check(&database, &Model::new());
        database.put_back(taken);
        check(&database, &model);
        while database.drain(10) {}
        assert_eq!((database.len(), database.memory()), (0, 0));
    }
}

#[test]
fn due_keys_are_found_in_slices_and_no_others() {
    let mut random = Xoshiro::from_seed(21);
    let mut database = Database::new();
    let mut deadlines: HashMap<Vec<u8>, i64> = HashMap::new();
    let start = 1_767_225_600_000;
    for i in 0..20_000 {
        let key = format!("k{i}").into_bytes();
        // Seconds to months ahead; some in the past.
        let at = start - 5_000 + (1i64 << random.below(33)) + random.below(1000) as i64;
        database.set(&key[..], EntryValue::Bytes(b"v"), Some(at), 0);
        deadlines.insert(key, at);
    }
    let mut now = start;
    // Steps of a second at first, then ever longer ones, over any limit of the coarse deadlines.
    for step in 0..200i64 {
        now += 1000 + step * step * step;
        let mut found = BTreeSet::new();
        for _ in 0..100_000 {
            let keys = database.expire_due(now, 200);
            assert!(keys.len() <= 200 + 7);
            for key in &keys {
                assert!(deadlines[&key[..]] < now);
                assert!(database.take(&key[..]).is_some());
                found.insert(key.to_vec());
            }
            if database.deadlines.is_back_at_start() {
                break;
            }
        }
        // Twice around without a budget: removals may have moved entries behind the sweep.
        for _ in 0..2 {
            for key in database.expire_due(now, usize::MAX) {
                database.take(&key[..]);
                found.insert(key.to_vec());
            }
        }
        let expected = deadlines.iter().filter(|(_, at)| **at < now).map(|(key, _)| key.clone()).collect();
        assert_eq!(found, expected, "at step {step}");
        deadlines.retain(|_, at| *at >= now);
    }
    assert!(deadlines.len() < 8_000, "the test has gone months ahead");
    assert_eq!(database.len(), deadlines.len());
}

#[test]
fn moved_deadlines_are_met_earlier_and_later() {
    let mut database = Database::new();
    let now = 1_767_225_600_000;
    assert!(database.expire_due(now, 100).is_empty());
    database.set(&b"later"[..], EntryValue::Bytes(b"v"), Some(now + 5_000), 0);
    database.set(&b"sooner"[..], EntryValue::Bytes(b"v"), Some(now + 86_400_000), 0);
    database.set(&b"never"[..], EntryValue::Bytes(b"v"), Some(now + 5_000), 0);
    database.set(&b"later"[..], EntryValue::Bytes(b"v"), Some(now + 60_000), 0);
    assert!(database.set_expire(&b"sooner"[..], Some(now + 2_000)));
    assert!(database.set_expire(&b"never"[..], None));
    let due = |database: &mut Database, now| database.expire_due(now, 100);
    assert!(due(&mut database, now + 2_000).is_empty(), "a key lives in the millisecond of its deadline");
    assert_eq!(due(&mut database, now + 2_001), [Box::from(*b"sooner")]);
    database.take(&b"sooner"[..]);
    assert!(due(&mut database, now + 6_000).is_empty());
    assert!(due(&mut database, now + 59_999).is_empty());
    assert_eq!(due(&mut database, now + 60_001), [Box::from(*b"later")]);
}

#[test]
fn a_clock_set_back_and_forth_loses_no_key() {
    let mut database = Database::new();
    let (now, year) = (1_767_225_600_000, 366 * 86_400_000);
    database.expire_due(now, 1);
    database.set(&b"k"[..], EntryValue::Bytes(b"v"), Some(now + 10_000), 0);
    assert!(database.expire_due(now - year, 100).is_empty());
    assert_eq!(database.expire_due(now + year, 100).len(), 1);
    database.expire_due(now - year, 100);
    assert_eq!(database.expire_due(now + 10_001, 100).len(), 1);
}

#[test]
fn a_string_set_again_stays_where_it_is() {
    let mut database = Database::new();
    database.set(&b"user:00000000001"[..], EntryValue::Bytes(&[b'a'; 32]), None, 0);
    let slot = |database: &Database| database.find_at(b"user:00000000001"[..].into()).unwrap().1;
    let before = slot(&database);
    assert_eq!(database.entry_bytes, 64);
    for (value, at) in [(&[b'b'; 30][..], None), (b"12345", None), (&[b'c'; 32], Some(5)), (b"", Some(7))] {
        database.set(&b"user:00000000001"[..], EntryValue::Bytes(value), at, 0);
        assert!(before == slot(&database));
        assert_eq!(text(database.get(&b"user:00000000001"[..]).unwrap().value()), value);
    }
}

#[test]
fn collections_are_changed_in_place() {
    let mut database = Database::new();
    database.set(&b"l"[..], EntryValue::Value(Value::List(Box::new(List::new()))), None, 0);
    let mut entry = database.get_mut(&b"l"[..]).unwrap();
    match entry.value_mut() {
        Value::List(list) => list.push(Side::Front, &[b"item"], &mut Edit::silent(&Thresholds::default())),
        _ => unreachable!(),
    }
    let mut list = List::new();
    list.push(Side::Front, &[b"item"], &mut Edit::silent(&Thresholds::default()));
    let expected = Value::List(Box::new(list));
    assert_eq!(database.get(&b"l"[..]).unwrap().value(), ValueRef::Value(&expected));
    assert_eq!(database.take(&b"l"[..]).and_then(Taken::release).unwrap().into_parts(), (expected, None));
}

#[test]
fn random_keys_and_prefetches() {
    let mut random = Xoshiro::from_seed(3);
    let mut database = Database::new();
    assert!(database.random(&mut random).is_none());
    assert!(database.random_with_deadline(&mut random).is_none());
    database.prefetch(1);
    database.prefetch_entry(1);
    for i in 0..100 {
        database.set(format!("k{i}").as_bytes(), EntryValue::Int(i), (i == 7).then_some(9), 0);
    }
    assert_eq!(database.random_with_deadline(&mut random).unwrap().key(), b"k7");
    let drawn: BTreeSet<_> = (0..2000).map(|_| database.random(&mut random).unwrap().key().to_vec()).collect();
    assert_eq!(drawn.len(), 100);
    for entry in database.iter() {
        let key = HashedKey::from(entry.key());
        database.prefetch(key.hash);
        database.prefetch_entry(key.hash);
        assert_eq!(database.get(key).unwrap().key(), entry.key());
    }
}
