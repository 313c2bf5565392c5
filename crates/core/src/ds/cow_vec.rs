//! A sparse array with views taken at once: the directory of a table's pages.

use super::cow::Shared;

const BITS: u32 = 6;
/// Entries of a node. Copying a node adds an owner to each of them, so this bounds the stall of one write under a view.
const FAN: usize = 1 << BITS;

/// An array whose clone is a view: it costs the same at any size, and the two change independently.
#[derive(Clone)]
pub struct CowVec<T> {
    root: Option<Shared<Node<T>>>,
    /// Levels of nodes below the root.
    height: u32,
    /// One more than the largest index ever set.
    len: usize,
    nodes: usize,
    copied: u64,
}

#[derive(Clone)]
#[allow(clippy::large_enum_variant)] // items are pointers, so both are of one size
enum Node<T> {
    Inner([Option<Shared<Node<T>>>; FAN]),
    Leaf([Option<T>; FAN]),
}

impl<T> Node<T> {
    fn new(height: u32) -> Self {
        if height > 0 { Node::Inner([const { None }; FAN]) } else { Node::Leaf([const { None }; FAN]) }
    }
}

/// The place at level `height` on the way to `index`.
#[inline(always)]
fn place(index: usize, height: u32) -> usize {
    index >> (BITS * height) & (FAN - 1)
}

impl<T: Clone> CowVec<T> {
    /// An empty array, which needs no memory.
    pub const fn new() -> Self {
        CowVec { root: None, height: 0, len: 0, nodes: 0, copied: 0 }
    }

    /// One more than the largest index ever set.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Was nothing ever set?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the nodes.
    pub fn memory(&self) -> usize {
        self.nodes * Shared::<Node<T>>::MEMORY
    }

    /// Bytes of nodes copied because views held them.
    pub fn copied(&self) -> u64 {
        self.copied
    }

    /// The item at an index.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        if index >= self.len {
            return None;
        }
        let mut node: &Node<T> = self.root.as_ref()?;
        let mut height = self.height;
        loop {
            match node {
                Node::Leaf(items) => return items[place(index, 0)].as_ref(),
                Node::Inner(kids) => node = kids[place(index, height)].as_ref()?,
            }
            height -= 1;
        }
    }

    /// The item at an index, for writing. The way to it is copied first where views hold it.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        if index >= self.len {
            return None;
        }
        let copied = &mut self.copied;
        let mut node = self.root.as_mut()?.make_mut(copied);
        let mut height = self.height;
        loop {
            match node {
                Node::Leaf(items) => return items[place(index, 0)].as_mut(),
                Node::Inner(kids) => node = kids[place(index, height)].as_mut()?.make_mut(copied),
            }
            height -= 1;
        }
    }

    /// Puts an item at an index and returns what was there.
    pub fn set(&mut self, index: usize, item: T) -> Option<T> {
        while index >> (BITS * (self.height + 1)) > 0 {
            self.raise();
        }
        self.len = self.len.max(index + 1);
        self.place_of(index).replace(item)
    }

    /// Takes the item at an index out.
    pub fn take(&mut self, index: usize) -> Option<T> {
        if index >= self.len {
            return None;
        }
        self.place_of(index).take()
    }

    /// Lets go of what lies before an index, in whole nodes: what is gone from a view need not be copied any more when it
    /// changes. For views only, whose items before `index` must not be asked for again; [`Self::memory`] counts on.
    pub fn forget_before(&mut self, index: usize) {
        if index >= self.len {
            self.root = None;
            return;
        }
        let (copied, mut height) = (&mut self.copied, self.height);
        let mut node = self.root.as_mut();
        while height > 0
            && let Some(Node::Inner(kids)) = node.map(|node| node.make_mut(copied))
        {
            let kept = place(index, height);
            kids[..kept].fill_with(|| None);
            node = kids[kept].as_mut();
            height -= 1;
        }
    }

    fn place_of(&mut self, index: usize) -> &mut Option<T> {
        let (nodes, copied) = (&mut self.nodes, &mut self.copied);
        let mut height = self.height;
        let mut fresh = |height| {
            *nodes += 1;
            Shared::new(Node::new(height))
        };
        let mut node = self.root.get_or_insert_with(|| fresh(height)).make_mut(copied);
        loop {
            match node {
                Node::Leaf(items) => return &mut items[place(index, 0)],
                Node::Inner(kids) => {
                    let kid = &mut kids[place(index, height)];
                    node = kid.get_or_insert_with(|| fresh(height - 1)).make_mut(copied);
                }
            }
            height -= 1;
        }
    }

    /// Puts a root above the root.
    fn raise(&mut self) {
        self.height += 1;
        if let Some(old) = self.root.take() {
            let mut node = Node::new(self.height);
            if let Node::Inner(kids) = &mut node {
                kids[0] = Some(old);
            }
            self.nodes += 1;
            self.root = Some(Shared::new(node));
        }
    }
}

