//! Lua values to JSON.

use super::super::number;
use super::super::pace::{PACE_BYTES, Pace};
use super::super::stack::{Answer, Fault, Kind, Stack};
use super::{Invalid, Settings};
use crate::limits;
use std::ffi::c_int;

/// Bytes of a string that are written at a time.
const PART_BYTES: usize = 1 << 16;

/// `cjson.encode(value)`
pub fn encode(stack: Stack<'_>) -> Answer {
    if stack.top() != 1 {
        return Err(Fault::Argument(1, "expected 1 argument".into()));
    }
    let pace = Pace::new(stack);
    let mut encoder = Encoder { stack, settings: Settings::of(stack), depth: 0, json: Vec::new(), pace };
    encoder.value()?;
    stack.push_bytes(&encoder.json)?;
    Ok(1)
}

struct Encoder<'a> {
    stack: Stack<'a>,
    settings: Settings,
    depth: i32,
    json: Vec<u8>,
    pace: Pace<'a>,
}

impl Encoder<'_> {
    /// Writes the value on top, which stays.
    fn value(&mut self) -> Result<(), Fault> {
        let stack = self.stack;
        match stack.kind(-1) {
            Kind::String => self.string(-1)?,
            Kind::Number => self.number(-1)?,
            Kind::Boolean => self.json.extend_from_slice(if stack.truth(-1) { b"true" } else { b"false" }),
            Kind::Table => self.table()?,
            Kind::Nil => self.json.extend_from_slice(b"null"),
            Kind::LightUserdata if stack.userdata(-1).is_null() => self.json.extend_from_slice(b"null"),
            _ => return Err(self.refusal(-1, "type not supported")),
        }
        self.pace.take(1)?;
        self.check_room()
    }

    fn check_room(&self) -> Result<(), Fault> {
        if self.stack.shared().heap.has_room(self.json.len()) { Ok(()) } else { Err(Fault::Memory) }
    }

    fn table(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        let max = self.settings.encode_max_depth.min(limits::SCRIPT_DATA_DEPTH_MAX as i32);
        if self.depth > max || !self.stack.reserve(6) {
            return Err(Fault::Here(format!("Cannot serialise, excessive nesting ({})", self.depth).into()));
        }
        match self.array_len()? {
            Some(len) if len > 0 => self.array(len)?,
            _ => self.object()?,
        }
        self.depth -= 1;
        Ok(())
    }

    /// The length of the table on top as an array; None when it must be an object.
    fn array_len(&mut self) -> Result<Option<i64>, Fault> {
        let stack = self.stack;
        let (mut max, mut items) = (0.0f64, 0);
        stack.push_nil();
        while stack.next(-2) {
            self.pace.take(1)?;
            stack.pop(1);
            let key = if stack.kind(-1) == Kind::Number { stack.number(-1) } else { None };
            match key {
                Some(key) if key >= 1.0 && key.floor() == key => max = max.max(key),
                _ => {
                    stack.pop(1);
                    return Ok(None);
                }
            }
            items += 1;
        }
        let Settings { sparse_ratio: ratio, sparse_safe: safe, sparse_convert: convert, .. } = self.settings;
        if ratio > 0 && max > items as f64 * ratio as f64 && max > safe as f64 {
            if !convert {
                return Err(self.refusal(-1, "excessively sparse array"));
            }
            return Ok(None);
        }
        Ok(Some(max as i64))
    }

    fn array(&mut self, len: i64) -> Result<(), Fault> {
        self.json.push(b'[');
        for position in 1..=len {
            if position > 1 {
                self.json.push(b',');
            }
            // Past the range of positions there is nothing but holes.
            self.stack.get_element(-1, position.try_into().unwrap_or(0));
            self.value()?;
            self.stack.pop(1);
        }
        self.json.push(b']');
        Ok(())
    }

    fn object(&mut self) -> Result<(), Fault> {
        let stack = self.stack;
        self.json.push(b'{');
        let mut first = true;
        stack.push_nil();
        while stack.next(-2) {
            if !std::mem::replace(&mut first, false) {
                self.json.push(b',');
            }
            match stack.kind(-2) {
                Kind::Number => {
                    self.json.push(b'"');
                    self.number(-2)?;
                    self.json.push(b'"');
                }
                Kind::String => self.string(-2)?,
                _ => return Err(self.refusal(-2, "table key must be a number or string")),
            }
            self.json.push(b':');
            self.value()?;
            stack.pop(1);
        }
        self.json.push(b'}');
        Ok(())
    }

    fn number(&mut self, index: c_int) -> Result<(), Fault> {
        let number = self.stack.number(index).unwrap_or_default();
        let text = match self.settings.encode_invalid {
            _ if number.is_finite() => number::general(number, self.settings.precision as usize),
            Invalid::Refused => return Err(self.refusal(index, "must not be NaN or Inf")),
            Invalid::Null => "null".into(),
            Invalid::Written if number.is_nan() => "nan".into(),
            Invalid::Written => number::general(number, 14),
        };
        self.json.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn string(&mut self, index: c_int) -> Result<(), Fault> {
        let text = self.stack.bytes(index).unwrap_or_default();
        self.json.push(b'"');
        // Escapes make six bytes of one, so room is looked for in between.
        for part in text.chunks(PART_BYTES) {
            self.pace.take(part.len() / PACE_BYTES)?;
            self.check_room()?;
            self.json.reserve(part.len() + 1);
            self.part(part);
        }
        self.json.push(b'"');
        Ok(())
    }

    fn part(&mut self, mut rest: &[u8]) {
        while let Some(at) = rest.iter().position(|byte| needs_escape(*byte)) {
            self.json.extend_from_slice(&rest[..at]);
            self.escape(rest[at]);
            rest = &rest[at + 1..];
        }
        self.json.extend_from_slice(rest);
    }

    fn escape(&mut self, byte: u8) {
        let short = match byte {
            b'"' | b'\\' | b'/' => byte,
            8 => b'b',
            9 => b't',
            10 => b'n',
            12 => b'f',
            13 => b'r',
            _ => {
                self.json.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                return;
            }
        };
        self.json.extend_from_slice(&[b'\\', short]);
    }

    #[cold]
    fn refusal(&self, index: c_int, reason: &str) -> Fault {
        Fault::Here(format!("Cannot serialise {}: {reason}", self.stack.type_name(index)).into())
    }
}

fn needs_escape(byte: u8) -> bool {
    matches!(byte, 0..32 | b'"' | b'\\' | b'/' | 127)
}
