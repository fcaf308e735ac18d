//! Handing out blocks to workers, in file order.

use crate::models::plan::Block;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Page size, and the alignment of O_DIRECT reads.
pub(super) const PAGE: u64 = 4096;

/// Blocks of a read plan, each handed out once.
#[derive(Debug)]
pub(super) struct BlockQueue {
    blocks: Vec<Block>,
    next: AtomicUsize,
}

impl BlockQueue {
    pub(super) fn new(blocks: Vec<Block>) -> Self {
        Self { blocks, next: AtomicUsize::new(0) }
    }

    /// The next block.
    pub(super) fn take(&self) -> Option<Block> {
        self.blocks.get(self.next.fetch_add(1, Ordering::Relaxed)).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// The number of slots and their bytes for these blocks, of the `wanted` ones: not more slots than blocks, and
    /// not more bytes than the longest block (in complete pages), so that a setting made for a large model pins no
    /// gigabytes for a small one.
    pub(super) fn staging(&self, wanted: usize) -> (usize, usize) {
        let longest = self.blocks.iter().map(|block| block.bytes).max().unwrap_or(1).max(1);
        (wanted.clamp(1, self.len().max(1)), longest.next_multiple_of(PAGE) as usize)
    }
}
