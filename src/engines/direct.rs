//! `direct`: O_DIRECT reads of aligned blocks into pinned slots, by io_uring where the kernel allows it, else by threads; copies overlap. The
//! floor, cold, is the device's raw rate; the page cache is neither used nor filled.
//!
//! Several threads have a ring each, because a block device with several hardware queues gives each CPU its own: one thread that submits
//! everything reaches one queue.

use super::blocks::BlockQueue;
use super::clock::{Recorder, What};
use super::context::{EngineContext, Leftover, Loaded, SharedTarget, run_workers};
use super::error::LoadError;
use super::files::{self, Opened};
use super::host;
use super::pread::{self, CopyPipe, PAGE, Settings};
use crate::device::{CopyQueue, ReadRing, Slot, Staging};
use crate::domain::{Phase, Span, units::MIB};
use crate::weights::plan::Block;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsFd;

/// How a model is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    block_bytes: u64,
    threads: usize,
    /// Reads in flight, all threads together.
    depth: usize,
    /// Slots of staging memory that each thread has: at least its reads in flight.
    slots: usize,
}

impl Reading {
    /// By the disk's hardware queues, where they are known, the CPUs, and what was set.
    ///
    /// A virtual disk with one queue slows down with what is read into: 2.5 GB/s into 4 or 8 MiB, 2.2 into 8 as two slots of each thread, 1.9 into 16
    /// (medians of 4 to 95 reads of 512 MiB on an H200's disk), for less staging memory stays in the caches of whoever copies for it, we suppose. So
    /// a thread has one slot there, in which nothing is read while it is copied to the GPU, and there are a few threads more than the eight reads
    /// that the disk wants: whole loads gave 2.62 GB/s with 12 × 1 slots, 2.57 with 8 × 1, 2.51 with 8 × 2 and 2.49 with 16 × 1 (means of ten), and with
    /// blocks of 256 KiB 2.39. A real drive has a queue for each CPU and wants them fed.
    fn new(queues: Option<usize>, cpus: usize, knob: impl Fn(&str, u64) -> u64) -> Self {
        let one_queue = queues == Some(1);
        let (usual_block, usual_threads) = if one_queue { (MIB / 2, 12) } else { (MIB, 8) };
        let block_bytes = knob("block_bytes", usual_block).clamp(PAGE, 1 << 30).next_multiple_of(PAGE);
        let threads = knob("threads", cpus.clamp(1, usual_threads) as u64).clamp(1, 256);
        let depth = match queues {
            Some(1) => threads.max(12),
            Some(_) => threads * 8,
            None => threads.max(8),
        };
        let depth = knob("depth", depth).clamp(1, 4096);
        let threads = threads.min(depth);
        let each = depth.div_ceil(threads);
        // Every read in flight has a slot; a second one each lets a thread read while it copies.
        let slots = knob("slots", if one_queue { each } else { 2 * each }).clamp(each, 8192);
        Self { block_bytes, threads: threads as usize, depth: (threads * each) as usize, slots: slots as usize }
    }
}

pub(super) fn load(context: &EngineContext<'_>) -> Result<Loaded, LoadError> {
    let queues = context.model().shards.first().and_then(|shard| files::hardware_queues(&shard.path));
    let reading = Reading::new(queues, context.cpus, |name, usual| context.knob(name, usual));
    if context.knob("io_uring", 1) == 0 {
        return by_threads(context, reading, Vec::new());
    }
    match ReadRing::<Slot>::new(1) {
        Ok(_) if !context.device.is_gpu() => {
            host::by_rings(context, reading.block_bytes, reading.threads, reading.depth / reading.threads)
        }
        Ok(_) => by_rings(context, reading),
        Err(error) => {
            let note =
                format!("read by {} threads: {error}; containers often forbid io_uring by seccomp", reading.depth);
            by_threads(context, reading, vec![note])
        }
    }
}

/// A thread for each read in flight, with its share of the slots.
fn by_threads(context: &EngineContext<'_>, reading: Reading, notes: Vec<String>) -> Result<Loaded, LoadError> {
    let slots = reading.slots * reading.threads / reading.depth;
    let settings = Settings {
        direct: true,
        threads: reading.depth.min(256),
        slots,
        block_bytes: reading.block_bytes,
        pin_ahead: true,
    };
    let mut loaded = pread::threaded(context, &settings)?;
    loaded.notes.extend(notes);
    loaded.knobs.insert("io_uring".to_owned(), 0);
    Ok(loaded)
}

