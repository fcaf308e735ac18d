//! The input and the result of every engine.

use super::blocks::PAGE;
use super::clock::Clock;
use super::error::LoadError;
use super::settings::Chosen;
use crate::core::{AutoChoice, LaneOrder, ModelInfo, Note, Route, RouteCounts, Setting, Span, TensorInfo, units};
use crate::device::{CopyQueue, Device, DeviceError, DeviceMemory, Slot};
use crate::models::plan::{self, Block};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Counters that the publisher thread samples. The engine updates them once per block.
#[derive(Debug, Default)]
pub struct Counters {
    /// The bytes on the target: tensors and the padding between them.
    pub landed_bytes: AtomicU64,
    /// The currently pinned memory in bytes.
    pub pinned_bytes: AtomicU64,
    /// The peak of pinned memory in bytes.
    pub pinned_peak_bytes: AtomicU64,
    /// The number of verified bytes.
    pub verified_bytes: AtomicU64,
    /// The peak of resident memory that is mapped files, in bytes.
    pub file_peak_bytes: AtomicU64,
}

impl Counters {
    /// Adds pinned memory to the counters.
    pub fn pin(&self, bytes: u64) {
        let now = self.pinned_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.pinned_peak_bytes.fetch_max(now, Ordering::Relaxed);
    }

    /// Records the resident memory that is mapped files. Call it while the files are mapped.
    pub fn sample_files(&self) {
        if let Some(bytes) = file_bytes() {
            self.file_peak_bytes.fetch_max(bytes, Ordering::Relaxed);
        }
    }
}

/// The resident memory of this process that is mapped files, in bytes.
fn file_bytes() -> Option<u64> {
    let status = procfs::process::Process::myself().and_then(|process| process.status()).ok()?;
    status.rssfile.map(|kib| kib * units::KIB)
}

/// The value that fills a target before a load, so that verification detects missing bytes.
pub(super) const POISON: u8 = 0xa5;

/// The input of an engine.
#[derive(Debug)]
pub struct EngineContext<'a> {
    /// The order of the run.
    pub order: &'a LaneOrder,
    /// The target device.
    pub device: &'a Device,
    /// The open cuFile driver. `None` for engines that do not use it.
    pub cufile: Option<&'a super::cufile::CuFile>,
    /// The NIXL library with its back end. `None` for other engines.
    pub nixl: Option<&'a super::nixl_library::Nixl>,
    pub(crate) clock: Clock,
    /// The counters for the publisher thread.
    pub counters: &'a Counters,
    /// The first thread that fails sets this, and the others stop.
    pub(super) stop: AtomicBool,
    /// The number of logical CPUs that this process can use.
    pub cpus: usize,
    /// The share of the model in the page cache before the clock, 0 to 1. `None` if it could not be read.
    pub resident_before: Option<f64>,
    /// The proven route of a test read before the clock, for `auto`. `None` if no route was proven.
    pub(super) proven_route: Option<Route>,
}

/// A model on its target.
#[derive(Debug)]
pub struct Loaded {
    /// The memory, in one allocation.
    pub memory: Arc<DeviceMemory>,
    /// The offset of each tensor in the memory, in the order of the model.
    pub tensor_offsets: Vec<u64>,
    /// The spans of all slots.
    pub spans: Vec<Span>,
    /// The number of slots.
    pub slots: u32,
    /// The settings that the engine used.
    pub settings: Vec<Chosen>,
    /// Notes for the result.
    pub notes: Vec<Note>,
    /// The number of cuFile reads that failed and were repeated with pread. `None` for engines that do not repeat
    /// reads.
    pub repeated_reads: Option<u64>,
    /// The engine that `auto` chose. `None` for other engines.
    pub auto_choice: Option<AutoChoice>,
    /// The reads by route. `None` for engines without cuFile.
    pub route: Option<RouteCounts>,
    /// Staging buffers and batches. They are released after the clock has stopped, because the bytes are already on
    /// the target.
    pub staging: Vec<Leftover>,
}

/// Resources of a worker that are kept until the clock has stopped. All their transfers have ended.
#[derive(Debug)]
pub enum Leftover {
    /// Pinned memory, and the queue of its copies.
    Pinned {
        /// The pinned slots.
        slots: Vec<Slot>,
        /// The queue of the copies.
        copies: CopyQueue,
    },
    /// A batch. `cuFileBatchIODestroy` took 90 to 200 ms in compat mode (libcufile 1.15 on an H200, 2026-11-23).
    /// Programs such as NIXL's plugin keep their batches.
    Batch(Mutex<cufile_ffi::Batch>),
}

impl Leftover {
    /// Releases all resources.
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
    /// A context for a run of another module. Its clock starts now.
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
    /// The model to load.
    #[must_use]
    pub fn model(&self) -> &ModelInfo {
        &self.order.model
    }

