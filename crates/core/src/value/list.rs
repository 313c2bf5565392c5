//! The list value: packed nodes of up to 8 kB in a double-ended queue.
//!
//! Both ends grow and shrink in constant time, an index is found by walking the nodes' counts from the nearer end, and
//! an edit in the middle moves the bytes of one node. A value too large for a node has one to itself.

use super::codec::{self, Decoded, Malformed};
use super::digest::Digest;
use super::pieces::Rest;
use super::{Edit, Operation, Thresholds, range};
use crate::ds::packed::{self, Packed, Place};
use crate::reply::Blob;
use std::collections::VecDeque;
use std::ops::Range;

/// A list value.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// No node is empty.
    nodes: VecDeque<Packed>,
    len: usize,
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The head, left.
    Front,
    /// The tail, right.
    Back,
}

/// A change of a list. Values stand in the order in which the list has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListOp {
    /// Adds values at both ends.
    Push {
        /// What comes before the first.
        front: Packed,
        /// What comes after the last.
        back: Packed,
    },
    /// Removes values at both ends.
    Pop {
        /// How many from the first on.
        front: u64,
        /// How many from the last back.
        back: u64,
    },
    /// Puts another value at an index.
    Set {
        /// Counted from the first.
        index: u64,
        /// The new value.
        value: Blob,
    },
    /// Adds values so that they have these indexes (ascending) afterwards.
    Insert {
        /// Counted from the first, afterwards.
        at: Vec<u64>,
        /// One for each index.
        values: Packed,
    },
    /// Removes the values that have these indexes (ascending) before.
    Remove {
        /// Counted from the first, before.
        at: Vec<u64>,
    },
    /// Several, in order.
    Many(Vec<ListOp>),
}

impl Operation for ListOp {
    fn many(ops: Vec<Self>) -> Self {
        ListOp::Many(ops)
    }
}

/// With more indexes than this, an edit rebuilds the list in one pass instead of finding each.
const REBUILD_FROM: usize = 16;

impl List {
    /// An empty list.
    pub fn new() -> Self {
        List { nodes: VecDeque::with_capacity(1), len: 0 }
    }

