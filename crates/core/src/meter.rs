//! How many times a second something happens, averaged over the last samples of its counter; and how long it takes.

use std::collections::VecDeque;

/// Samples averaged. At ten a second, the last second and a half.
const SAMPLES_MAX: usize = 16;

/// A rate. Somebody has to sample the counter now and then.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    /// When, nanoseconds, and what the counter said, the oldest first.
    samples: VecDeque<(u64, u64)>,
}

impl Meter {
    /// Notes what the counter says now.
    pub fn sample(&mut self, now_ns: u64, count: u64) {
        // A counter that was set back starts anew.
        if self.samples.back().is_some_and(|(_, last)| *last > count) {
            self.samples.clear();
        }
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back((now_ns, count));
    }

    /// Times a second.
    pub fn per_second(&self) -> u64 {
        let (Some((start_ns, first)), Some((end_ns, last))) = (self.samples.front(), self.samples.back()) else {
            return 0;
        };
        let elapsed_ns = end_ns - start_ns;
        if elapsed_ns == 0 { 0 } else { ((last - first) as f64 * 1e9 / elapsed_ns as f64).round() as u64 }
    }
}

/// Buckets of a histogram of times: four for each doubling.
const BUCKETS: usize = 128;
/// The doubling that the first four buckets are for: from 128 ns.
const FIRST: u32 = 7;

/// How often something was done, and how long it took: sum, longest, and a histogram with an error of an eighth.
#[derive(Clone, Debug)]
pub struct Uses {
    /// Times done.
    pub calls: u64,
    /// Of these, times it failed.
    pub failures: u64,
    /// Of the calls, those whose time was taken.
    pub timed: u64,
    /// Their time, nanoseconds.
    pub total_ns: u64,
    /// The longest, nanoseconds.
    pub max_ns: u64,
    buckets: [u32; BUCKETS],
}

impl Default for Uses {
    fn default() -> Self {
        Uses { calls: 0, failures: 0, timed: 0, total_ns: 0, max_ns: 0, buckets: [0; BUCKETS] }
    }
}

impl Uses {
    /// Counts a call.
    #[inline]
    pub fn count(&mut self, failed: bool) {
        self.calls += 1;
        self.failures += u64::from(failed);
    }

    /// Notes how long a call took.
    #[inline]
    pub fn time(&mut self, ns: u64) {
        self.timed += 1;
        self.total_ns += ns;
        self.max_ns = self.max_ns.max(ns);
        let count = &mut self.buckets[bucket(ns)];
        *count = count.saturating_add(1);
    }

    /// The time that a share of the calls did not exceed, nanoseconds: the upper end of its bucket, and at most the longest.
    /// None when no times were put into buckets.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        let all: u64 = self.buckets.iter().map(|count| u64::from(*count)).sum();
        let wanted = (all as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (place, count) in self.buckets.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= wanted && seen > 0 {
                return Some(upper_end(place).min(self.max_ns));
            }
        }
        None
    }
}

/// The bucket of a time: its highest bit, and the two below.
#[inline]
fn bucket(ns: u64) -> usize {
    let high = 63 - (ns | 1).leading_zeros();
    if high < FIRST {
        return 0;
    }
    let place = ((high - FIRST) * 4) as usize + (ns >> (high - 2) & 3) as usize;
    place.min(BUCKETS - 1)
}

fn upper_end(place: usize) -> u64 {
    let (high, quarter) = (FIRST + place as u32 / 4, place as u64 % 4);
    ((5 + quarter) << (high - 2)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_samples_are_averaged() {
        let mut meter = Meter::default();
        assert_eq!(0, meter.per_second());
        for tick in 0..100 {
            meter.sample(tick * 100_000_000, if tick < 50 { tick * 1000 } else { 50_000 + (tick - 50) * 7 });
        }
        assert_eq!(70, meter.per_second());
        meter.sample(10_000_000_000, 0);
        assert_eq!(0, meter.per_second());
    }

    #[test]
    fn quantiles_are_those_of_the_times_but_for_an_eighth() {
        let mut uses = Uses::default();
        assert_eq!(None, uses.quantile_ns(0.99));
        for ns in 1..=100_000 {
            uses.count(ns % 10 == 0);
            uses.time(ns);
        }
        assert_eq!((100_000, 10_000, 100_000), (uses.calls, uses.failures, uses.max_ns));
        for share in [0.01, 0.5, 0.9, 0.99, 1.0] {
            let (told, real) = (uses.quantile_ns(share).unwrap() as f64, 100_000.0 * share);
            assert!(told >= real - 1.0 && told <= real * 1.25, "{share}: {told} for {real}");
        }
        uses.time(u64::MAX >> 1);
        assert_eq!(u64::MAX >> 1, uses.max_ns);
        for place in 0..BUCKETS {
            assert_eq!(place, bucket(upper_end(place)));
            assert_eq!((place + 1).min(BUCKETS - 1), bucket(upper_end(place) + 1));
        }
    }
}
