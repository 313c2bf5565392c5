//! The library `struct` as Redis ships it: values packed into bytes after a format, as C lays out structs.

use super::convert::truncate;
use super::pace::Pace;
use super::stack::{Answer, Fault, Kind, Stack};
use crate::limits;

/// Widest integer, bytes.
const INTEGER_BYTES_MAX: i32 = 32;
/// What `!` aligns to when it names no number.
const ALIGN_MAX: i32 = 8;

/// A format being read.
struct Format<'a> {
    pace: Pace<'a>,
    rest: &'a [u8],
    big_endian: bool,
    align: i32,
}

/// One item of a format.
struct Item {
    /// Its letter.
    letter: u8,
    /// Bytes that it takes, 0 if that is not known yet.
    size: usize,
}

impl<'a> Format<'a> {
    /// A format; as in C, a zero byte ends it.
    fn new(stack: Stack<'a>, text: &'a [u8]) -> Self {
        let pace = Pace::new(stack);
        Format { pace, rest: super::convert::c_text(Some(text)), big_endian: cfg!(target_endian = "big"), align: 1 }
    }

    /// The next item that is not a mere option, with options taken into account.
    fn item(&mut self) -> Result<Option<Item>, Fault> {
        let Some((&letter, rest)) = self.rest.split_first() else { return Ok(None) };
        self.pace.take(1)?;
        self.rest = rest;
        let size = match letter {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(1)?,
            b'i' | b'I' => {
                let size = self.number(4)?;
                if size > INTEGER_BYTES_MAX {
                    let text = format!("integral size {size} is larger than limit of {INTEGER_BYTES_MAX}");
                    return Err(Fault::Here(text.into()));
                }
                size
            }
            _ => 0,
        };
        Ok(Some(Item { letter, size: size as usize }))
    }

    /// Decimal digits, or a default where there are none.
    fn number(&mut self, default: i32) -> Result<i32, Fault> {
        if !self.rest.first().is_some_and(u8::is_ascii_digit) {
            return Ok(default);
        }
        let mut number = 0i32;
        while let Some((digit, rest)) = self.rest.split_first().filter(|(digit, _)| digit.is_ascii_digit()) {
            let grown = number.checked_mul(10).and_then(|n| n.checked_add((digit - b'0') as i32));
            number = grown.ok_or_else(|| Fault::Here("integral size overflow".into()))?;
            self.rest = rest;
        }
        Ok(number)
    }

    /// Takes an option into account; other letters are errors.
    fn option(&mut self, letter: u8) -> Result<(), Fault> {
        match letter {
            b' ' => {}
            b'>' => self.big_endian = true,
            b'<' => self.big_endian = false,
            b'!' => {
                let align = self.number(ALIGN_MAX)?;
                if align <= 0 || align & (align - 1) != 0 {
                    return Err(Fault::Here(format!("alignment {align} is not a power of 2").into()));
                }
                self.align = align;
            }
            _ => {
                let text = format!("invalid format option '{}'", letter as char);
                return Err(Fault::Argument(1, text.into()));
            }
        }
        Ok(())
    }

    /// Bytes between a position and the item that follows it.
    fn padding(&self, position: usize, item: &Item) -> usize {
        if item.size == 0 || item.letter == b'c' {
            return 0;
        }
        let size = item.size.min(self.align as usize);
        // The size is taken for a power of two, as in the original.
        size.wrapping_sub(position & (size - 1)) & (size - 1)
    }
}

