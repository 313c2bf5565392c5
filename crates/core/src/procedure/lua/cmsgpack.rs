//! The library `cmsgpack` as Redis ships it: MessagePack from and to Lua values.

use super::pace::Pace;
use super::stack::{Answer, Fault, Kind, Stack, entry};
use crate::limits;

/// Tables nested deeper than this are packed as nil.
const NESTING_MAX: usize = 16;

/// Pushes the library.
pub fn push(stack: Stack<'_>) {
    super::sandbox::push_library(
        stack,
        &[
            ("pack", entry!(pack)),
            ("unpack", entry!(unpack)),
            ("unpack_one", entry!(unpack_one)),
            ("unpack_limit", entry!(unpack_limit)),
        ],
    );
    for (name, text) in [
        ("_NAME", "cmsgpack"),
        ("_VERSION", "lua-cmsgpack 0.4.0"),
        ("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
        ("_DESCRIPTION", "MessagePack C implementation for Lua"),
    ] {
        stack.push_text(text);
        stack.set_field(-2, name);
    }
}

/// `cmsgpack.pack(value, ...)`: the packed values one after another.
fn pack(stack: Stack<'_>) -> Answer {
    let count = stack.top();
    if count == 0 {
        return Err(Fault::Argument(0, "MessagePack pack needs input.".into()));
    }
    let mut packer = Packer { stack, bytes: Vec::new(), pace: Pace::new(stack) };
    for index in 1..=count {
        if !stack.reserve(2) {
            return Err(Fault::Argument(0, "Too many arguments for MessagePack pack.".into()));
        }
        stack.push_copy(index);
        packer.value(0)?;
    }
    stack.push_bytes(&packer.bytes)?;
    Ok(1)
}

struct Packer<'a> {
    stack: Stack<'a>,
    bytes: Vec<u8>,
    pace: Pace<'a>,
}

impl Packer<'_> {
    /// Pops a value and packs it.
    fn value(&mut self, level: usize) -> Result<(), Fault> {
        let stack = self.stack;
        self.pace.take(1)?;
        match stack.kind(-1) {
            Kind::String => self.string(stack.bytes(-1).unwrap_or_default()),
            Kind::Boolean => self.bytes.push(0xc2 + stack.truth(-1) as u8),
            Kind::Number => self.number(stack.number(-1).unwrap_or_default()),
            Kind::Table if level < NESTING_MAX => self.table(level)?,
            _ => self.bytes.push(0xc0),
        }
        stack.pop(1);
        if !stack.shared().heap.has_room(self.bytes.len()) {
            return Err(Fault::Memory);
        }
        Ok(())
    }

    /// A mark and a length in two or four bytes.
    fn long(&mut self, mark16: u8, mark32: u8, len: usize) {
        if len <= 0xffff {
            self.bytes.push(mark16);
            self.bytes.extend_from_slice(&(len as u16).to_be_bytes());
        } else {
            self.bytes.push(mark32);
            self.bytes.extend_from_slice(&(len as u32).to_be_bytes());
        }
    }

    fn string(&mut self, text: &[u8]) {
        match text.len() {
            len @ 0..32 => self.bytes.push(0xa0 | len as u8),
            len @ 32..256 => self.bytes.extend_from_slice(&[0xd9, len as u8]),
            len => self.long(0xda, 0xdb, len),
        }
        self.bytes.extend_from_slice(text);
    }

    fn number(&mut self, number: f64) {
        // 2^63 itself does not fit, though it compares equal to the largest integer.
        if number.floor() == number && (-(2f64.powi(63))..2f64.powi(63)).contains(&number) {
            self.integer(number as i64);
        } else if (number as f32) as f64 == number {
            self.bytes.push(0xca);
            self.bytes.extend_from_slice(&(number as f32).to_be_bytes());
        } else {
            self.bytes.push(0xcb);
            self.bytes.extend_from_slice(&number.to_be_bytes());
        }
    }

    fn integer(&mut self, n: i64) {
        let bytes = n.to_be_bytes();
        let (mark, len) = match n {
            -32..=0x7f => (None, 1),
            0x80..=0xff => (Some(0xcc), 1),
            0x100..=0xffff => (Some(0xcd), 2),
            0x1_0000..=0xffff_ffff => (Some(0xce), 4),
            0x1_0000_0000.. => (Some(0xcf), 8),
            -128..=-33 => (Some(0xd0), 1),
            -32768..=-129 => (Some(0xd1), 2),
            -2_147_483_648..=-32769 => (Some(0xd2), 4),
            _ => (Some(0xd3), 8),
        };
        self.bytes.extend(mark);
        self.bytes.extend_from_slice(&bytes[8 - len..]);
    }

    /// The table on top, which stays.
    fn table(&mut self, level: usize) -> Result<(), Fault> {
        let stack = self.stack;
        if !stack.reserve(6) {
            return Err(Fault::Memory);
        }
        if self.is_array()? {
            let len = stack.table_len(-1);
            if len <= 15 {
                self.bytes.push(0x90 | len as u8)
            } else {
                self.long(0xdc, 0xdd, len)
            }
            for position in 1..=len {
                stack.get_element(-1, position as i32);
                self.value(level + 1)?;
            }
            return Ok(());
        }
        let mut len = 0;
        stack.push_nil();
        while stack.next(-2) {
            self.pace.take(1)?;
            stack.pop(1);
            len += 1;
        }
        if len <= 15 {
            self.bytes.push(0x80 | len as u8)
        } else {
            self.long(0xde, 0xdf, len)
        }
        stack.push_nil();
        while stack.next(-2) {
            stack.push_copy(-2);
            self.value(level + 1)?;
            self.value(level + 1)?;
        }
        Ok(())
    }

    /// True when the keys of the table on top are 1 to their number.
    fn is_array(&mut self) -> Result<bool, Fault> {
        let stack = self.stack;
        let (mut count, mut max) = (0.0, 0.0f64);
        stack.push_nil();
        while stack.next(-2) {
            self.pace.take(1)?;
            stack.pop(1);
            let key = if stack.kind(-1) == Kind::Number { stack.number(-1) } else { None };
            match key {
                Some(key) if key > 0.0 && key.trunc() == key && key <= i32::MAX as f64 => max = max.max(key),
                _ => {
                    stack.pop(1);
                    return Ok(false);
                }
            }
            count += 1.0;
        }
        Ok(count == max)
    }
}

