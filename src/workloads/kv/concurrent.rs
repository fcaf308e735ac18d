//! Concurrent writes: while they read, the same threads also store files of other tokens from separate memory, like
//! llm-d's thread pool. These transfers are reported separately. The figures of the run are those of the read.

use super::job::Job;
use super::order::{KvOrder, LaneName, Method};
use super::params::KvSetting;
use super::pipeline::Operation;
use super::prepare::{self, Registered};
use super::shared::Shared;
use super::store::failed;
use super::verify;
use crate::core::{ConcurrentWrites, KvSystem};
use crate::device::{DeviceMemory, Slot};
use crate::engines::{Counters, EngineContext, LoadError};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Makes the written tokens different from the tokens that are read.
const OTHER_TOKENS: u64 = 0x6265_7369_6465;

/// The files and memory of the concurrent writes.
pub(super) struct Side {
    job: Job,
    registered: Registered,
    target: Arc<DeviceMemory>,
    ram: Vec<Mutex<Slot>>,
    counters: Counters,
    files: usize,
}

/// The concurrent writes in the form that workers use.
pub(super) struct Concurrent<'a> {
    pub(super) shared: Shared<'a>,
    pub(super) units: Vec<Range<usize>>,
}

impl Side {
    /// The concurrent writes of a read; `None` if the read has none.
    pub(super) fn new(context: &EngineContext<'_>, of: &Job, method: Method) -> Result<Option<Self>, LoadError> {
        let Job { order, lane, settings, .. } = of;
        let percent = settings.get(KvSetting::WritePercent);
        if lane.write || order.kind != KvSystem::Llmd || percent == 0 {
            return Ok(None);
        }
        let order = KvOrder { seed: order.seed ^ OTHER_TOKENS, ..order.clone() };
        let lane = LaneName { write: true, ..lane.clone() };
        let job = Job::new(order, lane, settings.clone())?;
        let layout = &job.layout;
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
                prepare::register(cufile, &job, &target, None, on_gpu, &mut Vec::new())?
            }
            None => Vec::new(),
        };
        let ram = prepare::contents(context, &job, method, &target)?;
        Ok(Some(Self { job, registered, target, ram, counters: Counters::default(), files }))
    }

    /// A context for the writes that uses the clock of the read.
    pub(super) fn context<'a>(&'a self, of: &EngineContext<'a>) -> EngineContext<'a> {
        let mut context = EngineContext::new(of.order, of.device, of.cufile, &self.counters);
        context.clock = of.clock;
        context
    }

    /// The writes for the workers.
    pub(super) fn work<'a>(
        &'a self,
        context: &'a EngineContext<'a>,
        of: &Shared<'_>,
        handles: usize,
    ) -> Concurrent<'a> {
        let Self { job, target, registered, ram, .. } = self;
        let layout = &job.layout;
        let shared = Shared {
            without: of.without.clone(),
            ..Shared::new(context, job, of.method, target, registered, ram, handles)
        };
        let written =
            |unit: &&Range<usize>| layout.tasks.get(unit.start).is_some_and(|t| (t.file as usize) < self.files);
        Concurrent { shared, units: layout.units.iter().filter(written).cloned().collect() }
    }

    /// The result of the writes. `last_read_ns` is the time at which the last transfer of the read ended.
    pub(super) fn result_of(&self, operations: &[Operation], last_read_ns: u64) -> ConcurrentWrites {
        ConcurrentWrites {
            files: self.files as u64,
            operations: operations.len() as u64,
            bytes: self.counters.landed_bytes.load(std::sync::atomic::Ordering::Relaxed),
            before_last_read_operations: operations.iter().filter(|o| o.end_ns <= last_read_ns).count() as u64,
            ended_ns: operations.iter().map(|o| o.end_ns).max().unwrap_or(0),
            read_priority: self.job.settings.on(KvSetting::ReadPriority),
        }
    }

    /// Compares the stored bytes. Returns `Ok(None)` if all are correct.
    pub(super) fn compare(&self, concurrent: &Concurrent<'_>) -> Result<Option<String>, LoadError> {
        verify::compare(&concurrent.shared, &|index| index < self.files && !concurrent.shared.is_given_up(index))
    }

    /// Removes the files, because no later run needs them.
    pub(super) fn remove(&self) {
        for file in &self.job.layout.files {
            let _ = std::fs::remove_file(&file.path);
        }
    }
}
