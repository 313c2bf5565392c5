//! The rows of one table in a hash table by the columns of a join, made for the length of one statement.

use super::join::KeyPart;
use super::path::{Flow, Visitor};
use super::tables::Lying;
use crate::ds::hash;
use crate::engine::{Read, Source};
use crate::limits;
use crate::table::batch::Batch;
use crate::table::row::RowLayout;

/// The rows and their keys, copied, as rows at hand do not stay.
pub struct Hashed<'p> {
    key: &'p [KeyPart],
    /// Without it only keys are kept, as nobody looks at the rows.
    keeps_rows: bool,
    keys: Batch,
    rows: Batch,
    entries: Vec<Entry>,
    /// The first entry of each bucket, once all are there.
    heads: Vec<u32>,
    bytes: usize,
}

#[derive(Clone, Copy)]
struct Entry {
    hash: u32,
    /// The next entry of the bucket, in the order of the walk.
    next: u32,
}

const NONE: u32 = u32::MAX;

impl<'p> Hashed<'p> {
    /// No rows yet.
    pub fn new(key: &'p [KeyPart], keeps_rows: bool) -> Hashed<'p> {
        let (keys, rows) = (Batch::new(), Batch::new());
        Hashed { key, keeps_rows, keys, rows, entries: Vec::new(), heads: Vec::new(), bytes: 0 }
    }

    /// All rows are there.
    pub fn finish(&mut self) {
        self.heads = vec![NONE; self.entries.len().next_power_of_two().max(16)];
        let mask = self.heads.len() - 1;
        // From the last one on, so that the first one stands first.
        for (i, entry) in self.entries.iter_mut().enumerate().rev() {
            let head = &mut self.heads[entry.hash as usize & mask];
            entry.next = *head;
            *head = i as u32;
        }
    }

    /// Gives the rows that have the key, in the order of the walk.
    #[inline]
    pub fn find(&self, key: &[u8], layout: &RowLayout, mut each: impl FnMut(Option<&Lying<'_>>)) {
        let hash = hash::bytes(key) as u32;
        let mut at = self.heads[hash as usize & (self.heads.len() - 1)];
        while let Some(entry) = self.entries.get(at as usize) {
            if entry.hash == hash && self.keys.get(at as usize) == key {
                match self.keeps_rows {
                    true => each(Some(&Lying { bytes: self.rows.get(at as usize), layout })),
                    false => each(None),
                }
            }
            at = entry.next;
        }
    }
}

impl Visitor for Hashed<'_> {
    #[inline]
    fn row(&mut self, _: &dyn Source, row: Lying<'_>) -> Read<Flow> {
        let put = |out: &mut Vec<u8>| self.key.iter().try_for_each(|part| part.put(row.get(part.column.position), out));
        // NULL equals nothing.
        if self.keys.write(put).is_err() {
            return Ok(Flow::More);
        }
        let at = self.entries.len();
        let key = self.keys.get(at);
        self.bytes += key.len() + 32;
        self.entries.push(Entry { hash: hash::bytes(key) as u32, next: NONE });
        if self.keeps_rows {
            self.rows.push(row.bytes);
            self.bytes += row.bytes.len();
        }
        Ok(if self.bytes > limits::SQL_JOIN_BYTES_MAX { Flow::Unknown } else { Flow::More })
    }
}
