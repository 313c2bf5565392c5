//! From bounds on columns to the edges of a range of index keys.

use crate::engine::Edge;
use crate::table::catalog::IndexColumn;
use crate::table::datum::DatumRef;
use crate::table::key::{KeyBuf, put_column};

/// A bound of a range: the prefix and the column's value as bytes, and whether they belong to the range.
pub type Bound = Option<(KeyBuf, bool)>;

/// NULL, the smallest value, satisfies no comparison: a range with an upper bound alone begins after it.
pub fn exclude_null(low: &mut Bound, high: &Bound, prefix: &[u8], column: Option<&IndexColumn>) {
    if let (None, Some(_), Some(column)) = (&low, high, column) {
        let mut key = KeyBuf::from_slice(prefix);
        put_column(DatumRef::Null, column, &mut key);
        *low = Some((key, false));
    }
}

/// The edges of a range: a prefix, and bounds (with the prefix in front) on the column after it.
pub fn edges<'a>(prefix: &'a [u8], low: &'a Bound, high: &'a Bound, desc: bool) -> (Edge<'a>, Edge<'a>) {
    let around = |after: bool| match (prefix.is_empty(), after) {
        (true, _) => Edge::Open,
        (false, false) => Edge::Before(prefix),
        (false, true) => Edge::After(prefix),
    };
    let start = |bound: &'a Bound| match bound {
        None => around(false),
        Some((key, true)) => Edge::Before(key),
        Some((key, false)) => Edge::After(key),
    };
    let end = |bound: &'a Bound| match bound {
        None => around(true),
        Some((key, true)) => Edge::After(key),
        Some((key, false)) => Edge::Before(key),
    };
    if desc { (start(high), end(low)) } else { (start(low), end(high)) }
}
