//! Members ordered by score, then by bytes, in a B+tree that counts: rank, and member by rank, in logarithmic time.
//!
//! ```text
//! Inner   up to 32 times | keys of the first member below | count of members below | child |
//! Leaf    up to 64 times | keys of a member |
//! keys    | score f64 | head u32 | handle | (`keys`)
//! member  | score f64 | length u32 | bytes .. |, one allocation (`member`)
//! ```
//! Keys of one kind stand side by side in the nodes, so that a search touches a few cache lines a level and seldom a
//! member. A skip list, which is what Redis has here, touches one line a step, in 20 to 30 steps for a million members.
//! It was built and measured first, with a million members: adding one took 3 times as long (1.6 times where all scores
//! are equal), moving one or finding a rank 3 times, walking over ten 8 times.
//!
//! A member's bytes are stored once. Handles are plain pointers to it: whoever keeps them (a table from member to
//! handle) must drop them when the member goes.

mod keys;
mod member;

pub use member::Handle;

use keys::{Key, Keys};
use smallvec::SmallVec;

const LEAF_MAX: usize = 64;
const INNER_MAX: usize = 32;

/// The tree. Its members are distinct, which is up to the owner.
pub struct RankTree {
    root: Node,
    /// Memory of the members.
    bytes: usize,
}

/// Invariant: every handle in a tree is that of a live member that the tree owns; scores beside handles are theirs.
enum Node {
    Leaf(Box<Leaf>),
    Inner(Box<Inner>),
}

#[derive(Default)]
struct Leaf {
    keys: Keys<LEAF_MAX>,
}

#[derive(Default)]
struct Inner {
    /// The first member below each child.
    keys: Keys<INNER_MAX>,
    /// How many members are below each child.
    counts: SmallVec<[u32; INNER_MAX]>,
    children: SmallVec<[Node; INNER_MAX]>,
}

impl Leaf {
    /// Adds a member; the right part, if the leaf had to be split.
    fn add(&mut self, key: Key, member: Handle) -> Option<Leaf> {
        let at = self.keys.lower_bound(key);
        if self.keys.len() < LEAF_MAX {
            self.keys.insert(at, key.score, member);
            return None;
        }
        // Members that come in order, rising or falling, leave full leaves behind; others split them in the middle.
        let middle = match at {
            LEAF_MAX => LEAF_MAX,
            0 => 0,
            _ => LEAF_MAX / 2,
        };
        let mut right = Leaf { keys: self.keys.split_off(middle) };
        if at < middle || middle == 0 {
            self.keys.insert(at, key.score, member);
        } else {
            right.keys.insert(at - middle, key.score, member);
        }
        Some(right)
    }

    fn move_inside(&mut self, key: Key, score: f64) -> bool {
        let from = self.keys.lower_bound(key);
        let to = self.keys.lower_bound(Key { score, member: key.member });
        // Among the others, the new place is one lower if it comes after the old one.
        let to = if to > from { to - 1 } else { to };
        if from == 0 || to == 0 || to + 1 >= self.keys.len() {
            return false;
        }
        self.keys.rotate(from, to);
        self.keys.scores[to] = score;
        true
    }
}

impl Inner {
    /// The child in which a key is, or belongs.
    #[inline]
    fn child_of(&self, key: Key) -> usize {
        let at = self.keys.lower_bound(key);
        if self.keys.is_at(at, key) { at } else { at.saturating_sub(1) }
    }

    /// The child that holds a rank, and the rank in it.
    #[inline]
    fn child_at(&self, mut rank: usize) -> (usize, usize) {
        for (i, count) in self.counts.iter().enumerate() {
            if rank < *count as usize {
                return (i, rank);
            }
            rank -= *count as usize;
        }
        unreachable!("a rank below the count")
    }

    /// How many members are below the children before this one.
    #[inline]
    fn count_before(&self, child: usize) -> usize {
        self.counts[..child].iter().map(|count| *count as usize).sum()
    }

    fn insert(&mut self, at: usize, child: Node) {
        let (score, member) = child.first();
        self.keys.insert(at, score, member);
        self.counts.insert(at, child.count() as u32);
        self.children.insert(at, child);
    }

    fn remove(&mut self, at: usize) -> Node {
        self.keys.remove(at);
        self.counts.remove(at);
        self.children.remove(at)
    }

    fn split_off(&mut self, at: usize) -> Inner {
        let right = Inner {
            keys: self.keys.split_off(at),
            counts: self.counts[at..].into(),
            children: self.children.drain(at..).collect(),
        };
        self.counts.truncate(at);
        right
    }

