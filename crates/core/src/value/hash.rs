//! The hash value: fields with values, packed in order of arrival while small, in a table when large.

use super::codec::{self, Decoded, Malformed};
use super::digest::Digest;
use super::entry::Pair;
use super::sample;
use super::table::{self, Table};
use super::thresholds::PACKED_BYTES_MAX;
use super::{Edit, Operation, Thresholds};
use crate::ds::extended::Extended;
use crate::ds::number::{i64_text, parse_i64};
use crate::ds::packed::Packed;
use crate::env::Xoshiro;
use crate::error::{Error, Result};
use crate::reply::Blob;

/// A hash value.
#[derive(Clone)]
pub struct Hash(Encoding);

#[derive(Clone)]
enum Encoding {
    /// Field, value, field, value ..
    Small(Packed),
    Large(Table<Pair>),
}

/// A change of a hash. Packed lists hold fields and values in turn.
#[derive(Clone, Debug, PartialEq)]
pub enum HashOp {
    /// Sets fields to values.
    Set(Packed),
    /// Removes fields.
    Remove(Packed),
    /// Adds a field at a position among the others, where a small hash shows it; a large one has no positions.
    Insert {
        /// How many fields come before it.
        at: u64,
        /// The field and its value.
        pair: Packed,
    },
    /// Replaces everything; undoes the step in which a small hash became large, which forgets the order of fields.
    Replace(Box<Hash>),
    /// Several, in order.
    Many(Vec<HashOp>),
}

impl Operation for HashOp {
    fn many(ops: Vec<Self>) -> Self {
        HashOp::Many(ops)
    }

    fn absorb(&mut self, next: Self) -> Option<Self> {
        match (self, next) {
            (HashOp::Set(all), HashOp::Set(more)) | (HashOp::Remove(all), HashOp::Remove(more)) => {
                all.append(&more);
                None
            }
            (_, next) => Some(next),
        }
    }
}

impl Hash {
    /// An empty hash.
    pub fn new() -> Self {
        Hash(Encoding::Small(Packed::new()))
    }

    /// How many fields.
    pub fn len(&self) -> usize {
        match &self.0 {
            Encoding::Small(packed) => packed.len() / 2,
            Encoding::Large(table) => table.len(),
        }
    }

