//! What is still to be told of a string: it is cut into pieces of one length, and each is told as it was at first.

use super::tag;
use crate::value::codec::{self, put_number};
use std::collections::VecDeque;
use std::ops::Range;

/// Invariant: the pieces that are neither told nor kept lie within the string as it is now, unchanged.
pub struct StringRest {
    /// The string's length at first.
    len: usize,
    piece_bytes: usize,
    /// For each piece: it is told or kept.
    is_dealt_with: Vec<bool>,
    /// All before this one are.
    next: usize,
    /// Pieces, and where they begin, that were written to before they were told.
    kept: VecDeque<(usize, Box<[u8]>)>,
}

impl StringRest {
    pub fn new(len: usize, piece_bytes: usize) -> StringRest {
        StringRest {
            len,
            piece_bytes,
            is_dealt_with: vec![false; len.div_ceil(piece_bytes)],
            next: 0,
            kept: VecDeque::new(),
        }
    }

    pub fn is_done(&self) -> bool {
        self.kept.is_empty() && self.next == self.is_dealt_with.len()
    }

    /// These bytes of `string` will be others, or gone. What lies behind the first length does not matter.
    pub fn before_write(&mut self, string: &[u8], range: Range<usize>) {
        if range.is_empty() || range.start >= self.len {
            return;
        }
        let last = (range.end.min(self.len) - 1) / self.piece_bytes;
        for piece in (range.start / self.piece_bytes).max(self.next)..=last {
            if !std::mem::replace(&mut self.is_dealt_with[piece], true) {
                let range = self.range_of(piece);
                super::note_copy(range.len());
                self.kept.push_back((range.start, string[range].into()));
            }
        }
        self.skip();
    }

    fn range_of(&self, piece: usize) -> Range<usize> {
        let start = piece * self.piece_bytes;
        start..self.len.min(start + self.piece_bytes)
    }

    fn skip(&mut self) {
        while self.is_dealt_with.get(self.next) == Some(&true) {
            self.next += 1;
        }
    }

    /// Each piece is a write, whose order is free: the first one makes the string as long as it was.
    pub fn put_piece(&mut self, string: &[u8], out: &mut Vec<u8>) {
        if let Some((at, bytes)) = self.kept.pop_front() {
            return put_write(at, &bytes, self.len, out);
        }
        let range = self.range_of(self.next);
        put_write(range.start, &string[range], self.len, out);
        self.is_dealt_with[self.next] = true;
        self.skip();
    }

    #[cfg(test)]
    pub fn kept_bytes(&self) -> usize {
        self.kept.iter().map(|(_, bytes)| bytes.len()).sum()
    }
}

fn put_write(at: usize, bytes: &[u8], len: usize, out: &mut Vec<u8>) {
    out.extend([tag::STRING, 1]);
    put_number(out, at as u64);
    codec::put_bytes(out, bytes);
    put_number(out, len as u64);
}
