//! `gds-stream`: reads blocks with `cuFileReadAsync` on CUDA streams. Each thread has two streams and submits to one
//! while it waits for the other.
//!
//! In compat mode, the bytes also move when the stream executes the read: with libcufile 1.15 and one thread, the
//! submitting calls take 8 % of the time. With eight threads they take 45 %. This time is recorded as submit.

use super::blocks::BlockQueue;
use super::clock::{Recorder, What};
use super::context::{EngineContext, Loaded};
use super::cufile::CuFile;
use super::error::LoadError;
use super::slab::{self, Opening, Slab};
use crate::core::{Phase, Setting};
use crate::device::IoQueue;
use crate::models::plan::Block;
use cufile_ffi::{AsyncIo, Direction, Error, StreamIo, values};
use std::collections::VecDeque;
use std::sync::Arc;

/// The value of `stream_flags` that leaves streams unregistered. Other values are flags of `cuFileStreamRegister`.
pub(crate) const STREAM_UNREGISTERED: u64 = 16;

/// The number of streams per thread: the thread submits to one while the other is active.
const STREAMS: usize = 2;

pub(super) fn load(context: &EngineContext<'_>) -> Result<Loaded, LoadError> {
    let cufile = context.cufile.ok_or_else(|| LoadError::CuFile("cuFile is not open".to_owned()))?;
    let register = slab::wants_registration(context);
    let block_bytes = slab::block_setting(context);
    let piece_bytes = slab::region_setting(context);
    let queue = BlockQueue::new(slab::blocks(context, block_bytes.value, piece_bytes.value));
    // In compat mode, the calls of different threads wait for each other. Times on an H200 for hot loads with 2, 3,
    // 4, 6 and 8 threads (medians of three): 1.4 GiB in 143, 127, 127, 163 and 200 ms; 14.2 GiB in 939, 645, 659, –
    // and 721 ms.
    let thread_setting = slab::thread_setting(context, if context.direct_possible() { 8 } else { 4 }, queue.len());
    let threads = thread_setting.count();
    let depth_setting = context.setting(Setting::Depth, (2, "reads on a stream before it is waited for"));
    let depth = depth_setting.count();
    // All sizes and offsets are known at the submit. They are multiples of the page size, except the last length of a
    // file.
    let fixed = values::STREAM_FIXED_BUF_OFFSET | values::STREAM_FIXED_FILE_OFFSET | values::STREAM_FIXED_FILE_SIZE;
    let flag_setting =
        context.setting(Setting::StreamFlags, (u64::from(fixed), "sizes and offsets are known at the submit"));
    let flags = flag_setting.value;
    let spans = 4 * queue.len() / threads + 64;
    let mut first = Recorder::new(context.clock, 0, spans);
    let opening =
        Opening { register, piece_bytes, odirect: slab::wants_odirect(context), reads: (queue.len(), queue.bytes()) };
    let registers = opening.register.is_on();
    let slab = Slab::open(context, &mut first, opening)?;
    let (first, others) = slab::run_threads(context, threads, first, spans, |_, rec| {
        // All blocks may be read before the thread that checks the headers gets here.
        let Some(mut block) = queue.take() else { return Ok(()) };
        let at = rec.now();
        let mut streams = VecDeque::with_capacity(STREAMS);
        for _ in 0..STREAMS {
            let stream = Arc::new(IoQueue::new(context.device)?);
            let stream = stream_for(cufile, &stream, flags)
                .map_err(|e| unavailable(context, "registering a CUDA stream with cuFile", &e))?;
            streams.push_back((stream, Vec::new()));
        }
        rec.end(Phase::RegisterBuffer, at, What::SETUP);
        let mut worker = Worker { context, slab: &slab, streams };
        loop {
            if context.stopped() {
                return Err(LoadError::Stopped);
            }
            if worker.submit(block, rec)? == depth {
                worker.streams.rotate_left(1);
                worker.collect(rec)?;
            }
            let Some(next) = queue.take() else { break };
            block = next;
        }
        for _ in 0..STREAMS {
            worker.streams.rotate_left(1);
            worker.collect(rec)?;
        }
        let at = rec.now();
        drop(worker);
        rec.end(Phase::Deregister, at, What::SETUP);
        Ok(())
    })
    .map_err(|error| match error {
        // Seen with libcufile 1.15 on an H200 (2026-11-23) with regions of 16 and 64 MiB and with a single one.
        // lmcache-mp reads at offsets in its regions there without this error.
        LoadError::CuFile(words) if registers && !context.direct_possible() => LoadError::CuFile(format!(
            "{words}; in compat mode asynchronous reads into registered memory of a model failed: leave register at 0"
        )),
        other => other,
    })?;
    let settings = vec![thread_setting, block_bytes, depth_setting, flag_setting];
    slab.close(first, others.into_iter(), threads, settings)
}

/// Registers a CUDA stream with cuFile, using the flags in `stream_flags`.
pub(crate) fn stream_for(cufile: &CuFile, stream: &Arc<IoQueue>, flags: u64) -> Result<Arc<StreamIo<IoQueue>>, Error> {
    if flags == STREAM_UNREGISTERED {
        Ok(StreamIo::unregistered(&cufile.driver, stream))
    } else {
        StreamIo::register(&cufile.driver, stream, flags as u32)
    }
}

/// A block with its pending read, or the error of its submission.
type Pending = (Block, Result<AsyncIo<IoQueue>, Error>);

struct Worker<'a> {
    context: &'a EngineContext<'a>,
    slab: &'a Slab<'a>,
    /// The first stream is the one to which reads are submitted.
    streams: VecDeque<(Arc<StreamIo<IoQueue>>, Vec<Pending>)>,
}

impl Worker<'_> {
    /// Submits a read to the first stream. Returns the number of reads on it.
    fn submit(&mut self, block: Block, rec: &mut Recorder) -> Result<usize, LoadError> {
        let Some((stream, pending)) = self.streams.front_mut() else { return Err(LoadError::Stopped) };
        let at = rec.now();
        let (memory, offset) = self.slab.memory_of(&block)?;
        let io = stream.transfer(
            Direction::Read,
            self.slab.handle(&block),
            memory,
            offset,
            block.bytes as usize,
            block.file_offset,
        );
        if let Err(error @ Error::MissingSymbol { .. }) = &io {
            return Err(unavailable(self.context, "reading on a stream", error));
        }
        pending.push((block, io));
        // The time belongs to the tensors in the block. In compat mode with several threads, half of the time is
        // spent in this call (on an H200).
        rec.share(Phase::Submit, at, &[block]);
        Ok(pending.len())
    }

    /// Waits for the first stream and handles the results of its reads.
    fn collect(&mut self, rec: &mut Recorder) -> Result<(), LoadError> {
        let Some((_, pending)) = self.streams.front_mut() else { return Ok(()) };
        let pending = std::mem::take(pending);
        if pending.is_empty() {
            return Ok(());
        }
        let at = rec.now();
        let blocks: Vec<Block> = pending.iter().map(|(block, _)| *block).collect();
        for (block, io) in pending {
            self.slab.finish(&block, io.and_then(AsyncIo::wait))?;
        }
        rec.share(Phase::Transfer, at, &blocks);
        self.context.landed(blocks.iter().map(|block| block.bytes).sum());
        Ok(())
    }
}

fn unavailable(context: &EngineContext<'_>, doing: &str, error: &Error) -> LoadError {
    let hint =
        if context.device.is_gpu() { "" } else { "; reads on streams need a GPU, but the target is host memory" };
    LoadError::CuFile(format!("gds-stream is not available here: {doing} failed: {error}{hint}"))
}
