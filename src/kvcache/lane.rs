//! The lane process of a KV-cache workload: takes its order, makes target and contents ready, runs, verifies, and reports.

use super::cache;
use super::content;
use super::handles::HandleCache;
use super::layout::Layout;
use super::order::{Kind, KvOrder, LaneName, Provoke, Settings, Way};
use super::pipeline::{hidden_fraction, layer_times, union_ns};
use super::store::{self, Limit};
use super::transfer::{Falls, Shared};
use super::verify;
use super::work::{self, Done};
use crate::device::{CudaDevice, Device, DeviceMemory, Slot, Staging};
use crate::domain::{LaneOrder, LaneStage, LogLevel, Percentiles, RunResult, Span, Target, WorkloadResult, units};
use crate::engines::cufile::{CuFile, explain};
use crate::engines::protocol::{LaneMessage, monotonic_ns};
use crate::engines::{
    Counters, EngineContext, LoadError, Sender, blank, cpu_ns, free_gpu_bytes, lane_process, own_peak_bytes, publish,
    run_workers, send_spans,
};
use crossbeam_channel::bounded;
use cufile_ffi::BufferRegistration;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// cuFile's flag for memory that is registered for RDMA, which llm-d gives when it registers blocks apart.
const RDMA_REGISTER: u32 = 1;

/// Runs one lane; the process's whole life. Returns its exit status as [`crate::engines::run_lane`] does.
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

fn wrong(text: String) -> LoadError {
    LoadError::CuFile(text)
}