    /// True without fields.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// OBJECT ENCODING.
    pub fn encoding(&self) -> &'static str {
        match &self.0 {
            Encoding::Small(_) => "listpack",
            Encoding::Large(_) => "hashtable",
        }
    }

    /// HGET: the value of a field.
    #[inline]
    pub fn get(&self, field: &[u8]) -> Option<&[u8]> {
        match &self.0 {
            Encoding::Small(packed) => packed.get(packed.next(packed.find(field, 2)?)),
            Encoding::Large(table) => Some(table.get(field)?.1),
        }
    }

    /// HEXISTS: true when the field is there.
    pub fn contains(&self, field: &[u8]) -> bool {
        self.get(field).is_some()
    }

    /// HSET: sets fields to values (given in turn); how many fields are new.
    pub fn set(&mut self, pairs: &[&[u8]], edit: &mut Edit<HashOp>) -> usize {
        let (pairs, _) = pairs.as_chunks::<2>();
        // As Redis does, look at all before the first is set, so that a command leaves the same encoding in any order.
        if pairs.iter().any(|pair| !self.has_room(pair, edit.thresholds)) {
            self.enlarge(edit);
        }
        pairs.iter().filter(|[field, value]| self.set_one(field, value, edit)).count()
    }

    /// True when a field and its value may be packed with the rest.
    fn has_room(&self, pair: &[&[u8]; 2], thresholds: &Thresholds) -> bool {
        let Encoding::Small(packed) = &self.0 else { return true };
        let longest = pair[0].len().max(pair[1].len());
        longest <= thresholds.hash_value && packed.bytes() + 2 * Packed::cost(longest) <= PACKED_BYTES_MAX
    }

    /// Sets a field; true when it is new.
    fn set_one(&mut self, field: &[u8], value: &[u8], edit: &mut Edit<HashOp>) -> bool {
        match &mut self.0 {
            Encoding::Small(packed) => {
                let Some(place) = packed.find(field, 2) else {
                    if packed.len() / 2 >= edit.thresholds.hash_entries {
                        self.enlarge(edit);
                        return self.set_one(field, value, edit);
                    }
                    edit.redo(|| HashOp::Set([field, value].into_iter().collect()));
                    edit.undo(|| HashOp::Remove([field].into_iter().collect()));
                    packed.push_back(field);
                    packed.push_back(value);
                    return true;
                };
                edit.redo(|| HashOp::Set([field, value].into_iter().collect()));
                let place = packed.next(place);
                edit.undo(|| HashOp::Set([field, packed.get(place).expect("a value follows")].into_iter().collect()));
                packed.replace(place, value);
                false
            }
            Encoding::Large(table) => {
                edit.redo(|| HashOp::Set([field, value].into_iter().collect()));
                let mut old = None;
                let wants_undo = edit.wants_undo();
                let found = |pair: &mut Pair| {
                    if wants_undo {
                        old = Some(HashOp::Set([field, pair.value()].into_iter().collect()));
                    }
                    pair.set_value(value);
                };
                let added = table.upsert(field, found, || Pair::new(field, value));
                edit.undo(|| old.unwrap_or_else(|| HashOp::Remove([field].into_iter().collect())));
                added
            }
        }
    }

    /// Moves a small hash into a table.
    fn enlarge(&mut self, edit: &mut Edit<HashOp>) {
        if let Encoding::Small(_) = &self.0 {
            let large = self.to_table();
            let small = std::mem::replace(self, large);
            edit.undo(|| HashOp::Replace(Box::new(small)));
        }
    }

    fn to_table(&self) -> Hash {
        let mut table = Table::with_capacity(self.len() + 1);
        self.iter().for_each(|(field, value)| table.insert_new(table::hash_of(field), Pair::new(field, value)));
        Hash(Encoding::Large(table))
    }

    /// HDEL: removes fields; how many were there.
    pub fn remove(&mut self, fields: &[&[u8]], edit: &mut Edit<HashOp>) -> usize {
        fields.iter().filter(|field| self.remove_one(field, edit)).count()
    }

    fn remove_one(&mut self, field: &[u8], edit: &mut Edit<HashOp>) -> bool {
        match &mut self.0 {
            Encoding::Small(packed) => {
                let Some(place) = packed.find(field, 2) else { return false };
                edit.undo(|| {
                    let at = packed.iter_between(packed.first(), place).count() as u64 / 2;
                    let value = packed.get(packed.next(place)).expect("a value follows");
                    HashOp::Insert { at, pair: [field, value].into_iter().collect() }
                });
                packed.remove(place, 2);
            }
            Encoding::Large(table) => {
                let Some(pair) = table.remove(field) else { return false };
                edit.undo(|| HashOp::Set([field, pair.value()].into_iter().collect()));
            }
        }
        edit.redo(|| HashOp::Remove([field].into_iter().collect()));
        true
    }

    /// HINCRBY: adds to the number in a field (0 when missing); the sum.
    pub fn increment(&mut self, field: &[u8], by: i64, edit: &mut Edit<HashOp>) -> Result<i64> {
        let number = match self.get(field) {
            Some(value) => parse_i64(value).ok_or_else(|| Error::err("hash value is not an integer"))?,
            None => 0,
        };
        let sum = number.checked_add(by).ok_or_else(|| Error::err("increment or decrement would overflow"))?;
        self.set(&[field, &i64_text(sum)], edit);
        Ok(sum)
    }

    /// HINCRBYFLOAT: adds to the number in a field (0 when missing); the text of the sum.
    pub fn increment_by_float(&mut self, field: &[u8], by: Extended, edit: &mut Edit<HashOp>) -> Result<Blob> {
        if by.is_infinite() {
            return Err(Error::err("value is NaN or Infinity"));
        }
        let number = match self.get(field) {
            Some(value) => Extended::parse(value).ok_or_else(|| Error::err("hash value is not a float"))?,
            None => Extended::from_i64(0),
        };
        let sum = number.checked_add(by).ok_or_else(|| Error::err("increment would produce NaN or Infinity"))?;
        let text = sum.to_text();
        self.set(&[field, &text], edit);
        Ok(Blob::from_vec(text))
    }

    /// The fields with their values: in order of arrival while small.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let (small, large) = match &self.0 {
            Encoding::Small(packed) => (Some(pairs(packed)), None),
            Encoding::Large(table) => (None, Some(table.iter())),
        };
        small.into_iter().flatten().chain(large.into_iter().flatten())
    }

    /// HSCAN: shows `count` fields or some more from `cursor` on; the next cursor, 0 at the end. A small hash is shown at
    /// once.
    pub fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(&[u8], &[u8])) -> u64 {
        match &self.0 {
            Encoding::Small(packed) => {
                pairs(packed).for_each(|(field, value)| show(field, value));
                0
            }
            Encoding::Large(table) => table.scan(cursor, count, |(field, value)| show(field, value)),
        }
    }

    /// HRANDFIELD: a field at random, with its value.
    pub fn random(&self, random: &mut Xoshiro) -> Option<(&[u8], &[u8])> {
        match &self.0 {
            Encoding::Small(packed) if packed.is_empty() => None,
            Encoding::Small(packed) => {
                let field = packed.place(2 * random.below(self.len() as u64) as usize);
                Some((packed.get(field)?, packed.get(packed.next(field))?))
            }
            Encoding::Large(table) => table.random(random),
        }
    }

    /// HRANDFIELD with a count: up to `count` distinct fields at random, with their values.
    pub fn sample(&self, count: usize, random: &mut Xoshiro) -> Vec<(&[u8], &[u8])> {
        match &self.0 {
            Encoding::Large(table) if sample::is_sparse(count, table.len()) => {
                sample::pick(count, || self.random(random), |(field, _)| field.as_ptr())
            }
            _ => sample::select(self.iter(), self.len(), count, random),
        }
    }

    /// Performs an operation and returns its inverse.
    pub fn apply(&mut self, op: HashOp, thresholds: &Thresholds) -> HashOp {
        let mut edit = Edit::recording(thresholds, false, true);
        self.perform(op, &mut edit);
        edit.finish().1.unwrap_or(HashOp::Many(Vec::new()))
    }

    fn perform(&mut self, op: HashOp, edit: &mut Edit<HashOp>) {
        match op {
            HashOp::Set(all) => {
                self.set(&all.iter().collect::<Vec<_>>(), edit);
            }
            HashOp::Remove(fields) => {
                for field in &fields {
                    self.remove_one(field, edit);
                }
            }
            HashOp::Insert { at, pair } => self.insert_at(at, &pair, edit),
            HashOp::Replace(hash) => {
                let old = std::mem::replace(self, *hash);
                edit.undo(|| HashOp::Replace(Box::new(old)));
            }
            HashOp::Many(ops) => ops.into_iter().for_each(|op| self.perform(op, edit)),
        }
    }

    fn insert_at(&mut self, at: u64, pair: &Packed, edit: &mut Edit<HashOp>) {
        let entries: Vec<&[u8]> = pair.iter().collect();
        let [field, value] = entries[..] else { return };
        let is_new = !self.contains(field);
        let has_room = self.has_room(&[field, value], edit.thresholds) && self.len() < edit.thresholds.hash_entries;
        match &mut self.0 {
            Encoding::Small(packed) if is_new && has_room => {
                edit.undo(|| HashOp::Remove([field].into_iter().collect()));
                packed.insert(packed.place((at as usize).saturating_mul(2)), &[field, value]);
            }
            _ => {
                self.set(&[field, value], edit);
            }
        }
    }

    /// Equal for equal contents, in whatever order.
    pub fn digest(&self) -> u64 {
        let pair = |(field, value): (&[u8], &[u8])| Digest::new(b'p').bytes(field).bytes(value);
        self.iter().map(pair).fold(Digest::new(b'h'), Digest::unordered).finish()
    }

    /// Bytes taken from the allocator, this header included.
    pub fn memory(&self) -> usize {
        size_of::<Hash>()
            + match &self.0 {
                Encoding::Small(packed) => packed.memory(),
                Encoding::Large(table) => table.memory(),
            }
    }

    /// Appends the bytes that [`Hash::decode`] reads.
    pub fn encode(&self, out: &mut Vec<u8>) {
        codec::put_number(out, 2 * self.len() as u64);
        for (field, value) in self.iter() {
            codec::put_bytes(out, field);
            codec::put_bytes(out, value);
        }
    }

    /// Reads what [`Hash::encode`] wrote.
    pub fn decode(input: &mut &[u8], thresholds: &Thresholds) -> Decoded<Hash> {
        let count = codec::take_count(input)?;
        let mut hash = Hash::new();
        if count / 2 > thresholds.hash_entries {
            hash = Hash(Encoding::Large(Table::with_capacity(count / 2)));
        }
        let mut edit = Edit::silent(thresholds);
        for _ in 0..count / 2 {
            let pair = [codec::take_bytes(input)?, codec::take_bytes(input)?];
            hash.set(&pair, &mut edit);
        }
        if count % 2 != 0 || hash.len() != count / 2 {
            return Err(Malformed("half a pair, or a field twice"));
        }
        Ok(hash)
    }
}