    /// Adds a member; the right part, if the node had to be split.
    fn add(&mut self, key: Key, member: Handle) -> Option<Inner> {
        let at = self.child_of(key);
        self.children[at].prefetch();
        let Some(right) = self.children[at].add(key, member) else {
            self.note_first(at);
            self.counts[at] += 1;
            return None;
        };
        self.refresh(at);
        if self.children.len() < INNER_MAX {
            self.insert(at + 1, right);
            return None;
        }
        let middle = if at + 1 == INNER_MAX { INNER_MAX } else { INNER_MAX / 2 };
        let mut other = self.split_off(middle);
        if at < middle && middle < INNER_MAX {
            self.insert(at + 1, right);
        } else {
            other.insert(at + 1 - middle, right);
        }
        Some(other)
    }

    /// Notes a child's first member and count anew.
    fn refresh(&mut self, at: usize) {
        self.note_first(at);
        self.counts[at] = self.children[at].count() as u32;
    }

    #[inline]
    fn note_first(&mut self, at: usize) {
        let (score, member) = self.children[at].first();
        if self.keys.members[at] != member {
            self.keys.replace(at, member);
        }
        self.keys.scores[at] = score;
    }

    /// Notes a child anew after members left it: drops it when empty, joins it with a neighbour when both are small.
    fn settle(&mut self, at: usize) {
        let size = self.children[at].size();
        if size == 0 {
            self.remove(at);
            return;
        }
        self.refresh(at);
        let max = self.children[at].size_max();
        if size > max / 4 {
            return;
        }
        let left = if at + 1 < self.children.len() { at } else { at.saturating_sub(1) };
        let joined = self.children.get(left + 1).map(|right| self.children[left].size() + right.size());
        // What is joined has room for a quarter more, so that the next insertion does not split it again.
        if joined.is_some_and(|joined| joined <= max * 3 / 4) {
            let right = self.remove(left + 1);
            self.children[left].append(right);
            self.refresh(left);
        }
    }
}

impl Node {
    /// Starts loading what a search looks at first.
    #[inline]
    fn prefetch(&self) {
        match self {
            Node::Leaf(leaf) => leaf.keys.prefetch(),
            Node::Inner(inner) => inner.keys.prefetch(),
        }
    }

    /// Score and handle of the first member.
    fn first(&self) -> (f64, Handle) {
        match self {
            Node::Leaf(leaf) => leaf.keys.first(),
            Node::Inner(inner) => inner.keys.first(),
        }
    }

    /// Members below.
    fn count(&self) -> usize {
        match self {
            Node::Leaf(leaf) => leaf.keys.len(),
            Node::Inner(inner) => inner.count_before(inner.counts.len()),
        }
    }

    /// Entries of the node itself.
    fn size(&self) -> usize {
        match self {
            Node::Leaf(leaf) => leaf.keys.len(),
            Node::Inner(inner) => inner.children.len(),
        }
    }

    fn size_max(&self) -> usize {
        match self {
            Node::Leaf(_) => LEAF_MAX,
            Node::Inner(_) => INNER_MAX,
        }
    }

    /// Adds the entries of the right neighbour, which is of the same level.
    fn append(&mut self, right: Node) {
        match (self, right) {
            (Node::Leaf(left), Node::Leaf(right)) => left.keys.append(&right.keys),
            (Node::Inner(left), Node::Inner(mut right)) => {
                left.keys.append(&right.keys);
                left.counts.extend_from_slice(&right.counts);
                left.children.extend(right.children.drain(..));
            }
            _ => unreachable!("neighbours are of one level"),
        }
    }

    fn add(&mut self, key: Key, member: Handle) -> Option<Node> {
        match self {
            Node::Leaf(leaf) => leaf.add(key, member).map(|right| Node::Leaf(Box::new(right))),
            Node::Inner(inner) => inner.add(key, member).map(|right| Node::Inner(Box::new(right))),
        }
    }

    /// Takes out the member with this key, which is there.
    fn take(&mut self, key: Key) -> Handle {
        match self {
            Node::Leaf(leaf) => leaf.keys.remove(leaf.keys.lower_bound(key)),
            Node::Inner(inner) => {
                let at = inner.child_of(key);
                inner.children[at].prefetch();
                let member = inner.children[at].take(key);
                inner.settle(at);
                member
            }
        }
    }

