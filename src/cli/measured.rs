//! Finds the measured loads for predictions: recordings, reports and shipped recordings.

use super::report_file;
use crate::analysis::{self, Prediction, Shape, Threads, Timings};
use crate::core::{CacheState, Machine, Setting, cached_before, units};
use crate::engines;
use crate::present::SessionAnalysis;
use crate::present::prediction::{Model, Predicted};
use crate::session::{State, recording, shipped};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// (bytes of the model, CPUs) → (threads, slots, bytes of a slot).
type Rule = fn(u64, usize) -> (u64, u64, u64);

/// The runs of an engine in one recording or report.
pub(super) struct Source {
    pub(super) timings: Timings,
    /// The name of the recording or report.
    pub(super) from: String,
    /// The memory of the target GPU in bytes. `None` if it is unknown, and for host memory.
    pub(super) gpu_bytes: Option<u64>,
}

impl Source {
    pub(super) fn measured_bytes(&self) -> u64 {
        self.timings.runs.first().map_or(0, |run| run.bytes)
    }

    /// The measured threads and the settings that the engine would use for a model of this size. `None` if the engine
    /// does not choose threads by size.
    fn settings_for(&self, bytes: u64) -> Option<(u64, (u64, u64, u64))> {
        let of = |setting: Setting| self.timings.settings.get(setting.name()).copied();
        let used = (of(Setting::Threads)?, of(Setting::Slots)?, of(Setting::BlockBytes)?);
        let cpus = self.timings.cpus? as usize;
        let rules: [Rule; 2] = [engines::pread_settings, earlier_settings];
        let rule = rules.into_iter().find(|rule| rule(self.measured_bytes(), cpus) == used)?;
        Some((used.0, rule(bytes, cpus)))
    }

    /// The prediction for a model. `None` if nothing can be predicted.
    pub(super) fn predicted(&self, model: &Model) -> Option<Predicted<'_>> {
        Some(Predicted {
            prediction: self.predict(&model.sizes_bytes)?,
            timings: &self.timings,
            from: &self.from,
            gpu_bytes: self.gpu_bytes,
            more_threads: self.unbounded(model.bytes()),
        })
    }

    /// Whether the engine uses more threads for a model of this size than were measured, and their ceiling is
    /// unknown.
    fn unbounded(&self, bytes: u64) -> bool {
        let more = self.settings_for(bytes).is_some_and(|(used, (threads, ..))| threads > used);
        more && self.timings.cache == CacheState::Hot && self.timings.ceiling_bytes_per_s.is_none()
    }

    pub(super) fn predict(&self, sizes_bytes: &[u64]) -> Option<Prediction> {
        let bytes = sizes_bytes.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        let settings = self.settings_for(bytes);
        // The disk limits cold loads, independent of the number of threads.
        let ceiling = self.timings.ceiling_bytes_per_s.filter(|_| self.timings.cache == CacheState::Hot);
        let threads = settings.zip(ceiling).map(|((used, (threads, ..)), ceiling_bytes_per_s)| Threads {
            times: threads as f64 / used.max(1) as f64,
            ceiling_bytes_per_s,
        });
        let pinned_bytes = settings.map(|(_, (threads, slots, block_bytes))| threads * slots * block_bytes);
        analysis::predict(&self.timings.runs, &Shape { sizes_bytes: sizes_bytes.to_vec(), pinned_bytes, threads })
    }
}

/// The defaults of `pread` at the time of the first recordings. Predictions from them use these.
fn earlier_settings(model_bytes: u64, cpus: usize) -> (u64, u64, u64) {
    let cpus = cpus.max(1) as u64;
    match model_bytes {
        more if more > 4 * units::GIB => (cpus.min(16), 2, 4 * units::MIB),
        more if more > 512 * units::MIB => (cpus.min(8), 4, 2 * units::MIB),
        _ => engines::pread_settings(model_bytes, cpus as usize),
    }
}

/// The measured loads of recordings and reports.
#[derive(Default)]
pub(super) struct Sources {
    pub(super) all: Vec<Source>,
    /// The recordings and reports with runs that should be cold and were not, and the number of these runs. Predictions
    /// do not use them.
    pub(super) not_cold: Vec<(String, u64)>,
}

/// The runs of the named recordings and reports. By default they are those of the shipped recordings.
pub(super) fn sources(from: &[PathBuf]) -> Result<Sources, String> {
    let mut sources = Sources::default();
    let mut add = |name: &str, Measured { timings, machine, not_cold }: Measured| {
        sources.all.extend(timings.into_iter().map(|timings| {
            let gpu_bytes = machine.as_ref().and_then(|machine| gpu_bytes(machine, timings.target.as_str()));
            Source { timings, from: name.to_owned(), gpu_bytes }
        }));
        if not_cold > 0 {
            sources.not_cold.push((name.to_owned(), not_cold));
        }
    };
    if from.is_empty() {
        for shipped in [shipped::SMALL, shipped::LARGE] {
            add(shipped.name, measured(&shipped.state().map_err(|e| e.to_string())?));
        }
        return Ok(sources);
    }
    for path in from {
        let name = path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
        add(&name, if name.ends_with(".json") { reported(path)? } else { recorded(path)? });
    }
    Ok(sources)
}

/// The measured loads and the machine on which they ran.
struct Measured {
    timings: Vec<Timings>,
    machine: Option<Machine>,
    /// The number of runs that should be cold and were not.
    not_cold: u64,
}

fn measured(state: &State) -> Measured {
    let analysis = SessionAnalysis::new(state);
    let not_cold = analysis.not_cold().count() as u64;
    Measured { timings: analysis.timings(), machine: state.machine.clone(), not_cold }
}

/// The memory of the smallest GPU with this name in the machine.
fn gpu_bytes(machine: &Machine, name: &str) -> Option<u64> {
    machine.gpus.iter().filter(|gpu| gpu.name == name).filter_map(|gpu| gpu.memory_total_bytes).min()
}

fn recorded(path: &Path) -> Result<Measured, String> {
    let mut state = State::default();
    for event in recording::read(path).map_err(|e| e.to_string())? {
        state.reduce(&event.map_err(|e| e.to_string())?);
    }
    Ok(measured(&state))
}

/// The fields of report.json that predictions use.
#[derive(Deserialize)]
struct Report {
    analysis: Analysis,
    #[serde(default)]
    machine: Option<Machine>,
    #[serde(default)]
    runs: Vec<Run>,
}

/// The fields of a run that show whether it was cold.
#[derive(Deserialize)]
struct Run {
    cache: CacheState,
    #[serde(default)]
    cache_resident_before_fraction: Option<f64>,
    #[serde(default)]
    verified: Option<bool>,
    #[serde(default)]
    error: Option<String>,
}

impl Run {
    fn is_not_cold(&self) -> bool {
        let loaded = self.error.is_none() && self.verified != Some(false);
        loaded && cached_before(self.cache, self.cache_resident_before_fraction).is_some()
    }
}

#[derive(Deserialize)]
struct Analysis {
    timings: Vec<Timings>,
}

fn reported(path: &Path) -> Result<Measured, String> {
    let text = report_file::read(path)?;
    let bad = |e: serde_json::Error| format!("{} is not a report of gds-top: {e}", path.display());
    let report: Report = serde_json::from_slice(&text).map_err(bad)?;
    let not_cold = report.runs.iter().filter(|run| run.is_not_cold()).count() as u64;
    Ok(Measured { timings: report.analysis.timings, machine: report.machine, not_cold })
}
