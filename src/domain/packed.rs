//! Spans in little memory: what a state keeps of every lane, however long a race becomes.

use super::{Phase, Span, SpanBatch};
use std::sync::Arc;

/// Spans in the order in which they were appended, about ten bytes each. A copy shares them.
///
/// A span is written as its differences to the one before it: on one slot each begins where the last ended, and most are of the same tensor.
#[derive(Clone, Debug, Default)]
pub struct PackedSpans {
    /// A batch each; the first span of a batch stands alone.
    chunks: Vec<Arc<[u8]>>,
    len: usize,
}

const PHASE: u8 = 0x0f;
const SAME_SLOT: u8 = 0x10;
const SAME_TENSOR: u8 = 0x20;
const NO_BYTES: u8 = 0x40;
const SAME_OFFSET: u8 = 0x80;

/// What the next span is expected to be like.
struct Before {
    slot: u16,
    /// Index plus one; 0 for none.
    tensor: u64,
    start_ns: u64,
    end_ns: u64,
    offset: u64,
    /// Where the last bytes ended.
    bytes_end: u64,
}

impl Before {
    const NOTHING: Self = Self { slot: 0, tensor: 0, start_ns: 0, end_ns: 0, offset: 0, bytes_end: 0 };

    fn start_ns(&self, same_slot: bool) -> u64 {
        if same_slot { self.end_ns } else { self.start_ns }
    }

    fn after(&mut self, span: &Span, tensor: u64) {
        let bytes_end = if span.bytes > 0 { span.offset.wrapping_add(span.bytes) } else { self.bytes_end };
        let (start_ns, end_ns, offset) = (span.start_ns, span.end_ns, span.offset);
        *self = Self { slot: span.slot, tensor, start_ns, end_ns, offset, bytes_end };
    }
}

impl PackedSpans {
    /// Appends a batch. A span that ends before it begins is kept as one without length.
    pub fn push(&mut self, batch: &SpanBatch) {
        let mut chunk = Vec::with_capacity(batch.len().saturating_mul(12));
        let mut before = Before::NOTHING;
        let mut count = 0;
        for span in batch.iter() {
            let tensor = span.tensor.map_or(0, |t| u64::from(t) + 1);
            let (same_slot, same_tensor) = (span.slot == before.slot, tensor == before.tensor);
            let same_offset = span.offset == before.offset;
            let flag = |on: bool, bit: u8| if on { bit } else { 0 };
            chunk.push(
                (span.phase as u8 & PHASE)
                    | flag(same_slot, SAME_SLOT)
                    | flag(same_tensor, SAME_TENSOR)
                    | flag(span.bytes == 0, NO_BYTES)
                    | flag(same_offset, SAME_OFFSET),
            );
            if !same_slot {
                put(&mut chunk, u64::from(span.slot));
            }
            if !same_tensor {
                put_difference(&mut chunk, tensor, before.tensor);
            }
            put_difference(&mut chunk, span.start_ns, before.start_ns(same_slot));
            put(&mut chunk, span.duration_ns());
            if span.bytes > 0 {
                put(&mut chunk, span.bytes);
            }
            if !same_offset {
                put_difference(&mut chunk, span.offset, before.bytes_end);
            }
            before.after(&span, tensor);
            count += 1;
        }
        if count > 0 {
            self.chunks.push(chunk.into());
            self.len += count;
        }
    }

    /// The spans, in order.
    pub fn iter(&self) -> impl Iterator<Item = Span> + '_ {
        self.chunks.iter().flat_map(|chunk| {
            let mut rest: &[u8] = chunk;
            let mut before = Before::NOTHING;
            std::iter::from_fn(move || next(&mut rest, &mut before))
        })
    }

    /// All spans as they are.
    #[must_use]
    pub fn unpack(&self) -> Vec<Span> {
        let mut spans = Vec::with_capacity(self.len);
        spans.extend(self.iter());
        spans
    }

    /// Number of spans.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl From<&[Span]> for PackedSpans {
    fn from(spans: &[Span]) -> Self {
        let mut packed = Self::default();
        packed.push(&SpanBatch::pack(spans));
        packed
    }
}

