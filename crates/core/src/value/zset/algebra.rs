//! Union, intersection and difference of sorted sets and sets, with weights and aggregation.

use super::ZSet;
use crate::reply::Blob;
use crate::value::set::{Member, Set};
use foldhash::quality::RandomState;
use std::cmp::Ordering;
use std::collections::HashMap;

/// One of the keys that are combined.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// There is no such key: the empty set.
    Missing,
    /// A set, of which every member has score 1.
    Set(&'a Set),
    /// A sorted set.
    ZSet(&'a ZSet),
}

/// How the scores of one member are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aggregate {
    /// Their sum (0 for infinity minus infinity).
    #[default]
    Sum,
    /// The least.
    Min,
    /// The greatest.
    Max,
}

impl Aggregate {
    fn apply(self, a: f64, b: f64) -> f64 {
        match self {
            Aggregate::Sum => zero_if_nan(a + b),
            Aggregate::Min => a.min(b),
            Aggregate::Max => a.max(b),
        }
    }
}

fn zero_if_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

impl Source<'_> {
    fn len(&self) -> usize {
        match self {
            Source::Missing => 0,
            Source::Set(set) => set.len(),
            Source::ZSet(zset) => zset.len(),
        }
    }

    fn score(&self, member: &Member) -> Option<f64> {
        match self {
            Source::Missing => None,
            Source::Set(set) => set.contains_member(member).then_some(1.0),
            Source::ZSet(zset) => zset.score(member),
        }
    }

    /// Shows members with scores until `show` returns false.
    fn each(&self, mut show: impl FnMut(&Member, f64) -> bool) {
        match self {
            Source::Missing => {}
            Source::Set(set) => {
                set.iter().all(|member| show(&member, 1.0));
            }
            Source::ZSet(zset) => {
                zset.iter().all(|(member, score)| show(&Member::Bytes(member), score));
            }
        }
    }
}

/// Members with their scores, in the order of a sorted set. Not one yet, since a small one makes 0 of -0, which Redis
/// shows in the replies of ZUNION and its kin.
pub type Scored = Vec<(Blob, f64)>;

/// ZUNION: the members of any source. Sources come with their weights.
pub fn union(sources: &[(Source, f64)], aggregate: Aggregate) -> Scored {
    let mut scores: HashMap<Blob, f64, RandomState> = HashMap::default();
    for (source, weight) in smallest_first(sources) {
        source.each(|member, score| {
            let score = zero_if_nan(weight * score);
            match scores.get_mut(&**member) {
                Some(old) => *old = aggregate.apply(*old, score),
                None => drop(scores.insert(Blob::from_slice(member), score)),
            }
            true
        });
    }
    in_order(scores.into_iter().collect())
}

/// ZINTER: the members common to all sources. Sources come with their weights.
pub fn intersection(sources: &[(Source, f64)], aggregate: Aggregate) -> Scored {
    let sources = smallest_first(sources);
    let mut scores = Vec::new();
    common(&sources, |member, score| {
        let mut sum = zero_if_nan(sources[0].1 * score);
        for (source, weight) in &sources[1..] {
            // Not a number (0 times infinity) counts as 0 in a sum, and not at all in MIN and MAX, as in Redis.
            let score = source.score(member).expect("a common member");
            sum = aggregate.apply(sum, weight * score);
        }
        scores.push((Blob::from_slice(member), sum));
        true
    });
    in_order(scores)
}

/// ZINTERCARD: how many members are common to all sources, counting no further than `limit` (0: all).
pub fn intersection_count(sources: &[Source], limit: usize) -> usize {
    let weighted: Vec<_> = sources.iter().map(|source| (*source, 1.0)).collect();
    let mut count = 0;
    common(&smallest_first(&weighted), |_, _| {
        count += 1;
        count != limit
    });
    count
}

