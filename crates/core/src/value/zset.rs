//! The sorted set value: members ordered by score, then by bytes; packed while small, a table and a tree when large.
//!
//! Every range, by score or by bytes, becomes a range of ranks first; counting, limiting, walking and removing know only
//! those.

pub mod algebra;
mod large;
pub mod range;
mod small;

use super::codec::{self, Decoded, Malformed};
use super::digest::Digest;
use super::sample;
use super::thresholds::PACKED_BYTES_MAX;
use super::{Edit, Operation, Thresholds};
use crate::ds::packed::{self, Packed};
use crate::ds::ranktree::Handle;
use crate::env::Xoshiro;
use crate::error::{Error, Result};
use crate::reply::Blob;
use foldhash::quality::RandomState;
use large::Large;
use range::{LexRange, ScoreRange};
use small::Small;
use std::collections::HashSet;
use std::ops::Range;

/// A sorted set value.
#[derive(Clone)]
pub struct ZSet(Encoding);

#[derive(Clone)]
enum Encoding {
    Small(Small),
    Large(Large),
}

/// A change of a sorted set.
#[derive(Clone, Debug, PartialEq)]
pub enum ZSetOp {
    /// Gives members their scores: member and score (as [`put_score`] writes it) in turn.
    Set(Packed),
    /// Removes members.
    Remove(Packed),
    /// Several, in order.
    Many(Vec<ZSetOp>),
}

impl Operation for ZSetOp {
    fn many(ops: Vec<Self>) -> Self {
        ZSetOp::Many(ops)
    }

    fn absorb(&mut self, next: Self) -> Option<Self> {
        match (self, next) {
            (ZSetOp::Set(all), ZSetOp::Set(more)) | (ZSetOp::Remove(all), ZSetOp::Remove(more)) => {
                all.append(&more);
                None
            }
            (_, next) => Some(next),
        }
    }
}

/// The conditions of ZADD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// NX: only members that are not there.
    pub new: bool,
    /// XX: only members that are there.
    pub existing: bool,
    /// GT: an existing score only rises.
    pub greater: bool,
    /// LT: an existing score only falls.
    pub less: bool,
}

/// What ZADD did with one member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Added {
    /// The member is new.
    New(f64),
    /// Its score changed.
    Updated(f64),
    /// It had this score.
    Same(f64),
    /// A condition forbade it.
    Refused,
}

/// Writes a score in 1 to 8 bytes: small integers in as few as hold them, others as doubles.
pub(super) fn put_score(score: f64, buffer: &mut [u8; 8]) -> &[u8] {
    const LIMIT: f64 = (1i64 << 53) as f64;
    let integer = score as i64;
    let is_integer = score.abs() <= LIMIT && integer as f64 == score && (integer != 0 || score.is_sign_positive());
    if !is_integer {
        *buffer = score.to_bits().to_le_bytes();
        return buffer;
    }
    *buffer = integer.to_le_bytes();
    let magnitude_bits = 64 - (integer ^ (integer >> 63)).leading_zeros();
    &buffer[..(magnitude_bits / 8 + 1) as usize]
}

