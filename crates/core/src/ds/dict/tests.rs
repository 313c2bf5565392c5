//! Tests of the dict against plain models, with random operations.

use super::line::Layout;
use super::*;
use crate::env::Xoshiro;
use std::collections::{HashMap, HashSet};

/// A slot of any width that is its own key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Key<const W: usize>(u32);

impl<const W: usize> Slot for Key<W> {
    const WIDTH: usize = W;
    fn to_bits(self) -> u64 {
        // The upper bytes are used too, so that a wrong width shows.
        u64::from(self.0) | (u64::from(self.0) << 32 & (u64::MAX >> (64 - 8 * W)))
    }
    fn from_bits(bits: u64) -> Self {
        assert_eq!(Key::<W>(bits as u32).to_bits(), bits);
        Key(bits as u32)
    }
}

fn hash<const W: usize>(key: Key<W>) -> u64 {
    Xoshiro::from_seed(key.0.into()).next()
}

/// A bad hash: few values, so that chains are long.
fn coarse<const W: usize>(key: Key<W>) -> u64 {
    Xoshiro::from_seed((key.0 % 5).into()).next()
}

/// Every entry is in the chain of its hash, only a chain's last primary or first overflow bucket has holes, and the
/// overflow is dense.
fn check<const W: usize>(dict: &Dict<Key<W>>, hash: fn(Key<W>) -> u64) {
    let mut reached = HashSet::new();
    let mut count = 0;
    for bucket in 0..dict.body.primary.len() {
        let mut line = dict.body.primary.line(bucket);
        let mut depth = 0;
        loop {
            for i in line.entries::<Key<W>>() {
                let key = line.slot::<Key<W>>(i);
                assert_eq!(dict.body.bucket_of(hash(key)), bucket);
                assert_eq!(line.tag::<Key<W>>(i), tag_of(hash(key)));
                count += 1;
            }
            let may_have_holes = if depth == 0 { line.link::<Key<W>>().is_none() } else { depth == 1 };
            assert!(may_have_holes || line.free::<Key<W>>().is_none());
            depth += 1;
            let Some(next) = line.link::<Key<W>>() else { break };
            assert!(reached.insert(next));
            line = dict.body.overflow.line(next);
            assert_eq!(line.home::<Key<W>>(), bucket);
            assert!(line.entries::<Key<W>>().next().is_some(), "an empty overflow bucket");
        }
    }
    assert_eq!(count, dict.len());
    assert_eq!(reached.len(), dict.body.overflow.len() as usize);
    let primary = dict.body.primary.len();
    assert_eq!(dict.body.mask, primary.max(1).next_power_of_two() - 1);
}

fn agrees_with_a_model<const W: usize>(seed: u64, hash: fn(Key<W>) -> u64, keys: u64, steps: usize) {
    println!("width {W}, seed {seed}");
    let mut random = Xoshiro::from_seed(seed);
    let mut dict: Dict<Key<W>> = Dict::new();
    let mut model: HashSet<Key<W>> = HashSet::new();
    let mut views: Vec<(View<Key<W>>, HashSet<Key<W>>)> = Vec::new();
    for step in 0..steps {
        let key = Key::<W>(random.below(keys) as u32);
        // Waves: mostly insertions, then mostly removals.
        let inserting = random.below(10) < if (step * 4 / steps).is_multiple_of(2) { 8 } else { 2 };
        let found = dict.find(hash(key), |k| k == key);
        assert_eq!(found.is_some(), model.contains(&key));
        if inserting && found.is_none() {
            dict.insert(hash(key), key, hash);
            model.insert(key);
        } else if inserting {
            assert_eq!(dict.replace(hash(key), key, |k| k == key), Some(key));
        } else {
            assert_eq!(dict.remove(hash(key), |k| k == key).is_some(), model.remove(&key));
        }
        assert_eq!(dict.len(), model.len());
        if step % (steps / 30) == 0 {
            check(&dict, hash);
            views.push((dict.view(), model.clone()));
            assert_eq!(dict.iter().collect::<HashSet<_>>(), model);
        }
        if step % (steps / 20) == 0 && !views.is_empty() {
            let (view, then) = views.swap_remove(random.below(views.len() as u64) as usize);
            assert_eq!(view.clone().iter().collect::<HashSet<_>>(), then);
            assert!(then.iter().all(|key| view.find(hash(*key), |k| k == *key).is_some()));
        }
    }
    check(&dict, hash);
    for (view, then) in views {
        assert_eq!(view.len(), then.len());
        assert_eq!(view.iter().collect::<HashSet<_>>(), then);
    }
}

