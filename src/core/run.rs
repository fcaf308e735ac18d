//! The order for one run and its result.

use super::engine::{CacheState, Engine, Target, TargetName};
use super::failure::Failure;
use super::model::ModelInfo;
use super::note::Note;
use super::phase::PhaseTimes;
use super::route::Route;
use super::settings::EngineSettings;
use super::settings::SettingName;
use super::spec::Setting;
use super::workload::{WorkloadOrder, WorkloadResult};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The number of a run within a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LaneId(pub u32);

/// The order of a run. Its process reads it from standard input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaneOrder {
    /// The engine.
    pub engine: Engine,
    /// The model, parsed by the session. It is shared, because a race of a thousand runs plans a thousand orders.
    #[serde(with = "shared")]
    pub model: Arc<ModelInfo>,
    /// The cache state to prepare before the run.
    pub cache: CacheState,
    /// The target.
    pub target: Target,
    /// The number of this repeat, from 0.
    pub repeat: u32,
    /// Whether the bytes on the target are compared with the file after the load.
    pub verify: bool,
    /// The settings that the user set. The engine chooses the others.
    pub settings: EngineSettings,
    /// The time limit of a command or loader in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_s: Option<u64>,
    /// The libcufile that the session found. If it is `None`, the process searches for it.
    pub libcufile: Option<PathBuf>,
    /// The directory for cufile.log and other files of the process.
    pub scratch: PathBuf,
    /// The value of `CLOCK_MONOTONIC` in nanoseconds when the session started the process. The set-up time starts
    /// here.
    pub spawned_monotonic_ns: u64,
    /// The range of each file that this run loads, if the model is divided among several targets. `model` then has
    /// only the tensors and parts of tensors in these ranges. Ranges start at multiples of 4 KiB. It is empty for the
    /// complete model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<std::ops::Range<u64>>,
    /// Whether the run is part of a group. It then waits for a message before it starts its clock, and again before
    /// it verifies.
    #[serde(default)]
    pub gated: bool,
    /// Whether the target is filled with a pattern before the clock starts, so that missing bytes are detected.
    pub poison: bool,
    /// Whether the complete page cache is dropped if files of the model stay in it before a cold run.
    #[serde(default)]
    pub drop_caches: bool,
    /// The order of a workload. `None` for loads of models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadOrder>,
}

/// Serializes a shared model like a model.
mod shared {
    use super::ModelInfo;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::sync::Arc;

    pub(super) fn serialize<S: Serializer>(model: &Arc<ModelInfo>, serializer: S) -> Result<S::Ok, S::Error> {
        model.as_ref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<ModelInfo>, D::Error> {
        ModelInfo::deserialize(deserializer).map(Arc::new)
    }
}

/// The reads per route and the source of the counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteCounts {
    /// The route that these counts show.
    pub route: Route,
    /// The reads with nvidia-fs.
    pub nvfs_reads: Option<u64>,
    /// The reads with P2PDMA.
    pub p2p_reads: Option<u64>,
    /// The POSIX reads inside libcufile (compat mode).
    pub posix_reads: Option<u64>,
    /// The source: `cuFile level-3 statistics`, `/proc/driver/nvidia-fs/stats`, or the reason why there is none.
    pub source: String,
    /// Whether the source is a counter. Otherwise the route is inferred.
    pub proven: bool,
}

impl RouteCounts {
    /// The route if libcufile has no counters: from the counters of nvidia-fs if they changed, otherwise inferred.
    #[must_use]
    pub const fn without_libcufile(route: Route, nvfs_reads: Option<u64>, source: String, proven: bool) -> Self {
        Self { route, nvfs_reads, p2p_reads: None, posix_reads: None, source, proven }
    }

    /// Notes that the bytes on the target are wrong. Counters of transfers whose bytes did not arrive prove no route.
    pub fn brought_wrong_bytes(&mut self) {
        if self.proven {
            self.proven = false;
            self.source.push_str(": the bytes on the target are wrong");
        }
    }

    /// Whether counters prove that every read used a direct route.
    #[must_use]
    pub fn straight(&self) -> bool {
        self.proven && self.route.is_direct() && self.posix_reads.unwrap_or(0) == 0
    }
}