    /// Takes out up to `count` members from a rank on, as far as one leaf has them; how many.
    fn take_run(&mut self, rank: usize, count: usize, visit: &mut impl FnMut(Handle)) -> usize {
        match self {
            Node::Leaf(leaf) => {
                let end = (rank + count).min(leaf.keys.len());
                leaf.keys.drain(rank..end, visit);
                end - rank
            }
            Node::Inner(inner) => {
                let (at, rank) = inner.child_at(rank);
                let taken = inner.children[at].take_run(rank, count, visit);
                inner.settle(at);
                taken
            }
        }
    }

    /// Gives the member with this key another score, if that leaves it in its leaf and not first there.
    fn move_inside(&mut self, key: Key, score: f64) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.move_inside(key, score),
            Node::Inner(inner) => {
                let at = inner.child_of(key);
                inner.children[at].prefetch();
                inner.children[at].move_inside(key, score)
            }
        }
    }

    fn destroy(&mut self) {
        match self {
            // SAFETY: the tree owns its members, and is going.
            Node::Leaf(leaf) => leaf.keys.members.drain(..).for_each(|member| unsafe { member.destroy() }),
            Node::Inner(inner) => inner.children.iter_mut().for_each(Node::destroy),
        }
    }
}

impl RankTree {
    /// An empty tree.
    pub fn new() -> Self {
        RankTree { root: Node::Leaf(Box::default()), bytes: 0 }
    }

    /// How many members.
    pub fn len(&self) -> usize {
        self.root.count()
    }

    /// True without members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes taken from the allocator, nodes being estimated at three quarters full.
    pub fn memory(&self) -> usize {
        let leaves = 1 + self.len() / (LEAF_MAX * 3 / 4);
        let inners = leaves / (INNER_MAX * 3 / 4);
        leaves * size_of::<Leaf>() + inners * size_of::<Inner>() + self.bytes
    }

    /// Adds a member that is not in the tree.
    pub fn insert(&mut self, score: f64, member: &[u8]) -> Handle {
        assert!(self.len() < u32::MAX as usize, "a tree holds fewer than 2^32 members");
        let handle = Handle::create(score, member);
        self.bytes += Handle::layout(member.len()).size();
        self.add(score, handle);
        handle
    }

    /// Puts a live member that is in no tree where its score and bytes belong.
    fn add(&mut self, score: f64, handle: Handle) {
        // SAFETY: the member is alive.
        let key = Key { score, member: unsafe { handle.member() } };
        if let Some(right) = self.root.add(key, handle) {
            let mut root = Inner::default();
            root.insert(0, right);
            root.insert(0, std::mem::replace(&mut self.root, Node::Leaf(Box::default())));
            self.root = Node::Inner(Box::new(root));
        }
    }

    /// Score and bytes of a member of this tree.
    ///
    /// # Safety
    /// The member is in this tree, and stays for `'a`.
    unsafe fn key<'a>(handle: Handle) -> Key<'a> {
        // SAFETY: by contract.
        unsafe { Key { score: handle.score(), member: handle.member() } }
    }

    /// Removes a member.
    ///
    /// # Safety
    /// The member is in this tree; the handle must not be used again.
    pub unsafe fn remove(&mut self, handle: Handle) {
        // SAFETY: by contract the member is in the tree; once taken out, nobody uses it.
        unsafe {
            let key = Self::key(handle);
            self.bytes -= Handle::layout(key.member.len()).size();
            let taken = self.root.take(key);
            debug_assert_eq!(handle, taken);
            handle.destroy();
        }
        self.lower_root();
    }

    fn lower_root(&mut self) {
        while let Node::Inner(root) = &mut self.root
            && root.children.len() <= 1
        {
            self.root = root.children.pop().unwrap_or_else(|| Node::Leaf(Box::default()));
        }
    }

    /// Removes the members at a range of ranks, after showing each.
    pub fn remove_ranks(&mut self, start: usize, count: usize, mut visit: impl FnMut(Handle)) {
        let mut left = count.min(self.len().saturating_sub(start));
        while left > 0 {
            let bytes = &mut self.bytes;
            left -= self.root.take_run(start, left, &mut |member| {
                visit(member);
                // SAFETY: the tree owned the member, which has left it.
                unsafe {
                    *bytes -= Handle::layout(member.member().len()).size();
                    member.destroy();
                }
            });
            self.lower_root();
        }
    }

    /// Gives a member another score; its handle stays good.
    ///
    /// # Safety
    /// The member is in this tree.
    pub unsafe fn set_score(&mut self, handle: Handle, score: f64) {
        // SAFETY: by contract the member is in the tree, or just taken out of it by us; no other reference to its score
        // exists, since a key holds a copy.
        unsafe {
            let key = Self::key(handle);
            let stays = self.root.move_inside(key, score);
            if !stays {
                self.root.take(key);
                self.lower_root();
            }
            handle.set_score(score);
            if !stays {
                self.add(score, handle);
            }
        }
    }

