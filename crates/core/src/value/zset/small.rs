//! A small sorted set: member, score, member, score .. in order, in one packed list.

use super::{Source, Walk, put_score, take_score};
use crate::ds::packed::{Packed, Place};
use std::ops::Range;

#[derive(Clone, Default)]
pub(super) struct Small(Packed);

impl Small {
    pub fn len(&self) -> usize {
        self.0.len() / 2
    }

    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    pub fn memory(&self) -> usize {
        self.0.memory()
    }

    fn score_after(&self, member: Place) -> f64 {
        take_score(self.0.get(self.0.next(member)).expect("a score follows"))
    }

    /// The place of a member and its score.
    #[inline]
    pub fn find(&self, member: &[u8]) -> Option<(Place, f64)> {
        let place = self.0.find(member, 2)?;
        Some((place, self.score_after(place)))
    }

    /// Adds a member that is not there.
    pub fn insert(&mut self, member: &[u8], score: f64) {
        let is_before = |s: f64, m: &[u8]| s < score || (s == score && m < member);
        // Members often come in order: the end is worth one look.
        let place = match self.last() {
            Some((m, s)) if is_before(s, m) => self.0.end(),
            _ => self.first_not(is_before).0,
        };
        let mut buffer = [0; 8];
        // Minus zero becomes zero while the set is small, as in Redis 7.
        self.0.insert(place, &[member, put_score(score + 0.0, &mut buffer)]);
    }

    fn last(&self) -> Option<(&[u8], f64)> {
        self.walk(self.len().saturating_sub(1)..self.len(), false).next()
    }

    /// The place of the first member for which `before` fails, and its rank.
    fn first_not(&self, mut before: impl FnMut(f64, &[u8]) -> bool) -> (Place, usize) {
        let (mut place, mut rank) = (self.0.first(), 0);
        while let Some(member) = self.0.get(place) {
            let score = self.0.next(place);
            if !before(take_score(self.0.get(score).expect("a score follows")), member) {
                break;
            }
            place = self.0.next(score);
            rank += 1;
        }
        (place, rank)
    }

    pub fn count_while(&self, before: impl FnMut(f64, &[u8]) -> bool) -> usize {
        self.first_not(before).1
    }

    /// Gives the member that `find` found here another score.
    pub fn set_score(&mut self, place: Place, member: &[u8], score: f64) {
        self.0.remove(place, 2);
        self.insert(member, score);
    }

    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let (place, score) = self.find(member)?;
        self.0.remove(place, 2);
        Some(score)
    }

    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let (place, score) = self.find(member)?;
        Some((self.0.iter_between(self.0.first(), place).count() / 2, score))
    }

    pub fn walk(&self, ranks: Range<usize>, reverse: bool) -> Walk<'_> {
        let from = self.0.place(2 * ranks.start);
        // The end is only where a walk backwards begins; forwards the count ends it.
        let to = if reverse { self.0.place(2 * ranks.end) } else { self.0.end() };
        Walk { source: Source::Small(self.0.iter_between(from, to)), left: ranks.len(), reverse }
    }

    pub fn remove_ranks(&mut self, ranks: Range<usize>) {
        self.0.remove(self.0.place(2 * ranks.start), 2 * ranks.len());
    }
}