impl<T: Clone> Default for CowVec<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_a_model_and_so_do_its_views() {
        let mut random = Xoshiro::from_seed(5);
        let mut array = CowVec::new();
        let mut model: BTreeMap<usize, u64> = BTreeMap::new();
        let mut views = Vec::new();
        for step in 0..20_000u64 {
            let index = random.below(1 << (2 + step / 1000)) as usize;
            match random.below(6) {
                0..=2 => assert_eq!(model.insert(index, step), array.set(index, step)),
                3 => assert_eq!(model.remove(&index), array.take(index)),
                4 => {
                    let item = array.get_mut(index);
                    assert_eq!(model.get(&index), item.as_deref());
                    if let Some(item) = item {
                        *item += 1;
                        *model.get_mut(&index).unwrap() += 1;
                    }
                }
                _ => assert_eq!(model.get(&index), array.get(index)),
            }
            if step % 1000 == 0 {
                views.push((array.clone(), model.clone()));
            }
        }
        for (view, then) in views {
            assert!(then.iter().all(|(i, item)| view.get(*i) == Some(item)));
            assert_eq!(then.len(), (0..view.len()).filter(|&i| view.get(i).is_some()).count());
        }
    }

    #[test]
    fn what_a_view_forgets_is_written_in_place() {
        let mut random = Xoshiro::from_seed(11);
        for items in [1, FAN, FAN + 1, 3 * FAN * FAN + 5] {
            let mut array = CowVec::new();
            (0..items).for_each(|i| assert_eq!(None, array.set(i, i)));
            let mut view = array.clone();
            let mut from = 0;
            while from < items {
                from += 1 + random.below(items as u64 / 4 + 1) as usize;
                view.forget_before(from);
                assert!((from..items).all(|i| view.get(i) == Some(&i)), "{items} items from {from} on");
                let whole = from / FAN * FAN;
                let before = array.copied();
                (0..whole.min(items)).for_each(|i| *array.get_mut(i).unwrap() = i + 1);
                let ways = (array.height as usize) * Shared::<Node<usize>>::MEMORY * (1 + whole.div_ceil(FAN * FAN));
                assert!(array.copied() - before <= ways as u64, "only nodes above the items are still shared");
                (0..items)
                    .for_each(|i| assert!(array.get(i) == Some(&i) || i < whole && array.get(i) == Some(&(i + 1))));
            }
            assert!((0..items).all(|i| view.get(i).is_none()));
        }
    }

    #[test]
    fn nodes_are_counted_and_copies_too() {
        let mut array = CowVec::new();
        assert_eq!(0, array.memory());
        (0..FAN * FAN).for_each(|i| assert_eq!(None, array.set(i, i)));
        assert_eq!((FAN + 1) * Shared::<Node<usize>>::MEMORY, array.memory());
        assert_eq!(0, array.copied());
        let view = array.clone();
        *array.get_mut(7).unwrap() = 0;
        *array.get_mut(8).unwrap() = 0;
        assert_eq!(2 * Shared::<Node<usize>>::MEMORY as u64, array.copied());
        assert_eq!((Some(&7), Some(&0)), (view.get(7), array.get(7)));
    }
}
