//! The input and the result of every engine.

use super::blocks::PAGE;
use super::clock::Clock;
use super::error::LoadError;
use super::settings::Chosen;
use crate::core::{AutoChoice, LaneOrder, ModelInfo, Route, RouteCounts, Setting, Span, TensorInfo};
use crate::device::{CopyQueue, Device, DeviceError, DeviceMemory, Slot};
use crate::models::plan::{self, Block};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Counters that the publisher thread samples. The engine adds to them once a block.
#[derive(Debug, Default)]
pub struct Counters {
    /// Tensor bytes (and the padding between them) on the target.
    pub landed_bytes: AtomicU64,
    /// Pinned memory now.
    pub pinned_bytes: AtomicU64,
    /// Most pinned memory at once.
    pub pinned_peak_bytes: AtomicU64,
    /// Bytes compared.
    pub verified_bytes: AtomicU64,
}

impl Counters {
    /// Notes memory that was pinned.
    pub fn pin(&self, bytes: u64) {
        let now = self.pinned_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.pinned_peak_bytes.fetch_max(now, Ordering::Relaxed);
    }
}

/// The value with which a target is filled before a load, so that bytes which never arrive are seen.
pub(super) const POISON: u8 = 0xa5;

/// The input of an engine.
#[derive(Debug)]
pub struct EngineContext<'a> {
    /// The order of the run.
    pub order: &'a LaneOrder,
    /// The device.
    pub device: &'a Device,
    /// The open cuFile driver, for the engines that use it.
    pub cufile: Option<&'a super::cufile::CuFile>,
    /// NIXL with a back end, for the engines that are it.
    pub nixl: Option<&'a super::nixl_library::Nixl>,
    pub(crate) clock: Clock,
    /// Counters for the publisher.
    pub counters: &'a Counters,
    /// Raised by the first thread that fails.
    pub(super) stop: AtomicBool,
    /// Logical CPUs that this process may use.
    pub cpus: usize,
    /// Share of the model in the page cache before the clock, 0 to 1, where it could be read.
    pub resident_before: Option<f64>,
    /// Route of a read that was tried before the clock, for the engine that chooses among the others.
    pub(super) proven_route: Option<Route>,
}

/// A model on its target.
#[derive(Debug)]
pub struct Loaded {
    /// The memory, one allocation.
    pub memory: Arc<DeviceMemory>,
    /// Offset of each tensor in it, in the order of the model.
    pub tensor_offsets: Vec<u64>,
    /// The spans of each slot.
    pub spans: Vec<Span>,
    /// Number of slots.
    pub slots: u32,
    /// Settings used.
    pub settings: Vec<Chosen>,
    /// Notes for the result.
    pub notes: Vec<String>,
    /// cuFile reads that failed and were repeated by pread; `None` for engines that repeat none.
    pub repeated_reads: Option<u64>,
    /// The engine that `auto` chose.
    pub auto_choice: Option<AutoChoice>,
    /// Reads by route, for engines that use cuFile.
    pub route: Option<RouteCounts>,
    /// Staging buffers and batches that are released after the clock has stopped: the bytes are on the target, and
    /// releasing is not part of the load.
    pub staging: Vec<Leftover>,
}

/// What a worker keeps until the clock has stopped; all its transfers have ended.
#[derive(Debug)]
pub enum Leftover {
    /// Pinned memory, and the queue that its copies ran on.
    Pinned {
        /// The memory.
        slots: Vec<Slot>,
        /// The queue.
        copies: CopyQueue,
    },
    /// A batch. `cuFileBatchIODestroy` took 90 to 200 ms in compat mode (libcufile 1.15 on an H200, 2026-11-23), and programs keep their batches, as
    /// NIXL's plugin does.
    Batch(Mutex<cufile_ffi::Batch>),
}

impl Leftover {
    /// Gives everything back.
    pub(super) fn release(self) {
        match self {
            Self::Pinned { slots, copies } => {
                drop(slots);
                drop(copies);
            }
            Self::Batch(batch) => drop(batch),
        }
    }
}

impl<'a> EngineContext<'a> {
    /// A context for a run of another module with a clock that starts now.
    pub(crate) fn new(
        order: &'a LaneOrder,
        device: &'a Device,
        cufile: Option<&'a super::cufile::CuFile>,
        counters: &'a Counters,
    ) -> Self {
        Self {
            nixl: None,
            order,
            device,
            cufile,
            clock: Clock::start(),
            counters,
            stop: AtomicBool::new(false),
            cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            resident_before: None,
            proven_route: None,
        }
    }
}

