//! Host memory as the target of `pread` and `odirect`: each block is read directly to its final position. Staging
//! buffers are needed only for the copy engine of a GPU. With them, the CPU would copy every byte again, and the
//! measurement would include that copy.

use super::blocks::{BlockQueue, PAGE};
use super::clock::{Recorder, What};
use super::context::{EngineContext, Loaded};
use super::error::LoadError;
use super::files::{self, Opened};
use super::readers::{Made, Rings, ThreadSettings};
use super::settings::Chosen;
use super::slab::run_threads;
use crate::core::{Note, Phase, Setting, Unused};
use crate::device::{DeviceError, DeviceMemory, HostPart, ReadRing};
use crate::models::plan::Block;
use std::os::fd::AsFd;
use std::sync::Arc;

/// The settings of staging buffers, which are not used here.
const OF_STAGING: [Setting; 2] = [Setting::Slots, Setting::PinAhead];

/// Loads with threads, with buffered or `O_DIRECT` reads.
pub(super) fn by_threads(context: &EngineContext<'_>, mut settings: ThreadSettings) -> Result<Loaded, LoadError> {
    let queue = BlockQueue::new(context.blocks(settings.block_bytes.value, PAGE));
    settings.threads = settings.threads.at_most(queue.len() as u64 + 1, "one per read, and one for the headers");
    let used = vec![settings.threads.clone(), settings.block_bytes];
    load(context, queue, settings.threads.count(), settings.direct, used, |target, rec| {
        let mut at = rec.now();
        while let Some(block) = target.take()? {
            at = target.open(&block, rec, at)?;
            target.read(&block, &mut target.place(&block)?, 0)?;
            at = rec.end(Phase::Transfer, at, What::block(block.image_offset, block.bytes));
        }
        Ok(())
    })
}

/// Loads with `O_DIRECT` and a ring of `depth` reads per thread.
pub(super) fn by_rings(
    context: &EngineContext<'_>,
    mut rings: Rings,
) -> Result<Result<Loaded, DeviceError>, LoadError> {
    let queue = BlockQueue::new(context.blocks(rings.block_bytes.value, PAGE));
    let depth = rings.fit(queue.len() + 1, "one per read, and one for the headers");
    let made = match Made::make(context, rings.threads.count(), depth) {
        Ok(made) => made,
        Err(error) => return Ok(Err(error)),
    };
    let threads = rings.threads.count();
    let work = |target: &Target<'_>, rec: &mut Recorder| ring(target, made.take()?, depth, rec);
    let mut loaded = load(context, queue, threads, true, rings.into_settings(), work)?;
    loaded.spans.push(made.span);
    Ok(Ok(loaded))
}

/// The reads of one thread. Its ring is kept full.
fn ring(target: &Target<'_>, mut ring: ReadRing<HostPart>, depth: usize, rec: &mut Recorder) -> Result<(), LoadError> {
    let mut at = rec.now();
    let mut blocks: Vec<Block> = Vec::with_capacity(target.queue.len() / depth.max(1) + 64);
    let mut arrived: Vec<Block> = Vec::with_capacity(depth);
    loop {
        while ring.has_room() {
            let Some(block) = target.take()? else { break };
            at = target.open(&block, rec, at)?;
            let place = target.place(&block)?;
            let (length, tag) = (place.len(), blocks.len() as u64);
            let (file, _) = target.opened.get(block.shard as usize)?;
            ring.queue_read(file.as_fd(), place, length, block.file_offset, tag)?;
            blocks.push(block);
        }
        if ring.in_flight() == 0 {
            drop(ring);
            rec.end(Phase::Release, at, What::SETUP);
            return Ok(());
        }
        ring.submit(1)?;
        while let Some(mut read) = ring.completed() {
            let block = blocks[read.tag as usize];
            let path = &target.context.model().shards[block.shard as usize].path;
            let got = files::came(read.result, path, block.file_offset)?;
            // A short read inside the file is permitted but rare, so the rest is read synchronously.
            target.read(&block, &mut read.buffer, got)?;
            arrived.push(block);
        }
        // The time spent waiting for the device is the transfer time of the blocks that have arrived.
        at = rec.share(Phase::Transfer, at, &arrived);
        arrived.clear();
    }
}

