//! The run process of a KV-cache workload: it reads its order, prepares the target and the contents, runs, verifies
//! and reports.

use super::cache;
use super::concurrent::{Concurrent, Side};
use super::flights;
use super::job::Job;
use super::layout::Layout;
use super::nixl_pool::{self, Pool};
use super::opening::tidy;
use super::order::{KvOrder, Method};
use super::outcome::{in_page_cache, mapped, measured, named, notes, within};
use super::params::KvSetting;
use super::prepare::{
    Registered, Without, contents, headers, open_cufile, prepare_files, register, staging, staging_bytes, threads,
};
use super::shared::Shared;
use super::store::{self, Limit};
use super::verify;
use super::work::{self, Done, Equipment};
use crate::core::{
    Access, Fallback, LaneOrder, LaneStage, LogLevel, Made, NixlPlugin, Note, RunResult, Span, WorkloadResult, units,
};
use crate::device::{Device, DeviceMemory};
use crate::engines::cufile::CuFile;
use crate::engines::nixl_library::{Nixl, if_bytes_differ};
use crate::engines::protocol::LaneMessage;
use crate::engines::{
    Counters, EngineContext, LoadError, Peaks, Sender, SetupParts, check_room, cpu_ns, lane_process, open_device,
    pinned_shortage, send_spans, verify_run, with_progress,
};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Runs one process. Returns its exit status, like [`crate::engines::run_lane`].
#[must_use]
pub fn run_lane() -> u8 {
    lane_process(fill)
}

/// A run whose device and library are open.
struct Ready<'o> {
    lane_order: &'o LaneOrder,
    job: Job,
    device: Device,
    cufile: Option<CuFile>,
    nixl: Option<Nixl>,
    /// The reason why cuFile is not used although it was requested.
    without: Without,
    /// The method, after cuFile was opened.
    method: Method,
    /// The number of files that the process may open.
    open_files: u64,
}

impl Ready<'_> {
    fn context<'a>(&'a self, counters: &'a Counters) -> EngineContext<'a> {
        EngineContext::new(self.lane_order, &self.device, self.cufile.as_ref(), counters)
    }
}

/// The memory of a run. Registrations end before the memory is freed.
struct Memory {
    registered: Registered,
    target: Arc<DeviceMemory>,
    slab: Option<Arc<DeviceMemory>>,
    /// The ranges of each worker in the slab.
    slots: u64,
    /// The concurrent writes, which have separate memory.
    side: Option<Side>,
}

/// Prepares the store. Before a write, the files of an earlier run are removed. Before a read, missing files are
/// written and the page cache is made cold or hot.
fn prepare_store(
    context: &EngineContext<'_>,
    job: &Job,
    method: Method,
    result: &mut RunResult,
) -> Result<(), LoadError> {
    let Job { order, lane, layout, .. } = job;
    if method == Method::Ram {
        return Ok(());
    }
    let stored = || layout.files.iter().map(|file| file.path.clone()).filter(|path| path.exists());
    if lane.write {
        // So the read after this write finds only files of this run.
        if layout.is_slab() {
            return store::make_slab(layout);
        }
        for path in stored() {
            store::remove(order.kind, &path)?;
        }
        return write_description(order, layout);
    }
    result.notes.extend(prepare_files(context, job)?);
    let mut paths: Vec<PathBuf> = stored().collect();
    paths.dedup();
    result.notes.extend(cache::prepare(&paths, context.order.cache));
    result.cache_resident_before_fraction = cache::resident_fraction(&paths);
    Ok(())
}

/// Writes the description file that llm-d and vLLM store next to a model's files.
fn write_description(order: &KvOrder, layout: &Layout) -> Result<(), LoadError> {
    let root = order.folder.join("data");
    let Some(mapper) = &layout.mapper else { return Ok(()) };
    mapper.write_config(&root).map_err(|e| store::failed("describing the run in", &root, e))
}

/// The size of the handle cache: the setting, or less if the process may not open that many files.
fn handle_limit(job: &Job, open_files: u64, notes: &mut Vec<Note>) -> usize {
    let Job { settings, layout, .. } = job;
    if layout.is_slab() {
        return 1;
    }
    let wanted = settings.get(KvSetting::HandleCache) as usize;
    let most = open_files.saturating_sub(256) as usize;
    if wanted <= most || layout.files.len() <= most {
        return wanted;
    }
    notes.push(Note::HandleCacheLimited { files: most as u64, open_files });
    most
}