fn unpack(stack: Stack<'_>) -> Answer {
    unpack_from(stack, 0, 0)
}

fn unpack_one(stack: Stack<'_>) -> Answer {
    let offset = stack.optional_integer(2, 0)?;
    unpack_from(stack, 1, offset)
}

fn unpack_limit(stack: Stack<'_>) -> Answer {
    let limit = stack.integer_argument(2)?;
    let offset = stack.optional_integer(3, 0)?;
    unpack_from(stack, limit, offset)
}

/// Unpacks up to `limit` values from `offset` on; with neither, all values.
fn unpack_from(stack: Stack<'_>, limit: i64, offset: i64) -> Answer {
    let bytes = stack.string_argument(1)?;
    stack.set_top(1);
    let all = limit == 0 && offset == 0;
    if offset < 0 || limit < 0 {
        let len = bytes.len();
        let text = format!("Invalid request to unpack with offset of {offset} and limit of {len}.");
        return Err(Fault::Here(text.into()));
    }
    let Some(rest) = bytes.get(offset as usize..) else {
        let text = format!("Start offset {offset} greater than input length {}.", bytes.len());
        return Err(Fault::Here(text.into()));
    };
    let mut unpacker = Unpacker { stack, rest, depth: 0, pace: Pace::new(stack) };
    let mut count = 0;
    while !unpacker.rest.is_empty() && (all || (count as i64) < limit) {
        unpacker.value()?;
        count += 1;
    }
    if !all {
        // Where to go on comes first; -1 says that nothing is left.
        let next = if unpacker.rest.is_empty() { -1.0 } else { (bytes.len() - unpacker.rest.len()) as f64 };
        if !stack.reserve(1) {
            return Err(too_many());
        }
        stack.push_number(next);
        stack.insert(2);
        count += 1;
    }
    Ok(count)
}

fn too_many() -> Fault {
    let text = "stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)";
    Fault::Here(text.into())
}

