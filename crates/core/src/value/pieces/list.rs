//! What is still to be told of a list, node by node: which of its nodes are as they were at first and not told yet, and
//! what has gone in between.

use super::tag;
use crate::ds::packed::Packed;
use crate::value::List;
use crate::value::codec::{self, put_number};
use std::collections::VecDeque;

/// The list's nodes in order, as runs of those that matter and those that do not.
///
/// What is to be told is, stretch by stretch, `gone` and then the `old` nodes. The stretches cover the list's nodes: the
/// counts of all add up to their number.
///
/// Invariant: only the last stretch may have no old nodes. So both ends are found at once, and there are never more
/// stretches than old nodes, and one.
pub struct ListRest {
    stretches: VecDeque<Stretch>,
    /// Nodes that the list has now.
    nodes: usize,
    piece_bytes: usize,
}

#[derive(Default)]
struct Stretch {
    /// Content that was here and that the list has no more, or not in this form.
    gone: VecDeque<Packed>,
    /// Nodes that are told, or were changed or made since: not to be told.
    new: usize,
    /// Nodes behind these that are as they were at first, and still to be told.
    old: usize,
}

impl ListRest {
    pub fn new(nodes: usize, piece_bytes: usize) -> ListRest {
        ListRest { stretches: VecDeque::from([Stretch { old: nodes, ..Stretch::default() }]), nodes, piece_bytes }
    }

    pub fn is_done(&self) -> bool {
        self.stretches.iter().all(|stretch| stretch.old == 0 && stretch.gone.is_empty())
    }

    /// A node of the list will change.
    pub fn before_change(&mut self, node: usize, content: &Packed) {
        let (at, offset) = self.find(node);
        if let Some(old) = offset.checked_sub(self.stretches[at].new) {
            super::note_copy(content.bytes());
            self.put_in(at, old, 1, Stretch { gone: [content.clone()].into(), new: 1, old: 0 });
        }
    }

    /// A node with this content has left the list.
    pub fn removed(&mut self, node: usize, content: Packed) {
        let (at, offset) = self.find(node);
        self.nodes -= 1;
        match offset.checked_sub(self.stretches[at].new) {
            Some(old) => self.put_in(at, old, 1, Stretch { gone: [content].into(), new: 0, old: 0 }),
            None => self.stretches[at].new -= 1,
        }
    }

    /// The list has a new node, which is now the one of this index.
    pub fn added(&mut self, node: usize) {
        let (at, offset) = self.find(node);
        self.nodes += 1;
        match offset.checked_sub(self.stretches[at].new) {
            Some(old) if old > 0 => self.put_in(at, old, 0, Stretch { new: 1, ..Stretch::default() }),
            _ => self.stretches[at].new += 1,
        }
    }

    /// The list has `nodes` new nodes in the place of all that it had.
    pub fn replaced(&mut self, before: VecDeque<Packed>, nodes: usize) {
        before.into_iter().for_each(|content| self.removed(0, content));
        (0..nodes).for_each(|_| self.added(0));
    }

    /// The stretch of a node, and how many nodes of it come before; for the index behind the last node the last stretch.
    fn find(&self, node: usize) -> (usize, usize) {
        debug_assert!(node <= self.nodes);
        let last = self.stretches.len() - 1;
        if node <= self.nodes / 2 {
            let mut offset = node;
            for (at, stretch) in self.stretches.iter().enumerate() {
                if offset < stretch.new + stretch.old || at == last {
                    return (at, offset);
                }
                offset -= stretch.new + stretch.old;
            }
        }
        let mut first = self.nodes;
        for (at, stretch) in self.stretches.iter().enumerate().rev() {
            first -= stretch.new + stretch.old;
            if node >= first {
                return (at, node - first);
            }
        }
        unreachable!("the stretches cover the list")
    }

    /// Puts something in among the old nodes of a stretch, `old` of which come before, in the place of `taken` of them.
    fn put_in(&mut self, at: usize, old: usize, taken: usize, middle: Stretch) {
        let stretch = &mut self.stretches[at];
        let behind = stretch.old - old - taken;
        stretch.old = old;
        self.stretches.insert(at + 1, Stretch { old: behind, ..middle });
        self.join(at + 1);
        self.join(at);
    }

    /// Restores the invariant: joins a stretch without old nodes with the one behind it.
    fn join(&mut self, at: usize) {
        if self.stretches[at].old > 0 || at + 1 == self.stretches.len() {
            return;
        }
        let Some(mut next) = self.stretches.remove(at + 1) else { return };
        let stretch = &mut self.stretches[at];
        // The shorter one is moved, so that many in a row cost no more than each.
        if stretch.gone.len() < next.gone.len() {
            while let Some(content) = stretch.gone.pop_back() {
                next.gone.push_front(content);
            }
            std::mem::swap(&mut stretch.gone, &mut next.gone);
        } else {
            stretch.gone.append(&mut next.gone);
        }
        stretch.new += next.new;
        stretch.old = next.old;
    }

    /// Each piece is a push at the end.
    pub fn put_piece(&mut self, list: &List, out: &mut Vec<u8>) {
        debug_assert_eq!(self.nodes, list.nodes().len());
        let (mut body, mut count) = (Vec::new(), 0);
        while body.len() < self.piece_bytes {
            let first = &mut self.stretches[0];
            let gone = first.gone.pop_front();
            let content = match &gone {
                Some(content) => content,
                None if first.old > 0 => {
                    first.new += 1;
                    first.old -= 1;
                    &list.nodes()[first.new - 1]
                }
                None => break,
            };
            content.iter().for_each(|value| codec::put_bytes(&mut body, value));
            count += content.len() as u64;
            self.join(0);
        }
        out.extend([tag::LIST, 0, 0]);
        put_number(out, count);
        out.extend_from_slice(&body);
    }

    #[cfg(test)]
    pub fn kept_bytes(&self) -> usize {
        self.stretches.iter().flat_map(|stretch| &stretch.gone).map(Packed::bytes).sum()
    }
}