/// What the workers share.
struct Shared<'a> {
    queue: BlockQueue,
    opened: Opened<'a>,
    target: SharedTarget,
    /// Reads in flight of each worker.
    depth: usize,
    /// Slots of each worker.
    slots: usize,
}

fn by_rings(context: &EngineContext<'_>, reading: Reading) -> Result<Loaded, LoadError> {
    let Reading { block_bytes, slots, .. } = reading;
    let depth = reading.depth / reading.threads;
    let queue = BlockQueue::new(context.blocks(block_bytes, PAGE));
    let threads = reading.threads.min(queue.len().max(1));
    let opened = Opened::new(context.model(), true);
    let shared = Shared { queue, opened, target: SharedTarget::default(), depth, slots };
    let done = run_workers(context, threads, |number| {
        let done = worker(context, &shared, number, threads);
        if number == 0 && done.is_err() {
            // The others may still wait for what the first was to make.
            shared.target.set(None);
        }
        done
    })?;
    let (spans, staging): (Vec<Vec<Span>>, Vec<Leftover>) = done.into_iter().unzip();
    let memory = shared.target.wait().ok_or(LoadError::Stopped)?.clone();
    Ok(Loaded {
        memory,
        tensor_offsets: context.image_offsets(),
        spans: spans.into_iter().flatten().collect(),
        slots: threads as u32,
        knobs: BTreeMap::from([
            ("block_bytes".to_owned(), block_bytes),
            ("threads".to_owned(), threads as u64),
            ("depth".to_owned(), (threads * depth) as u64),
            ("slots".to_owned(), slots as u64),
            ("io_uring".to_owned(), 1),
        ]),
        notes: Vec::new(),
        route: None,
        staging,
    })
}

fn worker(
    context: &EngineContext<'_>,
    shared: &Shared<'_>,
    number: usize,
    threads: usize,
) -> Result<(Vec<Span>, Leftover), LoadError> {
    let model = context.model();
    let queue = &shared.queue;
    let mut rec = Recorder::new(context.clock, number, 4 * queue.len() / threads + 64);
    let mut at = rec.now();
    context.device.bind()?;
    let mut ring = ReadRing::new(shared.depth as u32)?;
    let (slots, slot_bytes) = queue.staging(shared.slots);
    let mut free = Staging::unpinned(context.device, slots, slot_bytes)?;
    // What is read into first is pinned first, for pages move to be pinned where the kernel keeps their place movable, and cannot under a read.
    context.counters.pin(Staging::pin(&mut free[slots.saturating_sub(shared.depth)..])? as u64);
    at = rec.end(Phase::RegisterBuffer, at, What::SETUP);
    let mut reads = Reads { waiting: Vec::with_capacity(queue.len() / threads + 64), opened: &shared.opened, queue };
    // The first reads are on their way while the rest is pinned, the target allocated and the headers are checked.
    reads.start(&mut ring, &mut free, &mut rec, &mut at)?;
    ring.submit(0)?;
    at = rec.end(Phase::Submit, at, What::SETUP);
    if number == 0 {
        shared.target.set(Some(context.allocate(context.image_bytes())?));
        at = rec.end(Phase::Allocate, at, What::SETUP);
    }
    let copies = CopyQueue::new(context.device)?;
    context.counters.pin(Staging::pin(&mut free)? as u64);
    rec.end(Phase::RegisterBuffer, at, What::SETUP);
    if number + 1 == threads {
        // The headers are checked while the first reads are on their way.
        at = rec.now();
        files::check_headers(context.order)?;
        rec.end(Phase::Open, at, What::SETUP);
    }
    let Some(memory) = shared.target.wait() else { return Err(LoadError::Stopped) };
    at = rec.now();
    let mut pipe = CopyPipe { context, in_flight: VecDeque::with_capacity(slots) };
    let mut filled: Vec<(Slot, Block)> = Vec::with_capacity(shared.depth);
    loop {
        if context.stopped() {
            return Err(LoadError::Stopped);
        }
        pipe.collect(&mut free)?;
        reads.start(&mut ring, &mut free, &mut rec, &mut at)?;
        if ring.in_flight() == 0 {
            match pipe.wait_oldest(&mut rec, Phase::Copy, &mut at)? {
                Some(slot) => free.push(slot),
                None => break,
            }
            continue;
        }
        ring.submit(1)?;
        while let Some(read) = ring.completed() {
            let block = reads.waiting[read.tag as usize];
            let path = &model.shards[block.shard as usize].path;
            let got = read.result.map_err(|source| files::unread(path, block.file_offset, source))?;
            let mut slot = read.buffer;
            if (got as u64) < block.bytes {
                // A short read inside the file: legal, and rare enough to finish it in place.
                let length = block.bytes.next_multiple_of(PAGE) as usize;
                let (file, _) = shared.opened.get(block.shard as usize)?;
                let buffer = &mut slot.bytes_mut()[..length];
                files::read_block(file, path, buffer, block.file_offset, block.bytes as usize)?;
            }
            filled.push((slot, block));
        }
        at = transfer_spans(&mut rec, at, &filled);
        // The device gets its next reads before the GPU its copies: starting one of these takes longer than handing over a read.
        pipe.collect(&mut free)?;
        reads.start(&mut ring, &mut free, &mut rec, &mut at)?;
        ring.submit(0)?;
        for (slot, block) in filled.drain(..) {
            pipe.start(&copies, slot, block, memory)?;
            at = rec.end(Phase::Submit, at, What::SETUP);
        }
    }
    copies.drain()?;
    at = rec.end(Phase::Sync, at, What::SETUP);
    drop(ring);
    rec.end(Phase::Release, at, What::SETUP);
    Ok((rec.into_spans(), Leftover { slots: free, copies }))
}

