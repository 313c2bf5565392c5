//! How many times a second something happens, averaged over the last samples of its counter.

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
}
