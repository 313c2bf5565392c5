//! Byte strings one after another in one buffer: the rows or index keys of one call.

/// A list of byte strings without an allocation for each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Batch {
    /// An empty batch.
    pub const fn new() -> Batch {
        Batch { bytes: Vec::new(), ends: Vec::new() }
    }

    /// A batch of one.
    pub fn of(bytes: &[u8]) -> Batch {
        let mut batch = Batch::new();
        batch.push(bytes);
        batch
    }

    /// How many byte strings.
    #[inline]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Forgets all of them and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds a copy of `bytes`.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
    }

    /// Adds what `write` appends to the buffer; nothing if it fails.
    #[inline]
    pub fn write<E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let start = self.bytes.len();
        let result = write(&mut self.bytes);
        match &result {
            Ok(()) => self.ends.push(self.bytes.len()),
            Err(_) => self.bytes.truncate(start),
        }
        result
    }

    /// Number `i`.
    #[inline]
    pub fn get(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start..self.ends[i]]
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_back_and_failed_writes_leave_nothing() {
        let mut batch = Batch::of(b"one");
        batch.push(b"");
        let failed = batch.write(|out| {
            out.extend_from_slice(b"lost");
            Err("full")
        });
        assert_eq!(Err("full"), failed);
        batch.push(b"three");
        assert_eq!(vec![&b"one"[..], b"", b"three"], batch.iter().collect::<Vec<_>>());
    }
}
