//! Random samples without repetition, from a sequence or from something that can only be picked from.

use crate::env::Xoshiro;
use foldhash::fast::RandomState;
use std::collections::HashSet;

/// `count` of the `len` elements of a sequence, each subset as likely, in the sequence's order.
pub(super) fn select<T>(elements: impl Iterator<Item = T>, len: usize, count: usize, random: &mut Xoshiro) -> Vec<T> {
    let mut wanted = count.min(len) as u64;
    let mut chosen = Vec::with_capacity(wanted as usize);
    for (i, element) in elements.enumerate() {
        if wanted == 0 {
            break;
        }
        // Among those left, take this one with the probability that it is needed.
        if random.below((len - i) as u64) < wanted {
            chosen.push(element);
            wanted -= 1;
        }
    }
    chosen
}

/// True when picking at random until enough are distinct is cheaper than walking over all.
pub(super) fn is_sparse(count: usize, len: usize) -> bool {
    // Below a third, fewer than one pick in three is wasted at the end.
    count < len / 3
}

/// `count` distinct elements by repeated picks; `name` tells elements apart.
pub(super) fn pick<T, N: std::hash::Hash + Eq>(
    count: usize,
    mut pick: impl FnMut() -> Option<T>,
    name: impl Fn(&T) -> N,
) -> Vec<T> {
    let mut chosen = Vec::with_capacity(count);
    let mut names = HashSet::with_capacity_and_hasher(count, RandomState::default());
    while chosen.len() < count {
        let Some(element) = pick() else { break };
        if names.insert(name(&element)) {
            chosen.push(element);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_selected_as_often() {
        let mut random = Xoshiro::from_seed(1);
        let mut times = [0; 10];
        for _ in 0..10_000 {
            let chosen = select(0..10, 10, 3, &mut random);
            assert_eq!(3, chosen.len());
            assert!(chosen.is_sorted());
            chosen.iter().for_each(|i| times[*i] += 1);
        }
        assert!(times.iter().all(|n| (2700..3300).contains(n)), "{times:?}");
        assert_eq!(vec![0, 1], select(0..2, 2, 5, &mut random));
    }

    #[test]
    fn picks_are_distinct() {
        let mut random = Xoshiro::from_seed(2);
        let mut chosen = pick(10, || Some(random.below(40)), |n| *n);
        chosen.sort();
        chosen.dedup();
        assert_eq!(10, chosen.len());
    }
}