    /// How many values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// OBJECT ENCODING: Redis 7.0 has only this one.
    pub fn encoding(&self) -> &'static str {
        "quicklist"
    }

    /// LPUSH, RPUSH: adds values at one end, one after another (so that the last is outermost).
    pub fn push(&mut self, side: Side, values: &[&[u8]], edit: &mut Edit<ListOp>) {
        edit.redo(|| match side {
            Side::Front => ListOp::Push { front: values.iter().rev().collect(), back: Packed::new() },
            Side::Back => ListOp::Push { front: Packed::new(), back: values.iter().collect() },
        });
        edit.undo(|| match side {
            Side::Front => ListOp::Pop { front: values.len() as u64, back: 0 },
            Side::Back => ListOp::Pop { front: 0, back: values.len() as u64 },
        });
        for value in values {
            self.push_one(side, value, edit);
        }
    }

    #[inline]
    fn push_one(&mut self, side: Side, value: &[u8], edit: &mut Edit<ListOp>) {
        let (index, outermost) = match side {
            Side::Front => (0, self.nodes.front_mut()),
            Side::Back => (self.nodes.len().wrapping_sub(1), self.nodes.back_mut()),
        };
        self.len += 1;
        match outermost {
            Some(node) if has_room(node, value, edit.thresholds) => {
                before_change(index, node, edit);
                match side {
                    Side::Front => node.push_front(value),
                    Side::Back => node.push_back(value),
                }
            }
            outermost => {
                if let Some(full) = outermost {
                    full.shrink_to_fit();
                }
                let index = if side == Side::Front { 0 } else { self.nodes.len() };
                self.add_node(index, [value].into_iter().collect(), edit);
            }
        }
    }

    #[cold]
    fn add_node(&mut self, index: usize, node: Packed, edit: &mut Edit<ListOp>) {
        self.nodes.insert(index, node);
        if let Some(rest) = edit.rest().and_then(Rest::list) {
            rest.added(index);
        }
    }

    /// The nodes, in order.
    pub(super) fn nodes(&self) -> &VecDeque<Packed> {
        &self.nodes
    }

    /// LPOP, RPOP: removes the value at one end.
    pub fn pop(&mut self, side: Side, edit: &mut Edit<ListOp>) -> Option<Blob> {
        let (node, place) = match side {
            Side::Front => (0, self.nodes.front()?.first()),
            Side::Back => {
                let last = self.nodes.back()?;
                (self.nodes.len() - 1, last.place(last.len() - 1))
            }
        };
        let value = Blob::from_slice(self.nodes[node].get(place)?);
        let count = |of: Side| (of == side) as u64;
        edit.redo(|| ListOp::Pop { front: count(Side::Front), back: count(Side::Back) });
        edit.undo(|| push_op(side, [&value].into_iter().collect()));
        before_change(node, &self.nodes[node], edit);
        self.nodes[node].remove(place, 1);
        self.len -= 1;
        if self.nodes[node].is_empty() {
            self.drop_node(node, edit);
        }
        Some(value)
    }

    /// LPOP, RPOP with a count: removes up to `count` values at one end, the outermost first.
    pub fn pop_many(&mut self, side: Side, count: usize, edit: &mut Edit<ListOp>) -> Vec<Blob> {
        let count = count.min(self.len);
        let values = match side {
            Side::Front => self.iter_range(0..count).map(Blob::from_slice).collect(),
            Side::Back => self.iter_range_back(self.len - count..self.len).map(Blob::from_slice).collect(),
        };
        match side {
            Side::Front => self.cut(count, 0, edit),
            Side::Back => self.cut(0, count, edit),
        }
        values
    }

    /// LTRIM: keeps the values from `start` to `stop`, both included, counted from the end when negative.
    pub fn trim(&mut self, start: i64, stop: i64, edit: &mut Edit<ListOp>) {
        let kept = range::positions(start, stop, self.len);
        if kept.is_empty() {
            self.cut(self.len, 0, edit);
        } else {
            self.cut(kept.start, self.len - kept.end, edit);
        }
    }

    /// Removes values at both ends.
    fn cut(&mut self, front: usize, back: usize, edit: &mut Edit<ListOp>) {
        if front + back == 0 {
            return;
        }
        edit.redo(|| ListOp::Pop { front: front as u64, back: back as u64 });
        edit.undo(|| ListOp::Push {
            front: self.iter_range(0..front).collect(),
            back: self.iter_range(self.len - back..self.len).collect(),
        });
        self.len -= front + back;
        self.cut_front(front, edit);
        self.cut_back(back, edit);
    }

    fn cut_front(&mut self, mut count: usize, edit: &mut Edit<ListOp>) {
        while let Some(node) = self.nodes.front_mut() {
            if node.len() > count {
                if count > 0 {
                    before_change(0, node, edit);
                    node.remove(node.first(), count);
                }
                return;
            }
            count -= node.len();
            self.take_node(0, edit);
        }
    }

    fn cut_back(&mut self, mut count: usize, edit: &mut Edit<ListOp>) {
        while let Some(last) = self.nodes.len().checked_sub(1) {
            let node = &mut self.nodes[last];
            if node.len() > count {
                if count > 0 {
                    before_change(last, node, edit);
                    node.remove(node.place(node.len() - count), count);
                }
                return;
            }
            count -= node.len();
            self.take_node(last, edit);
        }
    }

    /// LINDEX: the value at an index, counted from the end when negative.
    pub fn get(&self, index: i64) -> Option<&[u8]> {
        let (node, place) = self.find(range::position(index, self.len)?);
        self.nodes[node].get(place)
    }

    /// LSET: puts another value at an index; false when there is none.
    pub fn set(&mut self, index: i64, value: &[u8], edit: &mut Edit<ListOp>) -> bool {
        let Some(index) = range::position(index, self.len) else { return false };
        let (node, place) = self.find(index);
        edit.redo(|| ListOp::Set { index: index as u64, value: Blob::from_slice(value) });
        edit.undo(|| ListOp::Set {
            index: index as u64,
            value: Blob::from_slice(self.nodes[node].get(place).expect("found")),
        });
        let entry = &mut self.nodes[node];
        let old = entry.get(place).expect("found").len();
        let bytes = entry.bytes() - Packed::cost(old) + Packed::cost(value.len());
        if entry.len() == 1 || value.len() <= old || bytes <= edit.thresholds.list_node_limits().1 {
            before_change(node, entry, edit);
            entry.replace(place, value);
        } else {
            self.remove_one(index, edit);
            self.insert_one(index, value, edit);
        }
        true
    }

    /// LINSERT: adds a value before or after the first that equals `pivot`; the new length, or `None` without pivot.
    pub fn insert(&mut self, before: bool, pivot: &[u8], value: &[u8], edit: &mut Edit<ListOp>) -> Option<usize> {
        let pivot = self.iter().position(|v| v == pivot)?;
        let index = if before { pivot } else { pivot + 1 };
        edit.redo(|| ListOp::Insert { at: vec![index as u64], values: [value].into_iter().collect() });
        edit.undo(|| ListOp::Remove { at: vec![index as u64] });
        self.insert_one(index, value, edit);
        Some(self.len)
    }

    /// LREM: removes values equal to `value`: the first `count` of them, the last when negative, all when 0.
    pub fn remove(&mut self, count: i64, value: &[u8], edit: &mut Edit<ListOp>) -> usize {
        let rank = if count < 0 { -1 } else { 1 };
        let mut at = self.positions(value, rank, count.unsigned_abs() as usize, 0);
        if count < 0 {
            at.reverse();
        }
        if !at.is_empty() {
            self.remove_at(&at, edit);
        }
        at.len()
    }

    /// LPOS: indexes of values equal to `value`, from the `rank`-th match on (from the end when negative; not 0), at most
    /// `count` (0: all), looking at no more than `looked_at` values (0: all).
    pub fn positions(&self, value: &[u8], rank: i64, count: usize, looked_at: usize) -> Vec<usize> {
        let skipped = (rank.unsigned_abs() as usize).saturating_sub(1);
        let all_if_0 = |n: usize| if n == 0 { usize::MAX } else { n };
        let (count, looked_at) = (all_if_0(count), all_if_0(looked_at));
        if rank >= 0 {
            let matches = self.iter().enumerate().take(looked_at).filter(|(_, v)| *v == value);
            matches.skip(skipped).take(count).map(|(i, _)| i).collect()
        } else {
            let backwards = self.iter_range_back(0..self.len).enumerate().take(looked_at);
            let matches = backwards.filter(|(_, v)| *v == value);
            matches.skip(skipped).take(count).map(|(i, _)| self.len - 1 - i).collect()
        }
    }

    /// The values from the first to the last.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> + Clone {
        self.nodes.iter().flat_map(Packed::iter)
    }

    /// The values at a range of indexes, in order.
    pub fn iter_range(&self, range: Range<usize>) -> Walk<'_> {
        if range.is_empty() {
            return Walk::default();
        }
        let (node, place) = self.find(range.start);
        let inside = self.nodes[node].iter_between(place, self.nodes[node].end());
        Walk { inside: Some(inside), nodes: self.nodes.range(node + 1..), left: range.len(), back: false }
    }

    /// The values at a range of indexes, the last first.
    pub fn iter_range_back(&self, range: Range<usize>) -> Walk<'_> {
        if range.is_empty() {
            return Walk::default();
        }
        let (node, place) = self.find(range.end - 1);
        let packed = &self.nodes[node];
        let inside = packed.iter_between(packed.first(), packed.next(place));
        Walk { inside: Some(inside), nodes: self.nodes.range(..node), left: range.len(), back: true }
    }

    /// LRANGE: the values from `start` to `stop`, both included, counted from the end when negative.
    pub fn range(&self, start: i64, stop: i64) -> Walk<'_> {
        self.iter_range(range::positions(start, stop, self.len))
    }

    /// The node of an index below the length, and the place in it.
    fn find(&self, index: usize) -> (usize, Place) {
        debug_assert!(index < self.len);
        if index <= self.len / 2 {
            let mut first = 0;
            for (i, node) in self.nodes.iter().enumerate() {
                if index < first + node.len() {
                    return (i, node.place(index - first));
                }
                first += node.len();
            }
        } else {
            let mut first = self.len;
            for (i, node) in self.nodes.iter().enumerate().rev() {
                first -= node.len();
                if index >= first {
                    return (i, node.place(index - first));
                }
            }
        }
        unreachable!("the nodes hold `len` values")
    }

    /// Adds a value so that it has this index.
    fn insert_one(&mut self, index: usize, value: &[u8], edit: &mut Edit<ListOp>) {
        if index == 0 {
            return self.push_one(Side::Front, value, edit);
        }
        if index == self.len {
            return self.push_one(Side::Back, value, edit);
        }
        let (node, place) = self.find(index);
        self.len += 1;
        if has_room(&self.nodes[node], value, edit.thresholds) {
            before_change(node, &self.nodes[node], edit);
            return self.nodes[node].insert(place, &[value]);
        }
        let at_front = place == self.nodes[node].first();
        if at_front && has_room(&self.nodes[node - 1], value, edit.thresholds) {
            before_change(node - 1, &self.nodes[node - 1], edit);
            return self.nodes[node - 1].push_back(value);
        }
        if at_front {
            return self.add_node(node, [value].into_iter().collect(), edit);
        }
        before_change(node, &self.nodes[node], edit);
        let tail = self.nodes[node].split_off(place);
        self.add_node(node + 1, tail, edit);
        match [node, node + 1].into_iter().find(|n| has_room(&self.nodes[*n], value, edit.thresholds)) {
            Some(n) if n == node => self.nodes[n].push_back(value),
            Some(n) => self.nodes[n].push_front(value),
            None => self.add_node(node + 1, [value].into_iter().collect(), edit),
        }
    }

    fn remove_one(&mut self, index: usize, edit: &mut Edit<ListOp>) {
        let (node, place) = self.find(index);
        before_change(node, &self.nodes[node], edit);
        self.nodes[node].remove(place, 1);
        self.len -= 1;
        self.tidy(node, edit);
    }

    /// Drops a node that became empty, or joins it, which was changed, with the next when both are small.
    fn tidy(&mut self, node: usize, edit: &mut Edit<ListOp>) {
        const JOINED_BYTES_MAX: usize = 2048;
        if self.nodes[node].is_empty() {
            self.drop_node(node, edit);
        } else if self.nodes.get(node + 1).is_some_and(|n| n.bytes() + self.nodes[node].bytes() <= JOINED_BYTES_MAX) {
            let next = self.nodes.remove(node + 1).expect("there is a next one");
            self.nodes[node].append(&next);
            tell_removed(node + 1, next, edit);
        }
    }

    /// Takes a node out, with all that is in it.
    fn take_node(&mut self, node: usize, edit: &mut Edit<ListOp>) {
        if let Some(content) = self.nodes.remove(node) {
            tell_removed(node, content, edit);
        }
    }

    fn drop_node(&mut self, node: usize, edit: &mut Edit<ListOp>) {
        self.take_node(node, edit);
        if self.nodes.capacity() > 64 && self.nodes.len() < self.nodes.capacity() / 4 {
            self.nodes.shrink_to(self.nodes.len() * 2);
        }
    }

    /// Removes the values at these ascending indexes.
    fn remove_at(&mut self, at: &[usize], edit: &mut Edit<ListOp>) {
        edit.redo(|| ListOp::Remove { at: at.iter().map(|i| *i as u64).collect() });
        edit.undo(|| ListOp::Insert { at: at.iter().map(|i| *i as u64).collect(), values: self.pick(at).collect() });
        if at.len() <= REBUILD_FROM {
            return at.iter().rev().for_each(|index| self.remove_one(*index, edit));
        }
        let mut rest = at.iter().peekable();
        let mut kept = List::new();
        for (i, value) in self.iter().enumerate() {
            if rest.next_if_eq(&&i).is_none() {
                kept.push_one(Side::Back, value, &mut Edit::silent(edit.thresholds));
            }
        }
        self.replace_all(kept, edit);
    }

    fn replace_all(&mut self, list: List, edit: &mut Edit<ListOp>) {
        let before = std::mem::replace(self, list);
        if let Some(rest) = edit.rest().and_then(Rest::list) {
            rest.replaced(before.nodes, self.nodes.len());
        }
    }

    /// The values at ascending indexes.
    fn pick<'a>(&'a self, at: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
        let first = at.first().copied().unwrap_or(0);
        let mut values = self.iter_range(first..self.len);
        let mut next = first;
        at.iter().map(move |index| {
            let value = values.nth(index - next).expect("an index below the length");
            next = index + 1;
            value
        })
    }

    /// Adds values so that they have these ascending indexes, of which the last is below the new length.
    fn insert_at(&mut self, at: &[usize], values: &Packed, edit: &mut Edit<ListOp>) {
        edit.redo(|| ListOp::Insert { at: at.iter().map(|i| *i as u64).collect(), values: values.clone() });
        edit.undo(|| ListOp::Remove { at: at.iter().map(|i| *i as u64).collect() });
        if at.len() <= REBUILD_FROM {
            return at.iter().zip(values).for_each(|(index, value)| self.insert_one(*index, value, edit));
        }
        let mut merged = List::new();
        let mut added = at.iter().zip(values).peekable();
        let mut old = self.iter();
        for i in 0..self.len + at.len() {
            let value = match added.next_if(|(index, _)| **index == i) {
                Some((_, value)) => value,
                None => old.next().expect("as many as the indexes leave open"),
            };
            merged.push_one(Side::Back, value, &mut Edit::silent(edit.thresholds));
        }
        drop(old);
        self.replace_all(merged, edit);
    }

    /// Performs an operation and returns its inverse. Fails, without change, on one that does not fit this list.
    pub fn apply(&mut self, op: ListOp, thresholds: &Thresholds, rest: Option<&mut Rest>) -> Decoded<ListOp> {
        let mut edit = Edit::recording(thresholds, false, true).saving(rest);
        self.perform(&op, &mut edit)?;
        Ok(edit.finish().1.unwrap_or(ListOp::Many(Vec::new())))
    }

    fn perform(&mut self, op: &ListOp, edit: &mut Edit<ListOp>) -> Decoded<()> {
        match op {
            ListOp::Push { front, back } => {
                edit.undo(|| ListOp::Pop { front: front.len() as u64, back: back.len() as u64 });
                front.iter().rev().for_each(|value| self.push_one(Side::Front, value, edit));
                back.iter().for_each(|value| self.push_one(Side::Back, value, edit));
            }
            ListOp::Pop { front, back } => {
                let fits = front.checked_add(*back).is_some_and(|sum| sum <= self.len as u64);
                if !fits {
                    return Err(Malformed("list shorter than what is removed"));
                }
                self.cut(*front as usize, *back as usize, edit);
            }
            ListOp::Set { index, value } => {
                if !i64::try_from(*index).is_ok_and(|index| self.set(index, value, edit)) {
                    return Err(Malformed("list index out of range"));
                }
            }
            ListOp::Insert { at, values } => {
                let at = ascending(at, self.len as u64 + at.len() as u64)?;
                if at.len() != values.len() {
                    return Err(Malformed("not one value for each index"));
                }
                self.insert_at(&at, values, edit);
            }
            ListOp::Remove { at } => self.remove_at(&ascending(at, self.len as u64)?, edit),
            ListOp::Many(ops) => ops.iter().try_for_each(|op| self.perform(op, edit))?,
        }
        Ok(())
    }

    /// Equal for equal contents.
    pub fn digest(&self) -> u64 {
        self.iter().fold(Digest::new(b'l'), Digest::bytes).finish()
    }

    /// Bytes taken from the allocator, this header included.
    pub fn memory(&self) -> usize {
        let nodes: usize = self.nodes.iter().map(Packed::memory).sum();
        size_of::<List>() + self.nodes.capacity() * size_of::<Packed>() + nodes
    }

    /// At most the bytes of the values, found without looking at each node.
    pub(super) fn is_bigger_than(&self, bytes: usize) -> bool {
        self.nodes.len() > 64 || self.memory() > bytes
    }

    /// Appends the bytes that [`List::decode`] reads.
    pub fn encode(&self, out: &mut Vec<u8>) {
        codec::put_number(out, self.len as u64);
        self.iter().for_each(|value| codec::put_bytes(out, value));
    }

    /// Reads what [`List::encode`] wrote.
    pub fn decode(input: &mut &[u8], thresholds: &Thresholds) -> Decoded<List> {
        let mut list = List::new();
        for _ in 0..codec::take_count(input)? {
            list.push_one(Side::Back, codec::take_bytes(input)?, &mut Edit::silent(thresholds));
        }
        Ok(list)
    }
}

