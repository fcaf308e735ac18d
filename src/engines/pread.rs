//! `pread`: threads read blocks in file order through the page cache into their own pinned slots. Each thread copies
//! a block on its own queue while it reads the next one. The best possible hot time is the slower of page-cache
//! copies and pinned copies. The best possible cold time is the buffered rate of the device.

use super::blocks::{BlockQueue, PAGE};
use super::clock::{Recorder, What};
use super::context::{EngineContext, Leftover, Loaded, SharedTarget, run_workers};
use super::error::LoadError;
use super::files::{self, Opened};
use super::host;
use super::readers::ThreadSettings;
use crate::core::{Phase, Setting, Span, units::MIB};
use crate::device::{CopyQueue, DeviceMemory, InFlight, Slot, Staging};
use crate::models::plan::Block;
use std::collections::VecDeque;
use std::sync::Arc;

pub(super) fn load(context: &EngineContext<'_>) -> Result<Loaded, LoadError> {
    let bytes = context.file_bytes();
    let (threads, slots, block_bytes) = defaults(bytes, context.cpus);
    let (class, of_cpus) = match bytes {
        more if more > LARGE => ("a model over 4 GiB", "one per CPU, at most 12"),
        more if more > SMALL => ("a model of 512 MiB to 4 GiB", "one per CPU, at most 8"),
        _ => ("a model under 512 MiB", "one per 8 MiB, at least 2, at most 8 and one per CPU"),
    };
    let for_class = |value, what: &str| (value, format!("{what}, for {class}"));
    let settings = ThreadSettings {
        direct: false,
        pin_ahead: context.setting(Setting::PinAhead, (0, "pinning each slot after its first fill was faster")),
        threads: context.setting(Setting::Threads, for_class(threads, of_cpus)),
        slots: context.setting(Setting::Slots, for_class(slots, "so that reads continue during copies")),
        block_bytes: context.block_setting(for_class(block_bytes, "larger blocks take longer to pin than they save")),
    };
    threaded(context, settings)
}

/// Models above this size have large slots. The slots of smaller models shrink with the model.
const LARGE: u64 = 4 << 30;
const SMALL: u64 = 512 * MIB;

/// The number of threads, the slots per thread, and the bytes of a slot.
///
/// Measured on an H200 machine with 16 cores, first load of a process, hot: a 14 GiB model loads at 51 GB/s with 12
/// threads and 2 slots of 4 MiB (50 GB/s with 16 threads). A 1.4 GiB model loads at 40 GB/s with 8 threads and 3
/// slots of 2 MiB. Pinning is part of the measured time (about 12 GB/s), so more pinned memory would be slower for
/// this model. For smaller models, the pinned memory is an eighth to a quarter of the model, and there is a thread
/// for each 8 MiB, because starting a thread with its stream takes time. There are at least two threads: one checks
/// the headers while the other reads.
fn defaults(model_bytes: u64, cpus: usize) -> (u64, u64, u64) {
    let cpus = cpus.max(1) as u64;
    if model_bytes > LARGE {
        return (cpus.min(12), 2, 4 * MIB);
    }
    if model_bytes > SMALL {
        return (cpus.min(8), 3, 2 * MIB);
    }
    let threads = (model_bytes / (8 * MIB)).clamp(cpus.min(2), cpus.min(8));
    let block_bytes = (model_bytes / (8 * threads)).next_power_of_two().clamp(MIB / 8, 2 * MIB);
    (threads, 2, block_bytes)
}

/// The default threads, slots per thread and bytes of a slot, for a model of this size and this number of CPUs. Their
/// product is the pinned memory.
#[must_use]
pub fn pread_settings(model_bytes: u64, cpus: usize) -> (u64, u64, u64) {
    defaults(model_bytes, cpus)
}

/// Loads with threads, with buffered or `O_DIRECT` reads. For a target in host memory, the reads go directly to it.
pub(super) fn threaded(context: &EngineContext<'_>, mut settings: ThreadSettings) -> Result<Loaded, LoadError> {
    if !context.device.is_gpu() {
        return host::by_threads(context, settings);
    }
    let model = context.model();
    let queue = BlockQueue::new(context.blocks(settings.block_bytes.value, PAGE));
    settings.threads = settings.threads.at_most(queue.len() as u64 + 1, "one per read, and one for the headers");
    let threads = settings.threads.count();
    let target = SharedTarget::default();
    let opened = Opened::new(model, settings.direct);
    let results = run_workers(context, threads, |number| {
        let mut rec = Recorder::new(context.clock, number, 4 * queue.len() / threads + 64);
        if number == 0 {
            // The first worker allocates the target while the others pin and read. It must report every result,
            // because the others wait for it.
            let at = rec.now();
            let memory = context.device.bind().and_then(|()| context.allocate(context.image_bytes()));
            let mut error = None;
            target.set(memory.map_err(|e| error = Some(e)).ok());
            rec.end(Phase::Allocate, at, What::SETUP);
            if let Some(error) = error {
                return Err(error.into());
            }
        }
        if number + 1 == threads {
            // The last worker checks the headers while the others read. A single worker checks them first.
            let at = rec.now();
            files::check_headers(context.order)?;
            rec.end(Phase::Open, at, What::SETUP);
        }
        worker(context, &settings, &queue, &opened, &target, rec)
    })?;
    let memory = target.wait().ok_or(LoadError::Stopped)?.clone();
    let (spans, staging): (Vec<Vec<Span>>, Vec<Option<Leftover>>) = results.into_iter().unzip();
    Ok(Loaded {
        repeated_reads: None,
        memory,
        tensor_offsets: context.image_offsets(),
        spans: spans.into_iter().flatten().collect(),
        staging: staging.into_iter().flatten().collect(),
        slots: threads as u32,
        settings: vec![settings.threads, settings.slots, settings.block_bytes, settings.pin_ahead],
        auto_choice: None,
        notes: Vec::new(),
        route: None,
    })
}

