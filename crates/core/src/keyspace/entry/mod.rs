//! One key with its value and its deadline, in one allocation where the value is short.
//!
//! ```text
//! 0        4      6         7       8        12
//! | access | epoch | key len | units | [length] | key ... | [deadline] | payload ...
//!   24 bits, 8 bits of flags            if key len is 255    8 bytes, if any
//! ```
//! - `access`: the clock of LRU or the counter of LFU, for eviction. `epoch`: the checkpoint that has saved this entry.
//! - `units`: the allocation in 16 bytes. 0 means that it is exactly as long as a boxed payload under this (long) key
//!   needs with a deadline, which then has room whether there is one or not.
//! - `flags`: bits 0-1 the form of the payload, bit 2 whether there is a deadline, bits 4-7 the slack.
//! - `payload`: the bytes of a short string (*inline*), 8 bytes of an integer, or a [`Value`] at the next multiple of 8.
//!
//! The length of an inline string is not stored: it is what the allocation has after the payload's start, less the
//! slack. A slack of 15 or more stands in the last two bytes, which it leaves free. So a key of 16 bytes and a value of
//! 32 take 56 bytes, 64 with a deadline: one allocation of 64 either way.

mod form;
mod read;
mod slot;
#[cfg(test)]
mod tests;

pub use form::EntryValue;
pub use read::{EntryRef, ValueRef};
pub(super) use slot::EntrySlot;

use crate::value::{Str, Value};
use form::{ALIGN, BOXED, HAS_DEADLINE, INLINE, INLINE_BYTES_MAX, INT, LONG_KEY, SLACK_AT_END, SLACK_SHIFT};
use form::{Payload, TakenPayload, compact, exact, is_plain, key_at, needed, rounded};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// An owned entry: a thin pointer.
pub struct Entry(NonNull<u8>);

// SAFETY: an entry owns its memory and its value, and values may go to other threads (checked below). Entries are not
// Sync, because `set_access` and `set_epoch` write through shared references.
unsafe impl Send for Entry {}

const fn assert_send<T: Send>() {}
const _: () = assert_send::<Value>();

impl Entry {
    /// An entry with its access clock and its epoch at zero.
    pub fn new(key: &[u8], value: EntryValue<'_>, expire_at: Option<i64>) -> Self {
        match &value {
            EntryValue::Value(Value::Str(string)) if is_plain(string, key.len()) => {
                Self::build(key, compact(EntryValue::Bytes(string), key.len()), expire_at)
            }
            _ => Self::build(key, compact(value, key.len()), expire_at),
        }
    }

    fn build(key: &[u8], payload: Payload<'_>, expire_at: Option<i64>) -> Self {
        let needed = needed(key.len(), expire_at.is_some(), &payload);
        let is_exact = rounded(needed) > INLINE_BYTES_MAX;
        let size = if is_exact { exact(key.len()) } else { rounded(needed) };
        let layout = Layout::from_size_align(size, ALIGN).expect("a key is at most 512 MB");
        // SAFETY: the size is at least that of a header.
        let Some(p) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        assert!(p.addr().get() >> 48 == 0, "a dict's slot has 6 bytes for an address");
        let len = u32::try_from(key.len()).expect("a key is at most 512 MB");
        // SAFETY: header, length and key lie within `size`, which `needed` or `exact` has counted them in.
        unsafe {
            p.cast::<u64>().write(0);
            p.add(6).write(u8::try_from(len).unwrap_or(LONG_KEY));
            p.add(7).write(if is_exact { 0 } else { (size / ALIGN) as u8 });
            if key.len() >= LONG_KEY.into() {
                p.add(8).cast::<u32>().write_unaligned(len);
            }
            p.add(key_at(key.len())).copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
        }
        let mut entry = Entry(p);
        entry.write_deadline(expire_at);
        entry.write_payload(payload);
        entry
    }

