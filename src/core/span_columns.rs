//! The packed encoding of spans: differences to earlier spans. Recordings and messages store the same numbers as
//! columns.
//!
//! The spans of a slot are nearly adjacent in time, and consecutive reads are nearly adjacent in the file. So most
//! differences are zero, and columns of zeros compress well.

use super::phase::Phase;
use super::span::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The number of slots that are stored in a list. A run has at most a few hundred threads.
const LISTED_SLOTS: usize = 512;

/// A span as differences to earlier spans.
#[derive(Clone, Copy, Debug)]
pub(super) struct Difference {
    pub(super) slot: u16,
    pub(super) phase: u8,
    /// The difference to the tensor index of the previous span. The index counts from one, and 0 means no tensor.
    pub(super) tensor: i64,
    /// The time from the end of the previous span on the same slot to the start of this one (wrapping).
    pub(super) gap: i64,
    pub(super) duration: u64,
    pub(super) bytes: u64,
    /// If bytes moved, the distance from the end of the last moved bytes (wrapping). Otherwise the offset.
    pub(super) offset: i64,
}

/// Converts spans to differences, or differences to spans, in order.
#[derive(Debug)]
pub(super) struct Coder {
    /// The unit of times in nanoseconds.
    unit: u64,
    /// The end of the last span on each of the first [`LISTED_SLOTS`] slots.
    slot_end: Vec<u64>,
    /// The end of the last span on higher slots. A list would need half a megabyte for a single span on slot 65535.
    high_slot_end: BTreeMap<u16, u64>,
    tensor: i64,
    /// The end of the last bytes that were moved.
    pub(super) bytes_end: u64,
}

impl Coder {
    pub(super) fn new(unit_ns: u64) -> Self {
        Self { unit: unit_ns.max(1), slot_end: Vec::new(), high_slot_end: BTreeMap::new(), tensor: 0, bytes_end: 0 }
    }

    fn slot_end(&mut self, slot: u16) -> &mut u64 {
        let number = slot;
        let slot = usize::from(slot);
        if slot >= LISTED_SLOTS {
            return self.high_slot_end.entry(number).or_default();
        }
        if slot >= self.slot_end.len() {
            self.slot_end.resize(slot + 1, 0);
        }
        &mut self.slot_end[slot]
    }

    /// Encodes a span. The start and the end are rounded down to the unit, so that spans on a slot do not overlap.
    pub(super) fn encode(&mut self, span: &Span) -> Difference {
        let start = span.start_ns / self.unit;
        let duration = (span.end_ns / self.unit).saturating_sub(start);
        let last_end = std::mem::replace(self.slot_end(span.slot), start.saturating_add(duration));
        let tensor = span.tensor.map_or(0, |t| i64::from(t) + 1);
        let offset = if span.bytes > 0 {
            let before = std::mem::replace(&mut self.bytes_end, span.offset.wrapping_add(span.bytes));
            span.offset.wrapping_sub(before)
        } else {
            span.offset
        };
        Difference {
            slot: span.slot,
            phase: span.phase as u8,
            tensor: tensor.wrapping_sub(std::mem::replace(&mut self.tensor, tensor)),
            gap: start.wrapping_sub(last_end) as i64,
            duration,
            bytes: span.bytes,
            offset: offset as i64,
        }
    }

    /// Decodes a span. `None` for an unknown phase.
    pub(super) fn decode(&mut self, difference: &Difference) -> Option<Span> {
        self.tensor = self.tensor.wrapping_add(difference.tensor);
        let slot_end = self.slot_end(difference.slot);
        let start = slot_end.wrapping_add(difference.gap as u64);
        let end = start.saturating_add(difference.duration);
        *slot_end = end;
        let mut offset = difference.offset as u64;
        if difference.bytes > 0 {
            offset = self.bytes_end.wrapping_add(offset);
            self.bytes_end = offset.wrapping_add(difference.bytes);
        }
        Some(Span {
            slot: difference.slot,
            phase: Phase::from_index(difference.phase)?,
            tensor: self.tensor.checked_sub(1).and_then(|t| u32::try_from(t).ok()),
            start_ns: start.saturating_mul(self.unit),
            end_ns: end.saturating_mul(self.unit),
            bytes: difference.bytes,
            offset,
        })
    }
}

