//! A sorted set of integers in the narrowest of 16, 32 and 64 bits that holds them all.

/// A set of integers in ascending order; look-ups by binary search.
#[derive(Clone, Debug)]
pub struct IntSet(Ints);

#[derive(Clone, Debug)]
enum Ints {
    Narrow(Vec<i16>),
    Middle(Vec<i32>),
    Wide(Vec<i64>),
}

/// Runs one expression over the vector of whichever width.
macro_rules! each_width {
    ($ints:expr, $list:ident => $body:expr) => {
        match $ints {
            Ints::Narrow($list) => $body,
            Ints::Middle($list) => $body,
            Ints::Wide($list) => $body,
        }
    };
}

impl IntSet {
    /// The empty set; allocates nothing.
    pub const fn new() -> Self {
        IntSet(Ints::Narrow(Vec::new()))
    }

    /// How many integers.
    #[inline]
    pub fn len(&self) -> usize {
        each_width!(&self.0, list => list.len())
    }

    /// True without integers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The integer at `index` in ascending order.
    #[inline]
    pub fn get(&self, index: usize) -> Option<i64> {
        each_width!(&self.0, list => list.get(index).map(|n| wide(*n)))
    }

    /// True when `n` is in the set.
    #[inline]
    pub fn contains(&self, n: i64) -> bool {
        self.position(n).is_ok()
    }

    /// Where `n` is, or would be.
    fn position(&self, n: i64) -> Result<usize, usize> {
        each_width!(&self.0, list => {
            // Rising counters come in order: the end is worth one look.
            match list.last() {
                Some(last) if wide(*last) < n => Err(list.len()),
                _ => list.binary_search_by(|x| wide(*x).cmp(&n)),
            }
        })
    }

    /// Adds `n`; false when it was there.
    pub fn insert(&mut self, n: i64) -> bool {
        let Err(index) = self.position(n) else { return false };
        self.widen_for(n);
        match &mut self.0 {
            Ints::Narrow(list) => insert_tight(list, index, n as i16),
            Ints::Middle(list) => insert_tight(list, index, n as i32),
            Ints::Wide(list) => insert_tight(list, index, n),
        }
        true
    }

    /// Removes `n`; false when it was not there.
    pub fn remove(&mut self, n: i64) -> bool {
        let Ok(index) = self.position(n) else { return false };
        each_width!(&mut self.0, list => {
            list.remove(index);
            if list.len() < list.capacity() / 2 {
                list.shrink_to_fit();
            }
        });
        true
    }

    /// The integers in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = i64> + ExactSizeIterator + Clone + '_ {
        (0..self.len()).map(|index| self.get(index).expect("below len"))
    }

    /// Bytes taken from the allocator.
    pub fn memory(&self) -> usize {
        each_width!(&self.0, list => list.capacity() * size_of_val(&list[..]) / list.len().max(1))
    }

    fn widen_for(&mut self, n: i64) {
        let fits = match &self.0 {
            Ints::Narrow(_) => i16::try_from(n).is_ok(),
            Ints::Middle(_) => i32::try_from(n).is_ok(),
            Ints::Wide(_) => true,
        };
        if fits {
            return;
        }
        self.0 = if i32::try_from(n).is_ok() {
            Ints::Middle(self.iter().map(|x| x as i32).collect())
        } else {
            Ints::Wide(self.iter().collect())
        };
    }
}

impl Default for IntSet {
    fn default() -> Self {
        Self::new()
    }
}

fn wide(n: impl Into<i64>) -> i64 {
    n.into()
}

/// Inserts with an eighth of spare room instead of a vector's doubling: there may be millions of small sets.
fn insert_tight<T>(list: &mut Vec<T>, index: usize, value: T) {
    if list.len() == list.capacity() {
        list.reserve_exact((list.len() / 8).max(4));
    }
    list.insert(index, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;
    use std::collections::BTreeSet;

    #[test]
    fn behaves_as_a_sorted_set() {
        for seed in 0..20 {
            let mut random = Xoshiro::from_seed(seed);
            let mut set = IntSet::new();
            let mut model = BTreeSet::new();
            for round in 0..2000 {
                let n = random.next() as i64 >> (44 + random.below(20).saturating_sub(round / 100));
                if random.below(3) == 0 {
                    assert_eq!(model.remove(&n), set.remove(n), "seed {seed}");
                } else {
                    assert_eq!(model.insert(n), set.insert(n), "seed {seed}");
                }
                assert_eq!(model.contains(&(n ^ 1)), set.contains(n ^ 1), "seed {seed}");
                assert_eq!(model.len(), set.len());
            }
            assert!(model.iter().copied().eq(set.iter()), "seed {seed}");
        }
    }

    #[test]
    fn holds_the_extremes_of_each_width() {
        let mut set = IntSet::new();
        let all = [0, i16::MAX as i64, i16::MIN as i64, i32::MAX as i64, i32::MIN as i64, i64::MAX, i64::MIN];
        assert!(all.iter().all(|n| set.insert(*n)));
        assert!(all.iter().all(|n| set.contains(*n)));
        assert_eq!(Some(i64::MIN), set.get(0));
        assert_eq!(Some(i64::MAX), set.get(6));
        assert_eq!(None, set.get(7));
    }
}
