//! The set value: integers in ascending order while few, a table otherwise.

use super::codec::{self, Decoded, Malformed};
use super::digest::Digest;
use super::sample;
use super::table::{self, Table};
use super::{Edit, Operation, Thresholds};
use crate::ds::intset::IntSet;
use crate::ds::number::{NumberText, i64_text, parse_i64};
use crate::ds::packed::Packed;
use crate::ds::thin::ThinBytes;
use crate::env::Xoshiro;
use crate::reply::Blob;
use std::ops::Deref;

/// A set value.
#[derive(Clone)]
pub struct Set(Encoding);

#[derive(Clone)]
enum Encoding {
    Integers(IntSet),
    Table(Table<ThinBytes>),
}

/// A member as it is read: bytes of the set, or the text of an integer.
#[derive(Clone, Copy)]
pub enum Member<'a> {
    /// Bytes in the set.
    Bytes(&'a [u8]),
    /// The text of an integer, and the integer.
    Integer(NumberText, i64),
}

impl Deref for Member<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Member::Bytes(bytes) => bytes,
            Member::Integer(text, _) => text,
        }
    }
}

impl AsRef<[u8]> for Member<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Member<'_> {
    fn of(n: i64) -> Self {
        Member::Integer(i64_text(n), n)
    }
}

/// A change of a set.
#[derive(Clone, Debug, PartialEq)]
pub enum SetOp {
    /// Adds members.
    Add(Packed),
    /// Removes members.
    Remove(Packed),
    /// Replaces everything; undoes the step in which a set of integers became a table, which forgets their order.
    Replace(Box<Set>),
    /// Several, in order.
    Many(Vec<SetOp>),
}

impl Operation for SetOp {
    fn many(ops: Vec<Self>) -> Self {
        SetOp::Many(ops)
    }

    fn absorb(&mut self, next: Self) -> Option<Self> {
        match (self, next) {
            (SetOp::Add(all), SetOp::Add(more)) | (SetOp::Remove(all), SetOp::Remove(more)) => {
                all.append(&more);
                None
            }
            (_, next) => Some(next),
        }
    }
}

impl Set {
    /// An empty set.
    pub fn new() -> Self {
        Set(Encoding::Integers(IntSet::new()))
    }

    /// How many members.
    pub fn len(&self) -> usize {
        match &self.0 {
            Encoding::Integers(integers) => integers.len(),
            Encoding::Table(table) => table.len(),
        }
    }

