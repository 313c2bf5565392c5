//! Ranges of scores and of members as commands write them: `(1.5`, `-inf`, `[a`, `(b`, `-`, `+`.

use crate::ds::number::parse_bound;
use crate::error::{Error, Result};

/// One end of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreBound {
    /// The score.
    pub score: f64,
    /// The score itself is outside.
    pub exclusive: bool,
}

/// A range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreRange {
    /// The low end.
    pub min: ScoreBound,
    /// The high end.
    pub max: ScoreBound,
}

impl ScoreBound {
    /// Reads a number, with a parenthesis in front when it is outside the range.
    pub fn parse(text: &[u8]) -> Option<ScoreBound> {
        let (exclusive, number) = match text {
            [b'(', rest @ ..] => (true, rest),
            _ => (false, text),
        };
        Some(ScoreBound { score: parse_bound(number)?, exclusive })
    }
}

impl ScoreRange {
    /// Reads both ends.
    pub fn parse(min: &[u8], max: &[u8]) -> Result<ScoreRange> {
        match (ScoreBound::parse(min), ScoreBound::parse(max)) {
            (Some(min), Some(max)) => Ok(ScoreRange { min, max }),
            _ => Err(Error::err("min or max is not a float")),
        }
    }

    /// True when a score comes before the range.
    pub fn is_below(&self, score: f64) -> bool {
        score < self.min.score || (self.min.exclusive && score == self.min.score)
    }

    /// True when a score comes after the range.
    pub fn is_above(&self, score: f64) -> bool {
        score > self.max.score || (self.max.exclusive && score == self.max.score)
    }
}

/// One end of a range of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexBound<'a> {
    /// `-`: before every member.
    First,
    /// `+`: after every member.
    Last,
    /// `[m`: the member is inside.
    Inclusive(&'a [u8]),
    /// `(m`: the member is outside.
    Exclusive(&'a [u8]),
}

/// A range of members in the order of their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LexRange<'a> {
    /// The low end.
    pub min: LexBound<'a>,
    /// The high end.
    pub max: LexBound<'a>,
}

impl<'a> LexBound<'a> {
    /// Reads `-`, `+`, `[member` or `(member`.
    pub fn parse(text: &'a [u8]) -> Option<LexBound<'a>> {
        match text {
            b"-" => Some(LexBound::First),
            b"+" => Some(LexBound::Last),
            [b'[', member @ ..] => Some(LexBound::Inclusive(member)),
            [b'(', member @ ..] => Some(LexBound::Exclusive(member)),
            _ => None,
        }
    }
}

impl<'a> LexRange<'a> {
    /// Reads both ends.
    pub fn parse(min: &'a [u8], max: &'a [u8]) -> Result<LexRange<'a>> {
        match (LexBound::parse(min), LexBound::parse(max)) {
            (Some(min), Some(max)) => Ok(LexRange { min, max }),
            _ => Err(Error::err("min or max not valid string range item")),
        }
    }

    /// True when a member comes before the range.
    pub fn is_below(&self, member: &[u8]) -> bool {
        match self.min {
            LexBound::First => false,
            LexBound::Last => true,
            LexBound::Inclusive(bound) => member < bound,
            LexBound::Exclusive(bound) => member <= bound,
        }
    }

    /// True when a member comes after the range.
    pub fn is_above(&self, member: &[u8]) -> bool {
        match self.max {
            LexBound::First => true,
            LexBound::Last => false,
            LexBound::Inclusive(bound) => member > bound,
            LexBound::Exclusive(bound) => member >= bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read() {
        assert_eq!(Some(ScoreBound { score: 1.5, exclusive: true }), ScoreBound::parse(b"(1.5"));
        assert_eq!(Some(ScoreBound { score: f64::INFINITY, exclusive: false }), ScoreBound::parse(b"+inf"));
        assert_eq!(None, ScoreBound::parse(b"((1"));
        assert_eq!(Some(LexBound::Exclusive(b"")), LexBound::parse(b"("));
        assert_eq!(None, LexBound::parse(b"a"));
        assert_eq!(None, LexBound::parse(b"++"));
        assert_eq!(None, LexBound::parse(b""));
    }
}
