//! The longest common subsequence of two strings (LCS), with the ranges that match.

use crate::error::{Error, Result};
use crate::limits::BULK_BYTES_MAX;
use std::ops::Range;

/// A run of bytes common to both strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Where it is in the first string.
    pub a: Range<usize>,
    /// Where it is in the second string; as long.
    pub b: Range<usize>,
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lcs {
    /// The subsequence.
    pub common: Vec<u8>,
    /// Where it comes from, last runs first, as Redis lists them.
    pub matches: Vec<Match>,
}

/// The length of the longest common subsequence.
pub fn length(a: &[u8], b: &[u8]) -> Result<usize> {
    check(a, b)?;
    let mut row = vec![0u32; b.len() + 1];
    a.iter().for_each(|byte| next_row(&mut row, *byte, b, |_| ()));
    Ok(row[b.len()] as usize)
}

/// The longest common subsequence and its matches; of several, the one Redis finds.
///
/// The walk back from the ends needs to know of each pair of prefixes only whether dropping the last byte of `a` is
/// strictly better than dropping that of `b`: one bit, where Redis keeps a length of 4 bytes.
pub fn compare(a: &[u8], b: &[u8]) -> Result<Lcs> {
    check(a, b)?;
    let mut row = vec![0u32; b.len() + 1];
    let mut drop_a = Bits::new(a.len() * b.len());
    for (i, byte) in a.iter().enumerate() {
        next_row(&mut row, *byte, b, |j| drop_a.set(i * b.len() + j));
    }
    let mut common = Vec::with_capacity(row[b.len()] as usize);
    let mut matches: Vec<Match> = Vec::new();
    let (mut i, mut j) = (a.len(), b.len());
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            (i, j) = (i - 1, j - 1);
            common.push(a[i]);
            match matches.last_mut() {
                Some(run) if run.a.start == i + 1 && run.b.start == j + 1 => (run.a.start, run.b.start) = (i, j),
                _ => matches.push(Match { a: i..i + 1, b: j..j + 1 }),
            }
        } else if drop_a.get((i - 1) * b.len() + j - 1) {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    common.reverse();
    Ok(Lcs { common, matches })
}

/// Redis's limit, which here bounds the time.
fn check(a: &[u8], b: &[u8]) -> Result<()> {
    let cells = (a.len() as u128 + 1) * (b.len() as u128 + 1);
    if cells * 4 > BULK_BYTES_MAX as u128 {
        return Err(Error::err("Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"));
    }
    Ok(())
}

/// Turns the lengths for a prefix of `a` into those for the prefix one `byte` longer. Tells `drop_a` the positions where
/// the prefix of `a` without that byte has a longer subsequence than the prefix of `b` without its last.
#[inline]
fn next_row(row: &mut [u32], byte: u8, b: &[u8], mut drop_a: impl FnMut(usize)) {
    // `diagonal` is the previous row's value to the upper left, `left` the value just computed.
    let (mut diagonal, mut left) = (0, 0);
    for (j, other) in b.iter().enumerate() {
        let above = row[j + 1];
        if above > left {
            drop_a(j);
        }
        left = if byte == *other { diagonal + 1 } else { above.max(left) };
        diagonal = above;
        row[j + 1] = left;
    }
}

struct Bits(Vec<u64>);

impl Bits {
    fn new(count: usize) -> Self {
        Bits(vec![0; count.div_ceil(64)])
    }
    fn set(&mut self, i: usize) {
        self.0[i / 64] |= 1 << (i % 64);
    }
    fn get(&self, i: usize) -> bool {
        self.0[i / 64] >> (i % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;

    #[test]
    fn finds_what_redis_documents() {
        let lcs = compare(b"ohmytext", b"mynewtext").unwrap();
        assert_eq!(b"mytext", &lcs.common[..]);
        let matches = vec![Match { a: 4..8, b: 5..9 }, Match { a: 2..4, b: 0..2 }];
        assert_eq!(matches, lcs.matches);
        assert_eq!(Ok(6), length(b"ohmytext", b"mynewtext"));
    }

    #[test]
    fn nothing_is_common_with_nothing() {
        assert_eq!(Lcs { common: vec![], matches: vec![] }, compare(b"", b"abc").unwrap());
        assert_eq!(Ok(0), length(b"abc", b""));
    }

    #[test]
    fn strings_too_long_are_refused() {
        assert!(length(&vec![0; 20_000], &vec![0; 20_000]).is_err());
    }

    #[test]
    fn matches_spell_the_subsequence() {
        let mut random = Xoshiro::from_seed(1);
        let mut text = || -> Vec<u8> { (0..random.below(30)).map(|_| b'a' + random.below(4) as u8).collect() };
        for _ in 0..2000 {
            let (a, b) = (text(), text());
            let lcs = compare(&a, &b).unwrap();
            assert_eq!(length(&a, &b).unwrap(), lcs.common.len());
            let spelt: Vec<u8> = lcs.matches.iter().rev().flat_map(|m| a[m.a.clone()].to_vec()).collect();
            assert_eq!(lcs.common, spelt);
            let spelt: Vec<u8> = lcs.matches.iter().rev().flat_map(|m| b[m.b.clone()].to_vec()).collect();
            assert_eq!(lcs.common, spelt);
        }
    }
}
