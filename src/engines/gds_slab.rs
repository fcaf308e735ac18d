//! `gds-slab`: allocates one slab for the complete image and reads large aligned blocks in file order with several
//! threads. Tensors are views of the slab. The overhead of cuFile occurs once per block or once per load, not once
//! per tensor.

use super::blocks::BlockQueue;
use super::clock::{Recorder, What};
use super::context::{EngineContext, Loaded};
use super::error::LoadError;
use super::settings::Chosen;
use super::slab::{self, Opening, Slab};
use crate::core::Phase;

pub(super) fn load(context: &EngineContext<'_>) -> Result<Loaded, LoadError> {
    // Registration is useful only on a direct route. In compat mode the library allocates shadow buffers of the same
    // size and reads no faster.
    threaded(context, slab::wants_registration(context))
}

/// Reads blocks with `cuFileRead` on several threads, into registered or unregistered memory.
pub(super) fn threaded(context: &EngineContext<'_>, register: Chosen) -> Result<Loaded, LoadError> {
    // On a direct route, large blocks on many threads saturate the device. In compat mode, the library reads and
    // copies in the calling thread. On an H200, a hot load reached 38 GB/s with 8 threads and 4 MiB through the page
    // cache, and 2.7 GB/s (the rate of the disk) with 16 threads and 16 MiB with `O_DIRECT`.
    let block_bytes = slab::block_setting(context);
    let piece_bytes = slab::piece_setting(context);
    let queue = BlockQueue::new(slab::blocks(context, block_bytes.value, piece_bytes.value));
    let thread_setting = slab::thread_setting(context, if context.direct_possible() { 16 } else { 8 }, queue.len());
    let threads = thread_setting.count();
    let spans = 2 * queue.len() / threads + 64;
    let mut first = Recorder::new(context.clock, 0, spans);
    let opening =
        Opening { register, piece_bytes, odirect: slab::wants_odirect(context), reads: (queue.len(), queue.bytes()) };
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
    slab.close(first, others.into_iter(), threads, vec![thread_setting, block_bytes])
}
