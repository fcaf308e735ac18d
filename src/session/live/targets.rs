//! Finds the requested targets on this machine.

use super::bus::Bus;
use super::child::{PROBE_LIMIT, probe_child};
use super::plan::GpuChoice;
use crate::core::{Engine, EventBody, LogLevel, Target};
use crate::device::CudaInfo;
use std::path::Path;

/// The targets of the bytes, from CUDA in a child process. There is at least one. Without a GPU it is host memory,
/// which is reported.
///
/// # Errors
/// Returns a sentence if the user named a GPU that does not exist or cannot be used. Host memory is not used as a
/// substitute in this case.
pub(super) fn targets(bus: &Bus, exe: &Path, choice: &GpuChoice) -> Result<Vec<Target>, String> {
    let choices = match choice {
        GpuChoice::Several(choices) if !choices.is_empty() => choices.as_slice(),
        one => std::slice::from_ref(one),
    };
    if choice.is_host() {
        return Ok(choices.iter().map(|_| Target::Host).collect());
    }
    let devices = match devices(exe) {
        Ok(devices) if devices.is_empty() => Err("CUDA offers none".to_owned()),
        other => other,
    };
    let devices = match devices {
        Ok(devices) => devices,
        Err(error) if choices.iter().any(GpuChoice::names_a_gpu) => {
            return Err(format!("no GPU can be used: {error}; pass --gpu host to use host memory"));
        }
        Err(error) => {
            bus.say(LogLevel::Warn, format!("no GPU can be used, so models are loaded into host memory: {error}"));
            return Ok(choices.iter().map(|_| Target::Host).collect());
        }
    };
    let chosen = choices.iter().map(|choice| chosen(choice, &devices)).collect::<Result<Vec<_>, _>>()?;
    Ok(chosen.into_iter().flatten().collect())
}

/// The engines that can load a part of a model. Engines that can only load complete models are removed if one model
/// is divided among several targets.
pub(super) fn that_take_parts(bus: &Bus, mut engines: Vec<Engine>, models: usize, targets: usize) -> Vec<Engine> {
    if models == 1 && targets > 1 {
        for engine in engines.iter().filter(|engine| engine.is_outside()) {
            let why = format!(
                "an external loader cannot load a part of a model, and this model would be divided among {targets} targets; select one target with --gpu"
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
            "there is no GPU {asked}: CUDA lists {}; pass one of them with --gpu, or 'host' for host memory",
            have.join(" and ")
        ));
    }
    let target = |d: &&CudaInfo| Target::Gpu { ordinal: d.ordinal, uuid: Some(d.uuid.clone()), name: d.name.clone() };
    Ok(found.iter().map(target).collect())
}

fn devices(exe: &Path) -> Result<Vec<CudaInfo>, String> {
    let answer = probe_child(exe, &["__probe-cuda"], PROBE_LIMIT)?;
    match answer.get("devices") {
        Some(devices) => serde_json::from_value(devices.clone()).map_err(|e| e.to_string()),
        None => Err(answer.get("error").and_then(|e| e.as_str()).unwrap_or("CUDA did not respond").to_owned()),
    }
}