/// Measurements of a command from outside of its process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outside {
    /// The name and version that the command reported.
    pub program: Option<String>,
    /// `status 0` or `signal 9`.
    pub exit: String,
    /// The last lines of its standard output and standard error.
    #[serde(alias = "last_words")]
    pub stderr_tail: Option<String>,
    /// When the wall time starts and ends.
    pub clock: String,
    /// The source of the number of bytes.
    pub bytes_source: String,
    /// The largest number of processes at one time.
    pub processes: u32,
    /// The bytes that system calls read during the clock (`rchar` of `/proc/PID/io`), of all processes.
    pub read_call_bytes: Option<u64>,
    /// The bytes that were read from storage during the clock (`read_bytes`), of all processes.
    pub storage_read_bytes: Option<u64>,
    /// The page faults during the clock that read from storage.
    pub major_faults: Option<u64>,
    /// The peak of resident memory in bytes. Shared pages count once per process.
    pub rss_peak_bytes: Option<u64>,
    /// The peak of resident memory in bytes. Shared pages count once.
    pub pss_peak_bytes: Option<u64>,
}

/// The engine that `auto` chose for a run, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoChoice {
    /// The engine that loaded the model.
    pub engine: Engine,
    /// The reason. `None` if it was not recorded, or if several loads had different reasons.
    pub reason: Option<AutoReason>,
}

/// Why `auto` chose an engine. [`RunResult::cache_resident_before_fraction`] is the share of the model in the page
/// cache, which `auto` checks first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AutoReason {
    /// Most of the model is in the page cache, so reads through the page cache are faster.
    Cached,
    /// The cuFile counters showed this direct route for a read before the clock.
    DirectRoute(Route),
    /// The model is not in the page cache, and its file system supports `O_DIRECT` reads.
    NotCached,
    /// The model is not in the page cache, but its file system does not support `O_DIRECT` reads.
    NoDirectIo,
}

/// The result of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The engine.
    pub engine: Engine,
    /// The model's name.
    pub model: String,
    /// The requested cache state.
    pub cache: CacheState,
    /// The share of the model's pages in the page cache just before the clock started, 0 to 1. `None` if it could not
    /// be read.
    pub cache_resident_before_fraction: Option<f64>,
    /// The target of the bytes.
    pub target: TargetName,
    /// The number of the repeat, from 0.
    pub repeat: u32,
    /// The tensor bytes that were loaded.
    pub bytes: u64,
    /// The time from the start of the clock (CUDA context open, no memory pinned) until all tensors are on the
    /// target, in nanoseconds.
    pub wall_ns: u64,
    /// The time before the clock in nanoseconds: process start, CUDA context, opening the library and its driver.
    pub setup_ns: u64,
    /// `bytes` divided by `wall_ns`, per second.
    pub bytes_per_s: f64,
    /// Whether every byte on the target equals the file. `None` if verification was off or did not finish.
    pub verified: Option<bool>,
    /// The route of the reads. `None` for engines that do not use cuFile.
    pub route: Option<RouteCounts>,
    /// The time by phase, averaged over the slots. Together with `idle` the phases add up to `wall_ns`.
    pub phases: PhaseTimes,
    /// The number of slots (timelines of workers).
    pub slots: u32,
    /// The peak resident memory of the process during the load in bytes (`VmHWM`).
    pub host_peak_bytes: Option<u64>,
    /// The part of `host_peak_bytes` that is not mapped files, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_anonymous_bytes: Option<u64>,
    /// The part of `host_peak_bytes` that is mapped files, in bytes (the peak of `RssFile`). The kernel can drop it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_file_bytes: Option<u64>,
    /// The peak of pinned memory in bytes.
    pub pinned_peak_bytes: Option<u64>,
    /// The device memory that the engine allocated, in bytes.
    pub gpu_peak_bytes: Option<u64>,
    /// The CPU time of the process during the clock (user and system), in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// The settings that the engine used, by name.
    #[serde(alias = "knobs")]
    pub settings: BTreeMap<SettingName, u64>,
    /// The reason for each setting in a few words: the machine, the model, or the user's order.
    #[serde(default, alias = "knobs_why", skip_serializing_if = "BTreeMap::is_empty")]
    pub settings_why: BTreeMap<SettingName, String>,
    /// The parts of the set-up time in nanoseconds, by name: `process`, `context`, `library`, `driver_open`.
    pub setup_parts_ns: BTreeMap<String, u64>,
    /// The engine that `auto` chose. `None` for other engines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_choice: Option<AutoChoice>,
    /// The first position where the bytes on the target differ from the file. `None` if no difference was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_difference: Option<String>,
    /// The number of cuFile reads that failed and were repeated with pread and a copy. `None` for engines that do not
    /// repeat reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated_reads: Option<u64>,
    /// Notes of the engine: fallbacks, limits, values that could not be measured.
    pub notes: Vec<Note>,
    /// The reason why the run failed, in a sentence. `None` if it succeeded.
    pub error: Option<String>,
    /// Measurements of a command from outside. `None` for engines of gds-top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<Outside>,
    /// Measurements that only workloads have. `None` for loads of models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadResult>,
}

