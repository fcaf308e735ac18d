//! `gds-batch`: reads blocks with `cuFileBatchIOSubmit`, as NIXL's GDS plugin does. Each thread has its own batch. It
//! submits entries, waits for all of them in one call, and submits again.

use super::blocks::BlockQueue;
use super::clock::{Recorder, What};
use super::context::{EngineContext, Leftover, Loaded};
use super::error::{LoadError, explain};
use super::slab::{self, Opening, Slab};
use crate::core::{self, Note, Phase, Setting, Span};
use crate::models::plan::Block;
use cufile_ffi::{Batch, BatchEntry, Direction, Route};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The time limit of a batch. The slowest disk in use reads 512 MiB in a few seconds, so a longer batch is stuck.
const COLLECT_LIMIT: Duration = Duration::from_secs(60);

pub(super) fn load(context: &EngineContext<'_>) -> Result<Loaded, LoadError> {
    let cufile = context.cufile.ok_or_else(|| LoadError::CuFile("cuFile is not open".to_owned()))?;
    let register = slab::wants_registration(context);
    let block_bytes = slab::block_setting(context);
    let piece_bytes = slab::piece_setting(context);
    let queue = BlockQueue::new(slab::blocks(context, block_bytes.value, piece_bytes.value));
    // In compat mode, a submit makes its reads one after another in the calling thread (0.75 GB/s on an H200), so
    // more threads are faster.
    let threads = slab::thread_setting(context, if context.direct_possible() { 4 } else { 8 }, queue.len());
    let wanted = context.setting(Setting::Depth, (32, "the maximum of compat mode's buffer pool"));
    let spans = 4 * queue.len() + 64;
    let mut first = Recorder::new(context.clock, 0, spans);
    let opening =
        Opening { register, piece_bytes, odirect: slab::wants_odirect(context), reads: (queue.len(), queue.bytes()) };
    let slab = Slab::open(context, &mut first, opening)?;
    // In compat mode, all batches of the process share one buffer pool. Before the first read the route is unknown.
    let depth = Batch::limit_of(&cufile.driver, wanted.count(), Route::MaybeCompat).max(1);
    let thread_setting = threads.at_most(depth as u64, "one for each entry in flight");
    let threads = thread_setting.count();
    let entries = (depth / threads).max(1);
    let kept = Mutex::new(Vec::with_capacity(threads));
    let (first, others) = slab::run_threads(context, threads, first, spans / threads, |_, rec| {
        let take = || std::iter::from_fn(|| queue.take()).take(entries).collect::<Vec<Block>>();
        // All blocks may be read before the thread that checks the headers gets here.
        let mut blocks = take();
        if blocks.is_empty() {
            return Ok(());
        }
        let at = rec.now();
        let mut batch = Batch::new(&cufile.driver, entries, Route::MaybeCompat)
            .map_err(|e| explain("setting a cuFile batch up", &e))?;
        rec.end(Phase::Submit, at, What::SETUP);
        while !blocks.is_empty() {
            if context.stopped() {
                return Err(LoadError::Stopped);
            }
            round(context, &slab, &mut batch, &blocks, rec)?;
            blocks = take();
        }
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(Leftover::Batch(Mutex::new(batch)));
        Ok(())
    })?;
    let wanted_entries = wanted.count();
    let in_flight = wanted.at_most((entries * threads) as u64, "per thread, as many as the pool supports");
    let mut loaded = slab.close(first, others.into_iter(), threads, vec![thread_setting, block_bytes, in_flight])?;
    loaded.staging = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
    let compat = loaded.route.as_ref().is_some_and(|counts| counts.route == core::Route::Compat);
    if compat && moved_in_the_submit(&mut loaded.spans) {
        loaded.notes.push(Note::BatchMovesInSubmit);
    }
    if wanted_entries > depth {
        loaded.notes.push(Note::BatchLimited { entries: depth as u64, wanted: wanted_entries as u64 });
    }
    Ok(loaded)
}

/// Submits blocks and waits for them.
fn round(
    context: &EngineContext<'_>,
    slab: &Slab<'_>,
    batch: &mut Batch,
    blocks: &[Block],
    rec: &mut Recorder,
) -> Result<(), LoadError> {
    let entries = blocks
        .iter()
        .map(|block| {
            let (memory, memory_offset) = slab.memory(block);
            BatchEntry {
                direction: Direction::Read,
                handle: slab.handle(block).clone(),
                memory,
                memory_offset,
                len: block.bytes as usize,
                file_offset: block.file_offset,
            }
        })
        .collect();
    let mut at = rec.now();
    let submitted = batch.submit(entries);
    // The time of the submit belongs to the tensors in the blocks, because in compat mode their bytes move during the
    // submit.
    at = rec.share(Phase::Submit, at, blocks);
    match submitted {
        Ok(()) => {
            let results = batch.collect(COLLECT_LIMIT).map_err(|e| explain("collecting a cuFile batch", &e))?;
            for result in results {
                if let Some(block) = blocks.get(result.index) {
                    slab.finish(block, result.bytes)?;
                }
            }
        }
        Err(error) => {
            for block in blocks {
                slab.retry(block, 0, &error)?;
            }
        }
    }
    rec.share(Phase::Transfer, at, blocks);
    context.landed(blocks.iter().map(|block| block.bytes).sum());
    Ok(())
}

/// Records the submit as a transfer if the bytes moved in it. In compat mode, all blocks are read when the submit
/// returns (cuFile 1.15 to 1.20). Recorded as a submit, this time would count as overhead. The time after the submit
/// is then waiting. Only spans with bytes are changed.
fn moved_in_the_submit(spans: &mut [Span]) -> bool {
    let submits = |span: &Span| span.phase == Phase::Submit && span.bytes > 0;
    if !spans.iter().any(submits) {
        return false;
    }
    for span in spans.iter_mut().filter(|span| span.bytes > 0) {
        span.phase = match span.phase {
            Phase::Submit => Phase::Transfer,
            Phase::Transfer => Phase::Sync,
            other => other,
        };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submits_that_moved_bytes_are_transfers_and_what_follows_them_waits() {
        let span = |phase, bytes| Span { slot: 0, phase, tensor: None, start_ns: 0, end_ns: 5, bytes, offset: 0 };
        let mut spans =
            [span(Phase::Submit, 0), span(Phase::Submit, 4096), span(Phase::Transfer, 4096), span(Phase::Open, 0)];
        assert!(moved_in_the_submit(&mut spans));
        assert_eq!(spans.map(|s| s.phase), [Phase::Submit, Phase::Transfer, Phase::Sync, Phase::Open]);
        assert!(!moved_in_the_submit(&mut spans), "reads that wait are left as they are");
    }
}
