//! The lane process: takes an order on standard input, loads the model, verifies it, and reports on a separate
//! descriptor.
//!
//! Native libraries print to standard output, so that is pointed at standard error first; the end of standard error is the lane's last
//! words should it die.

use super::clock::Clock;
use super::context::{Counters, EngineContext, Leftover, Loaded};
use super::direct_io::open_cufile;
use super::error::LoadError;
use super::nixl_library::{self as nixl, Nixl};
use super::protocol::{Frame, LaneMessage, monotonic_ns};
use super::room::free_gpu_bytes;
use super::settings::{AS_SET, Chosen};
use super::verify;
use super::{auto, cache};
use crate::device::{CudaDevice, Device};
use crate::domain::{
    Engine, LaneOrder, LaneStage, LogLevel, PackedSpans, PhaseTimes, RunResult, Setting, Span, Target, units,
};
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often counters are published.
const PUBLISH_EVERY: Duration = Duration::from_millis(50);
/// Spans in one message.
const SPANS_A_FRAME: usize = 16 << 10;

/// The sending end of the protocol.
pub(crate) struct Sender(Mutex<File>);

impl Sender {
    pub(crate) fn send(&self, message: LaneMessage) {
        self.send_at(monotonic_ns(), message);
    }

    fn send_at(&self, at_monotonic_ns: u64, message: LaneMessage) {
        let frame = Frame { at_monotonic_ns, message };
        let Ok(mut line) = serde_json::to_vec(&frame) else { return };
        line.push(b'\n');
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A session that is gone takes its lane with it (parent death signal), so a failed write needs no answer.
        let _ = file.write_all(&line);
    }

    pub(crate) fn say(&self, level: LogLevel, text: impl Into<String>) {
        self.send(LaneMessage::Said { level, text: text.into() });
    }
}

/// Runs one lane. Returns the exit status of its process: 0 when a result was sent (also one with an error in it), 2
/// when the order could not be read.
#[must_use]
pub fn run_lane() -> u8 {
    lane_process(run)
}

/// The life of any lane process: `run` turns its order into a result.
pub(crate) fn lane_process(run: impl FnOnce(&LaneOrder, &Sender) -> RunResult) -> u8 {
    let out = match claim_stdout() {
        Ok(out) => out,
        Err(error) => {
            eprintln!("gds-top: the lane cannot claim its output: {error}");
            return 2;
        }
    };
    let mut text = String::new();
    // One line: later lines, if any, are signals to go on.
    let order: LaneOrder = match std::io::stdin().read_line(&mut text).map(|_| serde_json::from_str(&text)) {
        Ok(Ok(order)) => order,
        Ok(Err(error)) => {
            eprintln!("gds-top: the lane's order is malformed: {error}");
            return 2;
        }
        Err(error) => {
            eprintln!("gds-top: the lane's order cannot be read: {error}");
            return 2;
        }
    };
    drop(text);
    let sender = Sender(Mutex::new(out));
    let result = run(&order, &sender);
    sender.send(LaneMessage::Finished { result });
    0
}

/// Duplicates standard output for the protocol and points descriptor 1 at standard error.
pub(crate) fn claim_stdout() -> std::io::Result<File> {
    let own = rustix::io::fcntl_dupfd_cloexec(std::io::stdout().as_fd(), 3)?;
    rustix::stdio::dup2_stdout(std::io::stderr().as_fd())?;
    Ok(File::from(own))
}

fn run(order: &LaneOrder, sender: &Sender) -> RunResult {
    let mut result = blank(order);
    if let Err(error) = fill(order, sender, &mut result) {
        result.error = Some(error.to_string());
    }
    result
}

