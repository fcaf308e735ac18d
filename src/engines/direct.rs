//! `direct`: O_DIRECT reads of large aligned blocks into pinned slots, by io_uring where the kernel allows it, else by threads; copies overlap.
//! The floor, cold, is the device's raw rate; the page cache is neither used nor filled.

use super::blocks::BlockQueue;
use super::clock::{Recorder, What};
use super::context::{EngineContext, Loaded, image_offsets};
use super::error::LoadError;
use super::files;
use super::pread::{self, CopyPipe, PAGE, Settings};
use crate::device::{CopyQueue, ReadRing, Staging};
use crate::domain::{Phase, units::MIB};
use crate::weights::plan::{self, Block};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsFd;

pub(super) fn load(context: &EngineContext<'_>) -> Result<Loaded, LoadError> {
    let block_bytes = context.knob("block_bytes", MIB).clamp(PAGE, 1 << 30).next_multiple_of(PAGE);
    // Small blocks and few in flight suit a virtual disk, and an NVMe drive reaches its rate at some tens of MiB in flight.
    let depth = context.knob("depth", 16).clamp(1, 1024) as u32;
    if context.knob("io_uring", 1) == 0 {
        return by_threads(context, block_bytes, depth, Vec::new());
    }
    match ReadRing::new(depth) {
        Ok(ring) => by_ring(context, ring, block_bytes, depth),
        Err(error) => {
            let note = format!("read by {depth} threads: {error}; containers often forbid io_uring by seccomp");
            by_threads(context, block_bytes, depth, vec![note])
        }
    }
}

fn by_threads(
    context: &EngineContext<'_>,
    block_bytes: u64,
    depth: u32,
    notes: Vec<String>,
) -> Result<Loaded, LoadError> {
    let settings = Settings { direct: true, threads: depth as usize, slots: 2, block_bytes };
    let mut loaded = pread::threaded(context, &settings)?;
    loaded.notes.extend(notes);
    loaded.knobs.insert("io_uring".to_owned(), 0);
    Ok(loaded)
}

fn by_ring(context: &EngineContext<'_>, mut ring: ReadRing, block_bytes: u64, depth: u32) -> Result<Loaded, LoadError> {
    let model = context.model();
    let queue = BlockQueue::new(plan::coalesced(model, block_bytes, PAGE));
    let mut rec = Recorder::new(context.clock, 0, 4 * queue.len() + 64);
    let mut at = rec.now();
    files::reopen_model(model)?;
    let opened = files::open_shards(model, true)?;
    at = rec.end(Phase::Open, at, What::SETUP);
    // As many slots again as reads in flight, so that copies never hold up a read.
    let (slots, slot_bytes) = queue.staging(2 * depth as usize);
    let mut free = Staging::slots(context.device, slots, slot_bytes)?;
    let pinned = if context.device.is_gpu() { (slots * slot_bytes) as u64 } else { 0 };
    context.counters.pin(pinned);
    let copies = CopyQueue::new(context.device)?;
    at = rec.end(Phase::RegisterBuffer, at, What::SETUP);
    let mut pipe = CopyPipe { context, in_flight: VecDeque::with_capacity(slots) };
    // The first reads are on their way while the target is allocated.
    let mut reads = Reads { waiting: Vec::new(), opened: &opened, queue: &queue };
    reads.start(&mut ring, &mut free)?;
    ring.submit(0)?;
    at = rec.end(Phase::Submit, at, What::SETUP);
    let memory = context.allocate(model.image_bytes())?;
    at = rec.end(Phase::Allocate, at, What::SETUP);
    loop {
        pipe.collect(&mut free)?;
        reads.start(&mut ring, &mut free)?;
        if ring.in_flight() == 0 {
            if pipe.wait_oldest(&mut rec, Phase::Copy, &mut at)?.map(|slot| free.push(slot)).is_some() {
                continue;
            }
            break;
        }
        ring.submit(1)?;
        let mut done = 0;
        let mut first = None;
        let mut filled = Vec::new();
        while let Some(read) = ring.completed() {
            let block = reads.waiting[read.tag as usize];
            let path = &model.shards[block.shard as usize].path;
            let got = read.result.map_err(|source| LoadError::File { doing: "reading", path: path.clone(), source })?;
            let mut slot = read.slot;
            if (got as u64) < block.bytes {
                // A short read inside the file: legal, and rare enough to finish it in place.
                let length = block.bytes.next_multiple_of(PAGE) as usize;
                files::read_block(
                    &opened[block.shard as usize],
                    path,
                    &mut slot.bytes_mut()[..length],
                    block.file_offset,
                    block.bytes as usize,
                )?;
            }
            done += block.bytes;
            first.get_or_insert(block.image_offset);
            filled.push((slot, block));
        }
        // The waiting is the device's: it counts as the transfer of what has arrived. Blocks complete nearly in order.
        at = match filled.as_slice() {
            [] => rec.end(Phase::Transfer, at, What::SETUP),
            [(_, one)] => rec.end(Phase::Transfer, at, What::block(one.image_offset, one.bytes)),
            several => transfer_spans(&mut rec, at, several.iter().map(|(_, block)| *block), done),
        };
        for (slot, block) in filled {
            pipe.start(&copies, slot, block, &memory)?;
            at = rec.end(pipe.start_phase(), at, pipe.start_what(block));
        }
    }
    copies.drain()?;
    at = rec.end(Phase::Sync, at, What::SETUP);
    drop((free, copies, ring, opened));
    context.counters.unpin(pinned);
    rec.end(Phase::Release, at, What::SETUP);
    Ok(Loaded {
        memory,
        tensor_offsets: image_offsets(model),
        spans: rec.into_spans(),
        slots: 1,
        knobs: BTreeMap::from([
            ("block_bytes".to_owned(), block_bytes),
            ("depth".to_owned(), u64::from(depth)),
            ("io_uring".to_owned(), 1),
        ]),
        notes: Vec::new(),
        route: None,
    })
}

/// Cuts one wait in which several blocks arrived into a span for each, in proportion of their bytes.
fn transfer_spans(rec: &mut Recorder, from: u64, blocks: impl Iterator<Item = Block>, total: u64) -> u64 {
    let until = rec.now();
    let mut at = from;
    let mut before = 0;
    for block in blocks {
        before += block.bytes;
        let end = from + ((until - from) as u128 * u128::from(before) / u128::from(total.max(1))) as u64;
        rec.put(Phase::Transfer, at, end, What::block(block.image_offset, block.bytes));
        at = end;
    }
    at
}

/// Starts reads while there is room, slots and blocks.
struct Reads<'a> {
    /// Blocks by tag.
    waiting: Vec<Block>,
    opened: &'a [std::fs::File],
    queue: &'a BlockQueue,
}

impl Reads<'_> {
    fn start(&mut self, ring: &mut ReadRing, free: &mut Vec<crate::device::Slot>) -> Result<(), LoadError> {
        while ring.has_room() && !free.is_empty() {
            let Some(block) = self.queue.take() else { break };
            let Some(slot) = free.pop() else { break };
            let tag = self.waiting.len() as u64;
            self.waiting.push(block);
            let length = block.bytes.next_multiple_of(PAGE) as usize;
            let file = self.opened[block.shard as usize].as_fd();
            ring.queue_read(file, slot, length, block.file_offset, tag)?;
        }
        Ok(())
    }
}
