//! Measures the ceilings of a session. A child process measures them, so that the screens' process opens no CUDA
//! context.

use super::bus::Bus;
use super::child::child_until;
use super::session::{Heard, Session};
use crate::core::{CacheState, Ceiling, EventBody, LogLevel, ModelInfo, ReadPass, Target};
use crossbeam_channel::{Receiver, bounded};
use std::path::Path;
use std::time::Duration;

/// Measuring takes about six seconds, and a slow disk may need more.
const LIMIT: Duration = Duration::from_secs(120);

/// The measurement of a disk that is slower than this is abandoned.
const SLOWEST_BYTES_PER_S: u64 = 20 << 20;

/// The plain readers of each model's files. They read once for each round of cold loads.
#[derive(Debug, Default)]
pub(super) struct Readers(Vec<(ModelInfo, Ceiling)>);

/// Measures the copies to every target and the reads of every model, and emits the ceilings. Returns the plain
/// readers that read the files between cold loads. Short reads are not enough: a burst of under a second shows caches
/// and burst credits of a virtual disk, and the speed of a disk changes over minutes.
fn measure(
    bus: &Bus,
    exe: &Path,
    models: &[ModelInfo],
    targets: &[Target],
    caches: &[CacheState],
    cancelled: &mut dyn FnMut() -> bool,
) -> Readers {
    bus.say(LogLevel::Info, "ceilings are measured first: pinned copies, O_DIRECT reads, reads from the page cache");
    let mut gpus: Vec<String> = Vec::new();
    for gpu in targets.iter().filter_map(gpu_of) {
        if !gpus.contains(&gpu) {
            gpus.push(gpu);
        }
    }
    let (keep_cache, passes_follow) = (caches.contains(&CacheState::AsIs), caches.contains(&CacheState::Cold));
    let mut readers = Readers::default();
    let rounds = gpus.len().max(models.len());
    for number in 0..rounds {
        let (gpu, model) = (gpus.get(number), models.get(number));
        let Some(path) = model.or(models.first()).map(|m| m.path.to_string_lossy().into_owned()) else { break };
        let mut arguments = vec!["__ceilings", path.as_str()];
        if let Some(gpu) = gpu {
            arguments.extend(["--target", gpu.as_str()]);
        }
        if model.is_none() {
            arguments.push("--copies-only");
        }
        if keep_cache {
            arguments.push("--keep-cache");
        }
        if passes_follow {
            arguments.push("--passes-follow");
        }
        let answer = child_until(exe, &arguments, limit(model), cancelled);
        if cancelled() {
            break;
        }
        match answer {
            Ok(answer) => {
                let all_measured = send_answer(bus, &answer, model);
                let direct = all_measured.into_iter().filter(|ceiling| ceiling.reader.is_some() && passes_follow);
                readers.0.extend(direct.zip(model).map(|(ceiling, model)| (model.clone(), ceiling)));
            }
            Err(error) => bus.say(LogLevel::Warn, format!("the ceilings were not measured: {error}")),
        }
    }
    readers
}

/// Time limit that is enough to read the model once from a slow disk.
fn limit(model: Option<&ModelInfo>) -> Duration {
    let bytes = model.map_or(0, |m| m.shards.iter().fold(0, |sum: u64, s| sum.saturating_add(s.file_bytes)));
    LIMIT + Duration::from_secs(bytes / SLOWEST_BYTES_PER_S)
}

impl Session {
    /// Measures the ceilings while commands are handled.
    pub(super) fn ceilings(&self, models: &[ModelInfo], targets: &[Target]) -> (Readers, Heard) {
        let (cancel, cancelled) = bounded(1);
        let mut is_cancelled = once_over(&cancelled);
        let (exe, caches) = (&self.config.exe, &self.config.caches);
        let measured =
            self.while_listening(vec![cancel], || measure(&self.bus, exe, models, targets, caches, &mut is_cancelled));
        measured.unwrap_or_else(|why| {
            self.bus.say(LogLevel::Warn, format!("the ceilings were not measured: {why}"));
            Default::default()
        })
    }

    /// Runs the plain readers for a round of cold loads while commands are handled.
    pub(super) fn read_pass(&self, readers: &mut Readers, round: u32) -> Heard {
        let (cancel, cancelled) = bounded(1);
        let mut is_cancelled = once_over(&cancelled);
        let read =
            self.while_listening(vec![cancel], || readers.pass(&self.bus, &self.config.exe, round, &mut is_cancelled));
        read.map_or_else(
            |why| {
                self.bus.say(LogLevel::Warn, format!("the plain reader did not read in round {round}: {why}"));
                Heard::default()
            },
            |((), heard)| heard,
        )
    }
}

/// Returns a function that checks for cancellation. After the first cancellation it always returns true.
fn once_over(cancelled: &Receiver<()>) -> impl FnMut() -> bool + '_ {
    let mut over = false;
    move || {
        over |= cancelled.try_recv().is_ok();
        over
    }
}

impl Readers {
    /// Reads all files of every model once, for the loads of `round`.
    pub(super) fn pass(&mut self, bus: &Bus, exe: &Path, round: u32, cancelled: &mut dyn FnMut() -> bool) {
        for (model, ceiling) in &mut self.0 {
            let Some(reader) = ceiling.reader else { continue };
            let path = model.path.to_string_lossy().into_owned();
            let (block, threads) = (reader.block_bytes.to_string(), reader.threads.to_string());
            let answer = child_until(exe, &["__read-pass", &path, &block, &threads], limit(Some(model)), cancelled);
            if cancelled() {
                return;
            }
            let error = match answer {
                Ok(answer) => match (answer["bytes_per_s"].as_f64(), answer["took_ns"].as_u64()) {
                    (Some(bytes_per_s), Some(took_ns)) if bytes_per_s > 0.0 => {
                        ceiling.add_pass(ReadPass { round, bytes_per_s }, took_ns);
                        bus.emit(EventBody::CeilingMeasured { ceiling: ceiling.clone() });
                        continue;
                    }
                    _ => answer["error"].as_str().unwrap_or("it returned no rate").to_owned(),
                },
                Err(error) => error,
            };
            bus.say(LogLevel::Warn, format!("the plain reader did not read {} in round {round}: {error}", model.name));
        }
    }
}

/// Emits the measurements of a child process and returns them.
fn send_answer(bus: &Bus, answer: &serde_json::Value, model: Option<&ModelInfo>) -> Vec<Ceiling> {
    let mut all_measured = Vec::new();
    for ceiling in answer["ceilings"].as_array().into_iter().flatten() {
        if let Ok(mut ceiling) = serde_json::from_value::<Ceiling>(ceiling.clone()) {
            // The session's model name is used, because two models could have the same name.
            if let Some(model) = model.filter(|_| ceiling.model.is_some()) {
                ceiling.model = Some(model.name.clone());
            }
            bus.emit(EventBody::CeilingMeasured { ceiling: ceiling.clone() });
            all_measured.push(ceiling);
        }
    }
    for gap in answer["gaps"].as_array().into_iter().flatten().filter_map(|gap| gap.as_str()) {
        bus.say(LogLevel::Warn, gap);
    }
    all_measured
}

/// The UUID of a target's GPU, for a ceiling.
fn gpu_of(target: &Target) -> Option<String> {
    match target {
        Target::Gpu { uuid: Some(uuid), .. } => Some(uuid.clone()),
        Target::Gpu { ordinal, uuid: None, .. } => Some(ordinal.to_string()),
        Target::Host => None,
    }
}
