//! The forms of an entry's payload, and where things lie for each.

use crate::ds::number::parse_i64;
use crate::value::string::encoding;
use crate::value::{Str, Value};

/// Entries larger than this keep their value in an allocation of its own, which can grow without moving the key.
pub(super) const INLINE_BYTES_MAX: usize = 1024;
pub(super) const ALIGN: usize = 16;
/// The key length that says that the true length follows in 4 bytes.
pub(super) const LONG_KEY: u8 = 255;

pub(super) const INLINE: u8 = 0;
pub(super) const INT: u8 = 1;
pub(super) const BOXED: u8 = 2;
pub(super) const FORM: u8 = 3;
pub(super) const HAS_DEADLINE: u8 = 4;
pub(super) const SLACK_SHIFT: u32 = 4;
pub(super) const SLACK_AT_END: usize = 15;

const _: () = assert!(size_of::<Value>() == 16 && align_of::<Value>() == 8);

/// A value on its way into an entry.
pub enum EntryValue<'a> {
    /// A string; decimal integers and short strings get compact forms.
    Bytes(&'a [u8]),
    /// A string kept as text even if it reads as an integer.
    Text(&'a [u8]),
    /// An integer.
    Int(i64),
    /// Anything, moved in; short strings get compact forms here too.
    Value(Value),
}

/// What is written behind the key.
pub(super) enum Payload<'a> {
    Inline(&'a [u8]),
    Int(i64),
    Boxed(Value),
}

impl Payload<'_> {
    pub(super) fn form(&self) -> u8 {
        match self {
            Payload::Inline(_) => INLINE,
            Payload::Int(_) => INT,
            Payload::Boxed(_) => BOXED,
        }
    }
}

/// Where the key begins.
#[inline(always)]
pub(super) fn key_at(key_len: usize) -> usize {
    if key_len < LONG_KEY as usize { 8 } else { 12 }
}

/// Where the payload begins.
#[inline(always)]
pub(super) fn payload_at(key_len: usize, has_deadline: bool, form: u8) -> usize {
    let at = key_at(key_len) + key_len + if has_deadline { 8 } else { 0 };
    if form == BOXED { at.next_multiple_of(8) } else { at }
}

pub(super) fn needed(key_len: usize, has_deadline: bool, payload: &Payload<'_>) -> usize {
    let len = match payload {
        Payload::Inline(bytes) => bytes.len(),
        Payload::Int(_) => 8,
        Payload::Boxed(_) => size_of::<Value>(),
    };
    payload_at(key_len, has_deadline, payload.form()) + len
}

/// The allocation for `needed` bytes, as the allocator's size classes round it: 16s up to 128, then four a doubling.
pub(super) fn rounded(needed: usize) -> usize {
    needed.next_multiple_of((needed.next_power_of_two() / 8).max(ALIGN))
}

/// The length of an allocation whose `units` are 0.
pub(super) fn exact(key_len: usize) -> usize {
    payload_at(key_len, true, BOXED) + size_of::<Value>()
}

/// True if a string can be inline. The deadline is counted whether there is one or not, so that setting one later
/// never changes the form.
fn is_short(bytes: &[u8], key_len: usize) -> bool {
    needed(key_len, true, &Payload::Inline(bytes)) <= INLINE_BYTES_MAX
}

/// True if a boxed string can be inline and nothing is lost by that: one that was edited in place shows it.
pub(super) fn is_plain(string: &Str, key_len: usize) -> bool {
    is_short(string, key_len) && string.encoding() == encoding(string)
}

/// The most compact payload for a value under a key of this length.
pub(super) fn compact(value: EntryValue<'_>, key_len: usize) -> Payload<'_> {
    match value {
        EntryValue::Value(value) => Payload::Boxed(value),
        EntryValue::Int(n) if needed(key_len, true, &Payload::Int(n)) <= INLINE_BYTES_MAX => Payload::Int(n),
        EntryValue::Int(n) => Payload::Boxed(Value::Str(Str::new(itoa::Buffer::new().format(n).as_bytes()))),
        EntryValue::Text(bytes) if is_short(bytes, key_len) => Payload::Inline(bytes),
        EntryValue::Text(bytes) => Payload::Boxed(Value::Str(Str::new(bytes))),
        EntryValue::Bytes(bytes) => match parse_i64(bytes) {
            Some(n) => compact(EntryValue::Int(n), key_len),
            None if is_short(bytes, key_len) => Payload::Inline(bytes),
            None => Payload::Boxed(Value::Str(Str::new(bytes))),
        },
    }
}

pub(super) enum TakenPayload {
    Inline(smallvec::SmallVec<[u8; 128]>),
    Int(i64),
    Boxed(Value),
}

impl TakenPayload {
    pub(super) fn into_value(self) -> Value {
        match self {
            TakenPayload::Inline(bytes) => Value::Str(Str::new(&bytes)),
            TakenPayload::Int(n) => Value::Str(Str::new(itoa::Buffer::new().format(n).as_bytes())),
            TakenPayload::Boxed(value) => value,
        }
    }
}
