//! Spans: what a slot did from when to when. Engines write them into preallocated buffers and publish them in batches.

use super::phase::{Phase, PhaseTimes};
use serde::{Deserialize, Serialize};

/// One stretch of one phase on one slot. Times are nanoseconds since the run's clock started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The worker's timeline.
    pub slot: u16,
    /// What it did.
    pub phase: Phase,
    /// The tensor it was for, an index into the model's tensors; `None` for a block of several or for set-up.
    pub tensor: Option<u32>,
    /// Start.
    pub start_ns: u64,
    /// End, not before the start.
    pub end_ns: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Offset in the model's image (see [`super::ModelInfo::image_bases`]) at which those bytes begin; 0 where no bytes moved.
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
    /// Time by phase of all slots, averaged over the slots, with what no span covers as `idle`, so that everything adds up to `wall_ns`. Spans
    /// beyond the wall are cut at it.
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

/// Spans by column, which is small in files: columns of near-equal numbers compress well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanBatch {
    /// Slot of each span.
    pub slot: Vec<u16>,
    /// Phase of each span, as its index.
    pub phase: Vec<u8>,
    /// Tensor index plus one; 0 for none.
    pub tensor: Vec<u32>,
    /// Start of each span, as the difference to the start of the span before it (wrapping).
    pub start_delta_ns: Vec<i64>,
    /// Duration of each span.
    pub duration_ns: Vec<u64>,
    /// Bytes of each span.
    pub bytes: Vec<u64>,
    /// Offset of each span.
    pub offset: Vec<u64>,
}

impl SpanBatch {
    /// Packs spans.
    #[must_use]
    pub fn pack(spans: &[Span]) -> Self {
        Self::of(spans.len(), spans.iter().copied())
    }

    /// Packs about so many spans as they come, so that they need not all stand in memory unpacked first.
    #[must_use]
    pub fn of(count: usize, spans: impl Iterator<Item = Span>) -> Self {
        let mut batch = Self {
            slot: Vec::with_capacity(count),
            phase: Vec::with_capacity(count),
            tensor: Vec::with_capacity(count),
            start_delta_ns: Vec::with_capacity(count),
            duration_ns: Vec::with_capacity(count),
            bytes: Vec::with_capacity(count),
            offset: Vec::with_capacity(count),
        };
        let mut before = 0_u64;
        for span in spans {
            batch.slot.push(span.slot);
            batch.phase.push(span.phase as u8);
            batch.tensor.push(span.tensor.map_or(0, |t| t.saturating_add(1)));
            batch.start_delta_ns.push(span.start_ns.wrapping_sub(before) as i64);
            batch.duration_ns.push(span.duration_ns());
            batch.bytes.push(span.bytes);
            batch.offset.push(span.offset);
            before = span.start_ns;
        }
        batch
    }

    /// Unpacks the spans. Columns of unequal length (a damaged file) end at the shortest; an unknown phase drops its span.
    pub fn iter(&self) -> impl Iterator<Item = Span> + '_ {
        let mut start = 0_u64;
        let columns = self
            .slot
            .iter()
            .zip(&self.phase)
            .zip(&self.tensor)
            .zip(&self.start_delta_ns)
            .zip(&self.duration_ns)
            .zip(&self.bytes)
            .zip(&self.offset);
        columns.filter_map(move |((((((slot, phase), tensor), delta), duration), bytes), offset)| {
            start = start.wrapping_add(*delta as u64);
            Some(Span {
                slot: *slot,
                phase: Phase::from_index(*phase)?,
                tensor: tensor.checked_sub(1),
                start_ns: start,
                end_ns: start.saturating_add(*duration),
                bytes: *bytes,
                offset: *offset,
            })
        })
    }

    /// Number of spans.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slot.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slot.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span() -> impl Strategy<Value = Span> {
        (
            0..64_u16,
            0..12_u8,
            proptest::option::of(0..100_000_u32),
            any::<u32>(),
            any::<u32>(),
            any::<u32>(),
            any::<u32>(),
        )
            .prop_map(|(slot, phase, tensor, start, length, bytes, offset)| Span {
                slot,
                phase: Phase::from_index(phase).unwrap_or(Phase::Idle),
                tensor,
                start_ns: u64::from(start),
                end_ns: u64::from(start) + u64::from(length),
                bytes: u64::from(bytes),
                offset: u64::from(offset),
            })
    }

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
        let told: Vec<_> = times.iter().collect();
        assert_eq!(told, [(Phase::Open, 5), (Phase::Transfer, 50), (Phase::Copy, 15), (Phase::Idle, 30)]);
    }

    #[test]
    fn spans_are_cut_at_the_wall_and_idle_spans_count_once() {
        let spans = [of(0, Phase::Transfer, 50, 150), of(0, Phase::Release, 150, 200), of(0, Phase::Idle, 0, 50)];
        let told: Vec<_> = Span::phase_times(&spans, 100, 1).iter().collect();
        assert_eq!(told, [(Phase::Transfer, 50), (Phase::Idle, 50)]);
        // A run without spans or slots idles; none of it is lost.
        assert_eq!(Span::phase_times(&[], 7, 0).iter().collect::<Vec<_>>(), [(Phase::Idle, 7)]);
    }

    proptest! {
        #[test]
        fn packing_loses_nothing(spans in proptest::collection::vec(span(), 0..200)) {
            let back: Vec<Span> = SpanBatch::pack(&spans).iter().collect();
            prop_assert_eq!(back, spans);
        }

        #[test]
        fn phase_times_add_up_to_the_wall(
            lanes in proptest::collection::vec(proptest::collection::vec((0..11_u8, 0..5000_u64, 0..5000_u64), 0..30), 1..9),
            wall_ns in 0..300_000_u64,
        ) {
            // On a slot, gaps and spans follow one another; some reach beyond the wall.
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
            // Nothing is rounded up, and rounding down loses less than a nanosecond a phase to idling.
            let busy = |s: &Span| s.end_ns.min(wall_ns).saturating_sub(s.start_ns.min(wall_ns));
            let busy: u64 = spans.iter().map(busy).sum();
            let exact = busy / lanes.len() as u64;
            let told = times.total_ns() - times.get(Phase::Idle);
            prop_assert!(told <= exact && exact - told <= 11, "{} {}", told, exact);
        }
    }
}