/// A cold run with more than this share of the model in the page cache before it was not cold.
const NOT_COLD: f64 = 0.05;

/// The share of the model in the page cache before a run that should be cold and was not. `None` for other runs.
#[must_use]
pub fn cached_before(cache: CacheState, resident_before_fraction: Option<f64>) -> Option<f64> {
    resident_before_fraction.filter(|share| cache == CacheState::Cold && *share > NOT_COLD)
}

impl RunResult {
    /// Creates a result without measurements.
    #[must_use]
    pub fn new(engine: Engine, model: impl Into<String>, cache: CacheState, target: impl Into<TargetName>) -> Self {
        Self {
            engine,
            model: model.into(),
            cache,
            cache_resident_before_fraction: None,
            target: target.into(),
            repeat: 0,
            bytes: 0,
            wall_ns: 0,
            setup_ns: 0,
            bytes_per_s: 0.0,
            verified: None,
            route: None,
            phases: PhaseTimes::default(),
            slots: 0,
            host_peak_bytes: None,
            host_anonymous_bytes: None,
            host_file_bytes: None,
            pinned_peak_bytes: None,
            gpu_peak_bytes: None,
            cpu_ns: None,
            settings: BTreeMap::new(),
            settings_why: BTreeMap::new(),
            setup_parts_ns: BTreeMap::new(),
            auto_choice: None,
            first_difference: None,
            repeated_reads: None,
            notes: Vec::new(),
            error: None,
            outside: None,
            workload: None,
        }
    }

    /// The value of a setting that the engine used.
    #[must_use]
    pub fn setting(&self, setting: Setting) -> Option<u64> {
        self.settings.get(setting.name()).copied()
    }

    /// The engine that `auto` chose. `None` for other engines.
    #[must_use]
    pub fn chosen_engine(&self) -> Option<&Engine> {
        self.auto_choice.as_ref().map(|choice| &choice.engine)
    }

    /// The reason why the run failed. `None` if it succeeded.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        match (&self.error, self.verified) {
            (Some(error), _) => Some(Failure::Error(error.clone())),
            (None, Some(false)) => Some(Failure::WrongBytes(self.first_difference.clone())),
            (None, _) => None,
        }
    }

    /// The share of the model in the page cache before a run that should be cold and was not. `None` for other runs.
    #[must_use]
    pub fn cached_before(&self) -> Option<f64> {
        cached_before(self.cache, self.cache_resident_before_fraction)
    }

    /// Whether its time and bytes count: it succeeded, took time, and has no wrong bytes.
    #[must_use]
    pub const fn is_good(&self) -> bool {
        self.error.is_none() && !matches!(self.verified, Some(false)) && self.wall_ns > 0
    }

    /// Whether it is unknown if the model was loaded. This is true for a command that did not verify bytes and for
    /// which less than half of `whole_bytes` was reported or counted. The command may have read from mappings, which
    /// are not counted, or not at all.
    #[must_use]
    pub fn in_doubt(&self, complete_bytes: u64) -> bool {
        self.outside.is_some() && self.verified.is_none() && self.bytes < complete_bytes / 2
    }
}
