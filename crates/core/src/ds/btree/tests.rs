//! Tests of the tree against `BTreeMap`, with random operations and views.

use super::inner::Root;
use super::*;
use crate::env::Xoshiro;
use std::collections::BTreeSet;

type Model = BTreeSet<(Vec<u8>, u64)>;

impl BTree {
    fn check(&self) {
        let (count, memory) = match &self.root {
            Root::Leaf(leaf) => (leaf.count() as u64, leaf.memory()),
            Root::Inner(inner) => {
                let (count, memory, _) = inner.check(self.multi);
                (count, memory)
            }
        };
        assert_eq!(self.len, count);
        assert_eq!(self.memory, memory);
    }

    fn entries(&self) -> Vec<(Vec<u8>, u64)> {
        let mut cursor = self.cursor(&Probe::START);
        std::iter::from_fn(|| cursor.next().map(|e| (e.key(), e.value))).collect()
    }
}

/// Keys of different kinds: numbers of one length, texts of many, few that repeat, long ones with a long common start.
fn random_key(random: &mut Xoshiro, kind: u64, multi: bool) -> Vec<u8> {
    let kind = if kind == 9 { random.below(5) } else { kind };
    let mut key = match kind {
        0 => (random.below(3000) as u32).to_be_bytes().to_vec(),
        1 => {
            let len = random.below(12) as usize;
            (0..len).map(|_| b"abc"[random.below(3) as usize]).collect()
        }
        2 => vec![b'k', random.below(4) as u8],
        3 => {
            let mut key = vec![b'p'; 300];
            key[random.below(300) as usize] += random.below(3) as u8;
            key
        }
        _ => vec![random.below(250) as u8; random.below(2500) as usize],
    };
    if multi {
        // Makes the keys prefix-free: no key has a zero but at its end.
        key.iter_mut().for_each(|b| *b = (*b).max(1));
        key.push(0);
    }
    key
}

fn random_value(random: &mut Xoshiro) -> u64 {
    random.next() >> (24 + random.below(40))
}

fn run(seed: u64, multi: bool, kind: u64, steps: u64) {
    let mut random = Xoshiro::from_seed(seed);
    let mut tree = BTree::new(multi);
    let mut model = Model::new();
    let mut views: Vec<(BTree, Model)> = Vec::new();
    for step in 0..steps {
        let key = random_key(&mut random, kind, multi);
        let value = random_value(&mut random);
        let old = model.range((key.clone(), 0)..=(key.clone(), u64::MAX)).next().map(|e| e.1);
        // Growing phases and shrinking ones.
        let inserts = if step / 2000 % 2 == 0 { 8 } else { 3 };
        if random.below(10) < inserts {
            let found = tree.insert(&key, value);
            if multi {
                assert_eq!((!model.insert((key, value))).then_some(value), found, "seed {seed}");
            } else {
                assert_eq!(old, found, "seed {seed}");
                old.map(|old| model.remove(&(key.clone(), old)));
                model.insert((key, value));
            }
        } else {
            // Mostly an entry that exists.
            let near = model.range((key.clone(), value)..).next().or_else(|| model.first());
            let (key, value) = if random.below(10) == 0 { (key, value) } else { near.cloned().unwrap_or((key, value)) };
            let present = if multi {
                model.contains(&(key.clone(), value))
            } else {
                model.range((key.clone(), 0)..=(key.clone(), u64::MAX)).next().is_some()
            };
            assert_eq!(present, tree.remove(&key, value).is_some(), "seed {seed}");
            if multi {
                model.remove(&(key, value));
            } else {
                model.retain_key(&key);
            }
        }
        assert_eq!(model.len() as u64, tree.len());
        if step % 500 == 0 {
            tree.check();
            probes_agree(&tree, &model, &mut random, kind, multi);
        }
        if step % 300 == 0 {
            views.push((tree.clone(), model.clone()));
        }
        if step % 700 == 0 && !views.is_empty() {
            let (view, then) = views.swap_remove(random.below(views.len() as u64) as usize);
            assert!(then.iter().eq(view.entries().iter()), "seed {seed}");
        }
    }
    tree.check();
    assert!(model.iter().eq(tree.entries().iter()), "seed {seed}");
    for (key, value) in model.clone() {
        assert_eq!(Some(value), tree.remove(&key, value).filter(|_| model.remove(&(key, value))));
        if model.len().is_multiple_of(200) {
            tree.check();
        }
    }
    assert!(tree.is_empty());
    tree.check();
    for (view, then) in views {
        assert!(then.iter().eq(view.entries().iter()), "seed {seed}");
    }
}

trait RetainKey {
    fn retain_key(&mut self, key: &[u8]);
}

impl RetainKey for Model {
    fn retain_key(&mut self, key: &[u8]) {
        let found: Vec<_> = self.range((key.to_vec(), 0)..=(key.to_vec(), u64::MAX)).cloned().collect();
        found.iter().for_each(|e| {
            self.remove(e);
        });
    }
}

