//! `odirect`: `O_DIRECT` reads of aligned blocks into pinned slots, with io_uring if the kernel allows it and
//! otherwise with threads. Copies overlap with reads. The best possible time is that of the device. The page cache is
//! neither used nor filled.
//!
//! Each thread has its own ring. A block device with several hardware queues has one per CPU, so a single submitting
//! thread would use only one queue.

use super::blocks::{BlockQueue, PAGE};
use super::clock::{Recorder, What};
use super::context::{EngineContext, Leftover, Loaded, SharedTarget, run_workers};
use super::error::LoadError;
use super::files::{self, Opened};
use super::host;
use super::pread::{self, CopyPipe};
use super::readers::{Made, Rings, ThreadSettings};
use super::settings::Chosen;
use crate::core::{Note, Phase, Setting, Span, Unused, units::MIB};
use crate::device::{CopyQueue, DeviceError, ReadRing, Slot, Staging};
use crate::models::plan::Block;
use std::collections::VecDeque;
use std::os::fd::AsFd;

pub(super) fn load(context: &EngineContext<'_>) -> Result<Loaded, LoadError> {
    // A virtual disk with one queue is slower if the staging memory is larger: 2.5 GB/s with 4 or 8 MiB, 2.2 with 8
    // MiB as two slots per thread, 1.9 with 16 MiB (medians of 4 to 95 reads of 512 MiB on the disk of an H200
    // machine). A small staging memory probably stays in the caches of the host that copies for the disk. So each
    // thread has one slot, and there are a few threads more than the eight reads that the disk needs, because a
    // thread does not read while its slot is copied. Complete loads reached 2.62 GB/s with 12 × 1 slots, 2.57 with 8
    // × 1, 2.51 with 8 × 2, 2.49 with 16 × 1 (means of ten), and 2.39 with blocks of 256 KiB. A physical drive has
    // one queue per CPU and needs reads in each of them.
    let queues = context.model().shards.first().and_then(|shard| files::hardware_queues(&shard.path));
    let one_queue = queues == Some(1);
    let block_bytes = match queues {
        Some(1) => (MIB / 2, "the disk has one hardware queue"),
        Some(_) => (MIB, "the disk has several hardware queues"),
        None => (MIB, "the number of the disk's hardware queues is unknown"),
    };
    let block_bytes = context.block_setting(block_bytes);
    let most = if one_queue { 12 } else { 8 };
    let threads = (context.cpus.clamp(1, most) as u64, format!("one per CPU, at most {most}"));
    let mut threads = context.setting(Setting::Threads, threads);
    // The number of reads in flight of all threads.
    let depth = match queues {
        Some(queues @ 2..) => (threads.value * 8, format!("8 for each thread: the disk has {queues} hardware queues")),
        Some(_) => {
            (threads.value.max(12), "a disk with one hardware queue slows down with many more than 8".to_owned())
        }
        None => (
            threads.value.max(8),
            "8, or one per thread: the number of the disk's hardware queues is unknown".to_owned(),
        ),
    };
    let depth = context.setting(Setting::Depth, depth);
    threads = threads.at_most(depth.value, "one per read in flight");
    let each = depth.value.div_ceil(threads.value);
    let slots = match one_queue {
        true => (each, "one per read in flight: a disk with one hardware queue is slower with more memory"),
        false => (2 * each, "twice the reads in flight, so that copies never delay a read"),
    };
    let slots = context.setting_within(Setting::Slots, slots, (each, 8192));
    let io_uring = context.setting(Setting::IoUring, (1, "the kernel allows it"));
    let unused = |why| {
        let ordered = context.order.settings.get(Setting::Registered) == Some(1);
        ordered.then(|| Note::Unused { settings: vec![Setting::Registered], why })
    };
    if !io_uring.is_on() {
        let mut loaded = by_threads(context, block_bytes, threads, depth, slots, io_uring)?;
        loaded.notes.extend(unused(Unused::NeedsIoUring));
        return Ok(loaded);
    }
    let registered = match context.device.is_gpu() {
        true => context.setting(Setting::Registered, (1, "the kernel allows it")),
        false => Chosen::fixed(Setting::Registered, 0, "the reads go to the target itself, without staging"),
    };
    let rings = Rings {
        block_bytes: block_bytes.clone(),
        threads: threads.clone(),
        depth: depth.clone(),
        io_uring,
        registered,
    };
    let read = if context.device.is_gpu() {
        by_rings(context, rings, slots.clone())?
    } else {
        host::by_rings(context, rings)?
    };
    match read {
        Ok(mut loaded) => {
            loaded.notes.extend(unused(Unused::NoStaging).filter(|_| !context.device.is_gpu()));
            Ok(loaded)
        }
        Err(error) => {
            let refused = Chosen::fixed(Setting::IoUring, 0, format!("refused: {error}"));
            let mut loaded = by_threads(context, block_bytes, threads, depth, slots, refused)?;
            let threads = u64::from(loaded.slots);
            let (error, locked_memory) = (error.to_string(), is_locked_memory(&error));
            loaded.notes.push(Note::NoIoUring { threads, error, locked_memory });
            Ok(loaded)
        }
    }
}

