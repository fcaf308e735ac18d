//! Finds the requested targets on this machine.

use super::bus::Bus;
use super::child::{PROBE_LIMIT, probe_child};
use super::plan::GpuChoice;
use crate::core::{Engine, EventBody, LogLevel, Target};
use crate::device::CudaInfo;
use std::path::Path;
use std::sync::OnceLock;

/// The reason why a GPU that the user named cannot be used. `None` if it can be used, or if no GPU was named.
#[must_use]
pub fn missing_gpu(exe: &Path, choice: &GpuChoice) -> Option<String> {
    if choice.names_a_gpu() { on_gpus(devices(exe), choice.each()).err() } else { None }
}

/// The targets of the bytes, from CUDA in a child process. There is at least one. Without a GPU it is host memory,
/// which is reported. `has_none` is whether the checks of this session reported that there is no GPU: then the failure
/// of CUDA is its consequence.
///
/// # Errors
/// Returns a sentence if the user named a GPU that does not exist or cannot be used. Host memory is not used as a
/// substitute in this case.
pub(super) fn targets(bus: &Bus, exe: &Path, choice: &GpuChoice, has_none: bool) -> Result<Vec<Target>, String> {
    let choices = choice.each();
    if choice.is_host() {
        return Ok(choices.iter().map(|_| Target::Host).collect());
    }
    let devices = devices(exe);
    if let Some(error) = devices.as_ref().err().filter(|_| !choice.names_a_gpu()) {
        if has_none {
            bus.say(LogLevel::Info, "data goes to host memory");
        } else {
            bus.say(LogLevel::Warn, format!("no GPU can be used, so data goes to host memory: {error}"));
        }
        return Ok(choices.iter().map(|_| Target::Host).collect());
    }
    on_gpus(devices, choices)
}

/// The targets among these devices.
fn on_gpus(devices: Result<Vec<CudaInfo>, String>, choices: &[GpuChoice]) -> Result<Vec<Target>, String> {
    let devices =
        devices.map_err(|error| format!("no GPU can be used: {error}; pass --target host to use host memory"))?;
    let chosen = choices.iter().map(|choice| chosen(choice, &devices)).collect::<Result<Vec<_>, _>>()?;
    Ok(chosen.into_iter().flatten().collect())
}

/// The engines that can load a part of a model. Engines that can only load complete models are removed if one model
/// is divided among several targets.
pub(super) fn that_take_parts(bus: &Bus, mut engines: Vec<Engine>, models: usize, targets: usize) -> Vec<Engine> {
    if models == 1 && targets > 1 {
        for engine in engines.iter().filter(|engine| engine.is_outside()) {
            let why = format!(
                "an external loader cannot load a part of a model, and this model would be divided among {targets} targets; select one target with --target"
            );
            bus.emit(EventBody::EngineUnavailable { engine: engine.clone(), why });
        }
        engines.retain(|engine| !engine.is_outside());
    }
    engines
}

fn chosen(choice: &GpuChoice, devices: &[CudaInfo]) -> Result<Vec<Target>, String> {
    let found: Vec<&CudaInfo> = match choice {
        GpuChoice::Host => return Ok(vec![Target::Host]),
        GpuChoice::All => devices.iter().collect(),
        GpuChoice::Uuid(uuid) => devices.iter().filter(|d| d.uuid.eq_ignore_ascii_case(uuid)).take(1).collect(),
        GpuChoice::Index(index) => devices.iter().filter(|d| d.ordinal == *index).take(1).collect(),
        GpuChoice::Auto | GpuChoice::Several(_) => devices.iter().take(1).collect(),
    };
    if found.is_empty() {
        let have: Vec<String> = devices.iter().map(|d| format!("{} ({}, {})", d.ordinal, d.name, d.uuid)).collect();
        let asked = match choice {
            GpuChoice::Uuid(uuid) => uuid.clone(),
            GpuChoice::Index(index) => index.to_string(),
            _ => "of any kind".to_owned(),
        };
        return Err(format!(
            "there is no GPU {asked}: CUDA lists {}; pass one of them with --target, or 'host' for host memory",
            have.join(" and ")
        ));
    }
    let target = |d: &&CudaInfo| Target::Gpu { ordinal: d.ordinal, uuid: Some(d.uuid.clone()), name: d.name.clone() };
    Ok(found.iter().map(target).collect())
}

/// The GPUs that CUDA lists. CUDA takes seconds to start on a machine with many GPUs, so it is asked once.
fn devices(exe: &Path) -> Result<Vec<CudaInfo>, String> {
    static KNOWN: OnceLock<Vec<CudaInfo>> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(known.clone());
    }
    let answer = probe_child(exe, &["__probe-cuda"], PROBE_LIMIT)?;
    let devices: Vec<CudaInfo> = match answer.get("devices") {
        Some(devices) => serde_json::from_value(devices.clone()).map_err(|e| e.to_string())?,
        None => return Err(answer.get("error").and_then(|e| e.as_str()).unwrap_or("CUDA did not respond").to_owned()),
    };
    if devices.is_empty() {
        return Err("CUDA offers none".to_owned());
    }
    Ok(KNOWN.get_or_init(|| devices).clone())
}
