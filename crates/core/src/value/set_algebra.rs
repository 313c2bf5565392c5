//! Intersection, union and difference of sets. A missing key is `None` and counts as the empty set.

use super::set::{Member, Set, SetOp};
use super::{Edit, Thresholds};

/// SINTER: shows the members common to all sets until `show` returns false.
pub fn intersection(sets: &[Option<&Set>], mut show: impl FnMut(&Member) -> bool) {
    let Some(mut sets) = sets.iter().copied().collect::<Option<Vec<&Set>>>() else { return };
    // The smallest is walked, and the smaller of the others are the likelier to lack a member.
    sets.sort_by_key(|set| set.len());
    let Some((smallest, others)) = sets.split_first() else { return };
    for member in smallest.iter() {
        if others.iter().all(|set| set.contains_member(&member)) && !show(&member) {
            return;
        }
    }
}

/// SINTERSTORE: the intersection as a set of its own.
pub fn intersected(sets: &[Option<&Set>], thresholds: &Thresholds) -> Set {
    collect(thresholds, |add| {
        intersection(sets, |member| {
            add(member);
            true
        });
    })
}

/// SINTERCARD: how many members are common to all sets, counting no further than `limit` (0: all).
pub fn intersection_count(sets: &[Option<&Set>], limit: usize) -> usize {
    let mut count = 0;
    intersection(sets, |_| {
        count += 1;
        count != limit
    });
    count
}

/// SUNION: the members of any set.
pub fn union(sets: &[Option<&Set>], thresholds: &Thresholds) -> Set {
    collect(thresholds, |add| sets.iter().flatten().flat_map(|set| set.iter()).for_each(|member| add(&member)))
}

/// SDIFF: the members of the first set that are in none of the others.
pub fn difference(sets: &[Option<&Set>], thresholds: &Thresholds) -> Set {
    let Some((Some(first), others)) = sets.split_first() else { return Set::new() };
    let mut others: Vec<&Set> = others.iter().flatten().copied().collect();
    // The largest is the likeliest to have a member, which ends the search for it.
    others.sort_by_key(|set| std::cmp::Reverse(set.len()));
    collect(thresholds, |add| {
        let kept = first.iter().filter(|member| !others.iter().any(|set| set.contains_member(member)));
        kept.for_each(|member| add(&member));
    })
}

fn collect(thresholds: &Thresholds, fill: impl FnOnce(&mut dyn FnMut(&Member))) -> Set {
    let mut set = Set::new();
    let mut edit = Edit::<SetOp>::silent(thresholds);
    fill(&mut |member| {
        set.add_one(member, &mut edit);
    });
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;
    use std::collections::BTreeSet;

    const T: &Thresholds = &Thresholds::DEFAULT;

    fn contents(set: &Set) -> BTreeSet<Vec<u8>> {
        set.iter().map(|member| member.to_vec()).collect()
    }

    #[test]
    fn agrees_with_a_simple_set() {
        for seed in 0..200 {
            let mut random = Xoshiro::from_seed(seed);
            let sets: Vec<Set> = (0..1 + random.below(4))
                .map(|_| {
                    let mut set = Set::new();
                    let prefix = if random.below(3) == 0 { "x" } else { "" };
                    for _ in 0..random.below(60) {
                        let member = format!("{}{}", if random.below(4) == 0 { prefix } else { "" }, random.below(50));
                        set.add(&[member.as_bytes()], &mut Edit::silent(T));
                    }
                    set
                })
                .collect();
            let all: Vec<Option<&Set>> = sets.iter().map(Some).collect();
            let models: Vec<_> = sets.iter().map(contents).collect();
            let common = models[1..].iter().fold(models[0].clone(), |a, b| &a & b);
            assert_eq!(common, contents(&intersected(&all, T)), "seed {seed}");
            assert_eq!(common.len(), intersection_count(&all, 0));
            assert_eq!(common.len().min(3), intersection_count(&all, 3));
            let any = models.iter().fold(BTreeSet::new(), |a, b| &a | b);
            assert_eq!(any, contents(&union(&all, T)), "seed {seed}");
            let only = models[1..].iter().fold(models[0].clone(), |a, b| &a - b);
            assert_eq!(only, contents(&difference(&all, T)), "seed {seed}");
        }
    }

    #[test]
    fn a_missing_key_is_an_empty_set() {
        let mut set = Set::new();
        set.add(&[b"1", b"2"], &mut Edit::silent(T));
        assert_eq!(0, intersected(&[Some(&set), None], T).len());
        assert_eq!(2, union(&[None, Some(&set)], T).len());
        assert_eq!(2, difference(&[Some(&set), None], T).len());
        assert_eq!(0, difference(&[None, Some(&set)], T).len());
        assert_eq!("intset", union(&[Some(&set)], T).encoding());
    }
}
