//! Spans as small columns. Neighbouring spans of a slot nearly touch and neighbouring reads nearly follow each other, so gaps instead of times and
//! offsets leave mostly zeros, which compress to almost nothing.

use crate::domain::{LaneId, Phase, Span, SpanBatch};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The name of the event in a recording.
pub(super) const KIND: &str = "lane_spans_packed";

/// A `LaneSpans` event as a recording holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PackedSpans {
    /// Time of the event.
    pub(super) at_ns: u64,
    /// Always [`KIND`].
    pub(super) event: String,
    /// The lane.
    pub(super) lane: LaneId,
    /// Unit of `gap` and `duration`, in nanoseconds.
    resolution_ns: u64,
    /// Slot of each span.
    slot: Vec<u16>,
    /// Phase of each span, as its index.
    phase: Vec<u8>,
    /// Tensor index plus one (0 for none), as the difference to the span before.
    tensor_delta: Vec<i64>,
    /// From the end of the span before on the same slot to the start of this one (wrapping).
    gap: Vec<i64>,
    /// Duration.
    duration: Vec<u64>,
    /// Bytes.
    bytes: Vec<u64>,
    /// Where bytes moved: from the end of the bytes before to the start of these (wrapping); else the offset itself.
    offset_delta: Vec<i64>,
}

impl PackedSpans {
    /// Packs a batch. With `resolution_ns` of 1 nothing is lost; otherwise starts and ends are rounded down to multiples of it, which keeps
    /// spans of a slot apart.
    pub(super) fn pack(at_ns: u64, lane: LaneId, spans: &SpanBatch, resolution_ns: u64) -> Self {
        let unit = resolution_ns.max(1);
        let count = spans.len();
        let mut out = Self {
            at_ns,
            event: KIND.to_owned(),
            lane,
            resolution_ns: unit,
            slot: Vec::with_capacity(count),
            phase: Vec::with_capacity(count),
            tensor_delta: Vec::with_capacity(count),
            gap: Vec::with_capacity(count),
            duration: Vec::with_capacity(count),
            bytes: Vec::with_capacity(count),
            offset_delta: Vec::with_capacity(count),
        };
        let mut slot_end: HashMap<u16, u64> = HashMap::new();
        let (mut tensor_before, mut bytes_end) = (0_i64, 0_u64);
        for span in spans.iter() {
            let (start, end) = (span.start_ns / unit, span.end_ns / unit);
            let tensor = span.tensor.map_or(0, |t| i64::from(t) + 1);
            let last_end = slot_end.insert(span.slot, end).unwrap_or(0);
            out.slot.push(span.slot);
            out.phase.push(span.phase as u8);
            out.tensor_delta.push(tensor - tensor_before);
            out.gap.push(start.wrapping_sub(last_end) as i64);
            out.duration.push(end.saturating_sub(start));
            out.bytes.push(span.bytes);
            if span.bytes > 0 {
                out.offset_delta.push(span.offset.wrapping_sub(bytes_end) as i64);
                bytes_end = span.offset.wrapping_add(span.bytes);
            } else {
                out.offset_delta.push(span.offset as i64);
            }
            tensor_before = tensor;
        }
        out
    }

    /// The spans again. Columns of unequal length (a damaged file) end at the shortest; an unknown phase drops its span.
    pub(super) fn unpack(&self) -> SpanBatch {
        let unit = self.resolution_ns.max(1);
        let mut slot_end: HashMap<u16, u64> = HashMap::new();
        let (mut tensor, mut bytes_end) = (0_i64, 0_u64);
        let columns = self
            .slot
            .iter()
            .zip(&self.phase)
            .zip(&self.tensor_delta)
            .zip(&self.gap)
            .zip(&self.duration)
            .zip(&self.bytes)
            .zip(&self.offset_delta);
        let spans = columns.filter_map(|((((((slot, phase), tensor_delta), gap), duration), bytes), offset_delta)| {
            tensor = tensor.wrapping_add(*tensor_delta);
            let start = slot_end.get(slot).copied().unwrap_or(0).wrapping_add(*gap as u64);
            let end = start.saturating_add(*duration);
            slot_end.insert(*slot, end);
            let offset = if *bytes > 0 {
                let offset = bytes_end.wrapping_add(*offset_delta as u64);
                bytes_end = offset.wrapping_add(*bytes);
                offset
            } else {
                *offset_delta as u64
            };
            Some(Span {
                slot: *slot,
                phase: Phase::from_index(*phase)?,
                tensor: tensor.checked_sub(1).and_then(|t| u32::try_from(t).ok()),
                start_ns: start.saturating_mul(unit),
                end_ns: end.saturating_mul(unit),
                bytes: *bytes,
                offset,
            })
        });
        SpanBatch::of(self.slot.len(), spans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span() -> impl Strategy<Value = Span> {
        (
            0..9_u16,
            0..12_u8,
            proptest::option::of(0..u32::MAX - 1),
            any::<u32>(),
            any::<u32>(),
            prop_oneof![Just(0_u64), any::<u64>()],
            any::<u64>(),
        )
            .prop_map(|(slot, phase, tensor, start, length, bytes, offset)| Span {
                slot,
                phase: Phase::from_index(phase).unwrap_or(Phase::Idle),
                tensor,
                start_ns: u64::from(start),
                end_ns: u64::from(start) + u64::from(length),
                bytes,
                offset,
            })
    }

    proptest! {
        #[test]
        fn packing_at_full_resolution_loses_nothing(spans in proptest::collection::vec(span(), 0..100)) {
            let batch = SpanBatch::pack(&spans);
            prop_assert_eq!(PackedSpans::pack(7, LaneId(1), &batch, 1).unpack(), batch);
        }

        #[test]
        fn a_coarser_resolution_moves_no_edge_by_a_unit_or_more(spans in proptest::collection::vec(span(), 0..100)) {
            let coarse = PackedSpans::pack(7, LaneId(1), &SpanBatch::pack(&spans), 1000).unpack();
            prop_assert_eq!(coarse.len(), spans.len());
            for (before, after) in spans.iter().zip(coarse.iter()) {
                prop_assert!(before.start_ns - after.start_ns < 1000 && before.end_ns - after.end_ns < 1000);
                prop_assert_eq!((before.tensor, before.bytes, before.offset), (after.tensor, after.bytes, after.offset));
            }
        }
    }
}