/// A result in which nothing was measured yet.
pub(crate) fn blank(order: &LaneOrder) -> RunResult {
    RunResult {
        engine: order.engine.clone(),
        model: order.model.name.clone(),
        cache: order.cache,
        cache_resident_before_fraction: None,
        target: match &order.target {
            Target::Gpu { name, .. } => name.clone(),
            Target::Host => "host memory".to_owned(),
        },
        repeat: order.repeat,
        bytes: order.model.tensor_bytes(),
        wall_ns: 0,
        setup_ns: 0,
        bytes_per_s: 0.0,
        verified: None,
        route: None,
        phases: PhaseTimes::default(),
        slots: 0,
        host_peak_bytes: None,
        pinned_peak_bytes: None,
        gpu_peak_bytes: None,
        cpu_ns: None,
        settings: BTreeMap::new(),
        settings_why: BTreeMap::new(),
        outside: None,
        setup_parts_ns: BTreeMap::new(),
        workload: None,
        auto_choice: None,
        first_difference: None,
        notes: Vec::new(),
        error: None,
    }
}

fn fill(order: &LaneOrder, sender: &Sender, result: &mut RunResult) -> Result<(), LoadError> {
    sender.send(LaneMessage::Stage { stage: LaneStage::Setup });
    let parts = &mut result.setup_parts_ns;
    let mut at = monotonic_ns();
    parts.insert("process".to_owned(), at.saturating_sub(order.spawned_monotonic_ns));
    let mut part = |name: &str, at: &mut u64| {
        let now = monotonic_ns();
        parts.insert(name.to_owned(), now - *at);
        *at = now;
    };
    let device = match &order.target {
        // A command has its own.
        _ if order.engine.is_outside() => Device::Host,
        Target::Gpu { ordinal, uuid, .. } => Device::Cuda(Arc::new(CudaDevice::open(*ordinal, uuid.as_deref())?)),
        Target::Host => Device::Host,
    };
    part("context", &mut at);
    let found = nixl::plugin_of(&order.engine).map(|plugin| nixl::find().map(|found| (plugin, found))).transpose()?;
    let cufile = if order.engine.opens_cufile() {
        Some(open_cufile(order)?)
    } else if auto::wants_cufile(order) {
        // A choice among engines can do without one of them; the time of the attempt is part of the set-up all the
        // same.
        let opened = open_cufile(order);
        if opened.is_err() {
            let now = monotonic_ns();
            parts.insert("cufile_refused".to_owned(), now - at);
            at = now;
        }
        opened.map_err(|error| result.notes.push(format!("auto chose without cuFile: {error}"))).ok()
    } else {
        None
    };
    if let Some(cufile) = &cufile {
        parts.insert("library".to_owned(), cufile.library_ns);
        parts.insert("driver_open".to_owned(), cufile.driver_open_ns);
        at = monotonic_ns();
    }
    let nixl = match found {
        Some((plugin, found)) => {
            let nixl = Nixl::open(order, plugin, found)?;
            // Added to the parts of cuFile: NIXL's plugins find its library loaded.
            for (name, ns) in
                [("nixl_library", nixl.library_ns), ("nixl_agent", nixl.agent_ns), ("nixl_backend", nixl.backend_ns)]
            {
                parts.insert(name.to_owned(), ns);
            }
            at = monotonic_ns();
            Some(nixl)
        }
        None => None,
    };
    let proven_route = match &cufile {
        Some(cufile) if order.engine == Engine::Auto => {
            let route = auto::prove_route(cufile, &device, order);
            parts.insert("probing_read".to_owned(), monotonic_ns() - at);
            at = monotonic_ns();
            route
        }
        _ => None,
    };
    result.setup_ns = at.saturating_sub(order.spawned_monotonic_ns);

    let counters = Counters::default();
    let context = |clock, resident_before| EngineContext {
        resident_before,
        proven_route,
        order,
        device: &device,
        cufile: cufile.as_ref(),
        nixl: nixl.as_ref(),
        clock,
        counters: &counters,
        stop: AtomicBool::new(false),
        cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    };
    // Costs that a process has only once, such as the pools of libraries and the pages of the heap, can be excluded:
    // loaders that load again and again in one process are compared in this way.
    let warmup = if order.engine.is_outside() { 0 } else { order.settings.get(Setting::Warmup).unwrap_or(0) };
    for _ in 0..warmup {
        let spare = Counters::default();
        super::load(&EngineContext { counters: &spare, ..context(Clock::start(), None) })?;
    }
    if warmup > 0 {
        result.setup_parts_ns.insert("earlier_loads".to_owned(), monotonic_ns() - at);
        result.setup_ns = monotonic_ns().saturating_sub(order.spawned_monotonic_ns);
    }
    // The time between these parts: enabling statistics, searching for libraries.
    let parts: u64 = result.setup_parts_ns.values().sum();
    result.setup_parts_ns.insert("other".to_owned(), result.setup_ns.saturating_sub(parts));
    if !order.engine.is_outside() {
        super::files::raise_open_files();
        super::room::check(&device, context(Clock::start(), None).image_bytes())?;
    }
    sender.send(LaneMessage::Stage { stage: LaneStage::PreparingCache });
    let preparing = context(Clock::start(), None);
    result.notes.extend(cache::prepare(&preparing)?);
    result.cache_resident_before_fraction = cache::resident_fraction(&preparing);
    if order.engine.is_outside() {
        // It is the session's to run; this process was asked for the page cache only.
        return Ok(());
    }

    let free_before = free_gpu_bytes(&device);
    // From here on VmHWM is the peak of the load alone ("5" resets it; proc_pid_clear_refs(5)).
    let peak_reset = std::fs::write("/proc/self/clear_refs", "5").is_ok();
    let (ticker, ticks) = bounded::<()>(0);
    let mut loaded = std::thread::scope(|scope| {
        std::thread::Builder::new()
            .spawn_scoped(scope, || publish(sender, &counters, order.model.tensor_bytes(), &ticks))
            .map_err(|source| LoadError::Threads { threads: 1, source })?;
        let done = measured(&context, order, sender, result);
        drop(ticker);
        done
    })?;
    result.host_peak_bytes = own_peak_bytes().filter(|_| peak_reset);
    result.gpu_peak_bytes =
        free_before.zip(free_gpu_bytes(&device)).map(|(before, after)| before.saturating_sub(after));
    result.pinned_peak_bytes = Some(counters.pinned_peak_bytes.load(Ordering::Relaxed));
    if order.gated {
        // The rest reads files and uses memory bandwidth, so it must not run while the clock of another lane runs.
        super::gate::wait(1, &mut || sender.send(LaneMessage::Waiting { gate: 1 }))?;
    }
    super::gate::to_whole_image(order, &mut loaded.spans)?;
    send_spans(sender, &loaded.spans);
    if order.verify {
        sender.send(LaneMessage::Stage { stage: LaneStage::Verifying });
        let (ticker, ticks) = bounded::<()>(0);
        let verifying = context(Clock::start(), None);
        let outcome = std::thread::scope(|scope| {
            std::thread::Builder::new()
                .spawn_scoped(scope, || publish(sender, &counters, order.model.tensor_bytes(), &ticks))
                .map_err(|source| LoadError::Threads { threads: 1, source })?;
            let outcome = verify::compare(&verifying, &loaded);
            drop(ticker);
            outcome
        })?;
        result.verified = Some(outcome.is_none());
        if let Some(where_) = outcome {
            let because = nixl::plugin_of(&order.engine).map_or("", nixl::if_bytes_differ);
            result.first_difference = Some(format!("{where_}{because}"));
            if let Some(failure) = result.failure() {
                sender.say(LogLevel::Error, format!("{}: {failure}", order.engine));
            }
        }
    }
    drop(loaded);
    Ok(())
}

