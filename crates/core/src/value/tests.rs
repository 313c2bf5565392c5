//! Random commands on each type against a simple model, with redo, undo and bytes of everything that was done.

use super::list::Side;
use super::zset::{Added, Conditions};
use super::*;
use crate::env::Xoshiro;
use std::collections::{BTreeMap, BTreeSet};

/// Thresholds so low that a short run crosses them often.
const LOW: Thresholds =
    Thresholds { hash_entries: 8, hash_value: 12, set_integers: 8, zset_entries: 8, zset_value: 12, list_node: 4 };

fn both(random: &mut Xoshiro) -> &'static Thresholds {
    if random.below(2) == 0 { &LOW } else { &Thresholds::DEFAULT }
}

fn word(random: &mut Xoshiro) -> Vec<u8> {
    let n = random.below(30);
    match random.below(8) {
        0 => format!("word:{n}").into_bytes(),
        1 => format!("long word that does not stay small:{n}").into_bytes(),
        _ => n.to_string().into_bytes(),
    }
}

fn words(random: &mut Xoshiro) -> Vec<Vec<u8>> {
    (0..random.below(4)).map(|_| word(random)).collect()
}

fn slices(words: &[Vec<u8>]) -> Vec<&[u8]> {
    words.iter().map(|w| &w[..]).collect()
}

/// The value as a client can see it: elements in the order in which they are shown, where there is one.
fn shown(value: &Value) -> Vec<Vec<u8>> {
    match value {
        Value::Str(s) => vec![s.to_vec()],
        Value::List(list) => list.iter().map(<[u8]>::to_vec).collect(),
        Value::Set(set) => {
            let mut all: Vec<_> = set.iter().map(|m| m.to_vec()).collect();
            if set.encoding() == "hashtable" {
                all.sort();
            }
            all
        }
        Value::Hash(hash) => {
            let mut all: Vec<_> = hash.iter().map(|(f, v)| [f, b"=", v].concat()).collect();
            if hash.encoding() == "hashtable" {
                all.sort();
            }
            all
        }
        Value::ZSet(zset) => zset.iter().map(|(m, s)| [m, format!("={s}").as_bytes()].concat()).collect(),
    }
}

fn through_bytes(op: &Op, thresholds: &Thresholds) -> Op {
    let mut bytes = Vec::new();
    op.encode(&mut bytes);
    let mut input = &bytes[..];
    let back = Op::decode(&mut input, thresholds).unwrap();
    assert!(input.is_empty());
    assert_eq!(*op, back);
    back
}