/// Reads the order, and opens the device and cuFile.
fn set_up<'o>(
    lane_order: &'o LaneOrder,
    parts: &mut SetupParts,
    result: &mut RunResult,
) -> Result<Ready<'o>, LoadError> {
    let job = Job::of(lane_order)?;
    result.settings = job.settings.0.iter().map(|(setting, value)| (setting.name().into(), *value)).collect();
    let open_files = crate::engines::raise_open_files();
    let device = open_device(&lane_order.target)?;
    parts.end("context");
    let (cufile, without) = open_cufile(lane_order, &job)?;
    if let Some(cufile) = &cufile {
        parts.split("library", cufile.library_ns);
        parts.split("driver_open", cufile.driver_open_ns);
    }
    let nixl = nixl_pool::open_nixl(&job)?;
    if let Some(nixl) = &nixl {
        parts.split("nixl_library", nixl.library_ns);
        parts.split("nixl_agent", nixl.agent_ns);
        parts.split("nixl_backend", nixl.backend_ns);
    }
    let method = if job.lane.method == Method::Gds && cufile.is_none() { Method::Plain } else { job.lane.method };
    if let Some((reason, detail)) = &without {
        // If every lookup of a read misses, there is no transfer that could fall back.
        let (reason, detail, transfers) = (*reason, detail.clone(), job.layout.largest > 0);
        result.notes.push(Note::KvWithoutCufile { reason, detail, transfers });
    }
    Ok(Ready { lane_order, job, device, cufile, nixl, without, method, open_files })
}

/// Returns an error if this memory does not fit.
fn fits(device: &Device, needs: u64) -> Result<(), LoadError> {
    check_room(device, needs).map_err(|error| match error {
        LoadError::NoRoom { needs, free, .. } => {
            LoadError::NoRoom { needs, free, advice: "use fewer tokens or sequences, or another shape" }
        }
        other => other,
    })
}

/// Allocates the target and the memory of the workers, registers and pins it.
fn allocate(
    sender: &Sender,
    ready: &Ready<'_>,
    context: &EngineContext<'_>,
    parts: &mut SetupParts,
    notes: &mut Vec<Note>,
) -> Result<(Memory, Equipment), LoadError> {
    let Ready { job, device, method, .. } = ready;
    let Job { order, settings, layout, .. } = job;
    let nixl = matches!(method, Method::Nixl(_));
    let threads = if nixl { 1 } else { threads(order, settings, layout, context.cpus) };
    let slots = match () {
        () if nixl => nixl_pool::batch(job),
        () if settings.on(KvSetting::Async) => settings.get(KvSetting::AsyncDepth).max(1),
        () => 1,
    };
    // The plugin POSIX supports only host memory.
    let of_slab = if *method == Method::Nixl(NixlPlugin::Posix) { &Device::Host } else { device };
    let slab_bytes = if layout.scattered { threads as u64 * slots * layout.slab_step() } else { 0 };
    let ram_bytes = if *method == Method::Ram { layout.files.len() as u64 * layout.payload } else { 0 };
    let on_host = ram_bytes + if device.is_gpu() && !of_slab.is_gpu() { slab_bytes } else { 0 };
    let on_device = layout.target_bytes + if device.is_gpu() == of_slab.is_gpu() { slab_bytes } else { 0 };
    fits(device, on_device + if device.is_gpu() { 0 } else { on_host })?;
    if device.is_gpu() {
        fits(&Device::Host, on_host)?;
    }
    let target = Arc::new(DeviceMemory::allocate(device, layout.target_bytes)?);
    // In a serving engine, the paged cache is allocated and touched long before anything is loaded into it.
    target.fill(0xa5)?;
    let slab = layout.scattered.then(|| DeviceMemory::allocate(of_slab, slab_bytes).map(Arc::new)).transpose()?;
    if let Some(slab) = &slab {
        slab.fill(0)?;
    }
    parts.end("allocate");
    let registered = match context.cufile {
        Some(cufile) => register(cufile, job, &target, slab.as_ref(), device.is_gpu(), notes)?,
        None => Vec::new(),
    };
    parts.end("register_buffers");
    if context.cufile.is_some() && settings.get(KvSetting::Register) == 2 && !device.is_gpu() {
        notes.push(Note::RegisteredWithoutRdma);
    }
    // Concurrent writes have separate buffers, because a thread of llm-d has one for each direction.
    let side = Side::new(context, job, *method)?;
    let buffers = if side.is_some() { 2 * threads } else { threads };
    let pinned =
        staging_bytes(job, *method).filter(|_| device.is_gpu()).map(|bytes| bytes.saturating_mul(buffers as u64));
    if let Some(shortage) = pinned.and_then(pinned_shortage) {
        sender.say(LogLevel::Warn, format!("{}: {shortage}", job.lane));
    }
    let staging = staging(context, job, *method, buffers)?;
    parts.end("pin_staging");
    let lines = flights::lines(device, context.cufile, job, threads)?;
    if !lines.is_empty() {
        parts.end("streams");
    }
    Ok((Memory { registered, target, slab, slots, side }, Equipment { threads, staging, lines }))
}

