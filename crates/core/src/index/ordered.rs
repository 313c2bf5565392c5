//! The ordered index is a tree of (index key, row id); here is what its readers need besides.

use crate::ds::btree::{BTree, Probe};
use crate::env::Xoshiro;
use crate::table::catalog::IndexDef;
use crate::table::key::column_len;

/// The place in the tree that an edge of a key range names.
pub fn probe_of(key: Option<&[u8]>, after: bool) -> Probe<'_> {
    match key {
        None if after => Probe::END,
        None => Probe::START,
        Some(key) if after => Probe::after(key),
        Some(key) => Probe::before(key),
    }
}

/// Estimates how many distinct values the first column of an index has, the first two, and so on.
///
/// A random entry is one of n that share its values; the mean of 1/n over random entries is the number of distinct
/// values by the number of entries. Subtree counts give both the random entry and n in a descent each.
pub fn estimate_distinct(tree: &BTree, def: &IndexDef) -> Vec<u64> {
    const SAMPLES: u64 = 24;
    let entries = tree.len();
    let mut shares = vec![0.0; def.columns.len()];
    if entries == 0 {
        return vec![0; def.columns.len()];
    }
    // The same sequence each time, so that equal tables get equal plans.
    let mut random = Xoshiro::from_seed(entries);
    for _ in 0..SAMPLES {
        let Some(entry) = tree.cursor_at(random.below(entries)).next() else { continue };
        let key = entry.key();
        let mut len = 0;
        for (column, share) in def.columns.iter().zip(&mut shares) {
            len += column_len(&key[len..], column.desc).unwrap_or(key.len() - len);
            let prefix = &key[..len];
            *share += 1.0 / tree.count(&Probe::before(prefix), &Probe::after(prefix)).max(1) as f64;
        }
    }
    shares.iter().map(|share| ((share / SAMPLES as f64 * entries as f64) as u64).clamp(1, entries)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::catalog::{Method, tests as catalog};
    use crate::table::datum::DatumRef;
    use crate::table::key::put_key;

    #[test]
    fn estimates_are_near_the_truth() {
        let table = catalog::table("t", &[("a", "INT"), ("b", "INT")]);
        let def = catalog::index(&table, 1, &["a", "b"], false, Method::Ordered);
        let mut tree = BTree::multimap();
        assert_eq!(vec![0, 0], estimate_distinct(&tree, &def));
        for n in 0..50_000i64 {
            let mut key = Vec::new();
            put_key(&[DatumRef::Int(n % 20), DatumRef::Int(n % 5000)], &def.columns, &mut key);
            tree.insert(&key, n as u64);
        }
        let estimates = estimate_distinct(&tree, &def);
        assert!((18..=22).contains(&estimates[0]), "{estimates:?}");
        assert!((4500..=5500).contains(&estimates[1]), "{estimates:?}");
    }
}