/// Reads what [`put_score`] wrote.
#[inline]
pub(super) fn take_score(bytes: &[u8]) -> f64 {
    match *bytes {
        [a] => a as i8 as f64,
        [a, b] => i16::from_le_bytes([a, b]) as f64,
        [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => {
            let len = bytes.len().min(7);
            let mut buffer = [0; 8];
            buffer[8 - len..].copy_from_slice(&bytes[..len]);
            // The bytes are the upper ones, so that shifting them down brings the sign along.
            if len == 0 { 0.0 } else { (i64::from_le_bytes(buffer) >> (64 - 8 * len)) as f64 }
        }
    }
}

fn scored(member: &[u8], score: f64) -> Packed {
    let mut buffer = [0; 8];
    [member, put_score(score, &mut buffer)].into_iter().collect()
}

/// A member found in a set, until the set changes.
struct Found {
    at: FoundAt,
    score: f64,
}

enum FoundAt {
    Small(packed::Place),
    Large(Handle),
}

impl ZSet {
    /// An empty sorted set.
    pub fn new() -> Self {
        ZSet(Encoding::Small(Small::default()))
    }

    /// A sorted set of members that differ from each other, in the encoding that all of them together ask for.
    pub fn of<M: AsRef<[u8]>>(
        members: impl ExactSizeIterator<Item = (M, f64)> + Clone,
        thresholds: &Thresholds,
    ) -> Self {
        let bytes: usize = members.clone().map(|(member, _)| Packed::cost(member.as_ref().len())).sum();
        let is_small = members.len() <= thresholds.zset_entries
            && bytes <= PACKED_BYTES_MAX
            && members.clone().all(|(member, _)| member.as_ref().len() <= thresholds.zset_value);
        if is_small {
            let mut small = Small::default();
            members.for_each(|(member, score)| small.insert(member.as_ref(), score));
            return ZSet(Encoding::Small(small));
        }
        // Not by way of a small one, where -0 becomes 0.
        let mut large = Large::with_capacity(members.len());
        members.for_each(|(member, score)| large.insert(member.as_ref(), score));
        ZSet(Encoding::Large(large))
    }

    /// How many members.
    pub fn len(&self) -> usize {
        match &self.0 {
            Encoding::Small(small) => small.len(),
            Encoding::Large(large) => large.len(),
        }
    }

    /// True without members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// OBJECT ENCODING.
    pub fn encoding(&self) -> &'static str {
        if self.is_packed() { "listpack" } else { "skiplist" }
    }

    /// True while the set is small.
    pub fn is_packed(&self) -> bool {
        matches!(self.0, Encoding::Small(_))
    }

    /// ZSCORE: the score of a member.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.find(member).map(|found| found.score)
    }

    #[inline]
    fn find(&self, member: &[u8]) -> Option<Found> {
        match &self.0 {
            Encoding::Small(small) => {
                small.find(member).map(|(place, score)| Found { at: FoundAt::Small(place), score })
            }
            Encoding::Large(large) => {
                large.find(member).map(|(handle, score)| Found { at: FoundAt::Large(handle), score })
            }
        }
    }

    /// ZADD: gives a member a score, as far as the conditions allow. The score is not NaN.
    pub fn add(&mut self, member: &[u8], score: f64, when: Conditions, edit: &mut Edit<ZSetOp>) -> Added {
        debug_assert!(!score.is_nan());
        let old = self.find(member);
        self.decide(member, old, score, when, edit)
    }

    /// ZINCRBY, ZADD INCR: adds to the score of a member (0 when missing), as far as the conditions allow.
    pub fn increment(&mut self, member: &[u8], by: f64, when: Conditions, edit: &mut Edit<ZSetOp>) -> Result<Added> {
        let old = self.find(member);
        if old.is_some() && when.new {
            return Ok(Added::Refused);
        }
        let score = old.as_ref().map_or(by, |old| old.score + by);
        if score.is_nan() {
            return Err(Error::err("resulting score is not a number (NaN)"));
        }
        Ok(self.decide(member, old, score, when, edit))
    }

    fn decide(
        &mut self,
        member: &[u8],
        old: Option<Found>,
        score: f64,
        when: Conditions,
        edit: &mut Edit<ZSetOp>,
    ) -> Added {
        match old {
            Some(_) if when.new => Added::Refused,
            Some(old) if (when.less && score >= old.score) || (when.greater && score <= old.score) => Added::Refused,
            Some(old) if score == old.score => Added::Same(score),
            Some(old) => {
                edit.redo(|| ZSetOp::Set(scored(member, score)));
                edit.undo(|| ZSetOp::Set(scored(member, old.score)));
                match (&mut self.0, old.at) {
                    (Encoding::Small(small), FoundAt::Small(place)) => small.set_score(place, member, score),
                    // SAFETY: the handle was found in this set, which has not changed since.
                    (Encoding::Large(large), FoundAt::Large(handle)) => unsafe { large.set_score(handle, score) },
                    _ => unreachable!("found in another encoding"),
                }
                Added::Updated(score)
            }
            None if when.existing => Added::Refused,
            None => {
                edit.redo(|| ZSetOp::Set(scored(member, score)));
                edit.undo(|| ZSetOp::Remove([member].into_iter().collect()));
                self.insert(member, score, edit.thresholds);
                Added::New(score)
            }
        }
    }

    /// Adds a member that is not there.
    fn insert(&mut self, member: &[u8], score: f64, thresholds: &Thresholds) {
        if let Encoding::Small(small) = &mut self.0 {
            let has_room = small.len() < thresholds.zset_entries
                && member.len() <= thresholds.zset_value
                && small.bytes() + Packed::cost(member.len()) <= PACKED_BYTES_MAX;
            if has_room {
                return small.insert(member, score);
            }
            self.0 = Encoding::Large(small.walk(0..small.len(), false).collect());
        }
        if let Encoding::Large(large) = &mut self.0 {
            large.insert(member, score);
        }
    }

    /// ZREM: removes members; how many were there.
    pub fn remove(&mut self, members: &[&[u8]], edit: &mut Edit<ZSetOp>) -> usize {
        members.iter().filter(|member| self.remove_one(member, edit)).count()
    }

    fn remove_one(&mut self, member: &[u8], edit: &mut Edit<ZSetOp>) -> bool {
        let removed = match &mut self.0 {
            Encoding::Small(small) => small.remove(member),
            Encoding::Large(large) => large.remove(member),
        };
        let Some(score) = removed else { return false };
        edit.redo(|| ZSetOp::Remove([member].into_iter().collect()));
        edit.undo(|| ZSetOp::Set(scored(member, score)));
        true
    }

    /// ZRANK, ZREVRANK: how many members come before this one (after it when `reverse`), and its score.
    pub fn rank(&self, member: &[u8], reverse: bool) -> Option<(usize, f64)> {
        let (rank, score) = match &self.0 {
            Encoding::Small(small) => small.rank(member),
            Encoding::Large(large) => large.rank(member),
        }?;
        Some((if reverse { self.len() - 1 - rank } else { rank }, score))
    }

    /// The member at a rank, and its score.
    pub fn at(&self, rank: usize) -> Option<(&[u8], f64)> {
        self.walk(rank..rank.saturating_add(1).min(self.len()), false).next()
    }

    /// The ranks of members whose scores are in a range.
    pub fn ranks_by_score(&self, range: &ScoreRange) -> Range<usize> {
        let start = self.count_while(|score, _| range.is_below(score));
        let end = self.count_while(|score, _| !range.is_above(score));
        start..end.max(start)
    }

    /// The ranks of members whose bytes are in a range; meaningful when all scores are equal.
    pub fn ranks_by_lex(&self, range: &LexRange) -> Range<usize> {
        let start = self.count_while(|_, member| range.is_below(member));
        let end = self.count_while(|_, member| !range.is_above(member));
        start..end.max(start)
    }

    fn count_while(&self, before: impl FnMut(f64, &[u8]) -> bool) -> usize {
        match &self.0 {
            Encoding::Small(small) => small.count_while(before),
            Encoding::Large(large) => large.count_while(before),
        }
    }

    /// Members and scores at a range of ranks (within the set), the last first when `reverse`.
    pub fn walk(&self, ranks: Range<usize>, reverse: bool) -> Walk<'_> {
        match &self.0 {
            _ if ranks.is_empty() => Walk { source: Source::Nothing, left: 0, reverse },
            Encoding::Small(small) => small.walk(ranks, reverse),
            Encoding::Large(large) => large.walk(ranks, reverse),
        }
    }

    /// Members and scores in order.
    pub fn iter(&self) -> Walk<'_> {
        self.walk(0..self.len(), false)
    }

    /// ZREMRANGEBY..: removes the members at a range of ranks; how many.
    pub fn remove_ranks(&mut self, ranks: Range<usize>, edit: &mut Edit<ZSetOp>) -> usize {
        let count = ranks.len();
        if count == 0 {
            return 0;
        }
        edit.redo(|| ZSetOp::Remove(self.walk(ranks.clone(), false).map(|(member, _)| member).collect()));
        edit.undo(|| {
            let mut all = Packed::new();
            self.walk(ranks.clone(), false).for_each(|(member, score)| all.append(&scored(member, score)));
            ZSetOp::Set(all)
        });
        match &mut self.0 {
            Encoding::Small(small) => small.remove_ranks(ranks),
            Encoding::Large(large) => large.remove_ranks(ranks),
        }
        count
    }

    /// ZPOPMIN, ZPOPMAX: removes up to `count` members from one end, the outermost first.
    pub fn pop(&mut self, max: bool, count: usize, edit: &mut Edit<ZSetOp>) -> Vec<(Blob, f64)> {
        let len = self.len();
        let count = count.min(len);
        let ranks = if max { len - count..len } else { 0..count };
        let popped = self.walk(ranks.clone(), max).map(|(member, score)| (Blob::from_slice(member), score)).collect();
        self.remove_ranks(ranks, edit);
        popped
    }

    /// ZRANDMEMBER: a member at random, with its score.
    pub fn random(&self, random: &mut Xoshiro) -> Option<(&[u8], f64)> {
        match &self.0 {
            Encoding::Small(small) if small.len() == 0 => None,
            Encoding::Small(_) => self.at(random.below(self.len() as u64) as usize),
            Encoding::Large(large) => large.random(random),
        }
    }

    /// ZRANDMEMBER with a count: up to `count` distinct members at random, with their scores.
    pub fn sample(&self, count: usize, random: &mut Xoshiro) -> Vec<(&[u8], f64)> {
        match &self.0 {
            Encoding::Large(large) if sample::is_sparse(count, large.len()) => {
                sample::pick(count, || large.random(random), |(member, _)| member.as_ptr())
            }
            _ => sample::select(self.iter(), self.len(), count, random),
        }
    }

    /// ZSCAN: shows `count` members or some more from `cursor` on; the next cursor, 0 at the end. A small set is shown at
    /// once.
    pub fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(&[u8], f64)) -> u64 {
        match &self.0 {
            Encoding::Small(_) => {
                self.iter().for_each(|(member, score)| show(member, score));
                0
            }
            Encoding::Large(large) => large.scan(cursor, count, show),
        }
    }

    /// Performs an operation and returns its inverse.
    pub fn apply(&mut self, op: ZSetOp, thresholds: &Thresholds) -> ZSetOp {
        let mut edit = Edit::recording(thresholds, false, true);
        self.perform(&op, &mut edit);
        edit.finish().1.unwrap_or(ZSetOp::Many(Vec::new()))
    }

    fn perform(&mut self, op: &ZSetOp, edit: &mut Edit<ZSetOp>) {
        match op {
            ZSetOp::Set(all) => {
                let mut entries = all.iter();
                while let (Some(member), Some(score)) = (entries.next(), entries.next()) {
                    self.add(member, take_score(score), Conditions::default(), edit);
                }
            }
            ZSetOp::Remove(members) => {
                for member in members {
                    self.remove_one(member, edit);
                }
            }
            ZSetOp::Many(ops) => ops.iter().for_each(|op| self.perform(op, edit)),
        }
    }

    /// Equal for equal members and scores.
    pub fn digest(&self) -> u64 {
        // Plus zero, which makes 0 of -0: a small set holds the one where a large one holds the other.
        let add = |digest: Digest, (member, score): (&[u8], f64)| digest.bytes(member).number((score + 0.0).to_bits());
        self.iter().fold(Digest::new(b'z'), add).finish()
    }

    /// Bytes taken from the allocator, this header included.
    pub fn memory(&self) -> usize {
        size_of::<ZSet>()
            + match &self.0 {
                Encoding::Small(small) => small.memory(),
                Encoding::Large(large) => large.memory(),
            }
    }

    /// Appends the bytes that [`ZSet::decode`] reads.
    pub fn encode(&self, out: &mut Vec<u8>) {
        codec::put_number(out, self.len() as u64);
        for (member, score) in self.iter() {
            codec::put_bytes(out, member);
            codec::put_double(out, score);
        }
    }

    /// Reads what [`ZSet::encode`] wrote.
    pub fn decode(input: &mut &[u8], thresholds: &Thresholds) -> Decoded<ZSet> {
        let mut members = Vec::new();
        for _ in 0..codec::take_count(input)? {
            members.push((codec::take_bytes(input)?, codec::take_double(input)?));
        }
        let mut seen = HashSet::with_capacity_and_hasher(members.len(), RandomState::default());
        if members.iter().any(|(member, score)| score.is_nan() || !seen.insert(*member)) {
            return Err(Malformed("score not a number, or a member twice"));
        }
        Ok(ZSet::of(members.into_iter(), thresholds))
    }
}

