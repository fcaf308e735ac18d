//! Samples as a state keeps them: a race of an hour has tens of thousands, and a tree each would take most of the memory that the screens need.

use crate::core::{LaneId, Metric, Sample};

/// A sample and when it was taken.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedSample {
    /// Nanoseconds since the session began.
    pub at_ns: u64,
    /// The lane that was being watched, if any.
    pub lane: Option<LaneId>,
    /// The meters that were read, in their order.
    metrics: Box<[Metric]>,
    /// The readings, in the same order.
    values: Box<[f64]>,
}

impl TimedSample {
    /// Takes a sample.
    #[must_use]
    pub fn of(at_ns: u64, sample: &Sample) -> Self {
        let metrics = sample.values.keys().copied().collect();
        Self { at_ns, lane: sample.lane, metrics, values: sample.values.values().copied().collect() }
    }

    /// The reading of a meter, if it was read.
    #[must_use]
    pub fn get(&self, metric: Metric) -> Option<f64> {
        let at = self.metrics.binary_search(&metric).ok()?;
        self.values.get(at).copied()
    }

    /// All readings, by meter.
    pub fn readings(&self) -> impl Iterator<Item = (Metric, f64)> + '_ {
        self.metrics.iter().copied().zip(self.values.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_kept_and_what_was_not_is_a_gap() {
        let values = [(Metric::PowerWatts, 80.0), (Metric::GpuMemoryBytes, 7.0), (Metric::SelfRssBytes, 3.0)];
        let sample = Sample { lane: Some(LaneId(4)), values: values.into() };
        let kept = TimedSample::of(9, &sample);
        assert_eq!((kept.at_ns, kept.lane), (9, Some(LaneId(4))));
        assert_eq!(kept.get(Metric::PowerWatts), Some(80.0));
        assert_eq!(kept.get(Metric::LaneThreads), None);
        assert_eq!(kept.readings().collect::<std::collections::BTreeMap<_, _>>(), sample.values);
    }
}
