//! The lane process of a KV-cache workload: takes its order, makes target and contents ready, runs, verifies, and reports.

use super::beside::Side;
use super::cache;
use super::flights;
use super::handles::HandleCache;
use super::layout::Layout;
use super::order::{KvOrder, LaneName, Method};
use super::outcome::{mapped, measured, named, notes, within};
use super::prepare::{
    Parts, WITHOUT_RDMA, all_headers, contents, open_cufile, prepare_files, register, staging, threads, wrong,
};
use super::store::{self, Limit};
use super::transfer::{Fallbacks, Shared};
use super::verify;
use super::work;
use crate::device::{CudaDevice, Device, DeviceMemory};
use crate::domain::{
    Access, Engine, KvSystem, LaneOrder, LaneStage, LogLevel, RunResult, Span, Target, WorkloadResult, units,
};
use crate::engines::cufile::CuFile;
use crate::engines::protocol::LaneMessage;
use crate::engines::{
    Counters, EngineContext, LoadError, Sender, blank, cpu_ns, free_gpu_bytes, lane_process, own_peak_bytes, publish,
    send_spans,
};
use crate::trust;
use crossbeam_channel::bounded;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Runs one lane. Returns the exit status of its process as [`crate::engines::run_lane`] does.
#[must_use]
pub fn run_lane() -> u8 {
    lane_process(|order, sender| {
        let mut result = blank(order);
        if let Err(error) = fill(order, sender, &mut result) {
            result.error = Some(error.to_string());
        }
        result
    })
}