/// ZDIFF: the members of the first source that are in none of the others, with their scores.
pub fn difference(sources: &[Source]) -> Scored {
    let Some((first, others)) = sources.split_first() else { return Vec::new() };
    let mut scores = Vec::new();
    first.each(|member, score| {
        if others.iter().all(|source| source.score(member).is_none()) {
            scores.push((Blob::from_slice(member), score));
        }
        true
    });
    in_order(scores)
}

fn in_order(mut scores: Scored) -> Scored {
    // Minus zero and zero are equal, as in a sorted set; no score is NaN.
    scores.sort_unstable_by(|(m, a), (n, b)| a.partial_cmp(b).unwrap_or(Ordering::Equal).then_with(|| m.cmp(n)));
    scores
}

/// Redis combines scores in this order, which shows in the last digit of a sum.
fn smallest_first<'a>(sources: &[(Source<'a>, f64)]) -> Vec<(Source<'a>, f64)> {
    let mut sources = sources.to_vec();
    sources.sort_by_key(|(source, _)| source.len());
    sources
}

/// Shows the members common to all, with their scores in the first, until `show` returns false.
fn common(sources: &[(Source, f64)], mut show: impl FnMut(&Member, f64) -> bool) {
    let Some(((smallest, _), others)) = sources.split_first() else { return };
    smallest.each(|member, score| {
        let is_common = others.iter().all(|(source, _)| source.score(member).is_some());
        !is_common || show(member, score)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::value::Thresholds;

    fn zset(members: &[(&str, f64)]) -> ZSet {
        ZSet::of(members.iter().copied(), &Thresholds::DEFAULT)
    }

    fn scored(members: &[(&str, f64)]) -> Scored {
        members.iter().map(|(member, score)| (Blob::from_slice(member.as_bytes()), *score)).collect()
    }

    #[test]
    fn scores_are_weighted_and_aggregated() {
        let (a, b) = (zset(&[("one", 1.0), ("two", 2.0)]), zset(&[("one", 1.0), ("two", 2.0), ("three", 3.0)]));
        let sources = [(Source::ZSet(&a), 2.0), (Source::ZSet(&b), 3.0)];
        assert_eq!(scored(&[("one", 5.0), ("three", 9.0), ("two", 10.0)]), union(&sources, Aggregate::Sum));
        assert_eq!(scored(&[("one", 5.0), ("two", 10.0)]), intersection(&sources, Aggregate::Sum));
        assert_eq!(scored(&[("one", 2.0), ("two", 4.0)]), intersection(&sources, Aggregate::Min));
        assert_eq!(scored(&[("one", 3.0), ("two", 6.0)]), intersection(&sources, Aggregate::Max));
        assert_eq!(scored(&[("three", 3.0)]), difference(&[Source::ZSet(&b), Source::ZSet(&a)]));
        assert_eq!(1, intersection_count(&[Source::ZSet(&b), Source::ZSet(&a)], 1));
    }

    #[test]
    fn a_missing_key_is_empty_and_infinities_cancel_to_zero() {
        let a = zset(&[("x", f64::INFINITY)]);
        let sources = [(Source::ZSet(&a), 1.0), (Source::ZSet(&a), -1.0)];
        assert_eq!(scored(&[("x", 0.0)]), union(&sources, Aggregate::Sum));
        assert_eq!(scored(&[("x", 0.0)]), union(&[(Source::ZSet(&a), 0.0)], Aggregate::Sum));
        assert!(intersection(&[(Source::ZSet(&a), 1.0), (Source::Missing, 1.0)], Aggregate::Sum).is_empty());
    }

    #[test]
    fn minus_zero_is_kept_and_equals_zero() {
        let a = zset(&[("b", 0.0), ("a", 0.0), ("c", 1.0)]);
        let negated = union(&[(Source::ZSet(&a), -1.0)], Aggregate::Sum);
        assert_eq!(scored(&[("c", -1.0), ("a", -0.0), ("b", -0.0)]), negated);
        assert!(negated[1].1.is_sign_negative());
    }
}
