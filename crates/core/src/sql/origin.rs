//! Where the pieces of a text that SQLite gets come from, so that an error names its place in the statement as it was given.

use crate::error::Error;

/// A piece that was copied as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    /// Its first byte in the text that was made.
    made: usize,
    /// Its first byte in the text that was given.
    given: usize,
    /// Its length.
    bytes: usize,
}

/// The pieces of a text that was made of another, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    pieces: Vec<Piece>,
}

impl Origin {
    /// Of a text that differs in one place.
    pub fn of(made: &str, given: &str) -> Origin {
        let same = |pair: &(u8, u8)| pair.0 == pair.1;
        let front = made.bytes().zip(given.bytes()).take_while(same).count();
        let room = made.len().min(given.len()) - front;
        let back = made.bytes().rev().zip(given.bytes().rev()).take_while(same).count().min(room);
        let mut origin = Origin::default();
        origin.copied(0, 0, front);
        origin.copied(made.len() - back, given.len() - back, back);
        origin
    }

    /// The bytes at `made` are those at `given`.
    pub fn copied(&mut self, made: usize, given: usize, bytes: usize) {
        self.pieces.push(Piece { made, given, bytes });
    }

    /// An error about the text that was made, as one about the text that was given. Places in what was added become the end
    /// of what stands before it.
    #[cold]
    pub fn relocated(&self, error: Error, made: &str, given: &str) -> Error {
        const WORDS: &str = " at position ";
        let Some((before, rest)) = error.message.rsplit_once(WORDS) else { return error };
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(position) = rest[..digits].parse::<usize>() else { return error };
        let Some((byte, _)) = made.char_indices().nth(position.saturating_sub(1)) else {
            return Error::new(error.code, before.to_string() + &rest[digits..]);
        };
        let Some(piece) = self.pieces.iter().rev().find(|piece| piece.made <= byte) else {
            return Error::new(error.code, before.to_string() + &rest[digits..]);
        };
        let is_inside = byte < piece.made + piece.bytes;
        let place = piece.given + (byte - piece.made).min(piece.bytes);
        let place = given.get(..place).unwrap_or(given).chars().count() + 1;
        let message = match before.strip_prefix("near ") {
            // The word is one that we added.
            Some(_) if !is_inside => format!("syntax error{WORDS}{place}: the clause is not complete"),
            _ => format!("{before}{WORDS}{place}{}", &rest[digits..]),
        };
        Error::new(error.code, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn places_are_those_of_the_text_as_given() {
        let given = "INSERT é VALUES (x) RETURNING y";
        let made = "INSERT é (a, b) VALUES (x) RETURNING y";
        let origin = Origin::of(made, given);
        let at = |words: &str, position: usize| {
            let error = Error::new(Code::Sql, format!("{words} at position {position}: because"));
            origin.relocated(error, made, given).message
        };
        assert_eq!("no such column: x at position 18: because", at("no such column: x", 25));
        assert_eq!("near \"INSERT\": syntax error at position 1: because", at("near \"INSERT\": syntax error", 1));
        assert!(
            at("near \"b\": syntax error", 14).starts_with("syntax error at position 10: the clause is not complete")
        );
        assert_eq!("no place", origin.relocated(Error::new(Code::Sql, "no place"), made, given).message);
    }
}
