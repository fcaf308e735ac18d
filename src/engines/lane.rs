//! Loads a model in a run process: set-up, page cache, the measured load, verification.

use super::clock::Clock;
use super::context::{Counters, EngineContext, Leftover, Loaded};
use super::cufile::CuFile;
use super::direct_io::open_cufile;
use super::error::LoadError;
use super::life_cycle::{
    Peaks, Sender, SetupParts, cpu_ns, lane_process, open_device, send_spans, verify as verify_run, with_progress,
};
use super::nixl_library::{self as nixl, Nixl};
use super::protocol::{LaneMessage, monotonic_ns};
use super::settings::{AS_SET, Chosen};
use super::verify;
use super::{auto, cache};
use crate::core::{Engine, LaneOrder, LaneStage, LogLevel, Note, Route, RunResult, Setting, SettingName, Span, units};
use crate::device::Device;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs one load. Returns the exit status of the process: 0 if a result was sent (also a result with an error), 2 if
/// the order could not be read.
#[must_use]
pub fn run_lane() -> u8 {
    lane_process(fill)
}

/// A run after its set-up.
struct Ready<'o> {
    order: &'o LaneOrder,
    device: Device,
    cufile: Option<CuFile>,
    nixl: Option<Nixl>,
    proven_route: Option<Route>,
}

impl Ready<'_> {
    /// The input of an engine. Its clock starts now.
    fn context<'a>(&'a self, counters: &'a Counters, resident_before: Option<f64>) -> EngineContext<'a> {
        EngineContext {
            resident_before,
            proven_route: self.proven_route,
            order: self.order,
            device: &self.device,
            cufile: self.cufile.as_ref(),
            nixl: self.nixl.as_ref(),
            clock: Clock::start(),
            counters,
            stop: AtomicBool::new(false),
            cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        }
    }

    /// Loads the model before the measured load. This excludes one-time work of a process, such as filling the pools
    /// of libraries and touching the heap. Loaders that load many models in one process are compared this way.
    fn warm_up(&self, parts: &mut SetupParts) -> Result<(), LoadError> {
        let loads = self.order.settings.get(Setting::Warmup).unwrap_or(0);
        for _ in 0..loads {
            super::load::load(&self.context(&Counters::default(), None))?;
        }
        if loads > 0 {
            parts.end("earlier_loads");
        }
        Ok(())
    }
}

fn set_up<'o>(order: &'o LaneOrder, parts: &mut SetupParts, notes: &mut Vec<Note>) -> Result<Ready<'o>, LoadError> {
    // A command opens the device itself.
    let device = if order.engine.is_outside() { Device::Host } else { open_device(&order.target)? };
    parts.end("context");
    let found = order.engine.nixl_plugin().map(|plugin| nixl::find().map(|found| (plugin, found))).transpose()?;
    let cufile = if order.engine.opens_cufile() {
        Some(open_cufile(order)?)
    } else if auto::wants_cufile(order) {
        // `auto` works without cuFile too. The time of the failed open is part of the set-up.
        let opened = open_cufile(order);
        if opened.is_err() {
            parts.end("cufile_refused");
        }
        opened.map_err(|error| notes.push(Note::AutoWithoutCufile { error: error.to_string() })).ok()
    } else {
        None
    };
    if let Some(cufile) = &cufile {
        parts.split("library", cufile.library_ns);
        parts.split("driver_open", cufile.driver_open_ns);
    }
    let nixl = found.map(|(plugin, found)| Nixl::open(plugin, &nixl::params(order, plugin), found)).transpose()?;
    if let Some(nixl) = &nixl {
        // The time is in addition to that of cuFile, because NIXL's plugins use the loaded library.
        parts.split("nixl_library", nixl.library_ns);
        parts.split("nixl_agent", nixl.agent_ns);
        parts.split("nixl_backend", nixl.backend_ns);
    }
    let proven_route = match &cufile {
        Some(cufile) if order.engine == Engine::Auto => {
            let route = auto::prove_route(cufile, &device, order);
            parts.end("probing_read");
            route
        }
        _ => None,
    };
    Ok(Ready { order, device, cufile, nixl, proven_route })
}