fn push_op(side: Side, values: Packed) -> ListOp {
    match side {
        Side::Front => ListOp::Push { front: values, back: Packed::new() },
        Side::Back => ListOp::Push { front: Packed::new(), back: values },
    }
}

/// Tells whoever saves the list that a node is about to change.
#[inline]
fn before_change(index: usize, node: &Packed, edit: &mut Edit<ListOp>) {
    if let Some(rest) = edit.rest().and_then(Rest::list) {
        rest.before_change(index, node);
    }
}

/// Tells whoever saves the list that a node is gone from it, and what was in it.
fn tell_removed(index: usize, content: Packed, edit: &mut Edit<ListOp>) {
    if let Some(rest) = edit.rest().and_then(Rest::list) {
        rest.removed(index, content);
    }
}

#[inline]
fn has_room(node: &Packed, value: &[u8], thresholds: &Thresholds) -> bool {
    let (entries, bytes) = thresholds.list_node_limits();
    node.len() < entries && node.bytes() + Packed::cost(value.len()) <= bytes
}

/// Indexes as a list has them, checked to rise and to end below `limit`.
fn ascending(at: &[u64], limit: u64) -> Decoded<Vec<usize>> {
    let rising = at.is_sorted_by(|a, b| a < b);
    if !rising || at.last().is_some_and(|last| *last >= limit) {
        return Err(Malformed("list indexes out of order or range"));
    }
    Ok(at.iter().map(|i| *i as usize).collect())
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

/// Walks some values of a list in one direction.
#[derive(Clone, Default)]
pub struct Walk<'a> {
    inside: Option<packed::Iter<'a>>,
    nodes: std::collections::vec_deque::Iter<'a, Packed>,
    left: usize,
    back: bool,
}

