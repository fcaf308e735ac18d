//! The run's clock and the recorders that write spans against it.

use crate::core::{Phase, Span};
use crate::models::plan::Block;
use std::time::Instant;

/// The zero of a run: context up, nothing pinned, no file open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    /// Starts the clock.
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since its start.
    pub(crate) fn now_ns(self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// Writes the spans of one slot. The buffer is allocated before bytes move; should it fill up, it grows, which costs an allocation and loses
/// nothing.
#[derive(Debug)]
pub(crate) struct Recorder {
    clock: Clock,
    slot: u16,
    spans: Vec<Span>,
}

impl Recorder {
    pub(crate) fn new(clock: Clock, slot: usize, capacity: usize) -> Self {
        Self { clock, slot: slot as u16, spans: Vec::with_capacity(capacity) }
    }

    /// Now, as the start of a span.
    pub(crate) fn now(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Ends a span that began at `start_ns`; returns its end, which is where the next one begins.
    pub(crate) fn end(&mut self, phase: Phase, start_ns: u64, of: What) -> u64 {
        let end_ns = self.clock.now_ns();
        self.put(phase, start_ns, end_ns, of);
        end_ns
    }

    /// Writes a span whose ends are known.
    pub(crate) fn put(&mut self, phase: Phase, start_ns: u64, end_ns: u64, of: What) {
        let span =
            Span { slot: self.slot, phase, tensor: of.tensor, start_ns, end_ns, bytes: of.bytes, offset: of.offset };
        self.spans.push(span);
    }

    /// Ends one stretch that began at `start_ns` and was for several blocks: a span for each, in proportion to its bytes. Returns the end.
    pub(crate) fn share(&mut self, phase: Phase, start_ns: u64, blocks: &[Block]) -> u64 {
        let end_ns = self.clock.now_ns();
        let total: u64 = blocks.iter().map(|block| block.bytes).sum();
        let (mut at, mut before) = (start_ns, 0);
        for block in blocks {
            before += block.bytes;
            let end = start_ns + (u128::from(end_ns - start_ns) * u128::from(before) / u128::from(total.max(1))) as u64;
            self.put(phase, at, end, What::block(block.image_offset, block.bytes));
            at = end;
        }
        end_ns
    }

    pub(crate) fn into_spans(self) -> Vec<Span> {
        self.spans
    }
}

/// Records spans of blocks one after another, as an engine's worker does, and returns their number; a benchmark
/// measures the overhead of recording with it.
#[doc(hidden)]
#[must_use]
pub fn record_spans(count: usize) -> usize {
    let mut rec = Recorder::new(Clock::start(), 0, count);
    let mut at = rec.now();
    for block in 0..count as u64 {
        at = rec.end(Phase::Transfer, at, What::block(block << 20, 1 << 20));
    }
    rec.into_spans().len()
}

/// The object of a span.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct What {
    pub(crate) tensor: Option<u32>,
    pub(crate) bytes: u64,
    pub(crate) offset: u64,
}

impl What {
    /// Set-up or waiting, for no tensor in particular.
    pub(crate) const SETUP: Self = Self { tensor: None, bytes: 0, offset: 0 };

    /// Bytes of the image, of all tensors in them.
    pub(crate) const fn block(offset: u64, bytes: u64) -> Self {
        Self { tensor: None, bytes, offset }
    }

    /// One tensor's work that moves no bytes.
    pub(crate) const fn tensor(index: usize) -> Self {
        Self { tensor: Some(index as u32), bytes: 0, offset: 0 }
    }

    /// One tensor's bytes.
    pub(crate) const fn tensor_bytes(index: usize, offset: u64, bytes: u64) -> Self {
        Self { tensor: Some(index as u32), bytes, offset }
    }
}