struct Unpacker<'a> {
    stack: Stack<'a>,
    rest: &'a [u8],
    depth: usize,
    pace: Pace<'a>,
}

impl<'a> Unpacker<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) =
            self.rest.split_at_checked(len).ok_or_else(|| Fault::Here("Missing bytes in input.".into()))?;
        self.rest = rest;
        Ok(taken)
    }

    /// An unsigned integer of `len` bytes.
    fn unsigned(&mut self, len: usize) -> Result<u64, Fault> {
        Ok(self.take(len)?.iter().fold(0, |n, byte| n << 8 | *byte as u64))
    }

    /// A signed integer of `len` bytes.
    fn signed(&mut self, len: usize) -> Result<i64, Fault> {
        let shift = 64 - len as u32 * 8;
        Ok((self.unsigned(len)? << shift) as i64 >> shift)
    }

    /// Pushes the next value.
    fn value(&mut self) -> Result<(), Fault> {
        let stack = self.stack;
        self.pace.take(1)?;
        if !stack.reserve(4) || self.depth > limits::SCRIPT_DATA_DEPTH_MAX {
            return Err(too_many());
        }
        if !stack.shared().heap.has_room(0) {
            return Err(Fault::Memory);
        }
        match self.take(1)?[0] {
            mark @ 0..=0x7f => stack.push_number(mark as f64),
            mark @ 0x80..=0x8f => self.map(mark as usize & 15)?,
            mark @ 0x90..=0x9f => self.array(mark as usize & 15)?,
            mark @ 0xa0..=0xbf => self.string(mark as usize & 31)?,
            0xc0 => stack.push_nil(),
            0xc2 => stack.push_bool(false),
            0xc3 => stack.push_bool(true),
            0xca => {
                let bits = self.unsigned(4)? as u32;
                stack.push_number(f32::from_bits(bits) as f64);
            }
            0xcb => {
                let bits = self.unsigned(8)?;
                stack.push_number(f64::from_bits(bits));
            }
            mark @ 0xcc..=0xce => {
                let number = self.unsigned(1 << (mark - 0xcc))?;
                stack.push_number(number as f64);
            }
            // The original reads unsigned 64-bit integers as signed ones.
            0xcf => {
                let number = self.signed(8)?;
                stack.push_number(number as f64);
            }
            mark @ 0xd0..=0xd3 => {
                let number = self.signed(1 << (mark - 0xd0))?;
                stack.push_number(number as f64);
            }
            mark @ 0xd9..=0xdb => {
                let len = self.unsigned(1 << (mark - 0xd9))?;
                self.string(len as usize)?;
            }
            mark @ (0xdc | 0xdd) => {
                let len = self.unsigned(2 << (mark - 0xdc))?;
                self.array(len as usize)?;
            }
            mark @ (0xde | 0xdf) => {
                let len = self.unsigned(2 << (mark - 0xde))?;
                self.map(len as usize)?;
            }
            mark @ 0xe0.. => stack.push_number(mark as i8 as f64),
            _ => return Err(Fault::Here("Bad data format in input.".into())),
        }
        Ok(())
    }

    fn string(&mut self, len: usize) -> Result<(), Fault> {
        let text = self.take(len)?;
        self.stack.push_bytes(text)
    }

    fn array(&mut self, len: usize) -> Result<(), Fault> {
        self.depth += 1;
        // Each element takes a byte at least, so the input bounds what is reserved.
        self.stack.push_table(len.min(self.rest.len()), 0);
        for position in 1..=len {
            self.value()?;
            self.stack.set_element(-2, position as i32);
        }
        self.depth -= 1;
        Ok(())
    }

    fn map(&mut self, len: usize) -> Result<(), Fault> {
        self.depth += 1;
        self.stack.push_table(0, len.min(self.rest.len()));
        for _ in 0..len {
            self.value()?;
            self.value()?;
            match self.stack.kind(-2) {
                Kind::Nil => return Err(Fault::Plain("table index is nil".into())),
                Kind::Number if self.stack.number(-2).is_some_and(f64::is_nan) => {
                    return Err(Fault::Plain("table index is NaN".into()));
                }
                _ => self.stack.set_pair(-3),
            }
        }
        self.depth -= 1;
        Ok(())
    }
}