/// The result of the measured part, and its wall time.
struct Measured {
    done: Done,
    wall_ns: u64,
}

/// Runs all transfers between two readings of the clock, and records their figures.
fn measure(
    sender: &Sender,
    shared: &Shared<'_>,
    concurrent: Option<&(&Side, Concurrent<'_>)>,
    (equipment, pool): (Equipment, Option<&Pool<'_>>),
    mut peaks: Peaks,
    result: &mut RunResult,
) -> Result<Measured, LoadError> {
    let context = shared.context;
    peaks.reset_host();
    let access = if shared.lane.write { Access::Write } else { Access::Read };
    let counts = |cufile: &CuFile| cufile.counts_of(access);
    let before = context.cufile.map(counts);
    let cpu_before = cpu_ns();
    sender.send(LaneMessage::Stage { stage: LaneStage::Loading });
    let done = with_progress(sender, context.counters, context.order, || {
        let done = match pool {
            Some(pool) => nixl_pool::run(shared, pool).inspect_err(|_| tidy(shared)),
            None => work::run(shared, concurrent.map(|(_, concurrent)| concurrent), equipment),
        };
        let wall_ns = context.clock.now_ns();
        done.map(|done| (done, wall_ns))
    });
    // Fallbacks before a failure are also part of the result.
    let fallbacks = shared.fallbacks.take();
    let (done, wall_ns) = match done {
        Ok(done) => done,
        Err(error) => {
            result.workload = Some(WorkloadResult { fallbacks, ..named(shared.order, shared.lane) });
            return Err(error);
        }
    };
    // The wall time ends when the last byte has landed. A read layer by layer computes its last layers after that.
    let landed_ns = done.operations.iter().map(|o| o.end_ns).max().unwrap_or(wall_ns);
    // A read with concurrent writes also ends when its last byte has landed.
    let wall_ns = if done.computing.is_empty() && concurrent.is_none() { wall_ns } else { landed_ns };
    let concurrent_writes = concurrent.map(|(side, _)| side.result_of(&done.concurrent, landed_ns));
    result.cpu_ns = Some(cpu_ns().saturating_sub(cpu_before));
    result.bytes = context.counters.landed_bytes.load(Ordering::Relaxed);
    result.wall_ns = wall_ns;
    result.bytes_per_s = units::bytes_per_s(result.bytes, wall_ns).unwrap_or(0.0);
    result.slots = done.slots;
    result.phases = Span::phase_times(&within(&done.spans, wall_ns), wall_ns, done.slots);
    peaks.record(context.device, context.counters, result);
    // If every transfer fell back, cuFile moved no bytes, so there is no route.
    let fell_back: u64 = fallbacks.iter().map(|fall| fall.operations).sum();
    let by_cufile = context.cufile.filter(|_| Fallback::staged(&fallbacks) < done.operations.len() as u64);
    let made = match (fell_back, shared.method) {
        (0, Method::Gds) => Made::at_least(done.operations.len() as u64, result.bytes),
        (0, _) => Made::at_least(1, result.bytes),
        // The bytes of transfers that fell back are not counted separately.
        _ => Made { transfers: 1..=u64::MAX, bytes: 1..=result.bytes, repeated: fell_back },
    };
    result.route = by_cufile.zip(before).map(|(cufile, before)| cufile.route(before, counts(cufile), &made));
    result.notes.extend(notes(shared, &done, concurrent_writes.as_ref(), &fallbacks, wall_ns));
    result.notes.extend(pool.map(Pool::note));
    let reached = |fault| fallbacks.iter().any(|fall| fall.provoked && fall.reason == fault);
    let missed = shared.order.provoke.filter(|fault| shared.lane.method == Method::Gds && !reached(*fault));
    result.notes.extend(missed.map(|fault| Note::FaultNotReached { fault }));
    let in_page_cache = in_page_cache(shared, result.route.as_ref(), &fallbacks);
    result.workload =
        Some(WorkloadResult { concurrent_writes, in_page_cache, ..measured(shared, &done, wall_ns, fallbacks) });
    Ok(Measured { done, wall_ns })
}

/// Fails if each file had a failed transfer, so that no file was stored or read.
fn every_file_given_up(shared: &Shared<'_>, done: &Done, result: &RunResult) -> Result<(), LoadError> {
    let found = |index: &usize| done.found.as_ref().is_none_or(|found| found.files.get(*index).is_some_and(|hit| *hit));
    let mut wanted = (0..shared.layout.files.len()).filter(found).peekable();
    if wanted.peek().is_none() || !wanted.all(|index| shared.is_given_up(index)) {
        return Ok(());
    }
    let first = result.workload.iter().flat_map(|w| &w.fallbacks).map(|fallback| fallback.detail.as_str()).next();
    let effect = if shared.lane.write { "stored" } else { "read" };
    Err(LoadError::CuFile(format!(
        "each file had a failed transfer, so none was {effect}; the first: {}",
        first.unwrap_or("unknown")
    )))
}

/// Compares the transferred bytes, and also the files of concurrent writes.
fn verify(
    sender: &Sender,
    shared: &Shared<'_>,
    concurrent: Option<&(&Side, Concurrent<'_>)>,
    done: &Done,
    result: &mut RunResult,
) -> Result<(), LoadError> {
    let counts = |index: usize| match (&done.found, shared.lane.write && shared.method != Method::Ram) {
        (Some(found), _) => found.files.get(index).is_some_and(|hit| *hit) && !shared.is_given_up(index),
        (None, true) => shared.layout.files.get(index).is_some_and(|file| file.path.exists()),
        (None, false) => true,
    };
    verify_run(sender, shared.context.counters, shared.context.order, result, || {
        match (verify::compare(shared, &counts)?, concurrent) {
            (None, Some((side, concurrent))) => side.compare(concurrent),
            (wrong, _) => Ok(wrong.map(|wrong| match shared.method {
                Method::Nixl(plugin) => format!("{wrong}{}", if_bytes_differ(plugin)),
                _ => wrong,
            })),
        }
    })?;
    if let Some(difference) = &result.first_difference {
        sender.say(LogLevel::Error, format!("{}: {difference}", shared.lane));
    }
    Ok(())
}

fn fill(lane_order: &LaneOrder, sender: &Sender, result: &mut RunResult) -> Result<(), LoadError> {
    sender.send(LaneMessage::Stage { stage: LaneStage::Setup });
    let mut parts = SetupParts::new(lane_order.spawned_monotonic_ns);
    parts.end("process");
    let ready = set_up(lane_order, &mut parts, result)?;
    let (job, method, counters) = (&ready.job, ready.method, Counters::default());
    let peaks = Peaks::begin(&ready.device);
    let preparing = ready.context(&counters);
    nixl_pool::check_batch(job, &preparing)?;
    let (memory, equipment) = allocate(sender, &ready, &preparing, &mut parts, &mut result.notes)?;
    result.setup_ns = parts.sum_ns();
    let ram = contents(&preparing, job, method, &memory.target)?;
    let headers = headers(&preparing, job, method)?;
    parts.end("contents");
    sender.send(LaneMessage::Stage { stage: LaneStage::PreparingCache });
    prepare_store(&preparing, job, method, result)?;
    parts.end("prepare");
    result.setup_parts_ns = parts.parts;

    let files = nixl_pool::open_files(job)?;
    let agent = ready.nixl.as_ref().map(|nixl| (nixl, nixl.agent.lock().unwrap_or_else(PoisonError::into_inner)));
    let pool = match (&agent, &memory.slab) {
        (Some((nixl, agent)), Some(slab)) => Some(Pool::new(nixl, agent, job, slab, &ready.device, &files)?),
        _ => None,
    };
    let context = ready.context(&counters);
    let handles = handle_limit(job, ready.open_files, &mut result.notes);
    let shared = Shared {
        without: ready.without.clone(),
        slab: memory.slab.as_ref(),
        slots: memory.slots,
        headers: &headers,
        limit: Limit::new(store::room_bytes(&job.settings).unwrap_or(u64::MAX), job.layout.file_bytes()),
        ..Shared::new(&context, job, method, &memory.target, &memory.registered, &ram, handles)
    };
    let side_context = memory.side.as_ref().map(|side| side.context(&context));
    let concurrent = memory.side.as_ref().zip(side_context.as_ref());
    let concurrent = concurrent.map(|(side, context)| (side, side.work(context, &shared, handles)));
    let Measured { done, wall_ns } =
        measure(sender, &shared, concurrent.as_ref(), (equipment, pool.as_ref()), peaks, result)?;
    send_spans(sender, &mapped(within(&done.spans, wall_ns), lane_order, &job.layout, &job.order));
    every_file_given_up(&shared, &done, result)?;
    if lane_order.verify && result.bytes > 0 {
        verify(sender, &shared, concurrent.as_ref(), &done, result)?;
    }
    if let Some((side, concurrent)) = &concurrent {
        drop(concurrent.shared.handles.cleanup());
        side.remove();
    }
    drop(shared.handles.cleanup());
    Ok(())
}