/// Whether RLIMIT_MEMLOCK is too low for io_uring.
fn is_locked_memory(error: &DeviceError) -> bool {
    error.errno == Some(libc::ENOMEM)
}

/// Without io_uring, each read in flight needs a thread. So there are as many threads as the larger of `depth` and
/// `threads`.
fn by_threads(
    context: &EngineContext<'_>,
    block_bytes: Chosen,
    threads: Chosen,
    depth: Chosen,
    mut slots: Chosen,
    io_uring: Chosen,
) -> Result<Loaded, LoadError> {
    // A thread with one read in flight gets its share of the slots.
    slots.value /= depth.value.div_ceil(threads.value);
    let ordered = |setting| context.order.settings.has(setting);
    let threads = if ordered(Setting::Threads) && !ordered(Setting::Depth) {
        threads
    } else {
        let why = format!("without io_uring each read in flight needs a thread; depth: {}", depth.why);
        Chosen::fixed(Setting::Threads, depth.value.min(256), why)
    };
    let settings = ThreadSettings {
        direct: true,
        threads,
        slots,
        block_bytes,
        pin_ahead: Chosen::fixed(Setting::PinAhead, 1, "O_DIRECT reads into pages that do not move"),
    };
    let mut loaded = pread::threaded(context, settings)?;
    loaded.settings.push(Chosen::fixed(Setting::Depth, u64::from(loaded.slots), "one read per thread"));
    loaded.settings.push(io_uring);
    Ok(loaded)
}

/// The shared state of the workers.
struct Shared<'a> {
    queue: BlockQueue,
    opened: Opened<'a>,
    target: SharedTarget,
    /// The number of reads in flight per worker.
    depth: usize,
    /// The number of slots per worker.
    slots: usize,
    /// Whether the slots are registered with the kernel once, instead of mapped at each read.
    registered: bool,
    rings: Made<Slot>,
}

