//! A histogram of times whose buckets are 0.8 % wide, from nanoseconds to hours, in 40 kB.
//!
//! Values below 128 have a bucket each. Above, each doubling is cut into 128 equal buckets.

const FINE_BITS: u32 = 7;
const FINE: usize = 1 << FINE_BITS;
/// Times of 2^46 ns (19 hours) and more share the last bucket.
const DOUBLINGS: usize = 46 - FINE_BITS as usize;

/// Counts of times, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; FINE * (DOUBLINGS + 1)], total: 0, sum: 0, max: 0 }
    }
}

impl Histogram {
    /// Counts one time.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.counts[index(ns)] += 1;
        self.total += 1;
        self.sum += u128::from(ns);
        self.max = self.max.max(ns);
    }

    /// Number of times counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The longest.
    pub fn max_ns(&self) -> u64 {
        self.max
    }

    /// The mean.
    pub fn mean_ns(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.sum as f64 / self.total as f64 }
    }

    /// The time that `percent` of all do not exceed, to the width of a bucket; 0 when nothing was counted.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        let wanted = (self.total as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return highest(index).min(self.max);
            }
        }
        self.max
    }
}

fn index(ns: u64) -> usize {
    let doubling = (64 - ns.leading_zeros()).saturating_sub(FINE_BITS + 1);
    // The top FINE_BITS + 1 bits: 128..256 once `doubling` is positive, so buckets of a doubling follow the last's.
    let fine = (ns >> doubling) as usize;
    (doubling as usize * FINE + fine).min(FINE * (DOUBLINGS + 1) - 1)
}

/// The longest time of a bucket.
fn highest(index: usize) -> u64 {
    let doubling = (index / FINE).saturating_sub(1);
    let fine = (index - doubling * FINE) as u64;
    ((fine + 1) << doubling) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_falls_into_the_bucket_that_ends_at_or_just_after_it() {
        for ns in (0..100_000).chain((17..45).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 12345])) {
            let top = highest(index(ns));
            assert!(
                top >= ns && top as f64 <= ns as f64 * (1.0 + 1.0 / FINE as f64) + 1.0,
                "{ns} in a bucket up to {top}"
            );
            assert!(index(ns) == 0 || highest(index(ns) - 1) < ns, "{ns} belongs into an earlier bucket");
        }
        assert_eq!(FINE * (DOUBLINGS + 1) - 1, index(u64::MAX));
    }

    #[test]
    fn percentiles_of_a_known_spread() {
        let mut histogram = Histogram::default();
        (1..=10_000).for_each(|us| histogram.record(us * 1000));
        for (percent, us) in [(0.0, 1.0), (50.0, 5000.0), (99.0, 9900.0), (100.0, 10_000.0)] {
            let found = histogram.percentile_ns(percent) as f64 / 1000.0;
            assert!((found / us - 1.0).abs() < 0.01, "{percent} %: {found} us");
        }
        assert_eq!(10_000_000, histogram.max_ns());
        assert_eq!(5_000_500.0, histogram.mean_ns());
        assert_eq!(0, Histogram::default().percentile_ns(50.0));
    }
}
