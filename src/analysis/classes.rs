//! The time of tensors, grouped by size.

use super::rows::TensorRow;
use crate::core::median::median_u64;
use crate::core::{Phase, PhaseTimes};
use std::ops::Range;

/// The borders of the size classes in bytes: norms and biases, small matrices, attention, experts and MLP,
/// embeddings.
const BORDERS: [u64; 6] = [0, 64 << 10, 1 << 20, 16 << 20, 128 << 20, u64::MAX];

/// The tensors of a run in one size class.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeClass {
    /// The sizes of the class in bytes.
    pub sizes_bytes: Range<u64>,
    /// The number of tensors.
    pub tensors: u64,
    /// The sum of their bytes.
    pub bytes: u64,
    /// The time that they took on slots, by phase.
    pub phases: PhaseTimes,
    /// The median time of one tensor on slots without idle time, in nanoseconds.
    pub median_ns: u64,
}

impl SizeClass {
    /// The share of the time in which no byte moved, 0 to 1.
    #[must_use]
    pub fn overhead_fraction(&self) -> Option<f64> {
        let busy = self.phases.total_ns().saturating_sub(self.phases.get(Phase::Idle));
        (busy > 0).then(|| self.phases.overhead_ns() as f64 / busy as f64)
    }
}

/// The size classes that have tensors with a measured time, from small to large. Tensors without bytes are left out:
/// their time does not depend on their size. A tensor whose share of a block rounds to 0 ns counts with no time.
#[must_use]
pub fn size_classes(rows: &[TensorRow]) -> Vec<SizeClass> {
    BORDERS
        .iter()
        .zip(BORDERS.iter().skip(1))
        .filter_map(|(from, to)| {
            let members: Vec<&TensorRow> = rows
                .iter()
                .filter(|r| r.start_ns.is_some() && r.bytes > 0 && (*from..*to).contains(&r.bytes))
                .collect();
            let times: Vec<u64> = members.iter().map(|r| r.busy_ns()).collect();
            let mut phases = PhaseTimes::default();
            for (phase, ns) in members.iter().flat_map(|r| r.phases.iter()) {
                phases.add(phase, ns);
            }
            Some(SizeClass {
                sizes_bytes: *from..*to,
                tensors: members.len() as u64,
                bytes: members.iter().map(|r| r.bytes).fold(0, u64::saturating_add),
                phases,
                median_ns: median_u64(&times).filter(|_| times.iter().any(|ns| *ns > 0))?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::rows::tests::model;
    use crate::analysis::tensor_rows;
    use crate::core::Span;

    #[test]
    fn tensors_fall_into_classes_by_size_and_unmeasured_ones_into_none() {
        let own = |tensor, phase, start_ns, end_ns| Span {
            slot: 0,
            phase,
            tensor: Some(tensor),
            start_ns,
            end_ns,
            bytes: 0,
            offset: 0,
        };
        let spans = [
            own(0, Phase::RegisterBuffer, 0, 30),
            own(0, Phase::Transfer, 30, 40),
            own(1, Phase::Transfer, 40, 60),
            own(2, Phase::Transfer, 60, 160),
        ];
        let classes = size_classes(&tensor_rows(&model(&[100, 200, 2 << 20, 300]), &spans));
        assert_eq!(classes.len(), 2);
        assert_eq!((classes[0].tensors, classes[0].bytes, classes[0].median_ns), (2, 300, 30));
        assert_eq!(classes[0].overhead_fraction(), Some(0.5));
        assert_eq!((classes[1].sizes_bytes.clone(), classes[1].overhead_fraction()), (1 << 20..16 << 20, Some(0.0)));
    }
}
