//! Ceilings on behalf of the session: measured in a child, so that the screen opens no CUDA context.

use super::bus::Bus;
use super::child::probe_child;
use crate::domain::{CacheState, Ceiling, EventBody, LogLevel, ModelInfo, Target};
use std::path::Path;
use std::time::Duration;

/// Measuring takes some six seconds; a disk that answers slowly may need more.
const LIMIT: Duration = Duration::from_secs(120);

/// Measures the copies to every target and the reads of every model, and tells them.
pub(super) fn measure(bus: &Bus, exe: &Path, models: &[ModelInfo], targets: &[Target], caches: &[CacheState]) {
    bus.say(LogLevel::Info, "ceilings are measured first: pinned copies, O_DIRECT reads, reads from the page cache");
    let mut gpus: Vec<String> = Vec::new();
    for gpu in targets.iter().filter_map(gpu_of) {
        if !gpus.contains(&gpu) {
            gpus.push(gpu);
        }
    }
    let keep_cache = caches.contains(&CacheState::AsIs);
    let rounds = gpus.len().max(models.len());
    for number in 0..rounds {
        let (gpu, model) = (gpus.get(number), models.get(number));
        let Some(path) = model.or(models.first()).map(|m| m.path.to_string_lossy().into_owned()) else { return };
        let mut arguments = vec!["__ceilings", path.as_str()];
        if let Some(gpu) = gpu {
            arguments.extend(["--gpu", gpu.as_str()]);
        }
        if model.is_none() {
            arguments.push("--copies-only");
        }
        if keep_cache {
            arguments.push("--keep-cache");
        }
        match probe_child(exe, &arguments, LIMIT) {
            Ok(answer) => tell(bus, &answer, model),
            Err(error) => bus.say(LogLevel::Warn, format!("the ceilings were not measured: {error}")),
        }
    }
}

fn tell(bus: &Bus, answer: &serde_json::Value, model: Option<&ModelInfo>) {
    for ceiling in answer["ceilings"].as_array().into_iter().flatten() {
        if let Ok(mut ceiling) = serde_json::from_value::<Ceiling>(ceiling.clone()) {
            // Names of the session, where two models would have the same.
            if let Some(model) = model.filter(|_| ceiling.model.is_some()) {
                ceiling.model = Some(model.name.clone());
            }
            bus.emit(EventBody::CeilingMeasured { ceiling });
        }
    }
    for gap in answer["gaps"].as_array().into_iter().flatten().filter_map(|gap| gap.as_str()) {
        bus.say(LogLevel::Warn, gap);
    }
}

/// How a ceiling names the GPU of a target.
fn gpu_of(target: &Target) -> Option<String> {
    match target {
        Target::Gpu { uuid: Some(uuid), .. } => Some(uuid.clone()),
        Target::Gpu { ordinal, uuid: None, .. } => Some(ordinal.to_string()),
        Target::Host => None,
    }
}