/// One step of a type: changes the value, and returns redo and undo.
type Step<'a> = &'a mut dyn FnMut(&mut Value, &'static Thresholds, &mut Xoshiro) -> (Option<Op>, Option<Op>);

/// Runs steps and checks after each that redo from the state before gives the state after and that undo gives back what
/// was shown before; at the end undoes all.
fn run(start: &Value, steps: usize, random: &mut Xoshiro, step: Step) {
    let mut value = start.clone();
    let mut undos = Vec::new();
    let thresholds = both(random);
    for _ in 0..steps {
        let before = value.clone();
        let (redo, undo) = step(&mut value, thresholds, random);
        assert_eq!(redo.is_some(), undo.is_some(), "a change has both");
        let (Some(redo), Some(undo)) = (redo, undo) else {
            assert_eq!(shown(&before), shown(&value), "no record, no change");
            continue;
        };
        let (redo, undo) = (through_bytes(&redo, thresholds), through_bytes(&undo, thresholds));
        let mut again = before.clone();
        let inverse = again.apply(redo, thresholds).unwrap();
        assert_eq!(shown(&value), shown(&again));
        assert_eq!(value.digest(), again.digest());
        assert_eq!(value, again);
        again.apply(through_bytes(&inverse, thresholds), thresholds).unwrap();
        assert_eq!(shown(&before), shown(&again));
        let mut back = value.clone();
        let forth = back.apply(undo.clone(), thresholds).unwrap();
        assert_eq!(shown(&before), shown(&back));
        assert_eq!(before.digest(), back.digest());
        back.apply(forth, thresholds).unwrap();
        assert_eq!(shown(&value), shown(&back));
        undos.push(undo);
        check_bytes(&value, thresholds);
    }
    for undo in undos.into_iter().rev() {
        value.apply(undo, thresholds).unwrap();
    }
    assert_eq!(shown(start), shown(&value));
    assert_eq!(start.digest(), value.digest());
}

fn check_bytes(value: &Value, thresholds: &Thresholds) {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    let mut input = &bytes[..];
    let back = Value::decode(&mut input, thresholds).unwrap();
    assert!(input.is_empty());
    assert_eq!(*value, back);
    assert_eq!(value.digest(), back.digest());
    if value.encoding() == back.encoding() {
        assert_eq!(shown(value), shown(&back));
    }
    assert!(value.memory() >= value.len_hint());
}

fn finish<O: Operation>(edit: Edit<O>, wrap: impl Fn(O) -> Op) -> (Option<Op>, Option<Op>) {
    let (redo, undo) = edit.finish();
    (redo.map(&wrap), undo.map(&wrap))
}

#[test]
fn hashes_are_redone_and_undone() {
    for seed in 0..300 {
        let mut random = Xoshiro::from_seed(seed);
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut step = |value: &mut Value, thresholds: &'static Thresholds, random: &mut Xoshiro| {
            let Value::Hash(hash) = value else { unreachable!() };
            let mut edit = Edit::recording(thresholds, true, true);
            let fields = words(random);
            match random.below(6) {
                0..=1 => {
                    let new = fields.iter().filter(|f| model.remove(*f).is_some()).count();
                    assert_eq!(new, hash.remove(&slices(&fields), &mut edit), "seed {seed}");
                }
                2 => {
                    let field = word(random);
                    let old = model.get(&field).map_or(Some(0), |v| crate::ds::number::parse_i64(v));
                    let sum = hash.increment(&field, 7, &mut edit).ok();
                    assert_eq!(old.map(|n| n + 7), sum, "seed {seed}");
                    sum.map(|n| model.insert(field, n.to_string().into_bytes()));
                }
                _ => {
                    let pairs: Vec<Vec<u8>> = fields.into_iter().flat_map(|f| [f, word(random)]).collect();
                    let old = model.len();
                    pairs.chunks(2).for_each(|p| drop(model.insert(p[0].clone(), p[1].clone())));
                    assert_eq!(model.len() - old, hash.set(&slices(&pairs), &mut edit), "seed {seed}");
                }
            }
            let mut all: Vec<_> = hash.iter().map(|(f, v)| (f.to_vec(), v.to_vec())).collect();
            all.sort();
            assert!(all.into_iter().eq(model.clone()), "seed {seed}");
            assert_eq!(model.len(), hash.len());
            assert!(model.iter().all(|(f, v)| hash.get(f) == Some(v)), "seed {seed}");
            assert!(hash.encoding() == "hashtable" || hash.len() <= thresholds.hash_entries);
            finish(edit, Op::Hash)
        };
        run(&Value::Hash(Box::default()), 40, &mut random, &mut step);
    }
}