fn worker(
    context: &EngineContext<'_>,
    settings: &ThreadSettings,
    queue: &BlockQueue,
    opened: &Opened<'_>,
    target: &SharedTarget,
    mut rec: Recorder,
) -> Result<(Vec<Span>, Option<Leftover>), LoadError> {
    // All blocks may be read before the thread that checked the headers gets here. It then needs neither memory nor a
    // queue.
    let Some(mut block) = queue.take() else { return Ok((rec.into_spans(), None)) };
    let model = context.model();
    let mut at = rec.now();
    context.device.bind()?;
    let (slots, slot_bytes) = queue.staging(settings.slots.count());
    let mut free = if settings.pin_ahead.is_on() {
        context.counters.pin((slots * slot_bytes) as u64);
        Staging::slots(context.device, slots, slot_bytes)?
    } else {
        Staging::unpinned(context.device, slots, slot_bytes)?
    };
    let copies = CopyQueue::new(context.device)?;
    rec.end(Phase::RegisterBuffer, at, What::SETUP);
    let mut pipe = CopyPipe { context, in_flight: VecDeque::with_capacity(slots) };
    at = rec.now();
    let mut memory = None;
    loop {
        if context.stopped() {
            return Err(LoadError::Stopped);
        }
        pipe.collect(&mut free)?;
        let mut slot = match free.pop() {
            Some(slot) => slot,
            None => pipe.wait_oldest(&mut rec, Phase::Copy, &mut at)?.ok_or(LoadError::Stopped)?,
        };
        let shard = block.shard as usize;
        let path = &model.shards[shard].path;
        let (file, fresh) = opened.get(shard)?;
        if fresh {
            at = rec.end(Phase::Open, at, What::SETUP);
        }
        let length = if settings.direct { block.bytes.next_multiple_of(PAGE) } else { block.bytes };
        files::read_block(
            file,
            path,
            &mut slot.bytes_mut()[..length as usize],
            block.file_offset,
            block.bytes as usize,
        )?;
        at = rec.end(Phase::Transfer, at, What::block(block.image_offset, block.bytes));
        let newly = slot.pin()? as u64;
        if newly > 0 {
            context.counters.pin(newly);
            at = rec.end(Phase::RegisterBuffer, at, What::SETUP);
        }
        // The first blocks are read and pinned while the target is allocated.
        let memory = match memory {
            Some(memory) => memory,
            None => {
                let made = target.wait().ok_or(LoadError::Stopped)?;
                memory = Some(made);
                at = rec.now();
                made
            }
        };
        pipe.start(&copies, slot, block, memory)?;
        at = rec.end(Phase::Submit, at, What::SETUP);
        let Some(next) = queue.take() else { break };
        block = next;
    }
    while let Some(slot) = pipe.wait_oldest(&mut rec, Phase::Sync, &mut at)? {
        free.push(slot);
    }
    copies.drain()?;
    rec.end(Phase::Sync, at, What::SETUP);
    Ok((rec.into_spans(), Some(Leftover::Pinned { slots: free, copies })))
}

/// The copies in flight of one worker, the oldest first.
pub(super) struct CopyPipe<'a> {
    pub(super) context: &'a EngineContext<'a>,
    pub(super) in_flight: VecDeque<(InFlight, Block)>,
}

impl CopyPipe<'_> {
    /// Starts the copy of a filled slot.
    pub(super) fn start(
        &mut self,
        copies: &CopyQueue,
        slot: Slot,
        block: Block,
        memory: &Arc<DeviceMemory>,
    ) -> Result<(), LoadError> {
        let in_flight = copies.copy(slot, 0, block.bytes as usize, memory, block.image_offset)?;
        self.in_flight.push_back((in_flight, block));
        Ok(())
    }

    /// Returns the slots whose copies have finished to the free list.
    pub(super) fn collect(&mut self, free: &mut Vec<Slot>) -> Result<(), LoadError> {
        while self.in_flight.front().is_some_and(|(copy, _)| copy.is_done()) {
            let Some((copy, block)) = self.in_flight.pop_front() else { break };
            free.push(copy.finish()?);
            self.context.landed(block.bytes);
        }
        Ok(())
    }

    /// Waits for the oldest copy and returns its slot. `None` if no copy is in flight.
    pub(super) fn wait_oldest(
        &mut self,
        rec: &mut Recorder,
        phase: Phase,
        at: &mut u64,
    ) -> Result<Option<Slot>, LoadError> {
        let Some((copy, block)) = self.in_flight.pop_front() else { return Ok(None) };
        let slot = copy.finish()?;
        self.context.landed(block.bytes);
        *at = rec.end(phase, *at, What::SETUP);
        Ok(Some(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_model_is_outweighed_by_what_is_pinned_for_it() {
        for model_bytes in [1, 4096, MIB, 9 * MIB, 60 * MIB, 300 * MIB, 513 * MIB, 1434 * MIB, 14 << 30, 400 << 30] {
            for cpus in [1, 2, 16, 256] {
                let (threads, slots, block_bytes) = defaults(model_bytes, cpus);
                let pinned = threads * slots * block_bytes;
                assert!(threads <= cpus as u64 && block_bytes % PAGE == 0);
                assert!(pinned <= (model_bytes / 2).max(MIB / 2), "{model_bytes} {cpus}: {pinned} pinned");
                assert!(pinned <= 128 * MIB);
            }
        }
    }
}