impl<'a> Iterator for Walk<'a> {
    type Item = &'a [u8];
    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        loop {
            let inside = self.inside.as_mut()?;
            if let Some(value) = if self.back { inside.next_back() } else { inside.next() } {
                return Some(value);
            }
            self.inside = if self.back { self.nodes.next_back() } else { self.nodes.next() }.map(Packed::iter);
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Walk<'_> {}

impl ListOp {
    /// Appends the bytes that [`ListOp::decode`] reads.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            ListOp::Push { front, back } => {
                out.push(0);
                codec::put_list(out, front);
                codec::put_list(out, back);
            }
            ListOp::Pop { front, back } => {
                out.push(1);
                codec::put_number(out, *front);
                codec::put_number(out, *back);
            }
            ListOp::Set { index, value } => {
                out.push(2);
                codec::put_number(out, *index);
                codec::put_bytes(out, value);
            }
            ListOp::Insert { at, values } => {
                out.push(3);
                put_indexes(out, at);
                codec::put_list(out, values);
            }
            ListOp::Remove { at } => {
                out.push(4);
                put_indexes(out, at);
            }
            ListOp::Many(ops) => super::op::encode_many(ops, out, ListOp::encode),
        }
    }

    /// Reads what [`ListOp::encode`] wrote.
    pub fn decode(input: &mut &[u8]) -> Decoded<ListOp> {
        super::op::decode_many(input, ListOp::Many, |tag, input| match tag {
            0 => Ok(ListOp::Push { front: codec::take_list(input)?, back: codec::take_list(input)? }),
            1 => Ok(ListOp::Pop { front: codec::take_number(input)?, back: codec::take_number(input)? }),
            2 => {
                let index = codec::take_number(input)?;
                Ok(ListOp::Set { index, value: Blob::from_slice(codec::take_bytes(input)?) })
            }
            3 => Ok(ListOp::Insert { at: take_indexes(input)?, values: codec::take_list(input)? }),
            4 => Ok(ListOp::Remove { at: take_indexes(input)? }),
            _ => Err(Malformed("unknown list operation")),
        })
    }
}

/// Indexes as differences, which take one byte each where they are close.
fn put_indexes(out: &mut Vec<u8>, at: &[u64]) {
    codec::put_number(out, at.len() as u64);
    let mut last = 0;
    for index in at {
        codec::put_number(out, index.wrapping_sub(last));
        last = *index;
    }
}

fn take_indexes(input: &mut &[u8]) -> Decoded<Vec<u64>> {
    let count = codec::take_count(input)?;
    let mut last = 0u64;
    (0..count)
        .map(|_| {
            last = last.wrapping_add(codec::take_number(input)?);
            Ok(last)
        })
        .collect()
}
