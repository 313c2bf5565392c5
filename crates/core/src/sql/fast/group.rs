//! The groups of a query in a hash table: their columns, and what its aggregates have come to in each.

use super::accumulator::{Accumulator, Call, Function};
use super::path::Flow;
use super::tables::{Field, Rows};
use crate::ds::hash;
use crate::limits;
use crate::table::batch::Batch;
use crate::table::catalog::IndexColumn;
use crate::table::datum::{Datum, DatumRef};
use crate::table::key::put_column;
use hashbrown::HashTable;
use smallvec::SmallVec;

/// Integers whose groups are known without a key: 2^10.
const RECENT_BITS: u32 = 10;
const RECENT: usize = 1 << RECENT_BITS;

/// What rows are grouped by, and what is computed of each group.
#[derive(Default)]
pub struct Grouping {
    /// The columns of GROUP BY; none: all rows are one group.
    pub columns: SmallVec<[(Field, IndexColumn); 2]>,
    /// The aggregates.
    pub calls: Vec<Call>,
}

/// The groups found so far. A group's number is its place in the order in which they were found.
pub struct Groups<'p> {
    of: &'p Grouping,
    table: HashTable<u32>,
    /// The columns of each group as index keys, whose order is that of the groups.
    keys: Batch,
    /// The columns' values in the first row of each group.
    firsts: Vec<Datum>,
    /// The rows of each group, which are what `count(*)` asks for.
    rows: Vec<i64>,
    accumulators: Vec<Accumulator>,
    /// The calls that look at a column.
    looking: SmallVec<[(usize, Field); 4]>,
    /// Integers met lately and their groups, when one column is grouped by.
    recent: Vec<(i64, u32)>,
    /// The key of the row in hand.
    key: Vec<u8>,
    /// The group of the last row.
    last: usize,
    /// About the memory that all of it takes.
    bytes: usize,
}

impl<'p> Groups<'p> {
    /// No groups, or one of no rows when all rows are one.
    pub fn new(of: &'p Grouping) -> Groups<'p> {
        let mut groups = Groups {
            of,
            table: HashTable::new(),
            keys: Batch::new(),
            firsts: Vec::new(),
            rows: Vec::new(),
            accumulators: Vec::new(),
            looking: of.calls.iter().enumerate().filter_map(|(i, call)| Some((i, call.of.as_ref()?.0))).collect(),
            recent: if of.columns.len() == 1 { vec![(0, u32::MAX); RECENT] } else { Vec::new() },
            key: Vec::new(),
            last: usize::MAX,
            bytes: 0,
        };
        if of.columns.is_empty() {
            groups.begin();
            groups.last = 0;
        }
        groups
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Adds the rows to their group.
    #[inline(always)]
    pub fn take(&mut self, rows: &Rows<'_>) -> Flow {
        if !self.of.columns.is_empty() {
            self.find(rows);
        }
        self.rows[self.last] += 1;
        let calls = &self.of.calls[..];
        let accumulators = &mut self.accumulators[self.last * calls.len()..][..calls.len()];
        for (call, field) in &self.looking {
            match accumulators[*call].add(&calls[*call], rows.get(*field)) {
                Some(kept) => self.bytes += kept,
                None => return Flow::Unknown,
            }
        }
        if self.bytes > limits::SQL_MEMORY_BYTES_MAX { Flow::Unknown } else { Flow::More }
    }

    /// Goes to the group of the rows.
    #[inline(always)]
    fn find(&mut self, rows: &Rows<'_>) {
        let integer = match &self.of.columns[..] {
            [(field, _)] => rows.get(*field),
            _ => DatumRef::Null,
        };
        let DatumRef::Int(integer) = integer else { return self.find_key(rows) };
        let place = (integer as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize >> (usize::BITS - RECENT_BITS);
        match self.recent[place] {
            (known, group) if known == integer && group != u32::MAX => self.last = group as usize,
            _ => {
                self.find_key(rows);
                self.recent[place] = (integer, self.last as u32);
            }
        }
    }

    /// The same, by the key of its columns.
    fn find_key(&mut self, rows: &Rows<'_>) {
        self.key.clear();
        for (field, column) in &self.of.columns {
            put_column(rows.get(*field), column, &mut self.key);
        }
        // Rows of one group often follow each other.
        if self.last != usize::MAX && *self.keys.get(self.last) == *self.key {
            return;
        }
        let (hash, keys, key) = (hash::bytes(&self.key), &self.keys, &self.key);
        match self.table.find(hash, |group| *keys.get(*group as usize) == **key) {
            Some(group) => self.last = *group as usize,
            None => self.add(hash, rows),
        }
    }

    #[cold]
    fn add(&mut self, hash: u64, rows: &Rows<'_>) {
        self.last = self.begin();
        let keys = &self.keys;
        self.table.insert_unique(hash, self.last as u32, |group| hash::bytes(keys.get(*group as usize)));
        for (field, _) in &self.of.columns {
            let value = rows.get(*field);
            self.bytes += size_of::<Datum>() + value.bytes_len();
            self.firsts.push(value.to_owned());
        }
    }

    /// Makes a group for the key in hand.
    fn begin(&mut self) -> usize {
        let group = self.keys.len();
        self.keys.push(&self.key);
        self.rows.push(0);
        self.accumulators.extend(self.of.calls.iter().map(|call| Accumulator::new(call.function)));
        self.bytes += self.key.len() + 24 + self.of.calls.len() * size_of::<Accumulator>();
        group
    }

    /// The groups in the order of their columns.
    pub fn sorted(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.sort_unstable_by(|a, b| self.keys.get(*a as usize).cmp(self.keys.get(*b as usize)));
        order
    }

    /// A column of a group.
    pub fn column(&self, group: u32, column: usize) -> &Datum {
        &self.firsts[group as usize * self.of.columns.len() + column]
    }

    /// What a call has come to in a group.
    pub fn value(&self, group: u32, call: usize) -> Datum {
        match self.of.calls[call].function {
            Function::Rows => Datum::Int(self.rows[group as usize]),
            function => self.accumulators[group as usize * self.of.calls.len() + call].value(function),
        }
    }
}
