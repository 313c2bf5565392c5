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

use crate::ds::dict::Slot;
use crate::ds::prefetch::prefetch;
use crate::value::{Str, Value};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// Entries larger than this keep their value in an allocation of its own, which can grow without moving the key.
const INLINE_BYTES_MAX: usize = 1024;
const ALIGN: usize = 16;
/// The key length that says that the true length follows in 4 bytes.
const LONG_KEY: u8 = 255;

const INLINE: u8 = 0;
const INT: u8 = 1;
const BOXED: u8 = 2;
const FORM: u8 = 3;
const HAS_DEADLINE: u8 = 4;
const SLACK_SHIFT: u32 = 4;
const SLACK_AT_END: usize = 15;

const _: () = assert!(size_of::<Value>() == 16 && align_of::<Value>() == 8);

/// A value on its way into an entry.
pub enum EntryValue<'a> {
    /// A string; decimal integers and short strings get compact forms.
    Bytes(&'a [u8]),
    /// A string kept as text even if it reads as an integer.
    Text(&'a [u8]),
    /// An integer.
    Int(i64),
    /// Anything, moved in as it is.
    Value(Value),
}

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

/// An owned entry: a thin pointer.
pub struct Entry(NonNull<u8>);

/// A borrowed entry.
#[derive(Clone, Copy)]
pub struct EntryRef<'a>(NonNull<u8>, PhantomData<&'a Entry>);

// SAFETY: an entry owns its memory and its value, and values may go to other threads (checked below). Entries are not
// Sync, because `set_access` and `set_epoch` write through shared references.
unsafe impl Send for Entry {}

const fn assert_send<T: Send>() {}
const _: () = assert_send::<Value>();

/// What is written behind the key.
enum Payload<'a> {
    Inline(&'a [u8]),
    Int(i64),
    Boxed(Value),
}

impl Payload<'_> {
    fn form(&self) -> u8 {
        match self {
            Payload::Inline(_) => INLINE,
            Payload::Int(_) => INT,
            Payload::Boxed(_) => BOXED,
        }
    }
}

/// The 64-bit integer that `bytes` is the canonical decimal form of.
fn canonical_int(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 19 || (digits[0] == b'0' && bytes.len() > 1) {
        return None;
    }
    digits.iter().try_fold(0i64, |n, digit| {
        let digit = digit.wrapping_sub(b'0');
        let n = n.checked_mul(10)?;
        let digit = (digit < 10).then_some(i64::from(digit))?;
        if negative { n.checked_sub(digit) } else { n.checked_add(digit) }
    })
}

/// Where the key begins.
#[inline(always)]
fn key_at(key_len: usize) -> usize {
    if key_len < LONG_KEY as usize { 8 } else { 12 }
}

/// Where the payload begins.
#[inline(always)]
fn payload_at(key_len: usize, has_deadline: bool, form: u8) -> usize {
    let at = key_at(key_len) + key_len + if has_deadline { 8 } else { 0 };
    if form == BOXED { at.next_multiple_of(8) } else { at }
}

fn needed(key_len: usize, has_deadline: bool, payload: &Payload<'_>) -> usize {
    let len = match payload {
        Payload::Inline(bytes) => bytes.len(),
        Payload::Int(_) => 8,
        Payload::Boxed(_) => size_of::<Value>(),
    };
    payload_at(key_len, has_deadline, payload.form()) + len
}

/// The allocation for `needed` bytes, as the allocator's size classes round it: 16s up to 128, then four a doubling.
fn rounded(needed: usize) -> usize {
    needed.next_multiple_of((needed.next_power_of_two() / 8).max(ALIGN))
}

/// The length of an allocation whose `units` are 0.
fn exact(key_len: usize) -> usize {
    payload_at(key_len, true, BOXED) + size_of::<Value>()
}