fn fill(lane_order: &LaneOrder, sender: &Sender, result: &mut RunResult) -> Result<(), LoadError> {
    sender.send(LaneMessage::Stage { stage: LaneStage::Setup });
    let mut parts = Parts::new(lane_order.spawned_monotonic_ns);
    parts.end("process");
    let asked = lane_order.workload.as_ref().ok_or_else(|| wrong("the order is not of a workload".to_owned()))?;
    let order: KvOrder = serde_json::from_value(asked.order.clone())
        .map_err(|error| wrong(format!("the workload's order is malformed: {error}")))?;
    let lane: LaneName = lane_order.engine.to_string().parse().map_err(wrong)?;
    let settings = order.settings(&lane);
    let layout = Layout::new(&order, &settings, lane.write).map_err(wrong)?;
    result.knobs = settings.0.clone();
    let open_files = raise_open_files();
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
    let way = if lane.way == Way::Gds && cufile.is_none() { Way::Plain } else { lane.way };
    if let Some((reason, detail)) = &without {
        result.notes.push(format!("every transfer fell back to staging ({reason}): {detail}"));
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
        Some(cufile) => register(cufile, &settings, &layout, &target, slab.as_ref())?,
        None => Vec::new(),
    };
    parts.end("register_buffers");
    let staging = staging(&device, &settings, &layout, way, order.kind, threads, &counters)?;
    parts.end("pin_staging");
    result.setup_ns = parts.sum_ns();
    let ram = contents(&preparing, &order, &layout, &lane, way, &target)?;
    let headers = if lane.write && order.kind == Kind::Lmcache && way != Way::Ram {
        all_headers(&preparing, &order, &layout)?
    } else {
        Vec::new()
    };
    parts.end("contents");
    sender.send(LaneMessage::Stage { stage: LaneStage::PreparingCache });
    let paths: Vec<PathBuf> = layout.files.iter().map(|file| file.path.clone()).filter(|path| path.exists()).collect();
    if lane.write && way != Way::Ram {
        // What an earlier lane stored goes, so that the read behind this write sees this one's files or none.
        for path in &paths {
            std::fs::remove_file(path).map_err(|e| store::failed("removing", path, e))?;
        }
    } else if way != Way::Ram {
        result.notes.extend(prepare_files(&preparing, &order, &layout)?);
        let paths: Vec<PathBuf> = layout.files.iter().map(|f| f.path.clone()).filter(|path| path.exists()).collect();
        result.notes.extend(cache::prepare(&paths, lane_order.cache));
        result.cache_resident_before_fraction = cache::resident_fraction(&paths);
    }
    parts.end("prepare");
    result.setup_parts_ns = parts.told;

    let limit_bytes = match settings.get("max_cache_size_mb") {
        0 => u64::MAX,
        mib => mib.saturating_mul(units::MIB),
    };
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
        way,
        without,
        target: &target,
        slab: slab.as_ref(),
        registered: &registered,
        ram: &ram,
        headers: &headers,
        handles: HandleCache::new(handle_limit),
        handle_registrations: AtomicU64::new(0),
        falls: Falls::default(),
        left: layout.files.iter().map(|_| AtomicUsize::new(per_file)).collect(),
        limit: Limit::new(limit_bytes, layout.file_bytes()),
        tried: AtomicUsize::new(0),
    };
    // From here on VmHWM is the peak of the run alone ("5" resets it; proc_pid_clear_refs(5)).
    let peak_reset = std::fs::write("/proc/self/clear_refs", "5").is_ok();
    let counts = |cufile: &CuFile| if lane.write { cufile.write_counts() } else { cufile.counts() };
    let before = cufile.as_ref().map(counts);
    let cpu_before = cpu_ns();
    let (ticker, ticks) = bounded::<()>(0);
    sender.send(LaneMessage::Stage { stage: LaneStage::Loading });
    let done = std::thread::scope(|scope| {
        scope.spawn(|| publish(sender, &counters, lane_order.model.tensor_bytes(), &ticks));
        let done = work::run(&shared, threads, staging);
        let wall_ns = context.clock.now_ns();
        drop(ticker);
        done.map(|done| (done, wall_ns))
    });
    // What fell back before a failure belongs to the answer too.
    let fallbacks = shared.falls.take();
    let (done, wall_ns) = match done {
        Ok(done) => done,
        Err(error) => {
            result.workload = Some(WorkloadResult { fallbacks, ..named(&order, &lane) });
            return Err(error);
        }
    };
    // The wall ends when the last byte is there; a layer-wise read computes its last layers after that.
    let landed_ns = done.operations.iter().map(|(_, _, end)| *end).max().unwrap_or(wall_ns);
    let wall_ns = if done.computing.is_empty() { wall_ns } else { landed_ns };
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
    result.route = cufile.as_ref().zip(before).map(|(cufile, before)| {
        let mut route = cufile.route(before, counts(cufile));
        if lane.write {
            route.source = route.source.replace("reads", "writes").replace("no read of", "no write of");
        }
        route
    });
    result.notes.extend(notes(&done, &order, &lane, way, &settings));
    result.workload = Some(measured(&shared, &done, wall_ns, fallbacks, &registered));
    send_spans(sender, &mapped(within(&done.spans, wall_ns), lane_order, &layout, &order));
    if lane_order.verify {
        sender.send(LaneMessage::Stage { stage: LaneStage::Verifying });
        let (ticker, ticks) = bounded::<()>(0);
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| publish(sender, &counters, lane_order.model.tensor_bytes(), &ticks));
            let counts = |index: usize| match (&done.found, lane.write && way != Way::Ram) {
                (Some(found), _) => found.files.get(index).is_some_and(|hit| *hit),
                (None, true) => shared.layout.files.get(index).is_some_and(|file| file.path.exists()),
                (None, false) => true,
            };
            let outcome = verify::compare(&shared, &counts);
            drop(ticker);
            outcome
        })?;
        result.verified = Some(outcome.is_none());
        if let Some(where_) = outcome {
            let text = format!("{lane}: {where_}");
            sender.say(LogLevel::Error, text.clone());
            result.notes.push(text);
        }
    }
    drop(shared.handles.cleanup());
    drop(shared);
    drop(registered);
    Ok(())
}

/// Set-up by part, on the clock that parent and child share.
struct Parts {
    told: std::collections::BTreeMap<String, u64>,
    at: u64,
}

impl Parts {
    fn new(spawned_ns: u64) -> Self {
        Self { told: std::collections::BTreeMap::new(), at: spawned_ns }
    }

    fn end(&mut self, name: &str) {
        let now = monotonic_ns();
        self.told.insert(name.to_owned(), now.saturating_sub(self.at));
        self.at = now;
    }