/// The shared state of the threads of a load.
struct Target<'a> {
    context: &'a EngineContext<'a>,
    queue: BlockQueue,
    opened: Opened<'a>,
    memory: Arc<DeviceMemory>,
    /// Whether the lengths of reads are rounded up for `O_DIRECT`.
    direct: bool,
}

/// Allocates the target and runs `work` on all threads to fill it.
fn load(
    context: &EngineContext<'_>,
    queue: BlockQueue,
    threads: usize,
    direct: bool,
    settings: Vec<Chosen>,
    work: impl Fn(&Target<'_>, &mut Recorder) -> Result<(), LoadError> + Sync,
) -> Result<Loaded, LoadError> {
    let spans = 2 * queue.len() / threads + 64;
    let mut first = Recorder::new(context.clock, 0, spans);
    let at = first.now();
    let memory = context.allocate(context.image_bytes())?;
    first.end(Phase::Allocate, at, What::SETUP);
    let target = Target { context, queue, opened: Opened::new(context.model(), direct), memory, direct };
    let (first, others) = run_threads(context, threads, first, spans, |_, rec| work(&target, rec))?;
    let mut spans = first.into_spans();
    spans.extend(others.into_iter().flat_map(Recorder::into_spans));
    let ordered = OF_STAGING.into_iter().filter(|setting| context.order.settings.has(*setting));
    let idle: Vec<Setting> = ordered.collect();
    let unused = (!idle.is_empty()).then_some(Note::Unused { settings: idle, why: Unused::NoStaging });
    Ok(Loaded {
        repeated_reads: None,
        memory: target.memory,
        tensor_offsets: context.image_offsets(),
        spans,
        slots: threads as u32,
        settings,
        auto_choice: None,
        notes: unused.into_iter().collect(),
        route: None,
        staging: Vec::new(),
    })
}

impl Target<'_> {
    /// The next block. `None` if all blocks are taken. An error if another thread failed.
    fn take(&self) -> Result<Option<Block>, LoadError> {
        if self.context.stopped() { Err(LoadError::Stopped) } else { Ok(self.queue.take()) }
    }

    /// Opens the file of a block if no other thread has. `at` is the time on the caller's timeline. Returns the time
    /// after the open.
    fn open(&self, block: &Block, rec: &mut Recorder, at: u64) -> Result<u64, LoadError> {
        let before = rec.now();
        let (_, fresh) = self.opened.get(block.shard as usize)?;
        if !fresh {
            return Ok(at);
        }
        rec.put(Phase::Submit, at, before, What::SETUP);
        Ok(rec.end(Phase::Open, before, What::SETUP))
    }

    /// The target range of a block. With `O_DIRECT` it ends with the last page of the block, which has no other data.
    fn place(&self, block: &Block) -> Result<HostPart, LoadError> {
        let bytes = if self.direct { block.bytes.next_multiple_of(PAGE) } else { block.bytes };
        Ok(HostPart::new(&self.memory, block.image_offset, bytes as usize)?)
    }

    /// Reads the rest of a block after its first `done` bytes.
    fn read(&self, block: &Block, place: &mut HostPart, mut done: usize) -> Result<(), LoadError> {
        let shard = block.shard as usize;
        let path = &self.context.model().shards[shard].path;
        let (file, _) = self.opened.get(shard)?;
        while (done as u64) < block.bytes {
            match place.read(done, file.as_fd(), block.file_offset + done as u64) {
                Ok(0) => return Err(files::short(path, block.file_offset + done as u64, block.file_end())),
                Ok(got) => done += got,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if files::is_end(done, &error) => {
                    return Err(files::short(path, block.file_offset + done as u64, block.file_end()));
                }
                Err(source) => return Err(files::unread(path, block.file_offset + done as u64, source)),
            }
        }
        self.context.landed(block.bytes);
        Ok(())
    }
}
