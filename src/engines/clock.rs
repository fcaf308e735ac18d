//! The clock of a run, and the recorders that write spans relative to it.

use crate::core::{Phase, Span};
use crate::models::plan::Block;
use std::time::Instant;

/// The start time of a run: the CUDA context exists, no memory is pinned, and no file is open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    /// Starts the clock.
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// The nanoseconds since the start.
    pub(crate) fn now_ns(self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// Records the spans of one slot. Its buffer is allocated before the load. If it is too small it grows, so that no
/// span is lost.
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

    /// The current time, as the start of a span.
    pub(crate) fn now(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Ends a span that started at `start_ns`. Returns its end, which is the start of the next span.
    pub(crate) fn end(&mut self, phase: Phase, start_ns: u64, of: What) -> u64 {
        let end_ns = self.clock.now_ns();
        self.put(phase, start_ns, end_ns, of);
        end_ns
    }

    /// Records a span with a known start and end.
    pub(crate) fn put(&mut self, phase: Phase, start_ns: u64, end_ns: u64, of: What) {
        let span =
            Span { slot: self.slot, phase, tensor: of.tensor, start_ns, end_ns, bytes: of.bytes, offset: of.offset };
        self.spans.push(span);
    }

    /// Ends an interval that started at `start_ns` and served several blocks. Each block gets a span in proportion to
    /// its bytes. Returns the end.
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

/// Records spans of consecutive blocks, as a worker of an engine does, and returns their number. A benchmark uses it
/// to measure the overhead of recording.
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

/// The purpose of a span: a tensor, a block, or set-up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct What {
    pub(crate) tensor: Option<u32>,
    pub(crate) bytes: u64,
    pub(crate) offset: u64,
}

impl What {
    /// Set-up or waiting, for no specific tensor.
    pub(crate) const SETUP: Self = Self { tensor: None, bytes: 0, offset: 0 };

    /// A range of the image with the bytes of all tensors in it.
    pub(crate) const fn block(offset: u64, bytes: u64) -> Self {
        Self { tensor: None, bytes, offset }
    }

    /// Work for one tensor in which no byte moves.
    pub(crate) const fn tensor(index: usize) -> Self {
        Self { tensor: Some(index as u32), bytes: 0, offset: 0 }
    }

    /// A transfer of the bytes of one tensor.
    pub(crate) const fn tensor_bytes(index: usize, offset: u64, bytes: u64) -> Self {
        Self { tensor: Some(index as u32), bytes, offset }
    }
}
