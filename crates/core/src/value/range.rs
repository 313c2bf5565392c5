//! Ranges of positions as commands give them: inclusive, and counted from the end when negative.

use std::ops::Range;

/// The positions `start..=stop` of a sequence of `len` elements (LRANGE, LTRIM, ZRANGE): an empty range when they are
/// out of order or beyond the sequence.
pub fn positions(start: i64, stop: i64, len: usize) -> Range<usize> {
    let start = from_end(start, len).max(0);
    let stop = from_end(stop, len).min(len as i64 - 1);
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}

/// The same for bytes and bits of a string (GETRANGE, BITCOUNT), where Redis moves a `stop` before the beginning to the
/// first position instead of giving nothing.
pub fn text_positions(start: i64, stop: i64, len: usize) -> Range<usize> {
    if start < 0 && stop < 0 && start > stop {
        return 0..0;
    }
    clipped_positions(start, stop, len)
}

/// The same for BITPOS, which does not look for ends out of order before it moves both to the first position.
pub fn clipped_positions(start: i64, stop: i64, len: usize) -> Range<usize> {
    let start = from_end(start, len).max(0);
    let stop = from_end(stop, len).max(0).min(len as i64 - 1);
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}

/// One position, or `None` when it is outside.
pub fn position(index: i64, len: usize) -> Option<usize> {
    let index = from_end(index, len);
    (0..len as i64).contains(&index).then_some(index as usize)
}

fn from_end(index: i64, len: usize) -> i64 {
    if index < 0 { index.saturating_add(len as i64) } else { index }
}

/// LIMIT: the part of `range` after `offset` elements, at most `count` of them (all when negative), seen from the far
/// end when `reverse`.
pub fn limited(range: Range<usize>, reverse: bool, offset: usize, count: i64) -> Range<usize> {
    let kept = range.len().saturating_sub(offset);
    let kept = if count < 0 { kept } else { kept.min(count as usize) };
    if kept == 0 {
        return 0..0;
    }
    if reverse {
        let end = range.end - offset;
        end - kept..end
    } else {
        let start = range.start + offset;
        start..start + kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_clipped() {
        assert_eq!(0..3, positions(0, -1, 3));
        assert_eq!(1..2, positions(-2, -2, 3));
        assert_eq!(0..3, positions(-100, 100, 3));
        assert_eq!(0..0, positions(-100, -50, 3));
        assert_eq!(0..0, positions(2, 1, 3));
        assert_eq!(0..0, positions(3, 5, 3));
        assert_eq!(0..0, positions(0, -1, 0));
        assert_eq!(0..3, positions(i64::MIN, i64::MAX, 3));
    }

    #[test]
    fn text_positions_keep_the_first_byte_for_an_early_stop() {
        assert_eq!(0..1, text_positions(-100, -50, 3));
        assert_eq!(0..0, text_positions(-50, -100, 3));
        assert_eq!(0..1, clipped_positions(-50, -100, 3));
        assert_eq!(0..3, text_positions(0, -1, 3));
        assert_eq!(0..0, text_positions(0, -1, 0));
    }

    #[test]
    fn limits_count_from_the_side_one_looks_from() {
        assert_eq!(3..5, limited(2..9, false, 1, 2));
        assert_eq!(6..8, limited(2..9, true, 1, 2));
        assert_eq!(3..9, limited(2..9, false, 1, -1));
        assert_eq!(0..0, limited(2..9, false, 7, -1));
        assert_eq!(0..0, limited(2..9, false, 0, 0));
    }
}