#[test]
fn sets_are_redone_and_undone() {
    for seed in 0..300 {
        let mut random = Xoshiro::from_seed(seed);
        let mut model: BTreeSet<Vec<u8>> = BTreeSet::new();
        let mut step = |value: &mut Value, thresholds: &'static Thresholds, random: &mut Xoshiro| {
            let Value::Set(set) = value else { unreachable!() };
            let mut edit = Edit::recording(thresholds, true, true);
            let members = words(random);
            match random.below(6) {
                0..=1 => {
                    let there = members.iter().filter(|m| model.remove(*m)).count();
                    assert_eq!(there, set.remove(&slices(&members), &mut edit), "seed {seed}");
                }
                2 => {
                    for member in set.pop_many(random.below(4) as usize, random, &mut edit) {
                        assert!(model.remove(&member[..]), "seed {seed}");
                    }
                }
                3 => {
                    let popped = set.pop(random, &mut edit);
                    assert_eq!(!model.is_empty(), popped.is_some(), "seed {seed}");
                    popped.inspect(|m| assert!(model.remove(&m[..]), "seed {seed}"));
                }
                _ => {
                    let new = members.iter().filter(|m| model.insert((*m).clone())).count();
                    assert_eq!(new, set.add(&slices(&members), &mut edit), "seed {seed}");
                }
            }
            let all: BTreeSet<Vec<u8>> = set.iter().map(|m| m.to_vec()).collect();
            assert_eq!(model, all, "seed {seed}");
            assert_eq!(model.len(), set.len());
            assert!(model.iter().all(|m| set.contains(m)), "seed {seed}");
            finish(edit, Op::Set)
        };
        run(&Value::Set(Box::default()), 40, &mut random, &mut step);
    }
}

#[test]
fn lists_are_redone_and_undone() {
    for seed in 0..300 {
        let mut random = Xoshiro::from_seed(seed);
        let mut model: Vec<Vec<u8>> = Vec::new();
        let mut step = |value: &mut Value, thresholds: &'static Thresholds, random: &mut Xoshiro| {
            let Value::List(list) = value else { unreachable!() };
            let mut edit = Edit::recording(thresholds, true, true);
            let values = words(random);
            let side = if random.below(2) == 0 { Side::Front } else { Side::Back };
            change_list(list, &mut model, values, side, random, &mut edit);
            assert_eq!(model.len(), list.len(), "seed {seed}");
            assert!(model.iter().map(|v| &v[..]).eq(list.iter()), "seed {seed}");
            assert!(model.iter().rev().map(|v| &v[..]).eq(list.iter_range_back(0..list.len())), "seed {seed}");
            let (start, stop) = (random.below(20) as i64 - 10, random.below(20) as i64 - 10);
            let range = range::positions(start, stop, model.len());
            assert!(model[range].iter().map(|v| &v[..]).eq(list.range(start, stop)), "seed {seed}");
            finish(edit, Op::List)
        };
        run(&Value::List(Box::default()), 60, &mut random, &mut step);
    }
}

fn change_list(
    list: &mut List,
    model: &mut Vec<Vec<u8>>,
    values: Vec<Vec<u8>>,
    side: Side,
    random: &mut Xoshiro,
    edit: &mut Edit<ListOp>,
) {
    let (value, other) = (word(random), word(random));
    let index = random.below(20) as i64 - 10;
    match random.below(9) {
        0..=2 if !values.is_empty() => {
            list.push(side, &slices(&values), edit);
            for v in values {
                if side == Side::Front { model.insert(0, v) } else { model.push(v) }
            }
        }
        3 => {
            let popped = list.pop(side, edit).map(|v| v.to_vec());
            let expected = match side {
                Side::Front if !model.is_empty() => Some(model.remove(0)),
                _ => model.pop(),
            };
            assert_eq!(expected, popped);
        }
        4 => {
            let popped: Vec<_> = list.pop_many(side, values.len(), edit).iter().map(|v| v.to_vec()).collect();
            let count = values.len().min(model.len());
            let expected: Vec<_> = match side {
                Side::Front => model.drain(..count).collect(),
                Side::Back => model.drain(model.len() - count..).rev().collect(),
            };
            assert_eq!(expected, popped);
        }
        5 if random.below(4) == 0 => {
            list.trim(index, -index, edit);
            *model = model[range::positions(index, -index, model.len())].to_vec();
        }
        6 => {
            let at = range::position(index, model.len());
            assert_eq!(at.map(|i| &model[i][..]), list.get(index));
            assert_eq!(at.is_some(), list.set(index, &value, edit));
            at.map(|i| std::mem::replace(&mut model[i], value));
        }
        7 => {
            let pivot = model.iter().position(|v| *v == other);
            let before = side == Side::Front;
            assert_eq!(pivot.map(|_| model.len() + 1), list.insert(before, &other, &value, edit));
            pivot.inspect(|i| model.insert(i + !before as usize, value));
        }
        _ => {
            let count = random.below(5) as i64 - 2;
            let mut at: Vec<usize> = (0..model.len()).filter(|i| model[*i] == value).collect();
            if count < 0 {
                at.reverse();
            }
            if count != 0 {
                at.truncate(count.unsigned_abs() as usize);
            }
            assert_eq!(at.len(), list.remove(count, &value, edit));
            at.sort();
            at.iter().rev().for_each(|i| drop(model.remove(*i)));
        }
    }
}