    /// How many members, from the first on, satisfy `before`, which must be true of a prefix of the tree only.
    pub fn count_while(&self, mut before: impl FnMut(f64, &[u8]) -> bool) -> usize {
        let mut node = &self.root;
        let mut count = 0;
        loop {
            match node {
                Node::Leaf(leaf) => return count + leaf.keys.count_while(&mut before),
                Node::Inner(inner) => {
                    let Some(child) = inner.keys.count_while(&mut before).checked_sub(1) else { return count };
                    node = &inner.children[child];
                    node.prefetch();
                    count += inner.count_before(child);
                }
            }
        }
    }

    /// The place of a member: 0 for the first.
    ///
    /// # Safety
    /// The member is in this tree.
    pub unsafe fn rank(&self, handle: Handle) -> usize {
        // SAFETY: by contract.
        let key = unsafe { Self::key(handle) };
        let mut node = &self.root;
        let mut rank = 0;
        loop {
            match node {
                Node::Leaf(leaf) => return rank + leaf.keys.lower_bound(key),
                Node::Inner(inner) => {
                    let child = inner.child_of(key);
                    node = &inner.children[child];
                    node.prefetch();
                    rank += inner.count_before(child);
                }
            }
        }
    }

    /// The member at a rank.
    pub fn at(&self, rank: usize) -> Option<Handle> {
        let (leaf, index) = self.locate(rank)?;
        Some(leaf.keys.members[index])
    }

    fn locate(&self, mut rank: usize) -> Option<(&Leaf, usize)> {
        if rank >= self.len() {
            return None;
        }
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(leaf) => return Some((leaf, rank)),
                Node::Inner(inner) => {
                    let (child, inside) = inner.child_at(rank);
                    node = &inner.children[child];
                    rank = inside;
                }
            }
        }
    }

    /// A cursor before the member at a rank, which may be the end.
    pub fn cursor(&self, rank: usize) -> Cursor<'_> {
        let (members, index) = self.locate(rank).map_or((&[][..], 0), |(leaf, index)| (&leaf.keys.members[..], index));
        Cursor { tree: self, members, index, rank }
    }
}

/// Stands between two members and goes either way.
#[derive(Clone)]
pub struct Cursor<'a> {
    tree: &'a RankTree,
    /// The leaf it stands in, and where.
    members: &'a [Handle],
    index: usize,
    rank: usize,
}

impl Cursor<'_> {
    /// How far ahead members are asked for: what a reader does with one takes about as long as a few loads.
    const AHEAD: usize = 4;

    /// Passes the next member.
    #[inline]
    pub fn forward(&mut self) -> Option<Handle> {
        if self.index >= self.members.len() {
            *self = self.tree.cursor(self.rank);
        }
        let member = *self.members.get(self.index)?;
        if let Some(later) = self.members.get(self.index + Self::AHEAD) {
            later.prefetch();
        }
        self.index += 1;
        self.rank += 1;
        Some(member)
    }

    /// Passes the previous member.
    #[inline]
    pub fn backward(&mut self) -> Option<Handle> {
        if self.index == 0 {
            *self = self.tree.cursor(self.rank.checked_sub(1)?);
            self.index += 1;
            self.rank += 1;
        }
        self.index -= 1;
        self.rank -= 1;
        if let Some(earlier) = self.index.checked_sub(Self::AHEAD) {
            self.members[earlier].prefetch();
        }
        self.members.get(self.index).copied()
    }
}