#[test]
fn every_width_agrees_with_a_model() {
    agrees_with_a_model::<4>(1, hash, 20_000, 100_000);
    agrees_with_a_model::<5>(2, hash, 20_000, 100_000);
    agrees_with_a_model::<6>(3, hash, 20_000, 100_000);
    agrees_with_a_model::<7>(4, hash, 2_000, 50_000);
    agrees_with_a_model::<8>(5, hash, 2_000, 50_000);
}

#[test]
fn a_bad_hash_only_makes_it_slow() {
    agrees_with_a_model::<4>(6, coarse, 1_000, 20_000);
    agrees_with_a_model::<6>(7, coarse, 1_000, 20_000);
}

#[test]
fn several_equal_hashes_are_all_found_and_removed_one_by_one() {
    let mut dict: Dict<u32> = Dict::new();
    // Row ids 0..10_000; a hundred rows share each key.
    let hash = |row: u32| Xoshiro::from_seed(u64::from(row / 100)).next();
    (0..10_000).for_each(|row| dict.insert(hash(row), row, hash));
    for key in 0..100 {
        let mut rows = Vec::new();
        dict.find_all(hash(key * 100), |row| {
            rows.extend((row / 100 == key).then_some(row));
            true
        });
        rows.sort_unstable();
        assert_eq!(rows, (key * 100..key * 100 + 100).collect::<Vec<_>>());
    }
    for row in (0..10_000).rev() {
        assert_eq!(dict.remove(hash(row), |r| r == row), Some(row));
    }
    assert_eq!((dict.len(), dict.memory()), (0, 0));
}

#[test]
fn a_chain_of_any_length_takes_entries_in_constant_time() {
    // A look-up of the chain for each of them would take minutes.
    let mut dict: Dict<u32> = Dict::new();
    let hash = |_| 0x1234_5678_9ABC_DEF0;
    (0..300_000).for_each(|row| dict.insert(hash(row), row, hash));
    let (mut count, mut left) = (0, 300_000);
    dict.find_all(hash(0), |_| {
        count += 1;
        true
    });
    assert_eq!(count, left);
    while dict.remove(hash(0), |_| true).is_some() {
        left -= 1;
    }
    assert_eq!((left, dict.memory()), (0, 0));
}

#[test]
fn a_scan_meets_every_lasting_entry_while_the_dict_grows_and_shrinks() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut random = Xoshiro::from_seed(seed);
        let mut dict: Dict<Key<6>> = Dict::new();
        let lasting: HashSet<Key<6>> = (0..random.below(2000)).map(|_| Key(random.below(1 << 20) as u32)).collect();
        lasting.iter().for_each(|key| dict.insert(hash(*key), *key, hash));
        let mut others: Vec<Key<6>> = Vec::new();
        let (mut met, mut cursor, mut steps) = (HashSet::new(), 0, 0);
        loop {
            cursor = dict.scan(cursor, |key| {
                met.insert(key);
            });
            steps += 1;
            assert!(steps < 1_000_000, "the scan does not end");
            if cursor == 0 {
                break;
            }
            let growing = steps / 50 % 2 == 0;
            for _ in 0..random.below(200) {
                if growing {
                    let key = Key((1 << 20) + random.below(1 << 24) as u32);
                    dict.insert(hash(key), key, hash);
                    others.push(key);
                } else if let Some(key) = others.pop() {
                    assert!(dict.remove(hash(key), |k| k == key).is_some());
                }
            }
        }
        assert!(lasting.is_subset(&met));
    }
}