#[test]
fn sorted_sets_are_redone_and_undone() {
    for seed in 0..300 {
        let mut random = Xoshiro::from_seed(seed);
        let mut model: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
        let mut step = |value: &mut Value, thresholds: &'static Thresholds, random: &mut Xoshiro| {
            let Value::ZSet(zset) = value else { unreachable!() };
            let mut edit = Edit::recording(thresholds, true, true);
            change_zset(zset, &mut model, random, &mut edit);
            let order = ordered(&model);
            assert!(order.iter().map(|(m, s)| (&m[..], *s)).eq(zset.iter()), "seed {seed}");
            assert!(order.iter().rev().map(|(m, s)| (&m[..], *s)).eq(zset.walk(0..zset.len(), true)), "seed {seed}");
            for (rank, (member, score)) in order.iter().enumerate() {
                assert_eq!(Some((rank, *score)), zset.rank(member, false), "seed {seed}");
                assert_eq!(Some((order.len() - 1 - rank, *score)), zset.rank(member, true), "seed {seed}");
                assert_eq!(Some((&member[..], *score)), zset.at(rank), "seed {seed}");
            }
            finish(edit, Op::ZSet)
        };
        run(&Value::ZSet(Box::default()), 40, &mut random, &mut step);
    }
}

fn ordered(model: &BTreeMap<Vec<u8>, f64>) -> Vec<(Vec<u8>, f64)> {
    let mut order: Vec<_> = model.iter().map(|(m, s)| (m.clone(), *s)).collect();
    order.sort_by(|a, b| a.1.partial_cmp(&b.1).unwrap().then_with(|| a.0.cmp(&b.0)));
    order
}

fn change_zset(zset: &mut ZSet, model: &mut BTreeMap<Vec<u8>, f64>, random: &mut Xoshiro, edit: &mut Edit<ZSetOp>) {
    let member = word(random);
    let score = (random.below(9) as f64 - 4.0) / 2.0;
    let order = ordered(model);
    let text = |x: u64, exclusive: bool| format!("{}{}", if exclusive { "(" } else { "" }, x as f64 - 3.0);
    match random.below(8) {
        0 => {
            let members = words(random);
            let there = members.iter().filter(|m| model.remove(*m).is_some()).count();
            assert_eq!(there, zset.remove(&slices(&members), edit));
        }
        1 => {
            let max = random.below(2) == 0;
            let popped = zset.pop(max, random.below(3) as usize, edit);
            let mut expected: Vec<_> = order;
            if max {
                expected.reverse();
            }
            for ((m, s), (pm, ps)) in expected.iter().zip(&popped) {
                assert_eq!((&m[..], *s), (&pm[..], *ps));
                model.remove(m);
            }
        }
        2 => {
            let (min, max) = (text(random.below(6), random.below(2) == 0), text(random.below(6), random.below(2) == 0));
            let range = zset::range::ScoreRange::parse(min.as_bytes(), max.as_bytes()).unwrap();
            let inside = |s: f64| !range.is_below(s) && !range.is_above(s);
            let ranks = zset.ranks_by_score(&range);
            let expected: Vec<_> = order.iter().filter(|(_, s)| inside(*s)).map(|(m, s)| (&m[..], *s)).collect();
            assert!(zset.walk(ranks.clone(), false).eq(expected.iter().copied()));
            if random.below(3) == 0 {
                assert_eq!(expected.len(), zset.remove_ranks(ranks, edit));
                model.retain(|_, s| !inside(*s));
            }
        }
        3 => {
            let by = zset.increment(&member, score, Conditions::default(), edit).unwrap();
            let sum = model.get(&member).map_or(score, |old| old + score);
            let expected = match model.insert(member, sum) {
                None => Added::New(sum),
                Some(old) if old == sum => Added::Same(sum),
                Some(_) => Added::Updated(sum),
            };
            assert_eq!(expected, by);
        }
        _ => {
            let flag = |random: &mut Xoshiro| random.below(4) == 0;
            let when =
                Conditions { new: flag(random), existing: flag(random), greater: flag(random), less: flag(random) };
            let expected = match model.get(&member).copied() {
                None if when.existing => Added::Refused,
                None => Added::New(score),
                Some(_) if when.new => Added::Refused,
                Some(old) if when.greater && score <= old || when.less && score >= old => Added::Refused,
                Some(old) if old == score => Added::Same(score),
                Some(_) => Added::Updated(score),
            };
            if let Added::New(score) | Added::Updated(score) = expected {
                model.insert(member.clone(), score);
            }
            assert_eq!(expected, zset.add(&member, score, when, edit));
        }
    }
}