impl Default for RankTree {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for RankTree {
    fn drop(&mut self) {
        self.root.destroy();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;
    use std::cmp::Ordering;

    type Model = Vec<(f64, Vec<u8>)>;

    fn order(a: &(f64, Vec<u8>), b: &(f64, Vec<u8>)) -> Ordering {
        a.0.partial_cmp(&b.0).unwrap().then_with(|| a.1.cmp(&b.1))
    }

    /// Checks what the nodes say of their children, and that no node is empty or over-full.
    fn check_node(node: &Node, is_root: bool) -> usize {
        assert!(is_root || node.size() > 0);
        assert!(node.size() <= node.size_max());
        match node {
            Node::Leaf(leaf) => leaf.keys.check(),
            Node::Inner(inner) => inner.keys.check(),
        }
        if let Node::Inner(inner) = node {
            for (i, child) in inner.children.iter().enumerate() {
                assert_eq!((inner.keys.scores[i], inner.keys.members[i]), child.first());
                assert_eq!(inner.counts[i] as usize, check_node(child, false));
            }
        }
        node.count()
    }

    fn check(tree: &RankTree, model: &Model) {
        assert_eq!(model.len(), check_node(&tree.root, true));
        assert_eq!(model.iter().map(|(_, m)| Handle::layout(m.len()).size()).sum::<usize>(), tree.bytes);
        let (mut cursor, mut back) = (tree.cursor(0), tree.cursor(model.len()));
        for (rank, (score, member)) in model.iter().enumerate() {
            let handle = cursor.forward().unwrap();
            // SAFETY: the tree is not changed while its members are looked at.
            unsafe {
                assert_eq!((*score, &member[..]), (handle.score(), handle.member()));
                assert_eq!(rank, tree.rank(handle));
            }
            assert_eq!(Some(handle), tree.at(rank));
            assert_eq!(tree.at(model.len() - 1 - rank), back.backward());
        }
        assert_eq!(None, cursor.forward());
        assert_eq!(None, back.backward());
        assert_eq!(None, tree.at(model.len()));
    }

    #[test]
    fn behaves_as_a_sorted_vector() {
        for seed in 0..8 {
            let mut random = Xoshiro::from_seed(seed);
            let (mut tree, mut model) = (RankTree::new(), Model::new());
            // Each phase grows or shrinks the tree, over several levels.
            for phase in 0..6 {
                for _ in 0..1500 {
                    step(&mut tree, &mut model, phase % 2 == 0, &mut random);
                }
                check(&tree, &model);
            }
        }
    }

    fn step(tree: &mut RankTree, model: &mut Model, grows: bool, random: &mut Xoshiro) {
        let score = random.below(3).pow(4) as f64 - 8.0;
        let index = random.below(model.len() as u64 + 1) as usize;
        match random.below(10) {
            0..=1 if index < model.len() => {
                // SAFETY: the handle comes from the tree.
                unsafe { tree.set_score(tree.at(index).unwrap(), score) };
                let (_, member) = model.remove(index);
                let entry = (score, member);
                model.insert(model.partition_point(|e| order(e, &entry).is_lt()), entry);
            }
            2 if random.below(20) == 0 => {
                let count = (random.below(100) as usize).min(model.len() - index);
                let mut shown = Vec::new();
                // SAFETY: a member is shown before it is freed.
                tree.remove_ranks(index, count, |member| shown.push(unsafe { member.member() }.to_vec()));
                assert!(model.drain(index..index + count).map(|(_, m)| m).eq(shown));
            }
            3..=8 if grows => {
                let prefix = ["", "element:", "a beginning longer than what nodes share:"][random.below(3) as usize];
                let entry = (score, format!("{prefix}{}", random.next() >> (random.below(40))).into_bytes());
                if model.iter().any(|(_, member)| *member == entry.1) {
                    return;
                }
                let at = model.partition_point(|e| order(e, &entry).is_lt());
                assert_eq!(at, tree.count_while(|s, m| order(&(s, m.to_vec()), &entry).is_lt()));
                let handle = tree.insert(entry.0, &entry.1);
                // SAFETY: the handle was just given.
                assert_eq!(at, unsafe { tree.rank(handle) });
                model.insert(at, entry);
            }
            _ if index < model.len() => {
                // SAFETY: the handle comes from the tree and is dropped here.
                unsafe { tree.remove(tree.at(index).unwrap()) };
                model.remove(index);
            }
            _ => {}
        }
    }

    #[test]
    fn members_in_order_fill_their_leaves() {
        for falling in [false, true] {
            let mut tree = RankTree::new();
            for n in 0..10_000 {
                tree.insert(if falling { -n as f64 } else { n as f64 }, b"m");
            }
            let mut leaves = 0;
            let mut nodes = vec![&tree.root];
            while let Some(node) = nodes.pop() {
                match node {
                    Node::Leaf(_) => leaves += 1,
                    Node::Inner(inner) => nodes.extend(&inner.children),
                }
            }
            assert!(leaves < 10_000 / LEAF_MAX * 5 / 4, "{leaves}");
        }
    }

    #[test]
    fn an_emptied_tree_can_be_used_again() {
        let mut tree = RankTree::new();
        for _ in 0..3 {
            for n in 0..1000u64 {
                tree.insert((n % 7) as f64, n.to_string().as_bytes());
            }
            while let Some(last) = tree.at(tree.len().wrapping_sub(1)) {
                // SAFETY: the handle comes from the tree and is dropped here.
                unsafe { tree.remove(last) };
            }
            check(&tree, &Model::new());
        }
    }
}