impl EngineContext<'_> {
    /// The model of the order.
    #[must_use]
    pub fn model(&self) -> &ModelInfo {
        &self.order.model
    }

    /// A setting: as ordered, else `default` with its reason; within the bounds of the engine in any case.
    pub(super) fn setting(&self, setting: Setting, default: (u64, impl Into<String>)) -> Chosen {
        self.setting_within(setting, default, setting.bounds(&self.order.engine))
    }

    /// The same within other bounds.
    pub(super) fn setting_within(
        &self,
        setting: Setting,
        default: (u64, impl Into<String>),
        bounds: (u64, u64),
    ) -> Chosen {
        Chosen::ordered_or(setting, self.order.settings.get(setting), default, bounds)
    }

    /// The length of a read, in complete pages.
    pub(super) fn block_setting(&self, default: (u64, impl Into<String>)) -> Chosen {
        let mut chosen = self.setting(Setting::BlockBytes, default);
        chosen.value = chosen.value.next_multiple_of(PAGE);
        chosen
    }

    /// Whether cuFile is open and a direct route exists on this machine.
    pub(super) fn direct_possible(&self) -> bool {
        self.cufile.is_some_and(|cufile| cufile.direct_possible)
    }

    /// The reads of the data section in file order (see [`crate::models::coalesced`]), of this lane's part of each file.
    #[must_use]
    pub fn blocks(&self, block_bytes: u64, align: u64) -> Vec<Block> {
        match self.order.ranges.as_slice() {
            [] => plan::coalesced(self.model(), block_bytes, align),
            ranges => plan::coalesced_in(self.model(), ranges, block_bytes, align),
        }
    }

    /// Bytes of the image: the model's, or that of this lane's part.
    #[must_use]
    pub fn image_bytes(&self) -> u64 {
        match self.order.ranges.as_slice() {
            [] => self.model().image_bytes(),
            ranges => plan::part_bases(ranges).last().copied().unwrap_or(0),
        }
    }

    /// Bytes of the files that this lane reads.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        (0..self.model().shards.len())
            .map(|shard| self.range(shard))
            .fold(0, |sum, r| sum.saturating_add(r.end - r.start))
    }

    /// The range of a file that this lane reads.
    #[must_use]
    pub fn range(&self, shard: usize) -> Range<u64> {
        let whole = || 0..self.model().shards.get(shard).map_or(0, |s| s.file_bytes);
        self.order.ranges.get(shard).map_or_else(whole, |range| range.start..range.end.max(range.start))
    }

    /// Offsets of the tensors in that image.
    #[must_use]
    pub fn image_offsets(&self) -> Vec<u64> {
        match self.order.ranges.as_slice() {
            [] => image_offsets(self.model()),
            ranges => {
                let bases = plan::part_bases(ranges);
                let place = |t: &TensorInfo| {
                    let shard = t.shard as usize;
                    // Tensors without bytes are in every part, so they may lie before its range and behind it.
                    let inside = ranges
                        .get(shard)
                        .map_or(t.file_offset, |range| t.file_offset.min(range.end).saturating_sub(range.start));
                    bases.get(shard).copied().unwrap_or(0) + inside
                };
                self.model().tensors.iter().map(place).collect()
            }
        }
    }

    /// Adds landed bytes.
    pub fn landed(&self, bytes: u64) {
        self.counters.landed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Allocates the target, filled with a pattern if the order requests it.
    ///
    /// # Errors
    /// When the device has too little memory.
    pub fn allocate(&self, bytes: u64) -> Result<Arc<DeviceMemory>, DeviceError> {
        let memory = DeviceMemory::allocate(self.device, bytes)?;
        if self.order.poison {
            memory.fill(POISON)?;
        }
        Ok(Arc::new(memory))
    }

    /// Whether another thread failed.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Offsets of the tensors when the target holds the model's image.
pub(super) fn image_offsets(model: &ModelInfo) -> Vec<u64> {
    let bases = model.image_bases();
    model.tensors.iter().map(|t| bases.get(t.shard as usize).copied().unwrap_or(0) + t.file_offset).collect()
}

/// The target memory, made by one worker while the others pin their staging.
#[derive(Debug, Default)]
pub(super) struct SharedTarget(OnceLock<Option<Arc<DeviceMemory>>>);

impl SharedTarget {
    pub(super) fn set(&self, memory: Option<Arc<DeviceMemory>>) {
        let _ = self.0.set(memory);
    }

    /// Waits for it; `None` when it could not be made.
    pub(super) fn wait(&self) -> Option<&Arc<DeviceMemory>> {
        self.0.wait().as_ref()
    }
}

/// Runs `work` on `threads` threads, the caller's among them as number 0, and returns all results in order. The first error stops the others and
/// is the one returned.
pub(crate) fn run_workers<T: Send>(
    context: &EngineContext<'_>,
    threads: usize,
    work: impl Fn(usize) -> Result<T, LoadError> + Sync,
) -> Result<Vec<T>, LoadError> {
    let first_error: Mutex<Option<LoadError>> = Mutex::new(None);
    let guarded = |number: usize| match work(number) {
        Ok(value) => Some(value),
        Err(error) => {
            context.stop.store(true, Ordering::Relaxed);
            if !matches!(error, LoadError::Stopped) {
                first_error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
            None
        }
    };
    let mut results: Vec<Option<T>> = Vec::with_capacity(threads);
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|number| {
                let guarded = &guarded;
                std::thread::Builder::new()
                    .name(format!("worker-{number}"))
                    .spawn_scoped(scope, move || guarded(number))
                    // Without one of them the load is nothing, so the others need not finish it.
                    .inspect_err(|_| context.stop.store(true, Ordering::Relaxed))
            })
            .collect();
        results.push(guarded(0));
        for other in others {
            match other {
                // A panic of a worker is passed on, so that the process ends with its message.
                Ok(handle) => results.push(handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))),
                Err(error) => {
                    first_error
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .get_or_insert(LoadError::Threads { threads, source: error });
                }
            }
        }
    });
    if let Some(error) = first_error.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    results.into_iter().collect::<Option<Vec<T>>>().ok_or(LoadError::Stopped)
}