    /// The value of a setting: the user's value if it is set, otherwise `default` with its reason. Both are limited
    /// to the bounds of the engine.
    pub(super) fn setting(&self, setting: Setting, default: (u64, impl Into<String>)) -> Chosen {
        self.setting_within(setting, default, setting.bounds(&self.order.engine))
    }

    /// Like [`Self::setting`], within the given bounds.
    pub(super) fn setting_within(
        &self,
        setting: Setting,
        default: (u64, impl Into<String>),
        bounds: (u64, u64),
    ) -> Chosen {
        Chosen::ordered_or(setting, self.order.settings.get(setting), default, bounds)
    }

    /// The length of a read in complete pages.
    pub(super) fn block_setting(&self, default: (u64, impl Into<String>)) -> Chosen {
        let mut chosen = self.setting(Setting::BlockBytes, default);
        chosen.value = chosen.value.next_multiple_of(PAGE);
        chosen
    }

    /// Whether cuFile is open and a direct route is possible on this machine.
    pub(super) fn direct_possible(&self) -> bool {
        self.cufile.is_some_and(|cufile| cufile.direct_possible)
    }

    /// The reads of the data section in file order (see [`crate::models::coalesced`]), for this run's range of each
    /// file.
    #[must_use]
    pub fn blocks(&self, block_bytes: u64, align: u64) -> Vec<Block> {
        match self.order.ranges.as_slice() {
            [] => plan::coalesced(self.model(), block_bytes, align),
            ranges => plan::coalesced_in(self.model(), ranges, block_bytes, align),
        }
    }

    /// The size of the image in bytes: of the complete model, or of this run's part.
    #[must_use]
    pub fn image_bytes(&self) -> u64 {
        match self.order.ranges.as_slice() {
            [] => self.model().image_bytes(),
            ranges => plan::part_bases(ranges).last().copied().unwrap_or(0),
        }
    }

    /// The bytes of the files that this run reads.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        (0..self.model().shards.len())
            .map(|shard| self.range(shard))
            .fold(0, |sum, r| sum.saturating_add(r.end - r.start))
    }

    /// The range of a file that this run reads.
    #[must_use]
    pub fn range(&self, shard: usize) -> Range<u64> {
        let complete = || 0..self.model().shards.get(shard).map_or(0, |s| s.file_bytes);
        self.order.ranges.get(shard).map_or_else(complete, |range| range.start..range.end.max(range.start))
    }

    /// The offset of each tensor in the image.
    #[must_use]
    pub fn image_offsets(&self) -> Vec<u64> {
        match self.order.ranges.as_slice() {
            [] => image_offsets(self.model()),
            ranges => {
                let bases = plan::part_bases(ranges);
                let place = |t: &TensorInfo| {
                    let shard = t.shard as usize;
                    // A tensor without bytes is in every part, so its offset can be outside of the part's range.
                    let inside = ranges
                        .get(shard)
                        .map_or(t.file_offset, |range| t.file_offset.min(range.end).saturating_sub(range.start));
                    bases.get(shard).copied().unwrap_or(0) + inside
                };
                self.model().tensors.iter().map(place).collect()
            }
        }
    }

    /// Adds bytes that have reached the target.
    pub fn landed(&self, bytes: u64) {
        self.counters.landed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Allocates the target. It is filled with a pattern if the order requests it.
    ///
    /// # Errors
    /// If the device has too little memory.
    pub fn allocate(&self, bytes: u64) -> Result<Arc<DeviceMemory>, DeviceError> {
        let memory = DeviceMemory::allocate(self.device, bytes)?;
        if self.order.poison {
            memory.fill(POISON)?;
        }
        Ok(Arc::new(memory))
    }

    /// Whether another thread has failed.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The offset of each tensor if the target holds the complete image.
pub(super) fn image_offsets(model: &ModelInfo) -> Vec<u64> {
    let bases = model.image_bases();
    model.tensors.iter().map(|t| bases.get(t.shard as usize).copied().unwrap_or(0) + t.file_offset).collect()
}

/// The target memory. One worker allocates it while the others pin their staging buffers.
#[derive(Debug, Default)]
pub(super) struct SharedTarget(OnceLock<Option<Arc<DeviceMemory>>>);

impl SharedTarget {
    pub(super) fn set(&self, memory: Option<Arc<DeviceMemory>>) {
        let _ = self.0.set(memory);
    }

    /// Waits for the target memory. `None` if it could not be allocated.
    pub(super) fn wait(&self) -> Option<&Arc<DeviceMemory>> {
        self.0.wait().as_ref()
    }
}

/// Runs `work` on `threads` threads and returns all results in order. The calling thread is number 0. The first error
/// stops the other threads and is returned.
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
                    // If one thread fails, the load has failed, so the other threads need not finish.
                    .inspect_err(|_| context.stop.store(true, Ordering::Relaxed))
            })
            .collect();
        results.push(guarded(0));
        for other in others {
            match other {
                // A panic of a worker is propagated, so that the process ends with its message.
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