fn pairs(packed: &Packed) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
    let mut entries = packed.iter();
    std::iter::from_fn(move || Some((entries.next()?, entries.next()?)))
}

impl Default for Hash {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for Hash {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(field, value)| other.get(field) == Some(value))
    }
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|(k, v)| (k.escape_ascii().to_string(), v.escape_ascii().to_string())))
            .finish()
    }
}

impl HashOp {
    /// Appends the bytes that [`HashOp::decode`] reads.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            HashOp::Set(all) => {
                out.push(0);
                codec::put_list(out, all);
            }
            HashOp::Remove(fields) => {
                out.push(1);
                codec::put_list(out, fields);
            }
            HashOp::Insert { at, pair } => {
                out.push(2);
                codec::put_number(out, *at);
                codec::put_list(out, pair);
            }
            HashOp::Replace(hash) => {
                out.push(3);
                hash.encode(out);
            }
            HashOp::Many(ops) => super::op::encode_many(ops, out, HashOp::encode),
        }
    }

    /// Reads what [`HashOp::encode`] wrote.
    pub fn decode(input: &mut &[u8], thresholds: &Thresholds) -> Decoded<HashOp> {
        super::op::decode_many(input, HashOp::Many, |tag, input| match tag {
            0 => Ok(HashOp::Set(codec::take_list_of(input, 2)?)),
            1 => Ok(HashOp::Remove(codec::take_list(input)?)),
            2 => Ok(HashOp::Insert { at: codec::take_number(input)?, pair: codec::take_list_of(input, 2)? }),
            3 => Ok(HashOp::Replace(Box::new(Hash::decode(input, thresholds)?))),
            _ => Err(Malformed("unknown hash operation")),
        })
    }
}