fn fill(lane_order: &LaneOrder, sender: &Sender, result: &mut RunResult) -> Result<(), LoadError> {
    sender.send(LaneMessage::Stage { stage: LaneStage::Setup });
    let mut parts = Parts::new(lane_order.spawned_monotonic_ns);
    parts.end("process");
    let asked = lane_order.workload.as_ref().ok_or_else(|| wrong("the order is not of a workload".to_owned()))?;
    let mut order: KvOrder = serde_json::from_value(asked.order.clone())
        .map_err(|error| wrong(format!("the workload's order is malformed: {error}")))?;
    let Engine::Workload(lane) = &lane_order.engine else {
        return Err(wrong(format!("{} is not a lane of a workload", lane_order.engine)));
    };
    let lane = LaneName::new(lane.clone()).map_err(wrong)?;
    let settings = order.settings(&lane);
    // Relative paths, in the folder that the session made, whatever takes its name while this runs.
    let id = order.folder_id.ok_or_else(|| wrong("the order does not say which folder is meant".to_owned()))?;
    let folder = std::mem::take(&mut order.folder);
    trust::enter(&folder, id).map_err(|why| wrong(format!("{} cannot be used: {why}", folder.display())))?;
    let layout = Layout::new(&order, &settings, lane.write).map_err(wrong)?;
    result.settings = settings.0.clone();
    let open_files = crate::engines::raise_open_files();
    let device = match &lane_order.target {
        Target::Gpu { ordinal, uuid, .. } => Device::Cuda(Arc::new(CudaDevice::open(*ordinal, uuid.as_deref())?)),
        Target::Host => Device::Host,
    };
    parts.end("context");
    let counters = Counters::default();
    let (cufile, without) = open_cufile(lane_order, &order, &lane)?;
    if let Some(cufile) = &cufile {
        parts.split("library", cufile.library_ns);
        parts.split("driver_open", cufile.driver_open_ns);
    }
    let method = if lane.method == Method::Gds && cufile.is_none() { Method::Plain } else { lane.method };
    if let Some((reason, detail)) = &without {
        // A read whose every lookup misses has no transfer that could fall back.
        let what = if layout.largest == 0 { "cuFile could not be used" } else { "every transfer fell back to staging" };
        result.notes.push(format!("{what} ({reason}): {detail}"));
    }
    let free_before = free_gpu_bytes(&device);
    let preparing = EngineContext::new(lane_order, &device, cufile.as_ref(), &counters);
    let threads = threads(&order, &settings, &layout, preparing.cpus);
    let target = Arc::new(DeviceMemory::allocate(&device, layout.target_bytes)?);
    // The paged cache of a serving engine is there, and touched, long before anything is loaded into it.
    target.fill(0xa5)?;
    let slab = layout
        .scattered
        .then(|| DeviceMemory::allocate(&device, threads as u64 * layout.slab_step()).map(Arc::new))
        .transpose()?;
    if let Some(slab) = &slab {
        slab.fill(0)?;
    }
    parts.end("allocate");
    let registered = match &cufile {
        Some(cufile) => register(cufile, &settings, &layout, &target, slab.as_ref(), device.is_gpu())?,
        None => Vec::new(),
    };
    parts.end("register_buffers");
    if cufile.is_some() && settings.get("register") == 2 && !device.is_gpu() {
        result.notes.push(WITHOUT_RDMA.to_owned());
    }
    // Concurrent writes have separate buffers, as a thread of llm-d has for each direction.
    let side = Side::new(&preparing, &order, &lane, &settings, method)?;
    let slots = if side.is_some() { 2 * threads } else { threads };
    let staging = staging(&device, &settings, &layout, method, order.kind, slots, &counters)?;
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
    let paths: Vec<PathBuf> = layout.files.iter().map(|file| file.path.clone()).filter(|path| path.exists()).collect();
    if lane.write && method != Method::Ram {
        // Files of an earlier lane are removed, so that the read after this write sees this lane's files or none.
        for path in &paths {
            std::fs::remove_file(path).map_err(|e| store::failed("removing", path, e))?;
        }
    } else if method != Method::Ram {
        result.notes.extend(prepare_files(&preparing, &order, &layout)?);
        let paths: Vec<PathBuf> = layout.files.iter().map(|f| f.path.clone()).filter(|path| path.exists()).collect();
        result.notes.extend(cache::prepare(&paths, lane_order.cache));
        result.cache_resident_before_fraction = cache::resident_fraction(&paths);
    }
    parts.end("prepare");
    result.setup_parts_ns = parts.told;

    let limit_bytes = store::room_bytes(&settings).unwrap_or(u64::MAX);
    let context = EngineContext::new(lane_order, &device, cufile.as_ref(), &counters);
    let mut handle_limit = settings.get("handle_cache") as usize;
    let room = open_files.saturating_sub(256) as usize;
    if handle_limit > room && layout.files.len() > room {
        result
            .notes
            .push(format!("the handle cache keeps {room} files, since the process may open {open_files} (ulimit -n)"));
        handle_limit = room;
    }
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
        registered: &registered,
        ram: &ram,
        headers: &headers,
        handles: HandleCache::new(handle_limit),
        handle_registrations: AtomicU64::new(0),
        fallbacks: Fallbacks::default(),
        left: layout.files.iter().map(|_| AtomicUsize::new(per_file)).collect(),
        limit: Limit::new(limit_bytes, layout.file_bytes()),
        tried: AtomicUsize::new(0),
    };
    let side_context = side.as_ref().map(|side| side.context(lane_order, &device, cufile.as_ref(), &context));
    let beside =
        side.as_ref().zip(side_context.as_ref()).map(|(side, context)| side.work(context, &shared, handle_limit));
    // From here on VmHWM is the peak of the run alone ("5" resets it; proc_pid_clear_refs(5)).
    let peak_reset = std::fs::write("/proc/self/clear_refs", "5").is_ok();
    let access = if lane.write { Access::Write } else { Access::Read };
    let counts = |cufile: &CuFile| cufile.counts_of(access);
    let before = cufile.as_ref().map(counts);
    let cpu_before = cpu_ns();
    let (ticker, ticks) = bounded::<()>(0);
    sender.send(LaneMessage::Stage { stage: LaneStage::Loading });
    let done = std::thread::scope(|scope| {
        std::thread::Builder::new()
            .spawn_scoped(scope, || publish(sender, &counters, lane_order.model.tensor_bytes(), &ticks))
            .map_err(|source| LoadError::Threads { threads: 1, source })?;
        let done = work::run(&shared, beside.as_ref(), threads, staging, lines);
        let wall_ns = context.clock.now_ns();
        drop(ticker);
        done.map(|done| (done, wall_ns))
    });
    // Fallbacks before a failure are part of the result too.
    let fallbacks = shared.fallbacks.take();
    let (done, wall_ns) = match done {
        Ok(done) => done,
        Err(error) => {
            result.workload = Some(WorkloadResult { fallbacks, ..named(&order, &lane) });
            return Err(error);
        }
    };
    // The wall ends when the last byte is there; a layer-wise read computes its last layers after that.
    let landed_ns = done.operations.iter().map(|(_, _, end)| *end).max().unwrap_or(wall_ns);
    // A read with concurrent writes ends there too.
    let wall_ns = if done.computing.is_empty() && beside.is_none() { wall_ns } else { landed_ns };
    let beside_writes = side.as_ref().map(|side| side.told(&done.beside, landed_ns));
    result.cpu_ns = Some(cpu_ns().saturating_sub(cpu_before));
    result.bytes = counters.landed_bytes.load(Ordering::Relaxed);
    result.wall_ns = wall_ns;
    result.bytes_per_s = units::bytes_per_s(result.bytes, wall_ns).unwrap_or(0.0);
    result.slots = done.slots;
    result.phases = Span::phase_times(&within(&done.spans, wall_ns), wall_ns, done.slots);
    result.host_peak_bytes = own_peak_bytes().filter(|_| peak_reset);
    result.gpu_peak_bytes =
        free_before.zip(free_gpu_bytes(&device)).map(|(before, after)| before.saturating_sub(after));
    result.pinned_peak_bytes = Some(counters.pinned_peak_bytes.load(Ordering::Relaxed));
    // Where every transfer fell back, cuFile moved nothing that could have a route.
    let fell_back: u64 = fallbacks.iter().map(|fall| fall.operations).sum();
    let by_cufile = cufile.as_ref().filter(|_| fell_back < done.operations.len() as u64);
    result.route = by_cufile.zip(before).map(|(cufile, before)| cufile.route(before, counts(cufile)));
    result.notes.extend(notes(&done, &order, &lane, method, &settings, beside_writes.as_ref(), wall_ns));
    result.workload =
        Some(WorkloadResult { beside: beside_writes, ..measured(&shared, &done, wall_ns, fallbacks, &registered) });
    send_spans(sender, &mapped(within(&done.spans, wall_ns), lane_order, &layout, &order));
    if lane_order.verify && result.bytes > 0 {
        sender.send(LaneMessage::Stage { stage: LaneStage::Verifying });
        let (ticker, ticks) = bounded::<()>(0);
        let outcome = std::thread::scope(|scope| {
            std::thread::Builder::new()
                .spawn_scoped(scope, || publish(sender, &counters, lane_order.model.tensor_bytes(), &ticks))
                .map_err(|source| LoadError::Threads { threads: 1, source })?;
            let counts = |index: usize| match (&done.found, lane.write && method != Method::Ram) {
                (Some(found), _) => found.files.get(index).is_some_and(|hit| *hit),
                (None, true) => shared.layout.files.get(index).is_some_and(|file| file.path.exists()),
                (None, false) => true,
            };
            let outcome = verify::compare(&shared, &counts).and_then(|wrong| match (wrong, &side, &beside) {
                (None, Some(side), Some(beside)) => side.compare(beside),
                (wrong, ..) => Ok(wrong),
            });
            drop(ticker);
            outcome
        })?;
        result.verified = Some(outcome.is_none());
        if let Some(where_) = outcome {
            sender.say(LogLevel::Error, format!("{lane}: {where_}"));
            result.first_difference = Some(where_);
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
