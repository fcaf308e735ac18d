//! Spans: the phases of a slot with their start and end. Engines write them into preallocated buffers.

use super::phase::{Phase, PhaseTimes};

/// One interval of one phase on one slot. Times are in nanoseconds since the clock of the run started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The number of the slot (the timeline of a worker).
    pub slot: u16,
    /// The phase.
    pub phase: Phase,
    /// The tensor, as an index into the model's tensors. `None` for a block of several tensors and for set-up.
    pub tensor: Option<u32>,
    /// The start in nanoseconds.
    pub start_ns: u64,
    /// The end in nanoseconds. It is not before the start.
    pub end_ns: u64,
    /// The number of bytes that were moved.
    pub bytes: u64,
    /// The offset of the first of these bytes in the model's image (see [`super::ModelInfo::image_bases`]). It is 0
    /// if no bytes moved.
    pub offset: u64,
}

impl Span {
    /// Length in nanoseconds.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

impl Span {
    /// The time by phase, averaged over the slots. Time outside of spans counts as `idle`, so that the phases add up
    /// to `wall_ns`. Spans that exceed `wall_ns` are cut.
    #[must_use]
    pub fn phase_times(spans: &[Self], wall_ns: u64, slots: u32) -> PhaseTimes {
        let slots = u64::from(slots.max(1));
        let mut sums = PhaseTimes::default();
        for span in spans {
            let end = span.end_ns.min(wall_ns);
            sums.add(span.phase, end.saturating_sub(span.start_ns));
        }
        let mut times = PhaseTimes::default();
        for (phase, ns) in sums.iter() {
            if phase != Phase::Idle {
                times.add(phase, ns / slots);
            }
        }
        times.add(Phase::Idle, wall_ns.saturating_sub(times.total_ns()));
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(slot: u16, phase: Phase, start_ns: u64, end_ns: u64) -> Span {
        Span { slot, phase, tensor: None, start_ns, end_ns, bytes: 0, offset: 0 }
    }

    #[test]
    fn phase_times_are_averages_over_the_slots_and_the_rest_is_idle() {
        let spans = [
            of(0, Phase::Open, 0, 10),
            of(0, Phase::Transfer, 10, 70),
            of(1, Phase::Transfer, 20, 60),
            of(1, Phase::Copy, 60, 90),
        ];
        let times = Span::phase_times(&spans, 100, 2);
        let measured: Vec<_> = times.iter().collect();
        assert_eq!(measured, [(Phase::Open, 5), (Phase::Transfer, 50), (Phase::Copy, 15), (Phase::Idle, 30)]);
    }

    #[test]
    fn spans_are_cut_at_the_wall_and_idle_spans_count_once() {
        let spans = [of(0, Phase::Transfer, 50, 150), of(0, Phase::Release, 150, 200), of(0, Phase::Idle, 0, 50)];
        let measured: Vec<_> = Span::phase_times(&spans, 100, 1).iter().collect();
        assert_eq!(measured, [(Phase::Transfer, 50), (Phase::Idle, 50)]);
        // A run without spans or slots is idle for its complete time.
        assert_eq!(Span::phase_times(&[], 7, 0).iter().collect::<Vec<_>>(), [(Phase::Idle, 7)]);
    }

    proptest! {
        #[test]
        fn phase_times_add_up_to_the_wall(
            lanes in proptest::collection::vec(proptest::collection::vec((0..11_u8, 0..5000_u64, 0..5000_u64), 0..30), 1..9),
            wall_ns in 0..300_000_u64,
        ) {
            // Gaps and spans alternate on a slot. Some spans exceed the wall time.
            let mut spans = Vec::new();
            for (slot, lane) in lanes.iter().enumerate() {
                let mut at = 0;
                for (phase, gap, length) in lane {
                    let start = at + gap;
                    at = start + length;
                    spans.push(of(slot as u16, Phase::from_index(*phase).unwrap_or(Phase::Idle), start, at));
                }
            }
            let times = Span::phase_times(&spans, wall_ns, lanes.len() as u32);
            prop_assert_eq!(times.total_ns(), wall_ns);
            // Each phase is rounded down and never up. The lost fraction of a nanosecond counts as idle time.
            let busy = |s: &Span| s.end_ns.min(wall_ns).saturating_sub(s.start_ns.min(wall_ns));
            let busy: u64 = spans.iter().map(busy).sum();
            let exact = busy / lanes.len() as u64;
            let measured = times.total_ns() - times.get(Phase::Idle);
            prop_assert!(measured <= exact && exact - measured <= 11, "{} {}", measured, exact);
        }
    }
}
