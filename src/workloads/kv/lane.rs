//! The run process of a KV-cache workload: it reads its order, prepares the target and the contents, runs, verifies
//! and reports.

use super::beside::Side;
use super::cache;
use super::flights;
use super::handles::HandleCache;
use super::layout::Layout;
use super::order::{KvOrder, LaneName, Method, Settings};
use super::outcome::{mapped, measured, named, notes, within};
use super::params::KvSetting;
use super::prepare::{
    WITHOUT_RDMA, all_headers, contents, open_cufile, prepare_files, register, staging, threads, wrong,
};
use super::shared::{Fallbacks, Shared};
use super::store::{self, Limit};
use super::verify;
use super::work;
use crate::core::{Access, Engine, KvSystem, LaneOrder, LaneStage, LogLevel, RunResult, Span, WorkloadResult, units};
use crate::device::DeviceMemory;
use crate::engines::cufile::CuFile;
use crate::engines::protocol::LaneMessage;
use crate::engines::{
    Counters, EngineContext, LoadError, Peaks, Sender, SetupParts, cpu_ns, lane_process, open_device, send_spans,
    verify_run, with_progress,
};
use crate::trust;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Runs one process. Returns its exit status, like [`crate::engines::run_lane`].
#[must_use]
pub fn run_lane() -> u8 {
    lane_process(fill)
}

/// Reads the order, enters its folder, and computes the layout of its files.
fn read_order(lane_order: &LaneOrder) -> Result<(KvOrder, LaneName, Settings, Layout), LoadError> {
    let asked = lane_order.workload.as_ref().ok_or_else(|| wrong("the order is not of a workload".to_owned()))?;
    let mut order: KvOrder = serde_json::from_value(asked.order.clone())
        .map_err(|error| wrong(format!("the workload's order is malformed: {error}")))?;
    let Engine::Workload(lane) = &lane_order.engine else {
        return Err(wrong(format!("{} is not a lane of a workload", lane_order.engine)));
    };
    let lane = LaneName::new(lane.clone()).map_err(wrong)?;
    let settings = order.settings(&lane);
    // The paths are relative to the folder that the session created. This folder is used even if another one has its
    // name now.
    let id = order.folder_id.ok_or_else(|| wrong("the order does not name its folder".to_owned()))?;
    let folder = std::mem::take(&mut order.folder);
    trust::enter(&folder, id).map_err(|why| wrong(format!("{} cannot be used: {why}", folder.display())))?;
    let layout = Layout::new(&order, &settings, lane.write).map_err(wrong)?;
    Ok((order, lane, settings, layout))
}

