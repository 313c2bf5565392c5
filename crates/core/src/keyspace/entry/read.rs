//! Reading an entry.

use super::form::{ALIGN, BOXED, FORM, HAS_DEADLINE, INLINE, INT, LONG_KEY, SLACK_AT_END, SLACK_SHIFT};
use super::form::{exact, key_at, payload_at};
use super::{Entry, EntryValue};
use crate::ds::prefetch::prefetch;
use crate::value::Value;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A value where it lies in an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// A string, inline or not.
    Bytes(&'a [u8]),
    /// A string that is the decimal form of this integer.
    Int(i64),
    /// A collection.
    Value(&'a Value),
}

/// A borrowed entry.
#[derive(Clone, Copy)]
pub struct EntryRef<'a>(pub(super) NonNull<u8>, pub(super) PhantomData<&'a Entry>);

impl<'a> EntryRef<'a> {
    /// Reads a field at a fixed or computed offset.
    ///
    /// # Safety
    /// The `size_of::<T>()` bytes at `at` lie in the allocation and hold an initialised `T`.
    #[inline(always)]
    pub(super) unsafe fn read<T: Copy>(self, at: usize) -> T {
        // SAFETY: by the contract above; no alignment is assumed.
        unsafe { self.0.add(at).cast::<T>().read_unaligned() }
    }

    #[inline(always)]
    fn word(self) -> u32 {
        // SAFETY: every entry has a header.
        unsafe { self.read::<u32>(0) }
    }

    #[inline(always)]
    pub(super) fn flags(self) -> u8 {
        (self.word() >> 24) as u8
    }

    #[inline(always)]
    pub(super) fn form(self) -> u8 {
        self.flags() & FORM
    }

    #[inline(always)]
    pub(super) fn has_deadline(self) -> bool {
        self.flags() & HAS_DEADLINE != 0
    }

    #[inline(always)]
    pub(super) fn key_len(self) -> usize {
        // SAFETY: the byte is in the header; after LONG_KEY the length stands at 8.
        unsafe {
            match self.read::<u8>(6) {
                LONG_KEY => self.read::<u32>(8) as usize,
                len => len.into(),
            }
        }
    }

    #[inline(always)]
    pub(super) fn payload_at(self) -> usize {
        payload_at(self.key_len(), self.has_deadline(), self.form())
    }

    pub(super) fn is_exact(self) -> bool {
        // SAFETY: the byte is in the header.
        unsafe { self.read::<u8>(7) == 0 }
    }

    /// Bytes of the entry's allocation; a boxed value has more of its own.
    #[inline]
    pub fn memory(self) -> usize {
        // SAFETY: the byte is in the header.
        match unsafe { self.read::<u8>(7) } {
            0 => exact(self.key_len()),
            units => units as usize * ALIGN,
        }
    }

