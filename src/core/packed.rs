//! A compact encoding of spans in memory. The state keeps the spans of every run in it.

use super::span::Span;
use super::span_columns::{Coder, Difference, SpanColumns};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Spans in the order in which they were appended, about ten bytes each. Clones share the memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "SpanColumns", into = "SpanColumns")]
pub struct PackedSpans {
    /// The first span of a chunk does not depend on an earlier chunk.
    chunks: Vec<Arc<[u8]>>,
    len: usize,
}

const PHASE: u8 = 0x0f;
const SAME_SLOT: u8 = 0x10;
const SAME_TENSOR: u8 = 0x20;
const NO_BYTES: u8 = 0x40;
const SAME_OFFSET: u8 = 0x80;

/// Encodes or decodes one chunk. Numbers are stored in groups of seven bits. A number that equals that of the
/// previous span is left out.
struct Chunk {
    coder: Coder,
    slot: u16,
    offset: u64,
}

impl Chunk {
    fn new() -> Self {
        Self { coder: Coder::new(1), slot: 0, offset: 0 }
    }

    fn write(&mut self, out: &mut Vec<u8>, span: &Span) {
        // The difference of a span without bytes is its complete offset. If the offset is near the last moved bytes,
        // the distance to them is shorter.
        let bytes_end = self.coder.bytes_end;
        let difference = self.coder.encode(span);
        let (same_slot, same_offset) = (span.slot == self.slot, span.offset == self.offset);
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        out.push(
            (difference.phase & PHASE)
                | flag(same_slot, SAME_SLOT)
                | flag(difference.tensor == 0, SAME_TENSOR)
                | flag(difference.bytes == 0, NO_BYTES)
                | flag(same_offset, SAME_OFFSET),
        );
        if !same_slot {
            put(out, u64::from(span.slot));
        }
        if difference.tensor != 0 {
            put_signed(out, difference.tensor);
        }
        put_signed(out, difference.gap);
        put(out, difference.duration);
        if difference.bytes > 0 {
            put(out, difference.bytes);
        }
        if !same_offset {
            put_signed(out, span.offset.wrapping_sub(bytes_end) as i64);
        }
        (self.slot, self.offset) = (span.slot, span.offset);
    }

    fn read(&mut self, rest: &mut &[u8]) -> Option<Span> {
        let (head, tail) = rest.split_first()?;
        *rest = tail;
        let has = |bit: u8| head & bit != 0;
        let slot = if has(SAME_SLOT) { self.slot } else { u16::try_from(take(rest)?).ok()? };
        let tensor = if has(SAME_TENSOR) { 0 } else { take_signed(rest)? };
        let gap = take_signed(rest)?;
        let duration = take(rest)?;
        let bytes = if has(NO_BYTES) { 0 } else { take(rest)? };
        let bytes_end = self.coder.bytes_end;
        let offset = if has(SAME_OFFSET) { self.offset } else { bytes_end.wrapping_add(take_signed(rest)? as u64) };
        let from_bytes = if bytes > 0 { offset.wrapping_sub(bytes_end) } else { offset };
        (self.slot, self.offset) = (slot, offset);
        let phase = head & PHASE;
        self.coder.decode(&Difference { slot, phase, tensor, gap, duration, bytes, offset: from_bytes as i64 })
    }
}

impl PackedSpans {
    /// Packs spans. A span that ends before it starts gets length 0.
    #[must_use]
    pub fn pack(spans: &[Span]) -> Self {
        Self::of(spans.len(), spans.iter().copied())
    }

    fn of(about: usize, spans: impl Iterator<Item = Span>) -> Self {
        let mut bytes = Vec::with_capacity(about.saturating_mul(12));
        let mut chunk = Chunk::new();
        let mut len = 0;
        for span in spans {
            chunk.write(&mut bytes, &span);
            len += 1;
        }
        if len == 0 {
            return Self::default();
        }
        Self { chunks: vec![bytes.into()], len }
    }

    /// Appends spans. Both objects then share their memory.
    pub fn append(&mut self, more: &Self) {
        self.chunks.extend(more.chunks.iter().cloned());
        self.len += more.len;
    }

    /// The spans in order.
    pub fn iter(&self) -> impl Iterator<Item = Span> + '_ {
        self.chunks.iter().flat_map(|bytes| {
            let (mut rest, mut chunk): (&[u8], _) = (bytes, Chunk::new());
            std::iter::from_fn(move || chunk.read(&mut rest))
        })
    }

    /// The encoding for recordings and messages, with times rounded down to multiples of `resolution_ns`.
    #[must_use]
    pub fn columns(&self, resolution_ns: u64) -> SpanColumns {
        SpanColumns::of(self.iter(), self.len, resolution_ns)
    }

    /// All spans without rounding.
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

    /// Whether there are no spans.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl From<SpanColumns> for PackedSpans {
    fn from(columns: SpanColumns) -> Self {
        Self::of(columns.count(), columns.iter())
    }
}

impl From<PackedSpans> for SpanColumns {
    fn from(spans: PackedSpans) -> Self {
        spans.columns(1)
    }
}

/// Writes seven bits per byte, the lowest first. The top bit is set if more bytes follow.
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

/// Writes a signed number with the sign in the lowest bit, so that small negative numbers are short too.
fn put_signed(chunk: &mut Vec<u8>, number: i64) {
    put(chunk, ((number << 1) ^ (number >> 63)) as u64);
}

fn take_signed(rest: &mut &[u8]) -> Option<i64> {
    let folded = take(rest)?;
    Some(((folded >> 1) ^ (folded & 1).wrapping_neg()) as i64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::phase::Phase;
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
                packed.append(&PackedSpans::pack(batch));
            }
            let all: Vec<Span> = batches.concat();
            prop_assert_eq!(packed.len(), all.len());
            prop_assert_eq!(packed.unpack(), all.clone());
            prop_assert_eq!(PackedSpans::from(SpanColumns::from(packed)).unpack(), all);
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
        let packed = PackedSpans::pack(&spans);
        assert_eq!(packed.unpack(), spans);
        let packed_bytes: usize = packed.chunks.iter().map(|chunk| chunk.len()).sum();
        assert!(packed_bytes < 12 * spans.len(), "{packed_bytes} bytes for {}", spans.len());
    }
}