fn next(rest: &mut &[u8], before: &mut Before) -> Option<Span> {
    let (head, tail) = rest.split_first()?;
    *rest = tail;
    let same_slot = head & SAME_SLOT != 0;
    let slot = if same_slot { before.slot } else { u16::try_from(take(rest)?).ok()? };
    let tensor = if head & SAME_TENSOR != 0 { before.tensor } else { take_difference(rest, before.tensor)? };
    let start_ns = take_difference(rest, before.start_ns(same_slot))?;
    let end_ns = start_ns.saturating_add(take(rest)?);
    let bytes = if head & NO_BYTES != 0 { 0 } else { take(rest)? };
    let offset = if head & SAME_OFFSET != 0 { before.offset } else { take_difference(rest, before.bytes_end)? };
    let phase = Phase::from_index(head & PHASE)?;
    let index = tensor.checked_sub(1).and_then(|t| u32::try_from(t).ok());
    let span = Span { slot, phase, tensor: index, start_ns, end_ns, bytes, offset };
    before.after(&span, tensor);
    Some(span)
}

/// Seven bits a byte, the lowest first; the top bit says that more follow.
fn put(chunk: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        chunk.push(number as u8 | 0x80);
        number >>= 7;
    }
    chunk.push(number as u8);
}

fn take(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// A difference with its sign in the lowest bit, so that small ones are short on both sides of zero.
fn put_difference(chunk: &mut Vec<u8>, number: u64, expected: u64) {
    let difference = number.wrapping_sub(expected) as i64;
    put(chunk, ((difference << 1) ^ (difference >> 63)) as u64);
}

fn take_difference(rest: &mut &[u8], expected: u64) -> Option<u64> {
    let folded = take(rest)?;
    let difference = (folded >> 1) ^ (folded & 1).wrapping_neg();
    Some(expected.wrapping_add(difference))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span() -> impl Strategy<Value = Span> {
        (
            any::<u16>(),
            0..12_u8,
            proptest::option::of(0..u32::MAX),
            any::<u64>(),
            any::<u64>(),
            any::<u64>(),
            any::<u64>(),
        )
            .prop_map(|(slot, phase, tensor, start_ns, length, bytes, offset)| Span {
                slot,
                phase: Phase::from_index(phase).unwrap(),
                tensor,
                start_ns,
                end_ns: start_ns.saturating_add(length),
                bytes,
                offset,
            })
    }

    proptest! {
        #[test]
        fn what_is_unpacked_is_what_was_packed(batches in proptest::collection::vec(proptest::collection::vec(span(), 0..40), 0..4)) {
            let mut packed = PackedSpans::default();
            for batch in &batches {
                packed.push(&SpanBatch::pack(batch));
            }
            let all: Vec<Span> = batches.concat();
            prop_assert_eq!(packed.len(), all.len());
            prop_assert_eq!(packed.unpack(), all);
        }
    }

    #[test]
    fn a_load_of_many_tensors_takes_less_than_twelve_bytes_a_span() {
        let mut spans = Vec::new();
        let (mut now, mut offset) = (0, 4096);
        for n in 0..1000_u32 {
            for (phase, ns, bytes) in [
                (Phase::RegisterHandle, 3_000, 0),
                (Phase::RegisterBuffer, 2_700_000, 0),
                (Phase::Transfer, 5_000_000, 41 << 20),
                (Phase::Deregister, 9_000, 0),
            ] {
                let (start_ns, tensor) = (now, Some(n));
                now += ns + u64::from(n % 7);
                spans.push(Span { slot: 0, phase, tensor, start_ns, end_ns: now, bytes, offset });
            }
            offset += 41 << 20;
        }
        let packed = PackedSpans::from(spans.as_slice());
        assert_eq!(packed.unpack(), spans);
        let packed_bytes: usize = packed.chunks.iter().map(|chunk| chunk.len()).sum();
        assert!(packed_bytes < 12 * spans.len(), "{packed_bytes} bytes for {}", spans.len());
    }
}