#[test]
fn ranges_by_bytes_follow_their_bounds() {
    for thresholds in [&LOW, &Thresholds::DEFAULT] {
        let mut zset = ZSet::new();
        let members = ["", "a", "b", "b0", "c", "d", "e", "f", "g", "g1", "z"];
        for member in members {
            zset.add(member.as_bytes(), 0.0, Conditions::default(), &mut Edit::silent(thresholds));
        }
        let bounds = ["-", "+", "[", "(", "[b", "(b", "[b1", "(g1", "[zz"];
        for (min, max) in bounds.iter().flat_map(|min| bounds.map(|max| (min, max))) {
            let range = zset::range::LexRange::parse(min.as_bytes(), max.as_bytes()).unwrap();
            let inside = |m: &&&str| !range.is_below(m.as_bytes()) && !range.is_above(m.as_bytes());
            let expected: Vec<_> = members.iter().filter(inside).map(|m| m.as_bytes()).collect();
            let found: Vec<_> = zset.walk(zset.ranks_by_lex(&range), false).map(|(m, _)| m).collect();
            assert_eq!(expected, found, "{min} {max}");
        }
    }
}

#[test]
fn samples_are_distinct_members() {
    let mut random = Xoshiro::from_seed(1);
    for count in [0, 5, 100, 1000] {
        let (mut set, mut hash, mut zset) = (Set::new(), Hash::new(), ZSet::new());
        let names: Vec<String> = (0..count).map(|n| format!("member:{n}")).collect();
        let t = &Thresholds::DEFAULT;
        for name in &names {
            set.add(&[name.as_bytes()], &mut Edit::silent(t));
            hash.set(&[name.as_bytes(), b"v"], &mut Edit::silent(t));
            zset.add(name.as_bytes(), 1.0, Conditions::default(), &mut Edit::silent(t));
        }
        for wanted in [0, 1, 10, 90, 2000] {
            let expected = wanted.min(count);
            let distinct = |all: Vec<Vec<u8>>| {
                assert_eq!(expected, all.len());
                assert_eq!(expected, all.iter().collect::<BTreeSet<_>>().len());
                assert!(all.iter().all(|m| set.contains(m)));
            };
            distinct(set.sample(wanted, &mut random).iter().map(|m| m.to_vec()).collect());
            distinct(hash.sample(wanted, &mut random).iter().map(|(f, _)| f.to_vec()).collect());
            distinct(zset.sample(wanted, &mut random).iter().map(|(m, _)| m.to_vec()).collect());
        }
        assert_eq!(count > 0, set.random(&mut random).is_some());
        assert_eq!(count > 0, hash.random(&mut random).is_some());
        assert_eq!(count > 0, zset.random(&mut random).is_some());
    }
}

