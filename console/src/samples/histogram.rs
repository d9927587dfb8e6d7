//! Histograms of durations.

use std::time::Duration;

/// Number of buckets per doubling. A quantile is off by at most a tenth.
const PARTS: usize = 4;
/// Number of doublings, starting at a nanosecond. They reach 18 minutes; longer durations go into the last bucket.
const DOUBLINGS: usize = 40;

/// A histogram from which quantiles are computed.
#[derive(Clone)]
pub(crate) struct Histogram {
    counts: Vec<u32>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; PARTS * DOUBLINGS], total: 0 }
    }
}

impl Histogram {
    pub(super) fn add(&mut self, duration: Duration) {
        let nanoseconds = duration.as_nanos().max(1) as f64;
        let place = (nanoseconds.log2() * PARTS as f64) as usize;
        let place = place.min(self.counts.len() - 1);
        self.counts[place] = self.counts[place].saturating_add(1);
        self.total += 1;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count = count.saturating_add(*more));
        self.total += other.total;
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the duration in seconds that this share of the durations does not exceed, or none if there are no
    /// durations.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = (self.total as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let place = self.counts.iter().position(|&count| {
            seen += u64::from(count);
            seen >= wanted
        })?;
        // The middle of the bucket, on the logarithmic scale.
        Some(((place as f64 + 0.5) / PARTS as f64).exp2() / 1e9)
    }
}

/// Upper bounds of the buckets in metrics, in seconds.
pub(crate) const BOUNDS: [f64; 8] = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0];

/// A cumulative histogram for metrics, whose counts only grow.
#[derive(Clone, Copy, Default)]
pub(crate) struct Buckets {
    /// For each of [`BOUNDS`], the number of durations that do not exceed it.
    pub(crate) counts: [u64; BOUNDS.len()],
    pub(crate) count: u64,
    /// Sum of the durations in seconds.
    pub(crate) sum: f64,
}

impl Buckets {
    pub(super) fn add(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        for (count, bound) in self.counts.iter_mut().zip(BOUNDS) {
            *count += u64::from(seconds <= bound);
        }
        self.count += 1;
        self.sum += seconds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_near_what_they_are_of() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        (1..=1_000).for_each(|number| histogram.add(Duration::from_micros(number)));
        for (share, expected) in [(0.5, 500e-6), (0.99, 990e-6), (0.001, 1e-6)] {
            let found = histogram.quantile(share).expect("there are some");
            assert!((found / expected - 1.0).abs() < 0.15, "{share}: {found} instead of {expected}");
        }
        let mut both = Histogram::default();
        both.add(Duration::from_secs(100_000));
        both.merge(&histogram);
        assert_eq!(both.total(), 1_001);
        assert!(both.quantile(1.0).expect("there are some") > 500.0);
    }

    #[test]
    fn buckets_hold_what_is_no_longer_than_their_bound() {
        let mut buckets = Buckets::default();
        [1, 10, 11, 20_000_000].map(Duration::from_micros).into_iter().for_each(|duration| buckets.add(duration));
        assert_eq!((buckets.counts, buckets.count), ([1, 2, 3, 3, 3, 3, 3, 3], 4));
    }
}