    /// Notes a part whose length is known, and goes on behind it.
    fn split(&mut self, name: &str, ns: u64) {
        self.told.insert(name.to_owned(), ns);
        self.at = monotonic_ns();
    }

    fn sum_ns(&self) -> u64 {
        self.told.values().sum()
    }
}

/// Spans that began before the wall ended.
fn within(spans: &[Span], wall_ns: u64) -> Vec<Span> {
    spans.iter().filter(|span| span.start_ns < wall_ns).copied().collect()
}

/// Spans for the map of the session's model. A lane whose files are cut in another way (`--compare chunk_size=…`) keeps its times and bytes and gets
/// no place on that map.
fn mapped(mut spans: Vec<Span>, lane_order: &LaneOrder, layout: &Layout, order: &KvOrder) -> Vec<Span> {
    if layout.model(order).tensors != lane_order.model.tensors {
        let end = lane_order.model.image_bytes();
        for span in &mut spans {
            (span.tensor, span.offset) = (None, end);
        }
    }
    spans
}

/// Lets the process open as many files as it may; returns how many that is.
fn raise_open_files() -> u64 {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

type Without = Option<(&'static str, String)>;

/// Opens cuFile where the lane wants it. Only llm-d's way goes on without, and says why.
fn open_cufile(
    lane_order: &LaneOrder,
    order: &KvOrder,
    lane: &LaneName,
) -> Result<(Option<CuFile>, Without), LoadError> {
    if lane.way != Way::Gds {
        return Ok((None, None));
    }
    if let Some(reason @ (Provoke::NoLibrary | Provoke::InitFailed)) = order.provoke {
        let what = if reason == Provoke::NoLibrary { "there were no libcufile" } else { "the driver did not open" };
        return Ok((None, Some((reason.reason(), format!("provoked: as if {what}")))));
    }
    match CuFile::open(lane_order) {
        Ok(cufile) => Ok((Some(cufile), None)),
        Err(error) if order.kind == Kind::Llmd => {
            let said = error.to_string();
            let library = cufile_ffi::Library::find().is_err();
            let reason = if library { Provoke::NoLibrary } else { Provoke::InitFailed };
            Ok((None, Some((reason.reason(), said))))
        }
        Err(error) => Err(error),
    }
}

fn threads(order: &KvOrder, settings: &Settings, layout: &Layout, cpus: usize) -> usize {
    let asked = match order.kind {
        Kind::Ucm => settings.get("stream_number"),
        Kind::Llmd => settings.get("threads_per_gpu").min(cpus as u64),
        Kind::Lmcache => settings.get("max_concurrent_ops"),
    };
    (asked as usize).clamp(1, layout.units.len().max(1))
}

/// Registers what the setting says with cuFile. A registration that fails ends the lane: nobody would know what was measured otherwise.
fn register(
    cufile: &CuFile,
    settings: &Settings,
    layout: &Layout,
    target: &Arc<DeviceMemory>,
    slab: Option<&Arc<DeviceMemory>>,
) -> Result<Vec<(u64, BufferRegistration<DeviceMemory>)>, LoadError> {
    let how = settings.get("register");
    if how == 0 {
        return Ok(Vec::new());
    }
    let (memory, ranges, flags) = match slab {
        Some(slab) => (slab, std::iter::once(0..slab.len() as u64).collect(), 0),
        None if how == 2 => (target, layout.registrations(true), RDMA_REGISTER),
        None => (target, layout.registrations(false), 0),
    };
    let ranges: Vec<std::ops::Range<u64>> = ranges;
    ranges
        .into_iter()
        .map(|range| {
            let length = range.end - range.start;
            let registration = cufile
                .driver
                .register(memory, range.start as usize, length as usize, flags)
                .map_err(|e| explain(&format!("registering {} of the target with cuFile", units::bytes(length)), &e))?;
            Ok((range.start, registration))
        })
        .collect()
}

/// A pinned buffer for each worker that may make plain reads or writes.
fn staging(
    device: &Device,
    settings: &Settings,
    layout: &Layout,
    way: Way,
    kind: Kind,
    threads: usize,
    counters: &Counters,
) -> Result<Vec<Slot>, LoadError> {
    if way == Way::Ram || (way == Way::Gds && kind != Kind::Llmd) {
        return Ok(Vec::new());
    }
    let wanted = match kind {
        Kind::Lmcache => layout.largest,
        _ => settings.get("staging_bytes").min(layout.largest),
    };
    let slots = Staging::slots(device, threads, wanted.max(1) as usize)?;
    if device.is_gpu() {
        counters.pin(slots.iter().map(|slot| slot.len() as u64).sum());
    }
    Ok(slots)
}

/// Puts what is to be written on the target, or, for a read from host memory, into that. Returns the host memory, a slot a file.
fn contents(
    context: &EngineContext<'_>,
    order: &KvOrder,
    layout: &Layout,
    lane: &LaneName,
    way: Way,
    target: &DeviceMemory,
) -> Result<Vec<Mutex<Slot>>, LoadError> {
    const STEP: u64 = 4 << 20;
    let ram = if way == Way::Ram {
        let slots = Staging::slots(context.device, layout.files.len(), layout.payload as usize)?;
        if context.device.is_gpu() {
            context.counters.pin(slots.iter().map(|slot| slot.len() as u64).sum());
        }
        slots.into_iter().map(Mutex::new).collect()
    } else {
        Vec::new()
    };
    if !lane.write && way != Way::Ram {
        return Ok(ram);
    }
    let next = AtomicUsize::new(0);
    run_workers(context, context.cpus.clamp(1, 16), |_| {
        context.device.bind()?;
        let mut buffer = Vec::new();
        loop {
            let file = next.fetch_add(1, Ordering::Relaxed);
            if file >= layout.files.len() {
                return Ok(());
            }
            if let Some(slot) = ram.get(file).filter(|_| !lane.write) {
                let mut slot = slot.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                content::fill(order.seed, file as u64, 0, &mut slot.bytes_mut()[..layout.payload as usize]);
                continue;
            }
            let mut at = 0;
            while at < layout.payload {
                let length = STEP.min(layout.payload - at);
                buffer.resize(length as usize, 0);
                content::fill(order.seed, file as u64, at, &mut buffer);
                for piece in layout.place(file as u32, at, length) {
                    let range = piece.from as usize..(piece.from + piece.bytes) as usize;
                    target.write_pageable(piece.to, &buffer[range])?;
                }
                at += length;
            }
        }
    })?;
    Ok(ram)
}

/// The headers of all chunks, made by several threads: their checksums take a while.
fn all_headers(context: &EngineContext<'_>, order: &KvOrder, layout: &Layout) -> Result<Vec<Vec<u8>>, LoadError> {
    let files = layout.files.len();
    let threads = context.cpus.clamp(1, 16).min(files.max(1));
    let share = files.div_ceil(threads);
    let parts = run_workers(context, threads, |number| {
        let range = (number * share).min(files)..((number + 1) * share).min(files);
        store::headers(order, layout, range).map_err(wrong)
    })?;
    Ok(parts.into_iter().flatten().collect())
}

/// Writes the files that a read needs, where no lane before it did.
fn prepare_files(context: &EngineContext<'_>, order: &KvOrder, layout: &Layout) -> Result<Option<String>, LoadError> {
    let missing: Vec<usize> =
        (0..layout.files.len()).filter(|index| layout.files.get(*index).is_some_and(|f| !f.path.exists())).collect();
    if !order.prepare || missing.is_empty() {
        return Ok(None);
    }
    let next = AtomicUsize::new(0);
    run_workers(context, context.cpus.clamp(1, 8), |_| {
        while let Some(index) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
            let header = match order.kind {
                Kind::Lmcache => store::headers(order, layout, *index..*index + 1).map_err(wrong)?.pop(),
                _ => None,
            };
            store::write_plainly(layout, *index, header.as_deref())?;
        }
        Ok(())
    })?;
    Ok(Some(format!("{} files were written by plain writes before the clock, since no lane wrote them", missing.len())))
}

fn named(order: &KvOrder, lane: &LaneName) -> WorkloadResult {
    WorkloadResult {
        workload: order.kind.name().to_owned(),
        variant: lane.variant.clone(),
        direction: if lane.write { "write" } else { "read" }.to_owned(),
        shape: order.shape.name.clone(),
        tokens: order.tokens,
        batch: order.batch,
        ..WorkloadResult::default()
    }
}

fn measured(
    shared: &Shared<'_>,
    done: &Done,
    wall_ns: u64,
    fallbacks: Vec<crate::domain::Fallback>,
    registered: &[(u64, BufferRegistration<DeviceMemory>)],
) -> WorkloadResult {
    let intervals: Vec<(u64, u64)> = done.operations.iter().map(|(_, start, end)| (*start, *end)).collect();
    let busy_ns = union_ns(&intervals);
    let mut latencies: Vec<u64> = intervals.iter().map(|(start, end)| end - start).collect();
    let layers = layer_times(&done.operations, &done.computing);
    let waits: Vec<(u64, u64)> = layers
        .iter()
        .map(|layer| (layer.compute_start_ns.saturating_sub(layer.wait_ns), layer.compute_start_ns))
        .collect();
    let bytes = shared.context.counters.landed_bytes.load(Ordering::Relaxed);
    let stored = shared.layout.files.len() as u64;
    let asked: u64 = shared.layout.asked.iter().map(|keys| keys.len() as u64).sum();
    // Host memory holds what was stored; the rest of what is asked for is a miss there too.
    let (lookups, hits) = match (&done.found, shared.lane.write) {
        (Some(found), _) => (Some(found.lookups), Some(found.hits)),
        (None, false) => (Some(asked), Some(stored)),
        (None, true) => (None, None),
    };
    WorkloadResult {
        operations: done.operations.len() as u64,
        operation_bytes: shared.layout.largest,
        busy_ns,
        busy_bytes_per_s: units::bytes_per_s(bytes, busy_ns),
        busy_fraction: (wall_ns > 0).then(|| (busy_ns as f64 / wall_ns as f64).min(1.0)),
        latency_ns: Percentiles::of(&mut latencies),
        lookups,
        hits,
        hit_rate_fraction: lookups.zip(hits).filter(|(all, _)| *all > 0).map(|(all, hits)| hits as f64 / all as f64),
        lookup_ns: done.found.as_ref().map(|_| done.lookup_ns),
        handle_cache: (shared.way != Way::Ram).then(|| shared.handles.counts()),
        handle_registrations: shared.handle_registrations.load(Ordering::Relaxed),
        buffer_registrations: registered.len() as u64,
        evicted_chunks: (shared.lane.write && shared.order.kind == Kind::Lmcache && shared.way != Way::Ram)
            .then(|| shared.limit.evicted()),
        fallbacks,
        simulated_compute_ns: (!layers.is_empty()).then(|| shared.settings.get("compute_us") * 1000),
        computed_ns: done.computing.last().map(|(_, end, _)| *end),
        hidden_fraction: if layers.is_empty() { None } else { hidden_fraction(&intervals, &waits) },
        layers,
        ..named(shared.order, shared.lane)
    }
}

/// What the reader of the result has to know.
fn notes(done: &Done, order: &KvOrder, lane: &LaneName, way: Way, settings: &Settings) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(found) = done.found.as_ref().filter(|found| found.refused > 0) {
        notes.push(format!(
            "{} files were there and were not taken for whole, so they and what follows them are misses; the first: {}",
            found.refused,
            found.first_refusal.as_deref().unwrap_or_default()
        ));
    }
    if lane.write && way == Way::Plain && !settings.on("plain_odirect") && !settings.on("fsync") {
        notes.push("plain writes end in the page cache; --set fsync=1 waits for the disk, --set plain_odirect=1 goes round the cache".to_owned());
    }
    if !done.computing.is_empty() {
        notes.push(format!(
            "computing is simulated: each layer sleeps {} µs (compute_us), and the time and rate of the read are paced by it; the rate while transfers \
             were under way is told apart",
            settings.get("compute_us")
        ));
    }
    if order.kind == Kind::Ucm && settings.get("misalign") > 0 {
        notes.push(format!("offsets miss the 4 KiB grid on purpose, by {} bytes", settings.get("misalign")));
    }
    notes
}