#[test]
fn encodings_change_at_the_thresholds() {
    let t = &Thresholds::DEFAULT;
    let (mut hash, mut set, mut zset) = (Hash::new(), Set::new(), ZSet::new());
    for n in 0..=512 {
        assert_eq!("listpack", hash.encoding());
        assert_eq!("intset", set.encoding());
        assert_eq!(if n <= 128 { "listpack" } else { "skiplist" }, zset.encoding());
        let text = n.to_string();
        hash.set(&[text.as_bytes(), b"v"], &mut Edit::silent(t));
        set.add(&[text.as_bytes()], &mut Edit::silent(t));
        zset.add(text.as_bytes(), n as f64, Conditions::default(), &mut Edit::silent(t));
    }
    assert_eq!(("hashtable", "hashtable"), (hash.encoding(), set.encoding()));
    let (long, longer) = ([b'x'; 64], [b'x'; 65]);
    for (member, small) in [(&long[..], true), (&longer[..], false)] {
        let (mut hash, mut set, mut zset) = (Hash::new(), Set::new(), ZSet::new());
        hash.set(&[b"f", member], &mut Edit::silent(t));
        set.add(&[member], &mut Edit::silent(t));
        zset.add(member, 1.0, Conditions::default(), &mut Edit::silent(t));
        assert_eq!(if small { "listpack" } else { "hashtable" }, hash.encoding());
        assert_eq!(if small { "listpack" } else { "skiplist" }, zset.encoding());
        assert_eq!("hashtable", set.encoding());
    }
}

#[test]
fn scores_come_back_from_their_bytes() {
    let mut buffer = [0; 8];
    let scores = [0.0, -0.0, 1.0, -1.0, 127.0, 128.0, -128.0, -129.0, 1e15, -1e15, 1e16, 0.1, f64::INFINITY, f64::MIN];
    for score in scores {
        let back = zset::take_score(zset::put_score(score, &mut buffer));
        assert_eq!(score.to_bits(), back.to_bits(), "{score}");
    }
    assert_eq!(1, zset::put_score(-128.0, &mut buffer).len());
    assert_eq!(2, zset::put_score(128.0, &mut buffer).len());
}

#[test]
fn hostile_bytes_are_refused_without_panic() {
    let mut random = Xoshiro::from_seed(7);
    let mut samples: Vec<Vec<u8>> = Vec::new();
    let mut hash = Hash::new();
    hash.set(&[b"field", b"value", b"other", b"12"], &mut Edit::silent(&LOW));
    let pairs = || [&b"a"[..], b"1"].into_iter().collect();
    let ops = [
        Op::Put(Value::Hash(Box::new(hash.clone())), Some(5)),
        Op::Hash(HashOp::Many(vec![HashOp::Set(pairs()), HashOp::Replace(Box::new(hash))])),
        Op::List(ListOp::Insert { at: vec![1, 5, 9], values: words(&mut random).iter().collect() }),
        Op::ZSet(ZSetOp::Set(pairs())),
        Op::Set(SetOp::Add(pairs())),
        Op::Str(StrOp::Write { at: 3, bytes: b"abc".as_slice().into(), len: 10 }),
    ];
    for op in &ops {
        let mut bytes = Vec::new();
        op.encode(&mut bytes);
        samples.push(bytes);
    }
    for _ in 0..200_000 {
        let mut bytes = samples[random.below(samples.len() as u64) as usize].clone();
        for _ in 0..1 + random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next() as u8;
        }
        bytes.truncate(1 + random.below(bytes.len() as u64) as usize);
        if let Ok(op) = Op::decode(&mut &bytes[..], &LOW)
            && let Some(mut value) = op.empty_value()
        {
            let _ = value.apply(op, &LOW);
        }
    }
}