    /// Bytes that live from `at` on.
    ///
    /// # Safety
    /// They lie in the allocation, are initialised, and are not written while `'a` lasts.
    #[inline(always)]
    unsafe fn bytes(self, at: usize, len: usize) -> &'a [u8] {
        // SAFETY: by the contract above.
        unsafe { std::slice::from_raw_parts(self.0.add(at).as_ptr(), len) }
    }

    /// The key.
    #[inline(always)]
    pub fn key(self) -> &'a [u8] {
        let len = self.key_len();
        // SAFETY: the key lies there from the entry's making to its end and is never written again.
        unsafe { self.bytes(key_at(len), len) }
    }

    /// The deadline, milliseconds since 1970.
    #[inline]
    pub fn expire_at(self) -> Option<i64> {
        let len = self.key_len();
        // SAFETY: by the flag the 8 bytes after the key are the deadline.
        self.has_deadline().then(|| unsafe { self.read(key_at(len) + len) })
    }

    /// True if the deadline has passed at `now_ms`; in the deadline's own millisecond the key still lives.
    #[inline]
    pub fn is_expired(self, now_ms: i64) -> bool {
        self.expire_at().is_some_and(|at| at < now_ms)
    }

    #[inline]
    fn inline_len(self) -> usize {
        let memory = self.memory();
        let slack = match usize::from(self.flags() >> SLACK_SHIFT) {
            // SAFETY: a slack of 15 or more leaves the last two bytes of the allocation free, and they hold it.
            SLACK_AT_END => unsafe { self.read::<u16>(memory - 2) }.into(),
            slack => slack,
        };
        memory - self.payload_at() - slack
    }

    /// The value, if it has an allocation of its own.
    pub fn boxed(self) -> Option<&'a Value> {
        // SAFETY: by its form the payload is a Value, aligned to 8 as the allocation is to 16; while 'a lasts nobody
        // has it mutably.
        (self.form() == BOXED).then(|| unsafe { self.0.add(self.payload_at()).cast::<Value>().as_ref() })
    }

    /// The value.
    #[inline]
    pub fn value(self) -> ValueRef<'a> {
        match self.form() {
            // SAFETY: an inline payload is initialised for its length and not written while 'a lasts.
            INLINE => ValueRef::Bytes(unsafe { self.bytes(self.payload_at(), self.inline_len()) }),
            // SAFETY: by its form the payload is 8 bytes of an integer.
            INT => ValueRef::Int(unsafe { self.read(self.payload_at()) }),
            _ => match self.boxed() {
                Some(Value::Str(string)) => ValueRef::Bytes(string),
                Some(value) => ValueRef::Value(value),
                None => unreachable!("a payload of no form"),
            },
        }
    }

    /// The type of the value, as TYPE names it.
    pub fn type_name(self) -> &'static str {
        self.boxed().map_or("string", Value::type_name)
    }

    /// How the value is represented, as OBJECT ENCODING names it.
    pub fn encoding(self) -> &'static str {
        match (self.boxed(), self.value()) {
            (Some(value), _) => value.encoding(),
            (None, ValueRef::Bytes(bytes)) => crate::value::string::text_encoding(bytes.len()),
            (None, _) => "int",
        }
    }

    /// A copy of the entry under another key.
    pub fn copy_as(self, key: &[u8]) -> Entry {
        let value = match (self.boxed(), self.value()) {
            (Some(value), _) => EntryValue::Value(value.clone()),
            (None, ValueRef::Int(n)) => EntryValue::Int(n),
            (None, ValueRef::Bytes(bytes)) => EntryValue::Text(bytes),
            (None, ValueRef::Value(_)) => unreachable!("values are boxed"),
        };
        Entry::new(key, value, self.expire_at())
    }

    /// A copy of the value.
    pub fn cloned_value(self) -> Value {
        match (self.boxed(), self.value()) {
            (Some(value), _) | (None, ValueRef::Value(value)) => value.clone(),
            (None, ValueRef::Int(n)) => Value::string(itoa::Buffer::new().format(n).as_bytes()),
            (None, ValueRef::Bytes(bytes)) => Value::string(bytes),
        }
    }

    /// True if the value has an allocation of its own.
    pub fn is_boxed(self) -> bool {
        self.form() == BOXED
    }

    /// The 24 bits of the access clock.
    #[inline]
    pub fn access(self) -> u32 {
        self.word() & 0xFF_FFFF
    }

    /// Sets the access clock; readers do that too.
    #[inline]
    pub fn set_access(self, access: u32) {
        let word = self.word() & 0xFF00_0000 | access & 0xFF_FFFF;
        // SAFETY: the word is in the header, which nobody has a reference to; entries are not shared between threads.
        unsafe { self.0.cast::<u32>().write(word) }
    }

    /// The checkpoint that has saved this entry.
    #[inline]
    pub fn epoch(self) -> u16 {
        // SAFETY: the field is in the header.
        unsafe { self.read(4) }
    }

    /// Notes the checkpoint that has saved this entry.
    #[inline]
    pub fn set_epoch(self, epoch: u16) {
        // SAFETY: as in `set_access`.
        unsafe { self.0.add(4).cast::<u16>().write(epoch) }
    }

    pub(in crate::keyspace) fn prefetch(self) {
        prefetch(self.0.as_ptr());
    }
}

impl fmt::Debug for EntryRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = String::from_utf8_lossy(self.key());
        f.debug_struct("Entry").field("key", &key).field("value", &self.value()).field("at", &self.expire_at()).finish()
    }
}
