//! Where the wall time went, averaged over the slots.

use crate::domain::{PHASES, Phase, PhaseTimes, Span};

/// Why spans cannot be added up to phases.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpanFault {
    /// Two spans of a slot overlap.
    #[error("slot {slot} has {first} until {first_end_ns} ns and {second} from {second_start_ns} ns at once", first = first.name(), second = second.name())]
    Overlap {
        /// The slot.
        slot: u16,
        /// Phase of the earlier span.
        first: Phase,
        /// Its end.
        first_end_ns: u64,
        /// Phase of the later span.
        second: Phase,
        /// Its start.
        second_start_ns: u64,
    },
    /// A span ends before it begins or after the wall time.
    #[error("slot {slot} has {phase} from {start_ns} to {end_ns} ns in a run of {wall_ns} ns", phase = phase.name())]
    Outside {
        /// The slot.
        slot: u16,
        /// The phase.
        phase: Phase,
        /// Start.
        start_ns: u64,
        /// End.
        end_ns: u64,
        /// Length of the run.
        wall_ns: u64,
    },
    /// A span is on a slot that the run does not have.
    #[error("a span is on slot {slot} of a run with {slots} slots")]
    NoSuchSlot {
        /// The slot.
        slot: u16,
        /// Slots of the run.
        slots: u32,
    },
}

/// Time by phase, averaged over `slots` slots, with the time that no span covers as `idle`, so that all phases add up to `wall_ns` exactly.
/// Halves of nanoseconds go to the phases that lost most by rounding down.
///
/// # Errors
/// When spans of a slot overlap, lie outside the run, or are on a slot that it does not have: then the phases would not add up.
pub fn phase_times(spans: &[Span], wall_ns: u64, slots: u32) -> Result<PhaseTimes, SpanFault> {
    let mut ordered: Vec<&Span> = spans.iter().collect();
    ordered.sort_by_key(|s| (s.slot, s.start_ns, s.end_ns));
    let mut sums = [0_u128; PHASES.len()];
    let mut before: Option<&Span> = None;
    for span in ordered {
        if u32::from(span.slot) >= slots {
            return Err(SpanFault::NoSuchSlot { slot: span.slot, slots });
        }
        if span.end_ns < span.start_ns || span.end_ns > wall_ns {
            let Span { slot, phase, start_ns, end_ns, .. } = *span;
            return Err(SpanFault::Outside { slot, phase, start_ns, end_ns, wall_ns });
        }
        if let Some(first) = before.filter(|b| b.slot == span.slot && b.end_ns > span.start_ns) {
            return Err(SpanFault::Overlap {
                slot: span.slot,
                first: first.phase,
                first_end_ns: first.end_ns,
                second: span.phase,
                second_start_ns: span.start_ns,
            });
        }
        sums[span.phase as usize] += u128::from(span.duration_ns());
        before = Some(span);
    }
    let slots = u128::from(slots.max(1));
    // Without overlaps the spans of a slot cannot be longer than the run.
    sums[Phase::Idle as usize] = 0;
    let busy: u128 = sums.iter().sum();
    sums[Phase::Idle as usize] = (u128::from(wall_ns) * slots).saturating_sub(busy);
    let mut times = PhaseTimes::default();
    for (phase, sum) in PHASES.iter().zip(&sums) {
        times.add(*phase, u64::try_from(sum / slots).unwrap_or(u64::MAX));
    }
    let mut by_remainder: Vec<usize> = (0..PHASES.len()).filter(|i| sums[*i] % slots > 0).collect();
    by_remainder.sort_by_key(|i| std::cmp::Reverse(sums[*i] % slots));
    let missing = usize::try_from(wall_ns.saturating_sub(times.total_ns())).unwrap_or(0);
    for i in by_remainder.into_iter().take(missing) {
        times.add(PHASES[i], 1);
    }
    Ok(times)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(slot: u16, phase: Phase, start_ns: u64, end_ns: u64) -> Span {
        Span { slot, phase, tensor: None, start_ns, end_ns, bytes: 0, offset: 0 }
    }

    #[test]
    fn phases_are_averaged_over_slots_and_the_rest_is_idle() {
        let spans = [span(0, Phase::Transfer, 0, 60), span(1, Phase::Transfer, 10, 30), span(1, Phase::Copy, 30, 50)];
        let times = phase_times(&spans, 100, 2).unwrap();
        assert_eq!((times.get(Phase::Transfer), times.get(Phase::Copy), times.get(Phase::Idle)), (40, 10, 50));
    }

    #[test]
    fn overlapping_spans_of_a_slot_are_found_in_any_order() {
        let fault = phase_times(&[span(0, Phase::Copy, 59, 70), span(0, Phase::Transfer, 0, 60)], 100, 1).unwrap_err();
        assert_eq!(fault.to_string(), "slot 0 has transfer until 60 ns and copy from 59 ns at once");
        assert!(phase_times(&[span(0, Phase::Copy, 59, 70), span(1, Phase::Transfer, 0, 60)], 100, 2).is_ok());
    }

    #[test]
    fn spans_outside_the_run_or_on_no_slot_are_faults() {
        assert!(matches!(phase_times(&[span(0, Phase::Copy, 0, 101)], 100, 1), Err(SpanFault::Outside { .. })));
        assert!(matches!(phase_times(&[span(0, Phase::Copy, 9, 8)], 100, 1), Err(SpanFault::Outside { .. })));
        assert!(matches!(phase_times(&[span(1, Phase::Copy, 0, 1)], 100, 1), Err(SpanFault::NoSuchSlot { .. })));
    }

    #[test]
    fn a_run_without_spans_is_all_idle() {
        assert_eq!(phase_times(&[], 77, 0).unwrap().get(Phase::Idle), 77);
        assert_eq!(phase_times(&[], 77, 9).unwrap().get(Phase::Idle), 77);
    }

    proptest! {
        #[test]
        fn phases_always_add_up_to_the_wall_time(
            cuts in proptest::collection::vec((0..7_u16, 0..12_u8, 0..50_u64, 0..1000_u64), 0..60), slack in 0..100_u64,
        ) {
            let mut ends = [0_u64; 7];
            let mut spans = Vec::new();
            for (slot, phase, gap, long) in cuts {
                let start = ends[usize::from(slot)] + gap;
                ends[usize::from(slot)] = start + long;
                spans.push(span(slot, Phase::from_index(phase).unwrap_or(Phase::Idle), start, start + long));
            }
            let wall_ns = ends.iter().max().unwrap() + slack;
            prop_assert_eq!(phase_times(&spans, wall_ns, 7).unwrap().total_ns(), wall_ns);
        }
    }
}