fn fill(order: &LaneOrder, sender: &Sender, result: &mut RunResult) -> Result<(), LoadError> {
    sender.send(LaneMessage::Stage { stage: LaneStage::Setup });
    let mut parts = SetupParts::new(order.spawned_monotonic_ns);
    parts.end("process");
    let ready = set_up(order, &mut parts, &mut result.notes);
    result.setup_parts_ns.clone_from(&parts.parts);
    let ready = ready?;
    let is_outside = order.engine.is_outside();
    if !is_outside {
        ready.warm_up(&mut parts)?;
    }
    result.setup_ns = parts.elapsed_ns();
    // The remaining set-up time, for example for enabling statistics and searching for libraries.
    let other = result.setup_ns.saturating_sub(parts.sum_ns());
    result.setup_parts_ns = parts.parts;
    result.setup_parts_ns.insert("other".to_owned(), other);
    let counters = Counters::default();
    if !is_outside {
        super::files::raise_open_files();
        super::room::check(&ready.device, ready.context(&counters, None).image_bytes())?;
    }
    sender.send(LaneMessage::Stage { stage: LaneStage::PreparingCache });
    let preparing = ready.context(&counters, None);
    result.notes.extend(cache::prepare(&preparing)?);
    result.cache_resident_before_fraction = cache::resident_fraction(&preparing);
    if is_outside {
        // The session runs the command. This process only prepares the page cache.
        return Ok(());
    }

    let mut peaks = Peaks::begin(&ready.device);
    peaks.reset_host();
    let mut loaded = with_progress(sender, &counters, order, || measured(&ready, &counters, sender, result))?;
    peaks.record(&ready.device, &counters, result);
    if order.gated {
        // Verification reads files and uses memory bandwidth, so it must not run during the measured time of other
        // runs.
        super::gate::wait(1, &mut || sender.send(LaneMessage::Waiting { gate: 1 }))?;
    }
    super::gate::to_complete_image(order, &mut loaded.spans)?;
    send_spans(sender, &loaded.spans);
    if order.verify {
        let verifying = ready.context(&counters, None);
        let because = order.engine.nixl_plugin().map_or("", nixl::if_bytes_differ);
        verify_run(sender, &counters, order, result, || {
            Ok(verify::compare(&verifying, &loaded)?.map(|difference| format!("{difference}{because}")))
        })?;
        if let Some(failure) = result.failure() {
            sender.say(LogLevel::Error, format!("{}: {failure}", order.engine));
        }
    }
    Ok(())
}

/// The load itself, between start and stop of the clock.
fn measured(
    ready: &Ready<'_>,
    counters: &Counters,
    sender: &Sender,
    result: &mut RunResult,
) -> Result<Loaded, LoadError> {
    let order = ready.order;
    if order.gated {
        let start = super::gate::wait(0, &mut || sender.send(LaneMessage::Waiting { gate: 0 }))?;
        sender.send_at(start.max(monotonic_ns()), LaneMessage::Stage { stage: LaneStage::Loading });
        super::gate::until(start);
    } else {
        sender.send(LaneMessage::Stage { stage: LaneStage::Loading });
    }
    let cpu_before = cpu_ns();
    let context = ready.context(counters, result.cache_resident_before_fraction);
    let mut loaded = super::load::load(&context)?;
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
    result.repeated_reads = loaded.repeated_reads;
    Ok(loaded)
}

/// Records the settings that were used, each with its reason. A setting of the user that the engine did not report is
/// recorded if the engine uses it in another way.
fn record_settings(order: &LaneOrder, used: &[Chosen], result: &mut RunResult) {
    let mut record = |setting: Setting, value: u64, why: &str| {
        result.settings.insert(SettingName::Engine(setting), value);
        result.settings_why.insert(SettingName::Engine(setting), why.to_owned());
    };
    for setting in Setting::of(&order.engine) {
        // Most engines report the settings that they used. NIXL uses the user's values directly.
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
            (false, true) => "otherwise cuFile's shadow buffers are mapped again for each registration",
            (false, false) => "the default of the C library, or the value in GLIBC_TUNABLES",
        };
        record(Setting::KeepHeap, u64::from(kept), why);
    }
}