    /// True without members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// OBJECT ENCODING.
    pub fn encoding(&self) -> &'static str {
        match &self.0 {
            Encoding::Integers(_) => "intset",
            Encoding::Table(_) => "hashtable",
        }
    }

    /// SISMEMBER: true when the member is there.
    #[inline]
    pub fn contains(&self, member: &[u8]) -> bool {
        match &self.0 {
            Encoding::Integers(integers) => parse_i64(member).is_some_and(|n| integers.contains(n)),
            Encoding::Table(table) => table.contains(member),
        }
    }

    /// As [`Set::contains`], for a member of another set.
    pub fn contains_member(&self, member: &Member) -> bool {
        match (&self.0, member) {
            (Encoding::Integers(integers), Member::Integer(_, n)) => integers.contains(*n),
            _ => self.contains(member),
        }
    }

    /// SADD: adds members; how many are new.
    pub fn add(&mut self, members: &[&[u8]], edit: &mut Edit<SetOp>) -> usize {
        members.iter().filter(|member| self.add_one(member, edit)).count()
    }

    /// Adds a member; true when it is new.
    pub fn add_one(&mut self, member: &[u8], edit: &mut Edit<SetOp>) -> bool {
        match &mut self.0 {
            Encoding::Integers(integers) => {
                let integer = parse_i64(member);
                if integer.is_some_and(|n| integers.contains(n)) {
                    return false;
                }
                match integer {
                    Some(n) if integers.len() < edit.thresholds.set_integers => integers.insert(n),
                    _ => {
                        self.enlarge(edit);
                        return self.add_one(member, edit);
                    }
                };
                edit.undo(|| SetOp::Remove([member].into_iter().collect()));
            }
            Encoding::Table(table) => {
                if !table.upsert(member, |_| (), || ThinBytes::from_slice(member)) {
                    return false;
                }
                edit.undo(|| SetOp::Remove([member].into_iter().collect()));
            }
        }
        edit.redo(|| SetOp::Add([member].into_iter().collect()));
        true
    }

    /// Moves integers into a table.
    fn enlarge(&mut self, edit: &mut Edit<SetOp>) {
        if let Encoding::Integers(_) = &self.0 {
            let mut table = Table::with_capacity(self.len() + 1);
            for member in self.iter() {
                table.insert_new(table::hash_of(&member), ThinBytes::from_slice(&member));
            }
            let integers = std::mem::replace(self, Set(Encoding::Table(table)));
            edit.undo(|| SetOp::Replace(Box::new(integers)));
        }
    }

    /// SREM: removes members; how many were there.
    pub fn remove(&mut self, members: &[&[u8]], edit: &mut Edit<SetOp>) -> usize {
        members.iter().filter(|member| self.remove_one(member, edit)).count()
    }

    /// Removes a member; false when it was not there.
    pub fn remove_one(&mut self, member: &[u8], edit: &mut Edit<SetOp>) -> bool {
        let removed = match &mut self.0 {
            Encoding::Integers(integers) => parse_i64(member).is_some_and(|n| integers.remove(n)),
            Encoding::Table(table) => table.remove(member).is_some(),
        };
        if removed {
            edit.redo(|| SetOp::Remove([member].into_iter().collect()));
            edit.undo(|| SetOp::Add([member].into_iter().collect()));
        }
        removed
    }

    /// SPOP: removes a member at random.
    pub fn pop(&mut self, random: &mut Xoshiro, edit: &mut Edit<SetOp>) -> Option<Blob> {
        let member = Blob::from_slice(&self.random(random)?);
        self.remove_one(&member, edit);
        Some(member)
    }

    /// SPOP with a count: removes up to `count` members at random.
    pub fn pop_many(&mut self, count: usize, random: &mut Xoshiro, edit: &mut Edit<SetOp>) -> Vec<Blob> {
        let members: Vec<Blob> = self.sample(count, random).iter().map(|member| Blob::from_slice(member)).collect();
        for member in &members {
            self.remove_one(member, edit);
        }
        members
    }

    /// The members: ascending while they are few integers, in no order otherwise.
    pub fn iter(&self) -> impl Iterator<Item = Member<'_>> {
        let (integers, table) = match &self.0 {
            Encoding::Integers(integers) => (Some(integers.iter().map(Member::of)), None),
            Encoding::Table(table) => (None, Some(table.iter().map(Member::Bytes))),
        };
        integers.into_iter().flatten().chain(table.into_iter().flatten())
    }

    /// SSCAN: shows `count` members or some more from `cursor` on; the next cursor, 0 at the end. Few integers are shown
    /// at once.
    pub fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(&[u8])) -> u64 {
        match &self.0 {
            Encoding::Integers(_) => {
                self.iter().for_each(|member| show(&member));
                0
            }
            Encoding::Table(table) => table.scan(cursor, count, show),
        }
    }

    /// SRANDMEMBER: a member at random.
    pub fn random(&self, random: &mut Xoshiro) -> Option<Member<'_>> {
        match &self.0 {
            Encoding::Integers(integers) if integers.is_empty() => None,
            Encoding::Integers(integers) => integers.get(random.below(integers.len() as u64) as usize).map(Member::of),
            Encoding::Table(table) => table.random(random).map(Member::Bytes),
        }
    }

    /// SRANDMEMBER with a count: up to `count` distinct members at random.
    pub fn sample(&self, count: usize, random: &mut Xoshiro) -> Vec<Member<'_>> {
        match &self.0 {
            Encoding::Table(table) if sample::is_sparse(count, table.len()) => {
                sample::pick(count, || self.random(random), |member| member.as_ptr())
            }
            _ => sample::select(self.iter(), self.len(), count, random),
        }
    }

    /// Performs an operation and returns its inverse.
    pub fn apply(&mut self, op: SetOp, thresholds: &Thresholds) -> SetOp {
        let mut edit = Edit::recording(thresholds, false, true);
        self.perform(op, &mut edit);
        edit.finish().1.unwrap_or(SetOp::Many(Vec::new()))
    }

    fn perform(&mut self, op: SetOp, edit: &mut Edit<SetOp>) {
        match op {
            SetOp::Add(members) => {
                for member in &members {
                    self.add_one(member, edit);
                }
            }
            SetOp::Remove(members) => {
                for member in &members {
                    self.remove_one(member, edit);
                }
            }
            SetOp::Replace(set) => {
                let old = std::mem::replace(self, *set);
                edit.undo(|| SetOp::Replace(Box::new(old)));
            }
            SetOp::Many(ops) => ops.into_iter().for_each(|op| self.perform(op, edit)),
        }
    }

    /// Equal for equal members.
    pub fn digest(&self) -> u64 {
        let member = |member: Member| Digest::new(b'm').bytes(&member);
        self.iter().map(member).fold(Digest::new(b'S'), Digest::unordered).finish()
    }

    /// Bytes taken from the allocator, this header included.
    pub fn memory(&self) -> usize {
        size_of::<Set>()
            + match &self.0 {
                Encoding::Integers(integers) => integers.memory(),
                Encoding::Table(table) => table.memory(),
            }
    }

    /// Appends the bytes that [`Set::decode`] reads.
    pub fn encode(&self, out: &mut Vec<u8>) {
        codec::put_number(out, self.len() as u64);
        self.iter().for_each(|member| codec::put_bytes(out, &member));
    }

    /// Reads what [`Set::encode`] wrote.
    pub fn decode(input: &mut &[u8], thresholds: &Thresholds) -> Decoded<Set> {
        let count = codec::take_count(input)?;
        let mut set = Set::new();
        if count > thresholds.set_integers {
            set = Set(Encoding::Table(Table::with_capacity(count)));
        }
        let mut edit = Edit::silent(thresholds);
        for _ in 0..count {
            if !set.add_one(codec::take_bytes(input)?, &mut edit) {
                return Err(Malformed("a member twice"));
            }
        }
        Ok(set)
    }
}

impl Default for Set {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for Set {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|member| other.contains_member(&member))
    }
}

impl std::fmt::Debug for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter().map(|member| member.escape_ascii().to_string())).finish()
    }
}

impl SetOp {
    /// Appends the bytes that [`SetOp::decode`] reads.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            SetOp::Add(members) => {
                out.push(0);
                codec::put_list(out, members);
            }
            SetOp::Remove(members) => {
                out.push(1);
                codec::put_list(out, members);
            }
            SetOp::Replace(set) => {
                out.push(2);
                set.encode(out);
            }
            SetOp::Many(ops) => super::op::encode_many(ops, out, SetOp::encode),
        }
    }

    /// Reads what [`SetOp::encode`] wrote.
    pub fn decode(input: &mut &[u8], thresholds: &Thresholds) -> Decoded<SetOp> {
        super::op::decode_many(input, SetOp::Many, |tag, input| match tag {
            0 => Ok(SetOp::Add(codec::take_list(input)?)),
            1 => Ok(SetOp::Remove(codec::take_list(input)?)),
            2 => Ok(SetOp::Replace(Box::new(Set::decode(input, thresholds)?))),
            _ => Err(Malformed("unknown set operation")),
        })
    }
}
