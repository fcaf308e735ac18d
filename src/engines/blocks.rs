//! Distributes the blocks of a read plan to workers, in file order.

use crate::models::plan::Block;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The page size, and the alignment of `O_DIRECT` reads.
pub(super) const PAGE: u64 = 4096;

/// The blocks of a read plan. Each is given to one worker.
#[derive(Debug)]
pub(super) struct BlockQueue {
    blocks: Vec<Block>,
    next: AtomicUsize,
}

impl BlockQueue {
    pub(super) fn new(blocks: Vec<Block>) -> Self {
        Self { blocks, next: AtomicUsize::new(0) }
    }

    /// The next block. `None` if all blocks have been taken.
    pub(super) fn take(&self) -> Option<Block> {
        self.blocks.get(self.next.fetch_add(1, Ordering::Relaxed)).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes of all blocks.
    pub(super) fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.bytes).sum()
    }

    /// The number of slots and their size in bytes, for at most `wanted` slots. There are not more slots than blocks,
    /// and a slot is not larger than the longest block in complete pages. So a setting for a large model does not pin
    /// gigabytes for a small model.
    pub(super) fn staging(&self, wanted: usize) -> (usize, usize) {
        let longest = self.blocks.iter().map(|block| block.bytes).max().unwrap_or(1).max(1);
        (wanted.clamp(1, self.len().max(1)), longest.next_multiple_of(PAGE) as usize)
    }
}