fn is_integer(letter: u8) -> bool {
    matches!(letter, b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I')
}

/// `struct.pack(format, value, ...)`
pub fn pack(stack: Stack<'_>) -> Answer {
    let mut format = Format::new(stack, stack.string_argument(1)?);
    // The original has a nil behind its arguments, which shows in messages.
    stack.push_nil();
    let mut bytes = Vec::new();
    let mut argument = 1;
    let mut next = || {
        argument += 1;
        argument
    };
    while let Some(item) = format.item()? {
        bytes.resize(bytes.len() + format.padding(bytes.len(), &item), 0);
        match item.letter {
            letter if is_integer(letter) => {
                let value = integer(stack.number_argument(next())?);
                push_ordered(&mut bytes, &widened(value, item.size), format.big_endian);
            }
            b'x' => bytes.push(0),
            b'f' => {
                let value = stack.number_argument(next())? as f32;
                push_ordered(&mut bytes, &value.to_le_bytes(), format.big_endian);
            }
            b'd' => {
                let value = stack.number_argument(next())?;
                push_ordered(&mut bytes, &value.to_le_bytes(), format.big_endian);
            }
            b'c' | b's' => {
                let index = next();
                let text = stack.string_argument(index)?;
                let size = if item.size == 0 { text.len() } else { item.size };
                let taken = text.get(..size).ok_or_else(|| Fault::Argument(index + 1, "string too short".into()))?;
                bytes.extend_from_slice(taken);
                bytes.extend_from_slice(if item.letter == b's' { b"\0" } else { b"" });
            }
            letter => format.option(letter)?,
        }
        if !stack.shared().heap.has_room(bytes.len()) {
            return Err(Fault::Memory);
        }
    }
    stack.push_bytes(&bytes)?;
    Ok(1)
}

/// A number as the machines on which Redis runs cast it to a 64-bit integer.
fn integer(number: f64) -> u64 {
    match number {
        _ if number < 0.0 => truncate(number) as u64,
        _ if number < 2f64.powi(64) => number as u64,
        _ => 0,
    }
}

/// The low `size` bytes of a value, the lowest first; what is past 64 bits is zero.
fn widened(value: u64, size: usize) -> smallvec::SmallVec<[u8; 32]> {
    let mut bytes = smallvec::SmallVec::from_slice(&value.to_le_bytes());
    bytes.resize(size, 0);
    bytes
}

fn push_ordered(out: &mut Vec<u8>, little: &[u8], big_endian: bool) {
    out.extend_from_slice(little);
    if big_endian {
        let start = out.len() - little.len();
        out[start..].reverse();
    }
}

/// `struct.unpack(format, bytes [, position])`: the values, and the position after them.
pub fn unpack(stack: Stack<'_>) -> Answer {
    let mut format = Format::new(stack, stack.string_argument(1)?);
    let bytes = stack.string_argument(2)?;
    let position = stack.optional_integer(3, 1)?;
    if position == 0 {
        return Err(Fault::Argument(3, "offset must be 1 or greater".into()));
    }
    let mut at = (position as usize).wrapping_sub(1);
    let too_short = || Fault::Argument(2, "data string too short".into());
    let mut count = 0;
    while let Some(item) = format.item()? {
        at = at.wrapping_add(format.padding(at, &item));
        let end = at.checked_add(item.size).ok_or_else(too_short)?;
        let data = bytes.get(at..end).ok_or_else(too_short)?;
        let mut size = item.size;
        if !stack.reserve(4) || count > limits::SCRIPT_RESULTS_MAX {
            return Err(Fault::Here("stack overflow (too many results)".into()));
        }
        let mut ordered: smallvec::SmallVec<[u8; 32]> = data.iter().copied().take(32).collect();
        if format.big_endian {
            ordered.reverse();
        }
        match item.letter {
            letter if is_integer(letter) => {
                stack.push_number(read_integer(&ordered, letter.is_ascii_lowercase()));
                count += 1;
            }
            b'x' => {}
            b'f' => {
                stack.push_number(f32::from_le_bytes(ordered[..].try_into().map_err(|_| too_short())?) as f64);
                count += 1;
            }
            b'd' => {
                stack.push_number(f64::from_le_bytes(ordered[..].try_into().map_err(|_| too_short())?));
                count += 1;
            }
            b'c' => {
                if size == 0 {
                    if count == 0 || stack.kind(-1) != Kind::Number {
                        return Err(Fault::Here("format 'c0' needs a previous size".into()));
                    }
                    size = truncate(stack.number(-1).unwrap_or_default()) as usize;
                    stack.pop(1);
                    count -= 1;
                }
                let end = at.checked_add(size).ok_or_else(too_short)?;
                stack.push_bytes(bytes.get(at..end).ok_or_else(too_short)?)?;
                count += 1;
            }
            b's' => {
                let rest = bytes.get(at..).ok_or_else(too_short)?;
                let len = rest.iter().position(|byte| *byte == 0);
                let len = len.ok_or_else(|| Fault::Here("unfinished string in data".into()))?;
                stack.push_bytes(&rest[..len])?;
                size = len + 1;
                count += 1;
            }
            letter => format.option(letter)?,
        }
        at += size;
    }
    stack.push_number((at as i64).wrapping_add(1) as f64);
    Ok(count + 1)
}

/// An integer from its bytes, the lowest first.
fn read_integer(little: &[u8], signed: bool) -> f64 {
    let value = little.iter().take(8).rev().fold(0u64, |value, byte| value << 8 | *byte as u64);
    if !signed || little.is_empty() {
        return value as f64;
    }
    // Of more than eight bytes the sign is where the original's machine has it, whose shifts count up to 63.
    let sign_and_above = u64::MAX << ((little.len() * 8 - 1) & 63);
    let value = if value & sign_and_above == 0 { value } else { value | sign_and_above };
    value as i64 as f64
}

/// `struct.size(format)`
pub fn size(stack: Stack<'_>) -> Answer {
    let mut format = Format::new(stack, stack.string_argument(1)?);
    let mut position = 0usize;
    while let Some(item) = format.item()? {
        position += format.padding(position, &item);
        match item.letter {
            b's' => return Err(Fault::Argument(1, "option 's' has no fixed size".into())),
            b'c' if item.size == 0 => return Err(Fault::Argument(1, "option 'c0' has no fixed size".into())),
            letter if !letter.is_ascii_alphanumeric() => format.option(letter)?,
            _ => {}
        }
        position += item.size;
    }
    stack.push_number(position as f64);
    Ok(1)
}