/// Spans as columns. Recordings and messages store this form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanColumns {
    /// The unit of `gap` and `duration` in nanoseconds.
    resolution_ns: u64,
    slot: Vec<u16>,
    phase: Vec<u8>,
    tensor_delta: Vec<i64>,
    gap: Vec<i64>,
    duration: Vec<u64>,
    bytes: Vec<u64>,
    offset_delta: Vec<i64>,
}

impl SpanColumns {
    /// The columns of these spans. A `resolution_ns` of 1 keeps all times exactly. Otherwise starts and ends are
    /// rounded down to multiples of it.
    #[must_use]
    pub fn of(spans: impl Iterator<Item = Span>, count: usize, resolution_ns: u64) -> Self {
        let mut columns = Self {
            resolution_ns: resolution_ns.max(1),
            slot: Vec::with_capacity(count),
            phase: Vec::with_capacity(count),
            tensor_delta: Vec::with_capacity(count),
            gap: Vec::with_capacity(count),
            duration: Vec::with_capacity(count),
            bytes: Vec::with_capacity(count),
            offset_delta: Vec::with_capacity(count),
        };
        let mut coder = Coder::new(resolution_ns);
        for span in spans {
            let difference = coder.encode(&span);
            columns.slot.push(difference.slot);
            columns.phase.push(difference.phase);
            columns.tensor_delta.push(difference.tensor);
            columns.gap.push(difference.gap);
            columns.duration.push(difference.duration);
            columns.bytes.push(difference.bytes);
            columns.offset_delta.push(difference.offset);
        }
        columns
    }

    /// The number of spans.
    pub(super) fn count(&self) -> usize {
        self.slot.len()
    }

    /// The spans. If the columns of a damaged file have different lengths, the shortest one decides. Spans with an
    /// unknown phase are skipped.
    pub fn iter(&self) -> impl Iterator<Item = Span> + '_ {
        let mut coder = Coder::new(self.resolution_ns);
        let columns = self
            .slot
            .iter()
            .zip(&self.phase)
            .zip(&self.tensor_delta)
            .zip(&self.gap)
            .zip(&self.duration)
            .zip(&self.bytes)
            .zip(&self.offset_delta);
        columns.filter_map(move |((((((slot, phase), tensor), gap), duration), bytes), offset)| {
            coder.decode(&Difference {
                slot: *slot,
                phase: *phase,
                tensor: *tensor,
                gap: *gap,
                duration: *duration,
                bytes: *bytes,
                offset: *offset,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span() -> impl Strategy<Value = Span> {
        (
            prop_oneof![0..9_u16, any::<u16>()],
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

    fn through(spans: &[Span], resolution_ns: u64) -> Vec<Span> {
        SpanColumns::of(spans.iter().copied(), spans.len(), resolution_ns).iter().collect()
    }

    proptest! {
        #[test]
        fn columns_at_full_resolution_lose_nothing(spans in proptest::collection::vec(span(), 0..100)) {
            prop_assert_eq!(through(&spans, 1), spans);
        }

        #[test]
        fn a_coarser_resolution_moves_no_edge_by_a_unit_or_more(spans in proptest::collection::vec(span(), 0..100)) {
            let coarse = through(&spans, 1000);
            prop_assert_eq!(coarse.len(), spans.len());
            for (before, after) in spans.iter().zip(&coarse) {
                prop_assert!(before.start_ns - after.start_ns < 1000 && before.end_ns - after.end_ns < 1000);
                prop_assert_eq!((before.tensor, before.bytes, before.offset), (after.tensor, after.bytes, after.offset));
            }
        }
    }
}