#[test]
fn a_scan_of_a_dict_at_rest_meets_each_entry_once() {
    for n in [0, 1, 5, 100, 1000, 12_345] {
        let mut dict: Dict<Key<4>> = Dict::new();
        (0..n).for_each(|i| dict.insert(hash(Key::<4>(i)), Key(i), hash));
        let (mut met, mut cursor) = (Vec::new(), 0);
        loop {
            cursor = dict.scan(cursor, |key| met.push(key.0));
            assert!(cursor < 1 << 32, "cursors stay small numbers");
            if cursor == 0 {
                break;
            }
        }
        met.sort_unstable();
        assert_eq!(met, (0..n).collect::<Vec<_>>());
    }
}

#[test]
fn any_number_is_a_cursor() {
    let mut dict: Dict<Key<4>> = Dict::new();
    (0..1000).for_each(|i| dict.insert(hash(Key::<4>(i)), Key(i), hash));
    for cursor in [u64::MAX, 1 << 63, 12_345_678_901] {
        dict.scan(cursor, |_| {});
    }
}

#[test]
fn random_entries_are_drawn_evenly() {
    let mut random = Xoshiro::from_seed(9);
    let mut dict: Dict<Key<6>> = Dict::new();
    assert_eq!(dict.random(&mut random), None);
    (0..100).for_each(|i| dict.insert(hash(Key::<6>(i)), Key(i), hash));
    let mut drawn: HashMap<u32, u32> = HashMap::new();
    for _ in 0..100_000 {
        *drawn.entry(dict.random(&mut random).unwrap().0).or_default() += 1;
    }
    // 1000 each are expected, with a deviation of 32.
    assert!(drawn.len() == 100 && drawn.values().all(|n| (840..1160).contains(n)), "{drawn:?}");
    let mut sparse: Dict<Key<6>> = Dict::with_capacity(1_000_000);
    sparse.insert(hash(Key::<6>(3)), Key(3), hash);
    assert_eq!(sparse.random(&mut random), Some(Key(3)));
}

#[test]
fn memory_follows_the_entries_up_and_down() {
    let mut dict: Dict<Key<6>> = Dict::new();
    let mut worst: f64 = 0.0;
    for i in 0..200_000u32 {
        dict.insert(hash(Key::<6>(i)), Key(i), hash);
        if i > 20_000 {
            worst = worst.max(dict.memory() as f64 / f64::from(i));
        }
    }
    assert!(worst < 12.0, "{worst} bytes per entry at the worst point");
    for i in 0..200_000u32 {
        dict.remove(hash(Key::<6>(i)), |k| k.0 == i);
        if dict.len() > 20_000 {
            worst = worst.max(dict.memory() as f64 / dict.len() as f64);
        }
    }
    assert!(worst < 15.0, "{worst} bytes per entry at the worst point");
    assert_eq!(dict.memory(), 0);
}

#[test]
fn drains_in_slices_and_stays_usable() {
    let mut dict: Dict<Key<6>> = Dict::new();
    (0..10_000).for_each(|i| dict.insert(hash(Key::<6>(i)), Key(i), hash));
    let mut seen = HashSet::new();
    let mut slices = 0;
    while dict.drain(100, |key| assert!(seen.insert(key))) {
        slices += 1;
        if slices % 10 == 0 {
            check_after_drain(&dict, &seen);
        }
    }
    assert_eq!((seen.len(), dict.len(), dict.memory()), (10_000, 0, 0));
    assert!(slices > 50);
    dict.insert(hash(Key::<6>(1)), Key(1), hash);
    assert_eq!(dict.len(), 1);
}

fn check_after_drain(dict: &Dict<Key<6>>, gone: &HashSet<Key<6>>) {
    for i in 0..10_000 {
        assert_eq!(dict.find(hash(Key::<6>(i)), |k| k.0 == i).is_some(), !gone.contains(&Key(i)));
    }
}

#[test]
fn candidates_are_found_by_tag() {
    let mut dict: Dict<Key<6>> = Dict::new();
    assert_eq!(dict.candidate(5), None);
    dict.prefetch(5);
    (0..1000).for_each(|i| dict.insert(hash(Key::<6>(i)), Key(i), hash));
    let right = (0..1000).filter(|i| dict.candidate(hash(Key::<6>(*i))) == Some(Key(*i))).count();
    assert!(right > 850, "{right} of 1000");
    assert_eq!(Layout::<Key<6>>::SLOTS, 9);
}