/// The load itself, between two readings of the clock.
fn measured<'a>(
    context: &impl Fn(Clock, Option<f64>) -> EngineContext<'a>,
    order: &LaneOrder,
    sender: &Sender,
    result: &mut RunResult,
) -> Result<Loaded, LoadError> {
    if order.gated {
        let start = super::gate::wait(0, &mut || sender.send(LaneMessage::Waiting { gate: 0 }))?;
        sender.send_at(start.max(monotonic_ns()), LaneMessage::Stage { stage: LaneStage::Loading });
        super::gate::until(start);
    } else {
        sender.send(LaneMessage::Stage { stage: LaneStage::Loading });
    }
    let cpu_before = cpu_ns();
    let context = context(Clock::start(), result.cache_resident_before_fraction);
    let mut loaded = super::load(&context)?;
    let wall_ns = context.clock.now_ns();
    result.cpu_ns = Some(cpu_ns().saturating_sub(cpu_before));
    if !loaded.staging.is_empty() {
        loaded.staging.drain(..).for_each(Leftover::release);
        context.counters.pinned_bytes.store(0, Ordering::Relaxed);
        result.setup_parts_ns.insert("release_after_clock".to_owned(), context.clock.now_ns() - wall_ns);
    }
    result.wall_ns = wall_ns;
    result.bytes_per_s = units::bytes_per_s(result.bytes, wall_ns).unwrap_or(0.0);
    result.slots = loaded.slots;
    result.phases = Span::phase_times(&loaded.spans, wall_ns, loaded.slots);
    let of_library = context.cufile.and_then(|cufile| cufile.direct_io.clone()).filter(|_| order.engine.opens_cufile());
    loaded.settings.extend(of_library);
    record_settings(order, &loaded.settings, result);
    result.auto_choice.clone_from(&loaded.auto_choice);
    result.notes.extend(loaded.notes.iter().cloned());
    result.route.clone_from(&loaded.route);
    Ok(loaded)
}

