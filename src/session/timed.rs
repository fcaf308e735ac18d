//! A compact form of samples. A race of an hour has tens of thousands of samples. With a tree for each of them, they
//! would take most of the screens' memory.

use crate::core::{LaneId, Metric, Sample};

/// A sample with its time.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedSample {
    /// Time in nanoseconds since the session began.
    pub at_ns: u64,
    /// The run that was being measured, if any.
    pub lane: Option<LaneId>,
    /// The meters that were read, in ascending order.
    metrics: Box<[Metric]>,
    /// Their readings, in the same order.
    values: Box<[f64]>,
}

impl TimedSample {
    /// Stores a sample in this form.
    #[must_use]
    pub fn of(at_ns: u64, sample: &Sample) -> Self {
        let metrics = sample.values.keys().copied().collect();
        Self { at_ns, lane: sample.lane, metrics, values: sample.values.values().copied().collect() }
    }

    /// The reading of a meter; `None` if it was not read.
    #[must_use]
    pub fn get(&self, metric: Metric) -> Option<f64> {
        let at = self.metrics.binary_search(&metric).ok()?;
        self.values.get(at).copied()
    }

    /// All readings with their meters.
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
