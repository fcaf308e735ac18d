//! Concurrent writes: while they read, the same threads also store files of other tokens from separate memory, like
//! llm-d's thread pool. These transfers are reported separately. The figures of the run are those of the read.

use super::handles::HandleCache;
use super::layout::Layout;
use super::order::{KvOrder, LaneName, Method, Settings};
use super::params::KvSetting;
use super::prepare::{self, Registered};
use super::shared::{Fallbacks, Shared};
use super::store::{Limit, failed};
use super::transfer::Operation;
use super::verify;
use crate::core::{BesideWrites, KvSystem, LaneOrder};
use crate::device::{Device, DeviceMemory, Slot};
use crate::engines::cufile::CuFile;
use crate::engines::{Counters, EngineContext, LoadError};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};

/// Makes the written tokens different from the tokens that are read.
const OTHER_TOKENS: u64 = 0x6265_7369_6465;

/// The files and memory of the concurrent writes.
pub(super) struct Side {
    order: KvOrder,
    lane: LaneName,
    settings: Settings,
    layout: Layout,
    target: Arc<DeviceMemory>,
    registered: Registered,
    ram: Vec<Mutex<Slot>>,
    counters: Counters,
    files: usize,
}

/// The concurrent writes in the form that workers use.
pub(super) struct Beside<'a> {
    pub(super) shared: Shared<'a>,
    pub(super) units: Vec<Range<usize>>,
}

impl Side {
    /// The concurrent writes of a read; `None` if the read has none.
    pub(super) fn new(
        context: &EngineContext<'_>,
        order: &KvOrder,
        lane: &LaneName,
        settings: &Settings,
        method: Method,
    ) -> Result<Option<Self>, LoadError> {
        let percent = settings.get(KvSetting::WritePercent);
        if lane.write || order.kind != KvSystem::Llmd || percent == 0 {
            return Ok(None);
        }
        let order = KvOrder { seed: order.seed ^ OTHER_TOKENS, ..order.clone() };
        let lane = LaneName { write: true, ..lane.clone() };
        let layout = Layout::new(&order, settings, true).map_err(LoadError::CuFile)?;
        let files = (layout.files.len() as u64 * percent).div_ceil(100) as usize;
        for file in &layout.files {
            if file.path.exists() {
                std::fs::remove_file(&file.path).map_err(|e| failed("removing", &file.path, e))?;
            }
        }
        let target = Arc::new(DeviceMemory::allocate(context.device, layout.target_bytes)?);
        let registered = match context.cufile {
            Some(cufile) => {
                let on_gpu = context.device.is_gpu();
                prepare::register(cufile, order.kind, settings, &layout, &target, None, on_gpu, &mut Vec::new())?
            }
            None => Vec::new(),
        };
        let ram = prepare::contents(context, &order, &layout, &lane, method, &target)?;
        let settings = settings.clone();
        Ok(Some(Self { order, lane, settings, layout, target, registered, ram, counters: Counters::default(), files }))
    }

    /// A context for the writes that uses the clock of the read.
    pub(super) fn context<'a>(
        &'a self,
        lane_order: &'a LaneOrder,
        device: &'a Device,
        cufile: Option<&'a CuFile>,
        of: &EngineContext<'_>,
    ) -> EngineContext<'a> {
        let mut context = EngineContext::new(lane_order, device, cufile, &self.counters);
        context.clock = of.clock;
        context
    }

    /// The writes for the workers.
    pub(super) fn work<'a>(&'a self, context: &'a EngineContext<'a>, of: &Shared<'_>, handles: usize) -> Beside<'a> {
        let layout = &self.layout;
        let per_file = layout.tasks.len() / layout.files.len().max(1);
        let shared = Shared {
            context,
            order: &self.order,
            lane: &self.lane,
            settings: &self.settings,
            layout,
            method: of.method,
            without: of.without.clone(),
            target: &self.target,
            slab: None,
            slots: 1,
            registered: &self.registered,
            ram: &self.ram,
            headers: &[],
            handles: HandleCache::new(handles),
            handle_registrations: AtomicU64::new(0),
            fallbacks: Fallbacks::default(),
            left: layout.files.iter().map(|_| AtomicUsize::new(per_file)).collect(),
            limit: Limit::new(u64::MAX, layout.file_bytes()),
            tried: AtomicUsize::new(0),
            given_up: layout.files.iter().map(|_| AtomicBool::new(false)).collect(),
            lost_operations: AtomicU64::new(0),
            lost_bytes: AtomicU64::new(0),
        };
        let written =
            |unit: &&Range<usize>| layout.tasks.get(unit.start).is_some_and(|t| (t.file as usize) < self.files);
        Beside { shared, units: layout.units.iter().filter(written).cloned().collect() }
    }

    /// The result of the writes. `last_read_ns` is the time at which the last transfer of the read ended.
    pub(super) fn told(&self, operations: &[Operation], last_read_ns: u64) -> BesideWrites {
        BesideWrites {
            files: self.files as u64,
            operations: operations.len() as u64,
            bytes: self.counters.landed_bytes.load(std::sync::atomic::Ordering::Relaxed),
            before_last_read_operations: operations.iter().filter(|(_, _, end)| *end <= last_read_ns).count() as u64,
            ended_ns: operations.iter().map(|(_, _, end)| *end).max().unwrap_or(0),
            read_priority: self.settings.on(KvSetting::ReadPriority),
        }
    }

    /// Compares the stored bytes. Returns `Ok(None)` if all are correct.
    pub(super) fn compare(&self, beside: &Beside<'_>) -> Result<Option<String>, LoadError> {
        verify::compare(&beside.shared, &|index| index < self.files && !beside.shared.is_given_up(index))
    }

    /// Removes the files, because no later run needs them.
    pub(super) fn remove(&self) {
        for file in &self.layout.files {
            let _ = std::fs::remove_file(&file.path);
        }
    }
}
