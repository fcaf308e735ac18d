//! The arithmetic of a read layer by layer: when each layer was loaded and computed, and which share of the loading
//! was hidden by computing.

use crate::core::LayerTimes;

/// A completed transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its layer, from 0.
    pub layer: u32,
    /// Its start, in nanoseconds since the clock started.
    pub start_ns: u64,
    /// Its end, in nanoseconds since the clock started.
    pub end_ns: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// Length of the union of intervals, in nanoseconds.
#[must_use]
pub fn union_ns(intervals: &[(u64, u64)]) -> u64 {
    let mut sorted = intervals.to_vec();
    sorted.sort_unstable();
    let (mut total, mut reached) = (0, 0);
    for (start, end) in sorted {
        let from = start.max(reached);
        total += end.saturating_sub(from);
        reached = reached.max(end);
    }
    total
}

/// The times of the layers. Inputs are the transfers and the computing (start, end, time waited
/// before), in nanoseconds.
#[must_use]
pub fn layer_times(transfers: &[Operation], computing: &[(u64, u64, u64)]) -> Vec<LayerTimes> {
    let mut loads: Vec<Option<(u64, u64)>> = vec![None; computing.len()];
    for transfer in transfers {
        if let Some(load) = loads.get_mut(transfer.layer as usize) {
            let (first, last) = load.unwrap_or((transfer.start_ns, transfer.end_ns));
            *load = Some((first.min(transfer.start_ns), last.max(transfer.end_ns)));
        }
    }
    loads
        .iter()
        .zip(computing)
        .map(|(load, (start, end, waited))| {
            let (first, last) = load.unwrap_or_default();
            LayerTimes {
                load_start_ns: first,
                load_ns: last.saturating_sub(first),
                compute_start_ns: *start,
                compute_ns: end.saturating_sub(*start),
                wait_ns: *waited,
            }
        })
        .collect()
}

/// Share of the transfer time in which computing did not wait, 0 to 1. `None` if nothing was transferred.
#[must_use]
pub fn hidden_fraction(transfers: &[(u64, u64)], waits: &[(u64, u64)]) -> Option<f64> {
    let loading = union_ns(transfers);
    // The length of an intersection is the sum of both lengths minus the length of the union.
    let together = union_ns(&[transfers, waits].concat());
    let exposed = (loading + union_ns(waits)).saturating_sub(together);
    (loading > 0).then(|| 1.0 - exposed as f64 / loading as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn overlapping_transfers_count_once() {
        assert_eq!(union_ns(&[]), 0);
        assert_eq!(union_ns(&[(5, 10), (0, 3), (8, 12), (8, 9)]), 10);
    }

    #[test]
    fn a_layers_load_reaches_from_its_first_transfer_to_the_end_of_its_last() {
        let layers = layer_times(
            &[(0, 10, 30), (0, 5, 20), (1, 30, 45), (9, 0, 99)].map(|(layer, start_ns, end_ns)| Operation {
                layer,
                start_ns,
                end_ns,
                bytes: 1,
            }),
            &[(30, 50, 30), (50, 70, 0)],
        );
        assert_eq!(
            layers,
            [
                LayerTimes { load_start_ns: 5, load_ns: 25, compute_start_ns: 30, compute_ns: 20, wait_ns: 30 },
                LayerTimes { load_start_ns: 30, load_ns: 15, compute_start_ns: 50, compute_ns: 20, wait_ns: 0 },
            ]
        );
    }

    #[test]
    fn what_was_waited_for_is_not_hidden() {
        assert_eq!(hidden_fraction(&[(0, 100)], &[(0, 100)]), Some(0.0));
        assert_eq!(hidden_fraction(&[(0, 50), (40, 100)], &[(0, 25)]), Some(0.75));
        assert_eq!(hidden_fraction(&[(0, 100)], &[]), Some(1.0));
        // Waiting without a transfer, such as the start of a thread, does not reduce the hidden share.
        assert_eq!(hidden_fraction(&[(50, 100)], &[(0, 60), (100, 400)]), Some(0.8));
        assert_eq!(hidden_fraction(&[], &[(0, 7)]), None);
    }

    #[test]
    fn without_prefetch_nothing_is_hidden_and_with_it_all_but_the_first_layer() {
        // Four layers that take 10 ns to load and 30 ns to compute.
        let serial: Vec<(u64, u64)> = (0..4).map(|l| (l * 40, l * 40 + 10)).collect();
        assert_eq!(hidden_fraction(&serial, &serial), Some(0.0));
        let ahead: Vec<(u64, u64)> = (0..4).map(|l| (l * 10, l * 10 + 10)).collect();
        assert_eq!(hidden_fraction(&ahead, &[(0, 10)]), Some(0.75));
    }

    proptest! {
        #[test]
        fn a_union_is_no_longer_than_its_parts_and_no_shorter_than_the_longest(
            parts in proptest::collection::vec((0..1000_u64, 0..1000_u64), 1..40),
        ) {
            let parts: Vec<(u64, u64)> = parts.into_iter().map(|(start, long)| (start, start + long)).collect();
            let union = union_ns(&parts);
            prop_assert!(union <= parts.iter().map(|(s, e)| e - s).sum());
            prop_assert!(union >= parts.iter().map(|(s, e)| e - s).max().unwrap_or(0));
            let covered = (0..2000).filter(|at| parts.iter().any(|(s, e)| (s..e).contains(&at))).count() as u64;
            prop_assert_eq!(union, covered);
        }
    }
}