/// Records the settings that were used, each with its reason. An ordered one that is not among them is recorded if the engine uses it in another way.
fn record_settings(order: &LaneOrder, used: &[Chosen], result: &mut RunResult) {
    let mut record = |setting: Setting, value: u64, why: &str| {
        result.settings.insert(setting.to_string(), value);
        result.settings_why.insert(setting.to_string(), why.to_owned());
    };
    for setting in Setting::of(&order.engine) {
        // The engines report what they used; NIXL gets what was ordered.
        let elsewhere =
            matches!(order.engine, Engine::Nixl(_)) || [Setting::Warmup, Setting::Cufile].contains(&setting);
        if let Some(value) = order.settings.get(setting).filter(|_| elsewhere) {
            record(setting, value, AS_SET);
        }
    }
    for chosen in used {
        record(chosen.setting, chosen.value, &chosen.why);
    }
    if order.engine.opens_cufile() {
        let kept = std::env::var_os(super::protocol::ENV_KEPT_HEAP).is_some();
        let why = match (order.settings.has(Setting::KeepHeap), kept) {
            (true, _) => AS_SET,
            (false, true) => "cuFile's shadow buffers would be mapped again for each registration",
            (false, false) => "as the library's users have it, or as GLIBC_TUNABLES says",
        };
        record(Setting::KeepHeap, u64::from(kept), why);
    }
}

/// Sends all spans, cut into messages.
pub(crate) fn send_spans(sender: &Sender, spans: &[Span]) {
    for spans in spans.chunks(SPANS_A_FRAME) {
        sender.send(LaneMessage::Spans { spans: PackedSpans::pack(spans) });
    }
}

/// Sends the counters on a schedule until the other end of `ticks` is dropped, and once more then.
pub(crate) fn publish(sender: &Sender, counters: &Counters, total_bytes: u64, ticks: &Receiver<()>) {
    loop {
        let ended = ticks.recv_timeout(PUBLISH_EVERY) != Err(RecvTimeoutError::Timeout);
        sender.send(LaneMessage::Progress {
            // Engines that read complete blocks count headers and padding too.
            landed_bytes: counters.landed_bytes.load(Ordering::Relaxed).min(total_bytes),
            pinned_bytes: counters.pinned_bytes.load(Ordering::Relaxed),
            verified_bytes: counters.verified_bytes.load(Ordering::Relaxed),
        });
        if ended {
            return;
        }
    }
}

/// CPU time of this process, user and system.
pub(crate) fn cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as u64 * units::NS_PER_S + now.tv_nsec as u64
}

/// VmHWM of this process.
pub(crate) fn own_peak_bytes() -> Option<u64> {
    procfs::process::Process::myself().and_then(|p| p.status()).ok()?.vmhwm.map(|kib| kib * units::KIB)
}