    /// The entry for reading.
    #[inline(always)]
    pub fn as_ref(&self) -> EntryRef<'_> {
        EntryRef(self.0, PhantomData)
    }

    fn set_flags(&mut self, flags: u8) {
        let word = self.as_ref().access() | u32::from(flags) << 24;
        // SAFETY: the word is in the header, which nobody has a reference to.
        unsafe { self.0.cast::<u32>().write(word) }
    }

    /// Writes the deadline behind the key. What stood there of the payload is lost.
    fn write_deadline(&mut self, expire_at: Option<i64>) {
        let flags = self.as_ref().flags() & !HAS_DEADLINE;
        self.set_flags(flags | if expire_at.is_some() { HAS_DEADLINE } else { 0 });
        if let Some(at) = expire_at {
            let len = self.as_ref().key_len();
            // SAFETY: the caller has made sure that the allocation has room for a deadline and the payload.
            unsafe { self.0.add(key_at(len) + len).cast::<i64>().write_unaligned(at) }
        }
    }

    /// Writes a payload that fits. A boxed value that stood there must have been moved out or dropped.
    fn write_payload(&mut self, payload: Payload<'_>) {
        let form = payload.form();
        let deadline = self.as_ref().flags() & HAS_DEADLINE;
        self.set_flags(form | deadline);
        let (at, memory) = (self.as_ref().payload_at(), self.as_ref().memory());
        // SAFETY: the caller has made sure that the payload fits. Bytes given from outside cannot lie in an entry that
        // is mutably borrowed. A Value is aligned, as `payload_at` rounds for it.
        unsafe {
            let p = self.0.add(at);
            match payload {
                Payload::Int(n) => p.cast::<i64>().write_unaligned(n),
                Payload::Boxed(value) => p.cast::<Value>().write(value),
                Payload::Inline(bytes) => {
                    p.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
                    let slack = memory - at - bytes.len();
                    self.set_flags(form | deadline | (slack.min(SLACK_AT_END) as u8) << SLACK_SHIFT);
                    if slack >= SLACK_AT_END {
                        self.0.add(memory - 2).cast::<u16>().write_unaligned(slack as u16);
                    }
                }
            }
        }
    }

    /// Moves the payload out and leaves an empty string.
    fn take_payload(&mut self) -> TakenPayload {
        let entry = self.as_ref();
        let taken = match entry.form() {
            INLINE => TakenPayload::Inline(match entry.value() {
                ValueRef::Bytes(bytes) => bytes.into(),
                _ => unreachable!("an inline payload is bytes"),
            }),
            // SAFETY: by its form the payload is an integer.
            INT => TakenPayload::Int(unsafe { entry.read(entry.payload_at()) }),
            // SAFETY: by its form the payload is a Value; it moves out, and the form is changed below.
            _ => TakenPayload::Boxed(unsafe { self.0.add(entry.payload_at()).cast::<Value>().read() }),
        };
        if entry.is_exact() {
            // An exact allocation holds nothing but a Value.
            self.write_payload(Payload::Boxed(Value::Str(Str::new(b""))));
        } else {
            self.write_payload(Payload::Inline(b""));
        }
        taken
    }

    /// True if `needed` bytes fit into the allocation without wasting more than half of it.
    fn has_room(&self, needed: usize) -> bool {
        let memory = self.as_ref().memory();
        needed <= memory && (memory <= 2 * needed || memory <= 64)
    }

    /// Puts a value in the old one's place: without an allocation where it fits, else the entry moves.
    pub fn set_value(&mut self, value: EntryValue<'_>) {
        self.set(value, self.as_ref().expire_at());
    }

    /// Sets value and deadline in one step.
    #[inline]
    pub fn set(&mut self, value: EntryValue<'_>, expire_at: Option<i64>) {
        let entry = self.as_ref();
        if let EntryValue::Value(Value::Str(string)) = &value
            && is_plain(string, entry.key_len())
        {
            return self.set(EntryValue::Bytes(string), expire_at);
        }
        let payload = compact(value, entry.key_len());
        let fits = match (entry.is_exact(), &payload) {
            (true, Payload::Boxed(_)) => true,
            (true, _) => false,
            (false, _) => self.has_room(needed(entry.key_len(), expire_at.is_some(), &payload)),
        };
        if fits {
            self.drop_boxed();
            self.write_deadline(expire_at);
            self.write_payload(payload);
        } else {
            self.rebuild(payload, expire_at);
        }
    }

    /// Replaces the value by a string if that needs no allocation; says whether it did.
    pub fn replace_string(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() > INLINE_BYTES_MAX {
            return false;
        }
        let entry = self.as_ref();
        let payload = compact(EntryValue::Bytes(bytes), entry.key_len());
        let is_boxed = matches!(payload, Payload::Boxed(_));
        if is_boxed || entry.is_exact() || !self.has_room(needed(entry.key_len(), entry.has_deadline(), &payload)) {
            return false;
        }
        self.drop_boxed();
        self.write_payload(payload);
        true
    }

    /// Sets or removes the deadline. The entry moves if its allocation has no room for one.
    pub fn set_expire(&mut self, expire_at: Option<i64>) {
        if self.as_ref().has_deadline() == expire_at.is_some() {
            return self.write_deadline(expire_at);
        }
        // The payload begins 8 bytes earlier or later, so it is lifted out and written again.
        match self.take_payload() {
            TakenPayload::Inline(bytes) => self.place(Payload::Inline(&bytes), expire_at),
            TakenPayload::Int(n) => self.place(Payload::Int(n), expire_at),
            TakenPayload::Boxed(value) => self.place(Payload::Boxed(value), expire_at),
        }
    }

    /// Writes deadline and payload, here or in a new allocation. The old payload is an empty string.
    fn place(&mut self, payload: Payload<'_>, expire_at: Option<i64>) {
        let entry = self.as_ref();
        if entry.is_exact() || needed(entry.key_len(), expire_at.is_some(), &payload) <= entry.memory() {
            self.drop_boxed();
            self.write_deadline(expire_at);
            self.write_payload(payload);
        } else {
            self.rebuild(payload, expire_at);
        }
    }

    /// Moves to a new allocation with this payload; the old one and its value are freed.
    fn rebuild(&mut self, payload: Payload<'_>, expire_at: Option<i64>) {
        let old = self.as_ref();
        let new = Self::build(old.key(), payload, expire_at);
        new.as_ref().set_access(old.access());
        new.as_ref().set_epoch(old.epoch());
        *self = new;
    }

    fn drop_boxed(&mut self) {
        if self.as_ref().form() == BOXED {
            // SAFETY: by its form the payload is a Value; every caller writes another payload next.
            unsafe { self.0.add(self.as_ref().payload_at()).cast::<Value>().drop_in_place() }
        }
    }

    /// The value, if it has an allocation of its own.
    pub fn value_mut(&mut self) -> Option<&mut Value> {
        let entry = self.as_ref();
        // SAFETY: as in `EntryRef::boxed`; self is mutably borrowed as long as the reference lives.
        (entry.form() == BOXED).then(|| unsafe { self.0.add(entry.payload_at()).cast::<Value>().as_mut() })
    }

    /// The value as a [`Value`], to be changed in place: a compact string becomes one first.
    pub fn promote(&mut self) -> &mut Value {
        if self.as_ref().form() != BOXED {
            let value = self.take_payload().into_value();
            self.place(Payload::Boxed(value), self.as_ref().expire_at());
        }
        self.value_mut().expect("a boxed payload")
    }

    /// Moves the value out and leaves an empty string.
    pub fn take_value(&mut self) -> Value {
        self.take_payload().into_value()
    }

    /// The same value and deadline under another key.
    pub fn renamed(mut self, key: &[u8]) -> Entry {
        let (expire_at, access) = (self.as_ref().expire_at(), self.as_ref().access());
        let new = match self.take_payload() {
            TakenPayload::Inline(bytes) => Entry::new(key, EntryValue::Text(&bytes), expire_at),
            TakenPayload::Int(n) => Entry::new(key, EntryValue::Int(n), expire_at),
            TakenPayload::Boxed(value) => Entry::new(key, EntryValue::Value(value), expire_at),
        };
        new.as_ref().set_access(access);
        new
    }

    /// The value and the deadline of an entry that is no longer needed.
    pub fn into_parts(mut self) -> (Value, Option<i64>) {
        (self.take_value(), self.as_ref().expire_at())
    }

    /// What stands for the entry in a dict.
    pub(super) fn slot(&self) -> EntrySlot {
        EntrySlot(self.0.as_ptr().expose_provenance() as u64)
    }

    /// Gives up ownership to whoever keeps the slot.
    pub(super) fn into_slot(self) -> EntrySlot {
        ManuallyDrop::new(self).slot()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let memory = self.as_ref().memory();
        self.drop_boxed();
        // SAFETY: the allocation was made with this size and alignment, and nobody refers to it any more. (The header
        // is read before the value goes; dropping the value does not touch it.)
        unsafe { dealloc(self.0.as_ptr(), Layout::from_size_align_unchecked(memory, ALIGN)) }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}