impl Default for ZSet {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for ZSet {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl std::fmt::Debug for ZSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter().map(|(member, score)| (member.escape_ascii().to_string(), score))).finish()
    }
}

/// Walks members and scores in one direction.
#[derive(Clone)]
pub struct Walk<'a> {
    source: Source<'a>,
    left: usize,
    reverse: bool,
}

#[derive(Clone)]
enum Source<'a> {
    Nothing,
    Small(packed::Iter<'a>),
    Large(large::Cursor<'a>),
}

impl<'a> Iterator for Walk<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        match &mut self.source {
            Source::Nothing => None,
            Source::Small(entries) if self.reverse => {
                let score = entries.next_back()?;
                Some((entries.next_back()?, take_score(score)))
            }
            Source::Small(entries) => Some((entries.next()?, take_score(entries.next()?))),
            Source::Large(cursor) => cursor.next(self.reverse),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Walk<'_> {}

impl ZSetOp {
    /// Appends the bytes that [`ZSetOp::decode`] reads.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            ZSetOp::Set(all) => {
                out.push(0);
                codec::put_list(out, all);
            }
            ZSetOp::Remove(members) => {
                out.push(1);
                codec::put_list(out, members);
            }
            ZSetOp::Many(ops) => super::op::encode_many(ops, out, ZSetOp::encode),
        }
    }

    /// Reads what [`ZSetOp::encode`] wrote.
    pub fn decode(input: &mut &[u8]) -> Decoded<ZSetOp> {
        super::op::decode_many(input, ZSetOp::Many, |tag, input| match tag {
            0 => {
                let all = codec::take_list_of(input, 2)?;
                let is_score = |entry: &[u8]| (1..=8).contains(&entry.len()) && !take_score(entry).is_nan();
                if !all.iter().skip(1).step_by(2).all(is_score) {
                    return Err(Malformed("not a score"));
                }
                Ok(ZSetOp::Set(all))
            }
            1 => Ok(ZSetOp::Remove(codec::take_list(input)?)),
            _ => Err(Malformed("unknown sorted set operation")),
        })
    }
}