fn probes_agree(tree: &BTree, model: &Model, random: &mut Xoshiro, kind: u64, multi: bool) {
    let entries: Vec<_> = model.iter().cloned().collect();
    for _ in 0..20 {
        let mut key = random_key(random, kind, multi);
        if random.below(2) == 0 {
            key.truncate(random.below(key.len() as u64 + 1) as usize);
        }
        let value = random_value(random);
        let mut probes = vec![Probe::before(&key), Probe::after(&key)];
        if multi && key.last() == Some(&0) {
            probes.push(Probe::at(&key, value));
        }
        for probe in probes {
            let passes = |e: &(Vec<u8>, u64)| match probe.side {
                Side::Before => e.0[..] < key[..],
                Side::After => e.0[..] < key[..] || e.0.starts_with(&key),
                Side::At(value) => (&e.0[..], e.1) < (&key[..], value),
            };
            let rank = entries.partition_point(passes);
            assert_eq!(rank as u64, tree.rank(&probe), "{probe:?}");
            let key_of = |e: Option<Entry<'_>>| e.map(|e| (e.key(), e.value));
            assert_eq!(entries.get(rank).cloned(), key_of(tree.cursor(&probe).next()));
            assert_eq!(rank.checked_sub(1).map(|i| entries[i].clone()), key_of(tree.cursor(&probe).prev()));
            let mut cursor = tree.cursor_at(rank as u64);
            assert_eq!(entries.get(rank).cloned(), key_of(cursor.next()));
            // Walks of limited length from here to another place, both ways.
            let other = random.below(entries.len() as u64 + 1) as usize;
            let Some(stop) = entries.get(other) else { continue };
            let place = if multi { Probe::at(&stop.0, stop.1) } else { Probe::before(&stop.0) };
            let limit = random.below(600) as usize;
            let mut walked = Vec::new();
            let mut cursor = tree.cursor(&probe);
            let ended = if other >= rank {
                let ended = cursor.walk(&place, limit, |e| walked.push((e.key(), e.value)));
                assert_eq!(entries[rank..other.min(rank + limit)], walked[..]);
                ended
            } else {
                let ended = cursor.walk_back(&place, limit, |e| walked.push((e.key(), e.value)));
                walked.reverse();
                assert_eq!(entries[other.max(rank.saturating_sub(limit))..rank], walked[..]);
                ended
            };
            if limit > rank.abs_diff(other) {
                assert!(ended);
            }
            if limit < rank.abs_diff(other) {
                assert!(!ended);
            }
        }
    }
}

#[test]
fn maps_agree_with_a_model() {
    (0..6).for_each(|kind| run(kind, false, if kind == 5 { 9 } else { kind }, 8000));
}

#[test]
fn multimaps_agree_with_a_model() {
    (0..6).for_each(|kind| run(100 + kind, true, if kind == 5 { 9 } else { kind }, 8000));
}

#[test]
fn built_trees_equal_inserted_ones() {
    for kind in 0..5 {
        for n in [0, 1, 2, 500, 20_000] {
            let mut random = Xoshiro::from_seed(kind);
            let model: Model =
                (0..n).map(|_| (random_key(&mut random, kind, true), random_value(&mut random))).collect();
            let mut builder = Builder::new(true);
            model.iter().for_each(|(key, value)| builder.push(key, *value));
            let mut tree = builder.finish();
            tree.check();
            assert!(model.iter().eq(tree.entries().iter()));
            probes_agree(&tree, &model, &mut random, kind, true);
            // And it takes changes like any other.
            for (key, value) in model.iter().step_by(2) {
                assert!(tree.remove(key, *value).is_some());
            }
            tree.check();
        }
    }
}

#[test]
fn sequential_insertion_fills_leaves_in_every_direction() {
    let fill = |keys: &mut dyn Iterator<Item = u32>| {
        let mut tree = BTree::multimap();
        keys.for_each(|n| assert_eq!(None, tree.insert(&n.to_be_bytes(), u64::from(n))));
        tree.check();
        tree.memory() as f64 / tree.len() as f64
    };
    // One or two bytes of suffix (a leaf spans more than 256 keys), three of value and half a byte of nodes above.
    assert!(fill(&mut (0..200_000)) < 5.7);
    assert!(fill(&mut (0..200_000).rev()) < 5.7);
    // Three interleaved rising runs: an index on a column with few values.
    let mut runs = (0..200_000u32).map(|n| ((n % 3) << 20) | (n / 3));
    assert!(fill(&mut runs) < 5.9);
}

#[test]
fn views_cost_a_copy_of_the_path_and_no_more() {
    let mut tree = BTree::multimap();
    (0..100_000u32).for_each(|n| assert_eq!(None, tree.insert(&n.to_be_bytes(), 0)));
    assert_eq!(0, tree.copied());
    let view = tree.clone();
    tree.insert(&500u32.to_be_bytes(), 1);
    let once = tree.copied();
    assert!(once > 0 && once < 20_000, "{once}");
    tree.insert(&500u32.to_be_bytes(), 2);
    assert_eq!(once, tree.copied());
    assert_eq!(100_000, view.len());
    assert_eq!(100_002, tree.len());
    drop(view);
    tree.insert(&90_000u32.to_be_bytes(), 1);
    assert_eq!(once, tree.copied());
}