/// Loads with rings. The inner error means that rings are not available.
fn by_rings(
    context: &EngineContext<'_>,
    mut rings: Rings,
    slots: Chosen,
) -> Result<Result<Loaded, DeviceError>, LoadError> {
    let queue = BlockQueue::new(context.blocks(rings.block_bytes.value, PAGE));
    // A thread checks the headers while its own reads are in flight.
    let depth = rings.fit(queue.len().max(1), "one per read");
    let threads = rings.threads.count();
    let made = match Made::make(context, threads, depth) {
        Ok(made) => made,
        Err(error) => return Ok(Err(error)),
    };
    let shared = Shared {
        rings: made,
        queue,
        opened: Opened::new(context.model(), true),
        target: SharedTarget::default(),
        depth,
        slots: slots.count(),
        registered: rings.registered.is_on(),
    };
    let done = run_workers(context, threads, |number| {
        let done = worker(context, &shared, number, threads);
        if number == 0 && done.is_err() {
            // Other workers may still wait for the target, so they must be woken.
            shared.target.set(None);
        }
        done
    })?;
    let (mut spans, mut staging, mut notes) = (vec![shared.rings.span], Vec::new(), Vec::new());
    for done in done {
        spans.extend(done.spans);
        staging.push(done.leftover);
        if let Some(error) = done.refused.filter(|_| rings.registered.is_on()) {
            rings.registered = Chosen::fixed(Setting::Registered, 0, format!("refused: {error}"));
            let locked_memory = is_locked_memory(&error);
            notes.push(Note::StagingNotRegistered { error: error.to_string(), locked_memory });
        }
    }
    let memory = shared.target.wait().ok_or(LoadError::Stopped)?.clone();
    Ok(Ok(Loaded {
        repeated_reads: None,
        memory,
        tensor_offsets: context.image_offsets(),
        spans,
        slots: threads as u32,
        settings: rings.into_settings().into_iter().chain([slots]).collect(),
        auto_choice: None,
        notes,
        route: None,
        staging,
    }))
}

/// The result of a worker.
struct Done {
    spans: Vec<Span>,
    leftover: Leftover,
    /// The reason why its slots were not registered. `None` if they were.
    refused: Option<DeviceError>,
}

fn worker(context: &EngineContext<'_>, shared: &Shared<'_>, number: usize, threads: usize) -> Result<Done, LoadError> {
    let model = context.model();
    let queue = &shared.queue;
    let mut rec = Recorder::new(context.clock, number, 4 * queue.len() / threads + 64);
    let mut at = rec.now();
    context.device.bind()?;
    let mut ring = shared.rings.take()?;
    let (slots, slot_bytes) = queue.staging(shared.slots);
    let mut free = Staging::unpinned(context.device, slots, slot_bytes)?;
    // The kernel rejects registration if memory must not be locked. Reads work without it.
    let refused = if shared.registered { ring.register(&free).err() } else { None };
    // The slots of the first reads are pinned first. Pinning moves pages that the kernel keeps movable, and it cannot
    // move them during a read.
    context.counters.pin(Staging::pin(&mut free[slots.saturating_sub(shared.depth)..])? as u64);
    at = rec.end(Phase::RegisterBuffer, at, What::SETUP);
    let mut reads = Reads { waiting: Vec::with_capacity(queue.len() / threads + 64), opened: &shared.opened, queue };
    // During the first reads, the rest is pinned, the target is allocated, and the headers are checked.
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
        // The headers are checked during the first reads.
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
            let got = files::came(read.result, path, block.file_offset)?;
            let mut slot = read.buffer;
            if (got as u64) < block.bytes {
                // A short read inside the file is permitted but rare, so the rest is read synchronously.
                let length = block.bytes.next_multiple_of(PAGE) as usize;
                let (file, _) = shared.opened.get(block.shard as usize)?;
                let buffer = &mut slot.bytes_mut()[..length];
                files::read_block(file, path, buffer, block.file_offset, block.bytes as usize)?;
            }
            filled.push((slot, block));
        }
        at = transfer_spans(&mut rec, at, &filled);
        // The next reads are submitted before the copies, because starting a copy takes longer than submitting a
        // read.
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
    Ok(Done { spans: rec.into_spans(), leftover: Leftover::Pinned { slots: free, copies }, refused })
}

/// The time spent waiting for the device is the transfer time of the blocks that have arrived. Each block gets a span
/// in proportion to its bytes.
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

/// Starts reads while the ring has space and there are free slots and blocks.
struct Reads<'a> {
    /// The blocks by the tag of their read.
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