/// The most compact payload for a value under a key of this length.
fn compact(value: EntryValue<'_>, key_len: usize) -> Payload<'_> {
    // The deadline is counted whether there is one or not, so that setting one later never changes the form.
    let fits = |payload: &Payload<'_>| needed(key_len, true, payload) <= INLINE_BYTES_MAX;
    let payload = match value {
        EntryValue::Value(value) => return Payload::Boxed(value),
        EntryValue::Int(n) => Payload::Int(n),
        EntryValue::Text(bytes) => Payload::Inline(bytes),
        EntryValue::Bytes(bytes) => canonical_int(bytes).map_or(Payload::Inline(bytes), Payload::Int),
    };
    if fits(&payload) {
        return payload;
    }
    match payload {
        Payload::Int(n) => Payload::Boxed(Value::Str(Str::new(itoa::Buffer::new().format(n).as_bytes()))),
        Payload::Inline(bytes) => Payload::Boxed(Value::Str(Str::new(bytes))),
        boxed => boxed,
    }
}

impl<'a> EntryRef<'a> {
    /// Reads a field at a fixed or computed offset.
    ///
    /// # Safety
    /// The `size_of::<T>()` bytes at `at` lie in the allocation and hold an initialised `T`.
    #[inline(always)]
    unsafe fn read<T: Copy>(self, at: usize) -> T {
        // SAFETY: by the contract above; no alignment is assumed.
        unsafe { self.0.add(at).cast::<T>().read_unaligned() }
    }

    #[inline(always)]
    fn word(self) -> u32 {
        // SAFETY: every entry has a header.
        unsafe { self.read::<u32>(0) }
    }

    #[inline(always)]
    fn flags(self) -> u8 {
        (self.word() >> 24) as u8
    }

    #[inline(always)]
    fn form(self) -> u8 {
        self.flags() & FORM
    }

    #[inline(always)]
    fn has_deadline(self) -> bool {
        self.flags() & HAS_DEADLINE != 0
    }

    #[inline(always)]
    fn key_len(self) -> usize {
        // SAFETY: the byte is in the header; after LONG_KEY the length stands at 8.
        unsafe {
            match self.read::<u8>(6) {
                LONG_KEY => self.read::<u32>(8) as usize,
                len => len.into(),
            }
        }
    }

    #[inline(always)]
    fn payload_at(self) -> usize {
        payload_at(self.key_len(), self.has_deadline(), self.form())
    }

    fn is_exact(self) -> bool {
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

    fn boxed(self) -> Option<&'a Value> {
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
            (Some(value), _) => value.clone(),
            (None, ValueRef::Int(n)) => Value::string(itoa::Buffer::new().format(n).as_bytes()),
            (None, ValueRef::Bytes(bytes)) => Value::string(bytes),
            (None, ValueRef::Value(value)) => value.clone(),
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

    pub(super) fn prefetch(self) {
        prefetch(self.0.as_ptr());
    }
}

impl Entry {
    /// An entry with its access clock and its epoch at zero.
    pub fn new(key: &[u8], value: EntryValue<'_>, expire_at: Option<i64>) -> Self {
        Self::build(key, compact(value, key.len()), expire_at)
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
        let expire_at = self.as_ref().expire_at();
        let access = self.as_ref().access();
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

enum TakenPayload {
    Inline(smallvec::SmallVec<[u8; 128]>),
    Int(i64),
    Boxed(Value),
}

impl TakenPayload {
    fn into_value(self) -> Value {
        match self {
            TakenPayload::Inline(bytes) => Value::Str(Str::new(&bytes)),
            TakenPayload::Int(n) => Value::Str(Str::new(itoa::Buffer::new().format(n).as_bytes())),
            TakenPayload::Boxed(value) => value,
        }
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

impl fmt::Debug for EntryRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = String::from_utf8_lossy(self.key());
        f.debug_struct("Entry").field("key", &key).field("value", &self.value()).field("at", &self.expire_at()).finish()
    }
}

/// The address of an entry as it stands in a dict: 6 bytes, because user addresses have at most 48 bits. It owns
/// nothing by itself; the database that holds the dict owns the entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EntrySlot(u64);

impl EntrySlot {
    fn pointer(self) -> NonNull<u8> {
        NonNull::new(std::ptr::with_exposed_provenance_mut(self.0 as usize)).expect("slots are made of entries")
    }

    /// The entry for reading.
    ///
    /// # Safety
    /// It is alive for `'a` and not changed meanwhile, except by `set_access` and `set_epoch`.
    #[inline(always)]
    pub unsafe fn entry<'a>(self) -> EntryRef<'a> {
        EntryRef(self.pointer(), PhantomData)
    }

    /// The entry with its ownership.
    ///
    /// # Safety
    /// It is alive, and whoever owned it gives it up (or the result is never dropped).
    pub unsafe fn into_entry(self) -> Entry {
        Entry(self.pointer())
    }
}

impl Slot for EntrySlot {
    const WIDTH: usize = 6;
    #[inline(always)]
    fn to_bits(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        EntrySlot(bits)
    }
    #[inline(always)]
    fn prefetch(self) {
        prefetch(self.0 as *const u8);
    }
}

#[cfg(test)]
mod tests;