/// The wait for the device is the transfer of what has arrived: cut into a span for each block, in proportion of their bytes.
fn transfer_spans(rec: &mut Recorder, from: u64, filled: &[(Slot, Block)]) -> u64 {
    let total: u64 = filled.iter().map(|(_, block)| block.bytes).sum();
    if total == 0 {
        return rec.end(Phase::Transfer, from, What::SETUP);
    }
    let until = rec.now();
    let (mut at, mut before) = (from, 0);
    for (_, block) in filled {
        before += block.bytes;
        let end = from + (u128::from(until - from) * u128::from(before) / u128::from(total)) as u64;
        rec.put(Phase::Transfer, at, end, What::block(block.image_offset, block.bytes));
        at = end;
    }
    at
}

/// Starts reads while there is room, slots and blocks.
struct Reads<'a> {
    /// Blocks by tag.
    waiting: Vec<Block>,
    opened: &'a Opened<'a>,
    queue: &'a BlockQueue,
}

impl Reads<'_> {
    fn start(
        &mut self,
        ring: &mut ReadRing,
        free: &mut Vec<Slot>,
        rec: &mut Recorder,
        at: &mut u64,
    ) -> Result<(), LoadError> {
        while ring.has_room() && !free.is_empty() {
            let Some(block) = self.queue.take() else { break };
            let Some(slot) = free.pop() else { break };
            let tag = self.waiting.len() as u64;
            self.waiting.push(block);
            let length = block.bytes.next_multiple_of(PAGE) as usize;
            let before = rec.now();
            let (file, fresh) = self.opened.get(block.shard as usize)?;
            if fresh {
                rec.put(Phase::Submit, *at, before, What::SETUP);
                *at = rec.end(Phase::Open, before, What::SETUP);
            }
            ring.queue_read(file.as_fd(), slot, length, block.file_offset, tag)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_disk_with_one_queue_is_read_into_little_memory_and_a_drive_with_many_is_kept_busy() {
        type Set = &'static [(&'static str, u64)];
        // Bytes of a block, threads, reads in flight, slots of each thread.
        type Expected = (u64, usize, usize, usize);
        let cases: [(Option<usize>, usize, Set, Expected); 9] = [
            (Some(1), 16, &[], (MIB / 2, 12, 12, 1)),
            (Some(1), 2, &[], (MIB / 2, 2, 12, 6)),
            (Some(64), 16, &[], (MIB, 8, 64, 16)),
            (None, 16, &[], (MIB, 8, 8, 2)),
            (None, 2, &[], (MIB, 2, 8, 8)),
            (Some(1), 16, &[("slots", 2)], (MIB / 2, 12, 12, 2)),
            (Some(1), 16, &[("threads", 4), ("depth", 8), ("slots", 1)], (MIB / 2, 4, 8, 2)),
            (Some(64), 16, &[("depth", 3)], (MIB, 3, 3, 2)),
            (Some(64), 0, &[("block_bytes", 5000), ("threads", 0)], (8192, 1, 8, 16)),
        ];
        for (queues, cpus, set, (block_bytes, threads, depth, slots)) in cases {
            let set: BTreeMap<_, _> = set.iter().copied().collect();
            let reading = Reading::new(queues, cpus, |name, usual| set.get(name).copied().unwrap_or(usual));
            let expected = Reading { block_bytes, threads, depth, slots };
            assert_eq!(reading, expected, "{queues:?} queues, {cpus} CPUs, {set:?}");
        }
    }
}