/// Prepares the store. Before a write, the files of an earlier run are removed. Before a read, missing files are
/// written and the page cache is made cold or hot.
fn prepare_store(
    context: &EngineContext<'_>,
    order: &KvOrder,
    layout: &Layout,
    lane: &LaneName,
    method: Method,
    result: &mut RunResult,
) -> Result<(), LoadError> {
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
    result.notes.extend(prepare_files(context, order, layout)?);
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
fn handle_limit(settings: &Settings, layout: &Layout, open_files: u64, notes: &mut Vec<String>) -> usize {
    if layout.is_slab() {
        return 1;
    }
    let wanted = settings.get(KvSetting::HandleCache) as usize;
    let most = open_files.saturating_sub(256) as usize;
    if wanted <= most || layout.files.len() <= most {
        return wanted;
    }
    notes.push(format!("the handle cache keeps {most} files, because the process may open {open_files} (ulimit -n)"));
    most
}

fn fill(lane_order: &LaneOrder, sender: &Sender, result: &mut RunResult) -> Result<(), LoadError> {
    sender.send(LaneMessage::Stage { stage: LaneStage::Setup });
    let mut parts = SetupParts::new(lane_order.spawned_monotonic_ns);
    parts.end("process");
    let (order, lane, settings, layout) = read_order(lane_order)?;
    result.settings = settings.0.iter().map(|(setting, value)| (setting.name().to_owned(), *value)).collect();
    let open_files = crate::engines::raise_open_files();
    let device = open_device(&lane_order.target)?;
    parts.end("context");
    let counters = Counters::default();
    let (cufile, without) = open_cufile(lane_order, &order, &lane)?;
    if let Some(cufile) = &cufile {
        parts.split("library", cufile.library_ns);
        parts.split("driver_open", cufile.driver_open_ns);
    }
    let method = if lane.method == Method::Gds && cufile.is_none() { Method::Plain } else { lane.method };
    if let Some((reason, detail)) = &without {
        // If every lookup of a read misses, there is no transfer that could fall back.
        let what = if layout.largest == 0 { "cuFile could not be used" } else { "every transfer fell back to staging" };
        result.notes.push(format!("{what} ({reason}): {detail}"));
    }
    let mut peaks = Peaks::begin(&device);
    let preparing = EngineContext::new(lane_order, &device, cufile.as_ref(), &counters);
    let threads = threads(&order, &settings, &layout, preparing.cpus);
    let target = Arc::new(DeviceMemory::allocate(&device, layout.target_bytes)?);
    // In a serving engine, the paged cache is allocated and touched long before anything is loaded into it.
    target.fill(0xa5)?;
    let slots = if settings.on(KvSetting::Async) { settings.get(KvSetting::AsyncDepth).max(1) } else { 1 };
    let slab = layout
        .scattered
        .then(|| DeviceMemory::allocate(&device, threads as u64 * slots * layout.slab_step()).map(Arc::new))
        .transpose()?;
    if let Some(slab) = &slab {
        slab.fill(0)?;
    }
    parts.end("allocate");
    let registered = match &cufile {
        Some(cufile) => {
            let notes = &mut result.notes;
            register(cufile, order.kind, &settings, &layout, &target, slab.as_ref(), device.is_gpu(), notes)?
        }
        None => Vec::new(),
    };
    parts.end("register_buffers");
    if cufile.is_some() && settings.get(KvSetting::Register) == 2 && !device.is_gpu() {
        result.notes.push(WITHOUT_RDMA.to_owned());
    }
    // Concurrent writes have separate buffers, because a thread of llm-d has one for each direction.
    let side = Side::new(&preparing, &order, &lane, &settings, method)?;
    let buffers = if side.is_some() { 2 * threads } else { threads };
    let staging = staging(&device, &settings, &layout, method, order.kind, buffers, &counters)?;
    parts.end("pin_staging");
    let lines = flights::lines(&device, cufile.as_ref(), &lane, &settings, threads)?;
    if !lines.is_empty() {
        parts.end("streams");
    }
    result.setup_ns = parts.sum_ns();
    let ram = contents(&preparing, &order, &layout, &lane, method, &target)?;
    let headers = if lane.write && order.kind == KvSystem::Lmcache && method != Method::Ram {
        all_headers(&preparing, &order, &layout)?
    } else {
        Vec::new()
    };
    parts.end("contents");
    sender.send(LaneMessage::Stage { stage: LaneStage::PreparingCache });
    prepare_store(&preparing, &order, &layout, &lane, method, result)?;
    parts.end("prepare");
    result.setup_parts_ns = parts.parts;

    let limit_bytes = store::room_bytes(&settings).unwrap_or(u64::MAX);
    let context = EngineContext::new(lane_order, &device, cufile.as_ref(), &counters);
    let handle_limit = handle_limit(&settings, &layout, open_files, &mut result.notes);
    let per_file = layout.tasks.len() / layout.files.len().max(1);
    let shared = Shared {
        context: &context,
        order: &order,
        lane: &lane,
        settings: &settings,
        layout: &layout,
        method,
        without,
        target: &target,
        slab: slab.as_ref(),
        slots,
        registered: &registered,
        ram: &ram,
        headers: &headers,
        handles: HandleCache::new(handle_limit),
        handle_registrations: AtomicU64::new(0),
        fallbacks: Fallbacks::default(),
        left: layout.files.iter().map(|_| AtomicUsize::new(per_file)).collect(),
        limit: Limit::new(limit_bytes, layout.file_bytes()),
        tried: AtomicUsize::new(0),
        given_up: layout.files.iter().map(|_| AtomicBool::new(false)).collect(),
        lost_operations: AtomicU64::new(0),
        lost_bytes: AtomicU64::new(0),
    };
    let side_context = side.as_ref().map(|side| side.context(lane_order, &device, cufile.as_ref(), &context));
    let beside =
        side.as_ref().zip(side_context.as_ref()).map(|(side, context)| side.work(context, &shared, handle_limit));
    peaks.reset_host();
    let access = if lane.write { Access::Write } else { Access::Read };
    let counts = |cufile: &CuFile| cufile.counts_of(access);
    let before = cufile.as_ref().map(counts);
    let cpu_before = cpu_ns();
    sender.send(LaneMessage::Stage { stage: LaneStage::Loading });
    let done = with_progress(sender, &counters, lane_order, || {
        let done = work::run(&shared, beside.as_ref(), threads, staging, lines);
        let wall_ns = context.clock.now_ns();
        done.map(|done| (done, wall_ns))
    });
    // Fallbacks before a failure are also part of the result.
    let fallbacks = shared.fallbacks.take();
    let (done, wall_ns) = match done {
        Ok(done) => done,
        Err(error) => {
            result.workload = Some(WorkloadResult { fallbacks, ..named(&order, &lane) });
            return Err(error);
        }
    };
    // The wall time ends when the last byte has landed. A read layer by layer computes its last layers after that.
    let landed_ns = done.operations.iter().map(|(_, _, end)| *end).max().unwrap_or(wall_ns);
    // A read with concurrent writes also ends when its last byte has landed.
    let wall_ns = if done.computing.is_empty() && beside.is_none() { wall_ns } else { landed_ns };
    let beside_writes = side.as_ref().map(|side| side.told(&done.beside, landed_ns));
    result.cpu_ns = Some(cpu_ns().saturating_sub(cpu_before));
    result.bytes = counters.landed_bytes.load(Ordering::Relaxed);
    result.wall_ns = wall_ns;
    result.bytes_per_s = units::bytes_per_s(result.bytes, wall_ns).unwrap_or(0.0);
    result.slots = done.slots;
    result.phases = Span::phase_times(&within(&done.spans, wall_ns), wall_ns, done.slots);
    peaks.record(&device, &counters, result);
    // If every transfer fell back, cuFile moved no bytes, so there is no route.
    let fell_back: u64 = fallbacks.iter().map(|fall| fall.operations).sum();
    let by_cufile = cufile.as_ref().filter(|_| fell_back < done.operations.len() as u64);
    result.route = by_cufile.zip(before).map(|(cufile, before)| cufile.route(before, counts(cufile)));
    result.notes.extend(notes(&done, &lane, method, &settings, beside_writes.as_ref(), wall_ns));
    result.workload =
        Some(WorkloadResult { beside: beside_writes, ..measured(&shared, &done, wall_ns, fallbacks, &registered) });
    send_spans(sender, &mapped(within(&done.spans, wall_ns), lane_order, &layout, &order));
    if lane_order.verify && result.bytes > 0 {
        let counts = |index: usize| match (&done.found, lane.write && method != Method::Ram) {
            (Some(found), _) => found.files.get(index).is_some_and(|hit| *hit) && !shared.is_given_up(index),
            (None, true) => shared.layout.files.get(index).is_some_and(|file| file.path.exists()),
            (None, false) => true,
        };
        verify_run(sender, &counters, lane_order, result, || {
            match (verify::compare(&shared, &counts)?, &side, &beside) {
                (None, Some(side), Some(beside)) => side.compare(beside),
                (wrong, ..) => Ok(wrong),
            }
        })?;
        if let Some(difference) = &result.first_difference {
            sender.say(LogLevel::Error, format!("{lane}: {difference}"));
        }
    }
    if let (Some(side), Some(beside)) = (&side, &beside) {
        drop(beside.shared.handles.cleanup());
        side.remove();
    }
    drop(beside);
    drop(shared.handles.cleanup());
    drop(shared);
    drop(registered);
    Ok(())
}
