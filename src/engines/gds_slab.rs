//! `gds-slab`: one slab for the whole image, large aligned reads in file order over threads, tensors are views into it. The per-tensor costs of
//! cuFile are paid once a block or once a load.

use super::blocks::BlockQueue;
use super::clock::{Recorder, What};
use super::context::{EngineContext, Loaded};
use super::error::LoadError;
use super::pread::PAGE;
use super::slab::{self, Opening, Slab};
use crate::domain::{Phase, units::MIB};
use std::collections::BTreeMap;

pub(super) fn load(context: &EngineContext<'_>) -> Result<Loaded, LoadError> {
    // Registration pays on a direct route only: in compat mode the library allocates shadow buffers of the same size and reads no faster.
    let register = context.knob("register", u64::from(direct_possible(context))) != 0;
    threaded(context, register)
}

pub(super) fn direct_possible(context: &EngineContext<'_>) -> bool {
    context.cufile.is_some_and(|cufile| cufile.direct_possible)
}

/// `cuFileRead` of blocks over threads, into registered memory or not.
pub(super) fn threaded(context: &EngineContext<'_>, register: bool) -> Result<Loaded, LoadError> {
    // On a direct route large blocks over many threads fill the device. In compat mode the library reads and copies in the calling thread: hot,
    // 8 threads with 4 MiB through the page cache gave 38 GB/s on an H200 (16 MiB over 16 threads with O_DIRECT: 2.7, the disk's rate).
    let direct = direct_possible(context);
    let block_bytes = context.knob("block_bytes", if direct { 16 * MIB } else { 4 * MIB });
    let block_bytes = block_bytes.clamp(PAGE, 1 << 30).next_multiple_of(PAGE);
    let queue = BlockQueue::new(context.blocks(block_bytes, PAGE));
    let threads = (context.knob("threads", context.cpus.clamp(1, if direct { 16 } else { 8 }) as u64).clamp(1, 256)
        as usize)
        .min(queue.len().max(1));
    let spans = 2 * queue.len() / threads + 64;
    let mut first = Recorder::new(context.clock, 0, spans);
    let opening = Opening { register, odirect: slab::wants_odirect(context), reads: queue.len() };
    let slab = Slab::open(context, &mut first, opening)?;
    let (first, others) = slab::run_threads(context, threads, first, spans, |_, rec| {
        while let Some(block) = queue.take() {
            if context.stopped() {
                return Err(LoadError::Stopped);
            }
            let at = rec.now();
            slab.read(&block, 0)?;
            context.landed(block.bytes);
            rec.end(Phase::Transfer, at, What::block(block.image_offset, block.bytes));
        }
        Ok(())
    })?;
    let knobs = BTreeMap::from([("threads".to_owned(), threads as u64), ("block_bytes".to_owned(), block_bytes)]);
    slab.close(first, others.into_iter(), threads, knobs)
}
