//! A histogram of durations.

use serde::{Deserialize, Serialize};

/// The upper bounds of the buckets in nanoseconds: 50 µs to 10 s, three per decade.
const BOUNDS_NS: [u64; 17] = [
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// A histogram of durations. It stores its bounds, so that recordings stay valid if the bounds change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// The upper bounds in nanoseconds, ascending.
    pub upper_ns: Vec<u64>,
    /// The counts per bucket. Each bucket has the values above the previous bound and up to its own bound. An extra
    /// last bucket has the values above all bounds.
    pub counts: Vec<u64>,
    /// The sum of all values in nanoseconds.
    pub sum_ns: u64,
}

impl Histogram {
    /// The histogram of these values. `None` if there are no values.
    #[must_use]
    pub fn of(values: &[u64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let mut counts = vec![0; BOUNDS_NS.len() + 1];
        for value in values {
            counts[BOUNDS_NS.partition_point(|bound| bound < value)] += 1;
        }
        let sum_ns = values.iter().fold(0, |sum: u64, value| sum.saturating_add(*value));
        Some(Self { upper_ns: BOUNDS_NS.to_vec(), counts, sum_ns })
    }

    /// The number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// For each bound the number of values up to it. The last entry has no bound and counts all values.
    pub fn cumulative(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        let bounds = self.upper_ns.iter().copied().map(Some).chain([None]);
        bounds.zip(&self.counts).scan(0_u64, |sum, (bound, count)| {
            *sum = sum.saturating_add(*count);
            Some((bound, *sum))
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_in_the_first_bucket_that_holds_it() {
        let all = Histogram::of(&[1, 50_000, 50_001, 10_000_000_000, 10_000_000_001]).unwrap();
        let filled: Vec<(Option<u64>, u64)> = all.cumulative().collect();
        assert_eq!(filled[0], (Some(50_000), 2));
        assert_eq!(filled[1], (Some(100_000), 3));
        assert_eq!(filled[16], (Some(10_000_000_000), 4));
        assert_eq!(filled[17], (None, 5));
        assert_eq!((all.count(), all.sum_ns), (5, 20_000_100_003));
        assert_eq!(Histogram::of(&[]), None);
    }

    #[test]
    fn bounds_rise() {
        assert!(BOUNDS_NS.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
