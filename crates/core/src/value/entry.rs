//! A field and its value in one allocation: what the table of a large hash holds.
//!
//! ```text
//! ThinBytes: | field length, 7 bits a byte | field | value |
//! ```

use super::table::Entry;
use crate::ds::thin::ThinBytes;
use std::ptr::NonNull;

/// A field with its value.
#[derive(Clone)]
pub(super) struct Pair(ThinBytes);

impl Pair {
    pub fn new(field: &[u8], value: &[u8]) -> Self {
        let mut prefix = [0u8; 10];
        let prefix = write_prefix(&mut prefix, field.len());
        let mut bytes = ThinBytes::with_capacity(prefix.len() + field.len() + value.len());
        bytes.extend_from_slice(prefix);
        bytes.extend_from_slice(field);
        bytes.extend_from_slice(value);
        Pair(bytes)
    }

    #[inline]
    pub fn value(&self) -> &[u8] {
        split(&self.0).1
    }

    /// Puts another value, in place where it fits without wasting more than half.
    pub fn set_value(&mut self, value: &[u8]) {
        let (start, end) = bounds(&self.0);
        let len = end + value.len();
        if len <= self.0.capacity() && len >= self.0.capacity() / 2 {
            self.0.resize(len);
            self.0[end..].copy_from_slice(value);
        } else {
            *self = Pair::new(&self.0[start..end], value);
        }
    }
}

/// Where the field starts and where the value does.
#[inline]
fn bounds(bytes: &[u8]) -> (usize, usize) {
    let first = bytes[0];
    if first < 0x80 { (1, 1 + first as usize) } else { read_prefix(bytes) }
}

/// Field and value.
#[inline]
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (start, end) = bounds(bytes);
    (&bytes[start..end], &bytes[end..])
}

// SAFETY: a Pair is its ThinBytes, for which the contract holds; the field's bytes are never written again.
unsafe impl Entry for Pair {
    /// Field and value.
    type Shown<'a> = (&'a [u8], &'a [u8]);

    fn into_raw(self) -> NonNull<u8> {
        self.0.into_raw()
    }
    unsafe fn from_raw(raw: NonNull<u8>) -> Self {
        // SAFETY: by the same contract.
        Pair(unsafe { ThinBytes::from_raw(raw) })
    }
    #[inline]
    unsafe fn show<'a>(raw: NonNull<u8>) -> (&'a [u8], &'a [u8]) {
        // SAFETY: by the same contract.
        split(unsafe { ThinBytes::slice_of_raw(raw) })
    }
    #[inline]
    unsafe fn key<'a>(raw: NonNull<u8>) -> &'a [u8] {
        // SAFETY: by the same contract.
        split(unsafe { ThinBytes::slice_of_raw(raw) }).0
    }
    fn memory(&self) -> usize {
        self.0.memory()
    }
}

// SAFETY: the raw pointer is the allocation itself (or the static of empty strings), which moves only when written.
unsafe impl Entry for ThinBytes {
    type Shown<'a> = &'a [u8];

    fn into_raw(self) -> NonNull<u8> {
        ThinBytes::into_raw(self)
    }
    unsafe fn from_raw(raw: NonNull<u8>) -> Self {
        // SAFETY: by the same contract.
        unsafe { ThinBytes::from_raw(raw) }
    }
    #[inline]
    unsafe fn show<'a>(raw: NonNull<u8>) -> &'a [u8] {
        // SAFETY: by the same contract.
        unsafe { ThinBytes::slice_of_raw(raw) }
    }
    #[inline]
    unsafe fn key<'a>(raw: NonNull<u8>) -> &'a [u8] {
        // SAFETY: by the same contract.
        unsafe { ThinBytes::slice_of_raw(raw) }
    }
    fn memory(&self) -> usize {
        ThinBytes::memory(self)
    }
}

fn write_prefix(buffer: &mut [u8; 10], mut len: usize) -> &[u8] {
    let mut size = 0;
    while len >= 0x80 {
        buffer[size] = len as u8 | 0x80;
        len >>= 7;
        size += 1;
    }
    buffer[size] = len as u8;
    &buffer[..=size]
}

#[cold]
fn read_prefix(bytes: &[u8]) -> (usize, usize) {
    let (mut len, mut size) = (0, 0);
    loop {
        let byte = bytes[size];
        len |= ((byte & 0x7f) as usize) << (7 * size);
        size += 1;
        if byte < 0x80 {
            return (size, size + len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_and_value_come_back() {
        for len in [0, 1, 127, 128, 20_000] {
            let field = vec![b'f'; len];
            let mut pair = Pair::new(&field, b"value");
            assert_eq!((&field[..], &b"value"[..]), split(&pair.0));
            for value in ["", "other", "a longer one than before", "x"] {
                pair.set_value(value.as_bytes());
                assert_eq!((&field[..], value.as_bytes()), split(&pair.0));
            }
        }
    }
}
