//! Handing out blocks to workers, in file order.

use crate::weights::plan::Block;
use std::sync::atomic::{AtomicUsize, Ordering};

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
}
